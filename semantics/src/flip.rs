//! The smallest change that would flip a verdict: the advice of `explain`. No decision is made here. Every proposal is
//! verified by running the decision again with the change applied, and only a change that flips it is returned; so a
//! proposal is never wrong. No proposal would share a response that is specific to one visitor. The combination of
//! changes is in `search`.

mod search;

use crate::cache_control::{ResponseDirectives, directives};
use crate::field::{Field, FieldList, all};
use crate::freshness::overrides;
use crate::policy::{LONGEST_LIFETIME, Policy, RequestDirectivePolicy};
use crate::request::{RequestFacts, Uri};
use crate::reuse::{self, ForwardReason, Reuse};
use crate::storable::{self, Storable};
use crate::stored::Meta;
use crate::trace::Silent;
use larder_stdx::clock::WallTime;
pub use search::fewest;

/// The freshness that a proposal adds to the current age of the response: seconds.
const LIFETIME: u32 = 60;
/// The largest number of directives of a field that are left out one by one: an origin may send thousands.
const DIRECTIVES: usize = 16;

/// One change, to a request, a response or the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlipChange {
    /// The client leaves out every line of this name.
    RemoveRequestHeader {
        /// The name as in the request.
        name: String,
    },
    /// The client sends no body.
    RemoveRequestBody,
    /// The origin leaves out every line of this name.
    RemoveResponseHeader {
        /// The name as in the response.
        name: String,
    },
    /// The origin sends this line instead of all lines of that name.
    SetResponseHeader {
        /// The field's name.
        name: String,
        /// Its whole value.
        value: String,
    },
    /// The operator sets this key of the route.
    SetConfig(FlipSetting),
}

/// One configuration key of a route with a value that may flip a verdict. Seconds, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlipSetting {
    /// `cache.enabled = true`
    Enabled,
    /// `cache.request_directives = "ignore"`
    IgnoreRequestDirectives,
    /// `cache.max_object`
    MaxObject(u64),
    /// `cache.default_ttl`
    DefaultTtl(u32),
    /// `cache.status_ttl` for one status.
    StatusTtl(u16, u32),
    /// `cache.override_ttl`
    OverrideTtl(u32),
    /// `cache.max_ttl`
    MaxTtl(u32),
    /// `cache.stale_while_revalidate`
    StaleWhileRevalidate(u32),
}

impl FlipSetting {
    /// The key, such as `cache.default_ttl`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            FlipSetting::Enabled => "cache.enabled",
            FlipSetting::IgnoreRequestDirectives => "cache.request_directives",
            FlipSetting::MaxObject(_) => "cache.max_object",
            FlipSetting::DefaultTtl(_) => "cache.default_ttl",
            FlipSetting::StatusTtl(..) => "cache.status_ttl",
            FlipSetting::OverrideTtl(_) => "cache.override_ttl",
            FlipSetting::MaxTtl(_) => "cache.max_ttl",
            FlipSetting::StaleWhileRevalidate(_) => "cache.stale_while_revalidate",
        }
    }

    /// The value in TOML.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            FlipSetting::Enabled => "true".to_owned(),
            FlipSetting::IgnoreRequestDirectives => "\"ignore\"".to_owned(),
            FlipSetting::MaxObject(bytes) => format!("\"{bytes}B\""),
            FlipSetting::StatusTtl(status, seconds) => format!("{{ {status} = \"{seconds}s\" }}"),
            FlipSetting::DefaultTtl(seconds)
            | FlipSetting::OverrideTtl(seconds)
            | FlipSetting::MaxTtl(seconds)
            | FlipSetting::StaleWhileRevalidate(seconds) => format!("\"{seconds}s\""),
        }
    }

    fn apply(self, policy: &mut Policy) {
        match self {
            FlipSetting::Enabled => policy.enabled = true,
            FlipSetting::IgnoreRequestDirectives => {
                policy.request_directives = RequestDirectivePolicy::Ignore;
            }
            FlipSetting::MaxObject(bytes) => policy.max_object = bytes,
            FlipSetting::DefaultTtl(seconds) => policy.default_ttl = Some(seconds),
            FlipSetting::StatusTtl(status, seconds) => {
                policy.status_ttl.retain(|it| it.0 != status);
                policy.status_ttl.push((status, seconds));
            }
            FlipSetting::MaxTtl(seconds) => policy.max_ttl = seconds,
            FlipSetting::OverrideTtl(seconds) => policy.override_ttl = Some(seconds),
            FlipSetting::StaleWhileRevalidate(seconds) => policy.stale_while_revalidate = seconds,
        }
    }
}

