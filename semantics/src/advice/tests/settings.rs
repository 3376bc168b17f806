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
    let check = |routes: &[CountedRoute<'_>], expect: &[(&[usize], bool, u64)]| {
        let found = advice_of(routes).findings;
        let found: Vec<_> = found.iter().map(|it| (&it.routes[..], it.is_for_all, it.requests)).collect();
        assert_eq!(expect, found);
    };
    check(&[one, other, one], &[(&[0, 2], true, 100)]);
    check(&[one, one, CountedRoute { differs: true, ..one }], &[(&[0, 1], false, 100)]);
    check(&[one, other], &[(&[0], false, 50)]);
}
