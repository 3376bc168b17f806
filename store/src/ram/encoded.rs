//! The encodings in the RAM tier: kept with their responses, and evicted before any of them.

use super::Store;
use crate::encodings::{Encoding, EncodingCharge, Encodings};
use crate::entry::StoredBody;
use crate::heap_bytes::list_cost;
use crate::memory_budget::{OverBudget, on_heap};
use bytes::Bytes;
use larder_semantics::coding::Coding;
use larder_semantics::compress::{Codings, place};
use larder_semantics::field::FieldList;
use larder_wire::ready_head::ReadyHead;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

/// The number of responses that one search for room checks for encodings.
const MOST_CHECKED: usize = 128;

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
        encodings.end_claim(Codings::NONE.with(coding).bits());
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
        new.copy_refusals(old);
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
        let encoding = Encoding { head, fields, body, used: AtomicBool::new(false), charge };
        if encodings.put(place, encoding) {
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
            let mut looks = list.len().min(MOST_CHECKED);
            while looks > 0 && freed < excess {
                looks -= 1;
                let Some(weak) = list.pop_front() else { break };
                let Some(encodings) = weak.upgrade() else { continue };
                match encodings.take_unused() {
                    Some(taken) => {
                        freed += taken.iter().map(|it| it.charge.bytes + arena_bytes(&it.body)).sum::<u64>();
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
#[path = "encoded/tests.rs"]
mod tests;
