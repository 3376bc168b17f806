//! Between the tiers: copying a body from the disk into RAM. `gateway` orders the tiers.

use crate::ram::{Store, StoredBody};
use larder_transport::body::FileSlice;

impl Store {
    /// The bytes of a slice as a body in RAM; `None` where there is no room for it, or where they cannot be read. It
    /// reads on this thread, which waits for the device: see `Disk::copy_in`.
    #[must_use]
    pub(crate) fn copy_in(&self, slice: &FileSlice) -> Option<StoredBody> {
        if !self.could_hold(slice.length) {
            return None;
        }
        let mut at = 0;
        self.make_body_of(slice.length, |room| {
            let mut filled = 0;
            while filled < room.len() {
                let (from, rest) = (slice.offset + at + filled as u64, room.len() - filled);
                slice.owner.lend(from, rest, &mut |bytes| {
                    let count = bytes.len().min(rest);
                    room[filled..filled + count].copy_from_slice(&bytes[..count]);
                    filled += count;
                })?;
            }
            at += filled as u64;
            Ok(())
        })
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::store;
    use larder_transport::body::FileOwner;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Arc;

    struct Plain(std::fs::File);

    impl FileOwner for Plain {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }
    }

    fn slice(bytes: &[u8], offset: u64, length: u64) -> FileSlice {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        FileSlice { owner: Arc::new(Plain(file)), offset, length }
    }

    fn bytes_of(body: &StoredBody) -> Vec<u8> {
        match body {
            StoredBody::Heap(bytes) => bytes.to_vec(),
            StoredBody::Arena(it) | StoredBody::Disk(it) => {
                it.owner.mapped(it.offset, it.length).unwrap().to_vec()
            }
        }
    }

    #[test]
    fn a_slice_is_copied_byte_for_byte() {
        let store = store(16 << 20);
        let all: Vec<u8> = (0..700_000_u32).map(|it| (it % 251) as u8).collect();
        let body = store.copy_in(&slice(&all, 100, 600_000)).unwrap();
        assert!(matches!(body, StoredBody::Arena(_)) && bytes_of(&body) == all[100..600_100]);
        let small = store.copy_in(&slice(&all, 1, 10)).unwrap();
        assert!(matches!(small, StoredBody::Heap(_)) && bytes_of(&small) == all[1..11]);
    }

    #[test]
    fn a_missing_range_of_a_file_is_no_body() {
        let store = store(16 << 20);
        assert!(store.copy_in(&slice(b"short", 0, 6)).is_none());
        assert!(store.copy_in(&slice(&vec![0; 9 << 20], 0, 9 << 20)).is_none());
    }
}
