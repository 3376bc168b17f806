//! `Location`, `Content-Location` and `Refresh` of an origin that refers to itself by its own address, or is asked with a
//! rewritten path. They are rewritten to what the client asked: it may have no way to the origin. Done before the response is stored, so that
//! hits cost nothing and invalidations resolve the client's URLs; other fields stay unchanged. Cookies: `set_cookie`.

use crate::route::GatewayRoute;
use crate::set_cookie;
use larder_origin::OriginAddress;
use larder_semantics::field::FieldList;
use larder_semantics::scheme::Scheme;
use larder_wire::message::Request;

/// The fields that refer to another target or to the place of the content (RFC 9110 §8.7, §10.2.2).
const FIELDS: [&str; 2] = ["Location", "Content-Location"];

/// Rewrites them, where they name an address of the route's origins or a rewritten path.
pub(crate) fn write_back(route: &GatewayRoute, request: &Request, fields: &mut FieldList) {
    if route.own.is_empty() && route.rewrite.target.is_none() {
        return;
    }
    let any_host_of = route.policy.key.any_host_of.as_deref();
    let back = ReverseMapping {
        own: &route.own,
        path: &|it| route.rewrite.target.as_ref()?.back(it),
        scheme: request.scheme,
        authority: if any_host_of.is_some() { "" } else { &request.authority },
        sent: any_host_of.unwrap_or(&request.authority),
    };
    for name in FIELDS {
        if let Some(written) = only_line(fields, name).and_then(|it| back.written(it)) {
            fields.set(name, written);
        }
    }
    let refreshed = only_line(fields, "Refresh").and_then(|it| {
        let (before, reference, after) = parts_of_refresh(it)?;
        back.written(reference).map(|it| format!("{before}{it}{after}"))
    });
    if let Some(written) = refreshed {
        fields.set("Refresh", written);
    }
    set_cookie::write_back(route, request, fields);
}

/// The value of a field that has one line.
fn only_line<'f>(fields: &'f FieldList, name: &'f str) -> Option<&'f str> {
    let mut lines = fields.get_all(name);
    match (lines.next(), lines.next()) {
        (Some(value), None) => std::str::from_utf8(value).ok(),
        _ => None,
    }
}

/// The URL of a `Refresh` with the text before and after it, as browsers parse `5; url='http://h/'` (HTML, "shared
/// declarative refresh steps"). `None` where it has no URL.
fn parts_of_refresh(value: &str) -> Option<(&str, &str, &str)> {
    let is_space = |it: char| it.is_ascii_whitespace();
    let rest =
        value.trim_start_matches(is_space).trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
    let rest = rest.strip_prefix(|it| is_space(it) || matches!(it, ';' | ','))?;
    let rest = rest.trim_start_matches(is_space);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(is_space);
    let named = rest.split_at_checked(3).filter(|it| it.0.eq_ignore_ascii_case("url"));
    let named = named.and_then(|it| it.1.trim_start_matches(is_space).strip_prefix('='));
    let rest = named.map_or(rest, |it| it.trim_start_matches(is_space));
    let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''));
    let rest = quote.map_or(rest, |_| &rest[1..]);
    let end = quote.and_then(|it| rest.find(it)).unwrap_or(rest.trim_end_matches(is_space).len());
    let (reference, after) = rest.split_at(end);
    (!reference.is_empty()).then(|| (&value[..value.len() - rest.len()], reference, after))
}

/// How references of a response are written back.
struct ReverseMapping<'r> {
    /// The addresses by which the origins refer to themselves.
    own: &'r [OriginAddress],
    /// The client's path for one of the origin; `None` where it stays.
    path: &'r dyn Fn(&str) -> Option<String>,
    /// The client's scheme.
    scheme: Scheme,
    /// The client's authority; empty where the response is kept for any host.
    authority: &'r str,
    /// The authority that the origin was sent, where it gets the client's.
    sent: &'r str,
}

