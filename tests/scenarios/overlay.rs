//! Overlays: a page that the operator puts over whatever is there, and takes away again.

use crate::harness::command::run;
use crate::harness::origin::Received;
use crate::harness::{Client, Larder, Origin, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A request to the admin with a body.
fn admin(larder: &Larder, method: &str, path: &str, lines: &str, body: &[u8]) -> (u16, Value) {
    let mut client = Client::connect(larder.admin);
    let length = body.len();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\n{}\r\n{lines}Content-Length: {length}\r\n\r\n",
        larder.admin_lines()
    ));
    client.send(body);
    let answer = client.read();
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_else(|it| panic!("{it}: {answer:?}")))
}

/// Puts a page over `uri` by the short form.
#[track_caller]
fn add(larder: &Larder, uri: &str, body: &[u8]) -> Value {
    let (status, answer) = admin(larder, "POST", &format!("/cache/add/{uri}"), "", body);
    assert_eq!(200, status, "{uri}: {answer}");
    answer
}

/// Takes the one of `uri` away by the short form.
#[track_caller]
fn reset(larder: &Larder, uri: &str) {
    let (status, answer) = admin(larder, "POST", &format!("/cache/reset/{uri}"), "", b"");
    assert_eq!(200, status, "{uri}: {answer}");
}

fn list(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/overlays").text()).unwrap()
}

/// An application, uncached beneath `/live/`, with a directory beneath `/files/` and nothing on other hosts than `h`.
fn everything() -> (Origin, Larder) {
    let origin = Origin::new(|it: &Received| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\noriginal of {}", it.target())
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"h\"]\n[[site.route]]\npath = \"/files/*\"\n\
         files = {{ root = \".\", strip = \"/files\" }}\n[[site.route]]\npath = \"/live/*\"\nproxy = {{ to = [\"{0}\"] }}\n\
         cache = {{ enabled = false }}\n[[site.route]]\nproxy = {{ to = [\"{0}\"] }}\ncache = {{ private_cookies = \
         [\"session\"] }}\n",
        origin.url()
    ));
    std::fs::write(larder.folder.path().join("a.txt"), "original of a file").unwrap();
    (origin, larder)
}

/// Puts a page over what `lines` and `target` ask for, and takes it away.
#[track_caller]
fn check_over(target: &str, lines: &str) {
    let (_origin, larder) = everything();
    let fetch = || larder.client().get_with(target, lines);
    let before = fetch();
    assert!(!before.text().contains("laid"), "{target}: {before:?}");
    fetch();
    add(&larder, target, b"laid over it");
    for _ in 0..2 {
        let over = fetch();
        assert_eq!((200, "laid over it"), (over.status, over.text().as_str()), "{target}: {over:?}");
        assert_eq!("larder; hit; detail=overlay", over.cache(), "{target}");
        assert_eq!(Some("no-cache"), over.field("cache-control"), "{target}");
    }
    reset(&larder, target);
    let after = fetch();
    assert_eq!((before.status, &before.body), (after.status, &after.body), "{target}");
    assert_eq!(2, larder.counter("overlay_hits"), "{target}");
}

#[test]
fn over_a_cached_page() {
    check_over("/page?a=b", "");
}

#[test]
fn over_a_page_that_is_not_cached() {
    check_over("/live/page", "");
}

#[test]
fn over_a_page_for_one_visitor() {
    check_over("/page", "Cookie: session=1\r\nAuthorization: Basic eA==\r\n");
}

#[test]
fn over_a_file() {
    check_over("/files/a.txt", "");
}

#[test]
fn over_a_file_that_is_not_there() {
    check_over("/files/none", "");
}

