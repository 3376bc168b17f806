//! The request machine: one function for each step, in the file of the step's name. Here are the state between two steps,
//! one struct for each step that sets it, and the loop over the steps (`machine` has their order). `deliver` sends responses,
//! `fill` has the fill's own work, and `semantics` decides what may be cached.

mod buffer;
mod decode;
pub(crate) mod deliver;
mod early_body;
mod error;
mod fetch;
pub(crate) mod fill_reader;
mod lookup;
pub mod machine;
mod miss_budget;
mod miss_reason;
mod pass;
pub(crate) mod pressure;
mod query_method;
mod receive;
mod sendfile;
mod sticky;
mod tier_lookup;
mod tunnel;
mod wait;

use self::early_body::EarlyBody;
use crate::fill::TierLookup;
use crate::fill::miss_reason::FillReason;
use crate::fill::{FetchKind, FillJob, FillPurpose, FillStarter, OriginFacts};

use crate::request_cookies;
use crate::request_headers;
use crate::route::{Gateway, GatewayRoute};
use crate::stages::{FillStages, RequestObservation, Stages};
use crate::{fast_path, protocol_upgrade};
use deliver::Delivery;
use error::{OwnError, gateway_status};
use larder_semantics::cache_status::{AnsweringTier, CacheReport};
use larder_semantics::field::Field;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_semantics::trial::facts::BodyDigest;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::fill::SharedHead;
use larder_store::ram::KeyHash;
use larder_store::{Begin, FillEnd, FillHead, FillReader, StoredArc};
use larder_transport::{Client, Reply, RequestBody};
use larder_wire::message::Request;
use machine::Step;
use std::cell::{Cell, OnceCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Sleep;

/// How often a request looks up again after another's fetch before it asks alone.
pub(crate) const MAX_LOOKUPS: u8 = 2;

/// The outcome of a request, for the log.
#[derive(Clone, Debug, Default)]
pub struct RequestSummary {
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// Bytes of body sent.
    pub body: u64,
    /// The content of `Cache-Status`, where the cache took part.
    pub report: Option<CacheReport>,
    /// The response was sent to its end.
    pub complete: bool,
    /// The response was cut because the origin failed.
    pub is_broken: bool,
    /// The origin's part; `None` where it was not asked for this request, or did not answer.
    pub origin: Option<OriginFacts>,
    /// Why the origin was asked; `None` where it was not.
    pub reason: Option<MissReason>,
    /// Why the origin gave no valid response, where larder answered for that reason.
    pub failure: Option<Box<str>>,
}

/// How a request ended.
pub enum GatewayEnd<'c> {
    /// With a response, or without a client for it.
    Done(RequestSummary),
    /// Without a response: the client gets that to another target.
    LocalRedirect(LocalRedirect<'c>),
}

/// A redirect within this server: a CGI program has named another target in place of a response (RFC 3875 §6.2.2).
pub struct LocalRedirect<'c> {
    /// The target, a path of the same host with its query.
    pub target: String,
    /// Of which nothing was sent.
    pub reply: Reply<'c>,
}

/// The request machine between two steps.
pub(crate) struct Machine<'a, 'c> {
    pub input: RequestInput<'a, 'c>,
    pub content: RequestContent<'c>,
    pub key: RequestKey,
    pub found: LookupResult,
    pub plan: FetchPlan,
    pub waiting: CollapsedWait,
    pub response: ResponseState<'c>,
    /// The messages between this request and the fill that it starts. Every step from `Lookup` on uses them.
    pub starter: Rc<FillStarter>,
}

/// The request and its surroundings. No step changes them, and every step reads them.
#[derive(Clone, Copy)]
pub(crate) struct RequestInput<'a, 'c> {
    pub gateway: &'a Rc<Gateway>,
    pub route: &'a Rc<GatewayRoute>,
    pub request: &'a Rc<Request>,
    pub fields: &'a [Field<'a>],
    pub facts: &'a RequestFacts<'a>,
    pub client: &'c Client,
    /// The stop watch of the request's stages.
    pub stages: &'a Stages,
}

