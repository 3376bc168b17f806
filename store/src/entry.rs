//! The shelf that stored responses stand on: everything under one key, its variants newest first. A shelf
//! is a snapshot: a change makes another one. Where shelves are and who goes is in `ram`.

use self::stored::COUNT;
use crate::deferred_free::ThreadNumber;
use crate::listing::ShelfFacts;
use crate::memory_budget::on_heap;
use crate::purges::Seq;
use crate::s3fifo::{Handle, MOST_USES};
use larder_semantics::field::Field;
use larder_semantics::vary;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use triomphe::ThinArc;

mod stored;

pub use self::stored::{DiskOffer, Exchanged, FleetCopy, Stored, StoredArc, StoredBody, UncommonParts};
pub(crate) use self::stored::{Offered, list_cost};

/// How much one shelf may hold.
#[derive(Clone, Copy)]
pub(crate) struct EntryBounds {
    /// Responses; zero is as one.
    pub variants: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// The responses of a shelf: mostly one.
pub enum Variants {
    /// One.
    One([StoredArc; 1]),
    /// Several, or none.
    Many(Box<SeveralVariants>),
}

/// See [`Variants::Many`].
pub struct SeveralVariants {
    all: Box<[StoredArc]>,
    /// Which were selected since this was last asked: a bit for each, in their order; the last for all that are further behind.
    wanted: AtomicU64,
}

impl Variants {
    /// These, and which of them were selected.
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

/// Everything stored under one key. A snapshot: changes make another shelf. What the index knows of it lies here as well:
/// a slot of the index is a pointer. One block with the key and the count of those that hold it.
#[derive(Clone)]
pub struct Entry(ThinArc<EntryFacts, u8>);

/// What an [`Entry`] has beside its key.
#[repr(C)]
pub struct EntryFacts {
    /// How often it was answered from here, all variants together. First, and the layout fixed, since it lies beside the
    /// `Arc`'s own count then, which every hit writes anyway; and what else a hit reads beside that.
    pub(crate) hits: AtomicU32,
    /// The thread that has allocated it, and mostly what is on it.
    pub(crate) home: ThreadNumber,
    /// Uses since the policy looked at it last.
    pub(crate) uses: AtomicU8,
    /// At which tick it was used last: see `idle`.
    pub(crate) used: AtomicU8,
    /// The number of the last purge that all of them have met. Grows in place; see `purges/apply`.
    pub(crate) checked: AtomicU64,
    /// Newest first.
    pub variants: Variants,
    /// For listings.
    pub(crate) facts: ShelfFacts,
    /// What the policy knows it by.
    handle: AtomicU32,
    /// What the ledger has for it, beside its extents.
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

    /// Whether these are one and the same, not others like it.
    #[must_use]
    pub fn is(&self, other: &Entry) -> bool {
        std::ptr::eq(&**self, &**other)
    }

    /// The variant that a request selects (RFC 9111 §4.1): the newest whose own `Vary` matches. Allocates
    /// nothing when no stored response varies; `scratch` is reused.
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

    /// Notes a use for the policy and for `idle`.
    pub(crate) fn note_use(&self, tick: u8) {
        if self.used.load(Relaxed) != tick {
            self.used.store(tick, Relaxed);
        }
        // Two workers may count one use together: it is a hint, and hot shelves are not written at all.
        let uses = self.uses.load(Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Relaxed);
        }
    }

    /// What the policy knows it by, since it was put into the index.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.handle.load(Relaxed))
    }

    pub(crate) fn set_handle(&self, handle: Handle) {
        self.handle.store(handle.0, Relaxed);
    }

    /// A shelf as it is before it has been put anywhere.
    fn new(hits: u32, home: ThreadNumber, met: Seq, key: &[u8], responses: Vec<(StoredArc, bool)>) -> Entry {
        let variants = Variants::new(responses);
        let charged = Entry::heap_cost(key, &variants);
        let facts = EntryFacts {
            hits: AtomicU32::new(hits),
            home,
            uses: AtomicU8::new(0),
            used: AtomicU8::new(0),
            checked: AtomicU64::new(met),
            facts: ShelfFacts::of(&variants),
            variants,
            handle: AtomicU32::new(0),
            charged: u32::try_from(charged).unwrap_or(u32::MAX),
        };
        Entry(ThinArc::from_header_and_slice(facts, key))
    }

