//! The head of a request, read strictly: anything that two parsers could read differently is refused.

pub(crate) mod target;
#[cfg(test)]
mod tests;

use super::facts::{FieldCount, MessageFacts, is_token_byte, length};
use super::lines::{self, BadLines};
use super::{Framing, MAX_FIELDS, Version};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::scheme::Scheme;
use larder_semantics::target::{encoded, needs_encoding};
use std::mem::MaybeUninit;
use target::SplitTarget;
pub use target::is_authority;

/// Bounds of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the whole head (`limits.head_size`).
    pub head: usize,
    /// Bytes of the request target (`limits.target_size`).
    pub target: usize,
    /// How the connection came on which the head is read: no client's word changes that.
    pub scheme: Scheme,
}

/// A request head, borrowed from the read buffer.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// A token, case-sensitive.
    pub method: &'a str,
    /// That of the connection.
    pub scheme: Scheme,
    /// Origin-form (`/path?query`), `*` for OPTIONS, or authority-form for CONNECT. Absolute-form has been
    /// taken apart: its authority is in `authority`. Never empty; the fragment is refused. As sent: where it has
    /// bytes that no URI may have, [`RequestHead::needs_encoding`] is set and [`Request::target`] is what counts.
    pub target: &'a str,
    /// The target has bytes that no URI may have (RFC 3986 §3.3, §3.4), as some browsers send them in queries.
    pub needs_encoding: bool,
    /// The host, and port if given, exactly as sent; validated characters only. Empty only for HTTP/1.0
    /// without Host: an empty Host field is refused, since it names no server (RFC 9110 §4.2.1).
    pub authority: &'a str,
    /// 1.0 or 1.1.
    pub version: Version,
    /// The protocol that an extended CONNECT of HTTP/2 asks for (RFC 8441 §4), a token. The rest is that of the GET with
    /// which HTTP/1.1 asks for an upgrade; what follows on its stream is no body.
    pub protocol: Option<&'a str>,
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
    /// An `https` address over a connection that is not encrypted (421, RFC 9110 §7.4).
    NotSecured,
    /// An `http` address over a connection that is encrypted (421).
    Secured,
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
    /// A pseudo-field of HTTP/2 is missing, repeated, unknown, out of place or not valid (400).
    Pseudo,
    /// HTTP/2 with a field that speaks of an HTTP/1.1 connection (400).
    ConnectionField,
}

impl Reject {
    /// The status code to answer with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Reject::Version => 505,
            Reject::TargetTooLong => 414,
            Reject::HeadTooLarge => 431,
            Reject::UnknownCoding => 501,
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

    /// One sentence: what was wrong.
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
            Reject::Pseudo => "A pseudo-field of the request is missing, repeated, unknown or not valid.",
            Reject::ConnectionField => "The request has a connection-specific field, which HTTP/2 forbids.",
            Reject::Expectation => "The Expect field has a value other than 100-continue.",
        }
    }
}

/// What [`parse`] found.
#[derive(Debug)]
pub enum ParsedRequest<'a> {
    /// A whole head, and its length in bytes.
    Head(RequestHead<'a>, usize),
    /// More bytes are needed.
    Partial,
}

/// Room for the field lines of one head, on the caller's stack. Making one costs nothing: make a new one for
/// each call of [`parse`].
pub struct Storage<'a> {
    fields: [MaybeUninit<Field<'a>>; MAX_FIELDS],
}

