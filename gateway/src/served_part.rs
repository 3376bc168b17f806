//! The part of a stored response that a request gets: by its conditions and its range, as `semantics` decides.

use crate::coding;
use larder_semantics::conditional::{self, Precondition};
use larder_semantics::field::Field;
use larder_semantics::policy::Policy;
use larder_semantics::range::{self, Selection};
use larder_semantics::request::RequestFacts;
use larder_semantics::stored::Meta;
use larder_semantics::transcode::{self, Serve};
use larder_store::Stored;

pub(crate) fn precondition(meta: &Meta, facts: &RequestFacts<'_>, fields: &[Field<'_>]) -> Precondition {
    match facts.conditional {
        true => conditional::evaluate(fields, meta),
        false => Precondition::Proceed,
    }
}

/// The bytes of a complete stored response that a request gets.
pub(crate) fn of_stored(stored: &Stored, facts: &RequestFacts<'_>, fields: &[Field<'_>]) -> Selection {
    let by_tag = !facts.conditional
        || !stored.meta.is_negotiated(&stored.fields())
        || transcode::ranges_by_tag_alone(fields);
    let applies =
        |_: &&[u8]| by_tag && stored.meta.status == 200 && conditional::range_applies(fields, &stored.meta);
    facts.range.filter(applies).map_or(Selection::Whole, |it| range::select(it, stored.body.len()))
}

/// The status with which a stored response answers a request, for `explain`: by the function that delivery uses.
pub(crate) fn status_of(
    stored: &Stored,
    policy: &Policy,
    facts: &RequestFacts<'_>,
    fields: &[Field<'_>],
) -> u16 {
    let is_encoding = stored.encodings.as_ref().is_some_and(|it| {
        !matches!(coding::choose(it, policy, fields, facts).serve, Serve::Own | Serve::Unsuitable)
    });
    let judged = if is_encoding { &stored.meta.of_form() } else { &stored.meta };
    match precondition(judged, facts, fields) {
        Precondition::NotModified => return 304,
        Precondition::Failed => return 412,
        Precondition::Proceed => {}
    }
    if stored.meta.partial().is_some() {
        return 206;
    }
    if is_encoding {
        return stored.meta.status; // An encoding announces no ranges.
    }
    match of_stored(stored, facts, fields) {
        Selection::Whole => stored.meta.status,
        Selection::One(..) | Selection::Many(_) => 206,
        Selection::Unsatisfiable => 416,
    }
}
