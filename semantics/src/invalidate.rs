//! The targets that an unsafe request invalidates: RFC 9111 §4.4. The invalidation itself is not here (`store`).

use crate::field::{self, Field};
use crate::key;
use crate::method;
use crate::target::is_malformed;

/// The largest number of `Location` and of `Content-Location` lines of one response that are followed.
const MAX_LINES: usize = 4;

/// Whether a request with this response status invalidates stored responses: its method is unsafe, and it did not fail.
#[must_use]
pub fn is_due(method: &str, status: u16) -> bool {
    !method::is_safe(method) && (200..400).contains(&status)
}

/// The targets to invalidate, origin-form, on the request's own origin: its target, those in `Location` and `Content-Location` on the
/// same origin, and the `destination` of the request, which MOVE and COPY replace (RFC 4918 §9.8 and §9.9). Empty for safe methods and
/// for error responses (4xx, 5xx).
///
/// `authority` is the request's; its case and a default port do not matter. References to other origins and with user
/// information are ignored (RFC 9111 §4.4: an origin may invalidate its own URIs only).
#[must_use]
pub fn targets(
    method: &str,
    scheme: &str,
    authority: &str,
    target: &str,
    destination: Option<&[u8]>,
    status: u16,
    response: &[Field<'_>],
) -> Vec<String> {
    if !is_due(method, status) || !target.starts_with('/') {
        return Vec::new();
    }
    let base = BaseUri { scheme, authority, target };
    let mut targets = vec![target.to_owned()];
    let locations =
        ["location", "content-location"].into_iter().flat_map(|it| field::all(response, it).take(MAX_LINES));
    let destination = destination.filter(|_| matches!(method, "MOVE" | "COPY"));
    for reference in locations.chain(destination) {
        targets.extend(base.resolve(reference).filter(|it| !targets.contains(it)));
    }
    targets
}

/// The origin-form of `reference`, resolved against a request's own URI; `None` if it is on another origin or is no URI.
#[must_use]
pub fn resolve(scheme: &str, authority: &str, target: &str, reference: &[u8]) -> Option<String> {
    target.starts_with('/').then_some(BaseUri { scheme, authority, target })?.resolve(reference)
}

/// The request's own URI, against which references are resolved (RFC 3986 §5.2).
struct BaseUri<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// Begins with a slash.
    target: &'a str,
}

impl BaseUri<'_> {
    /// The origin-form of `reference`, as the key of a request for the same text has it; `None` if it is on another
    /// origin or is no URI: no response is stored under a malformed target.
    fn resolve(&self, reference: &[u8]) -> Option<String> {
        self.raw(&ascii(reference)?).filter(|it| !is_malformed(it))
    }

    fn raw(&self, reference: &str) -> Option<String> {
        let reference = reference.split('#').next()?;
        let reference = match scheme_of(reference) {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case(self.scheme) => return None,
            // Without an authority a known scheme's URI is invalid (RFC 9110 §4.2.1).
            Some((_, rest)) if rest.starts_with("//") => rest,
            Some(_) => return None,
            None => reference,
        };
        if let Some(rest) = reference.strip_prefix("//") {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            return self.is_own(authority).then(|| absolute(rest));
        }
        let (base_path, base_query) = split_query(self.target);
        Some(match reference.as_bytes() {
            [] => format!("{base_path}{base_query}"),
            [b'?', ..] => format!("{base_path}{reference}"),
            [b'/', ..] => absolute(reference),
            _ => {
                let directory = base_path.rfind('/').map_or("/", |at| &base_path[..=at]);
                absolute(&format!("{directory}{reference}"))
            }
        })
    }

    fn is_own(&self, authority: &str) -> bool {
        if authority.is_empty() || authority.contains('@') {
            return false;
        }
        let normal = |it: &str| {
            let mut out = String::new();
            key::authority(self.scheme, it, &mut out);
            out
        };
        normal(authority) == normal(self.authority)
    }
}

/// The reference as clients send it: bytes beyond ASCII percent-encoded. `None` for spaces and controls.
fn ascii(reference: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(reference.len());
    for it in reference {
        match it {
            0x21..=0x7e => out.push(char::from(*it)),
            0x80.. => out.push_str(&format!("%{it:02X}")),
            _ => return None,
        }
    }
    Some(out)
}

/// The scheme and the part after its colon (RFC 3986 §3.1).
fn scheme_of(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let valid = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it));
    valid.then_some((scheme, rest))
}

