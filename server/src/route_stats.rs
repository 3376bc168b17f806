//! Statistics by site, route and origin: the counters of each worker, and their sums. Every worker has counters of its
//! own; they are created with a configuration, and those of unchanged routes and origins are taken over from the one
//! before. The tables are in `larder_counters::scopes`; counting is in `observe::scopes`.
//!
//! A route is unchanged if its site's first host, its path, methods, condition and listeners are; an origin if its address
//! is. The numbers of a removed one are dropped, so that repeated reloads take no memory: the totals of all routes keep them.

use larder_config::{Config, Methods, OriginMember, RouteConfig, Service};
use larder_counters::{
    ExampleRequest, Lately, NeedlessCookies, OriginCounters, OriginScope, ReasonExamples, RouteCounters,
    RouteScope, Snapshot, TierCounters, WorkerScope,
};
use larder_origin::{OriginState, OutlierState, protocol_name};
use larder_semantics::miss_reason::{MissClass, MissReason, REASONS, ReasonRow};
use larder_stdx::clock;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The counters of one worker for one route.
#[derive(Clone)]
pub struct RoutePart {
    /// The route's.
    pub route: Arc<RouteScope>,
    /// Its origins', in the order of the configuration; none for files.
    pub origins: Vec<Arc<OriginScope>>,
}

/// A site and its routes, in the order of the configuration.
pub struct SiteScope {
    /// Its first host.
    pub name: String,
    /// The positions of its routes among all.
    pub routes: Vec<usize>,
    /// The positions of the origins of each of its routes: a route that repeats another has origins of its own.
    origins: Vec<Vec<usize>>,
}

/// The requests of a route within its site: two routes with the same are counted as one, since the second gets none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteIdentity {
    /// The path pattern.
    pub path: String,
    /// Its methods; empty for all.
    pub methods: Vec<String>,
    /// The text of its condition as it is shown; empty without one. Conditions that differ only in secrets are numbered.
    pub when: String,
    /// Its listeners; empty for all.
    pub listeners: Vec<String>,
}

/// The routes of a site by their identity: for each whole text of the condition, the number of the route.
#[derive(Default)]
struct OwnIdentities(HashMap<RouteIdentity, Vec<(String, usize)>>);

impl OwnIdentities {
    /// The identity of a route and its number, which is `next` if no route before has it.
    fn number(&mut self, route: &RouteConfig, next: usize) -> (RouteIdentity, usize) {
        let mut identity = RouteIdentity::of(route);
        let text = route.when.as_ref().map_or_else(String::new, |it| it.text().to_owned());
        let same = self.0.entry(identity.clone()).or_default();
        let at = same.iter().position(|it| it.0 == text).unwrap_or_else(|| {
            same.push((text, next));
            same.len() - 1
        });
        if at > 0 {
            identity.when.push_str(&format!(" #{}", at + 1));
        }
        (identity, same[at].1)
    }
}

impl RouteIdentity {
    fn of(route: &RouteConfig) -> Self {
        let methods = match &route.methods {
            Methods::Any => Vec::new(),
            Methods::Only(these) => these.clone(),
        };
        let when = route.when.as_ref().map_or_else(String::new, |it| it.shown().to_owned());
        Self { path: route.path.to_string(), methods, when, listeners: route.listeners.clone() }
    }
}

/// One route.
pub struct RouteScopes {
    /// Its name in logs: the site's first host and the path pattern.
    pub name: String,
    /// Its requests.
    pub identity: RouteIdentity,
    /// Its site's position.
    pub site: usize,
    /// Its kind.
    pub kind: ServiceKind,
    /// The positions of its origins, in the order of the configuration; empty for files.
    pub origins: Vec<usize>,
    parts: Vec<Arc<RouteScope>>,
}

/// The kind of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Its origins.
    Proxy,
    /// The file system.
    Files,
    /// A database.
    Sql,
    /// larder itself: a redirect or a fixed answer.
    Own,
}

impl ServiceKind {
    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ServiceKind::Proxy => "proxy",
            ServiceKind::Files => "files",
            ServiceKind::Sql => "sql",
            ServiceKind::Own => "answer",
        }
    }
}

