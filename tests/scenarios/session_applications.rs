//! Applications with sessions, as their frameworks answer by default: no visitor is shown another's page. That holds with
//! missing fields, any validators, and any failure of the origin. No cache setting is made.

mod applications;
mod django;
mod real;
mod tiers;
mod warmed;

use crate::harness::origin::{Gate, Script};
use crate::harness::{Client, Larder, Origin, Response, until};
use applications::{Site, Visitor, pages};
use std::sync::Arc;

/// The origin's fault.
#[derive(Clone)]
enum Trouble {
    None,
    Status(u16),
    Close,
    Hang(Arc<Gate>),
}

/// An origin with every page of the corpus, in a state that a test changes.
fn origin() -> (Origin, Site) {
    let site = Site::default();
    let known = site.clone();
    (Origin::scripted(move |request| known.answer(request)), site)
}

fn before(origin: &Origin) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         proxy = {{ to = [\"{}\"], first_byte_timeout = \"300ms\" }}\n",
        origin.url()
    ))
}

/// Ways to ask for a page, and what they are called where one fails. `{tag}` stands for the entity tag that the first visitor was given.
const FORMS: [(&str, &str); 8] = [
    ("GET", ""),
    ("HEAD", ""),
    ("GET", "Range: bytes=0-3\r\n"),
    ("GET", "Range: bytes=2-\r\nIf-Range: {tag}\r\n"),
    ("GET", "If-None-Match: {tag}\r\n"),
    ("GET", "If-Modified-Since: {date}\r\n"),
    ("GET", "Cache-Control: max-stale\r\n"),
    ("GET", "Cache-Control: only-if-cached, max-stale\r\n"),
];

/// Asks as `visitor` and checks that nothing but this visitor's own page, or an error, comes back.
#[track_caller]
fn attack(client: &mut Client, site: &Site, page: &applications::Page, visitor: Visitor, form: (&str, &str)) {
    let first = page.tag(page.visitors[0]).unwrap_or("\"none\"".to_owned());
    let lines = form.1.replace("{tag}", &first).replace("{date}", applications::MODIFIED);
    let lines = format!("{}{lines}", visitor.lines());
    let it = client.request(form.0, &page.target(), &lines, "");
    is_own(&it, page, visitor, &format!("{} {lines:?} {:?}", form.0, site.trouble_name()));
}

/// Checks that a response shows nothing of another visitor.
#[track_caller]
fn is_own(it: &Response, page: &applications::Page, visitor: Visitor, what: &str) {
    let whole = format!("{:?} {}", it.fields, it.text());
    for other in Visitor::ALL.iter().filter(|it| it.name() != visitor.name()) {
        assert!(
            !whole.contains(other.name()),
            "{} shown to {visitor:?}: {page:?} {what}\n{it:?}",
            other.name()
        );
    }
    let own = page.body(visitor);
    let first = page.tag(page.visitors[0]);
    match it.status {
        200 if it.body.is_empty() => {}
        200 => assert_eq!(own, it.text(), "{page:?} {what}"),
        206 => assert!(own.contains(&it.text()), "{page:?} {what}"),
        // The application itself says that the tags, or the dates, are one.
        304 => assert!(page.tag(visitor) == first || page.is_dated(), "{page:?} {visitor:?} {what}\n{it:?}"),
        status => assert!(matches!(status, 412 | 416 | 500..=504), "{page:?} {what}\n{it:?}"),
    }
}

#[test]
fn a_visitor_never_gets_the_page_of_another() {
    let (origin, site) = origin();
    let larder = before(&origin);
    let mut client = larder.client();
    for page in &pages() {
        let [first, ..] = page.visitors;
        for _ in 0..2 {
            attack(&mut client, &site, page, first, FORMS[0]);
        }
        for visitor in page.visitors {
            for form in FORMS {
                attack(&mut client, &site, page, visitor, form);
            }
        }
    }
}

#[test]
fn a_failing_origin_shows_no_visitor_the_page_of_another() {
    let (origin, site) = origin();
    let larder = before(&origin);
    let mut client = larder.client();
    let pages = pages();
    for seconds in [0, 20, 100_000] {
        larder.advance(seconds);
        for page in &pages {
            site.set(Trouble::None);
            attack(&mut client, &site, page, page.visitors[0], FORMS[0]);
            let troubles = [500, 502, 503, 504].map(Trouble::Status).into_iter().chain([Trouble::Close]);
            for (at, trouble) in troubles.enumerate() {
                site.set(trouble);
                for (number, visitor) in page.visitors.into_iter().enumerate() {
                    attack(&mut client, &site, page, visitor, FORMS[0]);
                    // All forms in turn, not each with each.
                    attack(&mut client, &site, page, visitor, FORMS[(at + number) % FORMS.len()]);
                }
            }
        }
    }
}

