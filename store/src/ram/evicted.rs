//! Eviction from RAM to disk: a response that leaves RAM, was meant for the disk tier and is missing there is offered
//! once more. Most were written when they were stored. `s3fifo` and `idle` evict; `disk` writes.

use super::{Removals, Store};
use crate::disk::DiskTier;
use crate::entry::{Entry, StoredArc, StoredBody};
use crate::key::KeyHash;
use larder_semantics::advice::NeededPages;
use larder_semantics::freshness::Freshness;
use larder_semantics::miss_reason::RemovalCause;
use larder_semantics::purged::PurgeVerdict;
use larder_semantics::tiers;
use larder_stdx::clock;
use std::sync::Arc;

/// An entry that has left RAM.
pub(crate) struct Evicted {
    pub entry: Entry,
    pub hash: KeyHash,
    /// The removals so far when it left: taken while no removal could occur.
    pub since: Removals,
}

impl Store {
    /// Offers evictions to this disk tier from now on, if it lacks them; and enters the tier's memory for large bodies in
    /// the store's budget. The write queue is a part of RAM, whose room it takes meanwhile: an eighth of the budget at
    /// most. Called once; the store does not own the tier.
    pub fn evict_to(&self, disk: &Arc<DiskTier>) {
        disk.queue_at_most(self.budget.limit() / 8);
        let _ = self.disk_tier.set(Arc::downgrade(disk));
        disk.charge_to(&self.budget);
    }

    /// Offers to the disk tier what it should have and lacks: because its queue was full, it was off or slow, or it has
    /// dropped the record since. Purged and useless responses are not offered. Called without any lock.
    pub(crate) fn offer(&self, gone: &[Evicted]) {
        let Some(disk) = self.disk_tier.get().and_then(std::sync::Weak::upgrade) else { return };
        if !disk.is_on() {
            return;
        }
        let now = clock::wall();
        for it in gone {
            for stored in it.entry.variants.iter().rev() {
                if disk.lacks(it.entry.key(), stored) && tiers::is_worth_keeping(&stored.meta, now) {
                    self.offer_one(&disk, it, stored);
                }
            }
        }
    }

    /// Why this key left RAM, as far as that is remembered. For a key without an entry.
    #[must_use]
    pub fn removal_cause(&self, hash: KeyHash) -> Option<RemovalCause> {
        self.removed_keys.find(hash.0)
    }

    /// The pages of RAM, and those that it lacks because they were lately evicted while they were fresh.
    #[must_use]
    pub fn needed_pages(&self) -> NeededPages {
        let (evicted, stored) = (self.removed_keys.evicted() as u64, self.used());
        let mean = stored.checked_div(self.objects()).unwrap_or(0);
        NeededPages { evicted, evicted_bytes: evicted.saturating_mul(mean), stored }
    }

    /// Counts evicted responses, and remembers their keys.
    pub(crate) fn count_evicted(&self, gone: &[Evicted]) {
        let now = clock::wall();
        let (mut responses, mut fresh, mut seconds) = (0, 0, 0);
        for it in gone {
            let is_fresh = |it: &&StoredArc| matches!(it.meta.freshness(now), Freshness::Fresh { .. });
            let of_key = it.entry.variants.iter().filter(is_fresh).count();
            responses += it.entry.variants.len();
            seconds +=
                it.entry.variants.iter().map(|it| now.0.saturating_sub(it.meta.response_time.0)).sum::<u64>();
            fresh += of_key;
            self.removed_keys
                .add(it.hash.0, if of_key > 0 { RemovalCause::Evicted } else { RemovalCause::Expired });
        }
        self.counters.cache_evictions.add_shared(responses as u64);
        self.counters.cache_evictions_fresh.add_shared(fresh as u64);
        self.counters.cache_evicted_seconds.add_shared(seconds);
    }

    fn offer_one(&self, disk: &DiskTier, it: &Evicted, stored: &StoredArc) {
        let key = it.entry.key();
        // A response that no lookup has checked since a purge may be purged.
        if self.purges.verdict(key, stored, it.entry.applied()).0 != PurgeVerdict::Keep {
            return;
        }
        let in_arena = if let StoredBody::Arena(slice) = &stored.body { slice.length } else { 0 };
        let Some(leaving) = self.budget.leave(stored.heap_cost(), in_arena) else {
            return self.counters.disk_evicted_refused.add_shared(1);
        };
        // A removal counts first and reaches the disk afterwards.
        disk.take(key, stored, Some(leaving), || self.removals(it.hash) != it.since);
    }
}
