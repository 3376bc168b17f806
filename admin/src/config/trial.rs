//! `POST /api/v1/config/trial`: a configuration on recent requests, before it is applied. The recorder is in `observe`, the ways
//! of requests in `server::trial`, the decisions in `semantics::trial`. It runs on a thread of its own.

use super::evidence::{self, RecentFaults, RouteEvidence};
use super::parsed_record::{ParsedRecord, RoutePlace};
use super::{Admin, AdminRequest, AdminResponse, problem_at};
use larder_config::files_in_force::FilesInForce;
use larder_config::include::IncludedTexts;
use larder_config::plan::Plan;
use larder_config::{Config, Source, Values, dotted};
use larder_gateway::coding::pool::Coders;
use larder_gateway::explain::trial::{StoredResponseFacts, stored_under};
use larder_observe::recorder::{Recorder, Recording};
use larder_semantics::advice::SafeSetting;
use larder_semantics::field::Field;
use larder_semantics::secret::shown_target;
use larder_semantics::trial::evidence::CookieSharing;
use larder_semantics::trial::facts;
use larder_semantics::trial::{
    ChangeExample, ChangeKind, ConfigTrial, Course, RecordedResponse, ServedBy, SharedExample, SharedReason,
    TrialReport, UnknownFact,
};
use larder_server::live::Live;
use larder_server::trial::{AccessJudgement, TrialRoute, TrialRoutes};
use larder_stdx::clock;
use larder_store::Store;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The time limit of a trial, microseconds: the requests that are not tried by then are left out, and the result says so. On an idle
/// processor all of them take less than a second; a busy one may take many times that, and no operator should have to confirm that.
const LIMIT: u64 = 20_000_000;

/// Requests between two looks at the clock.
const CLOCK_CHECK_INTERVAL: usize = 64;

/// The inputs of a trial.
struct TrialContext {
    running: Arc<Live>,
    recorder: Arc<Recorder>,
    store: Arc<Store>,
    coders: Arc<Coders>,
}

impl Admin {
    /// `POST /api/v1/config/trial`.
    pub(crate) async fn try_config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let (_, real) = match self.asked_texts(&asked) {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        let (context, doubt) = (self.trial_context(), self.doubt().map(|it| it.0));
        let tried = self.apart(move |it| {
            let in_force = FilesInForce::of(&it.live.config);
            let Ok(changed) = it.plan.read(&real.text, &real.others, &in_force) else {
                return it.checked_hidden(&real).refusal();
            };
            let file = it.plan.file().map(|it| it.display().to_string());
            let keys = changed_keys(&it.plan, &real.text, &real.others);
            let not_shown = keys.iter().filter(|it| is_not_shown(it)).map(|it| named_key(it, &changed));
            let not_shown: Vec<String> = not_shown.collect();
            match context.run(changed, |rendering, report| rendering.to_json(report)) {
                Ok(mut result) => {
                    result["not_judged"] = not_shown.into();
                    if keys.iter().all(|it| shares_nothing(it)) {
                        // Requests that were not tried are decided as before.
                        result["complete"] = true.into();
                    }
                    result["file"] = file.into();
                    result["doubt"] = doubt.into();
                    AdminResponse::Json(200, result)
                }
                Err(why) => problem_at(422, why, "text"),
            }
        });
        tried.await.unwrap_or_else(|refusal| refusal)
    }

    /// The routes, by the positions of site and route, for which the running configuration with these settings would share a
    /// response that must not be shared, as far as recent requests show.
    ///
    /// # Errors
    /// The trial is not possible.
    pub(crate) async fn red_routes(
        &self,
        settings: Vec<(RoutePlace, Vec<SafeSetting>)>,
    ) -> Result<HashSet<RoutePlace>, AdminResponse> {
        let context = self.trial_context();
        let red = self.apart(move |_| {
            let mut changed = context.running.config.clone();
            for ((site, route), settings) in &settings {
                let policy = changed.sites.get_mut(*site).and_then(|it| it.routes.get_mut(*route));
                policy.into_iter().for_each(|it| settings.iter().for_each(|one| one.apply(&mut it.cache)));
            }
            context.run(changed, |rendering, report| {
                let places = report.shared.iter().filter_map(|it| *rendering.places.get(it.number)?);
                places.collect::<HashSet<_>>()
            })
        });
        red.await?.map_err(|why| problem_at(422, why, "text"))
    }

