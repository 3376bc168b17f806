//! The one writing thread: takes from the queue, appends to the log, adds to the index. A failing call turns the tier
//! off; removals and purges are remembered until it is on again. `log` orders the bytes.

use super::directory::{Directory, DirectoryRefusal};
use super::index::{IndexPut, KnownRecord, WaitingNames};
use super::journal::Journal;
use super::log::{BodySource, NotWritten, SegmentLog};
use super::parts::{self, PartChecksums};
use super::queue::{Op, WriteQueue};
use super::variant_name;
use super::{DirectoryContents, DiskShared, DiskState};
use crate::device::syscalls::{FailedCall, Syscall};
use crate::entry::{Stored, StoredBody};
use crate::purges::{PurgeRule, PurgeScope, Strength};
use crate::stored_envelope;
use larder_counters::Counters;
use larder_stdx::clock;
use larder_wire::envelope;
use larder_wire::segment::{MAX_HEAD, RecordHeader, RecordKind, sum};
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The most removals that are remembered while nothing can be written; beyond, everything is dropped.
const MOST_PENDING: usize = 1 << 16;

/// Whether the tier is on, as visible to all threads.
pub(crate) struct Status {
    state: parking_lot::Mutex<DiskState>,
    /// Monotonic milliseconds of the next retry; zero while the tier is on.
    again_at: AtomicU64,
}

impl Status {
    pub fn new() -> Status {
        Status { state: parking_lot::Mutex::new(DiskState::On), again_at: AtomicU64::new(0) }
    }

    pub fn get(&self) -> DiskState {
        self.state.lock().clone()
    }

    pub fn is_on(&self) -> bool {
        self.again_at.load(Relaxed) == 0
    }

    /// Whether a retry is due; returns true once.
    pub fn is_due(&self, now: u64) -> bool {
        let at = self.again_at.load(Relaxed);
        at != 0 && at <= now && self.again_at.compare_exchange(at, u64::MAX, Relaxed, Relaxed).is_ok()
    }

    /// Whether another process has the directory.
    pub fn is_handed_over(&self) -> bool {
        *self.state.lock() == DiskState::HandedOver
    }

    /// Counts a response that is not written since the tier is not on. The process that has the directory now writes its own.
    pub fn count_skipped(&self, counters: &Counters) {
        let counter = if self.is_handed_over() { &counters.disk_skipped } else { &counters.disk_off_skipped };
        counter.add_shared(1);
    }

    fn hand_over(&self) {
        *self.state.lock() = DiskState::HandedOver;
        self.again_at.store(u64::MAX, Relaxed);
    }

    fn set_off(&self, why: &str, again_at: u64) {
        *self.state.lock() = DiskState::Off(why.into());
        self.again_at.store(again_at.max(1), Relaxed);
    }

    fn set_on(&self) {
        *self.state.lock() = DiskState::On;
        self.again_at.store(0, Relaxed);
    }
}

/// The state of the writer's thread.
pub(crate) struct SegmentWriter {
    pub base: Arc<DiskShared>,
    pub queue: Arc<WriteQueue>,
    pub status: Arc<Status>,
    pub path: PathBuf,
    pub retry: Duration,
    /// `None` where the directory could not be opened: it is created when possible.
    pub log: Option<SegmentLog>,
    pub journal: Journal,
    /// Removals that are not in the log.
    pub pending: Vec<(u64, u32, u64)>,
    /// The content of the disk must not be found again.
    pub must_reset: bool,
    /// Purges that came while another process had the directory, and did not reach it.
    pub pending_rules: Vec<PurgeRule>,
}

impl SegmentWriter {
    /// Works until the queue is stopped and empty; the directory is free when this returns.
    pub fn run(mut self) {
        let mut scratch = Vec::new();
        while let Some(op) = self.queue.next() {
            match op {
                Op::Write { hash, stamp, key, stored, cost, leaving } => {
                    self.store(hash, stamp, &key, &stored, &mut scratch);
                    drop((stored, leaving));
                    self.queue.done(hash, cost, stamp);
                }
                Op::Remove { hash, variant, stamp, done } => {
                    self.remove(hash, variant, stamp);
                    let _ = done.send(Ok(()));
                }
                Op::Flush(done) => {
                    let _ = done.send(self.is_on());
                }
                Op::Rule { seq, rule, done } => {
                    let _ = done.send(self.log_rule(seq, *rule));
                }
                Op::Retry => self.retry(),
                Op::HandOver(done) => {
                    let _ = done.send(self.hand_over());
                }
                Op::TakeBack(done) => {
                    self.take_back();
                    let _ = done.send(self.journal.last());
                }
                Op::Reset => self.reset(),
            }
        }
    }

