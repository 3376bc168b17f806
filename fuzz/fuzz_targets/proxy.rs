//! Feeds `laws/proxy.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/proxy.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