impl<'a> Storage<'a> {
    /// Empty room.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { fields: [const { MaybeUninit::uninit() }; MAX_FIELDS] }
    }

    /// Puts fields behind the first `count`; how many there are then. Any above [`MAX_FIELDS`] are left out.
    pub(crate) fn extend(&mut self, count: usize, fields: impl Iterator<Item = Field<'a>>) -> usize {
        let room = self.fields.get_mut(count..).unwrap_or_default();
        room.iter_mut().zip(fields).fold(count, |count, (room, field)| {
            room.write(field);
            count + 1
        })
    }

    /// The first `count` fields, which [`Storage::extend`] put here.
    pub(crate) fn view(&self, count: usize) -> &[Field<'a>] {
        // SAFETY: see below; nothing is told of more than was written.
        unsafe { std::slice::from_raw_parts(self.fields.as_ptr().cast(), count.min(MAX_FIELDS)) }
    }

    /// Keeps `lines`, of which there are at most [`MAX_FIELDS`]; any that are over are left out.
    fn fill(&mut self, lines: &[httparse::Header<'a>]) -> &[Field<'a>] {
        let mut count = 0;
        for (room, line) in self.fields.iter_mut().zip(lines) {
            room.write(Field { name: line.name, value: line.value });
            count += 1;
        }
        // SAFETY: the first `count` elements were written just above, and `MaybeUninit<T>` is laid out as `T`.
        unsafe { std::slice::from_raw_parts(self.fields.as_ptr().cast(), count) }
    }
}

impl Default for Storage<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads one head from the start of `buffer`. At most one empty line before it is skipped (RFC 9112 §2.2),
/// and counts as part of the head. Allocates nothing.
///
/// # Errors
/// The first thing that is wrong; the connection cannot be used further. Found as early as it can be: a line
/// end, a first byte, or a length may be refused while the head is still incomplete.
pub fn parse<'a, 'b: 'a>(
    buffer: &'b [u8],
    limits: &HeadLimits,
    storage: &'a mut Storage<'b>,
) -> Result<ParsedRequest<'a>, Reject> {
    let window = &buffer[..buffer.len().min(limits.head)];
    let mut room = [const { MaybeUninit::<httparse::Header<'b>>::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    let whole = match raw.parse_with_uninit_headers(window, &mut room) {
        Ok(httparse::Status::Complete(end)) => Some(end),
        _ => None,
    };
    // Nearly every head is whole and in order: then it is looked at once.
    if let Some(end) = whole
        && let Some(line) = plain_line(&raw, &window[..end])
        && !lines::has_bare_feed(&window[..end])
    {
        if line > limits.target {
            check_target_length(&window[..line], limits)?;
        }
        return judge(&raw, limits.scheme, storage).map(|it| ParsedRequest::Head(it, end));
    }
    parse_oddly(buffer, limits, storage)
}

/// The length of the first line of a head that the parser found whole, where the head begins with it and it has one space each, nothing
/// before and nothing behind: the parser is milder.
fn plain_line(raw: &httparse::Request<'_, '_>, head: &[u8]) -> Option<usize> {
    let length = raw.method?.len() + raw.path?.len() + " ".len() * 2 + "HTTP/1.1".len();
    let begins_so = head.first().is_some_and(|it| !matches!(it, b'\r' | b'\n'));
    (begins_so && head.get(length..)?.starts_with(b"\r\n")).then_some(length)
}

/// Reads what is not whole or not in order: line by line, so that each fault is found as early as it can be and has its own reason.
#[cold]
fn parse_oddly<'a, 'b: 'a>(
    buffer: &'b [u8],
    limits: &HeadLimits,
    storage: &'a mut Storage<'b>,
) -> Result<ParsedRequest<'a>, Reject> {
    let window = &buffer[..buffer.len().min(limits.head)];
    let skipped = if window.starts_with(b"\r\n") { 2 } else { 0 };
    let window = &window[skipped..];
    let lines = match lines::scan(window) {
        Ok(lines) => lines,
        Err(BadLines::BareLineFeed) => return Err(Reject::LineEnd),
        Err(BadLines::TooMany) => return Err(Reject::HeadTooLarge),
    };
    let line = &window[..lines.first.unwrap_or(window.len())];
    if line.len() > limits.target {
        check_target_length(line, limits)?;
    }
    let Some(end) = lines.end else {
        check_beginning(window, lines.first)?;
        return if buffer.len() < limits.head {
            Ok(ParsedRequest::Partial)
        } else {
            Err(Reject::HeadTooLarge)
        };
    };
    read_head(&window[..end], line, limits.scheme, storage).map(|it| ParsedRequest::Head(it, skipped + end))
}

