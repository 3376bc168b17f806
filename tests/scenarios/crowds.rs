//! Many requests wait for one page: its origin gets few of them, whether it answers later than the page's lifetime, later than
//! `cache.collapse_wait`, or with a failure.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

const CROWD: usize = 100;

/// Clients that have asked for one page, each with these lines, of whom all but the first wait for what it gets.
fn crowd(larder: &Larder, lines: impl Fn(usize) -> String) -> Vec<Client> {
    waiting(larder, CROWD, lines)
}

/// The same for this number of clients.
fn waiting(larder: &Larder, count: usize, lines: impl Fn(usize) -> String) -> Vec<Client> {
    let before = larder.counter("requests_collapsed");
    let mut clients: Vec<_> = (0..count).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", lines(number)));
    }
    let all = before + count as u64 - 1;
    until("all but one wait", || larder.counter("requests_collapsed") == all);
    clients
}

fn plain(_: usize) -> String {
    String::new()
}

/// An answer that takes longer than it lasts is nobody's later, but everybody's who waited for it.
#[test]
fn a_page_slower_than_its_lifetime_is_fetched_once_for_all_waiting_requests() {
    for head in [
        "Cache-Control: max-age=2",
        "Cache-Control: max-age=2\nETag: \"a\"",
        "Cache-Control: s-maxage=2",
        "Cache-Control: max-age=2, must-revalidate\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    ] {
        let (first, second) = (Gate::new(), Gate::new());
        let gates = [first.clone(), second.clone()];
        let origin = Origin::scripted(move |request| {
            let text = match request.field("if-none-match") {
                Some(_) => format!("HTTP/1.1 304 N\n{head}"),
                None => format!("HTTP/1.1 200 OK\n{head}\n\nhello"),
            };
            vec![Script::Gate(gates[request.number].clone()), Script::Send(response(&text))]
        });
        let larder = Larder::before(&origin, "");
        for (requests, gate) in [(1, first), (2, second)] {
            let mut clients = crowd(&larder, plain);
            until("one is at the origin", || gate.waiting() == 1);
            larder.advance(3);
            gate.open();
            for client in &mut clients {
                let answer = client.read();
                assert_eq!((200, "hello"), (answer.status, answer.text().as_str()), "{head} {answer:?}");
                assert!(!answer.is_hit(), "{answer:?}");
            }
            assert_eq!(requests, origin.requests(), "{head}");
        }
        assert_eq!(0, larder.counter("hit_for_miss"), "{head}");
    }
}

/// Who comes when the head of such an answer is there has not waited for it.
#[test]
fn a_spent_response_answers_only_requests_that_waited_for_it() {
    for tag in ["", "ETag: \"a\"\n"] {
        let (head, body) = (Gate::new(), Gate::new());
        let gates = [head.clone(), body.clone()];
        let origin = Origin::scripted(move |request| {
            let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=2\n{tag}Content-Length: 6\n\n");
            let mut first = response(&text);
            first.extend_from_slice(b"half");
            if request.number > 0 {
                first.extend_from_slice(b"ly");
                return vec![Script::Send(first)];
            }
            let [head, body] = gates.clone();
            vec![Script::Gate(head), Script::Send(first), Script::Gate(body), Script::Send(b"-1".to_vec())]
        });
        let larder = Larder::before(&origin, "");
        let (mut one, mut other) = (larder.client(), larder.client());
        one.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        until("it is at the origin", || head.waiting() == 1);
        other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        until("the other waits", || larder.counter("requests_collapsed") == 1);
        larder.advance(3);
        head.open();
        until("the body has begun", || body.waiting() == 1);
        assert!(other.read_bytes(20).starts_with(b"HTTP/1.1 200 OK"));
        assert_eq!("halfly", larder.get("/").text(), "{tag}");
        assert_eq!(2, origin.requests());
        body.open();
        assert_eq!("half-1", one.read().text());
    }
}

/// What may not be shared is shared no more when it comes late.
#[test]
fn a_late_answer_that_may_not_be_shared_is_its_client_s() {
    for head in [
        "Cache-Control: private, max-age=2",
        "Cache-Control: no-cache, max-age=2",
        "Cache-Control: max-age=2\nSet-Cookie: id=1",
        "Cache-Control: no-store, max-age=2",
        "Cache-Control: max-age=2\nVary: *",
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |request| {
            let text = format!("HTTP/1.1 200 OK\n{head}\n\nfor {}", request.number);
            vec![Script::Gate(held.clone()), Script::Send(response(&text))]
        });
        let larder = Larder::before(&origin, "");
        let mut clients = waiting(&larder, 8, plain);
        larder.advance(3);
        gate.open();
        let mut bodies: Vec<_> = clients.iter_mut().map(|it| it.read().text()).collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(8, bodies.len(), "{head}: each client has its own");
    }
}

