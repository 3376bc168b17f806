//! Eviction from RAM to disk: responses that the disk should have and lacks.

use super::*;
use crate::entry::StoredArc;
use crate::key::KeyHash;
use crate::purges::{PurgeRule, PurgeScope, Strength};
use crate::ram::Store;
use larder_stdx::clock;

/// A disk whose queue takes one response at a time, and a store of 1 MiB that evicts to it.
fn tiers() -> (Tier, Arc<Store>) {
    let mut tier = Tier::new();
    tier.settings.queue = 1;
    tier.restart();
    let store = sample::store(1 << 20);
    store.evict_to(tier.disk.as_ref().unwrap());
    (tier, store)
}

/// A response of now.
fn fresh(seed: u64, length: usize) -> StoredArc {
    clock::tick();
    let mut it = blob(seed, length);
    let meta = &mut StoredArc::get_mut(&mut it).unwrap().meta;
    (meta.date, meta.request_time, meta.response_time) = (clock::wall(), clock::wall(), clock::wall());
    it
}

fn hash(store: &Store, key: &str) -> KeyHash {
    store.hash(key.as_bytes())
}

/// Stores in RAM, and offers to the disk, as a fill does.
fn keep(tier: &Tier, store: &Store, key: &str, stored: &StoredArc) {
    store.insert(hash(store, key), key.as_bytes(), stored.clone(), 4).unwrap();
    tier.disk().write(key.as_bytes(), stored);
}

/// The same while the disk hangs and its queue is full; then the disk is well again.
fn miss(tier: &Tier, store: &Store, key: &str, stored: &StoredArc) {
    tier.calls.faults.let_in(Some(0));
    tier.disk().write(b"hangs", &blob(0, 10));
    let before = tier.counters.disk_queue_full.get();
    keep(tier, store, key, stored);
    assert_eq!(before + 1, tier.counters.disk_queue_full.get());
    tier.calls.faults.let_in(None);
    tier.disk().flush().wait().unwrap();
    assert!(!tier.disk().knows(key.as_bytes()));
}

/// Other things come until this is not in RAM any more.
fn crowd_out(store: &Store, key: &str) {
    for it in 0..1000 {
        if store.entry_of(hash(store, key), key.as_bytes()).is_none() {
            return;
        }
        let other = format!("other {it}");
        store.insert(hash(store, &other), other.as_bytes(), blob(it, 10_000), 4).unwrap();
    }
    panic!("{key} stays");
}

fn on_disk(tier: &Tier, key: &str) -> Option<Vec<u8>> {
    tier.disk().flush().wait().unwrap();
    tier.get(key)
}

/// Responses that wait to be written are in RAM until then, and take its room.
#[test]
fn behind_a_disk_that_hangs_ram_goes_on() {
    let tier = Tier::new();
    assert!(tier.settings.queue > 1 << 20);
    let store = sample::store(1 << 20);
    store.evict_to(tier.disk.as_ref().unwrap());
    tier.calls.faults.let_in(Some(0));
    for it in 0..500 {
        let key = it.to_string();
        keep(&tier, &store, &key, &fresh(it, 10_000));
        assert!(store.entry_of(hash(&store, &key), key.as_bytes()).is_some(), "{key}");
    }
    assert!(tier.disk().queued() <= (1 << 20) / 8);
    tier.calls.faults.let_in(None);
}

#[test]
fn a_response_refused_by_a_full_queue_is_written_on_eviction() {
    let (tier, store) = tiers();
    miss(&tier, &store, "a", &fresh(1, 5000));
    crowd_out(&store, "a");
    assert_eq!(Some(noise(1, 5000)), on_disk(&tier, "a"));
    assert_eq!(1, tier.counters.disk_evicted_writes.get(), "the others were never for the disk");
}

#[test]
fn a_response_stored_while_the_disk_was_off_is_written_on_eviction() {
    let (tier, store) = tiers();
    tier.calls.faults.plan(Some(Fail { first: 1, count: 1, errno: Errno::NOSPC }));
    tier.put("fails", blob(0, 10));
    assert!(!tier.disk().is_on());
    keep(&tier, &store, "a", &fresh(1, 5000));
    tier.heal();
    crowd_out(&store, "a");
    assert_eq!(Some(noise(1, 5000)), on_disk(&tier, "a"));
}