#[test]
fn over_no_route_at_all() {
    let (_origin, larder) = everything();
    let fetch = |host: &str| {
        let mut client = larder.client();
        client.send(format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n")).read()
    };
    assert_eq!(404, fetch("nobody.example").status);
    let report = add(&larder, "https://nobody.example/x", b"laid over it");
    assert_eq!("*://nobody.example/x", report["uri"], "it lies over both schemes");
    assert_eq!("laid over it", fetch("Nobody.Example").text());
    assert_eq!("original of /x", fetch("h").text(), "of one host alone");
    reset(&larder, "http://nobody.example/x");
    assert_eq!(404, fetch("nobody.example").status);
}

#[test]
fn over_a_target_that_no_uri_may_have() {
    let (_origin, larder) = everything();
    add(&larder, "/a|b?c[d]", b"laid over it");
    assert_eq!("laid over it", larder.get("/a|b?c[d]").text());
    assert_eq!(
        "original of /a%7Cb?c%5Bd%5D",
        larder.get("/a%7Cb?c%5Bd%5D").text(),
        "the origin tells them apart"
    );
}

#[test]
fn an_overlay_answers_only_get_and_head() {
    let (origin, larder) = everything();
    add(&larder, "/page", b"laid over it");
    let posted = larder.client().request("POST", "/page", "", "data");
    assert_eq!("original of /page", posted.text());
    assert_eq!(1, origin.requests());
    let head = larder.client().request("HEAD", "/page", "", "");
    assert_eq!((200, Some("12")), (head.status, head.field("content-length")), "{head:?}");
    assert_eq!(1, origin.requests());
    assert_eq!("laid over it", larder.get("/page").text(), "a POST does not take it away");
}

#[test]
fn conditions_and_ranges_are_those_of_the_overlay() {
    let (_origin, larder) = everything();
    add(&larder, "/page", b"0123456789");
    let whole = larder.get("/page");
    let (etag, modified) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
    let fetch = |lines: String| larder.client().get_with("/page", &lines);
    let part = |it: Response| (it.status, it.text());
    assert_eq!((304, String::new()), part(fetch(format!("If-None-Match: {etag}\r\n"))));
    assert_eq!((304, String::new()), part(fetch(format!("If-Modified-Since: {modified}\r\n"))));
    assert_eq!(412, fetch("If-Match: \"other\"\r\n".to_owned()).status);
    assert_eq!((206, "345".to_owned()), part(fetch("Range: bytes=3-5\r\n".to_owned())));
    assert_eq!((206, "9".to_owned()), part(fetch(format!("Range: bytes=-1\r\nIf-Range: {etag}\r\n"))));
    assert_eq!(416, fetch("Range: bytes=10-\r\n".to_owned()).status);
    assert_eq!("larder; hit; detail=overlay", fetch("Range: bytes=3-5\r\n".to_owned()).cache());
    add(&larder, "/page", b"another");
    assert_eq!((200, "another".to_owned()), part(fetch(format!("If-None-Match: {etag}\r\n"))));
}

#[test]
fn a_page_for_a_bad_hour() {
    let (_origin, larder) = everything();
    let path = "/api/v1/overlays?uri=%2Fshop%3Fa%3Db&status=503&ttl=60";
    let (status, report) = admin(&larder, "PUT", path, "Content-Type: text/html\r\n", b"<h1>Back soon</h1>");
    assert_eq!(
        (200, json!("/shop?a=b"), json!(503)),
        (status, report["uri"].clone(), report["status"].clone())
    );
    assert_eq!(json!(60), json!(report["expires"].as_u64().unwrap() - report["set_at"].as_u64().unwrap()));
    let shown = larder.client().get_with("/shop?a=b", "Range: bytes=0-1\r\nIf-None-Match: *\r\n");
    assert_eq!((503, "<h1>Back soon</h1>"), (shown.status, shown.text().as_str()));
    assert_eq!(Some("text/html"), shown.field("content-type"));
    larder.advance(1000);
    assert_eq!(503, larder.get("/shop?a=b").status, "whoever sets the wall clock does not end it");
    larder.pass(60_000);
    assert_eq!("original of /shop?a=b", larder.get("/shop?a=b").text(), "its lifetime is over");
    assert_eq!(json!([]), list(&larder)["overlays"]);
}

#[test]
fn overlays_are_listed_and_removed() {
    let (_origin, larder) = everything();
    add(&larder, "/a", b"12345");
    add(&larder, "css/x.css", b"p{}");
    larder.get("/a");
    let report = list(&larder);
    let row = |at: usize| {
        let it = &report["overlays"][at];
        (it["uri"].as_str().unwrap(), it["bytes"].as_u64().unwrap(), it["hits"].as_u64().unwrap())
    };
    assert_eq!([("/a", 5, 1), ("/css/x.css", 3, 0)], [row(0), row(1)]);
    assert_eq!("text/css; charset=utf-8", report["overlays"][1]["content_type"]);
    assert_eq!(16 << 20, report["limit_bytes"].as_u64().unwrap());
    assert_eq!(larder.counter("overlay_bytes"), report["bytes"].as_u64().unwrap());
    let (status, gone) = admin(&larder, "DELETE", "/api/v1/overlays?uri=/a", "", b"");
    assert_eq!((200, &json!("/a")), (status, &gone["uri"]));
    assert_eq!(404, admin(&larder, "DELETE", "/api/v1/overlays?uri=/a", "", b"").0);
    assert_eq!(200, larder.admin_get("/cache/reset/css/x.css").status, "as the older plugin had it");
    assert_eq!(0, larder.counter("overlay_bytes"));
}

#[test]
fn explain_knows_it() {
    let (_origin, larder) = everything();
    add(&larder, "/page", b"laid over it");
    let explain = |method: &str| {
        let asked = json!({ "url": "http://h/page", "method": method }).to_string();
        admin(&larder, "POST", "/cache/explain", "", asked.as_bytes()).1
    };
    let explanation = explain("GET");
    assert_eq!("overlay", explanation["verdict"]["name"], "{explanation}");
    assert!(explanation["verdict"]["sentence"].as_str().unwrap().contains("set for /page"), "{explanation}");
    assert_ne!("overlay", explain("POST")["verdict"]["name"]);
}

/// The first request after the answer sees it, on whichever connection and worker: nothing has to come about later.
#[test]
fn a_request_after_the_confirmation_gets_the_overlay() {
    let (_origin, larder) = everything();
    let mut clients: Vec<Client> = (0..8).map(|_| larder.client()).collect();
    for round in 0..50 {
        let body = format!("round {round}");
        add(&larder, "/page", body.as_bytes());
        for client in &mut clients {
            assert_eq!(body, client.get("/page").text());
        }
        reset(&larder, "/page");
        for client in &mut clients {
            assert_eq!("original of /page", client.get("/page").text());
        }
    }
}

/// A body that tells which round made it, and whose bytes are all the same.
fn large(round: usize) -> Vec<u8> {
    vec![b'a' + (round % 26) as u8; 100_000 + round % 26]
}

#[test]
fn readers_of_an_older_one_finish_undamaged() {
    let (_origin, larder) = everything();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (stop, mut client) = (stop.clone(), larder.client());
            std::thread::spawn(move || {
                let mut seen = std::collections::BTreeSet::new();
                while !stop.load(SeqCst) {
                    let page = client.get("/page");
                    assert!(page.complete && page.status == 200, "{} {:?}", page.status, page.fields);
                    if page.body == b"original of /page" {
                        continue;
                    }
                    let first = page.body[0];
                    assert!(page.body.iter().all(|it| *it == first), "one body, not two");
                    assert_eq!(large(usize::from(first - b'a')).len(), page.body.len(), "and all of it");
                    seen.insert(first);
                }
                seen.len()
            })
        })
        .collect();
    for round in 0..120 {
        add(&larder, "/page", &large(round));
        if round % 5 == 4 {
            reset(&larder, "/page");
        }
    }
    stop.store(true, SeqCst);
    let seen: usize = readers.into_iter().map(|it| it.join().unwrap()).sum();
    assert!(seen > 0, "the readers met overlays");
}

