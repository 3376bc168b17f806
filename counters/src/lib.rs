//! The table of counters, and the counters of each worker. Who shows them is not here.

pub mod table;

pub use table::{Counters, Describe, Unit};
