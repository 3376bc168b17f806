//! The table of configuration keys. A row yields the check, the default, the suggestion for a misspelt key, the manual
//! (`docs/generated/config.md`) and the JSON schema for editors. The parser of a file is not here.

mod access;
mod admin;
mod answer;
mod cache;
mod cgi;
mod files;
mod listener;
mod phase;
mod php;
mod proxy;
mod site;
mod sql;
mod store;

pub use phase::RoutePhase;

use super::kind::{PathAccess, TextForm, ValueKind};
use super::presets;
use larder_semantics::policy::LONGEST_LIFETIME;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The places of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// Only at its path.
    Once,
    /// At `cache.NAME` as the default of every route, and at `site[].route[].cache.NAME` for one.
    EveryRoute,
    /// At `site[].route[].NAME`, and at `site[].NAME` as the default of the routes of a site.
    SiteAndRoute,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path; `[]` means "each of the list".
    pub path: &'static str,
    /// Its places.
    pub scope: KeyScope,
    /// The type, unit and range of its value.
    pub kind: ValueKind,
    /// The default, in the notation of a flag; `None` without one.
    pub default: Option<&'static str>,
    /// Its effect, for the manual.
    pub help: &'static str,
    /// A value in the notation of a file.
    pub example: &'static str,
    /// When a changed value takes effect.
    pub takes: Takes,
}

/// When a changed value of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// At the next reload.
    AtReload,
    /// At the next start; a reload that changes it keeps the old value, and takes over the rest.
    AtStart,
}

/// The prefix of every route key under `cache`.
pub const ROUTE_CACHE: &str = "site[].route[].cache.";

/// The prefix of the keys of a route.
pub const ROUTE: &str = "site[].route[].";
/// The prefix of the keys of a site.
pub const SITE: &str = "site[].";

/// The row of a pattern such as `cache.ram.size` or `site[].route[].cache.default_ttl`.
#[must_use]
pub fn find(pattern: &str) -> Option<&'static Key> {
    static ROWS: LazyLock<HashMap<String, &'static Key>> = LazyLock::new(|| {
        let mut all = HashMap::new();
        for it in rows() {
            let of_every = it.path.strip_prefix("cache.").filter(|_| it.scope == KeyScope::EveryRoute);
            let of_route = of_every.map(|rest| format!("{ROUTE_CACHE}{rest}"));
            for pattern in [Some(it.path.to_owned()), of_route, it.path_of_site()].into_iter().flatten() {
                all.entry(pattern).or_insert(it);
            }
        }
        all
    });
    ROWS.get(pattern).copied()
}

impl Key {
    /// Its path as the default of the routes of a site, for a row of [`KeyScope::SiteAndRoute`].
    #[must_use]
    pub fn path_of_site(&self) -> Option<String> {
        let rest = self.path.strip_prefix(ROUTE).filter(|_| self.scope == KeyScope::SiteAndRoute)?;
        Some(format!("{SITE}{rest}"))
    }
}

/// Whether `pattern` is a section: the beginning of some key's path.
#[must_use]
pub fn is_section(pattern: &str) -> bool {
    static SECTIONS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let of_key = |it: String| -> Vec<String> {
            let sections = it.match_indices('.').map(|(dot, _)| &it[..dot]);
            sections.flat_map(|it| [it, it.trim_end_matches("[]")]).map(str::to_owned).collect()
        };
        patterns().flat_map(of_key).collect()
    });
    SECTIONS.contains(pattern)
}

/// Every pattern of a key, including the per-route ones.
pub fn patterns() -> impl Iterator<Item = String> {
    let routes = rows().filter(|it| it.scope == KeyScope::EveryRoute);
    let routes =
        routes.filter_map(|it| it.path.strip_prefix("cache.").map(|rest| format!("{ROUTE_CACHE}{rest}")));
    let sites = rows().filter_map(Key::path_of_site);
    rows().map(|it| it.path.to_owned()).chain(routes).chain(sites)
}

const fn once(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::Once, kind, default, help, example, takes: Takes::AtReload }
}

/// The row of a key that requires a restart.
const fn start(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::Once, kind, default, help, example, takes: Takes::AtStart }
}

const fn each(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::EveryRoute, kind, default, help, example, takes: Takes::AtReload }
}

/// The row of a key of a route that its site may set for all its routes.
const fn both(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::SiteAndRoute, kind, default, help, example, takes: Takes::AtReload }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const LONGEST: u64 = LONGEST_LIFETIME as u64;

const fn size(least: u64, most: u64) -> ValueKind {
    ValueKind::Size { least, most }
}
const fn time(least: u64, most: u64) -> ValueKind {
    ValueKind::Time { least, most }
}
const fn integer(least: u64, most: u64) -> ValueKind {
    ValueKind::Integer { least, most }
}
const fn seconds(most: u64) -> ValueKind {
    ValueKind::Seconds { most }
}
const LEVEL: ValueKind = ValueKind::OneOf(&["debug", "info", "warn", "error", "off"]);
const LIFETIME: ValueKind = ValueKind::Seconds { most: LONGEST };
const LIFETIME_OR_OFF: ValueKind = ValueKind::SecondsOrOff { most: LONGEST };

/// The sections of the table, in the order of the manual.
const SECTIONS: &[&[Key]] = &[
    listener::ROWS,
    store::ROWS,
    cache::ROWS,
    admin::ROWS,
    site::ROWS,
    access::ROWS,
    answer::ROWS,
    proxy::ROWS,
    cgi::ROWS,
    files::ROWS,
    php::ROWS,
    sql::ROWS,
];

/// The rows of the table, in the order of the manual.
pub fn rows() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for key in rows() {
            assert!(key.help.ends_with('.'), "{}: a help is a sentence", key.path);
            assert_eq!(1, rows().filter(|it| it.path == key.path).count(), "{} twice", key.path);
            if let Some(default) = key.default {
                assert!(key.kind.parse(default).is_ok(), "{}: default {default}", key.path);
            }
        }
        assert_eq!("cache.default_ttl", find("site[].route[].cache.default_ttl").unwrap().path);
        assert!(find("site[].route[].cache.ram.size").is_none());
        assert!(is_section("site") && is_section("site[].route") && is_section("site[].route[].cache.key"));
        assert!(!is_section("sit") && !is_section("listen"));
    }
}
