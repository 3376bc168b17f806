//! The parts of memory add up to what the process has resident, and each grows by what it is for.

use super::stats;
use crate::harness::origin::{Script, response};
use crate::harness::tiers::disk;
use crate::harness::{Client, Larder, Origin, until};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of one part; zero where there is none.
fn part(memory: &Value, tier: &str, purpose: &str) -> u64 {
    let parts = memory["parts"].as_array().unwrap();
    let found = parts.iter().find(|it| it["tier"] == tier && it["purpose"] == purpose);
    found.map_or(0, |it| it["bytes"].as_u64().unwrap())
}

/// The kernel's figures from outside: resident memory without shared pages, and the pages of the arena.
fn resident(larder: &Larder) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", larder.child.id())).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", larder.child.id())).unwrap();
    let arena = descriptors.flatten().filter_map(|it| {
        let is_arena = std::fs::read_link(it.path()).ok()?.to_string_lossy().contains("larder-arena");
        is_arena.then(|| std::fs::metadata(it.path()).ok()).flatten()
    });
    line("RssAnon:") + line("RssFile:") + arena.map(|it| it.blocks() * 512).sum::<u64>()
}

/// `/LENGTH/SEED` has a body of that length.
fn sized() -> Origin {
    Origin::scripted(|request| {
        let mut parts = request.target().split('/').skip(1).map(|it| it.parse().unwrap_or(0));
        let (length, seed) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let body: String = (0..length).map(|at| char::from(b'a' + ((seed + at) % 26) as u8)).collect();
        vec![Script::Send(response(&format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{body}")))]
    })
}

#[test]
fn the_memory_purposes_add_up_to_the_resident_memory() {
    let origin = sized();
    let larder = Larder::before_with(&origin, "", "cache.ram.size = \"64MiB\"");
    let mut clients = [larder.client(), larder.client()];
    let mut seed = 0;
    // Small, middling and large bodies until something had to go: each kind takes its part.
    let sizes = [300, 2_000, 9_000, 15_000, 30_000, 70_000, 300_000];
    while larder.counter("cache_evictions") < 50 {
        for _ in 0..40 {
            for (at, length) in sizes.into_iter().enumerate() {
                seed += 1;
                // As many bytes of each, about.
                if seed % (1 + length / 2_000) == 0 || at < 3 {
                    assert_eq!(200, clients[seed % 2].get(&format!("/{length}/{seed}")).status);
                }
            }
        }
        assert!(seed < 200_000, "nothing is evicted");
    }
    let mut last = String::new();
    // The allocator's part is as old as the workers' last tick; what was freed is given back meanwhile.
    until(&format!("the parts add up: {last}"), || {
        let memory = stats(&larder)["memory"].clone();
        let (report, attributed) =
            (memory["rss_bytes"].as_u64().unwrap(), memory["attributed_bytes"].as_u64().unwrap());
        let seen = resident(&larder);
        last = format!("{seen} seen: {memory}");
        if std::env::var_os("LARDER_SHOW").is_some() {
            eprintln!("{:+.2} %: {last}", 100.0 * (attributed as f64 - seen as f64) / seen as f64);
        }
        part(&memory, "server", "allocator") > 0
            && report.abs_diff(seen) <= seen / 50
            && attributed.abs_diff(seen) <= seen / 20
    });
    let memory = stats(&larder)["memory"].clone();
    for (tier, purpose, least) in
        [("ram", "responses", 8 << 20), ("ram", "arena", 8 << 20), ("ram", "index", 100_000)]
    {
        assert!(part(&memory, tier, purpose) >= least, "{tier} {purpose}: {memory}");
    }
    let sum: u64 = memory["parts"].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
    assert_eq!(memory["attributed_bytes"], sum);
    let manual = include_str!("../../../docs/statistics.md");
    for it in memory["parts"].as_array().unwrap() {
        let (tier, purpose) = (it["tier"].as_str().unwrap(), it["purpose"].as_str().unwrap());
        let report =
            |line: &str| line.starts_with(&format!("| `{tier}` |")) && line.contains(&format!("`{purpose}`"));
        assert!(manual.lines().any(report), "{tier} {purpose} is in the manual");
    }
}

/// A larder of which everything was purged.
struct Purged {
    _origin: Origin,
    larder: Larder,
    /// One for each worker, that asked for what was there.
    clients: [Client; 2],
    /// Bytes that were resident before.
    full: u64,
}

/// Purges so many responses of that length, once the workers are quiet.
fn purged(length: u32, count: usize) -> Purged {
    let origin = sized();
    let larder = Larder::before_with(&origin, "", "cache.ram.size = \"256MiB\"");
    let mut clients = [larder.client(), larder.client()];
    for seed in 0..count {
        assert_eq!(200, clients[seed % 2].get(&format!("/{length}/{seed}")).status);
    }
    // The workers have been idle for long enough to have given back what they could: see `larder::server::quiet`.
    let now = || stats(&larder)["now_us"].as_u64().unwrap();
    let asked_last = now();
    until("the workers are quiet", || now() > asked_last + 3_000_000);
    let full = resident(&larder);
    assert_eq!(200, larder.admin_post("/api/v1/purge", r#"{"all":true}"#).status);
    Purged { _origin: origin, larder, clients, full }
}

/// What was freed and is not given back yet is the allocator's; and it is given back, though nobody asks for anything any
/// more.
#[test]
fn the_parts_add_up_after_very_many_were_purged() {
    let Purged { _origin, larder, full, .. } = purged(1500, 16_000);
    until("the memory comes back", || {
        let mut last = String::new();
        let adds_up = (0..3).any(|_| {
            let memory = stats(&larder)["memory"].clone();
            let seen = resident(&larder);
            last = format!("{seen} seen: {memory}");
            memory["attributed_bytes"].as_u64().unwrap().abs_diff(seen) <= seen / 20
        });
        assert!(adds_up, "{last}");
        resident(&larder) < full - (25 << 20)
    });
}

/// A sweep goes in the order of hashes, so the pages of small responses are free only when it is over, and who has them is
/// told then: a worker that is busy, and one that is idle.
#[test]
fn memory_of_purged_small_responses_is_returned_under_load() {
    let Purged { _origin, larder, mut clients, full } = purged(300, 8_000);
    until("the memory comes back", || {
        assert_eq!(200, clients[0].get("/300/0").status);
        resident(&larder) < full - (4 << 20)
    });
}

/// Everything that takes memory takes some, and requests run while it is asked: the sum holds at any time.
#[test]
fn the_parts_add_up_while_requests_run() {
    let origin = sized();
    let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..40 {
        std::fs::write(root.path().join(format!("small-{number}")), vec![b's'; 4_000]).unwrap();
        std::fs::write(root.path().join(format!("copied-{number}")), vec![b'c'; 100_000]).unwrap();
    }
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[cache.ram]\nsize = \"16MiB\"\n{}[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/files/*\"\nfiles = {{ root = {:?}, strip = \"/files\" }}\n[[site.route]]\ntrace = 1\n\
         proxy = {{ to = [\"{}\"] }}\n",
        disk(folder.path()),
        root.path(),
        origin.url()
    ));
    // One that listens and does not read: its queue fills.
    let mut deaf = Client::connect(larder.admin);
    deaf.send(format!("GET /api/v1/stream HTTP/1.1\r\n{}\r\n\r\n", larder.admin_lines()));
    assert!(!deaf.read_raw_head().is_empty());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (larder, over) = (&larder, &over);
            scope.spawn(move || {
                let mut client = larder.client();
                for seed in 0..1_000_000 {
                    if over.load(Relaxed) {
                        break;
                    }
                    let length = [300, 2_000, 9_000, 20_000, 60_000][seed % 5];
                    assert_eq!(200, client.get(&format!("/{length}/{}", seed * 3 + worker)).status);
                    let kind = ["small", "copied"][seed % 2];
                    assert_eq!(200, client.get(&format!("/files/{kind}-{}", seed % 40)).status);
                }
            });
        }
        let outcome = std::panic::catch_unwind(|| {
            // By then RAM has as much as it may, and everything else has something.
            until("it has answered much", || larder.counter("requests") > 800);
            for _ in 0..10 {
                // Once in a while the kernel and the workers are asked too far apart: one more look decides.
                let mut last = String::new();
                let adds_up = (0..3).any(|_| {
                    let before = resident(&larder) + copies(&larder);
                    let memory = stats(&larder)["memory"].clone();
                    let after = resident(&larder) + copies(&larder);
                    let (report, sum) = (&memory["rss_bytes"], &memory["attributed_bytes"]);
                    let (report, sum) = (report.as_u64().unwrap(), sum.as_u64().unwrap());
                    let (least, most) = (before.min(after), before.max(after));
                    last = format!("{least} to {most} seen: {memory}");
                    if std::env::var_os("LARDER_SHOW").is_some() {
                        eprintln!("{:+.2} %: {last}", 100.0 * (sum as f64 - report as f64) / report as f64);
                    }
                    let within = |it: u64| it >= least - least / 20 && it <= most + most / 20;
                    sum.abs_diff(report) <= report / 20 && within(sum) && within(report)
                });
                assert!(adds_up, "{last}");
            }
        });
        over.store(true, Relaxed);
        outcome.unwrap();
    });
    let memory = stats(&larder)["memory"].clone();
    let least = [
        ("server", "files", 2_000_000),
        ("server", "top", 2 << 20),
        ("server", "traces", 100_000),
        ("server", "recent", 100_000),
        ("server", "stream", 100_000),
        ("disk", "index", 10_000),
    ];
    for (tier, purpose, least) in least {
        assert!(part(&memory, tier, purpose) >= least, "{tier} {purpose}: {memory}");
    }
    drop(deaf);
}

