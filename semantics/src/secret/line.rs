//! Whether a line that a program wrote may be shown to operators: one that may have a secret or the data of a visitor is not.

use super::{is_secret_parameter, names_secret};

/// The most characters that are shown.
const MOST: usize = 200;
/// The shortest word with digits that may be a secret or a number of an account.
const LONG: usize = 12;

/// The last line of a text, if no word of it may be a secret, the name of one, or an address of a person.
#[must_use]
pub fn harmless_line(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim).rfind(|it| !it.is_empty())?;
    let mut words = line
        .split(|it: char| it.is_whitespace() || matches!(it, '=' | ':' | ',' | ';' | '?' | '&' | '"' | '\''));
    let is_suspect = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        word.contains('@')
            || word.len() >= LONG && digits > 2
            || is_secret_parameter(&word.to_ascii_lowercase())
            || names_secret(word)
    };
    let is_plain =
        !line.contains("://") && line.chars().all(|it| !it.is_control()) && line.chars().count() <= MOST;
    (is_plain && !words.any(is_suspect)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_may_have_a_secret_is_not_shown() {
        for (text, expect) in [
            ("", None),
            ("a\n  REPORT_DB is not set\n\n", Some("REPORT_DB is not set")),
            ("sh: 3: psql: not found", Some("sh: 3: psql: not found")),
            ("ImportError: No module named 'flask'", Some("ImportError: No module named 'flask'")),
            ("login failed for alice@example.com", None),
            ("password=hunter", None),
            ("wrong password: hunter", None),
            ("cannot connect to postgres://app:hunter@db/shop", None),
            ("API_TOKEN abc", None),
            ("no session 9f86d081884c7d659a2f", None),
            ("card 4111111111111111 was rejected", None),
            ("\u{1b}[31mfailed", None),
        ] {
            assert_eq!(expect, harmless_line(text), "{text}");
        }
        assert_eq!(None, harmless_line(&"word ".repeat(50)));
    }
}
