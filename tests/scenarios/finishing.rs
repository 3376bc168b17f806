//! The finish of responses, redirects, fixed answers and maintenance: at both speeds, over both protocols, for hits, files and errors.

use crate::harness::client::Response;
use crate::harness::http2::{Http2, request};
use crate::harness::{Larder, Origin};

/// One site for every host with these settings, and these routes before one that proxies everything.
fn larder(origin: &Origin, site: &str, routes: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"www.h.test\", \"*\"]\n{site}\n{routes}\n[[site.route]]\n\
         path = \"/*\"\nproxy = {{ to = [\"{}\"] }}\ncache = {{ default_ttl = \"60s\" }}\n",
        origin.url()
    ))
}

fn values(of: &Response, name: &str) -> Vec<String> {
    let named = of.fields.iter().filter(|it| it.0.eq_ignore_ascii_case(name));
    named.map(|it| it.1.clone()).collect()
}

const ORIGIN: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nServer: app\nX-Powered-By: php\nX-Frame-Options: ALLOW\n\npage";

const RULES: &str = "response_headers = { set = { X-Frame-Options = \"DENY\" }, add = { Link = \"</a>\" }, remove = [\"Server\", \
                     \"x-powered-by\"], default = { Referrer-Policy = \"same-origin\" } }";

#[track_caller]
fn check_rules(of: &Response) {
    let expected = [
        ("X-Frame-Options", Some("DENY")),
        ("Link", Some("</a>")),
        ("Server", None),
        ("X-Powered-By", None),
        ("Referrer-Policy", Some("same-origin")),
    ];
    for (name, value) in expected {
        assert_eq!(value.into_iter().collect::<Vec<_>>(), values(of, name), "{name} of {}", of.status);
    }
}

#[test]
fn rules_apply_to_misses_hits_errors_and_304s() {
    let origin = Origin::new(|it| match it.target() {
        "/tagged" => ORIGIN.replace("Server", "ETag: \"a\"\nServer"),
        _ => ORIGIN.to_owned(),
    });
    let larder = larder(
        &origin,
        RULES,
        "[[site.route]]\npath = \"/gone\"\nrespond = { status = 410, body = \"gone\" }\n",
    );
    let mut client = larder.client();
    let (miss, hit) = (client.get("/a"), client.get("/a"));
    assert!(!miss.is_hit() && hit.is_hit());
    client.get("/tagged");
    let unmodified = client.get_with("/tagged", "If-None-Match: \"a\"\r\n");
    let fixed = client.get("/gone");
    assert_eq!([304, 410], [unmodified.status, fixed.status]);
    [&miss, &hit, &unmodified, &fixed].into_iter().for_each(check_rules);
    let mut http2 = Http2::connect(&larder);
    for path in ["/a", "/gone"] {
        let answer = http2.get(path);
        assert_eq!((Some("DENY"), None), (answer.field("x-frame-options"), answer.field("x-powered-by")));
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn a_reload_changes_cached_pages_at_once() {
    let origin = Origin::fixed(ORIGIN);
    let larder = larder(&origin, "response_headers = { set = { X-A = \"1\" } }", "");
    let mut client = larder.client();
    client.get("/a");
    assert_eq!(["1"], *values(&client.get("/a"), "x-a"));
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("X-A = \"1\"", "X-A = \"2\"")).unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("the reload is in force", || larder.get("/a").field("x-a") == Some("2"));
    assert_eq!(1, origin.requests());
}

#[test]
fn a_route_adds_to_the_fields_of_its_site() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let routes = "[[site.route]]\npath = \"/r\"\nrespond = { body = \"{host} {path}?{query}\" }\nresponse_headers = { set = { X-B = \
                  \"{header.X-In}\", X-A = \"route\" } }\n";
    let larder = larder(&origin, "response_headers = { set = { X-A = \"site\", X-C = \"site\" } }", routes);
    let it = larder.client().get_with("/r?q=1", "X-In: in\r\n");
    assert_eq!(["route", "in", "site"], ["x-a", "x-b", "x-c"].map(|name| it.field(name).unwrap_or("-")));
    assert!(it.text().ends_with(" /r?q=1"), "{}", it.text());
}

