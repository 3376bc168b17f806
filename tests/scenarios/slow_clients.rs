//! Statement 11: a slow client is disconnected within the configured bound, no other client waits, and the descriptors
//! are freed.

use crate::harness::origin::{Gate, Script};
use crate::harness::{Client, Larder, Origin, until};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The limit of the slow: a client that waits for a processor of a busy machine is not taken for one.
const LIMIT: Duration = Duration::from_secs(3);
const LIMITS: &str = "[limits]\nhead_timeout = \"3s\"\nbody_timeout = \"3s\"\nidle_timeout = \"10m\"\nwrite_timeout = \"3s\"\n";

fn larder(origin: &Origin) -> Larder {
    Larder::before_with(origin, "", LIMITS)
}

/// A page that is kept, a large one, and whatever else.
fn origin() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(20_000_000)),
        "/stream" => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "x".repeat(20_000_000)),
        _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nother".to_owned(),
    })
}

/// The ways of being slow.
const KINDS: usize = 11;

/// A connection that is slow in one way: what it sent at once, and what it sends byte by byte.
fn slow(larder: &Larder, kind: usize) -> (TcpStream, &'static [u8]) {
    let (at_once, drops): (&str, &[u8]) = match kind {
        0 => ("", b""),
        1 => ("G", b""),
        2 => ("GET /kept HTTP/1.1\r\nHost: h\r\n", b""),
        3 => ("GET /kept HTTP/1.1\r\nHost: h\r\nX: ", b"y"),
        4 => ("GET /kept HTTP/1.1\r\nHost: h\r\n\r\nGET /kept HTTP/1.1\r\nHost: ", b"h"),
        5 => ("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", b""),
        6 => ("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", b""),
        7 => ("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", b""),
        8 => ("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", b""),
        9 => ("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n", b""),
        _ => ("GET /large HTTP/1.0\r\nHost: h\r\n\r\nGET / HT", b""),
    };
    let mut stream = TcpStream::connect(larder.address).unwrap();
    stream.write_all(at_once.as_bytes()).unwrap();
    if matches!(kind, 8 | 10) {
        // Half-closed on top of it.
        stream.shutdown(Shutdown::Write).unwrap();
    }
    stream.set_nonblocking(true).unwrap();
    (stream, drops)
}

/// Whether the server has ended a connection. Reads nothing of a response: who does not read is told by a reset.
fn has_ended(stream: &mut TcpStream, reads: bool) -> bool {
    let mut byte = [0; 4096];
    let read = if reads { stream.read(&mut byte) } else { stream.peek(&mut byte) };
    match read {
        Ok(0) => true,
        Ok(_) => stream.take_error().unwrap().is_some(),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the real time is what is bounded")]
fn slow_clients_are_cut_off_without_effect_on_other_clients() {
    let origin = origin();
    let larder = larder(&origin);
    for target in ["/kept", "/large"] {
        larder.get(target);
    }
    until("the warming connections are gone", || larder.counter("connections_open") == 0);
    let descriptors = larder.descriptors();
    let idle: Vec<Client> = (0..1000)
        .map(|_| {
            let mut client = larder.client();
            assert!(client.get("/kept").is_hit());
            client
        })
        .collect();
    let begun = Instant::now();
    let mut slow: Vec<_> = (0..88).map(|it| (it % KINDS, slow(&larder, it % KINDS))).collect();
    let done = Arc::new(AtomicBool::new(false));
    let (address, direct, stop) = (larder.address, origin.address, done.clone());
    let others = std::thread::spawn(move || {
        // Beside each request to larder one straight to the origin: what the machine alone makes them wait.
        let (mut waited, mut machine, mut count) = (Duration::ZERO, Duration::ZERO, 0);
        while !stop.load(SeqCst) || count < 100 {
            let asked = Instant::now();
            let it = Client::connect(address).get(if count % 2 == 0 { "/kept" } else { "/other" });
            assert_eq!(200, it.status);
            waited = waited.max(asked.elapsed());
            let asked = Instant::now();
            assert_eq!(200, Client::connect(direct).get("/other").status);
            machine = machine.max(asked.elapsed());
            count += 1;
        }
        (waited, machine)
    });
    let timeouts = || {
        ["client_head_timeouts", "client_body_timeouts", "client_write_timeouts", "client_idle_timeouts"]
            .iter()
            .map(|it| larder.counter(it))
            .sum::<u64>()
    };
    until("every slow one is counted", || {
        for (_, (stream, drops)) in &mut slow {
            let _ = stream.write(drops);
        }
        timeouts() >= 88
    });
    let took = begun.elapsed();
    assert!(took < 20 * LIMIT, "cut off after {took:?}");
    for (kind, (stream, _)) in &mut slow {
        let reads = !matches!(kind, 8..);
        until(&format!("kind {kind} has ended"), || !reads || has_ended(stream, reads));
    }
    drop(slow);
    until("only the idle and the others are left", || larder.counter("connections_open") <= 1002);
    done.store(true, SeqCst);
    let (waited, machine) = others.join().unwrap();
    // One that waited for a slow one would wait as long as that may be slow. A request through larder is two, with larder's work between.
    let most = LIMIT + 3 * machine;
    assert!(waited < most, "one of the others waited {waited:?}, and {machine:?} without larder");
    for mut it in idle {
        assert!(it.get("/kept").is_hit(), "the idle are still served");
    }
    until("all are gone", || larder.counter("connections_open") == 0);
    until("the descriptors came back", || larder.descriptors() <= descriptors + 4);
}

/// A reader that is slow but honest is not cut off: it takes some bytes in each span of the limit, although the
/// kernel has no room for more in between.
#[test]
#[allow(clippy::disallowed_methods, reason = "a reader that is slow takes time")]
fn an_honest_slow_reader_has_everything() {
    let origin = origin();
    let larder = larder(&origin);
    larder.get("/large");
    let mut client = larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).unwrap();
    client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    let begun = Instant::now();
    let mut taken = 0;
    let mut part = vec![0; 100_000];
    while begun.elapsed() < 3 * LIMIT {
        let count = client.stream.read(&mut part).unwrap();
        assert!(count > 0, "cut off after {taken} bytes and {:?}", begun.elapsed());
        taken += count;
        std::thread::park_timeout(Duration::from_millis(100));
    }
    while taken < 20_000_000 {
        let count = client.stream.read(&mut part).unwrap();
        assert!(count > 0, "cut off after {taken} bytes");
        taken += count;
    }
    assert_eq!(0, larder.counter("client_write_timeouts"));
}

/// A body without a length that turns out too large to keep is shared while it comes: the others do not wait for long for
/// whoever does not read it. It has everything all the same, once it reads.
#[test]
fn a_body_too_large_to_store_does_not_wait_for_an_idle_reader() {
    let held = Gate::new();
    let gate = held.clone();
    let origin = Origin::scripted(move |_| {
        let head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\n".to_vec();
        vec![
            Script::Send(head),
            Script::Gate(gate.clone()),
            Script::Send(vec![b'x'; 40_000_000]),
            Script::Close,
        ]
    });
    let larder = Larder::before_with(
        &origin,
        "",
        "[limits]\nwrite_timeout = \"10m\"\nmin_rate = \"0\"\n[cache.ram]\nsize = \"16MiB\"\n",
    );
    let mut idle = larder.client();
    idle.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is fetched", || held.waiting() == 1);
    let mut reading = larder.client();
    reading.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == 1);
    held.open();
    let response = reading.read();
    assert_eq!((true, 40_000_000), (response.complete, response.body.len()));
    assert_eq!((1, 1), (origin.requests(), larder.counter("fill_spooled")));
    let idle = idle.read();
    assert_eq!((true, 40_000_000, 1), (idle.complete, idle.body.len(), origin.requests()));
}

