//! The writer of a header, in the grammar of the parser.

use super::SIGNATURE;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The version of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreambleVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEnds {
    /// The client.
    pub from: SocketAddr,
    /// The address that it connected to.
    pub to: SocketAddr,
}

/// Appends a header to `out`; without `ends`, the one for a connection of the proxy itself (`LOCAL`, `UNKNOWN`).
pub fn write(version: PreambleVersion, ends: Option<ConnectionEnds>, out: &mut Vec<u8>) {
    match (version, ends) {
        (PreambleVersion::V1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (PreambleVersion::V2, None) => {
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(&[0x20, 0, 0, 0]);
        }
        (PreambleVersion::V1, Some(ends)) => {
            let (from, to) = of_one_family(ends);
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            // Writing into a vector does not fail.
            let _ = write!(out, "PROXY {family} {from} {to} {} {}\r\n", ends.from.port(), ends.to.port());
        }
        (PreambleVersion::V2, Some(ends)) => {
            out.extend_from_slice(SIGNATURE);
            let (from, to) = of_one_family(ends);
            match (from, to) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    out.extend_from_slice(&[0x21, 0x11, 0, 12]);
                    out.extend_from_slice(&from.octets());
                    out.extend_from_slice(&to.octets());
                }
                (from, to) => {
                    out.extend_from_slice(&[0x21, 0x21, 0, 36]);
                    out.extend_from_slice(&mapped(from));
                    out.extend_from_slice(&mapped(to));
                }
            }
            out.extend_from_slice(&ends.from.port().to_be_bytes());
            out.extend_from_slice(&ends.to.port().to_be_bytes());
        }
    }
}

/// Both addresses in one family: that of IPv4 only if both are.
fn of_one_family(ends: ConnectionEnds) -> (IpAddr, IpAddr) {
    match (ends.from.ip().to_canonical(), ends.to.ip().to_canonical()) {
        both @ ((IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_))) => both,
        (from, to) => (IpAddr::V6(mapped(from).into()), IpAddr::V6(mapped(to).into())),
    }
}

fn mapped(it: IpAddr) -> [u8; 16] {
    match it {
        IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
        IpAddr::V6(it) => it.octets(),
    }
}
