//! Conditional requests, RFC 9110 §13: the same answer from the store, from another's fetch, and on the way.

use crate::harness::Pages;

/// Asks a page with `stored` conditionally: when it is stored, and when it is not; both must say `expect`.
#[track_caller]
fn check(pages: &Pages, stored: &str, conditions: &str, expect: u16) {
    let page = pages.page(&[&format!("Cache-Control: max-age=600 | {stored} || body")]);
    let miss = page.get(conditions);
    assert_eq!(expect, miss.status, "miss: {stored} asked with {conditions}");
    assert!(miss.cache().contains("fwd=uri-miss"), "{miss:?}");
    let hit = page.get(conditions);
    assert_eq!(expect, hit.status, "hit: {stored} asked with {conditions}");
    assert!(hit.is_hit(), "{stored} {conditions} {hit:?}");
    let head = page.request("HEAD", conditions, "");
    assert_eq!((expect, true), (head.status, head.is_hit()), "HEAD: {stored} {conditions}");
    assert_eq!(1, page.requests());
    if expect == 200 {
        assert_eq!(("body", "body"), (miss.text().as_str(), hit.text().as_str()));
    } else {
        assert_eq!((0, 0), (miss.body.len(), hit.body.len()));
    }
}

#[test]
fn if_none_match() {
    let pages = Pages::new("");
    check(&pages, "ETag: \"a\"", "If-None-Match: \"a\"", 304);
    check(&pages, "ETag: \"a\"", "If-None-Match: W/\"a\"", 304);
    check(&pages, "ETag: W/\"a\"", "If-None-Match: \"a\"", 304);
    check(&pages, "ETag: W/\"a\"", "If-None-Match: W/\"a\"", 304);
    check(&pages, "ETag: \"a\"", "If-None-Match: \"b\"", 200);
    check(&pages, "ETag: \"a\"", "If-None-Match: \"b\", \"a\"", 304);
    check(&pages, "ETag: \"a\"", "If-None-Match: \"b\" | If-None-Match: \"a\"", 304);
    check(&pages, "ETag: \"a,b\"", "If-None-Match: \"a,b\"", 304);
    check(&pages, "ETag: \"a\"", "If-None-Match: *", 304);
    check(&pages, "ETag: \"a\"", "If-None-Match: a", 200);
    check(&pages, "X: 1", "If-None-Match: *", 304);
    check(&pages, "X: 1", "If-None-Match: \"a\"", 200);
}

