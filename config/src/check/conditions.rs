//! Conditions that are never true, or always, for the requests of their route, and conditions that a client avoids by another spelling of
//! a URL. The analysis is in `semantics/src/expression/{possible,odd}.rs`.

use super::{ConfigCheck, RoutePath};
use crate::problem::Source;
use crate::{Config, HostPattern, Methods, RouteConfig, SiteConfig};
use larder_semantics::expression::{Expression, RequestDomain, TextDomain};
use larder_semantics::path::{self, Decode};
use larder_semantics::scheme::Scheme;
use larder_transport::listener::ListenerAddress;

/// A condition of a route, with the effect of each truth.
struct RouteRule<'a> {
    condition: &'a Expression,
    /// The key below that of the route.
    key: &'static str,
    source: Source,
    /// The end of a sentence: the effect if it is never true.
    never: &'static str,
    /// The same if it is always true; `None` if that may be intended.
    always: Option<&'static str>,
    /// Whether the paths, methods and listeners of the route limit its requests: a rule for several routes need not fit each.
    is_of_route: bool,
}

impl ConfigCheck {
    /// Warns of conditions that do not distinguish requests, and of spellings in those that decide access.
    pub(super) fn warn_conditions(&mut self, config: &Config) {
        let (sites, listen) = (&config.sites[..], &config.listen[..]);
        let schemes = config.schemes();
        let listeners: Vec<String> = listen.iter().map(ListenerAddress::spelled).collect();
        for (at, site) in sites.iter().enumerate() {
            let (only, has) = (exact_hosts(site), |it: &[u8]| is_host_of(at, sites, it));
            let hosts = TextDomain { only: only.as_deref(), prefix: b"", has: &has };
            for route in &site.routes {
                let path = RoutePath(format!("site[{at}].route[{}].", route.number));
                let limits = RouteLimits::of(route, &listeners, &schemes);
                for rule in self.rules_of(&path, route) {
                    self.warn_rule(&rule, &limits, hosts);
                }
                self.warn_spellings(site, route);
                self.warn_cache_rules(&path, route, hosts);
            }
        }
    }

    /// The conditions of a route over requests.
    fn rules_of<'a>(&self, at: &RoutePath, route: &'a RouteConfig) -> Vec<RouteRule<'a>> {
        let access = &route.access;
        let all = [
            ("when", &route.when, "so no request takes this route", None),
            (
                "access.deny_when",
                &access.deny_when,
                "so it refuses no request",
                Some("so it refuses every request"),
            ),
            (
                "access.allow_when",
                &access.allow_when,
                "so it refuses every request",
                Some("so it refuses no request"),
            ),
        ];
        let rules = all.into_iter().filter_map(|(key, condition, never, always)| {
            let condition = condition.as_ref()?;
            let source = route.decided.by(&format!("site[].route[].{key}"));
            let is_of_route = self.values.given.contains_key(&at.key(key)) && !self.is_of_block(&source);
            Some(RouteRule { condition, key, source, never, always, is_of_route })
        });
        rules.collect()
    }

    fn warn_rule(&mut self, rule: &RouteRule<'_>, limits: &RouteLimits<'_>, hosts: TextDomain<'_>) {
        let RouteRule { condition, never, .. } = rule;
        let key = format!("site.route.{}", rule.key);
        let odd = condition.never_true();
        if !odd.is_empty() {
            odd.iter().for_each(|it| self.warn_of(rule.source.clone(), &key, it));
            return;
        }
        let schemes = limits.schemes;
        let of_site = RequestDomain { hosts, schemes, ..RequestDomain::ALL };
        let path = |it: &[u8]| limits.has_path(it);
        let here = RequestDomain {
            methods: limits.methods.as_deref(),
            listeners: Some(limits.listeners),
            schemes,
            paths: TextDomain { only: limits.paths.as_deref(), prefix: limits.prefix(), has: &path },
            hosts,
        };
        let here = if rule.is_of_route { &here } else { &of_site };
        let is_always = |domain: &RequestDomain<'_>| !Expression::are_possible(&[(condition, false)], domain);
        let text = match rule.always {
            _ if !condition.is_possible(&RequestDomain::ALL) => {
                format!("never true, {never}: its tests contradict one another")
            }
            _ if !condition.is_possible(&RequestDomain { schemes, ..RequestDomain::ALL }) => {
                let lacks = match schemes {
                    [Scheme::Https] => "every address of listen has TLS",
                    _ => "no address of listen has TLS, and clients.trusted names no proxy that may have it",
                };
                format!("never true, {never}: {lacks}")
            }
            _ if !condition.is_possible(here) => format!(
                "never true for a request of this route, {never}: it contradicts the hosts, path, methods or listeners"
            ),
            Some(always) if is_always(here) => format!("always true, {always}"),
            None if is_always(&RequestDomain::ALL) => "always true; remove it".to_owned(),
            _ => return,
        };
        self.warn_of(rule.source.clone(), &key, &text);
    }

    /// Warns of access that depends on the spelling of a URL.
    fn warn_spellings(&mut self, site: &SiteConfig, route: &RouteConfig) {
        let access = &route.access;
        let chooses = || site.routes.iter().any(|it| it.access != *access);
        for (key, condition, decides) in [
            ("access.deny_when", &access.deny_when, true),
            ("access.allow_when", &access.allow_when, true),
            ("when", &route.when, false),
        ] {
            let Some(condition) = condition else { continue };
            let found = condition.spelled_tests();
            if found.is_empty() || !decides && !chooses() {
                continue;
            }
            let source = route.decided.by(&format!("site[].route[].{key}"));
            for text in found {
                self.warn_of(
                    source.clone(),
                    &format!("site.route.{key}"),
                    &format!("it decides access, but {text}"),
                );
            }
        }
    }

    /// Warns of rules for responses that no response of the route gets, or that earlier rules take from them.
    fn warn_cache_rules(&mut self, at: &RoutePath, route: &RouteConfig, hosts: TextDomain<'_>) {
        let rules: Vec<&Expression> = route.cache.rules.iter().map(|it| &it.when).collect();
        // A rule sees the path as the client spells it.
        let path = |it: &[u8]| {
            let mut normal = Vec::new();
            path::read(it, path::NORMAL, &mut normal);
            route.path.matches(&normal)
        };
        let paths = TextDomain { has: &path, ..TextDomain::ALL };
        let here = RequestDomain { hosts, paths, ..RequestDomain::ALL };
        for (number, rule) in rules.iter().enumerate() {
            let source = self.values.sections.get(&at.key(&format!("cache.rule[{number}]"))).cloned();
            let source = source.unwrap_or_default();
            let mut warn = |text: &str| self.warn_of(source.clone(), "site.route.cache.rule", text);
            let odd = rule.never_true();
            odd.iter().for_each(|it| warn(it));
            if !odd.is_empty() {
                continue;
            }
            let is_taken = |earlier: &[&Expression]| {
                let mut all: Vec<_> = earlier.iter().map(|it| (*it, false)).collect();
                all.push((rule, true));
                !Expression::are_possible(&all, &RequestDomain::ALL)
            };
            let earlier = &rules[..number];
            if !rule.is_possible(&RequestDomain::ALL) {
                warn("never applies: its tests contradict one another");
            } else if !rule.is_possible(&here) {
                warn("never applies to a response of this route: it contradicts the hosts or the path");
            } else if let Some(one) = earlier.iter().find(|it| is_taken(&[it])) {
                warn(&format!(
                    "never applies: the condition '{}' of an earlier rule holds for all of its responses; move that rule after this one",
                    one.shown()
                ));
            } else if !earlier.is_empty() && is_taken(earlier) {
                warn(
                    "never applies: the earlier rules take all of its responses; move it before them, or remove it",
                );
            }
        }
    }
}

