//! The `PURGE` method, on routes that have it: the permission, the parsing of the request, and the response.

use super::asked::{self, PurgeRequest};
use super::reach;
use super::{PurgeOrder, PurgeQueue};
use crate::router::{Matched, RouteTarget, Router};
use larder_config::Methods;
use larder_config::tiers::PurgeMethod;
use larder_counters::Counters;
use larder_semantics::field;
use larder_store::purges::{PurgeScope, Strength};
use larder_transport::{Client, Synthetic};
use larder_wire::message::RequestHead;
use serde_json::{Value, json};

/// The most tags of one request.
const MOST_TAGS: usize = 256;

/// The route whose `cache.purge` decides about the request; `None` for other methods, or on a route without the setting:
/// then it is an unknown method for the origin.
#[inline]
pub fn route<'r>(router: &'r Router, method: &str, authority: &str, target: &str) -> Option<&'r Matched> {
    if method == "PURGE" { ours(router, authority, target) } else { None }
}

fn ours<'r>(router: &'r Router, authority: &str, target: &str) -> Option<&'r Matched> {
    let matched = router.at_path(authority, target)?;
    let is_ours =
        matched.purge.method != PurgeMethod::Unknown && matches!(matched.target, RouteTarget::Proxy(_));
    is_ours.then_some(matched)
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
    let (status, value) = match (matched.purge.method, reach::lets(matched, peer)) {
        (PurgeMethod::Allowed, true) => purge(purges, router, request, client).await,
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

fn problem(status: u16, detail: &str) -> Value {
    json!({ "status": status, "detail": detail })
}

/// Purges the target of the request: its URL, or the tags of its `Surrogate-Key` or `Cache-Tag` as far as the client may
/// purge them.
async fn purge(
    purges: &PurgeQueue,
    router: &Router,
    request: &RequestHead<'_>,
    client: &Client,
) -> (u16, Value) {
    let scopes = match named(request, router) {
        Ok(NamedByRequest::Url(url)) => vec![PurgeScope::Url(url)],
        Ok(NamedByRequest::Tags(tags)) => match reach::limited(router, client.peer.map(|it| it.ip()), tags) {
            Ok(scopes) => scopes,
            Err(sentence) => return (403, problem(403, &sentence)),
        },
        Err(sentence) => return (400, problem(400, &sentence)),
    };
    let flag = |name: &str| {
        field::first(request.fields, name).is_some_and(|it| it == b"1" || it.eq_ignore_ascii_case(b"true"))
    };
    let is_soft = flag("fastly-soft-purge") || flag("soft-purge");
    let strength = if is_soft { Strength::Soft } else { Strength::Hard };
    let by = client.peer.map_or_else(|| "unix".to_owned(), |it| it.ip().to_canonical().to_string());
    let mut done = Vec::new();
    for scope in scopes {
        let order =
            PurgeOrder { asked: PurgeRequest { scope, strength }, by: by.clone(), wait: true, here: None };
        match purges.purge(order).await {
            Ok(it) => done.push(it.json()),
            Err(sentence) => return (503, problem(503, &sentence)),
        }
    }
    (200, if done.len() == 1 { done.remove(0) } else { json!({ "purges": done }) })
}

/// Purge fields of other caches. Purging the URL instead would answer 200 and keep the other responses.
const OF_OTHERS: [&str; 14] = [
    "x-magento-tags-pattern",
    "x-cache-tags",
    "x-cache-tags-pattern",
    "xkey-purge",
    "xkey-softpurge",
    "x-purge-regex",
    "xkey",
    "x-xkey-softpurge",
    "x-key-purge",
    "x-ban-url",
    "x-invalidate-pattern",
    "ban-regex",
    "edge-cache-tag",
    "cache-groups",
];

/// Rejects a request for a purge by other means than URL or tag.
fn understood(request: &RequestHead<'_>) -> Result<(), String> {
    let known = |it: &[u8]| ["default", "exact"].iter().any(|own| it.eq_ignore_ascii_case(own.as_bytes()));
    if let Some(other) = field::all(request.fields, "x-purge-method").find(|it| !known(it)) {
        return Err(format!(
            "X-Purge-Method: {} is not supported: PURGE removes one URL, or the tags in Surrogate-Key or Cache-Tag. \
             For patterns use `larder purge --prefix` or `--where`, or POST /cache/purge of the admin.",
            String::from_utf8_lossy(other).escape_default()
        ));
    }
    if request.target.split('?').next().is_some_and(|it| it.contains('*')) {
        return Err(format!(
            "{:?} is a pattern, not a URL: PURGE removes one URL, or the tags in Surrogate-Key or Cache-Tag. For \
             patterns use `larder purge --prefix` or `--where`, or POST /cache/purge of the admin.",
            request.target
        ));
    }
    match OF_OTHERS.iter().find(|name| request.fields.iter().any(|it| it.is(name))) {
        Some(name) => Err(format!("{name} is not supported; send tags in Surrogate-Key or Cache-Tag.")),
        None => Ok(()),
    }
}

/// The target of a request.
enum NamedByRequest {
    Url(Box<[u8]>),
    Tags(Vec<Box<str>>),
}

fn named(request: &RequestHead<'_>, router: &Router) -> Result<NamedByRequest, String> {
    understood(request)?;
    let mut tags: Vec<Box<str>> = Vec::new();
    for name in ["surrogate-key", "cache-tag"] {
        for it in request.fields.iter().filter(|it| it.is(name)) {
            let text = std::str::from_utf8(it.value).map_err(|_| format!("{name} is not valid UTF-8."))?;
            let before = tags.len();
            for tag in text.split([' ', ',', '\t']).filter(|it| !it.is_empty()) {
                tags.push(asked::tag(tag)?);
            }
            if tags.len() == before {
                return Err(format!("{name} contains no tag; remove it to purge the URL."));
            }
        }
    }
    if tags.len() > MOST_TAGS {
        return Err(format!("{} tags; one request purges at most {MOST_TAGS}.", tags.len()));
    }
    if tags.is_empty() {
        let url = asked::requested(request.scheme, request.authority, request.target, router)?;
        return Ok(NamedByRequest::Url(url));
    }
    Ok(NamedByRequest::Tags(tags))
}
