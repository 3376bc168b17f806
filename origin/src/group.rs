//! One worker's view of a route's origins: which is asked first, which next after a failure, and when to stop. `balance`
//! has the rules of the choice, `outlier_state` the ejections; `exchange` decides which requests may be repeated.

use crate::address::OriginAddress;
use crate::balance::{Balance, BalanceMember, Chooser, MOST_ORIGINS, OriginSet, each, hash};
use crate::codec::Codec;
use crate::error::OriginError;
use crate::outlier_state::OriginAdmission;
use crate::pool::{OriginLoad, OriginPool, Permit, RequestBuffering, Reservation};
use crate::protocol::{ChannelRequest, Protocol};
use crate::wait_queue::PermitWait;
use larder_stdx::circuit_breaker::BegunIn;
use larder_stdx::clock;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// The rules for using a route's origins.
#[derive(Clone, Debug)]
pub struct GroupRules {
    /// The rule of the choice.
    pub balance: Balance,
    /// For how long a readmitted origin gets less than its share.
    pub slow_start: Duration,
    /// The treatment of requests when every origin is ejected.
    pub all_ejected: AllEjected,
    /// The most origins to which one request is sent; above zero.
    pub tries: u32,
    /// Percentage of requests that may be repeated although an origin may have seen them; see [`Group`].
    pub budget: u32,
    /// Statuses that count as failures of an origin.
    pub failure_statuses: Vec<u16>,
    /// How many of the last origins are backups: they are asked while no other may be.
    pub backups: usize,
}

impl GroupRules {
    /// The rules for a single origin.
    #[must_use]
    pub fn single_origin() -> Self {
        Self {
            balance: Balance::default(),
            slow_start: Duration::ZERO,
            all_ejected: AllEjected::Try,
            tries: 1,
            budget: 0,
            failure_statuses: Vec::new(),
            backups: 0,
        }
    }
}

/// The treatment of requests when every origin is ejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllEjected {
    /// The origins are asked nevertheless: sparing them would help none.
    #[default]
    Try,
    /// Requests are refused at once, apart from an occasional probe.
    Refuse,
}

/// The facts about a request for choosing an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceKey {
    /// The [`hash`](crate::hash) of the part of the request by which the route is balanced, if any.
    pub key: Option<u64>,
    /// The [`hash`](crate::hash) of the name of the origin that the client is bound to, if any: it is asked before all others,
    /// also while it is drained.
    pub bound: Option<u64>,
    /// Whether it may fail without harm: idempotent, and without a body.
    pub repeatable: bool,
    /// The side that determines how long it takes.
    pub buffering: RequestBuffering,
}

/// The origins of a route.
///
/// Retries have a budget, so that overloaded, slow origins do not get their work twice. Each request pays a share of a
/// retry in. At most as many are saved as one origin can have in progress, since all of those fail at once when it ends.
/// A retry without a connection costs nothing: no origin has worked.
pub struct Group {
    members: Vec<Rc<OriginPool>>,
    names: Box<[u64]>,
    rules: GroupRules,
    chooser: Chooser,
    /// Hundredths of retries.
    budget: Cell<u64>,
}

/// The attempts of one request in a group.
pub(crate) struct GroupAttempt {
    group: Rc<Group>,
    asked: BalanceKey,
    tried: OriginSet,
    tries: u32,
}

/// A permit for one request.
pub struct ReservedPermit {
    pub(crate) permit: Permit,
    /// For the wait and the connect, where they happened.
    pub(crate) deadline: Cell<Option<Instant>>,
    wait: PermitWait,
    /// The attempts in the group, where there is one.
    pub(crate) attempt: Option<GroupAttempt>,
}

impl ReservedPermit {
    /// Waits for a permit of an origin without a group.
    pub(crate) async fn of(origin: &Rc<OriginPool>) -> Result<Self, OriginError> {
        let load = OriginLoad::new(origin.clone(), BegunIn::Closed);
        let (permit, deadline, wait) = origin.reserve_permits(load, RequestBuffering::Complete).await?;
        Ok(Self { permit, deadline, wait, attempt: None })
    }

    /// Whether it had to be waited for.
    #[must_use]
    pub fn wait(&self) -> PermitWait {
        self.wait
    }
}

