//! The connections with HTTP/2 of one worker to one origin: as few as have room for what is asked. Opening one is not here.

use super::{H2Stream, Http2Session};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;

/// Those that are open.
#[derive(Default)]
pub(crate) struct Sessions {
    all: RefCell<Vec<Rc<Http2Session>>>,
    /// The origin chose HTTP/2 when it was last asked.
    chosen: Cell<bool>,
    opening: Cell<bool>,
    opened: Notify,
}

impl Sessions {
    /// A stream of one that has room: the first of them, so that those behind are unused once there is less to do.
    pub(crate) fn stream(&self) -> Option<H2Stream> {
        let mut all = self.all.borrow_mut();
        all.retain(|it| !it.is_over());
        all.iter().find_map(Http2Session::stream)
    }

    /// One was opened: a stream of it, and it is there for others.
    pub(crate) fn add(&self, session: Rc<Http2Session>) -> Option<H2Stream> {
        self.chosen.set(true);
        let stream = session.stream();
        self.all.borrow_mut().push(session);
        stream
    }

    /// The origin chose HTTP/1.1.
    pub(crate) fn was_not_chosen(&self) {
        self.chosen.set(false);
    }

    /// Whether the origin chose HTTP/2 when it was last asked.
    pub(crate) fn is_chosen(&self) -> bool {
        self.chosen.get()
    }

    /// The right to open one, where nobody else is about to: what one opens has room for many.
    pub(crate) fn opening(&self) -> Option<OpeningOne<'_>> {
        // Made only where it is had: to drop one gives the right back.
        (!self.opening.replace(true)).then(|| OpeningOne(self))
    }

    /// Waits until somebody has opened one, or could not.
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
