//! The choice of the form of a stored response, the forms to make, and the codings to request from the origin (RFC 9110
//! §8.4, §12.5.3). Coding and decoding are not here, nor is the storage of forms.
//!
//! A representation is stored once, as the origin sent it. On routes that compress, the server makes other forms of it:
//! coded ones of a plain response, the plain one of a coded response. This module chooses the form for a request, so
//! `Vary: Accept-Encoding` selects no variant on such a route.

use crate::cache_control::directives;
use crate::coding::{AcceptedCodings, BEST, Coding, Quality};
use crate::compress::{CodingPreference, Codings, Compress};
use crate::field::{self, Field, FieldList};
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::vary;
use std::sync::LazyLock;

/// The possible forms of one stored response. Made once, when it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingPlan {
    /// The coding in which it is stored.
    pub own: Coding,
    /// The codings that may be made of it.
    pub makes: Codings,
    /// Codings made of a coded response for clients that accept neither its coding nor the plain form.
    pub recodes: Codings,
    /// The order among codings with equal quality.
    order: CodingPreference,
    /// Bytes of the largest plain form.
    pub max_size: u64,
}

/// Bytes of an [`EncodingPlan`] in a snapshot of the RAM tier.
pub const PLAN_BYTES: usize = 14;

/// The codings of plans, by their number in their bytes. New ones are added at the end.
const NUMBERED: [Coding; 5] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Deflate];

impl EncodingPlan {
    /// Its bytes; `None` for a response with several codings, whose plan is not written.
    #[must_use]
    pub fn to_bytes(self) -> Option<[u8; PLAN_BYTES]> {
        let number =
            |coding| NUMBERED.iter().position(|it| *it == coding).and_then(|it| u8::try_from(it).ok());
        let mut bytes = [0; PLAN_BYTES];
        bytes[0] = number(self.own)?;
        (bytes[1], bytes[2]) = (self.makes.bits(), self.recodes.bits());
        for (to, coding) in bytes[3..6].iter_mut().zip(self.order.iter()) {
            *to = number(coding)?;
        }
        bytes[6..].copy_from_slice(&self.max_size.to_le_bytes());
        Some(bytes)
    }

    /// The plan of these bytes; `None` where they are of no plan.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; PLAN_BYTES]) -> Option<Self> {
        let coding = |it: u8| NUMBERED.get(usize::from(it)).copied();
        let (&[own, makes, recodes, first, second, third], size) = bytes.split_first_chunk()?;
        let order = CodingPreference::of([coding(first)?, coding(second)?, coding(third)?]);
        let (makes, recodes) = (Codings::from_bits(makes), Codings::from_bits(recodes));
        let max_size = u64::from_le_bytes(size.try_into().ok()?);
        Some(Self { own: coding(own)?, makes, recodes, order, max_size })
    }
}

