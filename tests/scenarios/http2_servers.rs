//! Before real servers of HTTP/2, nghttpd and nginx: over TCP and a Unix socket, in clear text and in TLS.

use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::http2_servers::{Server, Speaks};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin};
use serde_json::Value;

fn before(server: &Server, authority: &Authority) -> Larder {
    let (url, ca) = (&server.url, authority.path("ca.pem"));
    let tls = if url.starts_with("https:") {
        format!(", http2 = true, tls = {{ ca = {ca:?} }}")
    } else {
        String::new()
    };
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [{url:?}]{tls} }}\n"
    ))
}

/// Everything that is asked of each: pages that are stored, bodies both ways, large ones, trailers, validation.
fn check(server: &Server, authority: &Authority, large: &[u8]) -> Larder {
    let larder = before(server, authority);
    let about = &server.url;
    for times in 0..2 {
        let page = larder.get("/page.txt");
        assert_eq!((200, "page", times > 0), (page.status, &*page.text(), page.is_hit()), "{about}");
    }
    let length = server.has_lengths.then_some("200000");
    let head = larder.client().request("HEAD", "/large.bin", "", "");
    assert_eq!((200, length, 0), (head.status, head.field("content-length"), head.body.len()), "{about}");
    let whole = larder.get("/large.bin");
    assert!(whole.status == 200 && whole.complete && whole.body == large, "{about}: {}", whole.body.len());
    assert!(larder.get("/large.bin").is_hit(), "{about}");
    assert_eq!(404, larder.get("/none").status, "{about}");
    let letters = "x".repeat(200_000);
    for body in ["a=b", &letters] {
        let answer = larder.client().request("POST", "/echo", "", body);
        assert!(answer.status == 200 && answer.body == body.as_bytes(), "{about}: {}", answer.status);
    }
    let mut client = Http2::connect(&larder);
    let stream = client.head(&request("POST", "/echo", &[]), 0);
    client.data(stream, b"a=b", END_STREAM);
    let answer = client.answer(stream);
    assert_eq!("a=b", answer.text(), "{about}");
    // Behind a length none are sent on.
    let passes = answer.trailers.contains(&("x-sum".to_owned(), "7".to_owned()));
    assert_eq!(answer.field("content-length").is_none(), passes, "{about}: {answer:?}");
    // What still holds is validated.
    larder.advance(100_000);
    assert_eq!("page", larder.get("/page.txt").text(), "{about}");
    assert_eq!(1, larder.counter("cache_validated"), "{about}");
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    assert_eq!("HTTP/2.0", stats["origins"][0]["protocol"], "{about}");
    assert_eq!(1, larder.counter("origin_http2_connects"), "{about}");
    assert_eq!(0, larder.counter("origin_bad_responses"), "{about}");
    larder
}

fn files(large: &[u8]) -> [(&'static str, &[u8]); 2] {
    [("page.txt", b"page"), ("large.bin", large)]
}

fn large() -> Vec<u8> {
    (0..200_000_u32).map(|it| it.to_be_bytes()[3] ^ it.to_be_bytes()[2]).collect()
}

#[test]
fn nghttpd() {
    let (authority, large) = (Authority::new(), large());
    authority.sign("origin", &["localhost"]);
    for speaks in [Speaks::Clear, Speaks::Tls] {
        check(&Server::nghttpd(&files(&large), speaks, &authority), &authority, &large);
    }
}

#[test]
fn nginx() {
    let (authority, large) = (Authority::new(), large());
    authority.sign("origin", &["localhost"]);
    let echo = Origin::new(|asked| {
        let body = String::from_utf8_lossy(&asked.body);
        format!("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    });
    for speaks in [Speaks::Clear, Speaks::Tls] {
        let server = Server::nginx(&files(&large), speaks, &authority, &echo);
        let larder = check(&server, &authority, &large);
        // What holds no more comes anew. (nghttpd remembers files by itself.)
        server.write("page.txt", b"another page");
        larder.advance(100_000);
        assert_eq!("another page", larder.get("/page.txt").text(), "{}", server.url);
    }
}
