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
const LOOK: Duration = Duration::from_millis(250);
/// How long the others on this thread come first, where there is more to evict.
const MORE: Duration = Duration::from_millis(1);
/// Steps of a turn: some hundreds of responses.
const STEPS: usize = 16;
/// Looks without a request after which a worker is quiet.
const QUIET: u32 = 8;

/// Tells every thread that there is memory to be given back.
#[derive(Clone, Default)]
pub struct Room(Arc<AtomicU64>);

impl Room {
    /// Has every thread give back what it can at its next look.
    pub fn tell(&self) {
        self.0.fetch_add(1, Relaxed);
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

    /// For a timer, some times a second: once it has become quiet, or was told to, the thread gives back what it has.
    pub fn look(&self) {
        let requests = self.counters.requests.get();
        if self.requests.replace(requests) != requests {
            self.looks.set(0);
        }
        let looks = self.looks.get().saturating_add(1);
        self.looks.set(looks);
        let told = self.room.0.load(Relaxed);
        if self.told.replace(told) != told || looks == QUIET {
            collect();
        }
    }
}

/// Gives the pages back that this thread's heap does not need.
fn collect() {
    // SAFETY: takes no pointers; what is allocated stays as it is.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// Evicts what is idle, as the configuration in force says; runs as long as the process. On the main thread.
pub async fn sweep(store: Arc<Store>, orders: watch::Receiver<Orders>, room: Room, own: Quiet) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        own.look();
        let idle = orders.borrow().live.config.idle;
        let Some(idle) = idle else {
            store.sweep_nothing_idle();
            continue;
        };
        match store.sweep_idle(idle, clock::wall(), STEPS) {
            Swept::More => tick.reset_after(MORE),
            Swept::Nothing => {}
            Swept::Room => room.tell(),
        }
    }
}
