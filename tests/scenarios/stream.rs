//! The live stream of finished requests: its listeners, and its end.

use crate::harness::{Client, Larder, Origin, until};
use serde_json::Value;

/// A listener to the stream.
pub(super) struct Listener {
    client: Client,
    text: String,
}

/// One event.
type Event = (String, Value);

impl Listener {
    /// Listens to the requests that finish from now on.
    #[track_caller]
    pub fn to(larder: &Larder, filter: &str) -> Self {
        Self::over(fetch(larder, filter))
    }

    /// Listens after as many of the requests that have finished as are kept, `most` of them.
    #[track_caller]
    fn after(larder: &Larder, most: usize, filter: &str) -> Self {
        Self::over(ask_for(larder, filter, &format!("&recent={most}")))
    }

    #[track_caller]
    fn over(mut client: Client) -> Self {
        let head = String::from_utf8(client.read_raw_head()).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Self { client, text: String::new() }
    }

    /// The next event; `None` at the end of the stream. Heartbeats are passed over.
    fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
                if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
            }
            self.text.push_str(&String::from_utf8(self.client.read_chunk()?).unwrap());
        }
    }

    /// The next request's record.
    #[track_caller]
    pub fn request(&mut self) -> Value {
        let (event, data) = self.next().expect("the stream goes on");
        assert_eq!("request", event, "{data}");
        data
    }
}

fn fetch(larder: &Larder, filter: &str) -> Client {
    ask_for(larder, filter, "")
}

fn ask_for(larder: &Larder, filter: &str, more: &str) -> Client {
    let filter: String = filter.bytes().map(|it| format!("%{it:02x}")).collect();
    let mut client = Client::connect(larder.admin);
    client.send(format!(
        "GET /api/v1/stream?filter={filter}{more} HTTP/1.1\r\n{}\r\n\r\n",
        larder.admin_lines()
    ));
    client
}

/// Two routes, one of them named.
fn site(origin: &Origin) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"api\"\npath = \"/api/*\"\n\
         proxy = {{ to = [\"{url}\"] }}\n[[site.route]]\nproxy = {{ to = [\"{url}\"] }}\n"
    ))
}

/// An origin that is not asked.
fn quiet() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\n\n")
}

#[test]
fn every_finished_request_is_in_the_stream() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let larder = site(&origin);
    let mut listener = Listener::to(&larder, "");
    let mut client = larder.client();
    client.get_with("/api/a?x=1", "User-Agent: test\r\nReferer: http://h/\r\n");
    client.get("/api/a?x=1");
    let (miss, hit) = (listener.request(), listener.request());
    for (it, cache) in [(&miss, "uri-miss"), (&hit, "hit")] {
        assert_eq!(cache, it["cache"], "{it}");
        assert_eq!("http://h/api/a?x=1", it["url"]);
        assert_eq!(("h", "/api/a"), (it["host"].as_str().unwrap(), it["path"].as_str().unwrap()));
        assert_eq!((200, 4), (it["status"].as_u64().unwrap(), it["bytes"].as_u64().unwrap()));
        assert_eq!(
            ("api", "*", "GET"),
            (it["route"].as_str().unwrap(), it["site"].as_str().unwrap(), it["method"].as_str().unwrap())
        );
        assert_eq!(("whole", "127.0.0.1"), (it["end"].as_str().unwrap(), it["client"].as_str().unwrap()));
        assert!(it["duration_us"].as_u64().is_some_and(|it| it < 20_000_000), "{it}");
        assert!(it["time_us"].as_u64().is_some_and(|it| it > 1_600_000_000_000_000), "{it}");
    }
    assert_eq!("test", miss["user_agent"]);
    assert!(miss["origin_us"].is_u64() && hit["origin_us"].is_null());
    assert!(hit["ttl"].as_i64().is_some_and(|it| (50..=60).contains(&it)), "{hit}");
    assert!(miss["id"].as_str() < hit["id"].as_str(), "ids sort: {miss} {hit}");
}

