//! The open-file cache: files by requested path, checked again within a configured time.
//!
//! Half of that time after a check, the first request is chosen to check again while all other requests are still served;
//! so a busy file is checked without a waiting request, and its change is seen in time.

use crate::negotiate::{self, SiblingCoding};
use crate::open_file::OpenFile;
use larder_semantics::field::Field;
use larder_stdx::as_is::AsIs;
use larder_stdx::clock::Monotonic;
use parking_lot::RwLock;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A file and its precompressed siblings under one path.
pub struct OpenFileEntry {
    /// The whole decoded path, compared on every lookup.
    pub path: Box<[u8]>,
    /// The plain file.
    pub plain: Arc<OpenFile>,
    /// Its siblings, in the order of [`SiblingCoding::ALL`].
    pub coded: Vec<(SiblingCoding, Arc<OpenFile>)>,
    /// The last time it was found unchanged, monotonic milliseconds.
    checked: AtomicU64,
    /// Whether a lookup is checking it.
    claimed: AtomicBool,
    /// Whether it was used since the hand of the clock last passed.
    used: AtomicBool,
}

impl OpenFileEntry {
    /// An entry that was checked at `now`.
    pub fn new(
        path: &[u8],
        plain: Arc<OpenFile>,
        coded: Vec<(SiblingCoding, Arc<OpenFile>)>,
        now: Monotonic,
    ) -> OpenFileEntry {
        let (checked, claimed, used) =
            (AtomicU64::new(now.0), AtomicBool::new(false), AtomicBool::new(false));
        OpenFileEntry { path: path.into(), plain, coded, checked, claimed, used }
    }

    /// Records that it was found unchanged at `now`.
    pub fn still_holds(&self, now: Monotonic) {
        self.checked.fetch_max(now.0, Relaxed);
        self.claimed.store(false, Relaxed);
    }

