//! Several nodes: one order for each name, whichever node the CA validates.

use super::pebble::fetched_at;
use super::{certificates, config, secure_address, site};
use crate::harness::acme_ca::AcmeCa;
use crate::harness::pebble::Pebble;
use crate::harness::{Larder, Memcached, tiers, until};
use std::net::SocketAddr;

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A node of a fleet, without certificates by ACME at first.
struct FleetNode {
    folder: tempfile::TempDir,
    larder: Larder,
    secure: SocketAddr,
}

impl FleetNode {
    fn start(memcached: &Memcached) -> Self {
        let authority = crate::harness::secure::Authority::new();
        let first = authority.sign("first", &["first.test"]);
        let config = format!(
            "listen = [\"http://127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{first}]\n{}{}",
            tiers::fleet(&[memcached], ""),
            site("a.test"),
        );
        let larder = Larder::configured(config);
        let secure = secure_address(&larder);
        Self { folder: tempfile::tempdir().unwrap(), larder, secure }
    }

    /// Reloads it with these names; `without` is removed from the configuration.
    fn reload(&self, memcached: &Memcached, pebble: &Pebble, names: &[&str], without: &str) {
        let acme = format!("names = {names:?}\nfleet_key = {KEY:?}\n{}", pebble.section("default"));
        let sites: String = ["a.test", "b.test", "c.test"].into_iter().map(site).collect();
        let sites = tiers::fleet(&[memcached], "") + &sites;
        let admin = format!("[admin]\nlisten = \"{}\"\n", self.larder.admin);
        let text = config(self.folder.path(), &acme, &sites).replace(without, "") + &admin;
        std::fs::write(self.larder.config(), text).unwrap();
        self.larder.signal(libc::SIGHUP);
    }

    #[track_caller]
    fn serves(&self, pebble: &Pebble, name: &str) {
        let log = || self.larder.error_log();
        until(&format!("{name} is served"), || {
            assert!(!log().contains("certificate-failed"), "{}", log());
            fetched_at(self.secure, pebble, name) == Some(format!("here is {name}"))
        });
    }

    fn orders(&self) -> u64 {
        self.larder.counter("acme_orders")
    }

    fn certificate(&self, name: &str) -> String {
        let path = self.folder.path().join("names").join(name).join("certificate.pem");
        std::fs::read_to_string(path).unwrap()
    }
}

/// Two nodes, of which the CA reaches the second one only.
#[track_caller]
fn nodes_request_together(without: &str) {
    let memcached = Memcached::start();
    let [first, second] = [(); 2].map(|()| FleetNode::start(&memcached));
    let pebble = Pebble::start(second.larder.address.port(), second.secure.port());
    second.reload(&memcached, &pebble, &["b.test"], without);
    second.serves(&pebble, "b.test");
    first.reload(&memcached, &pebble, &["a.test"], without);
    first.serves(&pebble, "a.test");
    assert_eq!([1, 1], [first.orders(), second.orders()]);

    // A node that joins later.
    second.reload(&memcached, &pebble, &["a.test", "b.test"], without);
    second.serves(&pebble, "a.test");
    assert!(
        second.larder.error_log().contains("certificate-received name=a.test"),
        "{}",
        second.larder.error_log()
    );
    // Both at once.
    for it in [&first, &second] {
        it.reload(&memcached, &pebble, &["a.test", "b.test", "c.test"], without);
    }
    for name in ["a.test", "b.test", "c.test"] {
        [&first, &second].iter().for_each(|it| it.serves(&pebble, name));
        assert_eq!(first.certificate(name), second.certificate(name));
    }
    assert_eq!(3, first.orders() + second.orders(), "one for each name");
    for name in memcached.keys() {
        let value = memcached.read(&name);
        let shows = |it: &str| value.windows(it.len()).any(|part| part == it.as_bytes());
        assert!(!shows("PRIVATE KEY") && !shows("a.test"), "{name} is sealed");
    }
}

#[test]
fn a_validation_that_reaches_another_node_succeeds() {
    nodes_request_together("");
}

#[test]
fn a_handshake_that_reaches_another_node_validates() {
    nodes_request_together("\"http://127.0.0.1:0\", ");
}

#[test]
fn a_node_alone_gets_a_certificate_without_memcached() {
    let mut memcached = Memcached::start();
    let ca = AcmeCa::start();
    let folder = tempfile::tempdir().unwrap();
    let acme = format!("fleet_key = {KEY:?}\n{}", ca.section());
    let sites = tiers::fleet(&[&memcached], "") + &site("a.test");
    memcached.kill();
    let larder = Larder::configured(config(folder.path(), &acme, &sites));
    ca.validates_at(larder.address);
    until("it has a certificate", || larder.counter("acme_certificates") == 1);
    let report = || larder.error_log().matches("acme-fleet").count();
    assert_eq!(1, report(), "{}", larder.error_log());
    assert!(larder.error_log().contains("this node requests certificates alone"), "{}", larder.error_log());
    memcached.start_again();
    until("it is back", || larder.error_log().contains("request certificates together again"));
    until("the certificate is there", || {
        larder.advance(3600);
        memcached.keys().iter().any(|it| it.ends_with("!acme:certificate:a.test"))
    });
    assert_eq!((2, 1), (report(), certificates(&larder).len()), "{}", larder.error_log());
}
