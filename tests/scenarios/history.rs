//! The history: each step has its requests, events are marked, a file keeps it over restarts, a range is compared with the time before it.

use crate::harness::command::wait;
use crate::harness::server::{Setup, TOKEN, binary};
use crate::harness::{Larder, Origin, begun, until};
use serde_json::Value;
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn asked(larder: &Larder, path: &str) -> Value {
    let answer = larder.admin_get(path);
    assert_eq!(200, answer.status, "{path}: {answer:?}");
    serde_json::from_str(&answer.text()).unwrap()
}

fn history(larder: &Larder, since: u64) -> Value {
    asked(larder, &format!("/api/v1/history?since={since}"))
}

fn in_steps(larder: &Larder, step: u64) -> Value {
    asked(larder, &format!("/api/v1/history?step={step}"))
}

/// Lets a minute pass by both clocks, once every request so far is counted: that is after its response, and before the end of its connection.
fn minute(larder: &Larder) {
    until("no client is connected", || larder.counter("connections_open") == 0);
    larder.advance(60);
    larder.pass(60_000);
    history(larder, 0);
}

/// The sum of a column over all steps.
fn sum(of: &Value, name: &str) -> u64 {
    let at = of["columns"].as_array().unwrap().iter().position(|it| it == name).unwrap();
    of["samples"].as_array().unwrap().iter().map(|it| it[at].as_u64().unwrap()).sum()
}

/// The marks: the kind, and the text without the name of an origin.
fn marks(of: &Value) -> Vec<(String, String)> {
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    of["marks"].as_array().unwrap().iter().map(|it| (text(&it["kind"]), text(&it["what"]))).collect()
}

fn origin() -> Origin {
    Origin::new(|request| match request.target() {
        "/kept" | "/api/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        "/absent" => "HTTP/1.1 404 No\nCache-Control: no-store\n\nabsent".to_owned(),
        _ => "HTTP/1.1 500 No\nCache-Control: no-store\n\nbroken".to_owned(),
    })
}

#[test]
fn a_step_has_the_requests_the_errors_and_the_durations_of_a_minute() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let begun = history(&larder, 0);
    assert_eq!(10, begun["step"]);
    for path in ["/kept", "/kept", "/kept", "/absent", "/broken"] {
        larder.get(path);
    }
    // The counts of a route follow the response.
    until("all are counted", || {
        let stats = asked(&larder, "/api/v1/stats");
        let of = |name: &str| {
            stats["routes"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|it| it["counters"][name].as_u64())
                .sum::<u64>()
        };
        (of("errors_4xx"), of("errors_5xx")) == (1, 1)
    });
    larder.pass(10_000);
    let report = history(&larder, 0);
    let sums = ["requests", "hits", "misses", "errors_4xx", "errors_5xx"].map(|it| sum(&report, it));
    assert_eq!([5, 2, 3, 1, 1], sums, "{report}");
    assert!(
        sum(&report, "bytes_sent") > 0 && sum(&report, "miss_p99_us") > 0 && sum(&report, "ram_bytes") > 0
    );
    // A minute later nothing is of the minute any more.
    (0..7).for_each(|_| {
        larder.pass(10_000);
        history(&larder, 0);
    });
    let report = history(&larder, 0);
    let last = report["samples"].as_array().unwrap().last().unwrap().as_array().unwrap();
    assert_eq!(report["columns"].as_array().unwrap().last().unwrap(), "miss_p99_us");
    assert_eq!(Some(0), last.last().unwrap().as_u64(), "{report}");
    assert_eq!(5, sum(&report, "requests"), "each is counted once");
    let later = history(&larder, report["now"].as_u64().unwrap());
    assert!(later["samples"].as_array().unwrap().is_empty() && later["marks"].as_array().unwrap().is_empty());
    assert_eq!(400, larder.admin_get("/api/v1/history?since=yesterday").status);
}

