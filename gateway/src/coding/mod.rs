//! The encodings of stored responses. `encoding_choice` chooses the one for a request, by the decision of `semantics::transcode`;
//! `larder_store::encodings` keeps them and `pool` makes them.

pub mod codec;
pub mod pool;
pub mod stream;

use bytes::{Buf, Bytes};
use codec::{BodyDecoder, DecodeProgress, Undecodable};
use larder_counters::Counters;
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::tags;
use larder_semantics::transcode::{self, Choice, Serve};
use larder_store::{Encodings, Store, Stored, StoredBody};
use larder_wire::http1::write;
use larder_wire::ready_head::ReadyHead;

/// Prepares a response for its encodings before it is stored, where the route makes any, and names `Accept-Encoding` in its
/// `Vary`. Responses from a lower tier are prepared by this, too.
#[must_use]
pub fn ready(mut stored: Stored, policy: &Policy) -> Stored {
    let length = stored.body.len();
    let lines: Vec<_> = stored.lines().collect();
    let plan = transcode::plan(stored.meta.status, &lines, Some(length), policy);
    // A trailer section describes the bytes before it.
    let Some(plan) = plan.filter(|_| stored.meta.partial().is_none() && stored.trailers().is_none()) else {
        return stored;
    };
    let mut fields = stored.fields();
    transcode::mark(&mut fields);
    let head = head_of(stored.meta.status, &fields, length, |it| tags::is_hidden(it, &policy.tags));
    stored.set_head(head, fields);
    // A body served from its segment is not in RAM, so encodings have no entry to be kept with.
    if !matches!(stored.body, StoredBody::Disk(_)) {
        stored.encodings = Some(Encodings::new(plan));
    }
    stored
}

/// Moves the encodings of `old` to `new`, which has the same content and another head.
pub(crate) fn carry(store: &Store, old: &Stored, new: &Stored) {
    if let (Some(before), Some(after)) = (&old.encodings, &new.encodings) {
        store.carry_encodings(before, after, |coding, body: &StoredBody| {
            let fields = transcode::form_fields(&new.fields(), coding);
            (head_of(new.meta.status, &fields, body.len(), |it| is_hidden(new, it)), fields)
        });
    }
}

/// Whether a field of a stored response is hidden from clients: its head was written without it.
pub(crate) fn is_hidden(stored: &Stored, name: &str) -> bool {
    stored.lines().any(|it| it.is(name)) && !stored.head.lines().any(|it| it.is(name))
}

/// A head as a hit sends it, without hidden fields (see [`Stored::head`]). Only as text: the store makes the rest for
/// entries.
pub(crate) fn head_of(
    status: u16,
    fields: &FieldList,
    length: u64,
    is_hidden: impl Fn(&str) -> bool,
) -> ReadyHead {
    let mut head = Vec::with_capacity(fields.text().len() + 64);
    write::status_line(status, &mut head);
    for it in fields.iter().filter(|it| !is_hidden(it.name)) {
        write::field(it.name, it.value, &mut head);
    }
    if !matches!(status, 204 | 304) {
        write::field("Content-Length", itoa::Buffer::new().format(length).as_bytes(), &mut head);
    }
    ReadyHead::passing(&head)
}

/// The encoding of a response that answers a request.
pub(crate) fn choose(
    encodings: &Encodings,
    policy: &Policy,
    fields: &[Field<'_>],
    facts: &RequestFacts<'_>,
) -> Choice {
    if transcode::is_switched_off(encodings.plan, policy) {
        return Choice { serve: Serve::Own, make: None };
    }
    let no_transform = facts.directives.no_transform;
    let exact = (facts.conditional || facts.range.is_some() || no_transform)
        && transcode::is_exact(fields, no_transform);
    transcode::choose(
        encodings.plan,
        encodings.made(),
        encodings.refused(),
        AcceptedCodings::read(fields),
        exact,
    )
}

/// One sentence about the encodings of a stored response, for `explain`.
pub(crate) fn describe(
    encodings: &Encodings,
    policy: &Policy,
    fields: &[Field<'_>],
    facts: &RequestFacts<'_>,
) -> String {
    let name = |it| transcode::token(it).unwrap_or("plain");
    let all = [Coding::Zstd, Coding::Brotli, Coding::Gzip, Coding::Identity];
    let made = all.into_iter().filter_map(|it| {
        encodings.get(it).map(|encoding| format!("{} ({} bytes)", name(it), encoding.body.len()))
    });
    let made = made.collect::<Vec<_>>().join(", ");
    let refused = all.into_iter().filter(|it| encodings.refused().has(*it)).map(name);
    let refused = refused.collect::<Vec<_>>().join(", ");
    let mut text = format!("stored {}", name(encodings.plan.own));
    if !made.is_empty() {
        text.push_str(&format!("; made of it: {made}"));
    }
    if !refused.is_empty() {
        text.push_str(&format!(
            "; not made (impossible, no gain, or too large for cache.ram.size): {refused}"
        ));
    }
    let choice = choose(encodings, policy, fields, facts);
    text.push_str(&match choice.serve {
        Serve::Own => "; this request receives the stored encoding".to_owned(),
        Serve::Made(it) => format!("; this request receives {}", name(it)),
        Serve::Wait(it) => format!("; this request waits for {}", name(it)),
        Serve::Unsuitable => "; this request accepts no encoding that can be made".to_owned(),
    });
    if let Some(it) = choice.make.filter(|_| !matches!(choice.serve, Serve::Wait(_))) {
        text.push_str(&format!(" and has {} made", name(it)));
    }
    text
}

/// Whether a request cannot use a stored response because its coding cannot be decoded: the response then counts as one
/// whose `Vary` does not match.
pub(crate) fn is_of_no_use(stored: &Stored, fields: &[Field<'_>]) -> bool {
    stored.encodings.as_ref().is_some_and(|it| {
        it.is_undecodable() && !transcode::suits(it.plan.own, AcceptedCodings::read(fields))
    })
}

/// A body that is decoded while it is sent to a client.
pub(crate) struct Decoding {
    decoder: BodyDecoder,
    /// Input that the decoder has not taken yet.
    coded: Bytes,
    room: Box<[u8]>,
    /// How much of `room` the last step filled.
    filled: usize,
}

impl Decoding {
    /// A decoding with at most `most` bytes of output; `None` where the coding has no decoder.
    pub fn new(coding: Coding, most: u64) -> Option<Self> {
        Some(Self {
            decoder: BodyDecoder::new(coding, most)?,
            coded: Bytes::new(),
            room: vec![0; codec::STEP].into(),
            filled: 0,
        })
    }

    /// Adds the next piece of input, after the last one was taken completely.
    pub fn feed(&mut self, coded: Bytes) {
        debug_assert!(self.coded.is_empty());
        self.coded = coded;
    }

    /// The output of the last step.
    pub fn plain(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    /// Decodes some of the input; [`Decoding::plain`] returns the output.
    pub fn step(&mut self, counters: &Counters) -> Result<DecodeProgress, Undecodable> {
        let mut rest = &self.coded[..];
        let stepped = self.decoder.step(&mut rest, &mut self.room);
        let taken = self.coded.len() - rest.len();
        self.coded.advance(taken);
        let (progress, filled) = stepped.inspect_err(|why| pool::count(counters, *why))?;
        self.filled = filled;
        Ok(progress)
    }

    /// Whether the body was complete.
    pub fn finish(&self, counters: &Counters) -> Result<(), Undecodable> {
        self.decoder.finish().inspect_err(|why| pool::count(counters, *why))
    }
}