/// The fields of such a 304 are those of the client whose request was sent.
#[test]
fn a_late_304_that_may_not_be_shared_is_its_client_s() {
    for own in ["Set-Cookie: id=1\nCache-Control: max-age=2", "Cache-Control: private, max-age=2"] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |request| {
            let number = request.number;
            let text = match (number, request.field("if-none-match")) {
                (0, _) => {
                    let page = "HTTP/1.1 200 OK\nCache-Control: max-age=2\nETag: \"a\"\nX-Own: none\n\nhello";
                    return vec![Script::Send(response(page))];
                }
                (_, Some(_)) => format!("HTTP/1.1 304 N\nETag: \"a\"\n{own}\nX-Own: {number}\n\n"),
                // Once nothing is stored any more.
                (_, None) => format!("HTTP/1.1 200 OK\nETag: \"a\"\n{own}\nX-Own: {number}\n\nhello"),
            };
            vec![Script::Gate(held.clone()), Script::Send(response(&text))]
        });
        let larder = Larder::before(&origin, "");
        assert_eq!("hello", larder.get("/").text());
        larder.advance(3);
        let mut clients = waiting(&larder, 8, plain);
        larder.advance(3);
        gate.open();
        let answers: Vec<_> = clients.iter_mut().map(Client::read).collect();
        assert!(answers.iter().all(|it| it.text() == "hello"));
        let mut fields: Vec<_> = answers.iter().map(|it| it.field("x-own").unwrap().to_owned()).collect();
        fields.sort();
        fields.dedup();
        assert_eq!(8, fields.len(), "{own}: {fields:?}");
    }
}

/// Whoever waits longer than it should has another fetch begun, for all who wait: one in each `collapse_wait`.
#[test]
#[allow(clippy::disallowed_methods, reason = "how many may ask depends on how long they wait")]
fn a_page_slower_than_collapse_wait_is_fetched_once_more_in_each() {
    for answers in [true, false] {
        let (first, others) = (Gate::new(), Gate::new());
        let gates = [first.clone(), others.clone()];
        let origin = Origin::scripted(move |request| {
            let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nanswer {}", request.number);
            vec![Script::Gate(gates[request.number.min(1)].clone()), Script::Send(response(&text))]
        });
        let larder = Larder::before(&origin, "collapse_wait = \"1s\"");
        let begun = Instant::now();
        // Which client begins the first fetch is to be known: it waits for no other.
        let mut leader = larder.client();
        leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        until("the first is at the origin", || first.waiting() == 1);
        let mut clients: Vec<_> = (1..CROWD).map(|_| larder.client()).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        let all = CROWD as u64 - 1;
        until("each has waited long enough", || larder.counter("collapse_timeouts") >= all);
        until("one more is at the origin", || others.waiting() >= 1);
        // Either of the two answers all who wait.
        if answers {
            first.open()
        } else {
            others.open()
        }
        let mut texts: Vec<_> = clients.iter_mut().map(|it| it.read().text()).collect();
        let most = 2 + usize::try_from(begun.elapsed().as_secs()).unwrap();
        assert!(origin.requests() <= most, "{} requests of {most}", origin.requests());
        texts.sort();
        texts.dedup();
        assert!(texts.len() < most, "{texts:?}");
        // Those that asked once more have the first answer as well, where that comes first.
        assert_eq!(answers, texts == ["answer 0"], "{texts:?}");
        first.open();
        others.open();
        assert_eq!("answer 0", leader.read().text());
    }
}

/// What may begin no fetch for others, and waits for one, asks by itself in turn: one in each `collapse_wait`.
#[test]
#[allow(clippy::disallowed_methods, reason = "how many may ask depends on how long they wait")]
fn head_and_range_requests_that_waited_long_enough_ask_one_by_one() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        let page = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
        vec![Script::Gate(held.clone()), Script::Send(page)]
    });
    let larder = Larder::before(&origin, "collapse_wait = \"1s\"");
    let begun = Instant::now();
    let mut first = larder.client();
    first.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is at the origin", || gate.waiting() == 1);
    let mut clients: Vec<_> = (0..CROWD).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let (method, lines) = if number % 2 == 0 { ("HEAD", "") } else { ("GET", "Range: bytes=0-1\r\n") };
        client.send(format!("{method} / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    }
    until("all wait", || larder.counter("requests_collapsed") == CROWD as u64);
    until("each has waited long enough", || larder.counter("collapse_timeouts") >= CROWD as u64);
    let most = 2 + usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(origin.requests() <= most, "{} requests of {most}", origin.requests());
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.read_for(if number % 2 == 0 { "HEAD" } else { "GET" });
        let expect = if number % 2 == 0 { (200, "") } else { (206, "pa") };
        assert_eq!(expect, (answer.status, answer.text().as_str()), "{answer:?}");
    }
    assert_eq!("page", first.read().text());
}

