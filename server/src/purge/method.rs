//! The `PURGE` method and the like, on routes that have them: the permission and the response. The target of a
//! request is parsed in `dialect`.

use super::dialect::{self, NamedByRequest};
use super::permission;
use super::target::{self, PurgeRequest};
use super::{PurgeOrder, PurgeQueue, ReceiptDetail};
use crate::router::{Matched, RouteTarget, Router};
use larder_config::Methods;
use larder_config::purge_access::PurgeMethod;
use larder_counters::Counters;
use larder_semantics::expression::Expression;
use larder_semantics::request_view::{RequestView, path_of};
use larder_semantics::scheme::Scheme;
use larder_store::purges::{PurgeScope, Strength};
use larder_transport::{Client, Synthetic};
use larder_wire::message::RequestHead;
use serde_json::{Value, json};

/// The route whose `cache.purge` decides about the request; `None` for other methods, or on a route without the setting:
/// then it is an unknown method for the origin.
#[inline]
pub fn route<'r, 'v>(
    router: &'r Router,
    method: &str,
    view: impl FnOnce() -> RequestView<'v>,
) -> Option<&'r Matched> {
    if dialect::is_purge(method) {
        return ours(router, &view());
    }
    let paths = router.purge_paths();
    if method == "GET" && !paths.is_empty() { by_path(router, paths, &view()) } else { None }
}

/// The route of a page whose purge is requested by a GET of its path below another one (`cache.purge.path`).
fn by_path<'r>(router: &'r Router, paths: &[String], view: &RequestView<'_>) -> Option<&'r Matched> {
    paths.iter().find_map(|path| {
        let target = below(view.target, path)?;
        let page = RequestView { target, path: path_of(target).as_bytes(), ..*view };
        router.at_path_for(&page).filter(|it| it.purge.path.as_deref() == Some(path) && it.proxies())
    })
}

/// The target behind a path.
fn below<'t>(target: &'t str, path: &str) -> Option<&'t str> {
    target.strip_prefix(path).filter(|it| it.starts_with('/'))
}

/// By the route of the page: conditions are those of a `GET`.
fn ours<'r>(router: &'r Router, view: &RequestView<'_>) -> Option<&'r Matched> {
    let page = RequestView { method: "GET", ..*view };
    // Plugins ask by the address of the server, too, which need not be a host of a site.
    let matched = match router.at_path_for(&page) {
        // The target of a pattern is no path: `/.*` would belong to a rule for files that begin with a dot.
        Some(it) if !it.proxies() && dialect::is_pattern(view.target) => {
            router.routes(view.authority).iter().find(|it| it.proxies())?
        }
        found => found.or_else(|| any_that_purges(router))?,
    };
    let is_ours =
        matched.purge.method != PurgeMethod::Unknown && matches!(matched.target, RouteTarget::Proxy(_));
    is_ours.then_some(matched)
}

fn any_that_purges(router: &Router) -> Option<&Matched> {
    let mut all = router.sites().iter().flat_map(|it| &it.routes);
    all.find(|it| it.purge.method == PurgeMethod::Allowed && it.proxies())
}

/// Answers a `PURGE` for which [`route`] returned a route.
pub async fn answer(
    purges: &PurgeQueue,
    router: &Router,
    counters: &Counters,
    matched: &Matched,
    request: &RequestHead<'_>,
    client: &Client,
) -> Synthetic {
    let peer = client.peer.map(|it| it.ip());
    let of_path = matched.purge.path.as_deref().filter(|_| request.method == "GET");
    let page = of_path.and_then(|it| below(request.target, it));
    let named = page.map(|target| RequestHead { method: "PURGE", target, ..request.clone() });
    // A page of another site could make a browser in the permitted network send the GET.
    let is_browsers = named.is_some() && is_of_browser(request);
    let (status, value) = match (matched.purge.method, permission::may_purge(matched, peer)) {
        _ if is_browsers => (403, problem(403, "A browser may not purge by GET; send PURGE instead.")),
        (PurgeMethod::Allowed, true) if is_of_unknown_proxy(client, request) => {
            (403, problem(403, UNKNOWN_PROXY))
        }
        (PurgeMethod::Allowed, true) => {
            purge(purges, router, named.as_ref().unwrap_or(request), client).await
        }
        (PurgeMethod::Allowed, false) => {
            (403, problem(403, "This client may not purge: its address is not in cache.purge.from."))
        }
        _ => (405, problem(405, "PURGE is disabled for this route (cache.purge.method).")),
    };
    if matches!(status, 403 | 405) {
        counters.purges_refused.add(1);
    }
    let mut text = serde_json::to_vec(&value).unwrap_or_default();
    text.push(b'\n');
    let page = Synthetic::new(status, "application/json", text).with("Cache-Control", "no-store");
    match (status, &matched.methods) {
        (405, Methods::Any) => page.with("Allow", "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"),
        (405, Methods::Only(these)) => {
            let others: Vec<&str> = these.iter().map(String::as_str).filter(|it| *it != "PURGE").collect();
            page.with("Allow", others.join(", "))
        }
        _ => page,
    }
}

