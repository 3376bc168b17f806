//! The envelope of a stored response: the one form of its head on disk, in the fleet, and in the stream of the RAM tier. `wire::envelope`
//! has the format; the places of the bytes are decided by the tiers.

use crate::entry::{Stored, StoredBody};
use crate::purges::{Position, Positions, PurgeEpoch, PurgeFacts, Seq};
use larder_wire::envelope::{BodyInfo, Envelope, EnvelopeHead};
use larder_wire::http1::write;
use larder_wire::ready_head::ReadyHead;

/// Appends the head of a response to a record, of the disk tier or of RAM's stream. Its body's checksum stays zero: the record has one.
pub(crate) fn write(key: &[u8], stored: &Stored, out: &mut Vec<u8>) {
    let body = BodyInfo { length: stored.body.len(), ..BodyInfo::default() };
    write_with(key, stored, stored.epoch, body, out);
}

/// Appends the head of a response to a record of the purge position `seq`, with its body in this form.
pub(crate) fn write_with(key: &[u8], stored: &Stored, seq: Seq, body: BodyInfo, out: &mut Vec<u8>) {
    let mut fields = Vec::new();
    stored.write_fields(&mut fields);
    let known: Vec<(u64, u64)> = stored.log().as_slice().iter().map(|it| (it.log, it.entry)).collect();
    let head = EnvelopeHead {
        key,
        variant: stored.variant(),
        meta: &stored.meta,
        fields: &fields,
        trailers: stored.trailers(),
        tags: stored.tags(),
        known: &known,
        seq,
        body,
    };
    head.write(out);
}

/// Reads the envelope head at the beginning of `bytes`, and returns the rest; `None` where there is none. With a correct
/// checksum that is only possible for a response larger than envelopes may be.
pub(crate) fn read(bytes: &[u8]) -> Option<(Envelope, &[u8])> {
    let (envelope, length) = Envelope::read(bytes).ok()?;
    // Parts are not written either: nothing would show that the body has their length.
    envelope.meta.partial().is_none().then_some((envelope, bytes.get(length..)?))
}

/// The response that an envelope describes, with its body. Its head is text only: it is probably sent once.
pub(crate) fn stored(envelope: Envelope, body: StoredBody) -> Stored {
    stored_with(envelope, body, ReadyHead::passing)
}

/// The same with a head that is made of this text.
pub(crate) fn stored_with(
    envelope: Envelope,
    body: StoredBody,
    ready: impl FnOnce(&[u8]) -> ReadyHead,
) -> Stored {
    let Envelope { variant, meta, fields, trailers, tags, known, seq, .. } = envelope;
    let mut head = Vec::with_capacity(fields.text().len() + 64);
    write::status_line(meta.status, &mut head);
    head.extend_from_slice(fields.text());
    if !matches!(meta.status, 204 | 304) {
        write::field("Content-Length", body.len().to_string().as_bytes(), &mut head);
    }
    let positions: Vec<Position> = known.iter().map(|it| Position { log: it.0, entry: it.1 }).collect();
    let epoch = PurgeEpoch { seq, log: Positions::new(&positions) };
    let purge_facts = PurgeFacts { tags, epoch };
    let head = ready(&head);
    let stored = if fields.iter().any(|it| it.is("content-length")) {
        Stored::new(meta, head, fields, body)
    } else {
        Stored::of_head(meta, head, body)
    };
    stored.with(variant, trailers, purge_facts)
}
