//! Feeds `laws/memcached.rs` with whatever the fuzzer comes upon, as replies of the binary protocol.
#![no_main]

#[path = "../laws/memcached.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(larder_wire::memcached::MemcachedProtocol::Binary, raw));
