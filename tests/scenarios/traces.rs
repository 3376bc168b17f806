//! Where the time of a request goes: traces, how they are switched, how they are followed, and `Server-Timing`.

use crate::harness::http2::{self, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, Http2, block, frame};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::server::{TOKEN, binary};
use crate::harness::tiers::{disk, killed, of_size, written};
use crate::harness::{Client, Larder, Origin, command, until};
use serde_json::{Value, json};
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The origin's thinking time.
const PAUSE: Duration = Duration::from_millis(30);

/// Lets time pass that is to be seen in a trace: it is what is measured here, and nothing is hoped to happen meanwhile.
fn lasts() {
    std::thread::sleep(PAUSE);
}

fn before(origin: &Origin, route: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\n{route}\n",
        origin.address
    ))
}

/// An origin that thinks before its head, and again within its body.
fn slow() -> Origin {
    Origin::scripted(|_| {
        let head = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 10\n\n");
        vec![
            Script::Pause(PAUSE),
            Script::Send([head, b"first".to_vec()].concat()),
            Script::Pause(PAUSE),
            Script::Send(b"-last".to_vec()),
        ]
    })
}

fn page() -> Origin {
    Origin::scripted(|_| {
        vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 2\n\nok"))]
    })
}

fn asked(larder: &Larder, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut client = Client::connect(larder.admin);
    let (lines, length) = (larder.admin_lines(), body.len());
    client.send(format!("{method} {path} HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{body}"));
    let response = client.read();
    let value = serde_json::from_str(&response.text()).unwrap_or(Value::Null);
    (response.status, value)
}

/// The names of the steps of a machine in a trace.
fn steps<'a>(trace: &'a Value, machine: &str) -> Vec<&'a str> {
    let all = trace["steps"].as_array().unwrap().iter();
    all.filter(|it| it["machine"] == machine).map(|it| it["step"].as_str().unwrap()).collect()
}

/// The traces so far, the oldest first, once there are `count`.
fn traces(larder: &Larder, count: usize) -> Vec<Value> {
    until("the traces are there", || larder.counter("traces") >= count as u64);
    let (status, value) = asked(larder, "GET", "/api/v1/traces", "");
    assert_eq!(200, status, "{value}");
    let mut traces = value["traces"].as_array().unwrap().clone();
    traces.reverse();
    assert_eq!(count, traces.len(), "{value:#}");
    for it in &traces {
        let stages = it["stages"].as_object().unwrap();
        let sum: u64 = stages.values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(it["total_us"].as_u64().unwrap(), sum, "stages add up: {it}");
    }
    traces
}

fn micros(trace: &Value, stage: &str) -> Option<u64> {
    trace["stages"][stage].as_u64()
}

const PAUSED: u64 = PAUSE.as_micros() as u64;

