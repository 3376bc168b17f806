//! HTTP/3: the same answers as over HTTP/2, the rules of the protocol, and the end of connections at reloads and upgrades.

use crate::harness::command::run;
use crate::harness::origin::Gate;
use crate::harness::quic::{CONTROL, QuicClient, begin_handshake, frame, headers, request};
use crate::harness::secure::{Authority, Trusting};
use crate::harness::{Larder, Origin, TIMEOUT, until};
use crate::scenarios::http2::tunnels::doing;
use crate::scenarios::upgrades::{is_open, masked, websocket};
use std::net::UdpSocket;

struct Front {
    larder: Larder,
    trusting: Trusting,
    authority: Authority,
}

impl Front {
    fn before(origin: &Origin, workers: u32) -> Self {
        Self::with(origin, workers, "true", |_| String::new())
    }

    /// With more sites, of this authority.
    fn with(origin: &Origin, workers: u32, is_on: &str, sites: impl FnOnce(&Authority) -> String) -> Self {
        let authority = Authority::new();
        let certificate = authority.sign("one", &["localhost", "closed.test", "modern.test"]);
        authority.sign("me", &["me.test"]);
        let (sites, to) = (sites(&authority), origin.url());
        let config = format!(
            "listen = [\"https://127.0.0.1:0\"]\nhttp3 = {is_on}\nworkers = {workers}\n[tls]\ncertificates = [{certificate}]\n\
             [limits]\nhttp2_streams = 1000\nhead_timeout = \"5m\"\nidle_timeout = \"5m\"\nbody_timeout = \"5m\"\nmin_rate = \"0\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
             proxy.to = {to:?}\n{sites}"
        );
        let larder = Larder::configured(config);
        Self { larder, trusting: authority.trusting(), authority }
    }

    fn connect(&self) -> QuicClient {
        QuicClient::begin(self.larder.address, &self.trusting, "localhost")
    }

    /// The value of `Alt-Svc` over TCP.
    fn told(&self, path: &str) -> Option<String> {
        let mut secure = self.trusting.connect(self.larder.address, "localhost").unwrap();
        secure.get(path).field("alt-svc").map(str::to_owned)
    }

    fn set(&self, from: &str, to: &str) {
        let reloads = self.larder.counter("config_reloads");
        self.reload(from, to);
        until("a reload", || self.larder.counter("config_reloads") > reloads);
    }

    fn reload(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.larder.config()).unwrap();
        assert!(text.contains(from));
        std::fs::write(self.larder.config(), text.replace(from, to)).unwrap();
        self.larder.signal(libc::SIGHUP);
    }
}

fn origin() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(3_000_000)),
        "/stream" => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "y".repeat(3_000_000)),
        _ => format!(
            "HTTP/1.1 200 OK\nCache-Control: no-store\nX-Via: {}\n\n{}",
            it.field("via").unwrap_or(""),
            String::from_utf8_lossy(&it.body)
        ),
    })
}

