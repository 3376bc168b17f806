//! How far the two sides of an exchange are. What moves them on is in `exchange`.

use crate::error::OriginError;

/// How much of the request body has been handed over by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// This many bytes are missing.
    Length(u64),
    /// Its end is missing; how long it is was not said.
    Unsized,
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
    Body,
    Done,
    Failed(OriginError),
}
