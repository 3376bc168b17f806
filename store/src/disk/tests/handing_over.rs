//! The directory goes to another process and comes back: nothing is lost, and no purge is.

use super::journal::rule;
use super::*;
use crate::disk::{DiskState, rules_of_bytes, rules_to_bytes};
use crate::purges::PurgeScope;

/// A tier of another process on the same directory.
fn other(tier: &Tier) -> Arc<DiskTier> {
    DiskTier::open(tier.settings.clone(), Arc::default()).unwrap()
}

fn found(tier: &Tier, disk: &DiskTier, key: &str) -> Option<Vec<u8>> {
    tier.runtime.block_on(disk.read(key.as_bytes(), &[])).map(|it| contents(&it.body))
}

#[test]
fn the_other_process_has_everything_and_then_this_one_again() {
    let tier = Tier::new();
    (0..40).for_each(|at| tier.put(&format!("k{at}"), blob(at, 5000)));
    let sending = tier.read("k39", &[]).unwrap();
    tier.disk().write(b"queued", &blob(100, 100));
    tier.disk().hand_over().wait().unwrap();
    assert!(tier.disk().is_handed_over() && tier.disk().state() == DiskState::HandedOver);
    let theirs = other(&tier);
    assert_eq!(Some(noise(100, 100)), found(&tier, &theirs, "queued"));
    assert_eq!(Some(noise(39, 5000)), found(&tier, &theirs, "k39"));
    // This one finds and writes nothing, and a body in progress stays readable, whatever the other one writes.
    (200..240).for_each(|at| theirs.write(format!("k{at}").as_bytes(), &blob(at, 1000)));
    theirs.flush().wait().unwrap();
    assert_eq!(noise(39, 5000), contents(&sending.body));
    let StoredBody::Disk(slice) = &sending.body else { panic!("it is on the heap") };
    assert!(slice.owner.is_intact());
    tier.text("mine", "not written");
    assert_eq!((None, None), (tier.get("k1"), tier.get("mine")));
    tier.disk().look();
    assert!(tier.disk().is_handed_over(), "no retry takes it");
    // A removal and a purge that reach no other process.
    tier.disk().remove(b"k1").wait().unwrap();
    tier.disk().purged(7, &rule(PurgeScope::Tag("late".into()))).wait().unwrap_err();
    drop(theirs);
    let last = tier.runtime.block_on(tier.disk().take_back()).unwrap();
    assert_eq!((DiskState::On, None), (tier.disk().state(), tier.get("k1")));
    assert_eq!(Some(noise(2, 5000)), tier.get("k2"));
    assert_eq!(Some(noise(200, 1000)), tier.get("k200"));
    assert!(last > 0);
    let mut tier = tier;
    tier.restart();
    let rules = tier.disk().restored().rules;
    assert!(rules.iter().any(|it| it.1.scope == PurgeScope::Tag("late".into())), "{rules:?}");
    assert_eq!((None, Some(noise(2, 5000))), (tier.get("k1"), tier.get("k2")));
    assert_eq!(None, tier.disk().revalidation_reason());
}

#[test]
fn a_directory_that_is_still_in_use_is_retried() {
    let tier = Tier::new();
    tier.text("a", "1");
    tier.disk().hand_over().wait().unwrap();
    let theirs = other(&tier);
    tier.runtime.block_on(tier.disk().take_back()).unwrap();
    assert!(matches!(tier.disk().state(), DiskState::Off(_)));
    drop(theirs);
    tier.heal();
    tier.text("a", "2");
    assert_eq!(Some(b"2".to_vec()), tier.get("a"));
}

#[test]
fn purges_as_bytes_are_the_same_or_none() {
    let rules = [(3, rule(PurgeScope::All)), (5, rule(PurgeScope::Tag("news".into())))];
    let bytes = rules_to_bytes(rules.iter().map(|it| (it.0, &it.1)));
    assert_eq!(Some(rules.to_vec()), rules_of_bytes(&bytes));
    assert_eq!(Some(Vec::new()), rules_of_bytes(b""));
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        assert_eq!(None, rules_of_bytes(&wrong), "{at}");
    }
}
