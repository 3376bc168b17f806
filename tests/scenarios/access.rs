//! Access rules of a route: by address and by number of requests, for hits as for misses, over HTTP/1.1 and HTTP/2.

use crate::harness::http2::{END_STREAM, Http2, frame, request};
use crate::harness::origin::Gate;
use crate::harness::{Client, Larder, Origin, until};
use std::net::Ipv4Addr;

/// A larder before `origin`, whose site has these lines; `{origin}` in them is its URL.
pub fn larder(origin: &Origin, site: &str) -> Larder {
    let site = site.replace("{origin}", &origin.url());
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n{site}\n");
    Larder::configured(config)
}

/// A page that is stored.
pub const PAGE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage";

const PROXY: &str = "proxy = { to = [\"{origin}\"] }";

#[test]
fn an_address_that_is_not_allowed_gets_neither_misses_nor_hits() {
    let origin = Origin::fixed(PAGE);
    let site = format!(
        "[[site.route]]\npath = \"/only/*\"\n{PROXY}\naccess = {{ allow = [\"127.0.0.1\", \"10.0.0.0/8\"] }}\n\
         [[site.route]]\npath = \"/but/*\"\n{PROXY}\naccess = {{ deny = [\"127.0.0.2/31\"] }}\n\
         [[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    let (own, other) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
    let from = |ip| Client::connect_from(ip, larder.address);
    for path in ["/only/a", "/but/a"] {
        assert_eq!(403, from(other).get(path).status, "a miss of {path}");
        assert_eq!("page", from(own).get(path).text());
        assert!(from(own).get(path).is_hit());
        let refused = from(other).get(path);
        assert_eq!((403, Some("no-store")), (refused.status, refused.field("cache-control")));
        for method in ["HEAD", "POST", "PURGE", "OPTIONS"] {
            assert_eq!(403, from(other).request(method, path, "", "").status, "{method} {path}");
        }
        assert_eq!(200, Http2::connect(&larder).get(path).status);
    }
    assert_eq!("page", from(other).get("/free").text());
    assert_eq!(3, origin.requests());
    assert_eq!(12, larder.counter("access_refused"));
}

/// Every spelling that an origin may read as a path of the protected route.
#[test]
fn no_spelling_of_a_path_avoids_its_rules() {
    let origin = Origin::fixed(PAGE);
    let site = format!(
        "[[site.route]]\npath = \"/account/*\"\n{PROXY}\naccess = {{ deny = [\"127.0.0.1\"] }}\n[[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    for path in [
        "/account/me",
        "/%61ccount/me",
        "/account%2fme",
        "/x/..%2faccount/me",
        "/./account/me",
        "/static/%2e%2e/account/me",
        "/static/../account/me",
        "//account/me",
        "/account%5cme",
        "/account\\me",
        "/account;a=b/me",
        "/static/..;/account/me",
        "/account/me;a=b",
        "/account/..%2fx",
        "/x/../account/%2e%2e/account/me",
    ] {
        let status = larder.get(path).status;
        assert!(matches!(status, 400 | 403), "{path}: {status}");
        let status = Http2::connect(&larder).get(path).status;
        assert!(matches!(status, 400 | 403), "{path} over HTTP/2: {status}");
    }
    let long = format!("/x/{}account/me", "a/..%2f".repeat(200));
    assert_eq!(400, larder.get(&long).status);
    assert_eq!(0, origin.requests());
    for path in ["/x", "/accounts", "/a%20b", "/x/../y"] {
        assert_eq!(200, larder.get(path).status, "{path}");
    }
}

#[test]
fn a_rate_is_counted_once_for_each_request_hit_or_miss() {
    let origin = Origin::fixed(PAGE);
    let site = format!(
        "access = {{ limit = {{ rate = \"1/m\", burst = 4 }} }}\n[[site.route]]\npath = \"/a\"\n{PROXY}\n[[site.route]]\n{PROXY}\n"
    );
    let larder = larder(&origin, &site);
    larder.hold();
    let mut client = larder.client();
    // A miss, which the fast path declines, is one request; so is a hit. The routes of the site have one limit.
    assert_eq!([200; 5], ["/a", "/a", "/b", "/b", "/c"].map(|it| client.get(it).status));
    let refused = client.get("/a");
    assert_eq!(429, refused.status);
    let fields = ["retry-after", "ratelimit", "ratelimit-policy"].map(|it| refused.field(it));
    assert_eq!([Some("60"), Some("\"requests\";r=0;t=60"), Some("\"requests\";q=5;w=60")], fields);
    assert_eq!(429, Http2::connect(&larder).get("/a").status, "over another connection and protocol");
    assert_eq!(200, Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), larder.address).get("/a").status);
    larder.pass(59_000);
    assert_eq!(429, client.get("/a").status);
    larder.pass(1_000);
    assert_eq!([200, 429], ["/a", "/a"].map(|it| client.get(it).status));
    assert_eq!((4, 3), (larder.counter("access_limited"), origin.requests()));
}