/// A reader who has not read to the end yet keeps what he was promised, however often that is replaced meanwhile.
#[test]
fn a_slow_reader_gets_the_overlay_of_its_request() {
    let (_origin, larder) = everything();
    let body = |letter: u8| vec![letter; 4 << 20];
    add(&larder, "/page", &body(b'a'));
    let mut slow = larder.client();
    slow.send("GET /page HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut one = [0; 1];
    slow.stream.peek(&mut one).unwrap();
    for letter in b'b'..b'f' {
        add(&larder, "/page", &body(letter));
    }
    reset(&larder, "/page");
    let page = slow.read();
    assert!(page.complete && page.body == body(b'a'));
}

#[test]
fn an_overlay_stays_until_the_operator_removes_it() {
    let origin = Origin::new(|_: &Received| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "x".repeat(100_000))
    });
    let larder = Larder::before_with(&origin, "", "cache.ram.size = \"4MiB\"");
    add(&larder, "/small", b"laid over it");
    add(&larder, "/large", &vec![b'o'; 300_000]);
    let mut client = larder.client();
    for number in 0..100 {
        client.get(&format!("/{number}"));
    }
    assert!(larder.counter("cache_evictions") > 0, "the RAM tier was full");
    larder.advance(30 * 86_400);
    let config = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(
        larder.config(),
        config.replace("workers = 2", "workers = 2\nlimits.drain_timeout = \"5s\""),
    )
    .unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("it is reloaded", || larder.counter("config_reloads") >= 1);
    assert_eq!("laid over it", larder.get("/small").text());
    assert_eq!(vec![b'o'; 300_000], larder.get("/large").body);
}

