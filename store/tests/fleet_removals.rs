//! Removals during writes, over a real memcached: a removal by one node is not undone by a response that another
//! requested before, in any protocol, with leases or without.

mod fleet;

use fleet::memcached::{Memcached, On};
use fleet::pages::{assert_miss, get, get_as, hit, page, put, text};
use fleet::{key, patient, run};
use larder_semantics::policy::Policy;
use larder_store::fleet::{
    Fleet, FleetQuery, FleetResult, FleetSettings, LeaseState, MemcachedProtocol, Removed, Settled, Want,
};
use larder_store::{FleetCopy, StoredBody};
use std::rc::Rc;
use std::time::Duration;

const URL: &str = "http://a/";
const WITHIN: Duration = Duration::from_secs(60);

/// Three nodes of one server, in every way in which nodes may share.
fn each(test: impl AsyncFn(&[Rc<Fleet>; 3])) {
    for (protocol, recompute_once) in
        [(MemcachedProtocol::Meta, true), (MemcachedProtocol::Meta, false), (MemcachedProtocol::Binary, true)]
    {
        nodes(|it| (it.protocol, it.recompute_once) = (protocol, recompute_once), &test);
    }
}

fn nodes(change: impl Fn(&mut FleetSettings), test: impl AsyncFn(&[Rc<Fleet>; 3])) {
    let server = Memcached::start(On::Unix, &[]);
    // One connection each: what was told and not waited for is done before what is asked next.
    let mut settings = FleetSettings { no_block: false, connections: 1, ..patient(vec![server.address()]) };
    change(&mut settings);
    run(async {
        let node = || fleet::fleet(settings.clone()).0;
        test(&[node(), node(), node()]).await;
    });
}

async fn fetch(node: &Rc<Fleet>) -> FleetResult {
    get_as(node, URL, &[], Want::Recompute).await
}

#[test]
fn a_page_in_flight_is_not_written_after_its_removal() {
    each(async |[a, b, c]| {
        // B finds nothing and asks the origin; A removes the page meanwhile.
        let turn = fetch(b).await;
        assert_eq!(Removed::Everywhere, a.remove(URL.as_bytes()).await);
        let old = text("old");
        assert_eq!(Settled::NotStored, put(b, URL, &old).await);
        drop(turn);
        for node in [a, b, c] {
            assert_miss(get(node, URL).await);
        }
        assert_eq!(FleetCopy::Yes, old.is_shared(), "what is in B's memory is asked about");
        assert!(old.is_due(larder_stdx::clock::wall().0 + 60, 60));
        // Who asks from now on writes, and what was on its way before is not written over that either.
        let turn = fetch(c).await;
        assert_eq!(Settled::Stored, put(c, URL, &text("new")).await);
        drop(turn);
        assert_eq!(b"new"[..], hit(get(a, URL).await).body);
    });
}

#[test]
fn an_older_response_does_not_replace_one_requested_after_the_removal() {
    each(async |[a, b, c]| {
        let before = fetch(b).await;
        assert_eq!(Removed::Everywhere, a.remove(URL.as_bytes()).await);
        let after = fetch(c).await;
        assert_eq!(Settled::Stored, put(c, URL, &text("new")).await);
        assert_eq!(Settled::NotStored, put(b, URL, &text("old")).await);
        drop((before, after));
        assert_eq!(b"new"[..], hit(get(a, URL).await).body);
    });
}

#[test]
fn a_node_without_the_lease_does_not_overwrite_a_removal() {
    nodes(
        |_| {},
        async |[a, b, c]| {
            let ours = fetch(a).await;
            assert!(matches!(ours, FleetResult::Miss { lease: LeaseState::Acquired(_), .. }));
            // B waits in vain, and asks the origin itself.
            assert!(matches!(fetch(b).await, FleetResult::Miss { lease: LeaseState::HeldElsewhere(_), .. }));
            assert_eq!(Removed::Everywhere, c.remove(URL.as_bytes()).await);
            assert_eq!(Settled::NotStored, put(b, URL, &text("old")).await);
            assert_miss(get(c, URL).await);
            drop(ours);
        },
    );
}

#[test]
fn a_node_without_the_lease_may_write_first() {
    nodes(
        |_| {},
        async |[a, b, c]| {
            let ours = fetch(a).await;
            assert!(matches!(fetch(b).await, FleetResult::Miss { lease: LeaseState::HeldElsewhere(_), .. }));
            assert_eq!(Settled::Stored, put(b, URL, &text("b's")).await);
            assert_eq!(Settled::NotStored, put(a, URL, &text("a's")).await);
            drop(ours);
            assert_eq!(b"b's"[..], hit(get(c, URL).await).body);
        },
    );
}

