//! Purges come back after a restart; a journal that lost any makes everything be validated.

use super::*;
use crate::purges::{Position, Rule, Scope, Strength};
use std::fs;

pub(super) fn rule(scope: Scope) -> Rule {
    Rule { scope, strength: Strength::Hard, positions: Vec::new() }
}

fn url(key: &str) -> Rule {
    rule(Scope::Url(key.as_bytes().into()))
}

/// Whether everything that is older than `seq` must be validated.
fn doubts(tier: &Tier, seq: u64) -> bool {
    let restored = tier.disk().restored();
    let is_doubt =
        |it: &(u64, Rule)| it.0 >= seq && it.1.scope == Scope::All && it.1.strength >= Strength::Validate;
    restored.rules.iter().any(is_doubt) && restored.last_seq >= seq
}

#[test]
fn every_kind_comes_back() {
    let mut tier = Tier::new();
    tier.text("a", "kept, so that the purges are");
    let mut rules: Vec<Rule> = [
        Scope::Url(b"http://a/".as_slice().into()),
        Scope::Prefix(b"http://a/\xff".as_slice().into()),
        Scope::Tag("news".into()),
        Scope::All,
        Scope::Where(larder_semantics::expression::Expression::parse("status == 404").unwrap()),
    ]
    .map(rule)
    .into();
    rules[1].strength = Strength::Soft;
    rules[2].strength = Strength::Validate;
    rules[3].positions = vec![Position { log: 1, entry: 2 }, Position { log: 3, entry: 4 }];
    for (seq, rule) in (5..).zip(&rules) {
        tier.disk().purged(seq, rule).wait().unwrap();
    }
    for _ in 0..2 {
        tier.restart();
        let restored = tier.disk().restored();
        assert_eq!(9, restored.last_seq);
        assert_eq!((5..).zip(rules.clone()).collect::<Vec<_>>(), restored.rules);
    }
}

#[test]
fn a_new_directory_has_no_purges() {
    let restored = Tier::new().disk().restored();
    assert_eq!((0, 0), (restored.last_seq, restored.rules.len()));
}

#[test]
fn a_purge_does_not_wait_for_what_is_queued() {
    let tier = Tier::sized(64 << 20, 1 << 20);
    let stored = blob(1, 50_000);
    for at in 0..1000 {
        tier.disk().write(format!("k{at}").as_bytes(), &stored);
    }
    tier.disk().purged(1, &url("a")).wait().unwrap();
    assert!(tier.counters.disk_writes.get() < 900, "most of it still waits");
}

#[test]
fn what_was_being_written_when_it_was_killed_is_no_loss() {
    let mut tier = Tier::new();
    tier.text("a", "x");
    tier.disk().purged(1, &url("a")).wait().unwrap();
    let path = tier.path().join("purges");
    let length = fs::metadata(&path).unwrap().len();
    tier.disk().purged(2, &url("b")).wait().unwrap();
    tier.close();
    let whole = fs::read(&path).unwrap();
    for cut in usize::try_from(length).unwrap()..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        tier.open().unwrap();
        assert_eq!(vec![(1, url("a"))], tier.disk().restored().rules, "cut to {cut}");
        tier.close();
    }
}

#[test]
fn a_damaged_journal_makes_everything_be_validated() {
    let mut tier = Tier::new();
    tier.text("a", "x");
    tier.disk().purged(1, &url("a")).wait().unwrap();
    tier.disk().purged(2, &url("b")).wait().unwrap();
    tier.close();
    let path = tier.path().join("purges");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut turned = whole.clone();
        turned[at] ^= 4;
        fs::write(&path, &turned).unwrap();
        tier.open().unwrap();
        assert!(doubts(&tier, 1), "byte {at}");
        tier.close();
    }
    fs::remove_file(&path).unwrap();
    tier.open().unwrap();
    assert!(doubts(&tier, 1), "a journal that is gone");
}

#[test]
fn a_number_is_not_given_twice_where_the_journal_lost_it() {
    let mut tier = Tier::new();
    tier.text("first", "x");
    let journal = tier.path().join("purges");
    let before = fs::read(&journal).unwrap();
    tier.put("a", born_at(41));
    tier.close();
    fs::write(&journal, before).unwrap();
    tier.open().unwrap();
    assert!(doubts(&tier, 42), "purge 41 is not in the journal");
}

#[test]
fn a_number_without_a_purge_is_written_down() {
    let mut tier = Tier::new();
    tier.put("a", born_at(41));
    tier.restart();
    let restored = tier.disk().restored();
    assert_eq!(41, restored.last_seq);
    assert!(
        restored.rules.iter().all(|it| it.1.scope == Scope::Url(Box::default())),
        "nothing is purged by it"
    );
}

fn born_at(seq: u64) -> Arc<Stored> {
    let stored = Arc::into_inner(sample::plain(sample::text("x"))).unwrap();
    let born = Born { seq, ..Born::default() };
    Arc::new(Stored { marks: Marks { born, ..Marks::default() }, ..stored })
}

#[test]
fn old_purges_give_way_to_one_that_has_all_validated() {
    let mut tier = Tier::new();
    tier.text("a", "x");
    let long = |at: u64| url(&format!("{at}/{}", "x".repeat(200_000)));
    let written: Vec<_> = (1..100).map(|at| tier.disk().purged(at, &long(at))).collect();
    written.into_iter().for_each(|it| it.wait().unwrap());
    tier.close();
    assert!(fs::metadata(tier.path().join("purges")).unwrap().len() <= 8 << 20);
    tier.open().unwrap();
    let restored = tier.disk().restored();
    assert_eq!(99, restored.last_seq);
    assert_eq!(Some(&(99, long(99))), restored.rules.last());
    let (first, rest) = restored.rules.split_first().unwrap();
    assert_eq!((Scope::All, Strength::Validate), (first.1.scope.clone(), first.1.strength));
    assert_eq!(99 - first.0, rest.len() as u64, "none is missing behind it");
}

#[test]
fn a_purge_that_is_too_large_has_all_validated() {
    let mut tier = Tier::new();
    tier.text("a", "x");
    tier.disk().purged(1, &url(&"x".repeat(2 << 20))).wait().unwrap();
    tier.restart();
    assert!(doubts(&tier, 1));
}

#[test]
fn where_a_removal_may_be_lost_everything_is_validated() {
    for damage in ["beginning", "end", "middle"] {
        let mut tier = Tier::new();
        (0..40).for_each(|at| tier.put(&format!("k{at}"), blob(at, 5000)));
        assert!(!doubts(&tier, 1));
        tier.close();
        let path = &tier.segments()[1];
        let whole = fs::read(path).unwrap();
        match damage {
            "beginning" => fs::write(path, [&[0; 64], &whole[64..]].concat()).unwrap(),
            "end" => fs::write(path, &whole[..whole.len() / 2]).unwrap(),
            // The footer is gone as well: what was between two records cannot be told.
            _ => fs::write(path, [&whole[..10_000], &[0; 100], &whole[10_100..whole.len() - 9]].concat())
                .unwrap(),
        }
        tier.open().unwrap();
        assert!(doubts(&tier, 1), "{damage}");
        tier.restart();
        assert!(doubts(&tier, 1), "{damage}: it is written down");
        let last = tier.disk().restored().last_seq;
        tier.restart();
        assert_eq!(last, tier.disk().restored().last_seq, "{damage}: once is enough");
    }
}
