//! The state of one origin, shared by all workers: its load, its circuit breaker (an open one is an ejection), its health
//! and whether it is drained. `balance` chooses, `group` asks. `now` is an argument.

use crate::process_slots::ProcessSlots;
use larder_semantics::secret;
use larder_stdx::circuit_breaker::{BegunIn, BreakerChange, BreakerSettings, BreakerState, CircuitBreaker};
use larder_stdx::clock::{self, Monotonic};
use larder_wire::message::Version;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The effect of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// None.
    Nothing,
    /// The origin is no longer used, or used again.
    Use,
}

/// One origin's state, shared by all workers and all routes that use it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OutlierState {
    /// Requests in progress, including those that wait for a connection.
    in_flight: AtomicU32,
    /// Open while the origin is ejected.
    breaker: CircuitBreaker,
    /// The time at which it was used again; zero if it always was.
    back_since: AtomicU64,
    /// It gets no new requests, by an operator's command.
    is_drained: AtomicBool,
    /// Its health check failed.
    is_unhealthy: AtomicBool,
    /// It has answered requests since then.
    answers_all_the_same: AtomicBool,
    /// The number of ejections.
    ejections: AtomicU64,
    /// The failures since its last answer.
    failed_in_row: AtomicU32,
    /// The reason of the last ejection, or of failures in a row.
    down_reason: Mutex<String>,
    /// The last failure of an exchange, and its time (milliseconds of the monotonic clock).
    last_failure: Mutex<Option<(u64, String)>>,
    /// The last line of the error output of its application that may be shown, and its time.
    last_output: Mutex<Option<(u64, String)>>,
    /// See [`OutlierState::protocol`]: zero is none yet, one HTTP/1.1, two HTTP/2.
    protocol: AtomicU8,
    /// Unused connections to an application, in all workers.
    pub(crate) idle_connections: AtomicUsize,
    /// Its running CGI programs.
    pub(crate) processes: Arc<ProcessSlots>,
}

/// Whether a request may go to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginAdmission {
    /// Yes.
    Available,
    /// Its ejection is over: one request may probe it.
    ProbeDue,
    /// It is ejected.
    Ejected,
    /// It is being drained.
    Drained,
}

/// The state of an origin for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginState {
    /// In use.
    Up,
    /// In use since it has no alternative, and its last requests have failed.
    Failing,
    /// In use, for less than its share after an ejection.
    Slow,
    /// It receives no requests for this time.
    Ejected(Duration),
    /// Its ejection is over: one request probes it.
    Probing,
    /// Its health check fails: it receives no requests until the check succeeds.
    Unhealthy,
    /// It gets no new requests.
    Drained,
}

impl OriginState {
    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OriginState::Up => "up",
            OriginState::Failing => "failing",
            OriginState::Slow => "slow_start",
            OriginState::Ejected(_) => "ejected",
            OriginState::Probing => "probing",
            OriginState::Unhealthy => "unhealthy",
            OriginState::Drained => "drained",
        }
    }
}

impl OutlierState {
    /// Its state; for `slow_start` a readmitted origin gets less than its share, growing from a tenth.
    #[must_use]
    pub fn state(&self, slow_start: Duration, now: Monotonic) -> OriginState {
        match self.admission(now) {
            OriginAdmission::Drained => OriginState::Drained,
            _ if self.is_unhealthy() => OriginState::Unhealthy,
            OriginAdmission::ProbeDue => OriginState::Probing,
            OriginAdmission::Ejected => match self.breaker.state(now) {
                BreakerState::Open(left) if !left.is_zero() => OriginState::Ejected(left),
                _ => OriginState::Probing,
            },
            OriginAdmission::Available if self.is_failing() => OriginState::Failing,
            OriginAdmission::Available if self.share(1, slow_start, now) < FULL => OriginState::Slow,
            OriginAdmission::Available => OriginState::Up,
        }
    }

