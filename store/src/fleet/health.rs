//! The health of each fleet server, shared by all workers, so that one worker's finding spares the others: a circuit
//! breaker for each, where an open one is an ejection. `server` talks to the servers; `now` is an argument here.

use super::settings::{FleetAddress, FleetSettings};
use larder_counters::Counters;
pub use larder_stdx::circuit_breaker::Round;
use larder_stdx::circuit_breaker::{BegunIn, BreakerChange, BreakerSettings, BreakerState, CircuitBreaker};
use larder_stdx::clock::{self, Monotonic};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release, SeqCst},
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Neighbourhoods of keys in which removals are counted.
const REMOVED: usize = 256;

/// Ejections of a server whose times are kept.
const EJECTIONS: usize = 8;

/// A change of a server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// It failed too often and is not used; other servers get its keys.
    Ejected,
    /// The same, but its keys stay with it (without `auto_eject`): nothing is kept under them.
    Suspended,
    /// It was ejected, answered an attempt and is used again.
    Readmitted,
    /// It was not used, answered an attempt and is used again.
    Resumed,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetServerState {
    /// In use, with this number of consecutive failures.
    Up(u32),
    /// Not in use.
    Ejected,
}

/// Whether a request may go to a server.
#[derive(Debug)]
pub enum ServerAdmission {
    /// Yes.
    Use,
    /// No; but an attempt is due, and this caller is to make it.
    Probe(ServerProbe),
    /// No.
    Skip,
}

/// The callback for changes, which writes the log.
pub type ServerChangeReport = Box<dyn Fn(&FleetAddress, ServerChange) + Send + Sync>;

/// One operation and its result, for a follower of operations.
#[derive(Clone, Copy, Debug)]
pub struct OperationResult<'a> {
    /// The server.
    pub server: &'a FleetAddress,
    /// The operation: `get`, `set`, `delete` and so on.
    pub what: &'static str,
    /// The key in the fleet; empty without one.
    pub key: &'a str,
    /// The result: `hit`, `miss`, `done`, `late` and so on.
    pub came: &'static str,
    /// Its microseconds.
    pub micros: u64,
}

