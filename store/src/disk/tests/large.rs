//! Bodies that RAM cannot hold.

use super::*;
use crate::disk::{BodyNotKept, LargeWrite};

const SEGMENT: u64 = 1 << 20;

fn tier() -> Tier {
    Tier::sized(8 << 20, SEGMENT)
}

fn disk(tier: &Tier) -> &Arc<DiskTier> {
    tier.disk.as_ref().unwrap()
}

fn push(tier: &Tier, large: &mut LargeWrite, bytes: &[u8]) -> Result<(), BodyNotKept> {
    for piece in bytes.chunks(20_000) {
        tier.runtime.block_on(large.push(Bytes::copy_from_slice(piece)))?;
    }
    Ok(())
}

fn keep(tier: &Tier, key: &str, bytes: &[u8]) -> Result<(), BodyNotKept> {
    let mut large = disk(tier).begin_large(None).ok_or(BodyNotKept)?;
    push(tier, &mut large, bytes)?;
    let body = tier.runtime.block_on(large.finish())?;
    assert_eq!(bytes.len() as u64, body.len());
    tier.put(key, sample::plain(body));
    Ok(())
}

#[test]
fn a_body_written_in_pieces_is_restored_also_after_a_kill() {
    let tier = tier();
    let bytes = noise(1, 900_000);
    keep(&tier, "a", &bytes).unwrap();
    assert!(matches!(tier.read("a", &[]).unwrap().body, StoredBody::Disk(_)));
    assert!(Some(&bytes) == tier.get("a").as_ref());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tier");
    std::fs::create_dir(&path).unwrap();
    for it in std::fs::read_dir(tier.path()).unwrap() {
        let it = it.unwrap();
        std::fs::copy(it.path(), path.join(it.file_name())).unwrap();
    }
    let next = Tier::within(directory, 8 << 20, SEGMENT);
    assert!(Some(bytes) == next.get("a"));
}

/// What the device has lost is no body, whatever the file gives back in its place.
#[test]
fn writes_that_are_lost_leave_no_body_that_could_be_taken_for_right() {
    for lost in [0..1, 3..4, 8..9, 0..9] {
        let tier = tier();
        let bytes = noise(1, 900_000);
        let mut large = disk(&tier).begin_large(None).unwrap();
        for (at, piece) in bytes.chunks(100_000).enumerate() {
            // Each piece is written before the next comes, or lost.
            tier.calls.faults.lose_writes(lost.contains(&at));
            push(&tier, &mut large, piece).unwrap();
            tier.runtime.block_on(large.flush()).unwrap();
        }
        tier.calls.faults.lose_writes(false);
        let body = tier.runtime.block_on(large.finish()).unwrap();
        tier.put("a", sample::plain(body));
        assert_eq!(None, tier.get("a"), "{lost:?}");
        assert_eq!(1, tier.counters.disk_corrupt.get(), "{lost:?}");
    }
}

#[test]
fn a_truncated_large_body_leaves_no_file() {
    let tier = tier();
    let names = || std::fs::read_dir(tier.path()).unwrap().count();
    let before = (tier.disk().bytes(), names());
    let mut large = disk(&tier).begin_large(Some(900_000)).unwrap();
    push(&tier, &mut large, &noise(1, 800_000)).unwrap();
    // What is written has no name.
    assert_eq!(before.1, names());
    drop(large);
    // The pool's thread may have it for a moment.
    for _ in 0..100_000 {
        if tier.disk().bytes() == before.0 {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(before, (tier.disk().bytes(), names()));
    assert_eq!(0, tier.disk().objects());
}

#[test]
fn a_body_larger_than_a_segment_is_refused_or_abandoned() {
    let tier = tier();
    assert!(disk(&tier).begin_large(Some(SEGMENT)).is_none());
    assert_eq!(Err(BodyNotKept), keep(&tier, "a", &noise(1, 1_100_000)));
    assert_eq!((2, None), (tier.counters.disk_too_large.get(), tier.get("a")));
}

#[test]
fn a_hanging_device_delays_a_body_for_at_most_its_timeout() {
    let tier = tier();
    let mut large = disk(&tier).begin_large(None).unwrap();
    large.timeout = Duration::from_millis(1);
    tier.calls.faults.let_in(Some(0));
    let bytes = Bytes::from(noise(1, 100_000));
    let pushed = (0..).map(|_| tier.runtime.block_on(large.push(bytes.clone())));
    // A part that is being written, a mebibyte that waits: less than two segments' worth of it.
    let taken = pushed.take_while(|it| it.is_ok()).count();
    assert!(taken < 15, "{taken}");
    drop(large);
    tier.calls.faults.let_in(None);
}

#[test]
fn four_are_on_their_way_at_a_time() {
    let tier = tier();
    let mut four: Vec<_> = (0..4).map(|_| disk(&tier).begin_large(None).unwrap()).collect();
    assert!(disk(&tier).begin_large(None).is_none());
    assert_eq!(1, tier.counters.disk_large_given_up.get());
    four.pop();
    assert!(disk(&tier).begin_large(None).is_some());
}

#[test]
fn a_failing_device_gives_the_body_up_and_is_no_error_of_the_tier() {
    let tier = tier();
    tier.text("a", "there");
    tier.calls.faults.plan(Some(Fail { first: 1, count: u64::MAX, errno: Errno::NOSPC }));
    assert_eq!(Err(BodyNotKept), keep(&tier, "b", &noise(1, 900_000)));
    tier.calls.faults.plan(None);
    assert_eq!(Some(b"there".to_vec()), tier.get("a"));
    keep(&tier, "b", &noise(1, 900_000)).unwrap();
    assert!(tier.get("b").is_some());
}

#[test]
fn all_large_bodies_together_stay_within_the_size() {
    let tier = tier();
    for round in 0..30 {
        keep(&tier, &format!("k{round}"), &noise(round, 700_000)).unwrap();
        assert!(tier.disk().bytes() <= 8 << 20, "{}", tier.disk().bytes());
    }
    assert!(tier.get("k29").is_some() && tier.disk().objects() > 4);
}
