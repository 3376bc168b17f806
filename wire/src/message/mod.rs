//! Requests and responses independent of the protocol (RFC 9110): heads, framing, versions, and the rules for fields that
//! apply to HTTP/1.1, HTTP/2 and CGI-like protocols alike. Their encodings are in the modules of the protocols.

pub(crate) mod facts;
pub mod fields;
mod request;
mod response;
mod status;
pub(crate) mod target;

pub(crate) use request::expects_continue;
pub use request::{FieldStorage, HeadLimits, Reject, Request, RequestHead};
pub use response::{BadResponse, HeadKind, ResponseHead};
pub use status::reason;
pub use target::is_authority;

/// The way in which the end of a body is determined (RFC 9112 §6.3).
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

/// The supported versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

/// The most field lines in one head, of requests and responses.
pub const MAX_FIELDS: usize = 128;
