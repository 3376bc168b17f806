//! Background revalidations that left the stored response stale, for a few seconds: a stale page with many hits is not requested
//! from an application that fails, or refuses it, by each of them.

use larder_stdx::clock::Monotonic;
use larder_stdx::identity_hasher::IdentityHasher;
use larder_store::ram::KeyHash;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Milliseconds until the same page is requested in the background again.
pub(crate) const PAUSE: u64 = 5000;

/// The most pages that are kept; beyond, the oldest is dropped.
const CAPACITY: usize = 4096;

/// The unsuccessful revalidations of the last [`PAUSE`].
#[derive(Default)]
pub struct RevalidationPauses {
    known: Mutex<KnownPauses>,
    count: AtomicUsize,
}

#[derive(Default)]
struct KnownPauses {
    /// Until when each is kept, milliseconds of the monotonic clock.
    until: HashMap<u128, u64, BuildHasherDefault<IdentityHasher>>,
    /// Oldest first.
    order: VecDeque<u128>,
}

impl RevalidationPauses {
    /// Records that a page is as stale as before its revalidation.
    pub(crate) fn note(&self, flight: KeyHash, now: Monotonic) {
        let Ok(mut known) = self.known.lock() else { return };
        known.drop_ended(now);
        if known.until.insert(flight.0, now.0 + PAUSE).is_none() {
            known.order.push_back(flight.0);
        }
        if known.order.len() > CAPACITY
            && let Some(oldest) = known.order.pop_front()
        {
            known.until.remove(&oldest);
        }
        self.count.store(known.order.len(), Relaxed);
    }

    /// Whether that was recorded for a page within the last [`PAUSE`].
    pub(crate) fn has(&self, flight: KeyHash, now: Monotonic) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let Ok(mut known) = self.known.lock() else { return false };
        known.drop_ended(now);
        self.count.store(known.order.len(), Relaxed);
        // A page that was noted again keeps its place, and those after it theirs.
        known.until.get(&flight.0).is_some_and(|it| *it > now.0)
    }
}

impl KnownPauses {
    fn drop_ended(&mut self, now: Monotonic) {
        while let Some(oldest) = self.order.front()
            && self.until.get(oldest).is_none_or(|it| *it <= now.0)
        {
            self.until.remove(oldest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_revalidation_is_remembered_until_its_pause_ends() {
        let pauses = RevalidationPauses::default();
        let (one, other) = (KeyHash(1), KeyHash(2));
        assert!(!pauses.has(one, Monotonic(0)));
        pauses.note(one, Monotonic(100));
        assert!(pauses.has(one, Monotonic(99 + PAUSE)) && !pauses.has(other, Monotonic(100)));
        assert!(!pauses.has(one, Monotonic(100 + PAUSE)));
        assert_eq!(0, pauses.count.load(Relaxed));
    }

    #[test]
    fn a_page_that_is_noted_again_prolongs_no_other_pause() {
        let pauses = RevalidationPauses::default();
        pauses.note(KeyHash(1), Monotonic(0));
        pauses.note(KeyHash(2), Monotonic(0));
        pauses.note(KeyHash(1), Monotonic(PAUSE - 1));
        assert!(pauses.has(KeyHash(1), Monotonic(PAUSE)) && !pauses.has(KeyHash(2), Monotonic(PAUSE)));
    }

    #[test]
    fn the_oldest_goes() {
        let pauses = RevalidationPauses::default();
        for page in 0..=CAPACITY as u128 {
            pauses.note(KeyHash(page), Monotonic(0));
        }
        assert!(!pauses.has(KeyHash(0), Monotonic(1)) && pauses.has(KeyHash(1), Monotonic(1)));
        assert_eq!(CAPACITY, pauses.count.load(Relaxed));
    }
}
