//! The same with Pebble, which verifies every signature and nonce, and rejects a third of the nonces.

use super::{certificates, config, secure_address, site};
use crate::harness::command::run;
use crate::harness::pebble::Pebble;
use crate::harness::{Larder, until};
use std::net::SocketAddr;
use std::process::Command;

/// A larder without certificates, whose ports Pebble then knows.
pub fn without_certificates(sites: &str) -> (tempfile::TempDir, Larder) {
    let folder = tempfile::tempdir().unwrap();
    let authority = crate::harness::secure::Authority::new();
    let first = authority.sign("first", &["first.test"]);
    let larder = Larder::configured(format!(
        "listen = [\"http://127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{first}]\n{sites}"
    ));
    (folder, larder)
}

/// What curl gets from a site, verified with the root of Pebble.
fn fetched(larder: &Larder, pebble: &Pebble, name: &str) -> Option<String> {
    fetched_at(secure_address(larder), pebble, name)
}

pub fn fetched_at(address: SocketAddr, pebble: &Pebble, name: &str) -> Option<String> {
    let resolve = format!("{name}:{}:127.0.0.1", address.port());
    let mut command = Command::new("curl");
    command.args(["-s", "--resolve", &resolve, "--cacert"]).arg(pebble.trusted());
    let got = command.arg(format!("https://{name}:{}/", address.port())).output().unwrap();
    got.status.success().then(|| String::from_utf8(got.stdout).unwrap())
}

#[test]
fn pebble_issues_and_renews_certificates() {
    let sites = site("a.test") + &site("www.a.test") + &site("blocked.test");
    let (folder, larder) = without_certificates(&sites);
    let pebble = Pebble::start(larder.address.port(), secure_address(&larder).port());
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    std::fs::write(larder.config(), config(folder.path(), &pebble.section("shortlived"), &sites) + &admin)
        .unwrap();
    larder.signal(libc::SIGHUP);
    for name in ["a.test", "www.a.test"] {
        let mut text = None;
        until(&format!("{name} is served"), || {
            text = fetched(&larder, &pebble, name);
            text.is_some()
        });
        assert_eq!(Some(format!("here is {name}")), text);
    }
    until("one name is refused", || certificates(&larder).iter().any(|it| it["failures"] == 1));
    let refused = certificates(&larder).into_iter().find(|it| it["failures"] == 1).unwrap();
    assert_eq!("blocked.test", refused["names"][0]);
    assert!(refused["error"].as_str().unwrap().contains("blocked"), "{refused}");
    let before = larder.counter("acme_certificates");
    // Within the window that Pebble suggests: one day to both sides of two thirds.
    larder.advance(5 * 86_400 + 60);
    until("both are renewed", || larder.counter("acme_certificates") == before + 2);
}

/// Far more names than orders at once; `LARDER_ACME_NAMES=1000` has more.
#[test]
fn pebble_issues_certificates_for_many_names() {
    let names: usize = std::env::var("LARDER_ACME_NAMES").map_or(120, |it| it.parse().unwrap());
    let sites: String = (0..names).map(|it| site(&format!("n{it}.test"))).collect();
    let (folder, larder) = without_certificates(&sites);
    let pebble = Pebble::start(larder.address.port(), secure_address(&larder).port());
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    let text = config(folder.path(), &pebble.section("default"), &sites) + &admin;
    std::fs::write(larder.config(), text).unwrap();
    let (begun, used, before) = (larder_stdx::clock::instant(), larder.processor_time(), peak(&larder));
    larder.signal(libc::SIGHUP);
    // By their files: statistics of a thousand sites would take the processor from the orders.
    let issued = |it: &usize| folder.path().join(format!("names/n{it}.test/certificate.pem")).exists();
    for some in (60..names).step_by(60).chain([names]) {
        until(&format!("{some} names have certificates"), || (0..names).filter(issued).count() >= some);
    }
    until("all are counted", || larder.counter("acme_certificates") == names as u64);
    let (time, orders) = (begun.elapsed(), larder.counter("acme_orders"));
    let (used, after) = (larder.processor_time() - used, peak(&larder));
    println!(
        "{names} certificates: {time:.1?}, {used} ms of CPU, {orders} orders, VmHWM {before} to {after} KiB"
    );
    figures_of_reports(&larder, names);
    for name in ["n0.test".to_owned(), format!("n{}.test", names - 1)] {
        let mut text = None;
        until(&format!("{name} is served"), || {
            text = fetched(&larder, &pebble, &name);
            text.is_some()
        });
        assert_eq!(Some(format!("here is {name}")), text);
    }
    assert_eq!((0, names as u64), (larder.counter("acme_failures"), orders));
}

