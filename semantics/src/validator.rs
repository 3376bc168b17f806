//! Validators: entity tags and their comparison (RFC 9110 §8.8), and the conditional request that asks
//! the origin whether a stored response still holds (RFC 9111 §4.3.1).

use crate::field::FieldList;
use crate::stored::Meta;

/// Whether `value` is a valid entity tag, quotes and `W/` included.
#[must_use]
pub fn is_entity_tag(value: &[u8]) -> bool {
    let _ = value;
    todo!()
}

/// Strong comparison (RFC 9110 §8.8.3.2).
#[must_use]
pub fn strong_eq(a: &[u8], b: &[u8]) -> bool {
    !a.starts_with(b"W/") && a == b
}

/// Weak comparison (RFC 9110 §8.8.3.2).
#[must_use]
pub fn weak_eq(a: &[u8], b: &[u8]) -> bool {
    a.strip_prefix(b"W/").unwrap_or(a) == b.strip_prefix(b"W/").unwrap_or(b)
}

/// Puts the stored validators into a request to the origin, in place of the client's own conditions:
/// `If-None-Match` from `ETag`, `If-Modified-Since` from `Last-Modified`.
pub fn make_conditional(request: &mut FieldList, stored: &Meta) {
    let _ = (request, stored);
    todo!()
}
