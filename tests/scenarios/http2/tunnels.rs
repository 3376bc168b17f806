//! Row P7 over HTTP/2 (RFC 8441): a stream that switches to another protocol works like a connection over HTTP/1.1, and
//! an invalid request for one is rejected as the RFC says.

use crate::harness::command;
use crate::harness::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Http2, RST_STREAM, WINDOW_UPDATE, block, frame, request,
};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, until};
use crate::scenarios::stream::Listener;
use crate::scenarios::upgrades::{echo, is_open, masked, websocket};
use base64::Engine as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const CANCEL: u32 = 8;
const CONNECT_ERROR: u32 = 10;
const ENABLE_CONNECT: u16 = 8;

/// The answer to a `Sec-WebSocket-Key` (RFC 6455 §4.2.2).
fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// An origin that agrees to a WebSocket of RFC 6455 and then does this; its pages may be kept.
fn agreeing(then: impl Fn() -> Vec<Script> + Send + Sync + 'static) -> Origin {
    Origin::scripted(move |it| match it.field("upgrade") {
        Some(_) => {
            let accept = accept(it.field("sec-websocket-key").unwrap_or_default());
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\
                 Sec-WebSocket-Accept: {accept}\nSec-WebSocket-Protocol: chat"
            );
            let mut script = vec![Script::Send(response(&head))];
            script.extend(then());
            script
        }
        None => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nplain"))],
    })
}

/// The same, with a function that has the connection.
pub fn doing(then: fn(&mut TcpStream, Vec<u8>)) -> Origin {
    agreeing(move || vec![Script::Own(then)])
}

/// The fields of an extended CONNECT.
fn connect<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "h"),
    ];
    pseudo.iter().chain(&[("sec-websocket-version", "13")]).chain(more).copied().collect()
}

/// A tunnel that was agreed on.
#[track_caller]
fn open(client: &mut Http2) -> u32 {
    let id = client.head(&connect("/chat", &[]), 0);
    let answer = client.until(id, |it| it.status > 0 || it.reset.is_some());
    assert_eq!((200, None), (answer.status, answer.reset), "{answer:?}");
    id
}

#[track_caller]
fn echoes(client: &mut Http2, id: u32, text: &str) {
    let before = client.so_far(id).body.len();
    client.data(id, text.as_bytes(), 0);
    let answer = client.until(id, |it| it.body.len() >= before + text.len());
    assert_eq!(text.as_bytes(), &answer.body[before..]);
}

#[test]
fn a_websocket_echoes() {
    let origin = doing(websocket);
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"access.log\"\nformat = \"{{method}} {{target}} {{status}} {{bytes}}\"\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ));
    let mut client = Http2::connect(&larder);
    assert_eq!("plain", client.get("/chat").text());
    assert_eq!(Some(&1), client.settings.get(&ENABLE_CONNECT));
    let more = [("sec-websocket-protocol", "chat"), ("sec-websocket-key", "theirs"), ("origin", "http://h")];
    let id = client.head(&connect("/chat", &more), 0);
    let answer = client.until(id, |it| it.status > 0).clone();
    assert_eq!((200, Some("chat")), (answer.status, answer.field("sec-websocket-protocol")));
    for name in ["sec-websocket-accept", "upgrade", "connection", "content-length", "transfer-encoding"] {
        assert_eq!(None, answer.field(name), "{name}");
    }
    is_open(&larder, 1);
    client.data(id, &[masked("Hello"), masked(""), masked("again")].concat(), 0);
    client.data(id, &[0x88, 0x82, 0, 0, 0, 0, 3, 232], 0);
    let came = b"\x81\x05Hello\x81\x00\x81\x05again\x88\x02\x03\xe8";
    client.until(id, |it| it.complete);
    client.data(id, b"", END_STREAM);
    let answer = client.answer(id);
    assert_eq!((&came[..], true, None), (&answer.body[..], answer.complete, answer.reset));
    is_open(&larder, 0);
    assert_eq!(1, larder.counter("upgrades"));
    let asked = &origin.received()[1];
    assert_eq!("GET /chat HTTP/1.1", asked.line());
    assert_eq!((Some("websocket"), Some("upgrade")), (asked.field("upgrade"), asked.field("connection")));
    assert_eq!((Some("h"), Some("13")), (asked.field("host"), asked.field("sec-websocket-version")));
    assert_eq!(
        (Some("chat"), Some("http://h")),
        (asked.field("sec-websocket-protocol"), asked.field("origin"))
    );
    assert_eq!(24, asked.field("sec-websocket-key").unwrap().len(), "larder's own");
    assert_eq!(1, asked.head.matches("ebSocket-Key").count() + asked.head.matches("websocket-key").count());
    // The cache had no part in it, before or after.
    assert!(client.get("/chat").field("cache-status").unwrap().contains("; hit"));
    let log = larder.folder.path().join("access.log");
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    until("it is logged", || text().contains(&format!("GET /chat 200 {}\n", came.len())));
}