#[test]
fn events_are_marked_in_their_order() {
    let (origin, dead) = (origin(), crate::harness::closed_address());
    let dead = format!("http://{}", dead.1);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         [site.route.proxy]\nto = [{:?}, {dead:?}]\nhealth = {{ path = \"/kept\", interval = \"20ms\", fall = 1 }}\n",
        origin.url()
    );
    let larder = Larder::configured(config);
    let kinds = || marks(&history(&larder, 0)).into_iter().map(|it| it.0).collect::<Vec<_>>();
    until("one is down", || kinds() == ["start", "down"]);
    assert_eq!(format!("{dead} is down"), marks(&history(&larder, 0))[1].1);
    assert_eq!(200, larder.admin_post("/api/v1/purge", "{\"url\":\"http://h/kept\"}").status);
    assert_eq!(["start", "down"], kinds()[..], "a purge of one URL is not marked");
    assert_eq!(200, larder.admin_post("/api/v1/purge", "{\"all\":true}").status);
    assert_eq!(["start", "down", "purge"], kinds()[..]);
    let drain = format!("/api/v1/origins/drain?origin={}", origin.url());
    assert_eq!(200, larder.admin_request("PUT", &drain).status);
    assert_eq!("drain", kinds()[3]);
    assert_eq!(200, larder.admin_request("DELETE", &drain).status);
    assert_eq!("restore", kinds()[4]);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("fall = 1", "fall = 2")).unwrap();
    until("it is reloaded", || kinds().get(5).is_some_and(|it| it == "reload"));
    std::fs::write(larder.config(), text.replace("workers = 1", "workers = 0")).unwrap();
    until("it is refused", || kinds().get(6).is_some_and(|it| it == "refused"));
}

#[test]
fn every_step_has_every_request() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    history(&larder, 0);
    for _ in 0..6 {
        larder.get("/kept");
        larder.get("/broken");
        minute(&larder);
    }
    for step in [1, 10, 60, 300, 1800] {
        let output = in_steps(&larder, step);
        assert_eq!(Some(step), output["step"].as_u64());
        let sums = ["requests", "hits", "misses", "errors_5xx"].map(|it| sum(&output, it));
        assert_eq!([12, 5, 7, 6], sums, "in steps of {step} s: {output}");
    }
    let rows = |step| in_steps(&larder, step)["samples"].as_array().unwrap().len();
    assert!(rows(60) == 6 && (1..=3).contains(&rows(300)) && rows(1800) <= 2, "{}", in_steps(&larder, 300));
    assert_eq!(400, larder.admin_get("/api/v1/history?step=7").status);
}

/// A larder whose history is in a file of a folder that outlives it.
struct Kept {
    folder: tempfile::TempDir,
    origin: Origin,
    /// The time at which the next larder begins: that of the last one when its history was written.
    now: Cell<u64>,
}

impl Kept {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), origin: origin(), now: Cell::new(begun()) }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("history")
    }

    fn config(&self, top: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\nlog.error = \"{folder}/error.log\"\nlog.access = \"off\"\n{top}\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"api\"\npath = \"/api/*\"\nproxy = {{ to = [\"{0}\"] }}\n\
             [[site.route]]\nname = \"pages\"\npath = \"/*\"\nproxy = {{ to = [\"{0}\"] }}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\nhistory = \"{folder}/history\"\n# The [log] is above.\n",
            self.origin.url()
        )
    }

    fn start(&self) -> Larder {
        self.start_with("")
    }

    fn start_with(&self, top: &str) -> Larder {
        let env = vec![("LARDER_TEST_CLOCK".to_owned(), self.now.get().to_string())];
        let larder = Larder::start(Setup { config: self.config(top), env });
        // The first sample begins with the first look, which is within a second after the start.
        history(&larder, 0);
        larder
    }

    /// The next larder begins at the time of this one.
    fn goes_on_after(&self, larder: &Larder) {
        self.now.set(history(larder, 0)["now"].as_u64().unwrap());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    fn logged(&self, text: &str) {
        until(text, || self.log().contains(text));
    }

    /// Ends with a minute of five requests in the file.
    fn written(&self, larder: &Larder) {
        let counted = larder.counter("requests");
        (0..5).for_each(|_| drop(larder.get("/kept")));
        until("all are counted", || larder.counter("requests") >= counted + 5);
        let before = self.file().metadata().unwrap().len();
        minute(larder);
        until("it is written", || self.file().metadata().unwrap().len() > before);
        let mut last = 0;
        // The URLs of the minute come a moment later.
        until("everything is written", || {
            self.goes_on_after(larder);
            let now = self.file().metadata().unwrap().len();
            std::mem::replace(&mut last, now) == now && difference(larder, 0, 0)["urls"][0]["url"].is_string()
        });
    }
}

