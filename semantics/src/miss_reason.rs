//! Why a request reached an origin: one reason out of a closed list, which the access log, the statistics and the page
//! show. `Cache-Status` has the coarser words of RFC 9211, by [`ForwardReason`]. The list is `miss_reason/table.rs`.

mod table;

pub use table::{MissReason, REASONS, ReasonRow};

use crate::freshness::LifetimeSource;
use crate::reuse::ForwardReason;
use crate::storable::NotStorable;
use crate::stored::Meta;
use std::fmt::Write as _;

/// The meaning of a reason for the hit ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissClass {
    /// A cache needs these requests: each page is fetched once, and again after a purge.
    Needed,
    /// A key of the configuration keeps the response out of the cache.
    ByConfiguration,
    /// The request identifies its client, or asks for something other than a page.
    ByRequest,
    /// The response says that it is not to be cached, or is for one client.
    ByResponse,
    /// A setting of larder or of the application could have made it a hit.
    CouldBeHit,
    /// It waited for the fetch of another request, and did not reach the origin itself.
    Shared,
}

impl MissClass {
    /// Its name in the API: a stable interface.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MissClass::Needed => "needed",
            MissClass::ByConfiguration => "by-configuration",
            MissClass::ByRequest => "by-request",
            MissClass::ByResponse => "by-response",
            MissClass::CouldBeHit => "could-be-hit",
            MissClass::Shared => "shared",
        }
    }

    /// Whether requests of this class are not cached on purpose: of the operator, the client or the application. Whether that is right is not
    /// known.
    #[must_use]
    pub fn is_uncached(self) -> bool {
        matches!(self, MissClass::ByConfiguration | MissClass::ByRequest | MissClass::ByResponse)
    }
}

/// Whether a request has a cookie that matters, or `Authorization`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCredentials {
    /// It has neither.
    None,
    /// Its response may be for one client.
    Some,
}

/// Why the stored responses of a key are gone from RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalCause {
    /// They were removed to make room while they were fresh.
    Evicted,
    /// They were removed to make room after their lifetime.
    Expired,
    /// No request used them for `cache.ram.idle`.
    Idle,
    /// A purge, an unsafe request or another response of the origin removed them.
    Purged,
}

/// The facts about a request for the cache that its origin gets.
#[derive(Clone, Copy, Debug)]
pub struct MissFacts<'a> {
    /// The reason for forwarding.
    pub forward: ForwardReason,
    /// The stored response that may not be served as it is.
    pub stored: Option<&'a Meta>,
    /// The stored response, or every variant, is for clients with other credentials.
    pub is_for_others: bool,
    /// The stored response is in doubt: the fleet lost it, or a newer one may be elsewhere.
    pub is_doubted: bool,
    /// The store remembers that answers under this key are not shared.
    pub is_hit_for_miss: bool,
    /// The method is HEAD.
    pub is_head: bool,
    /// The last removal of this key from RAM, if it is remembered.
    pub removed: Option<RemovalCause>,
    /// A stale response was served already.
    pub is_background: bool,
}

/// The reason before the response is known. A request that bypasses the cache has that of its bypass instead.
#[must_use]
pub fn judge(facts: &MissFacts<'_>) -> MissReason {
    if facts.is_background {
        return MissReason::Refresh;
    }
    match facts.forward {
        ForwardReason::Bypass => MissReason::CacheOff,
        ForwardReason::MalformedTarget => MissReason::MalformedTarget,
        ForwardReason::Method => MissReason::Method,
        ForwardReason::VaryMiss if facts.is_for_others => MissReason::Credentials,
        ForwardReason::VaryMiss => MissReason::Variant,
        ForwardReason::Request => MissReason::ClientNoCache,
        ForwardReason::Partial => MissReason::Range,
        ForwardReason::Stale => of_stale(facts),
        ForwardReason::UriMiss if facts.is_hit_for_miss => MissReason::HitForMiss,
        ForwardReason::UriMiss if facts.is_head => MissReason::Head,
        ForwardReason::UriMiss => match facts.removed {
            None => MissReason::FirstRequest,
            Some(RemovalCause::Evicted) => MissReason::Evicted,
            Some(RemovalCause::Expired) => MissReason::Expired,
            Some(RemovalCause::Idle) => MissReason::Idle,
            Some(RemovalCause::Purged) => MissReason::Purged,
        },
    }
}

fn of_stale(facts: &MissFacts<'_>) -> MissReason {
    match facts.stored {
        _ if facts.is_for_others => MissReason::Credentials,
        _ if facts.is_doubted => MissReason::Doubted,
        Some(meta) => of_stored(meta),
        None => MissReason::Expired,
    }
}

/// The reason of a request to which no valid response came: those that a cache cannot avoid say less than that, the others would be hits.
#[must_use]
pub fn without_response(before: MissReason) -> MissReason {
    match before {
        MissReason::Again | MissReason::Retry => before,
        it if it.row().class == MissClass::Needed => MissReason::NoResponse,
        it => it,
    }
}

