//! The nodes of a fleet request certificates together: one node orders, every node answers the challenges, and the certificate reaches all
//! nodes. They meet in memcached, in items that only they can read and write (`seal`); the rules are in `orders`.
//!
//! Nothing here is on the way of a request, and without memcached a node goes on alone.

#[cfg(test)]
mod model;
mod orders;
mod seal;

use super::challenge::{ChallengeAnswer, PublishedChallenges};
use super::wall;
use super::{AcmeContext, AcmeFailure, FailureKind};
use larder_observe::log::Level;
use larder_stdx::secret::Secret;
use larder_store::fleet::{Fleet, ItemToReplace, ItemWritten, OperationFailure};
use larder_transport::tls::ServerTls;
use orders::{ClaimResult, FleetOrders, LEASE, OrderingNode};
use seal::FleetSeal;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The item with the list of orders.
const ORDERS: &str = "acme:orders";
/// The interval at which each node reads it.
const READ: Duration = Duration::from_secs(1);
/// Reads of this node after which every other one has read it too: two full intervals.
const READS: u64 = 3;
/// Consecutive failures after which a node requests certificates alone.
const ALONE: u32 = 5;
/// How often a write is repeated if another node was faster.
const TRIES: usize = 16;
/// Seconds for which memcached keeps the list after the last change: every lease has ended then.
const LIST_SECONDS: u32 = 2 * LEASE.unsigned_abs() as u32;
/// Seconds for which memcached keeps a certificate; the nodes that have it put it there again.
const CERTIFICATE_SECONDS: u32 = 86_400;

const FOREIGN: &str =
    "an item in memcached was not written with this tls.acme.fleet_key; set the same secret on all nodes";

/// A certificate of one node for all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SharedCertificate {
    /// Its name.
    pub name: String,
    /// The directory of its CA.
    pub authority: String,
    /// Its end, seconds since the Unix epoch.
    pub until: i64,
    /// Its key and chain, PEM.
    pub pem: String,
}

/// Reads of the list.
#[derive(Clone, Copy, Default)]
struct ListReads {
    /// Those that succeeded.
    done: u64,
    /// Consecutive failures.
    misses: u32,
}

/// The other nodes, as this one knows them.
pub(super) struct AcmeFleet {
    context: AcmeContext,
    fleet: Rc<Fleet>,
    secret: Secret,
    seal: FleetSeal,
    who: Cell<OrderingNode>,
    tls: RefCell<Option<Arc<ServerTls>>>,
    /// The list as it was read last.
    known: RefCell<FleetOrders>,
    reads: watch::Sender<ListReads>,
    /// Consecutive failures of writes, and the number of reads at the last one.
    write_misses: Cell<u32>,
    missed_at: Cell<Option<u64>>,
    /// The orders of this process, each with its challenge.
    own: RefCell<BTreeMap<String, Option<ChallengeAnswer>>>,
    /// The answers for orders of other processes.
    answered: RefCell<HashMap<(String, ChallengeAnswer), PublishedChallenges>>,
    /// Names that other nodes no longer order: their certificates may be there.
    settled: RefCell<BTreeSet<String>>,
    /// This process writes the list once at a time.
    writing: tokio::sync::Mutex<()>,
    /// Whether it was logged that this node is alone, and that an item is foreign.
    is_told: Cell<bool>,
    is_told_of_foreign: Cell<bool>,
}

impl AcmeFleet {
    /// Reads the list from now on, until this is dropped. Within a `LocalSet`.
    pub fn start(context: AcmeContext, fleet: Rc<Fleet>, secret: Secret) -> Rc<Self> {
        let who =
            OrderingNode { node: super::folder::random_number(), process: super::folder::random_number() };
        let (tls, known, write_misses, missed_at, own, answered, settled, writing) = Default::default();
        let (is_told, is_told_of_foreign) = Default::default();
        let (seal, reads) = (FleetSeal::new(&secret), watch::Sender::default());
        let who = Cell::new(who);
        let it = Rc::new(Self {
            context,
            fleet,
            secret,
            seal,
            who,
            tls,
            known,
            reads,
            write_misses,
            missed_at,
            own,
            answered,
            settled,
            writing,
            is_told,
            is_told_of_foreign,
        });
        tokio::task::spawn_local(follow(Rc::downgrade(&it)));
        it
    }

    /// Whether this is for this secret.
    pub fn is_of(&self, secret: &Secret) -> bool {
        self.secret == *secret
    }

    /// The number of the folder, whose orders go on after a restart.
    pub fn set_node(&self, node: u64) {
        self.who.set(OrderingNode { node, ..self.who.get() });
    }

    /// The handshakes in which challenges are answered.
    pub fn set_tls(&self, tls: Option<Arc<ServerTls>>) {
        self.tls.replace(tls);
    }

