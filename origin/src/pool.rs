//! The connections of one worker to one origin: how many there may be, which are unused, who waits for one.
//!
//! Whoever may ask for itself only because it was too slow for what others share first waits for one of half of the places,
//! and then with everybody: such exchanges last as long as slow clients take, and may be many.

use crate::channel::Channel;
use crate::connection::{IdleState, OriginConnection, Spares};
use crate::deadline::{after, now};
use crate::dial::Dialer;
use crate::group::{GroupAttempt, Paced};
use crate::http2::{ChannelNeeds, Sessions};
use crate::outlier_state::{OriginAdmission, OriginChange, OutlierEjection, OutlierState, SentIn};
use crate::request::Persistence;
use crate::stalled_exchanges::{StallCause, StalledExchanges};
use crate::tls::OriginTls;
use crate::wait_queue::{PermitWait, QueueOrder, WaitQueue};
use crate::{Exchange, Http2, OriginAddress, OriginError, OriginLimits, OutgoingRequest};
use larder_counters::{Counters, OriginScope, RouteScope};
use larder_stdx::clock::{self, Monotonic};
use larder_stdx::descriptors;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// For so long an origin that sent more than its responses is trusted with no connection twice.
const WARY: Duration = Duration::from_secs(60);
/// The sweep looks at unused connections so often within `Limits::idle`...
const SWEEPS: u32 = 8;
/// ...but not less often than this, so that those that the origin closed give back their descriptors,
const SLOWEST_SWEEP: Duration = Duration::from_secs(1);
/// and not more often than this.
const FASTEST_SWEEP: Duration = Duration::from_millis(10);

/// The connections of one worker to one origin.
pub struct OriginPool {
    address: OriginAddress,
    name: String,
    /// How it is known, where it speaks TLS.
    pub(crate) tls: Option<OriginSecurity>,
    pub(crate) http2: Http2,
    /// Shared by all workers.
    pub(crate) standing: Arc<OutlierState>,
    /// Its part of what a group has to do, beside those of the others.
    pub(crate) weight: u32,
    ejection: OutlierEjection,
    drained: bool,
    pub(crate) limits: OriginLimits,
    pub(crate) counters: Arc<Counters>,
    pub(crate) spares: Spares,
    /// The room in which a request head is written before it is sent.
    pub(crate) scratch: RefCell<Vec<u8>>,
    pub(crate) dialer: Dialer,
    /// Connections that several exchanges go over.
    pub(crate) sessions: Sessions,
    /// One place for each exchange under way. Since a connection is opened only by an exchange that found none
    /// unused, or none with room, this also bounds the open connections. Who is served first is said in `line`.
    pub(crate) places: WaitQueue,
    /// Those that are not kept for requests which are here as a whole: see [`whole`].
    pub(crate) uploads: WaitQueue,
    /// Whose exchanges wait for others than the origin.
    pub(crate) resters: StalledExchanges,
    /// Streams of events under way.
    events: Cell<usize>,
    /// The last used at the back, where the next request takes it: those at the front grow old and go.
    idle: RefCell<VecDeque<Unused>>,
    /// Counts sweeps: the clock of the unused connections.
    sweep: Cell<u64>,
    sweeper: Cell<Sweeper>,
    /// Until when it is taken for one that sends more than its responses: see [`OriginPool::note_surplus`].
    surplus_until: Cell<Option<Instant>>,
    /// The same of its responses to HEAD alone.
    head_surplus_until: Cell<Option<Instant>>,
    /// Who is told of failures.
    told: OnceCell<FailureReport>,
    /// Who is told that it is left alone, or used again.
    changed: OnceCell<StateReport>,
    /// What is counted beside `counters`.
    pub(crate) measures: OnceCell<Measures>,
}

/// What is counted of each exchange, beside the worker's counters.
pub struct Measures {
    /// For the route whose origin this is.
    pub route: Arc<RouteScope>,
    /// For the origin, whichever route uses it.
    pub origin: Arc<OriginScope>,
}

/// Who is told of each exchange that failed, and why.
pub type FailureReport = Box<dyn Fn(&OriginError)>;

/// Who is told that the origin is left alone, or used again.
pub type StateReport = Box<dyn Fn(OriginChange)>;

/// TLS, and who the origin has to be.
#[derive(Clone, Debug)]
pub struct OriginSecurity {
    /// Whom to trust.
    pub tls: OriginTls,
    /// The name that its certificate is for.
    pub name: String,
}

