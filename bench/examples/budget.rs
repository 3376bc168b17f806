//! Resident memory and the cost of each answer while pages of mixed sizes change under many clients: larder with any mixture of tiers and
//! with slow readers, or Varnish or HAProxy with as much memory. Every answer is compared byte for byte, and the hit ratio is counted at the origin.
//!
//! `cargo run --profile trial -p larder-bench --example budget -- --seconds 600`, and `--help`.

use std::cell::{Cell, RefCell};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use larder_stdx::clock::precise_micros;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

const HELP: &str = "\
budget: memory and CPU of larder (or Varnish, HAProxy) while pages of mixed sizes change

  --seconds N      how long (default 180)
  --larder FILE    (default target/trial/larder)
  --varnish        Varnish in place of larder
  --haproxy        HAProxy and its cache in place of larder
  --ram MIB        the budget (default 64)
  --workers N      (default 2)
  --tiers A,B      of ram, disk, fleet (default all)
  --pages MIB      all pages together (default 2500)
  --clients N      (default 24)
  --slow N         clients that read 4 KiB each second, beside these (default 0)
  --zipf S         the exponent by which pages are asked for (default: half of the requests evenly, half for few)
  --sizes A-B      bytes of the least and of the largest page, all magnitudes alike (default: six of ten below 16,000, one of a hundred
                   above 400,000)
  --constant       pages do not change
  --uncacheable N  one request of N is for a page that may not be stored
  --warm N         seconds before counting begins (default 0)
  --set LINE       one more line of the configuration, as often as wanted
  --limit MIB      fail where more is resident (default: the stated limit of larder)
  --parts          show what memory is used for
";

/// What may stand in the place of larder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Varnish,
    Haproxy,
}

/// What was asked for.
struct Asked {
    seconds: u64,
    larder: PathBuf,
    peer: Option<Peer>,
    ram: u64,
    workers: u64,
    tiers: Vec<String>,
    pages: u64,
    clients: usize,
    slow: usize,
    zipf: Option<f64>,
    sizes: Option<(f64, f64)>,
    constant: bool,
    uncacheable: u64,
    warm: u64,
    lines: Vec<String>,
    limit: Option<u64>,
    parts: bool,
}

fn parse() -> Result<Option<Asked>, lexopt::Error> {
    use lexopt::prelude::{Long, ValueExt};
    let all = ["ram", "disk", "fleet"].map(str::to_owned).to_vec();
    let mut it = Asked {
        seconds: 180,
        larder: "target/trial/larder".into(),
        peer: None,
        ram: 64,
        workers: 2,
        tiers: all,
        pages: 2500,
        clients: 24,
        slow: 0,
        zipf: None,
        sizes: None,
        constant: false,
        uncacheable: 0,
        warm: 0,
        lines: Vec::new(),
        limit: None,
        parts: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => return Ok(None),
            Long("seconds") => it.seconds = parser.value()?.parse()?,
            Long("larder") => it.larder = parser.value()?.into(),
            Long("varnish") => it.peer = Some(Peer::Varnish),
            Long("haproxy") => it.peer = Some(Peer::Haproxy),
            Long("ram") => it.ram = parser.value()?.parse()?,
            Long("workers") => it.workers = parser.value()?.parse()?,
            Long("tiers") => it.tiers = parser.value()?.string()?.split(',').map(str::to_owned).collect(),
            Long("pages") => it.pages = parser.value()?.parse()?,
            Long("clients") => it.clients = parser.value()?.parse()?,
            Long("slow") => it.slow = parser.value()?.parse()?,
            Long("zipf") => it.zipf = Some(parser.value()?.parse()?),
            Long("sizes") => {
                let text = parser.value()?.string()?;
                let (least, most) = text.split_once('-').ok_or("--sizes is like 1000-2000000")?;
                it.sizes =
                    Some((least.parse().map_err(|_| "a number")?, most.parse().map_err(|_| "a number")?));
            }
            Long("constant") => it.constant = true,
            Long("uncacheable") => it.uncacheable = parser.value()?.parse()?,
            Long("warm") => it.warm = parser.value()?.parse()?,
            Long("set") => it.lines.push(parser.value()?.string()?),
            Long("limit") => it.limit = Some(parser.value()?.parse()?),
            Long("parts") => it.parts = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(it))
}

