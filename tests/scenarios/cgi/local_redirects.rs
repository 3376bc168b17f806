//! Local redirects of CGI programs (RFC 3875 §6.2.2): the client gets the response to the target, with its route, its rules and its
//! cache.

use super::{Programs, program};
use crate::harness::http2::{self, Http2};
use crate::harness::{Larder, Response};

/// Programs that redirect, and routes before theirs.
fn site(routes: &str) -> Programs {
    let show = "printf 'X: 1\\n\\n%s %s %s %s' \"$REQUEST_METHOD\" \"$REQUEST_URI\" \"${CONTENT_LENGTH:-none}\" \"${HTTP_IF_MATCH:-none}\"; cat";
    let programs = [
        ("to", "printf 'Location: %s\\n\\n' \"$(printf '%s' \"$QUERY_STRING\" | sed 's/%3F/?/')\""),
        ("typed", "printf 'Content-Type: text/html\\r\\nLocation: /cgi-bin/show\\r\\n\\r\\nMoved.'"),
        ("show", show),
        ("loop", "echo >> \"$FOLDER/runs\"; printf 'Location: /cgi-bin/loop\\n\\n'"),
        ("cached", "echo >> \"$FOLDER/cached\"; printf 'Cache-Control: max-age=60\\n\\ncached'"),
        (
            "works",
            "printf 'Location: /cgi-bin/show\\n\\n'; exec >&- 2>&-; while ! [ -e \"$FOLDER/go\" ]; do sleep 0.02; done; echo done > \"$FOLDER/end\"",
        ),
    ];
    Programs::with(routes, "", &programs)
}

const ROUTES: &str = "[[site.route]]\npath = \"/private/*\"\nrespond = { body = \"for others\" }\naccess = { allow = [\"192.0.2.1\"] }\n\
    [[site.route]]\npath = \"/plain\"\nrespond = { body = \"a fixed answer\" }\nresponse_headers = { set = { X-Route = \"plain\" } }\n\
    [[site.route]]\npath = \"/moved\"\nredirect = { to = \"https://example.com/\" }\n";

fn get(larder: &Larder, target: &str) -> (u16, String) {
    let answer = larder.get(target);
    (answer.status, answer.text())
}

#[test]
fn the_client_gets_the_response_to_the_target() {
    let it = site(ROUTES);
    let show = |rest: &str| (200, format!("GET /cgi-bin/show{rest} none none"));
    assert_eq!(show("?a=b"), get(&it.larder, "/cgi-bin/to?/cgi-bin/show%3Fa=b"));
    assert_eq!(show(""), get(&it.larder, "/cgi-bin/typed"));
    assert_eq!(show(""), get(&it.larder, "/cgi-bin/to?/cgi-bin/to%3F/cgi-bin/show"));
    let plain = it.get("/cgi-bin/to?/plain");
    assert_eq!(
        (200, Some("plain"), "a fixed answer"),
        (plain.status, plain.field("x-route"), &*plain.text())
    );
    assert_eq!(None, plain.field("location"));
    assert_eq!(404, it.get("/cgi-bin/to?/no-route").status);
    assert_eq!(404, it.get("/cgi-bin/to?/cgi-bin/none").status);
    let moved = it.get("/cgi-bin/to?/moved");
    assert_eq!((true, Some("https://example.com/")), (moved.status / 100 == 3, moved.field("location")));
    let mut client = Http2::connect(&it.larder);
    assert_eq!("a fixed answer", client.get("/cgi-bin/to?/plain").text());
    assert_eq!("GET /cgi-bin/show none none", client.get("/cgi-bin/typed").text());
    // The connection goes on.
    let mut client = it.larder.client();
    for _ in 0..2 {
        assert_eq!("a fixed answer", client.get("/cgi-bin/to?/plain").text());
    }
}

