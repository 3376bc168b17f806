//! Where an origin is, as a person writes it. Finding its IP addresses is not here (`dial`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where an origin is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OriginAddress {
    /// Host name or IP address (IPv6 without its brackets), and port.
    Tcp(String, u16),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// Longest path of a Unix socket: `sun_path` has 108 bytes, and the last is NUL.
const MAX_UNIX_PATH: usize = 107;
/// Longest host name (RFC 1035 §2.3.4).
const MAX_HOST: usize = 253;

impl FromStr for OriginAddress {
    type Err = String;

    /// Reads `http://HOST[:PORT]`, `http://[IPV6][:PORT]`, `unix:PATH`, and `http://unix:PATH:` as others write it.
    /// The port is 80 where it is not given.
    ///
    /// # Errors
    /// One sentence that says what was found and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "{text:?} is not an origin: {why}; write \"http://HOST:PORT\", \"http://[IPV6]:PORT\" or \"unix:/PATH\""
            )
        };
        if let Some(path) = text.strip_prefix("unix:").or_else(|| text.strip_prefix("http://unix:")) {
            return unix(path).map_err(bad);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad("the scheme is missing"));
        };
        if scheme.eq_ignore_ascii_case("https") {
            return Err(format!(
                "{text:?}: HTTPS origins are not supported yet; write \"http://{rest}\" if the origin also speaks plain HTTP"
            ));
        }
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(bad("the scheme is not \"http\""));
        }
        tcp(rest.strip_suffix('/').unwrap_or(rest)).map_err(bad)
    }
}

fn unix(path: &str) -> Result<OriginAddress, &'static str> {
    let path = path.strip_suffix(':').unwrap_or(path);
    if path.is_empty() {
        return Err("the path of the socket is missing");
    }
    if path.len() > MAX_UNIX_PATH {
        return Err("the path of a socket is limited to 107 bytes");
    }
    if path.contains('\0') {
        return Err("the path of the socket contains a NUL byte");
    }
    Ok(OriginAddress::Unix(PathBuf::from(path)))
}

fn tcp(authority: &str) -> Result<OriginAddress, &'static str> {
    if authority.contains(['/', '?', '#']) {
        return Err("an origin must not have a path");
    }
    if authority.contains('@') {
        return Err("an origin must not have a user name");
    }
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the closing bracket is missing")?;
        let host: Ipv6Addr = host.parse().map_err(|_| "the text in brackets is not an IPv6 address")?;
        let port = match after {
            "" => None,
            _ => Some(after.strip_prefix(':').ok_or("the bracket must be followed by a colon and the port")?),
        };
        return Ok(OriginAddress::Tcp(host.to_string(), port_of(port)?));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if port.is_some_and(|it| it.contains(':')) {
        return Err("an IPv6 address must be in brackets");
    }
    if host.is_empty() {
        return Err("the host is missing");
    }
    let is_name = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_');
    if host.len() > MAX_HOST || !host.bytes().all(is_name) {
        return Err("the host name is invalid");
    }
    Ok(OriginAddress::Tcp(host.to_owned(), port_of(port)?))
}

fn port_of(text: Option<&str>) -> Result<u16, &'static str> {
    let Some(text) = text else {
        return Ok(80);
    };
    let is_plain = text.bytes().all(|it| it.is_ascii_digit()); // `parse` takes "+80" too
    match text.parse() {
        Ok(port) if is_plain && port > 0 => Ok(port),
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OriginAddress::Tcp(host, port) if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "http://[{host}]:{port}")
            }
            OriginAddress::Tcp(host, port) => write!(f, "http://{host}:{port}"),
            OriginAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl OriginAddress {
    /// The IP address, where it is written as one and needs no resolver.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            OriginAddress::Tcp(host, _) => host.parse().ok().or_else(|| old_ipv4(host).map(IpAddr::V4)),
            OriginAddress::Unix(_) => None,
        }
    }
}

