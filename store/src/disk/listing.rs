//! Listing of the records on the disk. The index has no keys, but sizes, the order of writing and uses, so these orders
//! are exact and cost a walk over the index. A search reads heads in that order, as many as the time allows; the next
//! page continues behind them. This module has no JSON.

pub use super::index::MOST_HITS;
use super::index::{KnownRecord, SlotSummary};
use super::segment::Segment;
use super::{DiskShared, DiskTier};
use crate::entry::{Stored, StoredBody};
use crate::listing::{ListingQuery, MOST, SortDirection};
use crate::ram::Store;
use crate::stored_envelope;
use larder_semantics::tags;
use larder_stdx::clock::precise_micros;
use larder_transport::body::FileSlice;
use larder_wire::envelope::Envelope;
use larder_wire::segment::{HEADER, RecordHeader, RecordKind, RecordPart as Spot, UNIT, sum};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The most keys of one page: the walk over the index keeps this number of places.
const CANDIDATES: usize = 32 << 10;

/// Keys that are read however late it is: every page makes progress.
const LEAST: u64 = 16;

/// Bytes of a record in the first read: most heads are shorter.
const FIRST: u64 = 1024;

/// The order of a listing; equal entries are ordered by the time of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskListingSort {
    /// The time at which the newest variant was written; a record copied from an old segment keeps its place.
    Written,
    /// Bytes of all variants on the disk, heads included.
    Size,
    /// The number of answers from the disk since larder started, at most [`MOST_HITS`] per variant.
    Hits,
}

/// The keys of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKeySelection {
    /// All keys on the disk.
    OnDisk,
    /// Those that are not in RAM.
    OnDiskAlone,
}

/// A query for a page of entries on disk.
pub type DiskListingQuery = ListingQuery<DiskListingSort, DiskListingCursor>;

/// A place in a sorted listing, which stays valid after writes, removals and a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskListingCursor {
    /// The sort value.
    pub rank: u64,
    /// The number of the newest record.
    pub stamp: u64,
}

/// Names the records under one key, for the lifetime of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEntryId(pub u64);

/// The records under one key.
pub struct DiskKeyEntries {
    /// Its name.
    pub id: DiskEntryId,
    /// The key.
    pub key: Box<[u8]>,
    /// The number of answers from the disk, see [`DiskListingSort::Hits`].
    pub hits: u64,
    /// Newest first, at least one; their bodies are slices of the segments and were not verified.
    pub variants: Vec<Stored>,
}

/// A page of a listing.
pub struct DiskListingPage {
    /// Keys on the disk.
    pub keys: u64,
    /// Keys whose heads were read for this page.
    pub heads_read: u64,
    /// Keys that were not read: they come after it.
    pub left: u64,
    /// The entries found.
    pub listed: Vec<DiskKeyEntries>,
    /// The place after which the next page begins; `None` at the end.
    pub next: Option<DiskListingCursor>,
}

impl DiskTier {
    /// Lists the records on the disk to which no purge known to `store` applies. Reads on this thread, which may wait for
    /// the device: until the monotonic microsecond `until`, and a little longer where hardly anything was read. No use is
    /// counted, and unreadable records are not removed.
    #[must_use]
    pub fn list(
        &self,
        store: &Store,
        query: &DiskListingQuery,
        those: DiskKeySelection,
        until: u64,
    ) -> DiskListingPage {
        let walk = DiskIndexWalk::new(self.base(), query);
        let limit = query.limit.clamp(1, MOST);
        let (mut looked_at, mut last, mut listed) = (0, None, Vec::new());
        for it in &walk.best {
            if listed.len() == limit || (looked_at >= LEAST && precise_micros() >= until) {
                break;
            }
            looked_at += 1;
            last = Some(walk.place(*it));
            listed.extend(self.matching(store, query, those, it.hash));
        }
        let left = walk.behind - looked_at;
        DiskListingPage {
            keys: walk.keys,
            heads_read: looked_at,
            left,
            listed,
            next: last.filter(|_| left > 0),
        }
    }

    /// The records under one key, without purged ones. Reads on this thread.
    #[must_use]
    pub fn inspect(&self, store: &Store, id: DiskEntryId) -> Option<DiskKeyEntries> {
        self.found(store, id.0, |_| true)
    }

