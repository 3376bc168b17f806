//! The statistics as JSON: all counters, by all their scopes. Memory is in `memory`, the same for Prometheus in
//! `prometheus`; the names are documented in docs/statistics.md.

use super::memory::MeasurementAge;
use super::parameters::{Parameter, one_of};
use super::{Admin, AdminRequest, AdminResponse};
use larder_counters::{CounterRow, Counters, OriginCounters, RouteCounters, Snapshot, TierCounters};
use larder_origin::OriginState;
use larder_server::process_privileges::ProcessPrivileges;
use larder_server::route_stats::{ConfigScopes, Drained, OriginScopes, ScopeSums};
use larder_stdx::clock;
use larder_store::disk;
use serde_json::{Map, Value, json};

/// The version of the JSON: increased by incompatible changes.
const VERSION: u64 = 2;

/// How much of the statistics a response has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Everything.
    All,
    /// No sites: a route has the name of its site. Routes without reasons and with coarse buckets: half of the bytes, every few seconds
    /// for each open page.
    Routes,
    /// Neither sites, routes nor origins.
    Totals,
}

/// The parameter for that.
pub(super) const DETAIL: &[Parameter] = &[one_of(
    "detail",
    &["all", "routes", "totals"],
    "routes leaves out `sites` and the `reasons` of routes, and the bounds of `buckets` of routes are a quarter of a power of two apart; totals leaves out `sites`, `routes` and `origins`: these are empty; for both, `memory` was measured within the last 10 seconds",
)];

impl Admin {
    /// `GET /api/v1/stats`, and `GET /cache/stats`.
    pub(super) async fn stats(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let detail = match asked.query_value("detail").as_deref() {
            Some("totals") => Detail::Totals,
            Some("routes") => Detail::Routes,
            _ => Detail::All,
        };
        let age = if detail == Detail::All { MeasurementAge::Now } else { MeasurementAge::Recent };
        let memory = self.memory_json(age).await;
        AdminResponse::Json(200, self.stats_json(detail, memory))
    }

    fn stats_json(&self, detail: Detail, memory: Value) -> Value {
        let live = self.live.borrow().clone();
        let scopes = &live.scopes;
        let shown = if detail == Detail::Totals { 0 } else { scopes.routes.len() };
        let routes: Vec<ScopeSums> = (0..shown).map(|it| scopes.of_route(it)).collect();
        let (now, now_us) = (clock::wall().0, clock::precise_micros());
        let mut all = json!({
            "version": VERSION,
            "now": now,
            "now_us": now_us,
            "uptime": now_us / 1_000_000,
            "listen": *self.public.borrow(),
            "health": super::server_state::json_of(&self.judge_state()),
            "pending": self.server_state.waiting(),
            "statistics": if live.config.statistics { "on" } else { "off" },
            "counters": named(Counters::TABLE, &self.totals.sums()),
            "nodes": self.nodes.as_ref().map(|it| it.standing()),
            "latency": latencies(scopes),
            "totals": totals(scopes),
            "sites": [],
            "routes": [],
            "tiers": self.tiers_json(scopes),
            "origins": [],
            "certificates": [],
            "saved": saved(scopes),
            "privileges": privileges_json(),
            "history": self.history.kept(),
            "memory": memory,
            "ram": {
                "used_bytes": self.gateway.store.used(),
                "usable_bytes": self.gateway.store.usable(),
                "budget_bytes": live.config.ram.budget,
            },
        });
        // `json!` copies what it gets: each of these is large where there are many sites.
        if detail == Detail::All {
            all["sites"] = sites(scopes, &routes).into();
        }
        if detail != Detail::Totals {
            all["origins"] = origins(scopes).into();
        }
        all["routes"] = routes_json(scopes, &routes, detail).into();
        all["certificates"] = self.certificates_json().into();
        all
    }

