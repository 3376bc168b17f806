//! The requests of a route: `path`, `methods`, `when` and `listeners`; routes that no request reaches.

use super::{ConfigCheck, ConfigValue, Problem, RoutePath};
use crate::kind::PathPattern;
use crate::problem::nearest;
use crate::{Methods, RouteConfig, Service, address};
use larder_semantics::expression::{Expression, ExpressionSubject, RequestDomain};
use larder_semantics::key::KeyRecipe;
use larder_transport::listener::Entrance;

/// Methods that clients send: of RFC 9110, PATCH, of WebDAV, and of caches.
const METHODS: [&str; 29] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "MKCALENDAR",
    "PURGE",
    "BAN",
    "FULLBAN",
    "PURGEKEYS",
    "PURGETAGS",
    "LINK",
    "UNLINK",
    "BIND",
    "ACL",
];

/// The known method that has the same letters, or almost the same name.
fn almost(upper: &str) -> Option<&'static str> {
    let letters = |it: &str| {
        let mut bytes = it.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    METHODS
        .into_iter()
        .find(|it| letters(it) == letters(upper))
        .or_else(|| nearest(upper, METHODS.into_iter()))
}

/// The requests of a route.
pub(super) struct RouteMatching {
    pub path: PathPattern,
    pub methods: Methods,
    pub when: Option<Expression>,
    pub listeners: Vec<String>,
}

impl RouteMatching {
    /// The condition in the keys of the route.
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
        let when = Some(self.text(&at.key("when"))).filter(|it| !it.is_empty());
        let when = when.and_then(|it| Expression::parse_about(ExpressionSubject::Request, &it).ok());
        let path = PathPattern::of(&self.text(&at.key("path")));
        let found = RouteMatching { path, methods, when, listeners: self.listeners(at) };
        self.refuse_no_methods(at, &found);
        self.refuse_odd_methods(at, &found);
        self.warn_impossible(at, &found);
        found
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
        for it in these.iter().filter(|it| !METHODS.contains(&it.as_str())) {
            let upper = it.to_ascii_uppercase();
            if METHODS.contains(&upper.as_str()) {
                let text = format!("\"{it}\": methods are case-sensitive; write \"{upper}\"");
                self.problem_unless_told(source.clone(), key, &text);
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
                self.problem_once(self.source(&key), "site.route.listeners", text);
            }
            return Vec::new();
        }
        let known = self.listen();
        let mut found = Vec::new();
        for text in given {
            let wanted = address::entrance(&text);
            // The scheme may be left out, as it may in `listen`.
            let is_same = |it: &&Entrance| {
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
            self.problem_once(self.source(&key), "site.route.listeners", &text);
        }
        found
    }

    /// Warns of a condition that no request of the route can fulfil.
    fn warn_impossible(&mut self, at: &RoutePath, route: &RouteMatching) {
        let Some(when) = &route.when else { return };
        let all: Vec<String> = self.listen().iter().map(Entrance::spelled).collect();
        let listeners = if route.listeners.is_empty() { &all } else { &route.listeners };
        let methods = match &route.methods {
            Methods::Any => None,
            Methods::Only(these) => {
                let head = these.iter().any(|it| it == "GET").then(|| "HEAD".to_owned());
                Some(these.iter().cloned().chain(head).collect::<Vec<_>>())
            }
        };
        let path = |it: &[u8]| route.path.matches(it);
        let any_path = |_: &[u8]| true;
        let alone = RequestDomain { methods: None, listeners: &all, path: &any_path };
        let here = RequestDomain { methods: methods.as_deref(), listeners, path: &path };
        let text = if !when.is_possible(&alone) {
            "never true: its tests contradict one another"
        } else if !when.is_possible(&here) {
            "never true for a request of this route: it contradicts the path, methods or listeners"
        } else {
            return;
        };
        let source = self.source(&at.key("when"));
        self.warnings.push(Problem { source, key: "site.route.when".to_owned(), text: text.to_owned() });
    }

    /// Warns of a route whose requests all match an earlier one.
    pub(super) fn warn_unreachable(&mut self, routes: &[RouteConfig]) {
        for (index, route) in routes.iter().enumerate() {
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
            if let Some(first) = routes[..index].iter().find(|it| takes_all_of(it, route)) {
                let text = format!(
                    "\"{}\" never matches: \"{}\" at {} matches first; move that route after this one",
                    route.path, first.path, first.source
                );
                let key = "site.route.path".to_owned();
                self.warnings.push(Problem { source: route.source.clone(), key, text });
            }
        }
    }
}

/// Whether every request of a route is one of an earlier route.
fn takes_all_of(earlier: &RouteConfig, route: &RouteConfig) -> bool {
    if matches!(&earlier.service, Service::Files(it) if it.fall_through) {
        return false;
    }
    let methods = match (&earlier.methods, &route.methods) {
        (Methods::Any, _) => true,
        (Methods::Only(_), Methods::Any) => false,
        (ours, Methods::Only(theirs)) => theirs.iter().all(|it| ours.allow(it)),
    };
    let listeners = earlier.listeners.is_empty()
        || !route.listeners.is_empty() && route.listeners.iter().all(|it| earlier.listeners.contains(it));
    let when = earlier.when.is_none() || earlier.when == route.when;
    methods && listeners && when && earlier.path.covers(&route.path)
}
