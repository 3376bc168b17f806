//! The records on the disk and their places: 24 bytes per response under 64 bits of its key's hash. Two keys with the
//! same hash share a slot; readers compare the key in the record. This module knows no files.

use crate::s3fifo::table_bytes;
use larder_stdx::identity_hasher::IdentityHasher;
use larder_wire::segment::UNIT;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Shards: a power of two.
const SHARDS: usize = 64;

/// The number of remembered removals, by the key's hash: a power of two. If two keys share a slot, removing the one also
/// drops the other's queued writes, nothing more.
const REMOVALS: usize = 4096;

/// The most variants of one key; beyond, the oldest is dropped.
const VARIANTS: usize = 32;

/// It was used since it was written to its place.
pub(crate) const USED: u64 = 2;
/// One use in the flags, which count up to [`MOST_HITS`].
const HIT: u64 = 4;

/// The most uses that are counted for one record. Six bits are left next to the stamp, and one more byte would cost eight
/// for every response.
pub const MOST_HITS: u64 = 63;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    /// The segment's number.
    pub segment: u32,
    /// The beginning of its header, in units.
    pub offset: u32,
    /// Its length, in units.
    pub size: u32,
}

/// The index's facts about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownRecord {
    pub location: RecordLocation,
    /// Its number; below 2^40.
    pub stamp: u64,
    /// The hash of its key, names and variant.
    pub variant: u32,
    /// The hash of its `Vary` names; zero without any.
    pub names: u16,
    /// [`USED`], and above it the number of uses; the lowest bit is free.
    pub flags: u64,
}

impl KnownRecord {
    /// Whether a removal of one variant, or of all where that is zero, applies to this record.
    fn is_removed_by(&self, variant: u32, stamp: u64) -> bool {
        self.stamp < stamp && (variant == 0 || self.variant == variant)
    }
}

/// The index's summary of everything under one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotSummary {
    pub hash: u64,
    /// The stamp of the newest.
    pub stamp: u64,
    /// Units of all records.
    pub units: u64,
    /// Uses of all records, each [`MOST_HITS`] at most.
    pub hits: u64,
}

struct DiskEntry {
    location: RecordLocation,
    variant: u32,
    /// Stamp (40 bits), names (16), flags (8).
    mark: AtomicU64,
}

impl DiskEntry {
    fn new(it: &KnownRecord) -> DiskEntry {
        let mark = it.stamp << 24 | u64::from(it.names) << 8 | it.flags;
        DiskEntry { location: it.location, variant: it.variant, mark: AtomicU64::new(mark) }
    }

    fn stamp(&self) -> u64 {
        self.mark.load(Relaxed) >> 24
    }

    fn hits(&self) -> u64 {
        (self.mark.load(Relaxed) & 0xff) / HIT
    }

    fn known(&self) -> KnownRecord {
        let mark = self.mark.load(Relaxed);
        KnownRecord {
            location: self.location,
            stamp: mark >> 24,
            variant: self.variant,
            #[allow(clippy::cast_possible_truncation, reason = "these 16 bits are the names")]
            names: (mark >> 8) as u16,
            flags: mark & 0xff,
        }
    }
}

/// Everything under one hash, newest first.
struct DiskSlot {
    newest: DiskEntry,
    #[allow(clippy::box_collection, reason = "8 bytes where most have none")]
    others: Option<Box<Vec<DiskEntry>>>,
}

impl DiskSlot {
    fn entries(&self) -> impl Iterator<Item = &DiskEntry> {
        std::iter::once(&self.newest).chain(self.others.iter().flat_map(|it| it.iter()))
    }

    fn summary(&self, hash: u64) -> SlotSummary {
        let sum = |of: fn(&DiskEntry) -> u64| self.entries().map(of).sum();
        let units = sum(|it| u64::from(it.location.size));
        SlotSummary { hash, stamp: self.newest.stamp(), units, hits: sum(DiskEntry::hits) }
    }

    fn heap_bytes(&self) -> u64 {
        let heap = |it: &Vec<DiskEntry>| size_of::<Vec<DiskEntry>>() + it.capacity() * size_of::<DiskEntry>();
        self.others.as_ref().map_or(0, |it| heap(it) as u64)
    }
}

type Shard = HashMap<u64, DiskSlot, BuildHasherDefault<IdentityHasher>>;

/// The writes in the queue under the hash of a variant that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingNames {
    /// No write.
    Nothing,
    /// Responses with the same `Vary` names as the one that the removal is for.
    SameNames,
    /// Responses with other names as well.
    OtherNames,
}

/// The result of adding a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexPut {
    /// It was added.
    Inserted,
    /// Its key was removed, or a newer record is there.
    Superseded,
}

