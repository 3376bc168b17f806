//! Invalidation by unsafe and unknown methods, RFC 9111 §4.4, and POST responses that may be kept, RFC 9110 §9.3.3.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::pages::Second::{Hit, Miss};
use crate::harness::tiers::{disk, written};
use crate::harness::{Larder, Origin, Pages, until};

const FRESH: &str = "Cache-Control: max-age=600";

#[test]
fn by_every_unsafe_and_unknown_method() {
    let pages = Pages::new("");
    for method in ["POST", "PUT", "DELETE", "PATCH", "PROPPATCH", "M-SEARCH", "FOO", "BREW"] {
        for status in ["200", "201", "204", "302", "303"] {
            let page = pages.page(&[FRESH, status, FRESH]);
            page.get("");
            page.request(method, "", "x");
            assert_eq!(Miss, page.get_again(""), "{method} {status}");
        }
        for status in ["400", "404", "412", "500", "503"] {
            let page = pages.page(&[FRESH, status, FRESH]);
            page.get("");
            page.request(method, "", "x");
            assert_eq!(Hit, page.get_again(""), "{method} {status}: nothing was done");
        }
    }
    for method in ["OPTIONS", "HEAD"] {
        let page = pages.page(&[FRESH, "200"]);
        page.get("");
        page.ask_unexplained(method, "", "");
        assert_eq!(Hit, page.get_again(""), "{method} is safe");
    }
    assert!(pages.larder.counter("cache_invalidations") >= 40);
}

/// A route for the method may have other keys and tiers than the route of the page.
#[test]
fn by_an_unsafe_method_of_another_route() {
    let origin = Origin::new(|_| format!("HTTP/1.1 200 OK\n{FRESH}\n\nx"));
    let url = origin.url();
    let pages = [
        "key = { headers = [\"X-Device\"] }",
        "key = { cookies = [\"currency\"] }",
        "key = { query = \"none\" }",
        "key = { ignore_host = true }",
        "key = { accept = [\"text/html\", \"application/json\"] }",
        "",
    ];
    for cache in pages {
        let folder = tempfile::tempdir().unwrap();
        let route = |methods: &str, cache: &str| {
            format!(
                "[[site.route]]\nmethods = [{methods}]\nproxy = {{ to = [\"{url}\"] }}\ncache = {{ {cache} }}\n"
            )
        };
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n{}[[site]]\nhosts = [\"*\"]\n{}{}",
            disk(folder.path()),
            route("\"GET\"", cache),
            route("\"POST\"", "tiers = [\"ram\"]"),
        ));
        let lines = "X-Device: phone\r\nCookie: currency=EUR\r\nAccept: text/html\r\n";
        let get = || larder.client().get_with("/page?a=1", lines);
        get();
        assert!(get().is_hit(), "{cache}");
        written(&larder, 1);
        let post = larder.client().request("POST", "/page?a=1", &format!("{lines}Content-Length: 0\r\n"), "");
        assert_eq!(200, post.status, "{cache}: {post:?}");
        assert!(!get().is_hit(), "{cache}");
    }
}

#[test]
fn unsafe_methods_invalidate_location_and_content_location_of_the_same_origin() {
    let pages = Pages::new("");
    let check = |field: &str, reference: fn(&str) -> String, expect| {
        for method in ["POST", "PUT", "DELETE", "FOO"] {
            let other = pages.page(&[FRESH]);
            let page = pages.page(&[&format!("201 | {field}: {}", reference(&other.target))]);
            other.get("");
            page.request(method, "", "x");
            assert_eq!(expect, other.get_again(""), "{method} {field}: {}", reference(&other.target));
        }
    };
    for field in ["Location", "Content-Location"] {
        check(field, |it| it.to_owned(), Miss);
        check(field, |it| format!("http://h{it}"), Miss);
        check(field, |it| format!("http://H:80{it}"), Miss);
        check(field, |it| format!("//h{it}"), Miss);
        check(field, |it| it[1..].to_owned(), Miss);
        check(field, |it| format!("{it}#fragment"), Miss);
        check(field, |it| format!("/a/..{it}"), Miss);
        check(field, |it| format!("http://other{it}"), Hit);
        check(field, |it| format!("http://h:81{it}"), Hit);
        check(field, |it| format!("https://h{it}"), Hit);
        check(field, |it| format!("http://user@h{it}"), Hit);
        check(field, |it| format!("{it}?x=1"), Hit);
    }
}

