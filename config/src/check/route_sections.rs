//! The sections of routes within their site: that there is one, their names, and paths that a prefix of nginx would take.

use super::{ConfigCheck, RoutePath, Source};
use crate::finish::SiteRedirects;
use crate::kind::{HostPattern, PathPattern};
use crate::{Methods, RouteConfig, Service};
use larder_transport::listener::{Listen, ListenerAddress};
use std::collections::HashMap;

impl ConfigCheck {
    /// Rejects a site without a route, unless its redirects are all that it is for.
    pub(super) fn refuse_no_route(
        &mut self,
        index: usize,
        source: &Source,
        redirects: &SiteRedirects,
        listen: &[ListenerAddress],
    ) {
        let has_tls = listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        let only_redirects = redirects.map.is_some()
            || redirects.to_https && !has_tls
            || redirects.canonical_host.as_ref().is_some_and(|it| self.is_elsewhere(index, it));
        if self.values.count(&format!("site[{index}].route")) > 0 || only_redirects {
            return;
        }
        let text = "the site has no route; add a [[site.route]] with proxy = { to = [...] }, files = { root = \"...\" } or \
                    redirect = { to = \"https://HOST{uri}\" }";
        self.problem(source.clone(), "site.route", text);
    }

    /// Whether requests for a host do not belong to the site with this number.
    fn is_elsewhere(&self, index: usize, host: &str) -> bool {
        let hosts = |at: usize| self.texts(&format!("site[{at}].hosts"));
        let sites: Vec<Vec<HostPattern>> = (0..self.values.count("site"))
            .map(|at| hosts(at).iter().map(|it| HostPattern::of(it)).collect())
            .collect();
        HostPattern::site_of(host, sites.iter().map(Vec::as_slice)) != Some(index)
    }

    /// Rejects a repeated route name: statistics and logs must identify one route.
    pub(super) fn name_once(&mut self, at: &RoutePath, seen: &mut HashMap<String, Source>) {
        let key = at.key("name");
        let (name, source) = (self.text(&key), self.source(&key));
        if let Some(first) = seen.insert(name.clone(), source.clone()).filter(|_| !name.is_empty()) {
            let text = format!("duplicate route name \"{name}\"; first defined at {first}");
            self.problem(source, "site.route.name", &text);
        }
    }

    /// Warns of an origin for one path where no route takes the paths below it: `location /a` of nginx means them as well.
    pub(super) fn warn_of_one_path(&mut self, routes: &[RouteConfig]) {
        for route in routes {
            let path = route.path.exact().and_then(|it| str::from_utf8(it).ok()).unwrap_or_default();
            let folder = path.trim_end_matches('/');
            let is_file = folder.rsplit('/').next().is_some_and(|it| it.contains('.'));
            let below = format!("{folder}/any");
            let goes_on = |it: &RouteConfig| {
                it.path.matches(below.as_bytes())
                    || it.path.text().starts_with(&format!("{folder}/"))
                        && it.path.exact() != route.path.exact()
            };
            let is_prefix = matches!(route.service, Service::Proxy(_)) && route.methods == Methods::Any;
            if path.is_empty()
                || route.unreachable.is_some()
                || is_file
                || !is_prefix
                || routes.iter().any(goes_on)
            {
                continue;
            }
            let remedy = match folder == path {
                true => format!(
                    "\"{folder}*\", which is `location {folder}` of nginx, or \"{folder}/*\", with which larder redirects \"{folder}\" to \
                     \"{folder}/\""
                ),
                false => format!("\"{folder}/*\""),
            };
            let text = format!(
                "only \"{path}\" itself; paths below it have no route and get 404: if the origin has them, write {remedy}"
            );
            self.warn_of(route.decided.by("site[].route[].path"), "site.route.path", &text);
        }
    }
}

/// The name of a route without one of its own: the first host of its site and its path, as in a URL. A pattern that does not begin with
/// a slash follows after a space.
pub(super) fn automatic_name(host: Option<&HostPattern>, path: &PathPattern) -> String {
    let host = host.map_or(String::new(), ToString::to_string);
    let path = path.to_string();
    let space = if path.starts_with('/') { "" } else { " " };
    format!("{host}{space}{path}")
}

/// The route with a name that no earlier one has: the second of a name that follows from host and path ends with `#2`. Its own limits
/// have that name, too.
pub(super) fn told_apart(mut route: RouteConfig, seen: &mut HashMap<String, usize>) -> RouteConfig {
    let count = seen.entry(route.name.clone()).or_default();
    *count += 1;
    if *count > 1 {
        route.name = format!("{}#{count}", route.name);
    }
    let limits = route.access.limits.iter_mut().map(|it| &mut it.scope);
    let budget = route.budget.as_mut().map(|it| &mut it.scope);
    limits.chain(budget).filter(|it| it.is_empty()).for_each(|it| it.clone_from(&route.name));
    route
}
