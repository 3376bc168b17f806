//! Validation, RFC 9111 §4.3: the request, and the allowed effects of a 304 or a HEAD response.

use crate::harness::Pages;
use crate::harness::pages::Second::{Hit, Miss, Validates};

#[test]
fn only_the_stored_validators_are_sent() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=10 | ETag: W/\"a\" | Last-Modified: @-100", "304"]);
    page.get("");
    pages.advance(11);
    let client =
        "If-None-Match: \"mine\" | If-Modified-Since: @0 | If-Match: \"mine\" | If-Unmodified-Since: @0";
    let status = page.get(client).status;
    assert_eq!(412, status, "If-Match is evaluated here, against what was validated");
    let asked = &page.received()[1];
    assert_eq!(Some("W/\"a\""), asked.field("if-none-match"));
    assert!(asked.field("if-modified-since").is_some_and(|it| it.ends_with("GMT")));
    assert_eq!((None, None), (asked.field("if-match"), asked.field("if-unmodified-since")));
    assert_eq!(1, asked.head.to_lowercase().matches("if-none-match").count());
}

/// Nobody asked for a range; but it is a full response, as any other error of the client's, and answers the request (RFC 9111
/// §4.3.3). It is kept by nobody, and what is stored stays.
#[test]
fn a_416_that_answers_no_range_is_passed_on() {
    let pages = Pages::new("");
    let stored = "Cache-Control: max-age=10 | ETag: \"a\" || body";
    let page =
        pages.page(&[stored, "416 | Cache-Control: max-age=60 | Content-Range: bytes */4 || no", "304"]);
    page.get("");
    pages.advance(11);
    let it = page.get("");
    assert_eq!((416, "no"), (it.status, it.text().as_str()));
    let it = page.get("");
    assert_eq!((200, "body"), (it.status, it.text().as_str()));
    assert!(page.received()[2].field("if-none-match").is_some());
}

#[test]
fn a_304_freshens_every_field_it_may() {
    let pages = Pages::new("");
    let page = pages.page(&[
        "Cache-Control: max-age=10 | ETag: \"a\" | X-Old: 1 | X-Both: old | X-Twice: 1 | X-Twice: 2 \
         | Content-Type: text/plain | Content-Language: en || body",
        "304 | ETag: \"a\" | Cache-Control: max-age=100 | X-Both: new | X-New: 1 | X-Twice: 3 | Content-Type: text/html \
         | Content-Encoding: gzip | Content-Length: 99 | Content-Range: bytes 0-1/2 | Content-Language: de \
         | Connection: X-Hop | X-Hop: 1 | Date: @0",
    ]);
    page.get("");
    pages.advance(11);
    for (request, response) in ["validated", "hit"].map(|it| (it, page.get(""))) {
        assert_eq!((200, "body"), (response.status, response.text().as_str()), "{request}");
        let field = |name| response.field(name);
        assert_eq!((Some("1"), Some("new"), Some("1")), (field("x-old"), field("x-both"), field("x-new")));
        assert_eq!(1, response.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("x-twice")).count());
        assert_eq!((Some("3"), Some("max-age=100")), (field("x-twice"), field("cache-control")));
        assert_eq!(
            (Some("text/plain"), Some("4"), None),
            (field("content-type"), field("content-length"), field("content-encoding"))
        );
        assert_eq!(
            (None, None, Some("de")),
            (field("content-range"), field("x-hop"), field("content-language"))
        );
        assert!(field("via").is_some_and(|it| it.matches("larder").count() == 1), "{response:?}");
    }
    assert_eq!(2, page.requests());
    assert_eq!(1, pages.larder.counter("cache_validated"));
}

#[test]
fn a_304_that_brings_a_via_does_not_take_ours() {
    let pages = Pages::new("");
    let page = pages
        .page(&["Cache-Control: max-age=10 | ETag: \"a\" | Via: 1.1 x", "304 | ETag: \"a\" | Via: 1.1 y"]);
    page.get("");
    pages.advance(11);
    assert_eq!(Some("1.1 y, 1.1 larder"), page.get("").field("via"));
}

#[test]
fn age_starts_again_at_the_304() {
    let pages = Pages::new("");
    let page =
        pages.page(&["Cache-Control: max-age=10 | ETag: \"a\" | Age: 3", "304 | ETag: \"a\" | Age: 5"]);
    page.get("");
    pages.advance(20);
    let age: u32 = page.get("").field("age").unwrap().parse().unwrap();
    assert!((5..=6).contains(&age), "{age}");
    assert!(page.get("").is_hit());
    pages.advance(6);
    assert_eq!(Validates, page.get_again(""));
}

#[test]
fn a_304_for_another_response_is_followed_by_a_full_request() {
    let pages = Pages::new("");
    let again = "Cache-Control: max-age=10 | ETag: \"b\" || second";
    for other in ["304 | ETag: \"b\"", "304 | ETag: \"x\"", "304 | Last-Modified: @-5"] {
        for lines in ["", "Authorization: x"] {
            let first = "Cache-Control: public, max-age=10 | ETag: \"a\" | Last-Modified: @-1000 || first";
            let page = pages.page(&[first, other, again]);
            page.get("");
            pages.advance(11);
            let got = page.get(lines);
            assert_eq!((200, "second"), (got.status, got.text().as_str()), "{other} {lines}");
            assert_eq!(None, page.received()[2].field("if-none-match"));
        }
    }
}

