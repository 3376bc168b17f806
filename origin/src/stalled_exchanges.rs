//! Exchanges that wait for somebody else than their origin: for a client that is to take of the answer or to send of the request, or
//! for nobody. Where others wait for a place, such an exchange is told, the one that has rested longest first. What becomes of it then
//! is its owner's affair: that the client goes on without the origin, or is sent away.

use larder_counters::Counters;
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// How long an exchange must have rested in all before it is told, milliseconds, where its client is to do something.
const GRACE: u64 = 1_000;
/// How often one that waits for a place looks who rests.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// Bytes a second that a client is to send, over all the time in which it was waited for, so that it is not sent away for others.
const LEAST_RATE: u64 = 4096;

/// Whom an exchange waits for. In the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StallCause {
    /// Nobody reads the answer any more.
    ForNobody,
    /// A client listens to a stream of events, for which only a place of a page was left.
    Listens,
    /// A client is to take of the answer.
    Takes,
    /// A client is to send of its request. Told only where it has been slower than 4 KiB a second.
    Sends,
}

/// Others wait for the place of this exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitWanted {
    /// Its client did nothing at all for a second or more.
    pub is_still: bool,
}

thread_local! {
    /// Rung where requests of this worker wait for a place with an origin.
    static BELL: Rc<Notify> = Rc::default();
}

/// Waits until requests of this worker wait for a place with an origin. Where they do, within a quarter of a second.
pub async fn others_wait() {
    let bell = BELL.with(Rc::clone);
    bell.notified().await;
}

/// The exchanges of one worker with one origin that rest.
#[derive(Default)]
pub(crate) struct StalledExchanges {
    list: RefCell<Vec<Rc<StalledEntry>>>,
    /// When it was looked last who may be told, by the monotonic clock.
    looked: Cell<u64>,
}

pub(crate) struct StalledEntry {
    whose: StallCause,
    /// Since when it rests, by the monotonic clock.
    since: u64,
    /// Since when its client has done nothing: also where it was told meanwhile.
    still: u64,
    /// For how many milliseconds it has rested before.
    before: u64,
    /// Bytes of the request's body that have come until now.
    came: u64,
    told: Cell<Option<PermitWanted>>,
    waker: Cell<Option<Waker>>,
}

impl StalledEntry {
    /// For how many milliseconds it has rested in all, if that is enough to be told.
    fn ripe(&self, now: u64) -> Option<u64> {
        let rested = self.before + now.saturating_sub(self.since);
        let is_fast = || self.came.saturating_mul(1000) >= rested.saturating_mul(LEAST_RATE);
        let is_ripe = match self.whose {
            StallCause::ForNobody | StallCause::Listens => true,
            StallCause::Takes => rested >= GRACE,
            StallCause::Sends => rested >= GRACE && !is_fast(),
        };
        (is_ripe && self.told.get().is_none()).then_some(rested)
    }

    /// Whether it is told as soon as others wait, however short it has rested.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.whose, StallCause::ForNobody | StallCause::Listens)
    }

    fn tell(&self, now: u64) {
        self.told.set(Some(PermitWanted { is_still: now.saturating_sub(self.still) >= GRACE }));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl StalledEntry {
    /// Others wait for the place, once that was told; otherwise this waker is woken when it is.
    pub(crate) fn is_wanted(&self) -> Option<PermitWanted> {
        self.told.get()
    }

    /// Wakes this when it is told.
    pub(crate) fn wakes(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
    }
}

impl StalledExchanges {
    /// An exchange rests from now on.
    pub(crate) fn enter(&self, whose: StallCause, record: &StallRecord) -> Rc<StalledEntry> {
        let StallRecord { time, still, came } = record;
        let since = clock::monotonic().0;
        let entry = Rc::new(StalledEntry {
            whose,
            since,
            still: still.get().unwrap_or(since),
            before: time.get(),
            came: came.get(),
            told: Cell::new(None),
            waker: Cell::new(None),
        });
        still.set(Some(entry.still));
        self.list.borrow_mut().push(entry.clone());
        entry
    }

    /// It does so no longer.
    pub(crate) fn leave(&self, entry: &Rc<StalledEntry>, record: &StallRecord) {
        let mut list = self.list.borrow_mut();
        if let Some(at) = list.iter().position(|it| Rc::ptr_eq(it, entry)) {
            list.swap_remove(at);
        }
        record.time.set(entry.before + clock::monotonic().0.saturating_sub(entry.since));
    }

    /// Tells as many of those for whom nobody waits as others wait for a place, and of those who listen beyond the places for that:
    /// neither has anything to gain by a wait.
    pub(crate) fn press_at_once(&self, waiting: usize, counters: &Counters) {
        if waiting == 0 {
            return;
        }
        BELL.with(|it| it.notify_waiters());
        let (now, list) = (clock::monotonic().0, self.list.borrow());
        let told = list.iter().filter(|it| it.told.get().is_some()).count();
        let mut at_once: Vec<_> =
            list.iter().filter(|it| it.is_at_once() && it.told.get().is_none()).collect();
        at_once.sort_by_key(|it| (it.whose, it.since));
        for entry in at_once.into_iter().take(waiting.saturating_sub(told)) {
            counters.origin_pressed.add(1);
            entry.tell(now);
        }
    }

    /// Tells as many of those who rest as wait for a place.
    pub(crate) fn press(&self, mut places: usize, mut uploads: usize, counters: &Counters) {
        let now = clock::monotonic().0;
        if self.looked.replace(now) == now {
            return; // Another that waits has just done so.
        }
        BELL.with(|it| it.notify_waiters());
        let list = self.list.borrow();
        let mut ripe: Vec<_> = list.iter().filter_map(|it| Some((it.ripe(now)?, it))).collect();
        ripe.sort_by(|(a, one), (b, other)| one.whose.cmp(&other.whose).then(b.cmp(a)));
        for (_, entry) in ripe {
            let is_wanted = places > 0 || uploads > 0 && entry.whose == StallCause::Sends;
            if is_wanted {
                places = places.saturating_sub(1);
                uploads = uploads.saturating_sub(usize::from(entry.whose == StallCause::Sends));
                counters.origin_pressed.add(1);
                entry.tell(now);
            }
        }
    }
}

/// What of a rest is the exchange's own.
#[derive(Default)]
pub(crate) struct StallRecord {
    /// For how many milliseconds, until now.
    time: Cell<u64>,
    /// Since when what is waited for has not come.
    pub(crate) still: Cell<Option<u64>>,
    /// Bytes of the request's body that were accepted.
    pub(crate) came: Cell<u64>,
}
