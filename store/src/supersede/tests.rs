//! The effect of another answer on the stored response, and on fetches in flight.

use super::*;
use crate::entry::StoredArc;
use crate::fill::Begin;
use crate::ram::{Exchanged, Lookup, NotStored};
use crate::sample::{plain, read, store, text, varied};

const KEY: &[u8] = b"http://h/";

fn language(value: &str) -> [Field<'_>; 1] {
    [Field { name: "Accept-Language", value: value.as_bytes() }]
}

fn exchanged(body: &str, asked: u64, answered: u64) -> StoredArc {
    let stored = crate::sample::owned(plain(text(body)));
    StoredArc::new(Stored { exchanged: Exchanged { request_sent: asked, head_received: answered }, ..stored })
}

fn found(store: &Store, request: &[Field<'_>]) -> Option<Vec<u8>> {
    let Lookup::Entry(entry) = store.lookup(store.hash(KEY), KEY, 0) else { return None };
    entry.select(request, &mut Vec::new()).map(|it| read(&it.body))
}

#[test]
fn the_selected_variant_is_removed_and_other_variants_stay() {
    let store = store(8 << 20);
    let hash = store.hash(KEY);
    for it in ["de", "fr"] {
        store.insert(hash, KEY, varied(&["accept-language"], &language(it), text(it)), 8).unwrap();
    }
    let used = store.used();
    assert!(store.supersede(hash, KEY, &language("de")));
    assert_eq!(
        (None, Some(b"fr".to_vec())),
        (found(&store, &language("de")), found(&store, &language("fr")))
    );
    assert!(store.used() < used, "its room is given back");
    assert!(!store.supersede(hash, KEY, &language("it")), "there is none");
    assert!(store.supersede(hash, KEY, &language("fr")));
    assert_eq!((None, 0), (found(&store, &language("fr")), store.objects()));
}

#[test]
fn a_response_in_flight_is_not_stored_after_a_superseding_one() {
    let store = store(8 << 20);
    let hash = store.hash(KEY);
    let Begin::Lead(writer, _reader) = store.begin(hash, hash, KEY) else { panic!("nobody fetches it") };
    let since = store.removals(hash);
    store.supersede(hash, KEY, &[]);
    assert_eq!(Err(NotStored::Removed), writer.admit(plain(text("old")), 8));
    assert!(store.begin_private(hash, KEY, since).0.was_removed());
    let Begin::Lead(writer, _reader) = store.begin(hash, hash, KEY) else {
        panic!("the first is left alone")
    };
    assert_eq!(Ok(()), writer.admit(plain(text("new")), 8));
}

#[test]
fn room_for_another_that_ram_cannot_hold_leaves_fills_alone() {
    let store = store(8 << 20);
    let hash = store.hash(KEY);
    store.insert(hash, KEY, plain(text("old")), 8).unwrap();
    let Begin::Lead(writer, _reader) = store.begin(hash, hash, KEY) else { panic!("nobody fetches it") };
    assert!(store.drop_selected(hash, KEY, &[]) && found(&store, &[]).is_none());
    assert!(!writer.was_removed());
}

#[test]
fn of_two_that_overlap_neither_is_kept_unless_they_are_one() {
    let store = store(8 << 20);
    let hash = store.hash(KEY);
    let insert = |it| store.insert_unless(hash, KEY, it, 8, || false);
    assert_eq!(Ok(()), insert(exchanged("a", 10, 20)));
    assert_eq!(Ok(()), insert(exchanged("b", 21, 30)), "it was asked for after the first had come");
    assert_eq!(Ok(()), insert(exchanged("b", 25, 40)), "the same once more");
    assert_eq!(Some(b"b".to_vec()), found(&store, &[]));
    // Asked for before "b" came, and come after: the origin may have made either later.
    assert_eq!(Err(NotStored::Overtaken), insert(exchanged("c", 39, 50)));
    assert_eq!(None, found(&store, &[]));
    assert_eq!(Ok(()), insert(exchanged("d", 51, 60)));
    // Of what came from a tier below nothing is known.
    assert_eq!(Ok(()), insert(exchanged("e", 0, 0)));
}
