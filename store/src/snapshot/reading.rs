//! The records of a stream into RAM. The thread of the caller reads them and checks their heads; further threads decode them and insert the
//! responses, which takes most of the time:
//!
//! ```text
//! stream ──▶ read, check the head ──┬─▶ queue ──▶ check the body, decode, insert
//!                                   └─▶ queue ──▶ check the body, decode, insert
//! ```
//!
//! All records of a key go to the same thread, so that a removal follows the responses before it, and the newest variant is the last.

use super::version::RamFields;
use super::{
    SHARED, SnapshotCount, SnapshotFault, SnapshotReader, StreamVersion, bytes_that_follow, is_usable,
    shared_bytes,
};
use crate::arena::InheritedArena;
use crate::encodings::Encodings;
use crate::entry::StoredBody;
use crate::purges::Seq;
use crate::ram::Store;
use crate::stored_envelope;
use larder_stdx::clock;
use larder_wire::ready_head::{ReadyHead, RecentTemplates};
use larder_wire::segment::{RecordHeader, RecordKind, sum};
use std::io::Read;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use xxhash_rust::xxh3::Xxh3;

/// The most threads that insert: with more of them, they wait for the eviction policy and for the sender.
const THREADS: usize = 4;

/// Bytes of the records that a thread gets at a time. Bodies of the arena are in their place by then.
const BATCH: usize = 64 << 10;

/// Batches that wait for a thread.
const WAITING: usize = 4;

/// The room that an entry may need in RAM beyond the bytes of its record.
const OVERHEAD: u64 = 2048;

/// The treatment of responses beyond the room or the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// Nothing needs the rest of the stream.
    Unread,
    /// Removals may follow.
    Skipped,
}

/// A record whose head is in a batch, and then its body.
struct BatchedRecord {
    header: RecordHeader,
    /// The body, where it is in the arena and not in the batch.
    large: Option<StoredBody>,
}

/// Records for one thread.
#[derive(Default)]
struct RecordBatch {
    records: Vec<BatchedRecord>,
    bytes: Vec<u8>,
}

impl RecordBatch {
    fn new() -> Self {
        // A body on the heap may be beyond.
        Self { records: Vec::new(), bytes: Vec::with_capacity(BATCH + BATCH / 4) }
    }
}

/// An order for a thread.
enum InsertOrder {
    Batch(RecordBatch),
    /// Closes this channel once everything before is in RAM.
    Report(mpsc::Sender<()>),
}

/// The threads that insert, for the one that reads.
struct Inserters<'w> {
    queues: Vec<(SyncSender<InsertOrder>, RecordBatch)>,
    /// Batches whose records are in RAM: the memory of a new one would come from the kernel, page by page.
    done: Receiver<RecordBatch>,
    /// The room that records in batches and queues may need.
    waiting: &'w AtomicU64,
}

/// The most bytes that a response may take in RAM.
fn room_of(header: &RecordHeader) -> u64 {
    2 * u64::from(header.head) + header.body + OVERHEAD
}

/// A thread has found a damaged record.
fn ended<T>(_: mpsc::SendError<T>) -> SnapshotFault {
    SnapshotFault::Damaged
}

impl Inserters<'_> {
    /// The batch for the next record of this key.
    fn batch(&mut self, header: &RecordHeader) -> Result<&mut RecordBatch, SnapshotFault> {
        let place = usize::try_from(header.hash % self.queues.len() as u64).unwrap_or_default();
        let (queue, batch) = &mut self.queues[place];
        if batch.bytes.len() >= BATCH {
            let next = self.done.try_recv().unwrap_or_else(|_| RecordBatch::new());
            queue.send(InsertOrder::Batch(std::mem::replace(batch, next))).map_err(ended)?;
        }
        if header.kind == RecordKind::Response {
            self.waiting.fetch_add(room_of(header), Relaxed);
        }
        Ok(batch)
    }

    /// Sends the incomplete batches.
    fn flush(&mut self) -> Result<(), SnapshotFault> {
        for (queue, batch) in &mut self.queues {
            queue.send(InsertOrder::Batch(std::mem::take(batch))).map_err(ended)?;
        }
        Ok(())
    }

    /// Waits until everything so far is in RAM.
    fn finish(&mut self) -> Result<(), SnapshotFault> {
        self.flush()?;
        let (report, done) = mpsc::channel();
        for (queue, _) in &self.queues {
            queue.send(InsertOrder::Report(report.clone())).map_err(ended)?;
        }
        drop(report);
        // The error is that all have closed it.
        let _ = done.recv();
        Ok(())
    }
}

impl Store {
    /// Reads all records; nothing of them stays after a fault.
    pub(super) fn read_all(
        &self,
        reader: SnapshotReader<impl Read>,
        surplus: Surplus,
        inherited: Option<&InheritedArena>,
        late: impl Fn() -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        self.read_with(threads, reader, surplus, inherited, late)
    }

