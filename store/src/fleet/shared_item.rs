//! Items that belong to the nodes and not to a page: read and written by name, and changed by compare-and-swap. Their content is not
//! known here.

use super::connection::now;
use super::{ConnectionChoice, Fleet, FleetKey, OperationFailure};
use bytes::Bytes;
use larder_wire::memcached::{MemcachedReply, MemcachedRequest, MemcachedValue};
use std::time::Duration;

/// The least time for an operation: these items are not on the way of a request.
const WITHIN: Duration = Duration::from_secs(2);

/// An item with the number of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedItem {
    /// Its value.
    pub value: Bytes,
    /// Changes with every write.
    pub version: u64,
}

/// The item that a write replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemToReplace {
    /// Whatever is there.
    Any,
    /// None: there must be no item.
    Absent,
    /// The item of this version.
    Version(u64),
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemWritten {
    /// It is stored.
    Stored,
    /// There is another item than the one to replace.
    Changed,
}

impl Fleet {
    /// The item with this name; `None` without one.
    ///
    /// # Errors
    /// No server answered.
    pub async fn read_shared(&self, name: &str) -> Result<Option<SharedItem>, OperationFailure> {
        let (key, server) = self.shared_place(name)?;
        let request = MemcachedRequest::Get { key: &key, named: true, vivify: None, recache: None };
        let answer =
            self.servers[server].exchange(&request, ConnectionChoice::of(&key), self.within()).await?;
        match answer.reply {
            MemcachedReply::Hit(hit) => Ok(Some(SharedItem { value: answer.value, version: hit.cas })),
            MemcachedReply::Miss => Ok(None),
            _ => Err(OperationFailure::Refused),
        }
    }

    /// Writes the item with this name, for `expire` seconds.
    ///
    /// # Errors
    /// It may or may not be stored.
    pub async fn write_shared(
        &self,
        name: &str,
        value: &[u8],
        expire: u32,
        replaces: ItemToReplace,
    ) -> Result<ItemWritten, OperationFailure> {
        let (key, server) = self.shared_place(name)?;
        let (key, pieces) = (&key, [value]);
        let value = MemcachedValue::of(&pieces);
        let set = |cas| MemcachedRequest::Set { key, value, flags: 0, expire, cas, stale_if_older: false };
        let request = match replaces {
            ItemToReplace::Any => set(None),
            ItemToReplace::Absent => MemcachedRequest::Add { key, value, flags: 0, expire },
            ItemToReplace::Version(it) => set(Some(it)),
        };
        let way = ConnectionChoice::of(key);
        match self.servers[server].exchange(&request, way, self.within()).await?.reply {
            MemcachedReply::Done => Ok(ItemWritten::Stored),
            MemcachedReply::NotStored | MemcachedReply::Exists | MemcachedReply::NotFound => {
                Ok(ItemWritten::Changed)
            }
            _ => Err(OperationFailure::Refused),
        }
    }

    fn shared_place(&self, name: &str) -> Result<(FleetKey, usize), OperationFailure> {
        let key = self.keys.shared(name);
        let server = self.route(&key).ok_or(OperationFailure::Broken)?;
        Ok((key, server))
    }

    fn within(&self) -> tokio::time::Instant {
        now() + self.settings.timeout.max(WITHIN)
    }
}
