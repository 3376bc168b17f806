//! Building stored responses: from what arrived, or by joining two stored parts. `storability` decides before whether a
//! response may be stored.

use crate::coding;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::partial::{self, Combine};
use larder_semantics::policy::TagPolicy;
use larder_semantics::stored::Meta;
use larder_semantics::tags;
use larder_store::{PurgeFacts, Store, Stored, StoredBody};

/// Makes a stored response. Its head is written once, here, without the fields hidden from clients; [`Store::keep`]
/// prepares it for both protocols.
pub(crate) fn assemble(
    meta: Meta,
    mut fields: FieldList,
    trailers: Option<FieldList>,
    body: StoredBody,
    variant: Box<[u8]>,
    purge_facts: PurgeFacts,
    policy: &TagPolicy,
) -> Stored {
    fields.remove("content-length");
    let head = coding::head_of(meta.status, &fields, body.len(), |it| tags::is_hidden(it, policy));
    Stored::new(meta, head, fields, body).with(variant, trailers, purge_facts)
}

/// Joins two parts of one representation; `None` where they do not fit together.
pub(crate) fn join(store: &Store, old: &Stored, new: &Stored, policy: &TagPolicy) -> Option<Stored> {
    let Combine::Into { part, whole } = partial::combine(&old.meta, &new.meta) else {
        return None;
    };
    let (a, b) = (old.meta.partial()?, new.meta.partial()?);
    let (old_bytes, new_bytes) = (contents(&old.body)?, contents(&new.body)?);
    // The newer bytes win where the parts overlap; both have the same strong validator, so they are equal.
    let mut chunks = Vec::with_capacity(3);
    if a.first < b.first {
        let until = usize::try_from(b.first - a.first).ok()?.min(old_bytes.len());
        chunks.push(old_bytes.slice(..until));
    }
    chunks.push(new_bytes);
    if a.last > b.last {
        let from = usize::try_from(b.last + 1 - a.first).ok()?;
        chunks.push(old_bytes.slice(from.min(old_bytes.len())..));
    }
    let body = store.make_body(&chunks).ok()?;
    if body.len() != part.last + 1 - part.first {
        return None;
    }
    let mut meta = new.meta.clone();
    let mut fields = new.fields();
    if whole {
        meta.set_partial(None);
        meta.status = 200;
        fields.remove("content-range");
    } else {
        meta.set_partial(Some(part));
        let complete = part.complete.map_or_else(|| "*".to_owned(), |it| it.to_string());
        fields.set("Content-Range", format!("bytes {}-{}/{complete}", part.first, part.last));
    }
    // The age is the older part's.
    let purge_facts = PurgeFacts { tags: new.tags().into(), epoch: old.epoch() };
    Some(assemble(meta, fields, None, body, new.variant().into(), purge_facts, policy))
}

/// The bytes of a stored body, in RAM or on disk.
pub(crate) fn contents(body: &StoredBody) -> Option<Bytes> {
    match body {
        StoredBody::Heap(bytes) => Some(bytes.bytes()),
        StoredBody::Arena(slice) | StoredBody::Disk(slice) => {
            slice.owner.mapped(slice.offset, slice.length).map(Bytes::copy_from_slice)
        }
    }
}
