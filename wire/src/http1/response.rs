//! The parser of an origin's response heads, strict: an ambiguous head is a bad response.

#[cfg(test)]
mod tests;

use super::lines::{self, BadLines};
use crate::message::facts::{FieldCount, MessageFacts, length};
use crate::message::fields::{ADDED_BYTES, ADDED_LINES};
use crate::message::{BadResponse, Framing, HeadKind, MAX_FIELDS, ResponseHead, Version};
use larder_semantics::field::{Field, FieldList};
use std::mem::MaybeUninit;

/// The result of [`parse`].
#[derive(Debug)]
pub enum ParsedResponse {
    /// A complete head, and its length in bytes.
    Head(ResponseHead, usize),
    /// More bytes are needed.
    Partial,
}

/// Parses one head from the start of `buffer`, at most `limit` bytes long. `method` is the request's. Any number of equal
/// `Content-Length` values become one line (RFC 9112 §6.3).
///
/// # Errors
/// The first error; the connection cannot be used further. Detected as early as possible.
pub fn parse(buffer: &[u8], limit: usize, method: &str) -> Result<ParsedResponse, BadResponse> {
    const START: &[u8] = b"HTTP/1.";
    let window = &buffer[..buffer.len().min(limit)];
    if window.iter().zip(START).any(|(found, wanted)| found != wanted) {
        return Err(BadResponse::StatusLine);
    }
    let mut room = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    // Nearly every head is complete and well-formed: then it is parsed once.
    if let Ok(httparse::Status::Complete(end)) =
        parser.parse_response_with_uninit_headers(&mut raw, window, &mut room)
        && !lines::has_bare_feed(&window[..end])
    {
        return judge(&raw, &window[..end], method).map(|it| ParsedResponse::Head(it, end));
    }
    parse_oddly(buffer, limit, method)
}

/// Parses an incomplete or malformed head: line by line, so that each error is detected as early as possible and has its
/// own reason.
#[cold]
fn parse_oddly(buffer: &[u8], limit: usize, method: &str) -> Result<ParsedResponse, BadResponse> {
    let window = &buffer[..buffer.len().min(limit)];
    let lines = match lines::scan(window) {
        Ok(lines) => lines,
        Err(BadLines::BareLineFeed) => return Err(BadResponse::Field),
        Err(BadLines::TooMany) => return Err(BadResponse::TooManyFields),
    };
    match lines.end {
        Some(end) => read_head(&window[..end], method).map(|it| ParsedResponse::Head(it, end)),
        None if lines::invalid_byte(window) => Err(BadResponse::Field),
        None if buffer.len() < limit => Ok(ParsedResponse::Partial),
        None => Err(BadResponse::TooLarge),
    }
}

fn read_head(head: &[u8], method: &str) -> Result<ResponseHead, BadResponse> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Response::new(&mut []);
    match httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut raw, head, &mut room) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(BadResponse::Field),
        Err(error) => return Err(blame(error)),
    }
    judge(&raw, head, method)
}

/// The meaning of a head with well-formed lines.
fn judge(raw: &httparse::Response<'_, '_>, head: &[u8], method: &str) -> Result<ResponseHead, BadResponse> {
    let (Some(status @ 100..=599), Some(version)) = (raw.code, raw.version) else {
        return Err(BadResponse::StatusLine);
    };
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let facts: MessageFacts<'_> =
        raw.headers.iter().map(|it| Field { name: it.name, value: it.value }).collect();
    let declared = declared(raw.headers, &facts, version)?;
    let framing = framing(status, method, declared)?;
    // A bodiless response with a declared body leaves doubt whether bytes follow; a HEAD or 304 may have one.
    let in_doubt = status == 101
        || status == 204 && !matches!(declared, Declared::Nothing | Declared::Length(0))
        || method == "CONNECT" && status / 100 == 2;
    Ok(ResponseHead {
        status,
        version,
        fields: kept(head, raw.headers, &facts, declared),
        framing,
        keep_alive: facts.persists(version) && framing != Framing::Close && !in_doubt,
        kind: HeadKind::Response,
    })
}

