//! The store's memory count equals the allocator's, however small responses are: only then do the parts of the statistics
//! add up. Alone in its process, since it measures that process.

mod support;

use larder_counters::Counters;
use larder_store::{RamSettings, Store};
use std::ffi::c_void;
use std::sync::Arc;
use support::Random;
use support::fills::{fill, some_key, without_purge_delay};

/// As in the binary: see docs/decisions/0020-resident-memory.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of the blocks that this thread has been handed out and not freed.
fn handed_out() -> u64 {
    unsafe extern "C" fn add(
        _: *const libmimalloc_sys::mi_heap_t,
        area: *const libmimalloc_sys::mi_heap_area_t,
        block: *mut c_void,
        _: usize,
        sum: *mut c_void,
    ) -> bool {
        if block.is_null() {
            // SAFETY: the visitor is called with an area that lives during the call, and with the pointer below.
            let (area, sum) = unsafe { (&*area, &mut *sum.cast::<u64>()) };
            *sum += (area.used * area.full_block_size) as u64;
        }
        true
    }
    let mut sum = 0_u64;
    // SAFETY: the default heap is this thread's own; the visitor neither allocates nor frees, and `sum` outlives the call.
    unsafe {
        let heap = libmimalloc_sys::mi_heap_get_default();
        libmimalloc_sys::mi_heap_visit_blocks(heap, false, Some(add), (&raw mut sum).cast());
    }
    sum
}

/// The sizes of bodies, and how many there are of them.
struct Load {
    what: &'static str,
    fills: u64,
    budget: u64,
    length: fn(&mut Random) -> u64,
}

fn check(load: &Load) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut random = Random(0x5EED);
    let settings = RamSettings { budget: load.budget, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).unwrap();
    let before = handed_out();
    for number in 1..=load.fills {
        let key = some_key(&mut random);
        let length = (load.length)(&mut random);
        runtime.block_on(fill(&store, key.as_bytes(), length as usize));
        // While tables grow, too.
        if number % (load.fills / 5) == 0 {
            let report = store.memory();
            let report = report.responses + report.index + report.untouched + report.fills;
            let real = handed_out() - before;
            let objects = store.objects();
            // The books of the arena, too, take a little.
            let close = report.abs_diff(real) <= real / 100 + (64 << 10);
            assert!(close, "{}, {objects} of {number}: {report} told, {real} real", load.what);
        }
    }
}

#[test]
fn the_counted_memory_of_responses_is_the_allocated_memory() {
    without_purge_delay();
    const ROOM: u64 = 1 << 30;
    let mixed: fn(&mut Random) -> u64 = |it| match it.below(3) {
        0 => 100 + it.below(900),
        1 => 1_000 + it.below(9_000),
        _ => 10_000 + it.below(190_000),
    };
    for load in [
        Load { what: "empty", fills: 20_000, budget: ROOM, length: |_| 0 },
        Load { what: "tiny", fills: 60_000, budget: ROOM, length: |_| 100 },
        Load { what: "tiny ones of every size", fills: 20_000, budget: ROOM, length: |it| it.below(300) },
        Load { what: "small", fills: 20_000, budget: ROOM, length: |it| 1_500 + it.below(1_000) },
        Load { what: "mixed", fills: 2_000, budget: ROOM, length: mixed },
        Load {
            what: "tiny, most of them evicted",
            fills: 60_000,
            budget: 8 << 20,
            length: |it| it.below(300),
        },
        Load {
            what: "small, most of them evicted",
            fills: 20_000,
            budget: 8 << 20,
            length: |it| it.below(4_000),
        },
        Load { what: "mixed, most of them evicted", fills: 4_000, budget: 16 << 20, length: mixed },
    ] {
        check(&load);
    }
}
