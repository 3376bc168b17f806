//! `larder stats`: the statistics of a running larder since its start, as text or JSON. Counting is done there; `larder
//! top` shows the changes per second.

use crate::admin_client;
use crate::cli::Stats;
use crate::json::{list, number};
use crate::terminal::{Ink, Screen, bytes, count, harmless, micros, share, within, wrapped};
use larder_counters::{Counters, Unit};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The statistics, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Stats) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/stats", TIMEOUT)
}

/// The statistics as text.
#[must_use]
pub fn render(stats: &Value, screen: Screen) -> String {
    let mut out = String::new();
    let counters = &stats["counters"];
    let listens: Vec<&str> = list(&stats["listen"]).iter().filter_map(Value::as_str).collect();
    let on = format!("on {}, up {}", harmless(&listens.join(" ")), uptime(number(&stats["uptime"])));
    if let Some((ink, word, rest)) = state(stats) {
        let rest = wrapped(&rest, word.len(), 2, screen);
        let _ = writeln!(out, "{}{rest}", screen.paint(ink, &word));
    }
    let _ = writeln!(out, "{} {}\n", screen.paint(Ink::Bold, "larder"), wrapped(&on, 7, 7, screen));
    if stats["statistics"] == "off" {
        let off =
            "Statistics are off (admin.statistics): routes, tiers and latencies show the values from before.";
        let _ = writeln!(out, "{}\n", wrapped(off, 0, 0, screen));
    }
    let of = |name: &str| number(&counters[name]);
    let (hits, misses, passes) = (of("cache_hits"), of("cache_misses"), of("cache_passes"));
    let mut row = |name: &str, text: &str| {
        let name = format!("{name:<NAMES$}");
        let _ = writeln!(out, "{}{}", screen.paint(Ink::Dim, &name), wrapped(text, NAMES, NAMES, screen));
    };
    let requests = format!(
        "{}   hits {}   misses {}   passed {}   hit ratio {}",
        count(number(&counters["requests"])),
        count(hits),
        count(misses),
        count(passes),
        render_ratio(hit_ratio(hits, misses, passes))
    );
    row("requests", &requests);
    let retries = match of("origin_retries") {
        0.0 => String::new(),
        it => format!(" ({} of them sent twice)", count(it)),
    };
    let origin = format!(
        "{} requests{retries}, about {} of its time saved by hits",
        count(of("origin_requests")),
        micros(number(&stats["saved"]["origin_us"]))
    );
    row("origin", &origin);
    row("connections", &format!("{} open", count(number(&counters["connections_open"]))));
    if stats["privileges"].is_object() {
        row("privileges", &privileges(&stats["privileges"]));
    }
    out.push('\n');
    latencies(&mut out, &stats["latency"], screen);
    routes(&mut out, stats, screen);
    reasons(&mut out, stats, screen);
    origins(&mut out, stats, screen);
    certificates(&mut out, stats, screen);
    tiers(&mut out, stats, screen);
    memory(&mut out, &stats["memory"], screen);
    limits(&mut out, counters, screen);
    out
}

/// The state of the server: its colour, its word, and the rest of the sentence. `None` from a larder that reports none.
#[must_use]
pub fn state(stats: &Value) -> Option<(Ink, String, String)> {
    let health = &stats["health"];
    let sentence = harmless(health["sentence"].as_str()?);
    let ink = match health["word"].as_str()? {
        "healthy" => Ink::Green,
        "degraded" => Ink::Yellow,
        _ => Ink::Red,
    };
    let end = sentence.find([':', '.']).unwrap_or(sentence.len());
    let (word, rest) = sentence.split_at(end);
    Some((ink, word.to_owned(), rest.to_owned()))
}

/// The hit ratio: hits in the requests for which the cache was enabled, including passes; files and rejected requests are
/// in neither. A stale hit is a hit, and a response that the origin confirmed by a 304 is a miss. `stats`, `top` and the
/// page use this definition. `None` without such a request.
#[must_use]
pub fn hit_ratio(hits: f64, misses: f64, passes: f64) -> Option<f64> {
    let asked = hits + misses + passes;
    (asked > 0.0).then(|| hits / asked)
}

/// A hit ratio as text; `-` without one.
#[must_use]
pub fn render_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |it| share(it, 1.0))
}

