//! The texts of a condition that may be secrets: those with which fields, cookies and parameters are compared. The text need not be a
//! condition: a mistake, or a `${NAME}` that is not replaced, hides no more and no less.

use super::parse::string_length;
use crate::secret::{is_shared_secret, names_secret};
use std::ops::Range;

/// The length from which the value of any cookie may be a secret; shorter ones are choices such as `dark`.
const LONG_COOKIE: usize = 16;

/// The schemes of `Authorization`, which are no secrets.
const SCHEMES: [&str; 5] = ["basic", "bearer", "digest", "negotiate", "token"];

/// The name on the left side of a test.
#[derive(Clone, Copy)]
struct TestName<'t> {
    /// `header`, `cookie` or `query`.
    kind: &'t str,
    name: &'t str,
}

impl TestName<'_> {
    fn hides(self, value: &str) -> bool {
        let word = value.trim_matches(['^', ' ']);
        let variable = value.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
        let is_word = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
        if value.is_empty() || variable.is_some_and(is_word) {
            return false;
        }
        let is_secret = names_secret(self.name) || self.kind == "header" && is_shared_secret(self.name);
        is_secret && !SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(word))
            || self.kind == "cookie" && value.len() >= LONG_COOKIE
    }
}

/// The places of these texts, without their quotes. `${NAME}` is none.
#[must_use]
pub fn secret_texts(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at, mut test) = (Vec::new(), 0, None::<TestName<'_>>);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first == '"' {
            let length = string_length(rest);
            let is_closed = length > 1 && rest[..length].ends_with('"');
            let inner = at + 1..at + length - usize::from(is_closed);
            if test.is_some_and(|it| it.hides(&text[inner.clone()])) {
                found.push(inner);
            }
            at += length;
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let word = word_of(rest, &['_']);
            at += word.len();
            if !matches!(word, "in" | "contains") {
                let (name, length) = name_of(word, &text[at..]);
                (test, at) = (name, at + length);
            }
        } else {
            if matches!(first, '&' | '|') {
                test = None;
            }
            at += first.len_utf8();
        }
    }
    found
}

/// The text with `***` for each of these.
pub(super) fn without_secrets(text: &str) -> String {
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for place in secret_texts(text) {
        shown.push_str(&text[at..place.start]);
        shown.push_str("***");
        at = place.end;
    }
    shown.push_str(&text[at..]);
    shown
}

/// The name in brackets or behind a dot after a word, and its length with these.
fn name_of<'t>(kind: &'t str, rest: &'t str) -> (Option<TestName<'t>>, usize) {
    if !matches!(kind, "header" | "cookie" | "query") {
        return (None, 0);
    }
    let trimmed = rest.trim_start();
    let before = rest.len() - trimmed.len();
    if let Some(behind) = trimmed.strip_prefix('.') {
        let name = word_of(behind, &['_', '-']);
        return (Some(TestName { kind, name }), before + 1 + name.len());
    }
    let Some(behind) = trimmed.strip_prefix('[') else { return (None, 0) };
    let quoted = behind.trim_start();
    if !quoted.starts_with('"') {
        return (None, 0);
    }
    let length = string_length(quoted);
    let name = quoted[1..length].trim_end_matches('"');
    (Some(TestName { kind, name }), rest.len() - quoted.len() + length)
}

/// The letters, digits and `more` with which a text begins.
fn word_of<'t>(text: &'t str, more: &[char]) -> &'t str {
    let is_word = |it: char| it.is_ascii_alphanumeric() || more.contains(&it);
    &text[..text.find(|it| !is_word(it)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_that_may_be_secrets() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(expect, without_secrets(text));
        }
        for plain in [
            r#"header.Accept == "a" && path ~ "^/x\"\\.""#,
            r#"cookie.beta == "1" || cookie.session != """#,
            r#"header["X-Origin-Verify"] == "${SECRET}""#,
            r#"header.Authorization ~ "^Bearer ""#,
            r#"header.Sec-WebSocket-Key == "k" || query.page in ["a", "b"]"#,
            "${CONDITION}",
            "header[",
            "header.",
            "\"",
        ] {
            check(plain, plain);
        }
        check(r#"header[ "X-Origin-Verify" ] != "s""#, r#"header[ "X-Origin-Verify" ] != "***""#);
        check(r#"header.X-CDN-Key in ["a", "${B}", "c"]"#, r#"header.X-CDN-Key in ["***", "${B}", "***"]"#);
        check(r#"header.X-Api-Key == "v${KEY}""#, r#"header.X-Api-Key == "***""#);
        check(r#"cookie.preview == "0123456789abcdef""#, r#"cookie.preview == "***""#);
        check(
            r#"status == ${N} && header.X-Auth == "s" && host == "h""#,
            r#"status == ${N} && header.X-Auth == "***" && host == "h""#,
        );
        check(r#"header.X-Auth = = "s"#, r#"header.X-Auth = = "***"#);
    }

    proptest! {
        #[test]
        fn secret_texts_of_any_text_are_nonempty_parts_of_it(text in r#"(header|cookie|query|\.X-Auth|\["|"|\]|==| |\\|é|\$\{A\}|&&|in){0,16}"#) {
            for it in secret_texts(&text) {
                prop_assert!(text.get(it).is_some_and(|it| !it.is_empty()));
            }
        }
    }
}
