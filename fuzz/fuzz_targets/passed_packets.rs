//! Feeds `laws/passed_packets.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/passed_packets.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
