//! An arena in two processes of an upgrade, so that large bodies are neither copied nor twice in memory. The old process lends
//! it, and the new one takes the extents of the responses that it gets:
//!
//! ```text
//! old                                                 new
//!  lend: extents that are freed stay as they are       inherits: takes extents, writes nothing, punches nothing
//!  the new one has failed, and was killed: reclaim
//!                 ── or ──
//!  serves, and ends some time later                    open: punches all but its own extents
//! ```
//!
//! No count of uses spans both processes. From `lend` to the end of the old process, or to `reclaim`, every range that an extent
//! of either has had keeps its bytes: the old one may still be sending a body that the new one has evicted, and a record may name one
//! that the old one has evicted. The old process may use the ranges that were free all the time: the new one has no extent there.
//! The kernel tells the new one that the old one has ended, by a pipe whose other end the old one never closes.

use super::{Arena, ArenaExtent, MemoryBudget, NoPages};
use larder_transport::body::FileSlice;
use parking_lot::Mutex;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The part of the budget that may be freed without being returned while an arena is lent: 1 / this.
const HELD_BACK: u64 = 8;

/// The treatment of extents that are freed.
pub(super) enum FreedExtents {
    /// Their pages go back to the kernel, and their ranges are used again.
    ArePunched,
    /// They are kept for the other process: ranges, and their bytes. Beyond `most` they are punched, and the other
    /// process must not use the arena.
    AreKept { ranges: Vec<(u64, u64)>, bytes: u64, most: u64 },
    /// The other process can no longer use it. These are still to be punched.
    WereTooMany { ranges: Vec<(u64, u64)> },
}

impl FreedExtents {
    /// Those that this process keeps, without a bound: it serves, or will.
    fn kept() -> Self {
        FreedExtents::AreKept { ranges: Vec::new(), bytes: 0, most: u64::MAX }
    }
}

/// The means for another process to use an arena.
pub struct LentArena {
    /// The memfd.
    pub arena: OwnedFd,
    /// It is at its end when the lender has ended.
    pub end: OwnedFd,
}

/// An arena that another process uses, or will, until that is killed. Dropping this keeps it so as long as this process lives.
pub struct ArenaInUse {
    arena: Arc<Arena>,
    end: Option<PipeWriter>,
}

/// The arena of another process, which has not ended.
pub(crate) struct InheritedArena {
    /// The arena with its mapping in this process.
    pub arena: Arc<Arena>,
    end: PipeReader,
    /// The extents so far, by their start.
    claims: Mutex<HashMap<u64, Arc<ArenaExtent>>>,
    /// The cost of all that were claimed.
    claimed: AtomicU64,
}

impl Arena {
    /// Lends the arena to another process. Until it is reclaimed, no range of an extent changes.
    pub fn lend(self: &Arc<Self>) -> io::Result<(ArenaInUse, LentArena)> {
        let (reader, writer) = io::pipe()?;
        let lent = LentArena { arena: self.file.try_clone()?, end: reader.into() };
        *self.freed.lock() =
            FreedExtents::AreKept { ranges: Vec::new(), bytes: 0, most: self.budget.limit() / HELD_BACK };
        Ok((ArenaInUse { arena: self.clone(), end: Some(writer) }, lent))
    }

    /// Whether this freed extent stays as it is.
    pub(super) fn is_held_back(&self, offset: u64, size: u64) -> bool {
        let mut freed = self.freed.lock();
        let FreedExtents::AreKept { ranges, bytes, most } = &mut *freed else { return false };
        ranges.push((offset, size));
        *bytes += size;
        if *bytes > *most {
            let ranges = std::mem::take(ranges);
            *freed = FreedExtents::WereTooMany { ranges };
        }
        true
    }