#[test]
fn a_real_client_echoes_a_megabyte_next_to_pages() {
    let origin = doing(echo);
    let authority = Authority::new();
    let certificate = authority.sign("one", &["localhost", "127.0.0.1"]);
    let config = format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    let secure = Larder::configured(config);
    let clear = Larder::before(&origin, "");
    let ca = authority.path("ca.pem");
    for (larder, scheme, ca) in [(&clear, "http", "-"), (&secure, "https", ca.to_str().unwrap())] {
        let done = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/apps/websocket.mjs"))
            .args([&format!("{scheme}://{}", larder.address), ca])
            .output()
            .expect("tests/install brings node");
        assert_eq!("echoed\n", String::from_utf8_lossy(&done.stdout), "{scheme}: {done:?}");
        assert_eq!(3, larder.counter("upgrades"));
        is_open(larder, 0);
    }
}

#[test]
fn every_byte_in_both_directions() {
    let origin = doing(echo);
    // A tunnel is no body, and has no bound of one.
    let larder = Larder::before_with(&origin, "", "[limits]\nbody_size = 1000\n");
    let mut client = Http2::connect(&larder);
    // What is sent before the answer is known is for the application as well.
    let id = client.head(&connect("/chat", &[]), 0);
    client.data(id, b"early", 0);
    client.until(id, |it| it.body == b"early");
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|it| it.to_le_bytes()[usize::from(it % 3 == 0)]).collect();
    for (at, part) in bytes.chunks(60_000).enumerate() {
        for frame in part.chunks(16_384) {
            client.data(id, frame, 0);
        }
        client.until(id, |it| it.body.len() == 5 + at * 60_000 + part.len());
    }
    // The client has nothing more to say, nor has the application then.
    client.data(id, b"", END_STREAM);
    let answer = client.answer(id);
    assert!(answer.complete && answer.body[5..] == bytes, "the same bytes come back");
    is_open(&larder, 0);
}

#[test]
fn the_application_may_end_first() {
    let origin = doing(|stream, _| {
        let _ = stream.write_all(b"bye");
        let _ = stream.shutdown(Shutdown::Write);
        // And hears the client out.
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert_eq!(b"still here", &heard[..]);
    });
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    assert_eq!("bye", client.until(id, |it| it.complete).text());
    is_open(&larder, 1);
    client.data(id, b"still here", END_STREAM);
    is_open(&larder, 0);
    assert_eq!("plain", client.get("/").text());
    assert_eq!(None, client.so_far(id).reset);
}

#[test]
fn several_websockets_and_pages_share_one_connection() {
    let origin = doing(echo);
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let ids: Vec<u32> = (0..20).map(|_| open(&mut client)).collect();
    is_open(&larder, 20);
    for round in 0..5 {
        for id in &ids {
            echoes(&mut client, *id, &format!("{id} in round {round}"));
            assert_eq!("plain", client.get("/page").text());
        }
    }
    for id in ids {
        client.data(id, b"", END_STREAM);
        assert!(client.answer(id).complete);
    }
    is_open(&larder, 0);
    assert_eq!((1, 20), (larder.counter("http2_connections"), larder.counter("upgrades")));
}

