//! `cache.key.accept`: `Accept` is negotiated against the offers of the route before the lookup.

use crate::harness::command::run;
use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::pages::Second::{Hit, Miss};
use crate::harness::tiers::{disk, killed, written};
use crate::harness::{Larder, Origin, Pages};

const OFFERS: &str = "key = { accept = [\"text/html\", \"text/markdown\"] }";

/// An application that answers with the `Accept` that it was sent, and the lines of `more`.
fn application(more: &'static str) -> Origin {
    Origin::new(move |it| {
        let accept = it.field("accept").unwrap_or("no field");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n{more}Content-Type: text/plain\n\n{accept}")
    })
}

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";

/// Every `Accept` is one of the offers or none of them: three stored responses, with and without `Vary` of the origin.
#[test]
fn any_accept_is_one_of_the_offers() {
    for vary in ["", "Vary: Accept\n", "Vary: accept, Accept-Encoding\n"] {
        let origin = application(vary);
        let larder = Larder::before(&origin, OFFERS);
        for (accept, expect) in [
            (BROWSER, "text/html"),
            ("text/markdown, text/html, */*", "text/markdown"),
            ("image/png", "no field"),
            ("*/*", "text/html"),
            ("", "text/html"),
            ("text/html;q=0.3, text/markdown;q=0.4", "text/markdown"),
            ("text/html;q=0, text/markdown;q=0, */*", "no field"),
            ("text/*", "text/html"),
            ("nonsense", "text/html"),
            ("application/json, text/markdown;q=0.1", "text/markdown"),
            ("text/html;q=0", "no field"),
        ] {
            let answer = larder.client().get_with("/", &format!("Accept: {accept}\r\n"));
            assert_eq!(expect, answer.text(), "{vary}: {accept}");
            let vary = answer.members("vary");
            assert_eq!(1, vary.iter().filter(|it| it.eq_ignore_ascii_case("accept")).count(), "{vary:?}");
        }
        assert_eq!("text/html", larder.get("/").text(), "{vary}: without the field");
        assert_eq!(3, origin.requests(), "{vary}");
    }
}

#[test]
fn over_http2_and_for_head_and_ranges() {
    let origin = application("ETag: \"1\"\n");
    let larder = Larder::before(&origin, OFFERS);
    let mut h2 = Http2::connect(&larder);
    for accept in ["text/markdown", BROWSER] {
        let id = h2.head(&request("GET", "/", &[("accept", accept)]), END_STREAM);
        assert_eq!(200, h2.answer(id).status);
    }
    assert_eq!(2, origin.requests());
    let mut client = larder.client();
    let lines = "Accept: text/markdown;q=0.9\r\n";
    assert_eq!("13", client.request("HEAD", "/", lines, "").field("content-length").unwrap());
    assert_eq!("mark", client.get_with("/", &format!("{lines}Range: bytes=5-8\r\n")).text());
    assert_eq!(304, client.get_with("/", &format!("{lines}If-None-Match: \"1\"\r\n")).status);
    assert_eq!(2, origin.requests());
}

/// A request that bypasses the cache is the client's own.
#[test]
fn a_passed_request_has_its_own_field() {
    let origin = application("");
    let larder = Larder::before(&origin, &format!("{OFFERS}, private_cookies = [\"sid\"]"));
    let answer = larder.client().get_with("/", "Accept: text/markdown, */*\r\nCookie: sid=1\r\n");
    assert_eq!("text/markdown, */*", answer.text());
    assert_eq!(None, answer.field("vary"));
    let answer = larder.client().request("POST", "/", "Accept: a/b\r\nContent-Length: 0\r\n", "");
    assert_eq!("a/b", answer.text());
}

/// The response to a POST is stored for no GET: it was made for the client's own `Accept`.
#[test]
fn a_response_to_a_post_is_kept_under_no_offer() {
    let origin = Origin::new(|it| {
        let lines = "Cache-Control: max-age=60\nContent-Location: /";
        format!("HTTP/1.1 200 OK\n{lines}\n\n{}", it.field("accept").unwrap_or("-"))
    });
    let larder = Larder::before(&origin, OFFERS);
    let lines = "Accept: text/evil\r\nContent-Length: 0\r\n";
    assert_eq!("text/evil", larder.client().request("POST", "/", lines, "").text());
    assert_eq!("text/html", larder.get("/").text());
}

