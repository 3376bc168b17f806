//! The request handler of one worker: every request of every client connection arrives here, is routed, answered at one
//! of the two speeds, and reported to the observers.

use crate::local_redirect::{self, Redirected, RequestHop};
use larder_config::Clients;
use larder_gateway::stages::{RequestObservation, Stages};
use larder_gateway::{Gateway, GatewayEnd, LocalRedirect, client_cert, request_id};
use larder_observe::log::ResponseEnd;
use larder_observe::{Finished, Observer, RequestOutcome, Timed};
use larder_semantics::field::{self, Field};
use larder_semantics::request_view::{REQUEST_ID, RequestView};
use larder_semantics::secret::shown_target;
use larder_server::access::Admitted;
use larder_server::admission::{self, Admission, AdmissionContext, AdmissionDecision, RoutedRequest};
use larder_server::finish::RouteFinish;
use larder_server::overlay::Overlays;
use larder_server::purge::{PurgeQueue, method};
use larder_server::router::{FoundRoute, NoRoute, RouteTarget, Router, RoutesWithoutFile};
use larder_stdx::clock;
use larder_transport::finish::ResponseFinish;
use larder_transport::{
    AnswerNow, Client, Handler, MissingPreamble, Reply, RequestBody, ResponseWriter, Synthetic,
};
use larder_wire::message::{Reject, Request, RequestHead};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Answers the requests of one worker.
pub struct RequestHandler {
    /// The caching gateway.
    pub gateway: Rc<Gateway>,
    /// Replaced as a whole on reload; requests in progress keep theirs.
    pub router: RefCell<Rc<Router>>,
    /// The trusted proxies. Replaced with the router.
    pub clients: RefCell<Rc<Clients>>,
    /// The observers of finished requests.
    pub observer: Observer,
    /// The queue of purges.
    pub purges: PurgeQueue,
    /// The overlays.
    pub overlays: Arc<Overlays>,
    /// Whether the process finishes its requests before its end.
    pub is_draining: Cell<bool>,
}

