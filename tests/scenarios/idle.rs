//! A quiet process becomes small again: unused entries are evicted where the configuration says so, and the memory
//! returns to the system.

use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, until};

/// An origin whose `/LENGTH/N` is a page of that length.
fn sized() -> Origin {
    Origin::scripted(|request| {
        let length = request.target().split('/').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=86400\n\n{}", "x".repeat(length));
        vec![Script::Send(response(&text))]
    })
}

/// Asks for some 60 MiB of pages of all sizes, on several connections; each page is asked for twice.
fn fill(larder: &Larder) {
    let clients: Vec<_> = (0..4)
        .map(|part| {
            let mut client = larder.client();
            std::thread::spawn(move || {
                for (length, count) in
                    [(400, 500), (3_000, 500), (12_000, 300), (100_000, 50), (1_000_000, 3)]
                {
                    for n in 0..count {
                        let target = format!("/{length}/{part}-{n}");
                        client.get(&target);
                        assert!(client.get(&target).is_hit(), "{target}");
                    }
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|it| it.join().unwrap());
}

/// The resident memory now, with all of the arena, which is only partly mapped.
fn resident(larder: &Larder) -> u64 {
    let line = |name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", larder.child.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap().to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    line("RssAnon:") + line("RssFile:") + larder.resident_arena()
}

#[test]
fn memory_returns_to_its_start_after_an_idle_minute() {
    let larder = Larder::before_with(&sized(), "", "cache.ram.idle = \"1m\"");
    // Each worker is up, and has what it needs for a page.
    (0..16).for_each(|n| drop(larder.get(&format!("/400/first-{n}"))));
    let start = resident(&larder);
    fill(&larder);
    let full = resident(&larder);
    assert!(full > start + (50 << 20), "{start} to {full}");
    larder.advance(61);
    until("memory is given back", || {
        // What was asked for just before the clock was looked at may be taken to have been asked for just after.
        larder.advance(8);
        resident(&larder) < start + start / 5
    });
    assert!(larder.counter("cache_idle_evictions") >= 5400);
}

#[test]
fn without_the_option_everything_stays() {
    let larder = Larder::before(&sized(), "");
    larder.get("/400/1");
    larder.advance(3600);
    larder.advance(3600);
    assert!(larder.get("/400/1").is_hit());
    assert_eq!(0, larder.counter("cache_idle_evictions"));
}

#[test]
fn a_requested_page_stays_in_the_cache() {
    let larder = Larder::before_with(&sized(), "", "cache.ram.idle = \"1m\"");
    larder.get("/400/used");
    larder.get("/400/idle");
    // Its time begins when a sweep first looks, which may be after some of these steps.
    until("the other is gone", || {
        larder.advance(8);
        assert!(larder.get("/400/used").is_hit());
        larder.counter("cache_idle_evictions") == 1
    });
    assert!(larder.get("/400/used").is_hit());
}
