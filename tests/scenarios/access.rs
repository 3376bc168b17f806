//! Access rules of a route: by address and by number of requests, for hits as for misses, over HTTP/1.1 and HTTP/2.

use crate::harness::http2::{Http2, frame};
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
