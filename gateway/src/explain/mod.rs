//! `explain`: why a request would or would not be answered from the cache, by the functions that serve. Nothing is sent
//! to an origin, and the store is not changed.

mod change;
mod miss_reason;
mod peek;
mod proposal;
pub mod trial;

use crate::cache_key;
use crate::cache_rules;
use crate::coding;
pub use crate::own_page::{NOT_PASSED, error_sentence};
use crate::protocol_upgrade;
use crate::request_cookies;
use crate::request_headers::{self, Bypass};
use crate::rewrite::{self, LEAVES};
use crate::route::{Gateway, GatewayRoute};
use crate::served_part;
use crate::unstored_responses::{Audience, RefusedStorage};
use change::ChangedRequest;
use larder_origin::OriginError;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::cookies;
use larder_semantics::field::Field;
use larder_semantics::flip::FlipChange;
use larder_semantics::freshness::{Freshness, LifetimeSource};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::request_view::RequestView;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::secret;
use larder_semantics::storable::{self, Storable};
use larder_semantics::tiers;
use larder_semantics::trace::{RuleOutcome, RuleRecord, TriedRule};
use larder_semantics::vary;
use larder_stdx::clock::{self, WallTime};
use larder_store::ram::Lookup;
use larder_store::{Stored, StoredArc};
use larder_wire::message::Request;
pub use miss_reason::JudgedRequest;
use miss_reason::ReasonInput;
use proposal::{PageKnowledge, Proposal, of_exchange};

/// Everything that decides about one request, in the order of evaluation.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The key, readable.
    pub key: String,
    /// How the key was made.
    pub recipe: String,
    /// The content of each of the route's tiers under the key, RAM first.
    pub tiers: Vec<TierContent>,
    /// Why the cache is not used, if so.
    pub bypass: Option<&'static str>,
    /// Facts of the stored response that was selected.
    pub stored: Option<StoredFacts>,
    /// Each rule of the decision, in order.
    pub rules: Vec<TriedRule>,
    /// The server's action for this request at this moment.
    pub verdict: CacheVerdict,
    /// Why the last response under this key was not stored, or did not arrive, if so.
    pub refusal: Option<RefusalFacts>,
    /// The smallest change that would flip the verdict.
    pub change: Option<String>,
    /// Why an origin is asked, if it is, and the facts for advice.
    pub judged: JudgedRequest,
    /// The tier of the stored response.
    pub tier: AnsweringTier,
}

/// A tier and its content under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierContent {
    /// The tier.
    pub tier: AnsweringTier,
    /// Its content.
    pub holds: KeyContent,
}

impl TierContent {
    /// Whether it is another node's mark that the answer may not be shared.
    fn is_unshared(&self) -> bool {
        matches!(self.holds, KeyContent::Unshared { .. })
    }
}

/// A tier's content under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyContent {
    /// This number of variants.
    Variants(usize),
    /// The memory that answers are not shared.
    HitForMiss,
    /// Nothing.
    Nothing,
    /// A response that the request selects.
    Response,
    /// Another node's mark: the origin's answer had that status and may not be shared, for these seconds.
    Unshared {
        /// The origin's status.
        status: u16,
        /// For how long the mark still holds.
        seconds: u32,
    },
    /// A response that is not used: a purge applies to it, or nothing shows that it is younger than the purge.
    Purged,
    /// The tier did not answer in time.
    Unknown,
}

/// The age arithmetic and other facts of one stored response.
#[derive(Clone, Debug)]
pub struct StoredFacts {
    /// Its status.
    pub status: u16,
    /// Bytes of the body.
    pub bytes: u64,
    /// The variant key, readable; empty without `Vary`.
    pub variant: String,
    /// `age = initial 0 s + resident 12 s = 12 s`.
    pub age: String,
    /// `lifetime = 60 s (max-age)`.
    pub lifetime: String,
    /// `fresh for 48 s`, `stale for 3 s`.
    pub freshness: String,
    /// The held part, where it is not the whole.
    pub part: Option<String>,
    /// Its coding, the forms made of it, and the form that this request gets.
    pub forms: Option<String>,
}

