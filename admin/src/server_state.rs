//! The state of the server: the facts are gathered here, and judged by `larder_semantics::server_state`. The main thread does so about once a
//! second, and each request for the state.

mod recorded;

use super::recent_counts::configs;
use super::requester::Requester;
use super::{Admin, AdminRequest, AdminResponse};
use larder_config::summary::summary;
use larder_config::{Config, HostPattern, RouteConfig, Service, SiteConfig, Source, Values};
use larder_counters::Counters;
use larder_observe::log::AccessLog;
use larder_origin::OriginState;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::server_state::{
    CLIENT_LIMITS, CertificateFact, ChangedLimits, ConfigSums, CountFacts, DatabaseFact, DiskFact,
    FindingKind, Http3Fact, LIMITS, LogFact, MaintenanceFact, MemcachedFact, OriginAnswers, OriginFact,
    PastFact, ProxyLoopFact, RepeatedPurgeFact, RouteCountFact, RouteFact, ServerStateReport, Severity,
    StateFacts, StateFinding, StateJudge, StateWord, UnreachableFact,
};
use larder_server::certificate_registry::{CertificateRegistry, CertificateSource};
use larder_server::live::Live;
use larder_server::route_stats::{ConfigScopes, OriginScopes, RouteScopes, ServiceKind};
use larder_server::row_purges::FollowState;
use larder_stdx::clock;
use larder_store::disk::DiskState;
use larder_store::fleet::health::FleetServerState;
use larder_transport::Synthetic;
use larder_transport::listener::Listen;
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The time in which ejections of a memcached server are counted.
const FLAPPING: Duration = Duration::from_secs(600);

/// A finding in JSON.
macro_rules! server_state {
    () => {
        r#"{"type":"object","required":["word","sentence","findings","left_out"],"properties":{
"word":{"type":"string","enum":["healthy","degraded","failing"]},"sentence":{"type":"string","description":"the word, the worst finding, and the names of the others; times are UTC"},
"left_out":{"type":"integer","description":"findings beyond 50"},
"findings":{"type":"array","description":"the worst first","items":{"type":"object","required":["name","severity","what","since","times","first","evidence","effect","sentence","remedy","view"],"properties":{
"name":{"type":"string"},"severity":{"type":"string","enum":["failing","degraded","notice"]},"what":{"type":"string"},"since":{"type":["integer","null"],"description":"Unix time; of a fault that stood before the last start, from the history"},
"times":{"type":"integer","description":"how often it has begun lately"},"first":{"type":["integer","null"],"description":"the first of several times"},
"evidence":{"type":"string"},"effect":{"type":"string"},"sentence":{"type":"string","description":"all of these; times are UTC"},"remedy":{"type":"string"},
"view":{"type":"string","description":"the view of the page that shows it"}}}}}}"#
    };
}
pub(super) use server_state;

/// `GET /api/v1/health`.
pub const SERVER_STATE: &str = server_state!();

/// The state of the server, with the facts that only the main loop knows. Of the main thread.
#[derive(Default)]
pub struct ServerState {
    judge: RefCell<StateJudge>,
    /// That of the last look, of which the main thread makes one a second.
    word: Cell<StateWord>,
    refused: RefCell<Option<PastFact>>,
    refused_certificates: RefCell<Option<PastFact>>,
    waiting: RefCell<Vec<String>>,
    snapshot: RefCell<Option<PastFact>>,
    recorded: RefCell<recorded::LastFacts>,
    next_start: RefCell<Option<PastFact>>,
    /// The values of the configuration file, and the last change of them.
    values: RefCell<Option<Values>>,
    changed: RefCell<Option<PastFact>>,
    logs: RefCell<Vec<Arc<AccessLog>>>,
    /// The events of the findings of the last look that the history marks.
    faults: RefCell<BTreeSet<String>>,
}

