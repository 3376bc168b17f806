//! The head of a request on its way to the origin, and of a response on its way to the client: end-to-end fields only,
//! built from the parsed message (RFC 9110 §7.6).

use crate::cache_key;
use crate::rewrite;
use crate::route::{Gateway, GatewayRoute};
use crate::trusted_headers;
use larder_origin::{OutgoingRequest, RequestLine};
use larder_semantics::address_text::AddressText;
use larder_semantics::cookies;
use larder_semantics::date;
use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::forwarded;
use larder_semantics::freshness;
use larder_semantics::key::KeyRecipe;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::policy::{CredentialUse, GetBodies, IDENTITY, Policy};
use larder_semantics::request::RequestFacts;
use larder_semantics::request_view::RequestView;
use larder_semantics::stored::is_nominated;
use larder_semantics::target::is_malformed;
use larder_semantics::transcode;
use larder_semantics::validator;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::Stored;
use larder_transport::Client;
use larder_wire::message::fields::{
    ADDED_BYTES, ADDED_LINES, is_hop_by_hop, is_never_nominated, strip_hop_by_hop_in, strip_hop_by_hop_into,
};
use larder_wire::message::{Framing, Request, Version};
use larder_wire::proxy::ConnectionEnds;
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

/// The kind of a request to the origin.
#[derive(Clone, Copy)]
pub enum OriginRequest<'a> {
    /// The client's request unchanged; nothing of the answer is kept.
    Passed,
    /// The client's request with its conditions and range, in the form of the key: the answer may be kept.
    AsSent,
    /// The same in the coding that a GET for the whole would use, so that both get the same head.
    Head,
    /// The whole representation, without the client's conditions.
    Whole,
    /// The whole representation if it is no longer this one (RFC 9111 §4.3.1).
    Conditional(&'a Stored),
    /// The rest of a representation that is held in part (RFC 9111 §3.3): this `Range`, and `If-Range` with this tag.
    Rest(&'a str, &'a [u8]),
}

