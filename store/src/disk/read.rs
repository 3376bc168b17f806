//! Reading a record: its place from the index, its head and small body from the page cache or through the pool. A large
//! body stays in the file once it is verified and resident. `semantics::vary` decides which variant a request selects.

use super::breaker::{DiskBreaker, READ_TIMEOUT};
use super::heads::Heads;
use super::index::KnownRecord;
use super::parts::{PartChecksums, RecordedSums};
use super::segment::Segment;
use super::variant_name;
use super::verified::{self, VerifiedParts};
use super::{DiskShared, ReadWait};
use crate::device::pool::Pool;
use crate::entry::{DiskOfferResult, Stored, StoredBody};
use crate::ram::Store;
use crate::read_buffer::{self, ReadBuffer};
use crate::stored_envelope;
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
const HEAD_READ_BYTES: u64 = 4096;

/// Longer reads may take their time on a healthy device.
const BREAKER_READ_LIMIT: u64 = 16 << 20;

/// Records up to this many bytes are read by one call where the body is to be verified too.
const SINGLE_READ_BYTES: u64 = read_buffer::MOST as u64;

/// Resident bodies up to this many bytes are verified on the calling thread: some microseconds. Larger ones by the pool.
const INLINE_VERIFY_BYTES: u64 = 128 << 10;

/// Why a record is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnreadRecord {
    /// Its bytes have changed, or cannot be read.
    Corrupt,
    /// The device is too busy or too slow.
    Busy,
    /// Its segment was dropped meanwhile.
    Dropped,
    /// It is of another key.
    OtherKey,
}

/// The treatment of a lookup that would need the device.
#[derive(Clone, Copy, Debug)]
enum DeviceUse<'a> {
    /// It waits, in the pool, and adds its wait for a free reader.
    Awaited(&'a ReadWait),
    /// It ends without an answer.
    NotAwaited,
}

/// The dependencies of reads.
pub(crate) struct DiskReader {
    pub base: Arc<DiskShared>,
    pub pool: Pool,
    pub breaker: DiskBreaker,
    pub heads: Heads,
    pub verified: VerifiedParts,
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
    parts: Arc<PartChecksums>,
    /// The bytes read with the head, and the place of the body in them.
    read: Option<(ReadBuffer, usize)>,
    /// The place of the body in the file.
    body_at: u64,
}

impl DiskReader {
    /// See [`super::Disk::read_now`].
    pub fn read_now(&self, key: &[u8], request: &[Field<'_>]) -> Option<Stored> {
        let select = pin!(self.select(self.base.hash(key), key, request, DeviceUse::NotAwaited));
        // Only the device causes waits, so it completes at once.
        match select.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found.inspect(|_| self.counters().disk_hits.add_shared(1)),
            Poll::Pending => None,
        }
    }

    /// See [`super::Disk::read`].
    pub async fn read(&self, key: &[u8], request: &[Field<'_>], waited: &ReadWait) -> Option<Stored> {
        let hash = self.base.hash(key);
        let found = self.select(hash, key, request, DeviceUse::Awaited(waited)).await;
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
            let record = match self.read_head(hash, key, &known, device).await {
                Ok(record) => record,
                Err(UnreadRecord::Busy) => return None,
                Err(UnreadRecord::Corrupt) => {
                    self.forget(hash, &known);
                    continue;
                }
                Err(UnreadRecord::Dropped | UnreadRecord::OtherKey) => continue,
            };
            let names = record.envelope.meta.vary();
            scratch.clear();
            vary::write_key(names, request, &mut scratch);
            if *scratch != *record.envelope.variant {
                met.push((known.names, variant_name::of(hash, names, &scratch).variant));
                continue;
            }
            match self.read_body(hash, &known, record, device).await {
                // A removal during the read is obeyed.
                Ok(stored) => {
                    stored.on_disk.set(DiskOfferResult::Queued(known.stamp));
                    return self.base.index.note_use(hash, known.stamp).then_some(stored);
                }
                Err(UnreadRecord::Corrupt) => self.forget(hash, &known),
                Err(_) => return None,
            }
        }
        None
    }

    fn forget(&self, hash: u64, known: &KnownRecord) {
        if self.base.index.remove_in_segment(hash, known.stamp, known.location.segment) {
            self.counters().disk_corrupt.add_shared(1);
        }
    }

    fn counters(&self) -> &Counters {
        &self.base.counters
    }

    /// Whether the body of a record was verified a moment ago, with no sign of a write by another program since.
    fn is_recently_verified(&self, hash: u64, known: &KnownRecord, segment: &Segment) -> bool {
        let now = clock::monotonic();
        self.verified.contains(hash, known.stamp, now) && !segment.was_touched(now, verified::LONGEST)
    }

