//! The public face of one worker: every request of every client connection comes here, is routed, answered at
//! one of the two speeds, and told to whoever hears of it.

use super::overlay::{Overlay, Overlays};
use super::purge::{PurgeQueue, method};
use super::router::{RouteTarget, Router};
use larder_config::Clients;
use larder_gateway::explain::{self, NOT_PASSED};
use larder_gateway::stages::Stages;
use larder_gateway::{Gateway, certificate};
use larder_observe::log::ResponseEnd;
use larder_observe::{Finished, Observer, RequestOutcome};
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::ResponseWriter;
use larder_transport::body::BodyPiece;
use larder_transport::{AnswerNow, Client, Handler, MissingPreamble, Reply, RequestBody, ResponseBody};
use larder_wire::message::{Reject, Request, RequestHead};
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Answers the requests of one worker.
pub struct RequestHandler {
    /// The caching gateway.
    pub gateway: Rc<Gateway>,
    /// Replaced as a whole on reload; requests under way keep theirs.
    pub router: RefCell<Rc<Router>>,
    /// Who is believed to say who asks. Replaced with it.
    pub clients: RefCell<Rc<Clients>>,
    /// Who is told of every finished request.
    pub observer: Observer,
    /// Where purges are brought.
    pub purges: PurgeQueue,
    /// What lies over everything.
    pub overlays: Arc<Overlays>,
}

impl Handler for RequestHandler {
    fn answer_now(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> AnswerNow {
        let scopes = &self.observer.scopes;
        let timed = scopes.begin();
        let started = self.observer.times_fast().then(clock::precise_micros);
        let router = self.router.borrow();
        let found = router.find(head.method, head.authority, head.target);
        let overlay = self.overlays.over(head.method, head.scheme.without_port(head.authority), head.target);
        let tracer = &self.observer.tracer;
        let at = found.map(|it| (it.1, it.2));
        let traced = at.is_some_and(|it| tracer.is_due(it));
        let span = tracer.spans.due(head.fields);
        let is_timed = traced || span.is_some();
        let stages = if is_timed { Stages::begin(client.began.get()) } else { Stages::off() };
        let outcome = match (&overlay, found) {
            (Some(overlay), _) => overlay.answer_now(head, &self.gateway.counters, answer),
            (None, Some((RouteTarget::Proxy(route), ..))) => {
                let hit = self.gateway.answer_now(route, head, client, answer);
                hit.map(|it| RequestOutcome::whole(it.status, it.body, Some(it.report)))
            }
            (None, Some((RouteTarget::Files(files), ..))) => {
                let sent = files.answer_now(head, answer);
                sent.map(|(status, body)| RequestOutcome::whole(status, body, None))
            }
            (None, None) => None,
        };
        let Some(outcome) = outcome else { return AnswerNow::Later };
        if scopes.is_on() {
            self.observer.top.fast(head.scheme, head.authority, head.target, outcome.body);
        }
        scopes.fast(at.and_then(|it| router.scope(it)).map(|it| &**it), &outcome, timed);
        if let Some(at) = at {
            tracer.count(at);
        }
        tracer.spans.count();
        if is_timed || self.observer.hears_fast() {
            self.observer.finished(&Finished {
                client: &self.clients.borrow().seen(client, head.fields),
                method: head.method,
                protocol: head.protocol,
                target: head.target,
                version: head.version,
                authority: head.authority,
                route: found.map_or("", |it| it.0.name()),
                site: found.map_or("", |it| router.site_name(it.1)),
                at,
                fields: head.fields,
                micros: started.map(|it| clock::precise_micros().saturating_sub(it)),
                outcome: &outcome,
                spent: stages.reading(),
                traced,
                span,
                refused: None,
            });
        }
        AnswerNow::Answered
    }

    async fn answer<'c>(
        &'c self,
        mut request: Rc<Request>,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) {
        let seen = self.seen(client, &request);
        let client = &*seen;
        let router = self.router.borrow().clone();
        let found = router.find(&request.method, &request.authority, &request.target);
        let at = found.map(|it| (it.1, it.2));
        found.iter().for_each(|it| tell_certificate(it.0, &mut request, client));
        let traced = at.is_some_and(|it| self.observer.tracer.takes(it));
        let span = self.observer.tracer.spans.due_in(&request.fields);
        self.observer.tracer.spans.count();
        let is_timed = traced || span.is_some();
        let stages = match found {
            _ if is_timed => Stages::begin(client.began.get()),
            Some((target, ..)) if target.tells_time() => Stages::begin(client.began.get()),
            _ => Stages::off(),
        };
        let is_told = is_timed || self.observer.hears_slow();
        let scopes = &self.observer.scopes;
        let started = (is_told || scopes.is_on()).then(clock::precise_micros);
        let told = is_told.then(|| request.clone());
        if let Some(span) = &span {
            // The origin's parent is this request.
            Rc::make_mut(&mut request).fields.set("traceparent", span.traceparent());
        }
        let counted = scopes.is_on().then(|| request.clone());
        let found = found.map(|it| it.0);
        let purged = method::route(&router, &request);
        let name = purged.map(|it| &it.target).or(found).map_or("", RouteTarget::name);
        let host = request.scheme.without_port(&request.authority);
        let overlay = self.overlays.over(&request.method, host, &request.target);
        let outcome = match (&overlay, purged, found) {
            _ if misleads(&request, overlay.as_deref(), found) => {
                own_page(501, NOT_PASSED, &request, reply).await
            }
            (Some(overlay), ..) => overlay.answer(&request, &self.gateway.counters, reply).await,
            (None, Some(matched), _) => method::answer(self, matched, &request, client, reply).await,
            (None, None, Some(RouteTarget::Proxy(route))) => {
                let summary = self.gateway.run(route, request, client, body, reply, &stages).await;
                RequestOutcome {
                    status: summary.status,
                    body: summary.body,
                    report: summary.report,
                    end: if summary.complete { ResponseEnd::Whole } else { ResponseEnd::Cut },
                    origin: summary.origin,
                }
            }
            (None, None, Some(RouteTarget::Files(files))) => files.answer(&request, reply, &stages).await,
            (None, None, None) => own_page(404, NO_ROUTE, &request, reply).await,
        };
        let micros = started.map(|it| clock::precise_micros().saturating_sub(it));
        let top = &self.observer.top;
        counted.iter().for_each(|it| top.slow(it.scheme, &it.authority, &it.target, &outcome));
        if let Some(micros) = micros {
            scopes.slow(at.and_then(|it| router.scope(it)).map(|it| &**it), &outcome, micros);
        }
        if let Some(request) = told {
            self.observer.finished(&Finished {
                client,
                method: &request.method,
                protocol: request.protocol.as_deref(),
                target: &request.target,
                version: request.version,
                authority: &request.authority,
                route: name,
                site: at.map_or("", |it| router.site_name(it.0)),
                at,
                fields: &request.fields.view(),
                micros,
                outcome: &outcome,
                spent: stages.reading(),
                traced,
                span,
                refused: None,
            });
        }
    }

