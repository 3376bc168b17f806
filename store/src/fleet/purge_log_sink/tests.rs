//! The requirements of the logs on the store, one by one.

use super::*;
use crate::purges::tests::{KEYS, Seen, put, seen, tagged};
use crate::purges::{Positions, PurgeEpoch};
use crate::sample::store;
use larder_semantics::purged::is_doubted;
use larder_stdx::clock::WallTime;

const fn at(log: u64, entry: u64) -> Position {
    Position { log, entry }
}

/// The verdict about another node's response that knew these positions; it was requested at `asked`, and arrived later.
fn foreign(store: &Store, known: &[Position], asked: u64) -> Seen {
    let stored = tagged(&["red"], PurgeEpoch { seq: 0, log: Positions::new(known) }, "x");
    let mut stored = crate::sample::owned(stored);
    (stored.meta.request_time, stored.meta.response_time) = (WallTime(asked), WallTime(asked + 5));
    match store.admit_foreign(b"http://a/", stored) {
        None => Seen::Nothing,
        Some(it) => {
            assert_eq!(known, it.log().as_slice(), "it knows no more for having come here");
            if is_doubted(&it.meta) { Seen::Doubted } else { Seen::Fresh }
        }
    }
}

fn entry(effect: PurgeEffect) -> PurgeEntry {
    PurgeEntry { id: 7, wall: 0, effect, about: About::Tag("red".into()) }
}

const NEVER: u64 = u64::MAX;

#[test]
fn a_foreign_response_must_know_a_majority_of_the_logs() {
    let store = store(1 << 20);
    store.follow(&[at(1, 5), at(2, 5), at(3, 0)], 2, NEVER);
    assert_eq!(Seen::Fresh, foreign(&store, &[at(1, 5), at(2, 9)], 0));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(3, 0), at(2, 5), at(1, 4)], 0));
    assert_eq!(Seen::Doubted, foreign(&store, &[at(1, 5), at(2, 4), at(9, 9)], 0));
    assert_eq!(Seen::Doubted, foreign(&store, &[Position::NOTHING], 0));
}

#[test]
fn a_response_of_an_application_is_judged_by_its_time() {
    let store = store(1 << 20);
    let now = clock::wall().0;
    store.follow(&[at(1, 0)], 1, NEVER);
    assert_eq!(Seen::Fresh, foreign(&store, &[], now - 10), "whenever this node began to follow");
    assert_eq!(Seen::Fresh, foreign(&store, &[], now + 10));
    store.follow(&[at(1, 0)], 1, NEVER);
    PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[at(1, 1)]).unwrap();
    assert_eq!(Seen::Nothing, foreign(&store, &[], now));
    assert_eq!(Seen::Fresh, foreign(&store, &[], now + 10));
}

#[test]
fn a_purge_is_known_by_any_of_its_places_and_by_none_before_it_has_one() {
    let store = store(1 << 20);
    store.follow(&[at(1, 0), at(2, 0)], 1, NEVER);
    let seq = PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[]).unwrap();
    let later = clock::wall().0 + 100;
    assert_eq!(Seen::Nothing, foreign(&store, &[at(1, 9), at(2, 9)], later));
    store.add_position(seq, at(1, 3));
    assert_eq!(Seen::Nothing, foreign(&store, &[at(1, 2), at(2, 9)], later));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(1, 3), at(2, 1)], later));
    store.add_position(seq, at(2, 9));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(1, 2), at(2, 9)], later));
}

/// Purges of more than the table holds, in log 2.
fn overflow(store: &Store) {
    let dropped = store.counters.purge_rules_full.get();
    for n in 1..=1000 {
        let about = About::Url(format!("http://other/{n}").into_bytes().into());
        let entry = PurgeEntry { about, ..entry(PurgeEffect::Hard) };
        PurgeLogSink::purge(store, &entry, &[at(2, n)]).unwrap();
    }
    assert_ne!(dropped, store.counters.purge_rules_full.get(), "the table is too large for this test");
}

#[test]
fn a_purge_that_is_dropped_before_it_is_in_a_log_concerns_responses_of_other_nodes() {
    let store = store(1 << 20);
    store.follow(&[at(1, 0), at(2, 0)], 1, NEVER);
    let seq = PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[]).unwrap();
    overflow(&store);
    let later = clock::wall().0 + 100;
    assert_eq!(Seen::Doubted, foreign(&store, &[at(1, 2), at(2, 1000)], later), "its position is not known");
    store.add_position(seq, at(1, 3));
    assert_eq!(Seen::Doubted, foreign(&store, &[at(1, 2), at(2, 1000)], later));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(1, 3), at(2, 1000)], later));
}

