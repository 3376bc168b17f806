//! `larder maintenance`: sets `site.maintenance.enabled` in the configuration of a running larder, so that it survives a restart.

use crate::admin_client;
use crate::cli::{MaintenanceAction, MaintenanceOrder};
use crate::terminal::harmless;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of each request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sites after the action, each with its hosts and whether it is under maintenance.
///
/// # Errors
/// One sentence: no larder responds, no site has the host, or its configuration cannot be edited.
pub fn ask(order: &MaintenanceOrder) -> Result<Value, String> {
    let admin = admin_client::admin(order.ask.as_ref(), None)?;
    let config = admin_client::get(&admin, "/api/v1/config", PATIENCE)?;
    let MaintenanceAction::Switch { on, host } = &order.what else {
        return Ok(json!({ "sites": sites(&config["document"]) }));
    };
    if config["editable"] != json!(true) {
        let why = config["why"].as_str().unwrap_or("it has no file");
        return Err(format!("The configuration cannot be edited: {why}"));
    }
    let edits: Vec<Value> = sites(&config["document"])
        .iter()
        .enumerate()
        .filter(|(_, site)| host.as_ref().is_none_or(|host| has_host(site, host)))
        .map(|(at, _)| {
            let value = if *on { json!(true) } else { Value::Null };
            json!({ "path": ["site", at, "maintenance", "enabled"], "value": value })
        })
        .collect();
    if edits.is_empty() {
        let host = host.as_deref().unwrap_or_default();
        return Err(format!(
            "No site of the configuration has the host {host}; `larder maintenance list` shows them."
        ));
    }
    let asked = json!({ "text": config["text"], "set": edits }).to_string();
    let edit = ("POST", "/api/v1/config/edit");
    let edited = admin_client::send(&admin, edit, "application/json", asked.as_bytes(), PATIENCE)?;
    // A site of an included file is edited there.
    let base = |path: &Value| {
        let files = config["included"].as_array().into_iter().flatten();
        files.into_iter().find(|it| it["path"] == *path).map_or(Value::Null, |it| it["hash"].clone())
    };
    let included = edited["included"].as_array().into_iter().flatten();
    let included: Vec<Value> = included
        .map(|it| json!({ "path": it["path"], "text": it["text"], "base": base(&it["path"]) }))
        .collect();
    let saved = json!({ "text": edited["text"], "base": config["hash"], "included": included }).to_string();
    admin_client::send(&admin, ("PUT", "/api/v1/config"), "application/json", saved.as_bytes(), PATIENCE)?;
    Ok(json!({ "sites": sites(&edited["document"]) }))
}

/// The sites of a configuration as JSON.
fn sites(document: &Value) -> Vec<Value> {
    let site = |it: &Value| {
        let hosts = match &it["hosts"] {
            Value::String(host) => json!([host]),
            other => other.clone(),
        };
        json!({ "hosts": hosts, "maintenance": it["maintenance"]["enabled"] == json!(true) })
    };
    document["site"].as_array().into_iter().flatten().map(site).collect()
}

fn has_host(site: &Value, host: &str) -> bool {
    let mut hosts = site["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    hosts.any(|it| it.eq_ignore_ascii_case(host))
}

/// The response as text.
#[must_use]
pub fn tell(answer: &Value) -> String {
    let mut out = String::new();
    for site in answer["sites"].as_array().into_iter().flatten() {
        let hosts: Vec<_> =
            site["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).map(harmless).collect();
        let state = if site["maintenance"] == json!(true) { "under maintenance" } else { "in service" };
        let _ = writeln!(out, "{}: {state}", hosts.join(", "));
    }
    out
}
