//! `explain`: the choice of the route of a request, with the file and line of what decides, and the response to a request
//! without a route.

use super::{Admin, refused};
use crate::AdminResponse;
use larder_config::client_fact::ClientFact;
use larder_config::{Methods, RouteConfig, Source};
use larder_observe::recent::RecentRequest;
use larder_semantics::captures::Captures;
use larder_semantics::expression::Expression;
use larder_semantics::field::Field;
use larder_semantics::geo::GeoLookup;
use larder_semantics::request_view::{RequestView, host_of, normal_path};
use larder_semantics::scheme::Scheme;
use larder_server::own_answer;
use larder_server::router::{Matched, NoRoute, Router};
use larder_stdx::clock;
use larder_wire::message::Request;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// The recorded requests among which those for a host without a site are counted, and their greatest age, microseconds.
const MOST_UNMATCHED: usize = 512;
const UNMATCHED_AGE: u64 = 60_000_000;

/// The sender of an explained request, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct ExplainedSender {
    /// Its address.
    pub client: Option<IpAddr>,
    /// The listener, in the notation of the configuration.
    pub listener: String,
}

impl ExplainedSender {
    /// The sender named by a question; otherwise the listener is the one of the URL's port, or the first of its scheme.
    ///
    /// # Errors
    /// The key of the question that is wrong, and one sentence.
    pub(super) fn of(
        asked: &Value,
        scheme: Scheme,
        authority: &str,
        listeners: &[String],
    ) -> Result<Self, (&'static str, String)> {
        let text = |key: &'static str, form: &str| match &asked[key] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            other => Err((key, format!("\"{key}\" is {other}; use {form}."))),
        };
        let address = "the IP address of a client, such as \"192.0.2.7\", or \"unix\"";
        let client = match text("client", address)?.as_deref() {
            None => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Some("unix") => None,
            Some(it) => match it.parse() {
                Ok(it) => Some(it),
                Err(_) => return Err(("client", format!("\"client\" is {it:?}; use {address}."))),
            },
        };
        if let Some(listener) = text("listener", "a listener, as in listen")? {
            let short = |it: &String| it.strip_prefix("http://").unwrap_or(it).to_owned();
            if !listeners.iter().any(|it| *it == listener || short(it) == listener) {
                let known: Vec<_> = listeners.iter().map(short).collect();
                let text = format!("\"listener\" is {listener:?}; use one of listen: {}.", known.join(", "));
                return Err(("listener", text));
            }
            return Ok(Self { client, listener: short(&listener) });
        }
        let port = authority.rsplit_once(':').map_or(scheme.default_port(), |it| it.1);
        let prefix = format!("{}://", scheme.name());
        let of_scheme = || listeners.iter().filter(|it| it.starts_with(&prefix));
        let at_port = of_scheme().find(|it| it.rsplit_once(':').is_some_and(|it| it.1 == port));
        let listener = at_port.or_else(|| of_scheme().next()).or_else(|| listeners.first());
        let listener = listener.map_or("", |it| it.strip_prefix("http://").unwrap_or(it));
        Ok(Self { client, listener: listener.to_owned() })
    }

    pub(super) fn view<'a>(
        &'a self,
        request: &'a Request,
        fields: &'a [Field<'a>],
        geo: Option<&'a GeoLookup>,
    ) -> RequestView<'a> {
        RequestView {
            method: &request.method,
            scheme: request.scheme,
            authority: &request.authority,
            target: &request.target,
            fields,
            client: self.client,
            listener: &self.listener,
            geo,
            ..RequestView::default()
        }
    }
}

impl Admin {
    /// The choice of a route: its conditions, its captures, and the earlier routes for the same path that do not take the
    /// request.
    pub(super) fn matching(
        &self,
        router: &Router,
        (site, route): (usize, usize),
        view: &RequestView<'_>,
    ) -> Value {
        let live = self.live.borrow();
        let Some(of) = live.config.sites.get(site) else { return Value::Null };
        let (routes, varies) = (&of.routes, live.config.varies(of, Some(route)));
        let Some(chosen) = routes.get(route) else { return Value::Null };
        let case = varies.case(view.target);
        let private = chosen.finish.made_private_by(varies.fact(case)).map(ClientFact::reason);
        let varies = varies.names(case);
        let by_access: Vec<&str> = chosen.fields_of_access().collect();
        let mut room = Vec::new();
        let path = normal_path(view.target, &mut room);
        let view = &RequestView { path, ..*view };
        // A CORS preflight belongs to the route of the request that it is about.
        let preflighted = own_answer::preflighted(view).filter(|_| chosen.finish.cors.is_some());
        let asked = RequestView { method: preflighted.unwrap_or(view.method), ..*view };
        let passed = passed_over(&routes[..route], router, &asked);
        let methods = match &chosen.methods {
            Methods::Any => Value::Null,
            Methods::Only(these) => json!(these),
        };
        json!({
            "path": chosen.path.to_string(),
            "methods": methods,
            "when": chosen.when.as_ref().map(Expression::shown),
            "listeners": chosen.listeners,
            "where": place(chosen),
            "captures": chosen.path.captures(path).map(|it| captures(&it, chosen.path.names())),
            "passed_over": passed,
            "vary": varies,
            "vary_by_access": by_access,
            "private": private,
        })
    }