/// The content of the request, and its upgrade. `Pass` sends both; a fetch of a QUERY has a copy of `early`.
pub(crate) struct RequestContent<'c> {
    pub body: Option<RequestBody<'c>>,
    /// The part of `body` that was read for the key.
    pub early: EarlyBody,
    /// The requested protocol, where the route passes it on.
    pub upgrade: Option<protocol_upgrade::UpgradeRequest>,
}

/// The cache key. `Receive` makes it for a request that may use the cache, `Pass` for a POST that is stored.
pub(crate) struct RequestKey {
    pub bytes: Vec<u8>,
    pub hash: KeyHash,
}

/// The stored response of `Lookup` and `TierLookup`. `Wait` and the fetch read it, and replace `stored` by a response that
/// another fetch has stored meanwhile.
pub(crate) struct LookupResult {
    /// A stored response that may not be served as it is: to validate, complete, or serve when the origin fails.
    pub stored: Option<StoredArc>,
    /// The tier of `stored`.
    pub tier: AnsweringTier,
    /// A response of a lower tier, which the next `Lookup` takes in place of RAM's.
    pub tier_hit: Option<(StoredArc, AnsweringTier)>,
    pub lower_tiers: LowerTierState,
    pub ram_copy: RamCopy,
    pub ram_marker: RamMarker,
}

impl LookupResult {
    pub fn new() -> Self {
        Self {
            stored: None,
            tier: AnsweringTier::Ram,
            tier_hit: None,
            lower_tiers: LowerTierState::NotAsked,
            ram_copy: RamCopy::Trusted,
            ram_marker: RamMarker::None,
        }
    }
}

/// How the origin is asked, and why. `Receive` sets it for a request that bypasses the cache, `Lookup` for all others.
pub(crate) struct FetchPlan {
    pub kind: FetchKind,
    /// `Wait` changes it to `Private` where the other fetch does not answer this request.
    pub coalescing: Coalescing,
    pub reason: ForwardReason,
    /// The reason of a request that bypasses the cache.
    pub bypassed: Option<MissReason>,
}

impl FetchPlan {
    pub fn new() -> Self {
        Self {
            kind: FetchKind::Full,
            coalescing: Coalescing::Shared,
            reason: ForwardReason::UriMiss,
            bypassed: None,
        }
    }
}

/// The wait for fetches (RFC 9211 calls such requests collapsed). `Lookup` and `Wait` set it; the fetch reads it.
#[derive(Default)]
pub(crate) struct CollapsedWait {
    /// The reader of the fetch that this request leads or waits for.
    pub reader: Option<FillReader>,
    /// An earlier fetch that took too long; this request waits for it and for the one that `reader` reads.
    pub earlier: Option<FillReader>,
    /// The time until this request starts another fetch in addition to those it waits for, however many they are; set
    /// when the first wait begins.
    pub timer: Option<Pin<Box<Sleep>>>,
    /// The `Vary` of another fetch's response, before anything is stored.
    pub vary: Vec<Box<str>>,
    /// The lookups after another's fetch, of which there are at most [`MAX_LOOKUPS`].
    pub lookups: u8,
    /// Failed fetches that this request waited for; each failure may have been caused by the request that led the fetch.
    pub failures: u8,
}

/// The response. The step that chooses it sets `answer` (`Error` makes it from `error`); `Deliver` sends it and fills the
/// rest.
pub(crate) struct ResponseState<'c> {
    pub reply: Option<Reply<'c>>,
    pub answer: Option<Delivery<'c>>,
    error: OwnError,
    pub room: StoreRoom,
    /// The hash of the body that is sent, where it is the origin's and new.
    pub digest: Option<Box<BodyDigest>>,
    /// Whether the whole body of a new response of the origin is sent, and its length is recorded.
    pub is_measured: bool,
    /// The target of a redirect within this server; `reply` is unused then.
    pub local_redirect: Option<String>,
    pub summary: RequestSummary,
}

