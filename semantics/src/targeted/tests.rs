//! Tables for targeted fields: the one in force, and valid values.

use super::*;
use crate::cache_control::delta_seconds;
use crate::testing::head;
use proptest::prelude::*;

/// Checks the field in force and its `max-age`, `no-store` as `s`, `no-cache` as `c`, `private` as `p`.
#[track_caller]
fn check(text: &str, targets: &[&str], expect: &str) {
    let policy = Policy { targets: targets.iter().map(|it| (*it).to_owned()).collect(), ..Policy::default() };
    let list = head(text);
    let (outcome, field) = directives(&list.view(), &policy);
    let mut found = field.unwrap_or("-").to_owned();
    if let Some(seconds) = outcome.max_age {
        found += &format!(" {seconds}");
    }
    for (present, letter) in [
        (outcome.no_store, " s"),
        (outcome.no_cache.is_whole(), " c"),
        (outcome.private.is_whole(), " p"),
        (matches!(outcome.no_cache, Qualified::Fields(_)), " cf"),
    ] {
        found += if present { letter } else { "" };
    }
    assert_eq!(expect, found, "{text}");
}

const CDN: &[&str] = &["CDN-Cache-Control"];

#[test]
fn the_first_target_that_is_valid_is_in_force() {
    check("Cache-Control: max-age=1", CDN, "- 1");
    check("Cache-Control: no-store | CDN-Cache-Control: max-age=60", CDN, "CDN-Cache-Control 60");
    check("cdn-cache-control: no-store | Cache-Control: max-age=60", CDN, "CDN-Cache-Control s");
    check("Cache-Control: max-age=1 | CDN-Cache-Control: max-age=60", &[], "- 1");
    let two = &["Larder-Cache-Control", "CDN-Cache-Control"];
    check("CDN-Cache-Control: max-age=1 | Larder-Cache-Control: max-age=2", two, "Larder-Cache-Control 2");
    check("CDN-Cache-Control: max-age=1 | Larder-Cache-Control: Max-Age=2", two, "CDN-Cache-Control 1");
    check("CDN-Cache-Control: max-age=1 | CDN-Cache-Control: no-store", CDN, "CDN-Cache-Control 1 s");
}

#[test]
fn an_invalid_field_is_as_if_absent() {
    for it in [
        "",
        "max-age =100",
        "max-age= 100",
        "MaX-aGe=3600",
        "max-age=10000, &&&&&",
        "max-age=60,",
        "max-age=60 no-store",
        "max-age=1234567890123456",
        "max-age=\"60",
        "max-age=60;",
        "no-cache=(a b",
    ] {
        check(&format!("Cache-Control: max-age=1 | CDN-Cache-Control: {it}"), CDN, "- 1");
    }
}

#[test]
fn values_have_types() {
    let cdn = |value: &str, expect| {
        check(&format!("Cache-Control: no-store | CDN-Cache-Control: {value}"), CDN, expect)
    };
    cdn("max-age=2147483648", "CDN-Cache-Control 2147483648");
    cdn("max-age=99999999999", "CDN-Cache-Control 2147483648");
    cdn("max-age=-5", "CDN-Cache-Control 0");
    cdn("max-age=60;x=y", "CDN-Cache-Control 60");
    cdn("max-age=60;x, private;y=1", "CDN-Cache-Control 60 p");
    cdn("max-age=60, max-age=5", "CDN-Cache-Control 5");
    cdn("foobar, max-age=3600", "CDN-Cache-Control 3600");
    cdn("foo", "CDN-Cache-Control");
    cdn("no-cache", "CDN-Cache-Control c");
    cdn("no-cache=?1", "CDN-Cache-Control c");
    cdn("no-cache=?0", "CDN-Cache-Control");
    cdn("no-cache=\"a, b\"", "CDN-Cache-Control cf");
    cdn("no-cache=(\"a\" b)", "CDN-Cache-Control cf");
    cdn("no-cache=()", "CDN-Cache-Control c");
    cdn("no-cache=(1 2)", "CDN-Cache-Control c");
    // Of the wrong type: no directive; and nothing left in force where there is nothing else.
    cdn("max-age=\"10000\"", "- s");
    cdn("max-age=3600.0", "- s");
    cdn("max-age", "- s");
    cdn("no-store=1", "- s");
    cdn("max-age=(1 2)", "- s");
    cdn("max-age=\"1\", private", "CDN-Cache-Control p");
    cdn("max-age=60, max-age=\"1\", private", "CDN-Cache-Control p");
}

proptest! {
    #[test]
    fn any_bytes_are_read(value: Vec<u8>) {
        let fields = [Field { name: "CDN-Cache-Control", value: &value }];
        let _ = read(&fields, "cdn-cache-control");
    }

    #[test]
    fn near_misses_are_read(value in "[a-z=,;()?: \"\\\\0-9-]{0,40}") {
        let fields = [Field { name: "CDN-Cache-Control", value: value.as_bytes() }];
        let _ = read(&fields, "cdn-cache-control");
    }

    #[test]
    fn a_number_means_the_same_in_both(seconds in 0u64..1_000_000_000_000_000) {
        let value = format!("max-age={seconds}");
        let fields = [Field { name: "CDN-Cache-Control", value: value.as_bytes() }];
        let text = read(&fields, "CDN-Cache-Control").unwrap();
        prop_assert_eq!(delta_seconds(seconds.to_string().as_bytes()), text.max_age);
    }
}