/// Prints the cost of the reports about many names: as the page gets them, and as a command prints them.
fn figures_of_reports(larder: &Larder, names: usize) {
    let (used, mut length) = (larder.processor_time(), 0);
    for _ in 0..20 {
        length = larder.admin_get("/api/v1/certificates").body.len();
    }
    let each = (larder.processor_time() - used) / 20;
    println!("/api/v1/certificates: {length} bytes, {each} ms of CPU each");
    let begun = larder_stdx::clock::instant();
    let list = run(larder.folder.path(), &["tls", "list", "--admin", &larder.admin.to_string()]);
    println!("larder tls list: {:.1?}", begun.elapsed());
    assert_eq!(names, list.out.matches(": expires in").count(), "{list:?}");
}

/// The most memory of the process, in KiB (proc_pid_status(5), `VmHWM`).
fn peak(larder: &Larder) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", larder.pid())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// RFC 8555 section 7.3.4: Pebble verifies the signature by the key of the external account.
#[test]
fn pebble_binds_an_account_to_an_external_one() {
    let key = |of: u8| format!("{}{of}", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12");
    let sites = site("a.test");
    let (folder, larder) = without_certificates(&sites);
    let ports = [larder.address.port(), secure_address(&larder).port()];
    let pebble = Pebble::start_for(ports[0], ports[1], Some(["account-1", &key(4)]));
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    let reload = |name: &str, binding: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let section = pebble.section("default") + binding;
        std::fs::write(larder.config(), config(&folder, &section, &sites) + &admin).unwrap();
        larder.signal(libc::SIGHUP);
    };
    let binding = |id: &str, key: &str| format!("eab_id = \"{id}\"\neab_key = \"{key}\"\n");
    let error = || certificates(&larder).iter().find_map(|it| it["error"].as_str().map(str::to_owned));
    reload("without", "");
    until("no account without a binding", || error().is_some_and(|it| it.contains("externalAccountBinding")));
    reload("wrong", &binding("account-1", &key(3)));
    until("no account with another key", || error().is_some_and(|it| it.contains("JWS verification error")));
    assert_eq!(0, larder.counter("acme_certificates"));
    reload("right", &binding("account-1", &key(4)));
    let mut text = None;
    until("a.test is served", || {
        text = fetched(&larder, &pebble, "a.test");
        text.is_some()
    });
    assert_eq!(Some("here is a.test"), text.as_deref());
    let log = larder.error_log();
    assert!(!log.contains(&key(4)), "the key is in no log");
}

