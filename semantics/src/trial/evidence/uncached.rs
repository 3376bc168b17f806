//! Whether a route that does not use the cache could: all its responses were for all clients, by their own fields and by comparison. The
//! proposal that follows removes `cache.enabled = false`.

use super::{PageAnswer, PageComparison, REQUESTS, compare};
use crate::field::Field;
use crate::freshness::LifetimeSource;
use crate::policy::Policy;
use crate::storable::{NotStorable, Storable};
use crate::stored::Meta;
use crate::trial::audience::url_of;
use crate::trial::{RecordedRequest, ServedBy, judge, rule};
use std::collections::{BTreeMap, BTreeSet};

/// The responses of a route that were all for all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareableResponses {
    /// The recorded requests whose responses could have been stored.
    pub could: u64,
    /// Their pages, each of which has to be fetched once.
    pub pages: u64,
    /// All recorded requests of the route.
    pub all: u64,
}

/// The recorded requests of one route without a cache.
pub struct UncachedEvidence<'r> {
    /// The policy with the cache, and without lifetimes other than those that responses declare.
    policy: Policy,
    pages: BTreeMap<u64, Vec<(PageAnswer<'r>, bool)>>,
    is_refused: bool,
    all: u64,
}

impl<'r> UncachedEvidence<'r> {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let policy = Policy {
            enabled: true,
            default_ttl: None,
            override_ttl: None,
            status_ttl: Vec::new(),
            heuristic_percent: 0,
            store_set_cookie: false,
            ..policy.clone()
        };
        Self { policy, pages: BTreeMap::new(), is_refused: false, all: 0 }
    }

    /// Notes the request `number`.
    pub fn note(&mut self, number: usize, request: &RecordedRequest<'r>) {
        let Some(response) = request.response.filter(|_| request.served == ServedBy::Origin) else { return };
        self.all += u64::from(request.weight);
        if request.method != "GET" || self.is_refused || response.status >= 500 {
            return;
        }
        // Credentials of the request would hide what the response says of itself.
        let plain: Vec<Field<'_>> = request.fields.iter().filter(|it| !it.is("cookie")).copied().collect();
        let plain = RecordedRequest { fields: &plain, ..*request };
        let by_itself = judge(&plain, &plain.facts(), &self.policy, &response);
        self.is_refused |= matches!(by_itself, Storable::Refuse(it) if is_of_one_client(it));
        let policy = rule(&self.policy, request, &response);
        let meta = Meta::of(response.status, response.fields, policy, response.time, response.time);
        // A lifetime of the route would share what declares nothing.
        let declares_nothing = meta.lifetime.source == LifetimeSource::None && !meta.no_cache;
        self.is_refused |= declares_nothing && response.status < 300;
        let is_stored = !meta.no_cache
            && !meta.lifetime.is_zero()
            && judge(request, &request.facts(), &self.policy, &response) == Storable::Store;
        if let Some(answer) = PageAnswer::of(number, request, request.client) {
            self.pages.entry(url_of(request)).or_default().push((answer, is_stored));
        }
    }

    /// The judgement: `None` if a response was for one client, responses to a URL differed, or too few could be stored.
    #[must_use]
    pub fn verdict(&self) -> Option<ShareableResponses> {
        let mut found = ShareableResponses { could: 0, pages: 0, all: self.all };
        for page in self.pages.values() {
            let answers: Vec<&PageAnswer<'r>> = page.iter().map(|it| &it.0).collect();
            if let PageComparison::Differs(_) = compare(&answers, &BTreeSet::new(), &mut BTreeMap::new()) {
                return None;
            }
            let stored = page.iter().filter(|it| it.1).map(|it| u64::from(it.0.weight)).sum::<u64>();
            found.could += stored;
            found.pages += u64::from(stored > 0);
        }
        let is_worth = !self.is_refused && found.could >= REQUESTS && found.could > found.pages;
        is_worth.then_some(found)
    }
}

/// Whether the rule is about responses for one client.
fn is_of_one_client(it: NotStorable) -> bool {
    use NotStorable::{Authorization, NoStore, Private, SetCookie, VaryStar};
    matches!(it, Private | NoStore | SetCookie | VaryStar | Authorization)
}
