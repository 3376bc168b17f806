//! Redirects that lead back to themselves, over all routes and sites: each route that is a redirect is followed from one URL of it,
//! by the functions that serve. Only sure loops are reported: a route with a condition, an origin, or a target that another server may
//! have ends the walk.

use super::ConfigCheck;
use crate::finish::SiteRedirects;
use crate::{Config, HostPattern, RouteConfig, Service, SiteConfig};
use larder_semantics::path::{self, Decode};
use larder_semantics::redirect;
use larder_semantics::request_view::{RequestView, host_of, path_of};
use larder_semantics::scheme::Scheme;
use larder_semantics::template::TemplateInput;
use larder_transport::listener::Listen;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The redirects that browsers follow (Fetch Standard, "HTTP-redirect fetch").
const MOST_STEPS: usize = 20;

/// A URL that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestedUrl {
    scheme: Scheme,
    /// The host, with its port if it has one.
    authority: String,
    /// Path and query.
    target: String,
}

/// The next URL of a client, and the route that is a redirect, if it is one of a route.
struct FollowedRedirect {
    to: RequestedUrl,
    route: Option<(usize, usize)>,
}

impl ConfigCheck {
    /// Warns of redirects of routes that lead back to themselves.
    pub(super) fn warn_redirect_loops(&mut self, config: &Config) {
        let redirects = Redirects::of(config);
        let mut told = HashSet::new();
        for (at, site) in config.sites.iter().enumerate() {
            for (number, route) in site.routes.iter().enumerate() {
                let Service::Redirect(_) = &route.service else { continue };
                if told.contains(&(at, number)) {
                    continue;
                }
                let starts = redirects.starts((at, number));
                let found = starts.into_iter().find_map(|it| redirects.walk((at, number), it));
                let Some((text, routes)) = found else { continue };
                told.extend(routes);
                let source = route.decided.by("site[].route[].redirect.to");
                self.warn_of(source, "site.route.redirect.to", &text);
            }
        }
    }
}

/// The redirects of a configuration.
struct Redirects<'a> {
    config: &'a Config,
    /// The sites of hosts without a pattern.
    exact: HashMap<&'a str, usize>,
}

impl<'a> Redirects<'a> {
    fn of(config: &'a Config) -> Self {
        let hosts =
            config.sites.iter().enumerate().flat_map(|(at, it)| it.hosts.iter().map(move |it| (it, at)));
        let exact = hosts.filter_map(|(host, at)| match host {
            HostPattern::Exact(name) => Some((name.as_str(), at)),
            HostPattern::Below(_) | HostPattern::Any => None,
        });
        Self { config, exact: exact.collect() }
    }

    /// URLs of a route: one for each scheme of a listener.
    fn starts(&self, (site, route): (usize, usize)) -> Vec<RequestedUrl> {
        let site = &self.config.sites[site];
        let authority = match site.hosts.first() {
            Some(HostPattern::Exact(name)) => name.clone(),
            Some(HostPattern::Below(rest)) => format!("any{rest}"),
            Some(HostPattern::Any) | None => "any.example".to_owned(),
        };
        let Some(target) = site.routes[route].path.sample() else { return Vec::new() };
        let has = |scheme: &Scheme| {
            let is_secure = *scheme == Scheme::Https;
            self.config.listen.iter().any(|it| matches!(it.at, Listen::Tls(_)) == is_secure)
        };
        let schemes = [Scheme::Http, Scheme::Https].into_iter().filter(has);
        let url = |scheme| RequestedUrl { scheme, authority: authority.clone(), target: target.clone() };
        schemes.map(url).collect()
    }

    /// Follows redirects from a URL. If those of the route `start` return to a URL, or do not end: the warning, and the routes on
    /// the way.
    fn walk(&self, start: (usize, usize), url: RequestedUrl) -> Option<(String, Vec<(usize, usize)>)> {
        let (mut urls, mut routes) = (vec![url], Vec::new());
        while urls.len() <= MOST_STEPS {
            let step = self.follow(&urls[urls.len() - 1])?;
            routes.push(step.route);
            let first = urls.iter().position(|it| *it == step.to);
            urls.push(step.to);
            if let Some(first) = first {
                // A loop that this route only leads to is reported for its own routes.
                let is_within = routes[first..].contains(&Some(start));
                return is_within.then(|| (told(&urls[first..]), routes.into_iter().flatten().collect()));
            }
        }
        let is_first = routes.iter().flatten().next() == Some(&start);
        let text = format!(
            "a request for {} is redirected more than {MOST_STEPS} times, first to {}; change the target",
            urls[0], urls[1]
        );
        is_first.then(|| (text, routes.into_iter().flatten().collect()))
    }

