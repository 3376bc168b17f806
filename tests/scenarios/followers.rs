//! Requests that wait for another's fetch when it fails: none gets a failure that another request may have caused, and an
//! origin that recovers is not flooded.

use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, until};
use std::sync::Arc;

const PLAIN: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const BAD: &str = "GET / HTTP/1.1\r\nHost: h\r\nX-Bad: 1\r\n\r\n";

/// larder before `origin`, with more settings of the way there and of the cache.
fn larder(origin: &Origin, proxy: &str, cache: &str) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"]{proxy} }}\ncache = {{ {cache} }}\n"
    ))
}

/// An origin's fault in place of an answer.
#[derive(Clone)]
enum Trouble {
    Close,
    Reset,
    Says(&'static str),
    Silence(Arc<Gate>),
}

impl Trouble {
    fn script(&self) -> Script {
        match self {
            Trouble::Close => Script::Close,
            Trouble::Reset => Script::Reset,
            Trouble::Says(text) => Script::Send(response(text)),
            Trouble::Silence(gate) => Script::Gate(gate.clone()),
        }
    }
}

/// Every failure that one request can provoke by what it carries, and what its own client is told.
fn troubles() -> Vec<(&'static str, Trouble, u16)> {
    vec![
        ("close", Trouble::Close, 502),
        ("reset", Trouble::Reset, 502),
        ("nonsense", Trouble::Says("HTTP/9 what\n\n"), 502),
        ("a 304 that nobody asked for", Trouble::Says("HTTP/1.1 304 N\n\n"), 502),
        ("silence", Trouble::Silence(Gate::new()), 504),
        ("500", Trouble::Says("HTTP/1.1 500 S\n\nsorry"), 500),
    ]
}

/// An origin that `answer` speaks for, but which troubles whoever sends `X-Bad`, once `gate` is open.
fn touchy(gate: &Arc<Gate>, trouble: &Trouble, answer: fn(&Received) -> String) -> Origin {
    let (gate, trouble) = (gate.clone(), trouble.clone());
    Origin::scripted(move |request| match request.field("x-bad") {
        Some(_) => vec![Script::Gate(gate.clone()), trouble.script()],
        None => vec![Script::Send(response(&answer(request)))],
    })
}

/// A leader that provokes, and one that waits for it; both then have their answers.
fn provoke(larder: &Larder, gate: &Gate) -> (Client, Client) {
    let (mut leader, mut follower) = (larder.client(), larder.client());
    leader.send(BAD);
    until("the leader is at the gate", || gate.waiting() == 1);
    follower.send(PLAIN);
    until("a follower", || larder.counter("requests_collapsed") == 1);
    gate.open();
    (leader, follower)
}

/// Only what stays silent has to be given up; nobody else is to be, however busy the machine is.
fn timeout_settings(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Silence(_) => ", first_byte_timeout = \"8s\"",
        _ => "",
    }
}

#[test]
fn a_provoked_failure_is_its_own() {
    for (name, trouble, status) in troubles() {
        let gate = Gate::new();
        let origin =
            touchy(&gate, &trouble, |_| "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok".to_owned());
        let larder = larder(&origin, timeout_settings(&trouble), "");
        let (mut leader, mut follower) = provoke(&larder, &gate);
        assert_eq!(status, leader.read().status, "{name}");
        let answer = follower.read();
        assert_eq!((200, "ok"), (answer.status, answer.text().as_str()), "{name} {answer:?}");
        assert_eq!(2, origin.requests(), "{name}");
        assert!(larder.get("/").is_hit(), "{name}: the follower's answer is stored");
        if let Trouble::Silence(gate) = trouble {
            gate.open();
        }
    }
}

