//! Requests and responses without a protocol (RFC 9110): heads, where a body ends, versions, and the rules for fields that
//! hold for HTTP/1.1, HTTP/2 and what speaks CGI alike. How they lie in bytes is in the module of each protocol.

pub(crate) mod facts;
pub mod fields;
mod request;
mod response;
mod status;
pub(crate) mod target;

pub(crate) use request::expects_continue;
pub use request::{HeadLimits, Reject, Request, RequestHead, Storage};
pub use response::{BadResponse, ResponseHead};
pub use status::reason;
pub use target::is_authority;

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
