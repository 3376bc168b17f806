//! A response that the origin has replaced stays replaced, RFC 9111 section 4.3.3: another full response makes the stored
//! one unusable in RAM, on disk, in the fleet and on every node, whether it may be stored itself or not. And an
//! acknowledged purge stays in force without its journal.

use crate::harness::origin::{Gate, Script, response};
use crate::harness::tiers::{disk, fleet, killed, on_disk, settled, written};
use crate::harness::{Larder, Memcached, Origin, Response, until};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Answers that take the place of a page, none of which answers the next request.
pub(super) const REPLACED_BY: [(&str, &str); 8] = [
    ("private", "200 OK\nCache-Control: private, max-age=600"),
    ("no-store", "200 OK\nCache-Control: no-store"),
    ("a cookie", "200 OK\nCache-Control: max-age=600\nSet-Cookie: a=b"),
    ("moved", "301 Moved\nLocation: /x\nCache-Control: no-store"),
    ("not found", "404 Not Found\nCache-Control: no-store"),
    ("no lifetime", "200 OK\nCache-Control: no-cache"),
    ("a second", "200 OK\nCache-Control: max-age=1"),
    ("varies on everything", "200 OK\nCache-Control: max-age=600\nVary: *"),
];

/// An origin whose pages are old until it is told to answer `new` from then on.
fn replacing(new: &str) -> (Origin, Arc<AtomicBool>) {
    let (replaced, new) = (Arc::new(AtomicBool::new(false)), new.to_owned());
    let report = replaced.clone();
    let origin = Origin::new(move |_| match report.load(SeqCst) {
        false => "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"old\"\n\nold".to_owned(),
        true => format!("HTTP/1.1 {new}\n\nnew"),
    });
    (origin, replaced)
}

/// A node with a disk in `folder`, and the fleet.
fn both(origin: &Origin, memcached: &Memcached, folder: &Path) -> Larder {
    Larder::before_with(origin, "", &(fleet(&[memcached], "timeout = \"60s\"") + &disk(folder)))
}

/// Longer than a node uses what it has without asking the fleet.
const LOCAL_TTL: i64 = 6;

#[track_caller]
fn is_new(what: &str, response: &Response) {
    assert_eq!("new", response.text(), "{what}: {}", response.cache());
}

