//! A page is compared with all stored entries, sorted plainly; and pages with each other, while the store changes.

use super::*;
use crate::listing::Pattern;
use crate::purges::{PurgeEpoch, PurgeFacts, PurgeRule, PurgeScope, Strength};
use crate::ram::Lookup;
use crate::ram::Swept;
use crate::sample::{plain, store, stored, tagged, text};
use larder_semantics::stored::Meta;
use larder_stdx::clock::{WallTime, precise_micros};
use proptest::prelude::*;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64};

fn query(sort: ListingSort, order: SortDirection, limit: usize) -> ListingQuery {
    ListingQuery { pattern: None, tag: None, status: None, sort, order, limit, after: None }
}

/// Stores a page of `size` bytes that was made at `epoch` and is fresh for `lifetime`.
fn put(store: &Store, key: &str, size: usize, epoch: u64, lifetime: u32, status: u16, tag: &str) {
    let mut stored = stored(text(&"x".repeat(size)));
    stored.meta = Meta { status, response_time: WallTime(epoch + 7), initial_age: 7, ..stored.meta };
    stored.meta.lifetime.seconds = lifetime;
    let stored = stored.with_purge_facts(PurgeFacts { epoch: store.epoch(), ..tagged(tag) });
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), crate::ram::StoredArc::new(stored), 4).unwrap();
}

fn many(store: &Store, count: usize) {
    for n in 0..count {
        put(store, &format!("http://a/{n:05}"), n % 7, n as u64, 60, 200, "all");
    }
}

fn keys(page: &ListingPage) -> Vec<String> {
    page.listed.iter().map(|it| String::from_utf8_lossy(it.entry.key()).into_owned()).collect()
}

fn hit(store: &Store, key: &str) {
    match store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) {
        Lookup::Entry(entry) => entry.note_hit(),
        _ => panic!("{key} is not there"),
    }
}

/// All pages, one after the other; `between` is done after each.
fn all_pages(store: &Store, mut query: ListingQuery, mut between: impl FnMut()) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        let page = store.list(&query);
        all.extend(keys(&page));
        query.after = page.next;
        if query.after.is_none() {
            return all;
        }
        between();
    }
    panic!("it does not end");
}

#[test]
fn each_sort_has_its_order() {
    let store = store(64 << 20);
    put(&store, "http://a/1", 30, 500, 10, 200, "t");
    put(&store, "http://a/2", 10, 900, 5, 404, "t");
    put(&store, "http://a/3", 20, 100, 1000, 200, "u");
    (0..3).for_each(|_| hit(&store, "http://a/2"));
    hit(&store, "http://a/3");
    let check = |sort, expect: [u8; 3]| {
        let expect = expect.map(|it| format!("http://a/{it}"));
        assert_eq!(&expect[..], keys(&store.list(&query(sort, SortDirection::Ascending, 10))), "{sort:?}");
        let mut back = expect.to_vec();
        back.reverse();
        assert_eq!(
            back,
            keys(&store.list(&query(sort, SortDirection::Descending, 10))),
            "{sort:?}, from the end"
        );
    };
    check(ListingSort::Key, [1, 2, 3]);
    check(ListingSort::Size, [2, 3, 1]);
    check(ListingSort::Age, [2, 1, 3]);
    check(ListingSort::Hits, [1, 3, 2]);
    check(ListingSort::Expires, [1, 2, 3]);
}

#[test]
fn a_page_has_the_matching_objects_and_the_counts_of_all() {
    let store = store(64 << 20);
    many(&store, 100);
    put(&store, "http://b/other", 1, 1, 60, 404, "some");
    let asked = |pattern: Option<&str>, tag: Option<&str>, status: Option<RangeInclusive<u16>>| {
        let pattern = pattern.and_then(Pattern::new);
        let tag = tag.map(str::to_owned);
        let page = store.list(&ListingQuery {
            pattern,
            tag,
            status,
            ..query(ListingSort::Key, SortDirection::Ascending, 3)
        });
        (page.total, page.matched, keys(&page).len(), page.next.is_some())
    };
    assert_eq!((101, 101, 3, true), asked(None, None, None));
    assert_eq!((101, 10, 3, true), asked(Some("/0001"), None, None));
    assert_eq!((101, 1, 1, false), asked(Some("b/*"), None, None));
    assert_eq!((101, 1, 1, false), asked(None, Some("some"), None));
    assert_eq!((101, 100, 3, true), asked(None, Some("all"), None));
    assert_eq!((101, 1, 1, false), asked(None, None, Some(400..=499)));
    assert_eq!((101, 0, 0, false), asked(Some("/0001"), Some("some"), None));
}

