//! Limits over real sockets: each takes effect, is counted, and harms no other client. Every test waits for the event
//! itself.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use larder_transport::listener::{self, Listen};
use larder_transport::worker::ClientLimits;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use support::{Server, limits};

/// Short for a test, and long enough for what comes in time on a busy machine.
const SHORT: Duration = Duration::from_secs(1);

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n/fast";
const GET: &str = "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n";
const LATE: &str = "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: 48\r\nConnection: close\r\n\r\n408 Request Timeout\nThe request head timed out.\n";

/// What was said without its one `Date`, which is there.
#[track_caller]
fn undated(text: &str) -> String {
    let (before, rest) = text.split_once("Date: ").unwrap();
    let (date, after) = rest.split_once("\r\n").unwrap();
    assert!(date.ends_with(" GMT") && !after.contains("Date: "), "{text}");
    format!("{before}{after}")
}

#[test]
fn a_head_that_takes_too_long_is_answered_and_cut_off() {
    let server = Server::with(ClientLimits { head_timeout: SHORT, ..limits() });
    let mut peer = server.connect();
    peer.say(GET.to_owned() + "GET /fast HTTP");
    assert_eq!(PAGE.to_owned() + LATE, undated(&peer.rest()));
    assert_eq!(1, server.counters.client_head_timeouts.get());
    assert_eq!("", server.connect().rest(), "a client that said nothing is told nothing");
    assert_eq!(1, server.counters.client_idle_timeouts.get());
}

#[test]
fn a_head_that_drips_is_cut_off_all_the_same() {
    let server = Server::with(ClientLimits { head_timeout: SHORT, ..limits() });
    let mut peer = server.connect();
    let mut speaker = peer.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        let drip = std::iter::once(&b"GET / HTTP/1.1\r\n"[..]).chain(std::iter::repeat(&b"X: y\r\n"[..]));
        // Until the other end resets, which is what is waited for. The time ends long before a head has too many fields.
        for it in drip {
            if speaker.write_all(it).is_err() {
                return;
            }
            std::thread::park_timeout(SHORT / 20);
        }
    });
    assert_eq!(LATE, undated(&peer.until("timed out.\n")));
    writer.join().unwrap();
}

#[test]
fn an_idle_connection_is_closed_silently() {
    let server = Server::with(ClientLimits { idle_timeout: SHORT, ..limits() });
    let mut peer = server.connect();
    peer.say(GET);
    assert_eq!(PAGE, peer.rest());
    assert_eq!(
        [1, 0],
        [&server.counters.client_idle_timeouts, &server.counters.client_head_timeouts].map(|it| it.get())
    );
}

#[test]
fn a_body_that_stops_is_given_up() {
    let server = Server::with(ClientLimits { body_timeout: SHORT, ..limits() });
    let mut peer = server.connect();
    peer.say("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell");
    let expect = "HTTP/1.1 400 Bad Request\r\nContent-Length: 8\r\nConnection: close\r\n\r\nTimedOut";
    assert_eq!(expect, peer.rest());
    assert_eq!(1, server.counters.client_body_timeouts.get());
}

