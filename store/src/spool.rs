//! The spool: bytes of bodies that are not kept, for slow readers, in files without a name and within one limit for the
//! process. Threads of its own write and read them, so that no event loop waits for the device. A read returns the
//! written bytes, or fails. `fill` decides which bytes go there, and reads them.

use crate::device::pool::Pool;
use crate::device::syscalls::{FailedCall, Syscalls};
use crate::memory_budget::BudgetCharge;
use bytes::Bytes;
use larder_counters::Counters;
use larder_stdx::clock;
use larder_stdx::descriptors::HeldDescriptor;
use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

/// Threads that wait for the device; they are started with the first body.
const THREADS: usize = 2;

/// The most reads and writes in their queue: of the 32 places for each thread the rest is for closing files. Further ones
/// wait outside, so that no write waits for more than a few reads.
const CONCURRENT_CALLS: usize = 12 * THREADS;

/// How long a write is awaited while the device completes no call at all, where other clients wait for it: after that it counts as
/// hanging, and slow clients may be cut, which is worse for them than a pause is for the others. The wait behind other writes in the
/// queue is not the device's fault.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The factor of [`CALL_TIMEOUT`] for a device that completes other calls: the queue is then too long for waiting readers.
const LONGEST: u32 = 4;

/// Checks for completed calls within each [`CALL_TIMEOUT`].
const COMPLETION_CHECKS: u32 = 4;

/// As [`CALL_TIMEOUT`], for a call that only its own client waits for.
pub(crate) const SINGLE_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Milliseconds for which the spool takes no new body after a failed write, so that not every body has to fail.
const PAUSE: u64 = 10_000;

/// Unneeded room is freed in steps of this many bytes.
const GIVEN_BACK: u64 = 16 << 20;

/// The place and the size limit of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// An existing directory.
    pub directory: PathBuf,
    /// The most bytes of all bodies together.
    pub size: u64,
}

/// The spool of this process.
pub(crate) struct Spool {
    settings: SpoolSettings,
    calls: Syscalls,
    used: AtomicU64,
    names: AtomicU64,
    pool: OnceLock<Pool>,
    writes: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    /// It takes no body before this time, by the monotonic clock.
    paused_until: AtomicU64,
    /// Calls that the device has completed.
    completed: Arc<AtomicU64>,
    counters: Arc<Counters>,
}

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpoolRefusal {
    /// The spool has no room for them.
    Full,
    /// The device failed, or took too long.
    Failed,
}

impl From<FailedCall> for SpoolRefusal {
    fn from(_: FailedCall) -> Self {
        SpoolRefusal::Failed
    }
}

impl Spool {
    /// A spool without files.
    ///
    /// # Errors
    /// No file can be created in its directory.
    pub fn new(settings: SpoolSettings, calls: Syscalls, counters: Arc<Counters>) -> io::Result<Spool> {
        let spool = Spool {
            settings,
            calls,
            used: AtomicU64::new(0),
            names: AtomicU64::new(0),
            pool: OnceLock::new(),
            writes: Arc::new(Semaphore::new(CONCURRENT_CALLS)),
            reads: Arc::new(Semaphore::new(CONCURRENT_CALLS)),
            paused_until: AtomicU64::new(0),
            completed: Arc::default(),
            counters,
        };
        spool.open()?;
        Ok(spool)
    }

    /// Whether it takes a new body: not shortly after a failure.
    pub fn is_on(&self) -> bool {
        clock::monotonic().0 >= self.paused_until.load(Relaxed)
    }

    /// The most bytes of all bodies together.
    pub fn size(&self) -> u64 {
        self.settings.size
    }