/// One origin.
pub struct OriginScopes {
    /// Its address.
    pub name: String,
    /// The positions of the routes that use it.
    pub routes: Vec<usize>,
    /// Its state, for all workers and routes.
    pub standing: Arc<OutlierState>,
    /// Whether some route drains it.
    pub drained: bool,
    /// The duration of its reduced share after it is readmitted, by the first route that names it.
    pub slow_start: Duration,
    parts: Vec<Arc<OriginScope>>,
}

/// The sums of one scope over the workers.
pub struct ScopeSums {
    /// In the order of its table.
    pub counters: Vec<u64>,
    /// Its durations.
    pub latency: Snapshot,
}

/// The facts for advice about a route: the sums of `larder_counters::AdviceCounters`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdviceSums {
    /// First requests with parameters of analytics.
    pub analytics: u64,
    /// These parameters as bits.
    pub parameters: u64,
    /// Requests that are private because of cookies, all of which are those of analytics.
    pub cookies: u64,
    /// Stored responses that could be compressed and were sent as they came, to clients that accept gzip.
    pub plain: u64,
    /// Requests without credentials for pages without a lifetime.
    pub anonymous: u64,
    /// Those of them whose stored response was replaced by another one.
    pub changed: u64,
    /// Requests with a private cookie that could have been hits, as recent requests show.
    pub needless_private: u64,
    /// The same for requests with credentials.
    pub needless_credentials: u64,
    /// First requests for pages that are stored under another URL, as recent requests show.
    pub needless_first: u64,
}

impl AdviceSums {
    /// Of `requests` with this reason those that could have been hits, by the class of the reason or as recent requests show.
    #[must_use]
    pub fn could_be_hits(&self, reason: MissReason, requests: u64) -> u64 {
        match reason {
            MissReason::PrivateCookie => self.needless_private.min(requests),
            MissReason::Credentials => self.needless_credentials.min(requests),
            MissReason::FirstRequest => self.needless_first.min(requests),
            _ if reason.row().class == MissClass::CouldBeHit => requests,
            _ => 0,
        }
    }
}

/// The requests of one reason.
pub struct ReasonSum {
    /// The reason.
    pub row: &'static ReasonRow,
    /// Their number.
    pub requests: u64,
    /// Microseconds to the heads of their responses, in total.
    pub micros: u64,
}

/// All scopes of one configuration.
pub struct ConfigScopes {
    /// In the order of the configuration.
    pub sites: Vec<SiteScope>,
    /// In the order of the configuration; a route that repeats another of its site is the same.
    pub routes: Vec<RouteScopes>,
    /// In the order in which they are named first.
    pub origins: Vec<OriginScopes>,
    workers: Vec<Arc<WorkerScope>>,
}

impl OriginScopes {
    /// The protocol of the connection opened last; `None` before the first.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.standing.protocol().map(|it| protocol_name(&self.name, it))
    }

    /// Its current state.
    #[must_use]
    pub fn state(&self) -> OriginState {
        match self.standing.state(self.slow_start, clock::monotonic()) {
            _ if self.drained => OriginState::Drained,
            state => state,
        }
    }

    /// The source of its drain; `None` if it is not drained.
    #[must_use]
    pub fn drained_by(&self) -> Option<Drained> {
        match (self.drained, self.standing.is_drained()) {
            (true, _) => Some(Drained::ByConfiguration),
            (_, true) => Some(Drained::ByOperator),
            _ => None,
        }
    }
}

/// The source of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// `proxy.to` of some route.
    ByConfiguration,
    /// The admin.
    ByOperator,
}

impl Drained {
    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Drained::ByConfiguration => "configuration",
            Drained::ByOperator => "operator",
        }
    }
}

