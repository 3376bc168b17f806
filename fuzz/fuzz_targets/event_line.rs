//! Feeds `laws/event_line.rs` with whatever the fuzzer comes upon.
#![no_main]

#[path = "../laws/event_line.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|raw: &[u8]| law::check(raw));
