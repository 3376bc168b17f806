//! One worker's view of an origin: limits, state, connections, permits, and the callbacks for its failures.

mod idle;
mod opening;
mod permit;
mod waiting;

pub(crate) use idle::ReuseDelay;
pub use permit::RequestBuffering;
pub(crate) use permit::{OriginLoad, Permit, Reservation};

use crate::address::OriginAddress;
pub use crate::connection::ErrorOutputReport;
use crate::connection::{ConnectionShare, Persistence};
use crate::dial::Dialer;
use crate::error::OriginError;
use crate::http2::Sessions;
use crate::limits::OriginLimits;
use crate::outlier_state::{OriginAdmission, OutlierState};
use crate::protocol::Protocol;
use crate::stalled_exchanges::StalledExchanges;
use crate::tls::OriginTls;
use crate::wait_queue::{QueueOrder, WaitQueue};
use idle::IdleConnections;
use larder_counters::{Counters, OriginScope, RouteScope};
use larder_semantics::miss_reason::MissReason;
use larder_stdx::circuit_breaker::{BreakerChange, BreakerSettings};
use larder_stdx::clock::Monotonic;
use larder_wire::proxy::PreambleVersion;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// The connections of one worker to one origin.
pub struct OriginPool {
    address: OriginAddress,
    name: Rc<str>,
    /// Its identity, where it speaks TLS.
    pub(crate) tls: Option<OriginSecurity>,
    pub(crate) protocol: Protocol,
    /// Shared by all workers.
    pub(crate) outlier_state: Arc<OutlierState>,
    /// Its share of a group's requests, relative to the others'.
    pub(crate) weight: u32,
    ejection: BreakerSettings,
    drained: bool,
    /// The version of the PROXY header that begins its connections, if any.
    pub(crate) preamble: Option<PreambleVersion>,
    pub(crate) limits: OriginLimits,
    pub(crate) counters: Arc<Counters>,
    /// State shared by its exclusive connections.
    pub(crate) shared: Rc<ConnectionShare>,
    pub(crate) dialer: Dialer,
    /// Connections shared by several exchanges.
    pub(crate) sessions: Sessions,
    /// One permit for each exchange in progress. Since a connection is opened only by an exchange without an unused one,
    /// or one with room, this also bounds the open connections. `wait_queue` orders the waiting requests.
    pub(crate) permits: WaitQueue,
    /// The permits that are not reserved for complete requests: see [`permit::reserved_for_complete`].
    pub(crate) upload_permits: WaitQueue,
    /// Its exchanges that wait for their client.
    pub(crate) stalled: StalledExchanges,
    idle: IdleConnections,
    /// The callback for failures.
    failure_report: OnceCell<FailureReport>,
    /// The callback for ejections and readmissions.
    state_report: OnceCell<StateReport>,
    /// Further statistics in addition to `counters`.
    pub(crate) measures: OnceCell<Measures>,
}

/// Statistics of each exchange, in addition to the worker's counters.
pub struct Measures {
    /// For the route whose origin this is.
    pub route: Arc<RouteScope>,
    /// For the origin, whichever route uses it.
    pub origin: Arc<OriginScope>,
}

/// The callback for each failed exchange, with its error.
pub type FailureReport = Box<dyn Fn(&OriginError)>;

/// The callback for the origin's ejections and readmissions.
pub type StateReport = Box<dyn Fn(BreakerChange)>;

/// TLS, and the identity of the origin.
#[derive(Clone, Debug)]
pub struct OriginSecurity {
    /// The trusted certificates.
    pub tls: OriginTls,
    /// The name that its certificate is for.
    pub name: String,
}

/// An origin's role in its group.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Its name in logs and statistics.
    pub name: String,
    /// TLS, if it uses that.
    pub tls: Option<OriginSecurity>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its state, for all workers.
    pub outlier_state: Arc<OutlierState>,
    /// Its share of the group's requests, relative to the others'; above zero.
    pub weight: u32,
    /// When it is ejected.
    pub ejection: BreakerSettings,
    /// It gets no new requests of this group, in any state.
    pub drained: bool,
    /// The version of the PROXY header that begins its connections, if any.
    pub preamble: Option<PreambleVersion>,
}

