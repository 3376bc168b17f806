//! The log over real memcached servers, with real clocks.

use super::{LogEnvironment, LogServer, Unavailable};
use crate::fleet::server::{Added, MemcachedServer, OperationFailure};
use larder_stdx::clock;
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

/// The clocks of this machine, and its randomness.
pub struct LocalEnvironment;

impl LogEnvironment for LocalEnvironment {
    fn now(&self) -> u64 {
        clock::tick();
        clock::monotonic().0
    }

    fn wall(&self) -> u64 {
        clock::wall().0
    }

    fn random(&self) -> u64 {
        random()
    }

    async fn sleep(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Random bits from the kernel.
#[must_use]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Eight bytes come completely, or not at all where the kernel has no randomness: then the time is used.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => clock::precise_micros().wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}
