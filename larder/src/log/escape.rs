//! A peer's bytes in a line of a log, so that they can neither end the line nor forge a field.

/// Appends bytes for a quoted field of the common and combined formats: quotes, backslashes, control
/// characters and everything beyond ASCII as `\xHH`.
pub fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.is_empty() {
        out.push(b'-');
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(&hex(byte));
            }
            _ => out.push(byte),
        }
    }
}

/// Appends bytes as a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
pub fn json(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..=0x1f | 0x7f => {
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&hex(byte));
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn hex(byte: u8) -> [u8; 2] {
    let digit = |it: u8| if it < 10 { b'0' + it } else { b'a' + it - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_forges_a_line() {
        #[track_caller]
        fn check(bytes: &[u8], expect_quoted: &str, expect_json: &str) {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            quoted(bytes, &mut a);
            json(bytes, &mut b);
            assert_eq!(
                (expect_quoted, expect_json),
                (str::from_utf8(&a).unwrap(), str::from_utf8(&b).unwrap())
            );
        }
        check(b"/a?b=c", "/a?b=c", r#""/a?b=c""#);
        check(b"", "-", r#""""#);
        check(b"a\"b\\c", "a\\x22b\\x5cc", r#""a\"b\\c""#);
        check(b"a\r\nb", "a\\x0d\\x0ab", r#""a\u000d\u000ab""#);
        check("é".as_bytes(), "\\xc3\\xa9", "\"é\"");
        check(b"\xff\x7f", "\\xff\\x7f", "\"\u{fffd}\\u007f\"");
    }

    proptest::proptest! {
        #[test]
        fn json_is_read_back(text in "\\PC*[\\x00-\\x1f\"\\\\]*") {
            let mut out = Vec::new();
            json(text.as_bytes(), &mut out);
            let back: String = serde_json::from_slice(&out).unwrap();
            proptest::prop_assert_eq!(text, back);
        }

        #[test]
        fn quoted_is_one_printable_word(bytes: Vec<u8>) {
            let mut out = Vec::new();
            quoted(&bytes, &mut out);
            proptest::prop_assert!(out.iter().all(|it| (b' '..0x7f).contains(it) && *it != b'"'));
        }
    }
}
