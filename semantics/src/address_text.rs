//! The text of an IP address without the general formatter, which takes as long as the rest of a head.

use std::io::Write;
use std::net::IpAddr;

/// Bytes of the longest address (RFC 4291 §2.2): six groups, and the last two as an IPv4 address.
const LONGEST: usize = 45;

/// The text of an address.
pub struct AddressText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl AddressText {
    /// As `Display` writes it.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let mut bytes = [0; LONGEST];
        let mut rest = &mut bytes[..];
        // It fits.
        let _ = match address {
            IpAddr::V4(it) => it.octets().iter().enumerate().try_for_each(|(at, octet)| {
                rest.write_all(if at > 0 { b"." } else { b"" })?;
                rest.write_all(itoa::Buffer::new().format(*octet).as_bytes())
            }),
            IpAddr::V6(it) => write!(rest, "{it}"),
        };
        let length = LONGEST - rest.len();
        Self { bytes, length }
    }

    /// Its bytes, all ASCII.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_is_that_of_the_general_formatter(address: IpAddr) {
            let (expected, text) = (address.to_string(), AddressText::of(address));
            prop_assert_eq!(expected.as_bytes(), text.bytes());
        }
    }

    #[test]
    fn the_longest_addresses_have_room() {
        for it in ["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:255.255.255.255"] {
            let text = AddressText::of(it.parse().unwrap());
            assert_eq!(it.as_bytes(), text.bytes());
        }
    }
}
