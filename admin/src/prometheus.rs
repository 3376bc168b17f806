//! The statistics for Prometheus: its text format, version 0.0.4. Every number is one of the JSON's; names have the
//! suffixes of Prometheus (the unit, and `_total` for a counter), durations are in seconds.

use super::{Admin, AdminResponse, server_state};
use larder_counters::{CounterRow, Counters, OriginCounters, RouteCounters, Snapshot, TierCounters, Unit};
use larder_origin::OriginState;
use larder_semantics::server_state::{FINDINGS, ServerStateReport};
use larder_server::route_stats::{ConfigScopes, ReasonSum, RouteIdentity, RouteScopes, ScopeSums};
use larder_transport::Synthetic;
use std::fmt::{Display, Write as _};

/// The media type of the response.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The bounds of the buckets: these powers of two, in microseconds (16 µs to 67 s).
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=26;

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Admin {
    /// `GET /metrics`.
    pub(super) async fn metrics(&self) -> AdminResponse {
        self.heap.measure_all(self.gateway.store.used_of_heap()).await;
        AdminResponse::Whole(Synthetic::new(200, CONTENT_TYPE, self.metrics_text()))
    }

    fn metrics_text(&self) -> String {
        let live = self.live.borrow().clone();
        let mut out = MetricsText::default();
        for (row, value) in Counters::TABLE.iter().zip(self.totals.sums()) {
            out.counter("larder", row, &[(&[], value)]);
        }
        out.routes(&live.scopes);
        out.origins(&live.scopes);
        out.times(&live.scopes);
        self.tiers_text(&live.scopes, &mut out);
        self.memory_text(&mut out);
        out.server_state(&self.judge_state());
        out.0
    }

    fn tiers_text(&self, scopes: &ConfigScopes, out: &mut MetricsText) {
        let tiers = scopes.tiers();
        for (at, row) in TierCounters::TABLE.iter().enumerate() {
            let [ram, disk, fleet] = &tiers;
            let labels = |name| [("tier", name)];
            out.counter(
                "larder_tier",
                row,
                &[(&labels("ram"), ram[at]), (&labels("disk"), disk[at]), (&labels("fleet"), fleet[at])],
            );
        }
        let live = self.live.borrow();
        let store = &self.gateway.store;
        let ram = (store.objects(), store.used(), live.config.ram.budget);
        let disk = self.gateway.tiers.disk.as_ref().zip(live.config.disk.as_ref());
        let disk = disk.map(|(it, config)| (it.objects(), it.bytes(), config.size));
        let mut rows = vec![("ram", ram)];
        rows.extend(disk.map(|it| ("disk", it)));
        type Row = (u64, u64, u64);
        type Gauge = (&'static str, &'static str, fn(&Row) -> u64);
        let gauges: [Gauge; 3] = [
            ("larder_tier_objects", "Stored keys (RAM) or responses (disk).", |it| it.0),
            ("larder_tier_used_bytes", "Bytes in use by the tier.", |it| it.1),
            ("larder_tier_budget_bytes", "Size limit of the tier in bytes.", |it| it.2),
        ];
        for (name, help, of) in gauges {
            out.head(name, help, "gauge");
            rows.iter().for_each(|(tier, row)| out.sample(name, &[("tier", tier)], of(row)));
        }
    }

    fn memory_text(&self, out: &mut MetricsText) {
        let memory = self.memory();
        out.head("larder_resident_bytes", "Resident memory of the process, the arena included.", "gauge");
        out.sample("larder_resident_bytes", &[], memory.resident);
        out.head("larder_memory_bytes", "Resident memory by purpose.", "gauge");
        for it in &memory.parts {
            out.sample("larder_memory_bytes", &[("tier", it.tier), ("purpose", it.purpose)], it.bytes);
        }
    }
}

