//! A served directory: its options, its open-file cache, and the steps of a lookup.

use crate::absent::AbsentPaths;
use crate::answer::{self, NotServed};
use crate::cache::{Cache, CacheLook, CacheSize, OpenFileEntry};
use crate::directory::ServedDirectory;
use crate::find::{self, Loaded, LookupJob};
use crate::forms::{Encoded, FileForms, FormChoice};
use crate::listing::ListingFormat;
use crate::load;
use crate::members::{Navigation, TryMember};
use crate::negotiate::{self, FileCoding};
use crate::open_file::OpenFile;
use crate::path;
use crate::respond::{self, respond};
use crate::root_directory::RootDirectory;
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_stdx::clock::{self, Monotonic};
use larder_stdx::descriptors;
use larder_transport::Synthetic;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use crate::directory::{FileCompression, Listing, RootOptions};
pub use crate::path::Dotfiles;
pub use crate::resolve::SymlinkPolicy;

/// The pause before another attempt of a lookup that found no descriptor, or a file that is being written to.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of attempts for a file that is being written to: for a second.
const TRIES: usize = 50;
/// The number of attempts without a descriptor: for half a minute. A connection in the accept queue would wait as well.
const PATIENT: usize = 1500;

/// A served directory. Shared by all workers.
pub struct Root {
    served: ServedDirectory,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Plain files up to this many bytes: a request waits until their form is made. For a larger one the form is made for later
/// requests.
const AWAITED: u64 = 1 << 20;

/// The result of a lookup.
pub enum FileLookup {
    /// A file: see [`respond`].
    File(Arc<OpenFile>),
    /// The page of an application, chosen by `Accept`.
    ByAccept(Arc<OpenFile>),
    /// A redirect or a listing, as for GET.
    Answer(Synthetic),
}

/// The result of a look into the cache.
enum Looked {
    /// The form that the request prefers.
    File(Arc<OpenFile>),
    /// Its file is known, but not this form.
    Entry(Arc<OpenFileEntry>),
    /// The disk is asked.
    Disk,
}

impl Root {
    /// Opens the directory that a path leads to; every look on the disk follows the path. Blocks: for the start and for reloads.
    ///
    /// # Errors
    /// It is not a directory, or cannot be opened.
    pub fn open(path: &Path, options: RootOptions, counters: Arc<Counters>) -> std::io::Result<Arc<Root>> {
        let directory = RootDirectory::open(path)?;
        let cache_for = u64::try_from(options.cache_for.as_millis()).unwrap_or(u64::MAX);
        let room = CacheSize { files: options.entries, memory: options.memory, copied: 0 };
        let turns = Arc::new(Semaphore::new(options.concurrency.max(1)));
        let absent = (options.fall_through && cache_for > 0).then(|| AbsentPaths::new(cache_for));
        let cache = Cache::new(room, cache_for);
        let served = ServedDirectory { directory, cache, absent, options, counters };
        Ok(Arc::new(Root { served, turns, waiting: AtomicUsize::new(0) }))
    }