    /// Whether this number of bytes fits now.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used.load(Relaxed).saturating_add(bytes) <= self.settings.size
    }

    fn pause(&self) {
        self.paused_until.store(clock::monotonic().0 + PAUSE, Relaxed);
    }

    fn open(&self) -> Result<OwnedFd, FailedCall> {
        let number = self.names.fetch_add(1, Relaxed);
        let name = format!(".larder-spool.{}.{number}", std::process::id());
        self.calls.open_unnamed(&self.settings.directory, &name)
    }

    fn pool(&self) -> &Pool {
        // Its counters are the disk tier's.
        self.pool.get_or_init(|| Pool::new("spool", THREADS, Arc::default()))
    }

    /// The result of `work`, done in its turn by a thread that may wait; `None` if the device completes nothing for `limit`, or
    /// if it takes [`LONGEST`] times as long.
    async fn run<T: Send + 'static>(
        &self,
        turns: &Arc<Semaphore>,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let work = async {
            let turn = turns.clone().acquire_owned().await.ok()?;
            let completed = self.completed.clone();
            let work = move || {
                let done = work();
                drop(turn);
                completed.fetch_add(1, Relaxed);
                done
            };
            self.pool().run(work).ok()?.await.ok().map(|(done, _)| done)
        };
        let mut work = pin!(work);
        let (mut seen, mut quiet) = (self.completed.load(Relaxed), 0);
        for _ in 0..LONGEST * COMPLETION_CHECKS {
            if let Ok(done) = timeout(limit / COMPLETION_CHECKS, &mut work).await {
                return done;
            }
            let now = self.completed.load(Relaxed);
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
            if quiet == COMPLETION_CHECKS {
                break;
            }
        }
        None
    }
}

/// Reserved bytes of the spool's size, until this is dropped.
struct SpoolReservation {
    spool: Arc<Spool>,
    bytes: u64,
}