/// What an origin is to the group that it belongs to.
#[derive(Clone, Debug)]
pub struct Membership {
    /// What it is called in logs and statistics.
    pub name: String,
    /// TLS, if it speaks that.
    pub tls: Option<OriginSecurity>,
    /// Whether HTTP/2 is spoken with it.
    pub http2: Http2,
    /// How it is, for all workers.
    pub standing: Arc<OutlierState>,
    /// Its part of what the group has to do, beside those of the others; above zero.
    pub weight: u32,
    /// When it is left alone.
    pub ejection: OutlierEjection,
    /// It gets no new requests of this group, whatever its standing.
    pub drained: bool,
}

struct Unused {
    connection: OriginConnection,
    since: u64,
    trust: ReuseDelay,
}

/// How soon an unused connection may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReuseDelay {
    /// At once.
    Now,
    /// Once a sweep has found it quiet. So it is after a response to HEAD: there are origins that send the
    /// body all the same, a moment later, and it would be read as the response to whatever is sent next.
    AfterSweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweeper {
    Asleep,
    Running,
}

/// A request that an origin has to do with, from when it waits for a place.
pub(crate) struct OriginLoad {
    origin: Rc<OriginPool>,
    sent: Cell<SentIn>,
}

impl OriginLoad {
    /// One more for `origin`. Of [`SentIn::Trying`] there is one: it ends with this.
    pub(crate) fn new(origin: Rc<OriginPool>, sent: SentIn) -> Self {
        origin.standing.add();
        Self { origin, sent: Cell::new(sent) }
    }

    fn end_trying(&self) {
        if self.sent.replace(SentIn::Up) == SentIn::Trying {
            self.origin.standing.end_trying();
        }
    }
}

impl Drop for OriginLoad {
    fn drop(&mut self) {
        self.end_trying();
        self.origin.standing.remove();
    }
}

/// The right to one exchange, and to one open connection for it.
pub(crate) struct Permit {
    load: OriginLoad,
    events: Cell<EventStream>,
    /// Where a client says how long it takes.
    _upload: Option<UploadPermit>,
}

/// Whether an exchange has become a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventStream {
    No,
    /// Its place is one of those for such streams, and none that others wait for.
    Own,
    /// Those are taken: its place is that of a page, until one needs it.
    Beyond,
}

/// The right to a request of which some is to come yet.
struct UploadPermit(Rc<OriginPool>);

impl Drop for UploadPermit {
    fn drop(&mut self) {
        self.0.uploads.give_back();
    }
}

/// How many of so many places are kept for requests that are here as a whole: however many clients send nothing, who only asks has one.
fn whole(places: usize) -> usize {
    (places / 8).max(1).min(places)
}

impl Drop for Permit {
    fn drop(&mut self) {
        match self.events.get() {
            EventStream::Own => self.load.origin.events.set(self.load.origin.events.get() - 1),
            EventStream::No | EventStream::Beyond => self.load.origin.places.give_back(),
        }
    }
}

/// A place for one request.
pub struct ReservedPermit {
    pub(crate) place: Permit,
    /// For the wait and the connect, where it came to that.
    pub(crate) deadline: Cell<Option<Instant>>,
    pub(crate) wait: PermitWait,
    /// The way through the group, where it was one.
    pub(crate) turn: Option<GroupAttempt>,
}

impl ReservedPermit {
    /// Whether it had to be waited for.
    #[must_use]
    pub fn wait(&self) -> PermitWait {
        self.wait
    }

    /// [`OriginPool::send`] by this place; where that gets no connection, by one with another origin of the group.
    ///
    /// # Errors
    /// As there.
    pub async fn send(self, request: OutgoingRequest) -> Result<Rc<Exchange>, OriginError> {
        let ReservedPermit { mut place, deadline, mut turn, .. } = self;
        let needs = request.needs();
        let way = match place.connect(needs, &deadline).await {
            Ok(way) => way,
            Err(error) => {
                place.origin().tell(&error);
                let Some(rest) = turn.take().filter(|it| it.may_go_on(&error)) else { return Err(error) };
                place.origin().counters.origin_retries_elsewhere.add(1);
                drop(place);
                let again = rest.again(needs).await?;
                (place, turn) = (again.0, Some(again.1));
                again.2
            }
        };
        let origin = place.origin().clone();
        origin.begin(place, way, request, &deadline, turn).await.inspect_err(|it| origin.tell(it))
    }
}

