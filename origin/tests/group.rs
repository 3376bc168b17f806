//! Several origins: the next one after a failure, requests that are never sent twice, ejection and readmission.

mod scripted;

use larder_counters::Counters;
use larder_origin::{
    AllEjected, Balance, BalanceKey, Group, GroupRules, Membership, OriginError, OriginLimits, OriginPool,
    OriginState, Protocol, RequestBuffering,
};
use larder_stdx::circuit_breaker::{BreakerChange, BreakerSettings};
use larder_stdx::clock;
use larder_wire::message::Framing;
use scripted::{Peer, Scripted, get, limits, request, run, told};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any test moves the clock, which all tests have together.
const LONG: Duration = Duration::from_secs(1 << 20);

const EJECTION: BreakerSettings = BreakerSettings { failures: 2, window: LONG, time: LONG, max_time: LONG };

/// For those who move the clock, one at a time.
const SHORT: BreakerSettings = BreakerSettings { time: Duration::from_secs(5), ..EJECTION };
static MOVED: Mutex<()> = Mutex::new(());

const SAFE: BalanceKey =
    BalanceKey { key: None, bound: None, repeatable: true, buffering: RequestBuffering::Complete };
const UNSAFE: BalanceKey =
    BalanceKey { key: None, bound: None, repeatable: false, buffering: RequestBuffering::Complete };

fn rules() -> GroupRules {
    GroupRules {
        balance: Balance::RoundRobin,
        slow_start: Duration::ZERO,
        all_ejected: AllEjected::Try,
        tries: 3,
        budget: 20,
        failure_statuses: vec![503],
        backups: 0,
    }
}

struct All {
    group: Rc<Group>,
    counters: Arc<Counters>,
    changes: Rc<RefCell<Vec<String>>>,
}

fn group_with(all: &[&Scripted], limits: OriginLimits, rules: GroupRules) -> All {
    group_of(all, limits, rules, EJECTION)
}

fn group_of(all: &[&Scripted], limits: OriginLimits, rules: GroupRules, ejection: BreakerSettings) -> All {
    let (counters, changes) = (Arc::new(Counters::default()), Rc::new(RefCell::new(Vec::new())));
    let members = all.iter().enumerate().map(|(at, it)| {
        let name = it.address.to_string();
        let standing = Arc::default();
        let membership = Membership {
            name,
            tls: None,
            protocol: Protocol::Http1,
            outlier_state: standing,
            weight: 1,
            ejection,
            drained: false,
            preamble: None,
        };
        let origin = OriginPool::in_group(it.address.clone(), limits, counters.clone(), membership);
        let changes = changes.clone();
        origin.on_change(Box::new(move |it| {
            let became = if it == BreakerChange::Closed { "back" } else { "away" };
            changes.borrow_mut().push(format!("{at} {became}"));
        }));
        origin
    });
    All { group: Group::new(members.collect(), rules), counters, changes }
}

fn group(all: &[&Scripted]) -> All {
    group_with(all, limits(), rules())
}

impl All {
    async fn fetch(&self) -> String {
        told(self.group.send(SAFE, get()).await).await
    }

    async fn send(&self, method: &str, framing: Framing) -> String {
        told(self.group.send(UNSAFE, request(method, framing)).await).await
    }

    fn states(&self) -> Vec<&'static str> {
        let now = clock::monotonic();
        self.group.members().iter().map(|it| it.outlier_state().state(Duration::ZERO, now).name()).collect()
    }
}

/// Answers every request with its name.
fn answering(name: &'static str) -> Scripted {
    Scripted::tcp(move |_, mut peer| {
        while !peer.head().is_empty() {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()));
        }
    })
}

/// Reads a request and resets.
fn resets() -> Scripted {
    Scripted::tcp(|_, mut peer: Peer| {
        let head = peer.head();
        peer.report(head.lines().next().unwrap_or(""));
        peer.reset();
    })
}

/// Refuses connections: it was there a moment ago.
fn gone() -> Scripted {
    let mut it = answering("gone");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    it.address = larder_origin::OriginAddress::Tcp("127.0.0.1".to_owned(), port);
    it
}

#[test]
fn each_in_turn() {
    let (a, b, c) = (answering("a"), answering("b"), answering("c"));
    let all = group(&[&a, &b, &c]);
    run(async {
        let mut found = Vec::new();
        for _ in 0..6 {
            found.push(all.fetch().await);
        }
        found.sort();
        assert_eq!(["200 a", "200 a", "200 b", "200 b", "200 c", "200 c"], found[..]);
    });
    assert_eq!(0, all.counters.origin_retries_elsewhere.get());
}