/// An event of now.
fn now(why: &str) -> PastFact {
    PastFact { at: clock::wall().0, why: why.to_owned() }
}

impl ServerState {
    /// A configuration is in force; these keys of it wait for a restart.
    pub fn in_force(&self, waiting: Vec<String>) {
        self.refused.replace(None);
        self.refused_certificates.replace(None);
        self.waiting.replace(waiting);
    }

    /// The keys in the file that wait for a restart.
    #[must_use]
    pub fn waiting(&self) -> Vec<String> {
        self.waiting.borrow().clone()
    }

    /// Why the next start would fail, as last examined; `None` if it would not.
    pub(super) fn next_start(&self) -> Option<String> {
        self.next_start.borrow().as_ref().map(|it| it.why.clone())
    }

    /// The configuration in the file was refused.
    pub fn refuse(&self, why: &str) {
        self.refused.replace(Some(now(why)));
    }

    /// The refused configuration, for [`Self::restore_refused`].
    #[must_use]
    pub fn refused(&self) -> Option<PastFact> {
        self.refused.borrow().clone()
    }

    /// The file has its earlier text again.
    pub fn restore_refused(&self, earlier: Option<PastFact>) {
        self.refused.replace(earlier);
    }

    /// The replaced files of certificates are in use, or were refused.
    pub fn certificates(&self, outcome: Result<(), &str>) {
        self.refused_certificates.replace(outcome.err().map(now));
    }

    /// The access logs that are written.
    pub fn set_logs(&self, logs: Vec<Arc<AccessLog>>) {
        self.logs.replace(logs);
    }

    /// The values of the file are in force.
    pub(super) fn note_values(&self, values: Values) {
        if let Some(before) = self.values.replace(Some(values)) {
            let values = self.values.borrow();
            let summary = values.as_ref().map_or_else(String::new, |now| summary(&before, now));
            self.changed.replace((!summary.is_empty()).then(|| now(&summary)));
        }
    }

    /// The log that drops lines: one that could not be written, or the first.
    fn log(&self) -> Option<LogFact> {
        let logs = self.logs.borrow();
        let found = logs.iter().find(|it| it.failure().is_some()).or(logs.first())?;
        Some(LogFact { name: found.target_name(), why: found.failure().unwrap_or_default() })
    }

    /// The findings of the last look that are events of the history.
    pub(super) fn faults(&self) -> BTreeSet<String> {
        self.faults.borrow().clone()
    }

    /// The snapshot of the RAM tier could not be read at the start.
    pub fn not_restored(&self, why: &str) {
        self.snapshot.replace(Some(now(why)));
    }
}

impl Admin {
    /// Examines whether the next start would read the configuration. A file that the running server has refused is another finding.
    pub(super) async fn examine_next_start(&self) {
        let Ok(outcome) = self.next_start().await else { return };
        let state = &self.server_state;
        let why = outcome.err().filter(|_| state.refused().is_none());
        let mut held = state.next_start.borrow_mut();
        *held = why.map(|why| match held.take() {
            Some(before) => PastFact { why, ..before },
            None => now(&why),
        });
    }

    /// `GET /api/v1/health`: one word for every client, the findings with the token.
    pub(super) fn server_state(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        match asked.requester {
            // Without a look: requests of strangers must not cost more than a word.
            Requester::Nobody => {
                let word = self.server_state.word.get().name();
                AdminResponse::Whole(Synthetic::new(200, "text/plain", format!("{word}\n")))
            }
            Requester::Token(_) | Requester::Session(..) | Requester::Socket => {
                AdminResponse::Json(200, json_of(&self.judge_state()))
            }
        }
    }

