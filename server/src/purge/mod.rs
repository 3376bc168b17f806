//! Purges, from the admin, the `PURGE` method and the command line. All are done by one worker on the main thread, on
//! every tier, with a receipt from each. The target of a purge is parsed in `target`; the matching of responses is in the
//! store.
//!
//! ```text
//! admin ──┐                                          ┌─▶ store: in force at once, in RAM and for every fill
//! PURGE ──┴─▶ PurgeQueue ── bounded ─▶ PurgeWorker ──┼─▶ disk: written to the journal, so that a restart keeps it
//!                                                    └─▶ done, with receipts
//! ```

mod batch;
mod counting;
mod dialect;
pub mod disk_count;
pub mod method;
pub mod peer;
mod permission;
mod repeats;
pub mod target;

use super::cluster::Cluster;
use super::memory_release::{Freed, ReleaseSignal};
use super::purge_receipt::{MatchedCount, PurgeState, TierReceipt};
use super::tiers::SharedTiers;
pub use batch::{SpreadPurges, TagPurges};
use counting::PurgeCounting;
use disk_count::either_scheme;
use larder_counters::Counters;
use larder_observe::log::{Level, SubsystemLog};
use larder_semantics::secret;
use larder_stdx::clock;
use larder_store::Store;
use larder_store::Swept;
use larder_store::disk::DiskTier;
use larder_store::purges::{PurgeRule, PurgeScope, Seq, Strength};
use peer::{PeerState, PurgePeer};
use repeats::PurgeRepeats;
pub use repeats::RepeatedPurge;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use target::PurgeRequest;
use tokio::sync::{mpsc, oneshot};

/// The most purges that wait; one costs microseconds of the worker.
const WAITING: usize = 1024;

/// The time limit for the disk to write a purge.
const WRITE_DOWN: Duration = Duration::from_secs(10);

/// The interval of sweeps for purged responses in RAM, which free their memory: a rule itself removes nothing.
const SWEEP: Duration = Duration::from_millis(100);

/// The same while more remain.
const SWEEP_MORE: Duration = Duration::from_millis(1);

/// Microseconds of one sweep step, for which the next purge waits, and requests if no processor is idle. So a million
/// responses take most of a minute and some 6 % of a processor, and requests meanwhile take no longer than without.
const SWEEP_TURN: u64 = 100;

/// The same for each purge that the sweep has not completed, up to [`SWEEP_TURN_MOST`]: before many rules are dropped
/// uncompleted, and all older responses must be validated, the sweep may use more of the processor.
const SWEEP_TURN_EACH: u64 = 100;

/// The longest sweep step, microseconds.
const SWEEP_TURN_MOST: u64 = 4_000;

/// The fewest steps in any case, each of 16 responses: on a busy machine the time may pass without one.
const SWEEP_STEPS: usize = 1;

/// One purge to be done.
#[derive(Clone, Debug)]
pub struct PurgeOrder {
    /// Its target and strength.
    pub asked: PurgeRequest,
    /// Its source, for the log: `admin`, or a client's address.
    pub by: String,
    /// Whether to wait until no node of the fleet can use what is removed.
    pub wait: bool,
    /// Its number if it is in force in RAM already. A second time would cause one more validation.
    pub here: Option<Seq>,
    /// Whether an operator or a client reads its receipt.
    pub receipt: ReceiptDetail,
}

/// The detail of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptDetail {
    /// The matched responses are counted, and the purge is logged.
    Counted,
    /// For purges without a requester: changes of a database cause hundreds a second.
    Brief,
    /// For a purge of the other process of an upgrade, to which it is not sent back.
    Passed,
}

/// A completed purge.
#[derive(Clone, Debug)]
pub struct CompletedPurge {
    /// Its number on this node.
    pub seq: Seq,
    /// Its target and strength.
    pub asked: PurgeRequest,
    /// The receipt of each tier.
    pub receipts: Vec<TierReceipt>,
}

