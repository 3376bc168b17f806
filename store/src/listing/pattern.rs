//! What is searched for in a key: a part of it, or a pattern with `*`. How keys are walked is in `listing`.

use memchr::memmem::Finder;

/// A search. Case matters, as it does in keys.
///
/// Without `*` it is a part of the key. With `*`, which stands for any bytes, it is the whole key: from its path on where
/// it begins with a slash, from its host on where it names no scheme. So `/news/*` finds what lies beneath `/news/` of
/// any host, and `*.css` what ends so.
pub struct Pattern {
    begins: Begins,
    parts: Vec<Finder<'static>>,
    whole: bool,
}

/// What the pattern begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Scheme,
    Host,
    Path,
}

impl Pattern {
    /// Reads what was written; `None` where that asks for every key.
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
        let parts = text.split('*').map(|it| Finder::new(it).into_owned()).collect();
        Some(Pattern { begins, parts, whole: text.contains('*') })
    }

    /// Whether it is found in `key`.
    #[must_use]
    pub fn is_in(&self, key: &[u8]) -> bool {
        let [first, rest @ ..] = &self.parts[..] else { return true };
        if !self.whole {
            return first.find(key).is_some();
        }
        let Some((last, middle)) = rest.split_last() else { return true };
        // What is empty is not compared, and need not be: see `Rank::cmp`.
        let begins = |it: &[u8]| first.needle().is_empty() || it.starts_with(first.needle());
        // Byte by byte from the end: what compares slices loads what lies behind them, too, and waits for that (a third of the
        // time of a whole walk).
        let ends = |it: &[u8]| {
            let mut pairs = it.iter().rev().zip(last.needle().iter().rev());
            it.len() >= last.needle().len() && pairs.all(|(one, other)| one == other)
        };
        let Some(left) = self.from(key).filter(|it| begins(it)) else { return false };
        let left = &left[first.needle().len()..];
        // The ends first: they are compared at one place, the parts between are searched for.
        if !ends(left) {
            return false;
        }
        let mut left = &left[..left.len() - last.needle().len()];
        for part in middle.iter().filter(|it| !it.needle().is_empty()) {
            let Some(at) = part.find(left) else { return false };
            left = &left[at + part.needle().len()..];
        }
        true
    }

    fn from<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        if self.begins == Begins::Scheme {
            return Some(key);
        }
        let host = memchr::memmem::find(key, b"://")? + 3;
        match self.begins {
            Begins::Host => Some(&key[host..]),
            _ => Some(&key[host + memchr::memchr(b'/', &key[host..])?..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
