//! Stale responses: when they are served, and when never. RFC 9111 §4.2.4, RFC 5861.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::pages::Second::{Hit, Miss, Stale, Validates};
use crate::harness::{Larder, Origin, Pages, Response, until};

/// Stores `first`, lets it go stale by `seconds`, then the origin does `second`.
#[track_caller]
fn then(pages: &Pages, first: &str, seconds: i64, second: &str, lines: &str) -> Response {
    let page = pages.page(&[&format!("{first} || old"), second]);
    page.get("");
    pages.advance(10 + seconds);
    page.get(lines)
}

#[test]
fn an_origin_in_trouble_is_stood_in_for() {
    let pages = Pages::new("");
    for trouble in ["close", "garbage", "500", "502", "503", "504", "599", "503 | Cache-Control: max-age=60"]
    {
        for validator in ["ETag: \"a\"", "X: 1"] {
            // Without a validator a response is kept for its own stale-if-error, or while fresh.
            let first = format!("Cache-Control: max-age=10 | {validator}");
            let it = then(&pages, &first, 5, trouble, "");
            assert_eq!((200, "old"), (it.status, it.text().as_str()), "{trouble} {validator}");
            let age: u32 = it.field("age").unwrap().parse().unwrap();
            assert!((15..=17).contains(&age), "{age}");
            assert!(it.cache().contains("fwd=stale") && !it.is_hit(), "{it:?}");
        }
    }
    // A part of what nobody had asked a part of.
    let part = "206 | Content-Range: bytes 0-3/100 || part";
    let it = then(&pages, "Cache-Control: max-age=10 | ETag: \"a\"", 5, part, "");
    assert_eq!((200, "old"), (it.status, it.text().as_str()));
    for answer in ["400", "403", "404", "410"] {
        let it = then(&pages, "Cache-Control: max-age=10 | ETag: \"a\"", 5, answer, "");
        assert_eq!(answer, it.status.to_string(), "an answer is an answer");
    }
}

#[test]
fn not_for_ever() {
    let pages = Pages::new("stale_if_error = \"100s\"");
    let first = "Cache-Control: max-age=10 | ETag: \"a\"";
    assert_eq!(200, then(&pages, first, 90, "503", "").status);
    assert_eq!(503, then(&pages, first, 110, "503", "").status);
    let none = then(&pages, first, 110, "close", "");
    assert_eq!((502, "larder; fwd=stale"), (none.status, none.cache()));
    // The response's own word goes before the route's.
    let longer = "Cache-Control: max-age=10, stale-if-error=1000 | ETag: \"a\"";
    assert_eq!(200, then(&pages, longer, 900, "503", "").status);
    let shorter = "Cache-Control: max-age=10, stale-if-error=20 | ETag: \"a\"";
    assert_eq!(503, then(&pages, shorter, 30, "503", "").status);
    assert_eq!(503, then(&pages, first, 50, "503", "Cache-Control: stale-if-error=20").status);
}

#[test]
fn stale_if_error_is_off_by_default_if_the_route_sets_zero() {
    let pages = Pages::new("stale_if_error = \"0s\"");
    assert_eq!(503, then(&pages, "Cache-Control: max-age=10 | ETag: \"a\"", 5, "503", "").status);
    let own = "Cache-Control: max-age=10, stale-if-error=60 | ETag: \"a\"";
    assert_eq!(200, then(&pages, own, 5, "503", "").status);
    assert_eq!(200, then(&pages, own, 5, "close", "").status);
}

#[test]
fn never_where_it_is_forbidden() {
    let pages = Pages::new("stale_while_revalidate = \"1h\"");
    for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=10", "no-cache"] {
        let first = format!("Cache-Control: max-age=10, stale-if-error=600, {forbids} | ETag: \"a\"");
        assert_eq!(503, then(&pages, &first, 5, "503", "").status, "{forbids}");
        assert_eq!(502, then(&pages, &first, 5, "close", "").status, "{forbids}");
        let page = pages.page(&[&first]);
        page.get("");
        pages.advance(15);
        assert_eq!(Validates, page.get_again("Cache-Control: max-stale=1000"), "{forbids}");
    }
}

#[test]
fn while_revalidating_one_asks_in_the_background() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let text = format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=10, stale-while-revalidate=60\n\nanswer {}",
            request.number
        );
        match request.number {
            0 => vec![Script::Send(response(&text))],
            _ => vec![Script::Gate(held.clone()), Script::Send(response(&text))],
        }
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(15);
    for _ in 0..20 {
        let it = larder.get("/");
        assert_eq!("answer 0", it.text());
        assert!(it.is_hit() && it.cache().contains("ttl=-"), "{it:?}");
    }
    until("the background asks", || gate.waiting() == 1);
    assert_eq!((2, 1), (origin.requests(), larder.counter("background_validations")));
    gate.open();
    until("the new one is stored", || larder.get("/").text() == "answer 1");
    assert_eq!(2, origin.requests());
}

