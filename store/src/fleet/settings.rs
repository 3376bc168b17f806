//! The configuration of the fleet: its servers, time limits and writes. `ring` maps keys to servers, `keys` writes them.

use super::hash::KeyHashFunction;
use super::keys::FleetKeys;
use larder_wire::memcached::MemcachedProtocol;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How keys are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RingDistribution {
    /// A ring on which each server has 100 points (`MEMCACHED_DISTRIBUTION_CONSISTENT`): few keys move when a server is
    /// added or removed. The points are hashed like the keys.
    #[default]
    Ketama,
    /// A ring on which servers have points by weight, 160 on average (`MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`). The points
    /// are always hashed by MD5; libmemcached hashes the keys so as well, unless configured otherwise.
    KetamaWeighted,
    /// The remainder of the hash. Nearly all keys move when a server is added or removed.
    Modula,
}

impl RingDistribution {
    /// Each with its name in the configuration.
    pub const ALL: [(&'static str, RingDistribution); 3] = [
        ("ketama", RingDistribution::Ketama),
        ("ketama_weighted", RingDistribution::KetamaWeighted),
        ("modula", RingDistribution::Modula),
    ];

    /// The distribution of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<RingDistribution> {
        Self::ALL.iter().find(|it| it.0 == name).map(|it| it.1)
    }
}

/// The address of a memcached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemcachedAddress {
    /// A host name or an address, without brackets, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// One server of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetAddress {
    /// Its address.
    pub at: MemcachedAddress,
    /// Its share of the keys relative to the others'; at least one. Only `ketama_weighted` uses it.
    pub weight: u32,
}

impl fmt::Display for MemcachedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemcachedAddress::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            MemcachedAddress::Tcp(host, port) => write!(f, "{host}:{port}"),
            MemcachedAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for FleetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)?;
        if self.weight == 1 { Ok(()) } else { write!(f, " weight={}", self.weight) }
    }
}

/// The treatment of an item above [`FleetSettings::max_item`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OversizePolicy {
    /// It is written in parts, each under its own key.
    #[default]
    Split,
    /// It is not written.
    Skip,
}

/// The writers of the fleet, and thereby the form of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilledBy {
    /// Only larder nodes: a value without their facts is foreign.
    #[default]
    Larder,
    /// Applications as well (docs/fleet-envelope.md): facts that they leave out are computed from the fields.
    Applications,
    /// Applications in the older form, `content-type NUL body`; and every form that `Applications` accepts.
    Older,
}

/// The configuration of the fleet. Times are whole milliseconds or more; sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// The servers. Their order is part of the mapping with `modula`.
    pub servers: Vec<FleetAddress>,
    /// The protocol of all of them.
    pub protocol: MemcachedProtocol,
    /// How keys are distributed among the servers.
    pub distribution: RingDistribution,
    /// The hash function for that.
    pub hash: KeyHashFunction,
    /// How keys are written.
    pub keys: FleetKeys,
    /// The longest time that anything is kept there; with zero it is as long as memory allows.
    pub expire: Duration,
    /// Whether larder writes there.
    pub put: bool,
    /// Whether a fill ends without waiting for its write to the fleet.
    pub no_block: bool,
    /// The deadline of every operation, a large item's parts included.
    pub timeout: Duration,
    /// The longest time to open a connection.
    pub connect_timeout: Duration,
    /// After this time without an answer a read is sent a second time, on another connection; `None` for never.
    pub hedge: Option<Duration>,
    /// Whether the keys of a failing server go to the next one. Otherwise they are not kept while it fails.
    pub auto_eject: bool,
    /// Consecutive failures after which a server is not used; at least one.
    pub failures: u32,
    /// For how long it is not used, and again after each failed attempt.
    pub retry: Duration,
    /// The largest item that the servers accept (`memcached -I`), key and overhead included.
    pub max_item: u64,
    /// The treatment of larger ones.
    pub large: OversizePolicy,
    /// Bodies above this many bytes are compressed (zstd) in the fleet; `None` for none.
    pub compress_above: Option<u64>,
    /// For how long a copy in RAM is used before the fleet is asked for a newer one.
    pub local_ttl: Duration,
    /// The writers of the fleet.
    pub filled_by: FilledBy,
    /// Whether only one of all nodes fetches an expired response again (meta protocol only).
    pub recompute_once: bool,
    /// For how long an item stays after its lifetime, for stale use and validation.
    pub stale_grace: Duration,
    /// Connections to each server, for each worker; at least one.
    pub connections: usize,
    /// The most bytes that may wait to be written to one server, for each worker.
    pub queue: u64,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            protocol: MemcachedProtocol::default(),
            distribution: RingDistribution::default(),
            hash: KeyHashFunction::default(),
            keys: FleetKeys::default(),
            expire: Duration::from_secs(24 * 60 * 60),
            put: true,
            no_block: true,
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(250),
            hedge: None,
            auto_eject: true,
            failures: 3,
            retry: Duration::from_secs(5),
            max_item: 1 << 20,
            large: OversizePolicy::default(),
            compress_above: None,
            local_ttl: Duration::from_secs(5),
            filled_by: FilledBy::default(),
            recompute_once: true,
            stale_grace: Duration::from_secs(60),
            connections: 2,
            queue: 16 << 20,
        }
    }
}
