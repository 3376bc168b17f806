//! Purges across nodes: several larders and several memcacheds, which stop, forget and are cut off from each
//! other. Time is real here, since leases are.

use crate::harness::command::{run, wait};
use crate::harness::origin::Gate;
use crate::harness::origin::{Script, response};
use crate::harness::relay::{Relay, Way};
use crate::harness::{Client, Larder, Memcached, Origin, TIMEOUT, tiers, until};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PAGES: usize = 5;

/// Short, so that much happens in a short time.
const SHORT: Duration = Duration::from_millis(800);

/// Long enough that no node loses it on a busy machine.
const LONG: Duration = Duration::from_millis(2500);

/// How long everything goes wrong at least; on a busy machine until enough was seen.
const TROUBLE: Duration = Duration::from_secs(14);

/// Chance, from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let it = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (it ^ it >> 29) % most
    }
}

#[allow(clippy::disallowed_methods, reason = "leases are of real time")]
fn now() -> Instant {
    Instant::now()
}

/// Lets real time pass: what goes wrong lasts for a while.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// One page's version at the origin, and the oldest that may be served.
#[derive(Default)]
struct Page {
    version: AtomicU64,
    least: AtomicU64,
}

/// Larders before one origin, each with a network of its own to each memcached.
struct Fleet {
    pages: Arc<Vec<Page>>,
    memcacheds: Vec<Memcached>,
    relays: Vec<Vec<Relay>>,
    larders: Vec<Larder>,
    folders: Vec<tempfile::TempDir>,
    origin: Origin,
    lease: Duration,
}

impl Fleet {
    fn start(nodes: usize, servers: usize, lease: Duration) -> Self {
        let pages: Arc<Vec<Page>> = Arc::new((0..PAGES).map(|_| Page::default()).collect());
        let report = pages.clone();
        let asked = AtomicU64::new(0);
        let origin = Origin::new(move |it| {
            let page: usize = it.target()[1..].parse().unwrap();
            let version = report[page].version.load(SeqCst);
            // Some answers are old by the time they are sent.
            if asked.fetch_add(1, SeqCst) % 4 == 0 {
                pass(Duration::from_millis(25));
            }
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"{version}\"\n\n{version}")
        });
        let memcacheds: Vec<Memcached> = (0..servers).map(|_| Memcached::start()).collect();
        let relays: Vec<Vec<Relay>> =
            (0..nodes).map(|_| memcacheds.iter().map(|it| Relay::to(it.socket())).collect()).collect();
        let folders: Vec<_> = (0..nodes).map(|_| tempfile::tempdir().unwrap()).collect();
        let mut it = Self { pages, memcacheds, relays, larders: Vec::new(), folders, origin, lease };
        it.larders = (0..nodes).map(|node| it.node(node)).collect();
        it.wait_until_in_sync();
        it
    }

    /// Starts one node, with whatever is on its disk.
    fn node(&self, node: usize) -> Larder {
        let names: Vec<String> = self.relays[node].iter().map(|it| format!("{:?}", it.name())).collect();
        let lease = self.lease.as_millis();
        // The longest that the lease allows: a busy machine does not pass for a failed server.
        let timeout = lease / 2 - 50;
        let fleet = format!(
            "[cache.fleet]\nservers = [{}]\ndistribution = \"modula\"\ntimeout = \"{timeout}ms\"\n\
             connect_timeout = \"{timeout}ms\"\npoll = \"50ms\"\nlease = \"{lease}ms\"\nlocal_ttl = \"1s\"\nretry = \"1s\"\n",
            names.join(", ")
        );
        // One of them has a disk, too.
        let disk = if node == 0 { tiers::disk(self.folders[0].path()) } else { String::new() };
        Larder::before_with(&self.origin, "", &format!("{fleet}{disk}"))
    }

    /// Ends a node as an operator does.
    fn end(&mut self, node: usize) {
        self.larders[node].signal(libc::SIGTERM);
        assert!(wait(&mut self.larders[node].child).success());
    }

    fn wait_until_in_sync(&self) {
        for it in &self.larders {
            until("it follows all logs", || standing(it)["followed"] == self.memcacheds.len());
        }
    }

    /// The origin has another version, and a node is told so. Remembers what may not be served any more.
    fn purge(&self, node: usize, page: usize, wait: bool) -> Value {
        let version = self.pages[page].version.fetch_add(1, SeqCst) + 1;
        let answer = purge(&self.larders[node], page, wait);
        if wait && answer["complete"] == true {
            self.pages[page].least.fetch_max(version, SeqCst);
        }
        answer
    }
}

