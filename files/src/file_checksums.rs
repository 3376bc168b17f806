//! Sums of the bytes of a large file, taken when it is opened: they distinguish a file that was edited while it is sent from one that was
//! appended to, or whose modification time alone changed. Files in memory need none.

use crate::resolve::Identity;
use larder_stdx::clock::WallTime;
use rustix::fs::fstat;
use rustix::io::{Errno, pread};
use std::os::fd::BorrowedFd;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes at the beginning, in the middle and at the end that must be unchanged for a grown file to count as appended to.
const SAMPLE: usize = 4096;

/// Bytes of each block that has a sum.
const BLOCK: usize = 64 << 10;

/// Largest file with a sum for every block: opening it reads all of it.
const MOST: u64 = 64 << 20;

/// Seconds since the last write for which a file has such sums: of a file that is being written every version would be read.
const AT_REST: u64 = 10;

/// The sums of a file in one state.
pub(crate) struct FileChecksums {
    /// Of the sample at the beginning.
    head: u64,
    /// Of the other samples.
    rest: u64,
    /// Of each block, in order; empty if the file is too large or was written to lately.
    blocks: Box<[u64]>,
}

/// The bytes that are unchanged in a file that has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// All of them.
    All,
    /// All but the first [`SAMPLE`], as in a recording whose header contains its length.
    BehindHead,
    /// None are known to be: the file was rewritten, or has not grown.
    Nothing,
}

impl FileChecksums {
    /// The sums of a file in the state `identity`, at the time `now`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(fd: BorrowedFd<'_>, identity: &Identity, now: WallTime) -> Result<Self, Errno> {
        let (head, rest) = samples(fd, identity.size)?;
        let modified = u64::try_from(identity.modified.0).unwrap_or(0);
        let is_summed = identity.size <= MOST && modified.saturating_add(AT_REST) <= now.0;
        let mut blocks = if is_summed { blocks(fd, identity.size)? } else { Vec::new() };
        if !fstat(fd).is_ok_and(|it| Identity::of(&it).same_bytes(identity)) {
            blocks.clear();
        }
        Ok(Self { head, rest, blocks: blocks.into() })
    }

    /// The unchanged bytes among the first `size`, the length of the file when the sums were taken.
    pub(crate) fn after_append(&self, fd: BorrowedFd<'_>, size: u64) -> Appended {
        match samples(fd, size) {
            Ok(now) if now == (self.head, self.rest) => Appended::All,
            Ok((_, rest)) if rest == self.rest && size > 3 * SAMPLE as u64 => Appended::BehindHead,
            _ => Appended::Nothing,
        }
    }

    /// Whether `bytes`, read at `offset`, are unchanged: their blocks have the same sums.
    pub(crate) fn hold(&self, fd: BorrowedFd<'_>, offset: u64, bytes: &[u8], size: u64) -> bool {
        let mut rest = bytes;
        let mut room = vec![0; BLOCK];
        while !rest.is_empty() {
            let at = offset + (bytes.len() - rest.len()) as u64;
            let Ok(number) = usize::try_from(at / BLOCK as u64) else { return false };
            let start = number as u64 * BLOCK as u64;
            let room = &mut room[..length_of_block(start, size)];
            let is_same =
                read_exactly(fd, room, start).is_ok() && self.blocks.get(number) == Some(&xxh3_64(room));
            let within = usize::try_from(at - start).unwrap_or(BLOCK);
            let Some(block) = room.get(within..).filter(|_| is_same) else { return false };
            let count = block.len().min(rest.len());
            if count == 0 || block[..count] != rest[..count] {
                return false;
            }
            rest = &rest[count..];
        }
        true
    }

    /// Whether every block has a sum.
    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The offset from which on all bytes are unchanged.
    pub(crate) fn offset_of(appended: Appended) -> u64 {
        match appended {
            Appended::All => 0,
            Appended::BehindHead => SAMPLE as u64,
            Appended::Nothing => u64::MAX,
        }
    }
}

/// The sum of the first sample of a file of `size` bytes, and of the two others.
fn samples(fd: BorrowedFd<'_>, size: u64) -> Result<(u64, u64), Errno> {
    let sample = |at: u64, hash: &mut Xxh3| {
        let mut room = [0; SAMPLE];
        let most = usize::try_from(size - at).unwrap_or(SAMPLE).min(SAMPLE);
        let count = pread(fd, &mut room[..most], at)?;
        hash.update(&room[..count]);
        Ok::<_, Errno>(())
    };
    let (mut head, mut rest) = (Xxh3::new(), Xxh3::new());
    sample(0, &mut head)?;
    sample(size / 2, &mut rest)?;
    sample(size.saturating_sub(SAMPLE as u64), &mut rest)?;
    Ok((head.digest(), rest.digest()))
}

fn blocks(fd: BorrowedFd<'_>, size: u64) -> Result<Vec<u64>, Errno> {
    let mut room = vec![0; BLOCK];
    let starts = (0..size).step_by(BLOCK);
    let sum = |start| {
        let room = &mut room[..length_of_block(start, size)];
        read_exactly(fd, room, start).map(|()| xxh3_64(room))
    };
    starts.map(sum).collect()
}

/// Bytes of the block that begins at `start`.
fn length_of_block(start: u64, size: u64) -> usize {
    usize::try_from(size.saturating_sub(start)).unwrap_or(BLOCK).min(BLOCK)
}

fn read_exactly(fd: BorrowedFd<'_>, room: &mut [u8], mut at: u64) -> Result<(), Errno> {
    let mut filled = 0;
    while filled < room.len() {
        match pread(fd, &mut room[filled..], at)? {
            0 => return Err(Errno::IO),
            count => (filled, at) = (filled + count, at + count as u64),
        }
    }
    Ok(())
}
