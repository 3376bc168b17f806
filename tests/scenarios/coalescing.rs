//! One origin request per key in flight; followers stream along; requests do not wait for responses that may not be
//! shared.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, until};
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
    // A follower on another worker has the last byte a moment before the store has the page.
    until("it is stored", || larder.counter("cache_stores") == 1);
    assert!(larder.get("/").is_hit());
    assert_eq!(1, origin.requests());
}

/// Twenty who have asked for the same page, of whom nineteen wait for what the first is to get.
fn twenty_at_once(larder: &Larder) -> Vec<Client> {
    let mut clients: Vec<_> = (0..20).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("19 followers", || larder.counter("requests_collapsed") == 19);
    clients
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
    let mut clients = twenty_at_once(&larder);
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

/// How many threads of a test ask at once.
const CROWD: usize = 12;

fn crowd(larder: &Larder, lines: impl Fn(usize) -> String) -> Vec<crate::harness::Client> {
    let mut clients: Vec<_> = (0..CROWD).map(|_| larder.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", lines(number)));
    }
    clients
}

#[test]
fn waiting_has_a_bound() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nanswer {}", request.number);
        let wait = (request.number == 0).then(|| Script::Gate(held.clone()));
        wait.into_iter().chain([Script::Send(response(&text))]).collect()
    });
    let larder = Larder::before(&origin, "collapse_wait = \"50ms\"");
    let mut leader = larder.client();
    leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the leader is at the gate", || gate.waiting() == 1);
    let follower = larder.get("/");
    assert_eq!("answer 1", follower.text(), "it did not wait for ever, and fetched for itself");
    assert_eq!(1, larder.counter("collapse_timeouts"));
    assert!(larder.get("/").is_hit(), "what it brought is stored");
    gate.open();
    assert_eq!("answer 0", leader.read().text());
}

#[test]
fn variants_are_fetched_once_each() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| {
        let own = request.field("foo").unwrap_or("-").to_owned();
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Foo\n\nfor {own}");
        vec![Script::Gate(held.clone()), Script::Send(response(&text))]
    });
    let larder = Larder::before(&origin, "");
    let mut clients = crowd(&larder, |number| format!("Foo: {}\r\n", number % 3));
    until("all wait", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(format!("for {}", number % 3), client.read().text());
    }
    assert_eq!(3, origin.requests(), "one for each variant");
}

#[test]
fn followers_of_a_validation_have_its_answer() {
    let gate = Gate::new();
    for (second, expect, requests) in [
        ("HTTP/1.1 304 N\nETag: \"a\"\nCache-Control: max-age=60", "old", 2),
        ("HTTP/1.1 200 OK\nETag: \"b\"\nCache-Control: max-age=60\n\nnew", "new", 2),
        ("HTTP/1.1 503 S\n\nsorry", "old", 2),
        // What may not be shared: everybody asks, and nobody waits for another.
        ("HTTP/1.1 200 OK\nCache-Control: private\n\nyours", "yours", 1 + CROWD),
    ] {
        let gate = if gate.waiting() == 0 { Gate::new() } else { gate.clone() };
        let held = gate.clone();
        let origin = Origin::scripted(move |request| match request.number {
            0 => {
                vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=10\nETag: \"a\"\n\nold"))]
            }
            _ => vec![Script::Gate(held.clone()), Script::Send(response(second))],
        });
        let larder = Larder::before(&origin, "");
        larder.get("/");
        larder.advance(15);
        let mut clients = crowd(&larder, |_| String::new());
        until("all wait", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
        gate.open();
        let answers: Vec<_> = clients.iter_mut().map(|it| it.read()).collect();
        assert!(answers.iter().all(|it| it.text() == expect), "{second} {answers:?}");
        let collapsed = answers.iter().filter(|it| it.cache().ends_with("collapsed")).count();
        let hits = answers.iter().filter(|it| it.is_hit()).count();
        let others = CROWD - 1;
        let text = match expect {
            "yours" => (0, 0),
            _ if second.contains("304") => (0, others),
            _ => (others, 0),
        };
        assert_eq!(text, (collapsed, hits), "{second} {answers:?}");
        assert_eq!(requests, origin.requests(), "{second}");
    }
}

#[test]
fn a_crowd_s_own_conditions_and_ranges() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| {
        let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n\nhello";
        vec![Script::Gate(held.clone()), Script::Send(response(text))]
    });
    let larder = Larder::before(&origin, "");
    let lines = ["", "If-None-Match: \"a\"\r\n", "If-None-Match: \"b\"\r\n", "If-Match: \"b\"\r\n"];
    let mut clients = crowd(&larder, |number| lines[number % 4].to_owned());
    until("all wait", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let expect = [200, 304, 200, 412][number % 4];
        assert_eq!(expect, client.read().status, "{}", lines[number % 4]);
    }
    assert_eq!(1, origin.requests());
    let received = &origin.received()[0];
    assert_eq!((None, None), (received.field("if-none-match"), received.field("if-match")));
}

