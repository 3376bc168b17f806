//! The service of a route: exactly one section that answers its requests.

use super::{ConfigCheck, RoutePath, Source};
use crate::Service;
use crate::kind::PathPattern;

/// The sections of a route that answer its requests.
const SERVICES: [&str; 5] = ["php", "proxy", "files", "redirect", "respond"];

impl ConfigCheck {
    /// The service of a route: exactly one of [`SERVICES`]. With `php`, keys of `proxy` and `files` refine it.
    pub(super) fn service(&mut self, at: &RoutePath, route: &Source, path: &PathPattern) -> Option<Service> {
        let is_php = self.has(at, "php");
        let refines = |it: &&str| is_php && matches!(*it, "proxy" | "files");
        let given: Vec<_> = SERVICES.into_iter().filter(|it| self.has(at, it) && !refines(it)).collect();
        match given[..] {
            ["php"] => self.php(at, route).map(Box::new).map(Service::Proxy),
            ["proxy"] => self.proxy(at, route).map(Box::new).map(Service::Proxy),
            ["files"] => self.files(at, route).map(Service::Files),
            ["redirect"] => self.redirect(at, route, path).map(Service::Redirect),
            ["respond"] => self.respond(at, path).map(Service::Respond),
            [first, second, ..] => {
                let text = format!("the route has both {first} and {second}; split it into two routes");
                self.problem(route.clone(), "site.route", &text);
                None
            }
            // The unknown key may be the misspelt service: one error is enough.
            _ if self.values.broken.contains(at.0.trim_end_matches('.')) => None,
            _ => {
                let text = "the route has no service; add proxy = { to = [...] }, files = { root = \"...\" }, php = { root = \"...\", to = \"...\" }, \
                            redirect = { to = \"...\" } or respond = { body = \"...\" }";
                self.problem(route.clone(), "site.route", text);
                None
            }
        }
    }

    /// Whether a section of the route, or a key in it, was given.
    pub(super) fn has(&self, at: &RoutePath, section: &str) -> bool {
        let path = at.key(section);
        let below = format!("{path}.");
        let first_below = self.values.given.range(below.clone()..).next();
        self.values.sections.contains_key(&path) || first_below.is_some_and(|it| it.0.starts_with(&below))
    }
}
