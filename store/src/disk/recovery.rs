//! Opening a directory: footers of sealed segments are read; a segment without one is scanned header by header. Bodies
//! are not read: they are verified on first use.

use super::DiskShared;
use super::directory::Directory;
use super::index::{KnownRecord, RecordLocation};
use super::log::{Active, RecordRetention, SegmentLog};
use super::segment::Segment;
use crate::device::syscalls::FailedCall;
use larder_wire::segment::{
    ENTRY, FooterEntry, FooterTail, HEADER, RecordHeader, RecordKind, RecordPart, START, SegmentFile, TAIL,
    UNIT, VERSION, could_be_record, is_start,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Bytes that a scan reads at once.
const WINDOW: usize = 128 << 10;

/// The content of a directory.
pub(crate) struct Recovered {
    pub log: SegmentLog,
    /// The highest stamp.
    pub stamp: u64,
    /// The highest epoch and noted purge: no number up to it may be used again.
    pub epoch: u64,
    /// Data is missing, perhaps a removal.
    pub damaged: bool,
}

/// The content of one segment.
struct SegmentContents {
    entries: Vec<FooterEntry>,
    /// The end of its records.
    end: u64,
    sealed: bool,
    damaged: bool,
}

/// Reads everything in the directory. Files that are not larder's segments are removed, and so are unreadable segments.
pub(crate) fn recover(base: &Arc<DiskShared>, directory: Directory) -> Result<Recovered, FailedCall> {
    let mut ids: Vec<u32> = directory.names.iter().filter_map(|it| Segment::number(it)).collect();
    ids.sort_unstable();
    let next = ids.last().map_or(1, |it| it.saturating_add(1));
    let log = SegmentLog { base: base.clone(), directory, active: None, next, needed: 0, purged: 0 };
    let mut found = Recovered { log, stamp: 0, epoch: 0, damaged: false };
    for id in &ids {
        let is_last = Some(id) == ids.last();
        found.take(*id, is_last)?;
    }
    // The configured size may be smaller now.
    while base.space.used() > base.size && matches!(found.log.drop_oldest(RecordRetention::Never), Ok(true)) {
    }
    Ok(found)
}

impl Recovered {
    fn take(&mut self, id: u32, is_last: bool) -> Result<(), FailedCall> {
        let base = self.log.base.clone();
        let name = Segment::name(id);
        let file = match base.calls.open(&self.log.directory.file, &name, OFlags::RDWR | OFlags::NONBLOCK) {
            Ok(file) => file,
            // A directory, a link or a foreign file: neither read nor removed.
            Err(it) if matches!(it.errno, Errno::ISDIR | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => {
                return Ok(());
            }
            // Without a descriptor or memory the state of the file is unknown.
            Err(it) => return Err(it),
        };
        if !base.calls.stat(file.as_fd())?.is_file {
            return Ok(());
        }
        let segment = Segment::new(id, file, base.calls.clone(), base.space.clone(), 0);
        let Some(contents) = contents(&base, &segment) else {
            base.counters.disk_corrupt.add_shared(1);
            self.damaged = true;
            return base.calls.unlink(&self.log.directory.file, &name);
        };
        for it in &contents.entries {
            self.stamp = self.stamp.max(it.stamp);
            self.epoch = self.epoch.max(it.epoch);
            enter(&base, id, it);
            if it.is_response() {
                segment.note_epoch(it.epoch);
            }
        }
        base.segments.write().insert(id, segment.clone());
        // Only the last segment of a killed process has no footer, and it is complete up to its end.
        self.damaged |= contents.damaged || !(contents.sealed || is_last);
        if contents.sealed {
            return segment.seal();
        }
        // Bytes after the last complete record were being written when the process was killed.
        segment.write(|| base.calls.truncate(&segment.file, contents.end))?;
        segment.charge(contents.end);
        let active = Active { segment: segment.clone(), end: contents.end, entries: contents.entries };
        let room = base.segment_size / 2 > contents.end && base.space.used() + base.segment_size <= base.size;
        if is_last && room {
            segment.write(|| base.calls.allocate(&segment.file, base.segment_size))?;
            segment.charge(base.segment_size);
            self.log.active = Some(active);
            return Ok(());
        }
        self.log.seal(&active)
    }
}

fn enter(base: &DiskShared, segment: u32, it: &FooterEntry) {
    if !it.is_response() {
        return base.index.replay_removal(it.hash, it.variant, it.stamp);
    }
    let location = RecordLocation { segment, offset: it.offset, size: it.size };
    let known = KnownRecord { location, stamp: it.stamp, variant: it.variant, names: it.names, flags: 0 };
    base.index.put(it.hash, &known);
}

/// The records of a segment, from its footer or a scan; `None` where it is not larder's.
pub(crate) fn entries(base: &DiskShared, segment: &Segment) -> Option<Vec<FooterEntry>> {
    contents(base, segment).map(|it| it.entries)
}

fn contents(base: &DiskShared, segment: &Segment) -> Option<SegmentContents> {
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
