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
    jam: QueueOrder,
    free: Cell<usize>,
    /// The waiting requests, the newest at the back.
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
    most: usize,
    /// A request was refused, or timed out, since the queue was last empty.
    jammed: Cell<bool>,
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
    news: Cell<WaitOutcome>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WaitOutcome {
    #[default]
    None,
    /// It has a permit.
    Served,
    /// It has left the queue.
    Over,
}

impl Waiter {
    fn tell(&self, news: WaitOutcome) {
        self.news.set(news);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A waiting request; however the wait ends, the queue is updated.
struct QueuedWaiter<'a> {
    line: &'a WaitQueue,
    waiter: Rc<Waiter>,
}

impl Drop for QueuedWaiter<'_> {
    fn drop(&mut self) {
        match self.waiter.news.get() {
            WaitOutcome::Served => self.line.give_back(), // It was given up before it was taken.
            WaitOutcome::Over => {}
            WaitOutcome::None => {
                self.line.waiting.borrow_mut().retain(|it| !Rc::ptr_eq(it, &self.waiter));
                self.line.note_end();
            }
        }
    }
}

impl WaitQueue {
    /// A queue for `places`, at least one, with at most `most` waiting.
    pub(crate) fn new(places: usize, most: usize, jam: QueueOrder) -> Self {
        let places = places.max(1);
        Self { jam, free: Cell::new(places), waiting: RefCell::default(), most, jammed: Cell::new(false) }
    }

    /// Free permits.
    pub(crate) fn free(&self) -> usize {
        self.free.get()
    }

    /// The number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Takes a permit: at once, or as soon as there is one before the time that `by` returns; `None` without one by then,
    /// or where too many wait. The owner returns it with [`WaitQueue::give_back`].
    pub(crate) async fn take(&self, by: impl FnOnce() -> Instant) -> Option<PermitWait> {
        if let Some(left) = self.free.get().checked_sub(1) {
            self.free.set(left);
            return Some(PermitWait::None);
        }
        let it = self.stand()?;
        let served = poll_fn(|context| match it.waiter.news.get() {
            WaitOutcome::None => {
                it.waiter.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
            news => Poll::Ready(news),
        });
        match timeout_at(by(), served).await {
            Ok(WaitOutcome::Served) => {}
            Ok(_) => return None,
            Err(_) => {
                self.jammed.set(true);
                return None;
            }
        }
        it.waiter.news.set(WaitOutcome::Over); // It has what it stood for.
        Some(PermitWait::Some)
    }

    /// Joins the queue; where it is too long, a request is refused.
    fn stand(&self) -> Option<QueuedWaiter<'_>> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.most {
            self.jammed.set(true);
            let goes = if self.jam == QueueOrder::NewestFirst { waiting.pop_front() } else { None };
            goes?.tell(WaitOutcome::Over);
        }
        let waiter = Rc::<Waiter>::default();
        waiting.push_back(waiter.clone());
        Some(QueuedWaiter { line: self, waiter })
    }

    /// A permit is free again: a waiting request gets it, if any.
    pub(crate) fn give_back(&self) {
        let newest_first = self.jam == QueueOrder::NewestFirst && self.jammed.get();
        let mut waiting = self.waiting.borrow_mut();
        let next = if newest_first { waiting.pop_back() } else { waiting.pop_front() };
        drop(waiting);
        match next {
            Some(waiter) => {
                self.note_end();
                waiter.tell(WaitOutcome::Served);
            }
            None => self.free.set(self.free.get() + 1),
        }
    }

    fn note_end(&self) {
        if self.waiting.borrow().is_empty() {
            self.jammed.set(false);
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

    /// A line of one place that is taken, and who was served, sent away or came too late, in that order.
    struct Scene {
        line: Rc<WaitQueue>,
        told: Rc<RefCell<Vec<String>>>,
    }

    impl Scene {
        async fn new(jam: QueueOrder) -> Self {
            let it = Self { line: Rc::new(WaitQueue::new(1, MOST, jam)), told: Rc::default() };
            assert_eq!(Some(PermitWait::None), it.line.take(now).await);
            it
        }

        async fn come(&self, name: impl ToString) {
            let (line, told, name) = (self.line.clone(), self.told.clone(), name.to_string());
            tokio::task::spawn_local(async move {
                let by = || now() + Duration::from_secs(5);
                let word = if line.take(by).await.is_some() { "+" } else { "-" };
                told.borrow_mut().push(format!("{word}{name}"));
            });
            yield_now().await;
        }

        async fn serve(&self) {
            self.line.give_back();
            yield_now().await;
        }

        fn told(&self) -> String {
            self.told.take().join(" ")
        }
    }

    fn play(scene: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        LocalSet::new().block_on(&runtime.unwrap(), scene);
    }

    #[test]
    fn who_came_first_is_served_first() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            for name in ["a", "b", "c"] {
                it.come(name).await;
                advance(Duration::from_secs(1)).await;
            }
            for _ in 0..4 {
                it.serve().await;
            }
            assert_eq!("+a +b +c", it.told());
            assert_eq!(1, it.line.free(), "nobody had the last");
        });
    }

    #[test]
    fn a_line_that_was_full_serves_the_newest_first_until_it_has_ended() {
        let most = MOST;
        for (jam, expect) in [
            (QueueOrder::NewestFirst, ["-0", "+16 +15", "+1 +a +b"]),
            (QueueOrder::InOrder, ["-16", "+0 +1", "+15 +a +b"]),
        ] {
            play(async {
                let it = Scene::new(jam).await;
                for name in 0..=most {
                    it.come(name).await;
                }
                yield_now().await;
                assert_eq!(expect[0], it.told(), "the oldest goes, or nobody comes");
                it.serve().await;
                it.serve().await;
                assert_eq!(expect[1], it.told());
                for _ in 0..most - 3 {
                    it.serve().await;
                }
                it.told();
                it.serve().await;
                it.come("a").await;
                it.come("b").await;
                it.serve().await;
                it.serve().await;
                assert_eq!(expect[2], it.told());
            });
        }
    }

    #[test]
    fn a_line_in_which_a_time_was_up_serves_the_newest_first() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            it.come("a").await;
            advance(Duration::from_secs(3)).await;
            it.come("b").await;
            it.come("c").await;
            advance(Duration::from_secs(3)).await;
            yield_now().await;
            it.serve().await;
            it.serve().await;
            assert_eq!("-a +c +b", it.told());
        });
    }

    #[test]
    fn a_wait_has_an_end_and_leaves_nothing_behind() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            it.come("a").await;
            advance(Duration::from_secs(6)).await;
            yield_now().await;
            assert_eq!("-a", it.told());
            it.serve().await;
            assert_eq!(1, it.line.free());
            assert!(!it.line.jammed.get());
        });
    }

    #[test]
    fn what_was_given_to_somebody_who_went_is_given_to_the_next() {
        play(async {
            let it = Scene::new(QueueOrder::NewestFirst).await;
            let mut going = Box::pin(it.line.take(|| now() + Duration::from_secs(5)));
            assert!(poll_fn(|context| Poll::Ready(going.as_mut().poll(context).is_pending())).await);
            it.come("next").await;
            it.line.give_back();
            drop(going);
            yield_now().await;
            assert_eq!("+next", it.told());
        });
    }
}