    /// Whether an attempt for a name may begin, as far as this node knows.
    pub fn may_begin(&self, name: &str) -> bool {
        let reads = *self.reads.borrow();
        let is_known = reads.done > 0 && reads.misses == 0 && self.missed_at.get() != Some(reads.done);
        self.cannot_read() || is_known && !self.known.borrow().is_held(name, self.who.get(), wall())
    }

    /// The names whose certificates another node may have obtained since the last call.
    pub fn take_settled(&self) -> BTreeSet<String> {
        self.settled.take()
    }

    /// Takes the lease for a name; `false` if another node has it, or if that is unknown for the moment.
    pub async fn claim(&self, name: &str) -> bool {
        let claimed = match self.cannot_read() {
            true => true,
            false => match self.change(|it, who, now| it.claim(name, who, now)).await {
                Ok(ClaimResult::Ours) => true,
                Ok(ClaimResult::Theirs) => false,
                Ok(ClaimResult::Full) => {
                    self.log_once("the list of orders in memcached is full");
                    true
                }
                Err(_) => self.write_misses.get() >= ALONE,
            },
        };
        if claimed {
            self.own.borrow_mut().insert(name.to_owned(), None);
        }
        claimed
    }

    /// Makes every node answer a challenge, and waits until they do.
    ///
    /// # Errors
    /// Another node has the lease now.
    pub async fn publish(&self, name: &str, answer: ChallengeAnswer) -> Result<(), AcmeFailure> {
        self.own.borrow_mut().insert(name.to_owned(), Some(answer.clone()));
        let published = self.change(|it, who, now| it.publish(name, Some(answer.clone()), who, now)).await;
        match published {
            Ok(ClaimResult::Theirs) => {
                let why = "another node requests the certificate by now".to_owned();
                return Err(AcmeFailure::new(FailureKind::Slow, why));
            }
            Ok(ClaimResult::Ours) => {}
            Ok(ClaimResult::Full) | Err(_) => return Ok(()),
        }
        let mut reads = self.reads.subscribe();
        let after = reads.borrow().done + READS;
        let _ = reads.wait_for(|it| it.done >= after || it.misses >= ALONE).await;
        Ok(())
    }

    /// Ends the lease of a name after a success. After a failure it ends by itself, so that the nodes do not fail one after the other.
    pub async fn settle(&self, name: &str, is_success: bool) {
        self.own.borrow_mut().remove(name);
        let settled = self.change(|it, who, now| match is_success {
            true => it.release(name, who),
            false => drop(it.publish(name, None, who, now)),
        });
        // The lease ends by itself.
        let _ = settled.await;
    }

    /// The certificate of a name that a node has obtained; `None` without one.
    pub async fn certificate(&self, name: &str) -> Option<SharedCertificate> {
        let item = item_of(name);
        let sealed = self.fleet.read_shared(&item).await.ok()??;
        self.opened(&item, &sealed.value).filter(|it| it.name == name)
    }

    /// Gives the other nodes a certificate.
    pub async fn share(&self, it: &SharedCertificate) {
        self.put(it, ItemToReplace::Any).await;
    }

    /// Gives the other nodes a certificate again, unless memcached has it or a later one.
    pub async fn offer(&self, it: &SharedCertificate) {
        let item = item_of(&it.name);
        let Ok(present) = self.fleet.read_shared(&item).await else { return };
        let replaces = match &present {
            None => ItemToReplace::Absent,
            Some(sealed) => match self.opened(&item, &sealed.value) {
                Some(present) if present.until >= it.until => return,
                _ => ItemToReplace::Version(sealed.version),
            },
        };
        self.put(it, replaces).await;
    }

    async fn put(&self, it: &SharedCertificate, replaces: ItemToReplace) {
        let item = item_of(&it.name);
        let text = serde_json::to_vec(it).unwrap_or_default();
        let Some(sealed) = self.seal.seal(&item, &text) else { return };
        match self.fleet.write_shared(&item, &sealed, CERTIFICATE_SECONDS, replaces).await {
            Ok(_) => self.write_misses.set(0),
            Err(it) => self.miss_write(&sentence(it)),
        }
    }

    fn opened(&self, item: &str, sealed: &[u8]) -> Option<SharedCertificate> {
        let opened = self.seal.open(item, sealed).and_then(|it| serde_json::from_slice(&it).ok());
        if opened.is_none() && !self.is_told_of_foreign.replace(true) {
            self.context.errors.event(
                Level::Warn,
                "acme-fleet",
                &[("why", FOREIGN), ("now", "it is ignored")],
            );
        }
        opened
    }

    /// Whether the list was unreadable for some time.
    fn cannot_read(&self) -> bool {
        self.reads.borrow().misses >= ALONE
    }

    /// The list, and the item that a write of it replaces.
    async fn list(&self) -> Result<(FleetOrders, ItemToReplace), String> {
        let item = self.fleet.read_shared(ORDERS).await.map_err(sentence)?;
        let Some(item) = item else { return Ok((FleetOrders::default(), ItemToReplace::Absent)) };
        let opened = self.seal.open(ORDERS, &item.value).and_then(|it| FleetOrders::parse(&it));
        Ok((opened.ok_or(FOREIGN)?, ItemToReplace::Version(item.version)))
    }

