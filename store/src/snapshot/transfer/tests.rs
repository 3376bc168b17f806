//! Transfers: the receiver has what the sender has at the switch, and nothing that was replaced, removed or purged meanwhile.

use super::*;
use crate::disk::rules_of_bytes;
use crate::entry::{Stored, StoredArc, StoredBody};
use crate::purges::{PurgeRule, PurgeScope, Strength};
use crate::ram::Lookup;
use crate::sample::{read, store, stored, tagged, text};
use std::sync::Mutex;

const SETTINGS: u64 = 7;

/// The bytes that were sent so far.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn put(store: &Store, key: &str, body: &str) {
    put_stored(store, key, stored(text(body)));
}

/// A response that came now, and is fresh.
fn put_stored(store: &Store, key: &str, mut stored: Stored) {
    let now = clock::wall();
    (stored.meta.request_time, stored.meta.response_time, stored.meta.date) = (now, now, now);
    stored.epoch = store.purge_number();
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), StoredArc::new(stored), 4).unwrap();
}

fn body(store: &Store, key: &str) -> Option<String> {
    match store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) {
        Lookup::Entry(entry) => entry.variants.first().map(|it| String::from_utf8(read(&it.body)).unwrap()),
        Lookup::HitForMiss | Lookup::Nothing => None,
    }
}

fn purge(store: &Store, scope: PurgeScope) {
    store.purge(PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() });
}

fn tag(tag: &str) -> PurgeScope {
    PurgeScope::Tag(tag.into())
}

fn pages() -> Arc<Store> {
    let store = store(8 << 20);
    for number in 0..20 {
        put(&store, &format!("http://h/{number}"), &format!("page {number}"));
    }
    store
}

/// A transfer of which all but the changes is sent.
fn begun(store: &Arc<Store>) -> (RamTransfer<Sent>, Sent) {
    let sent = Sent::default();
    (
        RamTransfer::begin(store, sent.clone(), StreamVersion::default(), SETTINGS, None, || false).unwrap(),
        sent,
    )
}

/// The receiver after the switch. It has room for as many rules as any sender here: beyond, it validates the older responses.
fn received(sent: &Sent, purges: PurgesInForce) -> Arc<Store> {
    let after = store(64 << 20);
    after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| false).unwrap();
    after.restore(purges.last, rules_of_bytes(&purges.rules).unwrap());
    after
}

fn ended((transfer, sent): (RamTransfer<Sent>, Sent)) -> Arc<Store> {
    let (_, purges) = transfer.end().unwrap();
    received(&sent, purges)
}

#[test]
fn changes_meanwhile_reach_the_receiver() {
    let before = pages();
    let large = before.make_body(&[vec![b'l'; 100_000].into()]).unwrap();
    put_stored(&before, "http://h/large", stored(large));
    let (mut transfer, sent) = begun(&before);
    put(&before, "http://h/1", "another");
    put(&before, "http://h/new", "new");
    assert_eq!(2, transfer.catch_up().unwrap());
    assert_eq!(0, transfer.catch_up().unwrap());
    put(&before, "http://h/1", "a third");
    let hash = before.hash(b"http://h/2");
    assert!(before.remove(hash, b"http://h/2"));
    assert!(before.supersede(before.hash(b"http://h/3"), b"http://h/3", &[]));
    let after = ended((transfer, sent));
    assert_eq!(Some("a third".to_owned()), body(&after, "http://h/1"));
    assert_eq!(Some("new".to_owned()), body(&after, "http://h/new"));
    assert_eq!((None, None), (body(&after, "http://h/2"), body(&after, "http://h/3")));
    assert_eq!(Some("page 4".to_owned()), body(&after, "http://h/4"));
    assert_eq!(100_000, body(&after, "http://h/large").unwrap().len());
    // Changes are not recorded any more.
    put(&before, "http://h/5", "later");
    assert!(before.eviction.lock().changed.take().unwrap().is_empty());
}

