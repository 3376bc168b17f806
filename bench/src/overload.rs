//! A server whose application gets several times more requests than it can answer. Hits and misses arrive at a given
//! rate, independently of answers (an open loop), and an answer after more than a second counts as missing.
//!
//! The application answers a fixed number of requests at once, each in a fixed time; further ones wait in order of
//! arrival, as with any pool of processes. So its capacity is known, and a load is a multiple of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::process::Running;
use crate::run::Settings;
use crate::servers::Server;
use crate::statistics::{Bound, Verdict};

/// The overloaded servers, each configured with the application's number of connections.
pub const SERVERS: [(&str, Server); 3] = [
    ("larder", Server::LarderCapped { connections: TOLD }),
    ("nginx", Server::NginxCapped { connections: TOLD }),
    ("varnish", Server::VarnishCapped { connections: TOLD }),
];

/// Multiples of the application's capacity.
const LOADS: [f64; 5] = [0.5, 0.8, 1.0, 2.0, 4.0];
/// Requests that the application answers at once.
const SLOTS: usize = 16;
/// The time that the application takes for each.
const WORK: Duration = Duration::from_millis(20);
/// Connections that the servers may open to it: some wait within it, so that no slot is idle.
const TOLD: u32 = 18;
/// How long a client waits.
const TIMEOUT: Duration = Duration::from_secs(1);
/// One request of this many is a miss; the others are hits.
const MIX: u64 = 4;
/// Bytes of each answer.
const PAGE: usize = 1795;

/// The servers' results under each load.
pub type Overloaded = Vec<(&'static str, Result<Vec<Point>, String>)>;

/// One server's results under one load.
#[derive(Clone, Debug)]
pub struct Point {
    /// The load, as a multiple of the application's capacity.
    pub load: f64,
    /// Misses.
    pub misses: Seen,
    /// Hits.
    pub hits: Seen,
}

/// The results of requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests a second that were answered with the page in time.
    pub good: f64,
    /// Their median and 99th percentile in microseconds.
    pub micros: (u64, u64),
    /// Those that were refused (503 and the like).
    pub refused: u64,
    /// Those that had no answer in time.
    pub late: u64,
}

/// The application's capacity in misses per second.
#[allow(clippy::cast_precision_loss, reason = "a few")]
fn capacity() -> f64 {
    SLOTS as f64 / WORK.as_secs_f64()
}

/// Goodput of misses under the greatest load, as a share of the best: its lower bound.
pub const KEPT: Bound = Bound::AtLeast(0.95);
/// How much the median of hits may rise from the least load to the greatest.
pub const FLAT_HITS: Bound = Bound::AtMost(1.5);
/// How much the median of answered misses may rise, from just below the application's limit to the greatest load.
pub const FLAT_MISSES: Bound = Bound::AtMost(1.5);

/// The three figures of a curve, with their bounds.
#[allow(clippy::cast_precision_loss, reason = "microseconds of a second")]
pub fn figures(points: &[Point]) -> [(&'static str, Bound, Option<f64>); 3] {
    let at = |load: f64| points.iter().find(|it| (it.load - load).abs() < 0.01);
    let (least, below, most) = (at(0.5), at(0.8), at(4.0));
    let best = points.iter().map(|it| it.misses.good).fold(0.0, f64::max);
    let rise =
        |over: Option<u64>, under: Option<u64>| Some(over? as f64 / under.filter(|it| *it > 0)? as f64);
    [
        ("misses a second at 4 times the load ÷ the most at any", KEPT, most.map(|it| it.misses.good / best)),
        (
            "median of answered misses, 4 times the load ÷ 0.8",
            FLAT_MISSES,
            rise(most.map(|it| it.misses.micros.0), below.map(|it| it.misses.micros.0)),
        ),
        (
            "median of hits, 4 times the load ÷ 0.5",
            FLAT_HITS,
            rise(most.map(|it| it.hits.micros.0), least.map(|it| it.hits.micros.0)),
        ),
    ]
}

/// The figures as lines of the table of targets: server, kind, bound and figure.
pub fn judged(all: &Overloaded) -> Vec<(String, Option<Bound>, Option<f64>, Verdict)> {
    let mut lines = Vec::new();
    for (name, points) in all {
        let none = Vec::new();
        for (what, bound, figure) in figures(points.as_ref().unwrap_or(&none)) {
            let asked = (*name == "larder").then_some(bound);
            lines.push((format!("{name}: {what}"), asked, figure, bound.judge(figure)));
        }
    }
    lines
}

/// Overloads all servers, one after the other; the failure of one is its result.
///
/// # Errors
/// The application could not be started.
pub fn run(settings: &Settings) -> Result<Overloaded, String> {
    let root = settings.page(PAGE)?;
    let page = std::fs::read(root.join("page.html")).map_err(|it| it.to_string())?;
    let app = App::start(page)?;
    let mut all = Vec::new();
    for (name, server) in SERVERS {
        let points = settings.start(server, &root, app.port).and_then(|it| curve(settings, &it));
        eprintln!("  overload: {name}");
        all.push((name, points));
    }
    Ok(all)
}

fn curve(settings: &Settings, server: &Running) -> Result<Vec<Point>, String> {
    let seconds = u64::from(settings.seconds) * 2;
    LOADS.iter().map(|load| point(server.port, *load, Duration::from_secs(seconds))).collect()
}

fn point(port: u16, load: f64, length: Duration) -> Result<Point, String> {
    let runtime = runtime()?;
    let clients = Rc::new(Clients::new(port));
    LocalSet::new().block_on(&runtime, clients.clone().send_all(load, length));
    let seconds = length.as_secs_f64();
    let seen = |of: &RefCell<Counted>| of.borrow().seen(seconds);
    Ok(Point { load, misses: seen(&clients.misses), hits: seen(&clients.hits) })
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|it| it.to_string())
}

