//! Opening a directory: `contents` reads the list of records of each segment. Bodies are not read: they are verified on
//! first use.

use super::DiskShared;
use super::contents::contents;
use super::directory::Directory;
use super::index::{KnownRecord, RecordLocation};
use super::log::{Active, RecordRetention, SegmentLog};
use super::segment::Segment;
use crate::device::syscalls::FailedCall;
use larder_wire::segment::FooterEntry;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;

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
