//! The index of the RAM tier: shards, each under a lock of its own, and the books, which only one thread at a time changes.

use crate::changed_keys::ChangedKeys;
use crate::entry::Entry;
use crate::hit_for_miss::HitForMissTable;
use crate::key::{KeyHash, PackedHash};
use crate::memory_budget::{MemoryBudget, on_heap};
use crate::s3fifo::{S3Fifo, WalkPosition, table_bytes};
use larder_stdx::identity_hasher::IdentityHasher;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

#[derive(Default)]
pub(crate) struct RamShard {
    pub(crate) slots: HashMap<PackedHash, Entry, BuildHasherDefault<IdentityHasher>>,
    pub(crate) misses: HitForMissTable,
    /// The bytes charged to the budget for the table.
    pub(super) footprint: u64,
}

/// The data that only one thread at a time may change.
pub(crate) struct EvictionState {
    pub(super) policy: S3Fifo<PackedHash, BuildHasherDefault<IdentityHasher>>,
    /// The bytes charged to the budget for the policy.
    pub(super) footprint: u64,
    /// See [`ChangedKeys`].
    pub(crate) changed: ChangedKeys,
}

impl EvictionState {
    pub(super) fn new(budget: u64) -> Self {
        Self { policy: S3Fifo::new(budget), footprint: 0, changed: ChangedKeys::default() }
    }

    /// Visits the next entries of a walk over all: see [`S3Fifo::walk`].
    pub(crate) fn walk(
        &self,
        from: WalkPosition,
        places: usize,
        mut each: impl FnMut(KeyHash),
    ) -> Option<WalkPosition> {
        self.policy.walk(from, places, |hash| each(hash.whole()))
    }

    /// The number of entries in the store.
    pub(crate) fn objects(&self) -> usize {
        self.policy.len()
    }

    /// Charges the policy's current size to the budget.
    pub(super) fn settle(&mut self, budget: &MemoryBudget) {
        let now = self.policy.footprint();
        budget.settle(&mut self.footprint, now);
    }
}

impl RamShard {
    /// Removes an entry, and frees the table's memory where little of it is used.
    pub(super) fn take(&mut self, hash: PackedHash, budget: &MemoryBudget) -> Option<Entry> {
        let entry = self.slots.remove(&hash)?;
        budget.responses.take(u64::from(entry.charged));
        budget.release(u64::from(entry.charged));
        if self.slots.capacity() > 4 * self.slots.len().max(8) {
            self.slots.shrink_to(2 * self.slots.len());
        }
        self.settle(budget);
        Some(entry)
    }

    /// Charges the table's current size to the budget.
    pub(super) fn settle(&mut self, budget: &MemoryBudget) {
        let now = on_heap(table_bytes::<(PackedHash, Entry)>(self.slots.capacity()));
        budget.settle(&mut self.footprint, now);
    }
}
