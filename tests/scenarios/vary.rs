//! `Vary`, RFC 9111 §4.1: several fields, normalised values, `*`, and how many variants there may be.

use crate::harness::pages::Second::{self, Hit, Miss};
use crate::harness::{Client, Larder, Origin, Pages};
use std::net::Ipv4Addr;

/// A page that varies on `vary`, first asked with `first`, then with `second`.
#[track_caller]
fn check(pages: &Pages, vary: &str, first: &str, second: &str, expect: Second) {
    let page = pages.page(&[&format!("Cache-Control: max-age=60 | {vary}")]);
    page.get(first);
    assert_eq!(expect, page.get_again(second), "{vary}: {first} then {second}");
    if expect == Miss {
        assert_eq!(Hit, page.get_again(first), "{vary}: the first variant is still there");
        assert_eq!(Hit, page.get_again(second), "{vary}: and the second one, too");
    }
}

#[test]
fn one_field_and_several() {
    let pages = Pages::new("");
    check(&pages, "Vary: Foo", "Foo: 1", "Foo: 1", Hit);
    check(&pages, "Vary: Foo", "Foo: 1", "Foo: 2", Miss);
    check(&pages, "Vary: Foo", "Foo: 1", "", Miss);
    check(&pages, "Vary: Foo", "", "Foo: 1", Miss);
    check(&pages, "Vary: Foo", "", "", Hit);
    check(&pages, "Vary: foo", "FOO: 1", "fOo: 1", Hit);
    check(&pages, "Vary: Foo", "Foo: 1 | Bar: 1", "Foo: 1 | Bar: 2", Hit);
    check(&pages, "Vary: Foo, Bar", "Foo: 1 | Bar: 1", "Foo: 1 | Bar: 1", Hit);
    check(&pages, "Vary: Foo, Bar", "Foo: 1 | Bar: 1", "Foo: 1 | Bar: 2", Miss);
    check(&pages, "Vary: Foo, Bar", "Foo: 1 | Bar: 1", "Foo: 2 | Bar: 1", Miss);
    check(&pages, "Vary: Foo, Bar", "Foo: 1 | Bar: 1", "Bar: 1 | Foo: 1", Hit);
    check(&pages, "Vary: Foo | Vary: Bar", "Foo: 1 | Bar: 1", "Foo: 1 | Bar: 2", Miss);
    check(&pages, "Vary: Foo, Bar, Baz", "Foo: 1 | Bar: 1 | Baz: 1", "Foo: 1 | Bar: 1 | Baz: 2", Miss);
    check(&pages, "Vary: Foo, Bar", "Foo: 1 | Bar: 1", "Foo: 1", Miss);
    check(&pages, "Vary: , Foo,,", "Foo: 1", "Foo: 2", Miss);
    check(&pages, "Vary: ", "Foo: 1", "Foo: 2", Hit);
    // Values are combined and freed of whitespace, but not more.
    check(&pages, "Vary: Foo", "Foo: 1, 2", "Foo: 1 | Foo: 2", Hit);
    check(&pages, "Vary: Foo", "Foo: 1, 2", "Foo: 1,2", Hit);
    check(&pages, "Vary: Foo", "Foo: 1, 2", "Foo: 2, 1", Miss);
    check(&pages, "Vary: Foo", "Foo: a", "Foo: A", Miss);
    check(&pages, "Vary: Foo", "Foo: a=1", "Foo: a=1;b", Miss);
}

#[test]
fn star_is_never_reused() {
    let pages = Pages::new("");
    for vary in ["Vary: *", "Vary: Foo, *", "Vary: *, Foo", "Vary: Foo | Vary: *", "Vary: *, *"] {
        let page = pages.page(&[&format!("Cache-Control: max-age=60 | {vary}")]);
        page.get("Foo: 1");
        assert_eq!(Miss, page.get_again("Foo: 1"), "{vary}");
    }
}

#[test]
fn encodings_and_languages_in_any_order() {
    let pages = Pages::new("");
    let encodings = |a: &str, b: &str, expect| {
        let line = |it: &str| format!("Accept-Encoding: {it}");
        check(&pages, "Vary: Accept-Encoding", &line(a), &line(b), expect);
    };
    encodings("gzip, deflate", "deflate, gzip", Hit);
    encodings("gzip, deflate", "deflate,gzip", Hit);
    encodings("GZIP", "gzip", Hit);
    encodings("x-gzip", "gzip", Hit);
    encodings("gzip;q=1.0, br", "br, gzip;q=1", Hit);
    encodings("gzip;q=0.5, br", "br, gzip;q=0.500", Hit);
    encodings("gzip;q=0.5, br", "br, gzip", Hit);
    encodings("gzip, deflate", "gzip", Hit);
    encodings("deflate", "identity", Hit);
    encodings("gzip;q=0", "deflate;q=0.5", Hit);
    encodings("gzip, dcb, x1;q=7", "gzip", Hit);
    encodings("*", "gzip, br, zstd", Hit);
    encodings("gzip, *;q=0", "identity;q=0, gzip", Hit);
    encodings("gzip, identity;q=0", "gzip", Miss);
    encodings("gzip", "br", Miss);
    encodings("gzip;q=0", "gzip", Miss);
    encodings("gzip, br", "gzip", Miss);
    let languages = |a: &str, b: &str, expect| {
        let line = |it: &str| format!("Accept-Language: {it}");
        check(&pages, "Vary: Accept-Language", &line(a), &line(b), expect);
    };
    languages("en, de", "de, en", Hit);
    languages("en, de", "de,   en", Hit);
    languages("en;q=0.5, de", "de;q=1.0, en;q=0.5", Hit);
    languages("en-GB", "EN-gb", Hit);
    languages("en;q=0.5, de", "en, de;q=0.5", Miss);
    languages("en", "de", Miss);
    check(
        &pages,
        "Vary: Accept-Encoding, Accept-Language",
        "Accept-Encoding: gzip, br | Accept-Language: en, de",
        "Accept-Language: de, en | Accept-Encoding: br, gzip",
        Hit,
    );
}

