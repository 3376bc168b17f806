//! What a 304, or a HEAD response, changes in a stored head: RFC 9111 §3.2, §4.3.4, §4.3.5.

use crate::field::{Field, FieldList};
use crate::policy::Policy;
use crate::stored::Meta;
use larder_stdx::clock::WallTime;

/// Whether a 304 with these fields is about this stored response (RFC 9111 §4.3.4): the same strong
/// validator; or the same weak one where it has no strong; or none at all and only one candidate.
#[must_use]
pub fn selects(stored: &Meta, fields: &[Field<'_>], only_candidate: bool) -> bool {
    let _ = (stored, fields, only_candidate);
    todo!()
}

/// The stored fields and facts after freshening: every field of `update` replaces its stored lines, but
/// `Content-Length`, `Content-Encoding`, `Content-Type`, `Content-Range`, hop-by-hop and
/// `Connection`-nominated ones (RFC 9111 §3.2).
#[must_use]
pub fn apply(
    stored: &FieldList,
    meta: &Meta,
    update: &[Field<'_>],
    policy: &Policy,
    request_time: WallTime,
    response_time: WallTime,
) -> (FieldList, Meta) {
    let _ = (stored, meta, update, policy, request_time, response_time);
    todo!()
}

/// What a 200 response to HEAD says of a stored GET response (RFC 9111 §4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// The same representation: [`apply`] it.
    Freshen,
    /// Another representation: mark the stored one stale.
    Invalidate,
}

/// Compares validators and `Content-Length`.
#[must_use]
pub fn head_says(stored: &Meta, stored_fields: &FieldList, head: &[Field<'_>]) -> HeadSays {
    let _ = (stored, stored_fields, head);
    todo!()
}
