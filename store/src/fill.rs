//! A fetch in flight that other requests may follow: one writer, many readers on any worker, and a body shared while it
//! arrives. A fill belongs to no client: the client that started it may leave. `in_flight` lists the fills.
//!
//! A *kept* fill holds its whole body until it is stored; slow readers do not delay it. A fill that is not kept holds a
//! window: the writer waits for the slowest reader, but not for long while others wait, too (`slow_reader`). Every state
//! change happens under the fill's lock and is followed by a notification. The other side starts listening *before* it
//! looks, so that no change is missed. `reader` is the reading end; `spooling` has the spool, from which slow readers are
//! served.

use self::drain::DrainPolicy;
pub use self::drain::WithoutSpool;
pub use self::head::{FillEnd, FillHead, SharedHead, SpentLifetime};
use self::in_flight::{FetchNumber, FillId, Joined};
use self::reader::ReaderRole;
pub use self::reader::{DepartedReader, FillReader};
use self::slow_reader::WriterPace;
use self::spooling::{SpooledChunk, Spooling};
use crate::key::KeyHash;
use crate::memory_budget::on_heap;
use crate::purges::Seq;
use crate::ram::{NotStored, Removals, Store, StoredArc};
use crate::spool::Spooled;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::sync::Notify;

/// Bytes that the writer of a fill that is not kept may be ahead of its slowest reader, however full RAM is.
pub const WINDOW: u64 = 256 * 1024;

/// The most bytes of one read from an origin.
const PIECE: u64 = 64 * 1024;

/// Bytes that are fetched before the reader asks for the first: less than one read from an origin, which includes the
/// head, so that there is no second one.
const FIRST: u64 = 8 * 1024;

mod drain;
pub(crate) mod head;
pub(crate) mod in_flight;
mod reader;
mod slow_reader;
mod spooling;

/// A pushed slice below this is copied: it may be a small part of a large buffer, which it would keep alive. Larger ones
/// are kept as they are: their reader's buffers are filled to the end before the next is allocated.
const COPY_BELOW: usize = 4096;

/// Copied slices are joined up to this size, so that a body in tiny pieces does not become a million chunks.
const JOIN_TO: usize = 16 * 1024;

/// The cost of a chunk in addition to its bytes: its place in the queue, and its buffer's count.
const CHUNK_COST: u64 = 128;

/// The memory of a response in addition to its body, for finding room.
const RESPONSE_OVERHEAD: u64 = 32 * 1024;

/// The cost of a fill in addition to its key and chunks: itself, its map entry, its readers' positions.
const FILL_COST: u64 = 1024;

/// The result of [`Store::begin`].
pub enum Begin {
    /// There is no fetch for this: write this fill; the reader is for your own client.
    Lead(FillWriter, FillReader),
    /// There is one: read along.
    Follow(FillReader),
    /// Too many fills in flight: fetch alone.
    Full,
}

/// One fetch in flight.
pub struct Fill {
    pub(crate) id: FillId,
    pub(crate) key: Box<[u8]>,
    /// The last purge in force when it started.
    begun: Seq,
    /// The removals so far at that time.
    since: Removals,
    store: Arc<Store>,
    state: Mutex<FillState>,
    /// The key was removed: the arriving response is not stored. Changes only under the lock of the store's books.
    detached: AtomicBool,
    /// When one of its readers last asked the origin in addition, milliseconds; zero where none has. See
    /// [`FillReader::may_start_extra_fetch`].
    extra_fetch_at: AtomicU64,
    /// Notifies readers: a head, bytes or the end arrived.
    arrived: Notify,
    /// Notifies the writer: a reader advanced or left.
    drained: Notify,
}