    /// The state now.
    pub fn judge_state(&self) -> ServerStateReport {
        let facts = self.state_facts();
        let mut judge = self.server_state.judge.borrow_mut();
        let mut report = judge.look(&facts);
        judge.continue_from(|event| self.stood_earlier(fault_of(event)));
        for it in &mut report.findings {
            it.repeated = self.repeated(fault_of(&it.event()));
        }
        let marked = report.findings.iter().filter(|it| is_marked(it));
        self.server_state.faults.replace(marked.map(StateFinding::event).collect());
        self.server_state.word.set(report.word);
        self.report_to_nodes(&report);
        report
    }

    /// Why stored responses are validated before use now, in short and with the remedy; `None` if they are not.
    pub(super) fn doubt(&self) -> Option<(String, String)> {
        let report = self.judge_state();
        let found = report.findings.iter().find(|it| it.kind.doubts_stored_responses())?;
        let (mut sentence, mut short) = (found.sentence(report.now), found.what.clone());
        [&mut sentence, &mut short].into_iter().for_each(|it| it[..1].make_ascii_uppercase());
        Some((format!("{short}."), format!("{sentence}. {}", found.kind.row().remedy)))
    }

    /// The judge of the state continues with the counters of the next configuration.
    pub(super) fn carry_state_over(&self, before: &Live, after: &Live) {
        let followed = self.followed.all();
        let sums = |live: &Live| {
            let (requests, errors_5xx) = requests(live);
            let of_database = |(name, _): &(String, FollowState)| {
                let (requests, errors_5xx) = requests_for_rows(live, name);
                (name.clone(), [requests, errors_5xx])
            };
            ConfigSums {
                routes: [requests, errors_5xx],
                databases: followed.iter().map(of_database).collect(),
            }
        };
        let kept = after.scopes.positions_since(&before.scopes);
        let moved = |at: u32| kept.get(at as usize).copied().flatten().and_then(|it| u32::try_from(it).ok());
        let mut judge = self.server_state.judge.borrow_mut();
        judge.reload(&sums(before), &sums(after), moved);
        judge.renew(changed_limits(before, after));
    }

    fn state_facts(&self) -> StateFacts {
        let live = self.live.borrow().clone();
        let (wall, state) = (clock::wall().0, &self.server_state);
        let only_routes = live.scopes.only_routes();
        let origins =
            only_routes.into_iter().enumerate().map(|(at, it)| origin_fact(&live, at, it)).collect();
        let (memcached, keys_move) = self.memcached();
        StateFacts {
            now: wall,
            at: clock::monotonic_now().0,
            failed_worker: self.failure.first().cloned(),
            origins,
            routes: routes(&live.scopes),
            troubled: troubled(&live),
            root: geteuid().is_root().then(|| live.config.reach_of_root()).flatten().map(|it| it.1),
            unreachable: unreachable(&live.config),
            maintenance: maintenance(&live.config),
            memcached,
            keys_move,
            repeated_purge: self.purges.most_repeated().map(|it| RepeatedPurgeFact {
                by: it.by,
                target: it.target,
                times: it.times,
                matched: it.matched,
            }),
            disk: self.disk_fact(),
            purge_log: self.nodes.as_ref().map(|it| it.purge_log()),
            nodes: self.node_facts(),
            databases: self.followed.all().into_iter().map(|it| database_fact(it, &live)).collect(),
            refused: state.refused(),
            refused_certificates: state.refused_certificates.borrow().clone(),
            broken_files: live.broken_files(),
            waiting: state.waiting(),
            certificates: certificates(&self.certificates, i64::try_from(wall).unwrap_or(i64::MAX)),
            unknown_names: self.certificates.unknown_names.borrow().all(),
            tls_hosts: tls_hosts(&live.config, &self.certificates, OtherListeners::None),
            secured_hosts: tls_hosts(&live.config, &self.certificates, OtherListeners::Redirected),
            plain_hosts: tls_hosts(&live.config, &self.certificates, OtherListeners::Plain),
            log: state.log(),
            client_limits: client_limits(&live.config),
            changed: state.changed.borrow().clone(),
            next_start: state.next_start.borrow().clone(),
            failing_urls: self.judged.application_faults.borrow().failing.clone(),
            disagreeing: self.judged.application_faults.borrow().disagreeing.clone(),
            proxy_loops: self.proxy_loops(&live.config),
            http3: self.http3(&live),
            certificate_folder: self.certificates.folder_error.borrow().clone(),
            counts: self.counts(&live),
            ram_budget: self.gateway.store.budget(),
            ram_usable: self.gateway.store.usable(),
            snapshot: state.snapshot.borrow().clone(),
            recorded: self.recorded_facts(&live.config),
        }
    }

