//! Cookies of a request (RFC 6265 §4.2): those that make it private, and those that the origin of a cached page gets; and the
//! fields by which a response changes cookies. Whether one with `Set-Cookie` is stored is decided in `storable`.

use crate::cookie_pairs::{in_words, pairs, pairs_of};
use crate::field::{self, Field, FieldList, members};
use crate::path;
use crate::policy::Policy;
use crate::request_view::path_of;

/// The `Cookie` lines of a request (RFC 6265 §4.2.1: one at most; over HTTP/2 they are joined before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieLines<'a> {
    /// There is none.
    Absent,
    /// The value of the only one.
    One(&'a [u8]),
    /// There are several.
    Several,
}

/// Whether the origin sees a cookie of a request with this method that may make its response specific to one visitor: one that is not
/// in the key, and that the route's `cache.private_cookies` does not remove.
#[must_use]
pub fn matter(lines: CookieLines<'_>, method: &str, policy: &Policy) -> bool {
    let line = match lines {
        CookieLines::Absent => return false,
        CookieLines::One(line) => Some(line),
        CookieLines::Several => None,
    };
    if policy.key.headers.iter().any(|it| it.eq_ignore_ascii_case("cookie")) {
        return false;
    }
    let is_cut = !policy.private_cookies.is_empty() && matches!(method, "GET" | "HEAD");
    let Some(line) = line else { return true };
    pairs_of(line).filter(|it| *it != (b"", b"")).any(|(name, _)| match is_cut {
        true => is_private_name(name, policy),
        false => !is_in_key(name, policy),
    })
}

fn is_in_key(name: &[u8], policy: &Policy) -> bool {
    policy.key.cookies.iter().any(|it| it.as_bytes() == name)
}

/// Whether a cookie of this name makes a request private: it matches `cache.private_cookies`, and neither
/// `cache.ignored_cookies` nor a name in the key.
fn is_private_name(name: &[u8], policy: &Policy) -> bool {
    is_of(name, &policy.private_cookies, &policy.ignored_cookies) && !is_in_key(name, policy)
}

fn is_of(name: &[u8], private: &[String], ignored: &[String]) -> bool {
    private.iter().any(|it| matches(it, name)) && !ignored.iter().any(|it| matches(it, name))
}

/// Whether a request has no cookie that these patterns make private.
#[must_use]
pub fn are_ignored(fields: &[Field<'_>], private: &[String], ignored: &[String]) -> bool {
    !pairs(fields).any(|it| it != (b"", b"") && is_of(it.0, private, ignored))
}

/// Whether a request of this method carries one of `cache.private_cookies`.
#[must_use]
pub fn are_private(lines: CookieLines<'_>, method: &str, policy: &Policy) -> bool {
    !policy.private_cookies.is_empty() && matter(lines, method, policy)
}

/// The extensions of files, by kind: a file is the same for all visitors, unlike a page, and `cache.private_cookies` does not bypass the cache for it.
/// The kinds are those of the usual VCLs of WordPress and Drupal.
const FILES: &[(&str, &[&str])] = &[
    (
        "styles, scripts, fonts",
        &["css", "js", "mjs", "map", "wasm", "webmanifest", "woff", "woff2", "ttf", "otf", "eot"],
    ),
    ("images", &["png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "svgz", "ico", "bmp"]),
    ("sound, film", &["mp3", "m4a", "ogg", "oga", "opus", "flac", "wav", "mp4", "m4v", "mov", "ogv", "webm"]),
    (
        "documents",
        &[
            "pdf", "txt", "rtf", "csv", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp",
            "epub",
        ],
    ),
    ("archives", &["zip", "gz", "tgz", "bz2", "xz", "tar", "7z", "rar"]),
];

/// Files of the directories in `cache.public_files` alone. Elsewhere they may be pages, or data of an application: `/account.json` and
/// `/orders.xml` of Rails differ by visitor under one URL.
const DATA: &[&str] = &["json", "xml", "html", "htm", "md"];

/// The extensions of files by kind, and those that are files only in the directories of `cache.public_files`.
#[must_use]
pub fn file_extensions() -> (&'static [(&'static str, &'static [&'static str])], &'static [&'static str]) {
    (FILES, DATA)
}

/// Whether a target names a file by its extension. For such a file `cache.private_cookies` does not bypass the cache: its
/// response is shared if it says so.
#[must_use]
pub fn is_file(target: &str) -> bool {
    extension(target).is_some_and(|it| FILES.iter().any(|(_, all)| is_one_of(it, all)))
}