struct FillState {
    head: Option<FillHead>,
    keeping: Keeping,
    chunks: VecDeque<Chunk>,
    /// Bytes pushed so far.
    length: u64,
    end: Option<FillEnd>,
    /// The readers of the body: their number at each offset.
    positions: BTreeMap<u64, usize>,
    readers: usize,
    /// The number of readers that may be gone: see [`FillReader::mark_suspect`].
    suspect_readers: usize,
    /// The reader that started it still reads.
    leader: bool,
    /// The bytes charged to the budget for the chunks.
    charged: u64,
    /// A reader below this offset fell behind: it gets nothing more.
    left_behind: u64,
    /// Readers that have read all `length` bytes and wait for more.
    waiting: usize,
    /// Bytes that may be buffered for the reader that asked last.
    ahead: u64,
    /// The file of those chunks that are in the spool.
    spooled: Option<Arc<Spooled>>,
    /// See [`FillWriter::provoked_by`].
    provoked_by: Option<KeyHash>,
}

/// The part of the body that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// All, from the first byte: readers may join.
    Whole,
    /// The bytes that the slowest reader lacks.
    Window,
}

struct Chunk {
    start: u64,
    length: usize,
    held: ChunkBytes,
    copied: bool,
}

/// The place of a chunk's bytes.
enum ChunkBytes {
    Here(Bytes),
    /// In the spool, where this identifies them. Only the oldest are there.
    Spooled(u64),
}

impl Chunk {
    fn new(start: u64, bytes: Bytes, copied: bool) -> Self {
        Self { start, length: bytes.len(), held: ChunkBytes::Here(bytes), copied }
    }

    fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    fn bytes(&self) -> Option<&Bytes> {
        match &self.held {
            ChunkBytes::Here(bytes) => Some(bytes),
            ChunkBytes::Spooled(_) => None,
        }
    }

    /// The bytes charged to the budget for it.
    fn cost(&self) -> u64 {
        self.bytes().map_or(0, |it| it.len() as u64) + CHUNK_COST
    }
}

/// Splits off the first of `bytes`, `most` of them at most. A part that is the smaller one is copied, so that it does not
/// keep the others alive.
#[must_use]
pub fn part(bytes: &mut Bytes, most: u64) -> Bytes {
    let part = bytes.split_to(usize::try_from(most).map_or(bytes.len(), |it| it.min(bytes.len())));
    if part.len() < bytes.len() { Bytes::copy_from_slice(&part) } else { part }
}

/// The available bytes for a reader.
enum NextBytes {
    /// Bytes to the end of a chunk.
    Here(Bytes),
    /// They are in the spool.
    Spooled(SpooledChunk),
    Nothing,
}

impl Store {
    /// Joins the fetch in flight for `flight` (the hash of key and variant), or starts one. `primary` is the hash of
    /// `key`, by which [`Store::remove`] finds it. A fetch that started before a purge that may apply to it is not
    /// joined.
    pub fn begin(&self, primary: KeyHash, fetch_key: KeyHash, key: &[u8]) -> Begin {
        self.begin_or_add(primary, fetch_key, key, None)
    }

    /// [`Store::begin`] for a request that has waited long enough for the fetch of `waits`. Where that is still the fetch
    /// that requests join, another is started in addition, and joined from now on.
    pub fn begin_extra(&self, primary: KeyHash, fetch_key: KeyHash, key: &[u8], waits: &FillReader) -> Begin {
        self.begin_or_add(primary, fetch_key, key, Some(waits))
    }

    fn begin_or_add(
        &self,
        primary: KeyHash,
        fetch_key: KeyHash,
        key: &[u8],
        waits: Option<&FillReader>,
    ) -> Begin {
        let id = FillId { primary, fetch: FetchNumber::Shared(fetch_key) };
        let mut place = ReaderRole::Follower;
        let join = |it: &Fill| {
            let other = waits.is_none_or(|reader| !reader.reads(it));
            other && self.join(it, key).map(|it| place = it).is_some()
        };
        match self.in_flight.join_or(id, key, join, || Fill::new(self, id, key)) {
            Joined::Existing(fill) => Begin::Follow(FillReader::new(fill, place)),
            Joined::New(fill) => {
                let (writer, reader) = Fill::writer_and_reader(fill);
                Begin::Lead(writer, reader)
            }
            Joined::Refused => {
                self.counters.fills_full.add_shared(1);
                Begin::Full
            }
        }
    }

