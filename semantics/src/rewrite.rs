//! The target that an origin gets: a prefix of the path removed, another one added, parameters of the query changed; and
//! the way back, for references in responses. The key of a request is not changed by this.
//!
//! A route is chosen by the normal form of a path ([`crate::path`]), and so is the meaning of a rewrite. The literal path
//! is rewritten, so that its percent-encoding reaches the origin; where that means something else than the rewritten
//! normal form, the normal form is sent, and the response is not stored.

use crate::path::{self, Decode, NORMAL, PathReading};
use crate::pattern::PathPattern;
use crate::query_rewrite::Parameters;
use crate::request_view::RequestView;
use crate::secret::shown_target;
use crate::target;
use crate::template::Template;
use std::borrow::Cow;

/// The rewrites of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// `strip`, and the same percent-decoded; without a slash at its end, empty where none is removed.
    strip: Prefix,
    /// The text before the path: the base path of `proxy.to`, then `add_prefix`.
    added: Prefix,
    /// The whole path, in place of the client's; `strip` has no effect then.
    path: Option<PathTemplate>,
    /// The changes of the query.
    query: Parameters,
    /// The pattern of the route, whose captures the changes of the query may use.
    pattern: Option<PathPattern>,
    /// The parts that no operator is shown.
    hidden: HiddenPaths,
}

/// The parts of a rewrite that were written with variables of the environment, and may be secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenPaths {
    /// The text before the path.
    pub added: bool,
    /// The text of the whole path.
    pub path: bool,
}

/// The path that is shown in place of a hidden one.
pub const HIDDEN_PATH: &str = "/***";

/// A path made of the client's: the pattern of the route, with its captures, and the text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    /// The pattern.
    pub pattern: PathPattern,
    /// The path, and a query if it has a `?`.
    pub template: Template,
}

/// A prefix of paths, without a slash at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Prefix {
    /// As it is written.
    literal: String,
    /// In its normal form.
    normal: Vec<u8>,
}

/// A rewritten target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The target for the origin.
    pub target: String,
    /// Whether the literal path and its normal form have led to the same; otherwise nothing may be stored.
    pub is_sure: bool,
    /// Whether an application may read it as a path outside of the added prefix: it is not to be sent.
    pub leaves: bool,
}

impl Prefix {
    fn of(literal: &str) -> Self {
        let literal = literal.trim_end_matches('/');
        let mut normal = Vec::new();
        if !literal.is_empty() {
            path::read(literal.as_bytes(), NORMAL, &mut normal);
        }
        Self { literal: literal.to_owned(), normal }
    }
}

impl Rewrite {
    /// Rewrites with these prefixes, which begin with a slash or are empty, and these changes of the query. `None` where
    /// there is nothing to change.
    #[must_use]
    pub fn new(strip: &str, added: &str, query: Parameters) -> Option<Self> {
        let it = Self { strip: Prefix::of(strip), added: Prefix::of(added), query, ..Self::default() };
        (it != Self::default()).then_some(it)
    }

    /// The same, on a route with this pattern.
    #[must_use]
    pub fn on_route(self, pattern: PathPattern) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    /// The rewrite of every path to what a template makes of it, below `added`.
    #[must_use]
    pub fn of_template(path: PathTemplate, added: &str, query: Parameters) -> Self {
        Self { added: Prefix::of(added), path: Some(path), query, ..Self::default() }
    }

    /// The same, which shows none of these parts.
    #[must_use]
    pub fn hiding(self, hidden: HiddenPaths) -> Self {
        Self { hidden, ..self }
    }

    /// The target for the origin instead of `target`; `view` has the rest of the request. One that is no path, such as
    /// `*`, stays.
    #[must_use]
    pub fn target(&self, target: &str, view: &RequestView<'_>) -> Rewritten {
        if !target.starts_with('/') {
            return Rewritten { target: target.to_owned(), is_sure: true, leaves: false };
        }
        let (literal, rest) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
        let view = &RequestView { target, ..*view };
        let (mut target, is_sure, leaves) = match &self.path {
            None => self.path(literal),
            Some(it) => {
                let (made, is_sure) = it.expand(target, literal, view);
                let (path, query) = made.split_at(made.find('?').unwrap_or(made.len()));
                let start = it.template.directory();
                let below = path.strip_prefix(start).filter(|_| !start.is_empty());
                let leaves = !self.added.literal.is_empty() && climbs(path) || below.is_some_and(climbs);
                let mut target = format!("{}{path}", self.added.literal);
                self.write_query(if query.is_empty() { rest } else { query }, literal, view, &mut target);
                return Rewritten { target, is_sure, leaves };
            }
        };
        match rest.strip_prefix('#') {
            Some(_) => target.push_str(rest),
            None => self.write_query(rest, literal, view, &mut target),
        }
        Rewritten { target, is_sure, leaves }
    }

