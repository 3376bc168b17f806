//! Stalled clients, while other requests need the connections to the application: the others get them. No client is cut
//! for that if the spool can hold its answer, or if it sends.

use super::memory::anonymous;
use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::origin::{Gate, Origin, Script, response};
use crate::harness::{Client, Larder, until};
use std::sync::Arc;

const LENGTH: usize = 12_000_000;

fn body() -> Vec<u8> {
    (0..LENGTH as u32 / 4).flat_map(u32::to_be_bytes).collect()
}

/// An application that has a large answer for `/large`, and a small one for others, not before the gate is open for `/slow`.
fn application(gate: &Arc<Gate>) -> Origin {
    let gate = gate.clone();
    let mut large = response("HTTP/1.1 200 OK\nCache-Control: no-store\nContent-Length: 12000000\n\n");
    large.extend(body());
    Origin::scripted(move |it| {
        let small = Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nhere"));
        match it.target() {
            path if path.starts_with("/large") => vec![Script::Send(large.clone())],
            path if path.starts_with("/slow") => vec![Script::Gate(gate.clone()), small],
            _ => vec![small],
        }
    })
}

fn larder(origin: &Origin, connections: usize, top: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"], connections = {connections}, connect_timeout = \"10m\" }}\n",
        origin.url()
    ))
}

/// A client that asks and reads nothing, once its answer has begun to come.
fn taker(larder: &Larder, asks: &str) -> Client {
    let mut client = larder.client();
    client.send(asks);
    until("it has begun", || larder.counter("origin_bytes_received") > 100_000);
    client
}

/// Asks for a small answer, and lets two seconds pass once that is waited for.
fn another(larder: &Larder) -> crate::harness::Response {
    let mut client = larder.client();
    client.send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
    larder.pass(2_000);
    client.read()
}

fn counted<const N: usize>(larder: &Larder, names: [&str; N]) -> [u64; N] {
    names.map(|it| larder.counter(it))
}

const OUTCOMES: [&str; 5] = ["origin_busy", "fill_hurried", "answers_shed", "uploads_shed", "fill_given_up"];

#[test]
fn a_client_that_takes_no_bytes_continues_from_the_spool() {
    let asks = [
        "GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /large HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
    ];
    for asks in asks {
        let origin = application(&Gate::new());
        let larder = larder(&origin, 1, "");
        let mut slow = taker(&larder, asks);
        assert_eq!("here", another(&larder).text(), "{asks}");
        assert_eq!([0, 1, 0, 0, 0], counted(&larder, OUTCOMES), "{asks}");
        assert!(larder.counter("origin_bytes_received") > LENGTH as u64, "all of it is here");
        assert_eq!(body(), slow.read().body, "{asks}");
        until("the spool is empty", || larder.counter("fill_spool_bytes") == 0);
    }
}

#[test]
fn a_client_that_takes_no_bytes_is_cut_off_without_a_spool() {
    let asks = [
        "GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /large HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
    ];
    for asks in asks {
        let origin = application(&Gate::new());
        let larder = larder(&origin, 1, "[cache.spool]\nsize = \"off\"\n");
        let _slow = taker(&larder, asks);
        assert_eq!("here", another(&larder).text(), "{asks}");
        assert_eq!([0, 1, 1, 0, 0], counted(&larder, OUTCOMES), "{asks}");
    }
}

/// Streams that let nothing be sent, as many as there are connections.
#[test]
fn closed_windows_block_no_other_request() {
    const CONNECTIONS: usize = 16;
    let origin = application(&Gate::new());
    let larder = larder(&origin, CONNECTIONS, "");
    // The request that queues waits for a connection however long a busy machine takes to fill the spool.
    larder.hold();
    let mut client = Http2::with_settings(&larder, &[(4, 0)]);
    let ids: Vec<_> = (0..CONNECTIONS).map(|it| client.send_get(&format!("/large/{it}"))).collect();
    ids.iter().for_each(|id| assert_eq!(200, client.until(*id, |it| it.status == 200).status));
    assert_eq!("here", another(&larder).text());
    assert_eq!(0, larder.counter("origin_busy"));
    assert_eq!(0, larder.counter("answers_shed"));
}

