//! Many requests that wait for a slow fetch, or for one whose response arrives stale.

use super::*;

fn begin_extra(store: &Store, key: &[u8], waits: &FillReader) -> Begin {
    let hash = store.hash(key);
    store.begin_extra(hash, hash, key, waits)
}

fn spent(spent: SpentLifetime) -> FillHead {
    FillHead::Shared(Arc::new(SharedHead { spent, ..head() }))
}

#[test]
fn a_waiting_request_whose_wait_is_over_begins_another_fill() {
    let store = store(1 << 20);
    let (first, _leader) = lead(&store, b"k");
    let (one, other) = (follow(&store, b"k"), follow(&store, b"k"));
    let Begin::Lead(second, _) = begin_extra(&store, b"k", &one) else { panic!("nobody had") };
    let Begin::Follow(reader) = begin_extra(&store, b"k", &other) else { panic!("one has") };
    assert!(reader.reads(&second.fill) && follow(&store, b"k").reads(&second.fill));
    assert_eq!(2, store.in_flight.len());
    // A removal reaches both.
    store.remove(store.hash(b"k"), b"k");
    assert!(first.was_removed() && second.was_removed());
    assert_eq!(0, store.in_flight.len());
}

#[test]
fn an_expired_response_is_only_for_requests_that_waited() {
    for (how, stores) in [(SpentLifetime::Stored, true), (SpentLifetime::Passing, false)] {
        let store = store(1 << 20);
        let (mut writer, mut leader) = lead(&store, b"k");
        let mut waiting = follow(&store, b"k");
        writer.head(spent(how), true);
        push(&mut writer, b"all");
        assert!(waiting.has_waited());
        let (next, _) = lead(&store, b"k"); // Whoever comes now joins it no more.
        assert_eq!(stores, writer.may_store());
        assert_eq!(b"all"[..], drain(&mut waiting).0[..]);
        assert_eq!(b"all"[..], drain(&mut leader).0[..]);
        store.remove(store.hash(b"k"), b"k");
        assert!(writer.was_removed() && next.was_removed(), "a removal reaches it all the same");
    }
}

#[test]
fn a_request_that_joins_after_the_head_has_not_waited() {
    let store = store(1 << 20);
    let (mut writer, _leader) = lead(&store, b"k");
    writer.head(shared(), true);
    assert!(!follow(&store, b"k").has_waited());
}

#[test]
fn a_private_fill_leaves_the_fills_in_flight_unchanged() {
    let store = store(1 << 20);
    let hash = store.hash(b"k");
    let (mut writer, reader) = store.begin_private(hash, b"k", store.removals(hash));
    writer.head(spent(SpentLifetime::Stored), true);
    writer.finish(FillEnd::Complete(None));
    drop(reader);
    assert_eq!(0, store.in_flight.len());
    let (_writer, _reader) = lead(&store, b"k"); // The number of those that may be shared is what it was.
}
