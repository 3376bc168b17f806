//! From values to the configuration: relations between values, and types that are valid by construction.

mod access;
mod acme;
mod admin;
mod answer;
mod application_env;
mod at_start;
mod cache_rules;
mod cgi;
mod conditions;
mod fall_through;
mod files;
mod finish;
mod forward;
mod geo;
mod key;
mod listen;
mod matching;
mod other_methods;
mod other_spellings;
mod php;
mod privacy;
mod proxy;
mod redirect_loops;
pub mod rewrite;
mod route_limits;
mod route_sections;
mod secret;
mod service;
mod service_user;
mod site_log;
mod snapshot;
mod sql;
mod sticky;
mod tiers;
mod tls;
mod unused;
mod variables;
mod vary;

use super::address;
use super::files_in_force::FilesInForce;
use super::finish::ServedFile;
use super::key_path::{dotted, pattern_of};
use super::kind::{ConfigValue, HostPattern, PathPattern};
use super::loop_check::{LOOP, SENTENCE, is_admin, is_listener};
use super::presets;
use super::problem::{Problem, Rejected, Source};
use super::read::Values;
use super::substituted::SubstitutedValues;
use super::table::{self, KeyScope};
use super::{
    AdminListen, Config, Decided, LogConfig, LogFormat, OriginHost, RouteConfig, ServerLimits, Service,
    SiteConfig,
};
use larder_gateway::coding::{codec, pool};
use larder_gateway::protocol_upgrade::Upgrades;
use larder_observe::log::{Level, LogLevels};
use larder_observe::telemetry::Collector;
use larder_semantics::coding::Coding;
use larder_semantics::compress::{CodingPreference, Compress};
use larder_semantics::forwarded::ForwardedFields;
use larder_semantics::policy::TierSet;
use larder_semantics::policy::{
    CredentialUse, GetBodies, IDENTITY, OnAbort, Policy, RequestDirectivePolicy, StaleIfError, TagPolicy,
};
use larder_stdx::size::ByteSize;
use larder_store::ram;
use larder_transport::listener::ListenerAddress;
use larder_transport::worker;
use matching::RouteMatching;
use route_sections::{automatic_name, told_apart};
use sql::Databases;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Makes the configuration, or returns all its errors; `whole` is the source of errors about the file as a whole.
pub fn check(mut values: Values, whole: Source, in_force: &FilesInForce) -> Result<Config, Rejected> {
    let warnings = std::mem::take(&mut values.warnings);
    let substituted = std::mem::take(&mut values.substituted);
    let read = values.problems.len();
    let given_rows = values.given.keys().filter_map(|it| Some(table::find(&pattern_of(it))?.path)).collect();
    let in_force = in_force.clone();
    let mut it = ConfigCheck {
        values,
        warnings,
        given_rows,
        seen_lists: HashSet::new(),
        in_force,
        served: HashMap::new(),
    };
    let config = it.config(&whole);
    if it.values.problems.is_empty() {
        substituted.hide_in(&mut it.warnings, 0);
        let at_start = it.at_start(&substituted);
        let (warnings, included) = (it.warnings, it.values.included);
        return Ok(Config { warnings, included, at_start, substituted, ..config });
    }
    let mut problems = std::mem::take(&mut it.values.problems);
    substituted.hide_in(&mut problems, read);
    problems.sort_by_key(|problem| it.values.order(&problem.source));
    Err(Rejected(problems))
}

struct ConfigCheck {
    values: Values,
    warnings: Vec<Problem>,
    /// The rows of the table whose keys are given somewhere.
    given_rows: BTreeSet<&'static str>,
    /// The keys of `access.allow` and `access.deny` that were compared.
    seen_lists: HashSet<[String; 2]>,
    /// The files whose content a running larder has.
    in_force: FilesInForce,
    /// The files that are sent whole: the routes of a site share those of the site.
    served: HashMap<PathBuf, ServedFile>,
}

