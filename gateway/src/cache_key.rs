//! The key of a request as the store gets it, with one spelling of the authority. `semantics::key` decides its parts.

use larder_semantics::field::Field;
use larder_semantics::key;
use larder_semantics::policy::Policy;
use larder_semantics::scheme::Scheme;
use std::borrow::Cow;

/// Writes the key of a request to a cached route: scheme, normalised authority, exact target.
#[inline]
pub(crate) fn write(
    policy: &Policy,
    scheme: Scheme,
    authority: &str,
    target: &str,
    fields: &[Field<'_>],
    out: &mut Vec<u8>,
) {
    policy.key.write(scheme.name(), &normal(scheme, authority), target, fields, out);
}

/// The common beginning of the keys of all responses to a URL, as a purge names it.
pub(crate) fn of_url(policy: &Policy, scheme: Scheme, authority: &str, target: &str) -> Box<[u8]> {
    let mut key = Vec::new();
    policy.key.of_url().write(scheme.name(), &normal(scheme, authority), target, &[], &mut key);
    key.into()
}

/// The one spelling of an authority, in keys and towards origins: see `key::authority`.
#[inline]
pub(crate) fn normal(scheme: Scheme, authority: &str) -> Cow<'_, str> {
    let shorter = scheme.without_port(authority);
    // An upper-case letter, or a zero after a colon, which may begin a port.
    let mut before = 0;
    let is_normal = shorter.bytes().all(|it| {
        let begins_port = it == b'0' && before == b':';
        before = it;
        !begins_port && !it.is_ascii_uppercase()
    });
    if is_normal {
        return Cow::Borrowed(shorter);
    }
    let mut normal = String::with_capacity(shorter.len());
    key::authority(scheme.name(), shorter, &mut normal);
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_has_one_spelling() {
        for it in ["a", "A:80", "a:", "a:080", "a:08080", "[::0]", "[::FF]:0081", "a:0", ""] {
            let mut expect = String::new();
            key::authority("http", it, &mut expect);
            assert_eq!(expect, normal(Scheme::Http, it), "{it}");
        }
    }
}
