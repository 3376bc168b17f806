//! The result of a trial: shares of hits, counts of changed requests with examples, and responses that are newly shared.

use super::{RecordedRequest, Seen, ServedBy, SharedExample, UnknownFact};
use larder_stdx::clock::WallTime;
use std::collections::HashSet;
use xxhash_rust::xxh3::xxh3_64;

/// The most examples of each kind.
pub const EXAMPLES: usize = 20;

/// The most URLs of a kind that are counted.
const URLS: usize = 4096;

/// Hits of all requests that went to the cache or to an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HitShare {
    /// Requests that got a stored response.
    pub hits: f64,
    /// All of them.
    pub all: f64,
}

impl HitShare {
    /// From 0 to 1; `None` without requests.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        (self.all > 0.0).then(|| self.hits / self.all)
    }
}

/// A difference between the configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Another route.
    Route,
    /// Another status.
    Status,
    /// The rules of access refused it, and admit it.
    Open,
    /// Another cache key.
    Key,
    /// The response is stored under one of them only.
    Storage,
    /// Another lifetime.
    Lifetime,
}

impl ChangeKind {
    /// All of them.
    pub const ALL: [ChangeKind; 6] = [
        ChangeKind::Route,
        ChangeKind::Status,
        ChangeKind::Open,
        ChangeKind::Key,
        ChangeKind::Storage,
        ChangeKind::Lifetime,
    ];

    /// Stable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Route => "route",
            ChangeKind::Status => "status",
            ChangeKind::Open => "open",
            ChangeKind::Key => "key",
            ChangeKind::Storage => "storage",
            ChangeKind::Lifetime => "lifetime",
        }
    }
}

/// The requests with one kind of change.
#[derive(Clone, Debug, Default)]
pub struct ChangeList {
    /// Their number.
    pub requests: u64,
    /// The first of each URL, at most `EXAMPLES`.
    pub examples: Vec<ChangeExample>,
    urls: HashSet<u64>,
}

impl ChangeList {
    /// The number of their URLs, at most 4,096.
    #[must_use]
    pub fn urls(&self) -> usize {
        self.urls.len()
    }
}

/// One changed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeExample {
    /// Its number.
    pub number: usize,
    /// Under the running configuration; for a route its number.
    pub from: String,
    /// Under the changed one.
    pub to: String,
    /// The key that decides, in the notation of the table, where one does.
    pub key: Option<&'static str>,
}

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialReport {
    /// The number of recorded requests.
    pub records: u64,
    /// The number of requests that they stand for.
    pub requests: u64,
    /// The time of the first and of the last; `None` without any.
    pub times: Option<(WallTime, WallTime)>,
    /// As it was.
    pub measured: HitShare,
    /// Under the running configuration, by the trial.
    pub running: HitShare,
    /// Under the changed one.
    pub changed_share: HitShare,
    /// In the order of [`ChangeKind::ALL`].
    pub changes: [ChangeList; 6],
    /// Responses that are newly shared and must not be.
    pub shared: Vec<SharedExample>,
    /// Requests about which a fact is missing, in the order of [`UnknownFact::ALL`].
    pub unknown: [u64; 5],
}

impl TrialReport {
    /// The time from the first to the last request, seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last.seconds_since(first))
    }

    /// The requests with a kind of change.
    #[must_use]
    pub fn of(&self, kind: ChangeKind) -> &ChangeList {
        &self.changes[kind as usize]
    }

    pub(super) fn counts(&mut self, it: &RecordedRequest<'_>) {
        self.records += 1;
        self.requests += u64::from(it.weight);
        let (first, last) = self.times.unwrap_or((it.time, it.time));
        self.times = Some((first.min(it.time), last.max(it.time)));
        let weight = f64::from(it.weight);
        match it.served {
            ServedBy::Cache(_) => {
                self.measured.hits += weight;
                self.measured.all += weight;
            }
            ServedBy::Origin => self.measured.all += weight,
            ServedBy::Other => {}
        }
    }

    pub(super) fn unknown(&mut self, fact: UnknownFact, weight: u32) {
        self.unknown[fact as usize] += u64::from(weight);
    }

    pub(super) fn changed(
        &mut self,
        kind: ChangeKind,
        seen: Seen<'_, '_>,
        from: String,
        to: String,
        key: Option<&'static str>,
    ) {
        let Seen { number, request } = seen;
        let list = &mut self.changes[kind as usize];
        list.requests += u64::from(request.weight);
        let url = xxh3_64(format!("{}{}", request.authority, request.target).as_bytes());
        if list.urls.len() < URLS && list.urls.insert(url) && list.examples.len() < EXAMPLES {
            list.examples.push(ChangeExample { number, from, to, key });
        }
    }
}
