//! The step `Pass`: the request as it is, body and all, and its response; and what an unsafe method invalidates.

use crate::deliver::Delivery;
use crate::fast_path;
use crate::fetch::ArrivedHead;
use crate::location;
use crate::machine::Step;
use crate::origin_pressure;
use crate::request_headers::{self, OriginRequest};
use crate::run::Machine;
use crate::stages::RequestStage;
use crate::tier_lookup::TierLookup;
use crate::upgrade::{self, Switched};
use bytes::Bytes;
use larder_counters::Counters;
use larder_origin::{Exchange, Paced};
use larder_semantics::cache_status::CacheReport;
use larder_semantics::policy::GetBodies;
use larder_semantics::{invalidate, method, tags};
use larder_stdx::clock;
use larder_store::{Exchanged, PurgeRule, PurgeScope, Strength};
use larder_transport::{ClientGone, Reply, RequestBody};
use larder_wire::message::{Framing, ResponseHead};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// The future that carries the request's body to the origin while the response is awaited.
pub(crate) type Upload<'c> = Pin<Box<dyn Future<Output = Result<(), UploadFailed>> + 'c>>;

/// Why a request body did not reach the origin.
pub(crate) enum UploadFailed {
    Halted(Halted),
    Origin,
}

/// Why a request body is not to be waited for any longer: the origin must not take what it has of it for complete.
#[derive(Clone, Copy)]
pub(crate) enum Halted {
    Client(ClientGone),
    /// Others need the place with the origin.
    Pressed,
}

