//! A body is bytes or a file range: RAM, disk and static files leave through one send path.

use bytes::Bytes;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Something that holds a file open, and its bytes in place, for as long as a slice of it lives.
pub trait FileOwner: Send + Sync {
    /// The descriptor that `sendfile` reads from.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The bytes themselves where they are mapped; `None` for plain files.
    fn mapped(&self, offset: u64, length: u64) -> Option<&[u8]>;

    /// Lends some bytes from `offset` on, at least one and not many more than `most`, which are those that were promised: where the owner
    /// has sums of them ([`FileWritableBy::Checked`]), they were checked where they lie now.
    ///
    /// # Errors
    /// They cannot be read, there are none, or they are others.
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

    /// Whose the bytes are, and so how they are sent.
    fn kept(&self) -> FileWritableBy {
        FileWritableBy::Ours
    }

    /// Whether the bytes are still those that were promised; asked of [`FileWritableBy::Theirs`] after each read, and of
    /// [`FileWritableBy::Ours`] before the sending of a range goes on. A `false` cuts the connection, so that no client takes a mix of two
    /// versions for one.
    fn intact(&self) -> bool {
        true
    }

    /// The file could not be read, or ended too early: what was being sent is cut, and nothing of it should be offered again.
    fn failed(&self) {}
}

/// Who may change the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWritableBy {
    /// Nobody: `sendfile` hands the kernel the pages themselves.
    Ours,
    /// Anybody who may write to the file. They are copied on their way: the kernel sends pages as they are when they
    /// leave, and a file that is truncated meanwhile would go out as zeros, under a length that fits.
    Theirs,
    /// Ours, on a device or in a file that others can write to, with a sum for each part: they are copied, checked, and sent from there, so
    /// that what is sent is right whatever becomes of the file.
    Checked,
}

/// Bytes that are lent at a time where nobody has other wishes.
const LENT: usize = 64 << 10;

/// A range of a file that stays what it is while this value lives.
#[derive(Clone)]
pub struct FileSlice {
    /// Keeps the range alive.
    pub owner: Arc<dyn FileOwner>,
    /// Where it begins in the descriptor.
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