/// The request as the origin gets it; `sent` are the request's fields.
#[must_use]
pub fn outgoing(
    gateway: &Gateway,
    request: &Rc<Request>,
    sent: &[Field<'_>],
    route: &GatewayRoute,
    client: &Client,
    framing: Framing,
    kind: OriginRequest<'_>,
) -> OutgoingRequest {
    let policy = &route.policy;
    let strict = policy.key.strict && !matches!(kind, OriginRequest::Passed);
    let anonymous = is_anonymous(policy, request, sent);
    let drops_conditions = matches!(kind, OriginRequest::Whole | OriginRequest::Rest(..));
    let accept = accept_encoding(policy, sent, kind);
    let offers = offers(policy, kind);
    let has_offers = |it: &Field<'_>| offers.is_some_and(|key| key.negotiates(it.name));
    let forwards = max_forwards(&request.method, sent);
    let has_lost_body = framing == Framing::Empty && request.framing != Framing::Empty;
    let keep = |it: &Field<'_>| match it.name.len() {
        12 | 16 if has_lost_body && is_of_body(it) => false,
        15 => !(accept.is_some() && it.is("accept-encoding") || has_offers(it)),
        12 if forwards.is_some() && it.is("max-forwards") => false,
        6 => !(anonymous && it.is("cookie") || it.is("expect") || has_offers(it)),
        _ => !(drops_conditions && is_condition(it)),
    };
    let authority = authority(policy, request, kind);
    let mut fields = FieldList::with_room_for(sent, ADDED_BYTES + authority.len());
    fields.push("Host", route.host.of(&authority));
    let is_in_key = |name: &str| in_key(policy, name);
    let by_proxy = !client.hops.is_empty();
    let keep = |it: &Field<'_>| {
        (!strict || is_in_key(it.name))
            && trusted_headers::reaches_an_origin(it.name, by_proxy, is_in_key)
            && keep(it)
    };
    strip_hop_by_hop_into(sent.iter().copied(), keep, &mut fields);
    // `TE` is hop-by-hop and therefore not among the sent fields; a kept response is the same for every client.
    if matches!(kind, OriginRequest::Passed) && wants_trailers(&request.fields) {
        fields.push("TE", "trailers");
    }
    match kind {
        OriginRequest::Conditional(stored) => validator::make_conditional(&mut fields, &stored.meta),
        OriginRequest::Rest(range, tag) => {
            fields.push("Range", range);
            fields.push("If-Range", tag);
        }
        _ => {}
    }
    if let Some(forwards) = forwards {
        fields.push("Max-Forwards", forwards.saturating_sub(1).to_string());
    }
    if let Some(accept) = accept {
        fields.push("Accept-Encoding", accept);
    }
    offers.into_iter().for_each(|it| push_offers(it, sent, &mut fields));
    if anonymous && let Some(named) = cookies::only(sent, &policy.key.cookies) {
        fields.push("Cookie", named);
    }
    if strict && !in_key(policy, "user-agent") {
        // Some servers reject requests without it.
        fields.push("User-Agent", "larder");
    }
    append(&mut fields, "Via", via(if strict { Version::Http11 } else { request.version }));
    append(&mut fields, "CDN-Loop", gateway.id.as_bytes());
    let scheme = request.scheme.name();
    if route.forwarded_fields.sends_x_forwarded() {
        if !strict {
            add_client_address(&mut fields, client);
        }
        put(&mut fields, policy, "X-Forwarded-Proto", scheme);
        if !authority.is_empty() {
            put(&mut fields, policy, "X-Forwarded-Host", &authority);
        }
    }
    if route.forwarded_fields.sends_forwarded() {
        let (who, hops) = match strict {
            true => (None, &[][..]),
            false => (client.peer.map(|it| it.ip()), &client.hops[..]),
        };
        put(&mut fields, policy, "Forwarded", &forwarded::forwarded(who, hops, &authority, scheme));
    }
    let (line, variables) = line(route, request, sent, client, &authority, kind, &mut fields);
    // As for `X-Forwarded-For`: a request of a strict key tells nothing of its client.
    let client = if strict { None } else { ends(route, client) };
    OutgoingRequest { line, fields, framing, asked: None, reason: None, client, variables, application: None }
}

/// The ends of the client's connection, for origins that get a PROXY header.
fn ends(route: &GatewayRoute, client: &Client) -> Option<ConnectionEnds> {
    let from = client.peer.filter(|_| route.origins.sends_proxy_header())?;
    let unknown = || {
        SocketAddr::new(
            if from.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() },
            0,
        )
    };
    Some(ConnectionEnds { from, to: client.local.unwrap_or_else(unknown) })
}

/// Whether the request may use the cache without its cookies: it has none of `cache.private_cookies`.
pub fn is_anonymous(policy: &Policy, request: &Request, sent: &[Field<'_>]) -> bool {
    policy.enabled
        && !policy.private_cookies.is_empty()
        && (matches!(request.method.as_str(), "GET" | "HEAD") || is_keyed(sent))
        && !cookies::is_private(sent, policy)
}

/// Whether the client accepts trailers (RFC 9110 §10.1.4).
fn wants_trailers(fields: &FieldList) -> bool {
    fields.get_all("te").flat_map(field::members).any(|it| it.eq_ignore_ascii_case(b"trailers"))
}

/// A request's trailers as the origin gets them: without the fields that larder itself writes into the head, and without
/// those that change the request, and without those that no client can send (`given`). Some applications merge trailers into
/// the head.
#[must_use]
pub fn trailers(mut sent: FieldList, given: &[String]) -> FieldList {
    let of_method = |it: &Field<'_>| METHODS.iter().any(|name| it.is(name));
    sent.retain(|it| {
        trusted_headers::reaches_an_origin(it.name, false, |_| false)
            && !trusted_headers::overrides(it.name)
            && !of_method(&it)
            && !given.iter().any(|name| it.is(name))
    });
    sent
}

/// The authority for the origin, in the spelling of keys. Where a site's hosts share one cache it is the site's name, and
/// none where that is `*` or a pattern: a page must not be made from a host that is in no key.
fn authority<'a>(policy: &'a Policy, request: &'a Request, kind: OriginRequest<'_>) -> Cow<'a, str> {
    match &policy.key.any_host_of {
        Some(site) if !matches!(kind, OriginRequest::Passed) => {
            Cow::Borrowed(if site.starts_with('.') { "" } else { site })
        }
        _ => cache_key::normal(request.scheme, &request.authority),
    }
}

