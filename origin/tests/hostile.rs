//! Responses with bytes changed at random: each ends in time, none panics, none spoils the next.

mod scripted;

use larder_origin::{OriginLimits, RequestLine};
use proptest::prelude::*;
use scripted::{Scripted, client, limits, run, told};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nX: 1\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
    "HTTP/1.0 304 Not Modified\r\nConnection: keep-alive\r\nContent-Length: 9\r\n\r\n",
];

#[derive(Clone, Debug)]
enum Change {
    Put(usize, u8),
    Insert(usize, u8),
    Cut(usize, usize),
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\r\n :;0159af,".to_vec())];
    prop_oneof![
        (0..200_usize, byte.clone()).prop_map(|(at, it)| Change::Put(at, it)),
        (0..200_usize, byte).prop_map(|(at, it)| Change::Insert(at, it)),
        (0..200_usize, 1..9_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        (0..200_usize, 1..60_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let end = bytes.len();
    match *change {
        Change::Put(at, it) if at < end => bytes[at] = it,
        Change::Insert(at, it) => bytes.insert(at.min(end), it),
        Change::Cut(at, length) => drop(bytes.drain(at.min(end)..(at + length).min(end))),
        Change::Repeat(at, length) => bytes.extend_from_within(at.min(end)..(at + length).min(end)),
        Change::Put(..) => {}
    }
}

#[test]
fn a_hostile_response_does_not_change_the_next_response() {
    let hostile = Arc::new(Mutex::new(Vec::new()));
    let text = hostile.clone();
    let scripted = Scripted::tcp(move |_, mut peer| {
        loop {
            let head = peer.head();
            if head.starts_with("GET /next ") {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext");
            } else if head.is_empty() || !peer.send(text.lock().unwrap().as_slice()) {
                return;
            }
        }
    });
    // Most of them leave something to wait for: the wait is short.
    let short = Duration::from_millis(5);
    let limits = OriginLimits { first_byte: short, between_bytes: short, ..limits() };
    let cases = (prop::sample::select(SEEDS.to_vec()), prop::collection::vec(change(), 0..4));
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }, |((seed, changes) in cases)| {
        let mut bytes = seed.as_bytes().to_vec();
        changes.iter().for_each(|it| apply(&mut bytes, it));
        *hostile.lock().unwrap() = bytes;
        let (origin, _) = client(&scripted, limits);
        run(async {
            told(origin.send(scripted::get()).await).await;
            let mut next = scripted::get();
            next.line = RequestLine::Own { method: "GET".to_owned(), target: "/next".to_owned() };
            // A machine that is busy may be late by itself; anything but that is wrong.
            let report = told(origin.send(next).await).await;
            assert!(report == "200 next" || report.starts_with("Timeout("), "{report}");
        });
    });
}
