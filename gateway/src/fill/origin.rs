//! The step `Origin`: a fill's request to the origin. It may have to wait for a permit, for as long as a client waits for
//! the fill. Every request to an origin is sent here, passed ones included.

use super::machine::FillStep;
use super::{ArrivedHead, FetchKind, FillJob, FillOutcome, FillRun, Readers, Waiters, pressure};
use crate::application;
use crate::file_orders;
use crate::location;
use crate::miss_budget::OriginClock;
use crate::protocol_upgrade::UpgradeRequest;
use crate::request_cookies;
use crate::request_headers::{self, OriginRequest};
use crate::source::{MadeResponse, MakerCount, ResponseMaker, ResponseSource};
use crate::stages::RequestStage;
use crate::upload::{Upload, UploadStopped, carry_whole, with_upload};
use bytes::Bytes;
use larder_origin::{BalanceKey, Exchange, OriginError, PermitWait, ReservedPermit};
use larder_semantics::cgi;
use larder_semantics::partial;
use larder_semantics::policy::OnAbort;
use larder_semantics::stored;
use larder_stdx::clock::{self, WallTime};
use larder_store::{Exchanged, PurgeEpoch};
use larder_wire::message::{Framing, HeadKind, ResponseHead};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;

/// A request to the origin.
#[derive(Debug)]
pub(crate) enum OriginRequestKind {
    /// For the whole representation.
    Whole,
    /// The same after an answer that could not be used.
    Again,
    /// A check whether the stored response is still current.
    Validation,
    /// The rest of a stored part: this `Range`, `If-Range` with this validator.
    Rest(String, Vec<u8>),
    /// The client's request with its conditions and range.
    AsSent,
    /// The head that a GET would get.
    Head,
    /// The client's request unchanged; the answer is stored only if it allows that itself.
    Passed,
}

impl OriginRequestKind {
    fn request<'s>(&'s self, job: &'s FillJob) -> OriginRequest<'s> {
        match (self, &job.stored) {
            (OriginRequestKind::Validation, Some(stored)) => OriginRequest::Conditional(stored),
            (OriginRequestKind::Whole | OriginRequestKind::Again | OriginRequestKind::Validation, _) => {
                OriginRequest::Whole
            }
            (OriginRequestKind::Rest(range, validator), _) => OriginRequest::Rest(range, validator),
            (OriginRequestKind::AsSent, _) => OriginRequest::AsSent,
            (OriginRequestKind::Head, _) => OriginRequest::Head,
            (OriginRequestKind::Passed, _) => OriginRequest::Passed,
        }
    }
}

/// The parts of a passed request that are not fields.
#[derive(Clone, Copy)]
pub(crate) struct Passing<'p> {
    /// The framing of its body.
    pub framing: Framing,
    /// The protocol that it asks for.
    pub upgrade: Option<&'p UpgradeRequest>,
}

impl Passing<'_> {
    /// No body, no upgrade.
    const BARE: Passing<'static> = Passing { framing: Framing::Empty, upgrade: None };
}

/// A request that was sent to the origin.
pub(crate) struct SentRequest {
    pub exchange: Rc<Exchange>,
    /// Charges the client's budget when the response has ended.
    clock: Option<Rc<OriginClock>>,
    /// The start of its wait for a permit, by the precise clock.
    started: u64,
    /// When it was sent, by the same clock.
    asked: u64,
    request_time: WallTime,
    epoch: PurgeEpoch,
    /// It is passed: a 101 may answer it.
    is_passed: bool,
}

/// When larder began to make a response in place of an origin.
struct MakingStart {
    epoch: PurgeEpoch,
    request_time: WallTime,
    asked: u64,
}

impl MakingStart {
    fn arrived(self, made: MadeResponse, count: Option<MakerCount>) -> ArrivedHead {
        if let Some(count) = &count {
            count.made(clock::precise_micros().saturating_sub(self.asked));
        }
        ArrivedHead {
            source: ResponseSource::Made(Rc::new(made.body), count.map(Rc::new)),
            response: made.head,
            order: None,
            request_time: self.request_time,
            response_time: clock::wall(),
            exchanged: Exchanged { request_sent: self.asked, head_received: clock::precise_micros() },
            epoch: self.epoch,
        }
    }
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The origin failed.
    Origin(OriginError),
    /// Requests queued for the origin, and no client waited any more.
    GivenUp,
    /// The body of the request did not arrive.
    Upload(UploadStopped),
}

