//! Carrying out purges on what nobody asks for, so that memory comes back: a few shelves at a time, no lock held long.

use super::Seq;
use super::apply::Purges;
use crate::ram::{KeyHash, Store};
use std::sync::atomic::Ordering::Relaxed;

/// Shelves of one step.
const STEP: usize = 64;

/// The rules that are kept although everything in RAM has met them: for what was on its way before them and comes in
/// late, which must be validated once its rules are gone.
const KEEP: usize = 256;

/// How far a walk has come.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Everything in RAM has met the rules up to this one.
    done: Seq,
    walk: Option<Walk>,
}

/// A walk over all shards.
struct Walk {
    /// The last rule when it began: what comes in later has met it.
    until: Seq,
    shard: usize,
    /// Of this shard, what is still to be looked at.
    rest: Vec<u128>,
}

impl Store {
    /// Goes on applying purges to what is in RAM, so that memory comes back: `steps` times a few responses. Says
    /// whether there is more to do. No lock is held long; a timer calls it.
    pub fn sweep(&self, steps: usize) -> bool {
        // Another thread is at it.
        let Some(mut sweep) = self.purges.sweep.try_lock() else { return true };
        for _ in 0..steps {
            let seq = self.purges.seq();
            if sweep.walk.is_none() && sweep.done >= seq {
                return false;
            }
            let walk = sweep.walk.get_or_insert_with(|| self.walk(seq));
            if self.step(walk) {
                continue;
            }
            sweep.done = walk.until;
            self.purges.swept.store(sweep.done, Relaxed);
            sweep.walk = None;
            self.purges.swept(sweep.done, self);
            self.fit_policy();
        }
        sweep.walk.is_some() || sweep.done < self.purges.seq()
    }

    /// Purges that not everything in RAM has met yet.
    #[must_use]
    pub fn unswept(&self) -> u64 {
        self.purges.seq().saturating_sub(self.purges.swept.load(Relaxed))
    }

    fn walk(&self, until: Seq) -> Walk {
        // Who met the rules before the last of them, and has not put the shelf there yet, holds the books.
        drop(self.books.lock());
        Walk { until, shard: 0, rest: self.hashes_of(0) }
    }

    /// One step; says whether there is another.
    fn step(&self, walk: &mut Walk) -> bool {
        for _ in 0..STEP {
            let Some(hash) = walk.rest.pop() else { break };
            let hash = KeyHash(hash);
            if let Some(shelf) = self.any_standing(hash)
                && !shelf.has_met(walk.until)
            {
                self.meet(hash, &shelf, None);
            }
        }
        if walk.rest.is_empty() {
            walk.shard += 1;
            if walk.shard == self.shards.len() {
                return false;
            }
            walk.rest = self.hashes_of(walk.shard);
        }
        true
    }
}

impl Purges {
    /// Everything in RAM has met the rules up to `done`.
    fn swept(&self, done: Seq, store: &Store) {
        if self.forgets.load(Relaxed) {
            self.forget(done, KEEP, &store.ledger);
        }
    }
}

impl Store {
    /// There is no tier below RAM: rules that everything in RAM has met are forgotten. Not to be called where
    /// [`Store::admit`] or [`Store::admit_foreign`] ever will be.
    pub fn has_no_lower_tier(&self) {
        self.purges.forgets.store(true, Relaxed);
    }
}
