//! The form of a key in the fleet: readable where possible, an MD5 sum otherwise. Two keys may get the same form; the
//! full key is in the envelope, and is compared. `ring` chooses the server.
//!
//! | key | form |
//! |---|---|
//! | `http://example.com/a?b` | `PREFIX` `http://example.com/a?b` |
//! | the same with a namespace | `PREFIX` `http://NAMESPACE/a?b` |
//! | a key that is too long or not clean, or any key with `md5_keys` | `PREFIX` and 32 hexadecimal digits |
//! | a variant | the key, `#` and 32 hexadecimal digits |
//! | an item of the nodes | `PREFIX` `!` and its name, or 32 hexadecimal digits |
//! | a part of a large body | `PREFIX` `part:` and 16 hexadecimal digits, `:` and a number |

use crate::key::authority;
use larder_wire::memcached::{FleetKey, MAX_KEY};
use std::borrow::Cow;

/// The longest prefix.
pub const MAX_PREFIX: usize = 128;

/// Hexadecimal digits of an MD5 sum.
const DIGITS: usize = 32;

/// The rules for writing keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetKeys {
    prefix: Box<str>,
    namespace: Option<Box<str>>,
    md5: bool,
}

impl FleetKeys {
    /// Keys that begin with `prefix`, have `namespace` in place of the host, and are always MD5 sums if `md5`.
    ///
    /// # Errors
    /// A sentence: the prefix or the namespace cannot be part of a key.
    pub fn new(prefix: &str, namespace: Option<&str>, md5: bool) -> Result<FleetKeys, String> {
        let is_clean = |it: &str| it.bytes().all(is_readable);
        if prefix.len() > MAX_PREFIX || !is_clean(prefix) {
            return Err(format!(
                "the prefix {prefix:?} cannot be part of a key: it may have up to {MAX_PREFIX} printable ASCII \
                 characters, without spaces and #"
            ));
        }
        if let Some(it) = namespace.filter(|it| it.is_empty() || it.len() > MAX_PREFIX || !is_clean(it)) {
            return Err(format!(
                "the namespace {it:?} cannot be part of a key: it may have 1 to {MAX_PREFIX} printable ASCII \
                 characters, without spaces and #"
            ));
        }
        Ok(FleetKeys { prefix: prefix.into(), namespace: namespace.map(Into::into), md5 })
    }

    /// The prefix of every key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The replacement for the host in keys.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The full key as in the envelope, for comparison: with the namespace in place of the host, since a namespace means
    /// that hosts share.
    #[must_use]
    pub fn full<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match (&self.namespace, authority(key)) {
            (Some(namespace), Some((start, end))) => {
                Cow::Owned([&key[..start], namespace.as_bytes(), &key[end..]].concat())
            }
            _ => Cow::Borrowed(key),
        }
    }

    /// Whether the fleet's form alone identifies the key: it is readable, or the operator has chosen hashes for all.
    #[must_use]
    pub fn identifies(&self, key: &[u8]) -> bool {
        self.md5 || self.base(key, 0).ends_with(&self.full(key))
    }

    /// The form of `key` (`semantics::key`): its newest response is there.
    #[must_use]
    pub fn key(&self, key: &[u8]) -> FleetKey {
        self.clean(self.base(key, 0))
    }

    /// The key of one variant of `key`, by its variant key (`semantics::vary`).
    #[must_use]
    pub fn variant(&self, key: &[u8], variant: &[u8]) -> FleetKey {
        let mut text = self.base(key, 1 + DIGITS);
        text.push(b'#');
        push_md5(variant, &mut text);
        self.clean(text)
    }

    /// The key of one part of a large body. It is made only from the generation, which is random: the envelope identifies
    /// the part.
    #[must_use]
    pub fn part(&self, generation: u64, index: u32) -> FleetKey {
        self.clean(format!("{}part:{generation:016x}:{index}", self.prefix).into_bytes())
    }

    /// The key of the lease holder's sign of life for the item under `key`.
    #[must_use]
    pub fn liveness_key(&self, key: &FleetKey) -> FleetKey {
        let mut text = format!("{}turn:", self.prefix).into_bytes();
        push_md5(key.as_bytes(), &mut text);
        self.clean(text)
    }

    /// The key of an item of the nodes. No page has such a key: those continue with a scheme, a hash or a namespace.
    pub(super) fn shared(&self, name: &str) -> FleetKey {
        let mut text = format!("{}!{name}", self.prefix).into_bytes();
        if text.len() > MAX_KEY || !name.bytes().all(is_readable) {
            text.truncate(self.prefix.len() + 1);
            push_md5(name.as_bytes(), &mut text);
        }
        self.clean(text)
    }

    /// The key with room for `more` bytes behind it.
    fn base(&self, key: &[u8], more: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(MAX_KEY);
        text.extend_from_slice(self.prefix.as_bytes());
        let name = self.full(key);
        text.extend_from_slice(&name);
        let is_short = text.len() + more <= MAX_KEY;
        if self.md5 || !is_short || name.is_empty() || !name.iter().all(|it| is_readable(*it)) {
            text.truncate(self.prefix.len());
            push_md5(&name, &mut text);
        }
        text
    }

    fn clean(&self, text: Vec<u8>) -> FleetKey {
        // The prefix is clean and short (`new`), and the rest was checked or made here.
        FleetKey::new(text).expect("prefix and name are clean and short")
    }
}

