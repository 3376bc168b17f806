//! Evicted and kept entries, tick by tick; and the memory of many entries is freed when few are left.

use super::*;
use crate::ram::Lookup;
use crate::sample::{plain, store, text};

const IDLE: Duration = Duration::from_secs(80);

fn put(store: &Store, key: &str, body: &str) {
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), plain(text(body)), 4).unwrap();
}

fn is_there(store: &Store, key: &str) -> bool {
    store.inspect(store.hash(key.as_bytes())).is_some()
}

fn is_used(store: &Store, key: &str) -> bool {
    matches!(store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0), Lookup::Entry(_))
}

/// Sweeps until nothing is left to do; says whether there is room.
fn sweep(store: &Store, now: u64) -> Swept {
    for _ in 0..100_000 {
        match store.sweep_idle(IDLE, WallTime(now), 1) {
            Swept::More => {}
            done => return done,
        }
    }
    panic!("it does not end");
}

#[test]
fn idle_responses_are_evicted_and_used_ones_stay() {
    let store = store(64 << 20);
    sweep(&store, 1000);
    put(&store, "used", "x");
    put(&store, "idle", "x");
    for now in (1010..=1080).step_by(10) {
        assert_eq!(Swept::Nothing, sweep(&store, now));
        assert!(is_used(&store, "used") && is_there(&store, "idle"), "{now}");
    }
    assert_eq!(Swept::Room, sweep(&store, 1090));
    assert!(is_there(&store, "used") && !is_there(&store, "idle"));
    assert_eq!(1, store.counters.cache_idle_evictions.get());
    assert_eq!(Swept::Room, sweep(&store, 1180));
    assert!(!is_there(&store, "used"));
}

#[test]
fn a_leap_of_the_clock_makes_only_responses_unused_since_idle() {
    let store = store(64 << 20);
    sweep(&store, 1000);
    put(&store, "before", "x");
    assert_eq!(Swept::Nothing, sweep(&store, 1_085), "it may have been used a moment ago");
    put(&store, "after", "x");
    assert_eq!(Swept::Room, sweep(&store, 1095));
    assert!(is_there(&store, "after") && !is_there(&store, "before"));
    assert!(is_used(&store, "after"));
    assert_eq!(Swept::Nothing, sweep(&store, 1_000_000_000), "however far");
    assert!(is_there(&store, "after"));
    assert_eq!(Swept::Room, sweep(&store, 1_000_000_010));
    put(&store, "again", "x");
    // The clock goes back: nothing is idle for that.
    assert_eq!(Swept::Nothing, sweep(&store, 500));
    assert_eq!(Swept::Nothing, sweep(&store, 509));
    assert_eq!(Swept::Nothing, sweep(&store, 580));
    assert!(is_there(&store, "again"));
    assert_eq!(Swept::Room, sweep(&store, 600));
}

#[test]
fn memory_is_returned_when_few_of_many_responses_are_left() {
    let store = store(256 << 20);
    sweep(&store, 1000);
    let empty = store.used();
    for n in 0..20_000 {
        put(&store, &format!("http://a/{n}"), "body");
    }
    let full = store.used();
    assert!(full > empty + (8 << 20), "{full}");
    for now in (1010..=1090).step_by(10) {
        assert!((0..100).all(|n| is_used(&store, &format!("http://a/{n}"))));
        sweep(&store, now);
    }
    // A hundred are left, a two-hundredth.
    let left = store.used() - empty;
    assert!(left < 300_000, "{left} bytes of {}", full - empty);
    // And the queues are whole: everything goes in order, nothing twice.
    assert!((0..100).all(|n| is_used(&store, &format!("http://a/{n}"))));
    for n in 0..100 {
        let key = format!("http://a/{n}");
        assert!(store.remove(store.hash(key.as_bytes()), key.as_bytes()));
    }
    assert!(store.used() - empty < 100_000);
}

#[test]
fn a_response_used_during_the_sweep_stays() {
    let store = store(64 << 20);
    sweep(&store, 1000);
    (0..5000).for_each(|n| put(&store, &format!("{n}"), "x"));
    assert_eq!(Swept::Nothing, sweep(&store, 1080));
    // What is used once a walk has begun stays, though some of it was found idle.
    assert_eq!(Swept::More, store.sweep_idle(IDLE, WallTime(1090), 0));
    assert!((0..500).all(|n| is_used(&store, &format!("{n}"))));
    assert_eq!(Swept::Room, sweep(&store, 1090));
    assert!((0..500).all(|n| is_there(&store, &format!("{n}"))));
    assert!((500..5000).all(|n| !is_there(&store, &format!("{n}"))));
}
