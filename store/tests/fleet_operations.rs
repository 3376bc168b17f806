//! Operations on one named server, over real memcached processes: both protocols, both kinds of socket.

mod fleet;

use fleet::memcached::{Memcached, On, nowhere};
use fleet::{key, patient, run};
use larder_store::fleet::{
    Added, FleetAddress, FleetSettings, MemcachedAddress, MemcachedProtocol, OperationFailure,
    OperationFollower,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);

/// Every protocol on every kind of socket.
fn each(test: impl AsyncFn(std::rc::Rc<larder_store::fleet::MemcachedServer>)) {
    for on in [On::Tcp, On::Unix] {
        for protocol in [MemcachedProtocol::Meta, MemcachedProtocol::Binary] {
            let server = Memcached::start(on, &[]);
            run(async {
                let settings = FleetSettings { protocol, ..patient(vec![server.address()]) };
                let (fleet, _) = fleet::fleet(settings);
                test(fleet.server(0).clone()).await;
            });
        }
    }
}

#[test]
fn items_are_read_in_the_order_of_the_keys() {
    each(async |server| {
        server.set(&key("a"), b"one", 0, WITHIN).await.unwrap();
        server.set(&key("b"), b"", 100, WITHIN).await.unwrap();
        let got = server.get_many(&[key("b"), key("none"), key("a")], WITHIN).await.unwrap();
        assert_eq!(
            [Some(&b""[..]), None, Some(&b"one"[..])],
            got.iter().map(Option::as_deref).collect::<Vec<_>>()[..]
        );
    });
}

#[test]
fn only_one_of_two_adds() {
    each(async |server| {
        assert_eq!(Ok(Added::Stored), server.add(&key("a"), b"1", 0, WITHIN).await);
        assert_eq!(Ok(Added::Exists), server.add(&key("a"), b"2", 0, WITHIN).await);
        assert_eq!(b"1"[..], server.get_many(&[key("a")], WITHIN).await.unwrap()[0].clone().unwrap());
    });
}

#[test]
fn numbers_are_added_to() {
    each(async |server| {
        assert_eq!(Ok(None), server.increment(&key("n"), 1, None, WITHIN).await);
        assert_eq!(Ok(Some(7)), server.increment(&key("n"), 1, Some((7, 0)), WITHIN).await);
        assert_eq!(Ok(Some(10)), server.increment(&key("n"), 3, Some((7, 0)), WITHIN).await);
        server.set(&key("t"), b"text", 0, WITHIN).await.unwrap();
        assert_eq!(Err(OperationFailure::Refused), server.increment(&key("t"), 1, None, WITHIN).await);
    });
}

#[test]
fn touch_and_delete_report_whether_the_item_existed() {
    each(async |server| {
        server.set(&key("a"), b"1", 100, WITHIN).await.unwrap();
        assert_eq!(Ok(true), server.touch(&key("a"), 200, WITHIN).await);
        assert_eq!(Ok(false), server.touch(&key("none"), 200, WITHIN).await);
        assert_eq!(Ok(true), server.delete(&key("a"), WITHIN).await);
        assert_eq!(Ok(false), server.delete(&key("a"), WITHIN).await);
    });
}

#[test]
fn a_thousand_requests_are_in_flight_on_one_connection() {
    each(async |server| {
        let tasks: Vec<_> = (0..1000)
            .map(|it| {
                let server = server.clone();
                tokio::task::spawn_local(async move {
                    let (key, value) = (key(&format!("k{it}")), vec![b'x'; it * 7]);
                    server.set(&key, &value, 0, WITHIN).await.unwrap();
                    assert_eq!(value, server.get_many(&[key], WITHIN).await.unwrap()[0].clone().unwrap());
                })
            })
            .collect();
        for it in tasks {
            it.await.unwrap();
        }
    });
}

