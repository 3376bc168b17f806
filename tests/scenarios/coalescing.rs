//! One origin request per key in flight; followers stream along; what may not be shared is not waited for.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Larder, Origin, until};
use std::sync::Arc;

/// An origin whose body comes in two halves with a gate between.
fn halves(gate: &Arc<Gate>, head: &'static str) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |_| {
        let mut first = response(head);
        first.extend_from_slice(b"first-");
        vec![Script::Send(first), Script::Gate(gate.clone()), Script::Send(b"second".to_vec())]
    })
}

#[test]
fn a_thousand_requests_are_one() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |_| {
        let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nhello";
        vec![Script::Gate(before.clone()), Script::Send(response(text))]
    });
    let larder = Larder::before(&origin, "");
    let mut clients: Vec<_> = (0..1000).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("999 followers", || larder.counter("requests_collapsed") == 999);
    gate.open();
    for client in &mut clients {
        assert_eq!("hello", client.read().text());
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn a_follower_has_bytes_before_the_leader_is_done() {
    let gate = Gate::new();
    let origin = halves(&gate, "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 12\n\n");
    let larder = Larder::before(&origin, "");
    let (mut leader, mut follower) = (larder.client(), larder.client());
    leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the leader is at the gate", || gate.waiting() == 1);
    follower.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first-") {
        let more = follower.read_bytes(1);
        assert!(!more.is_empty());
        seen.extend(more);
    }
    gate.open();
    assert_eq!(b"second", &follower.read_bytes(6)[..]);
    assert_eq!("first-second", leader.read().text());
    assert_eq!(1, origin.requests());
}

#[test]
fn a_leader_that_goes_away_leaves_the_fill_to_its_followers() {
    let gate = Gate::new();
    let origin = halves(&gate, "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 12\n\n");
    let larder = Larder::before(&origin, "on_abort = \"cancel\"");
    let (mut leader, mut follower) = (larder.client(), larder.client());
    leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the leader is at the gate", || gate.waiting() == 1);
    follower.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("a follower", || larder.counter("requests_collapsed") == 1);
    leader.reset();
    gate.open();
    assert_eq!("first-second", follower.read().text());
    assert!(larder.get("/").is_hit());
    assert_eq!(1, origin.requests());
}

#[test]
fn private_answers_are_not_shared_and_not_waited_for() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |request| {
        let text = format!("HTTP/1.1 200 OK\nSet-Cookie: id={}\n\nyours {}", request.number, request.number);
        vec![Script::Gate(before.clone()), Script::Send(response(&text))]
    });
    let larder = Larder::before(&origin, "");
    let mut clients: Vec<_> = (0..20).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("19 followers", || larder.counter("requests_collapsed") == 19);
    gate.open();
    let mut bodies: Vec<_> = clients.iter_mut().map(|it| it.read().text()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(20, bodies.len(), "each client has its own");
    assert_eq!(20, origin.requests());
    larder.get("/");
    assert!(larder.counter("hit_for_miss") > 0);
}

#[test]
fn a_cut_body_is_cut_for_everyone_and_never_stored() {
    let origin = Origin::scripted(|_| {
        let mut text = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 100\n\n");
        text.extend_from_slice(b"only this");
        vec![Script::Send(text), Script::Close]
    });
    let larder = Larder::before(&origin, "");
    for number in 1..=3 {
        let cut = larder.get("/");
        assert!(!cut.complete, "{cut:?}");
        assert_eq!(number, origin.requests());
    }
}
