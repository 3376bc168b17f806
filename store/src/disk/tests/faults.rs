//! Every call to the file system fails once, and then all of them for a while: nothing wrong is served, nothing that was
//! removed comes back unnoticed, and the tier is well again afterwards.

use super::*;
use crate::purges::{PurgeScope, Strength};

const ROUNDS: u64 = 24;

/// Sizes on both sides of the heap line; three segments in all.
fn length(at: u64) -> usize {
    if at % 2 == 0 { 300 } else { 12_000 }
}

#[track_caller]
fn check(tier: &Tier, at: u64) -> bool {
    let found = tier.get(&format!("k{at}"));
    assert!(found.as_ref().is_none_or(|it| *it == noise(at, length(at))), "k{at} has other bytes");
    found.is_some()
}

/// Whether the next process must validate everything.
fn doubts(tier: &Tier) -> bool {
    let rules = tier.disk().restored().rules;
    rules.iter().any(|it| it.1.scope == PurgeScope::All && it.1.strength == Strength::Validate)
}

/// A day in the life of a tier; how many calls it makes.
#[track_caller]
fn live(fail: Option<Fail>) -> u64 {
    // Bringing some bytes to a device a thousand times is what would take long.
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut tier = Tier::within(memory, 256 << 10, 64 << 10);
    tier.text("before", "x");
    tier.close();
    tier.calls.faults.plan(fail);
    // What fails at the start is an error for nobody.
    if let Err(error) = tier.open() {
        panic!("{error}");
    }
    let rule = super::journal::rule(PurgeScope::Url(b"k1".as_slice().into()));
    let mut purged = false;
    for at in 0..ROUNDS {
        tier.put(&format!("k{at}"), blob(at, length(at)));
        check(&tier, at);
        if at == 5 {
            tier.disk().remove(b"k5");
            assert!(!check(&tier, 5), "it is removed");
        }
        if at == 6 {
            purged = tier.disk().purged(7, &rule).wait().is_ok();
        }
        check(&tier, at / 2);
        larder_stdx::clock::tick();
        tier.disk().look();
    }
    let calls = tier.calls.faults.calls();
    tier.heal();
    tier.text("healed", "y");
    assert_eq!(Some(b"y".to_vec()), tier.get("healed"));
    assert!(!check(&tier, 5), "it stays removed");
    tier.restart();
    (0..ROUNDS).filter(|it| *it != 5).for_each(|at| {
        let _ = check(&tier, at);
    });
    assert!(!check(&tier, 5) || doubts(&tier), "a removal is forgotten");
    let restored = tier.disk().restored();
    let is_known = restored.rules.iter().any(|it| *it == (7, rule.clone()));
    assert!(!purged || is_known || doubts(&tier) || tier.disk().objects() < 2, "a purge is forgotten");
    calls
}

#[test]
fn a_run_without_injected_faults_succeeds() {
    assert!(live(None) > 100);
}

#[test]
fn every_call_may_fail_once() {
    let calls = live(None);
    for first in 1..=calls {
        for errno in [Errno::NOSPC, Errno::IO] {
            live(Some(Fail { first, count: 1, errno }));
        }
    }
}

#[test]
fn every_call_may_be_the_first_of_many_that_fail() {
    let calls = live(None);
    for first in 1..=calls {
        for (errno, count) in [(Errno::NOSPC, u64::MAX), (Errno::MFILE, 40), (Errno::ROFS, 7)] {
            live(Some(Fail { first, count, errno }));
        }
    }
}

#[test]
fn a_write_failure_turns_the_tier_off_with_its_reason() {
    let tier = Tier::new();
    tier.text("a", "one");
    tier.calls.faults.plan(Some(Fail { first: 1, count: u64::MAX, errno: Errno::NOSPC }));
    tier.text("b", "two");
    let super::super::DiskState::Off(why) = tier.disk().state() else { panic!("it is on") };
    assert!(why.contains("No space left on device"), "{why}");
    assert_eq!((1, 1), (tier.counters.disk_failures.get(), tier.counters.disk_off.get()));
    let calls = tier.calls.faults.calls();
    (0..100).for_each(|at| tier.text(&format!("k{at}"), "x"));
    assert_eq!(100, tier.counters.disk_off_skipped.get());
    assert_eq!(calls, tier.calls.faults.calls(), "nothing is tried meanwhile");
    tier.heal();
    assert_eq!(0, tier.counters.disk_off.get());
    tier.text("c", "three");
    assert_eq!(Some(b"three".to_vec()), tier.get("c"));
    assert_eq!(Some(b"one".to_vec()), tier.get("a"), "what was there is there");
}

/// Files are opened by the descriptor of the directory: a path that leads nowhere is noticed by the next start.
#[test]
fn a_directory_that_is_renamed_stays_in_use() {
    let mut tier = Tier::new();
    tier.text("before", "one");
    let elsewhere = tier.directory.path().join("elsewhere");
    std::fs::rename(tier.path(), &elsewhere).unwrap();
    // More than one segment.
    (0..6).for_each(|at| tier.put(&format!("k{at}"), blob(at, 30_000)));
    assert_eq!(super::super::DiskState::On, tier.disk().state());
    assert_eq!(Some(b"one".to_vec()), tier.get("before"));
    tier.close();
    std::fs::rename(&elsewhere, tier.path()).unwrap();
    tier.open().unwrap();
    assert_eq!(Some(b"one".to_vec()), tier.get("before"));
    assert!(tier.get("k5").is_some());
}

#[test]
fn stored_responses_are_read_while_writes_fail() {
    let tier = Tier::new();
    tier.text("a", "one");
    // The first call looks whether somebody else has written there.
    tier.calls.faults.plan(Some(Fail { first: 2, count: 1, errno: Errno::NOSPC }));
    tier.text("b", "two");
    assert_ne!(super::super::DiskState::On, tier.disk().state());
    assert_eq!(Some(b"one".to_vec()), tier.get("a"));
}

#[test]
fn a_removal_that_cannot_be_written_holds_after_a_restart() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    tier.calls.faults.plan(Some(Fail { first: 1, count: u64::MAX, errno: Errno::IO }));
    tier.disk().remove(b"a");
    let _ = tier.disk().flush().wait();
    assert_eq!(None, tier.get("a"));
    tier.heal();
    tier.restart();
    assert_eq!(None, tier.get("a"));
}

#[test]
fn a_removal_lost_with_the_process_makes_the_tier_validate() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    // The write fails, and taking the journal away does not.
    tier.calls.faults.plan(Some(Fail { first: 2, count: 1, errno: Errno::NOSPC }));
    tier.disk().remove(b"a");
    let _ = tier.disk().flush().wait();
    tier.restart();
    assert!(doubts(&tier));
}

#[test]
fn a_read_that_fails_is_a_miss() {
    let mut tier = Tier::new();
    tier.put("a", blob(1, 20_000));
    tier.restart();
    tier.calls.faults.plan(Some(Fail { first: 1, count: u64::MAX, errno: Errno::IO }));
    assert_eq!(None, tier.get("a"));
    assert_eq!(1, tier.counters.disk_misses.get());
}
