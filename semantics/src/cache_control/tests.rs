//! Tables for `Cache-Control`: the meaning of each spelling.

use super::*;
use proptest::prelude::*;

fn response(lines: &[&str]) -> ResponseDirectives {
    let fields: Vec<_> =
        lines.iter().map(|it| Field { name: "cache-Control", value: it.as_bytes() }).collect();
    ResponseDirectives::read(&fields)
}

/// Checks `max-age` of lines that are separated by ` | `.
#[track_caller]
fn max_age(lines: &str, expect: Option<u32>) {
    let lines: Vec<_> = lines.split(" | ").collect();
    assert_eq!(expect, response(&lines).max_age, "{lines:?}");
}

#[test]
fn max_age_in_every_spelling() {
    max_age("max-age=60", Some(60));
    max_age("MaX-aGe=60", Some(60));
    max_age("max-age=\"60\"", Some(60));
    max_age("foobar, max-age=60 ,", Some(60));
    max_age(",,\t max-age=60", Some(60));
    max_age("max-age=003600", Some(3600));
    max_age("max-age=2147483647", Some(2_147_483_647));
    max_age("max-age=2147483648", Some(MAX_DELTA));
    max_age("max-age=2147483649", Some(MAX_DELTA));
    max_age("max-age=99999999999", Some(MAX_DELTA));
    max_age("max-age=18446744073709551676", Some(MAX_DELTA));
    max_age("no-cache", None);
    max_age("x-max-age=60", None);
}

#[test]
fn a_malformed_max_age_is_stale() {
    for it in ["a100", "100a", "-100", "+100", "3600.0", "3600.5", "'3600'", "", "\"\"", "\"60", "6\"0\""] {
        max_age(&format!("max-age={it}"), Some(0));
    }
    max_age("max-age", Some(0));
    max_age("max-age =3600", Some(0));
    max_age("max-age= 3600", Some(0));
    max_age("max-age=60; no-store", Some(0));
    max_age("max-age=\"60\"x", Some(0));
    max_age("max-age=\"6\\0\"", Some(0));
}

#[test]
fn of_duplicates_the_lowest() {
    max_age("max-age=1800, max-age=1", Some(1));
    max_age("max-age=1, max-age=1800", Some(1));
    max_age("max-age=1800 | max-age=1", Some(1));
    max_age("max-age=0 | max-age=1800", Some(0));
    max_age("max-age=1800, max-age=x", Some(0));
}

#[test]
fn quoted_strings_hide_their_directives() {
    max_age("extension=\"max-age=3600\", max-age=1", Some(1));
    max_age("max-age=1, extension=\"max-age=0\"", Some(1));
    max_age("extension=\"a\\\", max-age=3600\", max-age=1", Some(1));
    max_age("extension=\"a, max-age=1", Some(1));
    assert!(response(&["extension=\"a, no-store"]).no_store, "a lone quote hides nothing");
    assert!(!response(&["extension=\"a, no-store\""]).no_store);
}

#[test]
fn flags_in_every_spelling() {
    assert!(response(&["No-StOrE"]).no_store);
    assert!(response(&["no-store=1"]).no_store, "what restricts counts with any argument");
    assert!(!response(&["public=1"]).public, "what permits does not");
    assert!(!response(&["must-understand=\"x\""]).must_understand);
    let all =
        response(&["public, must-revalidate,proxy-revalidate , must-understand", "immutable,no-transform"]);
    assert!(all.public && all.must_revalidate && all.proxy_revalidate && all.must_understand);
    assert!(all.immutable && all.no_transform && !all.no_store);
    let numbers = response(&["s-maxage=1, stale-while-revalidate=2, stale-if-error=3"]);
    assert_eq!(
        (Some(1), Some(2), Some(3)),
        (numbers.s_maxage, numbers.stale_while_revalidate, numbers.stale_if_error)
    );
}