impl Handler for RequestHandler {
    fn answer_now(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> AnswerNow {
        let forwarded;
        let head = match self.clients.borrow().scheme(client, head.fields) {
            None => head,
            Some(scheme) => {
                forwarded = RequestHead { scheme, ..*head };
                &forwarded
            }
        };
        let scopes = &self.observer.scopes;
        let timed = scopes.begin();
        let router = self.router.borrow();
        let geo = router.geo();
        let view = || admission::view(head, &self.seen(client, || head.fields), &client.listener, geo);
        let mut found = router.find_for(head.method, head.authority, head.target, view);
        // A route that falls through and may have a file answers at this speed only with that file.
        while let Some(passed) = found.and_then(|it| without_file_now(&it, head.target)) {
            found = router.find_without(passed, head.method, head.authority, head.target, view);
        }
        let may_hit = matches!(found.map(|it| it.target), Some(RouteTarget::Proxy(_)));
        let started = self.observer.times_fast(may_hit).then(clock::precise_micros);
        let id = router.identifies(found, head.authority).then(|| self.identifier(head, client));
        let named = id.as_deref().map(|id| request_id::named(head.fields, id));
        let named = named.as_deref().map(|fields| RequestHead { fields, ..*head });
        let head = named.as_ref().unwrap_or(head);
        // The identifier is the last field.
        let hidden = usize::from(named.is_some() && found.is_some_and(|it| hides_identifier(it.target)));
        let routed = self.routed(&router, found, head, view);
        // The output of the fast path has the limits of the worker.
        if routed.limits().is_some_and(|it| it.transfer.is_some()) {
            return AnswerNow::Later;
        }
        let stages = stages(routed.is_timed(), client);
        let finish = routed.finish(head.authority);
        if let Some(finish) = finish {
            let seen = || self.seen(client, || head.fields);
            answer.finish_with(finish_of(finish, Some(head.target), &routed, head, seen));
        }
        let outcome = match self.admit(&routed, head, || self.seen(client, || head.fields)) {
            Admission::Continue => {
                if let Some(finish) = finish.filter(|it| it.names_user()) {
                    answer.finish_with(finish_of(finish, Some(head.target), &routed, head, || {
                        self.seen(client, || head.fields)
                    }));
                }
                self.serve_admitted_now(&routed, head, hidden, client, answer)
            }
            Admission::Answer(_) if found.is_some_and(|it| it.falling().is_some()) => None,
            Admission::Answer(page) => {
                let sent = page.write_now(head.method, answer);
                sent.map(|body| RequestOutcome::whole(page.status, body, None))
            }
            Admission::Ask(_) => None,
        };
        let Some(outcome) = outcome else {
            routed.undo();
            return AnswerNow::Later;
        };
        let admitted = routed.admitted.borrow();
        let target = admitted.target(head.target);
        self.count_heaviest(&RequestHead { target, ..*head }, client, outcome.body, timed);
        scopes.fast(routed.scope(), &outcome, timed);
        self.count(&routed);
        let weight = if scopes.is_on() { self.observer.recorder.takes_fast() } else { None };
        let micros = started.map(|it| clock::precise_micros().saturating_sub(it));
        let is_heard = routed.is_timed() || self.observer.is_reported_fast(&outcome, micros);
        if is_heard || weight.is_some() {
            let client = &self.seen(client, || head.fields);
            let head = &RequestHead { target, ..*head };
            let finished = finished(head, client, &routed, &admitted, &outcome, micros, &stages);
            weight.iter().for_each(|it| self.observer.recorder.record(&finished, *it));
            if is_heard {
                self.observer.finished(&finished);
            }
        }
        AnswerNow::Answered
    }

    fn answer_early(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> AnswerNow {
        let router = self.router.borrow();
        let geo = router.geo();
        let view = || admission::view(head, &self.seen(client, || head.fields), &client.listener, geo);
        let found = router.find_for(head.method, head.authority, head.target, view);
        // It is the route of `answer_now`, too.
        match found.is_some_and(|it| admission::is_plain(it) && it.falling().is_none()) {
            true => self.answer_now(head, client, answer),
            false => AnswerNow::Later,
        }
    }

    async fn answer<'c>(
        &'c self,
        mut request: Rc<Request>,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) {
        let forwarded = {
            let clients = self.clients.borrow();
            clients.trusts(client).then(|| clients.scheme(client, &request.fields.view())).flatten()
        };
        if let Some(scheme) = forwarded.filter(|it| *it != request.scheme) {
            Rc::make_mut(&mut request).scheme = scheme;
        }
        let seen = self.seen(client, || request.fields.view());
        let mut hop = RequestHop { request, body: Some(body), reply, redirected: None };
        while let Some(next) = self.answer_hop(hop, &seen).await {
            hop = next;
        }
    }

    fn rejected(&self, reject: Reject, client: &Client, body: u64) {
        self.observer.rejected(reject, client, body);
    }

    fn proxy_header_missing(&self, why: MissingPreamble, peer: Option<SocketAddr>) {
        self.observer.proxy_header_missing(why, peer);
    }
}

impl RequestHandler {
    /// Answers a request, or returns the one to the target of its redirect within this server.
    async fn answer_hop<'c>(&'c self, hop: RequestHop<'c>, client: &'c Client) -> Option<RequestHop<'c>> {
        let RequestHop { mut request, mut body, mut reply, redirected } = hop;
        let router = self.router.borrow().clone();
        let geo = router.geo();
        let mut found = find(&router, RoutesWithoutFile::default(), &request, client);
        if found.is_some_and(|it| it.falling().is_some()) {
            found = Box::pin(find_beyond_files(&router, found, &request, client)).await;
        }
        let sent = found.filter(|it| may_redirect(it.target)).map(|_| request.clone());
        found.iter().for_each(|it| add_certificate(it.target, &mut request, client));
        let was_identified = redirected.as_ref().is_some_and(|it| it.is_identified);
        let is_identified = was_identified || router.identifies(found, &request.authority);
        if is_identified && !was_identified {
            request_id::identify(&mut request, self.clients.borrow().trusts(client));
        }
        let kept = request.clone();
        if is_identified && found.is_some_and(|it| hides_identifier(it.target)) {
            Rc::make_mut(&mut request).fields.remove(REQUEST_ID);
        }
        let fields = kept.fields.view();
        let head = &kept.head(&fields);
        let routed =
            self.routed(&router, found, head, || admission::view(head, client, &client.listener, geo));
        self.count(&routed);
        if let (Some(limits), Some(body)) = (routed.limits(), &mut body) {
            body.limit(limits);
        }
        let reports_time = routed.target().is_some_and(RouteTarget::reports_time);
        let stages = &stages(routed.is_timed() || reports_time, client);
        let is_measured =
            routed.is_timed() || self.observer.is_reported_slow() || self.observer.scopes.is_on();
        let before = redirected.as_ref().map(|it| it.started);
        let started = before.unwrap_or_else(|| is_measured.then(clock::precise_micros));
        if let Some(span) = &routed.span {
            // The parent of the origin's span is this request.
            Rc::make_mut(&mut request).fields.set("traceparent", span.traceparent());
        }
        let weight = self.weight(redirected.as_ref());
        let end = match self.admit_slowly(&routed, head, client, redirected.as_ref(), &mut reply).await {
            Some(page) => RequestEnd::Done(RequestOutcome::sent(page.send(reply).await)),
            None => {
                routed.change(&mut request);
                let observed = RequestObservation { stages, is_recorded: weight.is_some() };
                self.serve(&routed, request, client, body, reply, observed).await
            }
        };
        match (end, sent) {
            (RequestEnd::LocalRedirect(redirect), Some(sent)) => {
                let id = is_identified.then(|| field::first(head.fields, REQUEST_ID)).flatten();
                let next = local_redirect::request_for(&sent, redirect.target, id);
                let so_far = redirected.unwrap_or_else(|| Redirected::begin(&kept, &routed, started, weight));
                let redirected = Some(so_far.and(&routed, is_identified));
                Some(RequestHop { request: Rc::new(next), body: None, reply: redirect.reply, redirected })
            }
            (RequestEnd::LocalRedirect(_), None) => None,
            (RequestEnd::Done(outcome), _) => {
                let asked = redirected.as_ref().map(|it| &it.asked);
                self.report(HopReport {
                    client,
                    routed: &routed,
                    head,
                    asked,
                    outcome,
                    started,
                    stages,
                    weight,
                });
                None
            }
        }
    }

    /// The number of requests that a request stands for if it is recorded. This is decided before its response, since the hash of a
    /// body takes time.
    fn weight(&self, redirected: Option<&Redirected>) -> Option<u32> {
        match redirected {
            Some(it) => it.weight,
            None if self.observer.scopes.is_on() => self.observer.recorder.takes_slow(),
            None => None,
        }
    }

    /// Admits a request, and gives its response the finish of its route. The response of larder's own, or `None` where the request
    /// proceeds.
    async fn admit_slowly<'c>(
        &self,
        routed: &RoutedRequest<'_>,
        head: &RequestHead<'_>,
        client: &Client,
        redirected: Option<&Redirected>,
        reply: &mut Reply<'c>,
    ) -> Option<Synthetic> {
        // A local redirect comes from another path, whose conditions took part in the choice.
        let target = redirected.is_none().then_some(head.target);
        match (routed.finish(head.authority), redirected) {
            (Some(it), _) => reply.finish_with(finish_of(it, target, routed, head, || Cow::Borrowed(client))),
            // It had that of the route before.
            (None, Some(_)) => reply.finish_with(Rc::default()),
            (None, None) => {}
        }
        let page = match redirected.and_then(Redirected::too_often) {
            Some(page) => Some(page),
            None => match self.admit(routed, head, || Cow::Borrowed(client)) {
                Admission::Continue => None,
                Admission::Answer(page) => Some(page.into_owned()),
                Admission::Ask(decision) => unless_gone(decision, reply).await,
            },
        };
        if let Some(finish) = routed.finish(head.authority).filter(|it| it.names_user()) {
            reply.finish_with(finish_of(finish, target, routed, head, || Cow::Borrowed(client)));
        }
        let earlier = redirected.map_or(&[][..], |it| &it.cookies);
        if let Some(finish) = routed.cookies(earlier, reply.finisher()) {
            reply.finish_with(finish);
        }
        page
    }

    /// Reports a request that has ended.
    fn report(&self, it: HopReport<'_>) {
        let HopReport { client, routed, head, asked, outcome, started, stages, weight } = it;
        let micros = started.map(|it| clock::precise_micros().saturating_sub(it));
        let admitted = routed.admitted.borrow();
        let request_id =
            field::first(head.fields, REQUEST_ID).filter(|_| routed.is_identified(head.authority));
        let fields;
        let head = &match asked {
            Some(asked) => {
                fields = asked.fields.view();
                asked.head(&fields)
            }
            None => RequestHead { target: admitted.target(head.target), ..*head },
        };
        let scopes = &self.observer.scopes;
        if let Some(micros) = micros.filter(|_| scopes.is_on()) {
            self.observer.top.slow(head.scheme, head.authority, head.target, &outcome);
            if let Some(peer) = client.peer {
                self.observer.top.slow_of_client(peer.ip(), &outcome);
            }
            scopes.slow(routed.scope(), &outcome, micros);
            scopes.reason(routed.scope(), &outcome, (head.method, head.target, head.fields), || {
                format!("{}://{}{}", head.scheme.name(), head.authority, shown_target(head.target))
            });
        }
        let is_worst = self.observer.is_worst(&outcome, micros);
        let is_heard = is_worst || routed.is_timed() || self.observer.is_reported_slow();
        if is_heard || weight.is_some() {
            let finished = finished(head, client, routed, &admitted, &outcome, micros, stages);
            weight.iter().for_each(|it| self.observer.recorder.record(&finished, *it));
            if is_heard {
                self.observer.finished(&Finished { request_id, is_worst, ..finished });
            }
        }
    }

    /// The first step of both paths: adds the overlay and the measurements to the route `found`.
    #[inline]
    fn routed<'a, 'v>(
        &self,
        router: &'a Router,
        found: Option<FoundRoute<'a>>,
        head: &RequestHead<'_>,
        view: impl FnOnce() -> RequestView<'v>,
    ) -> RoutedRequest<'a> {
        let tracer = &self.observer.tracer;
        RoutedRequest {
            router,
            found,
            purged: method::route(router, head.method, view),
            overlay: self.overlays.over(head.method, head.scheme.without_port(head.authority), head.target),
            traced: found.is_some_and(|it| tracer.is_due(it.at)),
            span: tracer.spans.due(head.fields),
            admitted: RefCell::default(),
        }
    }

    /// Counts a request once for the sampling of traces.
    #[inline]
    fn count(&self, routed: &RoutedRequest<'_>) {
        if let Some(at) = routed.at() {
            self.observer.tracer.count(at);
        }
        self.observer.tracer.spans.count();
    }

    #[inline]
    fn admit<'a>(
        &'a self,
        routed: &'a RoutedRequest<'a>,
        head: &'a RequestHead<'a>,
        client: impl FnOnce() -> Cow<'a, Client>,
    ) -> Admission<'a> {
        let counters = &*self.gateway.counters;
        let is_draining = self.is_draining.get();
        let gateway = &*self.gateway;
        let context = AdmissionContext { purges: &self.purges, counters, gateway, is_draining };
        admission::admit(context, routed, head, client)
    }

    /// The same as [`Self::serve_now`], with the changes that admission made to the request, and without its last `hidden` fields.
    #[inline]
    fn serve_admitted_now(
        &self,
        routed: &RoutedRequest<'_>,
        head: &RequestHead<'_>,
        hidden: usize,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<RequestOutcome> {
        let admitted = routed.admitted.borrow();
        if !admitted.changes() && hidden == 0 {
            return self.serve_now(routed, head, client, answer);
        }
        let fields = &head.fields[..head.fields.len() - hidden];
        admitted.with_changed(&RequestHead { fields, ..*head }, |head| {
            self.serve_now(routed, head, client, answer)
        })
    }

    /// Answers an admitted request on the fast path, or declines.
    #[inline]
    fn serve_now(
        &self,
        routed: &RoutedRequest<'_>,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<RequestOutcome> {
        match (&routed.overlay, routed.target()) {
            (Some(overlay), _) => overlay.answer_now(head, &self.gateway.counters, answer),
            (None, Some(RouteTarget::Proxy(route))) => {
                let hit = self.gateway.answer_now(route, head, client, answer);
                hit.map(|it| RequestOutcome::whole(it.status, it.body, Some(it.report)))
            }
            (None, Some(RouteTarget::Files(files))) => {
                let sent = files.answer_now(head, answer);
                sent.map(|(status, body)| RequestOutcome::whole(status, body, None))
            }
            (None, Some(RouteTarget::Own(_)) | None) => None,
        }
    }

    /// Answers an admitted request.
    async fn serve<'c>(
        &'c self,
        routed: &RoutedRequest<'_>,
        request: Rc<Request>,
        client: &'c Client,
        body: Option<RequestBody<'c>>,
        reply: Reply<'c>,
        observed: RequestObservation<'_>,
    ) -> RequestEnd<'c> {
        RequestEnd::Done(match (&routed.overlay, routed.target()) {
            (Some(overlay), _) => overlay.answer(&request, &self.gateway.counters, reply).await,
            (None, Some(RouteTarget::Proxy(route))) => {
                let summary = match self.gateway.run(route, request, client, body, reply, observed).await {
                    GatewayEnd::Done(summary) => summary,
                    GatewayEnd::LocalRedirect(it) => return RequestEnd::LocalRedirect(it),
                };
                RequestOutcome {
                    status: summary.status,
                    body: summary.body,
                    report: summary.report,
                    end: match (summary.complete, summary.is_broken) {
                        (true, _) => ResponseEnd::Whole,
                        (false, true) => ResponseEnd::Broken,
                        (false, false) => ResponseEnd::Cut,
                    },
                    origin: summary.origin,
                    reason: summary.reason,
                    failure: summary.failure,
                }
            }
            (None, Some(RouteTarget::Files(files))) => files.answer(&request, reply, observed.stages).await,
            (None, Some(RouteTarget::Own(_)) | None) => {
                RequestOutcome::sent(NoRoute::Nothing.page().send(reply).await)
            }
        })
    }

    /// The identifier of a request, from a trusted proxy or a new one.
    fn identifier(&self, head: &RequestHead<'_>, client: &Client) -> String {
        request_id::of(head.fields, self.clients.borrow().trusts(client))
    }

    /// Counts a fast answer of `body` bytes for its URL; and for its client if it is of the sample that is timed, since the address may
    /// have to be read from a field.
    fn count_heaviest(&self, head: &RequestHead<'_>, client: &Client, body: u64, timed: Option<Timed>) {
        let Observer { top, scopes, .. } = &self.observer;
        if scopes.is_on() {
            top.fast(head.scheme, head.authority, head.target, body);
        }
        if let Some(Timed { weight, .. }) = timed
            && let Some(peer) = self.seen(client, || head.fields).peer
        {
            top.fast_of_client(peer.ip(), body, weight);
        }
    }

    /// The client of a request: from the fields of a trusted proxy, otherwise the peer.
    fn seen<'a, 'f, F: AsRef<[Field<'f>]>>(
        &self,
        client: &'a Client,
        fields: impl FnOnce() -> F,
    ) -> Cow<'a, Client> {
        let clients = self.clients.borrow();
        match clients.trusted.is_empty() {
            true => Cow::Borrowed(client),
            false => clients.seen(client, fields().as_ref()),
        }
    }
}