#[test]
fn a_stream_of_either_version_is_taken_over() {
    for version in StreamVersion::ALL {
        let (before, sent) = (pages(), Sent::default());
        before.note_hit(before.hash(b"http://h/3"), b"http://h/3");
        let mut transfer =
            RamTransfer::begin(&before, sent.clone(), version, SETTINGS, None, || false).unwrap();
        put(&before, "http://h/1", "another");
        transfer.catch_up().unwrap();
        let (count, _) = transfer.end().unwrap();
        let after = store(8 << 20);
        let received = after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| false).unwrap();
        assert_eq!((version, version), (count.version, received.version));
        assert_eq!((21, 20), (received.responses, after.objects()));
        let used = after.entry_of(after.hash(b"http://h/3"), b"http://h/3").unwrap();
        assert_eq!(1, used.hits());
        let (one, two) = (body(&after, "http://h/1"), body(&after, "http://h/2"));
        assert_eq!((Some("another"), Some("page 2")), (one.as_deref(), two.as_deref()));
    }
}

#[test]
fn a_removal_of_a_page_that_was_evicted_here_reaches_the_receiver() {
    let before = pages();
    let (transfer, sent) = begun(&before);
    // Evicted: the receiver has it, and may.
    before.evict(u64::MAX);
    let hash = before.hash(b"http://h/2");
    assert!(!before.remove(hash, b"http://h/2"));
    let after = ended((transfer, sent));
    assert_eq!(None, body(&after, "http://h/2"));
    assert_eq!(Some("page 4".to_owned()), body(&after, "http://h/4"));
}

#[test]
fn purges_of_every_time_are_in_force_at_the_receiver() {
    let before = pages();
    put_stored(&before, "http://h/early", stored(text("x")).with_purge_facts(tagged("early")));
    put_stored(&before, "http://h/mid", stored(text("x")).with_purge_facts(tagged("mid")));
    purge(&before, tag("early"));
    let (mut transfer, sent) = begun(&before);
    purge(&before, tag("mid"));
    purge(&before, PurgeScope::Url(b"http://h/3"[..].into()));
    // Fetched after the purge: it stays.
    put(&before, "http://h/3", "again");
    transfer.catch_up().unwrap();
    purge(&before, PurgeScope::Url(b"http://h/4"[..].into()));
    let after = ended((transfer, sent));
    let gone = ["early", "mid", "4"].map(|it| body(&after, &format!("http://h/{it}")));
    assert_eq!([None, None, None], gone);
    assert_eq!(Some("again".to_owned()), body(&after, "http://h/3"));
    assert_eq!(Some("page 5".to_owned()), body(&after, "http://h/5"));
    // Numbers go on, so that a purge of the receiver applies to all of it.
    purge(&after, PurgeScope::All);
    assert_eq!((None, None), (body(&after, "http://h/3"), body(&after, "http://h/5")));
}

#[test]
fn rules_that_the_receiver_needs_are_not_dropped_by_the_sweep() {
    let before = store(64 << 20);
    put(&before, "http://h/1", "x");
    put(&before, "http://h/19", "x");
    before.has_no_lower_tier();
    let (transfer, sent) = begun(&before);
    for number in 0..600 {
        purge(&before, PurgeScope::Url(format!("http://h/{number}").into_bytes().into()));
    }
    while before.sweep(100) != crate::ram::Swept::Nothing {}
    let after = ended((transfer, sent));
    assert_eq!([None, None], [1, 19].map(|it| body(&after, &format!("http://h/{it}"))));
}

#[test]
fn too_many_purges_or_changes_end_a_transfer() {
    // A small budget has room for few rules.
    let before = store(4 << 20);
    put(&before, "http://h/0", "x");
    let (transfer, _) = begun(&before);
    for number in 0..2000 {
        purge(&before, tag(&format!("tag {number}")));
    }
    assert!(matches!(transfer.end(), Err(TransferFault::TooManyPurges)));
    let (mut transfer, _) = begun(&before);
    before.eviction.lock().changed.note(&vec![0; 32 << 20]);
    assert!(matches!(transfer.catch_up(), Err(TransferFault::TooManyChanges)));
    drop(transfer);
    assert!(!before.eviction.lock().changed.are_recorded());
}

#[test]
fn a_disk_tier_with_a_part_of_the_rules_agrees() {
    let before = pages();
    let (transfer, sent) = begun(&before);
    for number in [3, 4] {
        purge(&before, PurgeScope::Url(format!("http://h/{number}").into_bytes().into()));
    }
    let (_, purges) = transfer.end().unwrap();
    let rules = rules_of_bytes(&purges.rules).unwrap();
    let restored = |on_disk: Vec<(Seq, PurgeRule)>| {
        let after = store(8 << 20);
        after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| false).unwrap();
        // As of the journal of the disk tier.
        after.restore(2, on_disk);
        after.restore(purges.last, rules.clone());
        [3, 4, 5].map(|it| body(&after, &format!("http://h/{it}")).is_some())
    };
    assert_eq!([false, false, true], restored(vec![rules[1].clone()]));
    // A full journal has one rule in place of others.
    let all = PurgeRule { scope: PurgeScope::All, strength: Strength::Validate, positions: Vec::new() };
    assert_eq!([false, false, false], restored(vec![(2, all)]));
}