#[test]
fn a_filter_chooses() {
    let origin = Origin::new(|it| match it.target() {
        "/api/fine" => "HTTP/1.1 200 OK\n\nfine".to_owned(),
        _ => "HTTP/1.1 503 Busy\n\n".to_owned(),
    });
    let larder = site(&origin);
    let filter = r#"status >= 500 && route == "api" && cache != "hit""#;
    let mut listener = Listener::to(&larder, filter);
    let mut fine = Listener::to(&larder, r#"header["x-kind"] == "fine" || path ~ "^/only""#);
    larder.get("/other");
    larder.get("/api/failed");
    larder.client().get_with("/api/fine", "X-Kind: fine\r\n");
    assert_eq!("/api/failed", listener.request()["path"]);
    assert_eq!("/api/fine", fine.request()["path"]);
}

/// A filter was tested on what it must not show: whoever may listen could find out the cookie of a visitor, one character at a time.
#[test]
fn a_filter_matches_only_visible_values() {
    let origin = quiet();
    let larder = site(&origin);
    let filters = [
        r#"header["cookie"] contains "SECRET" || path == "/end""#,
        r#"header["authorization"] contains "SECRET" || path == "/end""#,
        r#"header["x-api-key"] ~ "SE" || path == "/end""#,
        r#"query contains "SECRET" || path == "/end""#,
        r#"url contains "SECRET" || path == "/end""#,
        r#"path contains "SECRET" || path == "/end""#,
        r#"referer contains "SECRET" || path == "/end""#,
        r#"header["referer"] contains "SECRET" || path == "/end""#,
    ];
    let mut listeners: Vec<Listener> = filters.iter().map(|it| Listener::to(&larder, it)).collect();
    let mut names =
        Listener::to(&larder, r#"header["cookie"] contains "sid=***" && query contains "token=***""#);
    let secrets = "Cookie: sid=SECRET\r\nAuthorization: Bearer SECRET\r\nX-Api-Key: SECRET\r\nReferer: http://h/?token=SECRET\r\n";
    larder.client().get_with("/a;jsessionid=SECRET?token=SECRET&page=1", secrets);
    larder.get("/end");
    for (filter, listener) in filters.iter().zip(&mut listeners) {
        assert_eq!("/end", listener.request()["path"], "{filter}");
        let (paths, _) = past(&larder, 10, filter);
        assert_eq!(["/end"], paths[..], "{filter}");
    }
    assert_eq!("/a;jsessionid=***", names.request()["path"]);
}

#[test]
fn a_filter_chooses_by_origin() {
    let (one, other) = (quiet(), quiet());
    let larder = site(&one);
    let mut here = Listener::to(&larder, &format!("origin == \"{}\"", one.url()));
    let mut away = Listener::to(&larder, &format!("origin == \"{}\" || path == \"/end\"", other.url()));
    // On one connection: a worker reports a request after its response, so that those of two workers have no order.
    let mut client = larder.client();
    client.get("/first");
    client.get("/end");
    let response = here.request();
    assert_eq!(
        ("/first", &*one.url()),
        (response["path"].as_str().unwrap(), response["origin"].as_str().unwrap())
    );
    assert_eq!("/end", away.request()["path"]);
    let (paths, _) = past(&larder, 10, &format!("origin == \"{}\"", one.url()));
    assert_eq!(["/first", "/end"], paths[..]);
}

/// The paths of the requests before the stream, and the stream.
fn past(larder: &Larder, most: usize, filter: &str) -> (Vec<String>, Listener) {
    let mut listener = Listener::after(larder, most, filter);
    let mut paths = Vec::new();
    loop {
        let (event, data) = listener.next().expect("the stream goes on");
        if event == "recent" {
            assert_eq!(paths.len() as u64, data["count"].as_u64().unwrap());
            return (paths, listener);
        }
        assert_eq!("request", event, "{data}");
        paths.push(data["path"].as_str().unwrap().to_owned());
    }
}

#[test]
fn a_listener_gets_the_latest_requests_before_its_start() {
    let origin = Origin::new(|it| match it.target() {
        "/api/failed" => "HTTP/1.1 503 Busy\n\n".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage".to_owned(),
    });
    let larder = site(&origin);
    until("the workers keep samples", || {
        larder.get("/first");
        !past(&larder, 1, "").0.is_empty()
    });
    // Each stands for a tick in which fewer requests came than are kept.
    for path in ["/api/failed", "/api/a", "/api/b"] {
        until("it is kept", || {
            larder.get(path);
            past(&larder, 1, "").0 == [path]
        });
    }
    let all = past(&larder, 300, "").0;
    assert!(all.contains(&"/first".to_owned()) && all.last().unwrap() == "/api/b", "{all:?}");
    assert!(past(&larder, 2, "").0.len() == 2);
    let (failed, mut listener) = past(&larder, 300, r#"status >= 500 && url contains "/api/""#);
    assert!(!failed.is_empty() && failed.iter().all(|it| it == "/api/failed"), "{failed:?}");
    larder.get("/api/failed");
    let response = listener.request();
    assert_eq!("/api/failed", response["path"], "and goes on with those that finish");
    assert_eq!(400, ask_for(&larder, "", "&recent=301").read().status);
}

#[test]
fn without_statistics_no_request_is_kept_for_listeners() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = Larder::before_with(&origin, "", "[admin]\nlisten = \"127.0.0.1:0\"\nstatistics = false\n");
    let mut client = larder.client();
    (0..20).for_each(|_| drop(client.get("/")));
    // The last may be reported after its response, when the listener is there; the others of its connection were reported before.
    let kept = past(&larder, 300, "").0;
    assert!(kept.len() <= 1, "{kept:?}");
}

#[test]
fn a_wrong_filter_is_refused_with_its_place() {
    let larder = site(&quiet());
    let refused = |filter: &str| {
        let response = fetch(&larder, filter).read();
        assert_eq!(400, response.status, "{filter}");
        serde_json::from_str::<Value>(&response.text()).unwrap()
    };
    let found = refused("status >= 500 && rout == \"api\"");
    assert_eq!("column 18", found["where"]);
    let detail = found["detail"].as_str().unwrap();
    assert!(
        detail.contains("unknown name \"rout\"; did you mean route? expected status, route, site, method"),
        "{detail}"
    );
    assert!(!detail.contains("tag"), "no name of stored responses: {detail}");
    assert_eq!("column 11", refused("status >= many")["where"]);
    assert_eq!("column 1", refused("age > 5")["where"]);
    assert_eq!(0, larder.counter("streams_open"));
}

#[test]
fn a_disconnected_listener_is_removed() {
    let larder = site(&quiet());
    let listener = Listener::to(&larder, "");
    assert_eq!(1, larder.counter("streams_open"));
    drop(listener);
    until("the stream is ended", || larder.counter("streams_open") == 0);
}

#[test]
fn only_so_many_may_listen() {
    let larder = site(&quiet());
    let all: Vec<_> = (0..16).map(|_| Listener::to(&larder, "")).collect();
    let refused = fetch(&larder, "").read();
    assert_eq!(503, refused.status);
    assert!(refused.text().contains("The live stream has the maximum of 16 listeners"), "{}", refused.text());
    assert_eq!(1, larder.counter("streams_refused"));
    drop(all);
}

#[test]
fn the_stream_ends_with_the_server() {
    let mut larder = site(&quiet());
    let mut listener = Listener::to(&larder, "");
    larder.signal(libc::SIGTERM);
    assert_eq!(Some("end".to_owned()), listener.next().map(|it| it.0));
    assert_eq!(None, listener.next());
    assert!(crate::harness::command::wait(&mut larder.child).success());
}

#[test]
fn a_listener_that_does_not_read_delays_no_request_and_gets_its_loss() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage");
    let larder = site(&origin);
    let mut slow = Listener::to(&larder, "");
    socket2::SockRef::from(&slow.client.stream).set_recv_buffer_size(32 * 1024).unwrap();
    let mut client = larder.client();
    let (target, long) = (format!("/{}", "x".repeat(1500)), format!("Referer: {}\r\n", "r".repeat(1500)));
    client.get_with(&target, &long);
    // Sockets hold some megabytes; then the queue is full, and records are lost.
    until("records are lost", || {
        (0..200).for_each(|_| assert_eq!(200, client.get_with(&target, &long).status));
        larder.counter("stream_records_lost") > 0
    });
    let (mut report, mut lost) = (0, 0);
    while lost == 0 {
        match slow.next().expect("the stream goes on") {
            (name, data) if name == "lost" => lost += data["count"].as_u64().unwrap(),
            _ => report += 1,
        }
    }
    assert!(report > 0 && lost <= larder.counter("stream_records_lost"), "{report} told, {lost} lost");
}

/// `larder tail`, which prints into a pipe.
struct Tail {
    child: std::process::Child,
    lines: std::io::BufReader<std::process::ChildStdout>,
}

impl Tail {
    /// Starts it; it listens once this returns.
    fn start(larder: &Larder, arguments: &[&str]) -> Self {
        use std::process::{Command, Stdio};
        let before = larder.counter("streams_open");
        let mut command = Command::new(crate::harness::server::binary());
        command.arg("tail").args(arguments).args(["--admin", &larder.admin.to_string()]);
        command.env("LARDER_ADMIN_TOKEN", crate::harness::server::TOKEN).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("tail listens", || larder.counter("streams_open") > before);
        let lines = std::io::BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.lines, &mut line).unwrap();
        line
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tail_prints_a_line_for_each_request_until_the_server_stops() {
    let origin = Origin::fixed("HTTP/1.1 503 Busy\n\n");
    let mut larder = site(&origin);
    let mut people = Tail::start(&larder, &[r#"status>=500&&route=="api""#]);
    let mut programs = Tail::start(&larder, &["--json", "path", "==", "\"/api/b\""]);
    larder.get("/other");
    larder.get("/api/a");
    // The next may be another worker's, so this is waited for.
    let line = people.line();
    larder.get("/api/b");
    assert!(line.contains(" 503 ") && line.contains(" api http://h/api/a\n"), "{line:?}");
    assert!(!line.contains('\x1b'), "no colours in a pipe: {line:?}");
    assert!(people.line().contains("/api/b"));
    let record: Value = serde_json::from_str(&programs.line()).unwrap();
    assert_eq!("/api/b", record["path"]);
    larder.signal(libc::SIGTERM);
    assert!(crate::harness::command::wait(&mut larder.child).success());
    assert_eq!(("".to_owned(), "".to_owned()), (people.line(), programs.line()));
    assert_eq!(Some(0), crate::harness::command::wait(&mut people.child).code());
}

#[test]
fn tail_reports_the_error_of_a_filter() {
    let larder = site(&quiet());
    let admin = larder.admin.to_string();
    let ended =
        crate::harness::command::run(larder.folder.path(), &["tail", "statos >= 500", "--admin", &admin]);
    assert_eq!((2, ""), (ended.code, ended.out.as_str()));
    assert!(ended.err.contains("column 1: unknown name \"statos\""), "{}", ended.err);
}

pub(super) fn explain(larder: &Larder, body: &str) -> (u16, Value) {
    let lines = larder.admin_lines();
    let mut client = Client::connect(larder.admin);
    let length = body.len();
    client
        .send(format!("POST /api/v1/explain HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"));
    let response = client.read();
    (response.status, serde_json::from_str(&response.text()).unwrap())
}

#[test]
fn a_request_of_the_past_is_explained_by_its_id() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\npage");
    let larder = site(&origin);
    let mut listener = Listener::to(&larder, "");
    let mut client = larder.client();
    client.get_with("/api/a", "Accept-Language: de\r\nCookie: theme=s3cret\r\n");
    client.get("/api/a");
    let (german, other) = (listener.request(), listener.request());
    until("both are stored", || larder.counter("cache_stores") == 2);
    let (status, report) = explain(&larder, &format!("{{\"id\":{}}}", german["id"]));
    assert_eq!(
        (200, "hit"),
        (status, report["verdict"]["name"].as_str().unwrap()),
        "its own headers: {report}"
    );
    assert_eq!(german, report["then"]);
    assert_eq!("uri-miss", report["then"]["cache"]);
    assert_eq!(serde_json::json!(["Cookie"]), report["withheld"]);
    assert!(!report.to_string().contains("s3cret"), "{report}");
    assert_eq!("accept-language: de", report["stored"]["variant"]);
    let (_, report) = explain(&larder, &format!("{{\"id\":{}}}", other["id"]));
    assert_eq!("accept-language: absent", report["stored"]["variant"], "{report}");
    let (admin, id) = (larder.admin.to_string(), german["id"].as_str().unwrap());
    let output =
        crate::harness::command::run(larder.folder.path(), &["explain", "--id", id, "--admin", &admin]);
    assert_eq!(0, output.code, "{}", output.err);
    assert!(
        output.out.contains(" 200 first-request ") && output.out.contains("verdict  hit"),
        "{}",
        output.out
    );
}

#[test]
fn a_head_of_the_past_that_was_refused_is_explained_by_why_it_was() {
    let larder = site(&quiet());
    let mut listener = Listener::to(&larder, "");
    let long = "x".repeat(20_000);
    let heads = [
        (format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414, "The request target is too long."),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nExpect: more\r\n\r\n".to_owned(),
            417,
            "The Expect field has a value other than 100-continue.",
        ),
        (
            "GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
            421,
            "The request target is an https URL, but the connection is not encrypted.",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\nX-Long: {long}{long}{long}\r\n\r\n"),
            431,
            "The request head is too large, or has more than 128 fields.",
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n".to_owned(),
            400,
            "The Host field is missing, repeated or not valid.",
        ),
    ];
    for (head, status, why) in heads {
        assert_eq!(status, larder.client().send(head).read().status);
        let then = listener.request();
        assert_eq!(status, then["status"], "{then}");
        let (_, report) = explain(&larder, &format!("{{\"id\":{}}}", then["id"]));
        assert_eq!(
            (&serde_json::json!("refused"), &serde_json::json!(status)),
            (&report["verdict"]["name"], &report["verdict"]["status"]),
            "{report}"
        );
        let sentence = report["verdict"]["sentence"].as_str().unwrap();
        assert!(
            sentence.starts_with(&format!("larder rejected the request with {status}: {why}")),
            "{report}"
        );
        assert_eq!(then, report["then"]);
    }
}

#[test]
fn an_unknown_request_id_is_a_404() {
    let larder = site(&quiet());
    larder.get("/");
    let (status, report) = explain(&larder, r#"{"id":"00000001"}"#);
    assert_eq!(404, status);
    assert!(
        report["detail"].as_str().unwrap().contains("The request 00000001 is no longer recorded"),
        "{report}"
    );
    assert_eq!(400, explain(&larder, r#"{"id":"what"}"#).0);
    assert_eq!(400, explain(&larder, r#"{"id":"00000001","url":"http://h/"}"#).0);
}
