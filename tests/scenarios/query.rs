//! QUERY (RFC 10008): responses are stored by a digest of the request's body, where the route says so.

use crate::harness::command::run;
use crate::harness::http2::{END_STREAM, Http2, request};
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::tiers::{disk, killed, node_with, settled, written};
use crate::harness::{Larder, Memcached, Origin, Response, until};

const ON: &str = "query = true";
const JSON: &str = "Content-Type: application/json\r\n";

/// What an application does of a QUERY: it repeats what decides its answer.
fn echo(it: &Received) -> String {
    let field = |name| it.field(name).unwrap_or("-").to_owned();
    let body = String::from_utf8_lossy(&it.body).into_owned();
    format!(
        "{} {} {} {body}",
        it.line().split(' ').next().unwrap(),
        field("content-type"),
        field("content-encoding")
    )
}

fn application() -> Origin {
    Origin::new(|it| {
        let lines = "Cache-Control: max-age=60\nETag: \"1\"\nAccept-Query: \"application/json\"";
        format!("HTTP/1.1 200 OK\n{lines}\n\n{}", echo(it))
    })
}

fn fetch(larder: &Larder, lines: &str, body: &str) -> Response {
    larder.client().request("QUERY", "/search", lines, body)
}

#[test]
fn one_body_is_one_stored_response() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    for body in ["{\"a\":1}", "{\"a\":2}", "{\"a\":1} "] {
        let first = fetch(&larder, JSON, body);
        assert_eq!(format!("QUERY application/json - {body}"), first.text());
        assert!(!first.is_hit(), "{body}");
        let second = fetch(&larder, JSON, body);
        assert_eq!((first.text(), true), (second.text(), second.is_hit()), "{body}");
        assert_eq!(Some("\"application/json\""), second.field("accept-query"));
    }
    assert_eq!(3, origin.requests());
    assert_eq!("GET - - ", larder.get("/search").text());
    assert!(fetch(&larder, JSON, "{\"a\":1}").is_hit(), "a GET of the URL is another response");
    assert_eq!(4, origin.requests());
    let sent = origin.received()[0].clone();
    assert_eq!(Some("7"), sent.field("content-length"));
    assert!(!sent.head.contains(":query"), "{}", sent.head);
}

#[test]
fn the_fields_that_describe_the_body_are_in_the_key() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    let lines = [
        "Content-Type: application/json\r\n",
        "Content-Type: application/sql\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "Content-Type: application/json\r\nContent-Language: de\r\n",
        "Content-Type: application/json; charset=utf-8\r\n",
    ];
    for it in lines {
        assert!(!fetch(&larder, it, "x").is_hit(), "{it}");
    }
    for it in lines {
        assert!(fetch(&larder, it, "x").is_hit(), "{it}");
    }
    assert_eq!(lines.len(), origin.requests());
}

/// Without a type the body has no meaning; the application has to refuse it. With two, servers differ.
#[test]
fn without_one_content_type_nothing_is_stored() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    for lines in ["", "Content-Type: \r\n", "Content-Type: a/b\r\nContent-Type: c/d\r\n"] {
        for _ in 0..2 {
            let answer = fetch(&larder, lines, "x");
            assert!(!answer.is_hit() && answer.text().ends_with(" x"), "{lines}: {answer:?}");
        }
    }
    assert_eq!(6, origin.requests());
}

#[test]
fn off_by_default() {
    let origin = application();
    let larder = Larder::before(&origin, "");
    for _ in 0..2 {
        assert_eq!("QUERY application/json - x", fetch(&larder, JSON, "x").text());
    }
    assert_eq!(2, origin.requests());
}

/// A larger body passes, streamed, and nothing of it is lost; also where its length is not known before.
#[test]
fn a_large_body_bypasses_the_cache() {
    let origin = Origin::new(|it| {
        let digits = it.body.iter().filter(|it| **it == b'7').count();
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{digits}")
    });
    let larder = Larder::before(&origin, "query = true, query_body = \"1KiB\"");
    let (fits, exceeds) = ("7".repeat(1024), "7".repeat(1025));
    assert_eq!("1024", fetch(&larder, JSON, &fits).text());
    assert!(fetch(&larder, JSON, &fits).is_hit());
    let chunked = format!("{JSON}Transfer-Encoding: chunked\r\n");
    for _ in 0..2 {
        let answer = fetch(&larder, JSON, &exceeds);
        assert_eq!(("1025".to_owned(), false), (answer.text(), answer.is_hit()));
        let mut client = larder.client();
        client.send(format!("QUERY /search HTTP/1.1\r\nHost: h\r\n{chunked}\r\n400\r\n{fits}\r\n"));
        client.send(format!("200\r\n{}\r\n0\r\n\r\n", "7".repeat(512)));
        let answer = client.read_for("QUERY");
        assert_eq!(("1536".to_owned(), false), (answer.text(), answer.is_hit()));
    }
    assert_eq!(5, origin.requests());
}