fn main() -> ExitCode {
    let asked = match parse() {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("budget: {why}. Try --help.");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let dir = std::env::temp_dir().join(format!("larder-budget-{}", std::process::id()));
    let result = runtime.map_err(|it| it.to_string()).and_then(|runtime| {
        fs::create_dir_all(&dir).map_err(|it| it.to_string())?;
        LocalSet::new().block_on(&runtime, run(&asked, &dir))
    });
    let _ = fs::remove_dir_all(&dir);
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("budget: {why}");
            ExitCode::FAILURE
        }
    }
}

/// All pages: their sizes, and how often each is asked for.
struct Pages {
    lengths: Vec<usize>,
    /// For each page the sum of the shares of it and those before, where requests follow Zipf's law.
    shares: Vec<f64>,
    /// Random bytes, of which every body is a stretch.
    bytes: Vec<u8>,
    constant: bool,
    /// One request of so many is for what may not be stored; none where it is 0.
    uncacheable: u64,
}

/// The longest body.
const LONGEST: usize = 2 << 20;

fn random(state: &Cell<u64>) -> u64 {
    let mut it = state.get();
    it ^= it << 13;
    it ^= it >> 7;
    it ^= it << 17;
    state.set(it);
    it
}

#[allow(clippy::cast_precision_loss, reason = "53 bits are enough")]
fn fraction(state: &Cell<u64>) -> f64 {
    (random(state) >> 11) as f64 / (1_u64 << 53) as f64
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes"
)]
impl Pages {
    fn new(asked: &Asked) -> Pages {
        let state = Cell::new(0x5EED_F00D);
        let (mut lengths, mut sum) = (Vec::new(), 0);
        while sum < asked.pages << 20 {
            let (least, most) = match random(&state) % 100 {
                _ if asked.sizes.is_some() => asked.sizes.unwrap_or_default(),
                0..60 => (200.0_f64, 16e3_f64),
                60..90 => (16e3, 100e3),
                90..99 => (100e3, 400e3),
                _ => (400e3, LONGEST as f64),
            };
            let length = (least * (most / least).powf(fraction(&state))) as usize;
            sum += length as u64;
            lengths.push(length);
        }
        let mut shares = Vec::new();
        if let Some(exponent) = asked.zipf {
            let mut sum = 0.0;
            for rank in 1..=lengths.len() {
                sum += (rank as f64).powf(-exponent);
                shares.push(sum);
            }
        }
        let most = lengths.iter().max().copied().unwrap_or(0) + LONGEST;
        let bytes = (0..=most / 8).flat_map(|_| random(&state).to_le_bytes()).collect();
        Pages { lengths, shares, bytes, constant: asked.constant, uncacheable: asked.uncacheable }
    }

    fn choose(&self, state: &Cell<u64>) -> usize {
        let at = fraction(state);
        if let Some(all) = self.shares.last() {
            return self.shares.partition_point(|it| *it < at * all).min(self.lengths.len() - 1);
        }
        let skewed = if random(state).is_multiple_of(2) { at } else { at.powi(4) };
        (skewed * self.lengths.len() as f64) as usize
    }

    /// Whether the next request is for what may not be stored.
    fn is_uncacheable(&self, state: &Cell<u64>) -> bool {
        self.uncacheable > 0 && random(state).is_multiple_of(self.uncacheable)
    }

    /// Seconds for which a page is as it is.
    fn lifetime(&self, page: usize) -> u64 {
        if self.constant { 3600 } else { [2, 20, 60, 600][page % 4] }
    }