#[test]
fn a_response_without_vary_replaces_all_variants() {
    let pages = Pages::new("");
    let page = pages.page(&[
        "Cache-Control: max-age=60 | Vary: Foo",
        "Cache-Control: max-age=60 | Vary: Foo",
        "Cache-Control: max-age=60",
    ]);
    page.get("Foo: 1");
    page.get("Foo: 2");
    page.get("Foo: 3");
    assert_eq!("answer 3", page.get("Foo: 9").text());
    assert_eq!("answer 3", page.get("Foo: 1").text(), "the newest that matches");
    assert_eq!(3, page.requests());
}

#[test]
fn variants_are_bounded_and_hostile_ones_do_not_push_out_the_used() {
    let pages = Pages::new("max_variants = 8");
    let page = pages.page(&["Cache-Control: max-age=60 | Vary: Foo"]);
    page.get("Foo: used");
    for number in 0..1000 {
        page.ask_unexplained("GET", &format!("Foo: {number}"), "");
        if number % 4 == 0 {
            assert!(page.ask_unexplained("GET", "Foo: used", "").is_hit(), "after {number}");
        }
    }
    assert!(pages.larder.counter("cache_variants_full") >= 990);
    assert_eq!(1001, page.requests());
}

#[test]
fn cache_status_reports_a_vary_miss() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60 | Vary: Foo"]);
    assert!(page.get("Foo: 1").cache().starts_with("larder; fwd=uri-miss; fwd-status=200; stored"));
    assert!(page.get("Foo: 2").cache().starts_with("larder; fwd=vary-miss; fwd-status=200; stored"));
}

/// What larder tells the origin of the client is in no request: no other request can be known to have the same.
#[test]
fn a_field_that_larder_sets_for_the_client_selects_no_variant() {
    for name in ["X-Forwarded-For", "x-real-ip", "Forwarded", "Via"] {
        let origin = Origin::new(move |it| {
            let who = it.field("x-forwarded-for").unwrap_or("nobody");
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=100\nVary: Accept, {name}\n\n{who}")
        });
        let larder = Larder::before(&origin, "");
        for last in [2, 3] {
            let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, last), larder.address);
            let it = client.get("/");
            assert_eq!(format!("127.0.0.{last}"), it.text(), "{name}");
            assert!(!it.is_hit(), "{it:?}");
        }
    }
}

/// The origin is sent what the variant says, by whichever way its answer may come to be stored.
#[test]
fn origins_are_sent_one_spelling_of_accept_encoding() {
    let origin = Origin::new(|_| {
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Accept-Encoding\n\npage".to_owned()
    });
    let larder = Larder::before(&origin, "");
    for (line, expect) in [
        ("Accept-Encoding: zstd;q=0.2, gzip;q=0.9, BR, deflate\r\n", Some("gzip, br, zstd")),
        ("Accept-Encoding: x-gzip\r\n", Some("gzip")),
        ("Accept-Encoding: deflate\r\n", Some("identity")),
        ("Accept-Encoding: *;q=0, br, dcb\r\n", Some("br, identity;q=0")),
        ("", None),
    ] {
        for range in ["", "Range: bytes=0-\r\n"] {
            larder.client().get_with(if range.is_empty() { "/" } else { "/part" }, &format!("{line}{range}"));
            let sent = origin.received().last().unwrap().field("accept-encoding").map(str::to_owned);
            assert_eq!(expect, sent.as_deref(), "{line}{range}");
        }
    }
    assert_eq!(10, origin.requests());
    larder.client().get_with("/", "Accept-Encoding: br, gzip, zstd;q=0.1\r\n");
    assert_eq!(10, origin.requests(), "one variant for all spellings");
    // What passes the cache is passed on as it was sent.
    larder.client().request("POST", "/", "Accept-Encoding: br;q=0.5, gzip\r\n", "x");
    assert_eq!(Some("br;q=0.5, gzip"), origin.received().last().unwrap().field("accept-encoding"));
}
