//! The address of an origin. `larder_config` parses its form in a configuration, `dial` finds its IP addresses.

use crate::program_settings::ProgramSettings;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

/// The place of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OriginAddress {
    /// Host name or IP address (IPv6 without its brackets), and port.
    Tcp(String, u16),
    /// `unix:PATH`.
    Unix(PathBuf),
    /// No address: CGI programs, each started for its request.
    Programs(Arc<ProgramSettings>),
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OriginAddress::Tcp(host, port) if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "http://[{host}]:{port}")
            }
            OriginAddress::Tcp(host, port) => write!(f, "http://{host}:{port}"),
            OriginAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            OriginAddress::Programs(it) => it.fmt(f),
        }
    }
}

impl OriginAddress {
    /// The IP address, where the host is a literal and needs no resolver.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            OriginAddress::Tcp(host, _) => host.parse().ok().or_else(|| old_ipv4(host).map(IpAddr::V4)),
            OriginAddress::Unix(_) | OriginAddress::Programs(_) => None,
        }
    }
}

/// An IPv4 address in the forms of `inet_aton`, which every resolver accepts: `127.1`, `2130706433`, `0x7f.1`,
/// `0177.0.0.1`. Of one to four numbers the last has all remaining bytes.
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

    #[test]
    fn numeric_addresses_need_no_resolver() {
        let ip = |host: &str| OriginAddress::Tcp(host.to_owned(), 1).ip().is_some();
        assert!(ip("127.0.0.1") && ip("::1"));
        assert!(!ip("localhost") && OriginAddress::Unix("127.0.0.1".into()).ip().is_none());
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
