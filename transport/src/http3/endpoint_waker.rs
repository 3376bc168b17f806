//! The state that the connections of one UDP socket share with the loop of that socket (`endpoint`).

use super::connection::Http3Connection;
use crate::outbox::Outbox;
use crate::worker::QuicConnections;
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The time for which a connection must have been idle to be closed for lack of room.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// Wakes the loop of a socket for its connections.
pub(super) struct EndpointWaker {
    pub queue: RefCell<VecDeque<Rc<Http3Connection>>>,
    pub connections: RefCell<BTreeMap<usize, Rc<Http3Connection>>>,
    pub waker: RefCell<Option<Waker>>,
    /// The number of incomplete handshakes.
    pub half_open: Cell<usize>,
    /// The output of one answer.
    pub scratch: RefCell<Outbox>,
    /// The address, and its name in the configuration.
    pub at: SocketAddr,
    pub name: Rc<str>,
}

impl EndpointWaker {
    /// Puts a connection in line.
    pub fn enqueue(&self, connection: &Http3Connection) {
        if connection.is_queued.get() {
            return;
        }
        let connections = self.connections.borrow();
        if let Some(it) = connections.get(&connection.handle.0) {
            it.is_queued.set(true);
            self.queue.borrow_mut().push_back(it.clone());
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    pub fn now(&self) -> Instant {
        clock::instant()
    }
}

impl QuicConnections for EndpointWaker {
    fn close_idle(&self, count: usize) -> usize {
        let now = clock::instant();
        let all: Vec<_> = self.connections.borrow().values().cloned().collect();
        all.iter().filter(|it| it.close_if_idle(now, LEAST_IDLE)).take(count).count()
    }
}
