//! Automatic certificates: names that get, renew and serve one, and CAs that fail in every way. The real CA is in `pebble`.

mod fleet;
mod pebble;
mod step_ca;

use crate::harness::acme_ca::{AcmeCa, CaAct};
use crate::harness::secure::Secure;
use crate::harness::server::Setup;
use crate::harness::{Client, Larder, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const DAY: i64 = 86_400;

/// A configuration with these sites, whose certificates are in `folder`.
fn config(folder: &Path, ca: &str, sites: &str) -> String {
    format!(
        "listen = [\"http://127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls.acme]\nfolder = {folder:?}\n{ca}\n\
         [log]\nerror = \"error.log\"\naccess = \"off\"\n{sites}"
    )
}

/// A site that answers with its name.
fn site(name: &str) -> String {
    format!(
        "[[site]]\nhosts = [\"{name}\"]\n[[site.route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"here is {name}\" }}\n"
    )
}

struct Scene {
    ca: AcmeCa,
    folder: tempfile::TempDir,
    sites: String,
}

impl Scene {
    fn of(names: &[&str]) -> Self {
        let sites = names.iter().map(|it| site(it)).collect();
        Self { ca: AcmeCa::start(), folder: tempfile::tempdir().unwrap(), sites }
    }

    /// A larder, which the CA validates.
    fn start(&self) -> Larder {
        let larder = Larder::configured(self.config());
        self.ca.validates_at(larder.address);
        larder
    }

    fn config(&self) -> String {
        config(self.folder.path(), &self.ca.section(), &self.sites)
    }

    /// Connects for a name.
    fn connect(&self, larder: &Larder, name: &str) -> std::io::Result<Secure> {
        self.ca.authority.trusting().connect(secure_address(larder), name)
    }

    /// Waits until a name has a certificate.
    #[track_caller]
    fn obtains(&self, larder: &Larder, name: &str) {
        until(&format!("{name} is served"), || self.connect(larder, name).is_ok());
    }
}

/// Where it serves TLS.
fn secure_address(larder: &Larder) -> SocketAddr {
    let printed = larder.printed();
    let line = printed.lines().find_map(|it| it.strip_prefix("listening on https://"));
    line.unwrap().trim_end_matches('/').parse().unwrap()
}

fn certificates(larder: &Larder) -> Vec<Value> {
    let json: Value = serde_json::from_str(&larder.admin_get("/api/v1/certificates").text()).unwrap();
    json["certificates"].as_array().unwrap().clone()
}

/// Waits until an attempt for a name has failed this often; returns the last error.
#[track_caller]
fn fails(larder: &Larder, name: &str, times: u64) -> String {
    let mut error = String::new();
    until(&format!("{name} failed {times} times"), || {
        let all = certificates(larder);
        let Some(it) = all.iter().find(|it| it["names"][0] == name) else { return false };
        error = it["error"].as_str().unwrap_or_default().to_owned();
        it["failures"] == times && it["in_progress"] == false
    });
    error
}

#[test]
fn a_name_gets_a_certificate_and_serves_it() {
    let scene = Scene::of(&["a.test", "b.test"]);
    let larder = scene.start();
    for name in ["a.test", "b.test"] {
        scene.obtains(&larder, name);
        let mut client = scene.connect(&larder, name).unwrap();
        let answer = client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")).read();
        assert_eq!((200, format!("here is {name}")), (answer.status, answer.text()));
    }
    assert_eq!((1, 2, 2), scene.ca.books(|it| (it.accounts.len(), it.orders.len(), it.issued.len())));
    until("both are reported", || larder.counter("acme_certificates") == 2);
    let all = certificates(&larder);
    assert_eq!(["a.test", "b.test"], [0, 1].map(|it| all[it]["names"][0].as_str().unwrap().to_owned())[..]);
    for it in &all {
        let [from, until, renews] = ["from", "until", "renews"].map(|at| it[at].as_i64().unwrap());
        assert_eq!((90 * DAY, 60 * DAY), (until - from, renews - from), "{it}");
        assert_eq!(
            (scene.ca.directory.as_str(), true),
            (it["authority"].as_str().unwrap(), it["error"].is_null())
        );
    }
    let log = larder.error_log();
    assert!(log.contains("certificate-obtained name=a.test"), "{log}");
    let fetch = larder.admin.to_string();
    let output = crate::harness::command::run(larder.folder.path(), &["tls", "list", "--admin", &fetch]);
    assert!(output.out.contains("a.test: expires in") && output.out.contains(", renewed in"), "{output:?}");
    let output = crate::harness::command::run(larder.folder.path(), &["stats", "--admin", &fetch]);
    assert!(output.out.contains("a.test: expires in"), "{output:?}");
    let before = larder.counter("tls_failed_name");
    assert!(scene.connect(&larder, "other.test").is_err(), "a name of no site");
    assert_eq!(before + 1, larder.counter("tls_failed_name"));
}

#[test]
fn only_the_user_of_larder_can_read_keys() {
    let scene = Scene::of(&["a.test"]);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    let mut folders = vec![scene.folder.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for it in std::fs::read_dir(folder).unwrap().flatten() {
            let mode = it.metadata().unwrap().permissions().mode() & 0o777;
            let is_folder = it.file_type().unwrap().is_dir();
            assert_eq!(if is_folder { 0o700 } else { 0o600 }, mode, "{}", it.path().display());
            files += usize::from(!is_folder);
            folders.extend(is_folder.then(|| it.path()));
        }
    }
    assert!(files >= 4, "the account, a certificate, its state, the lock");
}

#[test]
fn challenges_precede_every_rule_and_only_known_tokens_are_answered() {
    let mut scene = Scene::of(&["open.test"]);
    scene.sites = "[[site]]\nhosts = [\"a.test\"]\nredirect_https = true\n[[site.route]]\npath = \"/*\"\naccess = { deny = [\"0.0.0.0/0\"] }\n\
                   maintenance = { enabled = true }\nrespond = { status = 200, body = \"here\" }\n"
        .to_owned();
    scene.ca.act(|kind| if kind == "chall" { CaAct::Silent } else { CaAct::Serve });
    let larder = scene.start();
    let path = "/.well-known/acme-challenge/token-0_of-the-scenarios";
    let fetch = |method: &str, host: &str, target: &str| {
        Client::connect(larder.address)
            .send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"))
            .read_for(method)
    };
    until("the token is known", || fetch("GET", "a.test", path).status == 200);
    let answer = fetch("GET", "a.test", path);
    assert!(answer.text().starts_with("token-0_of-the-scenarios."), "{answer:?}");
    assert_eq!(Some("application/octet-stream"), answer.field("content-type"));
    assert_eq!(200, fetch("HEAD", "a.test", path).status);
    assert_eq!(
        200,
        fetch("GET", "unknown.test", path).status,
        "any host: the CA may use another name of the site"
    );
    for (method, target) in [
        ("POST", path),
        ("GET", "/.well-known/acme-challenge/token-1_of-the-scenarios"),
        ("GET", "/.well-known/acme-challenge/"),
        ("GET", "/.well-known/acme-challenge/TOKEN-0_of-the-scenarios"),
        ("GET", "/.well-known/acme-challenge/../acme-challenge/token-0_of-the-scenarios"),
        ("GET", "/"),
    ] {
        assert_eq!(308, fetch(method, "a.test", target).status, "{method} {target}");
    }
    let overlays: Value = serde_json::from_str(&larder.admin_get("/api/v1/overlays").text()).unwrap();
    assert_eq!(0, overlays["overlays"].as_array().unwrap().len(), "it is no page of the operator");
}

/// After a kill in each step of an order there is one account, and the certificate that was ordered.
#[test]
fn a_kill_at_any_step_loses_nothing() {
    for step in ["account", "order", "chall", "poll", "finalize", "cert"] {
        let scene = Scene::of(&["a.test"]);
        let (done_sender, reached) = std::sync::mpsc::channel();
        scene.ca.act(move |kind| {
            if kind == step {
                let _ = done_sender.send(());
                return CaAct::Silent;
            }
            CaAct::Serve
        });
        let larder = scene.start();
        reached.recv_timeout(crate::harness::TIMEOUT).unwrap_or_else(|it| panic!("{step}: {it}"));
        drop(larder);
        scene.ca.act(|_| CaAct::Serve);
        let larder = scene.start();
        scene.obtains(&larder, "a.test");
        let (accounts, orders, issued) =
            scene.ca.books(|it| (it.accounts.len(), it.orders.len(), it.issued.len()));
        assert_eq!((1, 1, 1), (accounts, orders, issued), "{step}");
    }
}

#[test]
fn a_failing_ca_is_asked_ever_less_also_after_a_restart() {
    let scene = Scene::of(&["a.test"]);
    scene.ca.act(|_| CaAct::Say(500, "<html>no", ""));
    let larder = scene.start();
    let error = fails(&larder, "a.test", 1);
    assert!(error.contains("does not answer as ACME requires"), "{error}");
    assert_eq!(1, scene.ca.count("dir"));
    assert!(larder.error_log().contains("certificate-failed name=a.test"), "{}", larder.error_log());
    drop(larder);
    let larder = scene.start();
    assert_eq!(error, fails(&larder, "a.test", 1), "known after the restart");
    larder.advance(59);
    until("it has looked again", || certificates(&larder)[0]["in_progress"] == false);
    assert_eq!(1, scene.ca.count("dir"), "the pause is that of before");
    larder.advance(14);
    fails(&larder, "a.test", 2);
    assert_eq!(2, scene.ca.count("dir"));
    scene.ca.act(|_| CaAct::Serve);
    larder.advance(288);
    scene.obtains(&larder, "a.test");
    until("the failures are over", || certificates(&larder)[0]["failures"] == 0);
}

/// A clock that was set back does not lengthen a pause by more than itself.
#[test]
fn a_pause_ends_if_the_clock_is_set_back() {
    let scene = Scene::of(&["a.test"]);
    scene.ca.act(|_| CaAct::Say(503, "", ""));
    let larder = scene.start();
    fails(&larder, "a.test", 1);
    larder.advance(-300 * DAY);
    scene.ca.act(|_| CaAct::Serve);
    until("the new pause is known", || {
        certificates(&larder)[0]["next_attempt"].as_i64().unwrap()
            < crate::harness::acme_ca::issued_at() - 299 * DAY
    });
    larder.advance(73);
    until("it has a certificate", || scene.ca.books(|it| it.issued.len()) == 1);
}

#[test]
fn a_rate_limited_ca_is_asked_again_after_retry_after() {
    let scene = Scene::of(&["a.test"]);
    const LIMIT: &str =
        r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many certificates"}"#;
    scene.ca.act(|kind| {
        if kind == "order" { CaAct::Say(429, LIMIT, "Retry-After: 7200\r\n") } else { CaAct::Serve }
    });
    let larder = scene.start();
    assert_eq!("too many certificates", fails(&larder, "a.test", 1));
    scene.ca.act(|_| CaAct::Serve);
    larder.advance(7190);
    until("it has looked again", || certificates(&larder)[0]["in_progress"] == false);
    assert_eq!(1, scene.ca.count("order"));
    larder.advance(10);
    scene.obtains(&larder, "a.test");
}

#[test]
fn a_rejected_name_does_not_block_other_names() {
    let scene = Scene::of(&["a.test", "bad.test", "c.test"]);
    const REFUSED: &str =
        r#"{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"policy forbids bad.test"}"#;
    // The orders are begun in the order of their names.
    let mut orders = 0;
    scene.ca.act(move |kind| {
        orders += usize::from(kind == "order");
        if kind == "order" && orders == 2 { CaAct::Say(403, REFUSED, "") } else { CaAct::Serve }
    });
    let larder = scene.start();
    until("two names have certificates", || larder.counter("acme_certificates") == 2);
    until("one name is refused", || larder.counter("acme_failures") == 1);
    until("one name has no certificate", || {
        let all = certificates(&larder);
        let without: Vec<_> = all.iter().filter(|it| it["until"].is_null()).collect();
        without.len() == 1 && without[0]["error"] == "policy forbids bad.test"
    });
}

/// The files of a certificate never depend on the CA: no garbage replaces a good one.
#[test]
fn garbage_of_a_ca_never_replaces_a_certificate() {
    let scene = Scene::of(&["a.test"]);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    let before = scene.connect(&larder, "a.test").unwrap().shown();
    scene.ca.act(|kind| {
        if kind == "cert" {
            CaAct::Say(200, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "")
        } else {
            CaAct::Serve
        }
    });
    larder.advance(61 * DAY);
    let error = fails(&larder, "a.test", 1);
    assert!(error.contains("the answer of the CA: the first certificate is damaged"), "{error}");
    assert_eq!(before, scene.connect(&larder, "a.test").unwrap().shown());
    drop(larder);
    let larder = scene.start();
    assert_eq!(before, scene.connect(&larder, "a.test").unwrap().shown(), "after a restart, at once");
}

#[test]
fn certificates_of_six_days_are_renewed_while_they_are_served() {
    let scene = Scene::of(&["a.test"]);
    scene.ca.lives(6 * DAY);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    let mut before = scene.connect(&larder, "a.test").unwrap();
    larder.advance(3 * DAY);
    until("it has looked", || certificates(&larder)[0]["in_progress"] == false);
    assert_eq!(1, scene.ca.count("order"), "not before two thirds of the lifetime");
    scene.ca.lives(12 * DAY);
    larder.advance(DAY);
    until("the new one is served", || scene.connect(&larder, "a.test").unwrap().shown() != before.shown());
    assert_eq!((2, 1), scene.ca.books(|it| (it.orders.len(), it.accounts.len())));
    let answer = before.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").read();
    assert_eq!(200, answer.status, "connections go on");
    assert!(!larder.error_log().contains("certificate-expires"), "{}", larder.error_log());
}

#[test]
fn a_reload_adds_and_removes_names() {
    let mut scene = Scene::of(&["a.test"]);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    scene.sites = site("a.test") + &site("b.test");
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    std::fs::write(larder.config(), scene.config() + &admin).unwrap();
    larder.signal(libc::SIGHUP);
    scene.obtains(&larder, "b.test");
    assert!(scene.connect(&larder, "a.test").is_ok());
    assert_eq!((2, 1), scene.ca.books(|it| (it.orders.len(), it.accounts.len())));
    scene.sites = site("b.test");
    std::fs::write(larder.config(), scene.config() + &admin).unwrap();
    larder.signal(libc::SIGHUP);
    until("a.test is gone", || scene.connect(&larder, "a.test").is_err());
    assert!(scene.connect(&larder, "b.test").is_ok());
    until("it is no longer reported", || certificates(&larder).len() == 1);
}

#[test]
fn the_next_ca_is_asked_if_one_fails() {
    let scene = Scene::of(&["a.test"]);
    let down = AcmeCa::start();
    down.act(|_| CaAct::Say(503, "", ""));
    let larder = Larder::start(Setup {
        config: config(scene.folder.path(), &(down.section() + &scene.ca.section()), &scene.sites),
        env: Vec::new(),
    });
    scene.ca.validates_at(larder.address);
    scene.obtains(&larder, "a.test");
    until("the CA is reported", || certificates(&larder)[0]["authority"] == scene.ca.directory.as_str());
}

/// A folder that cannot be written stops neither the start nor the other certificates.
#[test]
fn larder_serves_without_a_writable_acme_folder() {
    let mut scene = Scene::of(&["a.test"]);
    let certificate = scene.ca.authority.sign("file", &["file.test"]);
    scene.sites.push_str(&site("file.test"));
    let blocked = scene.folder.path().join("blocked");
    std::fs::write(&blocked, "a file").unwrap();
    let config = config(&blocked.join("acme"), &scene.ca.section(), &scene.sites)
        .replace("[tls.acme]", &format!("[tls]\ncertificates = [{certificate}]\n[tls.acme]"));
    let larder = Larder::configured(config);
    assert!(scene.connect(&larder, "file.test").is_ok());
    until("the reason is logged", || larder.error_log().contains("acme-folder"));
    let json: Value = serde_json::from_str(&larder.admin_get("/api/v1/certificates").text()).unwrap();
    assert!(json["folder_error"].as_str().unwrap().contains("cannot be created"), "{json}");
    assert_eq!(0, scene.ca.count("dir"));
}

/// A rejected nonce has no effect on the order, whichever request has it.
#[test]
fn rejected_nonces_fail_no_attempt() {
    let scene = Scene::of(&["a.test"]);
    const REJECTED: &str = r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"another nonce"}"#;
    let mut rejected = std::collections::HashMap::<&str, usize>::new();
    scene.ca.act(move |kind| {
        let times = rejected.entry(kind).or_default();
        *times += 1;
        if *times <= 8 && !matches!(kind, "dir" | "nonce") {
            CaAct::Say(400, REJECTED, "")
        } else {
            CaAct::Serve
        }
    });
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    assert_eq!(0, larder.counter("acme_failures"), "{}", larder.error_log());
}

