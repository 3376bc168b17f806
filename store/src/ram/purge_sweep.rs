//! Applying purges to entries that are not requested, so that their memory is freed: a few entries at a time, no lock
//! held long. `deferred_free` frees what is removed.

use super::purging::{AfterPurges, Purges, SweepWalk};
use super::{Store, Swept};
use crate::key::KeyHash;
use crate::purges::Seq;
use crate::s3fifo::WalkPosition;
use std::sync::atomic::Ordering::Relaxed;

/// The most entries of one step.
const STEP: usize = 16;

/// The number of rules that are kept although they were applied to everything in RAM: for late responses, which must be
/// validated once their rules are dropped.
const KEEP: usize = 256;

/// The number of purges that may wait for threads that are late with freeing. With more, some may have to be dropped
/// before they were applied everywhere, which costs more than freeing on another thread.
pub(crate) const MOST_BACKLOG: u64 = 8;

impl Store {
    /// Continues applying purges to RAM, so that memory is freed: `steps` steps of a few responses. No lock is held long;
    /// a timer calls it. The threads that allocated the entries free them (`deferred_free`). Where they are late this waits for
    /// them, unless many purges are to be applied.
    pub fn sweep(&self, steps: usize) -> Swept {
        // Another thread is doing it.
        let Some(mut sweep) = self.purges.sweep.try_lock() else { return Swept::More };
        for _ in 0..steps {
            let seq = self.purges.seq();
            if sweep.walk.is_none() && sweep.done >= seq {
                return Swept::Nothing;
            }
            if self.unswept() <= MOST_BACKLOG && self.deferred.are_full() {
                return Swept::Waits;
            }
            // A thread that applied earlier rules and has yet to add its entry holds the books: a step takes them, too.
            let walk = sweep.walk.get_or_insert(SweepWalk { until: seq, place: WalkPosition::default() });
            if self.step(walk) {
                continue;
            }
            sweep.done = walk.until;
            self.purges.swept.store(sweep.done, Relaxed);
            sweep.walk = None;
            self.purges.swept(sweep.done, self);
            self.fit_policy();
        }
        if sweep.walk.is_some() || sweep.done < self.purges.seq() { Swept::More } else { Swept::Nothing }
    }

    /// Purges that were not yet applied to everything in RAM.
    #[must_use]
    pub fn unswept(&self) -> u64 {
        self.purges.seq().saturating_sub(self.purges.swept.load(Relaxed))
    }

    /// One step; returns whether there is another.
    fn step(&self, walk: &mut SweepWalk) -> bool {
        let mut these = [KeyHash(0); STEP];
        let mut count = 0;
        let next = self.eviction.lock().walk(walk.place, STEP, |hash| {
            these[count] = hash;
            count += 1;
        });
        for hash in these.into_iter().take(count) {
            if let Some(entry) = self.entry_at(hash)
                && !entry.has_applied(walk.until)
                && !matches!(self.apply_rules(hash, &entry, None), AfterPurges::AsItIs)
            {
                self.deferred.leave(entry);
            }
        }
        walk.place = next.unwrap_or_default();
        next.is_some()
    }
}

impl Purges {
    /// The rules up to `done` were applied to everything in RAM.
    fn swept(&self, done: Seq, store: &Store) {
        // A process that gets the RAM tier needs the rules since its responses were sent.
        if self.forgets.load(Relaxed) && !store.eviction.lock().changed.are_recorded() {
            self.drop_applied(done, KEEP, &store.budget);
        }
    }
}

impl Store {
    /// There is no tier below RAM: rules that were applied to everything in RAM are dropped. Not to be called where
    /// [`Store::admit`] or [`Store::admit_foreign`] will ever be.
    pub fn has_no_lower_tier(&self) {
        self.purges.forgets.store(true, Relaxed);
    }
}
