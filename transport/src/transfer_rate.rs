//! The rate at which a client takes output or sends its body.

use std::cell::Cell;

/// The window of `min_rate`, milliseconds.
const RATE_WINDOW: u64 = 10_000;

/// The rate of a client while it is waited for, over successive waits.
#[derive(Debug, Default)]
pub(crate) struct TransferRate {
    /// Milliseconds of waiting in this window.
    waited: Cell<u64>,
    /// Bytes transferred at the start of the window.
    begun: Cell<u64>,
}

impl TransferRate {
    /// Begins a new window, with `moved` bytes transferred so far.
    pub fn begin(&self, moved: u64) {
        self.waited.set(0);
        self.begun.set(moved);
    }

    /// Records a wait of `passed` milliseconds, with `moved` bytes transferred so far; returns whether the rate is below
    /// `min_rate` bytes a second over a window. A window with silence continues until bytes move: other limits apply to silence,
    /// and a client that receives in steps is measured over whole steps (docs/decisions/0012).
    pub fn is_too_slow(&self, passed: u64, moved: u64, min_rate: u64) -> bool {
        let waited = self.waited.get().saturating_add(passed);
        self.waited.set(waited);
        let moved_in_it = moved.saturating_sub(self.begun.get());
        if waited < RATE_WINDOW || moved_in_it == 0 {
            return false;
        }
        self.begin(moved);
        moved_in_it < min_rate.saturating_mul(waited) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves `bytes` in each of 25 seconds, a tenth of a second of which each wait takes; whether that is too slow for 128 a second.
    fn check(bytes: u64) -> bool {
        let rate = TransferRate::default();
        (1..=250).any(|it| rate.is_too_slow(100, it * bytes / 10, 128))
    }

    #[test]
    fn waits_are_judged_together_however_short_they_are() {
        assert_eq!([true, true, false, false], [1, 127, 128, 1000].map(check));
        assert!(!check(0), "silence has other limits");
    }
}
