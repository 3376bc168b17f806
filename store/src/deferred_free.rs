//! Freeing of entries that a sweep removes, by the thread that allocated them. The allocator's pages belong to threads:
//! blocks freed by another thread go onto lists and return only after the owner has walked all its pages. Blocks freed by
//! the owner return as soon as a page is empty. A sweep therefore leaves entries in the free list of the allocating thread,
//! which clears it a little at a time. Entries evicted for lack of room are freed by the thread that needs the room.
//!
//! ```text
//! sweep ──▶ leave ──┬─▶ list of worker 0 ──▶ clear, in worker 0
//!                   ├─▶ list of worker 1 ──▶ clear, in worker 1
//!                   └─▶ freed here: no owner, too large, or the list is full
//! ```

use crate::entry::{Entry, StoredBody};
use crate::thread_number::ThreadNumber;
use parking_lot::{Mutex, RwLock};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bytes in one free list above which sweeps wait until it has been cleared: the budget does not count them.
const FULL: u64 = 1 << 20;

/// The limit above which nothing more is left there: a step of a sweep continues if the list was not full.
const MOST: u64 = 2 * FULL;

/// Entries larger than this, and those with extents in the arena, are not freed by serving threads: returning one large
/// body takes as long as thousands of small ones.
const LARGE: u64 = 128 << 10;

/// The assumed weight of an entry in addition to its bodies: about ten blocks, which are not measured one by one.
const EACH: u64 = 512;

/// All free lists of a store.
#[derive(Default)]
pub(crate) struct DeferredFree {
    /// The first is that of thread number 1.
    all: RwLock<Vec<Arc<DeferredSlot>>>,
    /// Bytes that were freed by other threads than their owner, or had none.
    freed_by_other_threads: AtomicU64,
}

struct DeferredSlot {
    /// `None` once its thread has ended.
    queue: Mutex<Option<Vec<DeferredEntry>>>,
    /// Bytes that wait, or are being freed.
    bytes: AtomicU64,
}

struct DeferredEntry {
    entry: Entry,
    bytes: u64,
}

impl DeferredSlot {
    /// Leaves the entry here, or returns it: the free list is full or has no thread.
    fn enqueue(&self, entry: Entry, bytes: u64) -> Result<(), Entry> {
        if self.bytes.load(Relaxed) >= MOST {
            return Err(entry);
        }
        let mut waits = self.queue.lock();
        let Some(waits) = &mut *waits else { return Err(entry) };
        self.bytes.fetch_add(bytes, Relaxed);
        waits.push(DeferredEntry { entry, bytes });
        Ok(())
    }

    /// Frees one entry; returns whether there was one.
    fn free_one(&self) -> bool {
        let one = self.queue.lock().as_mut().and_then(Vec::pop);
        let Some(DeferredEntry { entry, bytes }) = one else { return false };
        drop(entry);
        self.bytes.fetch_sub(bytes, Release);
        true
    }
}

impl DeferredFree {
    /// Moves an entry that has left the index to the free list of its thread. Called without any lock.
    pub fn leave(&self, entry: Entry) {
        let home = entry.allocated_by;
        if home != ThreadNumber::NONE && home == ThreadNumber::here() {
            return drop(entry);
        }
        let bytes = weight(&entry);
        let place = usize::from(home.get()).checked_sub(1).and_then(|it| self.all.read().get(it).cloned());
        let left = match place.filter(|_| bytes <= LARGE) {
            Some(place) => place.enqueue(entry, bytes),
            None => Err(entry),
        };
        if let Err(entry) = left {
            self.freed_by_other_threads.fetch_add(bytes, Relaxed);
            drop(entry);
        }
    }

    /// Whether a free list is so full that a sweep should wait if it can.
    pub fn are_full(&self) -> bool {
        self.all.read().iter().any(|it| it.bytes.load(Relaxed) >= FULL)
    }

    /// A new free list for this thread.
    pub fn new_list(&self) -> ThreadFreeList {
        let place = Arc::new(DeferredSlot { queue: Mutex::new(Some(Vec::new())), bytes: AtomicU64::new(0) });
        let mut all = self.all.write();
        all.push(place.clone());
        ThreadNumber::new(u16::try_from(all.len()).unwrap_or(0)).set_here();
        ThreadFreeList { place, stays: PhantomData }
    }

    /// Bytes that other threads than their owner have freed.
    pub fn freed_by_other_threads(&self) -> u64 {
        self.freed_by_other_threads.load(Relaxed)
    }

    /// Bytes that are in free lists.
    pub fn waiting(&self) -> u64 {
        self.all.read().iter().map(|it| it.bytes.load(Acquire)).sum()
    }
}

/// Its approximate memory; more than [`LARGE`] where it has an extent in the arena.
fn weight(entry: &Entry) -> u64 {
    let of = |body: &StoredBody| match body {
        StoredBody::Arena(_) => LARGE,
        _ => body.len(),
    };
    entry.variants.iter().map(|it| EACH + of(&it.body)).sum::<u64>() + EACH
}

/// The free list of a thread: entries that sweeps removed and this thread allocated. It stays on its thread.
pub struct ThreadFreeList {
    place: Arc<DeferredSlot>,
    stays: PhantomData<*const ()>,
}

impl ThreadFreeList {
    /// Frees waiting entries, one by one, as long as `goes_on` returns true. Returns whether there were any.
    pub fn clear(&self, mut goes_on: impl FnMut() -> bool) -> bool {
        if self.place.bytes.load(Relaxed) == 0 {
            return false;
        }
        while goes_on() && self.place.free_one() {}
        true
    }
}

impl Drop for ThreadFreeList {
    fn drop(&mut self) {
        ThreadNumber::NONE.set_here();
        let rest = self.place.queue.lock().take().unwrap_or_default();
        let bytes = rest.iter().map(|it| it.bytes).sum();
        drop(rest);
        self.place.bytes.fetch_sub(bytes, Release);
    }
}

#[cfg(test)]
#[path = "deferred_free/tests.rs"]
mod tests;
