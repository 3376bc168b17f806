//! `Expires`, RFC 9111 §5.3: against `Date`, against an old `Age`, invalid, repeated, in every form of a date.

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss};

#[test]
fn expires_against_date_and_age() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| assert_eq!(expect, pages.second(lines, 0, ""), "{lines}");
    check("Expires: @+600", Hit);
    check("Expires: @+600 | Date: @0", Hit);
    check("Expires: @-600 | Date: @0 | ETag: \"a\"", Second::Validates);
    check("Expires: @0 | Date: @0", Miss);
    check("Expires: @+600 | Date: @+600 | ETag: \"a\"", Second::Validates);
    // Against the origin's Date, not ours: its clock may be off.
    check("Expires: @+600 | Date: @+300", Hit);
    check("Expires: @-600 | Date: @-1200 | Age: 0", Miss); // Lifetime 600, apparent age 1200.
    check("Expires: @+600 | Date: @0 | Age: 25", Hit);
    check("Expires: @+600 | Date: @0 | Age: 601", Miss);
    check("Expires: @+20 | Date: @0 | Age: 25 | ETag: \"a\"", Second::Validates);
    check("Expires: @+60000000000", Hit);
}

#[test]
fn cache_control_goes_before_expires() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| assert_eq!(expect, pages.second(lines, 0, ""), "{lines}");
    check("Expires: @-600 | Cache-Control: max-age=600", Hit);
    check("Expires: @+600 | Cache-Control: max-age=0 | ETag: \"a\"", Second::Validates);
    check("Expires: 0 | Cache-Control: max-age=600", Hit);
    check("Expires: 0 | Cache-Control: s-maxage=600", Hit);
    check("Expires: @+600 | Cache-Control: s-maxage=0 | ETag: \"a\"", Second::Validates);
    check("Expires: @+600 | Cache-Control: public", Hit);
}

#[test]
fn invalid_and_repeated() {
    let pages = Pages::new("");
    let check = |lines: &str, expect: Second| {
        assert_eq!(expect, pages.second(&format!("{lines} | ETag: \"a\""), 0, ""), "{lines}");
    };
    // Invalid is expired, above all 0.
    for invalid in ["0", "-1", "never", "tomorrow", "1735689600", "", "Thu"] {
        check(&format!("Expires: {invalid}"), Second::Validates);
    }
    check("Expires: @+600 | Expires: @+600", Hit);
    check("Expires: @+600 | Expires: @-600", Second::Validates);
    check("Expires: @-600 | Expires: @+600", Second::Validates);
    check("Expires: @+600 | Expires: 0", Second::Validates);
    check("Expires: 0 | Expires: @+600", Second::Validates);
}

#[test]
fn forms_of_a_date() {
    let pages = Pages::new("");
    let check = |value: &str, expect: Second| {
        assert_eq!(expect, pages.second(&format!("Expires: {value} | ETag: \"a\""), 0, ""), "{value}");
    };
    // The three forms that must be understood (RFC 9110 §5.6.7).
    check("Thu, 18 Aug 2050 02:01:18 GMT", Hit);
    check("Thursday, 18-Aug-50 02:01:18 GMT", Hit);
    check("Thu Aug 18 02:01:18 2050", Hit);
    check("Thu Aug  8 02:01:18 2050", Hit);
    // Others are not dates, and so expired.
    for it in [
        "Thu, 18 Aug 2050 02:01:18",
        "Thu, 18 Aug 2050 02:01:18 AEST",
        "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT",
        "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 02:01:18 GMT, x",
        "18 Aug 2050 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT",
        "Thu, 38 Aug 2050 02:01:18 GMT",
        "2050-08-18T02:01:18Z",
    ] {
        check(it, Second::Validates);
    }
}