/// The prefixes of a route's keys, in lookup order: `site[0].route[1].`.
struct RoutePath(String);

impl ConfigCheck {
    fn config(&mut self, whole: &Source) -> Config {
        let (hosts, warnings) = (HashMap::new(), Vec::new());
        let listen = self.listen();
        if listen.is_empty() && !self.is_wrong("listen") {
            self.problem(self.source("listen"), "listen", "the list is empty; add at least one address");
        }
        self.refuse_twice(&listen);
        let http3 = self.http3(&listen);
        if self.values.count("site") == 0 && self.is_sound() {
            let text = "no site is configured; add a [[site]] with hosts and a [[site.route]]";
            self.problem(whole.clone(), "", text);
        }
        let tls = self.tls(&listen);
        let clients = self.clients(&listen);
        let (geo, databases) = (self.geo(), self.databases());
        let mut sites = self.sites(hosts, &listen, &databases);
        if http3 {
            self.sites_without_http3(&sites, tls.as_ref());
        }
        Self::all_site_tls(&mut sites, tls.as_ref());
        self.refuse_common_keys(&sites);
        let (snapshot, key_settings) = (self.snapshot(), self.key_settings(&sites));
        let config = Config {
            listen,
            http3,
            tls,
            workers: self.given_number("workers").and_then(|it| NonZeroUsize::new(clamp(it))),
            service_user: self.service_user(),
            sandbox: self.sandbox(),
            clients,
            geo,
            databases,
            limits: self.limits(),
            ram: self.ram(),
            idle: match self.value("cache.ram.idle") {
                ConfigValue::Time(it) => Some(it),
                _ => None,
            },
            snapshot,
            key_settings,
            coding: self.coding(),
            spool: self.spool(),
            disk: self.disk(),
            fleet: self.fleet(),
            admin: self.admin(),
            statistics: self.flag("admin.statistics"),
            log: self.log(),
            telemetry: self.telemetry(),
            sites,
            decided: self.decided(None),
            text: None,
            included: Vec::new(),
            at_start: Vec::new(),
            warnings,
            disk_source: self.source("cache.disk.path"),
            substituted: SubstitutedValues::default(),
        };
        self.warn_admin(&config.admin);
        self.refuse_admin(&config);
        self.refuse_loops(&config);
        if self.is_sound() {
            self.warn_conditions(&config);
            self.warn_redirect_loops(&config);
            self.warn_vary(&config);
        }
        config
    }

    /// Rejects routes to the admin, if its port is known already.
    fn refuse_admin(&mut self, config: &Config) {
        let AdminListen::At(admin) = config.admin.listen else { return };
        let routes = config.sites.iter().flat_map(|it| &it.routes);
        let socket = config.admin.socket.as_deref();
        let leads = |it: &&RouteConfig| it.origins().any(|it| is_admin(&it.at, Some(admin), socket));
        for route in routes.clone().filter(leads).filter(|_| admin.port() != 0) {
            self.problem(route.source.clone(), route.key_of_origins(), &format!("the origin {SENTENCE}"));
        }
        let asks =
            |it: &&RouteConfig| it.auth_service().is_some_and(|it| is_admin(&it.at, Some(admin), socket));
        for route in routes.filter(asks).filter(|_| admin.port() != 0) {
            let text = format!("the service {SENTENCE}");
            self.problem(route.source.clone(), "site.route.access.forward.to", &text);
        }
    }

