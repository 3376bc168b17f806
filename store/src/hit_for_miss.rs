//! Hit-for-miss: keys whose answers are known not to be shared for a while, so that requests do not wait for each other.
//! A purge that names the key ends the memory.

use crate::purges::Seq;
use crate::ram::{KeyHash, Lookup, Store};
use larder_stdx::as_is::AsIs;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

/// The cost of one remembered key.
pub(crate) const MISS_COST: u64 = 96;

/// The misses of one shard.
#[derive(Default)]
pub(crate) struct HitForMissTable {
    known: HashMap<u128, HitForMiss, BuildHasherDefault<AsIs>>,
    order: VecDeque<u128>,
    most: usize,
}

/// A remembered answer that was not shared.
#[derive(Clone, Copy)]
struct HitForMiss {
    until: u64,
    /// The last purge in force when it was requested.
    born: Seq,
}

enum Remembered {
    OneMore,
    InPlace,
}

impl Store {
    /// Remembers until `until` (milliseconds of the clock of [`Store::lookup`]) that answers under a key are not shared.
    /// The answer that showed it was requested when `born` was the last purge. Bounded: the oldest memory is dropped
    /// first.
    pub fn remember_miss(&self, hash: KeyHash, born: Seq, until: u64) {
        match self.shard(hash).write().misses.remember(hash, HitForMiss { until, born }) {
            Remembered::OneMore => self.budget.charge(MISS_COST),
            Remembered::InPlace => {}
        }
    }

    /// The state of a key without stored responses. Only the hash is remembered: two keys with the same hash would go
    /// alone, nothing more.
    pub(crate) fn look_for_miss(
        &self,
        misses: &HitForMissTable,
        hash: KeyHash,
        key: &[u8],
        now: u64,
    ) -> Lookup {
        match misses.known(hash, now) {
            Some(miss) if !self.purges.has_named(key, miss.born) => Lookup::HitForMiss,
            _ => Lookup::Nothing,
        }
    }
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

    fn known(&self, hash: KeyHash, now: u64) -> Option<&HitForMiss> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&hash.0).filter(|it| now < it.until)
    }

    fn remember(&mut self, hash: KeyHash, miss: HitForMiss) -> Remembered {
        if self.known.insert(hash.0, miss).is_some() {
            return Remembered::InPlace;
        }
        self.order.push_back(hash.0);
        if self.known.len() <= self.most {
            return Remembered::OneMore;
        }
        if let Some(oldest) = self.order.pop_front() {
            self.known.remove(&oldest);
        }
        Remembered::InPlace
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
