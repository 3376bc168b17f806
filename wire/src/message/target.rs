//! The four forms of a request target (RFC 9112 §3.2), and the syntax of an authority (RFC 3986 §3.2).

use super::{Reject, facts};
use larder_semantics::scheme::Scheme;

/// A split target.
pub(crate) struct SplitTarget<'a> {
    /// Origin-form, `*`, or authority-form.
    pub target: &'a str,
    /// The authority of an absolute-form or the whole authority-form, and the default port.
    pub authority: Option<(&'a str, &'a str)>,
}

/// Splits `raw` for `method`, over a connection of `own` scheme.
pub(crate) fn read<'a>(method: &str, raw: &'a str, own: Scheme) -> Result<SplitTarget<'a>, Reject> {
    // The field parser accepts VCHAR and obs-text: bytes below 0x21 and DEL are already rejected.
    // Every byte, without an early exit: so it is vectorised.
    if raw.bytes().fold(false, |is_bad, it| is_bad | !it.is_ascii() | (it == b'#')) {
        return Err(Reject::Target);
    }
    if method == "CONNECT" {
        // RFC 9110 §9.3.6: a port is required here, and `Host` may omit it.
        return match raw.rsplit_once(':') {
            Some((_, port)) if facts::length(port.as_bytes()).is_some() && is_authority(raw.as_bytes()) => {
                Ok(SplitTarget { target: raw, authority: Some((raw, port)) })
            }
            _ => Err(Reject::Target),
        };
    }
    if raw.starts_with('/') {
        return Ok(SplitTarget { target: raw, authority: None });
    }
    if raw == "*" {
        return match method {
            "OPTIONS" => Ok(SplitTarget { target: raw, authority: None }),
            _ => Err(Reject::Target),
        };
    }
    absolute(method, raw, own)
}

/// Absolute-form: of the connection's own scheme, no user information; another scheme is not valid on this connection,
/// with any port. `http://host?query` is rejected, since its target, `/?query`, does not occur in the buffer; no known
/// client sends it.
fn absolute<'a>(method: &str, raw: &'a str, own: Scheme) -> Result<SplitTarget<'a>, Reject> {
    let (scheme, rest) = Scheme::split(raw).ok_or(Reject::Target)?;
    if scheme != own {
        return Err(if scheme == Scheme::Https { Reject::NotSecured } else { Reject::Secured });
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() || !is_authority(authority.as_bytes()) || path.starts_with('?') {
        return Err(Reject::Target);
    }
    // RFC 9112 §3.2.4: an OPTIONS for a whole server arrives through a proxy without a path.
    let empty = if method == "OPTIONS" { "*" } else { "/" };
    Ok(SplitTarget {
        target: if path.is_empty() { empty } else { path },
        authority: Some((authority, own.default_port())),
    })
}

/// The bytes as text, if they are an authority: see [`is_authority`].
pub(crate) fn authority(bytes: &[u8]) -> Option<&str> {
    // SAFETY: an authority has only bytes of `IN_NAMES`, `%`, digits and the colon, and between brackets an address: all ASCII.
    is_authority(bytes).then(|| unsafe { std::str::from_utf8_unchecked(bytes) })
}

/// `uri-host [":" port]` with a non-empty host: a name of the characters of RFC 3986 §3.2.2 except the comma (which joins
/// repeated fields), or an IPv6 address in brackets. No user information.
#[must_use]
pub fn is_authority(authority: &[u8]) -> bool {
    if authority.first() == Some(&b'[') {
        return is_bracketed(authority);
    }
    // No name has a colon.
    let (host, port) = authority.split_at(name_length(authority));
    !host.is_empty() && is_port(port)
}

fn is_bracketed(authority: &[u8]) -> bool {
    let Some(close) = memchr::memchr(b']', authority) else { return false };
    let (host, port) = authority.split_at(close + 1);
    let address = host.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]")).unwrap_or_default();
    let parsed = std::str::from_utf8(address).ok().and_then(|it| it.parse::<std::net::Ipv6Addr>().ok());
    parsed.is_some() && is_port(port)
}

/// Empty, or a colon and a number up to 65535; the number may be empty (RFC 3986 §3.2.3).
fn is_port(port: &[u8]) -> bool {
    match port.strip_prefix(b":") {
        None => port.is_empty(),
        Some([]) => true,
        Some(digits) => facts::length(digits).is_some_and(|it| it <= 65535),
    }
}

/// The bytes permitted unencoded in a host name.
const IN_NAMES: [bool; 256] = {
    let mut known = [false; 256];
    let mut at = 0;
    while at < 256 {
        known[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let others = b"-._~!$&'()*+;=";
    let mut at = 0;
    while at < others.len() {
        known[others[at] as usize] = true;
        at += 1;
    }
    known
};

/// The bytes at the start of an authority that a host name may have.
fn name_length(authority: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let rest = &authority[length..];
        length += rest.iter().position(|it| !IN_NAMES[usize::from(*it)]).unwrap_or(rest.len());
        match authority[length..] {
            [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => length += 3,
            _ => return length,
        }
    }
}

/// Whether two authorities are equal, given the scheme's port: case and a default port make no difference (RFC 9110
/// §4.2.3).
pub(crate) fn is_same(a: &[u8], b: &[u8], port: &str) -> bool {
    fn bare<'a>(authority: &'a [u8], port: &str) -> &'a [u8] {
        let authority = authority.strip_suffix(port.as_bytes()).map_or(authority, |it| match it.last() {
            Some(b':') => it,
            _ => authority,
        });
        authority.strip_suffix(b":").unwrap_or(authority)
    }
    bare(a, port).eq_ignore_ascii_case(bare(b, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_name_or_an_address_and_may_have_a_port() {
        for valid in
            ["a", "A.b-c_d~", "a:", "a:80", "a:65535", "%41b:1", "a%2F", "*", "127.0.0.1:8080", "[::1]:80"]
        {
            assert!(is_authority(valid.as_bytes()), "{valid}");
        }
        for other in [
            "", ":", ":80", "a:65536", "a:8o", "a:1:2", "a:-1", "a%", "a%4", "a%4g", "a%:1", "a,b", "a/b",
            "u@a", "a b", "[::1", "[a]", "::1", "é",
        ] {
            assert!(!is_authority(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_target_has_ascii_and_no_fragment() {
        let long = "/".repeat(40);
        for target in
            ["/#".to_owned(), "/a?b#".to_owned(), "/é".to_owned(), format!("{long}#"), format!("é{long}")]
        {
            assert_eq!(Some(Reject::Target), read("GET", &target, Scheme::Http).err(), "{target}");
        }
        assert_eq!(long, read("GET", &long, Scheme::Http).map(|it| it.target).unwrap_or_default());
    }
}
