//! Readers of a body that is too large to keep, at different speeds, without a spool: a slow reader delays the others by half a second,
//! is then cut, and shows that to its client, which can request the rest with `Range`. With a spool: `spooled`.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use larder_gateway::coding::codec::{self, CodecLevels};
use larder_semantics::coding::Coding;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod spooled;

/// More than the quarter of RAM that one body may take, and than all that the kernel holds for a client that does not read.
const LENGTH: usize = 12_000_000;

const NO_SPOOL: &str = "[cache.spool]\nsize = \"off\"\n";

/// Digits in an order in which no stretch occurs twice.
fn body(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let digits = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"0123456789abcdef"[(state >> 60) as usize]
    });
    digits.take(length).collect()
}

/// How an origin frames the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framed {
    Length,
    Chunks,
}

/// An origin of `body` with the lines `fields`, whose head comes at once and whose body when the gate is opened. It answers a `Range` up
/// to the end at once.
fn origin(gate: &Arc<Gate>, framed: Framed, fields: &'static str, body: Vec<u8>) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |request| {
        if let Some(range) = request.field("range") {
            let from = range.strip_prefix("bytes=").and_then(|it| it.strip_suffix('-')).unwrap();
            let (from, length): (usize, usize) = (from.parse().unwrap(), body.len());
            let head = format!(
                "HTTP/1.1 206 P\n{fields}Content-Range: bytes {from}-{}/{length}\nContent-Length: {}\n\n",
                length - 1,
                length - from
            );
            return vec![Script::Send([&response(&head), &body[from..]].concat())];
        }
        let (framing, size, end) = match framed {
            Framed::Length => (format!("Content-Length: {}", body.len()), String::new(), ""),
            Framed::Chunks => {
                ("Transfer-Encoding: chunked".to_owned(), format!("{:x}\r\n", body.len()), "\r\n0\r\n\r\n")
            }
        };
        let head = response(&format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n{fields}{framing}\n\n"));
        let rest = [size.as_bytes(), &body, end.as_bytes()].concat();
        vec![Script::Send(head), Script::Gate(gate.clone()), Script::Send(rest)]
    })
}

fn larder(origin: &Origin, cache: &str, top: &str) -> Larder {
    Larder::before_with(origin, cache, &format!("{top}\n[cache.ram]\nsize = \"16MiB\"\n{NO_SPOOL}"))
}

/// A client that sends a request, and reads only on demand.
fn asks(larder: &Larder, lines: &str) -> Client {
    let mut client = larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).unwrap();
    client.send(format!("GET /x HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    client
}

/// A client that does not read while another receives everything; then it reads. What each received.
fn one_lags(larder: &Larder, gate: &Gate, lines: &str) -> (Response, Response) {
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is fetched", || gate.waiting() == 1);
    let mut slow = asks(larder, lines);
    until("it is followed", || larder.counter("requests_collapsed") == 1);
    gate.open();
    let fast = fast.read();
    until("the other is cut", || larder.counter("fill_laggards") == 1);
    (fast, slow.read())
}

#[test]
fn a_reader_that_fell_behind_is_cut_and_its_client_can_request_the_rest() {
    let body = body(LENGTH);
    for (framed, fields) in [
        (Framed::Length, "ETag: \"a\"\n"),
        (Framed::Chunks, "ETag: \"a\"\n"),
        (Framed::Chunks, "ETag: W/\"a\"\n"),
        (Framed::Chunks, ""),
    ] {
        let gate = Gate::new();
        let origin = origin(&gate, framed, fields, body.clone());
        let larder = larder(&origin, "", "");
        let (fast, slow) = one_lags(&larder, &gate, "");
        assert!(fast.complete && fast.body == body, "{framed:?} {fields}");
        assert_eq!((200, true), (slow.status, slow.cache().ends_with("collapsed")), "{}", slow.cache());
        let had = slow.body.len();
        assert!(!slow.complete && had > 60_000 && body.starts_with(&slow.body), "{framed:?} {fields} {had}");
        assert_eq!(
            (1, 1),
            (origin.requests(), larder.counter("fill_laggards")),
            "the origin is not asked again"
        );
        if fields.contains("\"a\"") && !fields.contains("W/") {
            let rest = larder.client().get_with("/x", &format!("Range: bytes={had}-\r\nIf-Range: \"a\"\r\n"));
            assert_eq!((206, true), (rest.status, rest.complete));
            assert!([slow.body, rest.body].concat() == body, "{framed:?}");
        }
    }
}

/// Where the head shows that no tier will take the body, each request has a fetch of its own, and none is cut: without a strong tag its
/// client could not request the rest.
#[test]
fn a_body_that_no_tier_will_keep_is_shared_only_with_a_strong_tag() {
    let body = body(LENGTH);
    for fields in ["", "ETag: W/\"a\"\n"] {
        let gate = Gate::new();
        let (held, head) = (
            gate.clone(),
            response(&format!(
                "HTTP/1.1 200 OK\nCache-Control: max-age=60\n{fields}Content-Length: {LENGTH}\n\n"
            )),
        );
        let whole = [&head, &body[..]].concat();
        let origin = Origin::scripted(move |request| {
            let wait = (request.number == 0).then(|| Script::Gate(held.clone()));
            wait.into_iter().chain([Script::Send(whole.clone())]).collect()
        });
        let larder = larder(&origin, "", "");
        let mut slow = asks(&larder, "");
        until("it is fetched", || gate.waiting() == 1);
        let mut fast = asks(&larder, "");
        until("it is waited for", || larder.counter("requests_collapsed") == 1);
        gate.open();
        let (fast, slow) = (fast.read(), slow.read());
        assert!(fast.complete && fast.body == body && slow.complete && slow.body == body, "{fields}");
        for it in [&fast, &slow] {
            assert_eq!("larder; fwd=uri-miss; fwd-status=200", it.cache(), "{fields}");
        }
        assert_eq!((2, 0), (origin.requests(), larder.counter("fill_laggards")), "{fields}");
        assert_eq!(LENGTH, larder.get("/x").body.len());
        assert_eq!(1, larder.counter("hit_for_miss"), "{fields}: nobody waits any more");
    }
}

#[test]
fn a_range_of_a_shared_body_that_is_cut_shows_it() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone());
    let larder = larder(&origin, "", "");
    let (first, last) = (1000, LENGTH - 2000);
    let (fast, slow) = one_lags(&larder, &gate, &format!("Range: bytes={first}-{last}\r\n"));
    assert!(fast.complete && fast.body == body);
    assert_eq!((206, false), (slow.status, slow.complete));
    assert!(body[first..=last].starts_with(&slow.body), "{}", slow.body.len());
}