fn standing(larder: &Larder) -> Value {
    let stats: Value = serde_json::from_str(&larder.admin_get("/cache/stats").text()).unwrap();
    stats["nodes"].clone()
}

fn purge(larder: &Larder, page: usize, wait: bool) -> Value {
    let body = json!({ "url": format!("http://h/{page}"), "wait": wait }).to_string();
    let mut client = Client::connect(larder.admin);
    let head = format!(
        "POST /cache/purge HTTP/1.1\r\n{}\r\nContent-Length: {}\r\n\r\n",
        larder.admin_lines(),
        body.len()
    );
    client.send(head + &body);
    let answer = client.read();
    assert_eq!(200, answer.status, "{answer:?}");
    serde_json::from_str(&answer.text()).unwrap()
}

/// The states of the nodes in a receipt, sorted.
fn nodes(answer: &Value) -> Vec<String> {
    let receipts = answer["receipts"].as_array().unwrap();
    let of_nodes = receipts.iter().filter(|it| it["of"].as_str().unwrap().starts_with("node "));
    let mut states: Vec<String> = of_nodes.map(|it| it["state"].as_str().unwrap().to_owned()).collect();
    states.sort();
    states
}

#[test]
fn a_receipt_names_every_node() {
    let fleet = Fleet::start(3, 3, LONG);
    for it in &fleet.larders {
        assert!(it.get("/1").is_hit() || it.get("/1").is_hit());
    }
    let url = format!("http://{}/1", fleet.larders[0].address);
    let admin = fleet.larders[0].admin.to_string();
    let output = run(Path::new("."), &["explain", &url, "-H", "Host: h", "--admin", &admin]).out;
    assert!(output.contains("nodes    in sync, 3 of 3 servers; lease "), "{output}");
    let answer = fleet.purge(0, 1, true);
    assert_eq!(
        (&json!(true), vec!["applied"; 3]),
        (&answer["complete"], nodes(&answer).iter().map(|it| &**it).collect())
    );
    for it in &fleet.larders {
        assert_eq!("1", it.get("/1").text());
    }
    // A node that stands still is not past it, and is waited for as long as it may trust what it holds.
    let mut client = fleet.larders[2].client();
    assert!(client.get("/1").is_hit());
    fleet.larders[2].signal(libc::SIGSTOP);
    client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    let begin = now();
    let answer = fleet.purge(0, 1, true);
    assert!(begin.elapsed() >= LONG, "{:?}", begin.elapsed());
    assert_eq!(vec!["applied", "applied", "unresponsive"], nodes(&answer), "{answer}");
    // This request begins after the purge was acknowledged, and is there when the node goes on with an old clock.
    client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    fleet.larders[2].signal(libc::SIGCONT);
    let _began_before = client.read();
    assert_eq!("2", client.read().text(), "whatever it held");
}