/// The action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheVerdict {
    /// A stable name: `hit`, `stale-hit`, `revalidate`, `miss`, `pass`, `gateway-timeout`, `refused`,
    /// `answered`.
    pub name: &'static str,
    /// One sentence.
    pub sentence: String,
    /// The status of the answer, where the store gives it.
    pub status: Option<u16>,
}

/// Why a response was not stored, or did not arrive.
#[derive(Clone, Debug)]
pub struct RefusalFacts {
    /// Seconds since then.
    pub seconds_ago: u64,
    /// Status of that response.
    pub status: u16,
    /// Each rule of the decision, in order.
    pub rules: Vec<TriedRule>,
    /// One sentence.
    pub sentence: String,
    /// Why no valid response arrived, if so.
    pub failure: Option<String>,
    /// The change to the origin or the configuration, verified by deciding again.
    pub change: Option<String>,
}

/// Why a request bypasses the cache, if it does.
fn passes(
    route: &GatewayRoute,
    upgrade: bool,
    facts: &RequestFacts<'_>,
    view: &RequestView<'_>,
) -> Option<Bypass> {
    match route.two_ways {
        true => Some(Bypass::TwoWays),
        false if upgrade => Some(Bypass::Upgrade),
        false => {
            let is_ambiguous = || route.rewrite.rewritten(view).is_some_and(|it| !it.is_sure);
            let bypass = request_headers::bypass(&route.policy, facts, view.target, view.fields);
            bypass.or_else(|| is_ambiguous().then_some(Bypass::Rewrite))
        }
    }
}

/// The request as the cache sees it: without the cookies and the fields of its connection that the cache does not see.
fn prepared(route: &GatewayRoute, request: &Request) -> Request {
    let mut request = request.clone();
    let found = request_cookies::prepared(route, &request.method, &request.target, &request.fields.view());
    if let Some(it) = found {
        request.fields = it.fields;
    }
    request_headers::drop_nominated(&mut request.fields);
    request
}

impl Gateway {
    /// Explains the treatment of `request` on `route` at this moment, for the client of `asked`.
    pub async fn explain(
        &self,
        route: &GatewayRoute,
        request: &Request,
        asked: &RequestView<'_>,
    ) -> Explanation {
        let upgrade = protocol_upgrade::asked(&route.upgrades, request).is_some();
        let request = &prepared(route, request);
        let fields = request.fields.view();
        let facts = RequestFacts::read(&request.method, &fields);
        let now = clock::wall();
        let view = &rewrite::view_of(request, &fields, asked);
        let mut key = Vec::new();
        let (scheme, authority) = (request.scheme, &request.authority);
        cache_key::write(&route.policy, scheme, authority, &request.target, &fields, &mut key);
        let hash = self.store.hash(&key);
        let looked = &self.store.lookup(hash, &key, crate::route::misses_clock());
        let (holds, mut selected) = select(looked, &fields);
        let mut tiers = vec![TierContent { tier: AnsweringTier::Ram, holds }];
        let (mut tier, mut doubted) = (AnsweringTier::Ram, false);
        let peeked = self.peek(route, request, &key, selected.as_ref().ok()).await;
        if holds == KeyContent::HitForMiss {
            // A request would not look there, but the cause of the memory may be recorded there.
            tiers.extend(peeked.tiers.into_iter().filter(TierContent::is_unshared));
        } else {
            tiers.extend(peeked.tiers);
            doubted = peeked.doubted;
            if let Some((stored, found_in)) = peeked.chosen {
                (selected, tier) = (Ok(stored), found_in);
            }
        }
        let mut bypass = passes(route, upgrade, &facts, view);
        let mut record = rule_of(selected.as_ref().ok(), route, request);
        let mut verdict = match bypass {
            Some(bypass) => pass(bypass, &route.policy, &fields, &mut record),
            None => {
                let verdict = decide(selected.as_ref(), doubted, route, &facts, &fields, now, &mut record);
                record_selected(looked, selected.as_ref(), (route, request), &fields, &mut record);
                verdict.in_tier(tier).unshared(&tiers)
            }
        };
        let refused = refusal_of(self, route, view, upgrade)
            .filter(|_| !is_answered_at_once(&verdict, tier, selected.as_ref().ok(), &facts));
        if let Some(status) = refused {
            (verdict, bypass, record) =
                (CacheVerdict::refused(status, refusal_sentence(status)), None, RuleRecord::default());
        }
        verdict.add_unavailable(route);
        let is_last = refused.is_none() && request_headers::max_forwards(&request.method, &fields) == Some(0);
        if is_last {
            (verdict, bypass, record) = (CacheVerdict::ends_here(), None, RuleRecord::default());
        }
        let (refused_lately, audience) = self.shared.unstored.look_up(hash);
        let refusal = refused_lately.as_ref().map(|it| refusal(it, audience, route, request, now));
        let asked = ChangedRequest::of(request, &route.policy);
        let stored = selected.as_ref().ok().cloned();
        let known = PageKnowledge { holds, refused: refused_lately.clone(), audience, stored };
        let change = match (refused, bypass) {
            (Some(405), _) => self.changes_to_use_cache(&asked, (scheme, authority), known, &key, now),
            // The request is valid; it was sent to the wrong place.
            (Some(_), _) => None,
            _ if is_last => change::onwards(&asked).map(|it| change::of_remedies(&it)),
            (None, Some(it)) if !it.has_remedy() => None,
            (None, Some(_)) => self.changes_to_use_cache(&asked, (scheme, authority), known, &key, now),
            (None, None) => Proposal::new(asked, audience, now).of(verdict.name, &known),
        };
        let asking = ReasonInput { facts: &facts, hash, looked, doubted, selected: selected.as_ref(), now };
        let judged = asking.judge(self, route, request, bypass, refused_lately.as_deref(), &verdict);
        Explanation {
            key: readable(&secret::shown_key(&key)),
            recipe: route.policy.key.describe(),
            tiers,
            bypass: bypass.map(Bypass::sentence),
            stored: selected.ok().map(|it| stored_facts(&it, &route.policy, now, &fields, &facts)),
            rules: record.0,
            verdict,
            refusal,
            change,
            judged,
            tier,
        }
    }
}

