//! The disk tier: a log of segment files with an index in RAM. This module is its interface; `log` writes, `index` knows
//! the records, and `recovery` reads a directory at start. Other modules decide which tier is asked when.

mod breaker;
mod contents;
mod directory;
mod heads;
mod index;
pub(crate) mod journal;
mod large;
pub mod listing;
mod log;
pub mod matched;
mod parts;
mod queue;
mod read;
mod recovery;
mod segment;
#[cfg(test)]
pub(crate) mod tests;
mod variant_name;
mod verified;
mod writer;

pub use large::{BodyNotKept, LargeWrite};

use self::variant_name::VariantName;
use crate::device::pool::Pool;
use crate::device::syscalls::{FailedCall, Syscalls};
use crate::entry::{DiskOfferResult, Stored, StoredArc, StoredBody};
use crate::memory_budget::{LeavingBytes, MemoryBudget};
use crate::purges::{PurgeRule, PurgeScope, Seq, Strength};
use crate::ram::Store;
use breaker::DiskBreaker;
use directory::{Directory, DirectoryRefusal};
pub use directory::{DirectoryCheck, check};
use heads::Heads;
use index::Index;
use journal::Journal;
pub use journal::{rules_of_bytes, rules_to_bytes};
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_stdx::clock;
use larder_transport::body::FileSlice;
use larder_wire::segment::VERSION;
use log::SegmentLog;
use parking_lot::RwLock;
pub(crate) use parts::each as each_piece_of;
use queue::{FinishGuard, Op, Push, WriteQueue};
use read::DiskReader;
use segment::{DiskUsage, Segment};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use verified::VerifiedParts;
use writer::{SegmentWriter, Status};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How long a read waited for a free reader thread, which is not the device's time.
#[derive(Debug, Default)]
pub struct ReadWait(AtomicU64);

impl ReadWait {
    /// Microseconds, summed over all reads of the lookup.
    #[must_use]
    pub fn micros(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn add(&self, micros: u64) {
        self.0.fetch_add(micros, Relaxed);
    }
}

/// The place and the size limit of the disk tier.
#[derive(Clone, Debug)]
pub struct DiskSettings {
    /// A directory that is empty, missing (its parent exists), or already a disk tier.
    pub path: PathBuf,
    /// The most bytes of all its files together, including those being written.
    pub size: u64,
    /// Approximate bytes of one segment; at most a quarter of `size`, at least 1,024th of it, at most 4 GiB.
    pub segment_size: u64,
    /// Responses that are fresh for fewer seconds are not written.
    pub min_ttl: u32,
    /// Bodies up to this many bytes are returned on the heap, larger ones as a slice of their segment.
    pub heap_line: usize,
    /// The use at which a larger body is taken into RAM.
    pub promote_after: u32,
    /// Threads that wait for the device.
    pub readers: usize,
    /// The most bytes that may wait to be written; beyond, responses are not written.
    pub queue: u64,
    /// How long writing pauses after a failure, and reading after several consecutive reads that took too long.
    pub retry: Duration,
}

/// Whether the tier accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It does.
    On,
    /// The last write failed, with this error; nothing is written until `retry` has passed. Present records are still
    /// read and verified as always.
    Off(Arc<str>),
    /// Another process has the directory: nothing is read or written here.
    HandedOver,
}

/// The purges that an earlier process recorded.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// No purge may get a number up to this one: a response on the disk was requested then.
    pub last_seq: Seq,
    /// The purges that may still apply to records on the disk, oldest first.
    pub rules: Vec<(Seq, PurgeRule)>,
}

/// Completes when the data is in its file, and on the device where that is promised.
pub struct DiskWrite(oneshot::Receiver<io::Result<()>>);

impl Future for DiskWrite {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = || Err(io::Error::other("the disk tier is stopped"));
        Pin::new(&mut self.0).poll(context).map(|it| it.unwrap_or_else(|_| gone()))
    }
}

