//! HTTP/2 in clear text: the same answers as over HTTP/1.1, many at once, each at its client's pace; and the protocol's own
//! test program.

use crate::harness::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, PADDED, RST_STREAM, WINDOW_UPDATE, block,
    frame, request,
};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Larder, Origin, until};

mod fields;
mod floods;
mod h2spec;
mod secure;
mod slow;
mod streams;
pub mod tunnels;

fn origin() -> Origin {
    Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=6000\nX-Own: Yes\n\nkept".to_owned(),
        "/large" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "x".repeat(3_000_000)),
        "/stream" => format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{}", "y".repeat(3_000_000)),
        "/page" => format!("HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\n{}", "z".repeat(1795)),
        "/empty" => "HTTP/1.1 204 No Content\nCache-Control: max-age=6000\n\n".to_owned(),
        _ => format!(
            "HTTP/1.1 200 OK\nCache-Control: no-store\nX-Line: {}\nX-Host: {}\nX-Via: {}\n\n{}",
            it.line(),
            it.field("host").unwrap_or(""),
            it.field("via").unwrap_or(""),
            String::from_utf8_lossy(&it.body)
        ),
    })
}

#[test]
fn answers_are_those_of_http1() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let miss = client.get("/kept");
    let hit = client.get("/kept");
    let old = larder.get("/kept");
    assert!(hit.complete && hit.field("cache-status").unwrap().contains("; hit"), "{hit:?}");
    for it in [&miss, &hit] {
        assert_eq!((200, "kept", Some("4")), (it.status, it.text().as_str(), it.field("content-length")));
    }
    // Name by name: what differs is the case of names.
    let mut names: Vec<_> = old.fields.iter().map(|it| it.0.to_lowercase()).collect();
    let mut own: Vec<_> = hit.fields.iter().map(|it| it.0.clone()).filter(|it| it != ":status").collect();
    names.sort();
    own.sort();
    assert_eq!(names, own);
    assert_eq!(1, origin.requests());
    let other = client.get("/a?b=c");
    assert_eq!(Some("GET /a?b=c HTTP/1.1"), other.field("x-line"));
    assert_eq!((Some("h"), Some("2.0 larder")), (other.field("x-host"), other.field("x-via")));
    let conditional = client.head(&request("GET", "/empty", &[]), END_STREAM);
    let empty = client.answer(conditional);
    assert_eq!((204, true, 0), (empty.status, empty.complete, empty.body.len()));
    assert_eq!(1, larder.counter("http2_connections"));
    assert_eq!(4, larder.counter("http2_requests"));
}

#[test]
fn heads_are_answered_without_bodies_and_conditions_with_304() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\nbody");
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    for _ in 0..2 {
        let head = client.head(&request("HEAD", "/", &[]), END_STREAM);
        let head = client.answer(head);
        assert_eq!(
            (200, true, Some("4")),
            (head.status, head.complete, head.field("content-length")),
            "{head:?}"
        );
        assert!(head.body.is_empty());
        client.get("/");
    }
    let asked = client.head(&request("GET", "/", &[("if-none-match", "\"a\"")]), END_STREAM);
    let answer = client.answer(asked);
    assert_eq!((304, true, 0), (answer.status, answer.complete, answer.body.len()));
}

#[test]
fn large_bodies_wait_for_their_window_and_other_streams_do_not() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    assert_eq!(3_000_000, client.get("/large").body.len());
    assert_eq!(3_000_000, client.get("/stream").body.len());
    // Nobody takes of the first two more than their windows; the connection's is wide.
    client.is_generous = false;
    client.allow(0, 10_000_000);
    let slow = [client.send_get("/large"), client.send_get("/stream")];
    assert_eq!("kept", client.get("/kept").text());
    assert_eq!("kept", client.get("/kept").text());
    for id in slow {
        while client.so_far(id).body.len() < 65_535 {
            client.read().unwrap();
        }
        assert_eq!(65_535, client.so_far(id).body.len());
        client.allow(id, 3_000_000);
        let answer = client.answer(id);
        assert!(answer.complete && answer.body.len() == 3_000_000);
    }
}

