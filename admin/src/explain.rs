//! `explain` over the API: the question, parsed like a request to the server, and the gateway's explanation, as JSON.

mod access;
mod files;
mod matching;
mod proxied;
mod script;
mod sql;
mod sticky;
mod subject;
mod summary;
mod tls;

use super::overlay::overlay_json;
use super::{Admin, AdminRequest, AdminResponse, problem_at};
use access::ExplainedAccess;
use larder_config::purge_access::PurgeMethod;
use larder_config::{Decided, RouteConfig, Service, Source, dotted, rewrite, table};
use larder_gateway::explain::{self, CacheVerdict, Explanation, KeyContent, TierContent};
use larder_gateway::miss_budget::MissBudget;
use larder_gateway::rewrite::SentTarget;
use larder_observe::ids::RequestId;
use larder_observe::recent::{KEPT, RecentRequest};
use larder_semantics::date;
use larder_semantics::field::FieldList;
use larder_semantics::request_view::RequestView;
use larder_semantics::scheme::Scheme;
use larder_semantics::secret::shown_target;
use larder_semantics::trace::{RuleOutcome, TriedRule};
use larder_server::admission::{self, OwnAnswerRequest};
use larder_server::input_error::InputError;
use larder_server::overlay::OverlayReport;
use larder_server::own_answer::AdmissionRule;
use larder_server::purge::method;
use larder_server::router::{FoundRoute, Matched, RouteTarget, Router, RoutesWithoutFile};
use larder_transport::Client;
use larder_transport::listener::PLAIN_SENTENCE;
use larder_wire::http1::request::{self, ParsedRequest};
use larder_wire::message::{FieldStorage, HeadLimits, Reject, Request, Version};
use larder_wire::signed_url;
use matching::ExplainedSender;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;

impl Admin {
    /// Every configured setting of a route, with its line or flag.
    fn settings(&self, site: usize, route: usize) -> Value {
        let live = self.live.borrow();
        let Some(route) = live.config.sites.get(site).and_then(|it| it.routes.get(route)) else {
            return Value::Null;
        };
        let row = |(key, source): (&str, &larder_config::Source)| json!({ "key": key, "where": source.to_string() });
        let given: Vec<Value> = route.decided.iter().map(row).collect();
        json!({ "route": route.source.to_string(), "given": given })
    }

    /// `POST /cache/explain`.
    pub(super) async fn explain(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let mut answer = match asked.json["ask"].is_null() {
            true => self.explain_question(asked.json).await,
            false => match self.asked_for(&asked).await {
                Ok(question) => {
                    let mut answer = self.explain_question(&question).await;
                    if let AdminResponse::Json(200, explained) = &mut answer {
                        explained["url"] = question["url"].clone();
                    }
                    answer
                }
                Err(answer) => answer,
            },
        };
        if let AdminResponse::Json(200, explained) = &mut answer {
            let is_by_default = asked.json["id"].is_null() && asked.json["client"].is_null();
            summary::add(explained, is_by_default);
        }
        answer
    }

    async fn explain_question(&self, asked: &Value) -> AdminResponse {
        let client = self.live.borrow().config.limits.client;
        let limits = HeadLimits { head: client.head_size, target: client.target_size, scheme: Scheme::Http };
        if !asked["id"].is_null() {
            return self.explain_past(asked, &limits).await;
        }
        self.explain_new(asked, &limits).await
    }

    async fn explain_new(&self, asked: &Value, limits: &HeadLimits) -> AdminResponse {
        match question(asked, limits) {
            Ok(Ok(request)) => match self.misdirected(asked["url"].as_str().unwrap_or_default()) {
                Some(other) => self.explain_misdirected(request, other, asked).await,
                None => self.explain_request(request, asked).await,
            },
            Ok(Err(reject)) => AdminResponse::Json(200, refused(reject.status(), reject.sentence())),
            Err(wrong) => wrong.into(),
        }
    }

