//! What lies on the disk, listed. The index has no keys: it knows how large everything is, in which order it was written
//! and how often it was used, so these orders are exact and cost a walk over the index. What is searched for is found by
//! reading heads in that order, as many as the time allows; the next page goes on behind them. JSON is not here.

pub use super::index::MOST_HITS;
use super::index::{KnownRecord, SlotSummary};
use super::segment::Segment;
use super::{DiskShared, DiskTier, head};
use crate::entry::{Stored, StoredBody};
use crate::listing::{ListingQuery, MOST, SortDirection};
use crate::ram::Store;
use larder_semantics::tags;
use larder_stdx::clock::precise_micros;
use larder_transport::body::FileSlice;
use larder_wire::envelope::Envelope;
use larder_wire::segment::{HEADER, RecordHeader, RecordKind, RecordPart as Spot, UNIT, sum};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Keys that one page looks at, at most: so many places are held while the index is walked over.
const CANDIDATES: usize = 32 << 10;

/// Keys that are looked at however late it is: every page comes further.
const LEAST: u64 = 16;

/// Bytes of a record that are read at first: most heads are shorter.
const FIRST: u64 = 1024;

/// By what a listing is sorted; what is equal there, by when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskListingSort {
    /// When the newest variant was written; what was written again from an old segment stays where it was.
    Written,
    /// Bytes of all variants as they lie there, heads included.
    Size,
    /// How often it was answered from the disk since larder was started, at most [`MOST_HITS`] of each variant.
    Hits,
}

/// Of which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Those {
    /// Of all that are on the disk.
    OnDisk,
    /// Of those that RAM has not.
    OnDiskAlone,
}

/// A query for a page of entries on disk.
pub type DiskListingQuery = ListingQuery<DiskListingSort, DiskListingCursor>;

/// A place in a sorted listing: it means the same after anything was written or removed, and after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskListingCursor {
    /// What it was sorted by.
    pub rank: u64,
    /// The number of the newest record.
    pub stamp: u64,
}

/// Names what is kept under one key, for as long as the directory lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEntryId(pub u64);

/// What is kept under one key.
pub struct DiskKeyEntries {
    /// Its name.
    pub id: DiskEntryId,
    /// The key.
    pub key: Box<[u8]>,
    /// How often it was answered from the disk, see [`DiskListingSort::Hits`].
    pub hits: u64,
    /// Newest first, at least one; their bodies are slices of the segments and were not verified.
    pub variants: Vec<Stored>,
}

/// A page of a listing.
pub struct DiskListingPage {
    /// Keys on the disk.
    pub keys: u64,
    /// Keys whose heads were read for this page.
    pub looked_at: u64,
    /// Keys that were not: they come behind it.
    pub left: u64,
    /// What was found.
    pub listed: Vec<DiskKeyEntries>,
    /// Behind what the next page begins; `None` where nothing is left.
    pub next: Option<DiskListingCursor>,
}

impl DiskTier {
    /// Lists what is on the disk and stands as `store` knows purges. Reads on this thread, which may wait for the
    /// device: until the monotonic microsecond `until`, and a little longer where hardly anything was read by then. No
    /// use is noted, and nothing is forgotten that cannot be read.
    #[must_use]
    pub fn list(&self, store: &Store, query: &DiskListingQuery, those: Those, until: u64) -> DiskListingPage {
        let walk = DiskIndexWalk::over(self.base(), query);
        let limit = query.limit.clamp(1, MOST);
        let (mut looked_at, mut last, mut listed) = (0, None, Vec::new());
        for it in &walk.best {
            if listed.len() == limit || (looked_at >= LEAST && precise_micros() >= until) {
                break;
            }
            looked_at += 1;
            last = Some(walk.place(*it));
            listed.extend(self.asked_for(store, query, those, it.hash));
        }
        let left = walk.behind - looked_at;
        DiskListingPage { keys: walk.keys, looked_at, left, listed, next: last.filter(|_| left > 0) }
    }

