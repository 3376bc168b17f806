//! What a request becomes on its way to the origin, and a response on its way to the client: end-to-end
//! fields only, made anew from what was understood (RFC 9110 §7.6).

use crate::cache_key;
use crate::route::{Gateway, GatewayRoute};
use crate::trusted_headers;
use larder_origin::{OutgoingRequest, RequestLine};
use larder_semantics::cookies;
use larder_semantics::date;
use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::forwarded;
use larder_semantics::freshness;
use larder_semantics::policy::{GetBodies, Policy};
use larder_semantics::request::RequestFacts;
use larder_semantics::stored::is_nominated;
use larder_semantics::target::is_malformed;
use larder_semantics::transcode;
use larder_semantics::validator;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::Stored;
use larder_transport::Client;
use larder_wire::message::fields::{
    ADDED_BYTES, ADDED_LINES, is_hop_by_hop, is_never_nominated, strip_hop_by_hop_into,
};
use larder_wire::message::{Framing, Request, Version};
use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::rc::Rc;

/// What is asked of the origin.
#[derive(Clone, Copy)]
pub enum OriginRequest<'a> {
    /// Exactly what the client asked, with nothing to keep of the answer.
    Passed,
    /// What the client asked, its conditions and range included, by the key: the answer may be kept.
    AsSent,
    /// The same in the coding in which a GET would ask for the whole, so that the head of the one is that of the other.
    Head,
    /// The whole representation, whatever the client's conditions.
    Whole,
    /// The whole representation if it is no longer this one (RFC 9111 §4.3.1).
    Conditional(&'a Stored),
    /// The rest of a representation that is held in part (RFC 9111 §3.3): this `Range`, `If-Range` this tag.
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
    ask: OriginRequest<'_>,
) -> OutgoingRequest {
    let policy = &route.policy;
    let strict = policy.key.strict && !matches!(ask, OriginRequest::Passed);
    let anonymous = policy.enabled
        && !policy.private_cookies.is_empty()
        && matches!(request.method.as_str(), "GET" | "HEAD")
        && !cookies::is_private(sent, &policy.private_cookies);
    let drops_conditions = matches!(ask, OriginRequest::Whole | OriginRequest::Rest(..));
    let accept = accept_encoding(policy, sent, ask);
    let forwards = max_forwards(&request.method, sent);
    let has_lost_body = framing == Framing::Empty && request.framing != Framing::Empty;
    let keep = |it: &Field<'_>| match it.name.len() {
        12 | 16 if has_lost_body && is_of_body(it) => false,
        15 if accept.is_some() && it.is("accept-encoding") => false,
        12 if forwards.is_some() && it.is("max-forwards") => false,
        6 => !(anonymous && it.is("cookie") || it.is("expect")),
        _ => !(drops_conditions && is_condition(it)),
    };
    let authority = authority(policy, request, ask);
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
    // It is said from hop to hop, so it is not among what was sent; what is kept is the same for all who ask.
    if matches!(ask, OriginRequest::Passed) && wants_trailers(&request.fields) {
        fields.push("TE", "trailers");
    }
    match ask {
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
    if anonymous && let Some(named) = cookies::only(sent, &policy.key.cookies) {
        fields.push("Cookie", named);
    }
    if strict && !in_key(policy, "user-agent") {
        // Some turn away who has none.
        fields.push("User-Agent", "larder");
    }
    append(&mut fields, "Via", via(if strict { Version::Http11 } else { request.version }));
    append(&mut fields, "CDN-Loop", gateway.id.as_bytes());
    let scheme = request.scheme.name();
    if route.telling.tells_x() {
        if !strict {
            say_who(&mut fields, client);
        }
        say(&mut fields, policy, "X-Forwarded-Proto", scheme);
        if !authority.is_empty() {
            say(&mut fields, policy, "X-Forwarded-Host", &authority);
        }
    }
    if route.telling.tells_forwarded() {
        let (who, hops) = match strict {
            true => (None, &[][..]),
            false => (client.peer.map(|it| it.ip()), &client.hops[..]),
        };
        say(&mut fields, policy, "Forwarded", &forwarded::forwarded(who, hops, &authority, scheme));
    }
    OutgoingRequest { line: line(policy, request, ask), fields, framing, asked: None }
}

