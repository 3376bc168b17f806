//! The lease for asking the origin, among all nodes of a fleet, where it leads to no shared response. All nodes ask at
//! once for responses that cannot be shared, and no node waits for a killed one.

use crate::harness::command::run;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::tiers::{fleet, killed};
use crate::harness::{Client, Larder, Memcached, Origin, until};
use std::time::{Duration, Instant};

/// Answers the first request when the first gate opens, and the others when the second does.
fn in_two_steps(first: &str, others: &str) -> (Origin, [std::sync::Arc<Gate>; 2]) {
    let gates = [Gate::new(), Gate::new()];
    let report = gates.clone();
    let answers = [first, others].map(response);
    let origin = Origin::scripted(move |it| {
        let which = usize::from(it.number > 0);
        vec![Script::Gate(report[which].clone()), Script::Send(answers[which].clone())]
    });
    (origin, gates)
}

/// Nodes that wait for one another for longer than a test does.
fn patient(count: usize, origin: &Origin, memcached: &Memcached) -> Vec<Larder> {
    let section = fleet(&[memcached], "timeout = \"60s\"");
    (0..count).map(|_| Larder::before_with(origin, "collapse_wait = \"60s\"", &section)).collect()
}

/// Has every node asked by so many clients, and waits until one node asks the origin and the others wait for it.
fn all_ask(nodes: &[Larder], clients: usize, gate: &Gate) -> Vec<Client> {
    let mut all: Vec<_> = nodes.iter().flat_map(|it| (0..clients).map(|_| it.client())).collect();
    for client in &mut all {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("one asks", || gate.waiting() == 1);
    until("the others wait", || {
        let of = |name: &str| nodes.iter().map(|it| it.counter(name)).sum::<u64>();
        of("recompute_waits") as usize == nodes.len() - 1
            && of("requests_collapsed") as usize == nodes.len() * (clients - 1)
    });
    all
}

fn sum(nodes: &[Larder], counter: &str) -> u64 {
    nodes.iter().map(|it| it.counter(counter)).sum()
}

#[test]
fn an_unshareable_page_is_requested_by_all_nodes_at_once() {
    for outcome in [
        "200 OK\nCache-Control: private, max-age=60",
        "200 OK\nCache-Control: no-store",
        "200 OK\nCache-Control: max-age=60\nSet-Cookie: a=b",
        "200 OK\nCache-Control: max-age=0",
    ] {
        let memcached = Memcached::start();
        let text = format!("HTTP/1.1 {outcome}\n\nmine");
        let (origin, [first, others]) = in_two_steps(&text, &text);
        let nodes = patient(4, &origin, &memcached);
        let mut clients = all_ask(&nodes, 2, &first);
        first.open();
        until("all others ask at once", || others.waiting() == 7);
        others.open();
        assert!(clients.iter_mut().all(|it| it.read().text() == "mine"), "{outcome}");
        assert_eq!(
            (8, 1, 3),
            (
                origin.requests(),
                sum(&nodes, "fleet_hit_for_miss_writes"),
                sum(&nodes, "fleet_hit_for_miss_hits")
            )
        );
        // Nobody waits as long as that is remembered, and nobody looks into the fleet.
        assert!(nodes.iter().all(|it| it.get("/").text() == "mine"));
        assert_eq!((3, 12), (sum(&nodes, "recompute_waits"), origin.requests()), "{outcome}");
    }
}

#[test]
fn an_error_is_asked_for_by_all_nodes_at_once_and_not_remembered() {
    let memcached = Memcached::start();
    let (origin, [first, others]) = in_two_steps(
        "HTTP/1.1 500 Internal Server Error\n\nmine",
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours",
    );
    let nodes = patient(4, &origin, &memcached);
    let mut clients = all_ask(&nodes, 1, &first);
    first.open();
    until("all others ask at once", || others.waiting() == 3);
    others.open();
    let answers: Vec<String> = clients.iter_mut().map(|it| it.read().text()).collect();
    assert_eq!(3, answers.iter().filter(|it| *it == "ours").count(), "{answers:?}");
    until("it is in the fleet", || sum(&nodes, "fleet_puts") > 0);
    assert!(nodes.iter().all(|it| it.get("/").text() == "ours"));
    assert_eq!((4, 0), (origin.requests(), sum(&nodes, "hit_for_miss")));
}

/// The bytes of a mark for `http://example.com/`, which holds for ten seconds.
const MARK: &[u8] = include_bytes!("../../wire/tests/golden/envelope-1-mark.bin");

#[test]
fn a_foreign_marker_only_prevents_sharing() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours");
    let [a, b, c] = patient(3, &origin, &memcached).try_into().ok().unwrap();
    memcached.write("http://example.com/", MARK);
    let get = |node: &Larder| {
        let mut client = node.client();
        client.send("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
        client.read()
    };
    let first = get(&a);
    assert_eq!(("ours", 200, 1), (&*first.text(), first.status, a.counter("fleet_hit_for_miss_hits")));
    assert!(get(&a).is_hit(), "it is stored all the same");
    until("it stands in the mark's place", || a.counter("fleet_puts") == 1);
    let found = get(&b);
    assert!(found.cache().ends_with("; detail=fleet"), "{}", found.cache());
    // Where it is of another key, it says nothing.
    memcached.write("http://h/", MARK);
    let mine = c.get("/");
    assert_eq!(
        ("ours", 1, 0),
        (&*mine.text(), c.counter("fleet_foreign"), c.counter("fleet_hit_for_miss_hits"))
    );
    assert_eq!(2, origin.requests());
}

#[test]
fn a_marker_is_explained_and_ended_by_a_purge() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| match it.number {
        0 => "HTTP/1.1 200 OK\nCache-Control: private\n\nmine".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours".to_owned(),
    });
    let [a, b, c] = patient(3, &origin, &memcached).try_into().ok().unwrap();
    assert_eq!("mine", a.get("/").text());
    let explained = || {
        let folder = std::path::Path::new(".");
        run(folder, &["explain", "http://h/", "--admin", &b.admin.to_string()]).out
    };
    until("the mark is there", || {
        explained().contains("A node of this fleet, perhaps this one, found that it may not be shared until ")
    });
    assert!(explained().contains("fleet    nothing; another node marked it"), "{}", explained());
    assert_eq!(200, b.admin_post("/cache/purge", "{\"url\": \"http://h/\"}").status);
    let found = b.get("/");
    assert_eq!(("ours", 1), (&*found.text(), b.counter("fleet_recompute_wins")), "{}", found.cache());
    until("it is in the fleet", || b.counter("fleet_puts") == 1);
    assert!(c.get("/").cache().ends_with("; detail=fleet"));
    assert_eq!(2, origin.requests());
}

