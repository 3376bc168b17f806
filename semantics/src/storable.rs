//! May this response be stored? RFC 9111 §3, decided once, here.

use crate::cache_control::ResponseDirectives;
use crate::cookies;
use crate::field::{self, Field, FieldList, all, first, lines, members};
use crate::file_order;
use crate::freshness::{
    AgeInputs, Expires, Lifetime, LifetimeInputs, LifetimeSource, is_heuristic_status, overrides,
};
use crate::policy::Policy;
use crate::range::HeldRange;
use crate::request::{ORDINARY_HEAD, RequestFacts, Uri};
use crate::stored::{always_validated, etag, is_implicit, vary};
use crate::trace::{RuleOutcome, RuleTrace};
use larder_stdx::clock::WallTime;

/// The decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storable {
    /// It may be stored and shared.
    Store,
    /// It may not be stored, for this reason.
    Refuse(NotStorable),
}

/// The reason for not storing a response. Each is one sentence of RFC 9111 §3 or one line of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStorable {
    /// The route does not use the cache.
    Disabled,
    /// The request method is not cacheable (RFC 9111 §3): neither GET, nor a POST whose response has explicit freshness
    /// and its own target as `Content-Location` (RFC 9110 §9.3.3).
    Method,
    /// The GET or HEAD had a body, which is not part of the key.
    RequestBody,
    /// The request had `no-store` (RFC 9111 §5.2.1.5).
    RequestNoStore,
    /// The status is not final, depends on the form of this one request, or is not understood while `must-understand`
    /// requires it.
    Status,
    /// The response had `no-store` (RFC 9111 §5.2.2.5).
    NoStore,
    /// The response had `private` (RFC 9111 §5.2.2.7).
    Private,
    /// The request had `Authorization` and the response has no permission to be shared (RFC 9111 §3.5).
    Authorization,
    /// The request had a cookie, `Authorization` or a field that identifies the client, and neither the response nor the route permits sharing.
    Credentials,
    /// The response sets a cookie, and the route does not permit storing it.
    SetCookie,
    /// `Vary: *` (RFC 9111 §4.1).
    VaryStar,
    /// A redirect to the URL of the request.
    RedirectLoop,
    /// No explicit lifetime, and the status has no heuristic one (RFC 9111 §3, last list).
    NoLifetime,
    /// Stale on arrival, without a validator and without permission to be served stale: it could never be used.
    Useless,
    /// The same, but within the one-second precision of ages: the next response may arrive in time.
    Late,
    /// Too large for the largest object size.
    TooLarge,
    /// A rule of the route says `pass`.
    Rule,
    /// A stream of events, which continues as long as a client listens.
    Endless,
    /// A 206 that cannot be stored: no single valid `Content-Range`, or not requested.
    Partial,
    /// It orders a file to be sent in place of its body: the application decided about this one request.
    FileOrder,
}

impl Storable {
    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Storable::Store => "store",
            Storable::Refuse(why) => why.name(),
        }
    }

    /// One sentence for display.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Storable::Store => "The response may be stored and shared.",
            Storable::Refuse(why) => why.sentence(),
        }
    }
}

impl NotStorable {
    /// Whether the next request for the same page will most likely be refused as well, so that no request should wait for
    /// another's fetch. Not effects of one request's own fields, and not temporary errors.
    #[must_use]
    pub fn is_about_the_page(self, status: u16) -> bool {
        match self {
            NotStorable::Disabled
            | NotStorable::Rule
            | NotStorable::NoStore
            | NotStorable::Private
            | NotStorable::Credentials
            | NotStorable::SetCookie
            | NotStorable::VaryStar
            | NotStorable::RedirectLoop
            | NotStorable::NoLifetime
            | NotStorable::Useless
            | NotStorable::TooLarge
            | NotStorable::Endless
            | NotStorable::FileOrder => status < 500,
            NotStorable::Status => matches!(status, 401 | 407),
            NotStorable::Method
            | NotStorable::RequestBody
            | NotStorable::RequestNoStore
            | NotStorable::Authorization
            | NotStorable::Late
            | NotStorable::Partial => false,
        }
    }

