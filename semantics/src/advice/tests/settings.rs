//! Advice with one setting of a route: the size of bodies, the order of parameters, the cache itself; and one finding for several routes.

use super::*;
use crate::trial::evidence::VaryingField;

/// The settings of a finding, as in a file, and its requests.
fn proposed(advice: &Advice) -> Vec<(SettingValue, u64)> {
    let of = |it: &Finding| settings_of(&it.changes).first().map(|one| (one.value(), it.requests));
    advice.findings.iter().filter_map(of).collect()
}

#[test]
fn the_proposed_size_holds_nine_of_ten_repeated_requests_and_no_more_than_a_tier_keeps() {
    let (policy, reasons) = (Policy::default(), counts(&[(MissReason::TooLarge, 1000)]));
    let check = |pages: &[(u64, u64)], expect: &[(&str, u64)]| {
        let large: Vec<LargePage> =
            pages.iter().map(|it| LargePage { length: it.0, requests: it.1 }).collect();
        let of = CountedRoute { large: &large, ..route(&policy, &reasons) };
        let expect: Vec<_> = expect.iter().map(|it| (SettingValue::Text(it.0.to_owned()), it.1)).collect();
        assert_eq!(expect, proposed(&advice_of(&[of])), "{pages:?}");
    };
    check(&[(100 << 20, 50), (120 << 20, 50)], &[("135MiB", 980)]);
    check(&[(1_400_000, 100)], &[("2MiB", 990)]);
    check(&[(100 << 20, 1); 40], &[]);
    check(&[(300 << 20, 100)], &[]);
    // One in a hundred is far larger, and half of the requests are for what no tier keeps.
    check(&[(100 << 20, 250), (200 << 20, 2), (300 << 20, 252)], &[("113MiB", 494)]);
    check(&[(250 << 20, 100)], &[("256MiB", 990)]);
}

#[test]
fn parameters_in_several_orders_are_sorted_unless_the_trial_is_red() {
    let (policy, reasons) = (Policy::default(), counts(&[(MissReason::FirstRequest, 200)]));
    let reordered = ReorderedParameters { requests: 60, pages: 10, all: 100 };
    let of = CountedRoute { reordered: Some(&reordered), ..route(&policy, &reasons) };
    assert_eq!([("parameter-order", 100)], kinds(&advice_of(&[of]))[..]);
    assert_eq!([(SettingValue::Switch(true), 100)], proposed(&advice_of(&[of]))[..]);
    assert!(advice_of(&[CountedRoute { is_red: true, ..of }]).findings.is_empty());
}

#[test]
fn the_cache_is_proposed_unless_responses_differed_or_the_trial_is_red() {
    let policy = Policy { enabled: false, ..Policy::default() };
    let reasons = counts(&[(MissReason::CacheOff, 200)]);
    let shareable = ShareableResponses { could: 60, pages: 10, all: 100 };
    let of = CountedRoute { shareable: Some(&shareable), ..route(&policy, &reasons) };
    assert_eq!([("cache-off", 100)], kinds(&advice_of(&[of]))[..]);
    for refused in [
        CountedRoute { is_red: true, ..of },
        CountedRoute { differs: true, ..of },
        CountedRoute { shareable: None, ..of },
    ] {
        assert!(advice_of(&[refused]).findings.is_empty());
    }
}

#[test]
fn the_advice_about_variants_names_the_fields_and_warns_of_one_language() {
    let (policy, reasons) = (Policy::default(), counts(&[(MissReason::Variant, 50)]));
    let check = |names: &[&str], sentence: &str, change: &str, not: &str| {
        let varying: Vec<VaryingField> =
            names.iter().map(|it| VaryingField { name: (*it).to_owned(), values: 9 }).collect();
        let found = advice_of(&[CountedRoute { varying: &varying, ..route(&policy, &reasons) }]).findings;
        assert!(found[0].sentence.contains(sentence), "{found:?}");
        let SafeChange::Application { sentence } = &found[0].changes[0] else { panic!("{found:?}") };
        assert!(sentence.contains(change) && !sentence.contains(not), "{sentence}");
    };
    check(&["User-Agent"], "User-Agent (9 values)", "User-Agent seldom does", "language");
    check(
        &["Accept-Language", "User-Agent"],
        "Accept-Language (9 values), User-",
        "`cache.key.accept_language` with the languages",
        "Until",
    );
    check(&["Cookie"], "Cookie (9 values)", "cache.ignored_cookies", "strict");
    check(&[], "the fields in Vary.", "also one language", "no remedy");
}

#[test]
fn routes_with_the_same_change_are_one_finding() {
    let (policy, reasons) = (Policy::default(), counts(&[(MissReason::Expired, 50)]));
    let served = Policy { stale_while_revalidate: 30, ..Policy::default() };
    let (one, other) = (route(&policy, &reasons), route(&served, &reasons));
    let check = |routes: &[CountedRoute<'_>], expect: &[(&[usize], u64)]| {
        let found = advice_of(routes).findings;
        let found: Vec<_> = found.iter().map(|it| (&it.routes[..], it.requests)).collect();
        assert_eq!(expect, found);
    };
    check(&[one, other, one], &[(&[0, 2], 100)]);
    check(&[one, one, CountedRoute { differs: true, ..one }], &[(&[0, 1], 100)]);
    check(&[one, other], &[(&[0], 50)]);
}

