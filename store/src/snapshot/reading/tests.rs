//! Reading by several threads: all or nothing, within the budget, and in the order of each key.

use super::*;
use crate::ram::{Lookup, StoredArc};
use crate::sample::{self, stored};
use larder_semantics::field::Field;
use std::sync::Arc;

const RESPONSES: u64 = 3000;

fn put(store: &Store, key: &str, mut stored: crate::Stored) {
    let now = clock::wall();
    (stored.meta.request_time, stored.meta.response_time, stored.meta.date) = (now, now, now);
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), StoredArc::new(stored), 9).unwrap();
}

fn key(number: u64) -> String {
    format!("http://h/{number}")
}

/// A stream of several batches for each thread.
fn stream() -> Vec<u8> {
    let before = sample::store(64 << 20);
    for number in 0..RESPONSES {
        put(&before, &key(number), stored(StoredBody::on_the_heap(&[vec![1; 1000]])));
    }
    written(&before)
}

fn written(store: &Store) -> Vec<u8> {
    let mut out = Vec::new();
    store.write_snapshot(&mut out, 1, 2, || false).unwrap();
    out
}

fn read(bytes: &[u8], budget: u64, surplus: Surplus) -> (Arc<Store>, Result<SnapshotCount, SnapshotFault>) {
    let store = sample::store(budget);
    let mut reader = SnapshotReader::new(bytes, 1);
    let facts = reader.facts(2, clock::wall()).map(drop);
    facts.unwrap();
    let outcome = store.read_with(4, reader, surplus, None, || false);
    (store, outcome)
}

#[test]
fn a_fault_in_any_batch_leaves_no_entry() {
    let bytes = stream();
    let (store, count) = read(&bytes, 64 << 20, Surplus::Skipped);
    assert_eq!((RESPONSES, 0), count.map(|it| (it.responses, it.left_out)).unwrap());
    assert_eq!(RESPONSES, store.objects());
    for at in (200..bytes.len()).step_by(bytes.len() / 40) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        for bytes in [&damaged[..], &bytes[..at]] {
            let (store, outcome) = read(bytes, 64 << 20, Surplus::Skipped);
            assert!(matches!(outcome, Err(SnapshotFault::Damaged)), "{outcome:?} at {at}");
            assert_eq!(0, store.objects(), "at {at}");
        }
    }
}

#[test]
fn waiting_records_are_within_the_budget_and_do_not_reduce_it() {
    for surplus in [Surplus::Unread, Surplus::Skipped] {
        let (store, count) = read(&stream(), 2 << 20, surplus);
        let count = count.unwrap();
        assert_eq!(count.responses, store.objects(), "none was evicted");
        assert!(store.used() <= store.usable() && store.used() > store.usable() / 4 * 3, "{}", store.used());
    }
}

#[test]
fn the_variants_of_a_key_keep_their_order() {
    let before = sample::store(64 << 20);
    for number in 0..RESPONSES / 10 {
        for language in ["a", "b", "c", "d", "e"] {
            let request = [Field { name: "accept-language", value: language.as_bytes() }];
            let one = sample::varied(&["accept-language"], &request, sample::text(language));
            put(&before, &key(number), sample::owned(one));
        }
    }
    let (after, count) = read(&written(&before), 64 << 20, Surplus::Skipped);
    assert_eq!(RESPONSES / 2, count.unwrap().responses);
    let variants = |store: &Store, number| match store.lookup(
        store.hash(key(number).as_bytes()),
        key(number).as_bytes(),
        0,
    ) {
        Lookup::Entry(entry) => entry.variants.iter().map(|it| it.variant().to_vec()).collect::<Vec<_>>(),
        Lookup::HitForMiss | Lookup::Nothing => Vec::new(),
    };
    for number in 0..RESPONSES / 10 {
        let before = variants(&before, number);
        assert_eq!((5, &before), (before.len(), &variants(&after, number)));
    }
}
