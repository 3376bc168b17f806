//! The index against a plain map, variants, removal, and the budget's arithmetic.

use super::*;
use crate::entry::StoredArc;
use crate::purges::{PurgeRule, PurgeScope, Strength};
use crate::sample::{plain, read, store, text, varied};
use larder_semantics::field::Field;
use proptest::prelude::*;
use std::collections::HashMap;

fn entry(store: &Store, key: &[u8]) -> Option<Entry> {
    match store.lookup(store.hash(key), key, 0) {
        Lookup::Entry(entry) => Some(entry),
        Lookup::HitForMiss | Lookup::Nothing => None,
    }
}

fn body_of(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    entry(store, key).map(|it| read(&it.variants[0].body))
}

fn put(store: &Store, key: &[u8], stored: StoredArc) {
    store.insert(store.hash(key), key, stored, 4).unwrap();
}

fn language(value: &str) -> [Field<'_>; 1] {
    [Field { name: "X-Language", value: value.as_bytes() }]
}

#[test]
fn a_stored_response_is_found_until_it_is_removed() {
    let store = store(1 << 20);
    put(&store, b"k", plain(text("one")));
    store.remove(store.hash(b"k"), b"k");
    let empty = store.used(); // The tables have their first size.
    put(&store, b"k", plain(text("one")));
    put(&store, b"k", plain(text("two")));
    assert_eq!(Some(b"two".to_vec()), body_of(&store, b"k"));
    assert_eq!(None, body_of(&store, b"other"));
    assert!(store.remove(store.hash(b"k"), b"k"));
    assert!(!store.remove(store.hash(b"k"), b"k"));
    assert_eq!(None, body_of(&store, b"k"));
    assert_eq!(empty, store.used(), "everything was given back");
}

#[test]
fn a_hash_alone_finds_nothing() {
    let store = store(1 << 20);
    let hash = store.hash(b"mine");
    put(&store, b"mine", plain(text("mine")));
    assert!(matches!(store.lookup(hash, b"not mine", 0), Lookup::Nothing));
    assert!(!store.remove(hash, b"not mine"));
    let stored = entry(&store, b"mine").unwrap().variants[0].clone();
    assert!(!store.replace(hash, b"not mine", &stored, plain(text("x"))));
    store.insert(hash, b"not mine", plain(text("not mine")), 4).unwrap();
    assert!(matches!(store.lookup(hash, b"mine", 0), Lookup::Nothing), "the newer key has the place");
    assert!(matches!(store.lookup(hash, b"not mine", 0), Lookup::Entry(_)));
}

#[test]
fn keys_hash_differently_in_each_store() {
    let (one, other) = (store(1 << 20), store(1 << 20));
    assert_ne!(one.hash(b"key"), other.hash(b"key"));
    assert_eq!(one.hash(b"key"), one.hash(b"key"));
}

#[test]
fn a_request_selects_the_newest_variant_that_matches() {
    let store = store(1 << 20);
    put(&store, b"k", varied(&["x-language"], &language("da"), text("hej")));
    put(&store, b"k", varied(&["x-language"], &language("en"), text("hello")));
    let entry = entry(&store, b"k").unwrap();
    let mut scratch = Vec::new();
    let mut select = |value| entry.select(&language(value), &mut scratch).map(|it| read(&it.body));
    assert_eq!(Some(b"hej".to_vec()), select("da"));
    assert_eq!(Some(b"hello".to_vec()), select("en"));
    assert_eq!(None, select("de"));
    assert_eq!(["x-language"], entry.vary().iter().map(|it| &**it).collect::<Vec<_>>()[..]);
}

#[test]
fn a_response_without_vary_is_the_only_variant() {
    let store = store(1 << 20);
    put(&store, b"k", varied(&["x-language"], &language("da"), text("hej")));
    put(&store, b"k", plain(text("for all")));
    let entry = entry(&store, b"k").unwrap();
    assert_eq!(1, entry.variants.len());
    assert_eq!(b"for all".to_vec(), read(&entry.select(&language("da"), &mut Vec::new()).unwrap().body));
}

#[test]
fn a_variant_with_other_vary_fields_is_not_selected_again() {
    let both =
        |one, other| [Field { name: "x-language", value: one }, Field { name: "x-form", value: other }];
    let (da, en) = (both(b"da", b"1"), both(b"en", b"1"));
    let of = |names: &[&str], body| varied(names, &da, text(body));
    for old in [plain(text("old")), of(&["x-form"], "old"), of(&["x-form", "x-language"], "old")] {
        let store = store(1 << 20);
        put(&store, b"k", old);
        put(&store, b"k", of(&["x-language"], "new"));
        let entry = entry(&store, b"k").unwrap();
        assert_eq!(1, entry.variants.len());
        assert!(entry.select(&en, &mut Vec::new()).is_none());
    }
    // Another client's, which the request that was answered does not select.
    let store = store(1 << 20);
    put(&store, b"k", varied(&["x-form", "x-language"], &en, text("english")));
    put(&store, b"k", of(&["x-language"], "danish"));
    let entry = entry(&store, b"k").unwrap();
    assert_eq!(Some(b"english".to_vec()), entry.select(&en, &mut Vec::new()).map(|it| read(&it.body)));
}