    /// The redirect loops of the last judgement, without those of proxies that are trusted by now.
    fn proxy_loops(&self, config: &Config) -> Vec<ProxyLoopFact> {
        let judged = self.judged.application_faults.borrow();
        let is_ignored = |it: &&ProxyLoopFact| !config.clients.trusted.has(Some(it.found.proxy));
        judged.loops.iter().filter(is_ignored).cloned().collect()
    }

    /// The sums since the start, by the names of counters.
    fn counter_sums(&self) -> impl Fn(&str) -> u64 + use<> {
        let sums = self.totals.sums();
        move |name| Counters::TABLE.iter().zip(&sums).find(|it| it.0.name == name).map_or(0, |it| *it.1)
    }

    fn http3(&self, live: &Live) -> Option<Http3Fact> {
        let of = self.counter_sums();
        // Those over HTTP/3 are among the handshakes, which does not matter: there are none in the finding.
        let tls_connections = of("tls_handshakes") + of("tls_resumed");
        live.config.http3.then(|| Http3Fact { connections: of("http3_connections"), tls_connections })
    }

    fn counts(&self, live: &Live) -> CountFacts {
        let of = self.counter_sums();
        let (requests, errors_5xx) = requests(live);
        let routes = 0..live.scopes.routes.len();
        let missed = |reason| routes.clone().map(|it| live.scopes.requests_of(it, reason)).sum();
        CountFacts {
            requests,
            errors_5xx,
            stored: of("cache_stores"),
            evicted_fresh: of("cache_evictions_fresh"),
            missed_evicted: missed(MissReason::Evicted),
            missed_purged: missed(MissReason::Purged),
            fleet_lookups: of("fleet_gets"),
            fleet_lost: of("fleet_lost"),
            refused: ["access_refused", "access_limited", "requests_rejected"].map(&of).iter().sum(),
            limits: LIMITS.map(|it| of(it.counter)),
            client_limits: CLIENT_LIMITS.map(|it| of(it.counter)),
        }
    }

    /// The memcached servers, and whether keys of one that is not used move to the others.
    pub(super) fn memcached(&self) -> (Vec<MemcachedFact>, bool) {
        let Some(fleet) = &self.gateway.tiers.fleet else { return Default::default() };
        let settings = fleet.settings();
        let fact = |(at, server): (usize, &larder_store::fleet::settings::FleetAddress)| MemcachedFact {
            name: server.at.to_string(),
            is_down: fleet.health().state(at) == FleetServerState::Ejected,
            failures: settings.failures,
            ejections: fleet.health().ejections(at, clock::monotonic(), FLAPPING),
        };
        (settings.servers.iter().enumerate().map(fact).collect(), settings.auto_eject)
    }

    fn disk_fact(&self) -> DiskFact {
        let Some(disk) = &self.gateway.tiers.disk else { return DiskFact::default() };
        let state = disk.state();
        DiskFact {
            is_on: state == DiskState::On,
            off: if let DiskState::Off(why) = state { Some(why.to_string()) } else { None },
            reads_off: disk.skips_reads(),
            device_full: disk.is_device_full(),
            is_full: self.full_disk().is_some(),
        }
    }