impl Group {
    /// A group of one or more origins, 64 at most.
    ///
    /// # Panics
    /// With none, or more: the configuration has checked that.
    #[must_use]
    pub fn new(members: Vec<Rc<OriginPool>>, rules: GroupRules) -> Rc<Self> {
        assert!((1..=MOST_ORIGINS).contains(&members.len()), "a group has from 1 to 64 origins");
        let names = members.iter().map(|it| hash(it.name().as_bytes())).collect();
        let chooser = Chooser::new(rules.balance, members.len());
        let group = Self { names, chooser, budget: Cell::new(0), members, rules };
        group.budget.set(group.budget_limit());
        Rc::new(group)
    }

    /// A group without origins, of routes whose responses are made here. It is never asked.
    #[must_use]
    pub fn empty() -> Rc<Self> {
        let rules = GroupRules::single_origin();
        let (names, members) = (Box::default(), Vec::new());
        Rc::new(Self { names, chooser: Chooser::new(rules.balance, 0), budget: Cell::new(0), members, rules })
    }

    /// A group of this origin only.
    #[must_use]
    pub fn of_one(origin: Rc<OriginPool>) -> Rc<Self> {
        let rules = GroupRules::single_origin();
        Self::new(vec![origin], rules)
    }

    /// Its origins.
    #[must_use]
    pub fn members(&self) -> &[Rc<OriginPool>] {
        &self.members
    }

    /// Whether the choice uses a request's key.
    #[must_use]
    pub fn needs_key(&self) -> bool {
        self.members.len() > 1 && matches!(self.rules.balance, Balance::Hash | Balance::ConsistentHash)
    }

    /// Whether the origins get the address of the client in a PROXY header.
    #[must_use]
    pub fn sends_proxy_header(&self) -> bool {
        self.members.first().is_some_and(|it| it.preamble.is_some())
    }

    /// Whether the origins are CGI programs, or applications behind FastCGI, SCGI or uWSGI: all of a group are, or none.
    #[must_use]
    pub fn is_application(&self) -> bool {
        let speaks = |it: &OriginPool| matches!(it.protocol, Protocol::Application(_));
        self.members.first().is_some_and(|it| speaks(it)) || self.runs_programs()
    }

    /// Whether the origins are CGI programs; a route to a database has no origins.
    #[must_use]
    pub fn runs_programs(&self) -> bool {
        self.members.first().is_some_and(|it| matches!(it.address(), OriginAddress::Programs(_)))
    }

    /// Waits for a permit of one of the origins: for callers that check again before they ask.
    ///
    /// # Errors
    /// [`OriginError::Busy`], or where none may be asked [`OriginError::Ejected`] or [`OriginError::Drained`].
    pub async fn reserve(self: &Rc<Self>, asked: BalanceKey) -> Result<ReservedPermit, OriginError> {
        let mut attempt = self.start_attempt(asked);
        let (permit, deadline, wait) = attempt.reserve().await?;
        Ok(ReservedPermit { permit, deadline, wait, attempt: Some(attempt) })
    }

