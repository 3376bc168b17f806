//! The parser of request heads, strict: input that two parsers could interpret differently is rejected.

#[cfg(test)]
mod tests;

use super::lines::{self, BadLines};
use crate::message::facts::{FieldCount, MessageFacts, is_token_byte, length};
use crate::message::target::{self, SplitTarget};
use crate::message::{
    FieldStorage, Framing, HeadLimits, MAX_FIELDS, Reject, RequestHead, Version, expects_continue,
};
use larder_semantics::field::Field;
use larder_semantics::method::is_misspelt;
use larder_semantics::scheme::Scheme;
use std::mem::MaybeUninit;

/// The result of [`parse`].
#[derive(Debug)]
pub enum ParsedRequest<'a> {
    /// A complete head, and its length in bytes.
    Head(RequestHead<'a>, usize),
    /// More bytes are needed.
    Partial,
}

/// Parses one head from the start of `buffer`. At most one empty line before it is skipped (RFC 9112 §2.2), and counts as
/// part of the head. Allocates nothing.
///
/// # Errors
/// The first error; the connection cannot be used further. Detected as early as possible: a line end, a first
/// byte, or a length may be rejected while the head is still incomplete.
pub fn parse<'a, 'b: 'a>(
    buffer: &'b [u8],
    limits: &HeadLimits,
    storage: &'a mut FieldStorage<'b>,
) -> Result<ParsedRequest<'a>, Reject> {
    let window = &buffer[..buffer.len().min(limits.head)];
    let mut room = [const { MaybeUninit::<httparse::Header<'b>>::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    let whole = match raw.parse_with_uninit_headers(window, &mut room) {
        Ok(httparse::Status::Complete(end)) => Some(end),
        _ => None,
    };
    // Nearly every head is complete and well-formed: then it is parsed once.
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

/// The length of the first line of a head that the parser found complete, if it begins the head and has single spaces
/// only, without leading or trailing ones: the parser is more lenient.
fn plain_line(raw: &httparse::Request<'_, '_>, head: &[u8]) -> Option<usize> {
    let length = raw.method?.len() + raw.path?.len() + " ".len() * 2 + "HTTP/1.1".len();
    let begins_so = head.first().is_some_and(|it| !matches!(it, b'\r' | b'\n'));
    (begins_so && head.get(length..)?.starts_with(b"\r\n")).then_some(length)
}

/// Parses an incomplete or malformed head: line by line, so that each error is detected as early as possible and has its
/// own reason.
#[cold]
fn parse_oddly<'a, 'b: 'a>(
    buffer: &'b [u8],
    limits: &HeadLimits,
    storage: &'a mut FieldStorage<'b>,
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

/// Rejects a target over its limit, even before its end has arrived.
fn check_target_length(line: &[u8], limits: &HeadLimits) -> Result<(), Reject> {
    let Some(start) = memchr::memchr(b' ', line) else { return Ok(()) };
    let rest = &line[start + 1..];
    let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    if length > limits.target { Err(Reject::TargetTooLong) } else { Ok(()) }
}

/// Rejects an incomplete head that cannot become valid, so that larder does not wait for a peer with another protocol
/// (TLS, for example).
fn check_beginning(window: &[u8], first: Option<usize>) -> Result<(), Reject> {
    if first == Some(0) {
        return Err(Reject::RequestLine);
    }
    if lines::invalid_byte(window) {
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
    // HTTP/0.9 has no version, and no further lines.
    let is_whole = first.is_some();
    let version = line.splitn(3, |it| *it == b' ').nth(2);
    if is_whole && !version.is_some_and(|it| it.starts_with(b"HTTP/")) {
        return Err(Reject::RequestLine);
    }
    Ok(())
}

/// Parses a complete head, of which `line` is the first line.
fn read_head<'a, 'b: 'a>(
    head: &'b [u8],
    line: &'b [u8],
    scheme: Scheme,
    storage: &'a mut FieldStorage<'b>,
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

/// The meaning of a head with well-formed lines.
fn judge<'a, 'b: 'a>(
    raw: &httparse::Request<'_, 'b>,
    scheme: Scheme,
    storage: &'a mut FieldStorage<'b>,
) -> Result<RequestHead<'a>, Reject> {
    let (Some(method), Some(target), Some(version)) = (raw.method, raw.path, raw.version) else {
        return Err(Reject::RequestLine);
    };
    if is_misspelt(method) {
        return Err(Reject::MethodCase);
    }
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let fields = storage.fill(raw.headers.iter().map(|it| Field { name: it.name, value: it.value }));
    let facts: MessageFacts<'_> = fields.iter().copied().collect();
    let target = target::read(method, target, scheme)?;
    let authority = authority(&target, &facts, version)?;
    let framing = framing(&facts, version)?;
    Ok(RequestHead {
        method,
        scheme,
        target: target.target,
        authority,
        version,
        protocol: None,
        fields,
        framing,
        keep_alive: facts.persists(version) && method != "CONNECT",
        expects_continue: expects_continue(&facts, version)? && framing != Framing::Empty,
    })
}

/// The error for the parser's error. Cold: an invalid head is parsed again.
#[cold]
fn blame(error: httparse::Error, head: &[u8], line: &[u8]) -> Reject {
    if lines::invalid_byte(head) {
        return Reject::LineEnd;
    }
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Reject::Field,
        httparse::Error::TooManyHeaders => Reject::HeadTooLarge,
        // Every line end is valid, so a `NewLine` is extra text after the version.
        httparse::Error::Version
        | httparse::Error::Token
        | httparse::Error::Status
        | httparse::Error::NewLine => blame_line(line),
    }
}

/// The error in an invalid request line.
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

/// The authority of the request (RFC 9112 §3.2): the target's, otherwise `Host`. If both exist they must agree: RFC 9112
/// §3.2.2 lets a server ignore `Host`, but then two parsers may differ.
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

/// The framing of the body (RFC 9112 §6.3), strictly.
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

/// A `Transfer-Encoding` in one line. A list that ends in `chunked` is well framed, but has codings that are not decoded
/// here (RFC 9112 §6.1: 501); any other one has no end.
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