/// The framing of a body is not part of its meaning: chunked, after `100 Continue` and over HTTP/2 it is the same.
#[test]
fn any_framing_and_version_is_the_same_query() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    let expect = "QUERY application/json - abcdef";
    let mut client = larder.client();
    client.send(format!("QUERY /search HTTP/1.1\r\nHost: h\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"));
    client.send("3\r\nabc\r\n3\r\ndef\r\n0\r\nX-Trailer: 1\r\n\r\n");
    assert_eq!(expect, client.read_for("QUERY").text());
    assert!(fetch(&larder, JSON, "abcdef").is_hit());
    let mut client = larder.client();
    let head = format!(
        "QUERY /search HTTP/1.1\r\nHost: h\r\n{JSON}Expect: 100-continue\r\nContent-Length: 6\r\n\r\n"
    );
    assert!(client.send(head).is_told_to_continue());
    let answer = client.send("abcdef").read_for("QUERY");
    assert_eq!((expect.to_owned(), true), (answer.text(), answer.is_hit()));
    assert_eq!("GET - - ", client.get("/search").text(), "the connection is still in step");
    let mut h2 = Http2::connect(&larder);
    let id = h2.head(&request("QUERY", "/search", &[("content-type", "application/json")]), 0);
    h2.data(id, b"abc", 0);
    h2.data(id, b"def", END_STREAM);
    let answer = h2.answer(id);
    assert_eq!(expect, answer.text());
    assert!(answer.field("cache-status").unwrap().contains("; hit"));
    assert_eq!(2, origin.requests());
}

#[test]
fn an_empty_body_is_a_body() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    for expect in [false, true] {
        let answer = fetch(&larder, &format!("{JSON}Content-Length: 0\r\n"), "");
        assert_eq!((expect, "QUERY application/json - "), (answer.is_hit(), answer.text().as_str()));
    }
}

#[test]
fn conditions_and_ranges() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    let range = format!("{JSON}Range: bytes=0-1\r\nIf-Range: \"1\"\r\n");
    for _ in 0..2 {
        let answer = fetch(&larder, &range, "x");
        assert_eq!((200, "QUERY application/json - x"), (answer.status, answer.text().as_str()));
    }
    let matches = format!("{JSON}If-None-Match: \"1\"\r\n");
    assert_eq!(304, fetch(&larder, &matches, "x").status);
    assert_eq!(304, fetch(&larder, &matches, "y").status);
    assert!(fetch(&larder, JSON, "y").text().ends_with(" y"), "the whole was stored");
    assert_eq!(2, origin.requests());
    for it in origin.received() {
        assert_eq!((None, None), (it.field("range"), it.field("if-none-match")), "{}", it.head);
    }
}

/// A stale response is validated with the body, and stale-while-revalidate asks with it in the background.
#[test]
fn validations_have_the_body() {
    let origin = Origin::new(|it| {
        let lines = "Cache-Control: max-age=10, stale-while-revalidate=30\nETag: \"1\"";
        match it.field("if-none-match") {
            Some(_) => format!("HTTP/1.1 304 Not Modified\n{lines}\n\n"),
            None => format!("HTTP/1.1 200 OK\n{lines}\n\n{}", echo(it)),
        }
    });
    let larder = Larder::before(&origin, ON);
    fetch(&larder, JSON, "x");
    larder.advance(100);
    assert_eq!("QUERY application/json - x", fetch(&larder, JSON, "x").text());
    larder.advance(20);
    assert_eq!("QUERY application/json - x", fetch(&larder, JSON, "x").text());
    until("it is validated in the background", || origin.requests() == 3);
    for it in &origin.received()[1..] {
        assert_eq!((Some("\"1\""), &b"x"[..]), (it.field("if-none-match"), &it.body[..]));
    }
}

#[test]
fn unsafe_methods_and_purges_of_the_url_remove_all_queries() {
    let origin = application();
    let larder = Larder::before_with(&origin, ON, "[cache.purge]\nmethod = true\n");
    let fill = |of: &str| {
        let asked = |body: &str| larder.client().request("QUERY", of, JSON, body).is_hit();
        [asked("1"), asked("2")]
    };
    assert_eq!(([false, false], [true, true]), (fill("/a"), fill("/a")));
    assert_eq!([false, false], fill("/ab"));
    for (method, lines) in [("POST", ""), ("PATCH", JSON), ("PURGE", "")] {
        assert!(larder.client().request(method, "/a", lines, "").status < 300, "{method}");
        assert_eq!([false, false], fill("/a"), "{method}");
        assert_eq!([true, true], fill("/a"), "{method}");
        assert_eq!([true, true], fill("/ab"), "{method} on another URL");
    }
}