#[test]
fn references_are_spelled_as_requests_are() {
    let origin = Origin::new(|it| match it.line().split(' ').next() {
        Some("GET") => format!("HTTP/1.1 200 OK\n{FRESH}\n\n{}", it.target()),
        _ => format!("HTTP/1.1 201 Created\nLocation: {}\n\n", it.field("x-location").unwrap_or("/")),
    });
    let larder = Larder::before(&origin, "");
    for (reference, page) in [
        ("/list?f[x]=1", "/list?f[x]=1"),
        ("/a|b", "/a|b"),
        ("http://h/c|d", "/c|d"),
        ("//h/e|f", "/e|f"),
        ("../g|h", "/g|h"),
        ("?x=[1]", "/at/this?x=[1]"),
        ("/i%7Cj", "/i%7Cj"),
    ] {
        larder.get(page);
        assert!(larder.get(page).is_hit(), "{page}");
        larder.client().request("POST", "/at/this", &format!("X-Location: {reference}\r\n"), "x");
        assert!(!larder.get(page).is_hit(), "{reference}");
    }
}

#[test]
fn every_variant_goes() {
    let pages = Pages::new("");
    let vary = "Cache-Control: max-age=600 | Vary: Foo";
    let page = pages.page(&[vary, vary, "204", vary]);
    page.get("Foo: 1");
    page.get("Foo: 2");
    page.request("DELETE", "", "");
    assert_eq!(Miss, page.get_again("Foo: 1"));
    assert_eq!(Miss, page.get_again("Foo: 2"));
}

/// A GET of which the origin sends its head, and the rest only when the gate opens.
fn half_way(gate: &std::sync::Arc<Gate>, early: bool) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |request| {
        if !request.line().starts_with("GET") {
            return vec![Script::Send(response("HTTP/1.1 204 No Content\n\n"))];
        }
        let text = format!(
            "HTTP/1.1 200 OK\nCache-Control: public, max-age=60\nETag: \"{0}\"\nContent-Length: 12\n\nfirst-",
            request.number
        );
        let second = Script::Send(b"second".to_vec());
        match (request.number, early) {
            (0, true) => vec![Script::Send(response(&text)), Script::Gate(gate.clone()), second],
            (0, false) => vec![Script::Gate(gate.clone()), Script::Send(response(&text)), second],
            _ => vec![Script::Send(response(&text)), second],
        }
    })
}

#[test]
fn a_response_in_flight_is_not_stored_after_its_invalidation() {
    // Before its head and after it; as a shared fetch, and as one that goes alone.
    for early in [true, false] {
        for lines in ["", "Authorization: x\r\n", "Range: bytes=0-99\r\n"] {
            let gate = Gate::new();
            let origin = half_way(&gate, early);
            let larder = Larder::before(&origin, "");
            let mut reader = larder.client();
            reader.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
            until("half of it is here", || gate.waiting() == 1);
            assert_eq!(204, larder.client().request("DELETE", "/", "", "").status);
            gate.open();
            assert_eq!("first-second", reader.read().text(), "who asked before has it");
            let after = larder.get("/");
            assert!(!after.is_hit(), "{early} {lines} {after:?}");
            assert_eq!(Some("\"2\""), after.field("etag"));
            assert!(larder.get("/").is_hit());
        }
    }
}

