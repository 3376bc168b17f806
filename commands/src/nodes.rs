//! `larder nodes`: the nodes of the fleet and its memcached servers, as a running larder knows them, as a table or JSON.

use crate::admin_client;
use crate::cli::Stats;
use crate::json::{list, number, text};
use crate::stats::render_ratio;
use crate::terminal::{Ink, Screen, count, span, within};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most columns of a name.
const NAME: usize = 32;

/// The nodes, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Stats) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/nodes", TIMEOUT)
}

/// The nodes as text.
#[must_use]
pub fn render(fleet: &Value, screen: Screen) -> String {
    if fleet["shared"] != true {
        return format!("{}\n", text(&fleet["why"]));
    }
    let head = ["node", "state", "version", "up", "requests/s", "hit ratio", "behind", "last report"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(list(&fleet["nodes"]).iter().map(row));
    let width = |column: usize| rows.iter().map(|it| it[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let ink = if at == 0 { Ink::Bold } else { Ink::Plain };
        let _ = writeln!(out, "{}", screen.paint(ink, line.trim_end()));
    }
    for it in list(&fleet["nodes"]) {
        notes(it).into_iter().for_each(|note| out.push_str(&note));
    }
    out.push('\n');
    for it in list(&fleet["servers"]) {
        let log = if it["followed"] == true {
            "its purge log is followed"
        } else {
            "its purge log is not followed"
        };
        let used = if it["in_use"] == true { "" } else { "; not used after failures" };
        let _ = writeln!(out, "memcached {}: {log}{used}", text(&it["name"]));
    }
    if fleet["damaged_records"].as_u64().is_some_and(|it| it > 0) {
        let _ = writeln!(out, "{} records there are damaged or of no node", fleet["damaged_records"]);
    }
    out
}

/// The columns of a node.
fn row(it: &Value) -> [String; 8] {
    let known = it["status"] == "known";
    let of = |name: &str, form: fn(f64) -> String| it[name].as_f64().map_or("-".to_owned(), form);
    let name = if it["self"] == true { format!("{} (this)", text(&it["name"])) } else { text(&it["name"]) };
    let version = if known { text(&it["version"]) } else { "-".to_owned() };
    [
        within(&name, NAME),
        state(it),
        version,
        of("uptime", span),
        of("requests_per_second", count),
        render_ratio(it["hit_ratio"].as_f64()),
        behind(it),
        reported(it),
    ]
}

fn state(it: &Value) -> String {
    match it["presence"].as_str().unwrap_or("") {
        "silent" => return "silent".to_owned(),
        "left" => return "left".to_owned(),
        "unknown" => return "unknown".to_owned(),
        _ => {}
    }
    let word = match it["status"].as_str().unwrap_or("") {
        "known" => it["state"].as_str().map_or("not judged".to_owned(), str::to_owned),
        "awaited" => "no status yet".to_owned(),
        "older-version" => "no status (older version)".to_owned(),
        "later-version" => "status of a later version".to_owned(),
        _ => "damaged status".to_owned(),
    };
    match it["finding"].as_str() {
        Some(finding) if it["status"] == "known" => format!("{word}: {finding}"),
        _ => word,
    }
}

/// The distance to the end of the log in which the node is furthest behind.
fn behind(it: &Value) -> String {
    let lags = list(&it["lags"]).iter().filter(|it| it.is_object());
    let furthest = lags.max_by(|a, b| number(&a["entries"]).total_cmp(&number(&b["entries"])));
    match furthest {
        None => "-".to_owned(),
        Some(it) if it["entries"] == 0 => "0".to_owned(),
        Some(it) => format!("{} ({:.1} s)", it["entries"], number(&it["ms"]) / 1000.0),
    }
}

fn reported(it: &Value) -> String {
    let Some(since) = it["since_ms"].as_f64() else { return "not seen yet".to_owned() };
    let more = if it["since_is_exact"] == false { "more than " } else { "" };
    format!("{more}{} ago", span(since / 1000.0))
}

/// Lines below the table.
fn notes(it: &Value) -> Vec<String> {
    let name = text(&it["name"]);
    let mut notes = Vec::new();
    if let Some(off) = it["clock_off"].as_i64() {
        let way = if off > 0 { "ahead of" } else { "behind" };
        notes.push(format!("{name}: its clock is {} s {way} this node's\n", off.unsigned_abs()));
    }
    if it["presence"] == "silent" {
        notes.push(format!(
            "{name}: does not report; a purge with --wait takes a lease, and {name} validates every stored response until it \
             reports again\n"
        ));
    }
    for differs in list(&it["differs"]) {
        let what = match differs.as_str().unwrap_or("") {
            "servers" => "uses another list of memcached servers; purges do not reach all nodes",
            "keys" => "finds keys on other servers, or in another form; nodes do not share its pages",
            "envelope" => "writes pages in another version of the format; nodes do not share them",
            _ => continue,
        };
        notes.push(format!("{name}: {what}\n"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, more: Value) -> Value {
        let mut it = json!({
            "id": "1", "name": name, "self": false, "presence": "live", "since_ms": 800, "since_is_exact": true, "status": "known",
            "state": "healthy", "finding": null, "version": "1.2.0", "uptime": 7_300, "requests_per_second": 12.3,
            "hit_ratio": 0.914, "lags": [{ "entries": 0, "ms": 0 }, null], "clock_off": null, "differs": [],
        });
        it.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        it
    }

    #[test]
    fn each_node_is_a_row() {
        let rendered = render(
            &json!({
                "shared": true, "damaged_records": 0,
                "servers": [
                    { "name": "10.0.0.1:11211", "followed": true, "in_use": true },
                    { "name": "10.0.0.2:11211", "followed": false, "in_use": false },
                ],
                "nodes": [
                    node("a", json!({ "self": true, "since_ms": 0 })),
                    node("b", json!({ "state": "degraded", "finding": "memcached-down", "clock_off": -300, "lags": [{ "entries": 3, "ms": 2100 }] })),
                    node("c", json!({ "presence": "silent", "since_ms": 90_000, "since_is_exact": false })),
                    node("d", json!({ "status": "older-version", "version": null, "uptime": null, "requests_per_second": null, "hit_ratio": null })),
                    node("\u{1b}[31m", json!({ "presence": "left", "differs": ["servers", "version"] })),
                ],
            }),
            Screen::NONE,
        );
        let lines: Vec<&str> = rendered.lines().collect();
        let cells =
            |at: usize| lines[at].split("  ").map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>();
        assert_eq!(vec!["a (this)", "healthy", "1.2.0", "2 h", "12", "91.4 %", "0", "0.0 s ago"], cells(1));
        assert_eq!(vec!["degraded: memcached-down", "3 (2.1 s)"], [cells(2)[1], cells(2)[6]]);
        assert_eq!(["silent", "more than 90 s ago"], [cells(3)[1], cells(3)[7]]);
        assert_eq!(vec!["d", "no status (older version)", "-", "-", "-", "-", "0", "0.8 s ago"], cells(4));
        assert_eq!(["?[31m", "left"], [cells(5)[0], cells(5)[1]]);
        for line in [
            "b: its clock is 300 s behind this node's",
            "?[31m: uses another list of memcached servers; purges do not reach all nodes",
            "memcached 10.0.0.1:11211: its purge log is followed",
            "memcached 10.0.0.2:11211: its purge log is not followed; not used after failures",
        ] {
            assert!(lines.contains(&line), "{line:?} is not in {rendered}");
        }
        assert!(rendered.contains("c: does not report; a purge with --wait takes a lease"), "{rendered}");
    }

    #[test]
    fn without_a_fleet_there_is_one_sentence() {
        assert_eq!(
            "No.\n",
            render(&json!({ "shared": false, "why": "No.", "nodes": [], "servers": [] }), Screen::NONE)
        );
    }
}