    /// The evidence of recent requests about the routes of the running configuration, of each since this time if there is one, and the
    /// faults of the application that they show.
    ///
    /// # Errors
    /// It could not be gathered.
    pub(crate) async fn evidence(
        &self,
        since: HashMap<RoutePlace, u64>,
    ) -> Result<(HashMap<RoutePlace, RouteEvidence>, RecentFaults), AdminResponse> {
        let context = self.trial_context();
        self.apart(move |_| {
            let recording = context.recorder.read();
            let mut parsed: Vec<ParsedRecord<'_>> = recording.records.iter().map(ParsedRecord::of).collect();
            let origins: Vec<String> =
                context.running.scopes.origins.iter().map(|it| it.name.clone()).collect();
            let now = TrialRoutes::new(&context.running);
            let application_faults = evidence::application_faults(&now, &parsed, &origins);
            let change = |it: &ParsedRecord<'_>| {
                after_place(now.route(&it.request)).and_then(|it| since.get(&it).copied())
            };
            parsed.retain(|it| change(it).is_none_or(|at| it.record.time.0 > at));
            (evidence::gather(&now, &parsed), application_faults)
        })
        .await
    }

    /// Whether a start would read the configuration as it is now: all files that it names included. A process that has changed its user
    /// may not read what a start reads before.
    ///
    /// # Errors
    /// It could not be examined.
    pub(crate) async fn next_start(&self) -> Result<Result<(), String>, AdminResponse> {
        self.apart(|it| match it.live.config.service_user {
            Some(_) => Ok(()),
            None => it.plan.load().map(drop).map_err(|it| it.to_string()),
        })
        .await
    }

    fn trial_context(&self) -> TrialContext {
        TrialContext {
            running: self.live.borrow().clone(),
            recorder: self.recorder.clone(),
            store: self.gateway.store.clone(),
            coders: self.coders.clone(),
        }
    }
}

