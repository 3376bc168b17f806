//! One origin as one worker knows it: its limits, its state, its connections, its permits, and to whom its failures are reported.

mod idle;
mod opening;
mod permit;
mod waiting;

pub(crate) use idle::ReuseDelay;
pub use permit::Paced;
pub(crate) use permit::{OriginLoad, Permit, Reservation};

use crate::address::OriginAddress;
use crate::connection::{ConnectionShare, Persistence};
use crate::dial::Dialer;
use crate::error::OriginError;
use crate::http2::Sessions;
use crate::limits::OriginLimits;
use crate::outlier_state::{OriginAdmission, OriginChange, OutlierEjection, OutlierState};
use crate::protocol::Protocol;
use crate::stalled_exchanges::StalledExchanges;
use crate::tls::OriginTls;
use crate::wait_queue::{QueueOrder, WaitQueue};
use idle::IdleConnections;
use larder_counters::{Counters, OriginScope, RouteScope};
use larder_stdx::clock::Monotonic;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// The connections of one worker to one origin.
pub struct OriginPool {
    address: OriginAddress,
    name: String,
    /// How it is known, where it speaks TLS.
    pub(crate) tls: Option<OriginSecurity>,
    pub(crate) protocol: Protocol,
    /// Shared by all workers.
    pub(crate) standing: Arc<OutlierState>,
    /// Its part of what a group has to do, beside those of the others.
    pub(crate) weight: u32,
    ejection: OutlierEjection,
    drained: bool,
    pub(crate) limits: OriginLimits,
    pub(crate) counters: Arc<Counters>,
    /// What its exclusive connections share.
    pub(crate) shared: Rc<ConnectionShare>,
    pub(crate) dialer: Dialer,
    /// Connections that several exchanges go over.
    pub(crate) sessions: Sessions,
    /// One place for each exchange under way. Since a connection is opened only by an exchange that found none
    /// unused, or none with room, this also bounds the open connections. Who is served first is said in `line`.
    pub(crate) places: WaitQueue,
    /// Those that are not kept for requests which are here as a whole: see [`whole`].
    pub(crate) uploads: WaitQueue,
    /// Its exchanges that wait for their client.
    pub(crate) stalled: StalledExchanges,
    idle: IdleConnections,
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
    /// What is spoken with it.
    pub protocol: Protocol,
    /// How it is, for all workers.
    pub standing: Arc<OutlierState>,
    /// Its part of what the group has to do, beside those of the others; above zero.
    pub weight: u32,
    /// When it is left alone.
    pub ejection: OutlierEjection,
    /// It gets no new requests of this group, whatever its standing.
    pub drained: bool,
}

impl OriginPool {
    /// An origin without connections yet.
    #[must_use]
    pub fn new(address: OriginAddress, limits: OriginLimits, counters: Arc<Counters>) -> Rc<Self> {
        let membership = Membership {
            name: address.to_string(),
            tls: None,
            protocol: Protocol::Http1,
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
        let Membership { name, tls, protocol, standing, weight, ejection, drained } = membership;
        Rc::new(Self {
            dialer: Dialer::new(address.clone()),
            name,
            tls,
            protocol,
            sessions: Sessions::default(),
            address,
            standing,
            weight: weight.max(1),
            ejection,
            drained,
            places: WaitQueue::new(limits.connections, limits.queue, QueueOrder::NewestFirst),
            uploads: WaitQueue::new(
                limits.connections - permit::whole(limits.connections),
                limits.queue,
                QueueOrder::InOrder,
            ),
            stalled: StalledExchanges::default(),
            shared: ConnectionShare::new(counters.clone(), persistence(&limits)),
            limits,
            counters,
            idle: IdleConnections::default(),
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

    /// A request is about to be sent.
    pub(crate) fn count_request(&self) {
        self.counters.origin_requests.add(1);
        if let Some(it) = self.measures.get() {
            it.route.counters.origin_requests.add(1);
            it.origin.counters.requests.add(1);
        }
    }

    /// Whether connections to this origin are used more than once at all.
    pub(crate) fn persistence(&self) -> Persistence {
        self.shared.persistence
    }
}

/// Whether connections with these limits are used more than once at all.
fn persistence(limits: &OriginLimits) -> Persistence {
    if limits.idle.is_zero() || limits.idle_connections == 0 { Persistence::Close } else { Persistence::Keep }
}