/// Whether a byte may be in a readable key. Not `#`: it begins the suffix of variants, so that no URL can name a variant
/// of another.
fn is_readable(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}

fn push_md5(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:x}", md5::compute(bytes)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(keys: &FleetKeys, key: &str, expect: &str) {
        assert_eq!(expect, keys.key(key.as_bytes()).as_str());
    }

    #[test]
    fn keys_are_readable_where_they_can_be() {
        let plain = FleetKeys::default();
        check(&plain, "http://example.com/a?b=%20", "http://example.com/a?b=%20");
        check(&plain, "http://example.com/a h:x-device=phone", "2f995430d9f32f9717481a372ac29c09");
        check(&plain, "http://example.com/a#b", "165d8c120c53dc6134b34d39b534d569");
        check(&plain, "http://example.com/ä", "d820cae9ff57df016d9f3457249f41d5");
    }

    #[test]
    fn items_of_the_nodes_have_keys_of_their_own() {
        let keys = FleetKeys::new("p:", None, true).unwrap();
        assert_eq!("p:!acme:orders", keys.shared("acme:orders").as_str());
        let long = "a".repeat(250);
        assert_eq!(format!("p:!{:x}", md5::compute(&long)), keys.shared(&long).as_str());
        assert_eq!(format!("p:!{:x}", md5::compute("a b")), keys.shared("a b").as_str());
    }

    #[test]
    fn a_namespace_stands_for_the_host() {
        let keys = FleetKeys::new("app:", Some("shop"), false).unwrap();
        check(&keys, "https://example.com:8443/a//b", "app:https://shop/a//b");
        check(&keys, "https://[::1]/a", "app:https://shop/a");
        check(&keys, "https://*/a", "app:https://shop/a");
        check(&keys, "https://example.com", "app:https://shop");
        // The host of an asterisk-form target ends at the space, which is not readable.
        assert_eq!(36, keys.key(b"http://example.com *").as_str().len());
        assert_eq!(keys.key(b"http://example.com *"), keys.key(b"http://example.org *"));
        assert_eq!("app:", &keys.key(b"").as_str()[..4]);
    }

    #[test]
    fn a_long_key_is_a_sum() {
        let keys = FleetKeys::new("p:", None, false).unwrap();
        let long = |length: usize| format!("http://a/{}", "x".repeat(length - 9)).into_bytes();
        assert_eq!(250, keys.key(&long(248)).as_str().len());
        assert_eq!(34, keys.key(&long(249)).as_str().len());
        // A variant needs room for its own sum.
        assert_eq!(250, keys.variant(&long(215), b"v").as_str().len());
        assert_eq!(2 + 32 + 33, keys.variant(&long(216), b"v").as_str().len());
        let sums = FleetKeys::new("p:", None, true).unwrap();
        assert_eq!(34, sums.key(b"http://a/").as_str().len());
    }

    #[test]
    fn no_url_names_a_variant_or_a_part() {
        let keys = FleetKeys::default();
        let variant = keys.variant(b"http://a/", b"accept-encoding=br\n");
        assert!(variant.as_str().starts_with("http://a/#"), "{variant:?}");
        assert_ne!(variant, keys.key(variant.as_bytes()));
        assert_eq!("part:00000000000000ff:3", keys.part(255, 3).as_str());
        assert_eq!(
            "app:part:ffffffffffffffff:4294967295",
            FleetKeys::new("app:", None, true).unwrap().part(u64::MAX, u32::MAX).as_str()
        );
    }

    #[test]
    fn an_invalid_prefix_or_namespace_is_rejected() {
        for bad in ["a b", "a\n", "ä", "a#", &"a".repeat(129)] {
            assert!(FleetKeys::new(bad, None, false).unwrap_err().contains("the prefix"), "{bad}");
            assert!(FleetKeys::new("", Some(bad), false).unwrap_err().contains("the namespace"), "{bad}");
        }
        assert!(FleetKeys::new("", Some(""), false).is_err());
        let longest = "a".repeat(128);
        let keys = FleetKeys::new(&longest, Some(&longest), false).unwrap();
        assert_eq!(128 + 32, keys.key(b"http://a/").as_str().len());
    }

    proptest! {
        #[test]
        fn the_fleet_key_of_any_url_is_printable(
            key in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..400),
                "(http|https)://[a-z.:]{0,40}[ -~]{0,300}".prop_map(String::into_bytes),
            ],
            variant in prop::collection::vec(any::<u8>(), 0..400),
            prefix in "[!-\"$-~]{0,128}",
            namespace in prop::option::of("[!-\"$-~]{1,128}"),
            md5: bool,
            (generation, index) in any::<(u64, u32)>(),
        ) {
            let keys = FleetKeys::new(&prefix, namespace.as_deref(), md5).unwrap();
            for it in [keys.key(&key), keys.variant(&key, &variant), keys.part(generation, index)] {
                prop_assert!((1..=250).contains(&it.as_bytes().len()));
                prop_assert!(it.as_bytes().iter().all(u8::is_ascii_graphic));
                prop_assert!(it.as_str().starts_with(&prefix));
            }
            prop_assert_ne!(keys.key(&key), keys.variant(&key, &variant));
        }
    }
}
