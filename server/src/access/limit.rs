//! Limits of the rate and of the number of requests that have a key in common: one table of each for the process.

use super::AccessState;
use super::limit_log::LimitLog;
use larder_config::access::{LimitConfig, LimitKey};
use larder_semantics::network::{client_network, wider_network};
use larder_semantics::rate::{RefusedFor, TICKS};
use larder_semantics::request_view::RequestView;
use larder_semantics::{cookies, field};
use larder_stdx::clock;
use larder_stdx::rate_table::{CountTable, Counted, RateTable};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The tables, made with the first limit.
#[derive(Default)]
pub(super) struct LimitTables {
    rates: OnceLock<Arc<RateTable>>,
    in_flight: OnceLock<CountTable>,
    /// Makes collisions unpredictable for clients.
    seed: RandomState,
}

impl LimitTables {
    /// The arrival times.
    pub fn rates(&self) -> &Arc<RateTable> {
        self.rates.get_or_init(Arc::default)
    }

    fn in_flight(&self) -> &CountTable {
        self.in_flight.get_or_init(CountTable::default)
    }

    /// The seed of the keys of what has this name.
    pub fn seed(&self, name: &str) -> u64 {
        self.seed.hash_one(name)
    }
}

/// A limit of a route.
pub(super) struct RequestLimit {
    config: LimitConfig,
    state: Arc<AccessState>,
    seed: u64,
    log: LimitLog,
}

/// The reason why a request exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitExceeded {
    /// Too many with its key are in progress.
    InProgress,
    /// It is before its time.
    Rate(RefusedFor),
}

impl LimitExceeded {
    /// The time after which the request is within a rate.
    pub fn wait(self) -> Option<RefusedFor> {
        match self {
            LimitExceeded::InProgress => None,
            LimitExceeded::Rate(wait) => Some(wait),
        }
    }

    /// Seconds for `Retry-After`.
    pub fn seconds(self) -> u64 {
        self.wait().map_or(1, RefusedFor::seconds)
    }
}

/// An event that was counted: its key.
#[derive(Clone, Copy)]
pub(super) struct CountedEvent(NonZeroU64);

/// A request in progress.
pub(super) struct InProgress {
    state: Arc<AccessState>,
    counted: Counted,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.state.limits.in_flight().leave(&self.counted);
    }
}

/// The time for rates, read from the kernel: the reading of workers moves a few times a second, which would be the highest rate.
pub(super) fn ticks() -> u64 {
    clock::rate_millis() * TICKS
}

impl RequestLimit {
    pub fn new(config: LimitConfig, state: Arc<AccessState>) -> Self {
        // A member of `access.limits` is itself wherever it is in the list; a changed one begins at zero.
        let seed = match config.place {
            None => state.limits.seed(&config.scope),
            Some(_) => state.limits.seed(&format!("{} {}", config.scope, config.describe())),
        };
        // Made now: the first request must not wait for four million zeros.
        let _ = (state.limits.rates(), config.concurrency.map(|_| state.limits.in_flight()));
        let log = LimitLog::new("route-limited", &config.scope, config.describe());
        Self { config, state, seed, log }
    }

    /// The settings.
    pub fn config(&self) -> &LimitConfig {
        &self.config
    }

    /// Counts a request at the time `now` of [`ticks`], or decides that it is one too many, which allocates nothing.
    pub fn take(
        &self,
        view: &RequestView<'_>,
        now: u64,
    ) -> Result<(Option<CountedEvent>, Option<InProgress>), LimitExceeded> {
        let (key, limits) = (self.key(view), &self.state.limits);
        let in_progress = match self.config.concurrency.map(|most| limits.in_flight().enter(key, most)) {
            Some(Err(_)) => return Err(LimitExceeded::InProgress),
            Some(Ok(counted)) => counted.map(|counted| InProgress { state: self.state.clone(), counted }),
            None => None,
        };
        let Some(gcra) = &self.config.rate else { return Ok((None, in_progress)) };
        match limits.rates().change(key, |arrival| gcra.judge(arrival, now)) {
            Ok(()) => Ok((NonZeroU64::new(key).map(CountedEvent), in_progress)),
            Err(wait) => Err(LimitExceeded::Rate(wait)),
        }
    }

    /// The time for which a request would exceed the rate at `now`; `None` if it does not. Counts nothing.
    pub fn is_exceeded(&self, view: &RequestView<'_>, now: u64) -> Option<RefusedFor> {
        let gcra = self.config.rate.as_ref()?;
        let arrival = self.state.limits.rates().get(self.key(view));
        gcra.judge(arrival, now).err()
    }

    /// An event did not take place.
    pub fn give_back(&self, taken: CountedEvent) {
        let interval = self.config.rate.map_or(0, |it| it.interval);
        let less = |it: u64| Ok(it.saturating_sub(interval));
        let _ = self.state.limits.rates().change::<()>(taken.0.get(), less);
    }

    /// The table of rates, for tests.
    #[cfg(test)]
    pub fn rates(&self) -> &Arc<RateTable> {
        self.state.limits.rates()
    }

    /// Notes a request too many.
    #[cold]
    pub fn note(&self) {
        self.log.note(&self.state.errors);
    }

    #[inline]
    fn key(&self, view: &RequestView<'_>) -> u64 {
        let (address, fields) = (view.client, view.fields);
        let by_address = |address: Option<IpAddr>| match address {
            Some(it) => {
                keyed(&client_network(it).to_ne_bytes(), self.seed ^ u64::from(it.to_canonical().is_ipv6()))
            }
            None => keyed(b"unix", self.seed ^ 2),
        };
        // A value of a client is never taken for an address.
        let by_value = |value: Option<&[u8]>| match value.filter(|it| !it.is_empty()) {
            Some(value) => keyed(value, self.seed ^ 4),
            None => by_address(address),
        };
        match &self.config.by {
            LimitKey::Client => by_address(address),
            LimitKey::Network => by_address(address.map(wider_network)),
            LimitKey::Route => self.seed,
            LimitKey::Header(name) => by_value(field::first(fields, name)),
            LimitKey::Cookie(name) => by_value(cookies::value(fields, name)),
        }
    }
}

fn keyed(value: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(value, seed)
}
