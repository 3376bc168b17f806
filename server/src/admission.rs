//! Admission: the one step before the cache, on both paths. A request proceeds to its route, gets a response of larder's
//! own, or has to wait for the decision. Hits are admitted as misses are.

use crate::access::{self, AccessRules, Admitted, Unverified, Verdict, VerifyContext};
use crate::finish::RouteFinish;
use crate::overlay::Overlay;
use crate::own_answer::{self, AdmissionRule, OwnResponse};
use crate::purge::{PurgeQueue, method};
use crate::route_admission::RouteAdmission;
use crate::router::{FoundRoute, Matched, RouteTarget, Router};
use crate::site_tls::SiteTls;
use larder_counters::{Counters, RouteScope};
use larder_gateway::Gateway;
use larder_gateway::explain::NOT_PASSED;
use larder_observe::telemetry::Context;
use larder_semantics::field;
use larder_semantics::geo::GeoLookup;
use larder_semantics::request_view::{self, REQUEST_ID, RequestView, path_of};
use larder_transport::finish::ResponseFinish;
use larder_transport::worker::RequestLimits;
use larder_transport::{Client, Synthetic};
use larder_wire::message::{Request, RequestHead};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// The decision of admission about a request.
pub enum Admission<'a> {
    /// It proceeds: to its overlay, its gateway or its files.
    Continue,
    /// It gets this response.
    Answer(OwnResponse<'a>),
    /// This decides. The fast path declines the request, and the machine asks again.
    Ask(AdmissionDecision<'a>),
}

/// A decision that takes time: the response, or `None` where the request proceeds.
pub type AdmissionDecision<'a> = Pin<Box<dyn Future<Output = Option<Synthetic>> + 'a>>;

/// A routed request, with the facts that both paths need first.
pub struct RoutedRequest<'a> {
    /// The routes in force when it arrived.
    pub router: &'a Router,
    /// Its route.
    pub found: Option<FoundRoute<'a>>,
    /// The route that decides about it, where it is a `PURGE` for larder.
    pub purged: Option<&'a Matched>,
    /// The overlay of its target.
    pub overlay: Option<Arc<Overlay>>,
    /// Whether it is kept as a trace.
    pub traced: bool,
    /// Its OpenTelemetry context, if it becomes a span.
    pub span: Option<Context>,
    /// The findings of its admission.
    pub admitted: RefCell<Admitted>,
}

impl<'a> RoutedRequest<'a> {
    /// The access rules that it is subject to.
    #[inline]
    pub fn access(&self) -> Option<&'a Arc<AccessRules>> {
        self.admission().and_then(|it| it.access.as_ref())
    }

    /// The admission of the route that decides about it.
    #[inline]
    fn admission(&self) -> Option<&'a RouteAdmission> {
        let purging = self.purged.and_then(|it| it.admission.as_deref());
        purging.or(self.found.and_then(|it| it.admission))
    }

    /// The finish of its response with the `Set-Cookie` lines of its credentials, and `earlier` ones; `None` without such lines.
    pub fn cookies(
        &self,
        earlier: &[Vec<u8>],
        finish: Option<&Rc<ResponseFinish>>,
    ) -> Option<Rc<ResponseFinish>> {
        let admitted = self.admitted.borrow();
        let lines = admitted.cookies();
        let finish = || finish.map(|it| (**it).clone()).unwrap_or_default();
        let has_some = !lines.is_empty() || !earlier.is_empty();
        has_some.then(|| Rc::new(finish().with_cookies(earlier).with_cookies(lines)))
    }

    /// Gives the request the fields and the target with which it proceeds on the slow path.
    pub fn change(&self, request: &mut Rc<Request>) {
        let admitted = self.admitted.borrow();
        if admitted.changes() {
            admitted.change(Rc::make_mut(request));
        }
    }

    /// Undoes its admission: it will be admitted again on the slow path.
    #[inline]
    pub fn undo(&self) {
        if let Some(rules) = self.access() {
            rules.undo(self.admitted.take());
        }
    }

    /// The question for its answer of larder's own.
    fn question(&self) -> OwnAnswerRequest<'a> {
        let purges = self.purged.is_some();
        OwnAnswerRequest { router: self.router, found: self.found, purges, is_own: false }
    }

    /// The positions of its site and route in the configuration.
    #[inline]
    pub fn at(&self) -> Option<(usize, usize)> {
        self.found.map(|it| it.at)
    }

    /// The counters of its route, if any.
    #[inline]
    pub fn scope(&self) -> Option<&'a RouteScope> {
        self.found.and_then(|it| it.scope).map(|it| &**it)
    }

    /// The target of its route.
    #[inline]
    pub fn target(&self) -> Option<&'a RouteTarget> {
        self.found.map(|it| it.target)
    }

    /// The finish of its response: of its route, or of the site of `authority`.
    #[inline]
    pub fn finish(&self, authority: &str) -> Option<&'a RouteFinish> {
        match self.found {
            Some(it) => it.route.finish.as_deref(),
            None => self.router.finish_without_route(authority),
        }
    }

    /// The TLS rules of its site, if some site has rules of its own.
    fn site_tls(&self, authority: &str) -> Option<&'a SiteTls> {
        let purging = self.purged.and_then(|it| it.admission.as_deref());
        match purging.or(self.found.and_then(|it| it.admission)) {
            Some(admission) => admission.tls.as_deref(),
            None if self.found.is_none() => self.router.tls(authority),
            None => None,
        }
    }

    /// Whether it has an identifier, the last of its fields.
    #[inline]
    pub fn is_identified(&self, authority: &str) -> bool {
        self.router.identifies(self.found, authority)
    }

    /// The limits of its route, if they are not those of the worker.
    #[inline]
    pub fn limits(&self) -> Option<&'a RequestLimits> {
        self.found.and_then(|it| it.route.limits.as_deref())
    }

    /// Whether its times are measured.
    #[inline]
    pub fn is_timed(&self) -> bool {
        self.traced || self.span.is_some()
    }

    /// The name of the route that answers; empty where none does.
    pub fn route_name(&self) -> &'a str {
        self.purged.map(|it| &it.target).or(self.target()).map_or("", RouteTarget::name)
    }

    /// The name of the site that answers; empty where none does.
    pub fn site_name(&self) -> &'a str {
        self.found.map_or("", |it| self.router.site_name(it.at.0))
    }
}

