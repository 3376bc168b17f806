//! The budget of the RAM tier is a promise about the process: while pages of every size come and go, and after
//! they went.

use crate::harness::origin::{Script, response};
use crate::harness::tiers::{disk, fleet};
use crate::harness::{Larder, Memcached, Origin, until};

const BUDGET: u64 = 64 << 20;

/// What the process takes beside the budget, whatever its size: see docs/decisions/0020-resident-memory.md. A worker
/// has pages of each size class, and what is on its way between two looks.
const BASE: u64 = larder_store::ram::PROCESS_OVERHEAD + (4 << 20) + WORKERS * (8 << 20);
const WORKERS: u64 = 2;

/// Resident bytes of larder: what it allocated, and the pages of its arena, which are not mapped but are its own. The
/// pages of the program's file are left out: the kernel shares and drops them.
fn taken(larder: &Larder) -> u64 {
    // The two are not read at one moment: again, where one moved meanwhile.
    loop {
        let (before, arena, after) = (anonymous(larder), larder.resident_arena(), anonymous(larder));
        if before.abs_diff(after) < 1 << 20 {
            return after.min(before) + arena;
        }
    }
}

/// Bytes that it allocated.
pub fn anonymous(larder: &Larder) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", larder.child.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A body of `length` bytes that is different for every `seed`.
fn body(seed: usize, length: usize) -> String {
    (0..length).map(|at| char::from(b'a' + ((seed + at + at / 251) % 26) as u8)).collect()
}

/// An origin whose `/LENGTH/SEED` is a body of that length.
fn sized() -> Origin {
    Origin::scripted(|request| {
        let mut parts = request.target().split('/').skip(1).map(|it| it.parse().unwrap_or(0));
        let (length, seed) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", body(seed, length));
        vec![Script::Send(response(&text))]
    })
}

fn before(origin: &Origin) -> Larder {
    Larder::before_with(origin, "", &format!("cache.ram.size = {BUDGET}"))
}

#[test]
fn memory_stays_within_the_budget_under_a_churning_fill() {
    let origin = sized();
    churn(&before(&origin), BUDGET + BUDGET / 20 + BASE);
}

#[test]
fn and_with_every_tier_below() {
    let (origin, memcached, folder) = (sized(), Memcached::start(), tempfile::tempdir().unwrap());
    let top = format!("cache.ram.size = {BUDGET}\n") + &disk(folder.path()) + &fleet(&[&memcached], "");
    let larder = Larder::before_with(&origin, "", &top);
    // Each worker reads and writes to memcached as well; what waits to be written is of the budget.
    churn(&larder, BUDGET + BUDGET / 20 + BASE + WORKERS * (8 << 20));
    assert!(larder.counter("disk_writes") > 1000 && larder.counter("fleet_puts") > 1000);
}

/// Pages of every size come and go; the process never takes more than `most`.
fn churn(larder: &Larder, most: u64) {
    // One kind of size after another: the change of sizes is what allocators do not like.
    let kinds =
        [(30_000, 3_000), (3_000, 10_000), (900_000, 100), (400, 4_000), (15_000, 3_000), (200_000, 300)];
    let mut seed = 0;
    let mut worst = 0;
    for (length, count) in kinds {
        let clients: Vec<_> = (0..2_usize)
            .map(|half| {
                let (mut client, count, from) = (larder.client(), count / 2, seed + half * count / 2);
                std::thread::spawn(move || {
                    for seed in from..from + count {
                        // Around the middle: from a half to one and a half.
                        let length = length / 2 + (seed * 7919) % length;
                        let page = client.get(&format!("/{length}/{seed}"));
                        assert!(page.status == 200 && page.body.len() == length, "{}", page.cache());
                    }
                })
            })
            .collect();
        seed += count;
        while clients.iter().any(|it| !it.is_finished()) {
            let taken = taken(larder);
            worst = worst.max(taken);
            std::thread::yield_now();
        }
        clients.into_iter().for_each(|it| it.join().unwrap());
        assert!(worst <= most, "{worst} bytes of {most} while bodies have about {length}");
    }
    assert!(larder.counter("cache_evictions") > 0);
    assert_eq!(0, larder.counter("cache_over_budget"));
}

/// The smallest budget in which encoders and their bodies find room: what they take is a large part of it.
const SMALL: u64 = 16 << 20;

