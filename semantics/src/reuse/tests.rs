//! Tables for reuse: a stored response, some seconds later, a request.

use super::*;
use crate::cache_control::MAX_DELTA;
use crate::freshness::{Lifetime, LifetimeSource};
use crate::policy::{RequestDirectivePolicy, StaleIfError};
use crate::purged::PurgeVerdict;
use crate::testing::{NOW, at, head};
use crate::trace::{RuleRecord, Silent};
use proptest::prelude::*;

fn stored(text: &str, policy: &Policy) -> Meta {
    let (status, fields) = text.split_once(" | ").unwrap_or((text, ""));
    Meta::of(status.parse().unwrap(), &head(fields).view(), policy, NOW, NOW)
}

fn verdict(text: &str, later: i64, request: &str, policy: &Policy) -> String {
    let (method, fields) = request.split_once(" | ").unwrap_or((request, ""));
    let fields = head(fields);
    let fields = fields.view();
    let facts = RequestFacts::read(method, &fields);
    let meta = stored(text, policy);
    let found = decide(Ok(&meta), &facts, policy, at(later), &mut Silent);
    found.reason().map_or_else(|| found.name().to_owned(), |it| format!("{} {}", found.name(), it.name()))
}

/// A stored 200 with these fields, this many seconds later, requested with GET and these fields.
#[track_caller]
fn check(fields: &str, later: i64, request: &str, expect: &str) {
    let found = verdict(&format!("200 | {fields}"), later, &format!("GET | {request}"), &Policy::default());
    assert_eq!(expect, found, "{fields}, {later} s later, {request}");
}

const TAG: &str = "ETag: \"a\"";

#[test]
fn fresh_and_stale() {
    check("Cache-Control: max-age=60", 59, "", "serve");
    check("Cache-Control: max-age=60", 60, "", "forward stale");
    check(&format!("Cache-Control: max-age=60 | {TAG}"), 60, "", "validate stale");
    check("Cache-Control: max-age=60 | Last-Modified: @-9", 60, "", "validate stale");
    check("Cache-Control: max-age=60, immutable", 61, "", "forward stale");
    check("Cache-Control: max-age=3600 | Age: 7200", 0, "", "forward stale");
    check("Cache-Control: max-age=3600 | Date: @-7200", 0, "", "forward stale");
    check("Date: @-10 | Expires: @10 | Age: 25", 0, "", "forward stale");
    check("Date: @10 | Expires: @20 | Age: 15", 0, "", "forward stale");
    check("Cache-Control: max-age=60, must-revalidate", 59, "", "serve");
    check(&format!("Cache-Control: max-age=60, no-cache | {TAG}"), 0, "", "validate stale");
    check("Cache-Control: max-age=60, no-cache", 0, "", "forward stale");
    check("Cache-Control: max-age=60, no-cache=\"a\"", 0, "", "serve");
    check("Cache-Control: max-age=60", -5000, "", "serve");
}

#[test]
fn stale_while_revalidate() {
    let swr = |more: &str| format!("Cache-Control: max-age=60, stale-while-revalidate=30{more} | {TAG}");
    check(&swr(""), 59, "", "serve");
    check(&swr(""), 60, "", "serve-while-revalidating");
    check(&swr(""), 89, "", "serve-while-revalidating");
    check(&swr(""), 90, "", "validate stale");
    for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=60", "no-cache"] {
        check(&swr(&format!(", {forbids}")), 61, "", "validate stale");
    }
    check(&swr(""), 61, "Cache-Control: no-cache", "validate request");
    check(&swr(""), 61, "Cache-Control: max-age=60", "validate request");
    check(&swr(""), 61, "Cache-Control: max-age=100", "serve-while-revalidating");
    check(&swr(""), 61, "Cache-Control: min-fresh=1", "validate request");
    let route = Policy { stale_while_revalidate: 9, ..Policy::default() };
    assert_eq!("serve-while-revalidating", verdict("200 | Cache-Control: max-age=1", 5, "GET", &route));
    assert_eq!(
        "forward stale",
        verdict("200 | Cache-Control: max-age=1, stale-while-revalidate=0", 5, "GET", &route)
    );
    for none in ["X-A: b", "Cache-Control: max-age=0", "Cache-Control: public, max-age=0", "Expires: 0"] {
        assert_eq!("validate stale", verdict(&format!("200 | {none} | {TAG}"), 0, "GET", &route), "{none}");
    }
}

