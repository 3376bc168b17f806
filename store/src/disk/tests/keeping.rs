//! Written records are found, in this process and the next; removed ones are not.

use super::*;
use crate::entry::StoredArc;
use larder_wire::ready_head::ReadyHead;

const ENCODED: [Field<'static>; 1] = [Field { name: "accept-encoding", value: b"gzip" }];
const PLAIN: [Field<'static>; 1] = [Field { name: "accept-encoding", value: b"identity" }];

#[test]
fn small_bodies_come_back_on_the_heap() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    for _ in 0..2 {
        let stored = tier.read("a", &[]).unwrap();
        assert!(matches!(&stored.body, StoredBody::Heap(it) if **it == *b"one"));
        tier.restart();
    }
}

#[test]
fn large_bodies_come_back_where_they_are() {
    let mut tier = Tier::new();
    tier.put("a", blob(1, 20_000));
    for _ in 0..2 {
        let stored = tier.read("a", &[]).unwrap();
        assert!(matches!(&stored.body, StoredBody::Disk(_)));
        assert_eq!(noise(1, 20_000), contents(&stored.body));
        tier.restart();
    }
}

/// The event loop reads nothing of a large body: without readers there is no copy.
#[test]
fn a_copy_for_ram_is_made_by_the_readers() {
    let store = sample::store(8 << 20);
    let mut tier = Tier::new();
    tier.put("a", blob(1, 20_000));
    for (readers, copied) in [(2, true), (0, false)] {
        let StoredBody::Disk(slice) = tier.read("a", &[]).unwrap().body else { panic!("it is large") };
        tier.close();
        tier.settings.readers = readers;
        tier.open().unwrap();
        let body = tier.runtime.block_on(tier.disk().copy_in(&store, &slice));
        let expected = copied.then(|| noise(1, 20_000));
        assert_eq!(expected, body.map(|it| contents(&it)), "{readers} readers");
    }
}

#[test]
fn a_response_is_restored_with_all_its_parts() {
    let mut tier = Tier::new();
    let mut meta = sample::meta(&["accept-encoding"]);
    meta.etag = Some(b"\"x\""[..].into());
    meta.stale_if_error = 7;
    let mut variant = Vec::new();
    vary::write_key(meta.vary(), &ENCODED, &mut variant);
    let fields = FieldList::from_fields(&[
        Field { name: "ETag", value: b"\"x\"" },
        Field { name: "X-Two", value: b"a" },
        Field { name: "X-Two", value: b"\xff" },
    ]);
    let position = crate::purges::Position { log: 5, entry: 6 };
    let epoch = PurgeEpoch { seq: 0, log: Positions::new(&[position]) };
    let head =
        ReadyHead::new(b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nX-Two: a\r\nX-Two: \xff\r\nContent-Length: 2\r\n");
    let trailers = FieldList::from_fields(&[Field { name: "X-Sum", value: b"1" }]);
    let purge_facts = PurgeFacts { tags: [1, 9][..].into(), epoch };
    let stored = Stored::new(meta, head, fields, sample::text("hi"));
    let stored = StoredArc::new(stored.with(variant.into(), Some(trailers), purge_facts));
    tier.put("http://a/", stored.clone());
    tier.restart();
    let found = tier.read("http://a/", &ENCODED).unwrap();
    assert_eq!(stored.meta, found.meta);
    assert_eq!(stored.head.text(), found.head.text());
    assert_eq!(stored.fields().text(), found.fields().text());
    assert_eq!(stored.trailers().unwrap().text(), found.trailers().unwrap().text());
    assert_eq!(stored.variant(), found.variant());
    assert_eq!(stored.purge_facts(), found.purge_facts());
}

#[test]
fn the_birth_comes_back() {
    let mut tier = Tier::new();
    let stored = sample::plain(sample::text("x"));
    let stored = sample::owned(stored);
    let epoch = PurgeEpoch { seq: 41, ..PurgeEpoch::default() };
    tier.put("a", StoredArc::new(stored.with_purge_facts(PurgeFacts { epoch, ..PurgeFacts::default() })));
    assert_eq!(41, tier.read("a", &[]).unwrap().epoch);
    tier.restart();
    assert_eq!(41, tier.read("a", &[]).unwrap().epoch);
}

#[test]
fn a_newer_response_takes_the_place_of_an_older_one() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    tier.text("a", "two");
    for _ in 0..2 {
        assert_eq!(Some(b"two".to_vec()), tier.get("a"));
        assert_eq!(1, tier.disk().objects());
        tier.restart();
    }
}

#[test]
fn a_request_selects_its_variant() {
    let mut tier = Tier::new();
    for (request, body) in [(&ENCODED, "zipped"), (&PLAIN, "plain")] {
        tier.put("a", sample::varied(&["accept-encoding"], request, sample::text(body)));
    }
    for _ in 0..2 {
        assert_eq!(b"zipped"[..], contents(&tier.read("a", &ENCODED).unwrap().body));
        assert_eq!(b"plain"[..], contents(&tier.read("a", &PLAIN).unwrap().body));
        assert!(tier.read("a", &[]).is_none());
        tier.restart();
    }
}

#[test]
fn the_newest_that_matches_is_selected() {
    let mut tier = Tier::new();
    tier.put("a", sample::varied(&["accept-encoding"], &ENCODED, sample::text("old")));
    tier.put("a", sample::varied(&["accept-language"], &[], sample::text("new")));
    tier.put("a", variant("de", "other"));
    for _ in 0..2 {
        assert_eq!(b"new"[..], contents(&tier.read("a", &ENCODED).unwrap().body));
        tier.restart();
    }
}

#[test]
fn a_response_without_vary_replaces_all_variants() {
    let mut tier = Tier::new();
    tier.put("a", sample::varied(&["accept-encoding"], &ENCODED, sample::text("zipped")));
    tier.text("a", "all");
    for _ in 0..2 {
        assert_eq!(b"all"[..], contents(&tier.read("a", &ENCODED).unwrap().body));
        assert_eq!(1, tier.disk().objects());
        tier.restart();
    }
}

#[test]
fn a_removed_response_stays_removed_after_a_restart() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    tier.text("b", "two");
    tier.disk().remove(b"a");
    for _ in 0..2 {
        assert_eq!(None, tier.get("a"));
        assert!(!tier.disk().knows(b"a"));
        assert_eq!(Some(b"two".to_vec()), tier.get("b"));
        tier.restart();
    }
}

