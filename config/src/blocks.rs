//! Named blocks: `[block.NAME]` has keys of a route, and `use = ["NAME"]` gives them to a route, or to all routes of a
//! site, each unless it is set nearer to the route.

use super::kind::{BLOCK, ConfigValue, is_block_name};
use super::problem::{Problem, Source, nearest};
use super::read::Values;
use std::collections::{BTreeMap, BTreeSet};

/// The sections of a route of which it has exactly one: a nearer one replaces another.
const SERVICES: [&str; 10] =
    ["proxy", "files", "redirect", "respond", "php", "fastcgi", "scgi", "uwsgi", "cgi", "sql"];

/// The part of a path that is given as a whole: up to the first list of sections.
fn unit(rest: &str) -> &str {
    rest.split('[').next().unwrap_or(rest)
}

/// The service to which a key of a route belongs, if any.
pub(crate) fn service(unit: &str) -> Option<&'static str> {
    let top = unit.split('.').next().unwrap_or(unit);
    SERVICES.into_iter().find(|it| *it == top)
}

/// The service of a section with these units. `php` has precedence: keys of `proxy` and `files` refine it.
pub(crate) fn service_of<'u>(units: impl Iterator<Item = &'u str> + Clone) -> Option<&'static str> {
    let all = || units.clone().filter_map(service);
    all().find(|it| *it == "php").or_else(|| all().next())
}

/// Whether keys of the service `other` hold in a section with the service `has`.
pub(crate) fn fits(other: &str, has: &str) -> bool {
    other == has || has == "php" && matches!(other, "proxy" | "files")
}

/// Gives every route the keys of its blocks: the later block of a list wins over the earlier, the route's own list over its
/// site's, and a key that is set in the route, or in the site, over those of the site's list.
pub fn apply(values: &mut Values) {
    let mut blocks = BlockUse::of(values);
    for site in 0..values.count("site") {
        let of_site = format!("site[{site}].");
        let shared = blocks.names(values, &of_site);
        for route in 0..values.count(&format!("{of_site}route")) {
            let at = format!("{of_site}route[{route}].");
            let own = blocks.names(values, &at);
            if own.is_empty() && shared.is_empty() {
                continue;
            }
            let mut set = units(values, &at);
            own.iter().rev().for_each(|it| give(values, it, &[&at], &mut set));
            let by_site = units(values, &of_site).into_iter();
            set.extend(by_site.filter(|it| it != "route"));
            if matches!(values.given.get(&format!("{at}access.inherit")), Some((ConfigValue::Bool(false), _)))
            {
                let of_rules = |it: &String| it == "access" || it.starts_with("access.");
                for block in shared.iter().map(|it| format!("{BLOCK}.{it}.")) {
                    // With the sections, which would be empty without their keys.
                    let sections = beneath(&values.sections, &block).map(|it| unit(it).to_owned());
                    set.extend(units(values, &block).into_iter().chain(sections).filter(of_rules));
                }
            }
            shared.iter().rev().for_each(|it| give(values, it, &[&at, &of_site], &mut set));
        }
    }
    blocks.warn_of_unused(values);
}

/// The keys that are set beneath `prefix`.
fn units(values: &Values, prefix: &str) -> BTreeSet<String> {
    let given = beneath(&values.given, prefix).map(|it| unit(it).to_owned());
    let lists = beneath(&values.sections, prefix).filter(|it| it.contains('[')).map(|it| unit(it).to_owned());
    given.chain(lists).collect()
}

/// The rests of the paths of a map that begin with `prefix`.
pub(crate) fn beneath<'v, V>(
    map: &'v BTreeMap<String, V>,
    prefix: &str,
) -> impl Iterator<Item = &'v str> + use<'v, V> {
    let prefix = prefix.to_owned();
    map.range(prefix.clone()..).map_while(move |it| it.0.strip_prefix(prefix.as_str()))
}

/// The lists of fields that are not passed on: those of a route are added to those of its blocks and its site, as its tables are.
pub(crate) const REMOVED_FIELDS: [&str; 2] = ["request_headers.remove", "response_headers.remove"];

