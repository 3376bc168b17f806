//! Networks, and the peers of connections: an address, or a process that may use a Unix socket.

use std::net::IpAddr;

/// The addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether it has every address of its family.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.bits == 0
    }

    /// Parses `ADDR/BITS`, or `ADDR` for one address alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |it| number(it, most))?;
        Some(Self { address, bits })
    }

    /// The network of `text` in its usual form, if `text` has address bits beyond the prefix.
    #[must_use]
    pub fn plain(text: &str) -> Option<String> {
        let network = Self::parse(text)?;
        let (address, bits) = text.split_once('/')?;
        let keep = |width: u32| u128::MAX.checked_shl(width - network.bits).unwrap_or(0);
        let first: IpAddr = match network.address {
            #[allow(clippy::cast_possible_truncation, reason = "the lower 32 bits are those of the address")]
            IpAddr::V4(it) => std::net::Ipv4Addr::from_bits(it.to_bits() & keep(32) as u32).into(),
            IpAddr::V6(it) => std::net::Ipv6Addr::from_bits(it.to_bits() & keep(128)).into(),
        };
        (address.parse() != Ok(first)).then(|| format!("{first}/{bits}"))
    }

    /// The least of its addresses.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        match self.ends() {
            NetworkEnds::V4(first, _) => std::net::Ipv4Addr::from_bits(first).into(),
            NetworkEnds::V6(first, _) => std::net::Ipv6Addr::from_bits(first).into(),
        }
    }

    /// The greatest of its addresses.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        match self.ends() {
            NetworkEnds::V4(_, last) => std::net::Ipv4Addr::from_bits(last).into(),
            NetworkEnds::V6(_, last) => std::net::Ipv6Addr::from_bits(last).into(),
        }
    }

    /// The address behind the last; `None` if that is the last of all.
    #[must_use]
    pub fn next(&self) -> Option<IpAddr> {
        match self.ends() {
            NetworkEnds::V4(_, last) => Some(std::net::Ipv4Addr::from_bits(last.checked_add(1)?).into()),
            NetworkEnds::V6(_, last) => Some(std::net::Ipv6Addr::from_bits(last.checked_add(1)?).into()),
        }
    }

    fn ends(&self) -> NetworkEnds {
        match self.address {
            IpAddr::V4(it) => {
                let rest = u32::MAX.checked_shr(self.bits).unwrap_or(0);
                NetworkEnds::V4(it.to_bits() & !rest, it.to_bits() | rest)
            }
            IpAddr::V6(it) => {
                let rest = u128::MAX.checked_shr(self.bits).unwrap_or(0);
                NetworkEnds::V6(it.to_bits() & !rest, it.to_bits() | rest)
            }
        }
    }

    /// Whether the network contains `address`; an IPv4 address that arrived over IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let keep = |width: u32| u128::MAX.checked_shl(width - self.bits).unwrap_or(0);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (u128::from(ours.to_bits()) ^ u128::from(theirs.to_bits())) & keep(32) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (ours.to_bits() ^ theirs.to_bits()) & keep(128) == 0,
            _ => false,
        }
    }
}

/// The first and last address of a network.
enum NetworkEnds {
    V4(u32, u32),
    V6(u128, u128),
}

/// A set of networks, looked up by binary search however many they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    /// First and last addresses, sorted, none overlapping.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl NetworkSet {
    /// The union of these networks.
    #[must_use]
    pub fn of(networks: impl Iterator<Item = Network>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network.ends() {
                NetworkEnds::V4(first, last) => v4.push((first, last)),
                NetworkEnds::V6(first, last) => v6.push((first, last)),
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    /// Whether no address is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether it contains all of a network; `false` also where only several adjacent ones do together.
    #[must_use]
    pub fn covers(&self, network: Network) -> bool {
        match network.ends() {
            NetworkEnds::V4(first, last) => self.v4.iter().any(|it| it.0 <= first && last <= it.1),
            NetworkEnds::V6(first, last) => self.v6.iter().any(|it| it.0 <= first && last <= it.1),
        }
    }

    /// Whether it contains all addresses of another set; `false` also where only several adjacent networks do together.
    #[must_use]
    pub fn covers_all(&self, other: &NetworkSet) -> bool {
        other.v4.iter().all(|part| self.v4.iter().any(|it| it.0 <= part.0 && part.1 <= it.1))
            && other.v6.iter().all(|part| self.v6.iter().any(|it| it.0 <= part.0 && part.1 <= it.1))
    }

    /// Whether it contains an address of a network.
    #[must_use]
    pub fn meets(&self, network: Network) -> bool {
        match network.ends() {
            NetworkEnds::V4(first, last) => self.v4.iter().any(|it| it.0 <= last && first <= it.1),
            NetworkEnds::V6(first, last) => self.v6.iter().any(|it| it.0 <= last && first <= it.1),
        }
    }

    /// Whether an address is in it; an IPv4 address that arrived over IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(it) => holds(&self.v4, it.to_bits()),
            IpAddr::V6(it) => holds(&self.v6, it.to_bits()),
        }
    }
}