/// The reason for a stored response that must be validated or replaced.
#[must_use]
pub fn of_stored(meta: &Meta) -> MissReason {
    let source = meta.lifetime.source;
    match source {
        LifetimeSource::Purged => MissReason::Purged,
        LifetimeSource::Unread | LifetimeSource::Unfollowed => MissReason::Doubted,
        LifetimeSource::RulesDropped => MissReason::PurgeRulesDropped,
        LifetimeSource::None if !meta.no_cache => MissReason::NoLifetime,
        _ if meta.no_cache || meta.lifetime.is_zero() => MissReason::MustValidate,
        _ => MissReason::Expired,
    }
}

/// The reason once a response has arrived that is not stored: the rule that refuses it, which a repetition would meet again.
#[must_use]
pub fn refused(
    before: MissReason,
    refusal: NotStorable,
    meta: impl FnOnce() -> Meta,
    credentials: impl FnOnce() -> RequestCredentials,
) -> MissReason {
    // Stale on arrival, because it declares nothing.
    let declares_nothing = |it: Meta| it.lifetime.source == LifetimeSource::None && !it.no_cache;
    match refusal {
        NotStorable::Useless if declares_nothing(meta()) => MissReason::NoLifetime,
        // No default lifetime applies to a redirect or an error, and a declared one would not share it.
        NotStorable::NoLifetime if credentials() == RequestCredentials::Some => MissReason::Credentials,
        NotStorable::Disabled => MissReason::CacheOff,
        // Of the request, not of its response.
        NotStorable::Method | NotStorable::RequestBody => before,
        NotStorable::Partial => MissReason::Range,
        NotStorable::RequestNoStore => MissReason::RequestNoStore,
        NotStorable::Status | NotStorable::NoLifetime => MissReason::Status,
        NotStorable::RedirectLoop => MissReason::RedirectLoop,
        NotStorable::NoStore => MissReason::NoStore,
        NotStorable::Private => MissReason::Private,
        NotStorable::Authorization => MissReason::Authorization,
        NotStorable::Credentials => MissReason::Credentials,
        NotStorable::SetCookie => MissReason::SetCookie,
        NotStorable::VaryStar => MissReason::VaryStar,
        NotStorable::Useless => MissReason::Useless,
        NotStorable::Late => MissReason::Late,
        NotStorable::TooLarge => MissReason::TooLarge,
        NotStorable::Rule => MissReason::Rule,
        NotStorable::Endless => MissReason::Endless,
        NotStorable::FileOrder => MissReason::FileOrder,
    }
}

