//! The open-file cache: files by requested path, checked again within a configured time.
//!
//! Half of that time after a check, the first request is chosen to check again while all other requests are still served;
//! so a busy file is checked without a waiting request, and its change is seen in time.

use crate::forms::{FileForms, FormChoice};
use crate::negotiate::FileCoding;
use crate::open_file::OpenFile;
use larder_semantics::field::Field;
use larder_stdx::clock::Monotonic;
use larder_stdx::identity_hasher::IdentityHasher;
use parking_lot::RwLock;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The file of one path.
pub struct OpenFileEntry {
    /// The whole decoded path, compared on every lookup.
    pub path: Box<[u8]>,
    /// Its forms, or the entry that has them.
    pub body: EntryBody,
    /// The last time it was found unchanged, monotonic milliseconds.
    checked: AtomicU64,
    /// Whether a lookup is checking it.
    claimed: AtomicBool,
    /// Whether it was used since the hand of the clock last passed.
    used: AtomicBool,
}

/// The forms of an entry.
pub enum EntryBody {
    /// The forms that the entry has itself.
    Own(FileForms),
    /// Those of the entry with this path: one file answers many paths.
    SameAs(Arc<[u8]>),
}

impl OpenFileEntry {
    /// An entry that was checked at `now`.
    pub fn new(path: &[u8], body: EntryBody, now: Monotonic) -> OpenFileEntry {
        let (checked, claimed, used) =
            (AtomicU64::new(now.0), AtomicBool::new(false), AtomicBool::new(false));
        OpenFileEntry { path: path.into(), body, checked, claimed, used }
    }

    /// Records that it was found unchanged at `now`.
    pub fn still_holds(&self, now: Monotonic) {
        self.checked.fetch_max(now.0, Relaxed);
        self.claimed.store(false, Relaxed);
    }

    /// Its forms; `None` if another entry has them.
    pub fn forms(&self) -> Option<&FileForms> {
        match &self.body {
            EntryBody::Own(forms) => Some(forms),
            EntryBody::SameAs(_) => None,
        }
    }

    /// Whether it has the forms of the entry with this path.
    pub fn is_same_as(&self, path: &[u8]) -> bool {
        matches!(&self.body, EntryBody::SameAs(it) if **it == *path)
    }

    /// Whether `other` is of the same state of the same file: a lookup at the same time made it.
    fn is_twin_of(&self, other: &OpenFileEntry) -> bool {
        match (&self.body, &other.body) {
            (EntryBody::Own(own), EntryBody::Own(other)) => own.is_same_state(other),
            (EntryBody::SameAs(own), EntryBody::SameAs(other)) => own == other,
            _ => false,
        }
    }