impl OriginPool {
    /// An origin without connections yet.
    #[must_use]
    pub fn new(address: OriginAddress, limits: OriginLimits, counters: Arc<Counters>) -> Rc<Self> {
        let membership = Membership {
            name: address.to_string(),
            tls: None,
            protocol: Protocol::Http1,
            outlier_state: Arc::default(),
            weight: 1,
            ejection: BreakerSettings::OFF,
            drained: false,
            preamble: None,
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
        let Membership { name, tls, protocol, outlier_state, weight, ejection, drained, preamble } =
            membership;
        Rc::new(Self {
            dialer: Dialer::new(address.clone()),
            name: name.into(),
            tls,
            protocol,
            sessions: Sessions::default(),
            address,
            outlier_state,
            weight: weight.max(1),
            ejection,
            drained,
            preamble,
            permits: WaitQueue::new(limits.connections, limits.queue, QueueOrder::NewestFirst),
            upload_permits: WaitQueue::new(
                limits.connections - permit::reserved_for_complete(limits.connections),
                limits.queue,
                QueueOrder::InOrder,
            ),
            stalled: StalledExchanges::default(),
            shared: ConnectionShare::new(counters.clone(), persistence(&limits)),
            limits,
            counters,
            idle: IdleConnections::default(),
            failure_report: OnceCell::new(),
            state_report: OnceCell::new(),
            measures: OnceCell::new(),
        })
    }

    /// Calls `report` from now on with what its application writes to the error output; later calls of this function have no effect.
    pub fn on_error_output(&self, report: ErrorOutputReport) {
        let _ = self.shared.error_output.set(report);
    }

    /// Calls `report` from now on for each exchange that failed; later calls of this function have no effect.
    pub fn on_failure(&self, report: FailureReport) {
        let _ = self.failure_report.set(report);
    }

    /// Calls `report` from now on when a request of this worker causes its ejection or readmission; later calls of this
    /// function have no effect.
    pub fn on_change(&self, report: StateReport) {
        let _ = self.state_report.set(report);
    }

    /// Counts into `measures` from now on; later calls have no effect.
    pub fn measure(&self, measures: Measures) {
        let _ = self.measures.set(measures);
    }

    pub(crate) fn report_failure(&self, error: &OriginError) {
        if matches!(error, OriginError::VariablesTooLarge) {
            return; // The client's: nothing was sent.
        }
        if let Some(it) = self.measures.get() {
            it.origin.counters.failures.add(1);
        }
        self.outlier_state().set_last_failure(error.sentence().into_owned());
        if let Some(report) = self.failure_report.get() {
            report(error);
        }
    }

    /// Its name: its address as written.
    #[must_use]
    pub fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// Its state, for all workers.
    #[must_use]
    pub fn outlier_state(&self) -> &Arc<OutlierState> {
        &self.outlier_state
    }

    pub(crate) fn admission(&self, now: Monotonic) -> OriginAdmission {
        if self.drained { OriginAdmission::Drained } else { self.outlier_state.admission(now) }
    }

    fn report_change(&self, change: Option<BreakerChange>) {
        let Some(change) = change else { return };
        match change {
            BreakerChange::Opened(_) => self.counters.origin_ejections.add(1),
            BreakerChange::Closed => self.counters.origin_readmissions.add(1),
        }
        if let Some(report) = self.state_report.get() {
            report(change);
        }
    }

    /// Its address.
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

    /// A request is about to be sent again, after another origin of the route failed.
    pub(crate) fn count_repetition(&self) {
        self.count_request();
        if let Some(it) = self.measures.get() {
            it.route.reasons.add(MissReason::Retry.index());
        }
    }

    /// Whether an exchange occupies a process that serves one request at a time: php-fpm, most servers of SCGI and uWSGI, a program.
    pub(crate) fn occupies_process(&self) -> bool {
        let is_program = matches!(self.address, OriginAddress::Programs(_));
        is_program || matches!(self.protocol, Protocol::Application(_))
    }

    /// Whether connections to this origin are reused at all.
    pub(crate) fn persistence(&self) -> Persistence {
        self.shared.persistence
    }
}

/// Whether connections with these limits are reused at all.
fn persistence(limits: &OriginLimits) -> Persistence {
    if limits.idle.is_zero() || limits.idle_connections == 0 { Persistence::Close } else { Persistence::Keep }
}
