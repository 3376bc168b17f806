//! Row P7 over HTTP/1.1: WebSocket and other upgrades go through to the application, byte for byte and in both directions,
//! and nothing that only looks like one does.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// The example of RFC 6455 §1.2.
pub const ASK: &str = "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Version: 13\r\n\r\n";
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\nUpgrade: WebSocket\nConnection: Upgrade\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\nSec-WebSocket-Protocol: chat";

/// An origin that agrees and hands the connection to `then`, with what has come behind the request.
pub fn agreeing(then: fn(&mut TcpStream, Vec<u8>)) -> Origin {
    Origin::scripted(move |it| match it.field("upgrade") {
        Some(_) => vec![Script::Send(response(AGREED)), Script::Own(then)],
        None => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nplain"))],
    })
}

/// Sends back whatever comes, and its end.
pub fn echo(stream: &mut TcpStream, before: Vec<u8>) {
    let _ = stream.write_all(&before);
    let mut bytes = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

pub fn is_open(larder: &Larder, count: u64) {
    until("so many are open", || larder.counter("upgrades_open") == count);
}

/// A text frame of a client: masked, as RFC 6455 §5.3 has it.
pub fn masked(text: &str) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap()];
    frame.extend(mask);
    frame.extend(text.bytes().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A WebSocket server: answers each masked text frame with the same text, and a close with a close.
pub fn websocket(stream: &mut TcpStream, mut input: Vec<u8>) {
    let mut more = |count: usize| {
        while input.len() < count {
            let mut bytes = [0; 512];
            match stream.read(&mut bytes) {
                Ok(read @ 1..) => input.extend_from_slice(&bytes[..read]),
                _ => return None,
            }
        }
        Some(input.drain(..count).collect::<Vec<u8>>())
    };
    let mut frames = Vec::new();
    while let Some(head) = more(2) {
        let (mask, length) = (more(4).unwrap(), usize::from(head[1] & 0x7f));
        let data: Vec<u8> =
            more(length).unwrap().iter().zip(mask.iter().cycle()).map(|it| it.0 ^ it.1).collect();
        frames.push((head[0], data));
        if head[0] == 0x88 {
            break;
        }
    }
    for (kind, data) in frames {
        let _ = stream.write_all(&[kind, u8::try_from(data.len()).unwrap()]);
        let _ = stream.write_all(&data);
    }
}

#[test]
fn a_websocket_echoes() {
    let origin = agreeing(websocket);
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send(ASK);
    let head = client.read();
    assert_eq!(101, head.status, "{head:?}");
    assert_eq!(Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), head.field("sec-websocket-accept"));
    assert_eq!((Some("upgrade"), Some("websocket")), (head.field("connection"), head.field("upgrade")));
    assert_eq!(Some("chat"), head.field("sec-websocket-protocol"));
    is_open(&larder, 1);
    client.send(masked("Hello")).send(masked("")).send(masked("again"));
    client.send([0x88, 0x82, 0, 0, 0, 0, 3, 232]);
    assert_eq!(b"\x81\x05Hello\x81\x00\x81\x05again\x88\x02\x03\xe8", &client.read_bytes(20)[..]);
    drop(client);
    is_open(&larder, 0);
    assert_eq!(1, larder.counter("upgrades"));
    let asked = &origin.received()[0];
    assert_eq!((Some("websocket"), Some("upgrade")), (asked.field("upgrade"), asked.field("connection")));
    assert_eq!(Some("dGhlIHNhbXBsZSBub25jZQ=="), asked.field("sec-websocket-key"));
    // The cache had no part in it, before or after.
    assert_eq!("plain", larder.get("/chat").text());
    assert!(larder.get("/chat").is_hit());
    let mut client = larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
}

#[test]
fn every_byte_in_both_directions() {
    let origin = agreeing(echo);
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    // What is sent before the answer is known is for the application as well.
    client.send(format!("{ASK}early"));
    assert_eq!(101, client.read().status);
    assert_eq!(b"early", &client.read_bytes(5)[..]);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| it.to_le_bytes()[usize::from(it % 3 == 0)]).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sent = bytes.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        // The client has nothing more to say; what the application still sends comes.
        writer.shutdown(Shutdown::Write).unwrap();
    });
    assert!(bytes == client.read_bytes(bytes.len()), "the same bytes come back");
    writing.join().unwrap();
    assert!(client.is_closed(), "the application's own end comes through");
    is_open(&larder, 0);
}

