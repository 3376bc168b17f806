//! The reason for which an explained request asks the origin, by the functions that count it for served requests, and the facts
//! about its last response that advice depends on.

use super::CacheVerdict;
use crate::cache_key;
use crate::refusals::{Audience, RefusedStorage};
use crate::request_headers::Bypass;
use crate::route::{Gateway, GatewayRoute};
use crate::rules;
use larder_semantics::advice::PageAudience;
use larder_semantics::field::Field;
use larder_semantics::flip;
use larder_semantics::miss_reason::{self, MissFacts, MissReason, RequestCredentials};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason};
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
    /// The credentials of the last request for the page, where they are the reason and the explained request has none.
    pub last_credentials: Option<String>,
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
        let audience = gateway.refusals.audience(self.hash);
        let fields = request.fields.view();
        let shows_public = last.is_some_and(|it| is_public(it, &fields, &route.policy));
        let reason = verdict.asks_the_origin().then(|| self.reason(gateway, route, request, bypass, last));
        // A stored response that was fresh is shared already.
        let is_shared = reason == Some(MissReason::Expired) && self.selected.is_ok();
        let last_credentials = last
            .filter(|_| bypass.is_none() && !self.facts.has_credentials(&route.policy))
            .filter(|_| matches!(reason, Some(MissReason::Credentials | MissReason::Authorization)))
            .map(|it| RequestFacts::read(&it.method, &it.request.view()).carried_credentials(&route.policy));
        JudgedRequest {
            last_credentials,
            reason,
            audience: audience.of_page(),
            length: last.and_then(length),
            is_public: audience == Audience::Unknown
                && !gateway.refusals.differ(&route.name)
                && (shows_public || is_shared),
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
    let policy = rules::of_response(&route.policy, asked, last.status, &response);
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
