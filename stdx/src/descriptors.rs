//! Accounting of the file descriptors of this process: of clients, and of files and connections opened for their
//! requests. The accept loop checks it before it accepts another client, so that every accepted client finds a descriptor
//! for its request. Other clients wait in the kernel's queue, as before HAProxy. The limit is determined at the start and
//! not here. Used descriptors are counted, since a system call at each accept would take longer than the accept.

use crate::clock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of descriptors that clients and their requests may use together.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);
static CLIENTS: AtomicUsize = AtomicUsize::new(0);
/// Clients that may need one more: new ones, and those with a request in progress of whose response no bytes wait to be
/// sent.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
/// Files and connections to origins, including unused ones that are kept.
static FOR_CLIENTS: AtomicUsize = AtomicUsize::new(0);
/// The last time at which no descriptor was available, by the monotonic clock; 0 is never.
static LAST_SHORTAGE: AtomicU64 = AtomicU64::new(0);

/// The time for which unused descriptors are released after a request found none, milliseconds.
const SHORTAGE_MILLIS: u64 = 1_000;

/// A descriptor that is held, or may be needed, as long as this lives.
#[derive(Debug)]
pub struct HeldDescriptor(DescriptorUser);

#[derive(Clone, Copy, Debug)]
enum DescriptorUser {
    Client,
    Reserved,
    ForClients,
}

impl HeldDescriptor {
    /// Held by a client: its connection.
    #[must_use]
    pub fn by_client() -> Self {
        Self::new(DescriptorUser::Client)
    }

    /// Not yet held, but a client may need it for its request at any moment.
    #[must_use]
    pub fn reserved() -> Self {
        Self::new(DescriptorUser::Reserved)
    }

    /// Held for requests of clients: a file, a connection to an origin.
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
            DescriptorUser::Reserved => &RESERVED,
            DescriptorUser::ForClients => &FOR_CLIENTS,
        }
    }
}

/// Sets the number of descriptors that clients and their requests may use together. Without a call there is no limit.
pub fn allow(most: usize) {
    MOST.store(most, Relaxed);
}

/// Whether there is a descriptor for another client, and one for its request and for each accepted client that may need
/// one. One client is always accepted.
#[must_use]
pub fn suffice_for_another() -> bool {
    suffice(MOST.load(Relaxed), CLIENTS.load(Relaxed), RESERVED.load(Relaxed), FOR_CLIENTS.load(Relaxed))
}

fn suffice(most: usize, clients: usize, asking: usize, for_clients: usize) -> bool {
    clients == 0 || clients + asking + for_clients + 2 <= most
}

/// Reports that no descriptor was available. [`ran_out_lately`] and [`are_scarce`] return true for a second.
pub fn record_shortage() {
    LAST_SHORTAGE.store(clock::monotonic().0.max(1), Relaxed);
}

/// Whether a request lately found none: idle clients are closed.
#[must_use]
pub fn ran_out_lately() -> bool {
    let missed = LAST_SHORTAGE.load(Relaxed);
    missed > 0 && clock::monotonic().0.saturating_sub(missed) < SHORTAGE_MILLIS
}

/// Whether a request or a new connection waits for one: unused files and connections are closed.
#[must_use]
pub fn are_scarce() -> bool {
    ran_out_lately() || !suffice_for_another()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_accepted_if_a_descriptor_for_its_request_is_left() {
        assert!(suffice(usize::MAX, 50_000, 50_000, 50_000));
        assert!(suffice(100, 49, 49, 0), "each may ask yet");
        assert!(!suffice(100, 50, 50, 0));
        assert!(!suffice(100, 50, 0, 50), "each has what it asked for");
        assert!(suffice(100, 98, 0, 0), "none asks");
        assert!(suffice(1, 0, 0, 40), "one is always let in");
    }

    #[test]
    fn a_held_descriptor_is_given_back_on_drop() {
        let before = FOR_CLIENTS.load(Relaxed);
        let held = HeldDescriptor::for_clients();
        assert_eq!(before + 1, FOR_CLIENTS.load(Relaxed));
        drop(held);
        assert_eq!(before, FOR_CLIENTS.load(Relaxed));
    }
}
