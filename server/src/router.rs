//! From a request to its service: by host, path, method, listener and condition. Built by each worker for each configuration; it keeps no state of
//! requests, and makes no string during a lookup.

mod candidates;
mod refusal;

pub use refusal::NoRoute;

use super::finish::{RouteFinish, SiteErrorPage};
use super::own_answer::{self, LiveRedirects};
use super::route_admission::RouteAdmission;
use super::site_tls::SiteTls;
use candidates::RouteCandidates;
use larder_config::purge_access::PurgeAccess;
use larder_config::{HostPattern, Methods, PathPattern};
use larder_counters::RouteScope;
use larder_gateway::GatewayRoute;
use larder_semantics::expression::Expression;
use larder_semantics::geo::GeoLookup;
use larder_semantics::path::{self, Decode};
use larder_semantics::request_view::{RequestView, host_of, path_of};
use larder_transport::worker::{ClientLimits, RequestLimits};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The service of a route.
#[derive(Clone)]
pub enum RouteTarget {
    /// An application, through the cache.
    Proxy(Rc<GatewayRoute>),
    /// Files beneath a root.
    Files(Rc<super::files::FileRoute>),
    /// Admission, which answers every request: a redirect or a fixed answer. Its name in logs.
    Own(Rc<str>),
}

impl RouteTarget {
    /// Whether its responses have `Server-Timing` (`site.route.server_timing`).
    #[must_use]
    pub fn reports_time(&self) -> bool {
        match self {
            RouteTarget::Proxy(route) => route.server_timing,
            RouteTarget::Files(files) => files.server_timing,
            RouteTarget::Own(_) => false,
        }
    }

    /// The route's name in logs.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            RouteTarget::Proxy(route) => &route.name,
            RouteTarget::Files(files) => &files.name,
            RouteTarget::Own(name) => name,
        }
    }
}

/// One site: its hosts, and its routes in the order of the file.
pub struct LiveSite {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<HostPattern>,
    /// Its redirects, before all routes.
    pub redirects: Option<Rc<LiveRedirects>>,
    /// Its TLS rules, if some site has rules of its own.
    pub tls: Option<Rc<SiteTls>>,
    /// The finish of responses to requests without a route.
    pub finish: Option<Rc<RouteFinish>>,
    /// Whether requests without a route have an identifier.
    pub identifies: bool,
    /// Its routes; the first match counts.
    pub routes: Vec<Matched>,
}

/// One route: its paths, methods and conditions, and its service.
pub struct Matched {
    /// The paths, as in the configuration.
    pub path: PathPattern,
    /// The methods.
    pub methods: Methods,
    /// Its conditions other than path and method.
    pub condition: Option<Box<RouteCondition>>,
    /// Its service.
    pub target: RouteTarget,
    /// The hosts of its site, as they are configured.
    pub hosts: Rc<[String]>,
    /// Its service for an ambiguous path: the same without the cache.
    two_ways: RouteTarget,
    /// The permission to purge with the `PURGE` method.
    pub purge: PurgeAccess,
    /// This worker's counters for its requests; `None` if they are not counted.
    pub scope: Option<Arc<RouteScope>>,
    /// Its own part of admission; `None` is nothing.
    pub admission: Option<Box<RouteAdmission>>,
    /// The finish of its responses.
    pub finish: Option<Rc<RouteFinish>>,
    /// The limits of its requests; `None` for those of the worker.
    pub limits: Option<Box<RequestLimits>>,
    /// Whether its requests have an identifier: a text of the route or the log of its site reads `{request_id}`.
    pub identifies: bool,
    /// Whether it is `/app/*` and `/app` belongs to it, too: no other route of its site is `/app`. Such a request is redirected.
    takes_directory: bool,
    /// Whether its paths without a file belong to the next route.
    falls_through: bool,
}

impl Matched {
    /// A route for `path` and `methods`.
    #[must_use]
    pub fn new(path: PathPattern, methods: Methods, target: RouteTarget, purge: PurgeAccess) -> Self {
        let two_ways = match &target {
            RouteTarget::Proxy(route) => RouteTarget::Proxy(route.for_two_ways()),
            other => other.clone(),
        };
        let (condition, scope, admission, finish, limits) = (None, None, None, None, None);
        let takes_directory = false;
        let falls_through = matches!(&target, RouteTarget::Files(it) if it.falls_through);
        Self {
            path,
            methods,
            condition,
            target,
            two_ways,
            purge,
            scope,
            admission,
            finish,
            limits,
            identifies: false,
            hosts: Rc::default(),
            takes_directory,
            falls_through,
        }
    }

