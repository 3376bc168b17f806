//! A process that writes, reads, removes and purges is killed a hundred times at random moments. Records found afterwards
//! have exactly the bytes of their key and version, no removed one comes back, and no purge is lost.

mod support;

use larder_counters::Counters;
use larder_store::disk::DiskTier;
use larder_store::purges::{PurgeRule, PurgeScope, Strength};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use support::{Random, body, contents, runtime, settings, stored, version};

const ROUNDS: u64 = 100;
const KEYS: u64 = 40;
/// Versions and purges of one round; it is killed long before.
const MOST: u64 = 1_000_000;

fn open(path: &Path) -> Arc<DiskTier> {
    let settings = settings(path, 2 << 20);
    DiskTier::open(settings, Arc::new(Counters::default())).unwrap()
}

fn name(key: u64) -> String {
    format!("http://example.com/{key}")
}

/// The version of a key that is found; panics where its bytes are not that version's.
fn found(disk: &DiskTier, runtime: &tokio::runtime::Runtime, key: u64) -> Option<u64> {
    let stored = runtime.block_on(disk.read(name(key).as_bytes(), &[]))?;
    Some(version(key, &contents(&stored.body).unwrap()))
}

fn rule(key: u64) -> PurgeRule {
    PurgeRule {
        scope: PurgeScope::Url(name(key).into_bytes().into()),
        strength: Strength::Hard,
        positions: Vec::new(),
    }
}

/// Not a test: the process that is killed.
#[test]
fn child() {
    let Ok(path) = std::env::var("LARDER_DISK_KILL") else { return };
    let round: u64 = std::env::var("LARDER_DISK_ROUND").unwrap().parse().unwrap();
    let (disk, runtime) = (open(Path::new(&path)), runtime());
    let mut random = Random(round.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    for version in round * MOST..(round + 1) * MOST {
        let key = random.below(KEYS);
        match random.below(20) {
            0 => {
                disk.remove(name(key).as_bytes()).wait().unwrap();
                eprintln!("removed {key} {version}");
            }
            1 if version % 8 == 0 => {
                disk.purged(version, &rule(key)).wait().unwrap();
                eprintln!("purged {key} {version}");
            }
            2 => {
                found(&disk, &runtime, key);
                eprintln!("read {key} {version}");
            }
            _ => disk.write(name(key).as_bytes(), &stored(body(key, version))),
        }
    }
}

/// Runs a child until it has said some things, kills it, and notes what it was told.
fn run(path: &Path, round: u64, removed: &mut HashMap<u64, u64>, purged: &mut Vec<(u64, u64)>) {
    let mut random = Random(round + 77);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("LARDER_DISK_KILL", path)
        .env("LARDER_DISK_ROUND", round.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut outcome = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    for _ in 0..random.below(40) {
        assert!(outcome.read_line(&mut text).unwrap() > 0, "it ended by itself: {text}");
    }
    (0..random.below(100)).for_each(|_| std::thread::yield_now());
    child.kill().unwrap();
    child.wait().unwrap();
    outcome.read_to_string(&mut text).unwrap();
    // It may have been killed within a line: what was not said to its end was not said.
    let outcome = text.rfind('\n').map_or("", |at| &text[..at]);
    for line in outcome.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "removed" => drop(removed.insert(number(1), number(2))),
            "purged" => purged.push((number(2), number(1))),
            "read" => {}
            _ => panic!("{text}"),
        }
    }
}

#[test]
fn a_killed_tier_restores_no_removed_response() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tier");
    let (mut removed, mut purged, runtime) = (HashMap::new(), Vec::new(), runtime());
    let (mut kept, mut newest) = (0, 0);
    for round in 1..=ROUNDS {
        run(&path, round, &mut removed, &mut purged);
        let disk = open(&path);
        for key in 0..KEYS {
            if let Some(version) = found(&disk, &runtime, key) {
                let gone = removed.get(&key).copied().unwrap_or(0);
                assert!(version > gone, "key {key}: {version} is back, {gone} was removed in round {round}");
                kept += 1;
                newest = newest.max(version / MOST);
            }
        }
        let restored = disk.restored();
        for (seq, key) in &purged {
            assert!(restored.rules.contains(&(*seq, rule(*key))), "purge {seq} is lost in round {round}");
        }
        assert!(disk.bytes() <= 2 << 20);
    }
    assert!(kept > ROUNDS * 10, "{kept} were found in all: too few to tell");
    assert!(newest > ROUNDS - 5 && purged.len() > 20 && removed.len() > 20);
}
