//! The arena over real sockets: sent bytes do not change, and freed pages are returned to the kernel.

use super::*;
use crate::ram::{Lookup, Store, StoredBody};
use crate::sample::{plain, store};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;

fn arena(bytes: u64) -> (Arc<Arena>, Arc<MemoryBudget>) {
    let budget = Arc::new(MemoryBudget::new(bytes));
    (Arena::new(bytes, budget.clone()).unwrap(), budget)
}

fn write(arena: &Arc<Arena>, budget: &MemoryBudget, byte: u8, length: usize) -> FileSlice {
    budget.charge(arena.cost(length as u64));
    arena.write(&[Bytes::from(vec![byte; length])], length as u64).unwrap()
}

/// Sends what the socket takes without waiting; the rest of the slice.
fn send(to: &impl AsFd, mut slice: FileSlice) -> FileSlice {
    while slice.length > 0 {
        match rustix::fs::sendfile(to, slice.owner.fd(), Some(&mut slice.offset), slice.length as usize) {
            Ok(sent) => slice.length -= sent as u64,
            Err(Errno::AGAIN) => break,
            Err(error) => panic!("{error}"),
        }
    }
    slice
}

#[test]
fn freed_ranges_are_returned_to_the_kernel() {
    let (arena, budget) = arena(1 << 30);
    assert_eq!(0, arena.resident());
    let slices: Vec<_> = (0..10).map(|it| write(&arena, &budget, it, 100_000)).collect();
    assert_eq!(10 * 100_000u64.next_multiple_of(PAGE), arena.resident());
    assert_eq!(&[9; 100_000][..], slices[9].owner.mapped(slices[9].offset, 100_000).unwrap());
    let one = slices[4].clone();
    drop(slices);
    assert_eq!(
        100_000u64.next_multiple_of(PAGE),
        arena.resident(),
        "a slice keeps its extent, mapped or not"
    );
    assert_eq!(None, one.owner.mapped(one.offset, 100_001), "and shows nothing else");
    assert_eq!(None, one.owner.mapped(one.offset - 1, 2));
    assert_eq!(None, one.owner.mapped(u64::MAX, 2));
    drop(one);
    assert_eq!((0, 0), (arena.resident(), budget.used()));
    assert_eq!(1, arena.free.lock().by_start.len(), "the ranges are one again");
}

#[test]
fn the_arena_is_sealed() {
    let (arena, _ledger) = arena(1 << 20);
    assert_eq!(Err(Errno::PERM), ftruncate(&arena.file, 0));
    assert_eq!(Err(Errno::PERM), ftruncate(&arena.file, 1 << 40));
    assert!(fcntl_add_seals(&arena.file, SealFlags::WRITE).is_err());
}

#[track_caller]
fn check_a_slow_peer(sender: &impl AsFd, mut receiver: impl Read) {
    let (arena, budget) = arena(1 << 30);
    let old = write(&arena, &budget, 1, 256 * 1024);
    let place = old.offset;
    let rest = send(sender, old);
    let sent = 256 * 1024 - rest.length as usize;
    assert!(sent >= 64 * 1024, "{sent} are under way");
    drop(rest);
    assert_eq!(0, arena.resident(), "freed for the store, if not for the kernel");
    let new = write(&arena, &budget, 2, 256 * 1024);
    assert_eq!(place, new.offset, "the same place");
    let mut read = vec![0; sent];
    receiver.read_exact(&mut read).unwrap();
    assert!(read.iter().all(|it| *it == 1), "the peer got what was there when it was sent");
    assert_eq!(&[2; 256 * 1024][..], new.owner.mapped(new.offset, new.length).unwrap());
}

#[test]
fn bytes_under_way_are_not_overwritten() {
    let (sender, receiver) = UnixStream::pair().unwrap();
    sender.set_nonblocking(true).unwrap();
    check_a_slow_peer(&sender, receiver);
    let (sender, receiver) = tcp_pair();
    check_a_slow_peer(&sender, receiver);
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (sender, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    (sender, receiver)
}

/// Bodies whose every byte is the key: 20 to 200 KiB.
fn put(store: &Store, key: u8) {
    let length = 20 * 1024 + usize::from(key) * 700;
    let body = store.make_body(&[Bytes::from(vec![key; length])]).unwrap();
    assert!(matches!(body, StoredBody::Arena(_)));
    store.insert(store.hash(&[key]), &[key], plain(body), 1).unwrap();
}

fn find(store: &Store, key: u8) -> Option<FileSlice> {
    match store.lookup(store.hash(&[key]), &[key], 0) {
        Lookup::Entry(entry) => match &entry.variants[0].body {
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => Some(FileSlice::clone(slice)),
            StoredBody::Heap(_) => None,
        },
        _ => None,
    }
}

/// Sends what is found while two others churn the store; returns how many bodies came through.
fn read_slowly(store: &Store, stop: &AtomicBool) -> u32 {
    let (sender, mut receiver) = tcp_pair();
    receiver.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 8 * 1024];
    let mut whole = 0;
    for turn in 0.. {
        if stop.load(Relaxed) {
            break;
        }
        let key = (turn * 37 % 250) as u8;
        let Some(mut slice) = find(store, key) else { continue };
        let mut left = slice.length as usize;
        while left > 0 {
            slice = send(&sender, slice);
            match receiver.read(&mut buffer) {
                Ok(read) => {
                    assert!(buffer[..read].iter().all(|it| *it == key), "another body's bytes under {key}");
                    left -= read;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        whole += 1;
    }
    whole
}

#[test]
fn bodies_are_intact_while_other_threads_evict() {
    let budget = 8 << 20;
    let store = store(budget);
    let stop = AtomicBool::new(false);
    let most = AtomicU64::new(0);
    let whole = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_slowly(&store, &stop))).collect();
        let churners: Vec<_> = [1u32, 7]
            .into_iter()
            .map(|step| {
                let (store, most) = (&store, &most);
                scope.spawn(move || {
                    for n in 0..1500 {
                        put(store, (n * step % 250) as u8);
                        most.fetch_max(store.used(), Relaxed);
                    }
                })
            })
            .collect();
        churners.into_iter().for_each(|it| it.join().unwrap());
        stop.store(true, Relaxed);
        readers.into_iter().map(|it| it.join().unwrap()).sum::<u32>()
    });
    assert!(whole > 20, "{whole} bodies were read");
    assert!(most.into_inner() <= budget + (1 << 20), "two inserts at a time may be over it for a moment");
    assert!(store.counters.cache_evictions.get() > 1000);
}
