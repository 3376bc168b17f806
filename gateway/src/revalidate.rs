//! The steps `Validate` and `Fetch`: leading a shared fetch, or asking the origin alone.

use crate::deliver::Delivery;
use crate::fetch::ArrivedHead;
use crate::location;
use crate::machine::Step;
use crate::request_headers::{self, OriginRequest};
use crate::run::{Coalescing, LOOKS, Machine};
use crate::stages::RequestStage;
use crate::storability::StorabilityCheck;
use crate::tier_lookup::TierLookup;
use crate::wait;
use larder_origin::{BalanceKey, OriginError, PermitWait, ReservedPermit};
use larder_semantics::cache_status::CacheReport;
use larder_semantics::coding::Coding;
use larder_semantics::field::{self, FieldList};
use larder_semantics::freshen::{self, HeadSays};
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::ForwardReason;
use larder_semantics::storable::{self, Storable};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_semantics::transcode;
use larder_stdx::clock::{self, WallTime};
use larder_store::fleet::Unshared;
use larder_store::ram::Removals;
use larder_store::{DiskTier, Exchanged, FillHead, FillReader, Stored};
use larder_wire::message::{Framing, ResponseHead};
use std::sync::Arc;

/// What is logged of a request that its client took back before there was an answer, as nginx has it. Nobody is sent it.
const TAKEN_BACK: u16 = 499;

impl Machine<'_, '_> {
    /// `Validate` and `Fetch`: leads a shared fetch, or asks alone.
    pub async fn ask(&mut self) -> Step {
        match self.reader.take() {
            Some(reader) if self.company == Coalescing::Shared => self.lead(reader).await,
            _ => self.ask_alone().await,
        }
    }

    pub async fn lead(&mut self, mut reader: FillReader) -> Step {
        let mut may_be_gone = false;
        let mut earlier = self.earlier.take();
        let head = loop {
            let local = self.local.clone();
            tokio::select! {
                biased;
                () = local.rung.notified() => self.pass_interim().await,
                head = reader.head() => break head,
                head = wait::head_of(&mut earlier) => {
                    let answers = earlier.take().and_then(|it| self.take_earlier(it, head));
                    if let Some(step) = answers {
                        self.stages.enter(RequestStage::Lookup);
                        return step;
                    }
                }
                () = self.taken_back() => {
                    // What it began counts as its own until that has ended: else one client could begin any number.
                    reader.leave().over().await;
                    return self.needs_nothing();
                }
                () = self.may_be_gone(), if !may_be_gone => {
                    may_be_gone = true;
                    reader.doubt();
                }
            }
        };
        self.pass_interim().await;
        self.stages.enter(RequestStage::Lookup);
        if let Some(stale) = self.local.stale.borrow().clone() {
            (self.found, self.reason) = (Some(stale), ForwardReason::Stale);
        }
        match head {
            FillHead::Shared(head) => {
                self.read_along(reader, head, false);
                Step::Store
            }
            FillHead::Private(head) => {
                let report = self.forwarded(self.local.origin_status.get());
                let (status, fields) = (head.status, head.fields.clone());
                self.answer = Some(Delivery::Reading { reader, head, status, fields, report });
                Step::Pass
            }
            FillHead::Found(stored, tier) => self.bring(stored, tier),
            FillHead::LookAgain | FillHead::Validated(_) => {
                let freshened = self.local.freshened.borrow_mut().take();
                match freshened {
                    Some(stored) => {
                        let status = self.local.origin_status.get();
                        self.answer = Some(Delivery::Stored { stored, report: self.forwarded(status) });
                        Step::Hit
                    }
                    None if self.local.unshared.take() => {
                        self.descended = true;
                        Step::Lookup
                    }
                    None => self.origin_failed(502),
                }
            }
            FillHead::Failed(status) | FillHead::Unreachable(status) => self.origin_failed(status),
        }
    }

    /// The client has taken its request back: what it waited for belongs to others, or to nobody.
    pub fn needs_nothing(&mut self) -> Step {
        self.error = TAKEN_BACK;
        Step::Error
    }

    pub fn forwarded(&self, status: Option<u16>) -> CacheReport {
        CacheReport::Forwarded { reason: self.reason, status, stored: false, collapsed: false }
    }

    async fn pass_interim(&mut self) {
        loop {
            let Some(response) = self.local.interim.borrow_mut().pop_front() else { return };
            self.send_interim(&response).await;
        }
    }

    pub async fn send_interim(&mut self, response: &ResponseHead) {
        // 100 is ours to send when the body is read; 101 was not asked for.
        if let Some(reply) = self.reply.as_mut().filter(|_| response.status > 101) {
            let fields = request_headers::returned(&response.fields, response.version, false);
            // A client that is gone is noticed when the final head is sent.
            let _ = reply.interim(response.status, &fields).await;
        }
    }

