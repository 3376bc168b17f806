//! `explain`'s sentences about flipping a verdict: the choice of the search, by what is known of the page, and its
//! wording. The searches are in `change` and `semantics::flip`; the sentences claim only what is known.

use super::KeyContent;
use super::change::{self, ChangedRequest, OrdinaryResponse, Remedy};
use crate::cache_key;
use crate::route::{self, Gateway};
use crate::unstored_responses::{Audience, RefusedStorage};
use larder_semantics::field::{self, Field};
use larder_semantics::flip::{self, FlipChange, OriginExchange};
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::scheme::Scheme;
use larder_semantics::stored::Meta;
use larder_semantics::vary;
use larder_stdx::clock::WallTime;
use larder_store::{Stored, StoredArc};
use std::sync::Arc;

/// The facts known of the requested page.
pub(crate) struct PageKnowledge {
    /// RAM's content under its key.
    pub holds: KeyContent,
    /// Why its last response was not stored, or did not arrive.
    pub refused: Option<Arc<RefusedStorage>>,
    /// The audience of its responses.
    pub audience: Audience,
    /// The stored response that the request selects.
    pub stored: Option<StoredArc>,
}

/// Where no valid answer arrived, so that its content is unknown.
const FAILED: &str = "Retry once the origin responds correctly; its last recorded response was invalid.";

/// The same for a request that would not be answered from the store even then.
const FAILS_FIRST: &str = "Repair the origin first; its last recorded response was invalid.";

/// For a response that no advice may make public.
const ONE_VISITORS: &str = "Nothing: the page is rightly not cached. A response to this URL was for one visitor: it says private or no-store, sets a \
     cookie, varies on Cookie, Authorization or everything, or answers credentials and does not say that it may be shared.";

/// Told if each response may be specific to one client.
const DIFFERS: &str = "Nothing: recent responses to this URL differ, so each may be for one client. Declare a lifetime (Cache-Control: max-age) at the \
     origin only if every client may get the same response.";

/// The remedy where the origin's answer is unknown, and why it is.
#[derive(Clone, Copy)]
struct Unknown {
    action: &'static str,
    why: &'static str,
}

/// Where the response that was not stored says nothing about this request.
const ANOTHER: Unknown = Unknown {
    action: "Send the request once",
    why: "the response that was not stored belongs to another request.",
};

/// Where it was not stored, and would be now.
const WOULD_BE_STORED: &str = "the last response was not stored, although its head allows it now.";

impl Audience {
    /// The sentence in place of changes that could share a response that is specific to one visitor.
    pub(crate) fn instead_of(self, changes: &[FlipChange]) -> Option<&'static str> {
        if !changes.iter().any(FlipChange::shares) {
            return None;
        }
        match self {
            Audience::Unknown => None,
            Audience::Differs => Some(DIFFERS),
            Audience::OneVisitor => Some(ONE_VISITORS),
        }
    }
}

impl Unknown {
    fn of(holds: KeyContent) -> Self {
        match holds {
            KeyContent::HitForMiss => Self {
                action: "Send the request once more, and run explain again",
                why: "the last response was not shared, and the reason is no longer recorded.",
            },
            KeyContent::Variants(_) => Self {
                action: "Send the request once",
                why: "the stored responses match other requests, and no response to this one is recorded.",
            },
            _ => Self {
                action: "Send the request once, and run explain again",
                why: "nothing is stored, and no response is recorded.",
            },
        }
    }

    fn sentence(self) -> String {
        format!("{}: {}", self.action, self.why)
    }
}

impl Gateway {
    /// Changes after which a request uses the cache, and is answered from it as far as the page is known. For requests
    /// that bypass the cache, or are refused for their method.
    pub(crate) fn changes_to_use_cache(
        &self,
        asked: &ChangedRequest,
        at: (Scheme, &str),
        known: PageKnowledge,
        key: &[u8],
        now: WallTime,
    ) -> Option<String> {
        let before = change::into_the_cache(asked)?;
        let without = change::without_overriding(asked);
        let asked = asked.with(&before);
        let known = self.known_of(&asked, at, known.stored, key);
        Proposal { before, without, asked, now, audience: known.audience }.of_one_outside(&known)
    }

