//! The address and weight of a memcached server in the configuration.

use std::fmt;
use std::path::PathBuf;

/// The port of memcached servers.
const MEMCACHED_PORT: u16 = 11211;
/// The largest weight of a server.
const MAX_WEIGHT: u32 = 1000;

/// One memcached server of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetServer {
    /// Its address.
    pub place: ServerAddress,
    /// Its share of the keys relative to the other servers, if given: 1 to 1000.
    pub weight: Option<u32>,
}

/// The address of a memcached server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// Host (a name or an IP address, IPv6 without brackets, in its literal form, which is hashed) and port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FleetServer {
    /// Parses `HOST`, `HOST:PORT` or `unix:PATH`, optionally followed by ` weight=N`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (place, weight) = match text.rsplit_once(" weight=") {
            Some((place, weight)) => {
                (place.trim_end(), Some(number(weight, MAX_WEIGHT).filter(|it| *it > 0)?))
            }
            None => (text, None),
        };
        if let Some(path) = place.strip_prefix("unix:") {
            let sound = !path.is_empty() && !path.contains(['\0', ' ']);
            return sound.then(|| Self { place: ServerAddress::Unix(path.into()), weight });
        }
        if let Some((inner, rest)) = place.strip_prefix('[').and_then(|it| it.split_once(']')) {
            inner.parse::<std::net::Ipv6Addr>().ok()?;
            let port =
                if rest.is_empty() { MEMCACHED_PORT } else { super::address::port(rest.strip_prefix(':')?)? };
            return (port != 0).then(|| Self { place: ServerAddress::Tcp(inner.to_owned(), port), weight });
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, digits)) => (host, super::address::port(digits).filter(|it| *it != 0)?),
            None => (place, MEMCACHED_PORT),
        };
        super::address::is_host(host)
            .then(|| Self { place: ServerAddress::Tcp(host.to_owned(), port), weight })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            ServerAddress::Tcp(host, port) => write!(f, "{host}:{port}"),
            ServerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Digits only: the standard parser would accept a sign.
fn number(digits: &str, most: u32) -> Option<u32> {
    let all_digits = digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|it| all_digits && *it <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            let found = FleetServer::parse(text).map_or("wrong".to_owned(), |it| {
                it.weight.map_or(it.place.to_string(), |weight| format!("{} x{weight}", it.place))
            });
            assert_eq!(expect, found, "{text}");
        }
        check("10.0.0.1:11211", "10.0.0.1:11211");
        check("cache-1.example", "cache-1.example:11211");
        check("10.0.0.1:1 weight=3", "10.0.0.1:1 x3");
        check("[::1]:5 weight=1000", "[::1]:5 x1000");
        check("[::1]", "[::1]:11211");
        check("unix:/run/mc.sock weight=2", "unix:/run/mc.sock x2");
        for text in
            ["", ":1", "a:0", "a:+1", "a weight=0", "a weight=1001", "a weight=", "a b", "unix:", "::1"]
        {
            check(text, "wrong");
        }
    }
}
