//! A queue for permits, and its order. This module does not know what a permit is for.
//!
//! Requests are served in order of arrival. Under lasting overload that order is the worst: every request waits nearly as
//! long as it may, and the answers go to clients that have given up. So once a queue was full, or a wait ended by
//! timeout, the newest are served first until the queue is empty; the others end by their timeout. As many are answered
//! as before, most of them at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tokio::time::{Instant, timeout_at};

/// Which request is served first under overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOrder {
    /// The newest; and where too many wait, the oldest is refused.
    NewestFirst,
    /// Still the oldest; where too many wait, a new one is refused.
    InOrder,
}

/// Permits, and the requests that wait for one.
pub(crate) struct WaitQueue {
    overload_order: QueueOrder,
    free: Cell<usize>,
    /// The waiting requests, the newest at the back.
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
    capacity: usize,
    /// A request was refused, or timed out, since the queue was last empty.
    is_overloaded: Cell<bool>,
}

/// Whether a permit was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitWait {
    /// It was.
    None,
    /// It had to be waited for, so the state may have changed meanwhile.
    Some,
}

#[derive(Default)]
struct Waiter {
    outcome: Cell<WaitOutcome>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WaitOutcome {
    #[default]
    Waiting,
    /// It has a permit.
    Granted,
    /// It has left the queue.
    Ended,
}

impl Waiter {
    fn finish(&self, news: WaitOutcome) {
        self.outcome.set(news);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A waiting request; however the wait ends, the queue is updated.
struct QueuedWaiter<'a> {
    queue: &'a WaitQueue,
    waiter: Rc<Waiter>,
}

impl Drop for QueuedWaiter<'_> {
    fn drop(&mut self) {
        match self.waiter.outcome.get() {
            WaitOutcome::Granted => self.queue.release(), // It was given up before it was taken.
            WaitOutcome::Ended => {}
            WaitOutcome::Waiting => {
                self.queue.waiting.borrow_mut().retain(|it| !Rc::ptr_eq(it, &self.waiter));
                self.queue.end_overload_if_empty();
            }
        }
    }
}

impl WaitQueue {
    /// A queue for `permits`, at least one, with at most `capacity` waiting.
    pub(crate) fn new(permits: usize, capacity: usize, overload_order: QueueOrder) -> Self {
        let permits = permits.max(1);
        Self {
            overload_order,
            free: Cell::new(permits),
            waiting: RefCell::default(),
            capacity,
            is_overloaded: Cell::new(false),
        }
    }

    /// Free permits.
    pub(crate) fn free(&self) -> usize {
        self.free.get()
    }

    /// The number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Takes a permit: at once, or as soon as there is one before the time that `deadline` returns; `None` without one by then,
    /// or where too many wait. The owner returns it with [`WaitQueue::release`].
    pub(crate) async fn take(&self, deadline: impl FnOnce() -> Instant) -> Option<PermitWait> {
        if let Some(left) = self.free.get().checked_sub(1) {
            self.free.set(left);
            return Some(PermitWait::None);
        }
        let it = self.enqueue()?;
        let served = poll_fn(|context| match it.waiter.outcome.get() {
            WaitOutcome::Waiting => {
                it.waiter.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
            news => Poll::Ready(news),
        });
        match timeout_at(deadline(), served).await {
            Ok(WaitOutcome::Granted) => {}
            Ok(_) => return None,
            Err(_) => {
                self.is_overloaded.set(true);
                return None;
            }
        }
        it.waiter.outcome.set(WaitOutcome::Ended); // It has its permit.
        Some(PermitWait::Some)
    }

    /// Joins the queue; where it is too long, a request is refused.
    fn enqueue(&self) -> Option<QueuedWaiter<'_>> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.capacity {
            self.is_overloaded.set(true);
            let goes =
                if self.overload_order == QueueOrder::NewestFirst { waiting.pop_front() } else { None };
            goes?.finish(WaitOutcome::Ended);
        }
        let waiter = Rc::<Waiter>::default();
        waiting.push_back(waiter.clone());
        Some(QueuedWaiter { queue: self, waiter })
    }

    /// A permit is free again: a waiting request gets it, if any.
    pub(crate) fn release(&self) {
        let newest_first = self.overload_order == QueueOrder::NewestFirst && self.is_overloaded.get();
        let mut waiting = self.waiting.borrow_mut();
        let next = if newest_first { waiting.pop_back() } else { waiting.pop_front() };
        drop(waiting);
        match next {
            Some(waiter) => {
                self.end_overload_if_empty();
                waiter.finish(WaitOutcome::Granted);
            }
            None => self.free.set(self.free.get() + 1),
        }
    }

