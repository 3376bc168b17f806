//! A response: its head, and why one is refused.

use super::{Framing, Version};
use larder_semantics::field::FieldList;

/// A response head.
#[derive(Clone, Debug)]
pub struct ResponseHead {
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
    /// The status line is malformed, or its status no status (RFC 9110 §15: 100 to 599).
    StatusLine,
    /// A field line is malformed, or obs-folded.
    Field,
    /// The head has more bytes than its limit.
    TooLarge,
    /// It has more than [`super::MAX_FIELDS`] field lines.
    TooManyFields,
    /// `Content-Length` is invalid or contradicts itself, or stands beside `Transfer-Encoding`.
    Length,
    /// A transfer coding that we do not know, or `chunked` not last, or in HTTP/1.0.
    TransferEncoding,
}
