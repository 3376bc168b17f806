//! How far the two sides of an exchange are. What moves them on is in `exchange`.

use crate::body::RemainingBody;
use crate::error::OriginError;

/// How much of the request body has been handed over by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// This many bytes are missing.
    Length(u64),
    /// The last chunk is missing.
    Chunked,
    /// Bytes of another protocol than HTTP.
    Raw,
    /// Nothing is missing; some of it may be unsent.
    Done,
    /// The origin takes no more.
    Failed,
}

/// What of the response comes next.
pub(super) enum ResponsePhase {
    Head,
    Body(RemainingBody),
    Done,
    Failed(OriginError),
}

/// Whether the response says that the connection may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterBody {
    Keep,
    Close,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Bytes,
    End,
}