fn extension(target: &str) -> Option<&str> {
    let path = target.split('?').next().unwrap_or(target);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map(|it| it.1)
}

fn is_one_of(extension: &str, all: &[&str]) -> bool {
    all.iter().any(|it| extension.eq_ignore_ascii_case(it))
}

/// Whether a request is for a file of `cache.public_files`: it is the same for all visitors, whatever cookies a request has. The
/// application receives none of them, and takes every visitor for a new one.
#[must_use]
pub fn is_public_file(policy: &Policy, method: &str, target: &str) -> bool {
    let is_asked = policy.enabled && !policy.public_files.is_empty() && matches!(method, "GET" | "HEAD");
    is_asked && (is_file(target) || extension(target).is_some_and(|it| is_one_of(it, DATA))) && {
        let mut path = Vec::new();
        path::read(path_of(target).as_bytes(), path::NORMAL, &mut path);
        policy.public_files.iter().any(|it| it.matches(&path))
    }
}

/// The fields of a request for a public file without its cookies; `None` if the request has none, or is for something else. A
/// response to it cannot be specific to a visitor by a cookie.
#[must_use]
pub fn without(policy: &Policy, method: &str, target: &str, fields: &[Field<'_>]) -> Option<FieldList> {
    if !fields.iter().any(|it| it.is("cookie")) || !is_public_file(policy, method, target) {
        return None;
    }
    let mut rest = FieldList::with_room_for(fields, 0);
    fields.iter().filter(|it| !it.is("cookie")).for_each(|it| rest.push(it.name, it.value));
    Some(rest)
}

/// Whether a field of a response changes cookies of its client, or removes them. The response to a request for a public file
/// loses these fields: the session that it would set, or end, is none of this visitor. `Clear-Site-Data` (W3C) clears cookies, or
/// the storage in which a page keeps its token, unless it names the cache alone.
#[must_use]
pub fn changes_cookies(it: &Field<'_>) -> bool {
    let clears_more = || members(it.value).any(|part| !part.eq_ignore_ascii_case(b"\"cache\""));
    it.sets_cookie() || it.is("clear-site-data") && clears_more()
}

/// The cookies of a GET that may make its response specific to one visitor on the route: those that [`matter`].
pub(crate) fn of_visitor<'f>(
    fields: &'f [Field<'f>],
    policy: &Policy,
) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    let is_keyed = policy.key.headers.iter().any(|it| it.eq_ignore_ascii_case("cookie"));
    pairs(fields).filter(move |it| {
        let matters = match policy.private_cookies.is_empty() {
            true => !is_in_key(it.0, policy),
            false => is_private_name(it.0, policy),
        };
        !is_keyed && *it != (b"", b"") && matters
    })
}

/// The names of cookies that a response sets although its request had them: the application did not see them, because `cache.private_cookies` does
/// not name them, and begins each time with a new one. The request had no private cookie. Those of `cache.ignored_cookies` are removed on purpose.
pub fn set_again<'f>(
    policy: &Policy,
    request: &'f [Field<'f>],
    response: &'f [Field<'f>],
) -> impl Iterator<Item = &'f str> {
    let lines = response.iter().filter(|it| it.is("set-cookie"));
    let names = lines.filter_map(|it| {
        let end = it.value.iter().position(|it| *it == b'=')?;
        std::str::from_utf8(it.value[..end].trim_ascii()).ok()
    });
    names.filter(|it| removes(policy, it.as_bytes()) && pairs(request).any(|pair| pair.0 == it.as_bytes()))
}

/// Whether a cookie of this name is removed from requests because `cache.private_cookies` names others.
#[must_use]
pub fn removes(policy: &Policy, name: &[u8]) -> bool {
    let mut named = policy.private_cookies.iter().chain(&policy.ignored_cookies);
    !policy.private_cookies.is_empty() && !is_in_key(name, policy) && !named.any(|it| matches(it, name))
}

