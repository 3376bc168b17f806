//! The connection limit of all workers together. The kernel assigns a new connection to any of them, with or without idle
//! connections to close: so the limit is shared, and a worker without idle connections notifies the other workers.

use super::{MOST_CLOSED, TransportWorker};
use crate::alternative::AlternativeService;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The time for which the other workers are given to close idle connections: a turn of theirs, unless overloaded.
const PERMIT_WAIT: Duration = Duration::from_millis(100);

/// The shared limit of connections of all workers.
#[derive(Debug)]
pub struct ConnectionLimit {
    taken: AtomicUsize,
    /// The number of requests to close idle connections.
    requests: watch::Sender<u64>,
    /// The number of tasks that wait for a permit.
    waiting: AtomicUsize,
    released: Notify,
}

/// A permit for one connection, held as long as this lives.
#[derive(Debug)]
pub(crate) struct ConnectionPermit(Arc<ConnectionLimit>);

impl Default for ConnectionLimit {
    fn default() -> Self {
        let (taken, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { taken, requests: watch::Sender::new(0), waiting, released: Notify::new() }
    }
}

impl ConnectionLimit {
    fn take(self: &Arc<Self>, most: usize) -> Option<ConnectionPermit> {
        let more = |taken| (taken < most).then_some(taken + 1);
        self.taken.fetch_update(SeqCst, SeqCst, more).ok().map(|_| ConnectionPermit(self.clone()))
    }

    /// Waits until one is returned, while `most` are taken.
    async fn free(&self, most: usize) {
        loop {
            let released = self.released.notified();
            if self.taken.load(SeqCst) < most {
                return;
            }
            released.await;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, SeqCst);
        if self.0.waiting.load(SeqCst) > 0 {
            self.0.released.notify_waiters();
        }
    }
}

/// A connection without a socket of its own, as over QUIC: it counts among the open ones as long as this lives.
pub(crate) struct ConnectionPresence {
    worker: Rc<TransportWorker>,
    _permit: ConnectionPermit,
}

impl Drop for ConnectionPresence {
    fn drop(&mut self) {
        let worker = &self.worker;
        worker.open.set(worker.open.get() - 1);
        worker.counters.connections_open.sub(1);
        if worker.open.get() == 0 {
            worker.empty.notify_waiters();
        }
    }
}

/// The services over QUIC of a worker.
#[derive(Default)]
pub(crate) struct QuicServices {
    /// The connections of each.
    pub connections: RefCell<Vec<Weak<dyn QuicConnections>>>,
    /// Their announcements, by address, also of those that have ended.
    alternatives: RefCell<Vec<Rc<AlternativeService>>>,
}

/// Closes idle connections that the sweep does not know.
pub(crate) trait QuicConnections {
    /// Closes up to `count` of them; returns the number closed.
    fn close_idle(&self, count: usize) -> usize;
}

impl TransportWorker {
    /// The HTTP/3 service at an address that is about to answer there.
    pub(crate) fn new_alternative(&self, at: SocketAddr) -> Rc<AlternativeService> {
        self.alternative_at(at).unwrap_or_else(|| {
            let it = Rc::new(AlternativeService::new(at));
            self.quic.alternatives.borrow_mut().push(it.clone());
            it
        })
    }

    /// The HTTP/3 service at the address of a listener; also one that has ended, which clients have to learn.
    pub(crate) fn alternative_at(&self, at: SocketAddr) -> Option<Rc<AlternativeService>> {
        self.quic.alternatives.borrow().iter().find(|it| it.at == at).cloned()
    }

    /// Counts a connection without a socket of its own.
    pub(crate) fn enter(self: &Rc<Self>, permit: ConnectionPermit) -> ConnectionPresence {
        self.open.set(self.open.get() + 1);
        self.counters.connections_accepted.add(1);
        self.counters.connections_open.add(1);
        ConnectionPresence { worker: self.clone(), _permit: permit }
    }

    /// Takes a permit within `limits.connections`; `None` if all are taken.
    pub(crate) fn acquire_permit(&self) -> Option<ConnectionPermit> {
        self.connection_limit.take(self.limits().connections)
    }

    /// A permit for a stream with an upgrade, which would be a connection over HTTP/1.1; `None`, which is counted, if all
    /// are taken and no client is idle.
    pub(crate) async fn permit_for_tunnel(&self) -> Option<ConnectionPermit> {
        loop {
            let permit = self.acquire_permit();
            if permit.is_some() {
                return permit;
            }
            if !self.close_idle_for_permit().await {
                self.counters.connections_refused.add(1);
                return None;
            }
        }
    }

    /// Lets idle connections close, here or at another worker; returns whether there is a permit then, or soon.
    pub(crate) async fn close_idle_for_permit(&self) -> bool {
        if self.close_idle(MOST_CLOSED) > 0 {
            tokio::task::yield_now().await; // Those are gone after a turn of the loop.
            return true;
        }
        if self.connection_limit.requests.receiver_count() < 2 {
            return false;
        }
        self.connection_limit.waiting.fetch_add(1, SeqCst);
        self.connection_limit.requests.send_modify(|it| *it += 1);
        let free = self.connection_limit.free(self.limits().connections);
        let is_free = tokio::time::timeout(PERMIT_WAIT, free).await.is_ok();
        self.connection_limit.waiting.fetch_sub(1, SeqCst);
        is_free
    }

    /// Closes idle connections whenever another worker needs a permit; each worker a part, so that they do not all close the
    /// full number.
    pub(super) async fn close_idle_for_other_workers(&self) {
        let mut requests = self.connection_limit.requests.subscribe();
        while requests.changed().await.is_ok() {
            let others = self.connection_limit.requests.receiver_count().saturating_sub(1).max(1);
            self.close_idle(MOST_CLOSED.div_ceil(others));
        }
    }
}