impl From<OriginError> for NoAnswer {
    fn from(error: OriginError) -> Self {
        NoAnswer::Origin(error)
    }
}

impl From<UploadStopped> for NoAnswer {
    fn from(why: UploadStopped) -> Self {
        NoAnswer::Upload(why)
    }
}

impl FillRun {
    /// `Origin`: waits for a permit, and asks the origin. A response stored by another fill meanwhile answers as well.
    pub(super) async fn ask_origin(&mut self) -> FillStep {
        if let Some(maker) = self.job.route.maker.clone() {
            return self.ask_maker(&*maker).await;
        }
        let job = &self.job;
        if self.request_kind.is_none() {
            self.request_kind = Some(job.request_for_held());
        }
        if let Some(kind) = &self.request_kind
            && let Some(arrived) = job.without_script(kind).await
        {
            self.arrived = Some(arrived);
            return FillStep::Decide;
        }
        let is_first = !matches!(self.request_kind, Some(OriginRequestKind::Again));
        if is_first && job.charge().is_err() {
            return self.ends(FillOutcome::OverBudget);
        }
        let started = clock::precise_micros();
        job.stages.enter(RequestStage::Connect);
        let waiting = job.in_line(self.waiters(), job.asked());
        let Some(reserved) = self.unless_cancelled(pin!(waiting)).await.flatten() else {
            return self.ends(FillOutcome::GivenUp);
        };
        if is_first && !matches!(&reserved, Ok(it) if it.wait() == PermitWait::None) {
            let come = Box::pin(self.came_meanwhile()).await;
            if let Some(outcome) = come {
                self.job.give_back();
                return self.ends(outcome);
            }
        }
        let asked = match (reserved, &self.request_kind) {
            (Ok(reserved), Some(kind)) => {
                let counted =
                    is_first && self.job.fetch == FetchKind::Validation && !self.job.is_background();
                self.job.gateway.counters.cache_validations.add(u64::from(counted));
                let asking = self.job.request_head(reserved, started, kind, self.waiters());
                self.unless_cancelled(pin!(asking)).await
            }
            (Err(error), _) => Some(Err(NoAnswer::Origin(error))),
            (Ok(_), None) => None,
        };
        match asked {
            Some(Ok(arrived)) => {
                self.arrived = Some(arrived);
                FillStep::Decide
            }
            Some(Err(NoAnswer::Origin(error))) => self.fails_of(&error),
            Some(Err(NoAnswer::GivenUp | NoAnswer::Upload(_))) | None => self.ends(FillOutcome::GivenUp),
        }
    }

    /// The same where the responses of the route are made here.
    async fn ask_maker(&mut self, maker: &dyn ResponseMaker) -> FillStep {
        if !matches!(self.request_kind, Some(OriginRequestKind::AsSent | OriginRequestKind::Head)) {
            self.request_kind = Some(OriginRequestKind::Whole); // The maker does not know the stored response.
        }
        if self.job.charge().is_err() {
            return self.ends(FillOutcome::OverBudget);
        }
        let body = self.job.body.clone().unwrap_or_default();
        match self.job.make(maker, body, self.waiters()).await {
            Some(Ok(arrived)) => {
                self.arrived = Some(arrived);
                FillStep::Decide
            }
            Some(Err(error)) => self.fails_of(&error),
            None => self.ends(FillOutcome::GivenUp),
        }
    }

    /// A response that answers now, and was not stored before this fill waited for a permit.
    async fn came_meanwhile(&self) -> Option<FillOutcome> {
        match &self.readers {
            Readers::Shared(writer) => self.job.came_meanwhile(writer).await,
            Readers::One { may_repeat_lookup, .. } => match self.job.came_into_ram() {
                Some(found) => Some(found),
                None if *may_repeat_lookup && self.job.lies_on_disk() => {
                    return Some(FillOutcome::RepeatLookup);
                }
                None => None,
            },
            Readers::None => None,
        }
        .map(|(stored, tier)| FillOutcome::Found(stored, tier, None))
    }