impl DiskWrite {
    /// Blocks this thread. Not to be called within a runtime.
    ///
    /// # Errors
    /// As of the future.
    pub fn wait(self) -> io::Result<()> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(io::Error::other("the disk tier is stopped")))
    }
}

/// How long the end of the process waits for the write queue.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The smallest segment.
const LEAST_SEGMENT: u64 = 64 << 10;

/// State shared by all parts of a tier.
struct DiskShared {
    calls: Syscalls,
    /// The directory's secret.
    seed: u64,
    size: u64,
    segment_size: u64,
    counters: Arc<Counters>,
    index: Index,
    space: Arc<DiskUsage>,
    segments: RwLock<BTreeMap<u32, Arc<Segment>>>,
    /// The number of segments when the device was found full below `size`; zero while it is not full.
    device_full: AtomicUsize,
    /// Bytes of RAM for the list of the active segment's records.
    listed: AtomicU64,
}

impl DiskShared {
    fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

/// The disk tier of this process, shared by all workers. When the last owner is dropped, the queue is written (for some
/// seconds at most) and the files are closed.
pub struct DiskTier {
    reader: DiskReader,
    queue: Arc<WriteQueue>,
    status: Arc<Status>,
    restored: Restored,
    revalidation_reason: Option<&'static str>,
    min_ttl: u32,
    promote_after: u32,
    path: PathBuf,
    /// The number of bodies in progress that RAM cannot hold.
    on_their_way: Arc<AtomicUsize>,
    /// The RAM tier's budget.
    budget: OnceLock<Arc<MemoryBudget>>,
}

impl DiskTier {
    /// Opens the directory and reads its footers, not its bodies. May take some seconds; no runtime is needed. A full or
    /// broken device is no error here: the tier then starts as [`DiskState::Off`], and the directory's content is
    /// dropped.
    ///
    /// # Errors
    /// One sentence for the operator: the directory has other content, another process uses it, another version wrote it,
    /// or it cannot be created.
    pub fn open(settings: DiskSettings, counters: Arc<Counters>) -> io::Result<Arc<DiskTier>> {
        Self::open_with(settings, counters, Syscalls::default())
    }

    fn open_with(
        settings: DiskSettings,
        counters: Arc<Counters>,
        calls: Syscalls,
    ) -> io::Result<Arc<DiskTier>> {
        let opened = match Directory::open(&calls, &settings.path, None) {
            Ok(directory) => Ok(directory),
            Err(DirectoryRefusal::Misconfigured(why)) => return Err(why),
            Err(DirectoryRefusal::Failed(failed)) => Err(failed),
        };
        let seed = match &opened {
            Ok(directory) => directory.seed,
            Err(_) => directory::secret()?,
        };
        let most = (settings.size / 4).max(LEAST_SEGMENT);
        let base = Arc::new(DiskShared {
            calls,
            seed,
            size: settings.size,
            segment_size: settings
                .segment_size
                .clamp(most.min(settings.size / 1024), most)
                .max(LEAST_SEGMENT),
            counters: counters.clone(),
            index: Index::new(),
            space: Arc::default(),
            segments: RwLock::default(),
            device_full: AtomicUsize::new(0),
            listed: AtomicU64::new(0),
        });
        let status = Arc::new(Status::new());
        let found = opened.and_then(|it| DirectoryContents::of(&base, it));
        let (found, failed) = match found {
            Ok(found) => (found, None),
            Err(failed) => (DirectoryContents::nothing(&base), Some(failed)),
        };
        let restored = Restored { last_seq: found.journal.last(), rules: found.journal.rules().to_vec() };
        let revalidation_reason = found.revalidation_reason;
        let queue = Arc::new(WriteQueue::new(settings.queue, found.stamp));
        let mut writer = SegmentWriter {
            base: base.clone(),
            queue: queue.clone(),
            status: status.clone(),
            path: settings.path.clone(),
            retry: settings.retry,
            log: found.log,
            journal: found.journal,
            pending: Vec::new(),
            must_reset: false,
            pending_rules: Vec::new(),
        };
        match failed {
            Some(failed) => writer.fail(failed),
            None => writer.finish_recovery(),
        }
        let finish = FinishGuard(queue.clone());
        std::thread::Builder::new().name("disk-write".to_owned()).spawn(move || {
            let _finish = finish;
            writer.run();
        })?;
        let breaker = DiskBreaker::new(settings.retry, counters.clone());
        let pool = Pool::new("disk-read", settings.readers, counters);
        let (heads, trust) = (Heads::new(), VerifiedParts::new());
        let (heap_line, probe) = (settings.heap_line as u64, parking_lot::Mutex::default());
        let reader = DiskReader { base, pool, breaker, heads, verified: trust, heap_line, probe };
        Ok(Arc::new(DiskTier {
            reader,
            queue,
            status,
            restored,
            revalidation_reason,
            min_ttl: settings.min_ttl,
            promote_after: settings.promote_after,
            path: settings.path,
            on_their_way: Arc::default(),
            budget: OnceLock::new(),
        }))
    }

