//! The promises of purges, one by one. `model` has all of them at random.

use super::rules::{FollowedLogs, PurgeRules, RuleLimits};
use super::*;
use crate::disk::rules_of_bytes;
use crate::fill::{Begin, FillHead, FillReader, FillWriter, SharedHead, SpentLifetime};
use crate::ram::Swept;
use crate::ram::{Lookup, Store, StoredArc};
use crate::sample::{meta, plain, read, store, stored, text};
use larder_semantics::field::FieldList;
use larder_semantics::freshness::LifetimeSource;
use larder_semantics::miss_reason;
use larder_semantics::purged::is_doubted;
use larder_semantics::tags;
use larder_stdx::clock::{self, WallTime};
use std::sync::Arc;

pub(crate) const KEYS: [&str; 6] =
    ["http://a/", "http://a/x", "http://a/x h:b=c", "http://a/xy", "http://b/", "http://b/x?y"];
pub(crate) const TAGS: [&str; 3] = ["red", "green", "blue"];

pub(crate) fn purge_facts(tags: &[&str], epoch: PurgeEpoch) -> PurgeFacts {
    let mut tags: Vec<u64> = tags.iter().map(|it| tags::hash(it)).collect();
    tags.sort_unstable();
    PurgeFacts { tags: tags.into(), epoch }
}

pub(crate) fn tagged(tags: &[&str], epoch: PurgeEpoch, body: &str) -> StoredArc {
    StoredArc::new(stored(text(body)).with_purge_facts(purge_facts(tags, epoch)))
}

pub(crate) fn rule(scope: PurgeScope, strength: Strength) -> PurgeRule {
    PurgeRule { scope, strength, positions: Vec::new() }
}

pub(crate) fn tag(tag: &str) -> PurgeScope {
    PurgeScope::Tag(tag.into())
}

pub(crate) fn on_condition(text: &str) -> PurgeScope {
    PurgeScope::Where(Expression::parse(text).unwrap())
}

pub(crate) fn url(key: &str) -> PurgeScope {
    PurgeScope::Url(key.as_bytes().into())
}

pub(crate) fn prefix(key: &str) -> PurgeScope {
    PurgeScope::Prefix(key.as_bytes().into())
}

pub(crate) fn put(store: &Store, key: &str, tags: &[&str]) {
    let stored = tagged(tags, store.epoch(), key);
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).unwrap();
}

fn found(store: &Store, key: &str) -> Option<StoredArc> {
    match store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) {
        Lookup::Entry(entry) => Some(entry.variants[0].clone()),
        _ => None,
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Fresh,
    Stale,
    Doubted,
    Nothing,
}

pub(crate) fn seen(store: &Store, key: &str) -> Seen {
    match found(store, key) {
        None => Seen::Nothing,
        Some(it) if is_doubted(&it.meta) => Seen::Doubted,
        Some(it) if it.meta.lifetime.source == LifetimeSource::Purged => Seen::Stale,
        Some(_) => Seen::Fresh,
    }
}

pub(crate) fn begin(store: &Store, key: &str) -> Begin {
    let hash = store.hash(key.as_bytes());
    store.begin(hash, hash, key.as_bytes())
}

#[track_caller]
fn lead(store: &Store, key: &str) -> (FillWriter, FillReader) {
    match begin(store, key) {
        Begin::Lead(writer, reader) => (writer, reader),
        _ => panic!("{key} is joined"),
    }
}

pub(crate) fn head(tags: &[&str], epoch: PurgeEpoch) -> FillHead {
    FillHead::Shared(Arc::new(SharedHead {
        status: 200,
        fields: FieldList::new(),
        length: None,
        vary: Vec::new(),
        variant: Box::default(),
        meta: meta(&[]),
        purge_facts: purge_facts(tags, epoch),
        spent: SpentLifetime::No,
    }))
}