    /// If no listener has the scheme of a URL, or the one of its port has another: the URL that can be requested.
    fn misdirected(&self, url: &str) -> Option<String> {
        let (scheme, rest) = Scheme::split(url)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let other = if scheme == Scheme::Http { Scheme::Https } else { Scheme::Http };
        let bare = scheme.without_port(authority);
        is_misdirected(&self.public.borrow(), scheme, bare)
            .then(|| format!("{}://{}{target}", other.name(), other.without_port(bare)))
    }

    /// Explains a request whose URL has a scheme that its listener does not serve: only that can be explained. A URL that
    /// was copied from a browser may be served by TLS of a proxy before larder; `other` is the corresponding URL.
    async fn explain_misdirected(&self, mut request: Request, other: String, asked: &Value) -> AdminResponse {
        let mut explained = match request.scheme {
            Scheme::Https => refused(Reject::NotSecured.status(), Reject::NotSecured.sentence()),
            Scheme::Http => refused(400, PLAIN_SENTENCE),
        };
        request.scheme = if request.scheme == Scheme::Http { Scheme::Https } else { Scheme::Http };
        if let AdminResponse::Json(200, answer) = self.explain_request(request, asked).await
            && let Some(name) = answer["verdict"]["name"].as_str().filter(|it| *it != "refused")
        {
            let why = match other.starts_with("http:") {
                true => "as requested by a proxy in front of larder that terminates TLS",
                false => "the scheme of its listener",
            };
            explained["change"] = format!("Explain {other} instead, {why}: {name}.").into();
        }
        AdminResponse::Json(200, explained)
    }

    /// Explains a past request, as it would be answered now, with its recorded result.
    async fn explain_past(&self, asked: &Value, limits: &HeadLimits) -> AdminResponse {
        if ["url", "method", "headers"].iter().any(|it| !asked[*it].is_null()) {
            return problem_at(
                400,
                "\"id\" selects a complete request; remove url, method and headers.",
                "id",
            );
        }
        let Some(id) = asked["id"].as_str().and_then(RequestId::parse) else {
            return problem_at(400, "\"id\" must be eight letters and digits, as in the live stream.", "id");
        };
        let Some(kept) = self.recent.find(id) else {
            if let Some(asked) = self.worst_question(id) {
                return self.explain_new(&asked, limits).await;
            }
            return problem_at(
                404,
                format!(
                    "The request {id} is no longer recorded: the latest {KEPT} requests of the live stream and of \
                     traces are kept, and the worst requests. Explain its URL instead."
                ),
                "id",
            );
        };
        let then: Value = serde_json::from_slice(&kept.then).unwrap_or(Value::Null);
        let mut answer = match (kept.refused, again(&kept, limits)) {
            (Some(reject), _) => AdminResponse::Json(200, refused_then(reject)),
            (None, Ok(request)) => self.explain_request(request, &then).await,
            (None, Err(reject)) => AdminResponse::Json(200, refused(reject.status(), reject.sentence())),
        };
        if let AdminResponse::Json(200, explained) = &mut answer {
            explained["then"] = then;
            explained["withheld"] = json!(kept.withheld);
        }
        answer
    }

