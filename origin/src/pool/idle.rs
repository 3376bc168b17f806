//! The unused connections of a pool: which may be used next, and when one is closed.

use super::OriginPool;
use crate::connection::{IdleState, OriginConnection, Persistence};
use crate::deadline::now;
use crate::outlier_state::OutlierState;
use larder_stdx::descriptors;
use larder_wire::proxy::ConnectionEnds;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// For how long no connection is reused after an origin sent more than its responses.
const WARY: Duration = Duration::from_secs(60);
/// The number of sweeps over unused connections within `Limits::idle`...
const SWEEPS: u32 = 8;
/// ...but at least in this interval, so that connections closed by the origin free their descriptors,
const SLOWEST_SWEEP: Duration = Duration::from_secs(1);
/// and at most in this one.
const FASTEST_SWEEP: Duration = Duration::from_millis(10);

struct Unused {
    connection: OriginConnection,
    since: u64,
    trust: ReuseDelay,
    _place: Option<KeptPlace>,
}

/// The place of an unused connection to an application among those of all workers.
struct KeptPlace(Arc<OutlierState>);

impl KeptPlace {
    /// A place, if fewer than `most` are taken.
    fn take(standing: &Arc<OutlierState>, most: usize) -> Option<Self> {
        let one_more = |it: usize| (it < most).then_some(it + 1);
        standing.kept.fetch_update(Relaxed, Relaxed, one_more).ok().map(|_| Self(standing.clone()))
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.0.kept.fetch_sub(1, Relaxed);
    }
}

/// When an unused connection may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReuseDelay {
    /// At once.
    Now,
    /// After a sweep has found it quiet. So it is after a response to HEAD: some origins send the body nevertheless, a
    /// moment later, and it would be read as the response to the next request.
    AfterSweep,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sweeper {
    #[default]
    Asleep,
    Running,
}

/// The unused connections of one worker to one origin.
#[derive(Default)]
pub(super) struct IdleConnections {
    /// The last used at the back, where the next request takes it: those at the front grow old and are closed.
    list: RefCell<VecDeque<Unused>>,
    /// The number of sweeps: the clock of the unused connections.
    sweep: Cell<u64>,
    sweeper: Cell<Sweeper>,
    /// Until when the origin counts as one that sends more than its responses: see [`OriginPool::note_surplus`].
    surplus_until: Cell<Option<Instant>>,
    /// The same for its responses to HEAD only.
    head_surplus_until: Cell<Option<Instant>>,
}

impl OriginPool {
    /// The last used of the unused connections that is still usable, of those that carry requests of this client.
    pub(crate) fn reuse(&self, client: Option<ConnectionEnds>) -> Option<OriginConnection> {
        let mut idle = self.idle.list.borrow_mut();
        let sweep = self.idle.sweep.get();
        let may_be_used = |it: &Unused| {
            it.connection.client.as_deref() == client.as_ref()
                && (it.trust == ReuseDelay::Now || it.since < sweep)
        };
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

    /// Takes back a connection whose exchange ended well.
    pub(crate) fn keep(self: &Rc<Self>, mut connection: OriginConnection, trust: ReuseDelay) {
        if self.persistence() == Persistence::Close || self.sends_surplus(trust) {
            return;
        }
        connection.make_idle();
        let mut idle = self.idle.list.borrow_mut();
        if idle.len() >= self.limits.idle_connections {
            idle.pop_front();
        }
        // Each occupies a process of the application, whichever worker keeps it.
        let place = match self.occupies_process() {
            true => match KeptPlace::take(&self.standing, self.limits.idle_connections) {
                Some(place) => Some(place),
                None => return,
            },
            false => None,
        };
        idle.push_back(Unused { connection, since: self.idle.sweep.get(), trust, _place: place });
        if self.idle.sweeper.replace(Sweeper::Running) == Sweeper::Asleep {
            tokio::task::spawn_local(sweep(Rc::downgrade(self), self.sweep_period()));
        }
    }

    fn sweep_period(&self) -> Duration {
        (self.limits.idle / SWEEPS).clamp(FASTEST_SWEEP, SLOWEST_SWEEP)
    }

    /// Closes connections that are spoiled or would be too old by the next sweep.
    fn sweep_once(&self) {
        self.idle.sweep.set(self.idle.sweep.get() + 1);
        let now = self.idle.sweep.get();
        let oldest = match descriptors::are_scarce() {
            true => 1, // What was not used since the last sweep is needed elsewhere.
            false => (self.limits.idle.as_nanos() / self.sweep_period().as_nanos().max(1)).saturating_sub(1),
        };
        let is_young = |it: &Unused| u128::from(now - it.since) <= oldest;
        self.idle.list.borrow_mut().retain_mut(|it| is_young(it) && self.is_quiet(it));
    }

    fn is_quiet(&self, unused: &mut Unused) -> bool {
        let seen = unused.connection.look();
        if seen == IdleState::Spoiled {
            self.note_surplus(unused.trust);
        }
        seen == IdleState::Quiet
    }

    /// Bytes arrived that belong to no request (RFC 9112 section 9.2). Such bytes can arrive at any time, also right
    /// after the next request was sent, and would be read as its response. For a while no connection to this origin is
    /// reused. For the body of a response to HEAD, that holds only after HEAD: otherwise a client could slow down all
    /// requests by asking so.
    pub(crate) fn note_surplus(&self, trust: ReuseDelay) {
        self.suspicion(trust).set(Some(now() + WARY));
        self.counters.origin_surplus.add(1);
    }

    fn suspicion(&self, trust: ReuseDelay) -> &Cell<Option<Instant>> {
        match trust {
            ReuseDelay::Now => &self.idle.surplus_until,
            ReuseDelay::AfterSweep => &self.idle.head_surplus_until,
        }
    }

    fn sends_surplus(&self, trust: ReuseDelay) -> bool {
        let is_on = |it: &Cell<Option<Instant>>| it.get().is_some_and(|it| now() < it);
        is_on(&self.idle.surplus_until) || is_on(self.suspicion(trust))
    }

    /// The number of unused connections.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.idle.list.borrow().len()
    }
}

/// Sweeps until a sweep finds nothing to do: an origin without connections costs no timer.
async fn sweep(origin: Weak<OriginPool>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(origin) = origin.upgrade() else {
            return;
        };
        if origin.idle.list.borrow().is_empty() {
            origin.idle.sweeper.set(Sweeper::Asleep);
            return;
        }
        origin.sweep_once();
    }
}