#[test]
fn request_directives() {
    let fresh = format!("Cache-Control: max-age=3600 | {TAG}");
    check(&fresh, 0, "Cache-Control: no-cache", "validate request");
    check("Cache-Control: max-age=3600", 0, "Cache-Control: no-cache", "forward request");
    check(&fresh, 0, "Pragma: no-cache", "validate request");
    check(&fresh, 0, "Pragma: foo", "serve");
    check(&fresh, 0, "Cache-Control: no-store", "serve");
    check(&fresh, 0, "Cache-Control: max-age=0", "validate request");
    check(&fresh, 1, "Cache-Control: max-age=1", "serve");
    check(&fresh, 2, "Cache-Control: max-age=1", "validate request");
    check(&format!("{fresh} | Age: 1800"), 0, "Cache-Control: max-age=600", "validate request");
    check(&fresh, 0, "Cache-Control: min-fresh=3600", "serve");
    check(&fresh, 1, "Cache-Control: min-fresh=3600", "validate request");
    check(&fresh, 3609, "Cache-Control: max-stale=9", "serve-stale");
    check(&fresh, 3610, "Cache-Control: max-stale=9", "validate stale");
    check(&fresh, 999_999, "Cache-Control: max-stale", "serve-stale");
    check(&fresh, 3609, "Cache-Control: max-stale=9, max-age=60", "validate request");
    check("Cache-Control: max-age=1500 | Age: 2000", 0, "Cache-Control: max-stale=1000", "serve-stale");
    check("Cache-Control: max-age=60, must-revalidate", 61, "Cache-Control: max-stale", "forward stale");
    check("Cache-Control: s-maxage=60", 61, "Cache-Control: max-stale", "forward stale");
    check("Cache-Control: max-age=60, no-cache", 0, "Cache-Control: max-stale", "forward stale");
    check(&fresh, 0, "Cache-Control: only-if-cached", "serve");
    check(&fresh, 3600, "Cache-Control: only-if-cached", "gateway-timeout");
    check(&fresh, 0, "Cache-Control: only-if-cached, no-cache", "gateway-timeout");
    check(&fresh, 3600, "Cache-Control: only-if-cached, max-stale", "serve-stale");
}

#[test]
fn the_route_limits_the_directives_of_clients() {
    let under = |request_directives, request: &str| {
        let policy = Policy { request_directives, ..Policy::default() };
        verdict(
            &format!("200 | Cache-Control: max-age=60 | {TAG}"),
            9,
            &format!("GET | Cache-Control: {request}"),
            &policy,
        )
    };
    use RequestDirectivePolicy::{Harmless, Ignore};
    for costly in ["no-cache", "max-age=0", "min-fresh=100"] {
        assert_eq!("serve", under(Harmless, costly));
        assert_eq!("serve", under(Ignore, costly));
    }
    let late = |request_directives| {
        let policy = Policy { request_directives, ..Policy::default() };
        verdict(
            "200 | Cache-Control: max-age=60",
            90,
            "GET | Cache-Control: max-stale, only-if-cached",
            &policy,
        )
    };
    assert_eq!("serve-stale", late(Harmless));
    assert_eq!("forward stale", late(Ignore));
}

#[test]
fn only_a_plain_get_or_head_is_served() {
    let of = |request: &str| verdict("200 | Cache-Control: max-age=60", 0, request, &Policy::default());
    assert_eq!("serve", of("HEAD"));
    assert_eq!("forward method", of("POST"));
    assert_eq!("forward method", of("get"));
    assert_eq!("forward method", of("GET | Content-Length: 5"));
    assert_eq!("forward method", of("GET | X-HTTP-Method-Override: PUT"));
    assert_eq!("forward method", of("POST | Cache-Control: only-if-cached"));
    let off = Policy { enabled: false, ..Policy::default() };
    assert_eq!("forward bypass", verdict("200 | Cache-Control: max-age=60", 0, "GET", &off));
}

