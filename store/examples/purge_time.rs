//! The time of a purge by tag among a million responses, the cost of hits of other keys meanwhile, and the time until the
//! sweep has freed the memory. `cargo run --release -p larder-store --example purge_time [OBJECTS]`

use larder_counters::Counters;
use larder_stdx::clock::precise_micros;
use larder_store::Swept;
use larder_store::ram::Lookup;
use larder_store::{PurgeRule, PurgeScope, RamSettings, Store, StoredArc, Strength, sample};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Keys that are hit all the time, and are not purged.
const HOT: usize = 1000;

/// Steps of one turn of the sweep.
const STEPS: usize = 16;

fn main() {
    let objects: usize = std::env::args().nth(1).map_or(1_000_000, |it| it.parse().expect("a number"));
    let settings = RamSettings { budget: 8 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).expect("a memfd");
    for n in 0..objects {
        put(&store, &format!("http://www.example.com/articles/{n:010}.html"), "purged");
    }
    let hot: Vec<String> = (0..HOT).map(|n| format!("http://www.example.com/hot/{n:010}.html")).collect();
    hot.iter().for_each(|key| put(&store, key, "hot"));
    println!("{objects} responses take {} MiB", store.used() >> 20);
    let (stop, worst, rounds) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let start = precise_micros();
                hits(&store, &hot);
                worst.fetch_max(precise_micros() - start, Relaxed);
                rounds.fetch_add(1, Relaxed);
            }
        });
        let report = |what: &str, took: u64| {
            let (rounds, worst) = (rounds.swap(0, Relaxed), worst.swap(0, Relaxed));
            let each = took as f64 / rounds.max(1) as f64 / HOT as f64 * 1000.0;
            println!(
                "{what}: {took} us; hits meanwhile {each:.0} ns each, the slowest thousand took {worst} us"
            );
        };
        let start = precise_micros();
        while precise_micros() - start < 500_000 {
            std::thread::yield_now();
        }
        report("before", precise_micros() - start);
        let start = precise_micros();
        let (tag, strength) = (PurgeScope::Tag("purged".into()), Strength::Hard);
        store.purge(PurgeRule { scope: tag, strength, positions: Vec::new() });
        println!("the purge: {} us", precise_micros() - start);
        let start = precise_micros();
        let mut longest = 0;
        loop {
            let turn = precise_micros();
            let more = store.sweep(STEPS) != Swept::Nothing;
            longest = longest.max(precise_micros() - turn);
            if !more {
                break;
            }
        }
        report("the sweep", precise_micros() - start);
        println!("the longest turn of {STEPS} steps: {longest} us; {} MiB are left", store.used() >> 20);
        stop.store(true, Relaxed);
    });
}

fn hits(store: &Store, keys: &[String]) {
    for key in keys {
        let found = store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0);
        assert!(matches!(black_box(found), Lookup::Entry(_)), "it is not purged");
    }
}

fn put(store: &Store, key: &str, tag: &str) {
    let stored = sample::stored(sample::text(key)).with_purge_facts(sample::tagged(tag));
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), StoredArc::new(stored), 4).expect("room");
}
