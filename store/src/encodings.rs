//! The encodings of a stored response: the same content in other codings. They are made after it was stored, kept with it,
//! and dropped first when room is needed. `semantics::transcode` decides which are wanted; the gateway makes them.
//!
//! A hit loads a slot without a lock. An encoding that is removed is freed when its last reader has gone.

use crate::entry::list_cost;
use crate::memory_budget::{MemoryBudget, on_heap};
use crate::ram::{OverBudget, Store, StoredBody};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use larder_semantics::coding::Coding;
use larder_semantics::compress::{Codings, PLACES, place};
use larder_semantics::field::FieldList;
use larder_semantics::transcode::EncodingPlan;
use larder_wire::ready_head::ReadyHead;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// The number of responses that one search for room checks for encodings.
const LOOKS: usize = 128;

/// One encoding, ready to send.
pub struct Encoding {
    /// As [`crate::Stored::head`].
    pub head: ReadyHead,
    /// As [`crate::Stored::fields`].
    pub fields: FieldList,
    /// The whole body in this coding.
    pub body: StoredBody,
    /// It was sent since the last search for room.
    used: AtomicBool,
    _charge: EncodingCharge,
}

impl Encoding {
    /// Notes that it is sent.
    pub fn note_use(&self) {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }
}

/// An encoding borrowed for the lifetime of the guard, without a reference count.
pub type Peek = arc_swap::Guard<Option<Arc<Encoding>>>;

/// Bytes that leave the budget when this is dropped.
struct EncodingCharge {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for EncodingCharge {
    fn drop(&mut self) {
        self.budget.encodings.take(self.bytes);
        self.budget.release(self.bytes);
    }
}

/// Why an encoding is not made, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMade {
    /// There is no room or no time: it may be tried again.
    Later,
    /// It would be useless or too large.
    Never,
    /// The stored bytes do not have their declared coding, or are a decompression bomb.
    Undecodable,
}

/// The encodings of one stored response.
pub struct Encodings {
    /// The encodings that may be made.
    pub plan: EncodingPlan,
    slots: [ArcSwapOption<Encoding>; PLACES],
    /// Those that are being made.
    claimed: AtomicU8,
    /// Those that will not be made.
    refused: AtomicU8,
    undecodable: AtomicBool,
    /// Whether it is in the store's list of responses with encodings.
    listed: AtomicBool,
    changed: Notify,
}

impl Encodings {
    /// No encoding is made yet.
    #[must_use]
    pub fn new(plan: EncodingPlan) -> Arc<Encodings> {
        Arc::new(Encodings {
            plan,
            slots: Default::default(),
            claimed: AtomicU8::new(0),
            refused: AtomicU8::new(0),
            undecodable: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// The encodings that exist.
    #[must_use]
    pub fn made(&self) -> Codings {
        const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];
        let made = ALL.into_iter().zip(&self.slots).filter(|it| it.1.load().is_some());
        made.fold(Codings::NONE, |set, it| set.with(it.0))
    }

    /// The encodings that will not be made.
    #[must_use]
    pub fn refused(&self) -> Codings {
        Codings::from_bits(self.refused.load(Relaxed))
    }

    /// Whether the stored bytes turned out not to have their `Content-Encoding`.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.undecodable.load(Relaxed)
    }

    /// The encoding in `coding`, if it exists, for as long as the guard lives.
    #[must_use]
    pub fn peek(&self, coding: Coding) -> Option<Peek> {
        Some(self.slots[place(coding)?].load()).filter(|it| it.is_some())
    }

    /// The encoding in `coding`, if it exists, with a reference count.
    #[must_use]
    pub fn get(&self, coding: Coding) -> Option<Arc<Encoding>> {
        self.slots[place(coding)?].load_full()
    }

    /// Returns whether the caller is to have this encoding made: it is neither being made, nor made, nor refused. Follow up
    /// with [`Store::keep_encoding`] or [`Encodings::not_made`].
    #[must_use]
    pub fn claim(&self, coding: Coding) -> bool {
        let bit = Codings::NONE.with(coding).bits();
        let unwanted = self.claimed.load(Relaxed) | self.refused.load(Relaxed);
        unwanted & bit == 0
            && self.claimed.fetch_or(bit, SeqCst) & bit == 0
            && (self.peek(coding).is_none() || {
                self.claimed.fetch_and(!bit, SeqCst);
                false
            })
    }

    /// Gives a claim back: the encoding was not made.
    pub fn not_made(&self, coding: Coding, why: NotMade) {
        let bit = Codings::NONE.with(coding).bits();
        match why {
            NotMade::Later => {}
            NotMade::Never => drop(self.refused.fetch_or(bit, SeqCst)),
            NotMade::Undecodable => {
                self.undecodable.store(true, SeqCst);
                self.refused.fetch_or(bit, SeqCst);
            }
        }
        self.settle(bit);
    }

    /// Waits until this encoding is made or its claim was given back; at once where it is not claimed.
    pub async fn settled(&self, coding: Coding) {
        let bit = Codings::NONE.with(coding).bits();
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.claimed.load(SeqCst) & bit == 0 {
                return;
            }
            changed.await;
        }
    }

