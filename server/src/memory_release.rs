//! Returning memory when the server is quiet: unused entries are evicted after the configured time, and the allocator of
//! every thread returns its pages to the system. Eviction for space is in the store.
//!
//! A thread's pages are its own: blocks that another thread freed in them are returned only when their owner allocates
//! again, or collects, and an idle worker does neither. So each thread collects for itself; and each frees its own
//! entries of a sweep, a few at a time between its requests: pages are returned one by one, without a search.

use super::live::{DrainReason, WorkerState};
use larder_counters::Counters;
use larder_stdx::clock;
use larder_store::Store;
use larder_store::Swept;
use larder_store::deferred_free::ThreadFreeList;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;

/// The interval of checks for idle entries.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The pause for other tasks of this thread between two steps of an eviction.
const MORE: Duration = Duration::from_millis(1);
/// Steps of a turn: some hundreds of responses.
const STEPS: usize = 16;
/// Checks without a request after which a worker is quiet, and returns its memory. It does so again after twice as many,
/// and so on: connections to origins close later than the requests that used them.
const QUIET: u32 = 8;
/// The time between two checks of a thread with entries to free.
const SOON: Duration = Duration::from_millis(1);
/// Checks in a row without entries to free, after which the interval is long again.
const SWEPT: u32 = 64;
/// Microseconds of freeing between two checks, for which the thread's requests wait.
const TURN: u64 = 50;

/// The fewest freed bytes of other threads on the heap that trigger a collection: each thread then examines its pages.
const ENOUGH: u64 = 1 << 18;
/// And at least this part of the used bytes: a thread with a large heap has many pages to examine.
const PART: u64 = 16;

/// In a process that was replaced, entries that were not requested for this long are evicted: the new process has them as well, and
/// the clients that remain request few.
const REPLACED: Duration = Duration::from_secs(8);

/// Signals every thread to return memory.
#[derive(Clone, Default)]
pub struct ReleaseSignal(Arc<AtomicU64>);

impl ReleaseSignal {
    /// Makes every thread return memory at its next check.
    pub fn signal(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Counts the entries of other threads that a sweep removes, and signals their threads in time.
pub struct Freed {
    room: ReleaseSignal,
    /// The bytes of these that were freed by a thread other than their owner, and not signalled yet.
    abroad: u64,
    /// All bytes removed since the last signalled end of a sweep.
    bytes: u64,
}

impl Freed {
    /// Without removed bytes.
    #[must_use]
    pub fn new(room: ReleaseSignal) -> Self {
        Self { room, abroad: 0, bytes: 0 }
    }

    /// Performs `work`, which may free heap memory of `store`, and counts it.
    pub fn count<T>(&mut self, store: &Store, work: impl FnOnce() -> T) -> T {
        let (before, abroad) = (store.used_of_heap(), store.freed_by_other_threads());
        let done = work();
        let now = store.used_of_heap();
        self.add(before.saturating_sub(now), store.freed_by_other_threads().saturating_sub(abroad), now);
        done
    }

    /// Adds removed bytes, and those freed by a foreign thread; `used` bytes of the heap are still in use.
    fn add(&mut self, bytes: u64, abroad: u64, used: u64) {
        self.bytes += bytes;
        self.abroad += abroad;
        if self.abroad >= enough(used) {
            self.abroad = 0;
            self.room.signal();
        }
    }

    /// Ends a sweep. If it removed a significant amount since the last signal, and its threads have freed it, they are
    /// signalled once more: some pages are empty except for blocks that a foreign thread freed.
    pub fn end(&mut self, store: &Store) {
        if self.bytes >= enough(store.used_of_heap()) && store.deferred_bytes() == 0 {
            (self.bytes, self.abroad) = (0, 0);
            self.room.signal();
        }
    }
}

/// The number of bytes that is worth a collection, if `used` are in use.
fn enough(used: u64) -> u64 {
    ENOUGH.max(used / PART)
}

/// The quiet state of one thread.
pub struct MemoryRelease {
    room: ReleaseSignal,
    /// Its list of entries to free; `None` if it stores nothing.
    free_list: Option<ThreadFreeList>,
    /// The number of short intervals to come.
    soon: Cell<u32>,
    /// Its counters: a worker is quiet without requests.
    counters: Arc<Counters>,
    signalled: Cell<u64>,
    requests: Cell<u64>,
    idle_checks: Cell<u32>,
}

impl MemoryRelease {
    /// For this thread, which has these counters.
    #[must_use]
    pub fn new(room: ReleaseSignal, counters: Arc<Counters>, free_list: Option<ThreadFreeList>) -> Self {
        let zero = || Cell::new(0);
        let (soon, idle_checks) = (Cell::new(0), Cell::new(QUIET));
        Self { signalled: zero(), requests: zero(), soon, idle_checks, free_list, room, counters }
    }

    /// Called by a timer: once it has become quiet, or was signalled, the thread returns its memory. Returns the time
    /// until the next check.
    pub fn check(&self) -> Duration {
        let signalled = self.room.0.load(Relaxed);
        if self.signalled.replace(signalled) != signalled {
            collect(Pages::WithRoom);
        }
        if self.clear() {
            return SOON;
        }
        let requests = self.counters.requests.get();
        if self.requests.replace(requests) != requests {
            self.idle_checks.set(0);
        }
        let idle_checks = self.idle_checks.get().saturating_add(1);
        self.idle_checks.set(idle_checks);
        if idle_checks >= QUIET && idle_checks.is_power_of_two() {
            collect(Pages::All);
        }
        CHECK_INTERVAL
    }

    /// Frees entries of sweeps for one turn; returns whether there are or lately were any.
    fn clear(&self) -> bool {
        let Some(free_list) = &self.free_list else { return false };
        let begun = clock::precise_micros();
        let was_some = free_list.clear(|| clock::precise_micros().saturating_sub(begun) < TURN);
        let soon = if was_some { SWEPT } else { self.soon.get().saturating_sub(1) };
        self.soon.set(soon);
        soon > 0
    }
}

/// The pages that are examined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Those with a free block: the allocator records when a block of a full page is freed.
    WithRoom,
    /// All, including empty ones that are kept for reuse.
    All,
}

/// Returns the unused pages of this thread's heap.
fn collect(which: Pages) {
    // SAFETY: takes no pointers; allocated blocks are unchanged.
    unsafe { libmimalloc_sys::mi_collect(which == Pages::All) };
}

/// The time without a request after which an entry is evicted.
fn idle_of(orders: &WorkerState) -> Option<Duration> {
    let configured = orders.live.config.idle;
    match orders.drain {
        Some(DrainReason::Replaced) => Some(configured.map_or(REPLACED, |it| it.min(REPLACED))),
        _ => configured,
    }
}

/// Evicts idle entries by the configuration in force; runs as long as the process. On the main thread.
pub async fn sweep(
    store: Arc<Store>,
    orders: watch::Receiver<WorkerState>,
    room: ReleaseSignal,
    own: MemoryRelease,
) {
    let mut freed = Freed::new(room);
    let mut tick = tokio::time::interval(CHECK_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let idle = idle_of(&orders.borrow());
        let swept = match idle {
            Some(idle) => freed.count(&store, || store.sweep_idle(idle, clock::wall(), STEPS)),
            None => {
                store.sweep_nothing_idle();
                Swept::Nothing
            }
        };
        if matches!(swept, Swept::More | Swept::Waits) {
            tick.reset_after(MORE);
            continue;
        }
        freed.end(&store);
        tick.reset_after(own.check());
    }
}

#[cfg(test)]
mod tests;
