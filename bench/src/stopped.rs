//! The effect of a stopped memcached on pages that are on other servers: there should be none.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::{scope, sleep};
use std::time::Duration;

use rustix::process::Signal;

use crate::cases::Origin;
use crate::fetch;
use crate::load::{self, Sample};
use crate::process::Running;
use crate::run::Settings;
use crate::servers::Server;
use crate::statistics::paired_ratio;

/// Pages in the fleet.
const PAGES: u32 = 300;

/// Longer than larder leaves a failing server unused.
const BACK: Duration = Duration::from_secs(6);

/// The figures.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Turns with all servers running.
    pub without: Vec<Sample>,
    /// Turns with one stopped.
    pub with: Vec<Sample>,
}

impl Stopped {
    /// The 99th percentile with a stopped server, as a multiple of that without.
    pub fn effect(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "microseconds")]
        let each = |samples: &[Sample]| samples.iter().map(|it| it.latency_us.1 as f64).collect::<Vec<_>>();
        paired_ratio(&each(&self.with), &each(&self.without))
    }
}

/// Runs it: two connections request pages of the server that will stop, all the time; twenty request the others'.
///
/// # Errors
/// A part is missing, or an answer is wrong.
pub fn run(settings: &Settings, fleet: &[Running]) -> Result<Stopped, String> {
    let [stopping, ..] = fleet else { return Err("memcached is not installed".into()) };
    let root = settings.page(1795)?;
    let origin = settings.origin(Origin::Storable.headers(), &root)?;
    let larder = settings.start(Server::LarderTiers(&["fleet"]), &root, origin.port)?;
    let targets: Vec<String> = (0..PAGES).map(|it| format!("/page.html?{it}")).collect();
    fill(larder.port, &targets)?;
    let (there, others): (Vec<String>, Vec<String>) =
        targets.into_iter().partition(|it| has(stopping.port, larder.port, it).unwrap_or(false));
    if there.len() < 10 || others.len() < 10 {
        return Err(format!("{} pages on one server, {} on the others", there.len(), others.len()));
    }
    let mut seen = Stopped { without: Vec::new(), with: Vec::new() };
    let (seconds, nice, dir) = (settings.seconds, settings.nice, &settings.dir);
    let measure = || {
        scope(|scope| {
            let beside = scope.spawn(|| {
                load::measure_targets(larder.port, &there, 2, seconds, nice, &dir.join("there.lua"))
            });
            let sample =
                load::measure_targets(larder.port, &others, 20, seconds, nice, &dir.join("others.lua"));
            let _ = beside.join();
            sample
        })
    };
    measure()?;
    for round in 0..settings.rounds.min(5) {
        seen.without.push(measure()?);
        stopping.signal(Signal::STOP);
        let with = measure();
        stopping.signal(Signal::CONT);
        seen.with.push(with?);
        sleep(BACK);
        eprintln!("  stopped: round {}", round + 1);
    }
    Ok(seen)
}

/// Requests every page twice, so that each is stored.
fn fill(port: u16, targets: &[String]) -> Result<(), String> {
    let mut stream = fetch::connect(port)?;
    for target in targets.iter().chain(targets) {
        fetch::get_target(&mut stream, &format!("127.0.0.1:{port}"), target)?;
    }
    Ok(())
}

/// Whether this memcached has the page.
fn has(memcached: u16, larder: u16, target: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, memcached)))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "mg {larder}-http://127.0.0.1:{larder}{target}\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.starts_with("HD"))
}
