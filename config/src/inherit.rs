//! The layers of the settings of a route: every place that gives a key a value, the nearest first. The order is that of
//! `blocks` and `check`, which apply it; here it is listed, for forms that show what a route inherits.

use super::kind::{BLOCK, ConfigValue};
use super::problem::Source;
use super::read::Values;
use super::table::{self, KeyScope, ROUTE};
use super::{Setting, blocks, presets};
use std::collections::BTreeMap;

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingLayer {
    /// A flag of the command line.
    Flag(String),
    /// The section itself.
    Own,
    /// A block that the route uses.
    Block(String),
    /// The site of the route.
    Site,
    /// A block that the site uses.
    SiteBlock(String),
    /// `cache`, for all routes.
    EveryRoute,
    /// The preset of the route.
    Preset(&'static str),
}

impl SettingLayer {
    /// Its word, and the name of its block, preset or flag.
    #[must_use]
    pub fn label(&self) -> (&'static str, Option<&str>) {
        match self {
            SettingLayer::Flag(name) => ("flag", Some(name)),
            SettingLayer::Own => ("own", None),
            SettingLayer::Block(name) => ("block", Some(name)),
            SettingLayer::Site => ("site", None),
            SettingLayer::SiteBlock(name) => ("site-block", Some(name)),
            SettingLayer::EveryRoute => ("every-route", None),
            SettingLayer::Preset(name) => ("preset", Some(name)),
        }
    }
}

/// A value in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayeredValue {
    /// The layer.
    pub layer: SettingLayer,
    /// Its path in the configuration, such as `site[0].cors.origins`; `None` for the value of a flag or a preset.
    pub path: Option<String>,
    /// The value of a flag or a preset, in the notation of flags.
    pub text: Option<String>,
    /// The line of a value with a path.
    pub source: Source,
    /// Whether nearer values add to it, name by name, instead of replacing it.
    pub adds: bool,
}

/// The beginnings of the keys whose values of a site stay in force for names that the route does not set.
const ADDED_TO: [&str; 3] = ["request_headers.", "response_headers.", "error_pages"];

/// Whether nearer values of a key add to those of a layer: of blocks every table, of a site and its blocks fields and error pages.
fn adds(layer: &SettingLayer, key: &str, value: Option<&ConfigValue>) -> bool {
    match layer {
        SettingLayer::Site => ADDED_TO.iter().any(|it| key.starts_with(it)),
        SettingLayer::Block(_) | SettingLayer::SiteBlock(_) => {
            matches!(value, Some(ConfigValue::Pairs(_))) || blocks::REMOVED_FIELDS.contains(&key)
        }
        _ => false,
    }
}

/// The layers of each key, by its name within the section: `cache.default_ttl`, and `cache.rule` for a list of sections.
pub type SettingLayers = BTreeMap<String, Vec<LayeredValue>>;

/// The keys that a site or a block sets itself; `section` is `site[0]` or `block.NAME`.
#[must_use]
pub fn of_section(values: &Values, flags: &[Setting], section: &str) -> SettingLayers {
    let mut all = Collection { values, found: SettingLayers::new() };
    let prefix = format!("{section}.");
    all.flags(flags, &prefix);
    all.add(&prefix, &SettingLayer::Own, |it| it != "route" && !it.starts_with("route["));
    all.found
}

/// The keys that a route sets and inherits; `values` are those before blocks are applied.
#[must_use]
pub fn of_route(values: &Values, flags: &[Setting], site: usize, route: usize) -> SettingLayers {
    let of_site = format!("site[{site}].");
    let own = format!("{of_site}route[{route}].");
    let mut all = Collection { values, found: SettingLayers::new() };
    all.flags(flags, &own);
    all.add(&own, &SettingLayer::Own, |_| true);
    all.blocks(&own, SettingLayer::Block, |_| true);
    // Blocks of a site add to those of a route.
    let takes_access = !all.refuses_access();
    let inherited = |it: &str| {
        it != "use"
            && (takes_access || !it.starts_with("access."))
            && table::find(&format!("{ROUTE}{it}")).is_some()
    };
    all.add(&of_site, &SettingLayer::Site, inherited);
    all.blocks(&of_site, SettingLayer::SiteBlock, inherited);
    for row in table::rows().filter(|it| it.scope == KeyScope::EveryRoute) {
        if let Some((_, source)) = values.given.get(row.path) {
            all.push(row.path, SettingLayer::EveryRoute, row.path.to_owned(), source);
        }
    }
    all.preset();
    all.found
}

struct Collection<'v> {
    values: &'v Values,
    found: SettingLayers,
}

