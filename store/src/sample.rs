//! Stored responses for the tests and benchmarks of this crate, including external ones: [`stored`] makes one, and fields
//! are then changed.

use crate::purges::PurgeFacts;
use crate::ram::{RamSettings, Store, Stored, StoredArc, StoredBody};
use larder_counters::Counters;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::{Meta, Uncommon};
use larder_semantics::{tags, vary};
use larder_stdx::clock::WallTime;
use larder_wire::ready_head::ReadyHead;
use std::sync::Arc;

/// A store of `budget` bytes.
///
/// # Panics
/// No memfd could be created.
#[must_use]
pub fn store(budget: u64) -> Arc<Store> {
    let settings = RamSettings { budget, heap_line: 16 * 1024, fills: 1000 };
    Store::new(settings, Arc::new(Counters::default())).unwrap()
}

/// The facts of a response that is fresh for a minute from second 1000 on.
#[must_use]
pub fn meta(vary: &[&str]) -> Meta {
    Meta {
        status: 200,
        request_time: WallTime(1000),
        response_time: WallTime(1000),
        date: WallTime(1000),
        initial_age: 0,
        lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
        must_revalidate: false,
        no_cache: false,
        implicit: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: None,
        last_modified: None.into(),
        uncommon: Uncommon::new(vary.iter().map(|it| (*it).into()).collect(), None),
    }
}

/// A response that does not vary.
#[must_use]
pub fn stored(body: StoredBody) -> Stored {
    let fields = FieldList::from_fields(&[Field { name: "ETag", value: b"\"a\"" }]);
    Stored::new(meta(&[]), ReadyHead::new(b"HTTP/1.1 200 OK\r\n"), fields, body)
}

/// A shared response that does not vary.
#[must_use]
pub fn plain(body: StoredBody) -> StoredArc {
    StoredArc::new(stored(body))
}

/// The response in an unshared pointer.
///
/// # Panics
/// It is shared.
#[must_use]
pub fn owned(stored: StoredArc) -> Stored {
    StoredArc::try_unwrap(stored).ok().unwrap()
}

/// The purge facts of a response with one tag.
#[must_use]
pub fn tagged(tag: &str) -> PurgeFacts {
    PurgeFacts { tags: [tags::hash(tag)].into(), ..PurgeFacts::default() }
}

/// A response whose `Vary` names `names`, to the request `request`.
#[must_use]
pub fn varied(names: &[&str], request: &[Field<'_>], body: StoredBody) -> StoredArc {
    let mut variant = Vec::new();
    let meta = meta(names);
    vary::write_key(meta.vary(), request, &mut variant);
    StoredArc::new(Stored { meta, ..stored(body) }.with(variant.into(), None, PurgeFacts::default()))
}

/// A body on the heap.
#[must_use]
pub fn text(body: &str) -> StoredBody {
    StoredBody::on_the_heap(&[body.as_bytes()])
}

/// The body's bytes, in any place.
///
/// # Panics
/// Nothing is mapped there.
#[must_use]
pub fn read(body: &StoredBody) -> Vec<u8> {
    match body {
        StoredBody::Heap(bytes) => bytes.to_vec(),
        StoredBody::Arena(it) | StoredBody::Disk(it) => {
            it.owner.mapped(it.offset, it.length).unwrap().to_vec()
        }
    }
}
