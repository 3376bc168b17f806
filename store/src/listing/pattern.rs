//! The search in keys: for a part of the key, or by a pattern with `*`. `listing` walks the keys.

use memchr::memmem::Finder;
use std::borrow::Cow;

/// A search. It is case-sensitive, as keys are.
///
/// Without `*` it is a part of the key. With `*`, which stands for any bytes, it is the whole key: from its path on where
/// it begins with a slash, from its host on where it names no scheme. So `/news/*` finds the pages below `/news/` of any
/// host, and `*.css` all keys with that end.
pub struct Pattern {
    begins: Begins,
    parts: PatternParts,
    /// The form of a key in which the search must be found as well.
    shown: Option<ShownKey>,
}

/// The displayed form of keys.
#[derive(Clone, Copy)]
pub struct ShownKey {
    /// The form of a key.
    pub form: fn(&[u8]) -> Cow<'_, [u8]>,
    /// The length of the beginning of a key that is the same in its form.
    pub clear: fn(&[u8]) -> usize,
}

/// The parts between the stars.
enum PatternParts {
    /// There is no star: the text may be anywhere in the key.
    Anywhere(Box<Finder<'static>>),
    /// The beginning and the end of the key, and the parts between in order; none of these is empty.
    Whole { first: Box<[u8]>, last: Box<[u8]>, middle: Vec<Finder<'static>> },
}

/// The place where the pattern begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Scheme,
    Host,
    Path,
}

impl Pattern {
    /// Parses a search; `None` where it matches every key.
    #[must_use]
    pub fn new(text: &str) -> Option<Pattern> {
        if text.bytes().all(|it| it == b'*') {
            return None;
        }
        let begins = match text {
            _ if text.starts_with('/') => Begins::Path,
            _ if text.starts_with('*') || text.contains("://") => Begins::Scheme,
            _ => Begins::Host,
        };
        let finder = |it| Finder::new(it).into_owned();
        let parts = match text.split_once('*') {
            None => PatternParts::Anywhere(Box::new(finder(text))),
            Some((first, rest)) => {
                let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
                // Adjacent stars count as one.
                let middle = middle.split('*').filter(|it| !it.is_empty()).map(finder).collect();
                PatternParts::Whole { first: first.as_bytes().into(), last: last.as_bytes().into(), middle }
            }
        };
        Some(Pattern { begins, parts, shown: None })
    }

    /// The search in the displayed form: searches do not reveal values that `shown` hides.
    #[must_use]
    pub fn in_shown(self, shown: ShownKey) -> Pattern {
        Pattern { shown: Some(shown), ..self }
    }

    /// Whether `key` matches.
    #[must_use]
    pub fn is_in(&self, key: &[u8]) -> bool {
        let Some(end) = self.end_in(key) else { return false };
        // Every key may match. Most match in their path, and are not put into the other form.
        self.shown.is_none_or(|shown| end <= (shown.clear)(key) || self.end_in(&(shown.form)(key)).is_some())
    }

    /// The end of the part of `key` that decides whether it matches; `None` where it does not.
    fn end_in(&self, key: &[u8]) -> Option<usize> {
        let (first, last, middle) = match &self.parts {
            PatternParts::Anywhere(part) => return Some(part.find(key)? + part.needle().len()),
            PatternParts::Whole { first, last, middle } => (first, last, middle),
        };
        let from = key.len() - self.from(key)?.len();
        let rest = &key[from..];
        // The ends first: they are compared at one place; the parts between need a search.
        if rest.len() < first.len() + last.len() || !begins(rest, first) || !ends(rest, last) {
            return None;
        }
        let (mut at, until) = (from + first.len(), key.len() - last.len());
        for part in middle {
            at += part.find(&key[at..until])? + part.needle().len();
        }
        Some(if last.is_empty() { at } else { key.len() })
    }

    /// The key from where the pattern begins.
    fn from<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        if self.begins == Begins::Scheme {
            return Some(key);
        }
        let host = &key[memchr::memchr(b':', key)?..];
        let host = host.get(3..).filter(|_| begins(host, b"://"))?;
        match self.begins {
            Begins::Host => Some(host),
            _ => Some(&host[memchr::memchr(b'/', host)?..]),
        }
    }
}

/// Whether `key`, at least as long, begins with `part`; byte by byte, like [`ends`].
fn begins(key: &[u8], part: &[u8]) -> bool {
    key.iter().zip(part).all(|(one, other)| one == other)
}

/// Whether `key`, at least as long, ends with `part`. Byte by byte from the end: slice comparison loads later bytes, too,
/// and waits for them (a third of the time of a whole walk).
fn ends(key: &[u8], part: &[u8]) -> bool {
    key.iter().rev().zip(part.iter().rev()).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::secret;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, found: &[&str]) {
        const KEYS: [&str; 5] = [
            "http://a.example/news/",
            "http://a.example/news/1.html",
            "http://a.example/x/news/1.html",
            "http://b.example/style.css",
            "http://b.example/news/2.html h:accept=x",
        ];
        let pattern_ = Pattern::new(pattern);
        let is_in = |it: &&str| pattern_.as_ref().is_none_or(|pattern| pattern.is_in(it.as_bytes()));
        let matching: Vec<&str> = KEYS.into_iter().filter(is_in).collect();
        let expect: Vec<&str> = found.iter().map(|at| KEYS[at.parse::<usize>().unwrap()]).collect();
        assert_eq!(expect, matching, "{pattern}");
    }

    #[test]
    fn a_part_or_a_pattern() {
        check("", &["0", "1", "2", "3", "4"]);
        check("*", &["0", "1", "2", "3", "4"]);
        check("**", &["0", "1", "2", "3", "4"]);
        check("http://b.example/style.css*", &["3"]);
        check("*http://b.example/style.css", &["3"]);
        check("*xhttp://b.example/style.css", &[]);
        check("news", &["0", "1", "2", "4"]);
        check("News", &[]);
        check("/news/*", &["0", "1", "4"]);
        check("/news/1.html", &["1", "2"]);
        check("a.example/*.html", &["1", "2"]);
        check("http://a.example/news/*", &["0", "1"]);
        check("*.css", &["3"]);
        check("*example/*/*.html", &["1", "2"]);
        check("example/*", &[]);
        check("/*news/*/1*", &[]);
        check("*h:accept=*", &["4"]);
        check("http://a.example/news/*/", &[]);
        check("*b.example**style*", &["3"]);
    }

    proptest! {
        /// The shortcut for keys that match in their clear part finds the same.
        #[test]
        fn a_search_finds_only_the_displayed(
            key in "http://(h|a)(/|a|b|\\?|=|;|token=a| c:a=b| a){0,8}",
            text in "(/|a|b|h|\\*|\\?|=|token|\\*\\*| ){1,5}",
        ) {
            let shown = ShownKey { form: secret::shown_key, clear: secret::clear_part };
            let Some(plain) = Pattern::new(&text) else { return Ok(()) };
            let key = key.as_bytes();
            let expect = plain.is_in(key) && plain.is_in(&secret::shown_key(key));
            prop_assert_eq!(expect, plain.in_shown(shown).is_in(key));
        }
    }

    /// A query may have thousands of them, and there may be a million keys.
    #[test]
    fn stars_side_by_side_are_one() {
        let pattern = Pattern::new(&format!("h{}news{}", "*".repeat(4000), "*".repeat(4000))).unwrap();
        let PatternParts::Whole { middle, .. } = &pattern.parts else { panic!("it has stars") };
        assert_eq!(1, middle.len());
        assert!(Pattern::new(&"*".repeat(8000)).is_none());
    }
}
