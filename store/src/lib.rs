//! What is kept, and what is on its way in: the RAM tier, its arena, and the fills in flight.
//! Whether something may be kept or used is decided in `semantics`; nothing here knows HTTP.

mod arena;
pub mod disk;
mod evicted;
pub mod fill;
pub mod fleet;
mod flights;
pub mod forms;
mod heap_bytes;
pub mod idle;
mod ledger;
pub mod listing;
pub mod memory;
mod misses;
pub mod purges;
pub mod ram;
mod room;
pub mod s3fifo;
#[doc(hidden)]
pub mod sample;
mod shelf;
pub mod spool;
mod supersede;
mod tiers;
pub mod yards;

pub use disk::{Disk, Waited};
pub use fill::{Begin, Fill, FillEnd, FillHead, FillReader, FillWriter, Otherwise};
pub use forms::{Form, Forms, NotMade};
pub use heap_bytes::HeapBytes;
pub use purges::{Born, Marks, Position, Positions, Rule, Scope, Seq, Strength};
pub use ram::{Body, Exchanged, OnDisk, Settings, Shared, Shelf, Store, Stored};
