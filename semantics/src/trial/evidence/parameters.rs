//! Query parameters that change no page of a route: a page had equal responses for several values of each. The proposal that follows
//! removes them from the key and from requests to the origin.

use super::{PageAnswer, PageComparison, REQUESTS, compare, frequent, proven};
use crate::analytics;
use crate::key::QueryPolicy;
use crate::parameter::matches_decoded;
use crate::policy::Policy;
use crate::secret;
use crate::storable::Storable;
use crate::stored::Meta;
use crate::trial::{RecordedRequest, ServedBy, group_of, judge, rule};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// The most parameters of a route that are kept because they change a page: with more, the evidence is weak.
const KEPT: usize = 4;

/// Parameters that change no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedlessParameters {
    /// Their names.
    pub names: Vec<String>,
    /// Patterns of analytics that match further parameters of the requests.
    pub analytics: Vec<String>,
    /// The recorded requests that have one of them.
    pub requests: u64,
    /// Their pages, each of which has to be fetched once.
    pub pages: u64,
    /// All recorded requests to the origin for pages that are stored.
    pub all: u64,
}

/// Parameters whose order changes no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderedParameters {
    /// The recorded requests for pages whose parameters came in several orders.
    pub requests: u64,
    /// Their pages, each of which has to be fetched once.
    pub pages: u64,
    /// All recorded requests to the origin for pages that are stored.
    pub all: u64,
}

/// A path, and the parameters that the key keeps.
type PageKey<'r> = (u64, Vec<(&'r [u8], &'r [u8])>);

/// The recorded requests of one route.
pub struct ParameterEvidence<'p, 'r> {
    policy: &'p Policy,
    answers: Vec<(u64, PageAnswer<'r>)>,
    /// Names in requests for what is not stored: they may mean anything.
    unknown: BTreeSet<&'r [u8]>,
    all: u64,
}

impl<'p, 'r> ParameterEvidence<'p, 'r> {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &'p Policy) -> Self {
        Self { policy, answers: Vec::new(), unknown: BTreeSet::new(), all: 0 }
    }

    /// Notes the request `number`.
    pub fn note(&mut self, number: usize, request: &RecordedRequest<'r>) {
        let Some(response) = request.response.filter(|_| request.served == ServedBy::Origin) else { return };
        if !matches!(self.policy.key.query, QueryPolicy::All | QueryPolicy::Drop(_)) {
            return;
        }
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let pairs: Vec<_> = pairs(query).filter(|it| !self.is_dropped(it.0)).collect();
        if request.method != "GET"
            || judge(request, &request.facts(), self.policy, &response) != Storable::Store
        {
            return self.unknown.extend(pairs.iter().map(|it| it.0));
        }
        self.all += u64::from(request.weight);
        let sender = xxh3_64(query.as_bytes());
        let Some(mut answer) = PageAnswer::of(number, request, sender) else { return };
        answer.pairs = pairs;
        let policy = rule(self.policy, request, &response);
        let meta = Meta::of(response.status, response.fields, policy, response.time, response.time);
        let page = format!("{}://{}{path}", request.scheme, request.authority);
        self.answers.push((group_of(request, page.as_bytes(), &meta), answer));
    }

    /// The parameters, if there are any.
    #[must_use]
    pub fn verdict(&self) -> Option<NeedlessParameters> {
        let mut dropped = frequent(self.answers.iter().map(|it| &it.1));
        dropped.retain(|it| self.may_leave(it));
        for _ in 0..=KEPT {
            if self.differing(&dropped).0 == 0 {
                return self.needless(&dropped);
            }
            // The one that explains most differences, with the fewest pages: one with a value for each request explains nothing.
            let without = |name: &[u8]| dropped.iter().copied().filter(|it| *it != name).collect();
            let kept = dropped.iter().copied().min_by_key(|it| self.differing(&without(it)))?;
            dropped.remove(kept);
        }
        None
    }