/// Whether the client takes trailers (RFC 9110 §10.1.4).
fn wants_trailers(fields: &FieldList) -> bool {
    fields.get_all("te").flat_map(field::members).any(|it| it.eq_ignore_ascii_case(b"trailers"))
}

/// The trailers of a request as the origin gets them: nothing that larder says in the head itself, and nothing that changes what a request
/// is. There are applications that join the two.
#[must_use]
pub fn trailers(mut sent: FieldList) -> FieldList {
    let of_method = |it: &Field<'_>| METHODS.iter().any(|name| it.is(name));
    sent.retain(|it| {
        trusted_headers::reaches_an_origin(it.name, false, |_| false)
            && !trusted_headers::overrides(it.name)
            && !of_method(&it)
    });
    sent
}

/// The authority that the origin is told: in the one spelling that keys have. Where the hosts of a site share one cache it is told the
/// site's for all of them, and none where that is no name (`*`, or a pattern): a page must not be made of a host that is in no key.
fn authority<'a>(policy: &'a Policy, request: &'a Request, ask: OriginRequest<'_>) -> Cow<'a, str> {
    match &policy.key.any_host_of {
        Some(site) if !matches!(ask, OriginRequest::Passed) => {
            Cow::Borrowed(if site.starts_with('.') { "" } else { site })
        }
        _ => cache_key::normal(request.scheme, &request.authority),
    }
}

/// The request line: what is asked for the cache is the target as the key has it.
fn line(policy: &Policy, request: &Rc<Request>, ask: OriginRequest<'_>) -> RequestLine {
    match policy.key.target(&request.target) {
        Cow::Owned(target) if !matches!(ask, OriginRequest::Passed) => {
            RequestLine::Own { method: request.method.clone(), target }
        }
        _ => RequestLine::Of(request.clone()),
    }
}

/// Says who asks: its address, and those of proxies that are believed by which it came.
fn say_who(fields: &mut FieldList, client: &Client) {
    let Some(peer) = client.peer else { return };
    let mut text = [0; 46]; // The longest IPv6 address has 45 characters.
    let length = write_address(peer.ip().to_canonical(), &mut text);
    if client.hops.is_empty() {
        return fields.push("X-Forwarded-For", &text[..length]);
    }
    let mut all = text[..length].to_vec();
    for hop in client.hops.iter().flatten() {
        let length = write_address(*hop, &mut text);
        all.extend_from_slice(b", ");
        all.extend_from_slice(&text[..length]);
    }
    fields.push("X-Forwarded-For", all);
}

/// Says by which way the request came, where nobody before has said it: what a client wrote there was dropped unless the key
/// has it.
fn say(fields: &mut FieldList, policy: &Policy, name: &str, value: &str) {
    if !in_key(policy, name) || fields.get(name).is_none() {
        fields.push(name, value);
    }
}

/// Writes an address as text; its length.
fn write_address(address: IpAddr, text: &mut [u8; 46]) -> usize {
    let mut rest = &mut text[..];
    // The general way through the formatter takes as long as the rest of the head.
    let _ = match address {
        IpAddr::V4(it) => it.octets().iter().enumerate().try_for_each(|(at, octet)| {
            rest.write_all(if at > 0 { b"." } else { b"" })?;
            rest.write_all(itoa::Buffer::new().format(*octet).as_bytes())
        }),
        IpAddr::V6(it) => write!(rest, "{it}"),
    };
    46 - rest.len()
}

