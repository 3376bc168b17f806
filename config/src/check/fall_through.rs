//! The key `files.fall_through`: its methods, the route that follows, and access rules that a path must not get past.

use super::ConfigCheck;
use crate::access::{AccessConfig, Addresses};
use crate::{FilesConfig, Methods, RouteConfig, Service};

/// The key, as a route knows the places of its keys.
const KEY: &str = "site[].route[].files.fall_through";

/// The methods of a route: those of files, if its other requests belong to the next route.
pub(super) fn methods_of(methods: Methods, service: Option<&Service>) -> Methods {
    let falls = matches!(service, Some(Service::Files(FilesConfig { fall_through: true, .. })));
    match methods {
        methods if !falls => methods,
        Methods::Any => Methods::Only(vec!["GET".to_owned()]),
        Methods::Only(these) => {
            Methods::Only(these.into_iter().filter(|it| matches!(it.as_str(), "GET" | "HEAD")).collect())
        }
    }
}

impl ConfigCheck {
    /// Rejects routes whose paths without a file have no route, or would get past their access rules.
    pub(super) fn check_falls(&mut self, routes: &[RouteConfig]) {
        for (index, route) in routes.iter().enumerate() {
            let is_half = routes.get(index + 1).is_some_and(|it| it.number == route.number);
            if is_half || !matches!(&route.service, Service::Files(it) if it.fall_through) {
                continue;
            }
            if matches!(&route.methods, Methods::Only(these) if these.is_empty()) {
                let source = route.decided.by("site[].route[].methods");
                let text = "files.fall_through serves files to GET and HEAD only, so the route never matches; add \"GET\", or \
                            remove the key";
                self.problem(source, "site.route.methods", text);
                continue;
            }
            let mut next = routes[index + 1..].iter().filter(|it| may_follow(route, it)).peekable();
            if next.peek().is_none() {
                let text = format!(
                    "no later route of the site takes a GET of \"{}\", so that paths without a file have no route; add one after \
                     this route, or remove the key",
                    route.path
                );
                self.problem(route.decided.by(KEY), "site.route.files.fall_through", &text);
                continue;
            }
            let past = next.find_map(|it| Some((it, lacking(&route.access, &it.access)?)));
            if let Some((next, rule)) = past {
                let text = format!(
                    "paths without a file get past access.{rule} to the route \"{}\" at {}; set the same rule there, or for \
                     the site",
                    next.path, next.source
                );
                self.problem(route.decided.by(KEY), "site.route.files.fall_through", &text);
            }
        }
    }
}

/// Whether a path of `route` without a file may be one of `next`.
fn may_follow(route: &RouteConfig, next: &RouteConfig) -> bool {
    let is_for_files = next.methods.allow("GET") || next.methods.allow("HEAD");
    share_a_listener(route, next) && is_for_files && route.path.may_meet(&next.path)
}

/// Whether a request may be one of both routes by its listener.
pub(super) fn share_a_listener(route: &RouteConfig, next: &RouteConfig) -> bool {
    let shares = |it: &String| next.listeners.contains(it);
    route.listeners.is_empty() || next.listeners.is_empty() || route.listeners.iter().any(shares)
}

/// The first rule that refuses requests and is not one of `next`, too. A limit of requests counts each request in one route.
pub(super) fn lacking(own: &AccessConfig, next: &AccessConfig) -> Option<&'static str> {
    let narrower = |own: &Addresses| next.allow.as_ref().is_some_and(|it| own.covers(it));
    let wider = |own: &Addresses| next.deny.as_ref().is_some_and(|it| it.covers(own));
    let rules = [
        ("allow", own.allow.as_ref().is_none_or(narrower)),
        ("deny", own.deny.as_ref().is_none_or(wider)),
        ("allow_when", own.allow_when.is_none() || own.allow_when == next.allow_when),
        ("deny_when", own.deny_when.is_none() || own.deny_when == next.deny_when),
        ("basic", own.basic.is_none() || own.basic == next.basic),
        ("jwt", own.jwt.is_none() || own.jwt == next.jwt),
        ("signed", own.signed.is_none() || own.signed == next.signed),
        ("forward", own.forward.is_none() || own.forward == next.forward),
        // Where one of the two is enough, the other may be missing.
        ("satisfy", own.any || !next.any || !(own.allow.is_some() || own.has_credentials())),
    ];
    rules.into_iter().find(|it| !it.1).map(|it| it.0)
}
