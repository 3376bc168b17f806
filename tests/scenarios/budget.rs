//! The budget of misses of a route: hits are free, and requests that reach the origin are bounded for each class of clients.

use super::access::{PAGE, larder};
use crate::harness::http2::Http2;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn site(budget: &str, more: &str) -> String {
    format!(
        "access = {{ budget = {{ {budget} }} }}\n[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n{more}\n"
    )
}

/// A crawler in one /24, and a visitor in another.
fn crawler(larder: &Larder) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 0, 7, 1), larder.address)
}

fn visitor(larder: &Larder) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 0, 8, 1), larder.address)
}

#[track_caller]
fn is_refused(it: &Response) {
    assert_eq!(
        (429, Some("no-store"), "larder; detail=miss-budget"),
        (it.status, it.field("cache-control"), it.cache())
    );
}

#[test]
fn hits_are_free_and_misses_are_bounded_for_each_network() {
    let origin = Origin::fixed(PAGE);
    let larder = larder(&origin, &site("misses = \"1/m\", burst = 2", ""));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!([200; 3], ["/a", "/b", "/c"].map(|it| bad.get(it).status));
    let refused = bad.get("/d");
    is_refused(&refused);
    let fields = ["retry-after", "ratelimit", "ratelimit-policy"].map(|it| refused.field(it));
    assert_eq!([Some("60"), Some("\"misses\";r=0;t=60"), Some("\"misses\";q=3;w=60")], fields);
    for _ in 0..20 {
        assert!(["/a", "/b", "/c"].iter().all(|it| bad.get(it).is_hit()), "hits are free");
    }
    // Whatever reaches the origin counts, from every address of the network.
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 7, 250), larder.address);
    for (method, path, lines) in [
        ("HEAD", "/e", ""),
        ("POST", "/a", ""),
        ("GET", "/f", "Range: bytes=0-1\r\n"),
        ("GET", "/g", "Authorization: x\r\n"),
        ("OPTIONS", "/a", ""),
    ] {
        assert_eq!(429, other.request(method, path, lines, "").status, "{method} {path} {lines}");
    }
    // A client that demands another copy gets the one that there is.
    let reloaded = other.get_with("/a", "Cache-Control: no-cache\r\n");
    assert_eq!((200, "larder; hit; ttl=600; detail=miss-budget"), (reloaded.status, reloaded.cache()));
    let upload = crawler(&larder).request("POST", "/a", "Content-Type: text/plain\r\n", &"x".repeat(100_000));
    assert_eq!(429, upload.status);
    assert_eq!(3, origin.requests());
    // A visitor is served, and so pages become hits for the crawler.
    assert_eq!(200, visitor(&larder).get("/d").status);
    assert!(bad.get("/d").is_hit());
    // The network of the test itself has a budget, too.
    let mut over = Http2::connect(&larder);
    assert_eq!([200, 200, 200, 429, 200], ["/h", "/i", "/j", "/k", "/h"].map(|it| over.get(it).status));
    larder.pass(60_000);
    assert_eq!([200, 429], ["/l", "/m"].map(|it| bad.get(it).status));
    let routes = larder.admin_get("/cache/stats").text();
    let (exceeded, limited) = (larder.counter("budget_exceeded"), larder.counter("access_limited"));
    assert_eq!((10, 0), (exceeded, limited));
    assert!(routes.contains("\"budget_exceeded\":10"), "{routes}");
}

#[test]
fn a_stale_response_is_served_beyond_the_budget() {
    let origin =
        Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=10, stale-if-error=600\nETag: \"1\"\n\npage");
    let larder = larder(&origin, &site("misses = \"1/h\"", ""));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!(200, bad.get("/a").status);
    larder.advance(15);
    let stale = bad.get("/a");
    assert_eq!(
        (200, "page", "larder; hit; ttl=-5; detail=miss-budget"),
        (stale.status, stale.text().as_str(), stale.cache())
    );
    is_refused(&bad.get("/b"));
    assert_eq!(1, origin.requests());
    // A visitor has it validated, for all.
    assert_eq!(200, visitor(&larder).get("/a").status);
    assert!(bad.get("/a").is_hit() && origin.requests() == 2);
    larder.advance(700);
    is_refused(&bad.get("/a"));
}

