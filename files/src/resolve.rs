//! From a checked path to a descriptor: the system calls that open, and none that could block on a FIFO, leave the root,
//! or touch a device.
//!
//! A path is first opened with `O_PATH`, which opens nothing for reading: a FIFO's writer is not woken, a tape not
//! rewound. Only a regular file is then opened, and checked again.
//!
//! A regular file is judged by two names: that of the path, and that at the end of the symbolic links by which the kernel
//! reached it. `/proc` would show the second one as well, but it may not be mounted.

use crate::answer::NotServed;
use crate::path::{self, Dotfiles};
use larder_semantics::path::follow_link;
use larder_transport::beneath;
use rustix::fs::{FileType, OFlags, ResolveFlags, Stat, fstat, readlinkat};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The symbolic links that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Relative ones that stay beneath the root throughout; absolute ones never.
    #[default]
    Beneath,
    /// None.
    Never,
    /// All except the magic ones of `/proc`: a user that can write in the root can publish any file.
    Anywhere,
}

impl SymlinkPolicy {
    fn flags(self) -> ResolveFlags {
        match self {
            SymlinkPolicy::Beneath => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            SymlinkPolicy::Never => {
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS
            }
            SymlinkPolicy::Anywhere => ResolveFlags::NO_MAGICLINKS,
        }
    }
}

/// The names of the regular files that are taken. Names of directories are not judged here: `current -> .releases/5` is how sites
/// are deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNames {
    /// Files that are sent: neither hidden nor the source of a script.
    Sent(Dotfiles),
    /// Scripts that are run, and not hidden.
    Run,
    /// Any: the configuration names the file.
    Any,
}

impl FileNames {
    fn take(self, path: &[u8]) -> bool {
        let name = path::name_of(path);
        match self {
            FileNames::Sent(dotfiles) => !path::is_hidden(name, dotfiles) && !path::is_script(name),
            FileNames::Run => !path::is_hidden(name, Dotfiles::Hidden) && path::is_script(name),
            FileNames::Any => true,
        }
    }
}

/// The links that are followed, and the files that are taken at their end.
#[derive(Clone, Copy, Debug)]
pub struct ResolveRules {
    /// The links.
    pub symlinks: SymlinkPolicy,
    /// The files.
    pub names: FileNames,
}

/// The state of a file, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device and inode.
    pub place: (u64, u64),
    /// Bytes.
    pub size: u64,
    /// Last change of the contents: seconds since the epoch, nanoseconds.
    pub modified: (i64, u64),
    /// Last change of contents or attributes.
    pub changed: (i64, u64),
}

impl Identity {
    /// Reads it from a stat. (The casts are for platforms with narrower kernel types.)
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "sizes and inodes are not negative")]
    pub fn of(stat: &Stat) -> Identity {
        Identity {
            place: (stat.st_dev as u64, stat.st_ino as u64),
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }

    /// Whether the bytes are the same, as far as the file system shows. A rename or a new link changes `changed` but no
    /// byte.
    pub fn same_bytes(&self, other: &Identity) -> bool {
        (self.place, self.size, self.modified) == (other.place, other.size, other.modified)
    }

    /// Whether the same file has more bytes than in the state `other`, such as a growing log. Whether the earlier bytes
    /// are unchanged does not follow from this.
    pub fn has_grown(&self, other: &Identity) -> bool {
        self.place == other.place && self.size > other.size
    }
}

/// The file system object of a path.
pub enum FileNode {
    /// A regular file, not yet opened.
    File(Identity),
    /// A directory, opened with `O_PATH`.
    Directory(OwnedFd),
}

/// The number of attempts of a lookup that a concurrent rename disturbed.
const TRIES: usize = 8;

/// The most symbolic links of a path, as in Linux.
const LINKS: usize = 40;

/// Examines the object of `path` beneath `dir`, without opening it.
///
/// # Errors
/// Neither file nor directory, absent, outside, or a file of a name that is not taken: [`NotServed::NotFound`]; see
/// [`refusal`].
pub fn look(dir: BorrowedFd<'_>, path: &[u8], rules: ResolveRules) -> Result<FileNode, NotServed> {
    let (fd, stat) = open_judged(dir, path, OFlags::PATH, rules)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(FileNode::File(Identity::of(&stat))),
        FileType::Directory => Ok(FileNode::Directory(fd)),
        _ => Err(NotServed::NotFound),
    }
}

/// Opens a regular file for reading.
///
/// # Errors
/// As [`look`]; it may have been replaced since.
pub fn open_file(
    dir: BorrowedFd<'_>,
    path: &[u8],
    rules: ResolveRules,
) -> Result<(OwnedFd, Identity), NotServed> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let (fd, stat) = open_judged(dir, path, flags, rules)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((fd, Identity::of(&stat))),
        _ => Err(NotServed::NotFound),
    }
}

/// Opens a directory for reading its names.
///
/// # Errors
/// As [`look`].
pub fn open_directory(
    dir: BorrowedFd<'_>,
    path: &[u8],
    symlinks: SymlinkPolicy,
) -> Result<OwnedFd, NotServed> {
    open(dir, path, OFlags::RDONLY | OFlags::DIRECTORY, symlinks).map_err(refusal)
}

/// Opens an object. The names of a regular file are judged.
fn open_judged(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    rules: ResolveRules,
) -> Result<(OwnedFd, Stat), NotServed> {
    for _ in 0..TRIES {
        let fd = open(dir, path, flags, rules.symlinks).map_err(refusal)?;
        let stat = fstat(&fd).map_err(refusal)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || rules.names == FileNames::Any {
            return Ok((fd, stat));
        }
        let (end, found) = end_of_links(dir, path, rules.symlinks).map_err(refusal)?;
        if (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino) {
            let is_taken = rules.names.take(path) && rules.names.take(&end);
            return if is_taken { Ok((fd, stat)) } else { Err(NotServed::NotFound) };
        }
        // A link was replaced in between: the name is that of another file.
    }
    Err(NotServed::Busy)
}

/// The path of the object to which the symbolic links in the last segment of `path` lead, and its state. The kernel has opened `path`
/// before, so that its own rules for links hold as well (`fs.protected_symlinks`).
fn end_of_links(
    dir: BorrowedFd<'_>,
    path: &[u8],
    symlinks: SymlinkPolicy,
) -> rustix::io::Result<(Vec<u8>, Stat)> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let fd = open(dir, &path, OFlags::PATH | OFlags::NOFOLLOW, symlinks)?;
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok((path, stat));
        }
        follow_link(&mut path, readlinkat(&fd, "", Vec::new())?.as_bytes());
    }
    Err(Errno::LOOP)
}

fn open(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    symlinks: SymlinkPolicy,
) -> rustix::io::Result<OwnedFd> {
    beneath::open(dir, path, flags, symlinks.flags())
}

/// The refusal for an error of the operating system. A path that leaves the root (`EXDEV`), loops (`ELOOP`), is a socket
/// (`ENXIO`) or has a file in place of a directory (`ENOTDIR`) counts as absent.
pub fn refusal(error: Errno) -> NotServed {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG => NotServed::NotFound,
        Errno::NXIO | Errno::NODEV | Errno::INVAL | Errno::ILSEQ => NotServed::NotFound,
        Errno::ACCESS | Errno::PERM => NotServed::Forbidden,
        Errno::MFILE | Errno::NFILE => NotServed::NoDescriptor,
        Errno::AGAIN | Errno::INTR | Errno::NOMEM => NotServed::Busy,
        _ => NotServed::Failed,
    }
}
