//! The targets of redirects that larder sends itself: of a site, of a route, and for a missing slash. The responses are made by the
//! server; the check of a configuration follows the same targets.

use crate::pattern::PathPattern;
use crate::request_view::RequestView;
use crate::scheme::Scheme;
use crate::template::Template;

/// The key that redirects a request to another origin of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginRedirect {
    /// `site.redirect_https`.
    Https,
    /// `site.canonical_host`.
    CanonicalHost,
}

/// The target of a request that comes without TLS, if `to_https`, or with another host than the canonical one. `tls_port` is the port
/// of the first listener with TLS.
#[must_use]
pub fn to_canonical(
    to_https: bool,
    canonical_host: Option<&str>,
    tls_port: Option<u16>,
    view: &RequestView<'_>,
) -> Option<(OriginRedirect, String)> {
    let (why, scheme, authority) =
        canonical_origin(to_https, canonical_host, tls_port, view.scheme, view.authority)?;
    Some((why, format!("{}://{authority}{}", scheme.name(), encoded(view.target))))
}

/// The scheme and the authority of that target.
#[must_use]
pub fn canonical_origin(
    to_https: bool,
    canonical_host: Option<&str>,
    tls_port: Option<u16>,
    scheme: Scheme,
    authority: &str,
) -> Option<(OriginRedirect, Scheme, String)> {
    let is_secure = scheme == Scheme::Https;
    let (host, port) = split_port(authority);
    let becomes_secure = to_https && !is_secure;
    let other_host = canonical_host.filter(|it| !host.eq_ignore_ascii_case(it));
    if !becomes_secure && other_host.is_none() {
        return None;
    }
    let scheme = if becomes_secure || is_secure { Scheme::Https } else { Scheme::Http };
    let port = match (becomes_secure, port) {
        (_, None) => None,
        (true, Some(_)) => tls_port.filter(|it| *it != 443),
        (false, Some(it)) => Some(it),
    };
    let port = port.map_or(String::new(), |it| format!(":{it}"));
    let host = other_host.unwrap_or(host);
    let why = if becomes_secure { OriginRedirect::Https } else { OriginRedirect::CanonicalHost };
    Some((why, scheme, format!("{host}{port}")))
}

/// The target of a redirect map, with the query of the request.
#[must_use]
pub fn of_map(to: &str, view: &RequestView<'_>) -> String {
    match view.query() {
        "" => to.to_owned(),
        _ if to.contains('?') => to.to_owned(),
        query => format!("{to}?{}", encoded(query)),
    }
}

/// The target of a request for the directory of `/app/*` without its slash. Its path is that of the configuration: another
/// spelling could be another host.
#[must_use]
pub fn with_slash(pattern: &PathPattern, view: &RequestView<'_>) -> Option<String> {
    let query = match view.query() {
        "" => String::new(),
        query => format!("?{}", encoded(query)),
    };
    Some(format!("{}/{query}", encoded(pattern.directory()?)))
}

/// The target of a route that is a redirect.
#[must_use]
pub fn of_template(template: &Template, view: &RequestView<'_>) -> String {
    let mut to = Vec::new();
    template.expand_url(view, &mut to);
    let to = String::from_utf8(to).unwrap_or_default(); // It is ASCII.
    within_site(with_query(to, template, view))
}

/// The target with the query of the request, unless it has one of its own: an empty one drops the query.
fn with_query(mut to: String, template: &Template, view: &RequestView<'_>) -> String {
    if template.has_query() {
        to.truncate(to.strip_suffix('?').unwrap_or(&to).len());
    } else if !view.query().is_empty() {
        let at = to.find('#').unwrap_or(to.len());
        to.insert_str(at, &format!("?{}", encoded(view.query())));
    }
    to
}

/// A redirect target that stays on its host if it names none: `//host` and `/\host` are other hosts for browsers.
fn within_site(to: String) -> String {
    if to.contains("://") && (to.starts_with("http://") || to.starts_with("https://")) {
        return to;
    }
    format!("/{}", to.trim_start_matches(['/', '\\']))
}

/// A received target in the alphabet of RFC 3986: other bytes are percent-encoded.
fn encoded(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for it in target.bytes() {
        match it {
            b'!'..=b'~' if !b"\"<>\\^`{}|#".contains(&it) => out.push(char::from(it)),
            _ => out.push_str(&format!("%{it:02X}")),
        }
    }
    out
}

/// Host and port of an authority.
fn split_port(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_a_site() {
        let check = |url: (Scheme, &str), to_https, canonical: Option<&str>, expect: Option<&str>| {
            let view =
                RequestView { scheme: url.0, authority: url.1, target: "/a?b\"", ..RequestView::default() };
            let found = to_canonical(to_https, canonical, Some(8443), &view);
            assert_eq!(expect, found.as_ref().map(|it| it.1.as_str()), "{url:?} {to_https} {canonical:?}");
        };
        let (http, https) = (Scheme::Http, Scheme::Https);
        check((http, "a.example"), false, None, None);
        check((https, "A.example"), true, Some("a.example"), None);
        check((http, "a.example"), true, None, Some("https://a.example/a?b%22"));
        check((http, "a.example:8080"), true, Some("b.example"), Some("https://b.example:8443/a?b%22"));
        check((https, "a.example:8443"), true, Some("b.example"), Some("https://b.example:8443/a?b%22"));
        check((http, "[::1]:80"), false, Some("b.example"), Some("http://b.example:80/a?b%22"));
    }

    #[test]
    fn targets_keep_the_query_unless_they_have_one() {
        let view = RequestView { target: "/a?b=1", authority: "h", ..RequestView::default() };
        let of = |to: &str| of_template(&Template::parse(to).unwrap(), &view);
        assert_eq!(["/x?b=1", "/x?c", "/x", "/a?b=1"], ["/x", "/x?c", "/x?", "{uri}"].map(of));
        assert_eq!("/x?b=1#y", of("/x#y"));
        assert_eq!(["/x?b=1", "/x?c"], ["/x", "/x?c"].map(|it| of_map(it, &view)));
        assert_eq!(Some("/app/?b=1".to_owned()), with_slash(&PathPattern::of("/app/*"), &view));
    }
}
