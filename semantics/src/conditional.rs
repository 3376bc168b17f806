//! Preconditions of a request against a stored response: RFC 9110 §13, in its order of precedence.

use crate::field::Field;
use crate::stored::Meta;

/// What the preconditions say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Answer as if there were none.
    Proceed,
    /// 304 (RFC 9110 §15.4.5).
    NotModified,
    /// 412 (RFC 9110 §15.5.13).
    Failed,
}

/// Evaluates `If-Match`, `If-Unmodified-Since`, `If-None-Match`, `If-Modified-Since` for a GET or HEAD
/// (RFC 9110 §13.2.2). Stored responses that are not 200 (or 206) ignore them.
#[must_use]
pub fn evaluate(fields: &[Field<'_>], stored: &Meta) -> Precondition {
    let _ = (fields, stored);
    todo!()
}

/// Whether `If-Range` lets a `Range` apply (RFC 9110 §13.1.5): strong comparison; a date only if it is
/// exactly `Last-Modified` and strong by §8.8.2.2. True where there is no `If-Range`.
#[must_use]
pub fn range_applies(fields: &[Field<'_>], stored: &Meta) -> bool {
    let _ = (fields, stored);
    todo!()
}
