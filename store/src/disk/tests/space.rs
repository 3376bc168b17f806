//! The size limit holds, used records stay, and records that are being read are not removed.

use super::*;
use std::os::unix::fs::MetadataExt;

/// Bytes of all files, by the kernel's count.
fn on_disk(tier: &Tier) -> u64 {
    let entries = std::fs::read_dir(tier.path()).unwrap();
    // One may go while they are looked at.
    entries.filter_map(|it| it.ok()?.metadata().ok()).map(|it| it.blocks() * 512).sum()
}

#[test]
fn the_size_is_never_exceeded() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    let mut held = Vec::new();
    for at in 0..400u64 {
        tier.put(&format!("k{at}"), blob(at, 200 + usize::try_from(at * 97 % 30_000).unwrap()));
        assert!(tier.disk().bytes() <= 1 << 20, "{}", tier.disk().bytes());
        // Blocks are whole, and there are a marker, a lock and a journal.
        assert!(on_disk(&tier) <= (1 << 20) + (64 << 10), "{}", on_disk(&tier));
        if at % 7 == 0 {
            held.extend(tier.read(&format!("k{at}"), &[]));
        }
        if held.len() > 5 {
            held.clear();
        }
    }
    assert!(tier.counters.disk_segments_dropped.get() > 20);
    assert!(tier.disk().bytes() > 512 << 10, "most of it is used");
}

#[test]
fn the_oldest_goes_and_the_newest_stays() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    (0..300).for_each(|at| tier.put(&format!("k{at}"), blob(at, 10_000)));
    assert_eq!(None, tier.get("k0"));
    for at in 250..300 {
        assert_eq!(Some(noise(at, 10_000)), tier.get(&format!("k{at}")));
    }
}

#[test]
fn used_responses_are_written_again_before_their_segment_is_dropped() {
    let mut tier = Tier::sized(1 << 20, 64 << 10);
    for at in 0..600 {
        tier.put(&format!("k{at}"), blob(at, 10_000));
        for hot in 0..3 {
            if at >= 3 {
                assert_eq!(Some(noise(hot, 10_000)), tier.get(&format!("k{hot}")), "k{hot} after {at}");
            }
        }
    }
    assert!(tier.counters.disk_reappended.get() > 10);
    tier.restart();
    for hot in 0..3 {
        assert_eq!(Some(noise(hot, 10_000)), tier.get(&format!("k{hot}")));
    }
}

#[test]
fn a_removed_response_is_not_restored_by_being_written_again() {
    let mut tier = Tier::sized(1 << 20, 64 << 10);
    for at in 0..600 {
        tier.put(&format!("k{at}"), blob(at, 10_000));
        let _ = tier.get("k0");
        if at == 300 {
            tier.disk().remove(b"k0");
        }
        assert_eq!(at < 300, tier.disk().knows(b"k0"), "at {at}");
    }
    tier.restart();
    assert_eq!(None, tier.get("k0"));
}

#[test]
fn writing_again_does_not_spin_where_everything_is_used() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    let written = 150;
    for at in 0..written {
        tier.put(&format!("k{at}"), blob(at, 10_000));
        (0..=at).filter(|it| tier.disk().knows(format!("k{it}").as_bytes())).for_each(|it| {
            assert_eq!(Some(noise(it, 10_000)), tier.get(&format!("k{it}")));
        });
        assert!(tier.get(&format!("k{at}")).is_some(), "what is new is taken all the same");
    }
    let again = tier.counters.disk_reappended.get();
    assert!(again <= written, "{again} written again for {written}");
}

#[test]
fn a_segment_with_a_reader_stays_and_other_segments_are_dropped() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    tier.put("a", blob(1, 30_000));
    let held = tier.read("a", &[]).unwrap();
    (0..300).for_each(|at| tier.put(&format!("k{at}"), blob(at, 10_000)));
    assert_eq!(noise(1, 30_000), contents(&held.body));
    assert_eq!(None, tier.get("k20"), "its neighbours are gone");
    assert_eq!(Some(noise(1, 30_000)), tier.get("a"));
    drop(held);
    (0..300).for_each(|at| tier.put(&format!("l{at}"), blob(at, 10_000)));
    (0..300).for_each(|at| tier.put(&format!("m{at}"), blob(at, 10_000)));
    assert_eq!(None, tier.get("a"), "nobody reads it any more");
}

#[test]
fn a_removal_is_not_dropped_before_the_record_that_it_removes() {
    let mut tier = Tier::sized(1 << 20, 64 << 10);
    tier.put("a", blob(1, 30_000));
    let held = tier.read("a", &[]).unwrap();
    (0..10).for_each(|at| tier.put(&format!("k{at}"), blob(at, 10_000)));
    tier.disk().remove(b"a");
    // The segment with the removal is dropped; the one that is read would be passed over.
    (0..300).for_each(|at| tier.put(&format!("l{at}"), blob(at, 10_000)));
    assert_eq!(noise(1, 30_000), contents(&held.body));
    drop(held);
    tier.restart();
    assert_eq!(None, tier.get("a"));
}

#[test]
fn a_reader_of_an_unlinked_segment_finishes() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    tier.put("a", blob(1, 30_000));
    let held = tier.read("a", &[]).unwrap();
    let before = tier.disk().bytes();
    std::fs::remove_dir_all(tier.path()).unwrap();
    let rule = super::journal::rule(crate::purges::PurgeScope::All);
    assert!(tier.disk().purged(1, &rule).wait().is_err(), "it is noticed");
    tier.heal();
    assert_eq!(0, tier.disk().objects());
    assert_eq!(noise(1, 30_000), contents(&held.body));
    assert!(tier.disk().bytes() > before, "it is counted");
    drop(held);
    assert!(tier.disk().bytes() <= before);
}

