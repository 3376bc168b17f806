//! The RAM tier: shelves under a 128-bit hash, S3-FIFO over all, a budget in bytes. What a shelf is, is in
//! `shelf`; who goes first, in `s3fifo`; fetches in flight, in `fill`.
//!
//! Two kinds of lock. Each shard of the index has a shared one: a hit takes it for reading, clones one `Arc`, and
//! is done. Everything that changes the store holds the *books* first and a shard's write lock within, so that
//! index, policy and detached fills never disagree. Order: books, shard, flights, fill. Nothing is freed under a lock.

use crate::arena::Arena;
use crate::deferred_free::DeferredFree;
use crate::disk::DiskTier;
use crate::encodings::EncodedResponses;
use crate::entry::EntryBounds;
use crate::evicted::Evicted;
use crate::hit_for_miss::{HitForMissTable, MISS_COST};
use crate::idle::{IdleProgress, Swept};
use crate::in_flight::InFlight;
use crate::memory_budget::{MemoryBudget, on_heap};
use crate::purges::Purges;
use crate::s3fifo::{S3Fifo, WalkPosition, table_bytes};
use crate::spool::Spool;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::purged::PurgeVerdict;
use larder_stdx::as_is::AsIs;
use larder_wire::ready_head::Templates;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::io;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock, Weak};
use xxhash_rust::xxh3::xxh3_128_with_secret;

pub use crate::entry::{
    DiskOffer, Entry, Exchanged, FleetCopy, Stored, StoredArc, StoredBody, UncommonParts, Variants,
};

/// Bytes of the budget for which there is one shard of the index: so few that a walk over one, which keeps writers of
/// the shard waiting and hits behind them, is over in some 50 us (`listing`).
const BUDGET_OF_SHARD: u64 = 1 << 20;

/// Shards of the index: a power of two, for this budget.
fn shards(budget: u64) -> usize {
    usize::try_from(budget / BUDGET_OF_SHARD).unwrap_or(usize::MAX).clamp(64, 8192).next_power_of_two()
}

/// How many counts of removals there are: see [`Store::removals`]. Answers that may not be stored count, and a neighbour's costs a store.
const REMOVALS: usize = 1 << 14;

/// What one more shelf may need of room in the index and the policy; what those really take is counted as they grow.
const SLOT_COST: u64 = 128;

/// So many bytes come in between two looks at the process's memory: a look is 3 µs, and fills that come faster than
/// any timer are what makes an allocator grow.
const MIND_EACH: u64 = 512 << 10;

/// Memory that the process may take for other things than the store before the store has to make room: added to what
/// it took when the store was made.
pub const OUTSIDE: u64 = 16 << 20;

/// What of that each worker adds: pages of each size class, which a thread keeps. The stated base (docs/decisions/0020) has two
/// mebibytes more for each, and four for all, which is what comes between two looks.
pub const OUTSIDE_OF_A_WORKER: u64 = 6 << 20;

/// Shelves that are evicted under one hold of the books.
const BATCH: usize = 32;

/// Size and shape of the RAM tier.
#[derive(Clone, Copy, Debug)]
pub struct RamSettings {
    /// Bytes that everything kept and everything in flight may take, metadata included.
    pub budget: u64,
    /// Bodies above this many bytes live in the arena; others on the heap. 16 KiB was measured best.
    pub heap_line: usize,
    /// Fetches in flight that may be shared.
    pub fills: usize,
}

/// A moment, as far as removals are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removals(pub(crate) u64);

/// The hash of a key. Seeded at random for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// Its place among `of`, a power of two: by bits that a table within the place does not use.
    pub(crate) fn place(self, of: usize) -> usize {
        (self.0 >> 64) as usize & (of - 1)
    }

    pub(crate) fn packed(self) -> PackedHash {
        PackedHash { low: self.0 as u64, high: (self.0 >> 64) as u64 }
    }
}

/// A [`KeyHash`] that is aligned as a word is, where there is one for each shelf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedHash {
    low: u64,
    high: u64,
}