#[test]
fn a_failed_request_is_retried_at_another_origin_and_a_failing_origin_is_ejected() {
    for bad in [gone(), resets()] {
        let (a, b) = (answering("a"), answering("b"));
        let all = group(&[&bad, &a, &b]);
        run(async {
            for _ in 0..30 {
                let found = all.fetch().await;
                assert!(found == "200 a" || found == "200 b", "{found}");
            }
        });
        assert_eq!(vec!["ejected", "up", "up"], all.states());
        assert_eq!(vec!["0 away"], *all.changes.borrow());
        assert_eq!(
            (2, 1),
            (all.counters.origin_retries_elsewhere.get(), all.counters.origin_ejections.get())
        );
    }
}

#[test]
fn a_silent_origin_costs_a_request_one_deadline() {
    let silent = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.wait();
    });
    let a = answering("a");
    let short = OriginLimits { first_byte: Duration::from_secs(2), ..limits() };
    let all = group_with(&[&silent, &a], short, rules());
    run(async {
        for _ in 0..8 {
            assert_eq!("200 a", all.fetch().await);
        }
    });
    assert_eq!((2, 2), (all.counters.origin_retries_elsewhere.get(), all.counters.origin_timeouts.get()));
}

#[test]
fn a_request_that_is_not_idempotent_is_sent_once_if_an_origin_may_have_seen_it() {
    let (bad, a) = (resets(), answering("a"));
    let all = group(&[&bad, &a]);
    run(async {
        assert_eq!("Disconnected", all.send("POST", Framing::Empty).await);
        assert_eq!("POST / HTTP/1.1", bad.reported());
        assert_eq!("200 a", all.send("POST", Framing::Empty).await);
    });
    assert_eq!(0, all.counters.origin_retries_elsewhere.get());
    // Where no connection is had, nothing was seen.
    let (bad, a) = (gone(), answering("a"));
    let all = group(&[&bad, &a]);
    run(async { assert_eq!("200 a", all.send("POST", Framing::Empty).await) });
    assert_eq!(1, all.counters.origin_retries_elsewhere.get());
}

/// Reads a head and this number of bytes of a body, reports it, calls `then`, and resets.
fn dies_within_a_body(bytes: usize, then: fn(&mut Peer)) -> Scripted {
    Scripted::tcp(move |_, mut peer| {
        if peer.head().is_empty() {
            return;
        }
        peer.exactly(bytes);
        then(&mut peer);
        let report = peer.reporter();
        peer.reset();
        report("dead");
    })
}

/// Tells of the body up to `end`, and answers.
fn takes_until(end: &'static str) -> Scripted {
    Scripted::tcp(move |_, mut peer| {
        while !peer.head().is_empty() {
            let mut body = String::new();
            while !body.ends_with(end) {
                body += &peer.exactly(1);
            }
            peer.report(body);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
        }
    })
}

/// The body in three pieces, of which the first has come where it is no use.
async fn put_in_three(all: &All, bad: &Scripted, method: &str, framing: Framing) -> String {
    let exchange = match all.group.send(UNSAFE, request(method, framing)).await {
        Ok(exchange) => exchange,
        Err(error) => return format!("{error:?}"),
    };
    exchange.write("abc".into()).await.unwrap();
    assert_eq!("dead", bad.reported());
    let rest = async {
        exchange.write("def".into()).await?;
        exchange.write("ghi".into()).await?;
        exchange.write_end(None).await
    };
    // Whether it is gone is told by the one who writes, or the one who reads.
    let (_, report) = tokio::join!(rest, told(Ok(exchange.clone())));
    report
}

#[test]
fn a_body_of_which_something_left_is_sent_again_whole() {
    for (framing, whole) in [
        (Framing::Length(9), "abcdefghi"),
        (Framing::Chunked, "3\r\nabc\r\n3\r\ndef\r\n3\r\nghi\r\n0\r\n\r\n"),
    ] {
        for method in ["PUT", "DELETE"] {
            let (bad, a) = (dies_within_a_body(3, |_| {}), takes_until(&whole[whole.len() - 3..]));
            let all = group(&[&bad, &a]);
            run(async {
                assert_eq!("200 a", put_in_three(&all, &bad, method, framing).await, "{method} {framing:?}");
                assert_eq!(whole, a.reported());
            });
            assert_eq!(1, all.counters.origin_retries_elsewhere.get());
        }
    }
}

#[test]
fn a_post_of_which_something_left_is_never_sent_again() {
    for method in ["POST", "PATCH"] {
        for framing in [Framing::Length(9), Framing::Chunked] {
            let (bad, a) = (dies_within_a_body(3, |_| {}), answering("a"));
            let all = group(&[&bad, &a]);
            run(async { assert_eq!("Disconnected", put_in_three(&all, &bad, method, framing).await) });
            assert_eq!(0, all.counters.origin_retries_elsewhere.get());
        }
    }
}

