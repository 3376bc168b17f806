//! `GET /api/v1/advice`: findings from what is counted, each with its changes. The findings are `semantics::advice`; here are the
//! counted facts, and the JSON.

use super::config::{self, AdvisedTexts, RecentFaults, RouteEvidence, RoutePlace, change};
use super::recent_counts::{AdviceCounts, CountWindows, RecentRoute};
use super::{Admin, AdminResponse};
use larder_config::{Config, RouteConfig, memory_left};
use larder_counters::CookieNames;
use larder_semantics::advice::{
    self, Advice, AdviceFacts, AdviceKind, CountedRoute, Finding, LargePage, SafeChange, SafeSetting,
};
use larder_semantics::cookies;
use larder_semantics::field::Field;
use larder_semantics::key::QueryPolicy;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::policy::{CredentialUse, Policy};
use larder_semantics::trial::evidence::{CookieSharing, EqualForAll, SilentErrors};
use larder_semantics::trial::facts;
use larder_server::live::Live;
use larder_stdx::clock::{self, WallTime};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Weak;
use std::time::Duration;

/// The response.
pub(super) const ADVICE: &str = concat!(
    r#"{"type":"object","required":["now","uptime","seconds","statistics","findings","uncached"],"properties":{
"now":{"type":"integer"},"uptime":{"type":"integer"},"seconds":{"type":"integer","description":"the time in which requests were counted: the last 30 to 60 minutes"},"statistics":{"enum":["on","off"]},
"findings":{"type":"array","description":"stored responses in doubt first, then those that save requests, most requests first","items":{"type":"object","required":["name","sentence","route","routes","saves","requests","seconds","per_hour","origin_us","from","changes"],"properties":{
"name":{"type":"string"},"sentence":{"type":"string"},"route":{"type":["string","null"],"description":"null for a finding about the server or several routes"},
"routes":{"type":"array","description":"the routes with the same finding and changes; none for a finding about the server","items":{"type":"string"}},
"saves":{"enum":["requests","bytes"],"description":"requests to the origin, or bytes of the counted responses"},
"requests":{"type":"integer","description":"the counted requests that the changes would have helped, at most; for bytes the stored responses that would be smaller"},
"seconds":{"type":"integer","description":"the time in which they were counted: as above, or since the last change of the route's settings of the cache"},
"per_hour":{"type":"integer"},"origin_us":{"type":"integer"},"from":{"type":"string","description":"the counted figure of these requests"},
"changes":{"type":"array","items":"#,
    change!(),
    r#"}}}},
"uncached":{"type":"array","description":"requests that the configuration, the request or the response keeps out of the cache, most first","items":{"type":"object","required":["route","reason","class","sentence","requests"],"properties":{
"class":{"enum":["by-configuration","by-request","by-response","could-be-hit"]},"route":{"type":"string"},"reason":{"type":"string"},"sentence":{"type":"string"},"requests":{"type":"integer"},
"evidence":{"type":["string","null"],"description":"the judgement about recent requests, or the evidence that is missing, where cookies are the reason"}}}}}}"#
);

/// The shortest time between two judgements.
const STEP: Duration = Duration::from_secs(10);
/// Milliseconds after the start in which judgements follow one another so soon, and the time between two of them after that: one takes up to a
/// tenth of a second of a processor.
const EARLY: u64 = 120_000;
const INTERVAL: u64 = 60_000;

/// The evidence about a route without a cache whose responses were all for all clients.
const SHAREABLE: &str = "Recent responses of the route all declared a lifetime, none was private or set a cookie, and none differed between clients.";

/// The evidence about errors without a lifetime of a route without evidence.
static NO_ERRORS: SilentErrors = SilentErrors { errors: 0, all: 0, statuses: Vec::new() };

/// The last judgement about recent requests.
#[derive(Default)]
pub struct JudgedRequests {
    /// Its time, milliseconds since the start.
    at: Cell<u64>,
    /// The faults of the application that they show.
    pub(super) application_faults: RefCell<RecentFaults>,
    /// The evidence that pages are the same for all cookies, by the names of site and route.
    equal: RefCell<HashMap<(String, String), EqualForAll>>,
    /// The routes without a cache all of whose responses were for all clients, by the same names.
    shareable: RefCell<HashSet<(String, String)>>,
    /// The routes of which recent requests demand new responses of pages that could be hits, by the same names.
    demanded: RefCell<HashSet<(String, String)>>,
    /// The recent counts of routes.
    pub(super) counts: CountWindows,
}

/// The facts of one route.
struct KnownRoute<'a> {
    config: &'a RouteConfig,
    site: usize,
    place: RoutePlace,
    /// Its position among the scopes.
    scope: usize,
    recent: RecentRoute,
    /// The cookies that it still removes although its application set them lately, and how often that was.
    removed: (Vec<String>, u64),
    differs: bool,
    /// The evidence of recent requests.
    evidence: Option<RouteEvidence>,
    /// The pages that exceed `cache.max_object`, and the largest body that a tier of the route keeps.
    large: (Vec<LargePage>, u64),
    /// Whether the trial of what would be proposed has found danger.
    is_red: bool,
}

impl KnownRoute<'_> {
    fn counted(&self) -> CountedRoute<'_> {
        let AdviceCounts { reasons, sums, .. } = &self.recent.counts;
        CountedRoute {
            policy: &self.config.cache,
            reasons,
            analytics: sums.analytics,
            parameters: sums.parameters,
            cookies: sums.cookies,
            plain: sums.plain,
            anonymous: sums.anonymous,
            removed_cookies: &self.removed.0,
            removals: self.removed.1,
            equal: self.equal(),
            needless: self.evidence.as_ref().and_then(|it| it.parameters.as_ref()),
            reordered: self.evidence.as_ref().and_then(|it| it.reordered.as_ref()),
            shareable: self.evidence.as_ref().and_then(|it| it.shareable.as_ref()),
            demanded: self.evidence.as_ref().and_then(|it| it.demanded.as_ref()),
            silent: self.evidence.as_ref().map_or(&NO_ERRORS, |it| &it.silent),
            varying: self.evidence.as_ref().map_or(&[], |it| &it.varying),
            large: &self.large.0,
            most_stored: self.large.1,
            differs: self.differs,
            is_red: self.is_red,
        }
    }

    fn equal(&self) -> Option<&EqualForAll> {
        match &self.evidence.as_ref()?.cookies {
            CookieSharing::Equal(it) if !self.differs && !self.is_red => Some(it),
            _ => None,
        }
    }

    /// The cookies that make a request private once those that change no page are left out, and the parameters that these findings would
    /// remove.
    fn needless(&self, findings: &[&Finding]) -> Option<CookieNames> {
        let in_force = match &self.config.cache.key.query {
            QueryPolicy::Drop(names) => &names[..],
            _ => &[],
        };
        let settings = findings.iter().flat_map(|it| it.changes.iter().flat_map(SafeChange::settings));
        let dropped = settings.filter_map(|it| match it {
            SafeSetting::DropParameters(names) => Some(names),
            _ => None,
        });
        let parameters: Vec<String> =
            dropped.flatten().filter(|it| !in_force.contains(it)).cloned().collect();
        match self.needless_cookies() {
            Some(it) => Some(CookieNames { parameters, ..it }),
            // Every cookie is private.
            None if parameters.is_empty() => None,
            None => Some(CookieNames { parameters, private: vec!["*".to_owned()], ignored: Vec::new() }),
        }
    }

    fn needless_cookies(&self) -> Option<CookieNames> {
        let (it, policy) = (self.equal()?, &self.config.cache);
        let private = match policy.private_cookies.is_empty() {
            true => vec!["*".to_owned()],
            false => policy.private_cookies.clone(),
        };
        let ignored = policy.ignored_cookies.iter().chain(&policy.key.cookies);
        let ignored = ignored.chain(&it.cookies).chain(&it.analytics).cloned().collect();
        Some(CookieNames { parameters: Vec::new(), private, ignored })
    }
}