    fn end_overload_if_empty(&self) {
        if self.waiting.borrow().is_empty() {
            self.is_overloaded.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::now;
    use std::future::Future;
    use std::time::Duration;
    use tokio::task::{LocalSet, yield_now};
    use tokio::time::advance;

    const MOST: usize = 16;

    /// A queue of one permit that is taken, and the requests that were served, rejected or late, in that order.
    struct Scene {
        queue: Rc<WaitQueue>,
        outcomes: Rc<RefCell<Vec<String>>>,
    }

    impl Scene {
        async fn new(overload_order: QueueOrder) -> Self {
            let it =
                Self { queue: Rc::new(WaitQueue::new(1, MOST, overload_order)), outcomes: Rc::default() };
            assert_eq!(Some(PermitWait::None), it.queue.take(now).await);
            it
        }

        async fn enqueue(&self, name: impl ToString) {
            let (queue, outcomes, name) = (self.queue.clone(), self.outcomes.clone(), name.to_string());
            tokio::task::spawn_local(async move {
                let deadline = || now() + Duration::from_secs(5);
                let word = if queue.take(deadline).await.is_some() { "+" } else { "-" };
                outcomes.borrow_mut().push(format!("{word}{name}"));
            });
            yield_now().await;
        }

        async fn serve(&self) {
            self.queue.release();
            yield_now().await;
        }

        fn outcomes(&self) -> String {
            self.outcomes.take().join(" ")
        }
    }

    fn play(scene: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        LocalSet::new().block_on(&runtime.unwrap(), scene);
    }

    #[test]
    fn the_first_request_in_the_queue_is_served_first() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            for name in ["a", "b", "c"] {
                it.enqueue(name).await;
                advance(Duration::from_secs(1)).await;
            }
            for _ in 0..4 {
                it.serve().await;
            }
            assert_eq!("+a +b +c", it.outcomes());
            assert_eq!(1, it.queue.free(), "nobody had the last");
        });
    }

    #[test]
    fn a_line_that_was_full_serves_the_newest_first_until_it_has_ended() {
        let capacity = MOST;
        for (overload_order, expect) in [
            (QueueOrder::NewestFirst, ["-0", "+16 +15", "+1 +a +b"]),
            (QueueOrder::InOrder, ["-16", "+0 +1", "+15 +a +b"]),
        ] {
            play(async {
                let it = Scene::new(overload_order).await;
                for name in 0..=capacity {
                    it.enqueue(name).await;
                }
                yield_now().await;
                assert_eq!(expect[0], it.outcomes(), "the oldest goes, or nobody comes");
                it.serve().await;
                it.serve().await;
                assert_eq!(expect[1], it.outcomes());
                for _ in 0..capacity - 3 {
                    it.serve().await;
                }
                it.outcomes();
                it.serve().await;
                it.enqueue("a").await;
                it.enqueue("b").await;
                it.serve().await;
                it.serve().await;
                assert_eq!(expect[2], it.outcomes());
            });
        }
    }

    #[test]
    fn a_line_in_which_a_time_was_up_serves_the_newest_first() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            it.enqueue("a").await;
            advance(Duration::from_secs(3)).await;
            it.enqueue("b").await;
            it.enqueue("c").await;
            advance(Duration::from_secs(3)).await;
            yield_now().await;
            it.serve().await;
            it.serve().await;
            assert_eq!("-a +c +b", it.outcomes());
        });
    }

    #[test]
    fn a_wait_has_an_end_and_leaves_nothing_behind() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            it.enqueue("a").await;
            advance(Duration::from_secs(6)).await;
            yield_now().await;
            assert_eq!("-a", it.outcomes());
            it.serve().await;
            assert_eq!(1, it.queue.free());
            assert!(!it.queue.is_overloaded.get());
        });
    }

    #[test]
    fn a_permit_of_a_cancelled_request_goes_to_the_next() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            let mut waiting = Box::pin(it.queue.take(|| now() + Duration::from_secs(5)));
            assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
            it.enqueue("next").await;
            it.queue.release();
            drop(waiting);
            yield_now().await;
            assert_eq!("+next", it.outcomes());
        });
    }
}