    /// The hit path: the file for a GET or HEAD of `target`, if no check of the disk is due. No allocation and no
    /// exclusive lock; for a file too large to copy one `fstat`, so that no head promises bytes that were overwritten.
    /// May be sent unmodified if [`crate::is_plain`].
    #[must_use]
    pub fn lookup_now(&self, target: &str, fields: &[Field<'_>], now: Monotonic) -> Option<Arc<OpenFile>> {
        let (raw, _) = path::split(target);
        if !raw.starts_with('/') {
            return None; // A key of the cache that is no path: see `load::page_key`.
        }
        if !raw.contains('%') {
            // Only canonical paths are keys, so an unescaped one needs no check.
            return self.served.cache.get_now(raw.as_bytes(), fields, now);
        }
        let mut buffer = [0; path::MAX];
        let path = path::decode(raw, self.served.options.dotfiles, &mut buffer).ok()?;
        self.served.cache.get_now(path, fields, now)
    }

    /// Whether it is known that a GET of `target` finds no file, redirect or listing here. No allocation, no lock and no
    /// system call.
    #[must_use]
    pub fn is_absent_now(&self, target: &str, now: Monotonic) -> bool {
        let Some(absent) = &self.served.absent else { return false };
        let (raw, _) = path::split(target);
        if !raw.contains('%') {
            return absent.has_now(raw.as_bytes(), now);
        }
        let mut buffer = [0; path::MAX];
        match path::decode(raw, self.served.options.dotfiles, &mut buffer) {
            Ok(path) => absent.has_now(path, now),
            Err(_) => true,
        }
    }

    /// Whether a GET of `target` finds a file, a redirect or a listing here. A failure of the lookup counts as a file, so that
    /// the client gets its error: no other route answers a path because the disk was busy.
    pub async fn has_file(self: &Arc<Self>, target: &str, fields: &[Field<'_>], now: Monotonic) -> bool {
        let path: Box<[u8]> = {
            let (raw, _) = path::split(target);
            let mut buffer = [0; path::MAX];
            match path::decode(raw, self.served.options.dotfiles, &mut buffer) {
                Ok(path) => path.into(),
                Err(_) => {
                    // No file can have this path. The table has it as it is spelled.
                    self.served.absent.iter().for_each(|it| it.note(raw.as_bytes(), now));
                    return false;
                }
            }
        };
        let absent = self.served.absent.as_ref();
        if absent.is_some_and(|it| it.has(&path, now)) {
            return false;
        }
        let found = self.lookup(target, fields, now).await;
        let has_none = matches!(found, Err(NotServed::NotFound | NotServed::TooLong));
        match has_none {
            true => absent.iter().for_each(|it| it.note(&path, now)),
            false => absent.iter().for_each(|it| it.forget(&path)),
        }
        !has_none
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
        if let Some(merged) = self.merged(target) {
            let job = self.job(&merged, fields, now)?;
            let to = find::redirect(&job.path, &job.query);
            return self.lookup_path(job, fields).await.map(|_| FileLookup::Answer(to));
        }
        self.lookup_path(self.job(target, fields, now)?, fields).await
    }

    /// The file at `path` beneath the root in its own form, for a path that no request has: from its slash on, without `.` and `..`
    /// segments.
    ///
    /// # Errors
    /// The reason for serving no file; [`NotServed::Malformed`] for a name that is never served.
    pub async fn file(self: &Arc<Self>, path: &[u8]) -> Result<Arc<OpenFile>, NotServed> {
        if path.len() > path::MAX {
            return Err(NotServed::TooLong);
        }
        if !path::is_canonical(path, self.served.options.dotfiles) {
            return Err(NotServed::Malformed);
        }
        let job = LookupJob {
            path: path.into(),
            skip: 0,
            query: "".into(),
            format: ListingFormat::Html,
            navigation: Navigation::No,
            now: clock::monotonic(),
        };
        match self.lookup_path(job, &[]).await? {
            FileLookup::File(file) => Ok(file),
            FileLookup::ByAccept(_) | FileLookup::Answer(_) => Err(NotServed::NotFound),
        }
    }

    /// A target without empty segments, to which a request is redirected if it has some. A route that falls through leaves it to the
    /// next one.
    pub(crate) fn merged(&self, target: &str) -> Option<String> {
        let (raw, query) = path::split(target);
        let merged = path::merged(raw).filter(|_| !self.served.options.fall_through)?;
        Some(merged + query)
    }

    /// The lookup of a target.
    pub(crate) fn job(
        &self,
        target: &str,
        fields: &[Field<'_>],
        now: Monotonic,
    ) -> Result<LookupJob, NotServed> {
        let (raw, query) = path::split(target);
        let path: Box<[u8]> = {
            let mut buffer = [0; path::MAX];
            path::decode(raw, self.served.options.dotfiles, &mut buffer)?.into()
        };
        let skip = self.stripped(&path)?;
        let navigation = Navigation::of(&path, negotiate::accepts_html(fields));
        let format = if negotiate::prefers_json(fields) { ListingFormat::Json } else { ListingFormat::Html };
        Ok(LookupJob { path, skip, query: query.into(), format, navigation, now })
    }

    /// The directory with its options.
    pub(crate) fn served(&self) -> &ServedDirectory {
        &self.served
    }

    /// Finds the file of a decoded path.
    async fn lookup_path(
        self: &Arc<Self>,
        mut job: LookupJob,
        fields: &[Field<'_>],
    ) -> Result<FileLookup, NotServed> {
        if let Some(held) = self.held(&job.path, fields, job.now).await {
            return held;
        }
        let (turn, waited) = self.turn().await?;
        // A request before this one in the queue may have looked.
        if waited == TurnWait::Yes
            && let Some(held) = self.held(&job.path, fields, job.now).await
        {
            return held;
        }
        job.now = job.now.max(clock::monotonic());
        self.load(job, turn, fields).await
    }

    /// The form in the cache, if no look on the disk is due; it is made if it does not exist.
    async fn held(
        self: &Arc<Self>,
        path: &[u8],
        fields: &[Field<'_>],
        now: Monotonic,
    ) -> Option<Result<FileLookup, NotServed>> {
        match self.look(path, fields, now) {
            Looked::File(file) => Some(Ok(FileLookup::File(file))),
            Looked::Entry(entry) => match self.select(&entry, fields).await {
                // It was changed since the look: the disk has the new state.
                Err(NotServed::Busy) => None,
                form => Some(form.map(FileLookup::File)),
            },
            Looked::Disk => None,
        }
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
            let found = match work.await.map_err(|_| NotServed::Failed)? {
                Ok(Loaded::Answer(answer)) => Ok(FileLookup::Answer(answer)),
                Ok(Loaded::Entry(it) | Loaded::Shared { file: it, path: Some(_) }) => {
                    self.select(&it, fields).await.map(FileLookup::File)
                }
                Ok(Loaded::Shared { file, path: None }) => {
                    self.select(&file, fields).await.map(FileLookup::ByAccept)
                }
                Err(refusal) => Err(refusal),
            };
            match found {
                Err(NotServed::Busy) if tried < TRIES => {}
                Err(NotServed::NoDescriptor) if tried < PATIENT => descriptors::record_shortage(),
                Err(refusal) => {
                    self.served.counters.files_busy.add_shared(u64::from(refusal.status() == 503));
                    return Err(refusal);
                }
                found => return found,
            }
            // Other lookups run meanwhile: they may need no descriptor, or may load this path.
            tokio::time::sleep(PAUSE).await;
            turn = self.turn().await?.0;
            if let Some(held) = self.held(&path, fields, clock::monotonic()).await {
                return held;
            }
        }
    }

    /// The form of an entry that a request prefers. One that was not made yet is made, once for all requests.
    async fn select(
        self: &Arc<Self>,
        entry: &Arc<OpenFileEntry>,
        fields: &[Field<'_>],
    ) -> Result<Arc<OpenFile>, NotServed> {
        let forms = entry.forms().ok_or(NotServed::Busy)?;
        let form = match forms.choose(fields) {
            FormChoice::Ready(form) => form.clone(),
            FormChoice::Make(coding) => {
                self.form(entry, forms, coding).await.unwrap_or_else(|| forms.plain.clone())
            }
        };
        // Changed in the meantime. A write is in two steps, of which the first changes the modification time alone: also an
        // append looks like an edit between them.
        Some(form).filter(|it| it.is_intact()).ok_or(NotServed::Busy)
    }

    /// Makes a form, or waits for the request that does. `None`: it is not made now, or takes too long to wait for.
    async fn form(
        self: &Arc<Self>,
        entry: &Arc<OpenFileEntry>,
        forms: &FileForms,
        coding: FileCoding,
    ) -> Option<Arc<OpenFile>> {
        let encoder = self.served.options.compress.as_ref()?.encoder.clone();
        let waits = forms.plain.length() <= AWAITED;
        if !forms.claim(coding) {
            if waits {
                forms.settled(coding).await;
            }
            return forms.made(coding);
        }
        let claim = FormClaim { entry: entry.clone(), coding };
        let root = self.clone();
        let make = async move {
            let turn = encoder.turn().await?;
            tokio::task::spawn_blocking(move || {
                root.make(&claim);
                drop((claim, turn));
            })
            .await
            .ok()
        };
        if waits {
            // The making goes on if the client goes away.
            make.await?;
            return forms.made(coding);
        }
        tokio::task::spawn(make);
        None
    }

    /// The part of a form's making on the pool.
    fn make(&self, claim: &FormClaim) {
        let (entry, coding) = (&claim.entry, claim.coding);
        let Some(forms) = entry.forms() else { return };
        let form = match load::make_form(&self.served, &forms.plain, coding) {
            Encoded::Made(bytes) => match load::form(&self.served, &forms.plain, coding, bytes) {
                Some(form) => Some(form),
                None => return,
            },
            Encoded::NoGain => None,
            Encoded::Later => return,
        };
        let evicted = self.served.cache.keep_form(entry, coding, form);
        self.served.counters.files_evictions.add_shared(evicted as u64);
    }

    /// The response where there is no file: the page of the directory for it, if any. Preconditions and ranges do not
    /// apply to it (RFC 9110 §13.2.1, §14.2).
    async fn not_found(self: &Arc<Self>, fields: &[Field<'_>], now: Monotonic) -> Synthetic {
        let Some(page) = &self.served.options.not_found else { return NotServed::NotFound.answer() };
        let job = LookupJob {
            path: load::page_key(page.as_bytes()),
            skip: 0,
            query: "".into(),
            format: ListingFormat::Html,
            navigation: Navigation::No,
            now,
        };
        match self.lookup_path(job, fields).await {
            Ok(FileLookup::File(file)) => respond::instead(&file, 404),
            _ => NotServed::NotFound.answer(),
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
            Ok(FileLookup::ByAccept(file)) => respond(&file, method, fields).with("Vary", "Accept"),
            Ok(FileLookup::Answer(answer)) => answer,
            Err(NotServed::NotFound) => {
                let page = self.not_found(fields, now).await;
                // Another `Accept` could have got the page of the application.
                if self.may_depend_on_accept(target) { page.with("Vary", "Accept") } else { page }
            }
            Err(refusal) => refusal.answer(),
        }
    }

    /// Whether the file of `target` may be chosen by `Accept`.
    fn may_depend_on_accept(&self, target: &str) -> bool {
        let (path, _) = path::split(target);
        let pages = self.served.options.members.iter().any(|it| matches!(it, TryMember::Page(_)));
        pages && Navigation::of(path.as_bytes(), true) == Navigation::ByAccept
    }

    /// Closes files that are not being sent: descriptors are needed elsewhere.
    pub fn let_go(&self) {
        self.served.cache.let_go();
    }

    /// The number of files held open or in memory.
    #[must_use]
    pub fn files_held(&self) -> usize {
        self.served.cache.size().files
    }

    /// Their bytes of memory.
    #[must_use]
    pub fn memory_held(&self) -> u64 {
        self.served.cache.size().memory + self.served.absent.as_ref().map_or(0, AbsentPaths::memory)
    }

    /// Bytes of these that are copies of files, in whole pages: the kernel counts those for no process.
    #[must_use]
    pub fn copies_held(&self) -> u64 {
        self.served.cache.size().copied
    }

    /// The offset of the path beneath the root.
    fn stripped(&self, path: &[u8]) -> Result<usize, NotServed> {
        let prefix = self.served.options.strip.trim_end_matches('/').as_bytes();
        match path.strip_prefix(prefix) {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => Ok(prefix.len()),
            _ => Err(NotServed::NotFound),
        }
    }

    /// The cached file, or the step that finds it.
    fn look(&self, path: &[u8], fields: &[Field<'_>], now: Monotonic) -> Looked {
        match self.served.cache.get(path, now) {
            CacheLook::Fresh(entry) => match entry.forms().map(|it| it.choose(fields)) {
                Some(FormChoice::Ready(file)) if file.is_current() => Looked::File(file.clone()),
                Some(FormChoice::Make(_)) if entry.forms().is_some_and(|it| it.plain.is_current()) => {
                    Looked::Entry(entry)
                }
                Some(_) => Looked::Disk,
                None => self.served.cache.get_now(path, fields, now).map_or(Looked::Disk, Looked::File),
            },
            CacheLook::Due => Looked::Disk,
        }
    }

    /// Waits for a slot on the disk.
    pub(crate) async fn turn(&self) -> Result<(OwnedSemaphorePermit, TurnWait), NotServed> {
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Ok((turn, TurnWait::No));
        }
        if self.waiting.fetch_add(1, Relaxed) >= self.served.options.queue {
            self.waiting.fetch_sub(1, Relaxed);
            self.served.counters.files_busy.add_shared(1);
            return Err(NotServed::Busy);
        }
        let _place = RequestedPath(&self.waiting); // Given back also when the client goes away.
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| NotServed::Failed)?;
        Ok((turn, TurnWait::Yes))
    }

    /// The part of a lookup on the pool. The cache is updated here, so that it is even if the client is gone.
    fn work(&self, job: &LookupJob) -> Result<Loaded, NotServed> {
        self.served.counters.files_loads.add_shared(1);
        let root = self.served.view();
        let mut loaded = find::find(&root, job);
        // Idle descriptors are closed, followed by another attempt.
        if matches!(loaded, Err(NotServed::NoDescriptor)) && self.served.cache.let_go() {
            loaded = find::find(&root, job);
        }
        match &mut loaded {
            Ok(Loaded::Entry(entry)) => self.keep(entry),
            Ok(Loaded::Shared { file, path }) => {
                self.keep(file);
                match path {
                    Some(path) => self.keep(path),
                    None => self.served.cache.remove(&job.path),
                }
            }
            Ok(Loaded::Answer(_)) | Err(NotServed::NotFound | NotServed::Gone | NotServed::Forbidden) => {
                self.served.cache.remove(&job.path)
            }
            Err(_) => {}
        }
        loaded
    }

    /// Puts an entry into the cache, or replaces it by the one that is there already.
    fn keep(&self, entry: &mut Arc<OpenFileEntry>) {
        let (kept, evicted) = self.served.cache.insert(entry.clone());
        *entry = kept;
        self.served.counters.files_evictions.add_shared(evicted as u64);
    }
}

/// The right to make a form; another request may make it once this is dropped.
struct FormClaim {
    entry: Arc<OpenFileEntry>,
    coding: FileCoding,
}

impl Drop for FormClaim {
    fn drop(&mut self) {
        if let Some(forms) = self.entry.forms() {
            forms.give_back(self.coding);
        }
    }
}

/// Whether a slot was free at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnWait {
    No,
    Yes,
}

struct RequestedPath<'a>(&'a AtomicUsize);

impl Drop for RequestedPath<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