    fn body(&self, page: usize, version: u64) -> &[u8] {
        let from = (page * 7919 + (version as usize % 1_000_003) * 104_729) % LONGEST;
        &self.bytes[from..from + self.lengths[page]]
    }
}

/// What was counted.
#[derive(Default)]
struct Counts {
    answers: Cell<u64>,
    bytes: Cell<u64>,
    fetched: Cell<u64>,
    /// Found unchanged by the origin.
    validated: Cell<u64>,
    wrong: Cell<u64>,
    failed: Cell<u64>,
    slow: Cell<u64>,
}

fn add(to: &Cell<u64>, more: u64) {
    to.set(to.get() + more);
}

async fn run(asked: &Asked, dir: &Path) -> Result<bool, String> {
    let failed = |it: std::io::Error| it.to_string();
    let pages = Rc::new(Pages::new(asked));
    let counts = Rc::new(Counts::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let origin = listener.local_addr().map_err(failed)?.port();
    spawn_local(serve(listener, pages.clone(), counts.clone()));
    let memcached = asked.tiers.iter().any(|it| it == "fleet").then(|| memcached(dir)).transpose()?;
    let ports = [free_port()?, free_port()?];
    let server = Ended(start(asked, dir, origin, &ports, memcached.as_ref().map(|it| it.1))?);
    listens(ports[0]).await?;
    for number in 0..asked.clients {
        spawn_local(fetch(ports[0], number, pages.clone(), counts.clone()));
    }
    for number in 0..asked.slow {
        spawn_local(ask_slowly(ports[0], number, pages.clone(), counts.clone()));
    }
    println!("{} pages, {} MiB", pages.lengths.len(), pages.lengths.iter().sum::<usize>() >> 20);
    let limit = (asked.limit.unwrap_or(asked.ram + asked.ram / 20 + 20 + 8 * asked.workers)) << 20;
    sleep(Duration::from_secs(asked.warm)).await;
    let before = (counts.answers.get(), counts.fetched.get(), cpu(server.0.id()));
    let most = watch(asked, server.0.id(), ports[1], &counts, limit).await;
    let (answers, fetched) = (counts.answers.get() - before.0, counts.fetched.get() - before.1);
    #[allow(clippy::cast_precision_loss, reason = "counts")]
    let ratio = 1.0 - fetched as f64 / answers.max(1) as f64;
    println!(
        "most resident {} MiB (limit {} MiB); {answers} answers, {} MiB, hit ratio {ratio:.4}, {} validated; {} wrong, {} failed; CPU {:.1} µs an answer",
        most >> 20,
        limit >> 20,
        counts.bytes.get() >> 20,
        counts.validated.get(),
        counts.wrong.get(),
        counts.failed.get(),
        (cpu(server.0.id()) - before.2) / answers.max(1) as f64,
    );
    Ok((asked.peer.is_some() || most <= limit) && counts.wrong.get() == 0)
}

/// Looks ten times a second; tells every five seconds. The most that was resident.
async fn watch(asked: &Asked, id: u32, admin: u16, counts: &Counts, limit: u64) -> u64 {
    let began = precise_micros();
    let (mut most, mut last_report, mut recent) = (0, 0, 0);
    loop {
        sleep(Duration::from_millis(100)).await;
        let (anonymous, arena) = resident(id);
        let seconds = (precise_micros() - began) / 1_000_000;
        recent = recent.max(anonymous + arena);
        if seconds >= last_report + 5 {
            last_report = seconds;
            let over = if recent > limit { " OVER" } else { "" };
            println!(
                "{seconds:4} s: at most {:3} MiB{over}, now {:3} heap + {:3} arena; {} answers, {} slow, {} failed",
                recent >> 20,
                anonymous >> 20,
                arena >> 20,
                counts.answers.get(),
                counts.slow.get(),
                counts.failed.get(),
            );
            (most, recent) = (most.max(recent), 0);
            if asked.parts && asked.peer.is_none() {
                println!("       {}", parts(admin).await);
            }
        }
        if seconds >= asked.seconds {
            return most.max(recent);
        }
    }
}

/// Anonymous memory of a process, and the pages of larder's arena; of Varnish and its children.
fn resident(id: u32) -> (u64, u64) {
    let status = |id: &str| fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let anonymous = |status: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap_or_default();
        line.split_ascii_whitespace().next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let all = std::iter::once(id.to_string()).chain(children.split_ascii_whitespace().map(str::to_owned));
    let arena = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten().filter_map(|it| {
        let name = fs::read_link(it.path()).ok()?;
        name.to_string_lossy().contains("larder-arena").then(|| fs::metadata(it.path()).ok())?
    });
    (all.map(|it| anonymous(&status(&it))).sum(), arena.map(|it| it.blocks() * 512).sum())
}

/// Microseconds of CPU of a process and its children.
#[allow(clippy::cast_precision_loss, reason = "ticks")]
fn cpu(id: u32) -> f64 {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let all = std::iter::once(id.to_string()).chain(children.split_ascii_whitespace().map(str::to_owned));
    let ticks = |id: String| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |it| it.1);
        rest.split_ascii_whitespace().skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>()
    };
    all.map(ticks).sum::<u64>() as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What larder says its memory is used for, in MiB, and what of the budget is usable.
