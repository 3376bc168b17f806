//! Noticing that the configuration file changed, and what of a new configuration needs a restart.

use crate::config::Config;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What a file looks like from outside; asked once a second, which also works where the file is a link that an
/// orchestrator swaps, or on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Watches one file.
pub struct Watch {
    path: PathBuf,
    taken: Option<Look>,
    seen: Option<Look>,
}

impl Watch {
    /// Watches from now on.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let now = look(&path);
        Self { path, taken: now, seen: now }
    }

    /// Whether the file changed, and has looked the same twice since: an editor that is still writing is let
    /// finish.
    pub fn changed(&mut self) -> bool {
        let now = look(&self.path);
        let settled = now == self.seen;
        self.seen = now;
        if now.is_none() || now == self.taken || !settled {
            return false;
        }
        self.taken = now;
        true
    }
}

fn look(path: &PathBuf) -> Option<Look> {
    let it = std::fs::metadata(path).ok()?;
    Some(Look { device: it.dev(), inode: it.ino(), size: it.size(), changed: (it.mtime(), it.mtime_nsec()) })
}

/// Whether `new` can be taken over while running: sockets, workers, the RAM tier and the logs cannot.
///
/// # Errors
/// One sentence that names the first key that needs a restart.
pub fn compatible(old: &Config, new: &Config) -> Result<(), String> {
    let needs = |key: &str| {
        Err(format!("{}: {key} cannot change while running; restart larder.", new.decided.by(key)))
    };
    if old.listen != new.listen {
        needs("listen")
    } else if old.workers != new.workers {
        needs("workers")
    } else if (old.ram.budget, old.ram.heap_line) != (new.ram.budget, new.ram.heap_line) {
        needs("cache.ram.size")
    } else if old.admin != new.admin {
        needs("admin.listen")
    } else if old.log != new.log {
        needs("log.access")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "a").unwrap();
        let mut watch = Watch::new(path.clone());
        assert!(!watch.changed());
        std::fs::write(&path, "ab").unwrap();
        assert!(!watch.changed(), "just seen");
        assert!(watch.changed(), "settled");
        assert!(!watch.changed(), "once");
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.changed() && !watch.changed(), "a file that is away is no change");
    }
}
