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
    stored.born = store.purge_number();
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
    (RamTransfer::begin(store, sent.clone(), SETTINGS, || false).unwrap(), sent)
}

/// The receiver after the switch. It has room for as many rules as any sender here: beyond, it validates the older responses.
fn received(sent: &Sent, purges: PurgesInForce) -> Arc<Store> {
    let after = store(64 << 20);
    after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, || false).unwrap();
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
    assert!(before.books.lock().changed.take().unwrap().is_empty());
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
    put_stored(&before, "http://h/early", stored(text("x")).marked(tagged("early")));
    put_stored(&before, "http://h/mid", stored(text("x")).marked(tagged("mid")));
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
    before.books.lock().changed.note(&vec![0; 32 << 20]);
    assert!(matches!(transfer.catch_up(), Err(TransferFault::TooManyChanges)));
    drop(transfer);
    assert!(!before.books.lock().changed.are_recorded());
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
        after.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, || false).unwrap();
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
    let count = small.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, || false).unwrap();
    small.restore(purges.last, rules_of_bytes(&purges.rules).unwrap());
    assert!(count.left_out > 1000, "{count:?}");
    assert!(keys.iter().all(|it| body(&small, it).is_none()));
    let late = store(8 << 20);
    assert_eq!(0, late.receive_ram(&sent.0.lock().unwrap()[..], SETTINGS, || true).unwrap().responses);
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
            let fault = after.receive_ram(bytes, SETTINGS, || false).unwrap_err();
            assert_eq!(0, after.objects(), "{fault:?} at {at}");
        }
    }
    let other = store(4 << 20).receive_ram(&bytes[..], 8, || false);
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
    assert!(matches!(RamTransfer::begin(&before, Gone, SETTINGS, || false), Err(TransferFault::Failed(_))));
    assert!(!before.books.lock().changed.are_recorded());
    assert_eq!(Some("page 4".to_owned()), body(&before, "http://h/4"));
}
