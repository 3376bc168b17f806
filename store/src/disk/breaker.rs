//! Whether the device answers those who read. After some in a row whom it kept waiting for too long nobody waits for it
//! until `retry` has passed, and then one, in the name of all. What is in the page cache is read all the same.

use larder_counters::Counters;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the device may take before a read is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Reads in a row, each begun when the one before had been given up, after which the device is left alone.
const MOST_SLOW: u32 = 3;

/// Reads that are further apart are not in a row: a device that has to wake up is no sick one.
const IN_A_ROW: Duration = Duration::from_secs(60);

#[derive(Default)]
struct BreakerState {
    slow: u32,
    /// When the last one that counts was given up.
    last: Option<Instant>,
    /// Nobody waits before; `None` while all is well.
    again: Option<Instant>,
}

/// What is known of the device's answers.
pub(crate) struct DiskBreaker {
    state: Mutex<BreakerState>,
    retry: Duration,
    counters: Arc<Counters>,
}

impl DiskBreaker {
    /// All is well.
    pub fn new(retry: Duration, counters: Arc<Counters>) -> Self {
        Self { state: Mutex::default(), retry, counters }
    }

    /// Whether the device is left alone.
    pub fn is_over(&self) -> bool {
        self.state.lock().again.is_some()
    }

    /// Whether a read may wait for the device now; counts it where it may not.
    pub fn lets(&self) -> bool {
        let lets = !self.is_over() || self.is_due();
        if !lets {
            self.counters.disk_reads_skipped.add_shared(1);
        }
        lets
    }

    /// Whether the device is left alone and it is time to ask it again; says so once.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_due = state.again.is_some_and(|it| it <= now);
        if is_due {
            // This one asks; should it be dropped, another does so later.
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

    /// A read that began then was given up.
    pub fn gave_up(&self, began: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        // What hung beside another says nothing new.
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
