//! From host and path to what answers there. Built anew by each worker for each configuration; nothing of a
//! request is kept here, and no string is made while looking up.

use crate::config::tiers::Purge;
use crate::config::{HostPattern, Methods, PathPattern};
use larder_gateway::Route;
use std::rc::Rc;

/// What answers on a route.
#[derive(Clone)]
pub enum Target {
    /// An application, through the cache.
    Proxy(Rc<Route>),
    /// Files beneath a root.
    Files(Rc<super::files::FileRoute>),
}

impl Target {
    /// The route's name in logs.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Target::Proxy(route) => &route.name,
            Target::Files(files) => &files.name,
        }
    }
}

/// One site: its hosts, and its routes in the order of the file.
pub struct Site {
    /// Any of these.
    pub hosts: Vec<HostPattern>,
    /// The first that matches answers.
    pub routes: Vec<Matched>,
}

/// One route: what it answers for, and what answers.
pub struct Matched {
    /// The paths.
    pub path: PathPattern,
    /// The methods.
    pub methods: Methods,
    /// What answers.
    pub target: Target,
    /// Who may purge with the `PURGE` method.
    pub purge: Purge,
}

/// All sites. An exact host wins over a suffix, a longer suffix over a shorter, and any over none.
#[derive(Default)]
pub struct Router {
    sites: Vec<Site>,
}

impl Router {
    /// A router over `sites`.
    #[must_use]
    pub fn new(sites: Vec<Site>) -> Self {
        Self { sites }
    }

    /// What answers for `authority` (with or without port) and `target` (with or without query); with the
    /// positions of site and route in the configuration.
    #[must_use]
    pub fn find(&self, method: &str, authority: &str, target: &str) -> Option<(&Target, usize, usize)> {
        let host = without_port(authority);
        let path = path_of(target);
        let at = self.site(host)?;
        let routes = &self.sites[at].routes;
        let route = routes.iter().position(|it| it.path.matches(path) && it.methods.allow(method))?;
        Some((&routes[route].target, at, route))
    }

    /// The routes of the site that answers for `authority`, in order.
    #[must_use]
    pub fn routes(&self, authority: &str) -> &[Matched] {
        self.site(without_port(authority)).map_or(&[], |at| &self.sites[at].routes)
    }

    /// The first route that answers for a path, whatever the method.
    #[must_use]
    pub fn at_path(&self, authority: &str, target: &str) -> Option<&Matched> {
        let path = path_of(target);
        self.routes(authority).iter().find(|it| it.path.matches(path))
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
        // The first of the strongest: `max_by_key` would take the last.
        strengths.rev().max_by_key(|it| it.1).filter(|it| it.1 > 0).map(|it| it.0)
    }
}

fn path_of(target: &str) -> &str {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    if path.starts_with('/') { path } else { "/" }
}

/// The host of an authority: IPv6 literals keep their brackets; one trailing dot is dropped.
fn without_port(authority: &str) -> &str {
    let host = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::policy::Policy;

    fn router(spec: &[(&str, &[&str])]) -> Router {
        let limits = larder_origin::Limits {
            connect: std::time::Duration::from_secs(1),
            first_byte: std::time::Duration::from_secs(1),
            between_bytes: std::time::Duration::from_secs(1),
            total: std::time::Duration::ZERO,
            idle: std::time::Duration::from_secs(1),
            head_size: 1024,
            connections: 1,
            idle_connections: 1,
            interim: 1,
        };
        let origin = larder_origin::Origin::new(
            larder_origin::Address::Tcp("h".to_owned(), 1),
            limits,
            Default::default(),
        );
        let host = || larder_gateway::HostSent::Own("h".to_owned());
        let target = |name: &str| {
            Target::Proxy(Route::new(name.to_owned(), Policy::default(), vec![origin.clone()], host()))
        };
        let site = |(hosts, paths): &(&str, &[&str])| Site {
            hosts: hosts.split(' ').map(HostPattern::of).collect(),
            routes: paths
                .iter()
                .map(|it| Matched {
                    path: PathPattern::of(it),
                    methods: Methods::Any,
                    target: target(it),
                    purge: Purge::default(),
                })
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
        assert_eq!(
            expect,
            router.find("GET", authority, target).map(|it| (it.1, it.2)),
            "{authority} {target}"
        );
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
}
