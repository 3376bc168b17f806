//! Feeds `laws/node_status.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/node_status.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