/// The last five minutes before a time from now, against those before.
fn difference(larder: &Larder, minutes: u64, back: u64) -> Value {
    let now = history(larder, 0)["now"].as_u64().unwrap() - 60 * back;
    asked(larder, &format!("/api/v1/history/difference?from={}&to={now}", now - 60 * minutes.max(1)))
}

fn stop(mut larder: Larder) {
    larder.signal(libc::SIGTERM);
    assert_eq!(Some(0), wait(&mut larder.child).code());
}

fn starts(of: &Value) -> Vec<String> {
    let all = marks(of).into_iter().filter(|it| ["start", "stop", "upgrade"].contains(&&*it.0));
    all.map(|it| it.1).collect()
}

#[test]
fn a_restart_continues_the_history() {
    let kept = Kept::new();
    let larder = kept.start_with("sandbox = \"on\"");
    assert_eq!("file", history(&larder, 0)["kept"]["in"]);
    kept.written(&larder);
    assert_eq!(500, larder.get("/api/broken").status);
    stop(larder);
    assert_eq!(0o600, kept.file().metadata().unwrap().mode() & 0o777);
    let larder = kept.start();
    for step in [1, 10, 60] {
        let output = in_steps(&larder, step);
        assert_eq!(
            6,
            sum(&output, "requests"),
            "the last seconds are written at the stop, in steps of {step} s: {output}"
        );
    }
    let output = in_steps(&larder, 1);
    let version = env!("CARGO_PKG_VERSION");
    let all = starts(&output);
    assert_eq!([format!("larder {version} started"), "larder stopped".to_owned()], all[..2]);
    assert!(
        all[2].starts_with(&format!("larder {version} started, ")) && all[2].ends_with(" after its stop"),
        "{all:?}"
    );
    let worst = asked(&larder, "/api/v1/worst");
    assert!(worst["failed"][0]["url"].as_str().unwrap().ends_with("/api/broken"), "{worst}");
    assert_eq!("api", worst["failed"][0]["route"].as_str().unwrap());
    // A third process has all of both.
    stop(larder);
    let larder = kept.start();
    assert_eq!(6, sum(&in_steps(&larder, 1), "requests"));
    assert_eq!(5, starts(&history(&larder, 0)).len());
}

#[test]
fn a_kill_loses_a_minute_at_most() {
    let kept = Kept::new();
    let larder = kept.start();
    kept.written(&larder);
    assert_eq!(500, larder.get("/api/broken").status);
    larder.signal(libc::SIGKILL);
    drop(larder);
    let larder = kept.start();
    let output = in_steps(&larder, 60);
    assert_eq!(5, sum(&output, "requests"));
    let all = starts(&output);
    assert!(all.len() == 2 && all[1].ends_with(" after the last figures, without a stop"), "{all:?}");
    assert!(!kept.log().contains("history-damaged"), "{}", kept.log());
}

#[test]
fn a_truncated_damaged_or_foreign_file_is_no_obstacle() {
    let kept = Kept::new();
    let aside = kept.folder.path().join("history.damaged");
    let larder = kept.start();
    kept.written(&larder);
    stop(larder);
    let whole = std::fs::read(kept.file()).unwrap();
    std::fs::write(kept.file(), &whole[..whole.len() - 3]).unwrap();
    let larder = kept.start();
    assert_eq!(5, sum(&in_steps(&larder, 60), "requests"));
    assert!(!aside.exists());
    drop(larder);
    let mut damaged = whole.clone();
    let at = whole.len() * 2 / 3;
    damaged[at] ^= 1;
    for (bytes, why) in
        [(damaged, "is damaged at byte"), (b"#!/bin/sh\n".to_vec(), "not a history that this version")]
    {
        std::fs::write(kept.file(), &bytes).unwrap();
        std::fs::write(kept.folder.path().join("error.log"), "").unwrap();
        let larder = kept.start();
        kept.logged("history-damaged");
        assert!(kept.log().contains(why), "{}", kept.log());
        assert_eq!(bytes, std::fs::read(&aside).unwrap());
        assert_eq!("file", history(&larder, 0)["kept"]["in"]);
        kept.written(&larder);
        stop(larder);
        let larder = kept.start();
        assert!(sum(&in_steps(&larder, 60), "requests") >= 5);
    }
}

