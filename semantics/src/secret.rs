//! Redaction of a client's secrets in fields for operators: names, schemes and attributes, never a value. Every view of
//! heads, stored or live, uses this module: `explain`, listings, logs, traces.

mod line;
mod path;

pub use line::harmless_line;
pub use path::has_random_part;

use crate::date;
use std::borrow::Cow;

/// The replacement for a secret.
const HIDDEN: &[u8] = b"***";

/// A value of the field `name` as shown to operators.
///
/// * `Cookie`: the names (RFC 6265 §4.2.1). `Set-Cookie`: the name and the names of attributes (§4.1.1), with the values
///   of attributes for the scope and lifetime of the cookie, if they are well-formed.
/// * `Authorization`, `Proxy-Authorization`: the scheme (RFC 9110 §11.4).
/// * `Referer`, `Location`, `Content-Location`: the URL without secret parameters ([`shown_target`]).
/// * Fields whose name says that they are secret (`X-Api-Key`, `X-Auth-Token`): nothing.
/// * Other fields: unchanged.
#[must_use]
pub fn shown<'v>(name: &str, value: &'v [u8]) -> Cow<'v, [u8]> {
    let is = |it: &str| name.eq_ignore_ascii_case(it);
    if is("cookie") {
        let pairs = value.split(|it| *it == b';').map(|it| without_value(it.trim_ascii()));
        return Cow::Owned(pairs.collect::<Vec<_>>().join(&b"; "[..]));
    }
    if is("set-cookie") || is("set-cookie2") {
        let mut parts = value.split(|it| *it == b';').map(<[u8]>::trim_ascii);
        let pair = without_value(parts.next().unwrap_or_default());
        return Cow::Owned(parts.fold(pair, |shown, it| [&shown[..], b"; ", &attribute(it)].concat()));
    }
    if is("authorization") || is("proxy-authorization") {
        return Cow::Owned(match value.iter().position(|it| *it == b' ') {
            Some(end) => [&value[..=end], HIDDEN].concat(),
            // A secret without a scheme.
            None => HIDDEN.to_vec(),
        });
    }
    if is("referer") || is("location") || is("content-location") {
        return shown_url(value);
    }
    if names_secret(name) && !value.is_empty() {
        return Cow::Borrowed(HIDDEN);
    }
    Cow::Borrowed(value)
}

/// Whether the name of a field says that its value is a secret: `X-Api-Key`, `X-Auth-Token` and the like.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    with_plain(name, has_secret_part)
}

/// Whether the name of a request field says that a condition compares its value with a secret that a proxy and larder share:
/// `X-Origin-Verify`, `X-CDN-Key`. Not fields of ordinary requests.
#[must_use]
pub fn is_shared_secret(name: &str) -> bool {
    let ends = |it: &str| matches!(it.rsplit('-').next(), Some("auth" | "key" | "pass" | "verify"));
    !is_of_all_clients(name) && with_plain(name, ends)
}

fn has_secret_part(name: &str) -> bool {
    let begins_part = |(at, first): (usize, &u8)| {
        parts_with(*first).iter().any(|it| name.as_bytes()[at..].starts_with(it.as_bytes()))
    };
    name.as_bytes().iter().enumerate().any(begins_part) || ["x-auth", "x-key", "dpop"].contains(&name)
}

/// The parts of a name that say that it is secret, by their first letter: every name of every stored response is searched for them.
fn parts_with(first: u8) -> &'static [&'static str] {
    match first {
        b'a' => &["apikey", "api-key", "access-key", "authorization", "authentication"],
        b'c' => &["csrf", "credential"],
        b'j' => &["jwt"],
        b'p' => &["password", "passwd"],
        b's' => &["secret", "session", "subscription-key", "signature"],
        b't' => &["token"],
        _ => &[],
    }
}

/// Calls `then` with a name in lower case and with `-` for `_`. Allocates only for a name of more than 64 bytes.
pub(crate) fn with_plain<T>(name: &str, then: impl FnOnce(&str) -> T) -> T {
    let mut room = [0; 64];
    let Some(plain) = room.get_mut(..name.len()) else {
        return then(&name.to_ascii_lowercase().replace('_', "-"));
    };
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = if from == b'_' { b'-' } else { from.to_ascii_lowercase() };
    }
    then(std::str::from_utf8(plain).unwrap_or_default())
}

