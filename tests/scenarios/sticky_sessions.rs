//! Clients bound to an origin by a cookie (`proxy.sticky`), over HTTP/1.1 and HTTP/2, with the cache and without.

use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, Response};
use std::collections::BTreeSet;

/// Three pages of an application that names itself: for all clients, for one, and one that says nothing.
fn application(name: &'static str) -> Origin {
    Origin::new(move |it| {
        let cached = match it.target() {
            "/shared" => "Cache-Control: max-age=600\n",
            "/varied" => "Cache-Control: max-age=600\nVary: Cookie\n",
            "/private" => "Cache-Control: private, max-age=60\n",
            _ => "",
        };
        let cookie = it.field("cookie").unwrap_or("none");
        format!("HTTP/1.1 200 OK\n{cached}X-Cookie: {cookie}\n\n{name}")
    })
}

fn three() -> [Origin; 3] {
    ["a", "b", "c"].map(application)
}

fn before(to: &[String], proxy: &str, cache: &str) -> Larder {
    let to: Vec<_> = to.iter().map(|it| format!("\"{it}\"")).collect();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         cache = {{ {cache} }}\nproxy = {{ to = [{}], balance = \"round_robin\", sticky = {{ cookie = \"at\" {proxy} }} }}\n",
        to.join(", ")
    ))
}

fn urls(origins: &[Origin]) -> Vec<String> {
    origins.iter().map(Origin::url).collect()
}

/// `at=VALUE` of a response that sets the cookie.
fn bound(response: &Response) -> String {
    let line = response.field("set-cookie").unwrap_or_else(|| panic!("{response:?}"));
    line.split(';').next().unwrap().to_owned()
}

fn fetch(larder: &Larder, target: &str, cookie: &str) -> Response {
    larder.client().get_with(target, &format!("Cookie: {cookie}\r\n"))
}

