//! Many clients that send nothing, and few descriptors. Alone in its process, in which they are counted.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod support;

use larder_stdx::descriptors;
use larder_transport::worker::ClientLimits;
use support::Server;

/// At a second for each few of the crowd, this would take half a minute.
#[test]
fn a_request_does_not_wait_for_a_crowd_of_silent_connections() {
    before_a_crowd("");
}

#[test]
fn a_request_does_not_wait_for_a_crowd_of_partial_requests() {
    alone("a_request_does_not_wait_for_a_crowd_of_partial_requests", || before_a_crowd("G"));
}

/// Has a test run in a process of its own: descriptors and the clock are the process's.
fn alone(name: &str, test: impl Fn()) {
    if std::env::var_os("ALONE").is_some() {
        return test();
    }
    let this = std::env::current_exe().unwrap();
    let status = std::process::Command::new(this).args([name, "--exact"]).env("ALONE", "1").status();
    assert!(status.unwrap().success());
}

#[test]
fn an_idle_connection_is_closed_if_all_connections_are_taken() {
    alone("an_idle_connection_is_closed_if_all_connections_are_taken", || {
        let server = Server::with(ClientLimits { connections: 2, ..support::limits() });
        let mut kept: Vec<_> = (0..2).map(|_| server.connect()).collect();
        let fetch = |peer: &mut support::Peer| {
            peer.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(peer.until("/fast").starts_with("HTTP/1.1 200"));
        };
        kept.iter_mut().for_each(fetch);
        larder_stdx::clock::advance_monotonic(2_000);
        fetch(&mut server.connect());
        let seen =
            [&server.counters.connections_shed, &server.counters.connections_refused].map(|it| it.get());
        assert_eq!([2, 0], seen);
    });
}

/// Whoever has it: the kernel gives a newcomer to any worker.
#[test]
fn an_idle_connection_of_another_worker_is_closed_for_a_new_one() {
    alone("an_idle_connection_of_another_worker_is_closed_for_a_new_one", || {
        let connection_limit = std::sync::Arc::default();
        let limits = ClientLimits { connections: 3, ..support::limits() };
        let servers: [Server; 2] = std::array::from_fn(|_| Server::among(&connection_limit, limits));
        let asks = |server: &Server| {
            let mut peer = server.connect();
            peer.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(peer.until("/fast").starts_with("HTTP/1.1 200"));
            peer
        };
        let resting = [asks(&servers[1]), asks(&servers[1])];
        larder_stdx::clock::advance_monotonic(2_000);
        let kept: Vec<_> = (0..3).map(|_| asks(&servers[0])).collect();
        let seen = || {
            servers.each_ref().map(|it| {
                [&it.counters.connections_shed, &it.counters.connections_refused].map(|it| it.get())
            })
        };
        assert_eq!([[0, 0], [2, 0]], seen());
        // All have just asked.
        assert_eq!("", servers[1].connect().rest());
        assert_eq!([[0, 0], [2, 1]], seen());
        drop((resting, kept));
        let open = || servers.iter().map(|it| it.counters.connections_open.get()).sum::<u64>();
        while open() > 0 {
            std::thread::yield_now();
        }
        asks(&servers[1]);
    });
}

#[allow(clippy::disallowed_methods, reason = "what is looked at is how long it took")]
fn before_a_crowd(says: &str) {
    descriptors::allow(20);
    let server = Server::within_descriptors();
    let say = |mut it: support::Peer| {
        it.say(says);
        it
    };
    let crowd: Vec<_> = (0..300).map(|_| say(server.connect())).collect();
    let begun = std::time::Instant::now();
    let mut asks = server.connect();
    asks.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(asks.until("/fast").starts_with("HTTP/1.1 200"));
    // Long before the limit of those that send no whole head.
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    drop(crowd);
}

/// Who waited with its request is not taken for one that said nothing, and keeps its connection.
#[test]
fn a_connection_whose_request_waited_is_not_closed_as_silent() {
    alone("a_connection_whose_request_waited_is_not_closed_as_silent", || {
        descriptors::allow(4);
        let server = Server::within_descriptors();
        let mut slow = server.connect();
        slow.say("G");
        // Each at once, and by itself: who says nothing for a quarter of a second may have to go, and so may who rests for one.
        let fetch = |mut peer: support::Peer| {
            for _ in 0..2 {
                peer.say("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
                assert!(peer.until("/fast").starts_with("HTTP/1.1 200"));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| fetch(server.connect()));
            }
        });
        assert!(server.counters.connections_shed.get() > 0, "the slow one made room");
    });
}
