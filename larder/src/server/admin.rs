//! The admin listener: statistics and `explain`, as JSON, for programs on this machine. It listens on a loopback
//! address unless told otherwise, and answers only requests that were meant for it.

use super::nodes::Nodes;
use super::purge::{Desk, Order, asked, method};
use super::router::{Matched, Router, Target};
use super::totals::Totals;
use super::worker::Live;
use crate::config::Decided;
use crate::config::tiers::PurgeMethod;
use crate::log::ErrorLog;
use larder_counters::Counters;
use larder_gateway::Gateway;
use larder_gateway::explain::{self, Explanation, Holds, TierHolds, Verdict};
use larder_semantics::field::FieldList;
use larder_semantics::trace::{Outcome, Rule};
use larder_stdx::clock;
use larder_transport::body::Piece;
use larder_transport::http1::{Client, ClientGone, Handler, Now, Outbox, Reply, RequestBody, ResponseBody};
use larder_wire::http1::Version;
use larder_wire::http1::request::{self, Limits, Parsed, Reject, Request, RequestHead, Storage};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a body that the admin reads at most.
const MAX_BODY: usize = 64 * 1024;

/// Answers the admin's requests.
pub struct Admin {
    /// A gateway of its own over the shared store: it decides as the workers do.
    pub gateway: Rc<Gateway>,
    /// Of the configuration in force.
    pub router: RefCell<Rc<Router>>,
    /// The configuration in force, to tell which line decided.
    pub live: RefCell<Arc<Live>>,
    /// Where clients are served, as printed at the start.
    pub public: Vec<String>,
    /// All counters.
    pub totals: Arc<Totals>,
    /// Those of the admin's own gateway.
    pub counters: Arc<Counters>,
    /// Where purges are brought.
    pub purges: Desk,
    /// The other nodes of the fleet.
    pub nodes: Option<Rc<Nodes>>,
    /// Whether tests may move the clock.
    pub clock_moves: bool,
}

/// An answer in the making: status and body.
type Answer = (u16, Value);

impl Handler for Admin {
    fn answer_now(&self, _: &RequestHead<'_>, _: &Client, _: bool, _: &mut Outbox) -> Now {
        Now::Later
    }

    async fn answer<'c>(
        &'c self,
        request: Request,
        client: &'c Client,
        mut body: RequestBody<'c>,
        mut reply: Reply<'c>,
    ) {
        let path = request.target.split('?').next().unwrap_or("");
        if matches!(request.method.as_str(), "GET" | "HEAD") && path == "/" && is_for_us(&request, client) {
            let page = super::note::PAGE.as_bytes();
            let _ = send(&mut reply, &request, 200, "text/html; charset=utf-8", page).await;
            let _ = reply.finish(None).await;
            return;
        }
        let mut bytes = Vec::new();
        let (status, value) = loop {
            match body.next().await {
                Ok(Some(more)) if bytes.len() + more.len() <= MAX_BODY => bytes.extend_from_slice(&more),
                Ok(Some(_)) | Err(ClientGone::TooLarge) => {
                    reply.close_after();
                    break problem(413, format!("The body is over {MAX_BODY} bytes."));
                }
                Ok(None) => break self.route(&request, client, path, &bytes).await,
                Err(_) => return,
            }
        };
        let text = serde_json::to_vec(&value).unwrap_or_default();
        let _ = send(&mut reply, &request, status, "application/json", &text).await;
        let _ = reply.finish(None).await;
    }

    fn rejected(&self, _: Reject, _: &Client) {}
}

async fn send(
    reply: &mut Reply<'_>,
    request: &Request,
    status: u16,
    content_type: &str,
    body: &[u8],
) -> Result<(), ClientGone> {
    let mut fields = FieldList::new();
    fields.push("Content-Type", content_type);
    fields.push("Cache-Control", "no-store");
    fields.push("X-Content-Type-Options", "nosniff");
    if status == 405 {
        fields.push("Allow", if request.target.starts_with("/cache/stats") { "GET, HEAD" } else { "POST" });
    }
    reply.head(status, &fields, ResponseBody::Length(body.len() as u64)).await?;
    if request.method == "HEAD" {
        return Ok(());
    }
    reply.piece(Piece::Bytes(body.to_vec().into())).await
}

