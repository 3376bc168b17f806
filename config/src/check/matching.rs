//! The requests of a route: `path`, `methods`, `when` and `listeners`; routes that no request reaches.

use super::{ConfigCheck, ConfigValue, Problem, RoutePath};
use crate::kind::{HostPattern, PathPattern};
use crate::problem::{Source, nearest};
use crate::{Methods, RouteConfig, Service, address};
use larder_semantics::expression::{Expression, ExpressionSubject, RequestDomain};
use larder_semantics::key::KeyRecipe;
use larder_semantics::method::REGISTERED;
use larder_transport::listener::ListenerAddress;
use std::collections::HashMap;

/// The known method that has the same letters, or almost the same name.
fn almost(upper: &str) -> Option<&'static str> {
    let letters = |it: &str| {
        let mut bytes = it.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    REGISTERED
        .into_iter()
        .find(|it| letters(it) == letters(upper))
        .or_else(|| nearest(upper, REGISTERED.into_iter()))
}

/// The requests of a route.
pub(super) struct RouteMatching {
    pub path: PathPattern,
    pub methods: Methods,
    pub when: Option<Expression>,
    pub listeners: Vec<String>,
}

impl RouteMatching {
    /// The condition in the keys of the route, secrets included: a key without them would be that of another condition after a reload, and
    /// its clients would get the pages of this one's.
    pub fn condition(&self) -> Option<String> {
        KeyRecipe::condition_of(self.when.as_ref().map(Expression::text), &self.listeners)
    }
}

impl ConfigCheck {
    pub(super) fn matching(&mut self, at: &RoutePath) -> RouteMatching {
        let methods = match self.values.given.get(&at.key("methods")) {
            Some((ConfigValue::Texts(these), _)) => Methods::Only(these.clone()),
            _ => Methods::Any,
        };
        let when = self.condition(ExpressionSubject::Request, &at.key("when"));
        let path = at.key("path");
        let path = PathPattern::of(&self.text(&path)).shown_as(&self.written(&path));
        let found = RouteMatching { path, methods, when, listeners: self.listeners(at) };
        self.refuse_no_methods(at, &found);
        self.refuse_odd_methods(at, &found);
        found
    }

    /// The hosts of one site; no two sites share one.
    pub(super) fn hosts(
        &mut self,
        prefix: &str,
        site: &Source,
        seen: &mut HashMap<HostPattern, Source>,
    ) -> Vec<HostPattern> {
        let key = format!("{prefix}.hosts");
        let hosts: Vec<HostPattern> = self.texts(&key).iter().map(|it| HostPattern::of(it)).collect();
        if hosts.is_empty() && !self.is_wrong(&key) {
            let text = "the site has no hosts; add them, or set hosts = [\"*\"] for every host";
            self.problem(site.clone(), "site.hosts", text);
        }
        let source = self.source(&key);
        self.refuse_underscore(&hosts, &source);
        for host in &hosts {
            if let Some(first) = seen.insert(host.clone(), source.clone()) {
                let text = format!("duplicate host \"{host}\"; first defined at {first}");
                self.problem(source.clone(), "site.hosts", &text);
            }
        }
        hosts
    }

    /// Rejects the name of nginx for every other host.
    fn refuse_underscore(&mut self, hosts: &[HostPattern], source: &Source) {
        if hosts.iter().any(|it| it.to_string() == "_") {
            let text =
                "\"_\" is no name that clients send; for requests of every other host, write hosts = [\"*\"]";
            self.problem(source.clone(), "site.hosts", text);
        }
    }

    fn refuse_no_methods(&mut self, at: &RoutePath, route: &RouteMatching) {
        if matches!(&route.methods, Methods::Only(these) if these.is_empty()) {
            let text = "the list is empty, so the route never matches; add a method, or remove the key for all of them";
            self.problem(self.source(&at.key("methods")), "site.route.methods", text);
        }
    }

    /// Rejects methods in lower case, which no client sends, and warns of those that are almost a known one.
    fn refuse_odd_methods(&mut self, at: &RoutePath, route: &RouteMatching) {
        let Methods::Only(these) = &route.methods else { return };
        let (source, key) = (self.source(&at.key("methods")), "site.route.methods");
        for it in these.iter().filter(|it| !REGISTERED.contains(&it.as_str())) {
            let upper = it.to_ascii_uppercase();
            if REGISTERED.contains(&upper.as_str()) {
                let text = format!("\"{it}\": methods are case-sensitive; write \"{upper}\"");
                self.problem(source.clone(), key, &text);
            } else if let Some(near) = almost(&upper) {
                self.warn_of(
                    source.clone(),
                    key,
                    &format!("\"{it}\" is not a registered method; did you mean \"{near}\"?"),
                );
            }
        }
    }