/// One of those who wait asks again after a failure, in case that the first request provoked it; where that fails as well, all who
/// ask the same have that answer, for a second.
#[test]
fn a_failing_origin_is_asked_twice_for_all_clients_and_then_not_for_a_second() {
    for (name, status) in [("500", 500), ("503", 503), ("reset", 502), ("close", 502)] {
        let gate = Gate::new();
        let held = gate.clone();
        let is_well = Arc::new(AtomicUsize::new(0));
        let well = is_well.clone();
        let origin = Origin::scripted(move |_| {
            let end = match name {
                _ if well.load(SeqCst) == 1 => {
                    Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok"))
                }
                "reset" => Script::Reset,
                "close" => Script::Close,
                _ => Script::Send(response(&format!("HTTP/1.1 {name} S\n\nsorry"))),
            };
            vec![Script::Gate(held.clone()), end]
        });
        // However long a busy machine takes, no client waits long enough to start another fetch.
        let larder = Larder::before(&origin, "collapse_wait = \"1h\"");
        larder.hold();
        let mut clients = crowd(&larder, plain);
        gate.open();
        let answers: Vec<_> = clients.iter_mut().map(Client::read).collect();
        let is_shared = |it: &&Response| {
            it.field("cache-status").is_some_and(|it| it.ends_with("; collapsed; detail=shared-failure"))
                && it.text().contains("this identical request was not sent to it")
                && it.status == status
        };
        let others: Vec<_> = answers.iter().filter(|it| !is_shared(it)).collect();
        assert!(others.len() <= 3, "{name}: {} others, {:?}", others.len(), &others[..4]);
        let statuses: Vec<_> = answers.iter().map(|it| it.status).collect();
        assert!(statuses.iter().all(|it| (500..=503).contains(it)), "{statuses:?}");
        // A connection that was closed is opened again at once, once.
        let asked = origin.requests();
        assert!(asked <= 4, "{name}: {asked} requests");
        assert!(
            statuses.contains(&status),
            "{name}: those who asked have what the origin said: {statuses:?}"
        );
        assert!(larder.counter("collapse_failures") >= CROWD as u64 - 3);
        is_well.store(1, SeqCst);
        assert_eq!(status, larder.get("/").status, "{name}: the origin's own");
        assert_eq!(asked, origin.requests(), "{name}: it is left alone for a second");
        let mut other = larder.client();
        other.send("GET / HTTP/1.1\r\nHost: h\r\nX-Other: 1\r\n\r\n");
        assert_eq!("ok", other.read().text(), "{name}: by those who say the same");
        larder.pass(1001);
        assert_eq!(200, larder.get("/").status, "{name}");
        larder.release();
    }
}

/// Requests that differ wait for two failures, and then ask by themselves: what fails for one need not fail for the next, and none waits
/// for a whole crowd.
#[test]
fn requests_that_differ_wait_for_two_failures_of_a_dying_origin() {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let held = gates.clone();
    let origin = Origin::scripted(move |request| {
        let end = response(&format!("HTTP/1.1 500 S\n\nfor {}", request.field("cookie").unwrap_or_default()));
        vec![Script::Gate(held[request.number.min(2)].clone()), Script::Send(end)]
    });
    let larder = Larder::before(&origin, "collapse_wait = \"30s\"");
    let mut clients = crowd(&larder, |number| format!("Cookie: id={number}\r\n"));
    let [first, second, others] = gates;
    first.open();
    until("one of those who waited asks", || second.waiting() == 1);
    assert_eq!(0, others.waiting(), "and one only");
    second.open();
    // As many as have a connection: the rest waits for one, and for no answer.
    until("the others ask", || others.waiting() >= 8);
    others.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.read();
        assert_eq!((500, format!("for id={number}")), (answer.status, answer.text()), "its own failure");
    }
    assert_eq!(
        (CROWD, 0),
        (origin.requests(), usize::try_from(larder.counter("collapse_failures")).unwrap())
    );
}
