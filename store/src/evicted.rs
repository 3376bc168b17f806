//! RAM evicts to disk: what leaves RAM and was meant for the disk tier, and is not there, is offered to it once more. Most is
//! there: it was written when it was stored. Who leaves RAM is in `s3fifo` and `idle`; how it is written, in `disk`.

use crate::disk::DiskTier;
use crate::entry::{Entry, StoredArc, StoredBody};
use crate::ram::{KeyHash, Removals, Store};
use larder_semantics::purged::PurgeVerdict;
use larder_semantics::tiers;
use larder_stdx::clock;
use std::sync::Arc;

/// A shelf that has left RAM.
pub(crate) struct Evicted {
    pub shelf: Entry,
    pub hash: KeyHash,
    /// What had been removed when it left: taken while nothing could be.
    pub since: Removals,
}

impl Store {
    /// What is evicted from now on goes to this disk tier, if it lacks it; and what of memory the tier takes for bodies on
    /// their way is in the store's books. What waits to be written is a part of RAM, which has no room for others meanwhile: an eighth of
    /// the budget at most. Once for all; the store does not keep the tier.
    pub fn evict_to(&self, disk: &Arc<DiskTier>) {
        disk.queue_at_most(self.ledger.budget() / 8);
        let _ = self.below.set(Arc::downgrade(disk));
        disk.count_in(&self.ledger);
    }

    /// Offers to the disk tier what it was to have and has not: because its queue was full then, or it was off, or slow,
    /// or has dropped it since. Not what was purged, and not what is of no use any more. Called without any lock.
    pub(crate) fn offer(&self, gone: &[Evicted]) {
        let Some(disk) = self.below.get().and_then(std::sync::Weak::upgrade) else { return };
        if !disk.is_on() {
            return;
        }
        let now = clock::wall();
        for it in gone {
            for stored in it.shelf.variants.iter().rev() {
                if disk.lacks(it.shelf.key(), stored) && tiers::is_worth_keeping(&stored.meta, now) {
                    self.offer_one(&disk, it, stored);
                }
            }
        }
    }

    fn offer_one(&self, disk: &DiskTier, it: &Evicted, stored: &StoredArc) {
        let key = it.shelf.key();
        // What no lookup has met since a purge may be what was purged.
        if self.purges.verdict(key, stored, it.shelf.met()).0 != PurgeVerdict::Keep {
            return;
        }
        let in_arena = if let StoredBody::Arena(slice) = &stored.body { slice.length } else { 0 };
        let Some(leaving) = self.ledger.leave(stored.heap_cost(), in_arena) else {
            return self.counters.disk_evicted_refused.add_shared(1);
        };
        // Whoever removes it counts that first, and tells the disk after.
        disk.take(key, stored, Some(leaving), || self.removals(it.hash) != it.since);
    }
}
