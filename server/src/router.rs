//! From host and path to the service of a request. Built by each worker for each configuration; it keeps no state of
//! requests, and makes no string during a lookup.

use super::finish::RouteFinish;
use super::own_answer::LiveRedirects;
use super::route_admission::RouteAdmission;
use larder_config::tiers::PurgeAccess;
use larder_config::{HostPattern, Methods, PathPattern};
use larder_counters::RouteScope;
use larder_gateway::GatewayRoute;
use larder_semantics::path::{self, Decode};
use larder_semantics::request_view::{host_of, path_of};
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
    pub fn tells_time(&self) -> bool {
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
    /// Its routes; the first match counts.
    pub routes: Vec<Matched>,
}

/// One route: its paths and methods, and its service.
pub struct Matched {
    /// The paths, as in the configuration.
    pub path: PathPattern,
    /// The methods.
    pub methods: Methods,
    /// Its service.
    pub target: RouteTarget,
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
}

impl Matched {
    /// A route for `path` and `methods`.
    #[must_use]
    pub fn new(path: PathPattern, methods: Methods, target: RouteTarget, purge: PurgeAccess) -> Self {
        let two_ways = match &target {
            RouteTarget::Proxy(route) => RouteTarget::Proxy(route.for_two_ways()),
            other => other.clone(),
        };
        let (scope, admission, finish) = (None, None, None);
        Self { path, methods, target, two_ways, purge, scope, admission, finish }
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

    /// The same, with a finish of its responses.
    #[must_use]
    pub fn finishing(self, finish: Option<Rc<RouteFinish>>) -> Self {
        Self { finish, ..self }
    }
}

/// All sites. An exact host wins over a suffix, a longer suffix over a shorter, and any of them over `*`.
#[derive(Default)]
pub struct Router {
    sites: Vec<LiveSite>,
    /// A buffer for a normalised path.
    room: RefCell<Vec<u8>>,
}

/// The route of a request.
#[derive(Clone, Copy)]
pub struct Found<'a> {
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
    /// The route.
    pub route: &'a Matched,
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
    pub fn new(sites: Vec<LiveSite>) -> Self {
        Self { sites, room: RefCell::default() }
    }

