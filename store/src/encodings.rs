//! Other forms of a stored response: the same content in other codings. They are made after it was stored, kept beside it,
//! and the first to go when room is needed. Which are wanted is decided in `semantics::transcode`; who makes them,
//! and out of what, is not here.
//!
//! A hit loads a slot without a lock. A form that is taken out is freed when its last reader has gone.

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

/// Responses whose forms one search for room looks at.
const LOOKS: usize = 128;

/// One made form, ready to send.
pub struct Encoding {
    /// As [`crate::Stored::head`].
    pub head: ReadyHead,
    /// As [`crate::Stored::fields`].
    pub fields: FieldList,
    /// The whole body in this coding.
    pub body: StoredBody,
    /// Somebody was sent it since room was last looked for.
    used: AtomicBool,
    _charge: EncodingCharge,
}

impl Encoding {
    /// Notes that somebody is sent it.
    pub fn note_use(&self) {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }
}

/// A form that is there while this lives, without a count of its own.
pub type Peek = arc_swap::Guard<Option<Arc<Encoding>>>;

/// Bytes that leave the ledger with what they were entered for.
struct EncodingCharge {
    ledger: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for EncodingCharge {
    fn drop(&mut self) {
        self.ledger.forms.take(self.bytes);
        self.ledger.release(self.bytes);
    }
}

/// Why a form will not be made, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMade {
    /// There is no room or no time: it may be tried again.
    Later,
    /// It would be of no use, or too large.
    Never,
    /// The stored bytes are not in the coding that they are said to be in, or are made to hurt.
    Undecodable,
}

/// The forms of one stored response.
pub struct Encodings {
    /// Which there may be.
    pub plan: EncodingPlan,
    slots: [ArcSwapOption<Encoding>; PLACES],
    /// Those that somebody is to make.
    claimed: AtomicU8,
    /// Those that will not be made.
    refused: AtomicU8,
    undecodable: AtomicBool,
    /// Whether it is in the store's list of those that have forms.
    listed: AtomicBool,
    changed: Notify,
}

impl Encodings {
    /// None made yet.
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

    /// Which are made.
    #[must_use]
    pub fn made(&self) -> Codings {
        const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];
        let made = ALL.into_iter().zip(&self.slots).filter(|it| it.1.load().is_some());
        made.fold(Codings::NONE, |set, it| set.with(it.0))
    }

    /// Which will not be made.
    #[must_use]
    pub fn refused(&self) -> Codings {
        Codings::from_bits(self.refused.load(Relaxed))
    }

    /// Whether the stored bytes turned out not to be what their `Content-Encoding` says.
    #[must_use]
    pub fn is_undecodable(&self) -> bool {
        self.undecodable.load(Relaxed)
    }

    /// The form in `coding`, if it is there, for as long as the guard lives.
    #[must_use]
    pub fn peek(&self, coding: Coding) -> Option<Peek> {
        Some(self.slots[place(coding)?].load()).filter(|it| it.is_some())
    }

    /// The form in `coding`, if it is there, for as long as you like.
    #[must_use]
    pub fn get(&self, coding: Coding) -> Option<Arc<Encoding>> {
        self.slots[place(coding)?].load_full()
    }

    /// Says whether the caller is the one to have this form made: nobody else has it in hand, and it is neither made nor
    /// refused. Follow up with [`Store::keep_form`] or [`Encodings::not_made`].
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

    /// Gives a claim back: the form was not made.
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

    /// Waits until this form is made, or its claim was given back; at once where nobody has claimed it.
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

    /// Takes all forms out, unless one was used since this was last asked.
    fn take_unused(&self) -> Option<Vec<Arc<Encoding>>> {
        let mut used = false;
        for it in &self.slots {
            used |= it.load().as_ref().is_some_and(|it| it.used.swap(false, Relaxed));
        }
        if used {
            return None;
        }
        // Before they are taken: a form that comes later lists them anew.
        self.listed.store(false, SeqCst);
        Some(self.slots.iter().filter_map(|it| it.swap(None)).collect())
    }

    /// What they take on the heap beside the forms themselves, which count themselves.
    pub(crate) fn heap_cost() -> u64 {
        on_heap(size_of::<Encodings>() + 16)
    }
}

