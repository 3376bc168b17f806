//! Routes with `methods` and access rules: whether requests with other methods reach a later route without these rules. `methods` selects
//! requests, as in other servers a section for some methods rejects them.

use super::ConfigCheck;
use super::fall_through::{lacking, share_a_listener};
use crate::{Methods, RouteConfig, Service};

impl ConfigCheck {
    /// Warns of routes that protect reading while a later route for all methods takes the other requests for their paths without the same
    /// rules. The opposite, free reading and protected writing, is usual; a later route with `methods` is intended.
    pub(super) fn warn_other_methods(&mut self, routes: &[RouteConfig]) {
        for (index, route) in routes.iter().enumerate() {
            let Methods::Only(these) = &route.methods else { continue };
            // The files of `php`: the scripts of the same section, with the same rules, take the other methods.
            let takes_rest = |it: &RouteConfig| it.number == route.number && it.methods == Methods::Any;
            if !route.methods.allow("GET") || !route.access.refuses_clients() || routes.iter().any(takes_rest)
            {
                continue;
            }
            let mut later = routes[index + 1..].iter().filter(|it| may_take(route, it));
            let end = later.find_map(|next| match lacking(&route.access, &next.access) {
                Some(rule) if matches!(next.service, Service::Proxy(_)) => Some(Some((next, rule))),
                _ => takes_all(route, next).then_some(None),
            });
            if let Some(Some((next, rule))) = end {
                let text = format!(
                    "requests with methods other than {} reach the route \"{}\" at {} without access.{rule}; set the same rule there, \
                     or for the site",
                    these.join(", "),
                    next.path,
                    next.source
                );
                self.warn_of(route.decided.by("site[].route[].methods"), "site.route.methods", &text);
            }
        }
    }
}

/// Whether a route for all methods may take other requests for the paths of `route`.
fn may_take(route: &RouteConfig, next: &RouteConfig) -> bool {
    let is_other = next.number != route.number && next.methods == Methods::Any;
    is_other && share_a_listener(route, next) && route.path.may_meet(&next.path)
}

/// Whether that route surely takes all of them.
fn takes_all(route: &RouteConfig, next: &RouteConfig) -> bool {
    let has_paths = next.path.is_all() || next.path.text() == route.path.text();
    has_paths && next.when.is_none() && next.listeners.is_empty()
}