#[test]
fn segments_held_by_readers_are_counted_and_released() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    let mut held = Vec::new();
    let mut at = 0;
    // Readers take everything that there is.
    while tier.counters.disk_no_room.get() == 0 {
        let key = format!("k{at}");
        tier.put(&key, blob(at, 30_000));
        held.extend(tier.read(&key, &[]));
        assert!(tier.disk().bytes() <= 1 << 20, "{}", tier.disk().bytes());
        at += 1;
        assert!(at < 1000, "the promise is broken");
    }
    for (at, it) in held.iter().enumerate() {
        assert_eq!(noise(at as u64, 30_000), contents(&it.body));
    }
    assert_eq!(super::super::DiskState::On, tier.disk().state(), "that is no failure");
    held.clear();
    tier.text("new", "x");
    assert_eq!(Some(b"x".to_vec()), tier.get("new"));
}

#[test]
fn a_removal_is_kept_where_readers_hold_all_room() {
    let mut tier = Tier::sized(1 << 20, 64 << 10);
    tier.text("gone", "x");
    let mut held = Vec::new();
    for at in 0..1000 {
        let key = format!("k{at}");
        tier.put(&key, blob(at, 60_000));
        held.extend(tier.read(&key, &[]));
        if tier.counters.disk_no_room.get() > 0 {
            break;
        }
    }
    let last = held.len() - 1;
    let key = format!("k{last}");
    // Until the active segment is full of removals as well.
    for _ in 0..3000 {
        tier.disk().remove(b"other");
    }
    tier.disk().remove(key.as_bytes());
    let _ = tier.disk().flush().wait();
    held.clear();
    tier.heal();
    tier.restart();
    assert_eq!(None, tier.get(&key));
}

#[test]
fn a_response_larger_than_a_segment_is_not_written() {
    let tier = Tier::new();
    tier.put("a", blob(1, 70_000));
    tier.put("b", blob(2, (64 << 10) - 100));
    assert_eq!(2, tier.counters.disk_too_large.get());
    tier.put("c", blob(3, 64_000));
    assert_eq!(Some(noise(3, 64_000)), tier.get("c"));
}

#[test]
fn a_full_queue_takes_nothing_and_waits_for_nothing() {
    let mut tier = Tier::new();
    tier.close();
    tier.settings.queue = 100_000;
    tier.settings.size = 64 << 20;
    tier.open().unwrap();
    (0..2000).for_each(|at| tier.disk().write(format!("k{at}").as_bytes(), &blob(at, 30_000)));
    assert!(tier.disk().queued() <= 100_000);
    tier.disk().flush().wait().unwrap();
    let (full, written) = (tier.counters.disk_queue_full.get(), tier.counters.disk_writes.get());
    assert_eq!(2000, full + written);
    assert!(full > 0 && written > 0);
}

#[test]
fn a_smaller_size_is_kept_after_a_restart() {
    let mut tier = Tier::sized(4 << 20, 64 << 10);
    (0..200).for_each(|at| tier.put(&format!("k{at}"), blob(at, 10_000)));
    tier.close();
    tier.settings.size = 1 << 20;
    tier.open().unwrap();
    assert!(tier.disk().bytes() <= 1 << 20);
    assert_eq!(Some(noise(199, 10_000)), tier.get("k199"));
}

#[test]
fn a_device_that_is_smaller_than_the_size_goes_round() {
    let mut tier = Tier::sized(1 << 20, 64 << 10);
    tier.calls.faults.has_room_for(Some(5));
    for at in 0..300 {
        tier.put(&format!("k{at}"), blob(at, 10_000));
        assert_eq!(Some(noise(at, 10_000)), tier.get(&format!("k{at}")), "what is new is taken");
        assert_eq!(super::super::DiskState::On, tier.disk().state(), "k{at}");
    }
    assert!(tier.segments().len() >= 4 && tier.disk().is_device_full());
    assert!(tier.counters.disk_device_full_drops.get() > 20);
    assert_eq!((0, 0), (tier.counters.disk_off_skipped.get(), tier.counters.disk_failures.get()));
    tier.disk().remove(b"k299").wait().unwrap();
    tier.calls.faults.has_room_for(None);
    (0..60).for_each(|at| tier.put(&format!("l{at}"), blob(at, 10_000)));
    assert!(tier.segments().len() > 10 && !tier.disk().is_device_full());
    tier.restart();
    assert!(tier.get("k299").is_none() && tier.get("k298").is_some() && tier.get("l59").is_some());
}

#[test]
fn a_device_filled_by_other_programs_keeps_a_quarter_of_the_tier() {
    let tier = Tier::sized(1 << 20, 64 << 10);
    (0..60).for_each(|at| tier.put(&format!("k{at}"), blob(at, 10_000)));
    let before = tier.segments().len();
    tier.calls.faults.has_room_for(Some(0));
    for at in 0..200 {
        tier.put(&format!("l{at}"), blob(at, 10_000));
        larder_stdx::clock::tick();
        tier.disk().look();
        let _ = tier.disk().flush().wait();
    }
    assert_ne!(super::super::DiskState::On, tier.disk().state());
    assert_eq!(before.div_ceil(4), tier.segments().len(), "of {before}");
    assert_eq!(Some(noise(59, 10_000)), tier.get("k59"), "what is there is read");
    tier.calls.faults.has_room_for(None);
    tier.heal();
    tier.text("new", "x");
    assert_eq!(Some(b"x".to_vec()), tier.get("new"));
}