/// The dependencies of admission.
#[derive(Clone, Copy)]
pub struct AdmissionContext<'a> {
    /// Where purges are brought.
    pub purges: &'a PurgeQueue,
    /// The worker's counters.
    pub counters: &'a Counters,
    /// The worker's gateway.
    pub gateway: &'a Gateway,
    /// Whether the process finishes its requests before its end.
    pub is_draining: bool,
}

/// Admits a request, or returns the alternative. `client` identifies its sender where that matters.
#[inline]
pub fn admit<'a>(
    context: AdmissionContext<'a>,
    request: &'a RoutedRequest<'a>,
    head: &'a RequestHead<'a>,
    client: impl FnOnce() -> Cow<'a, Client>,
) -> Admission<'a> {
    let is_routed = |it: &FoundRoute<'_>| it.sure && !it.lacks_slash;
    let routed =
        request.found.filter(is_routed).filter(|_| request.purged.is_none() && head.protocol.is_none());
    if routed.is_some_and(is_plain) {
        return Admission::Continue;
    }
    let admission = routed.and_then(|it| it.admission);
    if let Some(page) =
        admission.filter(|_| request.overlay.is_none()).and_then(|it| it.ready_answer(head.target))
    {
        return Admission::Answer(OwnResponse::Ready(page));
    }
    let client = client();
    let address = client.peer.map(|it| it.ip());
    if admission.is_some_and(|it| it.admits_address(address)) {
        return Admission::Continue;
    }
    admit_by_rules(context, request, head, client)
}

/// Whether a route admits every request. A new rule belongs in this condition, too: a request that it lets through is not looked at
/// again.
#[inline]
pub fn is_plain(found: FoundRoute<'_>) -> bool {
    found.sure && found.admission.is_none() && !found.lacks_slash
}

fn admit_by_rules<'a>(
    context: AdmissionContext<'a>,
    request: &'a RoutedRequest<'a>,
    head: &'a RequestHead<'a>,
    client: Cow<'a, Client>,
) -> Admission<'a> {
    if request.overlay.as_ref().is_some_and(|it| it.precedes_admission()) {
        return Admission::Continue;
    }
    let route = request.found.map(|it| it.route);
    let geo = request.router.geo();
    let decided = with_view(head, &client, route, geo, |view| decide(context, request, head, view, &client));
    let unverified = match decided {
        Ok(ServiceDecision::Continue) => return Admission::Continue,
        Ok(ServiceDecision::Answer(page)) => return Admission::Answer(page),
        Ok(ServiceDecision::Purge(matched)) => {
            return Admission::Ask(Box::pin(async move {
                Some(purge(context, request, matched, head, &client).await)
            }));
        }
        Err(unverified) => unverified,
    };
    Admission::Ask(Box::pin(async move {
        let mut room = Vec::new();
        let view = routed_view(head, &client, route, geo, &mut room);
        let rules = request.access()?;
        let service = request.admission().and_then(|it| it.service.as_deref());
        let AdmissionContext { counters, gateway, .. } = context;
        let request_id =
            field::first(head.fields, REQUEST_ID).filter(|_| request.is_identified(head.authority));
        let verifying = VerifyContext { counters, gateway, client: &client, service, request_id };
        if let Some(page) = rules.verify(unverified, &view, &verifying, &request.admitted).await {
            count(request, &page);
            return Some(page);
        }
        match decide_service(context, request, head, &view) {
            ServiceDecision::Continue => None,
            ServiceDecision::Answer(page) => Some(page.into_owned()),
            ServiceDecision::Purge(matched) => Some(purge(context, request, matched, head, &client).await),
        }
    }))
}

