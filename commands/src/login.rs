//! `larder login`: requests a link from a running larder that opens its admin page once.

use crate::admin_client;
use crate::cli::Login;
use serde_json::{Value, json};
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The answer: `link`, `code` and `expires`.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Login) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::post(&admin, "/api/v1/login-links", &json!({}), TIMEOUT)
}

/// The answer as text: the link alone, so that it can be passed to a program.
#[must_use]
pub fn render(answer: &Value) -> String {
    format!("{}\n", answer["link"].as_str().unwrap_or(""))
}
