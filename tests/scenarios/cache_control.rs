//! Response directives, RFC 9111 §5.2.2, in every form in which they are met.

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss, Validates};

/// One row: `Cache-Control` of a response with a validator, and the result of the second request.
#[track_caller]
fn check(pages: &Pages, value: &str, expect: Second) {
    let got = pages.second(&format!("Cache-Control: {value} | ETag: \"a\""), 0, "");
    assert_eq!(expect, got, "{value}");
}

#[test]
fn lifetimes() {
    let pages = Pages::new("");
    check(&pages, "max-age=60", Hit);
    check(&pages, "max-age=0", Validates);
    check(&pages, "max-age=1, s-maxage=60", Hit);
    check(&pages, "max-age=60, s-maxage=0", Validates);
    check(&pages, "s-maxage=60, max-age=0", Hit);
    check(&pages, "MAX-AGE=60", Hit);
    check(&pages, "Max-aGe=60", Hit);
    check(&pages, "max-age=003600", Hit);
    check(&pages, "public, max-age=60, immutable", Hit);
    check(&pages, "s-maxage=60", Hit);
    check(&pages, "must-revalidate, max-age=60", Hit);
    check(&pages, "proxy-revalidate, max-age=60", Hit);
    check(&pages, "no-transform, max-age=60", Hit);
    check(&pages, "", Validates);
    check(&pages, "public", Validates);
}

#[test]
fn numbers_that_overflow_are_large() {
    let pages = Pages::new("cache_status = true");
    for it in ["2147483647", "2147483648", "2147483649", "4294967296", "99999999999", "18446744073709551616"]
    {
        check(&pages, &format!("max-age={it}"), Hit);
    }
    check(&pages, &format!("max-age={}", "9".repeat(200)), Hit);
}

#[test]
fn malformed_numbers_are_stale() {
    let pages = Pages::new("");
    for it in ["-1", "1.5", "60.0", "60a", "a60", "'60'", "0x60", "+60", "6 0", "", "\u{661}"] {
        check(&pages, &format!("max-age={it}"), Validates);
        check(&pages, &format!("s-maxage={it}"), Validates);
    }
    check(&pages, "max-age", Validates);
    check(&pages, "max-age =60", Validates);
    check(&pages, "max-age= 60", Validates);
}

#[test]
fn quoted_duplicated_and_spread() {
    let pages = Pages::new("");
    check(&pages, "max-age=\"60\"", Hit);
    check(&pages, "max-age=\"0\"", Validates);
    check(&pages, "max-age=60, max-age=0", Validates);
    check(&pages, "max-age=0, max-age=60", Validates);
    check(&pages, "max-age=60, max-age=60", Hit);
    check(&pages, "max-age=60 | Cache-Control: no-store", Miss);
    check(&pages, "no-store | Cache-Control: max-age=60", Miss);
    check(&pages, "max-age=60 | Cache-Control: max-age=0", Validates);
    check(&pages, "a=b, max-age=60", Hit);
    check(&pages, "a=\"b, max-age=0\", max-age=60", Hit);
    check(&pages, "a=\"b, no-store, c\", max-age=60", Hit);
    check(&pages, "a=\"\\\"\", max-age=60", Hit);
    check(&pages, "a=\"b, no-store", Miss);
    check(&pages, ", , max-age=60,,", Hit);
    check(&pages, "max-age=60;no-store", Validates);
    check(&pages, "nomax-age=60", Validates);
    check(&pages, "max-age=60, unknown, other=1", Hit);
    check(&pages, "\tmax-age=60\t", Hit);
}

