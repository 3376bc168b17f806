//! Statements 6 and 12: origins that hang, drip, lie or break off. A truncated response is visibly truncated for every
//! client and not stored; invalid HTTP is a 502; a missing answer is a 504; and the next request is not affected.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, TIMEOUT, until};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// larder before `origin`, which it waits for no longer than this: long enough for a good answer on a busy machine.
fn impatient(origin: &Origin) -> Larder {
    let timeouts = ", first_byte_timeout = \"2s\", between_bytes_timeout = \"2s\", total_timeout = \"5s\"";
    with_timeouts(origin, timeouts)
}

fn with_timeouts(origin: &Origin, timeouts: &str) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"]{timeouts} }}\n\
         cache = {{ stale_if_error = \"0s\" }}\n"
    ))
}

/// One way to break off in the middle of a body that may be kept.
struct Cut {
    name: &'static str,
    head: &'static str,
    body: &'static [u8],
    last: fn() -> Script,
}

fn cuts() -> Vec<Cut> {
    const LENGTH: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Length: 40\n\n";
    const CHUNKED: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\nTransfer-Encoding: chunked\n\n";
    const CLOSE: &str =
        "HTTP/1.1 200 OK\nCache-Control: max-age=600\nConnection: close\nTransfer-Encoding: x\n\n";
    let close = || Script::Close;
    let reset = || Script::Reset;
    let cut = |name, head, body, last| Cut { name, head, body, last };
    vec![
        cut("short of its length", LENGTH, b"some of the bytes", close),
        cut("one byte short", LENGTH, b"123456789012345678901234567890123456789", close),
        cut("no byte at all", LENGTH, b"", close),
        cut("short and reset", LENGTH, b"some of the bytes", reset),
        cut("no last chunk", CHUNKED, b"5\r\nhello\r\n", close),
        cut("within a chunk", CHUNKED, b"10\r\nhello", close),
        cut("within a size", CHUNKED, b"5\r\nhello\r\n1", close),
        cut("no line end behind a chunk", CHUNKED, b"5\r\nhello", close),
        cut("no empty line", CHUNKED, b"5\r\nhello\r\n0\r\n", close),
        cut("half an empty line", CHUNKED, b"5\r\nhello\r\n0\r\n\r", close),
        cut("chunks and a reset", CHUNKED, b"5\r\nhello\r\n", reset),
        cut("a size that is none", CHUNKED, b"5\r\nhello\r\nzz\r\nhello\r\n0\r\n\r\n", close),
        cut("a chunk that is longer", CHUNKED, b"5\r\nhello!!\r\n0\r\n\r\n", close),
        cut("a size beyond numbers", CHUNKED, b"5\r\nhello\r\nFFFFFFFFFFFFFFFFF\r\n", close),
        cut("a bare line feed", CHUNKED, b"5\nhello\n0\n\n", close),
        cut("in an unknown coding", CLOSE, b"hello", close),
    ]
}

const ASK: [&str; 2] = ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.0\r\nHost: h\r\n\r\n"];

#[test]
fn a_truncated_response_is_truncated_for_the_first_client() {
    for cut in cuts() {
        let (head, body, last) = (cut.head, cut.body, cut.last);
        let origin = Origin::scripted(move |_| vec![Script::Send([&response(head), body].concat()), last()]);
        let larder = Larder::before(&origin, "");
        for (number, fetch) in (1..).zip([ASK[0], ASK[1], ASK[0]]) {
            let mut client = larder.client();
            client.send(fetch);
            let it = client.read();
            assert!(!it.complete || it.status >= 502, "{}: {fetch:?} {it:?}", cut.name);
            assert!(!it.is_hit(), "{}: {it:?}", cut.name);
            assert_eq!(number, origin.requests(), "{}: was kept", cut.name);
        }
        assert_eq!(0, larder.counter("cache_stores"), "{}", cut.name);
    }
}

