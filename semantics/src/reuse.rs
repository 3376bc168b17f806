//! May this stored response answer this request? RFC 9111 §4, decided once, here.

use crate::cache_control::RequestDirectives;
use crate::cookies;
use crate::field::Field;
use crate::freshness::{Freshness, LifetimeSource};
use crate::policy::{Policy, StaleIfError};
use crate::range::HeldRange;
use crate::request::RequestFacts;
use crate::stored::Meta;
use crate::trace::{RuleOutcome, RuleTrace};
use larder_stdx::clock::WallTime;

/// The reason for forwarding a request to the origin, in the terms of RFC 9211 §2.2 (`fwd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// `bypass`: the route does not use the cache.
    Bypass,
    /// `bypass`: the target is malformed ([`crate::target`]), so that no response is stored under it.
    MalformedTarget,
    /// `method`: the method's semantics require it.
    Method,
    /// `uri-miss`: no response is stored under this key.
    UriMiss,
    /// `vary-miss`: stored, but no variant matches the request.
    VaryMiss,
    /// `stale`: stored, but must be validated first.
    Stale,
    /// `request`: the request's own directives forbid reuse.
    Request,
    /// `partial`: only a part is stored, and it does not contain the requested range.
    Partial,
}

/// The action of the cache on a request, given the lookup's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Serve the stored response.
    Serve,
    /// Serve the stored response although it is stale: the client permits it (`max-stale`).
    ServeStale,
    /// Serve the stored response and validate in the background (RFC 5861 §3).
    ServeWhileRevalidating,
    /// Send the request to the origin with the stored validators (RFC 9111 §4.3).
    Validate(ForwardReason),
    /// Send the request to the origin without condition.
    Forward(ForwardReason),
    /// Neither stored nor permitted to forward: 504 (`only-if-cached`, RFC 9111 §5.2.1.7).
    GatewayTimeout,
}

impl ForwardReason {
    /// Stable, kebab-case: the token of RFC 9211 §2.2.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ForwardReason::Bypass | ForwardReason::MalformedTarget => "bypass",
            ForwardReason::Method => "method",
            ForwardReason::UriMiss => "uri-miss",
            ForwardReason::VaryMiss => "vary-miss",
            ForwardReason::Stale => "stale",
            ForwardReason::Request => "request",
            ForwardReason::Partial => "partial",
        }
    }

    /// Information that the token does not contain (RFC 9211 §2.8).
    #[must_use]
    pub fn detail(self) -> Option<&'static str> {
        (self == ForwardReason::MalformedTarget).then_some("malformed-target")
    }

    /// One sentence for display.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            ForwardReason::Bypass => "The route does not use the cache.",
            ForwardReason::MalformedTarget => "The target has bytes that no URL can have.",
            ForwardReason::Method => "The request is not a GET or HEAD without a body.",
            ForwardReason::UriMiss => "Nothing is stored under this key.",
            ForwardReason::VaryMiss => "A response is stored under this key, but not this variant.",
            ForwardReason::Stale => "The stored response must be validated before it is used.",
            ForwardReason::Request => "The Cache-Control of the request forbids the stored response.",
            ForwardReason::Partial => "Only a part is stored, and not the requested range.",
        }
    }
}

impl Reuse {
    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reuse::Serve => "serve",
            Reuse::ServeStale => "serve-stale",
            Reuse::ServeWhileRevalidating => "serve-while-revalidating",
            Reuse::Validate(_) => "validate",
            Reuse::Forward(_) => "forward",
            Reuse::GatewayTimeout => "gateway-timeout",
        }
    }

    /// One sentence for display. For the two that forward it does not contain the reason, which has its own.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Reuse::Serve => "The response is served from the cache.",
            Reuse::ServeStale => "The response is served stale from the cache; the client allows it.",
            Reuse::ServeWhileRevalidating => {
                "The response is served stale from the cache and validated in the background."
            }
            Reuse::Validate(_) => "The stored response is validated with the origin.",
            Reuse::Forward(_) => "The response is fetched from the origin.",
            Reuse::GatewayTimeout => {
                "The client accepts a stored response only (only-if-cached), and none may be used: 504."
            }
        }
    }

    /// The reason for forwarding, if any.
    #[must_use]
    pub fn reason(self) -> Option<ForwardReason> {
        match self {
            Reuse::Validate(reason) | Reuse::Forward(reason) => Some(reason),
            _ => None,
        }
    }
}

