//! A simulated disk with many readers, plotted by `plot` from a trace file: too many concurrent reads of large files
//! starve some; a bounded pool does not. The pool is the production one, with its threads and its queue; only the device
//! is a model, and the clock is the device's. Tests only.
//!
//! Device: one head, which moves to another file in 2 to 10 ms by the distance and then reads 100 MB/s; of the
//! outstanding reads it takes the nearest, as elevators do. Requests for files of 1 to 3 MiB arrive every 60 ms on
//! average, and sometimes a dozen at once. Both variants have the same read memory, 50 MiB: four readers have room for a
//! whole file each, four hundred for 128 KiB, which a client takes before the next read; the head has moved on by then.
//! (With room for four hundred files, 1.2 GB, the elevator alone would do as well as the pool.)
//!
//! Time advances when every busy thread waits for the device, and the random numbers are a fixed sequence: so the
//! pictures are the same each time, for any scheduling of the threads.

use super::plot;
use super::scale::percentile;
use crate::cli;
use larder_counters::Counters;
use larder_store::device::pool::Pool;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

/// Compares a page with the golden one; `LARDER_BLESS=1` replaces the golden one.
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
/// The number of parts that fit into the memory of all readers.
const ROOM: u64 = REQUESTS as u64;
/// Microseconds of a part: 100 MB/s.
const READ: u64 = PART / 100;
/// Microseconds until the reader of a part requests the next, if it sends each to its client first.
const HANDED_ON: u64 = 300;
/// A request with a longer wait for a file is starved: two seconds for 40 ms of work of the idle device.
const STARVED: u64 = 2_000_000;
/// The default of `cache.disk.readers`.
const READERS: usize = 4;

/// A pseudo-random sequence (Knuth's MMIX).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[derive(Clone, Copy)]
struct SimulatedRequest {
    at: u64,
    place: u64,
    parts: u64,
}

fn requests() -> Vec<SimulatedRequest> {
    let mut chance = Chance(42);
    let mut at = 0;
    (0..REQUESTS)
        .map(|number| {
            at += if number % 40 < 12 { 0 } else { chance.below(120_000) };
            // Half of the requests are for neighbouring files: recent files are near each other.
            let place = if chance.below(2) == 0 { chance.below(DEVICE / 16) } else { chance.below(DEVICE) };
            SimulatedRequest { at, place, parts: 8 + chance.below(17) }
        })
        .collect()
}

/// A thread's request for the next parts of a file, which it waits for.
struct SimulatedRead {
    number: usize,
    parts: u64,
    there: Sender<()>,
}

/// A read that waits for the device.
struct Outstanding {
    read_request: SimulatedRead,
    /// The time from which it is queued at the device: after its client has taken the part before.
    ready: u64,
}

/// The device, and its environment: requests arrive, and reads complete.
struct SimulatedDevice {
    asked: Vec<SimulatedRequest>,
    clock: Arc<AtomicU64>,
    asks: Receiver<SimulatedRead>,
    /// Parts of each file that remain to be read.
    left: Vec<u64>,
    outstanding: Vec<Outstanding>,
    /// The position of the head.
    head: u64,
    /// The current read, and its end.
    busy: Option<(SimulatedRead, u64)>,
}

impl SimulatedDevice {
    /// Waits until all busy threads have sent their read: only then does time advance.
    fn settle(&mut self, at_work: usize) {
        while self.outstanding.len() + usize::from(self.busy.is_some()) < at_work {
            let read_request = self.asks.recv_timeout(Duration::from_secs(60)).expect("a reader asks");
            let is_first = self.left[read_request.number] == self.asked[read_request.number].parts;
            let ready = self.clock.load(Relaxed) + if is_first { 0 } else { HANDED_ON };
            self.outstanding.push(Outstanding { read_request, ready });
        }
    }

    /// Starts the nearest of the outstanding reads if the device is idle.
    fn begin(&mut self) {
        let now = self.clock.load(Relaxed);
        let distance = |it: &Outstanding| {
            (self.asked[it.read_request.number].place.abs_diff(self.head), it.read_request.number)
        };
        let ready = self.outstanding.iter().enumerate().filter(|it| it.1.ready <= now);
        let nearest = ready.min_by_key(|it| distance(it.1)).map(|it| it.0).filter(|_| self.busy.is_none());
        let Some(nearest) = nearest else { return };
        let read_request = self.outstanding.swap_remove(nearest).read_request;
        let place = self.asked[read_request.number].place;
        let moved = match place.abs_diff(self.head) {
            0 => 0,
            far => 2_000 + 8_000 * (far >> 20) / (DEVICE >> 20),
        };
        self.head = place;
        let took = moved + read_request.parts * READ;
        self.busy = Some((read_request, now + took));
    }

    /// The time of the next event; `None` if there is none.
    fn next(&self, coming: Option<u64>) -> Option<u64> {
        let ready = self.outstanding.iter().map(|it| it.ready).filter(|_| self.busy.is_none());
        self.busy.as_ref().map(|it| it.1).into_iter().chain(coming).chain(ready).min()
    }

    /// The request whose last part was read now, if any.
    fn end(&mut self) -> Option<usize> {
        let (read_request, _) = self.busy.take_if(|it| it.1 <= self.clock.load(Relaxed))?;
        self.left[read_request.number] -= read_request.parts;
        read_request.there.send(()).expect("its reader waits");
        (self.left[read_request.number] == 0).then_some(read_request.number)
    }
}