#[test]
fn a_truncated_response_is_truncated_for_followers() {
    for cut in cuts().into_iter().filter(|it| !it.head.contains("Encoding: x")) {
        let gate = Gate::new();
        let (head, body, last, before) = (cut.head, cut.body, cut.last, gate.clone());
        let origin = Origin::scripted(move |_| {
            let half = if body.starts_with(b"5\n") { 0 } else { body.len().min(6) };
            let (a, b) = body.split_at(half);
            vec![
                Script::Send([&response(head), a].concat()),
                Script::Gate(before.clone()),
                Script::Send(b.to_vec()),
                last(),
            ]
        });
        let larder = Larder::before(&origin, "");
        let mut clients: Vec<Client> = (0..6).map(|_| larder.client()).collect();
        clients[0].send(ASK[0]);
        until("the leader is at the gate", || gate.waiting() == 1);
        for (number, it) in clients.iter_mut().enumerate().skip(1) {
            it.send(ASK[number % 2]);
        }
        until("the followers", || larder.counter("requests_collapsed") == 5);
        gate.open();
        for (number, client) in clients.iter_mut().enumerate() {
            let it = client.read();
            assert!(!it.complete || it.status >= 502, "{}: {number} {it:?}", cut.name);
        }
        assert_eq!(0, larder.counter("cache_stores"), "{}", cut.name);
    }
}

#[test]
fn an_upload_that_is_cut_short_never_looks_whole() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    let head = |lines: &str| format!("POST /up HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    let length = head("Content-Length: 40\r\n");
    let chunked = head("Transfer-Encoding: chunked\r\n");
    let parts =
        ["", "some", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: y\r\n"];
    for start in [&length, &chunked] {
        for part in parts.iter().skip(if start == &length { 0 } else { 2 }).chain([&parts[0]]) {
            for how in 0..3 {
                let mut client = larder.client();
                client.send(start).send(part);
                match how {
                    0 => drop(client),
                    1 => client.reset(),
                    _ => {
                        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
                        let it = client.read();
                        assert!(it.status == 0 || it.status == 400, "{it:?}");
                    }
                }
            }
        }
    }
    until("all are gone", || larder.counter("connections_open") == 0);
    assert_eq!(0, origin.requests(), "{:?}", origin.received());
    // The connections to the origin were not used for anything else.
    assert_eq!("ok", larder.client().request("POST", "/up", "", "whole").text());
    assert_eq!(1, origin.requests());
    for bytes in origin.bytes() {
        let posts = String::from_utf8_lossy(&bytes).matches("POST /up").count();
        assert!(posts <= 1, "a connection with half a request was used again");
    }
}

/// An origin with faults on `/bad`; `/good` is answered well.
fn two_faced(bad: impl Fn(&Received) -> Vec<Script> + Send + Sync + 'static) -> Origin {
    Origin::scripted(move |it| match it.target() {
        "/good" => vec![Script::Send(response("HTTP/1.1 200 OK\n\ngood"))],
        _ => bad(it),
    })
}

/// Asks `/bad` and `/good` on one connection, and more than once: the bad one has `statuses` or is cut off, in time.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "it is the real time that is bounded")]
fn check(name: &str, larder: &Larder, statuses: &[u16]) {
    for time in 0..3 {
        let begun = Instant::now();
        let mut client = larder.client();
        let it = client.get("/bad");
        // The client itself gives up later.
        assert!(begun.elapsed() < TIMEOUT / 4, "{name}: took {:?}", begun.elapsed());
        let cut = it.status == 0 || !it.complete;
        assert!(cut || statuses.contains(&it.status), "{name}, {time}: {it:?}");
        assert!(!statuses.is_empty() || cut, "{name}: {it:?}");
        let mut client = if cut { larder.client() } else { client };
        for _ in 0..2 {
            let good = client.get("/good");
            assert_eq!(
                (200, "good", true),
                (good.status, good.text().as_str(), good.complete),
                "{name}: {good:?}"
            );
        }
    }
}

#[test]
fn a_response_that_is_not_http_is_a_502_for_its_request_alone() {
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1_000_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(5000));
    let texts: Vec<&[u8]> = vec![
        b"\0\xff\xfegarbage\r\n\r\n",
        b"garbage",
        b"\r\n\r\n\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b" HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nFoo : bar\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nFoo: b\rar\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nFoo: b\0ar\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nFoo\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nbytes",
        b"<html>hello</html>\n",
        b"\x16\x03\x01\x02\x00",
        large.as_bytes(),
        many.as_bytes(),
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    ];
    for text in texts {
        let name = String::from_utf8_lossy(&text[..text.len().min(80)]).escape_debug().to_string();
        let bytes = text.to_vec();
        let origin = two_faced(move |_| vec![Script::Send(bytes.clone()), Script::Close]);
        let larder = with_timeouts(&origin, "");
        let lenient: &[u8] = b"HTTP/1.1 200 OK\nContent-Length: 0\n\n";
        check(&name, &larder, if text == lenient { &[502, 200] } else { &[502] });
    }
}