    pub(super) fn tiers_json(&self, scopes: &ConfigScopes) -> Vec<Value> {
        let live = self.live.borrow();
        let [ram, disk, fleet] = scopes.tiers();
        let store = &self.gateway.store;
        let tier = |name: &str, state: &str, sums: &[u64], own: Value| {
            let mut all =
                Map::from_iter([("name".to_owned(), name.into()), ("state".to_owned(), state.into())]);
            all.extend(named(TierCounters::TABLE, sums));
            if let Value::Object(own) = own {
                all.extend(own);
            }
            Value::Object(all)
        };
        let of_disk = match &self.gateway.tiers.disk {
            None => tier("disk", "off", &disk, Value::Null),
            Some(it) => {
                let (state, why) = match it.state() {
                    disk::DiskState::On => ("on", None),
                    disk::DiskState::HandedOver => ("handed over", None),
                    disk::DiskState::Off(why) => ("failed", Some(why)),
                };
                let budget = live.config.disk.as_ref().map_or(0, |it| it.size);
                let own = json!({
                    "objects": it.objects(), "used_bytes": it.bytes(), "budget_bytes": budget,
                    "queued_bytes": it.queued(), "why": why.as_deref(),
                    "reads_off": it.skips_reads(), "device_full": it.is_device_full(),
                });
                tier("disk", state, &disk, own)
            }
        };
        let of_fleet = match &live.config.fleet {
            None => tier("fleet", "off", &fleet, Value::Null),
            Some(it) => tier("fleet", "on", &fleet, json!({ "servers": it.client.servers.len() })),
        };
        let own = json!({
            "objects": store.objects(), "used_bytes": store.used(), "budget_bytes": live.config.ram.budget,
        });
        vec![tier("ram", "on", &ram, own), of_disk, of_fleet]
    }
}

/// The privileges of the process.
fn privileges_json() -> Value {
    let ProcessPrivileges { uid, gid, groups, capabilities, no_new_privileges, system_call_filter, landlock } =
        ProcessPrivileges::now();
    json!({
        "uid": uid, "gid": gid, "groups": groups, "capabilities": capabilities, "no_new_privileges": no_new_privileges,
        "system_call_filter": system_call_filter, "landlock": landlock,
    })
}

/// Values under the names of their table.
pub(super) fn named(table: &[CounterRow], values: &[u64]) -> Map<String, Value> {
    table.iter().zip(values).map(|(row, value)| (row.name.to_owned(), Value::from(*value))).collect()
}

/// One histogram.
fn histogram(it: &Snapshot) -> Value {
    let mut all = json!({
        "count": it.count(),
        "sum_us": it.sum(),
        "max_us": it.most(),
        "p50_us": it.percentile(0.5),
        "p90_us": it.percentile(0.9),
        "p99_us": it.percentile(0.99),
        "p999_us": it.percentile(0.999),
        "buckets": [],
    });
    all["buckets"] = it.buckets().map(|(bound, count)| Value::from([bound, count].as_slice())).collect();
    all
}

pub(super) fn latencies(scopes: &ConfigScopes) -> Value {
    let times = scopes.times();
    let mut all = Snapshot::default();
    times.iter().for_each(|it| all.add(it));
    let [hit, miss, pass, other] = &times;
    json!({
        "all": histogram(&all), "hit": histogram(hit), "miss": histogram(miss), "pass": histogram(pass),
        "other": histogram(other),
    })
}

/// The sums of all routes, of what no counter of the process has.
pub(super) fn totals(scopes: &ConfigScopes) -> Value {
    let (mut errors_4xx, mut errors_5xx, mut could_be_hits, mut revalidated) = (0, 0, 0, 0);
    for route in 0..scopes.routes.len() {
        let counters = scopes.counters_of(route);
        errors_4xx += value(RouteCounters::TABLE, &counters, "errors_4xx");
        errors_5xx += value(RouteCounters::TABLE, &counters, "errors_5xx");
        revalidated += value(RouteCounters::TABLE, &counters, "revalidated");
        could_be_hits += could_be(scopes, route);
    }
    json!({
        "errors_4xx": errors_4xx, "errors_5xx": errors_5xx, "could_be_hits": could_be_hits, "revalidated": revalidated,
    })
}