#[test]
fn windows_may_shrink_below_nothing() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::with_settings(&larder, &[(4, 10)]);
    client.is_generous = false;
    let id = client.send_get("/large");
    while client.so_far(id).body.len() < 10 {
        client.read().unwrap();
    }
    client.send(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    client.allow(id, 15);
    let kept = client.send_get("/kept");
    while client.so_far(id).body.len() < 15 {
        client.read().unwrap();
    }
    client.allow(kept, 4);
    assert_eq!("kept", client.answer(kept).text());
    assert_eq!(15, client.so_far(id).body.len());
}

/// The application finds no end of it: it was never whole.
#[test]
fn a_body_that_is_none_has_no_byte() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let empty = client.head(&request("POST", "/", &[("content-length", "0")]), 0);
    client.send(frame(DATA, END_STREAM, empty, b""));
    assert!(client.answer(empty).complete);
    let more = client.head(&request("POST", "/", &[("content-length", "0")]), 0);
    client.send(frame(DATA, END_STREAM, more, b"ab"));
    let answer = client.answer(more);
    assert_eq!((Some(1), 0), (answer.reset, answer.status), "{answer:?}");
}

/// What is kept is not the answer to it, and its answer is not kept: an application may look at the body.
#[test]
fn a_get_with_a_body_is_sent_to_the_origin() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    for (lines, body) in [(&[][..], &b"abc"[..]), (&[("content-length", "3")], b"abc"), (&[], b"")] {
        for path in ["/kept", "/kept?not-yet"] {
            let id = client.head(&request("GET", path, lines), 0);
            client.send(frame(DATA, END_STREAM, id, body));
            let answer = client.answer(id);
            let status = answer.field("cache-status").unwrap_or_default().to_owned();
            assert!(
                answer.complete && !status.contains("hit") && !status.contains("stored"),
                "{path}: {status}"
            );
        }
        assert!(client.get("/kept").complete);
    }
    assert!(client.get("/kept").field("cache-status").unwrap().contains("hit"));
}

#[test]
fn bodies_reach_the_origin_whole_with_their_trailers() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let id = client.head(&request("POST", "/up", &[("content-length", "5")]), 0);
    client.data(id, b"he", 0);
    client.data(id, b"llo", END_STREAM);
    assert_eq!("hello", client.answer(id).text());
    let id = client.head(&request("POST", "/up", &[("expect", "100-continue")]), 0);
    while client.so_far(id).interim.is_empty() {
        client.read().unwrap();
    }
    let body = vec![b'x'; 100_000];
    for part in body.chunks(16_000) {
        client.data(id, part, 0);
    }
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, id, &block(&[("x-sum", "1")])));
    let answer = client.answer(id);
    assert_eq!((vec![100], 200), (answer.interim.clone(), answer.status), "{:?}", answer.reset);
    // As it came, in chunks.
    assert!(answer.body.len() > 100_000 && answer.text().contains("x-sum: 1"), "{}", answer.body.len());
}

#[test]
fn curl_downloads_and_uploads_more_than_any_window() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let curl = |more: &[&str], path: &str| {
        let url = format!("http://{}{path}", larder.address);
        let done = std::process::Command::new("curl")
            .args(["-sS", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}"])
            .args(more)
            .arg(url)
            .output()
            .expect("tests/install brings curl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let large = "y".repeat(3_000_000) + "2 200";
    assert!(curl(&[], "/stream") == large);
    let file = larder.folder.path().join("upload");
    std::fs::write(&file, &large[..3_000_000]).unwrap();
    let sent = curl(&["-T", file.to_str().unwrap()], "/up");
    assert!(sent == large, "{} bytes, {:?}", sent.len(), &sent[sent.len().saturating_sub(100)..]);
}

#[test]
fn an_upload_that_was_cut_never_looks_whole() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    for malformed in [true, false] {
        let mut client = Http2::connect(&larder);
        let id = client.head(&request("POST", "/up", &[("content-length", "5")]), 0);
        client.data(id, b"he", 0);
        match malformed {
            true => client.data(id, b"", END_STREAM),
            false => client.send(frame(RST_STREAM, 0, id, &8u32.to_be_bytes())),
        }
        if malformed {
            assert_eq!(Some(1), client.answer(id).reset);
        }
        assert_eq!("kept", client.get("/kept").text(), "the connection goes on");
    }
    assert!(origin.received().iter().all(|it| it.target() != "/up" || it.body.is_empty()));
}

#[test]
fn an_answer_that_was_cut_does_not_end_well() {
    let origin = Origin::scripted(|_| {
        vec![
            Script::Send(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhalf".to_vec(),
            ),
            Script::Close,
        ]
    });
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let answer = client.get("/");
    assert!(!answer.complete && answer.reset == Some(2), "{answer:?}");
}

#[test]
fn requests_wait_for_their_origins_side_by_side() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/slow" => vec![
            Script::Gate(opened.clone()),
            Script::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow".to_vec()),
        ],
        _ => vec![Script::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfast".to_vec())],
    });
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let slow = client.send_get("/slow");
    assert_eq!("fast", client.get("/fast").text());
    gate.open();
    assert_eq!("slow", client.answer(slow).text());
}

