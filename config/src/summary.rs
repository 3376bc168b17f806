//! The change from one configuration to another in one line, by the names of keys, sites and routes: no value is shown.

use crate::edit::{PathStep, steps};
use crate::kind::ConfigValue;
use crate::read::Values;
use std::collections::{BTreeMap, HashMap};

/// The most keys of a section, and sections, that a line names; the number of further ones follows.
const NAMED: usize = 4;
/// The most characters of the name of a section.
const NAME: usize = 60;

/// A member of a list of sections: kind and name, with those around it. The top of the file is empty.
type SectionName = Vec<(String, String)>;

/// The keys of one section.
#[derive(Default)]
struct SectionKeys<'v> {
    keys: BTreeMap<String, &'v ConfigValue>,
    /// Its numbers in the lists.
    place: Vec<usize>,
}

/// The change from `old` to `new`: `3 keys: route /blog: cache.default_ttl; admin.hosts; +1 route`, or that no key changed.
#[must_use]
pub fn summary(old: &Values, new: &Values) -> String {
    let (old, new) = (sections(old), sections(new));
    let (mut count, mut parts) = (0, Vec::new());
    for (name, section) in &new {
        let Some(before) = old.get(name) else { continue };
        let is_changed = |key: &&String| section.keys.get(*key) != before.keys.get(*key);
        let mut keys: Vec<&String> =
            section.keys.keys().chain(before.keys.keys()).filter(is_changed).collect();
        keys.sort();
        keys.dedup();
        count += keys.len();
        let place = place_of(name, new.keys().filter(|it| it.len() == 1 && it[0].0 == "site").count());
        let shown: Vec<&str> = keys.iter().take(NAMED).map(|it| it.as_str()).collect();
        let more = keys.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        if !shown.is_empty() {
            parts.push(format!("{place}{}{more}", shown.join(", ")));
        }
    }
    for (sign, all, others) in [('+', &new, &old), ('−', &old, &new)] {
        // A route of a new site is not counted again.
        let is_first = |it: &&SectionName| {
            !others.contains_key(*it) && (1..it.len()).all(|end| others.contains_key(&it[..end]))
        };
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for it in all.keys().filter(is_first) {
            *kinds.entry(it.last().map_or("", |it| &it.0)).or_default() += 1;
        }
        parts.extend(
            kinds
                .iter()
                .map(|(kind, count)| format!("{sign}{count} {kind}{}", if *count == 1 { "" } else { "s" })),
        );
    }
    if order(&old, &new) != order(&new, &old) {
        parts.push("order of sections".to_owned());
    }
    let more = parts.len().saturating_sub(NAMED);
    parts.truncate(NAMED);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    match (count, parts.is_empty()) {
        (0, true) => "no key changed".to_owned(),
        (0, false) => format!("{}{more}", parts.join("; ")),
        (1, _) => format!("1 key: {}{more}", parts.join("; ")),
        (count, _) => format!("{count} keys: {}{more}", parts.join("; ")),
    }
}

/// The sections with their keys; that of the keys at the top of the file has no name.
fn sections(values: &Values) -> BTreeMap<SectionName, SectionKeys<'_>> {
    let mut paths: Vec<(Vec<usize>, &str)> =
        values.sections.keys().filter(|it| it.ends_with(']')).map(|it| (numbers(it), &**it)).collect();
    // Those around a section come before it.
    paths.sort();
    let (mut names, mut seen): (HashMap<&str, SectionName>, HashMap<SectionName, usize>) = Default::default();
    let mut all: BTreeMap<SectionName, SectionKeys<'_>> = BTreeMap::new();
    for (place, path) in paths {
        let list = path.rfind('[').map_or(path, |it| &path[..it]);
        let (around, kind) = match list.rfind(']') {
            Some(end) => (names.get(&list[..=end]).cloned().unwrap_or_default(), &list[end + 2..]),
            None => (Vec::new(), list),
        };
        let own =
            own_name(values, path).unwrap_or_else(|| format!("#{}", place.last().map_or(0, |it| it + 1)));
        let mut name = around;
        name.push((kind.to_owned(), own));
        let twin = seen.entry(name.clone()).or_default();
        *twin += 1;
        if let Some(last) = name.last_mut().filter(|_| *twin > 1) {
            last.1.push_str(&format!(" #{twin}"));
        }
        names.insert(path, name.clone());
        all.entry(name).or_default().place = place;
    }
    for (path, (value, _)) in &values.given {
        let (section, key) = match path.rfind(']') {
            Some(end) => (
                names.get(&path[..=end]).cloned().unwrap_or_default(),
                path.get(end + 2..).unwrap_or_default(),
            ),
            None => (Vec::new(), &**path),
        };
        all.entry(section).or_default().keys.insert(key.to_owned(), value);
    }
    all
}

/// The numbers of a path.
fn numbers(path: &str) -> Vec<usize> {
    let number = |it: PathStep| match it {
        PathStep::At(number) => Some(number),
        PathStep::Name(_) => None,
    };
    steps(path).into_iter().filter_map(number).collect()
}