#[test]
fn a_queued_response_is_not_kept_if_its_key_is_removed() {
    let mut tier = Tier::new();
    for _ in 0..200 {
        tier.disk().write(b"a", &sample::plain(sample::text("one")));
        tier.disk().remove(b"a");
        assert_eq!(None, tier.get("a"));
    }
    tier.restart();
    assert_eq!(None, tier.get("a"));
}

#[test]
fn a_response_written_after_a_removal_is_kept() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    tier.disk().remove(b"a");
    tier.text("a", "two");
    for _ in 0..2 {
        assert_eq!(Some(b"two".to_vec()), tier.get("a"));
        tier.restart();
    }
}

#[test]
fn a_part_is_not_written() {
    let tier = Tier::new();
    let stored = crate::sample::owned(sample::plain(sample::text("part")));
    let mut meta = stored.meta.clone();
    meta.set_partial(Some(larder_semantics::range::HeldRange { first: 0, last: 3, complete: Some(9) }));
    tier.put("a", StoredArc::new(Stored { meta, ..stored }));
    assert_eq!(None, tier.get("a"));
    assert_eq!(1, tier.counters.disk_skipped.get());
}

#[test]
fn a_body_of_another_segment_is_written_again() {
    let mut tier = Tier::new();
    tier.put("a", blob(1, 30_000));
    let found = tier.read("a", &[]).unwrap();
    tier.put("b", StoredArc::new(found));
    for _ in 0..2 {
        assert_eq!(Some(noise(1, 30_000)), tier.get("b"));
        tier.restart();
    }
}

/// The tier as another process would open it, were this one killed now.
fn after_a_kill(tier: &Tier) -> Tier {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tier");
    std::fs::create_dir(&path).unwrap();
    for it in std::fs::read_dir(tier.path()).unwrap() {
        let it = it.unwrap();
        std::fs::copy(it.path(), path.join(it.file_name())).unwrap();
    }
    Tier::within(directory, 4 << 20, 64 << 10)
}

#[test]
fn a_removal_is_written_before_the_queued_writes() {
    let tier = Tier::new();
    tier.text("a", "old");
    tier.calls.faults.let_in(Some(0));
    for it in 0..9 {
        tier.disk().write(format!("b{it}").as_bytes(), &blob(it, 5000));
    }
    let removed = tier.disk().remove(b"a");
    // The write that has begun, and the removal.
    tier.calls.faults.let_in(Some(2));
    removed.wait().unwrap();
    assert_eq!(None, after_a_kill(&tier).get("a"));
    tier.calls.faults.let_in(None);
    tier.disk().flush().wait().unwrap();
    assert_eq!(Some(noise(8, 5000)), tier.get("b8"), "what waited is written all the same");
}

#[test]
fn a_queued_response_is_not_written_if_its_key_is_removed() {
    let tier = Tier::new();
    tier.text("a", "there");
    tier.calls.faults.let_in(Some(0));
    tier.disk().write(b"b", &blob(1, 5000));
    tier.disk().write(b"c", &blob(2, 5000));
    let removed = tier.disk().remove(b"c");
    tier.calls.faults.let_in(None);
    removed.wait().unwrap();
    tier.disk().flush().wait().unwrap();
    assert_eq!(None, tier.get("c"));
    assert_eq!(None, after_a_kill(&tier).get("c"));
}

fn variant(language: &str, body: &str) -> StoredArc {
    let request = [Field { name: "Accept-Language", value: language.as_bytes() }];
    sample::varied(&["accept-language"], &request, sample::text(body))
}

