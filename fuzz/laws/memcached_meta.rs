//! What must hold for any bytes that come from a server spoken to in the meta commands. Run by the fuzzer, and small as
//! a test of `wire`.

#[path = "memcached.rs"]
mod memcached;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    memcached::check(larder_wire::memcached::Protocol::Meta, raw);
}