#[test]
fn a_hanging_origin_shows_no_visitor_the_page_of_another() {
    let (origin, site) = origin();
    let larder = before(&origin);
    let mut client = larder.client();
    let pages = pages();
    for page in &pages {
        attack(&mut client, &site, page, page.visitors[0], FORMS[0]);
    }
    larder.advance(20);
    let gate = Gate::new();
    site.set(Trouble::Hang(gate.clone()));
    // All at once: each waits for the same time.
    let mut asked = Vec::new();
    for page in &pages {
        for visitor in page.visitors {
            let mut client = larder.client();
            client.send(format!("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", page.target(), visitor.lines()));
            asked.push((client, page, visitor));
        }
    }
    for (client, page, visitor) in &mut asked {
        is_own(&client.read(), page, *visitor, "hanging");
    }
    gate.open();
}

#[test]
fn visitors_that_wait_together_get_their_own_pages() {
    for held in [applications::Held::Head, applications::Held::Body] {
        let (origin, site) = origin();
        let larder = before(&origin);
        for page in &pages() {
            let gate = Gate::new();
            site.hold(held, gate.clone());
            let asked: Vec<_> = (0..9)
                .map(|at| {
                    let visitor = page.visitors[at % page.visitors.len()];
                    let mut client = larder.client();
                    client.send(format!(
                        "GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n",
                        page.target(),
                        visitor.lines()
                    ));
                    (client, visitor)
                })
                .collect();
            until("one asks", || gate.waiting() > 0);
            site.release();
            for (mut client, visitor) in asked {
                is_own(&client.read(), page, visitor, "together");
            }
        }
    }
}

/// A stranger comes first, and leaves a page that may be stored; then those who have sessions.
#[test]
fn a_strangers_page_is_not_replaced_by_a_visitors() {
    let (origin, site) = origin();
    let larder = before(&origin);
    let mut client = larder.client();
    let pages = pages();
    for seconds in [0, 20, 100_000] {
        larder.advance(seconds);
        for page in &pages {
            for visitor in [Visitor::Stranger, page.visitors[0], Visitor::Stranger, page.visitors[1]] {
                for form in FORMS {
                    attack(&mut client, &site, page, visitor, form);
                }
            }
        }
    }
}

#[test]
fn a_response_with_a_shared_lifetime_is_shared_with_all_visitors() {
    let origin = Origin::new(|request| {
        let response = request.target().trim_start_matches('/').replace('_', " ").replace('~', ": ");
        format!(
            "HTTP/1.1 200 OK\n{response}\nETag: \"1\"\nLast-Modified: {}\n\nshared",
            applications::MODIFIED
        )
    });
    let larder = before(&origin);
    for response in [
        "Cache-Control~max-age=60",
        "Cache-Control~s-maxage=60",
        "Cache-Control~public",
        "Cache-Control~public,_max-age=60",
        "CDN-Cache-Control~max-age=60",
        "Expires~Fri,_31_Dec_2100_00:00:00_GMT",
    ] {
        let target = format!("/{response}");
        for (at, lines) in ["Cookie: sid=anna\r\n", "Cookie: sid=ben\r\n", ""].into_iter().enumerate() {
            let it = larder.client().get_with(&target, lines);
            assert_eq!((at > 0, "shared"), (it.is_hit(), it.text().as_str()), "{response} {lines}");
        }
    }
}

#[test]
fn a_setting_of_the_route_shares_a_page() {
    for cache in [
        "default_ttl = \"60s\"",
        "status_ttl = { 200 = \"60s\" }",
        "override_ttl = \"60s\"",
        "private_cookies = [\"session\"]",
    ] {
        let origin =
            Origin::new(|_| format!("HTTP/1.1 200 OK\nLast-Modified: {}\n\nall", applications::MODIFIED));
        let larder = Larder::before(&origin, cache);
        larder.client().get_with("/", "Cookie: theme=dark\r\n");
        assert!(larder.client().get_with("/", "Cookie: theme=light\r\n").is_hit(), "{cache}");
    }
}

#[test]
fn a_cookie_in_the_key_shares_among_visitors_with_its_value() {
    let origin = Origin::new(|request| {
        let seen = request.field("cookie").unwrap_or("nothing");
        format!("HTTP/1.1 200 OK\nLast-Modified: {}\n\n{seen}", applications::MODIFIED)
    });
    let larder = Larder::before(&origin, "key = { cookies = [\"currency\"] }");
    let get = |cookies: &str| larder.client().get_with("/", &format!("Cookie: {cookies}\r\n"));
    assert_eq!(
        (false, "currency=EUR".to_owned()),
        (get("currency=EUR").is_hit(), get("currency=EUR").text())
    );
    assert!(get("currency=EUR").is_hit());
    for _ in 0..2 {
        let it = get("currency=EUR; sid=anna");
        assert_eq!((false, "currency=EUR; sid=anna"), (it.is_hit(), it.text().as_str()));
    }
    assert_eq!("currency=EUR", get("currency=EUR").text());
}

