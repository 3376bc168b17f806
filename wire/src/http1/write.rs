//! Heads as bytes: always made anew from what was understood, never copied.

use super::Version;

/// Appends `HTTP/1.1 200 OK\r\n`. An unknown code has an empty reason.
pub fn status_line(status: u16, out: &mut Vec<u8>) {
    let _ = (status, out);
    todo!()
}

/// Appends `GET /path HTTP/1.1\r\n`.
pub fn request_line(method: &str, target: &str, out: &mut Vec<u8>) {
    let _ = (method, target, Version::Http11, out);
    todo!()
}

/// Appends `Name: value\r\n`.
pub fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The reason phrase of RFC 9110 §15, or nothing.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    let _ = status;
    todo!()
}

/// Whether a field is hop-by-hop by its name (RFC 9110 §7.6.1): never forwarded, never stored.
/// `connection` are the request's or response's `Connection` values, whose options are too.
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        "proxy-authenticate-info",
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}
