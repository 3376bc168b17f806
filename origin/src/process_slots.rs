//! The bound on the running CGI programs of an origin, for all workers. `program` runs them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;

/// The number of running programs of an origin, in all workers.
#[derive(Debug, Default)]
pub(crate) struct ProcessSlots {
    running: AtomicUsize,
    freed: Notify,
    /// The number of requests that wait for one to end, in all workers.
    waiting: AtomicUsize,
    wanted: Notify,
}

/// A request that waits.
struct WaitingForSlot<'s>(&'s ProcessSlots);

/// The right to run one program.
#[derive(Debug)]
pub(crate) struct ProcessSlot(Arc<ProcessSlots>);

impl ProcessSlots {
    /// Waits until fewer than `most` of them run.
    pub(crate) async fn take(self: &Arc<Self>, most: usize) -> ProcessSlot {
        let mut waits = None;
        loop {
            let mut freed = pin!(self.freed.notified());
            // Registered before the number is read: no slot that is given back meanwhile is missed.
            freed.as_mut().enable();
            let one_more = |it: usize| (it < most).then_some(it + 1);
            if self.running.fetch_update(Relaxed, Relaxed, one_more).is_ok() {
                return ProcessSlot(self.clone());
            }
            waits.get_or_insert_with(|| WaitingForSlot::new(self));
            self.announce();
            freed.await;
        }
    }

    /// Whether requests wait.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Ends every [`ProcessSlots::wanted`].
    pub(crate) fn announce(&self) {
        self.wanted.notify_waiters();
    }

    /// Waits until a request of any worker waits for a slot.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

impl<'s> WaitingForSlot<'s> {
    fn new(slots: &'s ProcessSlots) -> Self {
        slots.waiting.fetch_add(1, Relaxed);
        Self(slots)
    }
}

impl Drop for WaitingForSlot<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl ProcessSlot {
    /// The slots of which it is one.
    pub(crate) fn slots(&self) -> &Arc<ProcessSlots> {
        &self.0
    }
}

impl Drop for ProcessSlot {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_slot_that_is_given_back_goes_to_one_that_waits() {
        let slots: Arc<ProcessSlots> = Arc::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut take = |most| match pin!(slots.take(most)).poll(&mut cx) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        };
        let (one, two) = (take(2), take(2));
        assert!(one.is_some() && two.is_some() && take(2).is_none());
        assert!(take(3).is_some() && !slots.is_wanted(), "a reload raised the bound");
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(slots.take(2));
        let mut given_up = Box::pin(slots.take(2));
        assert!(given_up.as_mut().poll(&mut cx).is_pending() && waiting.as_mut().poll(&mut cx).is_pending());
        drop(one);
        assert!(slots.is_wanted());
        // It was the first to be notified.
        drop(given_up);
        assert!(waiting.as_mut().poll(&mut cx).is_ready() && !slots.is_wanted());
    }
}
