//! The write queue: ordered and bounded in bytes; removals and purges go ahead. `writer` takes from it.

use super::index::WaitingNames;
use crate::entry::{DiskOfferResult, Stored, StoredArc, StoredBody};
use crate::memory_budget::LeavingBytes;
use crate::purges::{PurgeRule, Seq};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::oneshot;

/// The most waiting removals; beyond, the tier is emptied instead of losing one.
pub(crate) const MOST_REMOVALS: usize = 1 << 18;

/// The capacity that an empty queue keeps.
const KEEP: usize = 256;

/// Notified when the item is written.
pub(crate) type WriteNotifier = oneshot::Sender<io::Result<()>>;

/// One task of the writer.
pub(crate) enum Op {
    /// A response.
    Write {
        hash: u64,
        stamp: u64,
        key: Box<[u8]>,
        stored: StoredArc,
        cost: u64,
        leaving: Option<LeavingBytes>,
    },
    /// Everything older under a hash: of one variant, or of all where that is zero.
    Remove { hash: u64, variant: u32, stamp: u64, done: WriteNotifier },
    /// Reports when all tasks before it are done.
    Flush(WriteNotifier),
    /// A purge.
    Rule { seq: Seq, rule: Box<PurgeRule>, done: WriteNotifier },
    /// Tries again after a failure.
    Retry,
    /// Frees the directory for another process, after all tasks before it.
    HandOver(WriteNotifier),
    /// Opens the directory again: the other process has ended. Receives the last number of its purges.
    TakeBack(oneshot::Sender<Seq>),
    /// More removals arrived than can be kept: nothing on the disk is valid any more.
    Reset,
}

/// The result of queuing an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Queued,
    Full,
    /// Its key was removed meanwhile.
    TooLate,
}

struct QueueInner {
    ahead: VecDeque<Op>,
    ops: VecDeque<Op>,
    bytes: u64,
    /// The waiting responses by hash, including the one being written.
    waiting: HashMap<u64, WaitingWrites>,
    removals: usize,
    stamp: u64,
    stopped: bool,
    finished: bool,
}

/// The writes that wait under a hash.
struct WaitingWrites {
    count: u32,
    /// The [`VariantName::names`] of all of them, while these are the same.
    names: Option<u16>,
}

/// Reports the end of the writer for any cause.
pub(crate) struct FinishGuard(pub Arc<WriteQueue>);

impl Drop for FinishGuard {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The queue of one directory.
pub(crate) struct WriteQueue {
    inner: Mutex<QueueInner>,
    wake: Condvar,
    ended: Condvar,
    most: AtomicU64,
    /// The stamp of the last response that was taken from the queue and finished.
    written: AtomicU64,
}

impl WriteQueue {
    /// `stamp` is the last that a record got.
    pub fn new(most: u64, stamp: u64) -> WriteQueue {
        let inner = QueueInner {
            ahead: VecDeque::new(),
            ops: VecDeque::new(),
            bytes: 0,
            waiting: HashMap::new(),
            removals: 0,
            stamp,
            stopped: false,
            finished: false,
        };
        WriteQueue {
            inner: Mutex::new(inner),
            wake: Condvar::new(),
            ended: Condvar::new(),
            most: AtomicU64::new(most),
            written: AtomicU64::new(stamp),
        }
    }

    /// Sets the most bytes that wait from now on.
    pub fn bound(&self, most: u64) {
        self.most.fetch_min(most, Relaxed);
    }

    /// Queues a response with these `Vary` names, unless `too_late` returns true while no removal can occur. An empty queue
    /// accepts one of any size. `leaving` is its part of the budget where RAM has dropped it.
    pub fn write(
        &self,
        hash: u64,
        names: u16,
        key: &[u8],
        stored: &StoredArc,
        leaving: Option<LeavingBytes>,
        too_late: impl FnOnce() -> bool,
    ) -> Push {
        let body = if matches!(stored.body, StoredBody::Disk(_)) { 0 } else { stored.body.len() };
        let cost = stored.heap_cost() + body + key.len() as u64 + size_of::<Op>() as u64;
        let key: Box<[u8]> = key.into();
        let mut inner = self.inner.lock();
        // A removal that `too_late` does not know of yet gets a later stamp than this.
        if too_late() {
            return Push::TooLate;
        }
        inner.stamp += 1;
        let stamp = inner.stamp;
        if inner.bytes > 0 && inner.bytes + cost > self.most.load(Relaxed) {
            drop(inner);
            stored.on_disk.set(DiskOfferResult::Missed(stamp));
            return Push::Full;
        }
        stored.on_disk.set(DiskOfferResult::Queued(stamp));
        inner.bytes += cost;
        let waiting = inner.waiting.entry(hash).or_insert(WaitingWrites { count: 0, names: Some(names) });
        waiting.count += 1;
        waiting.names = waiting.names.filter(|it| *it == names);
        inner.ops.push_back(Op::Write { hash, stamp, key, stored: stored.clone(), cost, leaving });
        drop(inner);
        self.wake.notify_one();
        Push::Queued
    }