/// The content of RAM, and the response that a request selects from it.
pub(crate) fn select(
    looked: &Lookup,
    fields: &[Field<'_>],
) -> (KeyContent, Result<StoredArc, ForwardReason>) {
    match looked {
        Lookup::Entry(entry) => {
            let selected =
                entry.select(fields, &mut Vec::new()).filter(|it| !coding::is_of_no_use(it, fields));
            (KeyContent::Variants(entry.variants.len()), selected.cloned().ok_or(ForwardReason::VaryMiss))
        }
        Lookup::HitForMiss => (KeyContent::HitForMiss, Err(ForwardReason::UriMiss)),
        Lookup::Nothing => (KeyContent::Nothing, Err(ForwardReason::UriMiss)),
    }
}

/// The most variants that are named where none matches.
const NAMED: usize = 3;

/// Adds to the rules what they do not say of the stored response, or of the missing one.
fn record_selected(
    looked: &Lookup,
    selected: Result<&StoredArc, &ForwardReason>,
    (route, request): (&GatewayRoute, &Request),
    fields: &[Field<'_>],
    record: &mut RuleRecord,
) {
    match selected {
        Ok(stored) => name_rule(stored, route, request, record),
        Err(missed) => record_variants(looked, *missed, fields, record),
    }
}

/// Where only the variant is missing: the fields that select it, the request's values, and the stored variants.
fn record_variants(looked: &Lookup, missed: ForwardReason, fields: &[Field<'_>], record: &mut RuleRecord) {
    let (Lookup::Entry(entry), ForwardReason::VaryMiss) = (looked, missed) else { return };
    let Some(newest) = entry.variants.first() else { return };
    let Some(rule) = record.0.iter_mut().find(|it| it.name == "stored") else { return };
    let mut own = Vec::new();
    vary::write_key(newest.meta.vary(), fields, &mut own);
    let mut stored: Vec<String> =
        entry.variants.iter().take(NAMED).map(|it| fields_of(it.variant())).collect();
    if entry.variants.len() > NAMED {
        stored.push(format!("{} more", entry.variants.len() - NAMED));
    }
    let stored = stored.join("; ");
    rule.evidence.push_str(&format!(" This request has {}; stored: {stored}.", fields_of(&own)));
}

fn pass(bypass: Bypass, policy: &Policy, fields: &[Field<'_>], record: &mut RuleRecord) -> CacheVerdict {
    let sentence = bypass.sentence();
    let is_of_a_field = matches!(bypass, Bypass::Override | Bypass::Unkeyed);
    let evidence = match request_headers::overriding(policy, fields).next().filter(|_| is_of_a_field) {
        Some((it, _)) => {
            format!("{}: {} ({sentence})", it.name, beginning(&secret::shown(it.name, it.value)))
        }
        None if bypass == Bypass::PrivateCookie => {
            let names = cookies::mattering(fields, "GET", policy).unwrap_or_default();
            format!("{sentence}: {names}")
        }
        None => sentence.to_owned(),
    };
    let sentence = format!("Bypasses the cache: {evidence}.");
    record.0.push(TriedRule {
        source: "RFC 9111 §4",
        name: "bypass",
        evidence,
        outcome: RuleOutcome::Decided,
    });
    CacheVerdict { name: "pass", sentence, status: None }
}

/// The beginning of a value, as much as a sentence has room for: a certificate has two thousand characters.
fn beginning(value: &[u8]) -> String {
    const ROOM: usize = 80;
    let text = readable(value);
    match text.char_indices().nth(ROOM) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Whether a request is a hit before all other checks: the fast path does not check for loops.
fn is_answered_at_once(
    verdict: &CacheVerdict,
    tier: AnsweringTier,
    stored: Option<&StoredArc>,
    facts: &RequestFacts<'_>,
) -> bool {
    let is_whole = stored.is_some_and(|it| it.meta.partial().is_none() && it.trailers().is_none());
    verdict.name == "hit"
        && tier == AnsweringTier::Ram
        && facts.range.is_none()
        && is_whole
        && verdict.status != Some(412)
}

impl CacheVerdict {
    /// Adds that every origin is drained, where the origin is to be asked.
    fn add_unavailable(&mut self, route: &GatewayRoute) {
        let is_asked = route.maker.is_none() && matches!(self.name, "miss" | "revalidate" | "pass");
        let Some(why) = route.origins.unavailable().filter(|_| is_asked) else { return };
        let why =
            if matches!(why, OriginError::Drained) { "drained" } else { "unhealthy, ejected or drained" };
        self.sentence.push_str(" No origin is available: each is ");
        self.sentence.push_str(why);
        self.sentence.push_str(". The response is 503, or a stale response if it may be served.");
    }

    /// The server answers a request that must not be forwarded.
    fn ends_here() -> Self {
        let sentence = "larder answers itself: Max-Forwards: 0 forbids forwarding.".to_owned();
        Self { name: "answered", sentence, status: Some(200) }
    }

    /// Whether the request is sent to an origin.
    fn asks_the_origin(&self) -> bool {
        matches!(self.name, "miss" | "revalidate" | "pass")
    }

    /// The server answers itself, before the cache or an origin is asked.
    #[must_use]
    pub fn refused(status: u16, sentence: &str) -> Self {
        let sentence = format!("larder rejects the request with {status}: {sentence}");
        Self { name: "refused", sentence, status: Some(status) }
    }

    /// With another node's result, where that is why nothing is shared.
    fn unshared(mut self, tiers: &[TierContent]) -> Self {
        let found = tiers.iter().find_map(|it| match it.holds {
            KeyContent::Unshared { status, seconds } => Some((status, seconds)),
            _ => None,
        });
        if let (Some((status, seconds)), "miss" | "revalidate") = (found, self.name) {
            self.sentence.push_str(&format!(
                " A node of this fleet, perhaps this one, found that it may not be shared until {seconds} s from now (the origin answered {status}): \
                 requests do not wait for each other."
            ));
        }
        self
    }

    /// With the tier that holds it, if that is not RAM.
    fn in_tier(mut self, tier: AnsweringTier) -> Self {
        self.sentence.push_str(match (tier, self.name) {
            (AnsweringTier::Disk, "hit" | "stale-hit") => " It is stored on disk.",
            (AnsweringTier::Fleet, "hit" | "stale-hit") => " It is stored in the fleet.",
            _ => "",
        });
        self
    }
}

/// A record that begins with the rule of the route for a stored response (`cache.rule`), if one holds.
fn rule_of(stored: Option<&StoredArc>, route: &GatewayRoute, request: &Request) -> RuleRecord {
    let mut record = RuleRecord::default();
    let Some(stored) = stored else { return record };
    let fields = stored.fields();
    let policy = cache_rules::of_response(&route.policy, request, stored.meta.status, &fields.view());
    if let Some(rule) = &policy.rule {
        let ttl = policy.override_ttl.filter(|_| rule.sets_ttl);
        let ttl = ttl.map_or(String::new(), |it| format!(": ttl = {it} s"));
        let evidence = format!("cache.rule at {}{ttl}", rule.place);
        let outcome = RuleOutcome::Passed;
        record.0.push(TriedRule { source: "config", name: "cache-rule", evidence, outcome });
    }
    record
}

/// Names the rule of the route as the source of a lifetime that is its `ttl`.
fn name_rule(stored: &StoredArc, route: &GatewayRoute, request: &Request, record: &mut RuleRecord) {
    let fields = stored.fields();
    let policy = cache_rules::of_response(&route.policy, request, stored.meta.status, &fields.view());
    let Some(rule) = policy.rule.as_ref().filter(|it| it.sets_ttl) else { return };
    let source = LifetimeSource::Override;
    if stored.meta.lifetime.source != source {
        return;
    }
    let of_route = format!("{}=", source.evidence());
    for it in record.0.iter_mut().filter(|it| it.evidence.starts_with(&of_route)) {
        let rest = &it.evidence[of_route.len()..];
        it.evidence = format!("cache.rule at {}: ttl={rest}", rule.place);
    }
}

fn decide(
    selected: Result<&StoredArc, &ForwardReason>,
    doubted: bool,
    route: &GatewayRoute,
    facts: &RequestFacts<'_>,
    fields: &[Field<'_>],
    now: WallTime,
    record: &mut RuleRecord,
) -> CacheVerdict {
    let usable = match selected {
        Ok(stored) => Ok(&stored.meta),
        Err(reason) => Err(*reason),
    };
    let mut reuse = reuse::decide(usable, facts, &route.policy, now, record);
    if let (true, Ok(meta), true) = (doubted, usable, reuse.reason().is_none()) {
        reuse = tiers::doubted(meta, facts, &route.policy);
        record.0.push(TriedRule {
            source: "config",
            name: "local-ttl",
            evidence: "cache.fleet.local_ttl has expired, and the fleet no longer has the response"
                .to_owned(),
            outcome: RuleOutcome::Decided,
        });
    }
    let name = match reuse {
        Reuse::Serve => "hit",
        Reuse::ServeStale | Reuse::ServeWhileRevalidating => "stale-hit",
        Reuse::Validate(_) => "revalidate",
        Reuse::Forward(_) => "miss",
        Reuse::GatewayTimeout => "gateway-timeout",
    };
    let mut sentence = reuse.sentence().to_owned();
    let status = match (selected, name) {
        (Ok(stored), "hit" | "stale-hit") => {
            Some(served_part::status_of(stored, &route.policy, facts, fields))
        }
        (_, "gateway-timeout") => Some(504),
        _ => None,
    };
    sentence.push_str(match status {
        Some(206) => " The response is 206: a range was requested.",
        Some(304) => " The response is 304: the copy of the client is current.",
        Some(412) => " The response is 412: a precondition failed.",
        Some(416) => " The response is 416: the range is not satisfiable.",
        _ => "",
    });
    CacheVerdict { name, sentence, status }
}

fn stored_facts(
    stored: &Stored,
    policy: &Policy,
    now: WallTime,
    fields: &[Field<'_>],
    facts: &RequestFacts<'_>,
) -> StoredFacts {
    let meta = &stored.meta;
    let resident = now.seconds_since(meta.response_time);
    StoredFacts {
        status: meta.status,
        bytes: stored.body.len(),
        variant: fields_of(stored.variant()),
        age: format!("age = initial {} s + resident {resident} s = {} s", meta.initial_age, meta.age(now)),
        lifetime: format!("lifetime = {} s ({})", { meta.lifetime.seconds }, meta.lifetime.source.name()),
        freshness: match meta.freshness(now) {
            Freshness::Fresh { remaining } => format!("fresh for {remaining} s"),
            Freshness::Stale { staleness } => format!("stale for {staleness} s"),
        },
        part: meta.partial().map(|it| format!("bytes {} to {}", it.first, it.last)),
        forms: stored.encodings.as_ref().map(|it| coding::describe(it, policy, fields, facts)),
    }
}

fn refusal(
    refused: &RefusedStorage,
    audience: Audience,
    route: &GatewayRoute,
    asked: &Request,
    now: WallTime,
) -> RefusalFacts {
    let seconds_ago = now.seconds_since(refused.response_time);
    if let Some(failure) = &refused.failure {
        let (status, sentence) = (refused.status, format!("No valid response: {failure}."));
        let failure = Some(failure.clone());
        return RefusalFacts { seconds_ago, status, rules: Vec::new(), sentence, failure, change: None };
    }
    let (request, response) = (refused.request.view(), refused.response.view());
    let mut record = RuleRecord::default();
    let policy = cache_rules::of_response(&route.policy, asked, refused.status, &response);
    let authority = cache_key::normal(asked.scheme, &asked.authority);
    let facts = RequestFacts::read(&refused.method, &request).with_uri(
        asked.scheme.name(),
        &authority,
        &asked.target,
    );
    let verdict = storable::decide(
        &facts,
        refused.status,
        &response,
        policy,
        refused.request_time,
        refused.response_time,
        &mut record,
    );
    let sentence = match verdict {
        Storable::Refuse(refusal) => refusal.sentence(),
        Storable::Store => {
            "It would be stored now: the configuration has changed, or the body was too large."
        }
    };
    let exchange = refused.exchange(&request, &response, &route.policy);
    RefusalFacts {
        seconds_ago,
        status: refused.status,
        rules: record.0,
        sentence: sentence.to_owned(),
        failure: None,
        change: of_exchange(&exchange, |it| match audience.instead_of(it) {
            Some(instead) => instead.to_owned(),
            None => change::sentences(it.iter().map(FlipChange::sentence)),
        }),
    }
}

/// The status with which a request is refused before the cache or an origin is asked, if it is.
fn refusal_of(gateway: &Gateway, route: &GatewayRoute, view: &RequestView<'_>, upgrade: bool) -> Option<u16> {
    let has_none = upgrade && route.origins.is_application();
    let leaves = || route.rewrite.rewritten(view).is_some_and(|it| it.leaves) || route.rewrite.climbs(view);
    request_headers::refused(gateway, view.method, view.fields)
        .or_else(|| leaves().then_some(400))
        .or_else(|| has_none.then_some(501))
}

/// Why larder refuses a request, and the remedy where it is not a change to the request.
fn refusal_sentence(status: u16) -> &'static str {
    match status {
        400 => LEAVES,
        508 => {
            "Request loop: the request already passed this larder. Set the origin to the application, not to larder."
        }
        _ => error_sentence(status),
    }
}

/// A variant key in readable form: `accept-encoding: gzip, accept-language: absent`.
fn fields_of(variant: &[u8]) -> String {
    let one = |line: &[u8]| match line.iter().position(|it| *it == b'=') {
        Some(at) => {
            let name = readable(&line[..at]);
            let value = secret::shown(&name, &line[at + 1..]);
            format!("{name}: {}", readable(&value))
        }
        None => format!("{}: absent", readable(line)),
    };
    variant.split(|it| *it == b'\n').filter(|it| !it.is_empty()).map(one).collect::<Vec<_>>().join(", ")
}

/// Bytes in readable form: everything but printable ASCII is escaped; separators become spaces.
fn readable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
