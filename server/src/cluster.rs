//! This node within its fleet: the follower and the writer of the purge logs in the memcached servers, on the main
//! thread, with connections of its own. The protocol is in `larder_purge_log`.

use super::node_records::{NodeFigures, NodeRecords, NodeRow, RealPurgeLog};
use super::purge_receipt::{PastNodes, PurgeState, TierReceipt, seconds};
use super::tiers::SharedTiers;
use larder_config::tiers::FleetConfig;
use larder_counters::Counters;
use larder_observe::log::{Level, SubsystemLog};
use larder_purge_log::environment::{LocalEnvironment, random};
use larder_purge_log::follower::LogEvent;
use larder_purge_log::purger::{NodeOutcome, NodeReceipt};
use larder_purge_log::{FleetPurgeLog, LogEnvironment, LogKeys, LogParameters};
use larder_semantics::server_state::PurgeLogFact;
use larder_store::Store;
use larder_store::fleet::purge_log_server::PurgeLogServer;
use larder_store::fleet::purge_log_sink::entry_of;
use larder_store::purges::{PurgeScope, Seq, Strength};
use larder_wire::purge_entry::PurgeEntry;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// The time limit for a stopping node to report that it leaves.
const FAREWELL: Duration = Duration::from_millis(500);

/// The most purges that wait for other nodes at the same time: each polls the servers. Further ones are in force here
/// meanwhile.
const WAITING: usize = 32;

/// The settings of the logs.
pub struct NodesPlan {
    poll: Duration,
    lease: Duration,
    within: Duration,
    /// Entries are kept as long as any page is.
    expire: u32,
    prefix: String,
    servers: Vec<String>,
    name: String,
}

impl NodesPlan {
    /// The settings of a node that listens at `public`; `None` if purges are not shared. Entries in `store` are not
    /// trusted from now on before the logs are followed.
    #[must_use]
    pub fn new(fleet: Option<&FleetConfig>, public: Option<&str>, store: &Store) -> Option<Self> {
        let it = fleet.filter(|it| it.purge_log)?;
        store.follows_logs();
        let host = rustix::system::uname();
        let name = format!("{} {}", host.nodename().to_string_lossy(), public.unwrap_or_default());
        Some(Self {
            poll: it.poll,
            lease: it.lease,
            within: it.client.timeout.max(it.client.connect_timeout).min(it.lease / 4),
            expire: u32::try_from(it.client.expire.as_secs()).unwrap_or(u32::MAX),
            prefix: it.client.keys.prefix().to_owned(),
            servers: it.client.servers.iter().map(|it| it.at.to_string()).collect(),
            name: name.trim().to_owned(),
        })
    }
}

/// A memcached server with its purge log, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogServerRow {
    /// Its address.
    pub name: String,
    /// Whether this node has read its log to the end within the lease.
    pub is_followed: bool,
    /// The number of the last entry, once it was read.
    pub entries: Option<u64>,
}

/// The fleet at one time, for display.
#[derive(Clone, Debug)]
pub struct FleetView {
    /// The servers.
    pub servers: Vec<LogServerRow>,
    /// The nodes, this one first.
    pub nodes: Vec<NodeRow>,
    /// Milliseconds since the records of nodes were read; `None` before the first time.
    pub read: Option<u64>,
    /// Damaged records in that reading.
    pub damaged: u64,
}

/// The other nodes, as far as the servers list them.
pub struct Cluster {
    log: Rc<RealPurgeLog>,
    records: Rc<NodeRecords>,
    servers: Vec<String>,
    lease: Duration,
    counters: Arc<Counters>,
    turns: Semaphore,
    following: Vec<AbortHandle>,
}

/// A purge that is in force on this node.
pub struct BegunPurge {
    /// Its number here.
    pub seq: Seq,
    entry: PurgeEntry,
}

