//! `larder origin`: drains an origin of a running larder, restores it, and prints the state of all origins.

use crate::admin_client;
use crate::cli::{OriginOrder, OriginWhat};
use crate::terminal::harmless;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The response: all origins, or the one that was drained or restored.
///
/// # Errors
/// One sentence: no larder responds, or it has no such origin.
pub fn request(order: &OriginOrder) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    let (method, origin, deed) = match &order.what {
        OriginWhat::List => return admin_client::get(&admin, "/api/v1/origins", TIMEOUT),
        OriginWhat::Drain(origin) => ("PUT", origin, "drained"),
        OriginWhat::Restore(origin) => ("DELETE", origin, "restored"),
    };
    let path = format!("/api/v1/origins/drain?origin={}", admin_client::encoded(origin));
    let response = admin_client::send(&admin, (method, &path), admin_client::NO_TYPE, b"", TIMEOUT)?;
    Ok(json!({ deed: response }))
}

/// A state of the API, for display.
pub(crate) fn state(it: &Value) -> String {
    harmless(it.as_str().unwrap_or("")).replace('_', " ")
}

/// The response as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    let text = |it: &Value| harmless(it.as_str().unwrap_or(""));
    let list = |it: &Value| it.as_array().cloned().unwrap_or_default();
    let mut out = String::new();
    if let Some(it) = answer.get("drained") {
        let left = match it["in_flight"].as_u64().unwrap_or(0) {
            0 => "no requests in progress".to_owned(),
            left => format!("{left} in progress"),
        };
        let _ = writeln!(
            out,
            "{} receives no new requests, {left}; until `larder origin restore`, or a restart",
            text(&it["name"])
        );
        for route in list(&it["routes_without"]) {
            let _ = writeln!(
                out,
                "warning: route {} has no other origin that is up, and answers with stored responses or an error now",
                text(&route)
            );
        }
        return out;
    }
    if let Some(it) = answer.get("restored") {
        let _ = match it["state"].as_str() {
            Some("slow_start") => {
                writeln!(
                    out,
                    "{} is in use again; its share of requests grows (slow start)",
                    text(&it["name"])
                )
            }
            _ => writeln!(out, "{} is in use again; its state is {}", text(&it["name"]), state(&it["state"])),
        };
        return out;
    }
    for it in list(&answer["origins"]) {
        let by = it["drained_by"].as_str().map_or(String::new(), |it| format!(" by the {}", harmless(it)));
        let spoken = it["protocol"].as_str().map_or(String::new(), |it| format!(", {}", harmless(it)));
        let state = state(&it["state"]);
        let _ = writeln!(out, "{} {state}{by}, {} in progress{spoken}", text(&it["name"]), it["in_flight"]);
    }
    out
}