/// Also where another route of the site has the POST.
#[test]
fn an_unsafe_method_of_another_route() {
    let origin = application();
    let url = origin.url();
    let route = |methods: &str, cache: &str| {
        format!(
            "[[site.route]]\npath = \"/*\"\nmethods = [{methods}]\nproxy = {{ to = [\"{url}\"] }}\ncache = {{ {cache} }}\n"
        )
    };
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n{}{}",
        route("\"QUERY\"", ON),
        route("\"POST\", \"GET\"", "")
    ));
    fetch(&larder, JSON, "x");
    assert!(fetch(&larder, JSON, "x").is_hit());
    assert_eq!(200, larder.client().request("POST", "/search", JSON, "").status);
    assert!(!fetch(&larder, JSON, "x").is_hit());
}

#[test]
fn concurrent_queries_are_one_request() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |it| {
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", echo(it));
        vec![Script::Gate(before.clone()), Script::Send(response(&text))]
    });
    let larder = Larder::before(&origin, ON);
    let body = "same";
    let head = format!("QUERY /search HTTP/1.1\r\nHost: h\r\n{JSON}Content-Length: 4\r\n\r\n{body}");
    let mut clients: Vec<_> = (0..5).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|it| {
        it.send(&head);
    });
    until("the leader is at the gate", || gate.waiting() == 1);
    let mut other = larder.client();
    other.send(head.replace("same", "else"));
    until("another body is another request", || gate.waiting() == 2);
    gate.open();
    for client in &mut clients {
        assert_eq!("QUERY application/json - same", client.read_for("QUERY").text());
    }
    assert_eq!("QUERY application/json - else", other.read_for("QUERY").text());
    assert_eq!(2, origin.requests());
}

/// A client that ends its body early gets no answer, and its part is no query.
#[test]
fn a_truncated_body_is_not_sent_and_not_stored() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    let mut client = larder.client();
    client.send(format!("QUERY /search HTTP/1.1\r\nHost: h\r\n{JSON}Content-Length: 6\r\n\r\nabc"));
    client.shut();
    assert!(matches!(client.read_for("QUERY").status, 0 | 400));
    let answer = fetch(&larder, JSON, "abc");
    assert_eq!((false, "QUERY application/json - abc"), (answer.is_hit(), answer.text().as_str()));
    assert_eq!(1, origin.requests());
}

/// Credentials, Set-Cookie and private responses are as for GET.
#[test]
fn private_answers_are_not_shared() {
    let origin = Origin::new(|it| {
        let kind = it.field("x-kind").unwrap_or("-");
        let lines = match kind {
            "private" => "Cache-Control: private, max-age=60",
            "cookie" => "Cache-Control: max-age=60\nSet-Cookie: a=1",
            "silent" => "ETag: \"1\"",
            _ => "Cache-Control: max-age=60",
        };
        format!("HTTP/1.1 200 OK\n{lines}\n\n{} {}", it.field("cookie").unwrap_or("-"), echo(it))
    });
    let larder = Larder::before(&origin, "query = true, private_cookies = [\"sid\"]");
    let twice = |lines: &str, body: &str| {
        fetch(&larder, &format!("{JSON}{lines}"), body);
        fetch(&larder, &format!("{JSON}{lines}"), body)
    };
    assert!(!twice("X-Kind: private\r\n", "1").is_hit());
    assert!(!twice("X-Kind: cookie\r\n", "2").is_hit());
    assert!(!twice("Authorization: Basic x\r\n", "3").is_hit());
    let session = twice("Cookie: sid=1\r\n", "4");
    assert_eq!((false, "sid=1 QUERY application/json - 4"), (session.is_hit(), session.text().as_str()));
    let other = twice("Cookie: theme=1\r\n", "5");
    assert_eq!((true, "- QUERY application/json - 5"), (other.is_hit(), other.text().as_str()));
}

/// A connection that dies before the answer: the query is sent again, with its body.
#[test]
fn a_query_is_repeated_after_a_dead_connection() {
    let origin = Origin::scripted(|it| match it.number {
        1 => vec![Script::Close],
        _ => vec![Script::Send(response(&format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}",
            echo(it)
        )))],
    });
    let larder = Larder::before(&origin, ON);
    let mut client = larder.client(); // One worker, and so one connection to the origin.
    for body in ["a", "b"] {
        let answer = client.request("QUERY", "/search", JSON, body);
        assert_eq!(format!("QUERY application/json - {body}"), answer.text());
    }
    assert_eq!(3, origin.requests());
    assert_eq!(b"b", &origin.received()[2].body[..]);
}

