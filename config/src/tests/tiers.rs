//! The sections of the tiers, the levels of the error log, and settings that only a start applies.

use super::*;
use crate::purge_access::PurgeMethod;
use crate::tiers::TierChoice;
use larder_observe::log::{Level, LogLevels, Subsystem};
use larder_store::fleet::{KeyHashFunction, RingDistribution};

#[test]
fn without_sections_there_is_ram_alone() {
    let config = read(SITE).unwrap();
    assert!(config.disk.is_none() && config.fleet.is_none());
    let route = &config.sites[0].routes[0];
    assert_eq!(TierChoice { ram: true, disk: true, fleet: true }, route.tiers);
    assert_eq!(PurgeMethod::Unknown, route.purge.method);
    assert_eq!(LogLevels::default(), config.log.levels);
}

#[test]
fn the_disk_tier() {
    let text = format!("[cache.disk]\npath = \"spool\"\nsize = \"1GiB\"\n{SITE}");
    let disk = read(&text).unwrap().disk.unwrap();
    assert_eq!(Path::new(env!("CARGO_MANIFEST_DIR")).join("spool"), disk.path);
    assert_eq!((1 << 30, 64 << 20, 10), (disk.size, disk.segment_size, disk.min_ttl));
    refuse(
        "[cache.disk]\nsize = \"1GiB\"",
        "t.toml:2: cache.disk.path: missing; set its directory, such as path = \"/var/cache/larder\"",
    );
    refuse(
        "[cache.disk]",
        "t.toml:1: cache.disk.path: missing; set its directory, such as path = \"/var/cache/larder\"",
    );
    refuse(
        "[cache.disk]\npath = \"x\"\nsize = \"128MiB\"",
        "t.toml:3: cache.disk.size: 128MiB holds fewer than 4 segments of 64MiB; make it at least 256MiB, or \
         cache.disk.segment_size at most 32MiB",
    );
    refuse(
        "[cache.disk]\npath = \"Cargo.toml\"",
        &format!(
            "t.toml:2: cache.disk.path: {}/Cargo.toml: is not a directory; use a directory, or a path that can be created",
            env!("CARGO_MANIFEST_DIR")
        ),
    );
}

#[test]
fn the_fleet() {
    let text = format!(
        "[cache.fleet]\nservers = [\"10.0.0.1\", \"unix:/run/mc weight=2\"]\ndistribution = \"ketama_weighted\"\n\
         hash = \"md5\"\nhedge = \"10ms\"\ncompress_above = \"4KiB\"\nnamespace = \"shop\"\n{SITE}"
    );
    let fleet = read(&text).unwrap().fleet.unwrap().client;
    let servers: Vec<String> = fleet.servers.iter().map(|it| it.at.to_string()).collect();
    assert_eq!(["10.0.0.1:11211", "unix:/run/mc"], servers.as_slice());
    assert_eq!((RingDistribution::KetamaWeighted, KeyHashFunction::Md5), (fleet.distribution, fleet.hash));
    assert_eq!(
        (Some(Duration::from_millis(10)), Some(4096), Some("shop"), 86_400),
        (fleet.hedge, fleet.compress_above, fleet.keys.namespace(), fleet.expire.as_secs())
    );
}

