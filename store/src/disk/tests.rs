//! Tests of the disk tier, and the layer that makes calls to the file system fail.

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

use super::syscalls::{Syscall, Syscalls};
use super::{DiskSettings, DiskTier};
use crate::entry::{Stored, StoredArc, StoredBody};
use crate::purges::{Born, Marks, Positions};
use crate::sample;
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::vary;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;

/// Which calls fail, and how.
#[derive(Default)]
pub(crate) struct Faults {
    plan: Mutex<Plan>,
    /// How many more writes may begin; the next one waits. `None` where all may.
    writes: Mutex<Option<u64>>,
    let_in: Condvar,
    room: Mutex<Room>,
    /// `Some`: nothing is in the page cache; and whether reads hang.
    cold: Mutex<Option<bool>>,
    read_on: Condvar,
    /// Writes say that they are done, and nothing is written.
    loses: AtomicBool,
}

/// For how many segments the device has room, which are all that is unlinked.
#[derive(Default)]
struct Room {
    most: Option<usize>,
    held: usize,
}

#[derive(Default)]
struct Plan {
    /// Calls since the plan was made.
    calls: u64,
    fail: Option<Fail>,
}

/// Calls that fail.
#[derive(Clone, Copy)]
pub(crate) struct Fail {
    /// The first, counted from one.
    pub first: u64,
    /// How many in a row.
    pub count: u64,
    /// Its error.
    pub errno: Errno,
}

impl Faults {
    pub fn ask(&self, call: Syscall) -> Result<(), Errno> {
        if call == Syscall::Write {
            let mut writes = self.writes.lock();
            while *writes == Some(0) {
                self.let_in.wait(&mut writes);
            }
            *writes = writes.map(|it| it - 1);
        }
        if matches!(call, Syscall::Read | Syscall::ReadNow | Syscall::Resident) {
            let mut cold = self.cold.lock();
            if cold.is_some() && call != Syscall::Read {
                return Err(Errno::AGAIN);
            }
            while *cold == Some(true) {
                self.read_on.wait(&mut cold);
            }
        }
        self.has_room(call)?;
        let mut plan = self.plan.lock();
        plan.calls += 1;
        match plan.fail {
            Some(it) if plan.calls >= it.first && plan.calls - it.first < it.count => Err(it.errno),
            _ => Ok(()),
        }
    }

    /// From now on writes are lost, or are not any more.
    pub fn lose_writes(&self, loses: bool) {
        self.loses.store(loses, Relaxed);
    }

    pub fn loses_writes(&self) -> bool {
        self.loses.load(Relaxed)
    }

    fn has_room(&self, call: Syscall) -> Result<(), Errno> {
        let mut room = self.room.lock();
        match call {
            // One for which there is no room is unlinked, too.
            Syscall::Allocate => room.held += 1,
            Syscall::Unlink => room.held = room.held.saturating_sub(1),
            _ => return Ok(()),
        }
        match room.most {
            Some(most) if call == Syscall::Allocate && room.held > most => Err(Errno::NOSPC),
            _ => Ok(()),
        }
    }

    /// From now on nothing is in the page cache, and reads hang or do not any more.
    pub fn reads_hang(&self, hang: bool) {
        *self.cold.lock() = Some(hang);
        self.read_on.notify_all();
    }

    /// The device has room for this number of segments; with `None` for any.
    pub fn has_room_for(&self, segments: Option<usize>) {
        self.room.lock().most = segments;
    }

    /// Fails as told from now on.
    pub fn plan(&self, fail: Option<Fail>) {
        *self.plan.lock() = Plan { fail, ..Plan::default() };
    }

    /// Calls since the plan was made.
    pub fn calls(&self) -> u64 {
        self.plan.lock().calls
    }

    /// The device accepts this number of further writes and then hangs; with `None` it is healthy.
    pub fn let_in(&self, writes: Option<u64>) {
        *self.writes.lock() = writes;
        self.let_in.notify_all();
    }
}

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