#[test]
fn a_receiver_that_is_full_or_late_obeys_removals() {
    let before = pages();
    for number in 0..4000 {
        put_stored(
            &before,
            &format!("http://h/more/{number}"),
            stored(StoredBody::on_the_heap(&[vec![1; 1000]])),
        );
    }
    let (transfer, sent) = begun(&before);
    let keys: Vec<String> = (0..4000).map(|it| format!("http://h/more/{it}")).collect();
    for key in &keys {
        before.remove(before.hash(key.as_bytes()), key.as_bytes());
    }
    let (count, purges) = transfer.end().unwrap();
    assert_eq!(4020, count.responses);
    let small = store(2 << 20);
    let count = small.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| false).unwrap();
    small.restore(purges.last, rules_of_bytes(&purges.rules).unwrap());
    assert!(count.left_out > 1000, "{count:?}");
    assert!(keys.iter().all(|it| body(&small, it).is_none()));
    let late = store(8 << 20);
    assert_eq!(0, late.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| true).unwrap().responses);
}

#[test]
fn the_receiver_counts_the_responses_that_the_sender_left_out() {
    let before = pages();
    let sent = Sent::default();
    let transfer =
        RamTransfer::begin(&before, sent.clone(), StreamVersion::default(), SETTINGS, None, || true).unwrap();
    transfer.end().unwrap();
    let count = store(4 << 20).receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, None, |_| false).unwrap();
    assert_eq!((0, 20), (count.responses, count.left_out));
}

#[test]
fn no_damage_leaves_a_response_behind() {
    let before = pages();
    let (transfer, sent) = begun(&before);
    put(&before, "http://h/1", "another");
    transfer.end().unwrap();
    let bytes = sent.0.lock().unwrap().clone();
    for at in (0..500).chain((500..bytes.len()).step_by(61)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        for bytes in [&damaged[..], &bytes[..at]] {
            let after = store(4 << 20);
            let fault = after.receive_ram(bytes, SETTINGS, None, |_| false).unwrap_err();
            assert_eq!(0, after.objects(), "{fault:?} at {at}");
        }
    }
    let other = store(4 << 20).receive_ram(&bytes[..], 8, None, |_| false);
    assert!(matches!(other, Err(SnapshotFault::OtherSettings)));
}

/// A process that has gone.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_receiver_that_has_gone_changes_nothing() {
    let before = pages();
    assert!(matches!(
        RamTransfer::begin(&before, Gone, StreamVersion::default(), SETTINGS, None, || false),
        Err(TransferFault::Failed(_))
    ));
    assert!(!before.eviction.lock().changed.are_recorded());
    assert_eq!(Some("page 4".to_owned()), body(&before, "http://h/4"));
}

/// Three pages in the arena.
fn large_pages() -> Arc<Store> {
    let before = store(8 << 20);
    for it in ["a", "b", "c"] {
        put_large(&before, it, it);
    }
    before
}

fn put_large(store: &Store, name: &str, text: &str) {
    let body = store.make_body(&[text.repeat(100_000).into()]).unwrap();
    put_stored(store, &format!("http://h/{name}"), stored(body));
}

fn is_large(store: &Store, name: &str, text: &str) -> bool {
    body(store, &format!("http://h/{name}")).is_some_and(|it| it == text.repeat(100_000))
}

/// Pages of the arena that a body of these tests takes.
const LARGE: u64 = 102_400;

/// A transfer with the arena, and the end of the process that sends it.
fn lent(store: &Arc<Store>) -> (RamTransfer<Sent>, Sent, LentArena, io::PipeWriter) {
    let (in_use, mut lent) = store.lend_arena().unwrap();
    let (reader, writer) = io::pipe().unwrap();
    lent.end = reader.into();
    let sent = Sent::default();
    let transfer =
        RamTransfer::begin(store, sent.clone(), StreamVersion::default(), SETTINGS, Some(in_use), || false)
            .unwrap();
    (transfer, sent, lent, writer)
}