fn selected(tier: &Tier, language: &str) -> Option<Vec<u8>> {
    let request = [Field { name: "Accept-Language", value: language.as_bytes() }];
    tier.read("a", &request).map(|it| contents(&it.body))
}

#[test]
fn a_displaced_variant_stays_removed_and_other_variants_stay() {
    let mut tier = Tier::new();
    tier.put("a", variant("de", "old"));
    tier.put("a", variant("fr", "french"));
    let new = variant("de", "new");
    tier.disk().displace(b"a", &new).unwrap().wait().unwrap();
    for _ in 0..2 {
        assert_eq!((None, Some(b"french".to_vec())), (selected(&tier, "de"), selected(&tier, "fr")));
        tier.restart();
    }
    assert!(tier.disk().displace(b"a", &new).is_none(), "there is nothing to displace");
    tier.put("a", new);
    tier.restart();
    assert_eq!(
        (Some(b"new".to_vec()), Some(b"french".to_vec())),
        (selected(&tier, "de"), selected(&tier, "fr"))
    );
}

#[test]
fn other_variants_that_wait_are_written() {
    let tier = Tier::new();
    let add = |new: StoredArc| {
        let displaced = tier.disk().displace(b"a", &new);
        tier.disk().write(b"a", &new);
        displaced
    };
    let selected = || ["de", "fr", "it"].map(|it| selected(&tier, it));
    tier.calls.faults.let_in(Some(0));
    for (language, body) in [("de", "old"), ("fr", "french"), ("de", "new")] {
        let _ = add(variant(language, body));
    }
    tier.calls.faults.let_in(None);
    tier.disk().flush().wait().unwrap();
    assert_eq!([Some(b"new".to_vec()), Some(b"french".to_vec()), None], selected());
    // Those that vary on other names are replaced, although none of them is in the index yet.
    tier.calls.faults.let_in(Some(0));
    tier.disk().write(b"b", &blob(1, 5000));
    let other = sample::varied(&["accept-encoding"], &PLAIN, sample::text("other"));
    let _ = (add(variant("it", "italian")), add(other), add(variant("fr", "last")));
    tier.calls.faults.let_in(None);
    tier.disk().flush().wait().unwrap();
    assert_eq!([None, Some(b"last".to_vec()), None], selected());
    assert_eq!(None, tier.get("a"), "nor is the one that varies on something else");
}

#[test]
fn a_variant_that_varies_on_other_fields_is_displaced() {
    let page = |names: &[&str], body| sample::varied(names, &PLAIN, sample::text(body));
    for (what, old) in [("nothing", page(&[], "old")), ("another field", page(&["accept-encoding"], "old"))] {
        for is_written in [true, false] {
            let mut tier = Tier::new();
            tier.put("a", old.clone());
            let new = variant("de", "new");
            match is_written {
                true => tier.put("a", new),
                false => tier.disk().displace(b"a", &new).unwrap().wait().unwrap(),
            }
            for _ in 0..2 {
                assert_eq!(None, selected(&tier, "fr"), "{what}");
                assert_eq!(is_written, selected(&tier, "de") == Some(b"new".to_vec()), "{what}");
                tier.restart();
            }
            assert!(!tier.disk().lacks(b"a", &old) || !is_written, "{what}: it is not offered again");
        }
    }
}

#[test]
fn a_response_that_is_not_written_still_supersedes_the_old_one() {
    let mut tier = Tier::new();
    tier.settings.min_ttl = 10;
    tier.restart();
    let brief = || {
        let mut stored = crate::sample::owned(sample::plain(sample::text("brief")));
        stored.meta.lifetime.seconds = 1;
        crate::ram::StoredArc::new(stored)
    };
    for (what, new) in [("brief", brief()), ("larger than a segment", blob(1, 100_000))] {
        tier.text("a", "old");
        assert!(tier.get("a").is_some());
        tier.put("a", new);
        assert_eq!(None, tier.get("a"), "{what}");
        tier.restart();
        assert_eq!(None, tier.get("a"), "{what}");
    }
    // Nor is what was queued when the queue was full, or when its neighbour was removed.
    tier.text("a", "old");
    assert!(tier.disk().supersede(b"nothing").is_none(), "where nothing is nothing is written");
    tier.disk().supersede(b"a").unwrap().wait().unwrap();
    tier.restart();
    assert_eq!(None, tier.get("a"));
}

#[test]
fn while_the_device_fails_nothing_old_is_kept() {
    let mut tier = Tier::new();
    tier.text("a", "old");
    tier.calls.faults.plan(Some(Fail { first: 1, count: u64::MAX, errno: Errno::IO }));
    tier.put("a", sample::plain(sample::text("new")));
    tier.calls.faults.plan(None);
    assert_ne!(Some(b"old".to_vec()), tier.get("a"));
    tier.heal();
    tier.restart();
    assert_ne!(Some(b"old".to_vec()), tier.get("a"));
}
