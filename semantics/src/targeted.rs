//! Targeted cache control (RFC 9213): which field's directives are in force.

use crate::cache_control::ResponseDirectives;
use crate::field::Field;
use crate::policy::Policy;

/// The directives in force and the field that gave them: the first target of the policy that is present
/// and a valid, non-empty structured dictionary, else `Cache-Control`. `Expires` and `Cache-Control` are
/// ignored when a targeted field is in force (RFC 9213 §2.1).
#[must_use]
pub fn directives<'p>(fields: &[Field<'_>], policy: &'p Policy) -> (ResponseDirectives, Option<&'p str>) {
    let _ = (fields, policy);
    todo!()
}