impl ConfigScopes {
    /// The scopes of `config` for this number of workers, with the numbers of those in `before`.
    #[must_use]
    pub fn new(config: &Config, workers: NonZeroUsize, before: Option<&ConfigScopes>) -> Self {
        let count = workers.get();
        let own = match before {
            Some(before) => before.workers.clone(),
            None => parts(count),
        };
        let mut all = Self { sites: Vec::new(), routes: Vec::new(), origins: Vec::new(), workers: own };
        for (at, site) in config.sites.iter().enumerate() {
            let name = site.hosts.first().map_or_else(String::new, ToString::to_string);
            let mut own = OwnIdentities::default();
            let (mut positions, mut of_routes) = (Vec::new(), Vec::new());
            for route in &site.routes {
                let (identity, number) = own.number(route, all.routes.len());
                positions.push(number);
                let (kind, slow_start) = match &route.service {
                    Service::Proxy(proxy) => (ServiceKind::Proxy, proxy.to.rules.slow_start),
                    Service::Files(_) => (ServiceKind::Files, Duration::ZERO),
                    Service::Sql(_) => (ServiceKind::Sql, Duration::ZERO),
                    Service::Redirect(_) | Service::Respond(_) => (ServiceKind::Own, Duration::ZERO),
                };
                let origins = route.origins().map(|it| all.origin(it, number, slow_start, before));
                let origins: Vec<usize> = origins.collect();
                of_routes.push(origins.clone());
                if number < all.routes.len() {
                    continue;
                }
                let parts = before
                    .and_then(|it| it.parts_of(&name, &identity))
                    .unwrap_or_else(|| parts_of_route(count));
                all.routes.push(RouteScopes {
                    name: route.name.clone(),
                    identity,
                    site: at,
                    kind,
                    origins,
                    parts,
                });
            }
            all.sites.push(SiteScope { name, routes: positions, origins: of_routes });
        }
        all
    }

    fn origin(
        &mut self,
        member: &OriginMember,
        route: usize,
        slow_start: Duration,
        before: Option<&ConfigScopes>,
    ) -> usize {
        let (name, drained) = (member.name(), member.drained);
        if let Some(at) = self.origins.iter().position(|it| it.name == name) {
            if self.origins[at].routes.last() != Some(&route) {
                self.origins[at].routes.push(route);
            }
            self.origins[at].drained |= drained;
            return at;
        }
        let old = before.and_then(|it| it.origins.iter().find(|it| it.name == name));
        let parts = old.map_or_else(|| parts(self.workers.len()), |it| it.parts.clone());
        let standing = old.map_or_else(Arc::default, |it| it.standing.clone());
        let routes = vec![route];
        self.origins.push(OriginScopes { name, routes, standing, drained, slow_start, parts });
        self.origins.len() - 1
    }

    fn parts_of(&self, site: &str, identity: &RouteIdentity) -> Option<Vec<Arc<RouteScope>>> {
        let same = |it: &&RouteScopes| self.sites[it.site].name == site && it.identity == *identity;
        self.routes.iter().find(same).map(|it| it.parts.clone())
    }

    /// For each route of `before`, its position here if it keeps its counters.
    #[must_use]
    pub fn positions_since(&self, before: &ConfigScopes) -> Vec<Option<usize>> {
        let of = |it: &RouteScopes| it.parts.first().map(Arc::as_ptr);
        let here: HashMap<_, usize> = self.routes.iter().enumerate().map(|(at, it)| (of(it), at)).collect();
        before.routes.iter().map(|it| here.get(&of(it)).copied()).collect()
    }

    /// The counters of `worker` for the route at these positions of the configuration.
    #[must_use]
    pub fn part(&self, worker: usize, (site, route): (usize, usize)) -> RoutePart {
        let site = &self.sites[site];
        let origins = site.origins[route].iter().map(|it| self.origins[*it].parts[worker].clone());
        RoutePart { origins: origins.collect(), route: self.routes[site.routes[route]].parts[worker].clone() }
    }

    /// The origins of the route at these positions of the configuration.
    pub fn origins_of(&self, (site, route): (usize, usize)) -> impl Iterator<Item = &OriginScopes> {
        self.sites[site].origins[route].iter().map(|it| &self.origins[*it])
    }

    /// The state of the origin with that name; a new one if there is none.
    #[must_use]
    pub fn standing(&self, name: &str) -> Arc<OutlierState> {
        self.origins.iter().find(|it| it.name == name).map_or_else(Arc::default, |it| it.standing.clone())
    }

    /// The counters of `worker` for all its requests.
    #[must_use]
    pub fn of_worker(&self, worker: usize) -> Arc<WorkerScope> {
        self.workers[worker].clone()
    }

    /// The sums of a route.
    #[must_use]
    pub fn of_route(&self, route: usize) -> ScopeSums {
        let parts = &self.routes[route].parts;
        ScopeSums {
            counters: self.counters_of(route),
            latency: Snapshot::of(parts.iter().map(|it| &it.latency)),
        }
    }

    /// The sums of the counters of a route, in the order of [`RouteCounters::TABLE`].
    #[must_use]
    pub fn counters_of(&self, route: usize) -> Vec<u64> {
        sums(RouteCounters::TABLE.len(), self.routes[route].parts.iter().map(|it| it.counters.values()))
    }

