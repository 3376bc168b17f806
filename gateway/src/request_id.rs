//! The identifier of a request: `X-Request-Id`, made once before its admission where a text of its route or a log reads `{request_id}`.
//! A trusted proxy's is kept.

use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::request_view::REQUEST_ID;
use larder_stdx::clock;
use larder_wire::message::Request;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the longest identifier of a proxy that is kept.
const LONGEST: usize = 128;

/// The identifier of a request with these fields: that of a trusted proxy (`is_trusted`) if it is well-formed, otherwise a new one.
#[must_use]
pub fn of(fields: &[Field<'_>], is_trusted: bool) -> String {
    let of_proxy = || well_formed(fields).filter(|_| is_trusted);
    of_proxy().map_or_else(made, str::to_owned)
}

/// The fields of a request with this identifier, the last one, in place of the client's.
#[must_use]
pub fn named<'a>(fields: &[Field<'a>], id: &'a str) -> Vec<Field<'a>> {
    let mut named = Vec::with_capacity(fields.len() + 1);
    named.extend(fields.iter().filter(|it| !is_spelling(it.name)));
    named.push(Field { name: REQUEST_ID, value: id.as_bytes() });
    named
}

/// Gives a request its identifier.
pub fn identify(request: &mut Rc<Request>, is_trusted: bool) {
    let id = of(&request.fields.view(), is_trusted);
    give(&mut Rc::make_mut(request).fields, id.as_bytes());
}

/// Gives a request this identifier, as the last of its fields.
pub fn give(fields: &mut FieldList, id: &[u8]) {
    fields.retain(|it| !is_spelling(it.name));
    fields.push(REQUEST_ID, id);
}

/// Whether a name is that of the field, also in the spelling that is the same for CGI (RFC 3875 section 4.1.18).
fn is_spelling(name: &str) -> bool {
    let same = |(one, other): (u8, u8)| one.eq_ignore_ascii_case(&other) || (one, other) == (b'_', b'-');
    name.len() == REQUEST_ID.len() && name.bytes().zip(REQUEST_ID.bytes()).all(same)
}

/// The identifier in these fields, if there is one, of bytes that no log and no field misreads.
fn well_formed<'a>(fields: &'a [Field<'a>]) -> Option<&'a str> {
    let is_plain = |it: &u8| it.is_ascii_alphanumeric() || b"-_.+/=:@".contains(it);
    let mut lines = field::all(fields, REQUEST_ID);
    let (Some(it), None) = (lines.next(), lines.next()) else { return None };
    let fits = (1..=LONGEST).contains(&it.len()) && it.iter().all(is_plain);
    std::str::from_utf8(it).ok().filter(|_| fits)
}

/// A new UUID of version 7 (RFC 9562 §5.7): the time in milliseconds, then bits that no client can predict.
fn made() -> String {
    static RANDOM: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let millis = clock::unix_micros(clock::precise_micros()) / 1000;
    let [a, b] = [0, 1].map(|it: usize| RANDOM[it].hash_one((count, millis)));
    let (head, low) = (millis & 0xffff_ffff_ffff, b & 0x3fff_ffff_ffff_ffff | 1 << 63);
    format!(
        "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
        head >> 16,
        head & 0xffff,
        a & 0xfff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_uuids_of_version_7_and_sort_by_time() {
        let (one, two) = (made(), made());
        for it in [&one, &two] {
            let parts: Vec<usize> = it.split('-').map(str::len).collect();
            assert_eq!(vec![8, 4, 4, 4, 12], parts, "{it}");
            assert!(it.as_bytes()[14] == b'7' && b"89ab".contains(&it.as_bytes()[19]), "{it}");
        }
        assert!(one != two && one[..13] <= two[..13]);
    }

    #[test]
    fn an_identifier_of_a_proxy_is_one_plain_line() {
        let check = |lines: &[&str]| {
            let fields: Vec<_> =
                lines.iter().map(|it| Field { name: "x-request-id", value: it.as_bytes() }).collect();
            well_formed(&fields).is_some()
        };
        assert!(check(&["0193-ab_c.d"]) && check(&[&"a".repeat(128)]));
        for wrong in [&[][..], &[""], &["a", "b"], &["a b"], &["a\"b"], &[&*"a".repeat(129)]] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn an_identifier_replaces_every_spelling() {
        let fields = ["x-request-id", "X_Request_ID", "X-Request-Ids", "A"];
        let fields = fields.map(|name| Field { name, value: b"forged" });
        let names: Vec<_> = named(&fields, "7").iter().map(|it| (it.name, it.value)).collect();
        let forged = b"forged".as_slice();
        assert_eq!(vec![("X-Request-Ids", forged), ("A", forged), (REQUEST_ID, b"7".as_slice())], names);
    }
}
