//! The first lines of an explanation: the answer, whether it is right, and the safe changes. The judgement is
//! `semantics::advice`; here are its facts, taken from the explanation, and its JSON.

use super::super::advice::knows_clients;
use super::{Admin, Value, json};
use larder_config::{RouteConfig, memory_left};
use larder_gateway::explain::Explanation;
use larder_gateway::request_headers::Bypass;
use larder_semantics::advice::{self, ChangeFacts, ExplainedFacts, PageAudience};
use larder_semantics::analytics;
use larder_semantics::miss_reason::REASONS;
use larder_semantics::policy::Policy;

/// The names of audiences.
const AUDIENCES: [(PageAudience, &str); 3] = [
    (PageAudience::Unknown, "unknown"),
    (PageAudience::Differs, "differs"),
    (PageAudience::OneClient, "one-client"),
];

impl Admin {
    /// Adds the reason for asking an origin, and the changes that help requests of this reason.
    pub(super) fn add_reason(
        &self,
        explained: &mut Value,
        explanation: &Explanation,
        policy: &Policy,
        target: &str,
        (site, route): (usize, &RouteConfig),
    ) {
        let judged = &explanation.judged;
        let audience = AUDIENCES.iter().find(|it| it.0 == judged.audience).map(|it| it.1);
        explained["tier"] = explanation.tier.name().into();
        explained["audience"] = audience.into();
        explained["last_credentials"] = judged.last_credentials.as_deref().into();
        explained["reason"] = judged.reason.map(|it| it.name()).into();
        let Some(reason) = judged.reason else { return };
        let live = self.live.borrow().clone();
        let ram_size = live.config.ram.budget;
        let changes = advice::changes(
            reason,
            &ChangeFacts {
                policy,
                is_public: judged.is_public && !knows_clients(route),
                parameters: analytics::parameters_of(target),
                length: judged.length,
                ram_size,
                ram_limit: ram_size.saturating_add(memory_left().unwrap_or(0) / 2),
                has_disk: live.config.disk.is_some(),
                full_disk: self.full_disk(),
            },
        );
        explained["changes"] =
            changes.iter().map(|it| self.advised(it, Some((site, route.number)))).collect();
    }
}

/// Adds the two lines; changes that must not be shown are removed.
pub(super) fn add(explained: &mut Value) {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let reason = explained["reason"].as_str().and_then(|name| REASONS.iter().find(|it| it.name == name));
    let audience =
        AUDIENCES.iter().find(|it| explained["audience"] == it.1).map_or(PageAudience::Unknown, |it| it.0);
    let failure = explained["failure"].as_str().map(str::to_owned);
    let last_credentials = explained["last_credentials"].as_str().map(str::to_owned);
    let changes = explained["changes"].as_array().cloned().unwrap_or_default();
    let (verdict, sentence) = (text(&explained["verdict"]["name"]), text(&explained["verdict"]["sentence"]));
    let (tier, freshness) = (text(&explained["tier"]), text(&explained["stored"]["freshness"]));
    let summary = advice::summarize(&ExplainedFacts {
        verdict: &verdict,
        sentence: &sentence,
        reason: reason.map(|it| it.reason),
        tier: &tier,
        freshness: &freshness,
        failure: failure.as_deref(),
        last_credentials: last_credentials.as_deref(),
        by_access: explained["bypass"] == Bypass::Credentials.sentence(),
        audience,
        has_setting: changes.iter().any(|it| it["by"] == "configuration"),
    });
    let shown = if summary.shows_changes { changes } else { Vec::new() };
    let answer = match explained["access"]["name"] == "depends" && verdict != "depends" {
        true => format!(
            "If access admits the request ({}): {}",
            text(&explained["access"]["sentence"]),
            summary.answer
        ),
        false => summary.answer,
    };
    explained["summary"] = json!({
        "answer": answer, "judgement": summary.rightness.name(), "because": summary.because, "changes": shown,
    });
    if let Some(it) = explained.as_object_mut() {
        ["changes", "audience", "failure", "last_credentials"]
            .iter()
            .for_each(|name| drop(it.shift_remove(*name)));
    }
}
