//! `GET /api/v1/top` and `POST /api/v1/top/reset`: the heaviest URLs and clients. Counting is in `observe/top`.

use super::{Admin, AdminRequest, AdminResponse, problem};
use larder_counters::top::{self, Heavy, TopOrder, TopSubject};
use larder_observe::top::{HTTPS, client_of};
use larder_semantics::secret::shown_target;
use serde_json::{Value, json};

/// The default number of entries.
const LIMIT: usize = 50;

/// The response of `GET /api/v1/top`.
pub const TOP: &str = r#"{"type":"object","required":["of","by","total","since","complete","entries"],"properties":{
    "of":{"enum":["urls","clients"]},"by":{"type":"string"},"total":{"type":"integer"},"since":{"type":"integer"},"complete":{"type":"boolean"},
    "entries":{"type":"array","items":{"type":"object","required":["value","error"],"properties":{
        "url":{"type":"string"},"client":{"type":"string","description":"an address, or the /64 of an IPv6 address"},"value":{"type":"integer"},"error":{"type":"integer"}}}}}}"#;

/// The response of `POST /api/v1/top/reset`.
pub const TOP_RESET: &str =
    r#"{"type":"object","required":["since"],"properties":{"since":{"type":"integer"}}}"#;

impl Admin {
    /// The heaviest.
    pub(super) async fn top(&self, asked: AdminRequest<'_>) -> AdminResponse {
        // Their values were validated against the row in `table`.
        let by = asked.query_value("by").and_then(|it| TopOrder::named(&it)).unwrap_or(TopOrder::Requests);
        let limit = asked.query_value("limit").and_then(|it| it.parse().ok()).unwrap_or(LIMIT);
        let of = asked.query_value("of").and_then(|it| TopSubject::named(&it)).unwrap_or(TopSubject::Urls);
        let copies = self.tops.copies(of, by).await;
        let heaviest = top::heaviest(&copies.parts, limit);
        let entries: Vec<Value> = match of {
            TopSubject::Urls => heaviest.iter().map(entry).collect(),
            TopSubject::Clients => heaviest.iter().filter_map(client).collect(),
        };
        let total: u64 = copies.parts.iter().map(|it| it.total()).fold(0, u64::saturating_add);
        AdminResponse::Json(
            200,
            json!({
                "of": of.name(), "by": by.name(), "total": total, "since": self.tops.since(), "complete": copies.complete,
                "entries": entries,
            }),
        )
    }

    /// Resets the counts.
    pub(super) async fn forget_top(&self) -> AdminResponse {
        match self.tops.forget().await {
            true => AdminResponse::Json(200, json!({ "since": self.tops.since() })),
            false => problem(503, "A worker did not answer in time; its counts were not reset."),
        }
    }
}

fn client(it: &Heavy) -> Option<Value> {
    Some(json!({ "client": client_of(&it.text)?, "value": it.weight, "error": it.error }))
}

fn entry(it: &Heavy) -> Value {
    let scheme = if it.text.starts_with(HTTPS.as_bytes()) { "" } else { "http://" };
    let text = String::from_utf8_lossy(&it.text);
    let url = format!("{scheme}{}{}", shown_target(&text), if it.cut { "…" } else { "" });
    json!({ "url": url, "value": it.weight, "error": it.error })
}