fn blame(error: httparse::Error) -> BadResponse {
    use httparse::Error::{HeaderName, HeaderValue, NewLine, Status, Token, TooManyHeaders, Version};
    match error {
        HeaderName | HeaderValue | NewLine => BadResponse::Field,
        Status | Token | Version => BadResponse::StatusLine,
        TooManyHeaders => BadResponse::TooManyFields,
    }
}

/// The body that the head declares, whether or not there can be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

fn declared(
    fields: &[httparse::Header<'_>],
    facts: &MessageFacts<'_>,
    version: Version,
) -> Result<Declared, BadResponse> {
    match (facts.content_length, facts.transfer_encoding) {
        (FieldCount::Absent, FieldCount::Absent) => Ok(Declared::Nothing),
        (FieldCount::Absent, FieldCount::Once(value))
            if version == Version::Http11 && value.eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(Declared::Chunked)
        }
        (FieldCount::Absent, _) => Err(BadResponse::TransferEncoding),
        (_, FieldCount::Absent) => one_length(fields).map(Declared::Length).ok_or(BadResponse::Length),
        (_, _) => Err(BadResponse::Length),
    }
}

/// The one number on which every `Content-Length`, repeated or listed, agrees.
fn one_length(fields: &[httparse::Header<'_>]) -> Option<u64> {
    let mut values = fields
        .iter()
        .filter(|it| it.name.eq_ignore_ascii_case("content-length"))
        .flat_map(|it| it.value.split(|it| *it == b','))
        .map(|it| length(it.trim_ascii()));
    let first = values.next()??;
    values.all(|it| it == Some(first)).then_some(first)
}

/// RFC 9112 §6.3, in its order.
fn framing(status: u16, method: &str, declared: Declared) -> Result<Framing, BadResponse> {
    match (status, declared) {
        // Only the next head can follow an interim head: an origin that declares a body here means to send it.
        (100..=199, Declared::Chunked) => Err(BadResponse::TransferEncoding),
        (100..=199, Declared::Length(1..)) => Err(BadResponse::Length),
        (100..=199 | 204 | 304, _) => Ok(Framing::Empty),
        (200..=299, _) if method == "CONNECT" => Ok(Framing::Empty),
        _ if method == "HEAD" => Ok(Framing::Empty),
        (_, Declared::Nothing) => Ok(Framing::Close),
        (_, Declared::Chunked) => Ok(Framing::Chunked),
        (_, Declared::Length(0)) => Ok(Framing::Empty),
        (_, Declared::Length(length)) => Ok(Framing::Length(length)),
    }
}

/// The lines in order, with at most one plain `Content-Length`; with room for the lines that larder adds.
fn kept(
    head: &[u8],
    fields: &[httparse::Header<'_>],
    facts: &MessageFacts<'_>,
    declared: Declared,
) -> FieldList {
    let has_plain_length = match (declared, facts.content_length) {
        (Declared::Length(length), FieldCount::Once(value)) => {
            itoa::Buffer::new().format(length).as_bytes() == value
        }
        (Declared::Length(_), _) => false,
        (Declared::Nothing | Declared::Chunked, _) => true,
    };
    let lines = fields.iter().map(|it| Field { name: it.name, value: it.value });
    if has_plain_length && let Some(list) = FieldList::from_wire(head, lines, (ADDED_LINES, ADDED_BYTES)) {
        return list;
    }
    let bytes: usize = fields.iter().map(|it| it.name.len() + it.value.len() + 4).sum();
    let mut list = FieldList::with_capacity(fields.len() + ADDED_LINES, bytes + ADDED_BYTES);
    let mut seen = false;
    for it in fields {
        match declared {
            Declared::Length(length) if it.name.eq_ignore_ascii_case("content-length") => {
                if !seen {
                    list.push(it.name, itoa::Buffer::new().format(length));
                }
                seen = true;
            }
            _ => list.push(it.name, it.value),
        }
    }
    list
}