#[test]
fn error_pages_replace_those_of_larder_and_where_asked_those_of_the_origin() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("sorry.html");
    std::fs::write(&page, "<h1>sorry</h1>").unwrap();
    let origin = Origin::new(|it| match it.target() {
        "/500" => {
            "HTTP/1.1 500 Internal Server Error\nCache-Control: max-age=60\nETag: \"e\"\n\ntrace".to_owned()
        }
        "/404" => "HTTP/1.1 404 Not Found\n\nnone".to_owned(),
        _ => "HTTP/1.1 200 OK\n\npage".to_owned(),
    });
    let pages =
        format!("error_pages = {{ 5xx = \"{0}\", 404 = \"{0}\" }}\nintercept_errors = true", page.display());
    let routes = "[[site.route]]\npath = \"/down\"\nproxy = { to = [\"http://127.0.0.1:1\"] }\n[[site.route]]\npath = \
                  \"/plain\"\nproxy = { to = [\"http://127.0.0.1:1\"] }\nintercept_errors = false\n";
    let larder = larder(&origin, &pages, routes);
    let mut client = larder.client();
    for path in ["/500", "/500", "/404", "/down", "/plain"] {
        let it = client.get(path);
        assert_eq!("<h1>sorry</h1>", it.text(), "{path}");
        assert_eq!(
            (Some("text/html; charset=utf-8"), None),
            (it.field("content-type"), it.field("etag")),
            "{path}"
        );
    }
    let mut http2 = Http2::connect(&larder);
    assert_eq!((500, "<h1>sorry</h1>".to_owned()), {
        let it = http2.get("/500");
        (it.status, it.text())
    });
    let head = client.request("HEAD", "/down", "", "");
    assert_eq!((502, Some("14"), ""), (head.status, head.field("content-length"), &*head.text()));
    assert_eq!("page", client.get("/fine").text());
}

#[test]
fn a_site_redirects_to_its_canonical_host_and_by_its_map() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("map");
    std::fs::write(&map, "/old /new\n/b%61d https://x.test/y 308\n").unwrap();
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let site = format!("canonical_host = \"www.h.test\"\nredirect_map = \"{}\"", map.display());
    let larder = larder(&origin, &site, "");
    let mut client = larder.client();
    let mut check = |host: &str, target: &str, expected: Option<(u16, &str)>| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let it = client.read();
        let found = it.field("location").map(|to| (it.status, to));
        assert_eq!(expected, found, "{host}{target}");
    };
    check("h.test", "/a?b=c", Some((308, "http://www.h.test/a?b=c")));
    check("h.test:81", "//evil.test/", Some((308, "http://www.h.test:81//evil.test/")));
    check("www.h.test", "/old?q", Some((301, "/new?q")));
    check("www.h.test", "/%62ad", Some((308, "https://x.test/y")));
    check("www.h.test", "/a", None);
}

#[test]
fn the_status_of_a_redirect_of_the_site_can_be_chosen() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin, "canonical_host = \"www.h.test\"\nredirect_status = 301", "");
    let it = larder.get("/a");
    assert_eq!((301, Some("http://www.h.test/a")), (it.status, it.field("location")));
    let mut http2 = Http2::connect(&larder);
    assert_eq!(301, http2.get("/a").status);
}

#[test]
fn a_redirect_stays_on_its_site() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin, "", REDIRECTS);
    let mut client = larder.client();
    let mut target = |it: &str| client.get(it).field("location").unwrap_or("-").to_owned();
    assert_eq!("/go/a", target("/go/a"));
    assert_eq!("/a/b", target("/rest/a/b"));
    assert_eq!("/c?next=c", target("/next?next=c"));
    assert_eq!("/x?a=b%0d%0aSet-Cookie:x", target("/q?a=b%0d%0aSet-Cookie:x"));
    let mut redirects = 0;
    for value in HOSTILE {
        for path in
            ["/go/", "/go", "/rest/", "/rest", "/regex", "/answer/", "/q?", "/next?next=", "/host/", "/app"]
        {
            redirects += check_redirect(&larder, &format!("{path}{value}"), "");
        }
        for lines in ["Cookie: next=", "X-Next: "] {
            redirects += check_redirect(&larder, "/fields", &format!("{lines}{value}\r\n"));
        }
    }
    assert!(redirects > 10 * HOSTILE.len() / 2, "{redirects} redirects");
}

