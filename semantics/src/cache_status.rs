//! The `Cache-Status` field of one response (RFC 9211), and the older `X-Cache`.

use crate::reuse::ForwardReason;

/// What happened, as it is told downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Answered from the store; `ttl` is remaining freshness, negative when stale.
    Hit {
        /// Seconds.
        ttl: i64,
    },
    /// Asked the origin.
    Forwarded {
        /// Why.
        reason: ForwardReason,
        /// The origin's status, where it answered.
        status: Option<u16>,
        /// The response is being stored.
        stored: bool,
        /// Another request's fetch was used.
        collapsed: bool,
    },
}

/// Appends the member `larder; …` without field name and line end. No allocation.
pub fn write(report: Report, out: &mut Vec<u8>) {
    let _ = (report, out);
    todo!()
}
