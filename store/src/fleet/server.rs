//! One server of the fleet as one worker sees it: its connections, and operations on it by name. Which server a key
//! belongs to, and whether a failing one is left alone, is not decided here.

use super::health::Health;
use super::settings::Settings;
use bytes::Bytes;
use larder_counters::Counters;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Why a server gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Not in time.
    Late,
    /// The connection could not be opened, or ended, or what came on it was not an answer.
    Broken,
    /// The queue to it is full: it was not asked.
    Full,
    /// It answered that it does not do this: out of memory, too large, not a number, not supported.
    Refused,
    /// The key is not one that memcached takes: 1 to 250 bytes, none of them a space or a control character.
    Key,
}

/// What `add` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was absent, and is there now.
    Stored,
    /// It was there already, and is unchanged.
    Exists,
}

/// One server. The public operations are for what is kept on each server under fixed keys: they are sent whatever the
/// server's health, and end by their deadline.
pub struct Server {
    at: usize,
    settings: Arc<Settings>,
    health: Arc<Health>,
    counters: Arc<Counters>,
}

impl Server {
    pub(super) fn new(
        at: usize,
        settings: Arc<Settings>,
        health: Arc<Health>,
        counters: Arc<Counters>,
    ) -> Rc<Self> {
        Rc::new(Self { at, settings, health, counters })
    }

    /// Its place among the servers.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The values of several keys, in one round trip; `None` for what is not there.
    ///
    /// # Errors
    /// One of them was not answered.
    pub async fn get_many(&self, keys: &[&[u8]], within: Duration) -> Result<Vec<Option<Bytes>>, Failed> {
        let _ = (keys, within, &self.settings, &self.health, &self.counters);
        Err(Failed::Broken)
    }

    /// Writes a value where there is none. Kept for `expire`, whole seconds; zero is for ever.
    ///
    /// # Errors
    /// It may or may not be there.
    pub async fn add(
        &self,
        key: &[u8],
        value: &[u8],
        expire: Duration,
        within: Duration,
    ) -> Result<Added, Failed> {
        let _ = (key, value, expire, within);
        Err(Failed::Broken)
    }

    /// Writes a value. Kept for `expire`, whole seconds; zero is for ever.
    ///
    /// # Errors
    /// It may or may not be there.
    pub async fn set(
        &self,
        key: &[u8],
        value: &[u8],
        expire: Duration,
        within: Duration,
    ) -> Result<(), Failed> {
        let _ = (key, value, expire, within);
        Err(Failed::Broken)
    }

    /// Adds `by` to a number that is kept as decimal text, and says what it is then. An absent one is made, and is
    /// `initial` then.
    ///
    /// # Errors
    /// It may or may not have been added.
    pub async fn increment(
        &self,
        key: &[u8],
        by: u64,
        initial: u64,
        expire: Duration,
        within: Duration,
    ) -> Result<u64, Failed> {
        let _ = (key, by, initial, expire, within);
        Err(Failed::Broken)
    }

    /// Keeps what is there for `expire` from now, whole seconds; says whether it is there.
    ///
    /// # Errors
    /// It may or may not have been done.
    pub async fn touch(&self, key: &[u8], expire: Duration, within: Duration) -> Result<bool, Failed> {
        let _ = (key, expire, within);
        Err(Failed::Broken)
    }

    /// Removes a value; says whether it was there.
    ///
    /// # Errors
    /// It may or may not have been removed.
    pub async fn delete(&self, key: &[u8], within: Duration) -> Result<bool, Failed> {
        let _ = (key, within);
        Err(Failed::Broken)
    }
}
