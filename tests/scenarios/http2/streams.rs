//! Row P8 over HTTP/2: parts of an application's response reach its client as soon as over HTTP/1.1: events, early hints,
//! and trailers after the body.

use crate::harness::http2::Http2;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Larder, Origin, until};

const CACHES: [&str; 3] = ["enabled = false", "", "compress = { enabled = true, min_size = \"1B\" }"];

#[test]
fn events_come_one_by_one() {
    for lines in ["Cache-Control: no-store", "Cache-Control: max-age=60"] {
        for cache in CACHES {
            let gates = [Gate::new(), Gate::new(), Gate::new()];
            let closed = gates.clone();
            let origin = Origin::scripted(move |_| {
                let head = format!(
                    "HTTP/1.1 200 OK\nContent-Type: text/event-stream\n{lines}\nTransfer-Encoding: chunked\n\n"
                );
                let mut script = vec![Script::Send(response(&head))];
                for (at, gate) in closed.iter().enumerate() {
                    let event = format!("data: {at}\n\n");
                    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                    script.extend([Script::Gate(gate.clone()), Script::Send(chunk.into_bytes())]);
                }
                script.push(Script::Send(b"0\r\n\r\n".to_vec()));
                script
            });
            let larder = Larder::before(&origin, cache);
            let mut client = Http2::connect(&larder);
            // Two of one connection: for one of them it is another's response, where it may be shared.
            let ids = [client.send_get("/"), client.send_get("/")];
            let mut text = String::new();
            for id in ids {
                assert_eq!(200, client.until(id, |it| it.status > 0).status);
            }
            for (at, gate) in gates.iter().enumerate() {
                until("the origin waits", || gate.waiting() == origin.requests());
                gate.open();
                text += &format!("data: {at}\n\n");
                for id in ids {
                    let came = client.until(id, |it| it.body.len() >= text.len()).text();
                    assert_eq!(text, came, "{lines} {cache}");
                }
            }
            for id in ids {
                assert!(client.answer(id).complete, "{lines} {cache}");
            }
        }
    }
}

#[test]
fn early_hints_come_early_and_every_one() {
    for cache in CACHES {
        let gate = Gate::new();
        let closed = gate.clone();
        let origin = Origin::scripted(move |_| {
            vec![
                Script::Send(response("HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n\n")),
                Script::Send(response("HTTP/1.1 103 Early Hints\nLink: </b.js>; rel=preload\n\n")),
                Script::Gate(closed.clone()),
                Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage")),
            ]
        });
        let larder = Larder::before(&origin, cache);
        let mut client = Http2::connect(&larder);
        let id = client.send_get("/");
        // Both are here while the origin still makes the page.
        let hints = client.until(id, |it| it.interim.len() == 2);
        assert_eq!((vec![103, 103], 0), (hints.interim.clone(), hints.status), "{cache}");
        let links: Vec<_> =
            hints.interim_fields.iter().filter(|it| it.0 == "link").map(|it| &it.1[..]).collect();
        assert_eq!(["</a.css>; rel=preload", "</b.js>; rel=preload"], links[..]);
        gate.open();
        let answer = client.answer(id);
        assert_eq!((200, "page", true), (answer.status, answer.text().as_str(), answer.complete), "{cache}");
        assert!(client.get("/").interim.is_empty() || cache == CACHES[0]);
    }
}

#[test]
fn trailers_come_behind_the_body_and_are_replayed() {
    for cache in CACHES {
        let origin = Origin::scripted(|_| {
            vec![Script::Send(response(
                "HTTP/1.1 200 OK\nCache-Control: max-age=60\nTrailer: X-Sum, Content-Length\nTransfer-Encoding: chunked\n\n\
                 4\r\nbody\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n",
            ))]
        });
        let larder = Larder::before(&origin, cache);
        let mut client = Http2::connect(&larder);
        for turn in ["first", "second"] {
            let it = client.get("/");
            let expect = vec![("x-sum".to_owned(), "7".to_owned())];
            assert_eq!((200, "body", true), (it.status, it.text().as_str(), it.complete), "{cache} {turn}");
            assert_eq!(expect, it.trailers, "{cache} {turn}: {it:?}");
        }
    }
}

/// The trailers of an answer without a body are the last of it as well.
#[test]
fn trailers_may_stand_alone() {
    let origin = Origin::scripted(|_| {
        vec![Script::Send(response(
            "HTTP/1.1 200 OK\nCache-Control: no-store\nTransfer-Encoding: chunked\n\n0\r\nGrpc-Status: 12\r\n\r\n",
        ))]
    });
    let larder = Larder::before(&origin, "");
    let it = Http2::connect(&larder).get("/");
    assert_eq!((200, 0, true), (it.status, it.body.len(), it.complete));
    assert_eq!(vec![("grpc-status".to_owned(), "12".to_owned())], it.trailers);
}
