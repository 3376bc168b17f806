//! The head of a request, read strictly: anything that two parsers could read differently is refused.

use super::{Framing, Version};
use larder_semantics::field::{Field, FieldList};

/// Bounds of a request head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole head (`limits.head_size`).
    pub head: usize,
    /// Bytes of the request target (`limits.target_size`).
    pub target: usize,
}

/// A request head, borrowed from the read buffer.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// A token, case-sensitive.
    pub method: &'a str,
    /// Origin-form (`/path?query`), `*` for OPTIONS, or authority-form for CONNECT. Absolute-form has been
    /// taken apart: its authority is in `authority`. Never empty; the fragment is refused.
    pub target: &'a str,
    /// The host, and port if given, exactly as sent; validated characters only. Empty only for HTTP/1.0
    /// without Host (and for an empty Host field).
    pub authority: &'a str,
    /// 1.0 or 1.1.
    pub version: Version,
    /// Every field line in order, `Host` and framing fields included.
    pub fields: &'a [Field<'a>],
    /// Where the body ends.
    pub framing: Framing,
    /// Whether the client lets the connection live on (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// `Expect: 100-continue` from an HTTP/1.1 client with a body.
    pub expects_continue: bool,
}

/// Why a head was refused. Each has a status and one sentence for the error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The request line is not `method SP target SP version` (400).
    RequestLine,
    /// A version that is not 1.x (505).
    Version,
    /// The target is longer than the limit (414).
    TargetTooLong,
    /// The target is no valid origin-, absolute-, authority- or asterisk-form (400).
    Target,
    /// The head is over its limit, or has more than [`super::MAX_FIELDS`] lines (431).
    HeadTooLarge,
    /// A field line is malformed: bad name, space before the colon, obs-fold, control character (400).
    Field,
    /// A bare CR, bare LF or NUL (400).
    LineEnd,
    /// `Host` is missing (1.1), repeated, or invalid (400).
    Host,
    /// The absolute-form's authority is not `Host`'s (400).
    HostMismatch,
    /// `Content-Length` is not one plain number below 2^63 (400).
    ContentLength,
    /// Both `Content-Length` and `Transfer-Encoding` (400).
    BothLengths,
    /// A `Transfer-Encoding` other than a single `chunked`, or one in HTTP/1.0 (501 for an unknown coding,
    /// else 400).
    TransferEncoding,
    /// As before, but a coding that we do not know (501).
    UnknownCoding,
    /// `Expect` other than `100-continue` (417).
    Expectation,
}

impl Reject {
    /// The status code to answer with.
    #[must_use]
    pub fn status(self) -> u16 {
        todo!()
    }

    /// One sentence: what was wrong.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        todo!()
    }
}

/// What [`parse`] found.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// A whole head, and its length in bytes.
    Head(RequestHead<'a>, usize),
    /// More bytes are needed.
    Partial,
}

/// Room for the field lines of one head; reused from request to request.
pub struct Storage<'a> {
    /// Filled by [`parse`].
    pub fields: [Field<'a>; super::MAX_FIELDS],
}

/// Reads one head from the start of `buffer`. At most one empty line before it is skipped (RFC 9112 §2.2).
///
/// # Errors
/// The first thing that is wrong; the connection cannot be used further.
pub fn parse<'a>(
    buffer: &'a [u8],
    limits: &Limits,
    storage: &'a mut Vec<Field<'a>>,
) -> Result<Parsed<'a>, Reject> {
    let _ = (buffer, limits, storage);
    todo!()
}

/// A request head that is kept while the request is worked on.
#[derive(Clone, Debug)]
pub struct Request {
    /// See [`RequestHead`].
    pub method: String,
    /// Origin-form, `*`, or authority-form.
    pub target: String,
    /// As sent.
    pub authority: String,
    /// 1.0 or 1.1.
    pub version: Version,
    /// Every field line in order.
    pub fields: FieldList,
    /// Where the body ends.
    pub framing: Framing,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
}

impl RequestHead<'_> {
    /// A copy that outlives the read buffer.
    #[must_use]
    pub fn to_owned(&self) -> Request {
        Request {
            method: self.method.to_owned(),
            target: self.target.to_owned(),
            authority: self.authority.to_owned(),
            version: self.version,
            fields: FieldList::from_fields(self.fields),
            framing: self.framing,
            expects_continue: self.expects_continue,
        }
    }
}
