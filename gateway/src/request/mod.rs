//! The request machine: one function per step. `Receive` and `Lookup` are here, the others in the files of their
//! names. `deliver` sends responses, `fill` has the fill's own work, and `semantics` decides what may be cached.

mod budget;
mod buffer;
mod decode;
pub(crate) mod deliver;
mod early_body;
mod error;
mod fetch;
pub(crate) mod fill_reader;
pub mod machine;
mod miss_reason;
mod pass;
pub(crate) mod pressure;
mod query_method;
mod sendfile;
mod sticky;
mod tier_lookup;
mod tunnel;
mod wait;

use self::early_body::EarlyBody;
use crate::fill::miss_reason::FillReason;
use crate::fill::tier_lookup::TierLookup;
use crate::fill::{FetchKind, FillJob, FillPurpose, FillStarter, OriginFacts};
use crate::request_cookies;
use crate::request_headers::{self, Bypass};
use crate::rewrite;
use crate::route::{self, Gateway, GatewayRoute};
use crate::stages::{FillStages, RequestObservation, Stages};
use crate::{cache_key, coding, fast_path, protocol_upgrade};
use deliver::Delivery;
use error::{OwnError, gateway_status};
use larder_semantics::cache_status::{AnsweringTier, CacheReport};
use larder_semantics::field::Field;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::stored::Meta;
use larder_semantics::tiers::{self, Descent};
use larder_semantics::trace::Silent;
use larder_semantics::trial::facts::BodyDigest;
use larder_semantics::vary;
use larder_stdx::clock::{self, WallTime};
use larder_store::fill::SharedHead;
use larder_store::ram::{Entry, KeyHash, Lookup};
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

/// The usual number of bytes in a key besides host and target.
const KEY_ROOM: usize = 24;

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
enum LowerTierState {
    NotAsked,
    /// They were, or a fill does it.
    Asked,
}

/// Whether RAM's response may be used for its own lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RamCopy {
    Trusted,
    /// It is to be validated although it is fresh: the fleet has lost it.
    Doubted,
}

/// RAM's state under a key where it cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RamMarker {
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
enum StoreRoom {
    Unknown,
    /// It is already known that there is no room.
    None,
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

pub(crate) struct Machine<'a, 'c> {
    pub gateway: &'a Rc<Gateway>,
    pub route: &'a Rc<GatewayRoute>,
    pub request: &'a Rc<Request>,
    pub fields: &'a [Field<'a>],
    pub facts: &'a RequestFacts<'a>,
    pub client: &'c Client,
    pub body: Option<RequestBody<'c>>,
    /// The part of `body` that was read for the key.
    pub early: EarlyBody,
    pub reply: Option<Reply<'c>>,
    pub answer: Option<Delivery<'c>>,
    pub summary: RequestSummary,
    pub key: Vec<u8>,
    pub hash: KeyHash,
    /// A stored response that may not be served as it is: to validate, complete, or serve when the origin fails.
    pub found: Option<StoredArc>,
    fetch: FetchKind,
    pub coalescing: Coalescing,
    pub reason: ForwardReason,
    /// The reason of a request that bypasses the cache.
    pub bypassed: Option<MissReason>,
    pub reader: Option<FillReader>,
    pub local: Rc<FillStarter>,
    /// The stop watch of the request's stages.
    pub stages: &'a Stages,
    pub lookups: u8,
    /// The tier of `found`.
    pub tier: AnsweringTier,
    /// A response of a tier below, to be considered in place of RAM's.
    pub tier_hit: Option<(StoredArc, AnsweringTier)>,
    tiers: LowerTierState,
    ram: RamCopy,
    marker: RamMarker,
    error: OwnError,
    room: StoreRoom,
    /// The time until this request starts another fetch in addition to those it waits for, however many they are; set
    /// when the first wait begins.
    pub collapse_timer: Option<Pin<Box<Sleep>>>,
    /// The `Vary` of another fetch's response, before anything is stored.
    pub vary: Vec<Box<str>>,
    /// Failed fetches that this request waited for; each failure may have been caused by the request that led the fetch.
    pub failures: u8,
    /// An earlier fetch that took too long; this request waits for it and for the one that its reader reads.
    pub earlier: Option<FillReader>,
    /// The requested protocol, where the route passes it on.
    pub upgrade: Option<protocol_upgrade::UpgradeRequest>,
    pub local_redirect: Option<LocalRedirect<'c>>,
    /// The hash of the body that is sent, where it is the origin's and new.
    pub digest: Option<Box<BodyDigest>>,
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
        let mut machine = Machine {
            gateway: self,
            route,
            request: &request,
            fields: &fields,
            facts: &facts,
            client,
            body,
            early,
            reply: Some(reply),
            answer: None,
            summary: RequestSummary::default(),
            key: Vec::new(),
            hash: KeyHash(0),
            found: None,
            fetch: FetchKind::Full,
            coalescing: Coalescing::Shared,
            reason: ForwardReason::UriMiss,
            bypassed: None,
            reader: None,
            local: Rc::new(FillStarter::new(is_recorded, bound)),
            stages,
            lookups: 0,
            tier: AnsweringTier::Ram,
            tier_hit: None,
            tiers: LowerTierState::NotAsked,
            ram: RamCopy::Trusted,
            marker: RamMarker::None,
            error: OwnError::Status(502),
            room: StoreRoom::Unknown,
            collapse_timer: None,
            vary: Vec::new(),
            failures: 0,
            earlier: None,
            upgrade,
            local_redirect: None,
            digest: None,
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
        machine.summary.origin = machine.final_origin();
        machine.summary.reason = machine.final_reason();
        match machine.local_redirect {
            Some(it) => GatewayEnd::LocalRedirect(it),
            None => GatewayEnd::Done(machine.summary),
        }
    }
}