    /// Joins the fetch in flight for `flight` as [`Store::begin`] does, where there is one that may be joined; starts
    /// none.
    pub fn follow(&self, primary: KeyHash, fetch_key: KeyHash, key: &[u8]) -> Option<FillReader> {
        let id = FillId { primary, fetch: FetchNumber::Shared(fetch_key) };
        let mut place = ReaderRole::Follower;
        let join = |it: &Fill| self.join(it, key).map(|it| place = it).is_some();
        let fill = self.in_flight.join(id, key, join)?;
        Some(FillReader::new(fill, place))
    }

    /// Whether RAM could not hold a response of `length` bytes even without other content.
    #[must_use]
    pub fn is_outgrown_by(&self, length: u64) -> bool {
        !self.could_hold(length + RESPONSE_OVERHEAD)
    }

    /// Adds one more reader to the fill's state, unless a purge forbids it. Called while the fill cannot be removed from
    /// the flights.
    fn join(&self, fill: &Fill, key: &[u8]) -> Option<ReaderRole> {
        let head = fill.state.lock().shared_head();
        let may = self.purges.may_join(key, fill.begun, head.as_deref());
        may.then(|| fill.state.lock().join())
    }

    /// A fill that cannot be joined, for fetches that go alone. Its response is not stored if its key was removed since
    /// `since`, which was read before the origin was asked. A removal of a neighbour counts too, and costs at worst a
    /// store.
    pub fn begin_private(&self, primary: KeyHash, key: &[u8], since: Removals) -> (FillWriter, FillReader) {
        let fill = self.in_flight.add_private(primary, |id| Fill::new(self, id, key));
        // A removal from here on finds the fill; an earlier one was counted.
        if self.removals(primary) != since {
            fill.detach();
        }
        Fill::writer_and_reader(fill)
    }
}

impl Fill {
    fn new(store: &Store, id: FillId, key: &[u8]) -> Arc<Fill> {
        let store =
            store.weak_self.upgrade().expect("a store is only ever in the Arc that `Store::new` made");
        store.budget.charge(FILL_COST + on_heap(key.len()));
        store.budget.fills.add(FILL_COST + on_heap(key.len()));
        let state = FillState {
            head: None,
            keeping: Keeping::Whole,
            chunks: VecDeque::new(),
            length: 0,
            end: None,
            positions: BTreeMap::from([(0, 1)]),
            readers: 1,
            suspect_readers: 0,
            leader: true,
            charged: 0,
            left_behind: 0,
            waiting: 0,
            ahead: 0,
            spooled: None,
            provoked_by: None,
        };
        Arc::new(Fill {
            id,
            key: key.into(),
            begun: store.purges.seq(),
            since: store.removals(id.primary),
            store,
            state: Mutex::new(state),
            detached: AtomicBool::new(false),
            extra_fetch_at: AtomicU64::new(0),
            arrived: Notify::new(),
            drained: Notify::new(),
        })
    }

    fn writer_and_reader(fill: Arc<Fill>) -> (FillWriter, FillReader) {
        let reader = FillReader::new(fill.clone(), ReaderRole::Leader);
        let (pace, spooling) = (WriterPace::default(), Spooling::default());
        let (hurry, spent) = (DrainPolicy::No, SpentLifetime::No);
        (
            FillWriter { fill, slow_readers: pace, spooling, drain_policy: hurry, spent, finished: false },
            reader,
        )
    }

    pub(crate) fn detach(&self) {
        self.detached.store(true, Relaxed);
    }

    /// Changes the state and notifies `bell`. The budget already has `ahead` for the change; the unused part leaves the
    /// budget again.
    fn change<T>(&self, ahead: u64, bell: &Notify, change: impl FnOnce(&mut FillState) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.charged + ahead;
        let result = change(&mut state);
        let freed = before - state.charged;
        drop(state);
        self.store.budget.fills.add(ahead);
        self.store.budget.fills.take(freed);
        self.store.budget.release(freed);
        bell.notify_waiters();
        result
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        let charged = self.state.get_mut().charged;
        let all = charged + FILL_COST + on_heap(self.key.len());
        self.store.budget.fills.take(all);
        self.store.budget.release(all);
    }
}

