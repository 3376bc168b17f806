//! The entry of a key: everything stored under it, its variants newest first. An entry is a snapshot: a change makes
//! another one. `ram` has the index of entries and the eviction.

pub(crate) use self::listed_facts::{ListedFacts, tag_bit};
use self::stored::COUNT;
use crate::memory_budget::on_heap;
use crate::s3fifo::{Handle, MOST_USES};
use crate::thread_number::ThreadNumber;
use larder_purge_log::Seq;
use larder_semantics::field::Field;
use larder_semantics::vary;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use triomphe::ThinArc;

mod listed_facts;
mod stored;

pub(crate) use self::stored::DiskOfferResult;
pub use self::stored::{DiskOffer, Exchanged, FleetCopy, Stored, StoredArc, UncommonParts};
pub use crate::stored_body::StoredBody;

/// The limits of one entry.
#[derive(Clone, Copy)]
pub(crate) struct EntryBounds {
    /// The most responses; zero counts as one.
    pub variants: usize,
    /// The most bytes of all of them.
    pub bytes: u64,
}

/// The responses of an entry: mostly one.
pub enum Variants {
    /// A single response.
    One([StoredArc; 1]),
    /// Several, or none.
    Many(Box<SeveralVariants>),
}

/// See [`Variants::Many`].
pub struct SeveralVariants {
    all: Box<[StoredArc]>,
    /// The variants selected since the last check: one bit each, in order; the last bit is for all further ones.
    wanted: AtomicU64,
}

impl Variants {
    /// This response alone.
    fn one(response: StoredArc) -> Self {
        Variants::One([response])
    }

    /// These responses, each with whether it was selected.
    fn new(responses: Vec<(StoredArc, bool)>) -> Self {
        let wanted = responses.iter().enumerate().filter(|it| it.1.1).fold(0, |all, it| all | bit(it.0));
        let all: Box<[StoredArc]> = responses.into_iter().map(|it| it.0).collect();
        match <Box<[StoredArc; 1]>>::try_from(all) {
            Ok(one) => Variants::One(*one),
            Err(all) => Variants::Many(Box::new(SeveralVariants { all, wanted: AtomicU64::new(wanted) })),
        }
    }

    /// Notes that a variant was selected.
    #[inline]
    fn note_wanted(&self, at: usize) {
        if let Variants::Many(it) = self
            && it.wanted.load(Relaxed) & bit(at) == 0
        {
            it.wanted.fetch_or(bit(at), Relaxed);
        }
    }

    /// Whether a variant was selected, where there are several.
    fn is_wanted(&self, at: usize) -> bool {
        match self {
            Variants::One(_) => false,
            Variants::Many(it) => it.wanted.load(Relaxed) & bit(at) != 0,
        }
    }

    fn heap_cost(&self) -> u64 {
        match self {
            Variants::One(_) => 0,
            Variants::Many(it) => on_heap(size_of::<SeveralVariants>()) + on_heap(size_of_val(&*it.all)),
        }
    }
}

impl Deref for Variants {
    type Target = [StoredArc];

    #[inline]
    fn deref(&self) -> &[StoredArc] {
        match self {
            Variants::One(one) => one,
            Variants::Many(it) => &it.all,
        }
    }
}

/// Everything stored under one key. A snapshot: changes make another entry. The index's data about it is here as well: a
/// slot of the index is a pointer. One block with the key and the reference count.
#[derive(Clone)]
pub struct Entry(ThinArc<EntryFacts, u8>);

/// The content of an [`Entry`] other than its key.
#[repr(C)]
pub struct EntryFacts {
    /// The number of answers from here, all variants together. First in a fixed layout, since it is then next to the
    /// `Arc`'s own count, which every hit writes anyway, and to the other fields that a hit reads.
    pub(crate) hits: AtomicU32,
    /// The thread that allocated it, and mostly its responses.
    pub(crate) allocated_by: ThreadNumber,
    /// Uses since the policy last checked it.
    pub(crate) uses: AtomicU8,
    /// The tick of its last use: see `idle`.
    pub(crate) used: AtomicU8,
    /// The number of the last purge that was applied to all of them. Grows in place; see `ram::purging`.
    pub(crate) checked: AtomicU64,
    /// Newest first.
    pub variants: Variants,
    /// For listings.
    pub(crate) facts: ListedFacts,
    /// Its handle in the policy.
    handle: AtomicU32,
    /// The bytes charged to the budget for it, without its extents.
    pub(crate) charged: u32,
}