impl ReverseMapping<'_> {
    /// The reference for the client; `None` where it stays: it names neither an address of `own` nor a path that was
    /// rewritten. A reference without an authority becomes a path where the response is kept for any host.
    fn written(&self, reference: &str) -> Option<String> {
        let split = match reference.strip_prefix("//") {
            Some(rest) => Some((self.scheme, rest)),
            None => Scheme::split(reference),
        };
        let Some((named, rest)) = split else {
            return reference.starts_with('/').then(|| self.path(reference)).flatten();
        };
        let (found, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (host, port) = host_and_port(found, named)?;
        // The origin knows its scheme only from fields that not every application reads.
        let is_sent = !self.sent.is_empty() && bare(found).eq_ignore_ascii_case(bare(self.sent));
        // A redirect to TLS would come back to the same URL.
        let secures = is_sent && (named, self.scheme) == (Scheme::Https, Scheme::Http);
        if secures || !self.own.iter().any(|it| is_at(it, host, port)) {
            let before = &reference[..reference.len() - path.len()];
            return self.path(path).filter(|_| is_sent).map(|it| format!("{before}{it}"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        let path = self.path(&path).unwrap_or(path);
        Some(match self.authority {
            // `//x` alone would name another host (RFC 3986 §4.2); browsers ignore tabs and read `\` as `/`.
            "" if path[1..].trim_start_matches('\t').starts_with(['/', '\\']) => format!("/.{path}"),
            "" => path,
            authority => format!("{}://{authority}{path}", self.scheme.name()),
        })
    }

    /// A reference that begins with a path, with the client's path.
    fn path(&self, reference: &str) -> Option<String> {
        let (path, rest) = reference.split_at(reference.find(['?', '#']).unwrap_or(reference.len()));
        (self.path)(path).map(|it| it + rest)
    }
}

/// An authority without the port of a scheme.
fn bare(authority: &str) -> &str {
    Scheme::Https.without_port(Scheme::Http.without_port(authority))
}

/// Host, an IPv6 address without its brackets, and port; a missing port is the scheme's.
fn host_and_port(authority: &str, scheme: Scheme) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if !port.is_empty() => return None,
        None | Some("") => scheme.default_port(),
        Some(port) if port.bytes().all(|it| it.is_ascii_digit()) => port,
        Some(_) => return None,
    };
    Some((host, port.parse().ok()?))
}

fn is_at(address: &OriginAddress, host: &str, port: u16) -> bool {
    match address {
        OriginAddress::Tcp(own, at) => host.eq_ignore_ascii_case(own) && port == *at,
        // The `Host` that such an origin gets.
        OriginAddress::Unix(_) | OriginAddress::Programs(_) => {
            host.eq_ignore_ascii_case("localhost") && matches!(port, 80 | 443)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::query_rewrite::Parameters;
    use larder_semantics::rewrite::Rewrite;

    #[track_caller]
    fn check(reference: &str, expect: Option<&str>) {
        let own = [("127.0.0.1", 8000), ("app.internal", 80), ("::1", 81)]
            .map(|(host, port)| OriginAddress::Tcp(host.to_owned(), port));
        let back = ReverseMapping {
            own: &own,
            path: &|_| None,
            scheme: Scheme::Https,
            authority: "h:8443",
            sent: "h:8443",
        };
        let found = back.written(reference);
        assert_eq!(expect, found.as_deref(), "{reference}");
    }

    #[test]
    fn the_origins_own_address_becomes_the_clients() {
        check("http://127.0.0.1:8000/a?b#c", Some("https://h:8443/a?b#c"));
        check("HTTP://127.0.0.1:8000", Some("https://h:8443/"));
        check("https://127.0.0.1:8000?q", Some("https://h:8443/?q"));
        check("http://App.Internal/login", Some("https://h:8443/login"));
        check("http://app.internal:80/", Some("https://h:8443/"));
        check("http://[::1]:81/x", Some("https://h:8443/x"));
        check("//127.0.0.1:8000/x", Some("https://h:8443/x"));
        check("http://127.0.0.1:8000//x", Some("https://h:8443//x"));
    }

    #[test]
    fn the_url_of_a_refresh_is_found() {
        for (value, expect) in [
            ("5; url=http://h/", Some(("5; url=", "http://h/", ""))),
            ("0;URL='http://h/a;b' ", Some(("0;URL='", "http://h/a;b", "' "))),
            (" 1.5 , Url = \"http://h/", Some((" 1.5 , Url = \"", "http://h/", ""))),
            ("3 http://h/ ", Some(("3 ", "http://h/", " "))),
            ("3;http://h/", Some(("3;", "http://h/", ""))),
            (";url=/a", Some((";url=", "/a", ""))),
            ("3;url/a", Some(("3;", "url/a", ""))),
            ("5", None),
            ("5;", None),
            ("5;url=", None),
            ("5;url=''", None),
            ("5x;url=/a", None),
            ("", None),
        ] {
            assert_eq!(expect, parts_of_refresh(value), "{value}");
        }
    }

    #[test]
    fn other_references_stay() {
        for reference in [
            "/a",
            "a",
            "",
            "?q",
            "http://127.0.0.1:8001/",
            "http://127.0.0.1/",
            "http://127.0.0.1:+8000/",
            "http://127.0.0.1:8000.evil/",
            "http://127.0.0.1:8000@evil/",
            "http://u@127.0.0.1:8000/",
            "http://app.internal.evil/",
            "https://app.internal/",
            "http://[::1/x",
            "http://[::1]x/",
            "ftp://127.0.0.1:8000/",
            "//other/x",
            "http://other/?to=http://127.0.0.1:8000/",
        ] {
            check(reference, None);
        }
    }

    #[test]
    fn a_location_kept_for_any_host_names_no_host() {
        let own = [OriginAddress::Tcp("app".to_owned(), 8000)];
        let back =
            |own| ReverseMapping { own, path: &|_| None, scheme: Scheme::Http, authority: "", sent: "" };
        let found = |it: &str| back(&own).written(it);
        assert_eq!(Some("/a?b".to_owned()), found("http://app:8000/a?b"));
        assert_eq!(Some("/".to_owned()), found("http://app:8000"));
        assert_eq!(Some("/.//evil/x".to_owned()), found("http://app:8000//evil/x"));
        assert_eq!(Some("/./\\evil/x".to_owned()), found("http://app:8000/\\evil/x"));
        assert_eq!(Some("/./\t/evil/x".to_owned()), found("http://app:8000/\t/evil/x"));
        let on_socket = [OriginAddress::Unix("/run/app".into())];
        assert_eq!(Some("/x".to_owned()), back(&on_socket).written("http://localhost/x"));
    }

    /// An origin may have the site's name as its address: `to = ["https://h"]`.
    #[test]
    fn a_redirect_to_tls_stays() {
        let own = [443, 80].map(|port| OriginAddress::Tcp("h".to_owned(), port));
        let back = |scheme| ReverseMapping { own: &own, path: &|_| None, scheme, authority: "h", sent: "h" };
        assert_eq!(None, back(Scheme::Http).written("https://h/x"));
        assert_eq!(Some("https://h/x".to_owned()), back(Scheme::Https).written("http://h/x"));
    }

    #[test]
    fn the_path_is_the_clients() {
        let own = [OriginAddress::Tcp("app".to_owned(), 8000)];
        let rewrite = Rewrite::new("/api", "/v2", Parameters::default()).unwrap();
        let check = |own: &[OriginAddress], reference: &str, expect: Option<&str>| {
            let (path, scheme) = (&|it: &str| rewrite.back(it), Scheme::Https);
            let back = ReverseMapping { own, path, scheme, authority: "h", sent: "h" };
            assert_eq!(expect, back.written(reference).as_deref(), "{reference}");
        };
        check(&own, "http://app:8000/v2/x?/v2/y#/v2/z", Some("https://h/api/x?/v2/y#/v2/z"));
        check(&own, "http://app:8000/x", Some("https://h/x"));
        check(&own, "/v2/x?q", Some("/api/x?q"));
        check(&own, "/v2?q", Some("/api?q"));
        check(&[], "http://h/v2/x", Some("http://h/api/x"));
        check(&[], "https://H:443/v2/x", Some("https://H:443/api/x"));
        check(&[], "//h/v2/x", Some("//h/api/x"));
        for other in ["http://other/v2/x", "https://h/x", "x", "?v2", "", "//v2/x", "/x", "https://h:1/v2/x"]
        {
            check(&[], other, None);
        }
    }
}
