//! Files that were truncated, changed, swapped or written by another program: right bytes or none.

use super::*;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Keys, and how many bytes their bodies have: on both sides of the heap line.
const BODIES: usize = 80;

fn length(at: usize) -> usize {
    [10, 900, 1500, 9000][at % 4] + at
}

fn filled() -> Tier {
    let tier = Tier::new();
    for at in 0..BODIES {
        tier.disk().write(format!("k{at}").as_bytes(), &blob(at as u64, length(at)));
    }
    tier.disk().flush().wait().unwrap();
    tier
}

/// How many are still there; panics where one has other bytes than it should.
fn count(tier: &Tier) -> usize {
    let right = |at: &usize| match tier.get(&format!("k{at}")) {
        Some(bytes) => {
            assert!(bytes == noise(*at as u64, length(*at)), "k{at} has other bytes");
            true
        }
        None => false,
    };
    (0..BODIES).filter(right).count()
}

/// Copies the directory of a filled tier, damages it, and opens it; says how many are left.
fn after(tier: &Tier, damage: impl FnOnce(&[std::path::PathBuf])) -> usize {
    let mut other = Tier::new();
    other.close();
    fs::remove_dir_all(other.path()).unwrap();
    fs::create_dir(other.path()).unwrap();
    for entry in fs::read_dir(tier.path()).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, other.path().join(from.file_name().unwrap())).unwrap();
    }
    damage(&other.segments());
    other.open().unwrap();
    assert_eq!(super::super::DiskState::On, other.disk().state());
    let found = count(&other);
    // What was damaged is forgotten, and what is left is kept.
    other.restart();
    assert_eq!(found, count(&other));
    other.text("new", "x");
    assert_eq!(Some(b"x".to_vec()), other.get("new"));
    found
}

fn closed() -> Tier {
    let mut tier = filled();
    tier.close();
    assert!(tier.segments().len() > 2);
    tier
}

#[test]
fn undamaged_segments_are_restored_completely() {
    assert_eq!(BODIES, after(&closed(), |_| ()));
}

#[test]
fn a_cut_segment_loses_its_end_only() {
    let tier = closed();
    for (at, path) in tier.segments().iter().enumerate() {
        let whole = fs::metadata(path).unwrap().len();
        for part in [0, 1, 63, 64, 100, whole / 3, whole / 2, whole - 49, whole - 1] {
            let left = after(&tier, |it| {
                fs::File::options().write(true).open(&it[at]).unwrap().set_len(part.min(whole)).unwrap();
            });
            assert!(left >= BODIES / 4, "{left} are left of a cut to {part} of {whole}");
        }
    }
}

#[test]
fn a_turned_bit_loses_one_response_at_most() {
    let tier = closed();
    for step in 0..150u64 {
        let left = after(&tier, |it| {
            let path = &it[usize::try_from(step).unwrap() % it.len()];
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            // Beyond the beginning of the file, without which it is none of ours.
            let place = 64 + step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (length - 64);
            let mut byte = [0];
            file.read_exact_at(&mut byte, place).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (step % 8)], place).unwrap();
        });
        assert!(left >= BODIES - 1, "{left} are left");
    }
}

#[test]
fn zeros_are_no_responses() {
    let tier = closed();
    for step in 0..20 {
        let left = after(&tier, |it| {
            let file = fs::File::options().write(true).open(&it[step % it.len()]).unwrap();
            file.write_all_at(&[0; 4096], 3000 * (step as u64 / 2)).unwrap();
        });
        assert!(left >= BODIES / 4, "{left} are left");
    }
}

#[test]
fn swapped_segments_are_not_taken_for_each_other() {
    let left = after(&closed(), |it| {
        let aside = it[0].with_extension("aside");
        fs::rename(&it[0], &aside).unwrap();
        fs::rename(&it[1], &it[0]).unwrap();
        fs::rename(&aside, &it[1]).unwrap();
    });
    assert!(left < BODIES && left > 0, "{left} are left");
}

