//! Recently verified large bodies, so that the next hit need not read them again. Being in the page cache does not prove
//! that: a backup, another reader or a failing device may have loaded the bytes since. `read` verifies.

use larder_stdx::clock::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots for bodies, by the hash of their key: the last of a slot stays.
const PLACES: usize = 1 << 16;

/// Bytes of the slots.
pub(crate) const MEMORY: u64 = (PLACES * size_of::<AtomicU64>()) as u64;

/// Milliseconds of one time step.
const STEP: u64 = 32;

/// Steps for which a body is trusted: 0.1 s, and at most one step more.
const STEPS: u64 = 3;

/// The most milliseconds for which a body is trusted.
pub(crate) const LONGEST: u64 = STEP * (STEPS + 1);

/// The bits of a slot that hold the step; the other forty hold the stamp (`Known::stamp`).
const TIME: u64 = (1 << 24) - 1;

/// The verified bodies with their times.
pub(crate) struct VerifiedParts(Box<[AtomicU64]>);

impl VerifiedParts {
    pub fn new() -> VerifiedParts {
        VerifiedParts((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether the record with this stamp was verified within the last 0.1 s before `now`.
    pub fn contains(&self, hash: u64, stamp: u64, now: Monotonic) -> bool {
        let it = self.place(hash).load(Relaxed);
        // Steps begin with one: an unused slot has no stamp and no time.
        it != 0 && it >> 24 == stamp && step(now).wrapping_sub(it) & TIME <= STEPS
    }

    /// Its body is right, and was read after `now`.
    pub fn insert(&self, hash: u64, stamp: u64, now: Monotonic) {
        self.place(hash).store(stamp << 24 | step(now) & TIME, Relaxed);
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % PLACES]
    }
}

fn step(now: Monotonic) -> u64 {
    now.0 / STEP + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_moment_and_for_that_record_only() {
        let trust = VerifiedParts::new();
        let at = Monotonic;
        assert!(!trust.contains(7, 0, at(0)) && !trust.contains(7, 1, at(0)));
        for start in [0, 1_000_000, STEP * (TIME - 2)] {
            trust.insert(7, 41, at(start));
            assert!(trust.contains(7, 41, at(start)) && trust.contains(7, 41, at(start + 96)));
            assert!(!trust.contains(7, 41, at(start + 128)));
            assert!(!trust.contains(7, 42, at(start)) && !trust.contains(8, 41, at(start)));
        }
        trust.insert(7 + PLACES as u64, 43, at(0));
        assert!(!trust.contains(7, 41, at(0)), "another has its place");
    }
}