impl<'c> ResponseState<'c> {
    pub fn new(reply: Reply<'c>) -> Self {
        Self {
            reply: Some(reply),
            answer: None,
            error: OwnError::Status(502),
            room: StoreRoom::Unknown,
            digest: None,
            is_measured: false,
            local_redirect: None,
            summary: RequestSummary::default(),
        }
    }
}

/// Whether this request may wait for, and share, another's fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coalescing {
    Shared,
    /// A HEAD that starts no fetch for other requests: the origin gets the fields of a GET that would.
    Head,
    Private,
}

/// Whether the tiers below RAM were asked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LowerTierState {
    NotAsked,
    /// They were, or a fill does it.
    Asked,
}

/// Whether RAM's response may be used for its own lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RamCopy {
    Trusted,
    /// It is to be validated although it is fresh: the fleet has lost it.
    Doubted,
}

/// RAM's state under a key where it cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RamMarker {
    None,
    /// The store remembers that answers are not shared.
    HitForMiss,
    /// The stored response cannot be brought into a form that the request accepts.
    Undecodable,
    /// The stored responses differ by a cookie or `Authorization`, and are for clients with other ones.
    OfOthers,
}

/// Whether a response that is shared while it arrives will be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreRoom {
    Unknown,
    /// It is already known that there is no room.
    None,
}

impl Gateway {
    /// Drives a request from its head to its last byte. `body` is `None` for a request that has none.
    pub async fn run<'c>(
        self: &Rc<Self>,
        route: &Rc<GatewayRoute>,
        request: Rc<Request>,
        client: &'c Client,
        body: Option<RequestBody<'c>>,
        reply: Reply<'c>,
        observed: RequestObservation<'_>,
    ) -> GatewayEnd<'c> {
        // Not within the futures of its callers, each of which is moved as a whole into the next.
        self.requests.lend(|| self.run_machine(route, request, client, body, reply, observed)).await
    }

    async fn run_machine<'c>(
        self: &Rc<Self>,
        route: &Rc<GatewayRoute>,
        mut request: Rc<Request>,
        client: &'c Client,
        mut body: Option<RequestBody<'c>>,
        reply: Reply<'c>,
        observed: RequestObservation<'_>,
    ) -> GatewayEnd<'c> {
        let RequestObservation { stages, is_recorded } = observed;
        let upgrade = protocol_upgrade::asked(&route.upgrades, &request);
        let bound = request_cookies::take(route, &mut request);
        if request_headers::nominates_some(&request.fields) {
            request_headers::drop_nominated(&mut Rc::make_mut(&mut request).fields);
        }
        let early = match (route.policy.query_body, &mut body) {
            (Some(_), Some(body)) => query_method::read(self, &route.policy, &mut request, body).await,
            _ => EarlyBody::Unread,
        };
        let fields = request.fields.view();
        let facts = RequestFacts::read(&request.method, &fields);
        let input = RequestInput {
            gateway: self,
            route,
            request: &request,
            fields: &fields,
            facts: &facts,
            client,
            stages,
        };
        let mut machine = Machine {
            input,
            content: RequestContent { body, early, upgrade },
            key: RequestKey { bytes: Vec::new(), hash: KeyHash(0) },
            found: LookupResult::new(),
            plan: FetchPlan::new(),
            waiting: CollapsedWait::default(),
            response: ResponseState::new(reply),
            starter: Rc::new(FillStarter::new(is_recorded, bound)),
        };
        let mut step = Step::Receive;
        loop {
            stages.step(step.name());
            let next = match step {
                Step::Receive => machine.receive(),
                Step::Lookup => machine.lookup(),
                Step::TierLookup => machine.look_in_tiers().await,
                Step::Wait => machine.wait().await,
                Step::Validate | Step::Fetch => machine.fetch_or_validate().await,
                Step::Pass => machine.pass().await,
                Step::Hit | Step::Store => Step::Deliver,
                Step::Error => machine.error(),
                Step::Deliver => machine.deliver().await,
                Step::Finish => break,
            };
            step = step.then(next);
        }
        machine.response.summary.origin = machine.final_origin();
        machine.response.summary.reason = machine.final_reason();
        let ResponseState { local_redirect, reply, summary, .. } = machine.response;
        match local_redirect.zip(reply) {
            Some((target, reply)) => GatewayEnd::LocalRedirect(LocalRedirect { target, reply }),
            None => GatewayEnd::Done(summary),
        }
    }
}

