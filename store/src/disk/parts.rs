//! The checksums of a body on disk, one for each 64 KiB: computed from the received bytes, and compared whenever a part
//! is read. Bytes that another program has changed, or the device has lost, are therefore never sent. This module defines
//! their place in a record; `transport` sends.

use super::DiskShared;
use super::segment::Segment;
use crate::device::syscalls::Syscalls;
use larder_transport::body::{FileOwner, FileSlice, FileWritableBy};
use larder_wire::segment::{PART, RecordHeader, sum};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a checksum.
const SUM: usize = size_of::<u64>();

/// The checksums of one body. For a body of a single part it is in the header. Otherwise the list follows the head, and
/// the list's own checksum is in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartChecksums {
    seed: u64,
    length: u64,
    checksums: Box<[u64]>,
}

impl PartChecksums {
    /// Those of a body in memory.
    pub fn of(seed: u64, body: &[u8]) -> PartChecksums {
        let mut summing = ChecksumBuilder::new(seed);
        summing.add(body);
        summing.finish()
    }

    /// Bytes of the body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The body's checksum in the header.
    pub fn in_header(&self) -> u64 {
        match &self.checksums[..] {
            [only] => *only,
            _ => sum(self.seed, &self.list()),
        }
    }

    /// Appends the list, if there is one, to the head of a record.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.checksums.len() > 1 {
            out.extend_from_slice(&self.list());
        }
    }

    fn list(&self) -> Vec<u8> {
        self.checksums.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    /// The bytes of the list for a body of this length.
    fn in_list(length: u64) -> Option<usize> {
        let parts = usize::try_from(length.div_ceil(PART)).ok()?;
        if parts > 1 { parts.checked_mul(SUM) } else { Some(0) }
    }

    /// Those of a record; `behind` are the bytes after the envelope in its head. `None` where they are no list for this
    /// body.
    pub fn read(seed: u64, header: &RecordHeader, behind: &[u8]) -> Option<PartChecksums> {
        if behind.len() != Self::in_list(header.body)? {
            return None;
        }
        let numbers =
            behind.chunks_exact(SUM).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default()));
        let sums = if behind.is_empty() { vec![header.body_sum].into() } else { numbers.collect() };
        let parts = PartChecksums { seed, length: header.body, checksums: sums };
        (parts.in_header() == header.body_sum).then_some(parts)
    }

    /// Whether these are the bytes of the part at `at`, a multiple of [`PART`].
    pub fn matches_part(&self, at: u64, part: &[u8]) -> bool {
        let wanted = usize::try_from(at / PART).ok().and_then(|it| self.checksums.get(it));
        part.len() as u64 == self.part_at(at).1 && wanted == Some(&sum(self.seed, part))
    }

    /// Whether this is the body.
    pub fn match_body(&self, body: &[u8]) -> bool {
        let mut parts = body.chunks(usize::try_from(PART).unwrap_or(usize::MAX)).zip((0..).step_by(1 << 16));
        body.len() as u64 == self.length
            && (self.length > 0 || self.matches_part(0, body))
            && parts.all(|it| self.matches_part(it.1, it.0))
    }

    /// The beginning and the length of the part that contains `at`.
    pub fn part_at(&self, at: u64) -> (u64, u64) {
        let begin = at - at % PART;
        (begin, self.length.saturating_sub(begin).min(PART))
    }
}

/// The checksums of a body that arrives piece by piece.
pub(crate) struct ChecksumBuilder {
    seed: u64,
    length: u64,
    sums: Vec<u64>,
    part: Xxh3,
}

impl ChecksumBuilder {
    pub fn new(seed: u64) -> ChecksumBuilder {
        ChecksumBuilder { seed, length: 0, sums: Vec::new(), part: Xxh3::with_seed(seed) }
    }

    /// More of the body.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PART - self.length % PART;
            let (now, rest) = bytes.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len()));
            self.part.update(now);
            self.length += now.len() as u64;
            bytes = rest;
            if self.length.is_multiple_of(PART) {
                self.sums.push(std::mem::replace(&mut self.part, Xxh3::with_seed(self.seed)).digest());
            }
        }
    }

    /// The end of the body.
    pub fn finish(mut self) -> PartChecksums {
        if !self.length.is_multiple_of(PART) || self.sums.is_empty() {
            self.sums.push(self.part.digest());
        }
        PartChecksums { seed: self.seed, length: self.length, checksums: self.sums.into() }
    }
}

/// A number for each opened body, by which a thread recognises what it read last.
static OPENED: AtomicU64 = AtomicU64::new(1);

