//! Tables for age and lifetime, and the order in which sources of a lifetime are tried.

use super::*;
use crate::testing::{NOW, at, head};
use crate::trace::{RuleRecord, Silent};
use proptest::prelude::*;

/// `Age`, `Date` relative to now, seconds between request and response, seconds since: the age.
#[track_caller]
fn age(text: &str, delay: i64, since: i64, expect: u32) {
    let list = head(text);
    let inputs = AgeInputs::read(&list.view(), at(-delay), NOW);
    let age = clamp(u64::from(inputs.corrected_initial_age()) + at(since).seconds_since(NOW));
    assert_eq!(expect, age, "{text}");
}

#[test]
fn age_is_the_larger_of_apparent_and_received() {
    //                     delay since age
    age("", 0, 0, 0);
    age("", 0, 10, 10);
    age("Date: @0", 2, 8, 10);
    age("Date: @-2", 0, 8, 10);
    age("Age: 30 | Date: @-2", 2, 8, 40);
    age("Age: 30 | Date: @-100", 2, 8, 108);
    age("Date: @5000", 0, 59, 59); // Origin's clock ahead.
    age("Date: foo", 0, 5, 5);
}

#[test]
fn a_response_is_late_if_it_expired_on_its_way() {
    let inputs = |text: &str, delay: i64| AgeInputs::read(&head(text).view(), at(-delay), NOW);
    let lifetime = |seconds| Lifetime { seconds, source: LifetimeSource::MaxAge };
    let late = |text: &str, delay: i64, seconds| inputs(text, delay).came_late(lifetime(seconds));
    assert!(late("", 1, 1) && late("Date: @-1", 0, 1) && late("Age: 30", 2, 32));
    assert!(late("", 3, 2) && late("Date: @-3", 3, 2) && late("Date: @0", 3, 2) && late("Age: 1", 3, 2));
    assert!(!late("", 0, 1) && !late("", 3, 4), "it is fresh");
    assert!(!late("Date: @-2", 0, 1) && !late("Date: @-9", 3, 2), "it is older");
    assert!(!late("Age: 1", 0, 1) && !late("", 0, 0) && !late("Age: 2", 3, 2), "it was made so");
    let answers = |text: &str, delay: i64, seconds, strict| {
        inputs(text, delay).answers_collapsed(lifetime(seconds), strict)
    };
    for (text, strict, expect) in [
        ("", false, true),
        ("", true, true),
        ("Date: @-1", true, true),
        ("Date: @-3", false, true),
        ("Date: @-3", true, false),
        ("Age: 1 | Date: @-1", true, true),
        ("Age: 2", false, false),
        ("Date: @-9", false, false),
    ] {
        assert_eq!(expect, answers(text, 3, 2, strict), "{text}, forbids stale use: {strict}");
    }
    assert!(!answers("", 0, 2, false), "one that is fresh needs no permission");
}

#[test]
fn age_in_every_malformed_form() {
    age("Age: abc", 0, 0, 0);
    age("Age: -7200", 0, 0, 0);
    age("Age: +7200", 0, 0, 0);
    age("Age: 7200.0", 0, 0, 0);
    age("Age: 7200;foo=bar", 0, 0, 0);
    age("Age: \"7200\"", 0, 0, 0);
    age("Age: ", 0, 0, 0);
    age("Age: 7200, 0", 0, 0, 7200);
    age("Age: 7200,0", 0, 0, 7200);
    age("Age: 0, 7200", 0, 0, 0);
    age("Age: 7200 | Age: 0", 0, 0, 7200);
    age("Age: 0 | Age: 7200", 0, 0, 0);
    age("Age: 3600 | Age: 3600", 0, 0, 3600);
    age("Age: 2147483647", 0, 0, 2_147_483_647);
    age("Age: 2147483648", 0, 0, MAX_DELTA);
    age("Age: 2147483649", 1, 1, MAX_DELTA);
    age("Age: 99999999999999999999999", 0, 9, MAX_DELTA);
}

