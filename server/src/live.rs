//! The configuration in force, with the resources it opens and the parts it makes for each worker: routes, origins, their
//! observers. The process, a worker, the certificates and the admin put it in force by an `apply_config` each, at start as at a reload.

use super::access::{AccessRules, LiveAccess};
use super::addresses::OpenAddresses;
use super::files::FileRoute;
use super::finish::{PageAsker, RouteFinish, SiteErrorPages};
use super::geo::LiveGeo;
use super::internal_client::InternalClient;
use super::own_answer::{LiveRedirects, RouteAnswers};
use super::route_admission::RouteAdmission;
use super::route_stats::{ConfigScopes, RoutePart};
use super::router::{LiveSite, Matched, RouteTarget, Router};
use super::site_logs::OpenSiteLogs;
use super::site_tls::SiteTls;
use super::sql::{self, WorkerDatabases};
use larder_config::{Config, HostPattern, OriginHost, OriginMember, Service, SiteConfig};
use larder_counters::Counters;
use larder_files::{Root, ScriptRoot};
use larder_gateway::buffered::BufferedBodies;
use larder_gateway::coding::pool::Coders;
use larder_gateway::file_orders::{FileOrderSettings, NotSentReport};
use larder_gateway::miss_budget::MissBudget;
use larder_gateway::{GatewayRoute, HostSent};
use larder_observe::log::{ErrorLog, Level, Subsystem, SubsystemLog};
use larder_origin::{
    Blame, ErrorOutputReport, FailureReport, Group, Measures, Membership, OriginPool, OutlierState,
    StateReport,
};
use larder_semantics::file_order::FileOrderRules;
use larder_semantics::geo::GeoLookup;
use larder_semantics::key::KeyRecipe;
use larder_semantics::policy::{Policy, TierSet};
use larder_semantics::server_state::BrokenFileFact;
use larder_stdx::circuit_breaker::BreakerChange;
use larder_stdx::duration::spell;
use larder_transport::listener::{Listen, ListenerAddress};
use larder_transport::tls::{HandshakeRules, ServerTls};
use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

/// A configuration with its open resources.
pub struct Live {
    /// The configuration.
    pub config: Config,
    /// The directories of its file routes, and of files that applications hand over, by site and route.
    roots: HashMap<(usize, usize), Arc<Root>>,
    /// The directories of its scripts, by site and route.
    scripts: HashMap<(usize, usize), Arc<ScriptRoot>>,
    /// The access rules of its routes.
    pub access: LiveAccess,
    /// The databases of countries and autonomous systems.
    pub geo: Option<Arc<LiveGeo>>,
    /// The statistics of its routes and origins.
    pub scopes: ConfigScopes,
    workers: NonZeroUsize,
}

impl Live {
    /// Reads changed files of users, keys and countries again. To be called once a second.
    pub fn look_at_access_files(&self, counters: &Counters, errors: &ErrorLog) {
        self.geo.iter().for_each(|it| it.look(counters, errors));
        self.access.look_at_files(counters);
    }

    /// The files of users, keys and countries that cannot be used; their earlier content is in force.
    #[must_use]
    pub fn broken_files(&self) -> Vec<BrokenFileFact> {
        let of_countries = self.geo.iter().flat_map(|it| it.broken_files());
        let mut all: Vec<_> = self.access.broken_files().chain(of_countries).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        all
    }

    /// Opens the resources of `config`. The numbers of routes in `before` are kept.
    ///
    /// # Errors
    /// One sentence: the resource that could not be opened.
    pub fn open(
        config: Config,
        coders: &Arc<Coders>,
        counters: &Arc<Counters>,
        workers: NonZeroUsize,
        before: Option<&Live>,
    ) -> Result<Arc<Self>, String> {
        let geo = LiveGeo::open(&config.geo, before.and_then(|it| it.geo.as_ref()))?;
        Self::open_with(config, geo, coders, counters, workers, before)
    }

    /// The same for a trial of `config` while `self` is in force: the two share no counters and no limits.
    ///
    /// # Errors
    /// As [`Live::open`].
    pub fn open_for_trial(&self, config: Config, coders: &Arc<Coders>) -> Result<Arc<Self>, String> {
        let geo = LiveGeo::open(&config.geo, self.geo.as_ref())?;
        Self::open_with(config, geo, coders, &Arc::new(Counters::default()), self.workers, None)
    }

