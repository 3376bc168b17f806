//! The pairs of `Cookie` lines (RFC 6265 §4.2.1), and their names in words. Their effects on the cache are in `cookies`.

use crate::field::{self, Field};

/// The pairs of every `Cookie` line, in order: name and value, without whitespace around them.
pub(crate) fn pairs<'a>(fields: &'a [Field<'a>]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    field::all(fields, "cookie").flat_map(pairs_of)
}

/// The pairs of one line.
pub(crate) fn pairs_of(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|it| *it == b';').map(|pair| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|it| *it == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        }
    })
}

/// The cookies of a line as the object of a sentence, such as `the cookies lang and sid`: names alone, since values are secrets. A cookie
/// without `=` is only a value.
#[must_use]
pub fn in_words(lines: &[&[u8]], is_meant: impl Fn(&[u8]) -> bool) -> Option<String> {
    let pairs = lines.iter().flat_map(|it| it.split(|it| *it == b';')).map(<[u8]>::trim_ascii);
    let mut names: Vec<String> = Vec::new();
    for pair in pairs.filter(|it| !it.is_empty()) {
        let end = pair.iter().position(|it| *it == b'=');
        if !is_meant(&pair[..end.unwrap_or(pair.len())]) {
            continue;
        }
        let name = match end {
            Some(end) if end > 0 => String::from_utf8_lossy(pair[..end].trim_ascii()).into_owned(),
            _ => "(without a name)".to_owned(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    in_list("cookie", &names)
}

/// `the cookie sid`, `the fields A and B`, and with many names the first of them; `None` without names.
#[must_use]
pub fn in_list(noun: &str, names: &[String]) -> Option<String> {
    const MOST: usize = 5;
    Some(match names {
        [] => return None,
        [one] => format!("the {noun} {one}"),
        all if all.len() > MOST => {
            format!("the {noun}s {} and {} more", all[..MOST].join(", "), all.len() - MOST)
        }
        [before @ .., last] => format!("the {noun}s {} and {last}", before.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cookies_are_shown_without_values() {
        let words = |line: &str| in_words(&[line.as_bytes()], |_| true);
        for (line, expect) in [
            ("sid=secret", "the cookie sid"),
            ("a=1; b=2;c", "the cookies a, b and (without a name)"),
            ("=secret; secret", "the cookie (without a name)"),
            ("a=1; a=2", "the cookie a"),
            ("a=;b=;c=;d=;e=;f=;g=", "the cookies a, b, c, d, e and 2 more"),
        ] {
            assert_eq!(Some(expect), words(line).as_deref(), "{line}");
        }
        assert_eq!(None, words(" ; "));
    }
}