    /// Does `work`; `None` where every reader has left and the fill is therefore cancelled (`cache.on_abort`).
    async fn unless_cancelled<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match &self.readers {
            Readers::Shared(writer) if self.job.cancels() => tokio::select! {
                biased;
                done = work => Some(done),
                () = writer.without_readers() => None,
            },
            _ => Some(work.await),
        }
    }
}

impl FillJob {
    /// The request that the held response needs: for the rest, for a validation, or for the whole.
    fn request_for_held(&self) -> OriginRequestKind {
        match self.rest() {
            Some((range, validator)) => OriginRequestKind::Rest(range, validator),
            None if self.fetch == FetchKind::Validation => OriginRequestKind::Validation,
            None => OriginRequestKind::Whole,
        }
    }

    /// The fields that complete the held part, for a request for the whole: `Range` and `If-Range`.
    fn rest(&self) -> Option<(String, Vec<u8>)> {
        let stored = self.stored.as_ref().filter(|_| self.request.fields.get("range").is_none())?;
        partial::completion(&stored.meta)
    }

    /// The facts for choosing an origin, for a request without a body.
    pub fn asked(&self) -> BalanceKey {
        let asked = self.route.asked(&self.request, &self.client, Framing::Empty);
        BalanceKey { bound: self.local.bound.get(), ..asked }
    }

    pub(super) fn cancels(&self) -> bool {
        self.route.policy.on_abort == OnAbort::Cancel && !self.is_background()
    }

    /// Lets the route's maker answer in place of an origin. `None` where no client waits for the answer any more
    /// (`cache.on_abort`).
    pub async fn make(
        &self,
        maker: &dyn ResponseMaker,
        body: Bytes,
        waiters: Waiters<'_>,
    ) -> Option<Result<ArrivedHead, OriginError>> {
        let began = self.begin_to_make();
        let count = self
            .route
            .maker_scope
            .as_ref()
            .map(|it| MakerCount::begin(it, self.reason.of(&OriginRequestKind::Whole)));
        self.stages.enter(RequestStage::FirstByte);
        let mut making = maker.make(&self.request, body);
        let made = match self.cancels() {
            false => making.await,
            true => tokio::select! {
                biased;
                made = &mut making => made,
                () = pressure::left(waiters) => return None,
            },
        };
        self.stages.enter(RequestStage::Lookup);
        Some(made.map(|made| {
            self.local.origin_status.set(Some(made.head.status));
            began.arrived(made, count)
        }))
    }

    /// Finds the script of the request, on a route with scripts; the response where there is none.
    pub async fn without_script(&self, kind: &OriginRequestKind) -> Option<ArrivedHead> {
        let scripts = self.route.scripts.as_ref().filter(|_| self.script.get().is_none())?;
        let began = self.begin_to_make();
        let target = request_headers::target(&self.route, &self.request, &self.client, kind.request(self));
        let found = scripts.find(&self.request.method, &target, clock::monotonic()).await;
        match application::script_or_response(found, &self.request.method, &target) {
            Ok(script) => {
                let _ = self.script.set(script);
                None
            }
            Err(mut made) => {
                location::write_back(&self.route, &self.request, &mut made.head.fields);
                self.local.is_own_page.set(made.head.kind == HeadKind::OwnPage);
                Some(began.arrived(made, None))
            }
        }
    }

    /// Notes cookies that the application sets because this route has removed them from the request.
    fn note_removed_cookies(&self, response: &ResponseHead) {
        let policy = &self.route.policy;
        if policy.private_cookies.is_empty() || !response.fields.contains("set-cookie") {
            return;
        }
        let sent = self.request.fields.view();
        if request_headers::is_anonymous(policy, &self.request, &sent) {
            let removed = &self.gateway.shared.removed_cookies;
            removed.note(&self.route.name, policy, &sent, &response.fields.view());
        }
    }

    fn begin_to_make(&self) -> MakingStart {
        let epoch = self.gateway.store.epoch();
        MakingStart { epoch, request_time: clock::wall(), asked: clock::precise_micros() }
    }

