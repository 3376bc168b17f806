//! The HTTP/2 server connection (RFC 9113): one loop over a codec without I/O. Every frame of one read is processed, hits
//! are answered between them, and all output leaves in one write; slow answers are tasks of their own.
//!
//! ```text
//! read ── frames ──┬── answer_now … answer_now ──────────────┐
//!  ^               └── a task for each slow request ── ready ─┴── collect, a frame of each in turn ── one write ──┐
//!  └────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

mod connection;
mod frames;

pub(crate) use connection::serve;

use larder_wire::http2::PREFACE;

/// Whether a client begins with the HTTP/2 preface, without an upgrade (RFC 9113 §3.3).
pub(crate) fn is_preface(bytes: &[u8]) -> bool {
    let length = bytes.len().min(PREFACE.len());
    bytes[..length] == PREFACE[..length]
}