/// A page that is stale for a moment costs a request to the origin as a miss does: without a charge a client that walks over its pages
/// would reach the origin without a bound.
#[test]
fn renewals_in_the_background_are_charged_to_the_client_that_starts_them() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\nCache-Control: max-age=10, stale-while-revalidate=600\nETag: \"1\"\n\npage",
    );
    let larder = larder(&origin, &site("misses = \"1/h\", burst = 2", ""));
    larder.hold();
    let paths = ["/a", "/b", "/c", "/d", "/e"];
    for (number, path) in (1..).zip(paths) {
        let from = Ipv4Addr::new(127, 0, 20 + number, 1); // Visitors of five networks.
        assert_eq!(200, Client::connect_from(from, larder.address).get(path).status);
    }
    larder.advance(15);
    let mut bad = crawler(&larder);
    for (number, path) in (1_u64..).zip(paths) {
        let stale = bad.get(path);
        assert_eq!((200, "page", true), (stale.status, stale.text().as_str(), stale.is_hit()));
        until("the renewal is sent, or refused", || {
            (origin.requests() as u64, larder.counter("budget_exceeded"))
                == (5 + number.min(3), number.max(3) - 3)
        });
    }
    is_refused(&bad.get("/new"));
    // A visitor renews the rest for all.
    assert!(visitor(&larder).get("/e").is_hit());
    until("it is renewed", || origin.requests() == 9);
}

#[test]
fn the_time_of_a_renewal_is_charged() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let page = response("HTTP/1.1 200 OK\nCache-Control: max-age=10, stale-while-revalidate=600\n\npage");
        match request.number {
            0 => vec![Script::Send(page)],
            _ => vec![Script::Gate(held.clone()), Script::Send(page)],
        }
    });
    let larder = larder(&origin, &site("seconds = \"1s/1h\"", ""));
    larder.hold();
    visitor(&larder).get("/a");
    larder.advance(15);
    let mut bad = crawler(&larder);
    assert!(bad.get("/a").is_hit());
    until("the renewal is at the origin", || gate.waiting() == 1);
    larder.pass(5000);
    gate.open();
    // A new page each time: one that was admitted before the charge is stored, and a hit is free.
    let mut number = 0;
    until("it is charged", || {
        number += 1;
        bad.get(&format!("/new/{number}")).status == 429
    });
}

#[test]
fn a_response_that_must_be_validated_is_not_served_beyond_the_budget() {
    let origin =
        Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=10, must-revalidate\nETag: \"1\"\n\npage");
    let larder = larder(&origin, &site("misses = \"1/h\"", "cache = { stale_if_error = \"1h\" }"));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!(200, bad.get("/a").status);
    larder.advance(15);
    is_refused(&bad.get("/a"));
}

#[test]
fn requests_that_wait_for_one_fetch_are_charged_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |request| {
        if request.target() == "/slow" {
            held.pass();
        }
        PAGE.to_owned()
    });
    let larder = larder(&origin, &site("misses = \"1/h\", burst = 1", ""));
    larder.hold();
    let mut first = crawler(&larder);
    first.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is asked", || gate.waiting() == 1);
    let mut waiting: Vec<Client> = (0..10).map(|_| crawler(&larder)).collect();
    for it in &mut waiting {
        it.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("all wait", || larder.counter("requests_collapsed") == 10);
    // The second and last event; a request beyond the budget may still wait for the fetch.
    assert_eq!([200, 429], ["/a", "/b"].map(|it| crawler(&larder).get(it).status));
    let mut late = crawler(&larder);
    late.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it waits as well", || larder.counter("requests_collapsed") == 11);
    gate.open();
    assert_eq!(200, first.read().status);
    assert!(waiting.iter_mut().chain([&mut late]).all(|it| it.read().status == 200));
    assert_eq!(2, origin.requests());
}