#[test]
fn a_missing_response_is_a_504_within_its_timeout() {
    let never = Gate::new();
    let half = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 10\n\nhalf");
    let begins = |first: Vec<u8>| {
        let gate = never.clone();
        two_faced(move |_| vec![Script::Send(first.clone()), Script::Gate(gate.clone())])
    };
    check_all(vec![
        ("says nothing", begins(Vec::new()), &[504]),
        ("half a head", begins(b"HTTP/1.1 200 OK\r\nX: y".to_vec()), &[504]),
        ("half a body", begins(half), &[]),
    ]);
    never.open();
}

/// [`check`] of several origins at once, since each takes the time of its timeouts.
fn check_all(all: Vec<(&str, Origin, &[u16])>) {
    std::thread::scope(|scope| {
        for (name, origin, statuses) in all {
            scope.spawn(move || check(name, &impatient(&origin), statuses));
        }
    });
}

/// Sends `first`, then `drop` again and again with a pause that no single wait is bounded by.
fn dripping(first: &'static [u8], drop: &'static [u8]) -> Origin {
    two_faced(move |_| {
        let mut steps = vec![Script::Send(first.to_vec())];
        for _ in 0..400 {
            steps.push(Script::Pause(Duration::from_millis(20)));
            steps.push(Script::Send(drop.to_vec()));
        }
        steps
    })
}

/// Whether the route caches or not, and whatever of it may be stored.
#[test]
fn an_unrequested_part_is_not_an_answer() {
    let origin = Origin::new(|_| {
        "HTTP/1.1 206 P\nCache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 0-3/100\n\npart"
            .to_owned()
    });
    for (cache, reason) in [("", "uri-miss; fwd-status=206"), ("enabled = false", "bypass")] {
        let larder = Larder::before(&origin, cache);
        let whole = larder.get("/");
        assert_eq!((502, format!("larder; fwd={reason}").as_str()), (whole.status, whole.cache()), "{cache}");
        let part = larder.client().get_with("/", "Range: bytes=0-3\r\n");
        assert_eq!((206, "part"), (part.status, part.text().as_str()), "{cache}");
    }
}

#[test]
fn a_dripping_response_is_bounded_as_a_whole() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check_all(vec![
        ("a head", dripping(b"HTTP/1.1 200 OK\r\nX: ", b"y"), &[504]),
        ("a body", dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"y"), &[]),
        ("chunks", dripping(chunked, b"1\r\ny\r\n"), &[]),
        ("1xx", dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), &[502, 504]),
    ]);
}

#[test]
fn a_flood_of_interim_responses_is_cut_off() {
    let flood = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n".repeat(10_000);
    let origin = two_faced(move |_| vec![Script::Send(flood.clone()), Script::Close]);
    let larder = with_timeouts(&origin, "");
    check("103", &larder, &[502]);
    assert!(larder.counter("origin_interim_flood") >= 3);
    let flood = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    let origin = two_faced(move |_| vec![Script::Send(flood.clone()), Script::Close]);
    check("100", &with_timeouts(&origin, ""), &[502]);
}

#[test]
fn surplus_bytes_reach_no_other_request() {
    let spare = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nspoil";
    for (name, head) in [
        ("behind a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (
            "behind the last chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        ("behind a 204", "HTTP/1.1 204 No\r\n\r\n"),
        ("behind a 304", "HTTP/1.1 304 Not\r\n\r\n"),
    ] {
        for later in [false, true] {
            let (gate, bytes) = (Gate::new(), head.as_bytes().to_vec());
            let before = gate.clone();
            let origin = two_faced(move |_| match later {
                false => vec![Script::Send([&bytes[..], spare.as_bytes()].concat())],
                true => vec![
                    Script::Send(bytes.clone()),
                    Script::Gate(before.clone()),
                    Script::Send(spare.as_bytes().to_vec()),
                ],
            });
            let larder = with_timeouts(&origin, "");
            let mut client = larder.client();
            let it = client.get("/bad");
            assert!(it.complete && it.text() != "spoil", "{name}: {it:?}");
            let connections = origin.connections();
            gate.open();
            if later {
                // It has rested, and was spoiled while it did.
                spoiled(&origin, connections);
            }
            for _ in 0..3 {
                let good = client.get("/good");
                assert_eq!((200, "good"), (good.status, good.text().as_str()), "{name}: {good:?}");
            }
        }
    }
}

/// Nothing tells that bytes have reached a socket of larder's that nobody reads but the kernel's own table.
fn spoiled(origin: &Origin, _connections: usize) {
    let port = format!(":{:04X} ", origin.address.port());
    until("the bytes are in the socket", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let waiting = |line: &str| {
            let mut words = line.split_whitespace().skip(2);
            let peer = format!("{} ", words.next().unwrap_or(""));
            let queues = words.nth(1).unwrap_or("");
            let state_gone = line.contains(" 06 ");
            peer.ends_with(&port) && (state_gone || !queues.ends_with(":00000000"))
        };
        let ours = |line: &str| format!("{} ", line.split_whitespace().nth(2).unwrap_or("")).ends_with(&port);
        table.lines().any(waiting) || !table.lines().any(ours)
    });
}

