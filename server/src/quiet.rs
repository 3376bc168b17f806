//! Giving memory back when it is quiet: what nobody asks for is evicted, where the configuration says after how long, and
//! the allocator of every thread gives its pages to the system. What is evicted for want of room is the store's own business.
//!
//! A thread's pages are its own: what another thread has freed in them goes back only when their owner allocates again,
//! or is told to collect, and an idle worker does neither. So each does it for itself; and what sweeps take out, each
//! thread frees of its own, a little at a time between its requests: pages go back one by one, and nobody has to look for them.

use super::live::Orders;
use larder_counters::Counters;
use larder_stdx::clock;
use larder_store::Store;
use larder_store::deferred_free::ThreadFreeList;
use larder_store::idle::Swept;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;

/// How often is looked for what is idle.
pub const LOOK: Duration = Duration::from_millis(250);
/// How long the others on this thread come first, where there is more to evict.
const MORE: Duration = Duration::from_millis(1);
/// Steps of a turn: some hundreds of responses.
const STEPS: usize = 16;
/// Looks without a request after which a worker is quiet, and gives back what it has. It does so again after twice as many, and
/// so on: connections to origins go later than the requests that wanted them.
const QUIET: u32 = 8;
/// The time between two looks of a thread for whom sweeps leave something to free.
const SOON: Duration = Duration::from_millis(1);
/// Looks in a row without anything to free after which it looks as seldom as before.
const SWEPT: u32 = 64;
/// Microseconds of freeing between two looks, for which the thread's requests wait.
const TURN: u64 = 50;

/// Bytes that others have freed on the heap, at least, when the threads are told of it: each looks through its pages then.
const ENOUGH: u64 = 1 << 18;
/// And at least this part of what is there: a thread with much has many pages to look through.
const PART: u64 = 16;

/// Tells every thread that there is memory to be given back.
#[derive(Clone, Default)]
pub struct ReleaseSignal(Arc<AtomicU64>);

impl ReleaseSignal {
    /// Has every thread give back what it can at its next look.
    pub fn tell(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Counts what a sweep takes out of what other threads have allocated, and tells them in time.
pub struct Freed {
    room: ReleaseSignal,
    /// What of it was freed by others than them, and is not told yet.
    abroad: u64,
    /// All that was taken out since the end of a sweep was told.
    bytes: u64,
}

impl Freed {
    /// Nothing so far.
    #[must_use]
    pub fn new(room: ReleaseSignal) -> Self {
        Self { room, abroad: 0, bytes: 0 }
    }

    /// What `work` gives, which may take out some of what `store` uses of the heap.
    pub fn count<T>(&mut self, store: &Store, work: impl FnOnce() -> T) -> T {
        let (before, abroad) = (store.used_of_heap(), store.freed_abroad());
        let done = work();
        let now = store.used_of_heap();
        self.add(before.saturating_sub(now), store.freed_abroad().saturating_sub(abroad), now);
        done
    }

    /// So many bytes more were taken out, and so many freed where they do not belong; of the heap, `used` are still in use.
    fn add(&mut self, bytes: u64, abroad: u64, used: u64) {
        self.bytes += bytes;
        self.abroad += abroad;
        if self.abroad >= enough(used) {
            self.abroad = 0;
            self.room.tell();
        }
    }

    /// The sweep is over. If what was taken out since this was last told is of some size, and its threads have freed it, they are
    /// told once more: pages are left that are empty but for what somebody else has freed there.
    pub fn end(&mut self, store: &Store) {
        if self.bytes >= enough(store.used_of_heap()) && store.left_in_yards() == 0 {
            (self.bytes, self.abroad) = (0, 0);
            self.room.tell();
        }
    }
}

/// Bytes that are worth a look through all pages, where `used` are in use.
fn enough(used: u64) -> u64 {
    ENOUGH.max(used / PART)
}

/// What one thread knows of its own quiet.
pub struct Quiet {
    room: ReleaseSignal,
    /// What it has to free; `None` where it stores nothing.
    yard: Option<ThreadFreeList>,
    /// Looks to come soon.
    soon: Cell<u32>,
    /// Its counters: a worker is quiet where nobody sends requests.
    counters: Arc<Counters>,
    told: Cell<u64>,
    requests: Cell<u64>,
    looks: Cell<u32>,
}

impl Quiet {
    /// Of this thread, which has these counters.
    #[must_use]
    pub fn new(room: ReleaseSignal, counters: Arc<Counters>, yard: Option<ThreadFreeList>) -> Self {
        let zero = || Cell::new(0);
        let (soon, looks) = (Cell::new(0), Cell::new(QUIET));
        Self { told: zero(), requests: zero(), soon, looks, yard, room, counters }
    }

    /// For a timer: once it has become quiet, or was told to, the thread gives back what it has. Says after how long it
    /// wants to look again.
    pub fn look(&self) -> Duration {
        let told = self.room.0.load(Relaxed);
        if self.told.replace(told) != told {
            collect(Pages::WithRoom);
        }
        if self.clear() {
            return SOON;
        }
        let requests = self.counters.requests.get();
        if self.requests.replace(requests) != requests {
            self.looks.set(0);
        }
        let looks = self.looks.get().saturating_add(1);
        self.looks.set(looks);
        if looks >= QUIET && looks.is_power_of_two() {
            collect(Pages::All);
        }
        LOOK
    }

    /// Frees for one turn what sweeps have left for this thread; says whether there is or was some lately.
    fn clear(&self) -> bool {
        let Some(yard) = &self.yard else { return false };
        let begun = clock::precise_micros();
        let was_some = yard.clear(|| clock::precise_micros().saturating_sub(begun) < TURN);
        let soon = if was_some { SWEPT } else { self.soon.get().saturating_sub(1) };
        self.soon.set(soon);
        soon > 0
    }
}

/// Which pages are looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Those in which something is free: of a page that was full, the allocator knows when something is freed there.
    WithRoom,
    /// All, and those go as well that are empty and kept for what may come next.
    All,
}

/// Gives the pages back that this thread's heap does not need.
fn collect(which: Pages) {
    // SAFETY: takes no pointers; what is allocated stays as it is.
    unsafe { libmimalloc_sys::mi_collect(which == Pages::All) };
}

/// Evicts what is idle, as the configuration in force says; runs as long as the process. On the main thread.
pub async fn sweep(store: Arc<Store>, orders: watch::Receiver<Orders>, room: ReleaseSignal, own: Quiet) {
    let mut freed = Freed::new(room);
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let idle = orders.borrow().live.config.idle;
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
        tick.reset_after(own.look());
    }
}

#[cfg(test)]
mod tests;
