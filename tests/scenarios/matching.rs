//! The choice of a route: patterns, methods, conditions and listeners, over both protocols, as a miss and as a hit.

use crate::harness::http2::{Http2, request};
use crate::harness::origin::Received;
use crate::harness::{Client, Larder, Origin};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// An origin that answers with its name and the target, for a minute.
fn origin(name: &'static str) -> Origin {
    Origin::new(move |it: &Received| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{name} {}", it.target())
    })
}

/// A larder with routes, each of which is lines of TOML.
fn larder(routes: &[(&str, &Origin)]) -> Larder {
    let mut config = "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n".to_owned();
    for (lines, origin) in routes {
        config.push_str(&format!("[[site.route]]\n{lines}\nproxy = {{ to = [\"{}\"] }}\n", origin.url()));
    }
    Larder::configured(config)
}

/// The text of a page over both protocols, as a miss and as a hit.
#[track_caller]
fn check(larder: &Larder, target: &str, expect: &str) {
    let mut client = larder.client();
    for _ in 0..2 {
        assert_eq!(expect, client.get(target).text(), "{target}");
    }
    let mut http2 = Http2::connect(larder);
    assert_eq!(expect, http2.get(target).text(), "{target} over HTTP/2");
}

#[test]
fn a_path_pattern_chooses_the_route() {
    let [exact, php, shop, old, files, rest] = ["exact", "php", "shop", "old", "files", "rest"].map(origin);
    let larder = larder(&[
        ("path = \"/about\"", &exact),
        ("path = \"*.php\"", &php),
        ("path = \"/shop/{id}\"", &shop),
        ("path = 'regex:/old/\\d+(/.*)?'", &old),
        ("path = \"/files/{rest...}\"", &files),
        ("path = \"/*\"", &rest),
    ]);
    for (target, expect) in [
        ("/about?x", "exact"),
        ("/about/", "rest"),
        ("/a/b.php?c=d", "php"),
        ("/a.php/b", "rest"),
        ("/shop/77", "shop"),
        ("/shop/77/", "rest"),
        ("/shop/", "rest"),
        ("/old/12", "old"),
        ("/old/12/x", "old"),
        ("/old/x", "rest"),
        ("/files/", "files"),
        ("/files/a/b", "files"),
    ] {
        check(&larder, target, &format!("{expect} {target}"));
    }
}

/// The application may interpret such a path as that of another route: no response is stored.
#[test]
fn an_ambiguous_path_of_a_pattern_is_not_stored() {
    let (private, public) = (origin("private"), origin("public"));
    let larder = larder(&[
        ("path = \"/user/{id}\"\ncache = { enabled = false }", &private),
        ("path = '*.php'\nwhen = 'path ~ \"^/admin/\"'\ncache = { enabled = false }", &private),
        ("path = \"/*\"", &public),
    ]);
    let mut client = larder.client();
    for target in [
        "/user/..%2fuser/me",
        "/x/%2e%2e/user/me",
        "/user/a%2fb",
        "//user/me",
        "/%61dmin/x.php",
        "/x/..;/user/me",
    ] {
        for _ in 0..2 {
            let it = client.get(target);
            assert!(!it.is_hit() && it.cache().contains("bypass"), "{target}: {}", it.cache());
        }
    }
    assert_eq!("private /user/me", client.get("/user/me").text());
    assert_eq!("public /user/me/x", client.get("/user/me/x").text());
}

const DESIGN: &str = "path = \"/api/*\"\nwhen = 'method in [\"GET\", \"POST\"] && header.Accept ~ \"json\"'";