/// The cookies that make the response to a request specific to one visitor ([`matter`]), in words.
#[must_use]
pub fn mattering(fields: &[Field<'_>], method: &str, policy: &Policy) -> Option<String> {
    let lines: Vec<&[u8]> = field::all(fields, "cookie").collect();
    let is_cut = !policy.private_cookies.is_empty() && matches!(method, "GET" | "HEAD");
    in_words(&lines, |name| if is_cut { is_private_name(name, policy) } else { !is_in_key(name, policy) })
}

/// The cookies that a response sets, in words.
#[must_use]
pub fn set_by(response: &[Field<'_>]) -> Option<String> {
    let pair = |it: &Field<'_>| it.value.split(|it| *it == b';').next().map(<[u8]>::to_vec);
    let pairs: Vec<Vec<u8>> = response.iter().filter(|it| it.sets_cookie()).filter_map(pair).collect();
    in_words(&pairs.iter().map(Vec::as_slice).collect::<Vec<_>>(), |_| true)
}

/// The names of the cookies that a response sets, each once.
#[must_use]
pub fn names_set_by(response: &[Field<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for it in response.iter().filter(|it| it.sets_cookie()) {
        let end = it.value.iter().position(|it| matches!(it, b'=' | b';')).unwrap_or(it.value.len());
        let name = String::from_utf8_lossy(it.value[..end].trim_ascii()).into_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

pub(crate) fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => {
            name.len() >= before.len() + after.len()
                && name.starts_with(before.as_bytes())
                && name.ends_with(after.as_bytes())
        }
        None => name == pattern.as_bytes(),
    }
}

/// Whether the request has a cookie by which the route's `cache.private_cookies` makes it private.
#[must_use]
pub fn is_private(fields: &[Field<'_>], policy: &Policy) -> bool {
    !policy.private_cookies.is_empty()
        && pairs(fields).any(|it| it != (b"", b"") && is_private_name(it.0, policy))
}

/// Whether a request has cookies, all with names of these patterns.
#[must_use]
pub fn are_only(fields: &[Field<'_>], patterns: &[&str]) -> bool {
    let mut names = pairs(fields).filter(|it| *it != (b"", b"")).map(|it| it.0).peekable();
    names.peek().is_some() && names.all(|name| patterns.iter().any(|it| matches(it, name)))
}

/// Whether all cookies by which a request is private on a route have names of these patterns.
#[must_use]
pub fn private_are_only(fields: &[Field<'_>], policy: &Policy, patterns: &[&str]) -> bool {
    of_visitor(fields, policy).all(|it| patterns.iter().any(|pattern| matches(pattern, it.0)))
}

/// The `Cookie` value with only the cookies in `names`; `None` if there is none.
#[must_use]
pub fn only(fields: &[Field<'_>], names: &[String]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    for (name, it) in pairs(fields).filter(|it| names.iter().any(|name| name.as_bytes() == it.0)) {
        if !value.is_empty() {
            value.extend_from_slice(b"; ");
        }
        value.extend_from_slice(name);
        value.push(b'=');
        value.extend_from_slice(it);
    }
    (!value.is_empty()).then_some(value)
}

/// The first value of the cookie `name` (RFC 6265 §5.4).
#[must_use]
pub fn value<'f>(fields: &[Field<'f>], name: &str) -> Option<&'f [u8]> {
    let lines = fields.iter().filter(|it| it.is("cookie")).map(|it| it.value);
    lines.flat_map(|line| line.split(|it| *it == b';')).find_map(|pair| {
        let at = pair.iter().position(|it| *it == b'=')?;
        (pair[..at].trim_ascii() == name.as_bytes()).then(|| pair[at + 1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::PathPattern;

    #[track_caller]
    fn check(cookie: &str, private: bool, kept: Option<&str>) {
        let fields = [Field { name: "Cookie", value: cookie.as_bytes() }];
        let policy = named(&["session*", "id", "_*_s"], &[], &[]);
        assert_eq!(private, is_private(&fields, &policy), "{cookie}");
        let only = only(&fields, &["lang".to_owned()]);
        assert_eq!(kept, only.as_deref().and_then(|it| std::str::from_utf8(it).ok()), "{cookie}");
    }

    /// A policy with private, ignored and keyed cookies.
    fn named(private: &[&str], ignored: &[&str], keyed: &[&str]) -> Policy {
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let key = crate::key::KeyRecipe { cookies: owned(keyed), ..Default::default() };
        let (private_cookies, ignored_cookies) = (owned(private), owned(ignored));
        Policy { private_cookies, ignored_cookies, key, ..Policy::default() }
    }

    #[test]
    fn every_cookie_is_private_except_the_ignored_and_the_keyed() {
        let policy = named(&["*"], &["_ga*", "_fbp"], &["lang"]);
        for (cookie, private) in [
            ("_ga=1; _ga_X=2; _fbp=3", false),
            ("lang=de; _ga=1", false),
            ("", false),
            (" ;; ;", false),
            ("_fbpx=1", true),
            ("lang2=de", true),
            ("_GA=1", true),
            ("_ga=1; theme=dark", true),
            ("theme", true),
            ("=x", true),
        ] {
            let fields = [Field { name: "Cookie", value: cookie.as_bytes() }];
            assert_eq!(private, is_private(&fields, &policy), "{cookie}");
            let lines = CookieLines::One(cookie.as_bytes());
            assert_eq!(private, are_private(lines, "GET", &policy), "{cookie}");
        }
        let two = [Field { name: "Cookie", value: b"_ga=1" }, Field { name: "cookie", value: b"a=b" }];
        assert!(is_private(&two, &policy));
        // An exact name is as a pattern.
        assert!(!is_private(&two[1..], &named(&["a"], &["a"], &[])));
        assert!(!is_private(&two[1..], &named(&["a"], &[], &["a"])));
    }

    #[test]
    fn cookies_that_are_removed_and_set_again() {
        let check = |policy: &Policy, sets: &str, expect: &[&str]| {
            let request = [Field { name: "Cookie", value: b"sid=1; lang=de; _ga=2; currency=eur" }];
            let response = [
                Field { name: "Set-Cookie", value: sets.as_bytes() },
                Field { name: "Set-Cookie", value: b"lang; Path=/" },
            ];
            assert_eq!(expect, set_again(policy, &request, &response).collect::<Vec<_>>(), "{sets}");
        };
        let policy = named(&["session*"], &["_ga"], &["currency"]);
        check(&policy, "sid=9; Path=/", &["sid"]);
        for other in ["session=1", "new=1", "_ga=3", "currency=usd", "lang", "=x"] {
            check(&policy, other, &[]);
        }
        check(&named(&["*"], &[], &[]), "sid=9", &[]);
        check(&Policy::default(), "sid=9", &[]);
    }

    #[test]
    fn files_by_their_extension() {
        let public = Policy { public_files: vec![PathPattern::of("/static/*")], ..Policy::default() };
        for (name, everywhere, in_public) in [
            ("a.css", true, true),
            ("a.PDF?v=1", true, true),
            ("a.tar.gz", true, true),
            ("site.webmanifest", true, true),
            ("robots.txt", true, true),
            ("a.json", false, true),
            ("a.html", false, true),
            ("a.php", false, false),
            ("a", false, false),
            ("pdf", false, false),
            ("a.pdf/", false, false),
            ("a?b=a.pdf", false, false),
        ] {
            assert_eq!(everywhere, is_file(&format!("/{name}")), "{name}");
            for (directory, expect) in [("static", in_public), ("other", false)] {
                let target = format!("/{directory}/{name}");
                assert_eq!(expect, is_public_file(&public, "GET", &target), "{target}");
            }
        }
    }

    #[test]
    fn fields_that_change_cookies() {
        for (name, value, changes) in [
            ("Set-Cookie", "a=b", true),
            ("set-cookie2", "a=b; Version=1", true),
            ("Clear-Site-Data", "\"cookies\"", true),
            ("Clear-Site-Data", "\"cache\", \"cookies\"", true),
            ("Clear-Site-Data", "\"*\"", true),
            ("Clear-Site-Data", "\"storage\"", true),
            ("clear-site-data", "\"cache\"", false),
            ("Cookie", "a=b", false),
        ] {
            assert_eq!(changes, changes_cookies(&Field { name, value: value.as_bytes() }), "{name}: {value}");
        }
    }

    #[test]
    fn private_and_named_cookies() {
        check("_ga=1; lang=de", false, Some("lang=de"));
        check("session=1", true, None);
        check("a=1;session_x=2;lang=en", true, Some("lang=en"));
        check("idx=1; xid=2", false, None);
        check("id", true, None);
        check("_app_s=1", true, None);
        check("_s=1; _app_sx=2; app_s=3; _=4", false, None);
        check("=;;; ;a=session=1", false, None);
    }

    #[test]
    fn cookies_that_matter_are_named_without_values() {
        let policy = Policy { private_cookies: vec!["s*".to_owned()], ..Policy::default() };
        let fields = [Field { name: "Cookie", value: b"_ga=1; sid=secret" }];
        assert_eq!(Some("the cookie sid".to_owned()), mattering(&fields, "GET", &policy));
        assert_eq!(Some("the cookies _ga and sid".to_owned()), mattering(&fields, "GET", &Policy::default()));
        let response = [Field { name: "Set-Cookie", value: b"sid=secret; Path=/; HttpOnly" }];
        assert_eq!(Some("the cookie sid".to_owned()), set_by(&response));
    }
}
