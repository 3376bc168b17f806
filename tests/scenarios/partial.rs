//! Partial responses, RFC 9111 §3.3, §3.4 and RFC 9110 §14: stored, served in parts, completed, combined, `If-Range`.

use crate::harness::Pages;
use crate::harness::Response;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Larder, Origin, until};

/// The representation: byte N is the letter of N.
const BODY: &str = "abcdefghijklmnopqrst";

/// An origin's response to a request for `first` to `last`.
fn part(first: usize, last: usize, more: &str) -> String {
    let body = &BODY[first..=last];
    format!("206 | Cache-Control: max-age=600 | Content-Range: bytes {first}-{last}/20 | {more} || {body}")
}

fn whole(more: &str) -> String {
    format!("Cache-Control: max-age=600 | {more} || {BODY}")
}

#[track_caller]
fn is_part(response: &Response, first: usize, last: usize) {
    let range = format!("bytes {first}-{last}/20");
    assert_eq!(
        (206, Some(range.as_str())),
        (response.status, response.field("content-range")),
        "{response:?}"
    );
    assert_eq!(BODY[first..=last], response.text());
    assert_eq!(Some((last - first + 1).to_string().as_str()), response.field("content-length"));
}

#[test]
fn ranges_of_a_whole_stored_response() {
    let pages = Pages::new("");
    let page = pages.page(&[&whole("ETag: \"a\"")]);
    page.get("");
    is_part(&page.get("Range: bytes=0-4"), 0, 4);
    is_part(&page.get("Range: bytes=15-"), 15, 19);
    is_part(&page.get("Range: bytes=-5"), 15, 19);
    is_part(&page.get("Range: bytes=15-99"), 15, 19);
    is_part(&page.get("Range: BYTES=1-1"), 1, 1);
    for ignored in ["bytes=4-3", "lines=1-2", "bytes", "bytes=", "bytes=a-b", "bytes=-"] {
        let it = page.get(&format!("Range: {ignored}"));
        assert_eq!((200, BODY), (it.status, it.text().as_str()), "{ignored}");
    }
    let none = page.get("Range: bytes=20-");
    assert_eq!((416, Some("bytes */20")), (none.status, none.field("content-range")));
    assert_eq!(
        (None, None),
        (none.field("cache-control"), none.field("etag")),
        "not stored by caches after us"
    );
    let head = page.request("HEAD", "Range: bytes=0-4", "");
    assert_eq!((200, Some("20")), (head.status, head.field("content-length")));
    assert_eq!(1, page.requests());
}

#[test]
fn if_range_is_compared_with_the_stored_validators() {
    let pages = Pages::new("");
    let check = |stored: &str, if_range: &str, applies: bool| {
        let page = pages.page(&[&whole(stored)]);
        page.get("");
        let it = page.get(&format!("Range: bytes=2-4 | If-Range: {if_range}"));
        assert_eq!((if applies { 206 } else { 200 }, true), (it.status, it.is_hit()), "{stored} {if_range}");
        assert_eq!(if applies { "cde" } else { BODY }, it.text());
    };
    check("ETag: \"a\"", "\"a\"", true);
    check("ETag: \"a\"", "\"b\"", false);
    check("ETag: \"a\"", "W/\"a\"", false);
    check("ETag: W/\"a\"", "W/\"a\"", false);
    check("ETag: W/\"a\"", "\"a\"", false);
    check("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT | Date: @0", "Sun, 06 Nov 1994 08:49:37 GMT", true);
    check("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT | Date: @0", "Sun, 06 Nov 1994 08:49:38 GMT", false);
    check("X: 1", "\"a\"", false);
}

#[test]
fn a_part_is_stored_and_answers_for_its_bytes() {
    let pages = Pages::new("");
    for validator in ["ETag: \"a\"", "ETag: W/\"a\"", "Last-Modified: @-5000", "X: none"] {
        let page = pages.page(&[&part(5, 14, validator), &whole(validator)]);
        is_part(&page.get("Range: bytes=5-14"), 5, 14);
        assert_eq!(Some("bytes=5-14"), page.received()[0].field("range"));
        for (range, first, last) in
            [("5-14", 5, 14), ("5-9", 5, 9), ("7-8", 7, 8), ("14-14", 14, 14), ("-15", 5, 19)]
        {
            if last > 14 {
                continue;
            }
            let it = page.get(&format!("Range: bytes={range}"));
            assert!(it.is_hit(), "{validator} {range} {it:?}");
            is_part(&it, first, last);
        }
        assert_eq!(1, page.requests());
        // Neither the whole nor bytes outside of it.
        let it = page.get("");
        assert_eq!((200, BODY), (it.status, it.text().as_str()), "{validator}");
        assert_eq!(2, page.requests());
        assert!(page.get("Range: bytes=0-19").is_hit(), "the whole took its place");
    }
}

