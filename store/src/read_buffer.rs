//! Buffers into which records are read for verification: reused by the thread that read last, so that they are neither
//! cleared nor cold. `read` fills and keeps them.

use std::cell::RefCell;

/// Larger buffers are not reused: a thread keeps at most this.
pub(crate) const MOST: usize = 72 << 10;

thread_local! {
    /// One is enough: a record is used before the next is read.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A buffer for a read.
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl ReadBuffer {
    /// A buffer of this length with unspecified content.
    pub fn of(length: usize) -> ReadBuffer {
        let mut bytes = SPARE.take();
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        ReadBuffer { bytes, length }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Grows to this length; the first bytes are kept.
    pub fn grow(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        self.length = length;
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() <= MOST {
            // An ending thread has no use for it.
            let _ = SPARE.try_with(|it| it.replace(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again_and_has_the_length_that_was_asked_for() {
        let mut buffer = ReadBuffer::of(1000);
        buffer.bytes_mut().fill(7);
        let at = buffer.bytes().as_ptr();
        drop(buffer);
        let mut buffer = ReadBuffer::of(10);
        assert_eq!((at, 10), (buffer.bytes().as_ptr(), buffer.bytes().len()));
        buffer.grow(2000);
        assert_eq!(&[7; 10], &buffer.bytes()[..10]);
        assert_eq!(2000, buffer.bytes().len());
        drop(ReadBuffer::of(MOST + 1));
        assert!(SPARE.with_borrow(Vec::len) <= MOST);
    }
}