impl Admin {
    /// Judges recent requests as long as the admin lives: those that are withheld from the cache for needless cookies are counted as possible
    /// hits from then on.
    pub async fn judge_recent_requests(admin: Weak<Self>) {
        loop {
            tokio::time::sleep(STEP).await;
            let Some(admin) = admin.upgrade() else { return };
            let live = admin.live.borrow().clone();
            admin.advance_counts(&live);
            let now = clock::monotonic_now().0;
            if now >= EARLY && now.saturating_sub(admin.judged.at.get()) < INTERVAL {
                continue;
            }
            admin.judged.at.set(now);
            admin.examine_next_start().await;
            if live.config.statistics {
                let _ = admin.judged_advice(&live).await;
            }
        }
    }

    /// Judges recent requests once more, so that the newest count.
    pub(super) async fn judge_again(&self, live: &Live) {
        let _ = self.judged_advice(live).await;
    }

    /// The advice for the requests of the last 30 to 60 minutes, or since the settings of the cache of their route changed, with the routes that it is about. A change that would share responses is
    /// tried on recent requests first.
    async fn judged_advice<'a>(&self, live: &'a Live) -> (Vec<KnownRoute<'a>>, Advice) {
        self.advance_counts(live);
        let mut known = self.known_routes(live);
        if let Ok((mut all, application_faults)) = self.evidence(self.changed_places(live)).await {
            known.iter_mut().for_each(|it| it.evidence = all.remove(&it.place));
            self.judged.application_faults.replace(application_faults);
        }
        let mut found = self.advised_of(&live.config, &known);
        let mut sharing: Vec<(RoutePlace, Vec<SafeSetting>)> = found
            .findings
            .iter()
            .filter(|it| it.kind.shares())
            .flat_map(|it| it.routes.iter().map(|at| (known[*at].place, settings_of(it))))
            .collect();
        // The longest list of cookies last: it replaces the others of its route.
        sharing.sort_by_key(|it| it.1.iter().map(listed).max());
        if !sharing.is_empty() {
            let tried: HashSet<RoutePlace> = sharing.iter().map(|it| it.0).collect();
            // A change that cannot be tried is not proposed.
            let red = self.red_routes(sharing).await.unwrap_or(tried);
            known.iter_mut().for_each(|it| it.is_red = red.contains(&it.place));
            found = self.advised_of(&live.config, &known);
        }
        let equal = known.iter().filter_map(|it| {
            let site = live.scopes.sites[it.site].name.clone();
            Some(((site, it.config.name.clone()), it.equal()?.clone()))
        });
        self.judged.equal.replace(equal.collect());
        let with = |kind: AdviceKind| -> HashSet<(String, String)> {
            let routes = found.findings.iter().filter(|it| it.kind == kind).flat_map(|it| &it.routes);
            let names =
                |it: &KnownRoute<'_>| (live.scopes.sites[it.site].name.clone(), it.config.name.clone());
            routes.map(|at| names(&known[*at])).collect()
        };
        self.judged.shareable.replace(with(AdviceKind::CacheOff));
        self.judged.demanded.replace(with(AdviceKind::Demanded));
        for (at, it) in known.iter().enumerate() {
            let own: Vec<&Finding> = found.findings.iter().filter(|it| it.routes.contains(&at)).collect();
            let sentence = it.evidence.as_ref().and_then(RouteEvidence::sentence);
            live.scopes
                .needless_of(it.scope)
                .iter()
                .for_each(|to| to.set(it.needless(&own), sentence.clone()));
        }
        (known, found)
    }

    /// When the settings of the cache of routes changed, Unix seconds.
    fn changed_places(&self, live: &Live) -> HashMap<RoutePlace, u64> {
        let sites = live.scopes.sites.iter().enumerate();
        let places =
            sites.flat_map(|(site, it)| it.routes.iter().enumerate().map(move |(at, it)| ((site, at), *it)));
        places.filter_map(|(place, scope)| Some((place, self.settings_changed(scope)?))).collect()
    }

    /// The advice for the counts of these routes.
    fn advised_of(&self, config: &Config, known: &[KnownRoute<'_>]) -> Advice {
        let routes: Vec<CountedRoute<'_>> = known.iter().map(KnownRoute::counted).collect();
        let ram_size = config.ram.budget;
        let doubt = self.doubt().map(|it| it.1);
        advice::advise(&AdviceFacts {
            routes: &routes,
            ram_size,
            ram_limit: ram_size.saturating_add(memory_left().unwrap_or(0) / 2),
            needed: self.gateway.store.needed_pages(),
            has_disk: config.disk.is_some(),
            full_disk: self.full_disk(),
            doubt: doubt.as_deref(),
        })
    }

    /// The evidence that the pages of a route are the same for all values of the cookies in `fields`, as a sentence, and the change.
    pub(super) fn equal_for_all(
        &self,
        (site, route): RoutePlace,
        config: &RouteConfig,
        fields: &[Field<'_>],
    ) -> Option<(String, SafeChange)> {
        let live = self.live.borrow();
        let site = live.scopes.sites.get(site)?;
        let judged = live.scopes.needless_of(*site.routes.get(route)?)?;
        let names = judged.names()?;
        let is_equal = cookies::are_ignored(fields, &names.private, &names.ignored);
        if !is_equal || facts::is_identified(fields) {
            return None;
        }
        let all = self.judged.equal.borrow();
        let equal = all.get(&(site.name.clone(), config.name.clone()))?;
        Some((judged.sentence()?, advice::without_needless_cookies(&config.cache, equal)))
    }

    /// The evidence that all recent responses of a route without a cache were for all clients, or that its requests demand new responses of
    /// pages that could be hits, as a sentence, and the change.
    pub(super) fn shareable(
        &self,
        site: usize,
        route: &RouteConfig,
        reason: MissReason,
    ) -> Option<(String, SafeChange)> {
        let live = self.live.borrow();
        let names = (live.scopes.sites.get(site)?.name.clone(), route.name.clone());
        let (routes, evidence, change) = match reason {
            MissReason::CacheOff => (&self.judged.shareable, SHAREABLE, advice::with_cache()),
            MissReason::ClientNoCache => {
                (&self.judged.demanded, AdviceKind::Demanded.sentence(), advice::with_harmless_directives())
            }
            _ => return None,
        };
        routes.borrow().contains(&names).then(|| (evidence.to_owned(), change))
    }

    /// The largest body that a tier of the route keeps: a quarter of RAM, or a segment of the disk tier.
    pub(super) fn largest_body(&self, config: &Config, policy: &Policy) -> u64 {
        let ram = if policy.tiers.ram { config.ram.budget / 4 } else { 0 };
        let disk = self.gateway.tiers.disk.as_ref().filter(|_| policy.tiers.disk);
        disk.map_or(0, |it| it.largest_body()).max(ram)
    }

    /// `GET /api/v1/advice`.
    pub(super) async fn advice(&self) -> AdminResponse {
        let live = self.live.borrow().clone();
        let (known, found) = self.judged_advice(&live).await;
        let (texts, (_, seconds)) = (self.advised_texts(), self.recent_retries());
        let findings: Vec<Value> =
            found.findings.iter().map(|it| finding_json(it, &known, seconds, texts.as_ref())).collect();
        let uncached: Vec<Value> = found
            .uncached
            .iter()
            .map(|it| {
                let row = it.count.reason.row();
                let of_cookies =
                    matches!(it.count.reason, MissReason::PrivateCookie | MissReason::Credentials);
                let evidence = known[it.route].evidence.as_ref().filter(|_| of_cookies);
                json!({
                    "route": known[it.route].config.name, "reason": row.name, "class": row.class.name(), "sentence": row.sentence,
                    "requests": it.count.requests, "evidence": evidence.and_then(RouteEvidence::sentence),
                })
            })
            .collect();
        AdminResponse::Json(
            200,
            json!({
                "now": clock::wall().0, "uptime": clock::precise_micros() / 1_000_000, "seconds": seconds,
                "statistics": if live.config.statistics { "on" } else { "off" },
                "findings": findings, "uncached": uncached,
            }),
        )
    }

    /// The routes of the configuration, each with its recent counts; one that repeats another is left out.
    fn known_routes<'a>(&self, live: &'a Live) -> Vec<KnownRoute<'a>> {
        let mut known: Vec<KnownRoute<'a>> = Vec::new();
        let mut seen = vec![false; live.scopes.routes.len()];
        for (site, of_site) in live.config.sites.iter().enumerate() {
            let scopes = of_site.routes.iter().zip(&live.scopes.sites[site].routes);
            for (number, (config, at)) in scopes.enumerate() {
                if std::mem::replace(&mut seen[*at], true) {
                    continue;
                }
                let recent = self.recent_counts(live, *at, config);
                known.push(KnownRoute {
                    config,
                    site,
                    place: (site, number),
                    scope: *at,
                    evidence: None,
                    is_red: false,
                    removed: still_removed(&recent.counts, &config.cache),
                    large: (
                        self.gateway.shared.unstored.large_pages(
                            &config.name,
                            &config.cache,
                            since(recent.seconds),
                        ),
                        self.largest_body(&live.config, &config.cache),
                    ),
                    differs: recent.counts.sums.changed > 0
                        || self.gateway.shared.unstored.differ(&config.name)
                        || knows_clients(config),
                    recent,
                });
            }
        }
        known
    }
}

