//! Listings of the disk: each page is compared with the whole content, also after changes between two pages.

use super::super::listing::{
    DiskKeyEntries, DiskKeySelection, DiskListingCursor, DiskListingPage, DiskListingQuery, DiskListingSort,
};
use super::*;
use crate::entry::StoredArc;
use crate::listing::{Pattern, SortDirection};
use crate::purges::{PurgeRule, PurgeScope, Strength};
use crate::ram::Store;
use larder_semantics::expression::Expression;
use larder_semantics::tags;
use larder_stdx::clock::precise_micros;

const NEVER: u64 = u64::MAX;

fn query(sort: DiskListingSort, order: SortDirection) -> DiskListingQuery {
    DiskListingQuery { pattern: None, tag: None, status: None, sort, order, limit: 100, after: None }
}

fn key(it: &DiskKeyEntries) -> String {
    String::from_utf8_lossy(&it.key).into_owned()
}

fn keys(page: &DiskListingPage) -> Vec<String> {
    page.listed.iter().map(key).collect()
}

/// A response with this body, status and tag, requested where `store` is now.
fn of(store: &Store, length: usize, status: u16, tag: &str) -> StoredArc {
    let mut stored = crate::sample::owned(blob(1, length));
    stored.meta.status = status;
    let stored = stored.with_purge_facts(PurgeFacts { tags: [tags::hash(tag)].into(), epoch: store.epoch() });
    crate::ram::StoredArc::new(stored)
}

/// A tier with `http://a/0` to `http://a/9`, each larger than the one before.
fn ten(store: &Store) -> Tier {
    let tier = Tier::new();
    for at in 0..10 {
        tier.put(&format!("http://a/{at}"), of(store, 100 + 3000 * at, 200, "t"));
    }
    tier
}

/// All pages of one object each.
fn one_by_one(
    disk: &DiskTier,
    store: &Store,
    mut query: DiskListingQuery,
    those: DiskKeySelection,
    mut between: impl FnMut(),
) -> Vec<String> {
    query.limit = 1;
    let mut all = Vec::new();
    for _ in 0..1000 {
        let page = disk.list(store, &query, those, NEVER);
        all.extend(keys(&page));
        query.after = page.next;
        if query.after.is_none() {
            assert_eq!(0, page.left);
            return all;
        }
        between();
    }
    panic!("it does not end");
}

fn numbered(numbers: impl Iterator<Item = u32>) -> Vec<String> {
    numbers.map(|it| format!("http://a/{it}")).collect()
}

#[test]
fn each_sort_has_its_order_and_each_page_goes_on() {
    let store = sample::store(16 << 20);
    let mut tier = ten(&store);
    for _ in 0..2 {
        for sort in [DiskListingSort::Written, DiskListingSort::Size] {
            let up = one_by_one(
                tier.disk(),
                &store,
                query(sort, SortDirection::Ascending),
                DiskKeySelection::OnDisk,
                || {},
            );
            assert_eq!(numbered(0..10), up, "{sort:?}");
            let down = keys(&tier.disk().list(
                &store,
                &query(sort, SortDirection::Descending),
                DiskKeySelection::OnDisk,
                NEVER,
            ));
            assert_eq!(numbered((0..10).rev()), down, "{sort:?}");
        }
        tier.restart();
    }
}

#[test]
fn uses_are_counted_up_to_a_bound() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    (0..3).for_each(|_| drop(tier.get("http://a/4").unwrap()));
    (0..100).for_each(|_| drop(tier.get("http://a/0").unwrap()));
    let page = tier.disk().list(
        &store,
        &query(DiskListingSort::Hits, SortDirection::Descending),
        DiskKeySelection::OnDisk,
        NEVER,
    );
    let hits: Vec<_> = page.listed.iter().map(|it| (key(it), it.hits)).take(3).collect();
    let expect = [("http://a/0", 63), ("http://a/4", 3), ("http://a/9", 0)];
    assert_eq!(expect.map(|it| (it.0.to_owned(), it.1))[..], hits);
    assert!(tier.get("http://a/0").is_some(), "what is written beside the count is as it was");
}

