//! Responses that are not stored, compressed while they are sent: the same content and the right fields for every framing, client
//! and protocol; nothing is held back while the origin pauses, and a cut body stays cut.

use super::{COMPRESS, LEVELS, coding_of, decoded, page};
use crate::harness::origin::{Gate, Script};
use crate::harness::{Larder, Origin, Response, http2};
use larder_gateway::coding::codec;
use std::io::Read;
use std::sync::Arc;

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// A response for one visitor in one of the framings.
fn private(framing: &str, fields: &str, body: &[u8]) -> Vec<Script> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: private\r\nSet-Cookie: session=7\r\nETag: \"one\"\r\n\
         Content-Digest: sha-256=:AA==:\r\nAccept-Ranges: bytes\r\n{fields}"
    );
    let mut bytes = match framing {
        "length" => format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(),
        "chunked" => format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes(),
        _ => format!("{head}Connection: close\r\n\r\n").into_bytes(),
    };
    match framing {
        "chunked" => {
            for chunk in body.chunks(700) {
                bytes.extend_from_slice(&chunked(chunk));
            }
            bytes.extend_from_slice(
                b"0\r\nServer-Timing: app;dur=1\r\nContent-Digest: sha-256=:AA==:\r\n\r\n",
            );
        }
        _ => bytes.extend_from_slice(body),
    }
    let mut script = vec![Script::Send(bytes)];
    if framing == "close" {
        script.push(Script::Close);
    }
    script
}

