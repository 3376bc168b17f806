//! Readers of a body that is too large to keep, at different speeds, without a spool: the slow make nobody wait, and have every byte
//! all the same, by a fetch of their own; or are cut where the bytes turn out not to be the same. Without a strong tag:
//! `again`. With a spool: `spooled`.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use larder_gateway::coding::codec::{self, CodecLevels};
use larder_semantics::coding::Coding;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod again;
mod spooled;

/// More than the quarter of RAM that one body may take, and than all that the kernel holds for a client that does not read.
const LENGTH: usize = 12_000_000;

/// Nobody reads what others have left behind.
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

/// What an origin says that is asked for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Part,
    PartWithoutWhole,
    Whole,
    LongerInChunks,
    ShorterInChunks,
    PartOfAnother,
    WholeOfAnother,
    WrongPlace,
    NotToTheEnd,
    OtherLength,
    BreaksOff,
    Unsatisfiable,
    Error,
    HangsUp,
}

impl Rest {
    fn script(self, request: &Received, body: &[u8]) -> Vec<Script> {
        let range = request.field("range").unwrap();
        let from: usize = range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
        let length = body.len();
        let part = |tag: &str, range: String, body: &[u8]| {
            let head = format!(
                "HTTP/1.1 206 P\nETag: {tag}\nContent-Range: bytes {range}\nContent-Length: {}\n\n",
                body.len()
            );
            vec![Script::Send([&response(&head), body].concat())]
        };
        let whole = |tag: &str| {
            let head = format!("HTTP/1.1 200 OK\nETag: {tag}\nContent-Length: {length}\n\n");
            vec![Script::Send([&response(&head), body].concat())]
        };
        let (rest, last) = (&body[from..], length - 1);
        let in_chunks = |chunks: &[&[u8]]| {
            let mut sent = response("HTTP/1.1 200 OK\nETag: \"a\"\nTransfer-Encoding: chunked\n\n");
            for it in chunks {
                sent.extend_from_slice(format!("{:x}\r\n", it.len()).as_bytes());
                sent.extend_from_slice(&[it, &b"\r\n"[..]].concat());
            }
            sent.extend_from_slice(b"0\r\n\r\n");
            vec![Script::Send(sent)]
        };
        match self {
            Rest::Part => part("\"a\"", format!("{from}-{last}/{length}"), rest),
            Rest::PartWithoutWhole => part("\"a\"", format!("{from}-{last}/*"), rest),
            Rest::Whole => whole("\"a\""),
            Rest::LongerInChunks => in_chunks(&[body, b"x"]),
            Rest::ShorterInChunks => in_chunks(&[&body[..last]]),
            Rest::PartOfAnother => part("\"b\"", format!("{from}-{last}/{length}"), rest),
            Rest::WholeOfAnother => whole("\"b\""),
            Rest::WrongPlace => part("\"a\"", format!("{}-{last}/{length}", from - 1), &body[from - 1..]),
            Rest::NotToTheEnd => {
                part("\"a\"", format!("{from}-{}/{length}", last - 1), &rest[..rest.len() - 1])
            }
            Rest::OtherLength => part("\"a\"", format!("{from}-{last}/{}", length + 1), rest),
            Rest::BreaksOff => {
                let mut script = part("\"a\"", format!("{from}-{last}/{length}"), rest);
                let Some(Script::Send(bytes)) = script.last_mut() else { unreachable!() };
                bytes.truncate(bytes.len() - 1);
                script.push(Script::Close);
                script
            }
            Rest::Unsatisfiable => vec![Script::Send(response("HTTP/1.1 416 R\nETag: \"a\"\n\nno"))],
            Rest::Error => vec![Script::Send(response("HTTP/1.1 503 S\nETag: \"a\"\n\nsorry"))],
            Rest::HangsUp => vec![Script::Close],
        }
    }
}

/// How an origin frames the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framed {
    Length,
    Chunks,
}

