//! Counts the records on the disk that a purge matches. The index has no keys, tags or fields, so the heads of records are
//! read, as many as the time allows. Keys are read in the order of their hashes, which is independent of their content: those
//! that were read are a fair sample of the rest.

use super::DiskTier;
use super::index::SlotSummary;
use crate::purges::{PurgeMatches, PurgeRule};
use crate::ram::Store;
use larder_stdx::clock::precise_micros;

/// Keys that are read however late it is.
const LEAST: u64 = 16;

/// The result of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskMatches {
    /// The matching responses among those that were read, without purged ones.
    pub found: PurgeMatches,
    /// Keys on the disk.
    pub keys: u64,
    /// Keys whose heads were read.
    pub read: u64,
}

impl DiskMatches {
    /// Whether the heads of all keys were read, and the count is exact.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.read == self.keys
    }

    /// The count for all keys, estimated from those that were read.
    #[must_use]
    pub fn estimate(&self) -> PurgeMatches {
        let scaled = |it: u64| {
            let whole = u128::from(it) * u128::from(self.keys) / u128::from(self.read.max(1));
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        PurgeMatches { responses: scaled(self.found.responses), bytes: scaled(self.found.bytes) }
    }
}

impl DiskTier {
    /// Counts the responses on the disk that `rule` matches and to which no purge known to `store` applies. Reads on this thread,
    /// which may wait for the device: until the monotonic microsecond `until`. No use is counted.
    #[must_use]
    pub fn count_until(&self, store: &Store, rule: &PurgeRule, until: u64) -> DiskMatches {
        let matcher = store.matcher(rule);
        let mut walk = MatchWalk::default();
        let see = |walk: &mut MatchWalk, it: SlotSummary| {
            walk.counted.keys += 1;
            if !walk.is_over {
                walk.hashes.push(it.hash);
            }
        };
        let read = |MatchWalk { counted: count, hashes, is_over }: &mut MatchWalk| {
            for hash in hashes.drain(..) {
                *is_over = count.read >= LEAST && precise_micros() >= until;
                if *is_over {
                    break;
                }
                count.read += 1;
                let Some(key) = self.found(store, hash, |_| true) else { continue };
                let matching = key.variants.iter().filter(|it| matcher.matches(&key.key, it));
                matching.for_each(|it| count.found.add(it));
            }
        };
        self.base().index.each_key(&mut walk, see, read);
        walk.counted
    }

    /// The same for the responses under one key: only their heads are read.
    #[must_use]
    pub fn count_key(&self, store: &Store, rule: &PurgeRule, key: &[u8]) -> PurgeMatches {
        let matcher = store.matcher(rule);
        let mut found = PurgeMatches::default();
        if let Some(of) = self.found(store, self.base().hash(key), |it| it == key) {
            of.variants.iter().filter(|it| matcher.matches(&of.key, it)).for_each(|it| found.add(it));
        }
        found
    }
}

/// A walk over the index.
#[derive(Default)]
struct MatchWalk {
    counted: DiskMatches,
    /// The keys of one shard, which are read when its lock is free.
    hashes: Vec<u64>,
    is_over: bool,
}
