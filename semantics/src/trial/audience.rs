//! Responses that a changed configuration shares and the running one does not: whether they are those of one client.

use super::facts;
use super::{CachingVerdict, RecordedRequest, RecordedResponse, SharedExample};
use crate::field::first;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// The most responses that are compared for one key and variant.
const COMPARED: usize = 64;

/// Why a response must not be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedReason {
    /// It has `Set-Cookie`.
    SetCookie,
    /// The response, or the running configuration, says that it is for one client.
    Private,
    /// Clients, or URLs, that would share it got different responses.
    Differed,
}

impl SharedReason {
    /// All of them.
    pub const ALL: [SharedReason; 3] =
        [SharedReason::SetCookie, SharedReason::Private, SharedReason::Differed];

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SharedReason::SetCookie => "set-cookie",
            SharedReason::Private => "private",
            SharedReason::Differed => "differed",
        }
    }

    /// One clause for display, after a number of responses.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            SharedReason::SetCookie => "have Set-Cookie",
            SharedReason::Private => {
                "are private: the response, or the running configuration, limits them to one client"
            }
            SharedReason::Differed => "differed between requests that would share one stored response",
        }
    }
}

/// One response of a key.
struct Observation {
    number: usize,
    weight: u32,
    /// A hash of what keeps it apart under the running configuration: its key, or its URL and client.
    identity: u64,
    digest: u64,
    is_new: bool,
}

/// The responses of a trial that are stored under the changed configuration.
#[derive(Default)]
pub struct SharingCheck {
    groups: BTreeMap<u64, Vec<Observation>>,
    found: Vec<SharedExample>,
}

impl SharingCheck {
    /// Notes a response that the changed configuration stores in `group`; `now` is the decision of the running one.
    pub(super) fn note(
        &mut self,
        number: usize,
        request: &RecordedRequest<'_>,
        response: &RecordedResponse<'_>,
        now: &CachingVerdict,
        running_key: Option<&[u8]>,
        group: u64,
    ) {
        let is_new = !now.is_stored();
        let weight = request.weight;
        let mut found = |reason| self.found.push(SharedExample { reason, number, weight });
        if is_new && first(response.fields, "set-cookie").is_some() {
            found(SharedReason::SetCookie);
        } else if is_new && now.of_one_client {
            found(SharedReason::Private);
        }
        // Only a response that this request itself got says something of its client.
        let own = request.response.map_or(response.digest, |it| it.digest);
        let identity = match running_key.filter(|_| !is_new) {
            Some(key) => xxh3_64(key),
            None => xxh3_64(request.target.as_bytes()) ^ request.client,
        };
        let group = self.groups.entry(group).or_default();
        if own != 0 && group.len() < COMPARED && (request.response.is_some() || !is_new) {
            group.push(Observation { number, weight, identity, digest: own, is_new });
        }
    }

    /// Every newly shared response that must not be shared, in the order of the requests for each reason.
    pub(super) fn finish(mut self) -> Vec<SharedExample> {
        for group in self.groups.values().filter(|it| differ(it)) {
            // Without a newly stored one, responses of several keys become those of one.
            let is_merge = group.iter().all(|it| !it.is_new);
            self.found.extend(group.iter().filter(|it| is_merge || it.is_new).map(|it| {
                let (number, weight) = (it.number, it.weight);
                SharedExample { reason: SharedReason::Differed, number, weight }
            }));
        }
        self.found.sort_by_key(|it| (it.reason, it.number));
        self.found
    }
}

/// Whether responses of one key differ between identities, and not only with the time. Where an identity got different
/// responses itself, and no response was seen twice, the page may change with every request.
fn differ(group: &[Observation]) -> bool {
    let Some(first) = group.first() else { return false };
    let is_apart =
        group.iter().any(|it| it.identity != first.identity && facts::differ(it.digest, first.digest));
    if !is_apart {
        return false;
    }
    let same = |a: &Observation, b: &Observation| a.number != b.number && a.identity == b.identity;
    let changes = group.iter().any(|a| group.iter().any(|b| same(a, b) && facts::differ(a.digest, b.digest)));
    let recurs = group.iter().any(|a| group.iter().any(|b| same(a, b) && a.digest == b.digest));
    !changes || recurs
}