    /// The number of requests that wait for a permit.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.members.iter().map(|it| it.permits.waiting()).sum()
    }

    /// Whether none is asked because every origin is drained.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let now = clock::monotonic();
        self.members.iter().all(|it| it.admission(now) == OriginAdmission::Drained)
    }

    /// Whether none may be asked at the moment, and why.
    #[must_use]
    pub fn unavailable(&self) -> Option<OriginError> {
        let now = clock::monotonic();
        let refuses = self.rules.all_ejected == AllEjected::Refuse;
        let is_out = |it: &Rc<OriginPool>| match it.admission(now) {
            OriginAdmission::Available | OriginAdmission::ProbeDue => false,
            OriginAdmission::Ejected => refuses,
            OriginAdmission::Drained => true,
        };
        self.members.iter().all(is_out).then(|| self.refusal())
    }

    /// Why none may be asked.
    fn refusal(&self) -> OriginError {
        if self.is_drained() { OriginError::Drained } else { OriginError::Ejected }
    }

    fn start_attempt(self: &Rc<Self>, asked: BalanceKey) -> GroupAttempt {
        let paid = self.budget.get() + u64::from(self.rules.budget);
        self.budget.set(paid.min(self.budget_limit()));
        GroupAttempt { group: self.clone(), asked, tried: 0, tries: self.rules.tries.max(1) }
    }

    fn budget_limit(&self) -> u64 {
        if self.rules.budget == 0 { 0 } else { 100 * self.members[0].limits.connections.max(1) as u64 }
    }

    /// Takes a retry from the budget.
    fn withdraw_retry(&self) -> bool {
        let left = self.budget.get().checked_sub(100);
        if left.is_none() {
            self.members[0].counters.origin_retry_budget.add(1);
        }
        left.is_some_and(|it| {
            self.budget.set(it);
            true
        })
    }

    /// The origin to ask, of those not in `tried`, and its state; `None` where none may be asked.
    fn choose(&self, tried: OriginSet, asked: BalanceKey) -> Option<(usize, BegunIn)> {
        let now = clock::monotonic();
        if let Some(bound) = asked.bound.and_then(|it| self.choose_bound(it, tried, asked, now)) {
            return Some(bound);
        }
        if let [one] = &self.members[..] {
            return self.choose_only(one, tried, now);
        }
        let (mut up, mut due, mut ejected): (OriginSet, OriginSet, OriginSet) = (0, 0, 0);
        for (at, it) in self.members.iter().enumerate().filter(|it| tried & (1 << it.0) == 0) {
            match it.admission(now) {
                OriginAdmission::Available => up |= 1 << at,
                OriginAdmission::ProbeDue => due |= 1 << at,
                OriginAdmission::Ejected => ejected |= 1 << at,
                OriginAdmission::Drained => {}
            }
        }
        let first_backup = self.members.len().saturating_sub(self.rules.backups);
        let primary = OriginSet::MAX.checked_shr(64 - u32::try_from(first_backup).unwrap_or(64)).unwrap_or(0);
        if up & primary != 0 {
            (up, due) = (up & primary, due & primary);
        }
        // An origin whose ejection is over is probed by the first repeatable request, even if others could answer it.
        if asked.repeatable || up == 0 {
            let tries = |it: &usize| self.members[*it].outlier_state.begin_probe();
            if let Some(at) = each(due).find(tries) {
                return Some((at, BegunIn::HalfOpen));
            }
        }
        let (set, sent) = match up {
            0 if self.rules.all_ejected == AllEjected::Refuse => return None,
            0 => (due | ejected, BegunIn::Open),
            _ => (up, BegunIn::Closed),
        };
        // A hash means the same origin for all of this time: it has no slow start.
        let slow_start = if self.needs_key() { Duration::ZERO } else { self.rules.slow_start };
        let of = |at: usize| {
            let it = &self.members[at];
            let (share, load) =
                (it.outlier_state.share(it.weight, slow_start, now), it.outlier_state.in_flight());
            BalanceMember { share, load, name: self.names[at] }
        };
        (set != 0).then(|| (self.chooser.choose(set, asked.key, of), sent))
    }

    /// The origin with this number, as in a sticky cookie, and whether a client that is bound to it gets it now.
    #[must_use]
    pub fn bound(&self, name: u64) -> Option<(&str, bool)> {
        let at = self.names.iter().position(|it| *it == name)?;
        let admission = self.members[at].outlier_state.admission_if_drained(clock::monotonic());
        let is_asked = matches!(admission, OriginAdmission::Available | OriginAdmission::ProbeDue);
        Some((self.members[at].name(), is_asked))
    }

    /// The origin that the client is bound to, if it may be asked.
    fn choose_bound(
        &self,
        name: u64,
        tried: OriginSet,
        asked: BalanceKey,
        now: clock::Monotonic,
    ) -> Option<(usize, BegunIn)> {
        let at = self.names.iter().position(|it| *it == name).filter(|at| tried & (1 << at) == 0)?;
        let state = &self.members[at].outlier_state;
        match state.admission_if_drained(now) {
            OriginAdmission::Available => Some((at, BegunIn::Closed)),
            OriginAdmission::ProbeDue if asked.repeatable && state.begin_probe() => {
                Some((at, BegunIn::HalfOpen))
            }
            OriginAdmission::ProbeDue | OriginAdmission::Ejected | OriginAdmission::Drained => None,
        }
    }

    fn choose_only(
        &self,
        one: &OriginPool,
        tried: OriginSet,
        now: clock::Monotonic,
    ) -> Option<(usize, BegunIn)> {
        let refuses = self.rules.all_ejected == AllEjected::Refuse;
        match one.admission(now) {
            _ if tried != 0 => None,
            OriginAdmission::Drained => None,
            OriginAdmission::Available => Some((0, BegunIn::Closed)),
            OriginAdmission::ProbeDue if one.outlier_state.begin_probe() => Some((0, BegunIn::HalfOpen)),
            OriginAdmission::ProbeDue | OriginAdmission::Ejected => (!refuses).then_some((0, BegunIn::Open)),
        }
    }
}