impl FlipChange {
    /// Whether it shares a response that was not shared: changes of the request, and of which requests use the cache, do not.
    #[must_use]
    pub fn shares(&self) -> bool {
        use FlipSetting::{Enabled, IgnoreRequestDirectives};
        !matches!(
            self,
            FlipChange::RemoveRequestHeader { .. }
                | FlipChange::RemoveRequestBody
                | FlipChange::SetConfig(Enabled | IgnoreRequestDirectives)
        )
    }

    /// The change as one sentence for display.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            FlipChange::RemoveRequestHeader { name } => format!("Send the request without {name}."),
            FlipChange::RemoveRequestBody => "Send the request without a body.".to_owned(),
            FlipChange::RemoveResponseHeader { name } => {
                format!("Configure the origin to respond without {name}.")
            }
            FlipChange::SetResponseHeader { name, value } => {
                format!("Configure the origin to respond with {name}: {value}.")
            }
            FlipChange::SetConfig(it) => format!("Set {} = {} for the route.", it.key(), it.value()),
        }
    }
}

/// One exchange with an origin, as in [`storable::decide`].
#[derive(Clone, Copy, Debug)]
pub struct OriginExchange<'e> {
    /// The request's method.
    pub method: &'e str,
    /// The request's fields.
    pub request: &'e [Field<'e>],
    /// The fields of the request that the origin received: those of `request`, unless another request is examined.
    pub answered: &'e [Field<'e>],
    /// The target URI, if known.
    pub uri: Option<Uri<'e>>,
    /// The response's status.
    pub status: u16,
    /// The response's fields as received.
    pub response: &'e [Field<'e>],
    /// The route's policy.
    pub policy: &'e Policy,
    /// Our clock when the request was sent.
    pub request_time: WallTime,
    /// Our clock when the response head had arrived.
    pub response_time: WallTime,
}

/// Whether the response is specific to one visitor, so that no proposal may share it: it has `private` or `no-store`, in
/// any caching field, sets a cookie, has `Cookie`, `Authorization` or `*` in `Vary`, or answers credentials without
/// permission to be shared (RFC 9111 §3, §3.5).
#[must_use]
pub fn is_one_visitors(exchange: &OriginExchange<'_>) -> bool {
    let OriginExchange { response, policy, .. } = *exchange;
    let members = crate::targeted::directives(response, policy).0;
    let meta = Meta::of(exchange.status, response, policy, exchange.request_time, exchange.response_time);
    let implicit = meta.implicit;
    let only_route = meta.lifetime.is_of_route() && !members.public && members.s_maxage.is_none();
    let is_theirs = |request: &[Field<'_>]| {
        let facts = RequestFacts::read(exchange.method, request);
        (facts.has_credentials(policy) && implicit)
            || (facts.has_identity_field(policy) && only_route)
            || (facts.authorization && !members.shares_authorized(overrides(policy, exchange.status)))
    };
    is_declared_private(response, policy)
        || varies_by_visitor(response)
        || is_theirs(exchange.request)
        || is_theirs(exchange.answered)
}

