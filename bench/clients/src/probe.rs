//! New connections, one after the other: how long each waits from `connect` to its first byte. That is the pause of accepts, and all
//! other waiting in it.

use crate::body_of;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that are tried at once, so that one that waits hides no other.
const AT_ONCE: u64 = 4;
/// The time between two connections of one of them.
const EACH: Duration = Duration::from_micros(2000);

const PATH: &str = "/page/1";

/// A new connection.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Since the beginning of the load.
    pub at: Duration,
    /// From `connect` to the first byte; `None` where it failed.
    pub waited: Option<Duration>,
}

/// The running probes.
pub struct Probes {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Probe>>>,
}

impl Probes {
    pub fn start(began: Instant, port: u16) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let start = |number| {
            let enough = enough.clone();
            std::thread::spawn(move || {
                std::thread::sleep(EACH * number / u32::try_from(AT_ONCE).unwrap_or(1));
                probes(began, address, &enough)
            })
        };
        let threads = (0..u32::try_from(AT_ONCE).unwrap_or(1)).map(start).collect();
        Self { enough, threads }
    }

    /// Ends them; returns all connections in the order of their beginnings.
    pub fn stop(self) -> Vec<Probe> {
        self.enough.store(true, Relaxed);
        let mut all: Vec<Probe> =
            self.threads.into_iter().flat_map(|it| it.join().unwrap_or_default()).collect();
        all.sort_by_key(|it| it.at);
        all
    }
}

fn probes(began: Instant, address: SocketAddr, enough: &AtomicBool) -> Vec<Probe> {
    let mut all = Vec::new();
    while !enough.load(Relaxed) {
        let at = began.elapsed();
        let waited = probe(address).inspect_err(|it| eprintln!("a new connection: {it}")).ok();
        all.push(Probe { at, waited });
        std::thread::sleep(EACH.saturating_sub(began.elapsed() - at));
    }
    all
}

/// The time until the first byte of a response, all of which comes.
fn probe(address: SocketAddr) -> std::io::Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(
        format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut first = [0; 1];
    stream.read_exact(&mut first)?;
    let waited = begun.elapsed();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest)?;
    match rest.ends_with(&body_of(PATH)) {
        true => Ok(waited),
        false => Err(std::io::Error::other("another response")),
    }
}
