//! `larder purge`: has a running larder purge, and tells a person what each tier said. The purging is done there.

use crate::admin_client;
use crate::cli::PurgeCommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// How long one purge may take: that of a whole fleet waits for leases.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks for each purge in turn; the answers together.
///
/// # Errors
/// One sentence: nobody answers, or a purge is malformed. Those before it are done.
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

/// The answers as a person reads them.
#[must_use]
pub fn tell(answer: &Value) -> String {
    let mut out = String::new();
    let none = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    for purge in answer["purges"].as_array().unwrap_or(&none) {
        let scope = purge["scope"].as_object().and_then(|it| it.iter().next());
        let (kind, what) = scope.map_or((String::new(), String::new()), |it| (it.0.clone(), text(it.1)));
        let _ = writeln!(out, "purged {kind} {what} ({}, number {})", text(&purge["strength"]), purge["seq"]);
        for receipt in purge["receipts"].as_array().unwrap_or(&none) {
            let count = match receipt["count"].as_u64() {
                None => String::new(),
                Some(1) => "1 response".to_owned(),
                Some(count) => format!("{count} responses"),
            };
            let detail = [count, text(&receipt["detail"])]
                .iter()
                .filter(|it| !it.is_empty())
                .cloned()
                .collect::<Vec<_>>();
            let gap = if detail.is_empty() { "" } else { ": " };
            let detail = detail.join("; ");
            let _ = writeln!(out, "  {:<12} {}{gap}{detail}", text(&receipt["of"]), text(&receipt["state"]));
        }
    }
    out
}
