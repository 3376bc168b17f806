//! Feeds `laws/http3_frame.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/http3_frame.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
