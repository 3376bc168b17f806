//! The settings of the tiers below RAM and the tiers of a route, already checked. The store has the types that it obeys.

use larder_store::fleet::FleetSettings;
use std::path::PathBuf;
use std::time::Duration;

/// The spool for slow readers of bodies that are too large to keep: `cache.spool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// A directory; `None` is the system's directory for such files.
    pub directory: Option<PathBuf>,
    /// The most bytes.
    pub size: u64,
}

/// The memcached fleet: `cache.fleet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// The settings of its client. No two servers are alike, and there is one at least.
    pub client: FleetSettings,
    /// Whether purges are shared through the servers.
    pub purge_log: bool,
    /// The interval at which that log is read.
    pub poll: Duration,
    /// The time for which a node trusts its entries without having read the log; longer than two polls that time out.
    pub lease: Duration,
}

/// The tiers that a route uses, of the existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierChoice {
    /// RAM.
    pub ram: bool,
    /// Disk.
    pub disk: bool,
    /// The fleet.
    pub fleet: bool,
}
