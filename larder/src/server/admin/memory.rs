//! What the process has resident, and what for: by tier and purpose. Every part is counted or measured by itself; none is
//! what is left when the others are taken away, so that the sum can be held against what the kernel says.

use super::Admin;
use serde_json::{Value, json};

/// What memory one part takes.
struct Part {
    tier: &'static str,
    purpose: &'static str,
    bytes: u64,
}

impl Admin {
    /// `memory` of the statistics.
    pub(super) fn memory(&self) -> Value {
        let parts = self.memory_parts();
        let attributed: u64 = parts.iter().map(|it| it.bytes).sum();
        let parts: Vec<Value> = parts
            .iter()
            .map(|it| json!({ "tier": it.tier, "purpose": it.purpose, "bytes": it.bytes }))
            .collect();
        json!({ "parts": parts, "attributed_bytes": attributed })
    }

    fn memory_parts(&self) -> Vec<Part> {
        let scopes = &self.live.borrow().scopes;
        vec![Part { tier: "server", purpose: "statistics", bytes: scopes.bytes() }]
    }
}