#[test]
fn a_tunnel_does_not_read_ahead_of_a_client_that_does_not_read() {
    let origin = doing(|stream, _| {
        let part = vec![b'x'; 1 << 20];
        while stream.write_all(&part).is_ok() {}
    });
    let larder = Larder::before_with(&origin, "", "[limits]\nwrite_timeout = \"1s\"\n");
    let read_nothing = |count: usize| {
        let mut client = Http2::connect(&larder);
        client.is_generous = false;
        client.allow(0, 100_000_000);
        let ids: Vec<u32> = (0..count).map(|_| open(&mut client)).collect();
        for id in &ids {
            client.until(*id, |it| it.body.len() == 65_535);
        }
        assert_eq!("plain", client.get("/page").text(), "others go on");
        for id in ids {
            let answer = client.answer(id);
            assert_eq!((65_535, Some(CANCEL)), (answer.body.len(), answer.reset));
        }
        is_open(&larder, 0);
    };
    read_nothing(2);
    let before = larder.resident();
    read_nothing(20);
    assert_eq!(22, larder.counter("client_write_timeouts"));
    let more = larder.resident().saturating_sub(before);
    assert!(more < 8 << 20, "{more} bytes more");
}

#[test]
fn bytes_for_an_application_that_does_not_read_are_bounded() {
    let gate = Gate::new();
    let closed = gate.clone();
    let origin = agreeing(move || vec![Script::Gate(closed.clone())]);
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"], between_bytes_timeout = \"500ms\" }}\n",
        origin.url()
    ));
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    let before = larder.resident();
    // As much as it is let, until the application has taken nothing for too long.
    let (mut sent, mut room) = (0, 131_072);
    while client.so_far(id).reset.is_none() {
        while room >= 16_384 {
            client.data(id, &[b'x'; 16_384], 0);
            (sent, room) = (sent + 16_384, room - 16_384);
        }
        let it = client.read().unwrap();
        if (it.kind, it.stream) == (WINDOW_UPDATE, id) {
            room += u32::from_be_bytes(it.payload[..].try_into().unwrap());
        }
    }
    assert_eq!(Some(CONNECT_ERROR), client.so_far(id).reset);
    // The buffers of the system between take some megabytes.
    assert!(sent < 32 << 20, "{sent} bytes were taken");
    let more = larder.resident().saturating_sub(before);
    assert!(more < 2 << 20, "{more} bytes more");
    gate.open();
    is_open(&larder, 0);
}

#[test]
fn an_application_that_dies_resets_the_stream() {
    let gate = Gate::new();
    let closed = gate.clone();
    let origin = agreeing(move || vec![Script::Gate(closed.clone()), Script::Reset]);
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let ids = [open(&mut client), open(&mut client)];
    // Of the second one the client's side has ended.
    client.data(ids[1], b"", END_STREAM);
    is_open(&larder, 2);
    gate.open();
    for id in ids {
        let answer = client.answer(id);
        assert_eq!((Some(CONNECT_ERROR), false), (answer.reset, answer.complete), "{answer:?}");
    }
    is_open(&larder, 0);
    assert_eq!("plain", client.get("/page").text());
}

#[test]
fn a_client_that_resets_ends_it_for_the_application() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let origin = doing(|stream, _| {
        // It has nothing to say, and hears nothing but the end.
        while let Ok(1..) = stream.read(&mut [0; 512]) {}
        ENDED.fetch_add(1, SeqCst);
        // That of the second comes twice: of the client's side, and of everything.
        while stream.write_all(b"x").is_ok() {
            std::thread::yield_now();
        }
        ENDED.fetch_add(10, SeqCst);
    });
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    client.is_generous = false;
    let ids = [open(&mut client), open(&mut client)];
    client.data(ids[1], b"", END_STREAM);
    until("the second's side ends", || ENDED.load(SeqCst) == 1);
    for id in ids {
        client.send(frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes()));
    }
    until("both are closed", || ENDED.load(SeqCst) == 22);
    is_open(&larder, 0);
    assert_eq!("plain", client.get("/page").text());
    // And one whose connection goes.
    open(&mut client);
    drop(client);
    until("the third is closed", || ENDED.load(SeqCst) == 33);
    is_open(&larder, 0);
}