#[test]
fn a_request_without_a_stored_response_is_forwarded() {
    let facts = RequestFacts::read("GET", &[]);
    for reason in [ForwardReason::UriMiss, ForwardReason::VaryMiss] {
        let found = decide(Err(reason), &facts, &Policy::default(), NOW, &mut Silent);
        assert_eq!(Reuse::Forward(reason), found);
    }
    let only = head("Cache-Control: only-if-cached");
    let only = only.view();
    let facts = RequestFacts::read("GET", &only);
    let found = decide(Err(ForwardReason::UriMiss), &facts, &Policy::default(), NOW, &mut Silent);
    assert_eq!(Reuse::GatewayTimeout, found);
}

#[track_caller]
fn part(content_range: &str, request: &str, expect: &str) {
    let text = format!("206 | Cache-Control: max-age=60 | {TAG} | Content-Range: bytes {content_range}");
    let found = verdict(&text, 0, &format!("GET | {request}"), &Policy::default());
    assert_eq!(expect, found, "{content_range} {request}");
}

#[test]
fn a_part_answers_for_its_own_bytes() {
    part("4-8/10", "Range: bytes=4-8", "serve");
    part("4-8/10", "Range: bytes=6-7", "serve");
    part("4-8/10", "Range: bytes=6-", "forward partial");
    part("4-9/10", "Range: bytes=6-", "serve");
    part("4-9/10", "Range: bytes=-5", "serve");
    part("4-9/10", "Range: bytes=-7", "forward partial");
    part("4-9/10", "Range: bytes=3-5", "forward partial");
    part("4-9/10", "Range: bytes=4-5, 7-8", "forward partial");
    part("4-9/10", "", "forward partial");
    part("4-9/10", "Range: lines=4-5", "forward partial");
    part("4-8/*", "Range: bytes=5-6", "serve");
    part("4-8/*", "Range: bytes=5-", "forward partial");
    part("4-8/*", "Range: bytes=-2", "forward partial");
    part("4-9/10", "Range: bytes=4-5 | If-Range: \"a\"", "serve");
    part("4-9/10", "Range: bytes=4-5 | If-Range: \"b\"", "forward partial");
}

/// Whether a stored 200 may stand in when the origin fails.
#[track_caller]
fn error(fields: &str, later: i64, request: &str, policy: &Policy, expect: bool) {
    let request = head(request);
    let request = request.view();
    let meta = stored(&format!("200 | {fields}"), policy);
    let facts = RequestFacts::read("GET", &request);
    assert_eq!(expect, on_error(&meta, &facts, policy, at(later), &mut Silent), "{fields}, {later} s later");
}

#[test]
fn stale_stands_in_for_an_origin_that_fails() {
    let day = Policy::default();
    error("Cache-Control: max-age=2", 1, "", &day, true);
    error("Cache-Control: max-age=2", 3, "", &day, true);
    error("Cache-Control: max-age=2", 86_401, "", &day, true);
    error("Cache-Control: max-age=2", 86_402, "", &day, false);
    for forbids in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"] {
        error(&format!("Cache-Control: max-age=2, {forbids}"), 3, "", &day, false);
        error(&format!("Cache-Control: max-age=2, stale-if-error=60, {forbids}"), 3, "", &day, false);
    }
    error("Cache-Control: max-age=2, must-revalidate", 1, "", &day, true);
    error("Cache-Control: max-age=2, stale-if-error=60", 61, "", &day, true);
    error("Cache-Control: max-age=2, stale-if-error=60", 62, "", &day, false);
    error("Cache-Control: max-age=0, stale-if-error=1", 3, "", &day, false);
    // What nobody has given a lifetime is stale by its own word, or the route's.
    for zero in ["Cache-Control: max-age=0", "Expires: 0", TAG] {
        error(zero, 0, "", &day, false);
        error(zero, 0, "Cache-Control: stale-if-error=3600", &day, false);
    }
    let named = Policy { stale_if_error: StaleIfError::Set(3600), ..Policy::default() };
    error("Cache-Control: max-age=0", 3, "", &named, true);
    error("Cache-Control: max-age=0", 3, "Cache-Control: stale-if-error=1", &named, false);
    error("Cache-Control: max-age=0, stale-if-error=60", 3, "", &day, true);
    error("Cache-Control: max-age=2", 3, "Cache-Control: no-cache", &day, true);
    let never = Policy { stale_if_error: StaleIfError::Set(0), ..Policy::default() };
    error("Cache-Control: max-age=2", 3, "", &never, false);
    error("Cache-Control: max-age=2, stale-if-error=60", 3, "", &never, true);
}

