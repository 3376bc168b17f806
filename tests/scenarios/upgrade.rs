//! Upgrades of the running binary: no request fails, purges hold in both processes, and a new process that fails changes nothing.

use crate::harness::command::{self, Ended, wait};
use crate::harness::http2::Http2;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::quic::{QuicClient, frame, request};
use crate::harness::secure::{Authority, Trusting};
use crate::harness::server::{Setup, binary};
use crate::harness::tiers::{disk, written};
use crate::harness::{Client, Larder, Origin, TIMEOUT, until};
use rustls::version::{TLS12, TLS13};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

mod crashes;
mod forged;
mod in_flight;

/// A larder that is started by a link, which the scenario may set to another program; and the processes that replaced it.
struct Upgradable {
    larder: Larder,
    link: PathBuf,
    processes: Vec<u32>,
}

impl Upgradable {
    fn start(config: String, env: &[(&str, &str)]) -> Self {
        let links = tempfile::tempdir().unwrap().keep();
        let link = links.join("larder");
        std::os::unix::fs::symlink(binary(), &link).unwrap();
        let env = env.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
        let larder = Larder::start_by(Command::new(&link), Setup { config, env });
        Self { larder, link, processes: Vec::new() }
    }

    /// Runs `larder upgrade`.
    fn upgrade_within(&mut self, seconds: &str) -> Ended {
        let admin = self.larder.admin.to_string();
        let arguments = ["upgrade", "--admin", &admin, "--json", "--timeout", seconds];
        let ended = command::run(self.larder.folder.path(), &arguments);
        if ended.code == 0 {
            let answer: Value = serde_json::from_str(&ended.out).unwrap();
            self.processes.push(u32::try_from(answer["process"].as_u64().unwrap()).unwrap());
        }
        ended
    }

    /// The same, which succeeds when the process before the running one has ended.
    #[track_caller]
    fn upgrade(&mut self) {
        until("an upgrade", || {
            let ended = self.upgrade_within("60");
            let must_wait = ended.out.contains("still finishes its requests");
            assert!(ended.code == 0 || must_wait, "{ended:?}");
            ended.code == 0
        });
    }

    /// The sentence by which an upgrade fails.
    #[track_caller]
    fn refused(&mut self, seconds: &str) -> String {
        let ended = self.upgrade_within(seconds);
        assert_eq!(1, ended.code, "{ended:?}");
        let answer: Value = serde_json::from_str(&ended.out).unwrap();
        answer["error"].as_str().unwrap().to_owned()
    }

