//! Reading a record: its place from the index, its head and small body from the page cache or through the pool. A large
//! body stays in the file once it is verified and resident. `semantics::vary` decides which variant a request selects.

use super::breaker::{DiskBreaker, PATIENCE};
use super::head::{self, variant_name};
use super::heads::Heads;
use super::index::KnownRecord;
use super::parts::{Parts, RecordedSums};
use super::segment::Segment;
use super::verified::{self, VerifiedParts};
use super::{DiskShared, ReadWait};
use crate::device::pool::Pool;
use crate::entry::{Offered, Stored, StoredBody};
use crate::ram::Store;
use crate::room::{self, Room};
use larder_counters::Counters;
use larder_semantics::field::Field;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_transport::body::FileSlice;
use larder_wire::envelope::Envelope;
use larder_wire::segment::{HEADER, RecordHeader, RecordKind, RecordPart, START, UNIT, sum};
use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;

/// Bytes of a record in the first read, in addition to a body that fits the heap.
const HEAD: u64 = 4096;

/// Longer reads may take their time on a healthy device.
const MOST_TELLING: u64 = 16 << 20;

/// Records up to this many bytes are read by one call where the body is to be verified too.
const AT_ONCE: u64 = room::MOST as u64;

/// Resident bodies up to this many bytes are verified on the calling thread: some microseconds. Larger ones by the pool.
const SOON: u64 = 128 << 10;

/// Why a record is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnreadRecord {
    /// Its bytes have changed, or cannot be read.
    Corrupt,
    /// The device is too busy or too slow.
    Busy,
    /// Its segment was dropped meanwhile.
    Gone,
    /// It is of another key.
    Other,
}

/// The treatment of a lookup that would need the device.
#[derive(Clone, Copy, Debug)]
enum DeviceUse<'a> {
    /// It waits, in the pool, and adds its wait for a free reader.
    WaitedFor(&'a ReadWait),
    /// It ends without an answer.
    LeftAlone,
}

/// The dependencies of reads.
pub(crate) struct DiskReader {
    pub base: Arc<DiskShared>,
    pub pool: Pool,
    pub breaker: DiskBreaker,
    pub heads: Heads,
    pub trust: VerifiedParts,
    pub heap_line: u64,
    /// A read that only probes whether the device answers again.
    pub probe: Mutex<Option<oneshot::Receiver<(usize, u64)>>>,
}

/// A record whose head was read and verified.
struct VerifiedRecord {
    segment: Arc<Segment>,
    header: RecordHeader,
    envelope: Envelope,
    /// The checksums of the body.
    parts: Arc<Parts>,
    /// The bytes read with the head, and the place of the body in them.
    read: Option<(Room, usize)>,
    /// The place of the body in the file.
    body_at: u64,
}

impl DiskReader {
    /// See [`super::Disk::read_now`].
    pub fn read_now(&self, key: &[u8], request: &[Field<'_>]) -> Option<Stored> {
        let select = pin!(self.select(self.base.hash(key), key, request, DeviceUse::LeftAlone));
        // Only the device causes waits, so it completes at once.
        match select.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found.inspect(|_| self.counters().disk_hits.add_shared(1)),
            Poll::Pending => None,
        }
    }