    /// The route for `authority` (with or without port) and `target` (with or without query). It is the route of the
    /// path's normal form. If the path has a second reading with another route, it is one that bypasses the cache.
    #[must_use]
    pub fn find(&self, method: &str, authority: &str, target: &str) -> Option<Found<'_>> {
        let at = self.site(host_of(authority))?;
        let routes = &self.sites[at].routes;
        let Chosen { route, sure } = self.choose(routes, Some(method), path_of(target))?;
        let matched = &routes[route];
        let target = if sure { &matched.target } else { &matched.two_ways };
        let (scope, admission) = (matched.scope.as_ref(), matched.admission.as_deref());
        Some(Found { target, at: (at, route), scope, admission, sure, route: matched })
    }

    /// Whether every interpretation of the path is subject to the access rules of the route `at`. A path that is too long and
    /// unusual to be interpreted is not.
    #[must_use]
    pub fn has_one_access(&self, at: (usize, usize), method: &str, target: &str) -> bool {
        let routes = &self.sites[at.0].routes;
        let rules = |it: &Matched| it.admission.as_ref().and_then(|it| it.access.clone());
        if routes.iter().all(|it| rules(it).is_none()) {
            return true;
        }
        let of = |route: usize| rules(&routes[route]);
        let ours = of(at.1);
        path::holds_for_all(path_of(target).as_bytes(), &mut Vec::new(), |read, decode| {
            position(routes, Some(method), read, decode).is_none_or(|it| match (&ours, of(it)) {
                (Some(ours), Some(other)) => Arc::ptr_eq(ours, &other),
                (ours, other) => ours.is_none() && other.is_none(),
            })
        })
    }

    /// The two interpretations of an ambiguous path, as a sentence; `None` if there is only one, or one route for all.
    #[must_use]
    pub fn two_ways(&self, method: &str, authority: &str, target: &str) -> Option<String> {
        let (routes, path) = (self.routes(authority), path_of(target));
        let Chosen { route, .. } = self.choose(routes, Some(method), path).filter(|it| !it.sure)?;
        let mut room = Vec::new();
        path::read(path.as_bytes(), path::NORMAL, &mut room);
        let normal = room.escape_ascii().to_string();
        let pattern = &routes[route].path;
        let mut other = None;
        path::holds_for_all(path.as_bytes(), &mut Vec::new(), |read, decode| {
            let found = position(routes, Some(method), read, decode);
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

    /// The first route for a path, with any method.
    #[must_use]
    pub fn at_path(&self, authority: &str, target: &str) -> Option<&Matched> {
        let routes = self.routes(authority);
        self.choose(routes, None, path_of(target)).map(|it| &routes[it.route])
    }

    /// The first route for the normal form of `path`. Allocates nothing, except for the first path that needs
    /// normalisation.
    fn choose(&self, routes: &[Matched], method: Option<&str>, path: &str) -> Option<Chosen> {
        if routes.first().is_some_and(|it| it.path.is_all() && it.allows(method)) {
            return Some(Chosen { route: 0, sure: true });
        }
        if path::is_plain(path.as_bytes()) {
            let route = position(routes, method, path.as_bytes(), Decode::All)?;
            return Some(Chosen { route, sure: true });
        }
        let room = &mut *self.room.borrow_mut();
        path::read(path.as_bytes(), path::NORMAL, room);
        let route = position(routes, method, room, Decode::All)?;
        let same = |read: &[u8], decode| position(routes, method, read, decode) == Some(route);
        Some(Chosen { route, sure: path::holds_for_all(path.as_bytes(), room, same) })
    }

    fn site(&self, host: &str) -> Option<usize> {
        let ends_with = |rest: &str| {
            let start = host.len().checked_sub(rest.len()).filter(|it| *it > 0);
            start.and_then(|it| host.get(it..)).is_some_and(|it| it.eq_ignore_ascii_case(rest))
        };
        let strength = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(name) if host.eq_ignore_ascii_case(name) => usize::MAX,
            HostPattern::Below(rest) if ends_with(rest) => rest.len() + 1,
            HostPattern::Any => 1,
            HostPattern::Exact(_) | HostPattern::Below(_) => 0,
        };
        let strengths =
            self.sites.iter().map(|site| site.hosts.iter().map(strength).max().unwrap_or(0)).enumerate();
        // The first of the strongest: `max_by_key` would return the last.
        strengths.rev().max_by_key(|it| it.1).filter(|it| it.1 > 0).map(|it| it.0)
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
}

/// The first of `routes` that matches `path`: an undecoded path is compared with literal patterns.
fn position(routes: &[Matched], method: Option<&str>, path: &[u8], decode: Decode) -> Option<usize> {
    routes.iter().position(|it| it.path.matches_as(path, decode) && it.allows(method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::policy::Policy;
    use proptest::strategy::Strategy;

    fn router(spec: &[(&str, &[&str])]) -> Router {
        let limits = larder_origin::OriginLimits {
            connect: std::time::Duration::from_secs(1),
            handshake: std::time::Duration::from_secs(1),
            first_byte: std::time::Duration::from_secs(1),
            between_bytes: std::time::Duration::from_secs(1),
            total: std::time::Duration::ZERO,
            idle: std::time::Duration::from_secs(1),
            head_size: 1024,
            connections: 1,
            queue: 1,
            queue_wait: None,
            idle_connections: 1,
            interim: 1,
        };
        let origin = larder_origin::OriginPool::new(
            larder_origin::OriginAddress::Tcp("h".to_owned(), 1),
            limits,
            Default::default(),
        );
        let host = || larder_gateway::HostSent::Own("h".to_owned());
        let target = |name: &str| {
            RouteTarget::Proxy(GatewayRoute::new(
                name.to_owned(),
                Policy::default(),
                larder_origin::Group::of_one(origin.clone()),
                host(),
            ))
        };
        let site = |(hosts, paths): &(&str, &[&str])| LiveSite {
            redirects: None,
            name: (*hosts).to_owned(),
            hosts: hosts.split(' ').map(HostPattern::of).collect(),
            routes: paths
                .iter()
                .map(|it| Matched::new(PathPattern::of(it), Methods::Any, target(it), PurgeAccess::default()))
                .collect(),
        };
        Router::new(spec.iter().map(site).collect())
    }

    #[track_caller]
    fn check(authority: &str, target: &str, expect: Option<(usize, usize)>) {
        let router = router(&[
            ("*", &["/*"]),
            ("*.example.com", &["/static/*", "/about", "/*"]),
            ("www.example.com example.net", &["/only"]),
            ("*.deep.example.com", &["/*"]),
        ]);
        assert_eq!(expect, router.find("GET", authority, target).map(|it| it.at), "{authority} {target}");
    }

    #[test]
    fn the_strongest_host_and_the_first_path() {
        check("other.org", "/", Some((0, 0)));
        check("", "/", Some((0, 0)));
        check("[::1]:8080", "/x", Some((0, 0)));
        check("a.example.com", "/static/x.css", Some((1, 0)));
        check("A.Example.COM:8080", "/about?q", Some((1, 1)));
        check("a.example.com.", "/about/", Some((1, 2)));
        check("example.com", "/about", Some((0, 0)));
        check("www.example.com", "/only", Some((2, 0)));
        check("www.example.com", "/other", None);
        check("x.deep.example.com", "/", Some((3, 0)));
        check("a.example.com", "*", Some((1, 2)));
    }

    /// Which route answers, by its pattern, and whether with its cache.
    #[track_caller]
    fn check_read(paths: &[&str], target: &str, expect: Option<(&str, bool)>) {
        let router = router(&[("*", paths)]);
        let found = router.find("GET", "h", target).map(|it| match it.target {
            RouteTarget::Proxy(route) => (paths[it.at.1], !route.two_ways && route.policy.enabled),
            _ => unreachable!("all are proxied"),
        });
        assert_eq!(expect, found, "{target}");
        let told = router.two_ways("GET", "h", target);
        assert_eq!(expect.is_some_and(|it| !it.1), told.is_some(), "{target}: {told:?}");
    }

    #[test]
    fn a_path_that_can_be_read_in_two_ways() {
        let shop = &["/account/*", "/static/*", "/*"];
        for target in [
            "/%61ccount/me",
            "/account%2fme",
            "/x/..%2faccount/me",
            "/./account/me",
            "/static/..%2faccount/me",
            "/static/%2e%2e/account/me",
            "/static/../account/me",
            "//account/me",
            "/account%5cme",
            "/account\\me",
        ] {
            check_read(shop, target, Some(("/account/*", false)));
        }
        for (target, route) in [
            ("/account/me", "/account/*"),
            ("/account//me", "/account/*"),
            ("/account/%6de", "/account/*"),
            ("/caf%C3%A9", "/*"),
            ("/a%2fb", "/*"),
            ("/a//b;c?x=../account/", "/*"),
            ("/static/a/../b%20c", "/static/*"),
            ("/%2561ccount/me", "/*"),
        ] {
            check_read(shop, target, Some((route, true)));
        }
        // Neither as it is spelled nor in the normal form, but in between.
        check_read(shop, "/static/../account/..%2fstatic/x", Some(("/static/*", false)));
        check_read(shop, "/static/..%2faccount/..%5cstatic/x", Some(("/static/*", false)));
        // Servers of Java take what is behind the semicolon for no part of the name.
        check_read(shop, "/account;a=b/me", Some(("/*", false)));
        check_read(shop, "/static/..;/account/me", Some(("/static/*", false)));
        check_read(shop, "/account/me;a=b", Some(("/account/*", true)));
        // Longer than is looked at.
        check_read(shop, &format!("/static/{}x", "a/..%2f".repeat(200)), Some(("/static/*", false)));
        check_read(&["/*", "/account/*"], "/x/..%2faccount/me", Some(("/*", true)));
        check_read(&["/app/*"], "/app/../x", None);
        check_read(&["/app/*"], "/x/../app/", Some(("/app/*", false)));
    }

    #[test]
    fn patterns_are_read_as_paths_are() {
        let odd = &["/caf%C3%A9/*", "/%C3*", "/.*", "/a%2Fb", "/*"];
        check_read(odd, "/caf%C3%A9/x", Some(("/caf%C3%A9/*", true)));
        check_read(odd, "/caf%c3%a9/x", Some(("/caf%C3%A9/*", false)));
        check_read(odd, "/%C3%A9", Some(("/%C3*", true)));
        check_read(odd, "/.git", Some(("/.*", true)));
        check_read(odd, "/git", Some(("/*", true)));
        check_read(odd, "/a/b", Some(("/a%2Fb", true)));
    }

    proptest::proptest! {
        /// The route that is used covers the normal form, is the first that does, and uses its cache only where it
        /// is also that of the path as it is spelled.
        #[test]
        fn the_route_covers_the_normal_form(paths in patterns(), path in odd_paths()) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let router = router(&[("*", &paths)]);
            let mut normal = Vec::new();
            path::read(path.as_bytes(), path::NORMAL, &mut normal);
            // None of the patterns is written in another than the normal form.
            let covers = |it: &&str, path: &[u8]| PathPattern::of(it).matches(path);
            let expect = paths.iter().position(|it| covers(it, &normal));
            let spelled = paths.iter().position(|it| covers(it, path.as_bytes()));
            let found = router.find("GET", "h", &path);
            proptest::prop_assert_eq!(expect, found.map(|it| it.at.1), "{} {:?}", path, paths);
            if let Some(Found { target: RouteTarget::Proxy(route), .. }) = found {
                let cached = route.policy.enabled;
                proptest::prop_assert!(!cached || spelled == expect, "{} {:?}", path, paths);
                proptest::prop_assert!(cached || path.as_bytes() != normal || path.contains(';'), "{} {:?}", path, paths);
            }
        }
    }

    fn patterns() -> impl proptest::strategy::Strategy<Value = Vec<String>> {
        let one =
            proptest::sample::select(vec!["/a", "/a*", "/a/*", "/b/*", "/a/b", "/a/b/*", "/b", "/.a*", "/*"]);
        proptest::collection::vec(one.prop_map(str::to_owned), 0..5)
    }

    fn odd_paths() -> impl proptest::strategy::Strategy<Value = String> {
        let part = proptest::sample::select(vec![
            "/", "/", "a", "b", "a", "b", ".", "..", "%2f", "%5C", "\\", "%2e", "%61", "%25", "%", ";",
        ]);
        proptest::collection::vec(part, 0..10).prop_map(|it| format!("/{}", it.concat()))
    }
}
