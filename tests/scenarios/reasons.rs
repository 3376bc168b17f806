//! Why requests reach an origin: one reason for each, in the access log and in the statistics, whose sum is the requests that the
//! origin got.

use super::sql;
use super::sql_sqlite::Sqlite;
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::tiers::{fleet, settled};
use crate::harness::{Larder, Memcached, Origin, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

fn page(cache_control: &str, more: &str, body: &str) -> Vec<Script> {
    let head =
        if cache_control.is_empty() { String::new() } else { format!("Cache-Control: {cache_control}\n") };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}{more}\n{body}")))]
}

/// Pages by what larder may do with them.
fn answer(request: &Received) -> Vec<Script> {
    let part = |range: &str| {
        let text = format!(
            "HTTP/1.1 206 Partial Content\nCache-Control: max-age=60\nETag: \"p\"\nContent-Range: bytes {range}/10\n\nab"
        );
        vec![Script::Send(response(&text))]
    };
    let body = "x".repeat(2000);
    match (request.target(), request.field("Range")) {
        ("/part", Some("bytes=0-1")) => part("0-1"),
        ("/part", _) => part("5-6"),
        ("/no-store" | "/off/page", _) => page("no-store", "", "x"),
        ("/private", _) => page("private, max-age=60", "", "x"),
        ("/cookie", _) => page("max-age=60", "Set-Cookie: a=b\n", "x"),
        ("/any", _) => page("max-age=60", "Vary: *\n", "x"),
        ("/silent", _) => page("", "", "x"),
        ("/silent-checked", _) => page("no-cache", "", "x"),
        ("/silent-redirect", _) => vec![Script::Send(response("HTTP/1.1 302 Found\nLocation: /page\n\nx"))],
        ("/loop", _) => vec![Script::Send(response("HTTP/1.1 302 Found\nLocation: http://h/loop\n\nx"))],
        ("/silent-tagged", _) => page("", "ETag: \"s\"\n", "x"),
        ("/language", _) => page("max-age=60", "Vary: Accept-Language\n", "x"),
        ("/by-client", _) => page("public, max-age=60", "Vary: Authorization\n", "x"),
        ("/large", _) => page("max-age=60", "", &body),
        ("/large-chunked", _) => {
            let head = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nTransfer-Encoding: chunked\n\n";
            vec![Script::Send(response(&format!("{head}7d0\r\n{body}\r\n0\r\n\r\n")))]
        }
        ("/ask-me", _) => page("no-cache", "ETag: \"v\"\n", "x"),
        ("/behind", _) => page("max-age=10, stale-while-revalidate=600", "", "x"),
        ("/sometimes", _) if request.number == 0 => page("no-store", "", "x"),
        _ => page("max-age=60", "", "x"),
    }
}

fn start(origin: &Origin, more: &str) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n{more}[log]\naccess = \"access.log\"\nformat = \"json\"\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"off\"\npath = \"/off/*\"\nproxy = {{ to = [\"{url}\"] }}\n\
         cache = {{ enabled = false }}\n[[site.route]]\nname = \"pages\"\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n\
         cache = {{ max_object = \"1KiB\", private_cookies = [\"session\"] }}\n"
    ))
}

fn stats(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap()
}

fn route(larder: &Larder, name: &str) -> Value {
    let stats = stats(larder);
    let found = stats["routes"].as_array().unwrap().iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}")).clone()
}

/// The requests of a route by reason, once all that reached the origin have been judged: their numbers and times add up.
fn reasons(larder: &Larder, name: &str) -> BTreeMap<String, u64> {
    let mut found = Value::Null;
    let sum = |of: &Value, what: &str| -> u64 {
        let reasons = of["reasons"].as_object().unwrap().iter().filter(|it| it.0 != "waited");
        reasons.map(|it| it.1[what].as_u64().unwrap()).sum()
    };
    until("the reasons add up", || {
        found = route(larder, name);
        let counters = &found["counters"];
        sum(&found, "requests") == counters["origin_requests"].as_u64().unwrap()
            && sum(&found, "origin_us") == counters["origin_us"].as_u64().unwrap()
    });
    let reasons = found["reasons"].as_object().unwrap().iter();
    reasons.map(|it| (it.0.clone(), it.1["requests"].as_u64().unwrap())).collect()
}