#[test]
fn bytes_outside_a_part_are_asked_for() {
    let pages = Pages::new("");
    for range in ["0-4", "4-5", "14-15", "5-", "-5", "0-1,6-7"] {
        let page = pages.page(&[&part(5, 14, "ETag: \"a\""), "416 | Content-Range: bytes */20"]);
        page.get("Range: bytes=5-14");
        let it = page.get(&format!("Range: bytes={range}"));
        assert!(it.cache().contains("fwd=partial"), "{range} {it:?}");
        assert_eq!(Some(format!("bytes={range}").as_str()), page.received()[1].field("range"));
    }
}

#[test]
fn parts_are_combined() {
    let pages = Pages::new("");
    let tag = "ETag: \"a\"";
    let page = pages.page(&[&part(0, 4, tag), &part(5, 9, tag), &part(8, 19, tag)]);
    page.get("Range: bytes=0-4");
    is_part(&page.get("Range: bytes=5-9"), 5, 9);
    let it = page.get("Range: bytes=3-7");
    assert!(it.is_hit(), "{it:?}");
    is_part(&it, 3, 7);
    is_part(&page.get("Range: bytes=8-19"), 8, 19);
    let it = page.get("");
    assert_eq!((200, BODY, None), (it.status, it.text().as_str(), it.field("content-range")));
    assert!(it.is_hit(), "the last byte made it whole: {it:?}");
    assert_eq!(3, page.requests());
}

#[test]
fn parts_of_different_representations_are_not() {
    let pages = Pages::new("");
    for (a, b) in [("ETag: \"a\"", "ETag: \"b\""), ("ETag: W/\"a\"", "ETag: W/\"a\""), ("X: 1", "X: 1")] {
        let page = pages.page(&[&part(0, 4, a), &part(5, 9, b), &part(0, 4, a)]);
        page.get("Range: bytes=0-4");
        page.get("Range: bytes=5-9");
        assert!(page.get("Range: bytes=5-9").is_hit(), "the newer is there: {a} {b}");
        assert!(!page.get("Range: bytes=3-7").is_hit(), "{a} {b}");
    }
}

#[test]
fn a_request_for_the_whole_completes_a_part() {
    let pages = Pages::new("");
    for (held, rest, asked) in [((0, 4), (5, 19), "bytes=5-"), ((12, 19), (0, 11), "bytes=0-11")] {
        for lines in ["", "If-None-Match: \"x\"", "Accept: a"] {
            let tag = "ETag: \"a\"";
            let page =
                pages.page(&[&part(held.0, held.1, tag), &part(rest.0, rest.1, "ETag: \"a\" | X-New: 1")]);
            page.get(&format!("Range: bytes={}-{}", held.0, held.1));
            let it = page.get(lines);
            assert_eq!(
                (200, BODY, Some("20")),
                (it.status, it.text().as_str(), it.field("content-length")),
                "{it:?}"
            );
            assert_eq!((None, Some("1")), (it.field("content-range"), it.field("x-new")));
            let sent = &page.received()[1];
            assert_eq!((Some(asked), Some("\"a\"")), (sent.field("range"), sent.field("if-range")));
            assert!(it.cache().contains("fwd=partial; fwd-status=206; stored"), "{it:?}");
            let hit = page.get("");
            assert!(hit.is_hit() && hit.text() == BODY, "{hit:?}");
            assert_eq!(2, page.requests());
        }
    }
}

#[test]
fn a_completion_that_does_not_fit_is_asked_whole() {
    let pages = Pages::new("");
    let tag = "ETag: \"a\"";
    let wrong_length =
        "206 | Cache-Control: max-age=600 | Content-Range: bytes 5-19/20 | ETag: \"a\" || short";
    for rest in [
        &part(5, 19, "ETag: \"b\""),
        &part(6, 19, tag),
        &part(4, 19, tag),
        &part(5, 18, tag),
        &part(5, 19, "ETag: \"a\" | Cache-Control: no-store"),
        "416 | Content-Range: bytes */20",
        wrong_length,
    ] {
        let page = pages.page(&[&part(0, 4, tag), rest, &whole("ETag: \"c\"")]);
        page.get("Range: bytes=0-4");
        let it = page.get("");
        assert_eq!((200, BODY, Some("\"c\"")), (it.status, it.text().as_str(), it.field("etag")), "{rest}");
        assert_eq!((3, None), (page.requests(), page.received()[2].field("range")), "{rest}");
    }
    // The representation changed: If-Range brings the new one at once.
    let page = pages.page(&[&part(0, 4, tag), &whole("ETag: \"b\"")]);
    page.get("Range: bytes=0-4");
    assert_eq!(Some("\"b\""), page.get("").field("etag"));
    assert_eq!(2, page.requests());
}

