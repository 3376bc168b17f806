//! The steps `Validate` and `Fetch`: leading a shared fill, or running one with one reader.

use super::deliver::{Delivery, FileResponse};
use super::machine::Step;
use super::{Coalescing, FetchPlan, LowerTierState, MAX_LOOKUPS, Machine, OwnError, RequestInput, wait};
use crate::cache_rules;
use crate::file_orders::InPlaceOfBody;
use crate::fill::TierLookup;
use crate::fill::machine::FillStep;
use crate::fill::{
    ArrivedHead, ClientPresence, FetchKind, FillOutcome, FillPurpose, FillRun, OriginRequestKind,
};
use crate::request_headers;
use crate::stages::RequestStage;
use larder_origin::OriginError;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::coding::Coding;
use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::ForwardReason;
use larder_semantics::storable::{self, Storable};
use larder_semantics::trace::Silent;
use larder_semantics::transcode;
use larder_store::{FillHead, FillReader};
use larder_wire::message::ResponseHead;
use std::future::Future;
use std::pin::pin;

/// The status in the log for a request that its client cancelled before there was an answer, as in nginx. It is never
/// sent.
const CLIENT_CANCELLED: u16 = 499;

impl Machine<'_, '_> {
    /// `Validate` and `Fetch`: leads a shared fetch, or asks alone.
    pub async fn fetch_or_validate(&mut self) -> Step {
        match self.waiting.reader.take() {
            Some(reader) if self.plan.coalescing == Coalescing::Shared => self.lead(reader).await,
            _ => self.fetch_privately().await,
        }
    }

    pub async fn lead(&mut self, mut reader: FillReader) -> Step {
        let mut may_be_gone = false;
        let mut earlier = self.waiting.earlier.take();
        let head = loop {
            let local = self.starter.clone();
            tokio::select! {
                biased;
                () = local.interim.filled() => self.pass_interim().await,
                head = reader.head() => break head,
                head = wait::head_of(&mut earlier) => {
                    let answers = earlier.take().and_then(|it| self.take_earlier(it, head));
                    if let Some(step) = answers {
                        self.input.stages.enter(RequestStage::Lookup);
                        return step;
                    }
                }
                () = self.cancelled() => {
                    // A fetch that a request started counts as its own until it has ended: otherwise one client could
                    // start any number.
                    reader.leave().wait_end().await;
                    return self.needs_nothing();
                }
                () = self.may_be_gone(), if !may_be_gone => {
                    may_be_gone = true;
                    reader.mark_suspect();
                }
            }
        };
        self.pass_interim().await;
        self.input.stages.enter(RequestStage::Lookup);
        if let Some(stale) = self.starter.stale.borrow().clone() {
            (self.found.stored, self.plan.reason) = (Some(stale), ForwardReason::Stale);
        }
        match head {
            FillHead::Shared(head) => {
                self.deliver_fill(reader, head, false);
                Step::Store
            }
            FillHead::Private(head) => {
                let report = self.plan.forwarded(self.starter.origin_status.get());
                let (status, fields) = (head.status, head.fields.clone());
                self.response.answer = Some(match self.starter.in_place.take() {
                    Some(InPlaceOfBody::File(file)) => {
                        Delivery::File(FileResponse { file, source: None, fields, report, upload: false })
                    }
                    Some(InPlaceOfBody::Target(target)) => Delivery::LocalRedirect(target),
                    None => Delivery::Reading { reader, head, status, fields, report },
                });
                Step::Pass
            }
            FillHead::Found(stored, tier) => self.consider_tier_hit(stored, tier),
            FillHead::StoreChanged | FillHead::Validated(_) => {
                let freshened = self.starter.freshened.borrow_mut().take();
                match freshened {
                    None if self.starter.over_budget.take() => self.over_budget(),
                    Some(stored) => {
                        let status = self.starter.origin_status.get();
                        self.response.answer =
                            Some(Delivery::Stored { stored, report: self.plan.forwarded(status) });
                        Step::Hit
                    }
                    None if self.starter.unshared.take() => {
                        self.found.lower_tiers = LowerTierState::Asked;
                        Step::Lookup
                    }
                    None => self.origin_failed(502),
                }
            }
            FillHead::Failed(status) | FillHead::Unreachable(status) => self.origin_failed(status),
        }
    }

    /// The client has cancelled its request: the fetch serves other requests, or none.
    pub fn needs_nothing(&mut self) -> Step {
        self.fails(OwnError::Status(CLIENT_CANCELLED))
    }

    /// Whether the fetch ended because the client is gone. For a response that is made on this machine, one that has closed its side is.
    pub fn has_left(&self) -> bool {
        match self.starter.presence() {
            ClientPresence::Gone => true,
            ClientPresence::Doubted => self.input.route.ends_with_client(),
            ClientPresence::Here => false,
        }
    }

    async fn pass_interim(&mut self) {
        loop {
            let Some(response) = self.starter.interim.pop() else { return };
            self.send_interim(&response).await;
        }
    }

    pub async fn send_interim(&mut self, response: &ResponseHead) {
        // larder sends 100 itself when the body is read; 101 was not requested.
        if let Some(reply) = self.response.reply.as_mut().filter(|_| response.status > 101) {
            let fields = request_headers::returned(response.fields.clone(), response.version, false);
            // A lost client is noticed when the final head is sent.
            let _ = reply.interim(response.status, &fields).await;
        }
    }

