//! Statements 7, 8 and 9: one client's response, or the response it provokes, is not served to the next client.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, until};

mod attacks;
mod corpus;

/// An origin that waits at a gate, and says after it what `answer` makes of the request.
fn gated(
    gate: &std::sync::Arc<Gate>,
    answer: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |it| vec![Script::Gate(gate.clone()), Script::Send(response(&answer(it)))])
}

/// Twenty clients ask at once, each with `lines(number)`; each must have what the origin made of its own request.
#[track_caller]
fn each_has_its_own(name: &str, head: &'static str, lines: impl Fn(usize) -> String, field: &'static str) {
    let gate = Gate::new();
    let origin = gated(&gate, move |it| {
        let own = it.field(field).unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\n{}\n\nfor {own}", head.replace("{own}", &own))
    });
    let larder = Larder::before(&origin, "");
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /page HTTP/1.1\r\nHost: h\r\n{}\r\n", lines(number)));
    }
    until("all are there", || larder.counter("requests") == 20);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let it = client.read();
        let own = lines(number);
        let own = own.split_once(": ").map_or("none", |it| it.1.trim());
        assert_eq!(format!("for {own}"), it.text(), "{name}: {number}: {it:?}");
    }
    // And those who come after have theirs.
    for number in [3, 100, 3] {
        let it = larder.client().get_with("/page", &lines(number));
        let own = lines(number);
        let own = own.split_once(": ").map_or("none", |it| it.1.trim());
        assert_eq!(format!("for {own}"), it.text(), "{name}: later {number}: {it:?}");
    }
}

/// What a client may not say in the head, applications that join the two do not read behind the body.
#[test]
fn trailers_that_name_the_client_or_the_route_are_removed() {
    let origin = Origin::new(|it| {
        let came = String::from_utf8_lossy(&it.body);
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{came}", came.len())
    });
    let larder = Larder::before(&origin, "");
    let lies = [
        "Client-Cert: :eA==:",
        "X-Real-IP: 1.1.1.1",
        "X-Forwarded-Prefix: /x",
        "X-Original-URL: /x",
        "X_Real_IP: 1.1.1.1",
        "X-HTTP-Method-Override: PUT",
        "Remote-User: root",
        "X-Forwarded-Ssl: on",
        "Proxy: x",
    ];
    for lie in lies {
        let mut client = larder.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n{lie}\r\n\r\n"
        ));
        assert_eq!("3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n", client.read().text(), "{lie}");
    }
}

#[test]
fn a_private_response_is_not_shared_between_clients() {
    let cookie = |it: usize| format!("Cookie: id={it}\r\n");
    each_has_its_own("private", "Cache-Control: private, max-age=60", cookie, "cookie");
    each_has_its_own("no-store", "Cache-Control: no-store", cookie, "cookie");
    each_has_its_own("no-cache", "Cache-Control: no-cache", cookie, "cookie");
    each_has_its_own("a new cookie", "Cache-Control: max-age=60\nSet-Cookie: {own}", cookie, "cookie");
    each_has_its_own("stale at once", "Cache-Control: max-age=0", cookie, "cookie");
    let authorization = |it: usize| format!("Authorization: Bearer {it}\r\n");
    each_has_its_own("authorized", "Cache-Control: max-age=60", authorization, "authorization");
    each_has_its_own(
        "vary",
        "Cache-Control: max-age=60\nVary: X-Mine",
        |it| format!("X-Mine: {it}\r\n"),
        "x-mine",
    );
    each_has_its_own(
        "vary *",
        "Cache-Control: max-age=60\nVary: *",
        |it| format!("X-Mine: {it}\r\n"),
        "x-mine",
    );
    let languages = |it: usize| format!("Accept-Language: {}\r\n", ["de", "en", "fr"][it % 3]);
    each_has_its_own(
        "language",
        "Cache-Control: max-age=60\nVary: Accept-Language",
        languages,
        "accept-language",
    );
}

#[test]
fn requests_with_and_without_authorization_get_their_own_responses() {
    let origin = Origin::new(|it| match it.field("authorization") {
        Some(_) => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nsecret".to_owned(),
        None => "HTTP/1.1 401 No\nWWW-Authenticate: Basic\n\nno".to_owned(),
    });
    let larder = Larder::before(&origin, "default_ttl = \"60s\"");
    for _ in 0..3 {
        assert_eq!("secret", larder.client().get_with("/", "Authorization: Basic x\r\n").text());
        assert_eq!((401, "no"), (larder.get("/").status, larder.get("/").text().as_str()));
    }
}