#[test]
fn stale_if_error_of_the_route_holds_for_pages_of_an_unfollowed_database() {
    let check = |page: &str, setting, purge: fn(WallTime) -> PurgeVerdict, expect| {
        let policy = Policy { stale_if_error: setting, ..Policy::default() };
        let meta = purge(at(5)).apply(&stored(&format!("200 | {page}"), &policy)).unwrap();
        let fields = head("Cache-Control: max-stale=60");
        let fields = fields.view();
        let (request, later) = (RequestFacts::read("GET", &fields), at(6));
        assert_eq!(expect, on_error(&meta, &request, &policy, later, &mut Silent), "{page} {setting:?}");
        let used = decide(Ok(&meta), &request, &policy, later, &mut Silent);
        assert!(matches!(used, Reuse::Validate(_) | Reuse::Forward(_)), "never without asking: {used:?}");
    };
    let (day, set) = (StaleIfError::Default(86_400), StaleIfError::Set(3600));
    let page = "Cache-Control: max-age=60, stale-while-revalidate=60";
    check(page, set, PurgeVerdict::Unfollowed, true);
    check(page, day, PurgeVerdict::Unfollowed, false);
    check(page, set, PurgeVerdict::Validate, false);
    for own in ["must-revalidate", "no-cache", "s-maxage=60"] {
        check(&format!("{page}, {own}"), set, PurgeVerdict::Unfollowed, false);
    }
    check(&format!("{page}, stale-if-error=60"), StaleIfError::Set(0), PurgeVerdict::Unfollowed, false);
    check(&format!("{page}, stale-if-error=60"), day, PurgeVerdict::Unfollowed, false);
}

/// Of a guessed lifetime, or none, there is a page for strangers; a visitor with a session is asked about.
#[test]
fn a_response_with_a_guessed_lifetime_is_for_requests_without_credentials() {
    let guessed = format!("Last-Modified: @-100000 | {TAG}");
    for credentials in ["Cookie: sid=1", "Authorization: x", "Cookie: sid=1 | Cookie: b=2", "X-Api-Key: k"] {
        check(&guessed, 5, "", "serve");
        check(&guessed, 5, credentials, "forward stale");
        check(TAG, 5, credentials, "forward stale");
        check(&format!("{guessed} | Cache-Control: public"), 5, credentials, "serve");
        check("Cache-Control: max-age=60", 5, credentials, "serve");
        check(&guessed, 5, &format!("{credentials} | Cache-Control: only-if-cached"), "gateway-timeout");
        let day = Policy::default();
        error(&guessed, 20_000, "", &day, true);
        error(&guessed, 20_000, credentials, &day, false);
        error(&guessed, 0, credentials, &day, false);
        error("Cache-Control: max-age=60", 100, credentials, &day, true);
    }
    check(&guessed, 5, "Cookie: ", "serve");
    check(&guessed, 5, "User-Agent: a | Sec-Fetch-User: ?1", "serve");
    let under = |policy: &Policy, cookie: &str| {
        verdict(&format!("200 | {guessed}"), 5, &format!("GET | Cookie: {cookie}"), policy)
    };
    let private = Policy { private_cookies: vec!["sid".to_owned()], ..Policy::default() };
    assert_eq!("serve", under(&private, "theme=dark"));
    assert_eq!("forward stale", under(&private, "theme=dark; sid=1"));
    let keyed = crate::key::KeyRecipe { cookies: vec!["theme".to_owned()], ..Default::default() };
    let keyed = Policy { key: keyed, ..Policy::default() };
    assert_eq!("serve", under(&keyed, "theme=dark"));
    assert_eq!("forward stale", under(&keyed, "theme=dark; sid=1"));
    let whole = crate::key::KeyRecipe { headers: vec!["Cookie".to_owned()], ..Default::default() };
    assert_eq!("serve", under(&Policy { key: whole, ..Policy::default() }, "sid=1"));
    // A client cannot have a page of no lifetime by asking for what is stale.
    check(TAG, 5, "Cache-Control: max-stale", "validate stale");
}

