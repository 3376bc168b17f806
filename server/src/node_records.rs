//! The status of this node in the memcached servers, and the reading of those of the others. Every two seconds a node writes one record
//! to each server and reads those of all nodes from each; their meaning is in `node_registry`.

use super::node_registry::{EACH, KnownStatus, NodeRegistry, NodeView, Presence};
use larder_counters::Counters;
use larder_purge_log::environment::LocalEnvironment;
use larder_purge_log::survey::ServerSurvey;
use larder_purge_log::{FleetPurgeLog, LogEnvironment};
use larder_semantics::server_state::StateWord;
use larder_stdx::clock;
use larder_store::Store;
use larder_store::fleet::FleetKey;
use larder_store::fleet::purge_log_server::PurgeLogServer;
use larder_wire::envelope;
use larder_wire::node_status::{NodeStatus, RecentCounts, TierUse};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The version of larder.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Milliseconds until this node has a number at a server: the first poll gives it.
const SOON: u64 = 100;

/// The window of the counts, milliseconds; and the shortest time between two samples of it.
const WINDOW: u64 = 60_000;
const SAMPLE: u64 = 1_000;

/// The logs of the fleet, with the real servers.
pub type RealPurgeLog = FleetPurgeLog<PurgeLogServer, LocalEnvironment, Arc<Store>>;

/// The figures of this node, as the caller has gathered them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// Since the start: requests of clients, hits, misses, requests that bypassed the cache.
    pub sums: [u64; 4],
    /// The state of the server.
    pub state: StateWord,
    /// The name of its worst finding; empty without one.
    pub finding: &'static str,
    /// The RAM tier.
    pub ram: TierUse,
    /// The disk tier.
    pub disk: TierUse,
}

/// The latest figures, and the counts of a minute.
#[derive(Default)]
struct OwnFigures {
    latest: Option<NodeFigures>,
    samples: VecDeque<(u64, [u64; 4])>,
    /// The number of the last record.
    number: u64,
}

/// One node, compared with this one.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// Its records.
    pub view: NodeView,
    /// Whether it is this node.
    pub is_own: bool,
    /// Whether it uses other memcached servers.
    pub other_servers: bool,
    /// Whether it finds keys on other servers, or has another form of keys.
    pub other_keys: bool,
    /// Whether it writes another version of the envelope.
    pub other_envelope: bool,
}

/// The records of nodes.
pub struct NodeRecords {
    log: Rc<RealPurgeLog>,
    name: Box<str>,
    samples: Vec<(FleetKey, usize)>,
    counters: Arc<Counters>,
    registry: RefCell<NodeRegistry>,
    own: RefCell<OwnFigures>,
}

impl OwnFigures {
    fn take(&mut self, new: NodeFigures, now: u64) {
        let since = |at: u64| now.saturating_sub(at);
        // The last one that is a minute old is the start of the window.
        while self.samples.get(1).is_some_and(|it| since(it.0) >= WINDOW) {
            self.samples.pop_front();
        }
        if self.samples.back().is_none_or(|it| since(it.0) >= SAMPLE) {
            self.samples.push_back((now, new.sums));
        }
        self.latest = Some(new);
    }

    /// The requests since the start of the window.
    fn recent(&self, now: u64) -> RecentCounts {
        let (Some((at, before)), Some(latest)) = (self.samples.front(), &self.latest) else {
            return RecentCounts::default();
        };
        let grown = |it: usize| latest.sums[it].saturating_sub(before[it]);
        RecentCounts {
            millis: u32::try_from(now.saturating_sub(*at)).unwrap_or(u32::MAX),
            requests: grown(0),
            hits: grown(1),
            misses: grown(2),
            passes: grown(3),
        }
    }
}

impl NodeRecords {
    /// Records of a node of this name. `samples` are some keys with the servers that it chooses for them.
    #[must_use]
    pub fn new(
        log: Rc<RealPurgeLog>,
        name: &str,
        samples: Vec<(FleetKey, usize)>,
        counters: Arc<Counters>,
    ) -> Self {
        let registry = RefCell::new(NodeRegistry::new(log.follower().parameters().servers));
        Self { log, name: name.into(), samples, counters, registry, own: RefCell::default() }
    }

    /// Writes and reads for ever.
    pub async fn keep(&self) {
        while (0..self.servers()).all(|it| self.log.follower().slot(it).is_none()) {
            LocalEnvironment.sleep(SOON).await;
        }
        loop {
            let status = self.next_status();
            self.log.publish(&status).await;
            let read = self.log.survey().await;
            self.take_reading(&read);
            LocalEnvironment.sleep(EACH).await;
        }
    }

    fn take_reading(&self, read: &[Option<ServerSurvey>]) {
        let mut registry = self.registry.borrow_mut();
        registry.take(read, LocalEnvironment.now(), LocalEnvironment.wall());
        self.counters.node_statuses_damaged.add_shared(registry.damaged);
    }