/// Byte N of the long body.
fn byte(at: usize) -> u8 {
    b'a' + (at * 7 % 26) as u8
}

/// An origin of a body of 3 MB: `first` bytes come at once, the rest when the gate is opened. Whoever asks for a range
/// or with HEAD is told so.
fn long(gate: &Arc<Gate>, first: usize, more: &'static str) -> Origin {
    const LENGTH: usize = 3_000_000;
    let held = gate.clone();
    let body: Vec<u8> = (0..LENGTH).map(byte).collect();
    Origin::scripted(move |request| {
        if request.field("range").is_some() {
            let text = "HTTP/1.1 206 P\nCache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 0-4/3000000\n\nasked";
            return vec![Script::Send(response(text))];
        }
        if request.line().starts_with("HEAD") {
            return vec![Script::Send(response("HTTP/1.1 200 OK\nX-Asked: 1\nContent-Length: 9\n\n"))];
        }
        let head = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nETag: \"a\"\n{more}\n");
        let mut start = response(&format!("{head}Content-Length: {LENGTH}\n\n"));
        start.extend_from_slice(&body[..first]);
        vec![Script::Send(start), Script::Gate(held.clone()), Script::Send(body[first..].to_vec())]
    })
}

#[test]
fn head_and_ranges_join_a_fetch_of_the_whole() {
    let gate = Gate::new();
    let origin = long(&gate, 1000, "X: 1");
    let larder = Larder::before(&origin, "");
    let mut leader = larder.client();
    leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the beginning is here", || gate.waiting() == 1);
    let head = larder.client().request("HEAD", "/", "", "");
    assert_eq!((200, Some("3000000")), (head.status, head.field("content-length")), "{head:?}");
    assert!(head.cache().ends_with("collapsed"), "{head:?}");
    let not_modified = larder.client().request("HEAD", "/", "If-None-Match: \"a\"\r\n", "");
    assert_eq!(304, not_modified.status, "{not_modified:?}");
    let here = larder.client().get_with("/", "Range: bytes=100-199\r\n");
    assert_eq!((206, Some("bytes 100-199/3000000")), (here.status, here.field("content-range")), "{here:?}");
    assert_eq!((100..200).map(byte).collect::<Vec<_>>(), here.body);
    let none = larder.client().get_with("/", "Range: bytes=3000000-\r\n");
    assert_eq!((416, Some("bytes */3000000")), (none.status, none.field("content-range")), "{none:?}");
    // Not here yet, but soon.
    let ranges = [(900, 1100), (999, 999), (1000, 1000), (5000, 400_000), (70_000, 2_999_999)];
    let mut clients: Vec<_> = ranges.iter().map(|_| larder.client()).collect();
    for (client, (first, last)) in clients.iter_mut().zip(ranges) {
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nRange: bytes={first}-{last}\r\n\r\n"));
    }
    until("all read along", || larder.counter("requests_collapsed") == 9);
    gate.open();
    for (client, (first, last)) in clients.iter_mut().zip(ranges) {
        let answer = client.read();
        let range = format!("bytes {first}-{last}/3000000");
        assert_eq!((206, Some(range.as_str())), (answer.status, answer.field("content-range")));
        assert!(answer.complete && answer.body == (first..=last).map(byte).collect::<Vec<_>>(), "{range}");
    }
    assert_eq!(3_000_000, leader.read().body.len());
    assert_eq!(1, origin.requests());
}

#[test]
fn ranges_that_a_fetch_of_the_whole_does_not_serve_soon_ask_for_themselves() {
    let gate = Gate::new();
    let origin = long(&gate, 1000, "X: 1");
    let larder = Larder::before(&origin, "");
    let mut leader = larder.client();
    leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the beginning is here", || gate.waiting() == 1);
    for (number, lines) in [
        "Range: bytes=2900000-2900004", // Far behind what has come.
        "Range: bytes=-5",
        "Range: bytes=0-1,4-5",                // Several parts would be one whole.
        "Range: bytes=0-4\r\nIf-Range: \"b\"", // Not of this representation.
    ]
    .iter()
    .enumerate()
    {
        let answer = larder.client().get_with("/", &format!("{lines}\r\n"));
        assert_eq!("asked", answer.text(), "{lines} {answer:?}");
        assert_eq!(number + 2, origin.requests(), "{lines}");
    }
    gate.open();
    assert_eq!(3_000_000, leader.read().body.len());
    let whole = larder.get("/");
    assert!(whole.is_hit() && whole.body.len() == 3_000_000, "{whole:?}");
}

