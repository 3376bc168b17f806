//! Messages that pass unchanged: bodies both ways, interim responses, trailers, HEAD, methods.

use crate::harness::command::run;
use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, Pages};

#[test]
fn bodies_reach_the_origin_whole() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    let body = "x".repeat(300_000);
    let mut client = larder.client();
    assert_eq!("ok", client.request("POST", "/length", "", &body).text());
    client.send("PUT /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n");
    assert_eq!("ok", client.read().text());
    let received = origin.received();
    assert_eq!(300_000, received[0].body.len());
    assert!(String::from_utf8_lossy(&received[1].body).contains("hello"));
    assert_eq!(Some("chunked"), received[1].field("transfer-encoding"));
}

#[test]
fn early_hints_and_trailers_pass() {
    let origin = Origin::scripted(|_| {
        let mut text = response("HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n\n");
        text.extend_from_slice(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
        );
        vec![Script::Send(text)]
    });
    let larder = Larder::before(&origin, "");
    for cache in ["first", "second"] {
        let it = larder.get(&format!("/{cache}"));
        assert_eq!(1, it.interim.len(), "{it:?}");
        assert_eq!(103, it.interim[0].0);
        assert_eq!("abc", it.text());
        assert_eq!([("X-Sum".to_owned(), "7".to_owned())], it.trailers[..]);
    }
}

#[test]
fn hop_by_hop_fields_stay_here() {
    let origin =
        Origin::fixed("HTTP/1.1 200 OK\nConnection: X-Hop\nX-Hop: 1\nKeep-Alive: timeout=5\nX-End: 2\n\nok");
    let larder = Larder::before(&origin, "");
    let it =
        larder.client().get_with("/", "Connection: X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\nTE: trailers\r\n");
    assert_eq!((None, None, Some("2")), (it.field("x-hop"), it.field("keep-alive"), it.field("x-end")));
    let received = &origin.received()[0];
    assert_eq!((None, Some("2")), (received.field("x-mine"), received.field("x-other")));
    assert_eq!(Some("1.1 larder"), received.field("via"));
    assert!(it.field("via").is_some_and(|it| it.contains("larder")));
}

#[test]
fn head_is_answered_from_a_stored_get() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nhello");
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let head = larder.client().request("HEAD", "/", "", "");
    assert_eq!((200, Some("5"), 0), (head.status, head.field("content-length"), head.body.len()));
    assert!(head.is_hit());
    assert_eq!(1, origin.requests());
}

#[test]
fn an_origin_that_is_away_is_a_502_with_one_sentence() {
    let origin = Origin::scripted(|_| vec![Script::Close]);
    let larder = Larder::before(&origin, "");
    let it = larder.get("/");
    assert_eq!(502, it.status);
    assert!(it.text().contains("The origin is unreachable, or its response was invalid."), "{}", it.text());
}

#[test]
fn a_client_that_names_no_host_gets_the_origins_own() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!("ok", client.read().text());
    assert_eq!(Some(origin.address.to_string().as_str()), origin.received()[0].field("host"));
}

#[test]
fn a_client_that_waits_for_100_has_it() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(b"HTTP/1.1 100 Continue\r\n\r\n", &client.read_bytes(25)[..]);
    client.send("hello");
    assert_eq!("ok", client.read().text());
    let received = &origin.received()[0];
    assert_eq!((&b"hello"[..], None), (&received.body[..], received.field("expect")));
}

#[test]
fn a_get_with_a_body_passes_the_cache() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60"]);
    for number in 1..=2 {
        assert!(page.ask_unexplained("GET", "", "what").cache().contains("fwd=bypass"));
        assert_eq!(number, page.requests());
    }
    assert_eq!(b"", &page.received()[0].body[..]);
    assert!(!page.get("").is_hit(), "it was not stored");
}

#[test]
fn old_clients_are_answered_from_the_store_as_well() {
    let origin = Origin::scripted(|_| {
        let text = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        vec![Script::Send(text.to_vec())]
    });
    let larder = Larder::before(&origin, "");
    for hit in [false, true] {
        let mut client = larder.client();
        let it = client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n").read();
        assert_eq!((hit, "hello", None), (it.is_hit(), it.text().as_str(), it.field("transfer-encoding")));
        assert!(client.is_closed());
    }
}