/// The requests of a route, as far as its other keys limit them.
struct RouteLimits<'a> {
    route: &'a RouteConfig,
    /// With HEAD where GET is one; `None` for all.
    methods: Option<Vec<String>>,
    listeners: &'a [String],
    /// Those of all requests.
    schemes: &'a [Scheme],
    /// Its only path.
    paths: Option<Vec<Vec<u8>>>,
}

impl<'a> RouteLimits<'a> {
    fn of(route: &'a RouteConfig, all: &'a [String], schemes: &'a [Scheme]) -> Self {
        let methods = match &route.methods {
            Methods::Any => None,
            Methods::Only(these) => {
                let head = these.iter().any(|it| it == "GET").then(|| "HEAD".to_owned());
                Some(these.iter().cloned().chain(head).collect())
            }
        };
        let listeners = if route.listeners.is_empty() { all } else { &route.listeners };
        let paths = route.path.exact().map(|it| vec![it.to_owned()]);
        Self { route, methods, listeners, schemes, paths }
    }

    /// The bytes that every path begins with. A directory without its slash belongs to the route.
    fn prefix(&self) -> &[u8] {
        let prefix = self.route.path.prefix();
        match self.route.path.directory() {
            Some(_) => prefix.strip_suffix(b"/").unwrap_or(prefix),
            None => prefix,
        }
    }

    fn has_path(&self, path: &[u8]) -> bool {
        let pattern = &self.route.path;
        pattern.matches(path) || pattern.directory().is_some() && pattern.is_directory(path, Decode::All)
    }
}

/// The hosts of a site, if none of them is a pattern.
fn exact_hosts(site: &SiteConfig) -> Option<Vec<Vec<u8>>> {
    let exact = |it: &HostPattern| match it {
        HostPattern::Exact(name) => Some(name.as_bytes().to_owned()),
        HostPattern::Below(_) | HostPattern::Any => None,
    };
    site.hosts.iter().map(exact).collect()
}

/// Whether requests for a host belong to the site at this position.
fn is_host_of(at: usize, sites: &[SiteConfig], host: &[u8]) -> bool {
    let host = std::str::from_utf8(host).unwrap_or_default();
    HostPattern::site_of(host, sites.iter().map(|it| &it.hosts[..])) == Some(at)
}