#[track_caller]
fn check(scope: PurgeScope, strength: Strength, purged: &[&str], expect: Seen) {
    let store = store(1 << 20);
    for (key, tag) in KEYS.iter().zip(TAGS.iter().cycle()) {
        put(&store, key, &[tag]);
    }
    store.purge(rule(scope.clone(), strength));
    for key in KEYS {
        let expect = if purged.contains(&key) { expect } else { Seen::Fresh };
        assert_eq!(expect, seen(&store, key), "{key} after {scope:?}");
        assert_eq!(expect, seen(&store, key), "{key} after {scope:?}, again");
        put(&store, key, &TAGS);
        assert_eq!(Seen::Fresh, seen(&store, key), "{key}, asked for since");
    }
}

#[test]
fn a_purge_by_one_host_covers_all_hosts_that_share_keys() {
    let keys = ["http://a/x", "https://b:81/x", "http://c/x h:d=e", "http://b/y", "http://b/x/z"];
    let check = |scope: PurgeScope, purged: &[usize]| {
        let store = store(1 << 20);
        store.share_hosts("shop");
        keys.iter().for_each(|key| put(&store, key, &[]));
        for _ in 0..2 {
            // The second supersedes the first.
            store.purge(rule(scope.clone(), Strength::Hard));
        }
        let gone = |at: &usize| seen(&store, keys[*at]) == Seen::Nothing;
        assert_eq!(purged, (0..keys.len()).filter(gone).collect::<Vec<_>>(), "{scope:?}");
    };
    check(url("http://a/x"), &[0, 1, 2]);
    check(url("https://shop/x"), &[0, 1, 2]);
    check(prefix("http://a/x"), &[0, 1, 2, 4]);
    check(prefix("http://a"), &[0, 1, 2, 3, 4]);
    check(prefix("http"), &[0, 1, 2, 3, 4]);
}

#[test]
fn each_scope_purges_exactly_its_responses() {
    use Strength::Hard;
    check(url("http://a/x"), Hard, &KEYS[1..3], Seen::Nothing);
    check(url("http://a/x h:b=c"), Hard, &KEYS[2..3], Seen::Nothing);
    check(url("http://a"), Hard, &[], Seen::Nothing);
    check(prefix("http://a/x"), Hard, &KEYS[1..4], Seen::Nothing);
    check(prefix("http://"), Hard, &KEYS, Seen::Nothing);
    check(prefix(""), Hard, &KEYS, Seen::Nothing);
    check(prefix("http://a/xyz"), Hard, &[], Seen::Nothing);
    check(tag("green"), Hard, &[KEYS[1], KEYS[4]], Seen::Nothing);
    check(tag("greenish"), Hard, &[], Seen::Nothing);
    check(PurgeScope::All, Hard, &KEYS, Seen::Nothing);
    check(PurgeScope::All, Strength::Soft, &KEYS, Seen::Stale);
    check(PurgeScope::All, Strength::Validate, &KEYS, Seen::Doubted);
    check(tag("red"), Strength::Soft, &[KEYS[0], KEYS[3]], Seen::Stale);
}

#[test]
fn a_purge_expression_covers_the_responses_that_match_when_it_is_made() {
    let condition = |text: &str| PurgeScope::Where(Expression::parse(text).unwrap());
    use Strength::Hard;
    check(
        condition("key ~ \"^http://a/\" && !(tag == \"green\")"),
        Hard,
        &[KEYS[0], KEYS[2], KEYS[3]],
        Seen::Nothing,
    );
    check(condition("status == 200 && header[\"etag\"] == \"\\\"a\\\"\""), Hard, &KEYS, Seen::Nothing);
    check(condition("size < 9 || path == \"/xy\""), Strength::Soft, &[KEYS[3]], Seen::Stale);
    check(condition("ttl > 0"), Hard, &[], Seen::Nothing);
    // The sample came at 1000, with a lifetime of a minute.
    check(condition("age > 365d && ttl < -364d"), Strength::Validate, &KEYS, Seen::Doubted);
}