fn chunked(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

const HTML: &str = "Content-Type: text/html\r\n";

/// An application with pages for one visitor: `/FRAMING/…`.
fn application() -> Origin {
    Origin::scripted(|it| {
        let framing = it.target().split('/').nth(1).unwrap().to_owned();
        let mut script = private(&framing, HTML, &page());
        if it.line().starts_with("HEAD") {
            let Script::Send(bytes) = &mut script[0] else { unreachable!() };
            let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
            bytes.truncate(end + 4);
        }
        script
    })
}

#[track_caller]
fn is_coded(response: &Response, coding: &str) {
    assert_eq!(Some(coding), response.field("content-encoding"), "{response:?}");
    assert!(response.complete && decoded(response) == page(), "{response:?}");
    assert!(response.body.len() < page().len() / 3, "{}", response.body.len());
    assert_eq!(Some("W/\"one\""), response.field("etag"));
    assert!(response.members("vary").contains(&"Accept-Encoding"), "{response:?}");
    assert_eq!(Some("session=7"), response.field("set-cookie"));
    for name in ["content-length", "content-digest", "accept-ranges"] {
        assert_eq!(None, response.field(name), "{response:?}");
    }
}

#[test]
fn a_page_for_one_visitor_is_coded() {
    let origin = application();
    let larder = Larder::before(&origin, COMPRESS);
    for framing in ["length", "chunked", "close"] {
        for coding in CODINGS {
            let target = format!("/{framing}/{coding}");
            let accept = format!("Accept-Encoding: {coding}\r\n");
            let mut client = larder.client();
            // The first runs a fetch that others could share, the next a fetch of its own, the last bypasses the cache.
            for lines in [accept.clone(), accept.clone(), format!("{accept}Authorization: Bearer x\r\n")] {
                is_coded(&client.get_with(&target, &lines), coding);
            }
            is_coded(&client.request("POST", &target, &accept, "a=b"), coding);
            let head = client.request("HEAD", &target, &accept, "");
            assert_eq!(
                (Some(coding), Some("W/\"one\"")),
                (head.field("content-encoding"), head.field("etag"))
            );
            assert_eq!((None, 0), (head.field("content-length"), head.body.len()), "{head:?}");
            let mut second = http2::Http2::connect(&larder);
            let fields = [("accept-encoding", coding)];
            let id = second.head(&http2::request("GET", &target, &fields), http2::END_STREAM);
            let answer = second.answer(id);
            assert_eq!(Some(coding), answer.field("content-encoding"), "{answer:?}");
            let plain = codec::decode(coding_of(coding), &answer.body, 8 << 20).unwrap();
            assert!(plain == page() && answer.field("content-length").is_none(), "{answer:?}");
        }
    }
    assert!(larder.counter("coding_streams") >= 45);
    assert_eq!(0, larder.counter("cache_stores"));
}

#[test]
fn the_client_chooses() {
    let origin = application();
    let larder = Larder::before(&origin, COMPRESS);
    let coding = |accept: &str| {
        let lines = if accept.is_empty() { String::new() } else { format!("Accept-Encoding: {accept}\r\n") };
        let it = larder.client().get_with("/length/a", &lines);
        assert!(decoded(&it) == page() && it.members("vary").contains(&"Accept-Encoding"), "{it:?}");
        it.field("content-encoding").map(str::to_owned)
    };
    assert_eq!(None, coding(""));
    assert_eq!(None, coding("identity"));
    assert_eq!(None, coding("gzip;q=0, br;q=0"));
    assert_eq!(None, coding("deflate"));
    assert_eq!(Some("zstd".to_owned()), coding("gzip, deflate, br, zstd"));
    assert_eq!(Some("gzip".to_owned()), coding("gzip, br;q=0.5"));
    assert_eq!(Some("br".to_owned()), coding("br, identity;q=0"));
}

/// The exceptions: media types, sizes, directives, requests about exact bytes, and codings of the origin.
#[test]
fn responses_that_are_not_encoded_in_transit() {
    let origin = Origin::scripted(|it| {
        let body = page();
        match it.target() {
            "/image" => private("length", "Content-Type: image/png\r\n", &body),
            "/small" => private("length", HTML, b"small"),
            "/no-transform" => private("length", "Content-Type: text/html\r\nCache-Control: no-transform\r\n", &body),
            "/own" => {
                let coded = codec::encode(coding_of("gzip"), LEVELS, &body).unwrap().unwrap();
                private("length", "Content-Type: text/html\r\nContent-Encoding: gzip\r\n", &coded)
            }
            "/part" => vec![Script::Send(
                [
                    format!(
                        "HTTP/1.1 206 Partial Content\r\nCache-Control: private\r\n{HTML}Content-Range: bytes 0-{}/99999\r\n\
                         Content-Length: {}\r\n\r\n",
                        body.len() - 1,
                        body.len()
                    )
                    .as_bytes(),
                    &body,
                ]
                .concat(),
            )],
            "/events" => private("close", "Content-Type: text/event-stream\r\n", &body),
            _ => private("length", HTML, &body),
        }
    });
    let larder = Larder::before(&origin, COMPRESS);
    let get = |target: &str, lines: &str| {
        let it = larder.client().get_with(target, &format!("Accept-Encoding: gzip, br, zstd\r\n{lines}"));
        assert!(it.complete, "{target}: {it:?}");
        it
    };
    for target in ["/image", "/small", "/no-transform", "/events"] {
        let it = get(target, "");
        assert_eq!((None, Some("\"one\"")), (it.field("content-encoding"), it.field("etag")), "{target}");
        assert!(it.field("content-digest").is_some(), "{target}");
    }
    assert_eq!(None, get("/part", "Range: bytes=0-99998\r\n").field("content-encoding"));
    let own = get("/own", "");
    assert!(own.field("content-encoding") == Some("gzip") && own.field("etag") == Some("\"one\""), "{own:?}");
    assert!(decoded(&own) == page());
    for lines in ["Range: bytes=0-5\r\n", "If-Match: \"one\"\r\n", "Cache-Control: no-transform\r\n"] {
        let it = get("/page", lines);
        assert_eq!((None, Some("\"one\"")), (it.field("content-encoding"), it.field("etag")), "{lines}");
        assert!(it.members("vary").contains(&"Accept-Encoding"), "{it:?}");
    }
    assert_eq!(0, larder.counter("coding_streams"));
    for cache in ["compress = { enabled = true, uncached = false }", "compress = { enabled = false }"] {
        let larder = Larder::before(&origin, cache);
        let it = larder.client().get_with("/page", "Accept-Encoding: gzip\r\n");
        assert_eq!((None, Some("\"one\"")), (it.field("content-encoding"), it.field("etag")), "{cache}");
    }
}

/// A response that is being stored goes to its first client as it came.
#[test]
fn a_stored_page_is_coded_for_the_next() {
    let origin = Origin::new(|_| {
        let text = String::from_utf8(page()).unwrap();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Type: text/html\n\n{text}")
    });
    let larder = Larder::before(&origin, COMPRESS);
    let lines = "Accept-Encoding: gzip\r\n";
    assert_eq!(None, larder.client().get_with("/a", lines).field("content-encoding"));
    let head = larder.client().request("HEAD", "/b", lines, "");
    assert_eq!((None, Some("Accept-Encoding")), (head.field("content-encoding"), head.field("vary")));
    assert_eq!(0, larder.counter("coding_streams"));
}

/// The origin sends a part, and the rest only after the client has seen it.
#[test]
fn bytes_that_have_arrived_are_not_held_back() {
    for coding in CODINGS {
        for method in ["GET", "POST"] {
            let gate = Gate::new();
            let door = gate.clone();
            let origin = Origin::scripted(move |_| paused(&door));
            let larder = Larder::before(&origin, COMPRESS);
            let mut client = larder.client();
            client.send(format!(
                "{method} /a HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\nContent-Length: 0\r\n\r\n"
            ));
            let head = String::from_utf8(client.read_raw_head()).unwrap().to_ascii_lowercase();
            assert!(head.contains(&format!("content-encoding: {coding}")), "{head}");
            let mut coded = Vec::new();
            while codec::decode_beginning(coding_of(coding), &coded, 8 << 20).0 != b"first part, " {
                coded.extend(client.read_chunk().expect("the first part arrives alone"));
            }
            gate.open();
            while let Some(chunk) = client.read_chunk() {
                coded.extend(chunk);
            }
            let plain = codec::decode(coding_of(coding), &coded, 8 << 20).unwrap();
            assert_eq!("first part, second part", String::from_utf8_lossy(&plain), "{coding}");
        }
        let gate = Gate::new();
        let door = gate.clone();
        let origin = Origin::scripted(move |_| paused(&door));
        let larder = Larder::before(&origin, COMPRESS);
        let mut second = http2::Http2::connect(&larder);
        let id = second.head(&http2::request("GET", "/a", &[("accept-encoding", coding)]), http2::END_STREAM);
        second.until(id, |it| {
            codec::decode_beginning(coding_of(coding), &it.body, 8 << 20).0 == b"first part, "
        });
        gate.open();
        let answer = second.answer(id);
        let plain = codec::decode(coding_of(coding), &answer.body, 8 << 20).unwrap();
        assert_eq!("first part, second part", String::from_utf8_lossy(&plain), "{coding}");
    }
}

fn paused(gate: &Arc<Gate>) -> Vec<Script> {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        Script::Send([head.as_bytes(), &chunked(b"first part, ")].concat()),
        Script::Gate(gate.clone()),
        Script::Send([&chunked(b"second part")[..], b"0\r\n\r\n"].concat()),
    ]
}

