//! `Age` and `Date` as they arrive, RFC 9111 §4.2.3 and §5.1.

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss};

#[test]
fn an_age_that_arrives_counts() {
    let pages = Pages::new("");
    // max-age=600 throughout: an Age that counts as 600 or more leaves nothing.
    let check = |age: &str, expect: Second| {
        let got = pages.second(&format!("Cache-Control: max-age=600 | {age}"), 0, "");
        assert_eq!(expect, got, "{age}");
    };
    check("Age: 0", Hit);
    check("Age: 500", Hit);
    check("Age: 599", Hit);
    check("Age: 600", Miss);
    check("Age: 7200", Miss);
    check("Age: 0600", Miss);
    check("Age: 2147483648", Miss);
    check("Age: 2147483649", Miss);
    check("Age: 99999999999999999999999", Miss);
    // Malformed: ignored (§5.1).
    check("Age: 7200.0", Hit);
    check("Age: 7200a", Hit);
    check("Age: a7200", Hit);
    check("Age: -7200", Hit);
    check("Age: +7200", Hit);
    check("Age: \"7200\"", Hit);
    check("Age: 7200;foo=bar", Hit);
    check("Age: abc", Hit);
    check("Age: ", Hit);
    // A list: the first member.
    check("Age: 0, 7200", Hit);
    check("Age: 7200, 0", Miss);
    check("Age: 0 | Age: 7200", Hit);
    check("Age: 7200 | Age: 0", Miss);
    check("Age:   7200  ", Miss);
}

#[test]
fn an_old_date_counts_as_age() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| {
        assert_eq!(expect, pages.second(&format!("Cache-Control: max-age=600 | {lines}"), 0, ""), "{lines}");
    };
    check("Date: @0", Hit);
    check("Date: @-500", Hit);
    check("Date: @-700", Miss);
    check("Date: @+700", Hit);
    check("Date: @-500 | Age: 7200", Miss);
    check("Date: @-700 | Age: 10", Miss);
    check("Date: yesterday", Hit);
    check("Date: 0", Hit);
    check("X-No-Date: 1", Hit);
}

#[test]
fn the_age_grows_from_the_age_received() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=600 | Age: 100 | Date: @-100"]);
    let first = page.get("");
    assert!(matches!(first.field("age"), Some("100" | "101")), "{first:?}");
    pages.advance(50);
    let hit = page.get("");
    let age: u32 = hit.field("age").unwrap().parse().unwrap();
    assert!(hit.is_hit() && (150..=152).contains(&age), "{hit:?}");
    assert_eq!(1, hit.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("age")).count());
    assert_eq!(first.field("date"), hit.field("date"), "a stored Date stays");
    pages.advance(460);
    assert!(!page.get("").is_hit());
}

#[test]
fn every_response_has_one_valid_date() {
    let pages = Pages::new("");
    for lines in ["", "Date: nonsense", "Date: @0 | Date: @-5", "Date: nonsense | Date: @-5", "Date: @-5"] {
        for kept in ["max-age=60", "no-store"] {
            let page = pages.page(&[&format!("Cache-Control: {kept} | {lines}")]);
            let (first, second) = (page.get(""), page.get(""));
            assert_eq!(kept == "max-age=60", second.is_hit());
            let dates = [&first, &second].map(|it| {
                let all: Vec<_> = it.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("date")).collect();
                assert_eq!(1, all.len(), "{lines} {it:?}");
                larder_semantics::date::parse(all[0].1.as_bytes()).expect("it is valid")
            });
            assert_eq!(dates[0], dates[1], "{lines}: passed on as stored");
        }
    }
}
