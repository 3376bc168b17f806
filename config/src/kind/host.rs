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
        // As the host of a request (`semantics::host`).
        let lower = lower.strip_suffix('.').unwrap_or(&lower);
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
            None if is_host(lower) || is_v6(lower) => Some(HostPattern::Exact(lower.to_owned())),
            None => None,
        }
    }

    /// The host that a text which is none probably means, to be appended to the allowed ones; empty where that is unknown.
    pub(super) fn hint(text: &str) -> String {
        let bare = text.split_once("://").map_or(text, |it| it.1);
        let bare = bare.split(['/', ':']).next().unwrap_or_default();
        match HostPattern::parse(bare) {
            Some(_) if bare != text => format!("; write {bare:?} in place of {text:?}"),
            None if !text.is_ascii() => {
                "; write a name with other letters in its ASCII form, which begins with \"xn--\"".to_owned()
            }
            _ => String::new(),
        }
    }

    /// How closely it names a host, without port: 0 if it does not, and more the more of the name it has.
    #[must_use]
    pub fn strength(&self, host: &str) -> usize {
        let ends_with = |rest: &str| {
            let start = host.len().checked_sub(rest.len()).filter(|it| *it > 0);
            start.and_then(|it| host.get(it..)).is_some_and(|it| it.eq_ignore_ascii_case(rest))
        };
        match self {
            HostPattern::Exact(name) if host.eq_ignore_ascii_case(name) => usize::MAX,
            HostPattern::Below(rest) if ends_with(rest) => rest.len() + 1,
            HostPattern::Any => 1,
            HostPattern::Exact(_) | HostPattern::Below(_) => 0,
        }
    }

    /// The number of the site for a host; `sites` are the hosts of each.
    pub fn site_of<'s>(host: &str, sites: impl Iterator<Item = &'s [HostPattern]>) -> Option<usize> {
        let strength = |site: &[HostPattern]| site.iter().map(|it| it.strength(host)).max().unwrap_or(0);
        let best = |best: Option<(usize, usize)>, (at, strength): (usize, usize)| match best {
            // The first of the strongest.
            Some(before) if before.1 >= strength => Some(before),
            before => {
                if strength > 0 {
                    Some((at, strength))
                } else {
                    before
                }
            }
        };
        sites.map(strength).enumerate().fold(None, best).map(|it| it.0)
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
