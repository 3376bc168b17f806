//! The main job: the second GET is a hit with the origin's bytes.

use crate::harness::{Larder, Origin};

#[test]
fn the_second_get_is_a_hit() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\nX-App: 1\n\nhello");
    let larder = Larder::before(&origin, "");
    let first = larder.get("/");
    assert_eq!((200, "hello"), (first.status, first.text().as_str()));
    assert_eq!("larder; fwd=uri-miss; fwd-status=200; stored", first.cache());
    let mut client = larder.client();
    for _ in 0..10_000 {
        let hit = client.get("/");
        assert!(hit.is_hit() && hit.text() == "hello", "{hit:?}");
        assert_eq!((Some("1"), Some("\"a\"")), (hit.field("x-app"), hit.field("etag")));
    }
    assert_eq!(1, origin.requests());
    assert!(larder.counter("cache_hits") >= 10_000);
}

#[test]
fn age_grows_and_freshness_ends() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nhello");
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(59);
    let hit = larder.get("/");
    assert!(hit.is_hit(), "{hit:?}");
    let age: u32 = hit.field("age").unwrap().parse().unwrap();
    assert!((59..=60).contains(&age), "{age}");
    larder.advance(5);
    let miss = larder.get("/");
    assert!(miss.cache().contains("fwd=stale"), "{miss:?}");
    assert_eq!(2, origin.requests());
}

#[test]
fn validation_freshens_and_costs_no_body() {
    let origin = Origin::new(|request| match request.field("if-none-match") {
        Some("\"v1\"") => {
            "HTTP/1.1 304 Not Modified\nETag: \"v1\"\nCache-Control: max-age=100\nX-New: yes\n\n".to_owned()
        }
        _ => "HTTP/1.1 200 OK\nETag: \"v1\"\nCache-Control: max-age=10\n\nbody".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    larder.advance(11);
    let validated = larder.get("/");
    assert_eq!((200, "body"), (validated.status, validated.text().as_str()), "{validated:?}");
    assert_eq!(Some("yes"), validated.field("x-new"));
    larder.advance(50);
    assert!(larder.get("/").is_hit());
    assert_eq!(2, origin.requests());
    let client = larder.client().get_with("/", "If-None-Match: \"v1\"\r\n");
    assert_eq!((304, 0), (client.status, client.body.len()));
    assert_eq!(2, origin.requests());
}

#[test]
fn an_unsafe_method_invalidates() {
    let origin = Origin::new(|request| match request.line().starts_with("GET") {
        true => format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", request.number),
        false => "HTTP/1.1 303 See Other\nLocation: /list\n\n".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    for target in ["/item", "/list", "/other"] {
        larder.get(target);
        assert!(larder.get(target).is_hit());
    }
    assert_eq!(303, larder.client().request("POST", "/item", "", "x=1").status);
    assert!(!larder.get("/item").is_hit());
    assert!(!larder.get("/list").is_hit());
    assert!(larder.get("/other").is_hit());
}

#[test]
fn ranges_of_a_stored_page_are_exact() {
    let body: String = (0..50_000).map(|it| char::from(b'a' + (it % 26) as u8)).collect();
    let answer =
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\nContent-Type: text/x\n\n{body}");
    let origin = Origin::fixed(&answer);
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let mut client = larder.client();
    for (range, expect) in [("0-0", &body[..1]), ("100-40000", &body[100..=40000]), ("-5", &body[49_995..])] {
        let part = client.get_with("/", &format!("Range: bytes={range}\r\n"));
        assert_eq!((206, expect), (part.status, part.text().as_str()), "{range}");
    }
    let many = client.get_with("/", "Range: bytes=0-1,10-11\r\n");
    assert_eq!(206, many.status);
    assert!(many.field("content-type").unwrap().starts_with("multipart/byteranges; boundary="));
    assert!(many.text().contains("Content-Range: bytes 10-11/50000\r\n"), "{}", many.text());
    let none = client.get_with("/", "Range: bytes=50000-\r\n");
    assert_eq!((416, Some("bytes */50000")), (none.status, none.field("content-range")));
    let whole = client.get_with("/", "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n");
    assert_eq!((200, 50_000), (whole.status, whole.body.len()));
    assert_eq!(1, origin.requests());
}