    /// The form that a request prefers, if it is still current on the disk.
    pub fn select(&self, fields: &[Field<'_>]) -> Option<&Arc<OpenFile>> {
        Some(self.chosen(fields)).filter(|it| it.is_current())
    }

    /// The form that a request prefers, if its promised bytes can still be sent: for an entry that has just been checked.
    pub fn select_loaded(&self, fields: &[Field<'_>]) -> Option<&Arc<OpenFile>> {
        Some(self.chosen(fields)).filter(|it| it.is_intact())
    }

    fn chosen(&self, fields: &[Field<'_>]) -> &Arc<OpenFile> {
        if self.coded.is_empty() {
            return &self.plain;
        }
        let codings = self.coded.iter().map(|it| it.0);
        negotiate::choose(fields, codings).map_or(&self.plain, |at| &self.coded[at].1)
    }

    /// Whether it holds descriptors, and no response is being sent from them.
    fn holds_at_rest(&self) -> bool {
        let bodies = std::iter::once(&self.plain).chain(self.coded.iter().map(|it| &it.1));
        let mut uses = bodies.filter_map(|it| it.in_use()).peekable();
        uses.peek().is_some() && !uses.any(|it| it)
    }

    fn size(&self) -> CacheSize {
        let bodies = std::iter::once(&self.plain).chain(self.coded.iter().map(|it| &it.1));
        let memory = bodies.map(|it| it.memory()).sum::<u64>() + self.path.len() as u64;
        let bodies = std::iter::once(&self.plain).chain(self.coded.iter().map(|it| &it.1));
        CacheSize { files: 1 + self.coded.len(), memory, copied: bodies.map(|it| it.copied()).sum() }
    }
}

/// The size, or the limit, of the cache's entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheSize {
    /// The number of files, siblings included: each is a descriptor or a body in memory.
    pub files: usize,
    /// Bytes of heads and of bodies in memory.
    pub memory: u64,
    /// Bytes of copies, in whole pages; without a bound of their own, since `memory` includes them.
    pub copied: u64,
}

impl CacheSize {
    fn add(&mut self, more: CacheSize) {
        self.files += more.files;
        self.memory += more.memory;
        self.copied += more.copied;
    }

    fn sub(&mut self, less: CacheSize) {
        self.files -= less.files;
        self.memory -= less.memory;
        self.copied -= less.copied;
    }

    fn exceeds(self, room: CacheSize) -> bool {
        self.files > room.files || self.memory > room.memory
    }
}

/// The result of a lookup.
pub enum CacheLook {
    /// To be used.
    Fresh(Arc<OpenFileEntry>),
    /// To be used only if it is unchanged: the caller checks it.
    Stale(Arc<OpenFileEntry>),
    /// No entry.
    Missing,
}

/// All entries, in shards so that workers seldom contend for a lock.
pub struct Cache {
    shards: Box<[RwLock<FileShard>]>,
    /// The limit of one shard.
    room: CacheSize,
    /// The time within which a change is seen, milliseconds.
    cache_for: u64,
    seed: RandomState,
}

#[derive(Default)]
struct FileShard {
    /// By the hash of the path; two paths of one hash share a slot, and only one of them is cached.
    entries: HashMap<u64, Arc<OpenFileEntry>, BuildHasherDefault<AsIs>>,
    /// The clock: from the oldest to the newest; an entry that is kept moves to the end.
    clock: VecDeque<u64>,
    size: CacheSize,
}

impl Cache {
    /// An empty cache that holds at most `room`.
    pub fn new(room: CacheSize, cache_for: u64) -> Cache {
        // No shard so small that a few files, or one large one, would fill it.
        let by_memory = usize::try_from(room.memory >> 20).unwrap_or(usize::MAX);
        let shards = (room.files / 64).min(by_memory).clamp(1, 16).next_power_of_two();
        let room =
            CacheSize { files: (room.files / shards).max(1), memory: room.memory / shards as u64, copied: 0 };
        Cache {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            room,
            cache_for,
            seed: RandomState::new(),
        }
    }

    /// The form of `path` that a request prefers, if no check is due. Allocates nothing.
    pub fn get_now(&self, path: &[u8], fields: &[Field<'_>], now: Monotonic) -> Option<Arc<OpenFile>> {
        let (hash, shard) = self.place(path);
        let shard = shard.read();
        let entry = shard.entries.get(&hash).filter(|it| *it.path == *path)?;
        let age = now.0.saturating_sub(entry.checked.load(Relaxed));
        if age >= self.cache_for || (age >= self.cache_for / 2 && !entry.claimed.load(Relaxed)) {
            return None;
        }
        if !entry.used.load(Relaxed) {
            entry.used.store(true, Relaxed);
        }
        entry.select(fields).cloned()
    }

    /// Looks `path` up; only one caller gets [`CacheLook::Stale`] before the time is over.
    pub fn get(&self, path: &[u8], now: Monotonic) -> CacheLook {
        let (hash, shard) = self.place(path);
        let shard = shard.read();
        let Some(entry) = shard.entries.get(&hash).filter(|it| *it.path == *path) else {
            return CacheLook::Missing;
        };
        entry.used.store(true, Relaxed);
        let age = now.0.saturating_sub(entry.checked.load(Relaxed));
        let due = age >= self.cache_for / 2 && !entry.claimed.swap(true, Relaxed);
        if due || age >= self.cache_for {
            CacheLook::Stale(entry.clone())
        } else {
            CacheLook::Fresh(entry.clone())
        }
    }

    /// Replaces the entry of the same path; returns the number of evicted entries.
    pub fn insert(&self, entry: Arc<OpenFileEntry>) -> usize {
        let (hash, shard) = self.place(&entry.path);
        let mut gone = Vec::new(); // Descriptors are closed after the lock is given back.
        {
            let mut shard = shard.write();
            shard.size.add(entry.size());
            match shard.entries.insert(hash, entry) {
                Some(old) => {
                    shard.size.sub(old.size());
                    gone.push(old);
                }
                None => shard.clock.push_back(hash),
            }
            let replaced = gone.len();
            while shard.size.exceeds(self.room) && shard.entries.len() > 1 {
                gone.extend(shard.evict(hash));
            }
            gone.len() - replaced
        }
    }

    /// Removes a path.
    pub fn remove(&self, path: &[u8]) {
        let (hash, shard) = self.place(path);
        let mut shard = shard.write();
        if shard.entries.get(&hash).is_some_and(|it| *it.path == *path) {
            shard.clock.retain(|it| *it != hash);
            if let Some(old) = shard.entries.remove(&hash) {
                shard.size.sub(old.size());
            }
        }
    }

    /// Removes entries with a descriptor from which no response is being sent: descriptors are needed elsewhere. Returns
    /// whether there was any.
    pub fn let_go(&self) -> bool {
        let mut gone = Vec::new(); // Descriptors are closed after the lock is given back.
        for it in &self.shards {
            let mut shard = it.write();
            let rest: Vec<u64> =
                shard.entries.iter().filter(|it| it.1.holds_at_rest()).map(|it| *it.0).collect();
            gone.extend(rest.iter().filter_map(|it| shard.take(*it)));
            let FileShard { entries, clock, .. } = &mut *shard;
            clock.retain(|it| entries.contains_key(it));
        }
        !gone.is_empty()
    }

    /// The current size of all entries.
    pub fn size(&self) -> CacheSize {
        let mut sum = CacheSize::default();
        self.shards.iter().for_each(|it| sum.add(it.read().size));
        sum
    }

    fn place(&self, path: &[u8]) -> (u64, &RwLock<FileShard>) {
        let hash = self.seed.hash_one(path);
        #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
        let at = (hash >> 32) as usize & (self.shards.len() - 1);
        (hash, &self.shards[at])
    }
}

impl FileShard {
    /// Moves the hand of the clock by one: an entry that was used since is kept, and so is `keep`.
    fn evict(&mut self, keep: u64) -> Option<Arc<OpenFileEntry>> {
        let hash = self.clock.pop_front()?;
        if hash == keep || self.entries.get(&hash)?.used.swap(false, Relaxed) {
            self.clock.push_back(hash);
            return None;
        }
        self.take(hash)
    }

    /// Removes an entry, and leaves its place in the clock.
    fn take(&mut self, hash: u64) -> Option<Arc<OpenFileEntry>> {
        let old = self.entries.remove(&hash)?;
        self.size.sub(old.size());
        Some(old)
    }
}