    /// Appends the query for a literal path. The captures are those of the normal form, by which the route was chosen.
    fn write_query(&self, query: &str, literal: &str, view: &RequestView<'_>, out: &mut String) {
        let Some(pattern) = self.pattern.as_ref().filter(|_| !self.query.set.is_empty()) else {
            return self.query.write(query, view, out);
        };
        let mut normal = Vec::new();
        path::read(literal.as_bytes(), NORMAL, &mut normal);
        let captures = pattern.captures(&normal).unwrap_or_default();
        self.query.write(query, &RequestView { path: &normal, captures, ..*view }, out);
    }

    /// The rewritten path, whether it is sure, and whether it leaves the added prefix.
    fn path(&self, path: &str) -> (String, bool, bool) {
        let literal = joined(&self.added.literal, &below(path.as_bytes(), self.strip.literal.as_bytes()));
        if path::is_plain(path.as_bytes()) {
            return (literal, true, false);
        }
        let (mut normal, mut again) = (Vec::new(), Vec::new());
        path::read(path.as_bytes(), NORMAL, &mut normal);
        let stripped = below(&normal, &self.strip.normal);
        if literal == path && *stripped == *normal {
            return (literal, true, false);
        }
        let expect = joined(&self.added.literal, &encoded(&stripped));
        path::read(expect.as_bytes(), NORMAL, &mut normal);
        path::read(literal.as_bytes(), NORMAL, &mut again);
        let is_sure = normal == again && !climbs(&literal[self.added.literal.len()..]);
        let chosen = if is_sure { literal } else { expect };
        let leaves = !self.added.literal.is_empty() && climbs(&chosen[self.added.literal.len()..]);
        (chosen, is_sure, leaves)
    }

    /// The path at the client for a path at the origin; `None` where it stays: it is not below the added prefix, or
    /// names the client's path already.
    #[must_use]
    pub fn back(&self, path: &str) -> Option<String> {
        if self.path.is_some() {
            return None;
        }
        let added = self.added.literal.as_bytes();
        let strip = &self.strip.literal;
        if (added.is_empty() && is_below(path, strip)) || !is_below(path, &self.added.literal) {
            return None;
        }
        let rest = &path[added.len()..];
        Some(match (strip.is_empty(), rest) {
            (true, "") => "/".to_owned(),
            // `//x` alone would name another host (RFC 3986 §4.2).
            (true, rest) if rest.starts_with("//") => format!("/.{rest}"),
            _ => format!("{strip}{rest}"),
        })
        .filter(|it| it != path)
    }

    /// The path of a cookie at the client (RFC 6265 §5.1.4); `None` where it stays. A cookie for more than the added
    /// prefix is one for everything that the client may ask of this route.
    #[must_use]
    pub fn cookie_path(&self, path: &str) -> Option<String> {
        if self.path.is_some() {
            return None;
        }
        let (added, strip) = (&self.added.literal, &self.strip.literal);
        let bare = path.trim_end_matches('/');
        if added.is_empty() && is_below(path, strip) {
            return None;
        }
        let rest = match bare.strip_prefix(added.as_str()) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ if is_below(added, bare) => "",
            _ => return None,
        };
        let back = match (strip.is_empty(), rest) {
            (true, "") => "/".to_owned(),
            _ => format!("{strip}{rest}"),
        };
        (back != path).then_some(back)
    }

    /// The same without its parts and the values of its query parameters that may be secrets; for `explain`.
    #[must_use]
    pub fn shown(&self) -> Self {
        let mut shown = Self { query: self.query.shown(), ..self.clone() };
        if self.hidden.added && !self.added.literal.is_empty() {
            shown.added = Prefix::of(HIDDEN_PATH);
        }
        if let (true, Some(path), Ok(template)) =
            (self.hidden.path, &mut shown.path, Template::parse(HIDDEN_PATH))
        {
            path.template = template;
        }
        shown
    }

    /// The changes, as the beginning of a sentence; for `explain`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if !self.strip.literal.is_empty() {
            parts.push(format!("without the prefix {}", self.strip.literal));
        }
        if let Some(it) = &self.path {
            parts.push(format!("the path made by \"{}\"", shown_target(it.template.text())));
        }
        if !self.added.literal.is_empty() {
            parts.push(format!("below {}", self.added.literal));
        }
        parts.extend(self.query.describe());
        parts.join(", ")
    }
}

