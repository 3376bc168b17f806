//! Stored responses, each in few blocks of memory, since there may be millions.

use crate::encodings::Encodings;
use crate::heap_bytes::list_cost;
use crate::memory_budget::on_heap;
use crate::purge_position::{Positions, PurgeEpoch, PurgeFacts};
use crate::stored_body::StoredBody;
use larder_purge_log::Seq;
use larder_semantics::entity_tag::EntityTag;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::stored::Meta;
use larder_semantics::vary;
use larder_wire::ready_head::{ReadyHead, ReadyLines};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether a response was offered to the disk tier, its number, and whether it was queued then. A response that was never
/// offered does not belong there: its route does not use the disk, or it would be useless there.
#[derive(Debug, Default)]
pub struct DiskOffer(AtomicU64);

/// The result of the offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskOfferResult {
    /// It was queued under this stamp, or read from the record that has it.
    Queued(u64),
    /// It was not queued; later responses have a later stamp.
    Missed(u64),
}

impl DiskOffer {
    /// The result of the last offer, if there was one.
    pub(crate) fn get(&self) -> Option<DiskOfferResult> {
        match self.0.load(Relaxed) {
            0 => None,
            it if it & 1 == 1 => Some(DiskOfferResult::Queued(it >> 1)),
            it => Some(DiskOfferResult::Missed(it >> 1)),
        }
    }

    /// Records the result.
    pub(crate) fn set(&self, offered: DiskOfferResult) {
        let mark = match offered {
            DiskOfferResult::Queued(stamp) => stamp << 1 | 1,
            DiskOfferResult::Missed(stamp) => stamp << 1,
        };
        self.0.store(mark, Relaxed);
    }
}

/// A shared stored response: with one count, since there are no weak references.
pub type StoredArc = triomphe::Arc<Stored>;

/// One stored response. Immutable: freshening makes another one that shares the body.
pub struct Stored {
    /// The facts for decisions.
    pub meta: Meta,
    /// The status line and every stored field, ready for both protocols: a hit appends `Age` and its other own lines.
    pub head: ReadyHead,
    /// The body, whole or the part that `meta.partial` names.
    pub body: StoredBody,
    /// See [`PurgeEpoch::seq`].
    pub epoch: Seq,
    /// The wall second from which the fleet is asked for a newer response, with `NOT_SHARED` where the fleet lacks this
    /// one. `u64::MAX` where the fleet is not asked, `SUPERSEDED` where it has reported a newer one.
    pub recheck: AtomicU64,
    /// The times of the request to the origin and of its head; zero for a response from a lower tier.
    pub exchanged: Exchanged,
    /// Its offer to the disk tier.
    pub on_disk: DiskOffer,
    /// Its encodings; `None` where there will never be any.
    pub encodings: Option<Arc<Encodings>>,
    /// See [`Stored::variant`], [`Stored::trailers`] and [`Stored::purge_facts`].
    pub uncommon: Option<Box<UncommonParts>>,
}

/// The parts that most responses lack.
#[derive(Clone, Default)]
pub struct UncommonParts {
    /// The stored fields where they differ from those of the head: see [`Stored::lines`].
    unlike_head: Option<FieldList>,
    trailers: Option<FieldList>,
    variant: Box<[u8]>,
    tags: Box<[u64]>,
    log: Positions,
}

impl UncommonParts {
    fn is_empty(&self) -> bool {
        self.unlike_head.is_none()
            && self.trailers.is_none()
            && self.variant.is_empty()
            && self.tags.is_empty()
            && self.log.as_slice().is_empty()
    }

    fn heap_cost(&self) -> u64 {
        on_heap(size_of::<Self>())
            + self.unlike_head.as_ref().map_or(0, list_cost)
            + self.trailers.as_ref().map_or(0, list_cost)
            + on_heap(self.variant.len())
            + on_heap(size_of_val(&*self.tags))
    }
}

/// The overhead of a [`StoredArc`]: its count. An [`super::Entry`] has one word more, the length of its key.
pub(super) const COUNT: usize = size_of::<usize>();

/// In [`Stored::recheck`]: the fleet lacks this one, so that it was not removed there either.
pub const NOT_SHARED: u64 = 1 << 63;

/// In [`Stored::recheck`], for good: another node reports that the origin has given another full response since. This one
/// answers no request any more, also where the origin fails; only its validator is used (RFC 9111 §4.3.3).
const SUPERSEDED: u64 = 0;

/// The times of an exchange with the origin, in microseconds of the precise clock; zero where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// The request was sent.
    pub request_sent: u64,
    /// The head of the response had arrived.
    pub head_received: u64,
}

/// Whether the fleet has a response of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetCopy {
    /// It has, or had: if it is missing now, it was removed.
    Yes,
    /// It never had.
    No,
}

