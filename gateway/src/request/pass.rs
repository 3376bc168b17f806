//! The step `Pass`: the request unchanged, with its body, and its response; and the invalidations of an unsafe method.

use super::buffer::{BufferFault, OutgoingBody};
use super::deliver::{Delivery, FileResponse};
use super::machine::Step;
use super::tunnel::Switched;
use super::{Machine, OwnError, RequestInput};
use crate::buffered::WholeBody;
use crate::cache_key;
use crate::file_orders::InPlaceOfBody;
use crate::fill::TierLookup;
use crate::fill::{
    ArrivedHead, FetchKind, FillJob, FillPurpose, FillRun, NoAnswer, OriginRequestKind, Passing, Waiters,
};
use crate::protocol_upgrade;
use crate::request_headers;
use crate::route::PurgeSending;
use crate::stages::RequestStage;
use crate::transit::Transit;
use crate::upload::{Upload, UploadStopped, carry, carry_buffered};
use larder_origin::{OriginError, RequestBuffering};
use larder_semantics::cache_status::CacheReport;
use larder_semantics::field::Field;
use larder_semantics::policy::{GetBodies, Policy};
use larder_semantics::{invalidate, method, tags};
use larder_stdx::clock;
use larder_store::{BodyRefusal, PurgeRule, PurgeScope, Strength};
use larder_transport::{ClientGone, Reply};
use larder_wire::message::{Framing, ResponseHead};

impl<'c> Machine<'_, 'c> {
    /// Sends the request unchanged, with its body, and passes the response on.
    pub async fn pass(&mut self) -> Step {
        if self.response.answer.is_some() {
            return Step::Deliver; // `Fetch` or `Validate` found that the response is this client's only.
        }
        let framing = self.input.framing();
        // The present part of the body is read before the origin is asked: most malformed bodies fail here.
        let beginning = match self.beginning(framing).await {
            Ok(beginning) => beginning,
            Err(gone) => return self.upload_stopped(UploadStopped::Client(gone)),
        };
        let (body, framing) = match self.outgoing_body(framing, beginning).await {
            Ok(it) => it,
            Err(BufferFault::Client(gone)) => return self.upload_stopped(UploadStopped::Client(gone)),
            Err(BufferFault::Refused(why)) => return self.body_refused(why),
        };
        self.input.stages.enter(RequestStage::Connect);
        // The job continues the stage in which it is made.
        let job = self.job(FetchKind::Full, TierLookup::Skip, FillPurpose::Response);
        if job.charge().is_err() {
            return self.over_budget();
        }
        let mut upload = None;
        let upgrade = self.content.upgrade.take();
        let passing = Passing { framing, upgrade: upgrade.as_ref() };
        let passes = &self.input.gateway.passes;
        let asking = passes.lend(|| pass_on(&job, passing, body, &mut upload));
        let asked = self.while_here(asking).await;
        self.input.stages.enter(RequestStage::Lookup);
        self.content.upgrade = upgrade;
        let arrived = match asked {
            Ok(arrived) => arrived,
            Err(NoAnswer::Upload(why)) => return self.upload_stopped(why),
            Err(_) if self.has_left() => return self.needs_nothing(),
            Err(NoAnswer::Origin(error)) => {
                self.response.summary.failure = Some(error.sentence().into());
                return self.passing_failed(error.status());
            }
            Err(NoAnswer::GivenUp) => return self.passing_failed(OriginError::Busy.status()),
        };
        job.settle_reason(&arrived);
        if arrived.response.status == 101 {
            return self.switched(&arrived);
        }
        // A 304 is the client's to interpret: the request was sent unchanged, and the answer is not kept.
        if request_headers::is_unasked(self.input.request, true, arrived.response.status)
            || protocol_upgrade::is_mistakable(self.input.request, arrived.response.status)
        {
            self.starter.origin_status.set(None); // The client is not to take it for the status of a response.
            return self.passing_failed(502);
        }
        self.input.invalidate(&arrived.response).await;
        self.pass_or_keep(upload, arrived).await
    }

    fn passing_failed(&mut self, status: u16) -> Step {
        self.response.error = OwnError::Status(status);
        Step::Error
    }

    /// The request's body could not be kept until the origin is asked.
    fn body_refused(&mut self, why: BodyRefusal) -> Step {
        self.response.reply.iter_mut().for_each(Reply::close_after);
        self.passing_failed(match why {
            BodyRefusal::TooLarge => 413,
            BodyRefusal::NoRoom => 503,
        })
    }

    /// The request's body did not arrive.
    fn upload_stopped(&mut self, why: UploadStopped) -> Step {
        let status = match why {
            UploadStopped::Client(gone) => client_status(gone),
            UploadStopped::Pressed => {
                // The rest of the body would be read first.
                self.response.reply.iter_mut().for_each(Reply::close_after);
                503
            }
        };
        self.passing_failed(status)
    }

    /// The origin has switched protocols on the connection, as requested, or claims so without a request.
    fn switched(&mut self, arrived: &ArrivedHead) -> Step {
        match self.content.upgrade.as_ref().and_then(|it| Switched::of(it, arrived)) {
            Some(mut switched) => {
                self.bind(&mut switched.fields);
                self.response.answer = Some(Delivery::Switched(switched));
            }
            None => return self.passing_failed(502),
        }
        Step::Deliver
    }

    /// A POST whose response has an explicit lifetime and names its target is kept for GET (RFC 9110 §9.3.3); all other
    /// responses are passed on.
    async fn pass_or_keep(&mut self, upload: Option<Upload<'c>>, arrived: ArrivedHead) -> Step {
        let report = self.plan.forwarded(Some(arrived.response.status));
        // While the request is still being sent, the response is for this client only.
        let may_keep = upload.is_none()
            && request_headers::may_keep_post(
                &self.input.route.policy,
                self.input.facts,
                &self.input.request.target,
                self.input.fields,
            );
        if !may_keep {
            self.response.answer = Some(self.direct(arrived, upload, Some(report)));
            return Step::Deliver;
        }
        self.make_key();
        // Not before: the POST itself has just removed what was there.
        let since = self.input.gateway.store.removals(self.key.hash);
        let mut fill = FillRun::private(
            self.job(FetchKind::Full, TierLookup::Skip, FillPurpose::Response),
            OriginRequestKind::Passed,
            since,
            false,
        );
        match fill.would_store(arrived) {
            None => {
                let reader = fill.begin_to_store();
                match self.lead(reader).await {
                    Step::Pass => Step::Deliver,
                    next => next,
                }
            }
            Some(arrived) => {
                self.response.answer = Some(self.direct(arrived, None, Some(report)));
                Step::Deliver
            }
        }
    }

    /// The response of the origin, for this client only.
    pub fn direct(
        &self,
        mut arrived: ArrivedHead,
        upload: Option<Upload<'c>>,
        report: Option<CacheReport>,
    ) -> Delivery<'c> {
        match arrived.take_in_place() {
            Some(InPlaceOfBody::Target(target)) => return Delivery::LocalRedirect(target),
            Some(InPlaceOfBody::File(file)) => {
                let report = report.unwrap_or_else(|| self.plan.forwarded(Some(arrived.response.status)));
                let (source, response) = (Some(arrived.source), arrived.response);
                let fields = request_headers::returned_final(response.fields, response.version, false);
                return Delivery::File(FileResponse {
                    file,
                    source,
                    fields,
                    report,
                    upload: upload.is_some(),
                });
            }
            None => {}
        }
        let transit =
            Transit::of(self.input.gateway, &self.input.route.policy, self.input.request, &arrived.response);
        self.direct_plain(arrived, upload, report).in_transit(self.input.gateway, transit)
    }

    /// The same, in the form in which it came.
    pub fn direct_plain(
        &self,
        arrived: ArrivedHead,
        upload: Option<Upload<'c>>,
        report: Option<CacheReport>,
    ) -> Delivery<'c> {
        let method = &self.input.request.method;
        Delivery::direct(arrived.source, arrived.response, upload, report, method)
    }
}