/// Requests with the reason that each has in the access log; an empty one for those that reached no origin.
const EACH: &[(&str, &str, &str, &str)] = &[
    ("GET", "/page", "", "first-request"),
    ("GET", "/page", "", ""),
    ("GET", "/page", "Cache-Control: no-cache\r\n", "client-no-cache"),
    ("POST", "/page", "", "method"),
    ("GET", "/page", "", "purged"),
    ("GET", "/page", "Cookie: session=1\r\n", "private-cookie"),
    ("GET", "/off/page", "", "cache-off"),
    ("GET", "/no-store", "", "no-store"),
    ("GET", "/no-store", "", "no-store"),
    ("GET", "/private", "", "private"),
    ("GET", "/cookie", "", "set-cookie"),
    ("GET", "/any", "", "vary-star"),
    ("GET", "/silent", "", "no-lifetime"),
    ("GET", "/silent-checked", "", "useless"),
    ("GET", "/silent-redirect", "", "status"),
    ("GET", "/loop", "", "redirect-loop"),
    ("GET", "/silent", "X-Api-Key: 1\r\n", "credentials"),
    ("GET", "/silent-tagged", "", "first-request"),
    ("GET", "/silent-tagged", "", "no-lifetime"),
    ("GET", "/language", "Accept-Language: de\r\n", "first-request"),
    ("GET", "/language", "Accept-Language: en\r\n", "variant"),
    ("GET", "/language", "Accept-Language: de\r\n", ""),
    ("GET", "/by-client", "Authorization: Basic eA==\r\n", "first-request"),
    ("GET", "/by-client", "Authorization: Basic eB==\r\n", "credentials"),
    ("GET", "/by-client", "Authorization: Basic eA==\r\n", ""),
    ("GET", "/large", "", "too-large"),
    ("GET", "/large-chunked", "", "too-large"),
    ("GET", "/ask-me", "", "first-request"),
    ("GET", "/ask-me", "", "must-validate"),
    ("GET", "/secret", "Authorization: Basic eA==\r\n", "authorization"),
    ("GET", "/unkept", "Cache-Control: no-store\r\n", "request-no-store"),
    ("HEAD", "/head", "", "head"),
    ("GET", "/part", "Range: bytes=0-1\r\n", "first-request"),
    ("GET", "/part", "Range: bytes=5-6\r\n", "range"),
    ("GET", "/behind", "", "first-request"),
];

#[test]
fn each_request_has_its_reason_and_they_add_up() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, "");
    let mut client = larder.client();
    for (method, target, lines, _) in EACH {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: 0\r\n\r\n"));
        assert!(client.read_for(method).status < 400, "{method} {target}");
    }
    // Served stale, and renewed behind that; and a page whose time is over.
    larder.advance(61);
    assert!(larder.get("/behind").is_hit());
    larder.get("/page");
    let targets = "{\"url\":\"http://h/page\",\"hard\":true}";
    assert_eq!(200, larder.admin_post("/api/v1/purge", targets).status);
    larder.get("/page");
    client.send("GET /page HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\ny");
    client.read();
    let more = [("/behind", ""), ("/page", "expired"), ("/page", "purged"), ("/page", "request-body")];
    let expect: Vec<String> = EACH
        .iter()
        .map(|(method, target, _, reason)| format!("{method} {target} {reason}"))
        .chain(more.iter().map(|(target, reason)| format!("GET {target} {reason}")))
        .collect();
    let log = || std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("all are logged", || log().lines().count() >= expect.len());
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or("?").to_owned();
    let mut found: Vec<String> = log()
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .map(|it: Value| format!("{} {} {}", text(&it, "method"), text(&it, "target"), text(&it, "reason")))
        .collect();
    // Each worker writes its own lines.
    let mut sorted = expect.clone();
    sorted.sort();
    found.sort();
    assert_eq!(sorted, found);
    until("the page was renewed", || reasons(&larder, "pages").contains_key("refresh"));
    assert_eq!(BTreeMap::from([("cache-off".to_owned(), 1)]), reasons(&larder, "off"));
    let counted = reasons(&larder, "pages");
    let mut by_log: BTreeMap<String, u64> = BTreeMap::from([("refresh".to_owned(), 1)]);
    for line in expect.iter().filter(|it| !it.ends_with(' ') && !it.ends_with(" cache-off")) {
        *by_log.entry(line.rsplit(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(by_log, counted);
    let all: u64 = counted.values().sum();
    assert_eq!(origin.requests() as u64, all + 1, "as many as the origin got");
    examples(&larder);
}

/// Explain said "Not stored yet: that is normal" of a page that is fetched for each request.
#[test]
fn a_body_without_a_declared_length_that_exceeds_the_limit_is_explained() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, "");
    assert_eq!(2000, larder.get("/large-chunked").body.len());
    let summary = || -> Value {
        let explained = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/large-chunked"}"#).text();
        serde_json::from_str::<Value>(&explained).unwrap()["summary"].clone()
    };
    let answer = "Not cached: the response is larger than cache.max_object (1KiB).";
    until("the size is known", || summary()["answer"] == answer);
    let changes = summary()["changes"].to_string();
    assert!(changes.contains("cache.max_object"), "{changes}");
}

