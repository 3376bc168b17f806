//! The reason for which an explained request asks the origin, by the functions that count it for served requests, and the facts
//! about its last response that advice depends on.

use super::CacheVerdict;
use crate::cache_key;
use crate::cache_rules;
use crate::request_headers::{self, Bypass};
use crate::route::{Gateway, GatewayRoute};
use crate::unstored_responses::{Audience, RefusedStorage};
use larder_semantics::advice::{CredentialOf, NamedCredential, PageAudience};
use larder_semantics::cache_control::ResponseDirectives;
use larder_semantics::cookie_pairs::in_list;
use larder_semantics::cookies;
use larder_semantics::field::{Field, FieldList, first};
use larder_semantics::flip;
use larder_semantics::miss_reason::{self, MissFacts, MissReason, RequestCredentials};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason};
use larder_semantics::scheme::Scheme;
use larder_semantics::secret;
use larder_semantics::storable::{self, NotStorable, Storable};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_semantics::vary;
use larder_stdx::clock::WallTime;
use larder_store::StoredArc;
use larder_store::ram::{KeyHash, Lookup};
use larder_wire::message::Request;

/// A request that an origin gets.
pub(super) struct ReasonInput<'a> {
    /// Its facts.
    pub facts: &'a RequestFacts<'a>,
    /// The hash of its key.
    pub hash: KeyHash,
    /// The content of RAM under the key.
    pub looked: &'a Lookup,
    /// Whether the stored response is in doubt.
    pub doubted: bool,
    /// The stored response.
    pub selected: Result<&'a StoredArc, &'a ForwardReason>,
    /// The wall clock.
    pub now: WallTime,
}

/// The judgement about an explained request.
#[derive(Clone, Debug, Default)]
pub struct JudgedRequest {
    /// Why an origin is asked, if it is.
    pub reason: Option<MissReason>,
    /// The audience of the page.
    pub audience: PageAudience,
    /// The declared size of the last response that was not stored.
    pub length: Option<u64>,
    /// Whether a lifetime shares nothing that is not shared: the last exchange had a response for no one client, and neither request had
    /// credentials; or the stored response has expired.
    pub is_public: bool,
    /// The field or cookies on which the reason depends.
    pub credential: Option<NamedCredential>,
    /// The fields of the last request, if the reason depends on them.
    pub last_request: Option<FieldList>,
    /// The status of the last response that was not stored.
    pub last_status: Option<u16>,
    /// Whether the stored response, or the last one that was not stored, redirects to the same URL over `https`.
    pub redirects_to_https: bool,
    /// Whether the last response that was not stored is private by its own fields, or sets a cookie.
    pub is_declared_private: bool,
    /// The cookies that this response sets, if it is declared `public` and no responses to a URL of the route differed.
    pub set_cookies: Vec<String>,
}

impl JudgedRequest {
    /// Whether the request is withheld from the cache because of its cookies or other credentials.
    #[must_use]
    pub fn is_withheld(&self) -> bool {
        matches!(self.reason, Some(MissReason::PrivateCookie | MissReason::Credentials))
    }
}