    /// Explains a parsed request; `asked` may name its client and listener.
    async fn explain_request(&self, request: Request, asked: &Value) -> AdminResponse {
        if request.method == "CONNECT" {
            let mut explained = refused(405, explain::error_sentence(405));
            explained["change"] = EXTENDED_CONNECT.into();
            return AdminResponse::Json(200, explained);
        }
        let router = self.router.borrow().clone();
        let fields = request.fields.view();
        let sender = ExplainedSender::of(asked, request.scheme, &request.authority, &self.public.borrow());
        let sender = match sender {
            Ok(it) => it,
            Err((key, sentence)) => return problem_at(400, sentence, key),
        };
        let view = &sender.view(&request, &fields, router.geo());
        let without = without_files(&router, view).await;
        let mut answer = self.explain_on_route(&request, asked, &router, without, &sender).await;
        let found = router.find_without(without, view.method, view.authority, view.target, || *view);
        // An overlay and a purge may be those of another route, or of none.
        let decides = |explained: &Value, it: &FoundRoute<'_>| {
            explained["overlay"].is_null() && explained["route"] == it.target.name()
        };
        if let (AdminResponse::Json(200, explained), Some(found)) = (&mut answer, found)
            && decides(explained, &found)
        {
            explained["matched"] = self.matching(&router, found.at, view);
        }
        answer
    }

    /// Explains a request from its site on, except for the choice of its route.
    async fn explain_on_route(
        &self,
        request: &Request,
        asked: &Value,
        router: &Router,
        without: RoutesWithoutFile,
        sender: &ExplainedSender,
    ) -> AdminResponse {
        let fields = request.fields.view();
        let view = &sender.view(request, &fields, router.geo());
        let before_access = self
            .misdirected_handshake(router, view, &asked["server_name"])
            .or_else(|| self.own_answer(router, without, request, view, AdmissionStep::BeforeAccess))
            .or_else(|| self.clear_text(router, view));
        if let Some(explained) = before_access {
            return AdminResponse::Json(200, explained);
        }
        let access = self.access_of(router, without, view);
        if let Some(it) = access.as_ref().filter(|it| it.json["verdict"].is_object()) {
            return AdminResponse::Json(200, it.json.clone());
        }
        let tls = if request.scheme == Scheme::Https { self.tls_of(router, view) } else { Value::Null };
        let mut answer = self.explain_admitted(request, router, without, sender, access.as_ref()).await;
        if let AdminResponse::Json(200, explained) = &mut answer {
            if let Some(access) = access {
                explained["access"] = access.json["access"].clone();
            }
            if !tls.is_null() {
                explained["tls"] = tls;
            }
        }
        answer
    }

    /// Explains a request that admission does not answer, or only by its service.
    async fn explain_admitted(
        &self,
        request: &Request,
        router: &Router,
        without: RoutesWithoutFile,
        sender: &ExplainedSender,
        access: Option<&ExplainedAccess>,
    ) -> AdminResponse {
        let fields = request.fields.view();
        let view = &sender.view(request, &fields, router.geo());
        let find = || router.find_without(without, view.method, view.authority, view.target, || *view);
        if let Some(explained) = self.own_answer(router, without, request, view, AdmissionStep::Service) {
            return AdminResponse::Json(200, explained);
        }
        if let Some(overlay) = self.overlays.over(
            &request.method,
            request.scheme.without_port(&request.authority),
            &request.target,
        ) {
            return AdminResponse::Json(200, laid_over(&overlay.report(), find().map(|it| it.target.name())));
        }
        if let Some(matched) = method::route(router, &request.method, || *view) {
            return AdminResponse::Json(200, purges(matched));
        }
        let Some(FoundRoute { target, at: (site, route), .. }) = find() else {
            return self.unmatched(router, view);
        };
        let settings = self.settings(site, route);
        match target {
            RouteTarget::Own(_) => {
                problem_at(409, "The configuration changed in the meantime; retry.", "url")
            }
            RouteTarget::Files(files) => {
                let finding = files.explain(request).await;
                let live = self.live.borrow();
                let row = live.config.sites.get(site).and_then(|it| it.routes.get(route));
                let Some((Service::Files(of_route), decided)) = row.map(|it| (&it.service, &it.decided))
                else {
                    return problem_at(409, "The configuration changed in the meantime; retry.", "url");
                };
                let (verdict, file) = files::to_json(&finding, of_route, decided);
                AdminResponse::Json(
                    200,
                    json!({
                        "site": site, "route": files.name, "verdict": verdict, "file": file,
                        "settings": settings,
                    }),
                )
            }
            RouteTarget::Proxy(proxied) => {
                let at = (site, route);
                self.explain_proxied(request, proxied, (router, without), view, at, access).await
            }
        }
    }
}

