//! Request targets. A target is forwarded and keyed byte for byte as it was received: a gateway that repairs one requests another
//! resource, of which the client learns nothing (RFC 9112 §3, RFC 9110 §7.7). Parsing a request's target is not here (`wire`), nor is
//! resolving a reference ([`crate::invalidate`]).

use std::fmt::Write as _;

/// Bytes that no URI has (RFC 3986 §3.3, §3.4), and that browsers never send: they encode `"`, `<` and `>` everywhere, and replace `\`
/// by `/` in a path (URL standard, "query percent-encode set"). A `%` may be one. Browsers do send `[`, `]`, `|`, `{`, `}`, `^` and a
/// backquote in queries, which no URI has either; such a page is cached under the target as sent.
const SUSPECT: [bool; 256] = {
    let mut suspect = [false; 256];
    let bytes = b"\"<>\\%";
    let mut at = 0;
    while at < bytes.len() {
        suspect[bytes[at] as usize] = true;
        at += 1;
    }
    suspect
};

/// Whether servers may parse a target in origin-form in different ways, so that no response is stored under it: a `%` is not
/// followed by two hexadecimal digits (RFC 3986 §2.1), or it has one of `"`, `<`, `>` and `\`.
#[must_use]
pub fn is_malformed(target: &str) -> bool {
    let bytes = target.as_bytes();
    let is_escape =
        |at: usize| matches!(bytes[at + 1..], [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    let is_bad = |(at, byte): (usize, &u8)| SUSPECT[usize::from(*byte)] && (*byte != b'%' || !is_escape(at));
    bytes.iter().enumerate().any(is_bad)
}

/// A target that an operator typed, as clients send it: spaces, controls and bytes that are not ASCII are percent-encoded, since no
/// request line can have them. Every other byte stays.
#[must_use]
pub fn typed(target: &str) -> String {
    let mut out = String::with_capacity(target.len() + 16);
    for byte in target.bytes() {
        match byte {
            0x21..=0x7e => out.push(char::from(byte)),
            // A string takes everything.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// Whether a byte has no other meaning anywhere in a URI (RFC 3986 §2.3).
#[must_use]
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether a byte of a segment stands for itself in a path (RFC 3986 §3.3, `pchar`).
#[must_use]
pub fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@".contains(&byte)
}

/// Whether a byte of a parameter's value stands for itself in a query (RFC 3986 §3.4): not `&`, nor `+`, which forms write
/// for a space.
pub(crate) fn is_query_value_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$'()*,;:@/?".contains(&byte)
}

/// Appends a byte: as it is where `stays` is true for it, otherwise percent-encoded (RFC 3986 §2.1).
pub fn encode(byte: u8, stays: fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    match stays(byte) {
        true => out.push(byte),
        false => {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets_of_browsers_are_well_formed() {
        for target in ["/", "/a/b-._~!$&'()*+,;=:@%2f%5B?c=d&e/?f", "/a|b[c]{d}^`?e[]=f|g{h}^`", "/%2e?%4F|"]
        {
            assert!(!is_malformed(target), "{target}");
            assert_eq!(target, typed(target));
        }
    }

    #[test]
    fn ambiguous_targets_are_malformed() {
        for target in
            ["/%", "/%4", "/%zz", "/%%41%4", "/a?b=%|", "/a\"", "/<a", "/a>", "/a\\b", "/a?b=\"", "/a?b=\\"]
        {
            assert!(is_malformed(target), "{target}");
            assert_eq!(target, typed(target), "it is not repaired");
        }
    }

    #[test]
    fn a_typed_target_is_one_that_a_client_can_send() {
        assert_eq!("/a%20b/%C3%BC?c[]=|%7F%0A", typed("/a b/ü?c[]=|\u{7f}\n"));
    }

    proptest! {
        #[test]
        fn once_is_enough(target in "[/ -~ü|\\[\\]]{0,24}") {
            let once = typed(&target);
            prop_assert_eq!(is_malformed(&target), is_malformed(&once));
            prop_assert_eq!(&once, &typed(&once));
        }
    }
}
