//! `Cache-Control` as a struct, for requests and responses (RFC 9111 §5.2).

/// Directives of a request (RFC 9111 §5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `max-age`: seconds; overflow is 2^31, an invalid value is zero (stale).
    pub max_age: Option<u32>,
    /// `min-fresh`: seconds.
    pub min_fresh: Option<u32>,
    /// `max-stale`: seconds; without argument any staleness, `u32::MAX`.
    pub max_stale: Option<u32>,
    /// `no-cache`, or `Pragma: no-cache` without Cache-Control.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `stale-if-error`: seconds (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
}

/// `no-cache` and `private` may be about the whole response or about named fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Qualified {
    /// The directive is absent.
    #[default]
    Absent,
    /// Present without argument: about the whole response.
    Whole,
    /// Present with field names, lower case: about those fields only.
    Fields(Vec<String>),
}

/// Directives of a response (RFC 9111 §5.2.2), or of the targeted field that takes their place
/// (RFC 9213).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `max-age`: seconds.
    pub max_age: Option<u32>,
    /// `s-maxage`: seconds.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate`: seconds.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error`: seconds.
    pub stale_if_error: Option<u32>,
    /// `no-cache`.
    pub no_cache: Qualified,
    /// `private`.
    pub private: Qualified,
    /// `no-store`.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
}