/// How the service of a route has answered a request.
enum RequestEnd<'c> {
    Done(RequestOutcome),
    LocalRedirect(LocalRedirect<'c>),
}

/// A request that has ended.
struct HopReport<'a> {
    client: &'a Client,
    routed: &'a RoutedRequest<'a>,
    head: &'a RequestHead<'a>,
    /// The request of the client, where this is the target of a redirect.
    asked: Option<&'a Request>,
    outcome: RequestOutcome,
    started: Option<u64>,
    stages: &'a Stages,
    /// The number of requests that it stands for if it is recorded.
    weight: Option<u32>,
}

/// The route of a request for which the routes `without` have no file.
fn find<'r>(
    router: &'r Router,
    without: RoutesWithoutFile,
    request: &Request,
    client: &Client,
) -> Option<FoundRoute<'r>> {
    let mut room = Vec::new();
    let fields = &mut room;
    router.find_without(without, &request.method, &request.authority, &request.target, move || {
        *fields = request.fields.view();
        admission::view(&request.head(fields), client, &client.listener, router.geo())
    })
}

/// The route of a request, from `found` on: the first that has a file for it, or is not only one for paths with a file.
async fn find_beyond_files<'r>(
    router: &'r Router,
    mut found: Option<FoundRoute<'r>>,
    request: &Request,
    client: &Client,
) -> Option<FoundRoute<'r>> {
    while let Some((it, files)) = found.and_then(|it| Some((it, it.falling()?))) {
        if files.has_file(&request.target, &request.fields.view()).await {
            break;
        }
        found = find(router, it.passed(), request, client);
    }
    found
}

