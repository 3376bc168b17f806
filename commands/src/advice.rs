//! `larder advice`: the findings of a running larder about its cache, as text or JSON. The findings are made there.

use crate::admin_client;
use crate::cli::Stats;
use crate::explain::change_as_text;
use crate::json::{list, number, text};
use crate::terminal::{Ink, Screen, count, harmless, micros, span, wrapped};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request: the advice tries its changes on recent requests, for seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The advice, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Stats) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/advice", TIMEOUT)
}

/// The advice as text.
#[must_use]
pub fn render(advice: &Value, screen: Screen) -> String {
    let mut out = String::new();
    if advice["statistics"] == "off" {
        out.push_str("Statistics are off (admin.statistics): nothing is counted.\n");
    }
    let findings = list(&advice["findings"]);
    if findings.is_empty() {
        let span = span(number(&advice["seconds"]));
        let _ =
            writeln!(out, "No finding: no change is known that would help the requests of the last {span}.");
    }
    for it in findings {
        let place = it["route"].as_str().map_or(String::new(), |it| format!("{}: ", harmless(it)));
        let title = wrapped(&format!("{place}{}", text(&it["sentence"])), 0, 2, screen);
        let _ = writeln!(out, "{}", screen.paint(Ink::Bold, &title));
        let (requests, per_hour) = (count(number(&it["requests"])), count(number(&it["per_hour"])));
        let span = span(number(&it["seconds"]));
        let gain = match text(&it["saves"]) == "bytes" {
            true => format!(
                "{requests} smaller responses within the last {span} ({per_hour} an hour): {}",
                text(&it["from"])
            ),
            false => format!(
                "at most {requests} within the last {span} ({per_hour} an hour, {} of the origin): {}",
                micros(number(&it["origin_us"])),
                text(&it["from"])
            ),
        };
        let _ = writeln!(out, "  {}", wrapped(&gain, 2, 2, screen));
        for change in list(&it["changes"]) {
            out.push_str(&change_as_text(change, screen));
        }
        out.push('\n');
    }
    let uncached = list(&advice["uncached"]);
    if !uncached.is_empty() {
        let _ = writeln!(
            out,
            "{}",
            screen
                .paint(Ink::Bold, "not cached on purpose: by the configuration, the request or the response")
        );
    }
    for it in uncached {
        let evidence = it["evidence"].as_str().map_or_else(String::new, |it| format!(" {}", harmless(it)));
        let (requests, route) = (count(number(&it["requests"])), text(&it["route"]));
        let row = format!("{requests} {route}: {}{evidence}", text(&it["sentence"]));
        let _ = writeln!(out, "  {}", wrapped(&row, 2, 4, screen));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_finding_has_its_gain_and_its_changes() {
        let rendered = render(
            &json!({
                "statistics": "on",
                "findings": [{
                    "name": "small-ram", "sentence": "RAM is too small.", "route": null, "requests": 71, "seconds": 1800, "per_hour": 142,
                    "origin_us": 3_000_000, "from": "requests with the reason evicted",
                    "changes": [{ "by": "configuration", "sentence": "RAM keeps more.", "restart": true, "diff": [],
                                  "settings": ["cache.ram.size = \"2GiB\""] }],
                }, {
                    "name": "compression-off", "sentence": "Text is plain.", "route": null, "saves": "bytes", "requests": 12, "seconds": 1800, "per_hour": 24,
                    "origin_us": 0, "from": "stored responses", "changes": [],
                }],
                "uncached": [{ "route": "shop", "reason": "set-cookie", "sentence": "It sets a cookie.", "requests": 9,
                              "evidence": "Recent requests: as well." }],
            }),
            Screen::NONE,
        );
        for line in [
            "RAM is too small.",
            "  12 smaller responses within the last 30 min (24 an hour): stored responses",
            "- RAM keeps more. It takes effect at a restart.",
            "  cache.ram.size = \"2GiB\"",
            "not cached on purpose: by the configuration, the request or the response",
            "  9 shop: It sets a cookie. Recent requests: as well.",
        ] {
            assert!(rendered.lines().any(|it| it == line), "{line:?} is not in\n{rendered}");
        }
        assert!(render(&json!({ "findings": [], "uncached": [] }), Screen::NONE).starts_with("No finding"));
    }
}