fn problem(status: u16, detail: String) -> Answer {
    (status, json!({ "status": status, "detail": detail }))
}

/// Whether the request names us as its host: a web page that was lured here by a name of its own does not
/// (DNS rebinding), and one that writes from another origin says so in `Origin`.
fn is_for_us(request: &Request, client: &Client) -> bool {
    let Some(local) = client.local else { return true };
    let named = |authority: &str| {
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ours = host.eq_ignore_ascii_case("localhost")
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip == local.ip().to_canonical() || ip.is_loopback());
        ours && port.parse() == Ok(local.port())
    };
    let origin = request.fields.get("origin").map(|it| String::from_utf8_lossy(it).into_owned());
    let same_origin = origin.is_none_or(|it| it.strip_prefix("http://").is_some_and(named));
    named(&request.authority) && same_origin
}

impl Admin {
    /// Explains by a new configuration from now on.
    pub fn take_over(&self, live: Arc<Live>) {
        *self.router.borrow_mut() = Rc::new(live.router(&self.counters, &ErrorLog::off()));
        *self.live.borrow_mut() = live;
    }

    /// Every setting of a route that somebody gave, with the line or flag that gave it.
    fn settings(&self, site: usize, route: usize) -> Value {
        let live = self.live.borrow();
        let Some(route) = live.config.sites.get(site).and_then(|it| it.routes.get(route)) else {
            return Value::Null;
        };
        let row = |(key, source): (&str, &crate::config::Source)| json!({ "key": key, "where": source.to_string() });
        let given: Vec<Value> = route.decided.iter().map(row).collect();
        json!({ "route": route.source.to_string(), "given": given })
    }

    async fn route(&self, request: &Request, client: &Client, path: &str, body: &[u8]) -> Answer {
        if !is_for_us(request, client) {
            return problem(
                403,
                "The Host or Origin of this request is not this admin's own address.".to_owned(),
            );
        }
        match (request.method.as_str(), path) {
            ("GET" | "HEAD", "/cache/stats") => (200, self.stats()),
            ("POST", "/cache/explain") => self.explain(body).await,
            ("POST", "/cache/purge") => self.purge(body).await,
            ("POST", "/test/clock") if self.clock_moves => self.move_clock(&request.target),
            (_, "/cache/stats" | "/cache/explain" | "/cache/purge") => {
                problem(405, format!("{} is not a method of {path}.", request.method))
            }
            _ => problem(404, format!("There is nothing at {path}; try /cache/stats.")),
        }
    }

    /// Purges; the answer comes when the purge is in force on every tier.
    async fn purge(&self, body: &[u8]) -> Answer {
        let router = self.router.borrow().clone();
        let (asked, wait) = match asked::read(body, &router) {
            Ok(it) => it,
            Err(detail) => return problem(400, detail),
        };
        match self.purges.purge(Order { asked, by: "admin".to_owned(), wait }).await {
            Ok(done) => (200, done.json()),
            Err(detail) => problem(503, detail),
        }
    }

    fn move_clock(&self, target: &str) -> Answer {
        match target.split_once("advance=").and_then(|it| it.1.parse().ok()) {
            Some(seconds) => {
                clock::advance(seconds);
                (200, json!({ "now": clock::wall().0 }))
            }
            None => problem(400, "advance=SECONDS is missing.".to_owned()),
        }
    }

