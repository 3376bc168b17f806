//! Opens a path beneath a directory, as `openat2(2)` does: in one call where that may be used, otherwise name by name. Old kernels lack the
//! call, and filters refuse it (`RestrictSUIDSGID=` of systemd), since they cannot read its arguments.

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat, openat2, readlinkat, statat,
};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most symbolic links of a path, and the bytes that it is shorter than, as in Linux.
const LINKS: usize = 40;
const LENGTH: usize = 4096;
/// Attempts if directories are renamed meanwhile.
const TRIES: usize = 8;
/// The flag of a file system mounted with `nosymfollow` (statfs(2)), and the type of `/proc`.
const NO_SYMLINK_FOLLOW: u64 = 0x2000;
const PROC: u64 = 0x9fa0;
/// A directory that is only a start for other paths.
const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Opens `path` from `directory`. Of [`ResolveFlags`], `BENEATH`, `NO_SYMLINKS` and `NO_MAGICLINKS` hold.
///
/// # Errors
/// Those of `openat2(2)`: `XDEV` for a path that leaves the directory, `LOOP` for a refused link; `AGAIN` if renames disturbed each attempt.
pub fn open(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd> {
    let (path, flags) = (if path.is_empty() { b"." } else { path }, flags | OFlags::CLOEXEC);
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        match open_once(directory, path, flags, resolve) {
            Err(again @ (Errno::AGAIN | Errno::INTR)) => last = again,
            other => return other,
        }
    }
    Err(last)
}

fn open_once(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    if !IS_REFUSED.load(Relaxed) {
        match openat2(directory, OsStr::from_bytes(path), flags, Mode::empty(), resolve) {
            // A refusal of one path, with this error, is found by names as well.
            Err(Errno::NOSYS | Errno::PERM) if is_refused(directory) => IS_REFUSED.store(true, Relaxed),
            other => return other,
        }
    }
    by_names(directory, path, flags, resolve)
}

/// Whether the call fails for a directory that is open.
fn is_refused(directory: BorrowedFd<'_>) -> bool {
    openat2(directory, ".", STEP, Mode::empty(), ResolveFlags::BENEATH).is_err()
}

/// The way through the names of a path. Each name is looked up in an open directory and never followed by the kernel, and `..` returns to the
/// directory before, so that no rename leads out of the first one.
struct NameWalk<'d> {
    first: BorrowedFd<'d>,
    /// The directories behind the first one.
    passed: Vec<OwnedFd>,
    /// The names that are left, the next one last.
    left: Vec<Vec<u8>>,
    resolve: ResolveFlags,
    links: usize,
}

fn by_names(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd> {
    let mut walk = NameWalk { first: directory, passed: Vec::new(), left: Vec::new(), resolve, links: 0 };
    walk.add(path)?;
    while let Some(name) = walk.left.pop() {
        match &*name {
            b"." | b"" => {}
            b".." => walk.ascend()?,
            name if walk.left.is_empty() => {
                if let Some(file) = walk.open_last(name, flags)? {
                    return Ok(file);
                }
            }
            name => walk.descend(name)?,
        }
    }
    openat(walk.at(), ".", flags, Mode::empty())
}

impl NameWalk<'_> {
    fn at(&self) -> BorrowedFd<'_> {
        self.passed.last().map_or(self.first, |it| it.as_fd())
    }

    /// Continues with a path, which a link may have. A final `/` requires a directory.
    fn add(&mut self, path: &[u8]) -> Result<()> {
        let rest: usize = self.left.iter().map(|it| it.len() + 1).sum();
        if path.len() + rest >= LENGTH {
            return Err(Errno::NAMETOOLONG);
        }
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path[0] == b'/' {
            if self.resolve.contains(ResolveFlags::BENEATH) {
                return Err(Errno::XDEV);
            }
            self.passed = vec![openat(self.first, "/", STEP | OFlags::DIRECTORY, Mode::empty())?];
        }
        self.left.extend(path.split(|it| *it == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn ascend(&mut self) -> Result<()> {
        if self.resolve.contains(ResolveFlags::BENEATH) {
            return self.passed.pop().map(drop).ok_or(Errno::XDEV);
        }
        let above = openat(self.at(), "..", STEP | OFlags::DIRECTORY, Mode::empty())?;
        self.passed = vec![above];
        Ok(())
    }

    fn descend(&mut self, name: &[u8]) -> Result<()> {
        match openat(self.at(), OsStr::from_bytes(name), STEP | OFlags::DIRECTORY, Mode::empty()) {
            Ok(directory) => {
                self.passed.push(directory);
                Ok(())
            }
            Err(Errno::NOTDIR) => match self.look(name)? {
                (link, stat) if is_link(&stat) => self.follow(&link, &stat),
                _ => Err(Errno::NOTDIR),
            },
            Err(other) => Err(other),
        }
    }

    /// Opens the last name; `None` for a link, which is followed.
    fn open_last(&mut self, name: &[u8], flags: OFlags) -> Result<Option<OwnedFd>> {
        let keeps_link = flags.contains(OFlags::NOFOLLOW);
        let (found, stat) = if flags.contains(OFlags::PATH) {
            self.look(name)?
        } else {
            match openat(self.at(), OsStr::from_bytes(name), flags | OFlags::NOFOLLOW, Mode::empty()) {
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) if !keeps_link => match self.look(name)? {
                    it if is_link(&it.1) => it,
                    // Another object has taken the place of a link.
                    _ => return Err(if error == Errno::LOOP { Errno::AGAIN } else { error }),
                },
                opened => return opened.map(Some),
            }
        };
        if is_link(&stat) && !keeps_link {
            return self.follow(&found, &stat).map(|()| None);
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if flags.contains(OFlags::DIRECTORY) && !is_directory { Err(Errno::NOTDIR) } else { Ok(Some(found)) }
    }

    fn look(&self, name: &[u8]) -> Result<(OwnedFd, Stat)> {
        let found = openat(self.at(), OsStr::from_bytes(name), STEP, Mode::empty())?;
        let stat = fstat(&found)?;
        Ok((found, stat))
    }

    /// Continues with the target of a link, by the rules of the kernel: `fs.protected_symlinks`, as if it were set, and `nosymfollow`. Links in
    /// `/proc` are refused, since some have no target by name.
    fn follow(&mut self, link: &OwnedFd, stat: &Stat) -> Result<()> {
        self.links += 1;
        let system = fstatfs(link)?;
        let is_refused = self.resolve.contains(ResolveFlags::NO_SYMLINKS)
            || system.f_flags as u64 & NO_SYMLINK_FOLLOW != 0
            || system.f_type as u64 == PROC;
        if is_refused || self.links > LINKS {
            return Err(Errno::LOOP);
        }
        let folder = statat(self.at(), "", AtFlags::EMPTY_PATH)?;
        let is_shared = folder.st_mode & 0o1002 == 0o1002;
        let user = rustix::process::geteuid().as_raw();
        if is_shared && stat.st_uid != folder.st_uid && stat.st_uid != user {
            return Err(Errno::ACCESS);
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.add(target.as_bytes())
    }
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

#[cfg(test)]
mod tests;
