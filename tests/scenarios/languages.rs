//! `cache.key.accept_language`: `Accept-Language` is negotiated against the offers of the route before the lookup.

use crate::harness::command::run;
use crate::harness::pages::Second::{Hit, Miss};
use crate::harness::{Larder, Origin, Pages};

const OFFERS: &str = "key = { accept_language = [\"en\", \"de\", \"pt-BR\"] }";

/// An application that answers with the `Accept-Language` that it was sent, and the lines of `more`.
fn application(more: &'static str) -> Origin {
    Origin::new(move |it| {
        let language = it.field("accept-language").unwrap_or("no field");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n{more}Content-Type: text/plain\n\n{language}")
    })
}

fn get(larder: &Larder, language: &str) -> String {
    let answer = larder.client().get_with("/", &format!("Accept-Language: {language}\r\n"));
    let vary = answer.members("vary");
    let named = vary.iter().filter(|it| it.eq_ignore_ascii_case("accept-language")).count();
    assert_eq!(1, named, "browsers and other caches keep the languages apart: {vary:?}");
    answer.text()
}

/// The lists of real browsers are three stored responses, with and without `Vary` of the origin.
#[test]
fn any_list_is_one_of_the_languages() {
    for vary in ["", "Vary: Accept-Language\n", "Vary: accept-language, Accept-Encoding\n"] {
        let origin = application(vary);
        let larder = Larder::before(&origin, OFFERS);
        for (languages, expect) in [
            ("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "de"),
            ("de-AT, de;q=0.8, en-US;q=0.5, en;q=0.3", "de"),
            ("de", "de"),
            ("en-GB,en;q=0.9,de;q=0.8", "en"),
            ("pt-PT,pt;q=0.9,en;q=0.8", "pt-BR"),
            ("fr-FR,fr;q=0.9", "en"),
            ("*", "en"),
            ("", "en"),
            ("de;q=0, en;q=0.1", "en"),
            ("nonsense;;", "en"),
        ] {
            assert_eq!(expect, get(&larder, languages), "{vary}: {languages}");
        }
        assert_eq!("en", larder.get("/").text(), "{vary}: without the field");
        for (number, letter) in ('a'..='z').enumerate() {
            assert_eq!("de", get(&larder, &format!("x{letter}, de-C{letter};q=0.1{number}")));
        }
        assert_eq!(3, origin.requests(), "{vary}");
    }
}

#[test]
fn a_strict_key_sends_the_language_and_no_other_field() {
    let origin = application("");
    let larder = Larder::before(&origin, "key = { accept_language = [\"en\", \"de\"], strict = true }");
    for _ in 0..2 {
        assert_eq!(("de", "en"), (&*get(&larder, "de-AT, fr"), &*get(&larder, "en, de")));
    }
    assert_eq!(2, origin.requests());
}

/// A request that bypasses the cache is the client's own.
#[test]
fn a_passed_request_has_its_own_field() {
    let origin = application("");
    let larder = Larder::before(&origin, &format!("{OFFERS}, private_cookies = [\"sid\"]"));
    for lines in ["Cookie: sid=1\r\n", "Authorization: Bearer a\r\n"] {
        let answer = larder.client().get_with("/", &format!("Accept-Language: de-AT, fr\r\n{lines}"));
        let expect = if lines.starts_with("Cookie") { "de-AT, fr" } else { "de" };
        assert_eq!(expect, answer.text(), "{lines}");
    }
    let lines = "Accept-Language: fr\r\nContent-Length: 0\r\n";
    assert_eq!("fr", larder.client().request("POST", "/", lines, "").text());
}

/// The response to a POST is stored for no GET, since it was made for the client's own languages; an unsafe method removes the responses of all
/// offers, also those of both lists.
#[test]
fn a_post_is_kept_for_no_language_and_removes_all() {
    let both = "key = { accept_language = [\"en\", \"de\"], accept = [\"text/html\", \"text/markdown\"] }";
    for (cache, stored) in [(OFFERS, 2), (both, 6)] {
        let origin = application("Content-Location: /\n");
        let larder = Larder::before(&origin, cache);
        let fill = || {
            let before = origin.requests();
            for language in ["en", "de"] {
                for accept in ["text/html", "text/markdown", "image/png"] {
                    let lines = format!("Accept-Language: {language}\r\nAccept: {accept}\r\n");
                    assert_eq!(language, larder.client().get_with("/", &lines).text());
                }
            }
            origin.requests() - before
        };
        assert_eq!((stored, 0), (fill(), fill()));
        let lines = "Accept-Language: xx\r\nContent-Length: 0\r\n";
        assert_eq!("xx", larder.client().request("POST", "/", lines, "").text());
        assert_eq!(stored, fill(), "{cache}");
    }
}

#[test]
fn explain_shows_the_language() {
    let pages = Pages::new(OFFERS);
    let page = pages.page(&["Cache-Control: max-age=60 | Vary: Accept-Language"]);
    page.get("Accept-Language: de-AT, en;q=0.1");
    assert_eq!(Hit, page.get_again("Accept-Language: de"));
    assert_eq!(Miss, page.get_again("Accept-Language: en"));
    let url = format!("http://h{}", page.target);
    let admin = pages.larder.admin.to_string();
    let asked = ["explain", &url, "-H", "Accept-Language: de-CH, *", "--admin", &admin];
    let output = run(pages.larder.folder.path(), &asked);
    assert!(output.out.contains(" l:de"), "{output:?}");
}
