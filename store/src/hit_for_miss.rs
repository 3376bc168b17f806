//! Hit-for-miss: keys whose answers are known not to be shared for a while, so that requests do not wait for each other.
//! A purge that names the key ends the memory.

use crate::key::KeyHash;
use larder_purge_log::Seq;
use larder_stdx::identity_hasher::IdentityHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

/// The cost of one remembered key.
pub(crate) const MISS_COST: u64 = 96;

/// The misses of one shard.
#[derive(Default)]
pub(crate) struct HitForMissTable {
    known: HashMap<u128, HitForMiss, BuildHasherDefault<IdentityHasher>>,
    order: VecDeque<u128>,
    most: usize,
}

/// A remembered answer that was not shared.
#[derive(Clone, Copy)]
pub(crate) struct HitForMiss {
    /// Until when, milliseconds of the clock of [`crate::ram::Store::lookup`].
    pub until: u64,
    /// The last purge in force when it was requested.
    pub epoch: Seq,
}

/// The effect of a new memory on the size of the table.
pub(crate) enum Remembered {
    /// One more is remembered.
    Added,
    /// Another has gone for it.
    Replaced,
}

impl HitForMissTable {
    /// An empty table of at most `most` keys.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Its cost.
    pub fn cost(&self) -> u64 {
        self.known.len() as u64 * MISS_COST
    }

    /// The memory of a key that holds at `now`.
    pub fn known(&self, hash: KeyHash, now: u64) -> Option<&HitForMiss> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&hash.0).filter(|it| now < it.until)
    }

    /// Adds a memory.
    pub fn remember(&mut self, hash: KeyHash, miss: HitForMiss) -> Remembered {
        if self.known.insert(hash.0, miss).is_some() {
            return Remembered::Replaced;
        }
        self.order.push_back(hash.0);
        if self.known.len() <= self.most {
            return Remembered::Added;
        }
        if let Some(oldest) = self.order.pop_front() {
            self.known.remove(&oldest);
        }
        Remembered::Replaced
    }

    /// Removes a key; returns whether it was there.
    pub fn forget(&mut self, hash: KeyHash) -> bool {
        if self.known.is_empty() || self.known.remove(&hash.0).is_none() {
            return false;
        }
        self.order.retain(|it| *it != hash.0);
        true
    }
}