/// The counts of requests of one kind.
#[derive(Default)]
struct Counted {
    micros: BTreeMap<u64, u64>,
    refused: u64,
    late: u64,
}

impl Counted {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn seen(&self, seconds: f64) -> Seen {
        let good: u64 = self.micros.values().sum();
        let within = |share: u64| {
            let mut left = good * share / 100;
            let found = self.micros.iter().find(|(_, count)| {
                let is_it = left < **count;
                left = left.saturating_sub(**count);
                is_it
            });
            found.map_or(0, |it| *it.0)
        };
        Seen {
            good: good as f64 / seconds,
            micros: (within(50), within(99)),
            refused: self.refused,
            late: self.late,
        }
    }
}

/// Clients that arrive at times of their own.
struct Clients {
    address: SocketAddr,
    unused: RefCell<Vec<TcpStream>>,
    misses: RefCell<Counted>,
    hits: RefCell<Counted>,
    under_way: Cell<usize>,
}

/// The kind of an answer.
enum Answer {
    Page,
    Refusal,
}

impl Clients {
    fn new(port: u16) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            unused: RefCell::default(),
            misses: RefCell::default(),
            hits: RefCell::default(),
            under_way: Cell::new(0),
        }
    }

    /// Sends requests for `length`, with gaps like those of many independent clients, and waits for the last answer.
    async fn send_all(self: Rc<Self>, load: f64, length: Duration) {
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let rate = capacity() * load * MIX as f64;
        let begin = Instant::now();
        let mut at = begin;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut number = 0;
        while at < begin + length {
            at += Duration::from_secs_f64(-next(&mut random).ln() / rate);
            if at > Instant::now() {
                sleep_until(at).await;
            }
            number += 1;
            tokio::task::spawn_local(self.clone().one(number, at));
        }
        while self.under_way.get() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// One request that was due at `at`; the lateness of this program counts as latency of the answer only.
    async fn one(self: Rc<Self>, number: u64, at: Instant) {
        self.under_way.set(self.under_way.get() + 1);
        let is_miss = number % MIX == 0;
        let target = if is_miss { format!("/app/{number}") } else { "/page.html".to_owned() };
        let answer = timeout_at(at + TIMEOUT, self.fetch(&target)).await;
        let mut counted = if is_miss { self.misses.borrow_mut() } else { self.hits.borrow_mut() };
        match answer {
            Ok(Ok(Answer::Page)) => {
                let micros = u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
                *counted.micros.entry(micros).or_default() += 1;
            }
            Ok(_) => counted.refused += 1,
            Err(_) => counted.late += 1,
        }
        self.under_way.set(self.under_way.get() - 1);
    }

    async fn fetch(&self, target: &str) -> io::Result<Answer> {
        let unused = self.unused.borrow_mut().pop();
        let mut stream = match unused {
            Some(stream) => stream,
            None => TcpStream::connect(self.address).await?,
        };
        stream.set_nodelay(true)?;
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await?;
        let head = read_answer(&mut stream).await?;
        let is_page = head.starts_with("HTTP/1.1 200");
        if !head.to_ascii_lowercase().contains("connection: close") {
            self.unused.borrow_mut().push(stream);
        }
        Ok(if is_page { Answer::Page } else { Answer::Refusal })
    }
}

/// Reads one answer with a `Content-Length`; its head.
async fn read_answer(stream: &mut TcpStream) -> io::Result<String> {
    let mut got = Vec::with_capacity(4096);
    loop {
        if let Some(end) = got.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(got.get(..end).unwrap_or_default()).into_owned();
            let length = head
                .lines()
                .find_map(|it| it.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
            let length: usize = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
            while got.len() < end + 4 + length {
                if stream.read_buf(&mut got).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            return Ok(head);
        }
        if stream.read_buf(&mut got).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The next of a sequence of numbers between 0 and 1, neither included.
#[allow(clippy::cast_precision_loss, reason = "53 bits are kept")]
fn next(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((*state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The application; ends with this process.
struct App {
    port: u16,
}

impl App {
    fn start(page: Vec<u8>) -> Result<App, String> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|it| it.to_string())?;
        listener.set_nonblocking(true).map_err(|it| it.to_string())?;
        let port = listener.local_addr().map_err(|it| it.to_string())?.port();
        let runtime = runtime()?;
        std::thread::spawn(move || LocalSet::new().block_on(&runtime, serve(listener, page)));
        Ok(App { port })
    }
}

async fn serve(listener: std::net::TcpListener, page: Vec<u8>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let (page, slots) = (Rc::new(page), Rc::new(Semaphore::new(SLOTS)));
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(connection(stream, page.clone(), slots.clone()));
    }
}

/// Answers one connection's requests: each below `/app/` takes a slot and its time.
async fn connection(mut stream: TcpStream, page: Rc<Vec<u8>>, slots: Rc<Semaphore>) {
    let _ = stream.set_nodelay(true);
    let mut got = Vec::new();
    loop {
        let Some(end) = got.windows(4).position(|it| it == b"\r\n\r\n") else {
            match stream.read_buf(&mut got).await {
                Ok(count) if count > 0 => continue,
                _ => return,
            }
        };
        let is_work = got.starts_with(b"GET /app/");
        got.drain(..end + 4);
        let storing = if is_work { "no-store" } else { "max-age=86400" };
        if is_work {
            let Ok(_slot) = slots.acquire().await else { return };
            sleep_until(Instant::now() + WORK).await;
        }
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nCache-Control: {storing}\r\nContent-Length: {}\r\n\r\n", page.len())
                .into_bytes();
        answer.extend_from_slice(&page);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}
