//! The sections of the tiers: relations between their values.

use super::{ConfigCheck, RoutePath, Source};
use crate::kind::{ConfigValue, TextForm};
use crate::memcached_address::{self, WEIGHT};
use crate::problem::Problem;
use crate::purge_access::{PurgeAccess, PurgeMethod};
use crate::tiers::{FleetConfig, SpoolConfig, TierChoice};
use crate::{RouteConfig, SiteConfig};
use larder_semantics::network::Network;
use larder_semantics::policy::CredentialUse;
use larder_stdx::duration::spell;
use larder_stdx::size::ByteSize;
use larder_store::disk::DiskSettings;
use larder_store::fleet::{
    FilledBy, FleetAddress, FleetKeys, FleetSettings, KeyHashFunction, MemcachedProtocol, OversizePolicy,
    RingDistribution,
};

/// The fewest segments of a tier: one is being written, one is being dropped, and two are in use.
const SEGMENTS: u64 = 4;

impl ConfigCheck {
    /// The spool, unless it is off.
    pub(super) fn spool(&self) -> Option<SpoolConfig> {
        let ConfigValue::Number(size) = self.value("cache.spool.size") else { return None };
        Some(SpoolConfig { directory: self.path("cache.spool.directory"), size })
    }

    /// The disk tier, if a directory is configured.
    pub(super) fn disk(&mut self) -> Option<DiskSettings> {
        let Some(path) = self.path("cache.disk.path") else {
            self.needs("cache.disk.", "path", "set its directory, such as path = \"/var/cache/larder\"");
            return None;
        };
        if path.exists() && !path.is_dir() {
            let text = format!(
                "{}: is not a directory; use a directory, or a path that can be created",
                path.display()
            );
            self.problem(self.source("cache.disk.path"), "cache.disk.path", &text);
        }
        let disk = DiskSettings {
            path,
            size: self.number("cache.disk.size"),
            segment_size: self.number("cache.disk.segment_size"),
            min_ttl: self.whole_seconds("cache.disk.min_ttl"),
            heap_line: self.usize("cache.ram.heap_line"),
            promote_after: u32::try_from(self.number("cache.disk.promote_after")).unwrap_or(u32::MAX),
            readers: self.usize("cache.disk.readers"),
            queue: self.number("cache.disk.queue"),
            retry: self.time("cache.disk.retry"),
        };
        if disk.segment_size > disk.size / SEGMENTS {
            let (size, segment) = (ByteSize(disk.size), ByteSize(disk.segment_size));
            let text = format!(
                "{size} holds fewer than {SEGMENTS} segments of {segment}; make it at least {}, or \
                 cache.disk.segment_size at most {}",
                ByteSize(disk.segment_size * SEGMENTS),
                ByteSize(disk.size / SEGMENTS)
            );
            self.clash(&["cache.disk.size", "cache.disk.segment_size"], &text);
        }
        Some(disk)
    }

    /// Rejects `cache.fleet.namespace` where a site has rules of access: another site would serve its pages, which have the same keys, to
    /// every client.
    pub(super) fn refuse_common_keys(&mut self, sites: &[SiteConfig]) {
        const KEY: &str = "cache.fleet.namespace";
        if sites.len() < 2 || self.text(KEY).is_empty() || self.texts("cache.fleet.servers").is_empty() {
            return;
        }
        let is_shared = |it: &&RouteConfig| {
            let has_page = match it.cache.credentials {
                CredentialUse::None => it.access.refuses_clients(),
                CredentialUse::Shared => true,
                CredentialUse::Private | CredentialUse::InKey => false,
            };
            it.cache.enabled && it.tiers.fleet && has_page
        };
        let Some(route) = sites.iter().flat_map(|it| &it.routes).find(is_shared) else { return };
        let text = format!(
            "all hosts would have the same keys, so that pages of the route {:?}, which has rules of access ({}), would be served to clients \
             of other sites; remove the key, or set cache.tiers = [\"ram\", \"disk\"] for that route",
            route.name, route.source
        );
        self.problem(self.source(KEY), KEY, &text);
    }

    /// The fleet, if servers are configured.
    pub(super) fn fleet(&mut self) -> Option<FleetConfig> {
        let servers: Vec<FleetAddress> =
            self.texts("cache.fleet.servers").iter().filter_map(|it| memcached_address::parse(it)).collect();
        if servers.is_empty() {
            let what = "set the memcached servers, such as servers = [\"127.0.0.1:11211\"]";
            self.needs("cache.fleet.", "servers", what);
            return None;
        }
        let fleet = FleetConfig {
            client: self.fleet_client(servers),
            purge_log: self.flag("cache.fleet.purge_log"),
            poll: self.time("cache.fleet.poll"),
            lease: self.time("cache.fleet.lease"),
        };
        self.fleet_servers(&fleet.client);
        self.fleet_times(&fleet);
        Some(fleet)
    }