/// What such streams hold lies in the spool, and not in RAM; nor where they let a byte be sent.
#[test]
fn shut_windows_take_little_memory() {
    const CONNECTIONS: usize = 256;
    for (window, method) in [(0, "GET"), (1, "GET"), (0, "POST"), (1, "POST")] {
        let page = format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "x".repeat(200_000));
        let origin = Origin::scripted(move |it| match it.target() {
            "/small" => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nhere"))],
            _ => vec![Script::Send(response(&page))],
        });
        let larder = larder(&origin, CONNECTIONS, "");
        // Seconds that a busy machine lets go by are no rest of a client.
        larder.hold();
        let fetch = |method: &str, path: &str, window| -> Vec<_> {
            let mut clients = Vec::new();
            for client in 0..CONNECTIONS / 128 {
                let mut it = Http2::with_settings(&larder, &[(4, window)]);
                let path = |number| format!("{path}{client}-{number}");
                let ids = (0..128)
                    .map(|n| it.head(&request(method, &path(n), &[]), END_STREAM))
                    .collect::<Vec<_>>();
                clients.push((it, ids));
            }
            clients
        };
        assert_eq!("here", another(&larder).text());
        let before = anonymous(&larder);
        let mut shut = fetch(method, "/page?", window);
        for (client, ids) in &mut shut {
            ids.iter().for_each(|id| assert_eq!(200, client.until(*id, |it| it.status == 200).status));
        }
        let grown = || anonymous(&larder).saturating_sub(before) / CONNECTIONS as u64;
        assert!(grown() < 64 * 1024, "{window} {method}: {} bytes each", grown());
        let others = fetch("GET", "/small?", 65_535);
        until("they are here", || larder.counter("requests") > 2 * CONNECTIONS as u64);
        larder.pass(3_000);
        for (mut client, ids) in others {
            ids.iter().for_each(|id| assert_eq!(200, client.answer(*id).status));
        }
        // A request that waits may get the place of one that was answered meanwhile.
        let [first, ended, rest @ ..] = counted(&larder, OUTCOMES);
        assert_eq!([0; 4], [first, rest[0], rest[1], rest[2]], "{window} {method}");
        assert!((1..=CONNECTIONS as u64).contains(&ended), "{window} {method}: {ended}");
        assert!(grown() < 64 * 1024, "{window} {method}: {} bytes each, of a page that is here", grown());
    }
}

/// A body that does not come, of a length that is not read before the application is asked, or of none that is said.
#[test]
fn a_client_that_does_not_send_its_body_is_refused() {
    for head in
        ["Content-Length: 100000", "Transfer-Encoding: chunked", "Content-Length: 9\r\nExpect: 100-continue"]
    {
        let origin = application(&Gate::new());
        let larder = larder(&origin, 1, "");
        let mut silent = larder.client();
        silent.send(format!("POST /silent HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n"));
        until("it is with the application", || {
            origin.requests() == 1 || larder.counter("origin_requests") == 1
        });
        assert_eq!("here", another(&larder).text(), "{head}");
        if head.contains("Expect") {
            assert!(silent.is_told_to_continue());
        }
        let refused = silent.read();
        assert_eq!((503, Some("1")), (refused.status, refused.field("retry-after")), "{head}");
        assert!(silent.is_closed(), "{head}");
        assert_eq!([0, 0, 0, 1, 0], counted(&larder, OUTCOMES), "{head}");
    }
}

/// One that sends is not refused for others, as long as it does.
#[test]
fn a_client_that_sends_its_body_is_waited_for() {
    let origin = application(&Gate::new());
    let larder = larder(&origin, 1, "");
    let mut sends = larder.client();
    sends.send("POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n").send([b'x'; 90_000]);
    until("it came", || larder.counter("origin_bytes_sent") > 90_000);
    let mut other = larder.client();
    other.send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is here", || larder.counter("requests") == 2);
    larder.pass(3_000);
    assert_eq!("here", sends.send([b'x'; 10_000]).read().text());
    assert_eq!("here", other.read().text());
    assert_eq!([0; 5], counted(&larder, OUTCOMES));
}

