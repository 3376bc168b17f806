//! `larder maintenance`: sets `site.maintenance.enabled` in the configuration of a running larder, so that it survives a restart.

use crate::admin_client;
use crate::cli::{MaintenanceAction, MaintenanceOrder};
use crate::terminal::harmless;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of each request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The sites after the action, each with its hosts and whether it is under maintenance.
///
/// # Errors
/// One sentence: no larder responds, no site has the host, or its configuration cannot be edited.
pub fn request(order: &MaintenanceOrder) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    let path = "/api/v1/maintenance";
    let MaintenanceAction::Switch { on, host } = &order.what else {
        return admin_client::get(&admin, path, TIMEOUT);
    };
    let host = host.as_ref().map_or_else(String::new, |it| format!("?host={}", admin_client::encoded(it)));
    let method = if *on { "PUT" } else { "DELETE" };
    admin_client::send(&admin, (method, &format!("{path}{host}")), admin_client::NO_TYPE, b"", TIMEOUT)
}

/// The response as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    let mut out = String::new();
    for site in answer["sites"].as_array().into_iter().flatten() {
        let hosts: Vec<_> =
            site["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).map(harmless).collect();
        let state = if site["maintenance"] == json!(true) { "under maintenance" } else { "in service" };
        let _ = writeln!(out, "{}: {state}", hosts.join(", "));
    }
    out
}
