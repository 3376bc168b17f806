//! The proposals of `explain` for flipping a verdict, where `semantics::flip` has none: changes that let a request use
//! the cache, be answered without an origin, or reach one. Each proposal is tested by deciding again; only one that flips
//! the decision is returned.

use crate::request_headers::{self, Bypass};
use crate::trusted_headers;
use larder_semantics::field::FieldList;
use larder_semantics::flip;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::storable::{self, Storable};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_stdx::clock::WallTime;
use larder_wire::message::Request;

/// A request and its route's policy, as far as they decide, with some changes applied.
#[derive(Clone, Debug)]
pub struct ChangedRequest {
    /// Its method.
    pub method: String,
    /// Its target.
    pub target: String,
    /// Its fields.
    pub fields: FieldList,
    /// The route's policy.
    pub policy: Policy,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// `cache.enabled = true`.
    Enable,
    /// The method GET.
    Get,
    /// No body.
    NoBody,
    /// No cookies.
    NoCookie,
    /// Without the fields that applications may take for another target, method or user.
    NoOverride,
    /// No `Max-Forwards`.
    NoMaxForwards,
    /// No `only-if-cached`.
    NoOnlyIfCached,
}

/// Changes that may let a request use the cache, the smallest first.
const INTO_THE_CACHE: [Remedy; 5] =
    [Remedy::Get, Remedy::NoBody, Remedy::NoCookie, Remedy::NoOverride, Remedy::Enable];

impl Remedy {
    /// One sentence for the operator.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Remedy::Enable => "Set cache.enabled = true for the route.",
            Remedy::Get => "Send the request with GET.",
            Remedy::NoBody => "Send the request without a body.",
            Remedy::NoCookie => "Send the request without Cookie.",
            Remedy::NoOverride => {
                "Send the request without the field that may change the target, method or user."
            }
            Remedy::NoMaxForwards => "Send the request without Max-Forwards.",
            Remedy::NoOnlyIfCached => "Send the request without only-if-cached.",
        }
    }

    fn apply(self, to: &mut ChangedRequest) {
        match self {
            Remedy::Enable => to.policy.enabled = true,
            Remedy::Get => "GET".clone_into(&mut to.method),
            Remedy::NoBody => to.remove(&["content-length", "transfer-encoding"]),
            Remedy::NoCookie => to.remove(&["cookie"]),
            Remedy::NoOverride => {
                let policy = &to.policy;
                to.fields.retain(|it| {
                    !trusted_headers::overrides(it.name) && !request_headers::is_unkeyed(policy, &it)
                });
                to.remove(&request_headers::METHODS);
            }
            Remedy::NoMaxForwards => to.remove(&["max-forwards"]),
            Remedy::NoOnlyIfCached => {
                let lines: Vec<Vec<u8>> = to.fields.get_all("cache-control").map(<[u8]>::to_vec).collect();
                to.remove(&["cache-control"]);
                for line in lines {
                    let kept = line.split(|it| *it == b',').map(<[u8]>::trim_ascii);
                    let kept: Vec<&[u8]> =
                        kept.filter(|it| !it.eq_ignore_ascii_case(b"only-if-cached")).collect();
                    if !kept.is_empty() {
                        to.fields.push("Cache-Control", kept.join(&b", "[..]));
                    }
                }
            }
        }
    }
}

impl ChangedRequest {
    /// A request to a route with this policy.
    #[must_use]
    pub fn of(request: &Request, policy: &Policy) -> Self {
        Self {
            method: request.method.clone(),
            target: request.target.clone(),
            fields: request.fields.clone(),
            policy: policy.clone(),
        }
    }

    /// The same with some more changes.
    #[must_use]
    pub fn with(&self, remedies: &[Remedy]) -> Self {
        let mut it = self.clone();
        remedies.iter().for_each(|remedy| remedy.apply(&mut it));
        it
    }

    /// Why the request bypasses the cache, if so: the function that the server uses.
    #[must_use]
    pub fn bypass(&self) -> Option<Bypass> {
        let fields = self.fields.view();
        request_headers::bypass(
            &self.policy,
            &RequestFacts::read(&self.method, &fields),
            &self.target,
            &fields,
        )
    }