    /// Whether the refusal alone shows that the response is specific to one visitor, or hides that.
    #[must_use]
    pub fn is_one_visitors(self) -> bool {
        use NotStorable::{
            Authorization, Credentials, Endless, FileOrder, NoStore, Private, RedirectLoop, SetCookie,
            VaryStar,
        };
        let of_the_request = matches!(self, Authorization | Credentials);
        let of_the_page = matches!(self, NoStore | Private | SetCookie | VaryStar | Endless | FileOrder);
        // The rule precedes that of `private`.
        of_the_request || of_the_page || self == RedirectLoop
    }

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NotStorable::Disabled => "disabled",
            NotStorable::Method => "method",
            NotStorable::RequestBody => "request-body",
            NotStorable::RequestNoStore => "request-no-store",
            NotStorable::Status => "status",
            NotStorable::NoStore => "no-store",
            NotStorable::Private => "private",
            NotStorable::Authorization => "authorization",
            NotStorable::Credentials => "credentials",
            NotStorable::SetCookie => "set-cookie",
            NotStorable::VaryStar => "vary-star",
            NotStorable::RedirectLoop => "redirect-loop",
            NotStorable::NoLifetime => "no-lifetime",
            NotStorable::Useless => "useless",
            NotStorable::Late => "late",
            NotStorable::TooLarge => "too-large",
            NotStorable::Rule => "rule",
            NotStorable::Endless => "endless",
            NotStorable::Partial => "partial",
            NotStorable::FileOrder => "file-order",
        }
    }

    /// One sentence for display.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            NotStorable::Disabled => "The route does not use the cache.",
            NotStorable::Method => "Responses to this method are not stored.",
            NotStorable::RequestBody => "The request had a body, which is not part of the cache key.",
            NotStorable::RequestNoStore => "The request has no-store.",
            NotStorable::Status => "Responses with this status are not stored.",
            NotStorable::NoStore => "The response has no-store.",
            NotStorable::Private => "The response has private: it is for one client.",
            NotStorable::Authorization => {
                "The request has Authorization, and the response does not allow sharing."
            }
            NotStorable::Credentials => {
                "The request identified its client by a cookie, Authorization or another field. Such a response is shared only if the response or the route says so."
            }
            NotStorable::SetCookie => "The response has Set-Cookie, which is for one client.",
            NotStorable::VaryStar => {
                "The response cannot be matched to requests (Vary: *, or Vary on a field that larder writes)."
            }
            NotStorable::RedirectLoop => {
                "The response redirects the request to its own URL: browsers report too many redirects."
            }
            NotStorable::NoLifetime => {
                "The response declares no lifetime, and its status has no default lifetime."
            }
            NotStorable::Useless => "The response is stale on arrival and cannot be validated.",
            NotStorable::Late => "The response became stale during the transfer and cannot be validated.",
            NotStorable::TooLarge => "The response exceeds the maximum size of a stored object.",
            NotStorable::Rule => "A rule of the route says pass (cache.rule).",
            NotStorable::Endless => "An event stream never ends and is individual for each client.",
            NotStorable::Partial => "The partial response does not declare its byte range.",
            NotStorable::FileOrder => {
                "The response orders a file in place of its body (X-Sendfile, X-Accel-Redirect), for this request only."
            }
        }
    }
}

