//! The heaviest keys of a stream in bounded memory: a space-saving sketch (Metwally, Agrawal and El Abbadi, *Efficient
//! Computation of Frequent and Top-k Elements in Data Streams*, 2005), weighted. The callers that feed it are not here.
//!
//! Every key is counted; in a full sketch it replaces the lightest key, and takes its weight as error bound. So a weight
//! is never too small, and too large by its error at most. The stream is split by hash into sets of [`WAYS`] slots, each
//! a sketch of its own: an update reads one set, which is a few cache lines without a heap or ordered list. The tests
//! measure the loss of exactness; the reasons are in docs/decisions/0100.

use std::collections::HashMap;
use std::hint::black_box;

/// Slots in a set.
pub const WAYS: usize = 16;

/// The number of bytes of a text that are kept, from its beginning.
pub const TEXT: usize = 159;

/// Bytes of one slot: hash, weight and error, and the text with its length.
pub const PLACE: usize = 3 * 8 + TEXT + 1;

/// Words of a set in `Top::numbers`: all its hashes, then all weights, then all errors.
const WORDS: usize = 3 * WAYS;

/// The entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopSubject {
    /// URLs.
    Urls,
    /// Addresses of clients; of IPv6 networks of a /64.
    Clients,
}

impl TopSubject {
    /// Their names in the API.
    pub const NAMES: [&'static str; 2] = ["urls", "clients"];

    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// That with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [TopSubject::Urls, TopSubject::Clients].into_iter().find(|it| it.name() == name)
    }
}

/// The order of entries; each order has a sketch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopOrder {
    /// Its requests.
    Requests,
    /// Requests without a usable stored response.
    Misses,
    /// Bytes of bodies sent.
    Bytes,
    /// Microseconds until the origin's heads arrived.
    OriginTime,
}

impl TopOrder {
    /// All, in the order of sketches, keys and lists.
    pub const ALL: [TopOrder; 4] =
        [TopOrder::Requests, TopOrder::Misses, TopOrder::Bytes, TopOrder::OriginTime];

    /// Their names in the API, in the same order.
    pub const NAMES: [&'static str; 4] = ["requests", "misses", "bytes", "origin_time"];

    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self.place()]
    }

    /// The order with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Its index in [`TopOrder::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        self as usize
    }
}

/// A sketch with one writer.
#[derive(Clone, Debug)]
pub struct TopSketch {
    /// The number of sets; at least one.
    sets: usize,
    /// Hashes, weights and errors of each set. A hash of 0 is a free slot.
    numbers: Vec<u64>,
    /// Length and bytes of each slot's text.
    texts: Vec<u8>,
    total: u64,
}

/// The weights of a sketch at an earlier moment: of each slot the lower halves of hash and weight.
#[derive(Clone, Debug)]
pub struct TopMark(Vec<(u32, u32)>);

impl TopMark {
    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<(u32, u32)>()
    }
}

/// One of the heaviest keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// Its text, or the beginning of it.
    pub text: Vec<u8>,
    /// Whether the text is longer.
    pub cut: bool,
    /// Its total weight.
    pub weight: u64,
    /// The largest possible difference from the true weight.
    pub error: u64,
}

