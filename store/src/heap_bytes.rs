//! Small bodies: bytes on the heap, in one block with the count of those that share it.

use crate::memory_budget::on_heap;
use bytes::Bytes;
use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

/// What an `Arc` has beside what is in it: its counts.
const COUNTS: usize = 2 * size_of::<usize>();

/// Bytes in one block with the count of those that share it.
#[derive(Clone)]
pub struct HeapBytes(Arc<[u8]>);

impl HeapBytes {
    /// A copy of all of these together.
    pub(crate) fn of(chunks: &[impl Borrow<[u8]>]) -> Self {
        let mut chunks = chunks.iter().map(Borrow::borrow).filter(|it| !it.is_empty());
        let Some(first) = chunks.next() else { return Self(Arc::default()) };
        let rest: usize = chunks.clone().map(<[u8]>::len).sum();
        if rest == 0 {
            return Self(Arc::from(first));
        }
        let mut all: Arc<[u8]> = std::iter::repeat_n(0, first.len() + rest).collect();
        let mut at = 0;
        if let Some(all) = Arc::get_mut(&mut all) {
            for it in std::iter::once(first).chain(chunks) {
                all[at..at + it.len()].copy_from_slice(it);
                at += it.len();
            }
        }
        Self(all)
    }

    /// What they take.
    pub(crate) fn cost(&self) -> u64 {
        // All that are empty share one.
        if self.is_empty() { 0 } else { on_heap(self.len() + COUNTS) }
    }

    /// Whether these are the very bytes of `other`, not others like them.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The same bytes, for those that take any: allocates.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(Lent(self.clone()))
    }
}

impl<T: AsRef<[u8]>> From<T> for HeapBytes {
    fn from(bytes: T) -> Self {
        Self::of(&[bytes.as_ref()])
    }
}

/// For [`HeapBytes::bytes`].
struct Lent(HeapBytes);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl Deref for HeapBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
