//! The place of a response and of a purge in time: numbers of this node, positions in the logs of the fleet.

use std::sync::Arc;

/// The number of a purge on this node; each is one more than the one before.
pub type Seq = u64;

/// When a response was requested from the origin, for purges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeEpoch {
    /// The last purge in force on this node at that time.
    pub seq: Seq,
    /// How far this node had followed the fleet's purge logs at that time.
    pub log: Positions,
}

/// The facts that purges compare, in addition to the key and the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeFacts {
    /// Hashes of its tags, sorted.
    pub tags: Box<[u64]>,
    /// When it was requested from the origin.
    pub epoch: PurgeEpoch,
}

/// How far each purge log was followed; shared by all responses that are requested between two purges.
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
    /// A position that is never reached: that of a purge whose position is not known yet.
    pub const NOWHERE: Position = Position { log: 0, entry: u64::MAX };

    /// The position of a node that follows no log yet. Logs have names above zero.
    pub const NOTHING: Position = Position { log: 0, entry: 0 };
}

impl Positions {
    /// Nothing is known.
    pub const NONE: Positions = Positions(None);

    /// These positions; an empty list means that nothing is known.
    #[must_use]
    pub fn new(positions: &[Position]) -> Self {
        Self((!positions.is_empty()).then(|| positions.into()))
    }

    /// Whether one of these positions was reached.
    #[must_use]
    pub fn reached(&self, any: &[Position]) -> bool {
        let own = self.as_slice();
        any.iter().any(|it| own.iter().any(|own| own.log == it.log && own.entry >= it.entry))
    }

    /// Each log that was followed.
    #[must_use]
    pub fn as_slice(&self) -> &[Position] {
        self.0.as_deref().unwrap_or_default()
    }
}
