//! Field compression of HTTP/3 (RFC 9204) with the static table alone: nothing of a connection is needed to read or to write a
//! section, and no section waits for another one. The peer is offered no dynamic table, and larder fills none of the peer's.

mod decode;
pub mod encode;
mod instructions;
mod table;

pub use decode::decode;
pub use instructions::{DecoderInstructions, EncoderInstructions};