#[test]
fn no_node_returns_to_a_replaced_response_on_disk_or_in_the_fleet() {
    for (what, new) in REPLACED_BY {
        let (mut memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
        let (origin, replaced) = replacing(new);
        let (a, b) = (
            both(&origin, &memcached, folder.path()),
            super::super::harness::tiers::node(&origin, &memcached),
        );
        assert_eq!("old", a.get("/").text());
        written(&a, 1);
        settled(&a, 1);
        assert!(b.get("/").is_hit(), "{what}: the other node has it from the fleet");
        // It lies on the disk, and neither in RAM nor in the fleet.
        killed(a);
        memcached.start_again();
        replaced.store(true, SeqCst);
        let a = both(&origin, &memcached, folder.path());
        is_new(what, &a.get("/"));
        is_new(what, &a.get("/"));
        a.advance(2);
        is_new(what, &a.get("/"));
        b.advance(LOCAL_TTL);
        is_new(what, &b.get("/"));
        // What is killed now has not gone back either when it starts again.
        killed(a);
        let a = both(&origin, &memcached, folder.path());
        is_new(what, &a.get("/"));
        let c = super::super::harness::tiers::node(&origin, &memcached);
        is_new(what, &c.get("/"));
    }
}

#[test]
fn a_fresh_response_in_every_tier_is_removed_when_a_request_gets_another() {
    for (what, new) in REPLACED_BY {
        let (memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
        let (origin, replaced) = replacing(new);
        let (a, b) = (
            both(&origin, &memcached, folder.path()),
            super::super::harness::tiers::node(&origin, &memcached),
        );
        a.get("/");
        written(&a, 1);
        settled(&a, 1);
        assert!(b.get("/").is_hit(), "{what}");
        replaced.store(true, SeqCst);
        // A client that wants the origin's own word.
        is_new(what, &a.client().get_with("/", "Cache-Control: no-cache\r\n"));
        if what == "a second" {
            // No request waits for a write; the clock goes on only after it.
            settled(&a, 2);
        }
        a.advance(2);
        is_new(what, &a.get("/"));
        b.advance(LOCAL_TTL);
        is_new(what, &b.get("/"));
        killed(a);
        is_new(what, &both(&origin, &memcached, folder.path()).get("/"));
    }
}

#[test]
fn without_a_fleet_no_restart_brings_it_back() {
    for (what, new) in REPLACED_BY {
        let folder = tempfile::tempdir().unwrap();
        let (origin, replaced) = replacing(new);
        let a = on_disk(&origin, folder.path(), "");
        a.get("/");
        written(&a, 1);
        replaced.store(true, SeqCst);
        is_new(what, &a.client().get_with("/", "Cache-Control: no-cache\r\n"));
        killed(a);
        let a = on_disk(&origin, folder.path(), "");
        is_new(what, &a.get("/"));
        a.advance(2);
        is_new(what, &a.get("/"));
    }
}

#[test]
fn an_error_a_part_or_one_requests_own_fault_replaces_nothing() {
    for (what, new, lines) in [
        ("error", "500 Internal Server Error\nCache-Control: no-store", ""),
        ("unavailable", "503 Service Unavailable", ""),
        ("bad request", "400 Bad Request\nCache-Control: no-store", ""),
        ("too many", "429 Too Many Requests\nCache-Control: no-store", ""),
        ("its own credentials", "401 Unauthorized\nCache-Control: no-store", "Authorization: Basic eDp5\r\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (origin, replaced) = replacing(new);
        let a = on_disk(&origin, folder.path(), "");
        a.get("/");
        written(&a, 1);
        replaced.store(true, SeqCst);
        let asked = a.client().get_with("/", &format!("Cache-Control: no-cache\r\n{lines}"));
        assert!(asked.status >= 400 || asked.text() == "old", "{what}: {asked:?}");
        assert!(a.get("/").is_hit(), "{what}");
        killed(a);
        let a = on_disk(&origin, folder.path(), "");
        let found = a.get("/");
        assert!(found.is_hit() && found.text() == "old", "{what}: {}", found.cache());
    }
}

#[test]
fn only_the_variant_that_was_replaced_goes() {
    let replaced = Arc::new(AtomicBool::new(false));
    let report = replaced.clone();
    let origin = Origin::new(move |request| {
        let language = request.field("accept-language").unwrap_or("none");
        match report.load(SeqCst) && language == "de" {
            false => format!(
                "HTTP/1.1 200 OK\nCache-Control: max-age=600\nVary: Accept-Language\nETag: \"1\"\n\n{language}"
            ),
            true => "HTTP/1.1 200 OK\nCache-Control: private\nVary: Accept-Language\n\nnew".to_owned(),
        }
    });
    let larder = Larder::before(&origin, "");
    for it in ["de", "fr"] {
        larder.client().get_with("/", &format!("Accept-Language: {it}\r\n"));
    }
    replaced.store(true, SeqCst);
    is_new("de", &larder.client().get_with("/", "Accept-Language: de\r\nCache-Control: no-cache\r\n"));
    let french = larder.client().get_with("/", "Accept-Language: fr\r\n");
    assert!(french.is_hit() && french.text() == "fr", "{}", french.cache());
    is_new("de", &larder.client().get_with("/", "Accept-Language: de\r\n"));
}

#[test]
fn a_page_is_not_gone_back_to_where_the_newer_one_varies() {
    for name in ["X-Q", "Accept-Encoding", "Cookie"] {
        let new = format!("200 OK\nCache-Control: max-age=600\nVary: {name}");
        let other = format!("{name}: gzip\r\n");
        for from_disk in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (origin, replaced) = replacing(&new);
            let mut a = on_disk(&origin, folder.path(), "");
            a.get("/");
            written(&a, 1);
            if from_disk {
                killed(a);
                a = on_disk(&origin, folder.path(), "");
            }
            replaced.store(true, SeqCst);
            is_new(name, &a.client().get_with("/", "Cache-Control: no-cache\r\n"));
            is_new(name, &a.client().get_with("/", &other));
            is_new(name, &a.get("/"));
            killed(a);
            let a = on_disk(&origin, folder.path(), "");
            is_new(name, &a.client().get_with("/", &other));
            is_new(name, &a.get("/"));
        }
    }
}

/// A part of another representation came since: what lies whole in a tier below is the older one.
#[test]
fn a_page_is_not_gone_back_to_where_a_part_of_the_newer_one_is_stored() {
    for in_fleet in [false, true] {
        let (memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
        let replaced = Arc::new(AtomicBool::new(false));
        let report = replaced.clone();
        let origin = Origin::new(move |request| match (report.load(SeqCst), request.field("range")) {
            (false, _) => "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"old\"\n\nold".to_owned(),
            (true, Some(_)) => {
                "HTTP/1.1 206 P\nCache-Control: max-age=600\nETag: \"new\"\nContent-Range: bytes 0-1/3\n\nne"
                    .to_owned()
            }
            (true, None) => "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"new\"\n\nnew".to_owned(),
        });
        let start = || match in_fleet {
            true => super::super::harness::tiers::node(&origin, &memcached),
            false => on_disk(&origin, folder.path(), ""),
        };
        let a = start();
        a.get("/");
        match in_fleet {
            true => settled(&a, 1),
            false => written(&a, 1),
        }
        killed(a);
        let a = start();
        a.advance(5);
        replaced.store(true, SeqCst);
        let part = a.client().get_with("/", "Range: bytes=0-1\r\nCache-Control: no-cache\r\n");
        assert_eq!((206, "ne"), (part.status, part.text().as_str()), "{in_fleet}");
        is_new("the whole", &a.get("/"));
        is_new("again", &a.get("/"));
    }
}

#[test]
fn a_response_requested_before_a_newer_one_is_not_stored_after_it() {
    // The old page is on its way while another request is answered with what may not be stored, or with a newer page.
    let varies = ("varies", "200 OK\nCache-Control: public, max-age=600\nVary: X-Q");
    for (what, new) in REPLACED_BY.into_iter().chain([varies]) {
        let gate = Gate::new();
        let (held, new) = (gate.clone(), new.to_owned());
        let origin = Origin::scripted(move |request| match request.number {
            0 => vec![
                Script::Gate(held.clone()),
                Script::Send(response(
                    "HTTP/1.1 200 OK\nCache-Control: public, max-age=600\nETag: \"old\"\n\nold",
                )),
            ],
            _ => vec![Script::Send(response(&format!("HTTP/1.1 {new}\n\nnew")))],
        });
        let larder = Larder::before(&origin, "");
        let mut first = larder.client();
        first.send("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n");
        until("it is asked", || gate.waiting() == 1);
        is_new(what, &larder.client().get_with("/", "Authorization: y\r\nCache-Control: no-cache\r\n"));
        gate.open();
        assert_eq!("old", first.read().text(), "{what}: who asked before has it");
        larder.advance(2);
        is_new(what, &larder.get("/"));
        is_new(what, &larder.client().get_with("/", "X-Q: 1\r\n"));
    }
}

#[test]
fn a_purge_stays_in_force_without_its_journal_and_the_loss_is_logged() {
    let logged = "[log]\nerror = \"error.log\"\n";
    for damage in ["missing", "cut by a byte", "an older copy"] {
        let folder = tempfile::tempdir().unwrap();
        let (origin, replaced) = replacing("200 OK\nCache-Control: no-store");
        let a = on_disk(&origin, folder.path(), logged);
        a.get("/");
        a.get("/other");
        written(&a, 2);
        let journal = folder.path().join("disk").join("purges");
        let older = std::fs::read(&journal).unwrap();
        let purged = a.admin_post("/cache/purge", "{\"url\": \"http://h/\"}");
        assert_eq!(200, purged.status, "{purged:?}");
        killed(a);
        let whole = std::fs::read(&journal).unwrap();
        match damage {
            "missing" => std::fs::remove_file(&journal).unwrap(),
            "cut by a byte" => std::fs::write(&journal, &whole[..whole.len() - 1]).unwrap(),
            _ => std::fs::write(&journal, &older).unwrap(),
        }
        let a = on_disk(&origin, folder.path(), logged);
        let log = || a.error_log();
        until("doubt is told", || log().contains(" warn disk-revalidating path="));
        let asked = origin.requests();
        assert!(!a.get("/").is_hit() && !a.get("/other").is_hit(), "{damage}: everything is validated");
        assert_eq!(asked + 2, origin.requests(), "{damage}");
        drop(replaced);
    }
}

/// Pages of the storm.
const PAGES: usize = 12;

/// How long it lasts, in rounds of some seconds: the clocks of all nodes go on together, by one at a time.
const ROUNDS: u64 = 7;
const SECONDS_OF_ROUND: u64 = 7;

/// A second of the nodes takes this long.
const SECOND: Duration = Duration::from_millis(250);

/// Seconds: `local_ttl` of the nodes, and what a busy machine may need to bring an answer, and word of it, from here to there.
const BOUND: u64 = 1 + 5;

/// Chance, from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let it = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (it ^ it >> 29) % most
    }
}

/// One page: its version at the origin, and which version some client had whole when.
#[derive(Default)]
struct Page {
    version: AtomicU64,
    had: Mutex<Vec<(u64, u64)>>,
}

impl Page {
    /// A client has this version, at this second.
    fn has(&self, version: u64, second: u64) {
        let mut had = self.had.lock().unwrap();
        if had.last().is_none_or(|it| it.1 < version) {
            had.push((second, version));
        }
    }

    /// The newest that some client had whole by then.
    fn newest_at(&self, then: u64) -> u64 {
        let had = self.had.lock().unwrap();
        had.iter().rev().find(|it| it.0 <= then).map_or(0, |it| it.1)
    }
}

/// The head of a version: some may be stored for long, some for a second, some not at all.
fn head_of(version: u64) -> &'static str {
    match Chance(version).below(8) {
        0..=2 => "200 OK\r\nCache-Control: max-age=600",
        3 => "200 OK\r\nCache-Control: private",
        4 => "200 OK\r\nCache-Control: no-store",
        5 => "200 OK\r\nCache-Control: max-age=1",
        6 => "404 Not Found\r\nCache-Control: no-store",
        _ => "200 OK\r\nCache-Control: max-age=600\r\nSet-Cookie: a=b",
    }
}