    /// Whether any record is kept under this key. Reads RAM only: about 100 ns.
    #[must_use]
    pub fn knows(&self, key: &[u8]) -> bool {
        self.base().index.contains(self.base().hash(key))
    }

    /// The length of the newest record under a key in bytes, a little more than its body; zero where there is none. Reads
    /// RAM only.
    #[must_use]
    pub fn size_of(&self, key: &[u8]) -> u64 {
        self.base().index.newest_size(self.base().hash(key))
    }

    /// Whether this variant is kept, in this version or another: then its eviction from RAM need not write it again if it
    /// was written on arrival. Reads RAM only.
    #[must_use]
    pub fn holds(&self, key: &[u8], stored: &Stored) -> bool {
        let hash = self.base().hash(key);
        let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
        self.base().index.find(hash).iter().any(|it| it.variant == name.variant)
    }

    /// The newest record that `request` selects. Its bytes are verified. A small body is on the heap; a larger one is a
    /// slice of its segment ([`crate::StoredBody::Disk`]) that was resident a moment ago. `purge_facts.epoch` is the value at
    /// the time of writing. Purges are not checked: see `Store::admit`.
    ///
    /// `None` also where the device is too busy or too slow. The future may be dropped at any point. Needs a tokio
    /// runtime with time.
    pub async fn read(&self, key: &[u8], request: &[Field<'_>]) -> Option<Stored> {
        self.reader.read(key, request, &ReadWait::default()).await
    }

    /// The same; adds to `waited` how much of the time was waiting for a free reader.
    pub async fn read_timed(&self, key: &[u8], request: &[Field<'_>], waited: &ReadWait) -> Option<Stored> {
        self.reader.read(key, request, waited).await
    }

    /// The same without waiting: `None` also where waiting would be needed. For the event loop, with records in the page
    /// cache: some microseconds. A lookup that has to be repeated with [`DiskTier::read`] is not counted.
    pub fn read_now(&self, key: &[u8], request: &[Field<'_>]) -> Option<Stored> {
        self.reader.read_now(key, request)
    }

    /// Copies a slice of this disk tier to a body in RAM, on a thread of the pool: its pages may no longer be resident,
    /// and a large body takes time. `None` where there is no room, it cannot be read, or the pool is too busy.
    pub async fn copy_in(&self, store: &Arc<Store>, slice: &FileSlice) -> Option<StoredBody> {
        self.reader.copy_in(store, slice).await
    }

    pub(crate) fn queue_at_most(&self, bytes: u64) {
        self.queue.bound(bytes);
    }

    /// Queues a response for writing; never waits. Not written, and counted: a part (`meta.partial`), a response fresh
    /// for less than `min_ttl`, one larger than a segment, and one that meets a full queue or a tier that is off. The
    /// last two are offered again when RAM evicts them (`evicted`).
    pub fn write(&self, key: &[u8], stored: &StoredArc) {
        self.write_unless(key, stored, || false);
    }

    /// The same, unless `too_late` says that the key was removed. It is called while no removal can occur, so that a
    /// removal it does not know of also covers this write.
    pub fn write_unless(&self, key: &[u8], stored: &StoredArc, too_late: impl FnOnce() -> bool) {
        self.take(key, stored, None, too_late);
    }

    pub(crate) fn take(
        &self,
        key: &[u8],
        stored: &StoredArc,
        leaving: Option<LeavingBytes>,
        too_late: impl FnOnce() -> bool,
    ) {
        let base = self.base();
        let counters = &base.counters;
        if stored.meta.partial().is_some() {
            return counters.disk_skipped.add_shared(1);
        }
        let is_evicted = leaving.is_some();
        if stored.meta.lifetime.seconds < self.min_ttl {
            counters.disk_skipped.add_shared(1);
        } else if stored.body.len() >= base.segment_size {
            counters.disk_too_large.add_shared(1);
        } else if !self.status.is_on() {
            self.queue.count_miss(stored);
            self.status.count_skipped(counters);
        } else {
            let hash = base.hash(key);
            // A response from another tier has not replaced any record yet.
            let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
            let _ = self.displace_other_vary(hash, name);
            match self.queue.write(hash, name.names, key, stored, leaving, too_late) {
                Push::Queued => return counters.disk_evicted_writes.add_shared(u64::from(is_evicted)),
                Push::TooLate => return counters.disk_skipped.add_shared(1),
                Push::Full => counters.disk_queue_full.add_shared(1),
            }
        }
        // It is not written, but the record that it replaces is removed nevertheless.
        let _ = self.displace(key, stored);
    }

    /// Whether an offered response is neither on the disk nor in the queue, nor a later one of its variant or with other
    /// `Vary` names; never for a superseded one. Reads RAM only.
    pub(crate) fn lacks(&self, key: &[u8], stored: &Stored) -> bool {
        if stored.is_superseded() {
            return false;
        }
        let stamp = match stored.on_disk.get() {
            None => return false,
            Some(DiskOfferResult::Queued(stamp)) if self.queue.contains(stamp) => return false,
            Some(DiskOfferResult::Queued(stamp) | DiskOfferResult::Missed(stamp)) => stamp,
        };
        let hash = self.base().hash(key);
        let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
        let answers = |it: &index::KnownRecord| it.variant == name.variant || it.names != name.names;
        !self.base().index.find(hash).iter().any(|it| it.stamp >= stamp && answers(it))
    }

    /// Whether offering a response makes sense now.
    pub(crate) fn is_on(&self) -> bool {
        self.status.is_on()
    }

    /// Removes everything under a key: at once for [`DiskTier::read`] and for queued writes. The future completes when
    /// the next process knows it too, should this one be killed. By then the removal is in the log, ahead of the queue,
    /// or the journal is gone and everything will be validated. It is not synced to the device: a power failure may lose
    /// it. Dropping the future has no effect.
    ///
    /// An error says that more removals wait than can be kept, or that the tier has stopped.
    pub fn remove(&self, key: &[u8]) -> DiskWrite {
        let base = self.base();
        let hash = base.hash(key);
        let (done, written) = oneshot::channel();
        self.queue.remove(hash, 0, 0, done, |stamp, _| {
            base.index.remove(hash, stamp);
        });
        DiskWrite(written)
    }

    /// [`DiskTier::remove`] where a record is kept under the key or queued; otherwise `None`, with nothing to wait for.
    pub fn supersede(&self, key: &[u8]) -> Option<DiskWrite> {
        let hash = self.base().hash(key);
        (self.base().index.contains(hash) || self.queue.is_pending(hash)).then(|| self.remove(key))
    }

    /// Removes the older records that a response replaces, whether it is written itself or not, as [`DiskTier::remove`]
    /// does; `None` where there are none. They are those of its variant, and all that vary on other names: the index does
    /// not tell which requests select those.
    pub fn displace(&self, key: &[u8], stored: &Stored) -> Option<DiskWrite> {
        let hash = self.base().hash(key);
        let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
        let variant = name.displaces();
        let others = self.displace_other_vary(hash, name);
        let is_older = |it: &index::KnownRecord| variant == 0 || it.variant == variant;
        if self.queue.is_pending(hash) || self.base().index.find(hash).iter().any(is_older) {
            return Some(self.forget_variant(hash, variant, name));
        }
        others
    }

    /// The same only for those that vary on other names.
    fn displace_other_vary(&self, hash: u64, name: VariantName) -> Option<DiskWrite> {
        let known = self.base().index.find(hash);
        let mut gone: Vec<u32> =
            known.iter().filter(|it| it.names != name.names).map(|it| it.variant).collect();
        gone.dedup();
        // Removals are written in order: waiting for the last covers all.
        gone.into_iter().map(|it| self.forget_variant(hash, it, name)).last()
    }

    /// Removes one variant, or all where `variant` is zero, for a response of this name.
    fn forget_variant(&self, hash: u64, variant: u32, by: VariantName) -> DiskWrite {
        let (done, written) = oneshot::channel();
        let index = &self.base().index;
        self.queue.remove(hash, variant, by.names, done, |stamp, waiting| {
            index.remove_variant(hash, variant, stamp, waiting);
        });
        DiskWrite(written)
    }

    /// Records a purge ahead of the queue; completes when it is on the device (fdatasync).
    ///
    /// An error says that it is not, and why. This process obeys the purge nevertheless. So does the next one, if the
    /// directory can be changed at all: it then validates everything older.
    pub fn purged(&self, seq: Seq, rule: &PurgeRule) -> DiskWrite {
        if matches!(rule.scope, PurgeScope::All) && rule.strength == Strength::Hard {
            // None of it is ever used again: no useless reads, no room in the index, and no wrong report.
            self.base().index.clear();
        }
        let (done, written) = oneshot::channel();
        self.queue.push(Op::Rule { seq, rule: Box::new(rule.clone()), done });
        DiskWrite(written)
    }

    /// Completes when everything queued before is in its file; an error where the tier is off by then.
    pub fn flush(&self) -> DiskWrite {
        let (done, written) = oneshot::channel();
        self.queue.push(Op::Flush(done));
        DiskWrite(written)
    }

    /// Frees the directory for another process, after everything queued before is in its file. Nothing is found or written from
    /// then on, and purges are refused; bodies that are being sent stay readable. An error says that the last segment is
    /// incomplete, and no more than that.
    pub fn hand_over(&self) -> DiskWrite {
        let (done, written) = oneshot::channel();
        self.queue.push(Op::HandOver(done));
        DiskWrite(written)
    }

    /// Opens the directory again, with all its content, before any later task: the other process has ended. The result is the
    /// last number of a purge there, which must not be used again; `None` where the tier is stopped.
    pub async fn take_back(&self) -> Option<Seq> {
        let (done, last) = oneshot::channel();
        self.queue.push(Op::TakeBack(done));
        last.await.ok()
    }

    /// Whether another process has the directory.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.status.is_handed_over()
    }

    /// The purges that were found when the directory was opened.
    #[must_use]
    pub fn restored(&self) -> Restored {
        self.restored.clone()
    }

    /// For a timer, about once a second: retries after a failure, and checks whether the device answers reads again. Does
    /// not wait.
    pub fn look(&self) {
        self.reader.probe();
        if self.status.is_due(clock::monotonic().0) {
            self.queue.push(Op::Retry);
        }
    }

    /// Whether the tier accepts writes, and the failure if not, for the log, which has to write changes.
    #[must_use]
    pub fn state(&self) -> DiskState {
        self.status.get()
    }

    /// Why everything found at opening must be validated before use, if so: damage.
    #[must_use]
    pub fn revalidation_reason(&self) -> Option<&'static str> {
        self.revalidation_reason
    }

    /// The use at which a large body is taken into RAM.
    #[inline]
    #[must_use]
    pub fn promote_after(&self) -> u32 {
        self.promote_after
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records and segments so far whose bytes had changed.
    #[must_use]
    pub fn corrupt(&self) -> u64 {
        self.reader.base.counters.disk_corrupt.get()
    }

    /// Whether lookups do not wait for the device because several consecutive ones waited for more than a second. Data in
    /// the page cache is still read.
    #[must_use]
    pub fn skips_reads(&self) -> bool {
        self.reader.breaker.is_open()
    }

    /// Whether the device is full though `size` is not reached: then the oldest segment is dropped for each new one.
    #[must_use]
    pub fn is_device_full(&self) -> bool {
        self.base().device_full.load(Relaxed) > 0
    }

    /// The number of records.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.base().index.objects()
    }

    /// Bytes of the files, at most `size`; including dropped segments that are still being read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.base().space.used()
    }