/// Redirects to each kind of value of a client.
const REDIRECTS: &str = "[[site.route]]
path = \"/go/*\"
redirect = { to = \"{path}\", status = 307 }
[[site.route]]
path = \"/rest/{rest...}\"
redirect.to = \"/{rest}\"
[[site.route]]
path = \"regex:/regex(.*)\"
redirect.to = \"/{1}\"
[[site.route]]
path = \"/answer/{rest...}\"
respond.status = 302
response_headers.set.Location = \"/{rest}\"
[[site.route]]
path = \"/q\"
redirect.to = \"/x?{query}\"
[[site.route]]
path = \"/next\"
redirect.to = \"/{query.next}\"
[[site.route]]
path = \"/fields\"
redirect.to = \"/{cookie.next}{header.X-Next}\"
[[site.route]]
path = \"/host/*\"
redirect.to = \"https://www.h.test{uri}\"
[[site.route]]
path = \"/app/*\"
respond.body = \"app\"
";

/// Paths and values that a browser could read as another host, as another scheme, or as the end of a field.
const HOSTILE: [&str; 26] = [
    "/evil.test",
    "//evil.test",
    "///evil.test",
    "\\evil.test",
    "/\\evil.test",
    "\\/evil.test",
    "%2fevil.test",
    "/%2fevil.test",
    "%2f%2fevil.test",
    "/%2f/evil.test",
    "%5cevil.test",
    "/%5cevil.test",
    "%5c%5cevil.test",
    "/.//evil.test",
    "..//evil.test",
    "%2e%2f/evil.test",
    "%09/evil.test",
    "/%09/evil.test",
    "%0d%0a/evil.test",
    "/%0a/evil.test",
    "%0d%0aX-Evil:%201",
    "%00/evil.test",
    "https://evil.test",
    "https:evil.test",
    "javascript:alert(1)",
    "@evil.test",
];

/// Whether the response to a request is a redirect; it must stay on its host, and be one response with one `Location`.
#[track_caller]
fn check_redirect(larder: &Larder, target: &str, lines: &str) -> usize {
    let it = larder.client().get_with(target, lines);
    let locations = values(&it, "location");
    assert_eq!(None, it.field("x-evil"), "{target} {lines}: {it:?}");
    let Some(location) = locations.first() else { return 0 };
    assert_eq!((1, 3), (locations.len(), it.status / 100), "{target} {lines}: {it:?}");
    // Browsers leave out tabs and line ends, and read `\` as `/` (WHATWG URL, 4.4).
    assert!(location.bytes().all(|it| it.is_ascii_graphic()), "{target} {lines}: {location:?}");
    let read = location.replace('\\', "/");
    let is_own = match read.strip_prefix("https://www.h.test") {
        Some(path) => path.starts_with('/'),
        None => read.starts_with('/') && !read.starts_with("//"),
    };
    assert!(is_own, "{target} {lines}: {location:?}");
    1
}

#[test]
fn preflights_are_answered_and_page_origins_get_separate_responses() {
    let origin =
        Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nAccess-Control-Allow-Origin: *\n\npage");
    let cors = "cors = { origins = [\"https://app.test\", \"https://*.app.test\"], methods = [\"GET\", \"PUT\"], credentials = true, \
                expose = [\"X-A\"], max_age = \"1m\" }";
    let larder = larder(&origin, cors, "");
    let mut client = larder.client();
    let preflight = "Origin: https://a.app.test\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-b\r\n";
    let it = client.request("OPTIONS", "/a", preflight, "");
    assert_eq!(204, it.status);
    for (name, value) in [
        ("methods", "GET, PUT"),
        ("headers", "x-b"),
        ("origin", "https://a.app.test"),
        ("credentials", "true"),
    ] {
        assert_eq!(Some(value), it.field(&format!("access-control-allow-{name}")), "{name}");
    }
    assert_eq!(403, client.request("OPTIONS", "/a", &preflight.replace("a.app", "evil"), "").status);
    assert_eq!(0, origin.requests());
    for (page, expected) in [("https://app.test", vec!["https://app.test"]), ("https://evil.test", vec![])] {
        for _ in 0..2 {
            let it = client.get_with("/a", &format!("Origin: {page}\r\n"));
            assert_eq!(expected, values(&it, "access-control-allow-origin"));
            assert_eq!(Some("Origin"), it.field("vary"));
        }
    }
    assert_eq!(1, origin.requests());
}

/// A fixed answer without variables is sent without a look at the rules before it, if there are none.
#[test]
fn rules_before_a_fixed_answer_apply_to_it() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let routes = "[[site.route]]\npath = \"/denied\"\nrespond.body = \"no\"\naccess = { deny = [\"127.0.0.0/8\"] }\n\
                  [[site.route]]\npath = \"/closed\"\nredirect.to = \"/x\"\nmaintenance = { enabled = true }\n\
                  [[site.route]]\npath = \"/moved\"\nredirect.to = \"/x\"\n\
                  [[site.route]]\npath = \"/fixed\"\nrespond.body = \"yes\"\n";
    let larder = larder(&origin, "", routes);
    let mut client = larder.client();
    for _ in 0..2 {
        let statuses = ["/denied", "/closed", "/fixed"].map(|it| client.get(it).status);
        assert_eq!([403, 503, 200], statuses);
        let targets =
            ["/moved", "/moved?", "/moved?a=b"].map(|it| values(&client.get(it), "location").concat());
        assert_eq!(["/x", "/x", "/x?a=b"], targets);
    }
    assert_eq!(0, origin.requests());
}

