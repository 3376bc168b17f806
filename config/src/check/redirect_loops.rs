//! Redirects that lead back to themselves, over all routes and sites: each route that is a redirect is followed from a few URLs of it,
//! and each URL of a redirect map, by the functions that serve. Only sure loops are reported: a route with a condition, an origin, or a
//! target that another server may have ends the walk.

mod directories;

use super::ConfigCheck;
use crate::access::{AccessConfig, Addresses};
use crate::finish::{ErrorPageSource, FinishConfig, RespondBody, SiteRedirects};
use crate::problem::Source;
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

/// The most warnings about one redirect map.
const MOST_OF_MAP: usize = 20;

/// A URL that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestedUrl {
    scheme: Scheme,
    /// The host, with its port if it has one.
    authority: String,
    /// Path and query.
    target: String,
}

/// The next URL of a client, and the redirect to it.
struct FollowedRedirect {
    to: RequestedUrl,
    by: RedirectSource,
}

/// A redirect of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RedirectSource {
    /// `redirect_https` or `canonical_host` of the site at this position.
    Site(usize),
    /// A line of the redirect map of the site at this position.
    Map(usize, u32),
    /// A route, by the positions of site and route.
    Route(usize, usize),
    /// The missing slash of a directory: of `/app/*`, or of one with files.
    Slash,
}

/// A way of redirects that does not end.
struct FoundLoop {
    /// The warning.
    text: String,
    /// The redirects on the way.
    way: Vec<RedirectSource>,
}

impl ConfigCheck {
    /// Warns of redirects of routes and maps that lead back to themselves, and of error pages that are redirects.
    pub(super) fn warn_redirect_loops(&mut self, config: &Config) {
        let redirects = Redirects::of(config);
        let mut reported = HashSet::new();
        for (at, site) in config.sites.iter().enumerate() {
            for (number, route) in site.routes.iter().enumerate() {
                let Service::Redirect(_) = &route.service else { continue };
                let start = RedirectSource::Route(at, number);
                if reported.contains(&start) {
                    continue;
                }
                let starts = redirects.starts((at, number));
                let found = starts.into_iter().find_map(|it| redirects.walk(start, it));
                let Some(found) = found else { continue };
                reported.extend(found.way);
                let source = route.decided.by("site[].route[].redirect.to");
                self.warn_of(source, "site.route.redirect.to", &found.text);
            }
            self.warn_site_loops(&redirects, at, &mut reported);
            self.warn_map_loops(&redirects, at, &mut reported);
            self.warn_error_pages(&redirects, at);
        }
    }

    /// The same for the canonical host of a site without a route, which belongs to another site.
    fn warn_site_loops(
        &mut self,
        redirects: &Redirects<'_>,
        at: usize,
        reported: &mut HashSet<RedirectSource>,
    ) {
        let (site, start) = (&redirects.config.sites[at], RedirectSource::Site(at));
        if !site.routes.is_empty() || site.redirects.canonical_host.is_none() || reported.contains(&start) {
            return;
        }
        let starts = redirects.urls(site, "/");
        let Some(found) = starts.into_iter().find_map(|it| redirects.walk(start, it)) else { return };
        reported.extend(found.way);
        let source = self.source(&format!("site[{at}].canonical_host"));
        self.warn_of(source, "site.canonical_host", &found.text);
    }

    /// The same for the URLs of the map of a site; its paths were checked when it was read.
    fn warn_map_loops(
        &mut self,
        redirects: &Redirects<'_>,
        at: usize,
        reported: &mut HashSet<RedirectSource>,
    ) {
        let site = &redirects.config.sites[at];
        let Some(map) = &site.redirects.map else { return };
        let key = format!("site[{at}].redirect_map");
        let file = self.path(&key).unwrap_or_default();
        let mut left = MOST_OF_MAP;
        for (path, target) in map.urls() {
            let start = RedirectSource::Map(at, target.line);
            let Some(path) = std::str::from_utf8(path).ok().filter(|it| is_plain(it)) else { continue };
            if left == 0 || reported.contains(&start) {
                continue;
            }
            let starts = redirects.urls(site, path);
            let Some(found) = starts.into_iter().find_map(|it| redirects.walk(start, it)) else { continue };
            reported.extend(found.way);
            left -= 1;
            let text = format!("{}, line {}: {}", file.display(), target.line, found.text);
            self.warn_of(self.source(&key), "site.redirect_map", &text);
        }
    }

    /// Warns of error pages of a site that are surely no page: their URL is redirected, or has a response with another status.
    fn warn_error_pages(&mut self, redirects: &Redirects<'_>, at: usize) {
        let site = &redirects.config.sites[at];
        let (of_site, row) = (format!("site[{at}].error_pages"), "site.error_pages");
        self.warn_pages(redirects, site, (&site.finish, self.source(&of_site)), row);
        for route in &site.routes {
            let key = format!("site[{at}].route[{}].error_pages", route.number);
            if self.values.given.contains_key(&key) {
                let pages = (&route.finish, self.source(&key));
                self.warn_pages(redirects, site, pages, "site.route.error_pages");
            }
        }
    }