    /// Reads and verifies header and head.
    async fn read_head(
        &self,
        hash: u64,
        key: &[u8],
        known: &KnownRecord,
        device: DeviceUse<'_>,
    ) -> Result<VerifiedRecord, UnreadRecord> {
        let segment =
            self.base.segments.read().get(&known.location.segment).cloned().ok_or(UnreadRecord::Dropped)?;
        let (at, size) = (u64::from(known.location.offset) * UNIT, u64::from(known.location.size) * UNIT);
        if let Some((header, envelope, parts)) = self.heads.get(hash, known) {
            let body_at = at + HEADER as u64 + u64::from(header.head);
            return match *envelope.key == *key {
                true => Ok(VerifiedRecord { segment, header, envelope, parts, read: None, body_at }),
                false => Err(UnreadRecord::OtherKey),
            };
        }
        let is_small = size <= self.heap_line + HEAD_READ_BYTES;
        let first =
            if is_small || size <= SINGLE_READ_BYTES && !self.is_recently_verified(hash, known, &segment) {
                size
            } else {
                HEAD_READ_BYTES.min(size)
            };
        let mut buffer = self.bytes(&segment, at, first, device).await?;
        let place = RecordPart { seed: self.base.seed, file: segment.id, offset: at };
        let header = RecordHeader::read(buffer.bytes(), place).filter(|it| {
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
            let (first, needed) = (buffer.bytes().len(), buffer.bytes().len() + more.bytes().len());
            buffer.grow(needed);
            buffer.bytes_mut()[first..].copy_from_slice(more.bytes());
        }
        let written = &buffer.bytes()[HEADER..HEADER + head];
        if sum(self.base.seed, written) != header.head_sum {
            return Err(UnreadRecord::Corrupt);
        }
        let (envelope, behind) = stored_envelope::read(written).ok_or(UnreadRecord::Corrupt)?;
        let Some(parts) = PartChecksums::read(self.base.seed, &header, behind).map(Arc::new) else {
            // An older larder made one checksum for a large body: the record cannot be used, but is not damaged.
            let is_old =
                behind.is_empty() && self.base.index.remove_in_segment(hash, known.stamp, segment.id);
            return Err(if is_old { UnreadRecord::Dropped } else { UnreadRecord::Corrupt });
        };
        if *envelope.key != *key {
            return Err(UnreadRecord::OtherKey);
        }
        if envelope.body.length != header.body {
            return Err(UnreadRecord::Corrupt);
        }
        if header.body > self.heap_line {
            self.heads.insert(header, &envelope, &parts);
        }
        Ok(VerifiedRecord { segment, header, envelope, parts, read: Some((buffer, HEADER + head)), body_at })
    }

    async fn read_body(
        &self,
        hash: u64,
        known: &KnownRecord,
        record: VerifiedRecord,
        device: DeviceUse<'_>,
    ) -> Result<Stored, UnreadRecord> {
        let VerifiedRecord { segment, header, envelope, parts, read, body_at } = record;
        let length = usize::try_from(header.body).unwrap_or(usize::MAX);
        let whole = read.as_ref().and_then(|(buffer, from)| buffer.bytes()[*from..].get(..length));
        if header.body <= self.heap_line {
            let body = whole.filter(|it| parts.match_body(it)).ok_or(UnreadRecord::Corrupt)?;
            return Ok(stored_envelope::stored(envelope, StoredBody::on_the_heap(&[body])));
        }
        if segment.check_modified() {
            // A program that writes to it may do so while it is sent.
            return Err(UnreadRecord::Corrupt);
        }
        let now = clock::monotonic();
        let trusted = whole.is_none() && self.is_recently_verified(hash, known, &segment);
        if !(trusted && segment.is_resident(body_at, header.body)) {
            let is_right = match whole {
                Some(body) => parts.match_body(body),
                None => self.verify(&segment, body_at, &parts, device).await?,
            };
            if !is_right {
                return Err(UnreadRecord::Corrupt);
            }
            self.verified.insert(hash, known.stamp, now);
        }
        let slice = RecordedSums::slice(&self.base, segment, body_at, parts, (hash, known.stamp));
        Ok(stored_envelope::stored(envelope, StoredBody::Disk(Box::new(slice))))
    }

    /// Verifies a body; afterwards it is in memory.
    async fn verify(
        &self,
        segment: &Arc<Segment>,
        at: u64,
        parts: &Arc<PartChecksums>,
        device: DeviceUse<'_>,
    ) -> Result<bool, UnreadRecord> {
        let length = parts.length();
        let read_now = |part: &mut [u8], at| match self.base.calls.read_now(segment.file.as_fd(), part, at) {
            Ok(Some(read)) if read == part.len() => Ok(()),
            Ok(None) => Err(UnreadRecord::Busy),
            Ok(Some(_)) | Err(_) => Err(UnreadRecord::Corrupt),
        };
        if length <= INLINE_VERIFY_BYTES {
            match checksums_match(parts, at, read_now) {
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
        self.run_in_pool(device, length, move || checksums_match(&parts, at, read)).await?
    }

    /// These bytes of a segment: from memory, or read by the pool.
    async fn bytes(
        &self,
        segment: &Arc<Segment>,
        at: u64,
        length: u64,
        device: DeviceUse<'_>,
    ) -> Result<ReadBuffer, UnreadRecord> {
        let mut buffer = ReadBuffer::of(usize::try_from(length).map_err(|_| UnreadRecord::Corrupt)?);
        let wanted = buffer.bytes().len();
        match self.base.calls.read_now(segment.file.as_fd(), buffer.bytes_mut(), at) {
            Ok(Some(read)) if read == wanted => return Ok(buffer),
            Ok(Some(_)) => return Err(UnreadRecord::Corrupt),
            Err(_) => return Err(self.failed()),
            Ok(None) => {}
        }
        let (calls, segment) = (self.base.calls.clone(), segment.clone());
        let read = self.run_in_pool(device, length, move || {
            let read = calls.read(segment.file.as_fd(), buffer.bytes_mut(), at);
            read.map(|it| (it == wanted).then_some(buffer))
        });
        match read.await? {
            Ok(buffer) => buffer.ok_or(UnreadRecord::Corrupt),
            Err(_) => Err(self.failed()),
        }
    }

    /// Probes the device from time to time by a read of a few bytes while the breaker is open: no request may need it
    /// otherwise. Called each second, which is how long the read may take.
    pub fn probe(&self) {
        let mut probe = self.probe.lock();
        if let Some(mut asked) = probe.take() {
            self.breaker.end_trial(asked.try_recv().is_ok());
            return;
        }
        let oldest = || self.base.segments.read().values().next().cloned();
        // Evaluated last: it returns true once.
        if let Some(segment) = oldest()
            && self.breaker.is_trial_due()
        {
            let calls = self.base.calls.clone();
            let read_start =
                move || calls.read_uncached(segment.file.as_fd(), &mut [0; START], 0).unwrap_or(0);
            *probe = self.pool.run(read_start).ok();
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
        let copied = self.run_in_pool(DeviceUse::Awaited(&waited), length, move || store.copy_in(&slice));
        copied.await.ok().flatten()
    }

    fn failed(&self) -> UnreadRecord {
        self.counters().disk_failures.add_shared(1);
        UnreadRecord::Corrupt
    }

    /// Runs `work`, which reads this number of bytes, in the pool.
    async fn run_in_pool<T: Send + 'static>(
        &self,
        device: DeviceUse<'_>,
        length: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UnreadRecord> {
        let DeviceUse::Awaited(waited) = device else { return Err(UnreadRecord::Busy) };
        let attempt = self.breaker.begin().ok_or(UnreadRecord::Busy)?;
        let Ok(answer) = self.pool.run(work) else {
            self.counters().disk_pool_full.add_shared(1);
            return Err(UnreadRecord::Busy);
        };
        match tokio::time::timeout(READ_TIMEOUT, answer).await {
            Ok(Ok((answer, micros))) => {
                waited.add(micros);
                attempt.answered();
                Ok(answer)
            }
            Ok(Err(_)) => Err(UnreadRecord::Busy),
            Err(_) => {
                self.counters().disk_slow.add_shared(1);
                if length <= BREAKER_READ_LIMIT {
                    attempt.gave_up();
                }
                Err(UnreadRecord::Busy)
            }
        }
    }
}

/// Whether the parts of a body returned by `read` are unchanged.
fn checksums_match(
    parts: &PartChecksums,
    at: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<(), UnreadRecord>,
) -> Result<bool, UnreadRecord> {
    let mut buffer = ReadBuffer::of(usize::try_from(parts.part_at(0).1).map_err(|_| UnreadRecord::Corrupt)?);
    let mut done = 0;
    while done < parts.length() {
        let (begin, length) = parts.part_at(done);
        let most = usize::try_from(length).map_err(|_| UnreadRecord::Corrupt)?;
        read(&mut buffer.bytes_mut()[..most], at + begin)?;
        if !parts.matches_part(begin, &buffer.bytes()[..most]) {
            return Ok(false);
        }
        done += length;
    }
    Ok(true)
}
