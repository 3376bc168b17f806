//! The budget's sum: how many bytes are in use, and what things really cost. Who has to go is not here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes in use against a budget. Shared by everything that keeps bytes.
#[derive(Debug)]
pub(crate) struct Ledger {
    used: AtomicU64,
    budget: u64,
}

impl Ledger {
    pub fn new(budget: u64) -> Self {
        Self { used: AtomicU64::new(0), budget }
    }

    pub fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before}");
    }

    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes over the budget.
    pub fn excess(&self) -> u64 {
        self.used().saturating_sub(self.budget)
    }

    /// The largest thing that is taken in: one object must not push out nearly everything else.
    pub fn most_for_one(&self) -> u64 {
        self.budget / 4
    }
}

/// What `bytes` cost on the heap: a header of 8 bytes, multiples of 16, at least 32 (glibc; others waste alike).
pub(crate) const fn on_heap(bytes: usize) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let rounded = (bytes + 8).next_multiple_of(16);
    if rounded < 32 { 32 } else { rounded as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_costs_are_those_of_the_allocator() {
        assert_eq!([0, 32, 32, 48, 112], [0, 1, 24, 25, 100].map(on_heap));
    }
}
