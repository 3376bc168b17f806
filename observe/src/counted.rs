//! Accounting of heap memory of records for listeners, queued or kept, as long as a reference exists. The owners are not
//! here.

use bytes::Bytes;
use larder_store::memory::on_heap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sum of bytes on the heap.
#[derive(Clone, Default)]
pub struct HeapSum(Arc<AtomicU64>);

/// A value that counts in a sum until it is dropped.
pub struct CountedBytes<T> {
    it: T,
    weight: u64,
    sum: HeapSum,
}

impl HeapSum {
    /// The current sum.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Counts `it`, with `elsewhere` bytes on the heap, plus the block of its reference count.
    pub fn enter<T>(&self, it: T, elsewhere: u64) -> CountedBytes<T> {
        let weight = elsewhere + on_heap(size_of::<CountedBytes<T>>() + 2 * size_of::<usize>());
        self.0.fetch_add(weight, Relaxed);
        CountedBytes { it, weight, sum: self.clone() }
    }

    /// Copies a text and counts the copy. The buffer of the text may be twice as large, and mimalloc keeps
    /// the size of a block that shrinks to half of it or more.
    pub fn text(&self, text: &[u8]) -> Bytes {
        let text: Box<[u8]> = text.into();
        let elsewhere = on_heap(text.len());
        Bytes::from_owner(self.enter(text, elsewhere))
    }
}

impl<T> Deref for CountedBytes<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl AsRef<[u8]> for CountedBytes<Box<[u8]>> {
    fn as_ref(&self) -> &[u8] {
        &self.it
    }
}

impl<T> Drop for CountedBytes<T> {
    fn drop(&mut self) {
        self.sum.0.fetch_sub(self.weight, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_counts_as_long_as_a_part_of_it_is_held() {
        let sum = HeapSum::default();
        let text = sum.text(&[b'x'; 1000]);
        let weight = sum.bytes();
        assert!((1024..1200).contains(&weight), "the text, and a little: {weight}");
        let part = text.slice(3..5);
        drop(text);
        assert_eq!(weight, sum.bytes());
        drop(part);
        assert_eq!(0, sum.bytes());
    }
}
