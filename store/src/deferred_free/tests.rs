//! The thread that frees an entry, and when sweeps wait for it.

use super::*;
use crate::entry::{Stored, StoredArc};
use crate::purges::{PurgeFacts, PurgeRule, PurgeScope, Strength};
use crate::ram::{Store, Swept};
use crate::sample::{store, stored, text};
use bytes::Bytes;
use larder_stdx::clock::WallTime;
use larder_transport::body::{FileOwner, FileSlice};
use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A body that tells who has freed it.
struct Told(mpsc::Sender<ThreadId>);

impl FileOwner for Told {
    fn fd(&self) -> BorrowedFd<'_> {
        unreachable!("nobody reads it")
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        None
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

/// Stores so many of this length; what is received is who frees them.
fn fill(store: &Store, count: usize, length: usize) -> mpsc::Receiver<ThreadId> {
    let (sender, report) = mpsc::channel();
    for at in 0..count {
        let owner = Arc::new(Told(sender.clone()));
        let body = StoredBody::Disk(Box::new(FileSlice { owner, offset: 0, length: length as u64 }));
        let key = format!("http://a/{at}");
        put(store, &key, body);
    }
    report
}

fn put(store: &Store, key: &str, body: StoredBody) {
    let purge_facts = PurgeFacts { epoch: store.epoch(), ..PurgeFacts::default() };
    let stored = StoredArc::new(Stored { body, ..stored(text("")) }.with_purge_facts(purge_facts));
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).unwrap();
}

fn purge(store: &Store) {
    store.purge(PurgeRule { scope: PurgeScope::All, strength: Strength::Hard, positions: Vec::new() });
}

/// Sweeps as far as possible without other threads.
fn sweep(store: &Store) -> Swept {
    loop {
        match store.sweep(1) {
            Swept::More => {}
            done => return done,
        }
    }
}

/// Has a thread with a free list store `count` of `length`, and does `between` before that thread clears its free list with `clear`. Gives what
/// was told, and who the thread was.
fn with_maker(
    store: &Store,
    (count, length): (usize, usize),
    between: impl FnOnce(),
    clear: impl FnOnce(&ThreadFreeList) + Send,
) -> (Vec<ThreadId>, ThreadId) {
    let (filled, wait_filled) = mpsc::channel();
    let (done, wait_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let maker = scope.spawn(move || {
            let free_list = store.free_list();
            filled.send(fill(store, count, length)).unwrap();
            wait_done.recv().unwrap();
            clear(&free_list);
        });
        let (report, id) = (wait_filled.recv().unwrap(), maker.thread().id());
        between();
        done.send(()).unwrap();
        maker.join().unwrap();
        (report.try_iter().collect(), id)
    })
}

#[test]
fn purged_responses_are_freed_by_the_thread_that_stored_them() {
    let store = store(64 << 20);
    let empty = store.used();
    let between = || {
        purge(&store);
        assert_eq!(Swept::Nothing, sweep(&store));
        assert_eq!(0, store.objects());
        assert!(store.deferred_bytes() >= 100 * 1000, "{}", store.deferred_bytes());
    };
    let (report, maker) = with_maker(&store, (100, 1000), between, |free_list| {
        assert!(free_list.clear(|| true));
        assert!(!free_list.clear(|| true));
        assert_eq!(0, store.deferred_bytes());
    });
    assert_eq!(vec![maker; 100], report);
    assert_eq!((0, true), (store.freed_by_other_threads(), store.used() < empty + 100_000));
}

#[test]
fn idle_responses_are_freed_by_the_thread_that_stored_them() {
    let store = store(64 << 20);
    let idle = |now| loop {
        match store.sweep_idle(Duration::from_secs(80), WallTime(now), 1) {
            Swept::More => {}
            done => return done,
        }
    };
    idle(1000);
    let between = || {
        idle(1010);
        assert_eq!(Swept::Room, idle(1200));
        assert_eq!(0, store.objects());
    };
    let (report, maker) =
        with_maker(&store, (100, 1000), between, |free_list| assert!(free_list.clear(|| true)));
    assert_eq!(vec![maker; 100], report);
}

