//! Snapshots: the entries that come back, those that are left out, and every fault of the file.

use super::file::{discard, take};
use super::*;
use crate::encodings::Encodings;
use crate::purges::{PurgeFacts, PurgeRule, PurgeScope, Strength};
use crate::ram::{Lookup, StoredArc};
use crate::sample::{read, store, stored, tagged, text, varied};
use larder_semantics::coding::Coding;
use larder_semantics::compress::{CodingPreference, Compress};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::Policy;
use larder_semantics::transcode::{self, EncodingPlan};
use larder_wire::ready_head::ReadyHead;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SETTINGS: u64 = 7;

/// A response that came now, and is fresh for a minute.
fn fresh(body: StoredBody) -> Stored {
    let mut stored = stored(body);
    let now = clock::wall();
    (stored.meta.request_time, stored.meta.response_time, stored.meta.date) = (now, now, now);
    stored.meta.etag = Some(b"\"a\""[..].into());
    stored
}

fn put(store: &Store, key: &str, stored: Stored) {
    put_arc(store, key, StoredArc::new(stored));
}

fn put_arc(store: &Store, key: &str, stored: StoredArc) {
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).unwrap();
}

fn found(store: &Store, key: &str) -> Option<StoredArc> {
    match store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) {
        Lookup::Entry(entry) => entry.variants.first().cloned(),
        Lookup::HitForMiss | Lookup::Nothing => None,
    }
}

fn body(store: &Store, key: &str) -> Option<Vec<u8>> {
    found(store, key).map(|it| read(&it.body))
}

fn written(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.write_snapshot(&mut bytes, 1, SETTINGS, || false).unwrap();
    bytes
}

/// A new store with a snapshot.
fn restored(bytes: &[u8]) -> Arc<Store> {
    let store = store(8 << 20);
    store.read_snapshot(bytes, 1, SETTINGS, || false).unwrap();
    store
}

fn purge(store: &Store, scope: PurgeScope, strength: Strength) {
    store.purge(PurgeRule { scope, strength, positions: Vec::new() });
}

fn pages() -> Arc<Store> {
    let store = store(8 << 20);
    for number in 0..20 {
        put(&store, &format!("http://h/{number}"), fresh(text(&format!("page {number}"))));
    }
    let large = store.make_body(&[vec![5; 100_000].into()]).unwrap();
    put(&store, "http://h/large", fresh(large));
    store
}

#[test]
fn a_snapshot_brings_back_bodies_of_every_size() {
    let store = restored(&written(&pages()));
    assert_eq!(21, store.objects());
    assert_eq!(21, store.counters.ram_restored.get());
    assert_eq!(Some(b"page 7".to_vec()), body(&store, "http://h/7"));
    assert_eq!(Some(vec![5; 100_000]), body(&store, "http://h/large"));
    let stored = found(&store, "http://h/7").unwrap();
    assert_eq!(b"HTTP/1.1 200 OK\r\n".to_vec(), stored.head.text());
}

#[test]
fn the_text_of_stored_fields_is_that_of_their_list() {
    let store = store(8 << 20);
    let check = |stored: &Stored| {
        let mut written = b"before".to_vec();
        stored.write_fields(&mut written);
        assert_eq!([b"before", stored.fields().text()].concat(), written);
    };
    for number in 0..3 {
        let of = |it: Field<'static>| {
            let mut fields = FieldList::from_fields(&[it]);
            fields.push("Server", "origin of all the pages here");
            fields.push("Content-Type", "text/html");
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n";
            let own = ReadyHead::passing(&[&head[..], b"X-Own: 1\r\n"].concat());
            let whole = ReadyHead::passing(&[b"HTTP/1.1 200 OK\r\n", fields.text(), &head[17..]].concat());
            [own, whole].map(|it| Stored::new(fresh(text("page")).meta, it, fields.clone(), text("page")))
        };
        let etag = format!("\"{number}\"").leak();
        for field in [
            Field { name: "ETag", value: etag.as_bytes() },
            Field { name: "Content-Length", value: b"4" },
            Field { name: "Content-Lengths", value: b"" },
        ] {
            for stored in of(field) {
                check(&stored);
                check(&store.ram_form(stored));
            }
        }
    }
}