impl CompletedPurge {
    /// Whether it is certain on all tiers.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.receipts.iter().any(|it| matches!(it.state, PurgeState::Uncertain(_)))
    }

    /// The responses in RAM and on disk that it matched; at least one where they were not counted.
    fn matched(&self) -> u64 {
        let of_tiers = self.receipts.iter().filter(|it| !it.is_of_fleet());
        of_tiers
            .map(|it| match it.count {
                MatchedCount::Known(count)
                | MatchedCount::AtLeast(count, _)
                | MatchedCount::Estimate { count, .. } => count,
                MatchedCount::Uncounted(_) => 1,
                MatchedCount::OfNoTier => 0,
            })
            .sum()
    }

    /// Whether the other nodes get it, if there are any.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        let is_unsent = |it: &TierReceipt| it.is_of_fleet() && matches!(it.state, PurgeState::Uncertain(_));
        !self.receipts.iter().any(is_unsent)
    }

    /// As JSON of the admin.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = self.asked.json();
        json["seq"] = self.seq.into();
        json["complete"] = self.is_complete().into();
        json["receipts"] = self.receipts.iter().map(TierReceipt::json).collect();
        json
    }
}

impl PurgeRequest {
    /// As JSON of the admin: the target and the strength.
    #[must_use]
    pub fn json(&self) -> Value {
        let (kind, what) = spell(&self.scope);
        json!({ "scope": { kind: what }, "strength": strength(self.strength) })
    }
}

/// The name of a scope in the API, and its text.
fn spell(scope: &PurgeScope) -> (&'static str, String) {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    match scope {
        PurgeScope::Url(key) => ("url", text(key)),
        PurgeScope::Prefix(prefix) => ("prefix", text(prefix)),
        PurgeScope::Tag(tag) => ("tag", tag.to_string()),
        PurgeScope::Where(condition) => ("where", condition.text().to_owned()),
        PurgeScope::All => ("all", "everything".to_owned()),
    }
}

/// The target of a purge for operators: without secrets in a URL.
fn shown(scope: &PurgeScope) -> String {
    match scope {
        PurgeScope::Url(key) | PurgeScope::Prefix(key) => {
            String::from_utf8_lossy(&secret::shown_key(key)).into_owned()
        }
        scope => spell(scope).1,
    }
}

fn strength(it: Strength) -> &'static str {
    match it {
        Strength::Soft => "soft",
        Strength::Validate => "validate",
        Strength::Hard => "hard",
    }
}

type DoneSender = oneshot::Sender<CompletedPurge>;

/// An element of the queue.
enum QueuedPurge {
    One(PurgeOrder, DoneSender),
    Tags(TagPurges, oneshot::Sender<SpreadPurges>),
}

/// The queue of purges, for any thread.
#[derive(Clone)]
pub struct PurgeQueue {
    orders: mpsc::Sender<QueuedPurge>,
    counters: Arc<Counters>,
    repeats: PurgeRepeats,
}

impl PurgeQueue {
    /// The purge that one sender has repeated most within five minutes.
    #[must_use]
    pub fn most_repeated(&self) -> Option<RepeatedPurge> {
        self.repeats.most()
    }

