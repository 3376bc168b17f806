//! The notifications about room, their number, and when a thread checks again.

use super::*;
use larder_store::sample::{plain, text};
use larder_store::{PurgeRule, PurgeScope, Strength};

fn store() -> Arc<Store> {
    larder_store::sample::store(64 << 20)
}

fn told(room: &ReleaseSignal) -> u64 {
    room.0.load(Relaxed)
}

#[test]
fn the_end_of_a_sweep_is_signalled_once() {
    let (room, store) = (ReleaseSignal::default(), store());
    let mut freed = Freed::new(room.clone());
    for left in (0..1000).rev() {
        freed.add(1 << 20, 0, left << 20);
    }
    assert_eq!(0, told(&room), "nobody looks through pages that come back by themselves");
    freed.end(&store);
    assert_eq!(1, told(&room));
    freed.end(&store);
    assert_eq!(1, told(&room), "there was no other sweep");
}

#[test]
fn memory_freed_by_other_threads_is_signalled_in_proportion() {
    let room = ReleaseSignal::default();
    let mut freed = Freed::new(room.clone());
    freed.add(ENOUGH - 1, ENOUGH - 1, 0);
    assert_eq!(0, told(&room), "not enough yet");
    freed.add(1, 1, 0);
    assert_eq!(1, told(&room));
    // A GiB of one, by a MiB.
    for left in (0..1024).rev() {
        freed.add(1 << 20, 1 << 20, left << 20);
    }
    // A thread looks through all of its pages each time: many times less often than there is something.
    assert!((30..200).contains(&told(&room)), "{}", told(&room));
}

#[test]
fn the_end_of_a_sweep_without_deferred_bytes_is_signalled() {
    let (room, store) = (ReleaseSignal::default(), store());
    let mut freed = Freed::new(room.clone());
    let (next, wait) = std::sync::mpsc::channel::<()>();
    let (made, is_made) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let free_list = store.free_list();
            store.insert(store.hash(b"a"), b"a", plain(text("x")), 4).unwrap();
            made.send(()).unwrap();
            wait.recv().unwrap();
            assert!(free_list.clear(|| true));
            made.send(()).unwrap();
        });
        is_made.recv().unwrap();
        store.purge(PurgeRule { scope: PurgeScope::All, strength: Strength::Hard, positions: Vec::new() });
        while store.sweep(1) != Swept::Nothing {}
        freed.add(ENOUGH, 0, 0);
        freed.end(store);
        assert_eq!(0, told(&room), "it is still there");
        next.send(()).unwrap();
        is_made.recv().unwrap();
    });
    freed.end(&store);
    assert_eq!(1, told(&room));
}

#[test]
fn small_sweeps_are_signalled_together() {
    let (room, store) = (ReleaseSignal::default(), store());
    let mut freed = Freed::new(room.clone());
    for _ in 0..3 {
        freed.add(ENOUGH / 4, ENOUGH / 4, 0);
        freed.end(&store);
    }
    assert_eq!(0, told(&room), "a purge of a page makes nobody look through all of theirs");
    freed.add(ENOUGH / 4, ENOUGH / 4, 0);
    assert_eq!(1, told(&room));
}

#[test]
fn a_thread_with_deferred_memory_checks_again_soon_until_none_is_left() {
    let (room, store) = (ReleaseSignal::default(), store());
    let release = MemoryRelease::new(room.clone(), Arc::default(), Some(store.free_list()));
    assert_eq!(CHECK_INTERVAL, release.check());
    room.signal();
    assert_eq!(CHECK_INTERVAL, release.check(), "there is nothing to be freed");
    store.insert(store.hash(b"a"), b"a", plain(text("x")), 4).unwrap();
    store.purge(PurgeRule { scope: PurgeScope::All, strength: Strength::Hard, positions: Vec::new() });
    std::thread::scope(|scope| {
        let sweep = || while store.sweep(1) != Swept::Nothing {};
        scope.spawn(sweep).join().unwrap();
    });
    assert!(store.deferred_bytes() > 0);
    assert_eq!(SOON, release.check());
    assert_eq!(0, store.deferred_bytes());
    assert!((1..SWEPT).all(|_| release.check() == SOON), "more may come");
    assert_eq!(CHECK_INTERVAL, release.check());
}