#[test]
fn a_condition_chooses_the_route_and_responses_are_not_shared() {
    let (api, html) = (origin("json"), origin("html"));
    let larder = larder(&[(DESIGN, &api), ("path = \"/*\"", &html)]);
    let mut client = larder.client();
    for _ in 0..2 {
        assert_eq!("json /api/x", client.get_with("/api/x", "Accept: application/json\r\n").text());
        assert_eq!("html /api/x", client.get_with("/api/x", "Accept: text/html\r\n").text());
        assert_eq!("html /api/x", client.get("/api/x").text());
    }
    assert_eq!([1, 1], [api.requests(), html.requests()]);
    let mut http2 = Http2::connect(&larder);
    let id = http2.head(&request("GET", "/api/x", &[("accept", "application/json")]), 5);
    let hit = http2.answer(id);
    assert_eq!("json /api/x", hit.text());
    assert_eq!("html /api/x", http2.get("/api/x").text());
    assert_eq!([1, 1], [api.requests(), html.requests()]);
    // A request that changes the page, by whichever route, invalidates both.
    assert_eq!(200, client.request("PUT", "/api/x", "", "body").status);
    assert_eq!("json /api/x", client.get_with("/api/x", "Accept: application/json\r\n").text());
    assert_eq!("html /api/x", client.get("/api/x").text());
    assert_eq!([2, 3], [api.requests(), html.requests()]);
    // So does a purge of the URL.
    let purge = json!({ "url": "http://h/api/x" }).to_string();
    assert_eq!(200, larder.admin_post("/cache/purge", &purge).status);
    client.get_with("/api/x", "Accept: application/json\r\n");
    client.get("/api/x");
    assert_eq!([3, 4], [api.requests(), html.requests()]);
}

#[test]
fn a_listener_chooses_the_route() {
    let (inside, outside) = (origin("inside"), origin("outside"));
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("larder.sock");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\", \"unix:{0}\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         listeners = [\"unix:{0}\"]\nproxy = {{ to = [\"{1}\"] }}\n[[site.route]]\nproxy = {{ to = [\"{2}\"] }}\n",
        socket.display(),
        inside.url(),
        outside.url()
    ));
    for _ in 0..2 {
        assert_eq!("outside /x", larder.get("/x").text());
        let mut link = UnixStream::connect(&socket).unwrap();
        link.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        link.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("inside /x"), "{text}");
    }
    assert_eq!([1, 1], [inside.requests(), outside.requests()]);
    let asked = |listener: &str| {
        let question = format!("{{\"url\":\"http://h/x\",\"listener\":\"{listener}\"}}");
        larder.admin_post("/api/v1/explain", &question)
    };
    for known in [
        larder.address.to_string(),
        format!("http://{}", larder.address),
        format!("unix:{}", socket.display()),
    ] {
        assert_eq!(200, asked(&known).status, "{known}");
    }
    let other = asked("127.0.0.1:1");
    assert_eq!(400, other.status);
    assert!(other.text().contains("use one of listen: "), "{}", other.text());
}

#[test]
fn a_method_without_a_route_is_405() {
    let (read, write) = (origin("read"), origin("write"));
    let larder = larder(&[
        ("path = \"/form\"\nmethods = [\"GET\"]", &read),
        ("path = \"/form\"\nmethods = [\"POST\"]", &write),
    ]);
    let mut client = larder.client();
    assert_eq!("read /form", client.get("/form").text());
    assert!(client.get("/form").is_hit());
    client.send("HEAD /form HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((200, true), {
        let it = client.read_for("HEAD");
        (it.status, it.is_hit())
    });
    assert_eq!("write /form", client.request("POST", "/form", "", "x").text());
    for method in ["PUT", "OPTIONS", "DELETE"] {
        let it = client.request(method, "/form", "", "");
        assert_eq!((405, Some("GET, HEAD, POST")), (it.status, it.field("allow")), "{method}");
    }
    assert_eq!(404, client.request("PUT", "/other", "", "").status);
    let mut http2 = Http2::connect(&larder);
    let id = http2.head(&request("PUT", "/form", &[]), 5);
    let it = http2.answer(id);
    assert_eq!((405, Some("GET, HEAD, POST")), (it.status, it.field("allow")));
}