#[test]
fn the_application_may_end_first() {
    let origin = agreeing(|stream, _| {
        let _ = stream.write_all(b"bye");
        let _ = stream.shutdown(Shutdown::Write);
        // And hears the client out.
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert_eq!(b"still here", &heard[..]);
    });
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
    // And no more.
    assert_eq!(b"bye", &client.read_bytes(4)[..]);
    is_open(&larder, 1);
    client.send("still here");
    client.stream.shutdown(Shutdown::Write).unwrap();
    is_open(&larder, 0);
}

/// Sends what asks for an upgrade, and a request behind it; what the origin got.
#[track_caller]
fn stays_http(larder: &Larder, origin: &Origin, fetch: &str, status: u16) -> Vec<Received> {
    let before = origin.requests();
    let mut client = larder.client();
    client.send(fetch).send("GET /behind HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let first = client.read();
    assert_eq!(status, first.status, "{fetch:?}: {first:?}");
    let second = client.read();
    assert_eq!((200, "plain"), (second.status, second.text().as_str()), "{fetch:?}: {second:?}");
    assert!(client.is_closed(), "{fetch:?}: nothing else comes");
    origin.received()[before..].to_vec()
}

#[test]
fn a_refused_upgrade_hides_no_request() {
    for status in [200, 400, 426, 503] {
        let origin = Origin::new(move |it| match it.field("upgrade") {
            Some(_) => format!("HTTP/1.1 {status} No\nSec-WebSocket-Version: 8\n\nno"),
            None => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nplain".to_owned(),
        });
        let larder = Larder::before(&origin, "");
        let received = stays_http(&larder, &origin, ASK, status);
        assert_eq!(2, received.len());
        assert_eq!(("/behind", None), (received[1].target(), received[1].field("upgrade")));
        assert_eq!(0, larder.counter("upgrades"));
    }
}

#[test]
fn a_request_without_a_supported_upgrade_stays_http() {
    let origin = agreeing(echo);
    let larder = Larder::before(&origin, "");
    for fetch in [
        // HTTP/2 over clear text would hide whatever follows.
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: H2C\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket x\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx",
    ] {
        for it in stays_http(&larder, &origin, fetch, 200) {
            assert_eq!(
                (None, None, None),
                (it.field("upgrade"), it.field("connection"), it.field("http2-settings"))
            );
        }
    }
    // Of several the one that is passed; and no other is named.
    let mut client = larder.client();
    client.send("GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n");
    assert_eq!(101, client.read().status);
    assert_eq!(Some("websocket"), origin.received().last().unwrap().field("upgrade"));
    // A route may pass none.
    let to = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n{to}\nupgrade = []\n"
    );
    let none = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    stays_http(&none, &origin, ASK, 200);
}