#[test]
fn head_and_ranges_wait_for_a_head_that_may_not_be_theirs() {
    for (head, shared) in [
        ("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nhello", true),
        ("HTTP/1.1 200 OK\nCache-Control: private\n\nhello", false),
    ] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::scripted(move |request| {
            let plain = request.line().starts_with("GET") && request.field("range").is_none();
            let wait = plain.then(|| Script::Gate(held.clone()));
            wait.into_iter().chain([Script::Send(response(head))]).collect()
        });
        let larder = Larder::before(&origin, "");
        let (mut leader, mut ranged, mut headed) = (larder.client(), larder.client(), larder.client());
        leader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        until("the leader is at the gate", || gate.waiting() == 1);
        ranged.send("GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=1-3\r\n\r\n");
        headed.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
        until("both wait", || larder.counter("requests_collapsed") == 2);
        assert_eq!(1, origin.requests());
        gate.open();
        assert_eq!("hello", leader.read().text());
        assert_eq!(if shared { "ell" } else { "hello" }, ranged.read().text());
        assert_eq!(200, headed.read_for("HEAD").status);
        assert_eq!(if shared { 1 } else { 3 }, origin.requests());
    }
}

#[test]
fn hit_for_miss_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: private\n\nyours"))],
        number => {
            let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nanswer {number}");
            vec![Script::Gate(held.clone()), Script::Send(response(&text))]
        }
    });
    let larder = Larder::before(&origin, "hit_for_miss = \"30s\"");
    larder.get("/");
    larder.advance(35);
    let mut clients = crowd(&larder, |_| String::new());
    until("all wait again", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
    gate.open();
    clients.iter_mut().for_each(|it| assert_eq!("answer 1", it.read().text()));
    assert_eq!((2, 0), (origin.requests(), larder.counter("hit_for_miss")));
}

#[test]
fn hit_for_miss_ends_at_the_first_answer_that_may_be_shared() {
    let origin = Origin::new(|request| match request.number {
        0 => "HTTP/1.1 200 OK\nCache-Control: private\n\nyours".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    assert!(larder.get("/").cache().ends_with("stored"));
    assert!(larder.get("/").is_hit());
    assert_eq!(1, larder.counter("hit_for_miss"));
}

#[test]
fn transient_errors_do_not_stop_collapsing() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |request| match request.number {
        0 => vec![Script::Send(response("HTTP/1.1 503 S\n\nsorry"))],
        _ => vec![
            Script::Gate(held.clone()),
            Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok")),
        ],
    });
    let larder = Larder::before(&origin, "");
    assert_eq!(503, larder.get("/").status);
    let mut clients = crowd(&larder, |_| String::new());
    until("they wait for one", || larder.counter("requests_collapsed") == CROWD as u64 - 1);
    gate.open();
    clients.iter_mut().for_each(|it| assert_eq!("ok", it.read().text()));
    assert_eq!(2, origin.requests());
}

#[test]
fn a_fetch_without_clients_is_cancelled_or_finished_by_the_route() {
    for (on_abort, stored) in [("cancel", false), ("finish", true)] {
        let (first, second) = (Gate::new(), Gate::new());
        let (one, two) = (first.clone(), second.clone());
        let origin = Origin::scripted(move |_| {
            let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 600000\n\n";
            let half = || Script::Send(vec![b'x'; 300_000]);
            let head = Script::Send(response(text));
            vec![head, Script::Gate(one.clone()), half(), Script::Gate(two.clone()), half()]
        });
        let larder = Larder::before(&origin, &format!("on_abort = \"{on_abort}\""));
        let mut client = larder.client();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        client.read_bytes(20);
        client.reset();
        first.open();
        until("it is seen that the client is gone", || larder.counter("client_aborts") == 1);
        if stored {
            second.open();
            until("it is stored", || larder.counter("cache_stores") == 1);
        }
        second.open();
        let again = larder.get("/");
        assert_eq!((stored, 600_000), (again.is_hit(), again.body.len()), "{on_abort}");
        assert_eq!(if stored { 1 } else { 2 }, origin.requests());
    }
}

/// Who has read along to the last byte may ask again on any worker, and finds the page stored.
#[test]
fn a_response_that_a_follower_has_completely_is_stored() {
    let origin = Origin::new(|request| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", request.target().repeat(2000))
    });
    let larder = Larder::before(&origin, "");
    for round in 0..100 {
        let target = format!("/{round}");
        let begin = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = larder.client();
                    begin.wait();
                    client.get(&target);
                    assert!(client.get(&target).is_hit(), "{target}");
                });
            }
        });
    }
    assert_eq!(100, origin.requests());
}
