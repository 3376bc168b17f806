//! The directory that a configured path leads to: opened, and opened again when the path leads to another one, as after a deployment
//! that switches a symbolic link. No lookup beneath it is here.

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, Stat, fstat, stat};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of a configured path.
pub struct RootDirectory {
    path: PathBuf,
    opened: Mutex<Arc<OpenRoot>>,
}

/// A directory that a lookup works in: one for all of its steps, so that an answer is of one deployment.
pub struct OpenRoot {
    fd: OwnedFd,
    real: PathBuf,
    device: u64,
    inode: u64,
}

impl RootDirectory {
    /// Opens the directory. Blocks.
    ///
    /// # Errors
    /// The path leads to no directory, or it cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let opened = Mutex::new(Arc::new(OpenRoot::open(path)?));
        Ok(Self { path: path.to_owned(), opened })
    }

    /// The directory that the path leads to now; while it leads to none, the one before. Blocks for one `stat`.
    #[must_use]
    pub fn current(&self) -> Arc<OpenRoot> {
        let before = self.opened.lock().clone();
        // An inode has its number as long as it is open, so that another directory cannot have the same.
        let is_other = stat(&self.path).is_ok_and(|now| !before.is(&now));
        match is_other.then(|| OpenRoot::open(&self.path)) {
            Some(Ok(now)) => {
                let now = Arc::new(now);
                *self.opened.lock() = now.clone();
                now
            }
            Some(Err(_)) | None => before,
        }
    }
}

impl OpenRoot {
    fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let real = path.canonicalize()?;
        let fd = rustix::fs::open(&real, flags, Mode::empty())?;
        let Stat { st_dev, st_ino, .. } = fstat(&fd)?;
        Ok(Self { fd, real, device: st_dev, inode: st_ino })
    }

    /// Its path without symbolic links.
    #[must_use]
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    fn is(&self, other: &Stat) -> bool {
        (self.device, self.inode) == (other.st_dev, other.st_ino)
    }
}

impl AsFd for OpenRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn name(root: &RootDirectory) -> String {
        let fd = root.current();
        let file = rustix::fs::openat(&*fd, "name", OFlags::RDONLY, Mode::empty()).unwrap();
        std::io::read_to_string(fs::File::from(file)).unwrap()
    }

    #[test]
    fn the_directory_is_the_one_that_the_path_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = |it: &str| folder.path().join(it);
        let release = |it: &str| {
            fs::create_dir(path(it)).unwrap();
            fs::write(path(it).join("name"), it).unwrap();
        };
        ["one", "two", "three"].iter().for_each(|it| release(it));
        symlink("one", path("current")).unwrap();
        let root = RootDirectory::open(&path("current")).unwrap();
        assert_eq!("one", name(&root));
        // Switched at once, as deployments do.
        symlink("two", path("next")).unwrap();
        fs::rename(path("next"), path("current")).unwrap();
        assert_eq!("two", name(&root));
        assert_eq!(path("two").canonicalize().unwrap(), root.current().real_path());
        // There is none for a while, or a file.
        fs::remove_file(path("current")).unwrap();
        assert_eq!("two", name(&root));
        fs::write(path("current"), "").unwrap();
        assert_eq!("two", name(&root));
        fs::remove_file(path("current")).unwrap();
        fs::rename(path("three"), path("current")).unwrap();
        assert_eq!("three", name(&root));
    }
}