impl OriginPool {
    /// An origin without connections yet.
    #[must_use]
    pub fn new(address: OriginAddress, limits: OriginLimits, counters: Arc<Counters>) -> Rc<Self> {
        let membership = Membership {
            name: address.to_string(),
            tls: None,
            http2: Http2::Never,
            standing: Arc::default(),
            weight: 1,
            ejection: OutlierEjection::OFF,
            drained: false,
        };
        Self::in_group(address, limits, counters, membership)
    }

    /// The same, for a group.
    #[must_use]
    pub fn in_group(
        address: OriginAddress,
        limits: OriginLimits,
        counters: Arc<Counters>,
        membership: Membership,
    ) -> Rc<Self> {
        let Membership { name, tls, http2, standing, weight, ejection, drained } = membership;
        Rc::new(Self {
            dialer: Dialer::new(address.clone()),
            name,
            tls,
            http2,
            sessions: Sessions::default(),
            address,
            standing,
            weight: weight.max(1),
            ejection,
            drained,
            places: WaitQueue::new(limits.connections, limits.queue, QueueOrder::NewestFirst),
            uploads: WaitQueue::new(
                limits.connections - whole(limits.connections),
                limits.queue,
                QueueOrder::InOrder,
            ),
            resters: StalledExchanges::default(),
            events: Cell::new(0),
            limits,
            counters,
            spares: Spares::default(),
            scratch: RefCell::default(),
            idle: RefCell::default(),
            sweep: Cell::new(0),
            sweeper: Cell::new(Sweeper::Asleep),
            surplus_until: Cell::new(None),
            head_surplus_until: Cell::new(None),
            told: OnceCell::new(),
            changed: OnceCell::new(),
            measures: OnceCell::new(),
        })
    }

    /// Has `told` called from now on for each exchange that failed, whatever is made of it; later calls change nothing.
    pub fn on_failure(&self, told: FailureReport) {
        let _ = self.told.set(told);
    }

    /// Has `changed` called from now on when a request of this worker has it left alone, or used again; later calls change nothing.
    pub fn on_change(&self, changed: StateReport) {
        let _ = self.changed.set(changed);
    }

    /// Counts into `measures` from now on; later calls change nothing.
    pub fn measure(&self, measures: Measures) {
        let _ = self.measures.set(measures);
    }

    pub(crate) fn tell(&self, error: &OriginError) {
        if let Some(it) = self.measures.get() {
            it.origin.counters.failures.add(1);
        }
        if let Some(told) = self.told.get() {
            told(error);
        }
    }

    /// What it is called: its address as it is spelt.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is, for all workers.
    #[must_use]
    pub fn standing(&self) -> &Arc<OutlierState> {
        &self.standing
    }

    pub(crate) fn admission(&self, now: Monotonic) -> OriginAdmission {
        if self.drained { OriginAdmission::Drained } else { self.standing.admission(now) }
    }

