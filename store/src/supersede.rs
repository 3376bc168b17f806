//! A stored response is dropped when the origin has answered the same request with another full response: RFC 9111
//! section 4.3.3. `semantics::supersede` decides whether an answer is such a response; `gateway` updates the tiers below.

use crate::entry::{Entry, Stored};
use crate::key::KeyHash;
use crate::ram::{EvictionState, Removals, Store};
use larder_semantics::field::Field;
use larder_semantics::vary;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

impl Store {
    /// Drops the stored response to this request, and prevents storing of any variant requested from the origin before.
    /// Other variants stay, and so does hit-for-miss. Returns whether a response was dropped.
    pub fn supersede(&self, hash: KeyHash, key: &[u8], request: &[Field<'_>]) -> bool {
        let mut eviction = self.eviction.lock();
        eviction.changed.note(key);
        self.removals_of(hash).fetch_add(1, SeqCst);
        let gone = self.take_where(&mut eviction, hash, key, |it| is_selected(it, request));
        self.in_flight.detach(hash, key);
        drop(eviction);
        gone.is_some()
    }

    /// Drops the stored response to this request; fills continue. For an answer that RAM has no room for.
    pub fn drop_selected(&self, hash: KeyHash, key: &[u8], request: &[Field<'_>]) -> bool {
        let mut eviction = self.eviction.lock();
        eviction.changed.note(key);
        let gone = self.take_where(&mut eviction, hash, key, |it| is_selected(it, request));
        drop(eviction);
        gone.is_some()
    }

    /// The count of removals in the neighbourhood of this key: to be read before the origin is asked, for a fill that
    /// starts only when the answer is there ([`Store::begin_private`]).
    #[must_use]
    pub fn removals(&self, hash: KeyHash) -> Removals {
        Removals(self.removals_of(hash).load(SeqCst))
    }

    pub(crate) fn removals_of(&self, hash: KeyHash) -> &AtomicU64 {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        &self.removed[hash.0 as usize % self.removed.len()]
    }

    /// Removes responses from an entry; returns the previous entry, to be dropped after the books are unlocked, if any
    /// was removed.
    pub(crate) fn take_where(
        &self,
        eviction: &mut EvictionState,
        hash: KeyHash,
        key: &[u8],
        goes: impl Fn(&Stored) -> bool,
    ) -> Option<Entry> {
        let entry = self.entry_of(hash, key)?;
        if !entry.variants.iter().any(|it| goes(it)) {
            return None;
        }
        match entry.map(entry.applied(), |it| (!goes(it)).then(|| it.clone())) {
            Some(left) => drop(self.put(eviction, hash, left)),
            None => drop(self.remove_from_index(eviction, hash)),
        }
        // It holds the removed responses.
        Some(entry)
    }
}

fn is_selected(stored: &Stored, request: &[Field<'_>]) -> bool {
    let mut variant = Vec::new();
    vary::write_key(stored.meta.vary(), request, &mut variant);
    *variant == *stored.variant()
}

#[cfg(test)]
#[path = "supersede/tests.rs"]
mod tests;