/// Decides RFC 9111 §3 for a response to `request`.
///
/// A response to HEAD is refused: it has no content to store, but freshens a stored response
/// ([`crate::freshen::head_says`]). A HEAD that is answered by a fetch with GET counts as GET.
pub fn decide(
    request: &RequestFacts<'_>,
    status: u16,
    fields: &[Field<'_>],
    policy: &Policy,
    request_time: WallTime,
    response_time: WallTime,
    trace: &mut impl RuleTrace,
) -> Storable {
    let (directives, targeted) = crate::targeted::directives(fields, policy);
    let response = ResponseFacts { status, fields, policy, directives, targeted };
    let verdict = rule_allows(policy, trace)
        .and_then(|()| has_own_body(fields, trace))
        .and_then(|()| request_allows(request, policy, trace))
        .and_then(|()| status_allows(request, &response, trace))
        .and_then(|()| leads_elsewhere(request, &response, trace))
        .and_then(|()| directives_allow(request, &response, trace))
        .and_then(|()| content_allows(request, &response, trace))
        .and_then(|()| {
            // Not computed for a response that a directive refuses: parsing dates takes longer than all of the above.
            let inputs = response.lifetime_inputs((request_time, response_time));
            explicitly_storable(request, &response, &inputs, trace)?;
            let lifetime = inputs.lifetime(policy, trace);
            not_one_visitors(request, &response, lifetime, trace)?;
            let ages = AgeInputs::read(fields, request_time, response_time);
            useful(&response, &inputs, lifetime, ages, trace)
        });
    match verdict {
        Ok(()) => {
            trace.rule("RFC 9111 §3", "store", RuleOutcome::Decided, || "every condition holds".to_owned());
            Storable::Store
        }
        Err(why) => Storable::Refuse(why),
    }
}

/// The rule of the route for this response.
fn rule_allows(policy: &Policy, trace: &mut impl RuleTrace) -> Result<(), NotStorable> {
    let Some(in_force) = &policy.rule else { return Ok(()) };
    rule(trace, "config", NotStorable::Rule, in_force.pass, || {
        format!("cache.rule at {}: pass = {}", in_force.place, in_force.pass)
    })
}

/// Whether the body of the response is the one that its client gets. No setting stores an ordered file under the key: the
/// application decided about access for this one request.
fn has_own_body(fields: &[Field<'_>], trace: &mut impl RuleTrace) -> Result<(), NotStorable> {
    let Some(order) = fields.iter().find(|it| file_order::is_order(it.name)) else { return Ok(()) };
    rule(trace, "sendfile", NotStorable::FileOrder, true, || {
        format!("{}: a file is sent in place of the body", order.name)
    })
}

/// A response as input of this decision.
struct ResponseFacts<'r> {
    status: u16,
    fields: &'r [Field<'r>],
    policy: &'r Policy,
    /// The directives in force.
    directives: ResponseDirectives,
    /// The targeted field of these directives (RFC 9213).
    targeted: Option<&'r str>,
}

impl<'r> ResponseFacts<'r> {
    fn directives(&self) -> &ResponseDirectives {
        &self.directives
    }

    fn lifetime_inputs(&self, times: (WallTime, WallTime)) -> LifetimeInputs<'r> {
        LifetimeInputs::of(self.status, self.fields, self.directives.clone(), self.targeted, times)
    }

    /// The field whose directives are in force, with its lines.
    fn in_force(&self) -> String {
        lines(self.fields, self.targeted.unwrap_or("Cache-Control"))
    }
}

/// Reports one rule; `refused` decides against storing.
fn rule(
    trace: &mut impl RuleTrace,
    source: &'static str,
    why: NotStorable,
    refused: bool,
    evidence: impl FnOnce() -> String,
) -> Result<(), NotStorable> {
    named_rule(trace, (source, why.name()), why, refused, evidence)
}

/// Reports one rule whose name differs from that of its refusal.
fn named_rule(
    trace: &mut impl RuleTrace,
    (source, name): (&'static str, &'static str),
    why: NotStorable,
    refused: bool,
    evidence: impl FnOnce() -> String,
) -> Result<(), NotStorable> {
    trace.rule(source, name, if refused { RuleOutcome::Decided } else { RuleOutcome::Passed }, evidence);
    if refused { Err(why) } else { Ok(()) }
}

