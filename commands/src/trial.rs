//! `larder check --against-recent`: sends a configuration to a running larder, which tries it on its recent requests, and prints
//! the report. The decisions are made there.

use crate::admin_client;
use crate::cli::CheckRecent;
use crate::json::{list, number, text};
use crate::terminal::{Ink, Screen, count, harmless, wrapped};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request: a trial takes 20 seconds at most, and larder runs one at a time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The most examples of a kind that are printed.
const EXAMPLES: usize = 5;

/// The result of the trial, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, it rejects the token, or there is no file.
pub fn request(order: &CheckRecent) -> Result<Value, String> {
    let file = order.plan.file().ok_or("There is no configuration file to try.")?;
    let text = std::fs::read_to_string(&file)
        .map_err(|it| format!("{} cannot be read: {}.", file.display(), larder_stdx::error::plain(&it)))?;
    let admin = match order.admin.clone() {
        Some(admin) => admin,
        None => admin_client::of_tried(&file)?,
    };
    let mut report = admin_client::post(&admin, "/api/v1/config/trial", &json!({ "text": text }), TIMEOUT)?;
    name_lines(&mut report, &file.display().to_string());
    Ok(report)
}

/// Names the lines of the tried text by the file that it is from. The server has only the text, and names them by its own file.
fn name_lines(trial: &mut Value, file: &str) {
    let Some(running) = trial["file"].as_str().map(|it| format!("{it}:")) else { return };
    let changes = trial["changes"].as_array_mut().into_iter().flatten();
    for example in changes.filter_map(|it| it["examples"].as_array_mut()).flatten() {
        let place = example["where"].as_str().and_then(|it| it.strip_prefix(&running));
        if let Some(line) = place.map(|it| format!("{file}:{it}")) {
            example["where"] = line.into();
        }
    }
}

/// The result as text.
#[must_use]
pub fn render(trial: &Value, screen: Screen) -> String {
    let mut out = String::new();
    if trial["records"] == 0 {
        return "No request has been recorded yet: larder records requests while statistics are on.\n"
            .to_owned();
    }
    let (records, requests) = (number(&trial["records"]), number(&trial["requests"]));
    let sample = match requests > records {
        true => format!(", a sample of {}", count(requests)),
        false => String::new(),
    };
    let seconds = number(&trial["to"]) - number(&trial["from"]);
    let title = format!("on the last {} requests{sample}, of {}", count(records), span(seconds));
    let _ = writeln!(out, "{}", screen.paint(Ink::Bold, &title));
    let ratio = &trial["hit_ratio"];
    let line = format!(
        "hit ratio  {} measured; by the trial {} now, {} with this configuration",
        percent(&ratio["measured"]),
        percent(&ratio["running"]),
        percent(&ratio["changed"])
    );
    let _ = writeln!(out, "  {}", wrapped(&line, 2, 13, screen));
    let keys: Vec<&str> = list(&trial["not_modelled"]).iter().filter_map(Value::as_str).collect();
    if !keys.is_empty() {
        let line = format!(
            "not in this ratio: the effect of {}; the trial takes every tier to have room for every response",
            keys.join(", ")
        );
        let _ = writeln!(out, "  {}", wrapped(&line, 2, 4, screen));
    }
    let keys: Vec<&str> = list(&trial["not_judged"]).iter().filter_map(Value::as_str).collect();
    if !keys.is_empty() {
        let line =
            format!("not judged: the effect of {}, which recorded responses do not show", keys.join(", "));
        let _ = writeln!(out, "  {}", wrapped(&line, 2, 4, screen));
    }
    if let Some(doubt) = trial["doubt"].as_str() {
        let line =
            format!("this ratio holds once stored responses are no longer in doubt: {}", harmless(doubt));
        let _ = writeln!(out, "  {}", wrapped(&line, 2, 4, screen));
    }
    write_shared(trial, screen, &mut out);
    write_changes(trial, screen, &mut out);
    for it in list(&trial["unknown"]) {
        let line = format!("not known: {} {}", count(number(&it["requests"])), text(&it["sentence"]));
        let _ = writeln!(out, "  {}", wrapped(&line, 2, 4, screen));
    }
    if trial["complete"] == false {
        out.push_str("  The trial was ended by its time limit: the latest requests are not in it.\n");
    }
    out
}

fn write_shared(trial: &Value, screen: Screen, out: &mut String) {
    for it in list(&trial["shared"]) {
        let line = format!(
            "DANGER: {} {}",
            counted(&it["requests"], "newly shared response", "newly shared responses"),
            text(&it["sentence"])
        );
        let _ = writeln!(out, "  {}", screen.paint(Ink::Red, &wrapped(&line, 2, 4, screen)));
        for example in list(&it["examples"]).iter().take(EXAMPLES) {
            let line = format!("{} {}", text(&example["method"]), text(&example["url"]));
            let _ = writeln!(out, "    {}", wrapped(&line, 4, 6, screen));
        }
    }
}

