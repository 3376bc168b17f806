//! Purges as rules: what was born before a rule and matches it is stale, doubted or gone, in whatever tier it lies
//! and however far its fill has come. Nothing is walked when a rule is made; whoever meets a response asks.

mod apply;
mod count;
pub mod follow;
mod rules;
pub(crate) mod sweep;

pub(crate) use apply::Purges;

use larder_semantics::expression::Expression;
use std::sync::Arc;

/// The number of a purge on this node; each is one more than the one before.
pub type Seq = u64;

/// When a response was asked of the origin, as far as purges are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Born {
    /// The last purge that was in force on this node then.
    pub seq: Seq,
    /// How far this node had followed the fleet's purge logs then.
    pub log: Positions,
}

/// What purges look at, beside the key and the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Hashes of its tags, sorted.
    pub tags: Box<[u64]>,
    /// When it was asked of the origin.
    pub born: Born,
}

/// How far each purge log was followed; shared by everything that is born between two purges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions(Option<Arc<[Position]>>);

/// A place in one server's purge log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The log's random name: a server that lost its log has another.
    pub log: u64,
    /// The last entry.
    pub entry: u64,
}

impl Position {
    /// A place that nothing reaches: that of a purge while it is not yet known where it stands.
    pub const NOWHERE: Position = Position { log: 0, entry: u64::MAX };

    /// What is known by a node that follows no log yet. Logs have names above zero.
    pub const NOTHING: Position = Position { log: 0, entry: 0 };
}

impl Positions {
    /// Nothing is known.
    pub const NONE: Positions = Positions(None);

    /// The positions given; none of them is "nothing is known".
    #[must_use]
    pub fn new(positions: &[Position]) -> Self {
        Self((!positions.is_empty()).then(|| positions.into()))
    }

    /// Whether one of these places was reached.
    #[must_use]
    pub fn knows(&self, any: &[Position]) -> bool {
        let own = self.as_slice();
        any.iter().any(|it| own.iter().any(|own| own.log == it.log && own.entry >= it.entry))
    }

    /// Each log that was followed.
    #[must_use]
    pub fn as_slice(&self) -> &[Position] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeScope {
    /// One key: it alone, or with what its recipe adds after a space.
    Url(Box<[u8]>),
    /// Every key that begins so.
    Prefix(Box<[u8]>),
    /// Everything with this tag.
    Tag(Box<str>),
    /// Everything that this is true of.
    Where(Expression),
    /// Everything.
    All,
}

/// What becomes of what is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Stale from now on: used as a stale response may be.
    Soft,
    /// Never used again before the origin has said that it holds.
    Validate,
    /// Gone.
    Hard,
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRule {
    /// What it is about.
    pub scope: PurgeScope,
    /// What becomes of that.
    pub strength: Strength,
    /// Where it stands in the fleet's logs: what was born at or after one of these knows of it. Empty for a purge of
    /// this node alone.
    pub positions: Vec<Position>,
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
