//! The parser of the response head of a CGI, FastCGI, SCGI or uWSGI application (RFC 3875 §6): fields with `Status`, or a
//! status line as some uWSGI and SCGI servers send it. The framing by records is not here.

#[cfg(test)]
mod tests;

use crate::http1::response::ParsedResponse;
use crate::message::facts::length;
use crate::message::fields::{ADDED_BYTES, ADDED_LINES};
use crate::message::{BadResponse, Framing, HeadKind, MAX_FIELDS, ResponseHead, Version};
use larder_semantics::cgi::local_redirect;
use larder_semantics::field::{Field, FieldList, is_token};

/// Lines of most heads of applications, and their bytes: these have room without growing.
const USUAL_LINES: usize = 10;
const USUAL_BYTES: usize = 512;

/// Parses one head from the start of `buffer`, at most `limit` bytes long. `method` is the request's. Lines end with CRLF or
/// LF (RFC 3875 §6.3). A head with `Location` and without `Status` is a redirect with 302, one with neither is 200. The body
/// ends with the output of the application; where the head has `Content-Length`, it has this length as well.
///
/// # Errors
/// The first error: the response is invalid. `Transfer-Encoding` is one, since the output is the body itself (RFC 3875 §6.3.4).
pub fn parse(buffer: &[u8], limit: usize, method: &str) -> Result<ParsedResponse, BadResponse> {
    let window = &buffer[..buffer.len().min(limit)];
    let fields = FieldList::with_capacity(USUAL_LINES + ADDED_LINES, USUAL_BYTES + ADDED_BYTES);
    let mut head = RawHead { fields, ..RawHead::default() };
    let mut at = 0;
    for feed in memchr::memchr_iter(b'\n', window) {
        let line = &window[at..feed];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_first = at == 0;
        at = feed + 1;
        if line.is_empty() {
            if is_first {
                return Err(BadResponse::Field);
            }
            return head.finish(method).map(|it| ParsedResponse::Head(it, at));
        }
        head.line(line, is_first)?;
    }
    // An output that is no head at all is found before its end.
    if window[at..].contains(&0) {
        return Err(BadResponse::Field);
    }
    if buffer.len() < limit { Ok(ParsedResponse::Partial) } else { Err(BadResponse::TooLarge) }
}

/// The lines so far.
#[derive(Default)]
struct RawHead {
    status: Option<u16>,
    length: Option<u64>,
    is_redirect: bool,
    fields: FieldList,
    count: usize,
}

impl RawHead {
    fn line(&mut self, line: &[u8], is_first: bool) -> Result<(), BadResponse> {
        if is_first && let Some(rest) = line.strip_prefix(b"HTTP/1.") {
            let rest = rest.strip_prefix(b"0 ").or_else(|| rest.strip_prefix(b"1 "));
            self.status = Some(rest.and_then(status).ok_or(BadResponse::StatusLine)?);
            return Ok(());
        }
        let field = field(line).ok_or(BadResponse::Field)?;
        self.count += 1;
        if self.count > MAX_FIELDS {
            return Err(BadResponse::TooManyFields);
        }
        if field.is("status") {
            let found = status(field.value).ok_or(BadResponse::StatusLine)?;
            return match self.status.replace(found) {
                Some(other) if other != found => Err(BadResponse::StatusLine),
                _ => Ok(()),
            };
        }
        if field.is("transfer-encoding") {
            return Err(BadResponse::TransferEncoding);
        }
        if field.is("content-length") {
            let found = length(field.value).ok_or(BadResponse::Length)?;
            return match self.length.replace(found) {
                Some(other) if other != found => Err(BadResponse::Length),
                Some(_) => Ok(()),
                None => {
                    self.fields.push(field.name, itoa::Buffer::new().format(found));
                    Ok(())
                }
            };
        }
        self.is_redirect |= field.is("location");
        self.fields.push(field.name, field.value);
        Ok(())
    }

    fn finish(self, method: &str) -> Result<ResponseHead, BadResponse> {
        if self.status.is_none() && self.fields.is_empty() {
            return Err(BadResponse::Field);
        }
        let status = self.status.unwrap_or(if self.is_redirect { 302 } else { 200 });
        let framing = match (status, self.length) {
            (204 | 304, _) | (_, Some(0)) => Framing::Empty,
            _ if method == "HEAD" => Framing::Empty,
            (_, Some(length)) => Framing::Length(length),
            (_, None) => Framing::Close,
        };
        // The records of a connection, not the head, say whether it may be reused.
        let kind = match self.status {
            None if local_redirect(&self.fields).is_some() => HeadKind::LocalRedirect,
            _ => HeadKind::Response,
        };
        let (version, fields) = (Version::Http11, self.fields);
        Ok(ResponseHead { status, version, fields, framing, keep_alive: false, kind })
    }
}

/// `404 Not Found` or `404`: a final status. An application has no interim responses (RFC 3875 §6.3.3).
fn status(value: &[u8]) -> Option<u16> {
    let (digits, rest) = value.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) || !rest.first().is_none_or(|it| matches!(it, b' ' | b'\t')) {
        return None;
    }
    let code = digits.iter().fold(0, |sum, it| sum * 10 + u16::from(it - b'0'));
    (200..=599).contains(&code).then_some(code)
}

/// A line with a name and a value; none is folded.
fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = memchr::memchr(b':', line)?;
    let name = &line[..colon];
    let value = line[colon + 1..].trim_ascii();
    let is_plain = value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f);
    let name = std::str::from_utf8(name).ok().filter(|it| is_token(it.as_bytes()))?;
    is_plain.then_some(Field { name, value })
}