impl<'c> Machine<'_, 'c> {
    /// Sends the request as it is, body and all, and passes the response on.
    pub async fn pass(&mut self) -> Step {
        if self.answer.is_some() {
            return Step::Deliver; // `Fetch` or `Validate` found that the response is this client's only.
        }
        let framing = self.framing();
        // What is here of the body is read before the origin hears of the request: most that are malformed stop here.
        let beginning = match self.beginning(framing).await {
            Ok(beginning) => beginning,
            Err(gone) => return self.halted(Halted::Client(gone)),
        };
        let mut outgoing = request_headers::outgoing(
            self.gateway,
            self.request,
            self.fields,
            self.route,
            self.client,
            framing,
            OriginRequest::Passed,
        );
        let born = self.gateway.store.born();
        let (request_time, started) = (clock::wall(), clock::precise_micros());
        outgoing.asked = Some(started);
        if let Some(asked) = &self.upgrade {
            asked.write(&mut outgoing.fields);
        }
        self.stages.enter(RequestStage::Connect);
        let mut asked = self.route.asked(self.request, self.fields, self.client, framing);
        if !beginning.is_whole {
            asked.paced = Paced::ByClient;
        }
        let sent = match self.in_line(asked).await {
            None => return self.needs_nothing(),
            Some(Ok(reserved)) => reserved.send(outgoing).await,
            Some(Err(error)) => Err(error),
        };
        let exchange = match sent {
            Ok(exchange) => exchange,
            Err(error) => {
                self.error = error.status();
                return Step::Error;
            }
        };
        let mut upload = match self.body.take() {
            Some(body) if framing != Framing::Empty => {
                Some(carry(beginning.bytes, body, exchange.clone(), self.gateway.counters.clone()))
            }
            _ => None,
        };
        self.stages.enter(RequestStage::FirstByte);
        let mut response = match self.final_head(&exchange, &mut upload).await {
            Ok(response) => response,
            Err(step) => return step,
        };
        location::write_back(self.route, self.request, &mut response.fields);
        self.local.took(started, exchange.answered(), &response);
        self.stages.enter(RequestStage::Lookup);
        // A 304 is the client's to make sense of: the request went as it came, and nothing is kept of the answer.
        if request_headers::is_unasked(self.request, true, response.status)
            || upgrade::is_mistakable(self.request, response.status)
        {
            self.error = 502;
            return Step::Error;
        }
        self.invalidate(&response).await;
        let response_time = clock::wall();
        let exchanged = Exchanged { asked: started, answered: exchange.answered() };
        let arrived = ArrivedHead { exchange, response, request_time, response_time, exchanged, born };
        self.pass_or_keep(upload, arrived).await
    }

    /// Waits for the final head of the answer, while the request's body is carried; interim ones are passed on. An error is what to do
    /// where there is none.
    async fn final_head(
        &mut self,
        exchange: &Rc<Exchange>,
        upload: &mut Option<Upload<'c>>,
    ) -> Result<ResponseHead, Step> {
        // What changes nothing may be given up for others, once its client may be gone.
        let is_safe = method::is_safe(&self.request.method) && upload.is_none();
        loop {
            let head = async {
                match is_safe {
                    true => self.unless_gone(exchange, exchange.head()).await,
                    false => exchange.head().await,
                }
            };
            match with_upload(upload, head).await {
                Ok(Ok(response)) if response.status >= 200 => return Ok(response),
                Ok(Ok(switching)) if switching.status == 101 => {
                    return Err(self.switched(exchange, &switching));
                }
                Ok(Ok(interim)) => self.send_interim(&interim).await,
                Ok(Err(_)) if self.is_taken_back().await => return Err(self.needs_nothing()),
                Ok(Err(error)) => {
                    self.error = error.status();
                    return Err(Step::Error);
                }
                Err(why) => return Err(self.halted(why)),
            }
        }
    }

    /// The request's body did not come.
    fn halted(&mut self, why: Halted) -> Step {
        self.error = match why {
            Halted::Client(gone) => client_status(gone),
            Halted::Pressed => {
                // What is still to come would be read first.
                self.reply.iter_mut().for_each(Reply::close_after);
                503
            }
        };
        Step::Error
    }

    /// The origin has taken the connection out of HTTP, as it was asked, or says so unasked.
    fn switched(&mut self, exchange: &Rc<Exchange>, response: &ResponseHead) -> Step {
        self.local.origin_status.set(Some(101));
        match self.upgrade.as_ref().and_then(|it| Switched::of(it, exchange, response)) {
            Some(switched) => self.answer = Some(Delivery::Switched(switched)),
            None => {
                self.error = 502;
                return Step::Error;
            }
        }
        Step::Deliver
    }

    /// How the request goes on. The body of a GET means nothing that is defined (RFC 9110 §9.3.1) and is in no key: where the
    /// route uses the cache and does not say that it is meant (`cache.get_bodies`) it goes no further, so that no application is asked
    /// one thing and larder another.
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

    /// A POST whose response says for how long it holds, and for which target, is kept for GET
    /// (RFC 9110 §9.3.3); everything else is passed on.
    async fn pass_or_keep(&mut self, upload: Option<Upload<'c>>, arrived: ArrivedHead) -> Step {
        let report = self.forwarded(Some(arrived.response.status));
        if upload.is_some() {
            // The request is still on its way: what comes back is this client's alone.
            self.answer = Some(self.direct(arrived, upload, Some(report)));
            return Step::Deliver;
        }
        if request_headers::may_keep_post(&self.route.policy, self.facts, &self.request.target, self.fields) {
            self.make_key();
            if self.job(false, TierLookup::Skip, false).would_store(&arrived) {
                // Not before: the POST itself has just removed what was there.
                let store = &self.gateway.store;
                let (writer, reader) = store.begin_alone(self.hash, &self.key, store.removals(self.hash));
                tokio::task::spawn_local(Box::pin(
                    self.job(false, TierLookup::Skip, false).receive(arrived, writer),
                ));
                return match self.lead(reader).await {
                    Step::Pass => Step::Deliver,
                    next => next,
                };
            }
        }
        self.answer = Some(self.direct(arrived, None, Some(report)));
        Step::Deliver
    }

    pub fn direct(
        &self,
        arrived: ArrivedHead,
        upload: Option<Upload<'c>>,
        report: Option<CacheReport>,
    ) -> Delivery<'c> {
        let method = &self.request.method;
        Delivery::direct(arrived.exchange, arrived.response, upload, report, method)
    }

    /// RFC 9111 §4.4: an unsafe method that did not fail makes what is stored under its targets unusable; and what is
    /// of the groups that its response names (RFC 9875 §3).
    async fn invalidate(&mut self, response: &ResponseHead) {
        let request = self.request;
        let targets = invalidate::targets(
            &request.method,
            self.request.scheme.name(),
            &request.authority,
            &request.target,
            response.status,
            &response.fields.view(),
        );
        for target in targets {
            let mut key = Vec::new();
            let policy = &self.route.policy;
            fast_path::write_key(policy, request.scheme, &request.authority, &target, self.fields, &mut key);
            let hash = self.gateway.store.hash(&key);
            if self.gateway.remove(&self.route.policy, hash, &key).await {
                self.gateway.counters.cache_invalidations.add(1);
            }
        }
        let mut key = Vec::new();
        let (scheme, authority) = (request.scheme, &request.authority);
        fast_path::write_key(&self.route.policy, scheme, authority, &request.target, self.fields, &mut key);
        let mut spreading = Vec::new();
        for tag in tags::invalidated(&request.method, response.status, &response.fields.view(), &key) {
            // Who has a validator for it may find that it still holds.
            let (scope, strength) = (PurgeScope::Tag(tag.into()), Strength::Validate);
            let rule = PurgeRule { scope, strength, positions: Vec::new() };
            let seq = self.gateway.store.purge(rule.clone());
            match (self.gateway.spread.get(), &self.gateway.tiers.disk) {
                (Some(spread), _) => spreading.push(spread(rule, seq)),
                (None, Some(disk)) => self.gateway.outlives_us(disk.purged(seq, &rule)).await,
                (None, None) => {}
            }
        }
        self.gateway.reaches_others(spreading).await;
    }
}

