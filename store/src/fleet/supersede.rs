//! Taking out of the fleet what another answer of the origin has made unusable: at once where somebody waits for it, else some times a
//! second at most for each key, so that a page whose answers are never stored does not cost a write for each of them.

use super::recompute_lease::{REMOVAL_STANDS, RecomputeLease};
use super::{FilledBy, Fleet, Removed};
use larder_stdx::clock::WallTime;
use larder_wire::envelope::Mark;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// The pause between two writes for one key of which nobody waits.
const PAUSE: Duration = Duration::from_millis(100);

/// Keys that are in such a pause; beyond, each answer is told of at once.
const MOST: usize = 4096;

/// How far the clocks of two nodes may be apart, seconds.
pub(super) const CLOCKS_APART: u64 = 1;

/// What stands in the place of what went.
#[derive(Clone, Copy, Debug)]
pub enum Instead<'a> {
    /// That the answer is not for others.
    Mark(&'a Mark),
    /// A trace, for what was asked for before an answer that was asked for at this moment and lies elsewhere.
    Trace(WallTime),
}

/// Keys that were told of a moment ago, with what came since.
#[derive(Default)]
pub(super) struct Superseding(RefCell<HashMap<Box<[u8]>, Next>>);

/// What is to be written next under a key, if anything came since.
type Next = Option<Box<[u8]>>;

impl Fleet {
    /// Whether larder writes to the fleet, so that it may take something out that was not its own.
    fn is_ours(&self) -> bool {
        self.settings.put && self.settings.filled_by == FilledBy::Larder
    }

    /// Seconds for which it stands in the fleet that something went: longer than any node uses a copy without asking here.
    pub(super) fn stands(&self) -> u32 {
        let local = u32::try_from(self.settings.local_ttl.as_secs()).unwrap_or(u32::MAX);
        REMOVAL_STANDS.max(local.saturating_add(60)).min(larder_wire::memcached::MAX_EXPIRE)
    }

    /// Puts this mark in the place of what lies under a key, all variants, and ends when that is so: within `timeout`.
    pub async fn supersede(self: &Rc<Self>, key: &[u8], instead: Instead<'_>) -> Removed {
        if !self.is_ours() {
            return Removed::Everywhere;
        }
        self.remove_leaving(key, Some(&self.bytes_of(key, instead))).await
    }

    /// The same, and nobody waits: at once, or a tenth of a second after the last time.
    pub fn supersede_soon(self: &Rc<Self>, key: &[u8], instead: Instead<'_>) {
        if !self.is_ours() {
            return;
        }
        let bytes = self.bytes_of(key, instead);
        let mut all = self.superseding.0.borrow_mut();
        if let Some(next) = all.get_mut(key) {
            *next = Some(bytes.into());
            return;
        }
        let is_paced = all.len() < MOST;
        if is_paced {
            all.insert(key.into(), None);
        }
        drop(all);
        let (fleet, key): (_, Box<[u8]>) = (self.clone(), key.into());
        tokio::task::spawn_local(async move {
            let mut next: Next = Some(bytes.into());
            while let Some(bytes) = next.take() {
                let _ = fleet.remove_leaving(&key, Some(&bytes)).await;
                if !is_paced {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
                let mut all = fleet.superseding.0.borrow_mut();
                next = all.get_mut(&key).and_then(Option::take);
                if next.is_none() {
                    all.remove(&key);
                }
            }
        });
    }

    fn bytes_of(&self, key: &[u8], instead: Instead<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match instead {
            Instead::Mark(mark) => mark.write(&mut bytes),
            Instead::Trace(at) => {
                let before = WallTime(at.0.saturating_sub(CLOCKS_APART + 1));
                Mark::of_removal(&self.keys.full(key), before, self.stands()).write(&mut bytes);
            }
        }
        bytes
    }
}

impl RecomputeLease {
    /// Ends the turn: what was to be replaced is gone.
    pub fn end(self) {
        if let Some(fleet) = self.forget() {
            fleet.counters.fleet_hit_for_miss_writes.add(1);
        }
    }
}
