//! The state of one origin, shared by all workers: its load, its ejections and their end. `balance` chooses, `group`
//! asks. `now` is an argument.
//!
//! ```text
//!   Up ──(failures in a row, within the window)──> Ejected ──(its time is over: one request)──> Trying ──(it answered)──> Up
//!                                                     ^──────────(it did not: for twice as long)──┘
//! ```
//!
//! This is also a circuit breaker: closed, open, half-open. Every step is one atomic exchange, so that no request waits
//! for another's.

use crate::process_slots::ProcessSlots;
use larder_stdx::clock::Monotonic;
use larder_wire::message::Version;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The effect of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// None.
    Nothing,
    /// The origin is no longer used, or used again.
    Use,
}

/// When an origin is ejected, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct OutlierEjection {
    /// This number of consecutive failures; zero is never.
    pub failures: u32,
    /// The longest time between the first and the last of them.
    pub window: Duration,
    /// The first time; each one that follows soon is twice as long.
    pub time: Duration,
    /// The longest.
    pub most: Duration,
    /// For how long a readmitted origin gets less than its share, growing from a tenth; zero is off.
    pub slow_start: Duration,
}

impl OutlierEjection {
    /// No ejections.
    pub const OFF: OutlierEjection = OutlierEjection {
        failures: 0,
        window: Duration::ZERO,
        time: Duration::ZERO,
        most: Duration::ZERO,
        slow_start: Duration::ZERO,
    };
}

/// One origin's state, shared by all workers and all routes that use it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OutlierState {
    /// Requests in progress, including those that wait for a connection.
    in_flight: AtomicU32,
    /// Consecutive failures,
    failures: AtomicU32,
    /// of which the first was at this time: milliseconds.
    first_failure: AtomicU64,
    /// Zero while it is used; otherwise the time of the next probe, in milliseconds.
    ejected_until: AtomicU64,
    /// The length of that ejection: milliseconds.
    ejected_for: AtomicU64,
    /// The time of its readmission; zero if it was never ejected.
    back_since: AtomicU64,
    /// A request is probing it.
    is_tried: AtomicBool,
    /// It gets no new requests, by an operator's command.
    is_drained: AtomicBool,
    /// Its health check failed.
    is_sick: AtomicBool,
    /// The number of ejections.
    ejections: AtomicU64,
    /// See [`OutlierState::protocol`]: zero is none yet, one HTTP/1.1, two HTTP/2.
    protocol: AtomicU8,
    /// Unused connections to an application, in all workers.
    pub(crate) kept: AtomicUsize,
    /// Its running CGI programs.
    pub(crate) processes: Arc<ProcessSlots>,
}

/// Whether a request may go to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginAdmission {
    /// Yes.
    Go,
    /// Its ejection is over: one request may probe it.
    Try,
    /// It is ejected.
    Ejected,
    /// It is being drained.
    Drained,
}

/// The state of the origin in which a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentIn {
    /// It was up.
    Up,
    /// Its ejection was over, and this is the probe: its result decides.
    Trying,
    /// It was ejected, but there was no other.
    Anyway,
}

/// A change of an origin's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginChange {
    /// It is ejected for this time.
    Ejected(Duration),
    /// It is readmitted.
    Back,
}

/// The state of an origin for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginState {
    /// In use.
    Up,
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
            OriginState::Slow => "slow_start",
            OriginState::Ejected(_) => "ejected",
            OriginState::Probing => "probing",
            OriginState::Unhealthy => "unhealthy",
            OriginState::Drained => "drained",
        }
    }
}