    /// Has the link name another program: a script.
    fn set_program(&self, script: &str) {
        let file = self.link.with_file_name("script");
        // A file that is open for writing cannot be run, and a process that another test starts has the descriptors of this one for a
        // moment: the file is written by a program.
        let text = file.with_file_name("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        let status = Command::new("install").args(["-m", "755"]).arg(&text).arg(&file).status().unwrap();
        assert!(status.success());
        self.set_link(&file);
    }

    fn set_link(&self, file: &Path) {
        let new = self.link.with_file_name("new");
        std::os::unix::fs::symlink(file, &new).unwrap();
        std::fs::rename(new, &self.link).unwrap();
    }
}

/// The processes that run a configuration.
fn processes(config: &Path) -> Vec<u32> {
    let is_one = |it: &u32| {
        let line = std::fs::read(format!("/proc/{it}/cmdline")).unwrap_or_default();
        line.split(|it| *it == 0).any(|it| it == config.as_os_str().as_encoded_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

impl Drop for Upgradable {
    fn drop(&mut self) {
        // A scenario that fails does not know all of its processes, and they would hold the output of the tests open.
        for process in processes(&self.larder.config()).iter().chain(&self.processes) {
            // SAFETY: kill takes no pointers. It is a process of this scenario, or has ended a moment ago.
            unsafe { libc::kill(libc::pid_t::try_from(*process).unwrap(), libc::SIGKILL) };
        }
        let _ = std::fs::remove_dir_all(self.link.parent().unwrap());
    }
}

fn config(origin: &Origin, listen: &str, top: &str) -> String {
    format!(
        "listen = [{listen}]\nworkers = 2\n{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    )
}

const ANY_PORT: &str = "\"127.0.0.1:0\"";

fn pages() -> Origin {
    Origin::new(|request| match request.target() {
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "large".repeat(20_000)),
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nfrom the origin".to_owned(),
    })
}

const PAGES: [(&str, &str); 3] = [("/kept", "kept"), ("/passed", "from the origin"), ("/kept", "kept")];

/// Sends requests until `enough`, on a new connection whenever larder has announced the close of the old one.
fn ask_on(address: SocketAddr, enough: &AtomicBool, answered: &AtomicUsize) {
    let mut client = Client::connect(address);
    for (target, text) in PAGES.iter().cycle() {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let answer = client.read();
        assert_eq!((200, *text), (answer.status, &*answer.text()), "{answer:?}");
        answered.fetch_add(1, SeqCst);
        if enough.load(SeqCst) {
            return;
        }
        if answer.field("connection") == Some("close") {
            client = Client::connect(address);
        }
    }
}

/// The same over TLS.
fn ask_over_tls(authority: &Authority, address: SocketAddr, enough: &AtomicBool, answered: &AtomicUsize) {
    let trusting = authority.trusting();
    let connect = || trusting.connect(address, "larder.test").unwrap();
    let mut client = connect();
    for (target, text) in PAGES.iter().cycle() {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: larder.test\r\n\r\n"));
        let answer = client.read();
        assert_eq!((200, *text), (answer.status, &*answer.text()), "{answer:?}");
        answered.fetch_add(1, SeqCst);
        if enough.load(SeqCst) {
            return;
        }
        if answer.field("connection") == Some("close") {
            client = connect();
        }
    }
}

/// The same over HTTP/2, where GOAWAY announces it.
fn ask_over_http2(address: SocketAddr, enough: &AtomicBool, answered: &AtomicUsize) {
    let connect = || Http2::over(TcpStream::connect(address).unwrap(), &[]);
    let mut client = connect();
    for (target, text) in PAGES.iter().cycle() {
        let mut answer = client.get(target);
        if answer.status == 0 && client.goaway == Some(0) {
            // Sent before the client saw the close: not processed, and to be repeated (RFC 9113 section 6.8).
            client = connect();
            answer = client.get(target);
        }
        assert_eq!((200, *text), (answer.status, &*answer.text()), "{answer:?}");
        answered.fetch_add(1, SeqCst);
        if enough.load(SeqCst) {
            return;
        }
        if client.was_announced || client.goaway.is_some() {
            client = connect();
        }
    }
}

#[test]
fn upgrades_under_load_fail_no_request() {
    let (origin, authority) = (pages(), Authority::new());
    let top = format!("[tls]\ncertificates = [{}]\n", authority.sign("one", &["larder.test"]));
    let config = config(&origin, "\"127.0.0.1:0\", \"https://127.0.0.1:0\"", &top);
    let mut running = Upgradable::start(config, &[]);
    let printed = running.larder.printed();
    let tls: SocketAddr =
        printed.lines().find_map(|it| it.strip_prefix("listening on https://")).unwrap().parse().unwrap();
    let address = running.larder.address;
    let (enough, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (enough, answered, authority) = (&enough, &answered, &authority);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ask_on(address, enough, answered));
            scope.spawn(|| ask_over_tls(authority, tls, enough, answered));
            scope.spawn(|| ask_over_http2(address, enough, answered));
        }
        let some = || {
            let before = answered.load(SeqCst);
            until("requests are answered", || answered.load(SeqCst) > before + 200);
        };
        for _ in 0..3 {
            some();
            running.upgrade();
        }
        some();
        enough.store(true, SeqCst);
    });
    assert_eq!(Some(0), wait(&mut running.larder.child).code(), "the first process has ended");
    assert_eq!("kept", running.larder.get("/kept").text());
    assert_eq!(3, running.processes.len());
    // By the names of two hosts, and two schemes: no process asked for it again.
    let asked = origin.received().iter().filter(|it| it.target() == "/kept").count();
    assert!(asked <= 3, "{asked} requests for a page that every process had in RAM");
}

/// The sockets of a UDP port, by their inodes.
fn udp_sockets(port: u16) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/udp").unwrap();
    let place = format!(":{port:04X}");
    let of_port = text.lines().map(|it| it.split_whitespace().collect::<Vec<_>>());
    let of_port = of_port.filter(|it| it.get(1).is_some_and(|it| it.ends_with(&place)));
    let mut inodes: Vec<_> = of_port.map(|it| it[9].to_owned()).collect();
    inodes.sort();
    inodes
}

#[test]
fn the_sockets_of_http3_go_to_the_new_process() {
    let (origin, authority) = (pages(), Authority::new());
    let top = format!("http3 = true\n[tls]\ncertificates = [{}]\n", authority.sign("one", &["localhost"]));
    let mut running = Upgradable::start(config(&origin, "\"https://127.0.0.1:0\"", &top), &[]);
    let address = running.larder.address;
    let connect = || QuicClient::begin(address, &authority.trusting(), "localhost");
    let sockets = udp_sockets(address.port());
    assert_eq!(2, sockets.len());
    for _ in 0..2 {
        let mut before = connect();
        assert_eq!(b"kept", &*before.get("/kept").body);
        running.upgrade();
        assert_eq!(0x100, before.end(), "it has no request");
        for _ in 0..8 {
            assert_eq!(b"kept", &*connect().get("/kept").body);
        }
        assert_eq!(sockets, udp_sockets(address.port()));
    }
    let asked = origin.received().iter().filter(|it| it.target() == "/kept").count();
    assert_eq!(1, asked, "every process had it in RAM");
}

/// A larder with HTTP/3, and a connector to it.
fn http3(origin: &Origin, env: &[(&str, &str)]) -> (Upgradable, impl Fn() -> QuicClient + use<>) {
    let authority = Authority::new();
    let certificate = authority.sign("one", &["localhost"]);
    let top = format!("http3 = true\nlimits.drain_timeout = \"1m\"\n[tls]\ncertificates = [{certificate}]\n");
    let running = Upgradable::start(config(origin, "\"https://127.0.0.1:0\"", &top), env);
    let address = running.larder.address;
    (running, move || QuicClient::begin(address, &authority.trusting(), "localhost"))
}

