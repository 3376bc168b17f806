//! Which statuses are stored, with and without explicit freshness: RFC 9111 §3, §4.2.2, RFC 9110 §15.1.

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss};

#[test]
fn heuristic_freshness_by_status() {
    let pages = Pages::new("");
    let heuristic = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
    for status in heuristic {
        let got = pages.second(&format!("{status} | Last-Modified: @-100000 | Date: @0"), 5, "");
        assert_eq!(Hit, got, "{status}");
    }
    for status in [201, 202, 299, 302, 303, 307, 403, 406, 418, 499, 500, 502, 503, 504, 599] {
        let lines = format!("{status} | Last-Modified: @-100000 | Date: @0");
        assert_eq!(Miss, pages.second(&lines, 5, ""), "{status}");
        if status != 500 && status < 502 {
            // `public` allows it for every status.
            assert_eq!(
                Hit,
                pages.second(&format!("{lines} | Cache-Control: public"), 5, ""),
                "{status} public"
            );
        }
    }
}

#[test]
fn explicit_freshness_by_status() {
    let pages = Pages::new("");
    for status in [
        200, 201, 202, 203, 204, 299, 300, 301, 302, 303, 305, 307, 308, 403, 404, 405, 406, 409, 410, 414,
        418, 451, 499, 500, 501, 502, 503, 504, 505, 599,
    ] {
        for lines in ["Cache-Control: max-age=60", "Expires: @+60", "Cache-Control: s-maxage=60"] {
            assert_eq!(Hit, pages.second(&format!("{status} | {lines}"), 5, ""), "{status} {lines}");
        }
    }
    // About one request's conditions, credentials or form: never.
    for status in [401, 407, 408, 411, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429, 431] {
        assert_eq!(Miss, pages.second(&format!("{status} | Cache-Control: max-age=60"), 0, ""), "{status}");
    }
}

#[test]
fn the_share_of_the_time_since_last_modified() {
    let pages = Pages::new("");
    let check = |lines: &str, seconds: i64, expect: Second| {
        assert_eq!(expect, pages.second(lines, seconds, ""), "{lines} after {seconds}");
    };
    check("Last-Modified: @-1000 | Date: @0", 90, Hit);
    check("Last-Modified: @-1000 | Date: @0", 105, Second::Validates);
    check("Last-Modified: @-100000000 | Date: @0", 86_000, Hit);
    check("Last-Modified: @-100000000 | Date: @0", 86_500, Second::Validates);
    check("Last-Modified: @+1000 | Date: @0", 1, Second::Validates);
    check("Last-Modified: nonsense | Date: @0", 0, Miss);
    check("Date: @0", 0, Miss);
}

#[test]
fn errors_are_stored_only_by_a_setting_of_the_operator() {
    let pages = Pages::new("status_ttl = { 404 = \"10s\", 503 = \"5s\" }, default_ttl = \"60s\"");
    let check = |lines: &str, seconds: i64, expect: Second| {
        assert_eq!(expect, pages.second(lines, seconds, ""), "{lines} after {seconds}");
    };
    check("404", 5, Hit);
    check("404", 11, Miss);
    check("404 | Cache-Control: max-age=60", 11, Hit);
    check("503", 3, Hit);
    check("503 | Cache-Control: no-store", 3, Miss);
    check("500", 0, Miss);
    check("501", 0, Miss);
    check("200", 50, Hit);
    check("200", 61, Miss);
    check("302", 0, Miss);
}

#[test]
fn an_override_of_the_lifetime_does_not_allow_forbidden_storing() {
    let pages = Pages::new("override_ttl = \"60s\", max_ttl = \"30s\"");
    let check = |lines: &str, seconds: i64, expect: Second| {
        assert_eq!(expect, pages.second(lines, seconds, ""), "{lines} after {seconds}");
    };
    check("Cache-Control: max-age=0", 20, Hit);
    check("Cache-Control: no-cache", 20, Hit);
    check("Cache-Control: max-age=600", 31, Miss);
    check("Cache-Control: no-store", 0, Miss);
    check("Cache-Control: private", 0, Miss);
    check("Set-Cookie: a=1", 0, Miss);
    check("500", 0, Miss);
}