#[test]
fn pages_for_some_addresses_are_private() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\nkept");
    let front = Front::with(&origin, 1, "true", |_| "access.allow = [\"127.0.0.1\"]\n".to_owned());
    let mut client = front.connect();
    for it in ["/kept", "/kept"].map(|it| client.get(it)) {
        assert_eq!((200, Some("private, max-age=600")), (it.status, it.field("cache-control")));
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn answers_are_those_of_other_protocols() {
    let origin = origin();
    let front = Front::before(&origin, 2);
    let mut client = front.connect();
    for it in ["/kept", "/kept"].map(|it| client.get(it)) {
        assert_eq!((200, &b"kept"[..], Some("4")), (it.status, &*it.body, it.field("content-length")));
        assert_eq!(None, it.field("alt-svc"));
    }
    assert_eq!(1, origin.requests());
    for path in ["/large", "/large", "/stream"] {
        assert_eq!((200, 3_000_000), (client.get(path).status, client.get(path).body.len()), "{path}");
    }
    let body: Vec<u8> = (0..2_000_000u32).map(|it| b'a' + (it % 23) as u8).collect();
    let upload = [request("POST", "/echo", &[("content-length", "2000000")]), frame(0, &body)].concat();
    let id = client.bi(&upload, true);
    let echo = client.response(id).unwrap();
    assert_eq!(Some("3.0 larder"), echo.field("x-via"));
    assert!(echo.body == body, "{} bytes came back", echo.body.len());
    let expect = format!("h3=\":{}\"; ma=3600", front.larder.address.port());
    for path in ["/kept", "/echo"] {
        until(&format!("{path} announces it"), || front.told(path).as_ref() == Some(&expect));
    }
    assert_eq!((1, 9), (front.larder.counter("http3_connections"), front.larder.counter("http3_requests")));
}

/// Each of these breaks a rule for the whole connection (RFC 9114 §8.1, RFC 9204 §6).
#[test]
fn errors_of_connections_have_their_codes() {
    let origin = origin();
    let front = Front::before(&origin, 1);
    let post = request("POST", "/echo", &[]);
    let control = |more: &[u8]| [CONTROL, more].concat();
    let uni: &[(&str, &[&[u8]], bool, u64)] = &[
        ("closed control stream", &[CONTROL], true, 0x104),
        ("two control streams", &[CONTROL, CONTROL], false, 0x103),
        ("two encoders", &[CONTROL, &[2], &[2]], false, 0x103),
        ("two decoders", &[CONTROL, &[3], &[3]], false, 0x103),
        ("closed encoder", &[CONTROL, &[2]], true, 0x104),
        ("a push", &[CONTROL, &[1, 0]], false, 0x103),
        ("no SETTINGS", &[&[0, 0x21, 0]], false, 0x10a),
        ("SETTINGS twice", &[&control(&[4, 0])], false, 0x105),
        ("DATA on the control stream", &[&control(&[0, 0])], false, 0x105),
        ("a setting twice", &[&[0, 4, 4, 6, 1, 6, 1]], false, 0x109),
        ("a setting of HTTP/2", &[&[0, 4, 2, 2, 1]], false, 0x109),
        ("fewer pushes", &[&control(&[13, 1, 5, 13, 1, 4])], false, 0x108),
        ("a cancelled push", &[&control(&[3, 1, 0])], false, 0x108),
        ("GOAWAY that grows", &[&control(&[7, 1, 0, 7, 1, 4])], false, 0x108),
        ("GOAWAY of another length", &[&control(&[7, 2, 0, 0])], false, 0x106),
        ("an entry for the table", &[CONTROL, &[2, 0x4a]], false, 0x201),
        ("an acknowledgement", &[CONTROL, &[3, 0x84]], false, 0x202),
    ];
    for (what, streams, ends, code) in uni {
        let mut client = QuicClient::connect(front.larder.address, &front.trusting, "localhost");
        for (at, bytes) in streams.iter().enumerate() {
            client.uni(bytes, *ends && at + 1 == streams.len());
        }
        assert_eq!(*code, client.end(), "{what}");
    }
    let bi: &[(&str, Vec<u8>, bool, u64)] = &[
        ("DATA before HEADERS", frame(0, b"x"), false, 0x105),
        ("SETTINGS", frame(4, b""), false, 0x105),
        ("a frame of HTTP/2", frame(8, b""), false, 0x105),
        ("PUSH_PROMISE", [post.clone(), frame(5, b"x")].concat(), false, 0x105),
        (
            "DATA behind trailers",
            [post.clone(), headers(&[("a", "b")]), frame(0, b"x")].concat(),
            false,
            0x105,
        ),
        ("cut HEADERS", post[..post.len() - 1].to_vec(), true, 0x106),
        ("cut DATA", [post.clone(), vec![0, 9, 1]].concat(), true, 0x106),
        ("an entry of the table", frame(1, &[0, 0, 0x80]), true, 0x200),
        ("a required insertion", frame(1, &[3, 0x81, 0x10, 0x11]), true, 0x200),
    ];
    for (what, bytes, ends, code) in bi {
        let mut client = front.connect();
        client.bi(bytes, *ends);
        assert_eq!(*code, client.end(), "{what}");
    }
    assert_eq!((uni.len() + bi.len()) as u64, front.larder.counter("http3_errors"));
    assert_eq!(200, front.connect().get("/kept").status, "other connections go on");
}

/// Requests that two parsers could read differently reach no origin; those that are too large get a response.
#[test]
fn requests_obey_the_rules_of_http2() {
    let origin = origin();
    let front = Front::before(&origin, 1);
    let mut client = front.connect();
    let get = |more: &[(&str, &str)]| request("GET", "/echo", more);
    let post =
        |length: &str| [request("POST", "/echo", &[("content-length", length)]), frame(0, b"abc")].concat();
    let own = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/echo")];
    let long = "x".repeat(70_000);
    let many = vec![("a", "b"); 130];
    let malformed: &[(&str, Vec<u8>)] = &[
        ("a capital letter", get(&[("Abc", "x")])),
        ("connection", get(&[("connection", "close")])),
        ("te", get(&[("te", "gzip")])),
        ("transfer-encoding", [get(&[("transfer-encoding", "chunked")]), frame(0, b"0\r\n\r\n")].concat()),
        ("a pseudo-field twice", headers(&[&own[..], &own[..1]].concat())),
        ("a pseudo-field behind others", headers(&[own[0], own[1], own[2], ("a", "b"), own[3]])),
        ("no path", headers(&own[..3])),
        ("no authority", headers(&[own[0], own[1], own[3]])),
        ("another host", get(&[("host", "other")])),
        ("a line end", get(&[("a", "b\r\nc: d")])),
        ("more than announced", post("2")),
        ("less than announced", post("4")),
        ("nothing of what is announced", request("POST", "/echo", &[("content-length", "3")])),
        ("bytes behind a length of 0", post("0")),
        ("a pseudo-field in trailers", [post("3"), headers(&[(":path", "/")])].concat()),
    ];
    for (what, bytes) in malformed {
        let id = client.bi(bytes, true);
        assert_eq!(Err(0x10e), client.response(id), "{what}");
    }
    let id = client.bi(&[], true);
    assert_eq!(Err(0x10d), client.response(id), "a stream without a request");
    for (status, bytes) in [
        (431, get(&[("a", &long)])),
        (431, get(&many)),
        (414, request("GET", &format!("/{}", "a".repeat(9000)), &[])),
        (421, headers(&[own[0], (":scheme", "http"), own[2], own[3]])),
        (200, [frame(0x21, b"reserved"), get(&[("te", "trailers")]), frame(0x21, b"")].concat()),
        (200, [post("3"), headers(&[("a", "b")])].concat()),
    ] {
        let id = client.bi(&bytes, true);
        assert_eq!(Ok(status), client.response(id).map(|it| it.status));
    }
    let id = client.bi(&request("GET", "/kept", &[]), false);
    client.send(id, &[], true);
    assert_eq!(Ok(200), client.response(id).map(|it| it.status), "an end that comes later");
    assert!(origin.requests() <= 5, "{} requests", origin.requests());
}

#[test]
fn floods_close_the_connection() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |_| {
        held.pass();
        "HTTP/1.1 200 OK\n\n".to_owned()
    });
    let front = Front::before(&origin, 1);
    // Floods are counted over ten seconds, which may pass meanwhile on a slow machine.
    front.larder.hold();
    let mut resets = front.connect();
    while resets.closed.is_none() {
        let id = resets.bi(&request("GET", "/", &[]), false);
        resets.send(id, &[0x21, 0], false);
        resets.cancel(id);
    }
    assert_eq!(0x107, resets.end());
    let mut stops = front.connect();
    while stops.closed.is_none() {
        let id = stops.bi(&request("GET", "/", &[]), true);
        stops.stop(id);
    }
    assert_eq!(0x107, stops.end());
    // Unidirectional streams: with no byte, and with a part of the number of their type.
    let mut streams = QuicClient::connect(front.larder.address, &front.trusting, "localhost");
    streams.uni(&[CONTROL, &frame(0x21, b"").repeat(950)].concat(), false);
    for _ in 0..50 {
        streams.uni(b"", true);
        streams.uni(&[0x40], true);
    }
    assert_eq!(0x107, streams.end());
    let mut empty = front.connect();
    let id = empty.bi(&[request("POST", "/", &[]), frame(0, b"").repeat(1200)].concat(), false);
    assert_eq!((0x107, false), (empty.end(), empty.arrived(id).is_whole));
    // Unknown frames, tables of size 0 and cancelled streams (RFC 9204 §4.3.1, §4.4.2).
    for bytes in [
        [CONTROL, &frame(0x21, b"").repeat(1200)].concat(),
        [&[2][..], &[0x20; 1200]].concat(),
        [&[3][..], &[0x40; 1200]].concat(),
    ] {
        let mut idle = QuicClient::connect(front.larder.address, &front.trusting, "localhost");
        idle.uni(&bytes, false);
        assert_eq!(0x107, idle.end(), "{:x?}", &bytes[..3]);
    }
    assert_eq!(7, front.larder.counter("http3_floods"));
    gate.open();
}

