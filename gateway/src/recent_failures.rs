//! Recent failures of pages with waiting requests: for one second an identical request is answered with the failure, so
//! that a failing application is not asked by every waiting client.

use larder_stdx::clock::Monotonic;
use larder_store::Store;
use larder_store::ram::KeyHash;
use larder_wire::message::Request;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Milliseconds for which a failure is kept.
const KEPT_FOR: u64 = 1000;

/// The most failures that are kept; beyond, the oldest is dropped.
const CAPACITY: usize = 256;

/// The failures of the last second.
#[derive(Default)]
pub struct RecentFailures {
    /// Oldest first.
    known: Mutex<VecDeque<RecentFailure>>,
    count: AtomicUsize,
}

struct RecentFailure {
    page: KeyHash,
    request: KeyHash,
    status: u16,
    until: Monotonic,
}

/// The hash of everything in a request but its target: equal requests cause equal failures.
pub(crate) fn content_hash(store: &Store, request: &Request) -> KeyHash {
    store.hash(request.fields.text())
}

impl RecentFailures {
    /// Whether there are no failures.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Records the failure of requests with this content for a page.
    pub fn note(&self, page: KeyHash, request: KeyHash, status: u16, now: Monotonic) {
        let Ok(mut known) = self.known.lock() else { return };
        known.retain(|it| now < it.until);
        if !known.iter().any(|it| (it.page, it.request) == (page, request)) {
            if known.len() == CAPACITY {
                known.pop_front();
            }
            known.push_back(RecentFailure { page, request, status, until: Monotonic(now.0 + KEPT_FOR) });
        }
        self.count.store(known.len(), Relaxed);
    }

    /// The status with which a request with this content failed for a page within the last second.
    #[must_use]
    pub fn get(&self, page: KeyHash, request: KeyHash, now: Monotonic) -> Option<u16> {
        let mut known = self.known.lock().ok()?;
        while known.front().is_some_and(|it| now >= it.until) {
            known.pop_front();
        }
        self.count.store(known.len(), Relaxed);
        known.iter().find(|it| (it.page, it.request) == (page, request)).map(|it| it.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_for_a_second_and_for_the_same_request() {
        let recent = RecentFailures::default();
        assert!(recent.is_empty());
        let (page, one, other) = (KeyHash(1), KeyHash(2), KeyHash(3));
        recent.note(page, one, 502, Monotonic(100));
        recent.note(page, one, 504, Monotonic(900));
        assert_eq!(Some(502), recent.get(page, one, Monotonic(1099)));
        assert_eq!(None, recent.get(page, other, Monotonic(101)));
        assert_eq!(None, recent.get(other, one, Monotonic(101)));
        assert_eq!(None, recent.get(page, one, Monotonic(1100)));
        assert!(recent.is_empty());
    }

    #[test]
    fn the_oldest_goes() {
        let recent = RecentFailures::default();
        for page in 0..=CAPACITY as u128 {
            recent.note(KeyHash(page), KeyHash(0), 502, Monotonic(0));
        }
        assert_eq!(None, recent.get(KeyHash(0), KeyHash(0), Monotonic(1)));
        assert_eq!(Some(502), recent.get(KeyHash(1), KeyHash(0), Monotonic(1)));
    }
}