impl FillState {
    fn join(&mut self) -> ReaderRole {
        debug_assert_eq!(Keeping::Whole, self.keeping, "it left the flights before it stopped being kept");
        self.add_position(0);
        if self.head.is_some() { ReaderRole::Follower } else { ReaderRole::Waiting }
    }

    fn shared_head(&self) -> Option<Arc<SharedHead>> {
        match &self.head {
            Some(FillHead::Shared(head)) => Some(head.clone()),
            _ => None,
        }
    }

    /// There is one reader, and there will be no other.
    fn has_one_reader(&self) -> bool {
        self.keeping == Keeping::Window && self.readers == 1
    }

    fn is_private(&self) -> bool {
        matches!(self.head, Some(FillHead::Private(_)))
    }

    /// Adds bytes as one chunk; its cost is in the memory budget already.
    fn add(&mut self, bytes: Bytes) {
        let copied = bytes.len() < COPY_BELOW;
        let bytes = if copied { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.charged += bytes.len() as u64 + CHUNK_COST;
        let start = self.length;
        self.length += bytes.len() as u64;
        self.waiting = 0;
        self.chunks.push_back(Chunk::new(start, bytes, copied));
        while self.join_last() {}
    }

    /// Joins the last two chunks where both are copies and the last is not much smaller: each byte is copied a
    /// logarithmic number of times.
    fn join_last(&mut self) -> bool {
        let Some(before) = self.chunks.len().checked_sub(2) else { return false };
        let (a, b) = (&self.chunks[before], &self.chunks[before + 1]);
        let (Some(first), Some(second)) = (a.bytes(), b.bytes()) else { return false };
        let (small, large) = (b.length, a.length);
        if !(a.copied && b.copied) || small < large / 2 || small + large > JOIN_TO {
            return false;
        }
        let joined = Chunk::new(a.start, Bytes::from([&first[..], &second[..]].concat()), true);
        self.chunks.truncate(before);
        self.chunks.push_back(joined);
        self.charged -= CHUNK_COST;
        true
    }

    /// Drops the chunks that all readers have read, where no reader can join that has not.
    fn drop_read_chunks(&mut self) {
        if self.keeping == Keeping::Whole && self.end.is_none() {
            return;
        }
        let slowest = self.positions.keys().next().copied().unwrap_or(u64::MAX);
        while self.chunks.front().is_some_and(|it| it.end() <= slowest) {
            self.charged -= self.chunks.pop_front().map_or(0, |it| it.cost());
        }
        self.close_spool_if_empty();
    }

    /// Bytes in RAM that a reader has yet to read, in whole chunks.
    fn held(&self) -> u64 {
        self.chunks.get(self.first_in_ram()).map_or(0, |it| self.length - it.start)
    }

    /// Whether more is to be fetched of a body that is not kept; for several readers the rules of `slow_reader` apply.
    fn needs_more(&self) -> bool {
        self.readers > 1
            || self.waiting > 0
            || self.length < FIRST
            || self.held().saturating_add(PIECE) <= self.ahead
    }

    fn add_position(&mut self, at: u64) {
        self.readers += 1;
        *self.positions.entry(at).or_default() += 1;
    }

    fn remove_position(&mut self, at: u64) {
        self.readers -= 1;
        if let Some(here) = self.positions.get_mut(&at) {
            *here -= 1;
            if *here == 0 {
                self.positions.remove(&at);
            }
        }
    }

    /// The bytes after `at`, to the end of a chunk.
    fn read(&self, at: u64) -> NextBytes {
        let after = self.chunks.partition_point(|it| it.start <= at);
        let Some(chunk) = after.checked_sub(1).and_then(|it| self.chunks.get(it)) else {
            return NextBytes::Nothing;
        };
        let from = usize::try_from(at - chunk.start).unwrap_or(usize::MAX);
        match &chunk.held {
            _ if from >= chunk.length => NextBytes::Nothing,
            ChunkBytes::Here(bytes) => NextBytes::Here(bytes.slice(from..)),
            ChunkBytes::Spooled(check) => {
                self.in_spool(chunk, *check).map_or(NextBytes::Nothing, NextBytes::Spooled)
            }
        }
    }
}

/// The writing end. Dropping it before [`FillWriter::finish`] fails the fill.
pub struct FillWriter {
    fill: Arc<Fill>,
    slow_readers: WriterPace,
    spooling: Spooling,
    drain_policy: DrainPolicy,
    spent: SpentLifetime,
    finished: bool,
}

impl FillWriter {
    /// The fetch fails, perhaps because of its own request: this is the hash of that request's fields. Called before the
    /// head.
    pub fn provoked_by(&self, request: KeyHash) {
        self.fill.state.lock().provoked_by = Some(request);
    }

