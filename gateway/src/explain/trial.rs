//! The way of a recorded request on a route, for the trial of a configuration: by the functions that serve, without a lookup in
//! the cache. Nothing is sent to an origin.

use super::{passes, prepared};
use crate::cache_key;
use crate::protocol_upgrade;
use crate::request_headers::Bypass;
use crate::rewrite;
use crate::route::GatewayRoute;
use larder_semantics::analytics;
use larder_semantics::cookies;
use larder_semantics::field::Field;
use larder_semantics::request::RequestFacts;
use larder_semantics::trial::facts::{self, BodyDigest};
use larder_stdx::clock::WallTime;
use larder_store::Store;
use larder_store::ram::{Lookup, StoredBody};
use larder_wire::message::Request;

/// The way of a request on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// It bypasses the cache for this reason (kebab-case); whether because its response is one client's.
    Passed(&'static str, bool),
    /// It uses the cache.
    Cached,
}

/// The way of `request` on `route`; its key is written to `key` if it uses the cache. A private cookie with one of the names `needless`
/// changes no page, as other recorded requests show, and so does none of an analytics program.
#[must_use]
pub fn cache_use(
    route: &GatewayRoute,
    request: &Request,
    needless: &[String],
    key: &mut Vec<u8>,
) -> CacheUse {
    let upgrade = protocol_upgrade::asked(&route.upgrades, request).is_some();
    let request = &prepared(route, request);
    let fields = request.fields.view();
    let facts = RequestFacts::read(&request.method, &fields);
    if let Some(bypass) = passes(route, upgrade, &facts, &rewrite::view(request, &fields, None, None)) {
        let of_one_client = match bypass {
            Bypass::Credentials => true,
            Bypass::PrivateCookie => {
                let known = analytics::COOKIES.iter().copied().chain(needless.iter().map(String::as_str));
                !cookies::private_are_only(&fields, &route.policy, &known.collect::<Vec<_>>())
            }
            _ => false,
        };
        return CacheUse::Passed(bypass.reason().name(), of_one_client);
    }
    key.clear();
    cache_key::write(&route.policy, request.scheme, &request.authority, &request.target, &fields, key);
    CacheUse::Cached
}

/// The one spelling of the host of a request, as in keys.
#[must_use]
pub fn normal_authority(request: &Request) -> String {
    cache_key::normal(request.scheme, &request.authority).into_owned()
}

/// A response in RAM, as far as it decides.
#[derive(Clone, Debug)]
pub struct StoredResponseFacts {
    /// When its head arrived.
    pub time: WallTime,
    /// Its status.
    pub status: u16,
    /// The recorded text of its fields.
    pub facts: Vec<u8>,
    /// A hash of its representation.
    pub digest: u64,
    /// The bytes of its body.
    pub length: u64,
}

/// The response in RAM that a request with these fields would select under a key. The lookup is not counted as a use.
#[must_use]
pub fn stored_under(store: &Store, key: &[u8], fields: &[Field<'_>]) -> Option<StoredResponseFacts> {
    let Lookup::Entry(entry) = store.lookup(store.hash(key), key, crate::route::misses_clock()) else {
        return None;
    };
    let stored = entry.select(fields, &mut Vec::new())?;
    let list = stored.fields();
    let view = list.view();
    let digest = match (&stored.body, BodyDigest::of(&view)) {
        (StoredBody::Heap(body), Some(mut digest)) => {
            digest.add(body);
            digest.finish()
        }
        _ => facts::digest(&view),
    };
    let (time, status) = (stored.meta.response_time, stored.meta.status);
    let length = stored.body.len();
    Some(StoredResponseFacts { time, status, facts: facts::response(&view), digest, length })
}
