//! Unused leases, over a real memcached. A node that only looks, wants another variant or replaces another item leaves
//! the lease to a node that needs it. A server grants a released lease to the next reader.

mod fleet;

use bytes::Bytes;
use fleet::memcached::{Memcached, On};
use fleet::pages::{get_as, hit, page, put};
use fleet::{patient, run};
use larder_store::fleet::{Fleet, FleetResult, FleetSettings, LeaseState, Removed, Settled, Want};
use larder_store::{StoredArc, StoredBody};
use std::rc::Rc;

const URL: &str = "http://a/";

/// Four nodes of one server, of which the last takes no turns; where a record in two languages has expired, and who had the turn
/// to make the German one anew gave it back.
fn given_back(test: impl AsyncFn(&[Rc<Fleet>; 4])) {
    let server = Memcached::start(On::Unix, &[]);
    // One connection each: what was told and not waited for is done before what is asked next.
    let settings = FleetSettings { no_block: false, connections: 1, ..patient(vec![server.address()]) };
    run(async {
        let node = |recompute_once| fleet::fleet(FleetSettings { recompute_once, ..settings.clone() }).0;
        let nodes = [node(true), node(true), node(true), node(false)];
        for (language, body) in [("en", "Good day"), ("de", "Guten Tag")] {
            let turn = fetch(&nodes[0], language, Want::Recompute).await;
            assert_eq!(Settled::Stored, put(&nodes[0], URL, &expired(language, body)).await);
            drop(turn);
        }
        drop(ours(fetch(&nodes[0], "de", Want::Recompute).await));
        is_done(&nodes[0]).await;
        test(&nodes).await;
    });
}

/// A page whose lifetime was over ten seconds ago.
fn expired(language: &str, body: &'static str) -> StoredArc {
    let fields =
        [("Cache-Control", "max-age=60"), ("Age", "70"), ("ETag", "\"1\""), ("Vary", "Accept-Language")];
    page(
        &fields,
        &[("Accept-Language", language)],
        StoredBody::Heap(Bytes::from_static(body.as_bytes()).into()),
    )
}

async fn fetch(node: &Rc<Fleet>, language: &str, want: Want) -> FleetResult {
    get_as(node, URL, &[("Accept-Language", language)], want).await
}

#[track_caller]
fn ours(got: FleetResult) -> larder_store::fleet::RecomputeLease {
    match got {
        FleetResult::Hit { lease: LeaseState::Acquired(win), .. } => win,
        other => panic!("{other:?}"),
    }
}

/// Comes behind what was told and not waited for.
async fn is_done(node: &Rc<Fleet>) {
    assert_eq!(Removed::Everywhere, node.remove(b"http://other/").await);
}

#[test]
fn a_reader_leaves_the_lease_to_other_nodes() {
    given_back(async |[_, b, c, _]| {
        for _ in 0..2 {
            let got = fetch(b, "de", Want::ReadOnly).await;
            assert!(matches!(got, FleetResult::Hit { lease: LeaseState::NotNeeded, .. }), "{got:?}");
            assert_eq!(b"Guten Tag"[..], hit(got).body);
        }
        is_done(b).await;
        ours(fetch(c, "de", Want::Recompute).await);
    });
}

#[test]
fn a_request_for_another_variant_leaves_the_lease_to_other_nodes() {
    given_back(async |[_, b, c, _]| {
        // The newest is in German; its turn is not for who comes by it to the English one.
        for want in [Want::ReadOnly, Want::Recompute] {
            assert_eq!(b"Good day"[..], hit(fetch(b, "en", want).await).body);
        }
        assert!(matches!(
            fetch(b, "fr", Want::Recompute).await,
            FleetResult::Miss { lease: LeaseState::Acquired(_), .. }
        ));
        is_done(b).await;
        ours(fetch(c, "de", Want::Recompute).await);
    });
}

#[test]
fn a_node_with_an_outdated_page_leaves_the_lease_to_other_nodes() {
    given_back(async |[a, b, c, _]| {
        // B asked before A gave the turn back, and what it brings is not written over what stands there since.
        let seen = fetch(b, "de", Want::Recompute).await;
        drop(ours(seen));
        is_done(b).await;
        drop(ours(fetch(a, "de", Want::Recompute).await));
        is_done(a).await;
        put(b, URL, &expired("de", "late")).await;
        is_done(b).await;
        ours(fetch(c, "de", Want::Recompute).await);
    });
}

/// `cache.fleet.recompute_once` may be another on each node.
#[test]
fn a_node_without_leases_overwrites_a_released_page() {
    given_back(async |[_, _, c, d]| {
        assert_eq!(b"Guten Tag"[..], hit(fetch(d, "de", Want::Recompute).await).body);
        is_done(d).await;
        assert_eq!(Settled::Stored, put(d, URL, &expired("de", "new")).await);
        assert_eq!(b"new"[..], hit(fetch(c, "de", Want::ReadOnly).await).body);
    });
}