    /// See [`super::Disk::read`].
    pub async fn read(&self, key: &[u8], request: &[Field<'_>], waited: &ReadWait) -> Option<Stored> {
        let hash = self.base.hash(key);
        let found = self.select(hash, key, request, DeviceUse::WaitedFor(waited)).await;
        let counters = self.counters();
        let counter = if found.is_some() { &counters.disk_hits } else { &counters.disk_misses };
        counter.add_shared(1);
        found
    }

    async fn select(
        &self,
        hash: u64,
        key: &[u8],
        request: &[Field<'_>],
        device: DeviceUse<'_>,
    ) -> Option<Stored> {
        // `Vary` names seen so far, with the only variant under them that the request selects.
        let mut met: Vec<(u16, u32)> = Vec::new();
        let mut scratch = Vec::new();
        for known in self.base.index.find(hash) {
            if met.iter().any(|it| it.0 == known.names && it.1 != known.variant) {
                continue;
            }
            let record = match self.record(hash, key, &known, device).await {
                Ok(record) => record,
                Err(UnreadRecord::Busy) => return None,
                Err(UnreadRecord::Corrupt) => {
                    self.forget(hash, &known);
                    continue;
                }
                Err(UnreadRecord::Gone | UnreadRecord::Other) => continue,
            };
            let names = record.envelope.meta.vary();
            scratch.clear();
            vary::write_key(names, request, &mut scratch);
            if *scratch != *record.envelope.variant {
                met.push((known.names, variant_name(hash, names, &scratch).variant));
                continue;
            }
            match self.body(hash, &known, record, device).await {
                // A removal during the read is obeyed.
                Ok(stored) => {
                    stored.on_disk.set(Offered::Queued(known.stamp));
                    return self.base.index.note_use(hash, known.stamp).then_some(stored);
                }
                Err(UnreadRecord::Corrupt) => self.forget(hash, &known),
                Err(_) => return None,
            }
        }
        None
    }

    fn forget(&self, hash: u64, known: &KnownRecord) {
        if self.base.index.forget_in(hash, known.stamp, known.spot.segment) {
            self.counters().disk_corrupt.add_shared(1);
        }
    }

    fn counters(&self) -> &Counters {
        &self.base.counters
    }

    /// Whether the body of a record was verified a moment ago, with no sign of a write by another program since.
    fn is_trusted(&self, hash: u64, known: &KnownRecord, segment: &Segment) -> bool {
        let now = clock::monotonic();
        self.trust.has(hash, known.stamp, now) && !segment.was_touched(now, verified::LONGEST)
    }

    /// Reads and verifies header and head.
    async fn record(
        &self,
        hash: u64,
        key: &[u8],
        known: &KnownRecord,
        device: DeviceUse<'_>,
    ) -> Result<VerifiedRecord, UnreadRecord> {
        let segment =
            self.base.segments.read().get(&known.spot.segment).cloned().ok_or(UnreadRecord::Gone)?;
        let (at, size) = (u64::from(known.spot.offset) * UNIT, u64::from(known.spot.size) * UNIT);
        if let Some((header, envelope, parts)) = self.heads.get(hash, known) {
            let body_at = at + HEADER as u64 + u64::from(header.head);
            return match *envelope.key == *key {
                true => Ok(VerifiedRecord { segment, header, envelope, parts, read: None, body_at }),
                false => Err(UnreadRecord::Other),
            };
        }
        let is_small = size <= self.heap_line + HEAD;
        let first = if is_small || size <= AT_ONCE && !self.is_trusted(hash, known, &segment) {
            size
        } else {
            HEAD.min(size)
        };
        let mut room = self.bytes(&segment, at, first, device).await?;
        let place = RecordPart { seed: self.base.seed, file: segment.id, offset: at };
        let header = RecordHeader::read(room.bytes(), place).filter(|it| {
            let is_it = it.kind == RecordKind::Response && it.hash == hash && it.stamp == known.stamp;
            is_it && it.length().next_multiple_of(UNIT) == size
        });
        let header = header.ok_or(UnreadRecord::Corrupt)?;
        let head = header.head as usize;
        let body_at = at + (HEADER + head) as u64;
        // A small body, or a large head.
        let needed = if header.body <= self.heap_line { header.length() } else { (HEADER + head) as u64 };
        if needed > first {
            let more = self.bytes(&segment, at + first, needed - first, device).await?;
            let (first, needed) = (room.bytes().len(), room.bytes().len() + more.bytes().len());
            room.grow(needed);
            room.bytes_mut()[first..].copy_from_slice(more.bytes());
        }
        let written = &room.bytes()[HEADER..HEADER + head];
        if sum(self.base.seed, written) != header.head_sum {
            return Err(UnreadRecord::Corrupt);
        }
        let (envelope, behind) = head::read(written).ok_or(UnreadRecord::Corrupt)?;
        let Some(parts) = Parts::read(self.base.seed, &header, behind).map(Arc::new) else {
            // An older larder made one checksum for a large body: the record cannot be used, but is not damaged.
            let is_old = behind.is_empty() && self.base.index.forget_in(hash, known.stamp, segment.id);
            return Err(if is_old { UnreadRecord::Gone } else { UnreadRecord::Corrupt });
        };
        if *envelope.key != *key {
            return Err(UnreadRecord::Other);
        }
        if envelope.body.length != header.body {
            return Err(UnreadRecord::Corrupt);
        }
        if header.body > self.heap_line {
            self.heads.keep(header, &envelope, &parts);
        }
        Ok(VerifiedRecord { segment, header, envelope, parts, read: Some((room, HEADER + head)), body_at })
    }

    async fn body(
        &self,
        hash: u64,
        known: &KnownRecord,
        record: VerifiedRecord,
        device: DeviceUse<'_>,
    ) -> Result<Stored, UnreadRecord> {
        let VerifiedRecord { segment, header, envelope, parts, read, body_at } = record;
        let length = usize::try_from(header.body).unwrap_or(usize::MAX);
        let whole = read.as_ref().and_then(|(room, from)| room.bytes()[*from..].get(..length));
        if header.body <= self.heap_line {
            let body = whole.filter(|it| parts.are_of(it)).ok_or(UnreadRecord::Corrupt)?;
            return Ok(head::stored(envelope, StoredBody::on_the_heap(&[body])));
        }
        if segment.is_suspect() {
            // A program that writes to it may do so while it is sent.
            return Err(UnreadRecord::Corrupt);
        }
        let now = clock::monotonic();
        let trusted = whole.is_none() && self.is_trusted(hash, known, &segment);
        if !(trusted && segment.is_resident(body_at, header.body)) {
            let is_right = match whole {
                Some(body) => parts.are_of(body),
                None => self.verify(&segment, body_at, &parts, device).await?,
            };
            if !is_right {
                return Err(UnreadRecord::Corrupt);
            }
            self.trust.note(hash, known.stamp, now);
        }
        let slice = RecordedSums::slice(&self.base, segment, body_at, parts, (hash, known.stamp));
        Ok(head::stored(envelope, StoredBody::Disk(Box::new(slice))))
    }

    /// Verifies a body; afterwards it is in memory.
    async fn verify(
        &self,
        segment: &Arc<Segment>,
        at: u64,
        parts: &Arc<Parts>,
        device: DeviceUse<'_>,
    ) -> Result<bool, UnreadRecord> {
        let length = parts.length();
        let read_now = |part: &mut [u8], at| match self.base.calls.read_now(segment.file.as_fd(), part, at) {
            Ok(Some(read)) if read == part.len() => Ok(()),
            Ok(None) => Err(UnreadRecord::Busy),
            Ok(Some(_)) | Err(_) => Err(UnreadRecord::Corrupt),
        };
        if length <= SOON {
            match are_right(parts, at, read_now) {
                Err(UnreadRecord::Busy) => {}
                done => return done,
            }
        }
        let (calls, segment) = (self.base.calls.clone(), segment.clone());
        let read = move |part: &mut [u8], at| match calls.read(segment.file.as_fd(), part, at) {
            Ok(read) if read == part.len() => Ok(()),
            _ => Err(UnreadRecord::Corrupt),
        };
        let parts = parts.clone();
        self.wait(device, length, move || are_right(&parts, at, read)).await?
    }

    /// These bytes of a segment: from memory, or read by the pool.
    async fn bytes(
        &self,
        segment: &Arc<Segment>,
        at: u64,
        length: u64,
        device: DeviceUse<'_>,
    ) -> Result<Room, UnreadRecord> {
        let mut room = Room::of(usize::try_from(length).map_err(|_| UnreadRecord::Corrupt)?);
        let wanted = room.bytes().len();
        match self.base.calls.read_now(segment.file.as_fd(), room.bytes_mut(), at) {
            Ok(Some(read)) if read == wanted => return Ok(room),
            Ok(Some(_)) => return Err(UnreadRecord::Corrupt),
            Err(_) => return Err(self.failed()),
            Ok(None) => {}
        }
        let (calls, segment) = (self.base.calls.clone(), segment.clone());
        let read = self.wait(device, length, move || {
            let read = calls.read(segment.file.as_fd(), room.bytes_mut(), at);
            read.map(|it| (it == wanted).then_some(room))
        });
        match read.await? {
            Ok(room) => room.ok_or(UnreadRecord::Corrupt),
            Err(_) => Err(self.failed()),
        }
    }

    /// Probes the device from time to time by a read of a few bytes while the breaker is open: no request may need it
    /// otherwise. Called each second, which is how long the read may take.
    pub fn look(&self) {
        let mut probe = self.probe.lock();
        if let Some(mut asked) = probe.take() {
            self.breaker.end_trial(asked.try_recv().is_ok());
            return;
        }
        let oldest = || self.base.segments.read().values().next().cloned();
        // Evaluated last: it returns true once.
        if let Some(segment) = oldest()
            && self.breaker.begins_trial()
        {
            let calls = self.base.calls.clone();
            let ask = move || calls.read_anew(segment.file.as_fd(), &mut [0; START], 0).unwrap_or(0);
            *probe = self.pool.run(ask).ok();
            if probe.is_none() {
                self.breaker.end_trial(false);
            }
        }
    }

    /// See [`super::Disk::copy_in`].
    pub async fn copy_in(&self, store: &Arc<Store>, slice: &FileSlice) -> Option<StoredBody> {
        let (store, slice) = (store.clone(), slice.clone());
        let waited = ReadWait::default();
        let length = slice.length;
        let copied = self.wait(DeviceUse::WaitedFor(&waited), length, move || store.copy_in(&slice));
        copied.await.ok().flatten()
    }

    fn failed(&self) -> UnreadRecord {
        self.counters().disk_failures.add_shared(1);
        UnreadRecord::Corrupt
    }

    /// Runs `work`, which reads this number of bytes, in the pool.
    async fn wait<T: Send + 'static>(
        &self,
        device: DeviceUse<'_>,
        length: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UnreadRecord> {
        let DeviceUse::WaitedFor(waited) = device else { return Err(UnreadRecord::Busy) };
        let attempt = self.breaker.begin().ok_or(UnreadRecord::Busy)?;
        let Ok(answer) = self.pool.run(work) else {
            self.counters().disk_pool_full.add_shared(1);
            return Err(UnreadRecord::Busy);
        };
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok((answer, micros))) => {
                waited.add(micros);
                attempt.answered();
                Ok(answer)
            }
            Ok(Err(_)) => Err(UnreadRecord::Busy),
            Err(_) => {
                self.counters().disk_slow.add_shared(1);
                if length <= MOST_TELLING {
                    attempt.gave_up();
                }
                Err(UnreadRecord::Busy)
            }
        }
    }
}

/// Whether the parts of a body returned by `read` are unchanged.
fn are_right(
    parts: &Parts,
    at: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<(), UnreadRecord>,
) -> Result<bool, UnreadRecord> {
    let mut room = Room::of(usize::try_from(parts.part_at(0).1).map_err(|_| UnreadRecord::Corrupt)?);
    let mut done = 0;
    while done < parts.length() {
        let (begin, length) = parts.part_at(done);
        let most = usize::try_from(length).map_err(|_| UnreadRecord::Corrupt)?;
        read(&mut room.bytes_mut()[..most], at + begin)?;
        if !parts.has(begin, &room.bytes()[..most]) {
            return Ok(false);
        }
        done += length;
    }
    Ok(true)
}