    /// With another `Host` a returning request may match another site; with the client's it matches the same route.
    fn refuse_loops(&mut self, config: &Config) {
        let comes_back = |it: &&RouteConfig| {
            matches!(&it.service, Service::Proxy(proxy) if proxy.host == OriginHost::Client)
                && it
                    .origins()
                    .any(|it| config.listen.iter().any(|entrance| is_listener(&it.at, &entrance.at)))
        };
        for route in config.sites.iter().flat_map(|it| &it.routes).filter(comes_back) {
            self.problem(route.source.clone(), route.key_of_origins(), &format!("the origin {LOOP}"));
        }
        let asks_itself = |it: &&RouteConfig| {
            it.auth_service().is_some_and(|to| config.listen.iter().any(|it| is_listener(&to.at, &it.at)))
        };
        for route in config.sites.iter().flat_map(|it| &it.routes).filter(asks_itself) {
            let text = format!("the service {LOOP}");
            self.problem(route.source.clone(), "site.route.access.forward.to", &text);
        }
    }

    fn telemetry(&self) -> Option<Collector> {
        let sample = u32::try_from(self.number("telemetry.sample")).unwrap_or(u32::MAX);
        let to = address::origin(&self.text("telemetry.otlp")).ok()?;
        Some(Collector { to, sample, follow: self.flag("telemetry.follow") })
    }

    fn limits(&self) -> ServerLimits {
        let client = worker::ClientLimits {
            head_size: self.usize("limits.head_size"),
            target_size: self.usize("limits.target_size"),
            body_size: self.number("limits.body_size"),
            head_timeout: self.time("limits.head_timeout"),
            body_timeout: self.time("limits.body_timeout"),
            idle_timeout: self.time("limits.idle_timeout"),
            write_timeout: self.time("limits.write_timeout"),
            min_rate: self.number("limits.min_rate"),
            connections: self.usize("limits.connections"),
            http2_streams: u32::try_from(self.number("limits.http2_streams")).unwrap_or(u32::MAX),
            upgrades: false,
        };
        ServerLimits { client, drain_timeout: self.time("limits.drain_timeout") }
    }

    fn coding(&self) -> pool::CoderSettings {
        let level = |name: &str| {
            u8::try_from(self.number(&format!("cache.compress.{name}_level"))).unwrap_or(u8::MAX)
        };
        pool::CoderSettings {
            workers: self.usize("cache.compress.workers"),
            queue: self.usize("cache.compress.queue"),
            levels: codec::CodecLevels { gzip: level("gzip"), brotli: level("br"), zstd: level("zstd") },
        }
    }

    fn ram(&self) -> ram::RamSettings {
        ram::RamSettings {
            budget: self.number("cache.ram.size"),
            heap_line: self.usize("cache.ram.heap_line"),
            fills: self.usize("limits.fills"),
        }
    }

    fn log(&self) -> LogConfig {
        LogConfig {
            access: self.target("log.access"),
            format: self.text("log.format").parse().unwrap_or(LogFormat::Combined),
            error: self.target("log.error"),
            levels: self.levels(),
        }
    }

    /// The minimum level of each subsystem, in the order of [`Subsystem::ALL`].
    fn levels(&self) -> LogLevels {
        LogLevels::new(|subsystem| {
            let level = self.text(&format!("log.levels.{}", subsystem.name()));
            Level::ALL.into_iter().find(|it| it.name() == level)
        })
    }

    fn sites(
        &mut self,
        mut hosts: HashMap<HostPattern, Source>,
        listen: &[ListenerAddress],
        databases: &Databases,
    ) -> Vec<SiteConfig> {
        let (mut sites, mut names, mut automatic) = (Vec::new(), HashMap::new(), HashMap::new());
        for index in 0..self.values.count("site") {
            let prefix = format!("site[{index}]");
            let source = self.values.sections.get(&prefix).cloned().unwrap_or_default();
            let own = self.hosts(&prefix, &source, &mut hosts);
            let mut routes = Vec::new();
            for route in 0..self.values.count(&format!("{prefix}.route")) {
                let at = RoutePath(format!("{prefix}.route[{route}]."));
                self.name_once(&at, &mut names);
                let found = self.route(&at, route, own.first(), databases);
                routes
                    .extend(found.map(|it| told_apart(it, &mut automatic)).into_iter().flat_map(php::halves));
            }
            php::know_others(&mut routes);
            self.warn_unreachable(&mut routes);
            self.check_falls(&routes);
            self.warn_other_methods(&routes);
            self.warn_other_spellings(&routes);
            self.warn_of_one_path(&routes);
            let (log, redirects) = (self.site_log(&prefix), self.site_redirects(&prefix, &own));
            self.refuse_no_route(index, &source, &redirects, listen);
            let tls = self.site_tls(&prefix, listen);
            // No route has this number: all keys are those of the site.
            let none = RoutePath(format!("{prefix}.route[{}].", usize::MAX));
            let finish = self.finish(&none, &PathPattern::all(), false);
            sites.push(SiteConfig { hosts: own, log, tls, redirects, finish, routes, source });
        }
        sites
    }