#[test]
fn a_missing_slash_is_added_by_a_redirect() {
    let (app, other) = (origin("app"), origin("other"));
    let larder =
        larder(&[("path = \"/app/*\"", &app), ("path = \"/both/*\"", &app), ("path = \"/both\"", &other)]);
    let mut client = larder.client();
    for (method, target, status, location) in [
        ("GET", "/app", 301, Some("/app/")),
        ("GET", "/app?a=b&c=//d", 301, Some("/app/?a=b&c=//d")),
        ("POST", "/app", 308, Some("/app/")),
        // Another spelling could be the name of a host: the path is that of the route.
        ("GET", "//app", 301, Some("/app/")),
        ("GET", "/%2fapp", 301, Some("/app/")),
        ("GET", "/ap", 404, None),
        ("GET", "/both", 200, None),
    ] {
        let it = client.request(method, target, "", "");
        assert_eq!((status, location), (it.status, it.field("location")), "{method} {target}");
    }
    let mut http2 = Http2::connect(&larder);
    let it = http2.get("/app?x");
    assert_eq!((301, Some("/app/?x")), (it.status, it.field("location")));
}

fn explained(larder: &Larder, question: &Value) -> Value {
    let it = larder.admin_post("/cache/explain", &question.to_string());
    assert_eq!(200, it.status, "{}", it.text());
    serde_json::from_str(&it.text()).unwrap()
}

#[test]
fn explain_names_the_parts_that_chose_the_route() {
    let (api, shop) = (origin("json"), origin("shop"));
    let larder = larder(&[
        (DESIGN, &api),
        ("path = \"/{kind}/{id}\"\nmethods = [\"GET\"]", &shop),
        ("path = \"/deep/er/*\"", &shop),
    ]);
    let url = |target: &str| format!("http://{}{target}", larder.address);
    let found = explained(&larder, &json!({ "url": url("/api/7") }));
    let matched = &found["matched"];
    assert_eq!(json!({ "kind": "api", "id": "7" }), matched["captures"]);
    assert_eq!("/{kind}/{id}", matched["path"]);
    let file = larder.config().display().to_string();
    assert_eq!(json!(format!("{file}:10")), matched["where"]["path"]);
    let passed = &matched["passed_over"][0];
    assert_eq!(json!(format!("{file}:7")), passed["where"], "{matched}");
    assert!(
        passed["sentence"].as_str().unwrap().starts_with("the condition is false: method in"),
        "{passed}"
    );
    let headers = json!([["Accept", "application/json"]]);
    let found = explained(&larder, &json!({ "url": url("/api/7"), "headers": headers }));
    assert_eq!(json!(format!("{file}:7")), found["matched"]["where"]["when"]);
    let found = explained(&larder, &json!({ "url": url("/a/b"), "method": "PUT" }));
    assert_eq!(json!(405), found["verdict"]["status"]);
    assert_eq!(
        "larder rejects the request with 405: The routes of this path accept GET, HEAD, not PUT.",
        found["verdict"]["sentence"]
    );
    let found = explained(&larder, &json!({ "url": url("/deep/er"), "method": "PUT" }));
    assert_eq!(json!(308), found["verdict"]["status"], "{found}");
    let found = explained(&larder, &json!({ "url": url("/deep/er/") }));
    assert_eq!("/deep/er/*", found["matched"]["path"]);
}

/// Patterns, methods, conditions: all of it is changed by a reload, and old responses of a condition are not used.
#[test]
fn a_reload_applies_to_all_of_it() {
    let (first, second) = (origin("first"), origin("second"));
    let larder = larder(&[("path = \"/a/{id}\"\nmethods = [\"GET\"]", &first), ("path = \"/*\"", &second)]);
    let mut client: Client = larder.client();
    assert_eq!("first /a/1", client.get("/a/1").text());
    assert_eq!("second /b/1", client.get("/b/1").text());
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let text = text.replace(
        "path = \"/a/{id}\"\nmethods = [\"GET\"]",
        "path = \"regex:/[ab]/.\"\nmethods = [\"GET\", \"PUT\"]\nwhen = 'cookie.beta == \"1\"'",
    );
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("the new route is in force", || {
        client.get_with("/b/1", "Cookie: beta=1\r\n").text() == "first /b/1"
    });
    assert_eq!("first /b/2", client.request("PUT", "/b/2", "Cookie: beta=1\r\n", "").text());
    assert_eq!("second /b/1", client.get("/b/1").text());
    assert_eq!("second /b/3", client.get_with("/b/3", "Cookie: beta=2\r\n").text());
}

