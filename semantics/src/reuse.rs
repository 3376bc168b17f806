//! May this stored response answer this request? RFC 9111 §4, decided once, here.

use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::stored::Meta;
use crate::trace::Trace;
use larder_stdx::clock::WallTime;

/// Why a request was forwarded to the origin, in the words of RFC 9211 §2.2 (`fwd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// `bypass`: the route does not use the cache.
    Bypass,
    /// `method`: the method's semantics require it.
    Method,
    /// `uri-miss`: nothing is stored under this key.
    UriMiss,
    /// `vary-miss`: stored, but no variant matches the request.
    VaryMiss,
    /// `stale`: stored, but must be validated first.
    Stale,
    /// `request`: the request's own directives forbid reuse.
    Request,
    /// `partial`: only a part is stored, and not the part that is asked for.
    Partial,
}

/// What the cache does with a request, given what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Answer from the store.
    Serve,
    /// Answer from the store although it is stale: the client asked for it (`max-stale`).
    ServeStale,
    /// Answer from the store and validate in the background (RFC 5861 §3).
    ServeWhileRevalidating,
    /// Ask the origin with the stored validators (RFC 9111 §4.3).
    Validate(ForwardReason),
    /// Ask the origin without condition.
    Forward(ForwardReason),
    /// Neither stored nor allowed to ask: 504 (`only-if-cached`, RFC 9111 §5.2.1.7).
    GatewayTimeout,
}

/// Decides RFC 9111 §4 for a GET or HEAD whose key and variant already matched.
/// `stored` is `None` with the reason why nothing matched.
pub fn decide(
    stored: Result<&Meta, ForwardReason>,
    request: &RequestFacts<'_>,
    policy: &Policy,
    now: WallTime,
    trace: &mut impl Trace,
) -> Reuse {
    let _ = (stored, request, policy, now, trace);
    todo!()
}

/// Whether the stale response may be served because the origin failed: RFC 5861 §4, RFC 9111 §4.2.4.
pub fn on_error(
    stored: &Meta,
    request: &RequestFacts<'_>,
    policy: &Policy,
    now: WallTime,
    trace: &mut impl Trace,
) -> bool {
    let _ = (stored, request, policy, now, trace);
    todo!()
}