    /// The redirect of a GET; `None` if it gets another response, or if that is not sure.
    fn follow(&self, url: &RequestedUrl) -> Option<FollowedRedirect> {
        let site_at = self.site(host_of(&url.authority))?;
        let site = &self.config.sites[site_at];
        let path = path_of(&url.target);
        let number = route_of(site, path)?;
        let route = &site.routes[number];
        if route.is_health() {
            return None;
        }
        let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
        let view = RequestView {
            hosts: &hosts,
            scheme: url.scheme,
            authority: &url.authority,
            target: &url.target,
            path: path.as_bytes(),
            captures: route.path.captures(path.as_bytes()).unwrap_or_default(),
            ..RequestView::default()
        };
        let SiteRedirects { to_https, canonical_host, map, .. } = &site.redirects;
        let of_site =
            |to: String| Some(FollowedRedirect { to: self.arrival(url, &to, *to_https)?, route: None });
        if let Some((_, to)) =
            redirect::to_canonical(*to_https, canonical_host.as_deref(), self.tls_port(), &view)
        {
            return of_site(to);
        }
        if let Some(target) = map.as_ref().and_then(|it| it.find(path.as_bytes())) {
            return of_site(redirect::of_map(&target.to, &view));
        }
        if !route.path.matches(path.as_bytes()) {
            return of_site(redirect::with_slash(&route.path, &view)?);
        }
        let Service::Redirect(to) = &route.service else { return None };
        let is_known = |it| matches!(it, TemplateInput::Url | TemplateInput::Method);
        if route.maintenance.is_some() || !to.to.inputs().all(is_known) {
            return None;
        }
        let to = self.arrival(url, &redirect::of_template(&to.to, &view), *to_https)?;
        Some(FollowedRedirect { to, route: Some((site_at, number)) })
    }

    fn site(&self, host: &str) -> Option<usize> {
        let exact = self.exact.get(host.to_ascii_lowercase().as_str()).copied();
        exact.or_else(|| HostPattern::site_of(host, self.config.sites.iter().map(|it| &it.hosts[..])))
    }

    fn tls_port(&self) -> Option<u16> {
        self.config.listen.iter().find_map(|it| match &it.at {
            Listen::Tls(address) => Some(address.port()),
            Listen::Tcp(_) | Listen::Unix(_) => None,
        })
    }

    /// The URL that a client requests next, if it surely comes here. `is_secured` says that `https` of the site does.
    fn arrival(&self, from: &RequestedUrl, to: &str, is_secured: bool) -> Option<RequestedUrl> {
        let to = to.split('#').next().unwrap_or(to);
        let Some((scheme, rest)) = Scheme::split(to) else {
            return to.starts_with('/').then(|| RequestedUrl { target: to.to_owned(), ..from.clone() });
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let authority = scheme.without_port(authority).to_ascii_lowercase();
        let host = host_of(&authority);
        let is_ours = || {
            let strengths = self.config.sites.iter().flat_map(|it| &it.hosts).map(|it| it.strength(host));
            strengths.max().is_some_and(|it| it > HostPattern::Any.strength(host))
        };
        if host != host_of(&from.authority) && !is_ours() {
            return None;
        }
        let port = authority[host.len()..].strip_prefix(':');
        let is_same = scheme == from.scheme
            && authority[host.len()..] == from.authority[host_of(&from.authority).len()..];
        let port: u16 = port.unwrap_or(scheme.default_port()).parse().ok()?;
        let listens = self.config.listen.iter().any(|it| match &it.at {
            Listen::Tcp(at) => scheme == Scheme::Http && at.port() == port,
            Listen::Tls(at) => scheme == Scheme::Https && at.port() == port,
            Listen::Unix(_) => false,
        });
        let arrives = is_same || listens || is_secured && scheme == Scheme::Https;
        arrives.then_some(RequestedUrl { scheme, authority, target })
    }
}

/// The route for a GET of a path; `None` if there is none, or if it depends on more than the path.
fn route_of(site: &SiteConfig, path: &str) -> Option<usize> {
    if !path::is_plain(path.as_bytes()) {
        return None;
    }
    let takes = |it: &RouteConfig| {
        let is_directory = || {
            let directory =
                it.path.directory().filter(|_| it.path.is_directory(path.as_bytes(), Decode::All));
            directory.is_some_and(|it| !site.routes.iter().any(|other| other.path.text() == it))
        };
        (it.path.matches(path.as_bytes()) || is_directory()) && it.methods.allow("GET")
    };
    let found = site.routes.iter().position(takes)?;
    let route = &site.routes[found];
    (route.when.is_none() && route.listeners.is_empty()).then_some(found)
}

/// The warning about a loop of these URLs, the last of which is the first.
fn told(urls: &[RequestedUrl]) -> String {
    let first = &urls[0];
    let is_one_host = urls.iter().all(|it| (it.scheme, &it.authority) == (first.scheme, &first.authority));
    let spelled = urls.iter().map(|it| if is_one_host { it.target.clone() } else { it.to_string() });
    let way: Vec<String> = spelled.collect();
    format!("a request for {first} is redirected in a loop: {}; change one of the targets", way.join(" to "))
}

impl fmt::Display for RequestedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.authority, self.target)
    }
}