    /// The listeners of a route, each of which has to be one of `listen`.
    fn listeners(&mut self, at: &RoutePath) -> Vec<String> {
        let key = self.site_key(at, "listeners");
        let given = self.texts(&key);
        if given.is_empty() {
            if self.values.given.contains_key(&key) && !self.is_wrong(&key) {
                let text = "the list is empty, so the route never matches; add a listener, or remove the key for all of them";
                self.problem(self.source(&key), "site.route.listeners", text);
            }
            return Vec::new();
        }
        let known = self.listen();
        let mut found = Vec::new();
        for text in given {
            let wanted = address::entrance(&text);
            // The scheme may be left out, as it may in `listen`.
            let is_same = |it: &&ListenerAddress| {
                wanted.as_ref().is_some_and(|wanted| {
                    it.preamble == wanted.preamble
                        && (it.at == wanted.at || it.at == wanted.at.clone().secured())
                })
            };
            if let Some(it) = known.iter().find(is_same) {
                found.push(it.spelled());
                continue;
            }
            let names: Vec<String> = known.iter().map(|it| format!("{:?}", it.spelled())).collect();
            let text = format!("{text:?} is not one of listen; use {}", names.join(" or "));
            self.problem(self.source(&key), "site.route.listeners", &text);
        }
        found
    }

    /// Warns of a route whose requests all match an earlier one.
    pub(super) fn warn_unreachable(&mut self, routes: &mut [RouteConfig]) {
        for index in 0..routes.len() {
            let (earlier, route) = routes.split_at_mut(index);
            let route = &mut route[0];
            let is_regex = route.path.text().starts_with("regex:");
            if !is_regex && route.path.text().split('/').any(|it| matches!(it, "." | "..")) {
                let text = format!(
                    "\"{}\" contains a \".\" or \"..\" segment; paths are normalized before they are compared, so \
                     remove it",
                    route.path
                );
                let key = "site.route.path".to_owned();
                self.warnings.push(Problem { source: route.source.clone(), key, text });
            }
            if let Some(takers) = takers_of(route, earlier) {
                let text = match &takers[..] {
                    [first] if takers_of(first, std::slice::from_ref(route)).is_some() => format!(
                        "\"{}\" never matches: \"{}\" at {} has the same requests; remove one of them",
                        route.path, first.path, first.source
                    ),
                    [first] => format!(
                        "\"{}\" never matches: \"{}\" at {} matches first; move that route after this one",
                        route.path, first.path, first.source
                    ),
                    _ => format!(
                        "\"{}\" never matches: the earlier routes of its paths take all of its requests; move it before them",
                        route.path
                    ),
                };
                route.unreachable = Some(match &takers[..] {
                    [first] => format!("{} at {} matches first", first.name, first.source),
                    _ => "the earlier routes of its paths take all of its requests".to_owned(),
                });
                let key = "site.route.path".to_owned();
                self.warnings.push(Problem { source: route.source.clone(), key, text });
            }
        }
    }
}

/// The earlier routes that together take every request of a route: one, if that one does alone.
fn takers_of<'a>(route: &RouteConfig, earlier: &'a [RouteConfig]) -> Option<Vec<&'a RouteConfig>> {
    let covers = |it: &&RouteConfig| {
        let listeners = it.listeners.is_empty()
            || !route.listeners.is_empty() && route.listeners.iter().all(|one| it.listeners.contains(one));
        // Requests without a file proceed to later routes.
        let keeps = !matches!(&it.service, Service::Files(it) if it.fall_through);
        keeps && listeners && it.path.covers(&route.path)
    };
    let covering: Vec<&RouteConfig> = earlier.iter().filter(covers).collect();
    if let Some(one) = covering.iter().find(|it| take_all_of(route, &[**it])) {
        return Some(vec![*one]);
    }
    (covering.len() > 1 && take_all_of(route, &covering)).then_some(covering)
}

/// Whether each request of a route fulfils the methods and the condition of one of `others`, which have its paths.
fn take_all_of(route: &RouteConfig, others: &[&RouteConfig]) -> bool {
    let methods: Vec<Option<&String>> = match &route.methods {
        Methods::Any => vec![None],
        Methods::Only(these) => these.iter().map(Some).collect(),
    };
    let takes = |method: &Option<&String>| {
        let accepts = |it: &&&RouteConfig| match (&it.methods, method) {
            (Methods::Any, _) => true,
            (Methods::Only(_), None) => false,
            (theirs, Some(method)) => theirs.allow(method),
        };
        let accepting: Vec<_> = others.iter().filter(accepts).collect();
        if accepting.iter().any(|it| it.when.is_none()) {
            return true;
        }
        let head = method.filter(|it| *it == "GET").map(|_| "HEAD".to_owned());
        let named: Option<Vec<String>> = method.map(|it| std::iter::once(it.clone()).chain(head).collect());
        let domain = RequestDomain { methods: named.as_deref(), ..RequestDomain::ALL };
        let own = || route.when.iter().map(|it| (it, true));
        let none_of_theirs = accepting.iter().filter_map(|it| Some((it.when.as_ref()?, false)));
        // A condition that is never true has a warning of its own.
        !accepting.is_empty()
            && Expression::are_possible(&own().collect::<Vec<_>>(), &domain)
            && !Expression::are_possible(&own().chain(none_of_theirs).collect::<Vec<_>>(), &domain)
    };
    !methods.is_empty() && methods.iter().all(takes)
}
