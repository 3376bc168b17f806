//! The stored bytes and those on their way in: the RAM tier with its arena, the disk and fleet tiers, and the fills in
//! flight. `semantics` decides what may be kept or used; this crate does not know HTTP.

mod arena;
mod changed_keys;
pub mod deferred_free;
pub mod device;
pub mod disk;
pub mod encodings;
mod entry;
pub mod fill;
pub mod fleet;
mod heap_bytes;
mod hit_for_miss;
mod key;
pub mod listing;
pub mod memory;
mod memory_budget;
mod purge_position;
pub mod purges;
pub mod ram;
mod read_buffer;
mod removed_keys;
pub mod s3fifo;
#[doc(hidden)]
pub mod sample;
pub mod snapshot;
pub mod spool;
mod spooled_body;
mod stored_body;
mod stored_envelope;
mod supersede;
mod thread_number;
mod tiers;

pub use disk::{DiskTier, ReadWait};
pub use encodings::{Encoding, Encodings, NotMade};
pub use fill::{Begin, Fill, FillEnd, FillHead, FillReader, FillWriter, WithoutSpool};
pub use heap_bytes::HeapBytes;
pub use purges::{Position, Positions, PurgeEpoch, PurgeFacts, PurgeRule, PurgeScope, Seq, Strength};
pub use ram::{
    DiskOffer, Entry, Exchanged, FleetCopy, RamSettings, Store, Stored, StoredArc, StoredBody, Swept,
};
pub use spooled_body::{BodyRefusal, SpooledBody};