#[test]
fn every_prefix_of_a_key_is_found_among_its_neighbours() {
    let most = RuleLimits { rules: 100, bytes: u64::MAX, expressions: 1 };
    let names = ["a", "aa", "aab", "aaba", "aac", "ab", "abb", "abc", "abcd", "abd", "b", ""];
    let key = b"abcde";
    for (n, name) in names.iter().enumerate() {
        let mut rules = PurgeRules::new(most);
        for it in names {
            rules.add(rule(PurgeScope::Prefix(it.as_bytes().into()), Strength::Soft), WallTime(1));
        }
        // Only this one is new.
        let met = rules.seq();
        rules.add(rule(PurgeScope::Prefix(name.as_bytes().into()), Strength::Soft), WallTime(1));
        assert_eq!(key.starts_with(name.as_bytes()), rules.may_match(key, met), "{n}: {name}");
    }
}

#[test]
fn a_rule_is_applied_once_to_a_response_that_is_hit_again() {
    let store = store(1 << 20);
    put(&store, KEYS[0], &[]);
    store.purge(rule(tag("red"), Strength::Hard));
    let one = found(&store, KEYS[0]).unwrap();
    let other = found(&store, KEYS[0]).unwrap();
    assert!(StoredArc::ptr_eq(&one, &other), "nothing was copied");
    store.purge(rule(PurgeScope::All, Strength::Soft));
    let one = found(&store, KEYS[0]).unwrap();
    let other = found(&store, KEYS[0]).unwrap();
    assert!(StoredArc::ptr_eq(&one, &other), "it was changed in its place");
}

#[test]
fn a_reader_of_a_purged_response_finishes() {
    let store = store(8 << 20);
    let body = store.make_body(&[vec![7; 100_000].into()]).unwrap();
    let key = KEYS[0].as_bytes();
    store.insert(store.hash(key), key, plain(body), 1).unwrap();
    let held = found(&store, KEYS[0]).unwrap();
    store.purge(rule(PurgeScope::All, Strength::Hard));
    assert_eq!(Seen::Nothing, seen(&store, KEYS[0]));
    assert!(read(&held.body) == vec![7; 100_000]);
}

#[test]
fn purged_responses_are_evicted_before_usable_ones() {
    let store = store(8 << 20);
    let put = |n: usize, tag: &str| {
        let key = format!("http://a/{n}");
        let stored = tagged(&[tag], store.epoch(), &"x".repeat(4000));
        store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).unwrap();
    };
    (0..1600).for_each(|n| put(n, ["red", "blue"][n % 2]));
    assert_eq!(1600, store.objects(), "all of them have room");
    store.purge(rule(tag("red"), Strength::Hard));
    (10_000..10_700).for_each(|n| put(n, "green"));
    assert!(store.objects() < 1600 + 700 - 200, "room had to be made: {}", store.objects());
    let left = (0..1600).filter(|n| n % 2 == 1 && found(&store, &format!("http://a/{n}")).is_some()).count();
    assert!(left >= 780, "{left} of 800 are left, although the others were of no use");
}

#[test]
fn counting_ends_above_the_most_that_is_wanted() {
    let store = store(8 << 20);
    for n in 0..1000 {
        put(&store, &format!("http://a/{n}"), &["red"]);
        put(&store, &format!("http://b/{n}"), &["blue"]);
    }
    let red = rule(tag("red"), Strength::Hard);
    assert_eq!(1000, store.count_matched(&red, 1000), "all, and no more");
    assert_eq!(0, store.count_matched(&rule(tag("green"), Strength::Hard), 10));
    let counted = store.count_matched(&red, 100);
    assert!((101..200).contains(&counted), "it ended soon above 100: {counted}");
}

#[test]
fn a_preview_counts_all_within_its_time_and_one_shard_without() {
    let store = store(8 << 20);
    for n in 0..1000 {
        put(&store, &format!("http://a/{n}"), &["red"]);
        put(&store, &format!("http://b/{n}"), &["blue"]);
    }
    let red = rule(tag("red"), Strength::Hard);
    let (found, is_whole) = store.count_until(&red, u64::MAX);
    assert_eq!((1000, true), (found.responses, is_whole));
    let bytes = store.count_until(&rule(PurgeScope::All, Strength::Hard), u64::MAX).0.bytes;
    assert_eq!(bytes, 2 * found.bytes);
    let (some, is_whole) = store.count_until(&red, 0);
    assert!(!is_whole && some.responses < 1000, "{some:?}");
    assert!(found_all(&store), "a count changes nothing");
    store.purge(red.clone());
    assert_eq!(
        (PurgeMatches::default(), true),
        store.count_until(&red, u64::MAX),
        "what is purged is not counted again"
    );
}

