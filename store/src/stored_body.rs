//! The body of a stored response or of one of its encodings, in its place: heap, arena or segment.

use crate::heap_bytes::HeapBytes;
use crate::memory_budget::on_heap;
use larder_transport::body::{BodyPiece, FileSlice};
use std::borrow::Borrow;
use std::os::fd::AsRawFd;

/// A stored body.
#[derive(Clone)]
pub enum StoredBody {
    /// Up to the heap line.
    Heap(HeapBytes),
    /// In the arena; the slice keeps its extent.
    Arena(Box<FileSlice>),
    /// In a segment of the disk tier; the slice keeps the segment.
    Disk(Box<FileSlice>),
}

impl StoredBody {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            StoredBody::Heap(bytes) => bytes.len() as u64,
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => slice.length,
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A body on the heap without spare capacity, so that its cost is known. Always copied: a chunk may be a small part
    /// of a large buffer.
    #[must_use]
    pub fn on_the_heap(chunks: &[impl Borrow<[u8]>]) -> StoredBody {
        StoredBody::Heap(HeapBytes::of(chunks))
    }

    /// Its heap bytes. An extent of the arena counts itself.
    pub(crate) fn heap_cost(&self) -> u64 {
        match self {
            StoredBody::Heap(bytes) => bytes.cost(),
            StoredBody::Arena(_) | StoredBody::Disk(_) => on_heap(size_of::<FileSlice>()),
        }
    }

    /// Whether these are the same bytes in the same place as `other`'s.
    pub(crate) fn is_at(&self, other: &StoredBody) -> bool {
        match (self, other) {
            (StoredBody::Heap(one), StoredBody::Heap(other)) => one.is_at(other),
            (StoredBody::Arena(one), StoredBody::Arena(other))
            | (StoredBody::Disk(one), StoredBody::Disk(other)) => {
                let place = |it: &FileSlice| (it.owner.fd().as_raw_fd(), it.offset, it.length);
                place(one) == place(other)
            }
            _ => false,
        }
    }

    /// The body as a piece to send.
    #[must_use]
    pub fn piece(&self) -> BodyPiece {
        match self {
            StoredBody::Heap(bytes) => BodyPiece::Bytes(bytes.bytes()),
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => BodyPiece::File(FileSlice::clone(slice)),
        }
    }
}
