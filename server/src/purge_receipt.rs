//! The receipts of tiers and other nodes, from which the answer to a purge is made.

use serde_json::{Value, json};
use std::borrow::Cow;

/// The name of the fleet in receipts.
const FLEET: &str = "fleet";

/// The receipt of one tier or node for a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierReceipt {
    /// The tier, or a node.
    pub of: Cow<'static, str>,
    /// The state of the purge there.
    pub state: PurgeState,
    /// The number of responses there that the purge matched.
    pub count: MatchedCount,
}

/// The number of responses of a tier that a purge matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedCount {
    /// The number, counted before the purge was applied.
    Known(u64),
    /// More than this number, at which counting ended.
    MoreThan(u64),
    /// Not counted: the reason, without a full stop.
    Uncounted(&'static str),
    /// The receipt is not about responses of a tier.
    OfNoTier,
}

impl MatchedCount {
    /// The result of a count that ended above `most`.
    #[must_use]
    pub fn up_to(most: u64, count: u64) -> Self {
        if count > most { Self::MoreThan(most) } else { Self::Known(count) }
    }
}

impl TierReceipt {
    /// A receipt without a count.
    #[must_use]
    pub fn of(of: impl Into<Cow<'static, str>>, state: PurgeState) -> Self {
        Self { of: of.into(), state, count: MatchedCount::OfNoTier }
    }

    /// Whether it is the receipt of the fleet.
    #[must_use]
    pub fn is_of_fleet(&self) -> bool {
        self.of == FLEET
    }

    /// A receipt of the fleet, whose items cannot be listed and therefore not counted.
    #[must_use]
    pub fn of_fleet(state: PurgeState) -> Self {
        Self { count: MatchedCount::Uncounted("memcached cannot list its items"), ..Self::of(FLEET, state) }
    }

    /// The receipt in the answer of the admin.
    #[must_use]
    pub fn json(&self) -> Value {
        let (state, detail) = self.state.spell();
        let mut value = json!({ "of": self.of, "state": state });
        let mut details: Vec<String> = detail.map(str::to_owned).into_iter().collect();
        match self.count {
            MatchedCount::Known(count) => value["count"] = count.into(),
            MatchedCount::MoreThan(count) => {
                value["count"] = count.into();
                value["count_is_exact"] = false.into();
            }
            MatchedCount::Uncounted(why) => details.push(format!("responses not counted: {why}")),
            MatchedCount::OfNoTier => {}
        }
        if !details.is_empty() {
            value["detail"] = details.join("; ").into();
        }
        value
    }
}

/// The state of a purge in a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeState {
    /// In force: no response that was requested from the origin before is used any more.
    Applied,
    /// Written to the purge logs that other nodes read, with the time by which they have applied it.
    Logged(String),
    /// The node does not report: it validates all it holds until it knows the purge. Since when it has not reported.
    Unresponsive(String),
    /// In force, but not certain to stay so: the reason, in one sentence.
    Uncertain(String),
}

impl PurgeState {
    /// Its name in the API and the log, and its detail.
    #[must_use]
    pub fn spell(&self) -> (&'static str, Option<&str>) {
        match self {
            PurgeState::Applied => ("applied", None),
            PurgeState::Logged(when) => ("logged", Some(when)),
            PurgeState::Unresponsive(since) => ("unresponsive", Some(since)),
            PurgeState::Uncertain(why) => ("uncertain", Some(why)),
        }
    }
}
