//! A request: its head borrowed from a buffer, its owned head, and the reasons for rejection.

use super::facts::{FieldCount, MessageFacts};
use super::{Framing, MAX_FIELDS, Version};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::scheme::Scheme;
use std::mem::MaybeUninit;

/// The limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the whole head (`limits.head_size`).
    pub head: usize,
    /// Bytes of the request target (`limits.target_size`).
    pub target: usize,
    /// The scheme of the connection: no field of the client changes it.
    pub scheme: Scheme,
}

/// A request head, borrowed from the read buffer.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// A token, case-sensitive.
    pub method: &'a str,
    /// The scheme of the connection.
    pub scheme: Scheme,
    /// Origin-form (`/path?query`), `*` for OPTIONS, or authority-form for CONNECT. Absolute-form has been split: its
    /// authority is in `authority`. Never empty; a fragment is rejected. As received: it may have bytes that no URI has
    /// (RFC 3986 §3.3, §3.4), as browsers send some in queries.
    pub target: &'a str,
    /// The host, and port if given, exactly as received; validated characters only. Empty only for HTTP/1.0 without Host:
    /// an empty Host field is rejected, since it names no server (RFC 9110 §4.2.1).
    pub authority: &'a str,
    /// 1.0 or 1.1.
    pub version: Version,
    /// The protocol of an extended CONNECT over HTTP/2 (RFC 8441 §4), a token. The other fields are those of the
    /// corresponding GET with an HTTP/1.1 upgrade; the data on its stream are not a body.
    pub protocol: Option<&'a str>,
    /// Every field line in order, `Host` and framing fields included.
    pub fields: &'a [Field<'a>],
    /// The end of the body.
    pub framing: Framing,
    /// Whether the client permits keeping the connection (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// `Expect: 100-continue` from an HTTP/1.1 client with a body.
    pub expects_continue: bool,
}

/// The reason for rejecting a head. Each has a status and one sentence for the error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The request line is not `method SP target SP version` (400).
    RequestLine,
    /// A version that is not 1.x (505).
    Version,
    /// The target is longer than the limit (414).
    TargetTooLong,
    /// The target is not a valid origin-, absolute-, authority- or asterisk-form (400).
    Target,
    /// The head is over its limit, or has more than [`MAX_FIELDS`] lines (431).
    HeadTooLarge,
    /// A field line is malformed: bad name, space before the colon, obs-fold, control character (400).
    Field,
    /// A bare CR, bare LF or NUL (400).
    LineEnd,
    /// `Host` is missing (1.1), repeated, or invalid (400).
    Host,
    /// An `https` address over a clear-text connection (421, RFC 9110 §7.4).
    NotSecured,
    /// An `http` address over a TLS connection (421).
    Secured,
    /// The absolute-form's authority differs from `Host` (400).
    HostMismatch,
    /// `Content-Length` is not one plain number below 2^63 (400).
    ContentLength,
    /// Both `Content-Length` and `Transfer-Encoding` (400).
    BothLengths,
    /// A `Transfer-Encoding` other than a single `chunked`, or one in HTTP/1.0 (501 for an unknown coding, otherwise
    /// 400).
    TransferEncoding,
    /// As before, with an unknown coding (501).
    UnknownCoding,
    /// A known method in another case, such as `get` (501): methods are case-sensitive (RFC 9110 §9.1).
    MethodCase,
    /// `Expect` other than `100-continue` (417).
    Expectation,
    /// A pseudo-field of HTTP/2 is missing, repeated, unknown, out of place or invalid (400).
    Pseudo,
    /// HTTP/2 with a connection field of HTTP/1.1 (400).
    ConnectionField,
}

impl Reject {
    /// The status code of the response.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Reject::Version => 505,
            Reject::TargetTooLong => 414,
            Reject::HeadTooLarge => 431,
            Reject::UnknownCoding | Reject::MethodCase => 501,
            Reject::Expectation => 417,
            Reject::NotSecured | Reject::Secured => 421,
            Reject::RequestLine
            | Reject::Target
            | Reject::Field
            | Reject::LineEnd
            | Reject::Host
            | Reject::HostMismatch
            | Reject::ContentLength
            | Reject::BothLengths
            | Reject::TransferEncoding
            | Reject::Pseudo
            | Reject::ConnectionField => 400,
        }
    }

    /// One sentence with the error.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Reject::RequestLine => "The request line is not a method, a target and a version.",
            Reject::Version => "Only HTTP/1.0 and HTTP/1.1 are supported on this connection.",
            Reject::TargetTooLong => "The request target is too long.",
            Reject::Target => "The request target is not valid.",
            Reject::HeadTooLarge => "The request head is too large, or has more than 128 fields.",
            Reject::Field => "A header field is malformed.",
            Reject::LineEnd => {
                "A line of the request head does not end with CRLF, or holds a control character."
            }
            Reject::Host => "The Host field is missing, repeated or not valid.",
            Reject::NotSecured => "The request target is an https URL, but the connection is not encrypted.",
            Reject::Secured => "The request target is an http URL, but the connection is encrypted.",
            Reject::HostMismatch => "The Host field does not match the request target.",
            Reject::ContentLength => "The Content-Length is not a single decimal number.",
            Reject::BothLengths => "The request has both Content-Length and Transfer-Encoding.",
            Reject::TransferEncoding => {
                "The Transfer-Encoding is not exactly chunked, or is not allowed here."
            }
            Reject::UnknownCoding => "The transfer coding is not supported.",
            Reject::MethodCase => "The method is unknown: methods are written in capital letters.",
            Reject::Pseudo => "A pseudo-field of the request is missing, repeated, unknown or not valid.",
            Reject::ConnectionField => "The request has a connection-specific field, which HTTP/2 forbids.",
            Reject::Expectation => "The Expect field has a value other than 100-continue.",
        }
    }
}

