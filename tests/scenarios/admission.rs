//! Admission: answers before the cache, at both speeds and over all protocols.

mod protocols;

use crate::harness::http2::{Http2, request};
use crate::harness::{Larder, Origin};

/// A site of which only `/a/*` is served, and purged by nobody.
fn larder(origin: &Origin) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/a/*\"\n\
         proxy = {{ to = [\"{}\"] }}\ncache = {{ default_ttl = \"60s\", purge = {{ method = false }} }}\n",
        origin.url()
    ))
}

const NO_ROUTE: &str = "404 Not Found\nNo route matches this host and path.\n";

#[test]
fn a_page_of_our_own_is_the_same_at_both_speeds() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin);
    let mut client = larder.client();
    assert_eq!("page", client.get("/a/").text());
    // One write: a hit, what no route answers, and another hit.
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send(
        [get("/a/"), get("/none"), "HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), get("/a/")].concat(),
    );
    assert!(client.read().is_hit());
    let fast = client.read();
    let head = client.read_for("HEAD");
    assert!(client.read().is_hit());
    let slow = client.request("POST", "/none", "", "body");
    let length = NO_ROUTE.len().to_string();
    for it in [&fast, &head, &slow] {
        let fields = ["content-type", "content-length"].map(|name| it.field(name).unwrap_or("-").to_owned());
        assert_eq!((404, ["text/plain; charset=utf-8".to_owned(), length.clone()]), (it.status, fields));
        assert!(it.field("date").is_some());
    }
    assert_eq!(
        [NO_ROUTE, "", NO_ROUTE],
        [fast.text(), head.text(), slow.text()].each_ref().map(String::as_str)
    );
    let mut http2 = Http2::connect(&larder);
    let fast = http2.get("/none");
    let id = http2.head(&request("POST", "/none", &[]), 4);
    http2.data(id, b"body", 1);
    let slow = http2.answer(id);
    assert_eq!([NO_ROUTE, NO_ROUTE], [fast.text(), slow.text()].each_ref().map(String::as_str));
    assert_eq!([404; 2], [fast.status, slow.status]);
    assert_eq!(1, origin.requests());
}

#[test]
fn a_request_answered_before_the_cache_is_logged_and_counted() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin);
    let mut client = larder.client();
    for (method, path, expect) in
        [("GET", "/none", 404), ("POST", "/none", 404), ("PURGE", "/a/", 405), ("PURGE", "/none", 404)]
    {
        assert_eq!(expect, client.request(method, path, "", "").status, "{method} {path}");
    }
    assert_eq!((4, 1), (larder.counter("requests"), larder.counter("purges_refused")));
    assert_eq!(0, origin.requests());
}