#[test]
fn facts_variants_marks_and_uses_are_kept() {
    let before = store(8 << 20);
    let language = |value| [Field { name: "X-Language", value }];
    for value in [&b"da"[..], b"en"] {
        let mut it = crate::sample::owned(varied(&["x-language"], &language(value), text("one")));
        it.meta.response_time = clock::wall();
        it.meta.stale_while_revalidate = 9;
        put(&before, "http://h/v", it);
    }
    let plan = plan();
    let trailers = FieldList::from_fields(&[Field { name: "X-Sum", value: b"1" }]);
    let mut it = fresh(text("tagged")).with(Box::default(), Some(trailers), tagged("t"));
    // A head without a field that the route hides.
    it.set_head(ReadyHead::new(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n"), it.fields());
    it.encodings = Some(Encodings::new(plan));
    put(&before, "http://h/t", it);
    for _ in 0..3 {
        found(&before, "http://h/t");
    }
    before.note_hit(before.hash(b"http://h/t"), b"http://h/t");

    let after = restored(&written(&before));
    let Lookup::Entry(entry) = after.lookup(after.hash(b"http://h/v"), b"http://h/v", 0) else { panic!() };
    let languages: Vec<_> = entry.variants.iter().map(|it| it.variant().to_vec()).collect();
    let Lookup::Entry(old) = before.lookup(before.hash(b"http://h/v"), b"http://h/v", 0) else { panic!() };
    assert_eq!(old.variants.iter().map(|it| it.variant().to_vec()).collect::<Vec<_>>(), languages);
    assert_eq!(9, entry.variants[0].meta.stale_while_revalidate);
    let (stored, old) = (found(&after, "http://h/t").unwrap(), found(&before, "http://h/t").unwrap());
    assert_eq!(old.meta, stored.meta);
    assert_eq!((old.trailers(), old.tags()), (stored.trailers(), stored.tags()));
    assert_eq!(old.head.text(), stored.head.text());
    assert_eq!(old.fields(), stored.fields());
    assert_eq!(Some(plan), stored.encodings.as_ref().map(|it| it.plan));
    let Lookup::Entry(entry) = after.lookup(after.hash(b"http://h/t"), b"http://h/t", 0) else { panic!() };
    assert_eq!((1, MOST_USES), (entry.hits(), entry.uses.load(Relaxed)));
    purge(&after, PurgeScope::Tag("t".into()), Strength::Hard);
    assert!(found(&after, "http://h/t").is_none(), "a tag still names its response");
}

fn plan() -> EncodingPlan {
    let compress = Compress {
        codings: CodingPreference::DEFAULT,
        min_size: 0,
        max_size: 1 << 20,
        types: vec!["text/*".to_owned()],
        uncached: false,
    };
    let policy = Policy { compress: Some(compress.into()), ..Policy::default() };
    let fields = [Field { name: "Content-Type", value: b"text/html" }];
    let plan = transcode::plan(200, &fields, Some(100_000), &policy).unwrap();
    assert_eq!(Coding::Identity, plan.own);
    plan
}

#[test]
fn a_purged_response_is_not_restored() {
    for strength in [Strength::Hard, Strength::Soft, Strength::Validate] {
        let scopes = [
            PurgeScope::Url(b"http://h/3"[..].into()),
            PurgeScope::Prefix(b"http://h/3"[..].into()),
            PurgeScope::Tag("three".into()),
        ];
        for scope in scopes {
            let before = pages();
            put(&before, "http://h/3", fresh(text("three")).with_purge_facts(tagged("three")));
            // Not looked up since, so that only the writer applies it.
            purge(&before, scope.clone(), strength);
            let after = restored(&written(&before));
            let (old, new) = (found(&before, "http://h/3"), found(&after, "http://h/3"));
            assert_eq!(
                old.map(|it| it.meta.clone()),
                new.map(|it| it.meta.clone()),
                "{scope:?} {strength:?}"
            );
            assert_eq!(Some(b"page 4".to_vec()), body(&after, "http://h/4"));
            // A later purge of the next process, whose numbers go on.
            purge(&after, PurgeScope::All, Strength::Hard);
            assert!(found(&after, "http://h/4").is_none());
        }
    }
}

#[test]
fn a_purge_before_the_reading_applies_to_the_snapshot() {
    let bytes = written(&pages());
    let after = store(8 << 20);
    // As of a disk tier whose journal has it.
    purge(&after, PurgeScope::Url(b"http://h/3"[..].into()), Strength::Hard);
    after.read_snapshot(&bytes[..], 1, SETTINGS, || false).unwrap();
    assert!(found(&after, "http://h/4").is_some());
    let other = store(8 << 20);
    purge(&other, PurgeScope::All, Strength::Hard);
    purge(&other, PurgeScope::All, Strength::Hard);
    let fault = other.read_snapshot(&bytes[..], 1, SETTINGS, || false).unwrap_err();
    assert!(matches!(fault, SnapshotFault::PurgedSince), "{fault:?}");
}

#[test]
fn useless_responses_are_left_out_of_a_snapshot() {
    let before = store(8 << 20);
    let now = clock::wall();
    let with = |change: fn(&mut Stored, WallTime)| {
        let mut it = fresh(text("x"));
        it.meta.etag = None;
        change(&mut it, now);
        it
    };
    put(&before, "fresh", with(|_, _| {}));
    put(&before, "old", with(|it, now| it.meta.response_time = WallTime(now.0 - 61)));
    put(&before, "ahead", with(|it, now| it.meta.response_time = WallTime(now.0 + 5)));
    put(&before, "validated", with(|it, _| it.meta.no_cache = true));
    let superseded = with(|_, _| {});
    superseded.supersede();
    put(&before, "superseded", superseded);
    let mut bytes = Vec::new();
    let count = before.write_snapshot(&mut bytes, 1, SETTINGS, || false).unwrap();
    assert_eq!((1, 4), (count.responses, count.left_out));
    assert_eq!(1, restored(&bytes).objects());
}

#[test]
fn the_hottest_come_first_and_the_budget_holds() {
    let before = store(64 << 20);
    for number in 0..4000 {
        put(&before, &format!("http://h/{number}"), fresh(StoredBody::on_the_heap(&[vec![1; 4000]])));
    }
    let hot = |number: usize| number % 10 == 7;
    for number in (0..4000).filter(|it| hot(*it)) {
        (0..3).for_each(|_| drop(found(&before, &format!("http://h/{number}"))));
    }
    let bytes = written(&before);
    let after = store(4 << 20);
    let count = after.read_snapshot(&bytes[..], 1, SETTINGS, || false).unwrap();
    assert!(count.responses > 400 && count.responses < 1100, "{count:?}");
    assert!(after.used() <= after.budget(), "{} bytes", after.used());
    assert_eq!(0, after.counters.cache_evictions.get());
    for number in (0..4000).filter(|it| hot(*it)) {
        assert!(found(&after, &format!("http://h/{number}")).is_some(), "{number}");
    }
    let cut = before.write_snapshot(&mut Vec::new(), 1, SETTINGS, || true).unwrap();
    assert_eq!((0, 4000), (cut.responses, cut.left_out));
    let late = store(64 << 20);
    assert_eq!(0, late.read_snapshot(&bytes[..], 1, SETTINGS, || true).unwrap().responses);
}

#[test]
fn no_damage_leaves_a_response_behind() {
    let bytes = written(&pages());
    let check = |bytes: &[u8], what: usize| {
        let store = store(8 << 20);
        let fault = store.read_snapshot(bytes, 1, SETTINGS, || false).unwrap_err();
        assert!(!matches!(fault, SnapshotFault::Failed(_)), "{fault:?} at {what}");
        assert_eq!((0, 0), (store.objects(), store.counters.ram_restored.get()), "{fault:?} at {what}");
    };
    // Every byte of the beginning, and of the first record; then some of the others, and of the end.
    let end = bytes.len() - HEADER;
    for at in (0..450).chain((450..end).step_by(997)).chain((end..bytes.len()).step_by(3)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        check(&damaged, at);
        check(&bytes[..at], at);
    }
    // A record that is missing, or there twice.
    let records = START + FACTS;
    check(&[&bytes[..records], &bytes[bytes.len() - HEADER..]].concat(), 0);
    check(&[&bytes[..records], &bytes[records..], &bytes[records..]].concat()[..bytes.len() + 60], 1);
}

#[test]
fn other_settings_seeds_versions_and_times_are_named() {
    let bytes = written(&pages());
    let check = |bytes: &[u8], seed, settings, expect: &str| {
        let fault = store(8 << 20).read_snapshot(bytes, seed, settings, || false).unwrap_err().sentence();
        assert!(fault.contains(expect), "{fault}");
    };
    check(&bytes, 2, SETTINGS, "a copy is not used");
    check(&bytes, 1, 8, "other settings");
    check(b"anything", 1, SETTINGS, "truncated");
    check(&[b'x'; 200], 1, SETTINGS, "not a snapshot");
    let mut other = bytes.clone();
    other[8] = 3;
    check(&other, 1, SETTINGS, "version 3 of the format, and this larder reads versions 1 and 2");
    let mut ahead = bytes;
    let facts = SnapshotFacts { written: WallTime(clock::wall().0 + 60), last: 0, settings: SETTINGS };
    ahead[START..START + FACTS].copy_from_slice(&facts.write(1));
    check(&ahead, 1, SETTINGS, "the clock went back");
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ram");
    (folder, path)
}

fn saved(path: &Path) {
    pages().save_snapshot(path, SETTINGS, || false).unwrap();
}

fn refused(path: &Path) -> String {
    take(path).err().expect("it is not used")
}

#[test]
fn a_file_is_used_once() {
    let (folder, path) = folder();
    saved(&path);
    assert_eq!(0o600, std::fs::metadata(&path).unwrap().mode() & 0o777);
    let taken = take(&path).unwrap().unwrap();
    assert_eq!(0, std::fs::read_dir(folder.path()).unwrap().count(), "it is gone before it is read");
    let store = store(8 << 20);
    let count = store.load_snapshot(&taken, SETTINGS, || false).unwrap();
    assert_eq!((21, 0, 21), (count.responses, count.left_out, taken.responses));
    assert!(take(&path).unwrap().is_none());
    saved(&path);
    discard(&path);
    assert!(take(&path).unwrap().is_none());
}

#[test]
fn a_file_of_this_user_that_is_damaged_at_its_beginning_is_renamed_at_the_next_stop() {
    use std::os::unix::fs::FileExt as _;
    let (_folder, path) = folder();
    for change in [
        |file: &std::fs::File| file.write_all_at(b"X", 0).unwrap(),
        |file: &std::fs::File| file.set_len(START as u64 - 1).unwrap(),
        |file: &std::fs::File| file.set_len(0).unwrap(),
    ] {
        saved(&path);
        change(&std::fs::OpenOptions::new().write(true).open(&path).unwrap());
        assert!(refused(&path).contains("the next stop renames it"));
        let before = std::fs::read(&path).unwrap();
        saved(&path);
        assert_eq!(before, std::fs::read(path.with_extension("damaged")).unwrap(), "nothing is lost");
        assert_eq!(21, take(&path).unwrap().unwrap().responses);
    }
    // A second name, or rights of others: it may be of another program.
    saved(&path);
    std::fs::write(&path, "mine").unwrap();
    for mode in [0o640, 0o400] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert!(refused(&path).contains("remove it"));
        assert!(pages().save_snapshot(&path, SETTINGS, || false).is_err(), "{mode:o}");
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::hard_link(&path, path.with_extension("second")).unwrap();
    let why = pages().save_snapshot(&path, SETTINGS, || false).unwrap_err().to_string();
    assert!(why.contains("remove it"), "{why}");
    assert_eq!("mine", std::fs::read_to_string(&path).unwrap());
}

#[test]
fn foreign_and_damaged_files_are_not_read_as_snapshots() {
    let (folder, path) = folder();
    std::fs::write(
        &path,
        "precious, and longer than a beginning of 64 bytes, since it is a text of many words",
    )
    .unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(refused(&path).contains("not a snapshot"));
    discard(&path);
    assert!(pages().save_snapshot(&path, SETTINGS, || false).is_err());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("precious"), "another's file stays");
    std::fs::remove_file(&path).unwrap();

    saved(&path);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(refused(&path).contains("other users could change it"));
    assert!(take(&path).unwrap().is_none(), "one that is refused is not used later either");

    saved(&path);
    let (copy, bytes) = (folder.path().join("copy"), std::fs::read(&path).unwrap());
    std::fs::write(&copy, &bytes).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(refused(&copy).contains("a copy is not used"));
    for length in [bytes.len() - 1, bytes.len() / 2, START, bytes.len() + 1] {
        saved(&path);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length as u64).unwrap();
        assert!(refused(&path).contains("truncated or damaged"), "{length}");
    }

    saved(&path);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(refused(&link).contains("cannot be opened"));
}

/// A device that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_device_ends_the_writing() {
    let (before, length) = (pages(), written(&pages()).len());
    for room in (0..length).step_by(1000) {
        let error = before.write_snapshot(Full(room), 1, SETTINGS, || false).unwrap_err();
        assert_eq!(io::ErrorKind::StorageFull, error.kind());
    }
    let missing = folder().1.join("no/ram");
    assert!(before.save_snapshot(&missing, SETTINGS, || false).is_err());
    assert_eq!(Some(b"page 7".to_vec()), body(&before, "http://h/7"));
}

#[test]
fn marks_without_tags_are_plain() {
    let before = store(8 << 20);
    put(&before, "k", fresh(text("x")).with_purge_facts(PurgeFacts::default()));
    assert!(found(&restored(&written(&before)), "k").unwrap().tags().is_empty());
}
