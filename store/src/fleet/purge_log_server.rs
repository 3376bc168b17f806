//! One server of the purge log, over the connections to a memcached of the fleet. The protocol is in `larder_purge_log`.

use super::server::{Added, MemcachedServer, OperationFailure};
use larder_purge_log::{LogServer, Unavailable};
use larder_wire::memcached::FleetKey;
use std::rc::Rc;
use std::time::Duration;

/// One memcached, with the time limit of one operation.
pub struct PurgeLogServer {
    server: Rc<MemcachedServer>,
    within: Duration,
}

impl PurgeLogServer {
    /// `within` is the time for one operation, a new connection included.
    #[must_use]
    pub fn new(server: Rc<MemcachedServer>, within: Duration) -> Self {
        Self { server, within }
    }
}

/// Keys of the log are clean, and short: [`super::Keys`].
fn key(bytes: &[u8]) -> Result<FleetKey, Unavailable> {
    FleetKey::new(bytes).ok_or(Unavailable)
}

fn unavailable(_: OperationFailure) -> Unavailable {
    Unavailable
}

impl LogServer for PurgeLogServer {
    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Unavailable> {
        let keys: Vec<FleetKey> = keys.iter().map(|it| key(it)).collect::<Result<_, _>>()?;
        // A node without requests finds out as well that a server is back.
        self.server.probe_if_due();
        let values = self.server.get_many(&keys, self.within).await.map_err(unavailable)?;
        Ok(values.into_iter().map(|it| it.map(|it| it.to_vec())).collect())
    }

    async fn add(&self, at: &[u8], value: &[u8], expire: u32) -> Result<bool, Unavailable> {
        let added = self.server.add(&key(at)?, value, expire, self.within).await.map_err(unavailable)?;
        Ok(added == Added::Stored)
    }

    async fn set(&self, at: &[u8], value: &[u8], expire: u32) -> Result<(), Unavailable> {
        self.server.set(&key(at)?, value, expire, self.within).await.map_err(unavailable)
    }

    async fn increment(&self, at: &[u8]) -> Result<Option<u64>, Unavailable> {
        self.server.increment(&key(at)?, 1, None, self.within).await.map_err(unavailable)
    }
}