    fn fleet_client(&self, servers: Vec<FleetAddress>) -> FleetSettings {
        let protocol = match self.text("cache.fleet.protocol").as_str() {
            "binary" => MemcachedProtocol::Binary,
            _ => MemcachedProtocol::Meta,
        };
        let namespace = Some(self.text("cache.fleet.namespace")).filter(|it| !it.is_empty());
        let (prefix, md5) = (self.text("cache.fleet.key_prefix"), self.flag("cache.fleet.md5_keys"));
        FleetSettings {
            servers,
            protocol,
            distribution: RingDistribution::named(&self.text("cache.fleet.distribution")).unwrap_or_default(),
            hash: KeyHashFunction::named(&self.text("cache.fleet.hash")).unwrap_or_default(),
            // No error: `TextForm::KeyText` accepts no other text.
            keys: FleetKeys::new(&prefix, namespace.as_deref(), md5).unwrap_or_default(),
            expire: self.time("cache.fleet.expire"),
            put: self.flag("cache.fleet.put"),
            no_block: self.flag("cache.fleet.no_block"),
            timeout: self.time("cache.fleet.timeout"),
            connect_timeout: self.time("cache.fleet.connect_timeout"),
            hedge: match self.value("cache.fleet.hedge") {
                ConfigValue::Time(it) => Some(it),
                _ => None,
            },
            auto_eject: self.flag("cache.fleet.auto_eject"),
            failures: u32::try_from(self.number("cache.fleet.failures")).unwrap_or(u32::MAX),
            retry: self.time("cache.fleet.retry"),
            max_item: self.number("cache.fleet.max_item"),
            large: match self.text("cache.fleet.large").as_str() {
                "skip" => OversizePolicy::Skip,
                _ => OversizePolicy::Split,
            },
            compress_above: match self.value("cache.fleet.compress_above") {
                ConfigValue::Number(it) => Some(it),
                _ => None,
            },
            local_ttl: self.time("cache.fleet.local_ttl"),
            filled_by: match self.text("cache.fleet.filled_by").as_str() {
                "applications" => FilledBy::Applications,
                "older" => FilledBy::Older,
                _ => FilledBy::Larder,
            },
            recompute_once: self.flag("cache.fleet.recompute_once") && protocol == MemcachedProtocol::Meta,
            stale_grace: self.time("cache.fleet.stale_grace"),
            connections: self.usize("cache.fleet.connections"),
            queue: self.number("cache.fleet.queue"),
        }
    }

    fn fleet_servers(&mut self, fleet: &FleetSettings) {
        let key = "cache.fleet.servers";
        let servers = &fleet.servers;
        if let Some(twice) =
            (1..servers.len()).find(|at| servers[..*at].iter().any(|it| it.at == servers[*at].at))
        {
            let text =
                format!("duplicate server {}; keep one, with a weight for a larger share", servers[twice].at);
            self.problem(self.source(key), key, &text);
        }
        if fleet.hash == KeyHashFunction::Crc
            && fleet.distribution != RingDistribution::Modula
            && servers.len() > 1
        {
            let text =
                "ketama sends nearly all keys to one server: \"crc\" has 15 bits, as in libmemcached; set \
                        hash = \"md5\" or distribution = \"modula\""
                    .to_owned();
            let source = self.source("cache.fleet.hash");
            self.warnings.push(Problem { source, key: "cache.fleet.hash".to_owned(), text });
        }
        if fleet.distribution == RingDistribution::KetamaWeighted
            && fleet.hash != KeyHashFunction::Md5
            && fleet.hash != KeyHashFunction::Crc
        {
            let text =
                "libmemcached clients hash keys with MD5 for ketama_weighted by default, so they use other \
                        servers for most keys; set hash = \"md5\", unless the clients set this hash"
                    .to_owned();
            let source = match self.source("cache.fleet.hash") {
                Source::Default => self.source("cache.fleet.distribution"),
                it => it,
            };
            self.warnings.push(Problem { source, key: "cache.fleet.hash".to_owned(), text });
        }
        let texts = self.texts(key);
        let weighted =
            texts.iter().find(|it| it.contains(WEIGHT)).and_then(|it| memcached_address::parse(it));
        if let Some(it) = weighted.filter(|_| fleet.distribution != RingDistribution::KetamaWeighted) {
            let text = format!(
                "the weight of {} has no effect: only distribution = \"ketama_weighted\" uses weights; set it, or \
                 remove the weight",
                it.at
            );
            self.clash(&[key, "cache.fleet.distribution"], &text);
        }
        let asked = self.source("cache.fleet.recompute_once") != Source::Default;
        if fleet.protocol == MemcachedProtocol::Binary && asked && self.flag("cache.fleet.recompute_once") {
            let text = "recompute_once requires protocol = \"meta\"; set it, or set recompute_once = false";
            self.clash(&["cache.fleet.recompute_once"], text);
        }
        if fleet.max_item > fleet.queue {
            let (item, queue) = (ByteSize(fleet.max_item), ByteSize(fleet.queue));
            let text = format!(
                "a queue (cache.fleet.queue) of {queue} is too small for one item of {item} (cache.fleet.max_item)"
            );
            self.clash(&["cache.fleet.queue", "cache.fleet.max_item"], &text);
        }
    }