#[test]
fn a_part_that_cannot_be_completed_is_fetched_whole_at_once() {
    let pages = Pages::new("");
    for (first, last, validator) in [(0, 4, "ETag: W/\"a\""), (0, 4, "X: 1"), (5, 14, "ETag: \"a\"")] {
        let page = pages.page(&[&part(first, last, validator), &whole(validator)]);
        page.get(&format!("Range: bytes={first}-{last}"));
        assert_eq!(BODY, page.get("").text());
        let sent = &page.received()[1];
        assert_eq!((None, None), (sent.field("range"), sent.field("if-range")), "{validator}");
    }
}

#[test]
fn a_malformed_or_unrequested_part_is_not_stored() {
    let pages = Pages::new("");
    let fresh = "206 | Cache-Control: max-age=600";
    for bad in [
        format!("{fresh} || abcde"),
        format!("{fresh} | Content-Range: bytes */20 || abcde"),
        format!("{fresh} | Content-Range: bytes 4-0/20 || abcde"),
        format!("{fresh} | Content-Range: bytes 0-20/20 || abcde"),
        format!("{fresh} | Content-Range: bytes 0-4/20 | Content-Range: bytes 0-4/20 || abcde"),
        format!("{fresh} | Content-Type: multipart/byteranges; boundary=x || abcde"),
    ] {
        let page = pages.page(&[&bad]);
        page.get("Range: bytes=0-4");
        assert!(!page.get("Range: bytes=0-4").is_hit(), "{bad}");
    }
    // One that says more than it brings.
    let page = pages.page(&[&format!("{fresh} | Content-Range: bytes 0-9/20 | ETag: \"a\" || abcde")]);
    page.get("Range: bytes=0-9");
    let it = page.get("Range: bytes=7-8");
    assert!(!it.is_hit(), "{it:?}");
    // Not asked for.
    let page = pages.page(&[&part(0, 4, "ETag: \"a\"")]);
    page.get("");
    assert!(!page.get("Range: bytes=0-4").is_hit());
}

#[test]
fn a_stale_part_is_validated() {
    let pages = Pages::new("");
    let page = pages.page(&[&part(0, 9, "ETag: \"a\""), "304 | ETag: \"a\" | Cache-Control: max-age=600"]);
    page.get("Range: bytes=0-9");
    pages.advance(601);
    let it = page.get("Range: bytes=2-3");
    is_part(&it, 2, 3);
    let sent = &page.received()[1];
    assert_eq!((Some("\"a\""), None), (sent.field("if-none-match"), sent.field("range")));
    assert!(page.get("Range: bytes=0-9").is_hit());
    assert_eq!(2, page.requests());
}

#[test]
fn a_range_after_a_failed_validation_is_taken_from_the_new_response() {
    let pages = Pages::new("");
    for new in [whole("ETag: \"b\""), whole("ETag: \"b\" | Set-Cookie: id=1")] {
        let page = pages.page(&[&whole("ETag: \"a\""), &new]);
        page.get("");
        pages.advance(601);
        is_part(&page.get("Range: bytes=2-5"), 2, 5);
        assert_eq!(None, page.received()[1].field("range"), "the stored validators are asked about");
    }
}

#[test]
fn a_part_does_not_take_the_place_of_a_fresh_whole() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.field("range") {
        Some(_) => vec![
            Script::Gate(held.clone()),
            Script::Send(response(
                "HTTP/1.1 206 P\nCache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 0-2/6\n\nabc",
            )),
        ],
        None => {
            vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\nabcdef"))]
        }
    });
    let larder = Larder::before(&origin, "");
    let mut ranged = larder.client();
    ranged.send("GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-2\r\n\r\n");
    until("the part is on its way", || gate.waiting() == 1);
    assert_eq!("abcdef", larder.get("/").text());
    gate.open();
    assert_eq!("abc", ranged.read().text());
    let whole = larder.get("/");
    assert!(whole.is_hit() && whole.text() == "abcdef", "{whole:?}");
}

#[test]
fn an_origin_that_ignores_ranges_is_helped() {
    let pages = Pages::new("");
    let page = pages.page(&[&whole("ETag: \"a\"")]);
    is_part(&page.get("Range: bytes=2-5"), 2, 5);
    assert_eq!(Some("bytes=2-5"), page.received()[0].field("range"));
    assert_eq!(BODY, page.get("").text());
    assert_eq!(1, page.requests());
}

#[test]
fn a_304_to_the_rest_of_a_part_is_asked_again_whole() {
    let pages = Pages::new("");
    let page = pages.page(&[&part(0, 9, "ETag: \"a\""), "304 | ETag: \"a\"", &whole("ETag: \"a\"")]);
    page.get("Range: bytes=0-9");
    let it = page.get("");
    assert_eq!((200, BODY), (it.status, it.text().as_str()), "{it:?}");
    let sent = page.received();
    assert_eq!((Some("bytes=10-"), Some("\"a\"")), (sent[1].field("range"), sent[1].field("if-range")));
    assert_eq!((None, None), (sent[2].field("range"), sent[2].field("if-range")));
    assert!(page.get("").is_hit());
    assert_eq!(3, page.requests());
}
