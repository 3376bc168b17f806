//! A body is bytes or a file range: RAM, disk and static files use one send path.

use bytes::Bytes;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Keeps a file open, and its bytes in place, as long as a slice of it exists.
pub trait FileOwner: Send + Sync {
    /// The descriptor that `sendfile` reads from.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The bytes themselves if they are mapped; `None` for plain files.
    fn mapped(&self, offset: u64, length: u64) -> Option<&[u8]>;

    /// Lends some bytes from `offset` on, at least one and not many more than `most`, which are the promised ones: if the
    /// owner has checksums ([`FileWritableBy::Checked`]), they were verified at their current place in memory.
    ///
    /// # Errors
    /// They cannot be read, there are none, or they differ.
    fn lend(&self, offset: u64, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut room = vec![0; most.min(LENT)];
        match rustix::io::pread(self.fd(), &mut room, offset)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                take(&room[..count]);
                Ok(())
            }
        }
    }

    /// The possible writers of the bytes, which determine the way of sending.
    fn kept(&self) -> FileWritableBy {
        FileWritableBy::Ours
    }

    /// Whether all bytes are still the promised ones; called for [`FileWritableBy::Ours`] before the sending of a range
    /// continues. `false` cuts the connection, so that no client gets a mix of two versions.
    fn is_intact(&self) -> bool {
        true
    }

    /// Whether `bytes`, just read at `offset`, are the promised ones; called for [`FileWritableBy::Theirs`] after each
    /// read. `false` cuts the connection.
    fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let _ = (offset, bytes);
        self.is_intact()
    }

    /// The file could not be read, ended too early or was changed: the current response is cut, and the file should not be sent
    /// again.
    fn failed(&self) {}
}

/// The possible writers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWritableBy {
    /// None: `sendfile` passes the kernel the pages themselves.
    Ours,
    /// Every process that may write to the file. The bytes are copied: with `sendfile` the kernel sends pages as they are
    /// when they leave, and a file that is truncated meanwhile would be sent as zeros, under a fitting length.
    Theirs,
    /// larder, on a device or in a file that other processes can write to, with a checksum for each part: the bytes are
    /// copied, verified, and sent from the copy, so that the sent bytes are right for any change of the file.
    Checked,
}

/// The default number of bytes that are lent at a time.
const LENT: usize = 64 << 10;

/// A range of a file that does not change while this value exists.
#[derive(Clone)]
pub struct FileSlice {
    /// Keeps the range alive.
    pub owner: Arc<dyn FileOwner>,
    /// Its start in the descriptor.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// One piece of a body.
#[derive(Clone)]
pub enum BodyPiece {
    /// On the heap.
    Bytes(Bytes),
    /// In a file or in the arena.
    File(FileSlice),
}

impl BodyPiece {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            BodyPiece::Bytes(bytes) => bytes.len() as u64,
            BodyPiece::File(slice) => slice.length,
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of `length` bytes from `from`; both within the piece.
    #[must_use]
    pub fn slice(&self, from: u64, length: u64) -> BodyPiece {
        debug_assert!(from + length <= self.len());
        match self {
            #[allow(clippy::cast_possible_truncation, reason = "within a buffer in memory")]
            BodyPiece::Bytes(bytes) => BodyPiece::Bytes(bytes.slice(from as usize..(from + length) as usize)),
            BodyPiece::File(it) => {
                BodyPiece::File(FileSlice { owner: it.owner.clone(), offset: it.offset + from, length })
            }
        }
    }
}
