//! A circuit breaker: whether a peer that failed repeatedly is used, and when it is tried again. Origins, memcached
//! servers and the disk tier's device have one each; they decide about failures. `now` is an argument.
//!
//! ```text
//!   Closed ──(failures in a row, within the window)──> Open ──(its time is over: one trial)──> HalfOpen ──(success)──> Closed
//!                                                       ^──────────(failure: for twice as long, up to a bound)──┘
//! ```
//!
//! Every step is one atomic exchange, so that no thread waits for another's.

use crate::clock::Monotonic;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct BreakerSettings {
    /// After this number of consecutive failures; zero is never.
    pub failures: u32,
    /// The longest time between the first and the last of them.
    pub window: Duration,
    /// The first time; each one that follows soon is twice as long.
    pub time: Duration,
    /// The longest; `time` if it is less.
    pub max_time: Duration,
}

impl BreakerSettings {
    /// A breaker that never opens.
    pub const OFF: BreakerSettings = BreakerSettings {
        failures: 0,
        window: Duration::ZERO,
        time: Duration::ZERO,
        max_time: Duration::ZERO,
    };
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// The peer is used.
    Closed,
    /// It is not used until this time; zero milliseconds are left while a trial is in progress.
    Open(Duration),
    /// It is not used, and a trial is due.
    TrialDue,
}

/// The state of the breaker in which an attempt was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BegunIn {
    /// Closed.
    Closed,
    /// The attempt is the trial: its result decides.
    HalfOpen,
    /// Open, but there was no other peer.
    Open,
}

/// A change of a breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// It is open for this time.
    Opened(Duration),
    /// It is closed again.
    Closed,
}

/// The count of failures when an attempt was begun. Attempts that fail together count as one failure where it is passed back:
/// each was begun before any of the others had failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round(u32);

/// A circuit breaker, shared by all threads; closed at first.
#[derive(Debug, Default)]
pub struct CircuitBreaker {
    /// Consecutive failures.
    failures: AtomicU32,
    /// The time of the first of them: milliseconds.
    first_failure: AtomicU64,
    /// Zero while it is closed; otherwise the time of the next probe: milliseconds.
    open_until: AtomicU64,
    /// The length of that time: milliseconds.
    open_for: AtomicU64,
    /// The time at which it was closed again; zero if it never opened.
    closed_since: AtomicU64,
    /// A trial is in progress.
    is_in_trial: AtomicBool,
}

fn millis(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}

impl CircuitBreaker {
    /// Its state.
    #[must_use]
    pub fn state(&self, now: Monotonic) -> BreakerState {
        match self.open_until.load(Relaxed) {
            0 => BreakerState::Closed,
            until if now.0 >= until && !self.is_in_trial.load(Relaxed) => BreakerState::TrialDue,
            until => BreakerState::Open(Duration::from_millis(until.saturating_sub(now.0))),
        }
    }

