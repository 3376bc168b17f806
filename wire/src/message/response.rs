//! A response: its head, and the reasons for rejection.

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
    /// The end of the body, given the request's method (RFC 9112 §6.3).
    pub framing: Framing,
    /// Whether the connection may be reused after the body.
    pub keep_alive: bool,
    /// Its meaning.
    pub kind: HeadKind,
}

/// The meaning of a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// A response of the server that was asked.
    Response,
    /// A CGI program has no response, but names the target of another request to this server, in `Location` (RFC 3875 §6.2.2).
    LocalRedirect,
    /// An error page of larder in place of a response: no script or program has the path.
    OwnPage,
}

impl ResponseHead {
    /// Whether it names the target of another request to this server.
    #[must_use]
    pub fn is_local_redirect(&self) -> bool {
        self.kind == HeadKind::LocalRedirect
    }
}

/// The reason for rejecting a response head; all are 502 for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// The status line is malformed, or its status invalid (RFC 9110 §15: 100 to 599).
    StatusLine,
    /// A field line is malformed, or obs-folded.
    Field,
    /// The head has more bytes than its limit.
    TooLarge,
    /// It has more than [`super::MAX_FIELDS`] field lines.
    TooManyFields,
    /// `Content-Length` is invalid or contradictory, or occurs together with `Transfer-Encoding`.
    Length,
    /// An unknown transfer coding, or `chunked` not last, or in HTTP/1.0.
    TransferEncoding,
}