/// A preflight is about another method: the route of that method answers it, although its `methods` lack OPTIONS.
#[test]
fn preflights_are_answered_by_the_route_of_the_method_that_they_ask_for() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let routes = "[[site.route]]\npath = \"/api/*\"\nmethods = [\"PUT\"]\nredirect = { to = \"/x\", status = 307 }\n\
                  cors = { origins = [\"https://app.test\"], methods = [\"PUT\"] }\n\
                  [[site.route]]\npath = \"/api/*\"\nmethods = [\"DELETE\"]\nredirect = { to = \"/y\", status = 307 }\n";
    let larder = larder(&origin, "", routes);
    let mut client = larder.client();
    let fetch =
        |method: &str, page: &str| format!("Origin: {page}\r\nAccess-Control-Request-Method: {method}\r\n");
    let it = client.request("OPTIONS", "/api/a", &fetch("PUT", "https://app.test"), "");
    assert_eq!((204, Some("PUT")), (it.status, it.field("access-control-allow-methods")));
    assert_eq!(Some("https://app.test"), it.field("access-control-allow-origin"));
    assert_eq!(403, client.request("OPTIONS", "/api/a", &fetch("PUT", "https://evil.test"), "").status);
    let mut http2 = Http2::connect(&larder);
    let fields = [("origin", "https://app.test"), ("access-control-request-method", "PUT")];
    let id = http2.head(&request("OPTIONS", "/api/a", &fields), 5);
    assert_eq!(204, http2.answer(id).status);
    assert_eq!(0, origin.requests());
}

/// Without a route for the method, without CORS, and for an OPTIONS that is no preflight, the answer stays 405.
#[test]
fn an_options_that_no_route_accepts_is_405() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nmethods = [\"PUT\"]\nproxy = {{ to = [\"{url}\"] }}\ncors = {{ origins = [\"*\"] }}\n\
         [[site.route]]\npath = \"/*\"\nmethods = [\"GET\"]\nproxy = {{ to = [\"{url}\"] }}\n",
        url = origin.url()
    ));
    let mut client = larder.client();
    let mut fetch = |lines: &str| client.request("OPTIONS", "/a", lines, "").status;
    let page = "Origin: https://app.test\r\n";
    assert_eq!(204, fetch(&format!("{page}Access-Control-Request-Method: PUT\r\n")));
    assert_eq!(405, fetch(&format!("{page}Access-Control-Request-Method: GET\r\n")), "its route has no CORS");
    assert_eq!(405, fetch(&format!("{page}Access-Control-Request-Method: OPTIONS\r\n")));
    assert_eq!(405, fetch(page));
    assert_eq!(405, fetch("Access-Control-Request-Method: PUT\r\n"));
    assert_eq!(0, origin.requests());
}

#[test]
fn a_maintenance_answers_all_but_the_allowed() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let closed = larder(&origin, "maintenance = { enabled = true, retry_after = \"2m\" }", "");
    let it = closed.get("/a");
    assert_eq!((503, Some("120")), (it.status, it.field("retry-after")));
    let mut http2 = Http2::connect(&closed);
    let id = http2.head(&request("POST", "/a", &[]), 5);
    assert_eq!(503, http2.answer(id).status);
    assert_eq!(0, origin.requests());
    let open = larder(&origin, "maintenance = { enabled = true, allow = [\"127.0.0.0/8\"] }", "");
    assert_eq!("page", open.get("/a").text());
}

