//! Connections: reused, bounded, replaced when they died, closed when they are not needed.

mod scripted;

use larder_origin::{OriginAddress, OriginError, OriginLimits, OriginPool};
use larder_wire::message::Framing;
use scripted::{Peer, Scripted, client, fetch, get, limits, request, run, told};
use std::sync::Arc;
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers every request with `200 ok`.
fn obliging(_: usize, mut peer: Peer) {
    while !peer.head().is_empty() {
        peer.send(OK);
    }
}

#[test]
fn more_than_99_of_100_requests_reuse_a_connection() {
    let scripted = Scripted::tcp(obliging);
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for _ in 0..1000 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
    });
    assert_eq!((1, 999), (counters.origin_connects.get(), counters.origin_reuses.get()));
    assert_eq!(1000, counters.origin_requests.get());
    assert_eq!(1000 * OK.len() as u64, counters.origin_bytes_received.get());
}

#[test]
fn side_by_side_and_still_reused() {
    let scripted = Scripted::tcp(obliging);
    let (origin, counters) = client(&scripted, limits());
    run(async {
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                let origin = origin.clone();
                tokio::task::spawn_local(async move {
                    for _ in 0..200 {
                        assert_eq!("200 ok", fetch(&origin).await);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(counters.origin_connects.get() <= 5 && counters.origin_reuses.get() >= 995);
}

#[test]
fn over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let scripted = Scripted::unix(&path, obliging);
    let address: OriginAddress = OriginAddress::Unix(path);
    assert_eq!(scripted.address, address);
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for _ in 0..100 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
    });
    assert_eq!(1, counters.origin_connects.get());
}

#[test]
fn by_name() {
    let scripted = Scripted::tcp(obliging);
    let OriginAddress::Tcp(_, port) = scripted.address else { unreachable!() };
    let address: OriginAddress = OriginAddress::Tcp("localhost".to_owned(), port);
    let origin = OriginPool::new(address, limits(), Arc::default());
    run(async { assert_eq!("200 ok", fetch(&origin).await) });
}

#[test]
fn a_connection_that_was_closed_while_unused_is_not_used() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send(OK);
        peer.wait();
        let report = peer.reporter();
        drop(peer);
        report("closed");
    });
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for connections in 1..4 {
            // POST: nothing but the look before the reuse can save it.
            assert_eq!("200 ok", told(origin.send(request("POST", Framing::Empty)).await).await);
            assert_eq!(connections, counters.origin_connects.get());
            scripted.go();
            assert_eq!("closed", scripted.reported());
        }
    });
    assert_eq!(0, counters.origin_retries.get());
}

#[test]
fn an_origin_with_surplus_bytes_gets_a_connection_for_each_request() {
    for later in [false, true] {
        let scripted = Scripted::tcp(move |_, mut peer| {
            while !peer.head().is_empty() {
                if later {
                    peer.send(OK);
                    peer.wait();
                    peer.send("HTTP/1.1 200 OK\r\n");
                    peer.report("sent");
                } else {
                    peer.send(format!("{OK}HTTP/1.1 200 OK\r\n"));
                }
            }
        });
        let (origin, counters) = client(&scripted, limits());
        run(async {
            for connections in 1..4 {
                assert_eq!("200 ok", fetch(&origin).await);
                assert_eq!(connections, counters.origin_connects.get());
                if later {
                    scripted.go();
                    assert_eq!("sent", scripted.reported());
                }
            }
        });
        let expect = if later { 1 } else { 3 };
        assert_eq!(expect, counters.origin_surplus.get(), "once it is known nobody looks any more");
        assert_eq!((0, 0), (counters.origin_reuses.get(), origin.idle_connections()));
    }
}

#[test]
fn an_origin_with_surplus_bytes_is_trusted_again_later() {
    let scripted = Scripted::tcp(|number, mut peer| {
        while !peer.head().is_empty() {
            peer.send(if number == 0 { format!("{OK}HTTP/1.1 200 OK\r\n") } else { OK.to_owned() });
        }
    });
    let (origin, counters) = client(&scripted, limits());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        for connections in 1..4 {
            assert_eq!("200 ok", fetch(&origin).await);
            assert_eq!(connections, counters.origin_connects.get());
        }
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(61)).await;
        tokio::time::resume();
        for _ in 0..3 {
            assert_eq!("200 ok", fetch(&origin).await);
        }
        assert_eq!((4, 2), (counters.origin_connects.get(), counters.origin_reuses.get()));
    });
}

#[test]
fn an_origin_that_sends_a_body_to_head_keeps_its_other_connections() {
    let scripted = Scripted::tcp(obliging);
    let (origin, counters) = client(&scripted, limits());
    run(async {
        for number in 1..4 {
            assert_eq!("200 ", told(origin.send(request("HEAD", Framing::Empty)).await).await);
            assert_eq!("200 ok", fetch(&origin).await);
            assert_eq!(number, counters.origin_surplus.get());
        }
    });
    assert_eq!((4, 2), (counters.origin_connects.get(), counters.origin_reuses.get()));
}

#[test]
fn an_unreachable_origin_is_a_connect_error() {
    // Bound without listening: no other test gets the port.
    let closed = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    closed.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = closed.local_addr().unwrap().as_socket().unwrap().port();
    for (address, expect) in [
        (OriginAddress::Tcp("127.0.0.1".to_owned(), port), "Connection refused"),
        (OriginAddress::Unix("/nowhere/at.all".into()), "No such file or directory"),
        (OriginAddress::Tcp("name.invalid".to_owned(), 80), "the name name.invalid cannot be resolved"),
    ] {
        let counters = Arc::<larder_counters::Counters>::default();
        let origin = OriginPool::new(address.clone(), limits(), counters.clone());
        run(async {
            match origin.send(get()).await.map(|_| ()) {
                Err(OriginError::Connect(why)) => assert!(why.starts_with(expect), "{address}: {why}"),
                other => panic!("{address}: {other:?}"),
            }
        });
        assert_eq!(1, counters.origin_connect_failures.get());
    }
}