/// Repeats a body of a request, behind a gate.
fn echo_behind(gate: &Arc<Gate>) -> Origin {
    let held = gate.clone();
    Origin::scripted(move |it| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: ";
        let head = format!("{head}{}\r\n\r\n", it.body.len());
        match it.target() {
            "/kept" => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nkept"))],
            _ => vec![Script::Gate(held.clone()), Script::Send([head.as_bytes(), &it.body].concat())],
        }
    })
}

/// The new process reads the sockets, and passes packets on: bytes of requests, and acknowledgements of responses.
#[test]
fn requests_over_http3_are_finished_by_the_old_process() {
    let gate = Gate::new();
    let origin = echo_behind(&gate);
    let (mut running, connect) = http3(&origin, &[]);
    let mut clients: Vec<_> = (0..8).map(|_| connect()).collect();
    let half = vec![b'a'; 100_000];
    let post = request("POST", "/echo", &[("content-length", "200000")]);
    let asked: Vec<_> = clients.iter_mut().map(|it| it.bi(&post, false)).collect();
    for (client, id) in clients.iter_mut().zip(&asked) {
        client.send(*id, &frame(0, &half), false);
        assert_eq!(b"kept", &*client.get("/kept").body);
    }
    running.upgrade();
    for (at, (client, id)) in clients.iter_mut().zip(&asked).enumerate() {
        match at % 4 {
            1 => client.move_away(),
            2 => client.lose_packets(),
            _ => {}
        }
        client.send(*id, &frame(0, &half), true);
        client.until("its packets", |_| gate.waiting() > at);
        assert_eq!(b"kept", &*connect().get("/kept").body, "of the new process");
    }
    gate.open();
    // A client that acknowledges nothing for seconds is not waited for.
    until("all responses", || {
        for (client, id) in clients.iter_mut().zip(&asked) {
            client.turn();
            if client.arrived(*id).is_whole {
                // The last packet of a connection is sent once.
                client.lose_no_packets();
            }
        }
        clients.iter().zip(&asked).all(|it| it.0.arrived(*it.1).is_whole || it.0.closed.is_some())
    });
    for (at, (client, id)) in clients.iter_mut().zip(&asked).enumerate() {
        let answer = client.response(*id);
        let answer = answer.unwrap_or_else(|it| panic!("{at}: {it}"));
        assert_eq!((200, 200_000), (answer.status, answer.body.len()));
        assert!(answer.body.iter().all(|it| *it == b'a'));
    }
    for client in &mut clients {
        assert_eq!(0x100, client.end());
    }
    assert!(running.larder.counter("http3_forwarded") > 0);
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
    assert_eq!(8, origin.received().iter().filter(|it| it.target() == "/echo").count());
}

#[test]
fn connections_over_http3_are_closed_where_the_new_process_passes_no_packets() {
    let gate = Gate::new();
    let origin = echo_behind(&gate);
    let plan = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(plan.path(), "without packets").unwrap();
    let env = [("LARDER_TEST_UPGRADE", plan.path().to_str().unwrap())];
    let (mut running, connect) = http3(&origin, &env);
    let mut client = connect();
    client.bi(&request("GET", "/slow", &[]), true);
    client.until("its request", |_| gate.waiting() == 1);
    running.upgrade();
    assert_eq!(0x100, client.end());
    gate.open();
    assert_eq!(b"kept", &*connect().get("/kept").body);
}

/// The old process has no other way to its clients.
#[test]
fn the_end_of_the_process_that_passes_packets_is_noticed() {
    let gate = Gate::new();
    let origin = echo_behind(&gate);
    let (mut running, connect) = http3(&origin, &[]);
    let mut client = connect();
    client.bi(&request("GET", "/slow", &[]), true);
    client.until("its request", |_| gate.waiting() == 1);
    running.upgrade();
    let process = libc::pid_t::try_from(running.processes[0]).unwrap();
    // SAFETY: kill takes no pointers. It is a process of this scenario.
    unsafe { libc::kill(process, libc::SIGKILL) };
    assert_eq!(0x100, client.end());
    gate.open();
}

/// Ends the other threads of a scenario with this one, also by a panic.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// An origin whose page has the number of its version.
fn versions(now: &Arc<AtomicU64>) -> Origin {
    let now = now.clone();
    Origin::new(move |request| {
        let version = now.load(SeqCst);
        if request.target() == "/group" {
            return "HTTP/1.1 200 OK\nCache-Group-Invalidation: \"g\"\n\n".to_owned();
        }
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: page\nCache-Groups: \"g\"\n\n{version}"
        )
    })
}