/// A follower of all operations.
pub struct OperationFollower {
    /// Whether it wants reports now: called before each operation, and cheap.
    pub follows: Box<dyn Fn() -> bool + Send + Sync>,
    /// Reports one.
    pub report: Box<dyn Fn(&OperationResult<'_>) + Send + Sync>,
}

/// The state of all servers.
pub struct Health {
    servers: Box<[ServerHealth]>,
    breaker: BreakerSettings,
    /// Whether other servers get the keys of a server that is not used.
    ejects: bool,
    counters: Arc<Counters>,
    on_change: Option<ServerChangeReport>,
    follower: OnceLock<OperationFollower>,
    /// Ejections and readmissions so far.
    epoch: AtomicU64,
    /// The number of removals, by hash of the key.
    removed: Box<[AtomicU64]>,
}

struct ServerHealth {
    address: FleetAddress,
    /// Open while the server is ejected.
    breaker: CircuitBreaker,
    /// The times of its last ejections, milliseconds of the monotonic clock, the newest first; zero before.
    ejected: [AtomicU64; EJECTIONS],
}

impl Health {
    /// All servers up.
    #[must_use]
    pub fn new(
        settings: &FleetSettings,
        counters: Arc<Counters>,
        on_change: Option<ServerChangeReport>,
    ) -> Arc<Self> {
        let server = |address: &FleetAddress| ServerHealth {
            address: address.clone(),
            breaker: CircuitBreaker::default(),
            ejected: Default::default(),
        };
        Arc::new(Self {
            servers: settings.servers.iter().map(server).collect(),
            breaker: BreakerSettings {
                failures: settings.failures.max(1),
                window: Duration::MAX,
                time: settings.retry,
                max_time: settings.retry,
            },
            ejects: settings.auto_eject,
            counters,
            on_change,
            follower: OnceLock::new(),
            epoch: AtomicU64::new(0),
            removed: (0..REMOVED).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Sets the follower of all workers' operations. Only the first call counts.
    pub fn follow(&self, follower: OperationFollower) {
        let _ = self.follower.set(follower);
    }

    /// The follower, if it wants reports now.
    pub(super) fn follower(&self) -> Option<&OperationFollower> {
        self.follower.get().filter(|it| (it.follows)())
    }

    /// The number of servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The state of a server.
    #[must_use]
    pub fn state(&self, server: usize) -> FleetServerState {
        let breaker = &self.servers[server].breaker;
        match breaker.is_closed() {
            true => FleetServerState::Up(breaker.failures()),
            false => FleetServerState::Ejected,
        }
    }

    /// Its ejections within this time before `now`: those of the last eight.
    #[must_use]
    pub fn ejections(&self, server: usize, now: Monotonic, within: Duration) -> usize {
        let is_recent = |at: u64| at > 0 && u128::from(now.0.saturating_sub(at)) <= within.as_millis();
        self.servers[server].ejected.iter().filter(|it| is_recent(it.load(SeqCst))).count()
    }

    /// Whether a request may go to it. One caller in each `retry` is asked to make an attempt.
    #[must_use]
    pub fn may_send(self: &Arc<Self>, server: usize, now: Monotonic) -> ServerAdmission {
        let breaker = &self.servers[server].breaker;
        match breaker.state(now) {
            BreakerState::Closed => ServerAdmission::Use,
            BreakerState::TrialDue if breaker.begin_trial() => {
                ServerAdmission::Probe(ServerProbe { health: self.clone(), server, is_over: false })
            }
            BreakerState::TrialDue | BreakerState::Open(_) => ServerAdmission::Skip,
        }
    }

    /// To be called when a request is sent, and passed back if it fails.
    #[must_use]
    pub fn round(&self, server: usize) -> Round {
        self.servers[server].breaker.round()
    }

    /// A request was answered in time. Does not readmit an ejected server: its late answers prove nothing.
    pub fn succeeded(&self, server: usize, now: Monotonic) {
        let breaker = &self.servers[server].breaker;
        if breaker.failures() != 0 {
            breaker.succeeded(BegunIn::Closed, now);
        }
    }

    /// A request was not answered in time, or its connection failed.
    pub fn failed(&self, server: usize, round: Round, now: Monotonic) {
        self.counters.fleet_failures.add_shared(1);
        let breaker = &self.servers[server].breaker;
        if breaker.failed(BegunIn::Closed, Some(round), &self.breaker, now).is_some() {
            self.counters.fleet_ejections.add_shared(u64::from(self.ejects));
            let ejected = &self.servers[server].ejected;
            ejected.iter().fold(now.0.max(1), |at, it| it.swap(at, SeqCst));
            self.report_change(
                server,
                if self.ejects { ServerChange::Ejected } else { ServerChange::Suspended },
            );
        }
    }

    /// Ejections and readmissions so far.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The number of removals in the neighbourhood of a key, by any worker of this node.
    #[must_use]
    pub fn removals(&self, key: &[u8]) -> u64 {
        self.removals_of(key).load(SeqCst)
    }

    /// A key is about to be removed.
    pub fn removed(&self, key: &[u8]) {
        self.removals_of(key).fetch_add(1, SeqCst);
    }

    fn removals_of(&self, key: &[u8]) -> &AtomicU64 {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        &self.removed[xxh3_64(key) as usize % REMOVED]
    }

    fn report_change(&self, server: usize, change: ServerChange) {
        self.epoch.fetch_add(1, Release);
        if let Some(on_change) = &self.on_change {
            on_change(&self.servers[server].address, change);
        }
    }

    fn probe_ended(&self, server: usize, answered: bool, now: Monotonic) {
        let breaker = &self.servers[server].breaker;
        let change = match answered {
            true => breaker.succeeded(BegunIn::HalfOpen, now),
            false => breaker.failed(BegunIn::HalfOpen, None, &self.breaker, now),
        };
        breaker.end_trial();
        if change == Some(BreakerChange::Closed) {
            self.counters.fleet_readmissions.add_shared(u64::from(self.ejects));
            self.report_change(
                server,
                if self.ejects { ServerChange::Readmitted } else { ServerChange::Resumed },
            );
        }
    }
}

/// The one attempt in progress at an ejected server. A dropped attempt has failed.
pub struct ServerProbe {
    health: Arc<Health>,
    server: usize,
    is_over: bool,
}

impl ServerProbe {
    /// The server.
    #[must_use]
    pub fn server(&self) -> usize {
        self.server
    }

    /// It answered: it is used again.
    pub fn answered(mut self) {
        self.is_over = true;
        self.health.probe_ended(self.server, true, clock::monotonic());
    }
}

impl Drop for ServerProbe {
    fn drop(&mut self) {
        if !self.is_over {
            self.health.probe_ended(self.server, false, clock::monotonic());
        }
    }
}

impl std::fmt::Debug for ServerProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerProbe").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::MemcachedAddress;
    use super::*;
    use parking_lot::Mutex;

    fn at(seconds: u64) -> Monotonic {
        // Attempts end at the process's own time, which these are ahead of.
        Monotonic(clock::monotonic().0 + seconds * 1000)
    }

    fn health() -> Arc<Health> {
        let server = |name: &str| FleetAddress { at: MemcachedAddress::Tcp(name.to_owned(), 1), weight: 1 };
        let servers = vec![server("a"), server("b")];
        Health::new(&FleetSettings { servers, ..FleetSettings::default() }, Arc::default(), None)
    }

    fn fail(health: &Health, times: u32) {
        for _ in 0..times {
            health.failed(0, health.round(0), at(0));
        }
    }

    #[test]
    fn three_failures_in_a_row_eject() {
        let health = health();
        fail(&health, 2);
        assert!(matches!(health.may_send(0, at(0)), ServerAdmission::Use));
        fail(&health, 1);
        assert!(matches!(health.may_send(0, at(0)), ServerAdmission::Skip));
        assert!(matches!(health.may_send(1, at(0)), ServerAdmission::Use), "the other is as it was");
        assert_eq!(1, health.counters.fleet_ejections.get());
    }

    #[test]
    fn no_server_is_ejected_if_auto_eject_is_off() {
        let on_change: Arc<Mutex<Vec<ServerChange>>> = Arc::default();
        let heard = on_change.clone();
        let servers = vec![FleetAddress { at: MemcachedAddress::Tcp("a".to_owned(), 1), weight: 1 }];
        let settings = FleetSettings { servers, auto_eject: false, ..FleetSettings::default() };
        let hears = Box::new(move |_: &FleetAddress, it| heard.lock().push(it));
        let health = Health::new(&settings, Arc::default(), Some(hears));
        fail(&health, 3);
        assert!(matches!(health.may_send(0, at(0)), ServerAdmission::Skip));
        let ServerAdmission::Probe(attempt) = health.may_send(0, at(5)) else { panic!("it is time") };
        attempt.answered();
        assert!(matches!(health.may_send(0, at(5)), ServerAdmission::Use));
        assert_eq!(vec![ServerChange::Suspended, ServerChange::Resumed], *on_change.lock());
        assert_eq!((0, 0), (health.counters.fleet_ejections.get(), health.counters.fleet_readmissions.get()));
    }

    #[test]
    fn the_ejections_of_the_last_minutes_are_counted() {
        let health = health();
        let minutes = Duration::from_secs(600);
        assert_eq!(0, health.ejections(0, at(0), minutes));
        for second in [0, 5, 10] {
            (0..3).for_each(|_| health.failed(0, health.round(0), at(second)));
            let ServerAdmission::Probe(attempt) = health.may_send(0, at(second + 5)) else { panic!() };
            attempt.answered();
        }
        assert_eq!(3, health.ejections(0, at(15), minutes));
        assert_eq!([1, 0], [609, 611].map(|it| health.ejections(0, at(it), minutes)));
        assert_eq!(0, health.ejections(1, at(15), minutes));
    }

    #[test]
    fn a_success_between_failures_restarts_the_count() {
        let health = health();
        fail(&health, 2);
        health.succeeded(0, at(0));
        fail(&health, 2);
        assert_eq!(FleetServerState::Up(2), health.state(0));
    }

    #[test]
    fn requests_that_fail_together_are_one_failure() {
        let health = health();
        let round = health.round(0);
        (0..100).for_each(|_| health.failed(0, round, at(0)));
        assert_eq!(FleetServerState::Up(1), health.state(0));
        assert_eq!(100, health.counters.fleet_failures.get());
    }

    #[test]
    fn after_the_retry_time_one_attempt_is_made() {
        let health = health();
        fail(&health, 3);
        assert!(matches!(health.may_send(0, at(4)), ServerAdmission::Skip));
        let ServerAdmission::Probe(attempt) = health.may_send(0, at(5)) else { panic!("it is time") };
        assert!(matches!(health.may_send(0, at(100)), ServerAdmission::Skip), "one at a time");
        attempt.answered();
        assert!(matches!(health.may_send(0, at(5)), ServerAdmission::Use));
        assert_eq!(FleetServerState::Up(0), health.state(0));
        assert_eq!(1, health.counters.fleet_readmissions.get());
    }

    #[test]
    fn after_a_failed_attempt_the_time_runs_again() {
        let health = health();
        fail(&health, 3);
        drop(health.may_send(0, at(5)));
        assert!(matches!(health.may_send(0, at(4)), ServerAdmission::Skip));
        assert!(matches!(health.may_send(0, at(6)), ServerAdmission::Probe(_)));
    }

    #[test]
    fn a_late_success_does_not_readmit_an_ejected_server() {
        let health = health();
        fail(&health, 3);
        health.succeeded(0, at(0));
        assert_eq!(FleetServerState::Ejected, health.state(0));
    }
}
