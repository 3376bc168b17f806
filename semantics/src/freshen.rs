//! The changes that a 304, or a HEAD response, makes to a stored head: RFC 9111 §3.2, §4.3.4, §4.3.5.

use crate::cookies;
use crate::date;
use crate::entity_tag::{strong_eq, weak_eq};
use crate::field::{Field, FieldList, all, first};
use crate::freshness;
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::storable::{self, NotStorable, Storable};
use crate::stored::{Meta, etag, is_kept};
use crate::trace::Silent;
use larder_stdx::clock::WallTime;

/// Whether a 304 with these fields applies to this stored response (RFC 9111 §4.3.4): the same strong validator; or the
/// same weak one if it has no strong one; or none at all and only one candidate.
///
/// An entity tag decides before a date, as everywhere (RFC 9110 §8.8.2.2). A `Last-Modified` counts as
/// the same only if it is exactly equal.
#[must_use]
pub fn selects(stored: &Meta, fields: &[Field<'_>], only_candidate: bool) -> bool {
    if let Some(tag) = etag(fields) {
        let Some(own) = stored.etag.as_deref() else { return false };
        return if tag.starts_with(b"W/") { weak_eq(own, tag) } else { strong_eq(own, tag) };
    }
    match first(fields, "last-modified").and_then(date::parse) {
        Some(time) => stored.last_modified.get() == Some(time),
        None => only_candidate,
    }
}

/// The stored fields and facts after freshening: every field of `update` replaces its stored lines, except
/// `Content-Length`, `Content-Encoding`, `Content-Type`, `Content-Range`, hop-by-hop and `Connection`-nominated ones (RFC
/// 9111 §3.2). `Age` and `Set-Cookie` of the update are not stored, as usual; its `Age` counts for the age. An update
/// without `Date` is dated now (RFC 9110 §6.6.1).
///
/// The update may forbid storing (`no-store`, `private`, `Vary: *`): the caller checks [`after`] before it keeps the
/// result.
#[must_use]
pub fn apply(
    stored: &FieldList,
    meta: &Meta,
    update: &[Field<'_>],
    policy: &Policy,
    request_time: WallTime,
    response_time: WallTime,
) -> (FieldList, Meta) {
    let replaces = |name: &str| !describes_content(name) && is_kept(name, update);
    let dated = freshness::dated(update).is_some();
    let now = date::format(response_time);
    let mut merged = Vec::with_capacity(stored.len() + update.len());
    let goes =
        |it: &Field<'_>| it.is("date") || (replaces(it.name) && update.iter().any(|new| new.is(it.name)));
    merged.extend(stored.iter().filter(|it| !goes(it)));
    merged.extend(update.iter().filter(|it| replaces(it.name) && (dated || !it.is("date"))));
    if !dated {
        merged.push(Field { name: "Date", value: now.as_bytes() });
    }
    let kept = crate::stored::stored_fields(&merged, policy, response_time);
    merged.extend(update.iter().filter(|it| it.is("age")));
    let mut fresh = Meta::of(meta.status, &merged, policy, request_time, response_time);
    fresh.set_partial(meta.partial());
    (kept, fresh)
}

/// The effect of freshening on the stored response. The client's response has the freshened head in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFreshen {
    /// The freshened head replaces the stored one.
    Update,
    /// The stored one stays unchanged: responses to this request may not be shared (`Authorization`, `no-store`, or
    /// credentials without permission to share), or the update sets a cookie, so that its fields may be those of one client.
    Leave,
    /// It may not be stored any more: the update has `no-store`, `private` or `Vary: *`.
    Drop,
}

/// Decides RFC 9111 §3 again for the result of [`apply`] with this `update`. `request` is the answered one.
#[must_use]
pub fn after(
    request: &RequestFacts<'_>,
    update: &[Field<'_>],
    fields: &FieldList,
    meta: &Meta,
    policy: &Policy,
) -> AfterFreshen {
    let mut lines = fields.view();
    let decide = |facts: &RequestFacts<'_>, lines: &[Field<'_>]| {
        let times = (meta.request_time, meta.response_time);
        storable::decide(facts, meta.status, lines, policy, times.0, times.1, &mut Silent)
    };
    // First the response alone, then with this request; neither method nor range matter here.
    let mut plain = RequestFacts::read("GET", &[]);
    plain.range = Some(b"bytes=0-");
    match decide(&plain, &lines) {
        Storable::Store
        | Storable::Refuse(NotStorable::Useless | NotStorable::Late | NotStorable::NoLifetime) => {}
        // The response to a visitor with a session says nothing about the response to other visitors.
        Storable::Refuse(_) if cookies::are_private(request.cookies, request.method, policy) => {
            return AfterFreshen::Leave;
        }
        Storable::Refuse(_) => return AfterFreshen::Drop,
    }
    plain.fields = request.fields;
    plain.directives = request.directives;
    plain.authorization = request.authorization;
    plain.cookies = request.cookies;
    // They are not among the fields to store.
    lines.extend(update.iter().filter(|it| it.sets_cookie()));
    match decide(&plain, &lines) {
        Storable::Refuse(
            NotStorable::Authorization
            | NotStorable::Credentials
            | NotStorable::RequestNoStore
            | NotStorable::SetCookie,
        ) => AfterFreshen::Leave,
        _ => AfterFreshen::Update,
    }
}

/// Fields that describe the stored content, which an update does not change (RFC 9111 §3.2).
fn describes_content(name: &str) -> bool {
    const NAMES: [&str; 4] = ["content-length", "content-encoding", "content-type", "content-range"];
    NAMES.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// The effect of a 200 response to HEAD on a stored GET response (RFC 9111 §4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// The same representation: [`apply`] it.
    Freshen,
    /// Another representation: mark the stored one stale.
    Invalidate,
}

/// Compares validators and `Content-Length`: those of the HEAD response must equal the stored ones. A length that was
/// never declared (a chunked GET) is not compared.
#[must_use]
pub fn head_says(stored: &Meta, stored_fields: &FieldList, head: &[Field<'_>]) -> HeadSays {
    let tag_differs = match (etag(head), stored.etag.as_deref()) {
        (None, _) => false,
        (Some(tag), own) => own.is_none_or(|own| !weak_eq(own, tag)),
    };
    let time = first(head, "last-modified").and_then(date::parse);
    let time_differs = time.is_some() && time != stored.last_modified.get();
    let own_length = match stored.partial() {
        Some(part) => part.complete.map(|it| it.to_string().into_bytes()),
        None => stored_fields.get("content-length").map(<[u8]>::to_vec),
    };
    let length_differs =
        own_length.is_some_and(|own| all(head, "content-length").any(|it| it != own.as_slice()));
    if tag_differs || time_differs || length_differs { HeadSays::Invalidate } else { HeadSays::Freshen }
}

#[cfg(test)]
mod tests;