    /// The response to a request without a route, with the routes of its path and the keys that exclude it.
    pub(super) fn unmatched(&self, router: &Router, view: &RequestView<'_>) -> AdminResponse {
        let no_route = router.no_route(view);
        let live = self.live.borrow();
        let site = router.site_at(view.authority);
        let mut room = Vec::new();
        let path = normal_path(view.target, &mut room);
        let view = &RequestView { path, ..*view };
        let routes = site.and_then(|it| live.config.sites.get(it)).map_or(&[][..], |it| &it.routes);
        let passed = passed_over(routes, router, view);
        let mut explained = match no_route {
            NoRoute::Nothing if passed.is_empty() => {
                let host = host_of(view.authority);
                let sentence = match site {
                    Some(_) => {
                        let path = String::from_utf8_lossy(path);
                        format!("The site of {host} has no route for {path}.")
                    }
                    None => format!("No site has the host {host}."),
                };
                let mut explained = refused(404, &sentence);
                explained["unmatched"] = self.unmatched_advice(host, site.is_none()).into();
                explained
            }
            NoRoute::Nothing => refused(404, "No route of this path takes the request."),
            NoRoute::Method(these) => {
                let these = these.join(", ");
                refused(405, &format!("The routes of this path accept {these}, not {}.", view.method))
            }
        };
        explained["site"] = json!(site);
        explained["matched"] = json!({ "passed_over": passed });
        AdminResponse::Json(200, explained)
    }
}

impl Admin {
    /// The number of such requests, and the key that admits them.
    fn unmatched_advice(&self, host: &str, is_unknown: bool) -> String {
        if !is_unknown {
            return "A route with this `site.route.path` in the site admits it.".to_owned();
        }
        let since = clock::unix_micros(clock::precise_micros()).saturating_sub(UNMATCHED_AGE);
        let is_recent = |it: &RecentRequest| {
            let record: Value = serde_json::from_slice(&it.then).unwrap_or_default();
            record["time_us"].as_u64().is_some_and(|it| it >= since)
        };
        let all = self.recent.newest(MOST_UNMATCHED);
        let count = all
            .iter()
            .filter(|it| host_of(&it.authority).eq_ignore_ascii_case(host) && is_recent(it))
            .count();
        let seen = match count {
            0 => {
                "None of the requests that were recorded within the last minute was for this host".to_owned()
            }
            1 => "One request for this host was recorded within the last minute".to_owned(),
            it => format!("{it} requests for this host were recorded within the last minute"),
        };
        format!("{seen}. A site with this host, or the host in `site.hosts` of another one, admits them.")
    }
}

/// The file and line of each key that chooses the requests of a route.
fn place(route: &RouteConfig) -> Value {
    let of = |key: &str| {
        let by = route.decided.by(&format!("site[].route[].{key}"));
        if by == Source::Default { Value::Null } else { by.to_string().into() }
    };
    json!({
        "route": route.source.to_string(),
        "path": of("path"),
        "methods": of("methods"),
        "when": of("when"),
        "listeners": of("listeners"),
        "access": Some(of("access.allow_when")).filter(|it| !it.is_null()).unwrap_or_else(|| of("access.deny_when")),
    })
}

/// Those of a site's first routes that are for the path of a request, with the keys that exclude the request.
fn passed_over(routes: &[RouteConfig], router: &Router, view: &RequestView<'_>) -> Vec<Value> {
    let live = router.routes(view.authority);
    let is_for_path = |it: &(&RouteConfig, &Matched)| it.1.is_for_path(view.path);
    routes.iter().zip(live).filter(is_for_path).map(|it| excluded(it.0, view)).collect()
}

/// A route, and the key that excludes the request from it.
fn excluded(route: &RouteConfig, view: &RequestView<'_>) -> Value {
    let is_listener = route.listeners.is_empty() || route.listeners.iter().any(|it| it == view.listener);
    let (key, sentence) = if !route.methods.allow(view.method) {
        ("methods", format!("it does not accept {}", view.method))
    } else if !is_listener {
        ("listeners", format!("the request arrives at {}", view.listener))
    } else if let Some(when) = route.when.as_ref().filter(|it| !it.holds(view)) {
        ("when", format!("the condition is false: {}", when.shown()))
    } else {
        ("files.fall_through", "its directory has no file for the path".to_owned())
    };
    let given = route.decided.by(&format!("site[].route[].{key}"));
    // A key without a line has its default, in the route that begins there.
    let place = if given == Source::Default { route.source.clone() } else { given };
    json!({
        "route": route.name, "path": route.path.to_string(), "key": format!("site.route.{key}"), "sentence": sentence,
        "where": place.to_string(),
    })
}

fn captures(found: &Captures<'_>, names: &[Box<str>]) -> Value {
    let row = |(at, name): (usize, &str)| {
        let name = if name.is_empty() { (at + 1).to_string() } else { name.to_string() };
        (name, Value::from(String::from_utf8_lossy(found.number(at + 1)).into_owned()))
    };
    names.iter().map(|it| &**it).enumerate().map(row).collect::<serde_json::Map<_, _>>().into()
}
