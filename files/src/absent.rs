//! Paths of a directory that have no file: a request for one goes to the next route without a look on the disk. A fixed
//! table, so that random URLs take no more memory and evict no file.

use larder_stdx::clock::Monotonic;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Paths that the table has room for: 1 MiB, of which the kernel provides the pages that are used.
const ROOM: usize = 1 << 16;
/// The places that a path may take.
const WAYS: usize = 4;
/// A request checks the path again.
const CLAIMED: u64 = 1;

/// A path without a file.
#[derive(Default)]
struct AbsentPath {
    /// Its hash under a secret key: two paths share one with a probability of 2^-64.
    hash: AtomicU64,
    /// The time of the last look on the disk, in monotonic milliseconds plus one, times two; and [`CLAIMED`]. Zero if there
    /// was none.
    looked: AtomicU64,
}

/// The knowledge about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// It has no file.
    Sure,
    /// It had none, and one request is to check that again.
    Due,
    /// Nothing is known.
    Unknown,
}

/// The paths without a file that were looked up last.
pub struct AbsentPaths {
    paths: Box<[AbsentPath]>,
    /// For writers; readers take no lock.
    writing: Mutex<()>,
    seed: RandomState,
    /// The time within which a new file is seen, milliseconds.
    cache_for: u64,
}

impl AbsentPaths {
    /// An empty table, whose entries are used for `cache_for` milliseconds.
    pub fn new(cache_for: u64) -> AbsentPaths {
        let paths = std::iter::repeat_with(AbsentPath::default).take(ROOM).collect();
        AbsentPaths { paths, writing: Mutex::new(()), seed: RandomState::new(), cache_for }
    }

    /// Its bytes.
    pub fn memory(&self) -> u64 {
        size_of_val(&*self.paths) as u64
    }

    /// Whether `path` has no file, for a request that cannot look on the disk. No lock, no allocation.
    pub fn has_now(&self, path: &[u8], now: Monotonic) -> bool {
        self.find(path).is_some_and(|(_, looked)| self.absence(looked, now) == Absence::Sure)
    }

    /// The same for a request that can look on the disk: in the second half of the time, the first one does.
    pub fn has(&self, path: &[u8], now: Monotonic) -> bool {
        let Some((place, looked)) = self.find(path) else { return false };
        match self.absence(looked, now) {
            Absence::Sure => true,
            // Where another request was faster, that one checks.
            Absence::Due => place.claim(looked).is_err(),
            Absence::Unknown => false,
        }
    }

    /// Notes that a look on the disk, begun at `now`, found no file for `path`.
    pub fn note(&self, path: &[u8], now: Monotonic) {
        let hash = self.seed.hash_one(path);
        let _writing = self.writing.lock();
        let set = self.set(hash);
        let own = set.iter().find(|it| it.hash.load(Ordering::Relaxed) == hash);
        let oldest = set.iter().min_by_key(|it| it.looked.load(Ordering::Relaxed));
        let Some(place) = own.or(oldest) else { return };
        // A reader that meets a change in between sees two times, and knows nothing.
        place.looked.store(0, Ordering::Release);
        place.hash.store(hash, Ordering::Release);
        place.looked.store((now.0 + 1) << 1, Ordering::Release);
    }

    /// Notes that `path` has a file.
    pub fn forget(&self, path: &[u8]) {
        let hash = self.seed.hash_one(path);
        let _writing = self.writing.lock();
        let own = self.set(hash).iter().filter(|it| it.hash.load(Ordering::Relaxed) == hash);
        own.for_each(|it| it.looked.store(0, Ordering::Release));
    }

    /// The place of `path`, and the time of its last look.
    fn find(&self, path: &[u8]) -> Option<(&AbsentPath, u64)> {
        let hash = self.seed.hash_one(path);
        self.set(hash).iter().find_map(|it| {
            let looked = it.looked.load(Ordering::Acquire);
            let is_path = it.hash.load(Ordering::Acquire) == hash;
            (is_path && looked > CLAIMED && it.looked.load(Ordering::Acquire) == looked)
                .then_some((it, looked))
        })
    }

    fn absence(&self, looked: u64, now: Monotonic) -> Absence {
        let age = (now.0 + 1).saturating_sub(looked >> 1);
        match looked & CLAIMED {
            _ if age >= self.cache_for => Absence::Unknown,
            0 if age >= self.cache_for / 2 => Absence::Due,
            _ => Absence::Sure,
        }
    }

    /// The places of a hash.
    fn set(&self, hash: u64) -> &[AbsentPath] {
        #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
        let first = hash as usize & (ROOM - 1) & !(WAYS - 1);
        &self.paths[first..first + WAYS]
    }
}

impl AbsentPath {
    /// Claims the next check, unless another request did.
    fn claim(&self, looked: u64) -> Result<u64, u64> {
        self.looked.compare_exchange(looked, looked | CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Monotonic = Monotonic(5000);

    fn later(millis: u64) -> Monotonic {
        Monotonic(AT.0 + millis)
    }

    #[test]
    fn a_path_is_absent_for_the_time_after_a_look() {
        let absent = AbsentPaths::new(1000);
        assert!(!absent.has_now(b"/a", AT));
        absent.note(b"/a", AT);
        assert!(absent.has_now(b"/a", AT) && absent.has(b"/a", later(499)));
        assert!(!absent.has_now(b"/b", AT), "another path");
        absent.forget(b"/a");
        assert!(!absent.has_now(b"/a", AT), "a file has appeared");
    }

    #[test]
    fn one_request_checks_again_halfway() {
        let absent = AbsentPaths::new(1000);
        absent.note(b"/a", AT);
        assert!(!absent.has_now(b"/a", later(500)), "due: the request that can look does");
        assert!(!absent.has(b"/a", later(500)), "the first one");
        assert!(absent.has(b"/a", later(501)) && absent.has_now(b"/a", later(999)), "and no other");
        assert!(!absent.has_now(b"/a", later(1000)), "its look did not end: the time is over");
        absent.note(b"/a", later(1000));
        assert!(absent.has_now(b"/a", later(1499)));
    }

    #[test]
    fn with_the_clock_at_zero() {
        let absent = AbsentPaths::new(1000);
        assert!(!absent.has_now(b"/a", Monotonic(0)));
        absent.note(b"/a", Monotonic(0));
        assert!(absent.has_now(b"/a", Monotonic(0)));
    }

    #[test]
    fn many_paths_take_no_more_room_and_the_oldest_goes_first() {
        let absent = AbsentPaths::new(1000);
        let room = absent.memory();
        for at in 0..200_000_u64 {
            absent.note(format!("/random/{at}").as_bytes(), Monotonic(at / 1000));
        }
        assert_eq!(room, absent.memory());
        let known = |from: u64| {
            let paths = (from..from + 1000).map(|it| format!("/random/{it}"));
            paths.filter(|it| absent.has_now(it.as_bytes(), Monotonic(200))).count()
        };
        assert!(known(199_000) > 990, "the latest");
        assert!(known(0) < 100, "the first");
    }

    #[test]
    fn readers_meet_writers() {
        let absent = AbsentPaths::new(1000);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let absent = &absent;
                scope.spawn(move || {
                    for at in 0..20_000 {
                        absent.note(format!("/{thread}/{at}").as_bytes(), AT);
                    }
                });
            }
            for at in 0..20_000 {
                assert!(!absent.has_now(format!("/present/{at}").as_bytes(), AT));
            }
        });
    }
}