/// The steps of admission that answer a request: before its access is judged, and after.
#[derive(Clone, Copy)]
enum AdmissionStep {
    BeforeAccess,
    Service,
}

impl Admin {
    /// A request as the cache and the origin see it: without the parameters of a signed URL.
    fn without_signature(&self, (site, route): (usize, usize), mut request: Request) -> Request {
        let live = self.live.borrow();
        let route = live.config.sites.get(site).and_then(|it| it.routes.get(route));
        let signed = route.and_then(|it| it.access.signed.as_ref());
        if let Some(target) = signed.and_then(|it| signed_url::stripped(&request.target, &it.names)) {
            request.target = target;
        }
        request
    }

    /// The answer that admission gives a request, with the rule, and the line that set it; `None` if the request proceeds.
    fn own_answer(
        &self,
        router: &Router,
        without: RoutesWithoutFile,
        request: &Request,
        view: &RequestView<'_>,
        step: AdmissionStep,
    ) -> Option<Value> {
        let fields = request.fields.view();
        let head = request.head(&fields);
        let found = router.find_without(without, head.method, head.authority, head.target, || *view);
        let purges = method::route(router, head.method, || *view).is_some();
        let asked = OwnAnswerRequest { router, found, purges, is_own: false };
        let live = self.live.borrow();
        let mut client = Client::local(request.scheme);
        client.peer = view.client.map(|it| SocketAddr::new(it, 0)).or(client.peer);
        client.listener = view.listener.into();
        let route = found.map(|it| it.route);
        let (rule, answer) = admission::with_view(&head, &client, route, router.geo(), |view| match step {
            AdmissionStep::BeforeAccess => admission::own_answer(&asked, view),
            AdmissionStep::Service => {
                let answer = admission::service_answer(&asked, view, false);
                answer.map(|(rule, page)| (rule, page.into_owned()))
            }
        })?;
        let at = found.map(|it| it.at);
        let row = at.and_then(|(site, route)| live.config.sites.get(site)?.routes.get(route));
        let set = rule.keys().iter().map(|it| (it, row.map_or(Source::Default, |row| row.decided.by(it))));
        let set = set.into_iter().find(|it| it.1 != Source::Default);
        // A site may redirect without a route.
        let site = at.map(|it| it.0).or_else(|| router.site_at(view.authority));
        let of_site =
            || row.is_none().then(|| live.config.sites.get(site?)).flatten().map(|it| it.source.to_string());
        let (key, place) = match set {
            Some((key, source)) => (*key, source.to_string()),
            None => (rule.keys()[0], of_site().unwrap_or_default()),
        };
        let location = answer.fields.get("location").map(|it| format!(" to {}", String::from_utf8_lossy(it)));
        let line = match rule {
            AdmissionRule::RedirectMap { line } => format!(", line {line} of the map"),
            _ => String::new(),
        };
        // Without rules there is nothing that it could precede.
        let has_rules = row.is_some_and(|it| !it.access.is_none());
        let before = match step {
            AdmissionStep::BeforeAccess if has_rules => "before access rules and the cache",
            AdmissionStep::BeforeAccess | AdmissionStep::Service => "before the cache",
        };
        let sentence = format!(
            "Answered by larder {before}: {}{} ({}{line}).",
            answer.status,
            location.unwrap_or_default(),
            dotted(key)
        );
        let verdict = json!({ "name": rule.name(), "sentence": sentence, "status": answer.status });
        let name = found.map(|it| it.target.name());
        let settings = at.map_or(Value::Null, |(site, route)| self.settings(site, route));
        let mut explained =
            json!({ "site": site, "route": name, "verdict": verdict, "where": place, "settings": settings });
        if matches!(rule, AdmissionRule::Https) {
            self.add_own_redirect(&mut explained, (request, view.client));
        }
        Some(explained)
    }
}

