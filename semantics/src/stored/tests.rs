//! Tables for what is kept of a head, and which facts.

use super::*;
use crate::freshness::LifetimeSource;
use crate::testing::{NOW, at, head};

/// Checks the names that are kept, in order.
#[track_caller]
fn kept(text: &str, expect: &str) {
    let list = head(text);
    let kept = stored_fields(&list.view(), &Policy::default(), NOW);
    let names: Vec<_> = kept.iter().map(|it| it.name).collect();
    assert_eq!(expect, names.join(" "), "{text}");
}

#[test]
fn hop_by_hop_and_nominated_fields_are_not_stored() {
    kept("Connection: a, b | a: 1 | B: 2 | c: 3 | Date: @0", "c Date");
    kept("Connection: a | Connection: \"x\", B | a: 1 | b: 2 | Date: @0", "Date");
    for name in [
        "Connection",
        "keep-alive",
        "Proxy-Connection",
        "Proxy-Authenticate",
        "Proxy-Authentication-Info",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Age",
        "Set-Cookie",
        "set-cookie2",
    ] {
        kept(&format!("Date: @0 | {name}: x"), "Date");
    }
    for name in ["WWW-Authenticate", "Public-Key-Pins", "Content-Foo", "Cache-Status", "Via"] {
        kept(&format!("Date: @0 | {name}: x"), &format!("Date {name}"));
    }
}

#[test]
fn fields_that_directives_name_are_not_stored() {
    kept(
        "Cache-Control: no-cache=\"a, B\", private=\"c\" | A: 1 | b: 2 | C: 3 | d: 4 | Date: @0",
        "Cache-Control d Date",
    );
    kept("CDN-Cache-Control: no-cache=\"a\", max-age=1 | a: 1 | Date: @0", "CDN-Cache-Control Date");
    kept(
        "CDN-Cache-Control: max-age=1 | Cache-Control: no-cache=\"a\" | a: 1 | Date: @0",
        "CDN-Cache-Control Cache-Control a Date",
    );
}

#[test]
fn a_stored_head_has_one_valid_date() {
    let date = |text| {
        let list = head(text);
        let kept = stored_fields(&list.view(), &Policy::default(), NOW);
        assert_eq!(1, kept.get_all("date").count(), "{text}");
        kept.get("date").and_then(date::parse)
    };
    assert_eq!(Some(NOW), date(""));
    assert_eq!(Some(NOW), date("Date: foo"));
    assert_eq!(Some(at(-9)), date("Date: @-9"));
    assert_eq!(Some(at(-9)), date("Date: @-9 | Date: @-5"));
    assert_eq!(Some(at(-9)), date("Date: foo | Date: @-9"));
    assert_eq!(at(-9), meta(200, "Date: foo | Date: @-9").date, "and its age is computed from that one");
}

fn meta(status: u16, text: &str) -> Meta {
    let list = head(text);
    Meta::of(status, &list.view(), &Policy::default(), at(-2), NOW)
}

#[test]
fn facts() {
    let it =
        meta(200, "Cache-Control: max-age=60 | Age: 10 | ETag: W/\"a\" | Last-Modified: @-99 | Vary: B, a");
    assert_eq!((12, 60), (it.initial_age, it.lifetime.seconds));
    assert_eq!(LifetimeSource::MaxAge, it.lifetime.source);
    assert_eq!((NOW, Some(at(-99))), (it.date, it.last_modified.get()));
    assert_eq!(Some(&b"W/\"a\""[..]), it.etag.as_deref());
    assert_eq!([Box::from("a"), Box::from("b")], *it.vary());
    assert_eq!((0, 86_400), (it.stale_while_revalidate, it.stale_if_error));
    assert_eq!((17, Freshness::Fresh { remaining: 43 }), (it.age(at(5)), it.freshness(at(5))));
    assert_eq!(Freshness::Stale { staleness: 0 }, it.freshness(at(48)));
    assert_eq!(12, it.age(at(-50)), "our clock went back");
    assert!(!it.must_revalidate && !it.no_cache);
    for stale in ["must-revalidate", "proxy-revalidate", "s-maxage=1"] {
        assert!(meta(200, &format!("Cache-Control: {stale}")).must_revalidate, "{stale}");
    }
    assert!(meta(200, "Cache-Control: no-cache").no_cache);
    assert!(!meta(200, "Cache-Control: no-cache=\"a\"").no_cache);
    let it = meta(200, "Cache-Control: stale-while-revalidate=5, stale-if-error=6");
    assert_eq!((5, 6), (it.stale_while_revalidate, it.stale_if_error));
}

#[test]
fn two_entity_tags_are_none() {
    assert_eq!(None, meta(200, "ETag: \"a\" | ETag: \"b\"").etag);
    assert_eq!(None, meta(200, "ETag: \"a\", \"b\"").etag);
    assert_eq!(None, meta(200, "ETag: a").etag);
    assert!(meta(200, "ETag: \"a\" | ETag: \"a\"").etag.is_some());
}

#[test]
fn a_206_knows_its_part() {
    let part = meta(206, "Content-Range: bytes 4-9/10").partial();
    assert_eq!(Some(HeldRange { first: 4, last: 9, complete: Some(10) }), part);
    assert_eq!(None, meta(200, "Content-Range: bytes 4-9/10").partial());
}

#[test]
fn a_private_cookie_leaves_nothing_for_vary() {
    let list = head("Vary: Cookie, A | Cache-Control: max-age=9");
    let vary = |policy: &Policy| Meta::of(200, &list.view(), policy, NOW, NOW).vary().to_vec();
    assert_eq!(vec![Box::from("a"), Box::from("cookie")], vary(&Policy::default()));
    let policy = Policy { private_cookies: vec!["id".to_owned()], ..Policy::default() };
    assert_eq!(vec![Box::from("a")], vary(&policy), "the key has what the origin saw of Cookie");
    let implicit = |policy: &Policy| Meta::of(200, &list.view(), policy, NOW, NOW).implicit;
    assert!(implicit(&policy), "it is not for a request with a private cookie");
    assert!(!implicit(&Policy::default()), "the variant selects");
}
