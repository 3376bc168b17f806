//! The tags of a response, by which it can be purged: those of `Surrogate-Key`, `Cache-Tag` and the like, and the groups
//! of RFC 9875. The effect of purges is in `purged`.
//!
//! A group is two tags: its name, with which an operator purges it on every origin, and the origin of the key, a space
//! and the name, which responses of that origin invalidate. Other tags have no spaces, so that no response invalidates
//! them.

use crate::field::{Field, FieldList, all};
use crate::method;
use crate::policy::TagPolicy;
use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, Parser};
use std::convert::Infallible;
use xxhash_rust::xxh3::xxh3_64;

/// The most tags of one response that are distinguished (RFC 9875 §2 requires 32 groups at least). A response with more
/// has [`EVERY`] tag: a purge of any tag purges it.
pub const MOST: usize = 1024;

/// The beginning of the tags of database rows.
const ROWS: &[u8] = b"db:";

/// An empty value in them: no other value has this text, in which a `%` precedes two digits.
const EMPTY: &[u8] = b"%";

/// Represents every tag.
pub const EVERY: u64 = u64::MAX;

/// The most groups that one response invalidates (RFC 9875 §3 asks for 32 at least).
const MOST_INVALIDATED: usize = 64;

/// The hash of a tag: XXH3 (64 bits, seed 0) of its text, the same in every process and on every node, since it is
/// persistent.
#[must_use]
pub fn hash(tag: &str) -> u64 {
    hash_bytes(tag.as_bytes())
}

fn hash_bytes(tag: &[u8]) -> u64 {
    xxh3_64(tag).min(EVERY - 1)
}

