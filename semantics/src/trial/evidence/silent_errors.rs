//! The errors without a lifetime among the recorded responses that declare none: a lifetime of the status helps them, and that of the route is
//! not needed.

use crate::field::Field;
use crate::freshness::LifetimeSource;
use crate::policy::Policy;
use crate::stored::Meta;
use crate::trial::facts;
use crate::trial::{RecordedRequest, ServedBy, rule};

/// The statuses of pages that do not exist, which a cache may store (RFC 9110 section 15.5).
pub const MISSING: [u16; 2] = [404, 410];

/// The responses of a route without a declared lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SilentErrors {
    /// Those of [`MISSING`] among them, to requests that identify no client.
    pub errors: u64,
    /// All of them.
    pub all: u64,
    /// The statuses of these errors, in order.
    pub statuses: Vec<u16>,
}

impl SilentErrors {
    /// Notes a request of the route with this policy.
    pub fn note(&mut self, policy: &Policy, request: &RecordedRequest<'_>) {
        let Some(it) = request.response.filter(|it| request.served == ServedBy::Origin && it.is_whole())
        else {
            return;
        };
        if request.method != "GET" || it.status >= 500 {
            return;
        }
        let policy = rule(policy, request, &it);
        let meta = Meta::of(it.status, it.fields, policy, it.time, it.time);
        if meta.no_cache || meta.lifetime.source != LifetimeSource::None {
            return;
        }
        let weight = u64::from(request.weight);
        self.all += weight;
        let is_of_one_client =
            it.fields.iter().any(Field::sets_cookie) || facts::has_identity(request.fields);
        if MISSING.contains(&it.status) && !is_of_one_client {
            self.errors += weight;
            if let Err(at) = self.statuses.binary_search(&it.status) {
                self.statuses.insert(at, it.status);
            }
        }
    }
}
