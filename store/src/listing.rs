//! Queries for listings of stored responses, their order and their pages. `ram::listing` lists RAM, `disk::listing` the disk;
//! this module has no JSON.

mod pattern;

use crate::entry::Entry;
use crate::key::KeyHash;
pub use pattern::{Pattern, ShownKey};
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// The most entries of one page.
pub const MOST: usize = 1000;

/// The order of a listing; equal entries are ordered by the hash of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingSort {
    /// The key's bytes.
    Key,
    /// Bytes of the bodies of all variants.
    Size,
    /// The time since the origin made the newest variant.
    Age,
    /// The number of answers from RAM, all variants together.
    Hits,
    /// Until when the newest variant is fresh.
    Expires,
}

/// The direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDirection {
    /// The smallest, the youngest, the one that expires first.
    Ascending,
    /// The reverse.
    Descending,
}

/// A query for a page of entries: of RAM, or with the sort orders and cursors of another tier.
pub struct ListingQuery<Sort = ListingSort, Cursor = ListingCursor> {
    /// The keys; `None` for all.
    pub pattern: Option<Pattern>,
    /// With a variant that has this tag.
    pub tag: Option<String>,
    /// Whose newest variant has such a status.
    pub status: Option<RangeInclusive<u16>>,
    /// The order.
    pub sort: Sort,
    /// Its direction.
    pub order: SortDirection,
    /// The number of entries, [`MOST`] at most.
    pub limit: usize,
    /// Only entries after this.
    pub after: Option<Cursor>,
}

/// A place in a sorted listing, which stays valid after entries were stored or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingCursor {
    /// The sort value, where that is a number.
    pub rank: u64,
    /// The key, where that is the order.
    pub key: Box<[u8]>,
    /// The hash of the key.
    pub hash: KeyHash,
}

/// A page of a listing.
pub struct ListingPage {
    /// Entries that were visited.
    pub total: usize,
    /// Matching entries among them, on this page or another.
    pub matched: usize,
    /// The page.
    pub listed: Vec<Listed>,
    /// The place after which the next page begins; `None` at the end.
    pub next: Option<ListingCursor>,
}

/// One entry of a page.
pub struct Listed {
    /// Its name in this process.
    pub hash: KeyHash,
    /// The entry.
    pub entry: Entry,
    pub(crate) rank: u64,
}

/// The compared values.
#[derive(Clone, Copy)]
pub(crate) struct Rank<'a> {
    number: u64,
    key: &'a [u8],
    hash: u128,
}

impl Rank<'_> {
    pub(crate) fn cmp(&self, other: &Rank<'_>) -> Ordering {
        // Two empty keys are not compared: glibc's memcmp loads under a mask. From an empty slice's address, where no
        // memory is, that takes 100 ns (AMD EPYC), more than the rest of the walk.
        let keys = || match (self.key, other.key) {
            ([], []) => Ordering::Equal,
            (one, other) => one.cmp(other),
        };
        self.number.cmp(&other.number).then_with(keys).then_with(|| self.hash.cmp(&other.hash))
    }
}

impl Listed {
    pub(crate) fn rank(&self, sort: ListingSort) -> Rank<'_> {
        rank(sort, self.rank, self.entry.key(), self.hash.0)
    }

    pub(crate) fn place(&self, sort: ListingSort) -> ListingCursor {
        let key = if sort == ListingSort::Key { self.entry.key().into() } else { Box::default() };
        ListingCursor { rank: self.rank, key, hash: self.hash }
    }
}

pub(crate) fn rank(sort: ListingSort, number: u64, key: &[u8], hash: u128) -> Rank<'_> {
    if sort == ListingSort::Key { Rank { number: 0, key, hash } } else { Rank { number, key: &[], hash } }
}