/// Each reason has its last request as an example, its class, and a change only where that shares nothing private.
fn examples(larder: &Larder) {
    let why: Value = serde_json::from_str(&larder.admin_get("/api/v1/why").text()).unwrap();
    let pages = why["routes"].as_array().unwrap().iter().find(|it| it["name"] == "pages").unwrap();
    let of = |name: &str| {
        let found = pages["reasons"].as_array().unwrap().iter().find(|it| it["reason"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {pages}"))["example"].clone()
    };
    assert_eq!(
        ("GET", "http://h/cookie"),
        (of("set-cookie")["method"].as_str().unwrap(), of("set-cookie")["url"].as_str().unwrap())
    );
    assert_eq!("POST", of("method")["method"]);
    let metrics = larder.admin_get("/metrics").text();
    let sample = |name: &str, reason: &str| {
        let found = metrics.lines().find(|it| {
            it.starts_with(name)
                && it.contains("route=\"pages\"")
                && it.contains(&format!("reason=\"{reason}\""))
        });
        found
            .and_then(|it| it.rsplit(' ').next()?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no {reason} in {metrics}"))
    };
    assert_eq!(2.0, sample("larder_route_reason_requests_total", "no-store"));
    assert!(sample("larder_route_reason_origin_seconds_total", "no-store") > 0.0);
    assert_eq!(Value::Null, of("refresh"), "no request of a client");
    let row = why["reasons"].as_array().unwrap().iter().find(|it| it["name"] == "set-cookie").unwrap();
    assert_eq!(("by-response", ""), (row["class"].as_str().unwrap(), row["change"].as_str().unwrap()));
}

#[test]
fn a_page_that_had_to_make_room_is_called_evicted() {
    let body = "x".repeat(8000);
    let origin = Origin::scripted(move |_| page("max-age=600", "", &body));
    let larder = Larder::before_with(&origin, "", "cache.ram.size = \"1MiB\"");
    let mut client = larder.client();
    (0..400).for_each(|it| drop(client.get(&format!("/{it}"))));
    assert!(larder.counter("cache_evictions_fresh") > 0);
    assert_eq!(0, larder.counter("cache_evicted_seconds"), "the clock stands still");
    larder.advance(100);
    (0..400).for_each(|it| drop(client.get(&format!("/{it}"))));
    let counted = reasons(&larder, "*/*");
    let of_age = 100 * larder.counter("cache_evictions");
    assert!(
        (5_000..of_age).contains(&larder.counter("cache_evicted_seconds")),
        "100 s each, in the second round"
    );
    // In the first round none, in the second nearly all: of five keys that fall into one set of the memory of removals, one is forgotten.
    assert!((400..=404).contains(&counted["first-request"]), "{counted:?}");
    assert!(counted["evicted"] > 200, "{counted:?}");
}

/// A page that was not cacheable and is: the one reason that no response has.
#[test]
fn a_page_that_became_cacheable_was_hit_for_miss() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, "");
    larder.get("/sometimes");
    larder.get("/sometimes");
    assert!(larder.get("/sometimes").is_hit());
    let expect = [("hit-for-miss".to_owned(), 1), ("no-store".to_owned(), 1)];
    assert_eq!(BTreeMap::from(expect), reasons(&larder, "pages"));
}

/// A crowd for one page, and clients that ask for all kinds at once, some of them from an origin that closes: every request that an
/// origin got has one reason, and those that waited have their own word.
#[test]
fn reasons_add_up_also_in_a_crowd() {
    let held = Gate::new();
    let gate = held.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/slow" => [Script::Gate(gate.clone())].into_iter().chain(page("max-age=60", "", "x")).collect(),
        _ => answer(it),
    });
    let closing = Origin::scripted(|_| vec![Script::Close]);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"two\"\npath = \"/two/*\"\n\
         proxy = {{ to = [\"{}\", \"{}\"] }}\n[[site.route]]\nname = \"pages\"\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        closing.url(),
        origin.url(),
        origin.url()
    );
    let larder = Arc::new(Larder::configured(config));
    let mut crowd: Vec<_> = (0..5).map(|_| larder.client()).collect();
    for client in &mut crowd {
        client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("all wait", || larder.counter("requests_collapsed") == 4);
    let busy: Vec<_> = (0..6)
        .map(|own| {
            let larder = larder.clone();
            std::thread::spawn(move || {
                let mut client = larder.client();
                for turn in 0..40 {
                    let target = match turn % 5 {
                        0 => format!("/shared/{turn}"),
                        1 => format!("/own/{own}/{turn}"),
                        2 => "/cookie".to_owned(),
                        3 => "/ask-me".to_owned(),
                        _ => format!("/two/{own}/{turn}"),
                    };
                    assert_eq!(200, client.get(&target).status, "{target}");
                }
            })
        })
        .collect();
    busy.into_iter().for_each(|it| it.join().unwrap());
    held.open();
    crowd.iter_mut().for_each(|it| assert_eq!(200, it.read().status));
    let (pages, two) = (reasons(&larder, "pages"), reasons(&larder, "two"));
    assert!(pages["waited"] >= 4, "{pages:?}");
    assert_eq!(48, pages["set-cookie"], "{pages:?}");
    assert!(two["retry"] > 0, "{two:?}");
    let all =
        |it: &BTreeMap<String, u64>| it.iter().filter(|it| it.0 != "waited").map(|it| it.1).sum::<u64>();
    assert_eq!((origin.requests() + closing.requests()) as u64, all(&pages) + all(&two), "{pages:?} {two:?}");
}

