//! Stored responses and the shelf they stand on: everything under one key, its variants newest first. A shelf
//! is a snapshot: a change makes another one. Where shelves are and who goes is in `ram`.

use crate::deferred_free::ThreadNumber;
use crate::encodings::Encodings;
use crate::heap_bytes::HeapBytes;
use crate::listing::ShelfFacts;
use crate::memory_budget::on_heap;
use crate::purges::{Marks, Seq};
use crate::s3fifo::{Handle, MOST_USES};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::stored::Meta;
use larder_semantics::vary;
use larder_transport::body::{BodyPiece, FileSlice};
use larder_wire::ready_head::{ReadyHead, ReadyLines};
use std::borrow::Borrow;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A stored body.
#[derive(Clone)]
pub enum StoredBody {
    /// Up to the heap line.
    Heap(HeapBytes),
    /// In the arena; the slice keeps its extent.
    Arena(Box<FileSlice>),
    /// In a segment of the disk tier; the slice keeps the segment.
    Disk(Box<FileSlice>),
}

impl StoredBody {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            StoredBody::Heap(bytes) => bytes.len() as u64,
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => slice.length,
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A body on the heap, which has no room over: what it takes is known. Always copied: a chunk may be a small part of
    /// a large buffer.
    #[must_use]
    pub fn on_the_heap(chunks: &[impl Borrow<[u8]>]) -> StoredBody {
        StoredBody::Heap(HeapBytes::of(chunks))
    }

    /// What it takes on the heap. An extent of the arena counts itself.
    pub(crate) fn heap_cost(&self) -> u64 {
        match self {
            StoredBody::Heap(bytes) => bytes.cost(),
            StoredBody::Arena(_) | StoredBody::Disk(_) => on_heap(size_of::<FileSlice>()),
        }
    }

    /// Whether these are the very bytes of `other`, not others like them.
    fn is_at(&self, other: &StoredBody) -> bool {
        match (self, other) {
            (StoredBody::Heap(one), StoredBody::Heap(other)) => one.is_at(other),
            (StoredBody::Arena(one), StoredBody::Arena(other))
            | (StoredBody::Disk(one), StoredBody::Disk(other)) => {
                let place = |it: &FileSlice| (it.owner.fd().as_raw_fd(), it.offset, it.length);
                place(one) == place(other)
            }
            _ => false,
        }
    }

    /// The body as a piece to send.
    #[must_use]
    pub fn piece(&self) -> BodyPiece {
        match self {
            StoredBody::Heap(bytes) => BodyPiece::Bytes(bytes.bytes()),
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => BodyPiece::File(FileSlice::clone(slice)),
        }
    }
}

/// Whether a response was offered to the disk tier, as which number, and whether it was queued then. What never was is
/// none of the disk's: its route does not use it, or it is of no use there.
#[derive(Debug, Default)]
pub struct DiskOffer(AtomicU64);

/// What became of the offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It was queued under this stamp, or read from the record that has it.
    Queued(u64),
    /// It was not queued; what came later has a later stamp.
    Missed(u64),
}

impl DiskOffer {
    /// What became of the last offer, if there was one.
    pub(crate) fn get(&self) -> Option<Offered> {
        match self.0.load(Relaxed) {
            0 => None,
            it if it & 1 == 1 => Some(Offered::Queued(it >> 1)),
            it => Some(Offered::Missed(it >> 1)),
        }
    }

    /// Notes what became of it.
    pub(crate) fn set(&self, offered: Offered) {
        let mark = match offered {
            Offered::Queued(stamp) => stamp << 1 | 1,
            Offered::Missed(stamp) => stamp << 1,
        };
        self.0.store(mark, Relaxed);
    }
}

/// One stored response. Immutable: freshening makes another one that shares the body.
pub struct Stored {
    /// What decisions need.
    pub meta: Meta,
    /// The status line and every stored field, ready for either protocol: a hit appends `Age` and what else is its own.
    pub head: ReadyHead,
    /// The stored fields, where they are not those of the head: see [`Stored::lines`].
    pub unlike_head: Option<Box<FieldList>>,
    /// The trailer section, if there was one.
    pub trailers: Option<Box<FieldList>>,
    /// The body, whole or the part that `meta.partial` names.
    pub body: StoredBody,
    /// The variant key (`semantics::vary::write_key`); empty without `Vary`.
    pub variant: Box<[u8]>,
    /// What purges look at.
    pub marks: Marks,
    /// From this wall second on the fleet is asked whether it has a newer one, with `NOT_SHARED` where the fleet does
    /// not have this one; `u64::MAX` where the fleet is not asked, `SUPERSEDED` where it has said that there was one.
    pub recheck: AtomicU64,
    /// When this process asked the origin for it, and had its head; nothing of what lay in a tier below.
    pub exchanged: Exchanged,
    /// What the disk tier was given of it.
    pub on_disk: DiskOffer,
    /// Other forms of it; `None` where there are none and will be none.
    pub forms: Option<Arc<Encodings>>,
}