/// The rules on the route and the request, before those on the response.
fn request_allows(
    request: &RequestFacts<'_>,
    policy: &Policy,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    rule(trace, "config", NotStorable::Disabled, !policy.enabled, || {
        format!("cache.enabled = {}", policy.enabled)
    })?;
    let understood = matches!(request.method, "GET" | "POST") && !request.method_override;
    rule(trace, "RFC 9111 §3", NotStorable::Method, !understood, || {
        let overridden = if request.method_override { ", and a field that overrides it" } else { "" };
        format!("method {}{overridden}", request.method)
    })?;
    let body = request.has_body && request.method == "GET";
    rule(trace, "RFC 9110 §9.3.1", NotStorable::RequestBody, body, || {
        (if request.has_body { "the request has a body" } else { "the request has no body" }).to_owned()
    })?;
    let no_store = request.directives.obeyed(policy.request_directives).no_store;
    rule(trace, "RFC 9111 §5.2.1.5", NotStorable::RequestNoStore, no_store, || {
        asked("no-store", request.directives.no_store, no_store)
    })
}

/// Whether a response with this status may be stored, given the request.
fn status_allows(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let status = response.status;
    let kind = StatusKind::of(status);
    let refused = match kind {
        StatusKind::Never => true,
        StatusKind::Error => request.provoking,
        StatusKind::Ordinary => false,
    };
    rule(trace, "RFC 9111 §3", NotStorable::Status, refused, || match kind {
        StatusKind::Never => format!("status {status} is not final, or is about this one request"),
        StatusKind::Error if request.provoking => {
            format!("status {status} answers a request head of more than {ORDINARY_HEAD} bytes")
        }
        _ => format!("status {status}"),
    })
}

/// Whether a redirect has another target than its request. One that sets a cookie may be followed by another response, since the next request has it.
fn leads_elsewhere(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let fields = response.fields;
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) || fields.iter().any(Field::sets_cookie) {
        return Ok(());
    }
    let is_loop = request.method == "GET" && names_own_target(request.uri, fields, "location");
    rule(trace, "RFC 9110 §15.4", NotStorable::RedirectLoop, is_loop, || {
        format!("status {}; {}", response.status, lines(fields, "Location"))
    })
}

/// The dependence of a response on request fields that are not in the key.
#[derive(Clone, Copy)]
enum StatusKind {
    /// Not final, or a response to conditions, credentials, ranges or the form of one request.
    Never,
    /// May have been caused by an unusual request.
    Error,
    /// Describes the resource.
    Ordinary,
}

impl StatusKind {
    fn of(status: u16) -> Self {
        match status {
            0..=199
            | 304
            | 400
            | 401
            | 407
            | 408
            | 411..=413
            | 415..=417
            | 421
            | 425
            | 426
            | 428
            | 429
            | 431 => StatusKind::Never,
            200..=399 => StatusKind::Ordinary,
            _ => StatusKind::Error,
        }
    }
}

/// Whether this is a stream of events (<https://html.spec.whatwg.org/#server-sent-events>), which ends when its client
/// closes: one without a length. By the response's `Content-Type` and `Content-Length`.
#[must_use]
pub fn is_endless_of(fields: &FieldList) -> bool {
    // Most responses have a length: their type is not looked for.
    !fields.contains("content-length") && is_endless(fields.get("content-type"), None)
}

/// The same by the values of these fields.
#[must_use]
pub fn is_endless(kind: Option<&[u8]>, length: Option<&[u8]>) -> bool {
    length.is_none() && kind.is_some_and(field::is_event_stream)
}

/// Whether a response with this status is never stored: it is not final, or depends on the form of one request.
#[must_use]
pub fn is_never_stored(status: u16) -> bool {
    matches!(StatusKind::of(status), StatusKind::Never)
}