impl GroupAttempt {
    /// A permit of the next origin that has one.
    pub(crate) async fn reserve(&mut self) -> Result<Reservation, OriginError> {
        let mut waited = PermitWait::None;
        loop {
            let Some((at, sent)) = self.group.choose(self.tried, self.asked) else {
                let it = &self.group.members[0];
                let why = self.group.refusal();
                match why {
                    OriginError::Drained => it.counters.origin_refused_drained.add(1),
                    _ => it.counters.origin_refused_ejected.add(1),
                }
                it.report_failure(&why);
                return Err(why);
            };
            self.tried |= 1 << at;
            self.tries -= 1;
            let origin = self.group.members[at].clone();
            let load = OriginLoad::new(origin.clone(), sent);
            match origin.reserve_permits(load, self.asked.buffering).await {
                Ok((permit, deadline, wait)) => {
                    let wait = if waited == PermitWait::Some { waited } else { wait };
                    return Ok((permit, deadline, wait));
                }
                Err(error) if !self.may_retry(&error) => return Err(error),
                Err(_) => waited = PermitWait::Some,
            }
        }
    }

    /// Whether another origin is to be asked after this error of the last; pays for the retry if an origin may have seen
    /// the request.
    pub(crate) fn may_retry(&self, error: &OriginError) -> bool {
        let is_retried = match error {
            OriginError::Connect(_) | OriginError::ConnectTimeout | OriginError::Tls(_) => true,
            OriginError::Busy | OriginError::Refused | OriginError::NotHttp2 => true,
            OriginError::Disconnected
            | OriginError::BlockUnanswered(_)
            | OriginError::ApplicationFailed(_) => true,
            OriginError::Timeout(_) | OriginError::Status(_) => true,
            OriginError::NoDescriptor
            | OriginError::ProgramEnded(_)
            | OriginError::Ejected
            | OriginError::Drained
            | OriginError::Unrepresentable
            | OriginError::LocalFailure(..)
            | OriginError::VariablesTooLarge
            | OriginError::BadHead(_)
            | OriginError::BadBody
            | OriginError::BadRecord(_)
            | OriginError::InterimFlood => false,
        };
        is_retried
            && self.tries > 0
            && self.has_other()
            && (error.is_without_connection() || self.group.withdraw_retry())
    }

    /// Whether the budget has a retry.
    pub(crate) fn has_budget(&self) -> bool {
        self.group.budget.get() >= 100
    }

    /// Pays for a retry.
    pub(crate) fn withdraw_retry(&self) {
        self.group.withdraw_retry();
    }

    fn has_other(&self) -> bool {
        let now = clock::monotonic();
        let may = |it: &OriginPool| match it.admission(now) {
            OriginAdmission::Available | OriginAdmission::ProbeDue => true,
            OriginAdmission::Ejected => self.group.rules.all_ejected == AllEjected::Try,
            OriginAdmission::Drained => false,
        };
        self.group.members.iter().enumerate().any(|(at, it)| self.tried & (1 << at) == 0 && may(it))
    }

    /// Whether a response with this status is a failure.
    pub(crate) fn is_failure(&self, status: u16) -> bool {
        self.group.rules.failure_statuses.contains(&status)
    }

    /// A connection to another origin, after one has failed. Every failure is reported here.
    pub(crate) async fn connect_next(
        mut self,
        needs: ChannelRequest,
    ) -> Result<(Permit, GroupAttempt, Codec), OriginError> {
        loop {
            let (permit, deadline, _) = self.reserve().await?;
            match permit.connect(needs, &deadline).await {
                Ok(codec) => return Ok((permit, self, codec)),
                Err(error) => {
                    permit.origin().report_failure(&error);
                    if !self.may_retry(&error) {
                        return Err(error);
                    }
                }
            }
        }
    }
}