impl<'c> Machine<'_, 'c> {
    /// The identity of the fetch that would answer this request, too: the key, and the variant where that is known.
    pub fn flight(&self, names: &[Box<str>]) -> KeyHash {
        let mut flight = self.key.hash;
        if !names.is_empty() {
            let mut key = self.key.bytes.clone();
            vary::write_key(names, self.input.fields, &mut key);
            flight = self.input.gateway.store.hash(&key);
        }
        flight
    }

    /// Goes to the origin: as leader or follower of a shared fetch, or alone.
    fn join(&mut self, reason: ForwardReason, fetch: FetchKind, flight: KeyHash, below: TierLookup) -> Step {
        self.plan.reason = reason;
        self.plan.kind = fetch;
        if self.fetches_privately(fetch) {
            // A request for less than the whole starts nothing for others, but reads along where it can.
            self.waiting.reader = match self.may_follow() {
                true => self.input.gateway.store.follow(self.key.hash, flight, &self.key.bytes),
                false => None,
            };
            if self.waiting.reader.is_some() {
                return Step::Wait;
            }
            let is_for_head = self.input.facts.method == "HEAD" && self.may_follow();
            self.plan.coalescing = if is_for_head { Coalescing::Head } else { Coalescing::Private };
            return self.plan.step();
        }
        if let Some(status) = self.failed_lately() {
            return self.failed_for_another(status);
        }
        let begun = self.input.gateway.store.begin(self.key.hash, flight, &self.key.bytes);
        self.take_part(begun, below)
    }

    /// Leads the fetch that was started, follows the existing one, or asks alone.
    pub fn take_part(&mut self, begun: Begin, below: TierLookup) -> Step {
        match begun {
            Begin::Lead(mut writer, reader) => {
                if let Some(step) = self.stored_meanwhile() {
                    writer.head(FillHead::StoreChanged, false);
                    writer.finish(FillEnd::Complete(None));
                    return step;
                }
                self.waiting.reader = Some(reader);
                let job = self.job(self.plan.kind, below, FillPurpose::Response);
                job.spawn(writer);
                self.plan.step()
            }
            Begin::Follow(reader) => {
                self.waiting.reader = Some(reader);
                Step::Wait
            }
            Begin::Full => {
                self.plan.coalescing = Coalescing::Private;
                self.plan.step()
            }
        }
    }

    fn fails(&mut self, error: OwnError) -> Step {
        self.response.error = error;
        Step::Error
    }

    /// Whether this request may not start a fetch for others.
    pub fn fetches_privately(&self, fetch: FetchKind) -> bool {
        let facts = self.input.facts;
        let is_part = facts.range.is_some() && fetch == FetchKind::Full;
        !self.may_follow() || facts.method == "HEAD" || is_part
    }

    /// Whether this request may wait for another's fetch.
    pub fn may_follow(&self) -> bool {
        // Only for directives of the origin; a response ended by a purge is validated once for all requests.
        let facts = self.input.facts;
        let is_unshared = |it: &Meta| {
            it.no_cache || it.lifetime.is_zero() || reuse::is_for_others(it, facts, &self.input.route.policy)
        };
        let always_asks = self.found.stored.as_ref().is_some_and(|it| is_unshared(&it.meta));
        let is_private = self.plan.coalescing == Coalescing::Private
            || facts.authorization
            || facts.directives.no_store
            || always_asks
            || self.waiting.lookups >= MAX_LOOKUPS;
        !is_private
    }

    pub fn job(&self, fetch: FetchKind, below: TierLookup, purpose: FillPurpose) -> FillJob {
        let reason = self.miss_reason(purpose);
        if purpose == FillPurpose::Response {
            self.starter.reason.set(Some(reason));
        }
        FillJob {
            gateway: self.input.gateway.clone(),
            route: self.input.route.clone(),
            request: self.input.request.clone(),
            client: self.input.client.clone(),
            key: self.key.bytes.clone(),
            hash: self.key.hash,
            stored: self.found.stored.clone(),
            body: self.content.early.keyed(),
            fetch,
            below,
            purpose,
            reason: FillReason::new(reason),
            is_hit_for_miss: self.found.is_hit_for_miss(),
            is_after_failure: self.waiting.failures > 0,
            local: self.starter.clone(),
            stages: match purpose {
                FillPurpose::Response => self.input.stages.of_fill(),
                FillPurpose::Revalidation => FillStages::default(),
            },
            script: OnceCell::new(),
            lease: Cell::new(None),
        }
    }

    pub fn deliver_fill(&mut self, reader: FillReader, head: Arc<SharedHead>, collapsed: bool) {
        if head.length.is_some_and(|it| !self.input.gateway.store.has_room_for(it)) {
            self.response.room = StoreRoom::None;
        }
        let report = CacheReport::Forwarded {
            reason: self.plan.reason,
            status: if collapsed { None } else { self.starter.origin_status.get() },
            stored: true,
            collapsed,
        };
        let (status, fields) = match self.starter.own.borrow_mut().take() {
            Some(own) if !collapsed => own,
            _ => (head.status, head.fields.clone()),
        };
        self.response.answer = Some(Delivery::Reading { reader, head, status, fields, report });
    }

    /// The origin failed: stale if allowed, otherwise an error.
    pub fn origin_failed(&mut self, status: u16) -> Step {
        if let Some(step) = self.stale_instead(false) {
            return step;
        }
        let last = self.input.gateway.shared.unstored.get(self.key.hash);
        self.response.summary.failure = last.and_then(|it| it.failure.as_deref().map(Box::from));
        // The origin's own error stays with the leader; a follower reports that the origin failed.
        self.fails(OwnError::Status(gateway_status(status)))
    }

    /// The stored response, where it may replace an answer of a failed origin (RFC 9111 §4.2.4, RFC 5861 §4); `collapsed`
    /// says that the failed request was another's.
    pub fn stale_instead(&mut self, collapsed: bool) -> Option<Step> {
        let now = clock::wall();
        let stored = self.found.stored.clone().filter(|it| !it.is_superseded()).filter(|it| {
            reuse::on_error(&it.meta, self.input.facts, &self.input.route.policy, now, &mut Silent)
        })?;
        self.input.gateway.counters.cache_stale_hits.add(u64::from(fast_path::ttl(&stored.meta, now) <= 0));
        let (reason, status) = (self.plan.reason, self.starter.origin_status.get());
        let report = CacheReport::Forwarded { reason, status, stored: false, collapsed };
        self.response.answer = Some(Delivery::Stored { stored, report });
        Some(Step::Hit)
    }
}