#[test]
fn a_304_that_forbids_storing_answers_once_more_and_no_longer() {
    let pages = Pages::new("");
    for forbids in ["Cache-Control: no-store", "Cache-Control: private", "Vary: *"] {
        for lines in ["", "Authorization: x", "Cache-Control: no-store"] {
            let first = "Cache-Control: public, max-age=10 | ETag: \"a\" || body";
            let page = pages.page(&[first, &format!("304 | ETag: \"a\" | {forbids}"), first]);
            page.get("");
            pages.advance(11);
            let got = page.get(lines);
            assert_eq!((200, "body"), (got.status, got.text().as_str()), "{forbids} {lines}");
            assert_eq!(Miss, page.get_again(""), "{forbids} {lines}: forgotten");
        }
    }
}

#[test]
fn a_304_for_one_client_leaves_the_stored_response() {
    let pages = Pages::new("");
    for lines in ["Authorization: x", "Cache-Control: no-store"] {
        let second = "304 | ETag: \"a\" | Cache-Control: max-age=100 | X-For: you";
        let page = pages.page(&["Cache-Control: public, max-age=10 | ETag: \"a\" || body", second]);
        page.get("");
        pages.advance(11);
        assert_eq!(Some("you"), page.get(lines).field("x-for"), "{lines}");
        assert_eq!(Validates, page.get_again(""), "{lines}: still stale");
    }
}

/// Its other fields may be those of one client as well: a page with a cookie would not be stored either.
#[test]
fn a_304_with_a_cookie_leaves_the_stored_response() {
    let pages = Pages::new("");
    let own = "304 | Cache-Control: max-age=60 | Set-Cookie: id=1 | X-User: alice";
    let page = pages.page(&["Cache-Control: max-age=10 | ETag: \"a\" | X-User: none || body", own, "304"]);
    page.get("");
    pages.advance(11);
    let it = page.get("");
    assert_eq!(
        (Some("id=1"), Some("alice"), "body"),
        (it.field("set-cookie"), it.field("x-user"), &*it.text())
    );
    let it = page.get("");
    assert_eq!((None, Some("none"), "body"), (it.field("set-cookie"), it.field("x-user"), &*it.text()));
    assert_eq!(3, page.received().len(), "it was validated again");
    assert!(page.get("").is_hit(), "by a 304 without a cookie");
}

#[test]
fn a_full_response_replaces() {
    let pages = Pages::new("");
    let page = pages.page(&[
        "Cache-Control: max-age=10 | ETag: \"a\" | X-Old: 1 || first",
        "Cache-Control: max-age=10 | ETag: \"b\" || second",
    ]);
    page.get("");
    pages.advance(11);
    let got = page.get("");
    assert_eq!(("second", None), (got.text().as_str(), got.field("x-old")));
    assert_eq!("second", page.get("").text());
    assert_eq!(2, page.requests());
}

#[test]
fn a_head_response_freshens_the_stored_response() {
    let pages = Pages::new("");
    let first = "Cache-Control: max-age=10 | ETag: \"a\" | Last-Modified: @-5000 | X: old || body";
    let page =
        pages.page(&[first, "Cache-Control: max-age=100 | ETag: \"a\" | X: new | Content-Length: 4 || body"]);
    page.get("");
    pages.advance(11);
    let head = page.request("HEAD", "", "");
    assert_eq!((200, Some("4"), Some("new")), (head.status, head.field("content-length"), head.field("x")));
    let hit = page.get("");
    assert!(hit.is_hit(), "{hit:?}");
    assert_eq!((Some("new"), "body"), (hit.field("x"), hit.text().as_str()));
}

#[test]
fn head_that_differs_makes_stale() {
    let pages = Pages::new("");
    for differs in [
        "ETag: \"b\" | Content-Length: 4",
        "ETag: \"a\" | Content-Length: 5",
        "Last-Modified: @-1 | Content-Length: 4",
    ] {
        let first = "Cache-Control: max-age=600 | ETag: \"a\" | Last-Modified: @-5000 || body";
        let page = pages.page(&[first, &format!("{differs} || body"), "Cache-Control: max-age=600 || other"]);
        page.get("");
        page.request("HEAD", "Cache-Control: no-cache", "");
        assert_ne!(Hit, page.get_again(""), "{differs}");
        assert_eq!("other", page.get("").text());
    }
}

#[test]
fn a_head_miss_is_a_head_and_is_not_stored() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60 | Content-Length: 8 || answer 1"]);
    let head = page.request("HEAD", "", "");
    assert_eq!((200, Some("8")), (head.status, head.field("content-length")));
    assert!(page.received()[0].line().starts_with("HEAD "));
    assert_eq!(Miss, page.get_again(""));
    assert_eq!(Hit, page.get_again(""));
    let head = page.request("HEAD", "", "");
    assert!(head.is_hit());
    assert_eq!(Some("8"), head.field("content-length"));
}

#[test]
fn a_head_request_is_answered_by_a_304_of_the_origin() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=10 | ETag: \"a\" || body", "304 | ETag: \"a\""]);
    page.get("");
    pages.advance(11);
    let head = page.request("HEAD", "", "");
    assert_eq!((200, Some("4"), 0), (head.status, head.field("content-length"), head.body.len()));
    assert!(page.get("").is_hit());
}
