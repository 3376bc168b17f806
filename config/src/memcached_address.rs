//! The address and weight of a memcached server in the configuration.

use larder_store::fleet::{FleetAddress, MemcachedAddress};

/// The port of memcached servers.
const MEMCACHED_PORT: u16 = 11211;
/// The largest weight of a server.
const MAX_WEIGHT: u32 = 1000;
/// The text before the weight of a server.
pub(crate) const WEIGHT: &str = " weight=";

/// Parses `HOST`, `HOST:PORT` or `unix:PATH`, optionally followed by ` weight=N` (1 to 1000). A host keeps its literal form,
/// which is hashed.
#[must_use]
pub fn parse(text: &str) -> Option<FleetAddress> {
    let (place, weight) = match text.rsplit_once(WEIGHT) {
        Some((place, weight)) => (place.trim_end(), number(weight, MAX_WEIGHT).filter(|it| *it > 0)?),
        None => (text, 1),
    };
    Some(FleetAddress { at: address(place)?, weight })
}

fn address(place: &str) -> Option<MemcachedAddress> {
    if let Some(path) = place.strip_prefix("unix:") {
        let sound = !path.is_empty() && !path.contains(['\0', ' ']);
        return sound.then(|| MemcachedAddress::Unix(path.into()));
    }
    if let Some((inner, rest)) = place.strip_prefix('[').and_then(|it| it.split_once(']')) {
        inner.parse::<std::net::Ipv6Addr>().ok()?;
        let port =
            if rest.is_empty() { MEMCACHED_PORT } else { super::address::port(rest.strip_prefix(':')?)? };
        return (port != 0).then(|| MemcachedAddress::Tcp(inner.to_owned(), port));
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, digits)) => (host, super::address::port(digits).filter(|it| *it != 0)?),
        None => (place, MEMCACHED_PORT),
    };
    super::address::is_host(host).then(|| MemcachedAddress::Tcp(host.to_owned(), port))
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
            let found = parse(text).map_or("wrong".to_owned(), |it| it.to_string());
            assert_eq!(expect, found, "{text}");
        }
        check("10.0.0.1:11211", "10.0.0.1:11211");
        check("cache-1.example", "cache-1.example:11211");
        check("10.0.0.1:1 weight=3", "10.0.0.1:1 weight=3");
        check("[::1]:5 weight=1000", "[::1]:5 weight=1000");
        check("[::1]", "[::1]:11211");
        check("unix:/run/mc.sock weight=2", "unix:/run/mc.sock weight=2");
        for text in
            ["", ":1", "a:0", "a:+1", "a weight=0", "a weight=1001", "a weight=", "a b", "unix:", "::1"]
        {
            check(text, "wrong");
        }
    }
}