/// The origin time that hits saved: that of the tiers, all of which a reload keeps.
pub(super) fn saved(scopes: &ConfigScopes) -> Value {
    let saved = |it: &Vec<u64>| value(TierCounters::TABLE, it, "saved_us");
    json!({ "origin_us": scopes.tiers().iter().map(saved).sum::<u64>() })
}

/// The requests of a route that could have been hits.
fn could_be(scopes: &ConfigScopes, route: usize) -> u64 {
    let sums = scopes.advice_of(route);
    scopes.reasons_of(route).iter().map(|it| sums.could_be_hits(it.row.reason, it.requests)).sum()
}

fn sites(scopes: &ConfigScopes, routes: &[ScopeSums]) -> Vec<Value> {
    let one = |it: &larder_server::route_stats::SiteScope| {
        let mut numbers = it.routes.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let mut counters = vec![0; RouteCounters::TABLE.len()];
        let mut latency = Snapshot::default();
        for route in numbers.iter().map(|it| &routes[*it]) {
            counters.iter_mut().zip(&route.counters).for_each(|(sum, it)| *sum += it);
            latency.add(&route.latency);
        }
        let mut all = json!({ "name": it.name, "routes": numbers, "counters": {}, "latency": {} });
        all["counters"] = named(RouteCounters::TABLE, &counters).into();
        all["latency"] = histogram(&latency);
        all
    };
    scopes.sites.iter().map(one).collect()
}

pub(super) fn routes_json(scopes: &ConfigScopes, routes: &[ScopeSums], detail: Detail) -> Vec<Value> {
    let is_whole = detail == Detail::All;
    let one = |(at, it, sums): (usize, &larder_server::route_stats::RouteScopes, &ScopeSums)| {
        let kind = it.kind.name();
        let reasons = scopes.reasons_of(at);
        let mut latency = histogram(&sums.latency);
        if !is_whole {
            latency["buckets"] = sums.latency.coarse_buckets().map(|it| json!([it.0, it.1])).collect();
        }
        let mut all = json!({
            "name": it.name, "path": it.identity.path, "methods": it.identity.methods, "when": it.identity.when,
            "listeners": it.identity.listeners, "site": it.site, "site_name": scopes.sites.get(it.site).map_or("", |it| &*it.name), "kind": kind,
            "origin": it.origins.first(), "origins": it.origins,
            "counters": {}, "latency": {},
            "saved_us": value(RouteCounters::TABLE, &sums.counters, "saved_us"),
            "reasons": if is_whole { super::why::counts(&reasons) } else { Map::new() },
            "could_be_hits": could_be(scopes, at),
        });
        all["counters"] = named(RouteCounters::TABLE, &sums.counters).into();
        all["latency"] = latency;
        all
    };
    scopes.routes.iter().enumerate().zip(routes).map(|((at, it), sums)| one((at, it, sums))).collect()
}

pub(super) fn origins(scopes: &ConfigScopes) -> Vec<Value> {
    let one = |(at, it): (usize, &OriginScopes)| {
        let sums = scopes.of_origin(at);
        let mut details = origin_json(it);
        details["routes"] = json!(it.routes);
        details["counters"] = named(OriginCounters::TABLE, &sums.counters).into();
        details["latency"] = histogram(&sums.latency);
        details
    };
    scopes.origins.iter().enumerate().map(one).collect()
}

/// The state of one origin.
pub(super) fn origin_json(it: &OriginScopes) -> Value {
    let state = it.state();
    let left = match state {
        OriginState::Ejected(left) => u64::try_from(left.as_millis()).ok(),
        _ => None,
    };
    json!({
        "name": it.name, "state": state.name(), "ejected_ms": left, "protocol": it.protocol(),
        "drained_by": it.drained_by().map(Drained::name), "in_flight": it.standing.in_flight(), "ejections": it.standing.ejections(),
    })
}

/// One value, by its name; zero if the table lacks it.
fn value(table: &[CounterRow], values: &[u64], name: &str) -> u64 {
    table.iter().zip(values).find(|it| it.0.name == name).map_or(0, |it| *it.1)
}
