//! The stored fields of a response, messages before and after a body, and the fields added by three larders in a row.

use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, Pages};

#[test]
fn fields_about_a_connection_are_never_stored() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60 | Connection: X-Hop, x-other | X-Hop: 1 | X-Other: 2 | Keep-Alive: timeout=5 \
         | Proxy-Authenticate: Basic | Proxy-Connection: close | Proxy-Authentication-Info: x | TE: gzip | Upgrade: foo \
         | X-End: 1 | Unknown-Field: a | Unknown-Field: b"]);
    for hit in [false, true] {
        let it = page.get("");
        assert_eq!(hit, it.is_hit());
        for name in [
            "x-hop",
            "x-other",
            "keep-alive",
            "proxy-authenticate",
            "proxy-connection",
            "proxy-authentication-info",
            "te",
            "upgrade",
            "trailer",
        ] {
            assert_eq!(None, it.field(name), "{name} {it:?}");
        }
        assert_eq!(Some("1"), it.field("x-end"));
        let unknown: Vec<_> =
            it.fields.iter().filter(|it| it.0 == "Unknown-Field").map(|it| it.1.as_str()).collect();
        assert_eq!(["a", "b"], unknown[..], "lines and their order stay");
    }
}

#[test]
fn a_connection_field_cannot_remove_fields_that_decide_about_storing() {
    let pages = Pages::new("");
    // Storing is decided by what the origin said, and the fields that must be there are sent on.
    for nominated in ["Cache-Control", "Date", "Age", "ETag", "Vary", "Expires"] {
        let page =
            pages.page(&[&format!("Cache-Control: no-store | Connection: {nominated} | Expires: @+60")]);
        page.get("");
        assert!(!page.get("").is_hit(), "{nominated}");
    }
}

#[test]
fn connection_nominated_request_fields_select_no_variant() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60 | Vary: Foo"]);
    page.ask_unexplained("GET", "Foo: 1 | Connection: Foo", "");
    assert_eq!(None, page.received()[0].field("foo"));
    assert!(!page.get("Foo: 1").is_hit(), "the origin saw none");
    assert!(page.get("").is_hit());
    page.get("Foo: 1");
    let stored = page.get("Foo: 1");
    assert!(stored.is_hit() && stored.text() == "answer 2", "{stored:?}");
    // Nor one that is stored: to the origin this is the request without.
    for nominated in ["Foo", "foo", "keep-alive, Foo", "Foo,close", "Keep-Alive | Connection: FOO"] {
        let it = page.ask_unexplained("GET", &format!("Foo: 1 | Connection: {nominated}"), "");
        assert_eq!("answer 1", it.text(), "{nominated}");
    }
    for plain in ["close", "keep-alive", "Keep-Alive, Close"] {
        let it = page.ask_unexplained("GET", &format!("Foo: 1 | Connection: {plain}"), "");
        assert_eq!("answer 2", it.text(), "{plain}");
    }
    assert_eq!(2, page.requests());
}

