//! Responses that a changed configuration shares and the running one does not: whether they are those of one client.
//!
//! Bodies and fields are compared separately, so that a field that changes with each request hides no difference of bodies.

use super::facts;
use super::{CachingVerdict, RecordedRequest, RecordedResponse};
use crate::field::Field;
use std::collections::{BTreeMap, HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// Why a response must not be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedReason {
    /// It has `Set-Cookie`.
    SetCookie,
    /// The response, or the running configuration, says that it is for one client.
    Private,
    /// The running configuration demands credentials for it, and the changed one does not.
    Opened,
    /// Clients, or URLs, that would share it got different responses.
    Differed,
    /// It changes with each request, and its requests have credentials: no comparison shows whether it is one client's.
    Changes,
}

impl SharedReason {
    /// All of them.
    pub const ALL: [SharedReason; 5] = [
        SharedReason::SetCookie,
        SharedReason::Private,
        SharedReason::Opened,
        SharedReason::Differed,
        SharedReason::Changes,
    ];

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SharedReason::SetCookie => "set-cookie",
            SharedReason::Private => "private",
            SharedReason::Opened => "opened",
            SharedReason::Differed => "differed",
            SharedReason::Changes => "changes",
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
            SharedReason::Opened => {
                "are newly open: the running configuration demands credentials for them, this one does not"
            }
            SharedReason::Differed => "differed between requests that would share one stored response",
            SharedReason::Changes => {
                "change with each request, and the requests have cookies or credentials: whether they are private cannot be judged"
            }
        }
    }
}

/// A response that is newly shared and must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExample {
    /// Why not.
    pub reason: SharedReason,
    /// The number of its request.
    pub number: usize,
    /// The number of requests that it stands for.
    pub weight: u32,
}

/// The mark by which responses of a group differ: equal ones are one observation, so that the observations of a trial are bounded by
/// its different responses, and none of them is lost behind many equal ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ObservedResponse {
    /// A hash of what keeps it apart under the running configuration: its key and variant, or its URL and client.
    identity: u64,
    /// Of its body, or of its validators.
    digest: u64,
    /// Of its fields.
    head: u64,
    is_new: bool,
}

/// The requests that got one response.
struct ObservedRequests {
    /// The first of them.
    number: usize,
    weight: u32,
    /// How often an origin sent it.
    answers: u32,
    /// The times at which it did.
    sent: Option<SentTimes>,
    has_credentials: bool,
}

/// The times of a response between the first and the last request that got it from an origin, microseconds.
#[derive(Clone, Copy)]
pub(super) struct SentTimes {
    /// The end of the request that ended first: the response existed by then.
    first_end: u64,
    /// The beginning of the request that began last: the response still existed then.
    last_begin: u64,
}

impl SentTimes {
    /// Those of one request, from its beginning to its end.
    pub(super) fn of((last_begin, first_end): (u64, u64)) -> Self {
        Self { first_end, last_begin }
    }

    pub(super) fn joined(self, other: Self) -> Self {
        Self {
            first_end: self.first_end.min(other.first_end),
            last_begin: self.last_begin.max(other.last_begin),
        }
    }
}

type ObservedGroup = BTreeMap<ObservedResponse, ObservedRequests>;

/// The responses of a trial that are stored under the changed configuration.
#[derive(Default)]
pub struct SharingCheck {
    groups: BTreeMap<u64, ObservedGroup>,
    found: Vec<SharedExample>,
}

impl SharingCheck {
    /// Notes a response for which credentials are no longer demanded.
    pub(super) fn opened(&mut self, number: usize, weight: u32) {
        self.found.push(SharedExample { reason: SharedReason::Opened, number, weight });
    }

    /// Notes a response that the changed configuration stores in `group`; `now` is the decision of the running one.
    pub(super) fn note(
        &mut self,
        number: usize,
        request: &RecordedRequest<'_>,
        response: &RecordedResponse<'_>,
        now: &CachingVerdict,
        group: u64,
    ) {
        let is_new = !now.is_stored();
        let weight = request.weight;
        let mut found = |reason| self.found.push(SharedExample { reason, number, weight });
        if is_new && response.fields.iter().any(Field::sets_cookie) {
            found(SharedReason::SetCookie);
        } else if is_new && now.of_one_client {
            found(SharedReason::Private);
        }
        // Only a response that this request itself got says something of its client.
        let own = request.response.as_ref();
        if own.is_none() && is_new {
            return;
        }
        let observed = own.unwrap_or(response);
        let identity = now.group.unwrap_or_else(|| url_of(request) ^ request.client);
        let observed = ObservedResponse { identity, digest: observed.digest, head: observed.head, is_new };
        let has_credentials = facts::has_identity(request.fields);
        let group = self.groups.entry(group).or_default();
        let it = group.entry(observed).or_insert(ObservedRequests {
            number,
            weight: 0,
            answers: 0,
            sent: None,
            has_credentials,
        });
        it.weight = it.weight.saturating_add(weight);
        if own.is_some() {
            it.answers += 1;
            let these = SentTimes::of(request.span);
            it.sent = Some(it.sent.map_or(these, |before| before.joined(these)));
        }
        it.has_credentials |= has_credentials;
    }