/// A table of a block, or a list of removed fields, with that of the route: such values are added up, as those of a site and its routes
/// are, without the rows and names about which `nearer` has a rule. `None` for other values.
fn added(values: &Values, value: &ConfigValue, rest: &str, nearer: &[&str]) -> Option<ConfigValue> {
    let given = |at: &str, key: &str| values.given.get(&format!("{at}{key}")).map(|it| &it.0);
    if let ConfigValue::Texts(names) = value {
        let own = match given(nearer[0], rest) {
            _ if !REMOVED_FIELDS.contains(&rest) => return None,
            Some(ConfigValue::Texts(own)) => own.clone(),
            Some(_) => return None,
            None => Vec::new(),
        };
        let is_new = |name: &&String| !own.iter().any(|it| it.eq_ignore_ascii_case(name));
        return Some(ConfigValue::Texts(names.iter().filter(is_new).chain(&own).cloned().collect()));
    }
    let ConfigValue::Pairs(rows) = value else { return None };
    let (of_rows, of_lists) = (nearer.iter(), nearer.iter());
    let known = of_rows.filter_map(|it| match given(it, rest) {
        Some(ConfigValue::Pairs(rows)) => Some(rows.iter().map(|it| &it.0)),
        _ => None,
    });
    let removes = rest.rsplit_once('.').map_or(String::new(), |it| format!("{}.remove", it.0));
    let removed = of_lists.filter_map(|it| match given(it, &removes) {
        Some(ConfigValue::Texts(names)) if REMOVED_FIELDS.contains(&&*removes) => Some(names),
        _ => None,
    });
    let known: Vec<_> = known.flatten().chain(removed.flatten()).collect();
    let is_new = |name: &str| !known.iter().any(|it| it.eq_ignore_ascii_case(name));
    let new = rows.iter().filter(|it| is_new(&it.0)).cloned();
    let own = match given(nearer[0], rest) {
        Some(ConfigValue::Pairs(rows)) => rows.clone(),
        Some(_) => return None,
        None => Vec::new(),
    };
    Some(ConfigValue::Pairs(new.chain(own).collect()))
}

/// Gives the route at the first of `nearer` the keys of a block, except those in `set` and those of another service. The keys
/// of all of `nearer` are set nearer to the route than the block.
fn give(values: &mut Values, name: &str, nearer: &[&str], set: &mut BTreeSet<String>) {
    let at = nearer[0];
    let from = format!("{BLOCK}.{name}.");
    let tables: Vec<(String, ConfigValue)> = beneath(&values.given, &from)
        .filter_map(|rest| {
            let value = added(values, &values.given[&format!("{from}{rest}")].0, rest, nearer)?;
            Some((rest.to_owned(), value))
        })
        .collect();
    for (rest, value) in tables {
        let source = values.given[&format!("{from}{rest}")].1.clone();
        values.given.entry(format!("{at}{rest}")).or_insert((ConfigValue::Wrong, source)).0 = value;
        set.insert(unit(&rest).to_owned());
    }
    let has = service_of(set.iter().map(String::as_str));
    let is_free = |rest: &&str| {
        let unit = unit(rest);
        !set.contains(unit) && has.is_none_or(|has| service(unit).is_none_or(|it| fits(it, has)))
    };
    let keys: Vec<String> = beneath(&values.given, &from).filter(is_free).map(str::to_owned).collect();
    let sections: Vec<String> = beneath(&values.sections, &from).filter(is_free).map(str::to_owned).collect();
    for rest in sections {
        let source = values.sections[&format!("{from}{rest}")].clone();
        values.sections.entry(format!("{at}{rest}")).or_insert(source);
        if rest.contains('[') {
            set.insert(unit(&rest).to_owned());
        }
    }
    for rest in keys {
        let value = values.given[&format!("{from}{rest}")].clone();
        values.given.insert(format!("{at}{rest}"), value);
        set.insert(unit(&rest).to_owned());
    }
}

/// The blocks of a configuration, and which of them are used.
struct BlockUse {
    known: BTreeMap<String, Source>,
    used: BTreeSet<String>,
}

impl BlockUse {
    fn of(values: &Values) -> Self {
        let known = beneath(&values.sections, &format!("{BLOCK}.")).filter(|it| is_block_name(it));
        let known =
            known.map(|it| (it.to_owned(), values.sections[&format!("{BLOCK}.{it}")].clone())).collect();
        Self { known, used: BTreeSet::new() }
    }

    /// The existing blocks that `use` beneath `prefix` names; another name is an error.
    fn names(&mut self, values: &mut Values, prefix: &str) -> Vec<String> {
        let Some((ConfigValue::Texts(names), source)) = values.given.get(&format!("{prefix}use")).cloned()
        else {
            return Vec::new();
        };
        let key = if prefix.contains("route[") { "site.route.use" } else { "site.use" };
        let mut found = Vec::new();
        for name in names {
            if self.known.contains_key(&name) {
                self.used.insert(name.clone());
                found.push(name);
                continue;
            }
            let help = match nearest(&name, self.known.keys().map(String::as_str)) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("add a section [{BLOCK}.{name}]"),
            };
            let text = format!("there is no block \"{name}\"; {help}");
            values.problems.push(Problem { source: source.clone(), key: key.to_owned(), text });
        }
        found
    }

    fn warn_of_unused(self, values: &mut Values) {
        for (name, source) in self.known.iter().filter(|it| !self.used.contains(it.0)) {
            let text =
                format!("the block is not used; add use = [\"{name}\"] to a site or a route, or remove it");
            values.warnings.push(Problem { source: source.clone(), key: format!("{BLOCK}.{name}"), text });
        }
    }
}
