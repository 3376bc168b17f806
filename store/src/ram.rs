//! The RAM tier: entries under a 128-bit hash, S3-FIFO over all, a budget in bytes. `entry` defines entries, `s3fifo` the
//! eviction order, and `fill` the fetches in flight.
//!
//! Two kinds of lock. Each shard of the index has a shared one: a hit takes it for reading, clones one `Arc`, and is
//! done. Every change of the store takes the *books* first and a shard's write lock within, so that index, policy and
//! detached fills never disagree. Order: books, shard, flights, fill. Nothing is freed under a lock.

use crate::arena::Arena;
use crate::deferred_free::{DeferredFree, ThreadFreeList};
use crate::disk::DiskTier;
use crate::entry::EntryBounds;
use crate::fill::in_flight::InFlight;
use crate::hit_for_miss::{HitForMiss, HitForMissTable, MISS_COST, Remembered};
use crate::memory_budget::{MemoryBudget, own_memory};
use crate::purges::Seq;
use crate::removed_keys::RemovedKeys;
use crate::spool::Spool;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::miss_reason::RemovalCause;
use larder_semantics::purged::PurgeVerdict;
use larder_wire::ready_head::Templates;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock, Weak};
use xxhash_rust::xxh3::xxh3_128_with_secret;

mod arenas;
mod encoded;
mod evicted;
mod idle;
mod listing;
mod purge_count;
mod purge_sweep;
mod purging;
mod shard;
mod spool;

use self::arenas::Arenas;
use self::encoded::EncodedResponses;
use self::evicted::Evicted;
use self::idle::IdleProgress;
pub use self::idle::Swept;
#[cfg(test)]
pub(crate) use self::purge_sweep::MOST_BACKLOG;
use self::purging::Purges;
pub(crate) use self::purging::RulesApplied;
pub(crate) use self::shard::{EvictionState, RamShard};
pub use crate::key::KeyHash;
pub use crate::memory_budget::OverBudget;

pub use crate::entry::{
    DiskOffer, Entry, Exchanged, FleetCopy, Stored, StoredArc, StoredBody, UncommonParts, Variants,
};

/// Bytes of the budget per shard of the index: small enough that a walk over one shard ends within about 50 µs
/// (`listing`). It keeps writers of the shard, and hits after them, waiting.
const BUDGET_OF_SHARD: u64 = 1 << 20;

/// The number of shards for this budget: a power of two.
fn shards(budget: u64) -> usize {
    usize::try_from(budget / BUDGET_OF_SHARD).unwrap_or(usize::MAX).clamp(64, 8192).next_power_of_two()
}

/// The number of removal counts: see [`Store::removals`]. Answers that may not be stored count, too; a neighbour's
/// removal costs a store.
const REMOVALS: usize = 1 << 14;

/// The room that one more entry may need in the index and the policy; their real size is counted as they grow.
const SLOT_COST: u64 = 128;

/// Bytes that arrive between two checks of the process's memory. A check takes 3 µs, and an allocator grows most by fills
/// that arrive faster than any timer.
const RSS_CHECK_BYTES: u64 = 512 << 10;

/// Memory that the process may take outside the store before the store has to make room: added to its memory when the
/// store was made.
pub const PROCESS_OVERHEAD: u64 = 16 << 20;

/// The addition for each worker: pages of each size class, which a thread keeps. The documented base
/// (docs/decisions/0020) has 2 MiB more per worker, and 4 MiB for all, the growth between two checks.
pub const WORKER_OVERHEAD: u64 = 6 << 20;

/// Entries that are evicted under one lock of the eviction policy.
const BATCH: usize = 32;

/// The size and layout of the RAM tier.
#[derive(Clone, Copy, Debug)]
pub struct RamSettings {
    /// The most bytes of everything kept and in flight, metadata included.
    pub budget: u64,
    /// Bodies above this many bytes are in the arena, smaller ones on the heap. 16 KiB was measured best.
    pub heap_line: usize,
    /// The most shared fetches in flight.
    pub fills: usize,
}

/// A moment, as a count of removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removals(pub(crate) u64);

/// The result of a lookup.
pub enum Lookup {
    /// Responses under this key.
    Entry(Entry),
    /// None, and answers are known not to be shared: requests must not wait for each other.
    HitForMiss,
    /// None.
    Nothing,
}