#[test]
fn a_miss_its_follower_and_a_hit() {
    let gate = Gate::new();
    let before_head = gate.clone();
    let origin = Origin::scripted(move |_| {
        let head = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 10\n\n");
        vec![
            Script::Gate(before_head.clone()),
            Script::Pause(PAUSE),
            Script::Send([head, b"first".to_vec()].concat()),
            Script::Pause(PAUSE),
            Script::Send(b"-last".to_vec()),
        ]
    });
    let larder = before(&origin, "trace = 1");
    let (mut leader, mut follower) = (larder.client(), larder.client());
    leader.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the leader is at the gate", || gate.waiting() == 1);
    follower.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    until("a follower", || larder.counter("requests_collapsed") == 1);
    gate.open();
    assert_eq!("first-last", leader.read().text());
    assert_eq!("first-last", follower.read().text());
    traces(&larder, 2);
    assert!(leader.get("/a").is_hit());
    let all = traces(&larder, 3);
    let of = |cache: &str, stage: &str| {
        all.iter()
            .find(|it| it["cache"] == cache && !it["stages"][stage].is_null())
            .unwrap_or_else(|| panic!("{all:#?}"))
    };
    let (led, followed, hit) = (of("uri-miss", "first_byte"), of("uri-miss", "wait"), of("hit", "lookup"));
    assert!(micros(led, "first_byte") >= Some(PAUSED) && micros(led, "body").is_some(), "{led:#}");
    assert!(
        micros(led, "connect").is_some() && micros(led, "write").is_some() && micros(led, "wait").is_none(),
        "{led:#}"
    );
    assert!(micros(followed, "wait") >= Some(PAUSED) && micros(followed, "body").is_some(), "{followed:#}");
    assert!(
        micros(followed, "connect").is_none() && micros(followed, "first_byte").is_none(),
        "{followed:#}"
    );
    assert_eq!(
        ["receive", "lookup", "fetch", "store", "deliver", "finish"],
        *steps(led, "request"),
        "{led:#}"
    );
    assert!(steps(led, "fill").starts_with(&["origin", "decide", "store"]), "{led:#}");
    assert_eq!(["receive", "lookup", "wait", "store", "deliver", "finish"], *steps(followed, "request"));
    assert!(steps(followed, "fill").is_empty(), "{followed:#}");
    let times: Vec<u64> =
        led["steps"].as_array().unwrap().iter().map(|it| it["at_us"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && times.last() >= Some(&PAUSED), "{led:#}");
    assert_eq!(json!([]), hit["steps"], "a fast hit");
    assert_eq!(vec!["lookup"], hit["stages"].as_object().unwrap().keys().collect::<Vec<_>>(), "a fast hit");
    for it in &all {
        let (url, method, status) = (&it["url"], &it["method"], &it["status"]);
        assert_eq!(
            ("http://h/a", "GET", 200, 10),
            (
                url.as_str().unwrap(),
                method.as_str().unwrap(),
                status.as_u64().unwrap(),
                it["bytes"].as_u64().unwrap()
            )
        );
        assert_eq!("*/*", it["route"]);
    }
}

#[test]
fn a_head_is_timed_from_its_first_byte() {
    let origin = page();
    let larder = before(&origin, "trace = 1");
    let mut client = larder.client();
    until("it is accepted", || larder.counter("connections_open") == 1);
    lasts();
    client.get("/a");
    lasts();
    client.get("/a");
    let received = larder.counter("client_bytes_received");
    client.send("GET /a HTT");
    until("a part of the head has come", || larder.counter("client_bytes_received") == received + 10);
    lasts();
    client.send("P/1.1\r\nHost: h\r\n\r\n");
    assert_eq!("ok", client.read().text());
    let all = traces(&larder, 3);
    let parsed = micros(&all[0], "parse");
    assert!(parsed.is_some_and(|it| it < PAUSED), "a client that connects and is silent: {:#}", all[0]);
    assert_eq!(None, micros(&all[1], "parse"), "a connection that rests is not measured: {:#}", all[1]);
    assert!(micros(&all[2], "parse") >= Some(PAUSED), "{:#}", all[2]);
}

/// A miss, and hits whose head comes in one frame, in two reads, and in two frames.
#[test]
fn a_head_of_http2_is_timed_from_the_first_byte_of_its_frame() {
    let origin = page();
    let larder = before(&origin, "trace = 1");
    let mut client = Http2::connect(&larder);
    lasts();
    client.get("/a");
    client.get("/a");
    let head = block(&http2::request("GET", "/a", &[]));
    let whole = frame(HEADERS, END_STREAM | END_HEADERS, 5, &head);
    let (first, last) = head.split_at(10);
    let (first, last) = (frame(HEADERS, END_STREAM, 7, first), frame(CONTINUATION, END_HEADERS, 7, last));
    for (id, first, last) in [(5, &whole[..15], &whole[15..]), (7, &first, &last)] {
        let received = larder.counter("client_bytes_received");
        client.send(first);
        let enough = received + first.len() as u64;
        until("a part of the head has come", || larder.counter("client_bytes_received") >= enough);
        lasts();
        client.send(last);
        assert_eq!("ok", client.answer(id).text());
    }
    let all = traces(&larder, 4);
    let parsed: Vec<_> = all.iter().map(|it| micros(it, "parse")).collect();
    assert!(parsed[0].is_some_and(|it| it < PAUSED), "{:#}", all[0]);
    assert_eq!(None, parsed[1], "{:#}", all[1]);
    assert!(parsed[2] >= Some(PAUSED) && parsed[3] >= Some(PAUSED), "{parsed:?}");
}

#[test]
fn a_request_that_passes_is_timed_too() {
    let origin = slow();
    let larder = before(&origin, "trace = 1");
    // A busy machine may let larder sleep through a pause of the origin; not through each of ten.
    for _ in 0..10 {
        let response = larder.client().request("POST", "/a", "", "hello");
        assert_eq!("first-last", response.text());
    }
    let all = traces(&larder, 10);
    let paused =
        |it: &Value| micros(it, "first_byte") >= Some(PAUSED) && micros(it, "body") >= Some(PAUSED * 9 / 10);
    assert!(all.iter().any(paused), "{all:#?}");
}

#[test]
fn a_client_that_does_not_read_is_time_of_writing() {
    const SIZE: usize = 32 << 20;
    let origin = Origin::scripted(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {SIZE}\r\n\r\n");
        vec![Script::Send([head.into_bytes(), vec![b'x'; SIZE]].concat())]
    });
    let larder = before(&origin, "trace = 1");
    assert_eq!(SIZE, larder.get("/a").body.len());
    traces(&larder, 1);
    let mut client = larder.client();
    client.send("HEAD /b HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\n\r\n");
    client.read_for("HEAD");
    lasts();
    assert_eq!(SIZE, client.read().body.len());
    let all = traces(&larder, 3);
    assert!(micros(&all[2], "write") >= Some(PAUSED / 2), "{:#}", all[2]);
}