    fn stats(&self) -> Value {
        let sums = self.totals.sums();
        let counters: serde_json::Map<String, Value> = Counters::TABLE
            .iter()
            .zip(sums)
            .map(|(row, value)| (row.name.to_owned(), Value::from(value)))
            .collect();
        json!({
            "version": 1,
            "now": clock::wall().0,
            "listen": self.public,
            "counters": counters,
            "nodes": self.nodes.as_ref().map(|it| it.standing()),
            "ram": { "used_bytes": self.gateway.store.used(), "budget_bytes": self.live.borrow().config.ram.budget },
        })
    }

    async fn explain(&self, body: &[u8]) -> Answer {
        let asked: Value = match serde_json::from_slice(body) {
            Ok(value) => value,
            Err(error) => return problem(400, format!("The body is not JSON: {error}.")),
        };
        let client = self.live.borrow().config.limits.client;
        let limits = Limits { head: client.head_size, target: client.target_size };
        let request = match question(&asked, &limits) {
            Ok(Ok(request)) => request,
            Ok(Err(reject)) => return (200, refused(reject.status(), reject.sentence())),
            Err(detail) => return problem(400, detail),
        };
        if request.method == "CONNECT" {
            return (200, refused(405, explain::error_sentence(405)));
        }
        let router = self.router.borrow().clone();
        let Some((target, site, route)) = router.find(&request.method, &request.authority, &request.target)
        else {
            return problem(404, format!("No site has a route for {}{}.", request.authority, request.target));
        };
        if let Some(matched) = method::route(&router, &request) {
            return (200, purges(matched));
        }
        let settings = self.settings(site, route);
        match target {
            Target::Files(files) => (
                200,
                json!({
                    "site": site, "route": files.name, "verdict": {
                        "name": "file",
                        "sentence": "A static file: served from the open-file cache, never stored in a tier.",
                    },
                    "settings": settings,
                }),
            ),
            Target::Proxy(proxied) => {
                let mut explanation = self.gateway.explain(proxied, &request).await;
                let (authority, target) = (&request.authority, &request.target);
                if let Some(told) =
                    router.two_ways(&request.method, authority, target).filter(|_| proxied.two_ways)
                {
                    explanation.verdict.sentence = format!("{} {told}", explanation.verdict.sentence);
                }
                let live = self.live.borrow();
                let Some(row) = live.config.sites.get(site).and_then(|it| it.routes.get(route)) else {
                    return problem(409, "The configuration was changed meanwhile; ask again.".to_owned());
                };
                let mut told = explanation_json(&proxied.name, site, &explanation, settings, &row.decided);
                told["nodes"] = self.nodes.as_ref().map(|it| it.standing()).into();
                (200, told)
            }
        }
    }
}

/// The answer where no route is asked: larder refuses the request itself.
fn refused(status: u16, sentence: &str) -> Value {
    let verdict = Verdict::refused(status, sentence);
    json!({ "verdict": { "name": verdict.name, "sentence": verdict.sentence, "status": verdict.status } })
}

/// The answer about a `PURGE` of which its route says something.
fn purges(matched: &Matched) -> Value {
    match matched.purge.method {
        PurgeMethod::Allowed => json!({ "route": matched.target.name(), "verdict": {
            "name": "purge",
            "sentence": "Purges what it names, where the client's address is in cache.purge.from; else larder refuses it with 403.",
        } }),
        _ => refused(405, "PURGE is switched off for this route by cache.purge.method."),
    }
}

