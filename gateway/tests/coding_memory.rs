//! An encoder's memory: never more than `codec::memory` returns, which the budget reserves; and not so little that the
//! reservation evicts without need. zstd allocates in C: its own count is checked in `codec/tests`.

use larder_gateway::coding::codec::{self, CodecLevels};
use larder_semantics::coding::Coding;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Counting;

static NOW: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

fn took(bytes: usize) {
    let now = NOW.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // For a moment there may be both.
        took(size);
        NOW.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Text of many words.
fn text(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut out = Vec::with_capacity(length + 16);
    while out.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        out.extend_from_slice(format!("<p>word{} ", (state >> 40) % 5000).as_bytes());
    }
    out.truncate(length);
    out
}

// One test: what another does at the same time would be counted.
#[test]
fn gzip_and_brotli_encoders_stay_within_their_computed_memory() {
    let mut wrong = Vec::new();
    for length in [1_000, 20_000, 300_000, 1_500_000] {
        let plain = text(length);
        for level in [1_u8, 5, 9, 11] {
            for (coding, levels) in [
                (Coding::Gzip, CodecLevels { gzip: level.clamp(1, 9), brotli: 5, zstd: 3 }),
                (Coding::Brotli, CodecLevels { gzip: 6, brotli: level, zstd: 3 }),
            ] {
                let longest = if level > 9 { 20_000 } else { 300_000 };
                if length > longest && coding == Coding::Brotli && level != 5 {
                    continue; // Minutes in a debug build.
                }
                let before = NOW.load(Relaxed);
                MOST.store(before, Relaxed);
                let coded = codec::encode(coding, levels, &plain).unwrap();
                let took = MOST.load(Relaxed) - before;
                drop(coded);
                let outcome = codec::memory(coding, levels, length as u64);
                if took > outcome || outcome > 4 * took + (2 << 20) {
                    wrong.push(format!("{coding:?} {level} of {length}: {took} bytes, {outcome} said"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
