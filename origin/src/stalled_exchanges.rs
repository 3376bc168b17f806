//! Exchanges that wait for their own client, not for the origin. While requests queue for a permit, an exchange that has waited for its
//! client for a second in total is asked for its permit, the longest wait first. The owner of the exchange obeys: a response continues
//! into the spool, a request is answered with 503.

use larder_counters::Counters;
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// The total wait for its client after which an exchange is asked for its permit, milliseconds.
const GRACE: u64 = 1_000;
/// How often a queued request looks for stalled exchanges.
pub(crate) const SEARCH_INTERVAL: Duration = Duration::from_millis(250);
/// A client that sends its request faster than this, bytes a second over the whole wait for it, is not stalled.
const LEAST_RATE: u64 = 4096;

/// The part of the client in an exchange that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPart {
    /// It takes the response.
    Takes,
    /// It sends the request.
    Sends,
}

/// Requests queue for the permit of this exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitWanted {
    /// Its client made no progress at all for a second or more.
    pub has_no_progress: bool,
}

thread_local! {
    /// Rung when requests of this worker queue for a permit.
    static QUEUED: Rc<Notify> = Rc::default();
}

/// Waits until a request of this worker queues for a permit of an origin. While some do, it returns within a quarter of a second.
pub async fn queued() {
    let queued = QUEUED.with(Rc::clone);
    queued.notified().await;
}

/// Ends every [`queued`]: a request queues.
pub(crate) fn notify_queued() {
    QUEUED.with(|it| it.notify_waiters());
}

/// The exchanges of one worker with one origin that wait for their client.
#[derive(Default)]
pub(crate) struct StalledExchanges {
    list: RefCell<Vec<Rc<StalledEntry>>>,
    /// The last time at which it was searched, by the monotonic clock.
    searched: Cell<u64>,
}

pub(crate) struct StalledEntry {
    part: ClientPart,
    /// The start of this wait, by the monotonic clock.
    since: u64,
    /// The time of the client's last progress, or the start of the wait.
    last_progress: u64,
    /// Earlier waits of the exchange in total, milliseconds.
    before: u64,
    /// Bytes of the request's body received so far.
    received: u64,
    wanted: Cell<Option<PermitWanted>>,
    waker: Cell<Option<Waker>>,
}

impl StalledEntry {
    /// The total wait in milliseconds, if the exchange may be asked for its permit now.
    fn stalled_for(&self, now: u64) -> Option<u64> {
        let waited = self.before + now.saturating_sub(self.since);
        let is_slow = match self.part {
            ClientPart::Takes => true,
            ClientPart::Sends => self.received.saturating_mul(1000) < waited.saturating_mul(LEAST_RATE),
        };
        (waited >= GRACE && is_slow && self.wanted.get().is_none()).then_some(waited)
    }

    fn request_permit(&self, now: u64) {
        self.wanted
            .set(Some(PermitWanted { has_no_progress: now.saturating_sub(self.last_progress) >= GRACE }));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether the exchange was asked for its permit.
    pub(crate) fn wanted(&self) -> Option<PermitWanted> {
        self.wanted.get()
    }

    /// Wakes `waker` when the exchange is asked for its permit.
    pub(crate) fn wake_later(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
    }
}

impl StalledExchanges {
    /// An exchange starts to wait for its client.
    pub(crate) fn enter(&self, part: ClientPart, record: &StallRecord) -> Rc<StalledEntry> {
        let StallRecord { time, no_progress_since: still, received, .. } = record;
        let since = clock::monotonic().0;
        let entry = Rc::new(StalledEntry {
            part,
            since,
            last_progress: still.get().unwrap_or(since),
            before: time.get(),
            received: received.get(),
            wanted: Cell::new(None),
            waker: Cell::new(None),
        });
        still.set(Some(entry.last_progress));
        self.list.borrow_mut().push(entry.clone());
        entry
    }

    /// The wait is over.
    pub(crate) fn leave(&self, entry: &Rc<StalledEntry>, record: &StallRecord) {
        let mut list = self.list.borrow_mut();
        if let Some(at) = list.iter().position(|it| Rc::ptr_eq(it, entry)) {
            list.swap_remove(at);
        }
        record.time.set(entry.before + clock::monotonic().0.saturating_sub(entry.since));
    }

    /// Asks as many stalled exchanges for their permits as requests queue: for a permit, and for one of those that requests with an
    /// incomplete body may have. Responses first: they lose nothing.
    pub(crate) fn reclaim_permits(&self, mut queued: usize, mut uploads: usize, counters: &Counters) {
        let now = clock::monotonic().0;
        if self.searched.replace(now) == now {
            return; // Another queued request has just searched.
        }
        notify_queued();
        let list = self.list.borrow();
        let mut stalled: Vec<_> = list.iter().filter_map(|it| Some((it.stalled_for(now)?, it))).collect();
        stalled.sort_by_key(|(waited, it)| (it.part == ClientPart::Sends, Reverse(*waited)));
        for (_, entry) in stalled {
            let is_upload = entry.part == ClientPart::Sends;
            if queued > 0 || uploads > 0 && is_upload {
                queued = queued.saturating_sub(1);
                uploads = uploads.saturating_sub(usize::from(is_upload));
                counters.origin_pressed.add(1);
                entry.request_permit(now);
            }
        }
    }
}

/// The waits of one exchange for its client.
#[derive(Default)]
pub(crate) struct StallRecord {
    /// In total, milliseconds.
    time: Cell<u64>,
    /// The time since which the client made no progress.
    pub(crate) no_progress_since: Cell<Option<u64>>,
    /// Bytes of the request's body received.
    pub(crate) received: Cell<u64>,
    /// Its process was released, or could not be for lack of spool.
    pub(crate) is_released: Cell<bool>,
}

impl StallRecord {
    /// The waits so far in total.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_millis(self.time.get())
    }
}
