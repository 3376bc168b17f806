//! Faults of the application that recent requests of one route show: a URL whose requests all fail, and origins that disagree on whether
//! responses to one URL may be shared.

use super::REQUESTS;
use crate::field::Field;
use crate::policy::Policy;
use crate::storable::{NotStorable, Storable};
use crate::trial::audience::url_of;
use crate::trial::facts;
use crate::trial::{RecordedRequest, ServedBy, judge};
use std::collections::BTreeMap;

/// The most failing requests among those for other URLs of the route, per cent.
const OTHERS: u64 = 10;
/// The fewest responses of each of two origins that disagree: their clients differ as well, so a few may do so by chance.
const RESPONSES: u64 = 8;
/// The same of both together, with the fewest of each and the fewest URLs, where each of the two responds in one way to all requests of the
/// route: a page is stored after the first response that may be, so that no other one comes.
const STEADY: (u64, u64, usize) = (12, 4, 3);

/// A URL whose requests all fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingUrl {
    /// The number of its last request.
    pub number: usize,
    /// Its requests.
    pub requests: u64,
    /// The status of the last response.
    pub status: u16,
}

/// Two origins, of which only the first lets responses to the same URLs be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The number of a request for such a URL.
    pub number: usize,
    /// The origin that permits sharing, and its responses.
    pub shares: (u64, u64),
    /// The one that forbids it, and its responses.
    pub forbids: (u64, u64),
}

/// The recent requests of one route.
pub struct RouteFaults<'p> {
    policy: &'p Policy,
    urls: BTreeMap<u64, UrlTroubles>,
    requests: u64,
    failed: u64,
}

struct UrlTroubles {
    number: usize,
    requests: u64,
    failed: u64,
    status: u16,
    /// By origin the responses that may be shared, and those that may not.
    origins: BTreeMap<u64, [u64; 2]>,
    /// The same of requests that identify no client: sessions may be bound to an origin.
    anonymous: BTreeMap<u64, [u64; 2]>,
}

impl<'p> RouteFaults<'p> {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &'p Policy) -> Self {
        Self { policy, urls: BTreeMap::new(), requests: 0, failed: 0 }
    }

    /// Notes the request `number`, which this origin answered, if one did.
    pub fn note(&mut self, number: usize, request: &RecordedRequest<'_>, origin: u64) {
        let (weight, is_of_origin) = (u64::from(request.weight), request.served == ServedBy::Origin);
        if request.method != "GET" || request.served == ServedBy::Other {
            return;
        }
        let has_failed = is_of_origin && request.status >= 500;
        self.requests += weight;
        self.failed += if has_failed { weight } else { 0 };
        let it = self.urls.entry(url_of(request)).or_insert_with(|| UrlTroubles {
            number,
            requests: 0,
            failed: 0,
            status: 0,
            origins: BTreeMap::new(),
            anonymous: BTreeMap::new(),
        });
        it.number = number;
        it.requests += weight;
        it.failed += if has_failed { weight } else { 0 };
        it.status = request.status;
        let Some(response) = request.response.filter(|it| is_of_origin && it.status == 200 && origin != 0)
        else {
            return;
        };
        let plain: Vec<Field<'_>> = request.fields.iter().filter(|it| !it.is("cookie")).copied().collect();
        let plain = RecordedRequest { fields: &plain, ..*request };
        let forbids = match judge(&plain, &plain.facts(), self.policy, &response) {
            Storable::Store => 0,
            Storable::Refuse(NotStorable::Private | NotStorable::NoStore) => 1,
            Storable::Refuse(_) => return,
        };
        it.origins.entry(origin).or_default()[forbids] += 1;
        if !facts::has_identity(request.fields) {
            it.anonymous.entry(origin).or_default()[forbids] += 1;
        }
    }

    /// The URLs whose requests all fail, while the others of the route are answered.
    pub fn failing(&self) -> impl Iterator<Item = FailingUrl> {
        let is_failing = |it: &&UrlTroubles| {
            let (others, failed) = (self.requests - it.requests, self.failed - it.failed);
            it.requests >= REQUESTS
                && it.failed == it.requests
                && others >= REQUESTS
                && failed.saturating_mul(100) <= others.saturating_mul(OTHERS)
        };
        self.urls.values().filter(is_failing).map(|it| FailingUrl {
            number: it.number,
            requests: it.requests,
            status: it.status,
        })
    }

    /// The first two origins that disagree on each URL that both have answered.
    #[must_use]
    pub fn disagreement(&self) -> Option<Disagreement> {
        let mut pairs: BTreeMap<(u64, u64), Disagreement> = BTreeMap::new();
        let mut alike = Vec::new();
        for url in self.urls.values() {
            for (one, [shares, none]) in &url.origins {
                for (other, [some, forbids]) in url.origins.iter().filter(|it| it.0 != one) {
                    let pair = (*one, *other);
                    if *shares == 0 || *none > 0 || *some > 0 || *forbids == 0 {
                        if *shares > 0 && *some > 0 || *none > 0 && *forbids > 0 {
                            alike.push(pair);
                        }
                        continue;
                    }
                    let found = Disagreement { number: url.number, shares: (*one, 0), forbids: (*other, 0) };
                    let sum = pairs.entry(pair).or_insert(found);
                    sum.shares.1 += shares;
                    sum.forbids.1 += forbids;
                }
            }
        }
        let is_sure = |it: &Disagreement| it.shares.1.min(it.forbids.1) >= RESPONSES;
        let found = pairs.iter().find(|(pair, it)| is_sure(it) && !alike.contains(pair));
        found.map(|it| *it.1).or_else(|| pairs.values().find_map(|it| self.steady(it)))
    }

    /// The disagreement of two origins, if one lets all its responses to anonymous requests of the route be shared, and the other one none.
    fn steady(&self, of: &Disagreement) -> Option<Disagreement> {
        let sums = |origin: u64| {
            let all = self.urls.values().filter_map(|it| it.anonymous.get(&origin));
            all.fold([0, 0], |sum: [u64; 2], it| [sum[0] + it[0], sum[1] + it[1]])
        };
        let ([shares, none], [some, forbids]) = (sums(of.shares.0), sums(of.forbids.0));
        let has = |it: &UrlTroubles, origin: u64| it.anonymous.contains_key(&origin);
        let urls = self.urls.values().filter(|it| has(it, of.shares.0) && has(it, of.forbids.0)).count();
        let is_steady = none == 0
            && some == 0
            && shares + forbids >= STEADY.0
            && shares.min(forbids) >= STEADY.1
            && urls >= STEADY.2;
        is_steady.then_some(Disagreement {
            shares: (of.shares.0, shares),
            forbids: (of.forbids.0, forbids),
            ..*of
        })
    }
}