    /// The route with this number in the text of its site.
    fn route(
        &mut self,
        at: &RoutePath,
        number: usize,
        host: Option<&HostPattern>,
        databases: &Databases,
    ) -> Option<RouteConfig> {
        self.take_preset(at);
        let section = at.0.trim_end_matches('.').to_owned();
        let source = self.values.sections.get(&section).cloned().unwrap_or_default();
        let matching = self.matching(at);
        let mut service = self.service(at, &source, &matching, databases);
        let access = self.access(at);
        let budget = self.budget(at, service.as_ref());
        let mut cache = self.policy(at);
        cache.key.condition = matching.condition();
        cache.credentials = self.credential_use(at, &access);
        if cache.credentials == CredentialUse::InKey {
            cache.key.headers.push(IDENTITY.to_owned());
        }
        if matches!(cache.credentials, CredentialUse::InKey | CredentialUse::Shared) {
            // A page depends on what the origin learns of the client.
            cache.key.headers.extend(access.given_fields().map(str::to_ascii_lowercase));
        }
        cache.rules = self.cache_rules(at, &cache);
        self.refuse_raw_without_access(at, service.as_ref(), &access);
        self.sql_policy(at, service.as_mut(), &mut cache);
        cache.tags.database = sql::only_followed(databases);
        self.warn_max_object(at, &cache);
        self.warn_shared_host(at, &cache);
        self.warn_unused(at, service.as_ref(), &matching.path);
        if matches!(service, Some(Service::Proxy(_))) {
            self.warn_privacy(at, &cache);
        }
        let is_sql = matches!(service, Some(Service::Sql(_)));
        let RouteMatching { path, methods, when, listeners } = matching;
        let methods = service::methods_of(methods, service.as_ref());
        let rewrite = self.rewrite(at, service.as_ref(), &path, &cache);
        let is_shareable = matches!(service, Some(Service::Files(_))) && !access.has_credentials();
        let finish = self.finish(at, &path, is_shareable);
        let own = Some(self.text(&at.key("name"))).filter(|it| !it.is_empty());
        let name = own.unwrap_or_else(|| automatic_name(host, &path));
        Some(RouteConfig {
            name,
            number,
            path,
            methods,
            when,
            listeners,
            service: service?,
            cache,
            finish,
            maintenance: self.maintenance(at),
            tiers: self.tiers(at),
            purge: self.purge(at),
            access,
            budget,
            trace: u32::try_from(self.number(&at.key("trace"))).unwrap_or(u32::MAX),
            server_timing: self.flag(&at.key("server_timing")),
            forwarded_fields: match self.text(&at.key("forwarded")).as_str() {
                "forwarded" => ForwardedFields::Forwarded,
                "both" => ForwardedFields::Both,
                "off" => ForwardedFields::Off,
                _ => ForwardedFields::XForwarded,
            },
            sends_certificate: self.sends_certificate(at),
            rewrite,
            upgrades: Upgrades { protocols: self.upgrades(at), idle: self.time("limits.upgrade_idle") },
            limits: self.route_limits(at, is_sql),
            decided: self.decided(Some(at)),
            unreachable: None,
            source,
        })
    }