/// Refuses a target that is over its limit, even before its end has arrived.
fn check_target_length(line: &[u8], limits: &HeadLimits) -> Result<(), Reject> {
    let Some(start) = memchr::memchr(b' ', line) else { return Ok(()) };
    let rest = &line[start + 1..];
    let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    if length > limits.target { Err(Reject::TargetTooLong) } else { Ok(()) }
}

/// Refuses what can only be wrong although the head is incomplete, so that a peer which speaks something
/// else (TLS, say) is not waited for.
fn check_beginning(window: &[u8], first: Option<usize>) -> Result<(), Reject> {
    if first == Some(0) {
        return Err(Reject::RequestLine);
    }
    if lines::odd_byte(window) {
        return Err(Reject::LineEnd);
    }
    let line = &window[..first.unwrap_or(window.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let method = line.split(|it| *it == b' ').next().unwrap_or_default();
    if !method.iter().all(|it| is_token_byte(*it)) || (method.is_empty() && !line.is_empty()) {
        return Err(Reject::RequestLine);
    }
    if line.iter().any(|it| !(b' '..0x7f).contains(it)) {
        return Err(Reject::Target);
    }
    // HTTP/0.9 has no version, and no more lines.
    let is_whole = first.is_some();
    let version = line.splitn(3, |it| *it == b' ').nth(2);
    if is_whole && !version.is_some_and(|it| it.starts_with(b"HTTP/")) {
        return Err(Reject::RequestLine);
    }
    Ok(())
}

/// Reads a whole head, of which `line` is the first line.
fn read_head<'a, 'b: 'a>(
    head: &'b [u8],
    line: &'b [u8],
    scheme: Scheme,
    storage: &'a mut Storage<'b>,
) -> Result<RequestHead<'a>, Reject> {
    let mut room = [const { MaybeUninit::<httparse::Header<'b>>::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    match raw.parse_with_uninit_headers(head, &mut room) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(Reject::Field),
        Err(error) => return Err(blame(error, head, line)),
    }
    if plain_line(&raw, head) != Some(line.len()) {
        return Err(Reject::RequestLine);
    }
    judge(&raw, scheme, storage)
}

/// What a head says whose lines are in order.
fn judge<'a, 'b: 'a>(
    raw: &httparse::Request<'_, 'b>,
    scheme: Scheme,
    storage: &'a mut Storage<'b>,
) -> Result<RequestHead<'a>, Reject> {
    let (Some(method), Some(target), Some(version)) = (raw.method, raw.path, raw.version) else {
        return Err(Reject::RequestLine);
    };
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let fields = storage.fill(raw.headers);
    let facts: MessageFacts<'_> = fields.iter().copied().collect();
    let target = target::read(method, target, scheme)?;
    let authority = authority(&target, &facts, version)?;
    let framing = framing(&facts, version)?;
    Ok(RequestHead {
        method,
        scheme,
        target: target.target,
        needs_encoding: method != "CONNECT" && needs_encoding(target.target),
        authority,
        version,
        protocol: None,
        fields,
        framing,
        keep_alive: facts.persists(version) && method != "CONNECT",
        expects_continue: expects_continue(&facts, version)? && framing != Framing::Empty,
    })
}

/// Which of our reasons the parser's error is. Cold: a bad head is looked at again.
#[cold]
fn blame(error: httparse::Error, head: &[u8], line: &[u8]) -> Reject {
    if lines::odd_byte(head) {
        return Reject::LineEnd;
    }
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Reject::Field,
        httparse::Error::TooManyHeaders => Reject::HeadTooLarge,
        // No line ends oddly, so a `NewLine` is something behind the version.
        httparse::Error::Version
        | httparse::Error::Token
        | httparse::Error::Status
        | httparse::Error::NewLine => blame_line(line),
    }
}

/// What is wrong with a request line in which something is.
fn blame_line(line: &[u8]) -> Reject {
    let mut words = line.split(|it| *it == b' ');
    let (Some(method @ [_, ..]), Some([_, ..]), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Reject::RequestLine;
    };
    if !method.iter().all(|it| is_token_byte(*it)) {
        return Reject::RequestLine;
    }
    match version {
        b"HTTP/1.0" | b"HTTP/1.1" => Reject::Target,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Reject::Version,
        _ => Reject::RequestLine,
    }
}

