//! Requests that demand a new response (`no-cache`, `max-age`) of a page that a cache could answer, and the client that sends most of them.

use crate::policy::{Policy, RequestDirectivePolicy};
use crate::request::RequestFacts;
use crate::storable::Storable;
use crate::stored::Meta;
use crate::trial::audience::url_of;
use crate::trial::{RecordedRequest, ServedBy, judge, rule};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The requests of a route that demand a new response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandedResponses {
    /// Those whose responses could have been stored.
    pub could: u64,
    /// Their pages, each of which has to be fetched once.
    pub pages: u64,
    /// All of them.
    pub all: u64,
    /// The number of clients that send them.
    pub clients: usize,
    /// The client with the most of them, and their number.
    pub most: Option<(IpAddr, u64)>,
}

/// The recorded requests of one route.
pub struct DemandEvidence {
    /// The policy without these directives.
    policy: Policy,
    could: u64,
    all: u64,
    pages: BTreeSet<u64>,
    clients: BTreeMap<IpAddr, u64>,
    /// Whether a request has `no-store`: its client wants nothing kept.
    has_no_store: bool,
}

impl DemandEvidence {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let policy = Policy { request_directives: RequestDirectivePolicy::Harmless, ..policy.clone() };
        let (pages, clients) = (BTreeSet::new(), BTreeMap::new());
        Self { policy, could: 0, all: 0, pages, clients, has_no_store: false }
    }

    /// Notes a request of this client.
    pub fn note(&mut self, request: &RecordedRequest<'_>, client: Option<IpAddr>) {
        let facts = request.facts();
        self.has_no_store |= facts.directives.no_store;
        if !demands(&facts) || request.method != "GET" {
            return;
        }
        let Some(response) = request.response.filter(|_| request.served == ServedBy::Origin) else { return };
        let weight = u64::from(request.weight);
        self.all += weight;
        let policy = rule(&self.policy, request, &response);
        let meta = Meta::of(response.status, response.fields, policy, response.time, response.time);
        let is_stored = judge(request, &facts, &self.policy, &response) == Storable::Store;
        if is_stored && !meta.no_cache && !meta.lifetime.is_zero() {
            self.could += weight;
            self.pages.insert(url_of(request));
            client.into_iter().for_each(|it| *self.clients.entry(it.to_canonical()).or_default() += weight);
        }
    }

    /// The judgement: `None` if none of them could be a hit, or a request of the route has `no-store`.
    #[must_use]
    pub fn verdict(&self) -> Option<DemandedResponses> {
        let most = self.clients.iter().max_by_key(|it| it.1).map(|it| (*it.0, *it.1));
        let (pages, clients) = (self.pages.len() as u64, self.clients.len());
        let is_found = !self.has_no_store && self.could > pages;
        is_found.then_some(DemandedResponses { could: self.could, pages, all: self.all, clients, most })
    }
}

fn demands(facts: &RequestFacts<'_>) -> bool {
    facts.directives.no_cache || facts.directives.max_age.is_some()
}
