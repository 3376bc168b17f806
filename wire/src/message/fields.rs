//! Which fields a message may take along to the next hop: hop-by-hop fields, nominations in `Connection`, trailers.

#[cfg(test)]
mod tests;

use larder_semantics::field::{Field, FieldList};

/// Whether a field is hop-by-hop by its name (RFC 9110 §7.6.1, and those of a proxy's own authentication,
/// §11.7): never forwarded, never stored. Fields that `Connection` names are so too: see
/// [`strip_hop_by_hop`].
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
    matches!(name.len(), 2 | 7 | 10 | 14 | 16..=19 | 25)
        && NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// A copy of `fields` as the next hop may see them: without hop-by-hop fields, without those that `Connection`
/// nominates (RFC 9110 §7.6.1), and without `Content-Length`, since framing is made anew.
///
/// A nomination takes effect for every field but those of [`is_never_nominated`]. The caller decides by the
/// fields that are left, for the key and `Vary` above all: what was dropped, the origin does not see.
/// A name that only an underscore tells from one that is framing, hop-by-hop or a proxy's is dropped too
/// (`Transfer_Encoding`, `X_Forwarded_For`): behind CGI and its kin (RFC 3875 §4.1.18) they are one.
#[must_use]
pub fn strip_hop_by_hop(fields: &[Field<'_>]) -> FieldList {
    let mut kept = FieldList::with_room_for(fields, ADDED_BYTES);
    strip_hop_by_hop_into(fields.iter().copied(), |_| true, &mut kept);
    kept
}

/// Bytes that are added to a head on its way: `Via`, `Age`, `Cache-Status`, `X-Forwarded-*`.
pub const ADDED_BYTES: usize = 256;
/// Lines that are added.
pub const ADDED_LINES: usize = 6;

/// As [`strip_hop_by_hop`], but appends to `kept`, and only the fields for which `also` holds.
pub fn strip_hop_by_hop_into<'f>(
    fields: impl Iterator<Item = Field<'f>> + Clone,
    also: impl Fn(&Field<'_>) -> bool,
    kept: &mut FieldList,
) {
    let lists = fields.clone().filter(|it| it.is("connection")).map(|it| it.value);
    let nominated = |name: &str| {
        let mut members = lists.clone().flat_map(|it| it.split(|it| *it == b','));
        members.any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let any_nomination = lists.clone().next().is_some();
    for it in fields {
        let dropped = is_hop_by_hop(it.name)
            || it.is("content-length")
            || is_disguised(it.name)
            || any_nomination && nominated(it.name) && !is_never_nominated(it.name);
        if !dropped && also(&it) {
            kept.push(it.name, it.value);
        }
    }
}

/// Whether a name with underscores becomes, with hyphens in their place, one that is not the client's to send.
fn is_disguised(name: &str) -> bool {
    let mut plain = [0; 32];
    let Some(plain) = plain.get_mut(..name.len()).filter(|_| name.contains('_')) else { return false };
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = if from == b'_' { b'-' } else { from };
    }
    std::str::from_utf8(plain).is_ok_and(|it| {
        is_hop_by_hop(it) || is_never_nominated(it) || it.eq_ignore_ascii_case("content-length")
    })
}

/// Fields on which a nomination in `Connection` has no effect. RFC 9110 §7.6.1 forbids to nominate what is
/// meant for all recipients; a peer that does so wants the next hop not to see it: a client, what a trusted
/// proxy before us wrote about that client; an origin, what forbids to share its answer.
#[must_use]
pub fn is_never_nominated(name: &str) -> bool {
    const NAMES: [&str; 23] = [
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
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a field may be passed on in a trailer section: none that frames, routes, modifies or controls the
/// message, authenticates, or says how the content is to be read (RFC 9110 §6.5.1), and none that is
/// hop-by-hop. What is left out is dropped, as RFC 9110 §6.5.2 allows.
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