#[test]
fn large_bodies_are_in_both_processes_and_once_in_memory() {
    let before = large_pages();
    let (transfer, sent, lent, end) = lent(&before);
    put_large(&before, "a", "another");
    let reading = before.lookup(before.hash(b"http://h/b"), b"http://h/b", 0);
    before.evict(u64::MAX);
    assert_eq!(3 * LARGE + (700_000_u64).next_multiple_of(4096), before.memory().arena, "nothing is punched");
    let (count, purges) = transfer.end().unwrap();
    assert_eq!((3, 300_000), (count.responses, count.shared));
    assert!(sent.0.lock().unwrap().len() < 10_000);

    let after = store(64 << 20);
    let count = after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, Some(lent), |it| it > LARGE);
    let count = count.unwrap();
    assert_eq!((3, 0), (count.responses, count.left_out), "{count:?}");
    after.restore(purges.last, rules_of_bytes(&purges.rules).unwrap());
    assert!(body(&after, "http://h/a").is_none() && is_large(&after, "b", "b") && is_large(&after, "c", "c"));
    // Evicted there: the sender may still need it. New bodies are elsewhere.
    after.remove(after.hash(b"http://h/b"), b"http://h/b");
    put_large(&after, "d", "d");
    let Lookup::Entry(entry) = reading else { panic!("it was there") };
    assert_eq!(100_000, read(&entry.variants[0].body).iter().filter(|it| **it == b'b').count());
    assert_eq!(before.memory().arena + LARGE, after.memory().arena);
    // The sender has ended: only the receiver's extents stay, and its new ones are in the same file.
    drop(end);
    after.open_inherited_arena();
    assert_eq!(2 * LARGE, after.memory().arena);
    assert!(is_large(&after, "c", "c") && is_large(&after, "d", "d"));
    let shared = before.memory().arena;
    put_large(&after, "e", "e");
    assert_eq!(shared + LARGE, before.memory().arena);
    after.evict(u64::MAX);
    assert_eq!((0, 0), (after.memory().arena, before.memory().arena));
}

#[test]
fn a_sender_whose_receiver_fails_has_its_arena_for_itself() {
    let before = large_pages();
    let (transfer, ..) = lent(&before);
    before.evict(u64::MAX);
    assert_eq!(3 * LARGE, before.memory().arena);
    drop(transfer);
    assert_eq!(0, before.memory().arena);
    // At a later step.
    put_large(&before, "a", "a");
    let (transfer, ..) = lent(&before);
    transfer.end().unwrap();
    before.evict(u64::MAX);
    assert_eq!(LARGE, before.memory().arena);
    before.reclaim_arena();
    assert_eq!(0, before.memory().arena);
    put_large(&before, "a", "a");
    assert!(is_large(&before, "a", "a"));
}

#[test]
fn a_sender_that_frees_too_much_meanwhile_sends_nothing() {
    let before = large_pages();
    let (transfer, ..) = lent(&before);
    // An eighth of the budget.
    for _ in 0..12 {
        put_large(&before, "a", "a");
    }
    assert!(matches!(transfer.end(), Err(TransferFault::TooManyChanges)));
    before.evict(u64::MAX);
    assert_eq!(0, before.memory().arena);
}

#[test]
fn places_without_a_body_are_damage() {
    let before = large_pages();
    let (_, _, lent, _) = lent(&before);
    let after = store(64 << 20);
    let inherited = InheritedArena::new(lent, after.budget.clone()).unwrap();
    let is_there = |offset, length| after.claim(&inherited, offset, length).is_ok_and(|it| it.is_some());
    assert!(is_there(0, 100_000) && is_there(0, 100_000), "one extent");
    assert!(!is_there(0, 99_000) && !is_there(4096, 100_000) && !is_there(LARGE + 1, 100_000));
    assert!(!is_there(1 << 45, 100_000) && !is_there(u64::MAX - 4095, 8192) && !is_there(LARGE, 0));
    inherited.finish();
    drop(inherited);
    assert_eq!(0, after.used());
    // A file that could shrink is no arena.
    let (arena, end) =
        (rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap(), io::pipe().unwrap().0);
    rustix::fs::ftruncate(&arena, 4096).unwrap();
    assert!(InheritedArena::new(LentArena { arena, end: end.into() }, after.budget.clone()).is_err());
}