/// `no-store`, `private`, `Authorization`, `Set-Cookie`, `Vary: *`.
fn directives_allow(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let (directives, fields, policy) = (response.directives(), response.fields, response.policy);
    let status = response.status;
    let not_understood = directives.must_understand && !is_understood(status);
    named_rule(
        trace,
        ("RFC 9111 §5.2.2.3", "must-understand"),
        NotStorable::Status,
        not_understood,
        || format!("{}; status {status}", response.in_force()),
    )?;
    let no_store = directives.no_store && !directives.must_understand;
    rule(trace, "RFC 9111 §5.2.2.5", NotStorable::NoStore, no_store, || {
        if directives.no_store && !no_store {
            format!("{}: must-understand, and status {status} is understood", response.in_force())
        } else {
            response.in_force()
        }
    })?;
    rule(trace, "RFC 9111 §5.2.2.7", NotStorable::Private, directives.private.is_whole(), || {
        response.in_force()
    })?;
    let unshared = request.authorization && !directives.shares_authorized(overrides(policy, status));
    rule(trace, "RFC 9111 §3.5", NotStorable::Authorization, unshared, || {
        if request.authorization {
            format!("Authorization in the request; {}", response.in_force())
        } else {
            "no Authorization in the request".to_owned()
        }
    })?;
    let sets_cookie = fields.iter().any(|it| it.sets_cookie() && directives.keeps(it.name));
    rule(trace, "config", NotStorable::SetCookie, sets_cookie && !policy.store_set_cookie, || {
        format!("{}; cache.store_set_cookie = {}", lines(fields, "Set-Cookie"), policy.store_set_cookie)
    })?;
    rule(trace, "RFC 9111 §4.1", NotStorable::VaryStar, vary(fields).is_none(), || lines(fields, "Vary"))
}

/// Partial responses and sizes.
fn content_allows(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let fields = response.fields;
    if response.status == 206 {
        // Without a strong validator a part may still be stored and serve its own bytes; only `partial::combine` needs
        // one (RFC 9111 §3.4).
        let declared = first(fields, "content-length").and_then(decimal);
        let fits = |part: HeldRange| declared.is_none_or(|it| it == part.length());
        let placed = HeldRange::of(fields).is_some_and(fits) && request.range.is_some();
        rule(trace, "RFC 9111 §3.3", NotStorable::Partial, !placed, || {
            let asked = if request.range.is_some() { "a Range" } else { "no Range" };
            let length = lines(fields, "Content-Length");
            format!("{}; {length}; {asked} in the request", lines(fields, "Content-Range"))
        })?;
    }
    let is_endless = is_endless(first(fields, "content-type"), first(fields, "content-length"));
    rule(trace, "larder", NotStorable::Endless, is_endless, || {
        format!("{}; {}", lines(fields, "Content-Type"), lines(fields, "Content-Length"))
    })?;
    let length = first(fields, "content-length").and_then(decimal);
    let too_large = length.is_some_and(|it| it > response.policy.max_object);
    rule(trace, "config", NotStorable::TooLarge, too_large, || {
        format!(
            "{}; cache.max_object = {} bytes",
            lines(fields, "Content-Length"),
            response.policy.max_object
        )
    })
}

/// The last list of RFC 9111 §3, and for POST RFC 9110 §9.3.3.
fn explicitly_storable(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    inputs: &LifetimeInputs<'_>,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let (policy, status) = (response.policy, response.status);
    let directives = &inputs.directives;
    let fresh_by_itself =
        directives.max_age.is_some() || directives.s_maxage.is_some() || inputs.expires != Expires::Absent;
    let by_config =
        policy.status_ttl.iter().any(|it| it.0 == status) || crate::freshness::overrides(policy, status);
    if request.method == "POST" {
        // Otherwise `Content-Location` does not refer to the target: the result of one client's POST is not a page for
        // other clients.
        let failed = !(200..300).contains(&status);
        rule(trace, "RFC 9110 §8.7", NotStorable::Status, failed, || {
            format!("status {status}: a response to POST is reusable for GET only if the POST succeeded")
        })?;
        let own = names_own_target(request.uri, response.fields, "content-location");
        rule(trace, "RFC 9110 §9.3.3", NotStorable::Method, !(fresh_by_itself && own), || {
            format!("method POST; {}; {}", response.in_force(), lines(response.fields, "Content-Location"))
        })?;
    }
    let storable = fresh_by_itself || directives.public || by_config || is_heuristic_status(status);
    rule(trace, "RFC 9111 §3", NotStorable::NoLifetime, !storable, || {
        format!("status {status}; {}; {}", response.in_force(), lines(response.fields, "Expires"))
    })
}