    /// Pages that were the same for each order of their parameters; `None` if there is none, or if the order changed one.
    #[must_use]
    pub fn reordered(&self) -> Option<ReorderedParameters> {
        if self.policy.key.sort_query {
            return None;
        }
        let mut pages: BTreeMap<PageKey<'r>, Vec<&PageAnswer<'r>>> = BTreeMap::new();
        for (page, it) in &self.answers {
            // As `cache.key.sort` does: stable for equal names.
            let mut pairs = it.pairs.clone();
            pairs.sort_by_key(|it| it.0);
            pages.entry((*page, pairs)).or_default().push(it);
        }
        let mut found = ReorderedParameters { requests: 0, pages: 0, all: self.all };
        for page in pages.values().filter(|page| page.iter().any(|it| it.pairs != page[0].pairs)) {
            if !matches!(compare(page, &BTreeSet::new(), &mut BTreeMap::new()), PageComparison::Equal) {
                return None;
            }
            found.requests += page.iter().map(|it| u64::from(it.weight)).sum::<u64>();
            found.pages += 1;
        }
        (found.requests >= REQUESTS && found.requests > found.pages).then_some(found)
    }

    fn is_dropped(&self, name: &[u8]) -> bool {
        matches!(&self.policy.key.query, QueryPolicy::Drop(all) if all.iter().any(|it| matches_decoded(it, name)))
    }

    /// Whether a parameter with this name may leave the requests: it is plain, no secret, and every request with it was
    /// for a page that is stored.
    fn may_leave(&self, name: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(name) else { return false };
        let is_plain = text.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.'));
        is_plain && !secret::is_secret_parameter(text) && !self.unknown.contains(name)
    }

    /// The answers by page, where the key has none of these parameters.
    fn pages(&self, dropped: &BTreeSet<&'r [u8]>) -> BTreeMap<PageKey<'r>, Vec<&PageAnswer<'r>>> {
        let mut pages: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (page, it) in &self.answers {
            let pairs = it.pairs.iter().filter(|it| !dropped.contains(it.0)).copied().collect();
            pages.entry((*page, pairs)).or_default().push(it);
        }
        pages
    }

    /// The pages whose responses differ, and all of them.
    fn differing(&self, dropped: &BTreeSet<&'r [u8]>) -> (usize, usize) {
        let pages = self.pages(dropped);
        let differ = |it: &&Vec<&PageAnswer<'r>>| {
            matches!(compare(it, dropped, &mut BTreeMap::new()), PageComparison::Differs(_))
        };
        (pages.values().filter(differ).count(), pages.len())
    }

    fn needless(&self, dropped: &BTreeSet<&'r [u8]>) -> Option<NeedlessParameters> {
        let (pages, mut compared) = (self.pages(dropped), BTreeMap::new());
        for page in pages.values() {
            compare(page, dropped, &mut compared);
        }
        let pattern = |name: &[u8]| analytics::PARAMETERS.iter().find(|it| matches_decoded(it, name));
        let proven = proven(&compared);
        let has_one = |it: &PageAnswer<'r>| it.pairs.iter().any(|it| proven.contains(it.0));
        let with_one: Vec<Vec<_>> =
            pages.values().map(|page| page.iter().filter(|it| has_one(it)).collect()).collect();
        let requests = with_one.iter().flatten().map(|it| u64::from(it.weight)).sum::<u64>();
        let pages = with_one.iter().filter(|it| !it.is_empty()).count() as u64;
        let text = |it: &&[u8]| String::from_utf8(it.to_vec()).ok();
        let found: Vec<String> = proven.iter().filter(|it| pattern(it).is_none()).filter_map(text).collect();
        let analytics: BTreeSet<&str> = dropped.iter().filter_map(|it| pattern(it)).copied().collect();
        let analytics = analytics.into_iter().map(str::to_owned).collect();
        let is_worth = !found.is_empty() && requests >= REQUESTS && requests > pages;
        is_worth.then_some(NeedlessParameters { names: found, analytics, requests, pages, all: self.all })
    }
}

/// The parameters of a query, names and values as written.
fn pairs(query: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split('&').filter(|it| !it.is_empty()).map(|it| {
        let (name, value) = it.split_once('=').unwrap_or((it, ""));
        (name.as_bytes(), value.as_bytes())
    })
}
