//! What the beginning of a body was, in 16 bytes: so that one who was left behind can find out whether another response begins
//! with the bytes that were sent already. Only bodies without a strong tag, that are not kept and that several
//! read, are summed up; one that is kept costs nothing. Which responses may be tried is decided in `semantics::resume`.

use super::{Chunk, Fill, FillState, FillWriter, SharedHead};
use crate::ram::Store;
use bytes::Bytes;
use larder_semantics::resume;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are summed up before others have their turn: about a tenth of a millisecond.
const TURN: usize = 1 << 20;

/// The sum of some bytes, under a secret of this process: two beginnings with one sum are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixSum(u128);

/// A sum on its way, byte by byte in order.
pub struct RunningPrefixSum(Box<Xxh3>);

impl Store {
    /// The sum of nothing, to be added to; comparable with what any fill of this store says.
    #[must_use]
    pub fn summing(&self) -> RunningPrefixSum {
        RunningPrefixSum(Box::new(Xxh3::with_secret(*self.secret)))
    }
}

impl RunningPrefixSum {
    /// Takes in the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all so far.
    #[must_use]
    pub fn sum(&self) -> PrefixSum {
        PrefixSum(self.0.digest128())
    }
}

/// How far a fill's writer is with it.
pub(super) enum PrefixSums {
    /// The body is kept, so nobody can be left behind by it.
    NotYet,
    /// It has all that was pushed.
    Going(RunningPrefixSum),
    /// Nobody reads this but one, or it has a strong tag.
    Never,
}

impl FillWriter {
    /// Sums up what has come, and notes what every reader has been given; while all of it is held still.
    pub(super) async fn sum_up(&self) -> PrefixSums {
        let Some((chunks, mut stands)) = self.fill.beginning() else { return PrefixSums::Never };
        let mut summing = self.fill.store.summing();
        let (mut ends, mut at, mut turn) = (Vec::with_capacity(chunks.len()), 0, 0);
        let mut early = BTreeMap::from([(0, summing.sum())]);
        stands.retain(|it| *it > 0);
        let mut stands = stands.into_iter().peekable();
        for chunk in chunks {
            let end = at + chunk.len() as u64;
            let mut from = 0;
            while let Some(stand) = stands.next_if(|it| *it < end) {
                let to = usize::try_from(stand - at).unwrap_or(chunk.len());
                summing.add(&chunk[from..to]);
                early.insert(stand, summing.sum());
                from = to;
            }
            summing.add(&chunk[from..]);
            ends.push(summing.sum());
            (at, turn) = (end, turn + chunk.len());
            if turn >= TURN {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        self.fill.state.lock().note_sums(&ends, early);
        PrefixSums::Going(summing)
    }

    /// The sum with the bytes that are about to be added.
    pub(super) fn sum_with(&mut self, bytes: &[u8]) -> Option<PrefixSum> {
        if let PrefixSums::Going(_) = self.sums
            && self.readers() < 2
        {
            self.sums = PrefixSums::Never; // Nobody is to be waited for any more, or left behind.
        }
        let PrefixSums::Going(summing) = &mut self.sums else { return None };
        summing.add(bytes);
        Some(summing.sum())
    }
}

impl Fill {
    /// All that has come, and where its readers stand; `None` where that need not be known.
    fn beginning(&self) -> Option<(Vec<Bytes>, Vec<u64>)> {
        let state = self.state.lock();
        let is_held = state.chunks.front().map_or(state.length == 0, |it| it.start == 0);
        // By a strong tag the rest can be had without.
        let needs = |head: Arc<SharedHead>| resume::tag(&head.meta).is_none();
        (is_held && state.readers > 1 && state.shared_head().is_some_and(needs)).then(|| {
            let chunks = state.chunks.iter().filter_map(Chunk::bytes).cloned().collect();
            (chunks, state.positions.keys().copied().collect())
        })
    }
}

impl FillState {
    /// Notes the sums up to the end of each chunk, and where those stand who were between two: whoever has read on
    /// meanwhile stands at the end of one.
    fn note_sums(&mut self, ends: &[PrefixSum], early: BTreeMap<u64, PrefixSum>) {
        debug_assert_eq!(self.chunks.len(), ends.len(), "only the writer adds, and nothing was let go");
        self.early = early;
        for (chunk, sum) in self.chunks.iter_mut().zip(ends) {
            chunk.sum = Some(*sum);
            if self.positions.contains_key(&chunk.end()) {
                self.early.insert(chunk.end(), *sum);
            }
        }
    }
}
