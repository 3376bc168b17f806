//! Fills as a gateway does them, for the tests that measure what memory they take.

use super::Random;
use bytes::{Bytes, BytesMut};
use larder_semantics::field::FieldList;
use larder_semantics::stored::Meta;
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::{Begin, FillEnd, FillHead, PurgeFacts, Store, Stored, sample};
use larder_wire::ready_head::ReadyHead;
use std::sync::Arc;

/// `mi_option_purge_delay` of mimalloc 2.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Has freed pages go back at once, as in the binary: see docs/decisions/0020-resident-memory.md.
pub fn without_purge_delay() {
    // SAFETY: sets a number that the allocator reads when it frees pages.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
}

/// A key that is another one most of the time.
pub fn some_key(random: &mut Random) -> String {
    format!("http://www.example.com/page/{:x}/index.html", random.below(1 << 40))
}

fn meta() -> Meta {
    Meta { etag: Some(b"\"0123456789abcdef\""[..].into()), ..sample::meta(&[]) }
}

fn fields() -> FieldList {
    let mut fields = FieldList::new();
    fields.push("Date", "Mon, 01 Jan 2024 00:00:00 GMT");
    fields.push("Content-Type", "text/html; charset=utf-8");
    fields.push("Cache-Control", "max-age=60");
    fields.push("ETag", "\"0123456789abcdef\"");
    fields.shrink();
    fields
}

/// One fill from head to store, its bytes sliced out of a large read buffer as an origin's are.
pub async fn fill(store: &Store, key: &[u8], length: usize) {
    let hash = store.hash(key);
    let Begin::Lead(mut writer, mut reader) = store.begin(hash, hash, key) else { panic!("alone here") };
    let head = SharedHead {
        status: 200,
        fields: fields(),
        length: Some(length as u64),
        vary: Vec::new(),
        variant: Box::default(),
        purge_facts: PurgeFacts::default(),
        meta: meta(),
        spent: SpentLifetime::No,
    };
    writer.head(FillHead::Shared(Arc::new(head)), true);
    let (mut left, mut buffer) = (length, BytesMut::new());
    while left > 0 {
        if buffer.capacity() == 0 {
            buffer.reserve(64 * 1024);
        }
        let take = left.min(buffer.capacity()).min(16 * 1024);
        buffer.resize(take, 7);
        writer.push(buffer.split().freeze(), u64::MAX).await.unwrap();
        reader.next().await.unwrap();
        left -= take;
    }
    if writer.may_store() {
        let body = store.make_body(&writer.chunks()).unwrap();
        let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\n");
        let head = ReadyHead::passing(&[&head[..], fields().text()].concat());
        writer.insert(store.ram_form(Stored::new(meta(), head, fields(), body)), 4).unwrap();
    }
    writer.finish(FillEnd::Complete(None));
}