#[test]
fn a_fleet_filled_by_applications_has_no_markers() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\nof the origin");
    let section = fleet(&[&memcached], "timeout = \"60s\"\nfilled_by = \"applications\"");
    let larder = Larder::before_with(&origin, "", &section);
    assert_eq!("of the origin", larder.get("/").text());
    until("the turn is given back", || memcached.command("add http://h/ 0 9 1\r\nx\r\n") == "STORED\r\n");
    assert_eq!(0, larder.counter("fleet_hit_for_miss_writes"));
}

#[test]
fn an_abandoned_lease_is_not_waited_for() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours");
    let [a, b] = patient(2, &origin, &memcached).try_into().ok().unwrap();
    // As where a server stood still, and gives the turn to one that has gone away meanwhile.
    let won = memcached.command("mg http://h/ c N30\r\n");
    assert!(won.contains(" W"), "{won}");
    assert_eq!("ours", a.get("/").text());
    assert_eq!((1, 1), (a.counter("recompute_waits"), a.counter("recompute_takeovers")));
    assert_eq!(0, a.counter("recompute_wait_timeouts"), "it does not wait as long as for a node that lives");
    until("it is in the fleet", || a.counter("fleet_puts") == 1);
    assert!(b.get("/").cache().ends_with("; detail=fleet"));
    // The same of a page whose lifetime is over.
    a.advance(61);
    b.advance(61);
    let won = memcached.command("mg http://h/ c R2592000\r\n");
    assert!(won.contains(" W"), "{won}");
    assert_eq!("ours", b.get("/").text());
    assert_eq!((1, 0), (b.counter("recompute_takeovers"), b.counter("recompute_wait_timeouts")));
}

#[test]
fn the_turn_of_a_node_that_is_killed_is_anothers() {
    let memcached = Memcached::start();
    let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours";
    let (origin, [first, others]) = in_two_steps(text, text);
    let mut nodes = patient(3, &origin, &memcached);
    let clients = all_ask(&nodes, 1, &first);
    let has_it = nodes.iter().position(|it| it.counter("fleet_recompute_wins") == 1).unwrap();
    killed(nodes.remove(has_it));
    until("another asks", || others.waiting() == 1);
    others.open();
    let waiting = clients.into_iter().enumerate().filter(|it| it.0 != has_it);
    waiting.for_each(|(_, mut it)| assert_eq!("ours", it.read().text()));
    assert_eq!((2, 0), (origin.requests(), sum(&nodes, "recompute_wait_timeouts")));
    first.open();
}

/// Others that have waited for the silent node as well are told at once who has its turn.
#[test]
fn one_of_the_waiting_nodes_takes_over_the_lease_of_a_silent_node() {
    let memcached = Memcached::start();
    let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours";
    let (origin, [first, others]) = in_two_steps(text, text);
    let mut nodes = patient(6, &origin, &memcached);
    let clients = all_ask(&nodes, 1, &first);
    let has_it = nodes.iter().position(|it| it.counter("fleet_recompute_wins") == 1).unwrap();
    killed(nodes.remove(has_it));
    until("another asks", || others.waiting() > 0);
    let begun = now();
    until("the others would have given up", || begun.elapsed() > Duration::from_millis(1500));
    others.open();
    let waiting = clients.into_iter().enumerate().filter(|it| it.0 != has_it);
    waiting.for_each(|(_, mut it)| assert_eq!("ours", it.read().text()));
    assert_eq!((2, 0), (origin.requests(), sum(&nodes, "recompute_wait_timeouts")));
    first.open();
}

#[test]
fn a_node_that_lives_is_waited_for_however_slow_the_origin_is() {
    let memcached = Memcached::start();
    let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nours";
    let (origin, [first, _]) = in_two_steps(text, text);
    let nodes = patient(4, &origin, &memcached);
    let mut clients = all_ask(&nodes, 1, &first);
    let begun = now();
    until("it takes five seconds", || begun.elapsed() > Duration::from_secs(5));
    first.open();
    assert!(clients.iter_mut().all(|it| it.read().text() == "ours"));
    assert_eq!((1, 0), (origin.requests(), sum(&nodes, "recompute_takeovers")));
}

#[allow(clippy::disallowed_methods, reason = "signs of life are of real time")]
fn now() -> Instant {
    Instant::now()
}