/// Which responses have forms, in the order in which they got their first.
#[derive(Default)]
pub(crate) struct EncodedResponses(Mutex<VecDeque<Weak<Encodings>>>);

impl Store {
    /// Keeps a form that was made: `body` in `coding`, with its own head and fields. It settles the claim in any case.
    ///
    /// # Errors
    /// No room could be made. Nothing is remembered of it.
    pub fn keep_form(
        &self,
        forms: &Arc<Encodings>,
        coding: Coding,
        head: ReadyHead,
        fields: FieldList,
        body: Vec<u8>,
    ) -> Result<(), OverBudget> {
        let length = body.len() as u64;
        let kept = self
            .make_body(&[Bytes::from(body)])
            .and_then(|body| self.put_form(forms, coding, head, fields, body));
        // Counted before anybody is told.
        match kept {
            Ok(()) => {
                self.counters.coding_made.add_shared(1);
                self.counters.coding_bytes_made.add_shared(length);
            }
            Err(OverBudget) => self.counters.coding_no_room.add_shared(1),
        }
        forms.settle(Codings::NONE.with(coding).bits());
        kept
    }

    /// Gives `new` the forms of `old`, whose content is the same, under the heads that `head` makes: a response that
    /// was freshened keeps them. Forms for which there is no room stay behind.
    pub fn carry_forms(
        &self,
        old: &Encodings,
        new: &Arc<Encodings>,
        head: impl Fn(Coding, &StoredBody) -> (ReadyHead, FieldList),
    ) {
        new.refused.store(old.refused.load(Relaxed), Relaxed);
        new.undecodable.store(old.is_undecodable(), Relaxed);
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            if let Some(form) = old.get(coding) {
                let (head, fields) = head(coding, &form.body);
                let _ = self.put_form(new, coding, head, fields, form.body.clone());
            }
        }
    }

    fn put_form(
        &self,
        forms: &Arc<Encodings>,
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
        self.ledger.forms.add(cost);
        let charge = EncodingCharge { ledger: self.ledger.clone(), bytes: cost };
        let form = Encoding { head, fields, body, used: AtomicBool::new(false), _charge: charge };
        forms.slots[place].store(Some(Arc::new(form)));
        if !forms.listed.swap(true, SeqCst) {
            let mut list = self.formed.0.lock();
            // Those whose responses have gone are let go now and then.
            if list.len() >= 1024 && list.len().is_power_of_two() {
                list.retain(|it| it.strong_count() > 0);
            }
            list.push_back(Arc::downgrade(forms));
        }
        Ok(())
    }

    /// Frees about `excess` bytes by taking out the forms of responses whose forms nobody was sent lately; says whether
    /// it found any. Responses that stay are served as they are stored.
    pub(crate) fn shed_forms(&self, excess: u64) -> bool {
        let (mut shed, mut freed) = (Vec::new(), 0);
        {
            let mut list = self.formed.0.lock();
            let mut looks = list.len().min(LOOKS);
            while looks > 0 && freed < excess {
                looks -= 1;
                let Some(weak) = list.pop_front() else { break };
                let Some(forms) = weak.upgrade() else { continue };
                match forms.take_unused() {
                    Some(taken) => {
                        freed += taken.iter().map(|it| it._charge.bytes + arena_bytes(&it.body)).sum::<u64>();
                        shed.extend(taken);
                    }
                    None => list.push_back(weak),
                }
            }
        }
        self.counters.coding_evictions.add_shared(shed.len() as u64);
        // They are freed here, under no lock.
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