impl PathTemplate {
    /// The path and perhaps the query for a target, whose path is `path`; and whether all readings of it lead to that.
    /// The captures are those of the normal form, by which the route was chosen.
    fn expand(&self, target: &str, path: &str, view: &RequestView<'_>) -> (String, bool) {
        let (mut normal, mut other) = (Vec::new(), Vec::new());
        path::read(path.as_bytes(), NORMAL, &mut normal);
        let captures = self.pattern.captures(&normal).unwrap_or_default();
        let mut out = Vec::new();
        self.template.expand_url(&RequestView { target, path: &normal, captures, ..*view }, &mut out);
        let is_sure = path::is_plain(path.as_bytes())
            || [Decode::NotSlashes, Decode::All].into_iter().all(|decode| {
                path::read(path.as_bytes(), PathReading { decode, ..path::SPELLED }, &mut other);
                other == normal
            });
        let made = String::from_utf8_lossy(&out);
        let made = made.split('#').next().unwrap_or_default();
        (if made.starts_with('/') { made.to_owned() } else { format!("/{made}") }, is_sure)
    }
}

/// Whether a text may be a prefix that is added to or removed from paths: a path with one interpretation, up to its
/// percent-encoding (RFC 3986 §3.3).
#[must_use]
pub fn is_prefix(text: &str) -> bool {
    let segments = text.strip_prefix('/').map(|it| it.strip_suffix('/').unwrap_or(it).split('/'));
    let mut normal = Vec::new();
    path::read(text.as_bytes(), PathReading { merge: false, dots: false, ..NORMAL }, &mut normal);
    let is_whole = |it: &str| !matches!(it, "" | "." | "..");
    segments.is_some_and(|mut it| it.all(is_whole))
        && text.bytes().all(|it| matches!(it, b'/' | b'%') || target::is_path_byte(it))
        && !target::is_malformed(text)
        && normal.iter().filter(|it| **it == b'/').count() == text.matches('/').count()
        && normal.split(|it| *it == b'/').all(|it| !matches!(it, b"." | b".."))
}

/// Whether a path is `prefix` or below it; every path is below the empty one.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|it| it.is_empty() || it.starts_with('/') || prefix.is_empty())
}

/// The part of `path` below `prefix`, with one slash; all of it where it is elsewhere.
fn below<'p>(path: &'p [u8], prefix: &[u8]) -> Cow<'p, [u8]> {
    match path.strip_prefix(prefix).filter(|_| !prefix.is_empty()) {
        Some([]) => Cow::Borrowed(b"/"),
        Some(rest) if rest.starts_with(b"/") => {
            // A target that begins with two slashes is read as a host by some servers.
            let more = rest.iter().take_while(|it| matches!(it, b'/' | b'\\')).count();
            match more {
                1 => Cow::Borrowed(rest),
                _ => Cow::Owned([b"/", &rest[more..]].concat()),
            }
        }
        _ => Cow::Borrowed(path),
    }
}

fn joined(prefix: &str, rest: &[u8]) -> String {
    format!("{prefix}{}", String::from_utf8_lossy(rest))
}

/// A decoded path as it is sent: every byte that no path has is percent-encoded (RFC 3986 §3.3).
pub(crate) fn encoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b'/' => out.push(b'/'),
            _ => target::encode(*byte, target::is_path_byte, &mut out),
        }
    }
    out
}