/// An origin whose pages change now and then when they are asked for; each has its version as its tag, and its text.
fn changing(pages: &Arc<Vec<Page>>) -> Origin {
    let (pages, asked) = (pages.clone(), AtomicU64::new(0));
    Origin::scripted(move |request| {
        let mut chance = Chance(asked.fetch_add(1, SeqCst) << 20);
        let page = &pages[request.target()[1..].parse::<usize>().unwrap()];
        if chance.below(3) == 0 {
            page.version.fetch_add(1, SeqCst);
        }
        let version = page.version.load(SeqCst);
        let pause = Script::Pause(Duration::from_millis(chance.below(20)));
        let tag = format!("\"{version}\"");
        let head = head_of(version);
        let answer = match request.field("if-none-match") == Some(&*tag) {
            true => format!(
                "HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n{}\r\n\r\n",
                &head[head.find('\n').unwrap() + 1..]
            ),
            false => {
                let text = format!("{version} {}", "x".repeat(version as usize % 7 * 900));
                format!("HTTP/1.1 {head}\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n{text}", text.len())
            }
        };
        vec![pause, Script::Send(answer.into_bytes())]
    })
}

/// One client of a node, until it is time to end; tells what was older than it may be.
fn fetch(node: &Larder, name: usize, pages: &[Page], second: &AtomicU64, mut chance: Chance) -> Vec<String> {
    let (mut client, mut old) = (node.client(), Vec::new());
    let end = second.load(SeqCst) / SECONDS_OF_ROUND + 1;
    while second.load(SeqCst) / SECONDS_OF_ROUND < end {
        let number = usize::try_from(chance.below(PAGES as u64)).unwrap();
        let (page, begun) = (&pages[number], second.load(SeqCst));
        let lines = if chance.below([12, 100, 100][name]) == 0 { "Cache-Control: no-cache\r\n" } else { "" };
        let response = client.get_with(&format!("/{number}"), lines);
        let version: u64 = response.text().split(' ').next().unwrap().parse().unwrap();
        let least = begun.checked_sub(BOUND).map_or(0, |it| page.newest_at(it));
        if version < least {
            old.push(format!(
                "second {begun}, /{number} of node {name}: {version} < {least} ({})",
                response.cache()
            ));
        }
        page.has(version, second.load(SeqCst));
    }
    old
}