/// What the origin is sent in place of the client's `Accept-Encoding`, where the answer may be shared: its normal form, or what the
/// route asks for that brings the answer into the form that each client accepts.
fn accept_encoding(policy: &Policy, sent: &[Field<'_>], ask: OriginRequest<'_>) -> Option<&'static str> {
    let stored = match ask {
        OriginRequest::Passed => return None,
        // larder compresses itself.
        _ if policy.key.strict && !in_key(policy, "accept-encoding") => return Some("identity"),
        _ if !policy.enabled => return None,
        // What each client accepts selects a variant, which is of what the origin was sent.
        _ if policy.compress.is_none() => return vary::normal_encodings(sent),
        OriginRequest::AsSent | OriginRequest::Rest(..) => return vary::normal_encodings(sent),
        OriginRequest::Head | OriginRequest::Whole => None,
        OriginRequest::Conditional(stored) => Some(transcode::coding_of(&stored.fields().view())),
    };
    Some(transcode::ask(sent, stored))
}

/// How many times the request may still be passed on (RFC 9110 §7.6.2): it is looked at for OPTIONS, as TRACE goes no
/// further anyway. `None` where nothing, or nothing valid, says so. A number beyond ours is our largest.
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

/// Drops what `Connection` nominates before anything is decided by it: a field that the origin never sees must
/// select no variant and be part of no key, or a stranger could store one page under another's key.
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

/// The same of a head that is still in the read buffer.
#[must_use]
pub fn has_nominated(fields: &[Field<'_>]) -> bool {
    fields.iter().any(|it| it.name.len() == 10 && it.is("connection") && nominates(it.value))
}

/// Whether a value of `Connection` names anything but what becomes of the connection.
fn nominates(value: &[u8]) -> bool {
    value.split(|it| *it == b',').any(|it| {
        let it = it.trim_ascii();
        !it.eq_ignore_ascii_case(b"keep-alive") && !it.eq_ignore_ascii_case(b"close")
    })
}

/// The status with which a request is refused before the cache or an origin is asked, if it is.
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
    /// Whether a request has passed this very process before (RFC 8586): larder would ask itself for ever.
    #[must_use]
    pub fn has_passed(&self, fields: &[Field<'_>]) -> bool {
        let ours = |it: &[u8]| {
            it.split(|it| matches!(it, b',' | b';')).any(|it| it.trim_ascii() == self.id.as_bytes())
        };
        fields.iter().any(|it| it.is("cdn-loop") && ours(it.value))
    }
}

/// Whether an origin's answer cannot be one to this request, and would be taken for something else by the client: a 304
/// where nobody had asked on a condition, a part (206) where the whole was asked for (RFC 9110 §15.3.7).
pub fn is_unasked(request: &Request, conditional: bool, status: u16) -> bool {
    match status {
        304 => !conditional,
        206 => matches!(request.method.as_str(), "GET" | "HEAD") && !request.fields.contains("range"),
        _ => false,
    }
}

/// What [`is_unasked`] is called where the failure is told.
#[must_use]
pub fn unasked(status: u16) -> &'static str {
    match status {
        206 => "the origin answered 206 to a request without Range (RFC 9110 §15.3.7)",
        _ => "the origin answered 304 to a request without a condition (RFC 9110 §15.4.5)",
    }
}

/// The fields by which a request asks for less than the whole, or only if something holds.
/// What is said of a body (RFC 9110 §8.3 to §8.7), but for its length.
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

/// Our own mark in `Via` (RFC 9110 §7.6.3): the protocol in which the message came to us.
fn via(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"1.0 larder",
        Version::Http11 => b"1.1 larder",
        Version::Http2 => b"2.0 larder",
    }
}

/// Adds `member` to the list field `name`, keeping what others wrote.
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

/// The response's fields as the client that asked gets them: end-to-end, with our `Via`. `Content-Length` is
/// kept only where no body follows and it tells something (HEAD, 304).
#[must_use]
pub fn returned(fields: &FieldList, version: Version, bodyless: bool) -> FieldList {
    let mut kept = FieldList::with_capacity(fields.len() + ADDED_LINES, fields.text().len() + ADDED_BYTES);
    strip_hop_by_hop_into(fields.iter(), |_| true, &mut kept);
    if bodyless && let Some(length) = fields.get("content-length") {
        kept.push("Content-Length", length);
    }
    append(&mut kept, "Via", via(version));
    kept
}

