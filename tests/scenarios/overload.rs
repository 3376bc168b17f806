//! An overloaded application: stored responses are served, the newest waiting requests go first, and the others get an
//! error under overload. `larder-bench` measures how many are served under load.

use crate::harness::origin::{Gate, Origin, Script, response};
use crate::harness::{Client, Larder, until};
use std::sync::Arc;

/// A larder with one connection to an application that answers `/fresh` and `/old` at once, and all else once the gate is open.
fn scene(proxy: &str) -> (Arc<Gate>, Origin, Larder) {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let text =
            |seconds| format!("HTTP/1.1 200 OK\nETag: \"a\"\nCache-Control: max-age={seconds}\n\nkept");
        match request.target() {
            "/fresh" => vec![Script::Send(response(&text(3600)))],
            "/old" => vec![Script::Send(response(&text(60)))],
            _ => {
                let answer = response("HTTP/1.1 200 OK\nCache-Control: no-store\n\nok");
                vec![Script::Gate(held.clone()), Script::Send(answer)]
            }
        }
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"], connections = 1{proxy} }}\n",
        origin.url()
    ));
    (gate, origin, larder)
}

#[test]
fn stored_responses_are_served_under_overload_and_other_requests_get_503() {
    let (gate, _origin, larder) = scene(", connect_timeout = \"2s\"");
    assert_eq!(200, larder.get("/fresh").status);
    assert_eq!(200, larder.get("/old").status);
    larder.advance(61);
    let mut occupant = larder.client();
    occupant.send("GET /occupant HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the application is full", || gate.waiting() == 1);
    assert!(larder.get("/fresh").is_hit(), "a hit needs nobody");
    let old = larder.get("/old");
    assert_eq!((200, "kept"), (old.status, old.text().as_str()), "better stale than nothing");
    assert!(old.cache().contains("fwd=stale"), "{old:?}");
    let none = larder.get("/none");
    assert_eq!((503, Some("1")), (none.status, none.field("retry-after")), "{none:?}");
    assert_eq!(2, larder.counter("origin_busy"));
    gate.open();
    assert_eq!("ok", occupant.read().text());
    assert_eq!("ok", larder.get("/none").text());
}

#[test]
fn the_newest_requests_of_a_full_queue_are_served_first() {
    const MOST: usize = 16;
    let (gate, origin, larder) = scene("");
    let fetch = |name: usize| {
        let mut client = larder.client();
        client.send(format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        client
    };
    let mut occupant = fetch(100);
    until("the application is full", || gate.waiting() == 1);
    let mut clients: Vec<Client> = Vec::new();
    for name in 0..=MOST {
        clients.push(fetch(name));
        until("it is being answered", || larder.counter("requests") == name as u64 + 2);
    }
    assert_eq!(503, clients.remove(0).read().status, "the one that has waited longest goes");
    gate.open();
    assert_eq!("ok", occupant.read().text());
    clients.iter_mut().for_each(|it| assert_eq!("ok", it.read().text()));
    let order: Vec<_> = origin.received().iter().skip(1).map(|it| it.target().to_owned()).collect();
    let expect: Vec<_> = (1..=MOST).rev().map(|it| format!("/{it}")).collect();
    assert_eq!(expect, order);
}
