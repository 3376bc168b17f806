//! UDP packets of one sender, as a worker passes them on to another process of larder in one message over a Unix socket: during an
//! upgrade, one process reads the port for the connections of both. Sockets are not here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of a head.
pub const HEAD: usize = 48;
/// The first byte; another form has another one.
const FORM: u8 = 1;
/// The flags: the addresses that are IPv6, and whether that of the receiver is known.
const FROM_V6: u8 = 1;
const TO_V6: u8 = 2;
const HAS_TO: u8 = 4;

/// The addresses of packets, and how to separate them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedPackets {
    /// The sender.
    pub from: SocketAddr,
    /// The address at which they arrived, where the system tells it.
    pub to: Option<IpAddr>,
    /// The congestion mark (RFC 3168 §5): two bits.
    pub ecn: u8,
    /// Bytes of each packet but the last, which may have fewer; at least 1.
    pub stride: u32,
}

impl PassedPackets {
    /// The head of a message; the bytes of the packets follow.
    #[must_use]
    pub fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let mut flags = 0;
        let mut address = |at: usize, it: IpAddr, v6: u8| match it {
            IpAddr::V4(it) => head[at..at + 4].copy_from_slice(&it.octets()),
            IpAddr::V6(it) => {
                flags |= v6;
                head[at..at + 16].copy_from_slice(&it.octets());
            }
        };
        address(16, self.from.ip(), FROM_V6);
        self.to.into_iter().for_each(|it| address(32, it, TO_V6));
        if self.to.is_some() {
            flags |= HAS_TO;
        }
        (head[0], head[1], head[2]) = (FORM, flags, self.ecn & 3);
        head[4..8].copy_from_slice(&self.stride.to_le_bytes());
        if let SocketAddr::V6(it) = self.from {
            head[8..12].copy_from_slice(&it.scope_id().to_le_bytes());
        }
        head[12..14].copy_from_slice(&self.from.port().to_le_bytes());
        head
    }

    /// The addresses of a message and the bytes of its packets; `None` if it is no such message, or has none.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, packets) = message.split_first_chunk::<HEAD>()?;
        let (flags, ecn) = (head[1], head[2]);
        let (scope, port) = (word(head, 8), u16::from_le_bytes([head[12], head[13]]));
        let from = match address(head, 16, flags & FROM_V6 != 0) {
            IpAddr::V4(it) => SocketAddr::V4(SocketAddrV4::new(it, port)),
            IpAddr::V6(it) => SocketAddr::V6(SocketAddrV6::new(it, port, 0, scope)),
        };
        let to = (flags & HAS_TO != 0).then(|| address(head, 32, flags & TO_V6 != 0));
        let it = Self { from, to, ecn, stride: word(head, 4) };
        // Every bit that has no meaning is zero: the head of what was parsed is the same.
        (it.stride > 0 && !packets.is_empty() && it.head() == *head).then_some((it, packets))
    }
}

fn word(head: &[u8; HEAD], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn address(head: &[u8; HEAD], at: usize, is_v6: bool) -> IpAddr {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&head[at..at + 16]);
    if is_v6 {
        return Ipv6Addr::from(bytes).into();
    }
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_arrive_as_they_were() {
        let from = ["192.0.2.7:4433", "[2001:db8::7]:1", "[::ffff:192.0.2.7]:65535"];
        let mut all: Vec<SocketAddr> = from.iter().map(|it| it.parse().unwrap()).collect();
        all.push(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 9, 0, 3).into());
        let to = [None, Some("198.51.100.1".parse().unwrap()), Some("2001:db8::1".parse().unwrap())];
        for (from, to) in all.iter().flat_map(|from| to.map(|to| (*from, to))) {
            let it = PassedPackets { from, to, ecn: 2, stride: 1200 };
            let message = [&it.head()[..], b"packets"].concat();
            assert_eq!(Some((it, &b"packets"[..])), PassedPackets::parse(&message));
            for length in 0..=HEAD {
                assert_eq!(None, PassedPackets::parse(&message[..length]), "{length}");
            }
        }
    }
}