#[test]
fn a_reload_turns_it_off_and_on_and_clients_learn_of_it() {
    let origin = origin();
    let front = Front::before(&origin, 2);
    let mut client = front.connect();
    let mut secure = front.trusting.connect(front.larder.address, "localhost").unwrap();
    until("it is announced", || secure.get("/kept").field("alt-svc").is_some());
    assert_eq!(200, client.get("/kept").status);
    front.set("[limits]", "[limits]\nhead_size = \"8KiB\"");
    assert_eq!((200, None), (client.get("/kept").status, client.closed), "a reload changes no connection");
    front.set("http3 = true", "http3 = false");
    assert_eq!(0x100, client.end());
    assert_eq!(Some("clear"), secure.get("/kept").field("alt-svc"), "on a connection from before");
    for path in ["/kept", "/echo"] {
        assert_eq!(Some("clear"), front.told(path).as_deref(), "{path}");
    }
    // Its socket is gone when its last connection is.
    until("the port is free", || UdpSocket::bind(front.larder.address).is_ok());
    front.set("http3 = false", "http3 = true");
    assert_eq!(200, front.connect().get("/kept").status);
    let mut report = None;
    until("it is announced again", || {
        report = front.told("/kept");
        report.as_ref().is_some_and(|it| it.starts_with("h3="))
    });
    assert_eq!(report.as_deref(), secure.get("/kept").field("alt-svc"), "on a connection from before");
}

