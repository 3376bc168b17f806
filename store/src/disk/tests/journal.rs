//! Purges come back after a restart; a journal that lost any makes everything be validated.

use super::*;
use crate::entry::StoredArc;
use crate::purges::{Position, PurgeRule, PurgeScope, Strength};
use std::fs;

pub(super) fn rule(scope: PurgeScope) -> PurgeRule {
    PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() }
}

fn url(key: &str) -> PurgeRule {
    rule(PurgeScope::Url(key.as_bytes().into()))
}

/// Whether everything that is older than `seq` must be validated.
fn doubts(tier: &Tier, seq: u64) -> bool {
    let restored = tier.disk().restored();
    let is_doubt = |it: &(u64, PurgeRule)| {
        it.0 >= seq && it.1.scope == PurgeScope::All && it.1.strength >= Strength::Validate
    };
    restored.rules.iter().any(is_doubt) && restored.last_seq >= seq
}

#[test]
fn every_kind_comes_back() {
    let mut tier = Tier::new();
    tier.text("a", "kept, so that the purges are");
    let mut rules: Vec<PurgeRule> = [
        PurgeScope::Url(b"http://a/".as_slice().into()),
        PurgeScope::Prefix(b"http://a/\xff".as_slice().into()),
        PurgeScope::Tag("news".into()),
        PurgeScope::All,
        PurgeScope::Where(larder_semantics::expression::Expression::parse("status == 404").unwrap()),
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
fn a_purge_does_not_wait_for_queued_writes() {
    let tier = Tier::sized(64 << 20, 1 << 20);
    let stored = blob(1, 50_000);
    for at in 0..1000 {
        tier.disk().write(format!("k{at}").as_bytes(), &stored);
    }
    tier.disk().purged(1, &url("a")).wait().unwrap();
    assert!(tier.counters.disk_writes.get() < 900, "most of it still waits");
}

#[test]
fn a_partially_written_purge_is_ignored_after_a_kill() {
    let mut tier = Tier::new();
    tier.text("a", "x");
    tier.disk().purged(1, &url("a")).wait().unwrap();
    let path = tier.path().join("purges");
    let length = fs::metadata(&path).unwrap().len();
    let before = contents_of(&tier);
    tier.disk().purged(2, &url("b")).wait().unwrap();
    tier.close();
    let whole = fs::read(&path).unwrap();
    for cut in usize::try_from(length).unwrap()..whole.len() {
        // It was killed before it could note the purge in the log, and acknowledge it.
        put_back(&tier, &before);
        fs::write(&path, &whole[..cut]).unwrap();
        tier.open().unwrap();
        assert_eq!(vec![(1, url("a"))], tier.disk().restored().rules, "cut to {cut}");
        assert_eq!(None, tier.disk().revalidation_reason(), "cut to {cut}");
        tier.close();
    }
}

/// Every file of the directory, by its name.
type Files = Vec<(std::path::PathBuf, Vec<u8>)>;

fn contents_of(tier: &Tier) -> Files {
    let names = fs::read_dir(tier.path()).unwrap().map(|it| it.unwrap().path());
    names.map(|it| (it.clone(), fs::read(&it).unwrap())).collect()
}

/// Makes the directory what it was.
fn put_back(tier: &Tier, files: &Files) {
    for it in fs::read_dir(tier.path()).unwrap() {
        fs::remove_file(it.unwrap().path()).unwrap();
    }
    files.iter().for_each(|(name, bytes)| fs::write(name, bytes).unwrap());
}

/// The allowed use of a key's records by a process that opens the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Gone,
    Validated,
    AsItIs,
}

fn use_of(tier: &Tier, key: &str) -> Use {
    let settings = crate::ram::RamSettings { budget: 4 << 20, heap_line: 16 << 10, fills: 4 };
    let store = crate::ram::Store::new(settings, Arc::default()).unwrap();
    let restored = tier.disk().restored();
    store.restore(restored.last_seq, restored.rules);
    let Some(kept) = tier.read(key, &[]) else { return Use::Gone };
    match store.admit(key.as_bytes(), kept) {
        None => Use::Gone,
        Some(it) if larder_semantics::purged::is_doubted(&it.meta) => Use::Validated,
        Some(_) => Use::AsItIs,
    }
}

/// The damage to a journal.
enum Damage {
    Missing,
    /// This stands in its place.
    Is(Vec<u8>),
    /// The journal was rewritten, and the new one was never renamed.
    NotRenamed {
        new: Vec<u8>,
        old: Vec<u8>,
    },
}

/// All that may become of a journal that was `whole`, and of which there are older copies; each `step` of its bytes is cut off, or
/// turned.
fn damages(whole: &[u8], older: &[Vec<u8>], step: usize) -> Vec<(String, Damage)> {
    let mut all = vec![("missing".to_owned(), Damage::Missing)];
    for cut in (0..whole.len()).rev().step_by(step) {
        all.push((format!("cut to {cut}"), Damage::Is(whole[..cut].to_vec())));
    }
    for (at, bit) in (0..whole.len()).step_by(step).zip((0..8).cycle()) {
        let mut turned = whole.to_vec();
        turned[at] ^= 1 << bit;
        all.push((format!("bit {bit} of byte {at} is turned"), Damage::Is(turned)));
    }
    for length in [1, 7, 8, 40, 4096] {
        all.push((format!("{length} bytes of noise"), Damage::Is(noise(length as u64, length))));
        let behind = [whole, &noise(9, length)].concat();
        all.push((format!("{length} bytes of noise behind it"), Damage::Is(behind)));
        all.push((format!("{length} zeros behind it"), Damage::Is([whole, &vec![0; length]].concat())));
        let zeroed = [vec![0; length.min(whole.len())], whole[length.min(whole.len())..].to_vec()].concat();
        all.push((format!("its first {length} bytes are zeros"), Damage::Is(zeroed)));
    }
    for (at, old) in older.iter().enumerate() {
        all.push((format!("older copy {at}"), Damage::Is(old.clone())));
        let not_renamed = Damage::NotRenamed { new: whole.to_vec(), old: old.clone() };
        all.push((format!("older copy {at}, and the new one beside it"), not_renamed));
    }
    all
}

#[test]
fn no_damage_of_the_journal_undoes_a_purge() {
    // So many purges of others before the page is stored, and after it was purged.
    for (before, after, step) in [(0, 0, 1), (0, 1, 31), (1, 0, 7), (3, 0, 31), (2, 2, 31)] {
        let mut tier = Tier::new();
        let path = tier.path().join("purges");
        tier.put("kept", born_at(0));
        for seq in 1..=before {
            tier.disk().purged(seq, &url("other")).wait().unwrap();
        }
        tier.put("a", born_at(before));
        let mut older = vec![fs::read(&path).unwrap()];
        tier.disk().purged(before + 1, &url("a")).wait().unwrap();
        for seq in before + 2..=before + 1 + after {
            older.push(fs::read(&path).unwrap());
            tier.disk().purged(seq, &url("other")).wait().unwrap();
        }
        tier.close();
        let whole = contents_of(&tier);
        let journal = fs::read(&path).unwrap();
        tier.open().unwrap();
        assert_eq!((None, Use::Gone), (tier.disk().revalidation_reason(), use_of(&tier, "a")));
        assert_eq!(Use::AsItIs, use_of(&tier, "kept"));
        tier.close();
        for (what, damage) in damages(&journal, &older, step) {
            put_back(&tier, &whole);
            match damage {
                Damage::Missing => fs::remove_file(&path).unwrap(),
                Damage::Is(bytes) => fs::write(&path, bytes).unwrap(),
                Damage::NotRenamed { new, old } => {
                    fs::write(tier.path().join("purges.new"), new).unwrap();
                    fs::write(&path, old).unwrap();
                }
            }
            tier.open().unwrap();
            let what = format!("{before} before, {after} after, {what}");
            assert_ne!(Use::AsItIs, use_of(&tier, "a"), "{what}");
            // What the log says is true, of every page; and it is true in the next process still.
            let expect =
                if tier.disk().revalidation_reason().is_some() { Use::Validated } else { Use::AsItIs };
            assert_eq!(expect, use_of(&tier, "kept"), "{what}: {:?}", tier.disk().revalidation_reason());
            tier.restart();
            assert_ne!(Use::AsItIs, use_of(&tier, "a"), "{what}, and a restart");
            assert_eq!(expect, use_of(&tier, "kept"), "{what}, and a restart");
            assert_eq!(None, tier.disk().revalidation_reason(), "{what}: once is enough");
            tier.close();
        }
    }
}

#[test]
fn a_purge_that_comes_after_a_doubt_has_a_number_of_its_own() {
    let mut tier = Tier::new();
    tier.put("a", born_at(5));
    tier.close();
    fs::remove_file(tier.path().join("purges")).unwrap();
    tier.open().unwrap();
    assert_eq!(Use::Validated, use_of(&tier, "a"));
    // What is fetched from now on was requested after that: the number that the next process begins with is above it.
    let last = tier.disk().restored().last_seq;
    assert!(last > 5, "{last}");
    tier.put("b", born_at(last + 1));
    tier.disk().purged(last + 2, &url("b")).wait().unwrap();
    tier.restart();
    assert_eq!((Use::Validated, Use::Gone), (use_of(&tier, "a"), use_of(&tier, "b")));
}

#[test]
fn the_log_notes_the_last_purge_in_every_segment() {
    let mut tier = Tier::sized(512 << 10, 64 << 10);
    let path = tier.path().join("purges");
    tier.put("a", born_at(0));
    let older = fs::read(&path).unwrap();
    tier.disk().purged(1, &url("a")).wait().unwrap();
    // The segment in which the purge was noted first goes; those that begin after it say the same.
    (0..40).for_each(|at| tier.put(&format!("k{at}"), blob(at, 20_000)));
    assert!(tier.counters.disk_segments_dropped.get() > 0);
    assert!(tier.get("a").is_none());
    tier.close();
    fs::write(&path, older).unwrap();
    tier.open().unwrap();
    assert!(tier.disk().revalidation_reason().is_some() && doubts(&tier, 2));
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
        restored.rules.iter().all(|it| it.1.scope == PurgeScope::Url(Box::default())),
        "nothing is purged by it"
    );
}

fn born_at(seq: u64) -> StoredArc {
    let stored = crate::sample::owned(sample::plain(sample::text("x")));
    let epoch = PurgeEpoch { seq, ..PurgeEpoch::default() };
    StoredArc::new(stored.with_purge_facts(PurgeFacts { epoch, ..PurgeFacts::default() }))
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
    assert_eq!((PurgeScope::All, Strength::Validate), (first.1.scope.clone(), first.1.strength));
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
fn a_possibly_lost_removal_makes_the_tier_validate() {
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