/// The routes that fall through and have no file for a request.
async fn without_files(router: &Router, view: &RequestView<'_>) -> RoutesWithoutFile {
    let mut without = RoutesWithoutFile::default();
    let find = |without| router.find_without(without, view.method, view.authority, view.target, || *view);
    while let Some((found, files)) = find(without).and_then(|it| Some((it, it.falling()?))) {
        if files.has_file(view.target, view.fields).await {
            break;
        }
        without = found.passed();
    }
    without
}

/// The miss budget of the route, and whether the client has exceeded it.
fn budget_json(budget: &MissBudget, view: &RequestView<'_>) -> Value {
    let wait = budget.exceeded(view).map(|it| it.seconds());
    json!({ "limit": budget.settings.describe(), "scope": budget.settings.scope, "exceeded_for": wait })
}

/// Whether a request with this scheme, host and port arrives at a listener of the other scheme. A port on which larder
/// does not listen belongs to a proxy, which forwards it here.
fn is_misdirected(listeners: &[String], scheme: Scheme, authority: &str) -> bool {
    let port_of = |it: &str| match it.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|it| it.is_ascii_digit()) => Some(port.to_owned()),
        _ => None,
    };
    let port = port_of(authority);
    let has = |scheme: Scheme, port: Option<&str>| {
        listeners.iter().any(|it| {
            // A Unix socket has no scheme, and no port. The PROXY protocol makes no difference here.
            let it = it.replacen("+proxy://", "://", 1);
            let (spoken, at) = Scheme::split(&it).unwrap_or((Scheme::Http, ""));
            spoken == scheme && (port.is_none() || port_of(at.trim_end_matches('/')).as_deref() == port)
        })
    };
    let other = if scheme == Scheme::Http { Scheme::Https } else { Scheme::Http };
    let at_port = |scheme| port.is_some() && has(scheme, port.as_deref());
    has(other, None) && (!has(scheme, None) || at_port(other) && !at_port(scheme))
}

/// The text about `CONNECT`, which HTTP/2 has in another form as well (RFC 8441).
const EXTENDED_CONNECT: &str = "An extended CONNECT of HTTP/2 requests an upgrade: explain it as the equivalent GET of HTTP/1.1, with \
             -H 'Connection: upgrade' -H 'Upgrade: websocket'.";

/// The answer without a route: larder itself rejects the request.
fn refused(status: u16, sentence: &str) -> Value {
    let verdict = CacheVerdict::refused(status, sentence);
    json!({ "verdict": { "name": verdict.name, "sentence": verdict.sentence, "status": verdict.status } })
}

/// The answer about a past request whose head was rejected. Its bytes are not kept, so it cannot be explained how it
/// would be treated now.
fn refused_then(reject: Reject) -> Value {
    let (status, why) = (reject.status(), reject.sentence());
    let sentence =
        format!("larder rejected the request with {status}: {why} A rejected head is not recorded.");
    json!({ "verdict": { "name": "refused", "sentence": sentence, "status": status } })
}

/// The answer about a target with an overlay, for which the route beneath is not evaluated.
fn laid_over(overlay: &OverlayReport, route: Option<&str>) -> Value {
    let until = match overlay.expires {
        Some(it) => format!("until {}", date::format(it)),
        None => "until it is removed".to_owned(),
    };
    let sentence = format!(
        "An overlay is set for {}: it answers GET and HEAD {until}. Set {} by {}.",
        overlay.uri,
        date::format(overlay.set_at),
        overlay.by
    );
    json!({
        "route": route,
        "verdict": { "name": "overlay", "sentence": sentence, "status": overlay.status },
        "overlay": overlay_json(overlay),
        "change": format!("larder overlay remove {}", overlay.uri),
    })
}

/// The answer about a `PURGE` on a route with a setting for it.
fn purges(matched: &Matched) -> Value {
    match matched.purge.method {
        PurgeMethod::Allowed => json!({ "route": matched.target.name(), "verdict": {
            "name": "purge",
            "sentence": "Purges the named URL or tags if the client address is in cache.purge.from; otherwise larder \
                         rejects it with 403.",
        } }),
        _ => refused(405, "PURGE is disabled for this route (cache.purge.method)."),
    }
}

