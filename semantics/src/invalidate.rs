//! What an unsafe request invalidates: RFC 9111 §4.4.

use crate::field::Field;

/// The targets to invalidate, origin-form, on the request's own origin: its target, and those that
/// `Location` and `Content-Location` name on the same origin. Empty for safe methods and for error
/// responses (4xx, 5xx).
#[must_use]
pub fn targets(
    method: &str,
    scheme: &str,
    authority: &str,
    target: &str,
    status: u16,
    response: &[Field<'_>],
) -> Vec<String> {
    let _ = (method, scheme, authority, target, status, response);
    todo!()
}
