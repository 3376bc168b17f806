//! `Location`, `Content-Location` and `Refresh` of an origin that is asked by its own name. They are rewritten to the
//! scheme and authority that the client asked: it may have no way to the origin. Other fields stay unchanged.

use crate::route::GatewayRoute;
use larder_origin::OriginAddress;
use larder_semantics::field::FieldList;
use larder_semantics::scheme::Scheme;
use larder_wire::message::Request;

/// The fields that refer to another target or to the place of the content (RFC 9110 §8.7, §10.2.2).
const FIELDS: [&str; 2] = ["Location", "Content-Location"];

/// Rewrites them, where the route's origins get their own `Host`.
pub(crate) fn write_back(route: &GatewayRoute, request: &Request, fields: &mut FieldList) {
    if route.own.is_empty() {
        return;
    }
    let is_of_any_host = route.policy.key.any_host_of.is_some();
    let authority = if is_of_any_host { "" } else { &request.authority };
    let back = |reference: &str| written_back(&route.own, request.scheme, authority, reference);
    for name in FIELDS {
        if let Some(written) = only_line(fields, name).and_then(back) {
            fields.set(name, written);
        }
    }
    let refreshed = only_line(fields, "Refresh").and_then(|it| {
        let (before, reference, after) = parts_of_refresh(it)?;
        back(reference).map(|it| format!("{before}{it}{after}"))
    });
    if let Some(written) = refreshed {
        fields.set("Refresh", written);
    }
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

/// The reference for the client; `None` where it names no address of `own` and stays. A reference without an authority
/// becomes a path: the response is kept for any host.
fn written_back(own: &[OriginAddress], scheme: Scheme, authority: &str, reference: &str) -> Option<String> {
    let (named, rest) = match reference.strip_prefix("//") {
        Some(rest) => (scheme, rest),
        None => Scheme::split(reference)?,
    };
    let (found, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = host_and_port(found, named)?;
    if !own.iter().any(|it| is_at(it, host, port)) {
        return None;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    match authority {
        // `//x` alone would name another host (RFC 3986 §4.2).
        "" if path.starts_with("//") => Some(format!("/.{path}")),
        "" => Some(format!("{slash}{path}")),
        _ => Some(format!("{}://{authority}{slash}{path}", scheme.name())),
    }
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
        Some(port) => port,
    };
    Some((host, port.parse().ok()?))
}

fn is_at(address: &OriginAddress, host: &str, port: u16) -> bool {
    match address {
        OriginAddress::Tcp(own, at) => host.eq_ignore_ascii_case(own) && port == *at,
        // The `Host` that such an origin gets.
        OriginAddress::Unix(_) => host.eq_ignore_ascii_case("localhost") && matches!(port, 80 | 443),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reference: &str, expect: Option<&str>) {
        let own = [("127.0.0.1", 8000), ("app.internal", 80), ("::1", 81)]
            .map(|(host, port)| OriginAddress::Tcp(host.to_owned(), port));
        let found = written_back(&own, Scheme::Https, "h:8443", reference);
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
    fn what_is_kept_for_any_host_names_none() {
        let own = [OriginAddress::Tcp("app".to_owned(), 8000)];
        let found = |it: &str| written_back(&own, Scheme::Http, "", it);
        assert_eq!(Some("/a?b".to_owned()), found("http://app:8000/a?b"));
        assert_eq!(Some("/".to_owned()), found("http://app:8000"));
        assert_eq!(Some("/.//evil/x".to_owned()), found("http://app:8000//evil/x"));
        let on_socket = [OriginAddress::Unix("/run/app".into())];
        assert_eq!(Some("/x".to_owned()), written_back(&on_socket, Scheme::Http, "", "http://localhost/x"));
    }
}