#[test]
fn stale_is_served_when_the_origin_breaks() {
    let gate: Arc<Gate> = Gate::new();
    let broken = gate.clone();
    let origin = Origin::scripted(move |it| match it.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"a\"\n\nkept"))],
        1 => vec![Script::Close],
        2 => vec![Script::Send(b"garbage\r\n\r\n".to_vec()), Script::Close],
        3 => vec![Script::Send(response("HTTP/1.1 503 No\n\nno"))],
        _ => vec![Script::Gate(broken.clone()), Script::Close],
    });
    let larder = impatient_with_stale(&origin);
    larder.get("/");
    larder.advance(20);
    for number in 1..=4 {
        let it = larder.get("/");
        assert_eq!((200, "kept"), (it.status, it.text().as_str()), "{number}: {it:?}");
    }
    gate.open();
}

fn impatient_with_stale(origin: &Origin) -> Larder {
    let url = origin.url();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"], first_byte_timeout = \"3s\" }}\ncache = {{ stale_if_error = \"1h\" }}\n"
    );
    Larder::configured(config)
}

#[test]
fn the_error_log_names_the_failed_origin_and_the_reason() {
    let sends = |bytes: Vec<u8>| Origin::scripted(move |_| vec![Script::Send(bytes.clone()), Script::Close]);
    let gate = Gate::new();
    let shut = gate.clone();
    let many: String = (0..200).map(|it| format!("X-{it}: a\r\n")).collect();
    let origins = [
        ("garbage", sends(b"what?\r\n\r\n".to_vec()), "its status line is malformed"),
        (
            "early",
            Origin::scripted(|_| vec![Script::Close]),
            "closed the connection before its response was complete",
        ),
        (
            "cut",
            sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_vec()),
            "before its response was complete",
        ),
        (
            "chunk",
            sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec()),
            "has invalid chunks",
        ),
        (
            "slow",
            Origin::scripted(move |_| vec![Script::Gate(shut.clone()), Script::Close]),
            "the origin timed out",
        ),
        (
            "large",
            sends(format!("HTTP/1.1 200 OK\r\nX-Large: {}\r\n\r\n", "a".repeat(9000)).into()),
            "larger than proxy.head_size allows",
        ),
        ("many", sends(format!("HTTP/1.1 200 OK\r\n{many}\r\n").into()), "too many fields"),
        (
            "interim",
            sends(b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)),
            "too many interim (1xx) responses",
        ),
    ];
    let (_closed, away) = crate::harness::closed_address();
    let mut routes: Vec<(&str, String, &str)> =
        origins.iter().map(|(name, origin, why)| (*name, origin.url(), *why)).collect();
    routes.push(("refused", format!("http://{away}"), "cannot be reached: "));
    routes.push(("unknown", "http://nowhere.invalid:80".to_owned(), "nowhere.invalid cannot be resolved: "));
    let mut config =
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"off\"\nerror = \"error.log\"\n\
                      [[site]]\nhosts = [\"*\"]\n"
            .to_owned();
    for (name, url, _) in &routes {
        // Every other origin answers, at some time.
        let timeout = if *name == "slow" { "400ms" } else { "60s" };
        config.push_str(&format!(
            "[[site.route]]\npath = \"/{name}\"\n\
             proxy = {{ to = [\"{url}\"], first_byte_timeout = \"{timeout}\", head_size = \"8KiB\" }}\n"
        ));
    }
    let larder = Larder::configured(config);
    for (name, url, why) in &routes {
        larder.get(&format!("/{name}"));
        let log = || larder.error_log();
        let event = format!(" error origin-failed route=*/{name} origin={url} why=\"");
        let report = |line: &str| line.contains(&event) && line.contains(why) && !line.contains(" left_out=");
        until("it is told", || log().lines().any(report));
    }
    gate.open();
    for counter in ["origin_head_too_large", "origin_too_many_fields", "origin_interim_flood"] {
        assert_eq!(1, larder.counter(counter), "{counter}");
    }
}