    fn open_with(
        config: Config,
        geo: Option<Arc<LiveGeo>>,
        coders: &Arc<Coders>,
        counters: &Arc<Counters>,
        workers: NonZeroUsize,
        before: Option<&Live>,
    ) -> Result<Arc<Self>, String> {
        let (mut roots, mut scripts) = (HashMap::new(), HashMap::new());
        let encoder = super::files::encoder(coders);
        for (at, site) in config.sites.iter().enumerate() {
            for (number, route) in site.routes.iter().enumerate() {
                if let Service::Proxy(proxy) = &route.service
                    && let Some(php) = &proxy.php
                {
                    scripts.insert((at, number), super::files::open_scripts(php)?);
                }
                let root = match &route.service {
                    Service::Files(files) => super::files::open(files, &encoder, counters.clone())?,
                    Service::Proxy(proxy) => match &proxy.sendfile {
                        Some(files) => super::files::open_handed(files, counters.clone())?,
                        None => continue,
                    },
                    Service::Redirect(_) | Service::Respond(_) | Service::Sql(_) => continue,
                };
                roots.insert((at, number), root);
            }
        }
        let scopes = ConfigScopes::new(&config, workers, before.map(|it| &it.scopes));
        let access = LiveAccess::new(&config, before.map(|it| &it.access));
        Ok(Arc::new(Self { config, roots, scripts, access, geo, scopes, workers }))
    }

    /// Bytes of the open-file caches: on the heap, and in copies.
    #[must_use]
    pub fn files(&self) -> (u64, u64) {
        let scripts: u64 = self.scripts.values().map(|it| it.memory_held()).sum();
        self.roots.values().fold((scripts, 0), |(heap, copies), it| {
            let copied = it.copies_held();
            (heap + it.memory_held().saturating_sub(copied), copies + copied)
        })
    }

    /// Closes files that are not being sent.
    pub fn let_files_go(&self) {
        self.roots.values().for_each(|it| it.let_go());
    }

    /// The routes of one worker; `worker` is its number, or `None` if its requests are not counted. Redirects to https lead to
    /// `tls_port`.
    #[must_use]
    pub fn router(
        &self,
        counters: &Arc<Counters>,
        errors: &ErrorLog,
        worker: Option<usize>,
        tls_port: Option<u16>,
    ) -> Router {
        let worker = worker.filter(|_| self.config.statistics);
        self.access.set_log(errors);
        let services = RefCell::new(HashMap::new());
        let databases = sql::databases(&self.config, self.workers, counters, &errors.of(Subsystem::Origin));
        let error_pages = SiteErrorPages::default();
        let of_worker = self.config.limits_of_clients();
        let of_all =
            self.config.tls.as_ref().map(|it| &it.rules).filter(|it| **it != HandshakeRules::default());
        let rules = |it: &SiteConfig| {
            let rules = it.tls.as_ref().or(of_all)?.clone();
            Some(Rc::new(SiteTls { rules, are_of_sites: it.tls.is_some() }))
        };
        let sites = self.config.sites.iter().map(|it| (it, rules(it))).enumerate();
        let sites = sites.map(|(at, (site, tls))| {
            let asker = self.page_asker(site);
            let page = |target: &str| error_pages.of(&asker, target);
            let hosts: Rc<[String]> = site.hosts.iter().map(ToString::to_string).collect();
            LiveSite {
                tls: tls.clone(),
                name: site.hosts.first().map_or_else(String::new, ToString::to_string),
                hosts: site.hosts.clone(),
                redirects: LiveRedirects::new(&site.redirects, tls_port),
                finish: RouteFinish::new(
                    &site.finish,
                    self.config.identifies(site, None),
                    self.config.varies(site, None),
                    page,
                ),
                identifies: self.config.identifies(site, None),
                routes: site
                    .routes
                    .iter()
                    .enumerate()
                    .map(|(number, route)| {
                        let part = worker.map(|it| self.scopes.part(it, (at, number)));
                        let identifies = self.config.identifies(site, Some(route));
                        let target =
                            self.target((at, number), route, counters, errors, part.as_ref(), &databases);
                        let access = self.access.of((at, number));
                        let admission = RouteAdmission {
                            service: access.as_ref().and_then(|it| auth_service(it, &services)),
                            access,
                            redirects: LiveRedirects::new(&site.redirects, tls_port)
                                .filter(|_| !route.is_health()),
                            tls: tls.clone(),
                            answers: RouteAnswers::new(route),
                            keys_country: route.cache.key.has_country()
                                && matches!(route.service, Service::Proxy(_) | Service::Sql(_)),
                        };
                        Matched::new(route.path.clone(), route.methods.clone(), target, route.purge.clone())
                            .finishing(RouteFinish::new(
                                &route.finish,
                                identifies,
                                self.config.varies(site, Some(number)),
                                page,
                            ))
                            .identifying(identifies)
                            .of_site(hosts.clone())
                            .only(route.when.clone(), &route.listeners)
                            .limited(route.limits, &of_worker)
                            .counted(part.map(|it| it.route))
                            .admitting(admission)
                    })
                    .collect(),
            }
        });
        let router = Router::new(sites.collect()).locating(self.geo());
        router.erring(error_pages.all())
    }