/// The version that a response has, whose connection is replaced when it ends.
fn version(client: &mut Client, address: SocketAddr) -> u64 {
    client.send("GET /page HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = client.read();
    assert_eq!(200, answer.status, "{answer:?}");
    if answer.field("connection") == Some("close") {
        *client = Client::connect(address);
    }
    answer.text().parse().unwrap()
}

#[test]
fn no_process_serves_a_page_purged_before() {
    let folder = tempfile::tempdir().unwrap();
    purges_during_upgrades(&disk(folder.path()));
}

#[test]
fn no_process_serves_a_page_purged_before_from_ram_alone() {
    purges_during_upgrades("");
}

/// A logout in the old process would be unknown to the new one, which has the session as well.
#[test]
fn changes_over_a_connection_to_the_old_process_are_refused() {
    let gate = Gate::new();
    let origin = echo_behind(&gate);
    let mut running = Upgradable::start(config(&origin, ANY_PORT, ""), &[]);
    let (admin, lines) = (running.larder.admin, running.larder.admin_lines());
    // A request that the old process finishes.
    let mut slow = running.larder.client();
    slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is in work", || gate.waiting() == 1);
    // The old process answers one more request over each.
    let mut kept = [(); 3].map(|()| Client::connect(admin));
    let fetch = |client: &mut Client, what: &str, body: &str| {
        let length = body.len();
        client.send(format!("{what} HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"));
        client.read()
    };
    for client in &mut kept {
        assert_eq!(200, fetch(client, "POST /api/v1/top/reset", "").status);
    }
    running.upgrade();
    let [first, second, third] = &mut kept;
    assert_eq!(200, fetch(first, "GET /api/v1/whoami", "").status);
    let purged = fetch(second, "POST /api/v1/purge", "{\"url\":\"http://h/a\"}");
    assert_eq!(200, purged.status, "it reaches the new one: {purged:?}");
    let answer = fetch(third, "POST /api/v1/logout/everywhere", "");
    assert_eq!((503, Some("close")), (answer.status, answer.field("connection")), "{answer:?}");
    assert!(answer.text().contains("repeat it on a new connection"), "{}", answer.text());
    gate.open();
    assert_eq!(200, slow.read().status);
}

/// The version that a client of HTTP/2 gets; it connects again after a GOAWAY.
fn version_over_http2(client: &mut Http2, address: SocketAddr) -> u64 {
    let connect = || Http2::over(TcpStream::connect(address).unwrap(), &[]);
    let mut answer = client.get("/page");
    if answer.status == 0 && client.goaway == Some(0) {
        *client = connect();
        answer = client.get("/page");
    }
    assert_eq!(200, answer.status, "{answer:?}");
    if client.was_announced || client.goaway.is_some() {
        *client = connect();
    }
    answer.text().parse().unwrap()
}

/// A client that purges, each time in the next way.
struct Purger {
    site: SocketAddr,
    admin: SocketAddr,
    lines: String,
    client: Client,
    of_admin: Client,
}

impl Purger {
    fn of(larder: &Larder) -> Self {
        let (site, admin) = (larder.address, larder.admin);
        let (client, of_admin) = (Client::connect(site), Client::connect(admin));
        Self { site, admin, lines: larder.admin_lines(), client, of_admin }
    }

    /// The page is not served any more when this returns.
    fn purge(&mut self, number: u64) {
        match number % 4 {
            0 => self.by_admin(),
            1 => self.request("PURGE", "/page"),
            // Their responses invalidate (RFC 9111 section 4.4, RFC 9875).
            2 => self.request("POST", "/page"),
            _ => self.request("POST", "/group"),
        }
    }

    fn by_admin(&mut self) {
        let (lines, body) = (&self.lines, r#"{"tag":"page"}"#);
        let length = body.len();
        self.of_admin.send(format!(
            "POST /api/v1/purge HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let answer = self.of_admin.read();
        assert_eq!(200, answer.status, "{answer:?}");
        let receipt: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(true, receipt["complete"], "{receipt}");
        if answer.field("connection") == Some("close") {
            self.of_admin = Client::connect(self.admin);
        }
    }

    fn request(&mut self, method: &str, target: &str) {
        let answer = self.client.request(method, target, "", "x");
        assert_eq!(200, answer.status, "{method} {target}: {answer:?}");
        if answer.field("connection") == Some("close") {
            self.client = Client::connect(self.site);
        }
    }
}

/// Purges of every kind without a pause during upgrades.
fn purges_during_upgrades(top: &str) {
    let now = Arc::new(AtomicU64::new(0));
    let origin = versions(&now);
    let top = format!("[cache]\npurge = {{ method = true, from = [\"127.0.0.1\"] }}\n{top}");
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &top), &[]);
    let address = running.larder.address;
    let (enough, purged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (enough, purged) = (&enough, &purged);
    let check = move |version: &mut dyn FnMut() -> u64| {
        let _end = Enough(enough);
        while !enough.load(SeqCst) {
            let least = purged.load(SeqCst);
            let found = version();
            assert!(found >= least, "version {found} after purge {least}, which was of kind {}", least % 4);
        }
    };
    let mut purger = Purger::of(&running.larder);
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                // One connection that lasts, in whichever process it is, or a new one for each request. One that lasts is never
                // idle: the old process closes it after a second.
                let mut client = Client::connect(address);
                check(&mut || {
                    let found = version(&mut client, address);
                    if number % 2 == 0 {
                        client = Client::connect(address);
                    }
                    found
                });
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                let mut client = Http2::over(TcpStream::connect(address).unwrap(), &[]);
                check(&mut || version_over_http2(&mut client, address));
            });
        }
        scope.spawn(|| {
            let _end = Enough(enough);
            while !enough.load(SeqCst) {
                let new = now.fetch_add(1, SeqCst) + 1;
                purger.purge(new);
                purged.store(new, SeqCst);
            }
        });
        let _end = Enough(enough);
        let some = || {
            let before = purged.load(SeqCst);
            until("purges are done", || enough.load(SeqCst) || purged.load(SeqCst) > before + 40);
        };
        for _ in 0..3 {
            some();
            running.upgrade();
        }
        some();
    });
    assert_eq!(now.load(SeqCst), version(&mut Client::connect(address), address));
}

