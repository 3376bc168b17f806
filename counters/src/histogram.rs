//! A histogram of durations in microseconds: log-linear, of fixed size, written by one worker and summed when it is read.
//! The choice of timed events and the sampling are not here.
//!
//! Each power of two is divided into 16 buckets of equal width, so that a bucket's bound is less than a 16th above any
//! value in it; values below 16 have a bucket each. Durations above 71 minutes count in the last bucket.

use crate::table::Counter;

/// Buckets of a power of two, as a power of two.
const FINE: u32 = 4;
/// Values of this many bits have no bucket: 2^32 µs are 71 minutes.
const BITS: u32 = 32;
/// The number of buckets.
pub const BUCKETS: usize = ((BITS - FINE + 1) << FINE) as usize;

/// The durations recorded by one worker.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum: Counter,
    most: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { Counter::new() }; BUCKETS], sum: Counter::new(), most: Counter::new() }
    }
}

impl Histogram {
    /// Counts a duration of `micros` that represents `weight` durations. Plain stores: for the owning worker only.
    pub fn record(&self, micros: u64, weight: u64) {
        self.buckets[bucket(micros)].add(weight);
        self.sum.add(micros.saturating_mul(weight));
        if micros > self.most.get() {
            self.most.set_shared(micros);
        }
    }

    /// The sum of all durations, without a snapshot.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}

/// Several histograms together, at the time of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    most: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, most: 0 }
    }
}

