//! Laws for any bytes as packets that another process passes on. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::passed_packets::{HEAD, PassedPackets};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let Some((it, packets)) = PassedPackets::parse(raw) {
        assert!(it.stride > 0 && !packets.is_empty() && it.ecn < 4);
        assert_eq!(raw, [&it.head()[..], packets].concat());
        assert_eq!(raw.len(), HEAD + packets.len());
    }
}
