//! Listing of RAM: searched, sorted, one page at a time. Shards are walked one after the other under their shared lock, and the
//! sort values are one step from the index (`ListedFacts`); only the best entries so far are sorted.
//!
//! A walk over a million keys would wait for memory a million times. Slots are therefore read `BATCH` at a time, and the
//! data of a whole batch is requested from memory before any of it is used.

use super::{RamShard, Store};
use crate::entry::{Entry, ListedFacts, tag_bit};
use crate::key::{KeyHash, PackedHash};
use crate::listing::{Listed, ListingPage, ListingQuery, ListingSort, MOST, Rank, SortDirection, rank};
use crate::purges::Seq;
use larder_semantics::tags;
use parking_lot::RwLock;
use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

/// Slots that are read together.
const BATCH: usize = 64;

/// Up to this many keys one thread walks; above, two do, where two cores remain for hits or one is idle.
const ALONE: usize = 100_000;

/// The number of cores from which a walk always uses two of them.
const CORES: usize = 4;

impl Store {
    /// Lists the content of RAM. It takes about 20 to 120 ms of a core for a million keys, so it has a thread of its own.
    /// From `ALONE` keys on it uses a second one on a large machine, or where a core is idle, but leaves every worker its
    /// core. Hits continue meanwhile; a store waits for one shard at most, about 10 µs.
    ///
    /// An entry that does not change during paging is on exactly one page.
    #[must_use]
    pub fn list(&self, query: &ListingQuery) -> ListingPage {
        self.list_while(query, || true)
    }

    /// The same, as long as the page `is_wanted`: it is asked before each shard, and when it is not the page has only what was visited.
    #[must_use]
    pub fn list_while(&self, query: &ListingQuery, is_wanted: impl Fn() -> bool + Sync) -> ListingPage {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_long = self.eviction.lock().objects() >= ALONE;
        let has_two = is_long && (cores >= CORES || is_one_idle(cores));
        self.list_by(query, if has_two { WalkThreads::Two } else { WalkThreads::One }, is_wanted)
    }

    fn list_by(
        &self,
        query: &ListingQuery,
        threads: WalkThreads,
        is_wanted: impl Fn() -> bool + Sync,
    ) -> ListingPage {
        let walk = |shards: &[RwLock<RamShard>]| {
            let mut walk = ShardWalk::new(self, query);
            for shard in shards.iter().take_while(|_| is_wanted()) {
                walk.shard(&shard.read());
                walk.keep_best();
            }
            walk
        };
        let (one, other) = self.shards.split_at(self.shards.len() / 2);
        if threads == WalkThreads::One {
            return walk(one).with(walk(other)).page();
        }
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| walk(one));
            let own = walk(other);
            match beside.join() {
                Ok(it) => it.with(own).page(),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// The entry under a hash in RAM, without purged responses; no use is counted.
    #[must_use]
    pub fn inspect(&self, hash: KeyHash) -> Option<Entry> {
        self.purges.remaining(self.entry_at(hash)?)
    }
}

/// The number of walking threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkThreads {
    One,
    Two,
}

/// Whether fewer threads run than there are cores, this one included; false where the system does not tell.
fn is_one_idle(cores: usize) -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    running(&load).is_some_and(|it| it < cores)
}

/// Running and runnable threads of all processes: for `0.20 0.18 0.12 1/80 11206` it is 1 (proc_loadavg(5)).
fn running(load: &str) -> Option<usize> {
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// A walk over the shards.
struct ShardWalk<'a> {
    store: &'a Store,
    query: &'a ListingQuery,
    /// The last purge, if it may not have been applied to everything.
    unswept: Option<Seq>,
    tag: Option<u64>,
    limit: usize,
    total: usize,
    matched: usize,
    /// The number of those after [`ListingQuery::after`].
    behind: usize,
    /// The best entries so far, and those added since they were selected.
    best: Vec<Listed>,
    /// Whether the best were selected: then the worst of them, the last of the page, is in its place.
    chosen: bool,
}

impl<'a> ShardWalk<'a> {
    fn new(store: &'a Store, query: &'a ListingQuery) -> Self {
        let limit = query.limit.clamp(1, MOST);
        let tag = query.tag.as_deref().map(tags::hash);
        let unswept = store.purges.unswept();
        Self {
            store,
            query,
            unswept,
            tag,
            limit,
            total: 0,
            matched: 0,
            behind: 0,
            best: Vec::new(),
            chosen: false,
        }
    }

    fn shard(&mut self, shard: &RamShard) {
        let mut batch: Vec<(PackedHash, &Entry)> = Vec::with_capacity(BATCH);
        self.total += shard.slots.len();
        for (hash, entry) in &shard.slots {
            batch.push((*hash, entry));
            if batch.len() == BATCH {
                self.batch(&mut batch);
                batch.clear();
            }
        }
        self.batch(&mut batch);
    }