#[track_caller]
fn no_cache(line: &str, expect: &str) {
    let text = match response(&[line]).no_cache {
        Qualified::Absent => "absent".to_owned(),
        Qualified::Whole => "whole".to_owned(),
        Qualified::Fields(names) => names.join(" "),
    };
    assert_eq!(expect, text, "{line}");
}

#[test]
fn no_cache_with_and_without_names() {
    no_cache("max-age=1", "absent");
    no_cache("no-cache", "whole");
    no_cache("No-CaChE=\"A\"", "a");
    no_cache("no-cache=\"a, b\", max-age=3600", "a b");
    no_cache("no-cache=a", "a");
    no_cache("no-cache=\"a\", no-cache=\"b\"", "a b");
    no_cache("no-cache=\"a\", no-cache", "whole");
    no_cache("no-cache, no-cache=\"a\"", "whole");
    no_cache("no-cache=\"\"", "whole");
    no_cache("no-cache=", "whole");
    no_cache("no-cache=\"a b\"", "whole");
    no_cache("no-cache=\"a, b", "whole");
    no_cache("no-cache =\"a\"", "whole");
    assert_eq!(Qualified::Fields(vec!["set-cookie".into()]), response(&["private=\"Set-Cookie\""]).private);
}

#[track_caller]
fn request(line: &str, expect: RequestDirectives) {
    let mut found = RequestDirectives::default();
    found.add_line(line.as_bytes());
    assert_eq!(expect, found, "{line}");
}

#[test]
fn request_directives() {
    let none = RequestDirectives::default();
    request("", none);
    request("no-cache", RequestDirectives { no_cache: true, ..none });
    request("No-Store", RequestDirectives { no_store: true, ..none });
    request(
        "only-if-cached, no-transform",
        RequestDirectives { only_if_cached: true, no_transform: true, ..none },
    );
    request("max-age=0", RequestDirectives { max_age: Some(0), ..none });
    request("max-age=x", RequestDirectives { max_age: Some(0), ..none });
    request("max-stale", RequestDirectives { max_stale: Some(u32::MAX), ..none });
    request("max-stale=10, max-stale", RequestDirectives { max_stale: Some(10), ..none });
    request("max-stale=-1", RequestDirectives { max_stale: Some(0), ..none });
    request("min-fresh=5, min-fresh=9", RequestDirectives { min_fresh: Some(9), ..none });
    request("stale-if-error=\"7\"", RequestDirectives { stale_if_error: Some(7), ..none });
}

#[test]
fn the_route_chooses_which_are_obeyed() {
    let mut all = RequestDirectives::default();
    all.add_line(b"no-cache, no-store, max-age=1, max-stale=2, min-fresh=3, only-if-cached");
    assert_eq!(all, all.obeyed(RequestDirectivePolicy::Obey));
    let harmless = RequestDirectives { max_stale: Some(2), only_if_cached: true, ..Default::default() };
    assert_eq!(harmless, all.obeyed(RequestDirectivePolicy::Harmless));
    assert_eq!(RequestDirectives::default(), all.obeyed(RequestDirectivePolicy::Ignore));
}

proptest! {
    #[test]
    fn any_bytes_are_read_and_every_byte_is_consumed(line: Vec<u8>) {
        let mut rest = directives(&line);
        let steps = rest.by_ref().count();
        prop_assert!(steps <= line.len());
        prop_assert!(rest.next().is_none());
    }

    #[test]
    fn delta_seconds_is_the_number_clamped(value: u64) {
        let expect = value.min(u64::from(MAX_DELTA));
        prop_assert_eq!(Some(expect), delta_seconds(value.to_string().as_bytes()).map(u64::from));
    }

    #[test]
    fn no_text_around_it_hides_no_store(before in "[a-z0-9=,; \\\\\"]{0,20}", after in "[a-z0-9=, \\\\]{0,20}") {
        // Only an open quoted string may, and what follows here never closes one.
        let line = format!("{before},no-store,{after}");
        let text = response(&[&line]);
        prop_assert!(text.no_store, "{}", line);
    }
}
