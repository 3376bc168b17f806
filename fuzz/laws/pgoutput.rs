//! Laws for any bytes as a message of PostgreSQL's logical replication. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::pgoutput::{OldTuple, ReplicatedChange, Tuple, TupleValue, read};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let Ok(change) = read(raw) else { return };
    if change != ReplicatedChange::Other {
        for end in (0..raw.len()).step_by(1 + raw.len() / 200) {
            assert!(read(&raw[..end]).is_err(), "a part of it, {end} bytes, is a message as well");
        }
    }
    match change {
        ReplicatedChange::Relation(it) => {
            let columns: usize = it.columns().map(|it| it.name.len() + 10).sum();
            assert!(columns <= raw.len(), "columns exceed the message");
            assert!(!it.name.contains('\0') && !it.schema.contains('\0'));
        }
        ReplicatedChange::Insert(_, new) => values(new, raw),
        ReplicatedChange::Update { old, new, .. } => {
            old.iter().for_each(|it| former(*it, raw));
            values(new, raw);
        }
        ReplicatedChange::Delete(_, old) => former(old, raw),
        ReplicatedChange::Truncate(tables) => assert!(tables.iter().count() * 4 < raw.len()),
        ReplicatedChange::Begin(_) | ReplicatedChange::Commit | ReplicatedChange::Other => {}
    }
}

fn former(old: OldTuple<'_>, raw: &[u8]) {
    match old {
        OldTuple::Key(it) | OldTuple::Whole(it) => values(it, raw),
    }
}

fn values(tuple: Tuple<'_>, raw: &[u8]) {
    let bytes = |it| match it {
        TupleValue::Text(text) => text.len() + 5,
        TupleValue::Null | TupleValue::Unchanged => 1,
    };
    let read: usize = tuple.values().map(bytes).sum();
    assert!(read < raw.len(), "values exceed the message");
}
