//! The budget is a promise about memory: resident bytes, the arena's included, while fills churn. Alone in its
//! process, since it measures that process.

mod support;

use larder_counters::Counters;
use larder_store::{RamSettings, Store};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex};
use support::Random;
use support::fills::{fill, some_key, without_purge_delay};

/// As in the binary: see docs/decisions/0020-resident-memory.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BUDGET: u64 = 32 << 20;

/// The fixed base: what the process may take beside the budget, whatever its size, and what two workers can add
/// between two looks.
const BASE: u64 = larder_store::ram::PROCESS_OVERHEAD + (5 << 20);

/// Resident bytes of this process, mapped shared pages left out, and the pages of its memfd.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| {
        let line = status.lines().find(|it| it.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    let arena = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|it| {
        let path = it.ok()?.path();
        let target = std::fs::read_link(&path).ok()?;
        let is_arena = target.to_string_lossy().contains("larder-arena");
        is_arena.then(|| std::fs::metadata(&path).unwrap().blocks() * 512)
    });
    (line("VmRSS:") - line("RssShmem:"), arena.sum())
}

/// A kind of load: the size of its next body.
type Load = fn(&mut Random) -> u64;

const LOADS: [Load; 5] = [
    |it| it.below(3_000),
    |it| it.below(300),
    |it| it.below(16_000),
    |it| 1 << (8 + it.below(13)),
    |it| 20_000 + it.below(500_000),
];

/// Fills its half of the budget one and a half times over, looking at what is resident beyond `base`.
fn churn(store: &Store, random: &mut Random, base: u64, loads: &[Load]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut bytes, mut minded) = (0, 0);
    loop {
        let length = loads[random.below(loads.len() as u64) as usize](random);
        let key = some_key(random);
        runtime.block_on(fill(store, key.as_bytes(), length as usize));
        bytes += length + 1000;
        let enough = bytes > BUDGET * 3 / 4;
        // A timer would do this some times a second: here a second is half a MiB.
        if bytes - minded > 1 << 19 || enough {
            minded = bytes;
            store.watch_memory();
            let (heap, arena) = resident();
            let heap = heap.saturating_sub(base);
            let most = BUDGET + BUDGET / 20 + BASE;
            assert!(heap + arena <= most, "{heap} on the heap and {arena} in the arena, over {most}");
        }
        if enough {
            break;
        }
    }
}

/// Two threads go on together; where one has failed, the other does not wait for it.
#[derive(Default)]
struct Turns {
    arrived: Mutex<usize>,
    changed: Condvar,
}

/// Of one of them.
struct Turn<'t>(&'t Turns);

impl Turn<'_> {
    fn wait(&self) {
        let mut arrived = self.0.arrived.lock().unwrap();
        let both = (*arrived / 2 + 1) * 2;
        *arrived += 1;
        self.0.changed.notify_all();
        drop(self.0.changed.wait_while(arrived, |it| *it < both).unwrap());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.arrived.lock().unwrap() = usize::MAX / 2;
            self.0.changed.notify_all();
        }
    }
}

#[test]
fn memory_stays_within_the_budget_while_fills_churn() {
    without_purge_delay();
    let settings = RamSettings { budget: BUDGET, heap_line: 16 * 1024, fills: 100 };
    let (base, _) = resident();
    let store = Store::new(settings, Arc::new(Counters::default())).unwrap();
    let turns = Turns::default();
    let worker = |seed| {
        let (mut random, turn) = (Random(seed), Turn(&turns));
        // Each load by itself, which is the worst for an allocator, then all of them mixed.
        let each = LOADS.iter().map(std::slice::from_ref);
        for loads in each.chain([&LOADS[..], &LOADS[1..3]]) {
            turn.wait();
            churn(&store, &mut random, base, loads);
            // What the other takes in is entered before room is made for it.
            turn.wait();
            assert!(store.used() <= BUDGET + BUDGET / 100, "{}", store.used());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker(0x5EED));
        scope.spawn(|| worker(0xF00D));
    });
    assert!(store.used() > BUDGET / 10 * 9, "the budget is used, too");
}