    /// Prepares the recovered content before the thread starts.
    pub fn finish_recovery(&mut self) {
        let Some(log) = &mut self.log else { return };
        let begun = if self.journal.is_written() {
            Ok(())
        } else {
            let oldest = log.oldest_epoch();
            self.journal.rewrite(&log.directory.file, oldest)
        };
        self.journal.begin();
        match begun {
            Ok(()) => self.note_purge(),
            Err(failed) => self.fail(failed),
        }
    }

    fn is_on(&self) -> io::Result<()> {
        match self.status.get() {
            DiskState::On => Ok(()),
            DiskState::HandedOver => Err(io::Error::other("another process has the disk tier")),
            DiskState::Off(why) => Err(io::Error::other(why.to_string())),
        }
    }

    fn store(&mut self, hash: u64, stamp: u64, key: &[u8], stored: &Stored, scratch: &mut Vec<u8>) {
        let counters = self.base.counters.clone();
        if !self.status.is_on() {
            self.status.count_skipped(&counters);
            return self.remove_older(hash, stamp, stored);
        }
        let variant = variant_name::of(hash, stored.meta.vary(), stored.variant()).variant;
        if self.base.index.is_late(hash, variant, stamp) || self.journal.may_have_dropped(stored.epoch) {
            counters.disk_skipped.add_shared(1);
            return self.remove_older(hash, stamp, stored);
        }
        if stored.epoch > self.journal.last() && self.log_number(stored.epoch).is_err() {
            self.status.count_skipped(&counters);
            return self.remove_older(hash, stamp, stored);
        }
        let result = self.append(hash, stamp, key, stored, scratch);
        let is_written = result.is_ok();
        match result {
            Ok(IndexPut::Inserted) => counters.disk_writes.add_shared(1),
            Ok(IndexPut::Superseded) => counters.disk_skipped.add_shared(1),
            Err(NotWritten::TooLarge) => counters.disk_too_large.add_shared(1),
            Err(NotWritten::NoRoom) => counters.disk_no_room.add_shared(1),
            Err(NotWritten::Corrupt) => counters.disk_corrupt.add_shared(1),
            Err(NotWritten::Failed(failed)) => self.fail(failed),
        }
        if !is_written {
            self.remove_older(hash, stamp, stored);
        }
    }

    /// A replacement was not written: the older record is removed nevertheless.
    fn remove_older(&mut self, hash: u64, stamp: u64, stored: &Stored) {
        let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
        let variant = name.displaces();
        if self.base.index.remove_variant(hash, variant, stamp, WaitingNames::Nothing) > 0 {
            self.remove(hash, variant, stamp);
        }
    }

    fn append(
        &mut self,
        hash: u64,
        stamp: u64,
        key: &[u8],
        stored: &Stored,
        scratch: &mut Vec<u8>,
    ) -> Result<IndexPut, NotWritten> {
        let Some(log) = &mut self.log else { return Err(NotWritten::NoRoom) };
        scratch.clear();
        stored_envelope::write(key, stored, scratch);
        if scratch.len() > envelope::MAX_HEAD {
            return Err(NotWritten::TooLarge);
        }
        let seed = self.base.seed;
        let (body, parts) = match &stored.body {
            StoredBody::Heap(bytes) => (BodySource::Bytes(bytes), PartChecksums::of(seed, bytes)),
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => {
                match slice.owner.mapped(slice.offset, slice.length) {
                    Some(bytes) => (BodySource::Bytes(bytes), PartChecksums::of(seed, bytes)),
                    None => (BodySource::Slice(slice), parts::of_slice(seed, slice)?),
                }
            }
        };
        parts.write(scratch);
        let length = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
        if length > MAX_HEAD {
            return Err(NotWritten::TooLarge);
        }
        let name = variant_name::of(hash, stored.meta.vary(), stored.variant());
        let header = RecordHeader {
            kind: RecordKind::Response,
            hash,
            stamp,
            epoch: stored.epoch,
            variant: name.variant,
            names: name.names,
            head: length,
            body: stored.body.len(),
            head_sum: sum(seed, scratch),
            body_sum: parts.in_header(),
        };
        let location = log.append(&header, scratch, body)?;
        let known = KnownRecord { location, stamp, variant: name.variant, names: name.names, flags: 0 };
        Ok(self.base.index.put(hash, &known))
    }

