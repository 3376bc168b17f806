//! The cache of a trial: responses with their lifetimes, without bodies and without bounds.

use super::{HitShare, RecordedRequest, RecordedResponse, judge, meta, rule};
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::reuse::{self, ForwardReason, Reuse};
use crate::storable::Storable;
use crate::stored::Meta;
use crate::trace::Silent;
use crate::vary;
use larder_stdx::clock::WallTime;
use std::collections::HashMap;

/// The answer of the cache to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelAnswer {
    /// A stored response.
    Hit,
    /// The origin is asked.
    Miss,
    /// The cache takes no part.
    None,
    /// The response of the origin is not known.
    Unknown,
}

/// A request to the cache.
pub(super) struct ModelRequest<'m, 'r> {
    pub request: &'m RecordedRequest<'r>,
    pub facts: &'m RequestFacts<'m>,
    /// A hash of the key.
    pub key: u64,
    pub policy: &'m Policy,
    /// The response that the origin gives.
    pub response: Option<RecordedResponse<'r>>,
    /// When a response under this key arrived before the first recorded request for it.
    pub seed: Option<WallTime>,
}

/// A stored response.
struct ModelEntry {
    meta: Meta,
    variant: Vec<u8>,
    /// Seconds from the recorded exchange of these facts to the one in the trial.
    shift: i64,
}

/// The cache under one configuration.
#[derive(Default)]
pub(super) struct CacheModel {
    entries: HashMap<u64, Vec<ModelEntry>>,
    /// The requests of each key.
    requests: HashMap<u64, u64>,
    share: HitShare,
    /// Misses that stand for several requests: the key, their number, and the lifetime of the response.
    sampled: Vec<(u64, u32, u32)>,
}

impl CacheModel {
    /// Answers a request, and stores the response of the origin where that is asked.
    pub fn see(&mut self, it: &ModelRequest<'_, '_>) -> ModelAnswer {
        let weight = it.request.weight;
        *self.requests.entry(it.key).or_default() += u64::from(weight);
        let is_new = !self.entries.contains_key(&it.key);
        if let (true, Some(at), Some(response)) = (is_new, it.seed, it.response) {
            self.store(it, &response, at);
        }
        let entries = self.entries.entry(it.key).or_default();
        let found = entries.iter().find(|entry| {
            let mut own = Vec::new();
            vary::write_key(entry.meta.vary(), it.request.fields, &mut own);
            own == entry.variant
        });
        let usable = found.map_or(Err(ForwardReason::UriMiss), |entry| Ok(&entry.meta));
        let now = WallTime(it.request.time.0.saturating_add_signed(-found.map_or(0, |entry| entry.shift)));
        match reuse::decide(usable, it.facts, it.policy, now, &mut Silent) {
            Reuse::Serve | Reuse::ServeStale => self.hit(weight),
            Reuse::ServeWhileRevalidating => {
                if let Some(response) = it.response {
                    self.store(it, &response, it.request.time);
                }
                self.hit(weight)
            }
            Reuse::GatewayTimeout => ModelAnswer::None,
            Reuse::Validate(_) | Reuse::Forward(_) => {
                let Some(response) = it.response else { return ModelAnswer::Unknown };
                let lifetime = self.store(it, &response, it.request.time);
                self.miss(it.key, weight, lifetime)
            }
        }
    }

    /// Counts a request that bypasses the cache.
    pub fn passed(&mut self, weight: u32) -> ModelAnswer {
        self.share.all += f64::from(weight);
        ModelAnswer::Miss
    }

    /// The share of hits, over a time in seconds. A recorded miss of a sample stands for several requests, most of which find
    /// the response that the first of them stored. Their number follows from the rate of requests and the lifetime.
    pub fn share(&self, seconds: u64) -> HitShare {
        let mut share = self.share;
        for (key, weight, lifetime) in &self.sampled {
            let (weight, lifetime) = (f64::from(*weight), f64::from(*lifetime));
            #[allow(clippy::cast_precision_loss, reason = "counts of recorded requests")]
            let rate = self.requests.get(key).copied().unwrap_or(1) as f64 / seconds as f64;
            let misses = (rate * lifetime + weight) / (rate * lifetime + 1.0);
            share.hits += weight - misses.min(weight);
        }
        share
    }

    fn hit(&mut self, weight: u32) -> ModelAnswer {
        self.share.hits += f64::from(weight);
        self.share.all += f64::from(weight);
        ModelAnswer::Hit
    }

    fn miss(&mut self, key: u64, weight: u32, lifetime: u32) -> ModelAnswer {
        self.share.all += f64::from(weight);
        if weight > 1 {
            self.sampled.push((key, weight, lifetime));
        }
        ModelAnswer::Miss
    }

    /// Stores a response that arrives at `at`, if it may be stored; returns its lifetime in seconds.
    fn store(&mut self, it: &ModelRequest<'_, '_>, response: &RecordedResponse<'_>, at: WallTime) -> u32 {
        let policy = rule(it.policy, it.request, response);
        let meta = meta(policy, response);
        let mut variant = Vec::new();
        vary::write_key(meta.vary(), it.request.fields, &mut variant);
        let entries = self.entries.entry(it.key).or_default();
        entries.retain(|entry| entry.variant != variant || entry.meta.vary() != meta.vary());
        if judge(it.request, it.facts, it.policy, response) != Storable::Store {
            return 0;
        }
        let seconds = meta.lifetime.seconds;
        let shift = i64::try_from(at.0).unwrap_or(0) - i64::try_from(response.time.0).unwrap_or(0);
        entries.push(ModelEntry { meta, variant, shift });
        seconds
    }
}
