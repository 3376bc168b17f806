//! Clients that wait to be accepted while descriptors are short. Alone in its process, in which descriptors are counted.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use larder_stdx::descriptors;
use support::{Peer, Server};

fn is_served(peer: &mut Peer) -> bool {
    peer.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.until("/fast").ends_with("/fast")
}

#[test]
fn only_a_connection_that_waits_to_be_accepted_is_counted() {
    descriptors::allow(4);
    let server = Server::within_descriptors();
    let errors = || server.counters.accept_errors.get();
    let mut first = server.connect();
    assert!(is_served(&mut first));
    let mut slow = server.connect();
    slow.say("G");
    while server.counters.connections_accepted.get() < 2 {
        std::thread::yield_now();
    }
    assert!(is_served(&mut first));
    assert_eq!(0, errors(), "there is room for nobody, and nobody waits");
    let mut third = server.connect();
    while errors() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(2, server.counters.connections_accepted.get());
    drop(slow);
    assert!(is_served(&mut third));
}