/// One client asks `/page` with `lines`; the next, without, must have the page as it is.
#[track_caller]
fn harmless(
    lines: &str,
    settings: &str,
    answer: impl Fn(&Received) -> Option<String> + Send + Sync + 'static,
) {
    let origin = Origin::new(move |it| {
        answer(it).unwrap_or_else(|| "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nthe page".to_owned())
    });
    let larder = Larder::before(&origin, settings);
    for _ in 0..2 {
        larder.client().get_with("/page", lines);
        let it = larder.get("/page");
        assert_eq!((200, "the page"), (it.status, it.text().as_str()), "{lines:.200}: {it:?}");
    }
    // Nor may the first have it by waiting together.
    assert!(larder.get("/page").is_hit());
}

const PAGE_TTL: &str = "default_ttl = \"60s\"";

#[test]
fn errors_that_a_header_provokes() {
    let large = format!("X-Oversized: {}\r\n", "x".repeat(9000));
    for status in [400, 404, 410, 413, 431, 500, 502, 503] {
        harmless(&large, PAGE_TTL, move |it| {
            (it.head.len() > 8192).then(|| format!("HTTP/1.1 {status} No\n\nerror"))
        });
    }
    let many: String = (0..90).map(|it| format!("X-{it}: y\r\n")).collect();
    harmless(&many, PAGE_TTL, |it| {
        (it.head.lines().count() > 60).then(|| "HTTP/1.1 400 No\n\nerror".to_owned())
    });
    for odd in [
        "X-Odd: \u{fffd}\r\n",
        "X-Odd: '\"<script>\r\n",
        "X-Odd: %00\r\n",
        "X-Odd:\r\n",
        "Content-Type: multipart/form-data; boundary=\r\n",
    ] {
        harmless(odd, PAGE_TTL, |it| {
            let odd = it.field("x-odd").is_some() || it.field("content-type").is_some();
            odd.then(|| "HTTP/1.1 400 No\n\nerror".to_owned())
        });
        // Nor where the application says of everything that it may be kept.
        harmless(odd, "", |it| {
            let odd = it.field("x-odd").is_some() || it.field("content-type").is_some();
            odd.then(|| "HTTP/1.1 400 No\nCache-Control: public, max-age=60\n\nerror".to_owned())
        });
    }
}

#[test]
fn methods_and_targets_that_a_header_overrides() {
    for name in [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Forwarded-Prefix",
        "X-Forwarded-Path",
        "X-Forwarded-Uri",
        "X-Forwarded-Method",
        "X-Forwarded-Anything",
        "X-Original-Uri",
        "X-Script-Name",
    ] {
        for status in [200, 404, 405, 501] {
            harmless(&format!("{name}: DELETE\r\n"), PAGE_TTL, move |it| {
                let overridden = it.field(name).is_some();
                overridden.then(|| format!("HTTP/1.1 {status} No\nCache-Control: max-age=60\n\nerror"))
            });
        }
    }
}

