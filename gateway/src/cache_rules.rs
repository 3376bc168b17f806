//! The rules of a route about a response, applied to one that arrived (`semantics::cache_rule`).

use larder_semantics::cache_rule::ArrivingResponse;
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_wire::message::Request;

/// The policy for a response to `request`.
pub(crate) fn of_response<'p>(
    policy: &'p Policy,
    request: &Request,
    status: u16,
    fields: &[Field<'_>],
) -> &'p Policy {
    if policy.rules.is_empty() {
        return policy;
    }
    let (scheme, authority, target) = (request.scheme.name(), &*request.authority, &*request.target);
    policy.of_response(&ArrivingResponse { scheme, authority, target, status, fields })
}
