//! The endpoint of the latest entries of the audit log.

use super::latest::AuditRecord;
use crate::{Admin, AdminRequest, AdminResponse};
use serde_json::{Value, json};

impl Admin {
    /// `GET /api/v1/audit`.
    pub(crate) fn audit_entries(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let token = asked.query_value("who");
        let search = asked.query_value("search");
        let kind = asked.query_value("kind");
        let status: Option<u16> = asked.query_value("status").and_then(|it| it.parse().ok());
        let limit = asked.query_value("limit").and_then(|it| it.parse().ok()).unwrap_or(usize::MAX);
        let fits = |it: &&AuditRecord| {
            token.as_ref().is_none_or(|name| **name == *it.token)
                && search.as_ref().is_none_or(|text| format!("{} {}", it.method, it.path).contains(&**text))
                && kind.as_ref().is_none_or(|kind| (kind == "refused") == it.is_refused)
                && status.is_none_or(|status| status == it.status)
        };
        let latest = self.audit.latest.borrow();
        let found = latest.all().into_iter().filter(fits);
        let entries: Vec<Value> = found.take(limit).map(AuditRecord::json).collect();
        let file = self.live.borrow().config.admin.audit.clone();
        AdminResponse::Json(200, json!({ "entries": entries, "file": file }))
    }
}