    /// `cache.disk.size`, if the disk tier has dropped pages since the start because it was reached.
    pub(super) fn full_disk(&self) -> Option<u64> {
        let of = self.counter_sums();
        // On a full device a larger size gains nothing.
        let is_device_full = self.gateway.tiers.disk.as_ref().is_some_and(|it| it.is_device_full());
        let is_full = !is_device_full && of("disk_segments_dropped") > of("disk_device_full_drops");
        self.live.borrow().config.disk.as_ref().filter(|_| is_full).map(|it| it.size)
    }
}

/// The limits that differ between two configurations.
fn changed_limits(before: &Live, after: &Live) -> ChangedLimits {
    let (old, new) = (configs(before), configs(after));
    let moved = after.scopes.positions_since(&before.scopes).into_iter().enumerate();
    let kept = moved.filter_map(|(was, is)| Some((is?, old.get(&was)?, new.get(&is?)?)));
    let differs = |was: &RouteConfig, is: &RouteConfig| {
        was.limits != is.limits || was.access != is.access || exchange_limits(was) != exchange_limits(is)
    };
    let routes: Vec<u32> =
        kept.filter(|(_, was, is)| differs(was, is)).filter_map(|(at, ..)| u32::try_from(at).ok()).collect();
    let of_server = |it: &Live| format!("{:?}{:?}", it.config.limits.client, it.config.log.access);
    let is_any = !routes.is_empty() || of_server(before) != of_server(after);
    ChangedLimits { routes, is_any }
}

/// The limits of the exchanges of a route with its origins.
fn exchange_limits(route: &RouteConfig) -> String {
    match &route.service {
        Service::Proxy(it) => format!("{:?}", it.limits),
        _ => String::new(),
    }
}

/// The fault of an event in the history: of an origin its name.
fn fault_of(event: &str) -> &str {
    let origin = event.strip_prefix("origin ").and_then(|it| it.strip_suffix(" is down"));
    origin.unwrap_or(event)
}

/// Whether the beginning and the end of a finding are events of the history. Origins and refused configurations have events of their own, and
/// conditions without a beginning are none.
fn is_marked(it: &StateFinding) -> bool {
    let has_own = matches!(
        it.kind,
        FindingKind::NoOrigin | FindingKind::OriginDown | FindingKind::ConfigurationRefused
    );
    it.kind.row().severity > Severity::Notice && it.since.is_some() && !has_own
}

fn origin_fact(live: &Live, at: usize, only_route: Option<usize>) -> OriginFact {
    let scopes = &live.scopes;
    let it = &scopes.origins[at];
    let [all, errors_5xx, micros, waits] = scopes.answers_of(at);
    let [of_route, micros_of_route] = only_route.map_or([0; 2], |it| scopes.sent_of(it));
    OriginFact {
        name: it.name.clone(),
        is_used: matches!(it.state(), OriginState::Up | OriginState::Slow),
        is_down: is_down(it),
        is_answering: it.standing.answers_unhealthy(),
        why: it.standing.down_reason(),
        is_drained: it.drained_by().is_some(),
        limit: if waits > 0 { connection_limit(live, at) } else { String::new() },
        answers: OriginAnswers { all, errors_5xx, micros, waits, of_route, micros_of_route },
    }
}

/// The key that limits the requests to an origin at once, with its value and place; of several routes that of the first.
fn connection_limit(live: &Live, origin: usize) -> String {
    let sites = live.config.sites.iter().enumerate();
    let mut routes =
        sites.flat_map(|(site, it)| it.routes.iter().enumerate().map(move |(at, it)| ((site, at), it)));
    let name = &live.scopes.origins[origin].name;
    let of_origin = routes.find(|it| live.scopes.origins_of(it.0).any(|it| it.name == *name));
    let Some((route, Service::Proxy(proxy))) = of_origin.map(|it| (it.1, &it.1.service)) else {
        return String::new();
    };
    let place = match route.decided.by("site[].route[].proxy.connections") {
        Source::Default => "the default".to_owned(),
        place => place.to_string(),
    };
    format!("`proxy.connections` of route {} is {} ({place})", route.name, proxy.limits.connections)
}

