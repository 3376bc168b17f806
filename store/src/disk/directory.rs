//! The directory of a disk tier: whether it is one, which process uses it, and its secret. Other modules know the content
//! of its files.

use super::segment::Segment;
use crate::device::syscalls::{FailedCall, Syscall, Syscalls};
use rustix::fs::{Access, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The file that marks a directory as a disk tier, with its version and secret.
const MARKER: &str = "larder-disk";
const NEW_MARKER: &str = "larder-disk.new";
/// Held while a process uses the directory.
const LOCK: &str = "larder-disk.lock";
/// Names that may exist before the first start.
const ALLOWED_NAMES: [&str; 3] = ["lost+found", NEW_MARKER, LOCK];

/// Names of larder's other files, apart from segments.
const OWN_FILES: [&str; 3] = ["purges", "purges.new", "large.new"];

const TITLE: &str = "larder disk tier, version ";

/// The largest marker that is read.
const MOST_MARKER: usize = 4096;

/// Why a directory is not opened.
#[derive(Debug)]
pub(crate) enum DirectoryRefusal {
    /// A sentence for the operator: the directory or the configuration must be changed.
    Misconfigured(io::Error),
    /// The device failed a call; this may be temporary.
    Failed(FailedCall),
}

impl From<FailedCall> for DirectoryRefusal {
    fn from(it: FailedCall) -> Self {
        DirectoryRefusal::Failed(it)
    }
}

/// The result of inspecting a directory without changing it.
#[derive(Debug, PartialEq, Eq)]
pub enum DirectoryCheck {
    /// No obstacle was found.
    Usable,
    /// It will not be opened: one sentence about the cause, without its name.
    Unusable(String),
    /// This process may not use it; another user's may.
    NoAccess(String),
}

/// Checks whether a tier could be opened there.
#[must_use]
pub fn check(path: &Path) -> DirectoryCheck {
    let unfit = |it: &str| DirectoryCheck::Unusable(it.to_owned());
    let not_ours = || DirectoryCheck::NoAccess(NOT_OURS.to_owned());
    let names: Vec<_> = match std::fs::read_dir(path) {
        Ok(entries) => entries.filter_map(|it| Some(it.ok()?.file_name().into_encoded_bytes())).collect(),
        Err(it) if it.kind() == io::ErrorKind::NotFound => {
            return match path.parent().map(Path::metadata) {
                _ if path.is_symlink() => unfit("is a dangling symbolic link"),
                Some(Ok(above)) if !above.is_dir() => unfit(NONE),
                Some(Ok(_)) if !is_permitted(path.parent(), Access::WRITE_OK) => not_ours(),
                Some(Err(it)) if it.kind() == io::ErrorKind::PermissionDenied => not_ours(),
                Some(Err(_)) => unfit(NOTHING_ABOVE),
                Some(Ok(_)) | None => DirectoryCheck::Usable,
            };
        }
        Err(it) if it.kind() == io::ErrorKind::NotADirectory => return unfit(NONE),
        Err(it) if it.kind() == io::ErrorKind::PermissionDenied => return not_ours(),
        Err(_) => return DirectoryCheck::Usable, // The device may do what it should by then.
    };
    if let Err(what) = is_tier(&names) {
        return DirectoryCheck::Unusable(what);
    }
    let marker = std::fs::read(path.join(MARKER)).ok().and_then(|it| parse_marker(&it));
    match marker {
        Some((version, _)) if version != super::VERSION => DirectoryCheck::Unusable(another_version(version)),
        _ if !is_permitted(Some(path), Access::WRITE_OK) => not_ours(),
        _ => DirectoryCheck::Usable,
    }
}

fn is_permitted(path: Option<&Path>, what: Access) -> bool {
    path.is_none_or(|it| rustix::fs::access(it, what | Access::EXEC_OK).is_ok())
}

const NOT_OURS: &str = "is not accessible: make it readable and writable for the user of larder";
const NONE: &str = "is not a directory, or is below a path that is not a directory";
const NOTHING_ABOVE: &str = "cannot be created: the parent directory does not exist or does not allow it";

/// The pause between two attempts to take the lock, and their number: a second.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const LOCK_ATTEMPTS: usize = 100;

/// Whether a directory with these names is a disk tier; an error where it has other content.
fn is_tier(names: &[Vec<u8>]) -> Result<bool, String> {
    let is_marked = names.iter().any(|it| it == MARKER.as_bytes());
    // A directory with larder's lock had a marker, and its files are larder's: they are useless without the secret.
    let was_ours = names.iter().any(|it| it == LOCK.as_bytes());
    let is_harmless = |it: &Vec<u8>| {
        let is_of = |all: &[&str]| all.iter().any(|known| known.as_bytes() == it);
        is_of(&ALLOWED_NAMES) || was_ours && (is_of(&OWN_FILES) || Segment::number(it).is_some())
    };
    match names.iter().find(|it| !is_marked && !is_harmless(it)) {
        None => Ok(is_marked),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err(format!("contains other files ({other}) and is not a disk tier: use an empty directory"))
        }
    }
}

fn another_version(version: u32) -> String {
    let ours = super::VERSION;
    format!(
        "was written by another version of larder (format {version}, this version uses {ours}): empty it or use \
         another directory"
    )
}