/// The hashes of a response's tags, sorted, each once; only [`EVERY`] for more than [`MOST`]. `key` is the cache key with
/// the origin of the groups.
#[must_use]
pub fn of(fields: &[Field<'_>], policy: &TagPolicy, key: &[u8]) -> Box<[u64]> {
    let mut tags = Vec::new();
    for name in &policy.headers {
        let words = all(fields, name).flat_map(|line| line.split(|it| matches!(it, b' ' | b',' | b'\t')));
        for word in words.filter(|it| !it.is_empty()).take(MOST + 1) {
            match policy.database.as_ref().and_then(|it| unnamed(word, it)) {
                Some(word) => push_with_rows(&word, &mut tags),
                None => push_with_rows(word, &mut tags),
            }
        }
    }
    groups(fields, "cache-groups", MOST + 1, |name| tags.extend([hash(name), hash(&group(key, name))]));
    in_order(tags)
}

/// Appends the hash of a tag, and of those that it stands for if it is one of database rows.
fn push_with_rows(tag: &[u8], to: &mut Vec<u64>) {
    to.push(hash_bytes(tag));
    if tag.starts_with(ROWS) {
        to.extend(of_rows(tag).map(hash_bytes));
        // `db:users:name=` is that of an empty value as well, which changes write as `%`.
        if tag.len() > ROWS.len() && matches!(tag.last(), Some(b':' | b'=')) {
            to.push(hash_bytes(&[tag, EMPTY].concat()));
        }
    }
}

/// Whether a tag is that of every row of the databases, or of a database: `db:`, `db:shop/`.
#[must_use]
pub fn is_of_every_row(tag: &str) -> bool {
    tag.as_bytes()
        .strip_prefix(ROWS)
        .is_some_and(|it| it.is_empty() || (it.ends_with(b"/") && !it.contains(&b':')))
}

/// The tags that a tag of database rows stands for as well: of `db:orders:customer=7` these are `db:`, `db:orders:` and
/// `db:orders:customer=`, of `db:shop/orders:5` they are `db:shop/` and `db:shop/orders:`. So a change whose rows are not known purges the
/// pages of all rows that it may concern.
fn of_rows(tag: &[u8]) -> impl Iterator<Item = &[u8]> {
    let after =
        |from: usize, mark: u8| tag.get(from..)?.iter().position(|it| *it == mark).map(|at| from + at + 1);
    let table = after(ROWS.len(), b':');
    let column = table.and_then(|from| after(from, b'='));
    // The name of a database ends before the table does.
    let database = after(ROWS.len(), b'/').filter(|end| table.is_none_or(|it| *end < it));
    let ends = [database.or(Some(ROWS.len())), table, column];
    ends.into_iter().flatten().filter(|end| *end < tag.len()).map(|end| &tag[..end])
}

/// A tag of database rows that names this database, without the name; `None` for any other tag.
fn unnamed(tag: &[u8], database: &str) -> Option<Vec<u8>> {
    let rest = tag.strip_prefix(ROWS)?.strip_prefix(database.as_bytes())?.strip_prefix(b"/")?;
    Some([ROWS, rest].concat())
}

/// The union of both, as made by [`of`].
#[must_use]
pub fn merged(one: &[u64], other: &[u64]) -> Box<[u64]> {
    in_order([one, other].concat())
}

fn in_order(mut tags: Vec<u64>) -> Box<[u64]> {
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > MOST || are_every(&tags) {
        tags = vec![EVERY];
    }
    tags.into_boxed_slice()
}

/// Whether tags, as made by [`of`], contain this one.
#[must_use]
pub fn contain(tags: &[u64], tag: &str) -> bool {
    tags.binary_search(&hash(tag)).is_ok() || are_every(tags)
}

/// Whether tags represent every tag.
#[must_use]
pub fn are_every(tags: &[u64]) -> bool {
    tags.last() == Some(&EVERY)
}

/// The tags that a response to an unsafe method purges: the groups in its `Cache-Group-Invalidation`, of the origin of
/// `key` (RFC 9875 §3). None for safe methods, and, as in RFC 9111 §4.4, for errors.
#[must_use]
pub fn invalidated(method: &str, status: u16, response: &[Field<'_>], key: &[u8]) -> Vec<String> {
    let mut tags = Vec::new();
    if !method::is_safe(method) && (200..400).contains(&status) {
        groups(response, "cache-group-invalidation", MOST_INVALIDATED, |name| tags.push(group(key, name)));
    }
    tags
}

/// Whether a field is not sent to clients: a field of tags, if the policy does not send them.
#[must_use]
pub fn is_hidden(name: &str, policy: &TagPolicy) -> bool {
    !policy.send
        && policy.headers.iter().any(|it| it.eq_ignore_ascii_case(name))
        && !name.eq_ignore_ascii_case("cache-groups")
}

/// Removes the fields that are not sent to clients.
pub fn hide(fields: &mut FieldList, policy: &TagPolicy) {
    // Nearly no response has such a field: only names of the same length are compared.
    if !policy.send && policy.headers.iter().any(|it| fields.contains(it)) {
        fields.retain(|it| !is_hidden(it.name, policy));
    }
}

/// The text of the tag of a group on the origin of `key`.
#[must_use]
pub fn group(key: &[u8], name: &str) -> String {
    format!("{} {name}", String::from_utf8_lossy(origin(key)))
}

/// Scheme and authority of a key.
fn origin(key: &[u8]) -> &[u8] {
    let authority = key.windows(3).position(|it| it == b"://").map_or(0, |at| at + 3);
    let length = key[authority..].iter().position(|it| matches!(it, b'/' | b'?' | b' '));
    &key[..length.map_or(key.len(), |it| authority + it)]
}

/// Calls `each` with every string of a field that is a list of strings (RFC 9875 §2); never if it is not a list. Members
/// of other types, and parameters, are ignored.
fn groups(fields: &[Field<'_>], name: &str, most: usize, each: impl FnMut(&str)) {
    let lines: Vec<_> = all(fields, name).collect();
    if lines.is_empty() {
        return;
    }
    // Several lines are one list (RFC 9651 §4.2).
    let joined = lines.join(&b", "[..]);
    let mut strings = Strings { found: Vec::new(), most };
    if Parser::new(&joined).parse_list_with_visitor(&mut strings).is_ok() {
        strings.found.iter().map(String::as_str).for_each(each);
    }
}

/// The strings found so far: kept until the whole list is known to be valid.
struct Strings {
    found: Vec<String>,
    most: usize,
}

struct TagMember<'s>(&'s mut Strings);

impl<'input> ListVisitor<'input> for Strings {
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'input>, Infallible> {
        Ok(TagMember(self))
    }
}

impl<'input> ItemVisitor<'input> for TagMember<'_> {
    type Error = Infallible;

    fn bare_item(self, item: BareItemFromInput<'input>) -> Result<impl ParameterVisitor<'input>, Infallible> {
        if let BareItemFromInput::String(name) = item
            && self.0.found.len() < self.0.most
        {
            self.0.found.push(name.as_str().to_owned());
        }
        Ok(Ignored)
    }
}

impl<'input> EntryVisitor<'input> for TagMember<'_> {
    fn inner_list(self) -> Result<impl InnerListVisitor<'input>, Infallible> {
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &[u8] = b"http://example.com/a?b h:c=d";

    fn fields<'a>(lines: &[(&'a str, &'a str)]) -> Vec<Field<'a>> {
        lines.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect()
    }

    #[track_caller]
    fn check(lines: &[(&str, &str)], expect: &[&str]) {
        let mut expect: Vec<_> = expect.iter().map(|it| hash(it)).collect();
        expect.sort_unstable();
        assert_eq!(expect, *of(&fields(lines), &TagPolicy::default(), KEY), "{lines:?}");
    }

    #[test]
    fn lists_by_spaces_and_commas() {
        check(&[("Surrogate-Key", "one two  three")], &["one", "two", "three"]);
        check(&[("cache-tag", "one,two, three,,")], &["one", "two", "three"]);
        check(
            &[("Cache-Tag", "one"), ("Surrogate-Key", "one two"), ("CACHE-TAG", "Two")],
            &["one", "two", "Two"],
        );
        check(&[("Surrogate-Control", "one")], &[]);
        check(&[("Cache-Tag", " , ")], &[]);
    }

    #[test]
    fn rows_have_the_tags_of_all_rows_with_theirs() {
        check(&[("Cache-Tag", "db:orders")], &["db:orders", "db:"]);
        check(&[("Cache-Tag", "db:orders:5")], &["db:orders:5", "db:orders:", "db:"]);
        check(&[("Cache-Tag", "db:a:b=c:d=e")], &["db:a:b=c:d=e", "db:a:b=", "db:a:", "db:"]);
        check(&[("Cache-Tag", "db: db:a: xdb:a:b=c")], &["db:", "db:a:", "db:a:%", "xdb:a:b=c"]);
        check(&[("Cache-Tag", "db:a:b=")], &["db:a:b=", "db:a:b=%", "db:a:", "db:"]);
    }

    #[test]
    fn rows_may_name_their_database() {
        check(
            &[("Cache-Tag", "db:shop/a:b=c/d")],
            &["db:shop/a:b=c/d", "db:shop/a:b=", "db:shop/a:", "db:shop/"],
        );
        check(&[("Cache-Tag", "db:a:b/c")], &["db:a:b/c", "db:a:", "db:"]);
        // The only database needs no name.
        let policy = TagPolicy { database: Some("shop".into()), ..TagPolicy::default() };
        let of = |tag: &str| of(&fields(&[("Cache-Tag", tag)]), &policy, KEY);
        assert_eq!(of("db:a:5"), of("db:shop/a:5"));
        assert_ne!(of("db:a:5"), of("db:other/a:5"));
    }

    #[test]
    fn groups_are_of_their_origin() {
        check(
            &[("Cache-Groups", r#""a", "b c""#)],
            &["a", "b c", "http://example.com a", "http://example.com b c"],
        );
        check(
            &[("Cache-Groups", r#""a";x=1"#), ("Cache-Groups", r#""b""#)],
            &["a", "b", "http://example.com a", "http://example.com b"],
        );
        check(&[("Cache-Groups", r#""a", b, 1, ("c")"#)], &["a", "http://example.com a"]);
        check(&[("Cache-Groups", r#""a", "#)], &[]);
        check(&[("Cache-Groups", "a b")], &[]);
        let of = |key: &[u8]| of(&fields(&[("Cache-Groups", r#""a""#)]), &TagPolicy::default(), key);
        assert_ne!(of(b"http://example.com/"), of(b"https://example.com/"));
        assert_ne!(of(b"http://example.com/"), of(b"http://example.com:81/"));
        assert_eq!(of(b"http://example.com/x"), of(b"http://example.com *"));
        assert_eq!(of(b"http://*/x"), of(b"http://*/y c:a=b"));
    }

    #[test]
    fn a_response_with_too_many_tags_matches_every_tag() {
        let many = |n: usize| (0..n).map(|it| format!("t{it}")).collect::<Vec<_>>().join(" ");
        let of = |text: &str| of(&fields(&[("Surrogate-Key", text)]), &TagPolicy::default(), KEY);
        assert_eq!(MOST, of(&many(MOST)).len());
        assert!(!contain(&of(&many(MOST)), "another"));
        assert_eq!([EVERY], *of(&many(MOST + 1)));
        assert!(contain(&of(&many(MOST + 1)), "another"));
    }

    #[test]
    fn unsafe_methods_invalidate_groups() {
        let lines = fields(&[("Cache-Group-Invalidation", r#""a", "b""#)]);
        let expect = ["http://example.com a", "http://example.com b"];
        for method in ["POST", "DELETE", "FOO"] {
            assert_eq!(expect[..], invalidated(method, 200, &lines, KEY));
            assert_eq!(expect[..], invalidated(method, 303, &lines, KEY));
            assert!(invalidated(method, 404, &lines, KEY).is_empty());
        }
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(invalidated(method, 200, &lines, KEY).is_empty());
        }
        let many = (0..99).map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ");
        let lines = fields(&[("Cache-Group-Invalidation", &many)]);
        assert_eq!(MOST_INVALIDATED, invalidated("POST", 200, &lines, KEY).len());
    }

    #[test]
    fn clients_see_the_tag_fields_that_the_policy_sends() {
        let mut policy = TagPolicy::default();
        assert!(is_hidden("surrogate-key", &policy) && is_hidden("CACHE-TAG", &policy));
        assert!(!is_hidden("Cache-Groups", &policy) && !is_hidden("ETag", &policy));
        policy.headers.push("Cache-Groups".to_owned());
        assert!(!is_hidden("Cache-Groups", &policy));
        policy.send = true;
        assert!(!is_hidden("surrogate-key", &policy));
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..60), key in proptest::collection::vec(any::<u8>(), 0..20)) {
            for name in ["Cache-Groups", "Cache-Tag", "Cache-Group-Invalidation"] {
                let fields = [Field { name, value: &value }];
                let tags = of(&fields, &TagPolicy::default(), &key);
                prop_assert!(tags.is_sorted_by(|a, b| a < b));
                prop_assert!(invalidated("POST", 200, &fields, &key).len() <= MOST_INVALIDATED);
            }
        }
    }
}