/// Whether an origin fails: it is ejected or unhealthy, or the only one and fails every request.
pub(super) fn is_down(it: &OriginScopes) -> bool {
    match it.state() {
        OriginState::Up | OriginState::Slow | OriginState::Drained => false,
        OriginState::Failing | OriginState::Ejected(_) | OriginState::Probing | OriginState::Unhealthy => {
            true
        }
    }
}

fn routes(scopes: &ConfigScopes) -> Vec<RouteFact> {
    let with_origins = scopes.routes.iter().filter(|it| !it.origins.is_empty());
    with_origins.map(|it| RouteFact { name: it.name.clone(), origins: it.origins.clone() }).collect()
}

/// The routes under maintenance: the operator has ordered their errors.
fn in_maintenance(live: &Live) -> HashSet<usize> {
    let of_site = live.scopes.sites.iter().zip(&live.config.sites);
    let routes = of_site.flat_map(|(scope, site)| scope.routes.iter().zip(&site.routes));
    routes.filter(|it| it.1.maintenance.is_some()).map(|it| *it.0).collect()
}

/// The routes except fixed answers, whose errors are ordered too.
fn judged_routes(live: &Live) -> impl Iterator<Item = (usize, &RouteScopes)> {
    live.scopes.routes.iter().enumerate().filter(|it| it.1.kind != ServiceKind::Own)
}

/// The requests and server errors of those that are not under maintenance.
fn requests(live: &Live) -> (u64, u64) {
    let ordered = in_maintenance(live);
    let counted =
        judged_routes(live).filter(|it| !ordered.contains(&it.0)).map(|it| live.scopes.errors_of(it.0));
    counted.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// Those that have sent errors, or have redirect loops.
fn troubled(live: &Live) -> Vec<RouteCountFact> {
    let of_site = live.scopes.sites.iter().zip(&live.config.sites);
    let configs: HashMap<usize, &RouteConfig> =
        of_site.flat_map(|(scope, site)| scope.routes.iter().copied().zip(&site.routes)).collect();
    let ordered = in_maintenance(live);
    let fact = |(at, it): (usize, &RouteScopes)| {
        let (requests, errors_5xx) = live.scopes.errors_of(at);
        let loops = live.scopes.requests_of(at, MissReason::RedirectLoop);
        let [limited, refused, errors_4xx] =
            [live.scopes.limited_of(at), live.scopes.refused_of(at), live.scopes.rejected_of(at)];
        let failing = it.origins.iter().map(|it| &live.scopes.origins[*it]).find(|it| is_down(it));
        (errors_5xx > 0 || errors_4xx > 0 || limited > 0 || refused > 0 || loops > 0).then(|| {
            RouteCountFact {
                at: u32::try_from(at).unwrap_or(u32::MAX),
                name: it.name.clone(),
                is_ordered: ordered.contains(&at),
                requests,
                errors_5xx,
                limited,
                loops,
                refused,
                purges_refused: live.scopes.purges_refused_of(at),
                errors_4xx,
                failure: failing.map_or_else(|| recent_failure(live, it), |it| it.standing.down_reason()),
                rules: configs.get(&at).map_or_else(String::new, |it| it.access.refusing().join(" or ")),
                limits: configs.get(&at).map_or_else(String::new, |it| it.access.described_limits()),
            }
        })
    };
    judged_routes(live).filter_map(fact).collect()
}

/// The failure of an origin of the route within the last minute: a program of `cgi`, or an invalid response, ejects no origin.
fn recent_failure(live: &Live, route: &RouteScopes) -> String {
    let since = clock::monotonic_now().0.saturating_sub(60_000);
    let mut origins = route.origins.iter().map(|it| &live.scopes.origins[*it].standing);
    let with_output = |why: String, output: Option<String>| match output {
        Some(line) => format!("{why}; it wrote to its error output: {line}"),
        None => why,
    };
    origins
        .find_map(|it| Some(with_output(it.failure_since(since)?, it.output_since(since))))
        .unwrap_or_default()
}

/// The routes that get no request.
fn unreachable(config: &Config) -> Vec<UnreachableFact> {
    let routes = config.sites.iter().flat_map(|it| &it.routes);
    let fact = |it: &RouteConfig| {
        let why = it.unreachable.clone()?;
        Some(UnreachableFact { route: it.name.clone(), at: it.source.to_string(), why })
    };
    routes.filter_map(fact).collect()
}

/// The routes under maintenance, by the line that says so.
fn maintenance(config: &Config) -> Vec<MaintenanceFact> {
    let mut facts: Vec<MaintenanceFact> = Vec::new();
    for route in config.sites.iter().flat_map(|it| &it.routes).filter(|it| !it.is_health()) {
        let Some(it) = &route.maintenance else { continue };
        let at = route.decided.by("site[].route[].maintenance.enabled").to_string();
        match facts.iter_mut().find(|it| it.at == at) {
            Some(fact) => fact.routes.push(route.name.clone()),
            None => facts.push(MaintenanceFact {
                routes: vec![route.name.clone()],
                at,
                admits_some: !it.allow.is_empty(),
            }),
        }
    }
    facts
}

/// The values of the limits of clients.
fn client_limits(config: &Config) -> [u64; CLIENT_LIMITS.len()] {
    let it = &config.limits.client;
    let millis = |of: std::time::Duration| u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
    CLIENT_LIMITS.map(|row| match row.key {
        "limits.head_size" => it.head_size as u64,
        "limits.target_size" => it.target_size as u64,
        "limits.body_size" => it.body_size,
        "limits.head_timeout" => millis(it.head_timeout),
        "limits.body_timeout" => millis(it.body_timeout),
        "limits.write_timeout" => millis(it.write_timeout),
        "limits.http2_streams" => it.http2_streams.into(),
        _ => it.connections as u64,
    })
}

/// The listeners without TLS over which clients reach a site as well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherListeners {
    None,
    /// Their requests are redirected to `https`.
    Redirected,
    Plain,
}

