//! The scheme of a request: determined by its connection, never by a field of the client.

/// `http` or `https` (RFC 9110 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Over a clear-text connection.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// The name in URLs, keys and `X-Forwarded-Proto`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URL may omit.
    #[must_use]
    pub fn default_port(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }

    /// Splits `scheme://` off a URL; `None` if it has another scheme or none.
    #[must_use]
    pub fn split(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let all = [Scheme::Http, Scheme::Https];
        all.into_iter().find(|it| scheme.eq_ignore_ascii_case(it.name())).map(|it| (it, rest))
    }

    /// An authority without a redundant port: an empty one, or the scheme's own, also with leading zeros (RFC 9110
    /// §4.2.3, RFC 3986 §6.2.3).
    #[must_use]
    #[inline]
    pub fn without_port(self, authority: &str) -> &str {
        // Called twice for each request, and nearly none ends so.
        let last = authority.as_bytes().last();
        if last != self.default_port().as_bytes().last() && last != Some(&b':') {
            return authority;
        }
        match authority.rsplit_once(':') {
            Some((host, port)) if port.is_empty() || port.trim_start_matches('0') == self.default_port() => {
                host
            }
            _ => authority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_has_its_own_port() {
        for (scheme, authority, expect) in [
            (Scheme::Http, "a:80", "a"),
            (Scheme::Http, "a:443", "a:443"),
            (Scheme::Http, "a:8080", "a:8080"),
            (Scheme::Http, "a80", "a80"),
            (Scheme::Http, "a:", "a"),
            (Scheme::Http, "a:0080", "a"),
            (Scheme::Http, "a:0", "a:0"),
            (Scheme::Http, "[::80]", "[::80]"),
            (Scheme::Https, "a:443", "a"),
            (Scheme::Https, "[::1]:443", "[::1]"),
            (Scheme::Https, "a:80", "a:80"),
        ] {
            assert_eq!(expect, scheme.without_port(authority), "{authority}");
        }
        assert_eq!(Some((Scheme::Https, "a/b")), Scheme::split("HTTPS://a/b"));
        assert_eq!(None, Scheme::split("ftp://a"));
    }
}