/// The request that is asked about: `{"url": …, "method": …, "headers": [["Name", "value"], …]}`; or why the server would
/// not read it.
///
/// # Errors
/// The question is malformed.
fn question(asked: &Value, limits: &Limits) -> Result<Result<Request, Reject>, String> {
    let url = asked["url"].as_str().ok_or("\"url\" is missing.")?;
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("{url:?} is not a URL that is served here; write http://HOST[:PORT]/PATH."))?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let method = asked["method"].as_str().unwrap_or("GET").to_owned();
    let mut fields = FieldList::new();
    let none = Vec::new();
    let pairs = asked["headers"].as_array().unwrap_or(&none);
    // As with other tools, a `Host` that is given takes the place of the URL's.
    if !pairs.iter().any(|it| it[0].as_str().is_some_and(|it| it.eq_ignore_ascii_case("host"))) {
        fields.push("Host", authority);
    }
    for pair in pairs {
        let (Some(name), Some(value)) = (pair[0].as_str(), pair[1].as_str()) else {
            return Err("\"headers\" is a list of [name, value].".to_owned());
        };
        fields.push(name, value);
    }
    let target = if method == "CONNECT" { connect_target(authority) } else { target };
    let mut text = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    text.extend_from_slice(fields.text());
    text.extend_from_slice(b"\r\n");
    // Read by the server's own parser, so that what it would refuse is refused here.
    let mut storage = Storage::new();
    match request::parse(&text, limits, &mut storage) {
        Ok(Parsed::Head(head, _)) => Ok(Ok(Request { version: Version::Http11, ..head.to_owned() })),
        Ok(Parsed::Partial) => Err("The request is not complete.".to_owned()),
        Err(reject) => Ok(Err(reject)),
    }
}

/// The only target that `CONNECT` has: host and port (RFC 9110 section 9.3.6).
fn connect_target(authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|it| it.is_ascii_digit()) => authority.to_owned(),
        _ => format!("{authority}:80"),
    }
}

/// The lines, flags or defaults that decided the keys that a rule's evidence names.
fn deciders(evidence: &str, decided: &Decided) -> Vec<String> {
    let keys = evidence.split(|it: char| !(it.is_ascii_lowercase() || matches!(it, '.' | '_')));
    let known = keys.map(|it| it.trim_matches('.')).filter(|it| crate::config::table::find(it).is_some());
    known.map(|key| format!("{key}: {}", decided.by(key))).collect()
}

fn rules_json(rules: &[Rule], decided: &Decided) -> Value {
    rules
        .iter()
        .map(|it| {
            let outcome = match it.outcome {
                Outcome::Passed => "passed",
                Outcome::Decided => "decided",
            };
            let deciders = deciders(&it.evidence, decided);
            json!({
                "source": it.source, "rule": it.name, "evidence": it.evidence, "outcome": outcome,
                "where": deciders,
            })
        })
        .collect::<Vec<_>>()
        .into()
}

fn explanation_json(route: &str, site: usize, it: &Explanation, settings: Value, decided: &Decided) -> Value {
    let tier = |it: &TierHolds| {
        let holds = match it.holds {
            Holds::Variants(count) => {
                return json!({ "tier": it.tier.name(), "holds": "variants", "count": count });
            }
            Holds::HitForMiss => "hit-for-miss",
            Holds::Nothing => "nothing",
            Holds::Response => "response",
            Holds::Unknown => "unknown",
        };
        json!({ "tier": it.tier.name(), "holds": holds })
    };
    let tiers: Vec<Value> = it.tiers.iter().map(tier).collect();
    let stored = it.stored.as_ref().map(|it| {
        json!({
            "status": it.status, "bytes": it.bytes, "variant": it.variant, "age": it.age,
            "lifetime": it.lifetime, "freshness": it.freshness, "part": it.part, "forms": it.forms,
        })
    });
    let refusal = it.refusal.as_ref().map(|it| {
        json!({
            "seconds_ago": it.seconds_ago, "status": it.status, "sentence": it.sentence,
            "rules": rules_json(&it.rules, decided), "change": it.change,
        })
    });
    json!({
        "site": site,
        "route": route,
        "key": { "text": it.key, "recipe": it.recipe },
        "tiers": tiers,
        "bypass": it.bypass,
        "stored": stored,
        "rules": rules_json(&it.rules, decided),
        "verdict": { "name": it.verdict.name, "sentence": it.verdict.sentence, "status": it.verdict.status },
        "last_refusal": refusal,
        "change": it.change,
        "settings": settings,
    })
}