fn found_all(store: &Store) -> bool {
    (0..1000).all(|n| ["a", "b"].iter().all(|host| found(store, &format!("http://{host}/{n}")).is_some()))
}

#[test]
fn memory_comes_back_without_being_asked_for() {
    let store = store(8 << 20);
    for n in 0..1000 {
        put(&store, &format!("http://a/{n}"), &["red"]);
        put(&store, &format!("http://b/{n}"), &["blue"]);
    }
    let both = store.memory().responses;
    let blue = found(&store, "http://b/7").unwrap();
    store.purge(rule(tag("red"), Strength::Hard));
    let mut steps = 0;
    while store.sweep(1) != Swept::Nothing {
        steps += 1;
        assert!(steps < 1000, "it ends");
    }
    assert!(steps >= 30, "a little at a time: {steps}");
    assert_eq!(both / 2, store.memory().responses);
    assert!(StoredArc::ptr_eq(&blue, &found(&store, "http://b/7").unwrap()));
    assert_eq!(1000, store.counters.purged_responses.get());
    assert_eq!(Swept::Nothing, store.sweep(1), "until there is another purge");
}

#[test]
fn a_fill_that_began_before_is_not_joined_if_the_purge_may_be_about_it() {
    let store = store(1 << 20);
    let check = |scope: PurgeScope, tags: Option<&[&str]>, joined: bool| {
        let key = "http://a/x";
        let (mut writer, _reader) = lead(&store, key);
        let epoch = store.epoch();
        if let Some(tags) = tags {
            writer.head(head(tags, epoch), true);
        }
        store.purge(rule(scope.clone(), Strength::Soft));
        let again = matches!(begin(&store, key), Begin::Follow(_));
        assert_eq!(joined, again, "{scope:?}, {tags:?}");
    };
    check(url("http://a/x"), None, false);
    check(url("http://a/y"), None, true);
    check(prefix("http://a/"), Some(&[]), false);
    check(prefix("http://b/"), Some(&[]), true);
    // By either scheme, with the port of either or none.
    check(url("https://a/x"), None, false);
    check(prefix("https://a/"), None, false);
    for host in ["https://a:80", "http://a:443", "http://a:80"] {
        check(url(&format!("{host}/x")), None, false);
        check(prefix(&format!("{host}/")), None, false);
    }
    check(url("http://a:8080/x"), None, true);
    check(url("http://a:4443/x"), None, true);
    check(url("httpsx://a/x"), None, true);
    check(PurgeScope::All, Some(&[]), false);
    check(tag("red"), None, false);
    check(tag("red"), Some(&["red", "blue"]), false);
    check(tag("red"), Some(&["blue"]), true);
    let red = || PurgeScope::Where(Expression::parse("tag == \"red\" && size < 1").unwrap());
    check(red(), None, false);
    check(red(), Some(&[]), false);
    assert_eq!(0, store.in_flight.len(), "all have left");
    // What is true of the length is known where that is.
    let (mut writer, _reader) = lead(&store, "http://a/x");
    let FillHead::Shared(mut known) = head(&["red"], store.epoch()) else { unreachable!() };
    Arc::get_mut(&mut known).unwrap().length = Some(1);
    writer.head(FillHead::Shared(known), true);
    store.purge(rule(red(), Strength::Soft));
    assert!(matches!(begin(&store, "http://a/x"), Begin::Follow(_)));
}

#[test]
fn a_displaced_fill_is_still_found_by_a_removal() {
    let store = store(1 << 20);
    let key = KEYS[0];
    let (mut old, _old_reader) = lead(&store, key);
    let epoch = store.epoch();
    store.purge(rule(tag("red"), Strength::Hard));
    let (_new, _new_reader) = lead(&store, key);
    old.head(head(&[], epoch.clone()), true);
    assert!(old.may_store());
    store.remove(store.hash(key.as_bytes()), key.as_bytes());
    assert!(!old.may_store());
    assert!(old.insert(tagged(&[], epoch, "x"), 1).is_err());
}

