//! The end of a worker: it accepts no new connections, and requests in progress continue. The time limit is not known
//! here.

use super::{ReadPhase, SHUTDOWN_GRACE, TransportWorker};
use larder_stdx::clock;
use std::time::Duration;

impl TransportWorker {
    /// Whether the worker is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Stops accepting, and lets requests in progress finish. An idle HTTP/1 connection is still read for `SHUTDOWN_GRACE`: a
    /// request that its client had sent before it saw the drain is answered, with `Connection: close` (RFC 9112 §9.6).
    /// That time is at most `within`.
    pub fn drain(&self, within: Duration) {
        let grace = u64::try_from(within.as_millis()).unwrap_or(SHUTDOWN_GRACE).min(SHUTDOWN_GRACE);
        self.draining.set(true);
        self.grace.set(grace);
        self.stop.notify_waiters();
        for it in self.sockets.borrow().iter().flatten() {
            match it.reading.get() {
                ReadPhase::Idle if it.drains_itself.get() => {}
                ReadPhase::First | ReadPhase::Idle => {
                    it.read_by.set(it.read_by.get().min(clock::monotonic().0 + grace));
                }
                _ => {}
            }
        }
        if self.open.get() == 0 {
            self.empty.notify_waiters();
        }
    }

    /// Connections that wait to be accepted stay in their queues, from which another process takes them.
    pub fn leave_queues(&self) {
        self.leaves_queues.set(true);
    }

    pub(crate) fn leaves_queues(&self) -> bool {
        self.leaves_queues.get()
    }

    /// The time for which an HTTP/1 connection may wait for its next request, milliseconds.
    pub(crate) fn idle_limit(&self) -> u64 {
        let idle = self.times.get().idle;
        if self.draining.get() { self.grace.get().min(idle) } else { idle }
    }

    /// Waits until all connections are closed.
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
