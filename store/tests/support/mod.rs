//! Common parts of the external tests of the disk tier.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod fills;

use bytes::Bytes;
use larder_store::disk::DiskSettings;
use larder_store::{StoredArc, StoredBody, sample};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Numbers that look random and are the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// A tier of `size` bytes in segments of 64 KiB, with bodies above 1 KiB left on the disk.
pub fn settings(path: &Path, size: u64) -> DiskSettings {
    DiskSettings {
        path: path.into(),
        size,
        segment_size: 64 << 10,
        min_ttl: 0,
        heap_line: 1024,
        promote_after: 1,
        readers: 2,
        queue: 1 << 20,
        retry: Duration::ZERO,
    }
}

/// A response with this body.
pub fn stored(body: Vec<u8>) -> StoredArc {
    sample::plain(StoredBody::Heap(Bytes::from(body).into()))
}

/// The bytes of a body, as a client would get them; `None` where the file is shorter than was promised, which cuts the
/// client's connection.
pub fn contents(body: &StoredBody) -> Option<Vec<u8>> {
    match body {
        StoredBody::Heap(bytes) => Some(bytes.to_vec()),
        StoredBody::Arena(it) | StoredBody::Disk(it) => {
            let mut bytes = vec![0; usize::try_from(it.length).unwrap()];
            let file = std::fs::File::from(it.owner.fd().try_clone_to_owned().unwrap());
            file.read_exact_at(&mut bytes, it.offset).ok()?;
            Some(bytes)
        }
    }
}

/// The only bytes that this version of a key has; its length depends on both.
pub fn body(key: u64, version: u64) -> Vec<u8> {
    let mut random = Random(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version | 1);
    let length = [50, 700, 3000, 20_000][usize::try_from(random.below(4)).unwrap()] + random.below(999);
    let mut bytes = [key.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.extend((0..length).map(|at| (random.0.rotate_left(u32::try_from(at % 64).unwrap()) ^ at) as u8));
    bytes
}

/// The version that a body says it is of; panics where it is not that version of that key.
pub fn version(key: u64, bytes: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(key, number(0), "the bytes of another key");
    assert!(bytes == body(key, number(8)), "key {key} has bytes that no version has");
    number(8)
}

/// A worker's runtime.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Lets a tier try again until it is on: within a millisecond, which is what its clock counts.
#[track_caller]
pub fn heal(disk: &larder_store::DiskTier) {
    for _ in 0..100_000 {
        larder_stdx::clock::tick();
        disk.look();
        let _ = disk.flush().wait();
        if disk.state() == larder_store::disk::DiskState::On {
            return;
        }
    }
    panic!("it stays off: {:?}", disk.state());
}
