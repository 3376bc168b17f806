//! Bodies on their way into and out of the fleet: compressed, split into parts, and joined again. Data that is read is
//! trusted only as far as it was verified; `get` and `put` talk to the servers.

use super::held_body::HeldBody;
use super::server::FleetItem;
use super::{Fleet, Shortfall};
use bytes::Bytes;
use larder_wire::envelope::{BodyInfo, BodySplit, EnvelopeError, PartHead};
use std::io::Read;
use std::rc::Rc;
use tokio::time::Instant;

/// The limit of the ratio of a body above [`ANYWAY`] to its stored form: it bounds what a few bytes can make a node
/// unpack.
const MOST_TIMES: u64 = 256;

/// Bodies up to this many bytes are unpacked at any ratio.
const ANYWAY: u64 = 1 << 20;

/// The largest body that is unpacked, bytes.
const MOST_UNPACKED: u64 = 256 << 20;

/// The zstd level: 3 is its own default.
const LEVEL: i32 = 3;

/// Parts that are requested at a time.
const AT_ONCE: usize = 8;

/// The body in its stored form: compressed, where that is smaller.
pub(super) async fn pack(body: HeldBody) -> (HeldBody, Option<u64>) {
    let length = body.bytes().len() as u64;
    let packed = body.work(None, |bytes| zstd::bulk::compress(bytes, LEVEL).ok()).await.flatten();
    match packed {
        Some(packed) if is_worth_it(packed.len() as u64, length) => {
            (HeldBody::Bytes(packed.into()), Some(length))
        }
        _ => (body, None),
    }
}

fn is_worth_it(packed: u64, length: u64) -> bool {
    packed < length && may_unpack(packed, length)
}

fn may_unpack(packed: u64, length: u64) -> bool {
    length <= MOST_UNPACKED && (length <= ANYWAY || length / MOST_TIMES <= packed)
}

/// Verifies a body against its envelope, and unpacks it.
pub(super) async fn open(body: Bytes, info: BodyInfo) -> Result<Bytes, EnvelopeError> {
    let held = HeldBody::Bytes(body.clone());
    let opened = held.work(info.packed, move |bytes| {
        info.check(bytes)?;
        info.packed.map(|length| unpack(bytes, length).ok_or(EnvelopeError::BodyLength)).transpose()
    });
    match opened.await.unwrap_or(Err(EnvelopeError::BodyLength))? {
        Some(unpacked) => Ok(unpacked.into()),
        None => Ok(body),
    }
}

/// Unpacks to `length` bytes; never makes more, and allocates only for existing bytes.
fn unpack(packed: &[u8], length: u64) -> Option<Vec<u8>> {
    if !may_unpack(packed.len() as u64, length) {
        return None;
    }
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    // The window of RFC 9659, 8 MiB: the most that a decoder has to hold.
    decoder.window_log_max(23).ok()?;
    let mut unpacked = Vec::new();
    decoder.take(length + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 == length).then_some(unpacked)
}

/// One part of a body as a value: its head, and its bytes.
pub(super) fn part(body: &HeldBody, parts: &BodySplit, index: u32) -> (Vec<u8>, HeldBody) {
    let length = body.bytes().len();
    let size = usize::try_from(parts.size).unwrap_or(usize::MAX);
    let from = (index as usize).saturating_mul(size).min(length);
    let part = body.slice(from..from.saturating_add(size).min(length));
    let mut head = Vec::with_capacity(PartHead::LENGTH);
    PartHead::write(parts.generation, index, part.bytes(), &mut head);
    (head, part)
}

