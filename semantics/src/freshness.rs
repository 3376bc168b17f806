//! Age and freshness of a stored response: RFC 9111 §4.2, and nothing else.
//!
//! Pure arithmetic. No clock is read here: `now` is always an argument, so that
//! every case can be written as one row of a table (see the tests).

/// Where a lifetime came from, in order of precedence (RFC 9111 §4.2.1, RFC 9213 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// `cache.override_ttl` of the route.
    Override,
    /// A targeted field's `s-maxage` or `max-age`.
    Targeted,
    /// `s-maxage`.
    SMaxAge,
    /// `max-age`.
    MaxAge,
    /// `Expires` minus `Date`.
    Expires,
    /// `cache.status_ttl` of the route for this status.
    StatusDefault,
    /// `cache.default_ttl` of the route.
    RouteDefault,
    /// A share of the time since `Last-Modified`.
    Heuristic,
    /// Nothing gives a lifetime: stale at once.
    None,
}

/// How long a response is fresh, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Seconds, at most 2^31.
    pub seconds: u32,
    /// Who said so.
    pub source: LifetimeSource,
}

/// Whether a stored response may still be used without asking the origin (RFC 9111 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Usable as it is, for `remaining` seconds; never zero.
    Fresh {
        /// Seconds until it goes stale.
        remaining: u32,
    },
    /// Not usable without validation, unless a directive allows stale.
    Stale {
        /// Seconds since its lifetime ran out; zero in the first second.
        staleness: u32,
    },
}
