//! What a worker remembers between reading a key of the fleet and writing it: whether it is its turn to compute it, and
//! which generation of variants it belongs to. Who gets a turn is the servers' to say.

use super::connection::now;
use super::get::VIVIFY;
use super::{Fleet, Way};
use larder_wire::memcached::{FleetKey, Request};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Keys that are remembered as they were seen.
const MOST_SEEN: usize = 4096;

/// For so long: longer than computing takes.
const REMEMBERED: Duration = Duration::from_secs(120);

/// This node's turn to compute one item. Dropped, the turn is given back, unless something was put meanwhile: so it must
/// live until the [`super::Put`] of the new response has settled.
pub struct Win {
    fleet: Weak<Fleet>,
    key: FleetKey,
    server: usize,
    /// The number of the item that is to be replaced.
    cas: u64,
    /// There is nothing yet; else it is a response whose lifetime is over.
    is_new: bool,
}

impl Win {
    pub(super) fn new(fleet: &Rc<Fleet>, key: FleetKey, server: usize, cas: u64, is_new: bool) -> Self {
        // An item that was made for this turn goes by itself, some time before that is safe to rely on.
        let until = is_new.then(|| now() + Duration::from_secs(VIVIFY.into()) / 2);
        fleet.turns.0.borrow_mut().insert(key.clone(), Held { cas, until });
        Self { fleet: Rc::downgrade(fleet), key, server, cas, is_new }
    }
}

impl Drop for Win {
    fn drop(&mut self) {
        let Some(fleet) = self.fleet.upgrade() else { return };
        let mut turns = fleet.turns.0.borrow_mut();
        if turns.get(&self.key).is_none_or(|it| it.cas != self.cas) {
            return;
        }
        turns.remove(&self.key);
        drop(turns);
        // A response stays, for those that may use it stale, and the next reader gets the turn.
        let grace = u32::try_from(fleet.settings.stale_grace.as_secs()).unwrap_or(u32::MAX).max(1);
        let stale = (!self.is_new).then_some(grace);
        let request = Request::Delete { key: &self.key, stale, cas: Some(self.cas) };
        let deadline = now() + fleet.settings.timeout;
        // Nobody waits for it: at worst the others wait for as long as they do.
        fleet.servers[self.server].tell(&request, Way::of(&self.key), deadline);
    }
}

impl std::fmt::Debug for Win {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Win")
            .field("key", &self.key.as_str())
            .field("is_new", &self.is_new)
            .finish_non_exhaustive()
    }
}

/// The turns that this worker has: one for each [`Win`] that lives.
#[derive(Default)]
pub(super) struct Turns(RefCell<HashMap<FleetKey, Held>>);

struct Held {
    cas: u64,
    until: Option<Instant>,
}

impl Turns {
    /// The number of the item that a write of `key` is to replace, if it is this worker's turn: what was removed or
    /// written by others meanwhile is then not written over.
    pub(super) fn replaces(&self, key: &FleetKey) -> Option<u64> {
        let turns = self.0.borrow();
        let held = turns.get(key)?;
        held.until.is_none_or(|it| now() < it).then_some(held.cas)
    }

    /// It was written: there is nothing to give back.
    pub(super) fn done(&self, key: &FleetKey) {
        self.0.borrow_mut().remove(key);
    }
}

/// What was read under a key a while ago, by one that meant to compute it anew: what it writes is to replace that, and
/// nothing else. What was removed meanwhile, by whatever node, is then not brought back.
///
/// A *generation* is a random number that goes with the newest record, and into the keys of all variants: where the newest
/// is removed, no variant of its generation can be found any more.
#[derive(Default)]
pub(super) struct Seen(RefCell<HashMap<Box<[u8]>, Sight>>);

/// What was seen.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub(super) generation: u32,
    /// The number of the newest record.
    pub(super) cas: u64,
    until: Instant,
}

impl Seen {
    pub(super) fn note(&self, key: &[u8], generation: u32, cas: u64) {
        let mut seen = self.0.borrow_mut();
        if seen.len() >= MOST_SEEN && !seen.contains_key(key) {
            // What is forgotten costs variants, no more.
            seen.clear();
        }
        seen.insert(key.into(), Sight { generation, cas, until: now() + REMEMBERED });
    }

    /// Says it once: what is written makes it another.
    pub(super) fn take(&self, key: &[u8]) -> Option<Sight> {
        self.0.borrow_mut().remove(key).filter(|it| now() < it.until)
    }
}

/// A generation that nobody has. Zero is what applications write.
pub(super) fn new_generation() -> u32 {
    random::<4>().map_or(1, u32::from_le_bytes).max(1)
}

/// Random bytes; `None` where the kernel has none to give.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    Some(bytes)
}