impl PackedHash {
    pub(crate) fn whole(self) -> KeyHash {
        KeyHash(u128::from(self.high) << 64 | u128::from(self.low))
    }
}

impl Hash for PackedHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// What a lookup found.
pub enum Lookup {
    /// Responses under this key.
    Shelf(Entry),
    /// Nothing, and answers are known not to be shared: do not wait for each other.
    HitForMiss,
    /// Nothing.
    Nothing,
}

/// The budget has no room and nothing that could be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Why [`crate::FillWriter::insert`] did not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// The key was removed after this fill began, or the body is no longer kept whole.
    Removed,
    /// Another answer came after this one was asked for: neither is kept, since the origin may have made either later.
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
    outside: AtomicU64,
    /// Bytes that were ever taken in, to look at the process's memory once for each [`MIND_EACH`].
    taken_in: AtomicU64,
    pub(crate) books: Mutex<ShardBooks>,
    pub(crate) purges: Purges,
    pub(crate) arena: Arc<Arena>,
    pub(crate) ledger: Arc<MemoryBudget>,
    pub(crate) flights: InFlight,
    /// What the heads of many responses share.
    pub(crate) heads: Templates,
    pub(crate) formed: EncodedResponses,
    pub(crate) idle: Mutex<IdleProgress>,
    pub(crate) yards: DeferredFree,
    /// How often something was removed, by shard of the key: see [`Store::removals`].
    pub(crate) removed: Box<[AtomicU64]>,
    pub(crate) counters: Arc<Counters>,
    /// Where what is evicted goes.
    pub(crate) below: OnceLock<Weak<DiskTier>>,
    /// Where bytes wait that are not kept, for readers who are too slow for the others.
    pub(crate) spool: OnceLock<Arc<Spool>>,
    pub(crate) me: Weak<Store>,
}