#[test]
fn a_larder_that_is_its_own_origin_answers_508() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let id = origin.received()[0].field("cdn-loop").unwrap().to_owned();
    let once_more = larder.client().get_with("/other", &format!("CDN-Loop: somebody, {id}; x=1\r\n"));
    assert_eq!(508, once_more.status, "{once_more:?}");
    assert_eq!(200, larder.client().get_with("/other", "CDN-Loop: somebody\r\n").status);
    assert_eq!(2, origin.requests());
}

#[test]
fn max_forwards_of_options_is_obeyed() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nthe origin");
    let larder = Larder::before(&origin, "");
    let fetch = |method: &str, target: &str, value: &str| {
        larder.client().request(method, target, &format!("Max-Forwards: {value}\r\n"), "")
    };
    for target in ["/", "*"] {
        let it = fetch("OPTIONS", target, "0");
        assert_eq!(
            (200, true),
            (it.status, it.field("allow").is_some_and(|it| it.contains("GET"))),
            "{it:?}"
        );
        assert_ne!("the origin", it.text());
    }
    assert_eq!(0, origin.requests());
    for (method, value, passed) in [
        ("OPTIONS", "1", "0"),
        ("OPTIONS", "10", "9"),
        ("OPTIONS", "00", ""),
        ("OPTIONS", "99999999999999999999999", "18446744073709551614"),
        ("OPTIONS", "-1", "-1"),
        ("OPTIONS", "x", "x"),
        ("OPTIONS", "1, 1", "1, 1"),
        ("GET", "0", "0"),
        ("POST", "5", "5"),
    ] {
        let before = origin.requests();
        let it = fetch(method, "/", value);
        assert_eq!(200, it.status, "{method} {value}");
        let received = origin.received();
        let found = received.get(before).map_or("", |it| it.field("max-forwards").unwrap_or("none"));
        assert_eq!(passed, found, "{method} {value}");
    }
    let twice = larder.client().request("OPTIONS", "/", "Max-Forwards: 0\r\nMax-Forwards: 0\r\n", "");
    assert_eq!("the origin", twice.text(), "two say nothing");
    assert_eq!(405, fetch("TRACE", "/", "0").status);
}

#[test]
fn an_unrequested_304_is_a_bad_response() {
    let origin = Origin::fixed("HTTP/1.1 304 Not Modified\nETag: \"a\"\n\n");
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    assert_eq!(502, client.get("/").status);
    assert_eq!(304, client.get_with("/", "Cache-Control: no-store\r\nIf-None-Match: \"a\"\r\n").status);
}

/// Where nothing is kept of it there is nothing that it could spoil: it is passed on, as every other status is.
#[test]
fn an_unrequested_304_is_passed_on_if_it_is_not_stored() {
    let answer = "HTTP/1.1 304 Not Modified\nETag: \"a\"\n\n";
    let origin = Origin::fixed(answer);
    let larder = Larder::before(&origin, "enabled = false");
    let found = larder.get("/");
    assert_eq!((304, Some("\"a\""), 0), (found.status, found.field("etag"), found.body.len()));
    let larder = Larder::before(&origin, "private_cookies = [\"session\"]");
    assert_eq!(304, larder.client().get_with("/", "Cookie: session=1\r\n").status);
    assert_eq!(304, larder.client().request("POST", "/", "", "x").status);
    assert_eq!(502, larder.get("/").status, "what is kept for others has to be a page");
}

/// A `%` without two hexadecimal digits was sent on as `%25`, a `|` as `%7C`: another target, of which the client heard nothing.
#[test]
fn a_malformed_target_reaches_the_origin_as_it_came_and_no_cache() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok");
    for cache in ["", "enabled = false"] {
        let larder = Larder::before(&origin, cache);
        for target in ["/100%", "/%zz/a?b=%4", "/a%2|[x]\"<>\\?%", "/\"a\"", "/<a", "/a>", "/a\\b"] {
            for method in ["GET", "GET", "HEAD", "POST", "DELETE"] {
                let mut client = larder.client();
                client.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
                let found = client.read_for(method);
                let line = origin.received().pop().unwrap().line().to_owned();
                assert_eq!((200, format!("{method} {target} HTTP/1.1")), (found.status, line));
                let is_read = matches!(method, "GET" | "HEAD");
                let detail = if cache.is_empty() && is_read { "; detail=malformed-target" } else { "" };
                let by = if cache.is_empty() && !is_read { "method" } else { "bypass" };
                assert_eq!(format!("larder; fwd={by}; fwd-status=200{detail}"), found.cache());
            }
        }
    }
    let larder = Larder::before(&origin, "");
    let mut http2 = crate::harness::http2::Http2::connect(&larder);
    for _ in 0..2 {
        let found = http2.get("/%zz|");
        assert!(found.field("cache-status").unwrap().ends_with("detail=malformed-target"), "{found:?}");
        assert_eq!("/%zz|", origin.received().pop().unwrap().target());
    }
}