/// An owned request head, kept while the request is processed.
#[derive(Clone, Debug)]
pub struct Request {
    /// See [`RequestHead`].
    pub method: String,
    /// The scheme of the connection.
    pub scheme: Scheme,
    /// Origin-form, `*`, or authority-form, as received.
    pub target: String,
    /// As received.
    pub authority: String,
    /// 1.0 or 1.1.
    pub version: Version,
    /// See [`RequestHead`].
    pub protocol: Option<Box<str>>,
    /// Every field line in order.
    pub fields: FieldList,
    /// The end of the body.
    pub framing: Framing,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
}

impl Request {
    /// The head of a request that is kept, whose `fields` are a view of its own.
    #[must_use]
    pub fn head<'a>(&'a self, fields: &'a [Field<'a>]) -> RequestHead<'a> {
        RequestHead {
            method: &self.method,
            scheme: self.scheme,
            target: &self.target,
            authority: &self.authority,
            version: self.version,
            protocol: self.protocol.as_deref(),
            fields,
            framing: self.framing,
            keep_alive: false, // Its connection knows.
            expects_continue: self.expects_continue,
        }
    }
}

impl RequestHead<'_> {
    /// A copy that outlives the read buffer.
    #[must_use]
    pub fn to_owned(&self) -> Request {
        Request {
            method: self.method.to_owned(),
            scheme: self.scheme,
            target: self.target.to_owned(),
            authority: self.authority.to_owned(),
            version: self.version,
            protocol: self.protocol.map(Into::into),
            fields: FieldList::from_fields(self.fields),
            framing: self.framing,
            expects_continue: self.expects_continue,
        }
    }
}

/// FieldStorage for the field lines of one head, on the caller's stack. Creating it costs nothing: use a new one for each
/// head.
pub struct FieldStorage<'a> {
    fields: [MaybeUninit<Field<'a>>; MAX_FIELDS],
}

impl<'a> FieldStorage<'a> {
    /// Empty storage.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { fields: [const { MaybeUninit::uninit() }; MAX_FIELDS] }
    }

    /// Appends fields after the first `count`; returns the new count. Fields beyond [`MAX_FIELDS`] are dropped.
    pub(crate) fn extend(&mut self, count: usize, fields: impl Iterator<Item = Field<'a>>) -> usize {
        let room = self.fields.get_mut(count..).unwrap_or_default();
        room.iter_mut().zip(fields).fold(count, |count, (room, field)| {
            room.write(field);
            count + 1
        })
    }

    /// The first `count` fields, from [`FieldStorage::extend`].
    pub(crate) fn view(&self, count: usize) -> &[Field<'a>] {
        // SAFETY: see below; no more is returned than was written.
        unsafe { std::slice::from_raw_parts(self.fields.as_ptr().cast(), count.min(MAX_FIELDS)) }
    }

    /// Stores `fields`, of which there are at most [`MAX_FIELDS`]; further ones are dropped.
    #[inline]
    pub(crate) fn fill(&mut self, fields: impl Iterator<Item = Field<'a>>) -> &[Field<'a>] {
        let mut count = 0;
        for (room, field) in self.fields.iter_mut().zip(fields) {
            room.write(field);
            count += 1;
        }
        // SAFETY: the first `count` elements were written just above, and `MaybeUninit<T>` is laid out as `T`.
        unsafe { std::slice::from_raw_parts(self.fields.as_ptr().cast(), count) }
    }
}

impl Default for FieldStorage<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the client waits for `100 Continue` (RFC 9110 §10.1.1); HTTP/1.0 does not support it.
pub(crate) fn expects_continue(facts: &MessageFacts<'_>, version: Version) -> Result<bool, Reject> {
    match facts.expect {
        _ if version == Version::Http10 => Ok(false),
        FieldCount::Absent => Ok(false),
        FieldCount::Once(it) | FieldCount::Same(it) if it.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        _ => Err(Reject::Expectation),
    }
}
