//! A file of users or keys that is read again when it was changed. A look takes a system call, at most once a second.

use super::AccessState;
use larder_observe::log::Level;
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
}

/// Two of these differ if the file was replaced or changed.
#[derive(Clone, PartialEq, Eq)]
struct FileSign(u64, u64, Option<SystemTime>);

impl WatchedFile {
    /// A file that was not looked at.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: Mutex::default(), next_look: AtomicU64::new(0) }
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

    /// Logs that the file is broken.
    pub fn tell(&self, state: &AccessState, event: &'static str, why: &str, meaning: &str) {
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