/// For each request its wait for a thread, as reported by the pool, and the time of its last byte.
fn run(asked: &[SimulatedRequest], threads: usize) -> Vec<(u64, u64)> {
    let clock = Arc::new(AtomicU64::new(0));
    let counters = Arc::new(Counters::default());
    let read_clock = clock.clone();
    let pool =
        Pool::with_clock("disk-read", threads, counters.clone(), Box::new(move || read_clock.load(Relaxed)));
    let (asks_in, asks) = channel();
    let left = asked.iter().map(|it| it.parts).collect();
    let mut device = SimulatedDevice {
        asked: asked.to_vec(),
        clock: clock.clone(),
        asks,
        left,
        outstanding: Vec::new(),
        head: 0,
        busy: None,
    };
    let mut ended = vec![0; asked.len()];
    let mut answers = Vec::new();
    let mut done = 0;
    loop {
        device.settle(threads.min(answers.len() - done));
        device.begin();
        let coming = asked.get(answers.len()).map(|it| it.at);
        let Some(now) = device.next(coming) else { break };
        clock.store(now, Relaxed);
        if let Some(number) = device.end() {
            ended[number] = now;
            done += 1;
        }
        // One at a time: its thread sends its read before the next request arrives.
        if coming == Some(now) {
            let (number, asks) = (answers.len(), asks_in.clone());
            let (parts, at_once) = (asked[number].parts, ROOM / threads as u64);
            let work = move || read(number, parts, at_once, &asks);
            answers.push(pool.run(work).expect("there is room in the queue"));
        }
    }
    assert_eq!(asked.len() as u64, counters.disk_pool_reads.get());
    answers.into_iter().zip(ended).map(|(it, ended)| (it.blocking_recv().unwrap().1, ended)).collect()
}

/// A thread of the pool: reads a file to its end, as much at once as its memory allows.
fn read(number: usize, parts: u64, at_once: u64, device: &Sender<SimulatedRead>) {
    let mut left = parts;
    while left > 0 {
        let (there, wait) = channel();
        let parts = left.min(at_once);
        device.send(SimulatedRead { number, parts, there }).expect("the device is there");
        wait.recv().expect("it is read");
        left -= parts;
    }
}

/// Writes a trace file, lets `larder trace plot` plot it, and returns the page.
fn drawn(asked: &[SimulatedRequest], done: &[(u64, u64)], name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let order = cli::Plot { file: folder.path().join(name), out: folder.path().join("page.html") };
    let mut text =
        super::file::header(1_767_225_600_000_000, &json!([{ "route": "*/*", "every": 1 }])) + "\n";
    for (asked, (waited, ended)) in asked.iter().zip(done) {
        let total = ended - asked.at;
        let trace = json!({
            "start_us": 1_767_225_600_000_000 + asked.at, "route": "*/*", "cache": "hit-disk", "total_us": total,
            "stages": { "queue": waited, "read": total - waited },
        });
        text.push_str(&format!("{trace}\n"));
    }
    std::fs::write(&order.file, text).unwrap();
    plot::run(&order).unwrap();
    std::fs::read_to_string(&order.out).unwrap()
}

/// Median, 99th percentile and longest of some times.
fn spread(times: impl Iterator<Item = u64>) -> (u64, u64, u64) {
    let mut all: Vec<u64> = times.collect();
    all.sort_unstable();
    (percentile(&all, 50).unwrap(), percentile(&all, 99).unwrap(), percentile(&all, 100).unwrap())
}

#[test]
fn too_many_readers_starve_some_and_the_pool_does_not() {
    let asked = requests();
    let unbounded = run(&asked, REQUESTS);
    let pool = run(&asked, READERS);
    let whole = |it: &[(u64, u64)]| spread(asked.iter().zip(it).map(|(asked, it)| it.1 - asked.at));
    let waits = |it: &[(u64, u64)]| spread(it.iter().map(|it| it.0));
    let (many, few) = (whole(&unbounded), whole(&pool));
    let starved =
        |it: &[(u64, u64)]| asked.iter().zip(it).filter(|(asked, it)| it.1 - asked.at > STARVED).count();
    eprintln!("{many:?}, {} starved; {few:?}, waited {:?}", starved(&unbounded), waits(&pool));
    assert!(starved(&unbounded) > REQUESTS / 10, "{} starve", starved(&unbounded));
    assert_eq!(0, starved(&pool), "{few:?}");
    assert!(many.2 >= 6 * many.0, "some wait far longer than most: {many:?}");
    assert!(many.2 >= 10 * few.2, "and than any by the pool: {few:?} against {many:?}");
    assert!(few.0 < many.0, "and none is served later for that: {few:?} against {many:?}");
    // The place of the wait: at the device, where it shows as a slow read; or in the pool's queue, in order of arrival.
    assert_eq!((0, 0, 0), waits(&unbounded));
    assert!(waits(&pool).2 > few.0 && waits(&pool).2 < STARVED / 4, "{:?}", waits(&pool));
    is_golden("reads-unbounded.html", &drawn(&asked, &unbounded, "reads-unbounded.jsonl"));
    is_golden("reads-pool.html", &drawn(&asked, &pool, "reads-pool.jsonl"));
}