/// An origin that answers everything once the gate is open.
fn slow() -> (Origin, std::sync::Arc<Gate>) {
    let gate = Gate::new();
    let opened = gate.clone();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow";
    let origin = Origin::scripted(move |_| vec![Script::Gate(opened.clone()), Script::Send(answer.to_vec())]);
    (origin, gate)
}

#[test]
fn a_drain_finishes_streams_in_flight_and_sends_goaway() {
    let (origin, gate) = slow();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let id = client.send_get("/");
    until("it waits at the origin", || gate.waiting() > 0);
    larder.signal(libc::SIGTERM);
    while !client.was_announced {
        client.read().unwrap();
    }
    // The client has not taken note of it yet.
    let on_its_way = client.send_get("/on-its-way");
    while client.goaway.is_none() {
        client.read().unwrap();
    }
    let late = client.send_get("/late");
    assert_eq!(Some(7), client.answer(late).reset);
    gate.open();
    for id in [id, on_its_way] {
        let answer = client.answer(id);
        assert_eq!((Some(0), "slow", true), (client.goaway, answer.text().as_str(), answer.complete));
    }
    client.rest();
}

/// The same where nothing is under way: what a cache answers at once never is.
#[test]
fn a_drain_answers_requests_sent_before_the_goaway_arrived() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nkept");
    let mut larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    assert_eq!("kept", client.get("/").text());
    larder.signal(libc::SIGTERM);
    while !client.was_announced {
        client.read().unwrap();
    }
    assert_eq!("kept", client.get("/").text());
    client.rest();
    assert_eq!(Some(0), client.goaway);
    assert!(larder.child.wait().unwrap().success());
}

/// Who answers no PING is left all the same.
#[test]
fn a_drain_waits_for_no_client_that_has_had_its_answers() {
    let (origin, gate) = slow();
    let mut larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    client.send_get("/");
    until("it waits at the origin", || gate.waiting() > 0);
    larder.signal(libc::SIGTERM);
    gate.open();
    assert!(larder.child.wait().unwrap().success());
    assert_eq!("slow", client.answer(1).text());
}

#[test]
fn fields_that_http1_cannot_express_reach_no_origin() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let bad: [&[(&str, &str)]; 12] = [
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[("upgrade", "websocket")],
        &[("te", "gzip")],
        &[("x", "a\r\nhost: b")],
        &[("x", "a\0b")],
        &[("x\r\ny", "a")],
        &[("x: y", "a")],
        &[("X", "a")],
        &[("host", "other")],
        &[("content-length", "5")],
        &[(":path", "/other")],
    ];
    for more in bad {
        let id = client.head(&request("GET", "/bad", more), END_STREAM);
        assert_eq!(Some(1), client.answer(id).reset, "{more:?}");
    }
    for path in ["/a b", "/a\r\nX: y", "http://h/", "a", ""] {
        let id = client.head(&request("GET", path, &[]), END_STREAM);
        assert_eq!(Some(1), client.answer(id).reset, "{path:?}");
    }
    assert_eq!("kept", client.get("/kept").text(), "the connection goes on");
    assert_eq!(1, origin.requests());
    assert_eq!(17, larder.counter("requests_rejected"));
}