/// The last step of admission: the service of the route.
enum ServiceDecision<'a> {
    /// A gateway, files or an overlay answer.
    Continue,
    /// Admission answers.
    Answer(OwnResponse<'a>),
    /// This route purges.
    Purge(&'a Matched),
}

impl ServiceDecision<'_> {
    /// Admission answers with a response that was made for the request.
    fn made(page: Synthetic) -> Self {
        ServiceDecision::Answer(OwnResponse::Made(page))
    }
}

/// Decides about a request at once, or returns the credentials that have to be verified first.
fn decide<'a>(
    context: AdmissionContext<'a>,
    request: &RoutedRequest<'a>,
    head: &RequestHead<'_>,
    view: &RequestView<'_>,
    client: &Client,
) -> Result<ServiceDecision<'a>, Box<Unverified>> {
    let asked = OwnAnswerRequest { is_own: client.is_own, ..request.question() };
    let tls = request.site_tls(view.authority);
    if let Some(page) = tls.and_then(|it| it.misdirected(client)) {
        return Ok(ServiceDecision::made(page));
    }
    if let Some((_, page)) = own_answer(&asked, view) {
        return Ok(ServiceDecision::made(page));
    }
    if let Some(page) = tls.and_then(|it| it.clear(client)) {
        return Ok(ServiceDecision::made(page));
    }
    if let Some(found) = request.found.filter(|it| !it.sure)
        && !request.router.has_one_access(&found, view)
    {
        return Ok(ServiceDecision::made(access::ambiguous()));
    }
    let verdict = request.access().map(|it| it.judge(view, context.counters, &request.admitted));
    if request.found.and_then(|it| it.admission).is_some_and(|it| it.keys_country) {
        request.admitted.borrow_mut().note_country(view.country());
    }
    match verdict {
        None | Some(Verdict::Admit) => Ok(decide_service(context, request, head, view)),
        Some(Verdict::Refuse(page)) => {
            count(request, &page);
            Ok(ServiceDecision::made(page))
        }
        Some(Verdict::Ask(unverified)) => Err(unverified),
    }
}

/// Counts a refusal for the route. The way to a login (302) and the failure of an auth service are none.
fn count(request: &RoutedRequest<'_>, page: &Synthetic) {
    let Some(scope) = request.scope() else { return };
    match page.status {
        401 | 403 => scope.counters.refused.add(1),
        429 => scope.counters.limited.add(1),
        _ => {}
    }
}

fn decide_service<'a>(
    context: AdmissionContext<'a>,
    request: &RoutedRequest<'a>,
    head: &RequestHead<'_>,
    view: &RequestView<'_>,
) -> ServiceDecision<'a> {
    let admitted = request.admitted.borrow();
    let of = |view: &RequestView<'_>| service_answer(&request.question(), view, context.is_draining);
    let answers = request.found.and_then(|it| it.admission).and_then(|it| it.answers.as_ref());
    let answer = match admitted.changes() && answers.is_some_and(|it| it.has_service()) {
        false => of(view),
        // Variables have the values that an origin would get. Of too many fields, none has a value.
        true => {
            let (target, user) = (admitted.target(view.target), admitted.remote_user());
            let changed = |head: &RequestHead<'_>| {
                Some(of(&RequestView { target, user, fields: head.fields, ..*view }))
            };
            let bare = || of(&RequestView { target, user, fields: &[], ..*view });
            admitted.with_changed(head, changed).unwrap_or_else(bare)
        }
    };
    if let Some((_, page)) = answer {
        return ServiceDecision::Answer(page);
    }
    if head.protocol.is_some() && misleads(request) {
        return ServiceDecision::made(Synthetic::page(501, NOT_PASSED));
    }
    match (request.purged, &request.overlay, request.found) {
        (Some(matched), ..) => ServiceDecision::Purge(matched),
        (None, None, None) => ServiceDecision::made(request.router.no_route(view).page()),
        _ => ServiceDecision::Continue,
    }
}

async fn purge(
    context: AdmissionContext<'_>,
    request: &RoutedRequest<'_>,
    matched: &Matched,
    head: &RequestHead<'_>,
    client: &Client,
) -> Synthetic {
    let page = method::answer(context.purges, request.router, context.counters, matched, head, client).await;
    if page.status == 403
        && let Some(scope) = request.scope()
    {
        scope.counters.purges_refused.add(1);
    }
    page
}