/// The request in question: `{"url": …, "method": …, "headers": [["Name", "value"], …]}`; or the reason why the server
/// would reject it.
///
/// # Errors
/// The question is malformed.
fn question(asked: &Value, limits: &HeadLimits) -> Result<Result<Request, Reject>, InputError> {
    let url = asked["url"]
        .as_str()
        .ok_or_else(|| InputError::at("url", "\"url\" is missing: http://HOST[:PORT]/PATH."))?;
    let (scheme, rest) = Scheme::split(url).ok_or_else(|| {
        InputError::at(
            "url",
            format!("{:?} is not a URL of this server; write http://HOST[:PORT]/PATH.", shown_target(url)),
        )
    })?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    if authority.contains('*') {
        let detail = format!("{:?} is a pattern, not a URL; write the URL of one page.", shown_target(url));
        return Err(InputError::at("url", detail));
    }
    if target.contains("***") {
        let detail = format!("{url:?} has parts that are hidden (***): replace them with the real ones.");
        return Err(InputError::at("url", detail));
    }
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let method = asked["method"].as_str().unwrap_or("GET").to_owned();
    let mut fields = FieldList::new();
    let none = Vec::new();
    let pairs = asked["headers"].as_array().unwrap_or(&none);
    // As with other tools, a given `Host` replaces the URL's.
    if !pairs.iter().any(|it| it[0].as_str().is_some_and(|it| it.eq_ignore_ascii_case("host"))) {
        fields.push("Host", authority);
    }
    for pair in pairs {
        let (Some(name), Some(value)) = (pair[0].as_str(), pair[1].as_str()) else {
            return Err(InputError::at("headers", "\"headers\" is a list of [name, value]."));
        };
        if value.bytes().any(|it| matches!(it, b'\r' | b'\n' | 0)) {
            let detail = format!(
                "The value of {name:?} in \"headers\" contains a line break or a NUL, which is not valid in a \
                 request."
            );
            return Err(InputError::at("headers", detail));
        }
        fields.push(name, value);
    }
    let target = if method == "CONNECT" { connect_target(scheme, authority) } else { target };
    let mut text = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    text.extend_from_slice(fields.text());
    text.extend_from_slice(b"\r\n");
    // Parsed by the server's own parser, so that invalid requests are rejected here as well.
    let mut storage = FieldStorage::new();
    match request::parse(&text, &HeadLimits { scheme, ..*limits }, &mut storage) {
        Ok(ParsedRequest::Head(head, _)) => Ok(Ok(Request { version: Version::Http11, ..head.to_owned() })),
        Ok(ParsedRequest::Partial) => Err(InputError::at("url", "The request is not complete.")),
        Err(reject) => Ok(Err(reject)),
    }
}

/// A past request, parsed again: the limits may have changed.
fn again(kept: &RecentRequest, limits: &HeadLimits) -> Result<Request, Reject> {
    // Without a host it was HTTP/1.0.
    let version = if kept.fields.contains("host") { 1 } else { 0 };
    let mut text = format!("{} {} HTTP/1.{version}\r\n", kept.method, kept.target).into_bytes();
    text.extend_from_slice(kept.fields.text());
    text.extend_from_slice(b"\r\n");
    let mut storage = FieldStorage::new();
    match request::parse(&text, &HeadLimits { scheme: kept.scheme, ..*limits }, &mut storage)? {
        ParsedRequest::Head(head, _) => {
            let (authority, protocol) = (kept.authority.clone(), kept.protocol.clone());
            Ok(Request { version: Version::Http11, authority, protocol, ..head.to_owned() })
        }
        ParsedRequest::Partial => Err(Reject::HeadTooLarge),
    }
}