async fn parts(admin: u16) -> String {
    let mut answer = Vec::new();
    let asked = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, admin)).await.ok()?;
        let request = format!(
            "GET /api/v1/stats HTTP/1.1\r\nHost: 127.0.0.1:{admin}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.read_to_end(&mut answer).await.ok()
    };
    let _ = timeout(Duration::from_secs(2), asked).await;
    let Some(at) = answer.windows(4).position(|it| it == b"\r\n\r\n") else { return String::new() };
    let Ok(value) = serde_json::from_slice::<Value>(&answer[at + 4..]) else { return String::new() };
    let part = |it: &Value| {
        let kib = it["bytes"].as_u64().unwrap_or(0) >> 10;
        (kib > 512)
            .then(|| format!("{}={}.{}", it["purpose"].as_str().unwrap_or(""), kib >> 10, (kib & 1023) / 103))
    };
    let parts = value["memory"]["parts"].as_array();
    let parts: Vec<String> = parts.into_iter().flatten().filter_map(part).collect();
    format!("{} ram {}", parts.join(" "), value["ram"])
}

/// A child, killed when this goes.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|it| it.to_string())?;
    listener.local_addr().map(|it| it.port()).map_err(|it| it.to_string())
}

async fn listens(port: u16) -> Result<(), String> {
    for _ in 0..200 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err("the server does not listen".into())
}