/// A client that has gone reads no page.
#[test]
fn a_walk_ends_when_its_page_is_not_wanted() {
    let store = store(64 << 20);
    many(&store, 10_000);
    let asked = AtomicU64::new(0);
    let few = |most| move |asked: &AtomicU64| asked.fetch_add(1, Relaxed) < most;
    for threads in [WalkThreads::One, WalkThreads::Two] {
        let wanted = few(asked.load(Relaxed) + 4);
        let query = query(ListingSort::Hits, SortDirection::Descending, 10);
        let page = store.list_by(&query, threads, || wanted(&asked));
        assert!((1..1_000).contains(&page.total), "{} entries in four shards", page.total);
    }
}

#[test]
fn two_threads_list_the_same_as_one() {
    let store = store(64 << 20);
    many(&store, 300);
    for sort in
        [ListingSort::Key, ListingSort::Size, ListingSort::Age, ListingSort::Hits, ListingSort::Expires]
    {
        let mut query = query(sort, SortDirection::Descending, 40);
        for pattern in ["", "7"] {
            query.pattern = Pattern::new(pattern);
            let [one, two] =
                [WalkThreads::One, WalkThreads::Two].map(|it| store.list_by(&query, it, || true));
            assert_eq!(
                (one.total, one.matched, keys(&one)),
                (two.total, two.matched, keys(&two)),
                "{sort:?}"
            );
            query.after = two.next;
        }
    }
}

#[test]
fn the_number_of_running_threads_is_read_from_the_kernel() {
    assert_eq!(Some(1), running("0.20 0.18 0.12 1/80 11206\n"));
    assert_eq!(None, running("0.20 0.18 0.12\n"));
    assert_eq!(None, running(""));
    assert!(is_one_idle(usize::MAX), "the system tells it");
    assert!(!is_one_idle(1), "this one runs");
}

#[test]
fn pages_stay_right_while_the_store_changes() {
    for sort in [ListingSort::Key, ListingSort::Size, ListingSort::Age, ListingSort::Expires] {
        let store = store(64 << 20);
        many(&store, 300);
        let mut round = 0;
        let all = all_pages(&store, query(sort, SortDirection::Descending, 7), || {
            // Others come and go, before and behind the page.
            round += 1;
            for n in [round, 600 - round] {
                put(&store, &format!("http://a/{n:05}-new"), n % 9, n as u64, n as u32, 200, "new");
            }
            let gone = format!("http://a/{:05}-new", round / 2);
            store.remove(store.hash(gone.as_bytes()), gone.as_bytes());
        });
        let mut stayed: Vec<&String> = all.iter().filter(|it| !it.ends_with("-new")).collect();
        stayed.sort();
        let expect: Vec<String> = (0..300).map(|n| format!("http://a/{n:05}")).collect();
        assert_eq!(expect.iter().collect::<Vec<_>>(), stayed, "{sort:?}");
    }
}

#[test]
fn a_purged_response_is_not_listed_before_it_is_swept() {
    let store = store(64 << 20);
    many(&store, 100);
    put(&store, "http://a/left", 1, 1, 60, 200, "left");
    store.purge(PurgeRule {
        scope: PurgeScope::Tag("all".into()),
        strength: Strength::Hard,
        positions: Vec::new(),
    });
    let listed = |sort| {
        let page = store.list(&query(sort, SortDirection::Ascending, 10));
        assert_eq!(1, page.matched);
        keys(&page)
    };
    assert_eq!(["http://a/left"][..], listed(ListingSort::Size));
    assert!(store.inspect(store.hash(b"http://a/00001")).is_none());
    assert!(store.inspect(store.hash(b"http://a/left")).is_some());
    while store.sweep(1) != Swept::Nothing {}
    assert_eq!(["http://a/left"][..], listed(ListingSort::Key));
}

