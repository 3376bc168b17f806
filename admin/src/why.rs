//! `GET /api/v1/why`: the reasons for which requests reached origins lately, by route, with an example of each. The list of reasons is
//! `semantics::miss_reason`; their counts since the start are in the statistics.

use super::recent_counts::{self, RecentRoute};
use super::{Admin, AdminResponse};
use larder_counters::ExampleRequest;
use larder_semantics::miss_reason::{MissReason, REASONS};
use larder_server::route_stats::{ConfigScopes, ReasonSum};
use larder_stdx::clock;
use serde_json::{Map, Value, json};

/// The response.
pub(super) const WHY: &str = r#"{"type":"object","description":"counts are those of the last 30 to 60 minutes","required":["now","uptime","seconds","retries","reasons","routes"],"properties":{
"seconds":{"type":"integer","description":"the time in which these were counted"},
"retries":{"type":"integer","description":"requests that an origin got a second time, because it had closed the reused connection; each has one reason"},
"now":{"type":"integer"},"uptime":{"type":"integer"},"statistics":{"enum":["on","off"]},
"reasons":{"type":"array","items":{"type":"object","required":["name","class","sentence","change"],"properties":{
"name":{"type":"string"},"class":{"enum":["needed","by-configuration","by-request","by-response","could-be-hit","shared"]},
"sentence":{"type":"string"},"change":{"type":"string"}}}},
"routes":{"type":"array","items":{"type":"object","required":["name","site","seconds","requests","hits","origin_requests","reasons"],"properties":{
"seconds":{"type":"integer","description":"as above; since the last change of the route's settings of the cache, if that is shorter"},"name":{"type":"string"},"site":{"type":"string"},"path":{"type":"string"},"methods":{"type":"array","items":{"type":"string"}},
"when":{"type":"string"},"requests":{"type":"integer"},"hits":{"type":"integer"},"origin_requests":{"type":"integer"},
"reasons":{"type":"array","items":{"type":"object","required":["reason","requests","could_be_hits","origin_us","evidence","example"],"properties":{
"reason":{"type":"string"},"requests":{"type":"integer"},"could_be_hits":{"type":"integer","description":"those of them that could have been hits: by the class of the reason, or as recent requests show"},
"evidence":{"type":["string","null"],"description":"where cookies are the reason, the last judgement about recent requests"},"origin_us":{"type":"integer"},
"example":{"type":["object","null"],"required":["time","method","url"],"properties":{
"time":{"type":"integer"},"method":{"type":"string"},"url":{"type":"string"}}}}}}}}}}}"#;

impl Admin {
    /// The recent reasons of all routes.
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
        self.advance_counts(&live);
        let mut routes: Vec<_> = recent_counts::configs(&live).into_iter().collect();
        routes.sort_unstable_by_key(|it| it.0);
        let routes = routes.into_iter().map(|(at, it)| route(scopes, at, &self.recent_counts(&live, at, it)));
        let routes: Vec<Value> = routes.collect();
        let (retries, seconds) = self.recent_retries();
        AdminResponse::Json(
            200,
            json!({
                "now": clock::wall().0, "uptime": clock::precise_micros() / 1_000_000, "seconds": seconds,
                "statistics": if live.config.statistics { "on" } else { "off" },
                "retries": retries, "reasons": reasons, "routes": routes,
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

fn route(scopes: &ConfigScopes, at: usize, recent: &RecentRoute) -> Value {
    let (it, counts) = (&scopes.routes[at], &recent.counts);
    let examples = scopes.examples_of(at);
    let reasons: Vec<Value> = counts
        .reasons
        .iter()
        .map(|sum| {
            let example = examples.get(sum.reason.index()).cloned().flatten();
            json!({
                "reason": sum.reason.name(), "requests": sum.requests,
                "could_be_hits": counts.sums.could_be_hits(sum.reason, sum.requests),
                "origin_us": sum.micros, "evidence": evidence(scopes, at, sum.reason),
                "example": example.map(to_json),
            })
        })
        .collect();
    json!({
        "name": it.name, "site": scopes.sites[it.site].name, "path": it.identity.path, "methods": it.identity.methods,
        "when": it.identity.when, "seconds": recent.seconds, "requests": counts.requests, "hits": counts.hits,
        "origin_requests": counts.origin_requests, "reasons": reasons,
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
