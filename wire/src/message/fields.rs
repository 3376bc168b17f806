//! The fields that may be forwarded to the next hop: hop-by-hop fields, nominations in `Connection`, trailers.

#[cfg(test)]
mod tests;

use larder_semantics::field::{Field, FieldList, is_same_name};

/// Whether a field is hop-by-hop by its name (RFC 9110 §7.6.1, and those of proxy authentication, §11.7): never
/// forwarded, never stored. So are fields that `Connection` names: see [`strip_hop_by_hop`].
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    // Most names have another length and need no comparison.
    matches!(name.len(), 2 | 7 | 10 | 14 | 16..=19 | 25) && NAMES.iter().any(|it| is_same_name(name, it))
}

/// A copy of `fields` for the next hop: without hop-by-hop fields, without those that `Connection` nominates (RFC 9110
/// §7.6.1), and without `Content-Length`, since framing is generated.
///
/// A nomination takes effect for every field except those of [`is_never_nominated`]. The caller decides by the remaining
/// fields, in particular for the key and `Vary`: the origin does not get dropped fields. A name that differs only by
/// underscores from a framing, hop-by-hop or proxy field is dropped too (`Transfer_Encoding`, `X_Forwarded_For`): behind
/// CGI and the like (RFC 3875 §4.1.18) they are the same.
#[must_use]
pub fn strip_hop_by_hop(fields: &[Field<'_>]) -> FieldList {
    let mut kept = FieldList::with_room_for(fields, ADDED_BYTES);
    strip_hop_by_hop_into(fields.iter().copied(), |_| true, &mut kept);
    kept
}

/// Bytes that larder adds to a head: `Via`, `Age`, `Cache-Status`, `X-Forwarded-*`.
pub const ADDED_BYTES: usize = 256;
/// Lines that larder adds.
pub const ADDED_LINES: usize = 6;

/// As [`strip_hop_by_hop`], but appends to `kept`, and only the fields for which `also` holds.
pub fn strip_hop_by_hop_into<'f>(
    fields: impl Iterator<Item = Field<'f>> + Clone,
    also: impl Fn(&Field<'_>) -> bool,
    kept: &mut FieldList,
) {
    let nominations = Nominations::of(fields.clone().filter(|it| is_connection(it)).map(|it| it.value));
    for it in fields {
        if !(is_dropped(it.name, &nominations) || is_disguised(it.name)) && also(&it) {
            kept.push(it.name, it.value);
        }
    }
}

/// As [`strip_hop_by_hop`], in place.
pub fn strip_hop_by_hop_in(fields: &mut FieldList) {
    // The usual value names nothing, and is not copied.
    let mut lists: Vec<Vec<u8>> = Vec::new();
    for it in fields.get_all("connection").filter(|it| !is_usual(it)) {
        lists.push(it.to_vec());
    }
    let nominations = Nominations::of(lists.iter().map(Vec::as_slice));
    let has_mark = memchr::memchr(b'_', fields.text()).is_some();
    fields.retain(|it| !(is_dropped(it.name, &nominations) || has_mark && is_disguised(it.name)));
}

fn is_connection(it: &Field<'_>) -> bool {
    it.name.len() == 10 && it.is("connection")
}

/// Whether a value of `Connection` names nothing but a field that is hop-by-hop in any case: the usual value.
fn is_usual(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"keep-alive")
}

/// The values of `Connection`.
struct Nominations<L> {
    lists: L,
    are_some: bool,
}

impl<'l, L: Iterator<Item = &'l [u8]> + Clone> Nominations<L> {
    fn of(lists: L) -> Self {
        Self { are_some: lists.clone().any(|it| !is_usual(it)), lists }
    }

    fn have(&self, name: &str) -> bool {
        let mut members = self.lists.clone().flat_map(|it| it.split(|it| *it == b','));
        members.any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// Whether the next hop does not get a field.
fn is_dropped<'l>(name: &str, nominations: &Nominations<impl Iterator<Item = &'l [u8]> + Clone>) -> bool {
    is_hop_by_hop(name)
        || is_same_name(name, "content-length")
        || nominations.are_some && nominations.have(name) && !is_never_nominated(name)
}

/// Whether a name with hyphens instead of its underscores is one that clients may not send.
fn is_disguised(name: &str) -> bool {
    let mut plain = [0; 32];
    let Some(plain) = plain.get_mut(..name.len()).filter(|_| name.bytes().any(|it| it == b'_')) else {
        return false;
    };
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = if from == b'_' { b'-' } else { from };
    }
    std::str::from_utf8(plain).is_ok_and(|it| {
        is_hop_by_hop(it) || is_never_nominated(it) || it.eq_ignore_ascii_case("content-length")
    })
}

/// Fields on which a nomination in `Connection` has no effect. RFC 9110 §7.6.1 forbids nominating fields for all
/// recipients; a peer that does so wants to hide it from the next hop: a client, the fields of a trusted proxy about that
/// client; an origin, the fields that forbid sharing its response.
#[must_use]
pub fn is_never_nominated(name: &str) -> bool {
    const NAMES: [&str; 24] = [
        "age",
        "authorization",
        "cache-control",
        "cdn-cache-control",
        "cdn-loop",
        "client-cert",
        "content-encoding",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expires",
        "forwarded",
        "host",
        "pragma",
        "set-cookie",
        "vary",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
        "x-request-id",
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a field may be forwarded in a trailer section: not if it frames, routes, modifies or controls the message,
/// authenticates, or describes the content (RFC 9110 §6.5.1), and not if it is hop-by-hop. Other fields are dropped, as
/// permitted by RFC 9110 §6.5.2.
#[must_use]
pub fn is_allowed_trailer(name: &str) -> bool {
    const FORBIDDEN: [&str; 38] = [
        "accept-ranges",
        "age",
        "authentication-info",
        "authorization",
        "cache-control",
        "cdn-cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "location",
        "max-forwards",
        "pragma",
        "range",
        "retry-after",
        "set-cookie",
        "surrogate-control",
        "vary",
        "via",
        "warning",
        "www-authenticate",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    !is_hop_by_hop(name) && !FORBIDDEN.iter().any(|it| name.eq_ignore_ascii_case(it))
}
