//! A served directory: its options, its open-file cache, and the steps of a lookup.

use crate::answer::{self, NotServed};
use crate::cache::{Cache, CacheLook, CacheSize};
use crate::listing::ListingFormat;
use crate::load::{self, Loaded, LookupJob};
use crate::negotiate;
use crate::open_file::OpenFile;
use crate::path;
use crate::respond::respond;
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_stdx::clock::{self, Monotonic};
use larder_stdx::descriptors;
use larder_transport::Synthetic;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use crate::path::Dotfiles;
pub use crate::resolve::SymlinkPolicy;

/// The response for a directory without index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// 404.
    #[default]
    Off,
    /// Its names: HTML, or JSON if `Accept` prefers that.
    On,
}

/// The options of a served directory.
#[derive(Clone, Debug)]
pub struct RootOptions {
    /// Removed from the front of every path, such as `/static`; a path without this prefix is not found. Without a slash
    /// at the end; empty removes nothing.
    pub strip: String,
    /// Index files of a directory, the first existing one.
    pub index: Vec<String>,
    /// The response for a directory without index.
    pub listing: Listing,
    /// Whether names that begin with a dot are visible.
    pub dotfiles: Dotfiles,
    /// The symbolic links that are followed.
    pub symlinks: SymlinkPolicy,
    /// `NAME.br`, `NAME.zst`, `NAME.gz` replace `NAME` if the client accepts them and they are not older.
    pub precompressed: bool,
    /// `Cache-Control` of every file; `None` sends none.
    pub cache_control: Option<String>,
    /// Extension (without dot) and media type, before the built-in ones.
    pub media_types: Vec<(String, String)>,
    /// The time within which a change on disk is seen; with zero every request checks.
    pub cache_for: Duration,
    /// Files up to this many bytes are kept on the heap.
    pub small_file: u64,
    /// Larger ones up to this many bytes are copied into a `memfd` each: sent by the kernel like the file, but unaffected
    /// by edits, and never waiting for a disk.
    pub copied_file: u64,
    /// Files kept open or in memory, siblings included: at most this many descriptors.
    pub entries: usize,
    /// The most bytes of files in memory, heads included. (One file always fits.)
    pub memory: u64,
    /// Lookups on the disk at the same time.
    pub concurrency: usize,
    /// Lookups that wait for the disk; more are rejected with 503.
    pub queue: usize,
}

impl Default for RootOptions {
    fn default() -> Self {
        RootOptions {
            strip: String::new(),
            index: vec!["index.html".to_owned()],
            listing: Listing::default(),
            dotfiles: Dotfiles::default(),
            symlinks: SymlinkPolicy::default(),
            precompressed: true,
            cache_control: None,
            media_types: Vec::new(),
            cache_for: Duration::from_secs(1),
            small_file: 16 << 10,
            copied_file: 1 << 20,
            entries: 1024,
            memory: 64 << 20,
            concurrency: 16,
            queue: 1024,
        }
    }
}

/// The pause before another attempt of a lookup that found no descriptor, or a file that is being written to.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of attempts for a file that is being written to: for a second.
const TRIES: usize = 50;
/// The number of attempts without a descriptor: for half a minute. A connection in the accept queue would wait as well.
const PATIENT: usize = 1500;

/// A served directory. Shared by all workers.
pub struct Root {
    directory: OwnedFd,
    pub(crate) options: RootOptions,
    cache: Cache,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    pub(crate) counters: Arc<Counters>,
}

/// The result of a lookup.
pub enum FileLookup {
    /// A file: see [`respond`].
    File(Arc<OpenFile>),
    /// A redirect or a listing, as for GET.
    Answer(Synthetic),
}