/// In [`Stored::recheck`]: the fleet does not have this one, so that nobody has removed it there either.
pub const NOT_SHARED: u64 = 1 << 63;

/// In [`Stored::recheck`], for good: the origin has given another full response since, as another node reports. This one answers no request
/// any more, also where the origin fails, and serves for its validator alone (RFC 9111 §4.3.3).
const SUPERSEDED: u64 = 0;

/// The time of an exchange with the origin, microseconds of the precise clock; zeros where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// The request left.
    pub asked: u64,
    /// The head of the response had come.
    pub answered: u64,
}

/// Whether the fleet has a response that this node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetCopy {
    /// It has, or had: if it is there no more, somebody has removed it.
    Yes,
    /// It never had.
    No,
}

impl Stored {
    /// A response that does not vary, without trailers and marks. `head` has the lines of `fields`, or some of them, and a
    /// `Content-Length` that `fields` have not.
    #[must_use]
    pub fn new(meta: Meta, head: ReadyHead, fields: FieldList, body: StoredBody) -> Stored {
        Stored {
            unlike_head: unlike(&head, fields),
            meta,
            head,
            trailers: None,
            body,
            variant: Box::default(),
            marks: Marks::default(),
            recheck: AtomicU64::new(u64::MAX),
            exchanged: Exchanged::default(),
            on_disk: DiskOffer::default(),
            forms: None,
        }
    }

    /// Puts another head in the place of this one's, and other fields.
    pub fn set_head(&mut self, head: ReadyHead, fields: FieldList) {
        self.unlike_head = unlike(&head, fields);
        self.head = head;
    }

    /// The stored fields, one by one.
    pub fn lines(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        match &self.unlike_head {
            Some(list) => all_but_length(ReadyLines::of(list.text())),
            None => all_but_length(self.head.lines()),
        }
    }

    /// The stored fields as a list.
    #[must_use]
    pub fn fields(&self) -> FieldList {
        match &self.unlike_head {
            Some(list) => FieldList::clone(list),
            None => {
                let mut list = FieldList::new();
                self.lines().for_each(|it| list.push(it.name, it.value));
                list
            }
        }
    }

    /// Whether this is what the same origin's answer left in the store: the very one, or a copy that differs by what
    /// purges said of it since.
    pub(crate) fn is_one_with(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let alike = || {
            let times = |it: &Stored| (it.meta.request_time, it.meta.response_time);
            times(self) == times(other)
                && self.variant == other.variant
                && self.marks.born == other.marks.born
                && self.lines().eq(other.lines())
                && self.body.is_at(&other.body)
        };
        Arc::ptr_eq(self, other) || alike()
    }

    /// What it takes on the heap, allocator's waste included. An arena body is not in it: its extent counts itself.
    pub(crate) fn heap_cost(&self) -> u64 {
        on_heap(size_of::<Self>() + 16)
            + on_heap(self.head.size())
            + self.unlike_head.as_ref().map_or(0, boxed_cost)
            + self.trailers.as_ref().map_or(0, boxed_cost)
            + on_heap(self.variant.len())
            + on_heap(size_of_val(&*self.marks.tags))
            + on_heap(self.meta.etag.as_ref().map_or(0, |it| it.len()))
            + names_cost(&self.meta.vary)
            + self.forms.as_ref().map_or(0, |_| Encodings::heap_cost())
            + self.body.heap_cost()
    }

