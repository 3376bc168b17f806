//! Fingerprints of keys that have left RAM, with the cause, so that a miss can be called evicted, purged or the first.
//! A table of fixed size: written at removals, read at misses, and never at a hit.
//!
//! A set has four entries of 32 bits: 28 bits of the key's hash and the cause. A new key takes the place of the oldest of its
//! set. A key that never was in RAM is taken for one of these with a probability of at most 4 in 2^28, and a removed key is forgotten after
//! some as many removals as the table has entries.

use larder_semantics::miss_reason::RemovalCause;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Entries of a set.
const WAYS: usize = 4;

/// Entries of the largest table: 256 KiB.
const MOST: usize = 1 << 16;

/// Entries of the smallest table: 16 KiB.
const LEAST: usize = 1 << 12;

/// Bytes of the RAM budget for each entry: a thousandth of it is for the table, within these bounds.
const BUDGET_OF_ENTRY: u64 = 4096;

/// The bits of an entry that are of the hash.
const TAG: u32 = !0b1111;

/// The table of one store.
pub(crate) struct RemovedKeys(Box<[AtomicU32]>);

impl RemovedKeys {
    /// An empty table for this budget of RAM.
    pub fn new(budget: u64) -> Self {
        let entries = usize::try_from(budget / BUDGET_OF_ENTRY).unwrap_or(MOST).clamp(LEAST, MOST);
        Self((0..entries.next_power_of_two()).map(|_| AtomicU32::new(0)).collect())
    }

    fn set_of(&self, hash: u128) -> (&[AtomicU32], u32) {
        #[allow(clippy::cast_possible_truncation, reason = "bits of a hash")]
        let (place, tag) = ((hash >> 32) as u32 as usize, hash as u32 & TAG);
        let first = place % (self.0.len() / WAYS) * WAYS;
        (&self.0[first..first + WAYS], tag)
    }

    /// A key has left RAM. Two threads that write to one set at once may lose an entry.
    pub fn add(&self, hash: u128, cause: RemovalCause) {
        let (set, tag) = self.set_of(hash);
        let mut moved = tag | code(cause);
        // The newest is the first; the others move by one place, up to that of the same key.
        for entry in set {
            let before = entry.swap(moved, Relaxed);
            if before == 0 || before & TAG == tag {
                return;
            }
            moved = before;
        }
    }

    /// A key is in RAM again.
    pub fn forget(&self, hash: u128) {
        let (set, tag) = self.set_of(hash);
        for entry in set {
            let held = entry.load(Relaxed);
            if held & TAG == tag && held != 0 {
                let _ = entry.compare_exchange(held, 0, Relaxed, Relaxed);
            }
        }
    }

    /// The remembered keys that were evicted and are not in RAM again.
    pub fn evicted(&self) -> usize {
        self.0.iter().map(|it| it.load(Relaxed)).filter(|it| it & !TAG == code(RemovalCause::Evicted)).count()
    }

    /// The cause of the last removal of a key, if it is remembered.
    pub fn find(&self, hash: u128) -> Option<RemovalCause> {
        let (set, tag) = self.set_of(hash);
        let found = set.iter().map(|it| it.load(Relaxed)).find(|it| it & TAG == tag && it & !TAG != 0)?;
        Some(cause_of(found))
    }
}

/// Never zero: an entry of zero is empty.
fn code(cause: RemovalCause) -> u32 {
    match cause {
        RemovalCause::Evicted => 1,
        RemovalCause::Expired => 2,
        RemovalCause::Idle => 3,
        RemovalCause::Purged => 4,
    }
}

fn cause_of(entry: u32) -> RemovalCause {
    match entry & !TAG {
        1 => RemovalCause::Evicted,
        2 => RemovalCause::Expired,
        3 => RemovalCause::Idle,
        _ => RemovalCause::Purged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u128 {
        xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes())
    }

    #[test]
    fn the_last_cause_is_remembered() {
        let keys = RemovedKeys::new(64 << 20);
        assert_eq!(None, keys.find(hash(1)));
        for cause in [RemovalCause::Evicted, RemovalCause::Expired, RemovalCause::Idle, RemovalCause::Purged]
        {
            keys.add(hash(1), cause);
            assert_eq!(Some(cause), keys.find(hash(1)));
        }
        keys.add(hash(1), RemovalCause::Evicted);
        assert_eq!(1, keys.evicted(), "each key counts once");
        let held = || keys.0.iter().filter(|it| it.load(Relaxed) != 0).count();
        assert_eq!(1, held(), "one key takes one place");
        keys.forget(hash(2));
        assert_eq!(1, held());
        keys.forget(hash(1));
        assert_eq!((0, None), (keys.evicted(), keys.find(hash(1))));
    }

    /// The figures of the decision page: the size, the number of remembered keys, and the share of first requests that are called evicted.
    #[test]
    fn bounded_and_hardly_ever_wrong() {
        let keys = RemovedKeys::new(1 << 40);
        assert_eq!(256 << 10, size_of_val(&*keys.0));
        assert_eq!(16 << 10, size_of_val(&*RemovedKeys::new(0).0));
        (0..1_000_000).for_each(|it| keys.add(hash(it), RemovalCause::Evicted));
        let known =
            |numbers: std::ops::Range<u64>| numbers.filter(|it| keys.find(hash(*it)).is_some()).count();
        let recent = known(1_000_000 - 32_768..1_000_000);
        assert!(recent > 29_000, "{recent} of the last 32,768");
        let wrong = known(2_000_000..3_000_000);
        assert!(wrong <= 2, "{wrong} of a million that were never there");
    }
}