/// The name of the section at `path`, by its keys.
fn own_name(values: &Values, path: &str) -> Option<String> {
    let value = |key: &str| values.given.get(&format!("{path}.{key}")).map(|it| &it.0);
    ["name", "hosts", "path"].iter().find_map(|key| match value(key)? {
        ConfigValue::Text(it) => Some(it.chars().take(NAME).collect()),
        ConfigValue::Texts(all) => all.first().map(|it| it.chars().take(NAME).collect()),
        _ => None,
    })
}

/// A section in front of a key. The only site needs no name.
fn place_of(name: &[(String, String)], sites: usize) -> String {
    let is_shown = |it: &&(String, String)| it.0 != "site" || sites > 1 || name.len() == 1;
    let shown = name.iter().filter(is_shown).map(|(kind, own)| match &**kind {
        "site" => own.clone(),
        kind => format!("{kind} {own}"),
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { String::new() } else { format!("{}: ", shown.join(" ")) }
}

/// The sections of `all` that `others` has as well, in their order.
fn order<'a>(
    all: &'a BTreeMap<SectionName, SectionKeys<'_>>,
    others: &BTreeMap<SectionName, SectionKeys<'_>>,
) -> Vec<&'a SectionName> {
    let mut common: Vec<_> = all.iter().filter(|it| others.contains_key(it.0)).collect();
    common.sort_by_key(|it| (it.0.iter().map(|it| &it.0).collect::<Vec<_>>(), &it.1.place));
    common.into_iter().map(|it| it.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const OLD: &str = "listen = [\"127.0.0.1:80\"]\nadmin.hosts = [\"a\"]\n[[site]]\nhosts = [\"example.com\"]\n[[site.route]]\npath = \"/blog\"\n\
                       proxy.to = \"http://a\"\ncache.default_ttl = \"1m\"\n[[site.route]]\npath = \"/*\"\nproxy.to = \"http://a\"\n";

    #[track_caller]
    fn check(edit: impl Fn(String) -> String, expect: &str) {
        let values = |text: &str| Values::read(text, "larder.toml", Path::new("."));
        assert_eq!(expect, summary(&values(OLD), &values(&edit(OLD.to_owned()))));
    }

    #[test]
    fn a_summary_names_the_changed_keys() {
        check(|it| it, "no key changed");
        check(|it| format!("# comment\n{it}"), "no key changed");
        check(|it| it.replace("1m", "2m"), "1 key: route /blog: cache.default_ttl");
        check(
            |it| it.replace("1m", "2m").replace("[\"a\"]", "[\"b\"]"),
            "2 keys: admin.hosts; route /blog: cache.default_ttl",
        );
        check(
            |it| it.replace("\"1m\"", "\"2m\"\ncache.stale_if_error = \"1h\"").replace("[\"a\"]", "[\"b\"]"),
            "3 keys: admin.hosts; route /blog: cache.default_ttl, cache.stale_if_error",
        );
        let route = "access.deny = [\"::1\"]\nmethods = [\"GET\"]\nbody_size = \"1MiB\"\nbody_timeout = \"5s\"\nwrite_timeout = \"5s\"\n";
        check(
            |it| it.replacen("cache.default", &format!("{route}cache.default"), 1),
            "5 keys: route /blog: access.deny, body_size, body_timeout, methods, 1 more",
        );
        let more = "[[site.route]]\npath = \"/x\"\nproxy.to = \"http://b\"\n";
        check(|it| it + more, "+1 route");
        check(|it| it.replace("1m", "2m") + more, "1 key: route /blog: cache.default_ttl; +1 route");
        check(|it| it.replace("\"/blog\"", "\"/news\""), "+1 route; −1 route");
        let site = "[[site]]\nhosts = [\"b\"]\n[[site.route]]\npath = \"/*\"\nproxy.to = \"http://b\"\n";
        check(
            |it| it.replace("1m", "2m") + site,
            "1 key: example.com route /blog: cache.default_ttl; +1 site",
        );
        check(|it| it[..it.find("[[site.route]]").unwrap()].to_owned(), "−2 routes");
        let token = "[[admin.tokens]]\nname = \"g\"\nrole = \"viewer\"\ntoken = \"0123456789abcdefghijklmnopqrstuvwxyz\"\n";
        check(|it| it.replace("[[site]]", &format!("{token}[[site]]")), "+1 admin.tokens");
        let route = |path: &str| {
            OLD[OLD.find(&format!("[[site.route]]\npath = \"{path}\"")).unwrap()..]
                .split("\n[[")
                .next()
                .unwrap()
                .to_owned()
                + "\n"
        };
        let swapped = format!(
            "{}{}{}",
            &OLD[..OLD.find("[[site.route]]").unwrap()],
            route("/*").trim_end_matches('\n'),
            "\n"
        ) + &route("/blog");
        check(|_| swapped.clone(), "order of sections");
    }
}