#[test]
fn a_path_that_cannot_be_used_leaves_the_history_in_ram() {
    let kept = Kept::new();
    std::fs::create_dir(kept.file()).unwrap();
    let larder = kept.start();
    let report = &history(&larder, 0)["kept"];
    assert_eq!(
        ("ram", "it is no regular file"),
        (report["in"].as_str().unwrap(), report["why"].as_str().unwrap())
    );
    assert_eq!(*report, asked(&larder, "/api/v1/stats")["history"]);
    kept.logged("history-not-kept");
    assert_eq!(200, larder.get("/kept").status);
    minute(&larder);
    assert_eq!(1, sum(&in_steps(&larder, 60), "requests"));
    // It is tried again.
    std::fs::remove_dir(kept.file()).unwrap();
    minute(&larder);
    assert_eq!("file", history(&larder, 0)["kept"]["in"]);
    // A second larder does not write the file of the first.
    kept.goes_on_after(&larder);
    let second = kept.start();
    let report = &history(&second, 0)["kept"];
    assert_eq!("another larder writes it", report["why"]);
    stop(larder);
    until("the lock is free", || history(&second, 0)["kept"]["in"] == "file");
    assert_eq!(1, sum(&in_steps(&second, 60), "requests"));
}

/// Limits the size of files that a process writes, as a full device does.
fn limit_files(larder: &Larder, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    let pid = libc::pid_t::try_from(larder.pid()).unwrap();
    // SAFETY: the limit outlives the call, and no old one is requested.
    assert_eq!(0, unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) });
}

#[test]
fn a_full_device_costs_nothing_but_the_file() {
    let kept = Kept::new();
    let larder = kept.start_with("log.levels.audit = \"off\"");
    kept.written(&larder);
    let full = kept.file().metadata().unwrap().len() + 100;
    limit_files(&larder, full);
    let failed = || {
        minute(&larder);
        history(&larder, 0)["kept"]["why"].is_string()
    };
    until("a write fails", failed);
    assert_eq!(200, larder.get("/kept").status);
    minute(&larder);
    assert!(kept.file().metadata().unwrap().len() <= full);
    limit_files(&larder, libc::RLIM_INFINITY);
    kept.logged("history-not-kept");
    until("it is written again", || {
        minute(&larder);
        history(&larder, 0)["kept"]["why"].is_null()
    });
    minute(&larder);
    kept.logged("history-kept");
    let before = sum(&in_steps(&larder, 60), "requests");
    assert_eq!(6, before);
    kept.goes_on_after(&larder);
    stop(larder);
    assert_eq!(6, sum(&in_steps(&kept.start(), 60), "requests"), "nothing is lost");
}

