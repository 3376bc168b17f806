//! The targets that an origin sees in place of the client's, and its references as clients see them.

use crate::harness::http2::{Http2, request};
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin, until};
use serde_json::Value;

/// larder with these routes before an origin at `ORIGIN`.
fn before(origin: &Origin, routes: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n{}\n",
        routes.replace("ORIGIN", &origin.url())
    ))
}

/// An origin whose pages are stored, and say which target was asked.
fn telling() -> Origin {
    Origin::new(|asked| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", asked.target()))
}

const API: &str = "[[site.route]]\npath = \"/api/*\"\nstrip = \"/api\"\nadd_prefix = \"/v2\"\n\
                   proxy = { to = [\"ORIGIN/base\"] }\n[[site.route]]\npath = \"/*\"\nproxy = { to = [\"ORIGIN\"] }\n";

#[test]
fn prefixes_and_base_paths_reach_the_origin_and_the_key_stays() {
    let origin = telling();
    let larder = before(&origin, API);
    for (target, expect) in [
        ("/api/users/7?a=b", "/base/v2/users/7?a=b"),
        ("/api/a%2Fb;v=1/%c3%a9", "/base/v2/a%2Fb;v=1/%c3%a9"),
        ("/api/", "/base/v2/"),
        ("/plain?x", "/plain?x"),
    ] {
        assert_eq!(expect, larder.get(target).text(), "{target}");
        let hit = larder.get(target);
        assert_eq!((true, expect), (hit.is_hit(), &*hit.text()), "{target}");
        let mut http2 = Http2::connect(&larder);
        assert_eq!(expect, http2.get(target).text(), "a hit over HTTP/2");
    }
    let mut http2 = Http2::connect(&larder);
    assert_eq!("/base/v2/second", http2.get("/api/second").text(), "a miss over HTTP/2");
    assert_eq!("/base/v2/form", larder.client().request("POST", "/api/form", "", "x=1").text());
    // Purged by what clients ask.
    assert_eq!(200, larder.admin_post("/cache/purge", r#"{"url": "http://h/api/users/7?a=b"}"#).status);
    assert!(!larder.get("/api/users/7?a=b").is_hit());
}

/// A path with several readings is rewritten by the one that chose the route, is never stored, and never leaves the base path.
#[test]
fn ambiguous_paths_are_rewritten_by_the_matched_form_and_never_stored() {
    let origin = telling();
    let strip = "[[site.route]]\npath = \"/*\"\nstrip = \"/api\"\nproxy = { to = [\"ORIGIN\"] }\n";
    let larder = before(&origin, strip);
    for (target, expect) in
        [("/%61pi/x", "/x"), ("//api/x", "/x"), ("/api%2fx%3fy", "/x%3Fy"), ("/api/../secret", "/secret")]
    {
        for _ in 0..2 {
            let found = larder.get(target);
            assert_eq!((expect, false), (&*found.text(), found.is_hit()), "{target}");
        }
    }
    assert_eq!(8, larder.counter("cache_ambiguous_paths"));
    // No target begins with two slashes: an application would redirect to that host.
    for target in ["/api//evil.example/x", "/api///evil.example/x"] {
        assert_eq!("/evil.example/x", larder.get(target).text());
    }
    let larder = before(&origin, "[[site.route]]\npath = \"/*\"\nproxy = { to = [\"ORIGIN/base\"] }\n");
    for (target, expect) in
        [("/../admin", "/base/admin"), ("/a/..%2f..%2fadmin", "/base/admin"), ("/a/../b", "/base/a/../b")]
    {
        assert_eq!(expect, larder.get(target).text(), "{target}");
    }
    let asked = origin.requests();
    for target in ["/..;/admin", "/a/..;/..;x/admin", "/%2e%2e%3b/admin"] {
        assert_eq!(400, larder.get(target).status, "{target}: Tomcat would leave the base path");
        assert_eq!(400, larder.client().request("POST", target, "", "a").status, "{target}");
        let mut http2 = Http2::connect(&larder);
        assert_eq!(Some("400"), http2.get(target).field(":status"), "{target}");
    }
    assert_eq!(asked, origin.requests());
}

#[test]
fn query_parameters_are_removed_kept_and_set() {
    let origin = telling();
    let larder = before(
        &origin,
        "[[site.route]]\npath = \"/keep\"\nquery = { keep = [\"id\", \"p*\"], set = { format = \"json\" } }\nproxy = { to = [\"ORIGIN\"] }\n\
         [[site.route]]\npath = \"/*\"\nquery = { remove = [\"utm_*\"], set = { v = \"a b&c\" } }\nproxy = { to = [\"ORIGIN\"] }\n",
    );
    assert_eq!("/keep?i%64=1&page=2&format=json", larder.get("/keep?i%64=1&x=y&page=2&format=xml").text());
    assert_eq!("/keep?format=json", larder.get("/keep").text());
    assert_eq!("/x?a&v=a%20b%26c", larder.get("/x?utm_source=y&a&v=1").text());
    assert!(larder.get("/x?utm_source=y&a&v=1").is_hit());
    assert!(!larder.get("/x?a").is_hit(), "the key is what the client asked");
}

#[test]
fn references_and_cookies_are_the_clients() {
    let origin = Origin::new(|asked| {
        let host = asked.field("host").unwrap_or("").to_owned();
        format!(
            "HTTP/1.1 302 Found\nLocation: http://{host}/base/login?next=/base/x\nContent-Location: /base/v2/own\n\
             Refresh: 3; url=/base/v2/later\nSet-Cookie: a=1; Path=/base/v2; HttpOnly\nSet-Cookie: b=2; Path=/\n\
             Set-Cookie: __Host-c=3; Path=/; Secure\nSet-Cookie: d=4; Domain=app.internal\n\
             Cache-Control: no-store\n\nx"
        )
    });
    let route = "[[site.route]]\npath = \"/api/*\"\nstrip = \"/api\"\nproxy = { to = [\"ORIGIN/base\"], host = \"app.internal\" }\n";
    let larder = before(&origin, route);
    let found = larder.get("/api/x");
    assert_eq!(Some("app.internal"), origin.received()[0].field("host"));
    assert_eq!(Some("http://h/api/login?next=/base/x"), found.field("location"));
    assert_eq!(Some("/api/v2/own"), found.field("content-location"));
    assert_eq!(Some("3; url=/api/v2/later"), found.field("refresh"));
    let cookies: Vec<&str> = found
        .fields
        .iter()
        .filter(|it| it.0.eq_ignore_ascii_case("set-cookie"))
        .map(|it| it.1.as_str())
        .collect();
    assert_eq!(
        vec!["a=1; Path=/api/v2; HttpOnly", "b=2; Path=/api", "__Host-c=3; Path=/; Secure", "d=4"],
        cookies
    );
    // Without a host of its own the origin refers to itself by the client's.
    let larder = before(&origin, &route.replace(", host = \"app.internal\"", ""));
    let mut http2 = Http2::connect(&larder);
    let id = http2.head(&request("GET", "/api/x", &[]), 0x5);
    let location = http2.answer(id).field("location").unwrap().to_owned();
    assert!(location.ends_with("/api/login?next=/base/x"), "{location}");
}

/// An unsafe method invalidates what its response refers to, by the client's URLs.
#[test]
fn an_unsafe_method_invalidates_the_clients_urls() {
    let origin = Origin::new(|asked| match asked.line().starts_with("POST") {
        true => "HTTP/1.1 201 Created\nLocation: /base/list\n\n".to_owned(),
        false => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", asked.number),
    });
    let larder = before(
        &origin,
        "[[site.route]]\npath = \"/api/*\"\nstrip = \"/api\"\nproxy = { to = [\"ORIGIN/base\"] }\n",
    );
    let first = larder.get("/api/list").text();
    assert_eq!(first, larder.get("/api/list").text());
    assert_eq!(201, larder.client().request("POST", "/api/add", "", "x").status);
    assert!(!larder.get("/api/list").is_hit());
}

#[test]
fn a_check_of_health_is_below_the_base_path_and_has_the_routes_host() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = before(
        &origin,
        "[[site.route]]\npath = \"/*\"\nproxy = { to = [\"ORIGIN/base\"], host = \"app.internal\", health = { path = \"/health\", interval = \"20ms\" } }\n",
    );
    until("it is asked", || larder.counter("origin_health_checks") > 0);
    let asked = &origin.received()[0];
    assert_eq!(("/base/health", Some("app.internal")), (asked.target(), asked.field("host")));
}

#[test]
fn explain_shows_the_target_for_the_origin_and_its_line() {
    let larder = before(&telling(), API);
    let explain = |url: &str| -> Value {
        let body = format!(r#"{{"url": "http://h{url}"}}"#);
        serde_json::from_str(&larder.admin_post("/cache/explain", &body).text()).unwrap()
    };
    let explanation = explain("/api/x?y");
    assert_eq!("/base/v2/x?y", explanation["origin_request"]["target"]);
    assert_eq!("without the prefix /api, below /base/v2", explanation["origin_request"]["changes"]);
    let places = explanation["origin_request"]["where"].as_array().unwrap();
    assert!(
        places.len() == 3 && places.iter().all(|it| it.as_str().unwrap().contains("larder.toml:")),
        "{explanation}"
    );
    assert!(explain("/x")["origin_request"].is_null());
    let explanation = explain("/api/..;/..;/admin");
    assert_eq!(
        ("refused", 400),
        (
            explanation["verdict"]["name"].as_str().unwrap(),
            explanation["verdict"]["status"].as_i64().unwrap()
        )
    );
}

/// `query.set` with variables: each value stays one value, and a hit is for one value only.
#[test]
fn parameters_are_made_of_variables() {
    let origin = telling();
    let routes = "[[site.route]]\npath = \"/shop/{id}\"\nquery = { set = { item = \"{id}\", country = \"{header.X-Country}\" } }\n\
                  proxy = { to = [\"ORIGIN\"] }\ncache = { key = { headers = [\"X-Country\"] } }\n\
                  [[site.route]]\npath = \"/*\"\nquery = { set = { from = \"{listener} {client} {method}\" } }\n\
                  request_headers = { set = { X-Listener = \"{listener}\" } }\n\
                  proxy = { to = [\"ORIGIN\"] }\ncache = { enabled = false }\n";
    let larder = before(&origin, routes);
    let mut client = larder.client();
    for (country, expect) in [("de", "de"), ("a&b=c#", "a%26b%3Dc%23")] {
        let lines = format!("X-Country: {country}\r\n");
        let first = client.get_with("/shop/a%2Bb?country=x&y=1", &lines);
        assert_eq!(format!("/shop/a%2Bb?y=1&item=a%2Bb&country={expect}"), first.text());
        assert!(client.get_with("/shop/a%2Bb?country=x&y=1", &lines).is_hit());
    }
    let passed = client.get("/x").text();
    let listener = larder.address.to_string();
    assert_eq!(format!("/x?from={listener}%20127.0.0.1%20GET"), passed);
    assert_eq!(Some(&*listener), origin.received().last().unwrap().field("x-listener"));
}

/// A key of the origin that a variable, a file or a text adds to the query: the origin gets it, and no view of operators shows it.
#[test]
fn a_secret_parameter_is_sent_and_shown_nowhere() {
    let origin = Origin::new(|it| match it.target().contains("/fails") {
        true => "no response\n\n".to_owned(),
        false => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nstored".to_owned(),
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "t0psecret-file{}\n").unwrap();
    let routes = format!(
        "[[site.route]]\npath = \"/made/*\"\nproxy.to = \"ORIGIN\"\nrewrite = \"/made?key=${{HIDDEN_U}}&page=1\"\n\
         [[site.route]]\ntrace = 1\nproxy.to = \"ORIGIN\"\n\
         query.set = {{ u = \"${{HIDDEN_U}}\", v = \"file:{}\", w = \"t0psecret-text\", x = \"{{host}}\" }}\n",
        path.display()
    );
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"json\"\nlevels.origin = \"debug\"\n\
         [[site]]\nhosts = [\"*\"]\n{}",
        routes.replace("ORIGIN", &origin.url())
    );
    let env = vec![("HIDDEN_U".to_owned(), "t0psecret-variable".to_owned())];
    let larder = Larder::start(Setup { config, env });
    assert_eq!(200, larder.get("/a?b=c").status);
    let sent = origin.received()[0].target().to_owned();
    assert_eq!("/a?b=c&u=t0psecret-variable&v=t0psecret-file%7B%7D&w=t0psecret-text&x=h", sent);
    assert_eq!(502, larder.get("/fails").status);
    let fetch =
        |url: &str| larder.admin_post("/cache/explain", &format!(r#"{{"url": "http://h{url}"}}"#)).text();
    let json: Value = serde_json::from_str(&fetch("/a?b=c")).unwrap();
    assert_eq!("/a?b=c&u=***&v=***&w=***&x=h", json["origin_request"]["target"]);
    let all = ["/api/v1/config", "/api/v1/stats", "/api/v1/objects", "/api/v1/traces", "/metrics"];
    let mut seen: Vec<String> = all.iter().map(|it| larder.admin_get(it).text()).collect();
    seen.extend(["/a?b=c", "/fails", "/made/x"].map(fetch));
    seen.push(larder.printed());
    let access = larder.folder.path().join("access.log");
    until("both requests are logged", || {
        std::fs::read_to_string(&access).is_ok_and(|it| it.lines().count() == 2)
    });
    seen.push(std::fs::read_to_string(&access).unwrap());
    seen.iter().for_each(|it| assert!(!it.contains("t0psecret"), "{it}"));
}
