//! A slow reader reads from the spool: everything, or the bytes before a fault, and never a wrong byte.

use super::*;
use crate::device::syscalls::Syscalls;
use crate::device::tests::Fail;
use crate::spool::{SINGLE_CALL_TIMEOUT, SpoolSettings as Where};
use rustix::io::Errno;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

struct Spooling {
    store: Arc<Store>,
    calls: Syscalls,
    empty: u64,
    body: Vec<u8>,
    _directory: TempDir,
}

fn spooling(size: u64, length: usize) -> Spooling {
    let (store, calls, directory) = (store(8 << 20), Syscalls::default(), tempfile::tempdir().unwrap());
    let settings = Where { directory: directory.path().into(), size };
    store.spool_with(settings, calls.clone()).unwrap();
    let body = (0..length as u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    Spooling { empty: store.used(), store, calls, body, _directory: directory }
}

impl Spooling {
    /// One who leads and some who follow what is not kept.
    fn begin(&self, followers: usize) -> (FillWriter, FillReader, Vec<FillReader>) {
        let (mut writer, reader) = lead(&self.store, b"k");
        let followers = (0..followers).map(|_| follow(&self.store, b"k")).collect();
        writer.head(shared(), false);
        (writer, reader, followers)
    }

    async fn pour(&self, mut writer: FillWriter) {
        for it in self.body.chunks(CHUNK) {
            if writer.push(Bytes::copy_from_slice(it), MOST).await.is_err() {
                return;
            }
        }
        writer.finish(FillEnd::Complete(None));
    }

    /// Pours for one who reads all, and others who do not read meanwhile.
    async fn pour_for_one(&self, followers: usize) -> Vec<FillReader> {
        let (writer, mut fast, slow) = self.begin(followers);
        let ((), (read, end)) = tokio::join!(self.pour(writer), all_of(&mut fast));
        assert!(read == self.body && matches!(end, FillEnd::Complete(None)), "{}", read.len());
        slow
    }

    fn laggards(&self) -> u64 {
        self.store.counters.fill_laggards.get()
    }

    /// Waits until nothing is in the spool: its thread may have the file for a moment.
    #[track_caller]
    fn is_empty(&self) {
        for _ in 0..1_000_000 {
            if self.store.counters.fill_spool_bytes.get() == 0 {
                assert_eq!(self.empty, self.store.used());
                return;
            }
            std::thread::yield_now();
        }
        panic!("{} bytes are in it", self.store.counters.fill_spool_bytes.get());
    }
}

async fn all_of(reader: &mut FillReader) -> (Vec<u8>, FillEnd) {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(end) => return (all, end),
        }
    }
}

#[tokio::test]
async fn a_slow_reader_gets_the_whole_body_from_the_spool() {
    for laggards in [1, 2, 20] {
        let it = spooling(GIB, 3_000_000);
        let mut slow = it.pour_for_one(laggards).await;
        let counters = &it.store.counters;
        assert_eq!((1, 0), (counters.fill_spooled.get(), counters.fill_spool_given_up.get()));
        assert!((2_500_000..3_000_000).contains(&counters.fill_spool_bytes.get()));
        assert!(it.store.used() < it.empty + WINDOW + 2 * CHUNK as u64, "the rest is not in RAM");
        let read = join_all(slow.iter_mut().map(all_of).collect()).await;
        for (read, end) in read {
            assert!(read == it.body && matches!(end, FillEnd::Complete(None)), "{}", read.len());
        }
        assert_eq!(0, it.laggards());
        drop(slow);
        it.is_empty();
    }
}

/// They go, stop within a piece, catch up, fall back: what they have is the body.
#[tokio::test]
async fn readers_that_move_within_the_spool_lose_no_bytes() {
    let it = spooling(GIB, 4_000_000);
    let (writer, mut fast, mut slow) = it.begin(3);
    let mut late = slow.pop().unwrap();
    let stroll = async |mut reader: FillReader, each: usize| {
        let mut all = Vec::new();
        loop {
            for _ in 0..each {
                tokio::task::yield_now().await;
                // Given up and asked again.
                let _ = now(reader.next()).map(|it| it.map(|it| all.extend_from_slice(&it)));
            }
            match reader.next().await {
                Ok(bytes) => all.extend_from_slice(&bytes),
                Err(end) => return (all, end),
            }
        }
    };
    let (one, two) = (slow.pop().unwrap(), slow.pop().unwrap());
    let ((), first, one, two) =
        tokio::join!(it.pour(writer), all_of(&mut fast), stroll(one, 3), stroll(two, 40));
    for (read, end) in [first, one, two, all_of(&mut late).await] {
        assert!(read == it.body && matches!(end, FillEnd::Complete(None)), "{}", read.len());
    }
    drop((fast, late));
    it.is_empty();
}