    /// Keys with at least one record.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.base().index.keys()
    }

    fn matching(
        &self,
        store: &Store,
        query: &DiskListingQuery,
        those: DiskKeySelection,
        hash: u64,
    ) -> Option<DiskKeyEntries> {
        let ListingQuery { pattern, tag, status, .. } = query;
        let is_of_those = |key: &[u8]| {
            pattern.as_ref().is_none_or(|it| it.is_in(key))
                && (those == DiskKeySelection::OnDisk || store.inspect(store.hash(key)).is_none())
        };
        let found = self.found(store, hash, is_of_those)?;
        let has_status = status.as_ref().is_none_or(|it| it.contains(&found.variants[0].meta.status));
        let has_tag = |it: &Stored, tag| it.tags().contains(&tag) || tags::are_every(it.tags());
        let tag = tag.as_deref().map(tags::hash);
        let has_tag = tag.is_none_or(|tag| found.variants.iter().any(|it| has_tag(it, tag)));
        (has_status && has_tag).then_some(found)
    }

    /// The records under a hash, without purged ones, if their key is asked for.
    pub(super) fn found(
        &self,
        store: &Store,
        hash: u64,
        is_asked_for: impl Fn(&[u8]) -> bool,
    ) -> Option<DiskKeyEntries> {
        let base = self.base();
        let mut found: Option<DiskKeyEntries> = None;
        for known in base.index.find(hash) {
            let Some((envelope, body)) = read(base, hash, &known) else { continue };
            let key = envelope.key.clone();
            match &found {
                None if !is_asked_for(&key) => return None,
                // Two keys with the same hash, which occurs in less than one of a million directories: the newer is
                // shown.
                Some(it) if it.key != key => continue,
                _ => {}
            }
            let Some(stored) =
                store.admit(&key, stored_envelope::stored(envelope, StoredBody::Disk(Box::new(body))))
            else {
                continue;
            };
            let hits = base.index.hits(hash);
            let found = found.get_or_insert_with(|| DiskKeyEntries {
                id: DiskEntryId(hash),
                key,
                hits,
                variants: Vec::new(),
            });
            found.variants.push(stored);
        }
        found
    }
}

/// The verified head of a record, and the place of its body.
fn read(base: &DiskShared, hash: u64, known: &KnownRecord) -> Option<(Envelope, FileSlice)> {
    let segment = base.segments.read().get(&known.location.segment).cloned()?;
    let at = u64::from(known.location.offset) * UNIT;
    let mut bytes = bytes(base, &segment, at, FIRST.min(u64::from(known.location.size) * UNIT))?;
    let header = RecordHeader::read(&bytes, Spot { seed: base.seed, file: segment.id, offset: at })?;
    if header.kind != RecordKind::Response || header.hash != hash || header.stamp != known.stamp {
        return None;
    }
    let needed = HEADER + header.head as usize;
    if let Some(more) = needed.checked_sub(bytes.len()).filter(|it| *it > 0) {
        let rest = self::bytes(base, &segment, at + bytes.len() as u64, more as u64)?;
        bytes.extend_from_slice(&rest);
    }
    let written = bytes.get(HEADER..needed)?;
    let envelope = stored_envelope::read(written).filter(|_| sum(base.seed, written) == header.head_sum)?.0;
    let slice = FileSlice { owner: segment, offset: at + needed as u64, length: header.body };
    Some((envelope, slice))
}

fn bytes(base: &DiskShared, segment: &Arc<Segment>, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read = base.calls.read(segment.file.as_fd(), &mut bytes, at).ok()?;
    (read == bytes.len()).then_some(bytes)
}

/// A key of the index and its place in the requested order: the smaller first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u64,
    stamp: u64,
    hash: u64,
}

/// A walk over the index.
struct DiskIndexWalk<'a> {
    query: &'a DiskListingQuery,
    after: Option<(u64, u64)>,
    keys: u64,
    /// Keys behind [`DiskListingQuery::after`].
    behind: u64,
    /// The first of them.
    best: Vec<Candidate>,
    /// The last of `best`, once it is full.
    worst: Option<Candidate>,
}

impl<'a> DiskIndexWalk<'a> {
    fn new(base: &DiskShared, query: &'a DiskListingQuery) -> Self {
        let mut walk =
            DiskIndexWalk { query, after: None, keys: 0, behind: 0, best: Vec::new(), worst: None };
        walk.after = query.after.map(|it| walk.inverted((it.rank, it.stamp)));
        base.index.each_key(&mut walk, DiskIndexWalk::consider, DiskIndexWalk::keep_best);
        walk.best.sort_unstable();
        walk.best.truncate(CANDIDATES);
        walk
    }

    fn consider(&mut self, it: SlotSummary) {
        self.keys += 1;
        let rank = match self.query.sort {
            DiskListingSort::Written => it.stamp,
            DiskListingSort::Size => it.units,
            DiskListingSort::Hits => it.hits,
        };
        let (rank, stamp) = self.inverted((rank, it.stamp));
        if self.after.is_some_and(|after| (rank, stamp) <= after) {
            return;
        }
        self.behind += 1;
        let candidate = Candidate { rank, stamp, hash: it.hash };
        if self.worst.is_none_or(|worst| candidate < worst) {
            self.best.push(candidate);
        }
    }

    fn keep_best(&mut self) {
        if self.best.len() >= 2 * CANDIDATES {
            let (_, worst, _) = self.best.select_nth_unstable(CANDIDATES - 1);
            self.worst = Some(*worst);
            self.best.truncate(CANDIDATES);
        }
    }

    /// Inverts a place so that the first in the order is smallest; and back.
    fn inverted(&self, (rank, stamp): (u64, u64)) -> (u64, u64) {
        match self.query.order {
            SortDirection::Ascending => (rank, stamp),
            SortDirection::Descending => (!rank, !stamp),
        }
    }

    fn place(&self, it: Candidate) -> DiskListingCursor {
        let (rank, stamp) = self.inverted((it.rank, it.stamp));
        DiskListingCursor { rank, stamp }
    }
}
