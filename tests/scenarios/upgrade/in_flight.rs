//! Connections that an upgrade meets: tunnels and responses to slow clients stay with the old process.

use super::{ANY_PORT, Upgradable, config, log, logged_in};
use crate::harness::command::wait;
use crate::harness::secure::Trusting;
use crate::harness::{Client, Origin, until};
use crate::scenarios::upgrades::{ASK, agreeing, echo};
use tempfile::TempDir;

/// A larder with an open WebSocket, after an upgrade.
pub(super) fn upgraded_with_websocket(drain: &str, plan: &str) -> (Upgradable, Client, Origin, TempDir) {
    let (origin, folder) = (agreeing(echo), tempfile::tempdir().unwrap());
    let file = folder.path().join("plan");
    std::fs::write(&file, plan).unwrap();
    let top = format!("limits.drain_timeout = \"{drain}\"\n{}", logged_in(folder.path()));
    let env = [("LARDER_TEST_UPGRADE", file.to_str().unwrap())];
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &top), &env);
    let mut client = running.larder.client();
    client.send(ASK);
    assert_eq!(101, client.read().status);
    client.send("before");
    assert_eq!(b"before", &client.read_bytes(6)[..]);
    running.upgrade();
    (running, client, origin, folder)
}

#[test]
fn a_websocket_stays_with_the_old_process() {
    let (mut running, mut client, _origin, _folder) = upgraded_with_websocket("10m", "");
    for text in ["after the upgrade", "and again"] {
        client.send(text);
        assert_eq!(text.as_bytes(), &client.read_bytes(text.len())[..]);
    }
    assert!(running.larder.child.try_wait().unwrap().is_none());
    // Another one is of the new process.
    let mut other = running.larder.client();
    other.send(ASK);
    assert_eq!(101, other.read().status);
    drop(client);
    assert_eq!(Some(0), wait(&mut running.larder.child).code(), "it has nothing more to do");
    other.send("other");
    assert_eq!(b"other", &other.read_bytes(5)[..]);
}

#[test]
fn a_websocket_is_cut_when_the_time_for_draining_is_over() {
    let (mut running, mut client, _origin, folder) = upgraded_with_websocket("100ms", "");
    assert_eq!(Some(1), wait(&mut running.larder.child).code(), "it had to cut a connection");
    assert!(client.is_closed());
    until("the new process notices the end", || log(folder.path()).contains("predecessor-ended"));
    let log = log(folder.path());
    assert!(!log.contains("predecessor-crashed"), "it ended in order: {log}");
    assert!(log.contains("requests-cut"), "{log}");
    assert_eq!("plain", Client::connect(running.larder.address).get("/chat").text());
}

/// The old process sends from its arena, of which the new one evicts the body meanwhile.
#[test]
fn a_slow_client_gets_a_large_body_that_the_new_process_evicts() {
    const LENGTH: usize = 20_000_000;
    let body = |path: &str| path.repeat(LENGTH / path.len() + 1)[..LENGTH].to_owned();
    let origin = Origin::new(move |it| {
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Type: text/css\n\n{}",
            body(it.target())
        )
    });
    let folder = tempfile::tempdir().unwrap();
    let top = format!(
        "limits = {{ drain_timeout = \"10m\", write_timeout = \"10m\", min_rate = \"0\" }}\n[cache.ram]\nsize = \"80MiB\"\n{}",
        logged_in(folder.path())
    );
    let mut running = Upgradable::start(config(&origin, ANY_PORT, &top), &[]);
    assert_eq!(LENGTH, running.larder.get("/slow").body.len());
    let mut slow = running.larder.client();
    slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    let first = slow.read_bytes(2000);
    running.upgrade();
    let address = running.larder.address;
    assert!(log(folder.path()).contains(" shared=") && !log(folder.path()).contains(" shared=0"));
    // Larger than RAM together, and requested twice: the others have to go.
    for path in ["/a", "/b", "/c", "/d", "/e", "/f"] {
        for _ in 0..2 {
            assert!(Client::connect(address).get(path).text() == body(path), "{path}");
        }
    }
    until("it is evicted in the new process", || {
        !running.larder.admin_get("/api/v1/objects").text().contains("/slow")
    });
    let end = first.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&first[..end]).into_owned();
    assert!(head.contains("; hit"), "{head}");
    // Once the last byte is sent, it may end.
    assert!(running.larder.child.try_wait().unwrap().is_none());
    let rest = slow.read_bytes(LENGTH - (first.len() - end));
    assert!([&first[end..], &rest].concat() == body("/slow").as_bytes(), "the bytes of the old process");
    drop(slow);
    assert_eq!(Some(0), wait(&mut running.larder.child).code());
}