#[test]
fn fresh_while_the_lifetime_is_longer_than_the_age() {
    assert_eq!(Freshness::Fresh { remaining: 1 }, Freshness::of(60, 59));
    assert_eq!(Freshness::Stale { staleness: 0 }, Freshness::of(60, 60));
    assert_eq!(Freshness::Stale { staleness: 7 }, Freshness::of(0, 7));
}

fn lifetime_of(status: u16, text: &str, policy: &Policy) -> Lifetime {
    let list = head(text);
    LifetimeInputs::read(status, &list.view(), policy, (NOW, NOW)).lifetime(policy, &mut Silent)
}

/// Checks `seconds source`.
#[track_caller]
fn lifetime(status: u16, text: &str, policy: &Policy, expect: &str) {
    let found = lifetime_of(status, text, policy);
    assert_eq!(expect, format!("{} {}", { found.seconds }, found.source.name()), "{status} {text}");
}

#[test]
fn explicit_lifetimes() {
    let rfc = Policy::default();
    let ok = |text: &str, expect: &str| lifetime(200, text, &rfc, expect);
    ok("", "0 none");
    ok("Cache-Control: max-age=60", "60 max-age");
    ok("Cache-Control: max-age=60, s-maxage=5", "5 s-maxage");
    ok("Cache-Control: max-age=0, s-maxage=3600 | Expires: @-10", "3600 s-maxage");
    ok("Cache-Control: max-age=60 | Expires: @-7200", "60 max-age");
    ok("Cache-Control: max-age=60 | Expires: 0", "60 max-age");
    ok("Cache-Control: max-age=0 | Expires: @3600", "0 max-age");
    ok("Cache-Control: max-age=0 | Last-Modified: @-100000", "0 max-age");
    ok("CDN-Cache-Control: max-age=9 | Cache-Control: max-age=1 | Expires: 0", "9 targeted");
    ok("CDN-Cache-Control: foo | Expires: @3600", "0 none");
    ok("CDN-Cache-Control: foo | Last-Modified: @-1000", "100 heuristic");
    ok("Cache-Control: max-age=2147483648", "31536000 max-age"); // cache.max_ttl
}

#[test]
fn expires_against_date() {
    let rfc = Policy::default();
    let ok = |text: &str, expect: &str| lifetime(200, text, &rfc, expect);
    ok("Expires: @3600 | Date: @0", "3600 expires");
    ok("Expires: @3600", "3600 expires");
    ok("Expires: @3600 | Date: foo", "3600 expires");
    ok("Expires: @10 | Date: @-10", "20 expires");
    ok("Expires: @300 | Date: @400", "0 expires");
    ok("Expires: @0 | Date: @-10", "10 expires");
    ok("Expires: @-1 | Date: @-10", "0 expires");
    ok("Expires: @-3600 | Date: @-7200", "0 expires");
    ok("Expires: @0 | Date: @0", "0 expires");
    ok("Expires: @-10 | Date: @0 | Last-Modified: @-100000", "0 expires");
    for it in ["0", "-1", "", "Thu, 18 Aug 2050 02:01:18 UTC", "Thu, 18 Aug 50 02:01:18 GMT", "tomorrow"] {
        ok(&format!("Expires: {it} | Last-Modified: @-100000"), "0 expires");
    }
    ok("Expires: @3600 | Expires: @60", "60 expires");
    ok("Expires: @60 | Expires: @3600", "60 expires");
    ok("Expires: @60 | Expires: 0", "0 expires");
}

#[test]
fn the_date_forms_that_expires_may_have() {
    let date = |text| date::parse(str::as_bytes(text)).is_some();
    for it in [
        "Tue, 19 Jan 2038 14:14:08 GMT",
        "Sun, 21 Nov 2286 04:46:39 GMT",
        "Thursday, 18-Aug-50 02:01:18 GMT",
        "Thu Aug  8 02:01:18 2050",
    ] {
        assert!(date(it), "{it}");
    }
    for it in [
        "Thu, 18 Aug 2050 02:01:18 AEST",
        "Thu 18 Aug 2050 02:01:18 GMT",
        "Thu, 18  Aug  2050 02:01:18 GMT",
        "Thu, 18-Aug-2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT",
    ] {
        assert!(!date(it), "{it}");
    }
}