/// The hosts that clients reach over TLS, and over these other listeners. A self-signed certificate is rejected anyway. Where all is TLS and a
/// proxy is trusted, all clients may come through it, and it may use another name.
fn tls_hosts(config: &Config, book: &CertificateRegistry, others: OtherListeners) -> Vec<String> {
    let is_self_signed = book.shown.borrow().iter().any(|it| it.source == CertificateSource::SelfSigned);
    let is_by_proxy = others != OtherListeners::Plain && !config.clients.trusted.is_empty();
    if config.tls.is_none() || is_self_signed || is_by_proxy {
        return Vec::new();
    }
    let all_tls = config.listen.iter().all(|it| matches!(it.at, Listen::Tls(_)));
    let is_redirected = |it: &SiteConfig| !all_tls && it.redirects.to_https;
    // A site whose routes name their listeners may have none with TLS.
    let is_on_all = |it: &SiteConfig| it.routes.iter().any(|it| it.listeners.is_empty());
    let sites = config.sites.iter().filter(|it| match others {
        OtherListeners::None => all_tls,
        OtherListeners::Redirected => is_redirected(it),
        OtherListeners::Plain => !all_tls && !is_redirected(it) && is_on_all(it),
    });
    let name = |it: &HostPattern| match it {
        // A name without a dot is not one of the public.
        HostPattern::Exact(name) if others == OtherListeners::Plain && !name.contains('.') => None,
        HostPattern::Exact(name) if !is_address(name) => Some(name.clone()),
        HostPattern::Exact(_) | HostPattern::Below(_) | HostPattern::Any => None,
    };
    sites.flat_map(|it| it.hosts.iter().filter_map(name)).collect()
}

