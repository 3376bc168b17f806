//! The smallest change that would flip a verdict: what `explain` proposes. Nothing here decides. Every
//! proposal is tried by running the decision again with the change applied, and only what flips it is
//! returned; so a proposal is never wrong. Which are tried together is in `search`.

mod search;

use crate::cache_control::directives;
use crate::field::{Field, FieldList, all, first};
use crate::policy::{LONGEST_LIFETIME, Policy, RequestDirectivePolicy};
use crate::request::{RequestFacts, Uri};
use crate::reuse::{self, ForwardReason, Reuse};
use crate::storable::{self, Storable};
use crate::stored::Meta;
use crate::trace::Silent;
use larder_stdx::clock::WallTime;
pub use search::fewest;

/// Freshness that a proposal gives, beyond the age that the response already has: seconds.
const LIFETIME: u32 = 60;
/// So many directives of a field are tried without one of them: an origin may say thousands.
const DIRECTIVES: usize = 16;

/// One change, to a request, a response or the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The client leaves out every line of this name.
    RemoveRequestHeader {
        /// As in the request.
        name: String,
    },
    /// The client sends no body.
    RemoveRequestBody,
    /// The origin leaves out every line of this name.
    RemoveResponseHeader {
        /// As in the response.
        name: String,
    },
    /// The origin sends this line in place of all of that name.
    SetResponseHeader {
        /// The field's name.
        name: String,
        /// Its whole value.
        value: String,
    },
    /// The operator sets this key of the route.
    SetConfig(Setting),
}

/// One configuration key of a route with a value that may flip a verdict. Seconds, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `cache.enabled = true`
    Enabled,
    /// `cache.request_directives = "ignore"`
    IgnoreRequestDirectives,
    /// `cache.store_set_cookie = true`
    StoreSetCookie,
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

impl Setting {
    /// Such as `cache.default_ttl`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Setting::Enabled => "cache.enabled",
            Setting::IgnoreRequestDirectives => "cache.request_directives",
            Setting::StoreSetCookie => "cache.store_set_cookie",
            Setting::MaxObject(_) => "cache.max_object",
            Setting::DefaultTtl(_) => "cache.default_ttl",
            Setting::StatusTtl(..) => "cache.status_ttl",
            Setting::OverrideTtl(_) => "cache.override_ttl",
            Setting::MaxTtl(_) => "cache.max_ttl",
            Setting::StaleWhileRevalidate(_) => "cache.stale_while_revalidate",
        }
    }

    /// As it is written in TOML.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            Setting::Enabled | Setting::StoreSetCookie => "true".to_owned(),
            Setting::IgnoreRequestDirectives => "\"ignore\"".to_owned(),
            Setting::MaxObject(bytes) => format!("\"{bytes}B\""),
            Setting::StatusTtl(status, seconds) => format!("{{ {status} = \"{seconds}s\" }}"),
            Setting::DefaultTtl(seconds)
            | Setting::OverrideTtl(seconds)
            | Setting::MaxTtl(seconds)
            | Setting::StaleWhileRevalidate(seconds) => format!("\"{seconds}s\""),
        }
    }

    fn apply(self, policy: &mut Policy) {
        match self {
            Setting::Enabled => policy.enabled = true,
            Setting::IgnoreRequestDirectives => {
                policy.request_directives = RequestDirectivePolicy::Ignore;
            }
            Setting::StoreSetCookie => policy.store_set_cookie = true,
            Setting::MaxObject(bytes) => policy.max_object = bytes,
            Setting::DefaultTtl(seconds) => policy.default_ttl = Some(seconds),
            Setting::StatusTtl(status, seconds) => {
                policy.status_ttl.retain(|it| it.0 != status);
                policy.status_ttl.push((status, seconds));
            }
            Setting::MaxTtl(seconds) => policy.max_ttl = seconds,
            Setting::OverrideTtl(seconds) => policy.override_ttl = Some(seconds),
            Setting::StaleWhileRevalidate(seconds) => policy.stale_while_revalidate = seconds,
        }
    }
}

impl Change {
    /// One sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Change::RemoveRequestHeader { name } => format!("Send the request without {name}."),
            Change::RemoveRequestBody => "Send the request without a body.".to_owned(),
            Change::RemoveResponseHeader { name } => {
                format!("Configure the origin to respond without {name}.")
            }
            Change::SetResponseHeader { name, value } => {
                format!("Configure the origin to respond with {name}: {value}.")
            }
            Change::SetConfig(it) => format!("Set {} = {} for the route.", it.key(), it.value()),
        }
    }
}