#[test]
fn a_purge_with_too_few_servers_is_reported_as_incomplete() {
    let fleet = Fleet::start(2, 3, SHORT);
    for it in &fleet.relays[0][..2] {
        it.set(Way::Silent);
    }
    let answer = fleet.purge(0, 1, true);
    assert_eq!(json!(false), answer["complete"]);
    let report = answer["receipts"].to_string();
    assert!(report.contains("only 1 of 3 memcached servers stored it and 2 are required"), "{report}");
    until("it trusts nothing", || standing(&fleet.larders[0])["in_sync"] == false);
    assert!(!fleet.larders[0].get("/1").cache().contains("hit;"), "nothing is served without validation");
    for it in &fleet.relays[0] {
        it.set(Way::Open);
    }
    fleet.wait_until_in_sync();
    assert_eq!(json!(true), fleet.purge(0, 1, true)["complete"]);
}

#[test]
fn servers_that_forgot_have_everything_validated() {
    let mut fleet = Fleet::start(2, 1, LONG);
    let larder = &fleet.larders[0];
    assert!(larder.get("/1").is_hit() || larder.get("/1").is_hit());
    let doubts = larder.counter("purge_log_full_validations");
    fleet.memcacheds[0].start_again();
    let larder = &fleet.larders[0];
    until("it noticed", || larder.counter("purge_log_full_validations") > doubts);
    fleet.wait_until_in_sync();
    assert!(!larder.get("/1").is_hit());
    assert!(larder.get("/1").is_hit(), "it was validated");
}

#[test]
fn one_of_three_servers_may_lose_its_data_without_revalidation() {
    let mut fleet = Fleet::start(2, 3, LONG);
    let larder = &fleet.larders[0];
    for page in 0..PAGES {
        larder.get(&format!("/{page}"));
    }
    let gaps = larder.counter("purge_log_gaps");
    fleet.memcacheds[1].start_again();
    let larder = &fleet.larders[0];
    until("it noticed", || larder.counter("purge_log_gaps") > gaps);
    fleet.wait_until_in_sync();
    let larder = &fleet.larders[0];
    assert_eq!(0, larder.counter("purge_log_full_validations"));
    assert_eq!(json!(true), fleet.purge(0, 1, true)["complete"]);
    for it in &fleet.larders {
        assert_eq!("1", it.get("/1").text());
    }
}

#[test]
fn the_disk_is_warm_after_a_restart_except_for_purged_pages() {
    let mut fleet = Fleet::start(2, 3, LONG);
    let node = &fleet.larders[0];
    for page in ["/1", "/2"] {
        assert_eq!("0", node.get(page).text());
    }
    until("both are on disk", || node.counter("disk_writes") >= 2);
    fleet.end(0);
    assert_eq!(json!(true), fleet.purge(1, 1, true)["complete"]);
    fleet.larders[0] = fleet.node(0);
    fleet.wait_until_in_sync();
    assert_eq!("1", fleet.larders[0].get("/1").text());
    let url = format!("http://{}/2", fleet.larders[0].address);
    let admin = fleet.larders[0].admin.to_string();
    let output = run(Path::new("."), &["explain", &url, "-H", "Host: h", "--admin", &admin]).out;
    assert!(output.contains("The response is served from the cache. It is stored on disk."), "{output}");
    let warm = fleet.larders[0].get("/2");
    assert!(warm.is_hit(), "{}", warm.cache());
}

#[test]
fn a_node_that_left_is_not_waited_for() {
    let mut fleet = Fleet::start(3, 3, SHORT);
    fleet.end(2);
    fleet.larders.pop();
    // Who is there is certain only when a lease has passed since the servers began to count.
    until("a purge is past all that are left before a lease has passed", || {
        let begin = now();
        let answer = fleet.purge(0, 1, true);
        assert_eq!(vec!["applied", "applied"], nodes(&answer), "{answer}");
        begin.elapsed() < SHORT
    });
}

/// The observations during the faults.
#[derive(Default)]
struct Seen {
    reads: AtomicU64,
    hits: AtomicU64,
    purges: AtomicU64,
    early: AtomicU64,
    uncertain: AtomicU64,
}