    /// Submits a purge; ready when it is in force on every tier of this node.
    ///
    /// # Errors
    /// One sentence: too many are waiting, or larder is stopping.
    pub async fn purge(&self, order: PurgeOrder) -> Result<CompletedPurge, String> {
        let (kind, target) = spell(&order.asked.scope);
        let (identity, shown) = (format!("{kind} {target}"), shown(&order.asked.scope));
        let noted = self.repeats.note(&order.by, identity.as_bytes(), &format!("{kind} {shown}"));
        let (reply, done) = oneshot::channel();
        match self.orders.try_send(QueuedPurge::One(order, reply)) {
            Ok(()) => {
                let done = done.await.map_err(|_| stopping())?;
                self.repeats.matched(noted, done.matched());
                Ok(done)
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.counters.purges_full.add_shared(1);
                Err(format!("The purge queue is full ({WAITING} purges); retry."))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(stopping()),
        }
    }

    /// Submits a purge that is done even if the caller does not wait: the receiver ends when it is, or at once if the
    /// queue is full. That is counted, and the purge then applies to this node alone.
    pub fn submit(&self, order: PurgeOrder) -> oneshot::Receiver<CompletedPurge> {
        let (reply, done) = oneshot::channel();
        if let Err(mpsc::error::TrySendError::Full(_)) = self.orders.try_send(QueuedPurge::One(order, reply))
        {
            self.counters.purges_full.add_shared(1);
        }
        done
    }
}

fn stopping() -> String {
    "larder is stopping; purges are rejected.".to_owned()
}

/// The main thread's worker for purges.
pub struct PurgeWorker {
    orders: mpsc::Receiver<QueuedPurge>,
    store: Arc<Store>,
    disk: Option<Arc<DiskTier>>,
    has_fleet: bool,
    teller: SubsystemLog,
    counters: Arc<Counters>,
}

/// The tiers to purge.
#[derive(Clone)]
struct PurgedTiers {
    store: Arc<Store>,
    disk: Option<Arc<DiskTier>>,
    has_fleet: bool,
    /// The other nodes, if purges are shared.
    nodes: Option<Rc<Cluster>>,
    /// The other process of an upgrade.
    peer: Rc<PurgePeer>,
    teller: SubsystemLog,
    counters: Arc<Counters>,
    counting: Rc<PurgeCounting>,
}

/// Opens a queue. `counters` may be shared with others.
pub fn open(
    store: Arc<Store>,
    lower: &SharedTiers,
    teller: SubsystemLog,
    counters: Arc<Counters>,
) -> (PurgeQueue, PurgeWorker) {
    let (sender, orders) = mpsc::channel(WAITING);
    let purge_queue =
        PurgeQueue { orders: sender, counters: counters.clone(), repeats: PurgeRepeats::default() };
    (
        purge_queue,
        PurgeWorker { orders, store, disk: lower.disk(), has_fleet: lower.has_fleet(), teller, counters },
    )
}

impl PurgeWorker {
    /// Performs submitted purges, and sweeps in between; runs as long as the queue exists. Every purge is sent to `nodes`
    /// and to `peer`.
    pub async fn work(self, nodes: Option<Rc<Cluster>>, peer: Rc<PurgePeer>, room: ReleaseSignal) {
        let PurgeWorker { mut orders, store, disk, has_fleet, teller, counters } = self;
        let counting = Rc::default();
        let tiers = PurgedTiers { store, disk, has_fleet, nodes, peer, teller, counters, counting };
        let mut freed = Freed::new(room);
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    // A purge may wait for the device; the next one does not wait for it.
                    let tiers = tiers.clone();
                    tokio::task::spawn_local(async move {
                        // The caller may have gone.
                        match order {
                            QueuedPurge::One(order, reply) => drop(reply.send(tiers.purge(order).await)),
                            QueuedPurge::Tags(order, reply) => drop(reply.send(tiers.purge_tags(order).await)),
                        }
                    });
                }
                _ = sweep.tick() => {
                    match freed.count(&tiers.store, || sweep_a_while(&tiers.store)) {
                        Swept::More | Swept::Waits => sweep.reset_after(SWEEP_MORE),
                        Swept::Nothing | Swept::Room => freed.end(&tiers.store),
                    }
                }
            }
        }
    }
}

/// Sweeps for one turn.
fn sweep_a_while(store: &Store) -> Swept {
    let turn = store.unswept().saturating_mul(SWEEP_TURN_EACH).clamp(SWEEP_TURN, SWEEP_TURN_MOST);
    let begun = clock::precise_micros();
    loop {
        let swept = store.sweep(SWEEP_STEPS);
        if swept != Swept::More || clock::precise_micros().saturating_sub(begun) >= turn {
            return swept;
        }
    }
}