/// The part that a thread read and verified last: an incomplete send continues with it.
#[derive(Default)]
struct LastVerifiedPart {
    of: (u64, u64),
    bytes: Vec<u8>,
}

thread_local! {
    static LAST: RefCell<LastVerifiedPart> = RefCell::default();
}

/// The bytes of a file have changed, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumMismatch;

impl From<ChecksumMismatch> for io::Error {
    fn from(ChecksumMismatch: ChecksumMismatch) -> Self {
        io::ErrorKind::InvalidData.into()
    }
}

/// The checksums of a body, and its place in the file.
pub(crate) struct ChecksummedBody {
    begin: u64,
    parts: Arc<PartChecksums>,
    number: u64,
}

impl ChecksummedBody {
    pub fn new(begin: u64, parts: Arc<PartChecksums>) -> Self {
        Self { begin, parts, number: OPENED.fetch_add(1, Relaxed) }
    }

    /// Lends the bytes from `offset` of the file to the end of their part, after reading and verifying them.
    pub fn lend(
        &self,
        calls: &Syscalls,
        file: BorrowedFd<'_>,
        offset: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ChecksumMismatch> {
        let at =
            offset.checked_sub(self.begin).filter(|it| *it < self.parts.length).ok_or(ChecksumMismatch)?;
        let (begin, length) = self.parts.part_at(at);
        let (length, from) = (usize::try_from(length), usize::try_from(at - begin));
        let (Ok(length), Ok(from)) = (length, from) else { return Err(ChecksumMismatch) };
        // Not borrowed while `take` runs, which may call this again.
        let mut last = LAST.take();
        let this = (self.number, begin);
        if last.of != this {
            last.of = (0, 0);
            last.bytes.resize(length, 0);
            let read = calls.read(file, &mut last.bytes, self.begin + begin);
            if read != Ok(length) || !self.parts.matches_part(begin, &last.bytes) {
                LAST.set(last);
                return Err(ChecksumMismatch);
            }
            last.of = this;
        }
        take(&last.bytes[from..]);
        LAST.set(last);
        Ok(())
    }
}

/// A body in a record.
pub(crate) struct RecordedSums {
    base: Arc<DiskShared>,
    segment: Arc<Segment>,
    checked: ChecksummedBody,
    /// Hash and stamp of the record, which is removed once a part of it is wrong.
    record: (u64, u64),
}

impl RecordedSums {
    /// The body of this record as a slice.
    pub fn slice(
        base: &Arc<DiskShared>,
        segment: Arc<Segment>,
        at: u64,
        parts: Arc<PartChecksums>,
        record: (u64, u64),
    ) -> FileSlice {
        let (base, length) = (base.clone(), parts.length);
        let owner =
            Arc::new(RecordedSums { base, segment, checked: ChecksummedBody::new(at, parts), record });
        FileSlice { owner, offset: at, length }
    }
}

impl FileOwner for RecordedSums {
    fn fd(&self) -> BorrowedFd<'_> {
        self.segment.file.as_fd()
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        // Mapping a file that another program truncates would raise SIGBUS.
        None
    }

    fn kept(&self) -> FileWritableBy {
        FileWritableBy::Checked
    }

    fn is_intact(&self) -> bool {
        !self.segment.check_modified()
    }

    fn lend(&self, offset: u64, _: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.checked.lend(&self.base.calls, self.fd(), offset, take).map_err(|ChecksumMismatch| {
            if self.base.index.remove_in_segment(self.record.0, self.record.1, self.segment.id) {
                self.base.counters.disk_corrupt.add_shared(1);
            }
            io::ErrorKind::InvalidData.into()
        })
    }
}

/// The checksums of a body in a file, read once more through its owner, which verifies them where it can.
pub(crate) fn of_slice(seed: u64, slice: &FileSlice) -> Result<PartChecksums, ChecksumMismatch> {
    let mut summing = ChecksumBuilder::new(seed);
    each(slice, |_, bytes| {
        summing.add(bytes);
        Ok(())
    })?;
    Ok(summing.finish())
}

/// Visits all bytes of a slice, piece by piece, with the place of each.
pub(crate) fn each<E: From<ChecksumMismatch>>(
    slice: &FileSlice,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = 0;
    while at < slice.length {
        let rest = usize::try_from(slice.length - at).unwrap_or(usize::MAX);
        let mut taken = Ok(0);
        let lent = slice.owner.lend(slice.offset + at, rest, &mut |bytes| {
            let bytes = &bytes[..bytes.len().min(rest)];
            taken = take(at, bytes).map(|()| bytes.len() as u64);
        });
        lent.map_err(|_| ChecksumMismatch)?;
        at += taken?;
    }
    Ok(())
}
