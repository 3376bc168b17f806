//! The memory of the RAM tier by purpose, for the statistics. `memory_budget` has the limit.

pub use crate::memory_budget::on_heap;
use crate::memory_budget::{BudgetCharge, OverBudget};
use crate::ram::{Store, Stored};

/// Bytes of memory, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// Responses on the heap: heads, fields, keys, and bodies up to the heap line; with the waste of the allocator's size
    /// classes (see docs/decisions/0020).
    pub responses: u64,
    /// Pages of the arena, as the kernel counts them: bodies above the heap line, including those of encodings and overlays.
    pub arena: u64,
    /// The tables of the index and of the policy, at their current size.
    pub index: u64,
    /// Memory allocated for those tables but not touched yet: it is not resident.
    pub untouched: u64,
    /// Forms of responses, without the parts of their bodies in the arena.
    pub encodings: u64,
    /// Fetches in flight: bytes that have arrived and are not stored yet.
    pub fills: u64,
    /// The most that codecs may take while they make encodings, in threads of their own.
    pub coders: u64,
    /// Heap bodies in the queue of the codecs.
    pub orders: u64,
}

/// Memory in addition to stored responses, which the store's budget counts until this is dropped.
pub struct Work(#[allow(dead_code, reason = "held, not read")] BudgetCharge);

impl Store {
    /// The memory that the tier takes now.
    #[must_use]
    pub fn memory(&self) -> StoreMemory {
        let (index, untouched) = self.tables();
        StoreMemory {
            responses: self.budget.responses.get(),
            arena: self.arenas.resident(),
            index,
            untouched,
            encodings: self.budget.encodings.get(),
            fills: self.budget.fills.get(),
            coders: self.budget.coders.get(),
            orders: self.budget.orders.get(),
        }
    }

    /// The heap bytes of serving threads: without the arena and the codecs.
    #[must_use]
    pub fn used_of_heap(&self) -> u64 {
        self.budget.of_heap().saturating_sub(self.budget.coders.get())
    }

    /// Makes room for `bytes` that a codec is about to take.
    ///
    /// # Errors
    /// It is more than half of the budget, or no room could be made.
    pub fn work(&self, bytes: u64) -> Result<Work, OverBudget> {
        if !self.could_work(bytes) {
            return Err(OverBudget);
        }
        self.reserve(bytes)?;
        Ok(Work(BudgetCharge::of(&self.budget, bytes, |it| &it.coders)))
    }

    /// Whether `bytes` for a codec could ever fit: half of the budget at most.
    #[must_use]
    pub fn could_work(&self, bytes: u64) -> bool {
        bytes <= self.budget.most_for_one() * 2
    }

    /// Enters `bytes` that wait for a codec; the next fill makes room for them.
    #[must_use]
    pub fn note_work(&self, bytes: u64) -> Work {
        Work(BudgetCharge::new(&self.budget, bytes, |it| &it.orders))
    }

    /// Enters a response that is being written to another tier and that RAM may drop meanwhile: the next fill makes room
    /// for it. The budget counts its part in the arena for as long as it is referenced.
    #[must_use]
    pub(crate) fn note_leaving(&self, stored: &Stored) -> Work {
        Work(BudgetCharge::new(&self.budget, stored.heap_cost(), |it| &it.fills))
    }

    /// Makes room for a body of `bytes` from another tier, until it is stored.
    ///
    /// # Errors
    /// It is more than one object may take, or no room could be made.
    pub(crate) fn room_for(&self, bytes: u64) -> Result<Work, OverBudget> {
        if bytes > self.budget.most_for_one() {
            return Err(OverBudget);
        }
        self.reserve(bytes)?;
        Ok(Work(BudgetCharge::of(&self.budget, bytes, |it| &it.fills)))
    }

    /// Whether a body of this size might be kept. `false` is certain, provided that current deliveries and fetches keep
    /// their memory. Either the body is too large for one object, or evicting everything would not make room.
    #[must_use]
    pub fn has_room_for(&self, bytes: u64) -> bool {
        if bytes > self.budget.most_for_one() {
            return false;
        }
        let missing = self.budget.missing_for(bytes);
        missing == 0 || missing <= self.evictable()
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::{plain, store};
    use bytes::Bytes;

    #[test]
    fn memory_of_codecs_evicts_responses_and_is_freed() {
        let store = store(16 << 20);
        for key in 0..15_u8 {
            let body = store.make_body(&[Bytes::from(vec![key; 1 << 20])]).unwrap();
            store.insert(store.hash(&[key]), &[key], plain(body), 4).unwrap();
        }
        let full = store.objects();
        let work = store.work(4 << 20).unwrap();
        assert!(store.objects() < full && store.used() <= 16 << 20);
        assert_eq!(4 << 20, store.memory().coders);
        assert!(store.work(9 << 20).is_err(), "more than half would push out nearly all");
        drop(work);
        assert_eq!(0, store.memory().coders);
        let waits = store.note_work(100);
        assert_eq!((0, 100), (store.memory().coders, store.memory().orders));
        drop(waits);
        assert_eq!(0, store.memory().orders);
        assert!(store.used() <= 12 << 20);
    }

    #[test]
    fn the_available_room_is_the_room_that_eviction_can_make() {
        let budget = 4 << 20;
        let store = store(budget);
        let body = || store.make_body(&[Bytes::from(vec![7; 900_000])]).unwrap();
        let keys = ["a", "b", "c", "d"];
        for key in keys {
            store.insert(store.hash(key.as_bytes()), key.as_bytes(), plain(body()), 4).unwrap();
        }
        assert!(store.has_room_for(budget / 4), "the others may go");
        assert!(!store.has_room_for(budget / 4 + 1), "it is too large for one");
        let sent = [(); 4].map(|()| body());
        assert!(!store.has_room_for(900_000), "what is being sent cannot go");
        drop(sent);
        assert!(store.has_room_for(900_000));
    }

    #[test]
    fn memory_is_counted_for_its_purpose_and_freed() {
        let store = store(16 << 20);
        let empty = store.memory();
        assert_eq!((0, 0, 0, 0), (empty.responses, empty.arena, empty.encodings, empty.fills));
        for (key, length) in [("a", 5000), ("b", 100_000)] {
            let body = store.make_body(&[Bytes::from(vec![7; length])]).unwrap();
            store.insert(store.hash(key.as_bytes()), key.as_bytes(), plain(body), 4).unwrap();
        }
        let full = store.memory();
        assert!((5000..9000).contains(&full.responses), "{full:?}");
        assert_eq!(102_400, full.arena, "whole pages");
        assert!(full.index > 0 && full.encodings == 0 && full.fills == 0, "{full:?}");
        for key in ["a", "b"] {
            assert!(store.remove(store.hash(key.as_bytes()), key.as_bytes()));
        }
        let empty = store.memory();
        assert_eq!((0, 0, 0, 0), (empty.responses, empty.arena, empty.encodings, empty.fills));
    }
}
