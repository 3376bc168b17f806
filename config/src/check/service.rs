//! The service of a route: the section that answers its requests, of which it has exactly one; and the methods that follow from it.

use super::matching::RouteMatching;
use super::sql::{self, Databases};
use super::{ConfigCheck, RoutePath, fall_through};
use crate::problem::Source;
use crate::{Methods, Service};

/// The sections of a route that answer its requests.
const SERVICES: [&str; 7] = ["php", "proxy", "files", "cgi", "redirect", "respond", "sql"];

/// The methods of a route: those that are set, as far as its service has them.
pub(super) fn methods_of(methods: Methods, service: Option<&Service>) -> Methods {
    match service {
        Some(Service::Sql(it)) => sql::methods_of(methods, it),
        _ => fall_through::methods_of(methods, service),
    }
}

impl ConfigCheck {
    /// The service of a route: exactly one of [`SERVICES`]. With `php`, keys of `proxy` and `files` refine it.
    pub(super) fn service(
        &mut self,
        at: &RoutePath,
        route: &Source,
        matching: &RouteMatching,
        databases: &Databases,
    ) -> Option<Service> {
        let is_php = self.has(at, "php");
        let refines = |it: &&str| is_php && matches!(*it, "proxy" | "files");
        let given: Vec<_> = SERVICES.into_iter().filter(|it| self.has(at, it) && !refines(it)).collect();
        let path = &matching.path;
        match given[..] {
            ["php"] => self.php(at, route).map(Box::new).map(Service::Proxy),
            ["proxy"] => self.proxy(at, route).map(Box::new).map(Service::Proxy),
            ["files"] => self.files(at, route).map(Service::Files),
            ["cgi"] => self.cgi(at, route, path).map(Box::new).map(Service::Proxy),
            ["redirect"] => self.redirect(at, route, path).map(Service::Redirect),
            ["respond"] => self.respond(at, path).map(Service::Respond),
            ["sql"] => self.sql(at, route, matching, databases).map(Box::new).map(Service::Sql),
            [first, second, ..] => {
                let text = format!("the route has both {first} and {second}; split it into two routes");
                self.problem(route.clone(), "site.route", &text);
                None
            }
            // The unknown key may be the misspelt service: one error is enough.
            _ if self.values.broken.contains(at.0.trim_end_matches('.')) => None,
            _ => {
                let text = "the route has no service; add proxy = { to = [...] }, files = { root = \"...\" }, php = { root = \"...\", to = \"...\" }, \
                            cgi = { root = \"...\" }, redirect = { to = \"...\" }, respond = { body = \"...\" } or sql = { query = \"...\" }";
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
