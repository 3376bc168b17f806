//! The circuit breaker for reads: after several consecutive reads that waited too long, no read waits for the device until
//! `retry` has passed; then a single probe does. Data in the page cache is still read.

use larder_counters::Counters;
use larder_stdx::circuit_breaker::{BegunIn, BreakerSettings, BreakerState, CircuitBreaker, Round};
use larder_stdx::clock::Monotonic;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the device may take before a read is abandoned.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Consecutive slow reads, each started after the previous was abandoned, that open the breaker.
const MOST_SLOW: u32 = 3;

/// Reads further apart are not consecutive: a device that has to wake up is not failing.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// The record of the device's answers.
pub(crate) struct DiskBreaker {
    breaker: CircuitBreaker,
    settings: BreakerSettings,
    /// The zero of its times.
    since: Instant,
    counters: Arc<Counters>,
}

/// A read that waits for the device. If it is dropped, a trial has failed, and any other read proves nothing.
pub(crate) struct DiskAttempt<'a> {
    of: &'a DiskBreaker,
    begun: BegunIn,
    /// Reads that hang at the same time count once.
    round: Round,
}

impl DiskBreaker {
    /// A closed breaker.
    pub fn new(retry: Duration, counters: Arc<Counters>) -> Self {
        let settings = BreakerSettings {
            failures: MOST_SLOW,
            window: FAILURE_WINDOW,
            time: retry.max(READ_TIMEOUT),
            max_time: retry,
        };
        Self { breaker: CircuitBreaker::default(), settings, since: Instant::now(), counters }
    }

    /// Whether the breaker is open.
    pub fn is_open(&self) -> bool {
        !self.breaker.is_closed()
    }

    /// A read, if it may wait for the device now; counts one that may not.
    pub fn begin(&self) -> Option<DiskAttempt<'_>> {
        let begun = match self.breaker.is_closed() {
            true => BegunIn::Closed,
            false if self.is_trial_due() => BegunIn::HalfOpen,
            false => {
                self.counters.disk_reads_skipped.add_shared(1);
                return None;
            }
        };
        Some(DiskAttempt { of: self, begun, round: self.breaker.round() })
    }

    /// Whether a trial is due, which the caller makes and ends.
    pub fn is_trial_due(&self) -> bool {
        self.breaker.state(self.now()) == BreakerState::TrialDue && self.breaker.begin_trial()
    }

    /// Ends a trial.
    pub fn end_trial(&self, succeeded: bool) {
        match succeeded {
            true => self.answered(BegunIn::HalfOpen),
            false => self.gave_up(BegunIn::HalfOpen, None),
        }
        self.breaker.end_trial();
    }

    fn now(&self) -> Monotonic {
        Monotonic(u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn answered(&self, begun: BegunIn) {
        if self.breaker.succeeded(begun, self.now()).is_some() {
            self.counters.disk_reads_off.set_shared(0);
        }
    }

    fn gave_up(&self, begun: BegunIn, round: Option<Round>) {
        if self.breaker.failed(begun, round, &self.settings, self.now()).is_some() {
            self.counters.disk_reads_off.set_shared(1);
        }
    }
}

impl DiskAttempt<'_> {
    /// The read was answered.
    pub fn answered(mut self) {
        match std::mem::replace(&mut self.begun, BegunIn::Closed) {
            BegunIn::HalfOpen => self.of.end_trial(true),
            begun => self.of.answered(begun),
        }
    }

    /// The read was abandoned.
    pub fn gave_up(self) {
        if self.begun == BegunIn::Closed {
            self.of.gave_up(BegunIn::Closed, Some(self.round));
        }
    }
}

impl Drop for DiskAttempt<'_> {
    fn drop(&mut self) {
        if self.begun == BegunIn::HalfOpen {
            self.of.end_trial(false);
        }
    }
}