impl TopSketch {
    /// A sketch of at most `bytes`, with room for at least one set. Its memory is resident from the beginning, so that a
    /// process does not grow under load, and is as large when idle as at its start.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let sets = (bytes / (WAYS * PLACE)).max(1);
        // Zeros that are opaque to the compiler: otherwise the allocator leaves the zeroing to the kernel, page by page.
        let numbers = (0..sets * WORDS).map(|_| black_box(0)).collect();
        Self { sets, numbers, texts: vec![b' '; sets * WAYS * (TEXT + 1)], total: 0 }
    }

    /// Adds `weight` to the key with this hash; `text`, in parts, is read only for a key without a slot. Allocates
    /// nothing.
    #[inline]
    pub fn add(&mut self, hash: u64, weight: u64, text: &[&[u8]]) {
        self.total = self.total.saturating_add(weight);
        let hash = hash.max(1);
        let set = self.set_of(hash);
        let numbers = &mut self.numbers[set * WORDS..(set + 1) * WORDS];
        let (hashes, rest) = numbers.split_at_mut(WAYS);
        let (weights, errors) = rest.split_at_mut(WAYS);
        if let Some(at) = hashes.iter().position(|it| *it == hash) {
            weights[at] = weights[at].saturating_add(weight);
            if at > 0 && weights[at] > weights[at - 1] {
                self.forward(set, at);
            }
            return;
        }
        let lightest = (1..WAYS).fold(0, |least, at| if weights[at] < weights[least] { at } else { least });
        errors[lightest] = weights[lightest];
        weights[lightest] = weights[lightest].saturating_add(weight);
        hashes[lightest] = hash;
        self.write(set * WAYS + lightest, text);
    }

    /// The keys that gained the most weight since `before` was marked, the most first, at most `most`; then marks `before`. Reads
    /// every slot.
    pub fn grown(&self, before: &mut TopMark, most: usize) -> Vec<Heavy> {
        let mut grown: Vec<(u64, usize, u64)> = Vec::new();
        for (hash, weight, place) in self.places() {
            // Weights are compared modulo 2^32: a minute has fewer requests.
            let slots = place / WAYS * WAYS..(place / WAYS + 1) * WAYS;
            let known = before.0[slots].iter().find(|it| it.0 == hash as u32).map(|it| it.1);
            let then = known.unwrap_or(self.weighs(hash).1 as u32);
            let by = u64::from((weight as u32).wrapping_sub(then));
            if by > 0 && (grown.len() < most || grown.last().is_some_and(|it| it.0 < by)) {
                let at = grown.partition_point(|it| it.0 >= by);
                grown.insert(at, (by, place, hash));
                grown.truncate(most);
            }
        }
        *before = self.mark();
        let heavy = |(weight, place, hash): (u64, usize, u64)| {
            let (text, cut) = self.text(place);
            Heavy { text: text.to_vec(), cut, weight, error: self.weighs(hash).1 }
        };
        grown.into_iter().map(heavy).collect()
    }

    /// The weights of now.
    #[must_use]
    pub fn mark(&self) -> TopMark {
        let mut slots = vec![(0, 0); self.sets * WAYS];
        for (hash, weight, place) in self.places() {
            slots[place] = (hash as u32, weight as u32);
        }
        TopMark(slots)
    }

    /// The sum of all weights.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.numbers.fill(0);
        self.total = 0;
    }

    /// Its maximum size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.numbers.len() * 8 + self.texts.len()
    }

    fn set_of(&self, hash: u64) -> usize {
        // The upper half of a product spreads over any number of sets, without a division.
        ((u128::from(hash) * self.sets as u128) >> 64) as usize
    }

    /// Moves a heavier key one slot forward: a frequent key is then soon found at the first comparison.
    #[cold]
    fn forward(&mut self, set: usize, at: usize) {
        for row in 0..3 {
            let word = set * WORDS + row * WAYS + at;
            self.numbers.swap(word - 1, word);
        }
        let end = (set * WAYS + at) * (TEXT + 1);
        let (before, after) = self.texts.split_at_mut(end);
        before[end - (TEXT + 1)..].swap_with_slice(&mut after[..=TEXT]);
    }

    #[cold]
    fn write(&mut self, place: usize, text: &[&[u8]]) {
        let slot = &mut self.texts[place * (TEXT + 1)..(place + 1) * (TEXT + 1)];
        let mut used = 0;
        for part in text {
            let fits = part.len().min(TEXT - used);
            slot[1 + used..1 + used + fits].copy_from_slice(&part[..fits]);
            used += fits;
        }
        // A length of one more than fits marks a longer text.
        slot[0] = text.iter().map(|it| it.len()).sum::<usize>().min(TEXT + 1) as u8;
    }

    /// Weight and error of the key with this hash; for a missing key the weight of the lightest in its set is an upper
    /// bound.
    fn weighs(&self, hash: u64) -> (u64, u64) {
        let set = self.set_of(hash) * WORDS;
        let numbers = &self.numbers[set..set + WORDS];
        match numbers[..WAYS].iter().position(|it| *it == hash) {
            Some(at) => (numbers[WAYS + at], numbers[2 * WAYS + at]),
            None => (0, numbers[WAYS..2 * WAYS].iter().copied().min().unwrap_or(0)),
        }
    }

    /// Hash, weight and slot of every key.
    fn places(&self) -> impl Iterator<Item = (u64, u64, usize)> + '_ {
        (0..self.sets * WAYS).filter_map(|place| {
            let at = place / WAYS * WORDS + place % WAYS;
            let hash = self.numbers[at];
            (hash != 0).then(|| (hash, self.numbers[at + WAYS], place))
        })
    }

    fn text(&self, place: usize) -> (&[u8], bool) {
        let slot = &self.texts[place * (TEXT + 1)..(place + 1) * (TEXT + 1)];
        let length = usize::from(slot[0]);
        (&slot[1..=length.min(TEXT)], length > TEXT)
    }
}

/// The heaviest `most` of several sketches together, the heaviest first; of equal weight in the order of their texts.
#[must_use]
pub fn heaviest(parts: &[TopSketch], most: usize) -> Vec<Heavy> {
    let mut sums: HashMap<u64, (u64, usize, usize)> = HashMap::new();
    for (part, top) in parts.iter().enumerate() {
        for (hash, weight, place) in top.places() {
            let sum = sums.entry(hash).or_insert((0, part, place));
            sum.0 = sum.0.saturating_add(weight);
        }
    }
    let mut all: Vec<(u64, (u64, usize, usize))> = sums.into_iter().collect();
    // Texts are compared by their hashes first, so that only those that are returned are copied.
    all.sort_unstable_by_key(|(hash, (weight, ..))| (std::cmp::Reverse(*weight), *hash));
    all.truncate(most);
    let heavy = |(hash, (weight, part, place)): (u64, (u64, usize, usize))| {
        let (text, cut) = parts[part].text(place);
        let error = parts.iter().map(|it| it.weighs(hash).1).fold(0, u64::saturating_add);
        Heavy { text: text.to_vec(), cut, weight, error }
    };
    let mut found: Vec<Heavy> = all.into_iter().map(heavy).collect();
    found.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.text.cmp(&b.text)));
    found
}

#[cfg(test)]
mod tests;