/// A client that is reset while it sends may not look at its answer: it may send on for a while, of which nothing is kept.
#[test]
fn a_stream_answered_during_its_upload_is_not_reset() {
    let larder = Larder::before_with(&origin(), "", "[limits]\nbody_size = 1000\n");
    let mut client = Http2::connect(&larder);
    let id = client.head(&request("POST", "/up", &[("content-length", "300000")]), 0);
    assert_eq!(413, client.until(id, |it| it.complete).status);
    let mut credit = 128 * 1024;
    for number in 0..30 {
        while credit < 10_000 {
            let it = client.read().expect("it is given credit");
            assert!(it.kind != RST_STREAM, "after {number} parts");
            if (it.kind, it.stream) == (WINDOW_UPDATE, id) {
                credit += it.code();
            }
        }
        credit -= 10_000;
        client.data(id, &[b'x'; 10_000], if number == 29 { END_STREAM } else { 0 });
    }
    assert_eq!("kept", client.get("/kept").text());
    assert_eq!(None, client.so_far(id).reset);
    // Who stands still has no place for ever.
    let id = client.head(&request("POST", "/up", &[("content-length", "300000")]), 0);
    assert_eq!(Some(0), client.until(id, |it| it.reset.is_some()).reset);
    assert_eq!(413, client.so_far(id).status);
    // Nor does one of the many who use it lose what it was told.
    let (folder, url) = (tempfile::tempdir().unwrap(), format!("http://{}/up", larder.address));
    for size in [2_000, 150_000, 300_000, 3_000_000] {
        let body = folder.path().join("body");
        std::fs::write(&body, vec![b'x'; size]).unwrap();
        let data = format!("@{}", body.display());
        let arguments =
            ["-s", "--http2-prior-knowledge", "-o", "-", "-w", "%{http_code}", "--data-binary", &data, &url];
        let out =
            std::process::Command::new("curl").args(arguments).output().expect("tests/install has curl");
        let out = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.ends_with("413"), "{size}: {out}");
    }
}

#[test]
fn requests_that_exceed_a_limit_are_answered_with_its_status() {
    let larder = Larder::before_with(&origin(), "", "[limits]\nbody_size = 1000\n");
    let mut client = Http2::connect(&larder);
    let long = "x".repeat(9_000);
    let id = client.head(&request("GET", &format!("/{long}"), &[]), END_STREAM);
    assert_eq!(414, client.answer(id).status);
    let fields: Vec<_> = ["a", "b", "c"].iter().map(|it| (*it, long.as_str())).collect();
    let whole = block(&request("GET", "/", &fields));
    let id = client.head(&request("GET", "/kept", &[]), END_STREAM);
    client.answer(id);
    let id = id + 2;
    client.begin_at(id + 2);
    client.send(frame(HEADERS, END_STREAM, id, &whole[..16_000]));
    client.send(frame(CONTINUATION, END_HEADERS, id, &whole[16_000..]));
    assert_eq!(431, client.answer(id).status);
    let mut client = Http2::connect(&larder);
    let id = client.head(&request("POST", "/up", &[("content-length", "2000")]), 0);
    assert_eq!(413, client.answer(id).status);
    let id = client.head(&request("POST", "/up", &[]), 0);
    client.data(id, &[b'x'; 2000], END_STREAM);
    assert_eq!(413, client.answer(id).status);
    for counter in ["target_too_long", "head_too_large"] {
        assert_eq!(1, larder.counter(counter), "{counter}");
    }
    assert_eq!(2, larder.counter("body_too_large"));
}

#[test]
fn hits_of_one_read_leave_together() {
    let larder = Larder::before(&origin(), "");
    let mut client = Http2::connect(&larder);
    client.get("/kept");
    let fields = block(&request("GET", "/kept", &[]));
    let ids: Vec<u32> = (1..=50).map(|it| it * 2 + 1).collect();
    let all: Vec<u8> =
        ids.iter().flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, *it, &fields)).collect();
    client.send(&all);
    let mut order = Vec::new();
    while order.len() < 100 {
        let it = client.read().unwrap();
        if matches!(it.kind, HEADERS | DATA) {
            order.push(it.stream);
        }
    }
    assert!(order.chunks(2).map(|it| it[0]).eq(ids), "each whole, in the order in which they were asked");
}

