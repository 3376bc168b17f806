//! Accepted directories, and the errors about others.

use super::*;
use std::fs;

/// The sentence that opening this directory gives.
#[track_caller]
fn refused(tier: &Tier, path: &Path) -> String {
    let settings = DiskSettings { path: path.into(), ..tier.settings.clone() };
    DiskTier::open(settings, Arc::default()).err().expect("it was taken").to_string()
}

#[test]
fn two_never_share_a_directory() {
    let tier = Tier::new();
    let message = refused(&tier, tier.path());
    assert!(message.contains("is used by another process"), "{message}");
    drop(tier.disk);
    let again = DiskTier::open(tier.settings.clone(), Arc::default());
    assert!(again.is_ok(), "it is free again");
}

#[test]
fn a_directory_with_foreign_files_is_refused_and_left_unchanged() {
    let tier = Tier::new();
    let path = tier.directory.path().join("home");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter.txt"), "dear").unwrap();
    let message = refused(&tier, &path);
    assert!(message.contains("contains other files (letter.txt)"), "{message}");
    assert_eq!(1, fs::read_dir(&path).unwrap().count());
}

#[test]
fn our_own_files_without_their_marker_are_given_up_and_not_called_foreign() {
    let mut tier = Tier::new();
    tier.text("a", "one");
    tier.close();
    fs::remove_file(tier.path().join("larder-disk")).unwrap();
    tier.open().unwrap();
    assert_eq!(None, tier.get("a"), "nobody can tell whether it is right");
    tier.text("b", "two");
    tier.restart();
    assert_eq!(Some(b"two".to_vec()), tier.get("b"));
    // Without our lock nobody knows whose they are.
    tier.close();
    for it in ["larder-disk", "larder-disk.lock"] {
        fs::remove_file(tier.path().join(it)).unwrap();
    }
    let message = refused(&tier, tier.path());
    assert!(message.contains("is not a disk tier"), "{message}");
    assert!(!tier.segments().is_empty());
}

#[test]
fn a_directory_of_another_version_is_refused() {
    let mut tier = Tier::new();
    tier.close();
    let text = "larder disk tier, version 7\nseed whatever";
    let sum = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    fs::write(tier.path().join("larder-disk"), format!("{text}\nsum {sum:016x}\n")).unwrap();
    let text = refused(&tier, tier.path());
    assert!(text.contains("another version of larder (format 7, this version uses 1)"), "{text}");
}

#[test]
fn an_unusable_path_is_refused_with_its_reason() {
    let tier = Tier::new();
    let message = refused(&tier, &tier.directory.path().join("no/where"));
    assert!(message.contains("the parent directory does not exist"), "{message}");
    fs::write(tier.directory.path().join("file"), "").unwrap();
    let message = refused(&tier, &tier.directory.path().join("file"));
    assert!(message.contains("is not a directory"), "{message}");
}

#[test]
fn a_directory_that_vanishes_is_made_again() {
    let tier = Tier::sized(4 << 20, 64 << 10);
    tier.text("a", "one");
    fs::remove_dir_all(tier.path()).unwrap();
    // The segment that is open takes what fits; the next one has no place.
    let mut round = 0;
    while tier.disk().state() == super::super::DiskState::On {
        tier.put(&format!("k{round}"), blob(round, 20_000));
        round += 1;
        assert!(round < 20, "nobody noticed");
    }
    tier.heal();
    assert_eq!(None, tier.get("a"), "it begins with nothing");
    tier.text("b", "two");
    assert_eq!(Some(b"two".to_vec()), tier.get("b"));
    assert!(!tier.segments().is_empty());
}

#[test]
fn a_purge_is_not_acknowledged_by_a_file_without_a_name() {
    let tier = Tier::new();
    fs::remove_dir_all(tier.path()).unwrap();
    let rule = super::journal::rule(crate::purges::PurgeScope::All);
    assert!(tier.disk().purged(1, &rule).wait().is_err());
    tier.heal();
    assert!(tier.disk().purged(2, &rule).wait().is_ok());
}