#[derive(Default)]
pub(crate) struct RamShard {
    pub(crate) slots: HashMap<PackedHash, Entry, BuildHasherDefault<AsIs>>,
    pub(crate) misses: HitForMissTable,
    /// What the ledger has for the table.
    footprint: u64,
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The kernel gives no memfd.
    pub fn new(settings: RamSettings, counters: Arc<Counters>) -> std::io::Result<Arc<Store>> {
        let mut secret = Box::new([0; 192]);
        // 256 bytes and less come whole (getrandom(2)).
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let ledger = Arc::new(MemoryBudget::new(settings.budget));
        let arena = Arena::new(settings.budget, ledger.clone())?;
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
            outside: AtomicU64::new(own_memory().unwrap_or(0) + OUTSIDE),
            taken_in: AtomicU64::new(0),
            books: Mutex::new(ShardBooks { policy: S3Fifo::new(settings.budget), footprint: 0 }),
            purges: Purges::new(settings.budget),
            arena,
            ledger,
            flights: InFlight::new(settings.fills),
            heads: Templates::default(),
            formed: EncodedResponses::default(),
            idle: Mutex::default(),
            yards: DeferredFree::default(),
            removed: (0..REMOVALS).map(|_| AtomicU64::new(0)).collect(),
            counters,
            below: OnceLock::new(),
            spool: OnceLock::new(),
            me: me.clone(),
        }))
    }

    /// The hash of a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(xxh3_128_with_secret(key, &self.secret[..]))
    }

    /// Looks a key up, under a shared lock, and notes the use for S3-FIFO. What was purged since it was last met is
    /// treated so first, and so is what is not trusted now. `now` is for the memory of hit-for-miss alone: milliseconds of
    /// the clock by which [`Store::remember_miss`] was told until when.
    #[must_use]
    pub fn lookup(&self, hash: KeyHash, key: &[u8], now: u64) -> Lookup {
        let shard = self.shard(hash).read();
        match shard.slots.get(&hash.packed()) {
            Some(shelf) if *shelf.key() == *key => {
                shelf.note_use(self.purges.tick());
                let shelf = shelf.clone();
                if self.purges.is_met_by(&shelf) {
                    return Lookup::Shelf(shelf);
                }
                drop(shard);
                self.look_again(hash, shelf)
            }
            _ => self.look_for_miss(&shard.misses, hash, key, now),
        }
    }

    /// Notes that a request was answered with what is under this key, where it was looked up some time ago.
    pub fn note_hit(&self, hash: KeyHash, key: &[u8]) {
        if let Some(shelf) = self.standing(hash, key) {
            shelf.note_hit();
        }
    }

    /// Makes a body out of chunks, on the heap or in the arena. Evicts as needed.
    ///
    /// # Errors
    /// No room could be made, or the body alone exceeds a quarter of the budget.
    pub fn make_body(&self, chunks: &[Bytes]) -> Result<StoredBody, OverBudget> {
        let length: u64 = chunks.iter().map(|it| it.len() as u64).sum();
        if length <= self.heap_line as u64 {
            return Ok(StoredBody::on_the_heap(chunks));
        }
        let cost = self.arena.cost(length);
        if cost > self.ledger.most_for_one() {
            return Err(OverBudget);
        }
        self.reserve(cost)?;
        self.arena.write(chunks, length).map(|it| StoredBody::Arena(Box::new(it))).map_err(|_| OverBudget)
    }

    /// Makes a body of `length` bytes, which `read` brings one piece after another; on the way there is never more of it on the heap
    /// than of a body that stays there. Evicts as needed.
    ///
    /// # Errors
    /// As of [`Store::make_body`], or `read` says so.
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
        let cost = self.arena.cost(length);
        if cost > self.ledger.most_for_one() {
            return Err(OverBudget);
        }
        self.reserve(cost)?;
        let slice = self.arena.write_from(length, read).map_err(|_| OverBudget)?;
        Ok(StoredBody::Arena(Box::new(slice)))
    }

    /// Whether RAM could hold a body of this length, if there were room: a quarter of the budget at most.
    #[must_use]
    pub fn could_hold(&self, length: u64) -> bool {
        length <= self.heap_line as u64 || self.arena.cost(length) <= self.ledger.most_for_one()
    }

    /// A response as it is kept in RAM: its head in both forms, without what many have in common.
    #[must_use]
    pub fn keep(&self, mut stored: Stored) -> StoredArc {
        stored.head = self.heads.keep(stored.head);
        StoredArc::new(stored)
    }

    /// Puts a response on its shelf, in place of the variant with the same variant key. Evicts as needed;
    /// one variant goes where there are more than `max_variants`: the oldest that was not asked for lately.
    ///
    /// For what a fill brought use [`crate::FillWriter::insert`], which minds removals meanwhile.
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

    /// [`Store::insert`], unless `too_late` says so while nothing can be removed.
    pub(crate) fn insert_unless(
        &self,
        hash: KeyHash,
        key: &[u8],
        stored: StoredArc,
        max_variants: usize,
        too_late: impl FnOnce() -> bool,
    ) -> Result<(), NotStored> {
        let cost = stored.heap_cost() + SLOT_COST;
        if cost + stored.body.len() > self.ledger.most_for_one() {
            return Err(NotStored::OverBudget);
        }
        self.reserve(cost).map_err(|_| NotStored::OverBudget)?;
        let mut books = self.books.lock();
        self.ledger.release(cost);
        if too_late() {
            return Err(NotStored::Removed);
        }
        let (verdict, met) = self.purges.verdict(key, &stored, 0);
        let stored = Stored::after(&stored, verdict).ok_or(NotStored::Removed)?;
        let mut standing = self.standing(hash, key);
        if standing.as_ref().is_some_and(|it| it.has_overtaken(&stored)) {
            let gone = self.take_where(&mut books, hash, key, |it| it.may_meet(&stored));
            drop(books);
            drop((gone, standing));
            return Err(NotStored::Overtaken);
        }
        if verdict != PurgeVerdict::Keep {
            // What stands there may be purged, and not met since.
            standing = standing.and_then(|it| self.purges.left_of(it));
            if standing.as_ref().is_some_and(|it| it.has_newer(&stored)) {
                // Asked for before a purge, and come after what was asked for since.
                return Err(NotStored::Removed);
            }
        }
        let bounds = self.bounds(max_variants);
        let (shelf, dropped) = Entry::with(standing.as_ref(), key, stored, None, bounds, met);
        let old = self.put(&mut books, hash, shelf);
        drop(books);
        drop(standing);
        self.counters.cache_variants_full.add_shared(dropped as u64);
        drop(old);
        self.trim();
        Ok(())
    }

    /// Replaces `old` by `new` if `old` is still there, as it was or as a purge has left it (freshening); says whether it
    /// was.
    pub fn replace(&self, hash: KeyHash, key: &[u8], old: &StoredArc, new: StoredArc) -> bool {
        let mut books = self.books.lock();
        let Some(standing) = self.standing(hash, key) else { return false };
        let Some(there) = standing.variants.iter().find(|it| it.is_one_with(old)) else { return false };
        // What is gone by a purge is not brought back by a validation, nor what was validated before one.
        if self.purges.verdict(key, old, standing.met()).0 == PurgeVerdict::Hard {
            return false;
        }
        let (verdict, met) = self.purges.verdict(key, &new, 0);
        let Some(new) = Stored::after(&new, verdict) else { return false };
        let shelf = Entry::with(Some(&standing), key, new, Some(there), self.bounds(usize::MAX), met).0;
        let gone = self.put(&mut books, hash, shelf);
        drop(books);
        drop((gone, standing));
        self.trim();
        true
    }

    /// Removes a key here and, by `below`, from where fills look: here first, so that nothing in flight is stored there after,
    /// and here again, for a fill that began between may have found it there. Says whether anything was stored here.
    pub fn remove_with<T>(&self, hash: KeyHash, key: &[u8], below: impl FnOnce() -> T) -> (bool, T) {
        let was_there = self.remove(hash, key);
        let done = below();
        (self.remove(hash, key) || was_there, done)
    }

    /// Removes everything under a key and detaches its fills in flight: what was requested before is not
    /// stored after, and nobody who comes after reads along. Says whether anything was stored.
    pub fn remove(&self, hash: KeyHash, key: &[u8]) -> bool {
        let mut books = self.books.lock();
        self.removals_of(hash).fetch_add(1, SeqCst);
        if self.shard(hash).write().misses.forget(hash) {
            self.ledger.release(MISS_COST);
        }
        let found = self.standing(hash, key);
        let gone = found.as_ref().and_then(|_| self.take_out(&mut books, hash));
        self.flights.detach(hash, key);
        drop(books);
        gone.is_some()
    }

    /// The shelf of a key.
    pub(crate) fn standing(&self, hash: KeyHash, key: &[u8]) -> Option<Entry> {
        self.any_standing(hash).filter(|it| *it.key() == *key)
    }

    /// The shelf in the place of this hash, whatever its key.
    pub(crate) fn any_standing(&self, hash: KeyHash) -> Option<Entry> {
        self.shard(hash).read().slots.get(&hash.packed()).cloned()
    }

    /// Looks into a shard, under its shared lock.
    pub(crate) fn with_shard<T>(&self, hash: KeyHash, look: impl FnOnce(&RamShard) -> T) -> T {
        look(&self.shard(hash).read())
    }

    /// Gives back what a shard's table has beyond what it needs.
    pub(crate) fn fit(&self, shard: usize) {
        let mut shard = self.shards[shard].write();
        if shard.slots.capacity() > 4 * shard.slots.len() {
            let room = shard.slots.len() * 2;
            shard.slots.shrink_to(room);
            shard.settle(&self.ledger);
        }
    }

    /// Gives back what the policy has beyond what it needs, where what it needs is little.
    pub(crate) fn fit_policy(&self) {
        let mut books = self.books.lock();
        let old = books.policy.fit(|id, handle| {
            if let Some(shelf) = self.shard(id.whole()).read().slots.get(&id) {
                shelf.set_handle(handle);
            }
        });
        books.settle(&self.ledger);
        drop(books);
        drop(old);
    }

    /// Takes a shelf out of the index; returns it, to be dropped after the books are let go.
    pub(crate) fn take_out(&self, books: &mut ShardBooks, hash: KeyHash) -> Option<Entry> {
        let shelf = self.shard(hash).write().take(hash.packed(), &self.ledger)?;
        books.policy.remove(shelf.handle());
        Some(shelf)
    }

    /// Bytes in use: kept and in flight.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.ledger.used()
    }

    /// Bytes that eviction can free: responses in the index, and forms.
    pub(crate) fn evictable(&self) -> u64 {
        self.books.lock().policy.bytes() + self.ledger.forms.get()
    }

    /// Keys under which something is kept.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.shards.iter().map(|it| it.read().slots.len() as u64).sum()
    }

    /// What index and policy take now, and what is remembered of hit-for-miss; and what they were given beyond that and have
    /// not touched.
    pub(crate) fn tables(&self) -> (u64, u64) {
        let of = |it: &RwLock<RamShard>| {
            let shard = it.read();
            shard.footprint + shard.misses.cost()
        };
        let index = self.shards.iter().map(of).sum::<u64>();
        let books = self.books.lock();
        (index + books.footprint, books.policy.untouched())
    }

    /// Something beside the store that was entered with `entered` bytes takes `now`: the index of a lower tier. It counts
    /// against the budget, up to half of it: what is beyond is seen by [`Store::mind_memory`].
    pub fn account_beside(&self, entered: &mut u64, now: u64) {
        self.ledger.settle(entered, now.min(self.ledger.most_for_one() * 2));
        self.trim();
    }

    /// From now on `bytes` more may be resident beside the budget: what threads that serve keep for themselves.
    pub fn allow_beside(&self, bytes: u64) {
        self.outside.fetch_add(bytes, Relaxed);
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.ledger.budget()
    }

    /// What of the budget can be used: all of it, unless [`Store::mind_memory`] has found the process too large for that.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.ledger.usable()
    }

    /// Compares what the process has resident with what is in use, and evicts where there is too much: an allocator
    /// that cannot give back what was freed, or connections that take more than [`OUTSIDE`], make the budget
    /// smaller, down to a half. The store looks by itself while fills come; a timer calls it some times a second for
    /// what grows and shrinks beside it.
    pub fn mind_memory(&self) {
        if let Some(resident) = own_memory() {
            self.ledger.mind(resident, self.outside.load(Relaxed));
            self.trim();
        }
    }

    fn bounds(&self, variants: usize) -> EntryBounds {
        EntryBounds { variants, bytes: self.ledger.most_for_one() }
    }

    pub(crate) fn shard(&self, hash: KeyHash) -> &RwLock<RamShard> {
        &self.shards[hash.place(self.shards.len())]
    }

    /// Puts a shelf into the index; returns the one that stood there, to be dropped after the books are let go.
    pub(crate) fn put(&self, books: &mut ShardBooks, hash: KeyHash, shelf: Entry) -> Option<Entry> {
        let charged = u64::from(shelf.charged);
        let size = charged + SLOT_COST + shelf.arena_bytes();
        self.ledger.charge(charged);
        self.ledger.responses.add(charged);
        shelf.used.store(self.purges.tick(), Relaxed);
        let mut shard = self.shard(hash).write();
        if shard.misses.forget(hash) {
            self.ledger.release(MISS_COST);
        }
        if let Some(there) = shard.slots.get_mut(&hash.packed()) {
            books.policy.resize(there.handle(), size);
            self.ledger.responses.take(u64::from(there.charged));
            self.ledger.release(u64::from(there.charged));
            shelf.set_handle(there.handle());
            shelf.uses.store(there.uses.load(Relaxed), Relaxed);
            return Some(std::mem::replace(there, shelf));
        }
        shelf.set_handle(books.policy.insert(hash.packed(), size));
        shard.slots.insert(hash.packed(), shelf);
        shard.settle(&self.ledger);
        books.settle(&self.ledger);
        None
    }

    /// Enters `bytes` in the ledger and evicts until they are within the budget.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), OverBudget> {
        let before = self.taken_in.fetch_add(bytes, Relaxed);
        if before / MIND_EACH != (before + bytes) / MIND_EACH {
            self.mind_memory();
        }
        self.ledger.charge(bytes);
        if self.trim() {
            return Ok(());
        }
        self.ledger.release(bytes);
        Err(OverBudget)
    }

    /// Evicts until the budget holds, a few at a time, so that no other worker waits long; says whether it does.
    pub(crate) fn trim(&self) -> bool {
        loop {
            let excess = self.ledger.excess();
            if excess == 0 {
                return true;
            }
            if self.shed_forms(excess) {
                continue;
            }
            // What was purged goes before what may be used: whoever wants room goes on with the sweep.
            if self.unswept() > 0 && self.sweep(1) == Swept::More && self.ledger.excess() < excess {
                continue;
            }
            let gone = self.evict(excess);
            if gone.is_empty() {
                return self.ledger.excess() == 0;
            }
            let responses: usize = gone.iter().map(|it| it.shelf.variants.len()).sum();
            self.offer(&gone);
            self.counters.cache_evictions.add_shared(responses as u64);
            // Extents that are being sent stay in the ledger until that is over; the loop then takes more.
        }
    }

    /// Takes out up to [`BATCH`] shelves, or as many as hold `excess` bytes.
    pub(crate) fn evict(&self, excess: u64) -> Vec<Evicted> {
        let mut books = self.books.lock();
        let (mut gone, mut freed) = (Vec::new(), 0);
        while freed < excess && gone.len() < BATCH {
            let evicted = books.policy.evict(|id, count| {
                let shard = self.shard(id.whole()).read();
                let Some(shelf) = shard.slots.get(&id) else { return 0 };
                let uses = shelf.uses.load(Relaxed);
                shelf.uses.store(count.apply(uses), Relaxed);
                uses
            });
            let Some(id) = evicted else { break };
            let hash = id.whole();
            let Some(shelf) = self.shard(hash).write().take(id, &self.ledger) else { continue };
            freed += u64::from(shelf.charged) + shelf.arena_bytes();
            gone.push(Evicted { shelf, hash, since: self.removals(hash) });
        }
        books.settle(&self.ledger);
        gone
    }
}