#[test]
fn a_new_process_that_fails_changes_nothing() {
    let (origin, folder) = (pages(), tempfile::tempdir().unwrap());
    let plan = folder.path().join("plan");
    let env = [("LARDER_TEST_UPGRADE", plan.to_str().unwrap())];
    let socket = folder.path().join("socket");
    let listen = format!("{ANY_PORT}, \"unix:{}\"", socket.display());
    let mut running = Upgradable::start(config(&origin, &listen, &disk(folder.path())), &env);
    assert_eq!("kept", running.larder.get("/kept").text());
    assert_eq!(100_000, running.larder.get("/large").text().len());
    written(&running.larder, 2);
    let whole = std::fs::read_to_string(running.larder.config()).unwrap();
    let check = |running: &mut Upgradable, seconds: &str, expect: &str| {
        let why = running.refused(seconds);
        assert!(why.contains(expect), "{why}");
        assert!(running.larder.get("/kept").is_hit(), "{why}");
        let large = running.larder.get("/large");
        assert!(large.is_hit() && large.text() == "large".repeat(20_000), "{why}");
        assert_eq!("from the origin", running.larder.get("/passed").text());
        UnixStream::connect(&socket).unwrap_or_else(|it| panic!("{it} after: {why}"));
        let objects = running.larder.admin_get("/api/v1/objects?tier=disk").text();
        assert!(objects.contains("/kept"), "the disk tier has its content after: {why}\n{objects}");
        let receipt = running.larder.admin_post("/api/v1/purge", r#"{"tag":"none"}"#).text();
        assert!(receipt.contains("\"complete\":true"), "{receipt}");
        let overlay = running.larder.admin_send("PUT", "/api/v1/overlays?uri=/over", "x").read();
        assert_eq!(200, overlay.status, "changes are accepted again after: {why}\n{overlay:?}");
    };
    for step in ["offer", "sockets", "ready", "ram", "switch", "worker", "serving"] {
        std::fs::write(&plan, format!("crash {step}")).unwrap();
        check(&mut running, "60", "The new process ended (signal: 6 (SIGABRT)");
        std::fs::write(&plan, format!("hang {step}")).unwrap();
        check(&mut running, "1", "The new process did not respond in time.");
    }
    std::fs::write(&plan, "").unwrap();
    std::fs::write(running.larder.config(), whole.replace("workers", "wrokers")).unwrap();
    check(&mut running, "60", "The new process cannot take over: ");
    std::fs::write(running.larder.config(), whole).unwrap();
    running.set_program("exit 3");
    check(&mut running, "60", "The new process ended (exit status: 3)");
    // Silent until the end of the connection: nothing of it outlives the scenario, also if that fails.
    let silent = "exec cat >/dev/null 2>&1";
    running.set_program(silent);
    check(&mut running, "1", "The new process did not respond in time.");
    running.set_program(&format!("printf 'HTTP/1.1 200 OK and more bytes than a head has' >&0; {silent}"));
    check(&mut running, "60", "The new process sent other bytes instead of a valid message.");
    running.set_program(&format!(
        "printf 'larderUP\\002\\000\\002\\000and more bytes than a head has' >&0; {silent}"
    ));
    check(&mut running, "60", "The new process uses version 2 of the hand-over, and this one version 1");
    running.set_link(Path::new("/nonexistent"));
    check(&mut running, "60", "cannot be started: ");
    running.set_link(binary());
    running.upgrade();
    until("the new process has the disk tier", || {
        running.larder.admin_get("/api/v1/objects?tier=disk").text().contains("/kept")
    });
    assert_eq!("kept", running.larder.get("/kept").text());
    assert_eq!(
        1,
        origin.received().iter().filter(|it| it.target() == "/kept").count(),
        "it came from the disk"
    );
}

#[test]
fn responses_in_progress_stay_with_the_old_process() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\nfirst";
        vec![Script::Send(head.into()), Script::Gate(held.clone()), Script::Send("later".into())]
    });
    let mut running = Upgradable::start(config(&origin, ANY_PORT, ""), &[]);
    let mut client = running.larder.client();
    client.send("GET /events HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the stream has begun", || gate.waiting() == 1);
    running.upgrade();
    // It serves one client still, and no third process starts.
    assert!(running.refused("60").contains("still finishes its requests"));
    assert!(running.larder.child.try_wait().unwrap().is_none());
    gate.open();
    assert_eq!("firstlater", client.read().text());
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
    running.upgrade();
}

