//! Memory for the futures of slow answers and of fills, lent by their worker and reused. An idle connection has none.
//!
//! Such a future has a few KiB. Allocated for each answer, those of a few simultaneous requests repeatedly fill and empty
//! a page of the allocator, and each time its memory is returned to the system (docs/decisions/0020) and requested again:
//! that was a twentieth of the cost of a miss. And a task with a pooled future holds only a pointer: the runtime moves a
//! task's future seven times between its creation and its end, and a fill's has 10 KiB.
//! docs/decisions/0214 has the figures.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The approximate bytes of unused slots that are kept.
const MOST_POOLED: usize = 256 * 1024;

/// The slots of one worker, for futures of one type.
pub struct FuturePool {
    /// The layout of the kept slots: that of the first future. The handler of a worker makes one type.
    layout: Cell<Option<Layout>>,
    free: RefCell<Vec<NonNull<u8>>>,
}

impl FuturePool {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self { layout: Cell::new(None), free: RefCell::default() }
    }

    /// Puts the future of `make` into a slot.
    pub fn lend<F: Future>(&self, make: impl FnOnce() -> F) -> PooledFuture<&Self, F> {
        PooledFuture::new(self, make)
    }

    /// The same for a task, which may outlive everything except its pool.
    pub fn pooled<F: Future>(self: &Rc<Self>, make: impl FnOnce() -> F) -> PooledFuture<Rc<Self>, F> {
        PooledFuture::new(self.clone(), make)
    }

    fn take(&self, layout: Layout) -> NonNull<u8> {
        if *self.layout.get().get_or_insert(layout) == layout {
            self.layout.set(Some(layout));
            if let Some(room) = self.free.borrow_mut().pop() {
                return room;
            }
        }
        // SAFETY: the size is not zero.
        let room = unsafe { alloc(layout) };
        NonNull::new(room).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn put_back(&self, room: NonNull<u8>, layout: Layout) {
        let mut free = self.free.borrow_mut();
        if self.layout.get() == Some(layout) && free.len() < MOST_POOLED / layout.size() {
            free.push(room);
        } else {
            // SAFETY: `take` had it from `alloc` with this layout.
            unsafe { dealloc(room.as_ptr(), layout) };
        }
    }
}

impl Default for FuturePool {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FuturePool {
    fn drop(&mut self) {
        let Some(layout) = self.layout.get() else { return };
        for room in self.free.get_mut().drain(..) {
            // SAFETY: only slots of this layout, which `take` had from `alloc`, are kept.
            unsafe { dealloc(room.as_ptr(), layout) };
        }
    }
}

/// A future in a slot: pinned, as it stays there until it is dropped.
pub struct PooledFuture<R: Deref<Target = FuturePool>, F: Future> {
    at: NonNull<F>,
    pool: R,
}

impl<R: Deref<Target = FuturePool>, F: Future> PooledFuture<R, F> {
    fn new(pool: R, make: impl FnOnce() -> F) -> Self {
        let layout = Layout::new::<F>();
        let at = match layout.size() {
            0 => NonNull::dangling(),
            _ => pool.take(layout).cast::<F>(),
        };
        // SAFETY: `at` is aligned for `F` and large enough for it, and this value is its only owner.
        unsafe { at.write(make()) };
        Self { at, pool }
    }
}

// The pinned future is in the slot, which does not move.
impl<R: Deref<Target = FuturePool>, F: Future> Unpin for PooledFuture<R, F> {}

impl<R: Deref<Target = FuturePool>, F: Future> Future for PooledFuture<R, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: it was written by `new`, is never moved, and lives until this is dropped.
        unsafe { Pin::new_unchecked(self.get_mut().at.as_mut()) }.poll(context)
    }
}

impl<R: Deref<Target = FuturePool>, F: Future> Drop for PooledFuture<R, F> {
    fn drop(&mut self) {
        let layout = Layout::new::<F>();
        // SAFETY: it was written by `new`, and is dropped here once.
        unsafe { self.at.drop_in_place() };
        if layout.size() > 0 {
            self.pool.put_back(self.at.cast(), layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn poll<R: Deref<Target = FuturePool>, F: Future>(it: &mut PooledFuture<R, F>) -> Poll<F::Output> {
        Pin::new(it).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_pooled_future_is_reused_and_its_content_dropped() {
        let pool = FuturePool::new();
        let held = Rc::new(7);
        let make = || {
            let held = held.clone();
            async move {
                std::future::pending::<()>().await;
                *held
            }
        };
        let mut first = pool.lend(make);
        let mut second = pool.lend(make);
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        let at = first.at;
        drop(first);
        assert_eq!((2, 1), (Rc::strong_count(&held), pool.free.borrow().len()));
        let third = pool.lend(make);
        assert_eq!(at, third.at, "the same room");
        drop((second, third));
        assert_eq!((1, 2), (Rc::strong_count(&held), pool.free.borrow().len()));
    }

    #[test]
    fn a_task_keeps_its_rooms() {
        let pool = Rc::new(FuturePool::new());
        let held = Rc::new(7);
        let mut it = {
            let held = held.clone();
            pool.pooled(|| async move {
                std::future::pending::<()>().await;
                *held
            })
        };
        assert!(poll(&mut it).is_pending());
        let kept = Rc::downgrade(&pool);
        drop(pool);
        assert_eq!((2, true), (Rc::strong_count(&held), kept.upgrade().is_some()));
        drop(it);
        assert_eq!((1, true), (Rc::strong_count(&held), kept.upgrade().is_none()));
    }

    #[test]
    fn the_number_of_pooled_futures_is_bounded_by_their_memory() {
        let pool = FuturePool::new();
        let large =
            |it: [u8; MOST_POOLED / 4]| async move { it.iter().map(|it| u32::from(*it)).sum::<u32>() };
        drop((0..9).map(|it| pool.lend(move || large([it; MOST_POOLED / 4]))).collect::<Vec<_>>());
        assert!((1..=4).contains(&pool.free.borrow().len()));
    }

    #[test]
    fn other_sizes_are_not_kept() {
        let pool = FuturePool::new();
        let small = |it: u8| async move { it };
        let mut all: Vec<_> = (0..80).map(|it| pool.lend(move || small(it))).collect();
        assert_eq!(Poll::Ready(79), poll(&mut all[79]));
        let large = [1u64; 50];
        let mut other = pool.lend(|| async move { large.iter().sum::<u64>() });
        assert_eq!(Poll::Ready(50), poll(&mut other));
        drop((all, other));
        assert_eq!(80, pool.free.borrow().len());
        let mut none = pool.lend(|| std::future::ready(()));
        assert_eq!(Poll::Ready(()), poll(&mut none));
    }
}
