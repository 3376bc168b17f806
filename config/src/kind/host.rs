//! The hosts of a site.

use crate::address::is_host;

/// The hosts of a site. Names are lower case and without port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Only this name.
    Exact(String),
    /// Every name that ends with this, which begins with a dot: `.example.com`.
    Below(String),
    /// Every host without another pattern.
    Any,
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let is_v6 = |it: &str| {
            it.strip_prefix('[')
                .and_then(|it| it.strip_suffix(']'))
                .is_some_and(|it| it.parse::<std::net::Ipv6Addr>().is_ok())
        };
        match lower.strip_prefix('*') {
            Some("") => Some(HostPattern::Any),
            Some(rest) => {
                rest.strip_prefix('.').filter(|it| is_host(it)).map(|_| HostPattern::Below(rest.to_owned()))
            }
            None if is_host(&lower) || is_v6(&lower) => Some(HostPattern::Exact(lower)),
            None => None,
        }
    }

    /// Parses a checked pattern.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::parse(text).unwrap_or(HostPattern::Any)
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Below(suffix) => write!(f, "*{suffix}"),
            HostPattern::Any => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        assert_eq!(HostPattern::Below(".example.com".into()), HostPattern::of("*.Example.com"));
        assert_eq!(None, HostPattern::parse("a:80"));
        assert_eq!(None, HostPattern::parse("a*"));
    }
}
