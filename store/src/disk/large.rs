//! Bodies that RAM cannot hold, on their way to the log. Such a body is written to a file without a name while it goes to
//! its readers, by the pool, so that no event loop waits for the device. It cannot be found before it is complete and a
//! record. Aborted bodies, and those of a killed process, leave nothing behind. `writer` appends them.

use super::parts::{ChecksumBuilder, ChecksumMismatch, ChecksummedBody};
use super::{DiskShared, DiskTier};
use crate::device::syscalls::FailedCall;
use crate::entry::StoredBody;
use crate::memory_budget::{BudgetCharge, MemoryBudget};
use bytes::Bytes;
use larder_stdx::clock;
use larder_transport::body::{FileOwner, FileSlice, FileWritableBy};
use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The most bodies in progress at a time.
const MOST: usize = 4;

/// The temporary name of its file where the file system cannot create one without a name.
const NAME: &str = "large.new";

/// Approximate bytes that are written at once.
const PART: u64 = 256 << 10;

/// The most bytes that wait to be written: beyond, the readers wait for the device.
const MOST_UNWRITTEN: u64 = 1 << 20;

/// How long the device may delay the readers in total; after that the response continues without it.
pub(crate) const WRITE_DELAY_LIMIT: Duration = Duration::from_secs(1);

/// How long a complete body may take until it is in its file; no request waits for that.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(30);

/// The pieces of one call: less than the kernel's limit.
const PIECES: usize = 256;

/// The body is not kept after all; the reason is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyNotKept;

/// The file, until the record is written.
struct UnlinkedFile {
    base: Arc<DiskShared>,
    /// The tier's directory.
    path: PathBuf,
    file: OnceLock<OwnedFd>,
    /// Its bytes, which are counted in the tier's space.
    length: Mutex<u64>,
    /// The checksums of the origin's bytes, once complete: the file's content is compared with them.
    checksums: OnceLock<ChecksummedBody>,
    in_progress: Arc<AtomicUsize>,
}

impl UnlinkedFile {
    /// Appends; waits for the device.
    fn append(&self, pieces: &[Bytes]) -> Result<(), FailedCall> {
        let mut length = self.length.lock();
        if self.file.get().is_none() {
            let file = self.base.calls.open_unnamed(&self.path, NAME)?;
            let _ = self.file.set(file);
        }
        let Some(file) = self.file.get() else { return Ok(()) };
        for pieces in pieces.chunks(PIECES) {
            let bytes: u64 = pieces.iter().map(|it| it.len() as u64).sum();
            self.base.space.reserve(bytes, self.base.size)?;
            let at = *length;
            *length += bytes;
            let parts: Vec<&[u8]> = pieces.iter().map(|it| &it[..]).collect();
            self.base.calls.write(file, &parts, at)?;
        }
        Ok(())
    }
}