impl PurgedTiers {
    async fn purge(&self, order: PurgeOrder) -> CompletedPurge {
        let PurgeRequest { scope, strength } = order.asked.clone();
        let rule = PurgeRule { scope, strength, positions: Vec::new() };
        // Before it is in force. If it is already, it is not an operator's.
        let counted = order.receipt == ReceiptDetail::Counted;
        let disk = self.disk.as_ref().filter(|_| counted && order.here.is_none());
        let in_ram = async {
            match order.here {
                None if counted => self.counting.in_ram(&self.store, &rule).await,
                _ => MatchedCount::OfNoTier,
            }
        };
        let on_disk = async {
            match disk {
                Some(disk) => self.counting.on_disk(disk, &self.store, &rule).await,
                None => MatchedCount::OfNoTier,
            }
        };
        let (in_ram, on_disk) = tokio::join!(in_ram, on_disk);
        let begun = self.nodes.as_ref().map(|nodes| (nodes, nodes.begin(&rule.scope, rule.strength)));
        let seq = match &begun {
            Some((_, Ok(it))) => it.seq,
            _ => order.here.unwrap_or_else(|| self.store.purge(rule.clone())),
        };
        let mut receipts = vec![TierReceipt { count: in_ram, ..TierReceipt::of("ram", PurgeState::Applied) }];
        let in_peer = match order.receipt {
            // It came from there.
            ReceiptDetail::Passed => PeerState::Applied,
            ReceiptDetail::Counted | ReceiptDetail::Brief => self.peer.pass(&rule).await,
        };
        if let Some(disk) = &self.disk {
            let state = self.write_down(disk, seq, &rule, in_peer).await;
            if let (PurgeScope::Url(key), Strength::Hard) = (&rule.scope, rule.strength) {
                // The next purge does not read them again.
                either_scheme(key).iter().for_each(|it| drop(disk.supersede(it)));
            }
            receipts.push(TierReceipt { count: on_disk, ..TierReceipt::of("disk", state) });
        }
        match begun {
            Some((nodes, Ok(it))) => receipts.extend(nodes.spread(it, order.wait).await),
            Some((_, Err(why))) => receipts.push(TierReceipt::of_fleet(PurgeState::Uncertain(why))),
            None if self.has_fleet => {
                let local_only =
                    "In force on this node; it was not sent to other nodes of the fleet.".to_owned();
                receipts.push(TierReceipt::of_fleet(PurgeState::Uncertain(local_only)));
            }
            None => {}
        }
        if in_peer == PeerState::Uncertain {
            let why = "The other process of the upgrade has not confirmed it; it may serve purged responses until it ends.";
            receipts.push(TierReceipt::of("upgrade", PurgeState::Uncertain(why.to_owned())));
        }
        let done = CompletedPurge { seq, asked: order.asked, receipts };
        if !done.is_complete() {
            self.counters.purges_incomplete.add_shared(1);
        }
        if order.receipt == ReceiptDetail::Counted || self.teller.logs(Level::Debug) {
            self.log(&done, &order.by);
        }
        done
    }

    /// Writes a purge to the journal of the disk tier; the other process does where it has the directory.
    async fn write_down(
        &self,
        disk: &DiskTier,
        seq: Seq,
        rule: &PurgeRule,
        in_peer: PeerState,
    ) -> PurgeState {
        if in_peer == PeerState::Applied && disk.is_handed_over() {
            return PurgeState::Applied;
        }
        match tokio::time::timeout(WRITE_DOWN, disk.purged(seq, rule)).await {
            Ok(Ok(())) => PurgeState::Applied,
            Ok(Err(error)) => PurgeState::Uncertain(unwritten(&larder_stdx::error::plain(&error))),
            Err(_) => PurgeState::Uncertain(unwritten("it timed out")),
        }
    }

    fn log(&self, done: &CompletedPurge, by: &str) {
        let (kind, target) = (spell(&done.asked.scope).0, shown(&done.asked.scope));
        let seq = done.seq.to_string();
        let mut values = vec![(kind, target.as_str()), ("strength", strength(done.asked.strength))];
        values.extend([("seq", seq.as_str()), ("by", by)]);
        for receipt in done.receipts.iter().filter(|_| self.teller.logs(Level::Debug)) {
            let (state, detail) = receipt.state.spell();
            let mut values = vec![("seq", seq.as_str()), ("of", &receipt.of), ("state", state)];
            values.extend(detail.map(|it| ("detail", it)));
            self.teller.event(Level::Debug, "purge-receipt", &values);
        }
        let uncertain = done.receipts.iter().find_map(|it| match &it.state {
            PurgeState::Uncertain(why) => Some(why.as_str()),
            PurgeState::Applied | PurgeState::Logged(_) | PurgeState::Unresponsive(_) => None,
        });
        match uncertain {
            None => self.teller.event(Level::Info, "purged", &values),
            Some(why) => {
                values.push(("why", why));
                self.teller.event(Level::Warn, "purge-uncertain", &values);
            }
        }
    }
}

fn unwritten(why: &str) -> String {
    format!("In force now, but not saved ({why}): after a restart, purged responses may be served again.")
}