/// Connections from before a reload and those from after it have the same sockets.
#[test]
fn a_reload_turns_it_on_again_while_old_requests_are_in_work() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |it| {
        if it.target() == "/slow" {
            held.pass();
        }
        format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", it.body.len())
    });
    let front = Front::before(&origin, 2);
    let mut clients: Vec<_> = (0..6).map(|_| front.connect()).collect();
    let post = request("POST", "/slow", &[("content-length", "100000")]);
    let asked: Vec<_> = clients.iter_mut().map(|it| it.bi(&post, false)).collect();
    clients.iter_mut().for_each(|it| assert_eq!(200, it.get("/").status));
    for _ in 0..2 {
        front.set("http3 = true", "http3 = false");
        front.set("http3 = false", "http3 = true");
        for _ in 0..8 {
            assert_eq!(200, front.connect().get("/").status);
        }
    }
    front.set("http3 = true", "http3 = false");
    // The later ports have none, and read the packets of the first one still.
    until("the later connections are over", || front.larder.counter("http3_open") == 6);
    for (at, (client, id)) in clients.iter_mut().zip(&asked).enumerate() {
        client.send(*id, &frame(0, &[7; 100_000]), true);
        client.until("its packets", |_| gate.waiting() > at);
    }
    gate.open();
    for (client, id) in clients.iter_mut().zip(&asked) {
        assert_eq!(b"100000", &*client.response(*id).unwrap().body);
        assert_eq!(0x100, client.end());
    }
    until("the port is free", || UdpSocket::bind(front.larder.address).is_ok());
}

