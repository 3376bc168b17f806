//! Raw heads and what becomes of them.

use super::*;

const LIMITS: Limits = Limits { head: 1024, target: 256 };

#[track_caller]
fn ok(raw: &str) {
    match parse(raw.as_bytes(), &LIMITS, &mut Storage::new()) {
        Ok(Parsed::Head(_, length)) => assert_eq!(raw.len(), length),
        other => panic!("{raw:?}: {other:?}"),
    }
}

#[track_caller]
fn bad(raw: &str, why: Reject) {
    match parse(raw.as_bytes(), &LIMITS, &mut Storage::new()) {
        Err(it) => assert_eq!(why, it, "{raw:?}"),
        other => panic!("{raw:?}: {other:?}"),
    }
}

#[test]
fn a_plain_head() {
    ok("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ok("\r\nGET / HTTP/1.0\r\n\r\n");
    bad("GET / HTTP/1.1\nHost: a\n\n", Reject::LineEnd);
    bad("GET / HTTP/1.1\r\n\r\n", Reject::Host);
    bad("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine);
    bad("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Reject::Version);
    bad("GET / http/1.1\r\nHost: a\r\n\r\n", Reject::RequestLine);
    bad(
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        Reject::BothLengths,
    );
}