/// Whatever call fails, and from when on: whoever lags has a beginning, and the others have all.
#[tokio::test]
async fn a_slow_reader_is_left_behind_if_the_device_fails() {
    let cases = [(1, Errno::ACCESS), (2, Errno::NOSPC), (4, Errno::IO), (6, Errno::NOSPC)];
    let check = async |first, errno| {
        let it = spooling(GIB, 2_000_000);
        it.calls.faults.plan(Some(Fail { first, count: u64::MAX, errno }));
        let mut slow = it.pour_for_one(3).await;
        for (read, end) in join_all(slow.iter_mut().map(all_of).collect()).await {
            assert!(it.body.starts_with(&read) && read.len() < it.body.len());
            assert!(matches!(end, FillEnd::LeftBehind), "{end:?}");
        }
        assert_eq!((3, 1), (it.laggards(), it.store.counters.fill_spool_given_up.get()), "{first}");
        drop(slow);
        it.is_empty();
        // The next one is not to find it out again.
        let calls = it.calls.faults.calls();
        it.pour_for_one(1).await;
        assert_eq!((calls, 4), (it.calls.faults.calls(), it.laggards()));
    };
    join_all(cases.map(|(first, errno)| check(first, errno)).into()).await;
}

#[tokio::test]
async fn a_slow_reader_is_left_behind_if_the_spool_is_full() {
    for (size, spooled) in [(1 << 20, 1), (1, 0)] {
        let it = spooling(size, 3_000_000);
        let mut slow = it.pour_for_one(2).await;
        let counters = &it.store.counters;
        assert_eq!((spooled, 1), (counters.fill_spooled.get(), counters.fill_spool_given_up.get()));
        for slow in &mut slow {
            let (read, end) = all_of(slow).await;
            assert!(it.body.starts_with(&read) && matches!(end, FillEnd::LeftBehind), "{end:?}");
        }
        assert_eq!(2, it.laggards());
        drop(slow);
        it.is_empty();
        // Another body has room.
        let other = it.pour_for_one(0).await;
        assert!(other.is_empty());
    }
}

#[tokio::test]
async fn a_reader_whose_part_of_the_spool_cannot_be_read_is_cut_alone() {
    let it = spooling(GIB, 2_000_000);
    let mut slow = it.pour_for_one(2).await;
    let some = slow[0].next().await.unwrap();
    it.calls.faults.plan(Some(Fail { first: 1, count: 1, errno: Errno::IO }));
    assert!(matches!(all_of(&mut slow[0]).await, (read, FillEnd::LeftBehind) if read.is_empty()));
    assert_eq!(1, it.laggards());
    let (read, end) = all_of(&mut slow[1]).await;
    assert!(read == it.body && matches!(end, FillEnd::Complete(None)));
    drop(slow);
    drop(some);
    it.is_empty();
}

#[tokio::test]
async fn a_cancelled_reader_leaves_the_body_of_other_readers_complete() {
    // Those who lag, while it comes.
    let it = spooling(GIB, 3_000_000);
    let (mut writer, mut fast, slow) = it.begin(2);
    let half = it.body.len() / 2;
    let mut read = Vec::new();
    for piece in it.body[..half].chunks(CHUNK) {
        let push = async { writer.push(Bytes::copy_from_slice(piece), MOST).await.unwrap() };
        let ((), bytes) = tokio::join!(push, fast.next());
        read.extend_from_slice(&bytes.unwrap());
    }
    assert!(it.store.counters.fill_spool_bytes.get() > 0);
    drop(slow);
    for piece in it.body[half..].chunks(CHUNK) {
        let push = async { writer.push(Bytes::copy_from_slice(piece), MOST).await.unwrap() };
        let ((), bytes) = tokio::join!(push, fast.next());
        read.extend_from_slice(&bytes.unwrap());
    }
    assert!(read == it.body);
    writer.finish(FillEnd::Complete(None));
    drop(fast);
    it.is_empty();

    // The one who began it, in the middle.
    let it = spooling(GIB, 3_000_000);
    let (writer, mut fast, mut slow) = it.begin(2);
    let leaves = async {
        for _ in 0..20 {
            fast.next().await.unwrap();
        }
        drop(fast);
    };
    let (one, two) = slow.split_at_mut(1);
    let behind = async {
        while it.store.counters.fill_spooled.get() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::join!(all_of(&mut one[0]), all_of(&mut two[0]))
    };
    let ((), (), (one, two)) = tokio::join!(it.pour(writer), leaves, behind);
    for (read, end) in [one, two] {
        assert!(read == it.body && matches!(end, FillEnd::Complete(None)), "{}", read.len());
    }
    drop(slow);
    it.is_empty();

    // The origin: who lags sees that, behind all that it sent.
    let it = spooling(GIB, 2_000_000);
    let (mut writer, mut fast, mut slow) = it.begin(1);
    let cut = async {
        for piece in it.body.chunks(CHUNK) {
            writer.push(Bytes::copy_from_slice(piece), MOST).await.unwrap();
        }
        drop(writer);
    };
    let ((), (read, end)) = tokio::join!(cut, all_of(&mut fast));
    assert!(read == it.body && matches!(end, FillEnd::Failed));
    let (read, end) = all_of(&mut slow[0]).await;
    assert!(read == it.body && matches!(end, FillEnd::Failed));
    drop((fast, slow));
    it.is_empty();
}