/// A port that another process has is not announced.
#[test]
fn clients_learn_only_of_a_port_that_is_open() {
    let origin = origin();
    let front =
        Front::with(&origin, 2, "false", |_| "[log]\naccess = \"off\"\nerror = \"error.log\"\n".to_owned());
    let other = UdpSocket::bind(front.larder.address).unwrap();
    front.reload("http3 = false", "http3 = true");
    let refused = format!("cannot listen on UDP {} for HTTP/3: the port is in use", front.larder.address);
    let log = front.larder.folder.path().join("error.log");
    until("it is refused", || std::fs::read_to_string(&log).unwrap_or_default().contains(&refused));
    assert_eq!(None, front.told("/kept"));
    drop(other);
    front.set("http3 = true", "http3 = true\n");
    assert!(front.told("/kept").is_some());
    assert_eq!(200, front.connect().get("/kept").status);
}

/// A packet without a connection leaves no timer that wakes the loop: each of these is answered by itself.
#[test]
fn packets_of_no_connection_are_answered_one_after_the_other() {
    let origin = origin();
    let front = Front::before(&origin, 1);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    // A version that does not exist, and two connection IDs of eight bytes.
    let mut packet = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &[1; 8], &[8], &[2; 8]].concat();
    packet.resize(1200, 0);
    let mut answer = [0; 2048];
    for number in 0..20 {
        socket.send_to(&packet, front.larder.address).unwrap();
        let count = socket.recv(&mut answer).unwrap();
        assert!(answer[0] & 0x80 != 0 && answer[1..5] == [0; 4], "{number}: {:x?}", &answer[..count]);
    }
}

#[test]
fn a_client_is_served_among_many_incomplete_handshakes() {
    let origin = origin();
    let front = Front::before(&origin, 1);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..70 {
        begin_handshake(&socket, front.larder.address, &front.trusting, "localhost");
    }
    let retries = || front.larder.counter("http3_retries");
    until("the last ones have to prove their addresses", || retries() == 6);
    for round in 1..=3 {
        assert_eq!(200, front.connect().get("/kept").status);
        assert!(retries() >= 6 + round, "{} retries", retries());
    }
}

/// Clients for whom there is no room prove their address first, and are then refused, as long as no connection is idle.
#[test]
fn clients_beyond_the_limit_of_connections_are_refused() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |_| {
        held.pass();
        "HTTP/1.1 200 OK\nCache-Control: no-store\n\nheld".to_owned()
    });
    let front = Front::before(&origin, 1);
    front.set("[limits]", "[limits]\nconnections = 3");
    let mut busy: Vec<_> = (0..3).map(|_| front.connect()).collect();
    let asked: Vec<_> = busy.iter_mut().map(|it| it.bi(&request("GET", "/", &[]), true)).collect();
    for (at, it) in busy.iter_mut().enumerate() {
        it.until("its request", |_| gate.waiting() > at);
    }
    let mut late = QuicClient::connect(front.larder.address, &front.trusting, "localhost");
    assert_eq!(u64::MAX, late.end());
    let counter = |name| front.larder.counter(name);
    assert_eq!((3, 1, 1), (counter("http3_open"), counter("http3_retries"), counter("http3_refused")));
    gate.open();
    for (client, id) in busy.iter_mut().zip(asked) {
        assert_eq!(Ok(200), client.response(id).map(|it| it.status));
    }
}