    async fn ask_alone(&mut self) -> Step {
        // Asked before the origin is, so that a removal meanwhile reaches what it brings.
        let since = self.gateway.store.removals(self.hash);
        let found = self.found.clone();
        let ask = match &found {
            Some(stored) if self.validate => OriginRequest::Conditional(stored),
            _ if self.company == Coalescing::Head => OriginRequest::Head,
            _ => OriginRequest::AsSent,
        };
        let started = clock::precise_micros();
        self.stages.enter(RequestStage::Connect);
        let Some(reserved) = self.in_line(self.asked()).await else { return self.needs_nothing() };
        if !matches!(&reserved, Ok(it) if it.wait() == PermitWait::None)
            && let Some(step) = self.came_meanwhile()
        {
            self.stages.enter(RequestStage::Lookup);
            return step;
        }
        let arrived = match reserved {
            Ok(reserved) => {
                self.gateway.counters.cache_validations.add(u64::from(self.validate));
                self.exchange_by(reserved, started, ask).await
            }
            Err(error) => Err(error),
        };
        let arrived = match arrived {
            Ok(arrived) => arrived,
            Err(_) if self.is_taken_back().await => return self.needs_nothing(),
            Err(error) => return self.failed(error.status(), &error.sentence()),
        };
        let status = arrived.response.status;
        if let (304, true, Some(old)) = (status, self.validate, &found) {
            return self.validated_alone(old, &arrived, since).await;
        }
        if request_headers::is_unasked(self.request, self.facts.conditional, status) {
            return self.failed(502, request_headers::unasked(status));
        }
        if status >= 500
            && let Step::Hit = self.origin_failed(status)
        {
            return Step::Hit;
        }
        if self.facts.method == "HEAD" {
            self.head_came(&arrived, since).await;
        }
        self.keep_or_pass(arrived, since).await
    }

    /// The origin failed for this request alone, as `explain` will tell.
    fn failed(&mut self, status: u16, why: &str) -> Step {
        self.gateway.refusals.note_failure(self.hash, self.request, status, why);
        self.origin_failed(status)
    }

    /// What was stored while this request waited for a connection to the origin, and answers it.
    fn came_meanwhile(&mut self) -> Option<Step> {
        if let Some(step) = self.stored_meanwhile() {
            return Some(step);
        }
        let knows = |it: &Arc<DiskTier>| it.knows(&self.key);
        let on_disk = self.gateway.disk_of(&self.route.policy).is_some_and(knows);
        if !on_disk || self.found.is_some() || self.remembered || self.looks >= LOOKS {
            return None;
        }
        self.looks += 1;
        self.descended = false;
        Some(Step::Lookup)
    }

    /// Stores and reads along, or passes the bytes on.
    async fn keep_or_pass(&mut self, arrived: ArrivedHead, since: Removals) -> Step {
        let judge = StorabilityCheck {
            gateway: self.gateway,
            route: self.route,
            request: self.request,
            facts: self.facts,
            hash: self.hash,
            remembered: self.remembered,
        };
        if let Storable::Refuse(refusal) = judge.decide(&arrived) {
            let says = match judge.is_about_the_page(&arrived, refusal) {
                true => Unshared::Page,
                false => Unshared::Answer,
            };
            self.refuse(&arrived, says).await;
            let report = self.forwarded(Some(arrived.response.status));
            let (status, times) = (arrived.response.status, (arrived.request_time, arrived.response_time));
            let mut answer = self.direct(arrived, None, Some(report));
            if let (Coalescing::Head, Delivery::Direct(direct)) = (self.company, &mut answer) {
                self.bring_to_get(status, &mut direct.fields, times);
            }
            self.answer = Some(answer);
            return Step::Pass;
        }
        let (writer, reader) = self.gateway.store.begin_alone(self.hash, &self.key, since);
        tokio::task::spawn_local(Box::pin(self.job(false, TierLookup::Skip, false).receive(arrived, writer)));
        self.lead(reader).await
    }

    /// An answer that may not be stored takes the place of what is.
    async fn refuse(&self, arrived: &ArrivedHead, says: Unshared) {
        let policy = &self.route.policy;
        let fields = arrived.response.fields.view();
        let (asked, came) = (arrived.request_time, arrived.response_time);
        let meta = Meta::of(arrived.response.status, &fields, policy, asked, came);
        let (of, request) = ((self.hash, &self.key[..]), (self.facts, self.fields));
        self.gateway.refused(policy, of, request, (&meta, arrived), says).await;
    }