/// The deadline of a head that came behind a response which had to wait is not lost.
#[test]
fn half_a_head_behind_a_large_response() {
    let origin = origin();
    let larder = larder(&origin);
    larder.get("/large");
    let mut client = larder.client();
    client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /kept HTTP/1.1\r\nHo");
    assert_eq!(20_000_000, client.read().body.len());
    let late = client.read();
    assert_eq!((408, true), (late.status, late.complete), "{late:?}");
    assert!(client.is_closed());
}

/// Who was too slow with a body, and then does not read the page that says so, does not stay.
#[test]
fn slow_with_the_body_and_with_the_answer() {
    let origin = origin();
    let larder = larder(&origin);
    let mut client = larder.client();
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhello");
    let it = client.read();
    assert_eq!((408, Some("close")), (it.status, it.field("connection")), "{it:?}");
    until("it is gone although we never closed", || larder.counter("connections_open") == 0);
    assert_eq!(0, origin.requests());
}

#[test]
fn a_connection_idle_for_too_long_is_closed_silently() {
    let origin = origin();
    let larder = Larder::before_with(&origin, "", "[limits]\nidle_timeout = \"300ms\"\n");
    let mut client = larder.client();
    client.get("/kept");
    assert!(client.is_closed());
    assert_eq!(1, larder.counter("client_idle_timeouts"));
}

/// A client that sends its whole request and closes its side is answered all the same.
#[test]
fn half_closed_clients_have_their_answers() {
    let origin = origin();
    let larder = Larder::before(&origin, ""); // No tight limits: this client is slow only where the machine is.
    for target in ["/kept", "/kept", "/other", "/large", "/stream"] {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(2));
        client.stream.shutdown(Shutdown::Write).unwrap();
        for _ in 0..2 {
            let it = client.read();
            assert_eq!((200, true), (it.status, it.complete), "{target}");
        }
        assert!(client.is_closed());
    }
}

#[test]
fn a_minimum_rate_cuts_off_a_dripping_client() {
    let origin = origin();
    let limits = "[limits]\nbody_timeout = \"5s\"\nmin_rate = \"1KiB\"\n";
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\n{limits}",
        origin.url()
    ));
    let mut client = larder.client();
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    client.stream.set_nonblocking(true).unwrap();
    until("the window is over", || {
        let _ = client.stream.write(b"x");
        std::thread::park_timeout(Duration::from_millis(100));
        larder.counter("client_body_timeouts") == 1
    });
    assert_eq!(0, origin.requests());
}
