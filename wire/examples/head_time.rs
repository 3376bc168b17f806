//! How long a request head takes to read: `cargo run --release -p larder-wire --example head_time`.
//! Prints the median of several rounds in nanoseconds a head; no other work is measured.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use larder_semantics::scheme::Scheme;
use larder_wire::http1::request::{ParsedRequest, parse};
use larder_wire::message::{FieldStorage, HeadLimits};
use std::hint::black_box;
use std::time::Instant;

const SHORT: &str =
    "GET /pages/17 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: load/1.0\r\nAccept: */*\r\n\r\n";
const BROWSER: &str = "GET /static/app.css?v=17 HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36\r\n\
    Accept: text/css,*/*;q=0.1\r\nReferer: https://www.example.com/pages/17\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\nCookie: session=0123456789abcdef0123456789abcdef\r\n\r\n";

fn main() {
    const HEADS: u32 = 200_000;
    let limits = HeadLimits { head: 32 * 1024, target: 8 * 1024, scheme: Scheme::Http };
    for raw in [SHORT, BROWSER] {
        let mut rounds: Vec<f64> = (0..21)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..HEADS {
                    let mut storage = FieldStorage::new();
                    match parse(black_box(raw.as_bytes()), &limits, &mut storage) {
                        Ok(ParsedRequest::Head(head, length)) => {
                            black_box((head, length));
                        }
                        other => panic!("{other:?}"),
                    }
                }
                start.elapsed().as_secs_f64() * 1e9 / f64::from(HEADS)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!(
            "{:4} bytes, {} lines: {:.0} ns (least {:.0}, most {:.0})",
            raw.len(),
            raw.matches("\r\n").count() - 2,
            rounds[rounds.len() / 2],
            rounds[0],
            rounds[rounds.len() - 1]
        );
    }
}
