//! Fields with the static table alone: valid on every connection.

use super::table::{STATIC, place_of, values_of};
use crate::http2::hpack::encode::{behind_status, compact, each_line, integer, status_in};
use crate::http2::hpack::{integer as integer_behind, known_name};

/// Appends `:status`.
pub fn status(status: u16, out: &mut Vec<u8>) {
    let indexed: usize = match status {
        103 => 24,
        200 => 25,
        304 => 26,
        404 => 27,
        503 => 28,
        100 => 63,
        204 => 64,
        206 => 65,
        302 => 66,
        400 => 67,
        403 => 68,
        421 => 69,
        425 => 70,
        500 => 71,
        _ => {
            debug_assert!((100..=999).contains(&status), "a status has three digits");
            let digit = |unit: u16| b'0' + u8::try_from(status / unit % 10).unwrap_or_default();
            integer(0x50, 4, 24, out);
            return out.extend_from_slice(&[3, digit(100), digit(10), digit(1)]);
        }
    };
    integer(0xc0, 6, indexed, out);
}

/// Appends a field, its value with Huffman code if shorter.
#[inline]
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let place = place_of(name);
    if let Some(place) = place {
        let same = values_of(place).find(|it| STATIC[usize::from(*it)].1.as_bytes() == value);
        if let Some(same) = same {
            return integer(0xc0, 6, usize::from(same), out);
        }
    }
    name_at(place, name, out);
    compact(value, out);
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

/// Appends a ready head in HTTP/1.1 text: a status line and field lines without the empty one. It has no field that HTTP/3
/// forbids.
pub fn head(text: &[u8], out: &mut Vec<u8>) {
    status(status_in(text), out);
    each_line(text, out, field);
}

/// Appends the fields of a block that `hpack::encode::compact_head` made of a head with this status: names are those of this static table,
/// strings are copied.
pub(crate) fn block(status: u16, block: &[u8], out: &mut Vec<u8>) {
    self::status(status, out);
    out.reserve(block.len());
    let mut rest = behind_status(block);
    while !rest.is_empty() && literal(&mut rest, out).is_some() {}
}

/// Appends a literal of HPACK; `None` if it is none.
#[inline]
fn literal(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    match integer_behind(rest, 4)? {
        0 => {
            let coded = rest.first()? & 0x80;
            let length = usize::try_from(integer_behind(rest, 7)?).ok()?;
            // The sign of Huffman code is the fifth bit (RFC 9204 §4.5.6).
            integer(0x20 | coded >> 4, 3, length, out);
            out.extend_from_slice(rest.split_off(..length)?);
        }
        place => name(known_name(place)?, out),
    }
    let mut value = *rest;
    let length = usize::try_from(integer_behind(&mut value, 7)?).ok()?;
    let whole = rest.len() - value.len() + length;
    out.extend_from_slice(rest.split_off(..whole)?);
    Some(())
}

/// Appends a name, before its value.
#[inline]
pub(crate) fn name(name: &[u8], out: &mut Vec<u8>) {
    name_at(place_of(name), name, out);
}

/// A name at this place of the static table, if it is there (RFC 9204 §4.5.4, §4.5.6).
#[inline]
fn name_at(place: Option<u8>, name: &[u8], out: &mut Vec<u8>) {
    match place {
        Some(place) => integer(0x50, 4, usize::from(place), out),
        None => {
            integer(0x20, 3, name.len(), out);
            let at = out.len();
            out.extend_from_slice(name);
            out[at..].make_ascii_lowercase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;
    use crate::http2::hpack::Section;
    use proptest::prelude::*;

    fn read(lines: &[u8]) -> Vec<(String, String)> {
        let mut section = Section::default();
        section.begin(100_000);
        decode(&[&[0, 0], lines].concat(), &mut section).unwrap();
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        section.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn every_status_is_read_back() {
        for it in 100..=999 {
            let mut out = Vec::new();
            status(it, &mut out);
            assert_eq!(vec![(":status".to_owned(), it.to_string())], read(&out));
        }
    }

    #[test]
    fn a_head_is_read_back_and_known_fields_are_indexed() {
        let text =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nVary: Origin\r\nX-Cache: a\r\nServer: b\r\n";
        let mut out = Vec::new();
        head(text, &mut out);
        let expect = [
            (":status", "200"),
            ("content-type", "text/css"),
            ("vary", "Origin"),
            ("x-cache", "a"),
            ("server", "b"),
        ];
        assert_eq!(expect.map(|it| (it.0.to_owned(), it.1.to_owned())).to_vec(), read(&out));
        assert!(out.starts_with(&[0xc0 | 25, 0xc0 | 51]));
    }

    proptest! {
        #[test]
        fn any_field_is_read_back(
            name in prop::sample::select(vec!["age", "X-Own", "server", "alt-svc", "Cache-Control", "very-long-name-of-a-field"]),
            value in "[!-~]([ -~]{0,300}[!-~])?"
        ) {
            let mut out = Vec::new();
            field(name.as_bytes(), value.as_bytes(), &mut out);
            field_with(name.as_bytes(), |text| text.extend_from_slice(value.as_bytes()), &mut out);
            let expect = (name.to_ascii_lowercase(), value);
            assert_eq!(vec![expect.clone(), expect], read(&out));
        }
    }
}
