//! `larder upgrade`: a running larder hands over to the program that is on disk now.

use crate::admin_client;
use crate::cli::Upgrade;
use crate::terminal::harmless;
use serde_json::{Value, json};
use std::time::Duration;

/// How much longer than each step of the upgrade the answer may take: there are two.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The answer: `process` and `version` of the larder that serves now.
///
/// # Errors
/// One sentence: no larder responds, or it continues to serve, and why.
pub fn request(order: &Upgrade) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    let path = format!("/api/v1/upgrade?timeout={}", order.timeout);
    let timeout = TIMEOUT + 2 * Duration::from_secs(order.timeout.into());
    admin_client::post(&admin, &path, &json!({}), timeout)
}

/// The answer as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    let version = harmless(answer["version"].as_str().unwrap_or(""));
    format!(
        "larder {version} serves as process {}; process {} finishes its requests\n",
        answer["process"], answer["replaced"]
    )
}