/// Carries the request's body to the origin.
fn carry<'c>(
    first: Option<Bytes>,
    mut body: RequestBody<'c>,
    exchange: Rc<Exchange>,
    counters: Arc<Counters>,
) -> Upload<'c> {
    Box::pin(async move {
        if let Some(bytes) = first {
            exchange.write(bytes).await.map_err(|_| UploadFailed::Origin)?;
        }
        while let Some(bytes) = origin_pressure::more(&mut body, &exchange, &counters).await? {
            exchange.write(bytes).await.map_err(|_| UploadFailed::Origin)?;
        }
        let trailers = body.trailers().map(request_headers::trailers);
        exchange.write_end(trailers.as_ref()).await.map_err(|_| UploadFailed::Origin)
    })
}

/// Waits for `work` while the upload goes on beside it.
///
/// # Errors
/// The client's body did not arrive whole: the origin must not take it for complete.
pub(crate) async fn with_upload<T>(
    upload: &mut Option<Upload<'_>>,
    work: impl Future<Output = T>,
) -> Result<T, Halted> {
    let mut work = std::pin::pin!(work);
    loop {
        let Some(running) = upload.as_mut() else { return Ok(work.await) };
        let uploaded = tokio::select! {
            biased;
            done = &mut *running => done,
            out = &mut work => return Ok(out),
        };
        *upload = None;
        match uploaded {
            // The origin may stop reading and answer all the same: its head, or its silence, tells.
            Ok(()) | Err(UploadFailed::Origin) => {}
            Err(UploadFailed::Halted(why)) => return Err(why),
        }
    }
}

/// The status for a client whose body did not arrive.
fn client_status(gone: ClientGone) -> u16 {
    match gone {
        ClientGone::TimedOut => 408,
        ClientGone::TooLarge => 413,
        ClientGone::Closed | ClientGone::Malformed => 400,
    }
}