/// Decides RFC 9111 §4 for a GET or HEAD whose key and variant already matched. `stored` is `None` with the reason if
/// there was no match.
///
/// The request's own directives are obeyed as permitted by `cache.request_directives`. Its `no-store` does not prevent
/// the use of a stored response (RFC 9111 §5.2.1.5). `max-age=0` always validates, also within the first second.
pub fn decide(
    stored: Result<&Meta, ForwardReason>,
    request: &RequestFacts<'_>,
    policy: &Policy,
    now: WallTime,
    trace: &mut impl RuleTrace,
) -> Reuse {
    if !report_rule(trace, "config", "enabled", !policy.enabled, || {
        format!("cache.enabled = {}", policy.enabled)
    }) {
        return Reuse::Forward(ForwardReason::Bypass);
    }
    let plain = matches!(request.method, "GET" | "HEAD") && !request.has_body && !request.method_override;
    if !report_rule(trace, "RFC 9111 §4", "method", !plain, || method_evidence(request)) {
        return Reuse::Forward(ForwardReason::Method);
    }
    let asked = request.directives.obeyed(policy.request_directives);
    let verdict = match stored {
        Err(reason) => {
            report_rule(trace, "RFC 9111 §4", "stored", true, || reason.sentence().to_owned());
            Reuse::Forward(reason)
        }
        Ok(meta) => of_stored(meta, request, asked, policy, now, trace),
    };
    let asks_origin = verdict.reason().is_some();
    if asked.only_if_cached {
        report_rule(trace, "RFC 9111 §5.2.1.7", "only-if-cached", asks_origin, || {
            "Cache-Control: only-if-cached in the request".to_owned()
        });
    }
    if asked.only_if_cached && asks_origin { Reuse::GatewayTimeout } else { verdict }
}

/// Reports one rule, and returns whether to try the next one.
#[inline]
fn report_rule(
    trace: &mut impl RuleTrace,
    source: &'static str,
    name: &'static str,
    decides: bool,
    evidence: impl FnOnce() -> String,
) -> bool {
    trace.rule(source, name, if decides { RuleOutcome::Decided } else { RuleOutcome::Passed }, evidence);
    !decides
}

fn of_stored(
    meta: &Meta,
    request: &RequestFacts<'_>,
    asked: RequestDirectives,
    policy: &Policy,
    now: WallTime,
    trace: &mut impl RuleTrace,
) -> Reuse {
    if let Some(part) = meta.partial() {
        let held = holds(meta, request);
        if !report_rule(trace, "RFC 9111 §3.3", "partial", !held, || part_evidence(part, request)) {
            return Reuse::Forward(ForwardReason::Partial);
        }
    }
    let forward_or_validate =
        |reason| if meta.has_validator() { Reuse::Validate(reason) } else { Reuse::Forward(reason) };
    if !report_rule(trace, "larder", "credentials", is_for_others(meta, request, policy), || {
        credentials_evidence(meta, request, policy)
    }) {
        return Reuse::Forward(ForwardReason::Stale);
    }
    if !report_rule(trace, "RFC 9111 §5.2.2.4", "no-cache", meta.no_cache, || {
        format!("the stored response {} no-cache", if meta.no_cache { "has" } else { "has no" })
    }) {
        return forward_or_validate(ForwardReason::Stale);
    }
    if !report_rule(trace, "RFC 9111 §5.2.1.4", "request-no-cache", asked.no_cache, || {
        request_evidence("no-cache", request.directives.no_cache, asked.no_cache)
    }) {
        return forward_or_validate(ForwardReason::Request);
    }
    let age = meta.age(now);
    if let Some(most) = asked.max_age {
        let older = age > most || most == 0;
        if !report_rule(trace, "RFC 9111 §5.2.1.1", "request-max-age", older, || {
            format!("Cache-Control: max-age={most} in the request, age {age}")
        }) {
            return forward_or_validate(ForwardReason::Request);
        }
    }
    let freshness = meta.freshness(now);
    if let Some(least) = asked.min_fresh {
        let remaining = match freshness {
            Freshness::Fresh { remaining } => remaining,
            Freshness::Stale { .. } => 0,
        };
        if !report_rule(trace, "RFC 9111 §5.2.1.3", "request-min-fresh", remaining < least, || {
            format!("Cache-Control: min-fresh={least} in the request; {}", arithmetic(meta, age, freshness))
        }) {
            return forward_or_validate(ForwardReason::Request);
        }
    }
    match freshness {
        Freshness::Fresh { .. } => {
            report_rule(trace, "RFC 9111 §4.2", "fresh", true, || arithmetic(meta, age, freshness));
            Reuse::Serve
        }
        Freshness::Stale { staleness } => {
            report_rule(trace, "RFC 9111 §4.2", "fresh", false, || arithmetic(meta, age, freshness));
            of_stale(meta, staleness, asked, policy, trace)
                .unwrap_or_else(|| forward_or_validate(ForwardReason::Stale))
        }
    }
}