impl TrialContext {
    /// The result of a configuration, as `render` has it.
    ///
    /// # Errors
    /// One sentence: a resource of the configuration cannot be opened.
    fn run<T>(
        self,
        changed: Config,
        render: impl FnOnce(&TrialRendering<'_>, &TrialReport) -> T,
    ) -> Result<T, String> {
        let began = clock::precise_micros();
        let recording = self.recorder.read();
        let not_modelled = storage_keys(&changed, &self.running.config);
        let changed = self.running.open_for_trial(changed, &self.coders)?;
        let (mut now, then) = (TrialRoutes::new(&self.running), TrialRoutes::new(&changed));
        let routes = RouteNumbers::of(&now, &self.running.config, &then, &changed.config);
        let parsed: Vec<ParsedRecord<'_>> = recording.records.iter().map(ParsedRecord::of).collect();
        for (at, it) in evidence::gather(&now, &parsed) {
            if let CookieSharing::Equal(it) = it.cookies {
                now.set_needless(at, it.cookies);
            }
        }
        let stored = stored_facts(&self.store, &now, &parsed);
        let views: HashMap<usize, Vec<Field<'_>>> =
            stored.iter().map(|(number, it)| (*number, facts::fields(&it.facts))).collect();
        let mut trial = ConfigTrial::default();
        let mut places = Vec::with_capacity(parsed.len());
        for (number, it) in parsed.iter().enumerate() {
            if number % CLOCK_CHECK_INTERVAL == 0 && clock::precise_micros().saturating_sub(began) > LIMIT {
                break;
            }
            let of_store = stored.get(&number).zip(views.get(&number)).map(|(it, fields)| RecordedResponse {
                time: it.time,
                status: it.status,
                fields,
                digest: it.digest,
                // Storing may have changed the fields.
                head: 0,
                length: it.length,
            });
            let (before, after) = (now.route(&it.request), then.route(&it.request));
            let (ours, theirs) = match access_differs(&now, before, &then, after) {
                true => (AccessJudgement::Recorded, AccessJudgement::Changed),
                false => (AccessJudgement::Same, AccessJudgement::Same),
            };
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let running = now.side(&it.request, before, routes.running(before), ours, &mut one);
            let tried = then.side(&it.request, after, routes.changed(after), theirs, &mut other);
            trial.see(number, &it.recorded(of_store), &running, &tried);
            places.push(after_place(after));
        }
        let rendering = TrialRendering {
            recording: &recording,
            places: &places,
            then: &changed.config,
            routes: &routes,
            not_modelled,
            is_complete: places.len() == parsed.len(),
            began,
        };
        Ok(render(&rendering, &trial.finish()))
    }
}

/// The keys whose values differ between the file and a text in its place; a route that another precedes has those of its position.
fn changed_keys(plan: &Plan, text: &str, others: &IncludedTexts) -> BTreeSet<String> {
    let file = plan.file().and_then(|it| std::fs::read_to_string(it).ok()).unwrap_or_default();
    let (before, after) = (plan.values(&file, &IncludedTexts::new()), plan.values(text, others));
    let of = |values: &Values, key: &String| values.given.get(key).map(|it| it.0.clone());
    let keys = before.given.keys().chain(after.given.keys());
    keys.filter(|it| of(&before, it) != of(&after, it)).cloned().collect()
}

/// A key of a site or route with its name in place of its numbers: `proxy.health.path (route api)`.
fn named_key(key: &str, config: &Config) -> String {
    let number = |list: &str| -> Option<usize> {
        let start = key.find(&format!("{list}["))? + list.len() + 1;
        key[start..].split(']').next()?.parse().ok()
    };
    let own = key.rsplit(']').next().unwrap_or(key).trim_start_matches('.');
    let Some(site) = number("site").and_then(|at| config.sites.get(at)) else { return key.to_owned() };
    match number("route").and_then(|at| site.routes.iter().find(|it| it.number == at)) {
        Some(route) => format!("{own} (route {})", route.name),
        None => format!("{own} (site {})", site.hosts.first().map_or_else(String::new, ToString::to_string)),
    }
}

/// Whether a recorded response does not show the effect of a key: it is about the exchange with an origin, such as its time limits, about
/// requests that come at the same time, about errors and purges, or about the form in which a response is sent.
fn is_not_shown(key: &str) -> bool {
    const KEYS: [&str; 7] = [
        "cache.collapse_wait",
        "cache.hit_for_miss",
        "cache.stale_if_error",
        "cache.max_variants",
        "cache.on_abort",
        "cache.query",
        "cache.query_body",
    ];
    const TABLES: [&str; 4] = ["cache.compress", "cache.purge", "limits", "access.budget"];
    let key = key.rsplit(']').next().unwrap_or(key).trim_start_matches('.');
    let is_below =
        |table: &str| key.strip_prefix(table).is_some_and(|it| it.is_empty() || it.starts_with('.'));
    key.starts_with("proxy.") && key != "proxy.to" || KEYS.contains(&key) || TABLES.into_iter().any(is_below)
}

/// Whether a key decides nothing about the response to a request.
fn shares_nothing(key: &str) -> bool {
    const PREFIXES: [&str; 6] = ["admin.", "log.", "cache.ram.", "cache.disk.", "cache.fleet.", "telemetry."];
    PREFIXES.iter().any(|it| key.starts_with(it)) || key == "workers"
}

/// The changed keys of the tiers. The trial takes them to have room for every response, so that it does not show their effect.
fn storage_keys(changed: &Config, running: &Config) -> Vec<String> {
    let (_, waiting) = changed.clone().keep_from(running);
    let mut keys: Vec<String> = waiting.into_iter().map(|it| it.key).collect();
    keys.retain(|it| ["cache.ram.", "cache.disk.", "cache.fleet."].iter().any(|tier| it.starts_with(tier)));
    if changed.idle != running.idle {
        keys.push("cache.ram.idle".to_owned());
    }
    if tiers_differ(changed, running) {
        keys.push("cache.tiers".to_owned());
    }
    keys
}

/// Whether a route of both configurations has other tiers.
fn tiers_differ(changed: &Config, running: &Config) -> bool {
    let of = |it: &Config| -> HashMap<_, _> {
        let routes = it.sites.iter().flat_map(|it| keys(it).zip(&it.routes));
        routes.map(|(key, it)| (key, it.tiers)).collect()
    };
    let before = of(running);
    of(changed).iter().any(|(key, tiers)| before.get(key).is_some_and(|it| it != tiers))
}

/// Whether the rules of access of the two routes differ. Equal ones give a recorded request the result that it had.
fn access_differs(
    now: &TrialRoutes<'_>,
    before: TrialRoute<'_>,
    then: &TrialRoutes<'_>,
    after: TrialRoute<'_>,
) -> bool {
    match (now.config(before), then.config(after)) {
        (Some(before), Some(after)) => before.access != after.access,
        _ => true,
    }
}

fn after_place(route: TrialRoute<'_>) -> Option<(usize, usize)> {
    match route {
        TrialRoute::Found(found) => Some(found.at),
        _ => None,
    }
}

/// The stored responses that recorded hits got, as far as they are in RAM: each once.
fn stored_facts(
    store: &Store,
    now: &TrialRoutes<'_>,
    parsed: &[ParsedRecord<'_>],
) -> HashMap<usize, StoredResponseFacts> {
    let mut found = HashMap::new();
    let mut asked: HashSet<(Vec<u8>, &[u8])> = HashSet::new();
    let mut kept: HashSet<(Vec<u8>, u64, u64)> = HashSet::new();
    for (number, it) in parsed.iter().enumerate() {
        if !matches!(it.record.served, ServedBy::Cache(_)) {
            continue;
        }
        let (mut room, route) = (Vec::new(), now.route(&it.request));
        let side = now.side(&it.request, route, None, AccessJudgement::Same, &mut room);
        let Course::Cached { key, .. } = side.course else { continue };
        // The fields select the variant.
        if !asked.insert((key.to_vec(), it.record.fields())) {
            continue;
        }
        if let Some(stored) = stored_under(store, key, &it.request.fields)
            && kept.insert((key.to_vec(), stored.time.0, stored.digest))
        {
            found.insert(number, stored);
        }
    }
    found
}

/// The routes of both configurations under one numbering: those of one site and name are one route, and so are two at one
/// position with one origin, of which only the name differs, as the name follows the path.
struct RouteNumbers {
    names: Vec<String>,
    running: Vec<Vec<usize>>,
    changed: Vec<Vec<usize>>,
}

impl RouteNumbers {
    fn of(now: &TrialRoutes<'_>, running: &Config, then: &TrialRoutes<'_>, changed: &Config) -> Self {
        let mut names = Vec::new();
        let mut known: HashMap<(String, String, usize), usize> = HashMap::new();
        let mut of_running = Vec::new();
        for site in &running.sites {
            let mut row = Vec::new();
            for (route, key) in site.routes.iter().zip(keys(site)) {
                known.insert(key, names.len());
                row.push(names.len());
                names.push(route.name.clone());
            }
            of_running.push(row);
        }
        let mut of_changed = Vec::new();
        for (at, site) in changed.sites.iter().enumerate() {
            let own: Vec<_> = keys(site).collect();
            let kept: Vec<usize> = own.iter().filter_map(|it| known.get(it)).copied().collect();
            let mut row = Vec::new();
            for (number, route) in site.routes.iter().enumerate() {
                let origin = then.origin_of((at, number));
                let same_place = of_running.get(at).and_then(|it: &Vec<usize>| it.get(number)).copied();
                let renamed = same_place
                    .filter(|it| !kept.contains(it) && origin != 0 && now.origin_of((at, number)) == origin);
                let id = known.get(&own[number]).copied().or(renamed);
                row.push(id.unwrap_or(names.len()));
                if id.is_none() {
                    names.push(route.name.clone());
                }
            }
            of_changed.push(row);
        }
        Self { names, running: of_running, changed: of_changed }
    }

    fn running(&self, route: TrialRoute<'_>) -> Option<usize> {
        after_place(route).and_then(|(site, route)| self.running.get(site)?.get(route).copied())
    }

    fn changed(&self, route: TrialRoute<'_>) -> Option<usize> {
        after_place(route).and_then(|(site, route)| self.changed.get(site)?.get(route).copied())
    }

    /// The name of a route by the text of its number; none for no route.
    fn name(&self, number: &str) -> Option<&str> {
        self.names.get(number.parse::<usize>().ok()?).map(String::as_str)
    }
}

/// Site, name, and number among the routes with that name.
fn keys(site: &larder_config::SiteConfig) -> impl Iterator<Item = (String, String, usize)> {
    let name = site.hosts.first().map_or_else(String::new, ToString::to_string);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    site.routes.iter().map(move |it| {
        let count = seen.entry(it.name.as_str()).or_default();
        *count += 1;
        (name.clone(), it.name.clone(), *count)
    })
}

/// The result as JSON.
struct TrialRendering<'t> {
    recording: &'t Recording,
    /// The route of each request under the changed configuration.
    places: &'t [Option<(usize, usize)>],
    then: &'t Config,
    routes: &'t RouteNumbers,
    /// The changed keys whose effect is not in the result.
    not_modelled: Vec<String>,
    /// Whether the limit of time has left out no request.
    is_complete: bool,
    /// The start, microseconds.
    began: u64,
}

impl TrialRendering<'_> {
    fn to_json(&self, it: &TrialReport) -> Value {
        let changes = ChangeKind::ALL.iter().map(|kind| {
            let list = it.of(*kind);
            let examples: Vec<Value> = list.examples.iter().map(|it| self.example(*kind, it)).collect();
            json!({ "kind": kind.name(), "requests": list.requests, "urls": list.urls(), "examples": examples })
        });
        let unknown = UnknownFact::ALL.iter().zip(it.unknown).filter(|it| it.1 > 0).map(|(fact, requests)| {
            json!({ "fact": fact.name(), "sentence": fact.sentence(), "requests": requests })
        });
        json!({
            "records": it.records, "requests": it.requests, "left_out": self.recording.left_out,
            "from": it.times.map(|it| it.0.0), "to": it.times.map(|it| it.1.0),
            "hit_ratio": {
                "measured": it.measured.ratio(), "running": it.running.ratio(),
                "changed": it.changed_share.ratio(),
            },
            "changes": changes.collect::<Vec<_>>(), "shared": self.shared(it), "danger": !it.shared.is_empty(),
            "unknown": unknown.collect::<Vec<_>>(), "complete": self.is_complete,
            "not_modelled": self.not_modelled,
            "took_us": clock::precise_micros().saturating_sub(self.began),
        })
    }