    fn fleet_times(&mut self, fleet: &FleetConfig) {
        let FleetSettings { hedge, timeout, .. } = fleet.client;
        if let Some(hedge) = hedge.filter(|it| *it >= timeout) {
            let text = format!(
                "a hedge after {} never happens: the read times out first (cache.fleet.timeout is {}); use a shorter \
                 time, or \"off\"",
                spell(hedge),
                spell(timeout)
            );
            self.clash(&["cache.fleet.hedge", "cache.fleet.timeout"], &text);
        }
        let least = 2 * (fleet.poll + timeout);
        if fleet.purge_log && fleet.lease < least {
            let text = format!(
                "a lease (cache.fleet.lease) of {} expires before the purge log is read twice; two reads take up to \
                 {} (twice cache.fleet.poll and cache.fleet.timeout)",
                spell(fleet.lease),
                spell(least)
            );
            self.clash(&["cache.fleet.lease", "cache.fleet.poll", "cache.fleet.timeout"], &text);
        }
    }

    /// The tiers that a route uses; a configured tier that does not exist causes a warning.
    pub(super) fn tiers(&mut self, at: &RoutePath) -> TierChoice {
        let key = self.cache_key(at, "tiers");
        let named = self.texts(&key);
        let source = self.source(&key);
        if named.is_empty() && !self.is_wrong(&key) {
            let text = "the list is empty; add a tier, or set cache.enabled = false";
            self.problem(source.clone(), "cache.tiers", text);
        }
        if let Some(twice) = (1..named.len()).find(|at| named[..*at].contains(&named[*at])) {
            let text = format!("duplicate tier {:?}", named[twice]);
            self.problem(source.clone(), "cache.tiers", &text);
        }
        let has = |tier: &str| named.iter().any(|it| it == tier);
        for (tier, needs) in [("disk", "cache.disk.path"), ("fleet", "cache.fleet.servers")] {
            let is_there = self.values.given.contains_key(needs);
            let is_reported = self.warnings.iter().any(|it| it.source == source && it.text.contains(needs));
            if has(tier) && !is_there && source != Source::Default && !is_reported {
                let text = format!("the {tier} tier is not configured: {needs} is missing");
                self.warnings.push(Problem { source: source.clone(), key: "cache.tiers".to_owned(), text });
            }
        }
        TierChoice { ram: has("ram"), disk: has("disk"), fleet: has("fleet") }
    }

    /// The permission to purge on a route.
    pub(super) fn purge(&mut self, at: &RoutePath) -> PurgeAccess {
        let method = match self.value(&self.cache_key(at, "purge.method")) {
            ConfigValue::Bool(true) => PurgeMethod::Allowed,
            ConfigValue::Bool(false) => PurgeMethod::Refused,
            _ => PurgeMethod::Unknown,
        };
        let key = self.cache_key(at, "purge.from");
        let from: Vec<Network> = self.texts(&key).iter().filter_map(|it| Network::parse(it)).collect();
        if from.is_empty() && !self.is_wrong(&key) {
            let text = format!("an empty list rejects every purge; add {}", TextForm::Network.allowed());
            self.problem(self.source(&key), "cache.purge.from", &text);
        }
        let key = self.cache_key(at, "purge.path");
        let path = Some(self.text(&key)).filter(|it| !it.is_empty());
        if path.is_some() && method != PurgeMethod::Allowed {
            let text = "path has no effect without PURGE; set cache.purge.method = true";
            self.problem(self.source(&key), "cache.purge.path", text);
        }
        PurgeAccess { method, from, path: path.map(|it| it.trim_end_matches('/').to_owned()) }
    }

    /// Reports a section whose other keys are set without the one that they require.
    fn needs(&mut self, section: &str, name: &str, what: &str) {
        if self.is_wrong(&format!("{section}{name}")) {
            return;
        }
        let first = self.values.given.range(section.to_owned()..).next();
        let source = match first.filter(|it| it.0.starts_with(section)) {
            Some((_, (_, source))) => source.clone(),
            None => match self.values.sections.get(section.trim_end_matches('.')) {
                Some(source) => source.clone(),
                None => return,
            },
        };
        self.problem(source, &format!("{section}{name}"), &format!("missing; {what}"));
    }

    /// Reports contradicting values, at the first of `keys` that is set.
    fn clash(&mut self, keys: &[&str], text: &str) {
        let given = keys.iter().find(|it| self.source(it) != Source::Default);
        let key = *given.unwrap_or(&keys[0]);
        if !self.is_wrong(key) {
            self.problem(self.source(key), key, text);
        }
    }

    fn whole_seconds(&self, key: &str) -> u32 {
        u32::try_from(self.time(key).as_secs()).unwrap_or(u32::MAX)
    }
}
