//! Giving memory back when it is quiet: what nobody asks for is evicted, where the configuration says after how long, and
//! the allocator of every thread gives its pages to the system. What is evicted for want of room is the store's own business.
//!
//! A thread's pages are its own: what another thread has freed in them goes back only when their owner allocates again,
//! or is told to collect, and an idle worker does neither. So each does it for itself.

use super::worker::Orders;
use larder_counters::Counters;
use larder_stdx::clock;
use larder_store::Store;
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
/// The time between two looks of a thread that was told of room at the last: a collection takes as long as there is to be
/// taken back, and the requests of the thread wait for it. So there are many, and each is short.
const SOON: Duration = Duration::from_millis(5);

/// Bytes that others have freed on the heap when the threads are told of it: each looks through all of its pages then.
const ENOUGH: u64 = 1 << 18;

/// Tells every thread that there is memory to be given back.
#[derive(Clone, Default)]
pub struct Room(Arc<AtomicU64>);

impl Room {
    /// Has every thread give back what it can at its next look.
    fn tell(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Counts what a sweep frees of what other threads have allocated, and tells them in time.
pub struct Freed {
    room: Room,
    /// Not told yet.
    bytes: u64,
    /// This sweep has told already.
    has_told: bool,
}

impl Freed {
    /// Nothing so far.
    #[must_use]
    pub fn new(room: Room) -> Self {
        Self { room, bytes: 0, has_told: false }
    }

    /// What `work` gives, which may free some of what `store` uses of the heap.
    pub fn count<T>(&mut self, store: &Store, work: impl FnOnce() -> T) -> T {
        let before = store.used_of_heap();
        let done = work();
        self.add(before.saturating_sub(store.used_of_heap()));
        done
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= ENOUGH {
            self.bytes = 0;
            self.has_told = true;
            self.room.tell();
        }
    }

    /// The sweep is over. If it was one of some size, that is told: it went in the order of hashes, so that until now nearly
    /// every page had something small left that kept it.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.has_told) {
            self.bytes = 0;
            self.room.tell();
        }
    }
}

/// What one thread knows of its own quiet.
pub struct Quiet {
    room: Room,
    /// Its counters: a worker is quiet where nobody sends requests.
    counters: Arc<Counters>,
    told: Cell<u64>,
    requests: Cell<u64>,
    looks: Cell<u32>,
}

impl Quiet {
    /// Of the thread with these counters.
    #[must_use]
    pub fn new(room: Room, counters: Arc<Counters>) -> Self {
        let zero = || Cell::new(0);
        Self { told: zero(), requests: zero(), looks: Cell::new(QUIET), room, counters }
    }

    /// For a timer: once it has become quiet, or was told to, the thread gives back what it has. Says after how long it
    /// wants to look again.
    pub fn look(&self) -> Duration {
        let requests = self.counters.requests.get();
        if self.requests.replace(requests) != requests {
            self.looks.set(0);
        }
        let looks = self.looks.get().saturating_add(1);
        self.looks.set(looks);
        let told = self.room.0.load(Relaxed);
        let was_told = self.told.replace(told) != told;
        if was_told || looks >= QUIET && looks.is_power_of_two() {
            collect();
        }
        if was_told { SOON } else { LOOK }
    }
}

/// Gives the pages back that this thread's heap does not need.
fn collect() {
    // SAFETY: takes no pointers; what is allocated stays as it is.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Evicts what is idle, as the configuration in force says; runs as long as the process. On the main thread.
pub async fn sweep(store: Arc<Store>, orders: watch::Receiver<Orders>, room: Room, own: Quiet) {
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
        if swept == Swept::More {
            tick.reset_after(MORE);
            continue;
        }
        freed.end();
        tick.reset_after(own.look());
    }
}

#[cfg(test)]
mod tests;
