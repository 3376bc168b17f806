//! Crashes of the old process at each step of an upgrade: the new one says in one sentence with which state it goes on.

use super::in_flight::upgraded_with_websocket;
use super::{Upgradable, config, log, logged_in, tagged_pages};
use crate::harness::command::wait;
use crate::harness::tiers::{disk, written};
use crate::harness::{Client, Origin, Response, reserved_address, until};
use std::net::SocketAddr;

/// A larder whose first process crashed during an upgrade.
struct Crashed {
    running: Upgradable,
    address: SocketAddr,
    /// Its log.
    log: String,
    _origin: Origin,
}

impl Crashed {
    /// Three pages are stored, and one of them is purged, before the old process ends at `step`.
    fn at(step: &str, top: &str) -> Self {
        let (origin, folder) = (tagged_pages(), tempfile::tempdir().unwrap());
        let plan = folder.path().join("plan");
        // The new process could serve before the old one has crashed, and would not notice the crash then.
        std::fs::write(&plan, format!("crash {step}\noutlive serving")).unwrap();
        let (_reserved, address) = reserved_address();
        let top = format!("{}{top}", logged_in(folder.path()));
        let env = [("LARDER_TEST_UPGRADE", plan.to_str().unwrap())];
        let mut running = Upgradable::start(config(&origin, &format!("\"{address}\""), &top), &env);
        for target in ["/a", "/b", "/large"] {
            assert_eq!(200, running.larder.get(target).status);
        }
        if top.contains("[cache.disk]") {
            written(&running.larder, 3);
        }
        let receipt = running.larder.admin_post("/api/v1/purge", r#"{"tag":"a"}"#).text();
        assert!(receipt.contains("\"complete\":true"), "{receipt}");
        running.larder.signal(libc::SIGUSR2);
        assert_eq!(None, wait(&mut running.larder.child).code(), "{step}: it crashed");
        until("the new process serves", || log(folder.path()).contains("predecessor-crashed"));
        let log = log(folder.path());
        assert_eq!(1, log.matches("predecessor-crashed").count(), "{step}: {log}");
        assert!(!log.contains("ram-not-handed-over"), "one sentence: {log}");
        let crashed = Self { running, address, log, _origin: origin };
        assert!(!crashed.get("/a").is_hit(), "{step}: it was purged");
        crashed
    }

    fn get(&self, target: &str) -> Response {
        Client::connect(self.address).get(target)
    }
}

/// Steps of the old process before the new one has everything.
const BEFORE_THE_SWITCH: [&str; 7] =
    ["old start", "old offer", "old sockets", "old ready", "old ram", "old disk", "old end"];

#[test]
fn a_new_process_starts_cold_after_a_crash_of_the_old_one() {
    for step in BEFORE_THE_SWITCH {
        let crashed = Crashed::at(step, "");
        assert!(crashed.log.contains("RAM starts empty"), "{step}: {}", crashed.log);
        assert!(!crashed.get("/b").is_hit(), "{step}: {}", crashed.log);
        assert!(crashed.get("/b").is_hit(), "{step}: {}", crashed.log);
    }
}

#[test]
fn a_new_process_has_the_disk_tier_after_a_crash_of_the_old_one() {
    for step in BEFORE_THE_SWITCH {
        let folder = tempfile::tempdir().unwrap();
        let crashed = Crashed::at(step, &disk(folder.path()));
        let answer = crashed.get("/large");
        assert!(answer.is_hit() && answer.text().len() == 700_000, "{step}: {}", crashed.log);
    }
}

#[test]
fn a_new_process_that_has_everything_goes_on_after_a_crash_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    for top in [String::new(), disk(folder.path())] {
        let crashed = Crashed::at("old switch", &top);
        assert!(crashed.log.contains("goes on with everything"), "{}", crashed.log);
        for target in ["/b", "/large"] {
            assert!(crashed.get(target).is_hit(), "{target}: {}", crashed.log);
        }
        // It waits for no other process.
        let receipt = crashed.running.larder.admin_post("/api/v1/purge", r#"{"tag":"b"}"#).text();
        assert!(receipt.contains("\"complete\":true"), "{receipt}");
        assert!(!crashed.get("/b").is_hit());
    }
}

#[test]
fn a_crash_of_the_new_process_is_logged_by_the_old_one() {
    let (mut running, mut client, _origin, folder) = upgraded_with_websocket("10m", "");
    let process = libc::pid_t::try_from(*running.processes.last().unwrap()).unwrap();
    // SAFETY: the number is of a process that this test started, which ends by this signal alone.
    assert_eq!(0, unsafe { libc::kill(process, libc::SIGKILL) });
    until("the old process notices the end", || log(folder.path()).contains("successor-ended"));
    client.send("after");
    assert_eq!(b"after", &client.read_bytes(5)[..], "it finishes its requests");
    drop(client);
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
}

#[test]
fn a_crash_of_the_old_process_cuts_its_requests_and_is_logged() {
    // A release before this one announces no report, and its end is no crash.
    let cases = [
        ("", "predecessor-crashed", "predecessor-ended"),
        ("without end report", "predecessor-ended", "predecessor-crashed"),
    ];
    for (plan, expected, other) in cases {
        let (mut running, mut client, _origin, folder) = upgraded_with_websocket("10m", plan);
        running.larder.child.kill().unwrap();
        wait(&mut running.larder.child);
        assert!(client.is_closed());
        until("the new process notices the end", || log(folder.path()).contains("predecessor-"));
        let log = log(folder.path());
        assert_eq!((1, 0), (log.matches(expected).count(), log.matches(other).count()), "{plan}: {log}");
    }
}
