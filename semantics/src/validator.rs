//! Validators: entity tags and their comparison (RFC 9110 §8.8), and the conditional request that validates a stored
//! response (RFC 9111 §4.3.1).

use crate::date;
use crate::field::{self, FieldList};
use crate::stored::Meta;

/// Whether `value` is a valid entity tag, quotes and `W/` included.
#[must_use]
pub fn is_entity_tag(value: &[u8]) -> bool {
    match value.strip_prefix(b"W/").unwrap_or(value) {
        [b'"', opaque @ .., b'"'] => opaque.iter().all(|it| is_etagc(*it)),
        _ => false,
    }
}

/// `etagc` of RFC 9110 §8.8.3: no space, no quote, no control; a backslash is itself.
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

/// Strong comparison (RFC 9110 §8.8.3.2).
#[must_use]
pub fn strong_eq(a: &[u8], b: &[u8]) -> bool {
    !a.starts_with(b"W/") && a == b
}

/// Weak comparison (RFC 9110 §8.8.3.2).
#[must_use]
pub fn weak_eq(a: &[u8], b: &[u8]) -> bool {
    a.strip_prefix(b"W/").unwrap_or(a) == b.strip_prefix(b"W/").unwrap_or(b)
}

/// The valid entity tags of one line of a list (RFC 9110 §13.1.1). Other text between two commas is skipped: it matches
/// no tag. A comma within quotes is part of the tag.
pub fn entity_tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    Tags { rest: line }.filter(|it| is_entity_tag(it))
}

struct Tags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = self.rest.iter().position(|it| {
            quoted ^= *it == b'"';
            *it == b',' && !quoted
        });
        let end = end.unwrap_or(self.rest.len());
        let member = field::trim(&self.rest[..end]);
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(member)
    }
}

/// Whether the stored `Last-Modified` is strong (RFC 9110 §8.8.2.2): at least one second older than the response's
/// `Date`, so that two changes cannot have the same one.
#[must_use]
pub fn last_modified_is_strong(stored: &Meta) -> bool {
    stored.last_modified.is_some_and(|it| it < stored.date)
}

/// Whether two responses have the same strong validator (RFC 9110 §15.3.7.3): the entity tag if either has one, otherwise
/// `Last-Modified`.
#[must_use]
pub fn same_strong(a: &Meta, b: &Meta) -> bool {
    match (&a.etag, &b.etag) {
        (Some(a), Some(b)) => strong_eq(a, b),
        (None, None) => {
            a.last_modified == b.last_modified && last_modified_is_strong(a) && last_modified_is_strong(b)
        }
        _ => false,
    }
}

/// Sets the stored validators in a request to the origin, in place of the client's own conditions and range:
/// `If-None-Match` from `ETag`, `If-Modified-Since` from `Last-Modified`.
pub fn make_conditional(request: &mut FieldList, stored: &Meta) {
    const OWN: [&str; 6] =
        ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"];
    request.retain(|it| !OWN.iter().any(|name| it.is(name)));
    if let Some(etag) = &stored.etag {
        request.push("If-None-Match", etag);
    }
    if let Some(time) = stored.last_modified {
        request.push("If-Modified-Since", date::format(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditional::tests::meta;
    use proptest::prelude::*;

    #[test]
    fn entity_tag_grammar() {
        for it in [r#""""#, r#""a""#, r#"W/"a""#, r#"W/"""#, r#""a\""#, r#""a,b""#, "\"\u{e4}\"", r#""W/""#] {
            assert!(is_entity_tag(it.as_bytes()), "{it}");
        }
        for it in ["", "a", "*", "\"", "\"a", "a\"", "W/", "W/a", "W/\"", "w/\"a\"", "W /\"a\"", r#""a"b""#] {
            assert!(!is_entity_tag(it.as_bytes()), "{it}");
        }
        for it in ["\"a b\"", " \"a\"", "\"a\" ", "\"a\t\"", "\"\x7f\"", r#""a""b""#, r#"W/W/"a""#] {
            assert!(!is_entity_tag(it.as_bytes()), "{it}");
        }
    }

    /// The table of RFC 9110 §8.8.3.2.
    #[test]
    fn comparison() {
        for (a, b, strong, weak) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#"W/"1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
        ] {
            assert_eq!(strong, strong_eq(a.as_bytes(), b.as_bytes()), "{a} {b}");
            assert_eq!(weak, weak_eq(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }

    #[track_caller]
    fn check_tags(line: &str, expect: &[&str]) {
        let got: Vec<_> = entity_tags(line.as_bytes()).map(|it| std::str::from_utf8(it).unwrap()).collect();
        assert_eq!(expect, got, "{line}");
    }

    #[test]
    fn lists_of_tags() {
        check_tags("", &[]);
        check_tags(r#""a""#, &[r#""a""#]);
        check_tags(r#" "a" ,W/"b",, "c,d" "#, &[r#""a""#, r#"W/"b""#, r#""c,d""#]);
        check_tags(r#"a, "b", *, "c" d, "e""#, &[r#""b""#, r#""e""#]);
        check_tags(r#""a\", "b""#, &[r#""a\""#, r#""b""#]);
        check_tags(r#""a"#, &[]);
    }

    #[track_caller]
    fn check(stored: &str, expect: &str) {
        let mut request = FieldList::new();
        for name in ["if-match", "If-None-Match", "IF-MODIFIED-SINCE", "If-Unmodified-Since", "If-Range"] {
            request.push(name, "\"client\"");
        }
        request.push("Range", "bytes=0-1");
        request.push("Accept", "*/*");
        make_conditional(&mut request, &meta(stored));
        assert_eq!(format!("Accept: */*\r\n{expect}"), String::from_utf8_lossy(request.text()));
    }

    #[test]
    fn the_origin_is_asked_with_stored_validators_alone() {
        check("", "");
        check("e:W/\"s\"", "If-None-Match: W/\"s\"\r\n");
        check("lm:100", "If-Modified-Since: Thu, 01 Jan 1970 00:01:40 GMT\r\n");
        check(
            "e:\"s\" lm:100",
            "If-None-Match: \"s\"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:01:40 GMT\r\n",
        );
    }

    #[test]
    fn strong_validators() {
        let check = |a: &str, b: &str, expect: bool| {
            assert_eq!(expect, same_strong(&meta(a), &meta(b)), "{a} | {b}");
            assert_eq!(expect, same_strong(&meta(b), &meta(a)), "{b} | {a}");
        };
        check("e:\"a\"", "e:\"a\"", true);
        check("e:\"a\" lm:1", "e:\"a\" lm:2", true);
        check("e:W/\"a\"", "e:W/\"a\"", false);
        check("e:\"a\"", "e:\"b\"", false);
        check("e:\"a\" lm:1", "lm:1", false);
        check("lm:100", "lm:100", true);
        check("lm:100", "lm:101", false);
        check("lm:100 date:100", "lm:100", false);
        check("", "", false);
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            for it in entity_tags(&line) {
                prop_assert!(is_entity_tag(it) && weak_eq(it, it));
            }
        }
    }
}
