//! A fill's messages to its readers: its head, and the end of its body.

use crate::entry::StoredArc;
use crate::purges::PurgeFacts;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::field::FieldList;
use std::sync::Arc;

/// A fill's message once the origin's head is there.
#[derive(Clone)]
pub enum FillHead {
    /// A response that may be shared with every reader whose variant it is.
    Shared(Arc<SharedHead>),
    /// A response only for the reader that started the fill; other readers ask for themselves.
    Private(Arc<SharedHead>),
    /// The store was changed (freshened by a 304): look again.
    StoreChanged,
    /// A 304 has just freshened this, and it is stale again: its lifetime ended during the request to the origin. It is
    /// of this variant.
    Validated(StoredArc),
    /// The origin was not asked: this was in that tier, or is confirmed in RAM. It is of this variant, and every reader
    /// decides for itself whether it may use it.
    Found(StoredArc, AnsweringTier),
    /// The origin failed before a head; this is the gateway's code for it. The request that was sent may have caused it:
    /// it says nothing about other requests.
    Failed(u16),
    /// No connection to the origin could be had, for any request; this is the gateway's code for it.
    Unreachable(u16),
}

/// The head of the response that is being filled.
pub struct SharedHead {
    /// Status.
    pub status: u16,
    /// End-to-end fields, ready to send: in stored form for shared responses.
    pub fields: FieldList,
    /// The body's length where the origin announced it.
    pub length: Option<u64>,
    /// The names of its `Vary`, and the variant key of the request that started the fill.
    pub vary: Vec<Box<str>>,
    /// See `vary`.
    pub variant: Box<[u8]>,
    /// Facts, for conditional requests and ranges.
    pub meta: larder_semantics::stored::Meta,
    /// The facts that purges compare.
    pub purge_facts: PurgeFacts,
    /// The requests that it may answer although it arrived stale.
    pub spent: SpentLifetime,
}

/// The use of a response whose lifetime has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpentLifetime {
    /// It arrived fresh, or answers only the request that fetched it.
    #[default]
    No,
    /// It answers requests that waited for it before its head arrived, and is stored, to be validated or served stale.
    Stored,
    /// It answers those requests, and is not stored.
    Passing,
}

/// The end of a body.
#[derive(Clone, Debug)]
pub enum FillEnd {
    /// Complete, with its trailers.
    Complete(Option<Arc<FieldList>>),
    /// Cut off: every reader must make the truncation visible to its client.
    Failed,
    /// It continues without this reader, for which others had waited long enough: the bytes from its position are gone,
    /// and its client must see that the body is cut. Only readers get this.
    LeftBehind,
}