#[test]
fn a_provoked_failure_of_a_validation_is_its_own() {
    for (name, trouble, status) in troubles() {
        for (after, expect) in [
            ("HTTP/1.1 304 N\nETag: \"a\"\nCache-Control: max-age=60", "old"),
            ("HTTP/1.1 200 OK\n\nnew", "new"),
        ] {
            if name.starts_with("a 304") {
                continue; // Here it was asked for.
            }
            let gate = Gate::new();
            let fresh = "HTTP/1.1 200 OK\nETag: \"a\"\nCache-Control: max-age=60, must-revalidate\n\nold";
            let (held, bad) = (gate.clone(), trouble.clone());
            let origin = Origin::scripted(move |request| match (request.number, request.field("x-bad")) {
                (0, _) => vec![Script::Send(response(fresh))],
                (_, Some(_)) => vec![Script::Gate(held.clone()), bad.script()],
                _ => vec![Script::Send(response(after))],
            });
            let larder = larder(&origin, timeout_settings(&trouble), "");
            larder.get("/");
            larder.advance(61);
            let (mut leader, mut follower) = provoke(&larder, &gate);
            assert_eq!(status, leader.read().status, "{name}");
            let answer = follower.read();
            assert_eq!((200, expect), (answer.status, answer.text().as_str()), "{name} {answer:?}");
            if let Trouble::Silence(gate) = &trouble {
                gate.open();
            }
        }
    }
}

#[test]
fn a_storm_behind_a_failure_is_one_request_again() {
    const STORM: usize = 300;
    for trouble in [Trouble::Close, Trouble::Says("HTTP/1.1 503 S\n\nsorry")] {
        let (first, second) = (Gate::new(), Gate::new());
        let (one, two, bad) = (first.clone(), second.clone(), trouble);
        let origin = Origin::scripted(move |request| match request.number {
            0 => vec![Script::Gate(one.clone()), bad.script()],
            _ => vec![
                Script::Gate(two.clone()),
                Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok")),
            ],
        });
        let larder = larder(&origin, "", "");
        let mut leader = larder.client();
        leader.send(BAD);
        until("the leader is at the gate", || first.waiting() == 1);
        let mut clients: Vec<_> = (0..STORM).map(|_| larder.client()).collect();
        for it in &mut clients {
            it.send(PLAIN);
        }
        until("all wait", || larder.counter("requests_collapsed") == STORM as u64);
        first.open();
        until("all but one wait again", || larder.counter("requests_collapsed") == 2 * STORM as u64 - 1);
        until("that one is at the origin", || second.waiting() == 1);
        assert_eq!(2, origin.requests());
        second.open();
        for client in &mut clients {
            assert_eq!("ok", client.read().text());
        }
        assert!(leader.read().status >= 500);
        assert_eq!(2, origin.requests(), "one of them asked for all");
    }
}

#[test]
fn without_a_connection_it_fails_for_all_at_once() {
    const CROWD: usize = 12;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok";
        vec![Script::Gate(held.clone()), Script::Send(response(text))]
    });
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"], connections = 1, connect_timeout = \"8s\" }}\ncache = {{ }}\n"
    ));
    let mut occupant = larder.client();
    occupant.send("GET /other HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the only connection is taken", || gate.waiting() == 1);
    let mut clients: Vec<_> = (0..CROWD).map(|_| larder.client()).collect();
    for it in &mut clients {
        it.send(PLAIN);
    }
    until("all wait", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
    for client in &mut clients {
        assert_eq!(503, client.read().status);
    }
    assert_eq!(1, larder.counter("origin_busy"), "one waited for a connection, for all");
    gate.open();
    assert_eq!("ok", occupant.read().text());
}

#[test]
fn a_follower_that_may_have_stale_has_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nETag: \"a\"\nCache-Control: max-age=60\n\nold"))],
        _ => vec![Script::Gate(held.clone()), Script::Close],
    });
    let larder = larder(&origin, "", "stale_if_error = \"1h\"");
    larder.get("/");
    larder.advance(61);
    let (mut leader, mut follower) = provoke(&larder, &gate);
    assert_eq!("old", leader.read().text());
    let answer = follower.read();
    assert_eq!("old", answer.text());
    assert!(answer.cache().contains("fwd=stale") && answer.cache().ends_with("collapsed"), "{answer:?}");
    assert!(origin.requests() <= 3, "the follower did not ask: {:?}", origin.requests());
}

