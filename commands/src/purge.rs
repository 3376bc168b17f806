//! `larder purge`: sends purges to a running larder, and prints the result of each tier. The purging is done there.

use crate::admin_client;
use crate::cli::PurgeCommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of one purge: a purge of a whole fleet waits for leases.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends each purge in turn; returns all responses.
///
/// # Errors
/// One sentence: no larder responds, or a purge is malformed. Those before it are done.
pub fn ask(order: &PurgeCommand) -> Result<Value, String> {
    let admin = admin_client::admin(order.ask.as_ref(), order.authority.as_deref())?;
    let mut answers = Vec::new();
    for asked in &order.asked {
        let answer = admin_client::post(&admin, "/cache/purge", asked, PATIENCE);
        answers.push(answer.map_err(|sentence| match answers.len() {
            0 => sentence,
            done => format!("{sentence} The {done} before it were purged."),
        })?);
    }
    let complete = answers.iter().all(|it| it["complete"] == true);
    Ok(json!({ "complete": complete, "purges": answers }))
}

/// The responses as text.
#[must_use]
pub fn tell(answer: &Value) -> String {
    let mut out = String::new();
    let none = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    for purge in answer["purges"].as_array().unwrap_or(&none) {
        let scope = purge["scope"].as_object().and_then(|it| it.iter().next());
        let what = scope.map_or(String::new(), |(kind, what)| match kind.as_str() {
            "all" => "everything".to_owned(),
            kind => format!("{kind} {}", text(what)),
        });
        let strength = text(&purge["strength"]);
        let _ = writeln!(out, "purged {what} ({strength}, purge number {})", purge["seq"]);
        let effect = match strength.as_str() {
            "soft" => "marked as stale",
            "validate" => "marked for validation",
            _ => "removed",
        };
        for receipt in purge["receipts"].as_array().unwrap_or(&none) {
            let count = match receipt["count"].as_u64() {
                None => String::new(),
                Some(1) => format!("1 response {effect}"),
                Some(count) if receipt["count_is_exact"] == false => {
                    format!("more than {count} responses {effect}")
                }
                Some(count) => format!("{count} responses {effect}"),
            };
            // A count implies that the purge was applied.
            let state = Some(text(&receipt["state"])).filter(|it| it != "applied" || count.is_empty());
            let parts = [state.unwrap_or_default(), count, text(&receipt["detail"])];
            let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
            let _ = writeln!(out, "  {}: {}", text(&receipt["of"]), parts.join("; "));
        }
    }
    out
}
