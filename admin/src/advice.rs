//! `GET /api/v1/advice`: findings from what is counted, each with its changes. The findings are `semantics::advice`; here are the
//! counted facts, and the JSON.

use super::config::{RoutePlace, change};
use super::{Admin, AdminResponse};
use larder_config::{Config, RouteConfig, memory_left};
use larder_semantics::advice::{
    self, Advice, AdviceFacts, CountedRoute, Finding, ReasonCount, SafeChange, SafeSetting,
};
use larder_semantics::policy::CredentialUse;
use larder_server::route_stats::{AdviceSums, ConfigScopes};
use larder_stdx::clock;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The response.
pub(super) const ADVICE: &str = concat!(
    r#"{"type":"object","required":["now","uptime","statistics","findings","rightly"],"properties":{
"now":{"type":"integer"},"uptime":{"type":"integer"},"statistics":{"enum":["on","off"]},
"findings":{"type":"array","description":"those that save requests first, most requests first","items":{"type":"object","required":["name","sentence","route","saves","requests","per_hour","origin_us","from","changes"],"properties":{
"name":{"type":"string"},"sentence":{"type":"string"},"route":{"type":["string","null"],"description":"null for a finding about the server"},
"saves":{"enum":["requests","bytes"],"description":"requests to the origin, or bytes of the counted responses"},
"requests":{"type":"integer","description":"the requests since the start that the changes would have helped, at most; for bytes the stored responses that would be smaller"},
"per_hour":{"type":"integer"},"origin_us":{"type":"integer"},"from":{"type":"string","description":"the counted figure of these requests"},
"changes":{"type":"array","items":"#,
    change!(),
    r#"}}}},
"rightly":{"type":"array","description":"requests that are rightly no hits, most first","items":{"type":"object","required":["route","reason","sentence","requests"],"properties":{
"route":{"type":"string"},"reason":{"type":"string"},"sentence":{"type":"string"},"requests":{"type":"integer"}}}}}}"#
);

/// The facts of one route.
struct KnownRoute<'a> {
    config: &'a RouteConfig,
    site: usize,
    place: RoutePlace,
    reasons: Vec<ReasonCount>,
    sums: AdviceSums,
    /// The cookies that it removes although its application sets them, and how often that was.
    removed: (Vec<String>, u64),
    differs: bool,
    /// Whether the trial of what would be proposed has found danger.
    is_red: bool,
}

impl KnownRoute<'_> {
    fn counted(&self) -> CountedRoute<'_> {
        CountedRoute {
            policy: &self.config.cache,
            reasons: &self.reasons,
            analytics: self.sums.analytics,
            parameters: self.sums.parameters,
            cookies: self.sums.cookies,
            plain: self.sums.plain,
            anonymous: self.sums.anonymous,
            removed_cookies: &self.removed.0,
            removals: self.removed.1,
            differs: self.differs,
            is_red: self.is_red,
        }
    }
}

impl Admin {
    /// The advice for the counted requests since the start. A change that would share responses is tried on recent requests first.
    pub(super) async fn advice(&self) -> AdminResponse {
        let live = self.live.borrow().clone();
        let mut known = self.known_routes(&live.config.sites, &live.scopes);
        let mut found = advised(&live.config, &known, self.full_disk());
        let sharing: Vec<(RoutePlace, Vec<SafeSetting>)> = found
            .findings
            .iter()
            .filter(|it| it.kind.shares())
            .filter_map(|it| Some((known[it.route?].place, settings_of(it))))
            .collect();
        if !sharing.is_empty() {
            let tried: HashSet<RoutePlace> = sharing.iter().map(|it| it.0).collect();
            // A change that cannot be tried is not proposed.
            let red = self.red_routes(sharing).await.unwrap_or(tried);
            known.iter_mut().for_each(|it| it.is_red = red.contains(&it.place));
            found = advised(&live.config, &known, self.full_disk());
        }
        let uptime = clock::precise_micros() / 1_000_000;
        let findings: Vec<Value> = found
            .findings
            .iter()
            .map(|it| {
                let route = it.route.map(|at| &known[at]);
                let at = route.map(|it| (it.site, it.config.number));
                json!({
                    "name": it.kind.name(), "sentence": it.kind.sentence(), "route": route.map(|it| &it.config.name),
                    "saves": it.kind.saves().name(), "requests": it.requests, "per_hour": per_hour(it.requests, uptime), "origin_us": it.micros,
                    "from": it.kind.figure(),
                    "changes": it.changes.iter().map(|it| self.advised(it, at)).collect::<Vec<_>>(),
                })
            })
            .collect();
        let rightly: Vec<Value> = found
            .rightly
            .iter()
            .map(|it| {
                let row = it.count.reason.row();
                json!({
                    "route": known[it.route].config.name, "reason": row.name, "sentence": row.sentence,
                    "requests": it.count.requests,
                })
            })
            .collect();
        AdminResponse::Json(
            200,
            json!({
                "now": clock::wall().0, "uptime": uptime,
                "statistics": if live.config.statistics { "on" } else { "off" },
                "findings": findings, "rightly": rightly,
            }),
        )
    }

    /// The routes of the configuration, each with its counts; one that repeats another is left out.
    fn known_routes<'a>(
        &self,
        sites: &'a [larder_config::SiteConfig],
        scopes: &ConfigScopes,
    ) -> Vec<KnownRoute<'a>> {
        let mut known: Vec<KnownRoute<'a>> = Vec::new();
        let mut seen = vec![false; scopes.routes.len()];
        for (site, of_site) in sites.iter().enumerate() {
            for (number, (config, at)) in of_site.routes.iter().zip(&scopes.sites[site].routes).enumerate() {
                if std::mem::replace(&mut seen[*at], true) {
                    continue;
                }
                let sums = scopes.advice_of(*at);
                let count = |it: &larder_server::route_stats::ReasonSum| ReasonCount {
                    reason: it.row.reason,
                    requests: it.requests,
                    micros: it.micros,
                };
                known.push(KnownRoute {
                    config,
                    site,
                    place: (site, number),
                    is_red: false,
                    reasons: scopes.reasons_of(*at).iter().map(count).collect(),
                    sums,
                    removed: self.gateway.refusals.removed_cookies.of(&config.name, &config.cache),
                    differs: sums.changed > 0
                        || self.gateway.refusals.differ(&config.name)
                        || knows_clients(config),
                });
            }
        }
        known
    }
}

fn settings_of(finding: &Finding) -> Vec<SafeSetting> {
    finding.changes.iter().flat_map(SafeChange::settings).cloned().collect()
}

/// The advice for the counts of these routes.
fn advised(config: &Config, known: &[KnownRoute<'_>], full_disk: Option<u64>) -> Advice {
    let routes: Vec<CountedRoute<'_>> = known.iter().map(KnownRoute::counted).collect();
    let ram_size = config.ram.budget;
    advice::advise(&AdviceFacts {
        routes: &routes,
        ram_size,
        ram_limit: ram_size.saturating_add(memory_left().unwrap_or(0) / 2),
        has_disk: config.disk.is_some(),
        full_disk,
    })
}

/// Whether a route knows its clients by other means than cookies and `Authorization`, so that a page may depend on them.
pub(super) fn knows_clients(route: &RouteConfig) -> bool {
    route.cache.credentials != CredentialUse::None
        || route.tells_certificate
        || route.access.forward.is_some()
}

fn per_hour(requests: u64, seconds: u64) -> u64 {
    (u128::from(requests) * 3600 / u128::from(seconds.max(1))).try_into().unwrap_or(u64::MAX)
}