    /// Whether the fleet is to be asked, at the wall second `now`, before it is used again.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        self.recheck.load(Relaxed) & !NOT_SHARED <= now
    }

    /// From the wall second `at` on the fleet is to be asked.
    pub fn is_due_at(&self, at: u64, shared: FleetCopy) {
        let bit = if shared == FleetCopy::No { NOT_SHARED } else { 0 };
        let next = at.clamp(SUPERSEDED + 1, !NOT_SHARED) | bit;
        let _ = self.recheck.fetch_update(Relaxed, Relaxed, |it| (it != SUPERSEDED).then_some(next));
    }

    /// The origin has given another full response since: only a 304 makes another stored response of this one.
    pub fn supersede(&self) {
        self.recheck.store(SUPERSEDED, Relaxed);
    }

    /// Whether [`Stored::supersede`] was called: then the fleet is to be asked each time, and nothing is answered with this.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.recheck.load(Relaxed) == SUPERSEDED
    }

    /// Whether the fleet had it when it was last asked or written to.
    #[must_use]
    pub fn is_shared(&self) -> FleetCopy {
        if self.recheck.load(Relaxed) & NOT_SHARED == 0 { FleetCopy::Yes } else { FleetCopy::No }
    }

    /// Whether one request may select both, so that of the two only the newer is kept.
    pub(crate) fn may_meet(&self, other: &Self) -> bool {
        vary::may_meet((&self.meta.vary, &self.variant), (&other.meta.vary, &other.variant))
    }
}

/// A stored field section has no `Content-Length`: it would be the body's, which is known.
fn all_but_length(lines: ReadyLines<'_>) -> impl Iterator<Item = Field<'_>> + Clone {
    lines.filter(|it| !it.is("content-length"))
}

/// The fields, where the head has not just these.
fn unlike(head: &ReadyHead, fields: FieldList) -> Option<Box<FieldList>> {
    (!all_but_length(head.lines()).eq(fields.iter())).then(|| Box::new(fields))
}

#[allow(clippy::borrowed_box, reason = "the box is what is counted")]
fn boxed_cost(list: &Box<FieldList>) -> u64 {
    on_heap(size_of::<FieldList>()) + list_cost(list)
}

pub(crate) fn list_cost(list: &FieldList) -> u64 {
    list.blocks().map(on_heap).iter().sum()
}

fn names_cost(names: &Vec<Box<str>>) -> u64 {
    on_heap(names.capacity() * size_of::<Box<str>>()) + names.iter().map(|it| on_heap(it.len())).sum::<u64>()
}

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
    One([Arc<Stored>; 1]),
    /// Several, or none.
    Many(Box<[Arc<Stored>]>),
}

impl FromIterator<Arc<Stored>> for Variants {
    fn from_iter<I: IntoIterator<Item = Arc<Stored>>>(all: I) -> Self {
        let mut all = all.into_iter();
        match (all.next(), all.next()) {
            (Some(one), None) => Variants::One([one]),
            (one, other) => Variants::Many(one.into_iter().chain(other).chain(all).collect()),
        }
    }
}

impl Deref for Variants {
    type Target = [Arc<Stored>];

    #[inline]
    fn deref(&self) -> &[Arc<Stored>] {
        match self {
            Variants::One(one) => one,
            Variants::Many(all) => all,
        }
    }
}

/// Everything stored under one key. A snapshot: changes make another shelf. What the index knows of it lies here as well:
/// a slot of the index is a pointer.
#[repr(C)]
pub struct Entry {
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
    /// The full key, compared on every lookup.
    pub key: Box<[u8]>,
    /// Newest first.
    pub variants: Variants,
    /// For listings.
    pub(crate) facts: ShelfFacts,
    /// What the policy knows it by.
    handle: AtomicU32,
    /// What the ledger has for it, beside its extents.
    pub(crate) charged: u32,
    /// Which variants were selected since this was last asked: a bit for each, in the order of `variants`; the last for all that
    /// are further behind.
    wanted: AtomicU64,
}

/// The bit of a variant in [`Entry::wanted`].
fn bit(at: usize) -> u64 {
    1 << at.min(63)
}

