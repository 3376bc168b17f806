//! The counters: each request and each mishap is counted once.

use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, Pages};

/// The cache's own counters, in the order of their table.
const NAMES: [&str; 8] = [
    "cache_hits",
    "cache_stale_hits",
    "cache_misses",
    "cache_validations",
    "cache_validated",
    "cache_passes",
    "cache_stores",
    "cache_refusals",
];

#[track_caller]
fn counted(pages: &Pages, expect: [u64; 8]) {
    assert_eq!(expect, NAMES.map(|it| pages.larder.counter(it)), "{NAMES:?}");
}

#[test]
fn each_request_once() {
    let pages = Pages::new("");
    let page = pages.page(&[
        "Cache-Control: max-age=10 | ETag: \"a\"",
        "304 | ETag: \"a\"",
        "503",
        "Cache-Control: max-age=10 | ETag: \"b\"",
        "200",
    ]);
    page.get("");
    counted(&pages, [0, 0, 1, 0, 0, 0, 1, 0]);
    page.get("");
    page.get("If-None-Match: \"a\"");
    page.get("Range: bytes=0-1");
    page.request("HEAD", "", "");
    counted(&pages, [4, 0, 1, 0, 0, 0, 1, 0]);
    pages.advance(11);
    page.get("");
    counted(&pages, [4, 0, 2, 1, 1, 0, 1, 0]);
    pages.advance(11);
    page.get("");
    counted(&pages, [4, 1, 3, 2, 1, 0, 1, 0]);
    page.get("");
    counted(&pages, [4, 1, 4, 3, 1, 0, 2, 0]);
    page.request("POST", "", "x");
    counted(&pages, [4, 1, 4, 3, 1, 1, 2, 0]);
    pages.page(&["Cache-Control: no-store"]).get("");
    counted(&pages, [4, 1, 5, 3, 1, 1, 2, 1]);
}

#[test]
fn a_mishap_of_the_origin_once() {
    let origin = Origin::scripted(|request| match request.target() {
        "/cut" => {
            let head = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 9\n\nshort");
            vec![Script::Send(head), Script::Close]
        }
        "/cut-and-private" => {
            let head = response("HTTP/1.1 200 OK\nCache-Control: private\nContent-Length: 9\n\nshort");
            vec![Script::Send(head), Script::Close]
        }
        _ => vec![Script::Send(b"HTTP/9 what\r\n\r\n".to_vec())],
    });
    let larder = Larder::before(&origin, "");
    for (number, target) in ["/cut", "/cut-and-private", "/cut-and-private", "/bad"].into_iter().enumerate() {
        let it = larder.get(target);
        assert!(!it.complete || it.status == 502, "{it:?}");
        assert_eq!(number as u64 + 1, larder.counter("origin_bad_responses"), "{target}");
    }
}