#[test]
fn a_late_response_does_not_replace_one_requested_after_the_purge() {
    for strength in [Strength::Soft, Strength::Validate, Strength::Hard] {
        let store = store(1 << 20);
        let key = KEYS[0];
        let (mut writer, _reader) = lead(&store, key);
        let epoch = store.epoch();
        store.purge(rule(url(key), strength));
        put(&store, key, &[]);
        writer.head(head(&[], epoch.clone()), true);
        assert!(writer.insert(tagged(&[], epoch, "old"), 1).is_err());
        assert_eq!(Seen::Fresh, seen(&store, key));
    }
}

#[test]
fn a_validation_that_began_before_is_no_validation() {
    let store = store(1 << 20);
    let (key, hash) = (KEYS[0].as_bytes(), store.hash(KEYS[0].as_bytes()));
    put(&store, KEYS[0], &["red"]);
    let old = found(&store, KEYS[0]).unwrap();
    let epoch = store.epoch();
    store.purge(rule(tag("red"), Strength::Validate));
    assert!(store.replace(hash, key, &old, tagged(&["red"], epoch, "x")));
    assert_eq!(Seen::Doubted, seen(&store, KEYS[0]));
    let old = found(&store, KEYS[0]).unwrap();
    assert!(store.replace(hash, key, &old, tagged(&["red"], store.epoch(), "x")));
    assert_eq!(Seen::Fresh, seen(&store, KEYS[0]), "one that began after is");
    let old = found(&store, KEYS[0]).unwrap();
    store.purge(rule(tag("red"), Strength::Hard));
    assert!(!store.replace(hash, key, &old, tagged(&["red"], store.epoch(), "x")), "gone is gone");
    assert_eq!(Seen::Nothing, seen(&store, KEYS[0]));
}

/// The sweep puts a copy of what is to be validated into its place, also while that is being validated.
#[test]
fn a_validation_freshens_a_response_that_was_swept_meanwhile() {
    let store = store(1 << 20);
    let (key, hash) = (KEYS[0].as_bytes(), store.hash(KEYS[0].as_bytes()));
    put(&store, KEYS[0], &["red"]);
    let old = found(&store, KEYS[0]).unwrap();
    store.purge(rule(tag("red"), Strength::Validate));
    while store.sweep(1) != Swept::Nothing {}
    assert!(!StoredArc::ptr_eq(&old, &found(&store, KEYS[0]).unwrap()), "it is another copy");
    assert!(store.replace(hash, key, &old, tagged(&["red"], store.epoch(), "x")));
    assert_eq!(Seen::Fresh, seen(&store, KEYS[0]));
    assert!(!store.replace(hash, key, &old, tagged(&["red"], store.epoch(), "y")), "once");
}

#[test]
fn without_trust_everything_is_validated_and_nothing_joined() {
    let store = store(1 << 20);
    put(&store, KEYS[0], &[]);
    put(&store, KEYS[1], &[]);
    clock::tick();
    // The machine has run for more than two milliseconds.
    let now = clock::monotonic().0;
    let key = KEYS[0].as_bytes();
    store.trust_until(now + 1_000_000);
    assert!(store.trusted());
    assert_eq!(Seen::Fresh, seen(&store, KEYS[0]));
    let (_writer, _reader) = lead(&store, KEYS[2]);
    assert!(matches!(begin(&store, KEYS[2]), Begin::Follow(_)));
    store.trust_until(now - 1);
    assert!(!store.trusted());
    assert_eq!(Seen::Doubted, seen(&store, KEYS[0]));
    let old = found(&store, KEYS[0]).unwrap();
    assert!(
        store.replace(store.hash(key), key, &old, tagged(&[], store.epoch(), "x")),
        "it can be freshened"
    );
    assert!(matches!(begin(&store, KEYS[2]), Begin::Lead(..)));
    let admitted = store.admit(key, crate::sample::owned(tagged(&[], store.epoch(), "x"))).unwrap();
    assert!(is_doubted(&admitted.meta));
    store.trust_until(u64::MAX);
    assert_eq!(Seen::Fresh, seen(&store, KEYS[1]));
}

