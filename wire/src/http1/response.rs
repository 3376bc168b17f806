//! The head of an origin's response, read strictly: what cannot be read in one way only is a bad response.

use super::{Framing, Version};
use larder_semantics::field::FieldList;

/// A response head.
#[derive(Clone, Debug)]
pub struct Response {
    /// 100 to 999.
    pub status: u16,
    /// 1.0 or 1.1.
    pub version: Version,
    /// Every field line in order.
    pub fields: FieldList,
    /// Where the body ends, given the request's method (RFC 9112 §6.3).
    pub framing: Framing,
    /// Whether the connection may be used again after the body.
    pub keep_alive: bool,
}

/// Why a response head was refused; all are 502 to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// The status line is malformed.
    StatusLine,
    /// A field line is malformed, or obs-folded.
    Field,
    /// The head is over its limit.
    TooLarge,
    /// `Content-Length` is invalid or contradicts itself, or stands beside `Transfer-Encoding`.
    Length,
    /// A transfer coding that we do not know, or `chunked` not last, or in HTTP/1.0.
    TransferEncoding,
}

/// What [`parse`] found.
#[derive(Debug)]
pub enum Parsed {
    /// A whole head, and its length in bytes.
    Head(Response, usize),
    /// More bytes are needed.
    Partial,
}

/// Reads one head from the start of `buffer`, at most `limit` bytes long. `method` is the request's.
///
/// # Errors
/// The first thing that is wrong; the connection cannot be used further.
pub fn parse(buffer: &[u8], limit: usize, method: &str) -> Result<Parsed, BadResponse> {
    let _ = (buffer, limit, method);
    todo!()
}