/// A directory that this process holds while this value lives.
pub(crate) struct Directory {
    pub file: OwnedFd,
    path: PathBuf,
    lock: OwnedFd,
    /// The seed of all checksums.
    pub seed: u64,
    /// Its names.
    pub names: Vec<Vec<u8>>,
}

impl Directory {
    /// Opens a directory and takes its lock; creates it and its marker where there is none. With `ours`, a secret already
    /// in use, the directory takes that secret: other content is then useless.
    pub fn open(calls: &Syscalls, path: &Path, ours: Option<u64>) -> Result<Directory, DirectoryRefusal> {
        let file = match calls.open_directory(path) {
            Err(it) if it.errno == Errno::NOENT => {
                calls.make_directory(path).map_err(|it| refused(path, it))?;
                calls.open_directory(path)
            }
            other => other,
        };
        let file = file.map_err(|it| refused(path, it))?;
        let names = calls.list(&file).map_err(|it| refused(path, it))?;
        let is_marked = is_tier(&names).map_err(|it| wrong(path, &it))?;
        let flags = OFlags::RDWR | OFlags::CREATE;
        let lock = calls.open(&file, LOCK, flags).map_err(|it| refused(path, it))?;
        if !lock_within(calls, &lock)? {
            return Err(wrong(path, "is used by another process: use a separate directory for each larder"));
        }
        let seed = if is_marked { read_marker(calls, &file, path)? } else { None };
        let seed = match (ours, seed) {
            (Some(ours), Some(seed)) if ours == seed => seed,
            (Some(ours), _) => write_marker(calls, &file, ours)?,
            (None, Some(seed)) => seed,
            (None, None) => write_marker(calls, &file, secret()?)?,
        };
        Ok(Directory { file, path: path.into(), lock, seed, names })
    }

    /// Whether the path still leads to this directory, and its lock is still in it.
    pub fn is_in_place(&self, calls: &Syscalls) -> Result<bool, FailedCall> {
        let ours = calls.stat(self.lock.as_fd())?;
        let there = calls.stat_path(&self.path.join(LOCK))?;
        Ok(there.is_some_and(|it| it.identity == ours.identity))
    }
}

/// Takes the lock, also if a process that has just ended still closes its files.
fn lock_within(calls: &Syscalls, lock: &OwnedFd) -> Result<bool, FailedCall> {
    for _ in 0..LOCK_ATTEMPTS {
        if calls.lock(lock)? {
            return Ok(true);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    calls.lock(lock)
}

fn wrong(path: &Path, what: &str) -> DirectoryRefusal {
    DirectoryRefusal::Misconfigured(io::Error::other(format!("cache.disk.path: {} {what}", path.display())))
}

/// A cause that the operator can remove becomes a sentence; a temporary one is retried.
fn refused(path: &Path, failed: FailedCall) -> DirectoryRefusal {
    match failed.errno {
        Errno::NOENT => wrong(path, NOTHING_ABOVE),
        Errno::NOTDIR => wrong(path, NONE),
        Errno::ACCESS | Errno::PERM => wrong(path, NOT_OURS),
        _ => DirectoryRefusal::Failed(failed),
    }
}

/// The secret; `None` where the marker is damaged, so that nothing in the directory can be trusted.
fn read_marker(calls: &Syscalls, directory: &OwnedFd, path: &Path) -> Result<Option<u64>, DirectoryRefusal> {
    let file = calls.open(directory, MARKER, OFlags::RDONLY).map_err(|it| refused(path, it))?;
    let mut bytes = vec![0; MOST_MARKER];
    let length = calls.read(file.as_fd(), &mut bytes, 0)?;
    match parse_marker(&bytes[..length]) {
        Some((super::VERSION, seed)) => Ok(Some(seed)),
        Some((version, _)) => Err(wrong(path, &another_version(version))),
        None => Ok(None),
    }
}

/// Version and secret.
fn parse_marker(bytes: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (content, sum) = text.trim_end_matches('\n').rsplit_once("\nsum ")?;
    if u64::from_str_radix(sum, 16).ok()? != xxh3_64(content.as_bytes()) {
        return None;
    }
    let mut lines = content.lines();
    let version = lines.next()?.strip_prefix(TITLE)?.parse().ok()?;
    let seed = lines.next().and_then(|it| it.strip_prefix("seed "));
    // Another version may write other lines.
    let seed = seed.and_then(|it| u64::from_str_radix(it, 16).ok());
    Some((version, if version == super::VERSION { seed? } else { 0 }))
}

/// A new secret.
pub(crate) fn secret() -> Result<u64, FailedCall> {
    let mut secret = [0; 8];
    rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| FailedCall { call: Syscall::Read, errno })?;
    Ok(u64::from_le_bytes(secret))
}

/// Marks the directory with a secret.
fn write_marker(calls: &Syscalls, directory: &OwnedFd, seed: u64) -> Result<u64, FailedCall> {
    let content = format!("{TITLE}{}\nseed {seed:016x}", super::VERSION);
    let text = format!("{content}\nsum {:016x}\n", xxh3_64(content.as_bytes()));
    let file = calls.open(directory, NEW_MARKER, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    calls.write(&file, &[text.as_bytes()], 0)?;
    calls.sync(&file)?;
    calls.rename(directory, NEW_MARKER, MARKER)?;
    calls.sync_directory(directory)?;
    Ok(seed)
}
