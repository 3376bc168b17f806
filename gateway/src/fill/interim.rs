//! The interim responses of a fill on their way to the client that started it, on the same worker.

use larder_wire::message::ResponseHead;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A queue with one reader. Not `tokio::sync::Notify`: each fill with one reader waits for it, and nearly none has such a response.
#[derive(Default)]
pub(crate) struct InterimQueue {
    responses: RefCell<VecDeque<ResponseHead>>,
    reader: Cell<Option<Waker>>,
}

impl InterimQueue {
    /// Adds a response, and wakes the reader.
    pub fn push(&self, response: ResponseHead) {
        self.responses.borrow_mut().push_back(response);
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    /// The oldest response.
    pub fn pop(&self) -> Option<ResponseHead> {
        self.responses.borrow_mut().pop_front()
    }

    /// Waits until there is a response. Only for one task at a time.
    pub async fn filled(&self) {
        poll_fn(|cx| {
            if !self.responses.borrow().is_empty() {
                return Poll::Ready(());
            }
            let known = self.reader.take().filter(|it| it.will_wake(cx.waker()));
            self.reader.set(Some(known.unwrap_or_else(|| cx.waker().clone())));
            Poll::Pending
        })
        .await;
    }
}
