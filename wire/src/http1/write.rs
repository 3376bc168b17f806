//! The writer of heads: always generated from parsed values, never copied.

#[cfg(test)]
mod tests;

use crate::message::facts::is_token_byte;
use crate::message::reason;

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

/// Appends `GET /path HTTP/1.1\r\n`. The caller passes a token and a valid target; invalid bytes are removed from the one
/// and percent-encoded in the other, so that a bug in a caller cannot split a request.
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

/// Appends `Name: value\r\n`. The caller passes a valid name and value; CR, LF and NUL in the value are written as
/// spaces, so that a bug in a caller cannot split a message.
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
