//! The scheme of a request: by how its connection came, never by what a client says.

/// `http` or `https` (RFC 9110 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Over a connection in clear.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As URLs, keys and `X-Forwarded-Proto` have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URL need not name.
    #[must_use]
    pub fn default_port(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }

    /// Splits `scheme://` off a URL; `None` where it has another scheme or none.
    #[must_use]
    pub fn split(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let all = [Scheme::Http, Scheme::Https];
        all.into_iter().find(|it| scheme.eq_ignore_ascii_case(it.name())).map(|it| (it, rest))
    }

    /// An authority without the port that need not be named.
    #[must_use]
    #[inline]
    pub fn without_port(self, authority: &str) -> &str {
        let bare = authority.strip_suffix(self.default_port()).and_then(|it| it.strip_suffix(':'));
        bare.unwrap_or(authority)
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
