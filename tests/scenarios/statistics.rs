//! The statistics: the counts by site, route, origin and tier add up, survive a reload, and can be switched off.

mod exported;
mod memory;

use crate::harness::origin::{Gate, Script, response};
use crate::harness::tiers::{disk, killed, written};
use crate::harness::{Client, Larder, Origin, until};
use larder_gateway::coding::codec;
use larder_semantics::coding::Coding;
use serde_json::Value;

fn stats(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap()
}

/// A counter of the route, site or origin of this name.
fn of(stats: &Value, kind: &str, name: &str, counter: &str) -> u64 {
    let all = stats[kind].as_array().unwrap();
    let found =
        all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name} in {kind}: {all:?}"));
    found["counters"][counter].as_u64().unwrap_or_else(|| panic!("no {counter} in {found}"))
}

/// The counters of a route that are not zero, as `name=value …`, once this number of requests was counted.
fn route(larder: &Larder, name: &str, requests: u64) -> String {
    let mut found = Value::Null;
    until("the requests are counted", || {
        found = stats(larder);
        of(&found, "routes", name, "requests") >= requests
    });
    let route = found["routes"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let mut text = String::new();
    for (name, value) in route["counters"].as_object().unwrap() {
        if value != 0 && !["origin_us", "saved_us", "bytes_sent"].contains(&name.as_str()) {
            text.push_str(&format!("{name}={value} "));
        }
    }
    text.trim_end().to_owned()
}

/// Two sites with three routes, over two origins.
fn two_sites(statistics: &str, one: &Origin, other: &Origin) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\nstatistics = {statistics}\n\
         [[site]]\nhosts = [\"a.test\", \"b.test\"]\nroute = [{{ path = \"/api/*\", proxy = {{ to = [\"{}\"] }} }}, \
         {{ path = \"/*\", proxy = {{ to = [\"{}\"] }} }}]\n\
         [[site]]\nhosts = [\"*\"]\nroute = [{{ path = \"/*\", proxy = {{ to = [\"{}\"] }} }}]\n",
        other.url(),
        one.url(),
        one.url()
    )
}

/// `/private…` may not be stored, `/missing…` is a 404, everything else may be stored.
fn origin() -> Origin {
    Origin::scripted(|request| {
        let text = match request.target() {
            it if it.contains("private") => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nmine",
            it if it.contains("missing") => "HTTP/1.1 404 Not Found\nCache-Control: max-age=60\n\nnone",
            _ if request.field("If-None-Match").is_some() => "HTTP/1.1 304 Not Modified\nETag: \"a\"\n\n",
            _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\neveryone",
        };
        vec![Script::Send(response(text))]
    })
}

fn fetch(larder: &Larder, method: &str, host: &str, target: &str) {
    let mut client = larder.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
    assert!(client.read().complete);
}

#[test]
fn each_request_counts_for_its_route_its_site_and_its_origin() {
    let (one, other) = (origin(), origin());
    let larder = Larder::configured(two_sites("true", &one, &other));
    for (host, target, times) in [
        ("a.test", "/x", 3),
        ("b.test", "/x", 1),
        ("a.test", "/missing", 2),
        ("a.test", "/api/private", 2),
        ("c.test", "/x", 1),
        ("c.test", "/private", 1),
    ] {
        (0..times).for_each(|_| fetch(&larder, "GET", host, target));
    }
    fetch(&larder, "POST", "a.test", "/api/x");
    let all = "requests=6 hits=3 misses=3 errors_4xx=2 origin_requests=3 hits_ram=3";
    assert_eq!(all, route(&larder, "a.test/*", 6));
    assert_eq!("requests=3 misses=2 passes=1 origin_requests=3", route(&larder, "a.test/api/*", 3));
    assert_eq!("requests=2 misses=2 origin_requests=2", route(&larder, "*/*", 2));

    let now = stats(&larder);
    let site =
        |name| ["requests", "hits", "misses", "passes", "bytes_sent"].map(|it| of(&now, "sites", name, it));
    assert_eq!([9, 3, 5, 1, 4 * 8 + 2 * 4 + 2 * 4 + 8], site("a.test"), "the sum of its routes");
    assert_eq!([2, 0, 2, 0, 8 + 4], site("*"));
    let origin =
        |it: &Origin| ["requests", "answers", "failures"].map(|name| of(&now, "origins", &it.url(), name));
    assert_eq!(([5, 5, 0], [3, 3, 0]), (origin(&one), origin(&other)));
    let ram = &now["tiers"][0];
    assert_eq!(
        ("ram", 3, 8 + 8 + 4),
        (ram["name"].as_str().unwrap(), ram["hits"].as_u64().unwrap(), ram["bytes_served"].as_u64().unwrap())
    );
    let latency = |kind: &str| now["latency"][kind]["count"].as_u64().unwrap();
    assert_eq!([11, 3, 7, 1, 0], ["all", "hit", "miss", "pass", "other"].map(latency));
    assert!(now["saved"]["origin_us"].as_u64().unwrap() > 0, "hits cost the origin nothing");
    assert_eq!(11, larder.counter("requests"));
}