impl Deref for Entry {
    type Target = EntryFacts;

    #[inline]
    fn deref(&self) -> &EntryFacts {
        &self.0.header.header
    }
}

/// The bit of a variant in [`SeveralVariants::wanted`].
fn bit(at: usize) -> u64 {
    1 << at.min(63)
}

impl Entry {
    /// The full key, compared on every lookup.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are the same allocation.
    #[must_use]
    pub fn is(&self, other: &Entry) -> bool {
        std::ptr::eq(&**self, &**other)
    }

    /// The variant that a request selects (RFC 9111 §4.1): the newest whose own `Vary` matches. Allocates nothing when no
    /// stored response varies; `scratch` is reused.
    #[must_use]
    pub fn select(&self, request: &[Field<'_>], scratch: &mut Vec<u8>) -> Option<&StoredArc> {
        let mut written: Option<&[Box<str>]> = None;
        for (at, it) in self.variants.iter().enumerate() {
            let names = it.meta.vary();
            // Neighbours mostly vary on the same names: their key is written once.
            if !names.is_empty() && written != Some(names) {
                scratch.clear();
                vary::write_key(names, request, scratch);
                written = Some(names);
            }
            if names.is_empty() || *it.variant() == scratch[..] {
                self.variants.note_wanted(at);
                return Some(it);
            }
        }
        None
    }

    /// The names of the newest response's `Vary`.
    #[must_use]
    pub fn vary(&self) -> &[Box<str>] {
        self.variants.first().map_or(&[], |it| it.meta.vary())
    }

    /// Counts a use for the policy and for `idle`.
    pub(crate) fn note_use(&self, tick: u8) {
        if self.used.load(Relaxed) != tick {
            self.used.store(tick, Relaxed);
        }
        // Two workers may count one use together: it is a hint, and hot entries are not written at all.
        let uses = self.uses.load(Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Relaxed);
        }
    }

