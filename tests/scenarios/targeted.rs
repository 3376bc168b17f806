//! Targeted cache control, RFC 9213: a strict structured field, or as if absent; and lists of targets.

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss, Validates};

#[track_caller]
fn check(pages: &Pages, lines: &str, expect: Second) {
    assert_eq!(expect, pages.second(&format!("{lines} | ETag: \"a\""), 0, ""), "{lines}");
}

#[test]
fn a_targeted_field_takes_precedence() {
    let pages = Pages::new("");
    check(&pages, "CDN-Cache-Control: max-age=60", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60 | Cache-Control: no-store", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60 | Cache-Control: private, max-age=0", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60 | Expires: 0", Hit);
    check(&pages, "CDN-Cache-Control: no-store | Cache-Control: max-age=60", Miss);
    check(&pages, "CDN-Cache-Control: private | Cache-Control: max-age=60", Miss);
    check(&pages, "CDN-Cache-Control: no-cache | Cache-Control: max-age=60", Validates);
    check(&pages, "CDN-Cache-Control: max-age=0 | Cache-Control: max-age=60", Validates);
    check(&pages, "CDN-Cache-Control: max-age=0 | Expires: @+60", Validates);
    check(&pages, "CDN-Cache-Control: max-age=10, s-maxage=60", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60, foo, bar=2", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60;x=1", Hit);
    check(&pages, "CDN-Cache-Control: max-age=0, max-age=60", Hit); // The last one (RFC 9651 §4.2.2).
    check(&pages, "CDN-Cache-Control: max-age=60, max-age=0", Validates);
    check(&pages, "CDN-Cache-Control: max-age=60 | CDN-Cache-Control: no-store", Miss);
    check(&pages, "CDN-Cache-Control: max-age=60 | Age: 100", Validates);
}

#[test]
fn an_invalid_one_is_as_if_absent() {
    let pages = Pages::new("");
    for invalid in [
        "max-age = 60, no-store",
        "max-age=60 no-store",
        "MAX-AGE=60, no-store",
        "no-store,, max-age=60",
        "no-store, ",
        ", no-store",
        "no-store, max-age='60'",
        "no-store, \"x",
        "no-store, max-age=9999999999999999999",
        "no-store, &",
        "",
    ] {
        check(&pages, &format!("CDN-Cache-Control: {invalid} | Cache-Control: max-age=60"), Hit);
        let other = format!("CDN-Cache-Control: {invalid} | Cache-Control: no-store");
        check(&pages, &other, Miss);
    }
    // Well-formed, but of the wrong type: no directive.
    for mistyped in ["max-age=\"60\"", "max-age=1.5", "max-age", "max-age=a"] {
        check(&pages, &format!("CDN-Cache-Control: {mistyped} | Cache-Control: max-age=0"), Validates);
        check(&pages, &format!("CDN-Cache-Control: {mistyped} | Cache-Control: max-age=60"), Hit);
    }
}

#[test]
fn a_targeted_field_is_passed_on_and_stored() {
    let pages = Pages::new("");
    let page = pages.page(&["CDN-Cache-Control: max-age=60 | Cache-Control: no-store"]);
    for _ in 0..2 {
        let it = page.get("");
        assert_eq!(
            (Some("max-age=60"), Some("no-store")),
            (it.field("cdn-cache-control"), it.field("cache-control"))
        );
    }
    assert_eq!(1, page.requests());
}

#[test]
fn a_list_of_targets_of_ones_own() {
    let pages = Pages::new("targets = [\"Larder-Cache-Control\", \"CDN-Cache-Control\"]");
    check(
        &pages,
        "Larder-Cache-Control: max-age=60 | CDN-Cache-Control: no-store | Cache-Control: no-store",
        Hit,
    );
    check(&pages, "Larder-Cache-Control: no-store | CDN-Cache-Control: max-age=60", Miss);
    check(&pages, "Larder-Cache-Control: &, | CDN-Cache-Control: max-age=60 | Cache-Control: no-store", Hit);
    check(&pages, "CDN-Cache-Control: max-age=60 | Cache-Control: no-store", Hit);
    check(&pages, "Other-Cache-Control: max-age=60 | Cache-Control: no-store", Miss);
    let none = Pages::new("targets = []");
    check(&none, "CDN-Cache-Control: max-age=60 | Cache-Control: no-store", Miss);
}
