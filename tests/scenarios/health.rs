//! The state of the server: every part that fails is a finding with its reason, and healthy again afterwards.

use crate::harness::client::Client;
use crate::harness::command::{run, wait};
use crate::harness::mmdb::{country, database};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::secure::Authority;
use crate::harness::server::{Setup, TOKEN};
use crate::harness::tiers::{fleet, of_size};
use crate::harness::{Larder, Memcached, Origin, begun, until};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The state, with the token.
pub(super) fn state(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/health").text()).unwrap()
}

/// The names of the findings.
pub(super) fn names(larder: &Larder) -> Vec<String> {
    let findings = state(larder)["findings"].as_array().unwrap().clone();
    findings.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn sentence(larder: &Larder) -> String {
    state(larder)["sentence"].as_str().unwrap().to_owned()
}

/// The answer without a token: status and text.
fn word(larder: &Larder) -> (u16, String) {
    let mut client = Client::connect(larder.admin);
    client.send("GET /api/v1/health HTTP/1.0\r\n\r\n");
    let answer = client.read();
    (answer.status, answer.text())
}

fn start(origins: &[&str], proxy: &str, top: &str) -> Larder {
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         [site.route.proxy]\nto = {origins:?}\n{proxy}\n"
    ));
    // The first minute begins with the first look, which is within a second after the start.
    state(&larder);
    larder
}

fn page() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage")
}

#[test]
fn a_health_request_without_a_token_gets_one_word() {
    let (origin, dead) = (page(), crate::harness::closed_address());
    let dead = format!("http://{}", dead.1);
    let larder =
        start(&[&origin.url(), &dead], "health = { path = \"/\", interval = \"20ms\", fall = 1 }", "");
    until("one is down", || names(&larder) == ["origin-down"]);
    assert_eq!((200, "degraded\n".to_owned()), word(&larder));
    let fetch = |lines: &str| {
        let mut client = Client::connect(larder.admin);
        client.send(format!("GET /api/v1/health HTTP/1.1\r\n{lines}\r\n\r\n"));
        client.read()
    };
    let open = fetch("Host: balancer.example");
    assert_eq!(
        (200, "degraded\n", Some("text/plain")),
        (open.status, &*open.text(), open.field("content-type"))
    );
    let admin = larder.admin;
    for wrong in ["Bearer wrong", "Basic YTpi", &TOKEN[1..]] {
        let refused = fetch(&format!("Host: {admin}\r\nAuthorization: {wrong}"));
        assert_eq!(401, refused.status, "{wrong}");
        assert!(!refused.text().contains(&dead), "{wrong}");
    }
    let lured = fetch(&format!("Host: lured.example\r\nAuthorization: Bearer {TOKEN}"));
    assert_eq!(421, lured.status);
    let known = fetch(&format!("Host: {admin}\r\nAuthorization: Bearer {TOKEN}"));
    assert!(known.text().contains(&dead), "{known:?}");
}

#[test]
fn the_state_is_in_the_statistics_the_metrics_and_the_first_line_of_stats() {
    let (origin, dead) = (page(), crate::harness::closed_address());
    let larder = start(&[&origin.url()], "", "");
    let admin = larder.admin.to_string();
    let first =
        || run(larder.folder.path(), &["stats", "--admin", &admin]).out.lines().next().unwrap().to_owned();
    assert_eq!("Healthy", first());
    let metrics = larder.admin_get("/metrics").text();
    assert!(metrics.contains("\nlarder_health 0\n"), "{metrics}");
    assert!(
        metrics.contains("\nlarder_health_finding{finding=\"no-origin\",severity=\"failing\"} 0\n"),
        "{metrics}"
    );
    drop(larder);
    let dead = format!("http://{}", dead.1);
    let larder = start(&[&dead], "health = { path = \"/\", interval = \"20ms\", fall = 1 }", "");
    until("it is down", || word(&larder).1 == "failing\n");
    let admin = larder.admin.to_string();
    let first = run(larder.folder.path(), &["stats", "--admin", &admin]).out;
    assert!(first.starts_with(&format!("Failing: origin {dead} is down since ")), "{first}");
    let top = run(larder.folder.path(), &["top", "--admin", &admin]).out;
    assert!(top.starts_with(&format!("Failing: origin {dead} is down since ")), "{top}");
    let metrics = larder.admin_get("/metrics").text();
    assert!(metrics.contains("\nlarder_health 2\n"), "{metrics}");
    assert!(
        metrics.contains("\nlarder_health_finding{finding=\"no-origin\",severity=\"failing\"} 1\n"),
        "{metrics}"
    );
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    assert_eq!("failing", stats["health"]["word"]);
}