#[test]
fn of_two_pages_with_different_tags_from_the_same_second_the_fleet_keeps_neither() {
    nodes(
        |_| {},
        async |[a, b, c]| {
            let tagged = |tag, body: &'static str| {
                let body = StoredBody::Heap(bytes::Bytes::from(body).into());
                page(&[("Cache-Control", "max-age=600"), ("ETag", tag)], &[], body)
            };
            let lease = fetch(a).await;
            assert_eq!(Settled::Stored, put(b, URL, &tagged("\"1\"", "one")).await);
            assert_eq!(Settled::NotStored, put(a, URL, &tagged("\"1\"", "one")).await);
            drop(lease);
            assert_eq!(b"one"[..], hit(get(c, URL).await).body, "the same tag is the same page");
            let two = tagged("\"2\"", "two");
            assert_eq!(Settled::NotStored, put(c, URL, &two).await);
            for node in [a, b, c] {
                assert_miss(get(node, URL).await);
            }
            assert_eq!(FleetCopy::Yes, two.is_shared(), "its absence in the fleet is a removal");
        },
    );
}

#[test]
fn a_node_without_a_lookup_overwrites_a_page_but_no_removal() {
    each(async |[a, b, c]| {
        assert_eq!(Settled::Stored, put(a, URL, &text("first")).await);
        assert_eq!(Settled::Stored, put(b, URL, &text("second")).await);
        assert_eq!(b"second"[..], hit(get(c, URL).await).body);
        assert_eq!(Removed::Everywhere, a.remove(URL.as_bytes()).await);
        assert_eq!(Settled::NotStored, put(b, URL, &text("third")).await);
        assert_miss(get(c, URL).await);
    });
}

#[test]
fn of_the_variants_none_is_brought_back() {
    each(async |[a, b, c]| {
        let german = [("accept-language", "de")];
        let fields = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")];
        let stored = page(&fields, &german, StoredBody::Heap("Guten Tag".into()));
        let turn = get_as(b, URL, &german, Want::Recompute).await;
        assert_eq!(Removed::Everywhere, a.remove(URL.as_bytes()).await);
        assert_eq!(Settled::NotStored, put(b, URL, &stored).await);
        drop(turn);
        assert_miss(get_as(c, URL, &german, Want::ReadOnly).await);
        let turn = get_as(c, URL, &german, Want::Recompute).await;
        assert_eq!(Settled::Stored, put(c, URL, &stored).await);
        drop(turn);
        assert_eq!(b"Guten Tag"[..], hit(get_as(a, URL, &german, Want::ReadOnly).await).body);
    });
}

#[test]
fn after_a_removal_one_node_has_the_turn() {
    nodes(
        |_| {},
        async |all| {
            assert_eq!(Removed::Everywhere, all[0].remove(URL.as_bytes()).await);
            for _ in 0..2 {
                let mut turns = Vec::new();
                for node in all {
                    turns.push(fetch(node).await);
                }
                let ours = |it: &&FleetResult| {
                    matches!(it, FleetResult::Miss { lease: LeaseState::Acquired(_), .. })
                };
                let theirs = |it: &&FleetResult| {
                    matches!(it, FleetResult::Miss { lease: LeaseState::HeldElsewhere(_), .. })
                };
                assert_eq!((1, 2), (turns.iter().filter(ours).count(), turns.iter().filter(theirs).count()));
                // Given back, the next has it; and what was removed stays so.
                drop(turns);
                // Behind what was told and not waited for.
                assert_eq!(Removed::Everywhere, all[0].remove(b"http://other/").await);
                assert_miss(get(&all[2], URL).await);
                assert_eq!(Removed::Everywhere, all[2].remove(b"http://other/").await);
            }
        },
    );
}

#[test]
fn a_page_of_an_application_is_removed_completely() {
    nodes(
        |it| it.filled_by = larder_store::fleet::FilledBy::Applications,
        async |[a, b, _]| {
            let server = b.server(0);
            server.set(&key(URL), b"whatever", 0, WITHIN).await.unwrap();
            assert_eq!(Removed::Everywhere, a.remove(URL.as_bytes()).await);
            assert_eq!(vec![None], server.get_many(&[key(URL)], WITHIN).await.unwrap());
        },
    );
}

/// What another node writes between the two looks of one that found the old page.
#[test]
fn a_page_written_between_two_lookups_is_kept() {
    nodes(
        |it| it.stale_grace = Duration::from_secs(3),
        async |[a, b, c]| {
            let hour = || page(&[("Cache-Control", "max-age=3600")], &[], StoredBody::Heap("page".into()));
            assert_eq!(Settled::Stored, put(a, URL, &hour()).await);
            // The first look finds it purged; before the second the new one is there, and is not.
            let looks = std::cell::Cell::new(0);
            let is_purged = |_: &_, _| looks.replace(looks.get() + 1) == 0;
            let policy = Policy::default();
            let want = Want::Recompute;
            let query = FleetQuery {
                key: URL.as_bytes(),
                request: &[],
                policy: &policy,
                want,
                held: None,
                is_purged: &is_purged,
            };
            let got = b.get(query).await;
            assert!(matches!(got, FleetResult::Hit { lease: LeaseState::NotNeeded, .. }), "{got:?}");
            drop(got);
            // Behind what was told and not waited for.
            assert_eq!(Removed::Everywhere, b.remove(b"http://other/").await);
            let got = get_as(c, URL, &[], Want::Recompute).await;
            assert!(
                matches!(got, FleetResult::Hit { lease: LeaseState::NotNeeded, .. }),
                "it is not stale: {got:?}"
            );
        },
    );
}
