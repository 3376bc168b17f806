//! Purges across nodes, through the memcached servers: each server has a log of purges, which every node follows.
//! What a node may conclude is in `follower`; this is what both sides need to speak with a server.

pub mod follower;
pub mod purger;
pub mod real;
pub mod run;

use larder_wire::purge_entry::Numbered;
use std::future::Future;

pub use follower::{Holder, LogFollower, Terms};
pub use run::FleetPurgeLog;

/// The server did not answer in time, or is not asked at present. What was sent may yet be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// What one server must be able to do. Every call ends within a bound of its own, of some tens of milliseconds.
pub trait LogServer {
    /// The values of these keys, read one after the other in this order; `None` for what is not there.
    fn get_many(&self, keys: &[Vec<u8>]) -> impl Future<Output = Result<Vec<Option<Vec<u8>>>, Unavailable>>;
    /// Stores if nothing stands there; says whether it did. `expire` is in seconds, 0 for never.
    fn add(&self, key: &[u8], value: &[u8], expire: u32) -> impl Future<Output = Result<bool, Unavailable>>;
    /// Stores whatever stood there.
    fn set(&self, key: &[u8], value: &[u8], expire: u32) -> impl Future<Output = Result<(), Unavailable>>;
    /// Adds one to the number that stands there; `None` where none does.
    fn increment(&self, key: &[u8]) -> impl Future<Output = Result<Option<u64>, Unavailable>>;
}

/// What the program runs in.
pub trait World {
    /// Monotonic milliseconds, read now; time in which the machine was suspended counts.
    fn now(&self) -> u64;
    /// Seconds since the epoch.
    fn wall(&self) -> u64;
    /// Random bits.
    fn random(&self) -> u64;
    /// Waits for so many milliseconds.
    fn sleep(&self, millis: u64) -> impl Future<Output = ()>;
}

/// The keys that the log takes in a server.
#[derive(Clone, Debug)]
pub struct LogKeys {
    prefix: Vec<u8>,
}

impl LogKeys {
    /// Keys that begin with `prefix`. No page is under such a key: theirs go on with a scheme, a hash or a namespace.
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

    /// How many nodes took a number, with the name of the series.
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
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