    /// Whether it is closed: one load.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.open_until.load(Relaxed) == 0
    }

    /// Consecutive failures while it is closed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// To be read when an attempt is begun, and passed back if it fails.
    #[must_use]
    pub fn round(&self) -> Round {
        Round(self.failures())
    }

    /// Whether the caller makes the trial. It calls [`Self::end_trial`] when its attempt is over, whatever the result.
    pub fn begin_trial(&self) -> bool {
        !self.is_in_trial.swap(true, Relaxed)
    }

    /// Ends the trial.
    pub fn end_trial(&self) {
        self.is_in_trial.store(false, Relaxed);
    }

    /// An attempt succeeded.
    pub fn succeeded(&self, begun: BegunIn, now: Monotonic) -> Option<BreakerChange> {
        if self.failures() != 0 {
            self.failures.store(0, Relaxed);
        }
        // An attempt that was begun before the breaker opened proves nothing about the present.
        if begun == BegunIn::Closed || self.open_until.swap(0, Relaxed) == 0 {
            return None;
        }
        self.closed_since.store(now.0.max(1), Relaxed);
        Some(BreakerChange::Closed)
    }

    /// An attempt failed. With `round`, attempts that fail together count once.
    pub fn failed(
        &self,
        begun: BegunIn,
        round: Option<Round>,
        by: &BreakerSettings,
        now: Monotonic,
    ) -> Option<BreakerChange> {
        if by.failures == 0 {
            return None;
        }
        let until = self.open_until.load(Relaxed);
        if until != 0 {
            // Many attempts fail while it is open if there is no other peer: that counts once.
            let counts = begun == BegunIn::HalfOpen || begun == BegunIn::Open && now.0 >= until;
            return counts.then(|| self.open(until, by, now)).flatten();
        }
        let failures = self.count(round, by.window, now)?;
        (failures >= by.failures).then(|| self.open(0, by, now)).flatten()
    }

    /// Counts a failure; none if it failed together with one that was counted.
    fn count(&self, round: Option<Round>, window: Duration, now: Monotonic) -> Option<u32> {
        let seen = round.map_or_else(|| self.failures(), |it| it.0);
        let begins = seen == 0 || now.0.saturating_sub(self.first_failure.load(Relaxed)) > millis(window);
        let next = if begins { 1 } else { seen.saturating_add(1) };
        match self.failures.compare_exchange(seen, next, Relaxed, Relaxed) {
            Ok(_) if begins => {
                self.first_failure.store(now.0, Relaxed);
                Some(next)
            }
            Ok(_) => Some(next),
            // Another attempt failed at the same time.
            Err(_) if round.is_some() => None,
            Err(_) => Some(self.failures.fetch_add(1, Relaxed).saturating_add(1)),
        }
    }

    /// Opens it, unless another attempt has done so since it was seen as open until `seen`.
    fn open(&self, seen: u64, by: &BreakerSettings, now: Monotonic) -> Option<BreakerChange> {
        let last = self.open_for.load(Relaxed);
        let closed = self.closed_since.load(Relaxed);
        // Again: the trial failed, or it was closed for less time than it had been open.
        let again = seen != 0 || closed != 0 && now.0.saturating_sub(closed) < last;
        let first = millis(by.time).max(1);
        let time = if again { last.saturating_mul(2) } else { first };
        let time = time.clamp(1, millis(by.max_time).max(first));
        let until = now.0.saturating_add(time).max(1);
        self.open_until.compare_exchange(seen, until, Relaxed, Relaxed).ok()?;
        self.open_for.store(time, Relaxed);
        self.failures.store(0, Relaxed);
        Some(BreakerChange::Opened(Duration::from_millis(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: BreakerSettings = BreakerSettings {
        failures: 3,
        window: Duration::from_secs(10),
        time: Duration::from_secs(5),
        max_time: Duration::from_secs(15),
    };

    fn at(seconds: u64) -> Monotonic {
        Monotonic(1 + seconds * 1000)
    }

    fn fail(it: &CircuitBreaker, times: usize, second: u64) -> Vec<Option<BreakerChange>> {
        (0..times).map(|_| it.failed(BegunIn::Closed, None, &BY, at(second))).collect()
    }

    fn opened(seconds: u64) -> Option<BreakerChange> {
        Some(BreakerChange::Opened(Duration::from_secs(seconds)))
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_resets_the_count() {
        let it = CircuitBreaker::default();
        assert_eq!(vec![None, None], fail(&it, 2, 0));
        assert_eq!(None, it.succeeded(BegunIn::Closed, at(1)));
        assert_eq!(vec![None, None, opened(5), None], fail(&it, 4, 1), "the fourth was begun before");
        assert_eq!(BreakerState::Open(Duration::from_secs(1)), it.state(at(5)));
    }

    #[test]
    fn failures_far_apart_are_not_in_a_row() {
        let it = CircuitBreaker::default();
        assert_eq!([vec![None, None], vec![None, None]], [fail(&it, 2, 0), fail(&it, 2, 11)]);
        assert_eq!(vec![opened(5)], fail(&it, 1, 12));
    }

    #[test]
    fn a_failed_trial_doubles_the_time_up_to_a_bound() {
        let it = CircuitBreaker::default();
        fail(&it, 3, 0);
        let mut now = 5;
        for expect in [10, 15, 15] {
            assert_eq!(BreakerState::TrialDue, it.state(at(now)));
            assert!(it.begin_trial());
            assert!(!it.begin_trial(), "one at a time");
            assert_eq!(BreakerState::Open(Duration::ZERO), it.state(at(now)));
            assert_eq!(opened(expect), it.failed(BegunIn::HalfOpen, None, &BY, at(now)));
            it.end_trial();
            now += expect;
        }
        assert_eq!(Some(BreakerChange::Closed), it.succeeded(BegunIn::HalfOpen, at(now)));
        assert!(it.is_closed());
        // Soon again, and long after.
        assert_eq!(Some(opened(15)), fail(&it, 3, now + 1).pop());
        it.succeeded(BegunIn::HalfOpen, at(now + 20));
        assert_eq!(Some(opened(5)), fail(&it, 3, now + 60).pop());
    }

    #[test]
    fn a_success_that_was_begun_before_does_not_close_it() {
        let it = CircuitBreaker::default();
        fail(&it, 3, 0);
        assert_eq!((None, false), (it.succeeded(BegunIn::Closed, at(1)), it.is_closed()));
    }

    #[test]
    fn attempts_of_one_round_that_fail_count_once() {
        let it = CircuitBreaker::default();
        for expect in [1, 2] {
            let round = Some(it.round());
            (0..100).for_each(|_| assert_eq!(None, it.failed(BegunIn::Closed, round, &BY, at(0))));
            assert_eq!(expect, it.failures());
        }
    }

    #[test]
    fn failures_without_an_alternative_count_once_for_each_time() {
        let it = CircuitBreaker::default();
        fail(&it, 3, 0);
        let anyway = |second| it.failed(BegunIn::Open, None, &BY, at(second));
        assert_eq!([None, opened(10), None], [anyway(1), anyway(5), anyway(5)]);
    }

    #[test]
    fn threads_that_fail_together_open_it_once() {
        let it = CircuitBreaker::default();
        let opened: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| fail(&it, 1000, 0).into_iter().flatten().count())).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(1, opened);
    }
}