/// Whether the name of a field of a request says that its value identifies the client, secret or not: `X-Api-Key`, `X-User-Id`,
/// `Tailscale-User-Login`. Not `Authorization` and `Cookie`, which have rules of their own.
#[must_use]
pub fn identifies_client(name: &str) -> bool {
    !is_of_all_clients(name) && with_plain(name, |it| names_client(it) || has_secret_part(it))
}

/// Fields of ordinary requests, by their length: most names cost a comparison of a number. Scripts cannot set those with `Sec-`.
fn is_of_all_clients(name: &str) -> bool {
    let is = |all: &[&str]| all.iter().any(|it| name.eq_ignore_ascii_case(it));
    name.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("sec-"))
        || match name.len() {
            3 => is(&["dnt"]),
            4 => is(&["host", "from", "date"]),
            6 => is(&["accept", "cookie", "pragma", "origin"]),
            7 => is(&["referer"]),
            8 => is(&["priority"]),
            10 => is(&["user-agent", "connection"]),
            13 => is(&["authorization", "cache-control", "if-none-match"]),
            15 => is(&["accept-encoding", "accept-language", "x-forwarded-for", "idempotency-key"]),
            17 => is(&["if-modified-since"]),
            19 => is(&["proxy-authorization"]),
            25 => is(&["upgrade-insecure-requests"]),
            _ => false,
        }
}

/// Whether a name in lower case has a word for a person or an account, or is one of those that have none and mean one.
fn names_client(name: &str) -> bool {
    const WORDS: [&str; 27] = [
        "user",
        "username",
        "userid",
        "useremail",
        "userinfo",
        "account",
        "accountid",
        "tenant",
        "tenantid",
        "customer",
        "customerid",
        "consumer",
        "member",
        "email",
        "mail",
        "login",
        "uid",
        "identity",
        "principal",
        "impersonate",
        "subject",
        "otp",
        "organization",
        "organisation",
        "org",
        "workspace",
        "ticket",
    ];
    const WHOLE: [&str; 9] = [
        "sudo",
        "client",
        "client-id",
        "x-client",
        "x-client-id",
        "clientid",
        "x-clientid",
        "x-on-behalf-of",
        "on-behalf-of",
    ];
    let is_agent = || name.ends_with("user-agent") || name.contains("user-agent-");
    name.split('-').any(|it| WORDS.contains(&it)) && !is_agent()
        || ["-key", "-auth"].iter().any(|it| name.ends_with(it))
        || WHOLE.contains(&name)
}

/// A target in which the values of parameters, of the query and of the path (`;jsessionid=…`), are hidden whose name says that they are secret:
/// those of [`names_secret`], signatures, codes, sessions and tickets. So are values with such a parameter in them, as in a URL to return to, and
/// the segments of the path that are secrets (`path`).
#[must_use]
pub fn shown_target(target: &str) -> Cow<'_, str> {
    match shown_parameters(target) {
        Cow::Borrowed(it) => path::shown_path(it),
        Cow::Owned(it) => match path::shown_path(&it) {
            Cow::Borrowed(_) => Cow::Owned(it),
            Cow::Owned(shown) => Cow::Owned(shown),
        },
    }
}

fn shown_parameters(target: &str) -> Cow<'_, str> {
    const MARKS: [char; 4] = ['?', '&', ';', '#'];
    if !target.contains('=') && !target.contains(MARKS) {
        return Cow::Borrowed(target);
    }
    // Made at the first secret: most targets have none.
    let mut shown: Option<String> = None;
    let (mut begin, mut in_query) = (0, false);
    for part in target.split_inclusive(MARKS) {
        let (pair, mark) = part.split_at(part.trim_end_matches(MARKS).len());
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A path before its first mark is no pair.
        let is_pair = in_query || pair.contains('=') && begin > 0;
        let name_of_path = name.rsplit('/').next().unwrap_or_default();
        if is_pair && (is_secret_parameter(name_of_path) || is_secret_value(value)) {
            // The rest of a path behind a parameter is part of it.
            shown.get_or_insert_with(|| target[..begin].to_owned()).extend([name, "=***", mark]);
        } else if let Some(shown) = &mut shown {
            shown.push_str(part);
        }
        begin += part.len();
        in_query |= mark.contains('?');
    }
    shown.map_or(Cow::Borrowed(target), Cow::Owned)
}

