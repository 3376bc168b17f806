//! What operators are shown of fields that hold a client's secrets: names, schemes and attributes, never a value. Every view of heads, stored
//! or live, goes through here: `explain`, listings, logs, traces.

use std::borrow::Cow;

/// What stands in the place of a secret.
const HIDDEN: &[u8] = b"***";

/// A value of the field `name` as operators may see it.
///
/// * `Cookie`: the names (RFC 6265 §4.2.1). `Set-Cookie`: the name and the attributes (§4.1.1).
/// * `Authorization`, `Proxy-Authorization`: the scheme (RFC 9110 §11.4).
/// * Others: unchanged.
#[must_use]
pub fn shown<'v>(name: &str, value: &'v [u8]) -> Cow<'v, [u8]> {
    let is = |it: &str| name.eq_ignore_ascii_case(it);
    if is("cookie") {
        let pairs = value.split(|it| *it == b';').map(|it| without_value(it.trim_ascii()));
        return Cow::Owned(pairs.collect::<Vec<_>>().join(&b"; "[..]));
    }
    if is("set-cookie") {
        let end = value.iter().position(|it| *it == b';').unwrap_or(value.len());
        let (pair, attributes) = value.split_at(end);
        return Cow::Owned([&without_value(pair.trim_ascii())[..], attributes].concat());
    }
    if is("authorization") || is("proxy-authorization") {
        return Cow::Owned(match value.iter().position(|it| *it == b' ') {
            Some(end) => [&value[..=end], HIDDEN].concat(),
            // A secret without a scheme.
            None => HIDDEN.to_vec(),
        });
    }
    Cow::Borrowed(value)
}

/// A pair without its value; what has no name is all secret.
fn without_value(pair: &[u8]) -> Vec<u8> {
    match pair.iter().position(|it| *it == b'=') {
        Some(end) => [&pair[..=end], HIDDEN].concat(),
        None if pair.is_empty() => Vec::new(),
        None => HIDDEN.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(name: &str, value: &str, expect: &str) {
        assert_eq!(expect, String::from_utf8_lossy(&shown(name, value.as_bytes())), "{name}: {value}");
    }

    #[test]
    fn names_schemes_and_attributes_are_shown() {
        check("Cookie", "sid=abc; theme=dark", "sid=***; theme=***");
        check("cookie", "abc; a=b=c;;x=", "***; a=***; ; x=***");
        check("Set-Cookie", "sid=abc; Path=/; HttpOnly", "sid=***; Path=/; HttpOnly");
        check("SET-COOKIE", "abc", "***");
        check("Authorization", "Bearer abc.def", "Bearer ***");
        check("Proxy-Authorization", "abc", "***");
        check("Vary", "Cookie", "Cookie");
    }

    proptest! {
        #[test]
        fn no_value_is_shown(name in "(Cookie|Set-Cookie|Authorization|Proxy-Authorization)", secret in "[A-Z0-9]{8}") {
            for value in [format!("a={secret}"), secret.clone(), format!("x=1; b={secret}"), format!("Basic {secret}")] {
                let of_attributes = name == "Set-Cookie" && value.starts_with('x');
                let text = String::from_utf8_lossy(&shown(&name, value.as_bytes())).into_owned();
                prop_assert!(of_attributes || !text.contains(&secret), "{name}: {value} -> {text}");
            }
        }
    }
}