/// The routes of a site that differ by a condition, with one and two origins; the path is that of all.
#[test]
fn routes_of_one_path_have_origins_of_their_own() {
    let (one, two, three) = (origin("one"), origin("two"), origin("three"));
    let rest =
        format!("proxy = {{ to = [\"{}\", \"{}\"], balance = \"round_robin\" }}", two.url(), three.url());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         when = 'header[\"X-Api-Version\"] == \"2\"'\nproxy = {{ to = [\"{}\"] }}\n[[site.route]]\n{rest}\n",
        one.url()
    );
    let larder = Larder::configured(config);
    let mut client = larder.client();
    let (mut two, mut three) = (0, 0);
    for at in 0..4 {
        assert_eq!(format!("one /a{at}"), client.get_with(&format!("/a{at}"), "X-Api-Version: 2\r\n").text());
        match client.get(&format!("/b{at}")).text().split(' ').next() {
            Some("two") => two += 1,
            Some("three") => three += 1,
            other => panic!("{other:?}"),
        }
    }
    let routes = stats(&larder)["routes"].clone();
    let of = |at: usize, name: &str| routes[at]["counters"][name].as_u64();
    assert_eq!([Some(4), Some(4)], [0, 1].map(|it| of(it, "requests")), "{routes}");
    assert_eq!(json!([[0], [1, 2]]), json!([routes[0]["origins"], routes[1]["origins"]]));
    assert_eq!(
        json!(["header[\"X-Api-Version\"] == \"2\"", ""]),
        json!([routes[0]["when"], routes[1]["when"]])
    );
    let origins = stats(&larder)["origins"].clone();
    let sent = [0, 1, 2].map(|it| origins[it]["counters"]["requests"].as_u64());
    assert_eq!([Some(4), Some(two), Some(three)], sent, "{origins}");

    // Another condition, another number of origins: by a reload.
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let text = text.replace("when = 'header[\"X-Api-Version\"] == \"2\"'", "when = 'cookie.canary == \"1\"'");
    let (first, second) = text.split_once("when = ").unwrap();
    let (condition, second) = second.split_once('\n').unwrap();
    let text =
        format!("{first}when = 'cookie.beta == \"1\"'\n{rest}\n[[site.route]]\nwhen = {condition}\n{second}");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("the new routes are in force", || larder.counter("config_reloads") >= 1);
    crate::harness::until("all workers serve them", || {
        larder.client().get_with("/c", "Cookie: canary=1\r\n").text() == "one /c"
    });
    for (target, cookie, expect) in
        [("/d", "canary=1", "one /d"), ("/e", "canary=2", "/e"), ("/f", "beta=1", "/f")]
    {
        let text = larder.client().get_with(target, &format!("Cookie: {cookie}\r\n")).text();
        assert!(text.ends_with(expect), "{text}");
    }
    let routes = stats(&larder)["routes"].clone();
    assert_eq!(3, routes.as_array().unwrap().len());
    assert!(routes[2]["counters"]["requests"].as_u64() >= Some(5), "the last route is the same: {routes}");
}

/// Two routes of one path for two listeners.
#[test]
fn routes_of_one_path_and_two_listeners_have_origins_of_their_own() {
    let (one, two, three) = (origin("one"), origin("two"), origin("three"));
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\", \"unix:{0}\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         listeners = [\"unix:{0}\"]\nproxy = {{ to = [\"{1}\"] }}\n[[site.route]]\n\
         proxy = {{ to = [\"{2}\", \"{3}\"] }}\n",
        socket.display(),
        one.url(),
        two.url(),
        three.url()
    ));
    let text = larder.get("/").text();
    assert!(["two /", "three /"].contains(&text.as_str()), "{text}");
    let mut unix = UnixStream::connect(&socket).unwrap();
    unix.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    unix.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("one /"), "{text}");
}

fn stats(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap()
}