#[test]
fn a_server_that_was_restarted_is_connected_to_again() {
    let mut server = Memcached::start(On::Unix, &[]);
    run(async {
        let (fleet, counters) = fleet::fleet(patient(vec![server.address()]));
        let it = fleet.server(0);
        it.set(&key("a"), b"1", 0, WITHIN).await.unwrap();
        server.restart();
        // The first may still meet the old connection.
        let _ = it.get_many(&[key("a")], WITHIN).await;
        assert_eq!(Ok(vec![None]), it.get_many(&[key("a")], WITHIN).await);
        assert_eq!(2, counters.fleet_connects.get());
    });
}

#[test]
fn a_stopped_server_is_waited_for_until_the_deadline() {
    let server = Memcached::start(On::Unix, &[]);
    run(async {
        let (fleet, counters) = fleet::fleet(patient(vec![server.address()]));
        let it = fleet.server(0);
        it.set(&key("a"), b"1", 0, WITHIN).await.unwrap();
        server.signal("STOP");
        let late = it.get_many(&[key("a")], Duration::from_millis(20)).await;
        assert_eq!(Err(OperationFailure::Late), late);
        assert_eq!(1, counters.fleet_timeouts.get());
        server.signal("CONT");
        // The late answer is thrown away, and nobody takes it for another's.
        assert_eq!(Ok(vec![None]), it.get_many(&[key("b")], WITHIN).await);
    });
}

#[test]
fn a_server_is_found_by_its_name() {
    let server = Memcached::start(On::Tcp, &[]);
    run(async {
        let MemcachedAddress::Tcp(_, port) = server.at.clone() else { panic!("TCP") };
        let address = FleetAddress { at: MemcachedAddress::Tcp("localhost".into(), port), weight: 1 };
        let (fleet, _) = fleet::fleet(patient(vec![address]));
        assert_eq!(Ok(vec![None]), fleet.server(0).get_many(&[key("a")], WITHIN).await);
        let address =
            FleetAddress { at: MemcachedAddress::Tcp("no-such-host.invalid".into(), port), weight: 1 };
        let (fleet, _) = fleet::fleet(patient(vec![address]));
        assert_eq!(Err(OperationFailure::Broken), fleet.server(0).get_many(&[key("a")], WITHIN).await);
    });
}

#[test]
fn a_server_may_have_an_ipv6_address() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // This machine has none.
    }
    let server = Memcached::start(On::Tcp6, &[]);
    run(async {
        let (fleet, _) = fleet::fleet(patient(vec![server.address()]));
        fleet.server(0).set(&key("a"), b"1", 0, WITHIN).await.unwrap();
        assert_eq!(
            b"1"[..],
            fleet.server(0).get_many(&[key("a")], WITHIN).await.unwrap()[0].clone().unwrap()
        );
    });
}

#[test]
fn an_unreachable_server_fails_at_once() {
    run(async {
        let (fleet, counters) = fleet::fleet(patient(vec![FleetAddress { at: nowhere(), weight: 1 }]));
        assert_eq!(Err(OperationFailure::Broken), fleet.server(0).get_many(&[key("a")], WITHIN).await);
        assert_eq!(1, counters.fleet_failures.get());
    });
}

#[test]
fn each_operation_is_reported_to_the_follower() {
    let server = Memcached::start(On::Unix, &[]);
    run(async {
        let (fleet, _) = fleet::fleet(patient(vec![server.address()]));
        let outcome: Arc<Mutex<Vec<String>>> = Arc::default();
        let follows = Arc::new(AtomicBool::new(false));
        let (report_outcome, wants) = (outcome.clone(), follows.clone());
        fleet.health().follow(OperationFollower {
            follows: Box::new(move || wants.load(Relaxed)),
            report: Box::new(move |it| {
                report_outcome.lock().unwrap().push(format!("{} {} {}", it.what, it.key, it.came))
            }),
        });
        let it = fleet.server(0);
        it.set(&key("a"), b"1", 0, WITHIN).await.unwrap();
        follows.store(true, Relaxed);
        it.get_many(&[key("a"), key("b")], WITHIN).await.unwrap();
        it.delete(&key("a"), WITHIN).await.unwrap();
        follows.store(false, Relaxed);
        it.delete(&key("a"), WITHIN).await.unwrap();
        assert_eq!(["get a hit", "get b miss", "delete a done"], outcome.lock().unwrap()[..]);
    });
}
