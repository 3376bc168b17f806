//! A restart reads footers: its cost does not grow with the stored bytes.

use super::*;

#[test]
fn a_restart_reads_footers_not_bodies() {
    let mut tier = Tier::sized(64 << 20, 1 << 20);
    (0..3000).for_each(|at| tier.disk().write(format!("k{at}").as_bytes(), &blob(at, 10_000)));
    tier.disk().flush().wait().unwrap();
    let segments = tier.segments().len() as u64;
    assert!(segments > 20);
    tier.close();
    tier.calls.faults.plan(None);
    tier.open().unwrap();
    // Some eight a segment: open, look, beginning, end, footer; the last one, of 1 MiB at most, is scanned.
    let calls = tier.calls.faults.calls();
    assert!(calls < 12 * segments + 200, "{calls} calls for {segments} segments");
    assert_eq!(3000, tier.disk().objects());
}

#[test]
fn a_restart_reads_the_index_far_faster_than_it_was_written() {
    let mut tier = Tier::sized(64 << 20, 1 << 20);
    let objects = 30_000;
    let began = larder_stdx::clock::precise_micros();
    for at in 0..objects {
        tier.disk().write(format!("k{at}").as_bytes(), &blob(at, 100));
    }
    tier.disk().flush().wait().unwrap();
    let wrote = larder_stdx::clock::precise_micros() - began;
    tier.close();
    let began = larder_stdx::clock::precise_micros();
    tier.open().unwrap();
    let found = larder_stdx::clock::precise_micros() - began;
    assert_eq!(objects, tier.disk().objects());
    assert!(found * 2 < wrote, "found in {found} µs what was written in {wrote} µs");
    println!("{objects} objects: written in {wrote} µs, found in {found} µs");
}

#[test]
fn restarts_do_not_leave_a_segment_each() {
    let mut tier = Tier::new();
    for at in 0..40 {
        tier.put(&format!("k{at}"), blob(at, 100));
        tier.restart();
    }
    assert_eq!(1, tier.segments().len());
    (0..40).for_each(|at| assert_eq!(Some(noise(at, 100)), tier.get(&format!("k{at}"))));
}

/// Larger than a body that is verified on the calling thread.
const VERY_LARGE: usize = 200_000;

fn roomy() -> Tier {
    Tier::sized(8 << 20, 1 << 20)
}

#[test]
fn a_very_large_body_is_verified_by_the_pool() {
    let mut tier = roomy();
    tier.put("a", blob(1, VERY_LARGE));
    tier.restart();
    assert!(tier.get("a").is_some());
    assert_eq!(1, tier.counters.disk_pool_reads.get());
}

#[test]
fn a_response_that_this_process_wrote_needs_no_reader() {
    let tier = Tier::new();
    tier.put("a", blob(1, 20_000));
    assert!(tier.get("a").is_some());
    assert_eq!(0, tier.counters.disk_pool_reads.get());
}

#[test]
fn a_response_that_must_be_verified_is_a_miss_without_readers() {
    let mut tier = roomy();
    tier.put("a", blob(1, VERY_LARGE));
    tier.close();
    tier.settings.readers = 0;
    tier.open().unwrap();
    assert_eq!(None, tier.get("a"));
    assert_eq!(1, tier.counters.disk_pool_full.get());
    assert!(tier.disk().knows(b"a"), "it is not forgotten for that");
}

#[test]
fn a_response_that_requires_a_device_read_is_not_read_at_once() {
    let mut tier = roomy();
    tier.put("large", blob(1, 9_000));
    tier.put("very large", blob(2, VERY_LARGE));
    tier.restart();
    let now = |tier: &Tier, key: &str| tier.disk().read_now(key.as_bytes(), &[]).map(|it| contents(&it.body));
    assert_eq!(Some(noise(1, 9_000)), now(&tier, "large"), "it is in memory, and soon verified");
    assert_eq!(1, tier.counters.disk_hits.get());
    assert_eq!(None, now(&tier, "very large"), "nobody has verified it");
    assert_eq!((0, 0), (tier.counters.disk_pool_reads.get(), tier.counters.disk_misses.get()));
    assert_eq!(Some(noise(2, VERY_LARGE)), tier.get("very large"));
}
