//! The threads that make encodings: a few, shared by all workers, started with the first order. The queue is bounded; an
//! order that finds no room is dropped, and a later hit orders the encoding again.

use super::codec::{self, CodecLevels, STEP, Undecodable};
use super::{head_of, is_hidden};
use larder_counters::Counters;
use larder_semantics::coding::Coding;
use larder_semantics::transcode::{self, EncodingPlan};
use larder_stdx::clock;
use larder_store::memory::Work;
use larder_store::{Encodings, NotMade, Store, Stored, StoredArc, StoredBody};
use larder_transport::body::FileSlice;
use parking_lot::{Condvar, Mutex};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most bytes of bodies in the queue: a queued body cannot be evicted. One body is always accepted.
const MOST_BYTES: u64 = 64 << 20;

/// The settings of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoderSettings {
    /// The most threads; with none no encodings are made.
    pub workers: usize,
    /// The most orders in the queue.
    pub queue: usize,
    /// The compression levels.
    pub levels: CodecLevels,
}

/// The pool, shared by all workers.
pub struct Coders {
    store: Arc<Store>,
    /// Written from every thread.
    counters: Arc<Counters>,
    settings: CoderSettings,
    /// Orders in the queue, readable without the lock.
    waiting: AtomicUsize,
    state: Mutex<CoderState>,
    bell: Condvar,
}

#[derive(Default)]
struct CoderState {
    orders: VecDeque<CodingJob>,
    /// Bytes of the bodies in `orders`.
    bytes: u64,
    threads: usize,
    idle: usize,
}

struct CodingJob {
    stored: StoredArc,
    encodings: Arc<Encodings>,
    coding: Coding,
    /// By the precise clock.
    since: u64,
    /// The heap body may be evicted while it waits, and still takes room.
    _waits: Work,
}

impl Coders {
    /// A pool that has no threads yet.
    #[must_use]
    pub fn new(store: Arc<Store>, counters: Arc<Counters>, settings: CoderSettings) -> Arc<Self> {
        let (state, bell) = (Mutex::default(), Condvar::new());
        Arc::new(Self { store, counters, settings, waiting: AtomicUsize::new(0), state, bell })
    }

    /// Orders this encoding, unless it is being made, was made or refused already, or the queue is full. With nothing to do,
    /// a hit pays two loads.
    pub fn order(self: &Arc<Self>, stored: &StoredArc, coding: Coding) {
        let Some(encodings) = &stored.encodings else { return };
        if self.waiting.load(Relaxed) >= self.settings.queue || self.settings.workers == 0 {
            self.counters.coding_queue_full.add_shared(1);
            return;
        }
        if !encodings.claim(coding) {
            return;
        }
        let on_heap = if let StoredBody::Heap(bytes) = &stored.body { bytes.len() } else { 0 };
        let order = CodingJob {
            stored: stored.clone(),
            encodings: encodings.clone(),
            coding,
            since: clock::precise_micros(),
            _waits: self.store.note_work(on_heap as u64),
        };
        let mut state = self.state.lock();
        let length = stored.body.len();
        if state.bytes > 0 && state.bytes + length > MOST_BYTES {
            drop(state);
            self.counters.coding_queue_full.add_shared(1);
            return order.encodings.not_made(coding, NotMade::Later);
        }
        state.bytes += length;
        state.orders.push_back(order);
        self.waiting.store(state.orders.len(), Relaxed);
        if state.idle == 0 && state.threads < self.settings.workers && self.begin(state.threads) {
            state.threads += 1;
        }
        if state.threads == 0 {
            // The system started no thread: no thread would ever take the order.
            while let Some(order) = self.take(&mut state) {
                order.encodings.not_made(order.coding, NotMade::Later);
            }
        }
        drop(state);
        self.bell.notify_one();
    }

