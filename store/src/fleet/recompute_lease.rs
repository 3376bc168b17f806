//! A worker's memory between reading a key of the fleet and writing it: whether it has the lease for fetching it, and the
//! generation of its variants. The servers grant leases.

use super::connection::now;
use super::{ConnectionChoice, Fleet};
use larder_wire::envelope::Mark;
use larder_wire::memcached::{FleetKey, MemcachedProtocol, MemcachedRequest, MemcachedValue};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The most keys whose read state is remembered.
const MOST_SEEN: usize = 4096;

/// For how long: longer than a fetch takes.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Seconds for which other nodes do not get a lease for an item that is made for the first time: its maker may have died.
pub(super) const VIVIFY: u32 = 30;

/// Seconds for which a removal is recorded in the fleet; a response that was requested before it and takes longer is
/// written nevertheless.
pub(super) const REMOVAL_SECONDS: u32 = 120;

/// The interval of the sign of life while the holder lives.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(500);

/// Seconds for which a sign of life is kept. A server counts whole seconds, so it is there for at least one.
const LIVENESS_SECONDS: u32 = 2;

/// The most signs of life; a holder that takes longer is not waited for.
const MOST_LIVENESS_WRITES: u32 = 60;

/// This node's lease to fetch one item. Dropping it gives the lease back, unless a response was put meanwhile: so it must
/// live until the [`super::FleetPut`] of the new response has settled.
pub struct RecomputeLease {
    fleet: Weak<Fleet>,
    place: LeaseKey,
    /// Only that item would be lost with it: it has no variants.
    is_exclusive: bool,
    /// Writes signs of life.
    liveness: JoinHandle<()>,
}

/// Another node's lease, identified exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherNodesLease(pub(super) LeaseKey);

/// The identity of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseKey {
    pub(super) key: FleetKey,
    pub(super) server: usize,
    /// The number of the item to replace.
    pub(super) cas: u64,
    pub(super) item: LeasedItem,
}

/// The item's content until the lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeasedItem {
    /// None: the item was created for the lease.
    Nothing,
    /// An expired response.
    Response,
    /// A record of a removal.
    Removal,
}

impl RecomputeLease {
    pub(super) fn new(fleet: &Rc<Fleet>, place: LeaseKey, is_exclusive: bool) -> Self {
        let LeaseKey { key, server, cas, item: has } = &place;
        // An item created for this lease expires by itself; the lease ends well before that.
        let until = (*has == LeasedItem::Nothing).then(|| now() + Duration::from_secs(VIVIFY.into()) / 2);
        fleet.leases.0.borrow_mut().insert(key.clone(), HeldLease { cas: *cas, until });
        let living =
            write_liveness(Rc::downgrade(fleet), fleet.keys.liveness_key(key), *server, LIVENESS_INTERVAL);
        let living = tokio::task::spawn_local(living);
        Self { fleet: Rc::downgrade(fleet), place, is_exclusive, liveness: living }
    }

    /// Sends the first sign of life now, not half a second later: for nodes that have waited for a silent holder together
    /// with this one.
    pub fn send_liveness(&mut self) {
        let Some(fleet) = self.fleet.upgrade() else { return };
        self.liveness.abort();
        let LeaseKey { key, server, .. } = &self.place;
        let living =
            write_liveness(Rc::downgrade(&fleet), fleet.keys.liveness_key(key), *server, Duration::ZERO);
        self.liveness = tokio::task::spawn_local(living);
    }

    /// The lease no longer has to be given back.
    pub(super) fn forget(&self) -> Option<Rc<Fleet>> {
        let fleet = self.fleet.upgrade()?;
        let _ = fleet.leases.release(&self.place.key, self.place.cas);
        Some(fleet)
    }

    /// Ends the lease with a mark in place of the awaited response, which holds for its lifetime; gives the lease back
    /// where no mark may be written. The result is not awaited.
    pub fn end_with_mark(self, mark: &Mark) {
        let Some(fleet) = self.fleet.upgrade() else { return };
        let expire = mark.of.meta.lifetime.seconds;
        let LeaseKey { key, server, cas, .. } = &self.place;
        if !self.is_exclusive || expire == 0 || fleet.leases.release(key, *cas) == Released::NotOurs {
            return;
        }
        let mut value = Vec::new();
        mark.write(&mut value);
        let (value, cas) = ([&value[..]], Some(*cas));
        let value = MemcachedValue::of(&value);
        let request = MemcachedRequest::Set { key, value, flags: 0, expire, cas, stale_if_older: false };
        fleet.servers[*server].send(&request, ConnectionChoice::of(key), now() + fleet.settings.timeout);
        fleet.counters.fleet_hit_for_miss_writes.add(1);
    }
}