#[test]
fn a_copied_segment_is_not_taken_for_another() {
    let left = after(&closed(), |it| {
        fs::copy(&it[0], &it[1]).unwrap();
    });
    assert!(left < BODIES && left > 0, "{left} are left");
}

#[test]
fn segments_of_another_directory_are_not_read() {
    let (one, other) = (closed(), closed());
    let left = after(&one, |it| {
        for (to, from) in it.iter().zip(other.segments()) {
            fs::copy(from, to).unwrap();
        }
    });
    assert_eq!(0, left);
}

#[test]
fn a_file_with_only_the_name_of_a_segment_is_ignored() {
    for kind in ["noise", "empty", "directory", "link", "fifo"] {
        let left = after(&closed(), |it| {
            let path = it[0].with_file_name("0000009999.segment");
            match kind {
                "noise" => fs::write(path, noise(1, 100_000)).unwrap(),
                "empty" => fs::write(path, []).unwrap(),
                "directory" => fs::create_dir(path).unwrap(),
                "link" => std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
                _ => assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
            }
        });
        assert_eq!(BODIES, left, "{kind}");
    }
}

#[test]
fn a_damaged_marker_empties_the_tier() {
    let tier = closed();
    for text in ["", "larder disk tier, version 1\nseed 0000000000000000\nsum 0\n"] {
        let left = after(&tier, |it| fs::write(it[0].with_file_name("larder-disk"), text).unwrap());
        assert_eq!(0, left);
    }
}

#[test]
fn a_segment_damaged_at_runtime_is_not_served() {
    for damage in ["cut", "turn", "zero", "empty"] {
        let tier = filled();
        assert_eq!(BODIES, count(&tier));
        let paths = tier.segments();
        for path in &paths {
            let file = fs::File::options().read(true).write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            match damage {
                "cut" => file.set_len(length / 2).unwrap(),
                "empty" => file.set_len(0).unwrap(),
                "zero" => file.write_all_at(&vec![0; 30_000], 10_000).unwrap(),
                _ => (64..length).step_by(500).for_each(|it| file.write_all_at(b"!", it).unwrap()),
            }
        }
        assert!(count(&tier) < BODIES, "{damage}");
        assert!(tier.counters.disk_corrupt.get() > 0);
        let in_last = tier.get(&format!("k{}", BODIES - 1));
        assert_eq!(None, in_last, "{damage}: a large body of the segment that was being written to");
        tier.put("after", blob(7, 9000));
        assert!(tier.segments().len() > paths.len(), "{damage}: that is written to no more");
        assert_eq!(Some(noise(7, 9000)), tier.get("after"));
    }
}

/// As on a device that turns bits: nothing tells of it but the bytes.
#[test]
fn a_silently_changed_body_is_not_served() {
    for size in [1500, 20_000, 200_000] {
        let tier = Tier::sized(8 << 20, 1 << 20);
        tier.put("a", blob(1, size));
        let path = tier.segments().remove(0);
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        let mut byte = [0];
        let place = file.metadata().unwrap().len() - size as u64 / 2;
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 1], place).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(written)).unwrap();
        assert_eq!(None, tier.get("a"), "{size}");
        assert_eq!(1, tier.counters.disk_corrupt.get());
    }
}

/// The time of its last write is no proof that there was none since: anybody may set it.
#[test]
fn a_verified_body_is_verified_again_if_its_file_time_was_set() {
    let tier = Tier::sized(8 << 20, 1 << 20);
    tier.put("a", blob(1, 200_000));
    let path = tier.segments().remove(0);
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    assert_eq!(Some(noise(1, 200_000)), tier.get("a"));
    file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&path, tier.directory.path().join("backup")).unwrap();
    assert_eq!(Some(noise(1, 200_000)), tier.get("a"), "nobody has written to it");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100_000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 100_000).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(written)).unwrap();
    assert_eq!(None, tier.get("a"));
    assert_eq!(1, tier.counters.disk_corrupt.get());
}