    fn settle(&self, bit: u8) {
        self.claimed.fetch_and(!bit, SeqCst);
        self.changed.notify_waiters();
    }

    /// Removes all encodings, unless one was used since the last call.
    fn take_unused(&self) -> Option<Vec<Arc<Encoding>>> {
        let mut used = false;
        for it in &self.slots {
            used |= it.load().as_ref().is_some_and(|it| it.used.swap(false, Relaxed));
        }
        if used {
            return None;
        }
        // Before they are removed: an encoding that is added later lists them again.
        self.listed.store(false, SeqCst);
        Some(self.slots.iter().filter_map(|it| it.swap(None)).collect())
    }

    /// The heap bytes in addition to the encodings, which count themselves.
    pub(crate) fn heap_cost() -> u64 {
        on_heap(size_of::<Encodings>() + 16)
    }
}

/// The responses with encodings, in the order of their first encoding.
#[derive(Default)]
pub(crate) struct EncodedResponses(Mutex<VecDeque<Weak<Encodings>>>);

impl Store {
    /// Keeps an encoding: `body` in `coding`, with its own head and fields. It settles the claim in any case.
    ///
    /// # Errors
    /// No room could be made; nothing is kept.
    pub fn keep_encoding(
        &self,
        encodings: &Arc<Encodings>,
        coding: Coding,
        head: ReadyHead,
        fields: FieldList,
        body: Vec<u8>,
    ) -> Result<(), OverBudget> {
        let length = body.len() as u64;
        let kept = self
            .make_body(&[Bytes::from(body)])
            .and_then(|body| self.put_encoding(encodings, coding, head, fields, body));
        // Counted before the claim is settled.
        match kept {
            Ok(()) => {
                self.counters.coding_made.add_shared(1);
                self.counters.coding_bytes_made.add_shared(length);
            }
            Err(OverBudget) => self.counters.coding_no_room.add_shared(1),
        }
        encodings.settle(Codings::NONE.with(coding).bits());
        kept
    }

    /// Gives `new` the encodings of `old`, which has the same content, under the heads that `head` makes: a freshened
    /// response keeps them. Forms without room are dropped.
    pub fn carry_encodings(
        &self,
        old: &Encodings,
        new: &Arc<Encodings>,
        head: impl Fn(Coding, &StoredBody) -> (ReadyHead, FieldList),
    ) {
        new.refused.store(old.refused.load(Relaxed), Relaxed);
        new.undecodable.store(old.is_undecodable(), Relaxed);
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            if let Some(encoding) = old.get(coding) {
                let (head, fields) = head(coding, &encoding.body);
                let _ = self.put_encoding(new, coding, head, fields, encoding.body.clone());
            }
        }
    }

    fn put_encoding(
        &self,
        encodings: &Arc<Encodings>,
        coding: Coding,
        head: ReadyHead,
        fields: FieldList,
        body: StoredBody,
    ) -> Result<(), OverBudget> {
        let Some(place) = place(coding) else { return Err(OverBudget) };
        let head = self.heads.keep(head);
        let cost = on_heap(size_of::<Encoding>() + 16)
            + on_heap(head.size())
            + list_cost(&fields)
            + body.heap_cost()
            + size_of::<Weak<Encodings>>() as u64;
        self.reserve(cost)?;
        self.budget.encodings.add(cost);
        let charge = EncodingCharge { budget: self.budget.clone(), bytes: cost };
        let encoding = Encoding { head, fields, body, used: AtomicBool::new(false), _charge: charge };
        encodings.slots[place].store(Some(Arc::new(encoding)));
        if !encodings.listed.swap(true, SeqCst) {
            let mut list = self.encoded.0.lock();
            // Entries of dropped responses are removed from time to time.
            if list.len() >= 1024 && list.len().is_power_of_two() {
                list.retain(|it| it.strong_count() > 0);
            }
            list.push_back(Arc::downgrade(encodings));
        }
        Ok(())
    }

    /// Frees about `excess` bytes by removing the encodings of responses whose encodings were not used recently; returns whether
    /// it found any. The responses themselves stay.
    pub(crate) fn shed_encodings(&self, excess: u64) -> bool {
        let (mut shed, mut freed) = (Vec::new(), 0);
        {
            let mut list = self.encoded.0.lock();
            let mut looks = list.len().min(LOOKS);
            while looks > 0 && freed < excess {
                looks -= 1;
                let Some(weak) = list.pop_front() else { break };
                let Some(encodings) = weak.upgrade() else { continue };
                match encodings.take_unused() {
                    Some(taken) => {
                        freed += taken.iter().map(|it| it._charge.bytes + arena_bytes(&it.body)).sum::<u64>();
                        shed.extend(taken);
                    }
                    None => list.push_back(weak),
                }
            }
        }
        self.counters.coding_evictions.add_shared(shed.len() as u64);
        // They are freed here, without a lock.
        !shed.is_empty()
    }
}

fn arena_bytes(body: &StoredBody) -> u64 {
    match body {
        StoredBody::Arena(slice) => slice.length,
        StoredBody::Heap(_) | StoredBody::Disk(_) => 0,
    }
}

#[cfg(test)]
#[path = "encodings/tests.rs"]
mod tests;