#[test]
fn a_dropped_purge_that_is_in_no_log_concerns_responses_requested_before() {
    let store = store(1 << 20);
    store.follow(&[at(1, 0), at(2, 0)], 1, NEVER);
    let seq = PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[]).unwrap();
    overflow(&store);
    store.purge_lost(seq);
    let now = clock::wall().0;
    assert_eq!(Seen::Doubted, foreign(&store, &[at(1, 2), at(2, 1000)], now - 10));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(1, 2), at(2, 1000)], now + 100));
}

#[test]
fn a_dropped_purge_concerns_older_responses_after_the_loss_of_its_log() {
    let store = store(1 << 20);
    store.follow(&[at(1, 0), at(2, 0)], 1, NEVER);
    PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[at(1, 3)]).unwrap();
    overflow(&store);
    PurgeLogSink::log_lost(&store, 1);
    let now = clock::wall().0;
    assert_eq!(Seen::Doubted, foreign(&store, &[at(2, 1000)], now - 10));
    assert_eq!(Seen::Fresh, foreign(&store, &[at(2, 1000)], now + 100));
}

#[test]
fn a_purge_in_a_lost_log_does_not_concern_later_responses() {
    let store = store(1 << 20);
    PurgeLogSink::purge(&store, &entry(PurgeEffect::Hard), &[at(1, 5)]).unwrap();
    PurgeLogSink::log_lost(&store, 1);
    store.follow(&[at(9, 0)], 1, NEVER);
    let now = clock::wall().0;
    assert_eq!(Seen::Nothing, foreign(&store, &[at(9, 0)], now));
    assert_eq!(
        Seen::Fresh,
        foreign(&store, &[at(9, 0)], now + 100),
        "no response can know that log any more"
    );
}

#[test]
fn a_required_revalidation_concerns_responses_of_this_process() {
    let store = store(1 << 20);
    store.restore(5, Vec::new());
    let earlier = |known: &[Position]| {
        let stored = tagged(&[], PurgeEpoch { seq: 5, log: Positions::new(known) }, "x");
        store.admit(b"http://a/", crate::sample::owned(stored)).map(|it| is_doubted(&it.meta))
    };
    put(&store, KEYS[0], &[]);
    PurgeLogSink::require_revalidation(&store);
    assert_eq!(Seen::Doubted, seen(&store, KEYS[0]));
    assert_eq!(Some(false), earlier(&[]), "where there is no log");
    store.follow(&[at(1, 3)], 1, NEVER);
    assert_eq!(Some(false), earlier(&[at(1, 3)]), "an earlier process knew enough");
    assert_eq!(Some(true), earlier(&[at(1, 2)]));
    put(&store, KEYS[0], &[]);
    assert_eq!(Seen::Fresh, seen(&store, KEYS[0]), "what is asked for since is not doubted");
}

#[test]
fn no_response_is_trusted_before_the_logs_are_followed_or_after_the_lease() {
    let store = store(1 << 20);
    clock::tick();
    put(&store, KEYS[0], &[]);
    store.follows_logs();
    assert_eq!([Position::NOTHING], store.epoch().log.as_slice());
    clock::tick();
    assert!(!store.trusted());
    store.follow(&[at(1, 0)], 1, clock::monotonic().0 + 1000);
    assert!(store.trusted());
    store.set_positions(&[at(1, 4)]);
    assert_eq!([at(1, 4)], store.epoch().log.as_slice());
}

#[test]
fn an_entry_and_its_rule_say_the_same() {
    let expression = Expression::parse("status >= 500").unwrap();
    let scopes = [
        PurgeScope::Url(b"a".as_slice().into()),
        PurgeScope::Prefix(b"".as_slice().into()),
        PurgeScope::Tag("t".into()),
        PurgeScope::All,
    ];
    for scope in scopes.into_iter().chain([PurgeScope::Where(expression)]) {
        for strength in [Strength::Soft, Strength::Validate, Strength::Hard] {
            let rule = rule_of(&entry_of(&scope, strength, 9), vec![at(1, 2)]).unwrap();
            assert_eq!(PurgeRule { scope: scope.clone(), strength, positions: vec![at(1, 2)] }, rule);
        }
    }
    let strange = PurgeEntry { id: 1, wall: 0, effect: PurgeEffect::Hard, about: About::Where("(".into()) };
    assert_eq!(Expression::parse("(").is_err(), rule_of(&strange, Vec::new()).is_none());
}
