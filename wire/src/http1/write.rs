//! Heads as bytes: always made anew from what was understood, never copied.

#[cfg(test)]
mod tests;

use super::facts::is_token_byte;
use larder_semantics::field::{Field, FieldList};

/// Appends `HTTP/1.1 200 OK\r\n`. An unknown code has an empty reason. `status` has three digits.
pub fn status_line(status: u16, out: &mut Vec<u8>) {
    let whole: &[u8] = match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        206 => b"HTTP/1.1 206 Partial Content\r\n",
        301 => b"HTTP/1.1 301 Moved Permanently\r\n",
        302 => b"HTTP/1.1 302 Found\r\n",
        304 => b"HTTP/1.1 304 Not Modified\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        _ => return any_status_line(status, out),
    };
    out.extend_from_slice(whole);
}

fn any_status_line(status: u16, out: &mut Vec<u8>) {
    debug_assert!((100..=999).contains(&status), "a status has three digits");
    let digit = |unit: u16| b'0' + u8::try_from(status / unit % 10).unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends `GET /path HTTP/1.1\r\n`. The caller has a token and a valid target; what cannot stand in them is
/// left out of the one and percent-encoded in the other, so that a bug elsewhere cannot split a request.
pub fn request_line(method: &str, target: &str, out: &mut Vec<u8>) {
    out.extend(method.bytes().filter(|it| is_token_byte(*it)));
    out.push(b' ');
    if target.bytes().all(|it| matches!(it, 0x21..=0x7e)) {
        out.extend_from_slice(target.as_bytes());
    } else {
        for it in target.bytes() {
            match it {
                0x21..=0x7e => out.push(it),
                _ => out.extend_from_slice(&[b'%', hex(it >> 4), hex(it & 15)]),
            }
        }
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'A' + digit - 10 }
}

/// Appends `Name: value\r\n`. The caller has a valid name and value; CR, LF and NUL in the value are written
/// as spaces, so that a bug elsewhere cannot split a message.
pub fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        for it in &mut out[start..] {
            if matches!(*it, b'\r' | b'\n' | 0) {
                *it = b' ';
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The reason phrase of RFC 9110 §15 or of another registered code, or nothing.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => reason_of_error(status),
    }
}

fn reason_of_error(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Whether a field is hop-by-hop by its name (RFC 9110 §7.6.1, and those of a proxy's own authentication,
/// §11.7): never forwarded, never stored. Fields that `Connection` names are so too: see
/// [`strip_hop_by_hop`].
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    // Most names have another length and need no comparison.
    matches!(name.len(), 2 | 7 | 10 | 14 | 16..=19 | 25)
        && NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// A copy of `fields` as the next hop may see them: without hop-by-hop fields, without those that `Connection`
/// nominates (RFC 9110 §7.6.1), and without `Content-Length`, since framing is made anew.
///
/// A nomination takes effect for every field but those of [`is_never_nominated`]. The caller decides by the
/// fields that are left, for the key and `Vary` above all: what was dropped, the origin does not see.
/// A name that only an underscore tells from one that is framing, hop-by-hop or a proxy's is dropped too
/// (`Transfer_Encoding`, `X_Forwarded_For`): behind CGI and its kin (RFC 3875 §4.1.18) they are one.
#[must_use]
pub fn strip_hop_by_hop(fields: &[Field<'_>]) -> FieldList {
    let mut kept = FieldList::with_room_for(fields, ROOM);
    strip_hop_by_hop_into(fields.iter().copied(), |_| true, &mut kept);
    kept
}

/// Bytes that are added to a head on its way: `Via`, `Age`, `Cache-Status`, `X-Forwarded-*`.
pub const ROOM: usize = 256;
/// Lines that are added.
pub const LINES: usize = 6;

/// As [`strip_hop_by_hop`], but appends to `kept`, and only the fields for which `also` holds.
pub fn strip_hop_by_hop_into<'f>(
    fields: impl Iterator<Item = Field<'f>> + Clone,
    also: impl Fn(&Field<'_>) -> bool,
    kept: &mut FieldList,
) {
    let lists = fields.clone().filter(|it| it.is("connection")).map(|it| it.value);
    let nominated = |name: &str| {
        let mut members = lists.clone().flat_map(|it| it.split(|it| *it == b','));
        members.any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let any_nomination = lists.clone().next().is_some();
    for it in fields {
        let dropped = is_hop_by_hop(it.name)
            || it.is("content-length")
            || is_disguised(it.name)
            || any_nomination && nominated(it.name) && !is_never_nominated(it.name);
        if !dropped && also(&it) {
            kept.push(it.name, it.value);
        }
    }
}

/// Whether a name with underscores becomes, with hyphens in their place, one that is not the client's to send.
fn is_disguised(name: &str) -> bool {
    let mut plain = [0; 32];
    let Some(plain) = plain.get_mut(..name.len()).filter(|_| name.contains('_')) else { return false };
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = if from == b'_' { b'-' } else { from };
    }
    std::str::from_utf8(plain).is_ok_and(|it| {
        is_hop_by_hop(it) || is_never_nominated(it) || it.eq_ignore_ascii_case("content-length")
    })
}

/// Fields on which a nomination in `Connection` has no effect. RFC 9110 §7.6.1 forbids to nominate what is
/// meant for all recipients; a peer that does so wants the next hop not to see it: a client, what a trusted
/// proxy before us wrote about that client; an origin, what forbids to share its answer.
#[must_use]
pub fn is_never_nominated(name: &str) -> bool {
    const NAMES: [&str; 23] = [
        "age",
        "authorization",
        "cache-control",
        "cdn-cache-control",
        "cdn-loop",
        "client-cert",
        "content-encoding",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expires",
        "forwarded",
        "host",
        "pragma",
        "set-cookie",
        "vary",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}