/// Path and query, the query with its `?`.
fn split_query(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// The origin-form of a path with or without a query: dot segments removed (RFC 3986 §5.2.4).
fn absolute(target: &str) -> String {
    let (path, query) = split_query(target);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push(""); // A dot segment at the end names a directory.
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(method: &str, status: u16, response: &[(&str, &str)], expect: &[&str]) {
        let fields: Vec<_> =
            response.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        let got = targets(method, "http", "Example.com", "/a/b?q", None, status, &fields);
        assert_eq!(expect, got, "{method} {status} {response:?}");
    }

    #[test]
    fn unsafe_and_unknown_methods_with_success() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "FOO", "get"] {
            check(method, 200, &[], &["/a/b?q"]);
            check(method, 204, &[("Location", "/x")], &["/a/b?q", "/x"]);
            check(method, 303, &[("location", "/x"), ("Content-Location", "/y")], &["/a/b?q", "/x", "/y"]);
            check(method, 404, &[("Location", "/x")], &[]);
            check(method, 500, &[], &[]);
            check(method, 103, &[], &[]);
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            check(method, 200, &[("Location", "/x")], &[]);
        }
    }

    #[test]
    fn the_destination_of_a_move_or_copy() {
        let check = |method, destination: &str, status, expect: &[&str]| {
            let got = targets(method, "http", "h", "/a/b", Some(destination.as_bytes()), status, &[]);
            assert_eq!(expect, got, "{method} {destination} {status}");
        };
        check("MOVE", "http://h/c", 201, &["/a/b", "/c"]);
        check("COPY", "/c%20d", 204, &["/a/b", "/c%20d"]);
        check("MOVE", "http://other/c", 201, &["/a/b"]);
        check("MOVE", "/c", 412, &[]);
        check("MKCOL", "/c", 201, &["/a/b"]);
        check("GET", "/c", 200, &[]);
    }

    #[test]
    fn a_target_is_named_once() {
        check("POST", 201, &[("Location", "/a/b?q"), ("Content-Location", "/x")], &["/a/b?q", "/x"]);
        check("POST", 201, &[("Location", "/x"), ("Content-Location", "/x#y")], &["/a/b?q", "/x"]);
        let many: Vec<_> = (0..9).map(|it| format!("/{it}")).collect();
        let lines: Vec<_> = many.iter().map(|it| ("Location", it.as_str())).collect();
        check("POST", 201, &lines, &["/a/b?q", "/0", "/1", "/2", "/3"]);
        assert!(targets("CONNECT", "http", "h", "h:80", None, 200, &[]).is_empty());
    }

    #[track_caller]
    fn check_reference(reference: &str, expect: Option<&str>) {
        let expect: Vec<&str> = std::iter::once("/a/b?q").chain(expect).collect();
        check("POST", 201, &[("Location", reference)], &expect);
    }

    #[test]
    fn the_same_origin_in_any_spelling() {
        check_reference("http://example.com/x", Some("/x"));
        check_reference("HTTP://EXAMPLE.com:80/x?y#z", Some("/x?y"));
        check_reference("http://example.com:/x", Some("/x"));
        check_reference("http://example.com", Some("/"));
        check_reference("http://example.com?y", Some("/?y"));
        check_reference("//example.com/x", Some("/x"));
        check_reference("http://example.com/a/./c/../d/..", Some("/a/"));
        check_reference("/\u{e4}", Some("/%C3%A4"));
    }

    #[test]
    fn spelled_as_a_request_for_the_same_text_is() {
        check_reference("/list?f[x]=1", Some("/list?f[x]=1"));
        check_reference("/a|b", Some("/a|b"));
        check_reference("http://example.com/a|b", Some("/a|b"));
        check_reference("//example.com/a|b", Some("/a|b"));
        check_reference("/%zz", None);
        check_reference("/%7Cb", Some("/%7Cb"));
        check_reference("/\"q\"", None);
        check_reference("../a|b", Some("/a|b"));
        check_reference("?x=[1]", Some("/a/b?x=[1]"));
        check_reference("/\u{e4}|", Some("/%C3%A4|"));
    }

    #[test]
    fn references_to_other_origins_invalidate_nothing() {
        check_reference("https://example.com/x", None);
        check_reference("http://example.com:81/x", None);
        check_reference("http://example.org/x", None);
        check_reference("http://example.com.evil/x", None);
        check_reference("http://user@example.com/x", None);
        check_reference("http://evil@example.com:80/x", None);
        check_reference("//example.org/x", None);
        check_reference("http:///x", None);
        check_reference("http:x", None);
        check_reference("http:/x", None);
        check_reference("mailto:me@example.com", None);
        check_reference("/x y", None);
        check_reference("/x\u{1}", None);
    }

    #[test]
    fn relative_references() {
        check_reference("c", Some("/a/c"));
        check_reference("c?d", Some("/a/c?d"));
        check_reference("./c", Some("/a/c"));
        check_reference("../c", Some("/c"));
        check_reference("../../../c", Some("/c"));
        check_reference("..", Some("/"));
        check_reference(".", Some("/a/"));
        check_reference("c/", Some("/a/c/"));
        check_reference("c//d", Some("/a/c//d"));
        check_reference("/c/../d?../e", Some("/d?../e"));
        check_reference("?x", Some("/a/b?x"));
        check_reference("", None);
        check_reference("#x", None);
        check_reference("c:d", None); // A scheme by its looks.
        check_reference("./c:d", Some("/a/c:d"));
        check_reference("1:d", Some("/a/1:d"));
    }

    #[test]
    fn the_base_may_have_a_port() {
        let fields = [Field { name: "Location", value: b"https://[::1]:8443/x" }];
        assert_eq!(["/p", "/x"], targets("PUT", "https", "[::1]:8443", "/p", None, 200, &fields)[..]);
        let fields = [Field { name: "Location", value: b"https://[::1]/x[]" }];
        assert_eq!(["/p"], targets("PUT", "https", "[::1]:8443", "/p", None, 200, &fields)[..]);
        assert_eq!(["/p", "/x[]"], targets("PUT", "https", "[::1]:443", "/p", None, 200, &fields)[..]);
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let fields = [Field { name: "Location", value: &value }];
            let all = targets("POST", "http", "h", "/a/b", None, 200, &fields);
            prop_assert!(all.iter().all(|it| it.starts_with('/') && !it.contains('#')));
            prop_assert!(!all.iter().skip(1).any(|it| is_malformed(it)));
        }

        #[test]
        fn no_dot_segment_is_left(reference in "[a./?]{0,16}") {
            let all = targets("POST", "http", "h", "/a/b", None, 200, &[Field { name: "Location", value: reference.as_bytes() }]);
            for it in &all {
                let path = split_query(it).0;
                prop_assert!(path.split('/').all(|it| it != "." && it != ".."), "{}", it);
            }
        }
    }
}