    fn policy(&mut self, at: &RoutePath) -> Policy {
        let (compress, recipe, vary) = (self.compress(at), self.recipe(at), self.varied(at));
        let key = |name: &str| self.cache_key(at, name);
        let seconds = |name: &str| u32::try_from(self.time(&key(name)).as_secs()).unwrap_or(u32::MAX);
        let or_off = |name: &str| match self.value(&key(name)) {
            ConfigValue::Time(it) => u32::try_from(it.as_secs()).ok(),
            _ => None,
        };
        let small = |name: &str, most: u64| self.number(&key(name)).min(most);
        Policy {
            enabled: self.flag(&key("enabled")),
            default_ttl: or_off("default_ttl"),
            override_ttl: or_off("override_ttl"),
            max_ttl: seconds("max_ttl"),
            status_ttl: match self.value(&key("status_ttl")) {
                ConfigValue::StatusTtls(pairs) => pairs,
                _ => Vec::new(),
            },
            heuristic_percent: u8::try_from(small("heuristic_percent", 100)).unwrap_or(100),
            heuristic_max: seconds("heuristic_max"),
            stale_while_revalidate: seconds("stale_while_revalidate"),
            stale_if_error: match self.source(&key("stale_if_error")) {
                Source::Default | Source::Preset(_) => StaleIfError::Default(seconds("stale_if_error")),
                _ => StaleIfError::Set(seconds("stale_if_error")),
            },
            request_directives: match self.text(&key("request_directives")).as_str() {
                "harmless" => RequestDirectivePolicy::Harmless,
                "ignore" => RequestDirectivePolicy::Ignore,
                _ => RequestDirectivePolicy::Obey,
            },
            targets: self.texts(&key("targets")),
            store_set_cookie: self.flag(&key("store_set_cookie")),
            private_cookies: self.texts(&key("private_cookies")),
            ignored_cookies: self.texts(&key("ignored_cookies")),
            public_files: self.texts(&key("public_files")).iter().map(|it| PathPattern::of(it)).collect(),
            vary,
            query_body: self.flag(&key("query")).then(|| self.number(&key("query_body"))),
            max_variants: u16::try_from(small("max_variants", 1000)).unwrap_or(1000),
            max_object: self.number(&key("max_object")),
            hit_for_miss: seconds("hit_for_miss"),
            collapse_wait_ms: u32::try_from(self.time(&key("collapse_wait")).as_millis()).unwrap_or(u32::MAX),
            on_abort: match self.text(&key("on_abort")).as_str() {
                "cancel" => OnAbort::Cancel,
                _ => OnAbort::Finish,
            },
            get_bodies: match self.text(&key("get_bodies")).as_str() {
                "pass" => GetBodies::Pass,
                _ => GetBodies::Drop,
            },
            compress,
            cache_status: self.flag(&key("cache_status")),
            x_cache: self.flag(&key("x_cache")),
            tags: TagPolicy {
                headers: self.texts(&key("tags.headers")),
                send: self.flag(&key("tags.send")),
                database: None,
            },
            tiers: TierSet::default(),
            credentials: CredentialUse::None,
            key: recipe,
            rules: Vec::new(),
            rule: None,
        }
    }

    fn compress(&mut self, at: &RoutePath) -> Option<Arc<Compress>> {
        let rules = self.compress_rules(at);
        self.flag(&self.cache_key(at, "compress.enabled")).then(|| Arc::new(rules))
    }