impl Entry {
    /// The variant that a request selects (RFC 9111 §4.1): the newest whose own `Vary` matches. Allocates
    /// nothing when no stored response varies; `scratch` is reused.
    #[must_use]
    pub fn select(&self, request: &[Field<'_>], scratch: &mut Vec<u8>) -> Option<&Arc<Stored>> {
        let mut written: Option<&[Box<str>]> = None;
        for (at, it) in self.variants.iter().enumerate() {
            let names = &it.meta.vary[..];
            // Neighbours mostly vary on the same names: their key is written once.
            if !names.is_empty() && written != Some(names) {
                scratch.clear();
                vary::write_key(names, request, scratch);
                written = Some(names);
            }
            if names.is_empty() || *it.variant == scratch[..] {
                if self.variants.len() > 1 && self.wanted.load(Relaxed) & bit(at) == 0 {
                    self.wanted.fetch_or(bit(at), Relaxed);
                }
                return Some(it);
            }
        }
        None
    }

    /// The names of the newest response's `Vary`.
    #[must_use]
    pub fn vary(&self) -> &[Box<str>] {
        self.variants.first().map_or(&[], |it| &it.meta.vary)
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

    /// Whether a variant was selected.
    fn is_wanted(&self, at: usize) -> bool {
        self.wanted.load(Relaxed) & bit(at) != 0
    }

    /// A shelf as it is before it has been put anywhere.
    fn new(
        hits: u32,
        home: ThreadNumber,
        met: Seq,
        key: Box<[u8]>,
        responses: Vec<(Arc<Stored>, bool)>,
    ) -> Entry {
        let wanted = responses.iter().enumerate().filter(|it| it.1.1).fold(0, |all, it| all | bit(it.0));
        let variants: Variants = responses.into_iter().map(|it| it.0).collect();
        let mut shelf = Entry {
            hits: AtomicU32::new(hits),
            home,
            uses: AtomicU8::new(0),
            used: AtomicU8::new(0),
            checked: AtomicU64::new(met),
            facts: ShelfFacts::of(&variants),
            key,
            variants,
            handle: AtomicU32::new(0),
            charged: 0,
            wanted: AtomicU64::new(wanted),
        };
        shelf.charged = u32::try_from(shelf.heap_cost()).unwrap_or(u32::MAX);
        shelf
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
        new: Arc<Stored>,
        replaced: Option<&Arc<Stored>>,
        most: EntryBounds,
        met: Seq,
    ) -> (Entry, usize) {
        let mut others: Vec<(Arc<Stored>, bool)> = Vec::new();
        let mut checked = met;
        if let Some(old) = old {
            // What varies otherwise would be selected again once the new one is not, or by requests that do not match its `Vary`.
            let stays =
                |it: &Arc<Stored>| !it.may_meet(&new) && !replaced.is_some_and(|gone| Arc::ptr_eq(it, gone));
            let variants = old.variants.iter().enumerate().filter(|it| stays(it.1));
            others = variants.map(|(at, it)| (it.clone(), old.is_wanted(at))).collect();
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
        (Entry::new(old.map_or(0, Entry::hits), ThreadNumber::here(), checked, key.into(), others), dropped)
    }

    /// The shelf with what `of` makes of each response, all of which has met the purges up to `met`; `None` where
    /// nothing is left.
    pub(crate) fn map(&self, met: Seq, of: impl Fn(&Arc<Stored>) -> Option<Arc<Stored>>) -> Option<Entry> {
        let each = self.variants.iter().enumerate();
        let left: Vec<_> = each.filter_map(|(at, it)| Some((of(it)?, self.is_wanted(at)))).collect();
        // Most of it is what it was: its home, too.
        (!left.is_empty()).then(|| Entry::new(self.hits(), self.home, met, self.key.clone(), left))
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
        let overtook = |it: &Arc<Stored>| it.may_meet(new) && it.exchanged.answered > asked && is_other(it);
        asked > 0 && new.meta.partial.is_none() && self.variants.iter().any(overtook)
    }

    /// Whether it holds what the same request selects as it was asked for later.
    pub(crate) fn has_newer(&self, than: &Stored) -> bool {
        let newer = |it: &Arc<Stored>| it.may_meet(than) && than.marks.is_older_than(&it.marks);
        self.variants.iter().any(newer)
    }

    /// Whether everything on it has met the purges up to this one.
    pub(crate) fn has_met(&self, purge: Seq) -> bool {
        self.checked.load(Relaxed) >= purge
    }

    /// What it and its responses take on the heap.
    pub(crate) fn heap_cost(&self) -> u64 {
        on_heap(size_of::<Self>() + 16)
            + on_heap(self.key.len())
            + match &self.variants {
                Variants::One(_) => 0,
                Variants::Many(all) => on_heap(size_of_val(&**all)),
            }
            + self.variants.iter().map(|it| it.heap_cost()).sum::<u64>()
    }

    /// Bytes of its bodies that are in the arena.
    pub(crate) fn arena_bytes(&self) -> u64 {
        let in_arena = |it: &Arc<Stored>| matches!(it.body, StoredBody::Arena(_)).then(|| it.body.len());
        self.variants.iter().filter_map(in_arena).sum()
    }
}