#[test]
fn while_revalidating_has_an_end() {
    let pages = Pages::new("");
    let check = |seconds, expect| {
        let first = "Cache-Control: max-age=10, stale-while-revalidate=60 | ETag: \"a\"";
        assert_eq!(expect, pages.second(first, seconds, ""), "after {seconds}");
    };
    check(5, Hit);
    check(15, Stale);
    check(65, Stale);
    check(75, Validates);
    let route = Pages::new("stale_while_revalidate = \"60s\"");
    assert_eq!(Stale, route.second("Cache-Control: max-age=10", 30, ""));
    assert_eq!(Miss, route.second("Cache-Control: max-age=10", 75, ""));
}

#[test]
fn a_background_validation_always_ends() {
    // Its answer is large and may not be kept: nobody reads it.
    let large = "x".repeat(1_000_000);
    let origin = Origin::new(move |request| match request.number {
        0 => "HTTP/1.1 200 OK\nCache-Control: max-age=10, stale-while-revalidate=600\n\nfirst".to_owned(),
        1 => format!("HTTP/1.1 200 OK\nCache-Control: private\n\n{large}"),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=10\n\nlast".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(15);
    assert_eq!("first", larder.get("/").text());
    until("the background asked", || origin.requests() == 2);
    // If it did not end, nobody else could ask.
    until("another asks", || larder.get("/").text() == "last");
}

#[test]
fn a_background_validation_with_304_and_with_trouble() {
    for (second, expect) in [("304 | ETag: \"a\" | Cache-Control: max-age=100", "old"), ("503", "old")] {
        let pages = Pages::new("");
        let page = pages
            .page(&["Cache-Control: max-age=10, stale-while-revalidate=600 | ETag: \"a\" || old", second]);
        page.get("");
        pages.advance(15);
        let it = page.get("Range: bytes=0-1 | If-Range: \"a\"");
        assert_eq!("ol", it.text());
        until("the background asked", || page.requests() == 2);
        let sent = &page.received()[1];
        assert_eq!(
            (Some("\"a\""), None, None),
            (sent.field("if-none-match"), sent.field("range"), sent.field("if-range"))
        );
        assert_eq!(expect, page.ask_unexplained("GET", "", "").text());
        if second.starts_with("304") {
            until("it is fresh again", || {
                page.ask_unexplained("GET", "", "").cache().contains("hit; ttl=1")
                    || page.ask_unexplained("GET", "", "").cache().contains("hit; ttl=9")
            });
            assert_eq!(2, page.requests());
        }
    }
}

#[test]
fn an_error_never_replaces_a_usable_response() {
    let pages = Pages::new("status_ttl = { 503 = \"60s\" }");
    let page = pages.page(&[
        "Cache-Control: max-age=10 | ETag: \"a\" || old",
        "503 || sorry",
        "Cache-Control: max-age=10 | ETag: \"b\" || new",
    ]);
    page.get("");
    pages.advance(15);
    assert_eq!("old", page.get("").text());
    assert_eq!("new", page.get("").text(), "and the origin is asked again");
}

#[test]
fn an_origin_that_is_silent_is_stood_in_for() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"a\"\n\nold"))],
        _ => vec![Script::Gate(held.clone())],
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         proxy = {{ to = [\"{}\"], first_byte_timeout = \"2s\" }}\n",
        origin.url()
    ));
    larder.get("/");
    larder.advance(15);
    for lines in ["", "Authorization: x\r\n", "Range: bytes=0-2\r\n"] {
        let it = larder.client().get_with("/", lines);
        assert_eq!("old", it.text(), "{lines}");
        assert!(it.cache().contains("fwd=stale") && !it.cache().contains("fwd-status"), "{it:?}");
    }
    assert_eq!(504, larder.get("/nothing").status);
    assert_eq!(4, larder.counter("origin_timeouts"));
    gate.open();
}

#[test]
fn a_truncated_body_does_not_replace_a_usable_response() {
    let origin = Origin::scripted(|request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"a\"\n\nold"))],
        1 => {
            let head = "HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"b\"\nContent-Length: 9\n\nne";
            vec![Script::Send(response(head)), Script::Close]
        }
        _ => vec![Script::Close],
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(15);
    assert!(!larder.get("/").complete);
    let it = larder.get("/");
    assert_eq!(("old", Some("\"a\"")), (it.text().as_str(), it.field("etag")));
}