/// The table of the guide.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from("| reason | meaning | | what changes it |\n|---|---|---|---|\n");
    for it in REASONS {
        let class = match it.class {
            MissClass::Needed => "needed",
            MissClass::ByConfiguration => "not cached by the configuration",
            MissClass::ByRequest => "not cached because of the request",
            MissClass::ByResponse => "not cached because of the response",
            MissClass::CouldBeHit => "could be a hit",
            MissClass::Shared => "not at the origin",
        };
        let change = if it.change.is_empty() { "–" } else { it.change };
        let _ = writeln!(out, "| `{}` | {} | {class} | {change} |", it.name, it.sentence);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::policy::Policy;
    use larder_stdx::clock::WallTime;

    fn meta(cache_control: &str) -> Meta {
        let fields = [Field { name: "cache-control", value: cache_control.as_bytes() }];
        Meta::of(200, &fields, &Policy::default(), WallTime(1000), WallTime(1000))
    }

    fn facts(forward: ForwardReason) -> MissFacts<'static> {
        MissFacts {
            forward,
            stored: None,
            is_for_others: false,
            is_doubted: false,
            is_hit_for_miss: false,
            is_head: false,
            removed: None,
            is_background: false,
        }
    }

    #[track_caller]
    fn check(expect: MissReason, facts: MissFacts<'_>) {
        assert_eq!(expect, judge(&facts), "{facts:?}");
    }

    #[test]
    fn a_key_without_a_response() {
        let miss = facts(ForwardReason::UriMiss);
        check(MissReason::FirstRequest, miss);
        for (cause, expect) in [
            (RemovalCause::Evicted, MissReason::Evicted),
            (RemovalCause::Expired, MissReason::Expired),
            (RemovalCause::Idle, MissReason::Idle),
            (RemovalCause::Purged, MissReason::Purged),
        ] {
            check(expect, MissFacts { removed: Some(cause), ..miss });
            // The known property of the answers says more than a removal before.
            check(MissReason::HitForMiss, MissFacts { removed: Some(cause), is_hit_for_miss: true, ..miss });
        }
        check(MissReason::Head, MissFacts { is_head: true, ..miss });
        check(MissReason::Variant, facts(ForwardReason::VaryMiss));
        // A variant for each client is not a hit for the next one.
        check(MissReason::Credentials, MissFacts { is_for_others: true, ..facts(ForwardReason::VaryMiss) });
        check(MissReason::Range, facts(ForwardReason::Partial));
    }

    #[test]
    fn a_stored_response_that_is_not_served() {
        let (fresh, never, zero) = (meta("max-age=60"), meta("no-cache, max-age=60"), meta("max-age=0"));
        let stale = facts(ForwardReason::Stale);
        let silent = meta("public");
        check(MissReason::Expired, MissFacts { stored: Some(&fresh), ..stale });
        check(MissReason::NoLifetime, MissFacts { stored: Some(&silent), ..stale });
        check(MissReason::MustValidate, MissFacts { stored: Some(&never), ..stale });
        check(MissReason::MustValidate, MissFacts { stored: Some(&zero), ..stale });
        check(MissReason::Doubted, MissFacts { stored: Some(&fresh), is_doubted: true, ..stale });
        check(MissReason::Credentials, MissFacts { stored: Some(&fresh), is_for_others: true, ..stale });
        check(MissReason::Refresh, MissFacts { stored: Some(&fresh), is_background: true, ..stale });
        let purged = crate::purged::PurgeVerdict::Soft(WallTime(1001)).apply(&fresh).unwrap();
        check(MissReason::Purged, MissFacts { stored: Some(&purged), ..stale });
        let unread = crate::purged::PurgeVerdict::Unread(WallTime(1001)).apply(&fresh).unwrap();
        check(MissReason::Doubted, MissFacts { stored: Some(&unread), ..stale });
        let dropped = crate::purged::PurgeVerdict::Dropped(WallTime(1001)).apply(&fresh).unwrap();
        check(MissReason::PurgeRulesDropped, MissFacts { stored: Some(&dropped), ..stale });
        // Of a database whose changes are not followed.
        let unfollowed = crate::purged::PurgeVerdict::Unfollowed(WallTime(1001)).apply(&fresh).unwrap();
        check(MissReason::Doubted, MissFacts { stored: Some(&unfollowed), ..stale });
        check(MissReason::ClientNoCache, MissFacts { stored: Some(&fresh), ..facts(ForwardReason::Request) });
    }

    /// "needed once" was said of the requests that are hits as soon as the purge log is followed again.
    #[test]
    fn a_request_for_a_response_in_doubt_could_be_a_hit() {
        assert_eq!(MissClass::CouldBeHit, MissReason::Doubted.row().class);
    }

    #[test]
    fn a_refusal_outweighs_the_reason_before_it() {
        use MissReason::{FirstRequest, Head};
        use NotStorable::{Method, NoLifetime, Partial, SetCookie, Useless};
        let check = |expect: MissReason, before, refusal, cache_control: &str| {
            let found = refused(before, refusal, || meta(cache_control), || RequestCredentials::None);
            assert_eq!(expect, found, "{refusal:?} {cache_control}");
        };
        check(MissReason::SetCookie, FirstRequest, SetCookie, "max-age=60");
        check(Head, Head, Method, "max-age=60"); // Of the request.
        check(MissReason::Range, FirstRequest, Partial, "max-age=60");
        check(MissReason::Useless, FirstRequest, Useless, "max-age=0");
        check(MissReason::NoLifetime, FirstRequest, Useless, "public");
        // A default lifetime would not help.
        check(MissReason::Useless, FirstRequest, Useless, "no-cache");
        check(MissReason::Status, FirstRequest, NoLifetime, "");
    }

    /// A redirect to the page of one visitor is not to be shared by a lifetime.
    #[test]
    fn an_answer_to_credentials_without_a_lifetime_is_not_cached_because_of_them() {
        let silent = Meta::of(302, &[], &Policy::default(), WallTime(1000), WallTime(1000));
        let found = refused(
            MissReason::FirstRequest,
            NotStorable::NoLifetime,
            || silent.clone(),
            || RequestCredentials::Some,
        );
        assert_eq!((MissReason::Credentials, MissClass::ByRequest), (found, found.row().class));
    }

    /// "Rightly not cached" was said of pages that a key of the operator's keeps out of the cache, and of style sheets that set a cookie.
    #[test]
    fn the_class_names_what_keeps_a_response_out_of_the_cache() {
        let class = |it: MissReason| it.row().class;
        assert_eq!(MissClass::ByConfiguration, class(MissReason::CacheOff));
        assert_eq!(MissClass::ByConfiguration, class(MissReason::PrivateCookie));
        assert_eq!(MissClass::ByResponse, class(MissReason::SetCookie));
        assert_eq!(MissClass::ByRequest, class(MissReason::Credentials));
    }

    /// No text may lead an operator to share what a response keeps for one client.
    #[test]
    fn reasons_for_private_responses_have_no_remedy() {
        let theirs = [
            NotStorable::NoStore,
            NotStorable::Private,
            NotStorable::SetCookie,
            NotStorable::Authorization,
            NotStorable::VaryStar,
            NotStorable::Endless,
            NotStorable::FileOrder,
        ];
        let (silent, none) = (meta("public"), RequestCredentials::None);
        for it in theirs.map(|it| refused(MissReason::FirstRequest, it, || silent.clone(), || none).row()) {
            assert_eq!((true, ""), (it.class.is_uncached(), it.change), "{}", it.name);
        }
        for it in REASONS {
            let permits = ["store_set_cookie", "override_ttl", "share", "ignore"];
            assert!(
                it.class == MissClass::CouldBeHit || !permits.iter().any(|word| it.change.contains(word)),
                "{}: {}",
                it.name,
                it.change
            );
        }
    }
}
