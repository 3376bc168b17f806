//! The log: records are appended to the active segment, a full segment is sealed with a footer, and the oldest is dropped
//! whole, after its used records were appended again. Only the writer's thread has it. `writer` handles the queue and
//! failures.

use super::DiskShared;
use super::directory::Directory;
use super::index::{KnownRecord, RecordLocation, USED};
use super::parts::{self, ChecksumBuilder, ChecksumMismatch, PartChecksums, RecordedSums};
use super::segment::Segment;
use crate::device::syscalls::FailedCall;
use crate::stored_envelope;
use larder_transport::body::FileSlice;
use larder_wire::segment::{
    ENTRY, FooterEntry, HEADER, RecordHeader, RecordKind, RecordPart, START, SegmentFile, TAIL, UNIT,
    VERSION, start, write_footer,
};
use rustix::fs::OFlags;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The most segments, however small: each keeps a descriptor.
pub(crate) const MOST_SEGMENTS: usize = 2048;

/// Why a record is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// A call failed.
    Failed(FailedCall),
    /// It is larger than a segment.
    TooLarge,
    /// All room is held by readers of dropped segments.
    NoRoom,
    /// The body to copy has changed.
    Corrupt,
}

impl From<ChecksumMismatch> for NotWritten {
    fn from(ChecksumMismatch: ChecksumMismatch) -> Self {
        // A failed read is no failure of the file being written.
        NotWritten::Corrupt
    }
}

impl From<FailedCall> for NotWritten {
    fn from(it: FailedCall) -> Self {
        NotWritten::Failed(it)
    }
}