impl ReasonInput<'_> {
    /// The judgement about a request with this verdict.
    pub fn judge(
        &self,
        gateway: &Gateway,
        route: &GatewayRoute,
        request: &Request,
        bypass: Option<Bypass>,
        last: Option<&RefusedStorage>,
        verdict: &CacheVerdict,
    ) -> JudgedRequest {
        let audience = gateway.shared.unstored.audience(self.hash);
        let fields = request.fields.view();
        let shows_public = last.is_some_and(|it| is_public(it, &fields, &route.policy));
        let reason = verdict.asks_the_origin().then(|| self.reason(gateway, route, request, bypass, last));
        // A stored response that was fresh is shared already.
        let is_shared = reason == Some(MissReason::Expired) && self.selected.is_ok();
        let response = last.filter(|it| it.failure.is_none());
        let redirects_to_https = match (self.selected, response) {
            (Ok(it), _) => redirects_to_https(request, it.meta.status, &it.fields().view()),
            (Err(_), Some(it)) => redirects_to_https(request, it.status, &it.response.view()),
            (Err(_), None) => false,
        };
        let credential = reason.and_then(|it| self.credential(it, request, &route.policy, last));
        let is_of_last = credential.as_ref().is_some_and(|it| it.of == CredentialOf::LastRequest);
        let is_same = audience != Audience::Differs && !gateway.shared.unstored.differ(&route.name);
        let public = response.filter(|it| is_same && is_declared_public(&it.response.view()));
        JudgedRequest {
            set_cookies: public.map_or_else(Vec::new, |it| cookies::names_set_by(&it.response.view())),
            last_request: last.filter(|_| is_of_last).map(|it| it.request.clone()),
            credential,
            last_status: response.map(|it| it.status),
            redirects_to_https,
            is_declared_private: response
                .is_some_and(|it| flip::is_declared_private(&it.response.view(), &route.policy)),
            reason,
            audience: audience.of_page(),
            length: last.and_then(length),
            is_public: audience == Audience::Unknown
                && !gateway.shared.unstored.differ(&route.name)
                && (shows_public || is_shared),
        }
    }

    /// The field or cookies on which a reason depends.
    fn credential(
        &self,
        reason: MissReason,
        request: &Request,
        policy: &Policy,
        last: Option<&RefusedStorage>,
    ) -> Option<NamedCredential> {
        let fields = request.fields.view();
        let of = |of| move |words| NamedCredential { of, words };
        match reason {
            MissReason::PrivateCookie => {
                cookies::mattering(&fields, self.facts.method, policy).map(of(CredentialOf::Request))
            }
            MissReason::OverridingField | MissReason::UnkeyedField => {
                let names: Vec<String> =
                    request_headers::overriding(policy, &fields).map(|it| it.0.name.to_owned()).collect();
                in_list("field", &names).map(of(CredentialOf::Request))
            }
            MissReason::SetCookie => cookies::set_by(&last?.response.view()).map(of(CredentialOf::Response)),
            MissReason::Credentials | MissReason::Variant
                if self.selected.is_err() && matches!(self.looked, Lookup::Entry(_)) =>
            {
                let Lookup::Entry(entry) = self.looked else { return None };
                let variants: Vec<(&[Box<str>], &[u8])> =
                    entry.variants.iter().map(|it| (it.meta.vary(), it.variant())).collect();
                vary::in_words(&variants, &fields).map(of(CredentialOf::Variants))
            }
            MissReason::Credentials | MissReason::Authorization => {
                let own = self.facts.credentials_in_words(policy).map(of(CredentialOf::Request));
                own.or_else(|| {
                    let last = last?;
                    let words =
                        RequestFacts::read(&last.method, &last.request.view()).credentials_in_words(policy);
                    words.map(of(CredentialOf::LastRequest))
                })
            }
            _ => None,
        }
    }

    /// The reason, as it would be counted: the rule that refused the last response outweighs the rest.
    fn reason(
        &self,
        gateway: &Gateway,
        route: &GatewayRoute,
        request: &Request,
        bypass: Option<Bypass>,
        last: Option<&RefusedStorage>,
    ) -> MissReason {
        if let Some(bypass) = bypass {
            return bypass.reason();
        }
        let stored = self.selected.ok();
        let usable = match self.selected {
            Ok(it) => Ok(&it.meta),
            Err(reason) => Err(*reason),
        };
        let decision = reuse::decide(usable, self.facts, &route.policy, self.now, &mut Silent);
        let forward = decision.reason().unwrap_or(ForwardReason::Stale);
        let before = miss_reason::judge(&MissFacts {
            forward,
            stored: stored.map(|it| &it.meta),
            is_for_others: match stored {
                Some(it) => reuse::is_for_others(&it.meta, self.facts, &route.policy),
                None => matches!(self.looked, Lookup::Entry(it) if vary::are_by_client(it.vary())),
            },
            is_doubted: self.doubted,
            is_hit_for_miss: matches!(self.looked, Lookup::HitForMiss),
            is_head: self.facts.method == "HEAD",
            removed: if stored.is_none() { gateway.store.removal_cause(self.hash) } else { None },
            is_background: false,
        });
        match last
            .filter(|it| stored.is_none() && it.failure.is_none())
            .and_then(|it| refusal(it, route, request))
        {
            Some((refusal, meta, credentials)) => {
                miss_reason::refused(before, refusal, || meta, || credentials)
            }
            None => before,
        }
    }
}

