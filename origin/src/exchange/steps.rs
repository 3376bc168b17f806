//! The progress of the two sides of an exchange. `exchange` advances them.

use crate::error::OriginError;

/// How much of the request body the caller has supplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// This many bytes are missing.
    Length(u64),
    /// The end is missing; the length was not announced.
    Unsized,
    /// Bytes of another protocol than HTTP.
    Raw,
    /// Nothing is missing; some of it may be unsent.
    Done,
    /// The origin accepts no more.
    Failed,
}

/// The next part of the response.
pub(super) enum ResponsePhase {
    Head,
    Body,
    Done,
    Failed(OriginError),
}
