//! The manual of counters, made from the tables. The tables are not here.

use crate::{CounterRow, Counters, OriginCounters, RouteCounters, TierCounters, Unit};
use std::fmt::Write as _;

/// The manual of counters: `docs/generated/counters.md`.
#[must_use]
pub fn manual() -> String {
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
    for (old, new) in crate::table::ALIASES {
        let _ = writeln!(out, "| `{old}` | `{new}` |");
    }
    out
}

fn rows(out: &mut String, table: &[CounterRow]) {
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
