//! The classic picture of a disk under many readers, reproduced with a simulated device and drawn by `plot`: too many
//! concurrent reads of large files starve some; a bounded pool, as the disk tier has, does not. Tests only.
//!
//! Device: one head, which moves to another file in 2 to 10 ms by the distance and then reads 100 MB/s; of the reads that are
//! outstanding it takes the nearest, as elevators do. Requests come one every 45 ms on average, each for a file of 1 to 3 MiB
//! which is read in parts of 128 KiB. Time is virtual, chance is a fixed sequence: the pictures are the same each time.

use super::file::{Recorded, Sample};
use super::plot::page;
use super::scale::percentile;
use larder_gateway::stages::{Spent, Stage};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

/// Holds a page against the golden one; `LARDER_BLESS=1` makes it golden.
#[track_caller]
pub fn is_golden(name: &str, page: &str) {
    let path = golden(name);
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "tests/golden/{name} is another: look at it, then LARDER_BLESS=1 cargo test -p larder"
    );
}

const REQUESTS: usize = 400;
/// Bytes of the whole device.
const DEVICE: u64 = 400 << 30;
const PART: u64 = 128 << 10;
/// Microseconds of a part: 100 MB/s.
const READ: u64 = PART / 100;
/// Microseconds until the reader of a part asks for the next, where it hands each to its client first.
const HANDED_ON: u64 = 300;
/// `cache.disk.readers` as it is by default.
const READERS: usize = 4;

/// How requests are let to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discipline {
    /// Each at once, part by part beside its client: a thread or an event a connection.
    Unbounded,
    /// In order of their coming, so many at a time, each read to its end before the next is begun: the rule of
    /// `store/src/disk/pool.rs`, whose jobs read a whole body.
    Pool(usize),
}

/// A sequence that looks like chance (Knuth's MMIX).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[derive(Clone, Copy)]
struct Asked {
    at: u64,
    place: u64,
    parts: u64,
}

fn requests() -> Vec<Asked> {
    let mut chance = Chance(42);
    let mut at = 0;
    (0..REQUESTS)
        .map(|_| {
            at += chance.below(90_000);
            // Half of them ask for what lies together: what is new is near what is new.
            let place = if chance.below(2) == 0 { chance.below(DEVICE / 16) } else { chance.below(DEVICE) };
            Asked { at, place, parts: 8 + chance.below(17) }
        })
        .collect()
}

/// A request that is being read.
struct Reading {
    number: usize,
    /// Since when its next part is asked for.
    ready: u64,
    left: u64,
    /// When its first part was begun.
    begun: Option<u64>,
}

/// When each request was let to the device, and when its last byte was there.
fn simulate(asked: &[Asked], discipline: Discipline) -> Vec<(u64, u64)> {
    let mut done = vec![(0, 0); asked.len()];
    let mut coming = asked.iter().enumerate().peekable();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut reading: Vec<Reading> = Vec::new();
    let (mut now, mut head) = (0, 0);
    let (most, pause) = match discipline {
        Discipline::Unbounded => (usize::MAX, HANDED_ON),
        Discipline::Pool(readers) => (readers, 0),
    };
    loop {
        while let Some((number, _)) = coming.next_if(|it| it.1.at <= now) {
            queue.push_back(number);
        }
        while reading.len() < most
            && let Some(number) = queue.pop_front()
        {
            reading.push(Reading {
                number,
                ready: now.max(asked[number].at),
                left: asked[number].parts,
                begun: None,
            });
        }
        let distance = |it: &Reading| asked[it.number].place.abs_diff(head);
        let nearest =
            reading.iter_mut().filter(|it| it.ready <= now).min_by_key(|it| (distance(it), it.number));
        let Some(it) = nearest else {
            let next = reading.iter().map(|it| it.ready).chain(coming.peek().map(|it| it.1.at)).min();
            match next {
                Some(next) => now = next,
                None => return done,
            }
            continue;
        };
        let place = asked[it.number].place;
        let moved =
            if place == head { 0 } else { 2_000 + 8_000 * (place.abs_diff(head) >> 20) / (DEVICE >> 20) };
        it.begun.get_or_insert(now);
        now += moved + READ;
        head = place;
        it.left -= 1;
        it.ready = now + pause;
        if it.left == 0 {
            let number = it.number;
            done[number] = (it.begun.unwrap_or(now), now);
            reading.retain(|it| it.number != number);
        }
    }
}

fn recorded(asked: &[Asked], done: &[(u64, u64)]) -> Recorded {
    let sample = |(asked, (begun, ended)): (&Asked, &(u64, u64))| {
        let mut spent = Spent::default();
        spent.add(Stage::Queue, begun - asked.at);
        spent.add(Stage::Read, ended - begun);
        let start_us = 1_767_225_600_000_000 + asked.at;
        Sample { start_us, route: "simulated".to_owned(), cache: "hit-disk".to_owned(), spent }
    };
    Recorded { samples: asked.iter().zip(done).map(sample).collect(), lost: 0 }
}

/// Median, 99th percentile and longest of the times that requests took.
fn times(asked: &[Asked], done: &[(u64, u64)]) -> (u64, u64, u64) {
    let mut all: Vec<u64> = asked.iter().zip(done).map(|(asked, done)| done.1 - asked.at).collect();
    all.sort_unstable();
    (percentile(&all, 50).unwrap(), percentile(&all, 99).unwrap(), percentile(&all, 100).unwrap())
}

#[test]
fn too_many_readers_starve_some_and_the_pool_does_not() {
    let asked = requests();
    let unbounded = simulate(&asked, Discipline::Unbounded);
    let pool = simulate(&asked, Discipline::Pool(READERS));
    let (free, bounded) = (times(&asked, &unbounded), times(&asked, &pool));
    eprintln!("unbounded {free:?}, pool {bounded:?}");
    assert!(free.2 >= 20 * bounded.2, "starved: {free:?} against {bounded:?}");
    assert!(free.1 >= 8 * free.0, "some wait far longer than most: {free:?}");
    assert!(bounded.1 <= 6 * bounded.0, "none waits far longer than most: {bounded:?}");
    assert!(bounded.0 < free.0, "nor is anybody served later for that: {bounded:?} against {free:?}");
    let picture = |it: &[(u64, u64)], title| page(&recorded(&asked, it), title);
    is_golden("reads-unbounded.html", &picture(&unbounded, "400 reads of a slow disk, all at once"));
    is_golden("reads-pool.html", &picture(&pool, "400 reads of a slow disk, by a pool of four"));
}