/// Sends signs of life for this process, from `first` on, until the lease ends. A lease that ends before costs nothing.
async fn write_liveness(fleet: Weak<Fleet>, sign: FleetKey, server: usize, first: Duration) {
    for number in 0..MOST_LIVENESS_WRITES {
        tokio::time::sleep(if number == 0 { first } else { LIVENESS_INTERVAL }).await;
        let Some(fleet) = fleet.upgrade() else { return };
        let (server, within) = (&fleet.servers[server], fleet.settings.timeout);
        let _ = server.set(&sign, b"", LIVENESS_SECONDS, within).await;
    }
}

/// Whether a lease holder is working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderState {
    /// It sent a sign of life a moment ago.
    Alive,
    /// It sent none; but there is none in its first half second either.
    Silent,
    /// The server with the lease does not answer.
    Unknown,
}

impl Fleet {
    /// Whether nodes take leases.
    pub(super) fn grants_leases(&self) -> bool {
        self.settings.recompute_once && self.settings.protocol == MemcachedProtocol::Meta
    }

    /// Whether the node with the lease is alive.
    pub async fn holder_state(&self, it: &OtherNodesLease) -> HolderState {
        let keys = [self.keys.liveness_key(&it.0.key)];
        match self.servers[it.0.server].get_many(&keys, self.settings.timeout).await.as_deref() {
            Ok([Some(_)]) => HolderState::Alive,
            Ok(_) => HolderState::Silent,
            Err(_) => HolderState::Unknown,
        }
    }

    /// Ends another node's lease, so that one of the next readers gets it. The result is not awaited.
    pub fn end_lease(&self, it: &OtherNodesLease) {
        self.counters.recompute_takeovers.add(1);
        self.give_back(&it.0);
    }

    fn give_back(&self, place: &LeaseKey) {
        let LeaseKey { key, server, cas, item: has } = place;
        // A response stays, for stale use, and the next reader gets the lease.
        let grace = u32::try_from(self.settings.stale_grace.as_secs()).unwrap_or(u32::MAX).max(1);
        let stale = match has {
            LeasedItem::Nothing => None,
            LeasedItem::Response => Some(grace),
            LeasedItem::Removal => Some(REMOVAL_SECONDS),
        };
        let request = MemcachedRequest::Delete { key, stale, cas: Some(*cas) };
        let deadline = now() + self.settings.timeout;
        // At worst the others wait for their usual time.
        self.servers[*server].send(&request, ConnectionChoice::of(key), deadline);
    }
}

impl Drop for RecomputeLease {
    fn drop(&mut self) {
        self.liveness.abort();
        let Some(fleet) = self.fleet.upgrade() else { return };
        if fleet.leases.release(&self.place.key, self.place.cas) == Released::NotOurs {
            return;
        }
        fleet.give_back(&self.place);
    }
}

impl std::fmt::Debug for RecomputeLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecomputeLease")
            .field("key", &self.place.key.as_str())
            .field("has", &self.place.item)
            .finish_non_exhaustive()
    }
}

/// The leases of this worker: one for each living [`RecomputeLease`].
#[derive(Default)]
pub(super) struct RecomputeLeases(RefCell<HashMap<FleetKey, HeldLease>>);

struct HeldLease {
    cas: u64,
    until: Option<Instant>,
}

/// The result of ending a lease.
#[derive(PartialEq, Eq)]
enum Released {
    Released,
    /// It has ended, or another has begun.
    NotOurs,
}

impl RecomputeLeases {
    fn release(&self, key: &FleetKey, cas: u64) -> Released {
        let mut leases = self.0.borrow_mut();
        if leases.get(key).is_none_or(|it| it.cas != cas) {
            return Released::NotOurs;
        }
        leases.remove(key);
        Released::Released
    }

    /// The number of the item that a write of `key` must replace, if this worker has the lease: other nodes' removals and
    /// writes meanwhile are then not overwritten.
    pub(super) fn replaces(&self, key: &FleetKey) -> Option<u64> {
        let leases = self.0.borrow();
        let held = leases.get(key)?;
        held.until.is_none_or(|it| now() < it).then_some(held.cas)
    }

