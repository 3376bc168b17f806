//! The messages about keys that the table lacks, and about texts that are not TOML. The reading is in `read`.

use super::foreign;
use super::key_path::dotted;
use super::kind::BLOCK;
use super::problem::nearest;
use super::table::{self, ROUTE, SITE};
use std::collections::HashSet;

/// The message for an unknown key: the key for a word of another server, otherwise the most similar one.
pub fn key(pattern: &str) -> String {
    let (section, name) = match pattern.rfind('.') {
        Some(dot) => (&pattern[..=dot], &pattern[dot + 1..]),
        None => ("", pattern),
    };
    let known: Vec<String> = table::patterns().collect();
    let child = |it: &str, section: &str| -> Option<String> {
        let rest = it.strip_prefix(section)?;
        Some(rest.split('.').next().unwrap_or(rest).trim_end_matches("[]").to_owned())
    };
    let mut siblings: Vec<String> = known.iter().filter_map(|it| child(it, section)).collect();
    let mut seen = HashSet::new();
    siblings.retain(|it| seen.insert(it.clone()));
    if section.is_empty() {
        siblings.push(BLOCK.to_owned());
    }
    let place = if section.is_empty() { "at the top level" } else { "here" };
    let listed = || format!("unknown key; known {place}: {}", siblings.join(", "));
    if let Some(move_it) = in_another_place(section, name, false) {
        return move_it;
    }
    match foreign::hint(section, name) {
        Some(hint) if hint.is_empty() => return listed(),
        Some(hint) => return format!("unknown key; {hint}"),
        None => {}
    }
    if let Some(move_it) = in_another_place(section, name, true) {
        return move_it;
    }
    if let Some(near) = nearest(name, siblings.iter().map(String::as_str)) {
        return format!("unknown key; did you mean `{}{near}`?", dotted(section));
    }
    // The right name in the wrong place: prefer a place below this section.
    let named = |it: &&String| it.rsplit('.').next() == Some(name);
    let mut elsewhere: Vec<&String> =
        known.iter().filter(|it| named(it) && it.starts_with(section)).collect();
    if elsewhere.is_empty() {
        elsewhere = known.iter().filter(named).collect();
        // An inherited key is also at the top level.
        elsewhere.truncate(1);
    }
    let is_near = |it: &String| it.strip_prefix(section).is_some_and(|it| it.matches('.').count() == 1);
    // One section below this one it is the intended key, unless it is one common word (size, path); such a word, or a name
    // in a distant section, may be another key: its sentence explains it.
    let nears: Vec<_> = elsewhere.iter().filter(|it| is_near(it)).collect();
    let is_plain = name.contains('_') || nears.len() == 1 && (section == ROUTE || section == SITE);
    if let Some(near) = nears.first().filter(|_| is_plain) {
        return format!("unknown key here; move it to `{}`", dotted(near));
    }
    if !elsewhere.is_empty() {
        return format!("unknown key here; {}", of_that_name(&elsewhere));
    }
    listed()
}

/// The sentence about a key or section that belongs one level higher or lower: a key of a site after its first route, say.
/// With `is_last`, keys of the whole file count, too.
fn in_another_place(section: &str, name: &str, is_last: bool) -> Option<String> {
    let has = |place: &str| {
        let path = format!("{place}{name}");
        table::find(&path).is_some() || table::is_section(&path) || table::is_section(&format!("{path}[]"))
    };
    let (site, route) = (has(SITE), has(ROUTE));
    let place = match section {
        _ if name == "site" => return None,
        "" | SITE if name == "route" => {
            return Some("unknown key; write [[site.route]], after its [[site]]".to_owned());
        }
        "" if is_last => return None,
        "" if site && route => "it belongs to a site or a route; move it into a [[site]] or a [[site.route]]",
        "" if site => "it belongs to a site; move it into a [[site]]",
        "" | SITE if route => "it belongs to a route; move it into a [[site.route]]",
        ROUTE if site => "it belongs to the site; move it above the first [[site.route]]",
        SITE | ROUTE if is_last && has("") => "it belongs to the whole file; move it above the first section",
        _ => return None,
    };
    Some(format!("unknown key here; {place}"))
}

/// Keys with the name of an unknown one, each with its effect.
fn of_that_name(keys: &[&String]) -> String {
    let told = keys.iter().map(|it| {
        let help = table::find(it).map_or("", |it| it.help);
        format!(
            "`{}` is a different key: {}",
            dotted(it),
            help.split(". ").next().unwrap_or(help).trim_end_matches('.')
        )
    });
    told.collect::<Vec<_>>().join("; ")
}

/// The sentence about a text that is not TOML; `spot` is the text at the error.
pub fn not_toml(message: &str, spot: &str) -> String {
    let name = spot.lines().next().unwrap_or_default().trim();
    match (message, name) {
        ("duplicate key", "site") => {
            "not TOML: duplicate key site; write [[site]] before its [[site.route]], and [site] nowhere"
                .to_owned()
        }
        ("duplicate key", name) if !name.is_empty() => {
            format!("not TOML: duplicate key {name}; it may stand once in its section")
        }
        _ => format!("not TOML: {message}"),
    }
}
