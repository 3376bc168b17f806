//! One worker's lower tiers, disk and fleet, and the use counts of large bodies on disk. `tier_transfer` moves responses.

use larder_stdx::clock::WallTime;
use larder_store::fleet::{FilledBy, Fleet};
use larder_store::ram::KeyHash;
use larder_store::{DiskTier, Stored};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Uses of large bodies on disk are counted in this number of slots.
const PLACES: usize = 4096;

/// After this many uses all counts are halved, so that old uses lose their weight.
const HALVED_AFTER: u32 = 4 * PLACES as u32;

/// The configured tiers below RAM.
#[derive(Default)]
pub struct LowerTiers {
    /// Shared by all workers.
    pub disk: Option<Arc<DiskTier>>,
    /// This worker's client.
    pub fleet: Option<Rc<Fleet>>,
}

impl LowerTiers {
    /// Whether the fleet is to be asked before RAM's response is used again.
    #[inline]
    pub(crate) fn is_due(&self, stored: &Stored, now: WallTime) -> bool {
        let local_ttl = self.fleet.as_ref().map(|it| it.settings().local_ttl.as_secs());
        stored.is_due(now.0, local_ttl.unwrap_or(u64::MAX))
    }

    /// Whether larder itself writes to the fleet; where applications fill it, larder does not.
    pub(crate) fn fills_fleet(&self) -> bool {
        let settings = self.fleet.as_ref().map(|it| it.settings());
        settings.is_some_and(|it| it.put && it.filled_by == FilledBy::Larder)
    }
}

/// About how often large bodies on disk were used recently: two keys may share a slot.
pub(crate) struct DiskUseCounts {
    places: Box<[u8]>,
    since_halved: u32,
}

impl Default for DiskUseCounts {
    fn default() -> Self {
        Self { places: vec![0; PLACES].into(), since_halved: 0 }
    }
}

impl DiskUseCounts {
    /// Counts one more use, and returns the count.
    pub fn count(&mut self, hash: KeyHash) -> u32 {
        self.since_halved += 1;
        if self.since_halved > HALVED_AFTER {
            self.since_halved = 0;
            self.places.iter_mut().for_each(|it| *it /= 2);
        }
        let place = &mut self.places[Self::place(hash)];
        *place = place.saturating_add(1);
        u32::from(*place)
    }

    /// The count.
    pub fn so_far(&self, hash: KeyHash) -> u32 {
        u32::from(self.places[Self::place(hash)])
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn place(hash: KeyHash) -> usize {
        hash.0 as usize % PLACES
    }
}

/// The counts of one worker.
pub(crate) type SharedUses = RefCell<DiskUseCounts>;
