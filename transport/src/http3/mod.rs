//! The HTTP/3 server connection (RFC 9114) over QUIC: one loop of a worker for its UDP socket and all connections on it. Packets,
//! loss and encryption are quinn-proto's, the frames are those of `wire`, and the tasks of slow answers are those of `streams`.
//!
//! ```text
//! receive ── packets ── connection ── streams ──┬── answer_now ──────────────────┐
//!    ^                                          └── a task for each slow request ─┴── streams ── packets ── send ──┐
//!    └─────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

mod connection;
mod early_data;
mod endpoint;
mod endpoint_waker;
mod handshake;
mod output;
mod packet_handover;
mod port;
mod port_check;
mod requests;
mod uni_streams;

pub use endpoint::serve_until;
pub use packet_handover::QuicHandOver;
pub use port::{QuicPort, QuicSocket, QuicSockets};

use larder_wire::http3::Http3Error;
use quinn_proto::VarInt;

/// The code of an error as QUIC has it.
fn code(error: Http3Error) -> VarInt {
    VarInt::from_u32(error.code())
}