/// The text under construction.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// One row of a table, for each of its scopes.
    fn counter(&mut self, prefix: &str, row: &CounterRow, samples: &[(Labels<'_>, u64)]) {
        let (name, kind) = named(prefix, row);
        match row.unit {
            // Its help begins with the unit: the tables' test.
            Unit::Micros => self.head(&name, &row.help.replacen("Microseconds", "Seconds", 1), kind),
            _ => self.head(&name, row.help, kind),
        }
        for (labels, value) in samples {
            match row.unit {
                Unit::Micros => self.sample(&name, labels, MicrosAsSeconds(*value)),
                _ => self.sample(&name, labels, value),
            }
        }
    }

    fn server_state(&mut self, report: &ServerStateReport) {
        let name = "larder_health";
        self.head(name, "The state of the server: 0 healthy, 1 degraded, 2 failing.", "gauge");
        self.sample(name, &[], server_state::level(report.word));
        let name = "larder_health_finding";
        self.head(name, "Findings about the state of the server, by name.", "gauge");
        for it in FINDINGS {
            let labels = [("finding", it.name), ("severity", it.severity.name())];
            self.sample(name, &labels, report.count_of(it.kind));
        }
    }

    fn routes(&mut self, scopes: &ConfigScopes) {
        let sums: Vec<ScopeSums> = (0..scopes.routes.len()).map(|it| scopes.of_route(it)).collect();
        let labels = |it: &RouteScopes| {
            let RouteIdentity { methods, when, listeners, .. } = &it.identity;
            [
                ("site", scopes.sites[it.site].name.clone()),
                ("route", it.name.clone()),
                ("methods", methods.join(",")),
                ("when", when.clone()),
                ("listeners", listeners.join(",")),
                ("kind", it.kind.name().to_owned()),
            ]
        };
        let labels: Vec<_> = scopes.routes.iter().map(labels).collect();
        let labels: Vec<[(&str, &str); 6]> =
            labels.iter().map(|it| it.each_ref().map(|it| (it.0, it.1.as_str()))).collect();
        for (at, row) in RouteCounters::TABLE.iter().enumerate() {
            let samples: Vec<(Labels<'_>, u64)> =
                labels.iter().zip(&sums).map(|(labels, sums)| (&labels[..], sums.counters[at])).collect();
            self.counter("larder_route", row, &samples);
        }
        self.reasons(scopes, &labels);
        let name = "larder_route_request_duration_seconds";
        self.head(name, "Duration of the requests of a route; fast responses are sampled.", "histogram");
        labels.iter().zip(&sums).for_each(|(labels, sums)| self.histogram(name, labels, &sums.latency));
    }

    /// Only reasons that occurred: there are some forty.
    fn reasons(&mut self, scopes: &ConfigScopes, routes: &[[(&str, &str); 6]]) {
        let sums: Vec<Vec<ReasonSum>> = (0..routes.len()).map(|it| scopes.reasons_of(it)).collect();
        let mut each = |name: &str, help: &str, value: fn(&ReasonSum) -> String| {
            self.head(name, help, "counter");
            for (labels, sums) in routes.iter().zip(&sums) {
                for sum in sums {
                    let reason = [("reason", sum.row.name), ("class", sum.row.class.name())];
                    self.sample(name, &[&labels[..], &reason].concat(), value(sum));
                }
            }
        };
        let help = "Requests of a route that reached its origin, by reason; `waited` did not reach it.";
        each("larder_route_reason_requests_total", help, |it| it.requests.to_string());
        let help = "Seconds from these requests to the heads of their responses, in total, by reason.";
        each("larder_route_reason_origin_seconds_total", help, |it| MicrosAsSeconds(it.micros).to_string());
    }

    fn origins(&mut self, scopes: &ConfigScopes) {
        let sums: Vec<ScopeSums> = (0..scopes.origins.len()).map(|it| scopes.of_origin(it)).collect();
        let labels: Vec<[(&str, &str); 1]> =
            scopes.origins.iter().map(|it| [("origin", it.name.as_str())]).collect();
        for (at, row) in OriginCounters::TABLE.iter().enumerate() {
            let samples: Vec<(Labels<'_>, u64)> =
                labels.iter().zip(&sums).map(|(labels, sums)| (&labels[..], sums.counters[at])).collect();
            self.counter("larder_origin_server", row, &samples);
        }
        let all = scopes.origins.iter().zip(&labels);
        let name = "larder_origin_server_in_use";
        self.head(
            name,
            "1 if an origin receives requests; 0 if it is ejected, unhealthy, being probed or drained.",
            "gauge",
        );
        for (it, labels) in all.clone() {
            self.sample(name, labels, u8::from(matches!(it.state(), OriginState::Up | OriginState::Slow)));
        }
        let name = "larder_origin_server_in_flight";
        self.head(name, "Requests to an origin in progress or waiting for a connection.", "gauge");
        for (it, labels) in all.clone() {
            self.sample(name, labels, it.standing.in_flight());
        }
        let name = "larder_origin_server_ejections_total";
        self.head(name, "Ejections of an origin.", "counter");
        for (it, labels) in all {
            self.sample(name, labels, it.standing.ejections());
        }
        let name = "larder_origin_server_response_seconds";
        self.head(name, "Time from a request to the head of the final response of the origin.", "histogram");
        labels.iter().zip(&sums).for_each(|(labels, sums)| self.histogram(name, labels, &sums.latency));
    }

    fn times(&mut self, scopes: &ConfigScopes) {
        let name = "larder_request_duration_seconds";
        self.head(name, "Duration of requests by cache result; fast responses are sampled.", "histogram");
        for (cache, times) in ["hit", "miss", "pass", "other"].iter().zip(scopes.times()) {
            self.histogram(name, &[("cache", cache)], &times);
        }
    }

    fn histogram(&mut self, name: &str, labels: Labels<'_>, it: &Snapshot) {
        let bucket = format!("{name}_bucket");
        let with = |bound: &str| -> Vec<(String, String)> {
            let own = labels.iter().map(|it| (it.0.to_owned(), it.1.to_owned()));
            own.chain([("le".to_owned(), bound.to_owned())]).collect()
        };
        let mut sample = |bound: &str, count: u64| {
            let labels = with(bound);
            let labels: Vec<(&str, &str)> = labels.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect();
            self.sample(&bucket, &labels, count);
        };
        for bits in BOUNDS {
            sample(&MicrosAsSeconds(1 << bits).to_string(), it.below_power(bits));
        }
        sample("+Inf", it.count());
        self.sample(&format!("{name}_sum"), labels, MicrosAsSeconds(it.sum()));
        self.sample(&format!("{name}_count"), labels, it.count());
    }
}

/// The name of a row here, and its type: the unit at the end, followed by `_total` for a counter.
fn named(prefix: &str, row: &CounterRow) -> (String, &'static str) {
    let is = |unit, word: &str| row.unit == unit && matches!(word, "bytes" | "us" | "micros");
    let words = row.name.split('_').filter(|it| !is(Unit::Bytes, it) && !is(Unit::Micros, it));
    let mut name = words.fold(prefix.to_owned(), |name, it| name + "_" + it);
    let (unit, kind) = match row.unit {
        Unit::Gauge => ("", "gauge"),
        Unit::Bytes => ("_bytes_total", "counter"),
        Unit::Micros => ("_seconds_total", "counter"),
        Unit::Count | Unit::Limit => ("_total", "counter"),
    };
    name.push_str(unit);
    (name, kind)
}

/// Microseconds as seconds, exactly.
struct MicrosAsSeconds(u64);

impl Display for MicrosAsSeconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A label's value, escaped for quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_counters_named() {
        let mut text = MetricsText::default();
        let row = CounterRow { name: "origin_us", unit: Unit::Micros, help: "Microseconds \\ of it." };
        text.counter("larder_route", &row, &[(&[("route", "/a\"b\\c\nd")], 1_500_000)]);
        assert_eq!(
            "# HELP larder_route_origin_seconds_total Seconds \\\\ of it.\n# TYPE larder_route_origin_seconds_total counter\n\
             larder_route_origin_seconds_total{route=\"/a\\\"b\\\\c\\nd\"} 1.500000\n",
            text.0
        );
    }

    #[test]
    fn the_unit_stands_at_the_end() {
        #[track_caller]
        fn check(unit: Unit, name: &'static str, expect: (&str, &str)) {
            let found = named("larder", &CounterRow { name, unit, help: "" });
            assert_eq!(expect, (found.0.as_str(), found.1));
        }
        check(Unit::Bytes, "client_bytes_sent", ("larder_client_sent_bytes_total", "counter"));
        check(Unit::Bytes, "bytes", ("larder_bytes_total", "counter"));
        check(Unit::Micros, "disk_pool_wait_micros", ("larder_disk_pool_wait_seconds_total", "counter"));
        check(Unit::Gauge, "overlay_bytes", ("larder_overlay_bytes", "gauge"));
        check(Unit::Limit, "origin_busy", ("larder_origin_busy_total", "counter"));
    }

    #[test]
    fn buckets_are_cumulative() {
        let histogram = larder_counters::Histogram::default();
        [3, 20, 5000, 200_000_000].iter().for_each(|it| histogram.record(*it, 2));
        let mut text = MetricsText::default();
        text.histogram("x", &[("cache", "hit")], &Snapshot::of([&histogram]));
        let line = |le: &str| {
            let start = format!("x_bucket{{cache=\"hit\",le=\"{le}\"}} ");
            text.0.lines().find_map(|it| it.strip_prefix(&start)).unwrap_or("none").to_owned()
        };
        let found = ["0.000016", "0.000032", "0.004096", "0.008192", "67.108864", "+Inf"].map(line);
        assert_eq!(["2", "4", "4", "6", "6", "8"], found);
        assert!(
            text.0.ends_with("x_sum{cache=\"hit\"} 400.010046\nx_count{cache=\"hit\"} 8\n"),
            "{}",
            text.0
        );
    }
}