#[test]
fn more_streams_than_allowed_are_refused_and_may_come_again() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |_| {
        vec![
            Script::Gate(opened.clone()),
            Script::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow".to_vec()),
        ]
    });
    let larder = Larder::before_with(&origin, "", "[limits]\nhttp2_streams = 3\n");
    let mut client = Http2::connect(&larder);
    let ids: Vec<_> = (0..4).map(|it| client.send_get(&format!("/{it}"))).collect();
    assert_eq!(Some(7), client.answer(ids[3]).reset);
    assert_eq!(1, larder.counter("http2_streams_refused"));
    gate.open();
    for id in &ids[..3] {
        assert_eq!("slow", client.answer(*id).text());
    }
    assert_eq!("slow", client.get("/again").text());
}

/// A browser that leaves a page resets what it asked for, while the application is at it still.
#[test]
fn a_reset_stream_frees_its_place_for_other_requests() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| {
        let answer = "HTTP/1.1 200 OK\nCache-Control: max-age=6000\n\nhere";
        match it.target().starts_with("/slow") {
            true => vec![Script::Gate(opened.clone()), Script::Send(response(answer))],
            false => vec![Script::Send(response(answer))],
        }
    });
    let larder = Larder::before_with(&origin, "", "[limits]\nhttp2_streams = 3\n");
    let mut client = Http2::connect(&larder);
    assert_eq!("here", client.get("/kept").text());
    for left in 1..=4 {
        for it in 0..3 {
            let id = client.send_get(&format!("/slow/{left}/{it}"));
            client.send(frame(RST_STREAM, 0, id, &8u32.to_be_bytes()));
        }
        until("the application is at it", || gate.waiting() == 3 * left);
        assert_eq!("here", client.get("/kept").text(), "a hit, {left}");
        let miss = client.get(&format!("/other/{left}"));
        assert_eq!((left == 4).then_some(7), miss.reset, "a miss is refused where too much is left behind");
    }
    assert_eq!(1, larder.counter("http2_streams_refused"));
    gate.open();
    until("nothing is left behind", || client.get("/again").reset.is_none());
    assert_eq!("here", client.get("/slow/1/0").text());
}

/// Frames of padding alone use up the window of their stream, and get it back (RFC 9113 §6.9.1): of a body that is read, and of
/// one whose request was answered.
#[test]
fn padding_alone_gives_its_credit_back() {
    let larder = Larder::before_with(&origin(), "", "[limits]\nbody_size = 1000\n");
    let padding = [&[255][..], &[0; 255]].concat();
    for (length, expect) in [("3", 200), ("300000", 413)] {
        let mut client = Http2::connect(&larder);
        let id = client.head(&request("POST", "/up", &[("content-length", length)]), 0);
        let mut credit = 128 * 1024;
        for number in 0..900 {
            while credit < 256 {
                let it = client.read().unwrap_or_else(|| panic!("{length}: no credit after {number} frames"));
                credit += if (it.kind, it.stream) == (WINDOW_UPDATE, id) { it.code() } else { 0 };
            }
            credit -= 256;
            client.send(frame(DATA, PADDED, id, &padding));
        }
        if expect == 200 {
            client.data(id, b"abc", END_STREAM);
        }
        assert_eq!(expect, client.until(id, |it| it.complete).status);
    }
}

/// What came of a body is the connection's credit again as soon as its stream is reset.
#[test]
fn the_body_of_a_reset_stream_is_credited_to_the_connection() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |_| vec![Script::Gate(opened.clone())]);
    let larder = Larder::before(&origin, "");
    let mut client = Http2::connect(&larder);
    let mut credit = 65_535;
    for _ in 0..20 {
        // Nobody reads the body of a GET before it is answered.
        let id = client.head(&request("GET", "/slow", &[]), 0);
        for _ in 0..7 {
            while credit < 16_384 {
                let it = client.read().expect("credit comes");
                credit += if (it.kind, it.stream) == (WINDOW_UPDATE, 0) { it.code() } else { 0 };
            }
            credit -= 16_384;
            client.data(id, &[b'x'; 16_384], 0);
        }
        client.send(frame(RST_STREAM, 0, id, &8u32.to_be_bytes()));
    }
    drop(client);
    gate.open();
}