#[test]
fn directives_that_forbid_storing() {
    let pages = Pages::new("");
    check(&pages, "no-store", Miss);
    check(&pages, "No-StOrE", Miss);
    check(&pages, "no-store, max-age=60", Miss);
    check(&pages, "no-store=1, max-age=60", Miss);
    check(&pages, "private", Miss);
    check(&pages, "private, max-age=60", Miss);
    check(&pages, "private, s-maxage=60", Miss);
    check(&pages, "public, private, max-age=60", Miss);
    check(&pages, "must-understand, max-age=60", Hit);
    check(&pages, "must-understand, no-store, max-age=60", Hit);
    let status = |lines: &str, expect: Second| assert_eq!(expect, pages.second(lines, 0, ""), "{lines}");
    status("299 | Cache-Control: max-age=60", Hit);
    status("299 | Cache-Control: must-understand, max-age=60", Miss);
    status("299 | Cache-Control: must-understand, no-store, max-age=60", Miss);
    status("599 | Cache-Control: max-age=60", Hit);
    status("599 | Cache-Control: must-understand, max-age=60", Miss);
}

#[test]
fn no_cache_validates_every_time() {
    let pages = Pages::new("");
    check(&pages, "no-cache", Validates);
    check(&pages, "no-cache, max-age=60", Validates);
    check(&pages, "No-CaChE, max-age=60", Validates);
    assert_eq!(Miss, pages.second("Cache-Control: no-cache, max-age=60", 0, ""), "nothing to validate with");
    let page = pages.page(&["Cache-Control: no-cache | ETag: \"a\" || body", "304 | ETag: \"a\""]);
    page.get("");
    let validated = page.get("");
    assert_eq!((200, "body"), (validated.status, validated.text().as_str()));
}

#[test]
fn field_names_restrict_only_those_fields() {
    let pages = Pages::new("");
    for (directive, gone) in [
        ("no-cache=\"x-a\"", "x-a"),
        ("no-cache=\"X-A\"", "x-a"),
        ("private=\"x-a\"", "x-a"),
        ("private=\"x-b, x-a\"", "x-a"),
        ("no-cache=x-a", "x-a"),
        ("private=\"set-cookie\"", "set-cookie"),
    ] {
        let page = pages.page(&[&format!(
            "Cache-Control: {directive}, max-age=60 | X-A: secret | X-C: open | {}",
            if gone == "set-cookie" { "Set-Cookie: id=1" } else { "X-D: 1" }
        )]);
        let first = page.get("");
        assert!(first.field(gone).is_some(), "the one who asked has it: {directive} {first:?}");
        let second = page.get("");
        assert!(second.is_hit(), "{directive} {second:?}");
        assert_eq!((None, Some("open")), (second.field(gone), second.field("x-c")), "{directive}");
    }
}

#[test]
fn a_cookie_is_never_given_to_another_client() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| assert_eq!(expect, pages.second(lines, 0, ""), "{lines}");
    check("Set-Cookie: id=1 | Cache-Control: max-age=60", Miss);
    check("Set-Cookie: id=1 | Cache-Control: public, max-age=60", Miss);
    check("Set-Cookie: id=1 | Expires: @+60", Miss);
    check("Set-Cookie2: id=1; Version=1 | Cache-Control: max-age=60", Miss);
    let pages = Pages::new("store_set_cookie = true");
    let page = pages.page(&["Set-Cookie: id=1 | Set-Cookie2: id=1 | Cache-Control: max-age=60"]);
    let (first, second) = (page.get(""), page.get(""));
    assert!(second.is_hit(), "{second:?}");
    for name in ["set-cookie", "set-cookie2"] {
        assert_eq!((Some("id=1"), None), (first.field(name), second.field(name)), "{name}");
    }
}

#[test]
fn pragma_in_a_response_means_nothing() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| assert_eq!(expect, pages.second(lines, 0, ""), "{lines}");
    check("Pragma: no-cache | Cache-Control: max-age=60", Hit);
    check("Pragma: no-cache | Expires: @+60", Hit);
    check("Pragma: no-cache | Last-Modified: @-100000", Hit);
    check("Pragma: foo | Last-Modified: @-100000", Hit);
}
