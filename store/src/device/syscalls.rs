//! Every file system call of the disk tier and the spool, in one narrow place, so that a test can make any of them fail. This module
//! does not know the data.
//!
//! The one call that neither `rustix` nor the standard library has is cachestat(2), hence the unsafe block.

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The purpose of a failing call, named in the state of the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// openat(2) of the directory or of what is in it.
    Open,
    /// mkdir(2).
    Mkdir,
    /// getdents(2).
    List,
    /// flock(2).
    Lock,
    /// preadv2(2) that may wait.
    Read,
    /// preadv2(2) that may not wait.
    ReadNow,
    /// pwritev(2).
    Write,
    /// fallocate(2).
    Allocate,
    /// fallocate(2) that makes a hole.
    Punch,
    /// ftruncate(2).
    Truncate,
    /// fdatasync(2), fsync(2).
    Sync,
    /// renameat(2).
    Rename,
    /// unlinkat(2).
    Unlink,
    /// fstat(2), fstatat(2).
    Stat,
    /// cachestat(2).
    Resident,
}

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    pub call: Syscall,
    pub errno: Errno,
}

impl FailedCall {
    /// Whether it failed because the device has no more room, or none for this process.
    pub fn is_full(&self) -> bool {
        matches!(self.errno, Errno::NOSPC | Errno::DQUOT)
    }
}

impl std::fmt::Display for FailedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.call {
            Syscall::Open => "open failed",
            Syscall::Mkdir => "creating the directory failed",
            Syscall::List => "listing the directory failed",
            Syscall::Lock => "locking the directory failed",
            Syscall::Read | Syscall::ReadNow => "read failed",
            Syscall::Write => "write failed",
            Syscall::Allocate => "reserving space failed",
            Syscall::Punch => "releasing space failed",
            Syscall::Truncate => "truncating a file failed",
            Syscall::Sync => "flushing a file to the device failed",
            Syscall::Rename => "renaming a file failed",
            Syscall::Unlink => "removing a file failed",
            Syscall::Stat | Syscall::Resident => "reading file metadata failed",
        };
        write!(f, "{what}: {}", std::io::Error::from(self.errno))
    }
}

impl From<FailedCall> for std::io::Error {
    fn from(it: FailedCall) -> Self {
        std::io::Error::new(std::io::Error::from(it.errno).kind(), it.to_string())
    }
}

type CallResult<T> = Result<T, FailedCall>;

/// The access to the file system.
#[derive(Clone, Default)]
pub(crate) struct Syscalls {
    #[cfg(test)]
    pub faults: std::sync::Arc<super::tests::Faults>,
}

/// The result of [`Syscalls::stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    /// Its length in bytes.
    pub length: u64,
    /// The time of the last write: seconds and nanoseconds. Any program may set it.
    pub written: (i64, u64),
    /// The time of the last change, to names and times too; no program can set it.
    pub changed: (i64, u64),
    /// The identity of the file: device and number.
    pub identity: (u64, u64),
    /// The number of its names.
    pub links: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

impl Syscalls {
    #[cfg(test)]
    fn check_fault(&self, call: Syscall) -> CallResult<()> {
        self.faults.check(call).map_err(|errno| FailedCall { call, errno })
    }

    #[cfg(not(test))]
    #[inline]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as in tests")]
    fn check_fault(&self, _: Syscall) -> CallResult<()> {
        Ok(())
    }

    fn retry_interrupted<T>(
        &self,
        call: Syscall,
        mut f: impl FnMut() -> rustix::io::Result<T>,
    ) -> CallResult<T> {
        self.check_fault(call)?;
        loop {
            match f() {
                Err(Errno::INTR) => {}
                other => return other.map_err(|errno| FailedCall { call, errno }),
            }
        }
    }