/// Why [`crate::FillWriter::insert`] did not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The key was removed after this fill began, or the body is no longer kept whole.
    Removed,
    /// Another answer arrived after this one was requested: neither is kept, since their order at the origin is unknown.
    Overtaken,
    /// No room could be made.
    OverBudget,
}

impl From<OverBudget> for NotStored {
    fn from(_: OverBudget) -> Self {
        NotStored::OverBudget
    }
}

/// The store of this process: shared by all workers.
pub struct Store {
    pub(crate) shards: Box<[RwLock<RamShard>]>,
    pub(crate) secret: Box<[u8; 192]>,
    heap_line: usize,
    overhead: AtomicU64,
    /// Bytes added so far, for checking the process's memory once per [`RSS_CHECK_BYTES`].
    bytes_added: AtomicU64,
    pub(crate) eviction: Mutex<EvictionState>,
    pub(crate) purges: Purges,
    pub(crate) arenas: Arenas,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) in_flight: InFlight,
    /// The common parts of many responses' heads.
    pub(crate) heads: Templates,
    pub(crate) encoded: EncodedResponses,
    pub(crate) idle: Mutex<IdleProgress>,
    pub(crate) deferred: DeferredFree,
    /// Keys that have left RAM.
    pub(crate) removed_keys: RemovedKeys,
    /// The number of removals, by place of the key: see [`Store::removals`].
    pub(crate) removed: Box<[AtomicU64]>,
    pub(crate) counters: Arc<Counters>,
    /// The disk tier for evicted responses.
    pub(crate) disk_tier: OnceLock<Weak<DiskTier>>,
    /// The spool for bytes of bodies that are not kept, for slow readers.
    pub(crate) spool: OnceLock<Arc<Spool>>,
    pub(crate) weak_self: Weak<Store>,
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// No memfd could be created.
    pub fn new(settings: RamSettings, counters: Arc<Counters>) -> std::io::Result<Arc<Store>> {
        let mut secret = Box::new([0; 192]);
        // Up to 256 bytes come completely (getrandom(2)).
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let budget = Arc::new(MemoryBudget::new(settings.budget));
        let arena = Arena::new(settings.budget, budget.clone())?;
        let shards = shards(settings.budget);
        let most = usize::try_from(settings.budget / (64 * MISS_COST)).unwrap_or(usize::MAX) / shards;
        let shard = |_| {
            RwLock::new(RamShard {
                misses: HitForMissTable::new(most.clamp(16, 1024)),
                ..RamShard::default()
            })
        };
        Ok(Arc::new_cyclic(|me| Store {
            shards: (0..shards).map(shard).collect(),
            secret,
            heap_line: settings.heap_line,
            overhead: AtomicU64::new(own_memory().unwrap_or(0) + PROCESS_OVERHEAD),
            bytes_added: AtomicU64::new(0),
            eviction: Mutex::new(EvictionState::new(settings.budget)),
            purges: Purges::new(settings.budget),
            arenas: Arenas::new(arena),
            budget,
            in_flight: InFlight::new(settings.fills),
            heads: Templates::default(),
            encoded: EncodedResponses::default(),
            idle: Mutex::default(),
            deferred: DeferredFree::default(),
            removed_keys: RemovedKeys::new(settings.budget),
            removed: (0..REMOVALS).map(|_| AtomicU64::new(0)).collect(),
            counters,
            disk_tier: OnceLock::new(),
            spool: OnceLock::new(),
            weak_self: me.clone(),
        }))
    }

    /// The hash of a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(xxh3_128_with_secret(key, &self.secret[..]))
    }

    /// Looks up a key under a shared lock, and counts the use for S3-FIFO. Purges since the last check are applied first,
    /// and untrusted responses are treated as such. `now` is only for hit-for-miss: milliseconds of the clock used for
    /// [`Store::remember_miss`].
    #[must_use]
    pub fn lookup(&self, hash: KeyHash, key: &[u8], now: u64) -> Lookup {
        let shard = self.shard(hash).read();
        match shard.slots.get(&hash.packed()) {
            Some(entry) if *entry.key() == *key => {
                entry.note_use(self.purges.tick());
                let entry = entry.clone();
                if self.purges.is_current(&entry) {
                    return Lookup::Entry(entry);
                }
                drop(shard);
                self.lookup_after_purge(hash, entry)
            }
            _ => self.hit_for_miss_state(&shard.misses, hash, key, now),
        }
    }

    /// Remembers until `until` (milliseconds of the clock of [`Store::lookup`]) that answers under a key are not shared.
    /// The answer that showed it was requested when `epoch` was the last purge. Bounded: the oldest memory is dropped
    /// first.
    pub fn remember_miss(&self, hash: KeyHash, epoch: Seq, until: u64) {
        match self.shard(hash).write().misses.remember(hash, HitForMiss { until, epoch }) {
            Remembered::Added => self.budget.charge(MISS_COST),
            Remembered::Replaced => {}
        }
    }

    /// The state of a key without stored responses. Only the hash is remembered: two keys with the same hash would go
    /// alone, nothing more.
    pub(crate) fn hit_for_miss_state(
        &self,
        misses: &HitForMissTable,
        hash: KeyHash,
        key: &[u8],
        now: u64,
    ) -> Lookup {
        match misses.known(hash, now) {
            Some(miss) if !self.purges.has_named(key, miss.epoch) => Lookup::HitForMiss,
            _ => Lookup::Nothing,
        }
    }

    /// Counts an answer from this key's entry, where the lookup was some time ago.
    pub fn note_hit(&self, hash: KeyHash, key: &[u8]) {
        if let Some(entry) = self.entry_of(hash, key) {
            entry.note_hit();
        }
    }

    /// Makes a body from chunks, on the heap or in the arena. Evicts as needed.
    ///
    /// # Errors
    /// No room could be made, or the body alone exceeds a quarter of the budget.
    pub fn make_body(&self, chunks: &[Bytes]) -> Result<StoredBody, OverBudget> {
        let length: u64 = chunks.iter().map(|it| it.len() as u64).sum();
        if length <= self.heap_line as u64 {
            return Ok(StoredBody::on_the_heap(chunks));
        }
        let arena = self.arenas.present();
        let cost = arena.cost(length);
        if cost > self.budget.most_for_one() {
            return Err(OverBudget);
        }
        self.reserve(cost)?;
        arena.write(chunks, length).map(|it| StoredBody::Arena(Box::new(it))).map_err(|_| OverBudget)
    }

    /// Makes a body of `length` bytes, which `read` delivers piece by piece; it never needs more heap meanwhile than a
    /// body that stays there. Evicts as needed.
    ///
    /// # Errors
    /// As of [`Store::make_body`], or by `read`.
    pub(crate) fn make_body_of(
        &self,
        length: u64,
        mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
    ) -> Result<StoredBody, OverBudget> {
        if length <= self.heap_line as u64 {
            let mut bytes = vec![0; usize::try_from(length).map_err(|_| OverBudget)?];
            read(&mut bytes).map_err(|_| OverBudget)?;
            return Ok(StoredBody::on_the_heap(&[bytes]));
        }
        let arena = self.arenas.present();
        let cost = arena.cost(length);
        if cost > self.budget.most_for_one() {
            return Err(OverBudget);
        }
        self.reserve(cost)?;
        let slice = arena.write_from(length, read).map_err(|_| OverBudget)?;
        Ok(StoredBody::Arena(Box::new(slice)))
    }

    /// Whether a body of this length is on the heap, and not in the arena.
    pub(crate) fn is_for_heap(&self, length: u64) -> bool {
        length <= self.heap_line as u64
    }

    /// Whether RAM could hold a body of this length, given room: a quarter of the budget at most.
    #[must_use]
    pub fn could_hold(&self, length: u64) -> bool {
        self.is_for_heap(length) || self.arenas.present().cost(length) <= self.budget.most_for_one()
    }

    /// A response as RAM keeps it: its head in both forms, without the parts shared by many.
    #[must_use]
    pub fn ram_form(&self, mut stored: Stored) -> StoredArc {
        stored.head = self.heads.keep(stored.head);
        StoredArc::new(stored)
    }

    /// Adds a response to its entry, in place of the variant with the same variant key. Evicts as needed; with more than
    /// `max_variants` one variant is dropped: the oldest that was not used recently.
    ///
    /// For a fill's response use [`crate::FillWriter::insert`], which takes removals meanwhile into account.
    ///
    /// # Errors
    /// No room could be made.
    pub fn insert(
        &self,
        hash: KeyHash,
        key: &[u8],
        stored: StoredArc,
        max_variants: usize,
    ) -> Result<(), OverBudget> {
        self.insert_unless(hash, key, stored, max_variants, || false).map_err(|_| OverBudget)
    }

    /// [`Store::insert`], unless `too_late`, called while no removal can occur, returns true.
    pub(crate) fn insert_unless(
        &self,
        hash: KeyHash,
        key: &[u8],
        stored: StoredArc,
        max_variants: usize,
        too_late: impl FnOnce() -> bool,
    ) -> Result<(), NotStored> {
        let cost = stored.heap_cost() + SLOT_COST;
        if cost + stored.body.len() > self.budget.most_for_one() {
            return Err(NotStored::OverBudget);
        }
        self.reserve(cost).map_err(|_| NotStored::OverBudget)?;
        let mut eviction = self.eviction.lock();
        self.budget.release(cost);
        if too_late() {
            return Err(NotStored::Removed);
        }
        let (verdict, applied) = self.purges.verdict(key, &stored, 0);
        let stored = Stored::after(&stored, verdict).ok_or(NotStored::Removed)?;
        let mut present = self.entry_of(hash, key);
        if present.as_ref().is_some_and(|it| it.has_overtaken(&stored)) {
            eviction.changed.note(key);
            let gone = self.take_where(&mut eviction, hash, key, |it| it.overlaps(&stored));
            drop(eviction);
            drop((gone, present));
            return Err(NotStored::Overtaken);
        }
        if verdict != PurgeVerdict::Keep {
            // The present entry may be purged, and not have been checked since.
            present = present.and_then(|it| self.purges.remaining(it));
            if present.as_ref().is_some_and(|it| it.has_newer(&stored)) {
                // Requested before a purge, and arrived after a response requested since.
                return Err(NotStored::Removed);
            }
        }
        let bounds = self.bounds(max_variants);
        let (entry, dropped) = Entry::with_variant(present.as_ref(), key, stored, None, bounds, applied);
        eviction.changed.note(key);
        let old = self.put(&mut eviction, hash, entry);
        if old.is_none() {
            self.removed_keys.forget(hash.0);
        }
        drop(eviction);
        drop(present);
        self.counters.cache_variants_full.add_shared(dropped as u64);
        drop(old);
        self.trim();
        Ok(())
    }

    /// Replaces `old` by `new` if `old` is still there, unchanged or as a purge has left it (freshening); returns whether
    /// it was.
    pub fn replace(&self, hash: KeyHash, key: &[u8], old: &StoredArc, new: StoredArc) -> bool {
        let mut eviction = self.eviction.lock();
        let Some(present) = self.entry_of(hash, key) else { return false };
        let Some(there) = present.variants.iter().find(|it| it.is_same_response(old)) else { return false };
        // A validation does not bring back a purged response, nor does one from before a purge.
        if self.purges.verdict(key, old, present.applied()).0 == PurgeVerdict::Hard {
            return false;
        }
        let (verdict, applied) = self.purges.verdict(key, &new, 0);
        let Some(new) = Stored::after(&new, verdict) else { return false };
        let entry =
            Entry::with_variant(Some(&present), key, new, Some(there), self.bounds(usize::MAX), applied).0;
        eviction.changed.note(key);
        let gone = self.put(&mut eviction, hash, entry);
        drop(eviction);
        drop((gone, present));
        self.trim();
        true
    }

    /// Removes a key here and, by `below`, from the tiers where fills look. Here first, so that no fetch in flight is
    /// stored afterwards, and here again, for a fill that started in between and may have found it there. Returns whether
    /// it was stored here.
    pub fn remove_with<T>(&self, hash: KeyHash, key: &[u8], below: impl FnOnce() -> T) -> (bool, T) {
        let was_there = self.remove(hash, key);
        let done = below();
        (self.remove(hash, key) || was_there, done)
    }

    /// Removes everything under a key and detaches its fills in flight: responses requested before are not stored
    /// afterwards, and later requests do not join. Returns whether it was stored.
    pub fn remove(&self, hash: KeyHash, key: &[u8]) -> bool {
        let mut eviction = self.eviction.lock();
        eviction.changed.note(key);
        self.removals_of(hash).fetch_add(1, SeqCst);
        if self.shard(hash).write().misses.forget(hash) {
            self.budget.release(MISS_COST);
        }
        let found = self.entry_of(hash, key);
        let gone = found.as_ref().and_then(|_| self.remove_from_index(&mut eviction, hash));
        self.in_flight.detach(hash, key);
        drop(eviction);
        if gone.is_some() || self.removed_keys.find(hash.0).is_some() {
            self.removed_keys.add(hash.0, RemovalCause::Purged);
        }
        gone.is_some()
    }

    /// The entry of a key.
    pub(crate) fn entry_of(&self, hash: KeyHash, key: &[u8]) -> Option<Entry> {
        self.entry_at(hash).filter(|it| *it.key() == *key)
    }

    /// The entry at this hash, for any key.
    pub(crate) fn entry_at(&self, hash: KeyHash) -> Option<Entry> {
        self.shard(hash).read().slots.get(&hash.packed()).cloned()
    }

    /// Reads a shard under its shared lock.
    pub(crate) fn with_shard<T>(&self, hash: KeyHash, look: impl FnOnce(&RamShard) -> T) -> T {
        look(&self.shard(hash).read())
    }

    /// Frees the excess capacity of a shard's table.
    pub(crate) fn fit(&self, shard: usize) {
        let mut shard = self.shards[shard].write();
        if shard.slots.capacity() > 4 * shard.slots.len() {
            let room = shard.slots.len() * 2;
            shard.slots.shrink_to(room);
            shard.settle(&self.budget);
        }
    }

    /// Frees the excess capacity of the policy, where it needs little.
    pub(crate) fn fit_policy(&self) {
        let mut eviction = self.eviction.lock();
        let old = eviction.policy.shrink(|id, handle| {
            if let Some(entry) = self.shard(id.whole()).read().slots.get(&id) {
                entry.set_handle(handle);
            }
        });
        eviction.settle(&self.budget);
        drop(eviction);
        drop(old);
    }

    /// Removes an entry from the index; returns it, to be dropped after the books are unlocked.
    pub(crate) fn remove_from_index(&self, eviction: &mut EvictionState, hash: KeyHash) -> Option<Entry> {
        let entry = self.shard(hash).write().take(hash.packed(), &self.budget)?;
        eviction.policy.remove(entry.handle());
        Some(entry)
    }

    /// Bytes in use: kept and in flight.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.budget.used()
    }

    /// Bytes that eviction can free: responses in the index, and encodings.
    pub(crate) fn evictable(&self) -> u64 {
        self.eviction.lock().policy.bytes() + self.budget.encodings.get()
    }

    /// The number of keys with an entry.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.shards.iter().map(|it| it.read().slots.len() as u64).sum()
    }

    /// The bytes of index, policy and hit-for-miss; and those allocated for them but not touched.
    pub(crate) fn tables(&self) -> (u64, u64) {
        let of = |it: &RwLock<RamShard>| {
            let shard = it.read();
            shard.footprint + shard.misses.cost()
        };
        let index = self.shards.iter().map(of).sum::<u64>();
        let eviction = self.eviction.lock();
        (index + eviction.footprint, eviction.policy.untouched())
    }

    /// Memory outside the store that was entered with `entered` bytes takes `now`: the index of a lower tier. It counts
    /// against the budget, up to half of it; [`Store::watch_memory`] sees the rest.
    pub fn charge_external(&self, entered: &mut u64, now: u64) {
        self.budget.settle(entered, now.min(self.budget.most_for_one() * 2));
        self.trim();
    }

    /// From now on `bytes` more may be resident outside the budget: memory that serving threads keep.
    pub fn add_overhead(&self, bytes: u64) {
        self.overhead.fetch_add(bytes, Relaxed);
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.budget.limit()
    }

    /// The usable part of the budget: all of it, unless [`Store::watch_memory`] has found the process too large.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.budget.usable()
    }

    /// Creates a free list for this thread: entries that it stores from now on are left there when a sweep removes them. It
    /// must be cleared from time to time, since sweeps wait for that.
    #[must_use]
    pub fn free_list(&self) -> ThreadFreeList {
        self.deferred.new_list()
    }

    /// Approximate bytes that sweeps have removed and their threads have not freed yet: no longer in the budget, but
    /// resident.
    #[must_use]
    pub fn deferred_bytes(&self) -> u64 {
        self.deferred.waiting()
    }

    /// Approximate bytes of other threads that sweeps have freed so far: pages that these threads have to look through.
    #[must_use]
    pub fn freed_by_other_threads(&self) -> u64 {
        self.deferred.freed_by_other_threads()
    }

    /// Compares the process's resident memory with the bytes in use, and evicts where it is too much. An allocator that
    /// cannot return freed memory, or connections that take more than [`PROCESS_OVERHEAD`], reduce the budget, down to a half. The
    /// store checks by itself while fills arrive; a timer calls this some times a second for changes outside it.
    pub fn watch_memory(&self) {
        if let Some(resident) = own_memory() {
            self.budget.adjust_to_rss(resident, self.overhead.load(Relaxed));
            self.trim();
        }
    }

    fn bounds(&self, variants: usize) -> EntryBounds {
        EntryBounds { variants, bytes: self.budget.most_for_one() }
    }

    pub(crate) fn shard(&self, hash: KeyHash) -> &RwLock<RamShard> {
        &self.shards[hash.place(self.shards.len())]
    }

    /// Adds an entry to the index; returns the one it replaces, to be dropped after the books are unlocked.
    pub(crate) fn put(&self, eviction: &mut EvictionState, hash: KeyHash, entry: Entry) -> Option<Entry> {
        let charged = u64::from(entry.charged);
        let size = charged + SLOT_COST + entry.arena_bytes();
        self.budget.charge(charged);
        self.budget.responses.add(charged);
        entry.used.store(self.purges.tick(), Relaxed);
        let mut shard = self.shard(hash).write();
        if shard.misses.forget(hash) {
            self.budget.release(MISS_COST);
        }
        if let Some(there) = shard.slots.get_mut(&hash.packed()) {
            eviction.policy.resize(there.handle(), size);
            self.budget.responses.take(u64::from(there.charged));
            self.budget.release(u64::from(there.charged));
            entry.set_handle(there.handle());
            entry.uses.store(there.uses.load(Relaxed), Relaxed);
            return Some(std::mem::replace(there, entry));
        }
        entry.set_handle(eviction.policy.insert(hash.packed(), size));
        shard.slots.insert(hash.packed(), entry);
        shard.settle(&self.budget);
        eviction.settle(&self.budget);
        None
    }

    /// Charges `bytes` to the budget and evicts until it holds.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), OverBudget> {
        let before = self.bytes_added.fetch_add(bytes, Relaxed);
        if before / RSS_CHECK_BYTES != (before + bytes) / RSS_CHECK_BYTES {
            self.watch_memory();
        }
        self.budget.charge(bytes);
        if self.trim() {
            return Ok(());
        }
        self.budget.release(bytes);
        Err(OverBudget)
    }

    /// Evicts until the budget holds, a few at a time, so that no other worker waits long; returns whether it does.
    pub(crate) fn trim(&self) -> bool {
        loop {
            let excess = self.budget.excess();
            if excess == 0 {
                return true;
            }
            if self.shed_encodings(excess) {
                continue;
            }
            // Purged entries are freed before usable ones: a caller that needs room continues the sweep.
            if self.unswept() > 0 && self.sweep(1) == Swept::More && self.budget.excess() < excess {
                continue;
            }
            let gone = self.evict(excess);
            if gone.is_empty() {
                return self.budget.excess() == 0;
            }
            self.count_evicted(&gone);
            self.offer(&gone);
            // Extents that are being sent stay in the budget until that is over; the loop then takes more.
        }
    }

    /// Removes up to [`BATCH`] entries, or as many as hold `excess` bytes.
    pub(crate) fn evict(&self, excess: u64) -> Vec<Evicted> {
        let mut eviction = self.eviction.lock();
        let (mut gone, mut freed) = (Vec::new(), 0);
        while freed < excess && gone.len() < BATCH {
            let evicted = eviction.policy.evict(|id, count| {
                let shard = self.shard(id.whole()).read();
                let Some(entry) = shard.slots.get(&id) else { return 0 };
                let uses = entry.uses.load(Relaxed);
                entry.uses.store(count.apply(uses), Relaxed);
                uses
            });
            let Some(id) = evicted else { break };
            let hash = id.whole();
            let Some(entry) = self.shard(hash).write().take(id, &self.budget) else { continue };
            freed += u64::from(entry.charged) + entry.arena_bytes();
            gone.push(Evicted { entry, hash, since: self.removals(hash) });
        }
        eviction.settle(&self.budget);
        gone
    }
}

#[cfg(test)]
#[path = "ram/tests.rs"]
mod tests;