#[test]
fn exact_over_two_workers_and_many_connections() {
    let origin = Origin::fixed(PAGE);
    let larder = larder(&origin, &site("misses = \"1/h\", burst = 19", ""));
    larder.hold();
    let admitted: usize = std::thread::scope(|scope| {
        let run = |number: usize| {
            let larder = &larder;
            scope.spawn(move || {
                let one = |it: usize| crawler(larder).get(&format!("/{number}/{it}")).status;
                (0..10).map(one).filter(|it| *it == 200).count()
            })
        };
        let all: Vec<_> = (0..8).map(run).collect();
        all.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!((20, 20), (admitted, origin.requests()));
}

#[test]
fn hits_on_disk_are_free() {
    let (origin, disk) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\ncache.disk = {{ path = \"{}\", size = \"256MiB\" }}\n[[site]]\nhosts = [\"*\"]\n{}",
        disk.path().display(),
        site("misses = \"1/h\"", "cache = { tiers = [\"disk\"] }").replace("{origin}", &origin.url())
    ));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!(200, bad.get("/a").status);
    until("it is on disk", || bad.get("/a").status == 200 && larder.counter("cache_hits_disk") > 0);
    is_refused(&bad.get("/b"));
    for _ in 0..5 {
        assert_eq!(200, bad.get("/a").status);
        is_refused(&bad.get("/b"));
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn crawlers_by_name_and_clients_without_a_cookie() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage");
    let by_name = larder(&origin, &site("misses = \"1/h\", by = \"agent\"", ""));
    by_name.hold();
    let status = |path: &str, agent: &str, ip: u8| {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, ip, 1), by_name.address);
        client.get_with(path, &format!("User-Agent: {agent}\r\n")).status
    };
    let bot = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
    assert_eq!(
        [200, 429, 200],
        [status("/1", bot, 1), status("/2", "GPTBot/9", 2), status("/3", "other/1", 2)]
    );
    assert_eq!(
        [200, 429, 200],
        [status("/4", "Mozilla/5.0 (X11)", 3), status("/5", "", 3), status("/6", "", 4)]
    );
    let anonymous = larder(&origin, &site("misses = \"1/h\", by = \"anonymous\"", ""));
    anonymous.hold();
    let status = |path: &str, lines: &str, ip: u8| {
        Client::connect_from(Ipv4Addr::new(127, 0, 9, ip), anonymous.address).get_with(path, lines).status
    };
    assert_eq!([200, 429], [status("/7", "", 1), status("/8", "", 2)]);
    let cookie = "Cookie: a=b\r\n";
    assert_eq!(
        [200, 429, 200],
        [status("/9", cookie, 1), status("/10", "Cookie: c=d\r\n", 1), status("/11", cookie, 2)]
    );
}

/// The origin fails, and is asked no more often for that: each of its failures was charged.
#[test]
fn failures_of_the_origin_are_charged() {
    let fails = std::sync::Arc::new(AtomicBool::new(true));
    let now = fails.clone();
    let origin = Origin::new(move |_| {
        let head = if now.load(Ordering::SeqCst) { "500 Internal Server Error" } else { "200 OK" };
        format!("HTTP/1.1 {head}\n\n")
    });
    let larder = larder(&origin, &site("misses = \"1/h\", burst = 1", ""));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!([500, 500, 429], ["/a", "/b", "/c"].map(|it| bad.get(it).status));
    fails.store(false, Ordering::SeqCst);
    is_refused(&bad.get("/a"));
}

#[test]
fn a_limit_that_is_reached_is_counted_and_logged_by_route() {
    let (origin, folder) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
    let log = folder.path().join("error.log");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"a.test\", \"*\"]\n\
         [[site.route]]\npath = \"/login\"\nproxy = {{ to = [\"{1}\"] }}\naccess = {{ limit = {{ rate = \"1/h\" }} }}\n\
         [[site.route]]\npath = \"/no\"\nproxy = {{ to = [\"{1}\"] }}\naccess = {{ deny = [\"127.0.0.1\"] }}\n\
         [[site.route]]\nproxy = {{ to = [\"{1}\"] }}\naccess = {{ budget = {{ misses = \"1/h\", by = \"client\" }} }}\n\
         [log]\naccess = \"off\"\nerror = \"{0}\"\n",
        log.display(),
        origin.url()
    ));
    larder.hold();
    let status = |it: &str| larder.get(it).status;
    assert_eq!([200, 429, 429, 429], ["/login"; 4].map(status));
    assert_eq!([403, 403], ["/no"; 2].map(status));
    assert_eq!([200, 429, 429], ["/a", "/b", "/c"].map(status));
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let lines =
        |event: &str| text().lines().filter(|it| it.contains(event)).map(str::to_owned).collect::<Vec<_>>();
    until("it is logged", || !lines("route-limited").is_empty() && !lines("budget-exceeded").is_empty());
    larder.pass(60_000);
    assert_eq!(429, status("/login"));
    until("and again after a minute", || lines("route-limited").len() == 2);
    let [first, second] = &lines("route-limited")[..] else { panic!("{}", text()) };
    assert!(
        first.contains("route=a.test/login ") && first.contains("1/h by client") && first.contains("times=1"),
        "{first}"
    );
    assert!(second.contains("times=3"), "{second}");
    let budget = lines("budget-exceeded");
    assert!(budget.len() == 1 && budget[0].contains("1/h misses, burst 0, by client"), "{budget:?}");
    let stats: serde_json::Value = serde_json::from_str(&larder.admin_get("/cache/stats").text()).unwrap();
    let of = |route: usize, name: &str| stats["routes"][route]["counters"][name].as_u64().unwrap();
    let row = |route| ["limited", "refused", "budget_exceeded"].map(|it| of(route, it));
    assert_eq!([[4, 0, 0], [0, 2, 0], [0, 0, 2]], [row(0), row(1), row(2)]);
    let explained = larder.admin_post("/cache/explain", "{\"url\":\"http://h/x\"}").text();
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    assert_eq!("1/h misses, burst 0, by client", explained["budget"]["limit"], "{explained}");
}