    fn remove(&mut self, hash: u64, variant: u32, stamp: u64) {
        if self.status.is_on() {
            match self.append_removal(hash, variant, stamp) {
                Ok(()) => return self.base.counters.disk_removals.add_shared(1),
                Err(NotWritten::Failed(failed)) => self.fail(failed),
                // Readers hold the room; the removal does not depend on them.
                Err(_) => {}
            }
        }
        self.note_unlogged_removal(hash, variant, stamp);
    }

    fn append_removal(&mut self, hash: u64, variant: u32, stamp: u64) -> Result<(), NotWritten> {
        let Some(log) = &mut self.log else { return Err(NotWritten::NoRoom) };
        let header = RecordHeader { hash, stamp, variant, ..RecordHeader::purge_note(0) };
        log.append(&header, &[], BodySource::Bytes(&[])).map(drop)
    }

    /// A removal that is not in the log: should this process end before it is, the next one must not trust the directory.
    fn note_unlogged_removal(&mut self, hash: u64, variant: u32, stamp: u64) {
        if self.pending.len() < MOST_PENDING {
            self.pending.push((hash, variant, stamp));
        } else {
            self.must_reset = true;
        }
        if let Some(log) = self.log.as_ref().filter(|_| self.journal.is_written()) {
            self.journal.delete_file(&log.directory.file);
        }
        if self.status.is_on() {
            self.turn_off("all space of the disk tier is held by readers of dropped segments");
        }
    }

