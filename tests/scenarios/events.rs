//! Row P8: bytes of an application reach its client at once, in any amount, whether passed, shared or compressed on the
//! way; and 103 before them.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Larder, Origin, until};
use std::sync::Arc;

const EVENTS: [&str; 3] = ["data: one\n\n", "data: two\n\n", "data: three\n\n"];

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// An origin that sends the head at once, and each event when its gate is opened.
fn events(gates: &[Arc<Gate>; 3], head: &'static str) -> Origin {
    let gates = gates.clone();
    Origin::scripted(move |it: &Received| {
        let framing =
            if it.target() == "/close" { "Connection: close" } else { "Transfer-Encoding: chunked" };
        let head = format!("HTTP/1.1 200 OK\n{head}\n{framing}\n\n");
        let mut script = vec![Script::Send(head.replace('\n', "\r\n").into_bytes())];
        for (gate, event) in gates.iter().zip(EVENTS) {
            let bytes = if it.target() == "/close" { event.as_bytes().to_vec() } else { chunk(event) };
            script.extend([Script::Gate(gate.clone()), Script::Send(bytes)]);
        }
        match it.target() {
            "/close" => script.push(Script::Close),
            _ => script.push(Script::Send(b"0\r\n\r\n".to_vec())),
        }
        script
    })
}

/// Each event is with the client before the next is sent, for the first who asks and for one who reads along.
#[track_caller]
fn at_once(cache: &str, head: &'static str, lines: &str, target: &str, together: bool) {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let origin = events(&gates, head);
    let larder = Larder::before(&origin, cache);
    let mut clients: Vec<_> = (0..2).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
        // The head is there although no byte of the body is.
        let head = String::from_utf8(client.read_raw_head()).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{cache} {head}");
        assert!(!head.contains("Content-Encoding"), "{cache} {head}");
    }
    let asked = if together { 1 } else { 2 };
    for (gate, event) in gates.iter().zip(EVENTS) {
        until("the origin waits", || gate.waiting() == asked);
        gate.open();
        for client in &mut clients {
            let came = client.read_chunk().unwrap_or_default();
            assert_eq!(event, String::from_utf8_lossy(&came), "{cache} {head} {lines} {target}");
        }
    }
    for client in &mut clients {
        assert_eq!(None, client.read_chunk());
    }
    assert_eq!(asked, origin.requests(), "{cache} {head}");
}

#[test]
fn events_come_one_by_one() {
    let compress = "compress = { enabled = true, min_size = \"1B\" }";
    let accept = "Accept: text/event-stream\r\nAccept-Encoding: gzip, br, zstd\r\n";
    for target in ["/chunked", "/close"] {
        for cache in ["enabled = false", "", compress] {
            at_once(cache, "Content-Type: text/event-stream\nCache-Control: no-store", accept, target, false);
            at_once(cache, "Content-Type: text/event-stream\nCache-Control: no-cache", accept, target, false);
        }
        for cache in ["", compress] {
            at_once(
                cache,
                "Content-Type: text/event-stream\nCache-Control: max-age=60",
                accept,
                target,
                false, // Whatever it says: it is each listener's own, and ends with that.
            );
            at_once(cache, "Content-Type: text/html\nCache-Control: max-age=60", accept, target, true);
        }
    }
}

/// Such a stream ends: it is shared, stored and served as any other response.
#[test]
fn an_event_stream_with_a_length_is_stored() {
    let body: Vec<u8> = EVENTS.concat().into_bytes();
    let (first, rest) = body.split_at(EVENTS[0].len());
    for cache in ["", "compress = { enabled = true, min_size = \"1B\" }"] {
        let gate = Gate::new();
        let (closed, rest) = (gate.clone(), rest.to_vec());
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let start = [head.as_bytes(), first].concat();
        let origin = Origin::scripted(move |_| {
            vec![Script::Send(start.clone()), Script::Gate(closed.clone()), Script::Send(rest.clone())]
        });
        let larder = Larder::before(&origin, cache);
        let mut clients: Vec<_> = (0..2).map(|_| larder.client()).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br, zstd\r\n\r\n");
            let head = String::from_utf8(client.read_raw_head()).unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{cache} {head}");
            assert_eq!(first, client.read_bytes(first.len()), "before the origin goes on");
        }
        gate.open();
        for client in &mut clients {
            assert_eq!(&body[first.len()..], client.read_bytes(body.len() - first.len()), "{cache}");
            let hit = client.get("/");
            assert_eq!((200, true, &body), (hit.status, hit.is_hit(), &hit.body), "{cache} {hit:?}");
        }
        let some = clients[0].get_with("/", "Range: bytes=0-3\r\n");
        assert_eq!((206, "data"), (some.status, &*some.text()), "{cache} {some:?}");
        assert_eq!(1, origin.requests(), "{cache}");
    }
}

/// Longer than any timeout of a page is what an application may be silent between two events only if its route says so.
#[test]
fn silence_between_events_has_a_bound() {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let origin = events(&gates, "Content-Type: text/event-stream\nCache-Control: no-store");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"], between_bytes_timeout = \"200ms\" }}\n",
        origin.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    gates[0].open();
    let it = larder.get("/");
    assert_eq!((EVENTS[0].as_bytes(), false), (&it.body[..], it.complete));
    gates[1].open();
    gates[2].open();
}

#[test]
fn early_hints_come_early_and_every_one() {
    for cache in ["enabled = false", "", "compress = { enabled = true }"] {
        let gate = Gate::new();
        let closed = gate.clone();
        let origin = Origin::scripted(move |_| {
            vec![
                Script::Send(response("HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n\n")),
                Script::Send(response(
                    "HTTP/1.1 103 Early Hints\nLink: </b.js>; rel=preload\nLink: </c.png>\n\n",
                )),
                Script::Gate(closed.clone()),
                Script::Send(response(
                    "HTTP/1.1 200 OK\nCache-Control: max-age=60\nLink: </a.css>; rel=preload\n\npage",
                )),
            ]
        });
        let larder = Larder::before(&origin, cache);
        let mut first = larder.client();
        first.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        // Both are here while the origin still makes the page.
        let hints = [first.read_raw_head(), first.read_raw_head()].map(|it| String::from_utf8(it).unwrap());
        assert!(
            hints[0].starts_with("HTTP/1.1 103 Early Hints\r\n")
                && hints[0].contains("Link: </a.css>; rel=preload\r\n")
        );
        assert!(
            hints[1].contains("Link: </b.js>; rel=preload\r\n") && hints[1].contains("Link: </c.png>\r\n"),
            "{hints:?}"
        );
        until("it still makes the page", || gate.waiting() == 1);
        // Who waits for the same page has its final head alone; nor does HTTP/1.0 know of others.
        let (mut second, mut old) = (larder.client(), larder.client());
        second.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        old.send("GET /old HTTP/1.0\r\nHost: h\r\n\r\n");
        let shared = cache != "enabled = false";
        until("all are there", || larder.counter("requests") == 3);
        gate.open();
        let of_second = if shared { 0 } else { 2 };
        for (client, interim) in [(&mut first, 0), (&mut second, of_second), (&mut old, 0)] {
            let it = client.read();
            assert_eq!(
                (200, "page", interim),
                (it.status, it.text().as_str(), it.interim.len()),
                "{cache}: {it:?}"
            );
        }
        // A page that is kept has none: its own head is there as soon.
        let it = larder.get("/");
        assert_eq!(if shared { 0 } else { 2 }, it.interim.len());
    }
}