impl OutlierState {
    /// Its state; `slow_start` as in [`OutlierEjection`].
    #[must_use]
    pub fn state(&self, slow_start: Duration, now: Monotonic) -> OriginState {
        match self.admission(now) {
            OriginAdmission::Drained => OriginState::Drained,
            _ if self.is_sick() => OriginState::Unhealthy,
            OriginAdmission::Try => OriginState::Probing,
            OriginAdmission::Ejected => match self.ejected_until.load(Relaxed).saturating_sub(now.0) {
                0 => OriginState::Probing,
                left => OriginState::Ejected(Duration::from_millis(left)),
            },
            OriginAdmission::Go if self.share(1, slow_start, now) < FULL => OriginState::Slow,
            OriginAdmission::Go => OriginState::Up,
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
    pub fn is_sick(&self) -> bool {
        self.is_sick.load(Relaxed)
    }

    /// Its health is no longer checked.
    pub fn forget_health(&self) {
        self.is_sick.store(false, Relaxed);
    }

    pub(crate) fn found_sick(&self) -> Changes {
        self.is_sick.store(true, Relaxed);
        self.ejections.fetch_add(1, Relaxed);
        Changes::Use
    }

    pub(crate) fn found_well(&self, now: Monotonic) -> Changes {
        self.back_since.store(now.0.max(1), Relaxed);
        self.is_sick.store(false, Relaxed);
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
        if self.is_sick.load(Relaxed) {
            return OriginAdmission::Ejected;
        }
        match self.ejected_until.load(Relaxed) {
            0 => OriginAdmission::Go,
            until if now.0 >= until && !self.is_tried.load(Relaxed) => OriginAdmission::Try,
            _ => OriginAdmission::Ejected,
        }
    }

    /// Whether the caller is the probe. The end of its request ends the probe.
    pub(crate) fn begin_trying(&self) -> bool {
        !self.is_tried.swap(true, Relaxed)
    }

    pub(crate) fn end_trying(&self) {
        self.is_tried.store(false, Relaxed);
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
    pub(crate) fn answered(&self, sent: SentIn, now: Monotonic) -> Option<OriginChange> {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
        // A request sent before the ejection proves nothing about the present.
        if sent == SentIn::Up || self.ejected_until.swap(0, Relaxed) == 0 {
            return None;
        }
        self.back_since.store(now.0.max(1), Relaxed);
        Some(OriginChange::Back)
    }

    /// It failed a request.
    pub(crate) fn failed(&self, sent: SentIn, by: &OutlierEjection, now: Monotonic) -> Option<OriginChange> {
        if by.failures == 0 {
            return None;
        }
        let until = self.ejected_until.load(Relaxed);
        if until != 0 {
            // Many requests fail during an ejection if there is no other origin: that counts once.
            let counts = sent != SentIn::Up && now.0 >= until;
            return counts.then(|| self.eject(until, by, now)).flatten();
        }
        let window = u64::try_from(by.window.as_millis()).unwrap_or(u64::MAX);
        let begins = self.failures.load(Relaxed) == 0
            || now.0.saturating_sub(self.first_failure.load(Relaxed)) > window;
        let failures = if begins {
            self.first_failure.store(now.0, Relaxed);
            self.failures.store(1, Relaxed);
            1
        } else {
            self.failures.fetch_add(1, Relaxed) + 1
        };
        (failures >= by.failures).then(|| self.eject(0, by, now)).flatten()
    }

    /// Ejects it, unless another request has done so since it was seen as ejected until `seen`.
    fn eject(&self, seen: u64, by: &OutlierEjection, now: Monotonic) -> Option<OriginChange> {
        let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX).max(1);
        let last = self.ejected_for.load(Relaxed);
        let back = self.back_since.load(Relaxed);
        // Again: the probe failed, or it was readmitted for less time than it had been ejected.
        let again = seen != 0 || back != 0 && now.0.saturating_sub(back) < last;
        let time = if again { last.saturating_mul(2) } else { millis(by.time) };
        let time = time.clamp(1, millis(by.most).max(millis(by.time)));
        let until = now.0.saturating_add(time).max(1);
        self.ejected_until.compare_exchange(seen, until, Relaxed, Relaxed).ok()?;
        self.ejected_for.store(time, Relaxed);
        self.failures.store(0, Relaxed);
        self.ejections.fetch_add(1, Relaxed);
        Some(OriginChange::Ejected(Duration::from_millis(time)))
    }
}

/// The parts of a weight, for shares that are less than it.
pub(crate) const FULL: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const BY: OutlierEjection = OutlierEjection {
        failures: 3,
        window: Duration::from_secs(10),
        time: Duration::from_secs(5),
        most: Duration::from_secs(15),
        slow_start: Duration::from_secs(10),
    };

    fn at(seconds: u64) -> Monotonic {
        Monotonic(1 + seconds * 1000)
    }

    fn fail(it: &OutlierState, times: usize, second: u64) -> Vec<Option<OriginChange>> {
        (0..times).map(|_| it.failed(SentIn::Up, &BY, at(second))).collect()
    }

    fn ejected(seconds: u64) -> Option<OriginChange> {
        Some(OriginChange::Ejected(Duration::from_secs(seconds)))
    }

    #[test]
    fn failures_in_a_row_eject_and_one_answer_between_starts_anew() {
        let it = OutlierState::default();
        assert_eq!(vec![None, None], fail(&it, 2, 0));
        assert_eq!(None, it.answered(SentIn::Up, at(1)));
        assert_eq!(vec![None, None, ejected(5), None], fail(&it, 4, 1), "the fourth is of the same");
        assert_eq!((OriginAdmission::Ejected, 1), (it.admission(at(5)), it.ejections()));
        assert_eq!(OriginState::Ejected(Duration::from_secs(1)), it.state(BY.slow_start, at(5)));
    }

    #[test]
    fn failures_far_apart_are_not_in_a_row() {
        let it = OutlierState::default();
        assert_eq!([vec![None, None], vec![None, None]], [fail(&it, 2, 0), fail(&it, 2, 11)]);
        assert_eq!(vec![ejected(5)], fail(&it, 1, 12));
    }

    #[test]
    fn who_fails_again_is_left_alone_for_longer_up_to_a_bound() {
        let it = OutlierState::default();
        fail(&it, 3, 0);
        let mut now = 5;
        for expect in [10, 15, 15] {
            assert_eq!(OriginAdmission::Try, it.admission(at(now)));
            assert!(it.begin_trying());
            assert_eq!(OriginAdmission::Ejected, it.admission(at(now)), "one at a time");
            assert_eq!(ejected(expect), it.failed(SentIn::Trying, &BY, at(now)));
            it.end_trying();
            now += expect;
        }
        assert_eq!(Some(OriginChange::Back), it.answered(SentIn::Trying, at(now)));
        assert_eq!(OriginAdmission::Go, it.admission(at(now)));
        // Soon again, and long after.
        assert_eq!(Some(ejected(15)), fail(&it, 3, now + 1).pop());
        it.answered(SentIn::Trying, at(now + 20));
        assert_eq!(Some(ejected(5)), fail(&it, 3, now + 60).pop());
    }

    #[test]
    fn an_answer_to_what_was_sent_before_brings_nobody_back() {
        let it = OutlierState::default();
        fail(&it, 3, 0);
        assert_eq!((None, OriginAdmission::Ejected), (it.answered(SentIn::Up, at(1)), it.admission(at(1))));
    }

    #[test]
    fn who_is_back_gets_its_share_little_by_little() {
        let it = OutlierState::default();
        assert_eq!(300, it.share(3, BY.slow_start, at(0)));
        fail(&it, 3, 0);
        it.answered(SentIn::Trying, at(10));
        let share = |second| it.share(3, BY.slow_start, at(second));
        assert_eq!([30, 60, 150, 300], [10, 12, 15, 20].map(share));
        assert_eq!(OriginState::Slow, it.state(BY.slow_start, at(12)));
        assert_eq!(300, it.share(3, Duration::ZERO, at(10)));
    }

    #[test]
    fn who_is_sick_is_left_alone_until_well() {
        let it = OutlierState::default();
        it.found_sick();
        assert_eq!(
            (OriginAdmission::Ejected, OriginState::Unhealthy),
            (it.admission(at(99)), it.state(BY.slow_start, at(99)))
        );
        it.found_well(at(100));
        assert_eq!(
            (OriginAdmission::Go, OriginState::Slow),
            (it.admission(at(101)), it.state(BY.slow_start, at(101)))
        );
    }

    #[test]
    fn drained_is_drained_whatever_else() {
        let it = OutlierState::default();
        it.drain();
        assert_eq!(
            (OriginAdmission::Drained, OriginState::Drained),
            (it.admission(at(0)), it.state(BY.slow_start, at(0)))
        );
        it.restore(at(0));
        assert_eq!(
            [OriginState::Slow, OriginState::Up],
            [0, 10].map(|it_is| it.state(BY.slow_start, at(it_is)))
        );
        it.restore(at(20));
        assert_eq!(OriginState::Up, it.state(BY.slow_start, at(20)), "it was in use");
    }
}