#[test]
fn interim_responses_pass_and_are_never_stored() {
    let origin = Origin::scripted(|_| {
        let mut text = response("HTTP/1.1 102 Processing\n\n");
        text.extend(response(
            "HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\nCache-Control: max-age=600\n\n",
        ));
        text.extend(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nhello"));
        vec![Script::Send(text)]
    });
    let larder = Larder::before(&origin, "");
    for target in ["/a", "/b"] {
        let it = larder.get(target);
        let interim: Vec<_> = it.interim.iter().map(|it| it.0).collect();
        assert_eq!(([102, 103], "hello"), ([interim[0], interim[1]], it.text().as_str()));
        let hit = larder.get(target);
        assert!(hit.is_hit() && hit.interim.is_empty(), "{hit:?}");
    }
    // Also where the fetch is nobody else's.
    let alone = larder.client().get_with("/c", "Authorization: x\r\n");
    assert_eq!(2, alone.interim.len());
}

#[test]
fn trailers_are_kept_apart_and_replayed() {
    let origin = Origin::scripted(|_| {
        vec![Script::Send(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
              3\r\nabc\r\n0\r\nX-Sum: 7\r\nCache-Control: no-store\r\nContent-Length: 9\r\n\r\n"
                .to_vec(),
        )]
    });
    let larder = Larder::before(&origin, "");
    for hit in [false, true, true] {
        let it = larder.get("/");
        assert_eq!((hit, "abc"), (it.is_hit(), it.text().as_str()), "{it:?}");
        assert!(it.trailers.contains(&("X-Sum".to_owned(), "7".to_owned())), "{it:?}");
        assert_eq!((None, Some("max-age=60")), (it.field("x-sum"), it.field("cache-control")));
        assert!(!it.trailers.iter().any(|it| it.0.eq_ignore_ascii_case("content-length")), "{it:?}");
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn trailers_for_one_client_are_not_shared() {
    let origin = Origin::scripted(|_| {
        vec![Script::Send(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60, private=\"X-Session\", no-cache=\"X-Cart\"\r\n\
              Transfer-Encoding: chunked\r\nConnection: X-Hop\r\n\r\n\
              3\r\nabc\r\n0\r\nX-Session: s\r\nX-Cart: c\r\nSet-Cookie: a=b\r\nSet-Cookie2: a=b\r\n\
              X-Hop: h\r\nX-Sum: 7\r\n\r\n"
                .to_vec(),
        )]
    });
    let larder = Larder::before(&origin, "");
    for hit in [false, true, true] {
        let it = larder.get("/");
        assert_eq!((hit, "abc"), (it.is_hit(), it.text().as_str()), "{it:?}");
        assert_eq!([("X-Sum".to_owned(), "7".to_owned())], it.trailers[..], "{it:?}");
    }
}

#[test]
fn bodies_of_every_framing_are_stored_alike() {
    let origin = Origin::scripted(|request| {
        let text = match request.target() {
            "/length" => "Content-Length: 5\r\n\r\nhello",
            "/chunked" => "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "/close" => "Connection: close\r\n\r\nhello",
            _ => "Content-Length: 0\r\n\r\n",
        };
        vec![
            Script::Send(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{text}").into()),
            Script::Close,
        ]
    });
    let larder = Larder::before(&origin, "");
    for (target, body) in [("/length", "hello"), ("/chunked", "hello"), ("/close", "hello"), ("/empty", "")] {
        assert_eq!(body, larder.get(target).text());
        let hit = larder.get(target);
        assert!(hit.is_hit() && hit.complete, "{hit:?}");
        assert_eq!(
            (body, Some(body.len().to_string().as_str())),
            (hit.text().as_str(), hit.field("content-length"))
        );
    }
}

#[test]
fn three_larders_in_a_row() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nhello");
    let third = Larder::before(&origin, "x_cache = true");
    let second = Larder::before(&at(&third), "x_cache = true");
    let first = Larder::before(&at(&second), "x_cache = true");
    let chain = [&first, &second, &third];
    let one = first.get("/");
    assert_eq!(Some("1.1 larder, 1.1 larder, 1.1 larder"), one.field("via"));
    assert_eq!(["larder; fwd=uri-miss; fwd-status=200; stored"; 3].join(", "), members(&one));
    assert_eq!(Some("MISS"), only(&one, "x-cache"));
    let date = one.field("date").unwrap().to_owned();
    chain.iter().for_each(|it| it.advance(100));
    let hit = first.get("/");
    assert_eq!(Some("1.1 larder, 1.1 larder, 1.1 larder"), hit.field("via"), "once for each");
    assert_eq!((Some(date.as_str()), Some("HIT")), (only(&hit, "date"), only(&hit, "x-cache")));
    assert!(age(&hit) >= 100, "{hit:?}");
    assert!(
        members(&hit).ends_with("larder; hit; ttl=500") || members(&hit).ends_with("larder; hit; ttl=499"),
        "{hit:?}"
    );
    // The second in the row answers the first, which has lost it: its age is that of the third's response.
    let other = Larder::before(&at(&second), "");
    chain.iter().for_each(|it| it.advance(100));
    other.advance(200);
    let middle = other.get("/");
    assert!((200..=203).contains(&age(&middle)), "{middle:?}");
    assert_eq!(Some(date.as_str()), only(&middle, "date"));
    assert!(
        members(&middle).contains("larder; hit; ttl=")
            && members(&middle).ends_with("fwd=uri-miss; fwd-status=200; stored"),
        "{middle:?}"
    );
    other.advance(390);
    let late = other.get("/");
    assert!(members(&late).contains(", larder; hit; ttl=") && age(&late) >= 590, "{late:?}");
    other.advance(15);
    let stale = other.get("/");
    assert!(members(&stale).contains("fwd=stale"), "stale by the age that came with it: {stale:?}");
    assert_eq!(1, origin.requests());
}

/// A running larder as an origin.
fn at(larder: &Larder) -> crate::harness::origin::Place {
    crate::harness::origin::Place { address: larder.address }
}

fn age(response: &crate::harness::Response) -> u32 {
    only(response, "age").unwrap_or("0").parse().unwrap()
}

/// The value of a field that is there once.
#[track_caller]
fn only<'r>(response: &'r crate::harness::Response, name: &str) -> Option<&'r str> {
    assert!(
        response.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name)).count() < 2,
        "{name} {response:?}"
    );
    response.field(name)
}

/// All of `Cache-Status`, its lines joined.
fn members(response: &crate::harness::Response) -> String {
    let lines = response.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("cache-status"));
    lines.map(|it| it.1.as_str()).collect::<Vec<_>>().join(", ")
}

#[test]
fn cache_status_and_x_cache_are_settings() {
    let pages = Pages::new("cache_status = false");
    let page = pages.page(&["Cache-Control: max-age=60 | Cache-Status: other; hit"]);
    for _ in 0..2 {
        let it = page.ask_unexplained("GET", "", "");
        assert_eq!((Some("other; hit"), None), (it.field("cache-status"), it.field("x-cache")));
    }
    assert_eq!(1, page.requests());
}
