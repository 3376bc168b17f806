//! The counters of all workers, summed when they are read.

use larder_counters::Counters;
use larder_counters::table::Counter;
use std::sync::{Arc, Mutex};

/// The counters of every worker, and those that the shared store writes.
#[derive(Default)]
pub struct CounterSums {
    parts: Mutex<Vec<Arc<Counters>>>,
}

impl CounterSums {
    /// New counters that are included in the sums from now on.
    pub fn add_part(&self) -> Arc<Counters> {
        let part = Arc::new(Counters::default());
        if let Ok(mut parts) = self.parts.lock() {
            parts.push(part.clone());
        }
        part
    }

    /// The sum of one counter.
    #[must_use]
    pub fn sum_of(&self, counter: impl Fn(&Counters) -> &Counter) -> u64 {
        let parts = self.parts.lock();
        parts.map_or(0, |it| it.iter().fold(0, |sum, it| sum.wrapping_add(counter(it).get())))
    }

    /// The sums, in the order of the table.
    #[must_use]
    pub fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0u64; Counters::TABLE.len()];
        if let Ok(parts) = self.parts.lock() {
            for part in parts.iter() {
                for (sum, value) in sums.iter_mut().zip(part.values()) {
                    *sum = sum.wrapping_add(value);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_all_parts() {
        let totals = CounterSums::default();
        let (a, b) = (totals.add_part(), totals.add_part());
        a.head_too_large.add(2);
        b.head_too_large.add(3);
        let at = Counters::TABLE.iter().position(|it| it.name == "head_too_large").unwrap();
        assert_eq!((5, 5), (totals.sums()[at], totals.sums().iter().sum()));
    }
}