/// Whether the name of a parameter says that its value is a secret.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    const NAMES: [&str; 30] = [
        "assertion",
        "auth",
        "bearer",
        "cftoken",
        "code",
        "hmac",
        "key",
        "magic",
        "otc",
        "otp",
        "pass",
        "passcode",
        "passphrase",
        "pin",
        "policy",
        "pw",
        "pwd",
        "relaystate",
        "reset",
        "samlart",
        "samlrequest",
        "samlresponse",
        "sesskey",
        "sid",
        "sig",
        "sso",
        "ticket",
        "totp",
        "verifier",
        "wresult",
    ];
    const ENDS: [&str; 6] = ["-key", "-code", "-verifier", "-ticket", "sessid", "md5"];
    // An encoded name may be any.
    name.contains('%')
        || with_plain(name, |it| {
            has_secret_part(it) || NAMES.contains(&it) || ENDS.iter().any(|end| it.ends_with(end))
        })
}

fn is_secret_value(value: &str) -> bool {
    path::is_signed_token(value) || has_secret_parameter(value)
}

/// Whether a value has a secret parameter in it, encoded or not.
fn has_secret_parameter(value: &str) -> bool {
    let mut text = Cow::Borrowed(value);
    for _ in 0..3 {
        let mut pairs = text.split(['?', '&', ';', '#', '/']);
        if pairs.any(|it| it.split_once('=').is_some_and(|it| is_secret_parameter(it.0.trim_matches('"')))) {
            return true;
        }
        if !text.contains('%') {
            return false;
        }
        text = Cow::Owned(decoded(&text));
    }
    false
}

/// A text with its percent-encoded ASCII decoded.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|it| u8::from_str_radix(it, 16).ok()).filter(u8::is_ascii);
        match byte {
            Some(it) => {
                out.push(char::from(it));
                out.push_str(&part[2..]);
            }
            None => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

/// A cache key ([`crate::key`]) for display to operators: the values of cookies, credentials and secret parameters in it are hidden.
/// A space in a key always precedes an addition of the recipe to the URL.
#[must_use]
pub fn shown_key(key: &[u8]) -> Cow<'_, [u8]> {
    let mut parts = key.split(|it| *it == b' ');
    let url = shown_url(parts.next().unwrap_or_default());
    if !key.contains(&b' ') {
        return url;
    }
    Cow::Owned(parts.fold(url.into_owned(), |mut shown, part| {
        shown.push(b' ');
        match part.strip_prefix(b"c:") {
            Some(cookie) => {
                shown.extend_from_slice(b"c:");
                let is_named = cookie.contains(&b'=');
                shown.extend_from_slice(&if is_named { without_value(cookie) } else { cookie.to_vec() });
            }
            None => {
                let end = part.iter().position(|it| *it == b'=').map_or(part.len(), |at| at + 1);
                let (name, value) = part.split_at(end);
                let field = name.strip_prefix(b"h:").and_then(|it| it.strip_suffix(b"="));
                let field = field.and_then(|it| std::str::from_utf8(it).ok()).unwrap_or_default();
                shown.extend_from_slice(name);
                shown.extend_from_slice(&self::shown(field, value));
            }
        }
        shown
    }))
}

/// The length of the part of a key, from its beginning, that [`shown_key`] leaves as it is, whatever follows: up to the query, to the value of
/// a parameter of the path, to a segment that may be a secret, or to the first addition of the recipe.
#[must_use]
pub fn clear_part(key: &[u8]) -> usize {
    path::clear_segments(&key[..memchr::memchr3(b'?', b'=', b' ', key).unwrap_or(key.len())])
}

/// [`shown_target`] of the bytes of a URL.
fn shown_url(url: &[u8]) -> Cow<'_, [u8]> {
    // Most have neither parameters nor long segments, and each line of an access log may have one.
    if path::may_be_clear(url) && !url.iter().any(|it| matches!(it, b'=' | b'?' | b'&' | b';' | b'#')) {
        return Cow::Borrowed(url);
    }
    let Ok(text) = std::str::from_utf8(url) else {
        return Cow::Owned(shown_target(&String::from_utf8_lossy(url)).into_owned().into_bytes());
    };
    match shown_target(text) {
        Cow::Borrowed(_) => Cow::Borrowed(url),
        Cow::Owned(shown) => Cow::Owned(shown.into_bytes()),
    }
}

