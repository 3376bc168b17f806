//! The part of a request's path that names a CGI program, and the rest, which is information for it. Whether a file is there is
//! not decided here.

use super::EarlierRoute;
use super::{Script, information};
use crate::path::{self, NORMAL};
use crate::request_view::path_of;

/// The path of a request in the normal form, by which its route was chosen, on a route with programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPath {
    path: Vec<u8>,
    /// The length of the part in front of the path of the program.
    strip: usize,
}

impl ProgramPath {
    /// The path of `target`. `None` if it is not beneath `strip`, a path in the normal form without a slash at its end.
    #[must_use]
    pub fn new(target: &str, strip: &[u8]) -> Option<Self> {
        let mut path = Vec::new();
        path::read(path_of(target).as_bytes(), NORMAL, &mut path);
        let rest = path.strip_prefix(strip)?;
        let is_beneath = rest.is_empty() || rest.starts_with(b"/");
        is_beneath.then_some(Self { strip: strip.len(), path })
    }

    /// The ends of the parts that may name a program beneath a directory, the shortest first. An empty name, a name that begins
    /// with a dot and a name with a control byte name none, and neither does a path behind them.
    pub fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.strip;
        std::iter::from_fn(move || {
            let rest = self.path.get(at + 1..)?;
            let name = rest.split(|it| *it == b'/').next().unwrap_or_default();
            let is_name =
                !name.is_empty() && !name.starts_with(b".") && !name.iter().any(u8::is_ascii_control);
            at = if is_name { at + 1 + name.len() } else { self.path.len() };
            is_name.then_some(at)
        })
    }

    /// The end of the stripped part: of the name of a program that answers every path of its route.
    #[must_use]
    pub fn strip(&self) -> usize {
        self.strip
    }

    /// The path beneath the directory, up to one of [`ProgramPath::ends`].
    #[must_use]
    pub fn beneath(&self, end: usize) -> &[u8] {
        self.path.get(self.strip + 1..end).unwrap_or_default()
    }

    /// Whether the path up to `end` belongs to another route ([`super::other_route`]).
    #[must_use]
    pub fn is_of_other_route(&self, end: usize, method: &str, before: &[EarlierRoute]) -> bool {
        super::other_route(before, method, &self.path, self.path.get(..end).unwrap_or_default()).is_some()
    }

    /// The script, if the path up to `end` names it. It has no root: the file need not lie beneath the directory of a site.
    #[must_use]
    pub fn script(&self, end: usize) -> Script {
        let (name, info) = self.path.split_at(end.min(self.path.len()));
        let info = Some(info).filter(|it| !it.is_empty()).map(information);
        Script { name: name.to_vec(), info, ..Script::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts that may name a program, each with what is left for it.
    #[track_caller]
    fn check(target: &str, strip: &str, expect: &[(&str, &str, Option<&str>)]) {
        let path = ProgramPath::new(target, strip.as_bytes()).expect("it is beneath");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let found: Vec<_> = path
            .ends()
            .map(|end| {
                let script = path.script(end);
                (text(path.beneath(end)), text(&script.name), script.info.map(|it| text(&it)))
            })
            .collect();
        let expect: Vec<_> =
            expect.iter().map(|it| (it.0.to_owned(), it.1.to_owned(), it.2.map(str::to_owned))).collect();
        assert_eq!(expect, found, "{target}");
    }

    #[test]
    fn the_shortest_name_is_first_and_the_rest_is_information() {
        check(
            "/cgi-bin/a/b.cgi/c%20d?x=/e",
            "/cgi-bin",
            &[
                ("a", "/cgi-bin/a", Some("/b.cgi/c d")),
                ("a/b.cgi", "/cgi-bin/a/b.cgi", Some("/c d")),
                ("a/b.cgi/c d", "/cgi-bin/a/b.cgi/c d", None),
            ],
        );
        check("/a", "", &[("a", "/a", None)]);
        check("/a/", "", &[("a", "/a", Some("/"))]);
        check("/", "", &[]);
        check("/cgi-bin", "/cgi-bin", &[]);
        check("/cgi-bin/", "/cgi-bin", &[]);
    }

    #[test]
    fn names_that_name_no_program() {
        check("/c/.git/hooks/a", "/c", &[]);
        check("/c/a/.b/d", "/c", &[("a", "/c/a", Some("/.b/d"))]);
        check("/c/a%00b", "/c", &[]);
        check("/c/a/b%0ac%00", "/c", &[("a", "/c/a", Some("/b%0Ac%00"))]);
        // The normal form has neither `..` nor empty segments.
        check("/c/x/%2e%2e/a//b", "/c", &[("a", "/c/a", Some("/b")), ("a/b", "/c/a/b", None)]);
    }

    #[test]
    fn paths_that_are_not_beneath() {
        for target in ["/cgi-bin/../etc", "/cgi-binary/a", "/", "*", "/cgi-bin%2f..%2fa"] {
            assert_eq!(None, ProgramPath::new(target, b"/cgi-bin"), "{target}");
        }
    }

    #[test]
    fn one_program_for_a_whole_route() {
        let script = |target| {
            let path = ProgramPath::new(target, b"/cgit").expect("it is beneath");
            let it = path.script(path.strip());
            (String::from_utf8(it.name).unwrap(), it.info.map(|it| String::from_utf8(it).unwrap()))
        };
        assert_eq!(("/cgit".to_owned(), Some("/a/b".to_owned())), script("/cgit/a/b?q"));
        assert_eq!(("/cgit".to_owned(), Some("/".to_owned())), script("/cgit/"));
        assert_eq!(("/cgit".to_owned(), None), script("/cgit"));
    }
}