#[test]
fn a_refused_upgrade_is_answered_with_its_status() {
    for (answer, status) in [
        ("HTTP/1.1 403 Forbidden\n\nno", 403),
        ("HTTP/1.1 426 Upgrade Required\nSec-WebSocket-Version: 8\n\nno", 426),
        ("HTTP/1.1 302 Found\nLocation: /login\n\nno", 302),
        // These would be taken for the beginning of the protocol.
        ("HTTP/1.1 200 OK\n\nno", 502),
        ("HTTP/1.1 204 No Content\n\n", 502),
        ("HTTP/1.1 101 No\nConnection: upgrade\nUpgrade: websocket", 502),
        (
            "HTTP/1.1 101 No\nConnection: upgrade\nUpgrade: websocket\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            502,
        ),
        ("HTTP/1.1 101 No\nConnection: upgrade\nUpgrade: h2c", 502),
    ] {
        let origin = Origin::new(move |it| match it.field("upgrade") {
            Some(_) => answer.to_owned(),
            None => "HTTP/1.1 200 OK\n\nplain".to_owned(),
        });
        let larder = Larder::before(&origin, "");
        let mut client = Http2::connect(&larder);
        let id = client.head(&connect("/chat", &[]), 0);
        let text = client.until(id, |it| it.complete).clone();
        assert_eq!((status, status < 500), (text.status, text.text() == "no"), "{answer}: {text:?}");
        assert_eq!(0, larder.counter("upgrades"), "{answer}");
        assert_eq!("plain", client.get("/page").text(), "{answer}: the connection goes on");
    }
}

#[test]
fn a_connect_without_a_supported_upgrade_is_not_a_tunnel() {
    let origin = doing(echo);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat"), "a file").unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"h\"]\n\
         [[site.route]]\npath = \"/files/*\"\nfiles = {{ root = {:?} }}\n\
         [[site.route]]\npath = \"/none/*\"\nproxy = {{ to = [\"{url}\"] }}\nupgrade = []\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n",
        folder.path(),
        url = origin.url()
    );
    let larder = Larder::configured(config);
    let mut client = Http2::connect(&larder);
    let mut check = |fields: &[(&str, &str)], status: u16| {
        let id = client.head(fields, 0);
        let answer = client.until(id, |it| it.complete || it.reset.is_some()).clone();
        assert_eq!(status, answer.status, "{fields:?}: {answer:?}");
    };
    for path in ["/files/chat", "/none/chat"] {
        check(&connect(path, &[]), 501);
    }
    let with = |name: &str, value: &'static str| -> Vec<(&'static str, &'static str)> {
        connect("/chat", &[]).into_iter().map(|it| if it.0 == name { (it.0, value) } else { it }).collect()
    };
    check(&with(":authority", "elsewhere"), 404);
    for protocol in ["h2c", "connect-udp", "websocket2"] {
        check(&with(":protocol", protocol), 501);
    }
    // CONNECT without a protocol asks for a proxy, which this is not.
    check(&[(":method", "CONNECT"), (":authority", "h:80")], 405);
    assert_eq!(0, origin.requests(), "none of them is the application's to answer");
    let mut malformed = vec![
        with(":method", "GET"),
        with(":protocol", "websocket, x"),
        with(":protocol", ""),
        with(":scheme", "ws"),
        with(":path", "*"),
        connect("/chat", &[("content-length", "0")]),
        connect("/chat", &[("upgrade", "websocket")]),
        connect("/chat", &[("connection", "upgrade")]),
        connect("/chat", &[(":protocol", "websocket")]),
        vec![(":method", "CONNECT"), (":scheme", "http"), (":path", "/"), (":authority", "h:80")],
    ];
    for missing in [":scheme", ":path", ":authority"] {
        malformed.push(connect("/chat", &[]).into_iter().filter(|it| it.0 != missing).collect());
    }
    for fields in malformed {
        let id = client.head(&fields, 0);
        assert_eq!(Some(1), client.answer(id).reset, "{fields:?}");
    }
    assert_eq!(0, origin.requests());
    // Where no route passes any it is not offered, and then not known either.
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\nupgrade = []\n",
        origin.url()
    );
    let none = Larder::configured(config);
    let mut client = Http2::connect(&none);
    let id = client.head(&connect("/chat", &[]), 0);
    assert_eq!(Some(1), client.answer(id).reset);
    assert_eq!(Some(&0), client.settings.get(&ENABLE_CONNECT));
}