/// Whether an application may read a path as one above its root: in every segment that can be read as `..`, however it is
/// spelled, one segment before it is dropped, of as few as a reading has.
fn climbs(path: &str) -> bool {
    let mut room = Vec::new();
    let both = [false, true];
    [Decode::No, Decode::NotSlashes, Decode::All].into_iter().any(|decode| {
        both.into_iter().any(|backslash| {
            let way = PathReading { decode, backslash, merge: true, dots: false, parameters: true };
            path::read(path.as_bytes(), way, &mut room);
            let mut depth = 0_usize;
            room.split(|it| *it == b'/').any(|segment| {
                match segment {
                    b"" | b"." => {}
                    b".." if depth == 0 => return true,
                    b".." => depth -= 1,
                    _ => depth += 1,
                }
                false
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewrite(strip: &str, added: &str) -> Rewrite {
        Rewrite::new(strip, added, Parameters::default()).unwrap()
    }

    #[track_caller]
    fn check(strip: &str, added: &str, target: &str, expect: &str) {
        let found = rewrite(strip, added).target(target, &RequestView::default());
        assert_eq!((expect, true, false), (&*found.target, found.is_sure, found.leaves), "{target}");
    }

    #[test]
    fn prefixes_are_removed_and_added_at_segments() {
        for (target, expect) in [
            ("/api/users?a=b&&c", "/users?a=b&&c"),
            ("/api", "/"),
            ("/api/", "/"),
            ("/api?x", "/?x"),
            ("/apiary/x", "/apiary/x"),
            ("/other", "/other"),
            ("/api/a%2Fb/%c3%a9;v=1", "/a%2Fb/%c3%a9;v=1"),
            ("/api/api/x", "/api/x"),
            ("*", "*"),
        ] {
            check("/api", "", target, expect);
            check("/api/", "", target, expect);
        }
        check("", "/v2", "/x?y", "/v2/x?y");
        check("", "/v2/", "/", "/v2/");
        check("/api", "/v2/b", "/api/x", "/v2/b/x");
        check("/api", "/v2", "/api", "/v2/");
        check("/caf%C3%A9", "", "/caf%C3%A9/x", "/x");
    }

    /// A target that begins with two slashes would be read as a host by some applications, and sent back in a redirect.
    #[test]
    fn no_target_begins_with_two_slashes() {
        for path in
            ["/api//evil.example", "/api///evil.example", "/api/\\evil.example", "/api/\\/evil.example"]
        {
            check("/api", "", path, "/evil.example");
        }
    }

    /// The rewritten normal form is sent wherever the literal path means something else.
    #[test]
    fn an_ambiguous_path_is_rewritten_by_the_form_that_was_matched() {
        for (strip, added, path, expect) in [
            ("/api", "", "/%61pi/x", "/x"),
            ("/api", "", "//api/x", "/x"),
            ("/api", "", "/api%2fx%3Fy", "/x%3Fy"),
            ("/api", "", "/x/../api/y", "/y"),
            ("/api", "", "/api/../secret", "/secret"),
            ("/caf%C3%A9", "", "/caf%c3%a9/x", "/x"),
            ("", "/v2", "/../admin", "/v2/admin"),
            ("", "/v2", "/a/..%2f..%2fadmin", "/v2/admin"),
            ("/api", "/v2", "/api/../../admin", "/v2/admin"),
        ] {
            let found = rewrite(strip, added).target(path, &RequestView::default());
            assert_eq!((expect, false, false), (&*found.target, found.is_sure, found.leaves), "{path}");
        }
    }

    /// Tomcat reads `..;` as `..`.
    #[test]
    fn no_reading_leaves_the_added_prefix() {
        let leaves = |path: &str| rewrite("/api", "/v2").target(path, &RequestView::default()).leaves;
        for path in ["/..;/admin", "/api/..;x/admin", "/a/b/..;/..;/..;/c", "/.;/..;/c", "/%2e%2e%3b/"] {
            assert!(leaves(path), "{path}");
        }
        for path in ["/a/..;/b", "/a%2fb/..;/..;/c", "/a;..;/b", "/a..;/b", "/x/../y", "/../y"] {
            assert!(!leaves(path), "{path}");
        }
        let found = rewrite("/api", "").target("/api/..;/b", &RequestView::default());
        assert!(!found.leaves && !found.is_sure, "there is nothing to leave, but what it means is open");
    }

    #[test]
    fn references_are_written_back() {
        for (strip, added, path, expect) in [
            ("/api", "", "/login", Some("/api/login")),
            ("/api", "", "/", Some("/api/")),
            ("/api", "", "/api/login", None),
            ("/api", "", "/api", None),
            ("/api", "", "/apiary", Some("/api/apiary")),
            ("", "/v2", "/v2/x", Some("/x")),
            ("", "/v2", "/v2", Some("/")),
            ("", "/v2", "/v2/", Some("/")),
            ("", "/v2", "/v3", None),
            ("", "/v2", "/v22", None),
            ("/api", "/v2", "/v2/x", Some("/api/x")),
            ("/api", "/v2", "/v2", Some("/api")),
            ("/api", "/v2", "/x", None),
            ("", "/v2", "/v2//evil.example", Some("/.//evil.example")),
            ("/v2", "/v2", "/v2/x", None),
        ] {
            assert_eq!(expect, rewrite(strip, added).back(path).as_deref(), "{strip} {added} {path}");
        }
    }

    #[test]
    fn paths_of_cookies_are_written_back() {
        for (strip, added, path, expect) in [
            ("/api", "", "/", Some("/api")),
            ("/api", "", "/x/", Some("/api/x")),
            ("/api", "", "/api", None),
            ("", "/v2", "/", None),
            ("", "/v2", "/v2/", Some("/")),
            ("", "/v2/b", "/v2", Some("/")),
            ("", "/v2", "/v2/x", Some("/x")),
            ("", "/v2", "/other", None),
            ("/api", "/v2", "/", Some("/api")),
            ("/api", "/v2", "/v2", Some("/api")),
            ("/api", "/v2", "/v2/x", Some("/api/x")),
        ] {
            assert_eq!(expect, rewrite(strip, added).cookie_path(path).as_deref(), "{strip} {added} {path}");
        }
    }

    #[test]
    fn prefixes_have_one_interpretation() {
        for good in ["/a", "/a/", "/a/b.c", "/caf%C3%A9", "/a;b", "/@x/$"] {
            assert!(is_prefix(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "a",
            "//a",
            "/a//",
            "/a/../b",
            "/./a",
            "/a%2fb",
            "/%2e%2e/a",
            "/a?b",
            "/a#",
            "/a b",
            "/a%4",
            "/é",
        ] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }

    #[test]
    fn queries_are_changed_by_decoded_names() {
        let list = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let check = |keep: &[&str], remove: &[&str], set: &[(&str, &str)], target: &str, expect: &str| {
            let set = set.iter().map(|it| (it.0.to_owned(), Template::parse(it.1).unwrap())).collect();
            let query = Parameters { keep: list(keep), remove: list(remove), set };
            assert_eq!(
                expect,
                Rewrite::new("", "", query).unwrap().target(target, &RequestView::default()).target,
                "{target}"
            );
        };
        check(&[], &["utm_*"], &[], "/?utm_a=1&b=2&ut%6d_c", "/?b=2");
        check(&[], &["a"], &[], "/x?a", "/x");
        check(&["id"], &[], &[], "/?a&i%64=7&&b", "/?i%64=7");
        check(&[], &[], &[("v", "2")], "/", "/?v=2");
        check(&[], &[], &[("v", "2")], "/?v=1&a&%76=3", "/?a&v=2");
        check(&[], &[], &[("a b&", "2")], "/?c", "/?c&a%20b%26=2");
        check(
            &[],
            &[],
            &[("v", "{query.w}{method}")],
            "/?w=a%26b%3Dc%23",
            "/?w=a%26b%3Dc%23&v=a%26b%3Dc%23GET",
        );
        check(&[], &[], &[("p", "{uri}")], "/x?y=z&p=1", "/x?y=z&p=/x?y%3Dz%26p%3D1");
    }

    #[test]
    fn a_parameter_reads_the_captures_of_the_route() {
        let set = vec![("id".to_owned(), Template::parse("{id}-{2}").unwrap())];
        let query = Parameters { set, ..Parameters::default() };
        let pattern = PathPattern::of("/shop/{id}/{what}");
        let it = Rewrite::new("/shop", "", query).unwrap().on_route(pattern);
        let target = |target: &str| it.target(target, &RequestView::default()).target;
        assert_eq!("/7/a?id=7-a", target("/shop/7/a"));
        assert_eq!("/a%26b/c?x&id=a%26b-c", target("/shop/a%26b/c?x&id=1"));
    }

    #[test]
    fn a_path_is_made_by_a_template() {
        #[track_caller]
        fn check(pattern: &str, template: &str, target: &str, expect: &str, sure: bool) {
            let template = Template::parse(template).unwrap();
            let it = PathTemplate { pattern: PathPattern::of(pattern), template };
            let it = Rewrite::of_template(it, "", Parameters::default());
            let found = it.target(target, &RequestView { target, ..RequestView::default() });
            assert_eq!((expect, sure), (&*found.target, found.is_sure), "{target}");
        }
        check("/shop/{id}", "/item/{id}", "/shop/7?a=b", "/item/7?a=b", true);
        check("/shop/{id}", "/item.php?id={id}", "/shop/a%20b%26?a=b", "/item.php?id=a%20b%26", true);
        check("/shop/{id}", "/item.php?id={id}&{query}", "/shop/7?a=b", "/item.php?id=7&a=b", true);
        check("/shop/*", "/all/{1}", "/shop/a%2Fb%3fc", "/all/a/b%3Fc", false);
        check("/shop/*", "/{1}", "/shop//evil.example", "/evil.example", false);
        check("/shop/*", "{1}", "/shop/x", "/x", true);
        check("regex:/(\\d+)/x", "/y/{1}", "/12/x", "/y/12", true);
        for (template, target, leaves) in [
            ("/public{path}", "/rw/..;/..;/admin", true),
            ("/public{path}", "/rw/..;/x", false),
            ("/in/{1}", "/rw/%2e%2e;/admin", true),
            ("/in/{1}", "/rw/a/..;/b", false),
            ("/{1}", "/rw/..;/admin", false),
        ] {
            let template = Template::parse(template).unwrap();
            let it = PathTemplate { pattern: PathPattern::of("/rw/*"), template };
            let it = Rewrite::of_template(it, "", Parameters::default());
            let found = it.target(target, &RequestView { target, ..RequestView::default() });
            assert_eq!(leaves, found.leaves, "{target}: {}", found.target);
        }
        let template = Template::parse("/a/{header.x}").unwrap();
        let it = PathTemplate { pattern: PathPattern::of("/*"), template };
        let it = Rewrite::of_template(it, "/base", Parameters::default());
        let fields = [crate::field::Field { name: "X", value: b"../../admin?x" }];
        let found = it.target("/", &RequestView { fields: &fields, ..RequestView::default() });
        assert_eq!(("/base/a/../../admin%3Fx", true), (&*found.target, found.leaves));
    }

    proptest! {
        #[test]
        fn the_target_sent_has_the_rewritten_normal_form(path in odd_paths(), at in 0..4_usize) {
            let (strip, added) = [("/a", ""), ("", "/v2"), ("/a", "/v2"), ("/a/b", "/v2/x")][at];
            let it = rewrite(strip, added);
            let found = it.target(&path, &RequestView::default());
            let (mut normal, mut sent) = (Vec::new(), Vec::new());
            path::read(path.as_bytes(), NORMAL, &mut normal);
            path::read(found.target.as_bytes(), NORMAL, &mut sent);
            let expect = [added.as_bytes(), &below(&normal, strip.as_bytes())].concat();
            prop_assert_eq!(expect.escape_ascii().to_string(), sent.escape_ascii().to_string());
            prop_assert!(strip.is_empty() || !added.is_empty() || !normal.starts_with(b"/a/") || !found.target.starts_with("//"));
            if !found.leaves && !added.is_empty() {
                prop_assert!(path::holds_for_all(found.target.as_bytes(), &mut Vec::new(), |read, decode| {
                    decode == Decode::No || read.starts_with(added.as_bytes())
                }), "{}", found.target);
            }
        }
    }

    fn odd_paths() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "/", "/", "a", "b", ".", "..", "%2f", "%5c", "\\", "%2e", "%61", "%25", "%", ";", "%3b", "%3f",
        ]);
        prop::collection::vec(part, 0..10).prop_map(|it| format!("/{}", it.concat()))
    }
}