#[test]
fn a_request_with_a_response_is_not_sent_again() {
    // A whole answer that came before it stopped reading, and hints that were given on.
    let early: fn(&mut Peer) = |peer| assert!(peer.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno"));
    let hints: fn(&mut Peer) = |peer| assert!(peer.send("HTTP/1.1 103 Early Hints\r\n\r\n"));
    let busy: fn(&mut Peer) = |peer| assert!(peer.send("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"));
    for (then, expect) in [(early, "413 no"), (hints, "103 Disconnected"), (busy, "503 no")] {
        let (bad, a) = (dies_within_a_body(3, then), answering("a"));
        let all = group(&[&bad, &a]);
        run(async { assert_eq!(expect, put_in_three(&all, &bad, "PUT", Framing::Length(9)).await) });
        assert_eq!(0, all.counters.origin_retries_elsewhere.get());
    }
}

#[test]
fn a_response_that_has_begun_is_read_to_its_end_though_the_body_cannot_be_sent() {
    for framing in [Framing::Length(3), Framing::Chunked] {
        let bad = Scripted::tcp(|_, mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
            peer.wait();
            let report = peer.reporter();
            peer.reset();
            report("dead");
        });
        let a = answering("a");
        let all = group(&[&bad, &a]);
        run(async {
            let exchange = all.group.send(UNSAFE, request("PUT", framing)).await.unwrap();
            assert_eq!(200, exchange.head().await.unwrap().status);
            bad.go();
            assert_eq!("dead", bad.reported());
            assert_eq!(Err(OriginError::Disconnected), exchange.write("abc".into()).await);
            assert_eq!(("body".to_owned(), Ok(())), scripted::body(&exchange).await);
        });
        assert_eq!(0, all.counters.origin_retries_elsewhere.get());
    }
}

#[test]
fn no_more_than_64_kib_of_a_body_are_sent_again() {
    for (length, expect) in [(65_536, "200 a"), (65_537, "Disconnected")] {
        let bad = dies_within_a_body(length, |_| {});
        let a = Scripted::tcp(move |_, mut peer| {
            while !peer.head().is_empty() {
                peer.exactly(length);
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
            }
        });
        let all = group(&[&bad, &a]);
        run(async {
            let framing = Framing::Length(length as u64);
            let exchange = all.group.send(UNSAFE, request("PUT", framing)).await.unwrap();
            exchange.write("x".repeat(length).into()).await.unwrap();
            assert_eq!("dead", bad.reported());
            assert_eq!(expect, told(Ok(exchange)).await);
        });
    }
}

#[test]
fn a_body_that_met_a_dying_connection_is_sent_again_to_the_same_origin() {
    let origin = Scripted::tcp(|number, mut peer| {
        while !peer.head().is_empty() {
            let body = peer.exactly(9);
            if number == 0 && body == "ABCDEFGHI" {
                return peer.reset();
            }
            peer.report(body);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
        }
    });
    let all = group(&[&origin]);
    run(async {
        for body in ["abcdefghi", "ABCDEFGHI"] {
            let exchange = all.group.send(UNSAFE, request("PUT", Framing::Length(9))).await.unwrap();
            exchange.write(body.into()).await.unwrap();
            assert_eq!("200 a", told(Ok(exchange)).await);
            assert_eq!(body, origin.reported());
        }
    });
    assert_eq!(1, all.counters.origin_retries.get());
}

#[test]
fn a_response_that_has_begun_is_not_continued_by_another_origin() {
    let bad = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 103 Early Hints\r\n\r\n");
        peer.wait();
        peer.reset();
    });
    let a = answering("a");
    let all = group(&[&bad, &a]);
    run(async {
        let exchange = all.group.send(SAFE, get()).await.unwrap();
        assert_eq!(103, exchange.head().await.unwrap().status);
        bad.go();
        assert_eq!(Some(OriginError::Disconnected), exchange.head().await.err());
    });
    let cut = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
        peer.reset();
    });
    let all = group(&[&cut, &a]);
    run(async { assert_eq!("200 ab Disconnected", all.fetch().await) });
    assert_eq!(0, all.counters.origin_retries_elsewhere.get());
}

#[test]
fn an_error_status_is_passed_on_if_no_other_origin_is_left() {
    let busy = || {
        Scripted::tcp(|_, mut peer| {
            while !peer.head().is_empty() {
                peer.send("HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy");
            }
        })
    };
    let (bad, a) = (busy(), answering("a"));
    let all = group(&[&bad, &a]);
    run(async {
        assert_eq!("200 a", all.fetch().await);
        // It may have done something.
        let both = [all.send("POST", Framing::Empty).await, all.send("POST", Framing::Empty).await];
        assert!(both.contains(&"503 busy".to_owned()), "{both:?}");
    });
    let all = group(&[&busy(), &busy()]);
    run(async { assert_eq!("503 busy", all.fetch().await) });
    assert_eq!(1, all.counters.origin_retries_elsewhere.get());
}