#[test]
fn a_process_that_was_replaced_frees_its_ram_before_it_ends() {
    const PAGES: usize = 40;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.target() {
        "/events" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst";
            vec![Script::Send(head.into()), Script::Gate(held.clone()), Script::Send("later".into())]
        }
        _ => {
            let page = format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "x".repeat(1 << 20));
            vec![Script::Send(response(&page))]
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan");
    // One that copies the pages.
    std::fs::write(&plan, "without arena").unwrap();
    // The clock of the machine: that of the old process cannot be moved once the new one has its addresses.
    let env = [("LARDER_TEST_CLOCK", ""), ("LARDER_TEST_UPGRADE", plan.to_str().unwrap())];
    let mut running = Upgradable::start(config(&origin, ANY_PORT, "limits.drain_timeout = \"10m\""), &env);
    let mut pages = running.larder.client();
    (0..PAGES).for_each(|it| assert_eq!(200, pages.get(&format!("/{it}")).status));
    drop(pages);
    let full = running.larder.resident_arena();
    assert!(full >= (PAGES as u64) << 20, "{full}");
    let mut client = running.larder.client();
    client.send("GET /events HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the response has begun", || gate.waiting() == 1);
    running.upgrade();
    until("the pages are freed", || running.larder.resident_arena() < full / 4);
    assert!(running.larder.child.try_wait().unwrap().is_none(), "it still has a client");
    assert!(Client::connect(running.larder.address).get("/1").is_hit(), "the new process has them");
    gate.open();
    assert_eq!("firstlater", client.read().text());
}

/// The arenas of some processes: the bytes of each file.
fn arenas(processes: &[u32]) -> BTreeMap<u64, u64> {
    let open =
        processes.iter().flat_map(|it| std::fs::read_dir(format!("/proc/{it}/fd")).into_iter().flatten());
    let arena = |it: std::io::Result<std::fs::DirEntry>| {
        let path = it.ok()?.path();
        let is_arena = std::fs::read_link(&path).ok()?.to_string_lossy().contains("larder-arena");
        let file = is_arena.then(|| std::fs::metadata(path).ok()).flatten()?;
        Some((file.ino(), file.blocks() * 512))
    };
    open.filter_map(arena).collect()
}

#[test]
fn large_bodies_are_not_copied_and_stay_until_the_old_process_ends() {
    const PAGES: usize = 40;
    const LENGTH: usize = 500_000;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.target() {
        "/events" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst";
            vec![Script::Send(head.into()), Script::Gate(held.clone())]
        }
        path => {
            let page = path.repeat(LENGTH / path.len());
            let head = "HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Type: text/css\n\n";
            vec![Script::Send(response(&format!("{head}{page}")))]
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let top = format!("limits.drain_timeout = \"10m\"\n{}", logged_in(folder.path()));
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &top), &[]);
    let check = |address: SocketAddr| {
        let mut client = Client::connect(address);
        for it in 0..PAGES {
            let path = format!("/{it}");
            let page = client.get(&path);
            assert!(page.is_hit() && page.text() == path.repeat(LENGTH / path.len()), "{path}");
        }
    };
    let mut pages = running.larder.client();
    (0..PAGES).for_each(|it| assert_eq!(200, pages.get(&format!("/{it}")).status));
    drop(pages);
    let first = running.larder.child.id();
    let full: u64 = arenas(&[first]).values().sum();
    assert!(full >= (PAGES * LENGTH) as u64, "{full}");
    let mut client = running.larder.client();
    client.send("GET /events HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the response has begun", || gate.waiting() == 1);

    running.upgrade();
    let second = running.processes[0];
    check(running.larder.address);
    let both = |first, second| arenas(&[first, second]).values().sum::<u64>();
    assert_eq!(full, both(first, second), "{}", log(folder.path()));
    assert!(log(folder.path()).contains(" shared=") && !log(folder.path()).contains(" shared=0"));
    // Evicted in the new process: the old one may be sending them.
    running.larder.admin_post("/api/v1/purge", r#"{"url":"http://h/1"}"#);
    assert_eq!(200, Client::connect(running.larder.address).get("/1").status);
    assert!(both(first, second) >= full);
    running.larder.signal(libc::SIGKILL);
    wait(&mut running.larder.child);
    until("what the old process alone had is gone", || arenas(&[second]).values().sum::<u64>() == full);
    check(running.larder.address);
    running.upgrade();
    check(running.larder.address);
    assert!(both(second, running.processes[1]) < full + full / 10);
    assert!(!log(folder.path()).contains("ram-not-handed-over"), "{}", log(folder.path()));
}

