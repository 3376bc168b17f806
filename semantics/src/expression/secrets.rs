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

/// The places of these texts, without their quotes. `${NAME}` is none. A value that lacks its quotes is one as well: messages about the
/// mistake, and the text of the file, show it otherwise.
#[must_use]
pub fn secret_texts(text: &str) -> Vec<Range<usize>> {
    let mut it = SecretSearch { text, at: 0, test: None, expects: false, found: Vec::new() };
    while let Some(first) = text[it.at..].chars().next() {
        it.step(first);
    }
    it.found
}

/// The search for secrets in a condition, from the left to the right.
struct SecretSearch<'t> {
    text: &'t str,
    at: usize,
    /// The test to which values belong.
    test: Option<TestName<'t>>,
    /// Whether a word is a value without quotes: none was found in quotes since the name or the last comma.
    expects: bool,
    found: Vec<Range<usize>>,
}

impl<'t> SecretSearch<'t> {
    fn step(&mut self, first: char) {
        let rest = &self.text[self.at..];
        match first {
            '"' => self.quoted(string_length(rest)),
            '\'' if self.expects => self.quoted(rest[1..].find('\'').map_or(rest.len(), |it| it + 2)),
            '&' | '|' => (self.test, self.expects, self.at) = (None, false, self.at + 1),
            ',' => (self.expects, self.at) = (self.test.is_some(), self.at + 1),
            _ if first.is_whitespace() || "=!~<>()[]".contains(first) => self.at += first.len_utf8(),
            _ if self.expects => self.bare(),
            _ if first.is_ascii_alphanumeric() || first == '_' => self.word(),
            _ => self.at += first.len_utf8(),
        }
    }

    /// A value in quotes, of this length with them.
    fn quoted(&mut self, length: usize) {
        let quoted = &self.text[self.at..self.at + length];
        let is_closed = length > 1 && quoted.ends_with(&quoted[..1]);
        self.value(self.at + 1..self.at + length - usize::from(is_closed));
        (self.at, self.expects) = (self.at + length, false);
    }

    /// A value without quotes, or a word in front of one.
    fn bare(&mut self) {
        let rest = &self.text[self.at..];
        let is_end = |it: char| it.is_whitespace() || matches!(it, ',' | ')' | ']' | '"');
        let ends = [rest.find(is_end), rest.find("&&"), rest.find("||")];
        let length = ends.into_iter().flatten().min().unwrap_or(rest.len());
        match &rest[..length] {
            "in" | "contains" | "is" | "eq" | "equals" | "not" | "matches" => self.at += length,
            "and" | "or" => (self.test, self.expects, self.at) = (None, false, self.at + length),
            _ => {
                self.value(self.at..self.at + length);
                self.at += length;
            }
        }
    }

    fn value(&mut self, place: Range<usize>) {
        if self.test.is_some_and(|it| it.hides(&self.text[place.clone()])) {
            self.found.push(place);
        }
    }

    fn word(&mut self) {
        let rest = &self.text[self.at..];
        let word = word_of(rest, &['_']);
        self.at += word.len();
        if !matches!(word, "in" | "contains") {
            let (name, length) = name_of(word, &self.text[self.at..]);
            (self.test, self.expects, self.at) = (name, name.is_some(), self.at + length);
            // The bracket behind the name.
            let behind = self.text[self.at..].trim_start();
            if behind.starts_with(']') {
                self.at = self.text.len() - behind.len() + 1;
            }
        }
    }
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

    #[test]
    fn texts_without_quotes_may_be_secrets() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(expect, without_secrets(text));
        }
        check("header.X-Auth == s3cret", "header.X-Auth == ***");
        check("header[\"X-Auth\"] != s&3=c-r|et && path == a", "header[\"X-Auth\"] != *** && path == a");
        check("(header.X-Auth ~ ^s3cret) || host == h", "(header.X-Auth ~ ***) || host == h");
        check("header.X-Auth in [s1, \"s2\", s3]", "header.X-Auth in [***, \"***\", ***]");
        check("header.X-Auth == 's 3'", "header.X-Auth == '***'");
        check("header.X-Auth is s3cret and host is h", "header.X-Auth is *** and host is h");
        check("header.X-Auth s3cret", "header.X-Auth ***");
        check("header.Authorization == Bearer s3cret", "header.Authorization == Bearer ***");
        check("header.X-Auth == ${A} && query.token == s", "header.X-Auth == ${A} && query.token == ***");
        check("header.X-Auth == \"s\" and host == \"h\"", "header.X-Auth == \"***\" and host == \"h\"");
        check("cookie.preview == 0123456789abcdef", "cookie.preview == ***");
        check("cookie.theme == dark && header.Accept == a", "cookie.theme == dark && header.Accept == a");
        check("status == 200 && size > 1KiB", "status == 200 && size > 1KiB");
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
