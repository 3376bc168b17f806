//! The settings of the tiers below RAM and the tiers of a route, already checked. Their use is not here: the store does not
//! depend on files and flags.

use super::memcached_address::FleetServer;
use std::path::PathBuf;
use std::time::Duration;

/// The disk tier: `cache.disk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory, which may be missing.
    pub path: PathBuf,
    /// The most bytes; at least four segments.
    pub size: u64,
    /// Bytes of a segment file.
    pub segment_size: u64,
    /// Seconds: responses with a shorter lifetime are not written.
    pub min_ttl: u32,
    /// The number of uses after which a large body is promoted to RAM.
    pub promote_after: u32,
    /// Threads that read from the device.
    pub readers: usize,
    /// The most bytes that wait to be written.
    pub queue: u64,
    /// The time for which it stays off after an error.
    pub retry: Duration,
}

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
    /// The servers; never empty, no two alike.
    pub servers: Vec<FleetServer>,
    /// The protocol.
    pub protocol: FleetProtocol,
    /// The distribution of keys.
    pub distribution: DistributionSetting,
    /// The hash of keys.
    pub hash: HashSetting,
    /// The replacement for the host in keys.
    pub namespace: Option<String>,
    /// The prefix of every key; may be empty.
    pub key_prefix: String,
    /// Whether every key is hashed by MD5.
    pub md5_keys: bool,
    /// Seconds until an item expires on a server; 0 is never.
    pub expire: u32,
    /// Whether larder writes.
    pub put: bool,
    /// Whether no response waits for a write.
    pub no_block: bool,
    /// The timeout of one operation.
    pub timeout: Duration,
    /// The timeout of a connection.
    pub connect_timeout: Duration,
    /// The time after which a read is repeated; shorter than `timeout`.
    pub hedge: Option<Duration>,
    /// Whether a failing server is ejected.
    pub auto_eject: bool,
    /// Consecutive failures before an ejection.
    pub failures: u32,
    /// The duration of an ejection.
    pub retry: Duration,
    /// Bytes of the largest item; no more than `queue`.
    pub max_item: u64,
    /// The treatment of larger ones.
    pub large: OversizeSetting,
    /// Bytes from which on bodies are compressed for the servers.
    pub compress_above: Option<u64>,
    /// Seconds for which a copy in RAM is used without a lookup.
    pub local_ttl: u32,
    /// Other writers.
    pub filled_by: FilledBySetting,
    /// Whether one node recomputes for all; `false` if the protocol does not support it.
    pub recompute_once: bool,
    /// Seconds for which a replaced response may be served.
    pub stale_grace: u32,
    /// Connections of each worker to each server.
    pub connections: usize,
    /// Bytes that may wait for each server in each worker.
    pub queue: u64,
    /// Whether purges are shared through the servers.
    pub purge_log: bool,
    /// The interval at which that log is read.
    pub poll: Duration,
    /// The time for which a node trusts its entries without having read the log; longer than two polls that time out.
    pub lease: Duration,
}

/// The protocol of memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetProtocol {
    /// The meta commands.
    Meta,
    /// The binary protocol.
    Binary,
}

/// The distribution of keys over the servers, in libmemcached's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionSetting {
    /// A ring on which all servers have the same share.
    Ketama,
    /// A ring on which shares are proportional to weights.
    KetamaWeighted,
    /// The hash modulo the number of servers.
    Modula,
}

/// A hash of keys, in libmemcached's terms.
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
    /// FNV-1, 64 bits, truncated.
    Fnv64,
    /// FNV-1a, 32 bits.
    Fnv32a,
    /// FNV-1a, 64 bits, truncated.
    Fnv64a,
    /// Murmur.
    Murmur,
    /// Jenkins' one-at-a-time, by its own name.
    OneAtATime,
}

/// The treatment of responses that do not fit into an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversizeSetting {
    /// Several items.
    Split,
    /// Not kept in the fleet.
    Skip,
}

/// Programs other than larder that write pages to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilledBySetting {
    /// None.
    Larder,
    /// Applications, in the documented envelope.
    Applications,
    /// Applications, as content type, NUL and body.
    Older,
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
