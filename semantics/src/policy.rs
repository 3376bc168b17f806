//! The caching configuration of a route, already checked. The defaults are RFC 9111's: no response is cached longer, or
//! served staler, than a shared cache may by itself.

use crate::cache_rule::ArrivingResponse;
use crate::compress::Compress;
use crate::expression::Expression;
use crate::pattern::PathPattern;
use std::sync::Arc;

/// Seconds of ten years: no configured lifetime is longer, so that sums of lifetimes cannot overflow.
pub const LONGEST_LIFETIME: u32 = 315_360_000;

/// The cache policy of one route. Seconds everywhere; parsed once from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `cache.enabled`: whether the cache is used at all.
    pub enabled: bool,
    /// `cache.default_ttl`: lifetime of storable responses without an explicit one, before heuristics.
    pub default_ttl: Option<u32>,
    /// `cache.override_ttl`: lifetime that replaces the origin's. `no-store`, `private` and `Set-Cookie` still forbid
    /// storing.
    pub override_ttl: Option<u32>,
    /// `cache.max_ttl`: no lifetime is longer.
    pub max_ttl: u32,
    /// `cache.status_ttl`: (status, seconds) for responses without explicit lifetime (negative caching).
    pub status_ttl: Vec<(u16, u32)>,
    /// `cache.heuristic_percent`: share of the time since `Last-Modified` (RFC 9111 §4.2.2); 0 is off.
    pub heuristic_percent: u8,
    /// `cache.heuristic_max`: the longest heuristic lifetime.
    pub heuristic_max: u32,
    /// `cache.stale_while_revalidate`: for responses without the directive (RFC 5861 §3) whose lifetime is above zero.
    pub stale_while_revalidate: u32,
    /// `cache.stale_if_error`: how long past its lifetime a response may be served if the origin disconnects or responds
    /// with 5xx and the response has no such directive (RFC 5861 §4, RFC 9111 §4.2.4).
    pub stale_if_error: StaleIfError,
    /// `cache.request_directives`: which request directives are obeyed.
    pub request_directives: RequestDirectivePolicy,
    /// `cache.targets`: names of targeted fields, most specific first (RFC 9213 §2.2).
    pub targets: Vec<String>,
    /// `cache.store_set_cookie`: store responses with `Set-Cookie`, the field itself left out.
    pub store_set_cookie: bool,
    /// `cache.private_cookies`: a request with one of these bypasses the cache, and all other cookies are ignored; a `*`
    /// in a name matches any part of it, and alone every name. Empty: cookies are treated as in RFC 9111.
    pub private_cookies: Vec<String>,
    /// `cache.ignored_cookies`: cookies that are not private although `private_cookies` matches them.
    pub ignored_cookies: Vec<String>,
    /// `cache.public_files`: paths whose files are the same for all visitors; requests for these have no cookies.
    pub public_files: Vec<PathPattern>,
    /// `cache.key`: the recipe of the key.
    pub key: crate::key::KeyRecipe,
    /// `cache.vary`: names that every response counts as having in its `Vary`, as the origin may forget them; in lower case.
    pub vary: Vec<String>,
    /// `cache.tags`: the fields with the tags by which a response can be purged.
    pub tags: TagPolicy,
    /// `cache.max_variants`: most variants under one key.
    pub max_variants: u16,
    /// `cache.max_object`: bytes of the largest body that is stored.
    pub max_object: u64,
    /// `cache.hit_for_miss`: seconds for which a response that may not be shared is remembered.
    pub hit_for_miss: u32,
    /// `cache.collapse_wait`: milliseconds for which a request waits for the head of another's fetch.
    pub collapse_wait_ms: u32,
    /// `cache.on_abort`: the treatment of a fill without readers.
    pub on_abort: OnAbort,
    /// `cache.get_bodies`: the treatment of the body of a GET or HEAD.
    pub get_bodies: GetBodies,
    /// `cache.query` and `cache.query_body`: bytes of the largest body of a QUERY whose response may be stored; `None` if it is off.
    pub query_body: Option<u64>,
    /// `cache.compress`: the encodings of stored responses; `None` if it is off.
    pub compress: Option<Arc<Compress>>,
    /// `cache.cache_status`: whether `Cache-Status` is sent (RFC 9211).
    pub cache_status: bool,
    /// `cache.x_cache`: whether the older `X-Cache: HIT|MISS` is sent as well.
    pub x_cache: bool,
    /// `access`: the credentials that larder demands of the route's requests, as far as they concern the cache.
    pub credentials: CredentialUse,
    /// `cache.tiers`: the tiers that store responses of the route.
    pub tiers: TierSet,
    /// `cache.rule`: see [`Policy::of_response`].
    pub rules: Vec<CacheRule>,
    /// The rule that made this policy, if it is of one.
    pub rule: Option<RuleInForce>,
}