#[test]
fn a_response_on_disk_or_in_the_queue_is_not_written_twice() {
    let (tier, store) = tiers();
    keep(&tier, &store, "a", &fresh(1, 5000));
    tier.disk().flush().wait().unwrap();
    tier.calls.faults.let_in(Some(0));
    keep(&tier, &store, "b", &fresh(2, 5000));
    crowd_out(&store, "a");
    crowd_out(&store, "b");
    tier.calls.faults.let_in(None);
    assert_eq!(Some(noise(2, 5000)), on_disk(&tier, "b"));
    let read = tier.read("a", &[]).unwrap();
    assert_eq!((0, 2), (tier.counters.disk_evicted_writes.get(), tier.counters.disk_writes.get()));
    // Nor what came from there.
    store.insert(hash(&store, "a"), b"a", StoredArc::new(read), 4).unwrap();
    crowd_out(&store, "a");
    tier.disk().flush().wait().unwrap();
    assert_eq!((0, 2), (tier.counters.disk_evicted_writes.get(), tier.counters.disk_writes.get()));
}

#[test]
fn a_response_that_the_disk_has_dropped_is_written_again() {
    let (tier, store) = tiers();
    keep(&tier, &store, "a", &fresh(1, 5000));
    for it in 0..100 {
        tier.put(&format!("k{it}"), blob(it, 60_000));
    }
    assert!(!tier.disk().knows(b"a"));
    crowd_out(&store, "a");
    assert_eq!(Some(noise(1, 5000)), on_disk(&tier, "a"));
}

#[test]
fn a_removal_between_the_eviction_and_the_write_wins() {
    for offered_first in [false, true] {
        let (tier, store) = tiers();
        miss(&tier, &store, "a", &fresh(1, 5000));
        let gone = store.evict(1);
        assert_eq!(1, gone.len());
        tier.calls.faults.let_in(Some(0));
        if offered_first {
            store.offer(&gone);
        }
        store.remove(hash(&store, "a"), b"a");
        let removed = tier.disk().remove(b"a");
        store.offer(&gone);
        tier.calls.faults.let_in(None);
        removed.wait().unwrap();
        assert_eq!(None, on_disk(&tier, "a"), "offered first: {offered_first}");
    }
}

#[test]
fn a_purge_between_the_eviction_and_the_write_wins() {
    for offered_first in [false, true] {
        let (tier, store) = tiers();
        miss(&tier, &store, "a", &fresh(1, 5000));
        let gone = store.evict(1);
        if offered_first {
            store.offer(&gone);
        }
        let scope = PurgeScope::Url(b"a"[..].into());
        store.purge(PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() });
        store.offer(&gone);
        tier.disk().flush().wait().unwrap();
        let found = tier.read("a", &[]);
        assert_eq!(offered_first, found.is_some());
        assert!(found.and_then(|it| store.admit(b"a", it)).is_none(), "offered first: {offered_first}");
    }
}

#[test]
fn a_useless_response_is_not_written_on_eviction() {
    let (tier, store) = tiers();
    // Stale for years, and nothing to ask about it with.
    miss(&tier, &store, "a", &blob(1, 5000));
    crowd_out(&store, "a");
    assert_eq!(None, on_disk(&tier, "a"));
}

#[test]
fn evicted_responses_in_the_queue_are_counted_and_bounded() {
    let (tier, store) = tiers();
    miss(&tier, &store, "a", &fresh(1, 16_000));
    miss(&tier, &store, "b", &fresh(2, 64_000));
    let empty = store.memory().responses;
    tier.calls.faults.let_in(Some(0));
    let gone = [store.evict(1), store.evict(1)];
    assert!(store.memory().responses < empty - 16_000);
    gone.iter().for_each(|it| store.offer(it));
    drop(gone);
    let waiting = store.memory().responses;
    assert!((16_000..20_000).contains(&waiting), "{waiting}");
    assert_eq!(1, store.counters.disk_evicted_refused.get(), "b is more than a 16th of the budget");
    tier.calls.faults.let_in(None);
    assert_eq!((true, false), (on_disk(&tier, "a").is_some(), on_disk(&tier, "b").is_some()));
    assert_eq!(0, store.memory().responses);
}