/// Whether a stored response is only for requests without credentials, and this request has some: there is no permission
/// to serve one visitor's response to another, or the response varies by cookies that its own request did not have. The request
/// goes to the origin, without the stored validator, which may be the same for all visitors (a date, a release): a 304 would show
/// this visitor another one's page. The new response is for this visitor alone. A request with one of `cache.private_cookies` gets a stored response only if that has a lifetime
/// of its own or a validator, as files have.
#[inline]
#[must_use]
pub fn is_for_others(meta: &Meta, request: &RequestFacts<'_>, policy: &Policy) -> bool {
    meta.implicit && request.has_credentials(policy)
        || !meta.is_of_a_file() && cookies::are_private(request.cookies, request.method, policy)
}

fn credentials_evidence(meta: &Meta, request: &RequestFacts<'_>, policy: &Policy) -> String {
    let says = match meta.implicit {
        true => "the stored response is only for requests that identify no client",
        false => "the stored response may be shared",
    };
    format!("{says}; {}", request.credentials_evidence(policy))
}

/// Whether a stale response may be served at once; `None` if it must be validated (RFC 9111 §4.2.4).
fn of_stale(
    meta: &Meta,
    staleness: u32,
    asked: RequestDirectives,
    policy: &Policy,
    trace: &mut impl RuleTrace,
) -> Option<Reuse> {
    let unfollowed = is_unfollowed(meta)
        && !report_rule(trace, "larder", "database-not-followed", true, || {
            let then = match consents(policy) {
                true => "cache.stale_if_error of the route applies",
                false => "it is not used, since cache.stale_if_error is not set for the route",
            };
            format!("{UNFOLLOWED}, so it is validated before use; if the database fails, {then}")
        });
    if unfollowed || !may_be_stale(meta, trace) {
        return None;
    }
    // A client's `max-stale` does not replace an explicit lifetime of the origin.
    if let Some(most) = asked.max_stale.filter(|_| !meta.lifetime.is_zero())
        && !report_rule(trace, "RFC 9111 §5.2.1.2", "request-max-stale", staleness <= most, || {
            format!("Cache-Control: max-stale={most} in the request, stale for {staleness} s")
        })
    {
        return Some(Reuse::ServeStale);
    }
    let window = meta.stale_while_revalidate;
    let within = staleness < window;
    if !report_rule(trace, "RFC 5861 §3", "stale-while-revalidate", within, || {
        format!("stale for {staleness} s, stale-while-revalidate {window} s")
    }) {
        return Some(Reuse::ServeWhileRevalidating);
    }
    let has = if meta.has_validator() { "has" } else { "has no" };
    report_rule(trace, "RFC 9111 §4.3", "validate", true, || format!("the stored response {has} validator"));
    None
}

/// The reason for the validation of pages with rows of a database.
const UNFOLLOWED: &str = "changes of the database of its rows were not known for a time";

/// Whether the only reason against stale use is that changes of a database were not known.
fn is_unfollowed(meta: &Meta) -> bool {
    meta.lifetime.source == LifetimeSource::Unfollowed
}

/// Whether rows may be outdated after a failure. An operator who sets the key consents to that; neither its default nor the response does.
fn consents(policy: &Policy) -> bool {
    matches!(policy.stale_if_error, StaleIfError::Set(1..))
}

/// Whether nothing forbids stale use.
fn may_be_stale(meta: &Meta, trace: &mut impl RuleTrace) -> bool {
    report_rule(trace, "RFC 9111 §4.2.4", "must-revalidate", meta.must_revalidate, || {
        let is_purged = meta.lifetime.source == LifetimeSource::Purged;
        match meta.must_revalidate {
            true if meta.lifetime.source == LifetimeSource::Unread => {
                "the stored response has must-revalidate, proxy-revalidate or s-maxage, or the fleet may have purged it"
            }
            true if meta.lifetime.source == LifetimeSource::RulesDropped => {
                "the stored response has must-revalidate, proxy-revalidate or s-maxage, or a purge rule that was dropped may name it"
            }
            true if is_purged => {
                "the stored response has must-revalidate, proxy-revalidate or s-maxage, or a purge asks for its validation"
            }
            true => "the stored response has must-revalidate, proxy-revalidate or s-maxage",
            false => "the stored response has none of must-revalidate, proxy-revalidate or s-maxage",
        }
        .to_owned()
    })
}

