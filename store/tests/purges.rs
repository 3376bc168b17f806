//! A purge of very many responses: it walks over nothing, and hits of other keys are not affected.
//! `examples/purge_time.rs` has a million of them.

use larder_counters::Counters;
use larder_stdx::clock::precise_micros;
use larder_store::Swept;
use larder_store::ram::Lookup;
use larder_store::{Entry, PurgeRule, PurgeScope, RamSettings, Store, StoredArc, Strength, sample};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const MANY: usize = 50_000;

fn put(store: &Store, key: &str, tag: &str) {
    let stored = sample::stored(sample::text("body")).with_purge_facts(sample::tagged(tag));
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), StoredArc::new(stored), 1).unwrap();
}

fn find(store: &Store, key: &str) -> Option<Entry> {
    match store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) {
        Lookup::Entry(entry) => Some(entry),
        Lookup::HitForMiss | Lookup::Nothing => None,
    }
}

#[test]
fn a_purge_by_tag_takes_no_longer_for_many() {
    let settings = RamSettings { budget: 1 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).unwrap();
    for n in 0..MANY {
        put(&store, &format!("http://a/{n}"), "purged");
    }
    put(&store, "http://b/", "other");
    let (full, other) = (store.used(), find(&store, "http://b/").unwrap());
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let (took, left) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                assert!(other.is(&find(&store, "http://b/").unwrap()), "it stays as it was");
                hits.fetch_add(1, SeqCst);
            }
        });
        while hits.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        let start = precise_micros();
        let scope = PurgeScope::Tag("purged".into());
        store.purge(PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() });
        let took = precise_micros() - start;
        let left =
            (0..MANY).step_by(997).filter(|n| find(&store, &format!("http://a/{n}")).is_some()).count();
        for _ in 0..2 * MANY {
            if store.sweep(1) == Swept::Nothing {
                break;
            }
        }
        stop.store(true, SeqCst);
        (took, left)
    });
    assert!(took < 100_000, "{took} microseconds");
    assert_eq!(0, left, "they are gone at once");
    assert_eq!(Swept::Nothing, store.sweep(1), "the sweep has come to its end");
    assert!(store.used() < full / 8, "{} of {full} bytes are left", store.used());
}