/// The source of a body to write.
#[derive(Clone, Copy)]
pub(crate) enum BodySource<'a> {
    Bytes(&'a [u8]),
    /// In a file, whose owner verifies it.
    Slice(&'a FileSlice),
}

/// The segment that is being written.
pub(crate) struct Active {
    pub segment: Arc<Segment>,
    pub end: u64,
    pub entries: Vec<FooterEntry>,
}

/// The log of one directory.
pub(crate) struct SegmentLog {
    pub base: Arc<DiskShared>,
    pub directory: Directory,
    pub active: Option<Active>,
    /// The number of the next segment.
    pub next: u32,
    /// Bytes for which the active segment was started: records appended again leave room for them.
    pub needed: u64,
    /// The last purge in the journal: every new segment notes it, so that a journal without it is recognised as damaged.
    pub purged: u64,
}

impl SegmentLog {
    /// Appends a record; `header` has the length of its head and body and, for a file, the checksum of the body.
    pub fn append(
        &mut self,
        header: &RecordHeader,
        head: &[u8],
        body: BodySource<'_>,
    ) -> Result<RecordLocation, NotWritten> {
        let needed = header.length().next_multiple_of(UNIT);
        if START as u64 + needed + (ENTRY + TAIL) as u64 > self.base.segment_size {
            return Err(NotWritten::TooLarge);
        }
        let mut active = match self.active.take() {
            Some(active) if self.has_room(&active, needed) => active,
            full => {
                self.needed = needed;
                let turned = self.rotate(full);
                self.needed = 0;
                turned?;
                self.active.take().ok_or(NotWritten::NoRoom)?
            }
        };
        let result = self.append_to(&mut active, header, head, body);
        self.active = Some(active);
        result
    }

    /// Appends a record to a segment that has room for it.
    fn append_to(
        &self,
        active: &mut Active,
        header: &RecordHeader,
        head: &[u8],
        body: BodySource<'_>,
    ) -> Result<RecordLocation, NotWritten> {
        let location = active.segment.write(|| self.write_record(active, header, head, body))?;
        let needed = header.length().next_multiple_of(UNIT);
        active.end += needed;
        active.entries.push(entry(header, location));
        if header.kind == RecordKind::Response {
            active.segment.note_epoch(header.epoch);
        }
        let listed = active.entries.capacity() * size_of::<FooterEntry>();
        self.base.listed.store(listed as u64, Relaxed);
        self.base.counters.disk_bytes_written.add_shared(needed);
        Ok(location)
    }

    /// Notes the last purge of the journal. Nothing is noted where there is no segment: the first one will.
    pub fn note_purge(&mut self) -> Result<(), NotWritten> {
        if self.base.segments.read().is_empty() {
            return Ok(());
        }
        self.append(&RecordHeader::purge_note(self.purged), &[], BodySource::Bytes(&[])).map(drop)
    }

    /// Whether a record can be written there: not to a segment that another process was seen to write to.
    fn has_room(&self, active: &Active, needed: u64) -> bool {
        let footer = (active.entries.len() + 1) * ENTRY + TAIL;
        active.end + needed + footer as u64 <= self.base.segment_size && !active.segment.was_modified()
    }

    fn write_record(
        &self,
        active: &Active,
        header: &RecordHeader,
        head: &[u8],
        body: BodySource<'_>,
    ) -> Result<RecordLocation, NotWritten> {
        let (calls, file) = (&self.base.calls, &active.segment.file);
        let place = RecordPart { seed: self.base.seed, file: active.segment.id, offset: active.end };
        let written = header.write(place);
        let needed = header.length().next_multiple_of(UNIT);
        let fill = [0; UNIT as usize];
        #[allow(clippy::cast_possible_truncation, reason = "below a unit")]
        let fill = &fill[..(needed - header.length()) as usize];
        match body {
            BodySource::Bytes(bytes) => calls.write(file, &[&written, head, bytes, fill], active.end)?,
            BodySource::Slice(slice) => {
                let at = active.end + (HEADER + head.len()) as u64;
                let mut summing = ChecksumBuilder::new(self.base.seed);
                parts::each(slice, |from_start, bytes| {
                    summing.add(bytes);
                    calls.write(file, &[bytes], at + from_start).map_err(NotWritten::Failed)
                })?;
                if summing.finish().in_header() != header.body_sum {
                    return Err(NotWritten::Corrupt);
                }
                // The header is written last: without one there is no record.
                calls.write(file, &[fill], at + slice.length)?;
                calls.write(file, &[&written, head], active.end)?;
            }
        }
        let units = |bytes: u64| u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        Ok(RecordLocation { segment: active.segment.id, offset: units(active.end), size: units(needed) })
    }

    /// Seals the full segment and starts another. Room for one more is made at once, so that records appended again from
    /// the oldest never need more than `size`.
    fn rotate(&mut self, full: Option<Active>) -> Result<(), NotWritten> {
        if let Some(full) = full
            && let Err(failed) = self.seal(&full)
        {
            // It stays unsealed, and is scanned when it is dropped.
            let _ = full.segment.seal();
            return Err(failed.into());
        }
        self.begin()?;
        while self.is_short() && self.drop_oldest(RecordRetention::IfUsed)? {}
        Ok(())
    }

    /// Starts a segment; sealed ones are dropped where there is no room for it.
    pub fn begin(&mut self) -> Result<(), NotWritten> {
        while self.is_short() {
            if !self.drop_oldest(RecordRetention::Never)? {
                return Err(NotWritten::NoRoom);
            }
        }
        let before = self.base.space.used();
        let given_back = |log: &Self| before.saturating_sub(log.base.space.used());
        loop {
            match self.create() {
                // A sealed segment is a little smaller than a new one. If the freed room would be enough, other files
                // took it.
                Err(full)
                    if full.is_full() && given_back(self) < self.base.segment_size && self.make_room()? => {}
                Err(failed) => return Err(failed.into()),
                Ok(()) => break,
            }
        }
        let device_full = &self.base.device_full;
        if self.base.segments.read().len() > device_full.load(Relaxed) {
            device_full.store(0, Relaxed);
        }
        Ok(())
    }

    /// Drops the oldest segment because the device is full though `size` is not reached. False once only a quarter of the
    /// segments is left: other files fill the device, and this directory is not to be emptied for them.
    fn make_room(&mut self) -> Result<bool, NotWritten> {
        let base = self.base.clone();
        let count = base.segments.read().len();
        let most = base.device_full.fetch_max(count, Relaxed).max(count);
        if count <= most.div_ceil(4) || !self.drop_oldest(RecordRetention::Never)? {
            return Ok(false);
        }
        base.counters.disk_device_full_drops.add_shared(1);
        Ok(true)
    }

    /// Creates a file with room for a segment, which is written from now on.
    fn create(&mut self) -> Result<(), FailedCall> {
        let (calls, directory) = (&self.base.calls, &self.directory.file);
        let (id, name) = (self.next, Segment::name(self.next));
        let file = calls.open(directory, &name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        // A name that is taken by an unknown file is never used again.
        self.next += 1;
        let file = file?;
        let place = RecordPart { seed: self.base.seed, file: id, offset: 0 };
        let begun = calls
            .allocate(&file, self.base.segment_size)
            .and_then(|()| calls.write(&file, &[&start(SegmentFile::Segment, VERSION, place)], 0));
        if let Err(failed) = begun {
            let _ = calls.unlink(directory, &name);
            return Err(failed);
        }
        let segment = Segment::new(id, file, calls.clone(), self.base.space.clone(), self.base.segment_size);
        let mut active = Active { segment: segment.clone(), end: START as u64, entries: Vec::new() };
        if self.purged > 0
            && let Err(NotWritten::Failed(failed)) = self.append_to(
                &mut active,
                &RecordHeader::purge_note(self.purged),
                &[],
                BodySource::Bytes(&[]),
            )
        {
            let _ = calls.unlink(directory, &name);
            return Err(failed);
        }
        self.base.segments.write().insert(id, segment);
        self.active = Some(active);
        Ok(())
    }

    /// Whether one more segment would be too much.
    fn is_short(&self) -> bool {
        let count = self.base.segments.read().len();
        count >= MOST_SEGMENTS || self.base.space.used() + self.base.segment_size > self.base.size
    }

    /// Writes the footer, and frees the room reserved after it.
    pub fn seal(&self, full: &Active) -> Result<(), FailedCall> {
        let (calls, segment) = (&self.base.calls, &full.segment);
        let mut footer = Vec::with_capacity(full.entries.len() * ENTRY + TAIL);
        let place = RecordPart { seed: self.base.seed, file: segment.id, offset: full.end };
        write_footer(&full.entries, place, &mut footer);
        segment.write(|| {
            calls.write(&segment.file, &[&footer], full.end)?;
            calls.truncate(&segment.file, full.end + footer.len() as u64)
        })?;
        self.base.counters.disk_bytes_written.add_shared(footer.len() as u64);
        segment.seal()
    }

    /// Leaves the active segment unsealed: a call that failed at its end may fail there for ever.
    pub fn leave_unsealed(&mut self) {
        if let Some(active) = self.active.take() {
            let segment = &active.segment;
            let _ = segment.write(|| self.base.calls.truncate(&segment.file, active.end));
            let _ = active.segment.seal();
        }
    }

    /// Drops the oldest segment that is neither written nor read; false where there is none.
    pub fn drop_oldest(&mut self, again: RecordRetention) -> Result<bool, NotWritten> {
        let active = self.active.as_ref().map(|it| it.segment.id);
        // Dropping a segment that is being read frees no room: it stays, and the next one is dropped.
        let goes = |it: &&Arc<Segment>| Some(it.id) != active && Arc::strong_count(it) == 1;
        let oldest = self.base.segments.read().values().find(goes).cloned();
        let Some(oldest) = oldest else { return Ok(false) };
        let entries = super::contents::entries(&self.base, &oldest);
        if entries.as_ref().is_none_or(|it| it.iter().any(FooterEntry::is_removal)) {
            // A removal must not be dropped before the record it removes, which may be in a segment that is being read.
            self.drop_where(|id| id < oldest.id)?;
        }
        self.base.calls.unlink(&self.directory.file, &Segment::name(oldest.id))?;
        self.base.counters.disk_segments_dropped.add_shared(1);
        let result = match entries {
            Some(entries) => self.append_used_again(&oldest, &entries, again),
            None => {
                self.base.index.remove_segment(oldest.id);
                Ok(())
            }
        };
        if result.is_err() {
            self.base.index.remove_segment(oldest.id);
        }
        self.base.segments.write().remove(&oldest.id);
        result.map(|()| true)
    }

    /// Appends used records again, at most half a segment: so every turn frees room.
    fn append_used_again(
        &mut self,
        oldest: &Arc<Segment>,
        entries: &[FooterEntry],
        again: RecordRetention,
    ) -> Result<(), NotWritten> {
        let mut share = if again == RecordRetention::IfUsed { self.base.segment_size / 2 } else { 0 };
        for it in entries.iter().filter(|it| it.is_response()) {
            let location = RecordLocation { segment: oldest.id, offset: it.offset, size: it.size };
            let known = self.base.index.get(it.hash, it.stamp).filter(|it| it.location == location);
            let Some(known) = known else { continue };
            let cost = u64::from(it.size) * UNIT + ENTRY as u64;
            if known.flags & USED != 0 && cost <= share {
                match self.append_again(oldest, it.hash, &known) {
                    Ok(()) => {
                        share -= cost;
                        continue;
                    }
                    Err(NotWritten::Corrupt) => self.base.counters.disk_corrupt.add_shared(1),
                    Err(NotWritten::Failed(it)) => return Err(it.into()),
                    Err(NotWritten::TooLarge | NotWritten::NoRoom) => share = 0,
                }
            }
            self.base.index.remove_in_segment(it.hash, it.stamp, oldest.id);
        }
        Ok(())
    }

    fn append_again(
        &mut self,
        from: &Arc<Segment>,
        hash: u64,
        known: &KnownRecord,
    ) -> Result<(), NotWritten> {
        let offset = u64::from(known.location.offset) * UNIT;
        let place = RecordPart { seed: self.base.seed, file: from.id, offset };
        let read = |bytes: &mut [u8], at| match self.base.calls.read(from.file.as_fd(), bytes, at) {
            Ok(read) if read == bytes.len() => Ok(()),
            _ => Err(NotWritten::Corrupt),
        };
        let mut bytes = [0; HEADER];
        read(&mut bytes, offset)?;
        let header =
            RecordHeader::read(&bytes, place).filter(|it| it.hash == hash && it.stamp == known.stamp);
        let header = header.ok_or(NotWritten::Corrupt)?;
        let mut head = vec![0; header.head as usize];
        read(&mut head, offset + HEADER as u64)?;
        if larder_wire::segment::sum(self.base.seed, &head) != header.head_sum {
            return Err(NotWritten::Corrupt);
        }
        let needed = header.length().next_multiple_of(UNIT);
        let both = needed + self.needed + ENTRY as u64;
        if !self.active.as_ref().is_some_and(|it| self.has_room(it, both)) {
            return Err(NotWritten::NoRoom);
        }
        let at = offset + HEADER as u64 + u64::from(header.head);
        let behind = stored_envelope::read(&head).ok_or(NotWritten::Corrupt)?.1;
        let parts = PartChecksums::read(self.base.seed, &header, behind).ok_or(NotWritten::Corrupt)?;
        let body = RecordedSums::slice(&self.base, from.clone(), at, Arc::new(parts), (hash, known.stamp));
        let to = self.append(&header, &head, BodySource::Slice(&body))?;
        if self.base.index.moved(hash, known.stamp, known.location, to) {
            self.base.counters.disk_reappended.add_shared(1);
        }
        Ok(())
    }

    /// The epoch of the oldest response that may be kept.
    pub fn oldest_epoch(&self) -> u64 {
        let segments = self.base.segments.read();
        segments.values().map(|it| it.oldest_epoch()).min().unwrap_or(u64::MAX)
    }

    /// Drops segments with their records, also while they are read.
    fn drop_where(&mut self, goes: impl Fn(u32) -> bool) -> Result<(), FailedCall> {
        let ids: Vec<u32> = self.base.segments.read().keys().copied().filter(|it| goes(*it)).collect();
        for id in ids {
            self.base.calls.unlink(&self.directory.file, &Segment::name(id))?;
            self.base.index.remove_segment(id);
            self.base.segments.write().remove(&id);
            self.base.counters.disk_segments_dropped.add_shared(1);
        }
        Ok(())
    }

    /// Drops everything.
    pub fn drop_all(&mut self) -> Result<(), FailedCall> {
        self.leave_unsealed();
        self.base.index.clear();
        self.drop_where(|_| true)
    }
}

/// The treatment of the records of a dropped segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordRetention {
    /// Used ones are appended again.
    IfUsed,
    /// They are dropped.
    Never,
}

fn entry(header: &RecordHeader, location: RecordLocation) -> FooterEntry {
    FooterEntry {
        hash: header.hash,
        stamp: header.stamp,
        epoch: header.epoch,
        offset: location.offset,
        size: if header.kind == RecordKind::Removal { 0 } else { location.size },
        variant: header.variant,
        names: header.names,
    }
}