/// Two limits, as two `limit_req` of nginx: both count hits and misses over every protocol, and a refused request counts for neither.
#[test]
fn several_limits_of_a_route() {
    let origin = Origin::fixed(PAGE);
    let site = format!(
        "[[site.route]]\nname = \"api\"\n{PROXY}\naccess.limit = {{ rate = \"1/s\", burst = 1 }}\n\
         [[site.route.access.limits]]\nrate = \"1/h\"\nburst = 3\nby = \"header:X-Api-Key\"\n"
    );
    let larder = larder(&origin, &site);
    larder.hold();
    let mut client = larder.client();
    let mut get = |path: &str| client.request("GET", path, "X-Api-Key: k\r\n", "");
    assert_eq!([200, 200], ["/a", "/a"].map(|it| get(it).status));
    let refused = get("/b");
    let fields = ["retry-after", "ratelimit"].map(|it| refused.field(it).unwrap_or_default());
    assert_eq!((429, ["1", "\"1/s with burst 1 by client\";r=0;t=1"]), (refused.status, fields));
    larder.pass(2_000);
    // The refused request has left the hour two requests.
    assert_eq!([200, 200], ["/b", "/a"].map(|it| get(it).status));
    let refused = get("/a");
    let both = "\"1/s with burst 1 by client\";r=0;t=1, \"1/h with burst 3 by header:x-api-key\";r=0;t=3598";
    assert_eq!(
        (429, Some("3598"), Some(both)),
        (refused.status, refused.field("retry-after"), refused.field("ratelimit"))
    );
    let policy =
        "\"1/s with burst 1 by client\";q=2;w=1, \"1/h with burst 3 by header:x-api-key\";q=4;w=3600";
    assert_eq!(Some(policy), refused.field("ratelimit-policy"));
    larder.pass(2_000);
    let refused = get("/a");
    assert_eq!((429, Some("3596")), (refused.status, refused.field("retry-after")));
    let mut http2 = Http2::connect(&larder);
    let id = http2.head(&request("GET", "/a", &[("x-api-key", "k")]), END_STREAM);
    assert_eq!(429, http2.answer(id).status, "over another protocol");
    assert_eq!(200, larder.get("/a").status, "a request without the key is counted by its address");
    assert_eq!(4, larder.counter("access_limited"));
    let body = serde_json::json!({ "url": "http://h/a", "headers": [["X-Api-Key", "k"]] }).to_string();
    let explained = larder.admin_post("/api/v1/explain", &body);
    let explained: serde_json::Value = serde_json::from_slice(&explained.body).unwrap();
    let access = &explained["access"];
    assert_eq!(
        ("site.route.access.limits", "the limit 1/h with burst 3 by header:x-api-key is exceeded for 3596 s"),
        (access["key"].as_str().unwrap(), access["sentence"].as_str().unwrap())
    );
    assert!(access["where"].as_str().unwrap().ends_with("larder.toml:9"), "{access}");
}

#[test]
fn a_reload_keeps_the_counts_of_rate_limits() {
    let origin = Origin::fixed(PAGE);
    let site = format!("[[site.route]]\n{PROXY}\naccess = {{ limit = {{ rate = \"1/h\" }} }}\n");
    let larder = larder(&origin, &site);
    larder.hold();
    assert_eq!([200, 429], ["/a", "/a"].map(|it| larder.get(it).status));
    let file = larder.folder.path().join("larder.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("1/h\"", "1/h\", burst = 1")).unwrap();
    until("the file is read again", || larder.counter("config_reloads") > 0);
    assert_eq!([200, 429], ["/a", "/a"].map(|it| larder.get(it).status));
}

#[test]
fn requests_in_progress_are_bounded_and_end_in_any_way() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |request| {
        if request.target().starts_with("/slow") {
            held.pass();
        }
        PAGE.to_owned()
    });
    let site = format!("[[site.route]]\n{PROXY}\naccess = {{ limit = {{ concurrency = 2 }} }}\n");
    let larder = larder(&origin, &site);
    let (mut first, mut second) = (larder.client(), Http2::connect(&larder));
    first.send("GET /slow1 HTTP/1.1\r\nHost: h\r\n\r\n");
    let stream = second.send_get("/slow2");
    until("both are in progress", || gate.waiting() == 2);
    let refused = larder.get("/fast");
    assert_eq!((429, Some("1")), (refused.status, refused.field("retry-after")));
    // The request of a stream that is reset ends with its fetch, and gives its place back as one that was answered does.
    second.send(frame(3, 0, stream, &8_u32.to_be_bytes()));
    gate.open();
    until("both places are free", || larder.get("/fast").status == 200);
    assert_eq!(200, first.read().status);
    for _ in 0..10 {
        assert_eq!(200, larder.get("/fast").status);
    }
}