    /// The same, only for requests that fulfil a condition and arrive at one of these listeners, if any are given.
    #[must_use]
    pub fn only(self, when: Option<Expression>, listeners: &[String]) -> Self {
        let is_any = when.is_none() && listeners.is_empty();
        let condition = RouteCondition { when, listeners: listeners.to_vec() };
        Self { condition: (!is_any).then(|| Box::new(condition)), ..self }
    }

    /// The same, with its requests counted into `scope`.
    #[must_use]
    pub fn counted(self, scope: Option<Arc<RouteScope>>) -> Self {
        Self { scope, ..self }
    }

    /// The same, with its own part of admission.
    #[must_use]
    pub fn admitting(self, admission: RouteAdmission) -> Self {
        Self { admission: admission.is_something().then(|| Box::new(admission)), ..self }
    }

    /// The same, with limits of its requests where these differ from those of the worker.
    #[must_use]
    pub fn limited(self, own: RequestLimits, of_worker: &ClientLimits) -> Self {
        let differ = own.transfer.is_some() || own.body_size != of_worker.body_size;
        Self { limits: differ.then(|| Box::new(own)), ..self }
    }

    /// The same, in a site with these hosts.
    #[must_use]
    pub fn of_site(self, hosts: Rc<[String]>) -> Self {
        Self { hosts, ..self }
    }

    /// The same, with an identifier of its requests if `identifies`.
    #[must_use]
    pub fn identifying(self, identifies: bool) -> Self {
        Self { identifies, ..self }
    }

    /// The same, with a finish of its responses.
    #[must_use]
    pub fn finishing(self, finish: Option<Rc<RouteFinish>>) -> Self {
        Self { finish, ..self }
    }
}

/// Conditions of a route over the rest of a request (`when`, `listeners`).
#[derive(Clone, Debug)]
pub struct RouteCondition {
    /// True for requests of the route.
    pub when: Option<Expression>,
    /// Its listeners, in the notation of the configuration; empty for all.
    pub listeners: Vec<String>,
}

impl RouteCondition {
    fn holds(&self, view: &RequestView<'_>) -> bool {
        (self.listeners.is_empty() || self.listeners.iter().any(|it| it == view.listener))
            && self.when.as_ref().is_none_or(|it| it.holds(view))
    }
}

/// The parts of a request that choose its route, except the path.
#[derive(Clone, Copy)]
struct RouteQuery<'a> {
    /// `None` for any.
    method: Option<&'a str>,
    /// `None` if conditions do not count, or no route of the site has one.
    view: Option<&'a RequestView<'a>>,
    /// The directories that have no file for the request.
    without: RoutesWithoutFile,
}

/// The routes of a site that fall through and have no file for a request, which therefore is not one of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutesWithoutFile {
    /// Those before this position.
    before: usize,
}

impl RoutesWithoutFile {
    /// All of the site: a purge, for example, is never about a file.
    const ALL: Self = Self { before: usize::MAX };

    fn has(self, at: usize, route: &Matched) -> bool {
        route.falls_through && at < self.before
    }
}

/// All sites. An exact host wins over a suffix, a longer suffix over a shorter, and any of them over `*`.
#[derive(Default)]
pub struct Router {
    sites: Vec<LiveSite>,
    /// For each site, whether a route has a condition.
    conditional: Vec<bool>,
    /// For each site, the beginnings and ends of its patterns.
    candidates: Vec<RouteCandidates>,
    /// See [`Router::purge_paths`].
    purge_paths: Vec<String>,
    /// A buffer for a normalised path.
    room: RefCell<Vec<u8>>,
    /// The databases of countries and autonomous systems.
    geo: Option<Arc<GeoLookup>>,
    /// The error pages that are pages of sites.
    error_pages: Vec<SiteErrorPage>,
}