/// The coding of a response for which this route answers every `Accept-Encoding` itself; `None` if `Vary` selects as
/// usual (RFC 9111): the route does not compress, the response has `no-transform` (RFC 9110 §7.7), is a part, or has an
/// unknown coding.
#[must_use]
pub fn handled(status: u16, fields: &[Field<'_>], policy: &Policy) -> Option<Coding> {
    policy.compress.as_ref()?;
    // A part of a coded form is not a form of a part; 204 and 304 have no content.
    if matches!(status, 204 | 206 | 304) || fields.iter().any(|it| it.is("content-range")) {
        return None;
    }
    let has = |name: &str| {
        field::all(fields, name).flat_map(directives).any(|it| it.name.eq_ignore_ascii_case(b"no-transform"))
    };
    // Cache-Control is for every cache and gateway on the way, a targeted field for larder: either may forbid.
    if has("cache-control") || policy.targets.iter().any(|it| has(it)) {
        return None;
    }
    let coding = coding_of(fields);
    (coding != Coding::Other).then_some(coding)
}

/// The content coding of a response, or its sequence of codings; `Other` if one is unknown, or there are more than three.
#[must_use]
pub fn coding_of(fields: &[Field<'_>]) -> Coding {
    Coding::over(field::all(fields, "content-encoding").flat_map(field::members).map(Coding::of))
}

/// The possible forms of a response whose plain or coded body has `length` bytes; `None` if there are no others. A
/// response without a known length may have forms.
#[must_use]
pub fn plan(status: u16, fields: &[Field<'_>], length: Option<u64>, policy: &Policy) -> Option<EncodingPlan> {
    let own = handled(status, fields, policy)?;
    let compress = policy.compress.as_ref()?;
    let codes = compress.codings.iter().fold(Codings::NONE, Codings::with);
    let (makes, recodes) = match own {
        Coding::Identity => {
            let media_type = field::first(fields, "content-type").unwrap_or_default();
            is_worth_coding(media_type, length, compress).then_some((codes, Codings::NONE))?
        }
        // A coded response is not coded again for clients that accept it: it is kept, and made plain for those that need
        // it.
        _ => (Codings::NONE.with(Coding::Identity), codes.without(Codings::NONE.with(own))),
    };
    Some(EncodingPlan { own, makes, recodes, order: compress.codings, max_size: compress.max_size })
}

/// Whether a plain body of this `Content-Type` and length is coded: of a listed type, and neither too small nor too large.
#[must_use]
pub fn is_worth_coding(media_type: &[u8], length: Option<u64>, compress: &Compress) -> bool {
    let fits = length.is_none_or(|it| (compress.min_size..=compress.max_size).contains(&it));
    let kind = media_type.split(|it| *it == b';').next().unwrap_or_default();
    let kind = field::trim(kind);
    let is_listed = |pattern: &String| {
        let pattern = pattern.as_bytes();
        match pattern {
            [b'+', ..] => ends_with(kind, pattern),
            [all @ .., b'*'] => kind.len() > all.len() && kind[..all.len()].eq_ignore_ascii_case(all),
            _ => kind.eq_ignore_ascii_case(pattern) || is_script(pattern) && is_script(kind),
        }
    };
    fits && compress.types.iter().any(is_listed)
}

/// The settings by which text is recognised.
static USUAL: LazyLock<Compress> = LazyLock::new(Compress::usual);

/// Whether a 200 came as plain text that `cache.compress` with its defaults would compress.
#[must_use]
pub fn is_plain_text(status: u16, fields: &FieldList) -> bool {
    let is_coded = || {
        Coding::over(fields.get_all("content-encoding").flat_map(field::members).map(Coding::of))
            != Coding::Identity
    };
    if status != 200 || is_coded() {
        return false;
    }
    let length = fields.get("content-length").and_then(|it| str::from_utf8(it).ok()?.parse().ok());
    is_worth_coding(fields.get("content-type").unwrap_or_default(), length, &USUAL)
}

/// Whether a media type is one that `cache.compress` with its defaults compresses: text and data, not pictures, sound and archives.
#[must_use]
pub fn is_text(media_type: &[u8]) -> bool {
    is_worth_coding(media_type, None, &USUAL)
}

/// Whether it is a name of JavaScript, which has had several (RFC 9239 section 6).
fn is_script(kind: &[u8]) -> bool {
    const NAMES: [&str; 3] = ["text/javascript", "application/javascript", "application/x-javascript"];
    NAMES.iter().any(|it| kind.eq_ignore_ascii_case(it.as_bytes()))
}

fn ends_with(kind: &[u8], suffix: &[u8]) -> bool {
    kind.len() > suffix.len() && kind[kind.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

/// The form in which a response that is not stored is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitForm {
    /// As it came. Other clients would get the same form.
    Own,
    /// As it came, although other clients would get another form.
    OwnOfSeveral,
    /// Coded while it is sent.
    Coded(Coding),
}

/// The form of a response that is for one client only, `response` with a body of `length` bytes, if that is known: the one in
/// which the client would get a stored one. An event stream is not coded: each event would be flushed for itself.
#[must_use]
pub fn in_transit(
    status: u16,
    response: &[Field<'_>],
    length: Option<u64>,
    facts: &RequestFacts<'_>,
    request: &[Field<'_>],
    policy: &Policy,
) -> TransitForm {
    if !policy.compress.as_ref().is_some_and(|it| it.uncached)
        || field::first(response, "content-type").is_some_and(field::is_event_stream)
    {
        return TransitForm::Own;
    }
    // The 200 of the same request may have been coded, and has this `Vary` then (RFC 9110 §15.4.5).
    if status == 304 {
        return TransitForm::OwnOfSeveral;
    }
    let Some(plan) = plan(status, response, length, policy).filter(|it| it.own == Coding::Identity) else {
        return TransitForm::Own;
    };
    let exact = is_exact(request, facts.directives.no_transform);
    match choose(plan, Codings::NONE, Codings::NONE, AcceptedCodings::read(request), exact).make {
        Some(coding) => TransitForm::Coded(coding),
        None => TransitForm::OwnOfSeveral,
    }
}

/// The form in which a stored response with forms is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    /// The stored form.
    Own,
    /// A form that was made.
    Made(Coding),
    /// After this form is made: the client accepts no existing form.
    Wait(Coding),
    /// The client accepts no existing or possible form. It gets the stored one even so (RFC 9110 §12.5.3).
    Unsuitable,
}

/// Whether the route stopped making forms since a response was stored: no coding is applied any more. A coded response is
/// still decoded, since its `Vary` does not separate clients that accept its coding from the rest.
#[must_use]
pub fn is_switched_off(plan: EncodingPlan, policy: &Policy) -> bool {
    policy.compress.is_none() && plan.own == Coding::Identity
}

/// The result of [`choose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The form to serve now.
    pub serve: Serve,
    /// A better form for the client, which is to be made.
    pub make: Option<Coding>,
}

/// Chooses among the stored form, those `made` already, and those that can still be made, which are those of the plan
/// without the `refused` ones.
///
/// The best quality wins (RFC 9110 §12.4.2); among equals a coded form, in the order of the plan. A coded response is
/// coded again only if no other form is acceptable. A client that accepts everything alike (no `Accept-Encoding`, or a
/// lone `*`) gets the plain form: few such clients can decode. A request about exact bytes (`exact`: see [`is_exact`]) is
/// answered from a plain stored form.
#[must_use]
pub fn choose(
    plan: EncodingPlan,
    made: Codings,
    refused: Codings,
    accepted: AcceptedCodings,
    exact: bool,
) -> Choice {
    let quality = |it| if accepted.is_indifferent() { plain_only(it) } else { accepted.quality(it) };
    if exact && plan.own == Coding::Identity && quality(Coding::Identity) > 0 {
        return Choice { serve: Serve::Own, make: None };
    }
    let best = |among: Codings| {
        let mut best: Option<(Coding, Quality)> = None;
        // The stored form first, then the order; the plain form is the last among equals.
        let coded = plan.order.iter().chain([Coding::Gzip, Coding::Brotli, Coding::Zstd]).chain([plan.own]);
        for it in coded.chain([Coding::Identity]).filter(|it| among.has(*it)) {
            let quality = quality(it);
            if quality > 0 && best.is_none_or(|best| quality > best.1) {
                best = Some((it, quality));
            }
        }
        best.map(|it| it.0)
    };
    let among = |there: Codings, makes: Codings| {
        let possible = Codings::from_bits(makes.without(refused).bits() | there.bits());
        let wanted = best(possible)?;
        let make = (!there.has(wanted)).then_some(wanted);
        let serve = match best(there) {
            Some(it) if it == plan.own => Serve::Own,
            Some(it) => Serve::Made(it),
            None => Serve::Wait(wanted),
        };
        Some(Choice { serve, make })
    };
    among(made.without(plan.recodes).with(plan.own), plan.makes)
        .or_else(|| among(made.without(plan.makes), plan.recodes))
        .unwrap_or(Choice { serve: Serve::Unsuitable, make: None })
}

fn plain_only(coding: Coding) -> Quality {
    if coding == Coding::Identity { BEST } else { 0 }
}

/// Whether a request is about exact bytes: a range, a condition that compares strongly (RFC 9110 §13.1.1, §13.1.5), or
/// `no-transform`. Made forms have weak tags only, and no ranges.
#[must_use]
pub fn is_exact(fields: &[Field<'_>], no_transform: bool) -> bool {
    no_transform
        || fields.iter().any(|it| match it.name.len() {
            5 => it.is("range"),
            8 => it.is("if-match") || it.is("if-range"),
            19 => it.is("if-unmodified-since"),
            _ => false,
        })
}

/// Whether a response in `own` coding may be sent unchanged to a client while it arrives, if no other form can be chosen
/// yet; otherwise it is decoded in transit.
#[must_use]
pub fn suits(own: Coding, accepted: AcceptedCodings) -> bool {
    match own {
        Coding::Other | Coding::Identity => true,
        _ if accepted.is_indifferent() => false,
        _ => accepted.quality(own) > 0 || accepted.quality(Coding::Identity) == 0,
    }
}

/// The `Accept-Encoding` for the origin: the client's accepted codings that larder can decode, in normal form, so that
/// the response suits the client even if it proves to be private. `stored` is the coding of a response to be validated:
/// only it is requested if the client accepts it, since another form has another tag.
#[must_use]
pub fn accept_encoding(request: &[Field<'_>], stored: Option<Coding>) -> &'static str {
    let accepted = AcceptedCodings::read(request);
    let likes = |it| !accepted.is_indifferent() && accepted.quality(it) > 0;
    match stored {
        Some(Coding::Identity) if accepted.quality(Coding::Identity) > 0 => return "identity",
        Some(Coding::Gzip) if likes(Coding::Gzip) => return "gzip",
        Some(Coding::Brotli) if likes(Coding::Brotli) => return "br",
        Some(Coding::Zstd) if likes(Coding::Zstd) => return "zstd",
        _ => {}
    }
    match (likes(Coding::Gzip), likes(Coding::Brotli), likes(Coding::Zstd)) {
        (false, false, false) => "identity",
        (true, false, false) => "gzip",
        (false, true, false) => "br",
        (false, false, true) => "zstd",
        (true, true, false) => "gzip, br",
        (true, false, true) => "gzip, zstd",
        (false, true, true) => "br, zstd",
        (true, true, true) => "gzip, br, zstd",
    }
}

/// Adds `Accept-Encoding` to the `Vary` of a response that is negotiated here (RFC 9110 §12.5.5), if it is missing.
pub fn mark(fields: &mut FieldList) {
    vary::add_names(fields, ["Accept-Encoding"]);
}

/// The names of `Vary` that select variants, if this route answers every `Accept-Encoding` itself.
pub(crate) fn own_names(names: Vec<Box<str>>, handled: Option<Coding>) -> Vec<Box<str>> {
    match handled {
        Some(_) => names.into_iter().filter(|it| **it != *"accept-encoding").collect(),
        None => names,
    }
}

/// Fields of the stored form that are wrong for another one.
const WRONG: [&str; 3] = ["content-encoding", "content-length", "accept-ranges"];

/// Fields with digests of the stored bytes.
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

/// The trailer section of a made form.
#[must_use]
pub fn form_trailers(own: &FieldList) -> FieldList {
    let mut fields = own.clone();
    fields.retain(|it| !DIGESTS.iter().any(|name| it.is(name)));
    fields
}

/// The fields of a made form in `coding`: the tag is weak, since it is the same for every made form (RFC 9110 §8.8.1,
/// §8.8.3.3); ranges are not offered; and digests of the stored bytes are removed, as they would be wrong (RFC 9530 §2,
/// §3).
#[must_use]
pub fn form_fields(stored: &FieldList, coding: Coding) -> FieldList {
    let is_wrong = |it: &Field<'_>| WRONG.iter().chain(&DIGESTS).any(|name| it.is(name));
    let mut fields = FieldList::new();
    for it in stored.iter().filter(|it| !is_wrong(it)) {
        match it.is("etag") && !it.value.starts_with(b"W/") {
            true => fields.push(it.name, [b"W/", it.value].concat()),
            false => fields.push(it.name, it.value),
        }
    }
    if let Some(token) = token(coding) {
        fields.push("Content-Encoding", token);
    }
    fields.shrink();
    fields
}

/// The name in `Content-Encoding` of a coding that larder makes; `None` for identity, which is never named there, and for
/// other codings.
#[must_use]
pub fn token(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Gzip => Some("gzip"),
        Coding::Brotli => Some("br"),
        Coding::Zstd => Some("zstd"),
        Coding::Identity | Coding::Deflate | Coding::Several(_) | Coding::Other => None,
    }
}

/// Whether `If-Range`, if present, is a tag. `Last-Modified` is the same for all forms of a response, and so does not
/// distinguish bytes (RFC 9110 §8.8.1 names this case): with several forms it is no strong validator.
#[must_use]
pub fn ranges_by_tag_alone(request: &[Field<'_>]) -> bool {
    let mut lines = field::all(request, "if-range");
    lines.next().is_none_or(crate::entity_tag::is_entity_tag)
}

#[cfg(test)]
mod tests;