#[test]
fn a_request_after_an_invalidation_does_not_join_an_earlier_fetch() {
    let gate = Gate::new();
    let origin = half_way(&gate, false);
    let larder = Larder::before(&origin, "");
    let mut before = larder.client();
    before.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is on its way", || gate.waiting() == 1);
    larder.client().request("DELETE", "/", "", "");
    let after = larder.get("/");
    assert_eq!((Some("\"2\""), 3), (after.field("etag"), origin.requests()));
    gate.open();
    assert_eq!(Some("\"0\""), before.read().field("etag"));
    assert_eq!(Some("\"2\""), larder.get("/").field("etag"), "the newer stays");
}

#[test]
fn a_validation_that_was_overtaken_brings_nothing_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let text = match request.number {
            0 => "HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"a\"\n\nold",
            1 => "HTTP/1.1 304 Not Modified\nCache-Control: max-age=600\nETag: \"a\"\n\n",
            2 => "HTTP/1.1 204 No Content\n\n",
            _ => "HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"b\"\n\nnew",
        };
        let gate = (request.number == 1).then(|| Script::Gate(held.clone()));
        gate.into_iter().chain([Script::Send(response(text))]).collect()
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(15);
    let mut validating = larder.client();
    validating.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is asked", || gate.waiting() == 1);
    larder.client().request("PUT", "/", "", "x");
    gate.open();
    assert_eq!("old", validating.read().text());
    assert_eq!("new", larder.get("/").text());
}

#[test]
fn a_post_response_with_content_location_is_stored_for_get() {
    let pages = Pages::new("");
    let check = |more: fn(&str) -> String, lines: &str, expect| {
        let path = format!("/{}", 1 + pages.page(&[""]).target[1..].parse::<u32>().unwrap());
        let page = pages.page(&[&format!("{} || made", more(&path))]);
        assert_eq!(path, page.target);
        assert_eq!("made", page.request("POST", lines, "x=1").text());
        assert_eq!(expect, page.get_again(""), "{}", more(&path));
    };
    check(|it| format!("Cache-Control: max-age=60 | Content-Location: {it}"), "", Hit);
    check(|it| format!("Cache-Control: max-age=60 | Content-Location: http://h{it}"), "", Hit);
    check(|it| format!("Expires: @+60 | Content-Location: {it}"), "", Hit);
    check(|_| "Cache-Control: max-age=60".to_owned(), "", Miss);
    check(|_| "Cache-Control: max-age=60 | Content-Location: /other".to_owned(), "", Miss);
    check(|it| format!("Cache-Control: max-age=60 | Content-Location: http://other{it}"), "", Miss);
    check(|it| format!("Last-Modified: @-5000 | Content-Location: {it}"), "", Miss);
    check(|it| format!("Cache-Control: no-store, max-age=60 | Content-Location: {it}"), "", Miss);
    check(|it| format!("Cache-Control: max-age=60 | Content-Location: {it}"), "Authorization: x", Miss);
    check(|it| format!("Cache-Control: max-age=60 | Content-Location: {it}"), "If-None-Match: *", Hit);
    check(
        |it| format!("ETag: \"a\" | Cache-Control: max-age=60 | Content-Location: {it}"),
        "If-Match: \"b\"",
        Hit,
    );
    // A POST is never answered from the store.
    let page = pages.page(&[FRESH, "200 || done"]);
    page.get("");
    assert_eq!("done", page.request("POST", "", "x").text());
    assert_eq!(0, pages.larder.counter("hit_for_miss"), "and parts nobody");
}

#[test]
fn a_post_with_a_private_cookie_is_not_stored() {
    let pages = Pages::new("private_cookies = [\"session\"]");
    let page = pages.page(&["Cache-Control: max-age=60 | Content-Location: /0 || mine"]);
    page.request("POST", "Cookie: session=1", "x");
    assert_eq!(Miss, page.get_again(""));
}