    /// The sender of requests for the error pages of a site.
    fn page_asker(&self, site: &SiteConfig) -> PageAsker {
        let is_tls = |it: &&ListenerAddress| matches!(it.at, Listen::Tls(_));
        let named = site.hosts.iter().find_map(|it| match it {
            HostPattern::Exact(name) => Some(name.clone()),
            HostPattern::Below(_) | HostPattern::Any => None,
        });
        let host = site.redirects.canonical_host.clone().or(named).unwrap_or_else(|| "localhost".to_owned());
        let secure = self.config.listen.iter().find(is_tls);
        let scheme = self.config.scheme_of_pages(site);
        let listener =
            secure.or(self.config.listen.first()).map_or_else(String::new, ListenerAddress::spelled);
        PageAsker { host, scheme, listener: listener.into() }
    }

    /// The lookup in the databases of countries and autonomous systems.
    #[must_use]
    pub fn geo(&self) -> Option<Arc<GeoLookup>> {
        self.geo.as_ref().map(|it| it.lookup.clone())
    }

    fn target(
        &self,
        at: (usize, usize),
        route: &larder_config::RouteConfig,
        counters: &Arc<Counters>,
        errors: &ErrorLog,
        part: Option<&RoutePart>,
        databases: &WorkerDatabases,
    ) -> RouteTarget {
        let name = route.name.clone();
        match &route.service {
            Service::Proxy(proxy) => {
                let origins = self.group(&name, proxy, counters, errors, part);
                let own = proxy.to.members[0].authority();
                let host = match &proxy.host {
                    OriginHost::Client => HostSent::Clients(own),
                    OriginHost::Own => HostSent::Own(own),
                    OriginHost::Named(host) => HostSent::Own(host.clone()),
                };
                let mut proxied = GatewayRoute::new(name, policy_of(route), origins, host);
                if let Some(new) = Rc::get_mut(&mut proxied) {
                    new.own = proxy.own_addresses();
                    new.geo = self.geo();
                    new.budget = self.budget(route, part);
                    new.rewrite = route.rewrite.clone();
                    new.sticky = proxy.sticky.clone();
                    new.hash_by = proxy.to.hash_by.clone();
                    new.server_timing = route.server_timing;
                    new.buffers = proxy.buffers;
                    new.sendfile = proxy.sendfile.as_ref().map(|it| self.handed(at, it, &route.name, errors));
                    new.scripts = self.scripts.get(&at).cloned();
                    new.upgrades = route.upgrades.clone();
                    new.other_keys = self.other_keys(at);
                    new.has_queries = self.has_queries(at.0);
                    new.forwarded_fields = route.forwarded_fields;
                    new.sends_certificate = route.sends_certificate;
                    new.given_fields = route.access.given_fields().map(str::to_owned).collect();
                }
                RouteTarget::Proxy(proxied)
            }
            Service::Sql(config) => {
                let host = HostSent::Clients(String::new());
                let mut made = GatewayRoute::new(name, policy_of(route), Group::empty(), host);
                if let (Some(new), Some(database)) =
                    (Rc::get_mut(&mut made), databases.get(&config.database.name))
                {
                    let (database, log) = (database.clone(), errors.of(Subsystem::Origin));
                    let database = match config.raw {
                        Some(_) => database.apart(self.workers),
                        None => database,
                    };
                    new.maker_scope = part.map(|it| it.route.clone());
                    new.maker =
                        Some(sql::maker(&new.name, &route.path, config, database, counters.clone(), log));
                    new.geo = self.geo();
                    new.budget = self.budget(route, part);
                    new.server_timing = route.server_timing;
                    new.buffers = BufferedBodies::Always;
                    new.upgrades.protocols.clear();
                    new.has_queries = self.has_queries(at.0);
                    new.other_keys = self.other_keys(at);
                }
                RouteTarget::Proxy(made)
            }
            Service::Redirect(_) | Service::Respond(_) => RouteTarget::Own(name.into()),
            Service::Files(files) => {
                let (root, timing) = (self.roots[&at].clone(), route.server_timing);
                RouteTarget::Files(Rc::new(FileRoute::new(name, root, timing, files.fall_through)))
            }
        }
    }
}

