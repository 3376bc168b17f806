//! Secrets in the path of a URL: signed tokens, tokens behind a word such as `reset`, and capabilities (`/s/…`). An identifier that a page
//! needs to be recognised by (a hashed file, a UUID, a commit) is shown.

use super::is_secret_parameter;
use std::borrow::Cow;

/// The shortest segment that may be a secret.
const SHORTEST: usize = 16;
/// The shortest one of letters of both cases and digits, or of hexadecimal digits, that is one without a word before it: 128 and 192 bits.
const MIXED: usize = 24;
const HEXADECIMAL: usize = 48;
/// The characters of such a segment that are shown: the operator can tell two of them apart, and use neither.
const SHOWN: usize = 6;
/// Words before a secret, besides those of [`is_secret_parameter`].
const WORDS: [&str; 8] =
    ["verify", "verification", "confirm", "activate", "activation", "invite", "invitation", "unsubscribe"];

/// A URL or target whose secret segments are hidden.
pub(super) fn shown_path(url: &str) -> Cow<'_, str> {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    if may_be_clear(&url.as_bytes()[..end]) {
        return Cow::Borrowed(url);
    }
    // Most long segments are words: without a secret nothing is copied.
    let (mut shown, mut copied, mut before, mut previous) = (String::new(), 0, "", "");
    let mut at = path_begin(&url[..end]);
    for part in url[at..end].split_inclusive('/') {
        let segment = part.trim_end_matches('/');
        // A parameter of the path has its own rules.
        let own = segment.split(';').next().unwrap_or_default();
        if let Some(clear) = shown_characters([before, previous], own) {
            shown.extend([&url[copied..at + clear], "***"]);
            copied = at + own.len();
        }
        at += part.len();
        (before, previous) = (previous, segment);
    }
    if copied == 0 {
        return Cow::Borrowed(url);
    }
    shown.push_str(&url[copied..]);
    Cow::Owned(shown)
}

/// Where the path of a URL or target begins: the host is no word before a secret.
fn path_begin(url: &str) -> usize {
    let Some(at) = url.find("://").filter(|_| !url.starts_with('/')) else { return 0 };
    url[at + 3..].find('/').map_or(url.len(), |it| at + 3 + it)
}

/// Whether a segment says that a secret follows it, or its number and then a secret.
fn names_secret(segment: &str) -> bool {
    let is = |words: &[&str]| words.iter().any(|it| segment.eq_ignore_ascii_case(it));
    // Those are parameters of secrets, and directories of ordinary things.
    let is_ordinary = segment.contains('%') || is(&["code", "key", "policy", "ticket"]);
    is(&WORDS) || !is_ordinary && is_secret_parameter(segment)
}

/// Whether no segment of a path is long enough for a secret.
pub(super) fn may_be_clear(path: &[u8]) -> bool {
    clear_segments(path) == path.len()
}

/// The length of a path up to its first segment that is long enough for a secret.
pub(super) fn clear_segments(path: &[u8]) -> usize {
    let mut begin = 0;
    for part in path.split_inclusive(|it| *it == b'/') {
        if part.len() >= SHORTEST {
            return begin;
        }
        begin += part.len();
    }
    begin
}

/// The number of characters that are shown of a segment that is a secret; none of any other.
fn shown_characters(before: [&str; 2], segment: &str) -> Option<usize> {
    if is_signed_token(segment) {
        return Some(0);
    }
    let segment = segment.trim_end_matches("%3D").trim_end_matches('=');
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    if segment.len() < SHORTEST || !segment.bytes().all(is_plain) {
        return None;
    }
    let names = before.into_iter().any(names_secret);
    let is_number = segment.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    if names && (is_number || changes(segment) * 5 >= segment.len()) {
        return Some(0);
    }
    let has = |of: fn(&u8) -> bool| segment.as_bytes().iter().any(of);
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let is_hexadecimal = segment.bytes().all(|it| it.is_ascii_hexdigit());
    let is_long = segment.len() >= if is_hexadecimal { HEXADECIMAL } else { MIXED };
    // A UUID has no such run, and neither do words with hyphens.
    let has_run = segment.split(['-', '_']).any(|it| it.len() >= SHORTEST);
    let is_random =
        is_long && (is_mixed || is_hexadecimal) && has_run && changes(segment) * 4 >= segment.len();
    is_random.then_some(SHOWN)
}

