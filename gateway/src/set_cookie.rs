//! `Path` and `Domain` of the cookies of an origin that is asked with a rewritten path or by its own name (RFC 6265 §4.1.2):
//! written back to what the client asked, as browsers drop a cookie for a host or a path that is not theirs.

use crate::route::GatewayRoute;
use larder_origin::OriginAddress;
use larder_semantics::field::FieldList;
use larder_wire::message::Request;

/// Rewrites the `Set-Cookie` lines of a response.
pub(crate) fn write_back(route: &GatewayRoute, request: &Request, fields: &mut FieldList) {
    if !fields.contains("set-cookie") {
        return;
    }
    let client = host_of(&request.authority);
    let drops = |domain: &str| {
        let is_own = |it: &OriginAddress| match it {
            OriginAddress::Tcp(host, _) => is_within(host, domain),
            OriginAddress::Unix(_) | OriginAddress::Programs(_) => is_within("localhost", domain),
        };
        route.own.iter().any(is_own) && !is_within(client, domain)
    };
    let path = |it: &str| route.rewrite.target.as_ref()?.cookie_path(it);
    let mut is_changed = false;
    let lines: Vec<Vec<u8>> = fields
        .get_all("set-cookie")
        .map(|line| match std::str::from_utf8(line).ok().and_then(|it| written(it, path, drops)) {
            Some(written) => {
                is_changed = true;
                written.into_bytes()
            }
            None => line.to_vec(),
        })
        .collect();
    if is_changed {
        fields.remove("set-cookie");
        lines.iter().for_each(|it| fields.push("Set-Cookie", it));
    }
}

/// A line with another path, and without a domain that `drops` is true for: the cookie is then one of the client's host.
/// `None` where it stays. A `__Host-` cookie has the path `/` or is none (RFC 6265bis §4.1.3.2).
fn written(
    line: &str,
    path: impl Fn(&str) -> Option<String>,
    drops: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut parts = line.split(';');
    let pair = parts.next()?;
    let is_of_host = pair.trim_start().get(..7).is_some_and(|it| it.eq_ignore_ascii_case("__Host-"));
    let (mut out, mut is_changed) = (pair.to_owned(), false);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("domain") && drops(value.strip_prefix('.').unwrap_or(value)) {
            is_changed = true;
            continue;
        }
        let is_path = name.eq_ignore_ascii_case("path") && value.starts_with('/') && !is_of_host;
        match Some(value).filter(|_| is_path).and_then(&path) {
            Some(path) => {
                is_changed = true;
                out.push_str("; Path=");
                out.push_str(&path);
            }
            None => {
                out.push(';');
                out.push_str(part);
            }
        }
    }
    is_changed.then_some(out)
}

/// Whether a cookie of `domain` is sent to `host` (RFC 6265 §5.1.3).
fn is_within(host: &str, domain: &str) -> bool {
    let Some(at) = host.len().checked_sub(domain.len()).filter(|_| !domain.is_empty()) else { return false };
    let ends = host.get(at..).is_some_and(|it| it.eq_ignore_ascii_case(domain));
    ends && (at == 0 || (host.as_bytes()[at - 1] == b'.' && host.parse::<std::net::IpAddr>().is_err()))
}

/// The host of an authority, without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::query_rewrite::Parameters;
    use larder_semantics::rewrite::Rewrite;

    #[test]
    fn path_and_domain_become_the_clients() {
        let rewrite = Rewrite::new("/api", "/v2", Parameters::default()).unwrap();
        for (line, expect) in [
            ("a=b; Path=/v2/x; HttpOnly", Some("a=b; Path=/api/x; HttpOnly")),
            ("a=b;path=/", Some("a=b; Path=/api")),
            ("a=b; Path=/other", None),
            ("a=b; Path=; Secure", None),
            ("a=Path=/v2", None),
            ("a=b", None),
            ("__Host-a=b; Path=/; Secure", None),
            ("__host-a=b; Path=/; Secure", None),
            ("a=b; Domain=app.internal; Path=/v2; Secure", Some("a=b; Path=/api; Secure")),
            ("a=b; domain=.INTERNAL", Some("a=b")),
            ("a=b; Domain=example.com", None),
            ("a=b; Domain=other", None),
            ("a=b; Domain=", None),
        ] {
            let drops = |it: &str| is_within("app.internal", it) && !is_within("www.example.com", it);
            let found = written(line, |it| rewrite.cookie_path(it), drops);
            assert_eq!(expect, found.as_deref(), "{line}");
        }
    }

    #[test]
    fn an_address_has_no_parent_domain() {
        assert!(is_within("127.0.0.1", "127.0.0.1") && !is_within("127.0.0.1", "0.0.1"));
        assert!(is_within("a.b", "B") && !is_within("ab", "b") && !is_within("b", "a.b"));
        assert_eq!(["h", "[::1]", "[::1]"], ["h:80", "[::1]:80", "[::1]"].map(host_of));
    }
}