/// Resident bytes of this process that no file backs, and that are not the arena (proc(5), statm); `None` where there
/// is no /proc.
fn own_memory() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// What only one at a time may change.
pub(crate) struct ShardBooks {
    policy: S3Fifo<PackedHash, BuildHasherDefault<AsIs>>,
    /// What the ledger has for the policy.
    footprint: u64,
}

impl ShardBooks {
    /// Names the next shelves of a walk over all: see [`S3Fifo::walk`].
    pub(crate) fn walk(
        &self,
        from: WalkPosition,
        places: usize,
        mut each: impl FnMut(KeyHash),
    ) -> Option<WalkPosition> {
        self.policy.walk(from, places, |hash| each(hash.whole()))
    }

    /// Shelves in the store.
    pub(crate) fn objects(&self) -> usize {
        self.policy.len()
    }

    /// Enters in the ledger what the policy takes now.
    fn settle(&mut self, ledger: &MemoryBudget) {
        let now = self.policy.footprint();
        ledger.settle(&mut self.footprint, now);
    }
}

impl RamShard {
    /// Takes a shelf out, and gives back the table's memory where little of it is used.
    fn take(&mut self, hash: PackedHash, ledger: &MemoryBudget) -> Option<Entry> {
        let shelf = self.slots.remove(&hash)?;
        ledger.responses.take(u64::from(shelf.charged));
        ledger.release(u64::from(shelf.charged));
        if self.slots.capacity() > 4 * self.slots.len().max(8) {
            self.slots.shrink_to(2 * self.slots.len());
        }
        self.settle(ledger);
        Some(shelf)
    }

    /// Enters in the ledger what the table takes now.
    fn settle(&mut self, ledger: &MemoryBudget) {
        let now = on_heap(table_bytes::<(PackedHash, Entry)>(self.slots.capacity()));
        ledger.settle(&mut self.footprint, now);
    }
}

#[cfg(test)]
#[path = "ram/tests.rs"]
mod tests;
