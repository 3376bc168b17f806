//! The parts of memory add up to what the process has resident, and each grows by what it is for.

use super::stats;
use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;

/// Bytes of one part; zero where there is none.
fn part(memory: &Value, tier: &str, purpose: &str) -> u64 {
    let parts = memory["parts"].as_array().unwrap();
    let found = parts.iter().find(|it| it["tier"] == tier && it["purpose"] == purpose);
    found.map_or(0, |it| it["bytes"].as_u64().unwrap())
}

/// What the kernel says from outside: resident memory without shared pages, and the pages of the arena.
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

#[test]
fn the_parts_add_up_to_what_is_resident() {
    // `/LENGTH/SEED` has a body of that length.
    let origin = Origin::scripted(|request| {
        let mut parts = request.target().split('/').skip(1).map(|it| it.parse().unwrap_or(0));
        let (length, seed) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let body: String = (0..length).map(|at| char::from(b'a' + ((seed + at) % 26) as u8)).collect();
        vec![Script::Send(response(&format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{body}")))]
    });
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
        let (told, attributed) =
            (memory["rss_bytes"].as_u64().unwrap(), memory["attributed_bytes"].as_u64().unwrap());
        let seen = resident(&larder);
        last = format!("{seen} seen: {memory}");
        if std::env::var_os("LARDER_SHOW").is_some() {
            eprintln!("{:+.2} %: {last}", 100.0 * (attributed as f64 - seen as f64) / seen as f64);
        }
        part(&memory, "server", "allocator") > 0
            && told.abs_diff(seen) <= seen / 50
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
}