    /// The form that a request prefers, if it exists and is still current on the disk.
    pub fn select(&self, fields: &[Field<'_>]) -> Option<&Arc<OpenFile>> {
        match self.forms()?.choose(fields) {
            FormChoice::Ready(form) => Some(form).filter(|it| it.is_current()),
            FormChoice::Make(_) => None,
        }
    }

    /// Milliseconds since it was found unchanged.
    fn age(&self, now: Monotonic) -> u64 {
        now.0.saturating_sub(self.checked.load(Relaxed))
    }

    /// Notes a use for the hand of the clock.
    fn note_use(&self) {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<OpenFile>> {
        self.forms().into_iter().flat_map(FileForms::all)
    }

    /// Whether it holds descriptors, and no response is being sent from them.
    fn holds_at_rest(&self) -> bool {
        let mut uses = self.all().filter_map(|it| it.in_use()).peekable();
        uses.peek().is_some() && !uses.any(|it| it)
    }

    fn size(&self) -> CacheSize {
        let own = (size_of::<OpenFileEntry>() + self.path.len()) as u64;
        let memory = own + self.all().map(|it| it.memory()).sum::<u64>();
        let copied = self.all().map(|it| it.copied()).sum();
        CacheSize { files: self.all().count().max(1), memory, copied }
    }
}

/// The size, or the limit, of the cache's entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheSize {
    /// The number of files, all forms included: each is a descriptor or a body in memory. A path whose file another entry
    /// holds counts as one, too.
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
    /// There is none, or it is to be used only if it is unchanged: the caller checks that.
    Due,
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
    entries: HashMap<u64, Arc<OpenFileEntry>, BuildHasherDefault<IdentityHasher>>,
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

    /// The form of `path` that a request prefers, if it exists and no check is due. Allocates nothing.
    pub fn get_now(&self, path: &[u8], fields: &[Field<'_>], now: Monotonic) -> Option<Arc<OpenFile>> {
        let same_as = {
            let (hash, shard) = self.place(path);
            let shard = shard.read();
            let entry = shard.get(hash, path).filter(|it| !self.is_due(it, now))?;
            entry.note_use();
            match &entry.body {
                EntryBody::Own(_) => return entry.select(fields).cloned(),
                EntryBody::SameAs(other) => other.clone(),
            }
        };
        let (hash, shard) = self.place(&same_as);
        let shard = shard.read();
        // The check of a path includes that of its file, which is therefore never due before.
        let entry = shard.get(hash, &same_as).filter(|it| it.age(now) < self.cache_for)?;
        entry.note_use();
        entry.select(fields).cloned()
    }

    /// Whether an entry was checked too long ago, or is to be checked by this request.
    fn is_due(&self, entry: &OpenFileEntry, now: Monotonic) -> bool {
        let age = entry.age(now);
        age >= self.cache_for || (age >= self.cache_for / 2 && !entry.claimed.load(Relaxed))
    }

    /// The entry of `path`, checked or not.
    pub fn held(&self, path: &[u8]) -> Option<Arc<OpenFileEntry>> {
        let (hash, shard) = self.place(path);
        shard.read().get(hash, path).cloned()
    }

    /// Keeps a form that was made of a file, or that it is not made; returns the number of evicted entries.
    pub fn keep_form(
        &self,
        entry: &Arc<OpenFileEntry>,
        coding: FileCoding,
        form: Option<Arc<OpenFile>>,
    ) -> usize {
        let Some(forms) = entry.forms() else { return 0 };
        let (hash, shard) = self.place(&entry.path);
        let mut gone = Vec::new(); // Descriptors are closed after the lock is given back.
        {
            let mut shard = shard.write();
            let is_held = shard.entries.get(&hash).is_some_and(|it| Arc::ptr_eq(it, entry));
            let before = entry.size();
            forms.keep(coding, form);
            // An entry that was evicted meanwhile counts no more.
            if is_held {
                shard.size.sub(before);
                shard.size.add(entry.size());
                shard.make_room(self.room, hash, &mut gone);
            }
        }
        gone.len()
    }

    /// Looks `path` up; only one caller gets [`CacheLook::Due`] for an entry before the time is over.
    pub fn get(&self, path: &[u8], now: Monotonic) -> CacheLook {
        let (hash, shard) = self.place(path);
        let shard = shard.read();
        let Some(entry) = shard.get(hash, path) else { return CacheLook::Due };
        entry.used.store(true, Relaxed);
        let age = entry.age(now);
        let due = age >= self.cache_for / 2 && !entry.claimed.swap(true, Relaxed);
        if due || age >= self.cache_for { CacheLook::Due } else { CacheLook::Fresh(entry.clone()) }
    }

    /// Replaces the entry of the same path, unless it is of the same state of the file; returns the one in the cache, and
    /// the number of evicted entries.
    pub fn insert(&self, entry: Arc<OpenFileEntry>) -> (Arc<OpenFileEntry>, usize) {
        let (hash, shard) = self.place(&entry.path);
        let mut gone = Vec::new(); // Descriptors are closed after the lock is given back.
        let evicted = {
            let mut shard = shard.write();
            if let Some(twin) = shard.get(hash, &entry.path).filter(|it| it.is_twin_of(&entry)) {
                twin.still_holds(Monotonic(entry.checked.load(Relaxed)));
                return (twin.clone(), 0);
            }
            shard.size.add(entry.size());
            match shard.entries.insert(hash, entry.clone()) {
                Some(old) => {
                    shard.size.sub(old.size());
                    gone.push(old);
                }
                None => shard.clock.push_back(hash),
            }
            let replaced = gone.len();
            shard.make_room(self.room, hash, &mut gone);
            gone.len() - replaced
        };
        (entry, evicted)
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
    fn get(&self, hash: u64, path: &[u8]) -> Option<&Arc<OpenFileEntry>> {
        self.entries.get(&hash).filter(|it| *it.path == *path)
    }

    /// Evicts entries other than `keep` until the rest fits.
    fn make_room(&mut self, room: CacheSize, keep: u64, gone: &mut Vec<Arc<OpenFileEntry>>) {
        while self.size.exceeds(room) && self.entries.len() > 1 {
            gone.extend(self.evict(keep));
        }
    }

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