    fn shared(&self, report: &TrialReport) -> Vec<Value> {
        let one = |reason: &SharedReason| {
            let these: Vec<_> = report.shared.iter().filter(|it| it.reason == *reason).collect();
            let requests: u64 = these.iter().map(|it| u64::from(it.weight)).sum();
            let mut urls = Vec::new();
            let mut examples = Vec::new();
            for it in &these {
                let example = self.request(it.number);
                if examples.len() < 20 && !urls.contains(&example["url"]) {
                    urls.push(example["url"].clone());
                    examples.push(example);
                }
            }
            let routes = self.by_route(&these);
            (!these.is_empty()).then(|| {
                json!({
                    "reason": reason.name(), "sentence": reason.sentence(), "requests": requests, "routes": routes,
                    "examples": examples,
                })
            })
        };
        SharedReason::ALL.iter().filter_map(one).collect()
    }

    /// The number of these responses for each route of the changed configuration, the largest first.
    fn by_route(&self, these: &[&SharedExample]) -> Vec<Value> {
        let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for it in these {
            if let Some(place) = self.places.get(it.number).copied().flatten() {
                *counts.entry(place).or_default() += u64::from(it.weight);
            }
        }
        let name = |(site, route): (usize, usize)| Some(&self.then.sites.get(site)?.routes.get(route)?.name);
        let mut counts: Vec<_> =
            counts.into_iter().filter_map(|(place, requests)| Some((name(place)?, requests))).collect();
        counts.sort_by_key(|it| Reverse(it.1));
        counts.iter().map(|(route, requests)| json!({ "route": route, "requests": requests })).collect()
    }

