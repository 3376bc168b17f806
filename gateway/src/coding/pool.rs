//! The threads on which forms are made: a few, shared by all workers, begun when there is something to do. What is ordered
//! is bounded; what finds no place is not made now, and somebody else's hit will order it again.

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

/// Bytes of bodies that wait at most: what is waiting cannot be evicted. One body may always wait.
const MOST_BYTES: u64 = 64 << 20;

/// How the pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoderSettings {
    /// Threads at most; none makes no forms.
    pub workers: usize,
    /// Orders that wait at most.
    pub queue: usize,
    /// How hard the codecs try.
    pub levels: CodecLevels,
}

/// The pool. Shared by all workers.
pub struct Coders {
    store: Arc<Store>,
    /// Written from every thread.
    counters: Arc<Counters>,
    settings: CoderSettings,
    /// Orders in the queue, to be read without the lock.
    waiting: AtomicUsize,
    state: Mutex<CoderState>,
    bell: Condvar,
}

#[derive(Default)]
struct CoderState {
    orders: VecDeque<CodingJob>,
    /// Of the bodies of `orders`.
    bytes: u64,
    threads: usize,
    idle: usize,
}

struct CodingJob {
    stored: StoredArc,
    forms: Arc<Encodings>,
    coding: Coding,
    /// By the precise clock.
    since: u64,
    /// The body on the heap may be evicted while it waits, and takes room all the same.
    _waits: Work,
}

impl Coders {
    /// A pool without threads yet.
    #[must_use]
    pub fn new(store: Arc<Store>, counters: Arc<Counters>, settings: CoderSettings) -> Arc<Self> {
        let (state, bell) = (Mutex::default(), Condvar::new());
        Arc::new(Self { store, counters, settings, waiting: AtomicUsize::new(0), state, bell })
    }

    /// Has this form made, unless it is in hand, made or refused already, or too many are. Costs a hit two loads when
    /// there is nothing to do.
    pub fn order(self: &Arc<Self>, stored: &StoredArc, coding: Coding) {
        let Some(forms) = &stored.forms else { return };
        if self.waiting.load(Relaxed) >= self.settings.queue || self.settings.workers == 0 {
            self.counters.coding_queue_full.add_shared(1);
            return;
        }
        if !forms.claim(coding) {
            return;
        }
        let on_heap = if let StoredBody::Heap(bytes) = &stored.body { bytes.len() } else { 0 };
        let order = CodingJob {
            stored: stored.clone(),
            forms: forms.clone(),
            coding,
            since: clock::precise_micros(),
            _waits: self.store.note_work(on_heap as u64),
        };
        let mut state = self.state.lock();
        let length = stored.body.len();
        if state.bytes > 0 && state.bytes + length > MOST_BYTES {
            drop(state);
            self.counters.coding_queue_full.add_shared(1);
            return order.forms.not_made(coding, NotMade::Later);
        }
        state.bytes += length;
        state.orders.push_back(order);
        self.waiting.store(state.orders.len(), Relaxed);
        if state.idle == 0 && state.threads < self.settings.workers && self.begin(state.threads) {
            state.threads += 1;
        }
        if state.threads == 0 {
            // The system gives no thread: nobody would ever come for it.
            while let Some(order) = self.take(&mut state) {
                order.forms.not_made(order.coding, NotMade::Later);
            }
        }
        drop(state);
        self.bell.notify_one();
    }

    fn begin(self: &Arc<Self>, number: usize) -> bool {
        let pool = self.clone();
        std::thread::Builder::new().name(format!("coder-{number}")).spawn(move || pool.work()).is_ok()
    }

    fn work(&self) {
        loop {
            let order = self.next();
            self.counters.coding_queue_micros.add_shared(clock::precise_micros().saturating_sub(order.since));
            // A codec that panics on some bytes takes no thread with it, and is not tried on them again.
            if catch_unwind(AssertUnwindSafe(|| self.make(&order))).is_err() {
                self.counters.decoding_failures.add_shared(1);
                order.forms.not_made(order.coding, NotMade::Never);
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
        let CodingJob { stored, forms, coding, .. } = order;
        let coding = *coding;
        match self.transcode(stored, forms.plan, coding) {
            // Until the form is kept: what it was made with is there that long.
            Ok((body, _room)) => {
                let fields = transcode::form_fields(&stored.fields(), coding);
                let head =
                    head_of(stored.meta.status, &fields, body.len() as u64, |it| is_hidden(stored, it));
                self.counters.coding_bytes_read.add_shared(stored.body.len());
                // Where there is no room, that is counted, and a later hit asks again.
                let _ = self.store.keep_form(forms, coding, head, fields, body);
            }
            Err(why) => forms.not_made(coding, why),
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
            let made = codec::encode(coding, self.settings.levels, &bytes).map_err(|_| NotMade::Later)?;
            if made.is_none() {
                self.counters.coding_no_gain.add_shared(1);
            }
            return Ok((made.ok_or(NotMade::Never)?, [Some(room), None]));
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
        // For a client that accepts nothing else, so also where it becomes no smaller.
        let most = plain.len() + plain.len() / 8 + STEP;
        let made = codec::encode_within(coding, self.settings.levels, &plain, most);
        let made = made.map_err(|_| NotMade::Later)?.ok_or(NotMade::Never)?;
        Ok((made, [Some(room), Some(more)]))
    }

    /// Room for what a codec takes.
    fn room(&self, coding: Coding, needs: u64) -> Result<Work, NotMade> {
        self.store.work(needs).map_err(|_| {
            self.counters.coding_no_memory.add_shared(1);
            // What can never be made is not asked for again, so that the next best coding is; plain bytes are decoded on
            // their way meanwhile.
            let never = coding != Coding::Identity && !self.store.could_work(needs);
            if never { NotMade::Never } else { NotMade::Later }
        })
    }
}

/// Counts what could not be decoded.
pub(crate) fn count(counters: &Counters, why: Undecodable) {
    match why {
        Undecodable::Broken => counters.decoding_failures.add_shared(1),
        Undecodable::Bomb => counters.decoding_bombs.add_shared(1),
        Undecodable::TooLarge => counters.decoding_too_large.add_shared(1),
    }
}

/// A stored body's bytes: where they are, or read from their file, which may take a while.
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

/// Reads a slice of a file, which may have to wait for the device.
pub(crate) fn read(slice: &FileSlice) -> Option<Vec<u8>> {
    let file = std::fs::File::from(slice.owner.fd().try_clone_to_owned().ok()?);
    let mut bytes = vec![0; usize::try_from(slice.length).ok()?];
    file.read_exact_at(&mut bytes, slice.offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
