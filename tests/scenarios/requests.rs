//! The effects of request fields: directives (RFC 9111 §5.2.1), `Pragma` (§5.4), `Authorization` (§3.5).

use crate::harness::Pages;
use crate::harness::pages::Second::{self, Hit, Miss, Stale, Validates};

/// A page with a validator, fresh for 100 s and `age` seconds old, asked with `lines`.
#[track_caller]
fn check(pages: &Pages, age: i64, lines: &str, expect: Second) {
    let page = pages.page(&["Cache-Control: max-age=100 | ETag: \"a\""]);
    page.get("");
    pages.advance(age);
    assert_eq!(expect, page.get_again(lines), "{lines} at the age of {age}");
}

#[test]
fn request_directives_are_obeyed() {
    let pages = Pages::new("");
    check(&pages, 0, "Cache-Control: no-cache", Validates);
    check(&pages, 0, "Cache-Control: NO-CACHE", Validates);
    check(&pages, 0, "Cache-Control: no-cache, max-age=600", Validates);
    check(&pages, 0, "Cache-Control: max-age=0", Validates);
    check(&pages, 20, "Cache-Control: max-age=10", Validates);
    check(&pages, 20, "Cache-Control: max-age=40", Hit);
    check(&pages, 20, "Cache-Control: max-age=\"10\"", Validates);
    check(&pages, 20, "Cache-Control: min-fresh=50", Hit);
    check(&pages, 60, "Cache-Control: min-fresh=50", Validates);
    check(&pages, 20, "Cache-Control: min-fresh=500", Validates);
    check(&pages, 150, "Cache-Control: max-stale", Stale);
    check(&pages, 150, "Cache-Control: max-stale=100", Stale);
    check(&pages, 150, "Cache-Control: max-stale=20", Validates);
    check(&pages, 150, "Cache-Control: max-stale=100, max-age=10", Validates);
    check(&pages, 20, "Cache-Control: no-store", Hit);
    check(&pages, 20, "Cache-Control: only-if-cached", Hit);
    check(&pages, 20, "Cache-Control: unknown=1", Hit);
}

#[test]
fn a_request_with_no_store_leaves_nothing() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=100"]);
    page.get("Cache-Control: no-store");
    assert_eq!(Miss, page.get_again(""), "it was not stored");
    assert_eq!(Hit, page.get_again(""));
    assert_eq!(0, pages.larder.counter("hit_for_miss"), "nor does it part others");
}

#[test]
fn only_if_cached() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=100"]);
    let none = page.get("Cache-Control: only-if-cached");
    assert_eq!((504, 0), (none.status, page.requests()));
    assert_eq!("larder; detail=only-if-cached", none.cache());
    assert!(none.text().contains("the request forbids contacting the origin (only-if-cached)"), "{none:?}");
    page.get("");
    assert_eq!(200, page.get("Cache-Control: only-if-cached").status);
    pages.advance(150);
    assert_eq!(504, page.get("Cache-Control: only-if-cached").status);
    assert_eq!(200, page.get("Cache-Control: only-if-cached, max-stale=100").status);
    assert_eq!(504, page.get("Cache-Control: only-if-cached, no-cache").status);
    assert_eq!(1, page.requests());
}

#[test]
fn a_route_may_obey_fewer() {
    let harmless = Pages::new("request_directives = \"harmless\"");
    check(&harmless, 20, "Cache-Control: no-cache", Hit);
    check(&harmless, 20, "Cache-Control: max-age=0", Hit);
    check(&harmless, 20, "Pragma: no-cache", Hit);
    check(&harmless, 150, "Cache-Control: max-stale=100", Stale);
    assert_eq!(504, harmless.page(&["X: 1"]).get("Cache-Control: only-if-cached").status);
    let none = Pages::new("request_directives = \"ignore\"");
    check(&none, 20, "Cache-Control: no-cache", Hit);
    check(&none, 150, "Cache-Control: max-stale=100", Validates);
    assert_eq!(200, none.page(&["X: 1"]).get("Cache-Control: only-if-cached").status);
    let page = none.page(&["Cache-Control: max-age=60"]);
    page.get("Cache-Control: no-store");
    assert_eq!(Hit, page.get_again(""));
}

#[test]
fn pragma_where_there_is_no_cache_control() {
    let pages = Pages::new("");
    check(&pages, 0, "Pragma: no-cache", Validates);
    check(&pages, 0, "Pragma: No-Cache", Validates);
    check(&pages, 0, "Pragma: foo, no-cache", Validates);
    check(&pages, 0, "Pragma: foo", Hit);
    check(&pages, 0, "Pragma: no-cache | Cache-Control: max-age=100", Hit);
}

#[test]
fn no_cache_is_a_wish_that_trouble_overrules() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=100 | ETag: \"a\" || old", "503"]);
    page.get("");
    let it = page.get("Cache-Control: no-cache");
    assert_eq!((200, "old"), (it.status, it.text().as_str()));
    assert!(it.cache().contains("fwd=request; fwd-status=503"), "{it:?}");
}

#[test]
fn authorization() {
    let pages = Pages::new("");
    let check = |directives: &str, expect: Second| {
        let page = pages.page(&[&format!("Cache-Control: {directives} | ETag: \"a\"")]);
        page.get("Authorization: Basic eDp5");
        assert_eq!(expect, page.get_again(""), "{directives}: for another");
        let _ = page.get("Authorization: Basic eDp5");
    };
    check("max-age=60", Miss);
    check("max-age=60, private", Miss);
    check("max-age=60, no-store", Miss);
    check("max-age=60, public", Hit);
    check("max-age=60, must-revalidate", Hit);
    check("s-maxage=60", Hit);
    check("max-age=60, proxy-revalidate", Miss);
    check("no-cache", Miss);
    // What was stored for others may be used (§3.5 is about storing).
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.get("");
    assert_eq!(Hit, page.get_again("Authorization: Basic eDp5"));
}

#[test]
fn a_request_with_authorization_does_not_stop_collapsing() {
    let pages = Pages::new("");
    let page = pages.page(&["Cache-Control: max-age=60"]);
    page.get("Authorization: Basic eDp5");
    page.get("");
    assert_eq!((Hit, 0), (page.get_again(""), pages.larder.counter("hit_for_miss")));
}

#[test]
fn fields_that_override_the_method_or_the_target_pass() {
    let pages = Pages::new("");
    for lines in [
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /admin",
        "X-Rewrite-URL: /admin",
        "X-Method-Override: PUT",
    ] {
        let page = pages.page(&["Cache-Control: max-age=60"]);
        page.get(lines);
        assert_eq!(Miss, page.get_again(""), "{lines}: not stored");
        assert_eq!(Miss, page.get_again(lines), "{lines}: not answered from the store");
    }
}
