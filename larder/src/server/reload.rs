//! Noticing that the configuration file changed, and what of a new configuration needs a restart.

use crate::config::{Config, Source};
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
    let stays = [
        ("listen", old.listen == new.listen),
        ("workers", old.workers == new.workers),
        ("limits.fills", old.ram.fills == new.ram.fills),
        ("cache.ram.size", old.ram.budget == new.ram.budget),
        ("cache.ram.heap_line", old.ram.heap_line == new.ram.heap_line),
        ("admin.socket", old.admin.socket == new.admin.socket),
        ("admin.listen", old.admin.listen == new.admin.listen),
        ("log.access", old.log.access == new.log.access),
        ("log.format", old.log.format == new.log.format),
        ("log.error", old.log.error == new.log.error),
    ];
    match stays.iter().find(|it| !it.1) {
        None => Ok(()),
        Some((key, _)) => match new.decided.by(key) {
            Source::Default => {
                Err(format!("{key} cannot go back to its default while running; restart larder."))
            }
            source => Err(format!("{source}: {key} cannot change while running; restart larder.")),
        },
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