    /// Runs a fill whose only reader is this request, up to where its response is stored or forwarded.
    async fn fetch_privately(&mut self) -> Step {
        let kind = match (&self.found.stored, self.plan.kind) {
            (Some(_), FetchKind::Validation) => OriginRequestKind::Validation,
            _ if self.plan.coalescing == Coalescing::Head => OriginRequestKind::Head,
            _ => OriginRequestKind::AsSent,
        };
        // Taken before the origin is asked, so that a removal meanwhile applies to the response.
        let since = self.input.gateway.store.removals(self.key.hash);
        let may_repeat_lookup = self.found.stored.is_none()
            && !self.found.is_hit_for_miss()
            && self.waiting.lookups < MAX_LOOKUPS;
        self.input.stages.enter(RequestStage::Connect);
        let mut fill = FillRun::private(
            self.job(self.plan.kind, TierLookup::Skip, FillPurpose::Response),
            kind,
            since,
            may_repeat_lookup,
        );
        // Not within this request's own future, which is moved as a whole and mostly does without.
        let running = self.input.gateway.private_fills.lend(|| fill.run(FillStep::Origin));
        let next = self.while_here(running).await;
        self.input.stages.enter(RequestStage::Lookup);
        if next == FillStep::Store {
            let reader = fill.begin_to_store();
            return self.lead(reader).await;
        }
        match std::mem::replace(&mut fill.outcome, FillOutcome::Ended) {
            FillOutcome::Forward => self.forwards(&mut fill),
            FillOutcome::Freshened(stored, _) => {
                self.response.answer =
                    Some(Delivery::Stored { stored, report: self.plan.forwarded(Some(304)) });
                Step::Hit
            }
            FillOutcome::Found(stored, tier, _) => self.consider_tier_hit(stored, tier),
            FillOutcome::RepeatLookup => {
                self.waiting.lookups += 1;
                self.found.lower_tiers = LowerTierState::NotAsked;
                Step::Lookup
            }
            FillOutcome::OverBudget => self.over_budget(),
            _ if self.has_left() => self.needs_nothing(),
            FillOutcome::Failed(FillHead::Failed(status) | FillHead::Unreachable(status)) => {
                self.origin_failed(status)
            }
            FillOutcome::Failed(_) | FillOutcome::Ended => self.origin_failed(502),
            FillOutcome::GivenUp => {
                let error = OriginError::Busy;
                let (status, why) = (error.status(), error.sentence());
                self.input.gateway.shared.unstored.note_failure(
                    self.key.hash,
                    self.input.request,
                    status,
                    &why,
                );
                self.origin_failed(status)
            }
        }
    }

    /// The response comes straight from the origin.
    fn forwards(&mut self, fill: &mut FillRun) -> Step {
        let Some(arrived) = fill.arrived.take() else { return self.origin_failed(502) };
        let status = arrived.response.status;
        let report = Some(self.plan.forwarded(Some(status)));
        let may_be_kept = self.input.facts.method == "HEAD" && arrived.is_sent_itself();
        self.response.answer = Some(match may_be_kept && self.input.keeps_get(&arrived) {
            true => {
                let mut answer = self.direct_plain(arrived, None, report);
                if let (Coalescing::Head, Delivery::Forwarded(direct)) = (self.plan.coalescing, &mut answer) {
                    self.use_get_fields(status, &mut direct.fields);
                }
                answer
            }
            false => self.direct(arrived, None, report),
        });
        Step::Pass
    }

    /// Runs a fill of this request, passes interim responses on, and tells the fill whether the client is still there.
    pub async fn while_here<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let local = self.starter.clone();
        let done = loop {
            let presence = local.presence();
            tokio::select! {
                biased;
                () = local.interim.filled() => self.pass_interim().await,
                done = &mut work => break done,
                () = self.cancelled(), if presence != ClientPresence::Gone => {
                    local.set_presence(ClientPresence::Gone);
                }
                () = self.may_be_gone(), if presence == ClientPresence::Here => {
                    local.set_presence(ClientPresence::Doubted);
                }
            }
        };
        if local.presence() != ClientPresence::Gone && self.is_cancelled().await {
            local.set_presence(ClientPresence::Gone);
        }
        self.pass_interim().await;
        done
    }

    /// Makes the fields of an answer to HEAD those that the GET would get (RFC 9110 §9.3.2): a stored response may go to
    /// clients in other codings, this client included.
    fn use_get_fields(&self, status: u16, fields: &mut FieldList) {
        let view = fields.view();
        let policy = cache_rules::of_response(&self.input.route.policy, self.input.request, status, &view);
        if transcode::plan(status, &view, length_of(&view), policy).is_none() {
            return;
        }
        drop(view);
        transcode::mark(fields);
        let reason = self.plan.reason;
        let report = CacheReport::Forwarded { reason, status: Some(status), stored: true, collapsed: false };
        if self.must_decode(fields, status, report).is_some() {
            *fields = transcode::form_fields(fields, Coding::Identity);
        }
    }
}

impl RequestInput<'_, '_> {
    /// Whether the response to the GET of a HEAD would be stored.
    fn keeps_get(&self, arrived: &ArrivedHead) -> bool {
        let (status, view) = (arrived.response.status, arrived.response.fields.view());
        let policy = cache_rules::of_response(&self.route.policy, self.request, status, &view);
        let facts = RequestFacts { method: "GET", ..self.facts.clone() };
        let (asked, came) = (arrived.request_time, arrived.response_time);
        let verdict = storable::decide(&facts, status, &view, policy, asked, came, &mut Silent);
        verdict == Storable::Store && length_of(&view).is_none_or(|it| it <= policy.max_object)
    }
}

impl FetchPlan {
    pub fn forwarded(&self, status: Option<u16>) -> CacheReport {
        CacheReport::Forwarded { reason: self.reason, status, stored: false, collapsed: false }
    }
}

/// The announced length of a response to HEAD.
fn length_of(fields: &[Field<'_>]) -> Option<u64> {
    field::first(fields, "content-length").and_then(|it| std::str::from_utf8(it).ok()?.parse().ok())
}