    fn batch(&mut self, batch: &mut Vec<(PackedHash, &Entry)>) {
        self.touch(batch);
        for (hash, entry) in batch {
            if !self.is_asked_for(entry) {
                continue;
            }
            self.matched += 1;
            let (number, hash) = (self.number(entry), hash.whole());
            let own = rank(self.query.sort, number, entry.key(), hash.0);
            let is_behind = self.query.after.as_ref().is_none_or(|after| {
                let after = rank(self.query.sort, after.rank, &after.key, after.hash.0);
                self.is_before(after, own)
            });
            if !is_behind {
                continue;
            }
            self.behind += 1;
            let worst = self.best.get(self.limit - 1).filter(|_| self.chosen);
            if worst.is_none_or(|it| self.is_before(own, it.rank(self.query.sort))) {
                self.best.push(Listed { hash, entry: entry.clone(), rank: number });
            }
        }
    }

    /// Loads the data of these entries from memory, all at the same time: no load waits for the one before. Entries that
    /// do not match by their facts are left out.
    fn touch(&self, batch: &mut Vec<(PackedHash, &Entry)>) {
        let ListingQuery { sort, pattern, .. } = self.query;
        // Both: they are in two cache lines.
        black_box(batch.iter().map(|it| it.1.hits()).fold(0, |a, b| a ^ b));
        black_box(batch.iter().map(|it| it.1.facts.bytes).fold(0, |a, b| a ^ b));
        batch.retain(|it| self.may_be_asked_for(&it.1.facts));
        let by_key = *sort == ListingSort::Key || pattern.is_some();
        if by_key {
            let ends = |key: &[u8]| key.first().zip(key.last()).map_or(0, |it| usize::from(*it.0 ^ *it.1));
            black_box(batch.iter().map(|it| ends(it.1.key())).sum::<usize>());
        }
        if self.tag.is_some() {
            let newest = || batch.iter().filter_map(|it| it.1.variants.first());
            black_box(batch.iter().map(|it| it.1.variants.as_ptr().addr()).fold(0, |a, b| a ^ b));
            black_box(newest().map(|it| std::ptr::from_ref(&**it).addr()).fold(0, |a, b| a ^ b));
            black_box(newest().map(|it| it.tags().len()).sum::<usize>());
            black_box(newest().filter_map(|it| it.tags().first()).fold(0, |a, b| a ^ b));
        }
    }

    fn number(&self, entry: &Entry) -> u64 {
        match self.query.sort {
            ListingSort::Key => 0,
            ListingSort::Size => entry.facts.bytes,
            // The younger, the smaller.
            ListingSort::Age => u64::from(u32::MAX - entry.facts.epoch),
            ListingSort::Hits => u64::from(entry.hits.load(Relaxed)),
            ListingSort::Expires => u64::from(entry.facts.expires),
        }
    }

    /// As far as the index can tell.
    fn may_be_asked_for(&self, facts: &ListedFacts) -> bool {
        self.query.status.as_ref().is_none_or(|it| it.contains(&facts.status))
            && self.tag.is_none_or(|it| facts.tags & tag_bit(it) != 0)
    }

    fn is_asked_for(&self, entry: &Entry) -> bool {
        let ListingQuery { pattern, .. } = self.query;
        self.unswept.is_none_or(|it| self.is_left(entry, it))
            && pattern.as_ref().is_none_or(|it| it.is_in(entry.key()))
            && self.tag.is_none_or(|it| has_tag(entry, it))
    }

    /// Whether purges leave any of it.
    fn is_left(&self, entry: &Entry, seq: Seq) -> bool {
        entry.has_applied(seq) || self.store.purges.remaining(entry.clone()).is_some()
    }

    fn is_before(&self, one: Rank<'_>, other: Rank<'_>) -> bool {
        one.cmp(&other)
            == if self.query.order == SortDirection::Ascending { Ordering::Less } else { Ordering::Greater }
    }

    /// Drops entries that will not be on the page. Called without a lock: it may drop the last reference.
    fn keep_best(&mut self) {
        if self.best.len() < 2 * self.limit {
            return;
        }
        let ListingQuery { sort, order, .. } = *self.query;
        self.best.select_nth_unstable_by(self.limit - 1, |a, b| compare(sort, order, a, b));
        self.best.truncate(self.limit);
        self.chosen = true;
    }

    /// Merged with a walk over other shards.
    fn with(mut self, other: Self) -> Self {
        self.total += other.total;
        self.matched += other.matched;
        self.behind += other.behind;
        self.best.extend(other.best);
        self
    }

    fn page(self) -> ListingPage {
        let ShardWalk { store, mut best, limit, .. } = self;
        let ListingQuery { sort, order, .. } = *self.query;
        best.sort_unstable_by(|a, b| compare(sort, order, a, b));
        best.truncate(limit);
        let next = best.last().filter(|_| self.behind > best.len()).map(|it| it.place(sort));
        // Entries purged since the visit are not shown.
        let left = |it: Listed| Some(Listed { entry: store.purges.remaining(it.entry)?, ..it });
        let listed = best.into_iter().filter_map(left).collect();
        ListingPage { total: self.total, matched: self.matched, listed, next }
    }
}

fn compare(sort: ListingSort, order: SortDirection, one: &Listed, other: &Listed) -> Ordering {
    let ascending = one.rank(sort).cmp(&other.rank(sort));
    if order == SortDirection::Ascending { ascending } else { ascending.reverse() }
}

fn has_tag(entry: &Entry, tag: u64) -> bool {
    entry.variants.iter().any(|it| {
        let tags = it.tags();
        tags.binary_search(&tag).is_ok() || tags::are_every(tags)
    })
}

#[cfg(test)]
#[path = "listing/tests.rs"]
mod tests;
