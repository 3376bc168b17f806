//! A fixed table from keys to one number each, shared by all threads without a lock: the arrival times of rate limits. It never
//! grows: a new key takes the place of the key in its set whose number is lowest, which is the one that was idle longest.
//!
//! A slot is two words. The word with the number also has twelve bits of the key, so that one compare-and-swap proves that the
//! slot still belongs to the key that was read; the other word has the whole key. A slot whose words disagree is being replaced
//! and belongs to no key: its key takes another slot.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// Slots of a set: two cache lines.
const WAYS: usize = 8;
/// Slots of a table.
pub const SLOTS: usize = 1 << 18;
/// Bits of the key in the word of the number.
const TAG_BITS: u32 = 12;
/// The mask of these bits.
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
/// The bits of a position in a set.
const WAY_MASK: u64 = WAYS as u64 - 1;
/// How often a change that other threads overtake is tried again. After that the event is admitted without a trace.
const TRIES: usize = 1000;

#[derive(Default)]
struct Slot {
    key: AtomicU64,
    word: AtomicU64,
}

/// Slots for keys with the same lower bits. Without the alignment a set would be in three cache lines.
#[derive(Default)]
#[repr(align(128))]
struct RateSet([Slot; WAYS]);

/// The table.
pub struct RateTable {
    sets: Box<[RateSet]>,
}

impl Default for RateTable {
    fn default() -> Self {
        Self::new(SLOTS)
    }
}

fn pack(number: u64, key: u64) -> u64 {
    number << TAG_BITS | tag(key)
}

fn tag(key: u64) -> u64 {
    key >> (u64::BITS - TAG_BITS)
}

fn number(word: u64) -> u64 {
    word >> TAG_BITS
}

impl RateTable {
    /// A table of this many slots, at least a set; rounded up to a power of two.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let sets = (slots / WAYS).max(1).next_power_of_two();
        Self { sets: (0..sets).map(|_| RateSet::default()).collect() }
    }

    /// Bytes of the table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets.len() * size_of::<RateSet>()
    }

    #[inline]
    fn set(&self, key: u64) -> &[Slot; WAYS] {
        // The upper bits are the mark.
        let at = usize::try_from(key & u64::from(u32::MAX)).unwrap_or(0) & (self.sets.len() - 1);
        &self.sets[at].0
    }

    /// The slot of a key, and its word.
    #[inline]
    fn find(set: &[Slot; WAYS], key: u64) -> Option<(&Slot, u64)> {
        let slot = set.iter().find(|it| it.key.load(Acquire) == key)?;
        let word = slot.word.load(Acquire);
        (tag(key) == word & TAG_MASK).then_some((slot, word))
    }

    /// The slot with the lowest number, and its word.
    #[inline]
    fn lowest(set: &[Slot; WAYS]) -> (&Slot, u64) {
        let words: [u64; WAYS] = std::array::from_fn(|it| set[it].word.load(Acquire));
        // With the position in place of the last bits of the tag, the minimum has no branch: among many keys it would be mispredicted.
        let places = (0..).zip(words).map(|(at, word): (u64, u64)| word & !WAY_MASK | at);
        let at = usize::try_from(places.min().unwrap_or(0) & WAY_MASK).unwrap_or(0);
        (&set[at], words[at])
    }

    /// Replaces the number of `key` by that which `rule` makes of it; 0 is that of a key without a slot. Numbers have 52 bits.
    ///
    /// # Errors
    /// That of `rule`, with nothing changed.
    pub fn change<E>(&self, key: u64, rule: impl Fn(u64) -> Result<u64, E>) -> Result<(), E> {
        let (key, set) = (key.max(1), self.set(key));
        for _ in 0..TRIES {
            if let Some((slot, word)) = Self::find(set, key) {
                let next = pack(rule(number(word))?, key);
                if slot.word.compare_exchange_weak(word, next, Release, Acquire).is_ok() {
                    return Ok(());
                }
                continue;
            }
            let next = pack(rule(0)?, key);
            let (slot, word) = Self::lowest(set);
            if slot.word.compare_exchange(word, next, Release, Acquire).is_ok() {
                slot.key.store(key, Release);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The number of `key`; 0 without a slot.
    #[must_use]
    pub fn get(&self, key: u64) -> u64 {
        let key = key.max(1);
        Self::find(self.set(key), key).map_or(0, |it| number(it.1))
    }
}

/// A fixed table of counts of what is in progress, by key. A key that finds no room is not counted.
pub struct CountTable {
    words: Box<[AtomicU64]>,
}

/// Bits of a count; the rest of its word is the key.
const COUNT_BITS: u32 = 16;
/// Slots of counts.
const COUNT_SLOTS: usize = 1 << 15;

/// The place of what was counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted(usize);

impl Default for CountTable {
    fn default() -> Self {
        Self { words: (0..COUNT_SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl CountTable {
    /// Counts one more of `key`, unless `most` are counted; `Ok(None)` without room in the table.
    ///
    /// # Errors
    /// The number that is counted already.
    pub fn enter(&self, key: u64, most: u32) -> Result<Option<Counted>, u32> {
        let tag = (key >> COUNT_BITS).max(1) << COUNT_BITS;
        let at = (usize::try_from(key & u64::from(u32::MAX)).unwrap_or(0) % (self.words.len() / WAYS)) * WAYS;
        let count = |word: u64| u32::try_from(word & ((1 << COUNT_BITS) - 1)).unwrap_or(0);
        let is_ours = |word: u64| word >> COUNT_BITS == tag >> COUNT_BITS;
        for _ in 0..TRIES {
            // Read once: a word that changes afterwards fails the swap.
            let words: [u64; WAYS] = std::array::from_fn(|it| self.words[at + it].load(Acquire));
            let set = || words.into_iter().enumerate().map(|(way, word)| (at + way, word));
            let sum: u32 = set().filter(|it| is_ours(it.1)).map(|it| count(it.1)).sum();
            if sum >= most.min(u32::from(u16::MAX)) {
                return Err(sum);
            }
            let Some((at, word)) = set().find(|it| is_ours(it.1)).or_else(|| set().find(|it| it.1 == 0))
            else {
                return Ok(None);
            };
            let next = if word == 0 { tag | 1 } else { word + 1 };
            if self.words[at].compare_exchange(word, next, Release, Acquire).is_ok() {
                return Ok(Some(Counted(at)));
            }
        }
        Ok(None)
    }

    /// Counts one less.
    pub fn leave(&self, counted: &Counted) {
        let less = |word: u64| Some(if word & ((1 << COUNT_BITS) - 1) == 1 { 0 } else { word - 1 });
        let _ = self.words[counted.0].fetch_update(Release, Acquire, less);
    }
}

#[cfg(test)]
mod tests;
