//! The number of descriptors of the process, and the share of clients and their requests. The use of descriptors is
//! counted in `larder_stdx::descriptors`.

use super::tiers::SharedTiers;
use larder_config::{Config, Source};
use larder_observe::log::{ErrorLog, Level};
use larder_stdx::descriptors;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// The most descriptors of each thread's event loop.
const OF_A_THREAD: usize = 6;
/// The fewest and the most descriptors reserved for other purposes: the resolver, the admin, logs and fetches without a
/// client; in between an eighth of all.
const KEPT: (usize, usize) = (16, 4096);

/// Room for fewer clients causes a log line even with the default limit.
const FEW: usize = 1000;

/// The division of the process's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShares {
    /// The limit of the system.
    allowed: usize,
    /// Clients and their requests.
    for_clients: usize,
    /// The admin's connections.
    pub for_admin: usize,
}

impl DescriptorShares {
    /// Raises the limit as far as the system permits, and divides it; applies to the whole process from now on. To be
    /// called when everything that the process opens at start is open.
    pub fn take(config: &Config, lower: &SharedTiers, workers: NonZeroUsize, errors: &ErrorLog) -> Self {
        let open = std::fs::read_dir("/proc/self/fd").map_or(64, Iterator::count);
        let threads = (workers.get() + 1) * OF_A_THREAD;
        let it = Self::of(raise(), open + threads + later(config, lower, workers));
        descriptors::allow(it.for_clients);
        it.log(config, errors);
        it
    }

    fn of(allowed: usize, taken: usize) -> Self {
        let kept = (allowed / 8).clamp(KEPT.0, KEPT.1);
        let for_clients = allowed.saturating_sub(taken).saturating_sub(kept);
        Self { allowed, for_clients, for_admin: kept / 2 }
    }

    /// Logs a warning if not all permitted clients can be accepted.
    fn log(self, config: &Config, errors: &ErrorLog) {
        let wanted = config.limits.client.connections;
        let promised = match config.decided.by("limits.connections") {
            Source::Default => wanted.min(FEW),
            _ => wanted,
        };
        if self.for_clients / 2 >= promised {
            return;
        }
        let values = [
            ("allowed", &*self.allowed.to_string()),
            ("for-clients", &self.for_clients.to_string()),
            ("limits.connections", &wanted.to_string()),
            (
                "now",
                "client connections and their requests use no more; further connections wait in the listen queue",
            ),
        ];
        errors.event(Level::Info, "descriptors", &values);
    }
}

/// Descriptors that the tiers below RAM may open later: segments of the disk, connections to the fleet.
fn later(config: &Config, lower: &SharedTiers, workers: NonZeroUsize) -> usize {
    let segments = lower.disk().map_or(0, |it| it.segments_to_come());
    let fleet = config.fleet.as_ref().map_or(0, |it| it.client.servers.len() * it.client.connections);
    segments + fleet * (workers.get() + 1)
}

/// The soft limit is often 1024 for the sake of old programs; the hard one is the real limit.
fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_reserved_for_the_admin_and_files() {
        let check = |allowed, taken, for_clients, for_admin| {
            assert_eq!(
                DescriptorShares { allowed, for_clients, for_admin },
                DescriptorShares::of(allowed, taken)
            );
        };
        check(1024, 40, 1024 - 40 - 128, 64);
        check(64, 30, 64 - 30 - 16, 8);
        check(32, 30, 0, 8);
        check(1_000_000, 40, 1_000_000 - 40 - 4096, 2048);
    }
}
