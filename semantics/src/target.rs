//! The normal form of a request target: bytes that no URI may have are percent-encoded. Keys and requests to origins
//! contain it. A target with a broken escape has no normal form: it is passed on unchanged, and never cached. Parsing a
//! request's target is not here (`wire`), nor is resolving a reference ([`crate::invalidate`]).

use std::fmt::Write as _;

/// The bytes that may occur unencoded in a path or a query (RFC 3986 §3.3, §3.4): `pchar`, `/` and `?`. A `%` may if two
/// hexadecimal digits follow.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut at = 0;
    while at < 256 {
        plain[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let others = b"-._~!$&'()*+,;=:@/?";
    let mut at = 0;
    while at < others.len() {
        plain[others[at] as usize] = true;
        at += 1;
    }
    plain
};

fn is_plain(target: &[u8], at: usize) -> bool {
    match target[at] {
        b'%' => matches!(target[at + 1..], [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()),
        byte => PLAIN[usize::from(byte)],
    }
}

/// Whether a target in origin-form has bytes that no URI may have.
#[must_use]
pub fn needs_encoding(target: &str) -> bool {
    let bytes = target.as_bytes();
    (0..bytes.len()).any(|at| !is_plain(bytes, at))
}

/// Whether a `%` is not followed by two hexadecimal digits (RFC 3986 §2.1).
#[must_use]
pub fn has_broken_escape(target: &str) -> bool {
    let bytes = target.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'%' && !is_plain(bytes, at))
}

/// The target with every byte percent-encoded that no URI may have. Rejecting them would be as strict, but browsers send
/// `|` and `[` in queries unencoded; if passed on unencoded, two servers could interpret them differently.
///
/// A target with a broken escape is unchanged: `%25` instead would be another target, and a recipient should not repair
/// one without a redirect (RFC 9112 §3).
#[must_use]
pub fn encoded(target: &str) -> String {
    if has_broken_escape(target) {
        return target.to_owned();
    }
    let bytes = target.as_bytes();
    let mut out = String::with_capacity(bytes.len() + 16);
    for (at, byte) in bytes.iter().enumerate() {
        if is_plain(bytes, at) {
            out.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(target: &str, expect: &str) {
        assert_eq!(expect, encoded(target), "{target}");
        assert_eq!(target != expect, needs_encoding(target), "{target}");
    }

    #[test]
    fn what_no_uri_may_have_is_encoded() {
        let plain = "/a/b-._~!$&'()*+,;=:@%2f%5B?c=d&e/?f";
        check(plain, plain);
        check("/a|b{c}[d]^\"<>\\`", "/a%7Cb%7Bc%7D%5Bd%5D%5E%22%3C%3E%5C%60");
        check("/%2e%2E/%00?a[]", "/%2e%2E/%00?a%5B%5D");
    }

    #[test]
    fn a_broken_escape_is_not_repaired() {
        for target in ["/%", "/%4", "/%zz", "/%%41%4", "/%2e%2E/%zz%00%?a[]", "/a?b=%|"] {
            assert!(has_broken_escape(target) && needs_encoding(target), "{target}");
            assert_eq!(target, encoded(target));
        }
        assert!(!has_broken_escape("/%2e?%4F|") && !has_broken_escape("/"));
    }

    proptest! {
        #[test]
        fn once_is_enough(target in "[/-~%|\\[\\]]{0,24}") {
            let once = encoded(&target);
            prop_assert_eq!(has_broken_escape(&target), needs_encoding(&once));
            prop_assert_eq!(&once, &encoded(&once));
        }
    }
}
