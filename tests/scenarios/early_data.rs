//! Early data over HTTP/3 (0-RTT, RFC 8470): the first packets of a client are answered at once where that changes nothing, and have
//! no effect until its handshake is complete. A copy of them is a new handshake.

use crate::harness::origin::Gate;
use crate::harness::quic::{CONTROL, QuicClient, QuicSessions, frame, headers, request};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, TIMEOUT, until};
use std::net::UdpSocket;
use std::time::Duration;

struct Front {
    larder: Larder,
    sessions: QuicSessions,
    _authority: Authority,
}

/// Routes whose answers depend on the client.
const GUARDED: &str = "[[site.route]]\npath = \"/some/*\"\naccess.allow = [\"127.0.0.2\"]\nPROXY\n\
    [[site.route]]\npath = \"/one/*\"\naccess.limit = { rate = \"1/h\" }\nPROXY\n\
    [[site.route]]\npath = \"/user/*\"\naccess.basic.users = [\"joe:$2y$05$NkIjsRm4xmXRGkMm3uK6ZOZ9QN3wacde.ps5jFZAebY64wUzXmhoy\"]\nPROXY\n";

impl Front {
    fn before(origin: &Origin, early_data: &str) -> Self {
        let authority = Authority::new();
        let certificate = authority.sign("one", &["localhost"]);
        let guarded = GUARDED.replace("PROXY", &format!("proxy.to = {:?}", origin.url()));
        let larder = Larder::configured(format!(
            "listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n{early_data}\n\
             [limits]\nhttp2_streams = 100\nhead_timeout = \"5m\"\n[cache]\npurge = {{ method = true, from = [\"127.0.0.1\"] }}\n\
             [[site]]\nhosts = [\"*\"]\n{guarded}[[site.route]]\npath = \"/*\"\nproxy.to = {:?}\n",
            origin.url()
        ));
        let sessions = QuicSessions::new(&authority.trusting());
        Self { larder, sessions, _authority: authority }
    }

    /// With sessions of a client, and the page `/kept` in the cache.
    fn known(origin: &Origin) -> Self {
        let front = Self::before(origin, "early_data = true");
        front.greet();
        front
    }

    /// A connection of a client, which leaves two sessions.
    fn greet(&self) {
        assert_eq!(200, self.sessions.connect(self.larder.address).get("/kept").status);
    }

    fn resume(&self) -> QuicClient {
        let client = self.sessions.resume(self.larder.address);
        assert!(client.has_early_data());
        client
    }

    /// Sends first packets alone; waits until the server has answered them. The client completes no handshake.
    fn send_alone(&self, packets: &[Vec<u8>]) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        for it in packets {
            socket.send_to(it, self.larder.address).unwrap();
        }
        socket.recv(&mut [0; 2048]).unwrap();
    }

    fn first_packets(&self, request: &[u8]) -> Vec<Vec<u8>> {
        self.sessions.first_packets(self.larder.address, request, true)
    }

    fn early(&self) -> u64 {
        self.larder.counter("http3_early")
    }
}

fn origin() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nkept".to_owned(),
        _ => format!(
            "HTTP/1.1 200 OK\nCache-Control: no-store\nX-Early: {}\n\n{}",
            it.field("early-data").unwrap_or("no"),
            String::from_utf8_lossy(&it.body)
        ),
    })
}

#[test]
fn a_hit_is_answered_before_the_end_of_the_handshake() {
    let origin = origin();
    let front = Front::known(&origin);
    front.send_alone(&front.first_packets(&request("GET", "/kept", &[])));
    until("an early response", || front.early() == 1);
    assert_eq!((1, 2), (front.larder.counter("http3_connections"), front.larder.counter("http3_requests")));
    let mut client = front.resume();
    for method in ["GET", "HEAD"] {
        let id = client.bi(&request(method, "/kept", &[]), true);
        let answer = client.response(id).unwrap();
        assert_eq!((200, Some("4")), (answer.status, answer.field("content-length")), "{method}");
    }
    client.complete_handshake();
    assert!(client.was_early() && front.early() >= 2);
    assert_eq!(1, origin.requests());
}

/// A session is used once (RFC 8446 §8.1): the copy begins the handshake of a client without one.
#[test]
fn a_copy_of_the_first_packets_is_no_early_data() {
    let origin = origin();
    let front = Front::known(&origin);
    let mut client = front.resume();
    client.keep_packets();
    let id = client.bi(&request("GET", "/kept", &[]), true);
    let packets = client.release_packets(front.larder.address);
    assert_eq!(Ok(200), client.response(id).map(|it| it.status));
    client.complete_handshake();
    client.close();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // As long as the connection is known, the copy belongs to it, and is a repeated packet.
    until("an answer to the copy", || {
        packets.iter().for_each(|it| drop(socket.send_to(it, front.larder.address)));
        socket.recv(&mut [0; 2048]).is_ok()
    });
    // It was processed before its answer.
    assert_eq!((1, 2), (front.early(), front.larder.counter("http3_requests")));
}