impl SpoolReservation {
    fn grow(&mut self, bytes: u64) -> Result<(), SpoolRefusal> {
        let Spool { used, settings, counters, .. } = &*self.spool;
        let most = settings.size.checked_sub(bytes).ok_or(SpoolRefusal::Full)?;
        let grown = |it: u64| (it <= most).then(|| it + bytes);
        used.fetch_update(Relaxed, Relaxed, grown).map_err(|_| SpoolRefusal::Full)?;
        counters.fill_spool_bytes.add_shared(bytes);
        self.bytes += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: u64) {
        self.spool.used.fetch_sub(bytes, Relaxed);
        self.spool.counters.fill_spool_bytes.sub_shared(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for SpoolReservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// One body's file: some of its bytes, in order.
pub(crate) struct Spooled {
    spool: Arc<Spool>,
    /// The position in the body at which the file begins.
    base: u64,
    file: OnceLock<(OwnedFd, HeldDescriptor)>,
    extent: Mutex<SpoolExtent>,
}

/// The part of the body in the file, for the writer.
struct SpoolExtent {
    from: u64,
    to: u64,
    reservation: SpoolReservation,
}

impl Spooled {
    /// A file that begins with the byte `base` of a body. It is created by the first write.
    pub fn new(spool: &Arc<Spool>, base: u64) -> Arc<Spooled> {
        let room = SpoolReservation { spool: spool.clone(), bytes: 0 };
        let extent = Mutex::new(SpoolExtent { from: base, to: base, reservation: room });
        Arc::new(Spooled { spool: spool.clone(), base, file: OnceLock::new(), extent })
    }

    /// Appends the bytes at `at` of the body, and frees the room of those before `needed`. A device that completes nothing for
    /// `limit` is not awaited. Returns the checksum of each piece. Bytes appended by a call whose future was dropped may be appended once more.
    ///
    /// # Errors
    /// They were not written. Those appended before were.
    pub async fn append(
        self: &Arc<Self>,
        at: u64,
        pieces: Vec<Bytes>,
        needed: u64,
        limit: Duration,
    ) -> Result<Vec<u64>, SpoolRefusal> {
        let (file, turns) = (self.clone(), &self.spool.writes);
        let done = self.spool.run(turns, limit, move || file.append_now(at, &pieces, needed)).await;
        let done = done.unwrap_or(Err(SpoolRefusal::Failed));
        if done == Err(SpoolRefusal::Failed) {
            self.spool.pause();
        }
        done
    }

    fn append_now(&self, at: u64, pieces: &[Bytes], needed: u64) -> Result<Vec<u64>, SpoolRefusal> {
        let mut extent = self.extent.lock();
        let calls = &self.spool.calls;
        if self.file.get().is_none() {
            let _ = self.file.set((self.spool.open()?, HeldDescriptor::for_clients()));
        }
        let Some((file, _)) = self.file.get() else { return Err(SpoolRefusal::Failed) };
        let unneeded = needed.min(extent.to).saturating_sub(extent.from);
        if unneeded >= GIVEN_BACK && calls.punch(file, extent.from - self.base, unneeded).is_ok() {
            extent.reservation.shrink(unneeded);
            extent.from += unneeded;
        }
        let end = at + pieces.iter().map(|it| it.len() as u64).sum::<u64>();
        let more = end.saturating_sub(extent.to);
        extent.reservation.grow(more)?;
        extent.to += more;
        let parts: Vec<&[u8]> = pieces.iter().map(|it| &it[..]).collect();
        calls.write(file, &parts, at - self.base)?;
        Ok(parts.into_iter().map(xxh3_64).collect())
    }

    /// The piece of this length that was appended at `at`; `None` where the device returns other bytes, or none. `charge`
    /// is its part of the budget, for as long as it is held.
    pub async fn read(
        self: &Arc<Self>,
        charge: BudgetCharge,
        at: u64,
        length: usize,
        check: u64,
    ) -> Option<Bytes> {
        let mut piece = SpooledBytes { bytes: vec![0; length], _charge: charge };
        let it = self.clone();
        let work = move || {
            let (file, _) = it.file.get()?;
            it.spool.calls.read(file.as_fd(), &mut piece.bytes, at - it.base).ok()?;
            (xxh3_64(&piece.bytes) == check).then(|| Bytes::from_owner(piece))
        };
        self.spool.run(&self.spool.reads, SINGLE_CALL_TIMEOUT, work).await?
    }
}

impl Drop for Spooled {
    /// The last close of a large file takes time.
    fn drop(&mut self) {
        let spool = self.spool.clone();
        let none = SpoolReservation { spool: spool.clone(), bytes: 0 };
        let room = std::mem::replace(&mut self.extent.get_mut().reservation, none);
        if let Some(file) = self.file.take() {
            // The result is not awaited: a closure that no thread calls is dropped, the file first.
            let closing = (file, room);
            let _ = spool.pool().run(move || drop(closing));
        }
    }
}

/// Bytes that were read.
struct SpooledBytes {
    bytes: Vec<u8>,
    _charge: BudgetCharge,
}

impl AsRef<[u8]> for SpooledBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Store;
    use crate::sample::store;
    use std::os::unix::fs::PermissionsExt as _;

    const MIB: usize = 1 << 20;

    fn spool(size: u64) -> (tempfile::TempDir, Arc<Store>, Arc<Spool>) {
        let (directory, store) = (tempfile::tempdir().unwrap(), store(8 << 20));
        store.spool_to(SpoolSettings { directory: directory.path().into(), size }).unwrap();
        let spool = store.spool.get().unwrap().clone();
        (directory, store, spool)
    }

    fn piece(fill: u8) -> Bytes {
        Bytes::from(vec![fill; MIB])
    }

    #[tokio::test]
    async fn a_changed_part_of_the_spool_is_not_read() {
        let (directory, store, spool) = spool(8 << 20);
        let file = Spooled::new(&spool, 1000);
        let checks = file.append(1000, vec![piece(1), piece(2)], 0, CALL_TIMEOUT).await.unwrap();
        let second = 1000 + MIB as u64;
        assert_eq!(piece(2), file.read(store.charge_read(MIB), second, MIB, checks[1]).await.unwrap());
        let (descriptor, _) = file.file.get().unwrap();
        let about = rustix::fs::fstat(descriptor).unwrap();
        let mode = std::fs::Permissions::from_mode(about.st_mode).mode() & 0o777;
        assert_eq!((0o600, 0), (mode, about.st_nlink), "for nobody else, and without a name");
        assert_eq!(0, std::fs::read_dir(directory.path()).unwrap().count());
        // A hole, a byte, an end.
        spool.calls.punch(descriptor, 0, 4096).unwrap();
        assert!(file.read(store.charge_read(MIB), 1000, MIB, checks[0]).await.is_none());
        spool.calls.write(descriptor, &[&[9]], MIB as u64).unwrap();
        assert!(file.read(store.charge_read(MIB), second, MIB, checks[1]).await.is_none());
        assert!(file.read(store.charge_read(MIB), second + 1, MIB, checks[1]).await.is_none());
    }

    #[tokio::test]
    async fn room_is_given_back_from_the_front_and_at_the_end() {
        let (_directory, store, spool) = spool(20 << 20);
        let file = Spooled::new(&spool, 0);
        let mut at = 0;
        for n in 0..20 {
            file.append(at, vec![piece(n)], 0, CALL_TIMEOUT).await.unwrap();
            at += MIB as u64;
        }
        let more = |needed| file.append(at, vec![piece(20)], needed, CALL_TIMEOUT);
        assert_eq!(Err(SpoolRefusal::Full), more(0).await);
        assert_eq!(Err(SpoolRefusal::Full), more(GIVEN_BACK - 1).await, "not for so little");
        let checks = more(GIVEN_BACK).await.unwrap();
        // Whose writer gave up waiting writes it again.
        assert_eq!(checks, more(GIVEN_BACK).await.unwrap());
        assert_eq!(5 << 20, store.counters.fill_spool_bytes.get());
        assert_eq!(piece(20), file.read(store.charge_read(MIB), at, MIB, checks[0]).await.unwrap());
        let (descriptor, _) = file.file.get().unwrap();
        let blocks = rustix::fs::fstat(descriptor).unwrap().st_blocks as u64 * 512;
        assert!(blocks < 6 << 20, "{blocks}");
        assert!(spool.is_on(), "to be full is no failure");
        drop(file);
        while store.counters.fill_spool_bytes.get() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(0, spool.used.load(Relaxed));
    }

    /// At load 25, 87 of 256 readers were cut because their writes had waited for a second behind the others.
    #[tokio::test(start_paused = true)]
    async fn the_queue_behind_a_working_device_is_no_hang() {
        let (_directory, _store, spool) = spool(8 << 20);
        // As long as such a task runs, the time of the test goes on by its own word alone.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let held = tokio::task::spawn_blocking(move || ended.recv());
        let call = |number: u8| {
            let (open, gate) = std::sync::mpsc::channel::<()>();
            let spool = spool.clone();
            let work = move || {
                let _ = gate.recv();
                number
            };
            (open, tokio::spawn(async move { spool.run(&spool.writes, CALL_TIMEOUT, work).await }))
        };
        // One for each thread, and one more behind them.
        let (first, second, (third_gate, third)) = (call(1), call(2), call(3));
        let (fourth_gate, fourth) = call(4);
        // In steps: each look is due a little after its time.
        let pass = |steps: u32| async move {
            for _ in 0..steps {
                tokio::time::advance(CALL_TIMEOUT / 100).await;
            }
        };
        pass(90).await;
        drop(first.0);
        assert_eq!(Some(1), first.1.await.unwrap());
        drop(second.0);
        assert_eq!(Some(2), second.1.await.unwrap());
        pass(80).await;
        assert!(!third.is_finished() && !fourth.is_finished(), "the device has worked meanwhile");
        drop(third_gate);
        assert_eq!(Some(3), third.await.unwrap());
        // The last one hangs.
        pass(200).await;
        assert!(fourth.is_finished(), "it is given up");
        assert_eq!(None, fourth.await.unwrap());
        drop((fourth_gate, end));
        let _ = held.await;
    }

    #[test]
    fn a_spool_without_a_directory_is_refused() {
        let store = store(8 << 20);
        let directory = tempfile::tempdir().unwrap().path().join("none");
        assert!(store.spool_to(SpoolSettings { directory, size: 1 << 30 }).is_err());
        assert!(store.spool.get().is_none());
    }
}
