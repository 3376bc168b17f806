//! May this response be stored? RFC 9111 §3, decided once, here.

use crate::field::Field;
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::trace::Trace;
use larder_stdx::clock::WallTime;

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storable {
    /// It may be stored and shared.
    Store,
    /// It may not, and why.
    Refuse(Refusal),
}

/// Why a response is not stored. Each is one sentence of RFC 9111 §3 or one line of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The route does not use the cache.
    Disabled,
    /// The request method is not understood as cacheable (RFC 9111 §3).
    Method,
    /// The GET or HEAD had a body, whose meaning a key cannot hold.
    RequestBody,
    /// The request said `no-store` (RFC 9111 §5.2.1.5).
    RequestNoStore,
    /// The status is not final, or not understood while `must-understand` asks for it.
    Status,
    /// The response said `no-store` (RFC 9111 §5.2.2.5).
    NoStore,
    /// The response said `private` (RFC 9111 §5.2.2.7).
    Private,
    /// The request had `Authorization` and nothing allows sharing the answer (RFC 9111 §3.5).
    Authorization,
    /// The response sets a cookie, and the route does not allow to store such.
    SetCookie,
    /// `Vary: *` (RFC 9111 §4.1).
    VaryStar,
    /// No explicit lifetime, and the status has no heuristic one (RFC 9111 §3, last list).
    NoLifetime,
    /// Stale on arrival and without a validator: it could never be used.
    Useless,
    /// Too large for the largest object size.
    TooLarge,
    /// A 206 that cannot be kept: no single valid `Content-Range`, or no strong validator.
    Partial,
}

/// Decides RFC 9111 §3 for a response to `request`.
pub fn decide(
    request: &RequestFacts<'_>,
    status: u16,
    fields: &[Field<'_>],
    policy: &Policy,
    request_time: WallTime,
    response_time: WallTime,
    trace: &mut impl Trace,
) -> Storable {
    let _ = (request, status, fields, policy, request_time, response_time, trace);
    todo!()
}