fn memcached(dir: &Path) -> Result<(Ended, u16), String> {
    let port = free_port()?;
    let mut command = Command::new("memcached");
    command.args(["-m", "3000", "-t", "1", "-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
    let child =
        command.current_dir(dir).stdin(Stdio::null()).spawn().map_err(|it| format!("memcached: {it}"))?;
    Ok((Ended(child), port))
}

fn start(
    asked: &Asked,
    dir: &Path,
    origin: u16,
    ports: &[u16; 2],
    memcached: Option<u16>,
) -> Result<Child, String> {
    let failed = |it: std::io::Error| it.to_string();
    let [port, admin] = ports;
    match asked.peer {
        Some(Peer::Varnish) => return start_varnish(asked, dir, origin, *port),
        Some(Peer::Haproxy) => return start_haproxy(asked, dir, origin, *port),
        None => {}
    }
    let mut below = String::new();
    if asked.tiers.iter().any(|it| it == "disk") {
        below += &format!("[cache.disk]\npath = {:?}\nsize = \"4GiB\"\n\n", dir.join("disk"));
    }
    if let Some(port) = memcached {
        below += &format!("[cache.fleet]\nservers = [\"127.0.0.1:{port}\"]\n\n");
    }
    let token = dir.join("token");
    let text = format!(
        "listen = [\"127.0.0.1:{port}\"]\nworkers = {}\n{}\n\n[admin]\nlisten = \"127.0.0.1:{admin}\"\ntoken_file = {token:?}\n\n\
         [cache.ram]\nsize = \"{}MiB\"\n\n{below}[log]\naccess = \"off\"\n\n[[site]]\nhosts = [\"*\"]\n\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://127.0.0.1:{origin}\"] }}\ncache = {{ tiers = {:?} }}\n",
        asked.workers,
        asked.lines.join("\n"),
        asked.ram,
        asked.tiers,
    );
    fs::write(dir.join("larder.toml"), text).map_err(failed)?;
    fs::write(&token, TOKEN).map_err(failed)?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let mut command = Command::new(&asked.larder);
    command.arg("run").arg("-c").arg(dir.join("larder.toml")).stdin(Stdio::null());
    command.spawn().map_err(|it| format!("{}: {it}", asked.larder.display()))
}

fn start_varnish(asked: &Asked, dir: &Path, origin: u16, port: u16) -> Result<Child, String> {
    let vcl = format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{origin}\"; }}\n");
    fs::write(dir.join("default.vcl"), vcl).map_err(|it| it.to_string())?;
    let mut command = Command::new("varnishd");
    command.args(["-F", "-a", &format!("127.0.0.1:{port}"), "-f"]).arg(dir.join("default.vcl"));
    command.arg("-n").arg(dir.join("varnish")).args(["-s", &format!("default,{}m", asked.ram)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|it| format!("varnishd: {it}"))
}

/// With its cache, which takes what is not larger than the limit, in blocks of a kibibyte.
fn start_haproxy(asked: &Asked, dir: &Path, origin: u16, port: u16) -> Result<Child, String> {
    let text = format!(
        "global\nno strict-limits\nnbthread {}\nmaxconn 10000\n\
         defaults\nmode http\ntimeout connect 5s\ntimeout client 1h\ntimeout server 1h\n\
         timeout http-keep-alive 1h\noption http-keep-alive\nhttp-reuse always\n\
         cache page\ntotal-max-size {}\nmax-object-size 4000000\nmax-age 86400\n\
         frontend here\nbind 127.0.0.1:{port} backlog 4096\ndefault_backend app\n\
         backend app\nhttp-request cache-use page\nhttp-response cache-store page\nserver origin 127.0.0.1:{origin}\n",
        asked.workers, asked.ram,
    );
    fs::write(dir.join("haproxy.cfg"), text).map_err(|it| it.to_string())?;
    let mut command = Command::new("haproxy");
    command.args(["-db", "-q", "-f"]).arg(dir.join("haproxy.cfg")).stdin(Stdio::null());
    command.spawn().map_err(|it| format!("haproxy: {it}"))
}

/// The origin: `/N` is page N as it is now; `/N?private` is the same, not to be stored.
async fn serve(listener: TcpListener, pages: Rc<Pages>, counts: Rc<Counts>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (pages, counts) = (pages.clone(), counts.clone());
        spawn_local(async move {
            let _ = stream.set_nodelay(true);
            let _ = answer(stream, &pages, &counts).await;
        });
    }
}

async fn answer(mut stream: TcpStream, pages: &Pages, counts: &Counts) -> std::io::Result<()> {
    let mut got = Vec::new();
    let mut part = [0; 4096];
    loop {
        while let Some(end) = got.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&got[..end]).into_owned();
            got.drain(..end + 4);
            let target = head.split(' ').nth(1).unwrap_or("/0");
            let (page, is_private) = match target.strip_suffix("?private") {
                Some(page) => (page, true),
                None => (target, false),
            };
            let page: usize = page.trim_start_matches('/').parse().unwrap_or(0);
            let lifetime = pages.lifetime(page);
            // Two of three have a validator, and outlive their lifetime: most are found unchanged.
            let tagged = page % 3 > 0;
            let version = precise_micros() / 1_000_000 / if tagged { lifetime * 4 } else { lifetime };
            let tag = if tagged { format!("ETag: \"{version}\"\r\n") } else { String::new() };
            if tagged && head.contains(&format!("\"{version}\"")) {
                add(&counts.validated, 1);
                let head =
                    format!("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age={lifetime}\r\n{tag}\r\n");
                stream.write_all(head.as_bytes()).await?;
                continue;
            }
            add(&counts.fetched, 1);
            let body = pages.body(page, version);
            let directives =
                if is_private { "private, no-store".into() } else { format!("max-age={lifetime}") };
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {directives}\r\nX-Version: {version}\r\n{tag}Content-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body).await?;
        }
        match stream.read(&mut part).await? {
            0 => return Ok(()),
            read => got.extend_from_slice(&part[..read]),
        }
    }
}