/// A device that hangs is waited for once.
#[tokio::test]
async fn a_slow_reader_is_left_behind_if_the_device_hangs() {
    let it = spooling(GIB, 2_000_000);
    it.calls.faults.let_in(Some(2));
    let mut slow = it.pour_for_one(1).await;
    let (read, end) = all_of(&mut slow[0]).await;
    assert!(it.body.starts_with(&read) && matches!(end, FillEnd::LeftBehind), "{end:?}");
    assert_eq!(1, it.store.counters.fill_spool_given_up.get());
    it.calls.faults.let_in(None);
    drop(slow);
    it.is_empty();
}

/// A kernel that writes back gigabytes stops every writer for seconds: a client alone loses nothing by the wait.
#[tokio::test(start_paused = true)]
async fn a_device_that_hangs_for_seconds_is_awaited_for_one_reader() {
    let it = spooling(GIB, 3_000_000);
    it.calls.faults.let_in(Some(2));
    let (mut writer, mut only, _) = it.begin(0);
    writer.drain(WithoutSpool::Cut);
    // As long as such a task runs, the time of the test passes only by `advance`.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let held = tokio::task::spawn_blocking(move || ended.recv());
    let seconds = async {
        for _ in 0..80 {
            tokio::time::advance(SINGLE_CALL_TIMEOUT / 100).await;
        }
        assert_eq!(0, it.store.counters.fill_spool_given_up.get());
        it.calls.faults.let_in(None);
    };
    tokio::join!(it.pour(writer), seconds);
    let (read, end_of_body) = all_of(&mut only).await;
    assert!(read == it.body && matches!(end_of_body, FillEnd::Complete(None)), "{}", read.len());
    assert_eq!(1, it.store.counters.fill_spooled.get());
    drop((only, end));
    let _ = held.await;
    it.is_empty();
}

/// A failure of the device is not the end for a client that reads nothing: its body is offered to the spool again.
#[tokio::test(start_paused = true)]
async fn a_body_is_offered_again_after_a_failure() {
    let it = spooling(GIB, 3_000_000);
    it.calls.faults.plan(Some(Fail { first: 3, count: 1, errno: Errno::IO }));
    let (mut writer, mut only, _) = it.begin(0);
    writer.drain(WithoutSpool::Wait);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let held = tokio::task::spawn_blocking(move || ended.recv());
    let counters = &it.store.counters;
    let seconds = async {
        while counters.fill_spool_given_up.get() == 0 {
            tokio::task::yield_now().await;
        }
        let before = counters.fill_spool_bytes.get();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(before, counters.fill_spool_bytes.get(), "it rests");
        larder_stdx::clock::advance_monotonic(11_000);
        tokio::time::advance(Duration::from_secs(2)).await;
    };
    tokio::join!(it.pour(writer), seconds);
    assert_eq!((1, 1), (counters.fill_spooled.get(), counters.fill_spool_given_up.get()));
    let (read, end_of_body) = all_of(&mut only).await;
    assert!(read == it.body && matches!(end_of_body, FillEnd::Complete(None)), "{}", read.len());
    drop((only, end));
    let _ = held.await;
    it.is_empty();
}

/// Nobody waits, so nothing is written: one alone, and two of whom none has read what there is.
#[tokio::test]
async fn a_fill_without_waiting_readers_is_not_spooled() {
    let it = spooling(GIB, 1_000_000);
    let (mut writer, reader, slow) = it.begin(1);
    while let Some(pushed) = now(writer.push(Bytes::from_static(&[7; CHUNK]), MOST)) {
        pushed.unwrap();
    }
    drop(slow);
    assert!(now(writer.push(Bytes::from_static(&[7; CHUNK]), MOST)).is_none(), "the other is waited for");
    assert_eq!(0, it.store.counters.fill_spooled.get());
    drop((reader, writer));
    it.is_empty();
}