/// An attribute of `Set-Cookie` (RFC 6265 §4.1.1): an unknown one may be the rest of a value that has a semicolon in
/// quotes.
fn attribute(part: &[u8]) -> Vec<u8> {
    let end = part.iter().position(|it| *it == b'=').unwrap_or(part.len());
    let (name, value) = (part[..end].trim_ascii_end(), part[end..].strip_prefix(b"="));
    let is = |it: &str| name.eq_ignore_ascii_case(it.as_bytes());
    let all = |of: fn(&u8) -> bool| value.is_some_and(|it| it.trim_ascii().iter().all(of));
    let is_shown = match value {
        None => part.is_empty() || ["secure", "httponly", "partitioned"].into_iter().any(is),
        Some(value) => {
            let value = value.trim_ascii();
            is("path")
                && value.starts_with(b"/")
                && all(|it| it.is_ascii_alphanumeric() || b"/-._~%".contains(it))
                || is("domain") && all(|it| it.is_ascii_alphanumeric() || b"-.".contains(it))
                || is("max-age") && all(|it| it.is_ascii_digit() || *it == b'-')
                || is("expires") && date::parse(value).is_some()
                || is("samesite")
                    && ["strict", "lax", "none"].iter().any(|it| value.eq_ignore_ascii_case(it.as_bytes()))
        }
    };
    if is_shown { part.to_vec() } else { without_value(part) }
}