/// "The lifetime of the stored response had ended" was the reason for pages with most of their lifetime left.
#[test]
fn a_fresh_page_that_the_fleet_lost_is_in_doubt_and_not_expired() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"1\"\n\npage");
    let larder = start(&origin, &fleet(&[&memcached], "timeout = \"60s\"\nlocal_ttl = \"2s\""));
    assert_eq!(200, larder.get("/page").status);
    settled(&larder, 1);
    memcached.command("flush_all\r\n");
    larder.advance(3);
    assert!(larder.get("/page").cache().contains("fwd=stale"));
    let expect = [("doubted".to_owned(), 1), ("first-request".to_owned(), 1)];
    assert_eq!(BTreeMap::from(expect), reasons(&larder, "pages"));
}

/// Routes with a query had no reasons: *Why* and *could be* did not know an API from a database.
#[test]
fn queries_of_a_database_have_reasons() {
    let sqlite =
        Sqlite::new("create table t (id integer primary key, name text); insert into t values (1, 'a')");
    let query = |more: &str| sql::query("select name from t where id = :id", more);
    let parameters = ", parameters = { id = \"query int\" }";
    let cached = format!("{}\ncache.default_ttl = \"60s\"", query(parameters));
    let larder = sql::larder(&sqlite.table(""), &[("/cached", &cached), ("/silent", &query(parameters))]);
    for target in ["/cached?id=1", "/cached?id=1", "/cached?id=2", "/silent?id=1", "/silent?id=1"] {
        assert_eq!(200, larder.get(target).status, "{target}");
    }
    let purged = larder.admin_post("/cache/purge", "{\"url\":\"http://h/cached?id=1\"}");
    assert_eq!(200, purged.status, "{purged:?}");
    assert_eq!(200, larder.get("/cached?id=1").status);
    assert_eq!(400, larder.get("/cached?id=none").status);
    let of = |route: &str| reasons(&larder, route).into_iter().collect::<Vec<_>>();
    let expect = |all: &[(&str, u64)]| all.iter().map(|it| (it.0.to_owned(), it.1)).collect::<Vec<_>>();
    assert_eq!(expect(&[("first-request", 2), ("purged", 1), ("status", 1)]), of("*/cached"));
    assert_eq!(expect(&[("no-lifetime", 2)]), of("*/silent"));
}
