//! Scales of the plots: the position of a value between two ends, and the values with a label on the axis.

/// A number of microseconds for display.
pub fn spell_micros(micros: u64) -> String {
    let (value, unit) = match micros {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{micros} µs"),
        1_000..1_000_000 => (micros, "ms"),
        _ => (micros / 1_000, "s"),
    };
    // A plot shows three significant figures.
    let (whole, rest) = (value / 1_000, value % 1_000);
    let text = match whole {
        0..10 => format!("{whole}.{:02}", rest / 10),
        10..100 => format!("{whole}.{}", rest / 100),
        _ => whole.to_string(),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// Values of time on a logarithmic axis: a band for zero if needed, then decades.
pub struct Decades {
    /// The first decade is from 10^first microseconds.
    first: u32,
    /// The last ends at 10^last.
    last: u32,
    /// The part of the height below the decades, for values of zero; 0 if there is none.
    pub zero: f64,
}

/// The part of the height of the band for zero.
const ZERO: f64 = 0.13;

impl Decades {
    /// Decades that contain all of `values`.
    pub fn of(values: impl Iterator<Item = u64> + Clone) -> Self {
        let zero = if values.clone().any(|it| it == 0) { ZERO } else { 0.0 };
        let positive = values.filter(|it| *it > 0);
        let least = positive.clone().min().unwrap_or(1);
        let most = positive.max().unwrap_or(10);
        let first = least.ilog10();
        Self { first, last: (most.ilog10() + 1).max(first + 2), zero }
    }

    /// The position of a value, from 0 at the bottom to 1.
    pub fn at(&self, micros: u64) -> f64 {
        if micros == 0 {
            return self.zero / 3.0;
        }
        #[allow(clippy::cast_precision_loss, reason = "a pixel is less exact")]
        let decades = (micros as f64).log10() - f64::from(self.first);
        self.zero + (1.0 - self.zero) * (decades / f64::from(self.last - self.first)).clamp(0.0, 1.0)
    }

    /// The values with a label.
    pub fn ticks(&self) -> impl Iterator<Item = u64> {
        (self.first..=self.last).map(|it| 10u64.saturating_pow(it))
    }
}

/// Seconds on a linear axis, from the first start to the last.
pub struct SecondsAxis {
    /// Microseconds from end to end; never 0.
    pub length: u64,
    /// Microseconds between two labels.
    pub step: u64,
}

impl SecondsAxis {
    /// An axis of this many microseconds with about `ticks` steps.
    pub fn new(length: u64, ticks: u64) -> Self {
        let length = length.max(1);
        let rough = (length / ticks.max(1)).max(1);
        let decade = 10u64.saturating_pow(rough.ilog10());
        let step = [1, 2, 5, 10].map(|it| decade.saturating_mul(it)).into_iter().find(|it| *it >= rough);
        Self { length, step: step.unwrap_or(rough) }
    }

    /// The position of a time, from 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a pixel is less exact")]
    pub fn at(&self, micros: u64) -> f64 {
        (micros as f64 / self.length as f64).clamp(0.0, 1.0)
    }

    /// The times with a label.
    pub fn ticks(&self) -> impl Iterator<Item = u64> + '_ {
        (0..=self.length / self.step).map(|it| it * self.step)
    }
}

/// The smallest of the sorted values that `percent` of them do not exceed; `None` without values.
pub fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spelt() {
        let check = |micros, expect: &str| assert_eq!(expect, spell_micros(micros));
        check(0, "0");
        check(999, "999 µs");
        check(1_000, "1 ms");
        check(1_234, "1.23 ms");
        check(12_340, "12.3 ms");
        check(100_000, "100 ms");
        check(999_999, "999 ms");
        check(1_500_000, "1.5 s");
        check(3_600_000_000, "3600 s");
    }

    #[test]
    fn decades_hold_everything() {
        let it = Decades::of([0, 70, 123_456].into_iter());
        assert_eq!(vec![10, 100, 1_000, 10_000, 100_000, 1_000_000], it.ticks().collect::<Vec<_>>());
        assert!(it.at(0) < it.at(70) && it.at(70) < it.at(123_456) && it.at(123_456) < 1.0);
        assert!((it.at(1_000_000) - 1.0).abs() < 1e-9);
        assert_eq!(3, Decades::of(std::iter::empty()).ticks().count());
        Decades::of([u64::MAX].into_iter()).ticks().for_each(drop);
    }

    #[test]
    fn seconds_are_named_at_round_numbers() {
        let check = |length, expect: Vec<u64>| {
            assert_eq!(expect, SecondsAxis::new(length, 4).ticks().collect::<Vec<_>>())
        };
        check(10_000_000, vec![0, 5_000_000, 10_000_000]);
        check(8_000_000, vec![0, 2_000_000, 4_000_000, 6_000_000, 8_000_000]);
        check(0, vec![0, 1]);
        assert!(SecondsAxis::new(u64::MAX, 4).ticks().take(100).count() <= 5);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!(
            (Some(50), Some(99), Some(100)),
            (percentile(&values, 50), percentile(&values, 99), percentile(&values, 100))
        );
        assert_eq!((None, Some(7)), (percentile(&[], 50), percentile(&[7], 1)));
    }
}