#[test]
fn a_sweep_waits_for_the_thread_that_is_behind() {
    let store = store(64 << 20);
    let all = 4 * usize::try_from(FULL / 1000).unwrap();
    let between = || {
        purge(&store);
        assert_eq!(Swept::Waits, sweep(&store));
        assert_eq!(Swept::Waits, sweep(&store), "nobody has cleared it");
        assert!((FULL..MOST).contains(&store.deferred_bytes()), "{}", store.deferred_bytes());
        assert!(store.objects() > 1000);
    };
    let (report, maker) = with_maker(&store, (all, 1000), between, |free_list| {
        let mut turns = 0;
        while store.objects() > 0 || store.deferred_bytes() > 0 {
            let mut left = 100;
            free_list.clear(|| {
                left -= 1;
                left > 0
            });
            thread::scope(|scope| scope.spawn(|| sweep(&store)).join().unwrap());
            turns += 1;
        }
        assert!(turns >= all / 100, "a little at a time: {turns}");
    });
    assert_eq!(vec![maker; all], report);
    assert_eq!(0, store.freed_by_other_threads());
}

#[test]
fn repeated_purges_do_not_wait_for_the_owning_threads() {
    let store = store(64 << 20);
    let all = 4 * usize::try_from(FULL / 1000).unwrap();
    let between = || {
        (0..=HURRIED_AND_MORE).for_each(|_| purge(&store));
        assert_eq!(Swept::Nothing, sweep(&store));
        assert_eq!(0, store.objects());
        assert!(store.deferred_bytes() <= MOST + LARGE, "what waits is bounded: {}", store.deferred_bytes());
        assert!(store.freed_by_other_threads() > FULL);
    };
    let (report, maker) =
        with_maker(&store, (all, 1000), between, |free_list| assert!(free_list.clear(|| true)));
    assert_eq!(all, report.len());
    let by_maker = report.iter().filter(|it| **it == maker).count();
    assert!((1000..all - 1000).contains(&by_maker), "{by_maker}");
}

/// More purges than the number that waits.
const HURRIED_AND_MORE: u64 = crate::ram::MOST_BACKLOG + 1;

#[test]
fn large_bodies_are_freed_by_the_purging_thread() {
    let store = store(64 << 20);
    let between = || {
        purge(&store);
        assert_eq!(Swept::Nothing, sweep(&store));
        assert_eq!(0, store.deferred_bytes());
    };
    let length = usize::try_from(LARGE).unwrap();
    let (report, _) =
        with_maker(&store, (3, length), between, |free_list| assert!(!free_list.clear(|| true)));
    assert_eq!(vec![thread::current().id(); 3], report);
    assert!(store.freed_by_other_threads() >= 3 * LARGE);
    let body = store.make_body(&[Bytes::from(vec![7; 20_000])]).unwrap();
    put(&store, "a", body);
    let entry = store.entry_of(store.hash(b"a"), b"a").unwrap();
    assert!(weight(&entry) > LARGE, "giving back a hole is the kernel's work, which takes its time");
}

#[test]
fn deferred_memory_of_an_ended_thread_is_freed() {
    let store = store(64 << 20);
    let between = || {
        purge(&store);
        assert_eq!(Swept::Nothing, sweep(&store));
        assert!(store.deferred_bytes() > 0);
    };
    // It ends without a look.
    let (report, maker) = with_maker(&store, (10, 1000), between, |_| {});
    assert_eq!(vec![maker; 10], report);
    assert_eq!(0, store.deferred_bytes());
    // And what it stored before, after.
    let report = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let _free_list = store.free_list();
            fill(&store, 10, 1000)
        });
        maker.join().unwrap()
    });
    purge(&store);
    assert_eq!(Swept::Nothing, sweep(&store));
    assert_eq!(vec![thread::current().id(); 10], report.try_iter().collect::<Vec<_>>());
}

#[test]
fn memory_of_the_purging_thread_is_freed_at_once() {
    let store = store(64 << 20);
    let free_list = store.free_list();
    let report = fill(&store, 10, 1000);
    purge(&store);
    assert_eq!(Swept::Nothing, sweep(&store));
    assert_eq!(
        (10, 0, 0),
        (report.try_iter().count(), store.deferred_bytes(), store.freed_by_other_threads())
    );
    assert!(!free_list.clear(|| true));
}