#[test]
fn connections_are_bounded_and_waiters_served_in_order() {
    let scripted = Scripted::tcp(|number, mut peer| {
        while !peer.head().is_empty() {
            peer.report(format!("connection {number}"));
            peer.wait();
            peer.send(OK);
        }
    });
    let (origin, counters) = client(&scripted, OriginLimits { connections: 1, queue: 16, ..limits() });
    run(async {
        let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..3)
            .map(|number| {
                let (origin, order) = (origin.clone(), order.clone());
                tokio::task::spawn_local(async move {
                    assert_eq!("200 ok", fetch(&origin).await);
                    order.borrow_mut().push(number);
                })
            })
            .collect();
        for _ in 0..3 {
            scripted.go();
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(vec![0, 1, 2], *order.borrow());
    });
    assert_eq!((1, 0), (counters.origin_connects.get(), counters.origin_busy.get()));
}

#[test]
fn a_wait_for_a_place_is_bounded() {
    let scripted = Scripted::tcp(obliging);
    let short = OriginLimits { connections: 1, connect: Duration::from_secs(1), ..limits() };
    let (origin, counters) = client(&scripted, short);
    run(async {
        let first = origin.send(get()).await.unwrap();
        assert_eq!("Busy", fetch(&origin).await);
        assert_eq!(1, counters.origin_busy.get());
        assert_eq!("200 ok", told(Ok(first)).await);
        assert_eq!("200 ok", fetch(&origin).await, "the place is free again");
    });
}

#[test]
fn the_number_of_waiting_requests_is_bounded() {
    let scripted = Scripted::tcp(obliging);
    let (origin, counters) = client(&scripted, OriginLimits { connections: 1, queue: 16, ..limits() });
    run(async {
        let first = origin.send(get()).await.unwrap();
        let waiters: Vec<_> = (0..20)
            .map(|_| {
                let origin = origin.clone();
                tokio::task::spawn_local(async move { fetch(&origin).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!("200 ok", told(Ok(first)).await);
        let mut text = Vec::new();
        for waiter in waiters {
            text.push(waiter.await.unwrap());
        }
        assert_eq!(16, text.iter().filter(|it| *it == "200 ok").count());
        assert_eq!(4, text.iter().filter(|it| *it == "Busy").count());
        assert_eq!(4, counters.origin_busy.get());
    });
}

#[test]
fn a_dropped_exchange_closes_its_connection_and_frees_its_place() {
    let scripted = Scripted::tcp(|number, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        if number == 0 {
            peer.rest();
            peer.report("closed");
        } else {
            peer.send("ok");
        }
    });
    let (origin, _) = client(&scripted, OriginLimits { connections: 1, queue: 16, ..limits() });
    run(async {
        let exchange = origin.send(get()).await.unwrap();
        exchange.head().await.unwrap();
        drop(exchange);
        assert_eq!("closed", scripted.reported());
        assert_eq!(0, origin.idle_connections());
        assert_eq!("200 ok", fetch(&origin).await);
    });
}

#[test]
fn unused_connections_are_bounded() {
    let scripted = Scripted::tcp(obliging);
    let (origin, _) = client(&scripted, OriginLimits { idle_connections: 2, ..limits() });
    run(async {
        let mut exchanges = Vec::new();
        for _ in 0..5 {
            exchanges.push(origin.send(get()).await.unwrap());
        }
        for exchange in exchanges {
            assert_eq!("200 ok", told(Ok(exchange)).await);
        }
        assert_eq!(2, origin.idle_connections());
    });
}

/// After HEAD a connection rests until a sweep: it still counts among those that are open.
#[test]
fn a_resting_connection_makes_room_for_one_that_is_needed() {
    let scripted = Scripted::tcp(|number, mut peer| {
        while !peer.head().is_empty() {
            peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
        peer.report(format!("{number} closed"));
    });
    let (origin, counters) = client(&scripted, OriginLimits { connections: 1, queue: 16, ..limits() });
    run(async {
        assert_eq!("204 ", told(origin.send(request("HEAD", Framing::Empty)).await).await);
        assert_eq!("204 ", fetch(&origin).await);
        assert_eq!("0 closed", scripted.reported());
        assert_eq!((1, 2), (origin.idle_connections(), counters.origin_connects.get()));
    });
}

#[test]
fn connections_that_would_not_be_kept_say_so() {
    let scripted = Scripted::tcp(|_, mut peer| {
        let head = peer.head();
        peer.send(OK);
        peer.rest();
        peer.report(head);
    });
    let (origin, _) = client(&scripted, OriginLimits { idle: Duration::ZERO, ..limits() });
    run(async {
        assert_eq!("200 ok", fetch(&origin).await);
        assert!(scripted.reported().contains("\r\nConnection: close\r\n"));
    });
}

#[test]
fn unused_connections_are_closed_in_time() {
    let scripted = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send(OK);
        peer.rest();
        peer.report("closed");
    });
    let (origin, _) = client(&scripted, OriginLimits { idle: Duration::from_millis(40), ..limits() });
    run(async {
        assert_eq!("200 ok", fetch(&origin).await);
        assert_eq!(1, origin.idle_connections());
        while origin.idle_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await; // for the sweeper's timer
        }
        assert_eq!("closed", scripted.reported());
    });
}