/// The only valid target of `CONNECT`: host and port (RFC 9110 section 9.3.6).
fn connect_target(scheme: Scheme, authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|it| it.is_ascii_digit()) => authority.to_owned(),
        _ => format!("{authority}:{}", scheme.default_port()),
    }
}

/// The lines, flags or defaults of the keys in a rule's evidence.
fn deciders(evidence: &str, decided: &Decided) -> Vec<String> {
    let keys = evidence.split(|it: char| !(it.is_ascii_lowercase() || matches!(it, '.' | '_')));
    let known = keys.map(|it| it.trim_matches('.')).filter(|it| larder_config::table::find(it).is_some());
    known.map(|key| format!("{key}: {}", decided.by(key))).collect()
}

fn rules_json(rules: &[TriedRule], decided: &Decided) -> Value {
    rules
        .iter()
        .map(|it| {
            let outcome = match it.outcome {
                RuleOutcome::Passed => "passed",
                RuleOutcome::Decided => "decided",
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
    let tier = |it: &TierContent| {
        let holds = match it.holds {
            KeyContent::Variants(count) => {
                return json!({ "tier": it.tier.name(), "holds": "variants", "count": count });
            }
            KeyContent::Unshared { status, seconds } => {
                let tier = it.tier.name();
                return json!({ "tier": tier, "holds": "unshared", "status": status, "seconds": seconds });
            }
            KeyContent::HitForMiss => "hit-for-miss",
            KeyContent::Nothing => "nothing",
            KeyContent::Response => "response",
            KeyContent::Purged => "purged",
            KeyContent::Unknown => "unknown",
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
        "failure": it.refusal.as_ref().filter(|_| it.stored.is_none()).and_then(|it| it.failure.clone()),
        "settings": settings,
    })
}

/// The target that the origin gets, the changes, and the lines that make them.
fn sent_json(sent: Option<&SentTarget>, route: &RouteConfig) -> Value {
    let Some(sent) = sent else { return Value::Null };
    let has_base = route.origins().any(|it| !it.base.is_empty());
    let changes = |key: &str| {
        rewrite::OF_TARGET.contains(&key)
            || rewrite::OF_FIELDS.contains(&key)
            || key == rewrite::OF_VARIABLES
            || has_base && key == "proxy.to"
    };
    let given = route.decided.iter().filter(|it| it.0.strip_prefix(table::ROUTE).is_some_and(changes));
    let places: BTreeSet<String> = given.map(|it| it.1.to_string()).collect();
    json!({ "target": shown_target(&sent.target), "changes": sent.changes, "where": places })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_the_scheme_of_another_listener_is_misdirected() {
        let clear = "http://127.0.0.1:8080";
        let secure = "https://0.0.0.0:8443";
        for (listeners, scheme, authority, expect) in [
            (&[clear][..], Scheme::Https, "h", true),
            (&[clear], Scheme::Https, "h:8443", true),
            (&[clear], Scheme::Http, "h", false),
            (&[clear], Scheme::Http, "h:1", false),
            (&[secure], Scheme::Http, "h", true),
            (&[secure], Scheme::Https, "h:1", false),
            (&[clear, secure], Scheme::Https, "h", false),
            (&[clear, secure], Scheme::Http, "h:8443", true),
            (&[clear, secure], Scheme::Https, "h:8080", true),
            (&[clear, secure], Scheme::Https, "h:1", false),
            (&[clear, secure], Scheme::Https, "[::8080]", false),
            (&["unix:/run/l"], Scheme::Https, "h", true),
            (&["unix:/run/l"], Scheme::Http, "h:1", false),
            (&["https+proxy://127.0.0.1:1"], Scheme::Https, "h", false),
            (&["https+proxy://127.0.0.1:1"], Scheme::Http, "h:1", true),
            (&[], Scheme::Https, "h", false),
        ] {
            let listeners: Vec<String> = listeners.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(expect, is_misdirected(&listeners, scheme, authority), "{listeners:?} {authority}");
        }
    }
}