#[test]
fn a_body_that_is_decoded_on_its_way_is_cut() {
    let plain = body(2 * LENGTH);
    let levels = CodecLevels { gzip: 1, brotli: 1, zstd: 1 };
    let coded = codec::encode(Coding::Gzip, levels, &plain).unwrap().unwrap();
    let gate = Gate::new();
    let fields = "ETag: \"a\"\nContent-Encoding: gzip\n";
    let origin = origin(&gate, Framed::Length, fields, coded.clone());
    let larder = larder(&origin, "compress = { enabled = true }", "");
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    until("it is fetched", || gate.waiting() == 1);
    let mut slow = asks(&larder, "Accept-Encoding: identity\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == 1);
    gate.open();
    assert!(fast.read().body == coded);
    let slow = slow.read();
    assert!(!slow.complete && slow.field("content-encoding").is_none() && plain.starts_with(&slow.body));
    assert_eq!((1, 1), (origin.requests(), larder.counter("fill_laggards")));
}

/// Twenty at once that do not read, and one that does: it is delayed by half a second in all.
#[test]
#[allow(clippy::disallowed_methods, reason = "the real time is what is bounded")]
fn many_laggards_delay_a_reader_by_half_a_second_in_all() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone());
    let larder = larder(&origin, "", "");
    let begun = Instant::now();
    gate.open();
    assert!(larder.get("/alone").body == body);
    let alone = begun.elapsed();
    let (gate, expect) = (Gate::new(), Arc::new(body));
    let origin = self::origin(&gate, Framed::Length, "ETag: \"a\"\n", expect.to_vec());
    let larder = self::larder(&origin, "", "");
    let mut slow: Vec<Client> = (0..20).map(|_| asks(&larder, "")).collect();
    until("it is fetched", || gate.waiting() == 1);
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == 20);
    let begun = Instant::now();
    gate.open();
    let response = fast.read();
    let took = begun.elapsed();
    assert!(response.complete && response.body == *expect);
    // Not half a second for each, which is ten in all, on a machine that may have become busy.
    assert!(took < Duration::from_secs(5) + 4 * alone, "{took:?}, and {alone:?} alone");
    until("all are cut", || larder.counter("fill_laggards") == 20);
    let readers = slow.drain(..).map(|mut client| {
        let expect = expect.clone();
        std::thread::spawn(move || {
            let it = client.read();
            assert!(!it.complete && expect.starts_with(&it.body), "{}", it.body.len());
        })
    });
    let readers: Vec<_> = readers.collect();
    readers.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(1, origin.requests());
}

#[test]
fn the_access_log_marks_a_truncated_body() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"json\"\n[cache.ram]\nsize = \"16MiB\"\n\
         {NO_SPOOL}[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let (_, slow) = one_lags(&larder, &gate, "");
    assert!(!slow.complete);
    let read = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("both are logged", || read().lines().count() == 2);
    let last: serde_json::Value = serde_json::from_str(read().lines().last().unwrap()).unwrap();
    let text = (last["bytes"].as_u64().unwrap(), last["end"].as_str().unwrap());
    assert_eq!((slow.body.len() as u64, "cut"), text, "{last}");
}