/// A JSON Web Token (RFC 7519 §3), signed or encrypted, whole or cut: its first part is base64url of `{"…`.
pub(super) fn is_signed_token(text: &str) -> bool {
    let is_base64 = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'));
    text.split_once('.')
        .is_some_and(|(first, _)| first.len() >= SHORTEST && first.starts_with("eyJ") && is_base64(first))
}

/// Whether a text has a run of letters and digits in random order that may be a secret, such as a key or a UUID. Names, paths and dates with
/// hyphens have none.
#[must_use]
pub fn has_random_part(text: &str) -> bool {
    let is_number = |it: &str| {
        it.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-') && it.bytes().any(|it| it.is_ascii_digit())
    };
    // Base64 has + and =; a UUID has hyphens.
    let words = |marks: &'static str| {
        let is_word = move |it: char| it.is_ascii_alphanumeric() || marks.contains(it);
        text.split(move |it: char| !is_word(it)).filter(|it| it.len() >= SHORTEST)
    };
    words("-").any(is_number) || words("+=").any(|it| is_number(it) || changes(it) * 5 >= it.len())
}

/// The places where a digit follows a letter, a small letter a capital one, and the like: words have few, random texts many.
fn changes(text: &str) -> usize {
    let kind = |it: u8| match it {
        b'0'..=b'9' => 1,
        b'A'..=b'Z' => 2,
        b'a'..=b'z' => 3,
        _ => 0,
    };
    text.as_bytes()
        .windows(2)
        .filter(|it| kind(it[0]) * kind(it[1]) > 0 && kind(it[0]) != kind(it[1]))
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::{clear_part, shown_key, shown_target};

    const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    #[test]
    fn secrets_in_a_path_are_hidden() {
        for (target, expect) in [
            (format!("/verify/{TOKEN}"), "/verify/***"),
            (format!("/a/{TOKEN}/b?c=1"), "/a/***/b?c=1"),
            (format!("/a?b={TOKEN}&c=1"), "/a?b=***&c=1"),
            (format!("/s/{HEX}"), "/s/9f86d0***"),
            (format!("https://h.test/s/{HEX};v=1?a=b"), "https://h.test/s/9f86d0***;v=1?a=b"),
            ("/share/aZ3kP9qLx2Vb7NcT5mWd8RfG".to_owned(), "/share/aZ3kP9***"),
            ("/password/reset/4f8a91c2d7e6b305".to_owned(), "/password/reset/***"),
            (format!("/verify/{}", &TOKEN[..40]), "/verify/***"),
            (format!("/a/{TOKEN}.b.c"), "/a/***"),
            (
                "/accounts/reset/MQ/bzx8f5-4a1f09c27de8b3a6f1c4d5e6a7b8c9d0/".to_owned(),
                "/accounts/reset/MQ/***/",
            ),
            ("/verify/MTIzNDU2Nzg5MGFiY2Rl%3D%3D".to_owned(), "/verify/***"),
            ("/invite/123e4567-e89b-12d3-a456-426614174000/".to_owned(), "/invite/***/"),
        ] {
            assert_eq!(expect, shown_target(&target));
            assert_eq!(expect.as_bytes(), &*shown_key(target.as_bytes()));
            let clear = clear_part(target.as_bytes());
            assert_eq!(expect[..clear], target[..clear], "the clear part is that of both");
        }
    }

    #[test]
    fn identifiers_of_pages_and_files_in_a_path_are_shown() {
        for target in [
            "/assets/app.3f2a9c.js".to_owned(),
            format!("/assets/app-{HEX}.js"),
            format!("/v2/image/blobs/sha256:{HEX}"),
            "/users/123e4567-e89b-12d3-a456-426614174000".to_owned(),
            "/commit/da39a3ee5e6b4b0d3255bfef95601890afd80709".to_owned(),
            "/code/how-to-sort-a-list-in-10-lines".to_owned(),
            "/blog/InternationalConference2024".to_owned(),
            "/reset/how-do-i-reset-my-password".to_owned(),
            "/eyJ.html".to_owned(),
            "/m%C3%BCnchen/2026-11-29-000123".to_owned(),
            "https://tokens.example/123e4567-e89b-12d3-a456-426614174000".to_owned(),
            "/ticket/123e4567-e89b-12d3-a456-426614174000".to_owned(),
            "/2026/11/29/a-long-title-of-a-page-with-2026-in-it".to_owned(),
        ] {
            assert_eq!(target, shown_target(&target));
        }
    }
}
