//! Entity tags, their comparison (RFC 9110 §8.8.3), and the form in which one is stored.

use crate::field;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

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

/// Bytes of a tag that lies in place: those that servers make of a file's time and size, with `W/`.
const IN_PLACE: usize = 22;

/// An entity tag with its quotes and `W/` (RFC 9110 §8.8.3).
#[derive(Clone)]
pub struct EntityTag(TagForm);

#[derive(Clone)]
enum TagForm {
    Short { length: u8, bytes: [u8; IN_PLACE] },
    Long(Box<[u8]>),
}

impl EntityTag {
    /// Bytes of a block of its own.
    #[must_use]
    pub fn block(&self) -> usize {
        match &self.0 {
            TagForm::Short { .. } => 0,
            TagForm::Long(bytes) => bytes.len(),
        }
    }
}

impl<T: AsRef<[u8]>> From<T> for EntityTag {
    fn from(tag: T) -> Self {
        let tag = tag.as_ref();
        let mut bytes = [0; IN_PLACE];
        match (u8::try_from(tag.len()), bytes.get_mut(..tag.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(tag);
                Self(TagForm::Short { length, bytes })
            }
            _ => Self(TagForm::Long(tag.into())),
        }
    }
}

impl Deref for EntityTag {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            TagForm::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            TagForm::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for EntityTag {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for EntityTag {}

impl Hash for EntityTag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for EntityTag {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_tag_of_any_length_equals_the_bytes_of_its_origin() {
        assert_eq!(24, size_of::<Option<EntityTag>>());
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length).map(|it| (it % 251) as u8).collect();
            let tag = EntityTag::from(&bytes);
            assert_eq!(bytes, *tag);
            assert_eq!(tag, tag.clone());
            assert_eq!(length > IN_PLACE, tag.block() > 0);
        }
        assert_ne!(EntityTag::from("\"a\""), EntityTag::from("\"a\0\""));
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