    /// Its handle in the policy, since it was added to the index.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.handle.load(Relaxed))
    }

    pub(crate) fn set_handle(&self, handle: Handle) {
        self.handle.store(handle.0, Relaxed);
    }

    /// An entry before it is in the index.
    fn new(hits: u32, home: ThreadNumber, applied: Seq, key: &[u8], variants: Variants) -> Entry {
        let charged = Entry::heap_cost(key, &variants);
        let facts = EntryFacts {
            hits: AtomicU32::new(hits),
            allocated_by: home,
            uses: AtomicU8::new(0),
            used: AtomicU8::new(0),
            checked: AtomicU64::new(applied),
            facts: ListedFacts::of(&variants),
            variants,
            handle: AtomicU32::new(0),
            charged: u32::try_from(charged).unwrap_or(u32::MAX),
        };
        Entry(ThinArc::from_header_and_slice(facts, key))
    }

    /// Counts an answer from here.
    #[inline]
    pub fn note_hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// The approximate number of answers since a response was first stored under its key: answers during a replacement of
    /// the entry are not counted.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// The entry with `new` in front, in place of `replaced` and of all that the same request may select; and the number
    /// of others dropped because there were too many.
    ///
    /// `met` is the last purge that was applied to `new`.
    ///
    /// The oldest variant that was not selected is dropped; where all were selected, the oldest, and all marks are reset.
    /// So a stream of variants that are requested once does not displace those in use.
    pub(crate) fn with_variant(
        old: Option<&Entry>,
        key: &[u8],
        new: StoredArc,
        replaced: Option<&StoredArc>,
        most: EntryBounds,
        applied: Seq,
    ) -> (Entry, usize) {
        let mut others: Vec<(StoredArc, bool)> = Vec::new();
        let mut checked = applied;
        if let Some(old) = old {
            // A response with another `Vary` would be selected again once the new one is not, or by requests that do not
            // match its `Vary`.
            let stays = |it: &StoredArc| {
                !it.overlaps(&new) && !replaced.is_some_and(|gone| StoredArc::ptr_eq(it, gone))
            };
            let variants = old.variants.iter().enumerate().filter(|it| stays(it.1));
            others = variants.map(|(at, it)| (it.clone(), old.variants.is_wanted(at))).collect();
            checked = applied.min(old.checked.load(Relaxed));
        }
        let size = |it: &Stored| it.heap_cost() + it.body.len();
        let mut bytes = size(&new) + others.iter().map(|it| size(&it.0)).sum::<u64>();
        let before = others.len();
        while !others.is_empty() && (others.len() >= most.variants || bytes > most.bytes) {
            let at = others.iter().rposition(|it| !it.1);
            if at.is_none() {
                others.iter_mut().for_each(|it| it.1 = false);
            }
            let gone = others.remove(at.unwrap_or(others.len() - 1));
            bytes -= size(&gone.0);
        }
        let dropped = before - others.len();
        let variants = if others.is_empty() {
            Variants::one(new)
        } else {
            others.insert(0, (new, false));
            Variants::new(others)
        };
        (Entry::new(old.map_or(0, Entry::hits), ThreadNumber::here(), checked, key, variants), dropped)
    }

    /// The entry with the result of `of` for each response, after the purges up to `met` were applied to all of them;
    /// `None` where none is left.
    pub(crate) fn map(&self, applied: Seq, of: impl Fn(&StoredArc) -> Option<StoredArc>) -> Option<Entry> {
        let each = self.variants.iter().enumerate();
        let left: Vec<_> = each.filter_map(|(at, it)| Some((of(it)?, self.variants.is_wanted(at)))).collect();
        // Most of it is unchanged, its home included.
        (!left.is_empty())
            .then(|| Entry::new(self.hits(), self.allocated_by, applied, self.key(), Variants::new(left)))
    }

    /// The last purge that was applied to all of it.
    pub(crate) fn applied(&self) -> Seq {
        self.checked.load(Relaxed)
    }

    /// Whether it has another answer that the same request may select and that arrived after `new` was requested: the
    /// order of the two at the origin is unknown.
    pub(crate) fn has_overtaken(&self, new: &Stored) -> bool {
        let asked = new.exchanged.request_sent;
        let is_other = |it: &Stored| {
            let same_tag = it.meta.etag.is_some() && it.meta.etag == new.meta.etag;
            let same_body = matches!((&it.body, &new.body), (StoredBody::Heap(one), StoredBody::Heap(other)) if **one == **other);
            !(same_tag || same_body && it.meta.status == new.meta.status)
        };
        let overtook =
            |it: &StoredArc| it.overlaps(new) && it.exchanged.head_received > asked && is_other(it);
        asked > 0 && new.meta.partial().is_none() && self.variants.iter().any(overtook)
    }

    /// Whether it has a later-requested response that the same request selects.
    pub(crate) fn has_newer(&self, than: &Stored) -> bool {
        let newer = |it: &StoredArc| it.overlaps(than) && than.epoch < it.epoch;
        self.variants.iter().any(newer)
    }

    /// Whether the purges up to this one were applied to all of it.
    pub(crate) fn has_applied(&self, purge: Seq) -> bool {
        self.checked.load(Relaxed) >= purge
    }

    /// The heap bytes of the entry and its responses.
    fn heap_cost(key: &[u8], variants: &Variants) -> u64 {
        on_heap(size_of::<EntryFacts>() + 2 * COUNT + key.len())
            + variants.heap_cost()
            + variants.iter().map(|it| it.heap_cost()).sum::<u64>()
    }

    /// Bytes of its bodies in the arena.
    pub(crate) fn arena_bytes(&self) -> u64 {
        let in_arena = |it: &StoredArc| matches!(it.body, StoredBody::Arena(_)).then(|| it.body.len());
        self.variants.iter().filter_map(in_arena).sum()
    }
}