    /// Changes the list.
    ///
    /// # Errors
    /// It may or may not be changed.
    async fn change<T>(
        &self,
        change: impl Fn(&mut FleetOrders, OrderingNode, i64) -> T,
    ) -> Result<T, String> {
        let _one = self.writing.lock().await;
        let changed = self.write(change).await;
        match &changed {
            Ok(_) => self.write_misses.set(0),
            Err(why) => self.miss_write(why),
        }
        changed
    }

    async fn write<T>(&self, change: impl Fn(&mut FleetOrders, OrderingNode, i64) -> T) -> Result<T, String> {
        for _ in 0..TRIES {
            let (mut orders, replaces) = self.list().await?;
            let before = orders.clone();
            let result = change(&mut orders, self.who.get(), wall());
            if orders != before {
                let sealed =
                    self.seal.seal(ORDERS, &orders.text()).ok_or("the system has no random numbers")?;
                let written = self.fleet.write_shared(ORDERS, &sealed, LIST_SECONDS, replaces).await;
                if written.map_err(sentence)? == ItemWritten::Changed {
                    continue;
                }
            }
            self.learn(orders);
            return Ok(result);
        }
        Err("other nodes change the list of orders too often".to_owned())
    }

    /// Counts a failed write, one for each read of the list.
    fn miss_write(&self, why: &str) {
        let done = Some(self.reads.borrow().done);
        if self.missed_at.replace(done) != done {
            self.write_misses.set(self.write_misses.get().saturating_add(1));
        }
        if self.write_misses.get() >= ALONE {
            self.log_once(why);
        }
    }

    /// Reads the list once, and prolongs the leases of this process.
    async fn read(&self) {
        match self.list().await {
            Ok((orders, _)) => self.learn(orders),
            Err(why) => {
                self.reads.send_modify(|it| it.misses = it.misses.saturating_add(1));
                if self.cannot_read() {
                    self.log_once(&why);
                }
                return;
            }
        }
        self.reads.send_modify(|it| *it = ListReads { done: it.done + 1, misses: 0 });
        if self.write_misses.get() < ALONE && self.is_told.replace(false) {
            let now = "the nodes request certificates together again";
            self.context.errors.event(Level::Info, "acme-fleet", &[("now", now)]);
        }
        let is_ending = |name: &String| self.known.borrow().is_ending(name, self.who.get(), wall());
        if self.own.borrow().keys().any(is_ending) {
            let prolong = |orders: &mut FleetOrders, who, now| {
                for (name, answer) in self.own.borrow().iter() {
                    let _ = orders.publish(name, answer.clone(), who, now);
                }
            };
            let _ = self.change(prolong).await;
        }
    }

    /// Takes over the list: answers the challenges in it, and no others.
    fn learn(&self, orders: FleetOrders) {
        let (who, now) = (self.who.get(), wall());
        let before = self.known.replace(orders);
        let known = self.known.borrow();
        let gone = before.of_others(who, now).filter(|it| !known.is_held(&it.name, who, now));
        self.settled.borrow_mut().extend(gone.map(|it| it.name.clone()));
        let asked = |it: &orders::FleetOrder| Some((it.name.clone(), it.challenge.clone()?));
        let asked: BTreeMap<String, ChallengeAnswer> = known.of_others(who, now).filter_map(asked).collect();
        let mut answered = self.answered.borrow_mut();
        answered.retain(|(name, answer), _| asked.get(name) == Some(answer));
        for it in asked.into_iter().filter(|(name, _)| !self.own.borrow().contains_key(name)) {
            answered.entry(it).or_insert_with_key(|(name, answer)| {
                let mut published =
                    PublishedChallenges::new(self.context.overlays.clone(), self.tls.borrow().clone());
                // Without an address with TLS, another node has to answer.
                let _ = published.answer(name, answer);
                published
            });
        }
    }

    /// Logs once that this node is alone.
    fn log_once(&self, why: &str) {
        if !self.is_told.replace(true) {
            let now = "this node requests certificates alone";
            self.context.errors.event(Level::Warn, "acme-fleet", &[("why", why), ("now", now)]);
        }
    }
}

/// Reads the list once a second.
async fn follow(it: Weak<AcmeFleet>) {
    let mut tick = tokio::time::interval(READ);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(it) = it.upgrade() else { return };
        it.read().await;
    }
}

fn item_of(name: &str) -> String {
    format!("acme:certificate:{name}")
}

/// Why memcached is of no use.
fn sentence(it: OperationFailure) -> String {
    let why = match it {
        OperationFailure::Late => "memcached does not answer within 2 s",
        OperationFailure::Broken => "memcached is not reached",
        OperationFailure::Full => "too many requests wait for memcached",
        OperationFailure::Refused => "memcached refuses an item: it has no memory, or the item is too large",
    };
    why.to_owned()
}