    pub fn open_directory(&self, path: &std::path::Path) -> CallResult<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        self.retry_interrupted(Syscall::Open, || rustix::fs::open(path, flags, Mode::empty()))
    }

    pub fn make_directory(&self, path: &std::path::Path) -> CallResult<()> {
        match self.retry_interrupted(Syscall::Mkdir, || rustix::fs::mkdir(path, Mode::RWXU)) {
            Err(it) if it.errno == Errno::EXIST => Ok(()),
            other => other,
        }
    }

    /// The names in a directory.
    pub fn list(&self, directory: &OwnedFd) -> CallResult<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let listing = self.retry_interrupted(Syscall::List, || rustix::fs::Dir::read_from(directory))?;
        for entry in listing {
            let entry = entry.map_err(|errno| FailedCall { call: Syscall::List, errno })?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    pub fn open(&self, directory: &OwnedFd, name: &str, flags: OFlags) -> CallResult<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        self.retry_interrupted(Syscall::Open, || rustix::fs::openat(directory, name, flags, mode))
    }

    /// A file in a directory that has no name and vanishes with its descriptor. Where the file system cannot create one,
    /// it has this name for a moment.
    pub fn open_unnamed(&self, directory: &std::path::Path, name: &str) -> CallResult<OwnedFd> {
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        #[cfg(target_os = "linux")]
        match self.retry_interrupted(Syscall::Open, || {
            rustix::fs::open(directory, flags | OFlags::TMPFILE | OFlags::EXCL, mode)
        }) {
            Err(it) if matches!(it.errno, Errno::OPNOTSUPP | Errno::ISDIR) => {}
            other => return other,
        }
        let path = directory.join(name);
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = match self.retry_interrupted(Syscall::Open, || rustix::fs::open(&path, flags, mode)) {
            // Left behind by a process that was killed at that moment.
            Err(it) if it.errno == Errno::EXIST => {
                let _ = rustix::fs::unlink(&path);
                self.retry_interrupted(Syscall::Open, || rustix::fs::open(&path, flags, mode))
            }
            other => other,
        }?;
        self.retry_interrupted(Syscall::Unlink, || rustix::fs::unlink(&path))?;
        Ok(file)
    }

    /// False where another process has it.
    pub fn lock(&self, file: &OwnedFd) -> CallResult<bool> {
        match self.retry_interrupted(Syscall::Lock, || {
            rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
        }) {
            Ok(()) => Ok(true),
            Err(it) if it.errno == Errno::WOULDBLOCK => Ok(false),
            Err(it) => Err(it),
        }
    }

    /// Fills `bytes` from `at`, and waits for the device if necessary; returns the number before the end.
    pub fn read(&self, file: BorrowedFd<'_>, bytes: &mut [u8], at: u64) -> CallResult<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            match self.retry_interrupted(Syscall::Read, || {
                rustix::io::pread(file, &mut *rest, at + filled as u64)
            })? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// [`Syscalls::read`] of resident data, again from the device, if the file system can.
    pub fn read_uncached(&self, file: BorrowedFd<'_>, bytes: &mut [u8], at: u64) -> CallResult<usize> {
        let length = NonZeroU64::new(bytes.len() as u64);
        let _ = rustix::fs::fadvise(file, at, length, rustix::fs::Advice::DontNeed);
        self.read(file, bytes, at)
    }

    /// [`Syscalls::read`] of resident data only: `None` where the device would have to be waited for, or where the file
    /// system cannot tell.
    pub fn read_now(&self, file: BorrowedFd<'_>, bytes: &mut [u8], at: u64) -> CallResult<Option<usize>> {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            let (place, flags) = (at + filled as u64, ReadWriteFlags::NOWAIT);
            let read = self.retry_interrupted(Syscall::ReadNow, || {
                rustix::io::preadv2(file, &mut [IoSliceMut::new(rest)], place, flags)
            });
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(it)
                    if matches!(it.errno, Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) =>
                {
                    return Ok(None);
                }
                Err(it) => return Err(it),
            }
        }
        Ok(Some(filled))
    }

    /// Writes all `parts`, one after the other, from `at`.
    pub fn write(&self, file: &OwnedFd, parts: &[&[u8]], at: u64) -> CallResult<()> {
        let total: usize = parts.iter().map(|it| it.len()).sum();
        let mut written = 0;
        while written < total {
            let mut skip = written;
            let mut room = Vec::with_capacity(parts.len());
            for part in parts {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if skipped < part.len() {
                    room.push(IoSlice::new(&part[skipped..]));
                }
            }
            let place = at + written as u64;
            #[cfg(test)]
            if self.faults.loses_writes() {
                return self.check_fault(Syscall::Write);
            }
            match self.retry_interrupted(Syscall::Write, || rustix::io::pwritev(file, &room, place))? {
                0 => return Err(FailedCall { call: Syscall::Write, errno: Errno::IO }),
                count => written += count,
            }
        }
        Ok(())
    }

    /// Reserves room after the end of a file; a file system that cannot is no problem.
    pub fn allocate(&self, file: &OwnedFd, length: u64) -> CallResult<()> {
        match self.retry_interrupted(Syscall::Allocate, || {
            rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, length)
        }) {
            Err(it) if matches!(it.errno, Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => other,
        }
    }

    /// Frees the room of a range within a file, which reads as zeros from then on.
    pub fn punch(&self, file: &OwnedFd, at: u64, length: u64) -> CallResult<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.retry_interrupted(Syscall::Punch, || rustix::fs::fallocate(file, flags, at, length))
    }

    pub fn truncate(&self, file: &OwnedFd, length: u64) -> CallResult<()> {
        self.retry_interrupted(Syscall::Truncate, || rustix::fs::ftruncate(file, length))
    }

    /// Makes the kernel read no further than requested, so that resident data was requested. A file system that cannot is
    /// no problem.
    pub fn disable_read_ahead(file: &OwnedFd) {
        let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    }

    /// Syncs the bytes of a file to the device.
    pub fn sync(&self, file: &OwnedFd) -> CallResult<()> {
        self.retry_interrupted(Syscall::Sync, || rustix::fs::fdatasync(file))
    }

    /// Syncs the names in a directory to the device.
    pub fn sync_directory(&self, directory: &OwnedFd) -> CallResult<()> {
        self.retry_interrupted(Syscall::Sync, || rustix::fs::fsync(directory))
    }

    pub fn rename(&self, directory: &OwnedFd, from: &str, to: &str) -> CallResult<()> {
        self.retry_interrupted(Syscall::Rename, || rustix::fs::renameat(directory, from, directory, to))
    }

    /// A name that is gone already is no error.
    pub fn unlink(&self, directory: &OwnedFd, name: &str) -> CallResult<()> {
        match self
            .retry_interrupted(Syscall::Unlink, || rustix::fs::unlinkat(directory, name, AtFlags::empty()))
        {
            Err(it) if it.errno == Errno::NOENT => Ok(()),
            other => other,
        }
    }

    pub fn stat(&self, file: BorrowedFd<'_>) -> CallResult<FileStat> {
        self.retry_interrupted(Syscall::Stat, || rustix::fs::fstat(file)).map(|it| FileStat::of(&it))
    }

    /// `None` where the name does not exist.
    pub fn stat_path(&self, path: &std::path::Path) -> CallResult<Option<FileStat>> {
        match self.retry_interrupted(Syscall::Stat, || rustix::fs::stat(path)) {
            Ok(it) => Ok(Some(FileStat::of(&it))),
            Err(it) if matches!(it.errno, Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(it) => Err(it),
        }
    }

    /// Whether these bytes of a file are in the page cache: cachestat(2), Linux 6.5; otherwise one byte of each page is
    /// read if that needs no wait.
    pub fn resident(&self, file: BorrowedFd<'_>, offset: u64, length: u64) -> bool {
        if self.check_fault(Syscall::Resident).is_err() {
            return false;
        }
        let page = rustix::param::page_size() as u64;
        if let Some(pages) = cached_pages(file, offset, length) {
            return pages >= (offset + length).div_ceil(page) - offset / page;
        }
        let end = offset + length;
        let probes = (offset..end).step_by(rustix::param::page_size()).chain(end.checked_sub(1));
        let is_there = |at| matches!(self.read_now(file, &mut [0], at), Ok(Some(1)));
        probes.into_iter().all(is_there)
    }
}

/// Pages of the range that are in the page cache; `None` where the kernel does not say.
#[cfg(target_os = "linux")]
fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<u64> {
    /// The same on every architecture that counts system calls the common way; Alpha and MIPS do not.
    const CACHESTAT: libc::c_long = 451;
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
        return None;
    }
    let range = [offset, length];
    let mut answer = [0u64; 5];
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: `struct cachestat_range` is two u64, `struct cachestat` five (include/uapi/linux/mman.h); both live
    // until the call returns. It reads the one and writes the other; a kernel that does not know it answers ENOSYS.
    let result = unsafe { libc::syscall(CACHESTAT, descriptor, range.as_ptr(), answer.as_mut_ptr(), 0u32) };
    (result == 0).then_some(answer[0])
}

#[cfg(not(target_os = "linux"))]
fn cached_pages(_: BorrowedFd<'_>, _: u64, _: u64) -> Option<u64> {
    None
}

impl FileStat {
    fn of(stat: &rustix::fs::Stat) -> FileStat {
        #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
        FileStat {
            length: u64::try_from(stat.st_size).unwrap_or(0),
            written: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            links: stat.st_nlink as u64,
            is_file: rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file(),
        }
    }
}