pub(crate) fn position(log: u64, entry: u64) -> Position {
    Position { log, entry }
}

fn admitted(store: &Store, tags: &[&str], known: &[Position], at: u64, foreign: bool) -> Seen {
    let epoch = PurgeEpoch { seq: 0, log: Positions::new(known) };
    let mut stored = crate::sample::owned(tagged(tags, epoch, "x"));
    (stored.meta.request_time, stored.meta.response_time) = (WallTime(at), WallTime(at + 5));
    let admit = if foreign { Store::admit_foreign } else { Store::admit };
    match admit(store, b"http://a/", stored) {
        None => Seen::Nothing,
        Some(it) if is_doubted(&it.meta) => Seen::Doubted,
        Some(it) if it.meta.lifetime.source == LifetimeSource::Purged => Seen::Stale,
        Some(it) => {
            assert!(!foreign || it.epoch == store.epoch().seq, "born here, now");
            Seen::Fresh
        }
    }
}

#[test]
fn a_response_from_the_fleet_is_purged_by_its_log_positions() {
    let store = store(1 << 20);
    let positions = vec![position(1, 5), position(2, 7)];
    store.purge(PurgeRule { scope: tag("red"), strength: Strength::Hard, positions });
    for foreign in [true, false] {
        let check = |known: &[Position], expect| {
            assert_eq!(expect, admitted(&store, &["red"], known, 1000, foreign), "{known:?}");
            assert_eq!(Seen::Fresh, admitted(&store, &["blue"], known, 1000, foreign));
        };
        check(&[], Seen::Nothing);
        check(&[position(1, 4)], Seen::Nothing);
        check(&[position(3, 9)], Seen::Nothing);
        check(&[position(1, 5)], Seen::Fresh);
        check(&[position(1, 4), position(2, 8)], Seen::Fresh);
    }
}

#[test]
fn a_response_from_the_fleet_is_purged_by_its_time_if_the_purge_is_local() {
    let store = store(1 << 20);
    let now = clock::wall().0;
    store.purge(rule(tag("red"), Strength::Hard));
    assert_eq!(Seen::Nothing, admitted(&store, &["red"], &[], now - 10, true));
    assert_eq!(Seen::Nothing, admitted(&store, &["red"], &[position(1, 5)], now, true));
    assert_eq!(Seen::Nothing, admitted(&store, &["red"], &[], now + 1, true), "clocks may be apart");
    assert_eq!(Seen::Fresh, admitted(&store, &["red"], &[], now + 60, true));
    assert_eq!(Seen::Fresh, admitted(&store, &["blue"], &[], now - 10, true));
}

#[test]
fn births_tell_how_far_the_logs_were_followed() {
    let store = store(1 << 20);
    store.advance(position(1, 5));
    store.advance(position(2, 1));
    store.advance(position(1, 4));
    assert_eq!([position(1, 5), position(2, 1)], store.epoch().log.as_slice());
    store.log_lost(1);
    assert_eq!([position(2, 1)], store.epoch().log.as_slice());
}

#[test]
fn a_restart_goes_on_where_it_was() {
    let store = store(1 << 20);
    let rules = vec![(7, rule(tag("red"), Strength::Hard)), (3, rule(PurgeScope::All, Strength::Soft))];
    store.restore(9, rules);
    let at = |seq, tags| {
        let stored = tagged(tags, PurgeEpoch { seq, ..PurgeEpoch::default() }, "x");
        store.admit(b"http://a/", crate::sample::owned(stored)).map(|it| it.meta.lifetime.source)
    };
    assert_eq!(None, at(2, &["red"]));
    assert_eq!(Some(LifetimeSource::Purged), at(2, &["blue"]));
    assert_eq!(None, at(6, &["red"]));
    assert_eq!(Some(LifetimeSource::MaxAge), at(7, &["red"]));
    // What is requested from now on has a number that nothing had before.
    assert_eq!((10, 11), (store.epoch().seq, store.purge(rule(tag("x"), Strength::Hard))));
}