/// The index of the disk tier.
pub(crate) struct Index {
    shards: Box<[RwLock<Shard>]>,
    /// The stamps of the last removals.
    removed: Box<[AtomicU64]>,
    objects: AtomicU64,
    /// Bytes of all `others`.
    others_bytes_sum: AtomicU64,
}

impl Index {
    pub fn new() -> Index {
        Index {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            removed: (0..REMOVALS).map(|_| AtomicU64::new(0)).collect(),
            objects: AtomicU64::new(0),
            others_bytes_sum: AtomicU64::new(0),
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits that the table within does not use")]
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 40) as usize & (SHARDS - 1)]
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn removed(&self, hash: u64, variant: u32) -> &AtomicU64 {
        &self.removed[((hash >> 20) ^ u64::from(variant)) as usize & (REMOVALS - 1)]
    }

    pub fn contains(&self, hash: u64) -> bool {
        self.shard(hash).read().contains_key(&hash)
    }

    /// Bytes of the newest record under a hash; zero where there is none.
    pub fn newest_size(&self, hash: u64) -> u64 {
        let units = self.shard(hash).read().get(&hash).map_or(0, |it| it.newest.location.size);
        u64::from(units) * UNIT
    }

    /// Everything under a hash, newest first.
    pub fn find(&self, hash: u64) -> Vec<KnownRecord> {
        let shard = self.shard(hash).read();
        shard.get(&hash).map_or_else(Vec::new, |it| it.entries().map(DiskEntry::known).collect())
    }

    /// The record with this stamp, if it is still there.
    pub fn get(&self, hash: u64, stamp: u64) -> Option<KnownRecord> {
        let shard = self.shard(hash).read();
        shard.get(&hash)?.entries().find(|it| it.stamp() == stamp).map(DiskEntry::known)
    }

    /// Counts a use of the record with this stamp; false where it is gone.
    pub fn note_use(&self, hash: u64, stamp: u64) -> bool {
        let shard = self.shard(hash).read();
        let found = shard.get(&hash).and_then(|it| it.entries().find(|it| it.stamp() == stamp));
        if let Some(entry) = found {
            // A saturated count is not written again.
            let _ = entry.mark.fetch_update(Relaxed, Relaxed, |mark| {
                let more = if (mark & 0xff) / HIT < MOST_HITS { mark + HIT } else { mark } | USED;
                (more != mark).then_some(more)
            });
        }
        found.is_some()
    }

    /// Visits the records of every key, one shard of the index after the other, each under its shared lock; `between` is
    /// called after each without a lock.
    pub fn each_key<T>(
        &self,
        of: &mut T,
        mut see: impl FnMut(&mut T, SlotSummary),
        mut between: impl FnMut(&mut T),
    ) {
        for shard in &self.shards {
            let shard = shard.read();
            shard.iter().for_each(|(hash, slot)| see(of, slot.summary(*hash)));
            drop(shard);
            between(of);
        }
    }

    /// The uses of everything under a hash, each record [`MOST_HITS`] at most.
    pub fn hits(&self, hash: u64) -> u64 {
        self.shard(hash).read().get(&hash).map_or(0, |it| it.summary(hash).hits)
    }

    /// Whether a record of a variant with this stamp would be too late.
    pub fn is_late(&self, hash: u64, variant: u32, stamp: u64) -> bool {
        [0, variant].iter().any(|it| stamp < self.removed(hash, *it).load(Relaxed))
    }

    /// Adds a record in place of older ones of the same variant; one that does not vary replaces all older ones, since it
    /// answers every request from now on.
    pub fn put(&self, hash: u64, new: &KnownRecord) -> IndexPut {
        let mut shard = self.shard(hash).write();
        if self.is_late(hash, new.variant, new.stamp) {
            return IndexPut::Superseded;
        }
        self.change(&mut shard, hash, |entries| {
            let is_behind = |it: &DiskEntry| {
                it.stamp() >= new.stamp && (it.variant == new.variant || it.known().names == 0)
            };
            if entries.iter().any(is_behind) {
                return IndexPut::Superseded;
            }
            entries.retain(|it| it.stamp() > new.stamp || (new.names != 0 && it.variant != new.variant));
            let at = entries.iter().position(|it| it.stamp() < new.stamp).unwrap_or(entries.len());
            entries.insert(at, DiskEntry::new(new));
            entries.truncate(VARIANTS);
            IndexPut::Inserted
        })
    }

    /// A record was copied to another place; false where it is gone.
    pub fn moved(&self, hash: u64, stamp: u64, from: RecordLocation, to: RecordLocation) -> bool {
        let mut shard = self.shard(hash).write();
        let Some(slot) = shard.get_mut(&hash) else { return false };
        let others = slot.others.iter_mut().flat_map(|it| it.iter_mut());
        let mut all = std::iter::once(&mut slot.newest).chain(others);
        let Some(entry) = all.find(|it| it.stamp() == stamp && it.location == from) else { return false };
        entry.location = to;
        *entry.mark.get_mut() &= !USED;
        true
    }