/// A pair without its value; without a name all of it is secret.
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
    fn secret_parameters_of_a_target_are_hidden() {
        for (target, expect) in [
            ("/a?b=1", "/a?b=1"),
            ("/a?token=s&b=1&access_token=t", "/a?token=***&b=1&access_token=***"),
            ("/a?X-Amz-Signature=s&KEY=k&api_key=x", "/a?X-Amz-Signature=***&KEY=***&api_key=***"),
            ("/a?t%6fken=s", "/a?t%6fken=***"),
            ("/token/x", "/token/x"),
            ("/a?sig", "/a?sig=***"),
            ("/a;jsessionid=s/b?c=d", "/a;jsessionid=***?c=d"),
            ("/a=b;v=1/c", "/a=b;v=1/c"),
            ("/cas?ticket=ST-1&service=x", "/cas?ticket=***&service=x"),
            (
                "/?SAMLResponse=s&otp=1&code_verifier=v&PHPSESSID=p",
                "/?SAMLResponse=***&otp=***&code_verifier=***&PHPSESSID=***",
            ),
            ("/a?b=1;token=x", "/a?b=1;token=***"),
            ("/a?x=?token=s", "/a?x=?token=***"),
            ("/login?next=https%3A%2F%2Fh%2F%3Ftoken%3Ds&a=%20", "/login?next=***&a=%20"),
            ("/login?next=%252Fa%253Fcode%253Ds", "/login?next=***"),
            ("/search?q=100%&page=2&postcode=1&policy_id=7", "/search?q=100%&page=2&postcode=1&policy_id=7"),
        ] {
            assert_eq!(expect, shown_target(target));
        }
    }

    #[test]
    fn names_schemes_and_attributes_are_shown() {
        check("Cookie", "sid=abc; theme=dark", "sid=***; theme=***");
        check("cookie", "abc; a=b=c;;x=", "***; a=***; ; x=***");
        check("Set-Cookie", "sid=abc; Path=/; HttpOnly", "sid=***; Path=/; HttpOnly");
        check("SET-COOKIE", "abc", "***");
        check("Set-Cookie", "a=\"x;SECRET\"; foo=SECRET; Secure", "a=***; ***; foo=***; Secure");
        check(
            "Set-Cookie",
            "a=b; path=\"/;SECRET\"; Path=SECRET; Domain=a b",
            "a=***; path=***; ***; Path=***; Domain=***",
        );
        check(
            "Set-Cookie",
            "a=b; SECRET; Max-Age=1x; Expires=SECRET; SameSite=SECRET",
            "a=***; ***; Max-Age=***; Expires=***; SameSite=***",
        );
        let all = "Path=/a/b; domain=.h.test; Max-Age=-1; Expires=Wed, 21 Oct 2015 07:28:00 GMT; SameSite=Lax; Partitioned";
        check("Set-Cookie", &format!("a=b; {all}"), &format!("a=***; {all}"));
        check("Authorization", "Bearer abc.def", "Bearer ***");
        check("Proxy-Authorization", "abc", "***");
        check("X-Api-Key", "abc", "***");
        check("X_AUTH_TOKEN", "abc", "***");
        check("X-Authorization", "abc", "***");
        check("X-Country", "DE", "DE");
        check("Surrogate-Key", "tag", "tag");
        check("Vary", "Cookie", "Cookie");
        check("Referer", "http://h/a?x=1&expires=9&signature=abc", "http://h/a?x=1&expires=9&signature=***");
        check("Referer", "http://h/a?x=1&amp;signature=abc", "http://h/a?x=1&amp;signature=***");
        check("referer", "http://h/a?link-md5=abc&expires=9", "http://h/a?link-md5=***&expires=9");
        check("Location", "/done?token=abc", "/done?token=***");
        check("Referer", "http://h/a/b", "http://h/a/b");
    }

    #[test]
    fn a_key_shows_which_cookies_it_has() {
        let shown = |key: &str| String::from_utf8(shown_key(key.as_bytes()).into_owned()).unwrap();
        for key in
            ["http://h/a?b=c", "http://h/a h:x-device=phone h:absent", "http:// a:80", "http://h/ c:flag", ""]
        {
            assert_eq!(key, shown(key), "nothing in it is a secret");
        }
        assert_eq!("http://h/a?b=1&token=*** c:sid=***", shown("http://h/a?b=1&token=SECRET c:sid=SECRET"));
        assert_eq!("http://h/a;jsessionid=***?code=***", shown("http://h/a;jsessionid=SECRET?code=SECRET"));
        assert_eq!("http://h/a c:sid=*** c:b=***", shown("http://h/a c:sid=SECRET c:b=x=y"));
        assert_eq!("http://h/a h:cookie=a=***; *** c:b", shown("http://h/a h:cookie=a=1;\\20b c:b"));
        assert_eq!("http://h/a h:authorization=***", shown("http://h/a h:authorization=Bearer\\20SECRET"));
    }

    #[test]
    fn fields_that_identify_the_client() {
        for name in [
            "X-Api-Key",
            "X-Authorization",
            "Authentication",
            "Ocp-Apim-Subscription-Key",
            "X-User",
            "X-User-Id",
            "x_user_id",
            "Remote-User",
            "X-Forwarded-User",
            "X-Forwarded-Email",
            "X-Account-Id",
            "X-Tenant",
            "X-Client-Id",
            "X-JWT-Assertion",
            "DPoP",
            "Signature",
            "X-Signature",
            "Private-Token",
            "X-Functions-Key",
            "X-User-Email",
            "X-User-Name",
            "X-Master-Key",
            "X-Appwrite-Key",
            "X-Zumo-Auth",
            "X-Authenticated-Userid",
            "X-Consumer-Username",
            "X-Hasura-User-Id",
            "Tailscale-User-Login",
            "Impersonate-User",
            "X-Current-User",
            "Xero-Tenant-Id",
            "Stripe-Account",
            "X-Otp",
            "X-Uid",
            "X-Principal",
            "X-Identity",
            "X-On-Behalf-Of",
            "X-Userinfo",
            "Sudo",
            "x_user_email",
        ] {
            assert!(identifies_client(name), "{name}");
        }
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "User-Agent",
            "X-User-Agent",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Country",
            "X-Request-Id",
            "Client-Ip",
            "Sec-WebSocket-Key",
            "From",
            "X-Original-User-Agent",
            "Sec-Fetch-User",
            "Sec-CH-UA-Platform",
            "Idempotency-Key",
            "X-Client-Ip",
            "X-Client-Data",
            "Authority",
            "Keep-Alive",
            "X-Monkey-Business",
        ] {
            assert!(!identifies_client(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_clear_part_of_a_key_is_shown(key in "http://h(/|a|;|\\?|&|#|=|token|%74| c:| h:cookie=|\\PC){0,12}") {
            let clear = &key.as_bytes()[..clear_part(key.as_bytes())];
            prop_assert!(shown_key(key.as_bytes()).starts_with(clear), "{key}");
        }

        #[test]
        fn no_value_is_shown(name in "(Cookie|Set-Cookie|Authorization|Proxy-Authorization)", secret in "[A-Z0-9]{8}") {
            for value in [format!("a={secret}"), secret.clone(), format!("x=1; b={secret}"), format!("Basic {secret}")] {
                let text = String::from_utf8_lossy(&shown(&name, value.as_bytes())).into_owned();
                prop_assert!(!text.contains(&secret), "{name}: {value} -> {text}");
            }
        }
    }
}
