//! What the store keeps of a response beside its bytes: everything that later decisions need, computed
//! once when it is stored. The bytes are in `store`; only facts are here.

use crate::field::{Field, FieldList};
use crate::freshness::{Freshness, Lifetime};
use crate::policy::Policy;
use larder_stdx::clock::WallTime;

/// Facts of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its status code.
    pub status: u16,
    /// Our clock when the request was sent.
    pub request_time: WallTime,
    /// Our clock when the response head had arrived.
    pub response_time: WallTime,
    /// The origin's `Date`, or `response_time` where absent or invalid.
    pub date: WallTime,
    /// `corrected_initial_age` (RFC 9111 §4.2.3), seconds.
    pub initial_age: u32,
    /// How long it is fresh.
    pub lifetime: Lifetime,
    /// `must-revalidate`, `proxy-revalidate` or `s-maxage`: never stale without validation.
    pub must_revalidate: bool,
    /// `no-cache` without field names: always validated first.
    pub no_cache: bool,
    /// `stale-while-revalidate` in force, seconds.
    pub stale_while_revalidate: u32,
    /// `stale-if-error` in force, seconds.
    pub stale_if_error: u32,
    /// The `ETag` value with its quotes and `W/`, if it has a valid one.
    pub etag: Option<Box<[u8]>>,
    /// `Last-Modified`, if valid.
    pub last_modified: Option<WallTime>,
    /// Stored under another variant key than the plain one: the names its `Vary` gives, lower case.
    pub vary: Vec<Box<str>>,
    /// What was held is only a part of the representation (a 206, or a body that was cut but may be
    /// completed): see `partial`.
    pub partial: Option<crate::partial::Part>,
}

impl Meta {
    /// Age at `now` (RFC 9111 §4.2.3), seconds, at most 2^31.
    #[must_use]
    pub fn age(&self, now: WallTime) -> u32 {
        let _ = now;
        todo!()
    }

    /// Fresh or stale at `now`.
    #[must_use]
    pub fn freshness(&self, now: WallTime) -> Freshness {
        let _ = now;
        todo!()
    }

    /// Computes the facts of a response that [`crate::storable::decide`] let pass. `fields` are as
    /// received, before [`stored_fields`].
    #[must_use]
    pub fn of(
        status: u16,
        fields: &[Field<'_>],
        policy: &Policy,
        request_time: WallTime,
        response_time: WallTime,
    ) -> Meta {
        let _ = (status, fields, policy, request_time, response_time);
        todo!()
    }
}

/// The fields that are kept and sent with every hit: without hop-by-hop and `Connection`-nominated fields
/// (RFC 9111 §3.1), without those that `no-cache="…"`/`private="…"` name, without `Age` (each hit has its
/// own), `Set-Cookie` (unless it was the reason not to store at all), `Cache-Status` of ours; `Date`
/// added where it was absent (RFC 9110 §6.6.1); targeted fields for us removed only if the policy says so.
#[must_use]
pub fn stored_fields(fields: &[Field<'_>], policy: &Policy, response_time: WallTime) -> FieldList {
    let _ = (fields, policy, response_time);
    todo!()
}