    /// Removes everything under a hash that is older than `stamp`, and makes later additions with an older stamp fail.
    /// Returns the number.
    pub fn remove(&self, hash: u64, stamp: u64) -> usize {
        let mut shard = self.shard(hash).write();
        self.removed(hash, 0).fetch_max(stamp, Relaxed);
        self.remove_where(&mut shard, hash, |it| it.stamp < stamp)
    }

    /// Removes one variant under a hash, or all where `variant` is zero, that is older than `stamp`, and drops the writes that wait
    /// there: those of the variant, or all where some vary on other names. Returns the number.
    pub fn remove_variant(&self, hash: u64, variant: u32, stamp: u64, waiting: WaitingNames) -> usize {
        let mut shard = self.shard(hash).write();
        match waiting {
            WaitingNames::Nothing => {}
            WaitingNames::SameNames => _ = self.removed(hash, variant).fetch_max(stamp, Relaxed),
            WaitingNames::OtherNames => _ = self.removed(hash, 0).fetch_max(stamp, Relaxed),
        }
        self.remove_where(&mut shard, hash, |it| it.is_removed_by(variant, stamp))
    }

    /// Applies a removal of an earlier process.
    pub fn replay_removal(&self, hash: u64, variant: u32, stamp: u64) {
        self.remove_where(&mut self.shard(hash).write(), hash, |it| it.is_removed_by(variant, stamp));
    }

    /// Removes a record if it is in that segment.
    pub fn remove_in_segment(&self, hash: u64, stamp: u64, segment: u32) -> bool {
        let is_it = |it: &KnownRecord| it.stamp == stamp && it.location.segment == segment;
        self.remove_where(&mut self.shard(hash).write(), hash, is_it) > 0
    }

    /// Removes all records of a segment that can no longer be listed.
    pub fn remove_segment(&self, segment: u32) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let is_in = |it: &DiskSlot| it.entries().any(|it| it.location.segment == segment);
            let hashes: Vec<u64> = shard.iter().filter(|it| is_in(it.1)).map(|it| *it.0).collect();
            for hash in hashes {
                self.remove_where(&mut shard, hash, |it| it.location.segment == segment);
            }
        }
    }

    /// Removes everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.write());
            let (objects, beside) =
                gone.values().fold((0, 0), |sum, it| (sum.0 + it.entries().count(), sum.1 + it.heap_bytes()));
            self.objects.fetch_sub(objects as u64, Relaxed);
            self.others_bytes_sum.fetch_sub(beside, Relaxed);
        }
    }

    pub fn keys(&self) -> u64 {
        self.shards.iter().map(|it| it.read().len() as u64).sum()
    }

    pub fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Bytes of RAM.
    pub fn memory(&self) -> u64 {
        let table = |it: &RwLock<Shard>| table_bytes::<(u64, DiskSlot)>(it.read().capacity()) as u64;
        let fixed = size_of::<RwLock<Shard>>() * SHARDS + size_of::<AtomicU64>() * REMOVALS;
        fixed as u64 + self.shards.iter().map(table).sum::<u64>() + self.others_bytes_sum.load(Relaxed)
    }

    fn remove_where(&self, shard: &mut Shard, hash: u64, is_gone: impl Fn(&KnownRecord) -> bool) -> usize {
        if !shard.get(&hash).is_some_and(|it| it.entries().any(|it| is_gone(&it.known()))) {
            return 0;
        }
        let gone = self.change(shard, hash, |entries| {
            let before = entries.len();
            entries.retain(|it| !is_gone(&it.known()));
            before - entries.len()
        });
        if shard.capacity() > 4 * shard.len().max(64) {
            shard.shrink_to(2 * shard.len());
        }
        gone
    }

    /// Changes the entries under a hash, newest first, and updates the sums.
    fn change<T>(&self, shard: &mut Shard, hash: u64, change: impl FnOnce(&mut Vec<DiskEntry>) -> T) -> T {
        let mut entries = Vec::new();
        if let Some(slot) = shard.remove(&hash) {
            self.others_bytes_sum.fetch_sub(slot.heap_bytes(), Relaxed);
            entries.push(slot.newest);
            entries.extend(slot.others.into_iter().flat_map(|it| *it));
        }
        let before = entries.len() as u64;
        let result = change(&mut entries);
        self.objects.fetch_add(entries.len() as u64, Relaxed);
        self.objects.fetch_sub(before, Relaxed);
        let mut entries = entries.into_iter();
        if let Some(newest) = entries.next() {
            let others: Vec<DiskEntry> = entries.collect();
            let slot = DiskSlot { newest, others: (!others.is_empty()).then(|| Box::new(others)) };
            self.others_bytes_sum.fetch_add(slot.heap_bytes(), Relaxed);
            shard.insert(hash, slot);
        }
        result
    }
}