/// The settings of a handshake are chosen before its name is known: certificates of one site cannot be requested.
#[test]
fn sites_with_client_certificates_are_served_over_tcp() {
    let origin = origin();
    let front = Front::with(&origin, 1, "true", |authority| {
        let (ca, to) = (authority.path("ca.pem"), origin.url());
        format!(
            "[[site]]\nhosts = [\"closed.test\"]\ntls = {{ client_auth = \"required\", client_ca = {ca:?} }}\n[[site.route]]\nproxy.to = {to:?}\n\
             [[site]]\nhosts = [\"modern.test\"]\ntls = {{ min_version = \"1.3\" }}\n[[site.route]]\nproxy.to = {to:?}\n"
        )
    });
    let checked = run(front.larder.folder.path(), &["check"]);
    assert!(checked.out.contains("http3: the site of closed.test is not served over HTTP/3"), "{checked:?}");
    let me = front.trusting.clone().showing(&front.authority, "me");
    let port = front.larder.address.port();
    let announced = format!("h3=\":{port}\"; ma=3600");
    until("it is announced", || front.told("/kept").as_ref() == Some(&announced));
    for (host, status, report) in [("closed.test", 421, None), ("modern.test", 200, Some(&*announced))] {
        let mut client = QuicClient::begin(front.larder.address, &me, host);
        let own = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/kept")];
        let id = client.bi(&headers(&own), true);
        assert_eq!(Ok(status), client.response(id).map(|it| it.status), "{host}");
        let mut secure = me.connect(front.larder.address, host).unwrap();
        let answer = secure.send(format!("GET /kept HTTP/1.1\r\nHost: {host}\r\n\r\n")).read();
        assert_eq!((200, report), (answer.status, answer.field("alt-svc")), "{host}");
    }
}

#[test]
fn a_websocket_echoes() {
    let origin = doing(websocket);
    let front = Front::before(&origin, 1);
    let mut client = front.connect();
    let own = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
    ];
    let id = client.bi(&headers(&own), false);
    let hello = [masked("Hello"), vec![0x88, 0x82, 0, 0, 0, 0, 3, 232]].concat();
    client.send(id, &frame(0, &hello), true);
    let answer = client.response(id).unwrap();
    assert_eq!((200, Some("chat")), (answer.status, answer.field("sec-websocket-protocol")));
    assert_eq!(b"\x81\x05Hello\x88\x02\x03\xe8", &*answer.body);
    is_open(&front.larder, 0);
    assert_eq!(1, front.larder.counter("upgrades"));
}

#[test]
fn the_log_has_the_handshake() {
    let origin = origin();
    let format = "{protocol} {tls_version} {tls_cipher} {tls_name}";
    let front = Front::with(&origin, 1, "true", |_| {
        format!("[log]\naccess = \"access.log\"\nformat = \"{format}\"\n")
    });
    assert_eq!(200, front.connect().get("/kept").status);
    let log = front.larder.folder.path().join("access.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    // The first suite of rustls, and not that of the first packets.
    until("it is logged", || logged() == "HTTP/3.0 TLSv1.3 TLS_AES_256_GCM_SHA384 localhost\n");
}

/// The kernel selects a socket by the addresses of a packet; the worker of a moved client is the one of its connection.
#[test]
fn a_thousand_connections_survive_changes_of_their_clients_ports_over_a_bad_network() {
    const CLIENTS: u64 = 1000;
    let origin = origin();
    let front = Front::before(&origin, 2);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| front.connect()).collect();
    for it in &mut clients {
        assert_eq!(200, it.get("/kept").status);
        it.lose_packets();
    }
    for _ in 0..2 {
        for it in &mut clients {
            it.move_away();
            assert_eq!((200, None), (it.get("/kept").status, it.closed));
        }
    }
    let counter = |name| front.larder.counter(name);
    let connections = ["http3_connections", "http3_open", "http3_lost"].map(counter);
    assert_eq!([CLIENTS, CLIENTS, 0], connections);
    assert!(counter("http3_forwarded") > CLIENTS);
}

