//! What is kept, and what is on its way in: the RAM tier, its arena, and the fills in flight.
//! Whether something may be kept or used is decided in `semantics`; nothing here knows HTTP.

pub mod fill;
pub mod ram;

pub use fill::{Begin, Fill, FillEnd, FillHead, FillReader, FillWriter};
pub use ram::{Body, Settings, Shelf, Store, Stored};