/// Asks for one page after another, and compares.
async fn fetch(port: u16, number: usize, pages: Rc<Pages>, counts: Rc<Counts>) {
    let state = Cell::new(0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1) << 20);
    loop {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        while one(&mut stream, pages.choose(&state), pages.is_uncacheable(&state), &pages, &counts)
            .await
            .is_some()
        {}
        add(&counts.failed, 1);
    }
}

/// One page; `None` where the connection is of no use any more.
async fn one(
    stream: &mut TcpStream,
    page: usize,
    is_private: bool,
    pages: &Pages,
    counts: &Counts,
) -> Option<()> {
    thread_local! { static BUFFER: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) } }
    let query = if is_private { "?private" } else { "" };
    let request = format!("GET /{page}{query} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut got = BUFFER.with_borrow_mut(Vec::pop).unwrap_or_default();
    got.clear();
    let whole = loop {
        if let Some(whole) = whole(&got).filter(|it| got.len() >= it.0) {
            break whole;
        }
        got.reserve(65536);
        if stream.read_buf(&mut got).await.ok()? == 0 {
            return None;
        }
    };
    let (end, body, version) = whole;
    add(&counts.answers, 1);
    add(&counts.bytes, end as u64);
    match version {
        Some(version) if pages.body(page, version) == &got[body..end] => {}
        Some(_) => add(&counts.wrong, 1),
        None => add(&counts.failed, 1),
    }
    BUFFER.with_borrow_mut(|it| it.push(got));
    Some(())
}

/// Where an answer ends, where its body begins, and its version.
fn whole(got: &[u8]) -> Option<(usize, usize, Option<u64>)> {
    let body = got.windows(4).take(2048).position(|it| it == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&got[..body]).ok()?;
    let field = |name: &str| {
        let found =
            head.lines().find(|it| it.len() > name.len() && it[..name.len()].eq_ignore_ascii_case(name))?;
        found[name.len()..].trim().parse::<u64>().ok()
    };
    let length = usize::try_from(field("content-length:")?).ok()?;
    Some((body + length, body, field("x-version:")))
}

/// Asks for one large page after another and reads 4 KiB each second.
async fn ask_slowly(port: u16, number: usize, pages: Rc<Pages>, counts: Rc<Counts>) {
    let state = Cell::new(0x1234_5678_9ABC_DEF1 ^ (number as u64 + 1) << 24);
    sleep(Duration::from_millis(number as u64 * 7 % 10_000)).await;
    loop {
        let page = std::iter::repeat_with(|| pages.choose(&state)).find(|it| pages.lengths[*it] > 50_000);
        let _ = slowly(port, page.unwrap_or(0), &counts).await;
        sleep(Duration::from_millis(200)).await;
    }
}

async fn slowly(port: u16, page: usize, counts: &Counts) -> std::io::Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(8192)?;
    let mut stream = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream
        .write_all(format!("GET /{page} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut part = [0; 4096];
    add(&counts.slow, 1);
    while stream.read(&mut part).await? > 0 {
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
