//! The counters of all workers, summed when they are read; and their manual.

use larder_counters::Counters;
use larder_counters::table::Counter;
#[cfg(test)]
use larder_counters::{Describe, OriginCounters, RouteCounters, TierCounters, Unit};
use std::sync::{Arc, Mutex};

/// Every worker's counters, and those that the shared store writes.
#[derive(Default)]
pub struct Totals {
    parts: Mutex<Vec<Arc<Counters>>>,
}

impl Totals {
    /// New counters that are summed from now on.
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

/// The manual of counters: `docs/generated/counters.md`.
#[cfg(test)]
fn manual() -> String {
    use std::fmt::Write as _;
    let mut out = String::from(
        "# Counters\n\nGenerated from `counters/src/table.rs` and `scopes.rs`; do not edit. `GET /cache/stats` of the admin returns them under\n\
         `counters`, summed over all workers.\n\n\
         * a *count* and a number of *bytes* are totals since the start, and never fall\n\
         * a *gauge* is a current value\n\
         * a *limit* counts how often a bound was reached; the error log reports it as well (`limit-reached`)\n\n\
         | counter | type | meaning |\n|---|---|---|\n",
    );
    rows(&mut out, Counters::TABLE);
    for (what, place, table) in [
        ("a route", "`routes` and, summed, `sites`", RouteCounters::TABLE),
        ("an origin", "`origins`", OriginCounters::TABLE),
        ("a tier", "`tiers`", TierCounters::TABLE),
    ] {
        let _ =
            write!(out, "\n## Of {what}\n\nUnder {place}.\n\n| counter | type | meaning |\n|---|---|---|\n");
        rows(&mut out, table);
    }
    out.push_str("\n## Renamed counters\n\n| earlier name | name |\n|---|---|\n");
    for (old, new) in larder_counters::table::ALIASES {
        let _ = writeln!(out, "| `{old}` | `{new}` |");
    }
    out
}

#[cfg(test)]
fn rows(out: &mut String, table: &[Describe]) {
    use std::fmt::Write as _;
    for row in table {
        let unit = match row.unit {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Micros => "microseconds",
            Unit::Gauge => "gauge",
            Unit::Limit => "limit",
        };
        let _ = writeln!(out, "| `{}` | {unit} | {} |", row.name, row.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_fresh() {
        crate::config::generated::fresh("counters.md", &manual());
    }

    #[test]
    fn sums_over_all_parts() {
        let totals = Totals::default();
        let (a, b) = (totals.add_part(), totals.add_part());
        a.head_too_large.add(2);
        b.head_too_large.add(3);
        let at = Counters::TABLE.iter().position(|it| it.name == "head_too_large").unwrap();
        assert_eq!((5, 5), (totals.sums()[at], totals.sums().iter().sum()));
    }
}
