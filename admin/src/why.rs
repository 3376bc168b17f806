//! `GET /api/v1/why`: the reasons for which requests reached origins, by route, with an example of each. The list of reasons is
//! `semantics::miss_reason`; their counts alone are also in the statistics.

use super::{Admin, AdminResponse};
use larder_counters::{ExampleRequest, RouteCounters};
use larder_semantics::miss_reason::{MissReason, REASONS};
use larder_server::route_stats::{ConfigScopes, ReasonSum};
use larder_stdx::clock;
use serde_json::{Map, Value, json};

/// The response.
pub(super) const WHY: &str = r#"{"type":"object","required":["now","uptime","retries","reasons","routes"],"properties":{
"retries":{"type":"integer","description":"requests that an origin got a second time, because it had closed the reused connection; each has one reason"},
"now":{"type":"integer"},"uptime":{"type":"integer"},"statistics":{"enum":["on","off"]},
"reasons":{"type":"array","items":{"type":"object","required":["name","class","sentence","change"],"properties":{
"name":{"type":"string"},"class":{"enum":["needed","by-configuration","by-request","by-response","could-be-hit","shared"]},
"sentence":{"type":"string"},"change":{"type":"string"}}}},
"routes":{"type":"array","items":{"type":"object","required":["name","site","requests","hits","origin_requests","reasons"],"properties":{
"name":{"type":"string"},"site":{"type":"string"},"path":{"type":"string"},"methods":{"type":"array","items":{"type":"string"}},
"when":{"type":"string"},"requests":{"type":"integer"},"hits":{"type":"integer"},"origin_requests":{"type":"integer"},
"reasons":{"type":"array","items":{"type":"object","required":["reason","requests","could_be_hits","origin_us","evidence","example"],"properties":{
"reason":{"type":"string"},"requests":{"type":"integer"},"could_be_hits":{"type":"integer","description":"those of them that could have been hits: by the class of the reason, or as recent requests show"},
"evidence":{"type":["string","null"],"description":"where cookies are the reason, the last judgement about recent requests"},"origin_us":{"type":"integer"},
"example":{"type":["object","null"],"required":["time","method","url"],"properties":{
"time":{"type":"integer"},"method":{"type":"string"},"url":{"type":"string"}}}}}}}}}}}"#;

impl Admin {
    /// The reasons of all routes since the counters began.
    pub(super) fn reasons(&self) -> AdminResponse {
        let live = self.live.borrow().clone();
        let scopes = &live.scopes;
        let reasons: Vec<Value> = REASONS
            .iter()
            .map(|it| {
                json!({
                    "name": it.name, "class": it.class.name(), "sentence": it.sentence,
                    "change": it.change,
                })
            })
            .collect();
        let routes: Vec<Value> = (0..scopes.routes.len()).map(|it| route(scopes, it)).collect();
        AdminResponse::Json(
            200,
            json!({
                "now": clock::wall().0, "uptime": clock::precise_micros() / 1_000_000,
                "statistics": if live.config.statistics { "on" } else { "off" },
                "retries": self.totals.sum_of(|it| &it.origin_retries), "reasons": reasons, "routes": routes,
            }),
        )
    }
}

/// Requests and microseconds by the name of the reason.
pub(super) fn counts(sums: &[ReasonSum]) -> Map<String, Value> {
    let one =
        |it: &ReasonSum| (it.row.name.to_owned(), json!({ "requests": it.requests, "origin_us": it.micros }));
    sums.iter().map(one).collect()
}

fn route(scopes: &ConfigScopes, at: usize) -> Value {
    let (it, sums) = (&scopes.routes[at], scopes.of_route(at));
    let value = |name: &str| {
        let values = RouteCounters::TABLE.iter().zip(&sums.counters);
        values.filter(|it| it.0.name == name).map(|it| *it.1).next().unwrap_or(0)
    };
    let examples = scopes.examples_of(at);
    let reasons: Vec<Value> = scopes
        .reasons_of(at)
        .iter()
        .map(|sum| {
            let example = examples.get(sum.row.reason.index()).cloned().flatten();
            json!({
                "reason": sum.row.name, "requests": sum.requests, "could_be_hits": scopes.could_be_of(at, sum),
                "origin_us": sum.micros, "evidence": evidence(scopes, at, sum.row.reason),
                "example": example.map(to_json),
            })
        })
        .collect();
    json!({
        "name": it.name, "site": scopes.sites[it.site].name, "path": it.identity.path, "methods": it.identity.methods,
        "when": it.identity.when, "requests": value("requests"), "hits": value("hits"),
        "origin_requests": value("origin_requests"), "reasons": reasons,
    })
}

/// The evidence about requests with this reason, where cookies are the reason.
fn evidence(scopes: &ConfigScopes, route: usize, reason: MissReason) -> Option<String> {
    let of_cookies = matches!(reason, MissReason::PrivateCookie | MissReason::Credentials);
    scopes.needless_of(route).filter(|_| of_cookies)?.sentence()
}

fn to_json(it: ExampleRequest) -> Value {
    json!({ "time": it.time, "method": it.method, "url": it.url })
}