    /// A recorded request, without a change.
    fn request(&self, number: usize) -> Value {
        let it = &self.recording.records[number];
        let url = format!("{}://{}{}", it.scheme.name(), it.authority(), shown_target(it.target()));
        json!({
            "time": it.time.0, "method": it.method(), "url": url, "status": it.status,
            "from": null, "to": null, "key": null, "where": null,
        })
    }

    fn example(&self, kind: ChangeKind, it: &ChangeExample) -> Value {
        let mut result = self.request(it.number);
        let row = self.places.get(it.number).copied().flatten();
        let row = row.and_then(|(site, route)| self.then.sites.get(site)?.routes.get(route));
        let (from, to) = match kind {
            ChangeKind::Route => {
                (self.routes.name(&it.from).map(str::to_owned), self.routes.name(&it.to).map(str::to_owned))
            }
            _ => (Some(it.from.clone()), Some(it.to.clone())),
        };
        let key = match kind {
            ChangeKind::Route => Some("site[].route[].path"),
            _ => it.key,
        };
        (result["from"], result["to"]) = (from.into(), to.into());
        if let (Some(row), Some(key)) = (row, key) {
            // A table such as `cache.key` has the place of the first of its keys that is set.
            let below = format!("{key}.");
            let found = row.decided.iter().find(|it| it.0 == key || it.0.starts_with(&below));
            let (key, place) = found.map_or((key, None), |(key, place)| (key, Some(place)));
            result["key"] = dotted(key).into();
            let place = place.filter(|it| **it != Source::Default);
            result["where"] = place.map_or(Value::Null, |it| it.to_string().into());
        }
        result
    }
}
