//! The RAM tier: shelves under a 128-bit hash, variants on a shelf, S3-FIFO over all, a budget in bytes.

use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::stored::Meta;
use larder_transport::body::{FileSlice, Piece};
use std::sync::Arc;

/// Size and shape of the RAM tier.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes that everything kept and everything in flight may take, metadata included.
    pub budget: u64,
    /// Bodies above this many bytes live in the arena; others on the heap. 16 KiB was measured best.
    pub heap_line: usize,
    /// Fetches in flight that may be shared.
    pub fills: usize,
}

/// The hash of a key. Seeded at random for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u128);

/// A stored body.
#[derive(Clone)]
pub enum Body {
    /// Up to the heap line.
    Heap(Bytes),
    /// In the arena; the slice keeps its extent.
    Arena(FileSlice),
}

impl Body {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Body::Heap(bytes) => bytes.len() as u64,
            Body::Arena(slice) => slice.length,
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body as a piece to send.
    #[must_use]
    pub fn piece(&self) -> Piece {
        match self {
            Body::Heap(bytes) => Piece::Bytes(bytes.clone()),
            Body::Arena(slice) => Piece::File(slice.clone()),
        }
    }
}

/// One stored response. Immutable: freshening makes another one that shares the body.
pub struct Stored {
    /// What decisions need.
    pub meta: Meta,
    /// The status line and every stored field in HTTP/1.1 wire form, without the empty line: a hit appends
    /// `Age` and what else is its own.
    pub head: Box<[u8]>,
    /// The stored fields.
    pub fields: FieldList,
    /// The trailer section, if there was one.
    pub trailers: Option<FieldList>,
    /// The body, whole or the part that `meta.partial` names.
    pub body: Body,
    /// The variant key (`semantics::vary::write_key`); empty without `Vary`.
    pub variant: Box<[u8]>,
}

/// Everything stored under one key. A snapshot: changes make another shelf.
pub struct Shelf {
    /// The full key, compared on every lookup.
    pub key: Box<[u8]>,
    /// The names of the newest response's `Vary`.
    pub vary: Vec<Box<str>>,
    /// Newest first.
    pub variants: Vec<Arc<Stored>>,
}

impl Shelf {
    /// The variant that a request selects (RFC 9111 §4.1): the newest whose own `Vary` matches. Allocates
    /// nothing when no stored response varies; `scratch` is reused.
    #[must_use]
    pub fn select(&self, request: &[Field<'_>], scratch: &mut Vec<u8>) -> Option<&Arc<Stored>> {
        let _ = (request, scratch);
        todo!()
    }
}

/// What a lookup found.
pub enum Lookup {
    /// Responses under this key.
    Shelf(Arc<Shelf>),
    /// Nothing, and answers are known not to be shared: do not wait for each other.
    HitForMiss,
    /// Nothing.
    Nothing,
}

/// The store of this process: shared by all workers.
pub struct Store {
    _todo: (),
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The kernel gives no memfd.
    pub fn new(settings: Settings, counters: Arc<Counters>) -> std::io::Result<Arc<Store>> {
        let _ = (settings, counters);
        todo!()
    }

    /// The hash of a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let _ = key;
        todo!()
    }

    /// Looks a key up, under a shared lock, and notes the use for S3-FIFO. `now` is monotonic milliseconds,
    /// for the memory of hit-for-miss.
    #[must_use]
    pub fn lookup(&self, hash: KeyHash, key: &[u8], now: u64) -> Lookup {
        let _ = (hash, key, now);
        todo!()
    }

    /// Makes a body out of chunks, on the heap or in the arena.
    ///
    /// # Errors
    /// No room could be made.
    pub fn make_body(&self, chunks: &[Bytes]) -> Result<Body, OverBudget> {
        let _ = chunks;
        todo!()
    }

    /// Puts a response on its shelf, in place of the variant with the same variant key. Evicts as needed;
    /// the oldest variant goes where there are more than `max_variants`.
    ///
    /// # Errors
    /// No room could be made.
    pub fn insert(
        &self,
        hash: KeyHash,
        key: &[u8],
        stored: Arc<Stored>,
        max_variants: usize,
    ) -> Result<(), OverBudget> {
        let _ = (hash, key, stored, max_variants);
        todo!()
    }

    /// Replaces `old` by `new` if `old` is still there (freshening); says whether it was.
    pub fn replace(&self, hash: KeyHash, key: &[u8], old: &Arc<Stored>, new: Arc<Stored>) -> bool {
        let _ = (hash, key, old, new);
        todo!()
    }

    /// Removes everything under a key and detaches its fills in flight: what was requested before is not
    /// stored after. Says whether anything was stored.
    pub fn remove(&self, hash: KeyHash, key: &[u8]) -> bool {
        let _ = (hash, key);
        todo!()
    }

    /// Remembers until `until` (monotonic milliseconds) that answers under this key are not shared.
    pub fn remember_miss(&self, hash: KeyHash, key: &[u8], until: u64) {
        let _ = (hash, key, until);
        todo!()
    }

    /// Bytes in use: kept and in flight.
    #[must_use]
    pub fn used(&self) -> u64 {
        todo!()
    }
}

/// The budget has no room and nothing that could be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;