#[test]
fn without_a_configuration_file_the_history_is_in_ram() {
    let origin = origin();
    let url = origin.url();
    let larder = Larder::command(&["proxy", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    assert_eq!("larder was started without a configuration file", history(&larder, 0)["kept"]["why"]);
    let off = Larder::before_with(
        &origin,
        "",
        "admin.history = \"off\"\nadmin.listen = \"127.0.0.1:0\"\n# [admin]",
    );
    assert_eq!("admin.history is off", history(&off, 0)["kept"]["why"]);
    let default = Larder::before(&origin, "");
    let report = history(&default, 0)["kept"].clone();
    assert_eq!("file", report["in"]);
    let path = Path::new(report["path"].as_str().unwrap());
    assert!(path.starts_with(default.folder.path().join("state/larder")), "{path:?}");
    assert!(path.file_name().unwrap().to_string_lossy().starts_with("history-"));
}

#[test]
fn the_user_of_a_start_as_root_has_the_file() {
    // SAFETY: it takes no pointers.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let origin = origin();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\nuser = \"nobody\"\nlog.error = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nproxy = {{ to = [\"{}\"] }}\n[admin]\nlisten = \"127.0.0.1:0\"\nhistory = \"history\"\n# The [log] is above.\n",
        origin.url()
    );
    let mut command = super::privileges::shell("true");
    command.arg(binary());
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    assert_eq!("file", history(&larder, 0)["kept"]["in"]);
    assert_eq!(65534, larder.folder.path().join("history").metadata().unwrap().uid());
    larder.get("/kept");
    minute(&larder);
    let path = larder.folder.path().join("history");
    until("it is written", || path.metadata().unwrap().len() > 500);
    assert!(history(&larder, 0)["kept"]["why"].is_null());
}

/// A process that no other part of the scenario ends: also after a failed assertion, since it has the output of the tests.
struct EndedWithScenario(libc::pid_t);

impl Drop for EndedWithScenario {
    fn drop(&mut self) {
        // SAFETY: kill takes no pointers; it is a process of this scenario.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

#[test]
fn an_upgrade_continues_the_history() {
    let kept = Kept::new();
    let larder = kept.start();
    kept.written(&larder);
    let admin = larder.admin.to_string();
    let ended = crate::harness::command::run(kept.folder.path(), &["upgrade", "--admin", &admin, "--json"]);
    assert_eq!(0, ended.code, "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    let process = libc::pid_t::try_from(answer["process"].as_u64().unwrap()).unwrap();
    let _ended = EndedWithScenario(process);
    // Its clock began anew.
    larder.advance(60);
    until("the new process has the file", || {
        let report = history(&larder, 0);
        report["kept"]["in"] == "file" && starts(&report).len() == 2
    });
    let report = in_steps(&larder, 60);
    assert_eq!(5, sum(&report, "requests"));
    assert_eq!(format!("larder {} upgraded", env!("CARGO_PKG_VERSION")), starts(&report)[1]);
}

#[test]
fn a_range_is_compared_with_the_time_before_it() {
    let kept = Kept::new();
    let larder = kept.start();
    // The requests of a minute and those of the next are in steps that are a minute apart.
    larder.hold();
    let usual = || {
        (0..4).for_each(|_| drop(larder.get("/kept")));
        larder.get("/api/kept");
        minute(&larder);
    };
    (0..3).for_each(|_| usual());
    let spike = history(&larder, 0)["now"].as_u64().unwrap();
    for _ in 0..20 {
        assert_eq!(500, larder.get("/api/broken").status);
    }
    usual();
    usual();
    let path = format!("/api/v1/history/difference?from={}&to={}", spike + 10, spike + 50);
    let mut report = Value::Null;
    until("the URLs have come", || {
        report = asked(&larder, &path);
        report["urls"].as_array().is_some_and(|it| !it.is_empty())
    });
    assert_eq!(
        (spike, spike + 60),
        (report["from"].as_u64().unwrap(), report["to"].as_u64().unwrap()),
        "{report}"
    );
    assert_eq!(
        (60, 60),
        (report["now"]["seconds"].as_u64().unwrap(), report["before"]["seconds"].as_u64().unwrap())
    );
    let routes = report["routes"].as_array().unwrap();
    assert_eq!("api", routes[0]["name"], "the faulty route is the first: {report}");
    assert_eq!(
        (20, 0),
        (
            routes[0]["now"]["errors_5xx"].as_u64().unwrap(),
            routes[0]["before"]["errors_5xx"].as_u64().unwrap()
        )
    );
    assert_eq!(
        (21, 1),
        (routes[0]["now"]["requests"].as_u64().unwrap(), routes[0]["before"]["requests"].as_u64().unwrap())
    );
    let reasons: u64 =
        routes[0]["reasons"].as_array().unwrap().iter().map(|it| it["now"].as_u64().unwrap()).sum();
    assert_eq!(20, reasons, "{report}");
    assert!(report["urls"][0]["url"].as_str().unwrap().ends_with("/api/broken"), "{report}");
    assert_eq!(
        (20, 0),
        (report["urls"][0]["now"].as_u64().unwrap(), report["urls"][0]["before"].as_u64().unwrap())
    );
    assert_eq!(20, report["failed"].as_array().unwrap().len());
    // A later range has none of it.
    let report =
        asked(&larder, &format!("/api/v1/history/difference?from={}&to={}", spike + 70, spike + 110));
    assert_eq!(
        (60, 0),
        (report["now"]["seconds"].as_u64().unwrap(), report["failed"].as_array().unwrap().len())
    );
    let path = format!("/api/v1/history/difference?from={spike}&to={}", spike + 30_000);
    assert_eq!(400, larder.admin_get(&path).status);
    // And after a restart it is still known.
    let path = format!("/api/v1/history/difference?from={}&to={}", spike + 10, spike + 50);
    let before = asked(&larder, &path);
    stop(larder);
    let larder = kept.start();
    let after = asked(&larder, &path);
    for name in ["routes", "urls", "failed"] {
        assert_eq!(before[name], after[name], "{name}");
    }
}

#[test]
fn the_worst_requests_are_kept_without_hits_and_credentials() {
    let kept = Kept::new();
    let larder = kept.start();
    (0..50).for_each(|_| drop(larder.get("/kept")));
    for number in 0..130 {
        let lines = "Cookie: session=s3cret\r\nAuthorization: Bearer s3cret\r\n";
        let target = format!("/api/broken?n={number}&access_token=s3cret");
        assert_eq!(500, larder.client().get_with(&target, lines).status);
    }
    let mut report = Value::Null;
    // A request is kept after its response.
    until("the last one is kept", || {
        report = asked(&larder, "/api/v1/worst");
        report["failed"][0]["url"].as_str().is_some_and(|it| it.contains("?n=129&"))
    });
    let (slow, failed) = (report["slow"].as_array().unwrap(), report["failed"].as_array().unwrap());
    // The latest 30, and before them two of the minute, or of both.
    assert!(slow.len() == 100 && (32..=34).contains(&failed.len()), "{} {}", slow.len(), failed.len());
    let micros: Vec<u64> = slow.iter().map(|it| it["duration_us"].as_u64().unwrap()).collect();
    assert!(micros.is_sorted_by(|a, b| a >= b), "{micros:?}");
    assert!(
        failed[0]["url"].as_str().unwrap().ends_with("/api/broken?n=129&access_token=***"),
        "{}",
        failed[0]
    );
    assert_eq!(
        (500, "api", 8),
        (
            failed[0]["status"].as_u64().unwrap(),
            failed[0]["route"].as_str().unwrap(),
            failed[0]["id"].as_str().unwrap().len()
        )
    );
    assert!(failed[0]["origin"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert!(!failed[0]["reason"].as_str().unwrap().is_empty());
    assert!(
        slow.iter().filter(|it| it["url"].as_str().unwrap().ends_with("/kept")).count() <= 1,
        "hits are not kept"
    );
    larder.get("/api/broken?n=last");
    let mut last = Value::Null;
    until("the one without a secret is kept", || {
        last = asked(&larder, "/api/v1/worst")["failed"][0].clone();
        last["url"].as_str().is_some_and(|it| it.ends_with("?n=last"))
    });
    let none = asked(&larder, "/api/v1/worst?until=1000");
    assert!(none["failed"].as_array().unwrap().is_empty());
    minute(&larder);
    stop(larder);
    let bytes = std::fs::read(kept.file()).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(has("access_token=***") && !has("s3cret") && !has(TOKEN));
    // Of a request that is not kept whole any more, the URL is explained by its id. With a hidden value it would be another URL.
    let larder = kept.start();
    let explained = |it: &Value| larder.admin_post("/api/v1/explain", &format!("{{\"id\":{}}}", it["id"]));
    let answer = explained(&last);
    assert!(answer.status == 200 && answer.text().contains("/api/broken?n=last"), "{answer:?}");
    let answer = explained(&failed[0]);
    assert!(answer.status == 400 && answer.text().contains("has parts that are hidden"), "{answer:?}");
}

/// After a restart, a fault that had stood before it had the time of the restart, and was marked once more.
#[test]
fn a_fault_that_stood_before_a_restart_keeps_its_time() {
    let kept = Kept::new();
    let dead = crate::harness::closed_address();
    let top = format!("cache.fleet.servers = [\"{}\"]", dead.1);
    let since = |larder: &Larder| {
        larder.get("/absent");
        let state = asked(larder, "/api/v1/health");
        let found = state["findings"].as_array().unwrap().iter().find(|it| it["name"] == "memcached-down");
        found.map(|it| it["since"].as_u64().unwrap())
    };
    let faults = |larder: &Larder| {
        let all = marks(&history(larder, 0)).into_iter();
        all.filter(|it| it.0 == "fault" && it.1.contains("memcached server")).collect::<Vec<_>>()
    };
    let larder = kept.start_with(&top);
    until("it is down", || since(&larder).is_some());
    let began = since(&larder);
    until("it is marked", || faults(&larder).len() == 1);
    larder.advance(600);
    kept.goes_on_after(&larder);
    stop(larder);
    let larder = kept.start_with(&top);
    until("it is down still", || since(&larder).is_some());
    until("its time is that of before", || since(&larder) == began);
    assert_eq!(1, faults(&larder).len(), "{:?}", faults(&larder));
}
