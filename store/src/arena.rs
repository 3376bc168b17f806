//! The arena: large bodies as page-aligned extents of one sealed memfd, sent by `sendfile` and freed by punching a hole.
//! An extent is never overwritten in place: the kernel may still hold its pages for a peer that has not acknowledged
//! them. After a hole, the kernel supplies new pages. Other modules decide what is kept.
//!
//! Bytes are written with `pwrite`, not through a mapping: then the pages belong to the file and to no address space, and
//! count once. Only [`FileOwner::mapped`] maps; the hole unmaps what was read through it.
//!
//! An upgrade lends the arena to the new process, which takes the extents of the responses that it gets: see `lending`.

use crate::memory_budget::MemoryBudget;
use crate::read_buffer::{self, ReadBuffer};
use bytes::Bytes;
use larder_transport::body::{FileOwner, FileSlice};
use parking_lot::Mutex;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

mod lending;

use self::lending::FreedExtents;
pub(crate) use self::lending::InheritedArena;
pub use self::lending::{ArenaInUse, LentArena};

/// The cost of an extent in addition to its pages: its own structures, the slice's owner pointer, and the gap that it may
/// leave between the free ranges.
pub(crate) const EXTENT_COST: u64 = 256;

/// Address space per byte of budget. It is sparse, so it costs nothing, and fragmentation does not matter.
const SPARSE: u64 = 16;

/// Offsets stay well below the limits of files and address spaces.
const MOST_SPACE: u64 = 1 << 45;

/// The memfd and the owners of its ranges.
pub(crate) struct Arena {
    file: OwnedFd,
    page: u64,
    space: u64,
    free: Mutex<FreeRanges>,
    mapping: OnceLock<Option<Mapping>>,
    budget: Arc<MemoryBudget>,
    freed: Mutex<FreedExtents>,
}

/// No pages: the space is used up, or the kernel has no memory.
#[derive(Debug)]
pub(crate) struct NoPages;