/// A page that is stale at once is stored to be asked about, and no more.
#[test]
fn a_page_without_a_lifetime_is_served_stale_only_by_stale_if_error() {
    for (cache, text, expect) in [
        ("", "ETag: \"1\"", 500),
        ("", "ETag: \"1\"\nCache-Control: max-age=0", 500),
        ("", "ETag: \"1\"\nExpires: 0", 500),
        ("", "ETag: \"1\"\nCache-Control: public, max-age=0", 500),
        ("", "ETag: \"1\"\nCache-Control: max-age=0, stale-if-error=60", 200),
        ("stale_if_error = \"60s\"", "ETag: \"1\"\nCache-Control: max-age=0", 200),
        ("stale_if_error = \"60s\"", "ETag: \"1\"", 200),
        ("", "ETag: \"1\"\nCache-Control: max-age=1", 200),
    ] {
        for trouble in ["500", "close"] {
            let text = text.to_owned();
            let origin = Origin::scripted(move |request| match (request.number, trouble) {
                (0, _) => vec![Script::Send(crate::harness::origin::response(&format!(
                    "HTTP/1.1 200 OK\n{text}\n\nold"
                )))],
                (_, "500") => {
                    vec![Script::Send(crate::harness::origin::response("HTTP/1.1 500 Oops\n\noops"))]
                }
                _ => vec![Script::Close],
            });
            let larder = Larder::before(&origin, cache);
            larder.get("/");
            larder.advance(5);
            let expect = if trouble == "close" && expect == 500 { 502 } else { expect };
            assert_eq!(expect, larder.get("/").status, "{cache} {trouble}");
            let stale = larder.client().get_with("/", "Cache-Control: max-stale\r\n");
            assert_eq!(expect, stale.status, "{cache} {trouble}: a client's word");
        }
    }
}

/// Operators see names, schemes and attributes: in `explain`, in what it tells of a refused answer, and in what is stored.
#[test]
fn no_view_of_operators_shows_a_visitors_secrets() {
    const SECRET: &str = "s3cr3t";
    let origin = Origin::new(|request| match request.target() {
        "/set" | "/again" => {
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nSet-Cookie: sid={SECRET}; Path=/\n\nset")
        }
        "/vary" => "HTTP/1.1 200 OK\nCache-Control: public, max-age=60\nVary: Cookie, Authorization\n\nvary"
            .to_owned(),
        _ => "HTTP/1.1 200 OK\nETag: \"1\"\n\nsilent".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    let lines = format!("Cookie: sid={SECRET}; b={SECRET}\r\nAuthorization: Bearer {SECRET}\r\n");
    let headers =
        format!("[[\"Cookie\", \"sid={SECRET}; b={SECRET}\"], [\"Authorization\", \"Bearer {SECRET}\"]]");
    for target in ["/set", "/vary", "/silent"] {
        larder.client().get_with(target, &lines);
        for headers in [&*headers, "[]", "[[\"Cookie\", \"other=1\"]]"] {
            let body = format!("{{\"url\": \"http://h{target}\", \"headers\": {headers}}}");
            let response = larder.admin_post("/cache/explain", &body).text();
            assert!(response.contains("verdict") && !response.contains(SECRET), "{target}: {response}");
        }
    }
    larder.client().get("/again");
    let response = larder.admin_post("/cache/explain", "{\"url\": \"http://h/again\"}").text();
    assert!(response.contains("sid=***; Path=/"), "{response}");
    let keyed = Larder::before(&origin, "key = { cookies = [\"sid\"], headers = [\"Authorization\"] }");
    keyed.client().get_with("/again", &lines);
    let response = keyed
        .admin_post("/cache/explain", &format!("{{\"url\": \"http://h/again\", \"headers\": {headers}}}"))
        .text();
    assert!(response.contains("h:authorization=*** c:sid=***") && !response.contains(SECRET), "{response}");
    keyed.client().get_with("/vary", &lines);
    let response = keyed.admin_get("/api/v1/objects").text();
    assert!(response.contains("c:sid=***") && !response.contains(SECRET), "{response}");
    for path in ["/api/v1/objects", "/cache/objects"] {
        let response = larder.admin_get(path).text();
        assert!(!response.contains(SECRET), "{response}");
        let value: serde_json::Value = serde_json::from_str(&response).unwrap_or_default();
        for it in value["objects"].as_array().into_iter().flatten() {
            let one = larder.admin_get(&format!("{path}/{}", it["id"].as_str().unwrap_or_default())).text();
            assert!(!one.contains(SECRET), "{one}");
        }
    }
}
