//! `GET /api/v1/advice`: findings from what is counted, each with its changes. The findings are `semantics::advice`; here are the
//! counted facts, and the JSON.

use super::config::{self, RecentTroubles, RouteEvidence, RoutePlace, change};
use super::{Admin, AdminResponse};
use larder_config::{Config, RouteConfig, memory_left};
use larder_counters::CookieNames;
use larder_semantics::advice::{
    self, Advice, AdviceFacts, CountedRoute, Finding, ReasonCount, SafeChange, SafeSetting,
};
use larder_semantics::cookies;
use larder_semantics::field::Field;
use larder_semantics::key::QueryPolicy;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::policy::CredentialUse;
use larder_semantics::trial::evidence::{CookieSharing, EqualForAll};
use larder_semantics::trial::facts;
use larder_server::live::Live;
use larder_server::route_stats::{AdviceSums, ConfigScopes, ReasonSum};
use larder_stdx::clock;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Weak;
use std::time::Duration;

/// The response.
pub(super) const ADVICE: &str = concat!(
    r#"{"type":"object","required":["now","uptime","statistics","findings","uncached"],"properties":{
"now":{"type":"integer"},"uptime":{"type":"integer"},"statistics":{"enum":["on","off"]},
"findings":{"type":"array","description":"stored responses in doubt first, then those that save requests, most requests first","items":{"type":"object","required":["name","sentence","route","saves","requests","per_hour","origin_us","from","changes"],"properties":{
"name":{"type":"string"},"sentence":{"type":"string"},"route":{"type":["string","null"],"description":"null for a finding about the server"},
"saves":{"enum":["requests","bytes"],"description":"requests to the origin, or bytes of the counted responses"},
"requests":{"type":"integer","description":"the requests since the start, or since the last change of the route's settings of the cache, that the changes would have helped, at most; for bytes the stored responses that would be smaller"},
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

/// The last judgement about recent requests.
#[derive(Default)]
pub struct JudgedRequests {
    /// Its time, milliseconds since the start.
    at: Cell<u64>,
    /// The faults of the application that they show.
    pub(super) troubles: RefCell<RecentTroubles>,
    /// The evidence that pages are the same for all cookies, by the names of site and route.
    equal: RefCell<HashMap<(String, String), EqualForAll>>,
    /// The counts of routes whose settings of the cache have changed, at that time.
    changed: RefCell<HashMap<(String, String), ChangedRoute>>,
}

/// The counts of a route when its settings of the cache changed: they say nothing about the new ones.
struct ChangedRoute {
    /// Unix seconds.
    at: u64,
    reasons: Vec<ReasonCount>,
    sums: AdviceSums,
}

/// The facts of one route.
struct KnownRoute<'a> {
    config: &'a RouteConfig,
    site: usize,
    place: RoutePlace,
    /// Its position among the scopes.
    scope: usize,
    reasons: Vec<ReasonCount>,
    sums: AdviceSums,
    /// The cookies that it removes although its application sets them, and how often that was.
    removed: (Vec<String>, u64),
    /// The seconds in which this was counted.
    seconds: u64,
    differs: bool,
    /// The evidence of recent requests.
    evidence: Option<RouteEvidence>,
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
            equal: self.equal(),
            needless: self.evidence.as_ref().and_then(|it| it.parameters.as_ref()),
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

    /// Another configuration is in force: counts from before are no evidence about a route whose settings of the cache it changes.
    pub(super) fn note_changed_routes(&self, before: &Live, after: &Live) {
        let mut changed = self.judged.changed.borrow_mut();
        let name = |live: &Live, site: usize, route: &RouteConfig| {
            (live.scopes.sites[site].name.clone(), route.name.clone())
        };
        let routes = |live: &Live| -> Vec<_> {
            let sites = live.config.sites.iter().enumerate();
            sites.flat_map(|(site, it)| it.routes.iter().enumerate().map(move |at| (site, at.0))).collect()
        };
        let old: HashMap<_, _> = routes(before)
            .into_iter()
            .map(|(site, at)| {
                let route = &before.config.sites[site].routes[at];
                (name(before, site, route), &route.cache)
            })
            .collect();
        let mut present = HashSet::new();
        for (site, at) in routes(after) {
            let (route, scope) = (&after.config.sites[site].routes[at], after.scopes.sites[site].routes[at]);
            let name = name(after, site, route);
            if old.get(&name).is_some_and(|it| **it != route.cache) {
                let reasons = reason_counts(&after.scopes, scope);
                let sums = after.scopes.advice_of(scope);
                changed.insert(name.clone(), ChangedRoute { at: clock::wall().0, reasons, sums });
            }
            present.insert(name);
        }
        // No more entries than routes, after any number of reloads.
        changed.retain(|name, _| present.contains(name));
    }

    /// The advice for the requests since the start, or since the settings of the cache of their route changed, with the routes that it is about. A change that would share responses is tried on
    /// recent requests first.
    async fn judged_advice<'a>(&self, live: &'a Live) -> (Vec<KnownRoute<'a>>, Advice) {
        let mut known = self.known_routes(&live.config.sites, &live.scopes);
        if let Ok((mut all, troubles)) = self.evidence(self.changed_places(live)).await {
            known.iter_mut().for_each(|it| it.evidence = all.remove(&it.place));
            self.judged.troubles.replace(troubles);
        }
        let mut found = self.advised_of(&live.config, &known);
        let mut sharing: Vec<(RoutePlace, Vec<SafeSetting>)> = found
            .findings
            .iter()
            .filter(|it| it.kind.shares())
            .filter_map(|it| Some((known[it.route?].place, settings_of(it))))
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
        for (at, it) in known.iter().enumerate() {
            let own: Vec<&Finding> = found.findings.iter().filter(|it| it.route == Some(at)).collect();
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
        let changed = self.judged.changed.borrow();
        let sites = live.config.sites.iter().zip(&live.scopes.sites).enumerate();
        let routes = sites.flat_map(|(site, (config, scope))| {
            config.routes.iter().enumerate().map(move |(at, it)| ((site, at), (&scope.name, &it.name)))
        });
        let at = |(site, route): (&String, &String)| changed.get(&(site.clone(), route.clone()));
        routes.filter_map(|(place, name)| Some((place, at(name)?.at))).collect()
    }

    /// The advice for the counts of these routes.
    fn advised_of(&self, config: &Config, known: &[KnownRoute<'_>]) -> Advice {
        let routes: Vec<CountedRoute<'_>> = known.iter().map(KnownRoute::counted).collect();
        let ram_size = config.ram.budget;
        let doubt = self.doubt();
        advice::advise(&AdviceFacts {
            routes: &routes,
            ram_size,
            ram_limit: ram_size.saturating_add(memory_left().unwrap_or(0) / 2),
            evicted: self.gateway.store.evicted_pages(),
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

    /// `GET /api/v1/advice`.
    pub(super) async fn advice(&self) -> AdminResponse {
        let live = self.live.borrow().clone();
        let (known, found) = self.judged_advice(&live).await;
        let uptime = clock::precise_micros() / 1_000_000;
        let texts = self.advised_texts();
        let findings: Vec<Value> = found
            .findings
            .iter()
            .map(|it| {
                let route = it.route.map(|at| &known[at]);
                let at = route.map(|it| (it.site, it.config.number));
                json!({
                    "name": it.kind.name(), "sentence": it.kind.sentence(), "route": route.map(|it| &it.config.name),
                    "saves": it.kind.saves().name(), "requests": it.requests, "per_hour": per_hour(it.requests, route.map_or(uptime, |it| it.seconds)), "origin_us": it.micros,
                    "from": it.kind.figure(),
                    "changes": it.changes.iter().map(|it| config::advised(it, at, texts.as_ref())).collect::<Vec<_>>(),
                })
            })
            .collect();
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
                "now": clock::wall().0, "uptime": uptime,
                "statistics": if live.config.statistics { "on" } else { "off" },
                "findings": findings, "uncached": uncached,
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
                let (mut sums, mut reasons) = (scopes.advice_of(*at), reason_counts(scopes, *at));
                let mut seconds = clock::precise_micros() / 1_000_000;
                let changed = self.judged.changed.borrow();
                if let Some(it) = changed.get(&(scopes.sites[site].name.clone(), config.name.clone())) {
                    it.leave_out(&mut reasons, &mut sums);
                    seconds = seconds.min(clock::wall().0.saturating_sub(it.at));
                }
                known.push(KnownRoute {
                    config,
                    site,
                    place: (site, number),
                    scope: *at,
                    evidence: None,
                    is_red: false,
                    reasons,
                    seconds,
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

impl ChangedRoute {
    /// Subtracts the counts of this time. Counters that have begun again since are below them.
    fn leave_out(&self, reasons: &mut [ReasonCount], sums: &mut AdviceSums) {
        for it in reasons.iter_mut() {
            if let Some(before) = self.reasons.iter().find(|before| before.reason == it.reason) {
                it.requests = it.requests.saturating_sub(before.requests);
                it.micros = it.micros.saturating_sub(before.micros);
            }
        }
        let AdviceSums { analytics, cookies, plain, anonymous, .. } = self.sums;
        *sums = AdviceSums {
            analytics: sums.analytics.saturating_sub(analytics),
            cookies: sums.cookies.saturating_sub(cookies),
            plain: sums.plain.saturating_sub(plain),
            anonymous: sums.anonymous.saturating_sub(anonymous),
            ..*sums
        };
    }
}

fn reason_counts(scopes: &ConfigScopes, route: usize) -> Vec<ReasonCount> {
    let count =
        |it: &ReasonSum| ReasonCount { reason: it.row.reason, requests: it.requests, micros: it.micros };
    scopes.reasons_of(route).iter().map(count).collect()
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
        || route.tells_certificate
        || route.access.forward.is_some()
}

fn per_hour(requests: u64, seconds: u64) -> u64 {
    (u128::from(requests) * 3600 / u128::from(seconds.max(1))).try_into().unwrap_or(u64::MAX)
}