    /// Requests in progress, of all workers.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// The number of ejections.
    #[must_use]
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Relaxed)
    }

    /// Whether all of its latest requests have failed: an origin without an alternative is not ejected.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failed_in_row.load(Relaxed) >= FAILING
    }

    /// The reason of its last ejection, or of failures in a row; empty before the first.
    #[must_use]
    pub fn down_reason(&self) -> String {
        self.down_reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the reason of an ejection, or of one that lasts.
    pub(crate) fn set_down_reason(&self, why: String) {
        *self.down_reason.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// The last failure of an exchange since `since` (milliseconds of the monotonic clock), whether it counts for an ejection or not.
    #[must_use]
    pub fn failure_since(&self, since: u64) -> Option<String> {
        let last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|it| it.0 >= since).map(|it| it.1.clone())
    }

    /// The last line of its application's error output since `since`, as [`Self::failure_since`].
    #[must_use]
    pub fn output_since(&self, since: u64) -> Option<String> {
        let last = self.last_output.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|it| it.0 >= since).map(|it| it.1.clone())
    }

    /// Keeps the last line of a part of the error output of its application, unless it may have a secret.
    pub fn note_error_output(&self, text: &str) {
        let line = secret::harmless_line(text).map(|it| (clock::monotonic().0, it.to_owned()));
        *self.last_output.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    /// Keeps the failure of an exchange.
    pub(crate) fn set_last_failure(&self, why: String) {
        let failure = Some((clock::monotonic().0, why));
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// The protocol of the connection that was opened last: HTTP/2, or HTTP/1.1; `None` before the first. Where both are
    /// offered this is the origin's choice (ALPN).
    #[must_use]
    pub fn protocol(&self) -> Option<Version> {
        match self.protocol.load(Relaxed) {
            1 => Some(Version::Http11),
            2 => Some(Version::Http2),
            _ => None,
        }
    }

    pub(crate) fn speaks(&self, version: Version) {
        self.protocol.store(if version == Version::Http2 { 2 } else { 1 }, Relaxed);
    }

    /// Lets requests in progress end, and stops new ones.
    pub fn drain(&self) {
        self.is_drained.store(true, Relaxed);
    }

    /// Ends draining: as after an ejection, it gets its share gradually.
    pub fn restore(&self, now: Monotonic) {
        if self.is_drained.swap(false, Relaxed) {
            self.back_since.store(now.0.max(1), Relaxed);
        }
    }

    /// Whether it is being drained.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Relaxed)
    }

    /// Whether it gets no requests because its health check failed.
    #[must_use]
    pub fn is_unhealthy(&self) -> bool {
        self.is_unhealthy.load(Relaxed)
    }

    /// Whether its health check fails, but its latest request was answered: one without an alternative gets requests all the same.
    #[must_use]
    pub fn answers_unhealthy(&self) -> bool {
        self.is_unhealthy()
            && self.answers_all_the_same.load(Relaxed)
            && self.failed_in_row.load(Relaxed) == 0
    }

    /// Its health is no longer checked.
    pub fn clear_health(&self) {
        self.is_unhealthy.store(false, Relaxed);
    }

    pub(crate) fn mark_unhealthy(&self) -> Changes {
        self.answers_all_the_same.store(false, Relaxed);
        self.is_unhealthy.store(true, Relaxed);
        self.ejections.fetch_add(1, Relaxed);
        Changes::Use
    }

    pub(crate) fn mark_healthy(&self, now: Monotonic) -> Changes {
        self.back_since.store(now.0.max(1), Relaxed);
        self.is_unhealthy.store(false, Relaxed);
        self.failed_in_row.store(0, Relaxed);
        Changes::Use
    }

    pub(crate) fn admission(&self, now: Monotonic) -> OriginAdmission {
        match self.is_drained.load(Relaxed) {
            true => OriginAdmission::Drained,
            false => self.admission_if_drained(now),
        }
    }

    /// The same for a request that a drained origin answers as well.
    pub(crate) fn admission_if_drained(&self, now: Monotonic) -> OriginAdmission {
        if self.is_unhealthy.load(Relaxed) {
            return OriginAdmission::Ejected;
        }
        match self.breaker.state(now) {
            BreakerState::Closed => OriginAdmission::Available,
            BreakerState::TrialDue => OriginAdmission::ProbeDue,
            BreakerState::Open(_) => OriginAdmission::Ejected,
        }
    }

    /// Whether the caller is the probe. The end of its request ends the probe.
    pub(crate) fn begin_probe(&self) -> bool {
        self.breaker.begin_trial()
    }

    pub(crate) fn end_probe(&self) {
        self.breaker.end_trial();
    }

    pub(crate) fn add(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Its weight in [`FULL`]ths: less shortly after a readmission.
    pub(crate) fn share(&self, weight: u32, slow_start: Duration, now: Monotonic) -> u64 {
        let whole = u64::from(weight) * FULL;
        let ramp = u64::try_from(slow_start.as_millis()).unwrap_or(u64::MAX);
        let back = self.back_since.load(Relaxed);
        let since = now.0.saturating_sub(back);
        if back == 0 || since >= ramp {
            return whole;
        }
        (whole.saturating_mul(since) / ramp).max(whole / 10)
    }

    /// It answered a request.
    pub(crate) fn answered(&self, sent: BegunIn, now: Monotonic) -> Option<BreakerChange> {
        if self.failed_in_row.load(Relaxed) != 0 {
            self.failed_in_row.store(0, Relaxed);
        }
        if self.is_unhealthy() && !self.answers_all_the_same.load(Relaxed) {
            self.answers_all_the_same.store(true, Relaxed);
        }
        let change = self.breaker.succeeded(sent, now)?;
        self.back_since.store(now.0.max(1), Relaxed);
        Some(change)
    }

    /// It failed a request.
    pub(crate) fn failed(
        &self,
        sent: BegunIn,
        by: &BreakerSettings,
        now: Monotonic,
    ) -> Option<BreakerChange> {
        self.failed_in_row.fetch_add(1, Relaxed);
        let change = self.breaker.failed(sent, None, by, now)?;
        self.ejections.fetch_add(1, Relaxed);
        Some(change)
    }
}

/// The failures in a row, without an answer between them, after which an origin is failing.
const FAILING: u32 = 5;

/// The parts of a weight, for shares that are less than it.
pub(crate) const FULL: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const BY: BreakerSettings = BreakerSettings {
        failures: 3,
        window: Duration::from_secs(10),
        time: Duration::from_secs(5),
        max_time: Duration::from_secs(15),
    };
    const SLOW_START: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Monotonic {
        Monotonic(1 + seconds * 1000)
    }

    fn fail(it: &OutlierState, times: usize, second: u64) -> Option<BreakerChange> {
        (0..times).filter_map(|_| it.failed(BegunIn::Closed, &BY, at(second))).last()
    }

    #[test]
    fn an_open_breaker_is_an_ejection_until_a_trial_is_due() {
        let it = OutlierState::default();
        assert_eq!(Some(BreakerChange::Opened(Duration::from_secs(5))), fail(&it, 3, 1));
        assert_eq!((OriginAdmission::Ejected, 1), (it.admission(at(5)), it.ejections()));
        assert_eq!(OriginState::Ejected(Duration::from_secs(1)), it.state(SLOW_START, at(5)));
        assert_eq!(OriginAdmission::ProbeDue, it.admission(at(6)));
        assert!(it.begin_probe());
        assert_eq!(
            (OriginAdmission::Ejected, OriginState::Probing),
            (it.admission(at(6)), it.state(SLOW_START, at(6)))
        );
        it.end_probe();
        assert_eq!(Some(BreakerChange::Closed), it.answered(BegunIn::HalfOpen, at(6)));
        assert_eq!(OriginAdmission::Available, it.admission(at(6)));
    }

    #[test]
    fn the_share_of_a_recovered_origin_grows_gradually() {
        let it = OutlierState::default();
        assert_eq!(300, it.share(3, SLOW_START, at(0)));
        fail(&it, 3, 0);
        it.answered(BegunIn::HalfOpen, at(10));
        let share = |second| it.share(3, SLOW_START, at(second));
        assert_eq!([30, 60, 150, 300], [10, 12, 15, 20].map(share));
        assert_eq!(OriginState::Slow, it.state(SLOW_START, at(12)));
        assert_eq!(300, it.share(3, Duration::ZERO, at(10)));
    }

    #[test]
    fn an_unhealthy_origin_is_not_used_until_it_is_healthy() {
        let it = OutlierState::default();
        it.mark_unhealthy();
        assert_eq!(
            (OriginAdmission::Ejected, OriginState::Unhealthy),
            (it.admission(at(99)), it.state(SLOW_START, at(99)))
        );
        it.mark_healthy(at(100));
        assert_eq!(
            (OriginAdmission::Available, OriginState::Slow),
            (it.admission(at(101)), it.state(SLOW_START, at(101)))
        );
    }

    #[test]
    fn an_unhealthy_origin_that_answers_requests_says_so_until_one_fails() {
        let it = OutlierState::default();
        it.answered(BegunIn::Closed, at(0));
        it.mark_unhealthy();
        assert!(!it.answers_unhealthy(), "it answered before its health check failed");
        it.answered(BegunIn::Closed, at(1));
        assert!(it.answers_unhealthy());
        it.failed(BegunIn::Closed, &BreakerSettings::OFF, at(2));
        assert!(!it.answers_unhealthy());
        it.answered(BegunIn::Closed, at(3));
        it.mark_healthy(at(4));
        assert!(!it.answers_unhealthy());
    }

    #[test]
    fn an_origin_without_ejection_is_failing_until_it_answers() {
        let it = OutlierState::default();
        let fail = || it.failed(BegunIn::Closed, &BreakerSettings::OFF, at(0));
        (0..4).for_each(|_| assert_eq!(None, fail()));
        assert!(!it.is_failing());
        fail();
        assert_eq!(OriginState::Failing, it.state(SLOW_START, at(0)));
        it.answered(BegunIn::Closed, at(0));
        assert_eq!(OriginState::Up, it.state(SLOW_START, at(0)));
        // Or its health check succeeds again: a backup may get no request for days.
        (0..5).for_each(|_| assert_eq!(None, fail()));
        it.mark_healthy(at(1));
        assert!(!it.is_failing());
    }

    #[test]
    fn a_drained_origin_stays_drained_until_it_is_restored() {
        let it = OutlierState::default();
        it.drain();
        assert_eq!(
            (OriginAdmission::Drained, OriginState::Drained),
            (it.admission(at(0)), it.state(SLOW_START, at(0)))
        );
        it.restore(at(0));
        assert_eq!(
            [OriginState::Slow, OriginState::Up],
            [0, 10].map(|it_is| it.state(SLOW_START, at(it_is)))
        );
        it.restore(at(20));
        assert_eq!(OriginState::Up, it.state(SLOW_START, at(20)), "it was in use");
    }
}