#[test]
fn a_field_outside_of_the_key_does_not_reach_a_shared_page() {
    for line in [
        "X-Forwarded-Host: evil",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Scheme: https",
        "X-Forwarded-Port: 1",
        "X-Forwarded-Server: evil",
        "Forwarded: host=evil;proto=https",
        "X-Forwarded-Ssl: on",
        "Front-End-Https: on",
        "X-Url-Scheme: https",
        "X-Original-Host: evil",
        "X-Forwarded-Protocol: https",
        "X-Host: evil",
        "Proxy: evil",
        "X-Forwarded_Host: evil",
        "X_Forwarded_Host: evil",
        "X_Host: evil",
        "X_Original_URL: /evil",
        "X_HTTP_Method_Override: DELETE",
        "X_Forwarded-Ssl: on",
        "Accept_Language: xx-evil",
        "X_Anything: evil",
        "X.Host: evil",
        "X-Scheme: https",
        "CF-Visitor: {\"scheme\":\"https\"}",
        "X-Sendfile-Type: X-Accel-Redirect",
        "X-Accel-Mapping: /=/evil",
        "Surrogate-Capability: evil=\"ESI/1.0\"",
    ] {
        let name = line.split(':').next().unwrap();
        let value = line.split_once(": ").unwrap().1;
        harmless(&format!("{line}\r\n"), "", move |it| {
            let reflected = it.head.lines().skip(1).any(|it| {
                it.to_ascii_lowercase()
                    .replace(['_', '.'], "-")
                    .starts_with(&name.to_ascii_lowercase().replace(['_', '.'], "-"))
                    && it.ends_with(value)
            });
            reflected.then(|| format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nreflects {name}"))
        });
    }
}

#[test]
fn a_request_with_a_field_of_the_key_uses_the_cache() {
    let origin = Origin::new(|it| {
        let prefix = it.field("x-forwarded-prefix").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nbeneath {prefix}")
    });
    let larder = Larder::before(&origin, "key = { headers = [\"X-Forwarded-Prefix\"] }");
    for (prefix, hit) in [("/a", false), ("/b", false), ("/a", true), ("/b", true)] {
        let it = larder.client().get_with("/page", &format!("X-Forwarded-Prefix: {prefix}\r\n"));
        assert_eq!((format!("beneath {prefix}"), hit), (it.text(), it.is_hit()), "{it:?}");
    }
}

/// TLS ends before larder: who ends it says so, and the route says that it is to be believed.
#[test]
fn a_server_in_front_may_say_by_which_way_it_came() {
    let origin = Origin::new(|it| {
        let all = |name: &str| it.head.lines().filter(|it| it.to_ascii_lowercase().starts_with(name)).count();
        assert_eq!((1, 1), (all("x-forwarded-proto:"), all("x-forwarded-host:")), "{it:?}");
        match (it.field("x-forwarded-proto").unwrap(), it.field("x-forwarded-host").unwrap()) {
            ("https", "shop.example") => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage".to_owned(),
            _ => "HTTP/1.1 301 Moved\nCache-Control: max-age=60\nLocation: https://shop.example/\n\n"
                .to_owned(),
        }
    });
    let believed = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\n";
    let larder = Larder::before(&origin, "key = { headers = [\"X-Forwarded-Proto\", \"X-Forwarded-Host\"] }");
    for (fields, status, hit) in
        [("", 301, false), (believed, 200, false), ("", 301, true), (believed, 200, true)]
    {
        let it = larder.client().get_with("/", fields);
        assert_eq!((status, hit), (it.status, it.is_hit()), "{fields}: {it:?}");
    }
    let nobody = Larder::before(&origin, "");
    assert_eq!(301, nobody.client().get_with("/", believed).status);
}

#[test]
fn a_field_named_by_connection_selects_no_variant() {
    // The origin does not see the language, so its answer is not that language's.
    let origin = Origin::new(|it| {
        let own = it.field("accept-language").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\nin {own}")
    });
    let larder = Larder::before(&origin, "");
    let attack = "Connection: Accept-Language\r\nAccept-Language: de\r\n";
    assert_eq!("in none", larder.client().get_with("/page", attack).text());
    assert_eq!("in de", larder.client().get_with("/page", "Accept-Language: de\r\n").text());
    assert_eq!("in none", larder.get("/page").text());
    let client = larder.client().get_with("/page", attack);
    assert!(client.text() == "in none" || client.text() == "in de");

    // What protects a client is not taken away by a nomination.
    let private = Origin::new(|it| match (it.field("authorization"), it.field("cookie")) {
        (None, None) => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nfor all".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: private\n\nfor one".to_owned(),
    });
    let larder = Larder::before(&private, "private_cookies = [\"id\"]");
    for lines in [
        "Connection: Authorization\r\nAuthorization: x\r\n",
        "Connection: Cookie\r\nCookie: id=1\r\n",
        "Connection: close, authorization\r\nAuthorization: x\r\n",
    ] {
        assert_eq!("for one", larder.client().get_with("/page", lines).text(), "{lines}");
    }
    for name in ["Set-Cookie", "Cache-Control", "Vary"] {
        let origin = Origin::new(move |it| {
            let value = match name {
                "Set-Cookie" => "id=1",
                "Vary" => "X-Mine",
                _ => "no-store",
            };
            format!(
                "HTTP/1.1 200 OK\nExpires: Thu, 01 Jan 2037 00:00:00 GMT\nConnection: {name}\n{name}: {value}\n\nnumber {}",
                it.number
            )
        });
        let larder = Larder::before(&origin, "");
        let first = larder.client().get_with("/page", "X-Mine: 1\r\n").text();
        let second = larder.client().get_with("/page", "X-Mine: 2\r\n").text();
        assert_ne!(first, second, "an origin's {name} was ignored because Connection names it");
    }
}

#[test]
fn a_get_with_a_body_is_neither_stored_nor_served_from_the_cache() {
    let origin = Origin::new(|it| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{} {}", it.number, it.body.len())
    });
    let larder = Larder::before(&origin, "");
    // Nor does the body reach the origin: what it says is in no key, and no meaning is defined for it (RFC 9110 §9.3.1). Nor what
    // is said of it.
    let text = "Content-Type: text/plain\r\nContent-Language: en\r\n";
    assert_eq!("0 0", larder.client().request("GET", "/page", text, "evil").text());
    let asked = origin.received().remove(0).head;
    assert!(!asked.contains("Content-"), "{asked}");
    assert_eq!("1 0", larder.get("/page").text());
    assert_eq!("2 0", larder.client().request("GET", "/page", "", "evil").text());
    assert_eq!("1 0", larder.get("/page").text());
    assert_eq!(2, larder.counter("get_bodies_dropped"));
    // A route without the cache is for applications that read it.
    let larder = Larder::before(&origin, "enabled = false");
    assert_eq!("3 4", larder.client().request("GET", "/page", "", "evil").text());
    assert_eq!(0, larder.counter("get_bodies_dropped"));
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send("GET /page HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(!client.read().is_hit());
}

#[test]
fn the_key_is_the_exact_target_and_the_host() {
    let origin = Origin::new(|it| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{} {}", it.field("host").unwrap(), it.target())
    });
    let larder = Larder::before(&origin, "");
    let targets = [
        "/a",
        "/A",
        "/a/",
        "//a",
        "/./a",
        "/b/../a",
        "/%61",
        "/a?",
        "/a?x",
        "/a?x&y",
        "/a?y&x",
        "/a;x",
        "/a%2f",
        "/a%2F",
        "/a%00",
        "/a.css",
        "/a/x.css",
        "/a%3fx",
        "/a?X",
        "/a?x=1",
        "/a?x=01",
        "/a%0d%0aX:y",
        "/a%23",
    ];
    for _ in 0..2 {
        for target in targets {
            for host in ["h", "other"] {
                let mut client = larder.client();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                assert_eq!(format!("{host} {target}"), client.read().text());
            }
        }
    }
    // One resource under two spellings of its host.
    let before = origin.requests();
    let mut client = larder.client();
    client.send("GET /a HTTP/1.1\r\nHost: H:80\r\n\r\n");
    assert!(client.read().is_hit());
    assert_eq!(before, origin.requests());
}