    fn rejected(&self, reject: Reject, client: &Client, body: u64) {
        self.observer.rejected(reject, client, body);
    }

    fn unintroduced(&self, why: MissingPreamble, peer: Option<SocketAddr>) {
        self.observer.unintroduced(why, peer);
    }
}

impl RequestHandler {
    /// Whose request it is: another's than the peer's where that is a proxy which is believed.
    fn seen<'a>(&self, client: &'a Client, request: &Request) -> Cow<'a, Client> {
        let clients = self.clients.borrow();
        match clients.trusted.is_empty() {
            true => Cow::Borrowed(client),
            false => clients.seen(client, &request.fields.view()),
        }
    }
}

/// Has the request say which certificate its client showed, where its route's origins are told: before anything is kept or decided of it.
fn tell_certificate(target: &RouteTarget, request: &mut Rc<Request>, client: &Client) {
    if let RouteTarget::Proxy(route) = target
        && route.tells_certificate
    {
        certificate::tell(&mut Rc::make_mut(request).fields, client);
    }
}

const NO_ROUTE: &str = "No route matches this host and path.";

/// Whether the answer would be a success to a request for another protocol (RFC 8441), which its client would take for the
/// beginning of that.
fn misleads(request: &Request, overlay: Option<&Overlay>, found: Option<&RouteTarget>) -> bool {
    request.protocol.is_some()
        && overlay.map_or(matches!(found, Some(RouteTarget::Files(_))), Overlay::is_success)
}

/// A request that no route answers for, or none of which can answer.
async fn own_page(status: u16, sentence: &str, request: &Request, mut reply: Reply<'_>) -> RequestOutcome {
    let text = explain::error_page(status, sentence);
    let mut fields = FieldList::new();
    fields.push("Date", larder_semantics::date::format(clock::wall()));
    fields.push("Content-Type", "text/plain; charset=utf-8");
    let body = ResponseBody::Length(text.len() as u64);
    let sent = reply.head(status, &fields, body).await.is_ok()
        && (request.method == "HEAD" || reply.piece(BodyPiece::Bytes(text.into())).await.is_ok());
    let bytes = reply.body_bytes();
    let end = if sent && reply.finish(None).await.is_ok() { ResponseEnd::Whole } else { ResponseEnd::Cut };
    RequestOutcome { status, body: bytes, report: None, end, origin: None }
}