#[test]
fn sampling_is_switched_while_running() {
    let origin = page();
    let larder = before(&origin, "");
    larder.get("/a");
    assert_eq!(200, asked(&larder, "PUT", "/api/v1/traces/sampling", r#"{"route":"*","every":3}"#).0);
    let mut client = larder.client();
    (0..9).for_each(|_| drop(client.get("/a")));
    assert_eq!(3, traces(&larder, 3).len());
    let (_, value) = asked(&larder, "PUT", "/api/v1/traces/sampling", r#"{"route":"*/*","every":0}"#);
    assert_eq!(serde_json::json!([{"route":"*/*","every":0}]), value["sampling"]);
    (0..9).for_each(|_| drop(client.get("/a")));
    assert_eq!(3, larder.counter("traces"));
    for (body, status, detail) in [
        (r#"{"route":"shop/*","every":1}"#, 404, "Unknown route \"shop/*\"; the routes are */*."),
        (r#"{"route":"*"}"#, 400, "\"every\" is missing: traces one of this many requests"),
        (r#"{"every":1}"#, 400, "\"route\" is missing: the name of a route"),
        ("every", 400, "The body is not JSON"),
    ] {
        let (found, value) = asked(&larder, "PUT", "/api/v1/traces/sampling", body);
        assert_eq!(status, found, "{body}");
        assert!(value["detail"].as_str().unwrap().starts_with(detail), "{value}");
    }
    let (status, _) = asked(&larder, "GET", "/api/v1/traces?limit=x", "");
    assert_eq!(400, status);
}

#[test]
fn a_reload_takes_the_sampling_of_the_file() {
    let origin = page();
    let larder = before(&origin, "trace = 0");
    assert_eq!(200, asked(&larder, "PUT", "/api/v1/traces/sampling", r#"{"route":"*","every":7}"#).0);
    let text = std::fs::read_to_string(larder.config()).unwrap().replace("trace = 0", "trace = 2");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the file is taken", || larder.counter("config_reloads") >= 1);
    let (_, value) = asked(&larder, "GET", "/api/v1/traces", "");
    assert_eq!(serde_json::json!([{"route":"*/*","every":2}]), value["sampling"]);
}

#[test]
fn traces_are_followed() {
    let origin = page();
    let larder = before(&origin, "trace = 1");
    let mut follower = Client::connect(larder.admin);
    let lines = larder.admin_lines();
    follower.send(format!("GET /api/v1/traces/stream?route=*%2F* HTTP/1.1\r\n{lines}\r\n\r\n"));
    let mut seen = String::new();
    let mut until_seen = |what: &str| {
        while !seen.contains(what) {
            let more = follower.read_bytes(1);
            assert!(!more.is_empty(), "{what} in {seen}");
            seen.push_str(&String::from_utf8_lossy(&more));
        }
    };
    until_seen("text/event-stream");
    until_seen(": alive");
    larder.get("/seen");
    until_seen("event: trace");
    until_seen("http://h/seen");
    until_seen("\"stages\":{");
}

/// The metrics of a value of `Server-Timing`, by its grammar: `name;dur=MILLISECONDS` between commas.
fn metrics(value: &str) -> Vec<(String, f64)> {
    let metric = |it: &str| {
        let (name, dur) = it.trim().split_once(";dur=").unwrap_or_else(|| panic!("{value}"));
        assert!(
            name.bytes().all(|it| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it)),
            "{value}"
        );
        (name.to_owned(), dur.parse().unwrap())
    };
    value.split(',').map(metric).collect()
}

fn timings(response: &crate::harness::Response) -> Vec<&str> {
    let of = response.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("server-timing"));
    of.map(|it| it.1.as_str()).collect()
}

#[test]
fn server_timing_is_ours_alone_and_new_for_each_response() {
    let origin = Origin::scripted(|_| {
        let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nServer-Timing: db;dur=5\n\
                    Server-Timing: larder-body;dur=77.000\nContent-Length: 2\n\nok";
        vec![Script::Pause(PAUSE), Script::Send(response(text))]
    });
    let larder = before(&origin, "server_timing = true");
    let first = larder.get("/a");
    let lines = timings(&first);
    assert_eq!("db;dur=5", lines[0], "{lines:?}");
    let ours = metrics(lines.last().unwrap());
    assert!(ours.iter().any(|it| it.0 == "larder-first_byte"), "{lines:?}");
    // A busy machine may stop larder once the request is on its way: what is then missing of the pause is of `connect`.
    let thought = |it: &&(String, f64)| ["larder-connect", "larder-first_byte"].contains(&it.0.as_str());
    assert!(ours.iter().filter(thought).map(|it| it.1).sum::<f64>() >= 30.0, "{lines:?}");
    for (kind, lines) in [("fast", ""), ("slow", "Range: bytes=0-\r\n"), ("fast", "If-None-Match: \"x\"\r\n")]
    {
        let hit = larder.client().get_with("/a", lines);
        assert!(hit.is_hit(), "{kind}");
        let lines = timings(&hit);
        assert_eq!(2, lines.len(), "{kind}: {lines:?}");
        assert_eq!("db;dur=5", lines[0], "the origin's stays the origin's");
        let ours = metrics(lines[1]);
        assert!(ours.iter().any(|it| it.0 == "larder-lookup"), "{kind}: {lines:?}");
        assert!(ours.iter().all(|it| it.1 < 30.0), "{kind}: {lines:?}");
    }
    assert_eq!(0, larder.counter("traces"), "nobody asked for traces");
}

#[test]
fn without_server_timing_there_is_none() {
    let larder = before(&page(), "trace = 1");
    assert!(timings(&larder.get("/a")).is_empty());
    assert!(timings(&larder.get("/a")).is_empty());
}

/// A recorder of every request, once it records.
fn recorder(larder: &Larder, folder: &Path) -> Child {
    recorder_of(larder, folder, 1)
}

/// A recorder of one request in `every`, once larder traces so many.
fn recorder_of(larder: &Larder, folder: &Path, every: u64) -> Child {
    record(larder, folder, every, &["--for", "1h", "-o", &format!("{every}.jsonl")])
}

fn record(larder: &Larder, folder: &Path, every: u64, more: &[&str]) -> Child {
    let mut command = Command::new(binary());
    let (admin, rate) = (larder.admin.to_string(), every.to_string());
    command.args(["trace", "record", "--admin", &admin, "--every", &rate]).args(more);
    command.current_dir(folder).env("LARDER_ADMIN_TOKEN", TOKEN).stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("it records", || matches!(sampling(larder), (it, Some(_)) if it == every));
    child
}

fn end(recorder: &mut Child, signal: i32) -> Option<i32> {
    let pid = libc::pid_t::try_from(recorder.id()).unwrap();
    // SAFETY: kill takes no pointers, and the process is our child.
    unsafe { libc::kill(pid, signal) };
    command::wait(recorder).code()
}

/// What holds for the only route: one in so many, and for how many seconds at most.
fn sampling(larder: &Larder) -> (u64, Option<u64>) {
    let it = asked(larder, "GET", "/api/v1/traces?limit=1", "").1["sampling"][0].clone();
    (it["every"].as_u64().unwrap(), it["for"].as_u64())
}

fn set(larder: &Larder, body: &str) {
    let (status, value) = asked(larder, "PUT", "/api/v1/traces/sampling", body);
    assert_eq!(200, status, "{value}");
}

#[test]
fn a_recorder_that_is_ended_leaves_the_rate_of_the_file() {
    let origin = page();
    let larder = before(&origin, "trace = 7");
    let folder = tempfile::tempdir().unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut recorder = recorder(&larder, folder.path());
        assert!(matches!(sampling(&larder), (1, Some(1..=30))), "{:?}", sampling(&larder));
        assert_eq!(Some(0), end(&mut recorder, signal), "signal {signal}");
        assert_eq!((7, None), sampling(&larder), "signal {signal}");
    }
}

/// The rate is held by a lease: what is killed cannot give it back.
#[test]
fn a_recorder_that_is_killed_leaves_its_rate_for_seconds_only() {
    let origin = page();
    let larder = before(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = recorder(&larder, folder.path());
    assert_eq!(None, end(&mut recorder, libc::SIGKILL));
    assert!(matches!(sampling(&larder), (1, Some(1..=30))), "{:?}", sampling(&larder));
    larder.pass(30_000);
    assert_eq!((0, None), sampling(&larder));
    let before = larder.counter("traces");
    larder.get("/a");
    assert_eq!(before, larder.counter("traces"));
}

#[test]
fn a_recorder_that_ends_leaves_the_rate_of_another() {
    let origin = page();
    let larder = before(&origin, "trace = 100");
    let folder = tempfile::tempdir().unwrap();
    let mut sparse = recorder_of(&larder, folder.path(), 10);
    let mut dense = recorder_of(&larder, folder.path(), 2);
    assert_eq!(Some(0), end(&mut dense, libc::SIGTERM));
    assert!(matches!(sampling(&larder), (10, Some(1..=30))), "{:?}", sampling(&larder));
    // What an operator sets meanwhile is seen where it is the densest, and holds when all have ended.
    set(&larder, r#"{"route":"*/*","every":5}"#);
    assert_eq!((5, None), sampling(&larder));
    set(&larder, r#"{"route":"*/*","every":50}"#);
    assert_eq!(10, sampling(&larder).0);
    assert_eq!(50, asked(&larder, "GET", "/api/v1/traces?limit=1", "").1["sampling"][0]["set"]);
    assert_eq!(Some(0), end(&mut sparse, libc::SIGTERM));
    assert_eq!((50, None), sampling(&larder));
}

/// Two who ask over the API, as recorders do: one of them is gone without a word.
#[test]
fn a_vanished_recorder_leaves_the_sampling_rate_of_another() {
    let origin = page();
    let larder = before(&origin, "");
    let wants = |owner: &str, every: u32, seconds: u32| {
        set(&larder, &format!(r#"{{"route":"*","every":{every},"for":{seconds},"owner":"{owner}"}}"#));
    };
    wants("dead", 1, 30);
    wants("alive", 3, 30);
    assert_eq!((1, Some(30)), sampling(&larder));
    larder.pass(10_000);
    wants("alive", 3, 30);
    assert_eq!((1, Some(20)), sampling(&larder));
    larder.pass(20_000);
    assert_eq!((3, Some(10)), sampling(&larder));
    let mut client = larder.client();
    (0..9).for_each(|_| drop(client.get("/a")));
    traces(&larder, 3);
    wants("alive", 3, 0);
    assert_eq!((0, None), sampling(&larder));
}

#[test]
fn a_lease_that_asks_for_nothing_is_refused() {
    let origin = page();
    let larder = before(&origin, "trace = 7");
    let long = "x".repeat(65);
    for (body, at) in [
        (r#"{"route":"*","every":0,"for":30}"#.to_owned(), "every"),
        (r#"{"route":"*","every":1,"owner":"x"}"#.to_owned(), "owner"),
        (format!(r#"{{"route":"*","every":1,"for":30,"owner":"{long}"}}"#), "owner"),
    ] {
        let (status, value) = asked(&larder, "PUT", "/api/v1/traces/sampling", &body);
        assert_eq!((400, at), (status, value["where"].as_str().unwrap_or_default()), "{body}: {value}");
    }
    (0..64).for_each(|it| set(&larder, &format!(r#"{{"route":"*","every":9,"for":30,"owner":"{it}"}}"#)));
    let more = r#"{"route":"*","every":1,"for":30,"owner":"more"}"#;
    let mut client = Client::connect(larder.admin);
    let (lines, length) = (larder.admin_lines(), more.len());
    client.send(format!(
        "PUT /api/v1/traces/sampling HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{more}"
    ));
    let refused = client.read();
    assert_eq!((503, Some("1")), (refused.status, refused.field("retry-after")), "{refused:?}");
    assert_eq!((7, None), sampling(&larder));
    larder.pass(30_000);
    assert_eq!(200, asked(&larder, "PUT", "/api/v1/traces/sampling", more).0, "the others are over");
}

#[test]
fn a_reload_while_traces_are_recorded_is_not_undone() {
    let origin = page();
    let larder = before(&origin, "trace = 0");
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = recorder(&larder, folder.path());
    let text = std::fs::read_to_string(larder.config()).unwrap().replace("trace = 0", "trace = 2");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the file is taken", || larder.counter("config_reloads") >= 1);
    assert_eq!(1, sampling(&larder).0, "it goes on");
    end(&mut recorder, libc::SIGTERM);
    assert_eq!((2, None), sampling(&larder));
}

#[test]
fn traces_are_recorded_and_drawn() {
    let origin = page();
    let larder = before(&origin, "");
    let folder = tempfile::tempdir().unwrap();
    let admin = larder.admin.to_string();
    let mut recording = record(&larder, folder.path(), 2, &["--for", "1h", "-o", "t.jsonl"]);
    let mut client = larder.client();
    (0..20).for_each(|_| drop(client.get("/a")));
    until("they are recorded", || {
        std::fs::read_to_string(folder.path().join("t.jsonl")).unwrap().lines().count() >= 11
    });
    assert_eq!(Some(0), end(&mut recording, libc::SIGINT));
    let tells = "recorded 10 traces in t.jsonl; plot them with `larder trace plot t.jsonl`.";
    let mut report = String::new();
    recording.stderr.take().unwrap().read_to_string(&mut report).unwrap();
    assert!(report.contains(tells), "{report}");
    let briefly = ["trace", "record", "--admin", &admin, "--every", "2", "--for", "1ms", "-o", "b.jsonl"];
    let ended = command::run(folder.path(), &briefly);
    assert!(ended.code == 0 && ended.err.contains("in b.jsonl"), "it ends by itself: {ended:?}");
    let text = std::fs::read_to_string(folder.path().join("t.jsonl")).unwrap();
    assert_eq!(11, text.lines().count(), "{text}");
    let sampling = asked(&larder, "GET", "/api/v1/traces", "").1["sampling"].clone();
    assert_eq!(0, sampling[0]["every"], "it is as it was before");
    let drawn = command::run(folder.path(), &["trace", "plot", "t.jsonl"]);
    assert_eq!(0, drawn.code, "{drawn:?}");
    let page = std::fs::read_to_string(folder.path().join("t.html")).unwrap();
    assert!(page.contains("10 traced requests") && page.contains("<svg"), "{page}");
    for (arguments, sentence) in [
        (&["trace", "record", "--admin", &admin, "--for", "1ms"][..], "No request of * is traced"),
        (
            &["trace", "record", "--admin", &admin, "--route", "x"][..],
            "Unknown route \"x\"; the routes are */*.",
        ),
        (&["trace", "plot", "none.jsonl"][..], "none.jsonl cannot be read"),
        (&["trace", "plot", "t.html"][..], "would overwrite t.html"),
        (&["trace", "plot", "t.html", "-o", "p.html"][..], "t.html: line 1 is not JSON"),
        (&["trace"][..], "requires an action: record, or plot FILE"),
    ] {
        let ended = command::run(folder.path(), arguments);
        assert!(ended.code != 0 && ended.err.contains(sentence), "{arguments:?}: {ended:?}");
    }
}

/// Tells the kernel to forget the pages of every file beneath a directory.
fn forget_pages(folder: &std::path::Path) {
    for it in std::fs::read_dir(folder).unwrap().flatten() {
        if it.path().is_dir() {
            forget_pages(&it.path());
            continue;
        }
        let file = std::fs::File::open(it.path()).unwrap();
        file.sync_all().unwrap();
        // SAFETY: posix_fadvise takes no pointers, and the descriptor is open.
        let done = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(0, done);
    }
}

/// One thread reads, so all but the first wait for it.
fn read_all_at_once(larder: &Larder, targets: &[String]) {
    let mut clients: Vec<Client> = targets
        .iter()
        .map(|it| {
            let mut client = larder.client();
            client.send(format!("GET {it} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client
        })
        .collect();
    for (client, target) in clients.iter_mut().zip(targets) {
        let found = client.read();
        let (length, cache) = (found.body.len(), found.cache());
        assert_eq!((200, target[1..].parse().unwrap()), (found.status, length), "{cache}");
    }
}

#[test]
fn a_read_of_the_disk_tells_its_wait_and_its_reading() {
    const READS: usize = 4;
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_size());
    let start = || {
        Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{}readers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
             trace = 1\nproxy = {{ to = [\"{}\"] }}\n",
            disk(folder.path()),
            origin.url()
        ))
    };
    let first = start();
    let targets: Vec<String> = (0..READS).map(|it| format!("/{}", 400_000 + it)).collect();
    targets.iter().for_each(|it| assert_eq!(200, first.get(it).status));
    written(&first, READS as u64);
    killed(first);
    // Again where the machine was too busy to read within a second: then the origin is asked, which is shown elsewhere.
    let mut read = None;
    until("all are read in time", || {
        forget_pages(folder.path());
        let (larder, before) = (start(), origin.requests());
        read_all_at_once(&larder, &targets);
        if origin.requests() == before {
            read = Some(larder);
        } else {
            written(&larder, (origin.requests() - before) as u64);
            killed(larder);
        }
        read.is_some()
    });
    let larder = read.unwrap();
    let all = traces(&larder, READS);
    let of = |it: &Value, stage: &str| it["stages"][stage].as_u64();
    for it in &all {
        assert_eq!("hit-disk", it["cache"], "{it}");
        assert!(of(it, "read") > Some(0), "{it}");
        let sum: u64 = it["stages"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(it["total_us"], sum, "{it}");
    }
    assert!(larder.counter("disk_pool_reads") >= READS as u64);
    let waited = all.iter().filter(|it| of(it, "queue") > Some(0)).count();
    assert!(waited >= 1, "{all:#?}");
}
