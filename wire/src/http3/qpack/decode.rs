//! The decoder of field sections: bounded, and without any state.

use super::table::STATIC;
use crate::http2::hpack::{Section, integer, string_behind};
use crate::http3::Http3Error;

/// Decodes one complete section into `section`, which has just begun. Excess and errors of fields are recorded there.
///
/// # Errors
/// The section is invalid, or refers to a dynamic table: there is none.
pub fn decode(mut block: &[u8], section: &mut Section) -> Result<(), Http3Error> {
    prefix(&mut block).ok_or(Http3Error::QpackDecompression)?;
    while !block.is_empty() {
        line(&mut block, section).ok_or(Http3Error::QpackDecompression)?;
    }
    Ok(())
}

/// The prefix (RFC 9204 §4.5.1): no insertion is required, and the base, which is not used, is not negative.
fn prefix(rest: &mut &[u8]) -> Option<()> {
    let required = integer(rest, 8)?;
    let is_negative = *rest.first()? & 0x80 != 0;
    integer(rest, 7)?;
    (required == 0 && !is_negative).then_some(())
}

/// One field line (RFC 9204 §4.5.2 to §4.5.6).
fn line(rest: &mut &[u8], section: &mut Section) -> Option<()> {
    let first = *rest.first()?;
    match first >> 4 {
        0b1100..=0b1111 => {
            let (name, value) = STATIC.get(integer(rest, 6)? as usize)?;
            section.known(name.as_bytes(), value.as_bytes());
            Some(())
        }
        0b0101 | 0b0111 => {
            let (name, _) = STATIC.get(integer(rest, 4)? as usize)?;
            let name = |text: &mut Vec<u8>| {
                text.extend_from_slice(name.as_bytes());
                Some(())
            };
            section.literal(name, |text| string_behind(rest, 7, text))
        }
        0b0010 | 0b0011 => {
            let behind = std::cell::Cell::new(*rest);
            let string = |prefix, text: &mut Vec<u8>| {
                let mut bytes = behind.get();
                string_behind(&mut bytes, prefix, text)?;
                behind.set(bytes);
                Some(())
            };
            section.literal(|text| string(3, text), |text| string(7, text))?;
            *rest = behind.get();
            Some(())
        }
        // Entries of the dynamic table.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a section, or nothing if it is invalid.
    fn read(block: &[u8]) -> Option<Vec<(String, String)>> {
        let mut section = Section::default();
        section.begin(1000);
        decode(block, &mut section).ok()?;
        assert_eq!(None, section.flaw());
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        Some(section.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    #[track_caller]
    fn check(block: &[u8], expect: &[(&str, &str)]) {
        let owned = expect.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
        assert_eq!(Some(owned), read(block));
    }

    #[test]
    fn every_form_without_a_dynamic_table_is_read() {
        // RFC 9204 Appendix B.1.
        check(b"\x00\x00\x51\x0b/index.html", &[(":path", "/index.html")]);
        check(&[0, 0, 0xc0 | 17], &[(":method", "GET")]);
        check(&[0, 0, 0xff, 98 - 63], &[("x-frame-options", "sameorigin")]);
        check(b"\x00\x00\x7f\x50\x03abc", &[("user-agent", "abc")]);
        check(b"\x00\x00\x23abc\x02de", &[("abc", "de")]);
        check(b"\x00\x00\x37\x03abcdefghij\x00", &[("abcdefghij", "")]);
        // Huffman code in both strings (RFC 7541 Appendix C.4.3).
        check(
            b"\x00\x00\x2f\x01\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
            &[("custom-key", "custom-value")],
        );
        // A base without a use.
        check(&[0, 5, 0xc0 | 17], &[(":method", "GET")]);
        check(&[0, 0], &[]);
    }

    #[test]
    fn entries_of_a_dynamic_table_are_refused() {
        // RFC 9204 Appendix B.2 and B.4.
        assert_eq!(None, read(&[0x03, 0x81, 0x10, 0x11]));
        assert_eq!(None, read(&[0x05, 0x00, 0x80, 0xc1, 0x81]));
        for first in [0x80, 0x81, 0x40, 0x60, 0x10, 0x00, 0x08] {
            assert_eq!(None, read(&[0, 0, first, 0, 0]), "{first:x}");
        }
        assert_eq!(None, read(&[1, 0]));
        assert_eq!(None, read(&[0, 0x80]), "a negative base");
    }

    #[test]
    fn invalid_sections_are_refused() {
        for block in [
            &[][..],
            &[0],
            &[0, 0, 0xff],
            &[0, 0, 0xff, 99 - 63],
            &[0, 0, 0x51],
            &[0, 0, 0x51, 2, b'a'],
            &[0, 0, 0x23, b'a'],
            &[0, 0, 0x21, b'a'],
            &[0, 0, 0x7f, 99 - 15, 0],
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            // Huffman code with the end mark, and with more padding than a byte.
            &[0, 0, 0x51, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0, 0, 0x51, 0x82, 0x1f, 0xff],
        ] {
            assert_eq!(None, read(block), "{block:x?}");
        }
    }

    #[test]
    fn flaws_of_fields_and_excess_are_recorded() {
        let read = |block: &[u8], limit| {
            let mut section = Section::default();
            section.begin(limit);
            decode(block, &mut section).unwrap();
            (section.flaw().is_some(), section.is_too_large(), section.iter().len())
        };
        assert_eq!((true, false, 1), read(b"\x00\x00\x21A\x01b", 100));
        assert_eq!((true, false, 1), read(b"\x00\x00\x20\x01b", 100), "an empty name");
        assert_eq!((true, false, 1), read(b"\x00\x00\x21a\x01\n", 100));
        assert_eq!((false, false, 1), read(b"\x00\x00\x21a\x01b", 34));
        assert_eq!((false, true, 0), read(b"\x00\x00\x21a\x01b", 33));
    }
}