impl Stored {
    /// A response that does not vary, without trailers and purge facts. `head` has the lines of `fields`, or some of them, and
    /// a `Content-Length`, which `fields` lack.
    #[must_use]
    pub fn new(meta: Meta, head: ReadyHead, fields: FieldList, body: StoredBody) -> Stored {
        let mut stored = Stored::of_head(meta, head, body);
        stored.set_fields(fields);
        stored
    }

    /// The same where the fields are all lines of the head but `Content-Length`.
    #[must_use]
    pub(crate) fn of_head(meta: Meta, head: ReadyHead, body: StoredBody) -> Stored {
        Stored {
            meta,
            head,
            body,
            epoch: 0,
            recheck: AtomicU64::new(u64::MAX),
            exchanged: Exchanged::default(),
            on_disk: DiskOffer::default(),
            encodings: None,
            uncommon: None,
        }
    }

    /// Replaces the head and the fields.
    pub fn set_head(&mut self, head: ReadyHead, fields: FieldList) {
        self.head = head;
        self.set_fields(fields);
    }

    fn set_fields(&mut self, fields: FieldList) {
        let unlike_head = differing_fields(&self.head, fields);
        self.change_uncommon(|it| it.unlike_head = unlike_head);
    }

    fn change_uncommon(&mut self, change: impl FnOnce(&mut UncommonParts)) {
        // Most responses have none, and need no memory for that.
        let mut parts = self.uncommon.take().map_or_else(UncommonParts::default, |it| *it);
        change(&mut parts);
        self.uncommon = (!parts.is_empty()).then(|| Box::new(parts));
    }

    /// The same with this variant key, these trailers and purge facts.
    #[must_use]
    pub fn with(
        mut self,
        variant: Box<[u8]>,
        trailers: Option<FieldList>,
        purge_facts: PurgeFacts,
    ) -> Stored {
        let PurgeFacts { tags, epoch: PurgeEpoch { seq, log } } = purge_facts;
        self.epoch = seq;
        self.change_uncommon(|it| {
            (it.variant, it.trailers, it.tags, it.log) = (variant, trailers, tags, log);
        });
        self
    }

    /// The same with these purge facts.
    #[must_use]
    pub fn with_purge_facts(mut self, purge_facts: PurgeFacts) -> Stored {
        let PurgeFacts { tags, epoch: PurgeEpoch { seq, log } } = purge_facts;
        self.epoch = seq;
        self.change_uncommon(|it| (it.tags, it.log) = (tags, log));
        self
    }

    /// The same under other facts, as a response that was never offered to the disk tier.
    #[must_use]
    pub(crate) fn with_meta(&self, meta: Meta) -> Stored {
        Stored {
            meta,
            head: self.head.clone(),
            body: self.body.clone(),
            epoch: self.epoch,
            recheck: AtomicU64::new(self.recheck.load(Relaxed)),
            exchanged: self.exchanged,
            on_disk: DiskOffer::default(),
            encodings: self.encodings.clone(),
            uncommon: self.uncommon.clone(),
        }
    }

    /// The variant key (`semantics::vary::write_key`); empty without `Vary`.
    #[inline]
    #[must_use]
    pub fn variant(&self) -> &[u8] {
        self.uncommon.as_ref().map_or(&[], |it| &it.variant)
    }

    /// The trailer section, if there was one.
    #[inline]
    #[must_use]
    pub fn trailers(&self) -> Option<&FieldList> {
        self.uncommon.as_ref()?.trailers.as_ref()
    }

    /// See [`PurgeFacts::tags`].
    #[inline]
    #[must_use]
    pub fn tags(&self) -> &[u64] {
        self.uncommon.as_ref().map_or(&[], |it| &it.tags)
    }

    /// See [`PurgeEpoch::log`].
    #[inline]
    #[must_use]
    pub fn log(&self) -> &Positions {
        self.uncommon.as_ref().map_or(&Positions::NONE, |it| &it.log)
    }

    /// When it was asked of the origin.
    #[must_use]
    pub fn epoch(&self) -> PurgeEpoch {
        PurgeEpoch { seq: self.epoch, log: self.log().clone() }
    }

    /// The facts that purges compare.
    #[must_use]
    pub fn purge_facts(&self) -> PurgeFacts {
        PurgeFacts { tags: self.tags().into(), epoch: self.epoch() }
    }

    /// Whether its head lacks some of its fields.
    pub(crate) fn has_own_head(&self) -> bool {
        self.unlike_head().is_some()
    }

    fn unlike_head(&self) -> Option<&FieldList> {
        self.uncommon.as_ref()?.unlike_head.as_ref()
    }