impl LookupResult {
    fn is_hit_for_miss(&self) -> bool {
        self.ram_marker == RamMarker::HitForMiss
    }

    /// Whether the variants under this key are for clients with other credentials.
    fn has_variants_for_other_credentials(&self) -> bool {
        self.ram_marker == RamMarker::OfOthers
    }
}

impl FetchPlan {
    fn step(&self) -> Step {
        match self.kind {
            FetchKind::Full => Step::Fetch,
            FetchKind::Validation => Step::Validate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::RequestObservation;

    /// The arguments of `Gateway::run`.
    type Arguments = (
        &'static Rc<Gateway>,
        &'static Rc<GatewayRoute>,
        Rc<Request>,
        &'static Client,
        Option<RequestBody<'static>>,
        Reply<'static>,
        RequestObservation<'static>,
    );

    fn size_of_future<F: Future<Output = GatewayEnd<'static>>>(_: impl FnOnce(Arguments) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_machine_and_its_future_do_not_grow() {
        let future = size_of_future(|(gateway, route, request, client, body, reply, observed)| {
            gateway.run_machine(route, request, client, body, reply, observed)
        });
        let machine = size_of::<Machine<'static, 'static>>();
        assert!(machine <= 768 && future <= 5552, "the machine has {machine} bytes, its future {future}");
    }
}
