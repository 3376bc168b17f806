//! Removing from the fleet what another answer of the origin has made unusable: at once where a request waits for it,
//! otherwise a few times a second at most for each key. So a page whose answers are never stored does not cost a write
//! for each of them.

use super::recompute_lease::{REMOVAL_SECONDS, RecomputeLease};
use super::{FilledBy, Fleet, Removed};
use larder_stdx::clock::WallTime;
use larder_wire::envelope::Mark;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// The pause between two writes for one key that no request waits for.
const PAUSE: Duration = Duration::from_millis(100);

/// The most keys in such a pause; beyond, each answer is written at once.
const MOST: usize = 4096;

/// The most seconds by which the clocks of two nodes may differ.
pub(super) const CLOCKS_APART: u64 = 1;

/// The replacement of a removed record.
#[derive(Clone, Copy, Debug)]
pub enum RecordReplacement<'a> {
    /// The mark that the answer is not for other nodes.
    Mark(&'a Mark),
    /// A trace against earlier requests, of an answer that was requested at this moment and is stored elsewhere.
    Marker(WallTime),
}

/// Keys that were recently written, with the newest waiting replacement.
#[derive(Default)]
pub(super) struct Superseding(RefCell<HashMap<Box<[u8]>, Next>>);

/// The next write for a key, if a replacement arrived since.
type Next = Option<Box<[u8]>>;

impl Fleet {
    /// Whether larder writes to the fleet, so that it may remove records of other nodes.
    fn may_remove(&self) -> bool {
        self.settings.put && self.settings.filled_by == FilledBy::Larder
    }

    /// Seconds for which the fleet records a removal: longer than any node uses a copy without asking here.
    pub(super) fn removal_seconds(&self) -> u32 {
        let local = u32::try_from(self.settings.local_ttl.as_secs()).unwrap_or(u32::MAX);
        REMOVAL_SECONDS.max(local.saturating_add(60)).min(larder_wire::memcached::MAX_EXPIRE)
    }

    /// Replaces a key with all variants by this mark, and ends when that is done: within `timeout`.
    pub async fn supersede(self: &Rc<Self>, key: &[u8], instead: RecordReplacement<'_>) -> Removed {
        if !self.may_remove() {
            return Removed::Everywhere;
        }
        self.remove_with_marker(key, Some(&self.bytes_of(key, instead))).await
    }

    /// The same without waiting: at once, or 0.1 s after the last time.
    pub fn supersede_soon(self: &Rc<Self>, key: &[u8], instead: RecordReplacement<'_>) {
        if !self.may_remove() {
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
                let _ = fleet.remove_with_marker(&key, Some(&bytes)).await;
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

    fn bytes_of(&self, key: &[u8], instead: RecordReplacement<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        match instead {
            RecordReplacement::Mark(mark) => mark.write(&mut bytes),
            RecordReplacement::Marker(at) => {
                let before = WallTime(at.0.saturating_sub(CLOCKS_APART + 1));
                Mark::of_removal(&self.keys.full(key), before, self.removal_seconds()).write(&mut bytes);
            }
        }
        bytes
    }
}

impl RecomputeLease {
    /// Ends the lease: the response to replace is gone.
    pub fn end(self) {
        if let Some(fleet) = self.forget() {
            fleet.counters.fleet_hit_for_miss_writes.add(1);
        }
    }
}