    /// What is kept under one key, as far as purges leave it. Reads on this thread.
    #[must_use]
    pub fn inspect(&self, store: &Store, id: DiskEntryId) -> Option<DiskKeyEntries> {
        self.found(store, id.0, |_| true)
    }

    /// Keys under which something is kept.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.base().index.keys()
    }

    fn asked_for(
        &self,
        store: &Store,
        query: &DiskListingQuery,
        those: Those,
        hash: u64,
    ) -> Option<DiskKeyEntries> {
        let ListingQuery { pattern, tag, status, .. } = query;
        let is_of_those = |key: &[u8]| {
            pattern.as_ref().is_none_or(|it| it.is_in(key))
                && (those == Those::OnDisk || store.inspect(store.hash(key)).is_none())
        };
        let found = self.found(store, hash, is_of_those)?;
        let has_status = status.as_ref().is_none_or(|it| it.contains(&found.variants[0].meta.status));
        let has_tag = |it: &Stored, tag| it.tags().contains(&tag) || tags::are_every(it.tags());
        let tag = tag.as_deref().map(tags::hash);
        let has_tag = tag.is_none_or(|tag| found.variants.iter().any(|it| has_tag(it, tag)));
        (has_status && has_tag).then_some(found)
    }

    fn found(
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
                // Two keys of one hash, of which there is less than one in a million directories: the newer is shown.
                Some(it) if it.key != key => continue,
                _ => {}
            }
            let Some(stored) = store.admit(&key, head::stored(envelope, StoredBody::Disk(Box::new(body))))
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

/// The head of a record, verified, and where its body lies.
fn read(base: &DiskShared, hash: u64, known: &KnownRecord) -> Option<(Envelope, FileSlice)> {
    let segment = base.segments.read().get(&known.spot.segment).cloned()?;
    let at = u64::from(known.spot.offset) * UNIT;
    let mut bytes = bytes(base, &segment, at, FIRST.min(u64::from(known.spot.size) * UNIT))?;
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
    let envelope = head::read(written).filter(|_| sum(base.seed, written) == header.head_sum)?.0;
    let slice = FileSlice { owner: segment, offset: at + needed as u64, length: header.body };
    Some((envelope, slice))
}

fn bytes(base: &DiskShared, segment: &Arc<Segment>, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read = base.calls.read(segment.file.as_fd(), &mut bytes, at).ok()?;
    (read == bytes.len()).then_some(bytes)
}

/// A key of the index and where it comes in the order that is asked for: the smaller first.
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
    /// The last of the best, where there are as many as are held.
    worst: Option<Candidate>,
}

impl<'a> DiskIndexWalk<'a> {
    fn over(base: &DiskShared, query: &'a DiskListingQuery) -> Self {
        let mut walk =
            DiskIndexWalk { query, after: None, keys: 0, behind: 0, best: Vec::new(), worst: None };
        walk.after = query.after.map(|it| walk.turned((it.rank, it.stamp)));
        base.index.each_key(&mut walk, DiskIndexWalk::see, DiskIndexWalk::keep_best);
        walk.best.sort_unstable();
        walk.best.truncate(CANDIDATES);
        walk
    }

    fn see(&mut self, it: SlotSummary) {
        self.keys += 1;
        let rank = match self.query.sort {
            DiskListingSort::Written => it.stamp,
            DiskListingSort::Size => it.units,
            DiskListingSort::Hits => it.hits,
        };
        let (rank, stamp) = self.turned((rank, it.stamp));
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

    /// A place so that what comes first is smaller; and back.
    fn turned(&self, (rank, stamp): (u64, u64)) -> (u64, u64) {
        match self.query.order {
            SortDirection::Ascending => (rank, stamp),
            SortDirection::Descending => (!rank, !stamp),
        }
    }

    fn place(&self, it: Candidate) -> DiskListingCursor {
        let (rank, stamp) = self.turned((it.rank, it.stamp));
        DiskListingCursor { rank, stamp }
    }
}