#[test]
fn an_origin_that_fails_its_check_is_down_until_it_is_well() {
    let sick = Arc::new(AtomicBool::new(true));
    let flaky = {
        let sick = sick.clone();
        Origin::new(move |_| match sick.load(SeqCst) {
            true => "HTTP/1.1 503 No\n\n".to_owned(),
            false => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nwell".to_owned(),
        })
    };
    let good = page();
    let proxy = "health = { path = \"/\", interval = \"20ms\", fall = 2, rise = 2 }\nslow_start = \"0s\"";
    let larder = start(&[&flaky.url(), &good.url()], proxy, "");
    until("it is down", || names(&larder) == ["origin-down"]);
    let found = state(&larder)["findings"][0].clone();
    assert_eq!(
        (format!("origin {} is down", flaky.url()), "health check GET /: it answered 503", begun()),
        (
            found["what"].as_str().unwrap().to_owned(),
            found["evidence"].as_str().unwrap(),
            found["since"].as_u64().unwrap()
        )
    );
    assert_eq!(format!("its route uses {}", good.url()), found["effect"].as_str().unwrap());
    sick.store(false, SeqCst);
    until("it is used again", || sentence(&larder) == "Healthy");
}

/// An origin that resets connections while `sick`.
fn resetting(sick: &Arc<AtomicBool>) -> Origin {
    let sick = sick.clone();
    Origin::scripted(move |_| match sick.load(SeqCst) {
        true => vec![Script::Reset],
        false => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nwell"))],
    })
}

#[test]
fn an_ejected_origin_is_down_until_a_trial_request_succeeds() {
    let sick = Arc::new(AtomicBool::new(true));
    let origin = resetting(&sick);
    let proxy = "eject_after = 2\neject_time = \"10s\"\nslow_start = \"0s\"\nall_ejected = \"refuse\"";
    let larder = start(&[&origin.url()], proxy, "");
    until("it is down", || {
        larder.get("/").status >= 500 && names(&larder).first().is_some_and(|it| it == "no-origin")
    });
    let text = sentence(&larder);
    assert!(text.starts_with("Failing: ") && text.contains("the origin closed the connection"), "{text}");
    assert!(text.contains("; 1 route has no other origin in use (*/*)"), "{text}");
    sick.store(false, SeqCst);
    larder.pass(20_000);
    assert_eq!(names(&larder), ["no-origin"], "no request has tried it yet");
    until("a request is the trial", || larder.get("/").status == 200);
    assert_eq!("Healthy", sentence(&larder));
}

/// The only origin of a route is not ejected.
#[test]
fn an_only_origin_that_fails_every_request_is_down_until_it_answers() {
    let sick = Arc::new(AtomicBool::new(true));
    let origin = resetting(&sick);
    let larder = start(&[&origin.url()], "", "");
    until("it is down", || {
        larder.get("/").status == 502 && names(&larder).first().is_some_and(|it| it == "no-origin")
    });
    assert!(sentence(&larder).contains("the origin closed the connection"), "{}", sentence(&larder));
    sick.store(false, SeqCst);
    assert_eq!(200, larder.get("/").status);
    assert_eq!("Healthy", sentence(&larder));
}