    /// Publishes the head. With `keep`, the whole body is kept for storing and late readers; without, only a window of
    /// it, and no reader may join any more. A private response is never kept, and a spent one is not joined.
    pub fn head(&mut self, head: FillHead, keep: bool) {
        let keeps = keep && matches!(head, FillHead::Shared(_));
        if let FillHead::Shared(head) = &head {
            self.spent = head.spent;
        }
        if !keeps {
            self.fill.store.in_flight.leave(&self.fill);
        } else if self.spent != SpentLifetime::No {
            self.fill.store.in_flight.displace(&self.fill);
        }
        self.fill.change(0, &self.fill.arrived, |state| {
            debug_assert!(state.head.is_none() && state.length == 0, "a fill has one head, before its body");
            if !keeps {
                state.keeping = Keeping::Window;
            }
            if matches!(head, FillHead::Private(_)) {
                // The body is for the leader only; no other reader counts, or is waited for.
                (state.readers, state.suspect_readers) = (usize::from(state.leader), 0);
                state.positions = (0..state.readers).map(|_| (0, 1)).collect();
            }
            state.head = Some(head);
        });
    }

    /// Waits until more of the body is to be fetched. For a body that is not kept, its only reader sets how much may be
    /// buffered here ([`FillReader::set_read_ahead`]): a client that takes nothing stops its origin, and does not fill memory.
    ///
    /// # Errors
    /// There is no reader and nothing is kept: stop fetching.
    pub async fn wanted(&mut self) -> Result<(), Abandoned> {
        let fill = self.fill.clone();
        loop {
            let drained = fill.drained.notified();
            {
                let state = fill.state.lock();
                match state.keeping {
                    Keeping::Window if state.readers == 0 => return Err(Abandoned),
                    Keeping::Window if !self.drain_policy.is_on() && !state.needs_more() => {}
                    Keeping::Whole | Keeping::Window => return Ok(()),
                }
            }
            self.wait_drained(drained).await;
        }
    }

    /// Adds bytes. A fill that is not kept waits here while it is a window ahead of its slowest reader; a reader for
    /// which others have waited long enough is cut. A kept fill that exceeds `max_object` or the budget, or whose key was
    /// removed, is no longer kept and continues as a window.
    ///
    /// Slices below 4 KiB are copied, so that they do not keep a large buffer alive; pass larger ones as they were read.
    /// If this future is dropped, the bytes were not added.
    ///
    /// # Errors
    /// There is no reader and nothing is kept, or the readers are cut off: stop fetching.
    pub async fn push(&mut self, bytes: Bytes, max_object: u64) -> Result<(), Abandoned> {
        if bytes.is_empty() {
            return Ok(());
        }
        let cost = bytes.len() as u64 + CHUNK_COST;
        if !self.try_keep(bytes.len() as u64, cost, max_object) {
            self.stop_keeping();
            self.reserve_window(cost).await?;
        }
        self.fill.change(cost, &self.fill.arrived, |state| state.add(bytes));
        Ok(())
    }

    /// Whether `more` bytes can be kept, too; if so, charges `cost` to the budget.
    fn try_keep(&self, more: u64, cost: u64, max_object: u64) -> bool {
        let fill = &*self.fill;
        let (keeping, length) = {
            let state = fill.state.lock();
            (state.keeping, state.length + more)
        };
        if keeping == Keeping::Window {
            return false;
        }
        let counters = &fill.store.counters;
        if fill.detached.load(Relaxed) {
            // A removed response need not be held, only passed on.
        } else if length > max_object {
            counters.cache_object_too_large.add_shared(1);
        } else if length <= fill.store.budget.most_for_one() && fill.store.reserve(cost).is_ok() {
            return true;
        } else {
            counters.cache_over_budget.add_shared(1);
        }
        false
    }