    /// It was written: the lease no longer has to be given back.
    pub(super) fn forget_written(&self, key: &FleetKey) {
        self.0.borrow_mut().remove(key);
    }
}

/// The item that a caller read before fetching: its write must replace that item and no other. A removal by any node
/// meanwhile is then not undone.
///
/// A *generation* is a random number of the newest record that is part of the keys of all variants. Once the newest
/// record is removed, or one with other `Vary` names is written, no variant of its generation can be found any more.
///
/// By the hash of the key, whose length a client chooses. With the number of another key a write replaces nothing and is tried again.
#[derive(Default)]
pub(super) struct ReadItems(RefCell<HashMap<u128, ReadItem>>);

/// No item has this number.
pub(super) const ABSENT: u64 = 0;

/// The item that was read.
#[derive(Clone, Copy)]
pub(super) struct ReadItem {
    pub(super) generation: u32,
    /// The [`names_hash`] of the newest record.
    pub(super) names: u64,
    /// The number of the newest record, or [`ABSENT`].
    pub(super) cas: u64,
    until: Instant,
}

impl ReadItems {
    pub(super) fn note(&self, key: &[u8], generation: u32, names: u64, cas: u64) {
        self.note_for(key, generation, names, cas, REMEMBERED);
    }

    /// [`ReadItems::note`] for an absent key.
    pub(super) fn note_absent(&self, key: &[u8]) {
        self.note(key, 0, 0, ABSENT);
    }

    /// [`ReadItems::note`] for an item that is remembered for `time`.
    pub(super) fn note_for(&self, key: &[u8], generation: u32, names: u64, cas: u64, time: Duration) {
        let (mut seen, key) = (self.0.borrow_mut(), xxh3_128(key));
        if seen.len() >= MOST_SEEN && !seen.contains_key(&key) {
            // Forgetting them costs variants, nothing more.
            seen.clear();
        }
        seen.insert(key, ReadItem { generation, names, cas, until: now() + time.min(REMEMBERED) });
    }

    /// Returns it once: the write changes it.
    pub(super) fn take(&self, key: &[u8]) -> Option<ReadItem> {
        self.0.borrow_mut().remove(&xxh3_128(key)).filter(|it| now() < it.until)
    }
}

/// A hash that distinguishes sets of `Vary` names.
pub(super) fn names_hash(names: &[Box<str>]) -> u64 {
    xxh3_64(names.join(",").as_bytes())
}

/// Bits of memcached's client flags in which applications' clients keep a value's type and compression: pylibmc,
/// python-memcached and pymemcache use the lowest five, PHP's memcached extension the lowest eight. They are zero for
/// plain bytes.
pub(super) const CLIENTS_BITS: u32 = 0xff;

/// A random generation without [`CLIENTS_BITS`]: an application that reads a record must not take it for a pickled
/// object. Never zero, the value of applications' writes.
pub(super) fn new_generation() -> u32 {
    random::<4>().map_or(0, u32::from_le_bytes).max(CLIENTS_BITS + 1) & !CLIENTS_BITS
}

/// Random bytes; `None` where the kernel has none.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_budget::own_memory;

    /// A client chooses the length of a key.
    #[test]
    fn long_keys_take_no_room() {
        let seen = ReadItems::default();
        let before = own_memory().unwrap();
        for number in 0..MOST_SEEN as u64 {
            let key = [&number.to_ne_bytes()[..], &[b'a'; 65_536]].concat();
            seen.note(&key, 1, 2, number + 3);
        }
        let grown = own_memory().unwrap().saturating_sub(before);
        assert!(grown < 128 << 20, "{grown}");
        let key = [&7_u64.to_ne_bytes()[..], &[b'a'; 65_536]].concat();
        assert_eq!(Some(10), seen.take(&key).map(|it| it.cas));
        assert!(seen.take(&key).is_none());
    }

    #[test]
    fn a_generation_is_no_type_of_a_client() {
        let found: std::collections::HashSet<u32> = (0..1000).map(|_| new_generation()).collect();
        assert!(found.iter().all(|it| it & CLIENTS_BITS == 0 && *it != 0), "{found:x?}");
        assert!(found.len() > 990, "they differ: {}", found.len());
    }
}
