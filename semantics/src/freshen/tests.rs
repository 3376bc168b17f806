//! Tables for 304 and HEAD: the stored response that is meant, and its new head.

use super::*;
use crate::stored::stored_fields;
use crate::testing::{NOW, at, head};
use proptest::prelude::*;

fn store(text: &str) -> (FieldList, Meta) {
    let list = head(text);
    let fields = list.view();
    let policy = Policy::default();
    (stored_fields(&fields, &policy, NOW), Meta::of(200, &fields, &policy, NOW, NOW))
}

#[track_caller]
fn selected(stored: &str, update: &str, expect: bool) {
    let (_, meta) = store(stored);
    let update = head(update);
    assert_eq!(expect, selects(&meta, &update.view(), true), "{stored} <- {update:?}");
}

#[test]
fn a_304_updates_the_response_that_its_validators_select() {
    selected("ETag: \"a\"", "ETag: \"a\"", true);
    selected("ETag: \"a\"", "ETag: \"b\"", false);
    selected("ETag: W/\"a\"", "ETag: W/\"a\"", true);
    selected("ETag: \"a\"", "ETag: W/\"a\"", true);
    selected("ETag: W/\"a\"", "ETag: \"a\"", false);
    selected("Last-Modified: @-9", "ETag: \"a\"", false);
    selected("Last-Modified: @-9", "Last-Modified: @-9", true);
    selected("Last-Modified: @-9", "Last-Modified: @-8", false);
    selected("ETag: \"a\" | Last-Modified: @-9", "ETag: \"a\" | Last-Modified: @-8", true);
    selected("ETag: \"a\"", "Date: @0", true);
    let (_, meta) = store("ETag: \"a\"");
    assert!(!selects(&meta, &[], false), "no validator, several candidates");
}

/// Checks the value of `name` after an update 100 seconds later.
#[track_caller]
fn updated(stored: &str, update: &str, name: &str, expect: &str) {
    let (kept, meta) = store(stored);
    let update = head(update);
    let (fields, _) = apply(&kept, &meta, &update.view(), &Policy::default(), at(100), at(100));
    let values: Vec<_> = fields.get_all(name).map(String::from_utf8_lossy).collect();
    assert_eq!(expect, values.join(" | "), "{stored} <- {update:?}");
}

#[test]
fn an_update_replaces_every_field_it_may() {
    for name in [
        "Test-Header",
        "X-Content-Foo",
        "Content-Foo",
        "Content-Location",
        "Content-MD5",
        "Content-Security-Policy",
        "ETag",
        "Cache-Control",
        "Expires",
        "Via",
    ] {
        updated(&format!("{name}: 1"), &format!("{}: 2", name.to_ascii_lowercase()), name, "2");
        updated(&format!("{name}: 1"), "Other: 2", name, "1");
    }
    updated("A: 1 | A: 2", "a: 3", "A", "3");
    updated("A: 1", "A: 2 | A: 3", "A", "2 | 3");
}

#[test]
fn an_update_replaces_none_it_may_not() {
    for name in ["Content-Length", "Content-Encoding", "Content-Type", "Content-Range"] {
        updated(&format!("{name}: 1"), &format!("{name}: 2"), name, "1");
        updated("", &format!("{name}: 2"), name, "");
    }
    for name in [
        "Connection",
        "Keep-Alive",
        "TE",
        "Upgrade",
        "Transfer-Encoding",
        "Proxy-Authenticate",
        "Age",
        "Set-Cookie",
    ] {
        updated("", &format!("{name}: 2"), name, "");
    }
    updated("A: 1", "Connection: a | A: 2", "A", "1");
    updated("A: 1", "Cache-Control: no-cache=\"a\" | A: 2", "A", "");
}

#[test]
fn facts_follow_the_update() {
    let refreshed = |stored: &str, update: &str| {
        let (kept, meta) = store(stored);
        let update = head(update);
        apply(&kept, &meta, &update.view(), &Policy::default(), at(100), at(100)).1
    };
    let it = refreshed("Cache-Control: max-age=60 | ETag: \"a\"", "Date: @100");
    assert_eq!((0, 60, at(100)), (it.age(at(100)), it.lifetime.seconds, it.response_time));
    let it = refreshed("Cache-Control: max-age=60 | Date: @-5", "");
    assert_eq!((0, at(100)), (it.age(at(100)), it.date), "an update without Date is of now");
    let it = refreshed("Cache-Control: max-age=60", "Cache-Control: max-age=3600 | Age: 7 | Date: @100");
    assert_eq!((7, 3600), (it.age(at(100)), it.lifetime.seconds));
    let it = refreshed("Expires: @60", "Date: @100");
    assert_eq!(0, { it.lifetime.seconds }, "the old Expires is before the new Date");
    let it = refreshed("Cache-Control: max-age=60 | Vary: A", "Vary: B");
    assert_eq!([Box::from("b")], *it.vary());
    assert!(refreshed("Cache-Control: max-age=60", "Cache-Control: no-cache").no_cache);
}

