//! Requests to larder while it is upgraded, again and again, between two builds: how many fail, how far the hit ratio falls at a switch,
//! and how long a new connection waits for its first byte there. The load is on HTTP/1.1, on HTTP/1.1 by TLS, on HTTP/2 by TLS and on
//! HTTP/3.
//!
//! `larder-bench-upgrades ONE OTHER REQUESTS UPGRADES [CONNECTIONS [RELOADS]]` starts the program ONE and upgrades to OTHER, to ONE, and so on. Without
//! upgrades it lasts a minute. The requests are spread over the upgrades; they may become more. So are reloads, by
//! SIGHUP.

mod http3;
mod load;
mod origin;
mod probe;
mod report;
mod running;

use load::{Counted, Load};
use origin::Origin;
use probe::Probes;
use report::Upgrade;
use running::Running;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time without upgrades before the first and after the last one, and between two.
const APART: Duration = Duration::from_secs(3);

/// The command line.
struct Asked {
    programs: [PathBuf; 2],
    requests: u64,
    upgrades: u32,
    connections: usize,
    reloads: u32,
}

fn asked() -> Option<Asked> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (fixed, more) = words.split_at_checked(4)?;
    let more = more.iter().map(|it| it.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let (connections, reloads) = match more[..] {
        [] => (10, 0),
        [connections] => (connections as usize, 0),
        [connections, reloads] => (connections as usize, reloads),
        _ => return None,
    };
    Some(Asked {
        programs: [(&fixed[0]).into(), (&fixed[1]).into()],
        requests: fixed[2].parse().ok()?,
        upgrades: fixed[3].parse().ok()?,
        connections,
        reloads,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: larder-bench-upgrades ONE OTHER REQUESTS UPGRADES [CONNECTIONS [RELOADS]]";
    let asked = asked().ok_or(usage)?;
    let began = Instant::now();
    let origin = Origin::start(began)?;
    let mut running = Running::start(&asked.programs[0], origin.port)?;
    let load = Arc::new(Load::new(began, running.ports)?);
    load.warm_up()?;
    let first = origin.requests();
    println!("{first} responses are in RAM after {:.1} s", began.elapsed().as_secs_f64());
    origin.forget();

    let clients = load.start(asked.connections);
    let probes = Probes::start(began, running.ports[0]);
    let mut upgrades = Vec::new();
    let each = asked.requests / u64::from(asked.upgrades.max(1) + 1);
    let mut reloads = 0;
    for number in 0..=asked.upgrades {
        while reloads < asked.reloads * (number + 1) / (asked.upgrades + 1) {
            running.reload()?;
            reloads += 1;
        }
        let (wanted, since) = (each * u64::from(number + 1), Instant::now());
        while load.counted.requests() < wanted || since.elapsed() < APART {
            std::thread::sleep(Duration::from_millis(20));
            running.must_serve()?;
        }
        if number < asked.upgrades {
            let program = &asked.programs[(number as usize + 1) % 2];
            let from = began.elapsed();
            let waited = running.upgrade(program)?;
            upgrades.push(Upgrade { from: from + waited, to: began.elapsed() });
        }
    }
    load.counted.enough.store(true, Relaxed);
    for one in clients {
        one.join().map_err(|_| "a client has ended early")?;
    }
    let probes = probes.stop();
    let lasted = began.elapsed();
    let log = running.stop()?;
    report::print(&report::Seen {
        counted: &load.counted,
        misses: origin.times(),
        probes,
        upgrades,
        reloads,
        lasted,
        log,
    });
    Ok(())
}

/// Milliseconds since the beginning.
fn milliseconds(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX)
}

/// The number of requests that were counted within each of these parts of a second.
const PARTS_OF_A_SECOND: u32 = 100;

/// The paths of the load: `/page/N`, and every so often `/large/N`.
const PAGES: u32 = 20_000;
const LARGE_PAGES: u32 = 100;
const ONE_LARGE_OF: u32 = 256;

/// The body under a path: its own text, repeated. Large ones are in larder's arena.
fn body_of(path: &str) -> Vec<u8> {
    let length = if path.starts_with("/large/") { 40_000 } else { 600 };
    path.bytes().cycle().take(length).collect()
}

/// A path by a number that is random enough.
fn path_of(random: u32) -> String {
    match random % ONE_LARGE_OF {
        0 => format!("/large/{}", random / ONE_LARGE_OF % LARGE_PAGES),
        _ => format!("/page/{}", random / ONE_LARGE_OF % PAGES),
    }
}

/// All paths.
fn all_paths() -> impl Iterator<Item = String> {
    let pages = (0..PAGES).map(|it| format!("/page/{it}"));
    pages.chain((0..LARGE_PAGES).map(|it| format!("/large/{it}")))
}

/// A sequence of numbers that is random enough (xorshift, Marsaglia 2003).
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

/// One line for an error.
fn plain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Counted {
    /// All requests that succeeded.
    fn requests(&self) -> u64 {
        self.succeeded.iter().map(|it| it.load(Relaxed)).sum()
    }
}
