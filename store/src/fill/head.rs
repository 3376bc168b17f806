//! What a fill tells its readers: its head, and how its body ended.

use crate::purges::Marks;
use crate::ram::StoredArc;
use larder_semantics::cache_status::AnsweringTier;
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
    /// A 304 has just freshened this, and it is stale again: its lifetime ran out while the origin was asked. It is of this variant.
    Validated(StoredArc),
    /// The origin was not asked: this lay in that tier, or stands in RAM still. It is of this variant, and every
    /// reader decides for itself whether it may use it.
    Found(StoredArc, AnsweringTier),
    /// The origin failed before a head; the gateway's own code for it. The request that was sent may have provoked it:
    /// it says nothing about any other.
    Failed(u16),
    /// No connection to the origin could be had, whatever the request was; the gateway's own code for it.
    Unreachable(u16),
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
    /// What purges look at.
    pub marks: Marks,
    /// Whom it may answer although it came stale.
    pub spent: SpentLifetime,
}

/// What a response is good for whose lifetime has run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpentLifetime {
    /// It came fresh, or answers the request alone that fetched it.
    #[default]
    No,
    /// It answers those who waited for it before its head came, and is stored, to be validated or served stale.
    Stored,
    /// It answers those, and is not stored.
    Passing,
}

/// How a body ended.
#[derive(Clone, Debug)]
pub enum FillEnd {
    /// Whole, with its trailers.
    Complete(Option<Arc<FieldList>>),
    /// Cut off: every reader must show it to its client as truncated.
    Failed,
    /// It goes on without this reader, for which others had waited long enough: the bytes from where it stands are gone, and its
    /// client must see that the body is cut. Only readers are told this.
    LeftBehind,
}