    /// The facts known of the page that a changed request asks for. It may be another page or variant than that of the
    /// original request, which selected `stored` under the key `was`.
    fn known_of(
        &self,
        asked: &ChangedRequest,
        at: (Scheme, &str),
        stored: Option<StoredArc>,
        was: &[u8],
    ) -> PageKnowledge {
        let fields = asked.fields.view();
        let mut key = Vec::new();
        cache_key::write(&asked.policy, at.0, at.1, &asked.target, &fields, &mut key);
        let hash = self.store.hash(&key);
        let (holds, in_ram) = super::select(&self.store.lookup(hash, &key, route::misses_clock()), &fields);
        let still_selected = |it: &StoredArc| {
            let mut variant = Vec::new();
            vary::write_key(it.meta.vary(), &fields, &mut variant);
            key == was && *it.variant() == variant[..]
        };
        let stored = stored.filter(still_selected).or(in_ram.ok());
        let (refused, audience) = (self.shared.unstored.get(hash), self.shared.unstored.audience(hash));
        PageKnowledge { holds, refused, audience, stored }
    }
}

/// A change that would flip the verdict about a request; each was tested by deciding again.
pub(crate) struct Proposal {
    /// The changes so far.
    before: Vec<Remedy>,
    /// The name of [`Remedy::NoOverride`], which depends on the original request.
    without: String,
    /// The request with the changes so far.
    asked: ChangedRequest,
    now: WallTime,
    /// The audience of the responses.
    audience: Audience,
}

impl Proposal {
    /// For a request that uses the cache unchanged.
    pub(crate) fn new(asked: ChangedRequest, audience: Audience, now: WallTime) -> Self {
        Self { before: Vec::new(), without: String::new(), asked, now, audience }
    }

    /// Changes after which the store answers, or does not where it does now.
    pub(crate) fn of(self, verdict: &str, known: &PageKnowledge) -> Option<String> {
        let Some(stored) = &known.stored else { return self.of_nothing_stored(known) };
        if matches!(verdict, "hit" | "stale-hit") {
            return None; // There is nothing to mend.
        }
        if self.is_for_requests_without_credentials(&stored.meta) {
            return Some(ONE_VISITORS.to_owned());
        }
        self.for_reuse(stored).map(|it| self.describe(&it))
    }

    /// Whether the stored response is for requests without credentials, and this one has some.
    fn is_for_requests_without_credentials(&self, stored: &Meta) -> bool {
        let fields = self.asked.fields.view();
        let facts = RequestFacts::read(&self.asked.method, &fields);
        reuse::is_for_others(stored, &facts, &self.asked.policy)
    }

    /// The same for a request that bypassed the cache before the changes so far. A stored response that is only too old
    /// is renewed by it.
    fn of_one_outside(mut self, known: &PageKnowledge) -> Option<String> {
        let Some(stored) = &known.stored else { return self.of_nothing_stored(known) };
        if self.is_for_requests_without_credentials(&stored.meta) {
            return Some(ONE_VISITORS.to_owned());
        }
        let renewed =
            Meta { initial_age: 0, request_time: self.now, response_time: self.now, ..stored.meta.clone() };
        if !change::is_answer(&self.asked.reuse(Ok(&renewed), self.now))
            && let Some(changes) = self.for_reuse(stored)
        {
            return Some(self.describe(&changes));
        }
        if self.asked.reuse(Ok(&stored.meta), self.now) == Reuse::GatewayTimeout {
            self.change(Remedy::NoOnlyIfCached);
        }
        Some(self.describe(&[]))
    }

    /// From the best source: the last exchange whose response was not stored, or none.
    fn of_nothing_stored(self, known: &PageKnowledge) -> Option<String> {
        match known.refused.as_deref() {
            None => self.ordinary_response(Unknown::of(known.holds)),
            Some(it) if it.failure.is_some() => Some(self.failed().to_owned()),
            Some(it) if is_of_a_part(it, &self.asked.fields.view()) => self.ordinary_response(ANOTHER),
            Some(it) => self.after(it),
        }
    }

