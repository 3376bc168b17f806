//! How many connections all workers have together. The kernel gives a newcomer to one of them, whichever has room or clients
//! that rest: so places are nobody's own, and who has none to give asks the others.

use super::{SHED, TransportWorker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long is waited for the others to make room: a turn of theirs, where they are not overloaded.
const PATIENCE: Duration = Duration::from_millis(100);

/// The connections of all workers that share this.
#[derive(Debug)]
pub struct ConnectionLimit {
    taken: AtomicUsize,
    /// How often somebody asked the others to make room.
    asked: watch::Sender<u64>,
    /// Who waits for one to be given back.
    waiting: AtomicUsize,
    given_back: Notify,
}

/// A place that is taken, for as long as this lives.
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

    /// Waits until one is given back, while `most` are taken.
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
    /// Takes one of the places that `limits.connections` leaves; `None` where all are taken.
    pub(crate) fn take_place(&self) -> Option<ConnectionPermit> {
        self.places.take(self.limits().connections)
    }

    /// A place for a stream that asks for what takes a connection over HTTP/1.1; `None`, which is counted, where all are
    /// taken and nobody rests.
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

    /// Has clients that rest close, here or at another worker; whether there is a place then, or will be in a moment.
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

    /// Makes room whenever another worker asks for it; each a part, so that not all of them close as many as one needs.
    pub(super) async fn give_way(&self) {
        let mut asked = self.places.asked.subscribe();
        while asked.changed().await.is_ok() {
            let others = self.places.asked.receiver_count().saturating_sub(1).max(1);
            self.shed(SHED.div_ceil(others));
        }
    }
}
