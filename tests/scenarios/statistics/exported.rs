//! What Prometheus is told is what the JSON says: read by Prometheus' own client library.

use super::{of, origin, stats, two_sites};
use crate::harness::Larder;
use crate::harness::server::Setup;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the client library makes of a text.
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
fn what_prometheus_reads_is_what_the_statistics_say() {
    let (one, other) = (origin(), origin());
    let config = two_sites("true", &one, &other);
    let larder = Larder::start(Setup { config, env: Vec::new() });
    for (host, target) in
        [("a.test", "/x"), ("a.test", "/x"), ("b.test", "/api/private"), ("c.test", "/missing")]
    {
        super::ask(&larder, "GET", host, target);
    }
    super::route(&larder, "*/*", 1);
    super::route(&larder, "a.test/api/*", 1);
    let json = stats(&larder);
    let answer = larder.admin_get("/metrics");
    assert_eq!(Some("text/plain; version=0.0.4; charset=utf-8"), answer.field("content-type"));
    let families = parsed(&answer.text());

    for row in larder_counters::Counters::TABLE {
        let gauge = row.unit == larder_counters::Unit::Gauge;
        let name = format!("larder_{}", row.name);
        if !row.name.ends_with("_micros")
            && row.name != "connections_open"
            && row.name != "connections_accepted"
        {
            let name = if gauge { name.clone() } else { format!("{name}_total") };
            let value = json["counters"][row.name].as_u64().unwrap() as f64;
            assert_eq!(value, sample(&families, &name, &[]), "{name}");
            let family = &families[if gauge { &*name } else { name.trim_end_matches("_total") }];
            assert_eq!(
                (row.help, if gauge { "gauge" } else { "counter" }),
                (family["help"].as_str().unwrap(), family["type"].as_str().unwrap())
            );
        }
    }
    for (site, path) in [("a.test", "/*"), ("a.test", "/api/*"), ("*", "/*")] {
        for row in larder_counters::RouteCounters::TABLE.iter().filter(|it| it.name != "origin_us") {
            let value = of(&json, "routes", &format!("{site}{path}"), row.name) as f64;
            let name = format!("larder_route_{}_total", row.name);
            assert_eq!(
                value,
                sample(&families, &name, &[("site", site), ("route", path)]),
                "{name} {site} {path}"
            );
        }
    }
    let micros = of(&json, "routes", "a.test/*", "origin_us") as f64 / 1e6;
    assert!(micros > 0.0);
    assert_eq!(
        micros,
        sample(&families, "larder_route_origin_seconds_total", &[("site", "a.test"), ("route", "/*")])
    );
    let answers = sample(&families, "larder_origin_server_answers_total", &[("origin", &one.url())]);
    assert_eq!(of(&json, "origins", &one.url(), "answers") as f64, answers);
    assert_eq!(1.0, sample(&families, "larder_tier_hits_total", &[("tier", "ram")]));
    assert_eq!(8.0, sample(&families, "larder_tier_bytes_served_total", &[("tier", "ram")]));
    assert!(sample(&families, "larder_memory_bytes", &[("tier", "ram"), ("purpose", "responses")]) > 0.0);
    histograms(&families, &json);
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
