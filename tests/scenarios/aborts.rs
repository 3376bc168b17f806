//! Statement 18: clients that leave cause no leaks, and a stopping server lets current requests finish.

use crate::harness::command::wait;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, until};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// The bytes that a client had sent when it left, and how much it read before.
const POINTS: [(&str, usize); 14] = [
    ("", 0),
    ("GET", 0),
    ("GET /kept HTTP/1.1\r\nHost: h\r\n", 0),
    ("GET /kept HTTP/1.1\r\nHost: h\r\n\r\n", 0),
    ("GET /kept HTTP/1.1\r\nHost: h\r\n\r\n", 5),
    ("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", 0),
    ("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", 3000),
    ("GET /pass HTTP/1.1\r\nHost: h\r\n\r\n", 0),
    ("GET /pass HTTP/1.1\r\nHost: h\r\n\r\nGET /kept HTTP/1.1\r\nHost: h\r\n\r\nGET /la", 10),
    ("POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhello", 0),
    ("POST /up HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 0),
    ("POST /up HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", 25),
    ("GET /new?{} HTTP/1.1\r\nHost: h\r\n\r\n", 0),
    ("GET /new?{} HTTP/1.1\r\nHost: h\r\n\r\n", 200),
];

#[test]
fn aborts_at_any_point_leave_nothing_behind() {
    let origin = Origin::new(|it| match it.target().split('?').next().unwrap_or("") {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(300_000)),
        "/new" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=1\n\n{}", "x".repeat(20_000)),
        _ => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "x".repeat(20_000)),
    });
    let larder = Larder::before_with(
        &origin,
        "",
        "[limits]\nhead_timeout = \"2s\"\nbody_timeout = \"2s\"\n[cache.ram]\nsize = \"16MiB\"\n",
    );
    let times: usize = if std::env::var_os("LARDER_LONG").is_some() { 100_000 } else { 8_000 };
    let abort = |time: usize| {
        let (text, read) = POINTS[time % POINTS.len()];
        let Ok(mut stream) = TcpStream::connect(larder.address) else { return };
        let _ = stream.write_all(text.replace("{}", &(time % 5000).to_string()).as_bytes());
        if read > 0 {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            let _ = std::io::Read::read(&mut stream, &mut vec![0; read]);
        }
        let linger = (!time.is_multiple_of(3)).then_some(Duration::ZERO);
        let _ = socket2::SockRef::from(&stream).set_linger(linger);
    };
    // Until everything is as warm as it gets.
    (0..times / 2).for_each(abort);
    until("the first are gone", || larder.counter("connections_open") == 0);
    let (resident, descriptors) = (larder.resident(), larder.descriptors());
    (0..times).for_each(abort);
    until("all are gone", || larder.counter("connections_open") == 0);
    until("the descriptors came back", || larder.descriptors() <= descriptors + 8);
    let grown = larder.resident().saturating_sub(resident);
    assert!(grown < 24 << 20, "grew by {grown} bytes");
    assert_eq!("kept", larder.get("/kept").text());
    assert_eq!(300_000, larder.get("/large").body.len());
    assert_eq!(0, larder.counter("fills_full"));
}

/// Clients that give up on a page while it is fetched, one after the other: its fetch goes on, once.
#[test]
fn a_page_whose_clients_all_disconnect_is_fetched_once() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/slow" => vec![
            Script::Gate(before.clone()),
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nslow")),
        ],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nquick"))],
    });
    let larder = Larder::before(&origin, "");
    for _ in 0..50 {
        let mut client = larder.client();
        client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        until("it is being fetched", || gate.waiting() == 1);
        client.reset();
    }
    assert_eq!("quick", larder.get("/quick").text());
    gate.open();
    assert_eq!("slow", larder.get("/slow").text());
    // Whoever follows on another worker has the last byte a moment before the store has the page.
    until("it is stored", || larder.get("/slow").is_hit());
    assert_eq!(2, origin.requests());
    until("all are gone", || larder.counter("connections_open") == 0);
}

/// Statement 18: what is under way finishes, what is idle is closed, what is new is refused, and all in time.
#[test]
fn a_stop_lets_requests_in_flight_finish() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/slow" => {
            let mut half = response("HTTP/1.1 200 OK\nCache-Control: no-store\nContent-Length: 12\n\n");
            half.extend_from_slice(b"first-");
            vec![Script::Send(half), Script::Gate(before.clone()), Script::Send(b"second".to_vec())]
        }
        "/later" => vec![Script::Gate(before.clone()), Script::Send(response("HTTP/1.1 200 OK\n\nlater"))],
        "/large" => vec![Script::Send(response(&format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}",
            "x".repeat(8_000_000)
        )))],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nkept"))],
    });
    let mut larder =
        Larder::before_with(&origin, "", "[limits]\ndrain_timeout = \"10m\"\nhead_timeout = \"10m\"\n");
    let fetch = |target: &str| {
        let mut client = larder.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        client
    };
    larder.get("/large");
    let mut idle: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for it in &mut idle {
        it.get("/kept");
    }
    let mut fresh: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    let mut slow = fetch("/slow");
    let mut later = fetch("/later");
    let mut reading = fetch("/large");
    let start = reading.read_bytes(1000);
    let mut upload = larder.client();
    upload.send("POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
    until("both are at the gate", || gate.waiting() == 2);
    until("all are known", || larder.counter("connections_open") == 44);
    larder.signal(libc::SIGTERM);
    // All of them long before the end of the drain, at which every connection is closed.
    for it in &mut idle {
        assert!(it.is_closed(), "an idle connection is closed");
    }
    for it in &mut fresh {
        assert!(it.is_closed(), "a fresh connection is closed");
    }
    until("new connections are refused", || TcpStream::connect(larder.address).is_err());
    gate.open();
    upload.send("world");
    let it = slow.read();
    assert_eq!(("first-second", true), (it.text().as_str(), it.complete), "{it:?}");
    let it = later.read();
    assert_eq!(("later", Some("close")), (it.text().as_str(), it.field("connection")), "{it:?}");
    let it = upload.read();
    assert_eq!((200, Some("close")), (it.status, it.field("connection")), "{it:?}");
    let mut count = start.len();
    loop {
        match reading.read_bytes(100_000).len() {
            0 => break,
            more => count += more,
        }
    }
    assert!(count > 8_000_000, "the large one came to its end: {count}");
    let status = wait(&mut larder.child);
    assert!(status.success(), "{status}");
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |_| vec![Script::Gate(before.clone())]);
    let mut larder = Larder::before_with(&origin, "", "[limits]\ndrain_timeout = \"500ms\"\n");
    let mut client = larder.client();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is at the gate", || gate.waiting() == 1);
    larder.signal(libc::SIGTERM);
    wait(&mut larder.child);
    assert_eq!(0, client.read().status);
    gate.open();
}