#[test]
fn in_a_tunnel_there_is_data_alone() {
    let origin = doing(echo);
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, id, &block(&[("x-sum", "1")])));
    assert_eq!(Some(1), client.answer(id).reset);
    let id = open(&mut client);
    client.data(id, b"", END_STREAM);
    client.send(frame(DATA, 0, id, b"more"));
    let answer = client.answer(id);
    assert!(answer.complete || answer.reset == Some(5), "{answer:?}");
    is_open(&larder, 0);
}

#[test]
fn silence_ends_it() {
    let origin = doing(echo);
    let larder = Larder::before_with(&origin, "", "[limits]\nupgrade_idle = \"150ms\"\n");
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    assert_eq!(Some(CONNECT_ERROR), client.answer(id).reset);
    is_open(&larder, 0);
    assert_eq!(1, larder.counter("upgrades_idle"));
    assert_eq!("plain", client.get("/page").text());
}

#[test]
fn a_tunnel_is_reported_and_explained_as_an_upgrade() {
    let origin = doing(echo);
    let larder = Larder::before(&origin, "");
    let mut listener = Listener::to(&larder, "");
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    client.data(id, b"", END_STREAM);
    assert!(client.answer(id).complete);
    let response = listener.request();
    assert_eq!(
        (Some("GET"), Some("websocket")),
        (response["method"].as_str(), response["connect_protocol"].as_str())
    );
    let (admin, id) = (larder.admin.to_string(), response["id"].as_str().unwrap());
    let output = command::run(larder.folder.path(), &["explain", "--id", id, "--admin", &admin]).out;
    assert!(output.contains(" CONNECT ") && output.contains("http://h/chat :protocol websocket"), "{output}");
    assert!(output.contains("verdict  pass") && output.contains("a protocol upgrade"), "{output}");
}

/// One worker that lets three connections in.
fn with_three_places(origin: &Origin) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[limits]\nconnections = 3\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ))
}

/// Over HTTP/1.1 each takes a connection of its client's.
#[test]
fn each_counts_as_a_connection() {
    let origin = doing(echo);
    let larder = with_three_places(&origin);
    let mut client = Http2::connect(&larder);
    let ids = [open(&mut client), open(&mut client)];
    let id = client.head(&connect("/chat", &[]), 0);
    assert_eq!(Some(7), client.answer(id).reset);
    assert!(larder.client().is_closed());
    assert_eq!(2, larder.counter("connections_refused"));
    assert_eq!("plain", client.get("/page").text());
    client.data(ids[0], b"", END_STREAM);
    assert!(client.answer(ids[0]).complete);
    is_open(&larder, 1);
    open(&mut client);
}

/// As for one who connects: whoever has rested for a while.
#[test]
fn an_idle_connection_is_closed_for_a_tunnel() {
    let origin = doing(echo);
    let larder = with_three_places(&origin);
    let mut client = Http2::connect(&larder);
    let mut resting = [larder.client(), larder.client()];
    for it in &mut resting {
        assert_eq!("plain", it.get("/page").text());
    }
    larder.pass(2_000);
    let id = open(&mut client);
    echoes(&mut client, id, "hello");
    assert_eq!([2, 0], ["connections_shed", "connections_refused"].map(|it| larder.counter(it)));
}

#[test]
fn a_stop_leaves_it_its_time() {
    let origin = doing(echo);
    let mut larder = Larder::before_with(&origin, "", "[limits]\ndrain_timeout = \"5s\"\n");
    let mut client = Http2::connect(&larder);
    let id = open(&mut client);
    larder.signal(libc::SIGTERM);
    while client.goaway.is_none() {
        client.read().unwrap();
    }
    echoes(&mut client, id, "more");
    let refused = client.head(&request("GET", "/page", &[]), END_STREAM);
    assert_eq!(Some(7), client.answer(refused).reset);
    client.rest();
    assert!(!client.so_far(id).complete);
    larder.child.wait().unwrap();
}