#[test]
fn the_hit_count_stays_when_a_response_is_replaced() {
    let store = store(64 << 20);
    put(&store, "http://a/", 1, 1, 60, 200, "t");
    (0..5).for_each(|_| hit(&store, "http://a/"));
    put(&store, "http://a/", 2, 2, 60, 200, "t");
    let entry = store.inspect(store.hash(b"http://a/")).unwrap();
    assert_eq!((5, 2), (entry.hits(), entry.variants[0].body.len()));
}

#[test]
fn shards_stay_small() {
    let store = store(256 << 20);
    assert_eq!(256, store.shards.len());
    // So many of the smallest objects fit a shard's part of the budget.
    let sample = plain(text(""));
    let least = sample.heap_cost() + 256;
    assert!((1 << 20) / least < 4096, "{least} bytes each");
}

/// This thread's CPU time in nanoseconds, independent of other load.
fn own_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_listing_is_quick_and_hits_go_on_meanwhile() {
    let store = store(256 << 20);
    many(&store, 20_000);
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                hit(&store, "http://a/00007");
                hits.fetch_add(1, Relaxed);
                // Writers as well, for whom a hit might have to wait.
                put(&store, "http://a/00008", 1, 1, 60, 200, "all");
            }
        });
        let began = precise_micros();
        let mut quickest = [u64::MAX; 5];
        while hits.load(Relaxed) < 2000 || quickest.contains(&u64::MAX) {
            let sorts = [
                ListingSort::Key,
                ListingSort::Size,
                ListingSort::Age,
                ListingSort::Hits,
                ListingSort::Expires,
            ];
            for (sort, quickest) in sorts.into_iter().zip(&mut quickest) {
                let start = own_time();
                let pattern = Pattern::new("77");
                assert_eq!(20_000, store.list(&query(sort, SortDirection::Descending, 100)).matched);
                let page =
                    store.list(&ListingQuery { pattern, ..query(sort, SortDirection::Ascending, 100) });
                assert_eq!(keys(&page).len(), 100);
                *quickest = (*quickest).min(own_time() - start);
            }
            assert!(precise_micros() - began < 60_000_000, "{} hits", hits.load(Relaxed));
        }
        stop.store(true, Relaxed);
        // Two listings of a fiftieth of a million, unoptimised.
        assert!(quickest.iter().all(|it| *it < 500_000_000), "{quickest:?} ns");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_the_whole_in_order(
        sizes in proptest::collection::vec((0_usize..20, 0_u64..20, 0_u32..20), 1..80),
        by in 0_usize..4,
        limit in 1_usize..30,
        up: bool,
    ) {
        let store = store(64 << 20);
        for (n, (size, epoch, lifetime)) in sizes.iter().enumerate() {
            put(&store, &format!("http://a/{n}"), *size, *epoch, *lifetime, 200, "t");
        }
        let sort = [ListingSort::Key, ListingSort::Size, ListingSort::Age, ListingSort::Expires][by];
        let order = if up { SortDirection::Ascending } else { SortDirection::Descending };
        let mut expect: Vec<(u64, String, u128, String)> = (0..sizes.len()).map(|n| {
            let (size, epoch, lifetime) = sizes[n];
            let key = format!("http://a/{n}");
            let hash = store.hash(key.as_bytes()).0;
            match sort {
                ListingSort::Key => (0, key.clone(), 0, key),
                ListingSort::Size => (size as u64, String::new(), hash, key),
                ListingSort::Age => (u64::MAX - epoch, String::new(), hash, key),
                _ => (epoch + u64::from(lifetime), String::new(), hash, key),
            }
        }).collect();
        expect.sort();
        if !up {
            expect.reverse();
        }
        let expect: Vec<String> = expect.into_iter().map(|it| it.3).collect();
        prop_assert_eq!(expect, all_pages(&store, query(sort, order, limit), || {}));
    }
}

#[test]
fn a_tag_of_every_tag_is_found() {
    let store = store(64 << 20);
    put(&store, "http://a/", 1, 1, 60, 200, "t");
    let purge_facts = PurgeFacts { tags: [tags::EVERY].into(), epoch: PurgeEpoch::default() };
    let stored = stored(text("x")).with_purge_facts(purge_facts);
    store.insert(store.hash(b"http://a/2"), b"http://a/2", crate::ram::StoredArc::new(stored), 4).unwrap();
    let page = store.list(&ListingQuery {
        tag: Some("x".into()),
        ..query(ListingSort::Key, SortDirection::Ascending, 9)
    });
    assert_eq!(["http://a/2"][..], keys(&page));
}