/// Whether a response is for one visitor by its own fields, whatever its request: it forbids that it is shared, or sets a cookie.
#[must_use]
pub fn is_declared_private(response: &[Field<'_>], policy: &Policy) -> bool {
    is_forbidden(response, policy) || response.iter().any(Field::sets_cookie)
}

/// Whether `Cache-Control` or any targeted field has `private` or `no-store` for the whole response. A targeted field
/// that is an invalid dictionary, and therefore not in force, is parsed like `Cache-Control`.
fn is_forbidden(response: &[Field<'_>], policy: &Policy) -> bool {
    let names = policy.targets.iter().map(|it| &**it).chain(["Cache-Control"]);
    let forbids = |it: &ResponseDirectives| it.private.is_whole() || it.no_store;
    names.into_iter().any(|name| {
        let lines: Vec<_> = all(response, name).map(|value| Field { name: "Cache-Control", value }).collect();
        forbids(&ResponseDirectives::read(&lines))
            || crate::targeted::read(response, name).as_ref().is_some_and(forbids)
    })
}

fn varies_by_visitor(response: &[Field<'_>]) -> bool {
    let mut names = all(response, "vary").flat_map(|it| it.split(|byte| *byte == b','));
    let is = |name: &[u8], it: &str| name.trim_ascii().eq_ignore_ascii_case(it.as_bytes());
    names.any(|name| ["*", "cookie", "authorization"].iter().any(|it| is(name, it)))
}

/// The fewest changes that make the response storable, and the same request, sent again, a hit. `None` if it is so
/// already, if no known change suffices, or if the response [`is_one_visitors`].
#[must_use]
pub fn smallest(exchange: &OriginExchange<'_>) -> Option<Vec<FlipChange>> {
    if is_one_visitors(exchange) {
        return None;
    }
    let was = Trial::of(exchange);
    fewest(&was, &was.candidates_to_store(exchange), Trial::with, |it| it.hits_again(exchange))
}

/// Like [`smallest`] for an assumed response: changes of the request and the configuration only. The assumed response
/// belongs to no visitor, so a request with credentials may be advised to omit them.
#[must_use]
pub fn smallest_before_a_response(exchange: &OriginExchange<'_>) -> Option<Vec<FlipChange>> {
    let was = Trial::of(exchange);
    let mut candidates = was.request_changes();
    candidates.extend(was.config_changes(exchange.status, 0));
    fewest(&was, &candidates, Trial::with, |it| it.hits_again(exchange))
}

/// Whether the response is stored, and the same request, sent again, a hit, without changes.
#[must_use]
pub fn is_a_hit_again(exchange: &OriginExchange<'_>) -> bool {
    Trial::of(exchange).hits_again(exchange)
}

/// The smallest change that lets a stored response answer this request: `stored` is the head that is kept. Either the
/// request is changed, or ignored, and the stored response answers it; or a similar response, received now with age 0,
/// would. So a response that is only too old has no proposal: the next request renews it; and no proposal depends on its
/// age. Like [`smallest`] otherwise.
#[must_use]
pub fn smallest_for_reuse(
    meta: &Meta,
    stored: &FieldList,
    method: &str,
    request: &[Field<'_>],
    policy: &Policy,
    now: WallTime,
) -> Option<Vec<FlipChange>> {
    let facts = RequestFacts::read(method, request);
    if reuse::is_for_others(meta, &facts, policy) {
        return None;
    }
    let was = Trial {
        request: FieldList::from_fields(request),
        response: stored.clone(),
        policy: policy.clone(),
        body: facts.has_body,
    };
    let answers_now = |it: &Trial| it.answers(meta, method, now);
    if answers_now(&was) {
        return None;
    }
    let of_the_request = was.candidates_of_the_request();
    fewest(&was, &of_the_request, Trial::with, answers_now).or_else(|| {
        let response = stored.view();
        let exchange = OriginExchange {
            method,
            request,
            answered: request,
            uri: None,
            status: meta.status,
            response: &response,
            policy,
            request_time: meta.request_time,
            response_time: meta.response_time,
        };
        if is_one_visitors(&exchange) {
            return None;
        }
        fewest(&was, &was.candidates_to_reuse(meta.status), Trial::with, |it| {
            it.answers(&it.renewed(meta, now), method, now)
        })
    })
}

/// The inputs of a verdict, with some changes applied.
#[derive(Clone)]
struct Trial {
    request: FieldList,
    response: FieldList,
    policy: Policy,
    body: bool,
}

impl Trial {
    fn of(exchange: &OriginExchange<'_>) -> Self {
        Self {
            request: FieldList::from_fields(exchange.request),
            response: FieldList::from_fields(exchange.response),
            policy: exchange.policy.clone(),
            body: RequestFacts::read(exchange.method, exchange.request).has_body,
        }
    }

    fn with(&self, change: &FlipChange) -> Self {
        let mut it = self.clone();
        match change {
            FlipChange::RemoveRequestHeader { name } => it.request.remove(name),
            FlipChange::RemoveRequestBody => it.body = false,
            FlipChange::RemoveResponseHeader { name } => it.response.remove(name),
            FlipChange::SetResponseHeader { name, value } => it.response.set(name, value),
            FlipChange::SetConfig(setting) => setting.apply(&mut it.policy),
        }
        it
    }

    /// The decision itself: the first request goes to the origin, the response is stored, and then the same request is a
    /// hit.
    fn hits_again(&self, exchange: &OriginExchange<'_>) -> bool {
        let (request, response) = (self.request.view(), self.response.view());
        let mut facts = RequestFacts::read(exchange.method, &request);
        facts.has_body = self.body;
        facts.uri = exchange.uri;
        let (policy, sent, got) = (&self.policy, exchange.request_time, exchange.response_time);
        let first = reuse::decide(Err(ForwardReason::UriMiss), &facts, policy, sent, &mut Silent);
        if first == Reuse::GatewayTimeout
            || storable::decide(&facts, exchange.status, &response, policy, sent, got, &mut Silent)
                != Storable::Store
        {
            return false;
        }
        let meta = Meta::of(exchange.status, &response, policy, sent, got);
        reuse::decide(Ok(&meta), &facts, policy, got, &mut Silent) == Reuse::Serve
    }

    /// The decision itself: a stored response is served, fresh or stale.
    fn answers(&self, stored: &Meta, method: &str, now: WallTime) -> bool {
        let request = self.request.view();
        let facts = RequestFacts { has_body: self.body, ..RequestFacts::read(method, &request) };
        let verdict = reuse::decide(Ok(stored), &facts, &self.policy, now, &mut Silent);
        matches!(verdict, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
    }

    /// The facts of a response with this head, as if received now with age 0. Its lifetime is counted from the stored
    /// `Date`.
    fn renewed(&self, was: &Meta, now: WallTime) -> Meta {
        let stored = self.response.view();
        let mut meta = Meta::of(was.status, &stored, &self.policy, was.request_time, was.response_time);
        meta.set_partial(was.partial());
        Meta { initial_age: 0, request_time: now, response_time: now, ..meta }
    }

    /// Changes that may make a response storable, the smallest first.
    fn candidates_to_store(&self, exchange: &OriginExchange<'_>) -> Vec<FlipChange> {
        let mut found = self.request_changes();
        let response = self.response.view();
        let age =
            Meta::of(exchange.status, &response, &self.policy, exchange.request_time, exchange.response_time)
                .initial_age;
        found.extend(self.response_changes(age));
        found.extend(self.config_changes(exchange.status, age));
        found
    }

    /// Changes that may let a response like the stored one be served, the smallest first.
    fn candidates_to_reuse(&self, status: u16) -> Vec<FlipChange> {
        let mut found = self.request_changes();
        found.extend(self.response_changes(0));
        found.extend(self.config_changes(status, 0));
        found.push(FlipChange::SetConfig(FlipSetting::StaleWhileRevalidate(LIFETIME)));
        found
    }

    /// Changes of the request that let the stored response be served unchanged.
    fn candidates_of_the_request(&self) -> Vec<FlipChange> {
        let mut found = self.request_changes();
        found.push(FlipChange::SetConfig(FlipSetting::IgnoreRequestDirectives));
        found
    }

    fn request_changes(&self) -> Vec<FlipChange> {
        const NAMES: [&str; 7] = [
            "Cache-Control",
            "Pragma",
            "Authorization",
            "X-HTTP-Method-Override",
            "X-Method-Override",
            "X-HTTP-Method",
            "Range",
        ];
        let present = NAMES.iter().filter(|it| self.request.contains(it));
        let mut found: Vec<_> =
            present.map(|it| FlipChange::RemoveRequestHeader { name: (*it).to_owned() }).collect();
        if self.body {
            found.push(FlipChange::RemoveRequestBody);
        }
        found
    }

    /// Changes of the response: without one directive, without one field, or with a line replaced.
    fn response_changes(&self, age: u32) -> Vec<FlipChange> {
        let mut found = Vec::new();
        let response = self.response.view();
        let (_, targeted) = crate::targeted::directives(&response, &self.policy);
        let field = targeted.unwrap_or("Cache-Control");
        let members = members(&response, field);
        let removable = |at: usize| !is_about_privacy(&members[at]);
        for left_out in (0..members.len().min(DIRECTIVES)).filter(|it| removable(*it)) {
            let rest: Vec<_> =
                members.iter().enumerate().filter(|it| it.0 != left_out).map(|it| it.1.as_str()).collect();
            found.push(set_or_remove(field, &rest.join(", ")));
        }
        let all_removable = (0..members.len()).all(removable);
        // Not `Vary`: without it one client's variant is every client's.
        for name in ["Expires", "Age", "Date", field] {
            if self.response.contains(name) && (name != field || all_removable) {
                found.push(FlipChange::RemoveResponseHeader { name: name.to_owned() });
            }
        }
        let max_age = format!("max-age={}", age.saturating_add(LIFETIME));
        let mut kept: Vec<_> =
            members.iter().map(String::as_str).filter(|it| !is_about_lifetime(it)).collect();
        kept.insert(0, &max_age);
        found.push(set_or_remove(field, &kept.join(", ")));
        if all_removable {
            found.push(set_or_remove(field, &max_age));
            found.push(set_or_remove(field, &format!("{max_age}, public")));
        }
        found
    }

    fn config_changes(&self, status: u16, age: u32) -> Vec<FlipChange> {
        let ttl = age.saturating_add(LIFETIME).min(LONGEST_LIFETIME);
        let length = self.response.get("content-length").and_then(storable::decimal);
        let too_large = length.filter(|it| *it > self.policy.max_object);
        let obeys = self.policy.request_directives != RequestDirectivePolicy::Ignore;
        let settings = [
            (!self.policy.enabled).then_some(FlipSetting::Enabled),
            obeys.then_some(FlipSetting::IgnoreRequestDirectives),
            too_large.map(FlipSetting::MaxObject),
            Some(FlipSetting::DefaultTtl(ttl)),
            Some(FlipSetting::StatusTtl(status, ttl)),
            Some(FlipSetting::OverrideTtl(ttl)),
            (self.policy.max_ttl < ttl).then_some(FlipSetting::MaxTtl(ttl)),
        ];
        settings.into_iter().flatten().map(FlipChange::SetConfig).collect()
    }
}

/// The directives of a field as received.
fn members(response: &[Field<'_>], field: &str) -> Vec<String> {
    let each = all(response, field).flat_map(|line| {
        // A directive ends where the next begins; its text lies in between.
        let mut rest = directives(line);
        std::iter::from_fn(move || {
            let before = rest.rest();
            rest.next()?;
            let text = before.get(..before.len() - rest.rest().len())?;
            Some(String::from_utf8_lossy(text.trim_ascii()).trim_matches(',').trim().to_owned())
        })
    });
    each.filter(|it| !it.is_empty()).collect()
}

fn is_about_lifetime(directive: &str) -> bool {
    let name = directive.split('=').next().unwrap_or_default().trim();
    ["max-age", "s-maxage"].iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether a directive keeps a field of the response private: no proposal removes it (RFC 9111 §5.2.2.4, §5.2.2.7).
fn is_about_privacy(directive: &str) -> bool {
    let (name, has_fields) = directive.split_once('=').map_or((directive, false), |it| (it.0, true));
    let is = |it: &str| it.eq_ignore_ascii_case(name.trim());
    is("private") || is("no-store") || (is("no-cache") && has_fields)
}

fn set_or_remove(name: &str, value: &str) -> FlipChange {
    let name = name.to_owned();
    if value.is_empty() {
        FlipChange::RemoveResponseHeader { name }
    } else {
        FlipChange::SetResponseHeader { name, value: value.to_owned() }
    }
}

#[cfg(test)]
mod tests;