impl Cluster {
    /// Begins to follow the logs. Within a `LocalSet`.
    #[must_use]
    pub fn start(
        plan: NodesPlan,
        lower: &SharedTiers,
        store: Arc<Store>,
        counters: Arc<Counters>,
        teller: &SubsystemLog,
    ) -> Option<Rc<Self>> {
        let fleet = lower.fleet(&store, &counters)?;
        let servers = (0..fleet.servers())
            .map(|it| PurgeLogServer::new(fleet.server(it).clone(), plan.within))
            .collect();
        let lease = u64::try_from(plan.lease.as_millis()).unwrap_or(u64::MAX);
        let poll = u64::try_from(plan.poll.as_millis()).unwrap_or(u64::MAX);
        let terms = LogParameters::new(fleet.servers(), lease, random(), plan.name.as_str().into());
        let keys = LogKeys::new(plan.prefix.as_bytes());
        let log = Rc::new(FleetPurgeLog::new(servers, LocalEnvironment, store, keys, terms, plan.expire));
        let records = Rc::new(NodeRecords::new(log.clone(), &plan.name, fleet.samples(), counters.clone()));
        let follow = |n: usize| {
            let (log, counters, teller, names) =
                (log.clone(), counters.clone(), teller.clone(), plan.servers.clone());
            let registration =
                async move { log.follow(n, poll, |event| note(event, &counters, &teller, &names)).await };
            tokio::task::spawn_local(registration).abort_handle()
        };
        let mut following: Vec<AbortHandle> = (0..fleet.servers()).map(follow).collect();
        let kept = records.clone();
        following.push(tokio::task::spawn_local(async move { kept.keep().await }).abort_handle());
        Some(Rc::new(Self {
            log,
            records,
            servers: plan.servers,
            lease: plan.lease,
            counters,
            turns: Semaphore::new(WAITING),
            following,
        }))
    }

    /// Applies a purge on this node, in a form that can be sent to other nodes.
    ///
    /// # Errors
    /// One sentence: this one cannot be sent to them.
    pub fn begin(&self, scope: &PurgeScope, strength: Strength) -> Result<BegunPurge, String> {
        let id = u128::from(random()) << 64 | u128::from(random());
        let entry = entry_of(scope, strength, id);
        match self.log.begin(&entry) {
            Ok(seq) => Ok(BegunPurge { seq, entry }),
            Err(why) => Err(format!("In force on this node only: {why}.")),
        }
    }

    /// Sends it to the other nodes; with `wait` the receipts arrive when none of them can use a purged response.
    pub async fn spread(&self, it: BegunPurge, wait: bool) -> Vec<TierReceipt> {
        self.counters.purge_log_written.add_shared(1);
        let _turn = self.turns.acquire().await;
        let receipt = match self.log.spread(&it.entry, it.seq, wait).await {
            Ok(it) => it,
            Err(why) => {
                self.counters.purge_log_uncertain.add_shared(1);
                let mut why = why.to_string();
                why[..1].make_ascii_uppercase();
                return vec![TierReceipt::of_fleet(PurgeState::Uncertain(format!("{why}.")))];
            }
        };
        let (on, of) = (receipt.on.0.len(), receipt.on.1);
        let Some(nodes) = receipt.nodes else {
            let when = format!(
                "on {on} of {of} servers; every node applies it within {} ms",
                self.lease.as_millis()
            );
            return vec![TierReceipt::of_fleet(PurgeState::Logged(when))];
        };
        let running: Vec<NodeReceipt> =
            nodes.into_iter().filter(|it| it.outcome != NodeOutcome::Stopped).collect();
        let past = PastNodes {
            past: running.iter().filter(|it| it.outcome == NodeOutcome::Applied).count() as u64,
            of: running.len() as u64,
            after: running.iter().filter_map(|it| it.after).max().unwrap_or(0),
        };
        let of_fleet = TierReceipt { nodes: Some(past), ..TierReceipt::of_fleet(PurgeState::Applied) };
        std::iter::once(of_fleet).chain(running.into_iter().map(|it| self.receipt_of(&it))).collect()
    }