    /// Whether larder refuses the method.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        request_headers::refuses_method(&self.method)
    }

    /// The decision about the request where it selects `stored`.
    #[must_use]
    pub fn reuse(&self, stored: Result<&Meta, ForwardReason>, now: WallTime) -> Reuse {
        let fields = self.fields.view();
        reuse::decide(stored, &RequestFacts::read(&self.method, &fields), &self.policy, now, &mut Silent)
    }

    fn remove(&mut self, names: &[&str]) {
        names.iter().for_each(|it| self.fields.remove(it));
    }

    /// The fewest of `candidates` after which `flips` holds; empty where it holds already.
    fn first_that_flips(
        &self,
        candidates: &[Remedy],
        flips: impl Fn(&ChangedRequest) -> bool,
    ) -> Option<Vec<Remedy>> {
        flip::fewest(self, candidates, |it, remedy| it.with(&[*remedy]), flips)
    }
}

/// Changes after which a request uses the cache that bypasses it, or is refused for its method.
#[must_use]
pub fn into_the_cache(asked: &ChangedRequest) -> Option<Vec<Remedy>> {
    asked.first_that_flips(&INTO_THE_CACHE, |it| !it.is_refused() && it.bypass().is_none())
}

/// [`Remedy::NoOverride`] for a given request: with the names of its fields.
#[must_use]
pub fn without_overriding(asked: &ChangedRequest) -> String {
    let fields = asked.fields.view();
    let (mut all, mut of_keys): (Vec<&str>, Vec<&str>) = Default::default();
    for (it, may_be_in_key) in request_headers::overriding(&asked.policy, &fields) {
        if !all.iter().any(|name| name.eq_ignore_ascii_case(it.name)) {
            all.push(it.name);
            of_keys.extend(may_be_in_key.then_some(it.name));
        }
    }
    let without = format!("Send the request without {}", all.join(" and "));
    match of_keys.len() == all.len() {
        true => format!("{without}, or add it to cache.key.headers to store one response per value."),
        // No key contains the method.
        false => format!("{without}."),
    }
}

/// Changes after which a request is forwarded that larder answers itself because of `Max-Forwards`.
#[must_use]
pub fn onwards(asked: &ChangedRequest) -> Option<Vec<Remedy>> {
    asked.first_that_flips(&[Remedy::NoMaxForwards], |it| {
        request_headers::max_forwards(&it.method, &it.fields.view()) != Some(0)
    })
}

/// The effect of an ordinary response to a request, where no response is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrdinaryResponse {
    /// It would be stored, and answer the same request from then on.
    Answers,
    /// It would be stored, and would answer the same request after these changes, too.
    AnswersWith(Vec<flip::FlipChange>),
    /// It would be stored after these changes.
    With(Vec<flip::FlipChange>),
    /// No change is known that would help.
    Nothing,
}

/// The effect of an ordinary response that is fresh for a minute, decided from the exchange that it would make.
#[must_use]
pub fn ordinary_response(asked: &ChangedRequest, now: WallTime) -> OrdinaryResponse {
    let mut response = FieldList::new();
    response.push("Cache-Control", "max-age=60");
    let (fields, lines) = (asked.fields.view(), response.view());
    let facts = RequestFacts::read(&asked.method, &fields);
    if storable::decide(&facts, 200, &lines, &asked.policy, now, now, &mut Silent) != Storable::Store {
        let exchange = flip::OriginExchange {
            method: &asked.method,
            request: &fields,
            answered: &fields,
            uri: None,
            status: 200,
            response: &lines,
            policy: &asked.policy,
            request_time: now,
            response_time: now,
        };
        return flip::smallest_before_a_response(&exchange)
            .map_or(OrdinaryResponse::Nothing, OrdinaryResponse::With);
    }
    let meta = Meta::of(200, &lines, &asked.policy, now, now);
    if is_answer(&asked.reuse(Ok(&meta), now)) {
        return OrdinaryResponse::Answers;
    }
    flip::smallest_for_reuse(&meta, &response, &asked.method, &fields, &asked.policy, now)
        .map_or(OrdinaryResponse::Nothing, OrdinaryResponse::AnswersWith)
}

/// Whether the store answers.
pub(crate) fn is_answer(reuse: &Reuse) -> bool {
    matches!(reuse, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
}

/// Changes that are listed without their number.
const FEW: usize = 2;

/// Changes, one sentence each; many are introduced by the remark that all of them are needed.
#[must_use]
pub fn sentences(all: impl IntoIterator<Item = impl Into<String>>) -> String {
    let all: Vec<String> = all.into_iter().map(Into::into).collect();
    let joined = all.join(" ");
    match all.len() {
        ..=FEW => joined,
        count => format!("{count} conditions prevent it, and each of these changes is required: {joined}"),
    }
}

/// The sentences of remedies.
#[must_use]
pub fn of_remedies(remedies: &[Remedy]) -> String {
    sentences(remedies.iter().map(|it| it.sentence()))
}

#[cfg(test)]
mod tests;
