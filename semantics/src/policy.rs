//! What a route's configuration says about caching, already checked. The defaults are RFC 9111's:
//! nothing is cached longer, or served staler, than a shared cache may by itself.

use crate::compress::Compress;
use std::sync::Arc;

/// Seconds of ten years: no lifetime that somebody sets is longer, so that sums of lifetimes cannot overflow.
pub const LONGEST_LIFETIME: u32 = 315_360_000;

/// The cache policy of one route. Seconds everywhere; parsed once from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `cache.enabled`: whether the cache is used at all.
    pub enabled: bool,
    /// `cache.default_ttl`: lifetime of storable responses that name none, before heuristics.
    pub default_ttl: Option<u32>,
    /// `cache.override_ttl`: lifetime in place of whatever the origin says. `no-store`, `private` and
    /// `Set-Cookie` still forbid storing.
    pub override_ttl: Option<u32>,
    /// `cache.max_ttl`: no lifetime is longer.
    pub max_ttl: u32,
    /// `cache.status_ttl`: (status, seconds) for responses without explicit lifetime (negative caching).
    pub status_ttl: Vec<(u16, u32)>,
    /// `cache.heuristic_percent`: share of the time since `Last-Modified` (RFC 9111 §4.2.2); 0 is off.
    pub heuristic_percent: u8,
    /// `cache.heuristic_max`: the longest heuristic lifetime.
    pub heuristic_max: u32,
    /// `cache.stale_while_revalidate`: where the response says nothing (RFC 5861 §3).
    pub stale_while_revalidate: u32,
    /// `cache.stale_if_error`: how long past its lifetime a response may be served when the origin
    /// disconnects or answers 5xx and the response says nothing (RFC 5861 §4, RFC 9111 §4.2.4).
    pub stale_if_error: StaleIfError,
    /// `cache.request_directives`: which request directives are obeyed.
    pub request_directives: RequestDirectivePolicy,
    /// `cache.targets`: names of targeted fields, most specific first (RFC 9213 §2.2).
    pub targets: Vec<String>,
    /// `cache.store_set_cookie`: store responses with `Set-Cookie`, the field itself left out.
    pub store_set_cookie: bool,
    /// `cache.private_cookies`: a request that carries one of these passes the cache, and all other cookies are
    /// ignored; a `*` in a name matches any part of it. Empty: cookies are treated as RFC 9111 treats them.
    pub private_cookies: Vec<String>,
    /// `cache.key`: how the key is made.
    pub key: crate::key::KeyRecipe,
    /// `cache.tags`: what names the tags that a response can be purged by.
    pub tags: TagPolicy,
    /// `cache.max_variants`: most variants under one key.
    pub max_variants: u16,
    /// `cache.max_object`: bytes of the largest body that is stored.
    pub max_object: u64,
    /// `cache.hit_for_miss`: seconds for which an answer that may not be shared is remembered.
    pub hit_for_miss: u32,
    /// `cache.collapse_wait`: milliseconds a follower waits for the head of another's fetch.
    pub collapse_wait_ms: u32,
    /// `cache.on_abort`: what becomes of a fill when nobody reads it any more.
    pub on_abort: OnAbort,
    /// `cache.get_bodies`: what becomes of the body of a GET or HEAD.
    pub get_bodies: GetBodies,
    /// `cache.compress`: what is made of stored responses; `None` where it is off.
    pub compress: Option<Arc<Compress>>,
    /// `cache.cache_status`: whether `Cache-Status` is sent (RFC 9211).
    pub cache_status: bool,
    /// `cache.x_cache`: whether the older `X-Cache: HIT|MISS` is sent as well.
    pub x_cache: bool,
    /// `cache.tiers`: where responses of the route are kept.
    pub tiers: TierSet,
}

/// `cache.stale_if_error`, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleIfError {
    /// The operator has not set it: it is not of responses whose lifetime is zero, which nobody has said to be used again.
    Default(u32),
    /// The operator has set it: it is of all that is stored.
    Set(u32),
}

/// Which tiers a route uses (`cache.tiers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSet {
    /// The memory of this process. Without it every request asks the tiers below.
    pub ram: bool,
    /// The disk of this machine, where there is one.
    pub disk: bool,
    /// The memcached servers that all nodes share, where there are some.
    pub fleet: bool,
}

impl Default for TierSet {
    fn default() -> Self {
        Self { ram: true, disk: true, fleet: true }
    }
}

/// Which fields of a response name its tags, and whether clients see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagPolicy {
    /// `cache.tags.headers`: names of fields that are lists of tags. `Cache-Groups` is read beside them, always.
    pub headers: Vec<String>,
    /// `cache.tags.send`: whether these fields are sent to clients. `Cache-Groups` is, always.
    pub send: bool,
}

impl Default for TagPolicy {
    fn default() -> Self {
        Self { headers: vec!["Surrogate-Key".to_owned(), "Cache-Tag".to_owned()], send: false }
    }
}

/// Which request directives a client may steer the cache with (RFC 9111 §5.2.1 lets a cache choose).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectivePolicy {
    /// All of them, as RFC 9111 describes them.
    Obey,
    /// Only those that cannot make the origin work: `only-if-cached`, `max-stale`.
    Harmless,
    /// None.
    Ignore,
}

/// What becomes of a fill whose every reader has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAbort {
    /// It goes on and is stored: the next request hits.
    Finish,
    /// It is cancelled and the origin's connection closed.
    Cancel,
}

/// What becomes of the body of a GET or HEAD on a route that uses the cache. It has no defined meaning (RFC 9110 §9.3.1) and is
/// in no key, so that the request passes the cache in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetBodies {
    /// It does not reach the application.
    Drop,
    /// The application reads it, as Elasticsearch does.
    Pass,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enabled: true,
            default_ttl: None,
            override_ttl: None,
            max_ttl: 31_536_000,
            status_ttl: Vec::new(),
            heuristic_percent: 10,
            heuristic_max: 86_400,
            stale_while_revalidate: 0,
            stale_if_error: StaleIfError::Default(86_400),
            request_directives: RequestDirectivePolicy::Obey,
            targets: vec!["CDN-Cache-Control".to_owned()],
            store_set_cookie: false,
            private_cookies: Vec::new(),
            key: crate::key::KeyRecipe::default(),
            tags: TagPolicy::default(),
            max_variants: 32,
            max_object: 64 << 20,
            hit_for_miss: 10,
            collapse_wait_ms: 10_000,
            on_abort: OnAbort::Finish,
            get_bodies: GetBodies::Drop,
            compress: None,
            cache_status: true,
            x_cache: false,
            tiers: TierSet::default(),
        }
    }
}
