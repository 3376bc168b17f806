//! `respond.status = 444`: the connection is closed without a response, or the stream reset.

use crate::harness::http2::Http2;
use crate::harness::quic::{QuicClient, request};
use crate::harness::secure::Authority;
use crate::harness::{Larder, until};

/// larder with a page, and with no response for other paths and hosts.
fn larder(listen: &str, page: &str) -> Larder {
    Larder::configured(format!(
        "{listen}\nworkers = 1\n[log]\naccess = \"access.log\"\n[[site]]\nhosts = [\"h\", \"localhost\"]\nerror_pages.4xx = {page:?}\n\
         [[site.route]]\npath = \"/page\"\nrespond.body = \"page\"\n\
         [[site.route]]\nrespond.status = 444\n\
         [[site]]\nhosts = \"*\"\n[[site.route]]\nrespond.status = 444\n"
    ))
}

#[test]
fn a_connection_is_closed_without_a_response() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, "an error page").unwrap();
    let larder = larder("listen = [\"127.0.0.1:0\"]", page.to_str().unwrap());
    for head in [
        "GET /a HTTP/1.1\r\nHost: h\r\n",
        "HEAD /a HTTP/1.1\r\nHost: h\r\n",
        "GET / HTTP/1.1\r\nHost: unknown\r\n",
        "GET / HTTP/1.0\r\n",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n",
    ] {
        let mut client = larder.client();
        client.send(format!("{head}\r\n"));
        assert!(client.is_closed(), "{head}");
    }
    // The responses to the requests before it arrive, and those after it have none.
    let mut client = larder.client();
    let [one, none] = ["/page", "/a"].map(|it| format!("GET {it} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client.send(format!("{one}{one}{none}{one}"));
    assert_eq!(["page", "page"], [0, 1].map(|_| client.read().text()));
    assert!(client.is_closed());
    let log = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("the log has them", || log().matches("\" 444 -").count() == 7);
}

#[test]
fn a_stream_is_reset_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, "an error page").unwrap();
    let page = page.to_str().unwrap();
    let larder = larder("listen = [\"127.0.0.1:0\"]", page);
    let mut client = Http2::connect(&larder);
    for _ in 0..3 {
        let id = client.send_get("/a");
        let answer = client.answer(id);
        assert_eq!((0, true), (answer.status, answer.reset.is_some()), "{answer:?}");
        assert_eq!("page", client.get("/page").text());
    }
    let authority = Authority::new();
    let certificate = authority.sign("one", &["localhost"]);
    let listen =
        format!("listen = [\"https://127.0.0.1:0\"]\nhttp3 = true\ntls.certificates = [{certificate}]");
    let larder = self::larder(&listen, page);
    let mut client = QuicClient::begin(larder.address, &authority.trusting(), "localhost");
    for _ in 0..3 {
        let id = client.bi(&request("GET", "/a", &[]), true);
        assert!(client.response(id).is_err());
        let id = client.bi(&request("GET", "/page", &[]), true);
        assert_eq!(Ok(200), client.response(id).map(|it| it.status));
    }
}