/// Whether a response to credentials may be shared: the response or the route permits it. Neither a heuristic lifetime
/// nor a validator does.
fn not_one_visitors(
    request: &RequestFacts<'_>,
    response: &ResponseFacts<'_>,
    lifetime: Lifetime,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let no_cache = always_validated(response.directives(), response.status, response.policy);
    let has_credentials = request.has_credentials(response.policy);
    // The answer to a private cookie is shared on the word of the response alone.
    let directives = response.directives();
    let is_public = directives.public || directives.s_maxage.is_some();
    let varies = all(response.fields, "vary").flat_map(members).any(|it| it.eq_ignore_ascii_case(b"cookie"));
    let is_private = cookies::are_private(request.cookies, request.method, response.policy);
    // A lifetime of the route is for pages of its cookie rule; it knows nothing of a key in another field.
    let unnamed = lifetime.is_of_route() && !is_public && request.has_identity_field(response.policy);
    let implicit = unnamed || has_credentials && is_implicit(directives, lifetime, no_cache);
    let own = implicit || is_private && (!is_public || varies);
    rule(trace, "larder", NotStorable::Credentials, own, || {
        let from = lifetime.source.name();
        format!(
            "{}; {}; lifetime {} s ({from})",
            request.credentials_evidence(response.policy),
            response.in_force(),
            { lifetime.seconds }
        )
    })
}

/// Whether it could ever be served: fresh for a time, or with a validator, or permitted to be served stale by a directive
/// or the route. (`cache.stale_if_error`, which is on by default, does not count: otherwise every unusable page would be
/// stored.)
fn useful(
    response: &ResponseFacts<'_>,
    inputs: &LifetimeInputs<'_>,
    lifetime: Lifetime,
    ages: AgeInputs,
    trace: &mut impl RuleTrace,
) -> Result<(), NotStorable> {
    let policy = response.policy;
    let directives = &inputs.directives;
    let age = ages.corrected_initial_age();
    let validator = etag(response.fields).is_some() || inputs.last_modified.is_some();
    let no_cache = always_validated(directives, response.status, policy);
    let allowance = directives
        .stale_while_revalidate
        .unwrap_or_else(|| lifetime.stale_while_revalidate(policy.stale_while_revalidate))
        .max(directives.stale_if_error.unwrap_or(0));
    // The time after arrival in which it may be served without the origin, if at all.
    let allowance = if directives.forbids_stale() { 0 } else { allowance };
    let answers = !no_cache && lifetime.seconds.saturating_add(allowance) > age;
    let why = if !no_cache && ages.came_late(lifetime) { NotStorable::Late } else { NotStorable::Useless };
    rule(trace, "RFC 9111 §4.2", why, !answers && !validator, || {
        let validator = if validator { "a validator" } else { "no validator" };
        let from = match lifetime.source {
            LifetimeSource::None => "no rule gives a lifetime".to_owned(),
            source => format!("lifetime {} s ({})", { lifetime.seconds }, source.name()),
        };
        let no_cache = if no_cache { ", no-cache" } else { "" };
        format!("{from} - age {age} s on arrival{no_cache}; {validator}; stale use {allowance} s")
    })
}

/// Statuses whose caching requirements larder understands and follows (RFC 9111 §5.2.2.3): those of RFC 9110 and of later
/// standards without caching requirements of their own.
#[must_use]
pub fn is_understood(status: u16) -> bool {
    matches!(status, 200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 451 | 500..=505)
}

/// Whether the field `name` is the request's own target (RFC 9110 §9.3.3).
fn names_own_target(uri: Option<Uri<'_>>, fields: &[Field<'_>], name: &str) -> bool {
    let Some(uri) = uri else { return false };
    let mut values = all(fields, name);
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let found = crate::invalidate::resolve(uri.scheme, uri.authority, uri.target, value);
    found.is_some_and(|it| it == uri.target)
}

/// Parses digits as a length.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn asked(name: &str, present: bool, obeyed: bool) -> String {
    match (present, obeyed) {
        (false, _) => format!("no {name} in the request's Cache-Control"),
        (true, true) => format!("Cache-Control: {name} in the request"),
        (true, false) => format!("{name} in the request is not obeyed (cache.request_directives)"),
    }
}

#[cfg(test)]
mod tests;
