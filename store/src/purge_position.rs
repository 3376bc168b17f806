//! The place of a response and of a purge in time: numbers of this node, positions in the logs of the fleet.

use larder_purge_log::{Position, Seq};
use std::sync::Arc;

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