    /// Notes that it was answered from here.
    #[inline]
    pub fn note_hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// How often that was since something was first stored under its key and stayed, about: what is answered while the
    /// shelf is exchanged is not counted.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// The shelf with `new` in front, in place of `replaced` and of all that the same request may select, and how many others had to go
    /// because there were too many.
    ///
    /// `met` is the last purge that `new` has met.
    ///
    /// The oldest goes that nobody has selected; where all were selected, the oldest, and all must be selected anew.
    /// So a stream of variants that are asked for once does not push out those that are in use.
    pub(crate) fn with(
        old: Option<&Entry>,
        key: &[u8],
        new: StoredArc,
        replaced: Option<&StoredArc>,
        most: EntryBounds,
        met: Seq,
    ) -> (Entry, usize) {
        let mut others: Vec<(StoredArc, bool)> = Vec::new();
        let mut checked = met;
        if let Some(old) = old {
            // What varies otherwise would be selected again once the new one is not, or by requests that do not match its `Vary`.
            let stays = |it: &StoredArc| {
                !it.may_meet(&new) && !replaced.is_some_and(|gone| StoredArc::ptr_eq(it, gone))
            };
            let variants = old.variants.iter().enumerate().filter(|it| stays(it.1));
            others = variants.map(|(at, it)| (it.clone(), old.variants.is_wanted(at))).collect();
            checked = met.min(old.checked.load(Relaxed));
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
        others.insert(0, (new, false));
        (Entry::new(old.map_or(0, Entry::hits), ThreadNumber::here(), checked, key, others), dropped)
    }

    /// The shelf with what `of` makes of each response, all of which has met the purges up to `met`; `None` where
    /// nothing is left.
    pub(crate) fn map(&self, met: Seq, of: impl Fn(&StoredArc) -> Option<StoredArc>) -> Option<Entry> {
        let each = self.variants.iter().enumerate();
        let left: Vec<_> = each.filter_map(|(at, it)| Some((of(it)?, self.variants.is_wanted(at)))).collect();
        // Most of it is what it was: its home, too.
        (!left.is_empty()).then(|| Entry::new(self.hits(), self.home, met, self.key(), left))
    }

    /// The last purge that everything on it has met.
    pub(crate) fn met(&self) -> Seq {
        self.checked.load(Relaxed)
    }

    /// Whether it holds another answer that the same request may select and that came after `new` was asked for: which of the two the origin
    /// made later cannot be known.
    pub(crate) fn has_overtaken(&self, new: &Stored) -> bool {
        let asked = new.exchanged.asked;
        let is_other = |it: &Stored| {
            let same_tag = it.meta.etag.is_some() && it.meta.etag == new.meta.etag;
            let same_body = matches!((&it.body, &new.body), (StoredBody::Heap(one), StoredBody::Heap(other)) if **one == **other);
            !(same_tag || same_body && it.meta.status == new.meta.status)
        };
        let overtook = |it: &StoredArc| it.may_meet(new) && it.exchanged.answered > asked && is_other(it);
        asked > 0 && new.meta.partial().is_none() && self.variants.iter().any(overtook)
    }

    /// Whether it holds what the same request selects as it was asked for later.
    pub(crate) fn has_newer(&self, than: &Stored) -> bool {
        let newer = |it: &StoredArc| it.may_meet(than) && than.born < it.born;
        self.variants.iter().any(newer)
    }

    /// Whether everything on it has met the purges up to this one.
    pub(crate) fn has_met(&self, purge: Seq) -> bool {
        self.checked.load(Relaxed) >= purge
    }

    /// What it and its responses take on the heap.
    fn heap_cost(key: &[u8], variants: &Variants) -> u64 {
        on_heap(size_of::<EntryFacts>() + 2 * COUNT + key.len())
            + variants.heap_cost()
            + variants.iter().map(|it| it.heap_cost()).sum::<u64>()
    }

    /// Bytes of its bodies that are in the arena.
    pub(crate) fn arena_bytes(&self) -> u64 {
        let in_arena = |it: &StoredArc| matches!(it.body, StoredBody::Arena(_)).then(|| it.body.len());
        self.variants.iter().filter_map(in_arena).sum()
    }
}
