//! Reading the list of records of one segment: from its footer, or by a scan, header by header. Bodies are not read.

use super::DiskShared;
use super::segment::Segment;
use larder_wire::segment::{
    ENTRY, FooterEntry, FooterTail, HEADER, RecordHeader, RecordKind, RecordPart, START, SegmentFile, TAIL,
    UNIT, VERSION, could_be_record, is_start,
};
use std::os::fd::AsFd;

/// Bytes that a scan reads at once.
const WINDOW: usize = 128 << 10;

/// The content of one segment.
pub(super) struct SegmentContents {
    pub entries: Vec<FooterEntry>,
    /// The end of its records.
    pub end: u64,
    pub sealed: bool,
    pub damaged: bool,
}

/// The records of a segment, from its footer or a scan; `None` where it is not larder's.
pub(super) fn entries(base: &DiskShared, segment: &Segment) -> Option<Vec<FooterEntry>> {
    contents(base, segment).map(|it| it.entries)
}

/// The content of a segment; `None` where it is not larder's.
pub(super) fn contents(base: &DiskShared, segment: &Segment) -> Option<SegmentContents> {
    let file = segment.file.as_fd();
    let length = base.calls.stat(file).ok()?.length;
    let mut beginning = [0; START];
    let read = base.calls.read(file, &mut beginning, 0).ok()?;
    let place = RecordPart { seed: base.seed, file: segment.id, offset: 0 };
    if read < START || !is_start(SegmentFile::Segment, VERSION, place, &beginning) {
        return None;
    }
    if let Some((entries, end)) = footer(base, segment, length) {
        return Some(SegmentContents { entries, end, sealed: true, damaged: false });
    }
    let mut scan = Scan::new(base, segment, length);
    let (entries, end) = scan.run()?;
    Some(SegmentContents { entries, end, sealed: false, damaged: scan.damaged })
}

/// The entries of the footer, and its place.
fn footer(base: &DiskShared, segment: &Segment, length: u64) -> Option<(Vec<FooterEntry>, u64)> {
    let at = length.checked_sub(TAIL as u64)?;
    let mut bytes = [0; TAIL];
    let read = base.calls.read(segment.file.as_fd(), &mut bytes, at).ok()?;
    let tail = FooterTail::read(&bytes[..read], base.seed, segment.id, length)?;
    let mut bytes = vec![0; usize::try_from(tail.count).ok()?.checked_mul(ENTRY)?];
    let read = base.calls.read(segment.file.as_fd(), &mut bytes, tail.offset).ok()?;
    let entries = tail.entries(&bytes[..read], base.seed, segment.id)?;
    Some((entries, tail.offset))
}

/// Scans a file for records from beginning to end, and continues after damaged bytes.
struct Scan<'a> {
    base: &'a DiskShared,
    segment: &'a Segment,
    length: u64,
    window: Vec<u8>,
    /// The place of the window.
    from: u64,
    /// Other bytes lie between two records.
    damaged: bool,
}

impl<'a> Scan<'a> {
    fn new(base: &'a DiskShared, segment: &'a Segment, length: u64) -> Self {
        Self { base, segment, length, window: Vec::new(), from: 0, damaged: false }
    }

    /// The records, and the end of the last; `None` where the file cannot be read.
    fn run(&mut self) -> Option<(Vec<FooterEntry>, u64)> {
        let (mut at, mut end) = (START as u64, START as u64);
        let mut entries = Vec::new();
        let mut searched = false;
        while at + HEADER as u64 <= self.length {
            let place = RecordPart { seed: self.base.seed, file: self.segment.id, offset: at };
            let header = RecordHeader::read(self.bytes(at)?, place);
            let header = header.filter(|it| it.length() <= self.length - at);
            let Some(header) = header else {
                searched = true;
                at = self.search(at + UNIT)?;
                continue;
            };
            let length = header.length().next_multiple_of(UNIT);
            entries.push(found(&header, at, length)?);
            if std::mem::take(&mut searched) {
                self.damaged = true;
                self.base.counters.disk_corrupt.add_shared(1);
            }
            at += length;
            end = at;
        }
        Some((entries, end))
    }

    /// The next place from `at` where a record may begin, or the end.
    fn search(&mut self, mut at: u64) -> Option<u64> {
        while at + HEADER as u64 <= self.length {
            let bytes = self.bytes(at)?;
            let step = usize::try_from(UNIT).ok()?;
            let mut places = (0..bytes.len() - HEADER + 1).step_by(step);
            let count = places.len() as u64;
            if let Some(found) = places.find(|it| could_be_record(&bytes[*it..])) {
                return Some(at + found as u64);
            }
            at += count * UNIT;
        }
        Some(self.length)
    }

    /// The bytes of the file from `at` on: at least the length of a header, which must exist.
    fn bytes(&mut self, at: u64) -> Option<&[u8]> {
        let known = at.checked_sub(self.from).and_then(|it| usize::try_from(it).ok());
        let skip = known.filter(|it| it + HEADER <= self.window.len());
        if let Some(skip) = skip {
            return Some(&self.window[skip..]);
        }
        self.window.resize(WINDOW, 0);
        let read = self.base.calls.read(self.segment.file.as_fd(), &mut self.window, at).ok()?;
        self.window.truncate(read);
        self.from = at;
        (read >= HEADER).then_some(&self.window[..])
    }
}

fn found(header: &RecordHeader, at: u64, length: u64) -> Option<FooterEntry> {
    let size = if header.kind == RecordKind::Removal { 0 } else { u32::try_from(length / UNIT).ok()? };
    Some(FooterEntry {
        hash: header.hash,
        stamp: header.stamp,
        epoch: header.epoch,
        offset: u32::try_from(at / UNIT).ok()?,
        size,
        variant: header.variant,
        names: header.names,
    })
}
