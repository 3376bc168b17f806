//! A file of users or keys that is read again when it was changed. A look takes a system call, at most once a second.

use super::AccessState;
use larder_counters::Counters;
use larder_observe::log::Level;
use larder_semantics::health::BrokenFileFact;
use larder_stdx::clock;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Milliseconds between two looks.
const LOOK: u64 = 1000;

/// A file, and its state at the last look.
pub(super) struct WatchedFile {
    /// Its path.
    pub path: PathBuf,
    seen: Mutex<Option<FileSign>>,
    next_look: AtomicU64,
    /// Why it cannot be used, if so.
    broken: Mutex<Option<Box<BrokenFileFact>>>,
}

/// Two of these differ if the file was replaced or changed.
#[derive(Clone, PartialEq, Eq)]
struct FileSign(u64, u64, Option<SystemTime>);

impl WatchedFile {
    /// A file that was not looked at.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: Mutex::default(),
            next_look: AtomicU64::new(0),
            broken: Mutex::default(),
        }
    }

    /// Whether the file has to be read: it was changed, or is missing. At most once a second.
    pub fn has_changed(&self) -> bool {
        let (now, next) = (clock::monotonic().0, self.next_look.load(Relaxed));
        if now < next || self.next_look.compare_exchange(next, now + LOOK, Relaxed, Relaxed).is_err() {
            return false;
        }
        let sign = sign_of(&self.path);
        let mut seen = self.seen.lock();
        if *seen == sign && sign.is_some() {
            return false;
        }
        *seen = sign;
        true
    }

    /// Records that it was read.
    pub fn is_good(&self) {
        self.broken.lock().take();
    }

    /// Why it cannot be used, if so.
    pub fn broken(&self) -> Option<BrokenFileFact> {
        self.broken.lock().as_deref().cloned()
    }

    /// Records, counts and logs that it cannot be used, and that the content in force is as `meaning` says.
    pub fn is_broken(
        &self,
        state: &AccessState,
        counters: Option<&Counters>,
        event: &'static str,
        why: &str,
        meaning: &'static str,
    ) {
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
        *broken = Some(Box::new(BrokenFileFact { name, at, why: why.to_owned(), effect: meaning }));
        drop(broken);
        if let Some(errors) = state.errors.get() {
            let file = self.path.display().to_string();
            let values = [("file", file.as_str()), ("why", why), ("meaning", meaning)];
            errors.seldom_of(Level::Error, event, &file, &values);
        }
    }
}

fn sign_of(path: &Path) -> Option<FileSign> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some(FileSign(found.ino(), found.len(), found.modified().ok()))
}