/// One exchange with an origin, as [`storable::decide`] saw it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'e> {
    /// The request's method.
    pub method: &'e str,
    /// The request's fields.
    pub request: &'e [Field<'e>],
    /// The target URI, where it is known.
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

/// Whether the response is one visitor's, so that nothing may be proposed to share it: it says `private` or `no-store`, in a targeted field or
/// beside one, it sets a cookie, or it answers credentials and does not say that it may be shared (RFC 9111 §3, §3.5).
#[must_use]
pub fn is_one_visitors(exchange: &Exchange<'_>) -> bool {
    let Exchange { request, response, policy, .. } = *exchange;
    let untargeted = Policy { targets: Vec::new(), ..policy.clone() };
    let forbids = [policy, &untargeted].iter().any(|policy| {
        let said = crate::targeted::directives(response, policy).0;
        said.private.is_whole() || said.no_store
    });
    let facts = RequestFacts::read(exchange.method, request);
    let meta = Meta::of(exchange.status, response, policy, exchange.request_time, exchange.response_time);
    let said = crate::targeted::directives(response, policy).0;
    let unshared = facts.has_credentials(policy) && meta.implicit;
    let unauthorized = facts.authorization && !said.shares_authorized();
    forbids || first(response, "set-cookie").is_some() || unshared || unauthorized
}

/// The fewest changes that make the response storable, where it is not [`is_one_visitors`]: whoever proposes them asks that first.  and the same request, asked again, a hit. `None` where it is so
/// already, or where nothing that is known suffices.
#[must_use]
pub fn smallest(exchange: &Exchange<'_>) -> Option<Vec<Change>> {
    let was = Trial::of(exchange);
    fewest(&was, &was.candidates_to_store(exchange), Trial::with, |it| it.hits_again(exchange))
}

/// Whether the response is stored, and the same request, asked again, a hit, with nothing changed.
#[must_use]
pub fn is_a_hit_again(exchange: &Exchange<'_>) -> bool {
    Trial::of(exchange).hits_again(exchange)
}

