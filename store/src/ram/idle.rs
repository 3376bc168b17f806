//! Eviction of entries that were not requested for a while, so that a quiet process becomes small: a few entries at a
//! time, no lock held long. It only happens when called; `s3fifo` evicts for room.
//!
//! Time is counted in ticks; after `TICKS` of them without use an entry is idle. A use stores the tick only if it differs
//! from the last use's: a hot entry is written once a tick.

use super::evicted::Evicted;
use super::{RamShard, Store};
use crate::key::{KeyHash, PackedHash};
use larder_semantics::freshness::Freshness;
use larder_semantics::miss_reason::RemovalCause;
use larder_stdx::clock::{self, WallTime};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Ticks after which an entry is idle.
const TICKS: u8 = 8;

/// Entries that are removed under one lock of the books.
const BATCH: usize = 32;

/// The progress of idle eviction.
#[derive(Default)]
pub(crate) struct IdleProgress {
    /// The time of the last tick.
    last: Option<WallTime>,
    walk: Option<IdleWalk>,
}

/// A walk over all shards.
struct IdleWalk {
    shard: usize,
    /// The idle entries of this shard that are still there.
    rest: Vec<PackedHash>,
    /// The number of removed entries.
    gone: usize,
}

/// The remaining work of a sweep, this or one of purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// More at once.
    More,
    /// More, after the owning threads have freed what was removed before: see `deferred_free`.
    Waits,
    /// Nothing before the next tick.
    Nothing,
    /// Nothing before the next tick; the evictions have left room that the allocator should return.
    Room,
}

impl Store {
    /// Evicts entries that were not used for `idle`, at the latest an eighth later, in `steps` steps of a few entries:
    /// for a timer, some times a second. Time is the wall clock's; if that goes back, ticks wait.
    pub fn sweep_idle(&self, idle: Duration, now: WallTime, steps: usize) -> Swept {
        // Another thread is doing it.
        let Some(mut state) = self.idle.try_lock() else { return Swept::Nothing };
        if state.walk.is_none() {
            let last = *state.last.get_or_insert(now);
            let period = (idle.as_secs() / u64::from(TICKS)).max(1);
            let ticks = now.seconds_since(last) / period;
            if now < last {
                state.last = Some(now);
            }
            if ticks == 0 {
                return Swept::Nothing;
            }
            state.last = Some(WallTime(last.0 + ticks * period));
            // However much time has passed since the last call: an entry used just before that is not idle yet.
            let ticks = u8::try_from(ticks).unwrap_or(u8::MAX).min(TICKS);
            self.purges.advance_tick(ticks);
            state.walk = Some(IdleWalk { shard: 0, rest: self.idle_of(0), gone: 0 });
        }
        for _ in 0..steps {
            if self.deferred.are_full() {
                return Swept::Waits;
            }
            let Some(walk) = &mut state.walk else { break };
            if self.idle_step(walk) {
                continue;
            }
            let gone = walk.gone;
            state.walk = None;
            self.fit_policy();
            return if gone > 0 { Swept::Room } else { Swept::Nothing };
        }
        Swept::More
    }

    /// No entry becomes idle: for a timer, in place of [`Store::sweep_idle`].
    pub fn sweep_nothing_idle(&self) {
        if let Some(mut state) = self.idle.try_lock() {
            *state = IdleProgress::default();
        }
    }

    /// One step; returns whether there is another.
    fn idle_step(&self, walk: &mut IdleWalk) -> bool {
        if walk.rest.is_empty() {
            self.fit(walk.shard);
            walk.shard += 1;
            if walk.shard == self.shards.len() {
                return false;
            }
            walk.rest = self.idle_of(walk.shard);
            return true;
        }
        let from = walk.rest.len().saturating_sub(BATCH);
        let gone = self.evict_idle(walk.rest.drain(from..));
        walk.gone += gone.len();
        let responses: usize = gone.iter().map(|it| it.entry.variants.len()).sum();
        self.offer(&gone);
        let now = clock::wall();
        for it in &gone {
            let is_fresh =
                it.entry.variants.iter().any(|it| matches!(it.meta.freshness(now), Freshness::Fresh { .. }));
            // A longer `cache.ram.idle` would keep a page that is over.
            self.removed_keys
                .add(it.hash.0, if is_fresh { RemovalCause::Idle } else { RemovalCause::Expired });
        }
        self.counters.cache_idle_evictions.add_shared(responses as u64);
        gone.into_iter().for_each(|it| self.deferred.leave(it.entry));
        true
    }

    /// The hashes of the idle entries in a shard.
    fn idle_of(&self, shard: usize) -> Vec<PackedHash> {
        let tick = self.purges.tick();
        let shard = self.shards[shard].read();
        shard.slots.iter().filter(|it| is_idle(it.1.used.load(Relaxed), tick)).map(|it| *it.0).collect()
    }

    /// Removes those of these entries that are still idle.
    fn evict_idle(&self, these: impl Iterator<Item = PackedHash>) -> Vec<Evicted> {
        let mut eviction = self.eviction.lock();
        let tick = self.purges.tick();
        let still_idle = |it: &KeyHash| {
            let used = |shard: &RamShard| shard.slots.get(&it.packed()).map(|it| it.used.load(Relaxed));
            self.with_shard(*it, used).is_some_and(|used| is_idle(used, tick))
        };
        let mut out = |hash| {
            let entry = self.remove_from_index(&mut eviction, hash)?;
            Some(Evicted { entry, hash, since: self.removals(hash) })
        };
        these.map(PackedHash::whole).filter(still_idle).filter_map(&mut out).collect()
    }
}

fn is_idle(used: u8, tick: u8) -> bool {
    tick.wrapping_sub(used) > TICKS
}

#[cfg(test)]
#[path = "idle/tests.rs"]
mod tests;