/// An unsafe method removes the responses of all offers, whichever its own `Accept` prefers; a purge of the URL as well.
#[test]
fn invalidations_and_purges_remove_every_offer() {
    let origin = application("");
    let larder = Larder::before_with(&origin, OFFERS, "[cache.purge]\nmethod = true\n");
    let fill = || {
        let before = origin.requests();
        for accept in ["text/html", "text/markdown", "image/png"] {
            larder.client().get_with("/", &format!("Accept: {accept}\r\n"));
        }
        origin.requests() - before
    };
    assert_eq!((3, 0), (fill(), fill()));
    for (method, lines) in
        [("POST", "Accept: text/markdown\r\n"), ("DELETE", "Accept: */*\r\n"), ("PURGE", "")]
    {
        let asked = usize::from(method != "PURGE");
        let before = origin.requests();
        assert!(larder.client().request(method, "/", lines, "").status < 300);
        assert_eq!(before + asked, origin.requests(), "{method}");
        assert_eq!(3, fill(), "{method}");
    }
}

#[test]
fn explain_shows_the_preferred_offer() {
    let pages = Pages::new(OFFERS);
    let page = pages.page(&["Cache-Control: max-age=60 | Vary: Accept"]);
    page.get("Accept: text/markdown, */*");
    assert_eq!(Hit, page.get_again("Accept: text/markdown"));
    assert_eq!(Miss, page.get_again(&format!("Accept: {BROWSER}")));
    let url = format!("http://h{}", page.target);
    let admin = pages.larder.admin.to_string();
    let asked = ["explain", &url, "-H", "Accept: text/markdown, */*", "--admin", &admin];
    let output = run(pages.larder.folder.path(), &asked);
    assert!(output.out.contains(" a:text/markdown"), "{output:?}");
}

/// The key of a strict route has the offer, and its requests have no other `Accept`.
#[test]
fn with_a_strict_key() {
    let origin = application("");
    let larder =
        Larder::before(&origin, "key = { accept = [\"text/html\", \"application/json\"], strict = true }");
    for _ in 0..2 {
        assert_eq!("application/json", larder.client().get_with("/", "Accept: application/json\r\n").text());
        assert_eq!("text/html", larder.client().get_with("/", "Accept: text/html\r\n").text());
    }
    assert_eq!(2, origin.requests());
}

/// A 304 changes neither the variants nor the `Vary` of the stored response.
#[test]
fn a_validation_keeps_the_variants() {
    let origin = Origin::new(|it| {
        let accept = it.field("accept").unwrap_or("-").to_owned();
        let head = format!("Cache-Control: max-age=60\nETag: \"{accept}\"");
        match it.field("if-none-match") {
            Some(_) => format!("HTTP/1.1 304 Not Modified\n{head}\n\n"),
            None => format!("HTTP/1.1 200 OK\nVary: Accept-Encoding\n{head}\n\n{accept}"),
        }
    });
    let larder = Larder::before(&origin, OFFERS);
    for _ in 0..2 {
        for accept in ["text/html", "text/markdown"] {
            let answer = larder.client().get_with("/", &format!("Accept: {accept}\r\n"));
            assert_eq!(accept, answer.text());
            assert_eq!(["Accept-Encoding", "Accept"][..], answer.members("vary"));
        }
        larder.advance(100);
    }
    assert_eq!(4, origin.requests());
}

/// On disk and after a crash the offers are still apart.
#[test]
fn on_disk() {
    let origin = application("Vary: Accept\n");
    let folder = tempfile::tempdir().unwrap();
    for written_now in [2, 0] {
        let larder = Larder::before_with(&origin, OFFERS, &disk(folder.path()));
        for (accept, expect) in [("text/markdown", "text/markdown"), (BROWSER, "text/html")] {
            let answer = larder.client().get_with("/", &format!("Accept: {accept}\r\n"));
            assert_eq!(expect, answer.text());
        }
        written(&larder, written_now);
        killed(larder);
    }
    assert_eq!(2, origin.requests());
}
