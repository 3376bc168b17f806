//! The manual of counters, made from the tables. The tables are not here.

use crate::{Counters, Describe, OriginCounters, RouteCounters, TierCounters, Unit};
use std::fmt::Write as _;

/// The manual of counters: `docs/generated/counters.md`.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from(
        "# Counters\n\nGenerated from `counters/src/table.rs` and `scopes.rs`; do not edit. `GET /cache/stats` of the admin gives them, summed over all\n\
         workers, under `counters`.\n\n\
         * a *count* and a number of *bytes* are since the start, and never fall\n\
         * a *gauge* is how many there are now\n\
         * a *limit* counts how often a bound was reached; the error log tells it, too (`limit-reached`)\n\n\
         | counter | is a | meaning |\n|---|---|---|\n",
    );
    rows(&mut out, Counters::TABLE);
    for (what, place, table) in [
        ("a route", "`routes` and, summed, `sites`", RouteCounters::TABLE),
        ("an origin", "`origins`", OriginCounters::TABLE),
        ("a tier", "`tiers`", TierCounters::TABLE),
    ] {
        let _ =
            write!(out, "\n## Of {what}\n\nUnder {place}.\n\n| counter | is a | meaning |\n|---|---|---|\n");
        rows(&mut out, table);
    }
    out
}

fn rows(out: &mut String, table: &[Describe]) {
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