/// A CA that will revoke a certificate suggests its renewal (RFC 9773).
#[test]
fn a_certificate_is_renewed_when_pebble_suggests_it() {
    let sites = site("a.test");
    let (folder, larder) = without_certificates(&sites);
    let pebble = Pebble::start(larder.address.port(), secure_address(&larder).port());
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    std::fs::write(larder.config(), config(folder.path(), &pebble.section("default"), &sites) + &admin)
        .unwrap();
    larder.signal(libc::SIGHUP);
    let issued = || larder.counter("acme_certificates");
    until("it has a certificate", || issued() == 1);
    let state = || -> serde_json::Value {
        let text = std::fs::read(folder.path().join("names/a.test/state.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    until("Pebble has suggested a renewal, which is reported", || {
        let renewal = &state()["suggestion"]["renewal"];
        renewal.is_i64() && certificates(&larder)[0]["renews"] == *renewal
    });
    let pem = std::fs::read_to_string(folder.path().join("names/a.test/certificate.pem")).unwrap();
    let begin = pem.find("-----BEGIN CERTIFICATE").unwrap();
    pebble.suggest(&pem[begin..], "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    larder.advance(86_400 + 60);
    let log = || larder.error_log();
    until("it is renewed", || {
        // A question that fails is repeated after hours.
        larder.advance(60);
        assert!(!log().contains("certificate-failed"), "{}", log());
        issued() == 2
    });
    until("Pebble has answered about the new one", || state()["suggestion"]["ask_at"].is_i64());
    assert_eq!(2, issued(), "once");
}

/// Without port 80: validation within the handshake (RFC 8737).
#[test]
fn pebble_validates_by_tls_alone() {
    let sites = site("a.test") + &site("b.test");
    let (folder, larder) = without_certificates(&sites);
    // The port without TLS is another one.
    let address = secure_address(&larder);
    let pebble = Pebble::start(1, address.port());
    let config =
        config(folder.path(), &pebble.section("default"), &sites).replace("\"http://127.0.0.1:0\", ", "");
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    std::fs::write(larder.config(), config + &admin).unwrap();
    larder.signal(libc::SIGHUP);
    for name in ["a.test", "b.test"] {
        let mut text = None;
        until(&format!("{name} is served"), || {
            text = fetched_at(address, &pebble, name);
            text.is_some()
        });
        assert_eq!(Some(format!("here is {name}")), text);
    }
    assert_eq!(0, larder.counter("acme_failures"));
    let offer = |protocol: &str| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-brief", "-servername", "a.test", "-alpn", protocol]);
        command.args(["-connect", &address.to_string()]).stdin(std::process::Stdio::null());
        String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
    };
    assert!(offer("acme-tls/1").contains("no application protocol"), "{}", offer("acme-tls/1"));
    assert!(offer("http/1.1").contains("CONNECTION ESTABLISHED"), "{}", offer("http/1.1"));
}

/// A larder whose ports for HTTP-01 and TLS-ALPN-01 Pebble reaches only if they are given here.
fn behind_a_firewall(ports: impl Fn(&Larder) -> [u16; 2]) -> (tempfile::TempDir, Larder, Pebble) {
    behind_a_firewall_with("{}", ports)
}

/// The same with the stored state of its name.
fn behind_a_firewall_with(
    state: &str,
    ports: impl Fn(&Larder) -> [u16; 2],
) -> (tempfile::TempDir, Larder, Pebble) {
    let sites = site("a.test");
    let (folder, larder) = without_certificates(&sites);
    std::fs::create_dir_all(folder.path().join("names/a.test")).unwrap();
    std::fs::write(folder.path().join("names/a.test/state.json"), state).unwrap();
    let [http, tls] = ports(&larder);
    let pebble = Pebble::start(http, tls);
    let admin = format!("[admin]\nlisten = \"{}\"\n", larder.admin);
    std::fs::write(larder.config(), config(folder.path(), &pebble.section("default"), &sites) + &admin)
        .unwrap();
    larder.signal(libc::SIGHUP);
    (folder, larder, pebble)
}

#[test]
fn a_name_that_http_cannot_validate_is_validated_by_tls_at_once() {
    let (_folder, larder, pebble) = behind_a_firewall(|it| [1, secure_address(it).port()]);
    until("a.test is served", || {
        let all = certificates(&larder);
        assert!(all.iter().all(|it| it["failures"] != 1), "no pause: {all:?}");
        fetched(&larder, &pebble, "a.test").is_some()
    });
    assert_eq!(2, larder.counter("acme_orders"));
}

/// The stored way of validation for the next order of `a.test`.
fn stored_way(folder: &tempfile::TempDir) -> String {
    let text = std::fs::read(folder.path().join("names/a.test/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    state["way"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_renewal_begins_with_the_way_that_validated_the_name() {
    let (folder, larder, _pebble) = behind_a_firewall(|it| [1, secure_address(it).port()]);
    until("it has a certificate", || larder.counter("acme_certificates") == 1);
    assert_eq!((2, "tls-alpn-01"), (larder.counter("acme_orders"), stored_way(&folder).as_str()));
    // After the window that Pebble suggests, or two thirds of the lifetime.
    larder.advance(76 * 86_400);
    until("it is renewed", || larder.counter("acme_certificates") == 2);
    assert_eq!(3, larder.counter("acme_orders"), "the CA is not asked to validate by HTTP again");
    let first = r#"{"way":"tls-alpn-01"}"#;
    let (folder, larder, _pebble) = behind_a_firewall_with(first, |it| [1, secure_address(it).port()]);
    until("it has a certificate after a restart", || larder.counter("acme_certificates") == 1);
    assert_eq!((1, "tls-alpn-01"), (larder.counter("acme_orders"), stored_way(&folder).as_str()));
}

#[test]
fn a_way_of_validation_that_fails_is_no_longer_the_first_one() {
    let first = r#"{"way":"tls-alpn-01"}"#;
    let (folder, larder, _pebble) = behind_a_firewall_with(first, |it| [it.address.port(), 1]);
    until("it has a certificate", || larder.counter("acme_certificates") == 1);
    assert_eq!((2, "http-01"), (larder.counter("acme_orders"), stored_way(&folder).as_str()));
}

/// Both validations count for the pauses: at most five of a name in an hour.
#[test]
fn a_name_that_no_way_validates_is_two_failures() {
    let (folder, larder, _pebble) = behind_a_firewall(|_| [1, 2]);
    let failed = |times: u64| {
        until(&format!("{times} validations failed"), || {
            let all = certificates(&larder);
            all.iter().any(|it| it["failures"] == times && it["in_progress"] == false)
        });
    };
    failed(2);
    assert_eq!(2, larder.counter("acme_orders"));
    let text = std::fs::read(folder.path().join("names/a.test/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let pause = state["pause"].as_u64().unwrap();
    assert!((240..=288).contains(&pause), "{state}");
    let error = state["error"].as_str().unwrap();
    assert!(error.contains("127.0.0.1:1:") && error.contains("127.0.0.1:2 "), "both reasons: {error}");
    larder.advance(288);
    failed(3);
    assert_eq!(3, larder.counter("acme_orders"), "one validation after each pause");
}