impl FileOwner for UnlinkedFile {
    fn fd(&self) -> BorrowedFd<'_> {
        self.file.get().expect("`finish` makes no body of what was never opened").as_fd()
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        None
    }

    fn kept(&self) -> FileWritableBy {
        FileWritableBy::Checked
    }

    fn lend(&self, offset: u64, _: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let lent = self.checksums.get().map(|it| it.lend(&self.base.calls, self.fd(), offset, take));
        lent.unwrap_or(Err(ChecksumMismatch)).map_err(|ChecksumMismatch| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for UnlinkedFile {
    fn drop(&mut self) {
        self.base.space.take(*self.length.get_mut());
        self.in_progress.fetch_sub(1, Relaxed);
    }
}

/// Waiting pieces, and their bytes in the RAM tier's budget.
#[derive(Default)]
struct QueuedPieces {
    pieces: Vec<Bytes>,
    charges: Vec<BudgetCharge>,
    bytes: u64,
}

/// A body in progress. Dropped before [`LargeWrite::finish`] it leaves nothing.
pub struct LargeWrite {
    disk: Arc<DiskTier>,
    file: Arc<UnlinkedFile>,
    length: u64,
    checksums: ChecksumBuilder,
    waiting: QueuedPieces,
    /// The write in progress; completes when it is done.
    writing: Option<oneshot::Receiver<(Result<(), FailedCall>, u64)>>,
    pub(crate) timeout: Duration,
}

impl DiskTier {
    /// Starts keeping a body that RAM cannot hold, of this length where that is known. `None`, and counted, where the
    /// tier is off, has no room for such a body, or has too many in progress. Does not wait.
    #[must_use]
    pub fn begin_large(self: &Arc<Self>, length: Option<u64>) -> Option<LargeWrite> {
        let base = self.base();
        if !self.is_on() {
            self.status.count_skipped(&base.counters);
            return None;
        }
        if length.is_some_and(|it| it >= base.segment_size) {
            base.counters.disk_too_large.add_shared(1);
            return None;
        }
        if self.on_their_way.fetch_add(1, Relaxed) >= MOST {
            self.on_their_way.fetch_sub(1, Relaxed);
            base.counters.disk_large_given_up.add_shared(1);
            return None;
        }
        let file = Arc::new(UnlinkedFile {
            base: self.reader.base.clone(),
            path: self.path.clone(),
            file: OnceLock::new(),
            length: Mutex::new(0),
            checksums: OnceLock::new(),
            in_progress: self.on_their_way.clone(),
        });
        let (waiting, summing, timeout) =
            (QueuedPieces::default(), ChecksumBuilder::new(base.seed), WRITE_DELAY_LIMIT);
        Some(LargeWrite {
            disk: self.clone(),
            file,
            length: 0,
            checksums: summing,
            waiting,
            writing: None,
            timeout,
        })
    }

    /// Whether a body of this length may be kept, if not too many are on their way.
    #[must_use]
    pub fn accepts_length(&self, length: u64) -> bool {
        self.is_on() && length < self.base().segment_size
    }

    /// The largest body that may be kept; 0 if the tier is off.
    #[must_use]
    pub fn largest_body(&self) -> u64 {
        if self.is_on() { self.base().segment_size.saturating_sub(1) } else { 0 }
    }

    /// Charges waiting bytes to this budget from now on.
    pub(crate) fn charge_to(&self, budget: &Arc<MemoryBudget>) {
        let _ = self.budget.set(budget.clone());
    }
}

impl LargeWrite {
    /// Adds bytes. Waits where a mebibyte is already waiting, but at most a second for the whole body.
    ///
    /// # Errors
    /// The tier does not accept them: it is too slow, has no room or has failed. Drop the value then.
    pub async fn push(&mut self, bytes: Bytes) -> Result<(), BodyNotKept> {
        self.length += bytes.len() as u64;
        if self.length >= self.disk.base().segment_size {
            self.counters().disk_too_large.add_shared(1);
            return Err(BodyNotKept);
        }
        if let Some(budget) = self.disk.budget.get() {
            self.waiting.charges.push(BudgetCharge::new(budget, bytes.len() as u64, |it| &it.fills));
        }
        self.checksums.add(&bytes);
        self.waiting.bytes += bytes.len() as u64;
        self.waiting.pieces.push(bytes);
        self.start_write(PART)?;
        while self.waiting.bytes > MOST_UNWRITTEN {
            self.written().await?;
            self.start_write(PART)?;
        }
        Ok(())
    }

    /// The body, once all of it is in its file: to be written with the rest of its response by
    /// [`DiskTier::write_unless`].
    ///
    /// # Errors
    /// As of [`LargeWrite::push`]; no request has to wait for this.
    pub async fn finish(mut self) -> Result<StoredBody, BodyNotKept> {
        self.timeout = COMPLETION_TIMEOUT;
        while self.writing.is_some() || self.waiting.bytes > 0 {
            self.start_write(1)?;
            self.written().await?;
        }
        if self.length == 0 {
            return Err(BodyNotKept);
        }
        let seed = self.disk.base().seed;
        let parts = std::mem::replace(&mut self.checksums, ChecksumBuilder::new(seed)).finish();
        let _ = self.file.checksums.set(ChecksummedBody::new(0, Arc::new(parts)));
        Ok(StoredBody::Disk(Box::new(FileSlice { owner: self.file.clone(), offset: 0, length: self.length })))
    }

    /// Waits until all bytes so far are written.
    #[cfg(test)]
    pub(crate) async fn flush(&mut self) -> Result<(), BodyNotKept> {
        while self.writing.is_some() || self.waiting.bytes > 0 {
            self.start_write(1)?;
            self.written().await?;
        }
        Ok(())
    }

    /// Starts writing the waiting bytes if there are at least `least` and no write is in progress.
    fn start_write(&mut self, least: u64) -> Result<(), BodyNotKept> {
        if let Some(writing) = &mut self.writing {
            match writing.try_recv() {
                Ok((done, _)) => self.is_done(done)?,
                Err(oneshot::error::TryRecvError::Empty) => return Ok(()),
                Err(oneshot::error::TryRecvError::Closed) => return Err(self.not_kept()),
            }
        }
        if self.waiting.bytes < least {
            return Ok(());
        }
        let (file, QueuedPieces { pieces, charges, .. }) =
            (self.file.clone(), std::mem::take(&mut self.waiting));
        let work = move || {
            let done = file.append(&pieces);
            drop((pieces, charges));
            done
        };
        match self.disk.reader.pool.run(work) {
            Ok(writing) => self.writing = Some(writing),
            Err(_) => {
                self.counters().disk_pool_full.add_shared(1);
                return Err(self.not_kept());
            }
        }
        Ok(())
    }

    /// Waits until the write in progress is done.
    async fn written(&mut self) -> Result<(), BodyNotKept> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let since = clock::precise_micros();
        let written = tokio::time::timeout(self.timeout, writing).await;
        let waited = clock::precise_micros().saturating_sub(since);
        self.timeout = self.timeout.saturating_sub(Duration::from_micros(waited));
        match written {
            Ok(Ok((done, _))) => self.is_done(done),
            Ok(Err(_)) | Err(_) => Err(self.not_kept()),
        }
    }

    fn is_done(&mut self, done: Result<(), FailedCall>) -> Result<(), BodyNotKept> {
        self.writing = None;
        done.map_err(|_| {
            self.counters().disk_failures.add_shared(1);
            self.not_kept()
        })
    }

    fn not_kept(&self) -> BodyNotKept {
        self.counters().disk_large_given_up.add_shared(1);
        BodyNotKept
    }

    fn counters(&self) -> &larder_counters::Counters {
        &self.disk.base().counters
    }
}