    /// Punches all that was held back, and uses its ranges again.
    fn return_freed(&self) {
        loop {
            let ranges = {
                let mut freed = self.freed.lock();
                let ranges = match &mut *freed {
                    FreedExtents::ArePunched => return,
                    FreedExtents::AreKept { ranges, .. } | FreedExtents::WereTooMany { ranges } => {
                        std::mem::take(ranges)
                    }
                };
                if ranges.is_empty() {
                    *freed = FreedExtents::ArePunched;
                    return;
                }
                ranges
            };
            for (offset, size) in ranges {
                if self.punch(offset, size) {
                    self.free.lock().give(offset, size);
                }
            }
        }
    }

    /// The number by which its extents are recognized.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl ArenaInUse {
    /// Whether too much was freed meanwhile: the other process must not use it. Otherwise all that is freed from now on is kept.
    pub(crate) fn is_spoiled(&self) -> bool {
        match &mut *self.arena.freed.lock() {
            FreedExtents::AreKept { most, .. } => {
                *most = u64::MAX;
                false
            }
            FreedExtents::ArePunched | FreedExtents::WereTooMany { .. } => true,
        }
    }

    /// The number by which its extents are recognized.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.arena.descriptor()
    }

    /// The other process does not use it, and never will.
    pub fn reclaim(mut self) {
        self.arena.return_freed();
        drop(self.end.take());
    }
}

impl Drop for ArenaInUse {
    fn drop(&mut self) {
        // The kernel closes it with the process.
        std::mem::forget(self.end.take());
    }
}

impl InheritedArena {
    /// The arena of a lender, without extents.
    ///
    /// # Errors
    /// It is none.
    pub fn new(lent: LentArena, budget: Arc<MemoryBudget>) -> io::Result<Self> {
        let LentArena { arena: file, end } = lent;
        let space = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let page = rustix::param::page_size() as u64;
        let is_sealed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        if !is_sealed || space == 0 || !space.is_multiple_of(page) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let arena = Arc::new(Arena::of_file(file, space, FreedExtents::kept(), budget));
        Ok(Self { arena, end: end.into(), claims: Mutex::default(), claimed: AtomicU64::new(0) })
    }

    /// The body at a place, which the lender has named. The caller has charged [`Arena::cost`] to the budget.
    pub fn claim(&self, offset: u64, length: u64) -> Result<FileSlice, NoPages> {
        let arena = &self.arena;
        let cost = arena.cost(length);
        let fault = || {
            arena.budget.release(cost);
            NoPages
        };
        if !offset.is_multiple_of(arena.page) {
            return Err(fault());
        }
        let mut claims = self.claims.lock();
        if let Some(extent) = claims.get(&offset) {
            // Sent again with a change of another response under the same key.
            arena.budget.release(cost);
            let is_same = extent.length == length;
            return is_same.then(|| FileSlice { owner: extent.clone(), offset, length }).ok_or(NoPages);
        }
        let size = length.next_multiple_of(arena.page);
        if !arena.free.lock().take_at(offset, size) {
            return Err(fault());
        }
        arena.budget.enter_arena(cost);
        self.claimed.fetch_add(cost, Relaxed);
        let extent = Arc::new(ArenaExtent { arena: arena.clone(), offset, size, length, cost });
        claims.insert(offset, extent.clone());
        Ok(FileSlice { owner: extent, offset, length })
    }

    /// The cost of all extents so far.
    pub fn claimed(&self) -> u64 {
        self.claimed.load(Relaxed)
    }

    /// All extents are known: no further one is claimed.
    pub fn finish(&self) {
        let claims = std::mem::take(&mut *self.claims.lock());
        drop(claims);
    }

    /// Waits for the end of the lender, and returns all pages to the kernel but those of its own extents. The arena can be used as
    /// one that this process made then.
    pub fn open(self) -> Arc<Arena> {
        let Self { arena, mut end, .. } = self;
        // Nothing is written to it; an error is no sign of life, either.
        let _ = end.read(&mut [0]);
        let unclaimed: BTreeMap<u64, u64> = arena.free.lock().by_start.clone();
        for (offset, size) in unclaimed {
            if !arena.punch(offset, size) {
                // Pages of the lender stay there.
                arena.free.lock().cut(offset, size);
            }
        }
        arena.return_freed();
        arena
    }
}
