//! The connection limit of all workers together. The kernel assigns a new connection to any of them, with or without idle
//! connections to close: so the limit is shared, and a worker without idle connections notifies the other workers.

use super::{SHED, TransportWorker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The time for which the other workers are given to make room: a turn of theirs, unless overloaded.
const PATIENCE: Duration = Duration::from_millis(100);

/// The shared limit of connections of all workers.
#[derive(Debug)]
pub struct ConnectionLimit {
    taken: AtomicUsize,
    /// The number of requests to make room.
    asked: watch::Sender<u64>,
    /// The number of tasks that wait for a permit.
    waiting: AtomicUsize,
    given_back: Notify,
}

/// A permit for one connection, held as long as this lives.
#[derive(Debug)]
pub(crate) struct ConnectionPermit(Arc<ConnectionLimit>);

impl Default for ConnectionLimit {
    fn default() -> Self {
        let (taken, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { taken, asked: watch::Sender::new(0), waiting, given_back: Notify::new() }
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
            let given_back = self.given_back.notified();
            if self.taken.load(SeqCst) < most {
                return;
            }
            given_back.await;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, SeqCst);
        if self.0.waiting.load(SeqCst) > 0 {
            self.0.given_back.notify_waiters();
        }
    }
}

impl TransportWorker {
    /// Takes a permit within `limits.connections`; `None` if all are taken.
    pub(crate) fn take_place(&self) -> Option<ConnectionPermit> {
        self.places.take(self.limits().connections)
    }

    /// A permit for a stream with an upgrade, which would be a connection over HTTP/1.1; `None`, which is counted, if all
    /// are taken and no client is idle.
    pub(crate) async fn place_for_tunnel(&self) -> Option<ConnectionPermit> {
        loop {
            let place = self.take_place();
            if place.is_some() {
                return place;
            }
            if !self.makes_room().await {
                self.counters.connections_refused.add(1);
                return None;
            }
        }
    }

    /// Lets idle connections close, here or at another worker; returns whether there is a permit then, or soon.
    pub(crate) async fn makes_room(&self) -> bool {
        if self.shed(SHED) > 0 {
            tokio::task::yield_now().await; // Those are gone after a turn of the loop.
            return true;
        }
        if self.places.asked.receiver_count() < 2 {
            return false;
        }
        self.places.waiting.fetch_add(1, SeqCst);
        self.places.asked.send_modify(|it| *it += 1);
        let free = self.places.free(self.limits().connections);
        let is_free = tokio::time::timeout(PATIENCE, free).await.is_ok();
        self.places.waiting.fetch_sub(1, SeqCst);
        is_free
    }

    /// Closes idle connections whenever another worker needs room; each worker a part, so that they do not all close the
    /// full number.
    pub(super) async fn give_way(&self) {
        let mut asked = self.places.asked.subscribe();
        while asked.changed().await.is_ok() {
            let others = self.places.asked.receiver_count().saturating_sub(1).max(1);
            self.shed(SHED.div_ceil(others));
        }
    }
}