/// The body of a POST is for the program that redirects, and so are its conditions.
#[test]
fn the_target_is_read() {
    let it = site(ROUTES);
    let asked = |method: &str, lines: &str| -> Response {
        it.larder.client().request(method, "/cgi-bin/to?/cgi-bin/show", lines, "a=b")
    };
    for method in ["POST", "PUT"] {
        let answer = asked(method, "If-Match: \"x\"\r\nContent-Type: a/b\r\n");
        assert_eq!((200, "GET /cgi-bin/show none none"), (answer.status, &*answer.text()), "{method}");
    }
    let mut client = it.larder.client();
    client.send(
        "POST /cgi-bin/to?/cgi-bin/show HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    );
    assert!(client.is_told_to_continue());
    client.send("3\r\nabc\r\n0\r\n\r\n");
    assert_eq!("GET /cgi-bin/show none none", client.read().text());
    client.send("HEAD /cgi-bin/to?/plain HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.read_for("HEAD");
    assert_eq!((200, Some("plain")), (head.status, head.field("x-route")));
    let mut client = Http2::connect(&it.larder);
    let id = client.head(&http2::request("POST", "/cgi-bin/to?/cgi-bin/show", &[]), http2::END_HEADERS);
    client.data(id, b"a=b", http2::END_STREAM);
    assert_eq!("GET /cgi-bin/show none none", client.answer(id).text());
}

#[test]
fn the_rules_of_the_target_hold() {
    let it = site(ROUTES);
    for target in ["/private/a", "/%70rivate/a", "/x/../private/a"] {
        let answer = it.get(&format!("/cgi-bin/to?{target}"));
        assert_eq!(403, answer.status, "{target}: {}", answer.text());
    }
}

/// Eleven runs: the request of the client and ten redirects.
#[test]
fn redirects_without_an_end_are_502() {
    let it = site("");
    let answer = it.get("/cgi-bin/loop");
    assert_eq!(502, answer.status);
    assert_eq!(11, std::fs::read_to_string(it.folder.path().join("runs")).unwrap().len());
    assert_eq!(200, it.get("/cgi-bin/typed").status, "later requests are answered");
}

/// The redirect is stored under no key; the target is an ordinary page of the cache.
#[test]
fn the_redirect_is_never_stored() {
    let it = site("cache = { override_ttl = \"1h\" }");
    let target = it.folder.path().join("target");
    program(
        &it.folder.path().join("bin/switch"),
        "#!/bin/sh\nprintf 'Location: %s\\n\\n' \"$(cat \"$FOLDER/target\")\"\n",
    );
    for name in ["/cgi-bin/cached", "/cgi-bin/show"] {
        std::fs::write(&target, name).unwrap();
        let expect = if name.ends_with("cached") { "cached" } else { "GET /cgi-bin/show none none" };
        for _ in 0..3 {
            assert_eq!(expect, it.get("/cgi-bin/switch").text());
        }
    }
    assert!(it.get("/cgi-bin/cached").is_hit());
    assert_eq!(1, std::fs::read_to_string(it.folder.path().join("cached")).unwrap().len());
}

/// The request is logged once: as the client sent it, with the route that answered.
#[test]
fn the_log_has_the_request_of_the_client() {
    let it = site(&format!(
        "{ROUTES}[log]\naccess = \"access.log\"\nformat = \"{{method}} {{target}} {{status}}\"\n"
    ));
    assert_eq!(200, it.larder.client().request("POST", "/cgi-bin/to?/plain", "", "a").status);
    let log = it.larder.folder.path().join("access.log");
    let log = || std::fs::read_to_string(&log).unwrap_or_default();
    crate::harness::until("it is logged", || log().ends_with('\n'));
    assert_eq!("POST /cgi-bin/to?/plain 200\n", log());
}

/// A program may run on after its redirect, as after a page.
#[test]
fn a_program_may_run_on_after_its_redirect() {
    let it = site("");
    assert_eq!(200, it.get("/cgi-bin/works").status);
    std::fs::write(it.folder.path().join("go"), "").unwrap();
    assert_eq!("done", it.note("end"));
}

/// The condition of the program's route took part in the choice of the response to the client's URL.
#[test]
fn vary_has_the_condition_of_the_route_that_redirected() {
    let it = site(
        "when = 'header.X-Beta != \"1\"'\n[[site.route]]\npath = \"/*\"\nrespond = { body = \"rest\" }\n",
    );
    let redirected = it.get("/cgi-bin/to?/x");
    assert_eq!(("rest".to_owned(), Some("X-Beta")), (redirected.text(), redirected.field("vary")));
    assert_eq!(None, it.get("/x").field("vary"));
}