    fn read_with(
        &self,
        threads: usize,
        mut reader: SnapshotReader<impl Read>,
        surplus: Surplus,
        inherited: Option<&InheritedArena>,
        late: impl Fn() -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        match self.read_by_threads(threads, &mut reader, surplus, inherited, late) {
            Ok(count) => {
                self.counters.ram_restored.add_shared(count.responses);
                Ok(count)
            }
            Err(fault) => {
                self.drop_all();
                Err(fault)
            }
        }
    }

    fn read_by_threads(
        &self,
        threads: usize,
        reader: &mut SnapshotReader<impl Read>,
        surplus: Surplus,
        inherited: Option<&InheritedArena>,
        late: impl Fn() -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        let (waiting, seed, version) = (&AtomicU64::new(0), reader.seed, reader.version);
        thread::scope(|scope| {
            let (done_sender, done) = mpsc::channel();
            let (mut inserters, mut running) = (Inserters { queues: Vec::new(), done, waiting }, Vec::new());
            for _ in 0..threads {
                let (queue, orders) = mpsc::sync_channel(WAITING);
                let done_sender = done_sender.clone();
                let (recent, count) = Default::default();
                let inserter = RecordInserter { store: self, seed, version, waiting, recent, count };
                let insert = move || inserter.insert_all(&orders, &done_sender);
                running.push(thread::Builder::new().name("restore".to_owned()).spawn_scoped(scope, insert)?);
                inserters.queues.push((queue, RecordBatch::default()));
            }
            let left_out = self.read_records(reader, &mut inserters, surplus, inherited, late)?;
            let mut count = SnapshotCount { left_out, version, ..SnapshotCount::default() };
            drop(inserters);
            for one in running {
                let part = one.join().unwrap_or(Err(SnapshotFault::Damaged))?;
                count.responses += part.responses;
                count.bytes += part.bytes;
                count.shared += part.shared;
                count.left_out += part.left_out;
            }
            Ok(count)
        })
    }

    /// Reads all records; returns how many responses are left out.
    fn read_records(
        &self,
        reader: &mut SnapshotReader<impl Read>,
        inserters: &mut Inserters<'_>,
        surplus: Surplus,
        inherited: Option<&InheritedArena>,
        late: impl Fn() -> bool,
    ) -> Result<u64, SnapshotFault> {
        let (mut is_full, mut left_out) = (false, 0);
        while let Some(header) = reader.header()? {
            if header.kind == RecordKind::Removal {
                let batch = inserters.batch(&header)?;
                batch.bytes.extend_from_slice(&reader.scratch);
                batch.records.push(BatchedRecord { header, large: None });
                continue;
            }
            is_full = is_full || late() || self.lacks_room(&header, inserters)?;
            if is_full && surplus == Surplus::Unread {
                break;
            }
            if is_full || !self.could_hold(header.body) {
                reader.skip(bytes_that_follow(&header))?;
                left_out += 1;
                continue;
            }
            let is_shared = header.variant == SHARED;
            let mut large = None;
            if is_shared || !self.is_for_heap(header.body) {
                large = match is_shared {
                    true => self.claim_shared(inherited, &header)?,
                    false => self.read_large(reader, &header)?,
                };
                if large.is_none() {
                    left_out += 1;
                    continue;
                }
            }
            let batch = inserters.batch(&header)?;
            batch.bytes.extend_from_slice(&reader.scratch);
            if large.is_none() {
                reader.body(header.body, &mut batch.bytes)?;
            }
            batch.records.push(BatchedRecord { header, large });
        }
        inserters.flush()?;
        // Those of a file are in the log of the process that wrote it.
        Ok(if surplus == Surplus::Skipped { left_out + reader.left_out } else { left_out })
    }

    /// Whether RAM has no room for a response that it could hold. Records that wait for insertion may take less than counted.
    fn lacks_room(
        &self,
        header: &RecordHeader,
        inserters: &mut Inserters<'_>,
    ) -> Result<bool, SnapshotFault> {
        let is_beyond = |waiting| self.used() + waiting + room_of(header) > self.usable();
        if !self.could_hold(header.body) || !is_beyond(inserters.waiting.load(Relaxed)) {
            return Ok(false);
        }
        inserters.finish()?;
        Ok(is_beyond(0))
    }

    /// The body of a record that is in the arena of the sender; `None` where RAM cannot hold it.
    fn claim_shared(
        &self,
        inherited: Option<&InheritedArena>,
        header: &RecordHeader,
    ) -> Result<Option<StoredBody>, SnapshotFault> {
        let inherited = inherited.ok_or(SnapshotFault::Damaged)?;
        self.claim(inherited, header.body_sum, header.body).map_err(|_| SnapshotFault::Damaged)
    }