#[test]
fn a_client_returns_to_the_origin_that_answered_it() {
    let origins = three();
    let larder = before(&urls(&origins), "", "");
    let mut cookies = BTreeSet::new();
    for target in ["/private", "/plain", "/private", "/plain", "/private", "/plain"] {
        let first = larder.get(target);
        let cookie = bound(&first);
        let line = first.field("set-cookie").unwrap();
        assert!(line.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{line}");
        assert!(!line.contains("127.0.0.1"), "the address of the origin stays private");
        cookies.insert(cookie.clone());
        for _ in 0..6 {
            let it = fetch(&larder, target, &format!("a=1; {cookie}; b=2"));
            assert_eq!((first.text(), None), (it.text(), it.field("set-cookie")));
            assert_eq!(Some("a=1; b=2"), it.field("x-cookie"), "the origin does not get the cookie");
            assert_eq!(Some("none"), fetch(&larder, target, &cookie).field("x-cookie"));
        }
        let post = larder.client().request("POST", target, &format!("Cookie: {cookie}\r\n"), "form");
        assert_eq!((first.text(), None), (post.text(), post.field("set-cookie")));
    }
    assert_eq!(3, cookies.len(), "clients without a cookie are balanced");
}

#[test]
fn a_stream_returns_to_the_origin_as_well() {
    let origins = three();
    let larder = before(&urls(&origins), ", ttl = \"1h\", same_site = \"strict\", secure = true", "");
    let mut client = Http2::connect(&larder);
    let first = client.get("/private");
    let line = first.field("set-cookie").unwrap().to_owned();
    assert!(line.ends_with("; Path=/; HttpOnly; Max-Age=3600; SameSite=Strict; Secure"), "{line}");
    let cookie = line.split(';').next().unwrap();
    for _ in 0..6 {
        // Over HTTP/2 each pair may have a line of its own.
        let fields = request("GET", "/private", &[("cookie", "a=1"), ("cookie", cookie), ("cookie", "b=2")]);
        let id = client.head(&fields, END_STREAM);
        let it = client.answer(id);
        assert_eq!(
            (first.text(), Some(line.as_str())),
            (it.text(), it.field("set-cookie")),
            "a lifetime is renewed"
        );
        assert_eq!(Some("a=1; b=2"), it.field("x-cookie"));
    }
}

#[test]
fn a_shared_page_binds_no_client_and_is_the_same_for_all() {
    let origins = three();
    let larder = before(&urls(&origins), "", "private_cookies = [\"session*\", \"a*\"]");
    let cookie = bound(&larder.get("/private"));
    for target in ["/shared", "/varied"] {
        let miss = fetch(&larder, target, &cookie);
        assert_eq!(None, miss.field("set-cookie"), "{miss:?}");
        for lines in
            [format!("Cookie: {cookie}\r\n"), "Cookie: at=0000000000000001\r\n".to_owned(), String::new()]
        {
            let hit = larder.client().get_with(target, &lines);
            assert!(hit.is_hit(), "{target} {lines}: {hit:?}");
            assert_eq!((miss.text(), None), (hit.text(), hit.field("set-cookie")));
        }
    }
    // A miss goes to the client's origin, too: the page may turn out to be private.
    let own = fetch(&larder, "/private", &cookie).text();
    assert_eq!(own, fetch(&larder, "/varied?other", &cookie).text());
}

/// A response that another cache may store must not give its client's origin to others, even where larder does not store it.
#[test]
fn a_cache_in_front_of_larder_binds_no_client() {
    let origins = three();
    let larder = before(&urls(&origins), "", "enabled = false");
    assert_eq!(None, larder.get("/shared").field("set-cookie"));
    assert!(larder.get("/private").field("set-cookie").is_some());
}

#[test]
fn a_forged_cookie_chooses_no_origin() {
    let origins = three();
    let larder = before(&urls(&origins), "", "");
    for value in ["", "x", "0000000000000001", "-000000000000001", "ffffffffffffffffffff", "\"", "%00"] {
        let mut names = BTreeSet::new();
        for _ in 0..6 {
            let it = fetch(&larder, "/private", &format!("at={value}"));
            bound(&it);
            names.insert(it.text());
        }
        assert_eq!(3, names.len(), "{value} is no origin");
    }
}

/// Several larders agree on the cookie; a drained origin keeps its clients, and one that has ended does not.
#[test]
fn a_drained_origin_keeps_its_clients_and_an_ejected_one_does_not() {
    let application = application("x");
    let process = || {
        Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\nresponse_headers = {{ set = {{ \"X-By\" = \"{{listener}}\" }} }}\n\
             [[site.route]]\ncache = {{ enabled = false }}\nproxy = {{ to = [\"{}\"] }}\n",
            application.url()
        ))
    };
    let (a, b) = (process(), process());
    let url = |it: &Larder| format!("http://{}", it.address);
    let by = |it: &Response| it.field("x-by").unwrap().to_owned();
    let plain = before(&[url(&a), url(&b)], "", "");
    let first = loop {
        let it = plain.get("/private");
        if by(&it) != by(&b.get("/private")) {
            break it;
        }
    };
    let cookie = bound(&first);
    let draining = before(&[url(&a) + " drain", url(&b)], "", "");
    for _ in 0..4 {
        let kept = fetch(&draining, "/private", &cookie);
        assert_eq!((by(&first), None), (by(&kept), kept.field("set-cookie")));
        assert_eq!(by(&b.get("/private")), by(&draining.get("/private")), "it gets no other clients");
    }
    drop(a);
    for larder in [&plain, &draining] {
        let moved = fetch(larder, "/private", &cookie);
        assert_eq!(by(&b.get("/private")), by(&moved));
        let other = bound(&moved);
        assert_ne!(cookie, other);
        let kept = fetch(larder, "/private", &other);
        assert_eq!((by(&moved), None), (by(&kept), kept.field("set-cookie")));
    }
}

#[test]
fn an_upgraded_connection_is_bound() {
    let agreed = "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    let origin = Origin::scripted(move |_| vec![Script::Send(response(agreed))]);
    let larder = before(&[origin.url()], "", "");
    let mut client = larder.client();
    client.send(
        "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let head = String::from_utf8(client.read_raw_head()).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("\r\nset-cookie: at="), "{head}");
}