impl Seen {
    /// Whether what is held is used often, purges hold, and some need no lease.
    fn is_enough(&self) -> bool {
        let [reads, purges, early] = [&self.reads, &self.purges, &self.early].map(|it| it.load(SeqCst));
        reads > 1000 && purges > 20 && early > 5
    }
}

/// Reads pages from one node until it is over; every read is judged by what was acknowledged before it began.
fn read(fleet: &Fleet, node: usize, seed: u64, over: &AtomicBool, seen: &Seen) {
    let mut chance = Chance(seed);
    let mut client = fleet.larders[node].client();
    while !over.load(SeqCst) {
        let page = chance.below(PAGES as u64) as usize;
        let least = fleet.pages[page].least.load(SeqCst);
        let answer = client.get(&format!("/{page}"));
        assert_eq!((200, true), (answer.status, answer.complete), "node {node}: {answer:?}");
        let version: u64 = answer.text().parse().unwrap();
        assert!(
            version >= least,
            "node {node} gave version {version} of page {page} after a purge for {least} was acknowledged: {}",
            answer.cache()
        );
        seen.reads.fetch_add(1, SeqCst);
        seen.hits.fetch_add(u64::from(answer.is_hit()), SeqCst);
        pass(Duration::from_millis(1 + chance.below(4)));
    }
}

fn purge_often(fleet: &Fleet, seed: u64, over: &AtomicBool, seen: &Seen) {
    let mut chance = Chance(seed);
    while !over.load(SeqCst) {
        let (node, page) =
            (chance.below(fleet.larders.len() as u64) as usize, chance.below(PAGES as u64) as usize);
        let begin = now();
        let complete = fleet.purge(node, page, true)["complete"] == true;
        let counted = if complete { &seen.purges } else { &seen.uncertain };
        counted.fetch_add(1, SeqCst);
        seen.early.fetch_add(u64::from(complete && begin.elapsed() < SHORT), SeqCst);
        pass(Duration::from_millis(20 + chance.below(150)));
    }
}

/// Something goes wrong, for a while, again and again.
fn trouble(fleet: &Fleet, seed: u64, seen: &Seen) {
    let mut chance = Chance(seed);
    let begin = now();
    while begin.elapsed() < TROUBLE || (begin.elapsed() < TIMEOUT && !seen.is_enough()) {
        let server = chance.below(fleet.memcacheds.len() as u64) as usize;
        let node = chance.below(fleet.larders.len() as u64) as usize;
        let (memcached, larder, relay) =
            (&fleet.memcacheds[server], &fleet.larders[node], &fleet.relays[node][server]);
        let time = Duration::from_millis(100 + chance.below(1400));
        match chance.below(5) {
            0 => {
                memcached.stop();
                pass(time);
                memcached.go_on();
            }
            1 => {
                larder.signal(libc::SIGSTOP);
                pass(time);
                larder.signal(libc::SIGCONT);
            }
            2 => {
                // As if it had been started again.
                assert_eq!("OK\r\n", memcached.command("flush_all\r\n"));
                pass(time / 4);
            }
            cut => {
                relay.set(if cut == 3 { Way::Silent } else { Way::Dropped });
                pass(time);
                relay.set(Way::Open);
            }
        }
        pass(Duration::from_millis(chance.below(200)));
    }
}

#[test]
fn no_read_is_older_than_a_purge_acknowledged_before_it_began() {
    let fleet = Fleet::start(3, 3, SHORT);
    let (over, seen) = (AtomicBool::new(false), Seen::default());
    /// Ends the others also where one fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    std::thread::scope(|scope| {
        let (fleet, over, seen) = (&fleet, &over, &seen);
        for seed in 0..6 {
            scope.spawn(move || {
                let _over = Over(over);
                read(fleet, seed as usize % 3, seed, over, seen);
            });
        }
        for seed in 0..2 {
            scope.spawn(move || {
                let _over = Over(over);
                purge_often(fleet, 100 + seed, over, seen);
            });
        }
        // Two at a time, so that sometimes too few servers can be reached.
        let other = scope.spawn(move || trouble(fleet, 8, seen));
        let _over = Over(over);
        trouble(fleet, 7, seen);
        other.join().unwrap();
    });
    println!("{:?}", [&seen.reads, &seen.hits, &seen.purges, &seen.early, &seen.uncertain]);
    let of = |it: &AtomicU64| it.load(SeqCst);
    assert!(seen.is_enough() && of(&seen.hits) > of(&seen.reads) / 5, "what is held is used");
}