/// A response that is never stored costs the origin its time for each request: no hit saves that.
#[test]
fn a_hit_saves_the_time_of_responses_that_are_stored() {
    let one = origin();
    let larder = Larder::configured(two_sites("true", &one, &one));
    let saved = |requests| {
        route(&larder, "a.test/*", requests);
        stats(&larder)["saved"]["origin_us"].as_u64().unwrap()
    };
    (0..2).for_each(|_| fetch(&larder, "GET", "a.test", "/x"));
    let once = saved(2);
    (0..20).for_each(|_| fetch(&larder, "GET", "a.test", "/private"));
    fetch(&larder, "GET", "a.test", "/x");
    assert_eq!(2 * once, saved(23));
}

/// The page reads the totals once a second, and routes less often: lists that a client does not want are empty.
#[test]
fn a_response_has_the_detail_that_was_requested_and_in_gzip_the_same() {
    let (one, other) = (origin(), origin());
    let larder = Larder::configured(two_sites("true", &one, &other));
    fetch(&larder, "GET", "a.test", "/missing");
    fetch(&larder, "GET", "c.test", "/missing");
    route(&larder, "*/*", 1);
    route(&larder, "a.test/*", 1);
    let read = |detail: &str| -> Value {
        serde_json::from_slice(&larder.admin_get(&format!("/api/v1/stats?detail={detail}")).body).unwrap()
    };
    let lengths = |it: &Value| ["sites", "routes", "origins"].map(|name| it[name].as_array().unwrap().len());
    let (all, routes, totals) = (read("all"), read("routes"), read("totals"));
    assert_eq!([[2, 3, 2], [0, 3, 2], [0, 0, 0]], [lengths(&all), lengths(&routes), lengths(&totals)]);
    for it in [&all, &routes, &totals] {
        assert_eq!(2, it["totals"]["errors_4xx"].as_u64().unwrap(), "of all routes");
        assert_eq!(all["counters"]["requests"], it["counters"]["requests"]);
    }
    // Half of the bytes of a page that is open for long.
    let reasons = |it: &Value| it["routes"][2]["reasons"].as_object().unwrap().len();
    assert!(reasons(&all) > 0 && reasons(&routes) == 0, "{all}");
    let counted = |it: &Value| {
        let buckets = it["routes"][2]["latency"]["buckets"].as_array().unwrap();
        buckets.iter().map(|it| it[1].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(counted(&all), counted(&routes));
    let names: Vec<&str> =
        routes["routes"].as_array().unwrap().iter().map(|it| it["site_name"].as_str().unwrap()).collect();
    assert_eq!(["a.test", "a.test", "*"], names[..]);

    let mut client = Client::connect(larder.admin);
    let lines = larder.admin_lines();
    client.send(format!("GET /api/v1/stats HTTP/1.1\r\n{lines}\r\nAccept-Encoding: gzip\r\n\r\n"));
    let coded = client.read();
    assert_eq!(Some("gzip"), coded.field("content-encoding"));
    assert!(coded.body.len() * 2 < larder.admin_get("/api/v1/stats").body.len(), "it is smaller");
    let plain = codec::decode(Coding::Gzip, &coded.body, 8 << 20).unwrap();
    assert_eq!([2, 3, 2], lengths(&serde_json::from_slice(&plain).unwrap()));
}

#[test]
fn a_stale_hit_and_a_validation_are_counted_separately() {
    let origin = origin();
    let larder = Larder::before(&origin, "stale_while_revalidate = \"30s\"");
    larder.get("/x");
    larder.advance(61);
    larder.get("/x");
    // The hit was stale; the validation behind it is the route's, but nobody's request.
    until("it was validated", || origin.requests() == 2);
    until("it is counted", || of(&stats(&larder), "routes", "*/*", "origin_requests") == 2);
    assert_eq!("requests=2 hits=1 misses=1 stale=1 origin_requests=2 hits_ram=1", route(&larder, "*/*", 2));
    larder.advance(100);
    larder.get("/x");
    let all = "requests=3 hits=1 misses=2 stale=1 revalidated=1 origin_requests=3 hits_ram=1";
    assert_eq!(all, route(&larder, "*/*", 3));
}

/// Whatever becomes of a request, it is counted alike in the totals and for its route.
#[test]
fn totals_are_the_sums_of_routes() {
    let held = Gate::new();
    let gate = held.clone();
    let origin = Origin::scripted(move |it| match it.target() {
        "/slow" => {
            vec![
                Script::Gate(gate.clone()),
                Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=9\n\nx")),
            ]
        }
        "/stale" if it.number > 1 => vec![Script::Close],
        "/stale" => {
            vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=9, stale-if-error=99\n\nx"))]
        }
        "/gone" => vec![Script::Close],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nx"))],
    });
    let larder = Larder::before(&origin, "");
    larder.get("/stale");
    larder.advance(10);
    assert_eq!("x", larder.get("/stale").text(), "stale, as the origin fails");
    let mut crowd: Vec<_> = (0..5).map(|_| larder.client()).collect();
    for client in &mut crowd {
        client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("all wait", || larder.counter("requests_collapsed") == 4);
    let stored = larder.counter("cache_stores");
    held.open();
    crowd.iter_mut().for_each(|it| assert_eq!(200, it.read().status));
    until("it is stored", || larder.counter("cache_stores") > stored);
    assert!(larder.get("/slow").is_hit());
    assert_eq!(502, larder.get("/gone").status);
    larder.client().request("POST", "/x", "", "y");
    larder.get("/never");
    until("all are counted", || stats(&larder)["routes"][0]["counters"]["requests"] == 11);
    let stats = stats(&larder);
    let (all, route) = (&stats["counters"], &stats["routes"][0]["counters"]);
    let both = |name: &str, of: &str| (route[name].as_u64().unwrap(), all[of].as_u64().unwrap());
    assert_eq!((11, 11), both("requests", "requests"), "{all}");
    assert_eq!((1, 1), both("hits", "cache_hits"), "{all}");
    assert_eq!((9, 9), both("misses", "cache_misses"), "{all}");
    assert_eq!((1, 1), both("passes", "cache_passes"), "{all}");
}

#[test]
fn a_hit_counts_for_the_tier_where_it_lay() {
    let (origin, folder) = (origin(), tempfile::tempdir().unwrap());
    let node = Larder::before_with(&origin, "", &disk(folder.path()));
    node.get("/x");
    written(&node, 1);
    killed(node);
    let node = Larder::before_with(&origin, "", &disk(folder.path()));
    node.get("/x");
    node.get("/x");
    assert_eq!("requests=2 hits=2 hits_ram=1 hits_disk=1", route(&node, "*/*", 2));
    let now = stats(&node);
    let tiers = now["tiers"].as_array().unwrap();
    let report: Vec<(&str, &str, u64, u64)> = tiers
        .iter()
        .map(|it| {
            let number = |name: &str| it[name].as_u64().unwrap_or(0);
            (it["name"].as_str().unwrap(), it["state"].as_str().unwrap(), number("hits"), number("objects"))
        })
        .collect();
    assert_eq!(vec![("ram", "on", 1, 1), ("disk", "on", 1, 1), ("fleet", "off", 0, 0)], report);
}

#[test]
fn a_failure_of_the_origin_is_counted() {
    let origin = Origin::scripted(|_| vec![Script::Close]);
    let larder = Larder::before(&origin, "");
    assert_eq!(502, larder.get("/x").status);
    // It was the origin's to answer, as `Cache-Status` says.
    assert_eq!("requests=1 misses=1 errors_5xx=1 origin_requests=1", route(&larder, "*/*", 1));
    let now = stats(&larder);
    assert_eq!(
        [1, 0, 1],
        ["requests", "answers", "failures"].map(|it| of(&now, "origins", &origin.url(), it))
    );
}

#[test]
fn a_reload_keeps_the_numbers_and_can_switch_counting_off() {
    let (one, other) = (origin(), origin());
    let larder = Larder::configured(two_sites("true", &one, &other));
    fetch(&larder, "GET", "a.test", "/x");
    assert_eq!("requests=1 misses=1 origin_requests=1", route(&larder, "a.test/*", 1));
    let reload = |statistics: &str, times: u64| {
        let text = two_sites(statistics, &one, &other) + "[log]\naccess = \"off\"\n";
        std::fs::write(larder.config(), text).unwrap();
        larder.signal(libc::SIGHUP);
        until("it is taken over", || larder.counter("config_reloads") == times);
    };
    reload("false", 1);
    assert_eq!("off", stats(&larder)["statistics"]);
    // A worker takes over in its own time.
    until("nothing is counted any more", || {
        let before = of(&stats(&larder), "routes", "a.test/*", "requests");
        fetch(&larder, "GET", "a.test", "/x");
        before == of(&stats(&larder), "routes", "a.test/*", "requests")
    });
    let off = of(&stats(&larder), "routes", "a.test/*", "requests");
    reload("true", 2);
    until("it is counted again", || {
        fetch(&larder, "GET", "a.test", "/x");
        of(&stats(&larder), "routes", "a.test/*", "requests") > off
    });
}

#[test]
fn every_limit_has_its_name_in_the_statistics() {
    let larder = Larder::before(&origin(), "");
    let now = stats(&larder);
    assert_eq!(2, now["version"]);
    for it in larder_counters::Counters::TABLE.iter().filter(|it| it.unit == larder_counters::Unit::Limit) {
        assert_eq!(Some(0), now["counters"][it.name].as_u64(), "{}", it.name);
    }
    assert_eq!(431, larder.client().get_with("/x", &format!("X: {}\r\n", "y".repeat(20_000))).status);
    assert_eq!(1, larder.counter("head_too_large"));
    assert_eq!(now["counters"].as_object().unwrap().len(), larder_counters::Counters::TABLE.len());
}

#[test]
fn a_person_reads_them_in_the_terminal() {
    let larder = Larder::before(&origin(), "");
    (0..4).for_each(|_| assert_eq!(200, larder.get("/x").status));
    assert_eq!(431, larder.client().get_with("/x", &format!("X: {}\r\n", "y".repeat(20_000))).status);
    route(&larder, "*/*", 4);
    let admin = larder.admin.to_string();
    let output = crate::harness::command::run(larder.folder.path(), &["stats", "--admin", &admin]);
    assert_eq!(0, output.code, "{output:?}");
    assert!(output.out.contains("hit ratio 75.0 %"), "{}", output.out);
    for start in ["hit ", "*/* ", "ram  ", "ram responses ", "resident ", "  head_too_large "] {
        assert!(output.out.lines().any(|it| it.starts_with(start)), "no {start}: {}", output.out);
    }
    let output = crate::harness::command::run(larder.folder.path(), &["stats", "--json", "--admin", &admin]);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(3, of(&json, "routes", "*/*", "hits"));
}