#[test]
fn a_101_that_was_not_asked_for() {
    for (answer, fetch) in [
        (AGREED, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"),
        (AGREED, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"),
        (AGREED, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
        ("HTTP/1.1 101 No\nConnection: Upgrade\nUpgrade: h2c", ASK),
        ("HTTP/1.1 101 No\nConnection: Upgrade\nUpgrade: websocket, h2c", ASK),
        ("HTTP/1.1 101 No\nConnection: Upgrade", ASK),
        ("HTTP/1.1 101 No\nUpgrade: websocket", ASK),
    ] {
        let origin = Origin::scripted(move |it| match it.target() {
            "/behind" => vec![Script::Send(response("HTTP/1.1 200 OK\n\nplain"))],
            _ => vec![Script::Send(response(answer)), Script::Send(response("HTTP/1.1 200 OK\n\nhidden"))],
        });
        let larder = Larder::before(&origin, "");
        stays_http(&larder, &origin, fetch, 502);
        assert_eq!(0, larder.counter("upgrades"), "{answer} {fetch}");
    }
}

#[test]
fn silence_ends_it() {
    let origin = agreeing(echo);
    let larder = Larder::before_with(&origin, "", "[limits]\nupgrade_idle = \"150ms\"\n");
    let mut client = larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
    assert!(client.is_closed());
    is_open(&larder, 0);
    assert_eq!(1, larder.counter("upgrades_idle"));
}

#[test]
fn a_tunnel_does_not_read_ahead_of_a_client_that_does_not_read() {
    let origin = agreeing(|stream, _| {
        // More than any buffers between hold: larder must not take it all.
        let part = vec![b'x'; 1 << 20];
        while stream.write_all(&part).is_ok() {}
    });
    let larder = Larder::before_with(&origin, "", "[limits]\nwrite_timeout = \"600ms\"\n");
    let read_nothing = |count: u64| {
        let clients = (0..count).map(|_| {
            let mut client = larder.client();
            client.send(ASK);
            assert_eq!(101, client.read().status);
            client
        });
        let clients: Vec<Client> = clients.collect();
        is_open(&larder, 0);
        drop(clients);
    };
    read_nothing(2);
    let before = larder.resident();
    read_nothing(8);
    assert_eq!(10, larder.counter("client_write_timeouts"));
    let more = larder.resident().saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes more");
}

#[test]
fn a_tunnel_ends_when_one_side_disconnects() {
    let gate = Gate::new();
    let closed = gate.clone();
    let origin = Origin::scripted(move |_| {
        vec![Script::Send(response(AGREED)), Script::Gate(closed.clone()), Script::Reset]
    });
    let larder = Larder::before(&origin, "");
    let mut clients: Vec<Client> = (0..2).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send(ASK);
        assert_eq!(101, client.read().status);
    }
    is_open(&larder, 2);
    clients.pop().unwrap().reset();
    is_open(&larder, 1);
    gate.open();
    assert!(clients[0].is_closed());
    is_open(&larder, 0);
}

#[test]
fn tunnels_take_no_permits_of_requests() {
    let origin = agreeing(echo);
    let to = format!("proxy = {{ to = [\"{}\"], connections = 1 }}", origin.url());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n{to}\n"
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = larder.client();
        client.send(ASK);
        assert_eq!(101, client.read().status);
        open.push(client);
    }
    assert_eq!("plain", larder.get("/").text());
}

#[test]
fn a_stop_leaves_it_its_time() {
    let origin = agreeing(echo);
    let mut larder = Larder::before_with(&origin, "", "[limits]\ndrain_timeout = \"5s\"\n");
    let mut client = larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
    larder.signal(libc::SIGTERM);
    client.send("more");
    assert_eq!(b"more", &client.read_bytes(4)[..]);
    assert!(client.is_closed());
    larder.child.wait().unwrap();
}

/// Reloads that change another route, the route of the tunnel, and its origin.
#[test]
fn a_reload_keeps_open_tunnels() {
    let origin = agreeing(echo);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/chat\"\nproxy = {{ to = [\"{}\"] }}\n\
         [[site.route]]\npath = \"/state\"\nrespond = {{ status = 200, body = \"0\" }}\n",
        origin.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let mut client = larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
    let other = agreeing(echo);
    let chat = "path = \"/chat\"";
    let changes =
        [("", String::new()), (chat, format!("{chat}\ncache.enabled = false")), (&origin.url(), other.url())];
    for (number, (from, to)) in changes.into_iter().enumerate() {
        let text = std::fs::read_to_string(larder.config()).unwrap();
        let text = text.replace(&format!("body = \"{number}\""), &format!("body = \"{}\"", number + 1));
        let text = if from.is_empty() { text } else { text.replace(from, &to) };
        std::fs::write(larder.config(), text).unwrap();
        larder.signal(libc::SIGHUP);
        until("the reload is in force", || larder.get("/state").text() == (number + 1).to_string());
        client.send(format!("more{number}"));
        assert_eq!(format!("more{number}").as_bytes(), &client.read_bytes(5)[..]);
        is_open(&larder, 1);
    }
}