#[test]
fn a_client_that_does_not_read_is_reset() {
    let server = Server::with(ClientLimits { write_timeout: SHORT, ..limits() });
    let mut peer = server.connect();
    peer.say("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    while server.counters.connections_open.get() > 0 || server.counters.connections_accepted.get() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(1, server.counters.client_write_timeouts.get());
    assert_eq!(0, server.counters.client_aborts.get());
    assert_eq!(std::io::ErrorKind::ConnectionReset, peer.closed().unwrap_err().kind());
}

/// Its receive buffer has grown, and is opened to us again in steps of a mebibyte or so, for which it may need long.
#[test]
#[allow(clippy::disallowed_methods, reason = "what is looked at is how long it took")]
fn a_client_that_has_read_fast_may_pause_for_longer() {
    // Long enough that this thread, waiting for a processor, is not taken for a client that pauses.
    const LIMIT: Duration = Duration::from_secs(1);
    let server = Server::with(ClientLimits { write_timeout: LIMIT, ..limits() });
    let mut peer = server.connect();
    let begun = std::time::Instant::now();
    peer.say("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut some = vec![0; 8 << 20];
    peer.stream.read_exact(&mut some).unwrap();
    while server.counters.connections_open.get() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(1, server.counters.client_write_timeouts.get());
    assert!(begun.elapsed() >= 3 * LIMIT, "{:?}", begun.elapsed());
}

#[test]
fn connections_over_the_limit_are_closed_at_once() {
    let server = Server::with(ClientLimits { connections: 2, ..limits() });
    let mut kept: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for it in &mut kept {
        it.say(GET);
        assert_eq!(PAGE, it.until("/fast"));
    }
    assert_eq!("", server.connect().rest());
    assert_eq!(1, server.counters.connections_refused.get());
    drop(kept);
    while server.counters.connections_open.get() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(PAGE, server.talk(GET));
}

#[test]
fn an_address_in_use_is_refused_in_one_sentence() {
    let server = Server::new();
    let refused = listener::bind(&Listen::Tcp(server.address)).err().unwrap();
    let expect = format!(
        "cannot listen on {}: the address is in use; stop the process that listens on it, or choose another",
        server.address
    );
    assert!(refused.starts_with(&expect), "{refused}");
}

#[test]
fn a_socket_file_is_replaced_only_without_a_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = Listen::Unix(path.clone());
    drop(listener::bind(&listen).unwrap());
    let bound = listener::bind(&listen).expect("the first is gone");
    let refused = listener::bind(&listen).err().unwrap();
    assert!(refused.contains("the address is in use"), "{refused}");
    std::fs::write(folder.path().join("file"), "mine").unwrap();
    let other = |path: std::path::PathBuf, expect: &str| {
        let refused = listener::bind(&Listen::Unix(path.clone())).err().unwrap();
        assert_eq!(format!("cannot listen on unix:{}: {expect}.", path.display()), refused);
    };
    other(
        folder.path().join("file"),
        "a file that is not a socket already exists; choose another path, or remove it",
    );
    other(folder.path().to_owned(), "a directory already exists; choose another path, or remove it");
    let long = |length: usize| folder.path().join("x".repeat(length - 1 - folder.path().as_os_str().len()));
    other(long(108), "its path has 108 bytes; the maximum for a Unix socket is 107; choose a shorter path");
    assert!(listener::bind(&Listen::Unix(long(107))).is_ok(), "107 are not too many");
    assert_eq!("mine", std::fs::read_to_string(folder.path().join("file")).unwrap());

    let server = Server::on(bound, limits());
    let mut stream = UnixStream::connect(&path).unwrap();
    std::io::Write::write_all(&mut stream, GET.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(PAGE, all);
    drop(server);
}

#[test]
fn accepting_goes_on_once_there_are_descriptors_again() {
    // A process of its own: the limit is one of processes.
    if std::env::var_os("FEW_DESCRIPTORS").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "accepting_goes_on_once_there_are_descriptors_again";
        let status =
            std::process::Command::new(this).args([name, "--exact"]).env("FEW_DESCRIPTORS", "1").status();
        return assert!(status.unwrap().success());
    }
    let server = Server::new();
    let mut idle: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for it in &mut idle {
        it.say(GET);
        assert_eq!(PAGE, it.until("/fast"));
    }
    let mut waiting = server.connect();
    let mut held = Vec::new();
    while server.counters.connections_accepted.get() < 5 {
        std::thread::yield_now();
    }
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    // One descriptor for our end of a connection, none for the other.
    let last = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    held.pop();
    let mut late = server.connect();
    late.say(GET);
    while server.counters.accept_errors.get() == 0 {
        std::thread::yield_now();
    }
    waiting.say(GET);
    assert_eq!(PAGE, waiting.until("/fast"), "whoever is connected is served");
    assert_eq!(PAGE, late.until("/fast"), "idle connections made room");
    assert!(server.counters.accept_errors.get() < 100, "and it was not asked again and again");
    for it in &mut idle {
        assert_eq!("", it.rest(), "closed in order");
    }
    drop((held, last));
    assert_eq!(PAGE, server.talk(GET));
}
