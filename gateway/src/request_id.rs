//! The identifier of a request: `X-Request-Id`, made once where fields for the origin contain `{request_id}`. A trusted proxy's is kept.

use crate::route::GatewayRoute;
use larder_semantics::field::FieldList;
use larder_semantics::template::TemplateInput;
use larder_stdx::clock;
use larder_transport::Client;
use larder_wire::message::Request;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The field.
pub(crate) const NAME: &str = "X-Request-Id";
/// Bytes of the longest identifier of a proxy that is kept.
const LONGEST: usize = 128;

/// Gives a request its identifier, where the route sends it. With `cache.key.strict` there is none: every field that the
/// key lacks would let the request bypass the cache.
pub fn identify(route: &GatewayRoute, request: &mut Rc<Request>, client: &Client) {
    let is_read =
        route.rewrite.fields.as_ref().is_some_and(|it| {
            it.1.set.iter().any(|it| it.1.inputs().any(|it| it == TemplateInput::RequestId))
        });
    let is_of_proxy = !client.hops.is_empty() && is_well_formed(&request.fields);
    if !is_read || is_of_proxy {
        return;
    }
    let fields = &mut Rc::make_mut(request).fields;
    match route.policy.key.strict {
        true => fields.remove(NAME),
        false => fields.set(NAME, made()),
    }
}

/// Whether a request has one identifier, of bytes that no log and no field misreads.
fn is_well_formed(fields: &FieldList) -> bool {
    let mut lines = fields.get_all(NAME);
    let is_plain = |it: &u8| it.is_ascii_alphanumeric() || b"-_.+/=:@".contains(it);
    match (lines.next(), lines.next()) {
        (Some(it), None) => (1..=LONGEST).contains(&it.len()) && it.iter().all(is_plain),
        _ => false,
    }
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
            let mut fields = FieldList::new();
            lines.iter().for_each(|it| fields.push("x-request-id", it));
            is_well_formed(&fields)
        };
        assert!(check(&["0193-ab_c.d"]) && check(&[&"a".repeat(128)]));
        for wrong in [&[][..], &[""], &["a", "b"], &["a b"], &["a\"b"], &[&*"a".repeat(129)]] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }
}