impl Collection<'_> {
    fn push(&mut self, key: &str, layer: SettingLayer, path: String, source: &Source) {
        let adds = adds(&layer, key, self.values.given.get(&path).map(|it| &it.0));
        let it = LayeredValue { layer, path: Some(path), text: None, source: source.clone(), adds };
        self.found.entry(key.to_owned()).or_default().push(it);
    }

    fn flags(&mut self, flags: &[Setting], prefix: &str) {
        for it in flags {
            let Some(key) = it.path.strip_prefix(prefix) else { continue };
            let layer = SettingLayer::Flag(it.flag.clone());
            let value = LayeredValue {
                layer,
                path: None,
                text: Some(it.text.clone()),
                source: Source::Default,
                adds: false,
            };
            self.found.entry(key.to_owned()).or_default().push(value);
        }
    }

    /// The keys beneath `prefix` that fulfil a condition, and the lists of sections.
    fn add(&mut self, prefix: &str, layer: &SettingLayer, takes: impl Fn(&str) -> bool) {
        let values = self.values;
        let given = blocks::beneath(&values.given, prefix).filter(|it| !it.contains('['));
        let lists = blocks::beneath(&values.sections, prefix).filter_map(|it| it.strip_suffix("[0]"));
        let keys: Vec<String> = given.chain(lists).filter(|it| takes(it)).map(str::to_owned).collect();
        for key in keys {
            let path = format!("{prefix}{key}");
            let of_value = values.given.get(&path).map(|it| &it.1);
            let source = of_value.or_else(|| values.sections.get(&format!("{path}[0]")));
            let source = source.cloned().unwrap_or_default();
            self.push(&key, layer.clone(), path, &source);
        }
    }

    /// Whether the route does not take the access rules of its site (`access.inherit`).
    fn refuses_access(&self) -> bool {
        let nearest = self.found.get("access.inherit").and_then(|it| it.first()?.path.as_ref());
        let value = nearest.and_then(|it| self.values.given.get(it)).map(|it| &it.0);
        matches!(value, Some(ConfigValue::Bool(false)))
    }

    /// The keys of the blocks that `use` beneath `prefix` names and that fulfil a condition, the last block first; none of another
    /// service.
    fn blocks(&mut self, prefix: &str, layer: fn(String) -> SettingLayer, takes: impl Fn(&str) -> bool) {
        let Some((ConfigValue::Texts(names), _)) = self.values.given.get(&format!("{prefix}use")) else {
            return;
        };
        for name in names.iter().rev() {
            let has = blocks::service_of(self.found.keys().map(String::as_str));
            let is_free = |it: &str| {
                has.is_none_or(|has| blocks::service(it).is_none_or(|other| blocks::fits(other, has)))
            };
            self.add(&format!("{BLOCK}.{name}."), &layer(name.clone()), |it| is_free(it) && takes(it));
        }
    }

    /// The values of the preset, unless the route or `cache` sets the key, or one that overrides it.
    fn preset(&mut self) {
        let nearest = self.found.get("cache.preset").and_then(|it| it.first());
        let name = match nearest.map(|it| (&it.path, &it.text)) {
            Some((Some(path), _)) => match self.values.given.get(path) {
                Some((ConfigValue::Text(name), _)) => name.clone(),
                _ => return,
            },
            Some((None, Some(text))) => text.clone(),
            _ => return,
        };
        let Some(preset) = presets::find(&name) else { return };
        let given: Vec<String> = self.found.keys().cloned().collect();
        let is_given = |it: &str| given.iter().any(|one| one.strip_prefix("cache.") == Some(it));
        for (key, text) in preset.values {
            let others = presets::YIELDS.iter().find(|it| it.0 == *key).map_or(&[][..], |it| it.1);
            if others.iter().any(|it| is_given(it)) {
                continue;
            }
            let layer = SettingLayer::Preset(preset.name);
            let value = LayeredValue {
                layer,
                path: None,
                text: Some((*text).to_owned()),
                source: Source::Default,
                adds: false,
            };
            self.found.entry(format!("cache.{key}")).or_default().push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TEXT: &str = r#"[cache]
default_ttl = "1m"
max_ttl = "1d"
[block.a]
client_ttl = "1m"
csp = "from-a"
files = { root = "/" }
[block.b]
client_ttl = "2m"
proxy = { connect_timeout = "1s" }
[[block.b.cache.rule]]
when = 'status == 404'
ttl = "1s"
[block.s]
csp = "from-s"
trace = 7
[[site]]
hosts = "*"
use = "s"
client_ttl = "3m"
csp = "from-site"
response_headers.set = { A = "1" }
[[site.route]]
path = "/x"
use = ["a", "b"]
csp = "own"
cache = { preset = "django", stale_while_revalidate = "9s" }
proxy = { to = ":1" }
response_headers.set = { B = "1" }
"#;

    /// The layers of a key, as words with their lines.
    fn label(layers: &SettingLayers, key: &str) -> String {
        let word = |it: &LayeredValue| {
            let (word, name) = it.layer.label();
            let name = name.map_or(String::new(), |it| format!(" {it}"));
            match &it.source {
                Source::Line { line, .. } => format!("{word}{name}:{line}"),
                _ => format!("{word}{name}"),
            }
        };
        layers.get(key).map_or(String::new(), |it| it.iter().map(word).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn layers_are_from_the_nearest_to_the_farthest() {
        let values = Values::read(TEXT, "t.toml", Path::new("."));
        assert!(values.problems.is_empty(), "{:?}", values.problems);
        let flag = Setting {
            path: "site[0].route[0].proxy.to".to_owned(),
            text: ":2".to_owned(),
            flag: "ORIGIN".to_owned(),
        };
        let layers = of_route(&values, &[flag], 0, 0);
        #[track_caller]
        fn check(layers: &SettingLayers, key: &str, expect: &str) {
            assert_eq!(expect, label(layers, key), "{key}");
        }
        check(&layers, "csp", "own:26, block a:6, site:21, site-block s:15");
        check(&layers, "client_ttl", "block b:9, block a:5, site:20");
        check(&layers, "trace", "site-block s:16");
        check(&layers, "proxy.to", "flag ORIGIN, own:28");
        check(&layers, "proxy.connect_timeout", "block b:10");
        check(&layers, "files.root", "");
        check(&layers, "cache.rule", "block b:11");
        check(&layers, "cache.default_ttl", "every-route:2, preset django");
        check(&layers, "cache.stale_while_revalidate", "own:27, preset django");
        check(&layers, "cache.private_cookies", "preset django");
        check(&layers, "hosts", "");
        check(&layers, "response_headers.set", "own:29, site:22");
        assert_eq!(
            vec![false, true],
            layers["response_headers.set"].iter().map(|it| it.adds).collect::<Vec<_>>()
        );
        assert!(layers["csp"].iter().all(|it| !it.adds));
        check(&layers, "use", "own:25");
        let site = of_section(&values, &[], "site[0]");
        assert_eq!(
            vec!["client_ttl", "csp", "hosts", "response_headers.set", "use"],
            site.keys().collect::<Vec<_>>()
        );
        assert_eq!("own:11", label(&of_section(&values, &[], "block.b"), "cache.rule"));
    }

    #[test]
    fn a_route_without_the_access_rules_of_its_site_inherits_none() {
        let text = "[block.b]\naccess.deny = [\"10.0.0.1\"]\ntrace = 7\n[[site]]\nhosts = \"*\"\nuse = \"b\"\naccess.allow = [\"10.0.0.0/8\"]\n\
            [[site.route]]\naccess.inherit = false\n[[site.route]]\n";
        let values = Values::read(text, "t.toml", Path::new("."));
        let layers = of_route(&values, &[], 0, 0);
        assert_eq!(["access.inherit", "trace"], layers.keys().map(String::as_str).collect::<Vec<_>>()[..]);
        let layers = of_route(&values, &[], 0, 1);
        assert_eq!(
            ("site:7", "site-block b:2"),
            (&*label(&layers, "access.allow"), &*label(&layers, "access.deny"))
        );
    }

    #[test]
    fn tables_of_blocks_and_fields_of_a_site_are_added_to() {
        let text = "[block.b]\nquery.set = { a = \"1\" }\nrequest_headers.remove = [\"A\"]\nquery.keep = [\"a\"]\n[[site]]\nhosts = \"*\"\n\
            request_headers.set = { S = \"s\" }\nclient_ttl = \"1m\"\n[[site.route]]\nuse = \"b\"\n";
        let values = Values::read(text, "t.toml", Path::new("."));
        let layers = of_route(&values, &[], 0, 0);
        let adding: Vec<_> = layers.iter().filter(|it| it.1[0].adds).map(|it| it.0.as_str()).collect();
        assert_eq!(["query.set", "request_headers.remove", "request_headers.set"], adding[..]);
    }

    /// The nearest layer is what the check takes.
    #[test]
    fn the_first_layer_is_in_force() {
        let config = super::super::Config::from_text(TEXT, "t.toml", Path::new("."), &[]).unwrap();
        let values = Values::read(TEXT, "t.toml", Path::new("."));
        let layers = of_route(&values, &[], 0, 0);
        let decided = &config.sites[0].routes[0].decided;
        let mut compared = 0;
        for (key, source) in decided.iter() {
            let name = key.strip_prefix(ROUTE).unwrap_or(key);
            let Some(first) = layers.get(name).map(|it| &it[0]) else {
                assert!(!key.starts_with(ROUTE), "{key} has no layer");
                continue;
            };
            match (&first.layer, source) {
                (SettingLayer::Preset(name), Source::Preset(other)) => assert_eq!(name, other, "{key}"),
                (_, source) => assert_eq!(&first.source, source, "{key}"),
            }
            compared += 1;
        }
        assert!(compared > 9, "{compared}");
    }
}