/// A CA with a wrong clock does not end the service of a name.
#[test]
fn an_expired_certificate_does_not_replace_a_valid_one() {
    let scene = Scene::of(&["a.test"]);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    let before = scene.connect(&larder, "a.test").unwrap().shown();
    scene.ca.lives(30 * DAY);
    larder.advance(61 * DAY);
    let error = fails(&larder, "a.test", 1);
    assert!(error.contains("has expired by the clock of this machine"), "{error}");
    assert_eq!(before, scene.connect(&larder, "a.test").unwrap().shown());
    scene.ca.lives(180 * DAY);
    larder.advance(73);
    until("the next order is used", || scene.connect(&larder, "a.test").unwrap().shown() != before);
}

/// The certificate in use stays, whatever the clock of this machine says.
#[test]
fn a_clock_that_jumps_past_the_expiry_and_back_ends_no_service() {
    let scene = Scene::of(&["a.test"]);
    let larder = scene.start();
    scene.obtains(&larder, "a.test");
    let mut client = scene.connect(&larder, "a.test").unwrap();
    let before = client.shown();
    let mut is_served = || {
        assert_eq!(200, client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").read().status);
        scene.connect(&larder, "a.test").unwrap().shown()
    };
    scene.ca.act(|_| CaAct::Say(503, "", ""));
    larder.advance(91 * DAY);
    fails(&larder, "a.test", 1);
    assert_eq!(before, is_served(), "expired by this clock");
    assert_eq!("expired", certificates(&larder)[0]["state"]);
    scene.ca.act(|_| CaAct::Serve);
    larder.advance(73);
    until("its new one is expired too", || {
        certificates(&larder)[0]["error"].as_str().is_some_and(|it| it.contains("correct the clock"))
    });
    let orders = scene.ca.count("order");
    assert_eq!(2, scene.ca.books(|it| it.issued.len()));
    until("the new one is served", || is_served() != before);
    larder.advance(-91 * DAY - 73);
    until("the next renewal is that of the certificate", || {
        let it = &certificates(&larder)[0];
        it["next_attempt"] == it["renews"] && it["error"].is_null()
    });
    is_served();
    assert_eq!(orders, scene.ca.count("order"), "no order but one while the clock was wrong");
    assert_eq!("valid", certificates(&larder)[0]["state"]);
}

/// `--domain` is all that a public server needs.
#[test]
fn a_domain_on_the_command_line_is_served_by_https() {
    let ca = AcmeCa::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "here").unwrap();
    let (root, state) =
        (folder.path().display().to_string(), folder.path().join("acme").display().to_string());
    let arguments = [
        "serve",
        &root,
        "--domain",
        "a.test",
        "--acme-ca",
        &ca.directory,
        "--listen",
        "http://127.0.0.1:0",
        "--listen",
        "https://127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--set",
        &format!("tls.acme.folder={state}"),
    ];
    let larder = Larder::command(&arguments);
    ca.validates_at(larder.address);
    let connect = || ca.authority.trusting().connect(secure_address(&larder), "a.test");
    until("a.test is served", || connect().is_ok());
    let answer = connect().unwrap().send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").read();
    assert_eq!((200, "here".to_owned()), (answer.status, answer.text()));
    let clear = Client::connect(larder.address).send("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n").read();
    assert_eq!((308, Some("https://a.test/x")), (clear.status, clear.field("location")));
}

/// URLs that are none, and times beyond all calendars.
#[test]
fn absurd_answers_of_a_ca_are_failures() {
    let scene = Scene::of(&["a.test"]);
    const DIRECTORY: &str = r#"{"newNonce":"file:///etc/passwd","newAccount":"http://[","newOrder":"","revokeCert":"","keyChange":""}"#;
    scene.ca.act(|kind| if kind == "dir" { CaAct::Say(200, DIRECTORY, "") } else { CaAct::Serve });
    let larder = scene.start();
    let error = fails(&larder, "a.test", 1);
    assert!(error.contains("an answer of the CA is invalid"), "{error}");
    scene.ca.act(|kind| match kind {
        "poll" => CaAct::Say(
            200,
            r#"{"status":"processing","authorizations":[],"finalize":"http://localhost/f"}"#,
            "Retry-After: 18446744073709551615\r\n",
        ),
        _ => CaAct::Serve,
    });
    larder.advance(73);
    let error = fails(&larder, "a.test", 2);
    assert!(error.contains("an answer of the CA is invalid"), "{error}");
    scene.ca.act(|_| CaAct::Serve);
    larder.advance(300);
    scene.obtains(&larder, "a.test");
}
