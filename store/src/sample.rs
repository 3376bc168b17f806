//! Stored responses for the tests of this crate.

use crate::purges::Marks;
use crate::ram::{Body, Settings, Store, Stored};
use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::Meta;
use larder_semantics::vary;
use larder_stdx::clock::WallTime;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(crate) fn store(budget: u64) -> Arc<Store> {
    let settings = Settings { budget, heap_line: 16 * 1024, fills: 1000 };
    Store::new(settings, Arc::new(Counters::default())).unwrap()
}

pub(crate) fn meta(vary: &[&str]) -> Meta {
    Meta {
        status: 200,
        request_time: WallTime(1000),
        response_time: WallTime(1000),
        date: WallTime(1000),
        initial_age: 0,
        lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
        must_revalidate: false,
        no_cache: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: None,
        last_modified: None,
        vary: vary.iter().map(|it| (*it).into()).collect(),
        partial: None,
    }
}

/// A response that does not vary.
pub(crate) fn plain(body: Body) -> Arc<Stored> {
    varied(&[], &[], body)
}

/// A response whose `Vary` names `names`, to a request with `request`.
pub(crate) fn varied(names: &[&str], request: &[Field<'_>], body: Body) -> Arc<Stored> {
    let mut variant = Vec::new();
    let meta = meta(names);
    vary::write_key(&meta.vary, request, &mut variant);
    Arc::new(Stored {
        meta,
        head: b"HTTP/1.1 200 OK\r\n"[..].into(),
        fields: FieldList::from_fields(&[Field { name: "ETag", value: b"\"a\"" }]),
        trailers: None,
        body,
        variant: variant.into(),
        marks: Marks::default(),
        recheck: AtomicU64::new(u64::MAX),
        on_disk: Default::default(),
        forms: None,
    })
}

pub(crate) fn text(body: &str) -> Body {
    Body::Heap(Bytes::copy_from_slice(body.as_bytes()))
}

/// The body's bytes, wherever they are.
pub(crate) fn read(body: &Body) -> Vec<u8> {
    match body {
        Body::Heap(bytes) => bytes.to_vec(),
        Body::Arena(it) | Body::Disk(it) => it.owner.mapped(it.offset, it.length).unwrap().to_vec(),
    }
}