#[test]
fn lost_and_overtaken_packets_change_no_byte() {
    let origin = Origin::new(|it| match it.target() {
        "/page" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", numbers()),
        _ => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", String::from_utf8_lossy(&it.body)),
    });
    let front = Front::before(&origin, 1);
    let mut client = front.connect();
    client.lose_packets();
    for _ in 0..2 {
        assert!(numbers().as_bytes() == client.get("/page").body);
    }
    let body = numbers();
    let length = body.len().to_string();
    let head = request("POST", "/echo", &[("content-length", &length)]);
    let id = client.bi(&[head, frame(0, body.as_bytes())].concat(), true);
    assert!(body.as_bytes() == client.response(id).unwrap().body);
    assert_eq!((None, 0), (client.closed, front.larder.counter("http3_errors")));
}

/// A body of which no two parts are alike.
fn numbers() -> String {
    (0..20_000).map(|it| format!("{it:05} ")).collect()
}

/// Each stream may have an incomplete head, so their sum has a limit.
#[test]
fn heads_of_a_connection_are_limited_together() {
    let origin = origin();
    let front = Front::before(&origin, 1);
    let mut client = front.connect();
    let head = request("GET", "/", &[("a", &"~".repeat(15_000))]);
    while client.closed.is_none() {
        client.bi(&head[..head.len() - 1], false);
    }
    assert_eq!(0x107, client.end());
    assert_eq!(200, front.connect().get("/kept").status);
}

#[test]
fn http3_that_no_client_uses_is_a_notice_after_an_hour() {
    let front = Front::before(&origin(), 1);
    let larder = &front.larder;
    let has_notice = || larder.admin_get("/api/v1/health").text().contains("\"http3-unused\"");
    for _ in 0..1_000 {
        front.trusting.connect(larder.address, "localhost").unwrap();
    }
    until("all are counted", || larder.counter("tls_handshakes") + larder.counter("tls_resumed") >= 1_000);
    assert!(!has_notice());
    larder.pass(3_600_000);
    assert!(has_notice());
    let _client = front.connect();
    until("a connection over HTTP/3", || !has_notice());
}

/// In a network of its own, whose kernel drops UDP packets.
#[test]
fn http3_is_announced_while_its_port_answers() {
    // A network belongs to a thread, and its processes inherit it.
    std::thread::spawn(|| {
        // SAFETY: the call changes the network of this thread alone.
        let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let by_kernel = |command: &str| {
            std::process::Command::new("sh").args(["-c", command]).status().unwrap().success()
        };
        let drop_udp = "PATH=$PATH:/usr/sbin; iptables -w -A INPUT -p udp -j DROP";
        let is_ready = is_apart && by_kernel("PATH=$PATH:/usr/sbin; ip link set lo up");
        if !is_ready || !by_kernel(drop_udp) {
            return eprintln!("not tested: a firewall that drops UDP, since this test may not make one");
        }
        let front = Front::before(&origin(), 1);
        let unanswered = || front.larder.counter("http3_unanswered");
        until("three packets are lost", || unanswered() >= 3);
        assert_eq!(None, front.told("/kept"), "never announced");
        assert!(by_kernel("PATH=$PATH:/usr/sbin; iptables -w -F INPUT"));
        let expect = format!("h3=\":{}\"; ma=3600", front.larder.address.port());
        until("it is announced", || front.told("/kept").as_ref() == Some(&expect));
        assert_eq!(200, front.connect().get("/kept").status);
        assert!(by_kernel(drop_udp));
        until("it is withdrawn", || front.told("/kept").as_deref() == Some("clear"));
        assert!(by_kernel("PATH=$PATH:/usr/sbin; iptables -w -F INPUT"));
        until("it is announced again", || front.told("/kept").as_ref() == Some(&expect));
    })
    .join()
    .unwrap();
}