/// Sorted, with overlapping ranges joined.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut all: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match all.last_mut().filter(|it| first <= it.1) {
            Some(before) => before.1 = before.1.max(last),
            None => all.push((first, last)),
        }
    }
    all
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], it: T) -> bool {
    let at = ranges.partition_point(|range| range.0 <= it);
    at > 0 && it <= ranges[at - 1].1
}

/// The part of an address that one client may choose at will counts as one: an IPv6 client has a /64.
#[must_use]
pub fn client_network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(it) => u64::from(it.to_bits()),
        #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
        IpAddr::V6(it) => (it.to_bits() >> 64) as u64,
    }
}

/// The /24 or /48 of an address.
#[must_use]
pub fn wider_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(it) => std::net::Ipv4Addr::from_bits(it.to_bits() & !0xff).into(),
        IpAddr::V6(it) => std::net::Ipv6Addr::from_bits(it.to_bits() & u128::MAX << 80).into(),
    }
}

/// A set of peers: addresses in some networks and, if named, peers of Unix sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    networks: Vec<Network>,
    /// Whether it includes peers of Unix sockets.
    unix: bool,
}

impl Peers {
    /// The word for peers of a Unix socket.
    pub const UNIX: &str = "unix";

    /// Whether a list member is valid: a network, an address, or [`Peers::UNIX`].
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text == Self::UNIX || Network::parse(text).is_some()
    }

    /// The set of a list of valid members.
    #[must_use]
    pub fn of(texts: &[String]) -> Self {
        let networks = texts.iter().filter_map(|it| Network::parse(it)).collect();
        Self { networks, unix: texts.iter().any(|it| it == Self::UNIX) }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.unix
    }

    /// Whether the set contains the peer with this address; without an address, a peer of a Unix socket.
    #[must_use]
    pub fn has(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.unix, |it| self.networks.iter().any(|network| network.contains(it)))
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
    fn networks() {
        #[track_caller]
        fn check(network: &str, address: &str, expect: bool) {
            let network = Network::parse(network).unwrap();
            assert_eq!(expect, network.contains(address.parse().unwrap()), "{network:?} {address}");
        }
        check("127.0.0.1/32", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("10.0.0.0/8", "10.9.8.7", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("10.0.0.0/8", "::ffff:10.1.1.1", true);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "::1", true);
        check("fe80::/10", "fe90::1", true);
        check("fe80::/10", "ff00::1", false);
        for text in ["", "a", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+1", "::1/129", "1.2.3/8"] {
            assert_eq!(None, Network::parse(text), "{text}");
        }
    }

    #[test]
    fn a_set_is_the_union_of_its_networks() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "192.0.2.1",
            "2001:db8::/32",
            "::1",
            "0.0.0.0/32",
            "255.255.255.255",
        ];
        let networks: Vec<_> = texts.iter().filter_map(|it| Network::parse(it)).collect();
        let set = NetworkSet::of(networks.iter().copied());
        for address in [
            "9.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "11.0.0.0",
            "192.0.2.0",
            "192.0.2.1",
            "192.0.2.2",
            "0.0.0.0",
            "0.0.0.1",
            "255.255.255.255",
            "::1",
            "::2",
            "2001:db8:ffff::",
            "2001:db9::",
            "::ffff:10.2.3.4",
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(networks.iter().any(|it| it.contains(address)), set.contains(address), "{address}");
        }
        assert!(
            NetworkSet::of(std::iter::once(Network::parse("0.0.0.0/0").unwrap()))
                .contains("1.2.3.4".parse().unwrap())
        );
    }

    #[test]
    fn sets_contain_and_meet_networks() {
        let network = |it: &str| Network::parse(it).unwrap();
        let set = NetworkSet::of(["10.0.0.0/8", "2001:db8::/32"].into_iter().map(network));
        for (text, covers, meets) in [
            ("10.1.0.0/16", true, true),
            ("10.0.0.0/7", false, true),
            ("0.0.0.0/0", false, true),
            ("11.0.0.0/8", false, false),
            ("2001:db8::1", true, true),
            ("::/0", false, true),
        ] {
            assert_eq!((covers, meets), (set.covers(network(text)), set.meets(network(text))), "{text}");
        }
        let it = network("10.1.2.3/16");
        let text = [Some(it.first()), Some(it.last()), it.next()].map(|it| it.unwrap().to_string());
        assert_eq!(["10.1.0.0", "10.1.255.255", "10.2.0.0"], text.each_ref().map(String::as_str));
        assert_eq!([None, None], ["0.0.0.0/0", "::/0"].map(|it| network(it).next()));
    }

    #[test]
    fn peers() {
        let of = |it: &[&str]| Peers::of(&it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let at = |it: &str| Some(it.parse().unwrap());
        let both = of(&["10.0.0.0/8", "unix"]);
        assert_eq!([true, false, true], [both.has(at("10.1.2.3")), both.has(at("11.1.2.3")), both.has(None)]);
        assert!(!of(&["0.0.0.0/0", "::/0"]).has(None));
        assert!(of(&[]).is_empty() && !of(&["unix"]).is_empty());
        assert!(
            Peers::is_one("unix") && Peers::is_one("::1") && !Peers::is_one("Unix") && !Peers::is_one("")
        );
    }
}