impl Arena {
    /// An empty arena for `bytes` bytes; `budget` counts its content.
    pub fn new(bytes: u64, budget: Arc<MemoryBudget>) -> io::Result<Arc<Self>> {
        let page = rustix::param::page_size() as u64;
        let space = bytes.saturating_mul(SPARSE).clamp(page, MOST_SPACE).next_multiple_of(page);
        let file = memfd_create("larder-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, space)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Arc::new(Self::of_file(file, space, FreedExtents::ArePunched, budget)))
    }

    fn of_file(file: OwnedFd, space: u64, freed: FreedExtents, budget: Arc<MemoryBudget>) -> Self {
        let page = rustix::param::page_size() as u64;
        let (free, freed) = (Mutex::new(FreeRanges::new(space)), Mutex::new(freed));
        Self { file, page, space, free, mapping: OnceLock::new(), budget, freed }
    }

    /// The cost of a body of `length` bytes in the arena.
    pub fn cost(&self, length: u64) -> u64 {
        length.next_multiple_of(self.page) + EXTENT_COST
    }

    /// Writes a body of `length` bytes into a new extent. The caller has charged [`Arena::cost`] to the budget. From here
    /// on the extent owns that entry, and removes it when it is dropped, or at once on an error.
    pub fn write(self: &Arc<Self>, chunks: &[Bytes], length: u64) -> Result<FileSlice, NoPages> {
        let extent = self.extent(length)?;
        let offset = extent.offset;
        let mut at = offset;
        for chunk in chunks {
            debug_assert!(at + chunk.len() as u64 <= offset + length);
            self.write_all(chunk, at).map_err(|_| NoPages)?;
            at += chunk.len() as u64;
        }
        Ok(FileSlice { owner: Arc::new(extent), offset, length })
    }

    /// The same for a body that `read` delivers piece by piece.
    pub fn write_from(
        self: &Arc<Self>,
        length: u64,
        mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
    ) -> Result<FileSlice, NoPages> {
        let extent = self.extent(length)?;
        let offset = extent.offset;
        let piece = usize::try_from(length).unwrap_or(read_buffer::MOST).min(read_buffer::MOST);
        let mut room = ReadBuffer::of(piece);
        let mut done = 0;
        while done < length {
            let more = usize::try_from(length - done).unwrap_or(piece).min(piece);
            let bytes = &mut room.bytes_mut()[..more];
            read(bytes).map_err(|_| NoPages)?;
            self.write_all(bytes, offset + done).map_err(|_| NoPages)?;
            done += more as u64;
        }
        Ok(FileSlice { owner: Arc::new(extent), offset, length })
    }

    /// A new extent for `length` bytes.
    fn extent(self: &Arc<Self>, length: u64) -> Result<ArenaExtent, NoPages> {
        let size = length.next_multiple_of(self.page);
        let Some(offset) = self.free.lock().take(size) else {
            self.budget.release(self.cost(length));
            return Err(NoPages);
        };
        self.budget.enter_arena(self.cost(length));
        Ok(ArenaExtent { arena: self.clone(), offset, size, length, cost: self.cost(length) })
    }

    /// Returns the pages of a range to the kernel. Where that fails they are still there: the range must not be used again.
    fn punch(&self, offset: u64, size: u64) -> bool {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match fallocate(&self.file, flags, offset, size) {
                Ok(()) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn write_all(&self, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.file, bytes, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes of memory that the file takes now, as the kernel counts them.
    pub fn resident(&self) -> u64 {
        rustix::fs::fstat(&self.file).map_or(0, |it| u64::try_from(it.st_blocks).unwrap_or(0) * 512)
    }
}

/// A range of the arena that belongs to one body.
struct ArenaExtent {
    arena: Arc<Arena>,
    offset: u64,
    size: u64,
    length: u64,
    cost: u64,
}

impl FileOwner for ArenaExtent {
    fn fd(&self) -> BorrowedFd<'_> {
        self.arena.file.as_fd()
    }

    fn mapped(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let end = offset.checked_add(length)?;
        if offset < self.offset || end > self.offset + self.length {
            return None;
        }
        let arena = &*self.arena;
        let mapping = arena.mapping.get_or_init(|| Mapping::new(&arena.file, arena.space)).as_ref()?;
        let (from, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        // SAFETY: the range lies within this extent, hence within the mapping, which lives as long as the arena
        // that this extent keeps. Its bytes were written before the extent was given to a reader and do not change
        // while it lives: nothing writes to an extent a second time, and the hole is punched when the last owner is gone.
        // The descriptor leaves this process in an upgrade alone, where both processes keep to `lending`. The seals keep the
        // file from shrinking below it.
        Some(unsafe { std::slice::from_raw_parts(mapping.start.add(from), length) })
    }
}

impl Drop for ArenaExtent {
    fn drop(&mut self) {
        let Self { arena, offset, size, .. } = &*self;
        if !arena.is_held_back(*offset, *size) {
            if !arena.punch(*offset, *size) {
                // The range is not reused, and stays counted.
                return;
            }
            arena.free.lock().give(*offset, *size);
        }
        arena.budget.leave_arena(self.cost);
    }
}

/// The whole arena, mapped for reading. Address space only, until it is read.
struct Mapping {
    start: *const u8,
    length: usize,
}

// SAFETY: a mapping is an address and a length; it is only read through, by any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, space: u64) -> Option<Self> {
        let length = usize::try_from(space).ok()?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, file, 0) }.ok()?;
        Some(Self { start: start.cast_const().cast(), length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; every borrow of it ended with the arena's last extent.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.length) };
    }
}

/// Free ranges: best fit, merged with their neighbours.
struct FreeRanges {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    fn new(space: u64) -> Self {
        let mut it = Self { by_start: BTreeMap::new(), by_size: BTreeSet::new() };
        it.add(0, space);
        it
    }

    fn add(&mut self, start: u64, size: u64) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn cut(&mut self, start: u64, size: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }

    fn take(&mut self, size: u64) -> Option<u64> {
        let (found, start) = *self.by_size.range((size, 0)..).next()?;
        self.cut(start, found);
        if found > size {
            self.add(start + size, found - size);
        }
        Some(start)
    }

    /// Takes this very range; returns whether it was free.
    fn take_at(&mut self, start: u64, size: u64) -> bool {
        let Some((&from, &length)) = self.by_start.range(..=start).next_back() else { return false };
        let (Some(end), limit) = (start.checked_add(size), from + length) else { return false };
        if size == 0 || end > limit {
            return false;
        }
        self.cut(from, length);
        if start > from {
            self.add(from, start - from);
        }
        if limit > end {
            self.add(end, limit - end);
        }
        true
    }

    fn give(&mut self, mut start: u64, mut size: u64) {
        if let Some((&before, &length)) = self.by_start.range(..start).next_back() {
            debug_assert!(before + length <= start, "given back twice");
            if before + length == start {
                self.cut(before, length);
                (start, size) = (before, size + length);
            }
        }
        if let Some(&length) = self.by_start.get(&(start + size)) {
            self.cut(start + size, length);
            size += length;
        }
        self.add(start, size);
    }
}

#[cfg(test)]
#[path = "arena/tests.rs"]
mod tests;
