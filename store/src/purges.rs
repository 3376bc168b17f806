//! Purges as rules: what was born before a rule and matches it is stale, doubted or gone, in whatever tier it lies
//! and however far its fill has come. Nothing is walked when a rule is made; whoever meets a response asks.

use crate::ram::Store;
use crate::shelf::Stored;
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

impl Positions {
    /// The positions given; none of them is "nothing is known".
    #[must_use]
    pub fn new(positions: &[Position]) -> Self {
        Self((!positions.is_empty()).then(|| positions.into()))
    }

    /// Each log that was followed.
    #[must_use]
    pub fn as_slice(&self) -> &[Position] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
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
pub struct Rule {
    /// What it is about.
    pub scope: Scope,
    /// What becomes of that.
    pub strength: Strength,
    /// Where it stands in the fleet's logs: what was born at or after one of these knows of it. Empty for a purge of
    /// this node alone.
    pub positions: Vec<Position>,
}

impl Store {
    /// Purges. In force for every lookup, join and insert that begins after this returns; nothing is walked.
    /// Readers of what is purged finish undamaged.
    pub fn purge(&self, rule: Rule) -> Seq {
        let _ = rule;
        0
    }

    /// What is found in a tier of this node may be used as it is returned; `None` where it is purged. Goes by
    /// `marks.born.seq`, and for what was born before a restart also by `marks.born.log`.
    #[must_use]
    pub fn admit(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let _ = key;
        Some(stored)
    }

    /// What is found in the fleet may be used as it is returned; `None` where it is purged. Goes by `marks.born.log`,
    /// and for purges of this node alone by when the response came. Its birth becomes this node's now.
    #[must_use]
    pub fn admit_foreign(&self, key: &[u8], stored: Stored) -> Option<Stored> {
        let _ = key;
        Some(stored)
    }

    /// What is stored may be trusted until then (monotonic milliseconds); beyond it every response must be validated
    /// and no fill is joined. At first it is for ever, `u64::MAX`.
    pub fn trust_until(&self, monotonic_millis: u64) {
        let _ = monotonic_millis;
    }

    /// Whether what is stored may be trusted now.
    #[must_use]
    pub fn trusted(&self) -> bool {
        true
    }

    /// This node has followed a log so far: what is born from now on knows it. Call it after [`Store::purge`] of
    /// every entry up to there has returned, never before.
    pub fn advance(&self, position: Position) {
        let _ = position;
    }

    /// A log is no more (its server lost it): no response is expected to know it. What it held must be made up for
    /// by a purge of everything.
    pub fn abandon(&self, log: u64) {
        let _ = log;
    }

    /// Takes over what was in force before a restart, at start. `last_seq` is at least the last rule's, and at least
    /// the `born.seq` of everything that any tier kept.
    pub fn restore(&self, last_seq: Seq, rules: Vec<(Seq, Rule)>) {
        let _ = (last_seq, rules);
    }

    /// There is no tier below RAM: rules that everything in RAM has met are forgotten. Not to be called where
    /// [`Store::admit`] or [`Store::admit_foreign`] ever will be.
    pub fn has_no_lower_tier(&self) {}

    /// Goes on applying purges to what is in RAM, so that memory comes back: `steps` times a few responses. Says
    /// whether there is more to do. No lock is held long; a timer calls it.
    pub fn sweep(&self, steps: usize) -> bool {
        let _ = steps;
        false
    }
}