#[test]
fn if_modified_since() {
    let pages = Pages::new("");
    check(
        &pages,
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        304,
    );
    check(
        &pages,
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT",
        304,
    );
    check(
        &pages,
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Modified-Since: Sun Nov  6 08:49:38 1994",
        304,
    );
    check(
        &pages,
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
        200,
    );
    check(&pages, "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "If-Modified-Since: nonsense", 200);
    check(&pages, "Date: @-100", "If-Modified-Since: @0", 304);
    check(&pages, "Date: @0", "If-Modified-Since: @-100", 200);
}

#[test]
fn preconditions_that_fail() {
    let pages = Pages::new("");
    check(&pages, "ETag: \"a\"", "If-Match: \"a\"", 200);
    check(&pages, "ETag: \"a\"", "If-Match: \"b\"", 412);
    check(&pages, "ETag: W/\"a\"", "If-Match: W/\"a\"", 412);
    check(&pages, "ETag: \"a\"", "If-Match: *", 200);
    check(&pages, "Last-Modified: @-500", "If-Unmodified-Since: @-400", 200);
    check(&pages, "Last-Modified: @-500", "If-Unmodified-Since: @-600", 412);
}

#[test]
fn precedence() {
    let pages = Pages::new("");
    let both = "ETag: \"a\" | Last-Modified: @-500";
    check(&pages, both, "If-None-Match: \"b\" | If-Modified-Since: @0", 200);
    check(&pages, both, "If-None-Match: \"a\" | If-Modified-Since: @-600", 304);
    check(&pages, both, "If-Match: \"a\" | If-Unmodified-Since: @-600", 200);
    check(&pages, both, "If-Match: \"b\" | If-None-Match: \"a\"", 412);
    check(&pages, both, "If-Match: \"a\" | If-None-Match: \"a\"", 304);
    check(&pages, both, "If-Unmodified-Since: @-600 | If-None-Match: \"a\"", 412);
    check(&pages, both, "If-Unmodified-Since: @0 | If-Modified-Since: @0", 304);
}

#[test]
fn other_statuses_have_no_preconditions() {
    let pages = Pages::new("");
    for status in [301, 404, 410] {
        let page = pages.page(&[&format!("{status} | Cache-Control: max-age=60 | ETag: \"a\"")]);
        for _ in 0..2 {
            assert_eq!(status, page.get("If-None-Match: \"a\"").status);
            assert_eq!(status, page.get("If-Match: \"b\"").status);
        }
        assert_eq!(1, page.requests());
    }
}

#[test]
fn a_304_has_exactly_the_required_fields() {
    let pages = Pages::new("");
    let page =
        pages.page(&[
            "Cache-Control: max-age=60 | ETag: \"a\" | Last-Modified: @-500 | Content-Location: /x \
         | Expires: @+60 | Vary: Foo | Date: @0 | Content-Type: text/html | Content-Language: en | X-App: 1",
        ]);
    page.get("");
    for _ in 0..2 {
        let it = page.get("If-None-Match: \"a\"");
        assert_eq!(304, it.status);
        for name in ["cache-control", "content-location", "date", "etag", "expires", "vary"] {
            assert!(it.field(name).is_some(), "{name} (RFC 9110 §15.4.5) {it:?}");
        }
        for name in ["content-type", "content-length", "content-language"] {
            assert_eq!(None, it.field(name), "{name}");
        }
    }
    let failed = page.get("If-Match: \"b\"");
    assert!(failed.field("date").is_some() && failed.field("etag").is_none(), "{failed:?}");
}

#[test]
fn a_response_that_may_not_be_stored_is_conditional_too() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: no-store | ETag: \"a\" || body"]);
    // The first is asked for everybody, without conditions; the answer is for this client and meets its own.
    assert_eq!(304, page.get("If-None-Match: \"a\"").status);
    assert_eq!(412, pages.page(&["Cache-Control: no-store | ETag: \"a\""]).get("If-Match: \"b\"").status);
    // Known not to be shared: the conditions go to the origin, and its word counts.
    let next = pages.page(&["Cache-Control: no-store", "304 | ETag: \"a\""]);
    next.get("");
    assert_eq!(304, next.get("If-None-Match: \"a\"").status);
    assert_eq!(Some("\"a\""), next.received()[1].field("if-none-match"));
}

#[test]
fn conditions_are_evaluated_against_the_response_of_the_validation() {
    let pages = Pages::new("");
    let stored = "Cache-Control: max-age=10 | ETag: \"a\" || old";
    for (second, conditions, expect) in [
        ("304 | ETag: \"a\"", "If-None-Match: \"a\"", 304),
        ("304 | ETag: \"a\"", "If-None-Match: \"b\"", 200),
        ("Cache-Control: max-age=10 | ETag: \"b\" || new", "If-None-Match: \"a\"", 200),
        ("Cache-Control: max-age=10 | ETag: \"b\" || new", "If-None-Match: \"b\"", 304),
        ("Cache-Control: no-store | ETag: \"b\" || new", "If-None-Match: \"b\"", 304),
        ("404 | ETag: \"b\"", "If-None-Match: \"b\"", 404),
    ] {
        let page = pages.page(&[stored, second]);
        page.get("");
        pages.advance(11);
        assert_eq!(expect, page.get(conditions).status, "{second} {conditions}");
        assert_eq!(
            Some("\"a\""),
            page.received()[1].field("if-none-match"),
            "the stored validator is asked about"
        );
    }
}