#[test]
fn a_burst_of_server_errors_is_the_state_for_a_minute() {
    let origin = Origin::new(|request| match request.target() {
        "/bad" => "HTTP/1.1 500 No\nCache-Control: no-store\n\n".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\npage".to_owned(),
    });
    let larder = start(&[&origin.url()], "", "");
    let mut client = larder.client();
    let mut send = |target: &str, times: usize| (0..times).for_each(|_| drop(client.get(target)));
    send("/good", 15);
    send("/bad", 4);
    assert_eq!("healthy\n", word(&larder).1, "19 requests are too few");
    send("/bad", 6);
    let found = || state(&larder)["findings"][0].clone();
    until("all are counted", || found()["evidence"] == "10 of 25 within the last minute");
    assert_eq!("requests-fail", found()["name"]);
    assert_eq!("live?filter=status >= 500", found()["view"]);
    send("/bad", 15);
    until("most fail", || names(&larder) == ["most-requests-fail"]);
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

/// The status was sent before the origin failed.
#[test]
fn responses_that_the_origin_breaks_off_are_server_errors() {
    for fields in ["Cache-Control: max-age=60", "Cache-Control: no-store"] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 1000\r\n\r\nabc");
        let origin = Origin::scripted(move |_| vec![Script::Send(head.clone().into()), Script::Close]);
        let larder = start(&[&origin.url()], "", "");
        for at in 0..25 {
            assert!(!larder.get(&format!("/{at}")).complete);
        }
        until("most fail", || names(&larder) == ["most-requests-fail"]);
        let report = |path: &str| -> Value { serde_json::from_str(&larder.admin_get(path).text()).unwrap() };
        let worst = report("/api/v1/worst");
        let failed = worst["failed"].as_array().unwrap();
        assert!(failed.len() == 25 && failed.iter().all(|it| it["broken"] == true && it["status"] == 200));
        assert_eq!(25, report("/api/v1/stats")["routes"][0]["counters"]["errors_5xx"]);
    }
    // A client that leaves is no failure of the origin.
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1000\r\n\r\nabc";
        vec![Script::Send(head.into()), Script::Gate(held.clone()), Script::Send(vec![b'a'; 997])]
    });
    let larder = start(&[&origin.url()], "", "");
    for at in 0..25 {
        let mut client = larder.client();
        client.send(format!("GET /{at} HTTP/1.1\r\nHost: h\r\n\r\n"));
        until("it is in work", || gate.waiting() > at);
    }
    gate.open();
    until("all are counted", || {
        let report: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
        report["routes"][0]["counters"]["requests"] == 25
    });
    assert_eq!("Healthy", sentence(&larder));
}

#[test]
fn errors_that_the_operator_has_ordered_are_no_state() {
    let origin = page();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\nmaintenance.enabled = true\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [{:?}] }}\n",
        origin.url()
    );
    let larder = Larder::configured(config.clone());
    let mut client = larder.client();
    (0..40).for_each(|_| assert_eq!(503, client.get("/").status));
    let text = sentence(&larder);
    assert!(
        text.starts_with("Healthy. Notice: maintenance is on for */* since ") && !text.contains("errors"),
        "{text}"
    );
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("maintenance.enabled = true", "")).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is over", || larder.counter("config_reloads") >= 1);
    let mut client = larder.client();
    (0..40).for_each(|_| assert_eq!(200, client.get("/").status));
    assert_eq!(
        "Healthy",
        sentence(&larder),
        "the errors of the maintenance are not those of the last minute"
    );
}

/// The application does not know that its clients use TLS, and sends each of them from http to https.
#[test]
fn an_application_that_redirects_each_request_to_itself_is_the_state() {
    let (authority, origin) = (
        Authority::new(),
        Origin::new(|request| {
            format!(
                "HTTP/1.1 301 Moved\nLocation: https://site.test{}\nContent-Length: 0\n\n",
                request.target()
            )
        }),
    );
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{}]\n[[site]]\nhosts = [\"site.test\"]\n\
         [[site.route]]\nname = \"shop\"\npath = \"/*\"\nproxy = {{ to = [{:?}] }}\n",
        authority.sign("site", &["site.test"]),
        origin.url()
    ));
    state(&larder);
    let mut client = authority.trusting().connect(larder.address, "site.test").unwrap();
    for at in 0..12 {
        let line = format!("GET /{} HTTP/1.1\r\nHost: site.test\r\n\r\n", at % 2);
        assert_eq!(301, client.send(line).read().status);
    }
    until("all are counted", || names(&larder) == ["redirect-loop"]);
    let text = sentence(&larder);
    assert!(
        text.starts_with("Degraded: the origin of route shop redirects requests to their own URL since "),
        "{text}"
    );
    let admin = larder.admin.to_string();
    let explained = run(larder.folder.path(), &["explain", "https://site.test/1", "--admin", &admin]).out;
    assert!(
        explained.contains("the origin redirects the request to its own URL, which is a loop"),
        "{explained}"
    );
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn a_limit_that_is_reached_is_the_state_for_a_minute() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        vec![
            Script::Gate(held.clone()),
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nok")),
        ]
    });
    let larder = start(&[&origin.url()], "connections = 1\nconnect_timeout = \"100ms\"", "");
    let mut occupant = larder.client();
    occupant.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    until("the origin is full", || gate.waiting() == 1);
    (0..5).for_each(|_| assert_eq!(503, larder.client().request("POST", "/x", "", "").status));
    let found = state(&larder)["findings"][0].clone();
    assert_eq!("limit-reached", found["name"]);
    assert!(found["sentence"].as_str().unwrap().contains("`proxy.connections`"), "{found}");
    gate.open();
    assert_eq!(200, occupant.read().status);
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn a_memcached_that_dies_is_not_used_until_it_answers_again() {
    let origin = of_size();
    let mut memcached = Memcached::start();
    let lines = fleet(&[&memcached], "timeout = \"500ms\"\nretry = \"100ms\"\nfailures = 1")
        .replace("purge_log = false", "purge_log = true");
    let larder = Larder::before_with(&origin, "", &lines);
    until("the purge log is followed", || {
        sentence(&larder) == "Healthy" && larder.counter("purge_log_polls") > 0
    });
    assert_eq!(200, larder.get("/100").status);
    memcached.kill();
    let mut number = 1_000;
    let mut next = || {
        number += 1;
        larder.get(&format!("/{number}"));
    };
    until("both are findings", || {
        next();
        larder.pass(1_000);
        names(&larder) == ["purge-log-not-followed", "memcached-down"]
    });
    let text = sentence(&larder);
    assert!(
        text.contains(
            "(0 of 1 servers); every stored response is validated before use (1 more: memcached-down)"
        ),
        "{text}"
    );
    let found = state(&larder)["findings"][1]["sentence"].as_str().unwrap().to_owned();
    assert!(
        found.contains(&memcached.name()) && found.contains("(1 failure in a row); no memcached server"),
        "{found}"
    );
    memcached.start_again();
    until("it is used again, without a request", || sentence(&larder) == "Healthy");
}