    /// The stored fields, one by one.
    pub fn lines(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        match self.unlike_head() {
            Some(list) => all_but_length(ReadyLines::of(list.text())),
            None => all_but_length(self.head.lines()),
        }
    }

    /// The stored fields as a list.
    #[must_use]
    pub fn fields(&self) -> FieldList {
        match self.unlike_head() {
            Some(list) => list.clone(),
            None => {
                let mut list = FieldList::new();
                self.lines().for_each(|it| list.push(it.name, it.value));
                list
            }
        }
    }

    /// Appends the stored fields as text, `Name: value` and CRLF each.
    pub(crate) fn write_fields(&self, out: &mut Vec<u8>) {
        let from = out.len();
        match self.unlike_head() {
            Some(list) => out.extend_from_slice(list.text()),
            None => {
                self.head.write_text(out);
                remove_status_and_length(out, from);
            }
        }
    }

    /// Whether both come from the same answer of the origin: the same value, or a copy that differs only by what purges
    /// have set since.
    pub(crate) fn is_same_response(&self, other: &Self) -> bool {
        let alike = || {
            let times = |it: &Stored| (it.meta.request_time, it.meta.response_time);
            times(self) == times(other)
                && self.variant() == other.variant()
                && (self.epoch, self.log()) == (other.epoch, other.log())
                && self.lines().eq(other.lines())
                && self.body.is_at(&other.body)
        };
        std::ptr::eq(self, other) || alike()
    }

    /// Its heap bytes, allocation overhead included. An arena body is not counted: its extent counts itself.
    pub(crate) fn heap_cost(&self) -> u64 {
        on_heap(size_of::<Self>() + COUNT)
            + on_heap(self.head.size())
            + self.uncommon.as_ref().map_or(0, |it| it.heap_cost())
            + on_heap(self.meta.etag.as_ref().map_or(0, EntityTag::block))
            + self.meta.uncommon.blocks().map(on_heap).sum::<u64>()
            + self.encodings.as_ref().map_or(0, |_| Encodings::heap_cost())
            + self.body.heap_cost()
    }

    /// Whether the fleet is to be asked, at the wall second `now`, before it is used again. It is at most `local_ttl` seconds from
    /// one time to the next: a later time was set before the clock was set back.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: u64, local_ttl: u64) -> bool {
        let at = self.recheck.load(Relaxed) & !NOT_SHARED;
        at <= now || at != !NOT_SHARED && at > now.saturating_add(local_ttl)
    }

    /// Sets the wall second `at` from which the fleet is asked.
    pub fn is_due_at(&self, at: u64, shared: FleetCopy) {
        let bit = if shared == FleetCopy::No { NOT_SHARED } else { 0 };
        let next = at.clamp(SUPERSEDED + 1, !NOT_SHARED) | bit;
        let _ = self.recheck.fetch_update(Relaxed, Relaxed, |it| (it != SUPERSEDED).then_some(next));
    }

    /// The origin has given another full response since: only a 304 makes this usable again.
    pub fn supersede(&self) {
        self.recheck.store(SUPERSEDED, Relaxed);
    }

    /// Whether [`Stored::supersede`] was called: then the fleet is asked each time, and this answers nothing.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.recheck.load(Relaxed) == SUPERSEDED
    }

    /// Whether the fleet had it when it was last asked or written to.
    #[must_use]
    pub fn is_shared(&self) -> FleetCopy {
        if self.recheck.load(Relaxed) & NOT_SHARED == 0 { FleetCopy::Yes } else { FleetCopy::No }
    }

    /// Whether one request may select both, so that only the newer of the two is kept.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        vary::may_meet((self.meta.vary(), self.variant()), (other.meta.vary(), other.variant()))
    }
}

/// A stored field section has no `Content-Length`: the body's length is known.
fn all_but_length(lines: ReadyLines<'_>) -> impl Iterator<Item = Field<'_>> + Clone {
    lines.filter(|it| !it.is("content-length"))
}

/// Removes the status line of the head that begins there, and its `Content-Length`.
fn remove_status_and_length(out: &mut Vec<u8>, from: usize) {
    const LENGTH: &[u8] = b"content-length:";
    let mut at = from;
    let mut is_status = true;
    while let Some(length) = memchr::memchr(b'\n', &out[at..]) {
        let line = at..at + length + 1;
        let is_length =
            || out[line.clone()].get(..LENGTH.len()).is_some_and(|it| it.eq_ignore_ascii_case(LENGTH));
        if is_status || is_length() {
            out.drain(line);
        } else {
            at = line.end;
        }
        is_status = false;
    }
}

/// The fields where they differ from the head's.
fn differing_fields(head: &ReadyHead, fields: FieldList) -> Option<FieldList> {
    (!all_but_length(head.lines()).eq(fields.iter())).then_some(fields)
}