/// An IPv4 address as `inet_aton` and with it every resolver takes it: `127.1`, `2130706433`, `0x7f.1`, `0177.0.0.1`. Of one to
/// four numbers the last has all bytes that are left.
fn old_ipv4(host: &str) -> Option<Ipv4Addr> {
    let number = |it: &str| match it.strip_prefix("0x").or_else(|| it.strip_prefix("0X")) {
        _ if it.starts_with('+') => None,
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
        None if it.len() > 1 && it.starts_with('0') => u32::from_str_radix(it, 8).ok(),
        None => it.parse().ok(),
        Some(_) => None,
    };
    let numbers: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, before) = numbers.split_last().filter(|it| it.1.len() < 4)?;
    let room = 32 - 8 * u32::try_from(before.len()).ok()?;
    if u64::from(*last) >> room > 0 || before.iter().any(|it| *it > 255) {
        return None;
    }
    let first = before.iter().zip([24, 16, 8]).fold(0, |sum, (it, at)| sum | it << at);
    Some(Ipv4Addr::from(first | last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        match text.parse::<OriginAddress>() {
            Ok(it) => assert_eq!(expect, it.to_string(), "{text}"),
            Err(why) => assert!(!expect.is_empty() && why.contains(expect), "{text}: {why}"),
        }
    }

    #[test]
    fn addresses() {
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000");
        check("HTTP://app", "http://app:80");
        check("http://app.internal:8000/", "http://app.internal:8000");
        check("http://[::1]:80", "http://[::1]:80");
        check("http://[::1]", "http://[::1]:80");
        check("unix:/run/app.sock", "unix:/run/app.sock");
        check("unix:/run/app.sock:", "unix:/run/app.sock");
        check("http://unix:/run/app.sock:", "unix:/run/app.sock");
    }

    #[test]
    fn what_is_wrong_with_an_address() {
        check("https://app", "HTTPS origins are not supported yet");
        check("app:8000", "the scheme is missing");
        check("", "the scheme is missing");
        check("ftp://app", "the scheme is not \"http\"");
        check("http://", "the host is missing");
        check("http://:80", "the host is missing");
        check("http://app:", "the port is not a number");
        check("http://app:+80", "the port is not a number");
        check("http://app:0", "the port is not a number");
        check("http://app:65536", "the port is not a number");
        check("http://app/base", "an origin must not have a path");
        check("http://u:p@app", "an origin must not have a user name");
        check("http://::1:80", "an IPv6 address must be in brackets");
        check("http://[::1", "the closing bracket is missing");
        check("http://[::1]80", "the bracket must be followed by a colon");
        check("http://[app]:80", "the text in brackets is not an IPv6 address");
        check("http://a b", "the host name is invalid");
        check("http://a\r\nb", "the host name is invalid");
        check("unix:", "the path of the socket is missing");
        check("unix:/a\0b", "NUL");
        check(&format!("unix:/{}", "a".repeat(107)), "107 bytes");
    }

    #[test]
    fn numeric_addresses_need_no_resolver() {
        let ip = |text: &str| text.parse::<OriginAddress>().unwrap().ip().is_some();
        assert!(ip("http://127.0.0.1:1") && ip("http://[::1]:1"));
        assert!(!ip("http://localhost:1") && !ip("unix:/127.0.0.1"));
    }

    #[test]
    fn ipv4_as_resolvers_take_it() {
        let loopback = Some(Ipv4Addr::LOCALHOST);
        for host in ["127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.01"] {
            assert_eq!(loopback, old_ipv4(host), "{host}");
        }
        for host in [
            "",
            ".",
            "1.",
            "256.1.1.1",
            "1.2.3.256",
            "1.16777216",
            "4294967296",
            "08",
            "1.2.3.4.5",
            "0x",
            "a.1",
            "+1",
        ] {
            assert_eq!(None, old_ipv4(host), "{host}");
        }
    }
}
