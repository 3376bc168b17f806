//! Purges across nodes, through the memcached servers: each server has a log of purges, which every node follows.
//! `follower` decides what a node may conclude; this module has the protocol with a server.

pub mod environment;
pub mod follower;
mod position;
pub mod purger;
pub mod run;
pub mod survey;

use larder_wire::purge_entry::Numbered;
use std::future::Future;

pub use environment::LocalEnvironment;
pub use follower::{LogFollower, LogParameters, PurgeLogSink};
pub use position::{Position, Seq};
pub use run::FleetPurgeLog;

/// The server did not answer in time, or is not in use at present. A sent request may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// The operations of one server. Every call ends within its own bound of some tens of milliseconds.
pub trait LogServer {
    /// The values of these keys, read one after the other in this order; `None` for an absent one.
    fn get_many(&self, keys: &[Vec<u8>]) -> impl Future<Output = Result<Vec<Option<Vec<u8>>>, Unavailable>>;
    /// Stores if the key is absent; returns whether it did. `expire` is in seconds, 0 for never.
    fn add(&self, key: &[u8], value: &[u8], expire: u32) -> impl Future<Output = Result<bool, Unavailable>>;
    /// Stores in place of any value.
    fn set(&self, key: &[u8], value: &[u8], expire: u32) -> impl Future<Output = Result<(), Unavailable>>;
    /// Increments a number; `None` where there is none.
    fn increment(&self, key: &[u8]) -> impl Future<Output = Result<Option<u64>, Unavailable>>;
}

/// The environment of the protocol.
pub trait LogEnvironment {
    /// Monotonic milliseconds, read now; they include the time in which the machine was suspended.
    fn now(&self) -> u64;
    /// Seconds since the epoch.
    fn wall(&self) -> u64;
    /// Random bits.
    fn random(&self) -> u64;
    /// Waits for this number of milliseconds.
    fn sleep(&self, millis: u64) -> impl Future<Output = ()>;
}

/// The keys of the log on a server.
#[derive(Clone, Debug)]
pub struct LogKeys {
    prefix: Vec<u8>,
}

impl LogKeys {
    /// Keys that begin with `prefix`. No page has such a key: those continue with a scheme, a hash or a namespace.
    #[must_use]
    pub fn new(prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec() }
    }

    fn with(&self, rest: std::fmt::Arguments<'_>) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key.extend_from_slice(rest.to_string().as_bytes());
        key
    }

    /// The number of the last entry, with the log's name.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.with(format_args!("!log:head"))
    }

    /// The number of registered nodes, with the name of the series.
    #[must_use]
    pub fn nodes(&self) -> Vec<u8> {
        self.with(format_args!("!log:nodes"))
    }

    /// An entry.
    #[must_use]
    pub fn entry(&self, it: Numbered) -> Vec<u8> {
        self.with(format_args!("!log:{:x}:{}", it.name, it.number))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, it: Numbered) -> Vec<u8> {
        self.with(format_args!("!node:{:x}:{}", it.name, it.number))
    }

    /// The status of a node.
    #[must_use]
    pub fn status(&self, it: Numbered) -> Vec<u8> {
        self.with(format_args!("!status:{:x}:{}", it.name, it.number))
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