impl Root {
    /// Opens a directory once; it may be renamed afterwards. Blocks: for the start and for reloads.
    ///
    /// # Errors
    /// It is not a directory, cannot be opened, or the kernel has no `openat2` (Linux before 5.6).
    pub fn open(path: &Path, options: RootOptions, counters: Arc<Counters>) -> std::io::Result<Arc<Root>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let probe = rustix::fs::ResolveFlags::BENEATH;
        rustix::fs::openat2(&directory, ".", flags, Mode::empty(), probe)?;
        let cache_for = u64::try_from(options.cache_for.as_millis()).unwrap_or(u64::MAX);
        Ok(Arc::new(Root {
            directory,
            cache: Cache::new(
                CacheSize { files: options.entries, memory: options.memory, copied: 0 },
                cache_for,
            ),
            turns: Arc::new(Semaphore::new(options.concurrency.max(1))),
            waiting: AtomicUsize::new(0),
            counters,
            options,
        }))
    }

    /// The hit path: the file for a GET or HEAD of `target`, if no check of the disk is due. No allocation and no
    /// exclusive lock; for a file too large to copy one `fstat`, so that no head promises bytes that were overwritten.
    /// May be sent unmodified if [`crate::is_plain`].
    #[must_use]
    pub fn lookup_now(&self, target: &str, fields: &[Field<'_>], now: Monotonic) -> Option<Arc<OpenFile>> {
        let (raw, _) = path::split(target);
        if !raw.contains('%') {
            // Only canonical paths are keys, so an unescaped one needs no check.
            return self.cache.get_now(raw.as_bytes(), fields, now);
        }
        let mut buffer = [0; path::MAX];
        let path = path::decode(raw, self.options.dotfiles, &mut buffer).ok()?;
        self.cache.get_now(path, fields, now)
    }

    /// Finds the file of `target`. Disk access is on a pool of threads, whose queue is bounded.
    ///
    /// # Errors
    /// The reason for serving no file.
    pub async fn lookup(
        self: &Arc<Self>,
        target: &str,
        fields: &[Field<'_>],
        now: Monotonic,
    ) -> Result<FileLookup, NotServed> {
        let (raw, query) = path::split(target);
        let path: Box<[u8]> = {
            let mut buffer = [0; path::MAX];
            path::decode(raw, self.options.dotfiles, &mut buffer)?.into()
        };
        let skip = self.stripped(&path)?;
        let previous = match self.look(&path, fields, now) {
            Ok(file) => return Ok(FileLookup::File(file)),
            Err(previous) => previous,
        };
        let format = if negotiate::prefers_json(fields) { ListingFormat::Json } else { ListingFormat::Html };
        let (turn, waited) = self.turn().await?;
        if waited == TurnWait::Yes
            && let Ok(file) = self.look(&path, fields, now)
        {
            return Ok(FileLookup::File(file)); // Somebody before us in the queue has looked.
        }
        let now = now.max(clock::monotonic());
        self.load(LookupJob { path, skip, query: query.into(), format, previous, now }, turn, fields).await
    }

    /// Looks on the disk, repeatedly if that may help.
    async fn load(
        self: &Arc<Self>,
        job: LookupJob,
        mut turn: OwnedSemaphorePermit,
        fields: &[Field<'_>],
    ) -> Result<FileLookup, NotServed> {
        let job = Arc::new(job);
        let mut tried = 0;
        loop {
            let (root, job) = (self.clone(), job.clone());
            let path = job.path.clone();
            let work = tokio::task::spawn_blocking(move || {
                let loaded = root.work(&job);
                drop(turn);
                loaded
            });
            tried += 1;
            match work.await.map_err(|_| NotServed::Failed)? {
                Ok(Loaded::Answer(answer)) => return Ok(FileLookup::Answer(answer)),
                // Changed again in the meantime: the client tries again, the next check sees it.
                Ok(Loaded::Entry(it)) => {
                    return it.select_loaded(fields).cloned().map(FileLookup::File).ok_or(NotServed::Busy);
                }
                Err(NotServed::Busy) if tried < TRIES => {}
                Err(NotServed::NoDescriptor) if tried < PATIENT => descriptors::miss(),
                Err(refusal) => {
                    self.counters.files_busy.add_shared(u64::from(refusal.status() == 503));
                    return Err(refusal);
                }
            }
            // Other lookups run meanwhile: they may need no descriptor, or may load this path.
            tokio::time::sleep(PAUSE).await;
            turn = self.turn().await?.0;
            if let Ok(file) = self.look(&path, fields, clock::monotonic()) {
                return Ok(FileLookup::File(file));
            }
        }
    }

    /// Answers a request completely. Methods other than GET and HEAD are answered without a lookup.
    pub async fn answer(
        self: &Arc<Self>,
        method: &str,
        target: &str,
        fields: &[Field<'_>],
        now: Monotonic,
    ) -> Synthetic {
        if let Some(answer) = answer::to_other_method(method) {
            return answer;
        }
        match self.lookup(target, fields, now).await {
            Ok(FileLookup::File(file)) => respond(&file, method, fields),
            Ok(FileLookup::Answer(answer)) => answer,
            Err(refusal) => refusal.answer(),
        }
    }

    /// Closes files that are not being sent: descriptors are needed elsewhere.
    pub fn let_go(&self) {
        self.cache.let_go();
    }

    /// The number of files held open or in memory.
    #[must_use]
    pub fn files_held(&self) -> usize {
        self.cache.size().files
    }

    /// Their bytes of memory.
    #[must_use]
    pub fn memory_held(&self) -> u64 {
        self.cache.size().memory
    }

    /// Bytes of these that are copies of files, in whole pages: the kernel counts those for no process.
    #[must_use]
    pub fn copies_held(&self) -> u64 {
        self.cache.size().copied
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The offset of the path beneath the root.
    fn stripped(&self, path: &[u8]) -> Result<usize, NotServed> {
        let prefix = self.options.strip.trim_end_matches('/').as_bytes();
        match path.strip_prefix(prefix) {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => Ok(prefix.len()),
            _ => Err(NotServed::NotFound),
        }
    }

    /// The cached file, or the job to check it.
    fn look(
        &self,
        path: &[u8],
        fields: &[Field<'_>],
        now: Monotonic,
    ) -> Result<Arc<OpenFile>, Option<Arc<crate::cache::OpenFileEntry>>> {
        match self.cache.get(path, now) {
            CacheLook::Fresh(entry) => match entry.select(fields) {
                Some(file) => Ok(file.clone()),
                None => Err(Some(entry)),
            },
            CacheLook::Stale(entry) => Err(Some(entry)),
            CacheLook::Missing => Err(None),
        }
    }

    /// Waits for a slot on the disk.
    async fn turn(&self) -> Result<(OwnedSemaphorePermit, TurnWait), NotServed> {
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Ok((turn, TurnWait::No));
        }
        if self.waiting.fetch_add(1, Relaxed) >= self.options.queue {
            self.waiting.fetch_sub(1, Relaxed);
            self.counters.files_busy.add_shared(1);
            return Err(NotServed::Busy);
        }
        let _place = RequestedPath(&self.waiting); // Given back also when the client goes away.
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| NotServed::Failed)?;
        Ok((turn, TurnWait::Yes))
    }

    /// The part of a lookup on the pool. The cache is updated here, so that it is even if the client is gone.
    fn work(&self, job: &LookupJob) -> Result<Loaded, NotServed> {
        self.counters.files_loads.add_shared(1);
        let mut loaded = load::load(self, job);
        // Idle descriptors are closed, followed by another attempt.
        if matches!(loaded, Err(NotServed::NoDescriptor)) && self.cache.let_go() {
            loaded = load::load(self, job);
        }
        match &loaded {
            Ok(Loaded::Entry(entry)) if !job.previous.as_ref().is_some_and(|it| Arc::ptr_eq(it, entry)) => {
                let evicted = self.cache.insert(entry.clone());
                self.counters.files_evictions.add_shared(evicted as u64);
            }
            Ok(Loaded::Entry(_)) => {}
            Ok(Loaded::Answer(_)) | Err(NotServed::NotFound | NotServed::Forbidden) => {
                self.cache.remove(&job.path)
            }
            Err(_) => {}
        }
        loaded
    }
}

/// Whether a slot was free at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TurnWait {
    No,
    Yes,
}

struct RequestedPath<'a>(&'a AtomicUsize);

impl Drop for RequestedPath<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
