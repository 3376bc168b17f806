//! A crowd that says nothing, before few descriptors. Alone in its process, in which they are counted.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use larder_stdx::descriptors;
use support::Server;

/// At a second for each few of the crowd, this would take half a minute.
#[test]
#[allow(clippy::disallowed_methods, reason = "what is looked at is how long it took")]
fn who_asks_does_not_wait_for_a_crowd_that_says_nothing() {
    descriptors::allow(20);
    let server = Server::within_descriptors();
    let crowd: Vec<_> = (0..300).map(|_| server.connect()).collect();
    let begun = std::time::Instant::now();
    let mut asks = server.connect();
    asks.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(asks.until("/fast").starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    drop(crowd);
}

/// Who waited with its request is not taken for one that said nothing, and keeps its connection.
#[test]
fn who_asked_while_it_waited_is_not_one_of_them() {
    let this = std::env::current_exe().unwrap();
    if std::env::var_os("ALONE").is_none() {
        let name = "who_asked_while_it_waited_is_not_one_of_them";
        let status = std::process::Command::new(this).args([name, "--exact"]).env("ALONE", "1").status();
        return assert!(status.unwrap().success());
    }
    descriptors::allow(4);
    let server = Server::within_descriptors();
    let mut slow = server.connect();
    slow.say("G");
    // Each at once, and by itself: who says nothing for a quarter of a second may have to go, and so may who rests for one.
    let ask = |mut peer: support::Peer| {
        for _ in 0..2 {
            peer.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(peer.until("/fast").starts_with("HTTP/1.1 200"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..40 {
            let peer = server.connect();
            scope.spawn(|| ask(peer));
        }
    });
    assert!(server.counters.connections_shed.get() > 0, "the slow one made room");
}