#[test]
fn retries_have_a_budget_where_an_origin_may_have_seen_the_request() {
    let (bad, worse) = (resets(), resets());
    let few = OriginLimits { connections: 2, ..limits() };
    let all = group_with(&[&bad, &worse], few, GroupRules { budget: 10, ..rules() });
    run(async {
        for _ in 0..12 {
            assert_eq!("Disconnected", all.fetch().await);
        }
    });
    // Two were saved up, and ten requests pay for one more.
    let counted = (all.counters.origin_retries_elsewhere.get(), all.counters.origin_retry_budget.get());
    assert_eq!((3, 9), counted);
}

#[test]
fn one_request_tries_an_ejected_origin_and_all_are_tried_if_all_are_ejected() {
    let (a, b) = (gone(), gone());
    let all = group(&[&a, &b]);
    run(async {
        for _ in 0..4 {
            assert!(all.fetch().await.starts_with("Connect("));
        }
    });
    assert_eq!(vec!["ejected", "ejected"], all.states());
    assert_eq!(8, all.counters.origin_connect_failures.get(), "each is tried all the same");
    let _alone = MOVED.lock().unwrap();
    let refuse = GroupRules { all_ejected: AllEjected::Refuse, ..rules() };
    let all = group_of(&[&a, &b], limits(), refuse, SHORT);
    run(async {
        for _ in 0..2 {
            assert!(all.fetch().await.starts_with("Connect("));
        }
        for _ in 0..5 {
            assert_eq!("Ejected", all.fetch().await);
        }
    });
    assert_eq!(4, all.counters.origin_connect_failures.get(), "the circuit is open");
    assert_eq!(5, all.counters.origin_refused_ejected.get());
    clock::advance_monotonic(5_000);
    clock::tick();
    assert_eq!(vec!["probing", "probing"], all.states(), "half-open");
    run(async { assert!(all.fetch().await.starts_with("Connect(")) });
    let longer = OriginState::Ejected(Duration::from_secs(10));
    let state = all.group.members()[0].outlier_state().state(Duration::ZERO, clock::monotonic());
    assert_eq!(longer, state);
}

#[test]
fn an_ejected_origin_that_answers_its_trial_is_readmitted() {
    let flaky = Scripted::tcp(|number, mut peer| {
        peer.head();
        match number {
            0 | 1 => peer.reset(),
            _ => drop(peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nflaky")),
        }
    });
    let a = answering("a");
    let _alone = MOVED.lock().unwrap();
    let all = group_of(&[&flaky, &a], limits(), rules(), SHORT);
    run(async {
        for _ in 0..6 {
            assert_eq!("200 a", all.fetch().await);
        }
        clock::advance_monotonic(5_000);
        clock::tick();
        assert_eq!("200 a", all.send("POST", Framing::Empty).await, "a POST tries nobody");
        assert_eq!("200 flaky", all.fetch().await);
    });
    assert_eq!(vec!["0 away", "0 back"], *all.changes.borrow());
    assert_eq!(1, all.counters.origin_readmissions.get());
}

#[test]
fn a_drained_origin_gets_no_new_request() {
    let (a, b) = (answering("a"), answering("b"));
    let all = group(&[&a, &b]);
    all.group.members()[0].outlier_state().drain();
    run(async {
        for _ in 0..4 {
            assert_eq!("200 b", all.fetch().await);
        }
        all.group.members()[1].outlier_state().drain();
        assert_eq!("Drained", all.fetch().await);
    });
    assert_eq!(0, all.counters.origin_retries_elsewhere.get());
}

#[test]
fn a_full_origin_makes_the_next_request_choose_another() {
    let slow = Scripted::tcp(|_, mut peer| {
        peer.head();
        peer.wait();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
    });
    let a = answering("a");
    let one = OriginLimits { connections: 1, queue: 0, ..limits() };
    let all = group_with(&[&slow, &a], one, rules());
    run(async {
        let first = all.group.send(SAFE, get()).await.unwrap();
        assert_eq!(1, all.group.members()[0].outlier_state().in_flight());
        for _ in 0..3 {
            assert_eq!("200 a", all.fetch().await);
        }
        slow.go();
        assert_eq!(200, first.head().await.unwrap().status);
    });
    assert!(all.counters.origin_busy.get() >= 1);
}

#[test]
fn no_request_stays_counted_as_in_flight() {
    let (bad, a) = (resets(), answering("a"));
    let all = group(&[&bad, &a]);
    run(async {
        for _ in 0..10 {
            all.fetch().await;
        }
    });
    assert!(all.group.members().iter().all(|it| it.outlier_state().in_flight() == 0));
}
