//! `larder purge`: sends purges to a running larder, and prints the result of each tier; with `--dry-run`, the counts of a
//! preview. The purging is done there.

use crate::admin_client;
use crate::cli::PurgeCommand;
use crate::json::list;
use crate::terminal::bytes;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of one purge: a purge of a whole fleet waits for leases.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Sends each purge in turn; returns all responses.
///
/// # Errors
/// One sentence: no larder responds, or a purge is malformed. Those before it are done.
pub fn request(order: &PurgeCommand) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), order.authority.as_deref())?;
    let path = if order.dry_run { "/api/v1/purge/preview" } else { "/cache/purge" };
    let mut answers = Vec::new();
    for asked in &order.asked {
        let answer = admin_client::post(&admin, path, asked, TIMEOUT);
        answers.push(answer.map_err(|sentence| match answers.len() {
            0 => sentence,
            _ if order.dry_run => sentence,
            done => format!("{sentence} The {done} before it were purged."),
        })?);
    }
    if order.dry_run {
        return Ok(json!({ "complete": true, "previews": answers }));
    }
    let complete = answers.iter().all(|it| it["complete"] == true);
    Ok(json!({ "complete": complete, "purges": answers }))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The target, with its kind.
fn target(of: &Value) -> String {
    let scope = of["scope"].as_object().and_then(|it| it.iter().next());
    scope.map_or(String::new(), |(kind, what)| match kind.as_str() {
        "all" => "everything".to_owned(),
        kind => format!("{kind} {}", text(what)),
    })
}

fn responses(count: u64) -> String {
    format!("{count} {}", if count == 1 { "response" } else { "responses" })
}

/// The responses as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    let mut out = String::new();
    list(&answer["previews"]).iter().for_each(|it| preview(it, &mut out));
    list(&answer["purges"]).iter().for_each(|it| purged(it, &mut out));
    out
}

/// The certainty of a count; zero is zero, and the detail names the responses that were not counted.
fn about(of: &Value, count: u64) -> &'static str {
    match text(&of["count_is"]) {
        "estimate" => "about ",
        "more" if count > 0 => "at least ",
        _ => "",
    }
}

fn purged(purge: &Value, out: &mut String) {
    let strength = text(&purge["strength"]);
    let _ = writeln!(out, "purged {} ({strength}, purge number {})", target(purge), purge["seq"]);
    let effect = match strength {
        "soft" => "marked as stale",
        "validate" => "marked for validation",
        _ => "removed",
    };
    let receipts = list(&purge["receipts"]);
    for receipt in receipts {
        let count = receipt["count"]
            .as_u64()
            .map_or(String::new(), |count| format!("{}{} {effect}", about(receipt, count), responses(count)));
        // A count implies that the purge was applied.
        let state = Some(text(&receipt["state"])).filter(|it| *it != "applied" || count.is_empty());
        let after = receipt["after_ms"].as_f64().map(|it| format!(" after {:.1} s", it / 1000.0));
        let state = format!("{}{}", state.unwrap_or_default(), after.unwrap_or_default());
        let parts = [&*state, &count, text(&receipt["detail"])];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        let _ = writeln!(out, "  {}: {}", text(&receipt["of"]), parts.join("; "));
    }
    // An estimate of zero is no zero, and the fleet counts nothing.
    let mut tiers = receipts.iter().filter(|it| it["of"] == "ram" || it["of"] == "disk");
    let is_none = tiers.all(|it| it["count"] == 0 && !["more", "estimate"].contains(&text(&it["count_is"])));
    if is_none && receipts.iter().all(|it| it["of"] != "fleet") {
        let _ = writeln!(out, "  nothing matched; the same command with --dry-run names a possible reason");
    }
}

fn preview(of: &Value, out: &mut String) {
    let _ = writeln!(out, "would purge {} ({})", target(of), text(&of["strength"]));
    for tier in list(&of["tiers"]) {
        let count = tier["count"].as_u64().map_or(String::new(), |count| {
            let about = about(tier, count);
            let size = tier["bytes"].as_u64().unwrap_or(0);
            let size = if size > 0 { format!(", {}", bytes(size as f64)) } else { String::new() };
            format!("{about}{}{size}", responses(count))
        });
        let parts: Vec<&str> =
            [count.as_str(), text(&tier["detail"])].into_iter().filter(|it| !it.is_empty()).collect();
        let _ = writeln!(out, "  {}: {}", text(&tier["of"]), parts.join("; "));
    }
    if let Some(hint) = of["hint"].as_str() {
        let _ = writeln!(out, "  {hint}");
    }
}