/// Limits the size of the files that a process writes.
fn limit_files(larder: &Larder, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    let pid = libc::pid_t::try_from(larder.pid()).unwrap();
    // SAFETY: the limit is read during the call, no earlier one is written, and the process is our child.
    assert_eq!(0, unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) });
}

#[test]
fn a_disk_tier_that_cannot_write_is_off_until_it_can() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_size());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[cache.disk]\npath = {:?}\nsize = \"32MiB\"\nsegment_size = \"1MiB\"\n\
         retry = \"1s\"\nmin_ttl = \"0s\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [{:?}] }}\n",
        folder.path().join("disk"),
        origin.url()
    );
    // Otherwise a write beyond the limit ends the process.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(crate::harness::server::binary());
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    assert_eq!("Healthy", sentence(&larder));
    limit_files(&larder, 1);
    let mut number = 3_000;
    let mut next = || {
        number += 1;
        assert_eq!(200, larder.get(&format!("/{number}")).status);
    };
    until("nothing can be written", || {
        next();
        names(&larder) == ["disk-off"]
    });
    let text = sentence(&larder);
    assert!(text.contains("File too large") && text.contains("responses are stored in RAM only"), "{text}");
    limit_files(&larder, libc::RLIM_INFINITY);
    until("it writes again", || {
        next();
        larder.pass(1_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn a_refused_configuration_is_a_finding_until_a_reload_succeeds() {
    let origin = page();
    let larder = start(&[&origin.url()], "", "");
    let good = std::fs::read_to_string(larder.config()).unwrap();
    let write = |text: &str| std::fs::write(larder.config(), text).unwrap();
    write(&good.replace("workers = 1", "workers = 0"));
    larder.signal(libc::SIGHUP);
    until("it is refused", || names(&larder) == ["configuration-refused"]);
    let text = sentence(&larder);
    assert!(
        text.contains("larder.toml:2: workers: ") && text.ends_with("; the previous one stays in force"),
        "{text}"
    );
    write(&good.replace("workers = 1", "workers = 3"));
    larder.signal(libc::SIGHUP);
    until("it waits", || names(&larder) == ["restart-pending"]);
    assert_eq!("healthy\n", word(&larder).1, "an operator chooses the time of a restart");
    assert!(sentence(&larder).ends_with(" UTC (workers)"), "{}", sentence(&larder));
    write(&good);
    larder.signal(libc::SIGHUP);
    until("it is as before", || sentence(&larder) == "Healthy");
}

/// The admin restores the file after a rejection: nothing is wrong with it then.
#[test]
fn a_rejected_request_of_the_admin_is_no_refused_file() {
    let (origin, busy) = (page(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let larder = start(&[&origin.url()], "", "");
    let report: Value = serde_json::from_str(&larder.admin_get("/api/v1/config").text()).unwrap();
    let text = report["text"].as_str().unwrap();
    let taken =
        text.replace("listen = [\"127.0.0.1:0\"]", &format!("listen = [\"{}\"]", busy.local_addr().unwrap()));
    let body = serde_json::json!({ "text": taken, "base": report["hash"] }).to_string();
    let lines = larder.admin_lines();
    let mut client = Client::connect(larder.admin);
    client.send(format!(
        "PUT /api/v1/config HTTP/1.1\r\n{lines}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = client.read();
    assert!(answer.status >= 400 && larder.counter("config_rejections") == 1, "{answer:?}");
    assert_eq!("Healthy", sentence(&larder));
}

#[test]
fn a_certificate_of_ten_days_is_a_finding_and_an_expired_one_the_worst() {
    let (authority, origin) = (Authority::new(), page());
    let sign = |days: u64| {
        let end = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(begun() + days * 86_400 + 3_600);
        authority.sign_with("site", &["site.test"], |it| it.not_after = end)
    };
    let certificate = sign(10);
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [{:?}] }}\n",
        origin.url()
    ));
    until("it is seen", || names(&larder) == ["certificate-expiring"]);
    assert!(
        sentence(&larder).starts_with("Degraded: the certificate of site.test expires in 10 days ("),
        "{}",
        sentence(&larder)
    );
    larder.advance(11 * 86_400);
    assert_eq!((vec!["certificate-expired".to_owned()], "failing\n"), (names(&larder), &*word(&larder).1));
    sign(90);
    until("the new files are in use", || sentence(&larder) == "Healthy");
    std::fs::write(authority.path("site.pem"), "no certificate").unwrap();
    until("replacements are refused", || names(&larder) == ["configuration-refused"]);
    assert!(sentence(&larder).ends_with("; the previous ones stay in use"), "{}", sentence(&larder));
    sign(91);
    until("they are right again", || sentence(&larder) == "Healthy");
}

#[test]
fn a_certificate_of_the_future_is_the_worst_finding_until_its_day() {
    let (authority, origin) = (Authority::new(), page());
    let begin = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(begun() + 3 * 86_400);
    let certificate = authority.sign_with("site", &["site.test"], |it| {
        (it.not_before, it.not_after) = (begin, begin + Duration::from_secs(90 * 86_400));
    });
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [{:?}] }}\n",
        origin.url()
    ));
    until("it is seen", || names(&larder) == ["certificate-not-yet-valid"]);
    let text = sentence(&larder);
    assert!(
        text.starts_with("Failing: the certificate of site.test is not valid yet (its validity begins on "),
        "{text}"
    );
    larder.advance(3 * 86_400 + 1);
    until("it is valid", || sentence(&larder) == "Healthy");
}