/// Who is being sent a body must not get a mix of what was verified and what somebody wrote since.
#[test]
fn a_body_that_another_process_overwrites_is_not_sent_on() {
    let tier = Tier::sized(8 << 20, 1 << 20);
    tier.put("a", blob(1, 200_000));
    let StoredBody::Disk(slice) = tier.read("a", &[]).unwrap().body else { panic!("a large one") };
    let path = tier.segments().remove(0);
    fs::hard_link(&path, tier.directory.path().join("backup")).unwrap();
    fs::remove_file(&path).unwrap();
    tier.put("b", blob(2, 9000));
    assert!(slice.owner.is_intact(), "another name, or none, or what we append to it, is none of its bytes");
    let file = fs::File::options().write(true).open(tier.directory.path().join("backup")).unwrap();
    file.write_all_at(b"!", 100_000).unwrap();
    assert!(!slice.owner.is_intact());
}

/// Each part is looked at where it is sent from: what somebody writes there after it was verified goes to nobody.
#[test]
fn a_part_overwritten_while_the_body_is_sent_is_not_sent() {
    for (place, is_sent) in [(10_000, 0), (100_000, 1), (199_999, 3)] {
        let tier = Tier::sized(8 << 20, 1 << 20);
        tier.put("a", blob(1, 200_000));
        let StoredBody::Disk(slice) = tier.read("a", &[]).unwrap().body else { panic!("a large one") };
        let path = tier.segments().remove(0);
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        let times = file.metadata().unwrap().modified().unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, slice.offset + place).unwrap();
        file.write_all_at(&[byte[0] ^ 1], slice.offset + place).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(times)).unwrap();
        let (mut sent, mut parts) = (Vec::new(), 0);
        let mut next = |at: u64| {
            let mut more = 0;
            slice.owner.lend(slice.offset + at, usize::MAX, &mut |bytes| {
                sent.extend_from_slice(bytes);
                more = bytes.len() as u64;
            })?;
            parts += 1;
            Ok::<_, io::Error>(more)
        };
        let mut at = 0;
        while let Ok(more) = next(at) {
            at += more;
            assert!(at < 200_000, "{place}: all of it was lent");
        }
        assert_eq!(is_sent, parts);
        assert!(noise(1, 200_000).starts_with(&sent), "{place}");
        assert_eq!((false, 1), (tier.disk().knows(b"a"), tier.counters.disk_corrupt.get()), "{place}");
    }
}

#[test]
fn only_a_verified_body_in_memory_is_read_without_waiting() {
    let tier = Tier::new();
    for key in ["first", "second", "third"] {
        tier.put(key, blob(1, 16_000));
    }
    let (path, calls) = (tier.segments().remove(0), Syscalls::default());
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let place = |key| match tier.read(key, &[]).unwrap().body {
        StoredBody::Disk(it) => (it.offset, it.length),
        _ => panic!("a large one"),
    };
    let is_there = |(offset, length)| calls.resident(file.as_fd(), offset, length);
    if calls.resident(file.as_fd(), 0, 4096) {
        return; // A file system that is memory itself.
    }
    let first = place("first");
    assert!(is_there(first), "it was verified");
    let second = (first.0 + first.1 + 4096, first.1 - 8192);
    assert!(!is_there(second), "its neighbour was not, and may have rotten");
    assert!(is_there(place("second")));
}

#[test]
fn a_head_that_is_damaged_is_dropped_and_counted() {
    let tier = filled();
    let path = &tier.segments()[0];
    fs::File::options().write(true).open(path).unwrap().write_all_at(b"?????", 64 + 90).unwrap();
    assert_eq!(None, tier.get("k0"));
    assert!(!tier.disk().knows(b"k0"));
    assert_eq!(1, tier.counters.disk_corrupt.get());
}
