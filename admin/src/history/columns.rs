//! The columns of the history, and their values at one moment: sums of counters that exist, and present values. The samples that are made
//! of two such readings are in `rings`.

use larder_counters::{Counters, RouteCounters, Snapshot, TierCounters};
use larder_server::counter_sum::CounterSums;
use larder_server::route_stats::ConfigScopes;

/// The columns that are counters of the process, and their names there.
pub const COUNTED: [(&str, &str); 18] = [
    ("requests", "requests"),
    ("hits", "cache_hits"),
    ("hits_disk", "cache_hits_disk"),
    ("hits_fleet", "cache_hits_fleet"),
    ("stale", "cache_stale_hits"),
    ("misses", "cache_misses"),
    ("passes", "cache_passes"),
    ("collapsed", "requests_collapsed"),
    ("evictions", "cache_evictions"),
    ("evictions_fresh", "cache_evictions_fresh"),
    ("bytes_sent", "client_bytes_sent"),
    ("bytes_received", "origin_bytes_received"),
    ("connections", "connections_accepted"),
    ("client_aborts", "client_aborts"),
    ("origin_requests", "origin_requests"),
    ("origin_connect_failures", "origin_connect_failures"),
    ("origin_timeouts", "origin_timeouts"),
    ("limited", "access_limited"),
];
/// The columns after those that are sums over routes and tiers.
pub const SCOPED: [&str; 4] = ["errors_4xx", "errors_5xx", "origin_us", "saved_us"];
/// The columns after those that are values at the end of the step, or of the minute before it.
pub const GAUGES: [&str; 8] = [
    "ram_bytes",
    "connections_open",
    "in_flight",
    "origins_down",
    "hit_p50_us",
    "hit_p99_us",
    "miss_p50_us",
    "miss_p99_us",
];
/// The columns that are sums: their values in a sample are of the step.
pub const SUMS: usize = COUNTED.len() + SCOPED.len();
/// All columns.
pub const COLUMNS: usize = SUMS + GAUGES.len();
/// The present values among the gauges; the others are durations.
pub const LEVELS: usize = 4;

/// The names of all columns, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    COUNTED.into_iter().map(|it| it.0).chain(SCOPED).chain(GAUGES)
}

/// The values at one moment.
pub struct HistoryReading {
    /// Unix time.
    pub at: u64,
    /// Milliseconds since the start.
    pub uptime: u64,
    /// Since the start, in the order of [`COUNTED`] and [`SCOPED`].
    pub sums: [u64; SUMS],
    /// Now, in the order of the first [`GAUGES`].
    pub levels: [u64; LEVELS],
    /// Durations of hits since the start.
    pub hit: Snapshot,
    /// Durations of misses since the start.
    pub miss: Snapshot,
}

fn position(table: &[larder_counters::CounterRow], name: &str) -> usize {
    table.iter().position(|it| it.name == name).unwrap_or(usize::MAX)
}

/// The sums of the process, and of the routes and tiers of a configuration. The counters of a removed route are gone.
pub fn sums(totals: &CounterSums, scopes: &ConfigScopes) -> [u64; SUMS] {
    let mut sums = [0; SUMS];
    let all = totals.sums();
    for (sum, (_, name)) in sums.iter_mut().zip(COUNTED) {
        *sum = all.get(position(Counters::TABLE, name)).copied().unwrap_or(0);
    }
    let of_routes = ["errors_4xx", "errors_5xx", "origin_us"].map(|it| position(RouteCounters::TABLE, it));
    for route in 0..scopes.routes.len() {
        let counters = scopes.counters_of(route);
        for (at, it) in of_routes.iter().enumerate() {
            sums[COUNTED.len() + at] += counters.get(*it).copied().unwrap_or(0);
        }
    }
    let saved = position(TierCounters::TABLE, "saved_us");
    sums[SUMS - 1] = scopes.tiers().iter().filter_map(|it| it.get(saved)).sum();
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_counter() {
        for (_, name) in COUNTED {
            assert!(Counters::TABLE.iter().any(|it| it.name == name), "{name}");
        }
        for name in ["errors_4xx", "errors_5xx", "origin_us"] {
            assert!(RouteCounters::TABLE.iter().any(|it| it.name == name), "{name}");
        }
        assert!(TierCounters::TABLE.iter().any(|it| it.name == "saved_us"));
        assert_eq!(30, names().count());
        assert_eq!(COLUMNS, names().collect::<std::collections::HashSet<_>>().len());
    }
}