#[test]
fn a_purge_on_its_way_to_the_logs_applies_by_its_time_in_the_next_process() {
    let (old, new) = (store(1 << 20), store(1 << 20));
    let positions = vec![Position::NOWHERE];
    old.purge(PurgeRule { scope: tag("red"), strength: Strength::Hard, positions });
    new.restore(9, rules_of_bytes(&old.rules_as_bytes()).unwrap());
    let now = clock::wall().0;
    assert_eq!(Seen::Nothing, admitted(&new, &["red"], &[position(1, 5)], now, true));
    assert_eq!(Seen::Fresh, admitted(&new, &["red"], &[position(1, 5)], now + 60, true));
}

#[test]
fn rules_are_bounded_and_counted() {
    let store = store(1 << 20);
    put(&store, "http://a/", &["red"]);
    for n in 0..2000 {
        store.purge(rule(tag(&format!("tag-{n}")), Strength::Hard));
    }
    assert!(store.used() < 96 << 10, "{}", store.used());
    assert!(store.counters.purge_rules_full.get() > 1000);
    assert_eq!(Seen::Doubted, seen(&store, "http://a/"), "it may have been purged");
    let found = found(&store, "http://a/").unwrap();
    // "purged" was the reason for pages that no purge had named.
    assert_eq!("purge-rules-dropped", miss_reason::of_stored(&found.meta).name());
    put(&store, "http://a/", &["red"]);
    assert_eq!(Seen::Fresh, seen(&store, "http://a/"));
    for _ in 0..2000 {
        store.purge(rule(tag("same"), Strength::Hard));
    }
    assert_eq!(Seen::Fresh, seen(&store, "http://a/"), "the same again takes no room");
}

/// A repeated purge of the fleet got a rule of its own each time: five URLs purged each second filled the table within a minute.
#[test]
fn a_repeated_purge_of_the_fleet_replaces_the_older_one() {
    let store = store(1 << 20);
    put(&store, "http://a/x", &[]);
    let before = store.used();
    // The logs of two servers; one of them, or both, are out of reach for a time.
    let logs = |n: u64| match n / 500 {
        0 | 4 => vec![1, 2],
        1 => vec![1],
        2 => vec![2],
        _ => vec![],
    };
    for n in 0..2500 {
        let positions = vec![Position::NOWHERE];
        let seq = store.purge(PurgeRule { positions, ..rule(url("http://a/"), Strength::Hard) });
        for log in logs(n) {
            store.change_rules(|rules| rules.add_position(seq, position(log, n + 1)));
        }
        if logs(n).is_empty() {
            store.change_rules(|rules| rules.purge_lost(seq));
        }
    }
    assert_eq!(0, store.counters.purge_rules_full.get());
    assert!(store.used() < before + 5000, "{} more", store.used() - before);
    assert_eq!(Seen::Fresh, seen(&store, "http://a/x"), "no purge named it");
    let known = |entry| admitted(&store, &[], &[position(1, entry)], clock::wall().0 + 60, true);
    assert_eq!((Seen::Nothing, Seen::Fresh), (known(2499), known(2500)), "the last one is in force");
}

/// Other nodes purge one URL again and again, and this node reads the logs of both servers, several entries at a time.
#[test]
fn a_repeated_purge_of_other_nodes_replaces_the_older_one() {
    let store = store(1 << 20);
    put(&store, "http://a/x", &[]);
    let before = store.used();
    let floor = vec![position(1, 0), position(2, 0)];
    store.change_rules(|rules| rules.require_logs(FollowedLogs { floor, need: 1 }, clock::wall()));
    for batch in 0..500 {
        let entries: Vec<u64> = (1..=5).map(|n| batch * 5 + n).collect();
        let rule =
            |n| PurgeRule { positions: vec![position(1, n)], ..rule(url("http://a/"), Strength::Hard) };
        let seqs: Vec<_> = entries.iter().map(|n| store.purge(rule(*n))).collect();
        for (seq, n) in seqs.into_iter().zip(entries) {
            store.change_rules(|rules| rules.add_position(seq, position(2, n)));
        }
    }
    assert_eq!(0, store.counters.purge_rules_full.get());
    assert!(store.used() < before + 5000, "{} more", store.used() - before);
    let known = |log, entry| admitted(&store, &[], &[position(log, entry)], clock::wall().0 + 60, true);
    for log in [1, 2] {
        assert_eq!((Seen::Nothing, Seen::Fresh), (known(log, 2499), known(log, 2500)), "by log {log}");
    }
}