    /// The requests of a route that reached its origin, and the microseconds to their heads, for each reason that occurred.
    #[must_use]
    pub fn reasons_of(&self, route: usize) -> Vec<ReasonSum> {
        let mut sums = vec![(0u64, 0u64); REASONS.len()];
        for part in &self.routes[route].parts {
            for (sum, (requests, micros)) in sums.iter_mut().zip(part.reasons.values()) {
                *sum = (sum.0.wrapping_add(requests), sum.1.wrapping_add(micros));
            }
        }
        let all = REASONS.iter().zip(sums);
        all.filter(|(_, it)| it.0 > 0)
            .map(|(row, (requests, micros))| ReasonSum { row, requests, micros })
            .collect()
    }

    /// The facts for advice about a route.
    #[must_use]
    pub fn advice_of(&self, route: usize) -> AdviceSums {
        let parts = self.routes[route].parts.iter().map(|it| &it.advice);
        parts.fold(AdviceSums::default(), |sum, it| AdviceSums {
            analytics: sum.analytics + it.analytics.get(),
            parameters: sum.parameters | it.parameters(),
            cookies: sum.cookies + it.cookies.get(),
            plain: sum.plain + it.plain.get(),
            anonymous: sum.anonymous + it.anonymous.get(),
            changed: sum.changed + it.changed.get(),
            needless_private: sum.needless_private + it.needless_private.get(),
            needless_credentials: sum.needless_credentials + it.needless_credentials.get(),
            needless_first: sum.needless_first + it.needless_first.get(),
        })
    }

    /// The judgement about the cookies of recent requests for a route.
    #[must_use]
    pub fn needless_of(&self, route: usize) -> Option<&NeedlessCookies> {
        self.routes[route].parts.first().map(|it| &*it.needless)
    }

    /// The last request of a route for each reason, in the order of [`REASONS`]; empty before the first.
    #[must_use]
    pub fn examples_of(&self, route: usize) -> Vec<Option<ExampleRequest>> {
        self.routes[route].parts.first().map(|it| it.examples.all()).unwrap_or_default()
    }

    /// The requests of a route, and its responses with a status from 500.
    #[must_use]
    pub fn errors_of(&self, route: usize) -> (u64, u64) {
        let parts = self.routes[route].parts.iter().map(|it| &it.counters);
        parts.fold((0, 0), |sum, it| (sum.0 + it.requests.get(), sum.1 + it.errors_5xx.get()))
    }

    /// The responses of a route with a status of 400 to 499.
    #[must_use]
    pub fn rejected_of(&self, route: usize) -> u64 {
        self.routes[route].parts.iter().map(|it| it.counters.errors_4xx.get()).sum()
    }

    /// The requests of a route that `access.limit` has refused.
    #[must_use]
    pub fn limited_of(&self, route: usize) -> u64 {
        self.routes[route].parts.iter().map(|it| it.counters.limited.get()).sum()
    }

    /// The requests of a route that `access` has refused with 401 or 403.
    #[must_use]
    pub fn refused_of(&self, route: usize) -> u64 {
        self.routes[route].parts.iter().map(|it| it.counters.refused.get()).sum()
    }

    /// The purges of a route that were refused with 403.
    #[must_use]
    pub fn purges_refused_of(&self, route: usize) -> u64 {
        self.routes[route].parts.iter().map(|it| it.counters.purges_refused.get()).sum()
    }

    /// The answers of an origin, those of them with a status from 500, and the microseconds to their heads, in total.
    #[must_use]
    pub fn answers_of(&self, origin: usize) -> [u64; 4] {
        let parts = self.origins[origin].parts.iter();
        parts.fold([0; 4], |[answers, errors, micros, waits], it| {
            let OriginCounters { answers: more, errors_5xx, waits: long, .. } = &it.counters;
            let micros = micros.wrapping_add(it.latency.sum());
            [answers + more.get(), errors + errors_5xx.get(), micros, waits + long.get()]
        })
    }

    /// The requests of a route that reached its origin for this reason.
    #[must_use]
    pub fn requests_of(&self, route: usize, reason: MissReason) -> u64 {
        self.routes[route].parts.iter().map(|it| it.reasons.requests_of(reason.index())).sum()
    }