/// The target that an origin gets.
pub fn target(route: &GatewayRoute, request: &Request, client: &Client, kind: OriginRequest<'_>) -> String {
    let target = keyed_target(route, request, kind);
    if route.rewrite.target.is_none() {
        return target.into_owned();
    }
    let (sent, authority) = (request.fields.view(), authority(&route.policy, request, kind));
    let view = rewrite::view(request, &sent, Some(client), route.geo.as_deref());
    let view = RequestView { authority: &authority, target: &target, ..view };
    route.rewrite.rewritten(&view).map_or_else(|| target.clone().into_owned(), |it| it.target)
}

/// The target before the rewrites of the route. A request for the cache has the key's: a parameter that is not in the key must
/// not influence a shared page.
fn keyed_target<'r>(route: &GatewayRoute, request: &'r Request, kind: OriginRequest<'_>) -> Cow<'r, str> {
    match kind {
        OriginRequest::Passed => Cow::Borrowed(request.target.as_str()),
        _ => route.policy.key.target(&request.target),
    }
}

/// The request line for an origin, after the changes of the route to the fields; and the route's variables for an application.
fn line(
    route: &GatewayRoute,
    request: &Rc<Request>,
    sent: &[Field<'_>],
    client: &Client,
    authority: &str,
    kind: OriginRequest<'_>,
    fields: &mut FieldList,
) -> (RequestLine, FieldList) {
    let shared = (!matches!(kind, OriginRequest::Passed)).then_some(&route.policy.key);
    let target = keyed_target(route, request, kind);
    let geo = route.geo.as_deref();
    let view = RequestView { authority, target: &target, ..rewrite::view(request, sent, Some(client), geo) };
    route.rewrite.change(&view, shared, fields);
    let variables = route.rewrite.variables(&view, shared);
    let line = match (route.rewrite.rewritten(&view), target) {
        (Some(it), _) => RequestLine::Own { method: request.method.clone(), target: it.target },
        (None, Cow::Owned(target)) => RequestLine::Own { method: request.method.clone(), target },
        (None, Cow::Borrowed(_)) => RequestLine::Of(request.clone()),
    };
    (line, variables)
}

/// Adds the client's address, after those of the trusted proxies that passed the request on.
pub fn add_client_address(fields: &mut FieldList, client: &Client) {
    let Some(peer) = client.peer else { return };
    let text = AddressText::of(peer.ip().to_canonical());
    if client.hops.is_empty() {
        return fields.push("X-Forwarded-For", text.bytes());
    }
    let mut all = text.bytes().to_vec();
    for hop in client.hops.iter().flatten() {
        all.extend_from_slice(b", ");
        all.extend_from_slice(AddressText::of(*hop).bytes());
    }
    fields.push("X-Forwarded-For", all);
}

/// Adds how the request arrived, unless a field says so already: a client's own field was removed unless the key has it.
fn put(fields: &mut FieldList, policy: &Policy, name: &str, value: &str) {
    if !in_key(policy, name) || fields.get(name).is_none() {
        fields.push(name, value);
    }
}

/// The value that replaces the client's `Accept-Encoding` where the answer may be shared: its normal form, or the coding
/// from which the route makes the form that each client accepts.
fn accept_encoding(policy: &Policy, sent: &[Field<'_>], kind: OriginRequest<'_>) -> Option<&'static str> {
    let stored = match kind {
        OriginRequest::Passed => return None,
        // larder compresses itself.
        _ if policy.key.strict && !in_key(policy, "accept-encoding") => return Some("identity"),
        _ if !policy.enabled => return None,
        // Each client's accepted codings select a variant, made from the value that the origin was sent.
        _ if policy.compress.is_none() => return vary::normal_encodings(sent),
        OriginRequest::AsSent | OriginRequest::Rest(..) => return vary::normal_encodings(sent),
        OriginRequest::Head | OriginRequest::Whole => None,
        OriginRequest::Conditional(stored) => Some(transcode::coding_of(&stored.fields().view())),
    };
    Some(transcode::accept_encoding(sent, stored))
}

/// Adds the offers that a request prefers. One that accepts no media type of them gets what the application has for one without the field.
fn push_offers(key: &KeyRecipe, sent: &[Field<'_>], fields: &mut FieldList) {
    if let Some(offer) = key.accept.preferred(sent) {
        fields.push("Accept", offer);
    }
    if let Some(offer) = key.languages.preferred(sent) {
        fields.push("Accept-Language", offer);
    }
}

/// The key whose offers replace the client's fields, where the answer may be shared.
fn offers<'p>(policy: &'p Policy, kind: OriginRequest<'_>) -> Option<&'p KeyRecipe> {
    (policy.enabled && !matches!(kind, OriginRequest::Passed)).then_some(&policy.key)
}

/// How many times the request may still be forwarded (RFC 9110 §7.6.2), for OPTIONS; TRACE is never forwarded. `None`
/// without a valid value. A number above larder's largest counts as that.
#[must_use]
pub fn max_forwards(method: &str, fields: &[Field<'_>]) -> Option<u64> {
    if method != "OPTIONS" {
        return None;
    }
    let mut values = field::all(fields, "max-forwards");
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let digits = std::str::from_utf8(value).ok().filter(|it| !it.is_empty())?;
    digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Removes the fields that `Connection` nominates before anything is decided by them. A field that the origin never sees
/// must select no variant and be part of no key, or a client could store one page under another's key.
pub fn drop_nominated(fields: &mut FieldList) {
    if !nominates_some(fields) {
        return;
    }
    let before = fields.clone();
    let before = before.view();
    fields.retain(|it| !is_nominated(it.name, &before) || is_never_nominated(it.name));
}

/// Whether a request has a field that [`drop_nominated`] may drop.
#[must_use]
pub fn nominates_some(fields: &FieldList) -> bool {
    fields.get_all("connection").any(nominates)
}

/// The same for a head that is still in the read buffer.
#[must_use]
pub fn has_nominated(fields: &[Field<'_>]) -> bool {
    fields.iter().any(|it| it.name.len() == 10 && it.is("connection") && nominates(it.value))
}

/// Whether a value of `Connection` names anything but the connection's own options.
fn nominates(value: &[u8]) -> bool {
    value.split(|it| *it == b',').any(|it| {
        let it = it.trim_ascii();
        !it.eq_ignore_ascii_case(b"keep-alive") && !it.eq_ignore_ascii_case(b"close")
    })
}

/// The status with which a request is refused before the cache or an origin is asked, if it is refused.
#[must_use]
pub fn refused(gateway: &Gateway, method: &str, fields: &[Field<'_>]) -> Option<u16> {
    match refuses_method(method) {
        true => Some(405),
        false => gateway.has_passed(fields).then_some(508),
    }
}

/// Whether a method is refused (405).
#[must_use]
pub fn refuses_method(method: &str) -> bool {
    matches!(method, "CONNECT" | "TRACE")
}

impl Gateway {
    /// Whether a request has passed this process before (RFC 8586): larder would ask itself in a loop.
    #[must_use]
    pub fn has_passed(&self, fields: &[Field<'_>]) -> bool {
        let ours = |it: &[u8]| {
            it.split(|it| matches!(it, b',' | b';')).any(|it| it.trim_ascii() == self.id.as_bytes())
        };
        fields.iter().any(|it| it.is("cdn-loop") && ours(it.value))
    }
}

/// Whether an origin's answer cannot belong to this request and would mislead the client: a 304 without a condition, a
/// part (206) where the whole was requested (RFC 9110 §15.3.7).
pub fn is_unasked(request: &Request, conditional: bool, status: u16) -> bool {
    match status {
        304 => !conditional,
        206 => {
            matches!(request.method.as_str(), "GET" | "HEAD" | "QUERY") && !request.fields.contains("range")
        }
        _ => false,
    }
}

/// The name of an [`is_unasked`] answer in the report of the failure.
#[must_use]
pub fn unasked(status: u16) -> &'static str {
    match status {
        206 => "the origin answered 206 to a request without Range (RFC 9110 §15.3.7)",
        _ => "the origin answered 304 to a request without a condition (RFC 9110 §15.4.5)",
    }
}

/// The fields by which a request asks for less than the whole, or only under a condition.
/// Whether a field describes a body (RFC 9110 §8.3 to §8.7), other than its length.
fn is_of_body(it: &Field<'_>) -> bool {
    ["content-type", "content-encoding", "content-language", "content-location"]
        .iter()
        .any(|name| it.is(name))
}

fn is_condition(it: &Field<'_>) -> bool {
    match it.name.len() {
        5 => it.is("range"),
        8 => it.is("if-match") || it.is("if-range"),
        13 => it.is("if-none-match"),
        17 => it.is("if-modified-since"),
        19 => it.is("if-unmodified-since"),
        _ => false,
    }
}

/// larder's member of `Via` (RFC 9110 §7.6.3): the protocol in which the message arrived.
fn via(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0 larder",
        Version::Http11 => b"1.1 larder",
        Version::Http2 => b"2.0 larder",
        Version::Http3 => b"3.0 larder",
    }
}

/// Appends `member` to the list field `name`, after the members that are there.
fn append(fields: &mut FieldList, name: &str, member: &[u8]) {
    if !fields.contains(name) {
        return fields.push(name, member);
    }
    let mut value: Vec<u8> = Vec::new();
    for it in fields.get_all(name) {
        if !value.is_empty() {
            value.extend_from_slice(b", ");
        }
        value.extend_from_slice(it);
    }
    if !value.is_empty() {
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(member);
    fields.set(name, value);
}

/// The response's fields for the client that asked: end-to-end, with larder's `Via`. `Content-Length` is kept only where
/// no body follows and the length is meaningful (HEAD, 304).
#[must_use]
pub fn returned(mut fields: FieldList, version: Version, bodyless: bool) -> FieldList {
    let length = if bodyless { fields.get("content-length").map(<[u8]>::to_vec) } else { None };
    fields.reserve(ADDED_LINES, ADDED_BYTES);
    strip_hop_by_hop_in(&mut fields);
    if let Some(length) = length {
        fields.push("Content-Length", length);
    }
    append(&mut fields, "Via", via(version));
    fields
}

/// The same for a final response. Like a stored one it has one valid `Date`, the origin's first or the current time (RFC
/// 9110 §6.6.1). Superfluous lines of other fields stay as they came.
#[must_use]
pub fn returned_final(fields: FieldList, version: Version, bodyless: bool) -> FieldList {
    let mut kept = returned(fields, version, bodyless);
    let is_dated_once = {
        let mut dates = kept.get_all("date");
        dates.next().and_then(date::parse).is_some() && dates.next().is_none()
    };
    if !is_dated_once {
        let date = freshness::dated(&kept.view()).unwrap_or_else(clock::wall);
        kept.set("Date", date::format(date));
    }
    kept
}

/// Adds larder's `Via` to fields that are about to be stored.
pub fn mark_stored(fields: &mut FieldList, version: Version, policy: &Policy) {
    append(fields, "Via", via(version));
    if policy.x_cache {
        fields.remove("x-cache"); // Each hit has ours.
    }
}

/// Why a request bypasses the cache, decided before any lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// `cache.enabled = false` for the route.
    Disabled,
    /// The path can be read in two ways that belong to different routes. Only `explain` distinguishes it from `Disabled`.
    TwoWays,
    /// The path has an interpretation of which the route's rewrite makes another target.
    Rewrite,
    /// The method is neither GET nor HEAD.
    Method,
    /// A QUERY that has no `Content-Type`, or a body that is too large for a key.
    Query,
    /// A GET with a body, which is dropped: no key contains it.
    Body,
    /// The same where the body is passed on (`cache.get_bodies`).
    PassedBody,
    /// The target is malformed: servers read it in different ways.
    MalformedTarget,
    /// The request asks for another protocol than HTTP.
    Upgrade,
    /// One of `cache.private_cookies`.
    PrivateCookie,
    /// A field that applications may take for another target, method or user; [`overriding`] names it.
    Override,
    /// A field that is not in the key, where that is strict, and cannot be left out; [`overriding`] names it.
    Unkeyed,
    /// `OPTIONS *` and other targets that name no resource.
    Target,
    /// The route demands credentials that identify the client, and the key has no identity.
    Credentials,
}

impl Bypass {
    /// The reason of a request that bypasses the cache.
    #[must_use]
    pub fn reason(self) -> MissReason {
        match self {
            Bypass::Disabled => MissReason::CacheOff,
            Bypass::TwoWays | Bypass::Rewrite => MissReason::AmbiguousPath,
            Bypass::Method | Bypass::Query => MissReason::Method,
            Bypass::Body | Bypass::PassedBody => MissReason::RequestBody,
            Bypass::MalformedTarget | Bypass::Target => MissReason::MalformedTarget,
            Bypass::Upgrade => MissReason::Upgrade,
            Bypass::PrivateCookie => MissReason::PrivateCookie,
            Bypass::Override => MissReason::OverridingField,
            Bypass::Unkeyed => MissReason::UnkeyedField,
            Bypass::Credentials => MissReason::Authorization,
        }
    }

    /// Whether a change of the request or of the route may lead it to the cache. Of an ambiguous path larder cannot say
    /// which reading is meant.
    pub(crate) fn has_remedy(self) -> bool {
        !matches!(
            self,
            Bypass::TwoWays | Bypass::Rewrite | Bypass::Upgrade | Bypass::MalformedTarget | Bypass::Query
        )
    }

    /// One sentence for `explain`.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Bypass::Disabled => "the route does not use the cache (cache.enabled = false)",
            Bypass::TwoWays => "the path is ambiguous: two readings of it match different routes",
            Bypass::Rewrite => {
                "the path is ambiguous: its literal form and its normal form are rewritten to different targets"
            }
            Bypass::Method => "only GET and HEAD use the cache",
            Bypass::Query => {
                "the QUERY has no Content-Type, or a body larger than cache.query_body; explain has no body by which a stored \
                 response could be found"
            }
            Bypass::Body => {
                "the request has a body, which is not part of the key: the body is dropped, and the response is not \
                 stored"
            }
            Bypass::PassedBody => {
                "the request has a body, which no key can hold: it is passed on (cache.get_bodies), and nothing is kept"
            }
            Bypass::MalformedTarget => {
                "the target has one of \", <, > and \\, or a % without two hexadecimal digits: it is forwarded unchanged, and \
                 nothing is stored"
            }
            Bypass::Upgrade => "the request asks for a protocol upgrade (site.route.upgrade)",
            Bypass::PrivateCookie => "the request carries one of cache.private_cookies",
            Bypass::Override => "a header field may change the target, method or user for the origin",
            Bypass::Unkeyed => "the key is strict (cache.key.strict) and a header field is not part of it",
            Bypass::Target => "the target is not a resource",
            Bypass::Credentials => {
                "the route demands credentials, and no client may get the response to another (access.key = \"identity\" \
                 gives each client a cache, access.shared = true gives all clients one)"
            }
        }
    }
}

/// Whether the answer to a POST may be kept for GET, if it says so itself: not where a GET with the same fields would
/// bypass the cache.
#[must_use]
pub fn may_keep_post(policy: &Policy, facts: &RequestFacts<'_>, target: &str, fields: &[Field<'_>]) -> bool {
    let get = RequestFacts { method: "GET", has_body: false, ..facts.clone() };
    // The POST asks with the host and target that a GET would use.
    let by_key = policy.key.any_host_of.is_none() && policy.key.target(target) == target;
    let by_key = by_key && policy.key.accept.is_empty() && policy.key.languages.is_empty();
    facts.method == "POST" && by_key && !policy.key.strict && bypass(policy, &get, target, fields).is_none()
}

/// Whether the route has the field in its key, so that its effect reaches no other client.
fn in_key(policy: &Policy, name: &str) -> bool {
    policy.key.headers.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a field makes a request bypass the cache: the key is strict and lacks it, and it cannot be left out of the
/// origin's request. Its sender may expect another answer because of it.
#[must_use]
pub fn is_unkeyed(policy: &Policy, it: &Field<'_>) -> bool {
    if !policy.key.strict || in_key(policy, it.name) {
        return false;
    }
    if it.is("cookie") {
        return policy.private_cookies.is_empty();
    }
    if it.is("accept") && !policy.key.accept.is_empty() {
        return false;
    }
    if it.is("accept") {
        return !(contains(it.value, b"*/*") || contains(it.value, b"text/html"));
    }
    !trusted_headers::is_left_out(it.name)
        && !is_hop_by_hop(it.name)
        && trusted_headers::reaches_an_origin(it.name, false, |_| false)
}

fn contains(value: &[u8], part: &[u8]) -> bool {
    value.windows(part.len()).any(|it| it == part)
}

/// The fields that cause [`Bypass::Override`] or [`Bypass::Unkeyed`] for a request, and whether the route's key could
/// contain each.
pub fn overriding<'f>(
    policy: &Policy,
    fields: &'f [Field<'f>],
) -> impl Iterator<Item = (&'f Field<'f>, bool)> {
    let of_method = |it: &Field<'_>| METHODS.iter().any(|name| it.is(name));
    fields.iter().filter_map(move |it| match () {
        () if of_method(it) => Some((it, false)),
        () if trusted_headers::overrides(it.name) && !in_key(policy, it.name) => Some((it, true)),
        () if is_unkeyed(policy, it) => Some((it, true)),
        () => None,
    })
}

/// The fields behind [`RequestFacts::method_override`]: no key contains their values.
pub const METHODS: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];