#[test]
fn a_name_for_which_the_ca_issues_nothing_has_no_certificate() {
    let (folder, dead) = (tempfile::tempdir().unwrap(), crate::harness::closed_address());
    let config = format!(
        "listen = [\"http://127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls.acme]\nfolder = {:?}\n\
         [[tls.acme.ca]]\ndirectory = \"https://{}/directory\"\n[[site]]\nhosts = [\"site.test\"]\n[[site.route]]\n\
         path = \"/*\"\nrespond = {{ status = 200, body = \"here\" }}\n",
        folder.path().join("acme"),
        dead.1
    );
    let larder = Larder::configured(config);
    until("the first attempt has failed", || names(&larder) == ["certificate-missing"]);
    let text = sentence(&larder);
    assert!(text.starts_with("Degraded: site.test has no certificate ("), "{text}");
    assert_eq!("config?part=certificates", state(&larder)["findings"][0]["view"]);
}

/// The tier is on a device of 3 MiB; `cache.disk.size` is 16 MiB.
#[test]
fn a_full_device_of_the_disk_tier_is_a_finding_until_it_has_room() {
    if !Command::new("unshare").args(["-r", "-m", "true"]).status().is_ok_and(|it| it.success()) {
        eprintln!("not tested: the device of a disk tier, since no file system can be mounted here");
        return;
    }
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_size());
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[cache.disk]\npath = {disk:?}\nsize = \"16MiB\"\nsegment_size = \"1MiB\"\n\
         min_ttl = \"0s\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [{:?}] }}\n",
        origin.url()
    );
    let mount = "mount -t tmpfs -o size=3m,mode=700 disk \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", mount]).arg(&disk).arg(crate::harness::server::binary());
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    assert_eq!("Healthy", sentence(&larder));
    let mut number = 100_000;
    let mut next = || {
        number += 1;
        assert_eq!(200, larder.get(&format!("/{number}")).status);
    };
    until("the device is full", || {
        next();
        names(&larder) == ["disk-device-full"]
    });
    let text = sentence(&larder);
    assert!(text.ends_with("; pages are dropped before `cache.disk.size` is reached"), "{text}");
    let grown = Command::new("nsenter")
        .args(["-t", &larder.pid().to_string(), "-U", "--preserve-credentials", "-m"])
        .args(["mount", "-o", "remount,size=64m"])
        .arg(&disk)
        .status();
    assert!(grown.unwrap().success());
    until("it has room", || {
        next();
        sentence(&larder) == "Healthy"
    });
}