/// The route of a request.
#[derive(Clone, Copy)]
pub struct FoundRoute<'a> {
    /// The target of the route.
    pub target: &'a RouteTarget,
    /// The positions of site and route in the configuration.
    pub at: (usize, usize),
    /// The counters of the route; `None` where it is not counted.
    pub scope: Option<&'a Arc<RouteScope>>,
    /// The route's own part of admission.
    pub admission: Option<&'a RouteAdmission>,
    /// Whether it is the route of every interpretation of the path.
    pub sure: bool,
    /// Whether only the slash at the end of the path is missing.
    pub lacks_slash: bool,
    /// The route.
    pub route: &'a Matched,
    /// The routes before it that have no file for the request.
    pub without: RoutesWithoutFile,
}

impl<'a> FoundRoute<'a> {
    /// The files of a route that is only one for paths with a file.
    #[inline]
    #[must_use]
    pub fn falling(&self) -> Option<&'a super::files::FileRoute> {
        match self.target {
            RouteTarget::Files(files) if files.falls_through => Some(files),
            _ => None,
        }
    }

    /// The same routes, and this one.
    #[must_use]
    pub fn passed(&self) -> RoutesWithoutFile {
        RoutesWithoutFile { before: self.at.1 + 1 }
    }
}

/// A selected route.
struct Chosen {
    /// Its position.
    route: usize,
    /// Whether it is the route of every interpretation of the path.
    sure: bool,
}

impl Router {
    /// A router over `sites`.
    #[must_use]
    pub fn new(mut sites: Vec<LiveSite>) -> Self {
        sites.iter_mut().for_each(take_directories);
        let conditional = sites.iter().map(|it| it.routes.iter().any(|it| it.condition.is_some())).collect();
        let candidates = sites.iter().map(|it| RouteCandidates::of(&it.routes)).collect();
        let mut purge_paths: Vec<String> = Vec::new();
        for route in sites.iter().flat_map(|it| &it.routes) {
            purge_paths.extend(route.purge.path.clone().filter(|it| !purge_paths.contains(it)));
        }
        Self { sites, conditional, candidates, purge_paths, ..Self::default() }
    }

    /// The same, with the databases for its conditions.
    #[must_use]
    pub fn locating(self, geo: Option<Arc<GeoLookup>>) -> Self {
        Self { geo, ..self }
    }

    /// The same, with the error pages that are pages of sites.
    #[must_use]
    pub fn erring(self, error_pages: Vec<SiteErrorPage>) -> Self {
        Self { error_pages, ..self }
    }

    /// The error pages that are pages of sites.
    #[must_use]
    pub fn error_pages(&self) -> &[SiteErrorPage] {
        &self.error_pages
    }

    /// Takes over the error pages of an earlier configuration, until they are requested again.
    pub fn inherit_error_pages(&self, before: &Router) {
        for it in &self.error_pages {
            let same = |old: &&SiteErrorPage| old.asker.host == it.asker.host && old.target == it.target;
            before.error_pages.iter().find(same).iter().for_each(|old| it.page.inherit(&old.page));
        }
    }

    /// The databases of countries and autonomous systems.
    #[inline]
    #[must_use]
    pub fn geo(&self) -> Option<&GeoLookup> {
        self.geo.as_deref()
    }

    /// The paths below which a GET purges a page (`cache.purge.path`), of all routes.
    #[must_use]
    pub fn purge_paths(&self) -> &[String] {
        &self.purge_paths
    }