    /// The route of each origin that has only one.
    #[must_use]
    pub fn only_routes(&self) -> Vec<Option<usize>> {
        let mut found = vec![(0, None); self.origins.len()];
        for (route, it) in self.routes.iter().enumerate() {
            for origin in &it.origins {
                let (routes, one) = &mut found[*origin];
                if *one != Some(route) {
                    (*routes, *one) = (*routes + 1, Some(route));
                }
            }
        }
        found.into_iter().map(|(routes, one)| one.filter(|_| routes == 1)).collect()
    }

    /// The requests of a route to its origins, and the microseconds to the heads of their responses, in total.
    #[must_use]
    pub fn sent_of(&self, route: usize) -> [u64; 2] {
        let parts = self.routes[route].parts.iter().map(|it| &it.counters);
        parts.fold([0; 2], |sum, it| [sum[0] + it.origin_requests.get(), sum[1] + it.origin_us.get()])
    }

    /// The sums of an origin.
    #[must_use]
    pub fn of_origin(&self, origin: usize) -> ScopeSums {
        let parts = &self.origins[origin].parts;
        ScopeSums {
            counters: sums(OriginCounters::TABLE.len(), parts.iter().map(|it| it.counters.values())),
            latency: Snapshot::of(parts.iter().map(|it| &it.latency)),
        }
    }

    /// The durations of requests: hits, misses, passes, and other requests.
    #[must_use]
    pub fn times(&self) -> [Snapshot; 4] {
        let all = || self.workers.iter();
        [
            Snapshot::of(all().map(|it| &it.hit)),
            Snapshot::of(all().map(|it| &it.miss)),
            Snapshot::of(all().map(|it| &it.pass)),
            Snapshot::of(all().map(|it| &it.other)),
        ]
    }

    /// The sums of the tiers, each in the order of [`TierCounters::TABLE`]: RAM, disk, fleet.
    #[must_use]
    pub fn tiers(&self) -> [Vec<u64>; 3] {
        let of = |tier: fn(&WorkerScope) -> &TierCounters| {
            sums(TierCounters::TABLE.len(), self.workers.iter().map(move |it| tier(it).values()))
        };
        [of(|it| &it.ram), of(|it| &it.disk), of(|it| &it.fleet)]
    }

    /// Bytes of memory of all counters.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let routes: usize = self.routes.iter().map(|it| it.parts.len()).sum();
        let origins: usize = self.origins.iter().map(|it| it.parts.len()).sum();
        let each = size_of::<RouteScope>() * routes + size_of::<OriginScope>() * origins;
        (each + size_of::<WorkerScope>() * self.workers.len()) as u64
    }
}

/// New counters for each worker, with one common mean of the origin's response time, and common examples.
fn parts_of_route(workers: usize) -> Vec<Arc<RouteScope>> {
    let (lately, examples, needless) = <(Arc<Lately>, Arc<ReasonExamples>, Arc<NeedlessCookies>)>::default();
    let part = || RouteScope {
        lately: lately.clone(),
        examples: examples.clone(),
        needless: needless.clone(),
        ..RouteScope::default()
    };
    (0..workers).map(|_| Arc::new(part())).collect()
}

/// New counters for each worker.
fn parts<T: Default>(workers: usize) -> Vec<Arc<T>> {
    (0..workers).map(|_| Arc::default()).collect()
}

