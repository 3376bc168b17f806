//! The statistics as JSON.

use super::{Admin, Answer};
use larder_counters::Counters;
use larder_stdx::clock;
use serde_json::{Value, json};

impl Admin {
    /// `GET /cache/stats`.
    pub(super) fn stats(&self) -> Answer {
        Answer::Json(200, self.stats_json())
    }

    fn stats_json(&self) -> Value {
        let sums = self.totals.sums();
        let counters: serde_json::Map<String, Value> = Counters::TABLE
            .iter()
            .zip(sums)
            .map(|(row, value)| (row.name.to_owned(), Value::from(value)))
            .collect();
        json!({
            "version": 1,
            "now": clock::wall().0,
            "listen": self.public,
            "counters": counters,
            "nodes": self.nodes.as_ref().map(|it| it.standing()),
            "ram": { "used_bytes": self.gateway.store.used(), "budget_bytes": self.live.borrow().config.ram.budget },
        })
    }
}
