//! Statements 1, 2 and 19: for any input the origin gets strict RFC 9112, exactly the requests that larder understood,
//! and nothing of a rejected one. In every case a second request is pipelined: it is answered with its own bytes, or the
//! connection is closed.

mod corpus;

use crate::harness::origin::Received;
use crate::harness::{Client, Larder, Origin};
use corpus::{Expect, cases};

/// An origin that says which request it answers.
fn echo() -> Origin {
    Origin::new(|it| {
        let text = format!("{} {} {}", it.line(), it.body.len(), it.field("host").unwrap_or("-"));
        format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{text}")
    })
}

const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: h\r\n\r\n";

/// The requirements of RFC 9112 for a request, without interpretation.
#[track_caller]
fn assert_strict(request: &Received) {
    let head = request.head.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words.len() == 3 && words[2] == "HTTP/1.1" && words.iter().all(|it| !it.is_empty()), "{line:?}");
    assert!(words[0].bytes().all(is_token), "{line:?}");
    assert!(is_strict(words[1]), "{line:?}");
    let (mut hosts, mut lengths, mut codings) = (0, 0, 0);
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {line:?}"));
        assert!(!name.is_empty() && name.bytes().all(is_token), "{line:?}");
        assert!(!value.bytes().any(|it| it == 0x7f || it < b' ' && it != b'\t'), "{line:?}");
        hosts += usize::from(name.eq_ignore_ascii_case("host"));
        if name.eq_ignore_ascii_case("content-length") {
            lengths += 1;
            assert!(
                value.trim().bytes().all(|it| it.is_ascii_digit()) && !value.trim().is_empty(),
                "{line:?}"
            );
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            codings += 1;
            assert_eq!(" chunked", value);
        }
        let dropped = ["keep-alive", "proxy-connection", "te", "upgrade", "trailer"];
        assert!(!dropped.iter().any(|it| name.eq_ignore_ascii_case(it)), "hop-by-hop: {line:?}");
        let disguised = name.replace('_', "-").to_ascii_lowercase();
        let ours = matches!(&*disguised, "content-length" | "transfer-encoding");
        assert!(!ours || !name.contains('_'), "disguised: {line:?}");
    }
    assert_eq!((1, true), (hosts, lengths + codings <= 1), "{head}");
}

/// A target is passed on as it came: it has no byte by which a line could end or be split.
fn is_strict(target: &str) -> bool {
    target.bytes().all(|it| it.is_ascii_graphic() && it != b'#')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The origin's bytes are its requests, one after the other: nothing between them, nothing half behind them.
#[track_caller]
fn assert_nothing_else(origin: &Origin) {
    let requests: usize = origin.received().iter().map(|it| it.head.len() + it.body.len()).sum();
    let bytes: usize = origin.bytes().iter().map(Vec::len).sum();
    assert_eq!(requests, bytes, "the origin received bytes that make no whole request");
}

#[test]
fn a_corpus_of_raw_requests() {
    let cases = cases();
    assert!(cases.len() >= 150, "{}", cases.len());
    let origin = echo();
    let larder = Larder::before(&origin, "");
    for case in &cases {
        let before = origin.requests();
        let mut client = larder.client();
        client.send([&case.raw[..], BEHIND.as_bytes()].concat());
        match &case.expect {
            Expect::Refused(statuses) => {
                let response = client.read();
                assert!(statuses.contains(&response.status), "{}: {response:?}", case.name);
                assert!(response.complete, "{}: {response:?}", case.name);
                let date = response.field("date").and_then(|it| larder_semantics::date::parse(it.as_bytes()));
                assert!(date.is_some(), "{}: {response:?}", case.name);
                assert!(client.is_closed(), "{}: stays open", case.name);
                assert_eq!(before, origin.requests(), "{}: reached the origin", case.name);
            }
            Expect::Passed(lines) => passed(case, lines, &mut client),
        }
        for it in &origin.received()[before..] {
            assert_strict(it);
        }
    }
    assert_nothing_else(&origin);
}

/// Every request of the case, and the one behind it, is answered in order with its own bytes.
#[track_caller]
fn passed(case: &corpus::Case, lines: &[&str], client: &mut Client) {
    for line in lines {
        let method = line.split(' ').next().unwrap_or("");
        let response = client.read_for(method);
        let text = response.text();
        let expect = if method == "HEAD" { "" } else { line };
        assert_eq!((200, true), (response.status, response.complete), "{}: {response:?}", case.name);
        assert!(text.starts_with(expect), "{}: {text:?} for {line:?}", case.name);
    }
    if case.closes {
        assert!(client.is_closed(), "{}: stays open", case.name);
    } else {
        let behind = client.read();
        assert_eq!("GET /behind HTTP/1.1 0 h", behind.text(), "{}: {behind:?}", case.name);
    }
}

/// A small generator whose numbers are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// Pieces that parsers disagree about, put anywhere into requests that are well formed.
#[test]
fn requests_changed_at_random() {
    const PIECES: [&[u8]; 28] = [
        b"\r",
        b"\n",
        b"\r\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b"\x0b",
        b"\xff",
        b"\r\n ",
        b"\r\r\n",
        b"\n\n",
        b",",
        b";",
        b"0",
        b"5",
        b"\r\n0\r\n\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Host: x\r\n",
        b"HTTP/1.1",
        b"GET /inside HTTP/1.1\r\nHost: h\r\n\r\n",
        b"\x7f",
        b"\"",
        b"+",
        b"x",
        b"\r\n\r\n",
        b"chunked",
    ];
    const BASES: [&str; 4] = [
        "GET /case HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n",
        "POST /case HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nX: y\r\n\r\nhello world",
        "POST /case HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX-T: 1\r\n\r\n",
        "PUT /case HTTP/1.1\r\nConnection: keep-alive\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    ];
    let origin = echo();
    let larder = Larder::before(&origin, "");
    let mut dice = Dice(20_260_112);
    let times = if std::env::var_os("LARDER_LONG").is_some() { 50_000 } else { 1_500 };
    for time in 0..times {
        let mut raw = BASES[dice.below(BASES.len())].as_bytes().to_vec();
        for _ in 0..=dice.below(2) {
            let at = dice.below(raw.len() + 1);
            let until = (at + dice.below(3)).min(raw.len());
            raw.splice(at..until, PIECES[dice.below(PIECES.len())].iter().copied());
        }
        let shown = String::from_utf8_lossy(&raw).into_owned();
        let before = origin.requests();
        let mut client = larder.client();
        client.send(&raw).send(BEHIND);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let mut answered = 0;
        loop {
            let response = client.read();
            if response.status == 0 {
                break;
            }
            assert!(
                response.status < 500 || matches!(response.status, 501 | 505),
                "{time}: {shown:?} {response:?}"
            );
            answered += usize::from(response.status == 200);
        }
        let received = &origin.received()[before..];
        for it in received {
            assert_strict(it);
        }
        assert_eq!(answered, received.len(), "{time}: {shown:?}: {received:#?}");
    }
}
