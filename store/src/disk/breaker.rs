//! The circuit breaker for reads. After several consecutive reads that waited too long, no read waits for the device
//! until `retry` has passed; then a single probe does. Data in the page cache is still read.

use larder_counters::Counters;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the device may take before a read is abandoned.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Consecutive slow reads, each started after the previous was abandoned, that open the breaker.
const MOST_SLOW: u32 = 3;

/// Reads further apart are not consecutive: a device that has to wake up is not failing.
const IN_A_ROW: Duration = Duration::from_secs(60);

#[derive(Default)]
struct BreakerState {
    slow: u32,
    /// The time at which the last read that counts was abandoned.
    last: Option<Instant>,
    /// No read waits before this time; `None` while the breaker is closed.
    again: Option<Instant>,
}

/// The record of the device's answers.
pub(crate) struct DiskBreaker {
    state: Mutex<BreakerState>,
    retry: Duration,
    counters: Arc<Counters>,
}

impl DiskBreaker {
    /// A closed breaker.
    pub fn new(retry: Duration, counters: Arc<Counters>) -> Self {
        Self { state: Mutex::default(), retry, counters }
    }

    /// Whether the breaker is open.
    pub fn is_over(&self) -> bool {
        self.state.lock().again.is_some()
    }

    /// Whether a read may wait for the device now; counts a read that may not.
    pub fn lets(&self) -> bool {
        let lets = !self.is_over() || self.is_due();
        if !lets {
            self.counters.disk_reads_skipped.add_shared(1);
        }
        lets
    }

    /// Whether the breaker is open and a probe is due; returns true once.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_due = state.again.is_some_and(|it| it <= now);
        if is_due {
            // This caller probes; should it be dropped, another does so later.
            state.again = Some(now + self.retry.max(PATIENCE));
        }
        is_due
    }

    /// A read was answered.
    pub fn answered(&self) {
        let mut state = self.state.lock();
        if state.again.is_some() {
            self.counters.disk_reads_off.set_shared(0);
        }
        *state = BreakerState::default();
    }

    /// A read that started at `began` was abandoned.
    pub fn gave_up(&self, began: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        // A read that hung at the same time as another is no further evidence.
        if state.last.is_some_and(|it| began < it) {
            return;
        }
        let in_a_row = state.last.is_some_and(|it| now - it <= IN_A_ROW);
        state.slow = if in_a_row { state.slow + 1 } else { 1 };
        state.last = Some(now);
        if state.slow >= MOST_SLOW || state.again.is_some() {
            state.again = Some(now + self.retry);
            self.counters.disk_reads_off.set_shared(1);
        }
    }
}
