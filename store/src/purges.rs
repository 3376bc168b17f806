//! Purges as rules: a response that was requested before a rule and matches it is stale, to be validated, or gone, in whatever tier it
//! is and however far its fill has come. Making a rule walks over nothing; every access to a response checks the rules.

mod matches;
pub(crate) mod rules;
pub(crate) mod subject;

pub use crate::purge_position::{Positions, PurgeEpoch, PurgeFacts};
pub use larder_purge_log::{Position, Seq};
pub(crate) use matches::PurgeMatcher;
pub use matches::PurgeMatches;

use larder_semantics::expression::Expression;

/// The responses that a purge applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeScope {
    /// One key: exactly, or followed by a space and its recipe's additions.
    Url(Box<[u8]>),
    /// Every key with this prefix.
    Prefix(Box<[u8]>),
    /// Everything with this tag.
    Tag(Box<str>),
    /// Every response for which this is true.
    Where(Expression),
    /// Everything.
    All,
}

/// The effect of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Stale from now on, and used like any stale response.
    Soft,
    /// Not used again before the origin has confirmed it.
    Validate,
    /// Gone.
    Hard,
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRule {
    /// The responses it applies to.
    pub scope: PurgeScope,
    /// Its effect on them.
    pub strength: Strength,
    /// Its positions in the fleet's logs: a response that was requested at or after one of these knows of it. Empty for a
    /// purge of this node alone.
    pub positions: Vec<Position>,
}

#[cfg(test)]
mod model;
#[cfg(test)]
pub(crate) mod tests;