    fn receipt_of(&self, it: &NodeReceipt) -> TierReceipt {
        let state = match it.outcome {
            NodeOutcome::Applied | NodeOutcome::Stopped => PurgeState::Applied,
            NodeOutcome::Silent => {
                // The time in its report is that of its own clock.
                let silence = self.records.silence(it.id);
                let since = silence.map_or_else(String::new, |it| format!(" for {}", seconds(it)));
                PurgeState::Unresponsive(format!(
                    "no report{since}; the node validates every stored response until it has read the purge log"
                ))
            }
        };
        let name = format!("node {} ({:08x})", it.name, it.id >> 32);
        TierReceipt { after: it.after, ..TierReceipt::of(name, state) }
    }

    /// Takes over the figures of this moment, which the other nodes get.
    pub fn take_figures(&self, figures: NodeFigures) {
        self.records.take(figures);
    }

    /// The nodes and the servers.
    #[must_use]
    pub fn look(&self) -> FleetView {
        let (now, follower) = (LocalEnvironment.now(), self.log.follower());
        let (read, damaged, heads) = self.records.reading();
        let server = |(n, name): (usize, &String)| LogServerRow {
            name: name.clone(),
            is_followed: follower.is_followed(n, now),
            entries: heads.get(n).copied().flatten(),
        };
        let servers = self.servers.iter().enumerate().map(server).collect();
        FleetView { servers, nodes: self.records.rows(), read, damaged }
    }

    /// The random name of the log of the first server, which all nodes of the fleet know, while this node trusts the logs.
    #[must_use]
    pub fn log_in_sync(&self) -> Option<u64> {
        let follower = self.log.follower();
        follower.log(0).filter(|_| follower.trust_ends() > LocalEnvironment.now())
    }

    /// The state of this node and of the logs, for display and for programs.
    #[must_use]
    pub fn standing(&self) -> Value {
        let now = LocalEnvironment.now();
        let follower = self.log.follower();
        let (in_sync, of) = (follower.in_sync(now), self.servers.len());
        let left = follower.trust_ends().saturating_sub(now);
        let say = if left > 0 {
            format!("in sync, {in_sync} of {of} servers; lease {}.{} s", left / 1000, left % 1000 / 100)
        } else {
            format!("not in sync, {in_sync} of {of} servers: every stored response is validated before use")
        };
        json!({ "in_sync": left > 0, "servers": of, "followed": in_sync, "lease_left_ms": left, "say": say })
    }

    /// Whether the purge logs are followed.
    #[must_use]
    pub fn purge_log(&self) -> PurgeLogFact {
        let (now, follower) = (LocalEnvironment.now(), self.log.follower());
        PurgeLogFact {
            in_sync: follower.trust_ends() > now,
            followed: follower.in_sync(now) as u64,
            servers: self.servers.len() as u64,
        }
    }

    /// Reports that this node no longer serves requests, so that no purge waits for it.
    pub async fn leave(&self) {
        self.following.iter().for_each(AbortHandle::abort);
        // Without that report a purge waits for one lease.
        let _ = tokio::time::timeout(FAREWELL, self.log.sign_off()).await;
    }
}

fn note(event: LogEvent, counters: &Counters, teller: &SubsystemLog, servers: &[String]) {
    match event {
        LogEvent::Polled => counters.purge_log_polls.add_shared(1),
        LogEvent::Applied => counters.purge_log_applied.add_shared(1),
        LogEvent::Gap(n) => {
            counters.purge_log_gaps.add_shared(1);
            teller.seldom(
                Level::Warn,
                "purge-log-gap",
                &[("server", &servers[n]), ("why", "its purge log is new or was lost")],
            );
        }
        LogEvent::RevalidateAll => {
            counters.purge_log_full_validations.add_shared(1);
            teller.event(
                Level::Warn,
                "purge-log-full-validation",
                &[("now", "every stored response is validated before use")],
            );
        }
        LogEvent::Lost => {
            counters.purge_log_leases_lost.add_shared(1);
            let values = [
                ("why", "too few memcached servers answer"),
                ("now", "every stored response is validated before use"),
            ];
            teller.event(Level::Warn, "purge-log-out-of-sync", &values);
        }
        LogEvent::InSync => teller.event(Level::Info, "purge-log-in-sync", &[]),
    }
}
