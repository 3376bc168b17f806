//! The metrics for Prometheus agree with the JSON: read by Prometheus' own client library.

use super::{of, origin, stats, two_sites};
use crate::harness::Larder;
use larder_counters::Unit;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The client library's result for a text.
fn parsed(text: &str) -> Value {
    // Debian's own Python first: another one earlier in PATH does not see Debian's packages.
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|it| {
        let found = Command::new(it).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
        found.is_ok_and(|it| it.success())
    });
    let python = python.expect("python3-prometheus-client is there: tests/install test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios/statistics/prometheus.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "it is no text of Prometheus: {text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The value of a sample with these labels and perhaps more.
#[track_caller]
fn sample(families: &Value, name: &str, labels: &[(&str, &str)]) -> f64 {
    let all = families.as_object().unwrap().values();
    let mut samples = all.flat_map(|it| it["samples"].as_array().unwrap());
    let found =
        samples.find(|it| it[0] == name && labels.iter().all(|(label, value)| it[1][label] == *value));
    found.unwrap_or_else(|| panic!("no {name} {labels:?}"))[2].as_f64().unwrap()
}

#[test]
#[allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "small counts")]
fn the_metrics_for_prometheus_equal_the_statistics() {
    let (one, other) = (origin(), origin());
    let config =
        two_sites("true", &one, &other).replace("path = \"/api/*\"", "name = \"private\", path = \"/api/*\"");
    let larder = Larder::configured(config);
    for (host, target) in
        [("a.test", "/x"), ("a.test", "/x"), ("b.test", "/api/private"), ("c.test", "/missing")]
    {
        super::fetch(&larder, "GET", host, target);
    }
    super::route(&larder, "*/*", 1);
    super::route(&larder, "private", 1);
    let json = stats(&larder);
    let answer = larder.admin_get("/metrics");
    assert_eq!(Some("text/plain; version=0.0.4; charset=utf-8"), answer.field("content-type"));
    let families = parsed(&answer.text());

    for row in larder_counters::Counters::TABLE {
        let (name, kind, help, scale) = told("larder", row);
        if row.name != "connections_open" && row.name != "connections_accepted" {
            let value = json["counters"][row.name].as_u64().unwrap() as f64 / scale;
            assert_eq!(value, sample(&families, &name, &[]), "{name}");
            let family = &families[name.trim_end_matches("_total")];
            let found = (family["help"].as_str().unwrap(), family["type"].as_str().unwrap());
            assert_eq!((help.as_str(), kind), found);
        }
    }
    for route in ["private", "a.test/*", "*/*"] {
        let at = json["routes"].as_array().unwrap().iter().find(|it| it["name"] == route).unwrap();
        let site = json["sites"][at["site"].as_u64().unwrap() as usize]["name"].as_str().unwrap();
        for row in larder_counters::RouteCounters::TABLE {
            let (name, _, _, scale) = told("larder_route", row);
            let value = of(&json, "routes", route, row.name) as f64 / scale;
            assert_eq!(
                value,
                sample(&families, &name, &[("site", site), ("route", route)]),
                "{name} {route}"
            );
        }
    }
    assert!(sample(&families, "larder_route_origin_seconds_total", &[("route", "a.test/*")]) > 0.0);
    let tiers = ["ram", "disk", "fleet"];
    let saved = tiers.map(|it| sample(&families, "larder_tier_saved_seconds_total", &[("tier", it)]));
    assert!(saved[0] > 0.0);
    assert_eq!(json["saved"]["origin_us"].as_u64().unwrap() as f64 / 1e6, saved.iter().sum::<f64>());
    let of_route = sample(&families, "larder_route_saved_seconds_total", &[("route", "a.test/*")]);
    assert_eq!(saved[0], of_route, "its hit was the only one");
    let answers = sample(&families, "larder_origin_server_answers_total", &[("origin", &one.url())]);
    assert_eq!(of(&json, "origins", &one.url(), "answers") as f64, answers);
    assert_eq!(1.0, sample(&families, "larder_tier_hits_total", &[("tier", "ram")]));
    assert_eq!(8.0, sample(&families, "larder_tier_served_bytes_total", &[("tier", "ram")]));
    assert!(sample(&families, "larder_memory_bytes", &[("tier", "ram"), ("purpose", "responses")]) > 0.0);
    histograms(&families, &json);
    conventions(&families);
}

/// What a row is called, its type, its help, and how many of the JSON's units are one of Prometheus'.
fn told(prefix: &str, row: &larder_counters::CounterRow) -> (String, &'static str, String, f64) {
    let help = row.help.to_owned();
    let without = |units: &[&str]| {
        let words: Vec<&str> = row.name.split('_').filter(|it| !units.contains(it)).collect();
        [&[prefix], &words[..]].concat().join("_")
    };
    match row.unit {
        Unit::Gauge => (format!("{prefix}_{}", row.name), "gauge", help, 1.0),
        Unit::Bytes => (without(&["bytes"]) + "_bytes_total", "counter", help, 1.0),
        Unit::Micros => {
            let help = help.replacen("Microseconds", "Seconds", 1);
            (without(&["us", "micros"]) + "_seconds_total", "counter", help, 1e6)
        }
        Unit::Count | Unit::Limit => (format!("{prefix}_{}_total", row.name), "counter", help, 1.0),
    }
}

/// What Prometheus asks of names: a base unit, at the end, before the `_total` that counters have and nothing else has; no
/// other unit, no type; and a sentence as help that speaks of that unit.
fn conventions(families: &Value) {
    const OTHERS: [&str; 12] = [
        "us",
        "micros",
        "microseconds",
        "ms",
        "millis",
        "minutes",
        "kib",
        "mib",
        "count",
        "counter",
        "gauge",
        "histogram",
    ];
    let mut seen = [0, 0];
    for (name, family) in families.as_object().unwrap() {
        let (kind, help) = (family["type"].as_str().unwrap(), family["help"].as_str().unwrap());
        let words: Vec<&str> = name.split('_').collect();
        assert_eq!("larder", words[0]);
        assert!(
            name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_'),
            "{name}"
        );
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}: {kind}");
        assert!(words.iter().all(|it| !OTHERS.contains(it)), "{name}");
        assert!(
            help.ends_with('.') && help.len() > 10 && !help.to_lowercase().contains("microsecond"),
            "{name}: {help}"
        );
        for (at, unit) in ["seconds", "bytes"].iter().enumerate() {
            if let Some(place) = words.iter().position(|it| it == unit) {
                assert_eq!(words.len() - 1, place, "{name}: its unit is not at the end");
                seen[at] += 1;
            }
        }
        // The client library takes `_total` off the names of counters' families.
        assert!(!words.contains(&"total"), "{name}");
        let suffix = |it: &str| it.ends_with("_total");
        let names = family["samples"].as_array().unwrap().iter().map(|it| it[0].as_str().unwrap());
        assert!(names.map(suffix).all(|it| it == (kind == "counter")), "{name}: {kind}");
    }
    assert!(seen[0] >= 8 && seen[1] >= 8, "{seen:?}");
}

/// Buckets are cumulative, the last of them is all, and all is what the JSON counts.
#[allow(clippy::cast_precision_loss, clippy::float_cmp, reason = "small counts")]
fn histograms(families: &Value, json: &Value) {
    for kind in ["hit", "miss", "pass", "other"] {
        let family = &families["larder_request_duration_seconds"];
        assert_eq!("histogram", family["type"]);
        let samples = family["samples"].as_array().unwrap();
        let buckets = samples.iter().filter(|it| it[1]["cache"] == kind && !it[1]["le"].is_null());
        let buckets: Vec<(f64, f64)> = buckets
            .map(|it| {
                (
                    it[1]["le"].as_str().unwrap().replace("+Inf", "inf").parse().unwrap(),
                    it[2].as_f64().unwrap(),
                )
            })
            .collect();
        assert!(buckets.len() > 10 && buckets.is_sorted(), "{kind}: {buckets:?}");
        let expect = json["latency"][kind]["count"].as_u64().unwrap() as f64;
        assert_eq!(expect, buckets.last().unwrap().1);
        assert_eq!(expect, sample(families, "larder_request_duration_seconds_count", &[("cache", kind)]));
        let sum = sample(families, "larder_request_duration_seconds_sum", &[("cache", kind)]);
        assert_eq!(json["latency"][kind]["sum_us"].as_u64().unwrap() as f64 / 1e6, sum);
        for (bound, count) in &buckets {
            let below = json["latency"][kind]["buckets"].as_array().unwrap().iter();
            let below = below.filter(|it| it[0].as_f64().unwrap() <= bound * 1e6 + 0.5);
            assert_eq!(*count, below.map(|it| it[1].as_f64().unwrap()).sum::<f64>(), "{kind} {bound}");
        }
    }
}