    async fn validated_alone(&mut self, old: &Arc<Stored>, arrived: &ArrivedHead, since: Removals) -> Step {
        if !freshen::selects(&old.meta, &arrived.response.fields.view(), true) {
            // The 304 was about something that is not stored: ask again, without condition.
            return match self.exchange(OriginRequest::Whole).await {
                Ok(again) if again.response.status == 304 => self.failed(502, request_headers::unasked(304)),
                Ok(again) => self.keep_or_pass(again, since).await,
                Err(error) => self.failed(error.status(), &error.sentence()),
            };
        }
        self.gateway.counters.cache_validated.add(1);
        let store = &self.gateway.store;
        let removed = || store.removals(self.hash) != since;
        let stored = self.job(false, TierLookup::Skip, false).update(old, arrived, removed).await;
        self.answer = Some(Delivery::Stored { stored, report: self.forwarded(Some(304)) });
        Step::Hit
    }

    /// A HEAD response freshens or invalidates what is stored for GET (RFC 9111 §4.3.5).
    async fn head_came(&mut self, arrived: &ArrivedHead, since: Removals) {
        let Some(old) = self.found.clone().filter(|_| arrived.response.status == 200) else { return };
        let mut stored = old.fields();
        stored.set("Content-Length", old.body.len().to_string());
        match freshen::head_says(&old.meta, &stored, &arrived.response.fields.view()) {
            HeadSays::Freshen => {
                let store = &self.gateway.store;
                let removed = || store.removals(self.hash) != since;
                self.job(false, TierLookup::Skip, false).update(&old, arrived, removed).await;
            }
            HeadSays::Invalidate => {
                self.gateway.remove(&self.route.policy, self.hash, &self.key).await;
            }
        }
    }

    /// Makes the fields of an answer to HEAD those that the GET would get (RFC 9110 §9.3.2): what would be stored may go to
    /// others in other codings, and to this client.
    fn bring_to_get(&self, status: u16, fields: &mut FieldList, (asked, came): (WallTime, WallTime)) {
        let policy = &self.route.policy;
        let said = fields.view();
        let length = field::first(&said, "content-length");
        let length: Option<u64> = length.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
        let facts = RequestFacts { method: "GET", ..self.facts.clone() };
        let verdict = storable::decide(&facts, status, &said, policy, asked, came, &mut Silent);
        let is_kept = verdict == Storable::Store && length.is_none_or(|it| it <= policy.max_object);
        if !is_kept || transcode::plan(status, &said, length, policy).is_none() {
            return;
        }
        drop(said);
        transcode::mark(fields);
        let reason = self.reason;
        let report = CacheReport::Forwarded { reason, status: Some(status), stored: true, collapsed: false };
        if self.must_decode(fields, status, report).is_some() {
            *fields = transcode::form_fields(fields, Coding::Identity);
        }
    }

    /// What the choice of an origin needs to know of a request without its body.
    pub fn asked(&self) -> BalanceKey {
        self.route.asked(self.request, self.fields, self.client, Framing::Empty)
    }

    /// One bodyless exchange up to its final head; interim heads are passed on.
    pub async fn exchange(&mut self, ask: OriginRequest<'_>) -> Result<ArrivedHead, OriginError> {
        let started = clock::precise_micros();
        self.stages.enter(RequestStage::Connect);
        let reserved = self.route.origins.reserve(self.asked()).await?;
        self.exchange_by(reserved, started, ask).await
    }

    /// The same by a connection that was waited for since `started`.
    async fn exchange_by(
        &mut self,
        reserved: ReservedPermit,
        started: u64,
        ask: OriginRequest<'_>,
    ) -> Result<ArrivedHead, OriginError> {
        let mut outgoing = request_headers::outgoing(
            self.gateway,
            self.request,
            self.fields,
            self.route,
            self.client,
            Framing::Empty,
            ask,
        );
        let born = self.gateway.store.born();
        let (request_time, asked) = (clock::wall(), clock::precise_micros());
        outgoing.asked = Some(started);
        let exchange = reserved.send(outgoing).await?;
        self.stages.enter(RequestStage::FirstByte);
        loop {
            let mut response = self.unless_gone(&exchange, exchange.head()).await?;
            self.local.took(started, exchange.answered(), &response);
            if response.status >= 200 {
                location::write_back(self.route, self.request, &mut response.fields);
                self.stages.enter(RequestStage::Lookup);
                self.local.origin_status.set(Some(response.status));
                let exchanged = Exchanged { asked, answered: exchange.answered() };
                let response_time = clock::wall();
                return Ok(ArrivedHead { exchange, response, request_time, response_time, exchanged, born });
            }
            self.send_interim(&response).await;
        }
    }
}
