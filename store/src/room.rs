//! Room to read records into, to be verified: used again by the thread that read last, so that it is neither cleared nor cold. What
//! is read, and who keeps any of it, is in `read`.

use std::cell::RefCell;

/// Rooms with more bytes than this are not used again: a thread keeps so much at most.
pub(crate) const MOST: usize = 72 << 10;

thread_local! {
    /// One is enough: what is read is looked at before the next is read.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Room to read into.
pub(crate) struct Room {
    bytes: Vec<u8>,
    length: usize,
}

impl Room {
    /// Of so many bytes; what they are is not said.
    pub fn of(length: usize) -> Room {
        let mut bytes = SPARE.take();
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        Room { bytes, length }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// So many bytes, of which the first are those that were there.
    pub fn grow(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        self.length = length;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() <= MOST {
            // A thread that ends has no use for it.
            let _ = SPARE.try_with(|it| it.replace(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again_and_has_the_length_that_was_asked_for() {
        let mut room = Room::of(1000);
        room.bytes_mut().fill(7);
        let at = room.bytes().as_ptr();
        drop(room);
        let mut room = Room::of(10);
        assert_eq!((at, 10), (room.bytes().as_ptr(), room.bytes().len()));
        room.grow(2000);
        assert_eq!(&[7; 10], &room.bytes()[..10]);
        assert_eq!(2000, room.bytes().len());
        drop(Room::of(MOST + 1));
        assert!(SPARE.with_borrow(Vec::len) <= MOST);
    }
}