fn write_changes(trial: &Value, screen: Screen, out: &mut String) {
    let changed: Vec<&Value> =
        list(&trial["changes"]).iter().filter(|it| number(&it["requests"]) > 0.0).collect();
    if changed.is_empty() {
        out.push_str("  No request changes its route, status, access, key, storage or lifetime.\n");
    }
    for it in changed {
        let title = match text(&it["kind"]) {
            it if it == "open" => "newly open".to_owned(),
            it => format!("{it} changes"),
        };
        let line = format!(
            "{title}: {}, {}",
            counted(&it["requests"], "request", "requests"),
            counted(&it["urls"], "URL", "URLs")
        );
        let _ = writeln!(out, "  {}", screen.paint(Ink::Bold, &line));
        for example in list(&it["examples"]).iter().take(EXAMPLES) {
            let of = |it: &Value| it.as_str().map_or("none".to_owned(), harmless);
            let place = example["where"].as_str().map_or(String::new(), |it| format!(" ({})", harmless(it)));
            let line = format!(
                "{} {}: {} -> {}{place}",
                text(&example["method"]),
                text(&example["url"]),
                of(&example["from"]),
                of(&example["to"])
            );
            let _ = writeln!(out, "    {}", wrapped(&line, 4, 6, screen));
        }
    }
}

/// A number with its noun.
fn counted(of: &Value, one: &str, many: &str) -> String {
    let number = number(of);
    format!("{} {}", count(number), if number == 1.0 { one } else { many })
}

fn span(seconds: f64) -> String {
    match seconds {
        it if it < 120.0 => format!("{it:.0} s"),
        it if it < 7200.0 => format!("{:.0} min", it / 60.0),
        it => format!("{:.0} h", it / 3600.0),
    }
}

fn percent(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), |it| format!("{:.1} %", it * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_tried_file() {
        let example = |place: &str| json!({ "changes": [{ "examples": [{ "where": place }] }], "file": "/etc/larder.toml" });
        for (report, expect) in [
            ("/etc/larder.toml:11", "new.toml:11"),
            ("/etc/more.toml:3", "/etc/more.toml:3"),
            ("preset wordpress", "preset wordpress"),
        ] {
            let mut trial = example(report);
            name_lines(&mut trial, "new.toml");
            assert_eq!(expect, trial["changes"][0]["examples"][0]["where"]);
        }
    }

    #[test]
    fn a_report_has_the_ratio_the_danger_and_the_changes() {
        let report = render(
            &json!({
                "records": 1200, "requests": 4800, "from": 1000, "to": 1300, "complete": true,
                "hit_ratio": { "measured": 0.612, "running": 0.608, "changed": 0.84 },
                "shared": [{ "reason": "set-cookie", "sentence": "have Set-Cookie", "requests": 3,
                             "examples": [{ "method": "GET", "url": "http://h/a" }] }],
                "changes": [
                    { "kind": "route", "requests": 12, "urls": 1, "examples": [{ "method": "GET", "url": "http://h/b",
                      "from": "b", "to": null, "where": "larder.toml:12" }] },
                    { "kind": "open", "requests": 1, "urls": 1, "examples": [{ "method": "GET", "url": "http://h/c",
                      "from": "401", "to": "admitted", "where": null }] },
                    { "kind": "status", "requests": 0, "urls": 0, "examples": [] },
                ],
                "unknown": [{ "fact": "response", "sentence": "got a response that was not recorded", "requests": 7 }],
                "not_modelled": ["cache.ram.size"],
            }),
            Screen::NONE,
        );
        for line in [
            "on the last 1 200 requests, a sample of 4 800, of 5 min",
            "  hit ratio  61.2 % measured; by the trial 60.8 % now, 84.0 % with this configuration",
            "  DANGER: 3 newly shared responses have Set-Cookie",
            "    GET http://h/a",
            "  route changes: 12 requests, 1 URL",
            "    GET http://h/b: b -> none (larder.toml:12)",
            "  newly open: 1 request, 1 URL",
            "    GET http://h/c: 401 -> admitted",
            "  not in this ratio: the effect of cache.ram.size; the trial takes every tier to have room for every response",
            "  not known: 7 got a response that was not recorded",
        ] {
            assert!(report.lines().any(|it| it == line), "{line:?} is not in\n{report}");
        }
        assert!(!report.contains("status changes"), "{report}");
        assert!(render(&json!({ "records": 0 }), Screen::NONE).starts_with("No request"));
    }
}
