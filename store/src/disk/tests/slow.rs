//! A device with hanging reads is not used, and probed from time to time.

use super::*;

/// A tier with `a` to `f` on its device, which then hangs; no reader is lost when the test ends.
struct Hanging(Tier);

impl Hanging {
    fn new(retry: Duration) -> Hanging {
        let mut tier = Tier::new();
        tier.close();
        tier.settings.retry = retry;
        tier.open().unwrap();
        ["a", "b", "c", "d", "e", "f"].iter().for_each(|it| tier.text(it, it));
        tier.calls.faults.reads_hang(true);
        Hanging(tier)
    }

    /// A read without waiting for the clock.
    async fn read(&self, key: &str) -> bool {
        self.0.disk().read(key.as_bytes(), &[]).await.is_some()
    }

    fn slow_and_skipped(&self) -> (u64, u64) {
        (self.0.counters.disk_slow.get(), self.0.counters.disk_reads_skipped.get())
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.calls.faults.reads_hang(false);
    }
}

fn within(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future);
}

#[test]
fn reads_skip_a_device_after_several_that_hang() {
    let tier = Hanging::new(Duration::from_secs(10));
    within(async {
        tokio::time::pause();
        for key in ["a", "b", "c"] {
            assert!(!tier.0.disk().skips_reads());
            assert!(!tier.read(key).await);
        }
        assert!(tier.0.disk().skips_reads());
        assert_eq!(1, tier.0.counters.disk_reads_off.get());
        let before = tokio::time::Instant::now();
        for key in ["d", "e", "f"].repeat(20) {
            assert!(!tier.read(key).await);
        }
        assert_eq!(Duration::ZERO, before.elapsed());
        assert_eq!((3, 60), tier.slow_and_skipped());
        // One asks in the name of all.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!((false, false, false), tokio::join!(tier.read("a"), tier.read("b"), tier.read("c")));
        assert_eq!((4, 62), tier.slow_and_skipped());
        assert!(!tier.read("d").await);
        assert_eq!((4, 63), tier.slow_and_skipped());
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        tier.0.calls.faults.reads_hang(false);
        assert!(tier.read("a").await && tier.read("b").await);
        assert_eq!((4, 63), tier.slow_and_skipped());
        assert!(!tier.0.disk().skips_reads());
        assert_eq!(0, tier.0.counters.disk_reads_off.get());
    });
}

#[test]
fn simultaneous_hanging_reads_count_once() {
    let tier = Hanging::new(Duration::from_secs(10));
    within(async {
        tokio::time::pause();
        tokio::join!(tier.read("a"), tier.read("b"), tier.read("c"), tier.read("d"));
        assert_eq!((4, 0), tier.slow_and_skipped());
        assert!(!tier.0.disk().skips_reads());
        // Nor are those that are far apart.
        tokio::time::advance(Duration::from_secs(70)).await;
        tier.read("a").await;
        tokio::time::advance(Duration::from_secs(70)).await;
        tier.read("b").await;
        assert!(!tier.0.disk().skips_reads());
    });
}

#[test]
fn a_recovered_device_is_noticed_without_reads() {
    let tier = Hanging::new(Duration::from_secs(10));
    let disk = tier.0.disk();
    within(async {
        tokio::time::pause();
        for key in ["a", "b", "c"] {
            assert!(!tier.read(key).await);
        }
        for _ in 0..30 {
            disk.look();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(disk.skips_reads(), "it hangs still");
        assert_eq!((3, 0), tier.slow_and_skipped(), "and nobody was told to wait for it");
        tier.0.calls.faults.reads_hang(false);
        for _ in 0..10_000 {
            disk.look();
            tokio::time::advance(Duration::from_secs(1)).await;
            if !disk.skips_reads() {
                break;
            }
            // The reader's thread needs a processor, which others may have.
            std::thread::park_timeout(Duration::from_millis(1));
        }
        assert!(!disk.skips_reads());
        assert_eq!(0, tier.0.counters.disk_reads_off.get());
    });
}
