//! All outputs agree about the outcome of a request: `Cache-Status`, the live stream, the access log, the counters of its
//! route, the totals, and the heaviest URLs. Each outcome has further scenarios of its own.

use super::stream::Listener;
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Larder, Origin, Response, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One request, what came before it, and what `Cache-Status` is to say of it behind the name, in part.
struct Row {
    what: &'static str,
    /// Asked for before, with GET, without anything else.
    before: &'static str,
    /// Seconds between the two.
    later: i64,
    /// Method, target and lines.
    asked: (&'static str, &'static str, &'static str),
    status: u16,
    cache: &'static str,
}

const fn row(
    what: &'static str,
    asked: (&'static str, &'static str, &'static str),
    status: u16,
    cache: &'static str,
) -> Row {
    Row { what, before: "", later: 0, asked, status, cache }
}

impl Row {
    const fn after(self, before: &'static str, later: i64) -> Self {
        Self { before, later, ..self }
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("a miss", ("GET", "/miss", ""), 200, "fwd=uri-miss; fwd-status=200; stored"),
    row("a hit", ("GET", "/hit", ""), 200, "hit; ttl=60").after("/hit", 0),
    row("a part of a hit", ("GET", "/part", "Range: bytes=0-1"), 206, "hit; ttl=60").after("/part", 0),
    row("a hit that the client has", ("GET", "/304", "If-None-Match: \"a\""), 304, "hit; ttl=60").after("/304", 0),
    row("a precondition that fails", ("GET", "/412", "If-Match: \"b\""), 412, "hit; ttl=60").after("/412", 0),
    row("a stale hit", ("GET", "/swr", ""), 200, "hit; ttl=-1").after("/swr", 61),
    row("a stale hit at the very end", ("GET", "/swr/0", ""), 200, "hit; ttl=0").after("/swr/0", 60),
    row("a stale one that still holds", ("GET", "/held", ""), 200, "fwd=stale; fwd-status=304").after("/held", 61),
    row("a stale one in whose place another came", ("GET", "/other", ""), 200, "fwd=stale; fwd-status=200").after("/other", 61),
    row("another variant", ("GET", "/vary", "X-Kind: b"), 200, "fwd=vary-miss; fwd-status=200").after("/vary", 0),
    row("as the request wants it", ("GET", "/fresh", "Cache-Control: no-cache"), 200, "fwd=request; fwd-status=").after("/fresh", 0),
    row("a part alone", ("GET", "/bytes", "Range: bytes=0-1"), 206, "fwd=uri-miss; fwd-status=206; stored"),
    row("more than the part that is there", ("GET", "/bytes", "Range: bytes=0-4"), 206, "fwd=partial; fwd-status=206"),
    row("a method that is not cached", ("POST", "/post", "Content-Length: 0"), 200, "fwd=method; fwd-status=200"),
    row("a route that does not cache", ("GET", "/live/x", ""), 200, "fwd=bypass; fwd-status=200"),
    row("an origin that is not there", ("GET", "/dead/x", ""), 502, "fwd=uri-miss"),
    row("the same, past the cache", ("GET", "/live-dead/x", ""), 502, "fwd=bypass"),
    row("the same, with another method", ("POST", "/dead/x", "Content-Length: 0"), 502, "fwd=method"),
    row("an origin that says nothing", ("GET", "/close", ""), 502, "fwd=uri-miss"),
    row("an origin that says nonsense", ("GET", "/nonsense", ""), 502, "fwd=uri-miss"),
    row("stale in the place of one that says nothing", ("GET", "/fails", ""), 200, "fwd=stale").after("/fails", 61),
    row("stale forbidden in its place", ("GET", "/must", ""), 502, "fwd=stale").after("/must", 61),
    row("a failure of the origin", ("GET", "/500", ""), 500, "fwd=uri-miss; fwd-status=500"),
    row("stale in the place of its failure", ("GET", "/error", ""), 200, "fwd=stale; fwd-status=500").after("/error", 61),
    row("what the origin has not", ("GET", "/404", ""), 404, "fwd=uri-miss; fwd-status=404"),
    row("only if it is stored, and it is", ("GET", "/only", "Cache-Control: only-if-cached"), 200, "hit; ttl=60").after("/only", 0),
    row("only if it is stored, and it is not", ("GET", "/none", "Cache-Control: only-if-cached"), 504, "detail=only-if-cached"),
    row("an overlay", ("GET", "/over", ""), 200, "hit; detail=overlay"),
    row("a method that is refused", ("TRACE", "/trace", ""), 405, ""),
    row("a request that may go no further", ("OPTIONS", "/options", "Max-Forwards: 0"), 200, ""),
    row("a head that is none", ("GET", "/two-hosts", "Host: i"), 400, ""),
    row("a purge that is not allowed", ("PURGE", "/purge", ""), 403, ""),
    row("a file", ("GET", "/files/larder.toml", ""), 200, ""),
    row("a file that is not there", ("GET", "/files/none", ""), 404, ""),
];

fn answer(request: &Received) -> Vec<Script> {
    let knows = request.field("If-None-Match").is_some();
    let kept = "HTTP/1.1 200 OK\nCache-Control: max-age=60, stale-if-error=600\nETag: \"a\"\n\n0123456789";
    let text = match request.target() {
        "/close" => return vec![Script::Close],
        "/fails" | "/must" if knows => return vec![Script::Close],
        "/nonsense" => return vec![Script::Send(b"nonsense\r\n\r\n".to_vec())],
        "/must" => "HTTP/1.1 200 OK\nCache-Control: max-age=60, must-revalidate\nETag: \"a\"\n\nx",
        "/500" => "HTTP/1.1 500 Oh\n\nx",
        "/error" if knows => "HTTP/1.1 500 Oh\n\nx",
        "/404" => "HTTP/1.1 404 No\nCache-Control: max-age=60\n\nx",
        "/other" if knows => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"b\"\n\nx",
        "/vary" => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: X-Kind\n\nx",
        it if it.starts_with("/swr") => {
            "HTTP/1.1 200 OK\nCache-Control: max-age=60, stale-while-revalidate=60\nETag: \"a\"\n\nx"
        }
        it if it.starts_with("/bytes") => match request.field("Range") {
            Some("bytes=2-4") => {
                "HTTP/1.1 206 P\nCache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 2-4/10\n\n234"
            }
            _ => "HTTP/1.1 206 P\nCache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 0-1/10\n\n01",
        },
        _ if knows => "HTTP/1.1 304 Not Modified\nETag: \"a\"\n\n",
        _ => kept,
    };
    vec![Script::Send(response(text))]
}

fn start(origin: &Origin) -> Larder {
    let route = |path: &str, more: &str| format!("[[site.route]]\npath = \"{path}\"\n{more}\n");
    let (alive, dead) =
        (format!("proxy = {{ to = [\"{}\"] }}", origin.url()), "proxy = { to = [\"http://127.0.0.1:1\"] }");
    let config = [
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nformat = \"json\"\n"
            .to_owned(),
        "[[site]]\nhosts = [\"h\"]\n".to_owned(),
        route("/files/*", "files = { root = \".\", strip = \"/files\" }"),
        route("/live/*", &format!("{alive}\ncache = {{ enabled = false }}")),
        route("/live-dead/*", &format!("{dead}\ncache = {{ enabled = false }}")),
        route("/dead/*", dead),
        route(
            "/purge",
            &format!("{alive}\ncache = {{ purge = {{ method = true, from = [\"10.0.0.0/8\"] }} }}"),
        ),
        route("/*", &alive),
    ];
    let larder = Larder::configured(config.concat());
    assert_eq!(200, larder.admin_request("POST", "/cache/add/http://h/over").status);
    larder
}

/// The word for what our member of `Cache-Status` says.
fn word(response: &Response) -> String {
    let text = response.cache().strip_prefix("larder; ").unwrap_or_default();
    let of = |name: &str| text.split("; ").find_map(|it| it.strip_prefix(name)).map(str::to_owned);
    match (of("ttl="), of("fwd="), of("detail=")) {
        (Some(ttl), ..) => if ttl.parse::<i64>().unwrap() > 0 { "hit" } else { "hit-stale" }.to_owned(),
        (_, Some(reason), _) => reason,
        (.., detail) => detail.unwrap_or_default(),
    }
}

/// The counter of the route for a request of this word.
fn kind(word: &str) -> Option<&'static str> {
    match word {
        "hit" | "hit-stale" => Some("hits"),
        "bypass" | "method" => Some("passes"),
        "" | "overlay" | "only-if-cached" => None,
        _ => Some("misses"),
    }
}

/// The sums over all routes.
fn counted(larder: &Larder) -> BTreeMap<&'static str, u64> {
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    let of = |it: &Value, name: &str| it["counters"][name].as_u64().unwrap();
    let routes = stats["routes"].as_array().unwrap();
    let sum = |name: &'static str| (name, routes.iter().map(|it| of(it, name)).sum());
    let sums: BTreeMap<_, _> = ["hits", "misses", "passes", "stale", "revalidated"].map(sum).into();
    for (name, total) in [("hits", "cache_hits"), ("misses", "cache_misses"), ("passes", "cache_passes")] {
        assert_eq!(sums[name], of(&stats, total), "{total} is the sum of the routes");
    }
    sums
}

/// The misses of each URL.
fn misses(larder: &Larder) -> BTreeMap<String, u64> {
    let top: Value =
        serde_json::from_str(&larder.admin_get("/api/v1/top?by=misses&limit=1000").text()).unwrap();
    let entry = |it: &Value| (it["url"].as_str().unwrap().to_owned(), it["value"].as_u64().unwrap());
    top["entries"].as_array().unwrap().iter().map(entry).collect()
}

/// The words of the access log, once it has `count` lines.
fn logged(larder: &Larder, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    until("all lines are in the access log", || {
        let text = std::fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
        lines = text.lines().map(str::to_owned).collect();
        lines.len() == count
    });
    let cache =
        |it: &String| serde_json::from_str::<Value>(it).unwrap()["cache"].as_str().unwrap().to_owned();
    lines.iter().map(cache).collect()
}

/// One larder, and all that was told of it.
struct World {
    larder: Larder,
    listener: Listener,
    /// Of every request, by the stream.
    words: Vec<String>,
    misses: BTreeMap<String, u64>,
}

impl World {
    fn before(origin: &Origin) -> Self {
        let larder = start(origin);
        let listener = Listener::to(&larder, "");
        Self { larder, listener, words: Vec::new(), misses: BTreeMap::new() }
    }