    fn became(&self, change: Option<OriginChange>) {
        let Some(change) = change else { return };
        match change {
            OriginChange::Ejected(_) => self.counters.origin_ejections.add(1),
            OriginChange::Back => self.counters.origin_readmissions.add(1),
        }
        if let Some(changed) = self.changed.get() {
            changed(change);
        }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &OriginAddress {
        &self.address
    }

    /// Opens or reuses a connection and writes the head. A reused connection that turns out dead is replaced
    /// (for requests that may be repeated, see [`Exchange::head`]). Runs inside a `LocalSet`.
    ///
    /// # Errors
    /// [`OriginError::Busy`], [`OriginError::Connect`], [`OriginError::ConnectTimeout`], or
    /// [`OriginError::Timeout`] where the origin does not take the head.
    pub async fn send(self: &Rc<Self>, request: OutgoingRequest) -> Result<Rc<Exchange>, OriginError> {
        self.reserve().await?.send(request).await
    }

    /// Waits for a place among `Limits::connections`: for those who want to look again before they ask.
    ///
    /// # Errors
    /// [`OriginError::Busy`].
    pub async fn reserve(self: &Rc<Self>) -> Result<ReservedPermit, OriginError> {
        let load = OriginLoad::new(self.clone(), SentIn::Up);
        let (place, deadline, wait) = self.reserve_by(load, Paced::ByOrigin).await?;
        Ok(ReservedPermit { place, deadline, wait, turn: None })
    }

    pub(crate) async fn reserve_by(
        &self,
        load: OriginLoad,
        paced: Paced,
    ) -> Result<(Permit, Cell<Option<Instant>>, PermitWait), OriginError> {
        let deadline = Cell::new(None); // the clock is read if it comes to that
        let upload = match paced {
            Paced::ByOrigin => None,
            Paced::ByClient => {
                self.stand(&self.uploads, &deadline).await?;
                Some(UploadPermit(load.origin.clone()))
            }
        };
        let wait = self.stand(&self.places, &deadline).await?;
        Ok((Permit { load, events: Cell::new(EventStream::No), _upload: upload }, deadline, wait))
    }

    /// Stands in one of the lines.
    async fn stand(
        &self,
        line: &WaitQueue,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<PermitWait, OriginError> {
        let taking = line.take(|| self.wait_until(deadline));
        let taken = if line.free() > 0 { taking.await } else { self.pressing(pin!(taking)).await };
        taken.ok_or_else(|| self.is_busy()).inspect_err(|it| self.tell(it))
    }

    /// Until when a request waits for a place: unless that is said, it has one time for the wait and the connect.
    fn wait_until(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        match self.limits.queue_wait {
            Some(time) => after(now(), time),
            None => self.connect_by(deadline),
        }
    }

    fn is_busy(&self) -> OriginError {
        self.counters.origin_busy.add(1);
        OriginError::Busy
    }

    async fn begin(
        &self,
        place: Permit,
        way: Channel,
        request: OutgoingRequest,
        deadline: &Cell<Option<Instant>>,
        turn: Option<GroupAttempt>,
    ) -> Result<Rc<Exchange>, OriginError> {
        self.count_request();
        // What was waited for until here is not the origin's doing.
        let asked = request.asked.filter(|_| deadline.get().is_none());
        let exchange = Exchange::new(place, way, request, asked, turn);
        exchange.begin().await?;
        Ok(exchange)
    }

    /// A request is about to be sent.
    pub(crate) fn count_request(&self) {
        self.counters.origin_requests.add(1);
        if let Some(it) = self.measures.get() {
            it.route.counters.origin_requests.add(1);
            it.origin.counters.requests.add(1);
        }
    }

    pub(crate) fn connect_by(&self, deadline: &Cell<Option<Instant>>) -> Instant {
        let at = deadline.get().unwrap_or_else(|| after(now(), self.limits.connect));
        deadline.set(Some(at));
        at
    }

    /// The last used of the unused connections that is still good.
    pub(crate) fn reuse(&self) -> Option<OriginConnection> {
        let mut idle = self.idle.borrow_mut();
        let sweep = self.sweep.get();
        let may_be_used = |it: &Unused| it.trust == ReuseDelay::Now || it.since < sweep;
        while let Some(at) = idle.iter().rposition(may_be_used) {
            if self.sends_surplus(ReuseDelay::Now) {
                idle.clear();
            } else if let Some(unused) =
                idle.remove(at).and_then(|mut it| self.is_quiet(&mut it).then_some(it))
            {
                self.counters.origin_reuses.add(1);
                return Some(unused.connection);
            }
        }
        // Those that may not be used yet make room for the one that will be opened.
        let in_use = self.limits.connections.max(1).saturating_sub(self.places.free());
        if in_use + idle.len() > self.limits.connections.max(1) {
            idle.pop_front();
        }
        None
    }

    /// Whether connections to this origin are used more than once at all.
    pub(crate) fn persistence(&self) -> Persistence {
        if self.limits.idle.is_zero() || self.limits.idle_connections == 0 {
            Persistence::Close
        } else {
            Persistence::Keep
        }
    }

    /// Takes a connection back whose exchange ended well.
    pub(crate) fn keep(self: &Rc<Self>, mut connection: OriginConnection, trust: ReuseDelay) {
        if self.persistence() == Persistence::Close || self.sends_surplus(trust) {
            return;
        }
        connection.rest(&self.spares);
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.limits.idle_connections {
            idle.pop_front();
        }
        idle.push_back(Unused { connection, since: self.sweep.get(), trust });
        if self.sweeper.replace(Sweeper::Running) == Sweeper::Asleep {
            tokio::task::spawn_local(sweep(Rc::downgrade(self), self.sweep_period()));
        }
    }

    fn sweep_period(&self) -> Duration {
        (self.limits.idle / SWEEPS).clamp(FASTEST_SWEEP, SLOWEST_SWEEP)
    }

    /// Closes what is spoiled or would be too old by the next sweep.
    fn sweep_once(&self) {
        self.sweep.set(self.sweep.get() + 1);
        let now = self.sweep.get();
        let oldest = match descriptors::are_scarce() {
            true => 1, // What was not used since the last sweep is needed elsewhere.
            false => (self.limits.idle.as_nanos() / self.sweep_period().as_nanos().max(1)).saturating_sub(1),
        };
        let is_young = |it: &Unused| u128::from(now - it.since) <= oldest;
        self.idle.borrow_mut().retain_mut(|it| is_young(it) && self.is_quiet(it));
    }

    fn is_quiet(&self, unused: &mut Unused) -> bool {
        let seen = unused.connection.look();
        if seen == IdleState::Spoiled {
            self.note_surplus(unused.trust);
        }
        seen == IdleState::Quiet
    }

    /// Bytes came that belong to no request (RFC 9112 section 9.2). Such bytes can arrive at any time, also right after
    /// the next request was sent, and would be read as its response: for a while no connection to this origin is used twice.
    /// Where it was the body of a response to HEAD, none after HEAD: a client that asks so of an origin which sends it
    /// would else make everybody's requests slower, for as long as it likes.
    pub(crate) fn note_surplus(&self, trust: ReuseDelay) {
        self.suspicion(trust).set(Some(now() + WARY));
        self.counters.origin_surplus.add(1);
    }

    fn suspicion(&self, trust: ReuseDelay) -> &Cell<Option<Instant>> {
        match trust {
            ReuseDelay::Now => &self.surplus_until,
            ReuseDelay::AfterSweep => &self.head_surplus_until,
        }
    }

    fn sends_surplus(&self, trust: ReuseDelay) -> bool {
        let is_on = |it: &Cell<Option<Instant>>| it.get().is_some_and(|it| now() < it);
        is_on(&self.surplus_until) || is_on(self.suspicion(trust))
    }

    /// How many unused connections there are.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.idle.borrow().len()
    }
}

/// Sweeps until a sweep finds nothing to do: an origin without connections costs no timer.
async fn sweep(origin: Weak<OriginPool>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(origin) = origin.upgrade() else {
            return;
        };
        if origin.idle.borrow().is_empty() {
            origin.sweeper.set(Sweeper::Asleep);
            return;
        }
        origin.sweep_once();
    }
}

