//! What a tier, or another node, says of a purge: the receipts of which the answer to a purge is made.

use std::borrow::Cow;

/// What one tier says of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierReceipt {
    /// The tier, or a node.
    pub of: Cow<'static, str>,
    /// How it stands there.
    pub state: PurgeState,
    /// How many responses there the purge matched, where that was counted.
    pub count: Option<u64>,
}

impl TierReceipt {
    /// A receipt without a count.
    #[must_use]
    pub fn of(of: impl Into<Cow<'static, str>>, state: PurgeState) -> Self {
        Self { of: of.into(), state, count: None }
    }
}

/// How a purge stands in a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeState {
    /// In force: nothing that was asked of the origin before is used any more.
    Past,
    /// Written where other nodes read it; by when they have is said.
    Logged(String),
    /// A node that does not answer: it validates all it holds until it knows the purge. Since when it is silent.
    Silent(String),
    /// In force, but not certain to stay so: why, in one sentence.
    Uncertain(String),
}

impl PurgeState {
    /// As the API and the log name it, and what there is to say of it.
    #[must_use]
    pub fn spell(&self) -> (&'static str, Option<&str>) {
        match self {
            PurgeState::Past => ("past", None),
            PurgeState::Logged(when) => ("logged", Some(when)),
            PurgeState::Silent(since) => ("silent", Some(since)),
            PurgeState::Uncertain(why) => ("uncertain", Some(why)),
        }
    }
}