    /// What was answered is told by the stream as by `Cache-Status`, and counted so.
    fn told(&mut self, what: &str, response: &Response, was: &BTreeMap<&'static str, u64>) {
        let (record, word) = (self.listener.request(), word(response));
        assert_eq!(
            (&json!(word), response.status),
            (&record["cache"], record["status"].as_u64().unwrap() as u16),
            "{what}: {response:?} {record}"
        );
        let mut expect = was.clone();
        if let Some(kind) = kind(&word) {
            *expect.get_mut(kind).unwrap() += 1;
        }
        if kind(&word) == Some("misses") {
            *self.misses.entry(record["url"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        *expect.get_mut("stale").unwrap() += u64::from(word == "hit-stale");
        *expect.get_mut("revalidated").unwrap() += u64::from(response.cache().contains("; fwd-status=304"));
        assert_eq!(expect, counted(&self.larder), "{what}: {response:?}");
        self.words.push(word);
    }

    fn end(&self) {
        assert_eq!(self.words, logged(&self.larder, self.words.len()), "the access log");
        assert_eq!(self.misses, misses(&self.larder), "the heaviest URLs");
    }
}

#[test]
fn stream_counters_and_cache_status_agree_on_every_outcome() {
    let origin = Origin::scripted(answer);
    let mut world = World::before(&origin);
    for row in ROWS {
        let (method, target, lines) = row.asked;
        if !row.before.is_empty() {
            let was = counted(&world.larder);
            let response = world.larder.get(row.before);
            world.told(row.what, &response, &was);
            world.larder.advance(row.later);
        }
        let was = counted(&world.larder);
        let lines = if lines.is_empty() { String::new() } else { format!("{lines}\r\n") };
        let response = world.larder.client().request(method, target, &lines, "");
        let text = response.cache().strip_prefix("larder; ").unwrap_or_default();
        assert_eq!(row.status, response.status, "{}: {response:?}", row.what);
        assert!(
            text.starts_with(row.cache) && text.is_empty() == row.cache.is_empty(),
            "{}: {text:?}",
            row.what
        );
        world.told(row.what, &response, &was);
    }
    world.end();
}

#[test]
fn stream_counters_and_cache_status_agree_on_collapsed_requests() {
    let gates = [Gate::new(), Gate::new()];
    let [good, bad] = gates.clone();
    let origin = Origin::scripted(move |it| {
        let page = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nx");
        match it.target() {
            "/good" => vec![Script::Gate(good.clone()), Script::Send(page)],
            _ => vec![Script::Gate(bad.clone()), Script::Close],
        }
    });
    let mut world = World::before(&origin);
    for (at, (target, status)) in [("/good", 200), ("/bad", 502)].into_iter().enumerate() {
        let was = counted(&world.larder)["misses"];
        let mut clients = [world.larder.client(), world.larder.client()];
        for client in &mut clients {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
        until("one waits for the other", || world.larder.counter("requests_collapsed") == at as u64 + 1);
        gates[at].open();
        let responses = clients.each_mut().map(|it| it.read());
        assert_eq!([status; 2], responses.each_ref().map(|it| it.status), "{responses:?}");
        assert_eq!(["uri-miss"; 2], responses.each_ref().map(word).each_ref().map(String::as_str));
        let collapsed = responses.iter().filter(|it| it.cache().ends_with("; collapsed")).count();
        assert_eq!(usize::from(status == 200), collapsed, "{responses:?}");
        for _ in &responses {
            let record = world.listener.request();
            assert_eq!(
                ("uri-miss", status),
                (record["cache"].as_str().unwrap(), record["status"].as_u64().unwrap() as u16)
            );
            world.words.push("uri-miss".to_owned());
        }
        assert_eq!(was + 2, counted(&world.larder)["misses"]);
        world.misses.insert(format!("http://h{target}"), 2);
    }
    world.end();
}
