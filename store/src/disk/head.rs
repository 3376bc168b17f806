//! Conversion between a stored response and the envelope head of its record. `wire::envelope` has the format, `log` the
//! place of the bytes.

use crate::entry::{Stored, StoredBody};
use crate::purges::{Position, Positions, PurgeEpoch, PurgeFacts};
use larder_wire::envelope::{BodyInfo, Envelope, EnvelopeHead};
use larder_wire::http1::write;
use larder_wire::ready_head::ReadyHead;
use xxhash_rust::xxh3::Xxh3;

/// Appends the envelope head of a response. Its body's checksum stays zero: the record has one.
pub(crate) fn write(key: &[u8], stored: &Stored, out: &mut Vec<u8>) {
    let known: Vec<(u64, u64)> = stored.log().as_slice().iter().map(|it| (it.log, it.entry)).collect();
    let head = EnvelopeHead {
        key,
        variant: stored.variant(),
        meta: &stored.meta,
        fields: &stored.fields(),
        trailers: stored.trailers(),
        tags: stored.tags(),
        known: &known,
        seq: stored.epoch,
        body: BodyInfo { length: stored.body.len(), ..BodyInfo::default() },
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

/// The index's identity of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariantName {
    /// The hash of the names in `Vary`; zero without any.
    pub names: u16,
    /// The hash of the names and the request's values.
    pub variant: u32,
}

impl VariantName {
    /// The older records that one of this name replaces: those of its variant, or all of them, expressed as zero, where
    /// it does not vary.
    pub fn displaces(self) -> u32 {
        if self.names == 0 { 0 } else { self.variant }
    }
}

/// The identity of a variant, by the directory's seed and its key's hash.
#[allow(clippy::cast_possible_truncation, reason = "parts of a hash")]
pub(crate) fn variant_name(hash: u64, vary: &[Box<str>], variant: &[u8]) -> VariantName {
    let mut hasher = Xxh3::with_seed(hash);
    for name in vary {
        hasher.update(name.as_bytes());
        hasher.update(b"\n");
    }
    let names = if vary.is_empty() { 0 } else { (hasher.digest() as u16).max(1) };
    hasher.update(b"\n");
    hasher.update(variant);
    VariantName { names, variant: hasher.digest() as u32 }
}