/// Whether the response belongs to the one client whose credentials admitted the request.
fn is_private(policy: &Policy, fields: &[Field<'_>]) -> bool {
    match policy.credentials {
        CredentialUse::None | CredentialUse::Shared => false,
        CredentialUse::Private => true,
        CredentialUse::InKey => !fields.iter().any(|it| it.name == IDENTITY),
    }
}

/// Decides whether a request bypasses the cache.
#[must_use]
pub fn bypass(
    policy: &Policy,
    facts: &RequestFacts<'_>,
    target: &str,
    fields: &[Field<'_>],
) -> Option<Bypass> {
    if !policy.enabled {
        Some(Bypass::Disabled)
    } else if is_private(policy, fields) {
        Some(Bypass::Credentials)
    } else if facts.method == "QUERY" && policy.query_body.is_some() {
        Some(Bypass::Query)
    } else if !matches!(facts.method, "GET" | "HEAD") {
        Some(Bypass::Method)
    } else if facts.has_body {
        Some(if policy.get_bodies == GetBodies::Pass { Bypass::PassedBody } else { Bypass::Body })
    } else if !target.starts_with('/') {
        Some(Bypass::Target)
    } else if is_malformed(target) {
        Some(Bypass::MalformedTarget)
    // Most requests have no private cookie: their target is not searched for an extension.
    } else if cookies::is_private(fields, policy) && (policy.key.strict || !cookies::is_file(target)) {
        Some(Bypass::PrivateCookie)
    } else if facts.method_override
        || fields.iter().any(|it| trusted_headers::overrides(it.name) && !in_key(policy, it.name))
    {
        Some(Bypass::Override)
    } else if policy.key.strict && fields.iter().any(|it| is_unkeyed(policy, it)) {
        Some(Bypass::Unkeyed)
    } else {
        None
    }
}

/// Whether the body of the request is in its key.
fn is_keyed(fields: &[Field<'_>]) -> bool {
    fields.iter().any(|it| it.name == larder_semantics::key::KEYED_BODY)
}