    /// Takes over the figures of this moment, for the next record.
    pub fn take(&self, figures: NodeFigures) {
        self.own.borrow_mut().take(figures, LocalEnvironment.now());
    }

    fn servers(&self) -> usize {
        self.log.follower().parameters().servers
    }

    fn next_status(&self) -> NodeStatus {
        self.own.borrow_mut().number += 1;
        self.status()
    }

    /// The status of this node now.
    fn status(&self) -> NodeStatus {
        let (own, now) = (self.own.borrow(), LocalEnvironment.now());
        let follower = self.log.follower();
        let latest = own.latest.clone();
        let finding = latest.as_ref().map_or("", |it| it.finding);
        let tiers = latest.as_ref().map(|it| (it.ram, it.disk)).unwrap_or_default();
        NodeStatus {
            run: follower.parameters().id,
            number: own.number,
            wall: LocalEnvironment.wall(),
            uptime: clock::precise_micros() / 1000,
            keys: self.keys(),
            ram: tiers.0,
            disk: tiers.1,
            recent: own.recent(now),
            pid: std::process::id(),
            state: latest.map(|it| it.state),
            in_sync: follower.trust_ends() > now,
            envelope: envelope::VERSION,
            name: self.name.clone(),
            version: VERSION.into(),
            finding: finding.into(),
        }
    }

    /// A sum of the forms of some keys and of the logs of their servers, which all nodes name alike; 0 while a log is not known.
    fn keys(&self) -> u64 {
        let follower = self.log.follower();
        let mut bytes = Vec::new();
        for (key, server) in &self.samples {
            let Some(log) = follower.log(*server) else { return 0 };
            bytes.extend_from_slice(key.as_bytes());
            bytes.extend_from_slice(&log.to_le_bytes());
        }
        xxh3_64(&bytes).max(1)
    }

    /// Milliseconds since the node of this run last reported, if it was seen to.
    #[must_use]
    pub fn silence(&self, run: u64) -> Option<u64> {
        self.registry.borrow().silence(run, LocalEnvironment.now())
    }

    /// All nodes: this one first, then by name.
    #[must_use]
    pub fn rows(&self) -> Vec<NodeRow> {
        let (now, own) = (LocalEnvironment.now(), self.status());
        let mut rows: Vec<NodeRow> =
            self.registry.borrow().views(now).into_iter().map(|it| self.row(it, &own, now)).collect();
        if !rows.iter().any(|it| it.is_own) {
            let lags = vec![None; self.servers()];
            let (name, status) = (self.name.to_string(), KnownStatus::Awaited);
            let (presence, report, clock_off) = (Presence::Live(0), None, None);
            let (run, reported) = (own.run, own.wall);
            let view = NodeView { run, name, presence, status, report, reported, clock_off, lags };
            rows.push(self.row(view, &own, now));
        }
        rows.sort_by_key(|it| !it.is_own);
        rows
    }

    fn row(&self, mut view: NodeView, own: &NodeStatus, now: u64) -> NodeRow {
        let is_own = view.run == own.run;
        if is_own {
            // Also while no server can be reached.
            (view.presence, view.status) = (Presence::Live(0), KnownStatus::Known(own.clone()));
        }
        let is_compared = !is_own && matches!(view.presence, Presence::Live(_));
        let follower = self.log.follower();
        let other_servers = is_compared && view.report.as_ref().is_some_and(|it| follower.differs(it, now));
        let (mut other_keys, mut other_envelope) = (false, false);
        if let KnownStatus::Known(it) = &view.status
            && is_compared
        {
            other_keys = !other_servers && it.keys != own.keys && it.keys != 0 && own.keys != 0;
            other_envelope = it.envelope != own.envelope;
        }
        NodeRow { view, is_own, other_servers, other_keys, other_envelope }
    }

    /// Milliseconds since a server was read; the damaged records there; the number of the last entry of each log.
    #[must_use]
    pub fn reading(&self) -> (Option<u64>, u64, Vec<Option<u64>>) {
        let registry = self.registry.borrow();
        let heads = (0..self.servers()).map(|it| registry.head(it)).collect();
        (registry.age(LocalEnvironment.now()), registry.damaged, heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_the_last_minute() {
        let mut own = OwnFigures::default();
        assert_eq!(0, own.recent(5_000).millis, "nothing was counted");
        for second in 0..200_u64 {
            let sums = [10 * second, 8 * second, second, second];
            own.take(NodeFigures { sums, ..NodeFigures::default() }, 1000 * second);
        }
        let RecentCounts { millis, requests, hits, misses, passes } = own.recent(199_000);
        assert_eq!((60_000, 600, 480, 60, 60), (millis, requests, hits, misses, passes));
        assert!(own.samples.len() <= 62);
    }
}
