//! Field compression (RFC 7541): a decoder with a bounded table; literals with names from the static table only, which
//! can be stored and sent over any connection; and an encoder with the dynamic table of a connection.

mod decode;
pub mod encode;
mod encoder;
mod huffman;
mod table;

pub use decode::{HpackDecoder, Section};
pub(crate) use decode::{integer, string_behind};
pub use encoder::Encoder;
pub(crate) use encoder::PreparedLiteral;
pub use table::Flaw;
pub(crate) use table::known_name;

/// The largest table that a peer may request (`SETTINGS_HEADER_TABLE_SIZE`; the initial size of connections), bytes.
pub const TABLE: usize = 4096;
