//! The messages about keys that the table lacks, and about texts that are not TOML. The reading is in `read`.

use super::foreign;
use super::key_path::dotted;
use super::kind::BLOCK;
use super::problem::nearest;
use super::table::{self, Key, ROUTE, SITE};
use std::collections::HashSet;
use std::ops::Range;
use toml_edit::{Item, TableLike};

/// A message about an unknown key.
pub struct UnknownKey {
    /// The end of its path, with a dot, if the word is a directive of another server whose name has a dot; otherwise empty.
    pub child: String,
    /// Its first byte in the text; `None` for that of the key.
    pub at: Option<usize>,
    /// The message.
    pub text: String,
}

/// The messages about a key that the table lacks: usually one; one for each known word below it where the key is the first half of
/// directives of lighttpd (`url.redirect`). `allows` says whether a key of the table allows its value.
pub fn keys(pattern: &str, item: &Item, allows: &dyn Fn(&Key) -> bool) -> Vec<UnknownKey> {
    let (section, name) = match pattern.rfind('.') {
        Some(dot) => (&pattern[..=dot], &pattern[dot + 1..]),
        None => ("", pattern),
    };
    let children = item.as_table_like().filter(|_| foreign::hint_here(section, name).is_none());
    let words = children.into_iter().flat_map(TableLike::iter).filter_map(|(child, item)| {
        let hint = foreign::hint(section, &format!("{name}_{child}"))?;
        let at = item.span().map(|it| it.start);
        Some(UnknownKey { child: format!(".{child}"), at, text: format!("unknown key; {hint}") })
    });
    let words: Vec<UnknownKey> = words.collect();
    match words.is_empty() {
        true => vec![UnknownKey { child: String::new(), at: None, text: message(section, name, allows) }],
        false => words,
    }
}

/// The message: the key for a word of another server, otherwise the most similar one of this section, otherwise those of the same
/// name one section below that allow its value.
fn message(section: &str, name: &str, allows: &dyn Fn(&Key) -> bool) -> String {
    let siblings = siblings(section);
    let place = if section.is_empty() { "at the top level" } else { "here" };
    let listed = || format!("unknown key; known {place}: {}", siblings.join(", "));
    let of_foreign = |hint: String| match hint.is_empty() {
        true => listed(),
        false => format!("unknown key; {hint}"),
    };
    let near = || {
        let near = nearest(name, siblings.iter().map(String::as_str))?;
        Some(format!("unknown key; did you mean `{}{near}`?", dotted(section)))
    };
    foreign::hint_here(section, name)
        .map(of_foreign)
        .or_else(|| in_another_place(section, name, false))
        .or_else(|| foreign::hint(section, name).map(of_foreign))
        .or_else(|| in_another_place(section, name, true))
        .or_else(near)
        .or_else(|| below(section, name, allows))
        .unwrap_or_else(listed)
}

/// The names of the keys and sections of a section.
fn siblings(section: &str) -> Vec<String> {
    let child = |it: String| -> Option<String> {
        let rest = it.strip_prefix(section)?;
        Some(rest.split('.').next().unwrap_or(rest).trim_end_matches("[]").to_owned())
    };
    let mut seen = HashSet::new();
    let mut all: Vec<String> =
        table::patterns().filter_map(child).filter(|it| seen.insert(it.clone())).collect();
    if section.is_empty() {
        all.push(BLOCK.to_owned());
    }
    all
}

/// The sentence about the keys of this name one section below that allow the value: a key in a distant section, or with values of
/// another kind, is another setting that happens to have the name.
fn below(section: &str, name: &str, allows: &dyn Fn(&Key) -> bool) -> Option<String> {
    let is_child = |it: &String| {
        it.strip_prefix(section).and_then(|it| it.split_once('.')).is_some_and(|it| it.1 == name)
    };
    let takes = |it: &String| table::find(it).is_some_and(allows);
    let found: Vec<String> = table::patterns().filter(is_child).filter(takes).collect();
    match found.as_slice() {
        [] => None,
        // A common word (size, path) may be another key outside of a site or a route: its effect is shown.
        [only] if name.contains('_') || section == ROUTE || section == SITE => {
            Some(format!("unknown key here; move it to `{}`", dotted(only)))
        }
        all => {
            let shown = all.iter().map(|it| {
                let help = table::find(it).map_or("", |it| it.help);
                let effect = help.split(". ").next().unwrap_or(help).trim_end_matches('.');
                format!("`{}`: {effect}", dotted(it))
            });
            Some(format!("unknown key here; known below: {}", shown.collect::<Vec<_>>().join("; ")))
        }
    }
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
        SITE if route && has("") => {
            "it belongs to a route or to the whole file; move it into a [[site.route]], above the first section, or, for every route of the \
             site, into a [block.NAME] that its `use` names"
        }
        "" | SITE if route => "it belongs to a route; move it into a [[site.route]]",
        ROUTE if site => "it belongs to the site; move it above the first [[site.route]]",
        SITE | ROUTE if is_last && has("") => "it belongs to the whole file; move it above the first section",
        _ => return None,
    };
    Some(format!("unknown key here; {place}"))
}

/// The sentence about a text that is not TOML, with its error in `span`.
pub fn not_toml(message: &str, text: &str, span: Range<usize>) -> String {
    let spot = text.get(span.clone()).unwrap_or_default();
    let name = spot.lines().next().unwrap_or_default().trim();
    let before = text.get(..span.start).unwrap_or_default();
    let line = text[before.rfind('\n').map_or(0, |it| it + 1)..].lines().next().unwrap_or_default().trim();
    match (message, name) {
        ("duplicate key", "site") => {
            "not TOML: duplicate key site; write [[site]] before its [[site.route]], and [site] nowhere"
                .to_owned()
        }
        ("duplicate key", name) if !name.is_empty() => {
            format!("not TOML: duplicate key {name}; it may stand once in its section")
        }
        _ => {
            let hint = match foreign::server_of(text) {
                Some(server) => format!(
                    "; this is a configuration of {server}: the guide \"Coming from nginx, Caddy, HAProxy, lighttpd or Apache\" \
                     (coming-from.md) has the keys of larder for its words"
                ),
                None if message.starts_with("missing escaped value") => {
                    "; in double quotes a backslash begins an escape: write the value in single quotes"
                        .to_owned()
                }
                None if message.starts_with("cannot extend value of type inline table") => {
                    "; a section in braces is complete: write the further keys within its braces".to_owned()
                }
                None if line.ends_with(';') => "; remove the \";\" at the end of the line".to_owned(),
                None => String::new(),
            };
            format!("not TOML: {message}{hint}")
        }
    }
}
