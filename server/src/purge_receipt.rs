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
    /// Milliseconds from the beginning of the purge until a node was known to have applied it.
    pub after: Option<u64>,
    /// The nodes of the fleet, if they were waited for.
    pub nodes: Option<PastNodes>,
}

/// The nodes of the fleet that have applied a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastNodes {
    /// Those that have applied it, this node included.
    pub past: u64,
    /// All that run, as far as is known.
    pub of: u64,
    /// Milliseconds until the last of them was known to have applied it.
    pub after: u64,
}

impl PastNodes {
    /// In words.
    #[must_use]
    pub fn sentence(self) -> String {
        let Self { past, of, after } = self;
        let seconds = seconds(after);
        match of - past.min(of) {
            0 if of == 1 => "this node is the only one".to_owned(),
            0 => format!("all {of} nodes past it after {seconds}"),
            1 => format!("{past} of {of} nodes past it after {seconds}; 1 does not report"),
            others => format!("{past} of {of} nodes past it after {seconds}; {others} do not report"),
        }
    }
}

/// Milliseconds as seconds with one decimal.
#[must_use]
pub fn seconds(millis: u64) -> String {
    let tenths = millis.saturating_add(50) / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// The number of responses of a tier that a purge matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedCount {
    /// The number, counted before the purge was applied, without responses to which an earlier purge applies.
    Known(u64),
    /// This number or more: the reason, without a full stop.
    AtLeast(u64, &'static str),
    /// About this number, from a part of the keys on the disk.
    Estimate {
        /// The estimate.
        count: u64,
        /// Keys that were read.
        read: u64,
        /// All keys.
        keys: u64,
    },
    /// Not counted: the reason, without a full stop.
    Uncounted(&'static str),
    /// The receipt is not about responses of a tier.
    OfNoTier,
}

impl MatchedCount {
    /// The result of a count that ended above `most`.
    #[must_use]
    pub fn up_to(most: u64, count: u64) -> Self {
        if count > most { Self::AtLeast(most, "the count ended there") } else { Self::Known(count) }
    }
}

impl TierReceipt {
    /// A receipt without a count.
    #[must_use]
    pub fn of(of: impl Into<Cow<'static, str>>, state: PurgeState) -> Self {
        Self { of: of.into(), state, count: MatchedCount::OfNoTier, after: None, nodes: None }
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
        if let Some(after) = self.after {
            value["after_ms"] = after.into();
        }
        if let Some(it) = self.nodes {
            details.push(it.sentence());
            value["nodes"] = json!({ "past": it.past, "of": it.of, "after_ms": it.after });
        }
        let mut counted = |count: u64, kind: &str| {
            value["count"] = count.into();
            value["count_is"] = kind.into();
            value["count_is_exact"] = (kind == "exact").into();
        };
        match self.count {
            MatchedCount::Known(count) => counted(count, "exact"),
            MatchedCount::AtLeast(count, why) => {
                counted(count, "more");
                details.push(why.to_owned());
            }
            MatchedCount::Estimate { count, read, keys } => {
                counted(count, "estimate");
                details.push(format!("from {read} of {keys} keys on the disk"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_past_a_purge_are_counted() {
        #[track_caller]
        fn check(past: u64, of: u64, after: u64, expect: &str) {
            assert_eq!(expect, PastNodes { past, of, after }.sentence());
        }
        check(1, 1, 0, "this node is the only one");
        check(3, 3, 180, "all 3 nodes past it after 0.2 s");
        check(2, 2, 0, "all 2 nodes past it after 0.0 s");
        check(2, 3, 2_449, "2 of 3 nodes past it after 2.4 s; 1 does not report");
        check(1, 3, 0, "1 of 3 nodes past it after 0.0 s; 2 do not report");
    }

    #[test]
    fn the_receipt_names_the_exactness_of_a_count() {
        let of = |count| TierReceipt { count, ..TierReceipt::of("disk", PurgeState::Applied) }.json();
        let zero = of(MatchedCount::Known(0));
        assert_eq!(
            (&json!(0), &json!("exact"), &json!(true)),
            (&zero["count"], &zero["count_is"], &zero["count_is_exact"])
        );
        let report = of(MatchedCount::Estimate { count: 7, read: 16, keys: 101 });
        assert_eq!(
            (&json!("estimate"), &json!("from 16 of 101 keys on the disk")),
            (&report["count_is"], &report["detail"])
        );
        let report = of(MatchedCount::up_to(10, 11));
        assert_eq!((&json!(10), &json!("more")), (&report["count"], &report["count_is"]));
        assert_eq!(Value::Null, of(MatchedCount::Uncounted("why"))["count"]);
    }
}
