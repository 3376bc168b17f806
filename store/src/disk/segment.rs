//! One segment file, and the sum of all of them. This module does not know their content.

use crate::device::syscalls::{FailedCall, FileStat, Syscall, Syscalls};
use larder_stdx::clock::{self, Monotonic};
use larder_transport::body::FileOwner;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes of all files, including unnamed ones for as long as they are read.
#[derive(Default)]
pub(crate) struct DiskUsage(AtomicU64);

impl DiskUsage {
    pub fn used(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub fn take(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    /// Enters bytes if the sum stays within `most`. The log keeps room for one segment free, for this too.
    pub fn reserve(&self, bytes: u64, most: u64) -> Result<(), FailedCall> {
        let enter = |used: u64| Some(used + bytes).filter(|it| *it <= most);
        let full = FailedCall { call: Syscall::Allocate, errno: Errno::NOSPC };
        self.0.fetch_update(Relaxed, Relaxed, enter).map(drop).map_err(|_| full)
    }
}

/// An open segment. Its bytes do not change once they are known to readers; it may lose its name.
pub(crate) struct Segment {
    pub id: u32,
    pub file: OwnedFd,
    calls: Syscalls,
    usage: Arc<DiskUsage>,
    charged: AtomicU64,
    /// Its state after larder's last write; `None` before the first, and during one.
    expected_stat: Mutex<Option<FileStat>>,
    is_modified: AtomicBool,
    /// The time at which a change was seen that need not affect its bytes: monotonic milliseconds, plus one.
    touched: AtomicU64,
    /// The lowest epoch in it; `u64::MAX` without any.
    oldest_epoch: AtomicU64,
}

impl Segment {
    /// A segment for which `charged` bytes are entered. The kernel reads nothing ahead, so resident pages were requested.
    pub fn new(id: u32, file: OwnedFd, calls: Syscalls, space: Arc<DiskUsage>, charged: u64) -> Arc<Segment> {
        space.add(charged);
        Syscalls::disable_read_ahead(&file);
        Arc::new(Segment {
            id,
            file,
            calls,
            usage: space,
            charged: AtomicU64::new(charged),
            expected_stat: Mutex::new(None),
            is_modified: AtomicBool::new(false),
            touched: AtomicU64::new(0),
            oldest_epoch: AtomicU64::new(u64::MAX),
        })
    }

    /// Adds the epoch of a response in it.
    pub fn note_epoch(&self, epoch: u64) {
        self.oldest_epoch.fetch_min(epoch, Relaxed);
    }

    /// The lowest epoch in it.
    pub fn oldest_epoch(&self) -> u64 {
        self.oldest_epoch.load(Relaxed)
    }

    /// Sets the bytes that are entered for it.
    pub fn charge(&self, bytes: u64) {
        self.usage.add(bytes);
        self.usage.take(self.charged.swap(bytes, Relaxed));
    }

    /// The name of segment `id`.
    pub fn name(id: u32) -> String {
        format!("{id:010}.segment")
    }

    /// The number in such a name.
    pub fn number(name: &[u8]) -> Option<u32> {
        let digits = name.strip_suffix(b".segment").filter(|it| it.len() == 10)?;
        std::str::from_utf8(digits).ok().filter(|it| it.bytes().all(|it| it.is_ascii_digit()))?.parse().ok()
    }

    /// Marks the end of larder's writing: its bytes are its length.
    pub fn seal(&self) -> Result<(), FailedCall> {
        let stat = self.calls.stat(self.file.as_fd())?;
        self.charge(stat.length);
        *self.expected_stat.lock() = Some(stat);
        Ok(())
    }

    /// Writes to it with `work`: earlier and later writes by other programs stay noticeable.
    pub fn write<T>(&self, work: impl FnOnce() -> T) -> T {
        self.check_modified();
        *self.expected_stat.lock() = None;
        let result = work();
        match self.calls.stat(self.file.as_fd()) {
            Ok(stat) => *self.expected_stat.lock() = Some(stat),
            Err(_) => self.is_modified.store(true, Relaxed),
        }
        result
    }

    /// Whether [`Segment::check_modified`] returned true before.
    pub fn was_modified(&self) -> bool {
        self.is_modified.load(Relaxed)
    }

    /// Whether another program has written to it or truncated it: then earlier verification does not count.
    pub fn check_modified(&self) -> bool {
        if self.is_modified.load(Relaxed) {
            return true;
        }
        let Some(before) = *self.expected_stat.lock() else { return false };
        let now = self.calls.stat(self.file.as_fd());
        if now == Ok(before) {
            return false;
        }
        let mut left = self.expected_stat.lock();
        if *left != Some(before) {
            return false; // A difference by our own writes meanwhile is no sign.
        }
        match now {
            Ok(it) if it.length == before.length && it.written == before.written => {
                self.touched.store(clock::monotonic().0 + 1, Relaxed);
                *left = Some(it);
                false
            }
            _ => {
                self.is_modified.store(true, Relaxed);
                true
            }
        }
    }

    /// Whether [`Segment::check_modified`] saw within the last `millis` before `now` that it was linked, unlinked, or given a
    /// time: a program may have written to it and set the time back.
    pub fn was_touched(&self, now: Monotonic, millis: u64) -> bool {
        let at = self.touched.load(Relaxed);
        at != 0 && now.0 < at + millis
    }

    /// See [`Syscalls::resident`].
    pub fn is_resident(&self, offset: u64, length: u64) -> bool {
        self.calls.resident(self.file.as_fd(), offset, length)
    }
}

impl FileOwner for Segment {
    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        // Mapping a file that another program truncates would raise SIGBUS.
        None
    }

    fn is_intact(&self) -> bool {
        !self.check_modified()
    }

    fn failed(&self) {
        self.is_modified.store(true, Relaxed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.usage.take(self.charged.load(Relaxed));
    }
}