/// The same for a final response. As what is stored it has one valid `Date`, the first of the origin's or now: that is ours to see
/// to (RFC 9110 §6.6.1). Of other fields lines that should not be there twice stay as they came.
#[must_use]
pub fn returned_final(fields: &FieldList, version: Version, bodyless: bool) -> FieldList {
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

/// Adds our `Via` to fields that are about to be stored.
pub fn mark_stored(fields: &mut FieldList, version: Version, policy: &Policy) {
    append(fields, "Via", via(version));
    if policy.x_cache {
        fields.remove("x-cache"); // Each hit has ours.
    }
}

/// Why a request does not use the cache, decided before anything is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// `cache.enabled = false` for the route.
    Disabled,
    /// The path can be read in two ways, of which different routes answer. Only `explain` tells it from `Disabled`.
    TwoWays,
    /// The method is neither GET nor HEAD.
    Method,
    /// A GET with a body, which is dropped: its meaning is in no key.
    Body,
    /// The same where the body is passed on (`cache.get_bodies`).
    PassedBody,
    /// The target is malformed: servers read it in different ways.
    MalformedTarget,
    /// It asks to go on in another protocol than HTTP.
    Upgrade,
    /// One of `cache.private_cookies`.
    PrivateCookie,
    /// A field that applications may take for another target, method or user: [`overriding`] finds it.
    Override,
    /// A field that is not in the key, where that is strict, and cannot be left out: [`overriding`] finds it.
    Unkeyed,
    /// `OPTIONS *` and other targets that name no resource.
    Target,
}

impl Bypass {
    /// One sentence for `explain`.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Bypass::Disabled => "the route does not use the cache (cache.enabled = false)",
            Bypass::TwoWays => "the path is ambiguous: two readings of it match different routes",
            Bypass::Method => "only GET and HEAD use the cache",
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
        }
    }
}

/// Whether the answer to a POST may be kept for GET, should it say so itself: not where a GET with the same fields
/// would pass the cache.
#[must_use]
pub fn may_keep_post(policy: &Policy, facts: &RequestFacts<'_>, target: &str, fields: &[Field<'_>]) -> bool {
    let get = RequestFacts { method: "GET", has_body: false, ..facts.clone() };
    // What it was asked with is what a GET would be asked with.
    let by_key = policy.key.any_host_of.is_none() && policy.key.target(target) == target;
    facts.method == "POST" && by_key && !policy.key.strict && bypass(policy, &get, target, fields).is_none()
}

/// Whether the route has the field in its key, so that what it changes is nobody else's.
fn in_key(policy: &Policy, name: &str) -> bool {
    policy.key.headers.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a field keeps a request from the cache because the key is strict, does not have it, and it is none that can be left out of what
/// is asked: whoever sends it may well want another answer for it.
#[must_use]
pub fn is_unkeyed(policy: &Policy, it: &Field<'_>) -> bool {
    if !policy.key.strict || in_key(policy, it.name) {
        return false;
    }
    if it.is("cookie") {
        return policy.private_cookies.is_empty();
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

/// The fields because of which a request has [`Bypass::Override`] or [`Bypass::Unkeyed`], and whether the route's key could have each.
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

/// The fields that [`RequestFacts::method_override`] is of: no key has what they say.
pub const METHODS: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];

/// Decides whether the cache is used at all.
#[must_use]
pub fn bypass(
    policy: &Policy,
    facts: &RequestFacts<'_>,
    target: &str,
    fields: &[Field<'_>],
) -> Option<Bypass> {
    if !policy.enabled {
        Some(Bypass::Disabled)
    } else if !matches!(facts.method, "GET" | "HEAD") {
        Some(Bypass::Method)
    } else if facts.has_body {
        Some(if policy.get_bodies == GetBodies::Pass { Bypass::PassedBody } else { Bypass::Body })
    } else if !target.starts_with('/') {
        Some(Bypass::Target)
    } else if is_malformed(target) {
        Some(Bypass::MalformedTarget)
    } else if cookies::is_private(fields, &policy.private_cookies) {
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