#[test]
fn a_refused_overlay_changes_nothing() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\noriginal");
    let larder =
        Larder::before_with(&origin, "", "[admin]\nlisten = \"127.0.0.1:0\"\noverlay_size = \"100KiB\"");
    add(&larder, "/page", b"laid over it");
    #[track_caller]
    fn check(larder: &Larder, method: &str, path: &str, body: &[u8], status: u16, says: &str) {
        let (found, report) = admin(larder, method, path, "", body);
        assert_eq!(status, found, "{path}: {report}");
        let detail = report["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{path}: {detail}");
    }
    let put = |query: &str, status, says| {
        check(&larder, "PUT", &format!("/api/v1/overlays?{query}"), b"new", status, says);
    };
    put("", 400, "The parameter uri is missing");
    put("uri=", 400, "has no path");
    put("uri=%2Fpage%C3", 400, "%XX must decode to valid UTF-8");
    put("uri=%2Fpage&ttl=0", 400, "allowed: a whole number from 1 to 315360000");
    put("uri=%2Fpage&ttl=soon", 400, "found \"soon\"");
    put("uri=%2Fpage&status=304", 400, "allowed: 200, or 400 to 599");
    put("uri=%2Fpage&colour=red", 400, "\"colour\" is unknown; known here: uri, ttl, status.");
    put("uri=%2F*", 400, "is a pattern; an overlay covers one URI");
    put("uri=http%3A%2F%2Fh%2Fshop%2F*", 400, "is a pattern; an overlay covers one URI");
    put("uri=ftp%3A%2F%2Fh%2Fx", 400, "write /PATH for every host");
    for host in ["h:port", "h:123456", "[::1", "a:b:c"] {
        put(&format!("uri=http%3A%2F%2F{host}%2Fx"), 400, "No request can be for *://");
    }
    // Encoded, it is longer than any target that is taken.
    put(&format!("uri=%2F{}", "+".repeat(3_000)), 400, "No request can be for /%20%20");
    check(&larder, "PUT", "/api/v1/overlays?uri=/page", &[b'x'; 200_000], 507, "raise admin.overlay_size");
    check(&larder, "POST", "/cache/add//page", &[b'x'; 200_000], 507, "raise admin.overlay_size");
    check(&larder, "POST", "/cache/reset//other", b"", 404, "No overlay is set for /other");
    assert_eq!("laid over it", larder.get("/page").text());
    assert_eq!(1, larder.counter("overlays"));
    assert_eq!(2, larder.counter("overlays_refused"));
}

#[test]
fn from_the_command_line() {
    let (_origin, larder) = everything();
    let soon = larder.folder.path().join("soon.html");
    std::fs::write(&soon, "<!doctype html>soon").unwrap();
    let admin = larder.admin.to_string();
    let fetch = |words: &[&str]| run(larder.folder.path(), &[words, &["--admin", &admin]].concat());
    let added =
        fetch(&["overlay", "add", "/a b?c", soon.to_str().unwrap(), "--status", "503", "--ttl", "1h"]);
    assert_eq!(0, added.code, "{added:?}");
    assert!(
        added.out.starts_with("overlay set: /a%20b?c (503, text/html; charset=utf-8, 19 bytes, until "),
        "{added:?}"
    );
    let shown = larder.get("/a%20b?c");
    assert_eq!((503, "<!doctype html>soon"), (shown.status, shown.text().as_str()));
    let listed = fetch(&["overlay", "list"]);
    assert!(listed.out.starts_with("       1 hits  /a%20b?c (503"), "{listed:?}");
    let removed = fetch(&["overlay", "remove", "/a b?c"]);
    assert!(removed.out.starts_with("overlay removed: /a%20b?c"), "{removed:?}");
    assert_eq!(200, larder.get("/a%20b?c").status);
    let again = fetch(&["overlay", "remove", "/a b?c"]);
    assert_eq!(1, again.code, "{again:?}");
    assert!(again.err.contains("No overlay is set for /a%20b?c"), "{again:?}");
    let unread = fetch(&["overlay", "add", "/x", "/nowhere"]);
    assert!(unread.err.contains("/nowhere cannot be read: no such file or directory."), "{unread:?}");
}