/// A missing field is the empty text: a rule for an empty `User-Agent` concerns requests without one, and hotlink protection
/// admits requests without `Referer`.
#[test]
fn rules_for_missing_fields() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok");
    let larder = larder(
        &origin,
        "[[site.route]]\npath = \"/agent\"\nproxy = { to = [\"{origin}\"] }\naccess.deny_when = 'header.User-Agent == \"\"'\n\
         [[site.route]]\npath = \"/image\"\nproxy = { to = [\"{origin}\"] }\n\
         access.deny_when = 'header.Referer !~ \"^($|https://www\\.example\\.com/)\"'\n\
         [[site.route]]\npath = \"/*\"\nwhen = 'cookie.beta != \"\" || query.beta != \"\"'\nrespond.body = \"beta\"\n\
         [[site.route]]\nproxy = { to = [\"{origin}\"] }\n",
    );
    for (target, lines, status) in [
        ("/agent", "", 403),
        ("/agent", "User-Agent:\r\n", 403),
        ("/agent", "User-Agent: curl\r\n", 200),
        ("/image", "", 200),
        ("/image", "Referer: https://www.example.com/a\r\n", 200),
        ("/image", "Referer: https://other.example/\r\n", 403),
    ] {
        for _ in 0..2 {
            assert_eq!(status, larder.client().get_with(target, lines).status, "{target} {lines}");
        }
    }
    for (target, lines, text) in [
        ("/", "", "ok"),
        ("/", "Cookie: beta=1\r\n", "beta"),
        ("/?beta=1", "", "beta"),
        ("/?beta=", "Cookie: beta=\r\n", "ok"),
    ] {
        assert_eq!(text, larder.client().get_with(target, lines).text(), "{target} {lines}");
    }
}

/// Of several lines, cookies or parameters of one name an application reads the first, the last or all: a rule refuses by each of them, and
/// admits only by all.
#[test]
fn a_repeated_value_gets_past_no_rule() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let route = |path: &str, access: &str| {
        format!("[[site.route]]\npath = \"{path}\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.{access}\n")
    };
    let site = [
        route("/set", "deny_when = 'header.X-Debug != \"\" || query.debug != \"\" || cookie.debug != \"\"'"),
        route("/known", "deny_when = 'query.role !~ \"^(user|guest)$\"'"),
        route("/not", "deny_when = '!(query.role == \"user\" || query.role == \"guest\")'"),
        route("/only", "allow_when = 'query.role == \"user\"'"),
        route("/except", "allow_when = 'query.role != \"admin\"'"),
        "[[site.route]]\npath = \"/*\"\nwhen = 'query.debug != \"\"'\nrespond.body = \"debug\"\n".to_owned(),
        route("/*", "deny = [\"127.0.0.9\"]"),
    ];
    let larder = larder(&origin, &site.concat());
    for (target, lines, status) in [
        ("/set?debug=", "X-Debug:\r\nCookie: debug=; debug=\r\n", 200),
        ("/set", "X-Debug:\r\nX-Debug: 1\r\n", 403),
        ("/set", "X-Debug: 1\r\nX-Debug:\r\n", 403),
        ("/set?debug=&debug=1", "", 403),
        ("/set?debug=1&debug", "", 403),
        ("/set", "Cookie: debug=; debug=1\r\n", 403),
        ("/set", "Cookie: debug=\r\nCookie: debug=1\r\n", 403),
        ("/known?role=user", "", 200),
        ("/known?role=user&role=admin", "", 403),
        ("/known?role=admin&role=user", "", 403),
        ("/known?role=user&role=guest", "", 200),
        ("/not?role=guest", "", 200),
        ("/not?role=user&role=admin", "", 403),
        ("/only?role=user&role=user", "", 200),
        ("/only?role=user&role=admin", "", 403),
        ("/only?role=admin&role=user", "", 403),
        ("/except?role=user", "", 200),
        ("/except?role=user&role=admin", "", 403),
    ] {
        let answer = larder.client().get_with(target, lines);
        assert_eq!(status, answer.status, "{target} {lines}");
    }
    let mut http2 = Http2::connect(&larder);
    for (target, fields, status) in [
        ("/set", &[("x-debug", ""), ("x-debug", "1")][..], 403),
        ("/set", &[("cookie", "debug="), ("cookie", "debug=1")], 403),
        ("/set?debug=&debug=1", &[], 403),
        ("/only?role=user&role=admin", &[], 403),
        ("/set", &[("x-debug", ""), ("x-debug", "")], 200),
    ] {
        let id = http2.head(&request("GET", target, fields), END_STREAM);
        assert_eq!(status, http2.answer(id).status, "{target} {fields:?} over HTTP/2");
    }
    for (target, text) in
        [("/?debug=&debug=1", "debug"), ("/?debug=1&debug", "debug"), ("/?debug=&debug", "ok")]
    {
        assert_eq!(text, larder.get(target).text(), "{target}");
    }
}
