//! The tiers below RAM as the configuration describes them, already checked. What becomes of these settings is not
//! here: the store knows nothing of files and flags.

use super::place::FleetServer;
use larder_semantics::network::Network;
use std::path::PathBuf;
use std::time::Duration;

/// The disk tier: `cache.disk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory, which need not exist yet.
    pub path: PathBuf,
    /// Bytes at most; at least four segments.
    pub size: u64,
    /// Bytes of a segment file.
    pub segment_size: u64,
    /// Seconds: what lives shorter is not written.
    pub min_ttl: u32,
    /// The use at which a large body is taken into RAM.
    pub promote_after: u32,
    /// Threads that read from the device.
    pub readers: usize,
    /// Bytes that may wait to be written.
    pub queue: u64,
    /// How long it stays off after an error.
    pub retry: Duration,
}

/// Where slow readers of what is too large to keep find it: `cache.spool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// A directory; `None` is the system's for such files.
    pub directory: Option<PathBuf>,
    /// Bytes at most.
    pub size: u64,
}

/// The memcached fleet: `cache.fleet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// The servers; never empty, no two alike.
    pub servers: Vec<FleetServer>,
    /// What is spoken.
    pub protocol: FleetProtocol,
    /// How keys are spread.
    pub distribution: DistributionSetting,
    /// The hash of keys.
    pub hash: HashSetting,
    /// What stands in place of the host.
    pub namespace: Option<String>,
    /// What every key begins with; may be empty.
    pub key_prefix: String,
    /// Whether every key is hashed by MD5.
    pub md5_keys: bool,
    /// Seconds after which a server forgets an item; 0 is never.
    pub expire: u32,
    /// Whether larder writes.
    pub put: bool,
    /// Whether writing is never waited for.
    pub no_block: bool,
    /// For one operation.
    pub timeout: Duration,
    /// For a connection.
    pub connect_timeout: Duration,
    /// After which a read is asked a second time; shorter than `timeout`.
    pub hedge: Option<Duration>,
    /// Whether a failing server is left out.
    pub auto_eject: bool,
    /// Failures in a row for that.
    pub failures: u32,
    /// How long it is left out.
    pub retry: Duration,
    /// Bytes of the largest item; no more than `queue`.
    pub max_item: u64,
    /// What becomes of larger ones.
    pub large: OversizeSetting,
    /// Bytes from which on bodies are compressed for the servers.
    pub compress_above: Option<u64>,
    /// Seconds for which a copy in RAM is used without asking.
    pub local_ttl: u32,
    /// Who else writes.
    pub filled_by: FilledBySetting,
    /// Whether one node recomputes for all; `false` where the protocol cannot.
    pub recompute_once: bool,
    /// Seconds for which what was replaced may be served.
    pub stale_grace: u32,
    /// Of each worker to each server.
    pub connections: usize,
    /// Bytes that may wait for each server in each worker.
    pub queue: u64,
    /// Whether purges are shared through the servers.
    pub purge_log: bool,
    /// How often that log is read.
    pub poll: Duration,
    /// How long a node trusts what it holds without having read it; longer than two polls that time out.
    pub lease: Duration,
}

/// What is spoken with memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetProtocol {
    /// The meta commands.
    Meta,
    /// The binary protocol.
    Binary,
}

/// How keys are spread over the servers, in libmemcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionSetting {
    /// A ring on which all servers have the same share.
    Ketama,
    /// A ring on which shares are as weights.
    KetamaWeighted,
    /// The hash modulo the number of servers.
    Modula,
}

/// A hash of keys, in libmemcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSetting {
    /// Jenkins' one-at-a-time.
    Default,
    /// Four bytes of MD5.
    Md5,
    /// Bits of CRC-32.
    Crc,
    /// FNV-1, 32 bits.
    Fnv32,
    /// FNV-1, 64 bits, cut.
    Fnv64,
    /// FNV-1a, 32 bits.
    Fnv32a,
    /// FNV-1a, 64 bits, cut.
    Fnv64a,
    /// Murmur.
    Murmur,
    /// Jenkins' one-at-a-time, by its own name.
    OneAtATime,
}

/// What becomes of responses that no item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversizeSetting {
    /// Several items.
    Split,
    /// Not kept in the fleet.
    Skip,
}

/// Who writes pages to the fleet beside larder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledBySetting {
    /// Nobody.
    Larder,
    /// Applications, in the documented envelope.
    Applications,
    /// Applications, as content type, NUL and body.
    Older,
}

/// Which tiers a route uses, of those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierChoice {
    /// RAM.
    pub ram: bool,
    /// Disk.
    pub disk: bool,
    /// The fleet.
    pub fleet: bool,
}

/// Who may purge with the `PURGE` method: `cache.purge`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeAccess {
    /// What the method is on this route.
    pub method: PurgeMethod,
    /// Clients that may use it.
    pub from: Vec<Network>,
}

/// What `PURGE` is on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeMethod {
    /// A method like any other that larder does not know: the origin's business.
    #[default]
    Unknown,
    /// Refused with 405; never the origin's.
    Refused,
    /// Done, for those who may.
    Allowed,
}