/// The name under which the identity of a client takes part in keys. It is no field name (RFC 9110 §5.1), so that neither a client
/// can send it nor an origin receive it.
pub const IDENTITY: &str = ":identity";

/// The name under which the authenticated user is passed on with a request: no field name either.
pub const USER: &str = ":user";

/// The effect of credentials that identify the client on the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialUse {
    /// The route demands none.
    #[default]
    None,
    /// A response is that of one client: the cache is not used.
    Private,
    /// The key has the client's identity ([`IDENTITY`]); a request without an identity does not use the cache.
    InKey,
    /// `access.shared`: all admitted clients get the same response.
    Shared,
}

/// `cache.stale_if_error`, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleIfError {
    /// Not set by the operator, or by a preset only: it does not apply to responses with a lifetime of zero, which have no permission to be
    /// reused.
    Default(u32),
    /// Set by the operator: it applies to every stored response.
    Set(u32),
}

/// The tiers that a route uses (`cache.tiers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSet {
    /// The memory of this process. Without it every request looks in the tiers below.
    pub ram: bool,
    /// The disk of this machine, if configured.
    pub disk: bool,
    /// The memcached servers that all nodes share, if configured.
    pub fleet: bool,
}

impl Default for TierSet {
    fn default() -> Self {
        Self { ram: true, disk: true, fleet: true }
    }
}

/// The fields of a response with its tags, and whether clients see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagPolicy {
    /// `cache.tags.headers`: names of fields that are lists of tags. `Cache-Groups` is always read as well.
    pub headers: Vec<String>,
    /// `cache.tags.send`: whether these fields are sent to clients. `Cache-Groups` always is.
    pub send: bool,
    /// The name of the only database whose changes are followed: tags of rows mean the same with and without it.
    pub database: Option<Box<str>>,
}

impl Default for TagPolicy {
    fn default() -> Self {
        let headers = [
            "Surrogate-Key",
            "Cache-Tag",
            "Cache-Tags",
            "Purge-Cache-Tags",
            "X-Cache-Tags",
            "X-Magento-Tags",
            "xkey",
        ];
        Self { headers: headers.map(str::to_owned).to_vec(), send: false, database: None }
    }
}

/// The request directives by which a client may control the cache (RFC 9111 §5.2.1 lets a cache choose).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDirectivePolicy {
    /// All of them, as RFC 9111 describes them.
    Obey,
    /// Only those that cause no origin requests: `only-if-cached`, `max-stale`.
    Harmless,
    /// None.
    Ignore,
}

/// The treatment of a fill after its last reader has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAbort {
    /// It continues and is stored: the next request hits.
    Finish,
    /// It is cancelled and the origin's connection closed.
    Cancel,
}

/// The treatment of the body of a GET or HEAD on a route that uses the cache. It has no defined meaning (RFC 9110 §9.3.1)
/// and is in no key, so that the request bypasses the cache in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetBodies {
    /// It is not sent to the application.
    Drop,
    /// It is sent to the application, for those that read it, such as Elasticsearch.
    Pass,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// `when`: a condition about responses ([`crate::expression::ExpressionSubject::Response`]).
    pub when: Expression,
    /// The policy for its responses: the route's with the values of the rule, and without rules.
    pub policy: Arc<Policy>,
}

/// The rule of which a policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInForce {
    /// Its place in the configuration, `FILE:LINE`.
    pub place: Box<str>,
    /// `pass`: its responses are not stored.
    pub pass: bool,
    /// Whether it has a lifetime (`ttl`), which is then `override_ttl` of its policy.
    pub sets_ttl: bool,
    /// Whether its lifetime applies to every status: its condition reads the status. Otherwise a rule about a path would
    /// keep errors.
    pub any_status: bool,
}

impl Policy {
    /// The policy for a response: of the first rule that holds, or this one.
    #[inline]
    #[must_use]
    pub fn of_response(&self, response: &ArrivingResponse<'_>) -> &Policy {
        self.rules.iter().find(|it| it.when.holds(response)).map_or(self, |it| &it.policy)
    }
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
            ignored_cookies: Vec::new(),
            public_files: Vec::new(),
            key: crate::key::KeyRecipe::default(),
            vary: Vec::new(),
            tags: TagPolicy::default(),
            max_variants: 32,
            max_object: 64 << 20,
            hit_for_miss: 10,
            collapse_wait_ms: 10_000,
            on_abort: OnAbort::Finish,
            get_bodies: GetBodies::Drop,
            query_body: None,
            compress: None,
            cache_status: true,
            x_cache: false,
            credentials: CredentialUse::None,
            tiers: TierSet::default(),
            rules: Vec::new(),
            rule: None,
        }
    }
}
