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
const NO_REUSE_AFTER_SURPLUS: Duration = Duration::from_secs(60);
/// The number of sweeps over unused connections within `Limits::idle`.
const SWEEPS: u32 = 8;
/// The longest interval between two sweeps: connections that the origin closed free their descriptors.
const SLOWEST_SWEEP: Duration = Duration::from_secs(1);
/// The shortest interval between two sweeps.
const FASTEST_SWEEP: Duration = Duration::from_millis(10);

struct Unused {
    connection: Box<OriginConnection>,
    since: u64,
    reuse_delay: ReuseDelay,
    _slot: Option<IdleSlot>,
}

/// The slot of an unused connection to an application among those of all workers.
struct IdleSlot(Arc<OutlierState>);

impl IdleSlot {
    /// A slot, if fewer than `most` are taken.
    fn take(state: &Arc<OutlierState>, most: usize) -> Option<Self> {
        let one_more = |it: usize| (it < most).then_some(it + 1);
        state.idle_connections.fetch_update(Relaxed, Relaxed, one_more).ok().map(|_| Self(state.clone()))
    }
}

impl Drop for IdleSlot {
    fn drop(&mut self) {
        self.0.idle_connections.fetch_sub(1, Relaxed);
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
    pub(crate) fn reuse(&self, client: Option<ConnectionEnds>) -> Option<Box<OriginConnection>> {
        let mut idle = self.idle.list.borrow_mut();
        let sweep = self.idle.sweep.get();
        let may_be_used = |it: &Unused| {
            it.connection.client.as_deref() == client.as_ref()
                && (it.reuse_delay == ReuseDelay::Now || it.since < sweep)
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
        let in_use = self.limits.connections.max(1).saturating_sub(self.permits.free());
        if in_use + idle.len() > self.limits.connections.max(1) {
            idle.pop_front();
        }
        None
    }

    /// Takes back a connection whose exchange ended well.
    pub(crate) fn return_idle(
        self: &Rc<Self>,
        mut connection: Box<OriginConnection>,
        reuse_delay: ReuseDelay,
    ) {
        if self.persistence() == Persistence::Close || self.sends_surplus(reuse_delay) {
            return;
        }
        connection.make_idle();
        let mut idle = self.idle.list.borrow_mut();
        if idle.len() >= self.limits.idle_connections {
            idle.pop_front();
        }
        // Each occupies a process of the application, whichever worker keeps it.
        let slot = match self.occupies_process() {
            true => match IdleSlot::take(&self.outlier_state, self.limits.idle_connections) {
                Some(slot) => Some(slot),
                None => return,
            },
            false => None,
        };
        idle.push_back(Unused { connection, since: self.idle.sweep.get(), reuse_delay, _slot: slot });
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
            true => 1, // A connection that was not used since the last sweep is needed elsewhere.
            false => (self.limits.idle.as_nanos() / self.sweep_period().as_nanos().max(1)).saturating_sub(1),
        };
        let is_young = |it: &Unused| u128::from(now - it.since) <= oldest;
        self.idle.list.borrow_mut().retain_mut(|it| is_young(it) && self.is_quiet(it));
    }

    fn is_quiet(&self, unused: &mut Unused) -> bool {
        let seen = unused.connection.check_idle();
        if seen == IdleState::UnexpectedBytes {
            self.note_surplus(unused.reuse_delay);
        }
        seen == IdleState::Open
    }

    /// Bytes arrived that belong to no request (RFC 9112 section 9.2). Such bytes can arrive at any time, also right
    /// after the next request was sent, and would be read as its response. For a while no connection to this origin is
    /// reused. For the body of a response to HEAD, that holds only after HEAD: otherwise a client could slow down all
    /// requests by asking so.
    pub(crate) fn note_surplus(&self, reuse_delay: ReuseDelay) {
        self.surplus_deadline(reuse_delay).set(Some(now() + NO_REUSE_AFTER_SURPLUS));
        self.counters.origin_surplus.add(1);
    }

    fn surplus_deadline(&self, reuse_delay: ReuseDelay) -> &Cell<Option<Instant>> {
        match reuse_delay {
            ReuseDelay::Now => &self.idle.surplus_until,
            ReuseDelay::AfterSweep => &self.idle.head_surplus_until,
        }
    }

    fn sends_surplus(&self, reuse_delay: ReuseDelay) -> bool {
        let is_on = |it: &Cell<Option<Instant>>| it.get().is_some_and(|it| now() < it);
        is_on(&self.idle.surplus_until) || is_on(self.surplus_deadline(reuse_delay))
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