    /// Codings, sizes and types, for the pages of a cached route as for files.
    fn compress_rules(&mut self, at: &RoutePath) -> Compress {
        let [codings, min_size, max_size, types] = ["codings", "min_size", "max_size", "types"]
            .map(|it| self.cache_key(at, &format!("compress.{it}")));
        let named = self.texts(&codings);
        let compress = Compress {
            codings: CodingPreference::of(named.iter().map(|it| Coding::of(it.as_bytes()))),
            min_size: self.number(&min_size),
            max_size: self.number(&max_size),
            types: self.texts(&types),
            uncached: self.flag(&self.cache_key(at, "compress.uncached")),
        };
        if named.is_empty() && !self.is_wrong(&codings) {
            let text = "the list is empty; add a coding, or set cache.compress.enabled = false";
            self.problem(self.source(&codings), "cache.compress.codings", text);
        }
        if compress.min_size > compress.max_size {
            let (least, most) = (ByteSize(compress.min_size), ByteSize(compress.max_size));
            let text = format!(
                "the minimum {least} is above the maximum {most} (cache.compress.max_size), so no body is \
                         compressed"
            );
            let given = [min_size, max_size].map(|it| self.source(&it));
            let source = given.into_iter().find(|it| *it != Source::Default).unwrap_or(Source::Default);
            self.problem(source, "cache.compress.min_size", &text);
        }
        compress
    }

    /// Warns of a limit that exceeds the capacity of the tier; the default does not count.
    fn warn_max_object(&mut self, at: &RoutePath, cache: &Policy) {
        let source = self.source(&self.cache_key(at, "max_object"));
        let budget = self.number("cache.ram.size");
        if source != Source::Default
            && cache.max_object > budget
            && !self.warnings.iter().any(|it| it.source == source)
        {
            let (body, ram) = (ByteSize(cache.max_object), ByteSize(budget));
            let text = format!("a body of {body} can never be stored: cache.ram.size is {ram}");
            self.warnings.push(Problem { source, key: "cache.max_object".to_owned(), text });
        }
    }

    /// Gives the route the values of its preset, each unless it is set for the route.
    fn take_preset(&mut self, at: &RoutePath) {
        let name = self.text(&self.cache_key(at, "preset"));
        let Some(preset) = presets::find(&name) else { return };
        let is_given = |it: &str| self.values.given.contains_key(&self.cache_key(at, it));
        let yields = |key: &str| {
            let others = presets::YIELDS.iter().find(|it| it.0 == key).map_or(&[][..], |it| it.1);
            is_given(key) || others.iter().any(|it| is_given(it))
        };
        let taken: Vec<_> = preset.values.iter().filter(|it| !yields(it.0)).collect();
        for (key, text) in taken {
            let row = table::find(&format!("{}{key}", table::ROUTE_CACHE));
            let value = row.and_then(|it| it.kind.parse(text).ok());
            debug_assert!(value.is_some(), "preset {name}: {key}");
            let path = at.key(&format!("cache.{key}"));
            self.given_rows.extend(row.map(|it| it.path));
            self.values.given.extend(value.map(|it| (path, (it, Source::Preset(preset.name)))));
        }
    }

    /// The key of a route's `cache.NAME`: in the route, otherwise the default of every route.
    fn cache_key(&self, at: &RoutePath, name: &str) -> String {
        let own = at.key(&format!("cache.{name}"));
        if self.values.given.contains_key(&own) { own } else { format!("cache.{name}") }
    }

    /// The key of a route's `NAME`: in the route, otherwise in its site; access rules only if the route inherits them.
    fn site_key(&self, at: &RoutePath, name: &str) -> String {
        let own = at.key(name);
        let is_own = self.values.given.contains_key(&own)
            || name.starts_with("access.") && !self.flag(&at.key("access.inherit"));
        if is_own { own } else { at.of_site(name) }
    }