#[test]
fn groups_that_a_response_names_are_purged_on_every_node() {
    let version = Arc::new(AtomicU64::new(1));
    let report = version.clone();
    let origin = Origin::new(move |it| match it.line().starts_with("POST") {
        true => {
            report.fetch_add(1, SeqCst);
            "HTTP/1.1 200 OK\nCache-Group-Invalidation: \"g\"\n\n".to_owned()
        }
        false => {
            let version = report.load(SeqCst);
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nCache-Groups: \"g\"\n\n{version}")
        }
    });
    let memcached = Memcached::start();
    let more = "timeout = \"2s\"\npoll = \"50ms\"\nlease = \"5s\"\nlocal_ttl = \"1h\"";
    let fleet = format!("[cache.fleet]\nservers = [{:?}]\n{more}\n", memcached.name());
    let nodes = [Larder::before_with(&origin, "", &fleet), Larder::before_with(&origin, "", &fleet)];
    nodes.iter().for_each(|it| until("it follows the log", || standing(it)["followed"] == 1));
    for it in &nodes {
        assert_eq!(("1", "1"), (&*it.get("/page").text(), &*it.get("/page").text()));
    }
    let entries = || {
        let keys = memcached.keys();
        keys.iter().filter(|it| it.starts_with("!log:") && it.matches(':').count() == 2).count()
    };
    assert_eq!(0, entries());
    nodes[0].client().request("POST", "/change", "", "x");
    assert_eq!(1, entries(), "it is in the log when the change is answered");
    assert_eq!("2", nodes[0].get("/page").text(), "its own clients see it at once");
    until("the other node has read the log", || nodes[1].get("/page").text() == "2");
}

#[test]
fn a_node_that_follows_the_log_trusts_its_pages() {
    let alive = Arc::new(AtomicBool::new(true));
    let answers = alive.clone();
    let origin = Origin::scripted(move |_| match answers.load(SeqCst) {
        true => {
            let text = "HTTP/1.1 200 OK\nCache-Control: max-age=60, stale-if-error=600\nETag: \"e\"\n\nhello";
            vec![Script::Send(response(text))]
        }
        false => vec![Script::Reset],
    });
    let memcached = Memcached::start();
    let top = format!(
        "[cache.fleet]\nservers = [{:?}]\ntimeout = \"2s\"\nlease = \"10s\"\nlocal_ttl = \"1h\"\n",
        memcached.name()
    );
    let larder = Larder::before_with(&origin, "", &top);
    until("it follows the log", || standing(&larder)["followed"] == 1);
    larder.get("/");
    until("it is in the fleet", || larder.counter("fleet_puts") == 1);
    let mut client = larder.client();
    for (lines, status) in [
        ("Range: bytes=0-1\r\n", 206),
        ("Range: bytes=1-\r\n", 206),
        ("If-Match: \"other\"\r\n", 412),
        ("If-None-Match: \"e\"\r\n", 304),
        ("", 200),
    ] {
        let found = client.request("GET", "/", lines, "");
        assert_eq!((status, true), (found.status, found.is_hit()), "{lines}: {}", found.cache());
    }
    let output = run(larder.folder.path(), &["explain", "http://h/", "--admin", &larder.admin.to_string()]);
    assert!(output.out.contains("verdict  hit\n"), "{}", output.out);
    assert!(client.get("/").is_hit(), "being asked about changes nothing");
    assert_eq!(1, origin.requests());
    alive.store(false, SeqCst);
    larder.advance(61);
    let stale = client.get("/");
    assert_eq!((200, "hello".to_owned()), (stale.status, stale.text()), "{}", stale.cache());
}