/// Browsers send these bytes in queries as they are. Each spelling is a page of its own, as for the origin.
#[test]
fn unescaped_bytes_in_queries_of_browsers_are_cached_unchanged() {
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", it.target()));
    let larder = Larder::before(&origin, "");
    let mut http2 = crate::harness::http2::Http2::connect(&larder);
    for target in ["/?family=a|b", "/?family=a%7Cb", "/?f[]=1", "/?f%5B%5D=1", "/a|b?{c}^d`", "/a%7Cb?{c}^d`"]
    {
        assert_eq!(
            (false, target.to_owned()),
            (larder.get(target).is_hit(), origin.received().pop().unwrap().target().to_owned())
        );
        let found = larder.get(target);
        assert_eq!((true, target), (found.is_hit(), &*found.text()));
        assert!(http2.get(target).field("cache-status").unwrap().starts_with("larder; hit"), "{target}");
    }
    let command = |target: &str| {
        let url = format!("http://h{target}");
        let admin = larder.admin.to_string();
        run(larder.folder.path(), &["purge", &url, "--admin", &admin])
    };
    assert!(command("/?family=a|b").out.contains("  ram: 1 response removed\n"));
    assert_eq!((false, true), (larder.get("/?family=a|b").is_hit(), larder.get("/?family=a%7Cb").is_hit()));
    let refused = command("/a\"");
    assert!(refused.code == 2 && refused.err.contains("nothing is stored under such a URL"), "{refused:?}");
    larder.client().request("POST", "/?f[]=1", "", "");
    assert!(!larder.get("/?f[]=1").is_hit(), "an unsafe method invalidates what it names");
}

#[test]
fn explain_predicts_broken_escapes_and_passed_bodies() {
    let pages = Pages::new("get_bodies = \"pass\"");
    let page = pages.page(&["Cache-Control: max-age=60"]).with_query("a=100%");
    assert_eq!("pass", pages.predict("GET", &page.target, ""));
    page.get("");
    assert_eq!(crate::harness::pages::Second::Miss, page.get_again(""));
}

/// An application that is asked by its own name sends its clients there.
#[test]
fn the_origins_own_address_is_written_back() {
    let url = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let own = url.clone();
    let origin = Origin::new(move |it| {
        let own = own.get().unwrap();
        assert_eq!(it.field("host"), own.strip_prefix("http://"));
        let kept = if it.target() == "/kept" { "Cache-Control: max-age=60\n" } else { "" };
        format!(
            "HTTP/1.1 302 Found\n{kept}Location: {own}/next?a=b\nContent-Location: {own}/this\nRefresh: 5; url={own}/soon\nLink: <{own}/>\n\n"
        )
    });
    url.set(origin.url()).unwrap();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"], preserve_host = false }}\n",
        origin.url()
    ));
    let mut client = larder.client();
    for (method, target) in [("GET", "/kept"), ("GET", "/kept"), ("GET", "/new"), ("POST", "/new")] {
        let found = client.request(method, target, "", "");
        let named = [found.field("location"), found.field("content-location")];
        assert_eq!([Some("http://h/next?a=b"), Some("http://h/this")], named, "{method} {target}");
        assert_eq!(Some("5; url=http://h/soon"), found.field("refresh"), "{method} {target}");
        assert_eq!(Some(format!("<{}/>", origin.url()).as_str()), found.field("link"));
    }
    assert!(larder.get("/kept").is_hit());
}

