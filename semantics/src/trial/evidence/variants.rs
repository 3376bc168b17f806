//! The fields in `Vary` that make variants of a page: those of which recorded requests have several values.

use crate::policy::Policy;
use crate::storable::Storable;
use crate::stored::Meta;
use crate::trial::audience::url_of;
use crate::trial::{RecordedRequest, ServedBy, judge, rule};
use crate::vary;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// The most pages that are compared.
const PAGES: usize = 1024;

/// A field in `Vary` with several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaryingField {
    /// Its name, as usually written: `User-Agent`.
    pub name: String,
    /// The different values in recorded requests for one page: the most.
    pub values: usize,
}

/// The recorded requests of one route.
pub struct VariantEvidence<'p> {
    policy: &'p Policy,
    /// By page and field the hashes of the values, as they are in a key of variants.
    pages: BTreeMap<u64, BTreeMap<Box<str>, BTreeSet<u64>>>,
}

impl<'p> VariantEvidence<'p> {
    /// For a route with this policy.
    #[must_use]
    pub fn new(policy: &'p Policy) -> Self {
        Self { policy, pages: BTreeMap::new() }
    }

    /// Notes a request.
    pub fn note(&mut self, request: &RecordedRequest<'_>) {
        let Some(response) = request.response.filter(|_| request.served == ServedBy::Origin) else { return };
        if judge(request, &request.facts(), self.policy, &response) != Storable::Store {
            return;
        }
        let policy = rule(self.policy, request, &response);
        let meta = Meta::of(response.status, response.fields, policy, response.time, response.time);
        let url = url_of(request);
        if meta.vary().is_empty() || self.pages.len() >= PAGES && !self.pages.contains_key(&url) {
            return;
        }
        let page = self.pages.entry(url).or_default();
        for name in meta.vary() {
            let mut value = Vec::new();
            vary::write_key(std::slice::from_ref(name), request.fields, &mut value);
            page.entry(name.clone()).or_default().insert(xxh3_64(&value));
        }
    }

    /// The fields, that with the most values first.
    #[must_use]
    pub fn verdict(&self) -> Vec<VaryingField> {
        let mut most: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, values) in self.pages.values().flatten() {
            let it = most.entry(name).or_default();
            *it = values.len().max(*it);
        }
        let mut found: Vec<VaryingField> = most
            .into_iter()
            .filter(|it| it.1 > 1)
            .map(|(name, values)| VaryingField { name: written(name), values })
            .collect();
        found.sort_by_key(|it| std::cmp::Reverse(it.values));
        found
    }
}

/// The name of a field as it is usually written.
fn written(name: &str) -> String {
    let mut is_first = true;
    let upper = |it: char| {
        let is_upper = std::mem::replace(&mut is_first, it == '-');
        if is_upper { it.to_ascii_uppercase() } else { it }
    };
    name.chars().map(upper).collect()
}
