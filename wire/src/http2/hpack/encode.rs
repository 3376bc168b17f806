//! Fields as literals without indexing, with names from the static table: valid on every connection. The connection's
//! dynamic table is in `encoder`.

use super::huffman;
use super::table::place_of;

/// The first byte of a literal without indexing (RFC 7541 §6.2.2).
pub(super) const PLAIN: u8 = 0x00;

/// The first byte of a status that is a literal, and the bytes of that.
const STATUS: u8 = 0x08;
const STATUS_SIZE: usize = 5;

/// Appends `:status`.
pub fn status(status: u16, out: &mut Vec<u8>) {
    let indexed: u8 = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            debug_assert!((100..=999).contains(&status), "a status has three digits");
            let digit = |unit: u16| b'0' + u8::try_from(status / unit % 10).unwrap_or_default();
            return out.extend_from_slice(&[STATUS, 3, digit(100), digit(10), digit(1)]);
        }
    };
    out.push(0x80 | indexed);
}

/// Appends a field. The name is written in lower case, the value unchanged.
#[inline]
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    self::name(name, out);
    integer(0x00, 7, value.len(), out);
    out.extend_from_slice(value);
}

/// Appends a field whose value `write` appends.
#[inline]
pub fn field_with(name: &[u8], write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    self::name(name, out);
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    match u8::try_from(length) {
        Ok(short) if short < 0x7f => out[at] = short,
        _ => {
            let mut prefix = Vec::new();
            integer(0x00, 7, length, &mut prefix);
            out.splice(at..=at, prefix);
        }
    }
}

/// Appends a ready head in HTTP/1.1 text: a status line and field lines without the empty one. It has no field that
/// HTTP/2 forbids.
pub fn head(text: &[u8], out: &mut Vec<u8>) {
    each_of(text, out, field);
}

/// The same in fewer bytes and more time: for stored heads.
pub fn compact_head(text: &[u8], out: &mut Vec<u8>) {
    each_of(text, out, compact_field);
}

/// Appends `:status` of a head's first line.
pub(crate) fn status_of(line: &[u8], out: &mut Vec<u8>) {
    status(status_in(line), out);
}

/// The fields of a block behind its status.
#[inline]
pub(crate) fn behind_status(block: &[u8]) -> &[u8] {
    let status = if block.first() == Some(&STATUS) { STATUS_SIZE } else { 1 };
    block.get(status..).unwrap_or_default()
}

/// The status in a head's first line.
pub(crate) fn status_in(line: &[u8]) -> u16 {
    let code = line.get(9..12).unwrap_or(b"500");
    code.iter().fold(0, |sum, it| sum * 10 + u16::from(it.wrapping_sub(b'0')))
}

pub(super) fn each_of(text: &[u8], out: &mut Vec<u8>, field: impl FnMut(&[u8], &[u8], &mut Vec<u8>)) {
    status_of(text, out);
    each_line(text, out, field);
}

/// Calls `field` for each field of a head.
pub(crate) fn each_line(text: &[u8], out: &mut Vec<u8>, mut field: impl FnMut(&[u8], &[u8], &mut Vec<u8>)) {
    let mut rest =
        text.get(memchr::memchr(b'\n', text).map_or(text.len(), |it| it + 1)..).unwrap_or_default();
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        if let Some((name, value)) = parts(line) {
            field(name, value, out);
        }
    }
}

/// The name and the value of a field line with its CRLF; `None` without a colon.
pub(crate) fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    Some((name, value.strip_prefix(b": ").and_then(|it| it.strip_suffix(b"\r\n")).unwrap_or_default()))
}

/// A field with Huffman-coded strings if shorter.
pub(crate) fn compact_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    compact_name(name, out);
    compact(value, out);
}

/// [`compact_field`] up to its value.
pub(crate) fn compact_name(name: &[u8], out: &mut Vec<u8>) {
    match place_of(name) {
        0 => {
            out.push(0);
            compact(&name.to_ascii_lowercase(), out);
        }
        _ => self::name(name, out),
    }
}

/// A string (RFC 7541 §5.2).
pub(crate) fn compact(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::length(text);
    if coded < text.len() {
        integer(0x80, 7, coded, out);
        huffman::encode(text, out);
    } else {
        integer(0x00, 7, text.len(), out);
        out.extend_from_slice(text);
    }
}

/// A literal without indexing (RFC 7541 §6.2.2), up to its value.
#[inline]
fn name(name: &[u8], out: &mut Vec<u8>) {
    match place_of(name) {
        0 => {
            out.push(0);
            integer(0x00, 7, name.len(), out);
            let at = out.len();
            out.extend_from_slice(name);
            out[at..].make_ascii_lowercase();
        }
        place @ ..15 => out.push(place),
        place => out.extend_from_slice(&[0x0f, place - 15]),
    }
}

/// An integer after `flags`, with a prefix of this many bits (RFC 7541 §5.1).
#[inline]
pub(crate) fn integer(flags: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(flags | u8::try_from(value).unwrap_or_default());
        return;
    }
    out.push(flags | u8::try_from(mask).unwrap_or_default());
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | u8::try_from(rest & 0x7f).unwrap_or_default());
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or_default());
}
