//! The recorder: the recorded fields, its bounds, and the rate of its sample.

use super::*;
use crate::stream::tests::{hit, with_request};
use crate::{Finished, RequestOutcome};
use larder_semantics::field::Field;

fn fields<'a>(head: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    head.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect()
}

/// Records a request with these fields to this target.
fn record(feed: &RecorderFeed, outcome: &RequestOutcome, target: &str, head: &[(&str, &str)], weight: u32) {
    let fields = fields(head);
    with_request(outcome, |it| feed.record(&Finished { target, fields: &fields, ..*it }, weight));
}

#[test]
fn a_record_has_names_of_cookies_and_no_secret() {
    let recorder = Recorder::default();
    let feed = recorder.worker(1);
    let head = [
        ("Cookie", "session=s3cret; theme=; s3cret"),
        ("Authorization", "Basic s3cret"),
        ("X-Api-Key", "s3cret"),
        ("Accept", "text/html"),
        ("Sec-CH-UA", "\"Chromium\""),
    ];
    record(&feed, &hit(), "/page?a=1", &head, 3);
    let read = recorder.read();
    let it = &read.records[0];
    assert_eq!(("/page?a=1", 3), (it.target(), it.weight));
    let kept = facts::fields(it.fields());
    let names: Vec<&str> = kept.iter().map(|it| it.name).collect();
    assert_eq!(["Cookie", "Authorization", "X-Api-Key", "Accept"], names[..]);
    let cookie = String::from_utf8(kept[0].value.to_vec()).unwrap();
    let (session, rest) = cookie.split_once("; ").unwrap();
    assert_eq!((16, "session="), (session.len(), &session[..8]), "{cookie}");
    assert!(rest.starts_with("theme=; ="), "{cookie}");
    assert_eq!((8, 8), (text(&kept[1]).len(), text(&kept[2]).len()), "hashes of credentials");
    let ring = recorder.rings()[0].clone();
    let ring = ring.lock().unwrap();
    assert!(!ring.text.windows(6).any(|it| it == b"s3cret"), "not in any byte of the ring");
    assert!(!ring.scratch.windows(6).any(|it| it == b"s3cret"));
}

fn text<'a>(it: &Field<'a>) -> &'a str {
    std::str::from_utf8(it.value).unwrap()
}

#[test]
fn equal_values_have_equal_hashes_of_one_process_only() {
    let hash = |recorder: &Recorder, value: &str| {
        let feed = recorder.worker(1);
        record(&feed, &hit(), "/", &[("Cookie", value)], 1);
        recorder.read().records.last().unwrap().fields().to_vec()
    };
    let (one, other) = (Recorder::default(), Recorder::default());
    assert_eq!(hash(&one, "a=1"), hash(&one, "a=1"));
    assert_ne!(hash(&one, "a=1"), hash(&one, "a=2"));
    assert_ne!(hash(&one, "a=1"), hash(&other, "a=1"));
}

#[test]
fn the_ring_is_bounded_and_has_the_latest() {
    let recorder = Recorder::default();
    let feed = recorder.worker(1);
    let agents: Vec<String> = (0..40).map(|it| format!("Mozilla/5.0 ({it}) {}", "x".repeat(300))).collect();
    for number in 0..3 * RECORDS {
        let agent = agents[number % agents.len()].as_str();
        record(&feed, &hit(), &format!("/{number}"), &[("User-Agent", agent)], 1);
    }
    let read = recorder.read();
    assert_eq!(RECORDS, read.records.len(), "the fields of a browser are kept once");
    assert!(recorder.bytes() <= BYTES as u64);
    let last = read.records.last().unwrap();
    assert_eq!(format!("/{}", 3 * RECORDS - 1), last.target());
    for it in read.records.iter().step_by(1000) {
        let number: usize = it.target()[1..].parse().unwrap();
        assert_eq!(agents[number % agents.len()], text(&facts::fields(it.fields())[0]));
    }
    // Fields that differ each time fill the bytes before the number of records.
    for number in 0..RECORDS {
        let agent = format!("{number} {}", "y".repeat(900));
        record(&feed, &hit(), "/", &[("User-Agent", &agent)], 1);
    }
    let read = recorder.read();
    assert!(read.records.len() > 2500 && read.records.len() < RECORDS / 2, "{}", read.records.len());
    assert!(recorder.bytes() <= BYTES as u64);
}

#[test]
fn a_request_that_is_too_large_is_counted_and_not_recorded() {
    let recorder = Recorder::default();
    let feed = recorder.worker(1);
    let long = "x".repeat(LARGEST);
    record(&feed, &hit(), "/", &[("User-Agent", &long)], 2);
    record(&feed, &hit(), &long, &[], 1);
    let read = recorder.read();
    assert_eq!((0, 3), (read.records.len(), read.left_out));
}

#[test]
fn a_sample_stands_for_all_requests() {
    let class = SampledClass::new(32, 4096);
    let tick = |requests: u32| -> (u32, u64, u64) {
        let taken: Vec<u32> = (0..requests).filter_map(|_| class.takes()).collect();
        let weight = taken.iter().map(|it| u64::from(*it)).sum();
        (u32::try_from(taken.len()).unwrap(), weight, class.tick())
    };
    assert_eq!((100, 100, 0), tick(100), "a quiet server records all");
    let (records, weight, left_out) = tick(25_000);
    assert_eq!(25_000, weight + left_out, "every request of a burst is accounted for");
    assert!(records <= 4096);
    for _ in 0..10 {
        let (records, weight, left_out) = tick(25_000);
        assert!(records <= 33, "{records}");
        assert!((24_000..26_000).contains(&(weight + left_out)), "{weight} {left_out}");
    }
    tick(10);
    tick(10);
    assert_eq!(10, tick(10).0, "all again after the burst");
}