#[test]
fn a_lifetime_for_clients_is_apart_from_that_of_the_cache() {
    let origin = Origin::new(|it| match it.target() {
        "/private" => "HTTP/1.1 200 OK\nCache-Control: private\n\npage".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: public, s-maxage=600\nExpires: 0\n\npage".to_owned(),
    });
    let larder = larder(&origin, "client_ttl = \"5m\"", "");
    let mut client = larder.client();
    client.get("/a");
    larder.advance(30);
    let hit = client.get("/a");
    assert!(hit.is_hit());
    assert_eq!(["public, max-age=300"], *values(&hit, "cache-control"));
    assert_eq!((None, None), (hit.field("age"), hit.field("expires")));
    let mut http2 = Http2::connect(&larder);
    assert_eq!(Some("public, max-age=300"), http2.get("/a").field("cache-control"));
    assert_eq!(["private"], *values(&client.get("/private"), "cache-control"));
}

/// The lifetime of a site is not that of its health.
#[test]
fn the_health_of_a_site_has_no_lifetime_for_clients() {
    let origin = Origin::fixed(ORIGIN);
    let routes = "[[site.route]]\npath = \"/ready\"\nrespond.health = \"ready\"\n[[site.route]]\npath = \"/live\"\nrespond.health = \"live\"\nclient_ttl = \"1s\"\n\
                  [[site.route]]\npath = \"/fix\"\nrespond.body = \"x\"\n";
    let larder = larder(&origin, "client_ttl = \"30s\"", routes);
    let control = |target: &str| larder.get(target).field("cache-control").map(str::to_owned);
    assert_eq!(None, control("/ready"));
    assert!(control("/live").unwrap().ends_with("max-age=1"));
    assert!(control("/fix").unwrap().ends_with("max-age=30"));
}

#[test]
fn a_fixed_answer_keeps_its_lines() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let routes = "[[site.route]]\npath = \"/robots.txt\"\nrespond = { body = \"User-agent: *\\nDisallow: {path}\\n\" }\n";
    let it = larder(&origin, "", routes).get("/robots.txt");
    assert_eq!("User-agent: *\nDisallow: /robots.txt\n", it.text());
}

#[test]
fn the_command_for_maintenance_edits_the_configuration() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin, "# a comment", "");
    let run = |arguments: &[&str]| {
        let (folder, admin) = (tempfile::tempdir().unwrap(), larder.admin.to_string());
        let it = crate::harness::command::run(
            folder.path(),
            &[&["maintenance"], arguments, &["--admin", &admin]].concat(),
        );
        (it.code == 0, it.out)
    };
    assert_eq!((true, "www.h.test, *: in service\n".to_owned()), run(&["list"]));
    assert_eq!((true, "www.h.test, *: under maintenance\n".to_owned()), run(&["on", "www.h.test"]));
    assert_eq!(503, larder.get("/a").status);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    assert!(text.contains("# a comment") && text.contains("enabled = true"), "{text}");
    assert_eq!((true, "www.h.test, *: in service\n".to_owned()), run(&["off"]));
    assert_eq!(200, larder.get("/a").status);
    assert!(!run(&["on", "other.test"]).0);
}

#[test]
fn explain_names_the_rule_and_its_line() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = larder(&origin, "maintenance = { enabled = true }", "");
    let response = larder.admin_post("/cache/explain", "{\"url\": \"http://h.test/a\"}");
    // Clients on the machine itself are explained: none is allowed here.
    let text = response.text();
    assert!(text.contains("\"maintenance\"") && text.contains("larder.toml:5"), "{text}");
}

/// A value of a client begins no attribute of a cookie that larder sets.
#[test]
fn a_cookie_has_the_attributes_of_the_operator_alone() {
    let origin = Origin::fixed(ORIGIN);
    let larder = larder(&origin, "response_headers.add = { Set-Cookie = \"last={query.x}; Path=/\" }", "");
    for (query, value) in [
        ("x=a%2Fb", "a/b"),
        ("x=%3B%20Domain=evil.test", "%3B%20Domain=evil.test"),
        ("x=a%0d%0a;%20Secure", "a%0D%0A%3B%20Secure"),
    ] {
        let set = values(&larder.get(&format!("/?{query}")), "set-cookie");
        assert_eq!([format!("last={value}; Path=/")][..], set, "{query}");
    }
}
