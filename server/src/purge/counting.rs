//! The counts of the responses that a purge matches, before it is in force. They are bounded, since the purge waits for them; and
//! all counts together use a limited share of a processor and of the device.

use super::MatchedCount;
use super::disk_count::{DiskCount, OF_URL, count_on_disk};
use larder_stdx::clock;
use larder_store::Store;
use larder_store::disk::DiskTier;
use larder_store::purges::{PurgeMatches, PurgeRule};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The number of keys that are counted at once, at some 100 ns each; for more, a thread counts.
const FEW: u64 = 2_000;

/// Counting in RAM ends above this number of matches, so that a purge of a million responses is in force at once.
const MOST_COUNTED: u64 = 10_000;

/// Counts of more keys use one in this many microseconds of a processor, and at most this many microseconds in advance.
const COUNTING_SHARE: u64 = 10;
const COUNTING_AHEAD: u64 = 2_000_000;

/// Microseconds for which the heads of records are read for one purge: some 5,000 that are in the page cache.
const ON_DISK: u64 = 50_000;

/// Microseconds of reads in advance, as [`COUNTING_AHEAD`]: 20 purges in a row.
const READING_AHEAD: u64 = 10_000_000;

/// For a purge of a URL all keys are read if there are no more: their reads take as long as its other steps.
const FEW_ON_DISK: u64 = 256;

/// The time after which a purge no longer waits for its count on the disk, for a turn or for the device.
const DEVICE: Duration = Duration::from_millis(200);

/// The shares that counts have used.
pub(super) struct PurgeCounting {
    /// The time, in microseconds, until which the counts in RAM so far use their share.
    in_ram: Cell<u64>,
    /// The same time for counts on the disk.
    on_disk: Cell<u64>,
    /// One count at a time: a device that hangs occupies one thread.
    turn: Arc<Semaphore>,
}

impl Default for PurgeCounting {
    fn default() -> Self {
        Self { in_ram: Cell::default(), on_disk: Cell::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl PurgeCounting {
    /// The number of responses in RAM that a purge matches. They are not counted where the large counts requested so far
    /// would keep a processor busy.
    pub async fn in_ram(&self, store: &Arc<Store>, rule: &PurgeRule) -> MatchedCount {
        if store.objects() <= FEW {
            return MatchedCount::up_to(MOST_COUNTED, store.count_matched(rule, MOST_COUNTED));
        }
        let now = clock::precise_micros();
        if self.in_ram.get().saturating_sub(now) > COUNTING_AHEAD {
            return MatchedCount::Uncounted("the counts of earlier purges take too much processor time");
        }
        let (store, rule) = (store.clone(), rule.clone());
        let counted = tokio::task::spawn_blocking(move || {
            let begun = clock::precise_micros();
            let count = store.count_matched(&rule, MOST_COUNTED);
            (count, clock::precise_micros().saturating_sub(begun))
        });
        let Ok((count, took)) = counted.await else { return MatchedCount::Uncounted("the count failed") };
        use_share(&self.in_ram, now, took);
        MatchedCount::up_to(MOST_COUNTED, count)
    }

    /// The number of responses on the disk that a purge matches.
    pub async fn on_disk(&self, disk: &Arc<DiskTier>, store: &Arc<Store>, rule: &PurgeRule) -> MatchedCount {
        let now = clock::precise_micros();
        if self.on_disk.get().saturating_sub(now) > READING_AHEAD {
            return MatchedCount::Uncounted("the counts of earlier purges read too much of the disk");
        }
        let (disk, store, rule, turn) = (disk.clone(), store.clone(), rule.clone(), self.turn.clone());
        let counted = async move {
            let turn = turn.acquire_owned().await.ok()?;
            let count = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let begun = clock::precise_micros();
                let count = count_on_disk(&disk, &store, &rule, begun + ON_DISK, FEW_ON_DISK);
                (count, clock::precise_micros().saturating_sub(begun))
            });
            count.await.ok()
        };
        let Ok(Some((count, took))) = tokio::time::timeout(DEVICE, counted).await else {
            return MatchedCount::Uncounted("the disk did not respond in time");
        };
        use_share(&self.on_disk, now, took);
        match count {
            DiskCount::Exact(PurgeMatches { responses, .. }) => MatchedCount::Known(responses),
            DiskCount::OfUrl(PurgeMatches { responses, .. }) => MatchedCount::AtLeast(responses, OF_URL),
            DiskCount::Estimate { found, read, keys } => {
                MatchedCount::Estimate { count: found.responses, read, keys }
            }
        }
    }
}

fn use_share(share: &Cell<u64>, now: u64, took: u64) {
    share.set(share.get().max(now) + took.saturating_mul(COUNTING_SHARE));
}