/// The routes without a file for `target`, if `found` is one and that is known without a look on the disk.
#[inline]
fn without_file_now(found: &FoundRoute<'_>, target: &str) -> Option<RoutesWithoutFile> {
    let files = found.falling()?;
    files.is_absent_now(target).then(|| found.passed())
}

/// Waits for a decision of admission, unless the client has cancelled its request or, over HTTP/1, closed its side while other
/// requests wait for a permit.
async fn unless_gone(decision: AdmissionDecision<'_>, reply: &Reply<'_>) -> Option<Synthetic> {
    let is_needless = async {
        larder_origin::queued().await;
        reply.gone().await;
    };
    tokio::select! {
        biased;
        decided = decision => decided,
        () = reply.cancelled() => Some(Synthetic::empty(503)),
        () = is_needless => Some(Synthetic::empty(503)),
    }
}

/// The finish of the response to a request; without a `target` its `Vary` is that of every path.
#[inline]
fn finish_of<'a>(
    finish: &RouteFinish,
    target: Option<&str>,
    routed: &RoutedRequest<'_>,
    head: &RequestHead<'_>,
    client: impl FnOnce() -> Cow<'a, Client>,
) -> Rc<ResponseFinish> {
    finish.of(head.scheme, target, |made| {
        admission::with_view(head, &client(), routed.found.map(|it| it.route), routed.router.geo(), |view| {
            made(&RequestView { user: routed.admitted.borrow().remote_user(), ..*view });
        });
    })
}