/// The smallest change that makes this request be answered from the store, given what is stored under its
/// key: `stored` is the head that is kept. Like [`smallest`] otherwise.
#[must_use]
pub fn smallest_for_reuse(
    meta: &Meta,
    stored: &FieldList,
    method: &str,
    request: &[Field<'_>],
    policy: &Policy,
    now: WallTime,
) -> Option<Vec<Change>> {
    let was = Trial {
        request: FieldList::from_fields(request),
        response: stored.clone(),
        policy: policy.clone(),
        body: RequestFacts::read(method, request).has_body,
    };
    fewest(&was, &was.candidates_to_reuse(meta, now), Trial::with, |it| {
        it.answers_from_store(meta, method, now)
    })
}

/// What a verdict is made from, with some changes applied.
#[derive(Clone)]
struct Trial {
    request: FieldList,
    response: FieldList,
    policy: Policy,
    body: bool,
}

impl Trial {
    fn of(exchange: &Exchange<'_>) -> Self {
        Self {
            request: FieldList::from_fields(exchange.request),
            response: FieldList::from_fields(exchange.response),
            policy: exchange.policy.clone(),
            body: RequestFacts::read(exchange.method, exchange.request).has_body,
        }
    }

    fn with(&self, change: &Change) -> Self {
        let mut it = self.clone();
        match change {
            Change::RemoveRequestHeader { name } => it.request.remove(name),
            Change::RemoveRequestBody => it.body = false,
            Change::RemoveResponseHeader { name } => it.response.remove(name),
            Change::SetResponseHeader { name, value } => it.response.set(name, value),
            Change::SetConfig(setting) => setting.apply(&mut it.policy),
        }
        it
    }

    /// The decision itself: nothing keeps the request from the origin at first, the response is stored, and then the same
    /// request is a hit.
    fn hits_again(&self, exchange: &Exchange<'_>) -> bool {
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

    /// The decision itself: the stored response answers, fresh or stale.
    fn answers_from_store(&self, was: &Meta, method: &str, now: WallTime) -> bool {
        let (request, stored) = (self.request.view(), self.response.view());
        let mut facts = RequestFacts::read(method, &request);
        facts.has_body = self.body;
        let meta = Meta::of(was.status, &stored, &self.policy, was.request_time, was.response_time);
        // `Age` is not stored: the age on arrival is what it was.
        let meta = Meta { initial_age: was.initial_age, partial: was.partial, ..meta };
        let verdict = reuse::decide(Ok(&meta), &facts, &self.policy, now, &mut Silent);
        matches!(verdict, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
    }

    /// What may make a response storable, the smallest first.
    fn candidates_to_store(&self, exchange: &Exchange<'_>) -> Vec<Change> {
        let mut found = self.request_changes();
        let response = self.response.view();
        let age =
            Meta::of(exchange.status, &response, &self.policy, exchange.request_time, exchange.response_time)
                .initial_age;
        found.extend(self.response_changes(age));
        found.extend(self.config_changes(exchange.status, age));
        found
    }

    /// What may make a stored response answer, the smallest first.
    fn candidates_to_reuse(&self, meta: &Meta, now: WallTime) -> Vec<Change> {
        let age = meta.age(now);
        let mut found = self.request_changes();
        found.extend(self.response_changes(age));
        found.extend(self.config_changes(meta.status, age));
        let staleness =
            age.saturating_sub(meta.lifetime.seconds).saturating_add(LIFETIME).min(LONGEST_LIFETIME);
        found.push(Change::SetConfig(Setting::StaleWhileRevalidate(staleness)));
        found
    }

    fn request_changes(&self) -> Vec<Change> {
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
            present.map(|it| Change::RemoveRequestHeader { name: (*it).to_owned() }).collect();
        if self.body {
            found.push(Change::RemoveRequestBody);
        }
        found
    }

    /// A directive less, a field less, or a line in another's place.
    fn response_changes(&self, age: u32) -> Vec<Change> {
        let mut found = Vec::new();
        let response = self.response.view();
        let (_, targeted) = crate::targeted::directives(&response, &self.policy);
        let field = targeted.unwrap_or("Cache-Control");
        let said = said(&response, field);
        for left_out in 0..said.len().min(DIRECTIVES) {
            let rest: Vec<_> =
                said.iter().enumerate().filter(|it| it.0 != left_out).map(|it| it.1.as_str()).collect();
            found.push(set_or_remove(field, &rest.join(", ")));
        }
        for name in ["Set-Cookie", "Vary", "Expires", "Age", "Date", field] {
            if self.response.contains(name) {
                found.push(Change::RemoveResponseHeader { name: name.to_owned() });
            }
        }
        let max_age = format!("max-age={}", age.saturating_add(LIFETIME));
        let mut kept: Vec<_> = said.iter().map(String::as_str).filter(|it| !is_about_lifetime(it)).collect();
        kept.insert(0, &max_age);
        found.push(set_or_remove(field, &kept.join(", ")));
        found.push(set_or_remove(field, &max_age));
        found.push(set_or_remove(field, &format!("{max_age}, public")));
        found
    }

    fn config_changes(&self, status: u16, age: u32) -> Vec<Change> {
        let ttl = age.saturating_add(LIFETIME).min(LONGEST_LIFETIME);
        let length = self.response.get("content-length").and_then(storable::decimal);
        let too_large = length.filter(|it| *it > self.policy.max_object);
        let obeys = self.policy.request_directives != RequestDirectivePolicy::Ignore;
        let settings = [
            (!self.policy.enabled).then_some(Setting::Enabled),
            obeys.then_some(Setting::IgnoreRequestDirectives),
            (!self.policy.store_set_cookie).then_some(Setting::StoreSetCookie),
            too_large.map(Setting::MaxObject),
            Some(Setting::DefaultTtl(ttl)),
            Some(Setting::StatusTtl(status, ttl)),
            Some(Setting::OverrideTtl(ttl)),
            (self.policy.max_ttl < ttl).then_some(Setting::MaxTtl(ttl)),
        ];
        settings.into_iter().flatten().map(Change::SetConfig).collect()
    }
}

/// The directives of a field as they were written.
fn said(response: &[Field<'_>], field: &str) -> Vec<String> {
    let each = all(response, field).flat_map(|line| {
        // A directive ends where the next begins, so what lies between is its text.
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

fn set_or_remove(name: &str, value: &str) -> Change {
    let name = name.to_owned();
    if value.is_empty() {
        Change::RemoveResponseHeader { name }
    } else {
        Change::SetResponseHeader { name, value: value.to_owned() }
    }
}

#[cfg(test)]
mod tests;