#[test]
fn rules_applied_to_all_entries_are_dropped_without_a_lower_tier() {
    let used = |lower: bool| {
        let store = store(64 << 20);
        if !lower {
            store.has_no_lower_tier();
        }
        put(&store, "http://a/", &["red"]);
        for n in 0..1000 {
            store.purge(rule(tag(&format!("tag-{n}")), Strength::Hard));
        }
        while store.sweep(1) != Swept::Nothing {}
        assert_eq!(Seen::Fresh, seen(&store, "http://a/"), "it has met them all");
        store.used()
    };
    assert!(used(false) + 700 * 320 < used(true));
}

#[test]
fn a_purged_stored_response_is_not_newer_than_a_fill() {
    let store = store(1 << 20);
    let (mut writer, _reader) = lead(&store, "a");
    let here = store.epoch();
    store.purge(rule(PurgeScope::All, Strength::Soft));
    put(&store, "a", &["blue"]);
    store.purge(rule(PurgeScope::Tag("blue".into()), Strength::Hard));
    writer.head(head(&[], here.clone()), true);
    assert!(writer.insert(tagged(&[], here, "x"), 1).is_ok());
    assert_eq!(Seen::Stale, seen(&store, "a"));
}

#[test]
fn a_purge_of_a_tag_with_a_condition_covers_only_responses_with_the_tag() {
    let store = store(64 << 20);
    put(&store, "http://a/", &["red"]);
    put(&store, "http://b/", &["red"]);
    for n in 0..500 {
        let limited = format!("tag == \"none-{n}\" && (!(path ~ \"^/no/\") || host ~ \"\\.example$\")");
        store.purge(rule(on_condition(&limited), Strength::Hard));
    }
    assert_eq!(0, store.counters.purge_rules_full.get());
    assert_eq!(Seen::Fresh, seen(&store, "http://a/"));
    store.purge(rule(on_condition("tag == \"red\" && host == \"a\""), Strength::Hard));
    assert_eq!((Seen::Nothing, Seen::Fresh), (seen(&store, "http://a/"), seen(&store, "http://b/")));
}

#[test]
fn a_purge_of_a_tag_with_a_limit_outlives_a_restart() {
    let store = store(1 << 20);
    let limited = on_condition("tag == \"red\" && host == \"a\"");
    store.restore(9, vec![(7, rule(limited, Strength::Hard))]);
    let at = |seq, key: &[u8], tags| {
        let stored = tagged(tags, PurgeEpoch { seq, ..PurgeEpoch::default() }, "x");
        store.admit(key, crate::sample::owned(stored)).is_some()
    };
    assert!(!at(6, b"http://a/", &["red"]));
    assert!(at(7, b"http://a/", &["red"]) && at(6, b"http://a/", &["blue"]) && at(6, b"http://b/", &["red"]));
}

#[test]
fn the_conditions_of_one_tag_are_bounded() {
    let store = store(64 << 20);
    put(&store, "http://a/", &["red"]);
    let purge =
        |n| store.purge(rule(on_condition(&format!("tag == \"red\" && status > {n}")), Strength::Hard));
    for n in 0..64 {
        purge(n + 999);
    }
    assert_eq!((0, Seen::Fresh), (store.counters.purge_rules_full.get(), seen(&store, "http://a/")));
    put(&store, "http://a/x", &["blue"]);
    purge(80_000);
    assert_eq!(1, store.counters.purge_rules_full.get());
    assert_eq!(Seen::Fresh, seen(&store, "http://a/x"), "it came later than what was let go");
}
