//! Feeds `laws/http1_request.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/http1_request.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