/// The request for which [`own_answer()`] looks for an answer.
pub struct OwnAnswerRequest<'a> {
    /// The routes in force.
    pub router: &'a Router,
    /// The route of the request.
    pub found: Option<FoundRoute<'a>>,
    /// Whether it is a `PURGE` for larder: it may come from anywhere, and is answered during a maintenance.
    pub purges: bool,
    /// Whether larder itself requests an error page, which may be the one of a maintenance.
    pub is_own: bool,
}

/// The answer of larder's own to a request before its access is judged, with the rule that decides: a redirect of the site, a
/// maintenance or a CORS preflight. Used for requests and by `explain`.
#[must_use]
pub fn own_answer(
    asked: &OwnAnswerRequest<'_>,
    view: &RequestView<'_>,
) -> Option<(AdmissionRule, Synthetic)> {
    if asked.purges {
        return None;
    }
    let route = asked.found.map(|it| it.route);
    let admission = asked.found.and_then(|it| it.admission);
    let redirects = match route {
        Some(_) => admission.and_then(|it| it.redirects.as_ref()),
        None => asked.router.redirects(view.authority),
    };
    let answers = admission.and_then(|it| it.answers.as_ref());
    let slash = asked.found.filter(|it| it.lacks_slash);
    if redirects.is_none() && answers.is_none() && slash.is_none() {
        return None;
    }
    if let Some(it) = redirects.and_then(|it| it.answer(view)) {
        return Some(it);
    }
    let maintained = answers.filter(|_| !asked.is_own);
    let maintenance = || Some((AdmissionRule::Maintenance, maintained?.maintenance(view)?));
    let preflight = || Some((AdmissionRule::Preflight, answers?.preflight(view)?));
    let slash = || Some((AdmissionRule::Slash, own_answer::with_slash(&slash?.route.path, view)?));
    maintenance().or_else(preflight).or_else(slash)
}

/// The answer of a route that is a redirect or a fixed answer. Used for requests and by `explain`.
#[must_use]
pub fn service_answer<'a>(
    asked: &OwnAnswerRequest<'a>,
    view: &RequestView<'_>,
    is_draining: bool,
) -> Option<(AdmissionRule, OwnResponse<'a>)> {
    let found = asked.found.filter(|_| !asked.purges)?;
    let answers = found.admission?.answers.as_ref().filter(|it| it.has_service())?;
    Some((AdmissionRule::Service, answers.service(view, is_draining)?))
}

/// Calls `then` with the view of a request that rules and variables read.
pub fn with_view<T>(
    head: &RequestHead<'_>,
    client: &Client,
    route: Option<&Matched>,
    geo: Option<&GeoLookup>,
    then: impl FnOnce(&RequestView<'_>) -> T,
) -> T {
    then(&routed_view(head, client, route, geo, &mut Vec::new()))
}

/// The view of a request with its path in the normal form and the captures of its route. Uses `room` only if the path is not
/// in that form.
fn routed_view<'a>(
    head: &RequestHead<'a>,
    client: &'a Client,
    route: Option<&'a Matched>,
    geo: Option<&'a GeoLookup>,
    room: &'a mut Vec<u8>,
) -> RequestView<'a> {
    let path = request_view::normal_path(head.target, room);
    let captures = route.and_then(|it| it.path.captures(path)).unwrap_or_default();
    let hosts = route.map_or(&[][..], |it| &it.hosts);
    RequestView { captures, hosts, ..view_at(path, head, client, &client.listener, geo) }
}

/// The values of a request for conditions and templates; `client` is its sender behind trusted proxies. The path is not yet
/// in its normal form: the router sets it.
#[must_use]
pub fn view<'a>(
    head: &RequestHead<'a>,
    client: &Client,
    listener: &'a str,
    geo: Option<&'a GeoLookup>,
) -> RequestView<'a> {
    view_at(path_of(head.target).as_bytes(), head, client, listener, geo)
}

/// The same with this path.
fn view_at<'a>(
    path: &'a [u8],
    head: &RequestHead<'a>,
    client: &Client,
    listener: &'a str,
    geo: Option<&'a GeoLookup>,
) -> RequestView<'a> {
    RequestView {
        method: head.method,
        scheme: head.scheme,
        authority: head.authority,
        target: head.target,
        path,
        fields: head.fields,
        client: client.peer.map(|it| it.ip()),
        listener,
        geo,
        ..RequestView::default()
    }
}

/// Whether the response would be a success to a request for another protocol (RFC 8441), which its client would take for
/// the accepted protocol.
fn misleads(request: &RoutedRequest<'_>) -> bool {
    let over_files = || matches!(request.target(), Some(RouteTarget::Files(_)));
    request.overlay.as_deref().map_or_else(over_files, Overlay::is_success)
}
