//! HTTP/1.1 as bytes (RFC 9112): heads, framing, chunked coding. Strict when it reads from a client,
//! strict when it reads from an origin, and canonical when it writes.

pub mod chunked;
pub(crate) mod facts;
mod lines;
pub mod request;
pub mod response;
pub mod write;

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    Empty,
    /// Exactly this many bytes, above zero.
    Length(u64),
    /// Chunked.
    Chunked,
    /// Until the connection closes (responses only).
    Close,
}

/// The versions that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
}

impl Version {
    /// As logs have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// Most field lines in one head, on either side.
pub const MAX_FIELDS: usize = 128;
