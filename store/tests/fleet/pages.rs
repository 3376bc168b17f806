//! Pages for tests: stored responses, written by one node and read by another.

use bytes::Bytes;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::Policy;
use larder_semantics::stored::{Meta, stored_fields};
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::fleet::{Fleet, FleetQuery, FleetResponse, FleetResult, LeaseState, Settled, Want};
use larder_store::{PurgeEpoch, PurgeFacts, Stored, StoredArc, StoredBody};
use larder_wire::ready_head::ReadyHead;
use std::rc::Rc;

/// An origin's answer in its stored form.
pub fn page(fields: &[(&str, &str)], request: &[(&str, &str)], body: StoredBody) -> StoredArc {
    let fields: Vec<Field> = fields.iter().map(|it| Field { name: it.0, value: it.1.as_bytes() }).collect();
    let now = clock::wall();
    let policy = Policy::default();
    let meta = Meta::of(200, &fields, &policy, now, now);
    let mut variant = Vec::new();
    vary::write_key(meta.vary(), &as_fields(request), &mut variant);
    let head = ReadyHead::new(b"HTTP/1.1 200 OK\r\n");
    let trailers = FieldList::from_fields(&[Field { name: "X-Sum", value: b"1" }]);
    let purge_facts = PurgeFacts { tags: Box::from([3, 5]), epoch: PurgeEpoch::default() };
    let stored = Stored::new(meta, head, stored_fields(&fields, &policy, now), body);
    StoredArc::new(stored.with(variant.into(), Some(trailers), purge_facts))
}

pub fn as_fields<'a>(fields: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    fields.iter().map(|it| Field { name: it.0, value: it.1.as_bytes() }).collect()
}

/// A page of a text that is fresh for ten minutes.
pub fn text(body: &str) -> StoredArc {
    page(
        &[("Cache-Control", "max-age=600")],
        &[],
        StoredBody::Heap(Bytes::copy_from_slice(body.as_bytes()).into()),
    )
}

pub async fn get(fleet: &Rc<Fleet>, key: &str) -> FleetResult {
    get_as(fleet, key, &[], Want::ReadOnly).await
}

pub async fn get_as(fleet: &Rc<Fleet>, key: &str, request: &[(&str, &str)], want: Want) -> FleetResult {
    let policy = Policy::default();
    let request = as_fields(request);
    fleet
        .get(FleetQuery {
            key: key.as_bytes(),
            request: &request,
            policy: &policy,
            want,
            held: None,
            is_purged: &|_, _| false,
        })
        .await
}

pub async fn put(fleet: &Rc<Fleet>, key: &str, stored: &StoredArc) -> Settled {
    fleet.put(key.as_bytes(), stored).wait().await
}

#[track_caller]
pub fn hit(got: FleetResult) -> Box<FleetResponse> {
    match got {
        FleetResult::Hit { found, .. } => found,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn assert_miss(got: FleetResult) {
    assert!(matches!(got, FleetResult::Miss { lease: LeaseState::NotNeeded, .. }), "{got:?}");
}

/// Bytes that do not repeat soon and cannot be compressed.
pub fn noise(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}
