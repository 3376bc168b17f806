use super::*;
use crate::encodings::NotMade;
use crate::entry::Stored;
use crate::ram::{KeyHash, Lookup};
use crate::sample::{store, text};
use larder_semantics::compress::{CodingPreference, Compress};
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_semantics::transcode::{self, EncodingPlan};

fn plan() -> EncodingPlan {
    let compress = Compress {
        codings: CodingPreference::DEFAULT,
        min_size: 0,
        max_size: 1 << 20,
        types: vec!["text/*".to_owned()],
        uncached: true,
    };
    let policy = Policy { compress: Some(Arc::new(compress)), ..Policy::default() };
    transcode::plan(200, &[Field { name: "Content-Type", value: b"text/html" }], None, &policy).unwrap()
}

fn key(number: usize) -> (KeyHash, Vec<u8>) {
    (KeyHash((number as u128) << 64 | number as u128), format!("http://a/{number}").into_bytes())
}

/// Puts a page of `size` bytes into the store; returns its encodings.
fn page(store: &Store, number: usize, size: usize) -> Arc<Encodings> {
    let encodings = Encodings::new(plan());
    let page = crate::sample::stored(text(&"a".repeat(size)));
    let stored = Stored { encodings: Some(encodings.clone()), ..page };
    let (hash, key) = key(number);
    store.insert(hash, &key, crate::ram::StoredArc::new(stored), 8).unwrap();
    encodings
}

fn keep(store: &Store, encodings: &Arc<Encodings>, coding: Coding, size: usize) {
    assert!(encodings.claim(coding));
    store.keep_encoding(encodings, coding, ReadyHead::new(b""), FieldList::new(), vec![0; size]).unwrap();
}

fn is_stored(store: &Store, number: usize) -> bool {
    let (hash, key) = key(number);
    matches!(store.lookup(hash, &key, 0), Lookup::Entry(_))
}

#[test]
fn forms_count_against_the_budget_while_they_are_there() {
    for size in [5000, 100_000] {
        let store = store(8 << 20);
        let encodings = page(&store, 0, 1000);
        let before = store.used();
        keep(&store, &encodings, Coding::Gzip, size);
        assert!(store.used() >= before + size as u64, "{size}");
        let held = encodings.get(Coding::Gzip).unwrap();
        assert!(store.shed_encodings(1));
        assert_eq!(Codings::NONE, encodings.made());
        assert!(store.used() > before, "somebody is being sent it");
        drop(held);
        assert_eq!(before, store.used(), "{size}");
    }
}

#[test]
fn forms_go_before_any_response_does() {
    let store = store(2 << 20);
    let encodings: Vec<_> = (0..40).map(|it| page(&store, it, 10_000)).collect();
    encodings.iter().for_each(|it| keep(&store, it, Coding::Gzip, 12_000));
    let made = || encodings.iter().filter(|it| it.made().has(Coding::Gzip)).count();
    assert_eq!(40, made());
    let mut next = 40;
    while made() > 0 {
        page(&store, next, 10_000);
        next += 1;
        assert!(next < 1000, "room was found elsewhere");
        assert_eq!(0, store.counters.cache_evictions.get());
    }
    assert_eq!(40, store.counters.coding_evictions.get());
    assert!((0..next).all(|it| is_stored(&store, it)));
    while store.counters.cache_evictions.get() == 0 {
        page(&store, next, 10_000);
        next += 1;
        assert!(next < 2000, "there is an end to it");
    }
}

#[test]
fn used_encodings_stay_when_other_encodings_are_dropped() {
    let store = store(2 << 20);
    let encodings: Vec<_> = (0..20).map(|it| page(&store, it, 1000)).collect();
    encodings.iter().for_each(|it| keep(&store, it, Coding::Zstd, 500));
    encodings[3].get(Coding::Zstd).unwrap().note_use();
    assert!(store.shed_encodings(u64::MAX));
    let left: Vec<_> = (0..20).filter(|it| encodings[*it].made().has(Coding::Zstd)).collect();
    assert_eq!(vec![3], left);
    assert!(store.shed_encodings(u64::MAX), "a use counts once");
    assert!(!store.shed_encodings(u64::MAX));
}

#[test]
fn a_form_is_claimed_by_one_and_made_once() {
    let store = store(2 << 20);
    let encodings = page(&store, 0, 1000);
    assert!(encodings.claim(Coding::Gzip) && encodings.claim(Coding::Zstd));
    assert!(!encodings.claim(Coding::Gzip));
    encodings.not_made(Coding::Gzip, NotMade::Later);
    assert!(encodings.claim(Coding::Gzip), "it may be tried again");
    encodings.not_made(Coding::Gzip, NotMade::Never);
    assert!(!encodings.claim(Coding::Gzip) && encodings.refused().has(Coding::Gzip));
    store
        .keep_encoding(&encodings, Coding::Zstd, ReadyHead::new(b""), FieldList::new(), vec![0; 500])
        .unwrap();
    assert!(!encodings.claim(Coding::Zstd), "it is there");
    assert!(store.shed_encodings(1));
    assert!(encodings.claim(Coding::Zstd), "it was taken out");
}

#[test]
fn a_waiting_request_is_woken_when_its_encoding_is_made() {
    let store = store(2 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let encodings = page(&store, 0, 1000);
    runtime.block_on(encodings.wait_settled(Coding::Gzip)); // Nobody has claimed it.
    assert!(encodings.claim(Coding::Gzip));
    let thread = {
        let (store, encodings) = (store.clone(), encodings.clone());
        std::thread::spawn(move || {
            store
                .keep_encoding(&encodings, Coding::Gzip, ReadyHead::new(b""), FieldList::new(), vec![0; 500])
                .unwrap();
        })
    };
    runtime.block_on(encodings.wait_settled(Coding::Gzip));
    assert!(encodings.get(Coding::Gzip).is_some());
    thread.join().unwrap();
}

#[test]
fn a_freshened_response_keeps_its_encodings() {
    let store = store(2 << 20);
    let (old, new) = (page(&store, 0, 1000), page(&store, 1, 1000));
    keep(&store, &old, Coding::Gzip, 500);
    assert!(old.claim(Coding::Brotli));
    old.not_made(Coding::Brotli, NotMade::Never);
    store.carry_encodings(&old, &new, |_, body| {
        (ReadyHead::new(body.len().to_string().as_bytes()), FieldList::new())
    });
    let encoding = new.get(Coding::Gzip).unwrap();
    assert_eq!((&b"500"[..], 500), (&encoding.head.text()[..], encoding.body.len()));
    assert!(new.refused().has(Coding::Brotli) && !new.claim(Coding::Brotli));
}

#[test]
fn a_form_that_has_no_room_is_not_kept() {
    let store = store(1 << 20);
    let encodings = page(&store, 0, 1000);
    assert!(encodings.claim(Coding::Gzip));
    let kept = store.keep_encoding(
        &encodings,
        Coding::Gzip,
        ReadyHead::new(b""),
        FieldList::new(),
        vec![0; 1 << 20],
    );
    assert_eq!(Err(OverBudget), kept);
    assert!(encodings.claim(Coding::Gzip), "it may be tried again");
}