    /// The most encodings at the same time.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.settings.workers
    }

    /// The levels; `None` where nothing is compressed.
    #[must_use]
    pub fn levels(&self) -> Option<CodecLevels> {
        (self.settings.workers > 0).then_some(self.settings.levels)
    }

    /// Codes bytes that are no stored response, such as a file, on the thread of the caller.
    ///
    /// # Errors
    /// As for encodings of stored responses.
    pub fn encode(&self, coding: Coding, plain: &[u8]) -> Result<Vec<u8>, NotMade> {
        let _room = self.room(coding, codec::memory(coding, self.settings.levels, plain.len() as u64))?;
        let code = || self.code(coding, plain);
        let bytes = catch_unwind(AssertUnwindSafe(code)).unwrap_or(Err(NotMade::Never))?;
        self.counters.coding_bytes_read.add_shared(plain.len() as u64);
        self.counters.coding_made.add_shared(1);
        self.counters.coding_bytes_made.add_shared(bytes.len() as u64);
        Ok(bytes)
    }

    /// Codes a plain body, unless it would not become smaller.
    fn code(&self, coding: Coding, plain: &[u8]) -> Result<Vec<u8>, NotMade> {
        let made = codec::encode(coding, self.settings.levels, plain).map_err(|_| NotMade::Later)?;
        made.ok_or_else(|| {
            self.counters.coding_no_gain.add_shared(1);
            NotMade::Never
        })
    }

    fn begin(self: &Arc<Self>, number: usize) -> bool {
        let pool = self.clone();
        std::thread::Builder::new().name(format!("coder-{number}")).spawn(move || pool.work()).is_ok()
    }

    fn work(&self) {
        loop {
            let order = self.next();
            self.counters.coding_queue_micros.add_shared(clock::precise_micros().saturating_sub(order.since));
            // A codec that panics on some bytes does not end the thread, and is not run on them again.
            if catch_unwind(AssertUnwindSafe(|| self.make(&order))).is_err() {
                self.counters.decoding_failures.add_shared(1);
                order.encodings.not_made(order.coding, NotMade::Never);
            }
        }
    }

    fn next(&self) -> CodingJob {
        let mut state = self.state.lock();
        loop {
            if let Some(order) = self.take(&mut state) {
                return order;
            }
            state.idle += 1;
            self.bell.wait(&mut state);
            state.idle -= 1;
        }
    }

    fn take(&self, state: &mut CoderState) -> Option<CodingJob> {
        let order = state.orders.pop_front()?;
        state.bytes -= order.stored.body.len();
        self.waiting.store(state.orders.len(), Relaxed);
        Some(order)
    }

    fn make(&self, order: &CodingJob) {
        let CodingJob { stored, encodings, coding, .. } = order;
        let coding = *coding;
        match self.transcode(stored, encodings.plan, coding) {
            // The room is held until the encoding is kept: its input lives that long.
            Ok((body, _room)) => {
                let fields = transcode::form_fields(&stored.fields(), coding);
                let head =
                    head_of(stored.meta.status, &fields, body.len() as u64, |it| is_hidden(stored, it));
                self.counters.coding_bytes_read.add_shared(stored.body.len());
                // Missing room is counted, and a later hit orders the encoding again.
                let _ = self.store.keep_encoding(encodings, coding, head, fields, body);
            }
            Err(why) => encodings.not_made(coding, why),
        }
    }

    /// The body in `coding`, and the room in which it was made.
    fn transcode(
        &self,
        stored: &Stored,
        plan: EncodingPlan,
        coding: Coding,
    ) -> Result<(Vec<u8>, [Option<Work>; 2]), NotMade> {
        let length = stored.body.len();
        if plan.own == Coding::Identity {
            let room = self.room(coding, codec::memory(coding, self.settings.levels, length))?;
            let bytes = bytes_of(&stored.body).ok_or(NotMade::Later)?;
            return Ok((self.code(coding, &bytes)?, [Some(room), None]));
        }
        let room = self.room(coding, codec::decoding_memory(plan.own, length, plan.max_size))?;
        let bytes = bytes_of(&stored.body).ok_or(NotMade::Later)?;
        let plain = codec::decode(plan.own, &bytes, plan.max_size).map_err(|why| {
            count(&self.counters, why);
            if why == Undecodable::TooLarge { NotMade::Never } else { NotMade::Undecodable }
        })?;
        if coding == Coding::Identity {
            return Ok((plain, [Some(room), None]));
        }
        let more = self.room(coding, codec::memory(coding, self.settings.levels, plain.len() as u64))?;
        // For a client that accepts only this coding, and therefore also where it does not become smaller.
        let most = plain.len() + plain.len() / 8 + STEP;
        let made = codec::encode_within(coding, self.settings.levels, &plain, most);
        let made = made.map_err(|_| NotMade::Later)?.ok_or(NotMade::Never)?;
        Ok((made, [Some(room), Some(more)]))
    }

    /// Room for the memory of a codec.
    fn room(&self, coding: Coding, needs: u64) -> Result<Work, NotMade> {
        self.store.work(needs).map_err(|_| {
            self.counters.coding_no_memory.add_shared(1);
            // An encoding that can never be made is not ordered again, so that the next best coding is chosen; until then
            // plain bytes are decoded while they are sent.
            let never = coding != Coding::Identity && !self.store.could_work(needs);
            if never { NotMade::Never } else { NotMade::Later }
        })
    }
}

/// Counts a body that could not be decoded.
pub(crate) fn count(counters: &Counters, why: Undecodable) {
    match why {
        Undecodable::Broken => counters.decoding_failures.add_shared(1),
        Undecodable::Bomb => counters.decoding_bombs.add_shared(1),
        Undecodable::TooLarge => counters.decoding_too_large.add_shared(1),
    }
}

/// A stored body's bytes: from memory, or read from its file, which may block.
fn bytes_of(body: &StoredBody) -> Option<Cow<'_, [u8]>> {
    match body {
        StoredBody::Heap(bytes) => Some(Cow::Borrowed(bytes)),
        StoredBody::Arena(slice) | StoredBody::Disk(slice) => {
            match slice.owner.mapped(slice.offset, slice.length) {
                Some(bytes) => Some(Cow::Borrowed(bytes)),
                None => read(slice).map(Cow::Owned),
            }
        }
    }
}

/// Reads a slice of a file; this may block on the device.
pub(crate) fn read(slice: &FileSlice) -> Option<Vec<u8>> {
    let file = std::fs::File::from(slice.owner.fd().try_clone_to_owned().ok()?);
    let mut bytes = vec![0; usize::try_from(slice.length).ok()?];
    file.read_exact_at(&mut bytes, slice.offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
