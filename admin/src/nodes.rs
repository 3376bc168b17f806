//! `GET /api/v1/nodes`: the nodes of the fleet and the memcached servers, as this node knows them from the servers. The facts about nodes for
//! the state of the server are made of the same list.

use super::{Admin, AdminResponse};
use larder_counters::Counters;
use larder_semantics::server_state::{NodeFact, ServerStateReport, StateWord};
use larder_server::cluster::{FleetView, LogServerRow};
use larder_server::node_records::{NodeFigures, NodeRow, VERSION};
use larder_server::node_registry::{KnownStatus, Presence};
use larder_stdx::clock;
use larder_wire::node_status::{NodeStatus, TierUse};
use serde_json::{Value, json};

/// The response.
pub(super) const NODES: &str = r#"{"type":"object","required":["now","shared","why","servers","nodes"],"properties":{
"now":{"type":"integer"},"shared":{"type":"boolean","description":"whether this node follows purge logs, and therefore knows other nodes"},
"why":{"type":["string","null"],"description":"why it does not"},
"read_ms":{"type":["integer","null"],"description":"milliseconds since the records were read; null before the first time"},
"damaged_records":{"type":"integer","description":"records that are damaged or of no node"},
"servers":{"type":"array","items":{"type":"object","required":["name","followed","entries","in_use"],"properties":{
"name":{"type":"string"},"followed":{"type":"boolean","description":"whether its purge log was read to its end within the lease"},
"in_use":{"type":"boolean","description":"whether pages are looked up there"},"entries":{"type":["integer","null"],"description":"number of the last entry of its log"}}}},
"nodes":{"type":"array","items":{"type":"object","required":["id","name","self","presence","status","state","differs"],"properties":{
"id":{"type":"string","description":"random, of its run"},"name":{"type":"string"},"self":{"type":"boolean"},
"presence":{"type":"string","enum":["live","found","silent","left","unknown"],"description":"found: not seen to report yet; unknown: this node can read no server"},
"since_ms":{"type":["integer","null"],"description":"milliseconds since its last report, or since it left"},
"since_is_exact":{"type":"boolean","description":"false: it has not reported for longer than this node looks"},
"reported":{"type":"integer","description":"the time of its last report by this node's clock, Unix time"},
"status":{"type":"string","enum":["known","awaited","older-version","later-version","damaged"],"description":"the following are null if it is not known"},
"state":{"type":["string","null"],"enum":["healthy","degraded","failing",null]},"finding":{"type":["string","null"],"description":"the name of its worst finding"},
"version":{"type":["string","null"]},"envelope":{"type":["integer","null"]},"pid":{"type":["integer","null"]},
"started":{"type":["integer","null"],"description":"Unix time by this node's clock"},"uptime":{"type":["integer","null"],"description":"seconds, at its last report"},
"requests_per_second":{"type":["number","null"],"description":"within the last minute"},"hit_ratio":{"type":["number","null"],"description":"hits in hits, misses and passes of the last minute, from 0 to 1"},
"ram":{"type":["object","null"],"properties":{"used_bytes":{"type":"integer"},"budget_bytes":{"type":"integer"}}},
"disk":{"type":["object","null"],"properties":{"used_bytes":{"type":"integer"},"budget_bytes":{"type":"integer"}}},
"in_sync":{"type":["boolean","null"],"description":"whether it follows enough purge logs to use stored responses without validation"},
"clock_off":{"type":["integer","null"],"description":"seconds by which its clock is ahead of this node's, if they differ by 10 or more"},
"lags":{"type":"array","description":"by server: its distance to the end of the purge log; null where it follows none","items":{"type":["object","null"],"properties":{
"entries":{"type":"integer"},"ms":{"type":"integer","description":"milliseconds since the first entry that it has not applied was read here"}}}},
"differs":{"type":"array","items":{"type":"string","enum":["servers","keys","envelope","version"]}}}}}}}"#;

impl Admin {
    /// The nodes, or the reason for which there is no list.
    pub(super) fn nodes(&self) -> AdminResponse {
        let live = self.live.borrow().clone();
        let look = self.nodes.as_ref().map(|it| it.look());
        let why = match (&look, &live.config.fleet) {
            (Some(_), _) => None,
            (None, None) => Some(
                "cache.fleet.servers is not set: nodes with the same memcached servers share their pages and purges, and are listed \
                 here.",
            ),
            (None, Some(fleet)) if !fleet.purge_log => Some(
                "cache.fleet.purge_log is false: this node shares pages with others, but neither purges nor its status.",
            ),
            (None, Some(_)) => {
                Some("The purge logs of cache.fleet.servers are followed after the next restart.")
            }
        };
        let now = clock::wall().0;
        let Some(FleetView { servers, nodes, read, damaged }) = look else {
            return AdminResponse::Json(
                200,
                json!({ "now": now, "shared": false, "why": why, "servers": [], "nodes": [] }),
            );
        };
        let down: Vec<bool> = self.memcached().0.iter().map(|it| it.is_down).collect();
        let server = |(at, it): (usize, &LogServerRow)| {
            let in_use = !down.get(at).copied().unwrap_or(false);
            json!({ "name": it.name, "followed": it.is_followed, "entries": it.entries, "in_use": in_use })
        };
        AdminResponse::Json(
            200,
            json!({
                "now": now, "shared": true, "why": why, "read_ms": read, "damaged_records": damaged,
                "servers": servers.iter().enumerate().map(server).collect::<Vec<_>>(),
                "nodes": nodes.iter().map(|it| node(it, now)).collect::<Vec<_>>(),
            }),
        )
    }