    fn decided(&self, at: Option<&RoutePath>) -> Decided {
        let path_of = |key: &table::Key| match (at, key.scope, key.path.strip_prefix("site[].route[].")) {
            (Some(at), KeyScope::EveryRoute, _) => {
                Some(self.cache_key(at, key.path.strip_prefix("cache.").unwrap_or(key.path)))
            }
            (Some(at), KeyScope::Once, Some(rest)) => Some(at.key(rest)),
            (Some(at), KeyScope::SiteAndRoute, Some(rest)) => Some(self.site_key(at, rest)),
            (Some(at), KeyScope::Once, None) => key.path.strip_prefix(table::SITE).map(|it| at.of_site(it)),
            (None, KeyScope::Once, None) => Some(key.path.to_owned()),
            _ => None,
        };
        let given = self.given_rows.iter().filter_map(|it| table::find(it)).filter_map(|key| {
            let (_, source) = self.values.given.get(&path_of(key)?)?;
            Some((key.path, source.clone()))
        });
        Decided(given.collect())
    }

    /// Reports a problem once, not for every route that inherits the value; other problems of the value are reported as well.
    fn problem(&mut self, source: Source, key: &str, text: &str) {
        let problem = Problem { source, key: dotted(key), text: text.to_owned() };
        if !self.values.problems.contains(&problem) {
            self.values.problems.push(problem);
        }
    }

    fn is_sound(&self) -> bool {
        self.values.problems.is_empty()
    }

    fn is_wrong(&self, key: &str) -> bool {
        matches!(self.values.given.get(key), Some((ConfigValue::Wrong, _)))
    }

    fn source(&self, key: &str) -> Source {
        self.values.given.get(key).map(|it| it.1.clone()).unwrap_or_default()
    }

    /// The text of a key in the file, if it has variables of the environment.
    fn with_variables(&self, key: &str) -> Option<&str> {
        let source = &self.values.given.get(key)?.1;
        self.values.variables.iter().find(|it| it.0 == *source).map(|it| &*it.1)
    }

    /// The value of a key, or its default; `Wrong` if there is neither.
    fn value(&self, key: &str) -> ConfigValue {
        if let Some((value, _)) = self.values.given.get(key)
            && *value != ConfigValue::Wrong
        {
            return value.clone();
        }
        let pattern = pattern_of(key);
        let row = table::find(&pattern);
        debug_assert!(row.is_some(), "no row for {pattern}");
        row.and_then(|row| row.kind.parse(row.default?).ok()).unwrap_or(ConfigValue::Wrong)
    }

    fn flag(&self, key: &str) -> bool {
        self.value(key) == ConfigValue::Bool(true)
    }

    fn number(&self, key: &str) -> u64 {
        match self.value(key) {
            ConfigValue::Number(it) => it,
            _ => 0,
        }
    }

    fn given_number(&self, key: &str) -> Option<u64> {
        self.values
            .given
            .get(key)
            .and_then(|it| if let ConfigValue::Number(it) = it.0 { Some(it) } else { None })
    }

    fn usize(&self, key: &str) -> usize {
        clamp(self.number(key))
    }

    fn time(&self, key: &str) -> Duration {
        match self.value(key) {
            ConfigValue::Time(it) => it,
            _ => Duration::ZERO,
        }
    }

    fn text(&self, key: &str) -> String {
        match self.value(key) {
            ConfigValue::Text(it) => it,
            _ => String::new(),
        }
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            ConfigValue::Texts(it) => it,
            _ => Vec::new(),
        }
    }

    /// The rows of a table with free names.
    fn pairs(&self, key: &str) -> Vec<(String, String)> {
        match self.value(key) {
            ConfigValue::Pairs(it) => it,
            _ => Vec::new(),
        }
    }

    /// A path; a relative one in a file is beneath the directory of that file.
    fn path(&self, key: &str) -> Option<PathBuf> {
        let text = Some(self.text(key)).filter(|it| !it.is_empty())?;
        Some(self.values.base(&self.source(key)).map_or_else(|| PathBuf::from(&text), |it| it.join(&text)))
    }
}

impl RoutePath {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// A key of its site.
    fn of_site(&self, name: &str) -> String {
        let site = self.0.rsplit_once("route[").map_or("", |it| it.0);
        format!("{site}{name}")
    }
}

fn clamp(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