#[test]
fn a_hash_of_few_bits_on_a_ring_is_a_warning() {
    let warnings = |servers: &str, lines: &str| {
        let config =
            read(&format!("[cache.fleet]\nservers = [{servers}]\nhash = \"crc\"\n{lines}{SITE}")).unwrap();
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expect = "t.toml:3: cache.fleet.hash: ketama sends nearly all keys to one server: \"crc\" has 15 bits, as in libmemcached; set hash = \"md5\" or distribution = \"modula\"";
    let two = "\"a\", \"b\"";
    assert_eq!([expect], warnings(two, "").as_slice());
    assert_eq!([expect], warnings(two, "distribution = \"ketama_weighted\"\n").as_slice());
    assert!(warnings(two, "distribution = \"modula\"\n").is_empty());
    assert!(warnings("\"a\"", "").is_empty(), "one server has them all anyway");
}

#[test]
fn a_hash_other_than_md5_with_weights_is_a_warning() {
    let warnings = |line: &str| {
        let text = format!(
            "[cache.fleet]\nservers = [\"a\", \"b\"]\ndistribution = \"ketama_weighted\"\n{line}\n{SITE}"
        );
        read(&text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (line, at) in [("", 3), ("hash = \"default\"", 4), ("hash = \"fnv1_32\"", 4)] {
        let expect = format!(
            "t.toml:{at}: cache.fleet.hash: libmemcached clients hash keys with MD5 for ketama_weighted by default, so they use other servers for most keys; set hash = \"md5\", unless the clients set this hash"
        );
        assert_eq!([expect], warnings(line).as_slice());
    }
    assert!(warnings("hash = \"md5\"").is_empty());
}

#[test]
fn contradictions_of_a_fleet_are_rejected() {
    #[track_caller]
    fn fleet(lines: &str, expect: &str) {
        refuse(&format!("[cache.fleet]\nservers = [\"a\", \"b\"]\n{lines}"), expect);
    }
    refuse(
        "[cache.fleet]\nhash = \"md5\"",
        "t.toml:2: cache.fleet.servers: missing; set the memcached servers, such as servers = [\"127.0.0.1:11211\"]",
    );
    refuse(
        "[cache.fleet]\nservers = [\"a:1\", \"b\", \"a:1\"]",
        "t.toml:2: cache.fleet.servers: duplicate server a:1; keep one, with a weight for a larger share",
    );
    refuse(
        "[cache.fleet]\nservers = [\"a:1 weight=2\"]",
        "t.toml:2: cache.fleet.servers: the weight of a:1 has no effect: only distribution = \"ketama_weighted\" uses weights; set it, or remove the weight",
    );
    refuse(
        "[cache.fleet]\nservers = [\"a:1 weight=0\"]",
        "t.toml:2: cache.fleet.servers: found [\"a:1 weight=0\"]; allowed: \"HOST:PORT\" or \"unix:/PATH\", optionally followed by a space and \"weight=N\" from 1 to 1000",
    );
    fleet(
        "hedge = \"60ms\"",
        "t.toml:3: cache.fleet.hedge: a hedge after 60ms never happens: the read times out first (cache.fleet.timeout is 50ms); use a shorter time, or \"off\"",
    );
    fleet(
        "lease = \"200ms\"",
        "t.toml:3: cache.fleet.lease: a lease (cache.fleet.lease) of 200ms expires before the purge log is read twice; two reads take up to 300ms (twice cache.fleet.poll and cache.fleet.timeout)",
    );
    fleet(
        "poll = \"5s\"",
        "t.toml:3: cache.fleet.poll: a lease (cache.fleet.lease) of 2s expires before the purge log is read twice; two reads take up to 10s100ms (twice cache.fleet.poll and cache.fleet.timeout)",
    );
    fleet(
        "max_item = \"32MiB\"",
        "t.toml:3: cache.fleet.max_item: a queue (cache.fleet.queue) of 16MiB is too small for one item of 32MiB (cache.fleet.max_item)",
    );
    fleet(
        "protocol = \"binary\"\nrecompute_once = true",
        "t.toml:4: cache.fleet.recompute_once: recompute_once requires protocol = \"meta\"; set it, or set recompute_once = false",
    );
    // A variant's key is that of its page, `#` and a sum.
    for text in ["a b", "a#b"] {
        let expect = format!(
            "t.toml:3: cache.fleet.namespace: found \"{text}\"; allowed: 1 to 100 printable ASCII characters without spaces and #"
        );
        fleet(&format!("namespace = \"{text}\""), &expect);
    }
    fleet(
        "expire = \"31d\"",
        "t.toml:3: cache.fleet.expire: found \"31d\"; allowed: a duration in whole seconds such as \"5m\", up to \"30d\"",
    );
    let binary = format!("[cache.fleet]\nservers = \"a\"\nprotocol = \"binary\"\n{SITE}");
    assert!(!read(&binary).unwrap().fleet.unwrap().client.recompute_once, "the default follows the protocol");
}

#[test]
fn tiers_tags_and_purge_of_a_route() {
    let text = format!(
        "[cache]\npurge = {{ from = [\"10.0.0.0/8\"] }}\n{SITE}cache = {{ tiers = [\"ram\"], tags = {{ send = true }}, \
         purge = {{ method = true }} }}\n"
    );
    let config = read(&text).unwrap();
    let route = &config.sites[0].routes[0];
    assert_eq!(TierChoice { ram: true, disk: false, fleet: false }, route.tiers);
    assert!(
        route.cache.tags.send
            && route.cache.tags.headers == larder_semantics::policy::TagPolicy::default().headers
    );
    assert_eq!(PurgeMethod::Allowed, route.purge.method);
    assert!(route.purge.from[0].contains([10, 1, 1, 1].into()) && route.purge.from.len() == 1);
    refuse(
        "[cache]\ntiers = [\"disc\"]",
        "t.toml:2: cache.tiers: found [\"disc\"]; allowed: \"ram\", \"disk\" or \"fleet\"",
    );
    refuse(
        "[cache]\ntiers = []",
        "t.toml:2: cache.tiers: the list is empty; add a tier, or set cache.enabled = false",
    );
    refuse("[cache]\ntiers = [\"ram\", \"disk\", \"ram\"]", "t.toml:2: cache.tiers: duplicate tier \"ram\"");
    refuse(
        "[cache]\ncompress = { codings = [] }",
        "t.toml:2: cache.compress.codings: the list is empty; add a coding, or set cache.compress.enabled = false",
    );
    refuse(
        "[cache.compress]\nmin_size = \"2MiB\"\nmax_size = \"1MiB\"",
        "t.toml:2: cache.compress.min_size: the minimum 2MiB is above the maximum 1MiB (cache.compress.max_size), so no body is compressed",
    );
    refuse(
        "[cache]\nprivate_cookies = \"a*b*\"",
        "t.toml:2: cache.private_cookies: found \"a*b*\"; allowed: the name of a cookie, with at most one \"*\" for any text",
    );
    refuse(
        "[cache]\npurge.from = [\"10.0.0.0/64\"]",
        "t.toml:2: cache.purge.from: found [\"10.0.0.0/64\"]; allowed: a network such as \"10.0.0.0/8\", \
         or an IP address",
    );
    let warned = read(&format!("cache.tiers = [\"ram\", \"disk\"]\n{SITE}")).unwrap().warnings;
    assert_eq!(
        "t.toml:1: cache.tiers: the disk tier is not configured: cache.disk.path is missing",
        warned[0].to_string()
    );
}

#[test]
fn levels_of_subsystems() {
    let text = format!("[log]\nlevels = {{ fleet = \"debug\", disk = \"off\" }}\n{SITE}");
    let expect = LogLevels::new(|it| match it {
        Subsystem::Fleet => Some(Level::Debug),
        Subsystem::Disk => None,
        _ => Some(Level::Info),
    });
    assert_eq!(expect, read(&text).unwrap().log.levels);
    refuse(
        "[log.levels]\nfleat = \"debug\"",
        "t.toml:2: log.levels.fleat: unknown key; did you mean `log.levels.fleet`?",
    );
    for subsystem in Subsystem::ALL {
        assert!(table::find(&format!("log.levels.{}", subsystem.name())).is_some(), "{subsystem:?}");
    }
}

#[test]
fn the_keys_that_require_a_restart_are_listed() {
    let names: Vec<&str> = read(SITE).unwrap().at_start.iter().map(|it| it.key).collect();
    for name in ["workers", "cache.ram.size", "cache.disk.path", "cache.fleet.servers"] {
        assert!(names.contains(&name), "{name}");
    }
    assert!(!names.iter().any(|it| it.starts_with("log.") || it.starts_with("site") || *it == "listen"));
}

#[test]
fn the_values_that_require_a_restart_are_shown_without_those_of_variables() {
    let text = format!(
        "workers = 3\ncache.ram.size = \"64MiB\"\ncache.fleet = {{ servers = [\"127.0.0.1:1\"], namespace = \"${{CARGO_PKG_NAME}}\" }}\n{SITE}"
    );
    let config = read(&text).unwrap();
    let shown = |key: &str| config.at_start.iter().find(|it| it.key == key).unwrap().shown.as_str();
    assert_eq!(["3", "64MiB"], [shown("workers"), shown("cache.ram.size")]);
    let namespace = shown("cache.fleet.namespace");
    assert!(namespace.contains("${CARGO_PKG_NAME}") && !namespace.contains("larder"), "{namespace}");
}

#[test]
fn a_preset_sets_only_keys_without_a_value() {
    let cached = |cache: &str, all: &str| {
        let config = read(&format!("{all}\n{SITE}cache = {{ {cache} }}\n")).unwrap();
        config.sites.into_iter().next().unwrap().routes.remove(0)
    };
    let route = cached("preset = \"wordpress\"", "");
    assert_eq!((Some(600), 60), (route.cache.default_ttl, route.cache.stale_while_revalidate));
    assert!(route.cache.private_cookies.iter().any(|it| it == "wordpress_logged_in_*"));
    let larder_semantics::key::QueryPolicy::Drop(drop) = &route.cache.key.query else {
        panic!("a list to drop")
    };
    assert!(drop.iter().any(|it| it == "utm_*"));
    assert_eq!("preset wordpress", route.decided.by("cache.private_cookies").to_string());
    assert_eq!("t.toml:7", route.decided.by("cache.preset").to_string());

    let own = cached("preset = \"wordpress\", default_ttl = \"5s\", private_cookies = \"x\"", "");
    assert_eq!((Some(5), vec!["x".to_owned()]), (own.cache.default_ttl, own.cache.private_cookies));
    assert_eq!("t.toml:7", own.decided.by("cache.default_ttl").to_string());
    let general = cached("preset = \"django\"", "cache.default_ttl = \"7s\"");
    assert_eq!(Some(7), general.cache.default_ttl);
    let keep = cached("preset = \"rails\", key = { keep = \"page\" }", "");
    assert!(matches!(keep.cache.key.query, larder_semantics::key::QueryPolicy::Keep(_)));
    let every = cached("enabled = true", "cache.preset = \"laravel\"");
    assert_eq!("*", every.cache.private_cookies[0]);
    assert!(every.cache.ignored_cookies.iter().any(|it| it == "XSRF-TOKEN"));
    refuse(
        "cache.preset = \"word\"",
        "t.toml:1: cache.preset: found \"word\"; allowed: one of \"wordpress\", \"drupal\", \"django\", \"rails\", \"laravel\", \"node\", \"flask\", \"php\", \"nextjs\"",
    );
}

#[test]
fn every_preset_is_sound() {
    for (name, preset) in crate::presets::NAMES.iter().zip(&crate::presets::PRESETS) {
        assert_eq!(*name, preset.name);
        for (key, text) in preset.values {
            let row = table::find(&format!("{}{key}", table::ROUTE_CACHE))
                .unwrap_or_else(|| panic!("{name}: {key}"));
            assert!(row.kind.parse(text).is_ok(), "{name}: {key}");
        }
        let config = read(&format!("cache.preset = \"{name}\"\n{SITE}")).unwrap();
        assert!(!config.sites[0].routes[0].cache.private_cookies.is_empty(), "{name}");
    }
}

/// With one key for all hosts, a page behind rules of access would be a hit on another site.
#[test]
fn a_namespace_for_all_hosts_is_not_for_pages_behind_access() {
    let text = |fleet: &str, route: &str, site: &str| {
        format!(
            "cache.fleet.servers = [\"127.0.0.1:11211\"]\n{fleet}\n[[site]]\nhosts = [\"a\"]\n[[site.route]]\nname = \"r\"\nproxy.to = \":1\"\n{route}\n{site}"
        )
    };
    let other = "[[site]]\nhosts = [\"b\"]\n[[site.route]]\nproxy.to = \":1\"\n";
    let named = "cache.fleet.namespace = \"shop\"";
    for rule in [
        "allow = [\"10.0.0.0/8\"]",
        "deny = [\"10.0.0.1\"]",
        "allow_when = 'method == \"GET\"'",
        "basic.users = [\"u:$2y$05$abIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f7/FuA2/mHZFpe\"]\naccess.shared = true",
    ] {
        let rule = format!("access.{rule}");
        let why = read(&text(named, &rule, other)).map(drop).unwrap_err().to_string();
        assert!(why.contains("t.toml:2: cache.fleet.namespace: all hosts would have the same keys, so that pages of the route \"r\""), "{why}");
    }
    let allow = "access.allow = [\"10.0.0.0/8\"]";
    for (fleet, route, site) in [
        (named, "", other),
        (
            named,
            "access.basic.users = [\"u:$2y$05$abIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f7/FuA2/mHZFpe\"]",
            other,
        ),
        (named, "access.limit.rate = \"9/s\"", other),
        (named, allow, ""),
        ("", allow, other),
        (named, &*format!("{allow}\ncache.tiers = [\"ram\"]"), other),
        (named, &*format!("{allow}\ncache.enabled = false"), other),
    ] {
        read(&text(fleet, route, site)).map(drop).unwrap_or_else(|it| panic!("{route}: {it}"));
    }
}
