//! Admission: the one step before the cache, at both speeds. It decides whether a request proceeds to its route, is answered with a
//! response of our own, or has to wait until that is decided. Hits are admitted as misses are.

use crate::overlay::Overlay;
use crate::purge::{PurgeQueue, method};
use crate::router::{Found, Matched, RouteTarget, Router};
use larder_counters::{Counters, RouteScope};
use larder_gateway::explain::NOT_PASSED;
use larder_observe::telemetry::Context;
use larder_transport::{Client, Synthetic};
use larder_wire::message::RequestHead;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What admission decided of a request.
pub enum Admission<'a> {
    /// It proceeds: to its overlay, its gateway or its files.
    Continue,
    /// It is answered with this.
    Answer(Synthetic),
    /// This decides. A request at the fast speed is declined, and asks again at the slow one.
    Ask(AdmissionDecision<'a>),
}

/// A decision that has to be waited for: the response, or `None` where the request proceeds.
pub type AdmissionDecision<'a> = Pin<Box<dyn Future<Output = Option<Synthetic>> + 'a>>;

/// A request that has been routed: what both speeds find out of it first.
pub struct RoutedRequest<'a> {
    /// The routes in force when it came.
    pub router: &'a Router,
    /// Its route.
    pub found: Option<Found<'a>>,
    /// The route that decides about it where it is a `PURGE` that is ours.
    pub purged: Option<&'a Matched>,
    /// What lies over its target.
    pub overlay: Option<Arc<Overlay>>,
    /// Whether it is kept as a trace.
    pub traced: bool,
    /// What it is in OpenTelemetry, if it becomes a span.
    pub span: Option<Context>,
}

impl<'a> RoutedRequest<'a> {
    /// The positions of its site and route in the configuration.
    #[inline]
    pub fn at(&self) -> Option<(usize, usize)> {
        self.found.map(|it| it.at)
    }

    /// Where the requests of its route are counted, if they are.
    #[inline]
    pub fn scope(&self) -> Option<&'a RouteScope> {
        self.found.and_then(|it| it.scope).map(|it| &**it)
    }

    /// What answers on its route.
    #[inline]
    pub fn target(&self) -> Option<&'a RouteTarget> {
        self.found.map(|it| it.target)
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

    /// The name of its site; empty where none answers.
    pub fn site_name(&self) -> &'a str {
        self.found.map_or("", |it| self.router.site_name(it.at.0))
    }
}

/// What admission acts with.
#[derive(Clone, Copy)]
pub struct AdmissionMeans<'a> {
    /// Where purges are brought.
    pub purges: &'a PurgeQueue,
    /// The worker's counters.
    pub counters: &'a Counters,
}

/// Admits a request, or says what happens instead. `client` tells whose request it is where that matters.
#[inline]
pub fn admit<'a>(
    means: AdmissionMeans<'a>,
    request: &RoutedRequest<'a>,
    head: &'a RequestHead<'a>,
    client: impl FnOnce() -> Cow<'a, Client>,
) -> Admission<'a> {
    if request.found.is_some() && request.purged.is_none() && head.protocol.is_none() {
        return Admission::Continue;
    }
    decide(means, request, head, client)
}

#[cold]
fn decide<'a>(
    means: AdmissionMeans<'a>,
    request: &RoutedRequest<'a>,
    head: &'a RequestHead<'a>,
    client: impl FnOnce() -> Cow<'a, Client>,
) -> Admission<'a> {
    if head.protocol.is_some() && misleads(request) {
        return Admission::Answer(Synthetic::page(501, NOT_PASSED));
    }
    if let Some(matched) = request.purged {
        let (router, client) = (request.router, client());
        return Admission::Ask(Box::pin(async move {
            Some(method::answer(means.purges, router, means.counters, matched, head, &client).await)
        }));
    }
    match (&request.overlay, request.found) {
        (None, None) => Admission::Answer(no_route()),
        _ => Admission::Continue,
    }
}

/// The page where no route answers.
#[must_use]
pub fn no_route() -> Synthetic {
    Synthetic::page(404, "No route matches this host and path.")
}

/// Whether the answer would be a success to a request for another protocol (RFC 8441), which its client would take for the
/// beginning of that.
fn misleads(request: &RoutedRequest<'_>) -> bool {
    let over_files = || matches!(request.target(), Some(RouteTarget::Files(_)));
    request.overlay.as_deref().map_or_else(over_files, Overlay::is_success)
}
