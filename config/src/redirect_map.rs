//! A file of redirects (`site.redirect_map`): one path and its target in each line. The response is made by the server.

use crate::redirect_target;
use larder_semantics::path;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The most bytes of a file.
pub const LARGEST: u64 = 64 << 20;

/// The most problems that are reported for one file.
const MOST_PROBLEMS: usize = 20;

/// The targets of a file, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectMap {
    by_path: HashMap<Box<[u8]>, MapTarget>,
}

/// A target with its status, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapTarget {
    /// A URL or a path.
    pub to: Box<str>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The line, counted from 1.
    pub line: u32,
}

impl RedirectMap {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The wrong lines, counted from 1, each with one sentence.
    pub fn parse(text: &str) -> Result<Self, Vec<(u32, String)>> {
        let (mut map, mut problems) = (Self::default(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
            if let Err(problem) = map.add(number, line) {
                problems.push((number, problem));
            }
        }
        problems.extend(map.loops());
        if problems.is_empty() { Ok(map) } else { Err(problems) }
    }

    fn add(&mut self, line: u32, text: &str) -> Result<(), String> {
        let text = text.split_once(" #").or(text.split_once(";#")).map_or(text, |it| it.0);
        let text = text.trim().trim_end_matches(';').trim_end();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let mut words = text.split_ascii_whitespace();
        let (Some(from), Some(to), status, None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("expected a path, a target and optionally a status, separated by spaces".to_owned());
        };
        if !from.starts_with('/') || from.contains(['?', '#']) {
            return Err(format!("\"{from}\" is no path; begin it with \"/\" and leave the query out"));
        }
        if !is_target(to) {
            return Err(format!(
                "\"{to}\" is no target; write a path such as /new or a URL such as https://example.com/new"
            ));
        }
        let url = to.split_once("://").filter(|_| !to.starts_with('/'));
        let wrong = url.and_then(|(scheme, rest)| redirect_target::wrong_url(scheme, rest));
        if let Some(wrong) = wrong.or_else(|| redirect_target::another_host(to)) {
            return Err(format!("\"{to}\" is no target: {wrong}"));
        }
        if to.ends_with(';') {
            return Err(format!("\"{to}\": the \";\" of nginx belongs at the end of the line; remove it"));
        }
        let status = match status {
            None => 301,
            Some(it) => it
                .parse()
                .ok()
                .filter(|it| matches!(it, 301 | 302 | 303 | 307 | 308))
                .ok_or_else(|| format!("found the status {it}; allowed: 301, 302, 303, 307 or 308"))?,
        };
        match self.by_path.entry(normal(from)) {
            Entry::Occupied(first) => {
                Err(format!("duplicate path {from}; first in line {}", first.get().line))
            }
            Entry::Vacant(free) => {
                free.insert(MapTarget { to: to.into(), status, line });
                Ok(())
            }
        }
    }

    /// Loops of redirects, each at the first of its lines.
    fn loops(&self) -> Vec<(u32, String)> {
        let next = |it: &MapTarget| {
            let path = it.to.starts_with('/').then(|| it.to.split(['?', '#']).next().unwrap_or_default())?;
            self.find(&normal(path))
        };
        let mut starts: Vec<&MapTarget> = self.by_path.values().collect();
        starts.sort_by_key(|it| it.line);
        // By line: the start of the walk that reached it first.
        let (mut walks, mut found) = (HashMap::new(), Vec::new());
        for start in starts {
            let (mut at, mut way) = (Some(start), Vec::new());
            while let Some(it) = at.filter(|it| !walks.contains_key(&it.line)) {
                walks.insert(it.line, start.line);
                way.push(it);
                at = next(it);
            }
            // The walk has returned to itself: the loop is its end.
            let Some(end) = at.filter(|it| walks.get(&it.line) == Some(&start.line)) else { continue };
            let first = way.iter().skip_while(|it| it.line != end.line).min_by_key(|it| it.line);
            let Some(first) = first else { continue };
            found.push((
                first.line,
                format!("the redirect to {} returns to this path; change one of the targets", first.to),
            ));
        }
        found.sort();
        found.truncate(MOST_PROBLEMS);
        found
    }

    /// The redirect of a path in its normal form.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<&MapTarget> {
        self.by_path.get(path)
    }

    /// The redirects to URLs, not to paths, in the order of their lines.
    #[must_use]
    pub fn urls(&self) -> Vec<(&[u8], &MapTarget)> {
        let is_url = |it: &(&[u8], &MapTarget)| !it.1.to.starts_with('/');
        let mut urls: Vec<_> = self.by_path.iter().map(|it| (&**it.0, it.1)).filter(is_url).collect();
        urls.sort_by_key(|it| it.1.line);
        urls
    }