/// A database of countries that grows by 64 MiB is memory that no part of the budget foresees.
#[test]
fn memory_that_is_withheld_is_a_finding_until_it_is_returned() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), page());
    let path = folder.path().join("country.mmdb");
    let small = database(&[("192.0.2.0/24", country("DE"))]);
    let marker = small.windows(14).rposition(|it| it == b"\xab\xcd\xefMaxMind.com").unwrap();
    let large = [&small[..marker], &vec![0; 64 << 20], &small[marker..]].concat();
    let write = |bytes: &[u8]| {
        // As a whole, as `geoipupdate` does.
        std::fs::write(path.with_extension("new"), bytes).unwrap();
        std::fs::rename(path.with_extension("new"), &path).unwrap();
    };
    write(&small);
    let top = format!("geoip.database = {path:?}\ncache.ram.size = \"16MiB\"");
    let larder = start(&[&origin.url()], "", &top);
    assert_eq!("Healthy", sentence(&larder));
    write(&large);
    until("a part is withheld", || {
        larder.pass(61_000);
        names(&larder) == ["memory-withheld"]
    });
    let text = sentence(&larder);
    assert!(text.contains(" of 16 MiB can be used); the process uses more memory than planned"), "{text}");
    write(&small);
    until("all can be used", || {
        larder.pass(1_000);
        sentence(&larder) == "Healthy"
    });
}

/// The process ends within a second after it: several attempts, since a busy machine may take longer for one request.
#[test]
fn a_worker_that_failed_is_the_state_until_the_process_ends() {
    let is_stated = || {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |_| vec![Script::Gate(held.clone())]);
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [{:?}] }}\n",
            origin.url()
        );
        let panic = ("LARDER_TEST_PANIC".into(), "1".into());
        let mut larder = Larder::start(Setup { config, env: vec![panic] });
        // The other worker has some of them, and waits for their end.
        let clients: Vec<Client> = (0..40)
            .map(|at| {
                let mut client = larder.client();
                client.send(format!("GET /{at} HTTP/1.1\r\nHost: h\r\n\r\n"));
                client
            })
            .collect();
        until("all are in work", || gate.waiting() == 40);
        let lines = larder.admin_lines();
        let fetch = || {
            let (mut stream, mut answer) = (TcpStream::connect(larder.admin)?, String::new());
            write!(stream, "GET /api/v1/health HTTP/1.0\r\n{lines}\r\n\r\n")?;
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        larder.signal(libc::SIGHUP);
        let answers = std::iter::from_fn(|| fetch().ok());
        let found = answers.into_iter().find(|it| it.contains("worker-failed")).unwrap_or_default();
        drop(clients);
        assert_eq!(Some(1), wait(&mut larder.child).code());
        found.contains("worker 1 has failed") && found.contains("its service manager starts it again")
    };
    assert!((0..5).any(|_| is_stated()));
}

#[test]
fn pages_that_are_evicted_before_their_time_are_a_notice() {
    let origin = of_size();
    let larder = Larder::before_with(&origin, "", "cache.ram.size = \"8MiB\"");
    let mut client = larder.client();
    (0..300).for_each(|it| assert_eq!(200, client.get(&format!("/{}", 60_000 + it)).status));
    assert!(larder.counter("cache_evictions_fresh") >= 100);
    assert_eq!((vec!["fresh-pages-evicted".to_owned()], "healthy\n"), (names(&larder), &*word(&larder).1));
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn a_snapshot_that_is_damaged_is_a_notice_for_an_hour() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), page());
    let path = folder.path().join("ram");
    std::fs::write(&path, "no snapshot").unwrap();
    let larder = start(&[&origin.url()], "", &format!("cache.ram.snapshot = {path:?}"));
    assert_eq!((vec!["snapshot-not-read".to_owned()], "healthy\n"), (names(&larder), &*word(&larder).1));
    larder.advance(3_601);
    assert_eq!("Healthy", sentence(&larder));
}