/// The rule that refuses a response of the last exchange now, the facts of that response, and the credentials of its request.
fn refusal(
    last: &RefusedStorage,
    route: &GatewayRoute,
    asked: &Request,
) -> Option<(NotStorable, Meta, RequestCredentials)> {
    let (request, response) = (last.request.view(), last.response.view());
    let policy = cache_rules::of_response(&route.policy, asked, last.status, &response);
    let (sent, got) = (last.request_time, last.response_time);
    let authority = cache_key::normal(asked.scheme, &asked.authority);
    let facts =
        RequestFacts::read(&last.method, &request).with_uri(asked.scheme.name(), &authority, &asked.target);
    let credentials =
        if facts.has_credentials(policy) { RequestCredentials::Some } else { RequestCredentials::None };
    let about = |it| (it, Meta::of(last.status, &response, policy, sent, got), credentials);
    match storable::decide(&facts, last.status, &response, policy, sent, got, &mut Silent) {
        Storable::Refuse(it) => Some(about(it)),
        Storable::Store if length(last).is_some_and(|it| it > policy.max_object) => {
            Some(about(NotStorable::TooLarge))
        }
        Storable::Store => None,
    }
}

/// Whether a response redirects a request without TLS to the same URL over `https`.
fn redirects_to_https(request: &Request, status: u16, response: &[Field<'_>]) -> bool {
    let host = |it: &str| Scheme::Https.without_port(Scheme::Http.without_port(it)).to_ascii_lowercase();
    let target = |location: &[u8]| {
        let location = std::str::from_utf8(location).ok()?;
        let (scheme, rest) = Scheme::split(location)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let is_same = scheme == Scheme::Https && host(authority) == host(&request.authority);
        Some(is_same && target == request.target)
    };
    request.scheme == Scheme::Http
        && matches!(status, 301 | 302 | 303 | 307 | 308)
        && first(response, "location").and_then(target).unwrap_or(false)
}

/// Whether the application says that a response is for all clients.
fn is_declared_public(response: &[Field<'_>]) -> bool {
    let it = ResponseDirectives::read(response);
    it.public && !it.no_store && !it.private.is_whole()
}

/// The declared size of the last response.
fn length(last: &RefusedStorage) -> Option<u64> {
    std::str::from_utf8(last.response.get("content-length")?).ok()?.parse().ok()
}

/// Whether neither the last request nor this one had credentials, and the response is for no one client.
fn is_public(last: &RefusedStorage, fields: &[Field<'_>], policy: &Policy) -> bool {
    let (request, response) = (last.request.view(), last.response.view());
    let has = |it: &[Field<'_>]| {
        it.iter().any(|it| it.is("cookie") || it.is("authorization") || secret::identifies_client(it.name))
    };
    last.failure.is_none()
        && !has(&request)
        && !has(fields)
        && !flip::is_one_visitors(&last.exchange(&request, &response, policy))
}

impl Audience {
    /// The same for advice.
    pub(super) fn of_page(self) -> PageAudience {
        match self {
            Audience::Unknown => PageAudience::Unknown,
            Audience::Differs => PageAudience::Differs,
            Audience::OneVisitor => PageAudience::OneClient,
        }
    }
}
