//! A fetch in flight that others may follow: one writer, many readers on any worker, the body shared while it
//! arrives. A fill belongs to no client: whoever began it may go away.

use crate::ram::{KeyHash, Store};
use bytes::Bytes;
use larder_semantics::field::FieldList;
use std::sync::Arc;

/// What a fill says once its origin's head is there.
#[derive(Clone)]
pub enum FillHead {
    /// A response that may be shared with every reader whose variant it is.
    Shared(Arc<SharedHead>),
    /// A response for the reader that began the fill only; others go their own way.
    Private(Arc<SharedHead>),
    /// The store was changed (freshened by a 304): look again.
    LookAgain,
    /// The origin failed before a head; the gateway's own code for it.
    Failed(u16),
}

/// The head of the response that is being filled.
pub struct SharedHead {
    /// Status.
    pub status: u16,
    /// End-to-end fields, ready to send: stored form for shared responses.
    pub fields: FieldList,
    /// Body length where the origin said it.
    pub length: Option<u64>,
    /// The names of its `Vary`, and the variant key of the request that began it.
    pub vary: Vec<Box<str>>,
    /// See `vary`.
    pub variant: Box<[u8]>,
    /// Facts, for conditional requests and ranges.
    pub meta: larder_semantics::stored::Meta,
}

/// How a body ended.
#[derive(Clone, Debug)]
pub enum FillEnd {
    /// Whole, with its trailers.
    Complete(Option<Arc<FieldList>>),
    /// Cut off: every reader must show it to its client as truncated.
    Failed,
}

/// What [`Store::begin`] says.
pub enum Begin {
    /// Nobody fetches this: write this fill; the reader is your own client's.
    Lead(FillWriter, FillReader),
    /// Somebody does: read along.
    Follow(FillReader),
    /// Too many fills in flight: fetch alone.
    Full,
}

/// One fetch in flight.
pub struct Fill {
    _todo: (),
}

impl Store {
    /// Joins the fetch in flight for `hash` (which covers key and variant), or begins one.
    pub fn begin(&self, hash: KeyHash, key: &[u8]) -> Begin {
        let _ = (hash, key);
        todo!()
    }

    /// A fill that nobody can join: for fetches that go alone.
    pub fn begin_alone(&self, hash: KeyHash, key: &[u8]) -> (FillWriter, FillReader) {
        let _ = (hash, key);
        todo!()
    }
}

/// The writing end. Dropping it before [`FillWriter::finish`] fails the fill.
pub struct FillWriter {
    _todo: (),
}

impl FillWriter {
    /// Publishes the head. With `keep`, the whole body is kept for storing and late readers; without, only a
    /// window of it, and nobody may join any more.
    pub fn head(&mut self, head: FillHead, keep: bool) {
        let _ = (head, keep);
        todo!()
    }

    /// Adds bytes. Waits while a fill that is not kept is a window ahead of its slowest reader. A kept fill that
    /// outgrows `max_object` or the budget stops being kept and goes on as a window.
    ///
    /// # Errors
    /// Nobody reads and nothing is kept: stop fetching.
    pub async fn push(&mut self, bytes: Bytes, max_object: u64) -> Result<(), Abandoned> {
        let _ = (bytes, max_object);
        todo!()
    }

    /// Whether the body is still kept whole, and nothing removed the key meanwhile: it may be stored.
    #[must_use]
    pub fn may_store(&self) -> bool {
        todo!()
    }

    /// The kept body so far.
    #[must_use]
    pub fn chunks(&self) -> Vec<Bytes> {
        todo!()
    }

    /// Readers now.
    #[must_use]
    pub fn readers(&self) -> usize {
        todo!()
    }

    /// Waits until nobody reads any more.
    pub async fn deserted(&self) {
        todo!()
    }

    /// Ends the fill. Call after the response is in the store, so that no request falls between.
    pub fn finish(self, end: FillEnd) {
        let _ = end;
        todo!()
    }
}

/// Nobody reads and nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

/// One reader. Dropping it leaves.
pub struct FillReader {
    _todo: (),
}

impl FillReader {
    /// Waits for the head.
    pub async fn head(&mut self) -> FillHead {
        todo!()
    }

    /// The next bytes, from the beginning; `Err` at the end, with how it ended.
    ///
    /// # Errors
    /// The end of the body.
    pub async fn next(&mut self) -> Result<Bytes, FillEnd> {
        todo!()
    }
}
