//! The target of a request for a service that authorises it: the service and the application decide about the same path. The interpretations of a path are in [`crate::path`].

use crate::path::{self, Decode, PathReading};
use crate::request_view::path_of;
use crate::rewrite;
use crate::target::{is_malformed, typed};

/// A target that has one meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnambiguousTarget {
    /// The path in its normal form, by which routes are matched, and the query as received; only bytes of a URL.
    pub uri: String,
    /// Whether the application must get `uri` in place of the received target, because the received path has segments that the
    /// normal form lacks (`.`, `..`, empty ones).
    pub replaces: bool,
}

/// Texts in a path, in lower case, that servers interpret in different ways: an encoded slash or backslash, a backslash, and the
/// parameters of a segment, which Java's servers remove.
const AMBIGUOUS: [&str; 6] = ["%2f", "%5c", "\\", ";", "%3b", "%00"];

impl UnambiguousTarget {
    /// The target in its one meaning; `None` if it has several. Only the path is examined: a query has no segments.
    #[must_use]
    pub fn of(target: &str) -> Option<Self> {
        if target.contains('#') {
            return None;
        }
        let path = path_of(target);
        let query = target.split_once('?').map_or(String::new(), |it| format!("?{}", typed(it.1)));
        if path::is_plain(path.as_bytes()) {
            return Some(Self { uri: typed(path) + &query, replaces: false });
        }
        let lower = path.to_ascii_lowercase();
        if is_malformed(path) || AMBIGUOUS.iter().any(|it| lower.contains(it)) {
            return None;
        }
        let (mut normal, mut decoded) = (Vec::new(), Vec::new());
        path::read(path.as_bytes(), path::NORMAL, &mut normal);
        path::read(path.as_bytes(), PathReading { decode: Decode::All, ..path::SPELLED }, &mut decoded);
        let uri = String::from_utf8_lossy(&rewrite::encoded(&normal)).into_owned();
        Some(Self { uri: uri + &query, replaces: normal != decoded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_view::normal_path;
    use proptest::prelude::*;

    #[track_caller]
    fn check(target: &str, expect: Option<(&str, bool)>) {
        let report = UnambiguousTarget::of(target);
        assert_eq!(expect, report.as_ref().map(|it| (it.uri.as_str(), it.replaces)), "{target}");
    }

    #[test]
    fn a_target_with_one_meaning_is_forwarded_and_an_ambiguous_one_is_not() {
        check("/a?b=c&d=/../e", Some(("/a?b=c&d=/../e", false)));
        check("*", Some(("/", false)));
        check("/%61dmin/%c3%a9", Some(("/admin/%C3%A9", false)));
        check("/a%20b", Some(("/a%20b", false)));
        check("/a%3Fb%23c%2541?q", Some(("/a%3Fb%23c%2541?q", false)));
        check("/public/../admin", Some(("/admin", true)));
        check("/public/%2e%2e/admin", Some(("/admin", true)));
        check("//a//b/", Some(("/a/b/", true)));
        check("/../../a", Some(("/a", true)));
        check("/a%0d%0ab", Some(("/a%0D%0Ab", false)));
        for ambiguous in [
            "/public%2f..%2fadmin",
            "/public/..%5cadmin",
            "/public\\..\\admin",
            "/admin;x/y",
            "/public/..;/admin",
            "/public/..%3b/admin",
            "/a%00b",
            "/a%zz",
            "/a#b",
            "/a?b#c",
        ] {
            check(ambiguous, None);
        }
    }

    proptest! {
        /// The result is the path by which the route was chosen, and has one meaning.
        #[test]
        fn the_forwarded_path_is_the_routed_path(segments in proptest::collection::vec(
            prop_oneof![
                Just("a"), Just(".."), Just("."), Just(""), Just("%2e%2e"), Just("%2E"), Just("%61"), Just("%2f"), Just("a;b"),
                Just("..;"), Just("%5c"), Just("\\"), Just("%25"), Just("%252f"), Just("x y"), Just("%20"), Just("%"),
            ], 0..6)) {
            let target = format!("/{}?q=%2f..", segments.join("/"));
            if let Some(report) = UnambiguousTarget::of(&target) {
                let (mut room, mut again) = (Vec::new(), Vec::new());
                prop_assert_eq!(normal_path(&target, &mut room), normal_path(&report.uri, &mut again));
                let twice = UnambiguousTarget::of(&report.uri).map(|it| (it.uri, it.replaces));
                prop_assert_eq!(Some((report.uri.clone(), false)), twice);
                prop_assert!(report.uri.bytes().all(|it| it.is_ascii_graphic()));
            }
        }
    }
}
