//! The HTTP/2 connections of one worker to one origin: as few as have room for its requests. Other modules open them.

use super::{H2Stream, Http2Session};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;

/// The open ones.
#[derive(Default)]
pub(crate) struct Sessions {
    all: RefCell<Vec<Rc<Http2Session>>>,
    /// The origin chose HTTP/2 in the last handshake.
    chosen: Cell<bool>,
    opening: Cell<bool>,
    opened: Notify,
}

impl Sessions {
    /// A stream of the first one that has room, so that later ones become unused when there are fewer requests.
    pub(crate) fn stream(&self) -> Option<H2Stream> {
        let mut all = self.all.borrow_mut();
        all.retain(|it| !it.is_over());
        all.iter().find_map(H2Stream::of)
    }

    /// Adds a new connection and returns a stream of it.
    pub(crate) fn add(&self, session: Rc<Http2Session>) -> Option<H2Stream> {
        self.chosen.set(true);
        let stream = H2Stream::of(&session);
        self.all.borrow_mut().push(session);
        stream
    }

    /// The origin chose HTTP/1.1.
    pub(crate) fn was_not_chosen(&self) {
        self.chosen.set(false);
    }

    /// Whether the origin chose HTTP/2 in the last handshake.
    pub(crate) fn is_chosen(&self) -> bool {
        self.chosen.get()
    }

    /// The right to open one, unless another request is doing so: a new connection has room for many.
    pub(crate) fn opening(&self) -> Option<OpeningOne<'_>> {
        // Created only if granted: dropping one gives the right back.
        (!self.opening.replace(true)).then(|| OpeningOne(self))
    }

    /// Waits until one was opened, or could not be.
    pub(crate) async fn opened(&self) {
        self.opened.notified().await;
    }
}

/// See [`Sessions::opening`].
pub(crate) struct OpeningOne<'a>(&'a Sessions);

impl Drop for OpeningOne<'_> {
    fn drop(&mut self) {
        self.0.opening.set(false);
        self.0.opened.notify_waiters();
    }
}
