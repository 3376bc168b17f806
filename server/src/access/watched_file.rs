//! A file of users or keys and its content, which is read again when the file was changed. A look takes a system call, at most once a
//! second. The rules of all routes that name a file share it, and a reload keeps it: if the file is broken by then, its content stays.

use super::AccessState;
use crate::config_watch::{FileLook, look};
use larder_counters::Counters;
use larder_observe::log::Level;
use larder_semantics::server_state::BrokenFileFact;
use larder_stdx::clock;
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Milliseconds between two looks.
const LOOK: u64 = 1000;

/// A file, its state at the last look, and its content when it was last good.
pub(super) struct WatchedFile<T> {
    path: PathBuf,
    seen: Mutex<Option<FileLook>>,
    next_look: AtomicU64,
    content: RwLock<Option<Arc<T>>>,
    /// Why it cannot be used, if so.
    broken: Mutex<Option<Box<BrokenFileFact>>>,
}

/// The event of a broken file, and its effect meanwhile.
#[derive(Clone, Copy)]
pub(super) struct BrokenEvent {
    pub event: &'static str,
    pub meaning: &'static str,
}

impl<T> WatchedFile<T> {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: Mutex::default(),
            next_look: AtomicU64::new(0),
            content: RwLock::default(),
            broken: Mutex::default(),
        }
    }

    /// Its content when it was last good; `None` if it never was.
    pub fn content(&self) -> Option<Arc<T>> {
        self.content.read().clone()
    }

    /// Reads it if it was changed, or is missing; at most once a second. A broken file changes nothing.
    pub fn look(
        &self,
        state: &AccessState,
        counters: Option<&Counters>,
        event: BrokenEvent,
        read: impl FnOnce(&Path) -> Result<T, String>,
    ) {
        if !self.has_changed() {
            return;
        }
        match read(&self.path) {
            Ok(content) => {
                *self.content.write() = Some(Arc::new(content));
                self.broken.lock().take();
            }
            Err(why) => self.is_broken(state, counters, event, &why),
        }
    }

    /// Why it cannot be used, if so.
    pub fn broken(&self) -> Option<BrokenFileFact> {
        self.broken.lock().as_deref().cloned()
    }

    fn has_changed(&self) -> bool {
        let (now, next) = (clock::monotonic().0, self.next_look.load(Relaxed));
        if now < next || self.next_look.compare_exchange(next, now + LOOK, Relaxed, Relaxed).is_err() {
            return false;
        }
        let found = look(&self.path);
        let mut seen = self.seen.lock();
        if *seen == found && found.is_some() {
            return false;
        }
        *seen = found;
        true
    }

    /// The next look reads it, changed or not.
    fn forget_look(&self) {
        *self.seen.lock() = None;
        self.next_look.store(0, Relaxed);
    }

    /// Records, counts and logs that it cannot be used.
    fn is_broken(&self, state: &AccessState, counters: Option<&Counters>, event: BrokenEvent, why: &str) {
        let mut broken = self.broken.lock();
        if broken.is_none() {
            // Any thread looks at it.
            counters.iter().for_each(|it| it.access_files_broken.add_shared(1));
        }
        if broken.as_ref().is_some_and(|it| it.why == why) {
            return;
        }
        let at = broken.as_ref().map_or(clock::wall().0, |it| it.at);
        let name = self.path.display().to_string();
        *broken = Some(Box::new(BrokenFileFact { name, at, why: why.to_owned(), effect: event.meaning }));
        drop(broken);
        if let Some(errors) = state.errors.get() {
            let file = self.path.display().to_string();
            let values = [("file", file.as_str()), ("why", why), ("meaning", event.meaning)];
            errors.seldom_of(Level::Error, event.event, &file, &values);
        }
    }
}

/// The files of one kind that rules name, by their path and what is read from them.
pub(super) struct FileRegistry<K, T>(Mutex<Vec<(K, Arc<WatchedFile<T>>)>>);

impl<K, T> Default for FileRegistry<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq + Clone, T> FileRegistry<K, T> {
    /// The file of this key: the one that rules name already, with its content, or a new one. The next look reads it.
    pub fn of(&self, key: &K, path: &Path) -> Arc<WatchedFile<T>> {
        let mut all = self.0.lock();
        if let Some((_, found)) = all.iter().find(|it| it.0 == *key) {
            found.forget_look();
            return found.clone();
        }
        let new = Arc::new(WatchedFile::new(path));
        all.push((key.clone(), new.clone()));
        new
    }

    /// Forgets those that no rules name.
    pub fn forget_unused(&self) {
        self.0.lock().retain(|it| Arc::strong_count(&it.1) > 1);
    }
}