/// Ways to spell `/account/me` that leave the route of `/account/*` unless they are read as an application reads them.
const SPELLINGS: &[&str] = &[
    "/%61ccount/me",
    "/account%2fme",
    "/account%2Fme",
    "/x/..%2faccount/me",
    "/./account/me",
    "/static/..%2faccount/me",
    "/static/%2e%2e/account/me",
    "/static/../account/me",
    "/static/..;x/account/me",
    "/account;x/me",
    "//account/me",
    "/account%5cme",
    "/account\\me",
    "/static/../account/..%2fstatic/me",
];

/// A private route, one whose pages are kept for an hour, and the rest with a default lifetime.
fn shop(origin: &Origin) -> Larder {
    let to = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/account/*\"\n{to}\ncache = {{ enabled = false }}\n\
         [[site.route]]\npath = \"/static/*\"\n{to}\ncache = {{ default_ttl = \"1h\" }}\n\
         [[site.route]]\npath = \"/*\"\n{to}\ncache = {{ default_ttl = \"60s\" }}\n"
    ))
}

#[test]
fn a_private_page_is_private_however_its_path_is_spelled() {
    let origin =
        Origin::new(|it| format!("HTTP/1.1 200 OK\n\nfor {}", it.field("cookie").unwrap_or("nobody")));
    let larder = shop(&origin);
    for (asked, target) in SPELLINGS.iter().enumerate() {
        let before = origin.requests();
        for who in ["id=1", "id=2"] {
            let it = larder.client().get_with(target, &format!("Cookie: {who}\r\n"));
            assert_eq!((format!("for {who}"), false), (it.text(), it.is_hit()), "{target}: {it:?}");
            assert!(it.cache().contains("fwd=bypass"), "{target}: {it:?}");
        }
        // Neither what the spelling brought nor what another one brought.
        for other in SPELLINGS.iter().chain(&["/account/me"]) {
            let it = larder.get(other);
            assert_eq!(("for nobody", false), (it.text().as_str(), it.is_hit()), "{target}, {other}: {it:?}");
        }
        assert_eq!(before + 3 + SPELLINGS.len(), origin.requests(), "{target}: {asked}");
        let received = &origin.received()[before];
        assert_eq!(*target, received.target(), "the target is sent as it came");
    }
    let requests = u64::try_from(SPELLINGS.len() * (SPELLINGS.len() + 2)).unwrap();
    assert_eq!(requests, larder.counter("cache_ambiguous_paths"));
    assert_eq!(0, larder.counter("cache_stores"));
}

#[test]
fn odd_paths_of_one_route_are_kept_by_their_exact_spelling() {
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\n\n{} {}", it.number, it.target()));
    let larder = shop(&origin);
    let targets = ["/static/a", "/static/%61", "/static//a", "/static/x/../a", "/static/x%2fa", "/caf%C3%A9"];
    for (number, target) in targets.iter().enumerate() {
        for hit in [false, true] {
            let it = larder.get(target);
            assert_eq!((format!("{number} {target}"), hit), (it.text(), it.is_hit()), "{it:?}");
        }
    }
    assert_eq!(0, larder.counter("cache_ambiguous_paths"));
}