impl<'c> Machine<'_, 'c> {
    fn receive(&mut self) -> Step {
        if let EarlyBody::Lost(gone) = self.early {
            return self.fails(OwnError::Status(pass::client_status(gone)));
        }
        if let Some(status) = request_headers::refused(self.gateway, &self.request.method, self.fields) {
            return self.fails(OwnError::Status(status));
        }
        if request_headers::max_forwards(&self.request.method, self.fields) == Some(0) {
            let sentence = "This server answers the request itself: Max-Forwards: 0 forbids forwarding.";
            self.answer = Some(Delivery::Own { status: 200, sentence, report: None });
            return Step::Deliver;
        }
        let geo = self.route.geo.as_deref();
        let view = rewrite::view(self.request, self.fields, Some(self.client), geo);
        let rewritten = self.route.rewrite.rewritten(&view);
        if rewritten.as_ref().is_some_and(|it| it.leaves) || self.route.rewrite.climbs(&view) {
            return self.fails(OwnError::Status(400));
        }
        // The protocols of applications have no upgrade.
        if self.upgrade.is_some() && self.route.origins.is_application() {
            return self.fails(OwnError::Status(501));
        }
        if self.upgrade.is_some() {
            return self.bypasses(Bypass::Upgrade);
        }
        if self.request.protocol.is_some() {
            return self.fails(OwnError::Status(501));
        }
        let is_ambiguous = self.route.two_ways || rewritten.is_some_and(|it| !it.is_sure);
        self.gateway.counters.cache_ambiguous_paths.add(u64::from(is_ambiguous));
        match request_headers::bypass(&self.route.policy, self.facts, &self.request.target, self.fields) {
            // The routes for two readings have no cache.
            None | Some(Bypass::Disabled) if is_ambiguous => self.bypasses(Bypass::TwoWays),
            Some(why) => self.bypasses(why),
            None => {
                self.make_key();
                Step::Lookup
            }
        }
    }

    fn bypasses(&mut self, why: Bypass) -> Step {
        self.reason = match why {
            Bypass::Method => ForwardReason::Method,
            Bypass::MalformedTarget => ForwardReason::MalformedTarget,
            _ => ForwardReason::Bypass,
        };
        self.bypassed = Some(why.reason());
        Step::Pass
    }

    pub fn make_key(&mut self) {
        self.key.clear();
        let request = self.request;
        self.key.reserve(request.authority.len() + request.target.len() + KEY_ROOM);
        let (scheme, authority) = (request.scheme, &request.authority);
        cache_key::write(&self.route.policy, scheme, authority, &request.target, self.fields, &mut self.key);
        self.hash = self.gateway.store.hash(&self.key);
    }

    fn lookup(&mut self) -> Step {
        let (selected, flight) = match self.tier_hit.take() {
            Some((stored, tier)) => {
                self.tier = tier;
                let flight = self.flight(stored.meta.vary());
                (Ok(stored), flight)
            }
            None => {
                self.tier = AnsweringTier::Ram;
                self.look_in_ram()
            }
        };
        self.found = selected.as_ref().ok().cloned();
        let usable = match &selected {
            Ok(stored) => Ok(&stored.meta),
            Err(reason) => Err(*reason),
        };
        let now = clock::wall();
        let mut decision = reuse::decide(usable, self.facts, &self.route.policy, now, &mut Silent);
        if let Some(stored) =
            self.found.as_ref().filter(|it| it.is_superseded() && decision.reason().is_none())
        {
            decision = tiers::doubted(&stored.meta, self.facts, &self.route.policy);
        }
        self.act(decision, now, flight)
    }

    /// Carries out the decision about a response in RAM or from a tier below. The tiers below are asked before the
    /// origin.
    fn act(&mut self, decision: Reuse, now: WallTime, flight: KeyHash) -> Step {
        let policy = &self.route.policy;
        let held = self.found.as_ref().map(|it| &it.meta);
        let again = self.found.as_ref().is_some_and(|it| it.is_due(now.0)) && self.tier == AnsweringTier::Ram;
        let worth = match self.may_look_below() {
            true => tiers::descent(decision, held, again, self.facts, policy),
            false => Descent::InVain,
        };
        let due = self.may_look_below() && self.is_due(decision, now);
        self.gateway.counters.cache_rechecks.add(u64::from(due));
        let decision = match held {
            Some(meta) if due || self.ram == RamCopy::Doubted => tiers::doubted(meta, self.facts, policy),
            _ => decision,
        };
        let needs_origin = matches!(decision, Reuse::Validate(_) | Reuse::Forward(_));
        let is_over = needs_origin && self.is_over_budget();
        let below = if due || worth == Descent::Worthwhile { TierLookup::First } else { TierLookup::Skip };
        match decision {
            _ if below == TierLookup::First && (is_over || self.looks_up_privately(decision)) => {
                self.begin_tier_lookup(flight, due)
            }
            Reuse::Serve | Reuse::ServeStale => self.serve_found(now),
            Reuse::ServeWhileRevalidating => {
                // One node renews a response of the fleet: by the fill that found it, or by another's.
                if self.tier != AnsweringTier::Fleet {
                    self.renew_in_background(flight);
                }
                self.serve_found(now)
            }
            Reuse::Validate(reason) | Reuse::Forward(reason) if is_over => {
                self.reason = reason;
                self.follow_or_refuse(flight)
            }
            Reuse::Validate(reason) => self.join(reason, FetchKind::Validation, flight, below),
            Reuse::Forward(reason) => self.join(reason, FetchKind::Full, flight, below),
            Reuse::GatewayTimeout => self.fails(OwnError::OnlyIfCached),
        }
    }

    fn look_in_ram(&mut self) -> (Result<StoredArc, ForwardReason>, KeyHash) {
        let looked = self.gateway.store.lookup(self.hash, &self.key, route::misses_clock());
        let selected = match &looked {
            Lookup::Entry(entry) => {
                let selected = entry.select(self.fields, &mut Vec::new());
                match selected.is_some_and(|it| coding::is_of_no_use(it, self.fields)) {
                    true => self.marker = RamMarker::Undecodable,
                    false if self.marker == RamMarker::Undecodable => self.marker = RamMarker::None,
                    false => {}
                }
                let selected = self.select(entry);
                if selected.is_none() && vary::are_by_client(entry.vary()) {
                    self.marker = RamMarker::OfOthers;
                }
                selected.ok_or(ForwardReason::VaryMiss)
            }
            Lookup::HitForMiss => {
                self.gateway.counters.hit_for_miss.add(1);
                self.coalescing = Coalescing::Private;
                self.marker = RamMarker::HitForMiss;
                Err(ForwardReason::UriMiss)
            }
            Lookup::Nothing => Err(ForwardReason::UriMiss),
        };
        let flight = match &looked {
            Lookup::Entry(entry) => self.flight(entry.vary()),
            Lookup::HitForMiss | Lookup::Nothing => self.flight(&self.vary),
        };
        (selected, flight)
    }

    /// The variant that this request selects, if it can be brought into a form that the client accepts.
    fn select(&self, entry: &Entry) -> Option<StoredArc> {
        let stored = entry.select(self.fields, &mut Vec::new())?;
        (!coding::is_of_no_use(stored, self.fields)).then(|| stored.clone())
    }

    /// The identity of the fetch that would answer this request, too: the key, and the variant where that is known.
    pub fn flight(&self, names: &[Box<str>]) -> KeyHash {
        let mut flight = self.hash;
        if !names.is_empty() {
            let mut key = self.key.clone();
            vary::write_key(names, self.fields, &mut key);
            flight = self.gateway.store.hash(&key);
        }
        flight
    }

    pub fn serve_found(&mut self, now: clock::WallTime) -> Step {
        let Some(stored) = self.found.clone() else { return self.fails(OwnError::Status(500)) };
        let ttl = fast_path::ttl(&stored.meta, now);
        let counters = &self.gateway.counters;
        counters.cache_hits.add(1);
        counters.cache_stale_hits.add(u64::from(ttl <= 0));
        self.gateway.store.note_hit(self.hash, &self.key);
        match self.tier {
            AnsweringTier::Ram => {}
            AnsweringTier::Disk => counters.cache_hits_disk.add(1),
            AnsweringTier::Fleet => counters.cache_hits_fleet.add(1),
        }
        self.answer = Some(Delivery::Stored { stored, report: CacheReport::Hit { ttl, tier: self.tier } });
        Step::Hit
    }

    /// Goes to the origin: as leader or follower of a shared fetch, or alone.
    fn join(&mut self, reason: ForwardReason, fetch: FetchKind, flight: KeyHash, below: TierLookup) -> Step {
        self.reason = reason;
        self.fetch = fetch;
        if self.fetches_privately(fetch) {
            // A request for less than the whole starts nothing for others, but reads along where it can.
            self.reader = match self.may_follow() {
                true => self.gateway.store.follow(self.hash, flight, &self.key),
                false => None,
            };
            if self.reader.is_some() {
                return Step::Wait;
            }
            let is_for_head = self.facts.method == "HEAD" && self.may_follow();
            self.coalescing = if is_for_head { Coalescing::Head } else { Coalescing::Private };
            return self.fetch_step();
        }
        if let Some(status) = self.failed_lately() {
            return self.failed_for_another(status);
        }
        let begun = self.gateway.store.begin(self.hash, flight, &self.key);
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
                self.reader = Some(reader);
                let job = self.job(self.fetch, below, FillPurpose::Response);
                job.spawn(writer);
                self.fetch_step()
            }
            Begin::Follow(reader) => {
                self.reader = Some(reader);
                Step::Wait
            }
            Begin::Full => {
                self.coalescing = Coalescing::Private;
                self.fetch_step()
            }
        }
    }

    fn fetch_step(&self) -> Step {
        match self.fetch {
            FetchKind::Full => Step::Fetch,
            FetchKind::Validation => Step::Validate,
        }
    }

    fn fails(&mut self, error: OwnError) -> Step {
        self.error = error;
        Step::Error
    }

    /// Whether the variants under this key are for clients with other credentials.
    fn has_variants_for_other_credentials(&self) -> bool {
        self.marker == RamMarker::OfOthers
    }

    fn is_hit_for_miss(&self) -> bool {
        self.marker == RamMarker::HitForMiss
    }

    /// Whether this request may not start a fetch for others.
    pub fn fetches_privately(&self, fetch: FetchKind) -> bool {
        let facts = self.facts;
        let is_part = facts.range.is_some() && fetch == FetchKind::Full;
        !self.may_follow() || facts.method == "HEAD" || is_part
    }

    /// Whether this request may wait for another's fetch.
    pub fn may_follow(&self) -> bool {
        // Only for directives of the origin; a response ended by a purge is validated once for all requests.
        let facts = self.facts;
        let is_unshared = |it: &Meta| {
            it.no_cache || it.lifetime.is_zero() || reuse::is_for_others(it, facts, &self.route.policy)
        };
        let always_asks = self.found.as_ref().is_some_and(|it| is_unshared(&it.meta));
        let is_private = self.coalescing == Coalescing::Private
            || facts.authorization
            || facts.directives.no_store
            || always_asks
            || self.lookups >= MAX_LOOKUPS;
        !is_private
    }

    /// Another fill may have stored and ended between lookup and start: then its response answers.
    pub fn stored_meanwhile(&mut self) -> Option<Step> {
        let Lookup::Entry(entry) = self.gateway.store.lookup(self.hash, &self.key, 0) else {
            return None;
        };
        let stored = self.select(&entry)?;
        let now = clock::wall();
        let reuse = reuse::decide(Ok(&stored.meta), self.facts, &self.route.policy, now, &mut Silent);
        if reuse != Reuse::Serve || self.ram == RamCopy::Doubted || stored.is_due(now.0) {
            return None;
        }
        self.found = Some(stored);
        self.tier = AnsweringTier::Ram;
        Some(self.serve_found(now))
    }

    pub fn job(&self, fetch: FetchKind, below: TierLookup, purpose: FillPurpose) -> FillJob {
        let reason = self.miss_reason(purpose);
        if purpose == FillPurpose::Response {
            self.local.reason.set(Some(reason));
        }
        FillJob {
            gateway: self.gateway.clone(),
            route: self.route.clone(),
            request: self.request.clone(),
            client: self.client.clone(),
            key: self.key.clone(),
            hash: self.hash,
            stored: self.found.clone(),
            body: self.early.keyed(),
            fetch,
            below,
            purpose,
            reason: FillReason::new(reason),
            is_hit_for_miss: self.is_hit_for_miss(),
            is_after_failure: self.failures > 0,
            local: self.local.clone(),
            stages: match purpose {
                FillPurpose::Response => self.stages.of_fill(),
                FillPurpose::Renewal => FillStages::default(),
            },
            script: OnceCell::new(),
            lease: Cell::new(None),
        }
    }

    pub fn read_along(&mut self, reader: FillReader, head: Arc<SharedHead>, collapsed: bool) {
        if head.length.is_some_and(|it| !self.gateway.store.has_room_for(it)) {
            self.room = StoreRoom::None;
        }
        let report = CacheReport::Forwarded {
            reason: self.reason,
            status: if collapsed { None } else { self.local.origin_status.get() },
            stored: true,
            collapsed,
        };
        let (status, fields) = match self.local.own.borrow_mut().take() {
            Some(own) if !collapsed => own,
            _ => (head.status, head.fields.clone()),
        };
        self.answer = Some(Delivery::Reading { reader, head, status, fields, report });
    }

    /// The origin failed: stale if allowed, otherwise an error.
    pub fn origin_failed(&mut self, status: u16) -> Step {
        if let Some(step) = self.stale_instead(false) {
            return step;
        }
        // The origin's own error stays with the leader; a follower reports that the origin failed.
        self.fails(OwnError::Status(gateway_status(status)))
    }

    /// The stored response, where it may replace an answer of a failed origin (RFC 9111 §4.2.4, RFC 5861 §4); `collapsed`
    /// says that the failed request was another's.
    pub fn stale_instead(&mut self, collapsed: bool) -> Option<Step> {
        let now = clock::wall();
        let stored = self
            .found
            .clone()
            .filter(|it| !it.is_superseded())
            .filter(|it| reuse::on_error(&it.meta, self.facts, &self.route.policy, now, &mut Silent))?;
        self.gateway.counters.cache_stale_hits.add(u64::from(fast_path::ttl(&stored.meta, now) <= 0));
        let (reason, status) = (self.reason, self.local.origin_status.get());
        let report = CacheReport::Forwarded { reason, status, stored: false, collapsed };
        self.answer = Some(Delivery::Stored { stored, report });
        Some(Step::Hit)
    }
}