/// Whether a host is an IP address.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok()
}

fn database_fact((name, standing): (String, FollowState), live: &Live) -> DatabaseFact {
    let (requests, errors_5xx) = requests_for_rows(live, &name);
    let mut fact = DatabaseFact { name, requests, errors_5xx, ..DatabaseFact::default() };
    match standing {
        FollowState::Followed(_, lag) => {
            fact.is_followed = true;
            fact.lag_millis = u64::try_from(lag.time().as_millis()).unwrap_or(u64::MAX);
            fact.lag_bytes = lag.bytes();
        }
        FollowState::ByAnotherNode => fact.is_followed = true,
        FollowState::Begins => {}
        FollowState::NotFollowed(why) => fact.why = why,
    }
    fact
}

/// Requests and server errors of the routes whose pages the changes of a database purge.
fn requests_for_rows(live: &Live, database: &str) -> (u64, u64) {
    let scopes = &live.scopes;
    let of_site = scopes.sites.iter().zip(&live.config.sites);
    let routes = of_site.flat_map(|(scope, site)| scope.routes.iter().zip(&site.routes));
    let shows = |it: &Service| matches!(it, Service::Sql(sql) if sql.database.name == *database && sql.unfollowed().is_none());
    let counted = routes.filter(|it| shows(&it.1.service)).map(|it| scopes.errors_of(*it.0));
    counted.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

fn certificates(book: &CertificateRegistry, now: i64) -> Vec<CertificateFact> {
    let shown = book.shown.borrow();
    let of_files = shown.iter().filter(|it| it.source != CertificateSource::Acme).map(|it| CertificateFact {
        names: it.certificate.names.clone(),
        state: it.state(now),
        validity: Some(it.certificate.validity()),
        failures: 0,
        error: String::new(),
    });
    let managed = book.managed.borrow();
    let managed = managed.iter().map(|it| CertificateFact {
        names: vec![it.name.clone()],
        state: it.state(now),
        validity: it.validity,
        failures: it.failures,
        error: it.error.clone(),
    });
    of_files.chain(managed).collect()
}

/// The state in JSON.
pub(super) fn json_of(report: &ServerStateReport) -> Value {
    let finding = |it: &StateFinding| {
        let row = it.kind.row();
        json!({
            "name": row.name, "severity": row.severity.name(), "what": it.what, "since": it.since,
            "times": it.repeated.map_or(1, |it| it.0), "first": it.repeated.map(|it| it.1),
            "evidence": it.evidence, "effect": it.effect, "sentence": it.sentence(report.now),
            "remedy": row.remedy, "view": it.view,
        })
    };
    json!({
        "word": report.word.name(), "sentence": report.sentence(), "left_out": report.left_out,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// The word as a number, for alerts.
pub(super) fn level(word: StateWord) -> u8 {
    match word {
        StateWord::Healthy => 0,
        StateWord::Degraded => 1,
        StateWord::Failing => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_counters::Unit;

    #[test]
    fn every_limit_is_a_counter_of_limits() {
        for it in LIMITS {
            let row = Counters::TABLE.iter().find(|row| row.name == it.counter);
            assert_eq!(Some(Unit::Limit), row.map(|it| it.unit), "{}", it.counter);
        }
        for it in CLIENT_LIMITS {
            let row = Counters::TABLE.iter().find(|row| row.name == it.counter);
            assert_eq!(Some(Unit::Limit), row.map(|it| it.unit), "{}", it.counter);
            assert!(larder_config::table::find(it.key).is_some(), "{}", it.key);
        }
        for name in
            ["cache_stores", "cache_evictions_fresh", "access_refused", "access_limited", "requests_rejected"]
        {
            assert!(Counters::TABLE.iter().any(|it| it.name == name), "{name}");
        }
    }
}
