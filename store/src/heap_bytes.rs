//! Small bodies: bytes on the heap, in one block with their reference count.

use crate::memory_budget::on_heap;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use std::borrow::Borrow;
use std::ops::Deref;
use triomphe::ThinArc;

/// The block's overhead: the number of bytes, and the reference count.
const COUNTS: usize = 2 * size_of::<usize>();

/// Bytes in one block with their reference count.
#[derive(Clone)]
pub struct HeapBytes(ThinArc<(), u8>);

impl HeapBytes {
    /// A copy of all chunks together.
    pub(crate) fn of(chunks: &[impl Borrow<[u8]>]) -> Self {
        let mut some = chunks.iter().map(Borrow::borrow).filter(|it| !it.is_empty());
        let all = |bytes: &[u8]| Self(ThinArc::from_header_and_slice((), bytes));
        match (some.next(), some.next()) {
            (Some(_), Some(_)) => all(&chunks.concat()),
            (one, _) => all(one.unwrap_or_default()),
        }
    }

    /// Their heap bytes.
    pub(crate) fn cost(&self) -> u64 {
        on_heap(self.len() + COUNTS)
    }

    /// Whether these are the same bytes in the same place as `other`'s.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        std::ptr::eq(&raw const *self.0, &raw const *other.0)
    }

    /// The same bytes as [`Bytes`]; allocates.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(BorrowedBytes(self.clone()))
    }
}

impl<T: AsRef<[u8]>> From<T> for HeapBytes {
    fn from(bytes: T) -> Self {
        Self::of(&[bytes.as_ref()])
    }
}

/// For [`HeapBytes::bytes`].
struct BorrowedBytes(HeapBytes);

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for HeapBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.slice
    }
}

/// The heap bytes of a list of fields.
pub(crate) fn list_cost(list: &FieldList) -> u64 {
    list.blocks().map(on_heap).iter().sum()
}