#[test]
fn a_search_reads_keys_statuses_and_tags() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    tier.put("http://b/x.css", of(&store, 10, 404, "u"));
    let check = |change: fn(&mut DiskListingQuery), expect: &[&str]| {
        let mut query = query(DiskListingSort::Written, SortDirection::Ascending);
        change(&mut query);
        let page = tier.disk().list(&store, &query, DiskKeySelection::OnDisk, NEVER);
        assert_eq!(
            (expect, 11, 0),
            (&keys(&page).iter().map(|it| &**it).collect::<Vec<_>>()[..], page.heads_read, page.left)
        );
    };
    check(|it| it.pattern = Pattern::new("*.css"), &["http://b/x.css"]);
    check(|it| it.pattern = Pattern::new("a/7"), &["http://a/7"]);
    check(|it| it.tag = Some("u".to_owned()), &["http://b/x.css"]);
    check(|it| it.status = Some(400..=499), &["http://b/x.css"]);
    check(|it| it.pattern = Pattern::new("nowhere"), &[]);
}

#[test]
fn a_page_ends_with_its_time_and_the_next_one_goes_on() {
    let store = sample::store(16 << 20);
    let tier = Tier::new();
    (0..100).for_each(|at| tier.put(&format!("http://a/{at}"), of(&store, 10, 200, "t")));
    let mut query = DiskListingQuery {
        pattern: Pattern::new("*/99"),
        ..query(DiskListingSort::Written, SortDirection::Ascending)
    };
    let mut left = Vec::new();
    for _ in 0..100 {
        // Its time is over before it begins.
        let page = tier.disk().list(&store, &query, DiskKeySelection::OnDisk, precise_micros());
        left.push(page.left);
        query.after = page.next;
        if page.next.is_none() {
            assert_eq!(["http://a/99"][..], keys(&page));
            break;
        }
        assert!(page.listed.is_empty());
    }
    assert_eq!([84, 68, 52, 36, 20, 4, 0][..], left);
}

#[test]
fn objects_added_and_removed_between_two_pages_shift_no_object() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    let mut turn = 0;
    let all = one_by_one(
        tier.disk(),
        &store,
        query(DiskListingSort::Size, SortDirection::Ascending),
        DiskKeySelection::OnDisk,
        || {
            tier.put(&format!("http://b/{turn}"), of(&store, 1, 200, "t"));
            if turn < 3 {
                tier.disk().remove(format!("http://a/{turn}").as_bytes());
            }
            turn += 1;
        },
    );
    assert_eq!(numbered(0..10), all);
}

#[test]
fn a_purged_response_is_not_listed() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    let all = |which| {
        one_by_one(tier.disk(), &store, query(DiskListingSort::Size, SortDirection::Ascending), which, || {})
    };
    let page = tier.disk().list(
        &store,
        &query(DiskListingSort::Size, SortDirection::Ascending),
        DiskKeySelection::OnDisk,
        NEVER,
    );
    let url = |key: &str| PurgeScope::Url(key.as_bytes().into());
    for (key, strength) in [("http://a/3", Strength::Hard), ("http://a/4", Strength::Soft)] {
        store.purge(PurgeRule { scope: url(key), strength, positions: Vec::new() });
    }
    assert!(tier.disk().inspect(&store, page.listed[3].id).is_none());
    assert!(tier.disk().inspect(&store, page.listed[4].id).is_some(), "what is stale is there");
    assert_eq!(numbered((0..10).filter(|it| *it != 3)), all(DiskKeySelection::OnDisk));
    store.insert(store.hash(b"http://a/6"), b"http://a/6", of(&store, 1, 200, "t"), 4).unwrap();
    assert_eq!(numbered((0..10).filter(|it| ![3, 6].contains(it))), all(DiskKeySelection::OnDiskAlone));
}