/// An application that ignores `Host` sends its clients to its own address; an address of the group is meant, whichever
/// origin responds.
#[test]
fn the_own_address_of_an_origin_that_ignores_host_is_written_back() {
    let origin = Origin::new(|it| {
        assert_eq!(Some("h"), it.field("host"));
        let to = it.field("x-to").unwrap().to_owned();
        format!(
            "HTTP/1.1 302 Found\nLocation: {to}\nContent-Location: {to}\nRefresh: 5; url={to}\n\
             Set-Cookie: a=b; Domain=127.0.0.1\n\n"
        )
    });
    let [second, of_other_route] = [(); 2].map(|()| Origin::fixed("HTTP/1.1 200 OK\n\n"));
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/other\"\nproxy = {{ to = [\"{}\"] }}\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"], backup = [\"{}\"] }}\n",
        of_other_route.url(),
        origin.url(),
        second.url()
    ));
    let mut client = larder.client();
    let mut check = |reference: &str, expect: &str| {
        let found = client.request("GET", "/x", &format!("X-To: {reference}\r\n"), "");
        for name in ["location", "content-location"] {
            assert_eq!(Some(expect), found.field(name), "{name}: {reference}");
        }
        assert_eq!(Some(format!("5; url={expect}").as_str()), found.field("refresh"));
        assert_eq!(Some("a=b"), found.field("set-cookie"));
    };
    let (own, bare) = (origin.url(), origin.url().replace("http:", ""));
    check(&format!("{own}/next?a=b"), "http://h/next?a=b");
    check(&format!("{bare}/next"), "http://h/next");
    check(&format!("{}/next", second.url()), "http://h/next");
    let others = [
        format!("{}/next", of_other_route.url()),
        format!("{own}0/next"),
        format!("{own}@evil.test/next"),
        own.replace("http://", "http://user@"),
        own.replace("127.0.0.1", "127.0.0.1.evil.test"),
        "http://127.0.0.1/next".to_owned(),
        format!("https://evil.test/?to={own}/"),
        "https://h/next".to_owned(),
    ];
    others.iter().for_each(|it| check(it, it));
}

/// Elasticsearch takes its queries from the body of a GET.
#[test]
fn the_body_of_a_get_reaches_the_application_of_a_route_with_get_bodies() {
    let origin = Origin::new(|it| {
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{} {}",
            it.number,
            String::from_utf8_lossy(&it.body)
        )
    });
    let larder = Larder::before(&origin, "get_bodies = \"pass\"");
    let json = "Content-Type: application/json\r\n";
    assert_eq!("0 {query}", larder.client().request("GET", "/_search", json, "{query}").text());
    assert_eq!(Some("application/json"), origin.received()[0].field("content-type"));
    assert_eq!("1 {other}", larder.client().request("GET", "/_search", json, "{other}").text());
    assert_eq!("2 ", larder.get("/_search").text(), "nothing was kept of either");
    let found = larder.client().request("GET", "/_search", json, "{query}");
    assert_eq!("3 {query}", found.text(), "nor is one answered from what is kept");
    assert!(found.cache().starts_with("larder; fwd=bypass"), "{}", found.cache());
    assert!(larder.get("/_search").is_hit());
    assert_eq!(0, larder.counter("get_bodies_dropped"));
    let chunked =
        "GET /_search HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let mut client = larder.client();
    assert!(client.send(chunked).read().text().contains("abc"));
    assert!(client.get("/_search").is_hit(), "the connection goes on");

    let uncached = Larder::before(&origin, "enabled = false");
    assert!(uncached.client().request("GET", "/_search", json, "{third}").text().ends_with(" {third}"));
    assert!(uncached.client().send(chunked).read().text().contains("abc"));
    assert_eq!(0, uncached.counter("get_bodies_dropped"));
}

/// The order to send a file is for a server in front of the application: a client would see its path.
#[test]
fn orders_to_send_a_file_are_removed() {
    let origin = Origin::new(|it| {
        let name = it.target().trim_start_matches('/').to_owned();
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\nCDN-Cache-Control: max-age=60\n{name}: /private/report.pdf\n\n"
        )
    });
    let larder = Larder::before(&origin, "");
    for name in ["X-Accel-Redirect", "X-Sendfile", "x-lighttpd-send-file"] {
        for method in ["GET", "GET", "POST", "HEAD"] {
            let it = larder.client().request(method, &format!("/{name}"), "", "");
            assert_eq!((200, None, false), (it.status, it.field(name), it.is_hit()), "{method} {name}");
        }
    }
    assert_eq!(12, origin.requests(), "nothing is stored");
}
