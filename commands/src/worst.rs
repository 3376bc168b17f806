//! `larder worst`: the slow and failed requests that a running larder keeps without sampling, as text or JSON.

use crate::admin_client;
use crate::cli::Stats;
use crate::terminal::{Ink, Screen, harmless, micros, url_within};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Columns in front of a URL.
const BEFORE_URL: usize = 76;
/// The fewest columns of a URL.
const LEAST_URL: usize = 40;
/// The requests that are printed of each list.
const ROWS: usize = 20;

/// The requests, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Stats) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/worst", TIMEOUT)
}

/// The requests as text.
#[must_use]
pub fn render(worst: &Value, screen: Screen) -> String {
    let mut out = String::new();
    for (name, title) in [("failed", "failed, the latest first"), ("slow", "slowest of a day")] {
        let all = worst[name].as_array().map_or(&[][..], Vec::as_slice);
        let _ = writeln!(out, "{}", screen.paint(Ink::Bold, title));
        if all.is_empty() {
            out.push_str("  none\n");
        }
        for it in all.iter().take(ROWS) {
            out.push_str(&row(it, screen));
        }
        if all.len() > ROWS {
            let _ = writeln!(out, "  {} more: --json", all.len() - ROWS);
        }
    }
    out
}

fn row(it: &Value, screen: Screen) -> String {
    let text = |name: &str| harmless(it[name].as_str().unwrap_or(""));
    let width = screen.width.map_or(usize::MAX, |it| it.saturating_sub(BEFORE_URL).max(LEAST_URL));
    let at = date::format(WallTime(it["at"].as_u64().unwrap_or(0)));
    // Without the day of the week and the zone.
    let at = at.get(5..25).unwrap_or(&at).to_owned();
    let duration = micros(it["duration_us"].as_f64().unwrap_or(0.0));
    let reason = match text("reason") {
        _ if it["broken"] == true => "broken off".to_owned(),
        it if it.is_empty() => text("cache"),
        it => it,
    };
    let status = it["status"].as_u64().unwrap_or(0);
    let url = url_within(&text("url"), width);
    format!("  {at}  {}  {status}  {duration:>9}  {reason:<18} {} {url}\n", text("id"), text("method"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_request_is_a_line() {
        let request = json!({
            "id": "0abc1234", "at": 1_700_000_000, "method": "GET", "url": "http://a/b", "route": "a/*", "status": 503,
            "duration_us": 1500, "origin_us": 0, "cache": "uri-miss", "reason": "first-request", "origin": "", "request_id": "",
        });
        let mut broken = request.clone();
        (broken["status"], broken["broken"]) = (200.into(), true.into());
        let line = row(&broken, Screen::NONE);
        assert!(line.contains("  200     1.5 ms  broken off "), "{line}");
        let rendered = render(&json!({ "failed": [request], "slow": [] }), Screen::NONE);
        let line = rendered.lines().nth(1).unwrap();
        for part in ["14 Nov 2023 22:13:20", "0abc1234", "503", "first-request", "GET http://a/b"] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        assert!(rendered.ends_with("slowest of a day\n  none\n"), "{rendered}");
    }
}
