//! Field compression (RFC 7541): a decoder whose table is bounded by what we allow, and an encoder that uses no table but
//! the static one, so that what it writes can be kept and sent over any connection.

mod decode;
pub mod encode;
mod huffman;
mod table;

pub use decode::{Decoder, Flaw, Section};

/// Bytes of the table that a peer may have us keep (`SETTINGS_HEADER_TABLE_SIZE`; the one that connections begin with).
pub const TABLE: usize = 4096;
