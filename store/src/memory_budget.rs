//! The sum of the budget: the bytes in use, and real costs. Other modules evict.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes in use against a budget. Shared by all owners of bytes.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    used: AtomicU64,
    /// The part of `used` that is not on the heap.
    arena: AtomicU64,
    /// The part of `used` for responses on the heap, encodings, and fetches in flight: for the statistics.
    pub responses: BudgetShare,
    pub encodings: BudgetShare,
    pub fills: BudgetShare,
    /// Bodies and heads of evicted responses that are still to be written to disk, in any place.
    pub leaving: BudgetShare,
    /// The memory of codecs.
    pub coders: BudgetShare,
    /// The memory of their queue.
    pub orders: BudgetShare,
    /// The memory of the process beyond its limit: see [`MemoryBudget::adjust_to_rss`].
    beyond: AtomicU64,
    limit: u64,
}

/// The budget has no room, and no entry that could be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Bytes of the budget in use for one purpose.
#[derive(Debug, Default)]
pub(crate) struct BudgetShare(AtomicU64);

impl BudgetShare {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub fn take(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl MemoryBudget {
    pub fn new(limit: u64) -> Self {
        let zero = || AtomicU64::new(0);
        let tally = BudgetShare::default;
        let (responses, encodings, fills) = (tally(), tally(), tally());
        let (leaving, coders, orders) = (tally(), tally(), tally());
        let (used, arena, beyond) = (zero(), zero(), zero());
        Self { used, arena, responses, encodings, fills, leaving, coders, orders, beyond, limit }
    }

    /// Of the bytes in use, `bytes` are in the arena now.
    pub fn enter_arena(&self, bytes: u64) {
        self.arena.fetch_add(bytes, Relaxed);
    }

    /// They have left the arena and are no longer in use.
    pub fn leave_arena(&self, bytes: u64) {
        self.arena.fetch_sub(bytes, Relaxed);
        self.release(bytes);
    }

    /// Records that the process has `resident` bytes of memory of its own, where `outside` would be right in addition to
    /// the bytes in use. The excess, mostly pages that the allocator cannot return, is subtracted from the budget from now on.
    /// It grows by a 32nd of the budget at a time, up to half, since eviction may not help.
    pub fn adjust_to_rss(&self, resident: u64, outside: u64) {
        let heap = self.of_heap();
        let beyond = resident.saturating_sub(heap + outside + self.limit / 32);
        let step = self.beyond.load(Relaxed) + self.limit / 32;
        self.beyond.store(beyond.min(step).min(self.limit / 2), Relaxed);
    }

    pub fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    pub fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before}");
    }

    /// An item entered with `entered` bytes takes `now`.
    pub fn settle(&self, entered: &mut u64, now: u64) {
        match now.cmp(entered) {
            Ordering::Greater => self.charge(now - *entered),
            Ordering::Less => self.release(*entered - now),
            Ordering::Equal => {}
        }
        *entered = now;
    }

    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The part of it outside the arena.
    pub fn of_heap(&self) -> u64 {
        self.used().saturating_sub(self.arena.load(Relaxed))
    }

    /// The part of the budget that can be used now.
    pub fn usable(&self) -> u64 {
        self.limit - self.beyond.load(Relaxed)
    }

    /// Bytes over the budget.
    pub fn excess(&self) -> u64 {
        self.missing_for(0)
    }

    /// Bytes over the budget if this number were added.
    pub fn missing_for(&self, bytes: u64) -> u64 {
        (self.used() + self.beyond.load(Relaxed) + bytes).saturating_sub(self.limit)
    }

    /// Enters a response that leaves RAM for the disk, with `heap` and `arena` bytes that are entered already. At most a
    /// 16th of the budget does so at a time, since it frees no room before it is written.
    pub fn leave(self: &Arc<Self>, heap: u64, arena: u64) -> Option<LeavingBytes> {
        let size = heap + arena;
        let before = self.leaving.0.fetch_add(size, Relaxed);
        if before + size > self.limit / 16 {
            self.leaving.take(size);
            return None;
        }
        Some(LeavingBytes {
            _heap: BudgetCharge::new(self, heap, |it| &it.responses),
            budget: self.clone(),
            size,
        })
    }

    /// The bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The largest object that is accepted: one object must not displace nearly everything.
    pub fn most_for_one(&self) -> u64 {
        self.limit / 4
    }
}