#[test]
fn addresses_files_and_workers_may_change() {
    let (origin, folder) = (pages(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it);
    let unix = |it: &str| format!("\"unix:{}\"", at(it).display());
    let (_reserved, free) = crate::harness::reserved_address();
    let listen = format!("{ANY_PORT}, {}, {}", unix("stays"), unix("goes"));
    let admin = format!("[admin]\nlisten = {ANY_PORT}\nsocket = {:?}\n", at("admin"));
    let mut running = Upgradable::start(config(&origin, &listen, "") + &admin, &[]);
    for workers in [5, 1, 3] {
        // An address that goes, one that comes, and more or fewer workers than sockets.
        let listen = format!("{:?}, {}, {ANY_PORT}", free.to_string(), unix("stays"));
        let text =
            config(&origin, &listen, "").replace("workers = 2", &format!("workers = {workers}")) + &admin;
        std::fs::write(running.larder.config(), text).unwrap();
        running.upgrade();
        for _ in 0..10 {
            assert_eq!("kept", running.larder.get("/kept").text());
            assert_eq!("kept", Client::connect(free).get("/kept").text());
        }
        assert!(at("stays").exists() && at("admin").exists());
        UnixStream::connect(at("stays")).unwrap();
        UnixStream::connect(at("admin")).unwrap();
        // The command finds the new process by its run file, which names its configuration.
        let config = running.larder.config();
        let arguments = ["stats", "--json", "-c", config.to_str().unwrap()];
        let ended = command::run(running.larder.folder.path(), &arguments);
        assert_eq!(0, ended.code, "{ended:?}");
    }
    assert!(!at("goes").exists(), "the file of an address that is gone is removed");
}

#[test]
fn a_signal_upgrades_and_the_service_manager_learns_the_new_process() {
    let (origin, folder) = (pages(), tempfile::tempdir().unwrap());
    let path = folder.path().join("notify");
    let messages = UnixDatagram::bind(&path).unwrap();
    messages.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut running =
        Upgradable::start(config(&origin, ANY_PORT, ""), &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    running.larder.signal(libc::SIGUSR2);
    let mut report = Vec::new();
    let process: u32 = loop {
        let mut bytes = [0; 4096];
        let length = messages.recv(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let process = text.strip_prefix("MAINPID=").and_then(|it| it.lines().next()?.parse().ok());
        report.push(text);
        if let Some(process) = process {
            break process;
        }
    };
    running.processes.push(process);
    assert!(report[0].starts_with("READY=1\n") && report[1].starts_with("RELOADING=1\n"), "{report:?}");
    assert_ne!(process, running.larder.child.id());
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
    assert_eq!("kept", running.larder.get("/kept").text());
}

/// An origin of cacheable pages with tags.
fn tagged_pages() -> Origin {
    Origin::new(|request| {
        let path = request.target().to_owned();
        let tag = path.trim_start_matches('/').to_owned();
        let body = if path == "/large" { "x".repeat(700_000) } else { format!("page {path}") };
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Tag: {tag}\nContent-Type: text/html\n\n{body}"
        )
    })
}

/// The table `[log]` with an error log in a folder; and what it has so far.
fn logged_in(folder: &Path) -> String {
    format!("[log]\naccess = \"off\"\nerror = {:?}\n", folder.join("error.log"))
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("error.log")).unwrap_or_default()
}

#[test]
fn pages_in_ram_are_taken_over() {
    let (origin, folder) = (tagged_pages(), tempfile::tempdir().unwrap());
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &logged_in(folder.path())), &[]);
    let targets = ["/a", "/b", "/c", "/d", "/large"];
    for target in targets {
        assert_eq!(200, running.larder.get(target).status);
    }
    let receipt = running.larder.admin_post("/api/v1/purge", r#"{"tag":"a"}"#).text();
    assert!(receipt.contains("\"complete\":true"), "{receipt}");

    running.larder.admin_post("/api/v1/purge", r#"{"url":"http://h/b"}"#);
    // An unsafe method invalidates the page, too.
    running.larder.client().request("POST", "/c", "", "x");
    let before = origin.requests();
    for round in 1..=3 {
        running.upgrade();
        until("the new process has the admin", || running.larder.counter("ram_restored") == 2);
        assert_eq!(round, log(folder.path()).matches("ram-handed-over").count(), "{}", log(folder.path()));
        assert!(running.larder.get("/d").is_hit());
        assert_eq!(700_000, running.larder.get("/large").text().len());
        assert_eq!(before, origin.requests());
    }
    for target in ["/a", "/b", "/c"] {
        assert!(!running.larder.get(target).is_hit(), "{target}");
    }
    // A purge of this process reaches pages of the first one.
    running.larder.admin_post("/api/v1/purge", r#"{"tag":"d"}"#);
    assert!(!running.larder.get("/d").is_hit());
}

#[test]
fn pages_in_ram_are_taken_over_by_another_version_of_the_stream() {
    let (origin, folder) = (tagged_pages(), tempfile::tempdir().unwrap());
    let plan = folder.path().join("plan");
    let env = [("LARDER_TEST_UPGRADE", plan.to_str().unwrap())];
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &logged_in(folder.path())), &env);
    assert_eq!(200, running.larder.get("/a").status);
    // An upgrade of this version, a downgrade to one before it, and an upgrade from there.
    for (version, expect) in [("", "version=2"), ("without versions", "version=1"), ("", "version=2")] {
        std::fs::write(&plan, version).unwrap();
        running.upgrade();
        until("the new process has the admin", || running.larder.counter("ram_restored") == 1);
        let log = log(folder.path());
        let last = log.lines().rfind(|it| it.contains("ram-handed-over")).unwrap();
        assert!(last.contains(expect), "{version}: {last}");
        assert!(running.larder.get("/a").is_hit(), "{version}");
    }
    std::fs::write(&plan, "later versions").unwrap();
    running.upgrade();
    let log = log(folder.path());
    assert!(log.contains("ram-not-handed-over") && log.contains("reads other versions"), "{log}");
    assert!(!running.larder.get("/a").is_hit());
}