    /// The facts about nodes.
    pub(super) fn node_facts(&self) -> Vec<NodeFact> {
        let look = self.nodes.as_ref().map(|it| it.look());
        let nodes = look.into_iter().flat_map(|it| it.nodes);
        let fact = |it: NodeRow| {
            let silent = matches!(it.view.presence, Presence::Silent { .. }).then_some(it.view.reported);
            let version = status_of(&it).map(|it| it.version.to_string());
            let clock_off = it.view.clock_off.filter(|_| silent.is_none());
            let (other_servers, other_keys) = (it.other_servers, it.other_keys);
            NodeFact { name: it.view.name, silent, version, clock_off, other_servers, other_keys }
        };
        nodes.filter(|it| !matches!(it.view.presence, Presence::Left(_))).map(fact).collect()
    }

    /// Hands the figures of this node to its status for the others.
    pub(super) fn report_to_nodes(&self, report: &ServerStateReport) {
        let Some(nodes) = &self.nodes else { return };
        let sums = self.totals.sums();
        let of =
            |name: &str| Counters::TABLE.iter().zip(&sums).find(|it| it.0.name == name).map_or(0, |it| *it.1);
        let live = self.live.borrow();
        let disk = self.gateway.tiers.disk.as_ref().map(|it| it.bytes());
        let finding = report.findings.first().filter(|_| report.word != StateWord::Healthy);
        nodes.take_figures(NodeFigures {
            sums: ["requests", "cache_hits", "cache_misses", "cache_passes"].map(of),
            state: report.word,
            finding: finding.map_or("", |it| it.kind.row().name),
            ram: TierUse { used: self.gateway.store.used(), budget: live.config.ram.budget },
            disk: TierUse {
                used: disk.unwrap_or(0),
                budget: live.config.disk.as_ref().map_or(0, |it| it.size),
            },
        });
    }
}

fn status_of(it: &NodeRow) -> Option<&NodeStatus> {
    match &it.view.status {
        KnownStatus::Known(it) => Some(it),
        KnownStatus::Awaited
        | KnownStatus::OlderVersion
        | KnownStatus::LaterVersion
        | KnownStatus::Damaged => None,
    }
}

/// One node as JSON.
fn node(it: &NodeRow, now: u64) -> Value {
    let view = &it.view;
    let (presence, since, is_exact) = match view.presence {
        Presence::Live(millis) => ("live", Some(millis), true),
        Presence::Found => ("found", None, true),
        Presence::Silent { millis, is_exact } => ("silent", Some(millis), is_exact),
        Presence::Left(millis) => ("left", Some(millis), true),
        Presence::Unknown => ("unknown", None, true),
    };
    let form = match &view.status {
        KnownStatus::Known(_) => "known",
        KnownStatus::Awaited => "awaited",
        KnownStatus::OlderVersion => "older-version",
        KnownStatus::LaterVersion => "later-version",
        KnownStatus::Damaged => "damaged",
    };
    let status = status_of(it);
    let lags = view.lags.iter().map(|it| it.map(|it| json!({ "entries": it.entries, "ms": it.millis })));
    let other_version = status.is_some_and(|it| *it.version != *VERSION);
    let differs: Vec<&str> = [
        ("servers", it.other_servers),
        ("keys", it.other_keys),
        ("envelope", it.other_envelope),
        ("version", other_version),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect();
    let mut value = json!({
        "id": format!("{:016x}", view.run), "name": view.name, "self": it.is_own, "presence": presence, "since_ms": since,
        "since_is_exact": is_exact, "reported": view.reported, "status": form, "clock_off": view.clock_off,
        "lags": lags.collect::<Vec<_>>(), "differs": differs,
    });
    let uptime = status.map(|it| it.uptime / 1000);
    let recent = status.map(|it| it.recent).filter(|it| it.millis > 0);
    let own = json!({
        "state": status.and_then(|it| it.state).map(StateWord::name),
        "finding": status.map(|it| &*it.finding).filter(|it| !it.is_empty()),
        "version": status.map(|it| &*it.version), "envelope": status.map(|it| it.envelope), "pid": status.map(|it| it.pid),
        "uptime": uptime, "started": uptime.map(|it| view.reported.min(now).saturating_sub(it)),
        "requests_per_second": recent.map(|it| it.requests as f64 * 1000.0 / f64::from(it.millis)),
        "hit_ratio": recent.and_then(|it| {
            let all = it.hits as f64 + it.misses as f64 + it.passes as f64;
            (all > 0.0).then(|| it.hits as f64 / all)
        }),
        "ram": status.map(|it| tier(it.ram)), "disk": status.filter(|it| it.disk.budget > 0).map(|it| tier(it.disk)),
        "in_sync": status.map(|it| it.in_sync),
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut value, own) {
        all.extend(own);
    }
    value
}

fn tier(it: TierUse) -> Value {
    json!({ "used_bytes": it.used, "budget_bytes": it.budget })
}