/// The sentence about a purge that a proxy on this machine may have forwarded for a client.
const UNKNOWN_PROXY: &str = "A proxy on this machine forwarded this request, and its client is unknown; add the address of the proxy to \
                             clients.trusted.";

/// Whether a request came through a proxy on this machine that is not trusted: its address, which `cache.purge.from` permits, is then
/// that of every visitor.
fn is_of_unknown_proxy(client: &Client, request: &RequestHead<'_>) -> bool {
    let is_local = client.peer.is_none_or(|it| it.ip().to_canonical().is_loopback());
    let forwarded = ["x-forwarded-for", "forwarded", "x-real-ip", "via"];
    let is_forwarded = || request.fields.iter().any(|it| forwarded.iter().any(|name| it.is(name)));
    client.hops.is_empty() && is_local && is_forwarded()
}

/// Whether a browser may have sent a request. WordPress before 6.2 sends the URL itself as `Referer`, which no page of another site can.
fn is_of_browser(request: &RequestHead<'_>) -> bool {
    let is_own_url = |referer: &[u8]| {
        let url = Scheme::split(std::str::from_utf8(referer).unwrap_or_default()).map_or("", |it| it.1);
        url.strip_prefix(request.authority).is_some_and(|it| it == request.target)
    };
    let starts = |name: &str| name.get(..10).is_some_and(|it| it.eq_ignore_ascii_case("sec-fetch-"));
    request
        .fields
        .iter()
        .any(|it| starts(it.name) || it.is("origin") || it.is("referer") && !is_own_url(it.value))
}

fn problem(status: u16, detail: &str) -> Value {
    json!({ "status": status, "detail": detail })
}

/// Purges the responses that the request names, as far as the client may purge them.
async fn purge(
    purges: &PurgeQueue,
    router: &Router,
    request: &RequestHead<'_>,
    client: &Client,
) -> (u16, Value) {
    let shared = router.at_path(request.authority, request.target).and_then(Matched::any_host_of);
    let canonical = target::canonical(request.scheme, request.authority, router);
    let stored = RequestHead { authority: &canonical, ..request.clone() };
    let wanted = dialect::read(&stored, shared).and_then(|it| match it {
        NamedByRequest::Url => target::requested(request.scheme, request.authority, request.target, router)
            .map(|keys| keys.into_iter().map(PurgeScope::Url).collect()),
        NamedByRequest::Tags(tags) => Ok(tags.into_iter().map(PurgeScope::Tag).collect()),
        NamedByRequest::Everything => Ok(vec![PurgeScope::All]),
        NamedByRequest::Where(text) => match Expression::parse(&text) {
            Ok(it) => Ok(vec![PurgeScope::Where(it)]),
            Err(it) => Err(format!("The pattern is not supported: {}.", it.sentence)),
        },
    });
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(sentence) => return (400, problem(400, &sentence)),
    };
    let scopes = match permission::permitted(router, client.peer.map(|it| it.ip()), wanted) {
        Ok(scopes) => scopes,
        Err(sentence) => return (403, problem(403, &sentence)),
    };
    let strength = if dialect::is_soft(request.fields) { Strength::Soft } else { Strength::Hard };
    let by = client.peer.map_or_else(|| "unix".to_owned(), |it| it.ip().to_canonical().to_string());
    let mut done = Vec::new();
    for scope in scopes {
        let order = PurgeOrder {
            asked: PurgeRequest { scope, strength },
            by: by.clone(),
            wait: true,
            here: None,
            receipt: ReceiptDetail::Counted,
        };
        match purges.purge(order).await {
            Ok(it) => done.push(it.json()),
            Err(sentence) => return (503, problem(503, &sentence)),
        }
    }
    (200, if done.len() == 1 { done.remove(0) } else { json!({ "purges": done }) })
}