/// Operators see the digest, never the body.
#[test]
fn the_body_is_shown_nowhere() {
    let origin = application();
    let larder = Larder::before_with(&origin, ON, "[log]\naccess = \"-\"\nformat = \"json\"\n");
    fetch(&larder, JSON, "SECRET-TERM");
    assert!(fetch(&larder, JSON, "SECRET-TERM").is_hit());
    let listed = larder.admin_get("/api/v1/objects").text();
    assert!(listed.contains(" q:") && !listed.contains("SECRET"), "{listed}");
    until("both are logged", || larder.printed().matches("/search").count() >= 2);
    assert!(!larder.printed().contains("SECRET"));
}

#[test]
fn on_disk_and_in_the_fleet() {
    let origin = application();
    let folder = tempfile::tempdir().unwrap();
    let larder = Larder::before_with(&origin, ON, &disk(folder.path()));
    fetch(&larder, JSON, "x");
    written(&larder, 1);
    killed(larder);
    let larder = Larder::before_with(&origin, ON, &disk(folder.path()));
    assert!(!fetch(&larder, JSON, "y").is_hit());
    assert!(fetch(&larder, JSON, "x").is_hit());
    assert_eq!(200, larder.client().request("POST", "/search", JSON, "").status);
    killed(larder);
    let larder = Larder::before_with(&origin, ON, &disk(folder.path()));
    assert!(!fetch(&larder, JSON, "x").is_hit(), "the removal is known after a crash");

    let (origin, memcached) = (application(), Memcached::start());
    let nodes = [node_with(&origin, &memcached, ON), node_with(&origin, &memcached, ON)];
    fetch(&nodes[0], JSON, "x");
    settled(&nodes[0], 1);
    assert!(fetch(&nodes[1], JSON, "x").is_hit());
    assert!(!fetch(&nodes[1], JSON, "y").is_hit());
    assert_eq!(2, origin.requests());
}

/// Fields of clients cannot stand for the digest, and a route's own fields cannot read it.
#[test]
fn no_client_chooses_the_digest() {
    let origin = application();
    let larder = Larder::before(&origin, "query = true, key = { headers = [\"X-A\"] }");
    fetch(&larder, JSON, "x");
    let mut client = larder.client();
    client.send("QUERY /search HTTP/1.1\r\nHost: h\r\n:query: 1\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(400, client.read_for("QUERY").status);
    let forged = format!("{JSON}X-A: 1 q:0\r\n");
    assert!(!fetch(&larder, &forged, "x").is_hit());
    assert!(fetch(&larder, &forged, "x").is_hit() && fetch(&larder, JSON, "x").is_hit());
    let overridden = format!("{JSON}X-HTTP-Method-Override: DELETE\r\n");
    assert!(!fetch(&larder, &overridden, "x").is_hit() && !fetch(&larder, &overridden, "x").is_hit());
    // A field that does not reach the origin is not in the digest.
    let nominated = format!("{JSON}Content-Language: de\r\nConnection: content-language\r\n");
    assert!(fetch(&larder, &nominated, "x").is_hit());
}

/// An answer to a part is no answer to a QUERY, whose `Range` was not sent.
#[test]
fn a_part_that_was_not_asked_for_is_an_error() {
    let lines = "Cache-Control: max-age=60\nContent-Range: bytes 0-0/5";
    let origin = Origin::fixed(&format!("HTTP/1.1 206 Partial Content\n{lines}\n\nx"));
    let larder = Larder::before(&origin, ON);
    assert_eq!(502, fetch(&larder, &format!("{JSON}Range: bytes=0-0\r\n"), "x").status);
}

/// `explain` has no body: it says so, and promises nothing.
#[test]
fn explain_reports_that_it_has_no_body() {
    let origin = application();
    let larder = Larder::before(&origin, ON);
    fetch(&larder, JSON, "x");
    let admin = larder.admin.to_string();
    let asked = [
        "explain",
        "http://h/search",
        "-X",
        "QUERY",
        "-H",
        "Content-Type: application/json",
        "--admin",
        &admin,
    ];
    let output = run(larder.folder.path(), &asked);
    assert!(output.out.contains("explain has no body"), "{output:?}");
}

/// The answer of an origin that does not read the body to its end is stored for that body alone.
#[test]
fn an_origin_that_answers_before_the_body() {
    let origin = Origin::scripted(|it| {
        let head = "HTTP/1.1 410 Gone\nCache-Control: max-age=60\nConnection: close";
        vec![Script::Send(response(&format!("{head}\n\n{}", it.number))), Script::Close]
    });
    let larder = Larder::before(&origin, ON);
    for (body, expect) in [("a", "0"), ("b", "1"), ("a", "0"), ("b", "1")] {
        let answer = fetch(&larder, JSON, body);
        assert_eq!((410, expect), (answer.status, answer.text().as_str()), "{body}");
    }
}
