//! The bytes of a body in memory, on their way into the fleet or out of it.

use crate::ram::{Store, StoredBody};
use bytes::Bytes;
use larder_transport::body::FileSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bodies above this many bytes are packed, unpacked and hashed by another thread: a worker has other clients to serve.
const ELSEWHERE: u64 = 256 * 1024;

/// Bytes of a body in memory.
#[derive(Clone)]
pub(super) enum HeldBody {
    Bytes(Bytes),
    /// Mapped completely.
    Mapped(FileSlice),
}

impl HeldBody {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            HeldBody::Bytes(it) => it,
            // Only mapped bodies are held in this form.
            HeldBody::Mapped(it) => it.owner.mapped(it.offset, it.length).unwrap_or_default(),
        }
    }

    /// A part of them.
    pub(super) fn slice(&self, range: Range<usize>) -> HeldBody {
        match self {
            HeldBody::Bytes(it) => HeldBody::Bytes(it.slice(range)),
            HeldBody::Mapped(it) => {
                let (from, length) = (it.offset + range.start as u64, range.len() as u64);
                HeldBody::Mapped(FileSlice { owner: it.owner.clone(), offset: from, length })
            }
        }
    }

    /// The bytes of a file, in memory. Those of the arena are already; those of a segment are read into it by another
    /// thread, so that the RAM tier's budget has them and no thread's heap keeps room for them. `None` where that fails.
    pub(super) async fn of(slice: &FileSlice, store: &Arc<Store>) -> Option<HeldBody> {
        if slice.owner.mapped(slice.offset, slice.length).is_some() {
            return Some(HeldBody::Mapped(slice.clone()));
        }
        let (slice, store) = (slice.clone(), store.clone());
        let read = move || store.copy_in(&slice).filter(|_| slice.owner.is_intact());
        match tokio::task::spawn_blocking(read).await.ok()?? {
            StoredBody::Heap(bytes) => Some(HeldBody::Bytes(bytes.bytes())),
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => Some(HeldBody::Mapped(*slice)),
        }
    }

    /// Runs `work` on the bytes: on another thread, if they or their result are large.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        becomes: Option<u64>,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Option<T> {
        let length = self.bytes().len() as u64;
        if length.max(becomes.unwrap_or(0)) <= ELSEWHERE {
            return Some(work(self.bytes()));
        }
        let held = self.clone();
        tokio::task::spawn_blocking(move || work(held.bytes())).await.ok()
    }
}