    /// Reads the body of a record into the arena; `None` where RAM cannot hold it.
    fn read_large(
        &self,
        reader: &mut SnapshotReader<impl Read>,
        header: &RecordHeader,
    ) -> Result<Option<StoredBody>, SnapshotFault> {
        if !self.could_hold(header.body) {
            reader.skip(header.body)?;
            return Ok(None);
        }
        let (mut summing, mut failed, mut done) = (Xxh3::with_seed(reader.seed), None, 0);
        let from = &mut reader.from;
        let made = self.make_body_of(header.body, |room| {
            let read = from.read_exact(room);
            done += room.len() as u64;
            summing.update(room);
            read.map_err(|it| {
                let kind = it.kind();
                failed = Some(it);
                kind.into()
            })
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let Ok(body) = made else {
            reader.skip(header.body - done)?;
            return Ok(None);
        };
        reader.at += header.body;
        if summing.digest() == header.body_sum { Ok(Some(body)) } else { Err(SnapshotFault::Damaged) }
    }

    /// Adds the response of a record's head; returns whether it is in RAM.
    fn restore_one(
        &self,
        version: StreamVersion,
        recent: &mut RecentTemplates,
        bytes: &[u8],
        body: StoredBody,
        applied: Seq,
    ) -> bool {
        let Some((mut envelope, beyond)) = stored_envelope::read(bytes) else { return false };
        let Some(beyond) = RamFields::read(version, beyond) else { return false };
        let key = std::mem::take(&mut envelope.key);
        let mut stored =
            stored_envelope::stored_with(envelope, body, |text| self.heads.ready_as(recent, text));
        if !is_usable(&stored, clock::wall()) {
            return false;
        }
        if !beyond.head.is_empty() {
            let fields = stored.fields();
            stored.set_head(ReadyHead::passing(&beyond.head), fields);
        }
        // Older purges were applied to it; the later ones apply by this number.
        stored.epoch = applied;
        stored.encodings = beyond.plan.map(Encodings::new);
        let hash = self.hash(&key);
        if self.insert(hash, &key, self.ram_form(stored), usize::MAX).is_err() {
            return false;
        }
        let was_used = beyond.uses > 0 || beyond.hits > 0;
        if let Some(entry) = was_used.then(|| self.entry_of(hash, &key)).flatten() {
            entry.uses.store(beyond.uses, Relaxed);
            entry.hits.store(beyond.hits, Relaxed);
        }
        true
    }

    /// Drops the RAM tier of a process that ended before its purges came. Waits for nothing: that process has ended.
    pub fn drop_received(&self) {
        self.drop_all();
        self.open_inherited_arena();
    }

    /// Drops every entry.
    fn drop_all(&self) {
        while !self.evict(u64::MAX).is_empty() {}
    }
}

/// A thread that inserts.
struct RecordInserter<'s> {
    store: &'s Store,
    seed: u64,
    version: StreamVersion,
    waiting: &'s AtomicU64,
    recent: RecentTemplates,
    count: SnapshotCount,
}

impl RecordInserter<'_> {
    /// Inserts the responses of all orders, and returns their batches; the result is how many responses there are.
    fn insert_all(
        mut self,
        orders: &Receiver<InsertOrder>,
        done: &mpsc::Sender<RecordBatch>,
    ) -> Result<SnapshotCount, SnapshotFault> {
        for order in orders {
            match order {
                InsertOrder::Batch(mut batch) => {
                    self.insert(&mut batch)?;
                    if batch.bytes.capacity() <= 2 * BATCH {
                        batch.bytes.clear();
                        // The error is that the stream has ended.
                        let _ = done.send(batch);
                    }
                }
                InsertOrder::Report(done) => drop(done),
            }
        }
        Ok(self.count)
    }

    fn insert(&mut self, RecordBatch { records, bytes }: &mut RecordBatch) -> Result<(), SnapshotFault> {
        let mut rest = &bytes[..];
        for BatchedRecord { header, large } in records.drain(..) {
            let mut next = |length: u64| {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let (one, after) = rest.split_at_checked(length).ok_or(SnapshotFault::Damaged)?;
                rest = after;
                Ok::<_, SnapshotFault>(one)
            };
            let head = next(header.head.into())?;
            if header.kind == RecordKind::Removal {
                self.store.remove(self.store.hash(head), head);
                continue;
            }
            let body = match large {
                Some(it) => it,
                None => {
                    let body = next(header.body)?;
                    if sum(self.seed, body) != header.body_sum {
                        return Err(SnapshotFault::Damaged);
                    }
                    StoredBody::on_the_heap(&[body])
                }
            };
            let count = &mut self.count;
            match self.store.restore_one(self.version, &mut self.recent, head, body, header.epoch) {
                true => {
                    count.responses += 1;
                    count.bytes += header.length();
                    count.shared += shared_bytes(&header);
                }
                false => count.left_out += 1,
            }
            self.waiting.fetch_sub(room_of(&header), Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