#[test]
fn and_while_forms_are_made_with_every_tier_below() {
    let origin = Origin::scripted(|request| {
        let mut parts = request.target().split('/').skip(1).map(|it| it.parse().unwrap_or(0));
        let (length, seed) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let head = "HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Type: text/html\n\n";
        vec![Script::Send(response(&format!("{head}{}", body(seed, length))))]
    });
    let (memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
    let top = format!("cache.ram.size = {SMALL}\ncache.compress.workers = 2\n")
        + &disk(folder.path())
        + &fleet(&[&memcached], "");
    let larder = Larder::before_with(&origin, "compress = { enabled = true }", &top);
    let most = SMALL + SMALL / 20 + BASE + WORKERS * (8 << 20);
    let codings = ["zstd", "br", "gzip"];
    let (mut worst, mut parts) = (0, 0);
    for (length, count) in [(1_200_000, 24), (12_000, 300), (300_000, 60)] {
        let mut client = larder.client();
        for seed in 0..count {
            let length = length / 2 + (seed * 7919) % length;
            for it in 0..3 {
                let fields = format!("Accept-Encoding: {}\r\n", codings[(seed + it) % 3]);
                let page = client.request("GET", &format!("/{length}/{seed}"), &fields, "");
                assert_eq!(200, page.status);
            }
            worst = worst.max(taken(&larder));
            let coders = larder.memory("ram", "compression");
            parts = parts.max(coders);
        }
        assert!(worst <= most, "{worst} bytes of {most} while bodies have about {length}");
    }
    assert!(larder.counter("coding_made") > 20, "{} forms", larder.counter("coding_made"));
    assert!(parts > 1 << 20, "{parts} bytes at most in the books for encoders");
    until("nothing is made any more", || larder.memory("ram", "compression") == 0);
}

#[test]
fn memory_falls_when_pages_go_and_slow_readers_lose_nothing() {
    let origin = sized();
    let larder = before(&origin);
    let length = 1_000_000;
    // No client is idle or slow because the machine is busy.
    larder.hold();
    let mut client = larder.client();
    // Each worker has had a page before it is looked at: what it keeps for the next one is not what is measured.
    for seed in 200..220 {
        let mut other = larder.client();
        other.get(&format!("/{length}/{seed}"));
        assert_eq!(200, other.request("POST", &format!("/{length}/{seed}"), "", "x").status);
    }
    let empty = taken(&larder);
    let targets: Vec<String> = (0..50).map(|seed| format!("/{length}/{seed}")).collect();
    for target in &targets {
        client.get(target);
        let again = client.get(target);
        assert!(again.is_hit(), "{target}: {}", again.cache());
    }
    let full = taken(&larder);
    assert!(full >= empty + 45_000_000, "{empty} to {full}");
    // Ten clients are in the middle of a page when it goes.
    let mut slow: Vec<_> = targets[..10]
        .iter()
        .map(|target| {
            let mut client = larder.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let begun = client.read_bytes(100);
            (client, begun)
        })
        .collect();
    for target in &targets {
        assert_eq!(200, client.request("POST", target, "", "x").status);
    }
    assert!(larder.counter("cache_invalidations") >= 50);
    // New pages take what the old ones gave back.
    for seed in 100..130 {
        client.get(&format!("/{length}/{seed}"));
    }
    for (seed, (client, begun)) in slow.iter_mut().enumerate() {
        let mut text = std::mem::take(begun);
        while !text.windows(4).any(|it| it == b"\r\n\r\n") {
            text.extend(client.read_bytes(1));
        }
        let head = text.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        text.extend(client.read_bytes(head + length - text.len()));
        assert!(text[head..] == *body(seed, length).as_bytes(), "page {seed} is what it was");
    }
    drop(slow);
    for seed in 100..130 {
        assert_eq!(200, client.request("POST", &format!("/{length}/{seed}"), "", "x").status);
    }
    larder.release();
    until("the memory is given back", || taken(&larder) < empty + 8_000_000);
}

/// `stored` is not said of what cannot be: RFC 9211 §2.5 has it for what was stored.
#[test]
fn a_response_without_room_is_not_reported_as_stored() {
    let page = |length| format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\n{}", body(1, length));
    for (length, expect) in [
        (900_000, "larder; fwd=uri-miss; fwd-status=200; stored"),
        // More than a quarter of what there is.
        (1_100_000, "larder; fwd=uri-miss; fwd-status=200"),
    ] {
        let origin = Origin::fixed(&page(length));
        let larder = Larder::before_with(&origin, "", "[cache.ram]\nsize = \"4MiB\"\n");
        let first = larder.get("/");
        assert_eq!((length, expect), (first.text().len(), first.cache()));
        assert_eq!(expect.ends_with("stored"), larder.get("/").is_hit(), "{length}");
    }
}
