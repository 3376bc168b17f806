//! The time of a hit in the store: hash, lookup and select, alone and with another worker at the same time.
//! `cargo run --release -p larder-store --example lookup_time`

use larder_counters::Counters;
use larder_stdx::clock::precise_micros;
use larder_store::ram::Lookup;
use larder_store::sample::plain;
use larder_store::{RamSettings, Store};
use std::hint::black_box;
use std::sync::Arc;

const KEYS: usize = 100_000;
const ROUNDS: usize = 20;

fn main() {
    let settings = RamSettings { budget: 1 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).expect("a memfd");
    let keys: Vec<_> =
        (0..KEYS).map(|n| format!("http://www.example.com/articles/2024/page-{n:010}.html")).collect();
    for key in &keys {
        let body = store.make_body(&[vec![b'x'; 1795].into()]).expect("room");
        store.insert(store.hash(key.as_bytes()), key.as_bytes(), plain(body), 4).expect("room");
    }
    time("hash of 60 bytes", KEYS, || {
        for key in &keys {
            black_box(store.hash(key.as_bytes()));
        }
    });
    time("hit among 100,000 keys", KEYS, || hits(&store, &keys));
    time("hit among 100 keys", KEYS, || (0..KEYS / 100).for_each(|_| hits(&store, &keys[..100])));
    time("hit of one key", KEYS, || (0..KEYS).for_each(|_| hits(&store, &keys[..1])));
    time("hit among 100 keys, two workers at once, each", KEYS, || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..KEYS / 100).for_each(|_| hits(&store, &keys[..100])));
            }
        });
    });
}

fn hits(store: &Store, keys: &[String]) {
    let mut scratch = Vec::new();
    for key in keys {
        let Lookup::Entry(entry) = store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) else {
            panic!("nothing was evicted");
        };
        black_box(entry.select(&[], &mut scratch));
        entry.note_hit();
    }
}

fn time(what: &str, count: usize, mut work: impl FnMut()) {
    let mut rounds: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let start = precise_micros();
            work();
            precise_micros() - start
        })
        .collect();
    rounds.sort_unstable();
    let ns = |micros: u64| micros as f64 * 1000.0 / count as f64;
    println!("{what}: {:.1} ns (median; best {:.1})", ns(rounds[ROUNDS / 2]), ns(rounds[0]));
}