#[test]
fn no_node_answers_with_less_than_the_newest_that_a_client_had() {
    let pages: Arc<Vec<Page>> = Arc::new((0..PAGES).map(|_| Page::default()).collect());
    let origin = changing(&pages);
    let mut memcached = Memcached::start();
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let start = |memcached: &Memcached, folder: &Path| {
        let fleet = fleet(&[memcached], "timeout = \"60s\"\nretry = \"100ms\"\nlocal_ttl = \"1s\"");
        Larder::before_with(&origin, "hit_for_miss = \"1s\"", &(fleet + &disk(folder) + "min_ttl = \"0s\"\n"))
    };
    let mut nodes: Vec<Larder> = folders.iter().map(|it| start(&memcached, it.path())).collect();
    let (second, mut old) = (AtomicU64::new(0), Vec::new());
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            let clients = (0..6).map(|at| {
                let (node, pages, second) = (&nodes[at / 2], &pages, &second);
                let chance = Chance(round << 32 | (at as u64) << 8);
                scope.spawn(move || fetch(node, at / 2, pages, second, chance))
            });
            let clients: Vec<_> = clients.collect();
            for _ in 0..SECONDS_OF_ROUND {
                std::thread::park_timeout(SECOND);
                nodes.iter().for_each(|it| it.advance(1));
                second.fetch_add(1, SeqCst);
            }
            clients.into_iter().for_each(|it| old.extend(it.join().unwrap()));
        });
        // One node is killed and comes back with its disk; now and then the fleet forgets everything.
        let which = usize::try_from(round % 3).unwrap();
        killed(nodes.remove(which));
        if round % 2 == 1 {
            memcached.start_again();
        }
        let again = start(&memcached, folders[which].path());
        again.advance(second.load(SeqCst).try_into().unwrap());
        nodes.insert(which, again);
    }
    let hits: u64 = nodes.iter().map(|it| it.counter("cache_hits")).sum();
    eprintln!(
        "{} old answers; {hits} hits of the last nodes; {} requests at the origin",
        old.len(),
        origin.requests()
    );
    assert!(old.is_empty(), "{}: {:?}", old.len(), &old[..old.len().min(20)]);
    assert!(hits > 0);
}
