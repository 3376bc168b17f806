//! Who frees what a sweep takes out: the thread that has allocated it. The allocator's pages are their threads' own. What
//! another thread frees goes onto lists, and comes back once the owner has walked all of its pages; what the owner frees is
//! back as soon as a page is empty. So a sweep leaves shelves in the yard of the thread that made them, and that thread
//! clears its yard, a little at a time. What is evicted for want of room is freed by whoever wants the room.
//!
//! ```text
//! sweep ──▶ leave ──┬─▶ yard of worker 0 ──▶ clear, in worker 0
//!                   ├─▶ yard of worker 1 ──▶ clear, in worker 1
//!                   └─▶ freed here: nobody's, too large, or its yard is full
//! ```

use crate::entry::{Entry, StoredBody};
use crate::ram::Store;
use parking_lot::{Mutex, RwLock};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Bytes in one yard from which on sweeps wait until it has been cleared: what is there is in nobody's books.
const FULL: u64 = 1 << 20;

/// And from which on nothing more is left there: one step of a sweep goes on where the yard was not full.
const MOST: u64 = 2 * FULL;

/// Shelves of more bytes than this are no work for a thread that serves, nor are those with something in the arena: to give back
/// one large body takes as long as thousands of small ones.
const LARGE: u64 = 128 << 10;

/// What a shelf is taken for beside its bodies: its blocks are some ten, and are not asked one by one.
const EACH: u64 = 512;

/// The number of a thread that has a yard; zero is nobody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadNumber(u16);

thread_local! {
    static HERE: Cell<ThreadNumber> = const { Cell::new(ThreadNumber(0)) };
}

impl ThreadNumber {
    /// That of this thread.
    pub fn here() -> ThreadNumber {
        HERE.get()
    }
}

/// All yards of a store.
#[derive(Default)]
pub(crate) struct DeferredFree {
    /// The first is home 1's.
    all: RwLock<Vec<Arc<DeferredSlot>>>,
    /// Bytes that were freed by others than their home, or had none.
    freed_abroad: AtomicU64,
}

struct DeferredSlot {
    /// `None` once its thread has ended.
    waits: Mutex<Option<Vec<DeferredWait>>>,
    /// Bytes that wait, or are being freed.
    bytes: AtomicU64,
}

struct DeferredWait {
    shelf: Entry,
    bytes: u64,
}

impl DeferredSlot {
    /// Leaves it here, or gives it back: there is too much already, or nobody.
    fn leave(&self, shelf: Entry, bytes: u64) -> Result<(), Entry> {
        if self.bytes.load(Relaxed) >= MOST {
            return Err(shelf);
        }
        let mut waits = self.waits.lock();
        let Some(waits) = &mut *waits else { return Err(shelf) };
        self.bytes.fetch_add(bytes, Relaxed);
        waits.push(DeferredWait { shelf, bytes });
        Ok(())
    }

    /// Frees one; says whether there was one.
    fn free_one(&self) -> bool {
        let one = self.waits.lock().as_mut().and_then(Vec::pop);
        let Some(DeferredWait { shelf, bytes }) = one else { return false };
        drop(shelf);
        self.bytes.fetch_sub(bytes, Release);
        true
    }
}

impl DeferredFree {
    /// Takes what has left the index to where it was made. Called without any lock.
    pub fn leave(&self, shelf: Entry) {
        let home = shelf.home;
        if home != ThreadNumber(0) && home == ThreadNumber::here() {
            return drop(shelf);
        }
        let bytes = weight(&shelf);
        let place = usize::from(home.0).checked_sub(1).and_then(|it| self.all.read().get(it).cloned());
        let left = match place.filter(|_| bytes <= LARGE) {
            Some(place) => place.leave(shelf, bytes),
            None => Err(shelf),
        };
        if let Err(shelf) = left {
            self.freed_abroad.fetch_add(bytes, Relaxed);
            drop(shelf);
        }
    }

    /// Whether somebody has so much to free that a sweep which can should wait.
    pub fn are_full(&self) -> bool {
        self.all.read().iter().any(|it| it.bytes.load(Relaxed) >= FULL)
    }

    fn waiting(&self) -> u64 {
        self.all.read().iter().map(|it| it.bytes.load(Acquire)).sum()
    }
}

/// What it takes of memory, about; more than [`LARGE`] where something is in the arena.
fn weight(shelf: &Entry) -> u64 {
    let of = |body: &StoredBody| match body {
        StoredBody::Arena(_) => LARGE,
        _ => body.len(),
    };
    shelf.variants.iter().map(|it| EACH + of(&it.body)).sum::<u64>() + EACH
}

/// The yard of a thread: what sweeps have taken out and this thread has allocated. It stays with its thread.
pub struct ThreadFreeList {
    place: Arc<DeferredSlot>,
    stays: PhantomData<*const ()>,
}

impl ThreadFreeList {
    /// Frees what waits, one shelf after the other, as long as `goes_on` says. Says whether there was anything.
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
        HERE.set(ThreadNumber(0));
        let rest = self.place.waits.lock().take().unwrap_or_default();
        let bytes = rest.iter().map(|it| it.bytes).sum();
        drop(rest);
        self.place.bytes.fetch_sub(bytes, Release);
    }
}

impl Store {
    /// A yard for this thread: what it stores from now on is left there when a sweep takes it out. It must be cleared from time to
    /// time, since sweeps wait for that.
    #[must_use]
    pub fn yard(&self) -> ThreadFreeList {
        let place = Arc::new(DeferredSlot { waits: Mutex::new(Some(Vec::new())), bytes: AtomicU64::new(0) });
        let mut all = self.yards.all.write();
        all.push(place.clone());
        HERE.set(ThreadNumber(u16::try_from(all.len()).unwrap_or(0)));
        ThreadFreeList { place, stays: PhantomData }
    }

    /// Bytes, about, that sweeps have taken out and their threads have still to free: out of the books, and resident.
    #[must_use]
    pub fn left_in_yards(&self) -> u64 {
        self.yards.waiting()
    }

    /// Bytes, about, that sweeps have freed so far which were another thread's: pages of that thread which it has to look through.
    #[must_use]
    pub fn freed_abroad(&self) -> u64 {
        self.yards.freed_abroad.load(Relaxed)
    }
}

#[cfg(test)]
#[path = "deferred_free/tests.rs"]
mod tests;