    /// Where the origin's last answer was not valid, no other request is known to succeed.
    fn failed(&self) -> &'static str {
        let would_do = self.before.is_empty()
            && !self.is_kept_from_the_origin()
            && change::ordinary_response(&self.asked, self.now) == OrdinaryResponse::Answers;
        if would_do { FAILED } else { FAILS_FIRST }
    }

    /// Changes after which a response such as the refused one would be stored and answer this request. That response was
    /// to another request, where this one differs.
    fn after(mut self, refused: &RefusedStorage) -> Option<String> {
        self.with_get();
        let (own, theirs) = (self.asked.fields.view(), refused.request.view());
        let response = refused.response.view();
        let theirs = refused.exchange(&theirs, &response, &self.asked.policy);
        let own = OriginExchange { method: &self.asked.method, request: &own, ..theirs };
        match (flip::is_a_hit_again(&own), self.before.is_empty()) {
            (false, _) => of_exchange(&own, |it| self.describe(it)),
            (true, true) => (!flip::is_a_hit_again(&theirs)).then(|| ANOTHER.sentence()),
            (true, false) if flip::is_a_hit_again(&theirs) => {
                Some(self.if_the_response_allows(&[], WOULD_BE_STORED))
            }
            (true, false) => Some(self.if_the_response_allows(&[], ANOTHER.why)),
        }
    }

    /// Changes after which the store would answer where it has nothing for the request, and refused no response recently:
    /// by the exchange that an ordinary response would make. The content of that response is not known and not claimed.
    fn ordinary_response(mut self, unknown: Unknown) -> Option<String> {
        if self.is_kept_from_the_origin() {
            let is_outside = !self.before.is_empty();
            self.change(Remedy::NoOnlyIfCached);
            if self.is_kept_from_the_origin() {
                return None;
            }
            if !is_outside {
                return Some(self.describe(&[]));
            }
        }
        self.with_get();
        match change::ordinary_response(&self.asked, self.now) {
            OrdinaryResponse::Answers if self.before.is_empty() => Some(unknown.sentence()),
            OrdinaryResponse::Answers => Some(self.if_the_response_allows(&[], unknown.why)),
            OrdinaryResponse::AnswersWith(changes) if self.before.is_empty() => {
                Some(format!("{} And then: {}", unknown.sentence(), self.describe(&changes)))
            }
            OrdinaryResponse::AnswersWith(changes) | OrdinaryResponse::With(changes) => {
                Some(self.if_the_response_allows(&changes, unknown.why))
            }
            OrdinaryResponse::Nothing => None,
        }
    }

    /// Changes after which a stored response answers.
    fn for_reuse(&self, stored: &Stored) -> Option<Vec<FlipChange>> {
        let (asked, fields) = (&self.asked, self.asked.fields.view());
        flip::smallest_for_reuse(
            &stored.meta,
            &stored.fields(),
            &asked.method,
            &fields,
            &asked.policy,
            self.now,
        )
    }

    /// The answer to a HEAD is never stored.
    fn with_get(&mut self) {
        if self.asked.method == "HEAD" {
            self.change(Remedy::Get);
        }
    }

    fn change(&mut self, remedy: Remedy) {
        self.asked = self.asked.with(&[remedy]);
        self.before.push(remedy);
    }

    /// Whether only the store may answer, and it has nothing.
    fn is_kept_from_the_origin(&self) -> bool {
        self.asked.reuse(Err(ForwardReason::UriMiss), self.now) == Reuse::GatewayTimeout
    }

    /// The changes so far and these.
    fn describe(&self, changes: &[FlipChange]) -> String {
        if let Some(instead) = self.audience.instead_of(changes) {
            return instead.to_owned();
        }
        let before = self.before.iter().map(|it| match it {
            Remedy::NoOverride => self.without.clone(),
            it => it.sentence().to_owned(),
        });
        change::sentences(before.chain(changes.iter().map(FlipChange::sentence)))
    }

    fn if_the_response_allows(&self, changes: &[FlipChange], why: &str) -> String {
        if let Some(instead) = self.audience.instead_of(changes) {
            return instead.to_owned();
        }
        format!("{} The result then depends on the response: {why}", self.describe(changes))
    }
}

/// Changes, in words, after which the response would be stored and answer again; none for a response for one visitor.
pub(crate) fn of_exchange(
    exchange: &OriginExchange<'_>,
    describe: impl FnOnce(&[FlipChange]) -> String,
) -> Option<String> {
    if !flip::is_a_hit_again(exchange) && flip::is_one_visitors(exchange) {
        return Some(ONE_VISITORS.to_owned());
    }
    flip::smallest(exchange).map(|it| describe(&it))
}

/// Whether it is the answer to a request for a part, where the whole is requested: it would answer no request.
fn is_of_a_part(refused: &RefusedStorage, fields: &[Field<'_>]) -> bool {
    let for_part = |it: &[Field<'_>]| field::first(it, "range").is_some();
    matches!(refused.status, 206 | 416) && for_part(&refused.request.view()) && !for_part(fields)
}
