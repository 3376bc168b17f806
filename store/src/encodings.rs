//! The encodings of a stored response: the same content in other codings. They are made after it was stored, kept with it,
//! and dropped first when room is needed. `semantics::transcode` decides which are wanted; the gateway makes them.
//!
//! A hit loads a slot without a lock. An encoding that is removed is freed when its last reader has gone.

use crate::memory_budget::{MemoryBudget, on_heap};
use crate::stored_body::StoredBody;
use arc_swap::ArcSwapOption;
use larder_semantics::coding::Coding;
use larder_semantics::compress::{Codings, PLACES, place};
use larder_semantics::field::FieldList;
use larder_semantics::transcode::EncodingPlan;
use larder_wire::ready_head::ReadyHead;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{Relaxed, SeqCst},
};
use tokio::sync::Notify;

/// One encoding, ready to send.
pub struct Encoding {
    /// As [`crate::Stored::head`].
    pub head: ReadyHead,
    /// As [`crate::Stored::fields`].
    pub fields: FieldList,
    /// The whole body in this coding.
    pub body: StoredBody,
    /// It was sent since the last search for room.
    pub(crate) used: AtomicBool,
    pub(crate) charge: EncodingCharge,
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
pub type EncodingGuard = arc_swap::Guard<Option<Arc<Encoding>>>;

/// Bytes that leave the budget when this is dropped.
pub(crate) struct EncodingCharge {
    pub budget: Arc<MemoryBudget>,
    pub bytes: u64,
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
    pub fn peek(&self, coding: Coding) -> Option<EncodingGuard> {
        Some(self.slots[place(coding)?].load()).filter(|it| it.is_some())
    }

    /// The encoding in `coding`, if it exists, with a reference count.
    #[must_use]
    pub fn get(&self, coding: Coding) -> Option<Arc<Encoding>> {
        self.slots[place(coding)?].load_full()
    }

    /// Returns whether the caller is to have this encoding made: it is neither being made, nor made, nor refused. Follow up
    /// with [`crate::Store::keep_encoding`] or [`Encodings::not_made`].
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
        self.end_claim(bit);
    }

    /// Waits until this encoding is made or its claim was given back; at once where it is not claimed.
    pub async fn wait_settled(&self, coding: Coding) {
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

    pub(crate) fn end_claim(&self, bit: u8) {
        self.claimed.fetch_and(!bit, SeqCst);
        self.changed.notify_waiters();
    }

    /// Removes all encodings, unless one was used since the last call.
    pub(crate) fn take_unused(&self) -> Option<Vec<Arc<Encoding>>> {
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

    /// Takes over from `old`, which has the same content, which encodings cannot be made.
    pub(crate) fn copy_refusals(&self, old: &Encodings) {
        self.refused.store(old.refused.load(Relaxed), Relaxed);
        self.undecodable.store(old.is_undecodable(), Relaxed);
    }

    /// Puts an encoding in its place; returns whether these encodings are to be listed, since none of them was there.
    pub(crate) fn put(&self, place: usize, encoding: Encoding) -> bool {
        self.slots[place].store(Some(Arc::new(encoding)));
        !self.listed.swap(true, SeqCst)
    }

    /// The heap bytes in addition to the encodings, which count themselves.
    pub(crate) fn heap_cost() -> u64 {
        on_heap(size_of::<Encodings>() + 16)
    }
}