/// Copies of files in memory, which the kernel counts for no process.
fn copies(larder: &Larder) -> u64 {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", larder.child.id())).unwrap();
    let copies = descriptors.flatten().filter_map(|it| {
        let is_copy = std::fs::read_link(it.path()).ok()?.to_string_lossy().contains("larder-file");
        is_copy.then(|| std::fs::metadata(it.path()).ok()).flatten()
    });
    copies.map(|it| it.blocks() * 512).sum()
}

#[test]
fn readings_of_the_page_measure_memory_every_ten_seconds() {
    let origin = sized();
    let larder = Larder::before(&origin, "");
    let read = |detail: &str| {
        let text = larder.admin_get(&format!("/api/v1/stats?detail={detail}")).text();
        serde_json::from_str::<Value>(&text).unwrap()["memory"].clone()
    };
    larder.hold();
    let first = read("totals");
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for it in &mut clients {
        assert_eq!(200, it.get("/100/1").status);
    }
    larder.pass(9_999);
    assert_eq!(first, read("totals"), "measured 9,999 ms ago");
    assert_eq!(first, read("routes"), "measured 9,999 ms ago");
    larder.pass(1);
    let second = read("routes");
    assert_ne!(first, second, "measured again after 10 s");
    let connections = |it: &Value| part(it, "server", "connections");
    assert!(connections(&second) > connections(&first), "{first} {second}");
    drop(clients);
    until("all statistics measure at once", || connections(&read("all")) < connections(&second));
    larder.release();
}
