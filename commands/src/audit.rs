//! `larder audit`: the latest changes and rejected requests of the admin of a running larder, as text or JSON.

use crate::admin_client;
use crate::cli::Stats;
use crate::json::{list, text};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use serde_json::Value;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The entries, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &Stats) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/audit", TIMEOUT)
}

/// The entries as text, the latest last, as in a log.
#[must_use]
pub fn render(answer: &Value) -> String {
    match list(&answer["entries"]) {
        [] => "no changes and no rejected requests\n".to_owned(),
        all => all.iter().rev().map(row).collect(),
    }
}

fn row(it: &Value) -> String {
    let at = date::format(WallTime(it["time"].as_u64().unwrap_or(0)));
    // Without the day of the week and the zone.
    let at = at.get(5..25).unwrap_or(&at).to_owned();
    let who = match (text(&it["who"]), text(&it["role"])) {
        (who, role) if role.is_empty() || role == who => who,
        (who, role) => format!("{who} ({role})"),
    };
    let query = text(&it["query"]);
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let rest = |name: &str| match text(&it[name]) {
        value if value.is_empty() => value,
        value => format!("  {value}"),
    };
    format!(
        "{at}  {who:<20} {from:<21} {status}  {method} {path}{query}{body}{why}\n",
        from = text(&it["from"]),
        status = it["status"].as_u64().unwrap_or(0),
        method = text(&it["method"]),
        path = text(&it["path"]),
        body = rest("body"),
        why = rest("why"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_entry_is_a_line() {
        let entry = |who: &str, why: Value| {
            json!({
                "time": 1_700_000_000, "refused": true, "who": who, "role": "viewer", "session": 7, "from": "127.0.0.1:80",
                "method": "PUT", "path": "/api/v1/config", "query": null, "body": "(2 bytes)", "status": 403, "why": why,
            })
        };
        let rendered =
            render(&json!({ "entries": [entry("b", json!("No\u{1b}[31m.")), entry("a", Value::Null)] }));
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(2, lines.len(), "{rendered}");
        assert!(lines[0].starts_with("14 Nov 2023 22:13:20  a (viewer) "), "{rendered}");
        assert!(lines[1].contains("403  PUT /api/v1/config  (2 bytes)  No"), "{rendered}");
        assert!(!rendered.contains('\u{1b}'), "{rendered}");
        assert_eq!("no changes and no rejected requests\n", render(&json!({ "entries": [] })));
    }
}