/// The authority that the request is for (RFC 9112 §3.2): the target's, else `Host`. Where both are there
/// they must agree: RFC 9112 §3.2.2 lets a server ignore `Host`, but then two parsers may differ.
fn authority<'b>(
    target: &SplitTarget<'b>,
    facts: &MessageFacts<'b>,
    version: Version,
) -> Result<&'b str, Reject> {
    let host = match facts.host {
        FieldCount::Once(host) => Some(host),
        FieldCount::Absent if version == Version::Http10 => None,
        _ => return Err(Reject::Host),
    };
    let host = match host {
        None => None,
        Some(it) => Some(target::authority(it).ok_or(Reject::Host)?),
    };
    match (target.authority, host) {
        (None, host) => Ok(host.unwrap_or_default()),
        (Some((authority, _)), None) => Ok(authority),
        (Some((authority, port)), Some(host)) => {
            match target::is_same(authority.as_bytes(), host.as_bytes(), port) {
                true => Ok(authority),
                false => Err(Reject::HostMismatch),
            }
        }
    }
}

/// Where the body ends (RFC 9112 §6.3), with nothing forgiven.
fn framing(facts: &MessageFacts<'_>, version: Version) -> Result<Framing, Reject> {
    match (facts.content_length, facts.transfer_encoding) {
        (FieldCount::Absent, FieldCount::Absent) => Ok(Framing::Empty),
        (FieldCount::Once(value), FieldCount::Absent) => match length(value) {
            None => Err(Reject::ContentLength),
            Some(0) => Ok(Framing::Empty),
            Some(length) => Ok(Framing::Length(length)),
        },
        (_, FieldCount::Absent) => Err(Reject::ContentLength),
        (FieldCount::Absent, FieldCount::Once(value)) if version == Version::Http11 => coding(value),
        (FieldCount::Absent, _) => Err(Reject::TransferEncoding),
        (_, _) => Err(Reject::BothLengths),
    }
}

/// A `Transfer-Encoding` in one line. A list that ends in `chunked` is well framed, but in codings that are
/// not decoded here (RFC 9112 §6.1: 501); one that does not has no end.
fn coding(value: &[u8]) -> Result<Framing, Reject> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(Framing::Chunked);
    }
    let mut codings = value.split(|it| *it == b',').map(<[u8]>::trim_ascii).rev();
    let last = codings.next().is_some_and(|it| it.eq_ignore_ascii_case(b"chunked"));
    let known = |it: &[u8]| {
        it.is_empty() || it.eq_ignore_ascii_case(b"chunked") || !it.iter().all(|it| is_token_byte(*it))
    };
    if last && !codings.any(known) { Err(Reject::UnknownCoding) } else { Err(Reject::TransferEncoding) }
}

/// Whether the client waits for `100 Continue` (RFC 9110 §10.1.1); HTTP/1.0 cannot.
pub(crate) fn expects_continue(facts: &MessageFacts<'_>, version: Version) -> Result<bool, Reject> {
    match facts.expect {
        _ if version == Version::Http10 => Ok(false),
        FieldCount::Absent => Ok(false),
        FieldCount::Once(it) | FieldCount::Same(it) if it.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        _ => Err(Reject::Expectation),
    }
}

/// A request head that is kept while the request is worked on.
#[derive(Clone, Debug)]
pub struct Request {
    /// See [`RequestHead`].
    pub method: String,
    /// That of the connection.
    pub scheme: Scheme,
    /// Origin-form, `*`, or authority-form; strict: what no URI may have is percent-encoded.
    pub target: String,
    /// As sent.
    pub authority: String,
    /// 1.0 or 1.1.
    pub version: Version,
    /// See [`RequestHead`].
    pub protocol: Option<Box<str>>,
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
            scheme: self.scheme,
            target: if self.needs_encoding { encoded(self.target) } else { self.target.to_owned() },
            authority: self.authority.to_owned(),
            version: self.version,
            protocol: self.protocol.map(Into::into),
            fields: FieldList::from_fields(self.fields),
            framing: self.framing,
            expects_continue: self.expects_continue,
        }
    }
}