impl RequestInput<'_, '_> {
    /// How the request's body is forwarded. The body of a GET has no defined meaning (RFC 9110 §9.3.1) and is in no key.
    /// A cached route drops it unless `cache.get_bodies` is set, so that larder and the application see the same request.
    fn framing(&self) -> Framing {
        let framing = self.request.framing;
        let is_read = matches!(self.request.method.as_str(), "GET" | "HEAD");
        let policy = &self.route.policy;
        let is_passed = !policy.enabled || policy.get_bodies == GetBodies::Pass;
        if framing == Framing::Empty || !is_read || is_passed {
            return framing;
        }
        self.gateway.counters.get_bodies_dropped.add(1);
        Framing::Empty
    }

    /// RFC 9111 §4.4: a successful unsafe method makes the responses stored under its targets unusable, and those of the
    /// groups that its response names (RFC 9875 §3).
    async fn invalidate(&self, response: &ResponseHead) {
        let request = self.request;
        let targets = invalidate::targets(
            &request.method,
            self.request.scheme.name(),
            &request.authority,
            &request.target,
            request.fields.get("destination"),
            response.status,
            &response.fields.view(),
        );
        for target in &targets {
            self.invalidate_target(&self.route.policy, target).await;
        }
        for (key, tiers) in self.route.other_keys.iter().filter(|_| !targets.is_empty()) {
            let policy = Policy { key: key.clone(), tiers: *tiers, ..self.route.policy.clone() };
            for target in &targets {
                self.invalidate_target(&policy, target).await;
            }
        }
        let mut sending = Vec::new();
        if self.route.has_queries || self.gateway.store.has_peer() {
            // The keys of stored responses to QUERY have bodies that this request lacks; and a purge reaches the peer.
            for target in &targets {
                let key = cache_key::of_url(&self.route.policy, request.scheme, &request.authority, target);
                self.purge(PurgeScope::Url(key), Strength::Hard, &mut sending).await;
            }
        }
        let mut key = Vec::new();
        let (scheme, authority) = (request.scheme, &request.authority);
        cache_key::write(&self.route.policy, scheme, authority, &request.target, self.fields, &mut key);
        for tag in tags::invalidated(&request.method, response.status, &response.fields.view(), &key) {
            // An entry with a validator may turn out to be still valid.
            self.purge(PurgeScope::Tag(tag.into()), Strength::Validate, &mut sending).await;
        }
        self.gateway.wait_for_purges(sending).await;
    }