/// A load balancer checks over a connection that it keeps; with the new process it would find the node ready.
#[test]
fn a_process_that_was_replaced_is_ready_over_its_connections() {
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\n\nof the origin".to_owned());
    let route = "[[site.route]]\npath = \"/ready\"\nrespond.health = \"ready\"\n";
    let text = config(&origin, ANY_PORT, "").replacen("[[site.route]]", &format!("{route}[[site.route]]"), 1);
    let mut running = Upgradable::start(text, &[]);
    let mut balancer = running.larder.client();
    std::thread::scope(|scope| {
        let checks = scope.spawn(|| {
            loop {
                balancer.send("GET /ready HTTP/1.1\r\nHost: h\r\n\r\n");
                let answer = balancer.read();
                assert_eq!((200, "ok\n"), (answer.status, &*answer.text()), "{answer:?}");
                if answer.field("connection") == Some("close") {
                    return;
                }
            }
        });
        running.upgrade();
        checks.join().unwrap();
    });
}

#[test]
fn the_self_signed_certificate_stays_the_same_over_an_upgrade() {
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\n\nof the origin".to_owned());
    let listen = "\"127.0.0.1:0\", \"https://127.0.0.1:0\"";
    let mut running = Upgradable::start(config(&origin, listen, "tls.self_signed = true"), &[]);
    let printed = running.larder.printed();
    let tls = printed.lines().find_map(|it| it.strip_prefix("listening on https://")).unwrap();
    let file = running.larder.folder.path().join("state/larder/self-signed.pem");
    let browser = Trusting::only_certificate(&std::fs::read(file).unwrap());
    let status = || browser.connect(tls.parse().unwrap(), "localhost").map(|mut it| it.get("/").status);
    assert_eq!(200, status().unwrap());
    running.upgrade();
    assert_eq!(Some(0), wait(&mut running.larder.child).code(), "the first process has ended");
    assert_eq!(200, status().unwrap(), "a browser would ask its user again");
}

/// Overlays and drains are in no file: they went with the old process.
#[test]
fn overlays_and_drains_outlive_an_upgrade() {
    let [a, b] = ["a", "b"]
        .map(|it| Origin::new(move |_| format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{it}")));
    let text =
        config(&a, ANY_PORT, "").replace("proxy = { to = [", &format!("proxy = {{ to = [\"{}\", ", b.url()));
    let mut running = Upgradable::start(text, &[]);
    let put = |running: &Upgradable, query: &str, body: &str| {
        let answer = running.larder.admin_send("PUT", &format!("/api/v1/{query}"), body).read();
        assert_eq!(200, answer.status, "{answer:?}");
    };
    // One on the heap with a lifetime, one in the arena.
    let large = "large ".repeat(20_000);
    put(&running, "overlays?uri=/late&status=503&ttl=3600", "<p>Back soon");
    put(&running, "overlays?uri=http://h/large", &large);
    put(&running, &format!("origins/drain?origin={}", b.url()), "");
    assert_eq!(503, running.larder.get("/late").status);
    let listed = |running: &Upgradable| running.larder.admin_get("/api/v1/overlays").text();
    let before = listed(&running);
    running.upgrade();
    assert_eq!(before, listed(&running), "with its author, times and count");
    let late = running.larder.get("/late");
    assert_eq!((503, "<p>Back soon".to_owned()), (late.status, late.text()));
    assert_eq!(Some("text/html; charset=utf-8"), late.field("content-type"));
    assert!(running.larder.get("/large").text() == large);
    for _ in 0..8 {
        assert_eq!("a", running.larder.get("/x").text(), "b is drained");
    }
    let stats = running.larder.admin_get("/api/v1/origins").text();
    assert!(stats.contains("\"drained_by\":\"operator\""), "{stats}");
}