/// The sums of values in the same order.
fn sums<V: Iterator<Item = u64>>(length: usize, parts: impl Iterator<Item = V>) -> Vec<u64> {
    let mut sums = vec![0u64; length];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(sites: &str) -> Config {
        Config::from_text(sites, "t.toml", Path::new("."), &[]).unwrap()
    }

    fn requests(it: &ConfigScopes, route: usize) -> u64 {
        it.of_route(route).counters[0]
    }

    const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

    #[test]
    fn an_unchanged_route_keeps_its_counters_and_a_removed_one_loses_them() {
        let old = config(
            "[[site]]\nhosts = [\"a\"]\nroute = [{ path = \"/x/*\", proxy = { to = \":1\" } }, \
             { path = \"/*\", methods = [\"GET\"], proxy = { to = \":2\" } }, { path = \"/*\", proxy = { to = \":1\" } }]\n",
        );
        let before = ConfigScopes::new(&old, TWO, None);
        for (worker, at) in [(0, 0), (1, 0), (1, 1), (1, 2)] {
            let part = before.part(worker, (0, at));
            part.route.counters.requests.add(1 << (2 * at));
            part.route.lately.note(8 << at);
            part.origins[0].counters.requests.add(1);
        }
        before.of_worker(1).pass.record(10, 1);
        assert_eq!([2, 4, 16], [0, 1, 2].map(|it| requests(&before, it)));
        assert_eq!([3, 1], [0, 1].map(|it| before.of_origin(it).counters[0]), "the first is of two routes");
        assert_eq!(vec![0, 2], before.origins[0].routes);

        // Another site before it, one route less, and the other way round.
        let new = config(
            "[[site]]\nhosts = [\"b\"]\nroute = [{ path = \"/*\", proxy = { to = \":2\" } }]\n\
             [[site]]\nhosts = [\"a\", \"c\"]\nroute = [{ path = \"/*\", proxy = { to = \":3\" } }, \
             { path = \"/x/*\", proxy = { to = \":1\" } }]\n",
        );
        let after = ConfigScopes::new(&new, TWO, Some(&before));
        assert_eq!([0, 16, 2], [0, 1, 2].map(|it| requests(&after, it)));
        assert_eq!([1, 0, 3], [0, 1, 2].map(|it| after.of_origin(it).counters[0]));
        assert_eq!(["b/*", "a/*", "a/x/*"], [0, 1, 2].map(|it| after.routes[it].name.as_str()));
        assert_eq!(vec![Some(2), None, Some(1)], after.positions_since(&before));
        let lately = [0, 1].map(|worker| after.part(worker, (1, 1)).route.lately.micros());
        assert_eq!([8, 8], lately, "what one worker measured is known to all");
        after.part(0, (1, 1)).route.counters.requests.add(1);
        assert_eq!((3, 3), (requests(&after, 2), requests(&before, 0)), "it is the same");
        assert_eq!([0, 0, 1, 0], after.times().map(|it| it.count()));
        assert_eq!(0, requests(&ConfigScopes::new(&old, TWO, Some(&after)), 1), "what went begins anew");
    }

    #[test]
    fn a_route_that_repeats_another_is_the_same_with_origins_of_its_own() {
        let it = config(
            "[[site]]\nhosts = [\"a\"]\nroute = [{ path = \"/*\", proxy = { to = \":1\" } }, \
             { path = \"/*\", proxy = { to = [\":2\", \":3\"] } }]\n",
        );
        let all = ConfigScopes::new(&it, TWO, None);
        assert_eq!((1, vec![0, 0]), (all.routes.len(), all.sites[0].routes.clone()));
        assert_eq!([1, 2], [0, 1].map(|it| all.part(0, (0, it)).origins.len()));
    }

    #[test]
    fn routes_of_one_path_with_other_conditions_or_listeners_are_different() {
        let all = "listen = [\"127.0.0.1:81\", \"127.0.0.1:82\"]\n[[site]]\nhosts = [\"a\"]\nroute = [\
             { when = 'method == \"GET\"', proxy = { to = \":1\" } }, \
             { listeners = [\"127.0.0.1:82\"], proxy = { to = [\":1\", \":2\"] } }, \
             { proxy = { to = [\":3\", \":1\", \":2\"] } }]\n";
        let before = ConfigScopes::new(&config(all), TWO, None);
        assert_eq!((3, vec![0, 1, 2]), (before.routes.len(), before.sites[0].routes.clone()));
        for at in 0..3 {
            let part = before.part(0, (0, at));
            assert_eq!(at + 1, part.origins.len());
            part.route.counters.requests.add(1 << at);
            part.origins[at].counters.requests.add(1 << at);
        }
        let of = |it: &str| {
            let at = before.origins.iter().position(|origin| origin.name.ends_with(it)).unwrap();
            before.of_origin(at).counters[0]
        };
        assert_eq!(
            [1, 6, 0],
            [":1", ":2", ":3"].map(of),
            "each is counted for the origin that it was sent to"
        );

        // The first route is gone, the others are the same.
        let less = all.replace("{ when = 'method == \"GET\"', proxy = { to = \":1\" } }, ", "");
        let after = ConfigScopes::new(&config(&less), TWO, Some(&before));
        assert_eq!([2, 4], [0, 1].map(|it| requests(&after, it)));
    }
}