    /// Holds only a window from here on.
    fn stop_keeping(&self) {
        if self.fill.state.lock().keeping == Keeping::Window {
            return;
        }
        // First joining becomes impossible, then the beginning is released.
        self.fill.store.in_flight.leave(&self.fill);
        self.fill.change(0, &self.fill.arrived, |state| {
            state.keeping = Keeping::Window;
            state.drop_read_chunks();
        });
    }

    /// Whether the body is still kept whole, and the key was not removed meanwhile: it may be stored.
    #[must_use]
    pub fn may_store(&self) -> bool {
        let state = self.fill.state.lock();
        let shared = matches!(state.head, Some(FillHead::Shared(_))) && self.spent != SpentLifetime::Passing;
        shared && state.keeping == Keeping::Whole && !self.fill.detached.load(Relaxed)
    }

    /// Stores the fill's response under its key, as [`Store::insert`]; unless the key was removed since the fill started,
    /// or purged since the response was requested, even if only during this call.
    ///
    /// # Errors
    /// It was removed or purged, or no room could be made.
    pub fn insert(&self, stored: StoredArc, max_variants: usize) -> Result<(), NotStored> {
        let Fill { id, key, store, .. } = &*self.fill;
        store.insert_unless(id.primary, key, stored, max_variants, || !self.may_store())
    }

    /// Stores a lower tier's response under this fill's key, as [`FillWriter::insert`]; no head was published for it, and
    /// no body passed through here.
    ///
    /// # Errors
    /// It was removed, or no room could be made.
    pub fn admit(&self, stored: StoredArc, max_variants: usize) -> Result<(), NotStored> {
        let Fill { id, key, store, detached, .. } = &*self.fill;
        store.insert_unless(id.primary, key, stored, max_variants, || detached.load(Relaxed))
    }

    /// Whether the key was removed since this fill started: then its response is outdated.
    #[must_use]
    pub fn was_removed(&self) -> bool {
        self.fill.detached.load(Relaxed)
    }

    /// Whether this body is too large for RAM, as far as known: `more` bytes are about to arrive, and `known` is its
    /// length if announced.
    #[must_use]
    pub fn outgrows_ram(&self, more: u64, known: Option<u64>) -> bool {
        let length = (self.fill.state.lock().length + more).max(known.unwrap_or(0));
        self.fill.store.is_outgrown_by(length)
    }

    /// Tracks removals after this writer has finished.
    #[must_use]
    pub fn watch(&self) -> RemovalWatch {
        RemovalWatch(self.fill.clone())
    }

    /// The kept body so far.
    #[must_use]
    pub fn chunks(&self) -> Vec<Bytes> {
        self.fill.state.lock().chunks.iter().filter_map(Chunk::bytes).cloned().collect()
    }

    /// The number of readers.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.fill.state.lock().readers
    }

    /// Ends the fill. Call after the response is in the store, so that no request misses both.
    pub fn finish(mut self, end: FillEnd) {
        self.end(end);
    }

    fn end(&mut self, end: FillEnd) {
        self.finished = true;
        self.fill.store.in_flight.leave(&self.fill);
        self.fill.change(0, &self.fill.arrived, |state| {
            state.head.get_or_insert(FillHead::Failed(502));
            state.end = Some(end);
            state.drop_read_chunks();
        });
    }
}

impl Drop for FillWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.end(FillEnd::Failed);
        }
    }
}

/// The removals since a fill started, whether it can still be found or not.
pub struct RemovalWatch(Arc<Fill>);

impl RemovalWatch {
    /// Whether the key, or a neighbour of it, was removed since.
    #[must_use]
    pub fn was_removed(&self) -> bool {
        let Fill { detached, since, store, id, .. } = &*self.0;
        detached.load(Relaxed) || store.removals(id.primary) != *since
    }
}

/// There is no reader and nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

#[cfg(test)]
#[path = "fill/tests.rs"]
mod tests;
