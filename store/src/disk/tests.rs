//! Tests of the disk tier.

mod damage;
mod directories;
mod evicted;
mod faults;
mod handing_over;
mod index;
mod journal;
mod keeping;
mod large;
mod listing;
mod restart;
mod slow;
mod space;

use super::{DiskSettings, DiskTier};
use crate::device::syscalls::Syscalls;
use crate::device::tests::Fail;
use crate::entry::{Stored, StoredArc, StoredBody};
use crate::purges::{Positions, PurgeEpoch, PurgeFacts};
use crate::sample;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::vary;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A directory with a disk tier in it.
struct Tier {
    directory: TempDir,
    settings: DiskSettings,
    counters: Arc<Counters>,
    calls: Syscalls,
    runtime: tokio::runtime::Runtime,
    disk: Option<Arc<DiskTier>>,
}

const HEAP_LINE: usize = 1024;

impl Tier {
    /// An empty one of 4 MiB in segments of 64 KiB.
    fn new() -> Tier {
        Self::sized(4 << 20, 64 << 10)
    }

    fn sized(size: u64, segment_size: u64) -> Tier {
        Self::within(tempfile::tempdir().unwrap(), size, segment_size)
    }

    fn within(directory: TempDir, size: u64, segment_size: u64) -> Tier {
        let settings = DiskSettings {
            path: directory.path().join("tier"),
            size,
            segment_size,
            min_ttl: 0,
            heap_line: HEAP_LINE,
            promote_after: 1,
            readers: 2,
            queue: 64 << 20,
            retry: Duration::ZERO,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (counters, calls) = (Arc::default(), Syscalls::default());
        let mut tier = Tier { directory, settings, counters, calls, runtime, disk: None };
        tier.open().unwrap();
        tier
    }

    fn open(&mut self) -> io::Result<()> {
        self.counters = Arc::default();
        self.disk =
            Some(DiskTier::open_with(self.settings.clone(), self.counters.clone(), self.calls.clone())?);
        Ok(())
    }

    /// Everything that is queued is written, and another process opens the directory.
    fn restart(&mut self) {
        self.close();
        self.open().unwrap();
    }

    fn close(&mut self) {
        let _ = self.disk().flush().wait();
        self.disk = None;
    }

    fn disk(&self) -> &DiskTier {
        self.disk.as_ref().unwrap()
    }

    fn path(&self) -> &Path {
        &self.settings.path
    }

    /// Writes, and waits until it is written.
    fn put(&self, key: &str, stored: StoredArc) {
        self.disk().write(key.as_bytes(), &stored);
        let _ = self.disk().flush().wait();
    }

    fn text(&self, key: &str, body: &str) {
        self.put(key, sample::plain(sample::text(body)));
    }

    fn read(&self, key: &str, request: &[Field<'_>]) -> Option<Stored> {
        self.runtime.block_on(self.disk().read(key.as_bytes(), request))
    }

    /// Calls work again, and the tier finds that out.
    #[track_caller]
    fn heal(&self) {
        self.calls.faults.plan(None);
        for _ in 0..10_000 {
            larder_stdx::clock::tick();
            self.disk().look();
            let _ = self.disk().flush().wait();
            if self.disk().state() == super::DiskState::On {
                return;
            }
        }
        panic!("it stays off: {:?}", self.disk().state());
    }

    /// The body's bytes.
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.read(key, &[]).map(|it| contents(&it.body))
    }

    /// The names of all segments, oldest first.
    fn segments(&self) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(self.path()).unwrap().map(|it| it.unwrap().path());
        let mut found: Vec<_> =
            entries.filter(|it| it.extension().is_some_and(|it| it == "segment")).collect();
        found.sort();
        found
    }
}

/// The bytes of a body, as a client would get them.
fn contents(body: &StoredBody) -> Vec<u8> {
    match body {
        StoredBody::Heap(bytes) => bytes.to_vec(),
        StoredBody::Arena(it) | StoredBody::Disk(it) => {
            let mut bytes = vec![0; usize::try_from(it.length).unwrap()];
            let read = Syscalls::default().read(it.owner.fd(), &mut bytes, it.offset).unwrap();
            bytes.truncate(read);
            bytes
        }
    }
}

/// Bytes that depend on `seed`, and nothing else.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(next).collect()
}

fn blob(seed: u64, length: usize) -> StoredArc {
    sample::plain(StoredBody::Heap(Bytes::from(noise(seed, length)).into()))
}