/// The user and the capabilities of the process, as a line.
fn privileges(active: &Value) -> String {
    let user =
        if active["uid"] == 0 { "root".to_owned() } else { format!("user {}", number(&active["uid"])) };
    let capabilities: Vec<&str> = list(&active["capabilities"]).iter().filter_map(Value::as_str).collect();
    let capabilities = match capabilities.len() {
        0 => "no capabilities".to_owned(),
        few @ 1..=4 => format!("{few} capabilities ({})", harmless(&capabilities.join(", "))),
        many => format!("{many} capabilities"),
    };
    let programs = if active["no_new_privileges"] == true { ", no_new_privs" } else { "" };
    let filter = if active["system_call_filter"] == true { ", filter of system calls" } else { "" };
    let paths = match active["landlock"].as_u64() {
        Some(abi) => format!(", paths of the configuration only (Landlock ABI {abi})"),
        None => String::new(),
    };
    format!("{user}, group {}, {capabilities}{programs}{filter}{paths}", number(&active["gid"]))
}

/// Columns of the names on the left.
const NAMES: usize = 13;

fn latencies(out: &mut String, latency: &Value, screen: Screen) {
    let kinds = ["hit", "miss", "pass", "other"].into_iter().filter(|it| number(&latency[it]["count"]) > 0.0);
    let rows = kinds.map(|kind| {
        let of = |name: &str| micros(number(&latency[kind][name]));
        vec![kind.to_owned(), of("p50_us"), of("p90_us"), of("p99_us"), of("p999_us"), of("max_us")]
    });
    table(out, &["latency", "50 %", "90 %", "99 %", "99.9 %", "longest"], rows.collect(), screen);
}

fn routes(out: &mut String, stats: &Value, screen: Screen) {
    let row = |it: &Value| {
        let of = |name: &str| number(&it["counters"][name]);
        let methods: Vec<&str> = list(&it["methods"]).iter().filter_map(Value::as_str).collect();
        let name = [it["name"].as_str().unwrap_or(""), &methods.join(",")].join(" ");
        vec![
            harmless(name.trim_end()),
            count(of("requests")),
            render_ratio(hit_ratio(of("hits"), of("misses"), of("passes"))),
            count(of("errors_4xx")),
            count(of("errors_5xx")),
            bytes(of("bytes_sent")),
            micros(of("origin_us") / of("origin_requests").max(1.0)),
            micros(number(&it["latency"]["p99_us"])),
        ]
    };
    let head = ["route", "requests", "hit ratio", "4xx", "5xx", "sent", "origin", "99 %"];
    table(out, &head, list(&stats["routes"]).iter().map(row).collect(), screen);
}