#[test]
fn a_thousand_hostile_variants_cost_one_entry_and_spare_those_in_use() {
    let store = store(4 << 20);
    put(&store, b"sibling", plain(text("stays")));
    put(&store, b"k", varied(&["x-language"], &language("da"), text("hej")));
    for n in 0..1000 {
        let value = format!("hostile-{n}");
        put(&store, b"k", varied(&["x-language"], &language(&value), text("x")));
        let entry = entry(&store, b"k").unwrap();
        assert!(entry.variants.len() <= 4);
        assert!(entry.select(&language("da"), &mut Vec::new()).is_some(), "in use, at {n}");
    }
    assert_eq!(1000 - 3, store.counters.cache_variants_full.get());
    assert!(body_of(&store, b"sibling").is_some());
}

#[test]
fn freshening_replaces_only_an_unchanged_response() {
    let store = store(1 << 20);
    let hash = store.hash(b"k");
    let old = plain(text("old"));
    put(&store, b"k", old.clone());
    assert!(store.replace(hash, b"k", &old, plain(text("new"))));
    assert!(!store.replace(hash, b"k", &old, plain(text("late"))));
    assert_eq!(Some(b"new".to_vec()), body_of(&store, b"k"));
    store.remove(hash, b"k");
    assert!(!store.replace(hash, b"k", &old, plain(text("too late"))));
    assert_eq!(None, body_of(&store, b"k"));
}

#[test]
fn misses_are_remembered_for_a_while_and_within_bounds() {
    let store = store(1 << 20);
    let empty = store.used();
    let hash = store.hash(b"k");
    store.remember_miss(hash, 0, 100);
    assert!(matches!(store.lookup(hash, b"k", 99), Lookup::HitForMiss));
    assert!(matches!(store.lookup(hash, b"k", 100), Lookup::Nothing));
    put(&store, b"k", plain(text("shared after all")));
    assert!(matches!(store.lookup(hash, b"k", 99), Lookup::Entry(_)));
    store.remove(hash, b"k");
    assert!(matches!(store.lookup(hash, b"k", 99), Lookup::Nothing));
    for n in 0..100_000u32 {
        store.remember_miss(store.hash(&n.to_ne_bytes()), 0, 100);
    }
    // The table that had one keeps its room.
    assert!(store.used() - empty <= 64 * 16 * MISS_COST + 512);
    let last = store.hash(&99_999u32.to_ne_bytes());
    assert!(matches!(store.lookup(last, b"", 99), Lookup::HitForMiss));
}

#[test]
fn a_purge_of_a_key_ends_its_hit_for_miss() {
    let url = |it: &str| PurgeScope::Url(it.as_bytes().into());
    let prefix = |it: &str| PurgeScope::Prefix(it.as_bytes().into());
    for (scope, ends) in [
        (url("http://a/x"), true),
        (url("http://a/y"), false),
        (prefix("http://a/"), true),
        (prefix("http://b/"), false),
        (PurgeScope::Tag("t".into()), false),
        (PurgeScope::All, true),
    ] {
        let store = store(1 << 20);
        let key = b"http://a/x";
        let (hash, name) = (store.hash(key), format!("{scope:?}"));
        store.remember_miss(hash, store.epoch().seq, 100);
        store.purge(PurgeRule { scope, strength: Strength::Soft, positions: Vec::new() });
        let known = || matches!(store.lookup(hash, key, 99), Lookup::HitForMiss);
        assert_eq!(!ends, known(), "{name}");
        // What was asked for before it says nothing either; what was asked for since does.
        store.remember_miss(hash, 0, 100);
        assert_eq!(!ends, known(), "{name}");
        store.remember_miss(hash, store.epoch().seq, 100);
        assert!(known(), "{name}");
    }
}

#[test]
fn the_budget_holds_and_the_rest_is_evicted() {
    let budget = 1 << 20;
    let store = store(budget);
    for n in 0..5_000u32 {
        put(&store, &n.to_ne_bytes(), plain(text(&"x".repeat(n as usize % 3000))));
        assert!(store.used() <= budget);
    }
    assert!(store.used() > budget * 9 / 10, "and is used: {}", store.used());
    assert!(store.counters.cache_evictions.get() > 3_000);
    let kept = (0..5_000u32).filter(|it| body_of(&store, &it.to_ne_bytes()).is_some()).count();
    assert_eq!(kept, store.eviction.lock().policy.len());
}