#[test]
fn the_sum_of_all_waits_is_bounded() {
    let (first, never) = (Gate::new(), Gate::new());
    let (one, two) = (first.clone(), never.clone());
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Gate(one.clone()), Script::Close],
        1 => vec![Script::Gate(two.clone()), Script::Close],
        _ => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok"))],
    });
    let larder = larder(&origin, "", "collapse_wait = \"5s\"");
    let (mut leader, mut one, mut other) = (larder.client(), larder.client(), larder.client());
    leader.send(PLAIN);
    until("the leader is at the gate", || first.waiting() == 1);
    one.send(PLAIN);
    other.send(PLAIN);
    until("two followers", || larder.counter("requests_collapsed") == 2);
    first.open();
    until("the next leader is at its gate", || never.waiting() == 1);
    until("the other waited long enough", || larder.counter("collapse_timeouts") == 1);
    until("and asked for itself", || origin.requests() == 3);
    assert_eq!(502, leader.read().status);
    never.open();
    let mut statuses = [one.read().status, other.read().status];
    statuses.sort_unstable();
    assert_eq!([200, 502], statuses);
}

/// One worker before an origin to which it may have one connection.
fn with_one_connection(origin: &Origin) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"], connections = 1 }}\n"
    ))
}

/// Who waits for a connection looks again when it has one: what came meanwhile answers, and the next need not wait.
#[test]
fn a_request_that_waits_for_a_connection_looks_the_page_up_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: private\n\nfor one"))],
        1 => vec![
            Script::Gate(held.clone()),
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nfor all")),
        ],
        _ => panic!("nobody else has to ask"),
    });
    let larder = with_one_connection(&origin);
    assert_eq!("for one", larder.get("/").text());
    let mut clients: Vec<Client> = (0..12).map(|_| larder.client()).collect();
    for (at, it) in clients.iter_mut().enumerate() {
        it.send(PLAIN);
        until("it asks for itself", || larder.counter("hit_for_miss") == at as u64 + 1);
    }
    until("one is at the origin", || gate.waiting() == 1);
    gate.open();
    let answers: Vec<_> = clients.iter_mut().map(Client::read).collect();
    assert!(answers.iter().all(|it| it.text() == "for all"));
    assert_eq!(11, answers.iter().filter(|it| it.is_hit()).count());
}

/// The same of a fetch for all who wait: a part of the page was asked for alone, and the origin sent the whole.
#[test]
fn a_fetch_for_all_that_waits_for_a_connection_looks_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![
            Script::Gate(held.clone()),
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nthe whole")),
        ],
        _ => panic!("nobody else has to ask"),
    });
    let larder = with_one_connection(&origin);
    let (mut part, mut first, mut second) = (larder.client(), larder.client(), larder.client());
    part.send("GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=4-\r\n\r\n");
    until("it is at the origin", || gate.waiting() == 1);
    first.send(PLAIN);
    second.send(PLAIN);
    until("one waits for the other", || larder.counter("requests_collapsed") == 1);
    gate.open();
    let part = part.read();
    assert_eq!((206, "whole"), (part.status, part.text().as_str()));
    for it in [first.read(), second.read()] {
        assert!(it.is_hit() && it.text() == "the whole", "{it:?}");
    }
    assert_eq!(1, origin.requests());
}

/// A validation that another made while this one waited for a connection was never sent, and is not counted.
#[test]
fn a_validation_made_by_another_request_is_counted_once() {
    const ALONE: &str = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YQ==\r\n\r\n";
    const LIFETIME: &str = "Cache-Control: public, max-age=10\nETag: \"a\"\n\n";
    for order in [[PLAIN, ALONE], [ALONE, PLAIN]] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |request| match request.number {
            0 => vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{LIFETIME}page")))],
            1 => {
                let fresh = response(&format!("HTTP/1.1 304 Not Modified\n{LIFETIME}"));
                vec![Script::Gate(held.clone()), Script::Send(fresh)]
            }
            _ => panic!("nobody else has to ask"),
        });
        let larder = with_one_connection(&origin);
        assert_eq!("page", larder.get("/").text());
        larder.advance(11);
        let mut clients = [larder.client(), larder.client()];
        clients[0].send(order[0]);
        until("one is at the origin", || gate.waiting() == 1);
        clients[1].send(order[1]);
        until("the other has come", || larder.counter("requests") == 3);
        gate.open();
        assert!(clients.iter_mut().map(Client::read).all(|it| it.text() == "page"));
        let counted = ["cache_validations", "cache_validated", "cache_hits"].map(|it| larder.counter(it));
        assert_eq!([1, 1, 1], counted, "{order:?}");
    }
}
