//! How a worker ends: it takes nothing new, and what is under way goes on. For how long is not known here.

use super::{GRACE, Reading, Worker};
use larder_stdx::clock;
use rustix::net::Shutdown;

impl Worker {
    /// Whether the worker takes nothing new.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Stops accepting, closes what is idle, and lets the rest finish.
    pub fn drain(&self) {
        self.draining.set(true);
        self.stop.notify_waiters();
        for it in self.watched.borrow().iter().flatten() {
            match it.reading.get() {
                // What has arrived already is still read, and answered.
                Reading::Idle if !it.says_goodbye.get() => it.shut(Shutdown::Read),
                Reading::First => it.read_by.set(it.read_by.get().min(clock::monotonic().0 + GRACE)),
                _ => {}
            }
        }
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Waits until no connection is left.
    pub async fn drained(&self) {
        while self.open.get() > 0 {
            self.empty.notified().await;
        }
    }

    /// Waits until the worker drains.
    pub(crate) async fn stopped(&self) {
        while !self.draining.get() {
            self.stop.notified().await;
        }
    }
}