/// Whether the stale response may be served because the origin failed: RFC 5861 §4, RFC 9111 §4.2.4.
///
/// The window is the response's `stale-if-error`, otherwise `cache.stale_if_error`, whose default does not apply to
/// responses with a lifetime of zero; a request's own `stale-if-error` can shorten it. A request's `no-cache` is a
/// preference (RFC 9111 §5.2.1.4) that a failing origin cannot meet, so it does not count here.
pub fn on_error(
    stored: &Meta,
    request: &RequestFacts<'_>,
    policy: &Policy,
    now: WallTime,
    trace: &mut impl RuleTrace,
) -> bool {
    if let Some(part) = stored.partial() {
        let held = holds(stored, request);
        if !report_rule(trace, "RFC 9111 §3.3", "partial", !held, || part_evidence(part, request)) {
            return false;
        }
    }
    if !report_rule(trace, "larder", "credentials", is_for_others(stored, request, policy), || {
        credentials_evidence(stored, request, policy)
    }) {
        return false;
    }
    if !report_rule(trace, "RFC 9111 §5.2.2.4", "no-cache", stored.no_cache, || {
        format!("the stored response {} no-cache", if stored.no_cache { "has" } else { "has no" })
    }) {
        return false;
    }
    let age = stored.age(now);
    let freshness = stored.freshness(now);
    let staleness = match freshness {
        Freshness::Fresh { .. } => 0,
        Freshness::Stale { staleness } => staleness,
    };
    let fresh = matches!(freshness, Freshness::Fresh { .. });
    if !report_rule(trace, "RFC 9111 §4.2", "fresh", fresh, || arithmetic(stored, age, freshness)) {
        return true;
    }
    if is_unfollowed(stored) {
        let is_set = consents(policy);
        if !report_rule(trace, "larder", "database-not-followed", !is_set, || {
            let (is, may) = if is_set { ("is", "may") } else { ("is not", "may not") };
            format!("{UNFOLLOWED}, and cache.stale_if_error {is} set for the route: it {may} be served stale")
        }) {
            return false;
        }
    } else if !may_be_stale(stored, trace) {
        return false;
    }
    let asked = request.directives.obeyed(policy.request_directives).stale_if_error;
    let window = asked.map_or(stored.stale_if_error, |it| it.min(stored.stale_if_error));
    let within = staleness < window;
    report_rule(trace, "RFC 5861 §4", "stale-if-error", true, || {
        let at_most = asked.map_or_else(String::new, |it| format!(" (the request says {it} s)"));
        let may = if within { "may" } else { "may not" };
        format!(
            "stale for {staleness} s, stale-if-error {} s (of the response, otherwise cache.stale_if_error)\
             {at_most}: {may} be served",
            stored.stale_if_error
        )
    });
    within
}

/// Whether a partial stored response contains the requested bytes (RFC 9111 §3.3): one range within the part, and no
/// `If-Range` that makes it a request for the whole.
fn holds(meta: &Meta, request: &RequestFacts<'_>) -> bool {
    let Some(range) = request.range else { return false };
    let applies = request
        .if_range
        .is_none_or(|value| crate::conditional::range_applies(&[Field { name: "If-Range", value }], meta));
    applies && crate::partial::answers(meta, range).is_some()
}

fn arithmetic(meta: &Meta, age: u32, freshness: Freshness) -> String {
    let (seconds, source) = (meta.lifetime.seconds, meta.lifetime.source.evidence());
    let verdict = match freshness {
        Freshness::Fresh { remaining } => format!("fresh for {remaining} s"),
        Freshness::Stale { staleness } => format!("stale for {staleness} s"),
    };
    format!("{source}={seconds} - age {age} = {verdict}")
}

fn method_evidence(request: &RequestFacts<'_>) -> String {
    let body = if request.has_body { " with a body" } else { "" };
    let overridden = if request.method_override { " and a field that overrides it" } else { "" };
    format!("method {}{body}{overridden}", request.method)
}

fn request_evidence(name: &str, present: bool, obeyed: bool) -> String {
    match (present, obeyed) {
        (false, _) => format!("no {name} in the request"),
        (true, true) => format!("{name} in the request"),
        (true, false) => format!("{name} in the request is not obeyed (cache.request_directives)"),
    }
}

fn part_evidence(part: HeldRange, request: &RequestFacts<'_>) -> String {
    let complete = part.complete.map_or_else(|| "*".to_owned(), |it| it.to_string());
    let asked = request.range.map_or_else(|| "the whole".into(), String::from_utf8_lossy);
    format!("bytes {}-{}/{complete} are stored, {asked} is requested", part.first, part.last)
}

#[cfg(test)]
mod tests;