#[test]
fn one_object_does_not_take_the_whole_store() {
    let store = store(1 << 20);
    assert!(store.make_body(&[Bytes::from(vec![0; 200 << 10])]).is_ok());
    assert!(matches!(store.make_body(&[Bytes::from(vec![0; 300 << 10])]), Err(OverBudget)));
    let vast = plain(StoredBody::Heap(Bytes::from(vec![0; 300 << 10]).into()));
    assert_eq!(Err(OverBudget), store.insert(store.hash(b"k"), b"k", vast, 4));
}

#[test]
fn the_variants_of_one_key_do_not_take_the_whole_store() {
    let store = store(1 << 20);
    for n in 0..20 {
        let body = store.make_body(&[Bytes::from(vec![0; 100 << 10])]).unwrap();
        put(&store, b"k", varied(&["x-language"], &language(&n.to_string()), body));
    }
    assert_eq!(2, entry(&store, b"k").unwrap().variants.len());
}

#[test]
fn bodies_are_placed_by_their_size() {
    let store = store(8 << 20);
    let empty = store.used();
    let small = store.make_body(&[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).unwrap();
    assert!(matches!(&small, StoredBody::Heap(it) if **it == *b"abc"));
    let bytes: Vec<u8> = (0..100_000u32).map(|it| it as u8).collect();
    let large = store
        .make_body(&[Bytes::copy_from_slice(&bytes[..70_000]), Bytes::copy_from_slice(&bytes[70_000..])]);
    let large = large.unwrap();
    assert!(matches!(&large, StoredBody::Arena(_)));
    assert_eq!(bytes, read(&large));
    assert!(store.used() - empty >= 100_000);
    drop(large);
    assert_eq!(empty, store.used());
}

#[derive(Clone, Debug)]
enum Deed {
    Insert(u8, u8, u16),
    Remove(u8),
    Freshen(u8, u16),
    Lookup(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (key, variant) = (0..12u8, 0..4u8);
    prop_oneof![
        4 => (key.clone(), variant, any::<u16>()).prop_map(|(key, variant, it)| Deed::Insert(key, variant, it)),
        1 => key.clone().prop_map(Deed::Remove),
        1 => (key.clone(), any::<u16>()).prop_map(|(key, it)| Deed::Freshen(key, it)),
        2 => key.prop_map(Deed::Lookup),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With a budget that is never reached the store is a map of lists, newest first.
    #[test]
    fn the_store_is_a_map(deeds in proptest::collection::vec(deed(), 1..200)) {
        let store = store(1 << 30);
        let mut model: HashMap<u8, Vec<(u8, Vec<u8>)>> = HashMap::new();
        for deed in deeds {
            match deed {
                Deed::Insert(key, variant, body) => {
                    let body = body.to_string();
                    let value = variant.to_string();
                    put(&store, &[key], varied(&["x-language"], &language(&value), text(&body)));
                    let list = model.entry(key).or_default();
                    list.retain(|it| it.0 != variant);
                    list.insert(0, (variant, body.into_bytes()));
                }
                Deed::Remove(key) => {
                    let there = store.remove(store.hash(&[key]), &[key]);
                    prop_assert_eq!(model.remove(&key).is_some(), there);
                }
                Deed::Freshen(key, body) => {
                    let Some(list) = model.get_mut(&key) else { continue };
                    let (variant, _) = list.pop().unwrap();
                    let body = body.to_string();
                    let old = entry(&store, &[key]).unwrap().variants.last().unwrap().clone();
                    let new = varied(&["x-language"], &language(&variant.to_string()), text(&body));
                    prop_assert!(store.replace(store.hash(&[key]), &[key], &old, new));
                    list.insert(0, (variant, body.into_bytes()));
                }
                Deed::Lookup(key) => {
                    let found = entry(&store, &[key]).map(|it| it.variants.iter().map(|it| read(&it.body)).collect());
                    let expect: Option<Vec<_>> = model.get(&key).map(|it| it.iter().map(|it| it.1.clone()).collect());
                    prop_assert_eq!(expect, found);
                }
            }
        }
        for key in model.into_keys() {
            store.remove(store.hash(&[key]), &[key]);
        }
        prop_assert!(store.used() < 64 << 10, "only the tables' own memory is left: {}", store.used());
    }
}

#[test]
fn memory_of_a_lower_tier_is_charged_to_the_budget() {
    let store = store(4 << 20);
    let mut entered = 0;
    let before = store.used();
    store.charge_external(&mut entered, 1 << 20);
    assert_eq!((1 << 20, before + (1 << 20)), (entered, store.used()));
    store.charge_external(&mut entered, 1 << 40);
    assert_eq!(2 << 20, entered, "half of it stays for responses");
    store.charge_external(&mut entered, 0);
    assert_eq!((0, before), (entered, store.used()));
}