    /// The number of redirects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}

fn normal(text: &str) -> Box<[u8]> {
    let mut room = Vec::new();
    path::read(text.as_bytes(), path::NORMAL, &mut room);
    room.into()
}

/// A path or a URL in the alphabet of RFC 3986.
fn is_target(text: &str) -> bool {
    (text.starts_with('/') || text.contains("://"))
        && text.bytes().all(|it| it.is_ascii_graphic() && !b"\"<>\\^`{}|".contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problem(text: &str, line: u32, part: &str) {
        let problems = RedirectMap::parse(text).unwrap_err();
        assert!(problems[0].0 == line && problems[0].1.contains(part), "{problems:?}");
    }

    #[test]
    fn lines_are_path_target_and_status() {
        let map =
            RedirectMap::parse("# old pages\n/a /b\n\n/c%41  https://x.test/d?e 308; # moved\n").unwrap();
        let found = |path: &str| map.find(path.as_bytes()).map(|it| (&*it.to, it.status));
        assert_eq!(Some(("/b", 301)), found("/a"));
        assert_eq!(Some(("https://x.test/d?e", 308)), found("/cA"));
        assert_eq!((None, 2), (found("/b"), map.len()));
    }

    #[test]
    fn lines_of_nginx_end_with_a_semicolon() {
        let text = "/a /b;\n/c https://x.test/d; # moved\n/e /f 308;\n/g /h;# moved\n/i /j;k";
        let map = RedirectMap::parse(text).unwrap();
        let found = ["/a", "/c", "/e", "/g", "/i"].map(|it| &*map.find(it.as_bytes()).unwrap().to);
        assert_eq!(["/b", "https://x.test/d", "/f", "/h", "/j;k"], found);
        problem("/a /b; 301", 1, "the \";\" of nginx belongs at the end of the line");
        problem("~^/x/(.*)$ /y/$1;", 1, "is no path");
    }

    #[test]
    fn targets_are_urls_or_paths() {
        problem("/a //b.test/c", 1, "write \"https://b.test/c\" for that host, or \"/b.test/c\" for a path");
        problem("/a https://b.test:99999/", 1, "\"99999\" is no port");
        problem("/a HTTPS://b.test/", 1, "write the scheme in lower case");
        problem("/a ftp://b.test/", 1, "\"ftp\" is no scheme of a redirect; write \"http://\"");
        problem("/a https:///b", 1, "it has no host");
        problem("/a b", 1, "is no target; write a path");
    }

    #[test]
    fn wrong_lines_are_named() {
        problem("/a /b\n/a", 2, "expected a path");
        problem("/a /b\n/%61 /c", 2, "duplicate path /%61; first in line 1");
        problem("a /b", 1, "is no path");
        problem("/a //evil.test", 1, "is no target");
        problem("/a /b 200", 1, "found the status 200");
        problem("/x /a\n/a /b\n/b /c\n/c /a", 2, "returns to this path");
        problem("/a /a", 1, "returns to this path");
    }

    #[test]
    fn every_loop_is_named_once() {
        let lines = |text: &str| -> Vec<u32> {
            RedirectMap::parse(text).unwrap_err().into_iter().map(|it| it.0).collect()
        };
        assert_eq!([1, 3], lines("/e /e\n/x /l1\n/l1 /l2\n/l2 /l1\n/y /x\n/z /e?a=b")[..]);
        assert_eq!([1, 3], lines("/a /b\n/b /a#c\n/c /%63\n/d /a")[..]);
        assert!(RedirectMap::parse("/a https://a.test/a\n/b /c\n/c /d").is_ok());
        let long: String = (0..1000).map(|it| format!("/{it} /{}\n", (it + 1) % 1000)).collect();
        assert_eq!([1], lines(&long)[..]);
    }

    /// The figures, which are judged in an optimised build alone: `cargo test --profile trial -p larder-config --lib
    /// a_hundred_thousand_lines -- --nocapture`. Each is of the fastest part: other programs take time from the rest.
    #[test]
    fn a_hundred_thousand_lines_are_read_and_found() {
        use larder_stdx::clock::precise_micros;
        let parts = if cfg!(debug_assertions) { 1 } else { 10 };
        let text: String = (0..100_000).map(|it| format!("/old/{it} /new/{it}\n")).collect();
        let loads = (0..parts).map(|_| {
            let started = precise_micros();
            let map = RedirectMap::parse(&text).unwrap();
            (precise_micros() - started, map)
        });
        let (micros, map) = loads.min_by_key(|it| it.0).unwrap();
        println!("100,000 lines: {} ms", micros / 1000);
        assert_eq!(100_000, map.len());
        assert_eq!("/new/77777", &*map.find(b"/old/77777").unwrap().to);
        let paths: Vec<String> = (0..100_000_u64).map(|it| format!("/old/{}", it * 7919 % 100_000)).collect();
        let lookups = paths.chunks(1000).map(|part| {
            let started = precise_micros();
            assert!(part.iter().all(|it| map.find(it.as_bytes()).is_some()));
            precise_micros() - started
        });
        let nanos = lookups.min().unwrap(); // Microseconds of a thousand.
        println!("a lookup: {nanos} ns");
        let is_judged = !cfg!(debug_assertions);
        assert!(!is_judged || micros < 200_000, "100,000 lines are read in {micros} us, above 200 ms");
        assert!(!is_judged || nanos < 200, "a lookup takes {nanos} ns, above 200 ns");
    }
}