    /// Asks, up to the final head, with a permit that was waited for since `started`.
    async fn request_head(
        &self,
        reserved: ReservedPermit,
        started: u64,
        kind: &OriginRequestKind,
        waiters: Waiters<'_>,
    ) -> Result<ArrivedHead, NoAnswer> {
        self.stages.enter(RequestStage::Connect); // It may have looked on the disk since it had its permit.
        let Some(body) = self.body.clone() else {
            let sent = self.send(reserved, started, kind, Passing::BARE).await?;
            return self.final_head(sent, waiters, &mut None).await;
        };
        let passing = Passing { framing: Framing::Length(body.len() as u64), upgrade: None };
        let sent = self.send(reserved, started, kind, passing).await?;
        let upload = carry_whole(body, sent.exchange.clone());
        self.final_head(sent, waiters, &mut Some(upload)).await
    }

    /// Sends the head of a request to the origin.
    ///
    /// # Errors
    /// The origin could not be asked.
    pub async fn send(
        &self,
        reserved: ReservedPermit,
        started: u64,
        kind: &OriginRequestKind,
        passing: Passing<'_>,
    ) -> Result<SentRequest, OriginError> {
        let mut outgoing = Box::new(request_headers::outgoing(
            &self.gateway,
            &self.request,
            &self.request.fields.view(),
            &self.route,
            &self.client,
            passing.framing,
            kind.request(self),
        ));
        if let Some(upgrade) = passing.upgrade {
            upgrade.write(&mut outgoing.fields);
        }
        let is_passed = matches!(kind, OriginRequestKind::Passed);
        if self.route.origins.is_application() {
            outgoing.application = Some(application::facts(
                &self.request,
                &self.route,
                &self.client,
                &outgoing,
                self.script.get(),
                is_passed,
            ));
        }
        let epoch = self.gateway.store.epoch();
        let (request_time, asked) = (clock::wall(), clock::precise_micros());
        outgoing.asked = Some(started);
        outgoing.reason = Some(self.reason.of(kind));
        let clock = self.origin_clock();
        let exchange = reserved.send(outgoing).await?;
        Ok(SentRequest { exchange, clock, started, asked, request_time, epoch, is_passed })
    }

    /// Waits for the final head while the request's body is sent; interim heads are for the client that started the fill.
    ///
    /// # Errors
    /// There is none.
    pub async fn final_head(
        &self,
        sent: SentRequest,
        waiters: Waiters<'_>,
        upload: &mut Option<Upload<'_>>,
    ) -> Result<ArrivedHead, NoAnswer> {
        let SentRequest { exchange, clock, started, asked, request_time, epoch, is_passed } = sent;
        let source = ResponseSource::Origin(exchange.clone(), clock);
        self.stages.enter(RequestStage::FirstByte);
        loop {
            let head = self.unless_given_up(&source, waiters, exchange.head());
            let mut response = with_upload(upload, head).await?.ok_or(NoAnswer::GivenUp)??;
            let is_switched = is_passed && response.status == 101;
            let mut order = None;
            if (is_switched || response.status >= 200) && self.route.sticky.is_some() && !self.is_background()
            {
                self.local.answered_by.set(Some(exchange.origin()));
            }
            if !is_switched {
                self.local.took(started, &exchange, &response);
            }
            request_cookies::take_from_response(&self.route, &self.request, &mut response.fields);
            if is_switched || response.status < 200 {
                file_orders::strip(self.route.sendfile.is_some(), &mut response.fields);
            }
            if !is_switched {
                if response.status < 200 {
                    self.local.interim.push(response);
                    continue;
                }
                location::write_back(&self.route, &self.request, &mut response.fields);
                self.note_removed_cookies(&response);
                if response.is_local_redirect() && cgi::local_redirect(&response.fields).is_none() {
                    response.kind = HeadKind::Response;
                }
                self.local.is_own_page.set(response.kind == HeadKind::OwnPage);
                order = file_orders::take(
                    self.route.sendfile.as_ref(),
                    &self.route.policy,
                    response.status,
                    &mut response.fields,
                );
                if !is_passed {
                    stored::mark_varied(response.status, &mut response.fields, &self.route.policy);
                }
            }
            self.stages.enter(RequestStage::Lookup);
            self.local.origin_status.set(Some(response.status));
            let exchanged = Exchanged { request_sent: asked, head_received: exchange.answered() };
            let response_time = clock::wall();
            return Ok(ArrivedHead {
                source,
                response,
                order,
                request_time,
                response_time,
                exchanged,
                epoch,
            });
        }
    }
}