#[test]
fn nothing_but_a_hit_happens_before_the_end_of_the_handshake() {
    let origin = origin();
    let front = Front::known(&origin);
    let post = [request("POST", "/echo", &[("content-length", "3")]), frame(0, b"abc")].concat();
    let with_body = [request("GET", "/kept", &[]), frame(0, b"abc")].concat();
    let user = ("authorization", "Basic am9lOndyb25n");
    let connect = headers(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/kept"),
    ]);
    for bytes in [
        request("GET", "/miss", &[]),
        request("HEAD", "/miss", &[]),
        request("DELETE", "/kept", &[]),
        request("POST", "/kept", &[]),
        request("PURGE", "/kept", &[]),
        request("GET", "/some/x", &[]),
        request("GET", "/one/x", &[]),
        request("GET", "/user/x", &[user]),
        request("GET", "/kept", &[("a", &"x".repeat(70_000))]),
        request("GET", "/kept", &[("Abc", "x")]),
        post,
        with_body,
        connect,
        // Errors of connections wait as well.
        frame(4, b""),
        frame(1, &[0, 0, 0x80]),
    ] {
        front.greet();
        front.send_alone(&front.first_packets(&bytes));
    }
    let counter = |name| front.larder.counter(name);
    assert_eq!((0, 0, 0), (front.early(), counter("purges"), counter("http3_errors")));
    assert_eq!((0, 0), (counter("requests_rejected"), counter("access_refused") + counter("access_limited")));
    assert_eq!((1, 16), (origin.requests(), counter("http3_requests")));
    // The entry is still there, and the first request of its client within an hour.
    let mut client = front.resume();
    assert_eq!((200, 200), (client.get("/kept").status, client.get("/one/x").status));
    assert_eq!(429, client.get("/one/x").status);
    assert_eq!(2, origin.requests());
}

#[test]
fn other_requests_are_answered_after_the_handshake() {
    let origin = origin();
    let front = Front::known(&origin);
    let post = [request("POST", "/echo", &[("content-length", "3")]), frame(0, b"abc")].concat();
    let large = vec![b'x'; 100_000];
    let upload = [request("POST", "/echo", &[("content-length", "100000")]), frame(0, &large)].concat();
    let mut client = front.resume();
    let all = [post, request("GET", "/miss", &[]), request("GET", "/some/x", &[]), upload];
    let asked = all.map(|it| client.bi(&it, true));
    let [post, miss, refused, upload] = asked.map(|it| client.response(it).unwrap());
    assert_eq!((200, &b"abc"[..], Some("no")), (post.status, &*post.body, post.field("x-early")));
    assert_eq!((200, Some("no"), 403), (miss.status, miss.field("x-early"), refused.status));
    assert!(upload.body == large);
    assert!(client.was_early());
    assert_eq!((0, 4), (front.early(), origin.requests()));
}

#[test]
fn it_is_off_by_default_and_ends_with_the_limits_that_a_client_relies_on() {
    let origin = origin();
    let front = Front::before(&origin, "");
    for _ in 0..2 {
        front.greet();
        assert!(!front.sessions.resume(front.larder.address).has_early_data());
    }
    let front = Front::known(&origin);
    let reload = |from: &str, to: &str| {
        let reloads = front.larder.counter("config_reloads");
        let text = std::fs::read_to_string(front.larder.config()).unwrap();
        assert!(text.contains(from));
        std::fs::write(front.larder.config(), text.replace(from, to)).unwrap();
        front.larder.signal(libc::SIGHUP);
        until("a reload", || front.larder.counter("config_reloads") > reloads);
    };
    let is_taken = || {
        let mut client = front.resume();
        client.uni(CONTROL, false);
        client.complete_handshake();
        client.was_early()
    };
    assert!(is_taken());
    reload("http2_streams = 100", "http2_streams = 50");
    assert!(!is_taken());
    front.greet();
    assert!(is_taken());
    reload("early_data = true", "early_data = false");
    assert!(!is_taken());
}

/// A proxy in front of larder marks requests that it got in early data (RFC 8470 §5.1).
#[test]
fn a_425_of_the_origin_is_for_the_marked_request_alone() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |it| match it.field("early-data") {
        Some("1") => {
            held.pass();
            "HTTP/1.1 425 Too Early\nCache-Control: max-age=60\n\nlater".to_owned()
        }
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    let (mut marked, mut other) = (larder.client(), larder.client());
    marked.send("GET / HTTP/1.1\r\nHost: h\r\nEarly-Data: 1\r\n\r\n");
    until("the marked request is at the origin", || gate.waiting() == 1);
    other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the other one waits for it", || larder.counter("requests_collapsed") == 1);
    gate.open();
    let (marked, other) = (marked.read(), other.read());
    assert_eq!(
        ((425, "later"), (200, "page")),
        ((marked.status, &*marked.text()), (other.status, &*other.text()))
    );
    assert!(larder.client().get_with("/", "Early-Data: 1\r\n").is_hit());
    assert_eq!(2, origin.requests());
}
