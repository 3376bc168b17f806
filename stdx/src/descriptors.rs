//! Who holds the descriptors of this process: clients, and what was opened for them. Asked before another client is let
//! in, so that everybody who is in finds one for what he asks for, a file or a connection to an origin; the others wait at
//! the door, as they do before HAProxy. How many there are is found out at the start and not here; and what is held is
//! counted, since to ask the system at each accept takes longer than the accept.

use crate::clock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many clients and what they ask for may hold together.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);
static CLIENTS: AtomicUsize = AtomicUsize::new(0);
/// Clients that may need one more: new ones, and those whose request is under way and of whose answer nothing waits to be taken.
static ASKING: AtomicUsize = AtomicUsize::new(0);
/// Files and connections to origins, also those that are kept unused.
static FOR_CLIENTS: AtomicUsize = AtomicUsize::new(0);
/// When somebody found none, by the monotonic clock; 0 is never.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// For so long those who can do without theirs give way to somebody who found none, milliseconds.
const MINDED: u64 = 1_000;

/// One that is held, or may be needed, for as long as this lives.
#[derive(Debug)]
pub struct HeldDescriptor(DescriptorUser);

#[derive(Clone, Copy, Debug)]
enum DescriptorUser {
    Client,
    Asking,
    ForClients,
}

impl HeldDescriptor {
    /// By a client: its connection.
    #[must_use]
    pub fn by_client() -> Self {
        Self::new(DescriptorUser::Client)
    }

    /// Not yet held, but a client may need it any moment for what it asks.
    #[must_use]
    pub fn soon() -> Self {
        Self::new(DescriptorUser::Asking)
    }

    /// For what clients ask: a file, a connection to an origin.
    #[must_use]
    pub fn for_clients() -> Self {
        Self::new(DescriptorUser::ForClients)
    }

    fn new(who: DescriptorUser) -> Self {
        who.count().fetch_add(1, Relaxed);
        Self(who)
    }
}

impl Drop for HeldDescriptor {
    fn drop(&mut self) {
        self.0.count().fetch_sub(1, Relaxed);
    }
}

impl DescriptorUser {
    fn count(self) -> &'static AtomicUsize {
        match self {
            DescriptorUser::Client => &CLIENTS,
            DescriptorUser::Asking => &ASKING,
            DescriptorUser::ForClients => &FOR_CLIENTS,
        }
    }
}

/// From now on clients and what they ask for may hold `most` together. Until this is called there is no limit.
pub fn allow(most: usize) {
    MOST.store(most, Relaxed);
}

/// Whether there is one for another client, and one for what it and each of those who are in may ask for yet. One client
/// is always let in.
#[must_use]
pub fn suffice_for_another() -> bool {
    suffice(MOST.load(Relaxed), CLIENTS.load(Relaxed), ASKING.load(Relaxed), FOR_CLIENTS.load(Relaxed))
}

fn suffice(most: usize, clients: usize, asking: usize, for_clients: usize) -> bool {
    clients == 0 || clients + asking + for_clients + 2 <= most
}

/// Somebody found none. For a second [`are_missed`] and [`are_scarce`] say so.
pub fn miss() {
    MISSED.store(clock::monotonic().0.max(1), Relaxed);
}

/// Whether somebody found none lately: clients that rest give way.
#[must_use]
pub fn are_missed() -> bool {
    let missed = MISSED.load(Relaxed);
    missed > 0 && clock::monotonic().0.saturating_sub(missed) < MINDED
}

/// Whether somebody waits for one, or at the door: what is kept unused is closed.
#[must_use]
pub fn are_scarce() -> bool {
    are_missed() || !suffice_for_another()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_in_finds_one_more() {
        assert!(suffice(usize::MAX, 50_000, 50_000, 50_000));
        assert!(suffice(100, 49, 49, 0), "each may ask yet");
        assert!(!suffice(100, 50, 50, 0));
        assert!(!suffice(100, 50, 0, 50), "each has what it asked for");
        assert!(suffice(100, 98, 0, 0), "none asks");
        assert!(suffice(1, 0, 0, 40), "one is always let in");
    }

    #[test]
    fn what_is_held_is_given_back() {
        let before = FOR_CLIENTS.load(Relaxed);
        let held = HeldDescriptor::for_clients();
        assert_eq!(before + 1, FOR_CLIENTS.load(Relaxed));
        drop(held);
        assert_eq!(before, FOR_CLIENTS.load(Relaxed));
    }
}