/// An origin that answers at once, and takes its time for `/slow…` until the gate opens.
fn slow(gate: &Arc<Gate>) -> Origin {
    let held = gate.clone();
    Origin::scripted(move |it| {
        let head =
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Length: 4\n\n"));
        let body = Script::Send(b"page".to_vec());
        match it.target().starts_with("/slow") {
            true => vec![head, Script::Gate(held.clone()), body],
            false => vec![head, body],
        }
    })
}

#[test]
fn the_time_of_the_origin_is_charged_when_a_response_has_ended() {
    let gate = Gate::new();
    let origin = slow(&gate);
    let larder = larder(&origin, &site("seconds = \"2s/10s\"", ""));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!([200; 3], ["/a", "/b", "/c"].map(|it| bad.get(it).status));
    let mut first = crawler(&larder);
    first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is asked", || gate.waiting() == 1);
    larder.pass(3000);
    assert_eq!(200, bad.get("/d").status, "it has not ended");
    gate.open();
    assert_eq!(200, first.read().status);
    let mut refused = None;
    until("it is charged", || {
        let answer = bad.get("/e");
        let is_over = answer.status == 429;
        refused = Some(answer);
        is_over
    });
    let refused = refused.unwrap();
    is_refused(&refused);
    let fields = ["retry-after", "ratelimit", "ratelimit-policy"].map(|it| refused.field(it));
    assert_eq!([Some("5"), Some("\"seconds\";r=0;t=5"), Some("\"seconds\";q=2;w=10")], fields);
    assert!(bad.get("/a").is_hit(), "hits are free");
    assert_eq!(429, bad.request("POST", "/a", "", "").status);
    assert_eq!(200, visitor(&larder).get("/f").status);
    larder.pass(6000);
    assert_eq!(200, bad.get("/g").status);
    let response = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/x"}"#).text();
    assert!(response.contains("2s/10s of the origin, by network"), "{response}");
}

#[test]
fn a_response_that_its_client_leaves_is_charged_too() {
    let gate = Gate::new();
    let origin = slow(&gate);
    let larder = larder(&origin, &site("seconds = \"1s/1h\"", ""));
    larder.hold();
    let mut first = crawler(&larder);
    first.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    until("it is asked", || gate.waiting() == 1);
    larder.pass(2000);
    first.reset();
    until("it is charged", || crawler(&larder).request("POST", "/a", "", "").status == 429);
    assert_eq!(200, visitor(&larder).get("/b").status);
    gate.open();
}

#[test]
fn both_budgets_limit_a_client() {
    let gate = Gate::new();
    let origin = slow(&gate);
    let larder = larder(&origin, &site("misses = \"1/h\", burst = 2, seconds = \"1s/1m\"", ""));
    larder.hold();
    let mut bad = crawler(&larder);
    assert_eq!([200, 200, 200, 429], ["/a", "/b", "/c", "/d"].map(|it| bad.get(it).status));
    let mut first = visitor(&larder);
    first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is asked", || gate.waiting() == 1);
    larder.pass(90_000);
    gate.open();
    assert_eq!(200, first.read().status);
    until("it is charged", || visitor(&larder).get("/x").field("ratelimit") == Some("\"seconds\";r=0;t=600"));
}