/// The reasons of requests to origins, of all routes together: name, requests and microseconds, most requests first. `larder top` has
/// the same.
#[must_use]
pub fn reasons_of(stats: &Value) -> Vec<(String, f64, f64)> {
    let mut sums: Vec<(String, f64, f64)> = Vec::new();
    for (name, requests, spent) in list(&stats["routes"]).iter().flat_map(reasons_of_route) {
        match sums.iter_mut().find(|it| it.0 == name) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + requests, sum.2 + spent),
            None => sums.push((name, requests, spent)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums
}

/// The same of one route, in no order.
#[must_use]
pub fn reasons_of_route(route: &Value) -> Vec<(String, f64, f64)> {
    let one =
        |(name, it): (&String, &Value)| (name.clone(), number(&it["requests"]), number(&it["origin_us"]));
    route["reasons"].as_object().into_iter().flatten().map(one).collect()
}

/// Why requests reached origins, or waited for another that did.
fn reasons(out: &mut String, stats: &Value, screen: Screen) {
    let sums = reasons_of(stats);
    let all: f64 = sums.iter().map(|it| it.1).sum();
    let row = |it: &(String, f64, f64)| vec![harmless(&it.0), count(it.1), share(it.1, all), micros(it.2)];
    table(
        out,
        &["why not a hit", "requests", "share", "origin time"],
        sums.iter().map(row).collect(),
        screen,
    );
}

/// Each origin with its state; nothing for a single healthy origin in clear text.
fn origins(out: &mut String, stats: &Value, screen: Screen) {
    let all = list(&stats["origins"]);
    let is_plain = |it: &Value| !it["name"].as_str().is_some_and(|it| it.starts_with("https:"));
    let is_well = |it: &Value| it["state"] == "up" && number(&it["counters"]["failures"]) == 0.0;
    if all.len() < 2 && all.iter().all(|it| is_well(it) && is_plain(it)) {
        return;
    }
    let row = |it: &Value| {
        let of = |name: &str| number(&it["counters"][name]);
        let state = crate::origin::state(&it["state"]);
        let state = match number(&it["ejected_ms"]) {
            0.0 => state,
            left => format!("{state} for {}", micros(1000.0 * left)),
        };
        vec![
            harmless(it["name"].as_str().unwrap_or("")),
            state,
            harmless(it["protocol"].as_str().unwrap_or("-")),
            count(number(&it["in_flight"])),
            count(of("requests")),
            count(of("failures")),
            count(number(&it["ejections"])),
            micros(number(&it["latency"]["p99_us"])),
        ]
    };
    let head = ["origin", "is", "speaks", "in progress", "requests", "failures", "ejected", "99 %"];
    table(out, &head, all.iter().map(row).collect(), screen);
}

/// Each certificate of `tls.acme`, and every other one that ends within 30 days.
fn certificates(out: &mut String, stats: &Value, screen: Screen) {
    let now = stats["now"].as_i64().unwrap_or(0);
    let is_near = |it: &&Value| {
        it["source"] == "acme" || it["until"].as_i64().is_some_and(|until| until - now < 30 * 86_400)
    };
    let lines: Vec<String> = list(&stats["certificates"])
        .iter()
        .filter(is_near)
        .map(|it| crate::certificates::line(it, now))
        .collect();
    if !lines.is_empty() {
        let _ = writeln!(out, "{}\n{}", screen.paint(Ink::Bold, "certificates"), lines.concat());
    }
}

fn tiers(out: &mut String, stats: &Value, screen: Screen) {
    let row = |it: &Value| {
        let of = |name: &str| it[name].as_f64();
        let text = |value: Option<f64>, spell: fn(f64) -> String| value.map_or("-".to_owned(), spell);
        vec![
            harmless(it["name"].as_str().unwrap_or("")),
            harmless(it["state"].as_str().unwrap_or("")),
            text(of("objects"), count),
            text(of("used_bytes"), bytes),
            text(of("budget_bytes"), bytes),
            text(of("hits"), count),
            text(of("bytes_served"), bytes),
        ]
    };
    let head = ["tier", "is", "objects", "used", "of", "hits", "served"];
    table(out, &head, list(&stats["tiers"]).iter().map(row).collect(), screen);
}

fn memory(out: &mut String, memory: &Value, screen: Screen) {
    let row = |it: &Value| {
        let name = format!("{} {}", it["tier"].as_str().unwrap_or(""), it["purpose"].as_str().unwrap_or(""));
        let taken = number(&it["bytes"]);
        vec![harmless(&name), bytes(taken), share(taken, number(&memory["rss_bytes"]))]
    };
    let mut parts: Vec<&Value> =
        list(&memory["parts"]).iter().filter(|it| number(&it["bytes"]) > 0.0).collect();
    parts.sort_by(|a, b| number(&b["bytes"]).total_cmp(&number(&a["bytes"])));
    let mut rows: Vec<Vec<String>> = parts.into_iter().map(row).collect();
    rows.push(vec!["resident".to_owned(), bytes(number(&memory["rss_bytes"])), String::new()]);
    table(out, &["memory", "bytes", "share"], rows, screen);
}

/// The limits that were reached, by name.
fn limits(out: &mut String, counters: &Value, screen: Screen) {
    let reached =
        Counters::TABLE.iter().filter(|it| it.unit == Unit::Limit && number(&counters[it.name]) > 0.0);
    let rows: Vec<Vec<String>> = reached
        .map(|it| vec![it.name.to_owned(), count(number(&counters[it.name])), it.help.to_owned()])
        .collect();
    if rows.is_empty() {
        out.push_str("No limit was reached.\n");
        return;
    }
    out.push_str("limits that were reached\n");
    // Its meaning is printed next to it if it fits.
    let indent = if screen.width.is_none_or(|it| it >= 80) { 40 } else { 4 };
    for row in rows {
        let _ = write!(out, "  {:<28} {:>8}", row[0], row[1]);
        out.push_str(if indent == 40 { "  " } else { "\n    " });
        let _ = writeln!(out, "{}", wrapped(&row[2], indent, indent, screen));
    }
}

/// Aligned columns: the first to the left, the rest to the right. In a narrow terminal the first is shortened, down to
/// [`SHORTEST`], and then the last are omitted.
fn table(out: &mut String, head: &[&str], rows: Vec<Vec<String>>, screen: Screen) {
    if rows.is_empty() {
        return;
    }
    let wide =
        |at: usize| rows.iter().map(|it| it[at].chars().count()).chain([head[at].chars().count()]).max();
    let mut widths: Vec<usize> = (0..head.len()).map(|at| wide(at).unwrap_or(0)).collect();
    let room = screen.width.unwrap_or(usize::MAX);
    let all: usize = widths.iter().skip(1).map(|it| it + 2).sum();
    widths[0] = widths[0].max(SHORTEST).min(room.saturating_sub(all)).max(SHORTEST);
    let mut used = widths[0];
    let fitting = widths.iter().skip(1).take_while(|it| {
        used += **it + 2;
        used <= room
    });
    widths.truncate(1 + fitting.count());
    let mut line = |cells: &[&str], ink: Ink| {
        let mut text = format!("{:<width$}", within(cells[0], widths[0]), width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", screen.paint(ink, text.trim_end()));
    };
    line(head, Ink::Dim);
    for row in &rows {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>(), Ink::Plain);
    }
    out.push('\n');
}

/// The fewest columns of the first.
const SHORTEST: usize = 12;

/// Seconds in their two largest units.
fn uptime(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds, not negative")]
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statistics_are_printed_in_columns() {
        let latency = json!({ "count": 9, "p50_us": 7, "p90_us": 12, "p99_us": 1500, "p999_us": 2000, "max_us": 90_000 });
        let stats = json!({
            "listen": ["http://127.0.0.1:8080"], "uptime": 3700, "statistics": "on",
            "counters": { "requests": 12, "cache_hits": 9, "cache_misses": 3, "head_too_large": 2 },
            "latency": { "hit": latency, "miss": { "count": 0 } },
            "routes": [{ "name": "a/*", "methods": ["GET"], "latency": latency, "counters": {
                "requests": 12, "hits": 9, "misses": 3, "origin_requests": 2, "origin_us": 10_000, "bytes_sent": 2048 },
                "reasons": { "first-request": { "requests": 1, "origin_us": 4000 }, "set-cookie": { "requests": 3, "origin_us": 6000 } } }],
            "tiers": [{ "name": "ram", "state": "on", "objects": 3, "used_bytes": 1024, "budget_bytes": 2048, "hits": 9 },
                { "name": "disk", "state": "off", "hits": 0 }],
            "memory": { "rss_bytes": 4096, "parts": [{ "tier": "ram", "purpose": "arena", "bytes": 1024 }] },
            "origins": [{ "name": "http://a:1", "state": "ejected", "ejected_ms": 2000, "protocol": "HTTP/2.0", "in_flight": 1, "ejections": 2,
                "counters": { "requests": 7, "failures": 3 }, "latency": latency }],
            "saved": { "origin_us": 45_000 },
        });
        let rendered = render(&stats, Screen::NONE);
        let words = |start: &str| {
            let line = rendered
                .lines()
                .find(|it| it.starts_with(start))
                .unwrap_or_else(|| panic!("no {start}: {rendered}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!("larder on http://127.0.0.1:8080, up 1 h 1 min", words("larder"));
        assert!(words("requests").ends_with("hit ratio 75.0 %"), "{rendered}");
        assert_eq!(
            format!(
                "hit {} {} {} {} {}",
                micros(7.0),
                micros(12.0),
                micros(1500.0),
                micros(2000.0),
                micros(90_000.0)
            ),
            words("hit ")
        );
        assert!(!rendered.contains("\nmiss "), "nothing missed: {rendered}");
        let route = format!("a/* GET 12 75.0 % 0 0 {} {} {}", bytes(2048.0), micros(5000.0), micros(1500.0));
        assert_eq!(route, words("a/*"));
        let origin =
            format!("http://a:1 ejected for {} HTTP/2.0 1 7 3 2 {}", micros(2_000_000.0), micros(1500.0));
        assert_eq!(origin, words("http://a:1"));
        assert_eq!("disk off - - - 0 -", words("disk"));
        assert_eq!(format!("ram arena {} 25.0 %", bytes(1024.0)), words("ram arena"));
        assert!(words("  head_too_large").starts_with("head_too_large 2 Requests rejected"), "{rendered}");
        for width in [40, 60, 80, 120] {
            let rendered = render(&stats, Screen { colour: false, width: Some(width), height: None });
            assert!(rendered.lines().all(|it| it.chars().count() <= width), "{width}: {rendered}");
            assert!(rendered.contains("hit ratio"), "{width}: {rendered}");
        }
    }
}