    /// Later stamps are above `stamp`, which another process may have given.
    pub fn continue_after(&self, stamp: u64) {
        let mut inner = self.inner.lock();
        inner.stamp = inner.stamp.max(stamp);
    }

    /// Queues a removal ahead of the writes, of one variant for a response with these `Vary` names, or of all where
    /// `variant` is zero. `forget` gets its stamp before any later one is given, and the kind of the waiting writes: it
    /// has older ones dropped.
    pub fn remove(
        &self,
        hash: u64,
        variant: u32,
        names: u16,
        done: WriteNotifier,
        forget: impl FnOnce(u64, WaitingNames),
    ) {
        let mut inner = self.inner.lock();
        inner.stamp += 1;
        let stamp = inner.stamp;
        forget(
            stamp,
            match inner.waiting.get(&hash) {
                None => WaitingNames::Nothing,
                Some(it) if it.names == Some(names) => WaitingNames::SameNames,
                Some(_) => WaitingNames::OtherNames,
            },
        );
        if inner.removals < MOST_REMOVALS {
            inner.removals += 1;
            inner.ahead.push_back(Op::Remove { hash, variant, stamp, done });
        } else if !inner.ahead.iter().any(|it| matches!(it, Op::Reset)) {
            inner.ahead.push_back(Op::Reset);
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Queues a task that takes no room, before or after the others.
    pub fn push(&self, op: Op) {
        let mut inner = self.inner.lock();
        match op {
            Op::Flush(_) | Op::HandOver(_) => inner.ops.push_back(op),
            _ => inner.ahead.push_back(op),
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// The next task; waits for it. `None` when the queue is stopped and empty.
    pub fn next(&self) -> Option<Op> {
        let mut inner = self.inner.lock();
        loop {
            let next = inner.ahead.pop_front();
            if let Some(op) = next.or_else(|| inner.ops.pop_front()) {
                if matches!(op, Op::Remove { .. }) {
                    inner.removals -= 1;
                }
                // A burst leaves no capacity behind.
                if inner.ops.is_empty() && inner.ops.capacity() > KEEP {
                    inner.ops.shrink_to(KEEP);
                }
                return Some(op);
            }
            if inner.stopped {
                return None;
            }
            self.wake.wait(&mut inner);
        }
    }

    /// A response of this cost was written, or will not be.
    pub fn done(&self, hash: u64, cost: u64, stamp: u64) {
        self.written.store(stamp, Relaxed);
        let mut inner = self.inner.lock();
        inner.bytes -= cost;
        if let Some(waiting) = inner.waiting.get_mut(&hash) {
            waiting.count -= 1;
            if waiting.count == 0 {
                inner.waiting.remove(&hash);
            }
        }
    }

    /// Whether a write under a hash waits or is in progress.
    pub fn is_pending(&self, hash: u64) -> bool {
        self.inner.lock().waiting.contains_key(&hash)
    }

    /// Whether a response queued under this stamp waits or is being written.
    pub fn contains(&self, stamp: u64) -> bool {
        stamp > self.written.load(Relaxed)
    }

    /// Records a response that is not queued because nothing can be written.
    pub fn count_miss(&self, stored: &Stored) {
        let mut inner = self.inner.lock();
        inner.stamp += 1;
        stored.on_disk.set(DiskOfferResult::Missed(inner.stamp));
    }

    /// Waiting bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().bytes
    }

    /// Heap bytes of waiting responses that only the queue holds; those still in RAM are counted there.
    pub fn heap_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        let held = |op: &Op| match op {
            Op::Write { key, stored, .. } if StoredArc::strong_count(stored) == 1 => {
                stored.heap_cost() + key.len() as u64
            }
            _ => 0,
        };
        let tables = inner.ops.capacity() * size_of::<Op>()
            + inner.waiting.capacity() * size_of::<(u64, WaitingWrites, u8)>();
        inner.ops.iter().map(held).sum::<u64>() + tables as u64
    }

    /// Closes the queue and waits for the writer, at most `timeout`.
    pub fn stop(&self, timeout: Duration) {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        self.wake.notify_one();
        while !inner.finished {
            if self.ended.wait_for(&mut inner, timeout).timed_out() {
                return;
            }
        }
    }

    /// The writer is gone.
    fn finish(&self) {
        let mut inner = self.inner.lock();
        inner.finished = true;
        // Waiting callers learn that it was not written.
        (inner.ahead, inner.ops) = Default::default();
        self.ended.notify_all();
    }
}