/// An origin of `body` with the lines `fields`; of the first request the head comes at once and the body when the gate is
/// opened.
fn origin(gate: &Arc<Gate>, framed: Framed, fields: &'static str, body: Vec<u8>, rest: Rest) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |request| {
        if request.field("range").is_some() {
            return rest.script(request, &body);
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

/// A client that asks, and does not read before it is told to.
fn asks(larder: &Larder, lines: &str) -> Client {
    let mut client = larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(64 * 1024).unwrap();
    client.send(format!("GET /x HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    client
}

/// One that does not read while another has everything; then it reads. What each got.
fn one_lags(larder: &Larder, gate: &Gate, lines: &str) -> (Response, Response) {
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is fetched", || gate.waiting() == 1);
    let mut slow = asks(larder, lines);
    until("it is followed", || larder.counter("requests_collapsed") == 1);
    gate.open();
    let fast = fast.read();
    until("the other is left behind", || larder.counter("fill_laggards") == 1);
    (fast, slow.read())
}

#[test]
fn who_is_left_behind_has_the_rest_from_the_origin() {
    let body = body(LENGTH);
    for framed in [Framed::Length, Framed::Chunks] {
        for rest in [Rest::Part, Rest::Whole, Rest::PartWithoutWhole] {
            if (framed, rest) == (Framed::Chunks, Rest::PartWithoutWhole) {
                continue; // Nobody could know whether that is all.
            }
            let gate = Gate::new();
            let origin = origin(&gate, framed, "ETag: \"a\"\n", body.clone(), rest);
            let larder = larder(&origin, "", "");
            let (fast, slow) = one_lags(&larder, &gate, "Accept-Encoding: gzip\r\nX-Own: 1\r\n");
            assert!(fast.complete && fast.body == body, "{framed:?} {rest:?}");
            assert!(slow.complete && slow.body == body, "{framed:?} {rest:?} {}", slow.body.len());
            assert_eq!((200, true), (slow.status, slow.cache().ends_with("collapsed")), "{}", slow.cache());
            let asked = &origin.received()[1..];
            assert_eq!(1, asked.len());
            assert_eq!(
                (Some("\"a\""), Some("gzip")),
                (asked[0].field("if-range"), asked[0].field("accept-encoding"))
            );
            assert_eq!((Some("1"), "/x"), (asked[0].field("x-own"), asked[0].target()));
            assert_eq!(
                (1, 0),
                (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut"))
            );
        }
    }
}

#[test]
fn who_cannot_have_the_rest_sees_that_it_is_cut() {
    use Rest::*;
    let body = body(LENGTH);
    for rest in [
        PartOfAnother,
        WholeOfAnother,
        WrongPlace,
        NotToTheEnd,
        OtherLength,
        LongerInChunks,
        ShorterInChunks,
        BreaksOff,
        Unsatisfiable,
        Error,
        HangsUp,
    ] {
        for framed in [Framed::Length, Framed::Chunks] {
            if framed == Framed::Chunks && !matches!(rest, PartOfAnother | NotToTheEnd) {
                continue; // The same but for what is compared with the length.
            }
            let gate = Gate::new();
            let origin = origin(&gate, framed, "ETag: \"a\"\n", body.clone(), rest);
            let larder = larder(&origin, "", "");
            let (fast, slow) = one_lags(&larder, &gate, "");
            assert!(fast.complete && fast.body == body, "{framed:?} {rest:?}");
            assert!(!slow.complete && body.starts_with(&slow.body), "{framed:?} {rest:?}");
            let (continued, cut) =
                (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut"));
            // What is wrong with these shows only at their ends.
            let late = matches!(rest, BreaksOff | LongerInChunks | ShorterInChunks);
            assert_eq!(if late { (1, 0) } else { (0, 1) }, (continued, cut), "{framed:?} {rest:?}");
            assert!(slow.body.len() >= if rest == BreaksOff { LENGTH - 1 } else { 1 });
        }
    }
}

/// Where that is known with the head, nobody shares: each has a fetch of its own, and nobody is cut.
#[test]
fn what_is_known_to_be_kept_nowhere_is_shared_only_with_a_strong_tag() {
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
fn a_range_goes_on_to_its_end() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone(), Rest::Part);
    let larder = larder(&origin, "", "");
    let (first, last) = (1000, LENGTH - 2000);
    let (fast, slow) = one_lags(&larder, &gate, &format!("Range: bytes={first}-{last}\r\n"));
    assert!(fast.complete && fast.body == body);
    assert_eq!((206, true), (slow.status, slow.complete));
    assert!(slow.body == body[first..=last], "{}", slow.body.len());
    assert_eq!(1, larder.counter("fill_laggards_continued"));
}

/// What is decoded on its way is asked for in the coding in which it began, and decoded on.
#[test]
fn a_body_that_is_decoded_goes_on() {
    let plain = body(2 * LENGTH);
    let levels = CodecLevels { gzip: 1, brotli: 1, zstd: 1 };
    let coded = codec::encode(Coding::Gzip, levels, &plain).unwrap().unwrap();
    let gate = Gate::new();
    let fields = "ETag: \"a\"\nContent-Encoding: gzip\n";
    let origin = origin(&gate, Framed::Length, fields, coded.clone(), Rest::Part);
    let larder = larder(&origin, "compress = { enabled = true }", "");
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    until("it is fetched", || gate.waiting() == 1);
    let mut slow = asks(&larder, "Accept-Encoding: identity\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == 1);
    gate.open();
    assert!(fast.read().body == coded);
    let slow = slow.read();
    assert!(slow.complete && slow.field("content-encoding").is_none() && slow.body == plain);
    assert_eq!(Some("gzip"), origin.received()[1].field("accept-encoding"));
    assert_eq!(1, larder.counter("fill_laggards_continued"));
}

/// Twenty of them at once, and one who reads: it is held for half a second in all, whatever they do.
#[test]
#[allow(clippy::disallowed_methods, reason = "the real time is what is bounded")]
fn many_laggards_hold_nobody_and_have_everything() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone(), Rest::Part);
    let larder = larder(&origin, "", "");
    let begun = Instant::now();
    gate.open();
    assert!(larder.get("/alone").body == body);
    let alone = begun.elapsed();
    let (gate, expect) = (Gate::new(), Arc::new(body));
    let origin = self::origin(&gate, Framed::Length, "ETag: \"a\"\n", expect.to_vec(), Rest::Part);
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
    // Half a second beside what reading it takes where nobody lags, on a machine that may have become busy.
    assert!(took < Duration::from_secs(1) + 4 * alone, "{took:?}, and {alone:?} alone");
    until("all are left behind", || larder.counter("fill_laggards") == 20);
    let readers = slow.drain(..).map(|mut client| {
        let expect = expect.clone();
        std::thread::spawn(move || {
            let it = client.read();
            assert!(it.complete && it.body == *expect, "{}", it.body.len());
        })
    });
    let readers: Vec<_> = readers.collect();
    readers.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!((20, 0), (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut")));
    assert_eq!(21, origin.requests());
}

/// A larder with one worker before `origin`, which it may ask twice at a time; and three who do not read while another does, and
/// are left behind. Of these the second has begun a fetch of its own, and reads no more.
fn two_connections(origin: &Origin, gate: &Gate, proxy: &str) -> (Larder, Vec<Client>, Vec<u8>) {
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[cache.ram]\nsize = \"16MiB\"\n{NO_SPOOL}[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         path = \"/*\"\nproxy = {{ to = [\"{}\"], connections = 2{proxy} }}\n",
        origin.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let mut slow: Vec<Client> = (0..3).map(|_| asks(&larder, "")).collect();
    until("it is fetched", || gate.waiting() == 1);
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == 3);
    gate.open();
    assert!(fast.read().complete);
    until("all are left behind", || larder.counter("fill_laggards") == 3);
    let first = slow.remove(0).read();
    assert!(first.complete && first.body == body(LENGTH));
    // One holds its place as long as it does not read.
    let mut taken = Vec::new();
    until("it has begun its own", || {
        taken.extend_from_slice(&slow[0].read_bytes(100_000));
        larder.counter("fill_laggards_continued") == 2
    });
    (larder, slow, taken)
}

/// A laggard takes no connection that others may need: it waits for one.
#[test]
fn laggards_leave_half_of_the_connections_to_others() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone(), Rest::Part);
    let (larder, mut slow, taken) = two_connections(&origin, &gate, "");
    let mut waits = slow.remove(1);
    let last = std::thread::spawn(move || waits.read());
    assert!(larder.client().get_with("/other", "Range: bytes=5-\r\n").complete, "others have a place");
    assert_eq!((2, 0), (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut")));
    // What is left of the second, beside what was read of it with its head.
    let head = taken.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let rest = slow.remove(0).read_bytes(LENGTH - (taken.len() - head));
    assert!([&taken[head..], &rest].concat() == body);
    let last = last.join().unwrap();
    assert!(last.complete && last.body == body);
    assert_eq!((3, 0), (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut")));
}

#[test]
fn a_laggard_waits_no_longer_than_an_origin_may_be_silent() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone(), Rest::Part);
    let (larder, mut slow, _) = two_connections(&origin, &gate, ", between_bytes_timeout = \"3s\"");
    let cut = slow.remove(1).read();
    assert!(!cut.complete && body.starts_with(&cut.body));
    assert_eq!((2, 1), (larder.counter("fill_laggards_continued"), larder.counter("fill_laggards_cut")));
}

/// The log tells what was sent, and that the origin was asked for it.
#[test]
fn the_log_tells_of_the_whole_body() {
    let body = body(LENGTH);
    let gate = Gate::new();
    let origin = origin(&gate, Framed::Length, "ETag: \"a\"\n", body.clone(), Rest::Part);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"json\"\n[cache.ram]\nsize = \"16MiB\"\n\
         {NO_SPOOL}[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let (_, slow) = one_lags(&larder, &gate, "");
    assert!(slow.complete);
    let read = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("both are logged", || read().lines().count() == 2);
    let last: serde_json::Value = serde_json::from_str(read().lines().last().unwrap()).unwrap();
    assert_eq!(
        (LENGTH as u64, "whole"),
        (last["bytes"].as_u64().unwrap(), last["end"].as_str().unwrap()),
        "{last}"
    );
    assert!(last["origin_us"].is_u64(), "{last}");
}