/// The policy of a route, with its tiers.
fn policy_of(route: &larder_config::RouteConfig) -> Policy {
    let used = route.tiers;
    Policy { tiers: TierSet { ram: used.ram, disk: used.disk, fleet: used.fleet }, ..route.cache.clone() }
}

impl Live {
    fn budget(&self, route: &larder_config::RouteConfig, part: Option<&RoutePart>) -> Option<Rc<MissBudget>> {
        let scope = part.map(|it| it.route.clone());
        route.budget.as_ref().map(|it| Rc::new(self.access.budget(it, scope)))
    }

    /// The different keys and tiers of the other routes of a site that may store responses.
    fn other_keys(&self, (site, route): (usize, usize)) -> Rc<[(KeyRecipe, TierSet)]> {
        let routes = &self.config.sites[site].routes;
        let of = |it: &larder_config::RouteConfig| (it.cache.key.clone(), policy_of(it).tiers);
        let own = of(&routes[route]);
        let mut others = Vec::new();
        for other in routes.iter().filter(|it| it.cache.enabled).map(of) {
            if other != own && !others.contains(&other) {
                others.push(other);
            }
        }
        others.into()
    }

    /// Whether a route of a site stores responses to QUERY.
    fn has_queries(&self, site: usize) -> bool {
        self.config.sites[site].routes.iter().any(|it| it.cache.query_body.is_some())
    }

    /// The files that the applications of a route may hand over.
    fn handed(
        &self,
        at: (usize, usize),
        files: &larder_config::SendfileConfig,
        route: &str,
        errors: &ErrorLog,
    ) -> Rc<FileOrderSettings> {
        let roots = [&files.root, &files.real].map(|it| it.as_os_str().as_bytes());
        let rules = FileOrderRules::new(roots, files.prefix.as_deref());
        let report = not_handed(errors.of(Subsystem::Origin), route);
        Rc::new(FileOrderSettings { rules, root: self.roots[&at].clone(), report })
    }

    /// The origins of a route in one worker.
    fn group(
        &self,
        route: &str,
        proxy: &larder_config::Proxy,
        counters: &Arc<Counters>,
        errors: &ErrorLog,
        part: Option<&RoutePart>,
    ) -> Rc<Group> {
        let larder_config::Origins { members, rules, ejection, .. } = &proxy.to;
        let one = |(at, member): (usize, &OriginMember)| {
            let standing = self.scopes.standing(&member.name());
            let (weight, drained) = (member.weight, member.drained);
            let (tls, protocol) = (proxy.to.speaks(member), proxy.to.protocol(member));
            let (name, ejection) = (member.name(), *ejection);
            let preamble = proxy.to.preamble;
            let membership = Membership {
                name,
                tls,
                protocol,
                outlier_state: standing,
                weight,
                ejection,
                drained,
                preamble,
            };
            let shown = membership.outlier_state.clone();
            let origin = OriginPool::in_group(member.at.clone(), proxy.limits, counters.clone(), membership);
            let teller = || errors.of(Subsystem::Origin);
            origin.on_failure(failure_report(teller(), route, origin.name()));
            origin.on_error_output(wrote(teller(), route, origin.name(), shown));
            origin.on_change(changed(teller(), route, origin.name()));
            if let Some(RoutePart { route, origins }) = part {
                origin.measure(Measures { route: route.clone(), origin: origins[at].clone() });
            }
            origin
        };
        Group::new(members.iter().enumerate().map(one).collect(), rules.clone())
    }
}