/// Whether the sessions of a client of each version are resumed: one of TLS 1.2, one of TLS 1.3.
fn are_resumed(clients: &[Trusting; 2], address: SocketAddr, name: &str) -> [bool; 2] {
    clients.each_ref().map(|client| {
        let mut client = client.connect(address, name).unwrap();
        // In TLS 1.3 the ticket comes before the response.
        client.send(format!("GET /kept HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!("kept", client.read().text());
        client.is_resumed()
    })
}

#[test]
fn tls_sessions_are_resumed_by_a_new_process() {
    let (origin, authority, folder) = (pages(), Authority::new(), tempfile::tempdir().unwrap());
    let plan = folder.path().join("plan");
    let certificate = authority.sign("one", &["larder.test", "other.test"]);
    let top = format!("{}[tls]\ncertificates = [{certificate}]\n", logged_in(folder.path()));
    let site = |tls: &str| {
        format!(
            "[[site]]\nhosts = [\"other.test\"]\ntls = {{ {tls} }}\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        )
    };
    let before = config(&origin, "\"https://127.0.0.1:0\"", &top);
    let required = format!("client_auth = \"optional\", client_ca = {:?}", authority.path("ca.pem"));
    let env = [("LARDER_TEST_UPGRADE", plan.to_str().unwrap())];
    let mut running = Upgradable::start(before.clone() + &site(&required), &env);
    let address = running.larder.address;
    let clients = || [&TLS12, &TLS13].map(|it| authority.trusting().only(it));
    let (one, other) = (clients(), clients());
    assert_eq!([false, false], are_resumed(&one, address, "larder.test"));
    assert_eq!([false, false], are_resumed(&other, address, "other.test"));
    assert_eq!([true, true], are_resumed(&other, address, "other.test"));
    // Twice: a third process has the keys of the first.
    for _ in 0..2 {
        running.upgrade();
        until("the process before has ended", || {
            log(folder.path()).matches("predecessor-ended").count() == running.processes.len()
        });
        assert_eq!([true, true], are_resumed(&one, address, "larder.test"));
        // Certificates are asked for again.
        assert_eq!([false, false], are_resumed(&other, address, "other.test"));
    }
    let text = log(folder.path());
    assert!(!text.contains("ticket-keys-not-handed-over"), "{text}");

    std::fs::write(&plan, "without ticket keys").unwrap();
    running.upgrade();
    until("the process before has ended", || log(folder.path()).matches("predecessor-ended").count() == 3);
    let text = log(folder.path());
    assert!(text.contains("ticket-keys-not-handed-over") && text.contains("this version of"), "{text}");
    assert_eq!([false, false], are_resumed(&one, address, "larder.test"));
    assert_eq!([true, true], are_resumed(&one, address, "larder.test"));
}

#[test]
fn under_other_settings_of_keys_ram_is_not_taken_over() {
    let (origin, folder) = (tagged_pages(), tempfile::tempdir().unwrap());
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &logged_in(folder.path())), &[]);
    assert_eq!(200, running.larder.get("/a").status);
    let text = std::fs::read_to_string(running.larder.config()).unwrap();
    // Another file, which the running process does not watch.
    let other = folder.path().join("other.toml");
    std::fs::write(&other, text + "\n[cache]\ndefault_ttl = \"61s\"\n").unwrap();
    running.set_program(&format!("exec {} run -c {}", binary().display(), other.display()));
    running.upgrade();
    let log = log(folder.path());
    assert!(log.contains("ram-not-handed-over") && log.contains("other settings of"), "{log}");
    assert!(!running.larder.get("/a").is_hit());
}

#[test]
fn a_stop_during_an_upgrade_ends_the_program_that_was_started() {
    let (origin, folder) = (pages(), tempfile::tempdir().unwrap());
    let mut running = Upgradable::start(config(&origin, ANY_PORT, ""), &[]);
    let file = folder.path().join("process");
    running.set_program(&format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", file.display()));
    running.larder.signal(libc::SIGUSR2);
    until("the program runs", || file.exists());
    let process: libc::pid_t = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    running.larder.signal(libc::SIGTERM);
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
    // SAFETY: no signal is sent, and no pointer is taken.
    until("it has ended", || unsafe { libc::kill(process, 0) } == -1);
}