/// `default_ttl` for the whole route was proposed for its 404s.
#[test]
fn missing_pages_get_a_lifetime_of_their_status() {
    let reasons = counts(&[(MissReason::NoLifetime, 100)]);
    let silent = |errors| SilentErrors { errors, all: 50, statuses: vec![404, 410] };
    type Proposed = (&'static str, u64, Vec<(&'static str, SettingValue)>);
    let keys = |policy: &Policy, anonymous, silent: &SilentErrors| -> Vec<Proposed> {
        let of = CountedRoute { anonymous, silent, ..route(policy, &reasons) };
        let found = advice_of(&[of]).findings;
        let settings =
            |it: &Finding| settings_of(&it.changes).iter().map(|it| (it.key(), it.value())).collect();
        found.iter().map(|it| (it.kind.name(), it.requests, settings(it))).collect()
    };
    let named =
        Policy { private_cookies: vec!["sid".to_owned()], status_ttl: vec![(404, 5)], ..Policy::default() };
    let table = |all: &[(&str, &str)]| {
        SettingValue::Table(all.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect())
    };
    assert_eq!(
        [("missing-pages", 100, vec![("cache.status_ttl", table(&[("404", "5s"), ("410", "60s")]))])],
        keys(&named, 0, &silent(50))[..]
    );
    // Without named private cookies, a lifetime of the configuration would share what belongs to sessions.
    let found = keys(&Policy::default(), 60, &silent(20));
    let names: Vec<_> =
        found.iter().map(|it| (it.0, it.1, it.2.iter().map(|it| it.0).collect::<Vec<_>>())).collect();
    let bypass = ["cache.private_cookies", "cache.ignored_cookies"];
    assert_eq!(
        [
            ("no-lifetime", 60, [&["cache.default_ttl"], &bypass[..]].concat()),
            ("missing-pages", 40, [&["cache.status_ttl"], &bypass[..]].concat())
        ],
        names[..]
    );
    let silent = silent(50);
    let of = CountedRoute { silent: &silent, ..route(&named, &reasons) };
    for of in [CountedRoute { differs: true, ..of }, CountedRoute { is_red: true, ..of }] {
        assert!(advice_of(&[of]).findings.is_empty());
    }
    let facts = ChangeFacts { status: Some(404), ..facts(&named) };
    assert!(
        !settings_of(&changes(MissReason::NoLifetime, &facts))
            .iter()
            .any(|it| it.key() == "cache.default_ttl")
    );
}

/// Neither the client nor a value of `cache.request_directives` was named.
#[test]
fn requests_that_demand_a_new_response_name_their_client_and_the_setting() {
    let (policy, reasons) = (Policy::default(), counts(&[(MissReason::ClientNoCache, 90)]));
    let found = |of: &DemandedResponses, differs| {
        let of = CountedRoute { demanded: Some(of), differs, ..route(&policy, &reasons) };
        advice_of(&[of]).findings
    };
    let one = found(&demanded_by(1), false);
    assert_eq!(("new-demanded", 80), (one[0].kind.name(), one[0].requests));
    assert!(one[0].sentence.ends_with("All recent ones are from 10.0.0.9."), "{}", one[0].sentence);
    let many = found(&demanded_by(3), false);
    assert!(many[0].sentence.ends_with("from 3 clients; 7 of 9 from 10.0.0.9."), "{}", many[0].sentence);
    let settings: Vec<_> = settings_of(&one[0].changes).iter().map(|it| (it.key(), it.value())).collect();
    assert_eq!([("cache.request_directives", SettingValue::Text("harmless".to_owned()))], settings[..]);
    assert!(found(&demanded_by(1), true).is_empty());
}

/// No remedy but the application's was named for a cookie of a test of variants. A cookie of a session gets none at all.
#[test]
fn a_cookie_that_a_page_sets_is_left_out_if_the_operator_has_named_it() {
    let policy = |ignored: &[&str], private: &[&str]| {
        let owned = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect();
        Policy { ignored_cookies: owned(ignored), private_cookies: owned(private), ..Policy::default() }
    };
    let check = |policy: &Policy, cookies: &[&str]| {
        let set_cookies: Vec<String> = cookies.iter().map(|it| (*it).to_owned()).collect();
        let of = ChangeFacts { set_cookies: &set_cookies, ..facts(policy) };
        let settings: Vec<_> =
            settings_of(&changes(MissReason::SetCookie, &of)).iter().map(|it| it.key()).collect();
        (settings, set_cookie_hint(policy, &set_cookies).is_some())
    };
    assert_eq!((vec![], true), check(&policy(&[], &[]), &["ab"]));
    assert_eq!((vec!["cache.store_set_cookie"], false), check(&policy(&["ab*"], &["*"]), &["ab", "abc"]));
    assert_eq!((vec![], true), check(&policy(&["ab"], &[]), &["ab", "other"]));
    assert_eq!((vec![], true), check(&policy(&["*"], &[]), &["ab"]), "named one by one");
    for session in ["sid", "PHPSESSID", "auth_token"] {
        assert_eq!((vec![], false), check(&policy(&[], &[]), &[session]));
        assert_eq!((vec![], false), check(&policy(&[session], &[]), &[session]));
        assert_eq!((vec![], false), check(&policy(&["ab", session], &[]), &["ab", session]));
    }
    assert_eq!((vec![], false), check(&policy(&["cart"], &["cart"]), &["cart"]));
    assert_eq!((vec![], false), check(&policy(&["ab"], &[]), &[]));
}
