//! Escaping of a peer's bytes in a log line, so that they can neither end the line nor forge a field.

/// Appends bytes for a quoted field of the common and combined formats: quotes, backslashes, control
/// characters and everything beyond ASCII as `\xHH`.
pub fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.is_empty() {
        out.push(b'-');
    }
    escaped(bytes, out);
}

/// The same, except that an empty value stays empty.
pub fn escaped(bytes: &[u8], out: &mut Vec<u8>) {
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

/// Appends bytes as a JSON string, quotes included; invalid UTF-8 becomes U+FFFD. Characters that control a terminal or
/// change the direction of text are escaped.
pub fn json(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for it in chunk.valid().chars() {
            match it {
                '"' | '\\' => out.extend_from_slice(&[b'\\', it as u8]),
                ' '..='~' => out.push(it as u8),
                _ if steers(it) => {
                    let [.., high, low] = u32::from(it).to_be_bytes();
                    out.extend_from_slice(b"\\u");
                    out.extend_from_slice(&hex(high));
                    out.extend_from_slice(&hex(low));
                }
                _ => out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Makes JSON safe for a terminal: control characters are escaped, which does not change its value.
#[must_use]
pub fn tame(json: &str) -> std::borrow::Cow<'_, str> {
    let wild = |it: char| steers(it) && !it.is_ascii();
    if !json.contains(wild) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for it in json.chars() {
        match it {
            _ if wild(it) => out.push_str(&format!("\\u{:04x}", u32::from(it))),
            _ => out.push(it),
        }
    }
    out.into()
}

/// Control characters, separators of lines, and marks of direction (UAX #9); all of them below U+10000.
fn steers(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn hex(byte: u8) -> [u8; 2] {
    let digit = |it: u8| if it < 10 { b'0' + it } else { b'a' + it - 10 };
    [digit(byte >> 4), digit(byte & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_forge_a_log_line() {
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
        check("\u{9b}\u{202e}".as_bytes(), "\\xc2\\x9b\\xe2\\x80\\xae", r#""\u009b\u202e""#);
        check("é".as_bytes(), "\\xc3\\xa9", "\"é\"");
        check(b"\xff\x7f", "\\xff\\x7f", "\"\u{fffd}\\u007f\"");
    }

    #[test]
    fn printed_json_escapes_control_characters() {
        let shown = tame("{\"a\":\"\u{9b}é\u{202e}\"}");
        assert_eq!(r#"{"a":"\u009bé\u202e"}"#, shown);
        assert_eq!("plain", tame("plain"));
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
        fn a_quoted_value_is_printable_ascii_without_quotes(bytes: Vec<u8>) {
            let mut out = Vec::new();
            quoted(&bytes, &mut out);
            proptest::prop_assert!(out.iter().all(|it| (b' '..0x7f).contains(it) && *it != b'"'));
        }
    }
}