    fn warn_pages(
        &mut self,
        redirects: &Redirects<'_>,
        site: &SiteConfig,
        (finish, source): (&FinishConfig, Source),
        row: &str,
    ) {
        for (_, page) in &finish.pages {
            let ErrorPageSource::Url(target) = page else { continue };
            if let Some(why) = redirects.no_page(site, target) {
                let text = format!("\"url:{target}\" {why}");
                self.warn_of(source.clone(), row, &text);
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

    /// URLs of a route: of its own pattern, and directories of the other routes that it takes.
    fn starts(&self, (site, number): (usize, usize)) -> Vec<RequestedUrl> {
        let site = &self.config.sites[site];
        let pattern = &site.routes[number].path;
        let others = site.routes.iter().flat_map(directories::of_route).filter(|it| {
            is_plain(it) && pattern.matches(it.as_bytes()) && route_of(site, it) == Some(number)
        });
        let begin = str::from_utf8(pattern.prefix()).ok().filter(|_| pattern.sample().is_none());
        let guessed =
            begin.into_iter().flat_map(|it| ["", "any", "any/", "1"].map(|end| format!("{it}{end}")));
        let guessed = guessed.filter(|it| is_plain(it) && pattern.matches(it.as_bytes()));
        let paths: Vec<String> = pattern.sample().into_iter().chain(guessed).chain(others).collect();
        paths.iter().flat_map(|it| self.urls(site, it)).collect()
    }

    /// The URLs of a target in a site: one for each scheme of a listener, or of a proxy that is trusted.
    fn urls(&self, site: &SiteConfig, target: &str) -> Vec<RequestedUrl> {
        let authority = match site.hosts.first() {
            Some(HostPattern::Exact(name)) => name.clone(),
            Some(HostPattern::Below(rest)) => format!("any{rest}"),
            Some(HostPattern::Any) | None => "any.example".to_owned(),
        };
        let url = |scheme| RequestedUrl { scheme, authority: authority.clone(), target: target.to_owned() };
        self.config.schemes().into_iter().map(url).collect()
    }

    /// The reason why a target of a site is no page for all clients, if that is known: the end of a sentence, with the remedy. larder
    /// requests the page as a client of the site.
    fn no_page(&self, site: &SiteConfig, target: &str) -> Option<String> {
        let named = site.hosts.iter().find_map(|it| match it {
            HostPattern::Exact(name) => Some(name.clone()),
            HostPattern::Below(_) | HostPattern::Any => None,
        });
        let authority = site.redirects.canonical_host.clone().or(named)?;
        let scheme = self.config.scheme_of_pages(site);
        let url = RequestedUrl { scheme, authority, target: target.to_owned() };
        const REMEDY: &str = "name a path with a page";
        if let Some(it) = self.follow(&url) {
            return Some(format!("is redirected to {}; {REMEDY}", it.to));
        }
        let route = &site.routes[route_of(site, path_of(target))?];
        match &route.service {
            Service::Redirect(_) => return Some(format!("is redirected; {REMEDY}")),
            Service::Respond(it) if it.status != 200 && !matches!(it.body, RespondBody::Ready) => {
                return Some(format!("has a response with status {}; {REMEDY}", it.status));
            }
            _ => {}
        }
        let rule = refusal_of_pages(&route.access)?;
        Some(format!(
            "is behind access.{rule} of the route \"{}\" at {}, and larder requests error pages without credentials and without an \
             address; add a route for this path with access.inherit = false before it, or name a file",
            route.path, route.source
        ))
    }

    /// Follows redirects from a URL, if those of `start` return to a URL, or do not end.
    fn walk(&self, start: RedirectSource, url: RequestedUrl) -> Option<FoundLoop> {
        let (mut urls, mut way) = (vec![url], Vec::new());
        while urls.len() <= MOST_STEPS {
            let step = self.follow(&urls[urls.len() - 1])?;
            way.push(step.by);
            let first = urls.iter().position(|it| *it == step.to);
            urls.push(step.to);
            if let Some(first) = first {
                // A loop that this redirect only leads to is reported for its own redirects.
                let is_within = way[first..].contains(&start);
                return is_within.then(|| FoundLoop { text: described(&urls[first..], &way[first..]), way });
            }
        }
        let is_first = way.iter().find(|it| !matches!(it, RedirectSource::Site(_))) == Some(&start);
        let text = format!(
            "a request for {} is redirected more than {MOST_STEPS} times, first to {}; change the target",
            urls[0], urls[1]
        );
        is_first.then_some(FoundLoop { text, way })
    }

    /// The redirect of a GET; `None` if it gets another response, or if that is not sure.
    fn follow(&self, url: &RequestedUrl) -> Option<FollowedRedirect> {
        let site_at = self.site(host_of(&url.authority))?;
        let site = &self.config.sites[site_at];
        let path = path_of(&url.target);
        // A site without a route only redirects.
        let number = if site.routes.is_empty() { None } else { Some(route_of(site, path)?) };
        let route = number.map(|it| &site.routes[it]);
        if route.is_some_and(RouteConfig::is_health) {
            return None;
        }
        let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
        let view = RequestView {
            hosts: &hosts,
            scheme: url.scheme,
            authority: &url.authority,
            target: &url.target,
            path: path.as_bytes(),
            captures: route.and_then(|it| it.path.captures(path.as_bytes())).unwrap_or_default(),
            ..RequestView::default()
        };
        let SiteRedirects { to_https, canonical_host, map, .. } = &site.redirects;
        let redirected =
            |to: String, by| Some(FollowedRedirect { to: self.arrival(url, &to, *to_https)?, by });
        if let Some((_, to)) =
            redirect::to_canonical(*to_https, canonical_host.as_deref(), self.config.tls_port(), &view)
        {
            return redirected(to, RedirectSource::Site(site_at));
        }
        if let Some(target) = map.as_ref().and_then(|it| it.find(path.as_bytes())) {
            let by = RedirectSource::Map(site_at, target.line);
            return redirected(redirect::of_map(&target.to, &view), by);
        }
        let (number, route) = (number?, route?);
        if route.maintenance.is_some() {
            return None;
        }
        if !route.path.matches(path.as_bytes()) {
            return redirected(redirect::with_slash(&route.path, &view)?, RedirectSource::Slash);
        }
        let is_known = |it| matches!(it, TemplateInput::Url | TemplateInput::Method);
        match &route.service {
            Service::Redirect(it) if it.to.inputs().all(is_known) => {
                let by = RedirectSource::Route(site_at, number);
                redirected(redirect::of_template(&it.to, &view), by)
            }
            Service::Files(files) if directories::lacks_slash(files, path, has_scripts(site, number)) => {
                let query = url.target.strip_prefix(path).unwrap_or_default();
                redirected(format!("{path}/{query}"), RedirectSource::Slash)
            }
            _ => None,
        }
    }

    fn site(&self, host: &str) -> Option<usize> {
        let exact = self.exact.get(host.to_ascii_lowercase().as_str()).copied();
        exact.or_else(|| HostPattern::site_of(host, self.config.sites.iter().map(|it| &it.hosts[..])))
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
    if !is_plain(path) {
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

/// Whether a route is the files of a section `php`, whose scripts are the next route.
fn has_scripts(site: &SiteConfig, number: usize) -> bool {
    let (own, next) = (&site.routes[number], site.routes.get(number + 1));
    next.is_some_and(|it| {
        it.number == own.number && matches!(&it.service, Service::Proxy(it) if it.php.is_some())
    })
}

/// The rule that refuses the request for an error page, which has no credentials, and no address that a list of clients names.
fn refusal_of_pages(access: &AccessConfig) -> Option<&'static str> {
    let credentials = [
        ("basic", access.basic.is_some()),
        ("jwt", access.jwt.is_some()),
        ("signed", access.signed.is_some()),
        ("forward", access.forward.is_some()),
    ];
    let credential = credentials.into_iter().find(|it| it.1).map(|it| it.0);
    let is_admitted = access.allow.as_ref().map(Addresses::has_everyone);
    match (access.deny.as_ref().is_some_and(Addresses::has_everyone), is_admitted) {
        (true, _) => Some("deny"),
        (false, Some(false)) if !access.any || credential.is_none() => Some("allow"),
        (false, Some(true)) if access.any => None,
        _ => credential,
    }
}

/// Whether a path is written in its normal form.
fn is_plain(path: &str) -> bool {
    path::is_plain(path.as_bytes())
}

/// The warning about a loop of these URLs, the last of which is the first, by these redirects.
fn described(urls: &[RequestedUrl], by: &[RedirectSource]) -> String {
    let first = &urls[0];
    let is_one_host = urls.iter().all(|it| (it.scheme, &it.authority) == (first.scheme, &first.authority));
    let spelled = urls.iter().map(|it| if is_one_host { it.target.clone() } else { it.to_string() });
    let way: Vec<String> = spelled.collect();
    let slash = by.iter().position(|it| *it == RedirectSource::Slash);
    let remedy = slash.map_or("change one of the targets".to_owned(), |it| {
        format!(
            "{} is a directory, to which larder adds the slash: exclude it with when = 'path != \"{}\"'",
            urls[it].target,
            path_of(&urls[it + 1].target)
        )
    });
    format!("a request for {first} is redirected in a loop: {}; {remedy}", way.join(" to "))
}

impl fmt::Display for RequestedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.authority, self.target)
    }
}