/// The orders to the workers.
#[derive(Clone)]
pub struct WorkerState {
    /// The configuration in force.
    pub live: Arc<Live>,
    /// The addresses for clients.
    pub addresses: OpenAddresses,
    /// The access logs of sites.
    pub site_logs: Arc<OpenSiteLogs>,
    /// The TLS settings for its `https` addresses.
    pub tls: Option<Arc<ServerTls>>,
    /// Whether, and why, to finish requests in progress and accept no new connections.
    pub drain: Option<DrainReason>,
}

/// Why workers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainReason {
    /// larder stops: connections in the queues of its sockets are served, too.
    Stopped,
    /// Another process has the sockets.
    Replaced,
}

/// The service of access rules, made once for the routes that share them.
fn auth_service(
    rules: &Arc<AccessRules>,
    made: &RefCell<HashMap<*const AccessRules, Rc<InternalClient>>>,
) -> Option<Rc<InternalClient>> {
    let config = rules.auth_service()?;
    let mut made = made.borrow_mut();
    Some(made.entry(Arc::as_ptr(rules)).or_insert_with(|| InternalClient::new(config)).clone())
}

/// Logs failures of `origin`.
fn failure_report(teller: SubsystemLog, route: &str, origin: &str) -> FailureReport {
    let (route, origin) = (route.to_owned(), origin.to_string());
    Box::new(move |error| {
        let level = match error.blame() {
            Blame::Origin => Level::Error,
            Blame::Us => Level::Warn,
        };
        if teller.logs(level) {
            let why = error.sentence();
            let values = [("route", route.as_str()), ("origin", &origin), ("why", &why)];
            teller.seldom_of(level, "origin-failed", &origin, &values);
        }
    })
}

/// Logs what the application `origin` writes to its error output, and keeps its last line for the state of the server.
fn wrote(teller: SubsystemLog, route: &str, origin: &str, shown: Arc<OutlierState>) -> ErrorOutputReport {
    /// Bytes of a text in the log.
    const MOST: usize = 500;
    let (route, origin) = (route.to_owned(), origin.to_owned());
    Box::new(move |text| {
        shown.note_error_output(&String::from_utf8_lossy(&text[text.len().saturating_sub(MOST)..]));
        if teller.logs(Level::Warn) {
            let text = String::from_utf8_lossy(&text[..text.len().min(MOST)]);
            let values = [("route", route.as_str()), ("origin", &origin), ("text", text.trim())];
            teller.seldom_of(Level::Warn, "application-stderr", &origin, &values);
        }
    })
}

/// Logs the files of a route that an application hands over and that are not sent.
fn not_handed(teller: SubsystemLog, route: &str) -> NotSentReport {
    /// Bytes of an order in the log.
    const MOST: usize = 500;
    let route = route.to_owned();
    Box::new(move |order, why| {
        if teller.logs(Level::Warn) {
            let order = String::from_utf8_lossy(&order[..order.len().min(MOST)]);
            let values = [("route", route.as_str()), ("file", &order), ("why", why)];
            teller.seldom_of(Level::Warn, "file-not-sent", &route, &values);
        }
    })
}

/// Logs the ejection and readmission of `origin`.
fn changed(teller: SubsystemLog, route: &str, origin: &str) -> StateReport {
    let (route, origin) = (route.to_owned(), origin.to_owned());
    Box::new(move |change| {
        let (level, what, time) = match change {
            BreakerChange::Opened(time) => (Level::Warn, "origin-ejected", spell(time)),
            BreakerChange::Closed => (Level::Info, "origin-readmitted", String::new()),
        };
        if teller.logs(level) {
            let values = [("route", route.as_str()), ("origin", &origin), ("for", &time)];
            let values = if time.is_empty() { &values[..2] } else { &values[..] };
            teller.seldom_of(level, what, &origin, values);
        }
    })
}
