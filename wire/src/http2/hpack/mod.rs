//! Field compression (RFC 7541): a decoder whose table is bounded by what we allow; literals named from the static table alone, so that
//! they can be kept and sent over any connection; and an encoder that has a connection's peer remember those that recur.

mod decode;
pub mod encode;
mod encoder;
mod huffman;
mod table;

pub use decode::{Flaw, HpackDecoder, Section};
pub use encoder::Encoder;

/// Bytes of the table that a peer may have us keep (`SETTINGS_HEADER_TABLE_SIZE`; the one that connections begin with).
pub const TABLE: usize = 4096;