/// A body that the origin cuts is cut for the client, in its coding and in its framing.
#[test]
fn a_cut_body_stays_cut() {
    for framing in ["length", "chunked"] {
        for end in [false, true] {
            let origin = Origin::scripted(move |_| {
                let mut script = private(framing, HTML, &page().repeat(20));
                let Script::Send(bytes) = &mut script[0] else { unreachable!() };
                let half = bytes.len() / 2;
                bytes.truncate(half);
                script.push(if end { Script::Reset } else { Script::Close });
                script
            });
            let larder = Larder::before(&origin, COMPRESS);
            for coding in CODINGS {
                for _ in 0..2 {
                    let it = larder.client().get_with("/a", &format!("Accept-Encoding: {coding}\r\n"));
                    assert!(!it.complete, "{framing} {coding}");
                    assert!(
                        codec::decode(coding_of(coding), &it.body, 64 << 20).is_err(),
                        "{framing} {coding}"
                    );
                }
                let mut second = http2::Http2::connect(&larder);
                let fields = [("accept-encoding", coding)];
                let id = second.head(&http2::request("GET", "/a", &fields), http2::END_STREAM);
                let it = second.answer(id);
                assert!(it.reset.is_some(), "{framing} {coding}: {it:?}");
                assert!(codec::decode(coding_of(coding), &it.body, 64 << 20).is_err(), "{framing} {coding}");
                // The end of the connection is the end of such a response: it is reset.
                let mut old = larder.client();
                old.send(format!("GET /a HTTP/1.0\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n"));
                let mut rest = Vec::new();
                let read = old.stream.read_to_end(&mut rest);
                assert!(read.is_err(), "{framing} {coding}: {} bytes", rest.len());
            }
        }
    }
}