    /// The route for `authority` (with or without port) and `target` (with or without query), as if every condition were
    /// fulfilled. It is the route of the path's normal form. If the path has a second interpretation with another route, it
    /// is one that bypasses the cache.
    #[must_use]
    pub fn find(&self, method: &str, authority: &str, target: &str) -> Option<FoundRoute<'_>> {
        let at = self.site(host_of(authority))?;
        let without = RoutesWithoutFile::ALL;
        self.find_in(at, RouteQuery { method: Some(method), view: None, without }, target)
    }

    /// The route for a request, with its conditions. `view` is called only if a route of the site has one. If it is
    /// [`FoundRoute::falling`] and has no file for the request, the next route is that of [`Router::find_without`].
    #[inline]
    #[must_use]
    pub fn find_for<'v>(
        &self,
        method: &str,
        authority: &str,
        target: &str,
        view: impl FnOnce() -> RequestView<'v>,
    ) -> Option<FoundRoute<'_>> {
        self.find_without(RoutesWithoutFile::default(), method, authority, target, view)
    }

    /// The same for a request for which these routes have no file.
    #[inline]
    #[must_use]
    pub fn find_without<'v>(
        &self,
        without: RoutesWithoutFile,
        method: &str,
        authority: &str,
        target: &str,
        view: impl FnOnce() -> RequestView<'v>,
    ) -> Option<FoundRoute<'_>> {
        let at = self.site(host_of(authority))?;
        if method == "OPTIONS" {
            return self.find_options(at, target, &view());
        }
        if !self.conditional[at] {
            return self.find_in(at, RouteQuery { method: Some(method), view: None, without }, target);
        }
        self.find_in(at, RouteQuery { method: Some(method), view: Some(&view()), without }, target)
    }

    /// The route for an OPTIONS. A CORS preflight is answered by the route of the request that it is about, if that permits pages of
    /// other origins, as the methods of a route often lack OPTIONS. Routes that fall through answer GET and HEAD only.
    fn find_options(&self, at: usize, target: &str, view: &RequestView<'_>) -> Option<FoundRoute<'_>> {
        let has_cors = |it: &FoundRoute<'_>| it.admission.is_some_and(RouteAdmission::has_cors);
        let without = RoutesWithoutFile::ALL;
        let of_request = own_answer::preflighted(view).and_then(|method| {
            let view = RequestView { method, ..*view };
            self.find_in(at, RouteQuery { method: Some(method), view: Some(&view), without }, target)
                .filter(has_cors)
        });
        let asked = RouteQuery { method: Some(view.method), view: Some(view), without };
        of_request.or_else(|| self.find_in(at, asked, target))
    }

    fn find_in(&self, at: usize, asked: RouteQuery<'_>, target: &str) -> Option<FoundRoute<'_>> {
        let Chosen { route, sure } = self.choose(at, asked, target)?;
        let matched = &self.sites[at].routes[route];
        let lacks_slash = matched.takes_directory && !matched.path.matches(&normal(path_of(target)));
        let target = if sure { &matched.target } else { &matched.two_ways };
        let (scope, admission) = (matched.scope.as_ref(), matched.admission.as_deref());
        let without = asked.without;
        Some(FoundRoute {
            target,
            at: (at, route),
            scope,
            admission,
            sure,
            lacks_slash,
            route: matched,
            without,
        })
    }

    /// Whether every interpretation of the path is subject to the access rules of the route `found`. A path that is too long
    /// and unusual to be interpreted is not.
    #[must_use]
    pub fn has_one_access(&self, found: &FoundRoute<'_>, view: &RequestView<'_>) -> bool {
        let (at, without) = (found.at, found.without);
        let routes = &self.sites[at.0].routes;
        let rules = |it: &Matched| it.admission.as_ref().and_then(|it| it.access.clone());
        if routes.iter().all(|it| rules(it).is_none()) {
            return true;
        }
        let asked = RouteQuery { method: Some(view.method), view: Some(view), without };
        let of = |route: usize| rules(&routes[route]);
        let ours = of(at.1);
        path::holds_for_all(path_of(view.target).as_bytes(), &mut Vec::new(), |read, decode| {
            self.position(at.0, asked, read, decode).is_none_or(|it| match (&ours, of(it)) {
                (Some(ours), Some(other)) => Arc::ptr_eq(ours, &other),
                (ours, other) => ours.is_none() && other.is_none(),
            })
        })
    }

    /// The two interpretations of an ambiguous path, as a sentence; `None` if there is only one, or one route for all.
    #[must_use]
    pub fn two_ways(&self, without: RoutesWithoutFile, view: &RequestView<'_>) -> Option<String> {
        let (at, path) = (self.site(host_of(view.authority))?, path_of(view.target));
        let routes = &self.sites[at].routes;
        let asked = RouteQuery { method: Some(view.method), view: Some(view), without };
        let Chosen { route, .. } = self.choose(at, asked, view.target).filter(|it| !it.sure)?;
        let mut room = Vec::new();
        path::read(path.as_bytes(), path::NORMAL, &mut room);
        let normal = room.escape_ascii().to_string();
        let pattern = &routes[route].path;
        let mut other = None;
        path::holds_for_all(path.as_bytes(), &mut Vec::new(), |read, decode| {
            let found = self.position(at, asked, read, decode);
            if found != Some(route) {
                other = Some((read.escape_ascii().to_string(), found));
            }
            other.is_none()
        });
        let (read, found) = other.unwrap_or_else(|| (path.to_owned(), None));
        let found = found.map_or("no route".to_owned(), |it| format!("the route {}", routes[it].path));
        Some(format!("The path is ambiguous: {normal} matches the route {pattern}, {read} matches {found}."))
    }

    /// The redirects of the site for `authority`.
    #[must_use]
    pub fn redirects(&self, authority: &str) -> Option<&Rc<LiveRedirects>> {
        self.sites[self.site(host_of(authority))?].redirects.as_ref()
    }

    /// The position of the site for `authority`.
    #[must_use]
    pub fn site_at(&self, authority: &str) -> Option<usize> {
        self.site(host_of(authority))
    }

    /// The TLS rules of the site for `authority`, if some site has rules of its own.
    #[must_use]
    pub fn tls(&self, authority: &str) -> Option<&SiteTls> {
        self.sites[self.site(host_of(authority))?].tls.as_deref()
    }

    /// The finish of responses of the site for `authority` to requests without a route.
    #[must_use]
    pub fn finish_without_route(&self, authority: &str) -> Option<&RouteFinish> {
        self.sites[self.site(host_of(authority))?].finish.as_deref()
    }

    /// Whether a request has an identifier: one to the route `found`, or one without a route to `authority`.
    #[inline]
    #[must_use]
    pub fn identifies(&self, found: Option<FoundRoute<'_>>, authority: &str) -> bool {
        match found {
            Some(it) => it.route.identifies,
            None => self.site(host_of(authority)).is_some_and(|it| self.sites[it].identifies),
        }
    }

    /// The name of a site: its first host.
    #[must_use]
    pub fn site_name(&self, at: usize) -> &str {
        self.sites.get(at).map_or("", |it| &it.name)
    }

    /// All sites, in the order of the configuration.
    #[must_use]
    pub fn sites(&self) -> &[LiveSite] {
        &self.sites
    }

    /// The routes of the site for `authority`, in order.
    #[must_use]
    pub fn routes(&self, authority: &str) -> &[Matched] {
        self.site(host_of(authority)).map_or(&[], |at| &self.sites[at].routes)
    }

    /// The first route for a path, with any method, as if every condition were fulfilled; none that falls through.
    #[must_use]
    pub fn at_path(&self, authority: &str, target: &str) -> Option<&Matched> {
        let at = self.site(host_of(authority))?;
        let chosen = self.choose(
            at,
            RouteQuery { method: None, view: None, without: RoutesWithoutFile::ALL },
            target,
        )?;
        Some(&self.sites[at].routes[chosen.route])
    }

    /// Every route that may answer a `GET` of this path, depending on conditions: up to the first that has none.
    #[must_use]
    pub fn all_at_path(&self, authority: &str, target: &str) -> Vec<&Matched> {
        let Some(at) = self.site(host_of(authority)) else { return Vec::new() };
        let routes = &self.sites[at].routes[..];
        let asked = RouteQuery { method: Some("GET"), view: None, without: RoutesWithoutFile::ALL };
        let path = &mut *self.room.borrow_mut();
        path::read(path_of(target).as_bytes(), path::NORMAL, path);
        let mut found = Vec::new();
        for number in self.matching(at, asked, path, Decode::All) {
            found.push(&routes[number]);
            if routes[number].condition.is_none() {
                break;
            }
        }
        found
    }

    /// The same, with the conditions of its routes.
    #[must_use]
    pub fn at_path_for(&self, view: &RequestView<'_>) -> Option<&Matched> {
        let at = self.site(host_of(view.authority))?;
        let asked = RouteQuery { method: None, view: Some(view), without: RoutesWithoutFile::ALL };
        let chosen = self.choose(at, asked, view.target)?;
        Some(&self.sites[at].routes[chosen.route])
    }

    /// The first route for the normal form of the path of `target`. Allocates nothing, except for the first path that needs
    /// normalisation.
    fn choose(&self, site: usize, asked: RouteQuery<'_>, target: &str) -> Option<Chosen> {
        let routes = &self.sites[site].routes[..];
        let takes_all = |it: &Matched| {
            let is_open = it.path.is_all() && it.condition.is_none() && it.allows(asked.method);
            is_open && !asked.without.has(0, it)
        };
        if routes.first().is_some_and(takes_all) {
            return Some(Chosen { route: 0, sure: true });
        }
        let path = path_of(target);
        if path::is_plain(path.as_bytes()) {
            let route = self.position(site, asked, path.as_bytes(), Decode::All)?;
            return Some(Chosen { route, sure: true });
        }
        let room = &mut *self.room.borrow_mut();
        path::read(path.as_bytes(), path::NORMAL, room);
        let route = self.position(site, asked, room, Decode::All)?;
        let same = |read: &[u8], decode| self.position(site, asked, read, decode) == Some(route);
        Some(Chosen { route, sure: path::holds_for_all(path.as_bytes(), room, same) })
    }

    /// The first route for an interpretation of a path.
    fn position(&self, site: usize, asked: RouteQuery<'_>, path: &[u8], decode: Decode) -> Option<usize> {
        self.matching(site, asked, path, decode).next()
    }

    /// The routes for an interpretation of a path, in order, without those that have no file for it. An undecoded path is compared
    /// with literal patterns.
    fn matching(
        &self,
        site: usize,
        asked: RouteQuery<'_>,
        path: &[u8],
        decode: Decode,
    ) -> impl Iterator<Item = usize> {
        let routes = &self.sites[site].routes;
        let takes =
            move |it: &usize| routes[*it].takes(asked, path, decode) && !asked.without.has(*it, &routes[*it]);
        self.candidates[site].of_path(path).filter(takes)
    }

    fn site(&self, host: &str) -> Option<usize> {
        HostPattern::site_of(host, self.sites.iter().map(|it| &it.hosts[..]))
    }
}

impl Matched {
    /// Whether its service is an application, through the cache.
    #[must_use]
    pub fn proxies(&self) -> bool {
        matches!(self.target, RouteTarget::Proxy(_))
    }

    /// The name in its keys for all hosts of the site (`cache.key.ignore_host`).
    #[must_use]
    pub fn any_host_of(&self) -> Option<&str> {
        match &self.target {
            RouteTarget::Proxy(route) => route.policy.key.any_host_of.as_deref(),
            RouteTarget::Files(_) | RouteTarget::Own(_) => None,
        }
    }

    fn allows(&self, method: Option<&str>) -> bool {
        method.is_none_or(|it| self.methods.allow(it))
    }

    /// Whether a request with this interpretation of its path is one of the route.
    fn takes(&self, asked: RouteQuery<'_>, path: &[u8], decode: Decode) -> bool {
        (self.path.matches_as(path, decode) || self.is_directory(path, decode))
            && self.allows(asked.method)
            && self.fulfils(asked.view, path)
    }

    /// Whether the normal form of a path is one of its paths.
    #[must_use]
    pub fn is_for_path(&self, path: &[u8]) -> bool {
        self.path.matches(path) || self.is_directory(path, Decode::All)
    }

    fn is_directory(&self, path: &[u8], decode: Decode) -> bool {
        self.takes_directory && self.path.is_directory(path, decode)
    }

    #[inline]
    fn fulfils(&self, view: Option<&RequestView<'_>>, path: &[u8]) -> bool {
        match (&self.condition, view) {
            (Some(condition), Some(view)) => condition.holds(&RequestView { path, ..*view }),
            _ => true,
        }
    }
}

/// Gives each route `/app/*` of a site the path `/app`, unless another route is that path.
fn take_directories(site: &mut LiveSite) {
    let texts: Vec<String> = site.routes.iter().map(|it| it.path.text().to_owned()).collect();
    for it in &mut site.routes {
        it.takes_directory = it.path.directory().is_some_and(|it| !texts.iter().any(|text| text == it));
    }
}

/// The normal form of a path.
fn normal(path: &str) -> Cow<'_, [u8]> {
    if path::is_plain(path.as_bytes()) {
        return Cow::Borrowed(path.as_bytes());
    }
    let mut out = Vec::new();
    path::read(path.as_bytes(), path::NORMAL, &mut out);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
