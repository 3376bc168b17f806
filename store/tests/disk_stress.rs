//! Many write, read and remove at once while segments come and go: right bytes, and no version after its removal.

mod support;

use larder_counters::Counters;
use larder_store::disk::{DiskState, DiskTier};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use support::{Random, body, contents, runtime, settings, stored, version};

const KEYS: u64 = 60;
const STEPS: u64 = 3000;

#[test]
fn concurrent_reads_return_intact_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let counters = Arc::new(Counters::default());
    let disk = DiskTier::open(settings(&directory.path().join("tier"), 1 << 20), counters.clone()).unwrap();
    let next = AtomicU64::new(1);
    // Versions up to this one were removed before anybody looks for the key.
    let removed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    // So that the order of writes and removals of one key is known; reads take no part in it.
    let turns: Vec<Mutex<()>> = (0..KEYS).map(|_| Mutex::new(())).collect();
    let work = |seed: u64| {
        let (mut random, runtime) = (Random(seed), runtime());
        for _ in 0..STEPS {
            let key = random.below(KEYS);
            let (name, at) = (key.to_string(), usize::try_from(key).unwrap());
            match random.below(10) {
                0 => {
                    let _turn = turns[at].lock().unwrap();
                    disk.remove(name.as_bytes());
                    removed[at].store(next.fetch_add(1, SeqCst), SeqCst);
                }
                1..4 => {
                    let _turn = turns[at].lock().unwrap();
                    let version = next.fetch_add(1, SeqCst);
                    disk.write(name.as_bytes(), &stored(body(key, version)));
                }
                _ => {
                    let gone = removed[at].load(SeqCst);
                    if let Some(stored) = runtime.block_on(disk.read(name.as_bytes(), &[])) {
                        let found = version(key, &contents(&stored.body).expect("it is whole"));
                        assert!(found > gone, "key {key}: version {found}, {gone} was removed");
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in [3, 5, 7] {
            let work = &work;
            scope.spawn(move || work(seed));
        }
    });
    disk.flush().wait().unwrap();
    assert_eq!(DiskState::On, disk.state());
    assert!(counters.disk_hits.get() > 500 && counters.disk_segments_dropped.get() > 5);
    assert_eq!(0, counters.disk_corrupt.get() + counters.disk_failures.get());
}