/// `max-age=60` with a validator, freshened by `update` for a GET with the fields of `request`.
#[track_caller]
fn then(request: &str, update: &str, expect: AfterFreshen) {
    let policy = Policy::default();
    let (kept, meta) = store("Cache-Control: max-age=60 | ETag: \"a\"");
    let (list, request) = (head(update), head(request));
    let (fields, meta) = apply(&kept, &meta, &list.view(), &policy, at(100), at(100));
    let request = request.view();
    for method in ["GET", "HEAD"] {
        let facts = RequestFacts::read(method, &request);
        assert_eq!(expect, after(&facts, &list.view(), &fields, &meta, &policy), "{request:?} {update}");
    }
}

#[test]
fn an_update_may_forbid_storing() {
    then("", "", AfterFreshen::Update);
    then("", "Cache-Control: max-age=0", AfterFreshen::Update);
    then("", "Set-Cookie: a=b", AfterFreshen::Leave);
    then("X-Api-Key: k", "", AfterFreshen::Update);
    then("", "Set-Cookie: a=b | Cache-Control: max-age=60, no-cache=\"set-cookie\"", AfterFreshen::Update);
    then("", "Set-Cookie: a=b | Cache-Control: private", AfterFreshen::Drop);
    then("", "Cache-Control: no-store", AfterFreshen::Drop);
    then("", "Cache-Control: private", AfterFreshen::Drop);
    then("", "CDN-Cache-Control: no-store", AfterFreshen::Drop);
    then("", "Vary: *", AfterFreshen::Drop);
    then("Authorization: x", "", AfterFreshen::Leave);
    then("Authorization: x", "Cache-Control: max-age=60, public", AfterFreshen::Update);
    then("Authorization: x", "Cache-Control: private", AfterFreshen::Drop);
    then("Cache-Control: no-store", "", AfterFreshen::Leave);
    then("Cache-Control: no-store", "Cache-Control: no-store", AfterFreshen::Drop);
    then("Range: bytes=0-1 | Cookie: a=b", "", AfterFreshen::Update);
}

#[track_caller]
fn check_head(stored: &str, update: &str, expect: HeadSays) {
    let (fields, meta) = store(stored);
    assert_eq!(expect, head_says(&meta, &fields, &head(update).view()), "{stored} <- {update}");
}

#[test]
fn a_head_freshens_or_invalidates() {
    use HeadSays::{Freshen, Invalidate};
    check_head("", "A: 2", Freshen);
    check_head("ETag: \"a\" | Content-Length: 5", "ETag: \"a\" | Content-Length: 5", Freshen);
    check_head("ETag: \"a\"", "ETag: \"b\"", Invalidate);
    check_head("ETag: \"a\"", "ETag: W/\"a\"", Freshen);
    check_head("", "ETag: \"a\"", Invalidate);
    check_head("ETag: \"a\"", "", Freshen);
    check_head("Last-Modified: @-9", "Last-Modified: @-8", Invalidate);
    check_head("Last-Modified: @-9", "Last-Modified: @-9", Freshen);
    check_head("Content-Length: 5", "Content-Length: 6", Invalidate);
    check_head("", "Content-Length: 6", Freshen);
}

proptest! {
    #[test]
    fn freshening_twice_is_freshening_once(
        stored in prop::collection::vec(("[ABC]|Content-Type|Vary|ETag|Cache-Control", "[a-z,=]{0,9}"), 0..6),
        update in prop::collection::vec(("[ABC]|Content-Type|Vary|Connection|Cache-Control", "[a-z,=]{0,9}"), 0..6),
    ) {
        let list = |lines: &[(String, String)]| {
            let mut list = FieldList::new();
            lines.iter().for_each(|(name, value)| list.push(name, value));
            list
        };
        let (stored, update) = (list(&stored), list(&update));
        let policy = Policy::default();
        let kept = stored_fields(&stored.view(), &policy, NOW);
        let meta = Meta::of(200, &stored.view(), &policy, NOW, NOW);
        let (once, meta) = apply(&kept, &meta, &update.view(), &policy, at(9), at(9));
        let (twice, again) = apply(&once, &meta, &update.view(), &policy, at(9), at(9));
        prop_assert_eq!(once, twice);
        prop_assert_eq!(meta, again);
    }

    #[test]
    fn freshening_with_nothing_changes_nothing_but_date(
        values in prop::collection::vec("[a-z ,=\"]{0,12}", 4),
    ) {
        let mut list = FieldList::new();
        for (name, value) in ["A", "B", "Content-Type", "A"].iter().zip(&values) {
            list.push(name, value.trim());
        }
        let policy = Policy::default();
        let kept = stored_fields(&list.view(), &policy, NOW);
        let meta = Meta::of(200, &list.view(), &policy, NOW, NOW);
        let (mut fields, _) = apply(&kept, &meta, &[], &policy, at(9), at(9));
        let mut before = kept.clone();
        fields.remove("date");
        before.remove("date");
        prop_assert_eq!(before.text(), fields.text());
    }
}