    /// Records a number that no purge of this disk has: the one with which a process starts, or from which it validates everything older.
    /// Otherwise a response requested with it would make the next process assume a lost purge.
    fn log_number(&mut self, seq: u64) -> io::Result<()> {
        // No key is empty.
        let scope = PurgeScope::Url(Box::default());
        self.log_rule(seq, PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() })
    }

    fn log_rule(&mut self, seq: u64, rule: PurgeRule) -> io::Result<()> {
        let oldest = self.log.as_ref().map_or(0, SegmentLog::oldest_epoch);
        let Some(log) = &mut self.log else {
            if self.status.is_handed_over() {
                self.pending_rules.push(rule);
            }
            // The disk has nothing that could be purged, and will get nothing that was requested before.
            return Err(io::Error::other("the disk tier has no directory to write to"));
        };
        match self.journal.add(&log.directory.file, seq, rule, oldest) {
            Ok(()) => {
                self.base.counters.disk_removals.add_shared(1);
                self.note_purge();
                Ok(())
            }
            Err(failed) => {
                self.journal.delete_file(&log.directory.file);
                self.fail(failed);
                Err(failed.into())
            }
        }
    }

    /// Notes the journal's last purge in the log, so that a journal that loses it is noticed. If the log accepts nothing
    /// now, the next segment begins with it.
    fn note_purge(&mut self) {
        let Some(log) = &mut self.log else { return };
        let last = self.journal.last();
        if last <= std::mem::replace(&mut log.purged, last) || !self.status.is_on() {
            return;
        }
        if let Err(NotWritten::Failed(failed)) = log.note_purge() {
            self.fail(failed);
        }
    }

    /// A call failed: nothing is written until a retry succeeds.
    pub fn fail(&mut self, failed: FailedCall) {
        self.base.counters.disk_failures.add_shared(1);
        if let Some(log) = &mut self.log {
            log.leave_unsealed();
        }
        self.turn_off(&failed.to_string());
    }

    fn turn_off(&mut self, why: &str) {
        clock::tick();
        let retry = u64::try_from(self.retry.as_millis()).unwrap_or(u64::MAX);
        self.status.set_off(why, clock::monotonic().0.saturating_add(retry));
        self.base.counters.disk_off.set_shared(1);
    }

    fn reset(&mut self) {
        self.must_reset = true;
        self.pending.clear();
        if self.status.is_on() {
            self.turn_off("too many removals were queued");
        }
        self.retry();
    }

    /// Retries.
    fn retry(&mut self) {
        if self.status.is_handed_over() {
            return;
        }
        match self.repair() {
            Ok(()) => {
                self.base.counters.disk_off.set_shared(0);
                self.status.set_on();
            }
            Err(DirectoryRefusal::Failed(failed)) => self.fail(failed),
            Err(DirectoryRefusal::Misconfigured(why)) => {
                self.base.counters.disk_failures.add_shared(1);
                self.turn_off(&why.to_string());
            }
        }
    }

    fn repair(&mut self) -> Result<(), DirectoryRefusal> {
        let calls = self.base.calls.clone();
        let in_place = self.log.as_ref().map(|it| it.directory.is_in_place(&calls)).transpose()?;
        if in_place != Some(true) {
            self.reopen()?;
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        if std::mem::take(&mut self.must_reset) {
            log.drop_all().inspect_err(|_| self.must_reset = true)?;
        }
        let begun = if log.active.is_none() { log.begin() } else { Ok(()) };
        begun.map_err(not_written)?;
        while let Some((hash, variant, stamp)) = self.pending.last().copied() {
            self.append_removal(hash, variant, stamp).map_err(not_written)?;
            self.pending.pop();
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        if !self.journal.is_written() {
            self.journal.rewrite(&log.directory.file, log.oldest_epoch())?;
        }
        // Purges that arrived meanwhile may not have been noted.
        log.purged = self.journal.last();
        if log.purged > 0 {
            log.note_purge().map_err(not_written)?;
        }
        Ok(())
    }

    /// Opens the directory, or a new one in its place, and starts with nothing.
    fn reopen(&mut self) -> Result<(), DirectoryRefusal> {
        self.base.index.clear();
        self.base.segments.write().clear();
        self.pending.clear();
        let next = self.log.take().map_or(1, |it| it.next);
        let directory = Directory::open(&self.base.calls, &self.path, Some(self.base.seed))?;
        let ids: Vec<u32> =
            directory.names.iter().filter_map(|it| super::segment::Segment::number(it)).collect();
        for id in &ids {
            self.base.calls.unlink(&directory.file, &super::segment::Segment::name(*id))?;
        }
        let next = ids.into_iter().max().map_or(next, |it| next.max(it.saturating_add(1)));
        self.journal.delete_file(&directory.file);
        let purged = self.journal.last();
        self.log =
            Some(SegmentLog { base: self.base.clone(), directory, active: None, next, needed: 0, purged });
        Ok(())
    }
}

/// The directory in another process: an upgrade.
impl SegmentWriter {
    /// Frees the directory: everything is in it, the active segment is sealed, so that the other process writes to no segment
    /// that is being read here, and the lock is released. Bodies that are being sent stay readable.
    fn hand_over(&mut self) -> io::Result<()> {
        let sealed = match &mut self.log {
            Some(log) => log.active.take().map_or(Ok(()), |it| log.seal(&it)),
            None => Ok(()),
        };
        self.status.hand_over();
        self.base.index.clear();
        self.base.segments.write().clear();
        self.journal.close();
        self.log = None;
        sealed.map_err(io::Error::from)
    }

    /// Opens the directory again with all its content. If that fails, it is retried as after any failure, and its content is
    /// dropped then.
    fn take_back(&mut self) {
        if !self.status.is_handed_over() {
            return;
        }
        self.status.set_on();
        match self.rescan() {
            Ok(found) => {
                self.queue.continue_after(found.stamp);
                (self.log, self.journal) = (found.log, found.journal);
                self.finish_recovery();
                for rule in std::mem::take(&mut self.pending_rules) {
                    // A number that the other process has not given.
                    let _ = self.log_rule(self.journal.last() + 1, rule);
                }
                // Removals that came meanwhile.
                for (hash, variant, stamp) in std::mem::take(&mut self.pending) {
                    self.base.index.remove_variant(hash, variant, stamp, WaitingNames::Nothing);
                    self.remove(hash, variant, stamp);
                }
                if self.must_reset {
                    self.reset();
                }
            }
            Err(DirectoryRefusal::Failed(failed)) => self.fail(failed),
            Err(DirectoryRefusal::Misconfigured(why)) => self.turn_off(&why.to_string()),
        }
    }

    fn rescan(&self) -> Result<DirectoryContents, DirectoryRefusal> {
        let directory = Directory::open(&self.base.calls, &self.path, Some(self.base.seed))?;
        Ok(DirectoryContents::of(&self.base, directory)?)
    }
}

fn not_written(it: NotWritten) -> DirectoryRefusal {
    DirectoryRefusal::Failed(match it {
        NotWritten::Failed(failed) => failed,
        _ => FailedCall { call: Syscall::Allocate, errno: Errno::NOSPC },
    })
}
