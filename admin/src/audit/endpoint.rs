//! The endpoint of the latest entries of the audit log.

use super::latest::AuditRecord;
use crate::query::{Parameter, integer, one_of, text};
use crate::{Admin, AdminRequest, AdminResponse};
use serde_json::{Value, json};

/// The most entries in an answer by default, and at all.
const LIMIT: i64 = 700;

/// The parameters.
pub const QUERY: &[Parameter] = &[
    text("who", "only of the token with this name; nobody: of clients without one"),
    text("search", "only those whose method and path have this text, such as PUT or /config"),
    integer("status", 100, 599, "only with this status"),
    one_of("kind", &["changes", "refused"], "only changes, or only rejected requests"),
    integer("limit", 1, LIMIT, "maximum number of entries (all)"),
];

/// `GET /api/v1/audit`.
pub const ENTRIES: &str = r#"{"type":"object","required":["entries","file"],"properties":{
"file":{"type":["string","null"],"description":"the file of admin.audit, which has all entries"},
"entries":{"type":"array","description":"the latest first: at most 500 changes, 100 rejected requests of clients with a token, and 100 of others","items":{"type":"object",
"required":["time","refused","who","role","session","from","method","path","query","body","status","why"],"properties":{
"time":{"type":"integer"},"refused":{"type":"boolean"},"who":{"type":"string","description":"the name of the token; socket: a client of the Unix socket; nobody: a client without a token"},
"role":{"type":["string","null"]},"session":{"type":["integer","null"]},"from":{"type":"string"},"method":{"type":["string","null"]},"path":{"type":["string","null"]},
"query":{"type":["string","null"]},"body":{"type":["string","null"]},"status":{"type":"integer"},"why":{"type":["string","null"]}}}}}}"#;

impl Admin {
    /// `GET /api/v1/audit`.
    pub(crate) fn audit_entries(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let who = asked.query_value("who");
        let search = asked.query_value("search");
        let kind = asked.query_value("kind");
        let status: Option<u16> = asked.query_value("status").and_then(|it| it.parse().ok());
        let limit = asked.query_value("limit").and_then(|it| it.parse().ok()).unwrap_or(LIMIT);
        let fits = |it: &&AuditRecord| {
            who.as_ref().is_none_or(|name| **name == *it.who)
                && search.as_ref().is_none_or(|text| format!("{} {}", it.method, it.path).contains(&**text))
                && kind.as_ref().is_none_or(|kind| (kind == "refused") == it.is_refused)
                && status.is_none_or(|status| status == it.status)
        };
        let latest = self.audit.latest.borrow();
        let found = latest.all().into_iter().filter(fits);
        let entries: Vec<Value> =
            found.take(usize::try_from(limit).unwrap_or(usize::MAX)).map(AuditRecord::json).collect();
        let file = self.live.borrow().config.admin.audit.clone();
        AdminResponse::Json(200, json!({ "entries": entries, "file": file }))
    }
}