#[test]
fn each_rule_is_recorded_with_its_arithmetic() {
    let meta = stored("200 | Cache-Control: max-age=60", &Policy::default());
    let facts = RequestFacts::read("GET", &[]);
    let mut report = RuleRecord::default();
    let _ = decide(Ok(&meta), &facts, &Policy::default(), at(12), &mut report);
    let names: Vec<_> = report.0.iter().map(|it| it.name).collect();
    assert_eq!(vec!["enabled", "method", "credentials", "no-cache", "request-no-cache", "fresh"], names);
    assert_eq!("max-age=60 - age 12 = fresh for 48 s", report.0.last().unwrap().evidence);
    assert_eq!(RuleOutcome::Decided, report.0.last().unwrap().outcome);
    let route = Policy { default_ttl: Some(9), ..Policy::default() };
    let meta = stored("200", &route);
    let mut report = RuleRecord::default();
    let _ = decide(Ok(&meta), &facts, &route, at(12), &mut report);
    let report = report.0.iter().find(|it| it.name == "fresh").unwrap();
    assert_eq!("cache.default_ttl=9 - age 12 = stale for 3 s", report.evidence);
}

fn seconds() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..4, 0u32..200, 0u32..=MAX_DELTA]
}

fn any_meta() -> impl Strategy<Value = Meta> {
    let numbers = (seconds(), seconds(), seconds(), seconds());
    (numbers, any::<[bool; 3]>()).prop_map(|((initial_age, lifetime, swr, sie), flags)| Meta {
        initial_age,
        lifetime: Lifetime { seconds: lifetime, source: LifetimeSource::MaxAge },
        must_revalidate: flags[0],
        no_cache: flags[1],
        etag: flags[2].then(|| "\"a\"".into()),
        stale_while_revalidate: swr,
        stale_if_error: sie,
        ..stored("200", &Policy::default())
    })
}

fn any_asked() -> impl Strategy<Value = RequestDirectives> {
    let number = || prop::option::weighted(0.3, seconds());
    (number(), number(), number(), number(), any::<[bool; 2]>(), 0u8..4).prop_map(
        |(max_age, min_fresh, max_stale, stale_if_error, [no_store, only_if_cached], no_cache)| {
            RequestDirectives {
                max_age,
                min_fresh,
                max_stale,
                no_cache: no_cache == 0,
                no_store,
                no_transform: false,
                only_if_cached,
                stale_if_error,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// The requirements of RFC 9111 §4 for an answer without validation, sentence by sentence.
    #[test]
    fn every_reuse_is_allowed_by_rfc_9111(meta in any_meta(), asked in any_asked(), later in 0i64..400) {
        let mut facts = RequestFacts::read("GET", &[]);
        facts.directives = asked;
        let policy = Policy::default();
        let verdict = decide(Ok(&meta), &facts, &policy, at(later), &mut Silent);
        let age = (u64::from(meta.initial_age) + later.unsigned_abs()).min(u64::from(MAX_DELTA));
        let lifetime = u64::from(meta.lifetime.seconds);
        let fresh = lifetime > age;
        match verdict {
            Reuse::Serve => prop_assert!(fresh),
            Reuse::ServeStale => prop_assert!(!fresh && u64::from(asked.max_stale.unwrap()) >= age - lifetime),
            Reuse::ServeWhileRevalidating => {
                prop_assert!(!fresh && age - lifetime < u64::from(meta.stale_while_revalidate));
            }
            Reuse::Validate(_) => prop_assert!(meta.has_validator() && !asked.only_if_cached),
            Reuse::Forward(_) => prop_assert!(!meta.has_validator() && !asked.only_if_cached),
            Reuse::GatewayTimeout => prop_assert!(asked.only_if_cached),
        }
        if matches!(verdict, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating) {
            prop_assert!(!meta.no_cache && !asked.no_cache);
            prop_assert!(asked.max_age.is_none_or(|it| age <= u64::from(it)));
            prop_assert!(asked.min_fresh.is_none_or(|it| lifetime.saturating_sub(age) >= u64::from(it)));
            prop_assert!(fresh || !meta.must_revalidate);
        }
        if on_error(&meta, &facts, &policy, at(later), &mut Silent) {
            prop_assert!(!meta.no_cache);
            prop_assert!(fresh || !meta.must_revalidate);
            prop_assert!(fresh || age - lifetime < u64::from(meta.stale_if_error));
        }
        // What explains decides the same.
        prop_assert_eq!(verdict, decide(Ok(&meta), &facts, &policy, at(later), &mut RuleRecord::default()));
    }
}
