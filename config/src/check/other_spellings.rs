//! Rules for one path of which many applications know a second spelling: the one with a slash at its end. larder, as nginx, has two
//! paths there.

use super::ConfigCheck;
use super::fall_through::{lacking, share_a_listener};
use crate::{Methods, RouteConfig, Service};

impl ConfigCheck {
    /// Warns of rules for one path that the same path with a slash at its end gets past, to the same application.
    pub(super) fn warn_other_spellings(&mut self, routes: &[RouteConfig]) {
        for (index, route) in routes.iter().enumerate() {
            let is_half = routes.get(index + 1).is_some_and(|it| it.number == route.number);
            let Some(path) = own_path(route).filter(|_| !is_half) else { continue };
            let Some((next, rule)) = past(route, routes, &format!("{path}/")) else { continue };
            let text = format!(
                "\"{path}/\" is a request of the route \"{}\" at {}, without access.{rule}, and most applications take it for \
                 \"{path}\"; write path = \"regex:(?i){}/?\", which is for both and for every case",
                next.path,
                next.source,
                literal(path)
            );
            self.warn_of(route.decided.by("site[].route[].path"), "site.route.path", &text);
        }
    }
}

/// The path of a route with rules for all of its requests, if it has one path, without a slash at its end.
fn own_path(route: &RouteConfig) -> Option<&str> {
    let has_rules = route.access.refuses_clients() || !route.access.limits.is_empty();
    let path = str::from_utf8(route.path.exact()?).ok()?;
    (has_rules && route.when.is_none() && !path.ends_with('/')).then_some(path)
}

/// The route that gets `path` past a rule of `route`, and the rule.
fn past<'a>(
    route: &RouteConfig,
    routes: &'a [RouteConfig],
    path: &str,
) -> Option<(&'a RouteConfig, &'static str)> {
    let method = match &route.methods {
        Methods::Any => "GET",
        Methods::Only(these) => these.first()?,
    };
    let next = routes.iter().find(|it| {
        it.path.matches(path.as_bytes()) && it.methods.allow(method) && share_a_listener(route, it)
    })?;
    let is_same = next.origins().any(|it| route.origins().any(|own| own.at == it.at));
    // A script belongs to the first route of its path.
    let is_script =
        matches!(&next.service, Service::Proxy(it) if it.php.is_some()) && path.ends_with(".php/");
    let is_past = is_same && !is_script && next.when.is_none();
    let limit = || {
        let found = route.access.limits.iter().find(|it| !next.access.limits.contains(it))?;
        Some(if found.place.is_some() { "limits" } else { "limit" })
    };
    let rule = lacking(&route.access, &next.access).or_else(limit).filter(|_| is_past)?;
    Some((next, rule))
}

/// A regular expression for this text.
fn literal(text: &str) -> String {
    let one = |it: char| match it.is_ascii_alphanumeric() || "/_-".contains(it) || !it.is_ascii() {
        true => it.to_string(),
        false => format!("[{it}]"),
    };
    text.chars().map(one).collect()
}