impl Fleet {
    /// Reads the parts of a body and joins them.
    pub(super) async fn gather(
        self: &Rc<Self>,
        info: &BodyInfo,
        parts: &BodySplit,
        deadline: Instant,
    ) -> Result<Bytes, Shortfall> {
        let length = usize::try_from(info.length).map_err(|_| Shortfall::Corrupt)?;
        // Nothing is allocated for an envelope's claim alone: it grows with the data.
        let mut body: Vec<u8> = Vec::new();
        let mut on_their_way = std::collections::VecDeque::new();
        for index in 0..parts.count {
            while on_their_way.len() < AT_ONCE {
                let next = index + u32::try_from(on_their_way.len()).unwrap_or(0);
                if next >= parts.count {
                    break;
                }
                on_their_way.push_back(self.send_read(self.keys.part(parts.generation, next), deadline));
            }
            let asked = on_their_way.pop_front().flatten().ok_or(Shortfall::Unavailable)?;
            let item = match self.receive_read(asked, deadline).await {
                Ok(Some(FleetItem { value, .. })) => value,
                Ok(None) => return Err(Shortfall::Corrupt),
                Err(_) => return Err(Shortfall::Unavailable),
            };
            let bytes = PartHead::open(&item, parts, info.length, index).map_err(|_| Shortfall::Corrupt)?;
            if body.is_empty() {
                body.reserve(length.min(bytes.len().saturating_mul(parts.count as usize)));
            }
            body.extend_from_slice(bytes);
        }
        Ok(body.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use larder_transport::body::{FileOwner, FileSlice};
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Arc;

    #[test]
    fn a_compressed_body_is_decompressed_to_its_declared_length() {
        let body = b"larder ".repeat(1000);
        let packed = zstd::bulk::compress(&body, LEVEL).unwrap();
        assert_eq!(Some(body.clone()), unpack(&packed, body.len() as u64));
        assert_eq!(None, unpack(&packed, body.len() as u64 - 1), "longer than it says");
        assert_eq!(None, unpack(&packed, body.len() as u64 + 1), "shorter than it says");
        assert_eq!(None, unpack(&body, body.len() as u64), "not packed at all");
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], LEVEL).unwrap();
        assert!(bomb.len() < 16 << 10, "{}", bomb.len());
        assert_eq!(None, unpack(&bomb, 64 << 20));
        // One that says it is small ends where it should have ended.
        assert_eq!(None, unpack(&bomb, 4096));
    }

    struct Plain(std::fs::File);

    impl FileOwner for Plain {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }
    }

    /// On the heap of the thread that read it, its memory stayed with that thread.
    #[test]
    fn a_body_in_a_file_is_read_into_the_arena_and_is_in_the_books_while_it_is_held() {
        let store = sample::store(16 << 20);
        let bytes: Vec<u8> = (0..300_000_u32).map(|it| (it % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let slice = FileSlice { owner: Arc::new(Plain(file)), offset: 1000, length: 200_000 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let free = store.used();
        let held = runtime.block_on(HeldBody::of(&slice, &store)).unwrap();
        assert!(matches!(held, HeldBody::Mapped(_)) && held.bytes() == &bytes[1000..201_000]);
        assert!(store.memory().arena >= 200_000 && store.used() >= free + 200_000);
        let part = held.slice(50_000..70_000);
        drop(held);
        assert!(part.bytes() == &bytes[51_000..71_000] && store.memory().arena >= 200_000);
        drop(part);
        assert_eq!((0, free), (store.memory().arena, store.used()));
        // A response that RAM has no room for is not read at all.
        let large = FileSlice { length: 5 << 20, ..slice };
        assert!(runtime.block_on(HeldBody::of(&large, &store)).is_none());
    }

    #[test]
    fn parts_are_the_body() {
        let body: Vec<u8> = (0..1000_u32).map(|it| it as u8).collect();
        let parts = BodySplit::of(7, 1000, 300).unwrap();
        let mut whole = Vec::new();
        for index in 0..parts.count {
            let (head, bytes) = part(&HeldBody::Bytes(body.clone().into()), &parts, index);
            let value = [&head, bytes.bytes()].concat();
            whole.extend_from_slice(PartHead::open(&value, &parts, 1000, index).unwrap());
        }
        assert_eq!((4, body), (parts.count, whole));
    }
}
