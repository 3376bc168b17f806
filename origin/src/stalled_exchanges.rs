//! Exchanges that wait for somebody else than their origin: for a client that is to take of the answer or to send of the request, or
//! for nobody. Where others wait for a place, such an exchange is told, the one that has rested longest first. What becomes of it then
//! is its owner's affair: that the client goes on without the origin, or is sent away.

use crate::{Exchange, OriginPool};
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long an exchange must have rested in all before it is told, milliseconds, where its client is to do something.
const GRACE: u64 = 1_000;
/// How often one that waits for a place looks who rests.
const LOOK: Duration = Duration::from_millis(250);
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

struct StalledEntry {
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
    fn is_at_once(&self) -> bool {
        matches!(self.whose, StallCause::ForNobody | StallCause::Listens)
    }

    fn tell(&self, now: u64) {
        self.told.set(Some(PermitWanted { is_still: now.saturating_sub(self.still) >= GRACE }));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What of a rest is the exchange's own.
#[derive(Default)]
pub(crate) struct StallRecord {
    /// For how many milliseconds, until now.
    time: Cell<u64>,
    /// Since when what is waited for has not come.
    still: Cell<Option<u64>>,
    /// Bytes of the request's body that were accepted.
    pub came: Cell<u64>,
}

/// A rest under way.
struct Stall<'e> {
    exchange: &'e Exchange,
    origin: Rc<OriginPool>,
    rester: Rc<StalledEntry>,
}

impl<'e> Stall<'e> {
    fn begin(exchange: &'e Exchange, origin: Rc<OriginPool>, whose: StallCause) -> Self {
        let StallRecord { time, still, came } = &exchange.rested;
        let since = clock::monotonic().0;
        let rester = Rc::new(StalledEntry {
            whose,
            since,
            still: still.get().unwrap_or(since),
            before: time.get(),
            came: came.get(),
            told: Cell::new(None),
            waker: Cell::new(None),
        });
        still.set(Some(rester.still));
        origin.resters.list.borrow_mut().push(rester.clone());
        if rester.is_at_once() {
            origin.press_at_once();
        }
        Self { exchange, origin, rester }
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let Self { exchange, origin, rester } = self;
        let mut list = origin.resters.list.borrow_mut();
        if let Some(at) = list.iter().position(|it| Rc::ptr_eq(it, rester)) {
            list.swap_remove(at);
        }
        exchange.rested.time.set(rester.before + clock::monotonic().0.saturating_sub(rester.since));
    }
}

impl Exchange {
    /// Waits for `work`, which is not the origin's. It may be waited for further after this, and all is as before then.
    ///
    /// # Errors
    /// [`PermitWanted`]: others wait for the place that this exchange has, and it has waited for a second in all. Never where it has none any
    /// more, since all of the answer is here.
    pub async fn resting<T>(
        &self,
        whose: StallCause,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, PermitWanted> {
        let mut rest = None;
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                self.rested.still.set(None);
                return Poll::Ready(Ok(done));
            }
            if rest.is_none() {
                rest = self.place_held_for(whose).map(|it| Stall::begin(self, it, whose));
            }
            let Some(Stall { rester, .. }) = &rest else { return Poll::Pending };
            if let Some(pressed) = rester.told.get()
                && self.place_held_for(whose).is_some()
            {
                if whose == StallCause::Takes {
                    self.read_little();
                }
                return Poll::Ready(Err(pressed));
            }
            rester.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

impl OriginPool {
    /// Waits for `place` in one of the lines, and has those who rest told meanwhile.
    pub(crate) async fn pressing<T>(&self, mut place: Pin<&mut impl Future<Output = T>>) -> T {
        // With the first look it stands in the line.
        if let Poll::Ready(place) = poll_fn(|context| Poll::Ready(place.as_mut().poll(context))).await {
            return place;
        }
        self.press_at_once();
        loop {
            match timeout(LOOK, place.as_mut()).await {
                Ok(place) => return place,
                Err(_) => self.press(),
            }
        }
    }

    /// Tells as many of those for whom nobody waits as others wait for a place, and of those who listen beyond the places for that:
    /// neither has anything to gain by a wait.
    fn press_at_once(&self) {
        let waiting = self.places.waiting();
        if waiting == 0 {
            return;
        }
        BELL.with(|it| it.notify_waiters());
        let (now, list) = (clock::monotonic().0, self.resters.list.borrow());
        let told = list.iter().filter(|it| it.told.get().is_some()).count();
        let mut at_once: Vec<_> =
            list.iter().filter(|it| it.is_at_once() && it.told.get().is_none()).collect();
        at_once.sort_by_key(|it| (it.whose, it.since));
        for rester in at_once.into_iter().take(waiting.saturating_sub(told)) {
            self.counters.origin_pressed.add(1);
            rester.tell(now);
        }
    }

    /// Tells as many of those who rest as wait for a place.
    fn press(&self) {
        let now = clock::monotonic().0;
        let StalledExchanges { list, looked } = &self.resters;
        if looked.replace(now) == now {
            return; // Another that waits has just done so.
        }
        BELL.with(|it| it.notify_waiters());
        let list = list.borrow();
        let mut ripe: Vec<_> = list.iter().filter_map(|it| Some((it.ripe(now)?, it))).collect();
        ripe.sort_by(|(a, one), (b, other)| one.whose.cmp(&other.whose).then(b.cmp(a)));
        let (mut places, mut uploads) = (self.places.waiting(), self.uploads.waiting());
        for (_, rester) in ripe {
            let is_wanted = places > 0 || uploads > 0 && rester.whose == StallCause::Sends;
            if is_wanted {
                places = places.saturating_sub(1);
                uploads = uploads.saturating_sub(usize::from(rester.whose == StallCause::Sends));
                self.counters.origin_pressed.add(1);
                rester.tell(now);
            }
        }
    }
}