/// A finding as JSON; `seconds` are those of the counts of the server.
fn finding_json(it: &Finding, known: &[KnownRoute<'_>], seconds: u64, texts: Option<&AdvisedTexts>) -> Value {
    let routes: Vec<&KnownRoute<'_>> = it.routes.iter().map(|at| &known[*at]).collect();
    let names: Vec<&str> = routes.iter().map(|it| &*it.config.name).collect();
    let seconds = routes.iter().map(|it| it.recent.seconds).min().unwrap_or(seconds);
    let places: Vec<(usize, usize)> = routes.iter().map(|it| (it.site, it.config.number)).collect();
    json!({
        "name": it.kind.name(), "sentence": it.sentence, "route": names.first().filter(|_| names.len() == 1), "routes": names,
        "saves": it.kind.saves().name(), "requests": it.requests, "seconds": seconds, "per_hour": per_hour(it.requests, seconds),
        "origin_us": it.micros, "from": it.kind.figure(),
        "changes": it.changes.iter().map(|it| config::advised(it, &places, texts)).collect::<Vec<_>>(),
    })
}

/// The cookies that a route with this policy removes from requests although its application sets them, and how often it did.
fn still_removed(counts: &AdviceCounts, policy: &Policy) -> (Vec<String>, u64) {
    let these = counts.removed.iter().filter(|it| cookies::removes(policy, it.0.as_bytes()));
    let (names, times): (Vec<String>, Vec<u64>) = these.cloned().unzip();
    (names, times.iter().sum())
}

fn listed(setting: &SafeSetting) -> usize {
    match setting {
        SafeSetting::IgnoredCookies(names) => names.len(),
        _ => 0,
    }
}

fn settings_of(finding: &Finding) -> Vec<SafeSetting> {
    finding.changes.iter().flat_map(SafeChange::settings).cloned().collect()
}

/// Whether a route knows its clients by other means than cookies and `Authorization`, so that a page may depend on them.
pub(super) fn knows_clients(route: &RouteConfig) -> bool {
    route.cache.credentials != CredentialUse::None
        || route.sends_certificate
        || route.access.forward.is_some()
}

/// The time that many seconds ago.
fn since(seconds: u64) -> WallTime {
    WallTime(clock::wall().0.saturating_sub(seconds))
}

fn per_hour(requests: u64, seconds: u64) -> u64 {
    (u128::from(requests) * 3600 / u128::from(seconds.max(1))).try_into().unwrap_or(u64::MAX)
}