/// Measures the times of a request, if wanted.
#[inline]
fn stages(is_timed: bool, client: &Client) -> Stages {
    if is_timed { Stages::begin(client.began.get()) } else { Stages::off() }
}

/// The report of a request to the observer.
fn finished<'a>(
    head: &RequestHead<'a>,
    client: &'a Client,
    routed: &RoutedRequest<'a>,
    admitted: &'a Admitted,
    outcome: &'a RequestOutcome,
    micros: Option<u64>,
    stages: &'a Stages,
) -> Finished<'a> {
    Finished {
        client,
        method: head.method,
        protocol: head.protocol,
        target: head.target,
        scheme: head.scheme,
        version: head.version,
        authority: head.authority,
        route: routed.route_name(),
        site: routed.site_name(),
        at: routed.at(),
        fields: head.fields,
        micros,
        outcome,
        spent: stages.reading(),
        stages: Some(stages),
        traced: routed.traced,
        is_worst: false,
        span: routed.span,
        user: admitted.user(),
        request_id: field::first(head.fields, REQUEST_ID).filter(|_| routed.is_identified(head.authority)),
        refused: None,
    }
}

/// Whether the service of a route gets no identifier: with `cache.key.strict`, every field that the key lacks would let the request
/// bypass the cache.
fn hides_identifier(target: &RouteTarget) -> bool {
    matches!(target, RouteTarget::Proxy(route) if route.policy.key.strict)
}

/// Whether the service of a route may name another target in place of a response.
fn may_redirect(target: &RouteTarget) -> bool {
    matches!(target, RouteTarget::Proxy(route) if route.origins.runs_programs())
}

/// Adds the client's certificate to the request, if its route's origins get it: before the request is evaluated.
fn add_certificate(target: &RouteTarget, request: &mut Rc<Request>, client: &Client) {
    if let RouteTarget::Proxy(route) = target
        && route.sends_certificate
    {
        client_cert::add_fields(&mut Rc::make_mut(request).fields, client);
    }
}