    /// Every newly shared response that must not be shared, in the order of the requests for each reason.
    pub(super) fn finish(mut self) -> Vec<SharedExample> {
        for group in self.groups.values() {
            // Without a newly stored one, responses of several keys become those of one.
            let is_merge = group.keys().all(|it| !it.is_new);
            let identities: HashSet<u64> = group.keys().map(|it| it.identity).collect();
            if is_merge && identities.len() < 2 {
                continue; // It is shared as before.
            }
            let alternates = if alternates(group) { Difference::Identities } else { Difference::None };
            let found =
                difference(group, |it| it.digest).max(difference(group, |it| it.head)).max(alternates);
            let reason = match found {
                Difference::None => continue,
                Difference::Changes => SharedReason::Changes,
                Difference::Identities => SharedReason::Differed,
            };
            let is_shown = |seen: &ObservedResponse, it: &ObservedRequests| {
                (is_merge || seen.is_new) && (reason == SharedReason::Differed || it.has_credentials)
            };
            self.found.extend(group.iter().filter(|(seen, it)| is_shown(seen, it)).map(|(_, it)| {
                let (number, weight) = (it.number, it.weight);
                SharedExample { reason, number, weight }
            }));
        }
        self.found.sort_by_key(|it| (it.reason, it.number));
        self.found
    }
}

pub(super) fn url_of(request: &RecordedRequest<'_>) -> u64 {
    let parts = [request.scheme, request.authority, request.target];
    parts.iter().fold(0, |hash, it| xxh3_64(it.as_bytes()).wrapping_add(hash.rotate_left(1)))
}

/// The differences of the responses of one group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// None that is known.
    None,
    /// Each response of an identity is another one: nothing is known about different identities.
    Changes,
    /// Identities got different ones, and not only with the time.
    Identities,
}

/// Whether a body came back after another one was sent: the page did not change with the time alone. Then it differs by something that
/// no identity shows, such as a field that only the application knows, or a proxy before which all clients have one address. Of requests
/// that were in progress at the same time, either may have been answered first.
/// Fields are not compared so: those that name a server alternate among origins.
fn alternates(group: &ObservedGroup) -> bool {
    facts::classes().any(|class| {
        let mut sent: BTreeMap<u64, SentTimes> = BTreeMap::new();
        for (seen, it) in group.iter().filter(|it| it.0.digest != 0 && facts::class_of(it.0.digest) == class)
        {
            if let Some(these) = it.sent {
                sent.entry(seen.digest).and_modify(|it| *it = it.joined(these)).or_insert(these);
            }
        }
        are_interleaved(sent.into_values().collect())
    })
}

/// Whether a request for one response began after a request for another one had ended, and one for the other after one for the first.
pub(super) fn are_interleaved(mut all: Vec<SentTimes>) -> bool {
    all.sort_unstable_by_key(|it| it.first_end);
    // The latest beginning among the first n.
    let mut latest = vec![0];
    for it in &all {
        let later = all.partition_point(|other| other.first_end < it.last_begin).min(latest.len() - 1);
        if latest[later] > it.first_end {
            return true;
        }
        latest.push(latest[latest.len() - 1].max(it.last_begin));
    }
    false
}

/// The difference by one of two hashes. Where an identity got different responses itself, and no response was sent twice, the
/// page may change with every request.
fn difference(group: &ObservedGroup, of: impl Fn(&ObservedResponse) -> u64) -> Difference {
    // Hashes of bodies are not comparable with those of validators, nor with those of other content codings.
    let of_class = |class: u64| {
        let mut answers: HashMap<(u64, u64), u32> = HashMap::new();
        for (seen, it) in group.iter().filter(|it| of(it.0) != 0 && facts::class_of(of(it.0)) == class) {
            *answers.entry((seen.identity, of(seen))).or_default() += it.answers;
        }
        let identities: HashSet<u64> = answers.keys().map(|it| it.0).collect();
        let digests: HashSet<u64> = answers.keys().map(|it| it.1).collect();
        let changes = answers.len() > identities.len();
        let recurs = answers.values().any(|it| *it > 1);
        if identities.len() > 1 && digests.len() > 1 && (!changes || recurs) {
            Difference::Identities
        } else if changes && !recurs {
            Difference::Changes
        } else {
            Difference::None
        }
    };
    facts::classes().map(of_class).max().unwrap_or(Difference::None)
}