/// A small body is read before the application is asked: however slowly it comes, it keeps nobody from a connection.
#[test]
fn a_small_body_is_read_first() {
    let origin = application(&Gate::new());
    let larder = larder(&origin, 1, "");
    let mut slow = larder.client();
    slow.send("POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    until("it is here", || larder.counter("requests") == 1);
    assert_eq!("here", larder.get("/small").text());
    assert_eq!(1, origin.requests());
    assert_eq!("here", slow.send("cde").read().text());
    assert_eq!(b"abcde", &origin.received()[1].body[..]);
    assert_eq!([0; 5], counted(&larder, OUTCOMES));
}

/// Bodies that clients may take their time for never have all connections.
#[test]
fn uploads_never_take_all_connections() {
    let origin = application(&Gate::new());
    let larder = larder(&origin, 2, "");
    larder.hold();
    let mut client = Http2::connect(&larder);
    for _ in 0..2 {
        client.head(&request("POST", "/silent", &[]), 0);
    }
    until("one is with the application", || larder.counter("origin_requests") == 1);
    assert_eq!("here", larder.get("/small").text());
    assert_eq!([0; 5], counted(&larder, OUTCOMES));
}

/// What is taken back before it has a connection, the application never hears of.
#[test]
fn a_request_cancelled_in_the_queue_is_not_sent() {
    let asks = [
        ("GET", &[][..]),
        ("GET", &[("authorization", "Basic eDp5")]),
        ("HEAD", &[]),
        ("POST", &[]),
        ("PUT", &[("content-length", "0")]),
    ];
    for (method, more) in asks {
        let gate = Gate::new();
        let origin = application(&gate);
        let larder = larder(&origin, 1, "");
        let mut holds = larder.client();
        holds.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        until("it is with the application", || gate.waiting() == 1);
        let mut client = Http2::connect(&larder);
        let id = client.head(&request(method, "/slow?2", more), END_STREAM);
        until("it is here", || larder.counter("requests") == 2);
        client.send(crate::harness::http2::frame(3, 0, id, &8_u32.to_be_bytes()));
        until("it has left the line", || larder.counter("fill_given_up") == 1);
        gate.open();
        assert_eq!("here", holds.read().text());
        assert_eq!("here", larder.get("/small").text());
        assert_eq!(2, origin.requests(), "{method} {more:?}");
        assert_eq!([0, 0, 0, 0, 1], counted(&larder, OUTCOMES));
    }
}

/// A client of HTTP/1 that has closed its side may wait for its answer nevertheless, and has it where nobody else needs the connection; where
/// others do, it is told so, if it is there.
#[test]
fn a_closed_client_gives_its_connection_to_waiting_requests() {
    for method in ["GET", "HEAD", "POST"] {
        // In the line.
        for others_wait in [false, true] {
            let gate = Gate::new();
            let origin = application(&gate);
            let larder = larder(&origin, 1, "");
            let mut holds = larder.client();
            holds.send("GET /slow?holds HTTP/1.1\r\nHost: h\r\n\r\n");
            until("it is with the application", || gate.waiting() == 1);
            let mut closed = larder.client();
            closed.send(format!("{method} /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
            closed.stream.shutdown(std::net::Shutdown::Write).unwrap();
            until("it is here", || larder.counter("requests") == 2);
            let mut another = larder.client();
            if others_wait {
                another.send("GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
                until("it has left the line", || larder.counter("fill_given_up") == 1);
            }
            gate.open();
            let report = if others_wait { 503 } else { 200 };
            assert_eq!(report, closed.read_for(method).status, "{method}");
            assert_eq!("here", holds.read().text());
            if others_wait {
                assert_eq!("here", another.read().text());
            }
            assert_eq!(2, origin.requests());
        }
    }
    for method in ["GET", "HEAD"] {
        for others_wait in [false, true] {
            let gate = Gate::new();
            let origin = application(&gate);
            let larder = larder(&origin, 1, "");
            let mut closed = larder.client();
            closed.send(format!("{method} /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
            closed.stream.shutdown(std::net::Shutdown::Write).unwrap();
            until("it is with the application", || gate.waiting() == 1);
            if others_wait {
                assert_eq!("here", larder.get("/small").text());
            }
            gate.open();
            let report = if others_wait { 503 } else { 200 };
            assert_eq!(report, closed.read_for(method).status, "{method}");
            assert_eq!([0, 0, 0, 0, u64::from(others_wait)], counted(&larder, OUTCOMES), "{method}");
        }
    }
}

/// The same of a request that asks for another protocol, which may be answered as any other is; and of what uses no cache.
#[test]
fn a_disconnected_client_frees_its_connection_for_any_kind_of_request() {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    for lines in [upgrade, "Cookie: session=1\r\n"] {
        let gate = Gate::new();
        let origin = application(&gate);
        let larder = larder(&origin, 1, "");
        let mut gone = larder.client();
        gone.send(format!("GET /slow HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
        until("it is with the application", || gate.waiting() == 1);
        gone.reset();
        assert_eq!("here", larder.get("/small").text(), "{lines}");
        assert_eq!([0, 0, 0, 0, 1], counted(&larder, OUTCOMES), "{lines}");
        gate.open();
    }
}

/// The same while the application pauses in the middle of the body.
#[test]
fn a_disconnected_client_frees_its_connection_in_the_middle_of_a_body() {
    for cache in ["no-store", "max-age=60"] {
        for lines in ["", "Authorization: Basic eDp5\r\n", "Cookie: session=1\r\n"] {
            for over_http2 in [false, true] {
                let gate = Gate::new();
                let opened = gate.clone();
                let head = format!("HTTP/1.1 200 OK\nCache-Control: {cache}\nContent-Length: 10\n\nbegin");
                let origin = Origin::scripted(move |it| match it.target() {
                    "/page" => vec![Script::Send(response(&head)), Script::Gate(opened.clone())],
                    _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nhere"))],
                });
                let larder = larder(&origin, 1, "");
                let what = format!("{cache} {lines:?} {over_http2}");
                if over_http2 {
                    let mut client = Http2::connect(&larder);
                    let more: Vec<_> = lines.trim().split_once(": ").into_iter().collect();
                    let more: Vec<_> = more.iter().map(|it| (it.0.to_ascii_lowercase(), it.1)).collect();
                    let more: Vec<_> = more.iter().map(|it| (it.0.as_str(), it.1)).collect();
                    let id = client.head(&request("GET", "/page", &more), END_STREAM);
                    client.until(id, |it| it.body.len() == 5);
                    client.send(crate::harness::http2::frame(3, 0, id, &8_u32.to_be_bytes()));
                } else {
                    let mut client = larder.client();
                    client.send(format!("GET /page HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
                    client.read_raw_head();
                    assert_eq!(b"begin", &client.read_bytes(5)[..]);
                }
                assert_eq!("here", larder.get("/small").text(), "{what}");
                assert_eq!(0, larder.counter("origin_busy"), "{what}");
                gate.open();
            }
        }
    }
}

const EVENTS: &[u8] =
    b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
    Transfer-Encoding: chunked\r\n\r\n5\r\none\n\n\r\n";

/// Bytes of the first event there.
const ONE: usize = 10;

/// A stream of events continues as long as its client listens, and holds no permit that pages need.
#[test]
fn a_client_of_an_event_stream_does_not_block_pages() {
    for method in ["GET", "POST"] {
        event_streams_do_not_block_pages(method);
    }
}

/// One listener of two has asked by `method`: those of a language model ask by POST.
fn event_streams_do_not_block_pages(method: &str) {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/events" if it.line().starts_with("HEAD") => {
            vec![Script::Send(EVENTS[..EVENTS.len() - ONE].to_vec())]
        }
        "/events" => vec![
            Script::Send(EVENTS.to_vec()),
            Script::Gate(opened.clone()),
            Script::Send(b"5\r\ntwo\n\n\r\n0\r\n\r\n".to_vec()),
        ],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nhere"))],
    });
    let larder = larder(&origin, 2, "");
    let listens = |method: &str| {
        let mut client = larder.client();
        client.send(format!("{method} /events HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
        assert!(client.read_raw_head().starts_with(b"HTTP/1.1 200"));
        assert_eq!(Some(b"one\n\n".to_vec()), client.read_chunk());
        client
    };
    let (mut first, another) = (listens("GET"), listens(method));
    assert_eq!("here", larder.get("/small").text());
    assert_eq!([0; 5], counted(&larder, OUTCOMES));
    assert_eq!(200, larder.client().request("HEAD", "/events", "", "").status, "which is no stream");
    assert_eq!("here", larder.get("/small").text());
    // None is shared, or fetched for those who come later.
    let open = || std::fs::read_dir(format!("/proc/{}/fd", larder.child.id())).unwrap().count();
    let with_it = open();
    drop(another);
    // Its own, and that to the application.
    until("it has ended", || open() <= with_it - 2);
    // However many there are: none holds a permit, and none is closed for a page.
    let mut more = [listens("GET"), listens("GET"), listens(method)];
    assert_eq!("here", larder.get("/small").text());
    assert_eq!([0; 5], counted(&larder, OUTCOMES));
    gate.open();
    assert_eq!((Some(b"two\n\n".to_vec()), None), (first.read_chunk(), first.read_chunk()));
    for client in &mut more {
        assert_eq!((Some(b"two\n\n".to_vec()), None), (client.read_chunk(), client.read_chunk()));
    }
}

/// The same of one that has sent more than is read ahead, so that the end of it is not seen.
#[test]
fn a_disconnected_client_with_unread_requests_frees_its_connection() {
    let more = format!("GET /more HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "y".repeat(1000)).repeat(100);
    for resets in [false, true] {
        let gate = Gate::new();
        let origin = application(&gate);
        let larder = larder(&origin, 1, "");
        let mut gone = larder.client();
        gone.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").send(&more);
        until("it is with the application", || gate.waiting() == 1);
        match resets {
            true => gone.reset(),
            false => drop(gone),
        }
        assert_eq!("here", larder.get("/small").text());
        assert_eq!([0, 0, 0, 0, 1], counted(&larder, OUTCOMES));
        gate.open();
    }
}

/// What nobody waits for gives its connection up at once when others need it, and those who wait first do not have to look for it.
#[test]
fn a_fetch_without_clients_delays_no_other_request() {
    let gate = Gate::new();
    let origin = application(&gate);
    let larder = larder(&origin, 1, "");
    let mut client = Http2::connect(&larder);
    for taken_back_first in [true, false] {
        let id = client.send_get(&format!("/slow?{taken_back_first}"));
        until("it is with the application", || gate.waiting() >= 1);
        let reset = crate::harness::http2::frame(3, 0, id, &8_u32.to_be_bytes());
        if taken_back_first {
            client.send(&reset);
        }
        let small = client.send_get("/small");
        if !taken_back_first {
            client.send(&reset);
        }
        assert_eq!("here", client.answer(small).text());
    }
    assert_eq!([0, 0, 0, 0, 2], counted(&larder, OUTCOMES));
    gate.open();
}

/// What nobody waits for any more is fetched to its end, unless others need the connection.
#[test]
fn a_fetch_without_clients_is_cancelled_for_waiting_requests() {
    let gate = Gate::new();
    let origin = application(&gate);
    let larder = larder(&origin, 1, "");
    let mut client = Http2::connect(&larder);
    let id = client.send_get("/slow");
    until("it is with the application", || gate.waiting() == 1);
    client.send(crate::harness::http2::frame(3, 0, id, &8_u32.to_be_bytes()));
    let small = client.send_get("/small");
    until("it is here", || larder.counter("requests") == 2);
    larder.pass(2_000);
    assert_eq!("here", client.answer(small).text());
    assert_eq!([0, 0, 0, 0, 1], counted(&larder, OUTCOMES));
    gate.open();
}