    /// Puts a purge in force here, and begins to tell the other nodes of it.
    async fn purge(&self, scope: PurgeScope, strength: Strength, sending: &mut Vec<PurgeSending>) {
        let rule = PurgeRule { scope, strength, positions: Vec::new() };
        let seq = self.gateway.store.purge(rule.clone());
        match (self.gateway.purge_sender.get(), &self.gateway.tiers.disk) {
            (Some(send), _) => sending.push(send(rule, seq)),
            (None, Some(disk)) => self.gateway.known_to_next_process(disk.purged(seq, &rule)).await,
            (None, None) => {}
        }
    }

    /// Removes what is stored for a target: for each offer of the key, not only those that this request prefers.
    async fn invalidate_target(&self, policy: &Policy, target: &str) {
        let rest = self.fields.iter().filter(|it| !policy.key.negotiates(it.name)).copied();
        for offers in policy.key.representatives() {
            let fields: Vec<Field<'_>> = rest.clone().chain(offers).collect();
            let mut key = Vec::new();
            let (scheme, authority) = (self.request.scheme, &self.request.authority);
            cache_key::write(policy, scheme, authority, target, &fields, &mut key);
            let hash = self.gateway.store.hash(&key);
            if self.gateway.remove(policy, hash, &key).await {
                self.gateway.counters.cache_invalidations.add(1);
            }
        }
    }
}

/// Sends a request unchanged, with its body, and waits for the final head of its response.
async fn pass_on<'c>(
    job: &FillJob,
    passing: Passing<'_>,
    body: OutgoingBody<'c>,
    upload: &mut Option<Upload<'c>>,
) -> Result<ArrivedHead, NoAnswer> {
    if let Some(maker) = &job.route.maker {
        let body = match body {
            OutgoingBody::Whole(WholeBody::Memory(bytes)) => bytes,
            OutgoingBody::Whole(WholeBody::Spooled(_)) => {
                return Err(NoAnswer::Upload(UploadStopped::Client(ClientGone::TooLarge)));
            }
            OutgoingBody::Streamed(beginning, _) => beginning.bytes.unwrap_or_default(),
        };
        let is_safe = method::is_safe(&job.request.method);
        let waiters = if is_safe { Waiters::Client(&job.local) } else { Waiters::Unconditional };
        return Ok(job.make(&**maker, body, waiters).await.ok_or(NoAnswer::GivenUp)??);
    }
    if let Some(arrived) = job.without_script(&OriginRequestKind::Passed).await {
        return Ok(arrived);
    }
    let started = clock::precise_micros();
    let mut asked = job.route.asked(&job.request, &job.client, passing.framing);
    asked.bound = job.local.bound.get();
    if matches!(&body, OutgoingBody::Streamed(beginning, _) if !beginning.is_whole) {
        asked.buffering = RequestBuffering::Streamed;
    }
    let client = Waiters::Client(&job.local);
    let reserved = job.in_line(client, asked).await.ok_or(NoAnswer::GivenUp)??;
    let sent = job.send(reserved, started, &OriginRequestKind::Passed, passing).await?;
    let context = (job.gateway.counters.clone(), job.route.given_fields.clone());
    *upload = match body {
        OutgoingBody::Streamed(beginning, body) => {
            body.map(|it| carry(beginning.bytes, it, sent.exchange.clone(), context))
        }
        OutgoingBody::Whole(body) => {
            Some(carry_buffered(body, job.gateway.store.clone(), sent.exchange.clone()))
        }
    };
    // A request with a safe method may be dropped for others, once its client may be gone. A program ends with its client.
    let is_safe = method::is_safe(&job.request.method) && upload.is_none();
    let waiters = if is_safe || job.route.ends_with_client() { client } else { Waiters::Unconditional };
    job.final_head(sent, waiters, upload).await
}

/// The status for a client whose body did not arrive.
pub(super) fn client_status(gone: ClientGone) -> u16 {
    match gone {
        ClientGone::TimedOut => 408,
        ClientGone::TooLarge => 413,
        ClientGone::Closed | ClientGone::Malformed => 400,
    }
}