#[test]
fn a_client_of_http_1_0_gets_the_end_with_the_connection() {
    let origin = application();
    let larder = Larder::before(&origin, COMPRESS);
    let mut client = larder.client();
    client.send(
        "GET /chunked/a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n",
    );
    let mut all = Vec::new();
    client.stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    assert!(head.contains("content-encoding: gzip") && head.contains("connection: close"), "{head}");
    assert!(codec::decode(coding_of("gzip"), &all[end..], 8 << 20).unwrap() == page());
}

#[test]
fn trailers_follow_without_digests_of_the_plain_body() {
    let origin = application();
    let larder = Larder::before(&origin, COMPRESS);
    for _ in 0..2 {
        let it = larder.client().get_with("/chunked/a", "Accept-Encoding: gzip\r\nTE: trailers\r\n");
        let names: Vec<_> = it.trailers.iter().map(|it| it.0.to_ascii_lowercase()).collect();
        assert!(!names.contains(&"content-digest".to_owned()), "{it:?}");
        is_coded(&it, "gzip");
    }
}

/// RFC 9110 section 15.4.5: the 304 of the application has the `Vary` that larder gave its 200.
#[test]
fn a_304_varies_like_its_200() {
    let origin = Origin::scripted(|it| match it.field("if-none-match") {
        Some(_) => {
            let head = "HTTP/1.1 304 Not Modified\r\nCache-Control: private\r\nSet-Cookie: session=7\r\nETag: \"one\"\r\n\r\n";
            vec![Script::Send(head.as_bytes().to_vec())]
        }
        None => private("length", HTML, &page()),
    });
    let passed = format!("enabled = false, {COMPRESS}");
    for cache in [COMPRESS, &passed] {
        let larder = Larder::before(&origin, cache);
        for fields in ["", "Cookie: session=7\r\n"] {
            let fetch = |more: &str| {
                larder.client().get_with("/length/a", &format!("Accept-Encoding: gzip\r\n{fields}{more}"))
            };
            assert_eq!(["Accept-Encoding"][..], fetch("").members("vary"), "{cache}");
            let same = fetch("If-None-Match: \"one\"\r\n");
            assert_eq!(
                (304, ["Accept-Encoding"][..].to_vec()),
                (same.status, same.members("vary")),
                "{cache} {fields}"
            );
        }
    }
}

/// Many long bodies at once: short ones are sent meanwhile, and where no coder has room the page goes as it came.
#[test]
fn a_long_body_does_not_block_other_requests_of_the_worker() {
    let line = |it: usize| format!("<li>{it}: soup of the day, {}</li>\n", it * 7919 % 10_007);
    let long: Vec<u8> = (0..50_000).flat_map(|it| line(it).into_bytes()).collect();
    let length = long.len();
    let origin = Origin::scripted(move |it| match it.target() {
        "/long" => private("chunked", HTML, &long),
        _ => private("length", HTML, &page()),
    });
    let larder = Larder::before(&origin, COMPRESS);
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let mut client = larder.client();
            std::thread::spawn(move || client.get_with("/long", "Accept-Encoding: br\r\n"))
        })
        .collect();
    for _ in 0..20 {
        is_coded(&larder.client().get_with("/short", "Accept-Encoding: gzip\r\n"), "gzip");
    }
    for it in threads {
        let answer = it.join().unwrap();
        assert!(answer.complete);
        let plain = match answer.field("content-encoding") {
            None => answer.body.len(),
            Some(_) => codec::decode(coding_of("br"), &answer.body, 64 << 20).unwrap().len(),
        };
        assert_eq!(length, plain);
    }
}
