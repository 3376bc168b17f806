//! How long a hit takes to decide: `cargo run --release -p larder-semantics --example decide_time`.
//! Prints the median of several rounds in nanoseconds a request; no other work is measured.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse;
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_stdx::clock::WallTime;
use std::hint::black_box;
use std::time::Instant;

const SHORT: &[(&str, &str)] = &[("Host", "127.0.0.1:8080"), ("User-Agent", "load/1.0"), ("Accept", "*/*")];
const BROWSER: &[(&str, &str)] = &[
    ("Host", "www.example.com"),
    ("Connection", "keep-alive"),
    ("Cache-Control", "max-age=0"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    ),
    ("Accept", "text/css,*/*;q=0.1"),
    ("Sec-Fetch-Mode", "no-cors"),
    ("Referer", "https://www.example.com/pages/17"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Cookie", "session=0123456789abcdef0123456789abcdef"),
];

fn main() {
    const REQUESTS: u32 = 1_000_000;
    let now = WallTime(1_800_000_000);
    let policy = Policy::default();
    let response = [Field { name: "Cache-Control", value: b"max-age=60" }];
    let meta = Meta::of(200, &response, &policy, now, now);
    for request in [SHORT, BROWSER] {
        let fields: Vec<_> =
            request.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        let mut rounds: Vec<f64> = (0..11)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..REQUESTS {
                    let facts = RequestFacts::read("GET", black_box(&fields));
                    black_box(reuse::decide(Ok(black_box(&meta)), &facts, &policy, now, &mut Silent));
                }
                start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!(
            "{} lines: {:.1} ns (least {:.1}, most {:.1})",
            request.len(),
            rounds[rounds.len() / 2],
            rounds[0],
            rounds[rounds.len() - 1]
        );
    }
}
