//! Everything at once: many clients, few pages, every kind of request and of answer. No client gets another's bytes or
//! waits for ever, and no resource leaks.

use crate::harness::origin::{Received, Script, response};
use crate::harness::tiers::{disk, fleet};
use crate::harness::{Larder, Memcached, Origin, until};

/// A small generator: the storm is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % sides
    }
}

/// Pages answer by the digit at the end of their path; every body says whose it is, and is long enough to be cut.
fn answer(request: &Received) -> Vec<Script> {
    let kind = request.field("foo").unwrap_or("-");
    let body = format!("{} {kind} ", request.target()).repeat(200);
    let (fresh, length) = ("Cache-Control: public, max-age=1, stale-while-revalidate=1", body.len());
    let head = match request.target().as_bytes().last() {
        Some(b'0') => format!("{fresh}\nVary: Foo\nETag: \"{kind}\""),
        Some(b'1') => "Cache-Control: private".to_owned(),
        Some(b'2') => format!("{fresh}\nSet-Cookie: a=1"),
        Some(b'3') => format!("Cache-Control: no-cache\nVary: Foo\nETag: \"{kind}\""),
        Some(b'4') if request.number % 5 == 0 => return vec![Script::Close],
        Some(b'5') => {
            let text =
                format!("HTTP/1.1 200 OK\n{fresh}\nVary: Foo\nContent-Length: {}\n\n{body}", length + 9);
            return vec![Script::Send(response(&text)), Script::Close];
        }
        _ => format!("{fresh}\nVary: Foo\nETag: \"{kind}\""),
    };
    let tag = format!("\"{kind}\"");
    if request.field("if-none-match") == Some(&tag) && request.number % 2 == 0 {
        return vec![Script::Send(response(&format!("HTTP/1.1 304 N\n{head}\n\n")))];
    }
    if let Some(range) = request.field("range").filter(|_| request.number % 3 > 0)
        && let Some((first, last)) = range.strip_prefix("bytes=").and_then(|it| it.split_once('-'))
    {
        let first: usize = first.parse().unwrap();
        let last = last.parse().unwrap_or(length - 1).min(length - 1);
        let text = format!(
            "HTTP/1.1 206 P\n{head}\nContent-Range: bytes {first}-{last}/{length}\n\n{}",
            &body[first..=last]
        );
        return vec![Script::Send(response(&text))];
    }
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\n\n{body}")))]
}

/// One client's part of the storm.
fn blow(nodes: &[Larder], seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..250 {
        let larder = &nodes[dice.roll(nodes.len())];
        let (target, kind) = (format!("/{}", dice.roll(8)), dice.roll(3));
        let (first, last) = (dice.roll(100), 100 + dice.roll(500));
        let method = ["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST"][dice.roll(8)];
        let more = match dice.roll(9) {
            0 => format!("Range: bytes={first}-{last}\r\n"),
            1 => "Authorization: x\r\n".to_owned(),
            2 => "Cache-Control: no-cache\r\n".to_owned(),
            3 => "Cache-Control: no-store\r\n".to_owned(),
            4 => format!("If-None-Match: \"{kind}\"\r\n"),
            _ => String::new(),
        };
        let mut client = larder.client();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\nFoo: {kind}\r\n{more}\r\n"));
        if dice.roll(10) == 0 {
            client.reset();
            continue;
        }
        let it = client.read_for(method);
        assert!(it.status != 0, "no answer: {method} {target} {kind} {more}");
        let whole = format!("{target} {kind} ").repeat(200);
        let expect = match it.status {
            _ if method == "HEAD" => continue,
            200 => &whole[..],
            206 => &whole[first..=last.min(whole.len() - 1)],
            _ => continue,
        };
        assert!(expect.starts_with(&it.text()), "{method} {target} {kind} {more}\n{it:?}");
        assert!(!it.complete || expect.len() == it.body.len(), "{method} {target} {kind} {more}\n{it:?}");
    }
}

const CACHE: &str = "collapse_wait = \"2s\", hit_for_miss = \"1s\"";

#[test]
fn no_client_gets_bytes_of_another_and_no_memory_is_left() {
    let origin = Origin::scripted(answer);
    storm(&[Larder::before(&origin, CACHE)], || ());
}

#[test]
fn nor_with_every_tier_and_a_memcached_that_fails() {
    let origin = Origin::scripted(answer);
    let (memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
    let node = |name: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let top = fleet(&[&memcached], "local_ttl = \"1s\"\nretry = \"1s\"")
            + &disk(&folder)
            + "min_ttl = \"0s\"\n";
        Larder::before_with(&origin, CACHE, &top)
    };
    let nodes = [node("a"), node("b")];
    let step = std::cell::Cell::new(0);
    storm(&nodes, || {
        step.set(step.get() + 1);
        match step.get() % 10 {
            3 => drop(memcached.command("flush_all\r\n")),
            6 => memcached.stop(),
            8 => memcached.go_on(),
            _ => {}
        }
    });
    let sum = |name: &str| nodes.iter().map(|it| it.counter(name)).sum::<u64>();
    assert!(sum("cache_hits_fleet") > 0 && sum("fleet_puts") > 0 && sum("disk_writes") > 0);
}

/// The storm over these nodes, while `meanwhile` happens again and again.
fn storm(nodes: &[Larder], meanwhile: impl Fn()) {
    std::thread::scope(|scope| {
        for seed in 1..=6_u64 {
            scope.spawn(move || blow(nodes, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        for _ in 0..20 {
            meanwhile();
            for larder in nodes {
                larder.advance(1);
                larder.counter("requests");
            }
        }
    });
    nodes.iter().for_each(nothing_is_left);
}

/// Every page goes, and with it every byte, if no fill holds any.
fn nothing_is_left(larder: &Larder) {
    until("no connection is left", || larder.counter("connections_open") <= 1);
    let used = || {
        let stats: serde_json::Value =
            serde_json::from_str(&larder.admin_get("/cache/stats").text()).unwrap();
        stats["ram"]["used_bytes"].as_u64().unwrap()
    };
    // The disk's index is of the budget, too, and of each removal it keeps some bytes until its segment is sealed. The
    // storm's own bytes are many times that.
    let most = if larder.counter("disk_removals") > 0 { 1 << 20 } else { 2048 };
    until("nothing is kept and nothing in flight", || {
        for page in 0..8 {
            larder.client().request("DELETE", &format!("/{page}"), "", "");
        }
        used() < most
    });
}