impl Snapshot {
    /// The sum of `parts`. Durations recorded meanwhile may or may not be included.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut all = Self::default();
        for part in parts {
            for (sum, bucket) in all.counts.iter_mut().zip(&part.buckets) {
                let count = bucket.get();
                *sum += count;
                all.count += count;
            }
            all.sum = all.sum.saturating_add(part.sum.get());
            all.most = all.most.max(part.most.get());
        }
        all
    }

    /// Adds another snapshot.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.most = self.most.max(other.most);
    }

    /// The durations recorded since `earlier`, an earlier snapshot of the same histograms; the longest is the longest of all.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = counts.map(|(now, then)| now.saturating_sub(*then)).collect();
        let count = counts.iter().sum();
        Self { counts, count, sum: self.sum.saturating_sub(earlier.sum), most: self.most }
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all durations, in microseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The longest duration, in microseconds, exactly.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The duration that `share` of all (0.99 for the 99th percentile) do not exceed, in microseconds: at most a 16th too
    /// long, and never longer than the longest. 0 if there are none.
    #[must_use]
    pub fn percentile(&self, share: f64) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        #[allow(clippy::cast_precision_loss, reason = "a rank that is off by one in 2^53 is none the worse")]
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return (bound(at) - 1).min(self.most);
            }
        }
        0
    }

    /// The buckets that are not empty, shortest first: the upper bound of its durations, in microseconds, and their
    /// number. The last bucket also contains longer ones.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|it| *it.1 > 0).map(|(at, count)| (bound(at), *count))
    }

    /// The same, four buckets in one: a bound is less than a quarter above any duration of its bucket.
    pub fn coarse_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.counts.chunks(4).enumerate();
        all.map(|(at, four)| (bound(4 * at + 3), four.iter().sum())).filter(|it| it.1 > 0)
    }

    /// The number of durations shorter than 2^`bits` microseconds; exact, since every power of two bounds a bucket.
    #[must_use]
    pub fn below_power(&self, bits: u32) -> u64 {
        let end = if bits >= BITS { BUCKETS } else { bucket(1 << bits) };
        self.counts[..end].iter().sum()
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    if value < 1 << FINE {
        return value as usize;
    }
    if value >= 1 << BITS {
        return BUCKETS - 1;
    }
    let shift = value.ilog2() - FINE;
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// The upper bound (exclusive) of the values of a bucket.
fn bound(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    if next < 1 << (FINE + 1) {
        return next;
    }
    let shift = (next >> FINE) - 1;
    ((next & ((1 << FINE) - 1)) + (1 << FINE)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_bucket_is_less_than_a_quarter_too_long() {
        for micros in [0, 3, 16, 17, 31, 1000, 1_234_567, 3_999_999_999] {
            let it = Histogram::default();
            it.record(micros, 5);
            let all: Vec<_> = Snapshot::of([&it]).coarse_buckets().collect();
            let [(bound, 5)] = all[..] else { panic!("{micros}: {all:?}") };
            assert!(bound > micros && bound <= (micros + micros / 4).max(4), "{micros}: {bound}");
        }
    }
    use proptest::prelude::*;

    #[track_caller]
    fn check(values: &[u64], expect: [u64; 4]) {
        let histogram = Histogram::default();
        values.iter().for_each(|it| histogram.record(*it, 1));
        let all = Snapshot::of([&histogram]);
        let found = [all.percentile(0.5), all.percentile(0.9), all.percentile(0.999), all.most()];
        assert_eq!(expect, found, "{values:?}");
    }

    #[test]
    fn percentiles() {
        check(&[], [0, 0, 0, 0]);
        check(&[0], [0, 0, 0, 0]);
        check(&[7, 7, 7, 9], [7, 9, 9, 9]);
        check(&(1..=10).collect::<Vec<_>>(), [5, 9, 10, 10]);
        check(&[1000], [1000, 1000, 1000, 1000]);
        check(&[100, 1000], [103, 1000, 1000, 1000]);
        check(&[u64::MAX], [(1 << 32) - 1, (1 << 32) - 1, (1 << 32) - 1, u64::MAX]);
    }

    #[test]
    fn a_weight_counts_as_so_many() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.record(10, 64);
        other.record(3000, 1);
        let mut all = Snapshot::of([&one, &other]);
        assert_eq!((65, 3640, 3000), (all.count(), all.sum(), all.most()));
        assert_eq!(vec![(11, 64), (3072, 1)], all.buckets().collect::<Vec<_>>());
        assert_eq!((10, 10, 3000), (all.percentile(0.5), all.percentile(0.98), all.percentile(0.99)));
        all.add(&Snapshot::of([&other]));
        assert_eq!((66, 6640), (all.count(), all.sum()));
    }

    #[test]
    fn the_difference_of_snapshots_has_the_values_recorded_between_them() {
        let one = Histogram::default();
        one.record(3000, 9);
        let before = Snapshot::of([&one]);
        one.record(10, 2);
        let since = Snapshot::of([&one]).since(&before);
        assert_eq!((2, 20, 10), (since.count(), since.sum(), since.percentile(0.99)));
        assert_eq!(0, before.since(&before).percentile(0.5));
    }

    #[test]
    fn an_hour_has_a_bucket_of_its_own() {
        let hour = 3_600_000_000;
        let at = bucket(hour);
        assert!(at < BUCKETS - 1 && bound(at) > hour && bound(at) - hour <= hour / 16);
    }

    proptest! {
        /// Every value is below its bucket's bound, by a 16th at most, and not below the bucket's before.
        #[test]
        fn a_bucket_holds_its_values(value in prop_oneof![0..300_u64, 0..1_u64 << 32, any::<u64>()]) {
            let at = bucket(value);
            prop_assert!(at < BUCKETS);
            if value < 1 << BITS {
                prop_assert!(value < bound(at), "{value} in {at}");
                prop_assert!(bound(at) - value <= 1 + value / 16, "{value} in {at}: {}", bound(at));
                prop_assert!(at == 0 || value >= bound(at - 1), "{value} in {at}");
            } else {
                prop_assert_eq!(BUCKETS - 1, at);
            }
        }

        /// Percentiles are those of the sorted values, and at most a 16th above; counts below powers are exact.
        #[test]
        fn percentiles_are_those_of_the_values(
            mut values in proptest::collection::vec(0..200_000_000_u64, 1..200),
            share in 0.0..1.0_f64,
            bits in 0..33_u32,
        ) {
            let (one, other) = (Histogram::default(), Histogram::default());
            for (at, it) in values.iter().enumerate() {
                if at % 3 == 0 { one.record(*it, 1) } else { other.record(*it, 1) }
            }
            let all = Snapshot::of([&one, &other]);
            values.sort_unstable();
            let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let report = all.percentile(share);
            prop_assert!(exact <= report && report - exact <= exact / 16, "{exact} told as {report}");
            prop_assert_eq!(values.iter().sum::<u64>(), all.sum());
            prop_assert_eq!(values.len() as u64, all.buckets().map(|it| it.1).sum::<u64>());
            let below = values.iter().filter(|it| **it < 1 << bits).count() as u64;
            prop_assert_eq!(below, all.below_power(bits));
        }
    }
}