/// Nodes that follow the purge log, before an origin that answers its first request at once and the others when the gate
/// opens; what it says is what it is asked for the how-manieth time.
fn herd(nodes: usize, memcached: &Memcached, gate: &Arc<Gate>) -> (Origin, Vec<Larder>) {
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| {
        let answer = Script::Send(response(&format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nanswer {}",
            it.number
        )));
        if it.number == 0 { vec![answer] } else { vec![Script::Gate(opened.clone()), answer] }
    });
    let fleet = format!(
        "[cache.fleet]\nservers = [{:?}]\ntimeout = \"1s\"\npoll = \"50ms\"\nlease = \"2500ms\"\n",
        memcached.name()
    );
    let larders: Vec<Larder> = (0..nodes).map(|_| Larder::before_with(&origin, "", &fleet)).collect();
    for it in &larders {
        until("it follows the log", || standing(it)["followed"] == 1);
    }
    (origin, larders)
}

fn purge_as(larder: &Larder, more: &str) {
    let body = format!("{{\"url\": \"http://h/\", \"wait\": true{more}}}");
    let answer = larder.admin_post("/cache/purge", &body);
    assert_eq!(200, answer.status, "{answer:?}");
    let answer: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(true, answer["complete"], "{answer}");
}

#[test]
fn after_a_purge_one_node_asks_for_all() {
    for kind in ["", ", \"soft\": true", ", \"validate\": true"] {
        let (memcached, gate) = (Memcached::start(), Gate::new());
        let (origin, larders) = herd(4, &memcached, &gate);
        larders[0].get("/");
        tiers::settled(&larders[0], 1);
        for it in &larders {
            assert_eq!("answer 0", it.get("/").text());
        }
        purge_as(&larders[0], kind);
        let mut clients: Vec<_> = larders.iter().map(|it| it.client()).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        until("one node asks, and the others wait for it", || {
            let waits: u64 = larders.iter().map(|it| it.counter("recompute_waits")).sum();
            assert!(gate.waiting() < 2, "two nodes ask ({kind})");
            waits == 3 && gate.waiting() == 1
        });
        gate.open();
        for client in &mut clients {
            assert_eq!("answer 1", client.read().text(), "{kind}");
        }
        assert_eq!(2, origin.requests(), "{kind}");
    }
}

#[test]
fn a_purged_page_that_one_node_fetched_is_taken_by_the_next_node() {
    for kind in ["", ", \"soft\": true", ", \"validate\": true"] {
        let (memcached, gate) = (Memcached::start(), Gate::new());
        gate.open();
        let (origin, larders) = herd(3, &memcached, &gate);
        larders[0].get("/");
        tiers::settled(&larders[0], 1);
        for it in &larders {
            assert_eq!("answer 0", it.get("/").text());
        }
        purge_as(&larders[0], kind);
        assert_eq!("answer 1", larders[1].get("/").text(), "{kind}");
        tiers::settled(&larders[1], 1);
        for it in [&larders[2], &larders[0]] {
            assert_eq!("answer 1", it.get("/").text(), "{kind}");
        }
        assert_eq!(2, origin.requests(), "{kind}");
    }
}

#[test]
fn a_page_that_the_purging_node_fetches_at_once_is_taken_by_other_nodes() {
    let (memcached, gate) = (Memcached::start(), Gate::new());
    gate.open();
    let (origin, larders) = herd(2, &memcached, &gate);
    for turn in 1..=12 {
        purge_as(&larders[0], "");
        let text = larders[0].get("/").text();
        tiers::settled(&larders[0], turn);
        let found = larders[1].get("/");
        assert_eq!((text, turn as usize), (found.text(), origin.requests()), "{turn}: {}", found.cache());
    }
}
