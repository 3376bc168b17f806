//! Carrying out purges on what nobody asks for, so that memory comes back: a few shelves at a time, no lock held long. Who frees
//! what is taken out is in `yards`.

use super::Seq;
use super::apply::{Met, Purges};
use crate::idle::Swept;
use crate::ram::{KeyHash, Store};
use crate::s3fifo::WalkPosition;
use std::sync::atomic::Ordering::Relaxed;

/// Shelves of one step, at most.
const STEP: usize = 16;

/// The rules that are kept although everything in RAM has met them: for what was on its way before them and comes in
/// late, which must be validated once its rules are gone.
const KEEP: usize = 256;

/// So many purges may wait for threads that are behind with freeing what was taken out. Where there are more, some may have to be let
/// go before everything has met them, which costs more than memory that another thread frees.
pub(crate) const HURRIED: u64 = 8;

/// How far a walk has come.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Everything in RAM has met the rules up to this one.
    done: Seq,
    walk: Option<SweepWalk>,
}

/// A walk over all shelves, in the order in which they came, about: so neighbours in memory go one after the other, and memory
/// comes back from the first of them on. In the order of hashes each page of the allocator has something of nearly all of it.
struct SweepWalk {
    /// The last rule when it began: what comes in later has met it.
    until: Seq,
    place: WalkPosition,
}

impl Store {
    /// Goes on applying purges to what is in RAM, so that memory comes back: `steps` times a few responses. No lock is
    /// held long; a timer calls it. What it takes out is freed by the threads that made it (`yards`), and where they are behind it
    /// waits for them, unless many purges are to be applied.
    pub fn sweep(&self, steps: usize) -> Swept {
        // Another thread is at it.
        let Some(mut sweep) = self.purges.sweep.try_lock() else { return Swept::More };
        for _ in 0..steps {
            let seq = self.purges.seq();
            if sweep.walk.is_none() && sweep.done >= seq {
                return Swept::Nothing;
            }
            if self.unswept() <= HURRIED && self.yards.are_full() {
                return Swept::Waits;
            }
            // Who met the rules before the last of them, and has not put the shelf there yet, holds the books: a step takes them.
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

    /// Purges that not everything in RAM has met yet.
    #[must_use]
    pub fn unswept(&self) -> u64 {
        self.purges.seq().saturating_sub(self.purges.swept.load(Relaxed))
    }

    /// One step; says whether there is another.
    fn step(&self, walk: &mut SweepWalk) -> bool {
        let mut these = [KeyHash(0); STEP];
        let mut count = 0;
        let next = self.books.lock().walk(walk.place, STEP, |hash| {
            these[count] = hash;
            count += 1;
        });
        for hash in these.into_iter().take(count) {
            if let Some(shelf) = self.any_standing(hash)
                && !shelf.has_met(walk.until)
                && !matches!(self.meet(hash, &shelf, None), Met::AsItIs)
            {
                self.yards.leave(shelf);
            }
        }
        walk.place = next.unwrap_or_default();
        next.is_some()
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