impl Permit {
    /// A stream of events has begun, which may go on for ever: what others wait for is given back. Of such streams there are as many
    /// as there are places; what is beyond has been done, and goes on for as long as nobody waits.
    pub(crate) fn begins_events(&self) {
        let origin = &self.load.origin;
        if origin.events.get() >= origin.limits.connections {
            return self.events.set(EventStream::Beyond);
        }
        origin.events.set(origin.events.get() + 1);
        self.events.set(EventStream::Own);
        origin.places.give_back();
    }

    /// Whether others may wait for it, while it is somebody's who rests so.
    pub(crate) fn is_waited_for(&self, whose: StallCause) -> bool {
        match self.events.get() {
            EventStream::No => whose != StallCause::Listens,
            EventStream::Own => false,
            EventStream::Beyond => true,
        }
    }

    /// The origin it belongs to.
    pub(crate) fn origin(&self) -> &Rc<OriginPool> {
        &self.load.origin
    }

    /// A connection for it, or a stream of one.
    pub(crate) async fn connect(
        &self,
        needs: ChannelNeeds,
        deadline: &Cell<Option<Instant>>,
    ) -> Result<Channel, OriginError> {
        self.origin().way(needs, deadline).await.inspect_err(|it| self.failed(it))
    }

    /// The origin answered.
    pub(crate) fn answered(&self) {
        let OriginLoad { origin, sent } = &self.load;
        origin.became(origin.standing.answered(sent.get(), clock::monotonic()));
        self.load.end_trying();
    }

    /// It did not. What a request may provoke by itself, an answer that is no HTTP, is nobody's reason to leave it alone.
    pub(crate) fn failed(&self, error: &OriginError) {
        let counts = match error {
            OriginError::Connect(_) | OriginError::ConnectTimeout | OriginError::Tls(_) => true,
            OriginError::Disconnected | OriginError::Timeout | OriginError::Status(_) => true,
            OriginError::NoDescriptor
            | OriginError::Busy
            | OriginError::Ejected
            | OriginError::Drained
            | OriginError::Refused
            | OriginError::NotHttp2
            | OriginError::Unsayable
            | OriginError::BadHead(_)
            | OriginError::BadBody
            | OriginError::InterimFlood => false,
        };
        if counts {
            let OriginLoad { origin, sent } = &self.load;
            origin.became(origin.standing.failed(sent.get(), &origin.ejection, clock::monotonic()));
            self.load.end_trying();
        }
    }
}