/// A response that leaves RAM for the disk, until it is written.
#[derive(Debug)]
pub(crate) struct LeavingBytes {
    _heap: BudgetCharge,
    budget: Arc<MemoryBudget>,
    size: u64,
}

impl Drop for LeavingBytes {
    fn drop(&mut self) {
        self.budget.leaving.take(self.size);
    }
}

/// Bytes that are charged to the budget for as long as this lives.
#[derive(Debug)]
pub(crate) struct BudgetCharge {
    budget: Arc<MemoryBudget>,
    bytes: u64,
    /// Their purpose.
    of: fn(&MemoryBudget) -> &BudgetShare,
}

impl BudgetCharge {
    /// Enters `bytes`, whether there is room for them or not.
    pub fn new(
        budget: &Arc<MemoryBudget>,
        bytes: u64,
        of: fn(&MemoryBudget) -> &BudgetShare,
    ) -> BudgetCharge {
        budget.charge(bytes);
        Self::of(budget, bytes, of)
    }

    /// Takes over `bytes` that are entered already.
    pub fn of(budget: &Arc<MemoryBudget>, bytes: u64, of: fn(&MemoryBudget) -> &BudgetShare) -> BudgetCharge {
        of(budget).add(bytes);
        BudgetCharge { budget: budget.clone(), bytes, of }
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        (self.of)(&self.budget).take(self.bytes);
        self.budget.release(self.bytes);
    }
}

/// The heap bytes of one block of `bytes`: the size class of the allocator (mimalloc 2). Pages that are not full are not
/// included: they are the allocator's, and the budget notices their excess.
#[must_use]
pub const fn on_heap(bytes: usize) -> u64 {
    /// A larger block has pages of its own (`MI_MEDIUM_OBJ_SIZE_MAX`).
    const OWN_PAGES: usize = 64 << 10;
    const WORD: usize = size_of::<usize>();
    let words = bytes.div_ceil(WORD);
    let rounded = match words {
        0 | 1 => words * WORD,
        2..=8 => words.next_multiple_of(2) * WORD,
        // Four classes from each power of two to the next.
        _ if bytes <= OWN_PAGES => words.next_multiple_of(1 << ((words - 1).ilog2() - 2)) * WORD,
        _ => bytes.next_multiple_of(of_pages(bytes)),
    };
    rounded as u64
}

/// The size to which a block with pages of its own is rounded up (`_mi_os_good_alloc_size`).
const fn of_pages(bytes: usize) -> usize {
    const K: usize = 1 << 10;
    const M: usize = 1 << 20;
    if bytes < 512 * K {
        4 * K
    } else if bytes < 2 * M {
        64 * K
    } else if bytes < 8 * M {
        256 * K
    } else if bytes < 32 * M {
        M
    } else {
        4 * M
    }
}

/// Resident bytes of this process that no file backs, without the arena (proc(5), statm); `None` where there is no /proc.
pub(crate) fn own_memory() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excess_of_resident_memory_is_corrected_gradually() {
        let budget = MemoryBudget::new(3200);
        budget.charge(2000);
        budget.enter_arena(1000);
        budget.adjust_to_rss(1000 + 500 + 100, 500);
        assert_eq!(0, budget.excess(), "a 32nd is as nothing");
        let excess = |resident| {
            budget.adjust_to_rss(resident, 500);
            budget.excess()
        };
        budget.charge(1200);
        budget.enter_arena(1200);
        assert_eq!([100, 200, 250], [1850; 3].map(excess));
        assert_eq!(0, excess(1600), "and back at once");
        assert_eq!(1600, [1 << 20; 40].map(excess)[39]);
    }

    #[test]
    fn heap_costs_are_those_of_the_allocator() {
        assert_eq!([0, 8, 8, 16, 112, 1280], [0, 1, 8, 9, 100, 1025].map(on_heap));
        for bytes in (1..70_000).chain((70_000..50_000_000).step_by(99_991)) {
            // SAFETY: allocates and frees a block, and asks for its size between.
            let real = unsafe {
                let block = libmimalloc_sys::mi_malloc(bytes);
                let real = libmimalloc_sys::mi_usable_size(block);
                libmimalloc_sys::mi_free(block);
                real
            };
            assert_eq!(real as u64, on_heap(bytes), "{bytes}");
        }
    }
}