    /// The number of segments that can be started before each drops the oldest: every one keeps a descriptor.
    #[must_use]
    pub fn segments_to_come(&self) -> usize {
        let base = self.base();
        let most =
            usize::try_from(base.size / base.segment_size).unwrap_or(usize::MAX).min(log::MOST_SEGMENTS);
        most.saturating_sub(base.segments.read().len())
    }

    /// Bytes of RAM for the index and the list of the active segment. Without the queue: its responses are in the RAM
    /// tier, or were a moment ago, and `queue` bounds them.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.base().index.memory() + self.base().listed.load(Relaxed) + verified::MEMORY
    }

    /// Heap bytes of responses that wait to be written and are no longer in the RAM tier.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.queue.heap_bytes()
    }

    /// Bytes of responses that wait to be written.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.queue.bytes()
    }

    fn base(&self) -> &DiskShared {
        &self.reader.base
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        self.queue.stop(STOP_TIMEOUT);
    }
}

/// The content of a directory.
struct DirectoryContents {
    log: Option<SegmentLog>,
    journal: Journal,
    stamp: u64,
    /// Why it is to be validated, for the log.
    revalidation_reason: Option<&'static str>,
}

impl DirectoryContents {
    fn of(base: &Arc<DiskShared>, directory: Directory) -> Result<DirectoryContents, FailedCall> {
        let is_new = !directory.names.iter().any(|it| Segment::number(it).is_some());
        let (mut journal, is_whole) =
            Journal::load(&base.calls, &base.space, &directory.file, base.seed, is_new);
        let recovered = recovery::recover(base, directory).inspect_err(|_| {
            base.index.clear();
            base.segments.write().clear();
        })?;
        let knows_all = journal.note_purge_seen(recovered.epoch);
        if !is_whole || !knows_all || recovered.damaged {
            journal.require_revalidation_of_all();
        }
        let revalidation_reason = match (is_whole, knows_all, recovered.damaged) {
            (false, ..) => Some("the purge journal (the file purges) is damaged or missing"),
            (_, false, _) => Some("the purge journal (the file purges) lacks the most recent purges"),
            (.., true) => Some("segments are damaged, so removals recorded in them are unknown"),
            _ => None,
        };
        let mut log = recovered.log;
        log.purged = recovered.epoch;
        Ok(DirectoryContents { log: Some(log), journal, stamp: recovered.stamp, revalidation_reason })
    }

    fn nothing(base: &Arc<DiskShared>) -> DirectoryContents {
        let journal = Journal::new(&base.calls, &base.space, base.seed);
        DirectoryContents { log: None, journal, stamp: 0, revalidation_reason: None }
    }
}