#[test]
fn heuristic_lifetimes() {
    let rfc = Policy::default();
    for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
        lifetime(status, "Last-Modified: @-86400", &rfc, "8640 heuristic");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 500, 502, 503, 504, 599, 999] {
        lifetime(status, "Last-Modified: @-86400", &rfc, "0 none");
        lifetime(status, "Last-Modified: @-86400 | Cache-Control: public", &rfc, "8640 heuristic");
    }
    lifetime(200, "Last-Modified: @-86400000", &rfc, "86400 heuristic"); // cache.heuristic_max
    lifetime(200, "Last-Modified: @-1000 | Date: @-500", &rfc, "50 heuristic");
    lifetime(200, "Last-Modified: @0", &rfc, "0 none");
    lifetime(200, "Last-Modified: @500", &rfc, "0 none");
    lifetime(200, "Last-Modified: never", &rfc, "0 none");
    let off = Policy { heuristic_percent: 0, ..Policy::default() };
    lifetime(200, "Last-Modified: @-86400", &off, "0 none");
}

#[test]
fn the_route_has_a_say() {
    let ttl = Policy { default_ttl: Some(60), status_ttl: vec![(404, 5), (503, 2)], ..Policy::default() };
    lifetime(200, "", &ttl, "60 default-ttl");
    lifetime(200, "Last-Modified: @-86400", &ttl, "60 default-ttl");
    lifetime(200, "Cache-Control: max-age=1", &ttl, "1 max-age");
    lifetime(404, "", &ttl, "5 status-ttl");
    lifetime(503, "", &ttl, "2 status-ttl");
    lifetime(500, "", &ttl, "0 none"); // 5xx never by default
    lifetime(501, "", &ttl, "0 none");
    lifetime(302, "", &ttl, "0 none");
    let over = Policy { override_ttl: Some(7), ..ttl };
    lifetime(200, "Cache-Control: max-age=0, s-maxage=1 | Expires: 0", &over, "7 override-ttl");
    lifetime(500, "", &over, "0 none");
    let short = Policy { max_ttl: 30, ..Policy::default() };
    lifetime(200, "Cache-Control: max-age=60", &short, "30 max-age");
}

#[test]
fn each_lifetime_source_is_recorded_in_order_of_precedence() {
    let list = head("Expires: @60 | Date: @0");
    let policy = Policy::default();
    let mut report = RuleRecord::default();
    let _ = LifetimeInputs::read(200, &list.view(), &policy, (NOW, NOW)).lifetime(&policy, &mut report);
    let names: Vec<_> = report.0.iter().map(|it| it.name).collect();
    assert_eq!(vec!["override-ttl", "s-maxage", "max-age", "expires"], names);
    assert_eq!(Some(RuleOutcome::Decided), report.0.last().map(|it| it.outcome));
    let report = &report.0[3].evidence;
    assert!(report.ends_with("= 60 s"), "{report}");
}

proptest! {
    #[test]
    fn any_bytes_are_read(age: Vec<u8>, date: Vec<u8>, expires: Vec<u8>, modified: Vec<u8>, status: u16) {
        let fields = [
            Field { name: "Age", value: &age },
            Field { name: "Date", value: &date },
            Field { name: "Expires", value: &expires },
            Field { name: "Last-Modified", value: &modified },
        ];
        let policy = Policy::default();
        prop_assert!(AgeInputs::read(&fields, NOW, NOW).corrected_initial_age() <= MAX_DELTA);
        let inputs = LifetimeInputs::read(status, &fields, &policy, (NOW, NOW));
        prop_assert!(inputs.lifetime(&policy, &mut Silent).seconds <= MAX_DELTA);
    }

    #[test]
    fn no_clock_makes_arithmetic_overflow(sent: u64, got: u64, dated: u64, age_value: u32) {
        let inputs = AgeInputs {
            age_value,
            date_value: WallTime(dated),
            request_time: WallTime(sent),
            response_time: WallTime(got),
        };
        prop_assert!(inputs.corrected_initial_age() <= MAX_DELTA);
    }
}