#[test]
fn a_purge_is_counted_by_the_heads_of_records() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    tier.put("http://b/x", of(&store, 10, 404, "u"));
    let count = |scope: PurgeScope, until| {
        let rule = PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() };
        tier.disk().count_until(&store, &rule, until)
    };
    let tagged = |tag: &str| PurgeScope::Tag(tag.into());
    let report = count(tagged("t"), NEVER);
    assert_eq!((10, 11, true), (report.found.responses, report.keys, report.is_whole()));
    assert_eq!(report.found, report.estimate());
    assert_eq!(
        1,
        count(PurgeScope::Where(Expression::parse("status == 404").unwrap()), NEVER).found.responses
    );
    assert_eq!(10, count(PurgeScope::Prefix(b"http://a/".as_slice().into()), NEVER).found.responses);
    let url = PurgeScope::Url(b"http://a/3".as_slice().into());
    assert_eq!(1, count(url.clone(), NEVER).found.responses);
    let of_key = |key: &str| {
        let rule = PurgeRule { scope: url.clone(), strength: Strength::Hard, positions: Vec::new() };
        tier.disk().count_key(&store, &rule, key.as_bytes()).responses
    };
    assert_eq!([1, 0, 0], ["http://a/3", "http://a/4", "http://a/none"].map(of_key));
    store.purge(PurgeRule { scope: url.clone(), strength: Strength::Hard, positions: Vec::new() });
    assert_eq!(0, of_key("http://a/3"), "what is purged is not counted again");
    assert_eq!(0, count(url.clone(), NEVER).found.responses, "what is purged is not counted again");
    assert_eq!(10, count(PurgeScope::All, NEVER).found.responses);
    for at in 0..90 {
        tier.put(&format!("http://c/{at}"), of(&store, 10, 200, "t"));
    }
    let report = count(tagged("t"), 0);
    assert_eq!((101, 16, false), (report.keys, report.read, report.is_whole()));
    assert_eq!(report.found.responses * 101 / 16, report.estimate().responses);
}

#[test]
fn all_variants_of_a_key_are_one() {
    let store = sample::store(16 << 20);
    let tier = Tier::new();
    for value in [&b"br"[..], b"gzip"] {
        let request = [Field { name: "accept-encoding", value }];
        let stored = sample::varied(&["accept-encoding"], &request, sample::text("hello"));
        let stored = crate::sample::owned(stored);
        let stored = stored.with_purge_facts(PurgeFacts { epoch: store.epoch(), ..PurgeFacts::default() });
        tier.put("http://a/", crate::ram::StoredArc::new(stored));
    }
    let page = tier.disk().list(
        &store,
        &query(DiskListingSort::Size, SortDirection::Ascending),
        DiskKeySelection::OnDisk,
        NEVER,
    );
    assert_eq!((1, 1, 2), (page.keys, page.listed.len(), page.listed[0].variants.len()));
    let found = tier.disk().inspect(&store, page.listed[0].id).unwrap();
    assert_eq!([true, true], [0, 1].map(|at| !found.variants[at].variant().is_empty()));
    assert_eq!([5, 5], [0, 1].map(|at| found.variants[at].body.len()));
}

#[test]
fn an_unreadable_record_is_skipped_in_a_listing() {
    let store = sample::store(16 << 20);
    let tier = ten(&store);
    let fail = Fail { first: 3, count: 1, errno: Errno::IO };
    tier.calls.faults.plan(Some(fail));
    let page = tier.disk().list(
        &store,
        &query(DiskListingSort::Size, SortDirection::Ascending),
        DiskKeySelection::OnDisk,
        NEVER,
    );
    tier.calls.faults.plan(None);
    assert_eq!((9, 10), (page.listed.len(), page.heads_read));
    assert_eq!(10, tier.disk().objects(), "nothing was forgotten");
    let nowhere = DiskListingQuery {
        after: Some(DiskListingCursor { rank: NEVER, stamp: 0 }),
        ..query(DiskListingSort::Size, SortDirection::Ascending)
    };
    let page = tier.disk().list(&store, &nowhere, DiskKeySelection::OnDisk, NEVER);
    assert!(page.listed.is_empty() && page.next.is_none());
}
